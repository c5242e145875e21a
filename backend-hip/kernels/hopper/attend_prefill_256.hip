/* attend_prefill_256.hip: attend_prefill_wgmma.hip for heads of 256 dimensions, whose queries and
 * stages are too large for it: fp16 KV cache, softmax weights of one half.
 *   pipeline  a ring of three slots in shared memory, which take the keys and the values of a step
 *             in turn
 *   operands  queries are in shared memory, [group][part][8 dimensions][64 rows][16 bytes], operand
 *             a of the scores, which has the first part alone in attend_wgmma_one_256
 * Bits: as there. */

enum { LONG_DIMS = 256, LONG_SLOT = KV_STEP * LONG_DIMS * 2, LONG_SLOTS = ATTEND_LONG_SLOTS };
enum { LONG_PART = GROUP_ROWS * LONG_DIMS * 2 }; /* bytes of a part of a group's queries */

struct long_ring {
    u32 slots, queries, full, empty;
};

/* The producer warpgroup. */
DEVICE void produce_long(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct long_ring *r)
{
    const int page_bytes = 2 * PAGE * LONG_DIMS * 2;
    int slot = 0, before = -1;
    const int *table = a->table + (u64)a->seq[w->row0[0]] * (u64)a->table_stride;
    const char *pages = (const char *)a->pages +
                        (u64)(w->head / (a->n_heads / a->n_kv_heads)) * (u64)page_bytes;
    u64 stride = (u64)a->n_kv_heads * (u64)page_bytes;
    u32 parity = 1; /* an unused slot is empty */
    for (int p0 = w->begin; p0 <= w->last; p0 += KV_STEP) {
        NO_UNROLL for (int values = 0; values < 2; values++)
        {
            u32 to = r->slots + (u32)(slot * LONG_SLOT);
            mbarrier_wait(r->empty + 8 * (u32)slot, parity);
            if (values) load_kv_values(pages, table, stride, to, p0, w->last, LONG_DIMS);
            else load_kv_keys(pages, table, stride, to, p0, w->last, LONG_DIMS);
            copies_commit();
            if (before >= 0) { /* the copies of the slot before have arrived */
                COPIES_WAIT(1);
                matrix_reads_after();
                mbarrier_arrive(r->full + (u32)(8 * before));
            }
            before = slot;
            if (++slot == LONG_SLOTS) slot = 0, parity ^= 1;
        }
    }
    COPIES_WAIT(0);
    matrix_reads_after();
    if (before >= 0) mbarrier_arrive(r->full + (u32)(8 * before));
}

/* Writes a lane's queries, as wgmma_queries() makes them, to shared memory at `to`; they are
 * rotated already. Loops are not unrolled, because queries are loaded once. */
DEVICE void put_long_queries(const struct attend_kernel_args *a, const int row[2], u64 offset,
                             char *to, float undo[2])
{
    int of_group = thread() % 128 / WARP * 16 + thread() % WARP / 4;
    UNROLL for (int i = 0; i < 2; i++)
    {
        const float *x = a->q + (u64)row[i] * (u64)(a->n_heads * LONG_DIMS) + offset;
        char *source = to + (of_group + 8 * i) * 16 + thread() % 4 * 4;
        float largest = 0;
        UNROLL_4 for (int c = 0; c < LONG_DIMS; c += 8)
        {
            f32x2 v = *(const f32x2 *)(x + c);
            largest = max32(max32(abs32(v[0]), abs32(v[1])), largest);
        }
        struct power_of_two p = power_for(quad_max(largest), 14);
        undo[i] = p.undo;
        UNROLL_4 for (int c = 0; c < LONG_DIMS; c += 8)
        {
            f32x2 v = *(const f32x2 *)(x + c);
            struct two_halves pair = split_pair(v[0] * p.factor, v[1] * p.factor);
            *(u32 *)(source + c * (GROUP_ROWS * 2)) = pair.high;
            *(u32 *)(source + LONG_PART + c * (GROUP_ROWS * 2)) = pair.low;
        }
    }
}

/* Starts the scores of 64 rows and a step of positions. parts: of a query */
DEVICE void long_scores(u32 queries, u32 keys, float score[32], const int parts)
{
    wgmma_begin();
    UNROLL for (int c = 0; c < LONG_DIMS / 16; c++) UNROLL for (int q = 0; q < parts; q++)
        wgmma_shared_64(score,
                        wgmma_octets(queries + (u32)(q * LONG_PART + c * 2 * GROUP_ROWS * 16),
                                     GROUP_ROWS * 16, 128),
                        wgmma_octets(keys + (u32)(c * 2 * KV_STEP * 16), KV_STEP * 16, 128),
                        c + q > 0);
    wgmma_commit();
}

/* A consumer warpgroup: 64 rows of the tile. */
DEVICE void consume_long(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct long_ring *ring, char *lds, const int parts)
{
    struct query_rows r;
    int slot = 0, group = thread() / 128, lane = thread() % WARP, from[2];
    u32 parity = 0, queries = ring->queries + (u32)(group * 2 * LONG_PART);
    begin_group(w, &r, from);
    put_long_queries(a, from, (u64)(w->head * LONG_DIMS + 2 * (lane % 4)),
                     lds + LONG_SLOTS * LONG_SLOT + group * 2 * LONG_PART, r.to_log2);
    begin_sums(a, &r, LONG_DIMS);
    matrix_reads_after();
    warpgroup_barrier(1 + group);
    for (int p0 = w->begin; p0 <= w->last; p0 += KV_STEP) {
        float score[32], shrink[2];
        u32 offset = ring->slots + (u32)(slot * LONG_SLOT);
        int sees = p0 <= r.highest;
        mbarrier_wait(ring->full + 8 * (u32)slot, parity);
        if (sees) {
            long_scores(keep(queries), offset, score, parts);
            wgmma_wait(score, 64);
        }
        if (lane == 0) mbarrier_arrive(ring->empty + 8 * (u32)slot);
        if (++slot == LONG_SLOTS) slot = 0, parity ^= 1;
        if (sees) {
            softmax_step(a, &r, score, p0, shrink);
            UNROLL for (int i = 0; i < LONG_DIMS / 2; i++) r.total[i] *= shrink[i / 2 % 2];
        }
        offset = ring->slots + (u32)(slot * LONG_SLOT);
        mbarrier_wait(ring->full + 8 * (u32)slot, parity);
        if (sees) {
            struct two_halves p[KV_STEP / 16][4];
            split_weights(score, p);
            wgmma_begin();
            UNROLL for (int k = 0; k < KV_STEP / 16; k++)
                UNROLL for (int half = 0; half < 2; half++) wgmma_by_columns(
                    r.total + 64 * half, p[k][0].high, p[k][1].high, p[k][2].high, p[k][3].high,
                    wgmma_columns(offset + (u32)(2 * half * (KV_STEP * 128) + k * 16 * 128),
                                  KV_STEP * 128),
                    128);
            wgmma_commit();
            wgmma_wait(r.total, 128);
            wgmma_done(r.total + 64, 128);
        }
        if (lane == 0) mbarrier_arrive(ring->empty + 8 * (u32)slot);
        if (++slot == LONG_SLOTS) slot = 0, parity ^= 1;
    }
    const float unit[2] = {0, 0};
    write_rows_of_head(a, w, &r, unit, LONG_DIMS);
}

DEVICE void attend_long(const struct attend_kernel_args *early, u32 *lds, const int queries)
{
    struct long_ring r;
    r.slots = lds_address(lds);
    r.queries = r.slots + LONG_SLOTS * LONG_SLOT;
    r.full = r.queries + TILE_GROUPS * 2 * LONG_PART;
    r.empty = r.full + 8 * LONG_SLOTS;
    const struct kv_ring barriers = {r.slots, r.full, r.empty};
    begin_ring(&barriers, LONG_SLOTS, 128);
    struct query_tile w = query_tile_of(early, 0, KV_STEP);
    barrier();
    wait_for_producer();
    if (thread() >= TILE_GROUPS * 128) {
        REGISTERS_LESS(56);
        produce_long(early, &w, &r);
    } else {
        REGISTERS_MORE(224);
        consume_long(early, &w, &r, (char *)lds, queries);
    }
}

#define ATTEND_WGMMA_LONG(name, images, queries)                                                   \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_long(EARLY_ARGS, dynamic_lds, queries);                                             \
    })
#include "backend-hip/kernels/hopper/list.h"
