/* attend_decode_int8.hip: attention of decode rows over pages of int8 by mma on sm_80 and sm_90a,
 * as attend_decode_mma.hip has it for fp16: the same grid, warps and steps.
 *   operands  codes as they lie, exact as halves; the scales of keys multiply scores, those of
 *             values weights; queries and weights in split precision
 *   pipeline  all copies of a warp are asked for at its start: scales and keys, then values, of
 *             each step
 * A warp's shared memory: for each page of its steps INT8_PLACE(dims) bytes, keys [dims /
 * 16][place] [16] where position p has place p / 2 + 8 (p % 2), so that a lane of the scores has
 * neighbouring positions; values [PAGE / 4][dims][4] with 32 bytes between fours of positions; the
 * scales. */

#define INT8_FOURS(dims) (4 * (dims) + 32)

/* Shared memory of page i of a step. */
DEVICE u32 int8_place(const int turn, const int i, const int dims)
{
    return (u32)((turn * SPLIT_PAGES + i) * INT8_PLACE(dims));
}
DEVICE u32 int8_values_at(const int dims) { return (u32)(PAGE * dims); }
DEVICE u32 int8_scales_at(const int dims) { return (u32)(PAGE * dims + 4 * INT8_FOURS(dims)); }

DEVICE void copy_scales_int8(const struct attend_kernel_args *a, const struct split *s, u32 lds,
                             const int turn, const int dims)
{
    int lane = thread() % WARP, i = lane / 8;
    if (i >= SPLIT_PAGES || !turn_seen(s, turn)) return;
    u64 page = i ? s->page[turn][1] : s->page[turn][0];
    copy_16(lds + (u32)((turn * SPLIT_PAGES + i) * INT8_PLACE(dims)) + int8_scales_at(dims) +
                (u32)(lane % 8 * 16),
            (const u8 *)a->pages + page + 2 * PAGE * dims + lane % 8 * 16);
}

DEVICE void copy_keys_int8(const struct attend_kernel_args *a, const struct split *s, u32 lds,
                           const int turn, const int dims)
{
    int place = thread() % WARP % PAGE, block = thread() % WARP / PAGE,
        position = place % 8 * 2 + place / 8;
    UNROLL for (int i = 0; i < SPLIT_PAGES && turn_seen(s, turn); i++)
        UNROLL for (int j = 0; j < dims / 32; j++) copy_16(
            lds + int8_place(turn, i, dims) + (u32)(((2 * j + block) * PAGE + place) * 16),
            (const u8 *)a->pages + s->page[turn][i] + int8_key_at((2 * j + block) * 16, position));
    copies_commit();
}

DEVICE void copy_values_int8(const struct attend_kernel_args *a, const struct split *s, u32 lds,
                             const int turn, const int dims)
{
    UNROLL for (int i = 0; i < SPLIT_PAGES && turn_seen(s, turn); i++)
        UNROLL for (int j = 0; j < dims / 32; j++)
    {
        int n = j * WARP + thread() % WARP, four = n / (dims / 4), at = n % (dims / 4);
        copy_16(lds + int8_place(turn, i, dims) + int8_values_at(dims) +
                    (u32)(four * INT8_FOURS(dims) + at * 16),
                (const u8 *)a->pages + s->page[turn][i] + PAGE * dims + n * 16);
    }
    copies_commit();
}

/* The largest of the warp's numbers, in every lane. */
DEVICE int most_of_warp(int x)
{
    UNROLL for (int i = 1; i < WARP; i *= 2)
    {
        int other = (int)shuffle_xor((u32)x, i);
        x = other > x ? other : x;
    }
    return x;
}

/* The row's own key, rotated and transformed, and value: lane l has dimensions 2l and 2l + 1, and
 * the same + dims / 2. */
struct own_int8 {
    u32 code[2][2]; /* of key, value: pairs of bytes */
    float scale[2];
    int turn, at; /* step, and position in it; -1: the row's position is another warp's */
};

/* Loads and rounds them, and stores them in the page, in the warp that has the row's position. */
DEVICE struct own_int8 own_int8_of(const struct attend_kernel_args *a, const struct split *s,
                                   const int dims)
{
    struct own_int8 own = {{{0, 0}, {0, 0}}, {0, 0}, -1, 0};
    int d = thread() % WARP * 2, at = s->pos - s->p0;
    if (!a->k || at < 0 || at / (SPLIT_WARPS * TURN) >= TURNS || at % (SPLIT_WARPS * TURN) >= TURN)
        return own;
    own.turn = at / (SPLIT_WARPS * TURN);
    own.at = at % (SPLIT_WARPS * TURN);
    float x[2][2][2]; /* of key, value */
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 2; i++)
        x[k][i][0] = x[k][i][1] = 0;
    if (d < dims / 2) {
        u64 from = ((u64)s->row * (u64)a->n_kv_heads + (u64)s->kv_head) * (u64)dims + (u64)d,
            angle = (u64)s->row * (u64)(dims / 2) + (u64)d;
        f32x2 lo = *(const f32x2 *)(a->k + from), hi = *(const f32x2 *)(a->k + from + dims / 2),
              v0 = *(const f32x2 *)(a->v + from), v1 = *(const f32x2 *)(a->v + from + dims / 2),
              cos = *(const f32x2 *)(a->cos + angle), sin = *(const f32x2 *)(a->sin + angle);
        UNROLL for (int e = 0; e < 2; e++)
        {
            x[0][0][e] = fma32(lo[e], cos[e], -hi[e] * sin[e]);
            x[0][1][e] = fma32(hi[e], cos[e], lo[e] * sin[e]);
            x[1][0][e] = v0[e];
            x[1][1][e] = v1[e];
        }
    }
    float *key = &x[0][0][0];
    hadamard_step(key, 4, 1);
    UNROLL for (int lanes = 1; lanes < dims / 4; lanes *= 2) hadamard_lanes(key, 4, lanes);
    hadamard_step(key, 4, 2);
    u64 number = s->page[0][0];
    UNROLL for (int k = 0; k < TURNS; k++)
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) if (k == own.turn && i == own.at / PAGE)
            number = s->page[k][i];
    u8 *page = (u8 *)a->pages + number;
    int p = own.at % PAGE;
    UNROLL for (int k = 0; k < 2; k++)
    {
        int most = 0;
        UNROLL for (int i = 0; i < 4; i++) most = larger_bits(x[k][i / 2][i % 2], most);
        struct int_scale to = int_scale_of(most_of_warp(most), 127);
        own.scale[k] = to.scale;
        UNROLL for (int i = 0; i < 2; i++)
        {
            int n = d + i * dims / 2;
            u32 lo = (u32)rounded_int(x[k][i][0], to.inverse) & 0xff,
                hi = (u32)rounded_int(x[k][i][1], to.inverse) & 0xff;
            own.code[k][i] = lo | hi << 8;
            if (!s->first_heads || d >= dims / 2) continue;
            if (k) {
                page[int8_value_at(n, p, dims)] = (u8)lo;
                page[int8_value_at(n + 1, p, dims)] = (u8)hi;
            } else {
                *(u16 *)(page + int8_key_at(n, p)) = (u16)own.code[k][i];
            }
        }
        if (s->first_heads && d == 0) int8_scales(page, dims)[k * PAGE + p] = to.scale;
    }
    return own;
}

/* Put them into the warp's shared memory: the scales, and the codes of the key or the value where
 * the step has the row's position. */
DEVICE void put_own_scales(u8 *lds, const struct own_int8 *own, const int dims)
{
    int lane = thread() % WARP;
    if (own->turn < 0) return;
    u8 *page = lds + (own->turn * SPLIT_PAGES + own->at / PAGE) * INT8_PLACE(dims);
    if (lane < 2)
        ((float *)(page + int8_scales_at(dims)))[lane * PAGE + own->at % PAGE] =
            lane ? own->scale[1] : own->scale[0];
    warp_barrier();
}

DEVICE void put_own_codes(u8 *lds, const struct own_int8 *own, const int turn, const int value,
                          const int dims)
{
    int d = thread() % WARP * 2, p = own->at % PAGE;
    if (own->turn != turn) return;
    u8 *page = lds + (turn * SPLIT_PAGES + own->at / PAGE) * INT8_PLACE(dims);
    UNROLL for (int i = 0; i < 2 && d < dims / 2; i++)
    {
        int n = d + i * dims / 2;
        if (value) {
            u8 *to = page + int8_values_at(dims) + p / 4 * INT8_FOURS(dims) + p % 4 + 4 * n;
            to[0] = (u8)own->code[1][i];
            to[4] = (u8)(own->code[1][i] >> 8);
        } else {
            int place = p / 2 + p % 2 * 8;
            *(u16 *)(page + (n / 16 * PAGE + place) * 16 + n % 16) = (u16)own->code[0][i];
        }
    }
    warp_barrier();
}

/* Scores of a step in units of the keys' scales, from the keys in shared memory: element 2h + e of
 * lane 4r + t is of position 2r + h and head 2t + e. */
DEVICE void turn_scores_int8(u32 lds, struct two_halves q[][2], float score[SPLIT_PAGES][4],
                             const int turn, const int dims)
{
    int matrix = thread() % WARP / 8, j = thread() % 8;
    UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
    {
        UNROLL for (int e = 0; e < 4; e++) score[i][e] = 0;
        UNROLL for (int c = 0; c < dims / 32; c++)
        {
            u32 k[4];
            load_matrices(lds + int8_place(turn, i, dims) +
                              (u32)(((2 * c + matrix / 2) * PAGE + matrix % 2 * 8 + j) * 16),
                          k);
            UNROLL for (int b = 0; b < 2; b++)
            {
                u32 k0 = code_halves(k[2 * b], 0), k1 = code_halves(k[2 * b + 1], 0),
                    k2 = code_halves(k[2 * b], 1), k3 = code_halves(k[2 * b + 1], 1);
                const struct two_halves *x = q[2 * c + b];
                mma_16x8x16(score[i], k0, k1, k2, k3, x[0].high, x[1].high);
                mma_16x8x16(score[i], k0, k1, k2, k3, x[0].low, x[1].low);
            }
        }
    }
}

DEVICE const float *turn_scales(const u8 *lds, const int turn, const int i, const int dims)
{
    return (const float *)(lds + (turn * SPLIT_PAGES + i) * INT8_PLACE(dims) +
                           int8_scales_at(dims));
}

/* Online softmax, as turn_weights() has it. */
DEVICE void turn_weights_int8(const struct split *s, const u8 *lds, const float to_score[2],
                              float score[SPLIT_PAGES][4], struct split_sum *y, const int turn,
                              const int dims)
{
    int r = thread() % WARP / 4, p0 = turn_begin(s, turn);
    float shrink[2];
    UNROLL for (int e = 0; e < 2; e++)
    {
        float more = 0, larger = -__builtin_inff();
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
        {
            f32x2 of_key = *(const f32x2 *)(turn_scales(lds, turn, i, dims) + 2 * r);
            UNROLL for (int h = 0; h < 2; h++)
            {
                int p = p0 + i * PAGE + 2 * r + h;
                float *x = &score[i][2 * h + e];
                *x = p >= s->first && p <= s->pos ? *x * of_key[h] * to_score[e]
                                                  : -__builtin_inff();
                larger = max32(*x, larger);
            }
        }
        larger = max32(over_rows(larger, 1), y->largest[e]);
        shrink[e] = exp32(y->largest[e] - larger);
        y->largest[e] = larger;
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) UNROLL for (int h = 0; h < 2; h++)
        {
            float *x = &score[i][2 * h + e];
            *x = exp32(*x - larger) * 0x1p14f;
            more += *x;
        }
        y->sum[e] = fma32(y->sum[e], shrink[e], over_rows(more, 0));
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++)
        y->total[d][e] *= shrink[e % 2];
}

/* total += weights x values of a step; factor: of the values' scales. Element e of total[4c + j] is
 * of dimension 64c + 32 (e / 2) + 4r + j. */
DEVICE void turn_values_int8(const struct split *s, const u8 *lds,
                             const float score[SPLIT_PAGES][4], float factor, struct split_sum *y,
                             const int turn, const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
    {
        f32x2 of_value = *(const f32x2 *)(turn_scales(lds, turn, i, dims) + PAGE + 2 * r);
        struct two_halves w[2];
        UNROLL for (int h = 0; h < 2; h++)
        {
            /* stale memory may hold NaN */
            int p = turn_begin(s, turn) + i * PAGE + 2 * r + h;
            float x = p >= s->first && p <= s->pos ? of_value[h] * factor : 0;
            w[h] = split_pair(score[i][2 * h] * x, score[i][2 * h + 1] * x);
            w[h].high = transposed(w[h].high);
            w[h].low = transposed(w[h].low);
        }
        const u8 *values = lds + (turn * SPLIT_PAGES + i) * INT8_PLACE(dims) +
                           int8_values_at(dims) + t * INT8_FOURS(dims) + 16 * r;
        UNROLL for (int c = 0; c < dims / 64; c++)
        {
            u32x4 lo = *(const u32x4 *)(values + 256 * c),
                  hi = *(const u32x4 *)(values + 256 * c + 128);
            UNROLL for (int j = 0; j < 4; j++)
            {
                u32 v0 = code_halves(lo[j], 0), v1 = code_halves(hi[j], 0),
                    v2 = code_halves(lo[j], 1), v3 = code_halves(hi[j], 1);
                mma_16x8x16(y->total[4 * c + j], v0, v1, v2, v3, w[0].high, w[1].high);
                mma_16x8x16(y->total[4 * c + j], v0, v1, v2, v3, w[0].low, w[1].low);
            }
        }
    }
}

/* The row's queries: dimensions 4t, 4t + 2 and 4t + 1, 4t + 3 of each 16, of head r of the block,
 * times a power of two for the head that brings the largest into [2^14, 2^15). Returns its
 * inverse. */
DEVICE float split_queries_int8(const struct attend_kernel_args *a, const struct split *s,
                                struct two_halves q[][2], const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    float largest = 0, x[GPU_HEAD_DIM / 4]; /* dimension 4t + e of number i of 16 at 4i + e */
    UNROLL for (int i = 0; i < dims / 4; i++) x[i] = 0;
    if (r < s->heads) {
        const float *from =
            a->q + ((u64)s->row * (u64)a->n_heads + (u64)(s->head0 + r)) * (u64)dims + (u64)(4 * t);
        UNROLL for (int i = 0; i < dims / 16; i++)
        {
            f32x4 v = *(const f32x4 *)(from + 16 * i);
            UNROLL for (int e = 0; e < 4; e++) x[4 * i + e] = v[e];
        }
        u64 angle = (u64)s->row * (u64)(dims / 2) + (u64)(4 * t);
        UNROLL for (int i = 0; i < dims / 32 && a->cos; i++)
        {
            f32x4 cos = *(const f32x4 *)(a->cos + angle + (u64)(16 * i)),
                  sin = *(const f32x4 *)(a->sin + angle + (u64)(16 * i));
            UNROLL for (int e = 0; e < 4; e++)
            {
                float lo = x[4 * i + e], hi = x[4 * i + dims / 8 + e];
                x[4 * i + e] = fma32(lo, cos[e], -hi * sin[e]);
                x[4 * i + dims / 8 + e] = fma32(hi, cos[e], lo * sin[e]);
            }
        }
    }
    if (a->cos) { /* by all lanes */
        UNROLL for (int apart = 1; apart < 4; apart *= 2) hadamard_step(x, dims / 4, apart);
        UNROLL for (int lanes = 1; lanes < 4; lanes *= 2) hadamard_lanes(x, dims / 4, lanes);
        UNROLL for (int apart = 4; apart < dims / 4; apart *= 2) hadamard_step(x, dims / 4, apart);
        UNROLL for (int i = 0; i < dims / 4; i++) x[i] *= 1.0f / (float)dims;
    }
    UNROLL for (int i = 0; i < dims / 4; i++) largest = max32(abs32(x[i]), largest);
    struct power_of_two p = power_for(quad_max(largest), 14);
    UNROLL for (int i = 0; i < dims / 16; i++) UNROLL for (int e = 0; e < 2; e++)
        q[i][e] = split_pair(x[4 * i + e] * p.factor, x[4 * i + e + 2] * p.factor);
    return p.undo;
}

/* The power of two that brings the largest scale of the values that a warp sees below 1. */
DEVICE struct power_of_two value_factor(const struct split *s, const u8 *lds, const int dims)
{
    int lane = thread() % WARP;
    float largest = 0;
    UNROLL for (int turn = 0; turn < TURNS; turn++)
    {
        int p = turn_begin(s, turn) + lane;
        if (!turn_seen(s, turn) || p < s->first || p > s->pos) continue;
        const u8 *page = lds + (turn * SPLIT_PAGES + lane / PAGE) * INT8_PLACE(dims);
        largest = max32(abs32(((const float *)(page + int8_scales_at(dims)))[PAGE + lane % PAGE]),
                        largest);
    }
    return power_for(f32_of((u32)most_of_warp((int)bits_of(largest))), -1);
}

DEVICE void attend_pages_int8(const struct attend_kernel_args *a, u32 *lds, float *most, float *sum,
                              const int dims)
{
    const int warp_bytes = TURNS * SPLIT_PAGES * INT8_PLACE(dims);
    struct split s = split_of(a, INT8_PAGE(dims));
    struct split_sum y;
    struct two_halves q[GPU_HEAD_DIM / 16][2];
    struct power_of_two of_values = {1, 1};
    int warp = thread() / WARP, lane = thread() % WARP, r = lane / 4, t = lane % 4,
        from = s.split * KV_SPLIT;
    int nothing = from > s.pos || from + KV_SPLIT <= s.first;
    u8 *own = (u8 *)lds + warp * warp_bytes;
    u32 at = lds_address(lds) + (u32)(warp * warp_bytes);
    /* Pages that no launch of this step writes are loaded before the producer launch has ended. */
    if (!a->k) wait_for_producer();
    if (!nothing) {
        UNROLL for (int turn = 0; turn < TURNS; turn++) copy_scales_int8(a, &s, at, turn, dims);
        UNROLL for (int turn = 0; turn < TURNS; turn++)
        {
            copy_keys_int8(a, &s, at, turn, dims);
            copy_values_int8(a, &s, at, turn, dims);
        }
    }
    if (a->k) wait_for_producer();
    if (nothing) return;
    struct own_int8 new_row = own_int8_of(a, &s, dims);
    float undo = split_queries_int8(a, &s, q, dims), to_score[2];
    UNROLL for (int e = 0; e < 2; e++) /* heads 2t and 2t + 1 */
    {
        to_score[e] = shuffle_from(undo, (2 * t + e) * 4) * a->scale;
        y.largest[e] = -__builtin_inff();
        y.sum[e] = 0;
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++) y.total[d][e] = 0;
    UNROLL for (int turn = 0; turn < TURNS; turn++)
    {
        float score[SPLIT_PAGES][4];
        if (turn + 1 < TURNS) COPIES_WAIT(3);
        else COPIES_WAIT(1);
        warp_barrier();
        if (turn == 0) {
            put_own_scales(own, &new_row, dims);
            of_values = value_factor(&s, own, dims);
        }
        put_own_codes(own, &new_row, turn, 0, dims);
        if (turn_seen(&s, turn)) {
            turn_scores_int8(at, q, score, turn, dims);
            turn_weights_int8(&s, own, to_score, score, &y, turn, dims);
        }
        if (turn + 1 < TURNS) COPIES_WAIT(2);
        else COPIES_WAIT(0);
        warp_barrier();
        put_own_codes(own, &new_row, turn, 1, dims);
        if (turn_seen(&s, turn)) turn_values_int8(&s, own, score, of_values.factor, &y, turn, dims);
    }
    warp_barrier();
    float *out = (float *)own; /* replaces the keys */
    UNROLL for (int e = 0; e < 2; e++) if (r == 0)
        most[8 * warp + 2 * t + e] = y.largest[e],
                                sum[8 * warp + 2 * t + e] = y.sum[e];
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++)
        out[(2 * t + e % 2) * (dims + 4) + d / 4 * 64 + e / 2 * 32 + 4 * r + d % 4] =
            y.total[d][e] * of_values.undo;
    barrier();
    combine_warps(a, &s, (const u8 *)lds, most, sum, warp_bytes, dims);
}

#define ATTEND_PAGES_INT8(name, images, dims)                                                      \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(float, most, 8 * SPLIT_WARPS);                                                         \
        LDS(float, sum, 8 * SPLIT_WARPS);                                                          \
        attend_pages_int8(EARLY_ARGS, dynamic_lds, most, sum, dims);                               \
    })
#include "backend-hip/kernels/kernel_list.h"
