/* linear_dealt_wgmma.hip: 4-bit GEMM of many decode rows by wgmma on sm_90a, in tiles of 128 rows;
 * plain weights.
 *   grid      persistent: a block a multiprocessor. Eighths of tiles are dealt to the blocks, so
 *             that all end at about the same time. A block computes the first eighths of its last
 *             tile, then whole tiles, then the last eighths of its first tile, whose first eighths
 *             the block before it has computed first. Where there are few tiles (shared) four
 *             blocks share one, two eighths each, which they add to the sum of those before
 *   warps     one producer thread (TMA and bulk copies), two consumer warpgroups of 64 outputs each
 *   pipeline  two rings in shared memory: inputs of 64 columns, and codes and scales of an item of
 *             128 inputs
 *   products  as in linear_prefill_wgmma.hip; the first chunk of the next item is unpacked before
 *             the products of this one have ended
 *   sums      eighths of the inputs are summed by themselves, and added while the first products of
 *             the next eighth run; the sum of the first ones of a tile of two blocks goes through
 *             memory
 * Bits: the order of linear_decode_mma.hip, whatever blocks there are. */

/* The eighths of tiles that a block computes: numbers begin .. end - 1 among those of all tiles,
 * `of_tile` to a tile. */
struct dealt_units {
    int begin, end, of_tile;
};

DEVICE struct dealt_units dealt_units_of(const struct linear_args *a, const int shared)
{
    int tiles = tiles_of(a, 0, DEALT_ROWS), blocks = grid_x(), of_tile = 1;
    if ((shared || tiles >= blocks) && a->n_chunks >= DECODE_SLICES * ITEM_CHUNKS)
        of_tile = DECODE_SLICES;
    u64 all = (u64)(u32)(tiles * of_tile), block = (u64)(u32)block_x();
    return (struct dealt_units){(int)(all * block / (u32)blocks),
                                (int)(all * (block + 1) / (u32)blocks), of_tile};
}

/* A tile or a part of it: slices from .. to - 1. */
struct dealt_piece {
    int tile, from, to;
};

/* The number of a block's items. */
DEVICE int dealt_items(const struct dealt_units *u, int n_items)
{
    int n = u->of_tile, slices = DECODE_SLICES / n;
    int begin = u->begin / n * n_items + slice_begin(n_items, u->begin % n * slices);
    return u->end / n * n_items + slice_begin(n_items, u->end % n * slices) - begin;
}

DEVICE int dealt_pieces(const struct dealt_units *u)
{
    return u->begin < u->end ? (u->end + u->of_tile - 1) / u->of_tile - u->begin / u->of_tile : 0;
}

/* Piece number i of a block, in the order of their computation. */
DEVICE struct dealt_piece dealt_piece_of(const struct dealt_units *u, int i)
{
    int first = u->begin / u->of_tile, begins = u->begin % u->of_tile, ends = u->end % u->of_tile,
        tile = first + (begins != 0) + i - (ends != 0), last = dealt_pieces(u) - 1;
    if (ends && i == 0)
        return (struct dealt_piece){u->end / u->of_tile, last ? 0 : begins, ends};
    if (begins && i == last) return (struct dealt_piece){first, begins, DECODE_SLICES};
    return (struct dealt_piece){tile, 0, DECODE_SLICES};
}

/* Addresses in shared memory: the rings of inputs and of codes, the mbarriers of each, and the
 * block's units. Constants: items of each ring. */
struct dealt_rings {
    u32 x, codes, full_x, empty_x, full, empty, units;
    int x_items, stages;
};

DEVICE struct dealt_rings dealt_rings_of(const u32 *lds, const int x_items, const int stages)
{
    struct dealt_rings r;
    r.x = lds_address(lds);
    r.codes = r.x + (u32)(x_items * 2 * DEALT_X_BYTES);
    r.full_x = r.codes + (u32)(stages * DEALT_CODES);
    r.empty_x = r.full_x + 16 * (u32)x_items;
    r.full = r.empty_x + 16 * (u32)x_items;
    r.empty = r.full + 8 * (u32)stages;
    r.units = r.empty + 8 * (u32)stages;
    r.x_items = x_items;
    r.stages = stages;
    return r;
}

/* The block's units, read from where its first thread has stored them, so that no register keeps
 * them. */
DEVICE struct dealt_units dealt_units_stored(const struct dealt_rings *r)
{
    return (struct dealt_units){(int)lds_word(r->units), (int)lds_word(r->units + 4),
                                (int)lds_word(r->units + 8)};
}

/* Begins the copies of the codes and scales of an item. */
DEVICE void dealt_load_codes(const struct dealt_rings *r, const struct tile *t, int item, int stage)
{
    u32 to = r->codes + (u32)(stage * DEALT_CODES), count = r->full + 8 * (u32)stage;
    const char *maps = (const char *)t->p.maps;
    mbarrier_arrive_expect(count, DEALT_CODES);
    UNROLL for (int j = 0; j < DEALT_OUTPUTS / 64; j++)
    {
        int panel = (t->out_tile * (DEALT_OUTPUTS / 64) + j) * 4;
        tma_load(to + (u32)(j * 4 * ITEM_CODES * 4), maps, 0, item, panel, count);
        tma_load(to + (u32)(DEALT_OUTPUTS * 64 + j * 4 * PANEL * 4), maps + 128, 0,
                 group_of(&t->p, item * ITEM_CHUNKS), panel, count);
    }
}

/* The producer thread. Codes of the first items are loaded before the inputs are ready. */
DEVICE void dealt_produce(const struct linear_args *a, const struct dealt_rings *r)
{
    int n_items = a->n_chunks / ITEM_CHUNKS, n = 0, x_item = 0, early = 0;
    u32 x_parity = 1; /* an unused stage is empty */
    NO_UNROLL for (int i = 0;; i++) {
        const struct dealt_units u = dealt_units_stored(r);
        if (i == dealt_pieces(&u)) {
            if (!i) wait_for_producer();
            break;
        }
        struct dealt_piece p = dealt_piece_of(&u, i);
        struct tile t = tile_of(a, 0, p.tile, DEALT_ROWS);
        int item = slice_begin(n_items, p.from), end = slice_begin(n_items, p.to);
        const char *x = (const char *)a->x +
                        ((u64)t.row_tile * (u64)n_items + (u64)item) * (2 * DEALT_X_BYTES);
        if (i == 0) {
            for (; early < r->stages && item + early < end; early++)
                dealt_load_codes(r, &t, item + early, early);
            wait_for_producer();
        }
        NO_UNROLL for (; item < end; item++, n++) {
            if (n >= early) {
                mbarrier_wait(r->empty + 8 * (u32)(n % r->stages), (u32)(n / r->stages % 2) ^ 1);
                dealt_load_codes(r, &t, item, n % r->stages);
            }
            NO_UNROLL for (int half = 0; half < 2; half++, x += DEALT_X_BYTES) {
                u32 slot = (u32)(2 * x_item + half), count = r->full_x + 8 * slot;
                mbarrier_wait(r->empty_x + 8 * slot, x_parity);
                mbarrier_arrive_expect(count, DEALT_X_BYTES);
                bulk_copy(r->x + slot * DEALT_X_BYTES, x, DEALT_X_BYTES, count);
            }
            if (++x_item == r->x_items) x_item = 0, x_parity ^= 1;
        }
    }
}

/* A consumer warpgroup's place in the rings: items that it has multiplied, items of all; the slot
 * of the item's inputs. codes, meta: the lane's offsets */
struct dealt_consumer {
    u32 codes, meta, x_parity;
    int n, n_all, x_item;
};

/* The prefetched item: codes in registers, the first chunk unpacked. */
struct dealt_item {
    u32 q[8], a[8];
    struct scale_zero g[2];
};

/* Waits for an item's codes and scales and reads them. The products of at most one chunk are in
 * flight on return. */
DEVICE void dealt_prefetch(const struct dealt_rings *r, struct dealt_consumer *c,
                           struct dealt_item *h)
{
    u32 stage = (u32)c->n % (u32)r->stages, offset = stage * DEALT_CODES;
    mbarrier_wait(r->full + 8 * stage, (u32)c->n / (u32)r->stages % 2);
    UNROLL for (int j = 0; j < 2; j++)
    {
        u32x4 v = lds_words(c->codes + offset + (u32)(j * ITEM_CODES * 2));
        u32 m = lds_word(c->meta + offset + (u32)(j * 32));
        UNROLL for (int i = 0; i < 4; i++) h->q[4 * j + i] = v[i];
        h->g[j] = scale_zero_of((float)half_of(m), half_of(m >> 16));
    }
    wgmma_wait_but_one(&h->q[0], &h->q[1]);
    unpack_chunk(h->q, h->g, h->a);
    UNROLL for (int i = 0; i < 8; i++) h->a[i] = keep(h->a[i]);
    warp_barrier();
    if (thread() % WARP == 0) mbarrier_arrive(r->empty + 8 * stage);
}

/* Waits for half `half` of the item's inputs and returns their descriptor. */
DEVICE u64 dealt_inputs(const struct dealt_rings *r, const struct dealt_consumer *c,
                        const int half)
{
    u32 slot = (u32)(2 * c->x_item + half);
    mbarrier_wait(r->full_x + 8 * slot, c->x_parity);
    return wgmma_rows(r->x + slot * DEALT_X_BYTES);
}

DEVICE void dealt_release(const struct dealt_rings *r, const struct dealt_consumer *c,
                          const int half)
{
    if (thread() % WARP == 0) mbarrier_arrive(r->empty_x + 8 * (u32)(2 * c->x_item + half));
}

/* What a thread has of a tile: products of an item (part), the sum of a slice (total), of the
 * slices before (sum). pending: total is not in sum yet */
struct dealt_sums {
    float part[DEALT_ROWS / 2], total[DEALT_ROWS / 2], sum[DEALT_ROWS / 2];
    int pending;
};

/* total += scale * the products of item h. While the first products run, the total of an earlier
 * slice is put away; while the last ones run, the next item, if there is one, replaces h. */
DEVICE void dealt_multiply(const struct dealt_rings *r, struct dealt_consumer *c,
                           struct dealt_item *h, struct dealt_sums *s)
{
    enum { N = DEALT_ROWS };
    const float scale[2] = {h->g[0].scale, h->g[1].scale};
    u32 b[8];
    u64 rows = dealt_inputs(r, c, 0);
    multiply_chunk(h->a, s->part, rows, 0, N);
    unpack_chunk(h->q + 2, h->g, b);
    multiply_chunk(b, s->part, rows + 4, 1, N);
    if (s->pending) {
        UNROLL for (int i = 0; i < N / 2; i++) s->sum[i] += s->total[i], s->total[i] = 0;
        s->pending = 0;
    }
    rows = dealt_inputs(r, c, 1);
    wgmma_wait_but_one(&h->q[4], &h->q[5]);
    unpack_chunk(h->q + 4, h->g, h->a);
    multiply_chunk(h->a, s->part, rows, 1, N);
    wgmma_wait_but_one(&h->q[6], &h->q[7]);
    dealt_release(r, c, 0);
    unpack_chunk(h->q + 6, h->g, b);
    multiply_chunk(b, s->part, rows + 4, 1, N);
    if (++c->n < c->n_all) dealt_prefetch(r, c, h);
    wgmma_wait(s->part, N);
    dealt_release(r, c, 1);
    if (++c->x_item == r->x_items) c->x_item = 0, c->x_parity ^= 1;
    UNROLL for (int i = 0; i < N / 2; i++)
        s->total[i] = fma32(scale[i / 2 % 2], s->part[i], s->total[i]);
}

/* Where a thread leaves the sums of a tile's first slices for the next block; there is a flag for
 * each warp, which is 0 outside of launches. */
DEVICE f32x4 *dealt_head(const struct linear_args *a, int block)
{
    return (f32x4 *)a->heads + (u64)block * (DEALT_CONSUMERS * DEALT_ROWS / 8) + thread();
}
DEVICE int *dealt_flag(const struct linear_args *a, int block)
{
    return (int *)((char *)a->heads + DEALT_HEADS_BYTES) + block * (DEALT_CONSUMERS / WARP) +
           thread() / WARP;
}

/* Gives the sums of the first slices to the next block. */
DEVICE void dealt_give(const struct linear_args *a, const float *total)
{
    f32x4 *to = dealt_head(a, block_x());
    UNROLL for (int j = 0; j < DEALT_ROWS / 8; j++) to[j * DEALT_CONSUMERS] = (f32x4){
        total[4 * j], total[4 * j + 1], total[4 * j + 2], total[4 * j + 3]};
    warp_barrier();
    if (thread() % WARP == 0) flag_give(dealt_flag(a, block_x()));
}

/* sum = what the block before has left + sum. */
DEVICE void dealt_take(const struct linear_args *a, float *sum)
{
    const f32x4 *from = dealt_head(a, block_x() - 1);
    flag_await(dealt_flag(a, block_x() - 1));
    UNROLL for (int j = 0; j < DEALT_ROWS / 8; j++)
    {
        f32x4 v = load_fresh_4(from + j * DEALT_CONSUMERS);
        UNROLL for (int i = 0; i < 4; i++) sum[4 * j + i] = v[i] + sum[4 * j + i];
    }
    warp_barrier();
    if (thread() % WARP == 0) *dealt_flag(a, block_x() - 1) = 0;
}

/* Adds the slices of a piece to sum, behind those of the block before. shared: that sum is awaited
 * after one or two slices, which have registers each: the blocks of a tile compute side by side. */
DEVICE void dealt_slices(const struct linear_args *a, const struct dealt_rings *r,
                         struct dealt_consumer *c, struct dealt_item *h, struct dealt_sums *s,
                         const struct dealt_piece *p, const int shared)
{
    int late = shared && p->to - p->from <= 2;
    s->pending = 0;
    UNROLL for (int i = 0; i < DEALT_ROWS / 2; i++) s->total[i] = s->sum[i] = 0;
    if (p->from && !late) dealt_take(a, s->sum);
    NO_UNROLL for (int slice = p->from; slice < p->to; slice++) {
        int n_items = a->n_chunks / ITEM_CHUNKS,
            n = slice_begin(n_items, slice + 1) - slice_begin(n_items, slice);
        if (!n) continue;
        s->pending = slice > p->from;
        NO_UNROLL for (; n; n--) dealt_multiply(r, c, h, s);
    }
    if (p->from && late) dealt_take(a, s->sum);
    UNROLL for (int i = 0; i < DEALT_ROWS / 2; i++) s->sum[i] += s->total[i];
}

DEVICE struct dealt_consumer dealt_consumer_of(const struct dealt_rings *r, int n_all)
{
    u32 lane = (u32)thread() % WARP, warp = (u32)thread() / WARP;
    return (struct dealt_consumer){
        .codes = keep(r->codes + warp * ITEM_CODES * 4 + lane * 16),
        .meta = keep(r->codes + DEALT_OUTPUTS * 64 + warp * PANEL * 4 + lane / 4 * 4),
        .x_parity = 0,
        .n = 0,
        .n_all = n_all,
        .x_item = 0};
}

/* A consumer warpgroup. */
DEVICE void dealt_consume(const struct linear_args *a, const struct dealt_rings *r,
                          const int shared)
{
    const struct dealt_units all = dealt_units_stored(r);
    struct dealt_consumer c = dealt_consumer_of(r, dealt_items(&all, a->n_chunks / ITEM_CHUNKS));
    struct dealt_item h;
    if (c.n_all) dealt_prefetch(r, &c, &h);
    NO_UNROLL for (int i = 0; c.n < c.n_all; i++) {
        struct dealt_units u = dealt_units_stored(r);
        struct dealt_piece p = dealt_piece_of(&u, i);
        struct dealt_sums s;
        dealt_slices(a, r, &c, &h, &s, &p, shared);
        u = dealt_units_stored(r);
        p = dealt_piece_of(&u, i);
        if (p.to < DECODE_SLICES) {
            dealt_give(a, s.sum);
        } else {
            struct tile t = tile_of(a, 0, p.tile, DEALT_ROWS);
            write_rows(a, &t.p, t.row_tile * DEALT_ROWS + thread() % 4 * 2,
                       (t.out_tile * (DEALT_OUTPUTS / PANEL) + thread() / WARP) * PANEL +
                           thread() % WARP / 4,
                       s.sum, DEALT_ROWS);
        }
    }
}

/* Initializes the mbarriers of the rings. */
DEVICE void dealt_begin(const struct dealt_rings *r)
{
    for (int i = 0; i < 2 * r->x_items; i++) {
        mbarrier_init(r->full_x + 8 * (u32)i, 1);
        mbarrier_init(r->empty_x + 8 * (u32)i, DEALT_CONSUMERS / WARP);
    }
    for (int i = 0; i < r->stages; i++) {
        mbarrier_init(r->full + 8 * (u32)i, 1);
        mbarrier_init(r->empty + 8 * (u32)i, DEALT_CONSUMERS / WARP);
    }
    mbarrier_init_done();
}

DEVICE void q4_wgmma_dealt(const struct linear_args *early, u32 *lds, const int x_items,
                           const int stages, const int shared)
{
    const struct dealt_rings r = dealt_rings_of(lds, x_items, stages);
    if (thread() == 0) {
        dealt_begin(&r);
        *(struct dealt_units *)(lds + (r.units - r.x) / 4) =
            dealt_units_of(early, shared);
    }
    barrier();
    if (thread() >= DEALT_CONSUMERS) {
        REGISTERS_LESS(32);
        if (thread() == DEALT_CONSUMERS) dealt_produce(early, &r);
        else wait_for_producer();
    } else {
        wait_for_producer();
        REGISTERS_MORE(232);
        dealt_consume(early, &r, shared);
    }
}

#define Q4_WGMMA_DEALT(name, images, x_items, stages, percent, sharers)                            \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        q4_wgmma_dealt(EARLY_ARGS, dynamic_lds, x_items, stages, (sharers) > 1);                   \
    })
#include "backend-hip/kernels/hopper/list.h"
