/* exact_linear.hip: linears in the order of the CPU backend (backend-cpu/kernels.h), to the bit.
 * 4-bit ones take activations as integers: the sum of a sub-group's products is exact, whatever
 * computes it; its terms sum * (activation scale * weight scale) are added sub-group by sub-group,
 * each operation rounded. Dense ones add in 16 lanes. */

/* Terms of a block in shared memory */
enum { EXACT_TERMS = 8192 };

/* Codes of a chunk as bytes: of the low nibbles of two words, of the high ones. */
struct exact_bytes {
    u32 low[2], high[2];
};

DEVICE struct exact_bytes exact_unpack_half(const u32 q[2])
{
    struct exact_bytes b;
    UNROLL for (int j = 0; j < 2; j++)
    {
        b.low[j] = q[j] & 0x0f0f0f0fu;
        b.high[j] = q[j] >> 4 & 0x0f0f0f0fu;
    }
    return b;
}

/* Codes of 8 bits minus 128, q: the high halves, l: the low ones */
DEVICE struct exact_bytes exact_unpack_pair(const u32 q[2], const u32 l[2])
{
    struct exact_bytes b;
    UNROLL for (int j = 0; j < 2; j++)
    {
        b.low[j] = ((q[j] << 4 & 0xf0f0f0f0u) | (l[j] & 0x0f0f0f0fu)) ^ 0x80808080u;
        b.high[j] = ((q[j] & 0xf0f0f0f0u) | (l[j] >> 4 & 0x0f0f0f0fu)) ^ 0x80808080u;
    }
    return b;
}

struct exact_scale {
    float scale;
    int zero;
};

DEVICE struct exact_scale exact_scale_of(const struct linear_part *p, int panel, int group,
                                         int output)
{
    const u32 *meta = (const u32 *)p->meta;
    u32 at = (u32)(panel * (p->last_group + 1) + group) * PANEL + (u32)output;
    if (p->scale_f32)
        return (struct exact_scale){f32_of(meta[2 * at]), (int)f32_of(meta[2 * at + 1])};
    return (struct exact_scale){(float)half_of(meta[at]), (int)half_of(meta[at] >> 16)};
}

/* 8 bytes of a row's integers: those of one octet of a chunk. */
DEVICE u64 exact_octet(const struct exact_digits *x, int row, int digit, int chunk, int octet)
{
    const u8 *from = (const u8 *)x->digit + (u64)(row * x->digits + digit) * (u64)x->stride;
    return *(const u64 *)(from + (u64)(chunk * CHUNK + octet * 8));
}

DEVICE float exact_term(const struct exact_scaled *x, const struct exact_scale *w, int sum)
{
    return (float)(sum - w->zero * x->sum) * (x->scale * w->scale);
}

DEVICE const struct exact_scaled *exact_scaled_at(const struct exact_digits *x, int row, int sub)
{
    return x->scaled + (u64)sub * (u64)x->rows + (u64)row;
}

/* The rows of a block: places first .. end - 1 of the expert of a tile, or rows. */
struct exact_block_rows {
    int first, end;
};

DEVICE int exact_tile_exists(const struct exact_linear_args *a, int tile)
{
    return !a->end || tile < *a->n_tiles;
}

/* Those of tile number `tile` of `rows` rows. */
DEVICE struct exact_block_rows exact_rows_of_tile(const struct exact_linear_args *a, int tile,
                                                  int rows, const int experts)
{
    if (experts && a->end)
        return (struct exact_block_rows){tile * rows, uniform_int(a->end[tile])};
    if (experts) return (struct exact_block_rows){tile, tile + 1};
    int end = tile * rows + rows;
    return (struct exact_block_rows){tile * rows, end < a->linear.rows ? end : a->linear.rows};
}

/* The row of the results of a place; of the inputs. */
DEVICE int exact_slot(const struct exact_linear_args *a, int place)
{
    return a->linear.slot ? a->linear.slot[place] : place;
}

DEVICE int exact_input(const struct exact_linear_args *a, int place)
{
    if (!a->expert) return place;
    int slot = exact_slot(a, place);
    return a->top_k == 1 ? slot : slot / a->top_k;
}

#if HAS_MMA
/* A lane's codes of the n chunks from `first` on: octet lane % 4 of outputs lane / 4 and lane / 4 +
 * 8. */
DEVICE void exact_codes(const u32 *codes, int first, int n, int lane, u32 q[4][2])
{
    if (n == 4 && first % 2 == 0) {
        UNROLL for (int i = 0; i < 2; i++)
        {
            u32x4 v = *(const u32x4 *)(codes + (u64)(((first / 2 + i) * 32 + lane) * 4));
            UNROLL for (int j = 0; j < 4; j++) q[2 * i + j / 2][j % 2] = v[j];
        }
        return;
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        int c = first + (i < n ? i : 0);
        const u32 *from = codes + (u64)((c / 2 * 32 + lane) * 4 + c % 2 * 2);
        q[i][0] = from[0];
        q[i][1] = from[1];
    }
}
#else
/* ---- without NVIDIA's matrix instructions codes lie as repack_lanes() leaves them. A lane has an
 * output, EXACT_OUTPUTS outputs of a part a block of EXACT_UNITS such groups of lanes, which take
 * sub-groups in turn. A lane's codes stay in registers while all rows of the block are gone
 * through; a row's integers are the same in all lanes, on AMD in scalar registers. */
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

/* As exact_scale_of(), for a part that is the same in all lanes. */
DEVICE struct exact_scale exact_lane_scale(const struct linear_part *p, int panel, int group,
                                           int output)
{
    const u8 *meta = uniform((const u8 *)p->meta);
    u32 at = (u32)((panel * (p->last_group + 1) + group) * PANEL + output);
    if (p->scale_f32) {
        const float *v = (const float *)(meta + of_lane(8 * at));
        return (struct exact_scale){v[0], (int)v[1]};
    }
    u32 v = *(const u32 *)(meta + of_lane(4 * at));
    return (struct exact_scale){(float)half_of(v), (int)half_of(v >> 16)};
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
    s->scale = exact_lane_scale(p, panel, group, output);
    if (pairs) s->scale.zero = 0;
}

DEVICE struct exact_lane_bytes exact_lane_unpack(const u32x4 *q, const u32x4 *low, const int pairs)
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

/* The terms of a sub-group: terms [a->tiles * rows][EXACT_OUTPUTS], rows that are not there have those
 * of the first. */
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
            x[m] = in_scalar((u32)uniform_int(exact_input(a, place < r->end ? place : r->first)));
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
#endif

/* ---- dense linears: a thread has half of the lanes of an output. Inputs that are not there have
 * weights of 0 and values of 0, and add nothing. */

/* 8 neighbouring inputs of an output, of the piece layout of args.h; octet: 8 inputs */
DEVICE void dense_octet(const void *weight, u64 octet, int output, const int kind, float v[8])
{
    if (kind == WEIGHT_F32) {
        UNROLL for (int j = 0; j < 2; j++)
        {
            u32x4 w = ((const u32x4 *)weight)[(2 * octet + (u64)j) * PANEL + (u64)output];
            UNROLL for (int i = 0; i < 4; i++) v[4 * j + i] = f32_of(w[i]);
        }
        return;
    }
    u32x4 w = ((const u32x4 *)weight)[octet * PANEL + (u64)output];
    UNROLL for (int i = 0; i < 8; i++)
    {
        u32 u = w[i / 2] >> (16 * (i % 2)) & 0xffffu;
        v[i] = kind == WEIGHT_BF16 ? f32_of_bf16(u) : (float)half_of(u);
    }
}

/* Folds the lanes of an output, of which two threads have half each, and writes it. */
DEVICE void dense_write(const struct linear_part *p, int there, int row, int output,
                        const float sum[8], float *lanes)
{
    int t = thread(), half = t / PANEL % 2;
    barrier();
    if (half) UNROLL for (int i = 0; i < 8; i++) lanes[i * THREADS + t] = sum[i];
    barrier();
    if (half || !there || output >= p->out) return;
    float all[16];
    UNROLL for (int i = 0; i < 8; i++) all[i] = sum[i], all[8 + i] = lanes[i * THREADS + t + PANEL];
    float y = exact_fold(all);
    p->y[(u64)row * (u64)p->out + (u64)output] = p->bias ? y + p->bias[output] : y;
}

/* Block (panel of all parts, row); experts: slot. A span of the panel's weights and of the row goes
 * to shared memory, asked for at once; a thread has a lane of an output there. */
enum { EXACT_SPAN_BYTES = 1024 }; /* of an output */
DEVICE void exact_dense_row(const struct exact_linear_args *a, u32x4 *span, float *x,
                            const int kind)
{
    const int bytes = kind == WEIGHT_F32 ? 4 : 2, inputs = EXACT_SPAN_BYTES / bytes,
              pieces = EXACT_SPAN_BYTES / 16;
    const struct linear_args *l = &a->linear;
    int t = thread(), output = t / EXACT_LANES, lane = t % EXACT_LANES, row = block_y(),
        in = a->groups.n;
    struct linear_part p = part_of(l, block_x());
    int panel = block_x() - p.first, all = l->n_chunks * CHUNK * bytes / 16;
    if (a->expert) p = part_of_expert(&p, uniform_int(a->expert[row]));
    const float *from = (const float *)l->x + (u64)exact_input(a, row) * (u64)in;
    const u32x4 *weight = (const u32x4 *)p.weight + (u64)panel * (u64)(all * PANEL);
    float sum = 0;
    for (int p0 = 0, j0 = 0; p0 < all; p0 += pieces, j0 += inputs) {
        u32x4 w[pieces * PANEL / THREADS];
        float v[2] = {0, 0};
        UNROLL for (int i = 0; i < pieces * PANEL / THREADS;
                    i++) if (p0 + (i * THREADS + t) / PANEL < all)
            w[i] = weight[p0 * PANEL + i * THREADS + t];
        UNROLL for (int i = 0; i < inputs / THREADS; i++) if (j0 + i * THREADS + t < in)
            v[i] = from[j0 + i * THREADS + t];
        barrier();
        UNROLL for (int i = 0; i < pieces * PANEL / THREADS; i++) span[i * THREADS + t] = w[i];
        UNROLL for (int i = 0; i < inputs / THREADS; i++) x[i * THREADS + t] = v[i];
        barrier();
        int n = in - j0 < inputs ? in - j0 : inputs;
        UNROLL_8 for (int j = lane; j < n; j += EXACT_LANES)
        {
            int at = (j * bytes / 16 * PANEL + output) * (16 / bytes) + j % (16 / bytes);
            float q = kind == WEIGHT_F32    ? ((const float *)span)[at]
                      : kind == WEIGHT_BF16 ? f32_of_bf16(((const u16 *)span)[at])
                                            : (float)((const f16 *)span)[at];
            sum = fma32(q, x[j], sum);
        }
    }
    barrier();
    x[t] = sum;
    barrier();
    int of = panel * PANEL + t;
    if (t >= PANEL || of >= p.out) return;
    float y = exact_fold(x + t * EXACT_LANES);
    p.y[(u64)row * (u64)p.out + (u64)of] = p.bias ? y + p.bias[of] : y;
}

/* Block (16 panels of all parts, 8 rows): a thread has an output of two panels. x: the inputs of a
 * span in shared memory, zeros where there are none */
enum { EXACT_DENSE_SPAN = 256 };
DEVICE void exact_dense(const struct exact_linear_args *a, float *x, float *lanes, const int kind)
{
    const struct linear_args *l = &a->linear;
    int t = thread(), half = t / PANEL % 2, row0 = block_y() * EXACT_DENSE_ROWS, in = a->groups.n,
        panel[2], there[2];
    struct linear_part p[2];
    u64 first[2];
    float sum[2][EXACT_DENSE_ROWS][8];
    UNROLL for (int k = 0; k < 2; k++)
    {
        int block = (block_x() * EXACT_DENSE_PANELS + t / 32) * 2 + k;
        there[k] = block < l->n_blocks;
        p[k] = part_of(l, there[k] ? block : 0);
        panel[k] = there[k] ? block - p[k].first : 0;
        first[k] = (u64)panel[k] * (u64)(l->n_chunks * (CHUNK / 8));
        UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++) UNROLL for (int i = 0; i < 8; i++)
            sum[k][m][i] = 0;
    }
    NO_UNROLL for (int j0 = 0; j0 < in; j0 += EXACT_DENSE_SPAN)
    {
        barrier();
        UNROLL for (int i = 0; i < EXACT_DENSE_ROWS; i++)
        {
            int there_too = row0 + i < l->rows && j0 + t < in;
            x[i * EXACT_DENSE_SPAN + t] =
                there_too ? ((const float *)l->x)[(u64)(row0 + i) * (u64)in + (u64)(j0 + t)] : 0;
        }
        barrier();
        int n = in - j0 < EXACT_DENSE_SPAN ? in - j0 : EXACT_DENSE_SPAN;
        NO_UNROLL for (int j = 8 * half; j < n; j += 16)
        {
            float w[2][8];
            UNROLL for (int k = 0; k < 2; k++)
                dense_octet(p[k].weight, first[k] + (u64)((j0 + j) / 8), t % PANEL, kind, w[k]);
            UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
            {
                float v[8];
                load_octet(x + m * EXACT_DENSE_SPAN + j, v);
                UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 8; i++)
                    sum[k][m][i] = fma32(w[k][i], v[i], sum[k][m][i]);
            }
        }
    }
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
        dense_write(&p[k], there[k] && row0 + m < l->rows, row0 + m, panel[k] * PANEL + t % PANEL,
                    sum[k][m], lanes);
}

#define EXACT_DENSE(name, images, kind)                                                            \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(u32x4, span, EXACT_SPAN_BYTES);                                                        \
        LDS(float, x, EXACT_SPAN_BYTES / 2);                                                       \
        exact_dense_row(ARGS, span, x, kind);                                                      \
    })
#define EXACT_DENSE_8(name, images, kind)                                                       \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, lanes, THREADS * 8);                                                            \
        LDS(float, x, EXACT_DENSE_ROWS *EXACT_DENSE_SPAN);                                         \
        exact_dense(ARGS, x, lanes, kind);                                                         \
    })
#include "backend-hip/kernels/kernel_list.h"
