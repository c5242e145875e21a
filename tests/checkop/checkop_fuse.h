/* checkop_fuse.h: the layer of checkop_fuse.c: its operations, weights and buffers. */
#ifndef TESTS_CHECKOP_FUSE_H
#define TESTS_CHECKOP_FUSE_H

#include "tests/checkop/checkop.h"

enum part {
    EMBED = 1,
    QKV = 2,
    ROPE = 4,
    ATTEND = 8,
    O = 16,
    MLP = 32,
    TAIL = 64,
    STATES = 128, /* convolution, delta rule and norm of groups, whose result o reads */
    MOE = 256,
    CHOOSE = 512, /* of a cache of latent heads, into the ids of experts */
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
    B_Z,
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
    B_SHARED_GATE,
    B_SHARED,
    B_D2,
    B_H3,
    B_G,
    B_LOGITS,
    B_BEST,
    B_TOP,
    B_SCORE,
    N_BUFFERS
};

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
    W_MIXED, /* of what the convolution reads */
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
    ALONE = 128, /* one without `up` */
    APART = 256, /* q, then k and v: two operations read a norm */
    SHARED = 512, /* experts: the MLP's linears as a shared expert, whose gate is given */
    BESIDE = 1024, /* its gate and up come right after the router */
    GATED = 2048, /* the result that o reads */
    MIXES = 4096  /* two operations of a norm: what the convolution reads, and k */
};

/* 4-bit: groups of 128 or of 32 inputs, fp32 scales; codes of 8 bits as pairs of groups of 32;
 * dense types */
enum format { Q4_128, Q4_32, Q4_F32, Q8_32, DENSE_F16, DENSE_BF16, DENSE_F32 };
enum order { IN_PLACE, ALIKE, OWN }; /* ALIKE: linears of one input have one permutation */

enum { VOCAB = 80, MAX_SPANS = 12, MAX_PATTERNS = 96, EXPERTS = 37, TOP_K = 3 };

#define BIT(w) (1 << (w))

/* Of struct heads. */
struct fuse_heads {
    int n_heads, n_kv_heads, head_dim;
};

struct fuse_case {
    int quick, parts, dim, ffn;
    struct fuse_heads heads;
    enum kv_type kv;
    int window, n_qkv;         /* n_qkv: linears of the first norm; the other results are given */
    enum format format, other; /* linears in the set `others` have the format `other` */
    int others;
    enum order order;
    int more; /* set of enum more */
};

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

struct numbers {
    int buffer[N_BUFFERS], linear[N_LINEARS], vector[N_VECTORS], kv, state[2];
    int more;
};

void fuse_weights(struct fuse *f, struct arena *a, struct rng *r);
/* The keys and values that a case reads. */
struct kv_cache fuse_cache(const struct fuse_case *k);
/* Fills f->width. */
void fuse_widths(struct fuse *f);
/* Appends the operations of the case. */
void fuse_ops(const struct fuse *f, struct trial *t, const struct numbers *n);

#endif
