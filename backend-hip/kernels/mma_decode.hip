/* mma_decode.hip: 4-bit linears for generated tokens by NVIDIA's matrix instruction. A block takes units of one or two
 * panels of 16 outputs, one after the other; its 8 warps share the pairs of chunks, and their sums are added in order. So
 * the order of additions depends on the number of inputs alone: not on rows, on blocks or on which kernel of these it is.
 * Weights flow through a ring in LDS that each warp fills for itself, several items ahead and across units; the first
 * items are asked for before the launch before this one has ended. */
#include "backend-hip/kernels/nvidia.h"

enum { ITEM_CODES = 128, ITEM_META = 64, ITEM = ITEM_CODES + ITEM_META }; /* words of one panel and pair of chunks */
enum { SUM_STRIDE = 20, SUM_WARP = 8 * SUM_STRIDE };                      /* [warp][8 rows][16 outputs], no bank twice */

#define RING_DEPTH(panels) ((panels) == 1 ? 6 : 3)
#define RING_WORDS (WARPS * RING_DEPTH(1) * ITEM)
#define MMA_SUM_WORDS (2 * WARPS * SUM_WARP)

/* Starts copies of a pair of chunks of a unit: codes, then scales [2 chunks][16 outputs][1 or 2 words]. */
DEVICE void fetch_item(const struct linear_args *a, const struct linear_part *p, int unit, int pair, u32 *item, const int panels)
{
    int lane = thread() % WARP, last = (p->out - 1) / PANEL;
    const u32 *meta = (const u32 *)p->meta;
    UNROLL for (int k = 0; k < panels; k++)
    {
        int panel = (unit - p->first) * panels + k;
        if (panel > last) panel = last;
        copy_16(item + k * ITEM + lane * 4, (const u32x4 *)p->weight + ((u64)panel * (u64)(a->n_chunks / 2) + (u64)pair) * WARP + (u64)lane);
        if (p->wide_meta) {
            UNROLL for (int c = 0; c < 2; c++)
                copy_4(item + k * ITEM + ITEM_CODES + c * 32 + lane, meta + 2 * meta_row(p, panel, 2 * pair + c) + lane);
        } else {
            copy_4(item + k * ITEM + ITEM_CODES + lane, meta + meta_row(p, panel, 2 * pair + lane / PANEL) + lane % PANEL);
        }
    }
}

DEVICE struct scale_zero item_meta(const u32 *item, int chunk, int output, int wide)
{
    const u32 *meta = item + ITEM_CODES;
    if (wide) return scale_zero_of(f32_of(meta[chunk * 32 + 2 * output]), (f16)f32_of(meta[chunk * 32 + 2 * output + 1]));
    u32 both = meta[chunk * PANEL + output];
    return scale_zero_of((float)half_of(both), half_of(both >> 16));
}

/* tiles: of 8 rows */
DEVICE void q4_mma_decode(const struct linear_args *a, u32 *ring, float *sums, const int tiles, const int panels)
{
    const int depth = RING_DEPTH(panels), item_words = panels * ITEM;
    int lane = thread() % WARP, warp = thread() / WARP, row0 = block_y() * 8 * tiles;
    int n_pairs = a->n_chunks / 2, steps = (n_pairs + WARPS - 1) / WARPS;
    u32 *items = ring + warp * depth * item_words;
    int ahead_unit = block_x(), ahead_step = 0, slot = 0, turn = 0;
    struct linear_part ahead = part_of(a, ahead_unit);
    const u32x4 *x = (const u32x4 *)a->x;
    u32 at[8];
    UNROLL for (int i = 0; i < depth; i++)
    {
        if (ahead_unit < a->n_blocks && warp + WARPS * ahead_step < n_pairs)
            fetch_item(a, &ahead, ahead_unit, warp + WARPS * ahead_step, items + i * item_words, panels);
        copies_commit();
        if (++ahead_step == steps) {
            ahead_step = 0;
            ahead_unit += grid_x();
            ahead = part_of(a, ahead_unit);
        }
    }
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row = row0 + 8 * m + lane / 4; /* one that is not there is computed as the last one and not written */
        if (row >= a->rows) row = a->rows - 1;
        at[m] = (u32)(row * n_pairs * 8 + lane % 4);
    }
    wait_for_producer();
    for (int unit = block_x(); unit < a->n_blocks; unit += grid_x()) {
        struct linear_part p = part_of(a, unit);
        float total[2][8][4];
        UNROLL for (int k = 0; k < panels; k++)
            UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++) total[k][m][i] = 0;
        for (int step = 0; step < steps; step++) {
            int pair = warp + WARPS * step, there = pair < n_pairs;
            u32 *item = items + slot * item_words;
            u32x4 q[2], first[2];
            struct scale_zero g[2][4];
            if (there) first[0] = x[at[0] + (u32)(pair * 8)], first[1] = x[at[0] + (u32)(pair * 8) + 4];
            COPIES_WAIT(depth - 1);
            warp_barrier();
            if (there) {
                UNROLL for (int k = 0; k < panels; k++)
                {
                    q[k] = *(const u32x4 *)(item + k * ITEM + lane * 4);
                    UNROLL for (int j = 0; j < 4; j++) g[k][j] = item_meta(item + k * ITEM, j / 2, lane / 4 + j % 2 * 8, p.wide_meta);
                }
            }
            warp_barrier();
            if (ahead_unit < a->n_blocks && warp + WARPS * ahead_step < n_pairs)
                fetch_item(a, &ahead, ahead_unit, warp + WARPS * ahead_step, item, panels);
            copies_commit();
            if (++ahead_step == steps) {
                ahead_step = 0;
                ahead_unit += grid_x();
                ahead = part_of(a, ahead_unit);
            }
            slot = slot + 1 == depth ? 0 : slot + 1;
            if (!there) continue;
            UNROLL for (int c = 0; c < 2; c++)
            {
                f16x2 lo[2][4], hi[2][4];
                UNROLL for (int k = 0; k < panels; k++)
                {
                    unpack_word(q[k][2 * c], &g[k][2 * c], lo[k]);
                    unpack_word(q[k][2 * c + 1], &g[k][2 * c + 1], hi[k]);
                }
                UNROLL for (int m = 0; m < tiles; m++)
                {
                    u32x4 v = m == 0 ? first[c] : x[at[m] + (u32)(pair * 8 + 4 * c)];
                    UNROLL for (int k = 0; k < panels; k++)
                        mma_chunk(total[k][m], lo[k], hi[k], v, g[k][2 * c].scale, g[k][2 * c + 1].scale);
                }
            }
        }
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int m = 0; m < tiles; m++)
        {
            float *of = sums + turn * (WARPS * SUM_WARP), *mine = of + warp * SUM_WARP + lane % 4 * 2 * SUM_STRIDE + lane / 4;
            turn ^= 1;
            mine[0] = total[k][m][0];
            mine[SUM_STRIDE] = total[k][m][1];
            mine[8] = total[k][m][2];
            mine[SUM_STRIDE + 8] = total[k][m][3];
            barrier(); /* whoever is two turns ahead has passed the next one: the buffer was read by then */
            if (thread() < 8 * PANEL) {
                int row = thread() / PANEL, output = thread() % PANEL;
                float sum = 0;
                UNROLL for (int w = 0; w < WARPS; w++) sum += of[w * SUM_WARP + row * SUM_STRIDE + output];
                write_output(a, &p, row0 + 8 * m + row, ((unit - p.first) * panels + k) * PANEL + output, sum);
            }
        }
    }
}

KERNEL_BLOCKS(q4_mma_decode_8, 3, struct linear_args)
{
    LDS(u32x4, ring, RING_WORDS / 4);
    LDS(float, sums, MMA_SUM_WORDS);
    q4_mma_decode(EARLY_ARGS, (u32 *)ring, sums, 1, 1);
}

KERNEL_BLOCKS(q4_mma_decode_16, 2, struct linear_args)
{
    LDS(u32x4, ring, RING_WORDS / 4);
    LDS(float, sums, MMA_SUM_WORDS);
    q4_mma_decode(EARLY_ARGS, (u32 *)ring, sums, 2, 1);
}

KERNEL_BLOCKS(q4_mma_decode_32, 2, struct linear_args)
{
    LDS(u32x4, ring, RING_WORDS / 4);
    LDS(float, sums, MMA_SUM_WORDS);
    q4_mma_decode(EARLY_ARGS, (u32 *)ring, sums, 4, 2);
}

KERNEL_BLOCKS(q4_mma_decode_64, 1, struct linear_args)
{
    LDS(u32x4, ring, RING_WORDS / 4);
    LDS(float, sums, MMA_SUM_WORDS);
    q4_mma_decode(EARLY_ARGS, (u32 *)ring, sums, 8, 2);
}
