/* dense_gemv.hip: fp16, bf16 and 8-bit linears of one row on sm_90a with fused prologue and
 * epilogue.
 *   fusion    prologue: a norm, SwiGLU, or the row as it is, into shared memory in split
 *             precision; epilogue: y, y += (residual stream), or SwiGLU of two parts
 *   grid      persistent: 2 blocks of 256 threads a multiprocessor; they take output tiles of one
 *             panel (16 outputs) in turn, with SwiGLU the same panel of both parts
 *   warp      split-K in the block: warp w has the stages of 64 inputs w, w + 8, ..
 *   pipeline  the weights of DENSE_AHEAD stages are in registers, across tiles; the first ones are
 *             loaded before the producer launch has ended (programmatic dependent launch), those of
 *             DENSE_PREFETCHED more come into the L2 cache then, but of fp16
 *   products  mma with the row in all 8 columns; a warp leaves the sums of every stage in one of
 *             several buffers guarded by mbarriers, and one warp in turn adds the stages
 * Bits: the order of sums is that of nvidia/linear_plain_mma.hip, norms are those of norm_rows, the
 * packed rows those of prepare_row(). */
enum { DENSE_AHEAD = 4, DENSE_PREFETCHED = 8 };
enum dense_source { DENSE_NORM, DENSE_ROW };

/* Shared memory of a block, in order: the row in parts as operand b of mma, [chunk][part][h][4
 * lanes][2 words]; sums [buffers][parts of a tile][stages][PANEL]; mbarriers [2][buffers]. */
struct dense_shared {
    u64 *packed;
    float *sums;
    u32 buffers;
    u32 full; /* address of the mbarriers of each buffer: full, then empty */
};

/* The weights of a stage that a lane has: outputs r and r + 8, 8 inputs of two chunks. Codes of 8
 * bits are in q[0] alone. */
struct dense_weights {
    u32x4 q[SUM_CHUNKS][2];
    u64 scales;
};

/* Output tiles first, first + step, .. < end of a block. */
struct dense_tiles {
    int first, step, end;
};

/* A warp's place in its sequence of stages: of a tile's parts in turn, then of the next tile. */
struct dense_walk {
    int tile, sub, item;
};

DEVICE struct dense_part dense_part_of(const struct dense_gemv_args *a, int tile)
{
    struct dense_part p = a->part[0];
    UNROLL for (int i = 1; i < DENSE_PARTS; i++) if (i < a->n_parts && tile >= a->part[i].first)
        p = a->part[i];
    return p;
}

/* Goes to the next stage. 1: the stage was the last one of its tile. */
DEVICE int dense_advance(const struct dense_gemv_args *a, const struct dense_tiles *of,
                         struct dense_walk *at, int n_items)
{
    at->item += WARPS;
    if (at->item < n_items) return 0;
    at->item = thread() / WARP;
    if (++at->sub < a->together) return 0;
    at->sub = 0;
    at->tile += of->step;
    return 1;
}

/* Where a lane's weights of a stage are. */
DEVICE const char *dense_place_of(const struct dense_gemv_args *a, const struct dense_walk *at,
                                  int item, const int kind)
{
    const int of_stage = dense_stage_bytes(kind);
    struct dense_part p = dense_part_of(a, at->tile);
    const char *first = (const char *)(at->sub ? a->part[1].weight : p.weight);
    return first +
           ((u64)(at->tile - p.first) * (u64)(a->n_chunks / SUM_CHUNKS) + (u64)item) * of_stage +
           dense_lane(kind);
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

/* Loads the stage at *w and goes on to the next one. Beyond the last tile *w stays where it is:
 * nobody reads what is loaded. */
DEVICE struct dense_weights dense_load(const struct dense_gemv_args *a,
                                       const struct dense_tiles *of, struct dense_walk *at,
                                       const char **w, int n_items, const int kind)
{
    struct dense_weights v = dense_read(*w, kind);
    int item = at->item, sub = at->sub, ended = dense_advance(a, of, at, n_items);
    if (at->tile >= of->end) return v;
    if (!ended && sub == at->sub) *w += (at->item - item) * dense_stage_bytes(kind);
    else *w = dense_place_of(a, at, at->item, kind);
    return v;
}

/* Brings the weights of a warp's stages from `at` on into the L2 cache. */
DEVICE void dense_prefetch(const struct dense_gemv_args *a, const struct dense_tiles *of,
                           struct dense_walk at, int n_items, const int kind)
{
    int lane = thread() % WARP;
    NO_UNROLL for (int k = 0; k < DENSE_PREFETCHED && at.tile < of->end; k++)
    {
        const char *w = dense_place_of(a, &at, at.item, kind) - dense_lane(kind);
        if (lane * 128 < dense_stage_bytes(kind)) prefetch_line(w + lane * 128);
        dense_advance(a, of, &at, n_items);
    }
}

/* 64-bit words of the packed row for a stage. */
DEVICE int dense_of_stage(const int kind) { return SUM_CHUNKS * F16_PARTS(kind) * 2 * 4; }

/* The products of n stages, in turn: those of one stage depend on each other. x: the packed row, of
 * this lane; from[n]: where their inputs begin; part[n][0 and 2]: outputs r and r + 8 */
DEVICE void dense_products(const struct dense_weights *w, const u64 *x, const int *from,
                           float part[][4], const int n, const int kind)
{
    const int parts = F16_PARTS(kind);
    float eight[SUM_CHUNKS][DENSE_AHEAD][4];
    UNROLL for (int k = 0; k < n; k++) UNROLL for (int i = 0; i < 4; i++)
        eight[0][k][i] = eight[1][k][i] = part[k][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < parts; s++)
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int k = 0; k < n; k++)
    {
        u64 v = x[from[k] + ((c * parts + s) * 2 + h) * 4];
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
        UNROLL for (int k = 0; k < n; k++) UNROLL for (int j = 0; j < 2; j++)
            part[k][2 * j] = scaled_bytes((u32)(w[k].scales >> (32 * j)), eight[0][k][2 * j],
                                          eight[1][k][2 * j]);
}

/* The products of the stages from `at` on. */
DEVICE void dense_stages(const struct dense_gemv_args *a, const struct dense_tiles *of,
                         const struct dense_weights *w, const u64 *x, struct dense_walk at,
                         int n_items, float part[DENSE_AHEAD][4], const int kind)
{
    int from[DENSE_AHEAD];
    UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
    {
        from[k] = at.item < n_items ? at.item * dense_of_stage(kind) : 0;
        dense_advance(a, of, &at, n_items);
    }
    dense_products(w, x, from, part, DENSE_AHEAD, kind);
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

/* Elements i .. i + 3 of the row; f: the norm's factor */
DEVICE f32x4 dense_four(const struct dense_gemv_args *a, float f, int i,
                        const enum dense_source source)
{
    f32x4 v = *(const f32x4 *)((source == DENSE_NORM ? a->norm.x : a->x) + i), other;
    if (source == DENSE_NORM) {
        other = *(const f32x4 *)(a->norm.weight + i);
        UNROLL for (int e = 0; e < 4; e++) v[e] = v[e] * f * other[e];
    } else if (a->up) {
        other = *(const f32x4 *)(a->up + i);
        UNROLL for (int e = 0; e < 4; e++) v[e] = gated(v[e], other[e], 0);
    }
    return v;
}

/* Waits for the row and stores it in parts, and the experts' input if there is one. Returns what
 * the sums are multiplied by. Loops stay loops, because a launch reads its instructions from afar.
 * The norm's sum is that of norm_rows: thread t has elements t, t + THREADS, .. */
DEVICE float dense_pack(const struct dense_gemv_args *a, u64 *packed, float *scratch,
                        const enum dense_source source, const int kind)
{
    int dim = a->n_chunks * CHUNK, packs = block_x() == 0 && a->packed,
        writes = block_x() == 0 && source == DENSE_NORM && a->norm.out;
    float f = 1, sum = 0, largest = 0;
    struct power_of_two power = {1, 1}, half = power;
    if (source == DENSE_NORM) prefetch_lines(a->norm.weight, dim * 4);
    wait_for_producer();
    if (source == DENSE_NORM) {
        UNROLL_8 for (int i = thread(); i < dim; i += THREADS) sum =
            fma32(a->norm.x[i], a->norm.x[i], sum);
        f = rsqrt32(block_sum(sum, scratch) / (float)dim + a->norm.eps);
    }
    if (kind != WEIGHT_BF16 || packs) {
        NO_UNROLL for (int i = 4 * thread(); i < dim; i += 4 * THREADS) largest =
            largest_of(dense_four(a, f, i, source), largest);
        half = power_for(block_max(largest, scratch), 14);
        if (kind != WEIGHT_BF16) power = half;
    }
    NO_UNROLL for (int i = 4 * thread(); i < dim; i += 4 * THREADS)
    {
        f32x4 v = dense_four(a, f, i, source);
        dense_pack_four(packed, i, v, power.factor, kind);
        if (writes) *(f32x4 *)(a->norm.out + i) = v;
        if (packs)
            UNROLL for (int e = 0; e < 4; e++) ((f16 *)a->packed)[i + e] =
                (f16)(v[e] * half.factor);
    }
    if (packs) {
        for (int i = dim + thread(); i < a->stride; i += THREADS) ((f16 *)a->packed)[i] = (f16)0;
        if (thread() == 0) *a->scale = half.undo;
    }
    return power.undo;
}

/* Buffers for the sums of tiles: those that the stages in registers may end, and two that are being
 * filled and read. */
DEVICE u32 dense_buffers(const struct dense_gemv_args *a, int n_items)
{
    int of_tile = (n_items + WARPS - 1) / WARPS * a->together;
    return (u32)(2 + (DENSE_AHEAD + of_tile - 1) / of_tile);
}

/* The state of a convolution of an output's channel, and the last input. */
struct dense_channel {
    f32x4 x;
};

DEVICE struct dense_channel dense_channel_of(const struct conv_args *a, int channel)
{
    struct dense_channel c;
    int from = a->state.from[a->state.seq[0]];
    const float *old = (const float *)a->state.slots + (u64)from * a->state.slot_floats + channel;
    UNROLL for (int t = 0; t < 3; t++) c.x[t] = from < 0 ? 0 : old[t * a->channels];
    return c;
}

/* The operations of conv_begin() for a single row. */
DEVICE void dense_convolve(const struct conv_args *a, struct dense_channel *c, int channel,
                           float x)
{
    f32x4 weight = *(const f32x4 *)(a->weight + 4 * channel);
    float sum = weight[0] * c->x[0], *after = (float *)a->state.slots + channel +
                                           (u64)a->state.to[a->state.seq[0]] * a->state.slot_floats;
    c->x[3] = x;
    UNROLL for (int t = 1; t < 4; t++) sum = fma32(weight[t], c->x[t], sum);
    a->out[channel] = gated(sum, 1, 0);
    UNROLL for (int t = 0; t < 3; t++) after[t * a->channels] = c->x[t + 1];
}

/* Waits for all stages of tile number `turn` of this block, adds them in order and runs the
 * epilogue. convolved: the kernel includes convolutions; those of fp16 have no registers for it */
DEVICE void dense_finish_tile(const struct dense_gemv_args *a, const struct dense_shared *l,
                              int tile, u32 turn, float scale, int n_items,
                              const int convolved)
{
    int lane = thread() % WARP, sub = lane / PANEL;
    u32 buffer = turn % l->buffers, parity = turn / l->buffers % 2;
    const float *of =
        l->sums + (int)buffer * a->together * n_items * PANEL + lane % (a->together * PANEL);
    if (sub < a->together) of += sub * (n_items - 1) * PANEL;
    struct dense_part p = dense_part_of(a, tile);
    int output = (tile - p.first) * PANEL + lane % PANEL, there = output < p.out && lane < PANEL;
    const float *bias = a->together > 1 && sub ? a->part[1].bias : p.bias;
    int convolves = convolved && tile < a->conv_tiles && there;
    struct dense_channel channel;
    if (convolves) channel = dense_channel_of(&a->conv, output);
    float base = a->before && there ? a->before[output] : 0;
    float y = a->add && there ? p.y[output] : 0, gate = a->gate ? sigmoid32(a->gate[0]) : 1,
          sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL_8 for (int i = 0; i < n_items; i++) sum += of[i * PANEL];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (a->together > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (there) p.y[output] = gated(sum, up, 0);
    } else if (convolves) {
        dense_convolve(&a->conv, &channel, output, sum);
    } else if (there) {
        if (a->before) sum = fma32(sum, gate, base);
        p.y[output] = a->add ? y + sum : sum;
    }
    warp_barrier();
    mbarrier_arrive(l->full + 8 * (l->buffers + buffer));
}

/* Waits until the buffer of tile number `turn` has been read. */
DEVICE void dense_wait_buffer(const struct dense_shared *l, u32 turn)
{
    u32 buffer = turn % l->buffers;
    if (turn >= l->buffers)
        mbarrier_wait(l->full + 8 * (l->buffers + buffer), (turn / l->buffers % 2) ^ 1);
}

/* Leaves tile number `turn` to the warp whose turn it is. */
DEVICE void dense_end_tile(const struct dense_shared *l, u32 turn)
{
    warp_barrier();
    mbarrier_arrive(l->full + 8 * (turn % l->buffers));
}

DEVICE void dense_gemv(const struct dense_gemv_args *a, struct dense_tiles of, u32 *lds,
                       float *scratch, const enum dense_source source, const int kind)
{
    const int parts = F16_PARTS(kind);
    int warp = thread() / WARP, t = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS;
    struct dense_shared l;
    struct dense_walk load = {of.first, 0, warp}, at = load;
    struct dense_weights early[DENSE_AHEAD];
    const char *w = dense_place_of(a, &load, warp < n_items ? warp : 0, kind);
    if (warp >= n_items) load.tile = of.end; /* it has no stages */
    u32 turn = 0; /* tiles that have ended */
    l.buffers = dense_buffers(a, n_items);
    l.packed = (u64 *)lds;
    l.sums = (float *)(l.packed + a->n_chunks * parts * 8);
    l.full = lds_address(l.sums + (int)l.buffers * a->together * n_items * PANEL);
    if (thread() == 0) {
        for (u32 i = 0; i < l.buffers; i++) {
            mbarrier_init(l.full + 8 * i, WARPS * WARP);
            mbarrier_init(l.full + 8 * (l.buffers + i), WARP);
        }
        mbarrier_init_done();
    }
    UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
        early[k] = dense_load(a, &of, &load, &w, n_items, kind);
    if (kind != WEIGHT_F16) /* it has no registers for that */
        dense_prefetch(a, &of, load, n_items, kind);
    float scale = dense_pack(a, l.packed, scratch, source, kind);
    barrier();
    while (of.first + (int)turn * of.step < of.end) {
        float part[DENSE_AHEAD][4];
        u32 finished = turn;
        if (warp < n_items) {
            dense_stages(a, &of, early, l.packed + t % 4, at, n_items, part, kind);
            UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
                early[k] = dense_load(a, &of, &load, &w, n_items, kind);
            UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
            {
                int place = (int)(turn % l.buffers) * a->together + at.sub;
                float *to = l.sums + (place * n_items + at.item) * PANEL + t / 4;
                if (at.tile >= of.end) continue;
                if (at.sub == 0 && at.item == warp) dense_wait_buffer(&l, turn);
                if (t % 4 == 0) to[0] = part[k][0], to[8] = part[k][2];
                if (dense_advance(a, &of, &at, n_items)) dense_end_tile(&l, turn++);
            }
        } else { /* it has no stages */
            dense_wait_buffer(&l, turn);
            dense_end_tile(&l, turn++);
        }
        for (; finished < turn; finished++)
            if (finished % WARPS == (u32)warp)
                dense_finish_tile(a, &l, of.first + (int)finished * of.step, finished, scale,
                                  n_items, source == DENSE_NORM && kind != WEIGHT_F16);
    }
}

#define DENSE_GEMV(name, images, source, weights)                                                  \
    ON_##images(KERNEL(name, struct dense_gemv_args) {                                             \
        LDS(float, scratch, THREADS);                                                              \
        const struct dense_gemv_args *a = EARLY_ARGS;                                              \
        const struct dense_tiles of = {block_x(), grid_x(), a->n_tiles};                           \
        dense_gemv(a, of, dynamic_lds, scratch, source, weights);                                  \
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
            dense_gemv(a, eight, dynamic_lds, scratch, source, WEIGHT_I8);                         \
        else dense_gemv(a, other, dynamic_lds, scratch, source, weights);                          \
    })
#include "backend-hip/kernels/kernel_list.h"
