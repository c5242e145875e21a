/* exact_linear_lanes.hip: 4-bit linears in the CPU's order (common/exact_linear.hip) by dot
 * products of four bytes, for all images without NVIDIA's matrix instructions. Codes lie as
 * repack_lanes() leaves them. A lane has an output, EXACT_OUTPUTS outputs of a part a block of
 * EXACT_UNITS such groups of lanes, which take sub-groups in turn. A lane's codes stay in registers
 * while all rows of the block are gone through; a row's integers are the same in all lanes, on AMD
 * in scalar registers. */

/* Terms of a block in shared memory */
enum { EXACT_TERMS = 8192 };
enum { EXACT_UNITS = THREADS / EXACT_OUTPUTS };

/* Codes of a sub-group of n chunks of an output; low: of pairs, the low halves. */
struct exact_lane_codes {
    u32x4 q[4], low[4];
    struct exact_scale scale;
    int first, n;
};

/* A chunk of an output as bytes, octet by octet. */
struct exact_lane_bytes {
    struct exact_bytes half[2]; /* octets 0 and 1, 2 and 3 */
};

/* Bytes from a part's codes to those of a chunk of an output. */
DEVICE u32 exact_lane_at(const struct exact_linear_args *a, int panel, int output, int chunk)
{
    return (u32)((panel * a->linear.n_chunks + chunk) * PANEL + output) * 16;
}

DEVICE void exact_lane_load(const struct exact_linear_args *a, const struct linear_part *p,
                            int panel, int output, int sub, struct exact_lane_codes *s,
                            const int pairs)
{
    s->n = 0;
    if (sub >= a->groups.n) return;
    s->first = exact_begin(&a->groups, sub, &s->n);
    int packed = pairs ? exact_packed(&a->groups, s->first) : s->first,
        group = pairs ? exact_group_of(&a->groups, s->first) : s->first / a->groups.group_chunks;
    const u8 *codes = uniform((const u8 *)p->weight);
    u32 at = of_lane(exact_lane_at(a, panel, output, packed));
    UNROLL for (int i = 0; i < 4; i++) if (i < s->n)
        s->q[i] = *(const u32x4 *)(codes + at + i * PANEL * 16);
    at = of_lane(exact_lane_at(a, panel, output, packed + (pairs ? a->groups.group_chunks : 0)));
    UNROLL for (int i = 0; i < 4; i++) if (pairs && i < s->n)
        s->low[i] = *(const u32x4 *)(codes + at + i * PANEL * 16);
    s->scale = exact_scale_of(p, panel, group, output);
    if (pairs) s->scale.zero = 0;
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

/* The terms of a sub-group: terms [a->tiles * rows][EXACT_OUTPUTS]; rows that are not there have
 * those of the first. */
DEVICE void exact_lane_terms(const struct exact_linear_args *a, const struct exact_block_rows *r,
                             const struct exact_lane_codes *s, int sub, float *terms, int digits,
                             const int rows, const int pairs)
{
    int lane = thread() % EXACT_OUTPUTS;
    const u8 *of_sub = (const u8 *)a->of.digit + (u32)(s->first * CHUNK);
    NO_UNROLL for (int tile = 0; tile < a->tiles; tile++)
    {
        int sum[8][2];
        u32 x[8];
        UNROLL for (int m = 0; m < rows; m++)
        {
            int place = r->first + tile * rows + m;
            sum[m][0] = sum[m][1] = 0;
            x[m] = (u32)uniform_int(exact_input(a, place < r->end ? place : r->first));
        }
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (i >= s->n) break;
            const struct exact_lane_bytes b = exact_lane_unpack(&s->q[i], &s->low[i], pairs);
            UNROLL for (int m = 0; m < rows; m++)
            {
                UNROLL for (int d = 0; d < 2; d++)
                {
                    u32 v[8];
                    if (d == digits) break;
                    uniform_words(of_sub + (x[m] * (u32)digits + (u32)d) * (u32)a->of.stride +
                                      (u32)(i * CHUNK),
                                  8, v);
                    UNROLL for (int j = 0; j < 4; j++)
                        sum[m][d] = dot4(v[2 * j], b.half[j / 2].low[j % 2],
                                         dot4(v[2 * j + 1], b.half[j / 2].high[j % 2], sum[m][d]));
                }
                if (m % 2) no_mixing(); /* scalar registers are few */
            }
            no_mixing();
        }
        UNROLL for (int m = 0; m < rows; m++)
        {
            u32 v[2];
            uniform_words(a->of.scaled + ((u32)(sub * a->of.rows) + x[m]), 2, v);
            const struct exact_scaled of = {f32_of(v[0]), (int)(v[1] << 8) >> 8}; /* of 24 bits */
            terms[(tile * rows + m) * EXACT_OUTPUTS + lane] =
                exact_term(&of, &s->scale, digits == 2 ? sum[m][0] * 128 + sum[m][1] : sum[m][0]);
        }
    }
}

/* Block (a->tiles tiles of rows or places of an expert, EXACT_OUTPUTS outputs of a part):
 * neighbouring blocks share weights. */
DEVICE void exact_q4(const struct exact_linear_args *a, float *terms, int digits, const int rows,
                     const int pairs)
{
    const int held = rows < 8 ? 1 : EXACT_ROW_TILES * rows * EXACT_OUTPUTS / THREADS;
    int all = rows * a->tiles * EXACT_OUTPUTS, pass = EXACT_TERMS / all;
    if (!exact_tile_exists(a, block_x())) return;
    struct linear_part p = part_of(&a->linear, block_y());
    int t = thread(), unit = uniform_int(t / EXACT_OUTPUTS),
        output0 = (block_y() - p.first) * EXACT_OUTPUTS,
        panel = (output0 + t % EXACT_OUTPUTS) / PANEL, last = (p.out - 1) / PANEL;
    if (a->expert) p = part_of_expert(&p, uniform_int(a->expert[block_x()]));
    const struct exact_block_rows r = exact_rows_of_tile(a, block_x(), rows * a->tiles,
                                                         !!a->expert);
    if (panel > last) panel = last;
    float total[EXACT_ROW_TILES * 8 * EXACT_OUTPUTS / THREADS];
    struct exact_lane_codes s;
    UNROLL for (int k = 0; k < held; k++) total[k] = 0;
    exact_lane_load(a, &p, panel, t % PANEL, unit, &s, pairs);
    for (int sub0 = 0; sub0 < a->groups.n; sub0 += pass) {
        int left = a->groups.n - sub0, n = left < pass ? left : pass;
        NO_UNROLL for (int i = unit; i < n; i += EXACT_UNITS)
        {
            const struct exact_lane_codes now = s;
            exact_lane_load(a, &p, panel, t % PANEL, sub0 + i + EXACT_UNITS, &s, pairs);
            exact_lane_terms(a, &r, &now, sub0 + i, terms + i * all, digits, rows, pairs);
        }
        barrier();
        UNROLL for (int k = 0; k < held; k++) if (t + k * THREADS < all)
            UNROLL_8 for (int i = 0; i < n; i++)
                total[k] = total[k] + terms[i * all + t + k * THREADS];
        barrier();
    }
    UNROLL for (int k = 0; k < held; k++)
    {
        int at = t + k * THREADS, place = r.first + at / EXACT_OUTPUTS,
            output = output0 + at % EXACT_OUTPUTS;
        if (at >= all || place >= r.end || output >= p.out) continue;
        p.y[(u64)exact_slot(a, place) * (u64)p.out + (u64)output] =
            p.bias ? total[k] + p.bias[output] : total[k];
    }
}

#define EXACT_Q4(name, images, rows)                                                               \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, terms, EXACT_TERMS);                                                            \
        const struct exact_linear_args *a = ARGS;                                                  \
        if (a->groups.pairs) exact_q4(a, terms, a->of.digits, rows, 1);                            \
        else if (a->of.digits == 2) exact_q4(a, terms, 2, rows, 0);                                \
        else exact_q4(a, terms, 1, rows, 0);                                                       \
    })
#include "backend-hip/kernels/kernel_list.h"
