/* checkop_fuse.c: fused = unfused, to the bit. Parts of a layer, as a model has them, are compiled
 * twice: as one plan, where a backend may fuse operations, and operation by operation, where it
 * cannot. All results that are read after the plan have the same bits in both: those of the last
 * operations always, the intermediate ones (normed rows, rotated queries, results of attention and
 * gating) in runs that keep them, and the pages of keys and values. A generated row by itself has
 * the bits that it has beside others. For the hip backend every pattern of backend-hip/hip_fuse.c
 * that the device has kernels for must have been launched.
 * Which result is good to which error is checked by the other operations of checkop. */
#include "tests/checkop/checkop.h"

#include "backend-hip/hip.h"
#include "core/base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum part {
    EMBED = 1,
    QKV = 2,
    ROPE = 4,
    ATTEND = 8,
    O = 16,
    MLP = 32,
    TAIL = 64,
    MOE = 256,
    STATES = 128, /* convolution, delta rule and norm of groups, whose result o reads */
    BLOCK = O | MLP,
    BLOCK_OF_EXPERTS = O | MOE,
    LAYER = QKV | ROPE | ATTEND | O | MLP,
    WHOLE = EMBED | LAYER | TAIL
};

enum buffers {
    B_X,
    B_COS,
    B_SIN,
    B_H1,
    B_Q,
    B_K,
    B_V,
    B_A,
    B_MIXED,
    B_CONV,
    B_DECAY,
    B_BETA,
    B_D1,
    B_H2,
    B_GATE,
    B_UP,
    B_SCORES,
    B_IDS,
    B_ROUTED,
    B_GATES,
    B_UPS,
    B_SLOTS,
    B_D2,
    B_H3,
    B_G,
    B_LOGITS,
    B_BEST,
    B_TOP,
    N_BUFFERS
};

static const char *const buffer_names[N_BUFFERS] = {"x",
                                                    "cos",
                                                    "sin",
                                                    "h of q, k, v",
                                                    "q",
                                                    "k",
                                                    "v",
                                                    "a",
                                                    "q, k, v of delta",
                                                    "result of conv",
                                                    "decay",
                                                    "beta",
                                                    "delta of o",
                                                    "h of gate, up",
                                                    "gate",
                                                    "up",
                                                    "scores of experts",
                                                    "ids of experts",
                                                    "weights of experts",
                                                    "gate of experts",
                                                    "up of experts",
                                                    "down of experts",
                                                    "delta of down",
                                                    "h of logits",
                                                    "gathered",
                                                    "logits",
                                                    "best",
                                                    "top"};

enum weights {
    W_Q,
    W_K,
    W_V,
    W_O,
    W_GATE,
    W_UP,
    W_DOWN,
    W_ROUTER,
    W_GATES,
    W_UPS,
    W_DOWNS,
    W_HEAD,
    W_TABLE,
    N_LINEARS
};
enum vectors {
    V_NORM1,
    V_NORM2,
    V_NORM3,
    V_Q_NORM,
    V_K_NORM,
    V_FREQ,
    V_SINKS,
    V_BIAS, /* of norms */
    V_CONV,
    V_DECAY,
    V_DT,
    N_VECTORS
};

/* The delta rule has the heads of attention as value heads, one key head, and a state of each
 * sequence; the convolution has a width of 4. */
enum { CONV_WIDTH = 4 };

/* Attributes of a case's operations. */
enum more {
    Q_NORM = 1,
    SINKS = 2,
    CENTERED = 4, /* norms */
    QUERIES = 8,  /* rotation of queries only */
    ADDED = 16,   /* an addition of its own in place of a norm's */
    SIGMOID = 32, /* activations of the MLP */
    CLAMPED = 64,
    ALONE = 128 /* one without `up` */
};

/* 4-bit: groups of 128 or of 32 inputs, fp32 scales; dense types */
enum format { Q4_128, Q4_32, Q4_F32, DENSE_F16, DENSE_BF16, DENSE_F32 };
enum order { IN_PLACE, ALIKE, OWN }; /* ALIKE: linears of one input have one permutation */
enum keep { KEEP_NONE, KEEP_ALL, KEEP_SOME, KEEPS };

static const char *const keep_names[KEEPS] = {"kept none", "kept all", "kept some"};
static const char *const format_names[] = {"4-bit", "4-bit of 32", "4-bit, f32 scales",
                                           "f16",   "bf16",        "f32"};
static const char *const order_names[] = {"", ", permuted", ", permuted each"};

enum { VOCAB = 80, MAX_SPANS = 12, MAX_PATTERNS = 32, EXPERTS = 7, TOP_K = 3 };

#define BIT(w) (1 << (w))

struct fuse_case {
    int quick, parts, dim, ffn;
    struct heads heads;
    enum kv_type kv;
    int window, n_qkv;         /* n_qkv: linears of the first norm; the other results are given */
    enum format format, other; /* linears in the set `others` have the format `other` */
    int others;
    enum order order;
    int more; /* set of enum more */
};

#define H64                                                                                        \
    {                                                                                              \
        4, 2, 64                                                                                   \
    }
#define H128                                                                                       \
    {                                                                                              \
        2, 1, 128                                                                                  \
    }
#define H36                                                                                        \
    {                                                                                              \
        4, 2, 36                                                                                   \
    }

static const struct fuse_case cases[] = {
    /* whole layers */
    {1, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, 0},
    {1, WHOLE, 256, 384, H128, KV_F16, 0, 3, Q4_128, DENSE_F16, BIT(W_DOWN), ALIKE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 40, 3, Q4_32, 0, 0, IN_PLACE, 0},
    {0, WHOLE, 256, 384, H128, KV_F16, 300, 3, Q4_128, 0, 0, OWN, 0},
    {0, WHOLE, 256, 384, H64, KV_F32, 0, 3, Q4_F32, 0, 0, ALIKE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, DENSE_F16, BIT(W_K) | BIT(W_UP), IN_PLACE, 1},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, DENSE_F16, Q4_128, BIT(W_O), IN_PLACE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, DENSE_BF16, Q4_128, BIT(W_Q) | BIT(W_GATE), IN_PLACE,
     0},
    {0, WHOLE, 250, 370, H36, KV_F32, 0, 3, DENSE_F32, Q4_32, BIT(W_GATE) | BIT(W_UP), ALIKE, 1},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, Q4_32, BIT(W_V) | BIT(W_UP), IN_PLACE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, Q4_128, BIT(W_HEAD), ALIKE, 0},
    /* attention without rotation before it, without a linear behind it, heads of other sizes */
    {1, ATTEND | O, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND | O, 256, 0, H36, KV_F32, 0, 0, Q4_32, 0, 0, ALIKE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H36, KV_F16, 20, 0, Q4_32, 0, 0, ALIKE, 0},
    {0, ROPE | ATTEND | O, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H128, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H128, KV_F32, 256, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 128, 0, {40, 8, 64}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    /* of all heads: a block merges 64 of 128 dimensions, 120 of 64, not more */
    {0, ROPE | ATTEND | O, 64, 0, {64, 8, 128}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {66, 6, 128}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {120, 2, 64}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {122, 2, 64}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    /* attributes that the kernels of several operations lack */
    {1, WHOLE, 256, 384, H64, KV_F16, 40, 3, Q4_128, 0, 0, IN_PLACE, SINKS | CLAMPED},
    {0, WHOLE, 256, 384, H128, KV_F16, 0, 3, Q4_128, 0, 0, ALIKE, SINKS | CENTERED | ADDED},
    {0, WHOLE, 256, 384, H36, KV_F32, 0, 3, Q4_32, 0, 0, ALIKE, Q_NORM | SINKS | ALONE},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, QUERIES | SIGMOID},
    {0, ROPE | ATTEND | O, 64, 0, {64, 8, 128}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, SINKS},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 256}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {1, ROPE | ATTEND | O, 64, 0, {2, 1, 512}, KV_F16, 300, 0, Q4_128, 0, 0, IN_PLACE, SINKS},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 512}, KV_F32, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {0, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, CENTERED | ALONE},
    {1, BLOCK | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, ADDED | CLAMPED},
    {1, STATES | O | MLP, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, STATES | O | MLP, 256, 384, H128, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, CENTERED},
    /* one and two linears of a norm; gating by itself and with what follows */
    {1, QKV, 256, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 256, 0, H64, KV_F16, 0, 2, Q4_128, 0, 0, OWN, 0},
    {0, QKV, 256, 0, H64, KV_F16, 0, 2, Q4_128, 0, 0, ALIKE, 0},
    {1, BLOCK | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, DENSE_F16, BIT(W_DOWN), ALIKE, 0},
    {0, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, BLOCK, 258, 390, H36, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, BLOCK, 255, 385, H36, KV_F16, 0, 0, Q4_32, 0, 0, OWN, 0},
    {0, MLP, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, DENSE_F32, BIT(W_GATE), IN_PLACE, 0},
    /* mixtures of experts */
    {1, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, BLOCK_OF_EXPERTS | TAIL, 256, 144, H64, KV_F16, 0, 0, Q4_128, DENSE_F16, BIT(W_ROUTER),
     OWN, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 384, 256, H64, KV_F16, 0, 0, Q4_128, DENSE_F16,
     BIT(W_ROUTER) | BIT(W_DOWNS), IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS, 256, 96, H64, KV_F16, 0, 0, Q4_32, DENSE_F32, BIT(W_ROUTER), IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, Q4_F32, 0, 0, IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, DENSE_BF16, Q4_128, BIT(W_O),
     IN_PLACE, 0},
    {0, MOE | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, Q4_32, BIT(W_UPS), IN_PLACE, 0},
    /* sizes of norms */
    {0, O | QKV, 4096, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, O | QKV, 4224, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 5120, 0, H64, KV_F16, 0, 3, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 5248, 0, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 11264, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 11392, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 14336, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 14464, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 14466, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    /* sizes of gated rows */
    {0, MLP, 128, 4096, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 4224, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 11264, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 11392, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 14336, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 14464, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 14462, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
};

enum { N_CASES = sizeof cases / sizeof *cases };

/* The rows of a step. */
enum rows_use { QUICK = 1, BY_POSITION = 2, MANY = 4 };
struct rows {
    int use; /* BY_POSITION: only where there is attention; MANY: only with small sizes */
    const char *name;
    int n_decode, n_seqs;
    struct span span[MAX_SPANS];
};

static const struct rows rows[] = {
    {QUICK, "a row", 1, 1, {{0, 5, 1}}},
    {BY_POSITION, "a row in 2 spans", 1, 1, {{0, 300, 1}}},
    {QUICK | BY_POSITION, "a row in 3 spans", 1, 1, {{0, 700, 1}}},
    {QUICK | BY_POSITION, "a row in 4 spans", 1, 1, {{0, 900, 1}}},
    {BY_POSITION, "a row in 6 spans", 1, 1, {{0, 1400, 1}}},
    {BY_POSITION, "a row in 7 spans", 1, 1, {{0, 1700, 1}}},
    {QUICK, "3 rows", 3, 3, {{0, 300, 1}, {1, 0, 1}, {2, 17, 1}}},
    {BY_POSITION, "2 rows in 7 spans", 2, 2, {{0, 1700, 1}, {1, 900, 1}}},
    {BY_POSITION | MANY,
     "10 rows of many lengths",
     10,
     10,
     {{0, 900, 1},
      {1, 0, 1},
      {2, 17, 1},
      {3, 255, 1},
      {4, 256, 1},
      {5, 300, 1},
      {6, 5, 1},
      {7, 511, 1},
      {8, 64, 1},
      {9, 600, 1}}},
    {0, "2 rows of a sequence", 3, 2, {{0, 254, 2}, {1, 40, 1}}},
    {QUICK, "a prompt", 0, 1, {{0, 0, 5}}},
    {BY_POSITION | MANY, "the rest of a prompt", 0, 2, {{0, 250, 70}, {1, 0, 3}}},
    {QUICK, "2 rows and a prompt", 2, 3, {{0, 300, 1}, {1, 15, 1}, {2, 30, 6}}},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* A case on the host, and what of it is open for one variant. */
struct fuse {
    struct check *c;
    int v;
    const struct fuse_case *k;
    const char *name;
    enum act act;
    struct linear w[N_LINEARS];
    float *vector[N_VECTORS];
    int n[N_VECTORS];
    size_t width[N_BUFFERS]; /* bytes of a row */
    struct side s;
    struct be_linear *packed[N_LINEARS];
    struct dbuf d_vector[N_VECTORS];
};

/* The inputs of a step, and what it left. */
struct content {
    struct batch b;
    uint32_t *buffer[N_BUFFERS]; /* [rows][width] */
    void *pages;
    size_t page_bytes;
};

static int rows_of(const struct batch *b, int buffer)
{
    return buffer == B_TOP ? b->n_top : buffer >= B_G && buffer <= B_BEST ? b->n_logits : b->n_rows;
}

static size_t bytes_of(const struct fuse *f, const struct batch *b, int buffer)
{
    return (size_t)rows_of(b, buffer) * f->width[buffer];
}

/* ---- weights */
static int32_t *make_perm(struct arena *a, struct rng *r, int k, int in)
{
    int32_t *perm = arena_get(a, (size_t)k * sizeof *perm);
    for (int j = 0; j < k; j++) {
        int other = rng_below(r, j + 1);
        perm[j] = perm[other];
        perm[other] = j < in ? j : -1;
    }
    return perm;
}

static struct linear make_quantized(struct arena *a, struct rng *r, enum format format, int in,
                                    int out)
{
    int group = format == Q4_32 ? 32 : 128, groups = (in + group - 1) / group, k = groups * group;
    size_t panels = ((size_t)out + 15) / 16, n = panels * (size_t)groups * 16;
    uint8_t *codes = arena_get(a, panels * (size_t)k * 8), *zeros = arena_get(a, n);
    uint16_t *half = arena_get(a, n * 2);
    float *single = arena_get(a, n * 4);
    for (size_t i = 0; i < panels * (size_t)k * 8; i += 8) {
        uint64_t bits = rng_next(r);
        memcpy(codes + i, &bits, 8);
    }
    for (size_t i = 0; i < n; i++) {
        zeros[i] = (uint8_t)rng_below(r, 17);
        single[i] = (1 + (float)rng_below(r, 1000)) * 1e-5f;
        half[i] = f16_from_f32(single[i]);
    }
    return (struct linear){.in = in,
                           .out = out,
                           .k = k,
                           .group = group,
                           .n_groups = groups,
                           .codes = codes,
                           .zeros = zeros,
                           .scales = format == Q4_F32 ? (void *)single : half,
                           .scale_type = format == Q4_F32 ? DT_F32 : DT_F16};
}

static struct linear make_dense(struct arena *a, struct rng *r, enum format format, int in, int out)
{
    size_t n = (size_t)in * (size_t)out;
    float *single = arena_get(a, n * 4);
    uint16_t *half = arena_get(a, n * 2);
    for (size_t i = 0; i < n; i++) {
        single[i] = rng_normal(r) * 0.05f;
        half[i] = format == DENSE_BF16 ? (uint16_t)(f32_bits(single[i]) >> 16)
                                       : f16_from_f32(single[i]);
    }
    return (struct linear){.in = in,
                           .out = out,
                           .k = in,
                           .weight = format == DENSE_F32 ? (void *)single : half,
                           .weight_type = format == DENSE_F32    ? DT_F32
                                          : format == DENSE_BF16 ? DT_BF16
                                                                 : DT_F16};
}

/* The linears that the parts of a case have, as a set. */
static int linears_of(const struct fuse_case *k)
{
    return (k->parts & QKV ? BIT(W_Q) | BIT(W_K) | BIT(W_V) : 0) | (k->parts & O ? BIT(W_O) : 0) |
           (k->parts & MLP ? BIT(W_GATE) | BIT(W_UP) | BIT(W_DOWN) : 0) |
           (k->parts & MOE ? BIT(W_ROUTER) | BIT(W_GATES) | BIT(W_UPS) | BIT(W_DOWNS) : 0) |
           (k->parts & TAIL ? BIT(W_HEAD) : 0) | (k->parts & EMBED ? BIT(W_TABLE) : 0);
}

static int shares_input(int w) { return w == W_K || w == W_V || w == W_UP || w == W_UPS; }

static int is_stack(int w) { return w >= W_GATES && w <= W_DOWNS; }

/* Makes w, of the outputs of all experts, a stack; each expert's are whole panels. */
static void make_stack(struct linear *w)
{
    w->stack = EXPERTS;
    w->out /= EXPERTS;
}

/* The permutations of n experts. */
static int32_t *make_perms(struct arena *a, struct rng *r, int n, int k, int in)
{
    int32_t *perms = arena_get(a, (size_t)(n * k) * sizeof *perms);
    for (int i = 0; i < n; i++)
        memcpy(perms + i * k, make_perm(a, r, k, in), (size_t)k * sizeof *perms);
    return perms;
}

static void make_weights(struct fuse *f, struct arena *a, struct rng *r)
{
    const struct fuse_case *k = f->k;
    int q = k->heads.n_heads * k->heads.head_dim, kv = k->heads.n_kv_heads * k->heads.head_dim;
    int ffn = k->ffn ? k->ffn : 16;
    const int in[] = {k->dim, k->dim, k->dim, q,      k->dim, k->dim, ffn,
                      k->dim, k->dim, k->dim, ffn,    k->dim, k->dim},
              out[] = {q,       kv,  kv,  k->dim, ffn,   ffn,  k->dim,
                       EXPERTS, EXPERTS * ffn, EXPERTS * ffn, EXPERTS * k->dim, VOCAB, VOCAB};
    const int32_t *before = NULL;
    for (int i = 0; i < N_LINEARS; i++) {
        if (!(linears_of(k) & BIT(i))) {
            f->w[i] = make_dense(a, r, DENSE_F16, 16, 16); /* no operation has it */
            continue;
        }
        enum format format = k->others & BIT(i) ? k->other
                             : i >= W_HEAD      ? DENSE_F16
                             : i == W_ROUTER    ? DENSE_BF16
                                                : k->format;
        f->w[i] = format >= DENSE_F16 ? make_dense(a, r, format, in[i], out[i])
                                      : make_quantized(a, r, format, in[i], out[i]);
        if (i % 2 == 0 && i < W_HEAD) {
            float *bias = arena_get(a, (size_t)out[i] * sizeof *bias);
            for (int j = 0; j < out[i]; j++) bias[j] = rng_normal(r) * 0.1f;
            f->w[i].bias = bias;
        }
        if (is_stack(i)) make_stack(&f->w[i]);
        if (format >= DENSE_F16 || (k->order == IN_PLACE && f->w[i].k == in[i])) continue;
        int alike = k->order != OWN && shares_input(i) && before && f->w[i].k == f->w[i - 1].k;
        f->w[i].perm = before =
            alike ? before : make_perms(a, r, is_stack(i) ? EXPERTS : 1, f->w[i].k, in[i]);
    }
    int channels = q + 2 * k->heads.head_dim;
    const int n[] = {k->dim,
                     k->dim,
                     k->dim,
                     k->heads.head_dim,
                     k->heads.head_dim,
                     k->heads.head_dim / 2,
                     k->heads.n_heads,
                     k->dim,
                     channels * CONV_WIDTH,
                     k->heads.n_heads,
                     k->heads.n_heads};
    for (int i = 0; i < N_VECTORS; i++) {
        f->n[i] = n[i];
        f->vector[i] = arena_get(a, (size_t)n[i] * 4);
        for (int j = 0; j < n[i]; j++)
            f->vector[i][j] = i == V_FREQ    ? powf(1e-4f, (float)j / (float)n[i])
                              : i == V_DECAY ? -0.001f * (float)rng_below(r, 1000)
                                             : 0.5f + 0.001f * (float)rng_below(r, 1000);
    }
}

static void set_widths(struct fuse *f)
{
    const struct fuse_case *k = f->k;
    int q = k->heads.n_heads * k->heads.head_dim, kv = k->heads.n_kv_heads * k->heads.head_dim;
    int half = k->heads.head_dim / 2, ffn = k->ffn ? k->ffn : 16;
    int channels = q + 2 * k->heads.head_dim, heads = k->heads.n_heads;
    const int n[N_BUFFERS] = {
        k->dim, half,     half,     k->dim, q,       kv,          kv,          q,
        channels, channels, heads,  heads,  k->dim,  k->dim,      ffn,         ffn,
        EXPERTS, TOP_K,   TOP_K,    TOP_K * ffn,     TOP_K * ffn, TOP_K * k->dim,
        k->dim, k->dim,   k->dim,   VOCAB,  1,       0};
    for (int i = 0; i < N_BUFFERS; i++) f->width[i] = (size_t)n[i] * 4;
    f->width[B_TOP] = OP_TOP_ROOM * sizeof(struct logits_entry);
}

/* ---- plans */
struct numbers {
    int buffer[N_BUFFERS], linear[N_LINEARS], vector[N_VECTORS], kv, state[2];
    int more;
};

static void add_norm(struct trial *t, const struct numbers *n, int delta, int weight, int out)
{
    if (delta >= 0 && n->more & ADDED) {
        struct op *op = trial_op(t, OP_ADD);
        op->in[0] = op->out[0] = n->buffer[B_X];
        op->in[1] = n->buffer[delta];
        op->as.add.scale = 0.75f;
        delta = -1;
    }
    struct op *op = trial_op(t, OP_NORM);
    if (n->more & CENTERED) op->as.norm.centered = 1, op->w[1] = n->vector[V_BIAS];
    op->in[0] = n->buffer[B_X];
    if (delta >= 0) op->in[1] = n->buffer[delta], op->out[1] = n->buffer[B_X];
    op->out[0] = n->buffer[out];
    op->w[0] = n->vector[weight];
    op->as.norm.eps = 1e-5f;
}

static void add_rope(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    struct op *op = trial_op(t, OP_ANGLES);
    op->w[0] = n->vector[V_FREQ];
    op->as.angles.pairs = f->k->heads.head_dim / 2;
    op->as.angles.scale = 1;
    op->out[0] = n->buffer[B_COS];
    op->out[1] = n->buffer[B_SIN];
    op = trial_op(t, OP_ROPE_STORE);
    op->in[0] = op->out[0] = n->buffer[B_Q];
    if (!(n->more & QUERIES)) {
        op->in[1] = n->buffer[B_K];
        op->in[2] = n->buffer[B_V];
    }
    op->in[3] = n->buffer[B_COS];
    op->in[4] = n->buffer[B_SIN];
    if (f->k->more & Q_NORM) op->w[0] = n->vector[V_Q_NORM], op->w[1] = n->vector[V_K_NORM];
    op->as.rope.heads = f->k->heads;
    op->as.rope.kv = n->kv;
    op->as.rope.eps = 1e-6f;
}

static void add_attend(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    struct op *op = trial_op(t, OP_ATTEND);
    op->in[0] = n->buffer[B_Q];
    op->out[0] = n->buffer[B_A];
    op->as.attend.heads = f->k->heads;
    op->as.attend.kv = n->kv;
    op->as.attend.window = f->k->window;
    if (n->more & SINKS) op->w[0] = n->vector[V_SINKS];
    op->as.attend.scale = 1 / sqrtf((float)f->k->heads.head_dim);
}

static void add_states(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    struct op *op = trial_op(t, OP_CONV);
    op->in[0] = n->buffer[B_MIXED];
    op->out[0] = n->buffer[B_CONV];
    op->w[0] = n->vector[V_CONV];
    op->as.conv.channels = (int)(f->width[B_MIXED] / 4);
    op->as.conv.width = CONV_WIDTH;
    op->as.conv.state = n->state[0];
    op = trial_op(t, OP_DELTA);
    op->in[0] = n->buffer[B_CONV];
    op->in[1] = n->buffer[B_DECAY];
    op->in[2] = n->buffer[B_BETA];
    op->out[0] = n->buffer[B_A];
    op->w[0] = n->vector[V_DECAY];
    op->w[1] = n->vector[V_DT];
    op->as.delta.key_heads = 1;
    op->as.delta.value_heads = f->k->heads.n_heads;
    op->as.delta.key_dim = op->as.delta.value_dim = f->k->heads.head_dim;
    op->as.delta.state = n->state[1];
    op = trial_op(t, OP_NORM);
    op->in[0] = op->out[0] = n->buffer[B_A];
    op->w[0] = n->vector[V_Q_NORM];
    op->as.norm.eps = 1e-6f;
    op->as.norm.groups = f->k->heads.n_heads;
}

static void add_mlp(struct trial *t, const struct numbers *n)
{
    add_norm(t, n, B_D1, V_NORM2, B_H2);
    trial_linears(t, n->buffer[B_H2], 2, n->linear + W_GATE, n->buffer + B_GATE);
    struct op *op = trial_op(t, OP_GLU);
    op->in[0] = op->out[0] = n->buffer[B_GATE];
    if (!(n->more & ALONE)) op->in[1] = n->buffer[B_UP];
    if (n->more & SIGMOID) op->as.glu.activation = ACTIVATION_SIGMOID;
    if (n->more & CLAMPED) {
        op->as.glu.activation = ACTIVATION_SWIGLU_CLAMPED;
        op->as.glu.limit = 7;
        op->as.glu.alpha = 1.702f;
    }
    trial_linears(t, n->buffer[B_GATE], 1, n->linear + W_DOWN, n->buffer + B_D2);
}

static struct op *add_experts(struct trial *t, const struct numbers *n, int in, int count, int w,
                              int out)
{
    struct op *op = trial_op(t, OP_EXPERTS);
    op->n = count;
    op->in[0] = n->buffer[in];
    op->in[1] = n->buffer[B_IDS];
    op->as.experts.top_k = TOP_K;
    for (int i = 0; i < count; i++)
        op->w[i] = n->linear[w + i], op->out[i] = n->buffer[out + i];
    return op;
}

static void add_moe(struct trial *t, const struct numbers *n)
{
    add_norm(t, n, B_D1, V_NORM2, B_H2);
    trial_linears(t, n->buffer[B_H2], 1, n->linear + W_ROUTER, n->buffer + B_SCORES);
    struct op *op = trial_op(t, OP_ROUTE);
    op->in[0] = n->buffer[B_SCORES];
    op->out[0] = n->buffer[B_IDS];
    op->out[1] = n->buffer[B_ROUTED];
    op->as.route.n_experts = EXPERTS;
    op->as.route.top_k = TOP_K;
    op->as.route.normalize = 1;
    add_experts(t, n, B_H2, 2, W_GATES, B_GATES);
    op = trial_op(t, OP_GLU);
    op->in[0] = op->out[0] = n->buffer[B_GATES];
    op->in[1] = n->buffer[B_UPS];
    add_experts(t, n, B_GATES, 1, W_DOWNS, B_SLOTS)->as.experts.each = 1;
    op = trial_op(t, OP_MIX);
    op->in[0] = n->buffer[B_SLOTS];
    op->in[1] = n->buffer[B_ROUTED];
    op->out[0] = n->buffer[B_D2];
    op->as.mix.top_k = TOP_K;
}

static void add_tail(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    add_norm(t, n, B_D2, V_NORM3, B_H3);
    struct op *op = trial_op(t, OP_GATHER);
    op->in[0] = n->buffer[B_H3];
    op->out[0] = n->buffer[B_G];
    trial_linears(t, n->buffer[B_G], 1, n->linear + W_HEAD, n->buffer + B_LOGITS);
    op = trial_op(t, OP_SOFTCAP);
    op->in[0] = op->out[0] = n->buffer[B_LOGITS];
    op->as.softcap.cap = 30;
    op = trial_op(t, OP_ARGMAX);
    op->in[0] = n->buffer[B_LOGITS];
    op->out[0] = n->buffer[B_BEST];
    if (!has(&f->c->v[f->v], "top")) return;
    op = trial_op(t, OP_TOP);
    op->in[0] = n->buffer[B_LOGITS];
    op->out[0] = n->buffer[B_TOP];
}

/* The first linears of a norm that reads the x which o has left, where the case has o and not what
 * is between them: as from one layer to the next. */
static void add_ops(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    int parts = f->k->parts, next = (parts & (O | MLP | ATTEND | QKV)) == (O | QKV);
    if (parts & EMBED) {
        struct op *op = trial_op(t, OP_EMBED);
        op->w[0] = n->linear[W_TABLE];
        op->out[0] = n->buffer[B_X];
    }
    if (next) trial_linears(t, n->buffer[B_A], 1, n->linear + W_O, n->buffer + B_D1);
    if (parts & QKV) {
        add_norm(t, n, next ? B_D1 : -1, V_NORM1, B_H1);
        trial_linears(t, n->buffer[B_H1], f->k->n_qkv, n->linear + W_Q, n->buffer + B_Q);
    }
    if (parts & ROPE) add_rope(f, t, n);
    if (parts & ATTEND) add_attend(f, t, n);
    if (parts & STATES) add_states(f, t, n);
    if (parts & O && !next) trial_linears(t, n->buffer[B_A], 1, n->linear + W_O, n->buffer + B_D1);
    if (parts & MLP) add_mlp(t, n);
    if (parts & MOE) add_moe(t, n);
    if (parts & TAIL) add_tail(f, t, n);
}

static int has_id(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

/* What the operations do to a buffer. */
struct use {
    int given;   /* it is read before it is written */
    int written; /* by an operation */
    int last;    /* nothing reads what it holds at the end */
};

static struct use use_of(const struct trial *t, int buffer)
{
    struct use u = {0};
    for (int i = 0; i < t->n_ops; i++) {
        int reads = has_id(t->op[i].in, OP_INS, buffer),
            writes = has_id(t->op[i].out, OP_OUTS, buffer);
        if (reads && !u.written) u.given = 1;
        if (reads) u.last = 0;
        if (writes) u.written = u.last = 1;
    }
    return u;
}

/* The states of conv and delta, all alike at first. */
static void open_states(struct fuse *f, struct trial *t, struct numbers *n, struct dbuf state[2])
{
    struct heads g = f->k->heads;
    const size_t floats[] = {f->width[B_MIXED] / 4 * (CONV_WIDTH - 1),
                             (size_t)(g.n_heads * g.head_dim * g.head_dim)};
    for (int i = 0; i < 2; i++) {
        size_t of_slot = f->k->parts & STATES ? floats[i] : 1, all = of_slot * MAX_SPANS;
        float *x = malloc(all * sizeof *x);
        CHECK(x);
        for (size_t j = 0; j < all; j++) x[j] = 0.25f * (float)(j % of_slot % 9) - 1;
        state[i] = dbuf_from(&f->s, x, all * sizeof *x);
        free(x);
        n->state[i] = trial_state(t, state[i].d, of_slot * sizeof(float));
    }
}

/* Runs the case on what *in has; what was kept is left in *out, whose other pointers become NULL.
 * kept: bit B_..: this buffer is read after the plan. Without any the rows of norms share a buffer,
 * and so do the deltas, as in a model. */
static void run(struct fuse *f, const struct content *in, unsigned kept, int apart, struct arena *a,
                struct content *out)
{
    struct trial t = {0};
    struct numbers n = {.more = f->k->more};
    struct dbuf d[N_BUFFERS], pages = dbuf_from(&f->s, in->pages, in->page_bytes), state[2];
    for (int i = 0; i < N_LINEARS; i++) n.linear[i] = trial_linear(&t, &f->w[i], f->packed[i]);
    for (int i = 0; i < N_VECTORS; i++) n.vector[i] = trial_vector(&t, f->d_vector[i].d, f->n[i]);
    n.kv = trial_kv(&t, pages.d, f->k->heads.n_kv_heads, f->k->heads.head_dim);
    open_states(f, &t, &n, state);
    for (int i = 0; i < N_BUFFERS; i++) {
        int same = kept ? i : i == B_H2 || i == B_H3 ? B_H1 : i == B_D2 ? B_D1 : i;
        if (same != i) {
            d[i] = d[same];
            n.buffer[i] = n.buffer[same];
            continue;
        }
        d[i] = dbuf_new(&f->s, bytes_of(f, &in->b, i));
        n.buffer[i] = trial_buffer(&t, d[i].d,
                                   i == B_TOP                ? ROWS_TOP
                                   : i >= B_G && i <= B_BEST ? ROWS_LOGITS
                                                             : ROWS_STEP,
                                   f->width[i]);
    }
    add_ops(f, &t, &n);
    for (int i = 0; i < N_BUFFERS; i++) {
        struct use u = use_of(&t, n.buffer[i]);
        if (u.given) f->s.ops->upload(f->s.be, d[i].d, in->buffer[i], d[i].bytes);
        t.kept[n.buffer[i]] = u.written && (u.last || kept >> i & 1 || i == B_X);
    }
    trial_run(&t, &f->s, &in->b, apart);
    *out = (struct content){.b = in->b, .page_bytes = in->page_bytes};
    for (int i = 0; i < N_BUFFERS; i++) {
        if (i > 0 && has_id(n.buffer, i, n.buffer[i])) continue;
        if (t.kept[n.buffer[i]]) {
            out->buffer[i] = arena_get(a, d[i].bytes);
            dbuf_get(&f->s, &d[i], out->buffer[i]);
        }
        compare_fences(f->c, f->v, f->name, buffer_names[i], &f->s, &d[i]);
        dbuf_free(&f->s, &d[i]);
    }
    out->pages = arena_get(a, in->page_bytes);
    dbuf_get(&f->s, &pages, out->pages);
    compare_fences(f->c, f->v, f->name, "pages", &f->s, &pages);
    dbuf_free(&f->s, &pages);
    for (int i = 0; i < 2; i++) {
        compare_fences(f->c, f->v, f->name, "states", &f->s, &state[i]);
        dbuf_free(&f->s, &state[i]);
    }
}

/* ---- inputs */
static void fill_pages(const struct fuse *f, struct rng *r, struct content *x)
{
    for (size_t i = 0; i < x->page_bytes / (f->k->kv == KV_F16 ? 2 : 4); i++) {
        float value = rng_normal(r);
        if (f->k->kv == KV_F16) ((uint16_t *)x->pages)[i] = f16_from_f32(value);
        else ((float *)x->pages)[i] = value;
    }
}

/* The logits of the last row of each sequence, so of every generated row but where a sequence has
 * several. */
static void set_logits(struct arena *a, struct rng *r, struct batch *b)
{
    size_t bytes = (size_t)b->n_seqs * sizeof(int32_t);
    b->logit_row = arena_get(a, bytes);
    b->top_row = arena_get(a, bytes);
    for (int i = 0; i < b->n_seqs; i++) {
        b->logit_row[i] = b->seq_start[i + 1] - 1;
        b->top_row[i] = i;
        b->n_decode_logits += b->logit_row[i] < b->n_decode;
    }
    b->n_logits = b->n_top = b->n_seqs;
    for (int i = 0; i < b->n_rows; i++) b->token[i] = rng_below(r, VOCAB);
}

/* Rows of all kinds, but of queries, keys and values such as fp16 holds after the rotation. */
static void fill_buffer(struct rng *r, int buffer, float *x, int n_rows, int width)
{
    for (int i = 0; buffer == B_IDS && i < n_rows * width; i++)
        ((int32_t *)(void *)x)[i] = i % width;
    if (buffer == B_IDS) return;
    if (buffer != B_Q && buffer != B_K && buffer != B_V) {
        fill_rows(r, 0, x, n_rows, width);
        return;
    }
    for (int i = 0; i < n_rows * width; i++) x[i] = 2 * rng_normal(r);
}

static struct content make_content(const struct fuse *f, struct arena *a, struct rng *r,
                                   const struct page_map *m, const struct rows *of)
{
    struct content x = {.b = make_batch(a, m, of->span, of->n_seqs, of->n_decode)};
    struct kv_cache kv = {f->k->heads.n_kv_heads, f->k->heads.head_dim};
    set_logits(a, r, &x.b);
    for (int i = 0; i <= B_D2; i++) {
        x.buffer[i] = arena_get(a, bytes_of(f, &x.b, i));
        fill_buffer(r, i, (float *)x.buffer[i], x.b.n_rows, (int)(f->width[i] / 4));
    }
    for (int v = 0; v < f->c->n && f->k->parts & (ROPE | ATTEND); v++) {
        size_t bytes = (size_t)m->n_pages * f->c->v[v].ops->kv_page_bytes(f->k->kv, &kv);
        if (bytes > x.page_bytes) x.page_bytes = bytes;
    }
    if (!x.page_bytes) x.page_bytes = 64;
    x.pages = arena_get(a, x.page_bytes);
    fill_pages(f, r, &x);
    return x;
}

/* ---- comparison */
/* Entries up to the one that ends a row; n: of a buffer, in elements of 4 bytes. */
static size_t clear_top(uint32_t *top, size_t n)
{
    size_t of_row = OP_TOP_ROOM * sizeof(struct logits_entry) / 4;
    for (size_t row = 0; row < n; row += of_row) {
        struct logits_entry *e = (struct logits_entry *)(void *)(top + row);
        int i = 0;
        while (i < OP_TOP_ROOM && e[i].id >= 0) i++;
        for (; i < OP_TOP_ROOM; i++) e[i] = (struct logits_entry){.id = -1};
    }
    return n;
}

/* x [n] has no NaN: no input is one, so it would be a result that was not written. */
static void check_written(struct fuse *f, const char *name, int buffer, const uint32_t *x, size_t n)
{
    for (size_t i = 0; i < n && buffer != B_BEST && buffer != B_TOP; i++)
        if (isnan(f32_from_bits(x[i]))) {
            fail(f->c, f->v, name, "%s: element %zu of %zu is NaN", buffer_names[buffer], i, n);
            return;
        }
}

static void compare_contents(struct fuse *f, const char *name, struct content *fused,
                             struct content *apart)
{
    for (int i = 0; i < N_BUFFERS; i++) {
        size_t n = bytes_of(f, &fused->b, i) / 4;
        CHECK(!fused->buffer[i] == !apart->buffer[i]);
        if (!fused->buffer[i]) continue;
        if (i == B_TOP) clear_top(fused->buffer[i], n), clear_top(apart->buffer[i], n);
        check_written(f, name, i, apart->buffer[i], n);
        compare_bits(f->c, f->v, name, buffer_names[i], fused->buffer[i], apart->buffer[i], n,
                     f->width[i] / 4);
    }
    compare_bits(f->c, f->v, name, "pages", fused->pages, apart->pages, fused->page_bytes / 4, 64);
}

/* Each generated row as the only one of a step, where it is the only one of its sequence. */
static void rows_alone(struct fuse *f, const char *name, const struct rows *of,
                       const struct page_map *m, const struct content *in, unsigned kept,
                       const struct content *whole)
{
    for (int row = 0; row < of->n_decode && row < of->n_seqs; row++) {
        struct arena a = {0};
        struct content x = *in, out;
        struct rng r = {1};
        char what[64];
        if (of->span[row].rows != 1 || of->span[row].seq != in->b.seq[row]) break;
        x.b = make_batch(&a, m, &of->span[row], 1, 1);
        set_logits(&a, &r, &x.b);
        x.b.token[0] = in->b.token[row];
        for (int i = 0; i < N_BUFFERS; i++)
            if (in->buffer[i]) x.buffer[i] = in->buffer[i] + (size_t)row * f->width[i] / 4;
        run(f, &x, kept, 0, &a, &out);
        for (int i = 0; i < N_BUFFERS; i++) {
            size_t n = f->width[i] / 4;
            if (!out.buffer[i]) continue;
            if (i == B_TOP) clear_top(out.buffer[i], n);
            snprintf(what, sizeof what, "row %d by itself: %s", row, buffer_names[i]);
            compare_bits(f->c, f->v, name, what, out.buffer[i], whole->buffer[i] + (size_t)row * n,
                         n, n);
        }
        arena_free(&a);
    }
}

/* The rows that a case has: all by position where there is attention, few where sizes are large. */
static int takes(const struct fuse *f, const struct rows *of)
{
    int attends = f->k->parts & (ROPE | ATTEND), long_rows = f->k->dim + f->k->ffn > 4000,
        many_heads = f->k->heads.n_heads > 40;
    if ((of->use & BY_POSITION && !attends) || (f->c->quick && !(of->use & QUICK))) return 0;
    return !(of->use & MANY) || (!long_rows && !many_heads);
}

/* By variant and pattern, in the runs of whole plans. */
static long launched[MAX_VARIANTS][MAX_PATTERNS];

static void count_patterns(const struct fuse *f, int sign)
{
    if (f->s.ops != &backend_hip) return;
    for (int i = 0; hip_pattern_name(i); i++)
        launched[f->v][i] += sign * hip_pattern_count(f->s.be, i);
}

static void check_rows(struct fuse *f, const struct page_map *m, const struct rows *of)
{
    for (int keep = 0; keep < (f->c->quick ? KEEP_SOME : KEEPS); keep++) {
        struct arena a = {0};
        struct content fused, apart;
        char name[NAME_BYTES];
        if (is_caught(f->c)) return;
        snprintf(name, NAME_BYTES, "%s; %s; %s", f->name, of->name, keep_names[keep]);
        struct rng r = rng_for(f->c->seed, name);
        struct content x = make_content(f, &a, &r, m, of);
        unsigned kept = keep == KEEP_NONE  ? 0
                        : keep == KEEP_ALL ? ~0u
                                           : (unsigned)rng_next(&r) | 1u << B_X;
        count_patterns(f, -1);
        run(f, &x, kept, 0, &a, &fused);
        count_patterns(f, 1);
        run(f, &x, kept, 1, &a, &apart);
        compare_contents(f, name, &fused, &apart);
        if (of->n_decode > 1 && (keep != KEEP_ALL || !f->c->quick))
            rows_alone(f, name, of, m, &x, kept, &fused);
        arena_free(&a);
    }
}

/* Pages for the rows of all steps of a case. */
static struct page_map pages_of(const struct fuse *f, struct arena *a, struct rng *r)
{
    int n_ctx[MAX_SPANS] = {0};
    for (int i = 0; i < N_ROWS; i++)
        for (int j = 0; takes(f, &rows[i]) && j < rows[i].n_seqs; j++) {
            const struct span *s = &rows[i].span[j];
            if (s->pos0 + s->rows > n_ctx[s->seq]) n_ctx[s->seq] = s->pos0 + s->rows;
        }
    return make_pages(a, r, n_ctx, MAX_SPANS);
}

static int open_fuse(struct fuse *f, const struct page_map *m)
{
    struct be_config config = plain_config(80);
    struct err e;
    config.act = f->act;
    config.kv = f->k->kv;
    config.max_pages = m->stride;
    side_open(&f->s, &f->c->v[f->v], 1, config);
    for (int i = 0; i < N_LINEARS; i++)
        if (f->s.ops->pack(f->s.be, &f->w[i], &f->packed[i], &e)) {
            fail(f->c, f->v, f->name, "pack: %s", e.msg);
            while (i-- > 0) f->s.ops->drop(f->s.be, f->packed[i]);
            side_close(&f->s);
            return -1;
        }
    for (int i = 0; i < N_VECTORS; i++)
        f->d_vector[i] = dbuf_from(&f->s, f->vector[i], (size_t)f->n[i] * 4);
    return 0;
}

static void close_fuse(struct fuse *f)
{
    for (int i = 0; i < N_LINEARS; i++) f->s.ops->drop(f->s.be, f->packed[i]);
    for (int i = 0; i < N_VECTORS; i++) dbuf_free(&f->s, &f->d_vector[i]);
    side_close(&f->s);
}

static void check_case(struct check *c, const struct fuse_case *k, enum act act)
{
    struct arena a = {0};
    char name[NAME_BYTES];
    struct fuse f = {.c = c, .k = k, .name = name, .act = act};
    snprintf(name, NAME_BYTES,
             "%s, parts %x, %d, %d, heads %d/%d of %d, kv %s, window %d, %s, %x %s%s, more %x",
             act == ACT_F16 ? "f16" : "f32", (unsigned)k->parts, k->dim, k->ffn, k->heads.n_heads,
             k->heads.n_kv_heads, k->heads.head_dim, k->kv == KV_F16 ? "f16" : "f32", k->window,
             format_names[k->format], (unsigned)k->others, format_names[k->other],
             order_names[k->order], (unsigned)k->more);
    struct rng r = rng_for(c->seed, name);
    set_widths(&f);
    make_weights(&f, &a, &r);
    struct page_map m = pages_of(&f, &a, &r);
    for (f.v = 0; f.v < c->n && !is_caught(c); f.v++) {
        count_case(c, f.v);
        if (open_fuse(&f, &m)) continue;
        for (int i = 0; i < N_ROWS; i++)
            if (takes(&f, &rows[i])) check_rows(&f, &m, &rows[i]);
        close_fuse(&f);
    }
    arena_free(&a);
}

/* Every pattern that the device has kernels for was launched. */
static void check_coverage(struct check *c, int v)
{
    struct be_config config = plain_config(1);
    struct side s;
    if (c->v[v].ops != &backend_hip) return;
    config.act = ACT_F16;
    side_open(&s, &c->v[v], 1, config);
    for (int i = 0; hip_pattern_name(i); i++)
        if (hip_has_pattern(s.be, i) && !launched[v][i])
            fail(c, v, "coverage", "no case has launched '%s'", hip_pattern_name(i));
    side_close(&s);
}

/* The CPU backend fuses nothing: there the quick cases are a check of the harness itself. */
void check_fuse(struct check *c)
{
    int quick = c->quick;
    if (!strcmp(c->v[0].ops->name, "cpu")) c->quick = 1;
    memset(launched, 0, sizeof launched);
    for (int i = 0; i < N_CASES; i++) {
        if (c->quick && !cases[i].quick) continue;
        check_case(c, &cases[i], ACT_F16);
        if (!c->quick || cases[i].parts & ATTEND) check_case(c, &cases[i], ACT_F32);
    }
    for (int v = 0; v < c->n; v++) check_coverage(c, v);
    c->quick = quick;
}
