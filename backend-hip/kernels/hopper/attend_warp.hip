/* attend_warp.hip: attention of many decode rows over pages of int8 and int4 where a KV head has
 * one query head, by mma of signed bytes on sm_90a, with the bits of nvidia/attend_chunk.hip, whose
 * operands it has. A block is a warp; it has a chunk, the KV_SPLIT positions of a split: no thread
 * waits for another warp's, and what a block of eight warps does once a warp is done once a chunk.
 *   memory    keys, then values, go through a ring of stages of four pages: bulk copies, a lane a
 *             page, counted by mbarriers. The scales of the chunk come at once
 *   scores    keys as they lie are operand a; column d of operand b is digit d of the query
 *   weights   lane l has positions l, l + 32, ..
 *   values    lane t of a quad has page t of a stage
 *   int4      the row's own page, of int8, is read from memory, behind the others; with a->k the
 *             row's key and value are stored there first, and the page is packed if it is full */

/* Shared memory of a block. */
struct warp_lds {
    u8 *ring;      /* [depth] stages */
    float *scales; /* [page][keys, values][PAGE] */
    int *scores;   /* [KV_SPLIT], then digits of weights [page][2][PAGE] */
    u8 *query;     /* digits [2][dims + 16] */
    u32 full;      /* mbarriers: of each stage, of the scales */
};

/* Begins the copies of stage n of a chunk: keys of pages 4n .. 4n + 3, from n = 4 on values. page:
 * that of this lane */
DEVICE void warp_copy(const struct chunk_work *w, const struct warp_lds *l, const u8 *page, int n,
                      const int dims, const int int4, const int depth)
{
    const int part = WARP_PART(dims, int4);
    int lane = thread(), group = n % 4 * 4, first = w->from > group ? w->from : group,
        last = w->to < group + 3 ? w->to : group + 3, count = last < first ? 0 : last - first + 1;
    if (int4 && w->own >= first && w->own <= last) count--;
    u32 slot = (u32)(n % depth), full = l->full + 8 * slot;
    if (lane == 0) mbarrier_arrive_expect(full, (u32)(count * part));
    warp_barrier();
    if (lane >= first && lane <= last && !(int4 && lane == w->own))
        bulk_copy(lds_address(l->ring) + slot * (u32)WARP_STAGE(dims, int4) +
                      (u32)((lane - group) * (part + 32)),
                  page + n / 4 * part, (u32)part, full);
}

/* Begins all copies that there is room for. Returns this lane's page. */
DEVICE const u8 *warp_begin(const struct attend_kernel_args *a, const struct chunk_work *w,
                            const struct warp_lds *l, const int dims, const int int4,
                            const int depth)
{
    int lane = thread(), there = lane >= w->from && lane <= w->to && !(int4 && lane == w->own),
        count = w->to - w->from + 1 - (int4 && w->own >= w->from);
    const u8 *page = (const u8 *)a->pages;
    if (there)
        page += ((u64)a->table[(u64)a->seq[w->row] * (u64)a->table_stride +
                               (u64)(w->c0 / PAGE + lane)] *
                     (u64)a->n_kv_heads +
                 (u64)w->kv_head) *
                (u64)(int4 ? INT4_PAGE(dims) : INT8_PAGE(dims));
    u32 scales = l->full + 8 * (u32)depth;
    if (lane == 0) {
        UNROLL for (int i = 0; i <= depth; i++) mbarrier_init(l->full + 8 * (u32)i, 1);
        mbarrier_init_done();
        mbarrier_arrive_expect(scales, (u32)(8 * PAGE * count));
    }
    warp_barrier();
    UNROLL for (int n = 0; n < depth; n++) warp_copy(w, l, page, n, dims, int4, depth);
    if (there)
        bulk_copy(lds_address(l->scales) + (u32)(8 * PAGE * lane),
                  page + 2 * WARP_PART(dims, int4), 8 * PAGE, scales);
    return page;
}

/* Operand b of the scores, number s: the digits of the query. */
DEVICE u32x2 warp_query(const struct warp_lds *l, int s, int packed, const int dims)
{
    int r = thread() / 4, t = thread() % 4;
    const u8 *q = l->query + r % 2 * (dims + 16) + 32 * s;
    if (packed) return *(const u32x2 *)(q + 8 * t);
    return (u32x2){*(const u32 *)(q + 4 * t), *(const u32 *)(q + 4 * t + 16)};
}

DEVICE void warp_put_scores(const struct warp_lds *l, int page, const int sum[4])
{
    if (thread() % 4 == 0)
        UNROLL for (int e = 0; e < 2; e++)
            l->scores[page * PAGE + thread() / 4 + 8 * e] =
                of_digits(sum[2 * e], sum[2 * e + 1], 2);
}

/* Scores of pages group .. group + 3, whose keys are at `keys`. */
DEVICE void warp_scores(const struct chunk_work *w, const struct warp_lds *l, const u8 *keys,
                        int group, const int dims, const int int4)
{
    const int steps = int4 ? 1 : dims / 32; /* int4: a small loop, for the instruction cache */
    int sum[4][4];
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int e = 0; e < 4; e++) sum[i][e] = 0;
    NO_UNROLL for (int s0 = 0; s0 < dims / 32; s0 += steps)
        UNROLL for (int s = s0; s < s0 + steps; s++) UNROLL for (int i = 0; i < 4; i++)
    {
        u32x2 b = warp_query(l, s, int4, dims);
        const u8 *of = keys + i * (WARP_PART(dims, int4) + 32);
        u32 k[4];
        if (int4) chunk_packed_keys(of, s, k, dims);
        else chunk_keys(of, s, k);
        mma_s8(sum[i], k[0], k[1], k[2], k[3], b[0], b[1]);
    }
    UNROLL for (int i = 0; i < 4; i++) if (!int4 || group + i != w->own)
        warp_put_scores(l, group + i, sum[i]);
}

/* int4: scores of the own page, from memory. */
DEVICE void warp_own_scores(const struct warp_lds *l, const u8 *own, int page, const int dims)
{
    int r = thread() / 4, t = thread() % 4, sum[4] = {0, 0, 0, 0};
    UNROLL for (int s = 0; s < dims / 32; s++)
    {
        u32x2 b = warp_query(l, s, 0, dims);
        const u8 *k = own + 2 * s * PAGE * 16 + r * 16 + 4 * t;
        mma_s8(sum, *(const u32 *)k, *(const u32 *)(k + 8 * 16), *(const u32 *)(k + PAGE * 16),
               *(const u32 *)(k + (PAGE + 8) * 16), b[0], b[1]);
    }
    warp_put_scores(l, page, sum);
}

/* Scores become weights, and the weights times the scales of the values digits, as chunk_weights()
 * has it: position of number i: 32i + lane. Returns the digits' scale. */
DEVICE float warp_weights(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const struct warp_lds *l, float of_query, float *max, float *sum)
{
    enum { N = KV_SPLIT / WARP };
    int lane = thread(), place = lane % PAGE;
    float x[N], other[N];
    u32 largest = 0;
    NO_UNROLL for (int p = lane; p < KV_SPLIT; p += WARP)
        l->scores[p] = (int)bits_of(
            chunk_score(a, l->scores[p], of_query * l->scales[p / PAGE * 2 * PAGE + place]));
    UNROLL for (int i = 0; i < N; i++)
    {
        int p = w->c0 + 32 * i + lane, seen = p >= w->first && p <= w->pos;
        x[i] = seen ? f32_of((u32)l->scores[32 * i + lane]) : -__builtin_inff();
        u32 bits = ordered_bits(x[i]);
        largest = bits > largest ? bits : largest;
    }
    *max = of_ordered(max_of_warp(largest));
    int most = 0;
    UNROLL for (int i = 0; i < N; i++)
    {
        int p = w->c0 + 32 * i + lane, page = 2 * i + lane / PAGE,
            seen = p >= w->first && p <= w->pos;
        float weight = f32_of(keep(bits_of(exact_exp(x[i] - *max))));
        if (!seen) weight = 0;
        other[i] = f32_of(shuffle_xor(bits_of(weight), PAGE));
        float even = lane < PAGE ? weight : other[i], odd = lane < PAGE ? other[i] : weight;
        *sum = i ? *sum + even + odd : even + odd;
        x[i] = seen ? weight * l->scales[page * 2 * PAGE + PAGE + place] : 0;
        most = larger_bits(x[i], most);
    }
    UNROLL for (int i = EXACT_LANES / 2; i; i /= 2)
        *sum += f32_of(shuffle_xor(bits_of(*sum), i));
    struct int_scale s = int_scale_of((int)max_of_warp((u32)most), EXACT_WEIGHT_TOP);
    UNROLL for (int i = 0; i < N; i++)
    {
        u8 *to = (u8 *)l->scores + (2 * i + lane / PAGE) * 2 * PAGE + place;
        put_digits(to, to + PAGE, rounded_int(x[i], s.inverse));
    }
    warp_barrier();
    return s.scale;
}

/* Adds the products of weights and values of pages group .. group + 3, values at `values`.
 * sum[h][j][2e + n]: digit n of dimension 64h + 32e + 4r + j, in lanes of t = 0 */
DEVICE void warp_values(const struct chunk_work *w, const struct warp_lds *l, const u8 *values,
                        int group, int sum[][4][4], const int dims, const int int4)
{
    int r = thread() / 4, t = thread() % 4, page = group + t;
    UNROLL for (int u = 0; u < 2; u++)
    {
        u32x2 b = *(const u32x2 *)((const u8 *)l->scores + (page * 2 + r % 2) * PAGE + 8 * u);
        if (int4 && page == w->own) b = (u32x2){0, 0};
        UNROLL for (int h = 0; h < dims / 64; h++)
        {
            u32 v[4][4];
            chunk_values(values + t * (WARP_PART(dims, int4) + 32), 2 * u, 64 * h, v, dims, int4);
            UNROLL for (int j = 0; j < 4; j++)
                mma_s8(sum[h][j], v[j][0], v[j][1], v[j][2], v[j][3], b[0], b[1]);
        }
    }
}

/* int4: the same of the own page, from memory: lane t of a quad has four number t. */
DEVICE void warp_own_values(const struct warp_lds *l, const u8 *own, int page, int sum[][4][4],
                            const int dims)
{
    int r = thread() / 4, t = thread() % 4;
    u32 b = *(const u32 *)((const u8 *)l->scores + (page * 2 + r % 2) * PAGE + 4 * t);
    UNROLL for (int h = 0; h < dims / 64; h++)
    {
        const u8 *values = own + PAGE * dims + 4 * (t * dims + 64 * h + 4 * r);
        u32x4 lo = *(const u32x4 *)values, hi = *(const u32x4 *)(values + 128);
        UNROLL for (int j = 0; j < 4; j++) mma_s8(sum[h][j], lo[j], hi[j], 0, 0, b, 0);
    }
}

DEVICE void warp_results(const struct attend_kernel_args *a, const struct chunk_work *w,
                         int sum[][4][4], float unit, float max, float all, const int dims)
{
    int r = thread() / 4;
    float *part = a->parts +
                  (((u64)w->row * (u64)a->n_heads + (u64)w->head0) * (u64)a->n_splits +
                   (u64)w->split) *
                      (u64)(dims + 8);
    if (thread() % 4) return;
    UNROLL for (int h = 0; h < dims / 64; h++) UNROLL for (int e = 0; e < 2; e++)
    {
        f32x4 v;
        UNROLL for (int j = 0; j < 4; j++)
            v[j] = (float)of_digits(sum[h][j][2 * e], sum[h][j][2 * e + 1], 2) * unit;
        *(f32x4 *)(part + 64 * h + 32 * e + 4 * r) = v;
    }
    if (thread() == 0) part[dims] = max, part[dims + 1] = all;
}

DEVICE struct chunk_work warp_work_of(const struct attend_kernel_args *a, const int int4)
{
    struct chunk_work w;
    const struct row_split work = row_split_of(a, block_y(), block_z());
    w.kv_head = w.head0 = block_x();
    w.heads = 1;
    w.row = work.row;
    w.split = work.split;
    w.pos = a->pos[w.row];
    w.first = first_seen(w.pos, a->window);
    w.c0 = w.split * KV_SPLIT;
    int own = w.pos / PAGE - w.c0 / PAGE;
    w.from = w.first > w.c0 ? (w.first - w.c0) / PAGE : 0;
    w.to = own < CHUNK_PAGES ? own : CHUNK_PAGES - 1;
    w.own = int4 && own < CHUNK_PAGES ? own : -1;
    return w;
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
                                   const struct warp_lds *l, const int dims, const int depth)
{
    struct warp_own own;
    int page = w->pos / PAGE - w->c0 / PAGE;
    own.page = -1;
    if (!a->k || page >= CHUNK_PAGES) return own;
    own.page = page;
    u8 *to = chunk_own_page(a, w, dims, 0);
    mbarrier_wait(l->full + (u32)(8 * depth), 0);
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
                      const struct warp_own *own, int n, const int value, const int dims,
                      const int int4, const int depth)
{
    u8 *stage = l->ring + n % depth * WARP_STAGE(dims, int4);
    mbarrier_wait(l->full + (u32)(8 * (n % depth)), (u32)(n / depth % 2));
    if (!int4 && own->page >= 0 && own->page / 4 == n % 4) {
        chunk_put(&own->part[value], w->pos,
                  stage + own->page % 4 * (WARP_PART(dims, int4) + 32),
                  l->scales + (own->page * 2 + value) * PAGE, value, dims);
        matrix_reads_after();
        warp_barrier();
    }
    return stage;
}

DEVICE void attend_warp(const struct attend_kernel_args *a, u8 *lds, const int dims, const int int4,
                        const int depth)
{
    int early = a->k != 0;
    if (!early) wait_for_producer();
    const struct chunk_work w = warp_work_of(a, int4);
    int nothing = w.c0 > w.pos || w.c0 + KV_SPLIT <= w.first;
    u8 *scales = lds + depth * WARP_STAGE(dims, int4), *query = scales + 12 * KV_SPLIT;
    const struct warp_lds l = {lds, (float *)scales, (int *)(scales + 8 * KV_SPLIT), query,
                               lds_address(query + 2 * (dims + 16))};
    const u8 *page = nothing ? 0 : warp_begin(a, &w, &l, dims, int4, depth);
    u8 *packed_own = 0;
    if (early) wait_for_producer();
    if (nothing) return;
    if (int4 && w.own >= 0) packed_own = chunk_own_page(a, &w, dims, 1);
    if (packed_own && a->k) warp_store(a, &w, packed_own, dims);
    float max, all, of_query = chunk_query(a, &w, l.query, 0, dims);
    struct warp_own own;
    if (!int4) own = warp_own_of(a, &w, &l, dims, depth);
    warp_barrier();
    if (packed_own) warp_own_scores(&l, packed_own, w.own, dims);
    NO_UNROLL for (int n = 0; n < 4; n++) {
        const u8 *stage = warp_stage(&w, &l, &own, n, 0, dims, int4, depth);
        if (4 * n <= w.to && 4 * n + 3 >= w.from) warp_scores(&w, &l, stage, 4 * n, dims, int4);
        warp_barrier();
        warp_copy(&w, &l, page, n + depth, dims, int4, depth);
    }
    mbarrier_wait(l.full + (u32)(8 * depth), 0);
    if (packed_own)
        l.scales[w.own * 2 * PAGE + thread()] = int8_scales_of(packed_own, dims)[thread()];
    warp_barrier();
    float unit = warp_weights(a, &w, &l, of_query, &max, &all);
    int sum[2][4][4];
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int j = 0; j < 4; j++)
        UNROLL for (int e = 0; e < 4; e++) sum[h][j][e] = 0;
    NO_UNROLL for (int n = 4; n < 8; n++) {
        const u8 *stage = warp_stage(&w, &l, &own, n, 1, dims, int4, depth);
        if (4 * (n - 4) <= w.to && 4 * (n - 4) + 3 >= w.from)
            warp_values(&w, &l, stage, 4 * (n - 4), sum, dims, int4);
        warp_barrier();
        if (n + depth < 8) warp_copy(&w, &l, page, n + depth, dims, int4, depth);
    }
    if (packed_own) warp_own_values(&l, packed_own, w.own, sum, dims);
    warp_results(a, &w, sum, unit, max, all, dims);
    if (int4) chunk_pack(a, &w, dims, 32);
}

#define ATTEND_WARP(name, images, dims, int4, depth, blocks)                                       \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_warp(EARLY_ARGS, (u8 *)dynamic_lds, dims, int4, depth);                             \
    })
#include "backend-hip/kernels/kernel_list.h"
