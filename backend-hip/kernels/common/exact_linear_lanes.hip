/* exact_linear_lanes.hip: 4-bit linears in the CPU's order (common/exact_linear.hip) by dot
 * products of bytes or nibbles, for all images without NVIDIA's matrix instructions. Codes lie as
 * repack_lanes() leaves them. A lane has an output, EXACT_OUTPUTS outputs of a part a block of
 * EXACT_UNITS such groups of lanes, which take sub-groups in turn. A lane's codes stay in registers
 * while all rows of the block are gone through; a row's integers are the same in all lanes, on AMD
 * in scalar registers.
 *
 * Where there is v_dot8, codes of 4 bits are multiplied as they lie, with nibbles of the integers
 * plus EXACT_OFFSET, so that none is negative: digit [row][chunk][nibble, the highest first][octet]
 * words. The offset times the sum of the codes is where the sums of all rows start. Integers of 4
 * bits (ACT_INT4) are one signed nibble, in the place of the first of two; their zero points are 8,
 * so codes become signed nibbles, too. */

/* Terms that a block keeps in shared memory. Few rows leave registers for more than two blocks a
 * unit. */
#define EXACT_TERMS(rows) ((rows) < 8 ? 4096 : 8192)
enum { EXACT_UNITS = THREADS / EXACT_OUTPUTS };

/* What is added to integers of so many digits before they become nibbles. */
#define EXACT_OFFSET(digits) ((digits) == 2 ? 32768u : 128u)

/* A sub-group of an output. first: its first chunk among those of the inputs; n: chunks of its
 * group from there on, of which it has up to four; 0: there is no such sub-group. packed, low:
 * where the chunks' codes are, and the low halves of pairs. meta: scale and zero point as they lie,
 * of the lane; all else is the same in all lanes. */
struct exact_lane_sub {
    int first, n;
    u32 packed, low;
    u32 meta[2];
};

/* Codes of the chunks of a sub-group; low: the low halves of pairs */
struct exact_lane_codes {
    u32x4 q[4], low[4];
};

/* A chunk of an output as bytes, octet by octet. */
struct exact_lane_bytes {
    struct exact_bytes half[2]; /* octets 0 and 1, 2 and 3 */
};

/* The output of a lane. codes, meta: of the part, the same in all lanes; to_codes, to_meta: bytes
 * from there to the lane's output, through of_lane() at each load, so that the load adds the two.
 * input: that of the block's row whose number is the lane's. */
struct exact_lane_output {
    const u8 *codes, *meta;
    u32 to_codes, to_meta;
    int scale_f32;
    u32 input;
};

DEVICE struct exact_lane_sub exact_lane_sub_of(const struct exact_linear_args *a,
                                               struct exact_lane_output *o, int sub,
                                               const int pairs)
{
    struct exact_lane_sub s;
    s.first = s.n = 0;
    s.packed = s.low = 0;
    if (sub >= a->groups.n) return s;
    s.first = exact_first(&a->groups, sub, &s.n);
    int group = pairs ? exact_group_of(&a->groups, s.first) : exact_group_with(&a->groups, sub);
    s.packed = (u32)(pairs ? exact_packed(&a->groups, s.first) : s.first);
    s.low = s.packed + (u32)a->groups.group_chunks;
    const u8 *meta = uniform(o->meta) + (u32)group * (u32)(PANEL * 4 << o->scale_f32);
    o->to_meta = of_lane(o->to_meta);
    s.meta[0] = *(const u32 *)(meta + o->to_meta);
    if (o->scale_f32) s.meta[1] = *(const u32 *)(meta + o->to_meta + 4);
    return s;
}

/* The scale of a sub-group, and minus its zero point. */
DEVICE struct exact_scale exact_lane_scale(struct exact_lane_output *o,
                                           const u32 meta[2], const int pairs)
{
    float scale = o->scale_f32 ? f32_of(meta[0]) : (float)half_of(meta[0]),
          zero = o->scale_f32 ? f32_of(meta[1]) : (float)half_of(meta[0] >> 16);
    int minus = pairs ? 0 : (int)-zero;
    return (struct exact_scale){scale, (int)((u32)minus << 8) >> 8}; /* of 24 bits */
}

/* Loads chunk i of a sub-group. */
DEVICE void exact_lane_load(struct exact_lane_output *o, const struct exact_lane_sub *s,
                            int i, struct exact_lane_codes *to, const int pairs)
{
    const u8 *codes = uniform(o->codes);
    if (i >= s->n) return;
    o->to_codes = of_lane(o->to_codes);
    to->q[i] = *(const u32x4 *)(codes + (s->packed + (u32)i) * (PANEL * 16) + o->to_codes);
    if (pairs)
        to->low[i] = *(const u32x4 *)(codes + (s->low + (u32)i) * (PANEL * 16) + o->to_codes);
}

DEVICE struct exact_lane_bytes exact_lane_unpack(const u32x4 *q, const u32x4 *low,
                                                 const int pairs)
{
    struct exact_lane_bytes b;
    UNROLL for (int k = 0; k < 2; k++)
    {
        u32 high[2] = {(*q)[2 * k], (*q)[2 * k + 1]};
        if (pairs) {
            u32 l[2] = {(*low)[2 * k], (*low)[2 * k + 1]};
            b.half[k] = exact_unpack_pair(high, l);
        } else b.half[k] = exact_unpack_half(high);
    }
    return b;
}

/* The sums of a sub-group for `rows` rows x, by bytes. Chunks of `next` take the place of those
 * that are done. */
DEVICE void exact_lane_sums(const struct exact_linear_args *a, struct exact_lane_output *o,
                            const struct exact_lane_sub *s, const struct exact_lane_sub *next,
                            struct exact_lane_codes *codes, const u32 x[8], int sum[8], int digits,
                            const int rows, const int pairs)
{
    const u8 *of_sub = (const u8 *)a->of.digit + (u32)(s->first * CHUNK);
    int first[8];
    UNROLL for (int m = 0; m < rows; m++) first[m] = sum[m] = 0;
    UNROLL for (int i = 0; i < 4; i++)
    {
        if (!i || i < s->n) {
            const struct exact_lane_bytes b =
                exact_lane_unpack(codes->q + i, codes->low + i, pairs);
            UNROLL for (int m = 0; m < rows; m++)
            {
                UNROLL for (int d = 0; d < 2; d++)
                {
                    u32 v[8];
                    if (d == digits) break;
                    uniform_words(of_sub +
                                      of_wave((x[m] * (u32)digits + (u32)d) * (u32)a->of.stride +
                                              (u32)(i * CHUNK)),
                                  8, v);
                    int *to = d == digits - 1 ? sum + m : first + m;
                    UNROLL for (int j = 0; j < 4; j++)
                        *to = dot4(v[2 * j], b.half[j / 2].low[j % 2],
                                   dot4(v[2 * j + 1], b.half[j / 2].high[j % 2], *to));
                }
                if (digits == 2) await_4((u32 *)first + m);
                await_4((u32 *)sum + m);
                if (m % 2) no_mixing(); /* AMD has few scalar registers */
            }
        }
        no_mixing();
        exact_lane_load(o, next, i, codes, pairs);
    }
    if (digits == 2) UNROLL for (int m = 0; m < rows; m++) sum[m] += first[m] * 128;
}

/* exact_lane_sums() by nibbles; codes are not pairs. */
DEVICE void exact_lane_sums_of_nibbles(const struct exact_linear_args *a,
                                       struct exact_lane_output *o,
                                       const struct exact_lane_sub *s,
                                       const struct exact_lane_sub *next,
                                       struct exact_lane_codes *codes, const u32 x[8], int sum[8],
                                       int digits, const int rows)
{
    const u8 *of_sub = (const u8 *)a->of.digit + (u32)(s->first * CHUNK * digits);
    u32 of_codes = 0, of_nibble[8][4];
    UNROLL for (int i = 0; i < 4; i++) if (!i || i < s->n)
        UNROLL for (int j = 0; j < 4; j++)
            of_codes = dot8_u4(codes->q[i][j], 0x11111111u, of_codes);
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int n = 0; n < 4; n++)
        of_nibble[m][n] = n == 2 * digits - 1 ? 0u - of_codes * EXACT_OFFSET(digits) : 0;
    UNROLL for (int i = 0; i < 4; i++)
    {
        if (!i || i < s->n) UNROLL for (int m = 0; m < rows; m++)
        {
            const u8 *from =
                of_sub + of_wave((x[m] * (u32)a->of.stride + (u32)(i * CHUNK)) * (u32)digits);
            UNROLL for (int n = 0; n < 4; n += 2)
            {
                u32 v[8];
                if (n == 2 * digits) break;
                uniform_words(from + 16 * n, 8, v);
                UNROLL for (int j = 0; j < 8; j++)
                    of_nibble[m][n + j / 4] =
                        dot8_u4(codes->q[i][j % 4], v[j], of_nibble[m][n + j / 4]);
            }
            UNROLL for (int n = 0; n < 4; n++) if (n < 2 * digits) await_4(&of_nibble[m][n]);
            if (m % 2) no_mixing(); /* AMD has few scalar registers */
        }
        no_mixing();
        exact_lane_load(o, next, i, codes, 0);
    }
    UNROLL for (int m = 0; m < rows; m++)
    {
        u32 all = of_nibble[m][0];
        UNROLL for (int n = 1; n < 4; n++) if (n < 2 * digits)
        {
            all = (all << 4) + of_nibble[m][n];
            await_4(&all); /* one instruction a nibble */
        }
        sum[m] = (int)all;
    }
}

struct exact_lane_sum {
    int of_row[8];
};

/* exact_lane_sums() of integers of 4 bits: of codes less the zero point, as signed nibbles. */
DEVICE struct exact_lane_sum exact_lane_sums_of_low(const struct exact_linear_args *a,
                                                    struct exact_lane_output *o,
                                                    const struct exact_lane_sub *s,
                                                    const struct exact_lane_sub *next,
                                                    struct exact_lane_codes *codes,
                                                    const u32 x[8], const int rows)
{
    const u8 *of_sub = (const u8 *)a->of.digit + (u32)(s->first * CHUNK);
    struct exact_lane_sum sum;
    UNROLL for (int m = 0; m < rows; m++) sum.of_row[m] = 0;
    UNROLL for (int i = 0; i < 4; i++)
    {
        if (!i || i < s->n) UNROLL for (int m = 0; m < rows; m++)
        {
            u32 v[4];
            uniform_words(of_sub + of_wave(x[m] * (u32)a->of.stride + (u32)(i * CHUNK)), 4, v);
            UNROLL for (int j = 0; j < 4; j++)
                sum.of_row[m] = dot8_i4(codes->q[i][j], v[j], sum.of_row[m]);
            await_4((u32 *)sum.of_row + m);
            if (m % 2) no_mixing(); /* AMD has few scalar registers */
        }
        no_mixing();
        exact_lane_load(o, next, i, codes, 0);
    }
    return sum;
}

/* The input of row `row` of the block; of the first where there is none. */
DEVICE u32 exact_lane_input(const struct exact_linear_args *a, struct exact_lane_output *o,
                            const struct exact_block_rows *r, int row)
{
#if defined(__AMDGCN__)
    (void)a, (void)r;
    return (u32)__builtin_amdgcn_readlane((int)o->input, row);
#else
    (void)o;
    return (u32)exact_input(a, r->first + row < r->end ? r->first + row : r->first);
#endif
}

/* The terms of sub-group number `sub`, s: terms [rows][EXACT_OUTPUTS], EXACT_TERMS(rows) / tiles
 * from a tile to the next; rows that are not there have those of the first. In the end the codes
 * are those of `next`. */
DEVICE void exact_lane_terms(const struct exact_linear_args *a, struct exact_lane_output *o,
                             const struct exact_block_rows *r, int sub,
                             const struct exact_lane_sub *s, const struct exact_lane_sub *next,
                             struct exact_lane_codes *codes, float *terms, int tiles,
                             int digits, const int rows, const int pairs, const int low)
{
    int lane = thread() % EXACT_OUTPUTS;
    const struct exact_scale w = exact_lane_scale(o, s->meta, pairs);
    if (low) UNROLL for (int i = 0; i < 4; i++) /* those that are not there, too: no condition */
        UNROLL for (int j = 0; j < 4; j++) codes->q[i][j] ^= 0x88888888u;
    NO_UNROLL for (int tile = 0; tile < tiles; tile++)
    {
        struct exact_lane_sub then = *next;
        int sum[8];
        u32 x[8];
        if (tile + 1 < tiles) then.n = 0;
        UNROLL for (int m = 0; m < rows; m++)
            x[m] = exact_lane_input(a, o, r, tile * rows + m);
        if (low) {
            const struct exact_lane_sum of = exact_lane_sums_of_low(a, o, s, &then, codes, x, rows);
            UNROLL for (int m = 0; m < rows; m++) sum[m] = of.of_row[m];
        } else if (HAS_DOT8 && !pairs)
            exact_lane_sums_of_nibbles(a, o, s, &then, codes, x, sum, digits, rows);
        else exact_lane_sums(a, o, s, &then, codes, x, sum, digits, rows, pairs);
        UNROLL for (int m = 0; m < rows; m++)
        {
            u32 v[2];
            uniform_words(a->of.scaled + ((u32)(sub * a->of.rows) + x[m]), 2, v);
            int integers = (int)(v[1] << 8) >> 8; /* of 24 bits */
            terms[EXACT_TERMS(rows) / tiles * tile + m * EXACT_OUTPUTS + lane] =
                (float)(low ? sum[m] : w.zero * integers + sum[m]) * (f32_of(v[0]) * w.scale);
        }
    }
}

/* The part that the block belongs to, with the weights of its expert. */
DEVICE struct linear_part exact_lane_part(const struct exact_linear_args *a)
{
    struct linear_part p = part_of(&a->linear, block_y());
    return a->expert ? part_of_expert(&p, uniform_int(a->expert[block_x()])) : p;
}

DEVICE struct exact_lane_output exact_lane_output_of(const struct exact_linear_args *a,
                                                     const struct exact_block_rows *r)
{
    const struct linear_part p = exact_lane_part(a);
    int output = (block_y() - p.first) * EXACT_OUTPUTS + thread() % EXACT_OUTPUTS,
        panel = output / PANEL, last = (p.out - 1) / PANEL,
        place = r->first + thread() % (8 * EXACT_ROW_TILES);
    if (panel > last) panel = last;
    return (struct exact_lane_output){
        .codes = (const u8 *)p.weight,
        .meta = (const u8 *)p.meta,
        .to_codes = (u32)(panel * a->linear.n_chunks * PANEL + output % PANEL) * 16,
        .to_meta = (u32)(panel * (p.last_group + 1) * PANEL + output % PANEL) * 4 << p.scale_f32,
        .scale_f32 = p.scale_f32,
        .input = (u32)exact_input(a, place < r->end ? place : r->first)};
}

/* Block x computes a->tiles tiles of rows, or of an expert's places, block y EXACT_OUTPUTS outputs
 * of a part: neighbouring blocks share weights. */
DEVICE void exact_q4(const struct exact_linear_args *a, float *terms, int digits, const int rows,
                     const int pairs, const int low)
{
    const int held = rows < 8 ? 1 : EXACT_ROW_TILES * rows * EXACT_OUTPUTS / THREADS;
    const int of_sub = rows * EXACT_OUTPUTS, tiles = rows < 8 ? 1 : a->tiles,
              pass = EXACT_TERMS(rows) / tiles / of_sub;
    if (!exact_tile_exists(a, block_x())) return;
    int t = thread(), unit = uniform_int(t / EXACT_OUTPUTS);
    const struct exact_block_rows r = exact_rows_of_tile(a, block_x(), rows * tiles,
                                                         !!a->expert);
    struct exact_lane_output o = exact_lane_output_of(a, &r);
    float total[EXACT_ROW_TILES * 8 * EXACT_OUTPUTS / THREADS];
    struct exact_lane_codes codes;
    struct exact_lane_sub now = exact_lane_sub_of(a, &o, unit, pairs);
    UNROLL for (int i = 0; i < 4; i++) exact_lane_load(&o, &now, i, &codes, pairs);
    UNROLL for (int k = 0; k < held; k++) total[k] = 0;
    for (int sub0 = 0; sub0 < a->groups.n; sub0 += pass) {
        int left = a->groups.n - sub0, n = left < pass ? left : pass;
        int at = unit; /* two loops: a branch in one would move the codes between registers */
        if (low) NO_UNROLL for (; at < n && sub0 + at < a->of.low; at += EXACT_UNITS)
        {
            const struct exact_lane_sub next =
                exact_lane_sub_of(a, &o, sub0 + at + EXACT_UNITS, pairs);
            exact_lane_terms(a, &o, &r, sub0 + at, &now, &next, &codes, terms + at * of_sub,
                             tiles, digits, rows, pairs, 1);
            now = next;
        }
        NO_UNROLL for (; at < n; at += EXACT_UNITS)
        {
            const struct exact_lane_sub next =
                exact_lane_sub_of(a, &o, sub0 + at + EXACT_UNITS, pairs);
            exact_lane_terms(a, &o, &r, sub0 + at, &now, &next, &codes, terms + at * of_sub,
                             tiles, digits, rows, pairs, 0);
            now = next;
        }
        barrier();
        UNROLL for (int k = 0; k < held; k++)
        {
            const int tile = k * EXACT_UNITS / rows, row = unit + k * EXACT_UNITS % rows;
            const float *source = terms + EXACT_TERMS(rows) / tiles * tile + row * EXACT_OUTPUTS;
            if (tile < tiles && row < rows)
                UNROLL_8 for (int i = 0; i < n; i++)
                    total[k] = total[k] + source[i * of_sub + t % EXACT_OUTPUTS];
        }
        barrier();
    }
    const struct exact_linear_args *late = LATE_ARGS(a);
    const struct linear_part p = exact_lane_part(late);
    int output0 = (block_y() - p.first) * EXACT_OUTPUTS, output = output0 + t % EXACT_OUTPUTS;
    if (output >= p.out) return;
    float bias = p.bias ? p.bias[output] : 0;
    UNROLL for (int k = 0; k < held; k++)
    {
        int i = unit + k * EXACT_UNITS, place = r.first + i;
        if (i >= rows * tiles || place >= r.end) continue;
        float *y = p.y + (u64)uniform_int(exact_slot(late, place)) * (u64)p.out + (u64)output0;
        y[t % EXACT_OUTPUTS] = p.bias ? total[k] + bias : total[k];
    }
}

#define EXACT_Q4(name, images, rows)                                                               \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, terms, EXACT_TERMS(rows));                                                      \
        const struct exact_linear_args *a = ARGS;                                                  \
        if (a->groups.pairs) exact_q4(LATE_ARGS(a), terms, a->of.digits, rows, 1, 0);              \
        else if (a->of.digits == 2) exact_q4(LATE_ARGS(a), terms, 2, rows, 0, 0);                  \
        else if (HAS_DOT8 && a->of.low) exact_q4(LATE_ARGS(a), terms, 1, rows, 0, 1);              \
        else exact_q4(LATE_ARGS(a), terms, 1, rows, 0, 0);                                         \
    })
#include "backend-hip/kernels/common/list.h"
