/* exact_attend_int8.hip: attention over pages of int8 and int4 in the order of the CPU backend
 * (backend-cpu/attend_int8.h), to the bit: a query is quantized once, of one or two int8 digits; a
 * score is an exact integer sum times the scales of query and key; the weights of a chunk of 256
 * positions, times the scales of their values, are quantized together, of two digits; their sums
 * with the codes are exact. So threads share out dimensions and positions freely. An integer is 128
 * * first digit + second. */

enum { EXACT_WEIGHT_TOP = 127 * 128 };

DEVICE float exact_query_top(int digits) { return digits == 2 ? 127 * 128 : 127; }

/* The digits of an integer as bytes. */
DEVICE void put_digits(u8 *first, u8 *second, int v)
{
    int high = (v + 64) >> 7;
    *first = (u8)high;
    *second = (u8)(v - high * 128);
}

/* The integer that two sums of digits make; with one digit `second` is the sum. */
DEVICE int of_digits(int first, int second, const int digits)
{
    return digits == 2 ? first * 128 + second : second;
}

DEVICE const u8 *int8_page_of(const struct attend_kernel_args *a, const int *table, int index,
                              int kv_head)
{
    return (const u8 *)a->pages +
           ((u64)table[index] * (u64)a->n_kv_heads + (u64)kv_head) * INT8_PAGE(a->head_dim);
}

/* ---- a block for each (row, head): of shared memory */
struct exact_int8 {
    u8 *q;       /* [2 digits][LONG_HEAD_DIM] */
    u8 *w;       /* [2 digits][KV_SPLIT] */
    int *sums;   /* [4 THREADS] */
    float query; /* scale of the query */
};

/* Quantizes a head's query. offset: its element of a->q */
DEVICE void exact_query_int8(const struct attend_kernel_args *a, struct exact_int8 *l,
                             float *scratch, u64 offset)
{
    int hd = a->head_dim, maximum = 0;
    for (int d = thread(); d < hd; d += THREADS)
        maximum = larger_bits(a->q[offset + (u64)d], maximum);
    maximum = block_most(maximum, (int *)scratch);
    struct int_scale s = int_scale_of(maximum, exact_query_top(a->digits));
    for (int d = thread(); d < round16(hd); d += THREADS) {
        int v = d < hd ? rounded_int(a->q[offset + (u64)d], s.inverse) : 0;
        if (a->digits == 2) put_digits(l->q + d, l->q + LONG_HEAD_DIM + d, v);
        else l->q[LONG_HEAD_DIM + d] = (u8)v;
    }
    l->query = s.scale;
    barrier();
}

/* Query . codes of a position. key: its first 16 dimensions */
DEVICE int exact_key_sum(const u8 *q, const u8 *key, int d16, const int digits)
{
    int first = 0, second = 0;
    for (int d0 = 0; d0 < d16; d0 += 16 * INT8_BATCH) {
        u32x4 k[INT8_BATCH];
        UNROLL for (int j = 0; j < INT8_BATCH; j++) if (d0 + 16 * j < d16)
            k[j] = *(const u32x4 *)(key + (u32)((d0 + 16 * j) * PAGE));
        UNROLL for (int j = 0; j < INT8_BATCH; j++) if (d0 + 16 * j < d16)
        {
            u32x4 low = *(const u32x4 *)(q + LONG_HEAD_DIM + d0 + 16 * j),
                  high = digits == 2 ? *(const u32x4 *)(q + d0 + 16 * j) : low;
            UNROLL for (int i = 0; i < 4; i++)
            {
                if (digits == 2) first = dot4(high[i], k[j][i], first);
                second = dot4(low[i], k[j][i], second);
            }
        }
    }
    return of_digits(first, second, digits);
}

/* Query . codes of a position of a packed page. */
DEVICE int exact_packed_key_sum(const u8 *q, const u8 *page, int position, int d16,
                                const int digits)
{
    int first = 0, second = 0;
    for (int d = 0; d < d16; d += 16) {
        u32x4 k = int4_key_piece(page, int8_key_at(d, position), d, d16),
              low = *(const u32x4 *)(q + LONG_HEAD_DIM + d),
              high = digits == 2 ? *(const u32x4 *)(q + d) : low;
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (digits == 2) first = dot4(high[i], k[i], first);
            second = dot4(low[i], k[i], second);
        }
    }
    return of_digits(first, second, digits);
}

/* Adds the sums of weights and codes over the fours f to the sums of the two digits. */
DEVICE void exact_add_fours(const struct exact_int8 *l, const struct int8_block *b,
                            const struct int8_fours *f, int first[4], int second[4],
                            const int packed)
{
    for (int four = f->first + b->slice; b->slice < b->slices && four < f->end;
         four += INT8_BATCH * b->slices) {
        u32x4 v[INT8_BATCH];
        int8_load_values(b, f, v, four, packed);
        UNROLL for (int j = 0; j < INT8_BATCH; j++)
        {
            int index = four + j * b->slices, valid = index < f->end;
            u32 high = ((const u32 *)l->w)[valid ? index : 0],
                low = ((const u32 *)l->w)[KV_SPLIT / 4 + (valid ? index : 0)];
            if (!valid) high = low = 0;
            u32x4 codes = packed ? int4_value_piece(v[j]) : v[j];
            UNROLL for (int d = 0; d < 4; d++)
            {
                first[d] = dot4(high, codes[d], first[d]);
                second[d] = dot4(low, codes[d], second[d]);
            }
        }
    }
}

/* The sums of weights and codes over positions from .. to of a chunk, whose weights elsewhere are
 * 0: thread (slice, four dimensions) takes fours of positions in turn. b: as of attend_int8.hip.
 * Leaves [slices][d16] of them in l->sums. */
DEVICE void exact_value_sums(const struct exact_int8 *l, const struct int8_block *b, int from,
                             int to, const int int4)
{
    int first[4] = {0, 0, 0, 0}, second[4] = {0, 0, 0, 0};
    struct int8_fours packed = packed_fours_of(b, from, to, int4),
                      plain = plain_fours_of(b, from, to, int4);
    exact_add_fours(l, b, &packed, first, second, 1);
    exact_add_fours(l, b, &plain, first, second, 0);
    if (b->slice < b->slices)
        UNROLL for (int d = 0; d < 4; d++)
            l->sums[b->slice * b->d16 + 4 * b->quad + d] = of_digits(first[d], second[d], 2);
    barrier();
}

/* exact_attend_chunk() over int8 and int4. */
DEVICE void exact_chunk_int8(const struct attend_kernel_args *a, const struct exact_int8 *l,
                             struct int8_block *b, int row, int head, int pos, int first, int c0,
                             float acc[EXACT_DIMS], float *largest, float *sum, const int int4,
                             const int biased)
{
    int hd = a->head_dim, t = thread(), kv_head = head / (a->n_heads / a->n_kv_heads),
        from = first > c0 ? first - c0 : 0, to = pos - c0 < KV_SPLIT - 1 ? pos - c0 : KV_SPLIT - 1,
        seen = t >= from && t <= to;
    float score = -__builtin_inff(), of_value = 0, lane = 0;
    int8_pages_of(a, b, row, kv_head, c0, from, to, int4);
    barrier();
    int lines = int4 ? (10 * b->d16 + 127) / 128 : b->d16 / 8; /* cache lines of a page's values */
    for (int i = t; i < KV_SPLIT / PAGE * lines; i += THREADS) {
        int page = i / lines;
        if (page >= from / PAGE && page <= to / PAGE)
            prefetch_line(int8_page_at(b, page) + (int4 ? 10 : PAGE) * b->d16 + i % lines * 128);
    }
    if (seen) {
        const u8 *page = int8_page_at(b, t / PAGE), *key = page + t % PAGE * 16;
        int packed = is_packed(b, t / PAGE, int4), s;
        const float *scales =
            (packed ? int4_scales_of(page, b->d16) : int8_scales_of(page, b->d16)) + t % PAGE;
        float of_key = scales[0];
        of_value = scales[PAGE];
        if (packed)
            s = a->digits == 2 ? exact_packed_key_sum(l->q, page, t % PAGE, b->d16, 2)
                               : exact_packed_key_sum(l->q, page, t % PAGE, b->d16, 1);
        else
            s = a->digits == 2 ? exact_key_sum(l->q, key, b->d16, 2)
                               : exact_key_sum(l->q, key, b->d16, 1);
        score = (float)s * (l->query * of_key);
        if (biased) score += bias_term(a, b, kv_head, c0, t);
        score *= a->scale;
        if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
    }
    float max = block_max(score, b->scratch), weight = seen ? exact_exp(score - max) : 0,
          w = weight * of_value;
    b->p[t] = weight;
    struct int_scale s = int_scale_of(block_most(larger_bits(w, 0), (int *)b->scratch),
                                      EXACT_WEIGHT_TOP);
    put_digits(l->w + t, l->w + KV_SPLIT + t, rounded_int(w, s.inverse));
    if (t < EXACT_LANES) {
        for (int i = from / PAGE * PAGE + t; i <= to; i += EXACT_LANES) lane += b->p[i];
        b->scratch[t] = lane;
    }
    barrier();
    exact_value_sums(l, b, from, to, int4);
    UNROLL for (int j = 0; j < EXACT_DIMS; j++)
    {
        int d = t + j * THREADS, all = 0;
        if (d < hd)
            for (int i = 0; i < b->slices; i++) all += l->sums[i * b->d16 + d];
        acc[j] = (float)all * s.scale;
    }
    *largest = max;
    *sum = exact_fold(b->scratch);
    barrier();
}

/* Block (row, head) */
DEVICE void exact_rows_of_head_int8(const struct attend_kernel_args *a, struct exact_int8 *l,
                                    struct int8_block *b, const int int4, const int biased)
{
    int row = block_x(), head = block_y(), pos = a->pos[row], first = first_seen(pos, a->window);
    u64 offset = ((u64)row * (u64)a->n_heads + (u64)head) * (u64)a->head_dim;
    struct exact_run r = exact_begin_run();
    exact_query_int8(a, l, b->scratch, offset);
    if (biased) plain_query(a, b, offset);
    for (int c0 = first / KV_SPLIT * KV_SPLIT; c0 <= pos; c0 += KV_SPLIT) {
        float acc[EXACT_DIMS], max, sum;
        exact_chunk_int8(a, l, b, row, head, pos, first, c0, acc, &max, &sum, int4, biased);
        exact_merge(&r, acc, max, sum);
    }
    exact_end_run(&r, a->sinks, head, a->head_dim, a->out + offset);
}

/* Block (row, head, chunk): the chunk alone, for exact_combine, or for attend_combine with fp16
 * activations. */
DEVICE void exact_split_int8(const struct attend_kernel_args *a, struct exact_int8 *l,
                             struct int8_block *b, const int int4, const int biased)
{
    const struct row_split work = row_split_of(a, block_x(), block_z());
    int row = work.row, head = block_y(), hd = a->head_dim, c0 = work.split * KV_SPLIT,
        pos = a->pos[row], first = first_seen(pos, a->window);
    u64 count = (u64)row * (u64)a->n_heads + (u64)head;
    float acc[EXACT_DIMS], max, sum;
    if (c0 > pos || c0 + KV_SPLIT <= first) return;
    exact_query_int8(a, l, b->scratch, count * (u64)hd);
    if (biased) plain_query(a, b, count * (u64)hd);
    exact_chunk_int8(a, l, b, row, head, pos, first, c0, acc, &max, &sum, int4, biased);
    float *part = a->parts + (count * (u64)a->n_splits + (u64)work.split) * (u64)part_floats(hd);
    UNROLL for (int j = 0; j < EXACT_DIMS; j++) if (thread() + j * THREADS < hd)
        part[thread() + j * THREADS] = acc[j];
    if (thread() == 0) {
        part[round8(hd)] = max;
        part[round8(hd) + 1] = sum;
    }
}

#define EXACT_INT8(name, function, apart)                                                          \
    KERNEL(name, struct attend_kernel_args)                                                        \
    {                                                                                              \
        LDS(float, scratch, THREADS);                                                              \
        LDS(u32x4, q, 2 * LONG_HEAD_DIM / 16);                                                     \
        LDS(float, p, KV_SPLIT);                                                                   \
        LDS(u32x4, w, 2 * KV_SPLIT / 16);                                                          \
        LDS(int, sums, 4 * THREADS);                                                               \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        const struct attend_kernel_args *a = ARGS;                                                 \
        struct exact_int8 l = {(u8 *)q, (u8 *)w, sums, 0};                                         \
        struct int8_block b = int8_block_of(a, (float *)0, p, scratch, (float *)0, pages);         \
        if (!(apart)) function(a, &l, &b, a->open.own != 0, 0);                                       \
        else if (a->open.own) function(a, &l, &b, 1, 0);                                            \
        else function(a, &l, &b, 0, 0);                                                             \
    }
EXACT_INT8(exact_attend_int8, exact_rows_of_head_int8, 0)
EXACT_INT8(exact_attend_split_int8, exact_split_int8, THIS_IMAGE & IMAGES_GFX906) /* its size */
#undef EXACT_INT8

/* The same with key biases. */
#define EXACT_BIASED(name, function)                                                               \
    KERNEL(name, struct attend_kernel_args)                                                        \
    {                                                                                              \
        LDS(float, scratch, THREADS);                                                              \
        LDS(float, plain, LONG_HEAD_DIM);                                                          \
        LDS(u32x4, q, 2 * LONG_HEAD_DIM / 16);                                                     \
        LDS(float, p, KV_SPLIT);                                                                   \
        LDS(u32x4, w, 2 * KV_SPLIT / 16);                                                          \
        LDS(int, sums, 4 * THREADS);                                                               \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        const struct attend_kernel_args *a = ARGS;                                                 \
        struct exact_int8 l = {(u8 *)q, (u8 *)w, sums, 0};                                         \
        struct int8_block b = int8_block_of(a, (float *)0, p, scratch, (float *)0, pages);         \
        b.plain = plain;                                                                           \
        function(a, &l, &b, a->open.own != 0, 1);                                                   \
    }
EXACT_BIASED(exact_attend_biased, exact_rows_of_head_int8)
EXACT_BIASED(exact_split_biased, exact_split_int8)
#undef EXACT_BIASED

/* ---- prompt rows: EXACT_ATTEND_ROWS neighbouring rows of a sequence and one head a block, which
 * read keys and values once. Half of the threads has the first half of the rows. */
struct exact_rows_int8 {
    struct exact_rows_run *run;
    u8 *q;                            /* [EXACT_ATTEND_ROWS][2 digits][GPU_HEAD_DIM] */
    float *p;                         /* [EXACT_ATTEND_ROWS][KV_SPLIT] scores, then weights */
    u8 *w;                            /* [EXACT_ATTEND_ROWS][2 digits][KV_SPLIT] */
    int *sums;                        /* [16 THREADS] */
    float *part;                      /* [THREADS] */
    float *of_value;                  /* [KV_SPLIT] scales */
    float *max, *scale, *query;       /* [EXACT_ATTEND_ROWS]; scales of weights and queries */
    float *lanes;                     /* [EXACT_ATTEND_ROWS][EXACT_LANES] */
};

enum { HALF_ROWS = EXACT_ATTEND_ROWS / 2, HALF_THREADS = THREADS / 2 };

/* Whether row r of a block sees position p; first: its first one. */
DEVICE int sees_position(const struct exact_row_range *g, int r, int p, int first)
{
    return r >= g->begin && r < g->n && p <= g->pos0 + r && p >= first;
}

/* A page of a block's sequence. own: the page that its rows are in; -1: all pages are of int8 */
DEVICE const u8 *exact_page_of(const struct attend_kernel_args *a, const struct exact_row_range *g,
                               int index, int own, int kv_head)
{
    if (own < 0) return int8_page_of(a, g->table, index, kv_head);
    return index < own ? int4_page_of(a, g->table[index], kv_head)
                       : own_page_of(a, g->row0 + g->begin, kv_head);
}

/* The largest of the numbers that the 32 threads of a row have. */
DEVICE int most_of_row(int x, int *part)
{
    int t = thread(), first = t / 32 * 32;
    barrier();
    part[t] = x;
    barrier();
    UNROLL_8 for (int i = 0; i < 32; i++) x = part[first + i] > x ? part[first + i] : x;
    return x;
}

/* Quantizes the queries of a block: 32 threads to a row. */
DEVICE void exact_queries_int8(const struct attend_kernel_args *a, const struct exact_rows_int8 *l,
                               const struct exact_row_range *g)
{
    int t = thread(), r = t / 32, hd = a->head_dim, maximum = 0;
    u8 *first = l->q + r * 2 * GPU_HEAD_DIM, *second = first + GPU_HEAD_DIM;
    const float *q =
        a->q + ((u64)(g->row0 + (r >= g->begin && r < g->n ? r : g->begin)) * (u64)a->n_heads +
                (u64)block_x()) *
                   (u64)hd;
    for (int d = t % 32; d < hd; d += 32) maximum = larger_bits(q[d], maximum);
    struct int_scale s = int_scale_of(most_of_row(maximum, (int *)l->part),
                                      exact_query_top(a->digits));
    for (int d = t % 32; d < round16(hd); d += 32) {
        int v = d < hd ? rounded_int(q[d], s.inverse) : 0;
        if (a->digits == 2) put_digits(first + d, second + d, v);
        else second[d] = (u8)v;
    }
    if (t % 32 == 0) l->query[r] = s.scale;
    barrier();
}

/* The scores of positions c0 + u and c0 + u + HALF_THREADS of half of the rows. */
DEVICE void exact_scores_int8(const struct attend_kernel_args *a, const struct exact_rows_int8 *l,
                              const struct exact_row_range *g, int kv_head, int c0, int from,
                              int end, const int digits, const int int4)
{
    int t = thread(), half = t / HALF_THREADS, d16 = round16(a->head_dim), first[HALF_ROWS][2],
        second[HALF_ROWS][2], place[2], packed[2], own = int4 ? g->pos0 / PAGE : -1;
    const u8 *key[2];
    const float *scales[2];
    UNROLL for (int j = 0; j < 2; j++)
    {
        int p = c0 + t % HALF_THREADS + j * HALF_THREADS;
        p = p < from ? from : p < end ? p : end - 1; /* a visible one in place of one that is not */
        const u8 *page = exact_page_of(a, g, p / PAGE, own, kv_head);
        packed[j] = int4 && p / PAGE < own;
        place[j] = p % PAGE;
        key[j] = packed[j] ? page : page + int8_key_at(0, place[j]);
        scales[j] = (packed[j] ? int4_scales_of(page, d16) : int8_scales_of(page, d16)) + place[j];
        UNROLL for (int r = 0; r < HALF_ROWS; r++) first[r][j] = second[r][j] = 0;
    }
    NO_UNROLL for (int d = 0; d < d16; d += 16)
    {
        u32x4 k[2];
        UNROLL for (int j = 0; j < 2; j++)
        {
            if (int4 && packed[j]) k[j] = int4_key_piece(key[j], int8_key_at(d, place[j]), d, d16);
            else k[j] = *(const u32x4 *)(key[j] + (u32)(d * PAGE));
        }
        UNROLL for (int r = 0; r < HALF_ROWS; r++)
        {
            const u8 *q = l->q + (half * HALF_ROWS + r) * 2 * GPU_HEAD_DIM + d;
            u32x4 low = *(const u32x4 *)(q + GPU_HEAD_DIM),
                  high = digits == 2 ? *(const u32x4 *)q : low;
            UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++)
            {
                if (digits == 2) first[r][j] = dot4(high[i], k[j][i], first[r][j]);
                second[r][j] = dot4(low[i], k[j][i], second[r][j]);
            }
        }
    }
    UNROLL for (int j = 0; j < 2; j++)
    {
        int index = t % HALF_THREADS + j * HALF_THREADS, p = c0 + index;
        float of_key = scales[j][0];
        if (half == 0) l->of_value[index] = scales[j][PAGE];
        UNROLL for (int i = 0; i < HALF_ROWS; i++)
        {
            int r = half * HALF_ROWS + i,
                sees = sees_position(g, r, p, first_seen(g->pos0 + r, a->window));
            float score = (float)of_digits(first[i][j], second[i][j], digits) *
                          (l->query[r] * of_key) * a->scale;
            if (a->softcap > 0) score = a->softcap * exact_tanh(score / a->softcap);
            l->p[r * KV_SPLIT + index] = sees ? score : -__builtin_inff();
        }
    }
}

/* Turns scores into weights, and weights times the scales of the values into digits; 32 threads
 * have a row. */
DEVICE void exact_weights_int8(const struct attend_kernel_args *a, const struct exact_rows_int8 *l,
                               const struct exact_row_range *g, int c0)
{
    const struct exact_rows scores = {0, 0, l->p, l->part, l->max, l->lanes};
    int t = thread(), r = t / 32, lane = t % 32, maximum = 0,
        first = first_seen(g->pos0 + r, a->window);
    float w[KV_SPLIT / 32];
    exact_weights(&scores);
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++)
    {
        int index = lane + 32 * i, sees = sees_position(g, r, c0 + index, first);
        w[i] = sees ? l->p[r * KV_SPLIT + index] * l->of_value[index] : 0;
        maximum = larger_bits(w[i], maximum);
    }
    struct int_scale s = int_scale_of(most_of_row(maximum, (int *)l->part), EXACT_WEIGHT_TOP);
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++)
    {
        u8 *to = l->w + r * 2 * KV_SPLIT + lane + 32 * i;
        put_digits(to, to + KV_SPLIT, rounded_int(w[i], s.inverse));
    }
    if (lane == 0) {
        l->scale[r] = s.scale;
        exact_merge_row(l->run, r, l->max[r], exact_fold(l->lanes + r * EXACT_LANES));
    }
    barrier();
}

/* The sums of weights and codes over the pages from .. to of a chunk that begins at page page0:
 * thread (half of the rows, slice, four dimensions) takes pages in turn. Leaves them in l->sums
 * [slices][EXACT_ATTEND_ROWS][d16]; returns the number of slices. */
DEVICE int exact_values_int8(const struct attend_kernel_args *a, const struct exact_rows_int8 *l,
                             const struct exact_row_range *g, int kv_head, int page0, int from,
                             int to, const int int4)
{
    int own = int4 ? g->pos0 / PAGE : -1;
    int d16 = round16(a->head_dim), quads = d16 / 4, slices = HALF_THREADS / quads,
        u = thread() % HALF_THREADS, half = thread() / HALF_THREADS, slice = u / quads,
        quad = u % quads, first[HALF_ROWS][4], second[HALF_ROWS][4];
    UNROLL for (int r = 0; r < HALF_ROWS; r++) UNROLL for (int d = 0; d < 4; d++)
        first[r][d] = second[r][d] = 0;
    NO_UNROLL for (int page = from + slice; slice < slices && page <= to; page += slices)
    {
        const u8 *values = exact_page_of(a, g, page0 + page, own, kv_head);
        u32x4 v[4];
        if (int4 && page0 + page < own)
            UNROLL for (int i = 0; i < 4; i++)
                v[i] = int4_value_piece(int4_load_values(values, i, 4 * quad, d16));
        else
            UNROLL for (int i = 0; i < 4; i++)
                v[i] = *(const u32x4 *)(values + int8_value_at(4 * quad, 4 * i, d16));
        UNROLL for (int r = 0; r < HALF_ROWS; r++)
        {
            const u8 *w = l->w + (half * HALF_ROWS + r) * 2 * KV_SPLIT + page * PAGE;
            u32x4 high = *(const u32x4 *)w, low = *(const u32x4 *)(w + KV_SPLIT);
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int d = 0; d < 4; d++)
            {
                first[r][d] = dot4(high[i], v[i][d], first[r][d]);
                second[r][d] = dot4(low[i], v[i][d], second[r][d]);
            }
        }
    }
    if (slice < slices)
        UNROLL for (int r = 0; r < HALF_ROWS; r++) UNROLL for (int d = 0; d < 4; d++)
            l->sums[(slice * EXACT_ATTEND_ROWS + half * HALF_ROWS + r) * d16 + 4 * quad + d] =
            of_digits(first[r][d], second[r][d], 2);
    barrier();
    return slices;
}

/* Merges a chunk, whose sums are in l->sums. dims: threads to a row */
DEVICE void exact_merge_rows(const struct exact_rows_int8 *l, float *value, int hd, int slices,
                             const int dims)
{
    int d = thread() % dims, row_of = thread() / dims, d16 = round16(hd), n = d < hd ? slices : 0;
    const int *sums = l->sums + row_of * d16 + d;
    UNROLL for (int k = 0; k < EXACT_ATTEND_ROWS * dims / THREADS; k++)
    {
        int r = row_of + k * (THREADS / dims), all = 0;
        const int *from = sums;
        for (int i = 0; i < n; i++, from += EXACT_ATTEND_ROWS * d16) all += *from;
        value[k] = exact_merged(l->run, r, value[k], (float)all * l->scale[r]);
        sums += THREADS / dims * d16;
    }
}

DEVICE void exact_attend_rows_of(const struct attend_kernel_args *a,
                                 const struct exact_rows_int8 *l, const int int4)
{
    int kv_head = block_x() / (a->n_heads / a->n_kv_heads), hd = a->head_dim;
    const struct exact_row_range g = exact_rows_of(a, EXACT_ATTEND_ROWS, int4);
    float value[EXACT_ATTEND_ROWS];
    if (g.n <= g.begin) return;
    UNROLL for (int k = 0; k < EXACT_ATTEND_ROWS; k++) value[k] = 0;
    exact_begin_rows(l->run);
    exact_queries_int8(a, l, &g);
    for (int c0 = g.first0 / KV_SPLIT * KV_SPLIT; c0 <= g.last; c0 += KV_SPLIT) {
        int end = g.last < c0 + KV_SPLIT - 1 ? g.last + 1 : c0 + KV_SPLIT,
            from = (g.first0 > c0 ? g.first0 : c0) / PAGE * PAGE;
        if (a->digits == 2) exact_scores_int8(a, l, &g, kv_head, c0, from, end, 2, int4);
        else exact_scores_int8(a, l, &g, kv_head, c0, from, end, 1, int4);
        exact_weights_int8(a, l, &g, c0);
        int slices = exact_values_int8(a, l, &g, kv_head, c0 / PAGE, (from - c0) / PAGE,
                                       (end - 1 - c0) / PAGE, int4);
        if (hd <= 128) exact_merge_rows(l, value, hd, slices, 128);
        else exact_merge_rows(l, value, hd, slices, 256);
        barrier();
    }
    exact_end_rows(l->run, a->sinks, block_x());
    if (hd <= 128) exact_put_rows(a, &g, l->run, value, 128);
    else exact_put_rows(a, &g, l->run, value, 256);
}

/* Matrix units have amd/attend_matrix.hip and nvidia/exact_attend_mma.hip. */
#define EXACT_ROWS_INT8(name, int4)                                                                \
    ON_SIMD(KERNEL(name, struct attend_kernel_args) {                                              \
        LDS(u32x4, q, EXACT_ATTEND_ROWS * 2 * GPU_HEAD_DIM / 16);                                  \
        LDS(u32x4, w, EXACT_ATTEND_ROWS * 2 * KV_SPLIT / 16);                                      \
        LDS(int, sums, 16 * THREADS); /* holds the weights first */                                \
        LDS(float, part, THREADS);                                                                 \
        LDS(float, of_value, KV_SPLIT);                                                            \
        LDS(float, max, EXACT_ATTEND_ROWS);                                                        \
        LDS(float, lanes, EXACT_ATTEND_ROWS *EXACT_LANES);                                         \
        LDS(struct exact_rows_run, run, 1);                                                        \
        LDS(float, scale, EXACT_ATTEND_ROWS);                                                      \
        LDS(float, query, EXACT_ATTEND_ROWS);                                                      \
        const struct exact_rows_int8 l = {run,      (u8 *)q, (float *)sums, (u8 *)w, sums, part,   \
                                          of_value, max,     scale,         query,   lanes};       \
        exact_attend_rows_of(ARGS, &l, int4);                                                      \
    })
EXACT_ROWS_INT8(exact_attend_rows_int8, 0)
EXACT_ROWS_INT8(exact_attend_rows_int4, 1)
#undef EXACT_ROWS_INT8
