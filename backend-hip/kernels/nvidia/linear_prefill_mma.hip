/* linear_prefill_mma.hip: 4-bit GEMM of prompt rows by mma on sm_80. A block of 256 threads
 * computes a tile of 128 outputs x 128 rows, a warp 32 x 64 of it. A pipeline of three stages by
 * cp.async brings activations, a pair of chunks (64 inputs) each, to shared memory; codes go from
 * global memory to the registers of the two warps that share them, one pair ahead. Bits: the
 * products of a chunk are summed, then scaled and added, so the order depends on the number of
 * inputs alone. */

/* sizes in units of 16 bytes */
enum { MMA_ROWS = 128, MMA_OUTPUTS = 128, MMA_STAGES = 3, MMA_STAGE = MMA_ROWS * 8 };

/* Position of 16 bytes number i of a row of a pair of chunks, swizzled against bank conflicts. */
DEVICE int mma_place(int row, int i) { return row * 8 + (i ^ (row % 2 * 4)); }

DEVICE void mma_stage(const struct linear_args *a, u32x4 *to, int row0, int pair)
{
    int n_pairs = a->n_chunks / 2;
    UNROLL for (int i = 0; i < MMA_STAGE / THREADS; i++)
    {
        int index = thread() + i * THREADS, row = index / 8,
            from = row0 + row < a->rows ? row0 + row : a->rows - 1;
        copy_16(lds_address(to + mma_place(row, index % 8)),
                (const u32x4 *)a->x + ((u64)from * (u64)n_pairs + (u64)pair) * 8 +
                    (u64)(index % 8));
    }
}

/* The codes and scales that a lane has of two panels and a pair of chunks. */
struct mma_weights {
    u32x4 q[2];
    u32 meta[2][4]; /* 16-bit scales; fp32 scales are loaded at their use */
};

DEVICE struct mma_weights mma_fetch(const struct linear_args *a, const struct linear_part *p,
                                    int panel0, int pair)
{
    struct mma_weights w;
    int lane = thread() % WARP, last = (p->out - 1) / PANEL;
    UNROLL for (int k = 0; k < 2; k++)
    {
        int panel = panel0 + k < last ? panel0 + k : last;
        w.q[k] =
            ((const u32x4 *)
                 p->weight)[((u64)panel * (u64)(a->n_chunks / 2) + (u64)pair) * WARP + (u64)lane];
        UNROLL for (int j = 0; j < 4; j++)
        {
            w.meta[k][j] = 0;
            if (!p->scale_f32)
                w.meta[k][j] = ((const u32 *)p->meta)[meta_row(p, panel, 2 * pair + j / 2) +
                                                      (u32)(lane / 4 + j % 2 * 8)];
        }
    }
    return w;
}

/* xs [MMA_STAGES][MMA_STAGE] */
DEVICE void mma_prefill(const struct linear_args *a, u32x4 *xs, int out_tile, int row0)
{
    int n_pairs = a->n_chunks / 2;
    int lane = thread() % WARP, warp = thread() / WARP, first_row = warp / 4 * 64 + lane / 4;
    struct linear_part p = part_of(a, out_tile);
    int panel0 = (out_tile - p.first) * (MMA_OUTPUTS / PANEL) + warp % 4 * 2,
        last = (p.out - 1) / PANEL;
    float total[2][8][4];
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int m = 0; m < 8; m++)
        UNROLL for (int i = 0; i < 4; i++) total[k][m][i] = 0;
    UNROLL for (int s = 0; s < MMA_STAGES - 1; s++)
    {
        if (s < n_pairs) mma_stage(a, xs + s * MMA_STAGE, row0, s);
        copies_commit();
    }
    struct mma_weights next = mma_fetch(a, &p, panel0, 0);
    for (int pair = 0, stage = 0, free = MMA_STAGES - 1; pair < n_pairs; pair++) {
        struct mma_weights w = next;
        COPIES_WAIT(MMA_STAGES - 2);
        barrier();
        if (pair + MMA_STAGES - 1 < n_pairs)
            mma_stage(a, xs + free * MMA_STAGE, row0, pair + MMA_STAGES - 1);
        copies_commit();
        if (pair + 1 < n_pairs) next = mma_fetch(a, &p, panel0, pair + 1);
        UNROLL for (int c = 0; c < 2; c++)
        {
            f16x2 lo[2][4], hi[2][4];
            float scale[2][2];
            UNROLL for (int k = 0; k < 2; k++)
            {
                struct scale_zero g[2];
                UNROLL for (int j = 0; j < 2; j++)
                {
                    u32 both = w.meta[k][2 * c + j];
                    if (p.scale_f32)
                        g[j] = meta_at(
                            &p, meta_row(&p, panel0 + k < last ? panel0 + k : last, 2 * pair + c),
                            lane / 4 + j * 8);
                    else g[j] = scale_zero_of((float)half_of(both), half_of(both >> 16));
                    scale[k][j] = g[j].scale;
                }
                unpack_word(w.q[k][2 * c], &g[0], lo[k]);
                unpack_word(w.q[k][2 * c + 1], &g[1], hi[k]);
            }
            UNROLL for (int m = 0; m < 8; m++)
            {
                u32x4 x = xs[stage * MMA_STAGE + mma_place(first_row + 8 * m, 4 * c + lane % 4)];
                UNROLL for (int k = 0; k < 2; k++)
                    mma_chunk(total[k][m], lo[k], hi[k], x, scale[k][0], scale[k][1]);
            }
        }
        stage = stage + 1 == MMA_STAGES ? 0 : stage + 1;
        free = free + 1 == MMA_STAGES ? 0 : free + 1;
    }
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int m = 0; m < 8; m++)
        UNROLL for (int i = 0; i < 4; i++)
            write_output(a, &p, row0 + warp / 4 * 64 + 8 * m + lane % 4 * 2 + i % 2,
                         (panel0 + k) * PANEL + lane / 4 + i / 2 * 8, total[k][m][i]);
}

KERNEL(q4_mma_prefill, struct linear_args)
{
    LDS(u32x4, xs, MMA_STAGES * MMA_STAGE);
    const struct linear_args *a = ARGS;
    int n_tiles = (a->rows + MMA_ROWS - 1) / MMA_ROWS,
        index = block_y() * a->n_blocks + block_x(); /* row tiles first: weights stay in the L2
                                                        cache */
    mma_prefill(a, xs, index / n_tiles, index % n_tiles * MMA_ROWS);
}

KERNEL(q4_experts_mma_prefill, struct experts_args)
{
    LDS(u32x4, xs, MMA_STAGES * MMA_STAGE);
    struct linear_args a;
    if (expert_tile(ARGS, block_y(), &a)) mma_prefill(&a, xs, block_x(), block_y() * MMA_ROWS);
}

#define Q4_PREFILL_MMA(name, images, of_block, outs)                                               \
    _Static_assert((of_block) == MMA_ROWS && (outs) == MMA_OUTPUTS, "a block of " #name);
#include "backend-hip/kernels/nvidia/list.h"
