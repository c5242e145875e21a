/* attend_prefill_wgmma.hip: attention of prompt rows by wgmma on sm_90a, FlashAttention-2 (Dao
 * 2023) with online softmax (Milakov & Gimelshein 2018), warp-specialized: what its kernels for
 * pages of fp16 (attend_prefill_pages.hip, attend_prefill_256.hip), int8 and int4
 * (attend_prefill_int8.hip) share.
 *   grid      (query head of some, tile of two groups of up to 64 rows of one sequence, which
 *             heads); 384 threads
 *   warps     one producer warpgroup and two consumer warpgroups of 64 rows each
 *   pipeline  a ring of stages of keys and values in shared memory, full and empty mbarriers; steps
 *             of 64 positions begin at absolute multiples
 *   operands  queries in split precision (two halves), so that scores, which are exponents, have 22
 *             bits; softmax weights, too, in attend_wgmma_*; rounded to halves in
 *             attend_wgmma_half_*, like the values, because such errors average out; queries, too,
 *             in attend_wgmma_one_*
 * Bits: a row's result does not depend on the other rows of its tile: a step whose positions a row
 * does not see leaves the row unchanged. */

enum { KV_STEP = ATTEND_WGMMA_STEP };

/* Shared memory: stages of keys and values, then the mbarriers full and empty of each stage. In
 * attend_prefill_256.hip and attend_prefill_int8.hip keys are [dims / 8][position][8] and values
 * [dims / 64][position][64], 16 bytes number i of a row at i ^ (position % 8). */
struct kv_ring {
    u32 stages, full, empty;
};

/* The tile of a block: two groups of rows of one sequence. */
struct query_tile {
    int head, row0[TILE_GROUPS], n_rows[TILE_GROUPS], pos0[TILE_GROUPS];
    int last, begin;       /* the last visible position; the first position of the first step */
    int skip[TILE_GROUPS]; /* rows at a group's beginning that do not exist */
};

/* aligned: groups begin at multiples of GROUP_ROWS positions; step: the first one begins at a
 * multiple of it */
DEVICE struct query_tile query_tile_of(const struct attend_kernel_args *a, const int aligned,
                                       const int step)
{
    struct query_tile w;
    int lowest = 0;
    w.head = block_z() * grid_x() + block_x();
    w.last = -1;
    UNROLL for (int g = 0; g < TILE_GROUPS; g++)
    {
        w.row0[g] = a->tiles[2 * (TILE_GROUPS * block_y() + g)];
        w.n_rows[g] = a->tiles[2 * (TILE_GROUPS * block_y() + g) + 1];
        w.pos0[g] = a->pos[w.row0[g]];
        if (w.pos0[g] + w.n_rows[g] - 1 > w.last) w.last = w.pos0[g] + w.n_rows[g] - 1;
        if (g == 0 || w.pos0[g] < lowest) lowest = w.pos0[g];
        w.skip[g] = aligned && w.n_rows[g] ? w.pos0[g] % GROUP_ROWS : 0;
        w.row0[g] -= w.skip[g];
        w.pos0[g] -= w.skip[g];
        w.n_rows[g] += w.skip[g];
    }
    w.begin = first_seen(lowest, a->window) / step * step;
    return w;
}

/* Loads the keys of a step. Positions behind the last one become zeros: stale memory may hold NaN
 * or infinity, so a weight of 0 is not enough. */
DEVICE void load_kv_keys(const char *pages, const int *table, u64 page_stride, u32 to, int p0,
                      int last, const int dims)
{
    const int lanes = dims / 8;
    int i = thread() % 128;
    UNROLL for (int j = 0; j < KV_STEP / PAGE * lanes / 8; j++) /* 8 octets of a page */
    {
        int p = j * 8 / lanes * PAGE + i % PAGE, o = j * 8 % lanes + i / PAGE,
            seen = p0 + p <= last;
        const char *page = pages + (u64)table[(seen ? p0 + p : last) / PAGE] * page_stride;
        copy_16_or_zeros(to + (u32)((o * KV_STEP + p) * 16), page + (o * PAGE + p % PAGE) * 16,
                         seen);
    }
}

/* Loads the values of a step, with zeros behind the last position. */
DEVICE void load_kv_values(const char *pages, const int *table, u64 page_stride, u32 to, int p0,
                           int last, const int dims)
{
    const int lanes = dims / 8;
    int i = thread() % 128, octet = i % lanes, count = i / lanes;
    UNROLL for (int j = 0; j < KV_STEP; j += 128 / lanes)
    {
        int p = j + count, seen = p0 + p <= last;
        const char *page = pages + (u64)table[(seen ? p0 + p : last) / PAGE] * page_stride +
                           PAGE * dims * 2;
        copy_16_or_zeros(
            to + (u32)(octet / 8 * (KV_STEP * 128) + p * 128 + (octet % 8 ^ p % 8) * 16),
            page + (p % PAGE * dims + octet * 8) * 2, seen);
    }
}

/* The Hadamard transform of a query. x[dims / 8][2]: a lane has the pair 2t of each 8 dimensions */
DEVICE void hadamard_pairs(float x[][2], const int dims)
{
    hadamard_step(x[0], dims / 4, 1);
    UNROLL for (int lanes = 1; lanes < 4; lanes *= 2) hadamard_lanes(x[0], dims / 4, lanes);
    UNROLL for (int apart = 2; apart < dims / 4; apart *= 2) hadamard_step(x[0], dims / 4, apart);
    UNROLL for (int i = 0; i < dims / 8; i++) UNROLL for (int e = 0; e < 2; e++)
        x[i][e] *= 1.0f / (float)dims;
}

/* Rotates a query, dimensions dims / 2 apart together. x[dims / 8][2]: a lane has the pair 2t of
 * each 8 dimensions */
DEVICE void rotate_pairs(const struct attend_kernel_args *a, int row, float x[][2], const int dims)
{
    const float *c = a->cos + (u64)row * (u64)(dims / 2) + thread() % 4 * 2,
                *s = a->sin + (u64)row * (u64)(dims / 2) + thread() % 4 * 2;
    UNROLL for (int i = 0; i < dims / 16; i++)
    {
        f32x2 cos = *(const f32x2 *)(c + 8 * i), sin = *(const f32x2 *)(s + 8 * i);
        UNROLL for (int e = 0; e < 2; e++)
        {
            float lo = x[i][e], hi = x[i + dims / 16][e];
            x[i][e] = fma32(lo, cos[e], -hi * sin[e]);
            x[i + dims / 16][e] = fma32(hi, cos[e], lo * sin[e]);
        }
    }
}

DEVICE void load_pairs(const float *from, float x[][2], const int dims)
{
    UNROLL for (int i = 0; i < dims / 8; i++)
    {
        f32x2 v = *(const f32x2 *)(from + 8 * i);
        x[i][0] = v[0], x[i][1] = v[1];
    }
}

/* A lane's queries: the pairs 2t and 8 + 2t of each 16 dimensions, of rows r and r + 8 of its warp,
 * times a power of two for each row that brings the largest into [2^14, 2^15); undo[]: its inverse.
 * row[]: of the step; offset: of its dimension 2t; int8: rotated queries are transformed
 * (kv_int8.h) */
DEVICE void wgmma_queries(const struct attend_kernel_args *a, const int row[2], u64 offset,
                          struct two_halves q[][4], float undo[2], const int dims, const int int8)
{
    float v[2][GPU_HEAD_DIM / 8][2];
    UNROLL for (int i = 0; i < 2; i++)
        load_pairs(a->q + (u64)row[i] * (u64)(a->n_heads * dims) + offset, v[i], dims);
    UNROLL for (int i = 0; i < 2; i++)
    {
        float largest = 0;
        if (a->cos) rotate_pairs(a, row[i], v[i], dims);
        if (int8 && a->cos) hadamard_pairs(v[i], dims);
        UNROLL for (int c = 0; c < dims / 8; c++)
            largest = max32(max32(abs32(v[i][c][0]), abs32(v[i][c][1])), largest);
        struct power_of_two p = power_for(quad_max(largest), 14);
        undo[i] = p.undo;
        UNROLL for (int c = 0; c < dims / 8; c++)
            q[c / 2][c % 2 * 2 + i] = split_pair(v[i][c][0] * p.factor, v[i][c][1] * p.factor);
    }
}

/* For heads of 64 dimensions ptxas 13.0 gives the softmax weights the registers of the queries,
 * which the next step needs. It does not if the queries change in the loop. zero: 0, unknown to
 * ptxas. */
DEVICE void keep_queries(struct two_halves q[][4], int zero, const int dims, const int queries)
{
    UNROLL for (int c = 0; c < dims / 16; c++) UNROLL for (int i = 0; i < 4; i++)
    {
        change_by(&q[c][i].high, zero);
        if (queries > 1) change_by(&q[c][i].low, zero);
    }
}

/* Starts the scores of 64 rows and a step of positions, which are in flight on return. queries:
 * halves of a query */
DEVICE void wgmma_scores(u32 keys, struct two_halves q[][4], float score[32], const int dims,
                         const int queries)
{
    wgmma_begin();
    UNROLL for (int c = 0; c < dims / 16; c++)
    {
        u64 b = wgmma_octets(keys + (u32)(c * 2 * KV_STEP * 16), KV_STEP * 16, 128);
        wgmma(score, q[c][0].high, q[c][1].high, q[c][2].high, q[c][3].high, b, c > 0, 64);
        if (queries > 1) wgmma(score, q[c][0].low, q[c][1].low, q[c][2].low, q[c][3].low, b, 1, 64);
    }
    wgmma_commit();
}

/* The state of a lane of a consumer warpgroup: rows `row` and row + 8 of its group of n_rows rows
 * from row0 of the step on. */
struct query_rows {
    int row0, row, skip, n_rows, lowest,
        highest; /* positions of the first and the last row; -1: the group is empty */
    struct two_halves q[GPU_HEAD_DIM / 16][4];
    float to_log2[2], largest[2], sum[2], total[GPU_HEAD_DIM / 2]; /* to_log2: factor of a score */
};

/* Online softmax: the scores of the step from p0 on become weights times 2^14, which cancels in the
 * division by the sum and keeps the bits of small weights. shrink[]: factor for the sums so far.
 * apart: positions from 8 scores to the next 8. masked: some positions are not visible to some rows.
 * Sums and maxima use four independent chains. */
DEVICE void online_softmax(struct query_rows *r, float score[32], int p0, const int apart,
                           int window, float shrink[2], const int masked)
{
    float top[2][4], extra[2][4];
    UNROLL for (int i = 0; i < 2; i++)
    {
        int pos = r->lowest + r->row + 8 * i,
            first = first_seen(pos, window);
        UNROLL for (int k = 0; k < 4; k++) top[i][k] = r->largest[i];
        UNROLL for (int k = 0; k < KV_STEP / 4; k++)
        {
            float *s = &score[k / 2 * 4 + 2 * i + k % 2];
            if (masked) {
                int p = p0 + thread() % 4 * 2 + k / 2 * apart + k % 2;
                *s = p <= pos && p >= first ? *s : -__builtin_inff();
            }
            top[i][k % 4] = max32(*s, top[i][k % 4]);
        }
    }
    UNROLL for (int i = 0; i < 2; i++)
        top[i][0] = quad_max(max32(max32(top[i][0], top[i][1]), max32(top[i][2], top[i][3])));
    UNROLL for (int i = 0; i < 2; i++)
    {
        float was = r->largest[i], to_log2 = r->to_log2[i];
        float offset = fma32(top[i][0] == -__builtin_inff() ? 0 : -top[i][0], to_log2,
                             14); /* no position is visible yet: all weights are 0 */
        shrink[i] = was == -__builtin_inff() ? 0 : exp2_estimate(offset - fma32(-was, to_log2, 14));
        r->largest[i] = top[i][0];
        UNROLL for (int k = 0; k < KV_STEP / 4; k++)
        {
            float *s = &score[k / 2 * 4 + 2 * i + k % 2];
            *s = exp2_estimate(fma32(*s, to_log2, offset));
            extra[i][k % 4] = k < 4 ? *s : extra[i][k % 4] + *s;
        }
        r->sum[i] = fma32(r->sum[i], shrink[i],
                          (extra[i][0] + extra[i][1]) + (extra[i][2] + extra[i][3]));
    }
}

DEVICE void softmax_step(const struct attend_kernel_args *a, struct query_rows *r, float score[32],
                         int p0, float shrink[2])
{
    int whole = p0 + KV_STEP - 1 <= r->lowest && first_seen(r->highest, a->window) <= p0;
    if (whole) online_softmax(r, score, p0, 8, a->window, shrink, 0);
    else online_softmax(r, score, p0, 8, a->window, shrink, 1);
}

DEVICE void split_weights(const float *score, struct two_halves p[][4])
{
    UNROLL for (int k = 0; k < KV_STEP / 16; k++) UNROLL for (int i = 0; i < 4; i++)
        p[k][i] = split_pair(score[8 * k + 2 * i], score[8 * k + 2 * i + 1]);
}

/* Starts total += weights x values of a step, which is in flight on return. */
DEVICE void wgmma_values(u32 values, struct two_halves p[][4], float *total, const int dims,
                         const int halves)
{
    wgmma_begin();
    UNROLL for (int k = 0; k < KV_STEP / 16; k++)
    {
        u64 b = wgmma_columns(values + (u32)(k * 16 * 128), KV_STEP * 128);
        wgmma_by_columns(total, p[k][0].high, p[k][1].high, p[k][2].high, p[k][3].high, b, dims);
        if (halves > 1)
            wgmma_by_columns(total, p[k][0].low, p[k][1].low, p[k][2].low, p[k][3].low, b, dims);
    }
    wgmma_commit();
}

/* The rows of a lane. from[]: the rows of the step whose queries it loads */
DEVICE void begin_group(const struct query_tile *w, struct query_rows *r, int from[2])
{
    int lane = thread() % WARP, group = thread() / 128;
    r->row0 = group ? w->row0[1] : w->row0[0];
    r->n_rows = group ? w->n_rows[1] : w->n_rows[0];
    r->skip = group ? w->skip[1] : w->skip[0];
    r->lowest = group ? w->pos0[1] : w->pos0[0];
    r->highest = r->n_rows ? r->lowest + r->n_rows - 1 : -1;
    r->row = thread() % 128 / WARP * 16 + lane / 4;
    UNROLL for (int i = 0; i < 2; i++) from[i] =
        r->row0 +
        (r->row + 8 * i >= r->skip && r->row + 8 * i < r->n_rows ? r->row + 8 * i : r->skip);
}

/* Clears the sums. to_log2 takes up what the scaling of the queries has left to undo. */
DEVICE void begin_sums(const struct attend_kernel_args *a, struct query_rows *r, const int dims)
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        r->to_log2[i] *= a->scale * 0x1.715476p+0f;
        r->largest[i] = -__builtin_inff();
        r->sum[i] = 0;
    }
    UNROLL for (int i = 0; i < dims / 2; i++) r->total[i] = 0;
}

DEVICE void begin_rows(const struct attend_kernel_args *a, const struct query_tile *w,
                       struct query_rows *r, const int dims, const int int8)
{
    int lane = thread() % WARP, from[2];
    begin_group(w, r, from);
    wgmma_queries(a, from, (u64)(w->head * dims + 2 * (lane % 4)), r->q, r->to_log2, dims, int8);
    begin_sums(a, r, dims);
}

/* The inverse of a sum of weights 2^(score - max + 14 - unit) with the weight of a sink. */
DEVICE float wgmma_inverse(float sum, float max, float sink, float unit)
{
    float value_at = sink * 0x1.715476p+0f, larger = max32(value_at, max),
          shrink = exp2_estimate(max - larger);
    return shrink * rcp32(fma32(sum, shrink, exp2_estimate(value_at - larger + (14 - unit))));
}

/* Writes the results of a lane's two rows. unit: the power of two that the weights of each are
 * relative to */
DEVICE void write_rows_of_head(const struct attend_kernel_args *a, const struct query_tile *w,
                               struct query_rows *r, const float unit[2], const int dims)
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        float all = quad_sum(r->sum[i]), inverse = rcp32(all);
        if (a->sinks)
            inverse = wgmma_inverse(all, r->largest[i] * r->to_log2[i], a->sinks[w->head], unit[i]);
        float *to = a->out + (u64)(r->row0 + r->row + 8 * i) * (u64)(a->n_heads * dims) +
                    (u64)(w->head * dims + thread() % 4 * 2);
        if (r->row + 8 * i < r->skip || r->row + 8 * i >= r->n_rows) continue;
        UNROLL for (int d = 0; d < dims / 8; d++) * (f32x2 *)(to + 8 * d) =
            (f32x2){r->total[4 * d + 2 * i] * inverse, r->total[4 * d + 2 * i + 1] * inverse};
    }
}

/* Initializes the mbarriers. stages: of the ring; arrivals: how many fill a stage */
DEVICE void begin_ring(const struct kv_ring *r, const int stages, const int arrivals)
{
    if (thread() != 0) return;
    for (int i = 0; i < stages; i++) {
        mbarrier_init(r->full + 8 * (u32)i, (u32)arrivals);
        mbarrier_init(r->empty + 8 * (u32)i, TILE_GROUPS * 4);
    }
    mbarrier_init_done();
}
