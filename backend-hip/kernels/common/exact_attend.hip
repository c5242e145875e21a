/* exact_attend.hip: attention in the order of the CPU backend (backend-cpu/fp32.h), to the bit:
 * chunks of 256 positions at absolute multiples, one after another; scores dimension by dimension,
 * their maximum, exponentials summed in 16 lanes, values position by position, chunks merged in
 * order. A thread of a block is a position, then a dimension. */

DEVICE float page_value(const void *pages, u64 offset, const int f32)
{
    return f32 ? ((const float *)pages)[offset] : (float)((const f16 *)pages)[offset];
}

/* Looks up the pages of a chunk's positions from .. end - 1, numbered within the chunk. */
DEVICE void chunk_pages(const int *table, int c0, int from, int end, int *pages)
{
    int page = c0 / PAGE + thread();
    if (page >= from / PAGE && page * PAGE < end && thread() < KV_SPLIT / PAGE)
        pages[thread()] = table[page];
    barrier();
}

/* Adds the weighted values of a dimension at positions from .. end - 1 of a chunk, in order. value:
 * where a page has the dimension's first element. Loads are issued a page at a time. */
DEVICE float exact_values(const void *values, const int *pages, u64 of_page, u64 value, int d8,
                          const float *weights, int from, int end, const int f32)
{
    float sum = 0;
    for (int i = from; i < end; i += PAGE) {
        u64 offset = (u64)pages[i / PAGE] * of_page + value;
        float v[PAGE];
        if (end - i >= PAGE) {
            UNROLL for (int c = 0; c < PAGE; c++)
                v[c] = page_value(values, offset + (u64)(c * d8), f32);
            UNROLL for (int c = 0; c < PAGE; c++) sum = fma32(weights[i + c], v[c], sum);
        } else {
            for (int c = 0; c < end - i; c++)
                sum = fma32(weights[i + c], page_value(values, offset + (u64)(c * d8), f32), sum);
        }
    }
    return sum;
}

/* Shared memory of a block. */
struct exact_chunk {
    float *scratch, *q, *weights; /* [THREADS], [LONG_HEAD_DIM], [KV_SPLIT] */
    int *pages;                   /* [KV_SPLIT / PAGE] */
};

enum { EXACT_DIMS = LONG_HEAD_DIM / THREADS }; /* of a thread */

/* Computes a row's chunk that begins at position c0: its values acc, the maximum of its scores, the
 * sum of its weights. */
DEVICE void exact_attend_chunk(const struct attend_kernel_args *a, const struct exact_chunk *l,
                               int row, int head, int pos, int first, int c0, float acc[EXACT_DIMS],
                               float *largest, float *sum, const int f32)
{
    int hd = a->head_dim, d8 = round8(hd), t = thread(),
        kv_head = head / (a->n_heads / a->n_kv_heads);
    const int *table = a->table + (u64)a->seq[row] * (u64)a->table_stride;
    u64 of_head = head_page(hd);
    int end = pos < c0 + KV_SPLIT - 1 ? pos + 1 : c0 + KV_SPLIT,
        from = (first > c0 ? first : c0) / PAGE * PAGE, to = (end - 1) / PAGE * PAGE + PAGE,
        p = c0 + t;
    float score = -__builtin_inff(), lane = 0;
    chunk_pages(table, c0, from, end, l->pages);
    if (p >= first && p < end) {
        u64 page = ((u64)l->pages[t / PAGE] * (u64)a->n_kv_heads + (u64)kv_head) * of_head;
        score = key_dot(l->q, a->pages, page + (u64)(p % PAGE * 8), d8, f32) * a->scale;
        if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
    }
    float max = block_max(score, l->scratch);
    l->weights[t] = p >= from && p < to ? exact_exp(score - max) : 0;
    barrier();
    if (t < EXACT_LANES) {
        for (int i = from - c0 + t; i < to - c0; i += EXACT_LANES) lane += l->weights[i];
        l->scratch[t] = lane;
    }
    UNROLL for (int j = 0; j < EXACT_DIMS; j++)
    {
        int d = t + j * THREADS;
        acc[j] = 0;
        if (d < hd)
            acc[j] = exact_values(a->pages, l->pages, (u64)a->n_kv_heads * of_head,
                                  (u64)kv_head * of_head + (u64)(PAGE * d8 + d), d8, l->weights,
                                  from - c0, end - c0, f32);
    }
    barrier();
    *largest = max;
    *sum = exact_fold(l->scratch);
    barrier();
}

/* What the chunks before gave, and how another one changes it. */
struct exact_run {
    float acc[EXACT_DIMS], max, sum;
};

/* Adds a chunk's maximum and sum to those of all chunks. *old, *now: the factors of the values so
 * far and of the chunk's. */
DEVICE void exact_merge_scales(float *all_max, float *all_sum, float max, float sum, float *old,
                               float *now)
{
    float m = *all_max > max ? *all_max : max;
    *old = exact_exp(*all_max - m);
    *now = exact_exp(max - m);
    *all_max = m;
    *all_sum = *all_sum * *old + sum * *now;
}

DEVICE void exact_merge(struct exact_run *r, const float acc[EXACT_DIMS], float max, float sum)
{
    float old, now;
    exact_merge_scales(&r->max, &r->sum, max, sum, &old, &now);
    UNROLL for (int j = 0; j < EXACT_DIMS; j++) r->acc[j] = r->acc[j] * old + acc[j] * now;
}

DEVICE struct exact_run exact_begin_run(void)
{
    struct exact_run r;
    r.max = -__builtin_inff();
    r.sum = 0;
    UNROLL for (int j = 0; j < EXACT_DIMS; j++) r.acc[j] = 0;
    return r;
}

/* The factor of the values of all chunks. sinks: [n_heads] or NULL */
DEVICE float exact_factor(float sum, float max, const float *sinks, int head)
{
    if (!sinks) return 1 / sum;
    float sink = sinks[head], m = max > sink ? max : sink, scaled = exact_exp(max - m);
    return scaled / (sum * scaled + exact_exp(sink - m));
}

DEVICE void exact_end_run(const struct exact_run *r, const float *sinks, int head, int hd,
                          float *out)
{
    float f = exact_factor(r->sum, r->max, sinks, head);
    UNROLL for (int j = 0; j < EXACT_DIMS; j++) if (thread() + j * THREADS < hd)
        out[thread() + j * THREADS] = r->acc[j] * f;
}

DEVICE void exact_query(const struct attend_kernel_args *a, u64 offset, float *q)
{
    for (int d = thread(); d < round8(a->head_dim); d += THREADS)
        q[d] = d < a->head_dim ? a->q[offset + (u64)d] : 0;
    barrier();
}

/* Block (row, head) */
DEVICE void exact_attend(const struct attend_kernel_args *a, const struct exact_chunk *l,
                         const int f32)
{
    int row = block_x(), head = block_y(), pos = a->pos[row], first = first_seen(pos, a->window);
    u64 offset = ((u64)row * (u64)a->n_heads + (u64)head) * (u64)a->head_dim;
    struct exact_run r = exact_begin_run();
    exact_query(a, offset, l->q);
    for (int c0 = first / KV_SPLIT * KV_SPLIT; c0 <= pos; c0 += KV_SPLIT) {
        float acc[EXACT_DIMS], max, sum;
        exact_attend_chunk(a, l, row, head, pos, first, c0, acc, &max, &sum, f32);
        exact_merge(&r, acc, max, sum);
    }
    exact_end_run(&r, a->sinks, head, a->head_dim, a->out + offset);
}

/* Block (row, head, chunk): the chunk alone, for exact_combine. */
DEVICE void exact_attend_split(const struct attend_kernel_args *a, const struct exact_chunk *l,
                               const int f32)
{
    int row = block_x(), head = block_y(), hd = a->head_dim, c0 = block_z() * KV_SPLIT,
        pos = a->pos[row], first = first_seen(pos, a->window);
    u64 count = (u64)row * (u64)a->n_heads + (u64)head;
    float acc[EXACT_DIMS], max, sum;
    if (c0 > pos || c0 + KV_SPLIT <= first) return;
    exact_query(a, count * (u64)hd, l->q);
    exact_attend_chunk(a, l, row, head, pos, first, c0, acc, &max, &sum, f32);
    float *part = a->parts + (count * (u64)a->n_splits + (u64)block_z()) * (u64)part_floats(hd);
    UNROLL for (int j = 0; j < EXACT_DIMS; j++) if (thread() + j * THREADS < hd)
        part[thread() + j * THREADS] = acc[j];
    if (thread() == 0) {
        part[round8(hd)] = max;
        part[round8(hd) + 1] = sum;
    }
}

/* Block (row, head): merges the chunks of a row in order. */
KERNEL(exact_combine, struct combine_args)
{
    const struct combine_args *m = ARGS;
    int row = block_x(), head = block_y(), hd = m->head_dim, pos = m->pos[row],
        last = m->most && pos >= m->most ? m->most - 1 : pos,
        first = first_seen(pos, m->window) / KV_SPLIT, size = part_floats(hd);
    u64 count = (u64)row * (u64)m->n_heads + (u64)head;
    struct exact_run r = exact_begin_run();
    UNROLL_4 for (int c = first; c <= last / KV_SPLIT; c++)
    {
        const float *part = m->parts + (count * (u64)m->n_splits + (u64)c) * (u64)size;
        float acc[EXACT_DIMS];
        UNROLL for (int j = 0; j < EXACT_DIMS; j++)
            acc[j] = thread() + j * THREADS < hd ? part[thread() + j * THREADS] : 0;
        exact_merge(&r, acc, part[round8(hd)], part[round8(hd) + 1]);
    }
    exact_end_run(&r, m->sinks, head, hd, m->out + count * (u64)hd);
}

#define EXACT_CHUNK_LDS(l)                                                                         \
    LDS(float, scratch, THREADS);                                                                  \
    LDS(float, q, LONG_HEAD_DIM);                                                                  \
    LDS(float, weights, KV_SPLIT);                                                                 \
    LDS(int, pages, KV_SPLIT / PAGE);                                                              \
    const struct exact_chunk l = {scratch, q, weights, pages}

KERNEL(exact_attend_f16, struct attend_kernel_args)
{
    EXACT_CHUNK_LDS(l);
    exact_attend(ARGS, &l, 0);
}

KERNEL(exact_attend_f32, struct attend_kernel_args)
{
    EXACT_CHUNK_LDS(l);
    exact_attend(ARGS, &l, 1);
}

KERNEL(exact_attend_split_f16, struct attend_kernel_args)
{
    EXACT_CHUNK_LDS(l);
    exact_attend_split(ARGS, &l, 0);
}

KERNEL(exact_attend_split_f32, struct attend_kernel_args)
{
    EXACT_CHUNK_LDS(l);
    exact_attend_split(ARGS, &l, 1);
}

/* ---- prompt rows: EXACT_ATTEND_ROWS neighbouring rows of a sequence and one head a block, which
 * read keys and values once. Positions that a row does not see have a weight of 0 and add nothing.
 */

/* What a block knows of its rows, in shared memory: the maximum and sum of the chunks so far, and
 * two factors for merging a chunk, `old` of the values so far (-1: the row sees nothing of the
 * chunk) and `now` of the chunk's. */
struct exact_rows_run {
    float max[EXACT_ATTEND_ROWS], sum[EXACT_ATTEND_ROWS], old[EXACT_ATTEND_ROWS],
        now[EXACT_ATTEND_ROWS];
};

/* Shared memory of a block. */
struct exact_rows {
    struct exact_rows_run *run;
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

/* Initializes the rows before the first chunk. */
DEVICE void exact_begin_rows(struct exact_rows_run *run)
{
    int r = thread();
    if (r < EXACT_ATTEND_ROWS) run->max[r] = -__builtin_inff(), run->sum[r] = 0;
}

/* Adds a chunk's maximum and sum to those of row r. One thread of the row calls it. */
DEVICE void exact_merge_row(struct exact_rows_run *run, int r, float max, float sum)
{
    run->old[r] = -1, run->now[r] = 0;
    if (!(max > -__builtin_inff())) return;
    exact_merge_scales(&run->max[r], &run->sum[r], max, sum, &run->old[r], &run->now[r]);
}

/* Computes the factors of the results into run->now, and ends with a barrier. */
DEVICE void exact_end_rows(struct exact_rows_run *run, const float *sinks, int head)
{
    int r = thread();
    if (r < EXACT_ATTEND_ROWS) run->now[r] = exact_factor(run->sum[r], run->max[r], sinks, head);
    barrier();
}

/* Merges `acc`, a value of a chunk, with `before`, that of the chunks so far. */
DEVICE float exact_merged(const struct exact_rows_run *run, int r, float before, float acc)
{
    float old = run->old[r], both = before * old + acc * run->now[r];
    return old < 0 ? before : both;
}

/* The rows of a block: row0 .. row0 + n - 1 at positions pos0 .. last of a sequence; first0: the
 * first position that the first row sees. aligned: pos0 is a multiple of `rows`, and the rows
 * before number `begin` do not exist. */
struct exact_row_range {
    int row0, begin, n, pos0, last, first0; /* n <= begin: no rows */
    const int *table;
};

DEVICE struct exact_row_range exact_rows_of(const struct attend_kernel_args *a, const int rows,
                                            const int aligned)
{
    struct exact_row_range g;
    int of_tile = GROUP_ROWS / rows;
    const int *tile = a->tiles + 2 * (block_y() / of_tile);
    int skip = aligned && tile[1] ? a->pos[tile[0]] % GROUP_ROWS : 0;
    g.row0 = tile[0] + block_y() % of_tile * rows - skip;
    g.begin = aligned && g.row0 < tile[0] ? tile[0] - g.row0 : 0;
    g.n = tile[0] + tile[1] - g.row0;
    if (g.n <= g.begin) return g;
    if (g.n > rows) g.n = rows;
    if (g.n <= g.begin) return g;
    g.pos0 = a->pos[g.row0 + g.begin] - g.begin;
    g.last = g.pos0 + g.n - 1;
    g.first0 = first_seen(g.pos0 + g.begin, a->window);
    g.table = a->table + (u64)a->seq[g.row0 + g.begin] * (u64)a->table_stride;
    return g;
}

/* Merges the values of positions from .. end - 1 into value_of[]; c0 is the first position of their
 * chunk. `dims` threads share a row: a thread has one dimension of every (THREADS / dims)-th row.
 * In `values` the KV head begins at element of_head of each page, a page has of_page elements. */
DEVICE void exact_merge_chunk(const struct exact_rows *l, const void *values, const int *table,
                              u64 of_page, u64 of_head, int hd, int c0, int from, int end,
                              float *value_of, const int f32, const int dims)
{
    const int own = EXACT_ATTEND_ROWS * dims / THREADS;
    const int bytes = f32 ? 4 : 2; /* of a value */
    int d = thread() % dims, row_of = thread() / dims, d8 = round8(hd);
    u32 of_thread = (u32)((d < hd ? d : 0) * bytes);
    float acc[EXACT_ATTEND_ROWS];
    UNROLL for (int k = 0; k < own; k++) acc[k] = 0;
    for (int i = from; i < end; i += PAGE) {
        u32 number;
        float value[PAGE];
        uniform_words(table + i / PAGE, 1, &number);
        const u8 *page = (const u8 *)values +
                         (number * of_page + of_head + (u64)(PAGE * d8)) * (u64)bytes;
        if (end - i >= PAGE)
            UNROLL for (int c = 0; c < PAGE; c++) value[c] =
                page_value(uniform(page + c * d8 * bytes) + of_lane(of_thread), 0, f32);
        else
            UNROLL for (int c = 0; c < PAGE; c++)
        {
            value[c] = 0;
            if (i + c < end)
                value[c] = page_value(uniform(page + c * d8 * bytes) + of_lane(of_thread), 0, f32);
        }
        UNROLL for (int c = 0; c < PAGE; c += 4)
        {
            const float *v = value + c;
            UNROLL for (int k = 0; k < own; k++)
            {
                f32x4 w = *(const f32x4 *)(l->weight + (row_of + k * (THREADS / dims)) * KV_SPLIT +
                                           i - c0 + c);
                UNROLL for (int e = 0; e < 4; e++) acc[k] = fma32(w[e], v[e], acc[k]);
            }
        }
    }
    UNROLL for (int k = 0; k < own; k++)
    {
        value_of[k] = exact_merged(l->run, row_of + k * (THREADS / dims), value_of[k], acc[k]);
    }
}

DEVICE void exact_put_rows(const struct attend_kernel_args *a, const struct exact_row_range *g,
                           const struct exact_rows_run *run, const float *value, const int dims)
{
    int d = thread() % dims, hd = a->head_dim, head = block_x();
    UNROLL for (int k = 0; k < EXACT_ATTEND_ROWS * dims / THREADS; k++)
    {
        int r = thread() / dims + k * (THREADS / dims);
        if (r >= g->begin && r < g->n && d < hd)
            a->out[((u64)(g->row0 + r) * (u64)a->n_heads + (u64)head) * (u64)hd + (u64)d] =
                value[k] * run->now[r];
    }
}

DEVICE void exact_attend_any(const struct attend_kernel_args *a, const struct exact_rows *l,
                             const int f32)
{
    enum { ROWS = EXACT_ATTEND_ROWS };
    int t = thread(), head = block_x(), hd = a->head_dim, d8 = round8(hd),
        kv_head = head / (a->n_heads / a->n_kv_heads);
    const struct exact_row_range g = exact_rows_of(a, ROWS, 0);
    float value[ROWS];
    if (g.n <= 0) return;
    u64 of_page = (u64)a->n_kv_heads * head_page(hd), of_head = (u64)kv_head * head_page(hd);
    UNROLL for (int k = 0; k < ROWS; k++) value[k] = 0;
    exact_begin_rows(l->run);
    for (int i = t; i < ROWS * d8; i += THREADS) {
        int r = i / d8, e = i % d8;
        l->q[r * GPU_HEAD_DIM + e] =
            r < g.n && e < hd
                ? a->q[((u64)(g.row0 + r) * (u64)a->n_heads + (u64)head) * (u64)hd + (u64)e]
                : 0;
    }
    barrier();
    for (int c0 = g.first0 / KV_SPLIT * KV_SPLIT; c0 <= g.last; c0 += KV_SPLIT) {
        int end = g.last < c0 + KV_SPLIT - 1 ? g.last + 1 : c0 + KV_SPLIT,
            from = (g.first0 > c0 ? g.first0 : c0) / PAGE * PAGE, p = c0 + t;
        float s[ROWS];
        if (p >= g.first0 && p < end)
            exact_scores(l, a->pages,
                         (u64)g.table[p / PAGE] * of_page + of_head + (u64)(p % PAGE * 8), d8, s,
                         f32);
        UNROLL for (int r = 0; r < ROWS; r++)
        {
            int pos = g.pos0 + r, sees = r < g.n && p <= pos && p >= first_seen(pos, a->window) &&
                                         p < end;
            float score = s[r] * a->scale;
            if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
            l->weight[r * KV_SPLIT + t] = sees ? score : -__builtin_inff();
        }
        exact_weights(l);
        if (t < ROWS)
            exact_merge_row(l->run, t, l->max[t], exact_fold(l->lanes + t * EXACT_LANES));
        barrier();
        if (hd <= 64)
            exact_merge_chunk(l, a->pages, g.table, of_page, of_head, hd, c0, from, end, value, f32,
                              64);
        else if (hd <= 128)
            exact_merge_chunk(l, a->pages, g.table, of_page, of_head, hd, c0, from, end, value, f32,
                              128);
        else
            exact_merge_chunk(l, a->pages, g.table, of_page, of_head, hd, c0, from, end, value, f32,
                              256);
        barrier();
    }
    exact_end_rows(l->run, a->sinks, head);
    if (hd <= 64) exact_put_rows(a, &g, l->run, value, 64);
    else if (hd <= 128) exact_put_rows(a, &g, l->run, value, 128);
    else exact_put_rows(a, &g, l->run, value, 256);
}

#define EXACT_ROWS_LDS(l)                                                                          \
    LDS(f32x4, q, EXACT_ATTEND_ROWS *GPU_HEAD_DIM / 4);                                            \
    LDS(f32x4, weight, EXACT_ATTEND_ROWS *KV_SPLIT / 4);                                           \
    LDS(float, part, THREADS);                                                                     \
    LDS(float, max, EXACT_ATTEND_ROWS);                                                            \
    LDS(float, lanes, EXACT_ATTEND_ROWS *EXACT_LANES);                                             \
    LDS(struct exact_rows_run, run, 1);                                                            \
    const struct exact_rows l = {run, (float *)q, (float *)weight, part, max, lanes}

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
