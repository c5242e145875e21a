/* attend_prefill_mma.hip: attention of prompt rows by mma on sm_80, and on sm_90a for heads of 256
 * dimensions, FlashAttention-2 (Dao 2023) with online softmax (Milakov & Gimelshein 2018); fp16 KV
 * cache.
 *   grid      (query head, group of up to 64 rows of one sequence); 128 threads
 *   warp      16 rows; steps of 64 positions, from an absolute multiple of 64 on
 *   operands  keys and values as they are in memory; queries and softmax weights in split precision
 *             (two halves, 22 bits). Queries of 256 dimensions are in shared memory, one place for
 *             each lane, because registers have no room for them beside the sums
 * Bits: a row's result does not depend on the other rows of its tile: a step whose positions a row
 * does not see leaves the row unchanged. */

enum { ATTEND_STEP = 64 };

/* total += a b for both halves of a. */
DEVICE void mma_two(float total[4], const struct two_halves a[4], u32 b0, u32 b1)
{
    mma_16x8x16(total, a[0].high, a[1].high, a[2].high, a[3].high, b0, b1);
    mma_16x8x16(total, a[0].low, a[1].low, a[2].low, a[3].low, b0, b1);
}

/* The queries of a lane: dimensions 8t .. 8t+7 of each 32, of rows r and r + 8, times a power of
 * two for each row that brings the largest into [2^14, 2^15); undo[]: its inverse. */
DEVICE void load_queries(const float *row[2], struct two_halves q[][2][4], float undo[2],
                         const int dims)
{
    float v[2][GPU_HEAD_DIM / 8][8];
    UNROLL for (int i = 0; i < 2; i++)
    {
        float largest = 0;
        UNROLL for (int c = 0; c < dims / 32; c++)
        {
            f32x4 a = *(const f32x4 *)(row[i] + 32 * c), b = *(const f32x4 *)(row[i] + 32 * c + 4);
            UNROLL for (int j = 0; j < 4; j++)
            {
                v[i][c][j] = a[j];
                v[i][c][4 + j] = b[j];
                largest = max32(max32(abs32(a[j]), abs32(b[j])), largest);
            }
        }
        int exponent = (int)(bits_of(quad_max(largest)) >> 23) - 127;
        if (exponent < -100) exponent = -100;
        float factor = f32_of((u32)(14 - exponent + 127) << 23);
        undo[i] = f32_of((u32)(exponent - 14 + 127) << 23);
        UNROLL for (int c = 0; c < dims / 32; c++) UNROLL for (int s = 0; s < 2; s++)
            UNROLL for (int j = 0; j < 2; j++) q[c][s][2 * j + i] =
                split_pair(v[i][c][4 * s + 2 * j] * factor, v[i][c][4 * s + 2 * j + 1] * factor);
    }
}

/* A lane's queries in shared memory: 16 bytes number i at [i][thread]. */
DEVICE void put_queries(u32 *lds, struct two_halves q[][2][4], const int dims)
{
    u32x4 *to = (u32x4 *)lds + thread();
    UNROLL for (int c = 0; c < dims / 32; c++) UNROLL for (int s = 0; s < 2; s++)
        UNROLL for (int h = 0; h < 2; h++)
    {
        const struct two_halves *x = &q[c][s][2 * h];
        to[(4 * c + 2 * s + h) * ATTEND_TILE_THREADS] =
            (u32x4){x[0].high, x[0].low, x[1].high, x[1].low};
    }
}

DEVICE void get_queries(const u32 *lds, int c, struct two_halves q[2][4])
{
    const u32x4 *from = (const u32x4 *)lds + thread() + 4 * c * ATTEND_TILE_THREADS;
    UNROLL for (int i = 0; i < 4; i++)
    {
        u32x4 x = from[i * ATTEND_TILE_THREADS];
        struct two_halves *to = &q[i / 2][i % 2 * 2];
        to[0].high = x[0], to[0].low = x[1], to[1].high = x[2], to[1].low = x[3];
    }
}

/* Loads chunk c of the keys of half of a step's positions. */
enum { HALF_STEP = ATTEND_STEP / 16 };

DEVICE void get_keys(const f16 *const page[], int c, u32x4 k[HALF_STEP])
{
    int r = thread() % WARP / 4, t = thread() % 4;
    UNROLL for (int j = 0; j < HALF_STEP; j++)
        k[j] = ((const u32x4 *)page[j / 2] + t * PAGE + j % 2 * 8 + r)[c * 4 * PAGE];
}

DEVICE void add_scores(float score[][4], struct two_halves q[2][4], const u32x4 k[HALF_STEP])
{
    UNROLL for (int j = 0; j < HALF_STEP; j++)
    {
        mma_two(score[j], q[0], k[j][0], k[j][1]);
        mma_two(score[j], q[1], k[j][2], k[j][3]);
    }
}

/* Scores of a step with queries in shared memory, in the order of those in registers. The keys of
 * one half of the positions are loaded while the other half is multiplied. */
DEVICE void tile_scores(const u32 *lds, const f16 *const page[], float score[][4], const int dims)
{
    u32x4 k0[HALF_STEP], k1[HALF_STEP];
    UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int i = 0; i < 4; i++)
        score[j][i] = 0;
    get_keys(page, 0, k0);
    NO_UNROLL for (int c = 0; c < dims / 32; c++)
    {
        struct two_halves q[2][4];
        get_keys(page + HALF_STEP / 2, c, k1);
        get_queries(lds, c, q);
        add_scores(score, q, k0);
        get_keys(page, c + 1 < dims / 32 ? c + 1 : c, k0);
        add_scores(score + HALF_STEP, q, k1);
    }
}

/* lds: ATTEND_TILE_SHARED bytes, used for heads of more than 128 dimensions */
DEVICE void attend_tile(const struct attend_kernel_args *a, u32 *lds, const int dims)
{
    int lane = thread() % WARP, warp = thread() / WARP, r = lane / 4, t = lane % 4,
        head = block_x();
    int row0 = a->tiles[2 * block_y()], n_rows = a->tiles[2 * block_y() + 1], pos0 = a->pos[row0],
        last = pos0 + n_rows - 1;
    if (!n_rows) return;
    u64 q_row = (u64)(a->n_heads * dims), page_size = (u64)(2 * PAGE * dims),
        kv_head = (u64)(head / (a->n_heads / a->n_kv_heads));
    const int *table = a->table + (u64)a->seq[row0] * (u64)a->table_stride;
    const f16 *pages = (const f16 *)a->pages + kv_head * page_size;
    const float *from[2];
    struct two_halves q[GPU_HEAD_DIM / 32][2][4];
    float undo[2], total[GPU_HEAD_DIM / 8][4], largest[2], sum[2] = {0, 0};
    int pos[2], first[2];
    UNROLL for (int i = 0; i < 2; i++)
    {
        int row = warp * 16 + r + 8 * i;
        pos[i] = pos0 + row;
        first[i] = first_seen(pos[i], a->window);
        from[i] = a->q + (u64)(row0 + (row < n_rows ? row : n_rows - 1)) * q_row +
                  (u64)(head * dims + 8 * t);
        largest[i] = -__builtin_inff();
    }
    load_queries(from, q, undo, dims);
    if (dims > 128) put_queries(lds, q, dims);
    UNROLL for (int i = 0; i < 2; i++) undo[i] *= a->scale;
    UNROLL for (int d = 0; d < dims / 8; d++) UNROLL for (int i = 0; i < 4; i++) total[d][i] = 0;
    int begin = first_seen(pos0, a->window);
    for (int p0 = begin / ATTEND_STEP * ATTEND_STEP; p0 <= last; p0 += ATTEND_STEP) {
        const f16 *page[ATTEND_STEP / PAGE];
        float score[ATTEND_STEP / 8][4], shrink[2], extra[2] = {0, 0};
        UNROLL for (int i = 0; i < ATTEND_STEP / PAGE; i++)
        {
            int index = p0 / PAGE + i < last / PAGE ? p0 / PAGE + i : last / PAGE;
            page[i] = pages + (u64)table[index] * (u64)a->n_kv_heads * page_size;
        }
        if (dims > 128) tile_scores(lds, page, score, dims);
        else UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++)
        {
            const u32x4 *keys = (const u32x4 *)page[j / 2] + t * PAGE + j % 2 * 8 + r;
            UNROLL for (int i = 0; i < 4; i++) score[j][i] = 0;
            UNROLL for (int c = 0; c < dims / 32; c++)
            {
                u32x4 k = keys[c * 4 * PAGE];
                mma_two(score[j], q[c][0], k[0], k[1]);
                mma_two(score[j], q[c][1], k[2], k[3]);
            }
        }
        UNROLL for (int i = 0; i < 2; i++)
        {
            float larger = largest[i];
            UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int e = 0; e < 2; e++)
            {
                int p = p0 + 8 * j + 2 * t + e;
                float *s = &score[j][2 * i + e];
                *s = p <= pos[i] && p >= first[i] ? *s * undo[i] : -__builtin_inff();
                larger = max32(*s, larger);
            }
            larger = quad_max(larger);
            float safe = larger == -__builtin_inff()
                             ? 0
                             : larger; /* no position is visible yet: all weights are 0 */
            shrink[i] = exp32(largest[i] - safe);
            largest[i] = larger;
            UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int e = 0; e < 2; e++)
            {
                float *s = &score[j][2 * i + e];
                *s = exp32(*s - safe) * 0x1p14f; /* cancels in the division by the sum; keeps the
                                                    bits of small weights */
                extra[i] += *s;
            }
            sum[i] = fma32(sum[i], shrink[i], extra[i]);
        }
        UNROLL for (int d = 0; d < dims / 8; d++) UNROLL for (int i = 0; i < 4; i++)
            total[d][i] *= shrink[i / 2];
        UNROLL for (int k = 0; k < ATTEND_STEP / 16; k++)
        {
            struct two_halves p[4];
            UNROLL for (int i = 0; i < 4; i++) p[i] =
                split_pair(score[2 * k + i / 2][i % 2 * 2], score[2 * k + i / 2][i % 2 * 2 + 1]);
            const u32x4 *values = (const u32x4 *)(page[k] + PAGE * dims) + r * (dims / 8) + t;
            UNROLL for (int d = 0; d < dims / 32; d++)
            {
                u32x4 v0 = values[4 * d], v1 = values[8 * (dims / 8) + 4 * d];
                UNROLL for (int i = 0; i < 4; i++)
                {
                    if (p0 + 16 * k + r > last)
                        v0[i] = 0; /* stale memory may hold NaN or infinity, so a weight of 0 is
                                      not enough */
                    if (p0 + 16 * k + 8 + r > last) v1[i] = 0;
                    mma_two(total[4 * d + i], p, transposed(v0[i]), transposed(v1[i]));
                }
            }
        }
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        int row = warp * 16 + r + 8 * i;
        float all = quad_sum(sum[i]), inverse = rcp32(all);
        if (a->sinks) inverse = inverse_with_sink(all, largest[i], a->sinks[head], 0x1p14f);
        float *to = a->out + (u64)(row0 + row) * q_row + (u64)(head * dims + 8 * t);
        UNROLL for (int d = 0; d < dims / 32; d++) UNROLL for (int j = 0; j < 4; j++)
            UNROLL for (int e = 0; e < 2; e++) if (row < n_rows)
                to[32 * d + 2 * j + e] = total[4 * d + j][2 * i + e] * inverse;
    }
}

#define ATTEND_TILE(name, images, dims)                                                            \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_tile(ARGS, (dims) > 128 ? dynamic_lds : (u32 *)0, dims);                            \
    })
#include "backend-hip/kernels/nvidia/list.h"
