/* checkop_fuse_layer.c: the layer of checkop_fuse.c: random weights, sizes, operations. */
#include "tests/checkop/checkop_fuse.h"

#include "core/base/dtype.h"

#include <math.h>
#include <string.h>

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

/* Codes of 8 bits, in order. */
static struct linear make_pairs(struct arena *a, struct rng *r, int in, int out)
{
    struct linear w = make_quantized(a, r, Q4_32, 2 * in, out);
    int32_t *perm = arena_get(a, (size_t)w.k * sizeof *perm);
    uint16_t *scale = (uint16_t *)w.scales;
    uint8_t *zero = (uint8_t *)w.zeros;
    for (int j = 0; j < w.k; j++) perm[j] = j / 64 * 32 + j % 32;
    for (size_t i = 0; i < ((size_t)out + 15) / 16 * (size_t)w.n_groups * 16; i++) {
        int low = i / 16 % 2 != 0;
        zero[i] = low ? 0 : 8;
        scale[i] = f16_from_f32(low ? f32_from_f16(scale[i - 16]) / 16
                                    : (2 + (float)rng_below(r, 1000) / 100) * 0x1p-9f);
    }
    w.in = in;
    w.perm = perm;
    linear_find_pairs(&w);
    CHECK(w.in_order);
    return w;
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
           (k->parts & MLP || k->more & SHARED ? BIT(W_GATE) | BIT(W_UP) | BIT(W_DOWN) : 0) |
           (k->parts & MOE ? BIT(W_ROUTER) | BIT(W_GATES) | BIT(W_UPS) | BIT(W_DOWNS) : 0) |
           (k->more & MIXES ? BIT(W_MIXED) | BIT(W_K) : 0) |
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

/* Gives output i of a dense router the weights of output n - 1 - i, so that scores tie. */
static void make_ties(struct linear *w)
{
    size_t row = (size_t)w->in * (w->weight_type == DT_F32 ? 4 : 2), n = (size_t)w->out;
    for (size_t i = 0; !w->codes && i < n / 2; i++)
        memcpy((char *)w->weight + i * row, (const char *)w->weight + (n - 1 - i) * row, row);
}

void fuse_weights(struct fuse *f, struct arena *a, struct rng *r)
{
    const struct fuse_case *k = f->k;
    int q = k->heads.n_heads * k->heads.head_dim, kv = k->heads.n_kv_heads * k->heads.head_dim;
    int ffn = k->ffn ? k->ffn : 16;
    const int in[] = {k->dim, k->dim, k->dim, q,   k->dim, k->dim, ffn,
                      k->dim, k->dim, k->dim, ffn, k->dim, k->dim, k->dim},
              out[] = {q,      kv,      kv,            k->dim,        ffn,              ffn,
                       k->dim, EXPERTS, EXPERTS * ffn, EXPERTS * ffn, EXPERTS * k->dim,
                       q + 2 * k->heads.head_dim, VOCAB, VOCAB};
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
                  : format == Q8_32   ? make_pairs(a, r, in[i], out[i])
                                      : make_quantized(a, r, format, in[i], out[i]);
        if (i % 2 == 0 && i < W_HEAD) {
            float *bias = arena_get(a, (size_t)out[i] * sizeof *bias);
            for (int j = 0; j < out[i]; j++) bias[j] = rng_normal(r) * 0.1f;
            f->w[i].bias = bias;
        }
        if (is_stack(i)) make_stack(&f->w[i]);
        if (i == W_ROUTER) make_ties(&f->w[i]);
        if (format >= Q8_32 || (k->order == IN_PLACE && f->w[i].k == in[i])) continue;
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

void fuse_widths(struct fuse *f)
{
    const struct fuse_case *k = f->k;
    int q = k->heads.n_heads * k->heads.head_dim, kv = k->heads.n_kv_heads * k->heads.head_dim;
    int half = k->heads.head_dim / 2, ffn = k->ffn ? k->ffn : 16;
    int channels = q + 2 * k->heads.head_dim, heads = k->heads.n_heads;
    const int n[N_BUFFERS] = {k->dim,
                              half,
                              half,
                              k->dim,
                              q,
                              kv,
                              kv,
                              q,
                              q,
                              channels,
                              channels,
                              heads,
                              heads,
                              k->dim,
                              k->dim,
                              ffn,
                              ffn,
                              EXPERTS,
                              TOP_K,
                              TOP_K,
                              TOP_K * ffn,
                              TOP_K * ffn,
                              TOP_K * k->dim,
                              1,
                              k->dim,
                              k->dim,
                              k->dim,
                              k->dim,
                              VOCAB,
                              1,
                              0,
                              0};
    for (int i = 0; i < N_BUFFERS; i++) f->width[i] = (size_t)n[i] * 4;
    f->width[B_TOP] = OP_TOP_ROOM * sizeof(struct logits_entry);
    f->width[B_SCORE] = sizeof(struct logits_score);
}

/* ---- operations */
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

static struct heads heads_of(const struct fuse *f)
{
    const struct fuse_heads *h = &f->k->heads;
    return (struct heads){
        .n_heads = h->n_heads, .n_kv_heads = h->n_kv_heads, .head_dim = h->head_dim};
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
    op->as.rope.heads = heads_of(f);
    op->as.rope.kv = n->kv;
    op->as.rope.eps = 1e-6f;
}

static void add_attend(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    struct op *op = trial_op(t, OP_ATTEND);
    op->in[0] = n->buffer[B_Q];
    op->out[0] = n->buffer[B_A];
    op->as.attend.heads = heads_of(f);
    op->as.attend.kv = n->kv;
    op->as.attend.window = f->k->window;
    if (n->more & SINKS) op->w[0] = n->vector[V_SINKS];
    op->as.attend.scale = 1 / sqrtf((float)f->k->heads.head_dim);
}

struct kv_cache fuse_cache(const struct fuse_case *k)
{
    const struct fuse_heads *h = &k->heads;
    return (struct kv_cache){h->n_kv_heads, h->head_dim, k->parts & CHOOSE ? h->head_dim / 2 : 0};
}

static void add_choose(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    struct op *op = trial_op(t, OP_CHOOSE);
    op->in[0] = n->buffer[B_Q];
    op->in[1] = n->buffer[B_DECAY];
    op->out[0] = n->buffer[B_IDS];
    op->as.choose.heads = heads_of(f);
    op->as.choose.heads.value_dim = op->as.choose.heads.rotated = f->k->heads.head_dim / 2;
    op->as.choose.kv = n->kv;
    op->as.choose.top_k = TOP_K;
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
    op = trial_op(t, OP_GROUP_SUMS); /* no model has decays of this kind */
    op->in[0] = n->buffer[B_CONV];
    op->out[0] = n->buffer[B_DECAY];
    op->as.sums.group = (int)(f->width[B_CONV] / f->width[B_DECAY]);
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

/* The gate of the result that o reads. */
static void add_gate(struct trial *t, const struct numbers *n, enum activation activation)
{
    struct op *op = trial_op(t, OP_GLU);
    op->in[0] = op->out[0] = n->buffer[B_Z];
    op->in[1] = n->buffer[B_A];
    op->as.glu.activation = activation;
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
    if (n->more & BESIDE)
        trial_linears(t, n->buffer[B_H2], 2, n->linear + W_GATE, n->buffer + B_GATE);
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
    if (!(n->more & SHARED)) return;
    if (!(n->more & BESIDE))
        trial_linears(t, n->buffer[B_H2], 2, n->linear + W_GATE, n->buffer + B_GATE);
    op = trial_op(t, OP_GLU);
    op->in[0] = op->out[0] = n->buffer[B_GATE];
    op->in[1] = n->buffer[B_UP];
    trial_linears(t, n->buffer[B_GATE], 1, n->linear + W_DOWN, n->buffer + B_SHARED);
    op = trial_op(t, OP_ADD);
    op->in[0] = op->out[0] = n->buffer[B_D2];
    op->in[1] = n->buffer[B_SHARED];
    op->in[2] = n->buffer[B_SHARED_GATE];
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
    if (has(&f->c->v[f->v], "score")) {
        op = trial_op(t, OP_SCORE);
        op->in[0] = n->buffer[B_LOGITS];
        op->in[1] = n->buffer[B_BEST];
        op->out[0] = n->buffer[B_SCORE];
    }
    if (has(&f->c->v[f->v], "sample")) {
        op = trial_op(t, OP_SAMPLE);
        op->in[0] = n->buffer[B_LOGITS];
        op->in[1] = op->out[0] = n->buffer[B_BEST];
    }
    if (!has(&f->c->v[f->v], "top")) return;
    op = trial_op(t, OP_TOP);
    op->in[0] = n->buffer[B_LOGITS];
    op->out[0] = n->buffer[B_TOP];
}

/* The first norm of a layer, which adds delta if that is not negative, and its linears. */
static void add_qkv(const struct fuse *f, struct trial *t, const struct numbers *n, int delta)
{
    int first = n->more & APART ? 1 : f->k->n_qkv;
    add_norm(t, n, delta, V_NORM1, B_H1);
    trial_linears(t, n->buffer[B_H1], first, n->linear + W_Q, n->buffer + B_Q);
    if (first < f->k->n_qkv)
        trial_linears(t, n->buffer[B_H1], f->k->n_qkv - first, n->linear + W_Q + first,
                      n->buffer + B_Q + first);
}

/* The first linears of a norm that reads the x which o or experts have left, where the case has
 * these and not what is between them: as from one layer to the next. */
void fuse_ops(const struct fuse *f, struct trial *t, const struct numbers *n)
{
    int parts = f->k->parts, next = (parts & (O | MLP | ATTEND | QKV)) == (O | QKV),
        result = n->more & GATED ? B_Z : B_A;
    if (parts & EMBED) {
        struct op *op = trial_op(t, OP_EMBED);
        op->w[0] = n->linear[W_TABLE];
        op->out[0] = n->buffer[B_X];
    }
    if (next) trial_linears(t, n->buffer[result], 1, n->linear + W_O, n->buffer + B_D1);
    if (parts & QKV && !(parts & MOE)) add_qkv(f, t, n, next ? B_D1 : -1);
    if (parts & ROPE) add_rope(f, t, n);
    if (parts & ATTEND) add_attend(f, t, n);
    if (parts & CHOOSE) add_choose(f, t, n);
    if (n->more & MIXES) {
        add_norm(t, n, -1, V_NORM1, B_H1);
        trial_linears(t, n->buffer[B_H1], 1, n->linear + W_MIXED, n->buffer + B_MIXED);
        trial_linears(t, n->buffer[B_H1], 1, n->linear + W_K, n->buffer + B_K);
    }
    if (parts & STATES) add_states(f, t, n);
    if (n->more & GATED)
        add_gate(t, n, parts & STATES ? ACTIVATION_SILU : ACTIVATION_SIGMOID);
    if (parts & O && !next)
        trial_linears(t, n->buffer[result], 1, n->linear + W_O, n->buffer + B_D1);
    if (parts & MLP) add_mlp(t, n);
    if (parts & MOE) add_moe(t, n);
    if (parts & MOE && parts & QKV) add_qkv(f, t, n, B_D2);
    if (parts & TAIL) add_tail(f, t, n);
}
