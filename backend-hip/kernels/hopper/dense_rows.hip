/* dense_rows.hip: fp16, bf16 and 8-bit linears of up to 8 decode rows on sm_90a.
 *   grid      (persistent, 8 rows): blocks of 256 threads take panels of 16 outputs in turn, two
 *             blocks a multiprocessor where the rows leave room
 *   rows      are copied into shared memory once, as operand b of mma: a row is a column
 *   warp      split-K in the block: warp w has the stages of 64 inputs w, w + 8, ..
 *   pipeline  that of dense_gemv.hip: a group of DENSE_AHEAD stages in registers, the first one and
 *             prefetches ahead of the producer launch's end
 *   sums      of the stages in one of two buffers, which the first threads of the block add in order
 *             behind a barrier for each panel
 * Bits: the order of sums is that of linear_plain_mma.hip. */

/* Where a lane's weights of a group begin in memory. */
DEVICE const char *rows_place_of(const struct dense_rows_args *a, const struct dense_group *g,
                                 int n_items, const int kind)
{
    struct dense_part p = dense_part_of(a->part, a->n_parts, g->tile);
    return (const char *)p.weight + dense_lane(kind) +
           ((u64)(g->tile - p.first) * (u64)n_items + (u64)g->item) * (u64)dense_stage_bytes(kind);
}

/* dense_advance() */
DEVICE void rows_advance(const struct dense_rows_args *a, const struct dense_tiles *tiles,
                         struct dense_group *g, int n_items, const int kind)
{
    g->item += WARPS * DENSE_AHEAD;
    g->w += WARPS * DENSE_AHEAD * dense_stage_bytes(kind);
    if (g->item < n_items) return;
    g->item = thread() / WARP;
    g->tile += tiles->step;
    if (g->tile < tiles->end) g->w = rows_place_of(a, g, n_items, kind);
}

enum { ROWS_AT_ONCE = 16 }; /* words of a thread whose loads wait for memory together */

/* Copies the block's rows, which prepare_parts() has packed as operand a with 16 rows, as operand b:
 * packed [chunk][part][h][4 columns]. The third part of bfloats is 0. */
DEVICE void rows_copy(const struct dense_rows_args *a, u64 *packed, int columns, const int kind)
{
    int shift = columns > 4 ? 5 : columns > 2 ? 4 : 3, words = 4 * columns,
        n = a->n_chunks * F16_PARTS(kind) * 2 * words;
    int half = block_y() % 2, of_16 = a->n_chunks * dense_parts(kind) * 2 * WARP * 4;
    const u32 *x = (const u32 *)a->x + (u64)(block_y() / 2) * (u64)of_16 + half;
    for (int first = thread(); first < n; first += ROWS_AT_ONCE * THREADS) {
        u32 v[ROWS_AT_ONCE][2];
        UNROLL for (int j = 0; j < ROWS_AT_ONCE; j++)
        {
            int i = first + j * THREADS < n ? first + j * THREADS : first, piece = i >> shift;
            if (kind == WEIGHT_BF16) piece += piece / 4 * 2;
            const u32 *from = x + (piece * WARP + (i & (words - 1))) * 4;
            v[j][0] = from[0];
            v[j][1] = from[2];
        }
        UNROLL for (int j = 0; j < ROWS_AT_ONCE; j++) if (first + j * THREADS < n)
            packed[first + j * THREADS] = (u64)v[j][0] | (u64)v[j][1] << 32;
    }
}

/* Adds the stages of a panel in order. sums [n_items][PANEL][columns] */
DEVICE void rows_finish(const struct dense_rows_args *a, const float *sums, int tile, int n_items,
                        int columns)
{
    int t = thread(), of_stage = PANEL * columns;
    if (t >= of_stage) return;
    struct dense_part p = dense_part_of(a->part, a->n_parts, tile);
    int row = block_y() * DENSE_ROWS_MOST + (t & (columns - 1)),
        output = (tile - p.first) * PANEL + t / columns;
    float sum = 0;
    UNROLL_8 for (int i = 0; i < n_items; i++) sum += sums[i * of_stage + t];
    if (row >= a->rows || output >= p.out) return;
    sum *= a->scale[row];
    p.y[(u64)row * (u64)p.out + (u64)output] = p.bias ? sum + p.bias[output] : sum;
}

/* lds: the rows; sums [2][n_items][PANEL][columns] */
DEVICE void dense_rows(const struct dense_rows_args *a, u32 *lds, const int kind)
{
    const int at_once = kind == WEIGHT_I8 ? 2 : DENSE_AHEAD;
    int lane = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS,
        columns = DENSE_ROWS_COLUMNS(a->rows), words = 4 * columns,
        of_stage = SUM_CHUNKS * F16_PARTS(kind) * 2 * words, turn = 0;
    const struct dense_tiles tiles = {block_x(), grid_x(), a->n_tiles};
    struct dense_group now = {0, tiles.first, 0, thread() / WARP}, next;
    struct dense_weights w[DENSE_AHEAD];
    const u32x4 none = {0, 0, 0, 0};
    u64 *packed = (u64 *)lds;
    float *sums = (float *)(packed + n_items * of_stage);
    UNROLL for (int k = 0; k < DENSE_AHEAD; k++)
        w[k] = (struct dense_weights){{{none, none}, {none, none}}, 0};
    now.w = rows_place_of(a, &now, n_items, kind);
    int n_stages = dense_stages(&tiles, &now, n_items);
    dense_load(&now, n_stages, w, 0, DENSE_AHEAD, kind);
    next = now;
    rows_advance(a, &tiles, &next, n_items, kind);
    struct dense_group later = next;
    NO_UNROLL for (int i = 0; i < DENSE_PREFETCHED; i++)
    {
        dense_prefetch(&later, dense_stages(&tiles, &later, n_items), kind);
        rows_advance(a, &tiles, &later, n_items, kind);
    }
    wait_for_producer();
    rows_copy(a, packed, columns, kind);
    barrier();
    NO_UNROLL while (now.tile < tiles.end)
    {
        float part[DENSE_AHEAD][4], *buffer = sums + turn * n_items * PANEL * columns,
                                    *to = buffer + now.item * PANEL * columns +
                                          lane / 4 * columns + lane % 4 * 2;
        int follow = dense_stages(&tiles, &next, n_items), finished = now.tile;
        UNROLL for (int k = 0; k < DENSE_AHEAD; k += at_once)
        {
            int from[DENSE_AHEAD];
            UNROLL for (int j = 0; j < at_once; j++) from[j] =
                k + j < n_stages ? (now.item + (k + j) * WARPS) * of_stage : 0;
            dense_products(w + k, packed + (lane & (words - 1)), from, part + k, at_once, words, kind);
            dense_load(&next, follow, w, k, at_once, kind);
        }
        if (lane % 4 * 2 < columns) UNROLL for (int k = 0; k < DENSE_AHEAD; k++) if (k < n_stages)
            {
                UNROLL for (int j = 0; j < 2; j++) *(f32x2 *)(to + j * 8 * columns) =
                    (f32x2){part[k][2 * j], part[k][2 * j + 1]};
                to += WARPS * PANEL * columns;
            }
        now = next;
        n_stages = follow;
        rows_advance(a, &tiles, &next, n_items, kind);
        dense_prefetch(&next, dense_stages(&tiles, &next, n_items), kind);
        if (now.tile == finished) continue;
        barrier(); /* also for the panel after the next, whose sums replace these */
        rows_finish(a, buffer, finished, n_items, columns);
        turn ^= 1;
    }
}

#define DENSE_ROWS_OF(name, images, weights)                                                       \
    ON_##images(KERNEL(name, struct dense_rows_args) { dense_rows(EARLY_ARGS, dynamic_lds, weights); })
#include "backend-hip/kernels/hopper/list.h"
