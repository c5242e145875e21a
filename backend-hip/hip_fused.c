/* hip_fused.c: launches that compute an operation and prepare its result for the plain linears
 * after it, or several operations of DeltaNet. Must not know: mixtures' routers and stacks
 * (hip_fused_experts.c). */
#include "backend-hip/hip_fused.h"

#include "backend-hip/hip_args.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_state.h"
#include "backend-hip/hip_vector.h"

int hip_can_norm_parts(const struct hip *h, const struct be_plan *p, int norm, int op)
{
    const struct hip_linears *l = &p->linears[op];
    const struct be_linear *w = hip_weight(p, op, 0);
    for (int i = 1; i < l->n_runs; i++)
        if (l->run[i].prepares) return 0;
    return hip_has(h, K_norm_parts_f16) && hip_norm_is_plain(p, norm) && l->run[0].parts &&
           !w->perm && w->in <= NORM_PARTS_INPUTS;
}

void hip_norm_parts(struct hip *h, const struct be_plan *p, int norm, int op, int second,
                    const struct prepare_args *half, int n_half)
{
    static const enum hip_kernel kernel[] = {[WEIGHT_F16] = K_norm_parts_f16,
                                             [WEIGHT_BF16] = K_norm_parts_bf16,
                                             [WEIGHT_I8] = K_norm_parts_i8};
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct norm_parts_args a = {
        .norm = hip_norm_args(h, p, norm), .parts = hip_prepare_args(h, p, op), .n_half = n_half};
    if (n_half) a.half = *half;
    if (op > norm + 1) { /* a gather is between them */
        a.from = h->shape.d_logit_row;
        a.norm.out = NULL;
    }
    CHECK(rows <= h->config.max_rows);
    if (!rows) return;
    hip_launch_rows(h, kernel[hip_weight(p, op, 0)->kind], rows, &a, sizeof a);
    hip_linears_prepared(h, p, op, second);
}

/* By kind of weights; K_COUNT: none. */
static const enum hip_kernel mix_parts[] = {[WEIGHT_F16] = K_COUNT,
                                            [WEIGHT_BF16] = K_mix_parts_bf16,
                                            [WEIGHT_F32] = K_COUNT,
                                            [WEIGHT_I8] = K_mix_parts_i8},
                             gated_parts[] = {[WEIGHT_F16] = K_COUNT,
                                              [WEIGHT_BF16] = K_gated_parts_bf16,
                                              [WEIGHT_F32] = K_COUNT,
                                              [WEIGHT_I8] = K_gated_parts_i8};

int hip_can_mix_parts(const struct hip *h, const struct be_plan *p, int mix)
{
    const struct op *add = hip_op(p, mix + 3);
    int norm = mix + 4, op = mix + 5, shared = hip_op(p, mix + 2)->out[0];
    return hip_has(h, K_mix_parts_i8) && hip_can_norm_parts(h, p, norm, op) &&
           hip_op(p, op)->in[0] == hip_op(p, norm)->out[0] &&
           mix_parts[hip_weight(p, op, 0)->kind] < K_COUNT &&
           add->in[0] == hip_op(p, mix)->out[0] && add->in[1] == shared &&
           shared != hip_op(p, mix)->in[0] && hip_op(p, mix + 2)->n == 1 && !add->as.add.original &&
           !add->as.add.beta && (add->as.add.scale == 0 || add->as.add.scale == 1);
}

/* Few blocks, one a row, would take longer for the sums than all multiprocessors and two launches
 * more. */
enum { APART_ROWS = 16 };

void hip_mix_parts(struct hip *h, const struct be_plan *p, int mix, int second)
{
    int norm = mix + 4, op = mix + 5, n_decode,
        rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    if (rows <= APART_ROWS) {
        hip_mix(h, p, mix);
        hip_add(h, p, mix + 3);
        hip_norm_parts(h, p, norm, op, second, NULL, 0);
        return;
    }
    struct mix_parts_args a = {
        .both = {.norm = hip_norm_args(h, p, norm), .parts = hip_prepare_args(h, p, op)},
        .mix = hip_mix_args(h, p, mix),
        .shared = hip_in(p, mix + 3, 1),
        .gate = hip_in(p, mix + 3, 2)};
    if (hip_op(p, norm)->last[0] == op) a.both.norm.out = NULL;
    hip_launch_rows(h, mix_parts[hip_weight(p, op, 0)->kind], rows, &a, sizeof a);
    hip_linears_prepared(h, p, op, second);
}

int hip_can_gated_parts(const struct hip *h, const struct be_plan *p, int norm)
{
    const struct op *of = hip_op(p, norm), *glu = hip_op(p, norm + 1);
    const struct hip_linears *l = &p->linears[norm + 2];
    const struct be_linear *w = hip_weight(p, norm + 2, 0);
    return l->n_runs == 1 && l->run[0].parts && hip_has(h, K_gated_parts_i8) &&
           gated_parts[w->kind] < K_COUNT && !w->perm && w->in <= NORM_PARTS_INPUTS &&
           hip_op(p, norm + 2)->in[0] == glu->out[0] && of->as.norm.groups > 0 &&
           w->in % (4 * of->as.norm.groups) == 0 && hip_width(p, norm) == w->in;
}

void hip_gated_parts(struct hip *h, const struct be_plan *p, int norm)
{
    int op = norm + 2, n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct gated_parts_args a = {.norm = hip_norm_args(h, p, norm),
                                 .gate = hip_in(p, norm + 1, 0),
                                 .parts = hip_prepare_args(h, p, op)};
    a.norm.dim /= hip_op(p, norm)->as.norm.groups;
    hip_launch_rows(h, gated_parts[hip_weight(p, op, 0)->kind], rows, &a, sizeof a);
    hip_linear_prepared(h, p, op);
}

void hip_mix_norm_linear(struct hip *h, const struct be_plan *p, int mix)
{
    int norm = mix + 1, op = mix + 2, n_decode,
        rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct prepare_args a = hip_prepare_args(h, p, op);
    if (hip_single(h) || !hip_has(h, K_mix_norm_1024_4) ||
        !hip_fits_1024_threads(h, &a, SHORT_PIECES)) {
        hip_mix(h, p, mix);
        hip_linear(h, p, op, norm);
        return;
    }
    struct mix_norm_args both = {{hip_norm_args(h, p, norm), a}, hip_mix_args(h, p, mix)};
    both.both.norm.delta = NULL;
    if (hip_op(p, norm)->last[0] == op) both.both.norm.out = NULL;
    hip_launch_rows(h, K_mix_norm_1024_4, rows, &both, sizeof both);
    hip_linear_prepared(h, p, op);
}

int hip_can_delta_gated(const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op), *norm = hip_op(p, op + 1), *glu = hip_op(p, op + 2);
    return o->as.delta.rule == DELTA_GATED && o->as.delta.value_dim == CLUSTER * DELTA_COLUMNS &&
           o->as.delta.key_dim <= 128 && norm->in[0] == o->out[0] && norm->in[1] < 0 &&
           !norm->as.norm.centered && norm->as.norm.groups == o->as.delta.value_heads &&
           !norm->as.norm.own && glu->in[1] == norm->out[0] &&
           glu->as.glu.activation == ACTIVATION_SILU;
}

/* Blocks of a launch with norm and gate; 0: none, because a sequence has several rows, or clusters
 * would wait for places. */
static size_t gated_blocks(const struct hip *h, const struct be_plan *p, int op)
{
    size_t blocks = (size_t)hip_op(p, op)->as.delta.value_heads * CLUSTER,
           resident = hip_kernels[K_delta_gated_128].blocks *
                      (size_t)hip_stream_multiprocessors(h->stream);
    return h->shape.n_rows == h->shape.n_seqs && !h->shape.d_kept &&
                   blocks * (size_t)h->shape.n_seqs <= resident
               ? blocks
               : 0;
}

void hip_delta_gated(struct hip *h, const struct be_plan *p, int op)
{
    size_t blocks = gated_blocks(h, p, op);
    if (!blocks) {
        hip_delta(h, p, op);
        hip_norm(h, p, op + 1);
        hip_glu(h, p, op + 2);
        return;
    }
    struct delta_gated_args a = {.delta = hip_delta_args(h, p, op),
                                 .norm = hip_vector(p, op + 1, 0),
                                 .gate = hip_in(p, op + 2, 0),
                                 .eps = hip_op(p, op + 1)->as.norm.eps};
    hip_launch(h, K_delta_gated_128, (struct hip_blocks){blocks, (size_t)h->shape.n_seqs, 1, 0}, &a,
               sizeof a);
}

void hip_delta_gated_linear(struct hip *h, const struct be_plan *p, int op)
{
    if (gated_blocks(h, p, op)) {
        hip_delta_gated(h, p, op);
        hip_linear(h, p, op + 3, -1);
        return;
    }
    hip_delta(h, p, op);
    hip_gated_parts(h, p, op + 1);
}
