/* dense_gemv.hip: fp16 and bf16 linears of one row on sm_90a with fused prologue and epilogue.
 *   fusion    prologue: a norm, or the row as it is, into shared memory in split precision;
 *             epilogue: y, y += (residual stream), or SwiGLU of two parts
 *   grid      persistent: 2 blocks of 256 threads a multiprocessor; they take output tiles of one
 *             panel (16 outputs) in turn, with SwiGLU the same panel of both parts
 *   warp      split-K in the block: warp w has the stages of 64 inputs w, w + 8, ..
 *   pipeline  the weights of DENSE_AHEAD stages are in registers, across tiles; the first ones are
 *             loaded before the producer launch has ended (programmatic dependent launch)
 *   products  mma with the row as the first of 16; a warp leaves the sums of every stage in one of
 *             DENSE_BUFFERS buffers guarded by mbarriers, and one warp in turn adds the stages
 * Bits: the order of sums is that of nvidia/linear_plain_mma.hip, norms are those of norm_rows, the
 * packed rows those of prepare_row(). */
enum { DENSE_AHEAD = 4, DENSE_BUFFERS = 2 };
enum dense_source { DENSE_NORM, DENSE_ROW };
/* Elements of a row that a thread has: number t, t + THREADS, .. */
#define DENSE_SINGLES(source)                                                                      \
    (((source) == DENSE_NORM ? NORM_PARTS_INPUTS : DENSE_GEMV_INPUTS) / THREADS)
#define FOR_SINGLES(n, j, i, dim)                                                                  \
    UNROLL for (int j = 0, i = thread(); j < (n); j++, i += THREADS) if (i < (dim))

/* Shared memory of a block, in order: the row in parts, [chunk][part][h][4 lanes][2 words]; sums
 * [DENSE_BUFFERS][parts of a tile][stages][PANEL]; mbarriers [2][DENSE_BUFFERS]. */
struct dense_shared {
    u32 *packed;
    float *sums;
    u32 full, empty; /* addresses of the mbarriers of each buffer */
};

/* A warp's place in its sequence of stages: of a tile's parts in turn, then of the next tile. */
struct dense_walk {
    int tile, sub, item;
};

/* Goes to the next stage. 1: the stage was the last one of its tile. */
DEVICE int dense_advance(const struct dense_gemv_args *a, struct dense_walk *at, int n_items)
{
    at->item += WARPS;
    if (at->item < n_items) return 0;
    at->item = thread() / WARP;
    if (++at->sub < a->together) return 0;
    at->sub = 0;
    at->tile += grid_x();
    return 1;
}

DEVICE struct dense_part dense_part_of(const struct dense_gemv_args *a, int tile)
{
    struct dense_part p = a->part[0];
    UNROLL for (int i = 1; i < DENSE_PARTS; i++) if (i < a->n_parts && tile >= a->part[i].first)
        p = a->part[i];
    return p;
}

/* The weights of a lane at a stage; beyond the last tile zeros, which nobody reads. */
DEVICE struct few_weights dense_load(const struct dense_gemv_args *a, const struct dense_walk *at)
{
    if (at->tile >= a->n_tiles) return few_load(0, (const char *)0, 0);
    struct dense_part p = dense_part_of(a, at->tile);
    int panel = at->tile - p.first;
    const char *w = (const char *)(at->sub ? a->part[1].weight : p.weight);
    return few_load(a->n_chunks, w + (u64)panel * (u64)a->n_chunks * (2 * DENSE_PIECE), at->item);
}

/* Waits for the row and loads it. */
DEVICE void dense_row(const struct dense_gemv_args *a, float *v, float *scratch,
                      const enum dense_source source)
{
    const int singles = DENSE_SINGLES(source);
    const struct norm_args *n = &a->norm;
    int dim = a->n_chunks * CHUNK;
    float sum = 0, w[NORM_PARTS_INPUTS / THREADS];
    if (source == DENSE_NORM) FOR_SINGLES(singles, j, i, dim) w[j] = n->weight[i];
    wait_for_producer();
    const float *x = source == DENSE_NORM ? n->x : a->x;
    FOR_SINGLES(singles, j, i, dim) v[j] = x[i];
    if (source == DENSE_ROW) return;
    FOR_SINGLES(singles, j, i, dim) sum = fma32(v[j], v[j], sum);
    float f = rsqrt32(block_sum(sum, scratch) / (float)dim + n->eps);
    FOR_SINGLES(singles, j, i, dim)
    {
        v[j] = v[j] * f * w[j];
        if (block_x() == 0 && n->out) n->out[i] = v[j];
    }
}

/* Stores the row in parts, and the experts' input if there is one. Returns what the sums are
 * multiplied by. */
DEVICE float dense_pack(const struct dense_gemv_args *a, u32 *packed, const float *v,
                        float *scratch, const int singles, const int kind)
{
    const int parts = kind == WEIGHT_BF16 ? 3 : 2;
    int dim = a->n_chunks * CHUNK;
    float largest = 0;
    struct power_of_two power = {1, 1}, half = power;
    if (kind == WEIGHT_F16 || a->packed) {
        FOR_SINGLES(singles, j, i, dim) largest = max32(abs32(v[j]), largest);
        half = power_for(block_max(largest, scratch), 14);
        if (kind == WEIGHT_F16) power = half;
    }
    FOR_SINGLES(singles, j, i, dim)
    {
        u32 part[3];
        int to = (i / CHUNK * parts * 2 + i / 4 % 2) * 8 + i % CHUNK / 8 * 2 + i % 4 / 2;
        split_two(v[j] * power.factor, 0, part, kind);
        UNROLL for (int q = 0; q < parts; q++)
            ((unsigned short *)packed)[2 * (to + q * 16) + i % 2] = (unsigned short)part[q];
    }
    if (block_x() == 0 && a->packed) {
        FOR_SINGLES(singles, j, i, a->stride)
            ((f16 *)a->packed)[i] = i < dim ? (f16)(v[j] * half.factor) : (f16)0;
        if (thread() == 0) *a->scale = half.undo;
    }
    return power.undo;
}

/* Waits until the buffer of tile number `turn` of this block has been read. */
DEVICE void dense_wait_buffer(const struct dense_shared *l, u32 turn)
{
    if (turn >= DENSE_BUFFERS)
        mbarrier_wait(l->empty + 8 * (turn % DENSE_BUFFERS), (turn / DENSE_BUFFERS % 2) ^ 1);
}

/* The warp in turn waits for all stages of the tile, adds them in order and runs the epilogue. The
 * other warps continue. */
DEVICE void dense_finish_tile(const struct dense_gemv_args *a, const struct dense_shared *l,
                              int tile, u32 turn, float scale, int n_items)
{
    int lane = thread() % WARP, sub = lane / PANEL;
    u32 buffer = turn % DENSE_BUFFERS, parity = turn / DENSE_BUFFERS % 2;
    const float *of =
        l->sums + (int)buffer * a->together * n_items * PANEL + lane % (a->together * PANEL);
    if (sub < a->together) of += sub * (n_items - 1) * PANEL;
    warp_barrier();
    mbarrier_arrive(l->full + 8 * buffer);
    if ((u32)(thread() / WARP) != turn % WARPS) return;
    struct dense_part p = dense_part_of(a, tile);
    int output = (tile - p.first) * PANEL + lane % PANEL, there = output < p.out && lane < PANEL;
    const float *bias = a->together > 1 && sub ? a->part[1].bias : p.bias;
    float base = a->before && there ? a->before[output] : 0;
    float y = a->add && there ? p.y[output] : 0, gate = a->gate ? sigmoid32(a->gate[0]) : 1, sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL_8 for (int i = 0; i < n_items; i++) sum += of[i * PANEL];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (a->together > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (there) p.y[output] = gated(sum, up, 0);
    } else if (there) {
        if (a->before) sum = fma32(sum, gate, base);
        p.y[output] = a->add ? y + sum : sum;
    }
    warp_barrier();
    mbarrier_arrive(l->empty + 8 * buffer);
}

DEVICE void dense_gemv(const struct dense_gemv_args *a, u32 *lds, float *scratch,
                       const enum dense_source source, const int kind)
{
    const int parts = kind == WEIGHT_BF16 ? 3 : 2;
    int warp = thread() / WARP, t = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS;
    struct dense_shared l;
    struct dense_walk load = {block_x(), 0, warp}, at = load;
    struct few_weights early[DENSE_AHEAD];
    float v[DENSE_GEMV_INPUTS / THREADS];
    u32 turn = 0;
    l.packed = lds;
    l.sums = (float *)(lds + a->n_chunks * parts * 16);
    l.full = lds_address(l.sums + DENSE_BUFFERS * a->together * n_items * PANEL);
    l.empty = l.full + 8 * DENSE_BUFFERS;
    if (thread() == 0) {
        for (u32 i = 0; i < DENSE_BUFFERS; i++) {
            mbarrier_init(l.full + 8 * i, WARPS * WARP);
            mbarrier_init(l.empty + 8 * i, WARP);
        }
        mbarrier_init_done();
    }
    UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
    {
        early[k] = dense_load(a, &load);
        dense_advance(a, &load, n_items);
    }
    dense_row(a, v, scratch, source);
    float scale = dense_pack(a, l.packed, v, scratch, DENSE_SINGLES(source), kind);
    barrier();
    for (; warp >= n_items && at.tile < a->n_tiles; at.tile += grid_x()) { /* it has no stages */
        dense_wait_buffer(&l, turn);
        dense_finish_tile(a, &l, at.tile, turn++, scale, n_items);
    }
    while (at.tile < a->n_tiles) {
        UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
        {
            float part[2][4];
            u32 buffer = turn % DENSE_BUFFERS;
            float *to = l.sums +
                        (((int)buffer * a->together + at.sub) * n_items + at.item) * PANEL;
            int tile = at.tile;
            if (tile >= a->n_tiles) continue;
            if (at.sub == 0 && at.item == warp) dense_wait_buffer(&l, turn);
            few_stage(a->n_chunks, &early[k], l.packed, at.item, part, kind, 1);
            early[k] = dense_load(a, &load);
            dense_advance(a, &load, n_items);
            if (t < 4) UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 2; i++)
                to[8 * j + 2 * t + i] = part[j][i];
            if (dense_advance(a, &at, n_items))
                dense_finish_tile(a, &l, tile, turn++, scale, n_items);
        }
    }
}

#define DENSE_GEMV(name, images, source, weights)                                                  \
    ON_##images(KERNEL(name, struct dense_gemv_args) {                                             \
        LDS(float, scratch, THREADS);                                                              \
        dense_gemv(EARLY_ARGS, dynamic_lds, scratch, source, weights);                             \
    })
#include "backend-hip/kernels/kernel_list.h"
