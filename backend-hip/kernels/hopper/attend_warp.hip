/* attend_warp.hip: attention of many decode rows over pages of int8 and int4 by mma of signed bytes
 * on sm_90a, with the bits of nvidia/attend_chunk.hip, whose operands it has. A block is a warp; it
 * has a chunk, the KV_SPLIT positions of a split, and the query heads of a KV head, one or up to 4:
 * no thread waits for another warp's, and what a block of eight warps does once a warp is done once
 * a chunk.
 *   memory    keys, then values, go through a ring of two stages of WARP_PAGES pages: bulk copies,
 *             a lane a page, counted by mbarriers. The scales of the chunk come at once
 *   scores    keys as they lie are operand a; column 2h + d of operand b is digit d of the query of
 *             head h, with one head column d is digit d % 2
 *   weights   one head: lane l has positions l, l + 32, ..; more: lane 4r + h of the warp has
 *             positions r and r + 8 of every page for head h
 *   values    of four pages lane t of a quad has page t, of two page t / 2
 *   int4      the row's own page, of int8, is read from memory, behind the others; with a->k the
 *             row's key and value are stored there first, and the page is packed if it is full */

/* Shared memory of a block. */
struct warp_lds {
    u8 *ring;      /* [WARP_DEPTH] stages */
    float *scales; /* [page][keys, values][PAGE] */
    int *scores;   /* of one head [KV_SPLIT], then digits of weights [page][2][PAGE]; of several
                      [page][2][WARP], then digits [page][2 heads][PAGE] */
    u8 *query;     /* digits [2 heads][WARP_QUERY]; with WARP_IN_PLACE where the last stage's scores
                      will be */
    u32 full;      /* mbarriers: one for each stage, one for the scales */
};

/* The stages of a chunk: `count` of keys, from pages `first` on, then as many of values. */
struct warp_stages {
    int first, count;
};

DEVICE struct warp_stages warp_stages_of(const struct chunk_work *w, const int int4)
{
    int first = w->from / WARP_PAGES(int4), last = w->to / WARP_PAGES(int4);
    return (struct warp_stages){first, last - first + 1};
}

/* The first page of stage n. */
DEVICE int warp_group(const struct warp_stages *s, int n, const int int4)
{
    return (s->first + (n < s->count ? n : n - s->count)) * WARP_PAGES(int4);
}

/* Begins the copies of stage n. page: that of this lane */
DEVICE void warp_copy(const struct chunk_work *w, const struct warp_lds *l,
                      const struct warp_stages *s, const u8 *page, int n, const int dims,
                      const int int4)
{
    const int part = WARP_PART(dims, int4);
    if (n >= 2 * s->count) return;
    int lane = thread(), group = warp_group(s, n, int4), end = group + WARP_PAGES(int4) - 1,
        first = w->from > group ? w->from : group, last = w->to < end ? w->to : end,
        count = last < first ? 0 : last - first + 1;
    if (int4 && w->own >= first && w->own <= last) count--;
    u32 slot = (u32)(n % WARP_DEPTH), full = l->full + 8 * slot;
    if (lane == 0) mbarrier_arrive_expect(full, (u32)(count * part));
    warp_barrier();
    if (lane >= first && lane <= last && !(int4 && lane == w->own))
        bulk_copy(lds_address(l->ring) + slot * (u32)WARP_STAGE(dims, int4) +
                      (u32)((lane - group) * (part + 32)),
                  page + (n < s->count ? 0 : part), (u32)part, full);
}

/* Begins all copies that there is room for. Returns this lane's page. */
DEVICE const u8 *warp_begin(const struct attend_kernel_args *a, const struct chunk_work *w,
                            const struct warp_lds *l, const struct warp_stages *s, const int dims,
                            const int int4)
{
    int lane = thread(), valid = lane >= w->from && lane <= w->to && !(int4 && lane == w->own),
        count = w->to - w->from + 1 - (int4 && w->own >= w->from);
    const u8 *page = (const u8 *)a->pages;
    if (valid)
        page += ((u64)a->table[(u64)a->seq[w->row] * (u64)a->table_stride +
                               (u64)(w->c0 / PAGE + lane)] *
                     (u64)a->n_kv_heads +
                 (u64)w->kv_head) *
                (u64)(int4 ? INT4_PAGE(dims) : INT8_PAGE(dims));
    u32 scales = l->full + 8 * WARP_DEPTH;
    if (lane == 0) {
        UNROLL for (int i = 0; i <= WARP_DEPTH; i++) mbarrier_init(l->full + 8 * (u32)i, 1);
        mbarrier_init_done();
        mbarrier_arrive_expect(scales, (u32)(8 * PAGE * count));
    }
    warp_barrier();
    UNROLL for (int n = 0; n < WARP_DEPTH; n++) warp_copy(w, l, s, page, n, dims, int4);
    if (valid)
        bulk_copy(lds_address(l->scales) + (u32)(8 * PAGE * lane), page + 2 * WARP_PART(dims, int4),
                  8 * PAGE, scales);
    return page;
}

/* Operand b number s of the scores: the digits of the queries. */
DEVICE u32x2 warp_query(const struct warp_lds *l, int s, int packed, const int dims,
                        const int int4, const int heads)
{
    int r = thread() / 4, t = thread() % 4;
    const u8 *q = l->query + (heads == 1 ? r % 2 : r) * WARP_QUERY(dims, int4, heads) + 32 * s;
    if (packed) return *(const u32x2 *)(q + 8 * t);
    return (u32x2){*(const u32 *)(q + 4 * t), *(const u32 *)(q + 4 * t + 16)};
}

DEVICE void warp_put_scores(const struct warp_lds *l, int page, const int sum[4], const int heads)
{
    UNROLL for (int e = 0; e < 2; e++)
    {
        int score = of_digits(sum[2 * e], sum[2 * e + 1], 2);
        if (heads > 1) l->scores[(2 * page + e) * WARP + thread()] = score;
        else if (thread() % 4 == 0) l->scores[page * PAGE + thread() / 4 + 8 * e] = score;
    }
}

/* Scores of the pages of a stage, whose keys are at `keys`. */
DEVICE void warp_scores(const struct chunk_work *w, const struct warp_lds *l, const u8 *keys,
                        int group, const int dims, const int int4, const int heads)
{
    const int steps = int4 ? 1 : dims / 32; /* int4: the loop stays small, for the instruction
                                               cache */
    int sum[4][4];
    UNROLL for (int i = 0; i < WARP_PAGES(int4); i++) UNROLL for (int e = 0; e < 4; e++)
        sum[i][e] = 0;
    NO_UNROLL for (int s0 = 0; s0 < dims / 32; s0 += steps) UNROLL for (int s = s0; s < s0 + steps;
                                                                        s++)
    {
        u32x2 b = warp_query(l, s, int4, dims, int4, heads);
        UNROLL for (int i = 0; i < WARP_PAGES(int4); i++)
        {
            const u8 *source = keys + i * (WARP_PART(dims, int4) + 32);
            u32 k[4];
            if (int4) chunk_packed_keys(source, s, k, dims);
            else chunk_keys(source, s, k);
            mma_s8(sum[i], k[0], k[1], k[2], k[3], b[0], b[1]);
        }
    }
    if (WARP_IN_PLACE(int4, heads)) warp_barrier();
    UNROLL for (int i = 0; i < WARP_PAGES(int4); i++) if (!int4 || group + i != w->own)
        warp_put_scores(l, group + i, sum[i], heads);
}

/* int4: sums of the own page, which is read from memory. */
DEVICE void warp_own_scores(const struct warp_lds *l, const u8 *own, int sum[4], const int dims,
                            const int heads)
{
    int r = thread() / 4, t = thread() % 4;
    UNROLL for (int e = 0; e < 4; e++) sum[e] = 0;
    UNROLL for (int s = 0; s < dims / 32; s++)
    {
        u32x2 b = warp_query(l, s, 0, dims, 1, heads);
        const u8 *k = own + 2 * s * PAGE * 16 + r * 16 + 4 * t;
        mma_s8(sum, *(const u32 *)k, *(const u32 *)(k + 8 * 16), *(const u32 *)(k + PAGE * 16),
               *(const u32 *)(k + (PAGE + 8) * 16), b[0], b[1]);
    }
}

/* The place of the results of a chunk of a head of the block. */
DEVICE float *warp_part(const struct attend_kernel_args *a, const struct chunk_work *w, int head,
                        const int dims)
{
    return a->parts +
           (((u64)w->row * (u64)a->n_heads + (u64)(w->head0 + head)) * (u64)a->n_splits +
            (u64)w->split) *
               (u64)(dims + 8);
}

DEVICE int warp_sees(const struct chunk_work *w, int place)
{
    return w->c0 + place >= w->first && w->c0 + place <= w->pos;
}

/* Turns scores into weights, and weights times the scales of the values into digits, as
 * chunk_weights() does; writes the largest score and the sum of the weights. Returns the digits'
 * scale. */
DEVICE float warp_weights(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const struct warp_lds *l, float of_query, const int dims)
{
    enum { N = KV_SPLIT / WARP };
    int lane = thread(), place = lane % PAGE, maximum = 0;
    float x[N], other[N], sum = 0, *part = warp_part(a, w, 0, dims);
    u32 largest = 0;
    NO_UNROLL for (int p = lane; p < KV_SPLIT; p += WARP) l->scores[p] = (int)bits_of(
        chunk_score(a, l->scores[p], of_query * l->scales[p / PAGE * 2 * PAGE + place]));
    UNROLL for (int i = 0; i < N; i++)
    {
        x[i] = warp_sees(w, 32 * i + lane) ? f32_of((u32)l->scores[32 * i + lane])
                                           : -__builtin_inff();
        u32 bits = ordered_bits(x[i]);
        largest = bits > largest ? bits : largest;
    }
    float max = of_ordered(max_of_warp(largest));
    UNROLL for (int i = 0; i < N; i++)
    {
        int page = 2 * i + lane / PAGE, seen = warp_sees(w, 32 * i + lane);
        float weight = f32_of(keep(bits_of(exact_exp(x[i] - max))));
        if (!seen) weight = 0;
        other[i] = f32_of(shuffle_xor(bits_of(weight), PAGE));
        float even = lane < PAGE ? weight : other[i], odd = lane < PAGE ? other[i] : weight;
        sum = i ? sum + even + odd : even + odd;
        x[i] = seen ? weight * l->scales[page * 2 * PAGE + PAGE + place] : 0;
        maximum = larger_bits(x[i], maximum);
    }
    UNROLL for (int i = EXACT_LANES / 2; i; i /= 2) sum += f32_of(shuffle_xor(bits_of(sum), i));
    struct int_scale s = int_scale_of((int)max_of_warp((u32)maximum), EXACT_WEIGHT_TOP);
    UNROLL for (int i = 0; i < N; i++)
    {
        u8 *to = (u8 *)l->scores + (2 * i + lane / PAGE) * 2 * PAGE + place;
        put_digits(to, to + PAGE, rounded_int(x[i], s.inverse));
    }
    if (lane == 0) part[dims] = max, part[dims + 1] = sum;
    warp_barrier();
    return s.scale;
}

/* The largest of a head's numbers, over the lanes with the same t. */
DEVICE u32 max_of_head(u32 v)
{
    UNROLL for (int i = 4; i < WARP; i *= 2)
    {
        u32 other = shuffle_xor(v, i);
        v = other > v ? other : v;
    }
    return v;
}

/* warp_weights() for several heads: a lane's numbers of every page one after another, in the
 * scores' place. */
DEVICE float warp_weights_of_heads(const struct attend_kernel_args *a, const struct chunk_work *w,
                                   const struct warp_lds *l, float of_query, const int dims,
                                   const int heads)
{
    enum { AT_ONCE = 4 }; /* pages */
    int lane = thread(), r = lane / 4, t = lane % 4, maximum = 0,
        begin = w->from / AT_ONCE * AT_ONCE, end = w->to / AT_ONCE * AT_ONCE + AT_ONCE;
    u32 largest = 0;
    float sum[2] = {0, 0}, *part = warp_part(a, w, t, dims);
    NO_UNROLL for (int p0 = begin; p0 < end; p0 += AT_ONCE)
        UNROLL for (int p = p0; p < p0 + AT_ONCE; p++) UNROLL for (int e = 0; e < 2; e++)
    {
        int *score = l->scores + (2 * p + e) * WARP + lane;
        float of_key = of_query * l->scales[p * 2 * PAGE + r + 8 * e],
              x = warp_sees(w, p * PAGE + r + 8 * e) ? chunk_score(a, *score, of_key)
                                                     : -__builtin_inff();
        u32 bits = ordered_bits(x);
        largest = bits > largest ? bits : largest;
        *score = (int)bits_of(x);
    }
    float max = of_ordered(max_of_head(largest));
    NO_UNROLL for (int p0 = begin; p0 < end; p0 += AT_ONCE)
        UNROLL for (int p = p0; p < p0 + AT_ONCE; p++) UNROLL for (int e = 0; e < 2; e++)
    {
        int *cursor = l->scores + (2 * p + e) * WARP + lane,
            seen = warp_sees(w, p * PAGE + r + 8 * e);
        float weight = seen ? exact_exp(f32_of((u32)*cursor) - max) : 0,
              x = seen ? weight * l->scales[p * 2 * PAGE + PAGE + r + 8 * e] : 0;
        sum[e] += weight;
        maximum = larger_bits(x, maximum);
        *cursor = (int)bits_of(x);
    }
    float all = sum[0] + sum[1];
    UNROLL for (int i = WARP / 2; i > 2; i /= 2) all += f32_of(shuffle_xor(bits_of(all), i));
    struct int_scale s = int_scale_of((int)max_of_head((u32)maximum), EXACT_WEIGHT_TOP);
    NO_UNROLL for (int p0 = begin; p0 < end; p0 += AT_ONCE)
    {
        float x[AT_ONCE][2];
        UNROLL for (int i = 0; i < AT_ONCE; i++) UNROLL for (int e = 0; e < 2; e++)
            x[i][e] = f32_of((u32)l->scores[(2 * (p0 + i) + e) * WARP + lane]);
        warp_barrier();
        UNROLL for (int i = 0; i < AT_ONCE; i++) UNROLL for (int e = 0; e < 2; e++)
        {
            u8 *to = (u8 *)l->scores + ((p0 + i) * 2 * heads + 2 * t) * PAGE + r + 8 * e;
            put_digits(to, to + PAGE, rounded_int(x[i][e], s.inverse));
        }
    }
    if (r == 0 && t < w->heads) part[dims] = max, part[dims + 1] = all;
    warp_barrier();
    return s.scale;
}

/* The digits of the weights of a page for column r of operand b. */
DEVICE const u8 *warp_digits(const struct warp_lds *l, int page, const int heads)
{
    int r = thread() / 4;
    return (const u8 *)l->scores + (page * 2 * heads + (heads == 1 ? r % 2 : r)) * PAGE;
}

/* Adds the products of weights and values of the pages of a stage, whose values are at `values`.
 * sum[h][j][2e + n]: digit n of dimension 64h + 32e + 4r + j, of one head in lanes of t = 0, of
 * several in lanes t = head */
DEVICE void warp_values(const struct chunk_work *w, const struct warp_lds *l, const u8 *values,
                        int group, int sum[][4][4], const int dims, const int int4,
                        const int heads)
{
    const int lanes = 4 / WARP_PAGES(int4); /* lanes of a quad that share a page */
    int t = thread() % 4, page = group + t / lanes;
    UNROLL for (int u = 0; u < 2 / lanes; u++)
    {
        int four = 2 * (lanes == 1 ? u : t % 2);
        u32x2 b = *(const u32x2 *)(warp_digits(l, page, heads) + 4 * four);
        if (int4 && page == w->own) b = (u32x2){0, 0};
        UNROLL for (int h = 0; h < dims / 64; h++)
        {
            u32 v[4][4];
            chunk_values(values + t / lanes * (WARP_PART(dims, int4) + 32), four, 64 * h, v, dims,
                         int4);
            UNROLL for (int j = 0; j < 4; j++)
                mma_s8(sum[h][j], v[j][0], v[j][1], v[j][2], v[j][3], b[0], b[1]);
        }
    }
}

/* int4: warp_values() for the own page, which is read from memory: lane t of a quad has four number
 * t. */
DEVICE void warp_own_values(const struct warp_lds *l, const u8 *own, int page, int sum[][4][4],
                            const int dims, const int heads)
{
    int r = thread() / 4, t = thread() % 4;
    u32 b = *(const u32 *)(warp_digits(l, page, heads) + 4 * t);
    UNROLL for (int h = 0; h < dims / 64; h++)
    {
        const u8 *values = own + PAGE * dims + 4 * (t * dims + 64 * h + 4 * r);
        u32x4 lo = *(const u32x4 *)values, hi = *(const u32x4 *)(values + 128);
        UNROLL for (int j = 0; j < 4; j++) mma_s8(sum[h][j], lo[j], hi[j], 0, 0, b, 0);
    }
}

DEVICE void warp_results(const struct attend_kernel_args *a, const struct chunk_work *w,
                         int sum[][4][4], float unit, const int dims)
{
    int r = thread() / 4, t = thread() % 4;
    float *part = warp_part(a, w, t, dims);
    if (t >= w->heads) return;
    UNROLL for (int h = 0; h < dims / 64; h++) UNROLL for (int e = 0; e < 2; e++)
    {
        f32x4 v;
        UNROLL for (int j = 0; j < 4; j++)
            v[j] = (float)of_digits(sum[h][j][2 * e], sum[h][j][2 * e + 1], 2) * unit;
        *(f32x4 *)(part + 64 * h + 32 * e + 4 * r) = v;
    }
}

/* int4: stores the row's own key and value. */
DEVICE void warp_store(const struct attend_kernel_args *a, const struct chunk_work *w, u8 *to,
                       const int dims)
{
    UNROLL for (int value = 0; value < 2; value++)
    {
        const struct chunk_own own = chunk_own_of(a, w, value, dims);
        chunk_put(&own, w->pos, to + value * PAGE * dims, int8_scales(to, dims) + value * PAGE,
                  value, dims);
    }
}

/* The row's own key and value of int8, which the block stores; page: of the chunk, or -1. */
struct warp_own {
    struct chunk_own part[2];
    int page;
};

DEVICE struct warp_own warp_own_of(const struct attend_kernel_args *a, const struct chunk_work *w,
                                   const struct warp_lds *l, const int dims)
{
    struct warp_own own;
    int page = w->pos / PAGE - w->c0 / PAGE;
    own.page = -1;
    if (!a->k || page >= CHUNK_PAGES) return own;
    own.page = page;
    u8 *to = chunk_own_page(a, w, dims, 0);
    mbarrier_wait(l->full + 8 * WARP_DEPTH, 0);
    UNROLL for (int value = 0; value < 2; value++)
    {
        own.part[value] = chunk_own_of(a, w, value, dims);
        chunk_put(&own.part[value], w->pos, to + value * PAGE * dims,
                  int8_scales(to, dims) + value * PAGE, value, dims);
        if (thread() == 0)
            l->scales[(page * 2 + value) * PAGE + w->pos % PAGE] = own.part[value].scale;
    }
    return own;
}

/* Waits for stage n; puts the row's own key or value into it. */
DEVICE u8 *warp_stage(const struct chunk_work *w, const struct warp_lds *l,
                      const struct warp_own *own, int n, int group, const int value,
                      const int dims, const int int4)
{
    u8 *stage = l->ring + n % WARP_DEPTH * WARP_STAGE(dims, int4);
    mbarrier_wait(l->full + (u32)(8 * (n % WARP_DEPTH)), (u32)(n / WARP_DEPTH % 2));
    if (!int4 && own->page >= group && own->page < group + WARP_PAGES(int4)) {
        chunk_put(&own->part[value], w->pos,
                  stage + (own->page - group) * (WARP_PART(dims, int4) + 32),
                  l->scales + (own->page * 2 + value) * PAGE, value, dims);
        matrix_reads_after();
        warp_barrier();
    }
    return stage;
}

/* Makes the digits of the block's queries. Returns the scale of head t in lanes of t, with one head
 * in all lanes. */
DEVICE float warp_queries(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const struct warp_lds *l, const int dims, const int int4,
                          const int heads)
{
    const int stride = WARP_QUERY(dims, int4, heads);
    if (heads == 1) return chunk_query(a, w, l->query, stride, 0, dims);
    float of_query = 0;
    NO_UNROLL for (int h = 0; h < w->heads; h++) {
        float scale = chunk_query(a, w, l->query + 2 * h * stride, stride, h, dims);
        if (thread() % 4 == h) of_query = scale;
    }
    return of_query;
}

DEVICE void attend_warp(const struct attend_kernel_args *a, u8 *lds, const int dims, const int int4,
                        const int heads)
{
    int early = a->k != 0;
    if (!early) wait_for_producer();
    const struct chunk_work w = chunk_work_of(a, int4, heads);
    const struct warp_stages s = warp_stages_of(&w, int4);
    int nothing = w.c0 > w.pos || w.c0 + KV_SPLIT <= w.first, own_sum[4];
    u8 *scales = lds + WARP_DEPTH * WARP_STAGE(dims, int4), *scores = scales + 8 * KV_SPLIT,
       *behind = scores + 4 * KV_SPLIT * heads;
    const struct warp_lds l = {lds, (float *)scales, (int *)scores,
                               WARP_IN_PLACE(int4, heads) ? behind - 2 * dims : behind,
                               lds_address(behind) + (u32)WARP_QUERIES(dims, int4, heads)};
    const u8 *page = nothing ? 0 : warp_begin(a, &w, &l, &s, dims, int4);
    u8 *packed_own = 0;
    if (early) wait_for_producer();
    if (nothing) return;
    if (int4 && w.own >= 0) packed_own = chunk_own_page(a, &w, dims, 1);
    if (packed_own && a->k) warp_store(a, &w, packed_own, dims);
    float of_query = warp_queries(a, &w, &l, dims, int4, heads);
    struct warp_own own;
    if (!int4) own = warp_own_of(a, &w, &l, dims);
    warp_barrier();
    if (packed_own) warp_own_scores(&l, packed_own, own_sum, dims, heads);
    NO_UNROLL for (int n = 0; n < s.count; n++) {
        int group = warp_group(&s, n, int4);
        const u8 *stage = warp_stage(&w, &l, &own, n, group, 0, dims, int4);
        warp_scores(&w, &l, stage, group, dims, int4, heads);
        warp_barrier();
        warp_copy(&w, &l, &s, page, n + WARP_DEPTH, dims, int4);
    }
    if (packed_own) warp_put_scores(&l, w.own, own_sum, heads);
    mbarrier_wait(l.full + 8 * WARP_DEPTH, 0);
    if (packed_own)
        l.scales[w.own * 2 * PAGE + thread()] = int8_scales_of(packed_own, dims)[thread()];
    warp_barrier();
    float unit = heads == 1 ? warp_weights(a, &w, &l, of_query, dims)
                            : warp_weights_of_heads(a, &w, &l, of_query, dims, heads);
    int sum[2][4][4];
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int j = 0; j < 4; j++)
        UNROLL for (int e = 0; e < 4; e++) sum[h][j][e] = 0;
    NO_UNROLL for (int n = s.count; n < 2 * s.count; n++) {
        int group = warp_group(&s, n, int4);
        const u8 *stage = warp_stage(&w, &l, &own, n, group, 1, dims, int4);
        warp_values(&w, &l, stage, group, sum, dims, int4, heads);
        warp_barrier();
        warp_copy(&w, &l, &s, page, n + WARP_DEPTH, dims, int4);
    }
    if (packed_own) warp_own_values(&l, packed_own, w.own, sum, dims, heads);
    warp_results(a, &w, sum, unit, dims);
    if (int4) chunk_pack(a, &w, dims, WARP);
}

#define ATTEND_WARP(name, images, dims, int4, heads, blocks)                                       \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_warp(EARLY_ARGS, (u8 *)dynamic_lds, dims, int4, heads);                             \
    })
#include "backend-hip/kernels/hopper/list.h"
