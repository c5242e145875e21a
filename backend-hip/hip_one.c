/* hip_one.c: linears of a single generated row together with the operations around them, in one
 * launch (kernels/linear_gemv.hip): the norm or the attention whose result is the input, and the
 * addition or the gating after them, which they wait for. Only where an image has these kernels;
 * everything else goes its own way (hip_linear.c), with the same bits. */
#include "backend-hip/hip_internal.h"

static int is_one(enum hip_kernel k) { return k < K_COUNT && hip_kernels[k].op == OP_GEMV; }

static int takes(const struct hip *h, int n, const struct be_linear *const w[])
{
    if (!hip_has(h, K_q4_one_norm) || h->pinned >= 0 || h->config.act != ACT_F16 || n > MAX_PARTS)
        return 0;
    for (int i = 0; i < n; i++) {
        if (!hip_is_plain(w[i]) || w[i]->stride || w[i]->perm != w[0]->perm ||
            (w[i]->perm && !w[i]->d_place) || w[i]->k != w[i]->in ||
            w[i]->in != w[i]->n_chunks * CHUNK)
            return 0;
        if (w[i]->in != w[0]->in || w[i]->in > ROW_PIECES * PIECE ||
            w[i]->group_chunks != w[0]->group_chunks)
            return 0;
    }
    return 1;
}

int hip_one_linear(struct hip *h, int n, const struct be_linear *const w[], const float *d_x,
                   float *const d_y[])
{
    struct hip_pending *p = &h->pending;
    struct one_row_args a = {
        .linear = {.x = d_x, .n_parts = n, .rows = 1, .n_chunks = w[0]->n_chunks},
        .place = w[0]->d_place};
    enum hip_kernel k = p->out == d_x && p->rows == 1 && p->dim == w[0]->in ? p->kernel : K_COUNT,
                    one = K_q4_one_row;
    if (!takes(h, n, w)) return 0;
    if (k == K_norm_rows) {
        if (p->norm.delta || p->dim > ONE_NORM_PIECES * PIECE)
            return 0; /* by itself it would add up in another order */
        one = K_q4_one_norm;
        a.norm = p->norm;
    } else if (k == K_attend_merge && hip_merges_whole_rows(h) && h->n_spans <= ONE_SPANS &&
               h->config.n_heads * (h->n_spans + 1) <= ONE_MERGE_WEIGHTS) {
        one = K_q4_one_merge;
        a.merge = p->merge;
    }
    if (one != K_q4_one_row) p->kernel = K_COUNT;
    for (int i = 0; i < n; i++) {
        a.linear.part[i] = hip_part_of(w[i], d_y[i], a.linear.n_blocks);
        a.linear.n_blocks += (w[i]->out + PANEL - 1) / PANEL;
    }
    hip_wait_for_next(h, one, d_y[0], 1, w[0]->out)->one = a;
    return 1;
}

int hip_one_adds(struct hip *h, float *d_x, const float *d_delta, int rows, int dim)
{
    struct hip_pending *p = &h->pending;
    if (!is_one(p->kernel) || p->one.linear.n_parts != 1 || p->out != d_delta || rows != 1 ||
        p->dim != dim)
        return 0;
    p->one.linear.part[0].y = d_x;
    p->one.add = 1;
    return 1;
}

int hip_one_gates(struct hip *h, const float *d_gate, const float *d_up, size_t n)
{
    struct hip_pending *p = &h->pending;
    const struct linear_part *part = p->one.linear.part;
    if (p->kernel != K_q4_one_norm || p->one.linear.n_parts != 2 || p->out != d_gate ||
        part[1].y != d_up || n != (size_t)p->dim)
        return 0;
    if (part[1].out != p->dim) return 0;
    p->kernel = K_q4_one_norm_gated;
    p->one.linear.n_blocks = part[1].first;
    return 1;
}

int hip_one_launch(struct hip *h, enum hip_kernel k)
{
    const struct one_row_args *a = &h->pending.one;
    if (!is_one(k)) return 0;
    size_t blocks = (size_t)a->linear.n_blocks,
           resident = hip_kernels[k].blocks * (size_t)hip_stream_units(h->stream);
    hip_launch_rows(h, k, (int)(blocks < resident ? blocks : resident), a, sizeof *a);
    return 1;
}
