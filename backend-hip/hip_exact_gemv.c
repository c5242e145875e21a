/* hip_exact_gemv.c: launches of hopper/exact_gemv.hip: linears of a single decode row in the CPU's
 * order, with the operations around them. hip_exact.c has the general kernels, which give the same
 * bits. Must not know: the other arithmetics. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_gemv.h"
#include "backend-hip/hip_heads.h"

int hip_exact_is_gemv(const struct hip *h, const struct be_plan *p, int op)
{
    int n = hip_op(p, op)->n, in = hip_weight(p, op, 0)->in;
    if (!hip_has(h, K_exact_gemv_row) || n > MAX_PARTS) return 0;
    for (int i = 0; i < n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        if (!hip_is_plain(w) || w->pairs || w->stride || w->perm || w->in != in || w->k != in ||
            w->group_chunks != ITEM_CHUNKS || in != w->n_chunks * CHUNK ||
            in % (ITEM_CHUNKS * CHUNK) || in > EXACT_GEMV_INPUTS(EXACT_GEMV_ROW_OCTETS))
            return 0;
    }
    return 1;
}

int hip_exact_combines(const struct hip *h, const struct be_plan *p, int attend)
{
    const struct heads *g = &hip_op(p, attend)->as.attend.heads;
    return h->shape.n_splits <= GEMV_SPLITS && g->head_dim % 8 == 0 &&
           g->n_heads * g->head_dim == hip_weight(p, attend + 1, 0)->in;
}

void hip_exact_gemv(struct hip *h, const struct be_plan *p, const struct hip_gemv_ops *of)
{
    int op = of->linear, n = hip_op(p, op)->n, digits = act_formats[h->config.act].digits;
    struct exact_gemv_args a = {
        .linear = {.x = hip_in(p, op, 0), .n_parts = n, .rows = 1},
        .n_subs = hip_weight(p, op, 0)->in / (ITEM_CHUNKS * CHUNK),
        .digits = digits};
    enum hip_kernel k = of->norm >= 0 && of->glu >= 0 ? K_exact_gemv_norm_glu
                        : of->norm >= 0               ? K_exact_gemv_norm
                        : of->attend >= 0             ? K_exact_gemv_combine
                                                      : K_exact_gemv_row;
    if (of->norm >= 0) a.norm = hip_norm_args(h, p, of->norm);
    if (of->attend >= 0) a.combine = hip_combine_args(h, p, of->attend, 0);
    if (of->glu >= 0) a.glu = hip_glu_args(h, p, of->glu);
    a.add = hip_gemv_parts(p, op, of->glu >= 0, &a.linear);
    size_t blocks = (size_t)a.linear.n_blocks,
           at_once = (size_t)hip_stream_multiprocessors(h->stream) * hip_kernels[k].blocks;
    hip_launch(h, k,
               (struct hip_blocks){blocks < at_once ? blocks : at_once, 1, 1,
                                   EXACT_GEMV_SHARED(a.n_subs, 1 + (of->glu >= 0), of->norm >= 0)},
               &a, sizeof a);
}
