/* attend_prefill_pages.hip: attention of prompt rows over pages of fp16 by wgmma on sm_90a, as
 * attend_prefill_wgmma.hip has it.
 *   pipeline  stages of 128 positions, eight pages as they lie in memory: keys by bulk copies, values
 *             by TMA, which swizzles them. A step has positions 0 to 7 of each page of a stage, the
 *             next one 8 to 15, so that 8 positions and the next 8 of an operand are a page apart.
 *             Keys and values have mbarriers full of their own
 *   turns     a consumer warpgroup asks for the scores of the next step and then for the sums of
 *             this one, which go on beside the exponentials of the next; the two take turns
 *             (FlashAttention-3, Shah et al. 2024) */

/* Shared memory: stages of keys [page][dims / 8][PAGE][8] and values [page][dims / 64][PAGE][64], 16
 * bytes number i of a row at i ^ (position % 8); mbarriers full of keys, empty, full of values. */
enum { STAGE_POSITIONS = ATTEND_STAGE_POSITIONS, STAGE_PAGES = STAGE_POSITIONS / PAGE };
enum { KV_STAGES = ATTEND_STAGES };
enum { KV_TURN = 1, KV_LAST_STAGE = 3 }; /* numbers of barriers: two turns, the producers */

/* Values of the last stage, a thread's part: positions beyond the last are zeros, because stale
 * memory may hold NaN or infinity, so that a weight of 0 is not enough. */
DEVICE void load_last_values(const char *pages, const int *table, u64 page_stride, u32 to, int p0,
                             int last, const int dims)
{
    const int lanes = dims / 8;
    int octet = thread() % 128 % lanes, count = thread() % 128 / lanes;
    UNROLL_4 for (int j = 0; j < STAGE_POSITIONS; j += 128 / lanes)
    {
        int p = j + count, seen = p0 + p <= last;
        const char *page = pages + (u64)table[(seen ? p0 + p : last) / PAGE] * page_stride +
                           PAGE * dims * 2;
        copy_16_or_zeros(to + (u32)(p / PAGE * (PAGE * dims * 2) + octet / 8 * (PAGE * 128) +
                                    p % PAGE * 128 + (octet % 8 ^ p % 8) * 16),
                         page + (p % PAGE * dims + octet * 8) * 2, seen);
    }
}

/* The producer warpgroup: its first warp, and all for a last stage that is not full. */
DEVICE void produce_pages(const struct attend_kernel_args *a, const struct query_tile *w,
                          const struct kv_ring *r, const int dims)
{
    const int part = PAGE * dims * 2, stage_bytes = 2 * STAGE_PAGES * part;
    int stage = 0, lane = thread() % 128, kv_head = w->head / (a->n_heads / a->n_kv_heads);
    const int *table = a->table + (u64)a->seq[w->row0[0]] * (u64)a->table_stride;
    const char *pages = (const char *)a->pages + (u64)kv_head * (u64)(2 * part);
    u64 stride = (u64)a->n_kv_heads * (u64)(2 * part);
    u32 parity = 1; /* an unused stage is empty */
    for (int p0 = w->begin; p0 <= w->last; p0 += STAGE_POSITIONS) {
        int whole = p0 + STAGE_POSITIONS - 1 <= w->last,
            n = whole ? STAGE_PAGES : (w->last - p0) / PAGE + 1;
        u32 to = r->stages + (u32)(stage * stage_bytes), full = r->full + (u32)(8 * stage),
            values = full + 2 * 8 * KV_STAGES, count = parity;
        if (++stage == KV_STAGES) stage = 0, parity ^= 1;
        if (whole && lane >= WARP) continue; /* they wait for the last stage */
        int page = lane < n ? table[p0 / PAGE + lane] : 0;
        if (lane < WARP) mbarrier_wait(r->empty + (full - r->full), count);
        if (lane == 0) mbarrier_arrive_expect(full, (u32)(n * part));
        if (lane < n)
            bulk_copy(to + (u32)(lane * part), pages + (u64)page * stride, (u32)part, full);
        if (!whole) {
            warpgroup_barrier(KV_LAST_STAGE);
            load_last_values(pages, table, stride, to + (u32)(stage_bytes / 2), p0, w->last, dims);
            copies_commit();
            COPIES_WAIT(0);
            matrix_reads_after();
            warpgroup_barrier(KV_LAST_STAGE);
        }
        if (lane == 0) mbarrier_arrive_expect(values, (u32)(whole * n * part));
        if (whole && lane < STAGE_PAGES)
            tma_load(to + (u32)((STAGE_PAGES + lane) * part), a->values, 0,
                     ((page * a->n_kv_heads + kv_head) * 2 + 1) * PAGE, 0, values);
    }
}

/* Starts the scores of 64 rows and a step, which are in flight on return. keys: of the step's first
 * page; queries: halves of a query */
DEVICE void page_scores(u32 keys, struct two_halves q[][4], float score[32], const int dims,
                        const int queries)
{
    wgmma_begin();
    UNROLL for (int c = 0; c < dims / 16; c++)
    {
        u64 b = wgmma_octets(keys + (u32)(c * 2 * PAGE * 16), PAGE * 16, PAGE * (u32)dims * 2);
        wgmma(score, q[c][0].high, q[c][1].high, q[c][2].high, q[c][3].high, b, c > 0, 64);
        if (queries > 1) wgmma(score, q[c][0].low, q[c][1].low, q[c][2].low, q[c][3].low, b, 1, 64);
    }
    wgmma_commit();
}

/* Starts total += weights x values of a step, which is in flight on return. halves: parts of a
 * weight */
DEVICE void page_values(u32 values, struct two_halves p[][4], float *total, const int dims,
                        const int halves)
{
    const u32 part = PAGE * (u32)dims * 2;
    wgmma_begin();
    UNROLL for (int k = 0; k < KV_STEP / 16; k++)
    {
        u64 b = wgmma_columns_apart(values + (u32)k * 2 * part, PAGE * 128, part);
        wgmma_by_columns(total, p[k][0].high, p[k][1].high, p[k][2].high, p[k][3].high, b, dims);
        if (halves > 1)
            wgmma_by_columns(total, p[k][0].low, p[k][1].low, p[k][2].low, p[k][3].low, b, dims);
    }
    wgmma_commit();
}

/* A consumer warpgroup and its place in the ring. */
struct page_consumer {
    struct query_rows r;
    struct two_halves p[KV_STEP / 16][4]; /* weights of a step */
    int step, stage, group;
    u32 parity;
};

/* Addresses of the keys of the step. */
DEVICE u32 keys_of_step(const struct kv_ring *ring, const struct page_consumer *c, const int dims)
{
    return ring->stages + (u32)(c->stage * (4 * STAGE_POSITIONS * dims) + c->step % 2 * (8 * 16));
}

/* Addresses of the values of the step: in odd steps they begin eight rows of 128 bytes further. */
DEVICE u32 values_of_step(const struct kv_ring *ring, const struct page_consumer *c, const int dims)
{
    return ring->stages + (u32)(c->stage * (4 * STAGE_POSITIONS * dims) +
                                2 * STAGE_POSITIONS * dims + c->step % 2 * (8 * 128));
}

/* Waits for the values of the step. */
DEVICE void wait_for_values(const struct kv_ring *ring, const struct page_consumer *c)
{
    mbarrier_wait(ring->full + (u32)(8 * (2 * KV_STAGES + c->stage)), c->parity);
}

/* Lets the producer fill the stage of a step that is over. */
DEVICE void release_pages(const struct kv_ring *ring, int stage, int step)
{
    if (step % 2 && thread() % WARP == 0) mbarrier_arrive(ring->empty + (u32)(8 * stage));
}

DEVICE void next_step(struct page_consumer *c)
{
    if (++c->step % 2) return;
    if (++c->stage == KV_STAGES) c->stage = 0, c->parity ^= 1;
}

/* Adds the sums of a step while the scores and exponentials of the next step are computed, and goes
 * to that step. */
DEVICE void page_step(const struct attend_kernel_args *a, const struct query_tile *w,
                      const struct kv_ring *ring, struct page_consumer *c, const int dims,
                      const int queries, const int halves, const int masked)
{
    float score[32], shrink[2];
    u32 values = values_of_step(ring, c, dims);
    int before = c->stage;
    wait_for_values(ring, c);
    next_step(c);
    mbarrier_wait(ring->full + (u32)(8 * c->stage), c->parity);
    if (dims == 64) keep_queries(c->r.q, a->n_heads >> 31, dims, queries);
    turn_wait(KV_TURN + c->group);
    if (halves > 1) { /* there are no registers for scores beside their weights */
        page_values(values, c->p, c->r.total, dims, halves);
        wgmma_wait(c->r.total, dims);
    }
    page_scores(keys_of_step(ring, c, dims), c->r.q, score, dims, queries);
    if (halves == 1) page_values(values, c->p, c->r.total, dims, halves);
    turn_give(KV_TURN + 1 - c->group);
    if (halves == 1) wgmma_wait_but_last();
    else wgmma_wait_all();
    wgmma_done(score, 64);
    online_softmax(&c->r, score, w->begin + c->step / 2 * STAGE_POSITIONS + c->step % 2 * 8, PAGE,
                   a->window, shrink, masked);
    wgmma_wait(c->r.total, dims);
    release_pages(ring, before, c->step - 1);
    UNROLL for (int i = 0; i < dims / 2; i++) c->r.total[i] *= shrink[i / 2 % 2];
    split_weights(score, c->p);
}

/* Steps 0 .. n - 1; all rows see all positions of steps from .. to - 1. */
DEVICE void page_steps(const struct attend_kernel_args *a, const struct query_tile *w,
                       const struct kv_ring *ring, struct page_consumer *c, int n, int n_turns,
                       const int dims, const int queries, const int halves)
{
    float score[32], shrink[2];
    const struct query_rows *r = &c->r;
    int cut = first_seen(r->highest, a->window) - w->begin,
        from = cut > 0 ? (cut + STAGE_POSITIONS - 1) / STAGE_POSITIONS * 2 : 0,
        to = (r->lowest + 1 - w->begin) / STAGE_POSITIONS * 2;
    mbarrier_wait(ring->full, 0);
    page_scores(keys_of_step(ring, c, dims), c->r.q, score, dims, queries);
    wgmma_wait(score, 64);
    online_softmax(&c->r, score, w->begin, PAGE, a->window, shrink, 1);
    split_weights(score, c->p);
    while (c->step < n - 1) {
        NO_UNROLL while (c->step < n - 1 && (c->step + 1 < from || c->step + 1 >= to))
            page_step(a, w, ring, c, dims, queries, halves, 1);
        NO_UNROLL while (c->step < n - 1 && c->step + 1 >= from && c->step + 1 < to)
            page_step(a, w, ring, c, dims, queries, halves, 0);
    }
    wait_for_values(ring, c);
    turn_wait(KV_TURN + c->group);
    page_values(values_of_step(ring, c, dims), c->p, c->r.total, dims, halves);
    if (!c->group || n < n_turns) turn_give(KV_TURN + 1 - c->group);
    wgmma_wait(c->r.total, dims);
    release_pages(ring, c->stage, c->step);
    next_step(c);
}

/* A consumer warpgroup: 64 rows of the tile. queries, halves: parts of a query, of a softmax
 * weight */
DEVICE void consume_pages(const struct attend_kernel_args *a, const struct query_tile *w,
                          const struct kv_ring *ring, const int dims, const int queries,
                          const int halves)
{
    struct page_consumer c;
    begin_rows(a, w, &c.r, dims, 0);
    c.step = c.stage = 0;
    c.parity = 0;
    c.group = thread() / 128;
    int turns = ((w->last - w->begin) / STAGE_POSITIONS + 1) * 2,
        n = c.r.highest < w->begin ? 0 : ((c.r.highest - w->begin) / STAGE_POSITIONS + 1) * 2;
    if (c.group) turn_give(KV_TURN);
    if (n) page_steps(a, w, ring, &c, n, turns, dims, queries, halves);
    for (; c.step < turns; next_step(&c)) { /* turns of the other group, which has more steps */
        wait_for_values(ring, &c);
        turn_wait(KV_TURN + c.group);
        if (!c.group || c.step + 1 < turns) turn_give(KV_TURN + 1 - c.group);
        release_pages(ring, c.stage, c.step);
    }
    const float unit[2] = {0, 0};
    write_rows_of_head(a, w, &c.r, unit, dims);
}

DEVICE void attend_wgmma(const struct attend_kernel_args *early, u32 *lds, const int dims,
                         const int queries, const int halves)
{
    struct kv_ring r;
    r.stages = lds_address(lds);
    r.full = r.stages + KV_STAGES * 4 * STAGE_POSITIONS * (u32)dims;
    r.empty = r.full + 8 * KV_STAGES;
    begin_ring(&r, KV_STAGES, 1);
    for (int i = 0; i < KV_STAGES && thread() == 0; i++)
        mbarrier_init(r.full + 8 * (2 * KV_STAGES + (u32)i), 1);
    if (thread() == 0) mbarrier_init_done();
    struct query_tile w = query_tile_of(early, 0, STAGE_POSITIONS);
    barrier();
    wait_for_producer();
    if (thread() >= TILE_GROUPS * 128) {
        REGISTERS_LESS(40);
        produce_pages(early, &w, &r, dims);
    } else {
        REGISTERS_MORE(232);
        consume_pages(early, &w, &r, dims, queries, halves);
    }
}

#define ATTEND_WGMMA(name, images, dims, queries, halves)                                          \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_wgmma(EARLY_ARGS, dynamic_lds, dims, queries, halves);                              \
    })
#include "backend-hip/kernels/hopper/list.h"
