/* linear_few_mma.hip: fp16, bf16 and 8-bit linears with few outputs (routers, gates of heads) by
 * mma on sm_80 and sm_90a, for all rows.
 *   grid      (panel of 16 outputs, 16 rows), so that few outputs still occupy many multiprocessors
 *   warp      split-K in the block: warp w has the stages of 64 inputs w, w + 8, ..
 *   epilogue  the sums of eight stages are in shared memory and are added in order of the inputs
 * Bits: those of linear_plain_mma.hip, whose order of sums is the same. */

/* The weights of a stage that a lane has. */
struct few_weights {
    u32x4 q[SUM_CHUNKS][2]; /* codes of 8 bits are in q[0] alone */
    u32x4 scales;           /* scales of outputs 2 t, 2 t + 8, 2 t + 1 and 2 t + 9 */
};

DEVICE struct few_weights few_load(const struct linear_args *a, const char *w, int item,
                                   const int kind)
{
    const u32x4 none = {0, 0, 0, 0};
    struct few_weights v = {{{none, none}, {none, none}}, none};
    int lane = thread() % WARP, index = dense_lane(kind);
    if (kind == WEIGHT_I8) {
        const char *from = w + (u64)item * BYTES_STAGE;
        int valid = item * SUM_CHUNKS < a->n_chunks;
        UNROLL for (int j = 0; j < 2; j++)
            v.q[0][j] = valid ? *(const u32x4 *)(from + index + j * 128) : none;
        v.scales = valid ? *(const u32x4 *)(from + BYTES_CODES + lane % 4 * 16) : none;
        return v;
    }
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int j = 0; j < 2; j++)
    {
        int chunk = item * SUM_CHUNKS + c;
        const u32x4 *from = (const u32x4 *)(w + (u64)chunk * (2 * DENSE_PIECE) + index + j * 128);
        v.q[c][j] = chunk < a->n_chunks ? *from : none;
    }
    return v;
}

/* The products of stage `item`. x: this lane's parts of rows, packed by prepare_parts() */
DEVICE void few_stage(const struct linear_args *a, const struct few_weights *w, const u32x4 *x,
                      int item, float part[2][4], const int kind)
{
    const int parts = dense_parts(kind);
    const u32x4 none = {0, 0, 0, 0};
    float eight[SUM_CHUNKS][2][4];
    UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++)
        eight[0][j][i] = eight[1][j][i] = part[j][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
    {
        int chunk = item * SUM_CHUNKS + c, valid = chunk < a->n_chunks;
        const u32x4 *q = w->q[c];
        UNROLL for (int s = 0; s < parts; s++) UNROLL for (int h = 0; h < 2; h++)
        {
            u32x4 v = valid ? x[(u64)((chunk * parts + s) * 2 + h) * WARP] : none;
            UNROLL for (int j = 0; j < 2; j++)
            {
                if (kind == WEIGHT_I8) {
                    u32 b[2];
                    unpack_bytes(w->q[0][j][2 * c + h], b);
                    mma_16x8x16(eight[c][j], v[0], v[1], v[2], v[3], b[0], b[1]);
                } else if (kind == WEIGHT_BF16)
                    mma_bf16(part[j], v[0], v[1], v[2], v[3], q[j][2 * h], q[j][2 * h + 1]);
                else
                    mma_16x8x16(part[j], v[0], v[1], v[2], v[3], q[j][2 * h], q[j][2 * h + 1]);
            }
        }
    }
    if (kind == WEIGHT_I8)
        UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++)
            part[j][i] = scaled_bytes(w->scales[2 * (i % 2) + j], eight[0][j][i], eight[1][j][i]);
}

/* sums [2][WARPS][DENSE_ROWS][PANEL] */
DEVICE void few_mma(const struct linear_args *a, float *sums, const int kind)
{
    const int parts = dense_parts(kind), of_stage = dense_stage_bytes(kind);
    struct linear_part p = part_of(a, block_x());
    int n_items = (a->n_chunks + SUM_CHUNKS - 1) / SUM_CHUNKS, t = thread(), warp = t / WARP,
        r = t % WARP / 4;
    const char *w = (const char *)p.weight +
                    (u64)(block_x() - p.first) *
                        (kind == WEIGHT_I8 ? (u64)n_items * of_stage
                                           : (u64)a->n_chunks * (2 * DENSE_PIECE));
    const u32x4 *x = (const u32x4 *)a->x + (u64)block_y() * (u64)(a->n_chunks * parts * 2 * WARP) +
                     (u64)(t % WARP);
    struct few_weights next = few_load(a, w, warp, kind);
    float sum = 0;
    prefetch_lines(w, n_items * of_stage);
    wait_for_producer();
    for (int first = 0, turn = 0; first < n_items; first += WARPS, turn ^= 1) {
        struct few_weights now = next;
        float part[2][4], *count = sums + turn * (WARPS * DENSE_ROWS * PANEL),
                          *to = count + warp * (DENSE_ROWS * PANEL);
        int left = n_items - first < WARPS ? n_items - first : WARPS;
        next = few_load(a, w, first + WARPS + warp, kind);
        few_stage(a, &now, x, first + warp, part, kind);
        UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++)
            to[(r + i / 2 * 8) * PANEL + 8 * j + 2 * (t % 4) + i % 2] = part[j][i];
        barrier(); /* also for the turn after the next, whose sums replace these */
        UNROLL for (int i = 0; i < WARPS; i++) if (i < left)
            sum += count[i * (DENSE_ROWS * PANEL) + t];
    }
    write_output(a, &p, block_y() * DENSE_ROWS + t / PANEL,
                 (block_x() - p.first) * PANEL + t % PANEL, sum);
}

#define DENSE_FEW(name, images, weights)                                                           \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        few_mma(EARLY_ARGS, (float *)dynamic_lds, weights);                                        \
    })
#include "backend-hip/kernels/nvidia/list.h"
