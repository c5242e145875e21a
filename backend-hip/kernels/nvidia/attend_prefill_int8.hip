/* attend_prefill_int8.hip: attention of prompt rows over pages of int8 by mma on sm_80, and on
 * sm_90a for heads of 256 dimensions, as attend_prefill_mma.hip has it for fp16: the same tiles,
 * warps and steps.
 *   operands  codes as they lie, exact as halves: a lane loads 16 dimensions of a key, 4 dimensions
 *             of 4 positions of the values. The scales of keys multiply scores, those of values
 *             weights; queries and weights in split precision
 *   weights   of a row are relative to a power of two above the largest scale of the values that it
 *             has seen, so that they fit halves
 * Columns: column 2t + e of half h of a page's scores is position 4t + 2h + e, so that a lane has
 * the weights of the positions whose values it loads; column 2t + e of the values number j of 32
 * dimensions is dimension 8t + 4e + j. */

/* Loads the queries of a lane: dimensions 16t .. 16t+15 of each 64, of rows r and r + 8, in the
 * order of the codes; factors are those of load_queries(). */
DEVICE void load_queries_int8(const float *row[2], struct two_halves q[][4], float undo[2],
                              const int dims)
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        f32x4 v[GPU_HEAD_DIM / 16];
        float largest = 0;
        UNROLL for (int c = 0; c < dims / 16; c++)
        {
            v[c] = *(const f32x4 *)(row[i] + c / 4 * 64 + c % 4 * 4);
            UNROLL for (int e = 0; e < 4; e++) largest = max32(abs32(v[c][e]), largest);
        }
        struct power_of_two p = power_for(quad_max(largest), 14);
        undo[i] = p.undo;
        UNROLL for (int c = 0; c < dims / 16; c++) UNROLL for (int e = 0; e < 2; e++)
            q[c][2 * e + i] = split_pair(v[c][e] * p.factor, v[c][e + 2] * p.factor);
    }
}

/* Adds the scores of 64 dimensions of a step. page: begins at a lane's 16 dimensions of position
 * 0 */
DEVICE void add_scores_int8(float score[][4], struct two_halves q[4][4], const u8 *const page[])
{
    int r = thread() % WARP / 4;
    UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++)
    {
        u32x4 k = *(const u32x4 *)(page[j / 2] + (r / 2 * 4 + j % 2 * 2 + r % 2) * 16);
        UNROLL for (int i = 0; i < 4; i++)
            mma_two(score[j], q[i], code_halves(k[i], 0), code_halves(k[i], 1));
    }
}

/* The softmax of a lane's rows. factor: of the values' scales */
struct tile_softmax {
    int pos[2], first[2];
    float to_score[2], largest[2], sum[2], top_value[2];
    struct power_of_two factor[2];
};

/* Turns scores of the step from p0 on into weights times the scales of their values. shrink[]:
 * factors of the totals; scales[]: of the pages, from a lane's positions on */
DEVICE void tile_weights_int8(struct tile_softmax *x, float score[][4], const float *const scales[],
                              int p0, float shrink[2])
{
    int t = thread() % 4;
    f32x4 of_key[ATTEND_STEP / PAGE], of_value[ATTEND_STEP / PAGE];
    UNROLL for (int k = 0; k < ATTEND_STEP / PAGE; k++)
    {
        of_key[k] = *(const f32x4 *)scales[k];
        of_value[k] = *(const f32x4 *)(scales[k] + PAGE);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        float larger = x->largest[i], top = 0, extra = 0;
        UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int e = 0; e < 2; e++)
        {
            int index = j % 2 * 2 + e, p = p0 + j / 2 * PAGE + 4 * t + index,
                seen = p <= x->pos[i] && p >= x->first[i];
            float *s = &score[j][2 * i + e];
            *s = seen ? *s * of_key[j / 2][index] * x->to_score[i] : -__builtin_inff();
            larger = max32(*s, larger);
            top = max32(seen ? abs32(of_value[j / 2][index]) : 0, top);
        }
        larger = quad_max(larger);
        x->top_value[i] = max32(quad_max(top), x->top_value[i]);
        struct power_of_two factor = power_for(x->top_value[i], -1);
        float safe = larger == -__builtin_inff()
                         ? 0
                         : larger, /* no position is visible yet: all weights are 0 */
            of_sum = exp32(x->largest[i] - safe);
        shrink[i] = of_sum * (x->factor[i].undo * factor.factor);
        x->factor[i] = factor;
        x->largest[i] = larger;
        UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int e = 0; e < 2; e++)
        {
            float *s = &score[j][2 * i + e], p = exp32(*s - safe) * 0x1p14f;
            extra += p;
            /* stale memory may hold NaN */
            *s = *s == -__builtin_inff() ? 0 : p * (of_value[j / 2][j % 2 * 2 + e] * factor.factor);
        }
        x->sum[i] = fma32(x->sum[i], of_sum, extra);
    }
}

/* Adds the weighted values of a page. values: begins at a lane's first 4 dimensions and
 * positions */
DEVICE void add_values_int8(float total[][4], float score[2][4], const u8 *values, const int dims)
{
    struct two_halves w[4];
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int e = 0; e < 2; e++)
        w[2 * e + i] = split_pair(score[0][2 * i + e], score[1][2 * i + e]);
    UNROLL for (int d = 0; d < dims / 32; d++)
    {
        u32x4 v = *(const u32x4 *)(values + 128 * d);
        UNROLL for (int j = 0; j < 4; j++)
            mma_two(total[4 * d + j], w, code_halves(v[j], 0), code_halves(v[j], 1));
    }
}

/* lds: ATTEND_TILE_SHARED bytes, used for heads of more than 128 dimensions */
DEVICE void attend_tile_int8(const struct attend_kernel_args *a, u32 *lds, const int dims)
{
    int lane = thread() % WARP, warp = thread() / WARP, r = lane / 4, t = lane % 4,
        head = block_x();
    int row0 = a->tiles[2 * block_y()], n_rows = a->tiles[2 * block_y() + 1], pos0 = a->pos[row0],
        last = pos0 + n_rows - 1;
    if (!n_rows) return;
    u64 q_row = (u64)(a->n_heads * dims), kv_head = (u64)(head / (a->n_heads / a->n_kv_heads));
    const int *table = a->table + (u64)a->seq[row0] * (u64)a->table_stride;
    const float *from[2];
    struct two_halves q[GPU_HEAD_DIM / 16][4];
    struct tile_softmax x;
    float total[GPU_HEAD_DIM / 8][4];
    UNROLL for (int i = 0; i < 2; i++)
    {
        int row = warp * 16 + r + 8 * i;
        x.pos[i] = pos0 + row;
        x.first[i] = first_seen(x.pos[i], a->window);
        from[i] = a->q + (u64)(row0 + (row < n_rows ? row : n_rows - 1)) * q_row +
                  (u64)(head * dims + 16 * t);
        x.largest[i] = -__builtin_inff();
        x.sum[i] = x.top_value[i] = 0;
        x.factor[i] = power_for(0, -1);
    }
    load_queries_int8(from, q, x.to_score, dims);
    if (dims > 128) put_queries(lds, (struct two_halves(*)[2][4])q, dims);
    UNROLL for (int i = 0; i < 2; i++) x.to_score[i] *= a->scale;
    UNROLL for (int d = 0; d < dims / 8; d++) UNROLL for (int i = 0; i < 4; i++) total[d][i] = 0;
    int begin = first_seen(pos0, a->window);
    for (int p0 = begin / ATTEND_STEP * ATTEND_STEP; p0 <= last; p0 += ATTEND_STEP) {
        const u8 *page[ATTEND_STEP / PAGE], *keys[ATTEND_STEP / PAGE];
        const float *scales[ATTEND_STEP / PAGE];
        float score[ATTEND_STEP / 8][4], shrink[2];
        UNROLL for (int i = 0; i < ATTEND_STEP / PAGE; i++)
        {
            int index = p0 / PAGE + i < last / PAGE ? p0 / PAGE + i : last / PAGE;
            page[i] = (const u8 *)a->pages +
                      ((u64)table[index] * (u64)a->n_kv_heads + kv_head) * INT8_PAGE(dims);
            scales[i] = int8_scales_of(page[i], dims) + 4 * t;
        }
        UNROLL for (int j = 0; j < ATTEND_STEP / 8; j++) UNROLL for (int i = 0; i < 4; i++)
            score[j][i] = 0;
        if (dims > 128) {
            NO_UNROLL for (int c = 0; c < dims / 64; c++)
            {
                struct two_halves some[4][4];
                UNROLL for (int i = 0; i < 2; i++)
                    get_queries(lds, 2 * c + i, (struct two_halves(*)[4])some + 2 * i);
                UNROLL for (int i = 0; i < ATTEND_STEP / PAGE; i++)
                    keys[i] = page[i] + (4 * c + t) * (PAGE * 16);
                add_scores_int8(score, some, keys);
            }
        } else UNROLL for (int c = 0; c < dims / 64; c++)
            {
                UNROLL for (int i = 0; i < ATTEND_STEP / PAGE; i++)
                    keys[i] = page[i] + (4 * c + t) * (PAGE * 16);
                add_scores_int8(score, q + 4 * c, keys);
            }
        tile_weights_int8(&x, score, scales, p0, shrink);
        UNROLL for (int d = 0; d < dims / 8; d++) UNROLL for (int i = 0; i < 4; i++)
            total[d][i] *= shrink[i / 2];
        UNROLL for (int i = 0; i < ATTEND_STEP / PAGE; i++) add_values_int8(
            total, score + 2 * i, page[i] + int8_value_at(4 * r, 4 * t, dims), dims);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        int row = warp * 16 + r + 8 * i;
        float all = quad_sum(x.sum[i]), inverse = rcp32(all);
        if (a->sinks) inverse = inverse_with_sink(all, x.largest[i], a->sinks[head], 0x1p14f);
        inverse *= x.factor[i].undo;
        float *to = a->out + (u64)(row0 + row) * q_row + (u64)(head * dims + 8 * t);
        UNROLL for (int d = 0; d < dims / 32; d++) UNROLL for (int j = 0; j < 4; j++)
            UNROLL for (int e = 0; e < 2; e++) if (row < n_rows)
                to[32 * d + 4 * e + j] = total[4 * d + j][2 * i + e] * inverse;
    }
}

#define ATTEND_TILE_INT8(name, images, dims)                                                       \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_tile_int8(ARGS, (dims) > 128 ? dynamic_lds : (u32 *)0, dims);                       \
    })
#include "backend-hip/kernels/nvidia/list.h"
