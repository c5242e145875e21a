/* What the gfx906 interpreter (build/tests/bin/libamdhip64-gfx906.so) offers beside the HIP API:
 * counts per kernel, limits, and injected failures. Found by dlsym like the rest of the library. A
 * test library: the same knobs are also read from the environment when the library is loaded:
 *   GFX906_FAIL_LAUNCH=N   launch N (the first is 1) fails with hipErrorLaunchFailure; the device
 *                          stays usable
 *   GFX906_LOSE_DEVICE=N   at launch N the device is lost: that launch and every later call fails
 *   GFX906_FAIL_ALLOC=N    allocation N (device and pinned host memory count together) fails: out
 *                          of memory
 *   GFX906_MEMORY_MIB=N    memory of the device (16384)
 *   GFX906_STEP_LIMIT=N    instructions that one wave may execute in one launch (2^28)
 *   GFX906_ONLY_COMPILED=1 the device refuses all code objects but those of this library's own
 *       hiprtc (rtc.c)
 *   GFX906_ONLY_GENERIC=1  the device refuses code objects for gfx906, not those for gfx9-generic
 *   GFX906_STATS=PATH      at exit the counts per kernel are written to PATH, one line each ("-":
 *                          stderr) */
#ifndef GFX906_H
#define GFX906_H
#include <stdint.h>

#define GFX906_API __attribute__((visibility("default")))

/* Sums over all launches of a kernel; instructions are counted once per wave. */
struct gfx906_stats {
    uint64_t launches, blocks, waves;
    uint64_t valu, salu, smem, vmem, lds, branch, other; /* instructions executed */
    uint64_t bytes_loaded,
        bytes_stored;       /* by active lanes of global, flat and buffer instructions */
    uint64_t bytes_scalar;  /* by scalar loads */
    uint64_t atomics;       /* active lanes of global atomics */
    uint64_t lds_bytes;     /* by active lanes, reads and writes */
    uint64_t lds_conflicts; /* cycles lost to banks: per group of lanes, deepest bank minus 1 */
    uint64_t barriers;      /* s_barrier, once per wave */
    uint64_t
        lanes_on; /* active lanes summed over VALU instructions; / (64 * valu) = use of the SIMD */
    uint32_t vgprs, sgprs, lds_size,
        scratch_size; /* allocated, of the last launch; LDS and scratch in bytes */
};

/* Counts of kernel NAME over all modules; 0, or -1 when no kernel of that name has been loaded. */
GFX906_API int gfx906_stats_get(const char *name, struct gfx906_stats *out);
/* lds_conflicts are counted from the first reset on, or with GFX906_STATS. */
GFX906_API void gfx906_stats_reset(void);
/* As the environment variables above; counting starts with this call. 0 takes the injection back.
 */
GFX906_API void gfx906_fail_launch(uint64_t n);
GFX906_API void gfx906_lose_device(uint64_t n);
GFX906_API void gfx906_fail_alloc(uint64_t n);
GFX906_API void gfx906_set_step_limit(uint64_t steps);
/* The lane operations for any processor instead of the ones for this one, for modules loaded from
 * now on. */
GFX906_API void gfx906_portable_lanes(int on);
/* The line of the last fault, "" when there was none since hipDeviceReset; and whether faults are
 * also printed. */
GFX906_API const char *gfx906_last_fault(void);
GFX906_API void gfx906_print_faults(int on);
#endif
