/* exact_dense.hip: plain linears of many rows in the CPU's order, to the bit: 16 lanes of every
 * output and row, each its inputs in order, fused (common/exact_linear.hip).
 *   block     (row tile, output tile): 8 warps of 2 `tile` rows x 2 `tile` outputs; row_warps of
 *             them have rows of their own
 *   thread    `tile` rows x `tile` outputs of lanes 2i and 2i + 1; the 8 threads of such a tile
 *             fold their lanes at the end
 *   pipeline  stages of DENSE_SPAN inputs in shared memory, DENSE_STAGES - 1 ahead
 * Rows and outputs of the four tiles of a warp alternate, and strides are odd multiples of 64 and
 * 32 bytes, so that no two threads meet in a bank. */

/* The block's part of the launch. */
struct dense_block {
    int rows, outputs, panels, row0, first; /* first: the block's first panel among those of all
                                               parts */
    u32 piece, weights, bytes;              /* bytes of a stage: between pieces; before the weights;
                                               of all */
};

DEVICE struct dense_block dense_block_of(const struct exact_linear_args *a, const int tile)
{
    struct dense_block b;
    b.rows = 2 * tile * a->row_warps;
    b.outputs = 2 * tile * (WARPS / a->row_warps);
    b.panels = b.outputs / PANEL;
    b.row0 = block_x() * b.rows;
    b.first = block_y() * b.panels;
    b.piece = (u32)(b.outputs * 16 + 32);
    b.weights = (u32)(b.rows * DENSE_STRIDE * 4);
    b.bytes = b.weights + DENSE_SPAN / 8 * b.piece;
    return b;
}

/* What a thread copies of a stage: 4 inputs of every eighth row, 8 of every (of_panel / 16)th piece
 * of an output. */
struct dense_copies {
    const float *x;
    const u32x4 *weight;
    u32 to_x, to_weight; /* offsets in a stage */
    int column, row;     /* the first inputs that the thread copies; their row in the block */
    int piece, of_panel; /* the first piece that the thread copies; threads of a panel */
};

DEVICE struct dense_copies dense_copies_of(const struct exact_linear_args *a,
                                           const struct dense_block *b)
{
    struct dense_copies c;
    const int t = thread(), of_panel = THREADS / b->panels, index = t % of_panel,
              panel = b->first + t / of_panel;
    struct linear_part p = part_of(&a->linear, panel < a->linear.n_blocks ? panel : 0);
    int number = panel < a->linear.n_blocks ? panel - p.first : 0;
    c.row = t / (DENSE_SPAN / 4);
    c.column = t % (DENSE_SPAN / 4) * 4;
    c.x = (const float *)a->linear.x + (u64)(b->row0 + c.row) * (u64)a->groups.n + c.column;
    c.to_x = (u32)(c.row * DENSE_STRIDE + c.column) * 4;
    c.of_panel = of_panel;
    c.piece = index / PANEL;
    c.weight = (const u32x4 *)p.weight +
               (u64)number * (u64)(a->linear.n_chunks * (CHUNK / 8) * PANEL) + index;
    c.to_weight = b->weights + (u32)c.piece * b->piece +
                  (u32)(t / of_panel * PANEL + index % PANEL) * 16;
    return c;
}

/* Copies inputs j0 .. of the block's rows and weights to a stage, zeros where there are none. */
DEVICE void dense_stage(const struct exact_linear_args *a, const struct dense_block *b,
                        const struct dense_copies *c, u32 stage, int j0)
{
    enum { EVERY = THREADS / (DENSE_SPAN / 4) }; /* rows between those that a thread copies */
    const struct linear_args *l = &a->linear;
    int in = a->groups.n, left = l->rows - b->row0 - c->row;
    u32 to = lds_address(dynamic_lds) + stage;
    for (int k = 0; k < b->rows - c->row; k += EVERY) {
        int valid = k < left && j0 + c->column < in;
        u32 place = to + c->to_x + (u32)(k * DENSE_STRIDE * 4);
        const float *from = valid ? c->x + j0 + (u64)k * (u64)in : (const float *)l->x;
        if (in % 4 == 0) {
            copy_16_or_zeros(place, from, valid);
            continue;
        }
        NO_UNROLL for (int i = 0; i < 4; i++)
        {
            if (valid && j0 + c->column + i < in) copy_4(place + 4 * (u32)i, from + i);
            else dynamic_lds[(place - to + stage) / 4 + (u32)i] = 0;
        }
    }
    int pieces = l->n_chunks * (CHUNK / 8) - j0 / 8, every = c->of_panel / PANEL;
    const u32x4 *from = c->weight + j0 / 8 * PANEL;
    u32 place = to + c->to_weight;
    for (int k = c->piece; k < DENSE_SPAN / 8; k += every) {
        copy_16_or_zeros(place, k < pieces ? from : c->weight, k < pieces);
        from += c->of_panel;
        place += (u32)every * b->piece;
    }
}

/* Adds the products of 16 inputs. x: of the thread's first row; w: of its first output */
DEVICE void dense_step(const float *x, const u8 *w, float sum[][2], const int tile, const int kind)
{
    float v[8][2];
    UNROLL for (int m = 0; m < tile; m++)
    {
        u64 both = *(const u64 *)(x + 2 * m * DENSE_STRIDE);
        v[m][0] = f32_of((u32)both);
        v[m][1] = f32_of((u32)(both >> 32));
    }
    UNROLL for (int k = 0; k < tile; k++)
    {
        u32 q = *(const u32 *)(w + 32 * k);
        float low = kind == WEIGHT_BF16 ? f32_of_bf16(q & 0xffffu) : (float)half_of(q & 0xffffu),
              high = kind == WEIGHT_BF16 ? f32_of_bf16(q >> 16) : (float)half_of(q >> 16);
        UNROLL for (int m = 0; m < tile; m++)
        {
            float *s = sum[m * tile + k];
            s[0] = fma32(low, v[m][0], s[0]);
            s[1] = fma32(high, v[m][1], s[1]);
        }
    }
}

/* Folds the lanes of a tile's 8 threads: each thread keeps the half of the sums that the other one
 * gives up. In the end thread i has elements i n .. i n + n - 1, n = tile * tile / 8. */
DEVICE void dense_fold(float sum[][2], const int tile)
{
    int i = thread() % 8;
    UNROLL for (int bit = 4, n = tile * tile / 2; bit; bit /= 2, n /= 2)
    {
        UNROLL for (int e = 0; e < n; e++) UNROLL for (int c = 0; c < 2; c++)
        {
            float own = i & bit ? sum[n + e][c] : sum[e][c],
                  other = i & bit ? sum[e][c] : sum[n + e][c];
            sum[e][c] = own + f32_of(shuffle_xor(bits_of(other), bit));
        }
    }
}

DEVICE void exact_dense_tile(const struct exact_linear_args *a, const int tile, const int kind)
{
    const struct dense_block b = dense_block_of(a, tile);
    int t = thread(), i = t % 8, warp = warp_number(), in = a->groups.n,
        row = warp % a->row_warps * 2 * tile + t / 8 % 2,
        output = warp / a->row_warps * 2 * tile + t / 16 % 2,
        panel = b.first + output / PANEL, exists = panel < a->linear.n_blocks;
    const struct linear_part p = part_of(&a->linear, exists ? panel : 0);
    const struct dense_copies c = dense_copies_of(a, &b);
    float sum[64][2];
    UNROLL for (int e = 0; e < tile * tile; e++) sum[e][0] = sum[e][1] = 0;
    UNROLL for (int s = 0; s < DENSE_STAGES - 1; s++)
    {
        if (s * DENSE_SPAN < in) dense_stage(a, &b, &c, (u32)s * b.bytes, s * DENSE_SPAN);
        copies_commit();
    }
    u32 stage = 0;
    NO_UNROLL for (int j0 = 0; j0 < in; j0 += DENSE_SPAN)
    {
        COPIES_WAIT(DENSE_STAGES - 2);
        barrier();
        int next = j0 + (DENSE_STAGES - 1) * DENSE_SPAN;
        if (next < in)
            dense_stage(a, &b, &c, (stage ? stage - 1 : DENSE_STAGES - 1) * b.bytes, next);
        copies_commit();
        const u8 *lds = (const u8 *)dynamic_lds + stage * b.bytes;
        const float *x = (const float *)lds + row * DENSE_STRIDE + 2 * i;
        const u8 *w = lds + b.weights + (u32)(i / 4) * b.piece + (u32)(output * 16 + i % 4 * 4);
        UNROLL_4 for (int j = 0; j < DENSE_SPAN / 16; j++)
            dense_step(x + 16 * j, w + (u32)(2 * j) * b.piece, sum, tile, kind);
        stage = stage == DENSE_STAGES - 1 ? 0 : stage + 1;
    }
    dense_fold(sum, tile);
    UNROLL for (int e = 0; e < tile * tile / 8; e++)
    {
        int index = i * (tile * tile / 8) + e, y_row = b.row0 + row + index / tile * 2,
            y = (panel - p.first) * PANEL + output % PANEL + index % tile * 2;
        float v = sum[e][0] + sum[e][1];
        if (exists && y_row < a->linear.rows && y < p.out)
            p.y[(u64)y_row * (u64)p.out + (u64)y] = p.bias ? v + p.bias[y] : v;
    }
}

#define EXACT_DENSE_TILE(name, images, kind, tile, blocks)                                         \
    ON_##images(KERNEL(name, struct exact_linear_args) { exact_dense_tile(ARGS, tile, kind); })
#include "backend-hip/kernels/nvidia/list.h"
