/* checkop.h: what the files of checkop share: a side (an opened backend), fenced device buffers,
 * comparison. checkop compares every variant of every operation of a backend with the reference, at
 * the level of struct backend, so that a new backend or variant is tested by the code that is here
 * already. Must not know: how any backend works inside. */
#ifndef TESTS_CHECKOP_H
#define TESTS_CHECKOP_H

#include "bench/batches.h"
#include "core/step/backend.h"

#include <stddef.h>
#include <stdint.h>

enum { MAX_VARIANTS = 64, NAME_BYTES = 200 };

struct variant {
    const struct backend *ops;
    const char *name;
    int agrees; /* promises the same bits as the other variants of its backend that do */
};

/* For the hip backend, from the command line. */
extern struct gpu_choice {
    const char *library;
    int device;
    /* --act i16, int8: the arithmetic in place of fp32, in which every variant has the bits of the
     * CPU's variant scalar; ACT_F32: none */
    enum act act;
} gpu;

/* be_config.own of the hip backend: the library of gpu, queries of so many fp16 parts; 0: as many
 * as by default. Valid until the program ends. */
const char *gpu_own(int query_halves);

/* 1 when name is one of the names between the commas of list. */
int listed(const char *list, const char *name);

/* 0 for operations that choose their arithmetic themselves, or are about others, with --act. */
int in_this_arithmetic(const char *op);

/* 1 when the variant has queries of one half (query_halves): the device runs the kernels for sm_90a.
 */
int takes_one_half(const struct variant *v);

/* 1 when the variant's backend has the operation. */
int has(const struct variant *v, const char *op);

struct tally {
    long n_cases;
    int n_failed; /* comparisons that failed */
    double worst; /* largest |got - expected| / bound */
};

/* One run of some operations over some variants. */
struct check {
    struct variant ref; /* what the others are compared with */
    struct variant v[MAX_VARIANTS];
    struct tally tally[MAX_VARIANTS]; /* of the current operation; [REF] is kept apart */
    struct tally ref_tally;           /* the reference against the harness's own plain arithmetic */
    int n;
    uint64_t seed;
    int quick; /* the small cases only */
    int quiet; /* failures are counted, not printed: a mutant is under test */
    int first; /* the first failure ends the operation */
    const char *op;
    enum act act; /* arithmetic of the linears under test */
};

enum { REF = -1 }; /* index of the reference where a variant's index is expected */

/* ---- random numbers: splitmix64, so that a case depends on seed and name alone ---- */
struct rng {
    uint64_t s;
};
struct rng rng_for(uint64_t seed, const char *name);
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n);
float rng_normal(struct rng *r); /* mean 0, variance 1, |x| < 6 */

/* ---- memory of one case: exact sizes, so that AddressSanitizer sees a read past the end ---- */
struct arena {
    void **block;
    size_t n, cap;
};
/* zeroed, 64-byte aligned; exits when there is none */
void *arena_get(struct arena *a, size_t bytes);
void arena_free(struct arena *a);

/* ---- rows of activations ---- */
enum row_kind { ROW_RANDOM, ROW_ONE_HOT, ROW_LARGE, ROW_ZERO, ROW_SPIKE, ROW_KINDS };
/* x[dim] of one kind; the hot element of a probe is `hot` % dim */
void fill_row(struct rng *r, enum row_kind kind, int hot, float *x, int dim);
/* x[rows][dim], kinds in turn from `first` on */
void fill_rows(struct rng *r, int first, float *x, int rows, int dim);

/* ---- a backend that is open, and its buffers ---- */
struct side {
    const struct backend *ops;
    struct be *be;
};
void side_open(struct side *s, const struct variant *v, int n_threads, struct be_config config);
void side_close(struct side *s);
struct be_config plain_config(int max_rows);

/* A device buffer between two fences. Fences and, until something is put there, the contents are
 * NaN: what is read without having been written, or from beyond the end, shows. */
struct dbuf {
    char *d; /* device address, 64-byte aligned */
    size_t bytes;
};
struct dbuf dbuf_new(struct side *s, size_t bytes);
struct dbuf dbuf_from(struct side *s, const void *src, size_t bytes);
void dbuf_get(struct side *s, const struct dbuf *b, void *dst); /* syncs */
int dbuf_fences_hold(struct side *s, const struct dbuf *b);
void dbuf_free(struct side *s, struct dbuf *b);

/* ---- operations over such buffers, compiled and run as a plan ---- */
enum { TRIAL_OPS = 24, TRIAL_BUFFERS = 32, TRIAL_WEIGHTS = 32, TRIAL_KVS = 2, TRIAL_STATES = 2 };

struct trial {
    struct op op[TRIAL_OPS];
    struct buffer buffer[TRIAL_BUFFERS];
    struct weight weight[TRIAL_WEIGHTS];
    struct kv_cache kv[TRIAL_KVS];
    struct state state[TRIAL_STATES];
    void *d_buffer[TRIAL_BUFFERS], *d_kv[TRIAL_KVS], *d_seat[TRIAL_KVS], *d_state[TRIAL_STATES],
        *d_kept[TRIAL_STATES];
    struct be_linear *linear[TRIAL_WEIGHTS];
    float *d_vector[TRIAL_WEIGHTS];
    int kept[TRIAL_BUFFERS]; /* 1: read after the run */
    int n_ops, n_buffers, n_weights, n_kvs, n_states;
};

/* Each appends to *t and returns the number. A buffer's last contents are kept unless `kept` is set
 * to 0; d may be within a device buffer. */
int trial_buffer(struct trial *t, void *d, enum rows_of rows, size_t row_bytes);
int trial_linear(struct trial *t, const struct linear *w, struct be_linear *packed);
int trial_vector(struct trial *t, void *d, int n);
int trial_kv(struct trial *t, void *d, int n_kv_heads, int head_dim);
/* d_kept: what seats keep of rows of drafts, of kept_bytes each */
int trial_state(struct trial *t, void *d, size_t bytes, void *d_kept, size_t kept_bytes);
/* The pointer is good for the life of *t. */
struct op *trial_op(struct trial *t, enum op_kind kind);
/* n linears of one input, weights and outputs as numbered from w and out on. */
struct op *trial_linears(struct trial *t, int in, int n, const int *w, const int *out);
/* cos, sin [rows][head_dim/2] of the batch's positions into two new buffers at d_cos and d_sin. */
struct op *trial_angles(struct trial *t, int inv_freq, int pairs, float scale, void *d_cos,
                        void *d_sin);
/* Compiles and runs everything on the batch; exits when the backend does not compile it. apart:
 * each operation is compiled by itself and waited for. */
void trial_run(struct trial *t, struct side *s, const struct batch *b, int apart);

/* ---- comparison ---- */
/* got, want, bound [rows][cols]; |got - want| <= bound for every element (equal where the bound is
 * 0) */
void compare(struct check *c, int v, const char *name, const char *what, const float *got,
             const float *want, const float *bound, size_t rows, size_t cols);
/* The same bits, n 4-byte elements; cols is for the message only. */
void compare_bits(struct check *c, int v, const char *name, const char *what, const void *got,
                  const void *want, size_t n, size_t cols);
/* Where variants promise the same bits: keeps the result of the first of v's backend in `kept` [n],
 * compares the others. */
void compare_variants(struct check *c, int v, const char *name, const char *what, float *kept,
                      const float *got, size_t n, size_t cols);
void compare_fences(struct check *c, int v, const char *name, const char *what, struct side *s,
                    const struct dbuf *b);
void fail(struct check *c, int v, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* 1 when a mutant, or what shall only fail, has failed: what is left to check says no more. */
int is_caught(const struct check *c);
/* Counts a case for variant v. */
void count_case(struct check *c, int v);
/* Whether the case that was counted last is repeated with 3 threads. A GPU has none of them, so
 * that there it would show what depends on memory that others left: with --quick, one case in four.
 */
int runs_again(const struct check *c, int v);

/* ---- batches: struct span and struct page_map are those of bench/batches.h ---- */
/* Room for n_ctx[i] positions each, page ids shuffled, some pages unused. */
struct page_map make_pages(struct arena *a, struct rng *r, const int *n_ctx, int n_seqs);
struct batch make_batch(struct arena *a, const struct page_map *m, const struct span *span, int n,
                        int n_decode);
/* rows without any past; the first n_decode are sequences of their own */
struct batch make_plain_batch(struct arena *a, int rows, int n_decode);

/* ---- the operations ---- */
void check_linear(struct check *c);
void check_linear_f16(struct check *c);
void check_linear_many(struct check *c);
void check_gptq(struct check *c); /* core/step/gptq.h */
void check_linear_i16(struct check *c);
void check_linear_int8(struct check *c);
void check_linear_int4(struct check *c);
void check_linear_token(struct check *c);
void check_paper(struct check *c);
void check_outlier(struct check *c);
void check_embed(struct check *c);
void check_norm(struct check *c);
void check_add(struct check *c);
void check_rope(struct check *c);
void check_attend(struct check *c);
void check_latent(struct check *c);
void check_choose(struct check *c);
void check_glu(struct check *c);
void check_softcap(struct check *c);
void check_sums(struct check *c);
void check_conv(struct check *c);
void check_delta(struct check *c);
void check_mamba(struct check *c); /* OP_DELTA with DELTA_SSM */
void check_scan(struct check *c);
void check_channels(struct check *c);
void check_gather(struct check *c);
void check_route(struct check *c);
void check_experts(struct check *c);
void check_mix(struct check *c);
void check_argmax(struct check *c);
void check_top(struct check *c);
void check_sample(struct check *c);
void check_score(struct check *c);
void check_fuse(struct check *c);

struct operation {
    const char *name;
    void (*check)(struct check *c);
};
extern const struct operation ops[]; /* ends with a NULL name */

/* Runs the checks of the operations listed (NULL: all) over backends that are broken on purpose,
 * built around v; each must be caught. Returns the number that were not; *n the number of mutants.
 */
int check_mutants(const struct check *c, const struct variant *v, const char *only, int *n);

/* Half a unit in the last place of fp32, relative: the error of one rounding. */
#define U 0x1p-24

#endif
