/* hip_gemv.c: linears of a single decode row, fused with the operations around them
 * (hopper/linear_gemv.hip): as prologue the norm or the combination of KV splits, as epilogue the
 * addition to the residual stream or SwiGLU. Only images of sm_90a have these kernels; the general
 * ones (hip_linear.c) give the same bits. */
#include "backend-hip/hip_plan.h"

int hip_gemv_takes(const struct hip *h, const struct be_plan *p, int op)
{
    int n = hip_op(p, op)->n;
    const struct be_linear *first = hip_weight(p, op, 0);
    if (!hip_has(h, K_q4_gemv_norm) || h->pinned >= 0 || h->config.act != ACT_F16 || n > MAX_PARTS)
        return 0;
    for (int i = 0; i < n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        if (!hip_is_plain(w) || w->stride || w->perm != first->perm || (w->perm && !w->d_place) ||
            w->k != w->in || w->in != w->n_chunks * CHUNK)
            return 0;
        if (w->in != first->in || w->in > ROW_PIECES * PIECE ||
            w->group_chunks != first->group_chunks)
            return 0;
    }
    return 1;
}

int hip_gemv_combines(const struct hip *h, const struct be_plan *p, int attend)
{
    int n_heads = hip_op(p, attend)->as.attend.heads.n_heads, n = h->shape.n_splits;
    return n <= GEMV_SPLITS && n_heads * (n + 1) <= GEMV_COMBINE_WEIGHTS;
}

void hip_gemv(struct hip *h, const struct be_plan *p, int op, int norm, int attend, int glu)
{
    int n = hip_op(p, op)->n;
    const struct be_linear *first = hip_weight(p, op, 0);
    struct gemv_args a = {
        .linear = {.x = hip_in(p, op, 0), .n_parts = n, .rows = 1, .n_chunks = first->n_chunks},
        .place = first->d_place};
    enum hip_kernel k = norm >= 0 && glu >= 0 ? K_q4_gemv_norm_glu
                        : norm >= 0           ? K_q4_gemv_norm
                        : attend >= 0         ? K_q4_gemv_combine
                                              : K_q4_gemv_row;
    if (norm >= 0) a.norm = hip_norm_args(h, p, norm);
    if (attend >= 0) a.combine = hip_combine_args(h, p, attend);
    for (int i = 0; i < n; i++) {
        a.linear.part[i] = hip_part_of(hip_weight(p, op, i), hip_out(p, op, i), a.linear.n_blocks);
        a.linear.n_blocks += (hip_weight(p, op, i)->out + PANEL - 1) / PANEL;
    }
    if (glu >= 0) a.linear.n_blocks = a.linear.part[1].first;
    if (p->linears[op].adds) {
        a.linear.part[0].y = hip_in(p, op + 1, 0);
        a.add = 1;
    }
    size_t blocks = (size_t)a.linear.n_blocks,
           resident = hip_kernels[k].blocks * (size_t)hip_stream_multiprocessors(h->stream);
    hip_launch_rows(h, k, (int)(blocks < resident ? blocks : resident), &a, sizeof a);
}
