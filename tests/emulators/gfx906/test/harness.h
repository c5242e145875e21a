/* Runs small programs on the interpreter through the HIP API, with code objects that are put
 * together here: no compiler is needed. A program is a list of lines, each an instruction as text
 * and as words; scripts/gfx906-words fills in the words, and the test compares them with
 * llvm-mc-19's where that is installed. */
#ifndef GFX906_TEST_HARNESS_H
#define GFX906_TEST_HARNESS_H
#include "tests/emulators/gfx906/gfx906.h"

#include <stddef.h>
#include <stdint.h>

struct line {
    const char *text;
    uint32_t word[2]; /* the second is 0 when there is none, and never 0 when there is */
    int n;            /* words */
};
#define ONE(text, a) {text, {a, 0}, 1}
#define TWO(text, a, b) {text, {a, b}, 2}

struct gpu {
    int (*alloc)(void **p, size_t bytes);
    int (*free)(void *p);
    int (*to_device)(void *dst, const void *src, size_t bytes);
    int (*to_host)(void *dst, void *src, size_t bytes);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*function)(void **f, void *module, const char *name);
    int (*launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
    int (*sync)(void);
    int (*reset)(void);
    int (*stats)(const char *name, struct gfx906_stats *out);
    void (*stats_reset)(void), (*fail_launch)(uint64_t n), (*lose_device)(uint64_t n),
        (*fail_alloc)(uint64_t n), (*step_limit)(uint64_t n);
    const char *(*last_fault)(void);
    void (*print_faults)(int on), (*portable_lanes)(int on);
};
extern struct gpu gpu;

/* What the kernel descriptor says; 0: 16 VGPRs, 48 SGPRs, no LDS, no scratch, one dimension, all
 * denormals. */
struct build {
    int vgprs, sgprs, lds, scratch, dimensions, flush_denormals;
};
enum { MAX_WORDS = 1024 };
struct code {
    uint32_t word[MAX_WORDS];
    int n;
};
void code_add(struct code *c, const struct line *lines, int n);
/* A code object with one kernel "test", whose arguments are two pointers, in s[0:1] their address,
 * in s2 the block's number; *bytes its size. The caller frees it. */
void *code_object(const struct code *c, const struct build *b, size_t *bytes);

/* Runs the kernel on a copy of IN and a zeroed OUT, which is read back. Returns what
 * hipDeviceSynchronize says, or the first error before. The device is reset before and stays as the
 * launch left it. */
int run_code(const struct code *c, const struct build *b, const void *in, size_t in_bytes,
             void *out, size_t out_bytes, const unsigned grid[3], const unsigned block[3]);

/* Results. */
extern int n_passed, n_failed, n_skipped;
void check(int ok, const char *what, ...) __attribute__((format(printf, 2, 3)));
void skip(const char *what);

/* The parts. */
void test_ops(void);
void test_programs(void);
void test_faults(void);
void test_api(void);
void test_compiled(const char *build_dir);
void test_words(void);
void test_kernel_counts(const char *build_dir);
/* The counts of all kernels for a linear IN x OUT, with tabs; 0, or 1 and a message. */
int print_counts(const char *build_dir, int in, int out);
/* The kernels of a build, loaded; NULL: there are none. */
void *gfx906_module(const char *build_dir);
/* Of attention; show: as a table, too. */
void test_attend_counts(const char *build_dir, int show);
void each_line(void (*f)(const struct line *l)); /* of all programs and rows */
void each_op_line(void (*f)(const struct line *l));
void each_program_line(void (*f)(const struct line *l));
void each_fault_line(void (*f)(const struct line *l));
void each_api_line(void (*f)(const struct line *l));
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#endif
