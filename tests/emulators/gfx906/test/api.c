/* The HIP front: errors of the host, injected failures, counts. */
#include "tests/emulators/gfx906/test/harness.h"

#include <stdlib.h>
#include <string.h>

enum {
    LAUNCH_FAILURE = 719,
    NO_MEMORY = 2,
    INVALID_VALUE = 1,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    UNKNOWN = 999
};

/* OUT[lane] = IN[lane] */
static const struct line copy[] = {
    TWO("s_load_dwordx4 s[4:7], s[0:1], 0x0", 0xc00a0100, 0x00000000),
    ONE("v_lshlrev_b32_e32 v1, 2, v0", 0x24020082),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_load_dword v2, v1, s[4:5]", 0xdc508000, 0x02040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("global_store_dword v1, v2, s[6:7]", 0xdc708000, 0x00060201),
    ONE("s_endpgm", 0xbf810000),
};

static int run_copy(void *f, void *in, void *out)
{
    struct {
        void *in, *out;
    } args = {in, out};
    size_t bytes = sizeof args;
    void *extra[] = {(void *)1, &args, (void *)2, &bytes, (void *)3};
    int rc = gpu.launch(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra);
    return rc ? rc : gpu.sync();
}

static void test_memory(void *f, void *in, void *out)
{
    uint32_t x[64];
    void *gone = NULL;
    check(gpu.to_device((char *)in + 4, x, 256) == INVALID_VALUE,
          "a copy beyond an allocation is refused");
    check(gpu.to_host(x, x, 4) == INVALID_VALUE, "a copy from a host address is refused");
    check(gpu.free((char *)in + 4) == INVALID_VALUE,
          "free of an address inside an allocation is refused");
    check(gpu.alloc(&gone, 256) == 0 && gpu.free(gone) == 0 && gpu.free(gone) == INVALID_VALUE,
          "free twice is refused");
    check(run_copy(f, gone, out) == LAUNCH_FAILURE &&
              strstr(gpu.last_fault(), "offset 0 of freed memory of 256 bytes"),
          "use after free: %s", gpu.last_fault());
    check(gpu.to_device(in, x, 4) == LAUNCH_FAILURE, "after a fault every call fails");
    gpu.reset();
    check(gpu.alloc(&gone, 17ull << 30) == NO_MEMORY && !gone, "more memory than there is");
    check(run_copy(f, in, out) == 0, "after a reset the device works");
}

static void test_injection(void *f, void *in, void *out)
{
    void *p = NULL;
    gpu.fail_launch(2);
    check(run_copy(f, in, out) == 0 && run_copy(f, in, out) == LAUNCH_FAILURE &&
              run_copy(f, in, out) == 0,
          "launch 2 fails, 1 and 3 do not");
    gpu.fail_alloc(1);
    check(gpu.alloc(&p, 256) == NO_MEMORY && gpu.alloc(&p, 256) == 0, "allocation 1 fails");
    gpu.free(p);
    gpu.lose_device(2);
    check(run_copy(f, in, out) == 0 && run_copy(f, in, out) == UNKNOWN &&
              run_copy(f, in, out) == UNKNOWN && gpu.alloc(&p, 4) == UNKNOWN,
          "the device is lost at launch 2");
    gpu.reset();
    check(run_copy(f, in, out) == 0, "after a reset the lost device is back");
}

static void test_counts(void *f, void *in, void *out)
{
    struct gfx906_stats s;
    gpu.stats_reset();
    run_copy(f, in, out);
    run_copy(f, in, out);
    check(gpu.stats("test", &s) == 0 && s.launches == 2 && s.blocks == 2 && s.waves == 2,
          "launches are counted");
    check(s.valu == 2 && s.smem == 2 && s.vmem == 4 && s.other == 6 && s.salu == 0 && s.lds == 0,
          "instructions are counted");
    check(s.bytes_loaded == 512 && s.bytes_stored == 512 && s.bytes_scalar == 32 &&
              s.lanes_on == 128,
          "bytes and lanes are counted");
    check(s.vgprs == 16 && s.sgprs == 48, "registers are told");
    check(gpu.stats("no such kernel", &s) == -1, "counts of an unknown kernel");
}

/* Lane l writes the LDS word at stride * l bytes: 4 has no conflict, with 8 two lanes meet in a
 * bank, with 128 all do. */
static const struct line strided[] = {
    TWO("ds_write_b32 v2, v0", 0xd81a0000, 0x00000002),
    ONE("s_endpgm", 0xbf810000),
};
static void test_conflicts(void)
{
    static const struct {
        unsigned stride;
        uint64_t lost;
    } t[] = {{4, 0}, {8, 2}, {16, 6}, {128, 62}, {132, 0}};
    for (int k = 0; k < COUNT(t); k++) {
        struct code code = {.n = 0};
        struct gfx906_stats s;
        uint32_t word = 0;
        code.word[code.n++] = 0x100400ff; /* v_mul_u32_u24 v2, literal, v0 */
        code.word[code.n++] = t[k].stride;
        code_add(&code, strided, COUNT(strided));
        gpu.stats_reset();
        int rc = run_code(&code, &(struct build){.lds = 16384}, &word, 4, &word, 4,
                          (const unsigned[]){1, 1, 1}, (const unsigned[]){64, 1, 1});
        check(rc == 0 && gpu.stats("test", &s) == 0 && s.lds_conflicts == t[k].lost,
              "bank conflicts with a stride of %u bytes: %d, wanted %d", t[k].stride,
              (int)s.lds_conflicts, (int)t[k].lost);
    }
}

/* What a code object must not be, and arguments that do not fit. */
static void test_loading(const void *good, size_t bytes, void *f)
{
    unsigned char *bad = malloc(bytes);
    void *module = NULL, *g = NULL;
    memcpy(bad, good, bytes);
    bad[48] = 0x30; /* ELF flags: gfx908 */
    check(gpu.load(&module, bad) == NO_BINARY, "a code object for another GPU is refused");
    memcpy(bad, good, bytes);
    bad[0] = 0;
    check(gpu.load(&module, bad) == 200, "what is no ELF file is refused");
    memcpy(bad, good, bytes);
    bad[256 + 20] = 0xc1; /* metadata */
    check(gpu.load(&module, bad) == 200, "damaged metadata is refused");
    check(gpu.load(&module, good) == 0 && gpu.function(&g, module, "nothing") == NOT_FOUND,
          "an unknown kernel");
    gpu.unload(module);
    size_t few = 8;
    void *extra[] = {(void *)1, bad, (void *)2, &few, (void *)3};
    check(gpu.launch(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra) == INVALID_VALUE,
          "too few bytes of arguments are refused");
    few = 16;
    check(gpu.launch(f, 1, 1, 1, 1024, 2, 1, 0, NULL, NULL, extra) == 9,
          "a block of 2048 threads is refused");
    check(gpu.launch(f, 1, 0, 1, 64, 1, 1, 0, NULL, NULL, extra) == 9, "an empty grid is refused");
    check(gpu.launch(f, 1, 1, 1, 64, 1, 1, 65537, NULL, NULL, extra) == 701,
          "more LDS than there is is refused");
    free(bad);
}

void test_api(void)
{
    struct code code = {.n = 0};
    uint32_t x[64], y[64];
    void *module = NULL, *f = NULL, *in = NULL, *out = NULL;
    size_t bytes;
    code_add(&code, copy, COUNT(copy));
    void *image = code_object(&code, &(struct build){0}, &bytes);
    gpu.reset();
    for (uint32_t k = 0; k < 64; k++) x[k] = 7 * k + 1;
    if (gpu.load(&module, image) || gpu.function(&f, module, "test") || gpu.alloc(&in, 256) ||
        gpu.alloc(&out, 256) || gpu.to_device(in, x, 256)) {
        check(0, "setting up a kernel");
        return;
    }
    check(run_copy(f, in, out) == 0 && gpu.to_host(y, out, 256) == 0 && !memcmp(x, y, 256),
          "a kernel copies 64 words");
    test_memory(f, in, out);
    test_injection(f, in, out);
    test_counts(f, in, out);
    test_loading(image, bytes, f);
    gpu.free(in);
    gpu.free(out);
    gpu.unload(module);
    free(image);
    test_conflicts();
}

void each_api_line(void (*f)(const struct line *l))
{
    for (int k = 0; k < COUNT(copy); k++) f(&copy[k]);
    for (int k = 0; k < COUNT(strided); k++) f(&strided[k]);
}
