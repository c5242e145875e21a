/* dense_gemv.hip: fp16, bf16 and 8-bit linears of one row on sm_90a with fused prologue and
 * epilogue.
 *   fusion    prologue: a norm, SwiGLU, or the row as it is, into shared memory in split
 *             precision; epilogue: y, y += (residual stream), or SwiGLU of two parts
 *   grid      persistent: 2 blocks of 256 threads a multiprocessor; they take output tiles of one
 *             panel (16 outputs) in turn, with SwiGLU the same panel of both parts
 *   warp      split-K in the block: warp w has the stages of 64 inputs w, w + 8, ..
 *   pipeline  a warp has the weights of a group of DENSE_AHEAD stages in registers, and asks for
 *             the next group as it multiplies; the first one is loaded before the producer launch
 *             has ended (programmatic dependent launch), DENSE_PREFETCHED more come into the L2
 *             cache then, but of fp16; of codes of 8 bits the group behind the next one is asked
 *             for, too
 *   products  mma with the row in all 8 columns; a warp leaves the sums of every stage in one of
 *             DENSE_BUFFERS buffers guarded by mbarriers, and one warp in turn adds the stages
 * Bits: the order of sums is that of nvidia/linear_plain_mma.hip, norms are those of norm_rows, the
 * packed rows those of prepare_row(). */
enum { DENSE_AHEAD = 4, DENSE_PREFETCHED = 2, DENSE_BUFFERS = 3, DENSE_HELD = 4 };
enum dense_source { DENSE_NORM, DENSE_ROW };

/* Shared memory of a block, in order: the row in parts as operand b of mma, [chunk][part][h][4
 * lanes][2 words]; sums [DENSE_BUFFERS][parts of a tile][stages][PANEL]; mbarriers
 * [2][DENSE_BUFFERS]. */
struct dense_shared {
    u64 *packed;
    float *sums;
    u32 full; /* address of the mbarriers of each buffer: full, then empty */
};

/* The weights of a stage that a lane has: outputs r and r + 8, 8 inputs of two chunks. Codes of 8
 * bits are in q[0] alone. */
struct dense_weights {
    u32x4 q[SUM_CHUNKS][2];
    u64 scales;
};

/* The output tiles of a block: first, first + step, .. below end. */
struct dense_tiles {
    int first, step, end;
};

/* A warp's group of DENSE_AHEAD stages: item, item + WARPS, .. of one part of a tile, below
 * n_items. The groups go through a tile's parts in turn, then through the next tile. w: the lane's
 * weights of the first stage */
struct dense_group {
    const char *w;
    int tile, sub, item;
};

/* part [DENSE_PARTS], of which n are used */
DEVICE struct dense_part dense_part_of(const struct dense_part *part, int n, int tile)
{
    struct dense_part p = part[0];
    UNROLL for (int i = 1; i < DENSE_PARTS; i++) if (i < n && tile >= part[i].first) p = part[i];
    return p;
}

/* Where a lane's weights of a group begin in memory. */
DEVICE const char *dense_place_of(const struct dense_gemv_args *a, const struct dense_group *g,
                                  const int kind)
{
    struct dense_part p = dense_part_of(a->part, a->n_parts, g->tile);
    const char *first = (const char *)(g->sub ? a->part[1].weight : p.weight);
    return first + ((u64)(g->tile - p.first) * (u64)(a->n_chunks / SUM_CHUNKS) + (u64)g->item) *
                       (u64)dense_stage_bytes(kind) +
           dense_lane(kind);
}

/* Goes to the next group; behind the last tile w stays where it is. */
DEVICE void dense_advance(const struct dense_gemv_args *a, const struct dense_tiles *tiles,
                          struct dense_group *g, int n_items, const int kind)
{
    g->item += WARPS * DENSE_AHEAD;
    g->w += WARPS * DENSE_AHEAD * dense_stage_bytes(kind);
    if (g->item < n_items) return;
    g->item = thread() / WARP;
    if (++g->sub == a->together) g->sub = 0, g->tile += tiles->step;
    if (g->tile < tiles->end) g->w = dense_place_of(a, g, kind);
}

/* The number of the group's stages. */
DEVICE int dense_stages(const struct dense_tiles *tiles, const struct dense_group *g, int n_items)
{
    return g->tile < tiles->end ? (n_items - g->item + WARPS - 1) / WARPS : 0;
}

/* A lane's weights of the stage at w. */
DEVICE struct dense_weights dense_read(const char *w, const int kind)
{
    const int pieces = kind == WEIGHT_I8 ? 1 : SUM_CHUNKS;
    const u32x4 none = {0, 0, 0, 0};
    struct dense_weights v = {{{none, none}, {none, none}}, 0};
    int lane = thread() % WARP;
    UNROLL for (int c = 0; c < pieces; c++) UNROLL for (int j = 0; j < 2; j++)
        v.q[c][j] = load_once(w + c * (2 * DENSE_PIECE) + j * 128);
    if (kind == WEIGHT_I8)
        v.scales = *(const u64 *)(w - dense_lane(kind) + BYTES_CODES + lane / 4 * 8);
    return v;
}

/* Loads stages from .. from + n - 1 of the group, which has `n_stages`. */
DEVICE void dense_load(const struct dense_group *g, int n_stages, struct dense_weights *v,
                       const int from, const int n, const int kind)
{
    UNROLL for (int k = from; k < from + n; k++) if (k < n_stages)
        v[k] = dense_read(g->w + k * WARPS * dense_stage_bytes(kind), kind);
}

/* Brings a group into the L2 cache. */
DEVICE void dense_prefetch(const struct dense_group *g, int n_stages, const int kind)
{
    int lane = thread() % WARP;
    const char *w = g->w - dense_lane(kind) + lane * 128;
    UNROLL for (int k = 0; k < DENSE_AHEAD;
                k++) if (k < n_stages && lane * 128 < dense_stage_bytes(kind))
        prefetch_line(w + k * WARPS * dense_stage_bytes(kind));
}

/* 64-bit words of the packed row for a stage. */
DEVICE int dense_of_stage(const int kind) { return SUM_CHUNKS * F16_PARTS(kind) * 2 * 4; }

/* The products of n stages, interleaved, because those of one stage depend on each other. x: this
 * lane's part of the packed row, or of rows, whose pieces have `words` words; from[k]: where the
 * inputs of stage k begin; part[k][0 and 2]: outputs r and r + 8 of column 2 t, part[k][1 and 3]:
 * of column 2 t + 1 */
DEVICE void dense_products(const struct dense_weights *w, const u64 *x, const int *from,
                           float part[][4], const int n, int words, const int kind)
{
    const int parts = F16_PARTS(kind);
    float eight[SUM_CHUNKS][DENSE_AHEAD][4];
    UNROLL for (int k = 0; k < n; k++) UNROLL for (int i = 0; i < 4; i++)
        eight[0][k][i] = eight[1][k][i] = part[k][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < parts; s++)
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int k = 0; k < n; k++)
    {
        u64 v = x[from[k] + ((c * parts + s) * 2 + h) * words];
        u32 b0 = (u32)v, b1 = (u32)(v >> 32);
        u32 a0 = w[k].q[c][0][2 * h], a1 = w[k].q[c][1][2 * h], a2 = w[k].q[c][0][2 * h + 1],
            a3 = w[k].q[c][1][2 * h + 1];
        if (kind == WEIGHT_I8) {
            u32 low[2], high[2];
            unpack_bytes(w[k].q[0][0][2 * c + h], low);
            unpack_bytes(w[k].q[0][1][2 * c + h], high);
            mma_16x8x16(eight[c][k], low[0], high[0], low[1], high[1], b0, b1);
        } else if (kind == WEIGHT_BF16) {
            mma_bf16(part[k], a0, a1, a2, a3, b0, b1);
        } else {
            mma_16x8x16(part[k], a0, a1, a2, a3, b0, b1);
        }
    }
    if (kind == WEIGHT_I8)
        UNROLL for (int k = 0; k < n; k++) UNROLL for (int i = 0; i < 4; i++)
            part[k][i] = scaled_bytes((u32)(w[k].scales >> (i / 2 * 32)), eight[0][k][i],
                                      eight[1][k][i]);
}

/* Packs elements i .. i + 3 of a row. */
DEVICE void dense_pack_four(u64 *packed, int i, f32x4 v, float factor, const int kind)
{
    const int parts = F16_PARTS(kind);
    u32 low[3], high[3];
    split_f16(v[0] * factor, v[1] * factor, low, kind);
    split_f16(v[2] * factor, v[3] * factor, high, kind);
    UNROLL for (int q = 0; q < parts; q++)
        packed[((i / CHUNK * parts + q) * 2 + i / 4 % 2) * 4 + i % CHUNK / 8] =
            (u64)low[q] | (u64)high[q] << 32;
}

/* Loads that keep their order, ahead of what is done with them. */
DEVICE f32x4 load_four(const float *from)
{
    u32x4 v = load_input(from);
    return (f32x4){f32_of(v[0]), f32_of(v[1]), f32_of(v[2]), f32_of(v[3])};
}

/* Elements i .. i + 3 of a row that is not normed. */
DEVICE f32x4 dense_four(const struct dense_gemv_args *a, int i)
{
    f32x4 v = *(const f32x4 *)(a->x + i);
    if (a->up) {
        f32x4 up = *(const f32x4 *)(a->up + i);
        UNROLL for (int e = 0; e < 4; e++) v[e] = gated(v[e], up[e], 0);
    }
    return v;
}

/* Stores elements i .. i + 3 of the row: in parts, and for the experts and other readers. */
DEVICE void dense_place_four(const struct dense_gemv_args *a, u64 *packed, int i, f32x4 v,
                             float factor, float half, const enum dense_source source,
                             const int kind)
{
    dense_pack_four(packed, i, v, factor, kind);
    if (source != DENSE_NORM || block_x()) return;
    if (a->norm.out) *(f32x4 *)(a->norm.out + i) = v;
    if (a->packed)
        UNROLL for (int e = 0; e < 4; e++) ((f16 *)a->packed)[i + e] = (f16)(v[e] * half);
}

/* Waits for the row and stores it in parts, and the experts' input if there is one. Returns what
 * the sums are multiplied by. A row of up to DENSE_HELD * 4 inputs a thread (every normed row) is
 * in registers, so that its loads wait for memory once. Other loops are not unrolled, because a
 * launch reads its instructions from afar. The norm's sum is that of norm_rows: thread t has
 * elements t, t + THREADS, .. */
DEVICE float dense_pack(const struct dense_gemv_args *a, u64 *packed, float *scratch,
                        const enum dense_source source, const int kind)
{
    int dim = a->n_chunks * CHUNK, packs = block_x() == 0 && a->packed,
        held = source == DENSE_NORM || (dim <= DENSE_HELD * 4 * THREADS && !a->up);
    float sum = 0, largest = 0;
    f32x4 v[DENSE_HELD], weight[DENSE_HELD];
    struct power_of_two power = {1, 1}, half = power;
    if (source == DENSE_NORM)
        FOR_PIECES(DENSE_HELD, j, i, dim) weight[j] = load_four(a->norm.weight + i);
    wait_for_producer();
    if (held)
        FOR_PIECES(DENSE_HELD, j, i, dim) v[j] =
            *(const f32x4 *)((source == DENSE_NORM ? a->norm.x : a->x) + i);
    if (source == DENSE_NORM) {
        UNROLL_8 for (int i = thread(); i < dim; i += THREADS) sum =
            fma32(a->norm.x[i], a->norm.x[i], sum);
        float f = rsqrt32(block_sum(sum, scratch) / (float)dim + a->norm.eps);
        FOR_PIECES(DENSE_HELD, j, i, dim) UNROLL for (int e = 0; e < 4; e++) v[j][e] =
            v[j][e] * f * weight[j][e];
    }
    if (kind != WEIGHT_BF16 || packs) {
        if (held) {
            FOR_PIECES(DENSE_HELD, j, i, dim) largest = largest_of(v[j], largest);
        } else {
            NO_UNROLL for (int i = 4 * thread(); i < dim; i += 4 * THREADS) largest =
                largest_of(dense_four(a, i), largest);
        }
        half = power_for(block_max(largest, scratch), 14);
        if (kind != WEIGHT_BF16) power = half;
    }
    if (held) {
        FOR_PIECES(DENSE_HELD, j, i, dim)
            dense_place_four(a, packed, i, v[j], power.factor, half.factor, source, kind);
    } else {
        NO_UNROLL for (int i = 4 * thread(); i < dim; i += 4 * THREADS)
            dense_pack_four(packed, i, dense_four(a, i), power.factor, kind);
    }
    if (packs) {
        for (int i = dim + thread(); i < a->stride; i += THREADS) ((f16 *)a->packed)[i] = (f16)0;
        if (thread() == 0) *a->scale = half.undo;
    }
    return power.undo;
}

/* The slots of a convolution's state; from -1: it begins with zeros. */
struct dense_slots {
    int from, to;
};

DEVICE struct dense_slots dense_slots_of(const struct conv_args *a)
{
    int seq = a->state.seq[0];
    return (struct dense_slots){a->state.from[seq], a->state.to[seq]};
}

DEVICE float *dense_slot(const struct conv_args *a, int slot)
{
    return (float *)a->state.slots + (u64)slot * a->state.slot_floats;
}

/* Brings the state and the weights for the block's tiles into the L2 cache, a tile a warp. */
DEVICE void dense_prefetch_channels(const struct dense_gemv_args *a,
                                    const struct dense_tiles *tiles, const struct dense_slots *s)
{
    int lane = thread() % WARP;
    NO_UNROLL for (int tile = tiles->first + thread() / WARP * tiles->step; tile < a->conv_tiles;
                   tile += WARPS * tiles->step)
    {
        if (lane < 3 && s->from >= 0)
            prefetch_line(dense_slot(&a->conv, s->from) + lane * a->conv.channels + tile * PANEL);
        if (lane >= 3 && lane < 5)
            prefetch_line(a->conv.weight + 4 * tile * PANEL + (lane - 3) * 32);
    }
}

/* The state of an output's channel, and its weights. */
struct dense_channel {
    f32x4 x, weight;
};

DEVICE struct dense_channel dense_channel_of(const struct conv_args *a, const struct dense_slots *s,
                                             int channel)
{
    struct dense_channel c;
    const float *old = dense_slot(a, s->from < 0 ? 0 : s->from) + channel;
    UNROLL for (int t = 0; t < 3; t++) c.x[t] = s->from < 0 ? 0 : old[t * a->channels];
    return c;
}

DEVICE f32x4 dense_conv_weight(const struct conv_args *a, int channel)
{
    return *(const f32x4 *)(a->weight + 4 * channel);
}

/* The operations of conv_begin() for a single row; x: its input */
DEVICE void dense_convolve(const struct conv_args *a, const struct dense_slots *s,
                           struct dense_channel *c, int channel, float x)
{
    float sum = c->weight[0] * c->x[0];
    c->x[3] = x;
    UNROLL for (int t = 1; t < 4; t++) sum = fma32(c->weight[t], c->x[t], sum);
    a->out[channel] = gated(sum, 1, 0);
    float *after = dense_slot(a, s->to) + channel;
    UNROLL for (int t = 0; t < 3; t++) after[t * a->channels] = c->x[t + 1];
}

/* Waits for all stages of the block's tile number `turn`, adds them in order and runs the epilogue.
 * convolved: the kernel includes convolutions; kernels of fp16 have no registers for them */
DEVICE void dense_finish_tile(const struct dense_gemv_args *a, const struct dense_shared *l,
                              const struct dense_slots *slots, int tile, u32 turn, float scale,
                              int n_items, const int kind, const int convolved)
{
    int lane = thread() % WARP, sub = lane / PANEL;
    u32 buffer = turn % DENSE_BUFFERS, parity = turn / DENSE_BUFFERS % 2;
    const float *source = l->sums + (int)buffer * a->together * n_items * PANEL +
                          lane % (a->together * PANEL);
    if (sub < a->together) source += sub * (n_items - 1) * PANEL;
    struct dense_part p = dense_part_of(a->part, a->n_parts, tile);
    int output = (tile - p.first) * PANEL + lane % PANEL, computes = output < p.out && lane < PANEL;
    const float *bias = a->together > 1 && sub ? a->part[1].bias : p.bias;
    int convolves = convolved && tile < a->conv_tiles && computes;
    struct dense_channel channel;
    if (convolves) {
        channel = dense_channel_of(&a->conv, slots, output);
        if (kind == WEIGHT_I8) channel.weight = dense_conv_weight(&a->conv, output);
    }
    float base = a->before && computes ? a->before[output] : 0;
    float y = a->add && computes ? p.y[output] : 0, gate = a->gate ? sigmoid32(a->gate[0]) : 1,
          sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL_8 for (int i = 0; i < n_items; i++) sum += source[i * PANEL];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (a->together > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (computes) p.y[output] = gated(sum, up, 0);
    } else if (convolves) {
        if (kind != WEIGHT_I8) channel.weight = dense_conv_weight(&a->conv, output); /* registers */
        dense_convolve(&a->conv, slots, &channel, output, sum);
    } else if (computes) {
        if (a->before) sum = fma32(sum, gate, base);
        p.y[output] = a->add ? y + sum : sum;
    }
    warp_barrier();
    if (lane == 0) mbarrier_arrive(l->full + 8 * (DENSE_BUFFERS + buffer));
}

/* Puts the sums of a group's stages into the buffer of tile number `turn`, after the tile before it
 * in that buffer has been read. ended: the group is the tile's last one */
DEVICE void dense_store(const struct dense_gemv_args *a, const struct dense_shared *l,
                        const struct dense_group *g, int n_stages, u32 turn, int ended, int n_items,
                        float part[DENSE_AHEAD][4])
{
    int lane = thread() % WARP, place = (int)(turn % DENSE_BUFFERS) * a->together + g->sub;
    u32 buffer = l->full + 8 * (turn % DENSE_BUFFERS);
    float *to = l->sums + (place * n_items + g->item) * PANEL + lane / 4;
    if (turn >= DENSE_BUFFERS)
        mbarrier_wait(buffer + 8 * DENSE_BUFFERS, (turn / DENSE_BUFFERS % 2) ^ 1);
    if (lane % 4 == 0) UNROLL for (int k = 0; k < DENSE_AHEAD; k++) if (k < n_stages)
        {
            to[k * WARPS * PANEL] = part[k][0];
            to[k * WARPS * PANEL + 8] = part[k][2];
        }
    warp_barrier();
    if (ended && lane == 0) mbarrier_arrive(buffer);
}

/* Brings the next n groups into the L2 cache. */
DEVICE void dense_prefetch_groups(const struct dense_gemv_args *a, const struct dense_tiles *tiles,
                                  struct dense_group g, int n_items, int n, const int kind)
{
    NO_UNROLL for (int i = 0; i < n; i++)
    {
        dense_prefetch(&g, dense_stages(tiles, &g, n_items), kind);
        dense_advance(a, tiles, &g, n_items, kind);
    }
}

/* convolved: the kernel includes convolutions */
DEVICE void dense_gemv(const struct dense_gemv_args *a, struct dense_tiles tiles, u32 *lds,
                       float *scratch, const enum dense_source source, const int kind,
                       const int convolved)
{
    const int parts = F16_PARTS(kind), at_once = kind == WEIGHT_I8 ? 2 : DENSE_AHEAD;
    int warp = thread() / WARP, lane = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS;
    struct dense_shared l;
    struct dense_slots slots = {0, 0};
    struct dense_group now = {0, tiles.first, 0, warp}, next;
    struct dense_weights w[DENSE_AHEAD];
    const u32x4 none = {0, 0, 0, 0};
    u32 turn = 0; /* number of tiles that have ended */
    l.packed = (u64 *)lds;
    l.sums = (float *)(l.packed + a->n_chunks * parts * 8);
    l.full = lds_address(l.sums + DENSE_BUFFERS * a->together * n_items * PANEL);
    if (thread() == 0) {
        for (u32 i = 0; i < DENSE_BUFFERS; i++) {
            mbarrier_init(l.full + 8 * i, WARPS);
            mbarrier_init(l.full + 8 * (DENSE_BUFFERS + i), 1);
        }
        mbarrier_init_done();
    }
    now.w = dense_place_of(a, &now, kind);
    UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
        w[k] = (struct dense_weights){{{none, none}, {none, none}}, 0};
    int n_stages = dense_stages(&tiles, &now, n_items);
    dense_load(&now, n_stages, w, 0, DENSE_AHEAD, kind);
    next = now;
    dense_advance(a, &tiles, &next, n_items, kind);
    if (kind != WEIGHT_F16) /* a kernel of fp16 has no registers for the prefetch */
        dense_prefetch_groups(a, &tiles, next, n_items, DENSE_PREFETCHED, kind);
    if (convolved && a->conv_tiles) {
        slots = dense_slots_of(&a->conv);
        dense_prefetch_channels(a, &tiles, &slots);
    }
    float scale = dense_pack(a, l.packed, scratch, source, kind);
    barrier();
    NO_UNROLL while (now.tile < tiles.end)
    {
        float part[DENSE_AHEAD][4];
        int follow = dense_stages(&tiles, &next, n_items), ended = next.tile != now.tile;
        UNROLL for (int k = 0; k < DENSE_AHEAD; k += at_once)
        {
            int from[DENSE_AHEAD];
            UNROLL for (int j = 0; j < at_once; j++) from[j] =
                k + j < n_stages ? (now.item + (k + j) * WARPS) * dense_of_stage(kind) : 0;
            dense_products(w + k, l.packed + lane % 4, from, part + k, at_once, 4, kind);
            dense_load(&next, follow, w, k, at_once, kind);
        }
        dense_store(a, &l, &now, n_stages, turn, ended, n_items, part);
        int finished = now.tile;
        now = next;
        n_stages = follow;
        dense_advance(a, &tiles, &next, n_items, kind);
        if (kind == WEIGHT_I8) /* other kinds keep memory busy by their loads alone */
            dense_prefetch(&next, dense_stages(&tiles, &next, n_items), kind);
        if (!ended) continue;
        if (turn % WARPS == (u32)warp)
            dense_finish_tile(a, &l, &slots, finished, turn, scale, n_items, kind, convolved);
        turn++;
    }
}

#define DENSE_GEMV(name, images, source, weights)                                                  \
    ON_##images(KERNEL(name, struct dense_gemv_args) {                                             \
        LDS(float, scratch, THREADS);                                                              \
        const struct dense_gemv_args *a = EARLY_ARGS;                                              \
        const struct dense_tiles tiles = {block_x(), grid_x(), a->n_tiles};                        \
        dense_gemv(a, tiles, dynamic_lds, scratch, source, weights,                                \
                   (source) == DENSE_NORM && (weights) != WEIGHT_F16);                             \
    })
/* Codes of 8 bits in the first blocks, other weights in the others. */
#define DENSE_GEMV_MIXED(name, images, source, weights)                                            \
    ON_##images(KERNEL(name, struct dense_gemv_args) {                                             \
        LDS(float, scratch, THREADS);                                                              \
        const struct dense_gemv_args *a = EARLY_ARGS;                                              \
        const struct dense_tiles eight = {block_x(), a->byte_blocks, a->byte_tiles},               \
                                 other = {a->byte_tiles + block_x() - a->byte_blocks,              \
                                          grid_x() - a->byte_blocks, a->n_tiles};                  \
        if (block_x() < a->byte_blocks)                                                            \
            dense_gemv(a, eight, dynamic_lds, scratch, source, WEIGHT_I8, 1);                      \
        else dense_gemv(a, other, dynamic_lds, scratch, source, weights, 0);                       \
    })
#include "backend-hip/kernels/hopper/list.h"
