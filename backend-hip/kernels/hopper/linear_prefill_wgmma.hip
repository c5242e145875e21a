/* linear_prefill_wgmma.hip: 4-bit GEMM by wgmma on sm_90a, for prompt rows and for many decode
 * rows.
 *   grid      persistent: one block a multiprocessor, two for few rows of experts, takes output x
 *             row tiles in turn, rows first
 *   warps     warp-specialized: one producer thread (TMA and bulk copies), and two or three
 *             consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage is an item of
 *             128 inputs: activations, codes and scales of the tile
 *   products  codes from shared memory become the register operand of wgmma while earlier products
 *             are in flight; for large tiles the first chunk of the next item is unpacked before
 *             the products of this one have ended
 * Bits: the products of an item, which is of one group, are summed, then scaled and added. Kernels
 * for decode rows add eighths of the inputs as hopper/linear_decode_mma.hip does and have its
 * bits. */
/* Layout of the ring in shared memory. */
struct ring {
    int panels, x_bytes, code_bytes, stage_bytes; /* panels of a tile; bytes of a stage */
};

DEVICE struct ring ring_of(const int groups, const int n)
{
    struct ring r;
    r.panels = groups * 4;
    r.x_bytes = n * ITEM_CHUNKS * CHUNK * 2;
    r.code_bytes = r.panels * ITEM_CODES * 4;
    r.stage_bytes = WGMMA_STAGE(n, 64 * groups);
    return r;
}

/* Tile number `index`. Row tiles come first, so that weights stay in the L2 cache; of experts
 * outputs come first, because an expert has few row tiles. first_panel: the expert's in its stack,
 * which has one tensor map for all experts; rows: the end of the tile's rows */
struct tile {
    struct linear_part p;
    int out_tile, row_tile, first_panel, rows;
};

/* e: NULL, or the experts that a is part of */
DEVICE struct tile tile_of(const struct linear_args *a, const struct experts_args *e, int index,
                           const int n)
{
    struct tile t;
    int n_tiles = (a->rows + n - 1) / n;
    int out_tile = e ? index % a->n_blocks : index / n_tiles;
    t.row_tile = e ? index / a->n_blocks : index % n_tiles;
    t.p = part_of(a, out_tile);
    t.out_tile = out_tile - t.p.first;
    t.first_panel = 0;
    t.rows = a->rows;
    if (e) {
        int expert = e->expert[t.row_tile];
        t.p = part_of_expert(&t.p, expert);
        t.first_panel = expert * ((t.p.out + PANEL - 1) / PANEL);
        t.rows = e->end[t.row_tile];
    }
    return t;
}

/* Tiles of the launch. Those of experts are known when the producer launch has ended. */
DEVICE int tiles_of(const struct linear_args *a, const struct experts_args *e, const int n)
{
    return a->n_blocks * (e ? *e->n_tiles : (a->rows + n - 1) / n);
}

/* The work of a block: tiles first, first + step, .. below n. Of each tile it computes k-slices
 * slice .. slice_end - 1, which are items begin .. end - 1: all of them, or its own where a cluster
 * shares a tile. */
struct block_work {
    int first, step, n, slice, slice_end, begin, end;
};

DEVICE struct block_work block_work_of(const struct linear_args *a, const struct experts_args *e,
                                       const int n)
{
    int blocks = cluster_blocks(), n_items = a->n_chunks / ITEM_CHUNKS;
    struct block_work s;
    s.first = block_x() / blocks;
    s.step = grid_x() / blocks;
    s.n = tiles_of(a, e, n);
    s.slice = cluster_rank() * DECODE_SLICES / blocks;
    s.slice_end = s.slice + DECODE_SLICES / blocks;
    s.begin = slice_begin(n_items, s.slice);
    s.end = slice_begin(n_items, s.slice_end);
    return s;
}

/* The producer thread: a bulk copy for the inputs of an item, TMA boxes of 4 panels for codes and
 * scales; codes and scales of the first items are loaded before the inputs are ready. plain: one
 * word a scale, one row of scales for an item. Which experts there are is not known early. */
DEVICE void produce_tiles(const struct linear_args *a, const struct experts_args *e, u32 lds,
                          u32 full, u32 empty, const int groups, const int n, const int stages,
                          const int plain)
{
    const struct ring r = ring_of(groups, n);
    if (e) wait_for_producer();
    struct block_work s = block_work_of(a, e, n);
    int stage = 0, early = e ? 0 : s.end - s.begin < stages ? s.end - s.begin : stages;
    u32 parity = 1; /* an unused stage is empty */
    for (int index = s.first; index < s.n; index += s.step) {
        struct tile t = tile_of(a, e, index, n);
        const char *x = (const char *)a->x +
                        (u64)t.row_tile * (u64)n * (u64)(a->n_chunks * CHUNK * 2),
                   *maps = (const char *)t.p.maps;
        int used = e ? (t.rows - t.row_tile * n + 7) / 8 * 8 : n;
        for (int item = s.begin; item < s.end; item++) {
            u32 to = lds + (u32)(stage * r.stage_bytes), count = full + 8 * (u32)stage;
            const char *source = x + (u64)item * (u64)r.x_bytes;
            mbarrier_wait(empty + 8 * (u32)stage, parity);
            mbarrier_arrive_expect(
                count, (u32)(used * 256 + r.code_bytes + (plain ? r.panels * PANEL * 4 : 0)));
            if (e) { /* of experts only rows that exist are copied: there are few, and nobody reads
                        the results of others */
                UNROLL for (int j = 0; j < 2; j++) bulk_copy(
                    to + (u32)(j * n * 128), source + j * n * 128, (u32)(used * 128), count);
            } else if (!early) {
                bulk_copy(to, source, (u32)r.x_bytes, count);
            }
            to += (u32)r.x_bytes;
            UNROLL for (int j = 0; j < groups; j++)
            {
                int panel = t.first_panel + t.out_tile * r.panels + 4 * j;
                tma_load(to + (u32)(j * 4 * ITEM_CODES * 4), maps, 0, item, panel, count);
                if (plain)
                    tma_load(to + (u32)(r.code_bytes + j * 4 * PANEL * 4), maps + 128, 0,
                             group_of(&t.p, item * ITEM_CHUNKS), panel, count);
            }
            if (item - s.begin + 1 == early) {
                wait_for_producer();
                NO_UNROLL for (int j = 0; j < early; j++) bulk_copy(
                    lds + (u32)(j * r.stage_bytes), x + (u64)(s.begin + j) * (u64)r.x_bytes,
                    (u32)r.x_bytes, full + 8 * (u32)j);
                early = 0;
            }
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
    if (!e && (s.begin == s.end || s.first >= s.n)) wait_for_producer();
}

/* Unpacks two words of codes of a chunk, one for each output of the lane, into the register
 * operands of two products. */
DEVICE void unpack_chunk(const u32 *q, const struct scale_zero g[2], u32 a[8])
{
    UNROLL for (int o = 0; o < 2; o++)
    {
        f16x2 w[4];
        unpack_word(q[o], &g[o], w);
        UNROLL for (int i = 0; i < 4; i++) a[2 * i + o] = word_of(w[i]);
    }
}

/* part = (or with `extra` part +=) a chunk times its 32 inputs. */
DEVICE void multiply_chunk(const u32 a[8], float *part, u64 rows, int extra, const int n)
{
    wgmma_begin();
    wgmma(part, a[0], a[1], a[2], a[3], rows, extra, n);
    wgmma(part, a[4], a[5], a[6], a[7], rows + 2, 1, n);
    wgmma_commit();
}

DEVICE void wgmma_chunk(const u32 *q, const struct scale_zero g[2], float *part, u64 rows,
                        int extra, const int n)
{
    u32 a[8];
    unpack_chunk(q, g, a);
    multiply_chunk(a, part, rows, extra, n);
}

/* The offset of chunk c's inputs within a descriptor of the item's first chunk. */
DEVICE u64 chunk_rows(const int c, const int n)
{
    return (u64)(c / 2 * (n * 128 >> 4) + c % 2 * 4);
}

/* total += scale * the products of an item, for 64 outputs. codes, meta: the lane's addresses in
 * shared memory; x: that of the item's inputs. If the linear is not plain, scales come from global
 * memory, and a chunk is scaled by itself if the item is of several groups. */
DEVICE void wgmma_item(const struct linear_part *p, u32 codes, u32 meta, u32 x, int panel, int item,
                       float *part, float *total, const int n, const int plain)
{
    struct scale_zero g[2];
    u64 rows = wgmma_rows(x);
    u32 q[4];
    if (plain) UNROLL for (int j = 0; j < 2; j++)
        {
            u32 m = lds_word(meta + (u32)(j * 32));
            g[j] = scale_zero_of((float)half_of(m), half_of(m >> 16));
        }
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
    {
        int fresh = c == 0 || !(plain || p->whole_items), lane = thread() % WARP;
        if (c % 2 == 0) {
            u32x4 v = lds_words(codes + (u32)(c / 2 * (ITEM_CODES * 2)));
            UNROLL for (int i = 0; i < 4; i++) q[i] = v[i];
        }
        if (!plain && fresh)
            UNROLL for (int j = 0; j < 2; j++)
                g[j] = meta_at(p, meta_row(p, panel, item * ITEM_CHUNKS + c), lane / 4 + 8 * j);
        wgmma_wait_but_one(&q[c % 2 * 2], &q[c % 2 * 2 + 1]);
        wgmma_chunk(q + c % 2 * 2, g, part, rows + chunk_rows(c, n), !fresh, n);
        if (c < ITEM_CHUNKS - 1 && (plain || p->whole_items)) continue;
        wgmma_wait(part, n);
        UNROLL for (int i = 0; i < n / 2; i++)
            total[i] = fma32(g[i / 2 % 2].scale, part[i], total[i]);
    }
}

/* A consumer warpgroup's position in the ring. full, x: addresses in shared memory; empty: this
 * lane's address; codes, meta: this lane's offsets from x */
struct consumer_state {
    u32 full, empty, x, codes, meta, parity;
    int stage;
};

/* The prefetched item of a plain linear: codes and scales in registers, the first chunk
 * unpacked. */
struct prefetched_item {
    u32 q[8], a[8], x;
    struct scale_zero g[2];
    int stage;
};

/* Waits for the item's stage, reads it and advances. The products of at most one chunk are in
 * flight on return. */
DEVICE void prefetch_item(struct consumer_state *state, struct prefetched_item *h, const int groups,
                          const int n, const int stages)
{
    h->stage = state->stage;
    h->x = state->x + (u32)(state->stage * ring_of(groups, n).stage_bytes);
    mbarrier_wait(state->full + 8 * (u32)state->stage, state->parity);
    UNROLL for (int j = 0; j < 2; j++)
    {
        u32x4 v = lds_words(h->x + state->codes + (u32)(j * ITEM_CODES * 2));
        u32 m = lds_word(h->x + state->meta + (u32)(j * 32));
        UNROLL for (int i = 0; i < 4; i++) h->q[4 * j + i] = v[i];
        h->g[j] = scale_zero_of((float)half_of(m), half_of(m >> 16));
    }
    if (++state->stage == stages) state->stage = 0, state->parity ^= 1;
    wgmma_wait_but_one(&h->q[0], &h->q[1]);
    unpack_chunk(h->q, h->g, h->a);
    UNROLL for (int i = 0; i < 8; i++) h->a[i] = keep(h->a[i]);
}

/* total += scale * products of item h. If there are more items, the next one replaces h while the
 * last products are in flight, so that its own products begin as soon as these are added. */
DEVICE void multiply_prefetched(struct consumer_state *state, struct prefetched_item *h,
                                float *part, float *total, int extra, const int groups, const int n,
                                const int stages)
{
    const float scale[2] = {h->g[0].scale, h->g[1].scale};
    u32 b[8];
    u64 rows = wgmma_rows(h->x);
    int stage = h->stage;
    multiply_chunk(h->a, part, rows, 0, n);
    unpack_chunk(h->q + 2, h->g, b);
    multiply_chunk(b, part, rows + chunk_rows(1, n), 1, n);
    wgmma_wait_but_one(&h->q[4], &h->q[5]);
    unpack_chunk(h->q + 4, h->g, h->a);
    multiply_chunk(h->a, part, rows + chunk_rows(2, n), 1, n);
    wgmma_wait_but_one(&h->q[6], &h->q[7]);
    unpack_chunk(h->q + 6, h->g, b);
    multiply_chunk(b, part, rows + chunk_rows(3, n), 1, n);
    if (extra) prefetch_item(state, h, groups, n, stages);
    wgmma_wait(part, n);
    UNROLL for (int i = 0; i < n / 2; i++) total[i] = fma32(scale[i / 2 % 2], part[i], total[i]);
    if (thread() % WARP == 0) mbarrier_arrive(state->empty + 8 * (u32)stage);
}

/* Epilogue: writes the results that a lane has in 16 outputs and n rows, from its first row and
 * output on. */
DEVICE void write_rows(const struct linear_args *a, const struct linear_part *p, int row0,
                       int output, const float *total, const int n)
{
    float bias[2];
    int valid[2];
    UNROLL for (int j = 0; j < 2; j++)
    {
        valid[j] = output + 8 * j < p->out;
        bias[j] = p->bias && valid[j] ? p->bias[output + 8 * j] : 0;
    }
    float scale[32]; /* all loaded ahead of the first store */
    UNROLL for (int i = 0; i < n / 4; i++)
    {
        int row = row0 + i / 2 * 8 + i % 2;
        scale[i] = a->scale[row < a->rows ? row : 0];
    }
    UNROLL for (int i = 0; i < n / 4; i++)
    {
        int row = row0 + i / 2 * 8 + i % 2;
        if (row >= a->rows) continue;
        float *y = p->y + (u64)row * (u64)p->out + (u64)output;
        UNROLL for (int j = 0; j < 2; j++)
        {
            float v = total[i / 2 * 4 + 2 * j + i % 2] * scale[i];
            if (valid[j]) y[8 * j] = p->bias ? v + bias[j] : v;
        }
    }
}

/* Where the results of a tile of experts go, loaded before the products: lane i has rows i, i + 32,
 * .. of the tile. */
struct slot_rows {
    float slot[4], scale[4]; /* slot: the number as bits of a float; -1: none */
};

DEVICE void slot_rows_of(const struct linear_args *a, struct slot_rows *to, int row0, int rows,
                         const int n)
{
    UNROLL for (int i = 0; i < (n + WARP - 1) / WARP; i++)
    {
        int row = row0 + thread() % WARP + i * WARP, valid = row < rows;
        to->slot[i] = f32_of(valid ? (u32)a->slot[row] : ~0u);
        to->scale[i] = valid ? a->scale[row] : 0;
    }
}

DEVICE void write_slots(const struct linear_part *p, const struct slot_rows *to, int output,
                        const float *total, const int n)
{
    float bias[2];
    int valid[2];
    UNROLL for (int j = 0; j < 2; j++)
    {
        valid[j] = output + 8 * j < p->out;
        bias[j] = p->bias && valid[j] ? p->bias[output + 8 * j] : 0;
    }
    UNROLL for (int i = 0; i < n / 4; i++)
    {
        int lane = i / 2 % 4 * 8 + thread() % 4 * 2 + i % 2,
            slot = (int)bits_of(shuffle_from(to->slot[i / 8], lane));
        float scale = shuffle_from(to->scale[i / 8], lane), *y = p->y + (u64)slot * (u64)p->out +
                                                                 (u64)output;
        if (slot >= 0) UNROLL for (int j = 0; j < 2; j++)
            {
                float v = total[i / 2 * 4 + 2 * j + i % 2] * scale;
                if (valid[j]) y[8 * j] = p->bias ? v + bias[j] : v;
            }
    }
}

/* The initial position of a consumer warpgroup. */
DEVICE struct consumer_state consumer_state_of(u32 lds, u32 full, u32 empty, const int groups,
                                               const int n)
{
    struct ring r = ring_of(groups, n);
    u32 warp = (u32)(thread() / WARP), lane = (u32)thread() % WARP;
    return (struct consumer_state){
        .full = full,
        .empty = empty,
        .x = lds,
        .codes = keep((u32)r.x_bytes + warp * ITEM_CODES * 4 + lane * 16),
        .meta = keep((u32)(r.x_bytes + r.code_bytes) + warp * PANEL * 4 + lane / 4 * 4),
        .parity = 0,
        .stage = 0};
}

/* A consumer warpgroup. sliced: eighths of the inputs are summed by themselves, as in
 * hopper/linear_decode_mma.hip. */
DEVICE void consume_tiles(const struct linear_args *a, const struct experts_args *e,
                          struct consumer_state state, const int groups, const int n,
                          const int stages, const int plain, const int sliced)
{
    const int prefetches = plain && (n == 128 || (n == 64 && groups == 2));
    struct ring r = ring_of(groups, n);
    struct prefetched_item h;
    int lane = thread() % WARP, warp = thread() / WARP, n_items = a->n_chunks / ITEM_CHUNKS;
    int n_all = tiles_of(a, e, n);
    for (int index = block_x(); index < n_all; index += grid_x()) {
        struct tile t = tile_of(a, e, index, n);
        float total[64], sum[64], part[64];
        int panel = t.out_tile * r.panels + warp, last = (t.p.out - 1) / PANEL, slice = 1;
        struct slot_rows to;
        if (e) slot_rows_of(a, &to, t.row_tile * n, t.rows, n);
        UNROLL for (int i = 0; i < n / 2; i++) total[i] = sum[i] = 0;
        if (prefetches) prefetch_item(&state, &h, groups, n, stages);
        for (int item = 0; item < n_items; item++) {
            if (!prefetches) mbarrier_wait(state.full + 8 * (u32)state.stage, state.parity);
            if (sliced && item >= slice_begin(n_items, slice)) {
                UNROLL for (int i = 0; i < n / 2; i++) sum[i] += total[i], total[i] = 0;
                while (item >= slice_begin(n_items, slice)) slice++;
            }
            if (prefetches) {
                multiply_prefetched(&state, &h, part, total, item + 1 < n_items, groups, n, stages);
                continue;
            }
            u32 x = state.x + (u32)(state.stage * r.stage_bytes);
            wgmma_item(&t.p, x + state.codes, x + state.meta, x, panel < last ? panel : last, item,
                       part, total, n, plain);
            if (lane == 0) mbarrier_arrive(state.empty + 8 * (u32)state.stage);
            if (++state.stage == stages) state.stage = 0, state.parity ^= 1;
        }
        if (sliced) UNROLL for (int i = 0; i < n / 2; i++) total[i] += sum[i];
        if (e) write_slots(&t.p, &to, panel * PANEL + lane / 4, total, n);
        else write_rows(a, &t.p, t.row_tile * n + lane % 4 * 2, panel * PANEL + lane / 4, total, n);
    }
}

/* groups: consumer warpgroups of 64 outputs each; n: rows of a tile; blocks: blocks of a
 * multiprocessor. The mbarriers are behind the ring. e: NULL, or the experts that `early` is part
 * of */
DEVICE void q4_wgmma(const struct linear_args *early, const struct experts_args *e, u32 *lds,
                     const int groups, const int n, const int stages, const int plain,
                     const int sliced, const int blocks)
{
    struct ring r = ring_of(groups, n);
    u32 full = lds_address(lds) + (u32)(stages * r.stage_bytes), empty = full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(full + 8 * (u32)i, 1);
            mbarrier_init(empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        mbarrier_init_done();
    }
    barrier();
    if (thread() >= groups * 128) {
        REGISTERS_LESS(32);
        if (thread() == groups * 128)
            produce_tiles(early, e, lds_address(lds), full, empty, groups, n, stages, plain);
        else wait_for_producer();
    } else {
        wait_for_producer();
        if (blocks == 2) REGISTERS_MORE(104);
        else if (groups == 2) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        consume_tiles(early, e, consumer_state_of(lds_address(lds), full, empty, groups, n), groups,
                      n, stages, plain, sliced);
    }
}

#define Q4_WGMMA(name, images, phase, tile_rows, groups, stages, which, percent)                   \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        q4_wgmma(EARLY_ARGS, 0, dynamic_lds, groups, tile_rows, stages, (which) == PLAIN_LINEAR,      \
                 (phase) == PHASE_DECODE, 1);                                                      \
    })
#define EXPERTS_WGMMA(name, images, phase, tile_rows, groups, stages, which, blocks)               \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        const struct experts_args *e = EARLY_ARGS;                                                 \
        q4_wgmma(&e->linear, e, dynamic_lds, groups, tile_rows, stages, (which) == PLAIN_LINEAR,   \
                 (phase) == PHASE_DECODE, blocks);                                                 \
    })
#include "backend-hip/kernels/hopper/list.h"
