/* exact_attend.hip: attention in the order of the CPU backend (backend-cpu/fp32.h), to the bit:
 * chunks of 256 positions at absolute multiples, one after another; scores dimension by dimension,
 * their maximum, exponentials summed in 16 lanes, values position by position, chunks merged in
 * order. Block (row, head): a thread is a position, then a dimension. */

DEVICE float page_value(const void *pages, u64 at, const int f32)
{
    return f32 ? ((const float *)pages)[at] : (float)((const f16 *)pages)[at];
}

DEVICE void exact_attend(const struct attend_kernel_args *a, float *scratch, float *q,
                         float *weights, const int f32)
{
    enum { MOST = LONG_HEAD_DIM / THREADS };
    int row = block_x(), head = block_y(), hd = a->head_dim, d8 = round8(hd), t = thread(),
        pos = a->pos[row], first = a->window && pos - a->window + 1 > 0 ? pos - a->window + 1 : 0,
        kv_head = head / (a->n_heads / a->n_kv_heads);
    const int *table = a->table + (u64)a->seq[row] * (u64)a->table_stride;
    u64 at = ((u64)row * (u64)a->n_heads + (u64)head) * (u64)hd, of_head = head_page(hd);
    float run[MOST], run_max = -__builtin_inff(), run_sum = 0;
    UNROLL for (int j = 0; j < MOST; j++) run[j] = 0;
    for (int d = t; d < d8; d += THREADS) q[d] = d < hd ? a->q[at + (u64)d] : 0;
    barrier();
    for (int c0 = first / KV_SPLIT * KV_SPLIT; c0 <= pos; c0 += KV_SPLIT) {
        int end = pos < c0 + KV_SPLIT - 1 ? pos + 1 : c0 + KV_SPLIT,
            from = (first > c0 ? first : c0) / PAGE * PAGE, to = (end - 1) / PAGE * PAGE + PAGE,
            p = c0 + t, sees = p >= first && p < end;
        float score = -__builtin_inff();
        if (sees) {
            u64 page = ((u64)table[p / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head;
            score = key_dot(q, a->pages, page + (u64)(p % PAGE * 8), d8, f32) * a->scale;
            if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
        }
        float max = block_max(score, scratch);
        weights[t] = p >= from && p < to ? exact_exp(score - max) : 0;
        barrier();
        float lane = 0, acc[MOST];
        if (t < EXACT_LANES)
            for (int i = from - c0 + t; i < to - c0; i += EXACT_LANES) lane += weights[i];
        if (t < EXACT_LANES) scratch[t] = lane;
        UNROLL for (int j = 0; j < MOST; j++)
        {
            int d = t + j * THREADS;
            acc[j] = 0;
            for (int i = d < hd ? from : end; i < end; i += PAGE) {
                u64 page = ((u64)table[i / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head +
                           (u64)(PAGE * d8 + d);
                const float *w = weights + (i - c0);
                if (end - i >= PAGE)
                    UNROLL for (int c = 0; c < PAGE; c++) acc[j] =
                        fma32(w[c], page_value(a->pages, page + (u64)(c * d8), f32), acc[j]);
                else
                    for (int c = 0; c < end - i; c++)
                        acc[j] = fma32(w[c], page_value(a->pages, page + (u64)(c * d8), f32),
                                       acc[j]);
            }
        }
        barrier();
        float sum = exact_fold(scratch), m = run_max > max ? run_max : max;
        float old = exact_exp(run_max - m), now = exact_exp(max - m);
        run_max = m;
        run_sum = run_sum * old + sum * now;
        UNROLL for (int j = 0; j < MOST; j++) run[j] = run[j] * old + acc[j] * now;
        barrier();
    }
    float f = 1 / run_sum;
    if (a->sinks) {
        float sink = a->sinks[head], m = run_max > sink ? run_max : sink;
        float scaled = exact_exp(run_max - m);
        f = scaled / (run_sum * scaled + exact_exp(sink - m));
    }
    UNROLL for (int j = 0; j < MOST; j++) if (t + j * THREADS < hd)
        a->out[at + (u64)(t + j * THREADS)] = run[j] * f;
}

KERNEL(exact_attend_f16, struct attend_kernel_args)
{
    LDS(float, scratch, THREADS);
    LDS(float, q, LONG_HEAD_DIM);
    LDS(float, weights, KV_SPLIT);
    exact_attend(ARGS, scratch, q, weights, 0);
}

KERNEL(exact_attend_f32, struct attend_kernel_args)
{
    LDS(float, scratch, THREADS);
    LDS(float, q, LONG_HEAD_DIM);
    LDS(float, weights, KV_SPLIT);
    exact_attend(ARGS, scratch, q, weights, 1);
}
