/* exact_attend.hip: attention in the order of the CPU backend (backend-cpu/fp32.h), to the bit:
 * chunks of 256 positions at absolute multiples, one after another; scores dimension by dimension,
 * their maximum, exponentials summed in 16 lanes, values position by position, chunks merged in
 * order. Block (row, head): a thread is a position, then a dimension. */

DEVICE float page_value(const void *pages, u64 at, const int f32)
{
    return f32 ? ((const float *)pages)[at] : (float)((const f16 *)pages)[at];
}

/* The pages of a chunk's positions from .. end - 1, by page of the chunk. */
DEVICE void chunk_pages(const int *table, int c0, int from, int end, int *pages)
{
    int page = c0 / PAGE + thread();
    if (page >= from / PAGE && page * PAGE < end && thread() < KV_SPLIT / PAGE)
        pages[thread()] = table[page];
    barrier();
}

/* acc += the weighted values of a dimension at positions from .. end - 1 of a chunk, in order;
 * value: the dimension's element in a page. Two pages are asked for at a time. */
DEVICE float exact_values(const void *values, const int *pages, u64 of_page, u64 value, int d8,
                          const float *weights, int from, int end, float acc, const int f32)
{
    for (int i = from; i < end; i += 2 * PAGE) {
        float v[2 * PAGE];
        UNROLL for (int k = 0; k < 2; k++) if (i + k * PAGE < end)
        {
            u64 at = (u64)pages[i / PAGE + k] * of_page + value;
            UNROLL for (int c = 0; c < PAGE; c++) if (i + k * PAGE + c < end)
                v[k * PAGE + c] = page_value(values, at + (u64)(c * d8), f32);
        }
        UNROLL for (int c = 0; c < 2 * PAGE; c++) if (i + c < end)
            acc = fma32(weights[i + c], v[c], acc);
    }
    return acc;
}

DEVICE void exact_attend(const struct attend_kernel_args *a, float *scratch, float *q,
                         float *weights, int *pages, const int f32)
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
        chunk_pages(table, c0, from, end, pages);
        if (sees) {
            u64 page = ((u64)pages[t / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head;
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
            if (d < hd)
                acc[j] = exact_values(a->pages, pages, (u64)a->n_kv_heads * of_head,
                                      (u64)kv_head * of_head + (u64)(PAGE * d8 + d), d8, weights,
                                      from - c0, end - c0, 0, f32);
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
    LDS(int, pages, KV_SPLIT / PAGE);
    exact_attend(ARGS, scratch, q, weights, pages, 0);
}

KERNEL(exact_attend_f32, struct attend_kernel_args)
{
    LDS(float, scratch, THREADS);
    LDS(float, q, LONG_HEAD_DIM);
    LDS(float, weights, KV_SPLIT);
    LDS(int, pages, KV_SPLIT / PAGE);
    exact_attend(ARGS, scratch, q, weights, pages, 1);
}

/* ---- prompt rows: EXACT_ATTEND_ROWS neighbouring rows of a sequence and one head a block, which
 * read keys and values once. Positions that a row does not see have a weight of 0 and add nothing.
 */
struct exact_rows {
    float *q;           /* [EXACT_ATTEND_ROWS][GPU_HEAD_DIM] */
    float *weight;      /* [EXACT_ATTEND_ROWS][KV_SPLIT] scores, then weights */
    float *part;        /* [THREADS] */
    float *max, *lanes; /* [EXACT_ATTEND_ROWS]; [EXACT_ATTEND_ROWS][EXACT_LANES] */
};

/* The scores of a position, all rows. key: its first 8 dimensions */
DEVICE void exact_scores(const struct exact_rows *l, const void *pages, u64 key, int d8,
                         float s[EXACT_ATTEND_ROWS], const int f32)
{
    enum { AHEAD = 4 };
    UNROLL for (int r = 0; r < EXACT_ATTEND_ROWS; r++) s[r] = 0;
    for (int d0 = 0; d0 < d8; d0 += 8 * AHEAD) {
        struct eight k[AHEAD];
        UNROLL for (int j = 0; j < AHEAD; j++) if (d0 + 8 * j < d8)
            k[j] = load_eight(pages, key + (u64)((d0 / 8 + j) * PAGE * 8), f32);
        UNROLL for (int j = 0; j < AHEAD; j++) if (d0 + 8 * j < d8)
            UNROLL for (int r = 0; r < EXACT_ATTEND_ROWS; r++)
        {
            float q[8];
            load_octet(l->q + r * GPU_HEAD_DIM + d0 + 8 * j, q);
            UNROLL for (int i = 0; i < 8; i++) s[r] = fma32(q[i], element(&k[j], i, f32), s[r]);
        }
    }
}

/* Scores become weights; their maximum and the 16 lanes of their sum. 32 threads to a row. */
DEVICE void exact_weights(const struct exact_rows *l)
{
    int t = thread(), r = t / 32, lane = t % 32;
    float *w = l->weight + r * KV_SPLIT, max = -__builtin_inff(), sum = 0;
    barrier();
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++) max = max32(w[lane + 32 * i], max);
    l->part[t] = max;
    barrier();
    UNROLL_8 for (int i = 0; i < 32; i++) max = max32(l->part[t - lane + i], max);
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++)
    {
        float score = w[lane + 32 * i];
        w[lane + 32 * i] = max > -__builtin_inff() ? exact_exp(score - max) : 0;
    }
    barrier();
    if (lane == 0) l->max[r] = max;
    if (lane < EXACT_LANES) {
        UNROLL_8 for (int i = lane; i < KV_SPLIT; i += EXACT_LANES) sum += w[i];
        l->lanes[r * EXACT_LANES + lane] = sum;
    }
    barrier();
}

/* dims: threads to a row; a thread has a dimension of every (THREADS / dims)-th row */
DEVICE void exact_attend_rows(const struct attend_kernel_args *a, const struct exact_rows *l,
                              const int f32, const int dims)
{
    enum { ROWS = EXACT_ATTEND_ROWS };
    const int mine = ROWS * dims / THREADS;
    int t = thread(), of_tile = GROUP_ROWS / ROWS, head = block_y(), hd = a->head_dim,
        d8 = round8(hd), kv_head = head / (a->n_heads / a->n_kv_heads), d = t % dims,
        row_of = t / dims;
    const int *tile = a->tiles + 2 * (block_x() / of_tile);
    int row0 = tile[0] + block_x() % of_tile * ROWS, n = tile[0] + tile[1] - row0;
    if (n <= 0) return;
    if (n > ROWS) n = ROWS;
    int pos0 = a->pos[row0], last = pos0 + n - 1,
        first0 = a->window && pos0 - a->window + 1 > 0 ? pos0 - a->window + 1 : 0;
    const int *table = a->table + (u64)a->seq[row0] * (u64)a->table_stride;
    u64 of_head = head_page(hd);
    float run[ROWS], run_max[ROWS], run_sum[ROWS];
    UNROLL for (int k = 0; k < mine; k++) run[k] = run_sum[k] = 0, run_max[k] = -__builtin_inff();
    for (int i = t; i < ROWS * d8; i += THREADS) {
        int r = i / d8, e = i % d8;
        l->q[r * GPU_HEAD_DIM + e] =
            r < n && e < hd
                ? a->q[((u64)(row0 + r) * (u64)a->n_heads + (u64)head) * (u64)hd + (u64)e]
                : 0;
    }
    barrier();
    for (int c0 = first0 / KV_SPLIT * KV_SPLIT; c0 <= last; c0 += KV_SPLIT) {
        int end = last < c0 + KV_SPLIT - 1 ? last + 1 : c0 + KV_SPLIT,
            from = (first0 > c0 ? first0 : c0) / PAGE * PAGE, p = c0 + t;
        float s[ROWS];
        if (p >= first0 && p < end) {
            u64 page = ((u64)table[p / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head;
            exact_scores(l, a->pages, page + (u64)(p % PAGE * 8), d8, s, f32);
        }
        UNROLL for (int r = 0; r < ROWS; r++)
        {
            int pos = pos0 + r, sees = r < n && p <= pos && p >= first0 && p < end &&
                                       (!a->window || pos - p < a->window);
            float score = s[r] * a->scale;
            if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
            l->weight[r * KV_SPLIT + t] = sees ? score : -__builtin_inff();
        }
        exact_weights(l);
        float acc[ROWS];
        UNROLL for (int k = 0; k < mine; k++) acc[k] = 0;
        for (int i = d < hd ? from : end; i < end; i += PAGE) {
            u64 page = ((u64)table[i / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head +
                       (u64)(PAGE * d8 + d);
            int positions = end - i < PAGE ? end - i : PAGE;
            float value[PAGE];
            UNROLL for (int c = 0; c < PAGE; c++)
                value[c] = c < positions ? page_value(a->pages, page + (u64)(c * d8), f32) : 0;
            UNROLL for (int c = 0; c < PAGE; c += 4)
            {
                const float *v = value + c;
                UNROLL for (int k = 0; k < mine; k++)
                {
                    f32x4 w = *(const f32x4 *)(l->weight +
                                               (row_of + k * (THREADS / dims)) * KV_SPLIT + i - c0 +
                                               c);
                    UNROLL for (int e = 0; e < 4; e++) acc[k] = fma32(w[e], v[e], acc[k]);
                }
            }
        }
        UNROLL for (int k = 0; k < mine; k++)
        {
            int r = row_of + k * (THREADS / dims);
            float max = l->max[r], sum = exact_fold(l->lanes + r * EXACT_LANES),
                  m = run_max[k] > max ? run_max[k] : max;
            if (max > -__builtin_inff()) {
                float old = exact_exp(run_max[k] - m), now = exact_exp(max - m);
                run_max[k] = m;
                run_sum[k] = run_sum[k] * old + sum * now;
                run[k] = run[k] * old + acc[k] * now;
            }
        }
        barrier();
    }
    UNROLL for (int k = 0; k < mine; k++)
    {
        int r = row_of + k * (THREADS / dims);
        float f = 1 / run_sum[k];
        if (a->sinks) {
            float sink = a->sinks[head], m = run_max[k] > sink ? run_max[k] : sink,
                  scaled = exact_exp(run_max[k] - m);
            f = scaled / (run_sum[k] * scaled + exact_exp(sink - m));
        }
        if (r < n && d < hd)
            a->out[((u64)(row0 + r) * (u64)a->n_heads + (u64)head) * (u64)hd + (u64)d] = run[k] * f;
    }
}

DEVICE void exact_attend_any(const struct attend_kernel_args *a, const struct exact_rows *l,
                             const int f32)
{
    if (a->head_dim <= 64) exact_attend_rows(a, l, f32, 64);
    else if (a->head_dim <= 128) exact_attend_rows(a, l, f32, 128);
    else exact_attend_rows(a, l, f32, 256);
}

#define EXACT_ROWS_LDS(l)                                                                          \
    LDS(f32x4, q, EXACT_ATTEND_ROWS *GPU_HEAD_DIM / 4);                                            \
    LDS(f32x4, weight, EXACT_ATTEND_ROWS *KV_SPLIT / 4);                                           \
    LDS(float, part, THREADS);                                                                     \
    LDS(float, max, EXACT_ATTEND_ROWS);                                                            \
    LDS(float, lanes, EXACT_ATTEND_ROWS *EXACT_LANES);                                             \
    const struct exact_rows l = {(float *)q, (float *)weight, part, max, lanes}

KERNEL(exact_attend_rows_f16, struct attend_kernel_args)
{
    EXACT_ROWS_LDS(l);
    exact_attend_any(ARGS, &l, 0);
}

KERNEL(exact_attend_rows_f32, struct attend_kernel_args)
{
    EXACT_ROWS_LDS(l);
    exact_attend_any(ARGS, &l, 1);
}
