/* checkop_linear.c: linear (4-bit and dense).
 *
 * Bound of a linear's output y = sum_j x_j w_j + bias against the double reference:
 * 2^-14 * sum_j |x_j w_j|  +  2^-23 * |bias|
 * A chain of n fp32 roundings is off by at most n * 2^-24 of the sum of magnitudes; 2^-14 is n =
 * 1024: 128 products of a sub-group, then one rounding per sub-group (k <= 28672: 224), with room
 * for other orders. The last addition and the rounding of the reference are off by 2^-24 of |total|
 * + |bias| each. There is no absolute term: a sum of zeros gives exactly the bias. In the integer
 * arithmetics x is the quantized activation, by the same definition: the bound covers the
 * floating-point part, and the integer part must be exact. fp16 activations are rounded likewise.
 * The bound holds per element: over a whole tensor, a column with every zero point wrong would
 * pass. */
#include "tests/checkop/checkop_linear.h"

#include "backend-hip/hip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const perm_names[] = {
    "none",  "shuffled",       "padded",   "twice",
    "pairs", "pairs shuffled", "outliers", "outliers shuffled"};
static const char *const scale_names[] = {"f16", "f32", "f16-subnormal"};
static const char *const zero_names[] = {"any", "8", "mixed", "8 and 0", "outliers"};
const char *const type_names[DT_COUNT] =
    {[DT_F16] = "f16", [DT_BF16] = "bf16", [DT_F32] = "f32"};

static const struct shape shapes[] = {
    /* 4-bit: in, out, group, k */
    {256, 48, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0},
    {256, 37, 32, 256, PERM_NONE, SCALE_F32, 1, 0, 0},
    {320, 8, 64, 320, PERM_NONE, SCALE_F16, 1, 0, 0},
    {384, 1, 96, 384, PERM_NONE, SCALE_F32, 1, 0, 0},
    {480, 80, 160, 480, PERM_NONE, SCALE_F16, 1, 0, 0},
    {1024, 130, 1024, 1024, PERM_NONE, SCALE_F16, 0, 0, 0},
    {288, 17, 288, 288, PERM_NONE, SCALE_F32, 0, 0, 0},
    {448, 21, 224, 448, PERM_NONE, SCALE_F16, 0, 0, 0},
    {256, 100, 64, 256, PERM_NONE, SCALE_F16, 0, 0, ZEROS_EIGHT},
    {256, 150, 32, 256, PERM_SHUFFLED, SCALE_F32, 1, 0, ZEROS_MIXED},
    {256, 64, 128, 256, PERM_SHUFFLED, SCALE_F16, 0, 0, 0},
    {200, 33, 64, 256, PERM_PADDED, SCALE_F16, 1, 0, 0},
    {36, 20, 32, 64, PERM_PADDED, SCALE_F32, 0, 0, 0},
    {160, 24, 32, 320, PERM_TWICE, SCALE_F16, 1, 0, 0},
    {256, 40, 64, 256, PERM_NONE, SCALE_SUBNORMAL, 0, 0, 0},
    {4096, 35, 128, 4096, PERM_SHUFFLED, SCALE_F16, 1, 0, 0},
    /* codes of 8 bits, and what only looks like them */
    {256, 40, 32, 512, PERM_PAIRS, SCALE_F32, 1, 0, ZEROS_PAIRS},
    {256, 40, 32, 512, PERM_PAIRS, SCALE_F16, 1, 0, ZEROS_PAIRS},
    {160, 24, 32, 320, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    {256, 200, 64, 512, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    {200, 33, 64, 512, PERM_PAIRS_SHUFFLED, SCALE_F16, 1, 0, ZEROS_PAIRS},
    {256, 100, 128, 512, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    {288, 17, 96, 576, PERM_PAIRS_SHUFFLED, SCALE_F32, 0, 0, ZEROS_PAIRS},
    {480, 21, 160, 960, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    {256, 37, 256, 512, PERM_PAIRS_SHUFFLED, SCALE_F32, 1, 0, ZEROS_PAIRS},
    {192, 24, 32, 384, PERM_PAIRS, SCALE_F16, 1, 0, ZEROS_EIGHT},
    {192, 24, 32, 224, PERM_OUTLIERS, SCALE_F16, 1, 0, ZEROS_OUTLIERS},
    {200, 33, 64, 320, PERM_OUTLIERS_SHUFFLED, SCALE_F32, 1, 0, ZEROS_OUTLIERS},
    /* dense: in, out */
    {256, 130, 0, 256, PERM_NONE, 0, 0, DT_F16, 0},
    {80, 65, 0, 80, PERM_NONE, 0, 1, DT_BF16, 0},
    {36, 7, 0, 36, PERM_NONE, 0, 1, DT_F32, 0},
    {1000, 64, 0, 1000, PERM_NONE, 0, 0, DT_F32, 0},
    {250, 1, 0, 250, PERM_NONE, 0, 1, DT_F16, 0},
    {7, 5, 0, 7, PERM_NONE, 0, 0, DT_BF16, 0},
    {4100, 9, 0, 4100, PERM_NONE, 0, 0, DT_F16, 0},
};

const struct shape outlier_shapes[N_OUTLIER_SHAPES] = {
    {256, 40, 32, 288, PERM_OUTLIERS, SCALE_F16, 1, 0, ZEROS_OUTLIERS},
    {200, 33, 64, 320, PERM_OUTLIERS_SHUFFLED, SCALE_F32, 1, 0, ZEROS_OUTLIERS},
    {384, 100, 128, 512, PERM_OUTLIERS, SCALE_F16, 0, 0, ZEROS_OUTLIERS},
    {640, 37, 128, 768, PERM_OUTLIERS_SHUFFLED, SCALE_F16, 1, 0, ZEROS_OUTLIERS},
    {256, 40, 64, 512, PERM_PAIRS, SCALE_F16, 1, 0, ZEROS_PAIRS}, /* all inputs are outliers */
};

static const int row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33, 256, 300};

enum {
    N_SHAPES = sizeof shapes / sizeof *shapes,
    N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts,
    MAX_LINEARS = 4
};

int32_t *make_perm(struct arena *a, struct rng *r, const struct shape *s)
{
    if (s->perm == PERM_NONE) return NULL;
    int32_t *perm = arena_get(a, (size_t)s->k * sizeof *perm);
    if (s->perm >= PERM_OUTLIERS) {
        struct shape once = *s;
        int last = s->k - s->group;
        once.k = last, once.perm = PERM_PADDED;
        const int32_t *inputs = s->perm == PERM_OUTLIERS ? NULL : make_perm(a, r, &once);
        for (int i = 0; i < last; i++) perm[i] = inputs ? inputs[i] : i;
        memcpy(perm + last, perm + last - s->group, (size_t)s->group * sizeof *perm);
        return perm;
    }
    if (s->perm >= PERM_PAIRS) {
        struct shape once = *s;
        once.k = s->k / 2, once.perm = PERM_PADDED;
        const int32_t *inputs = s->perm == PERM_PAIRS ? NULL : make_perm(a, r, &once);
        for (int i = 0; i < s->k; i++) {
            int j = i / (2 * s->group) * s->group + i % s->group;
            perm[i] = inputs ? inputs[j] : j;
        }
        return perm;
    }
    for (int i = 0; i < s->k; i++) perm[i] = s->perm == PERM_TWICE ? i % s->in : i < s->in ? i : -1;
    for (int i = s->k - 1; i > 0; i--) {
        int j = rng_below(r, i + 1), t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
    return perm;
}

/* 1: the group has the low halves of a pair. */
static int is_low_half(const struct shape *s, int group)
{
    if (s->zeros == ZEROS_OUTLIERS) return group == s->k / s->group - 1;
    return s->zeros == ZEROS_PAIRS && group % 2;
}

static void make_quantized(struct arena *a, struct rng *r, const struct shape *s, struct weights *q)
{
    int panels = (s->out + 15) / 16, groups = s->k / s->group;
    size_t n_scales = (size_t)(panels * groups * 16);
    uint8_t *codes = arena_get(a, (size_t)panels * (size_t)s->k * 8),
            *zeros = arena_get(a, n_scales);
    uint16_t *half = s->scale == SCALE_F32 ? NULL : arena_get(a, n_scales * 2);
    float *single = half ? NULL : arena_get(a, n_scales * 4);
    uint8_t *eight = arena_get(a, n_scales / 16);
    for (size_t i = 0; i < n_scales / 16; i++)
        eight[i] = s->zeros == ZEROS_EIGHT || (s->zeros == ZEROS_MIXED && rng_below(r, 3));
    for (size_t i = 0; i < n_scales; i++)
        zeros[i] = s->zeros == ZEROS_PAIRS      ? (i / 16 % 2 ? 0 : 8)
                   : s->zeros == ZEROS_OUTLIERS ? (is_low_half(s, (int)(i / 16) % groups) ? 0 : 8)
                   : eight[i / 16]              ? 8
                                                : (uint8_t)rng_below(r, 17); /* also beyond `out` */
    for (int n = 0; n < s->out; n++)
        for (int j = 0; j < s->k; j++) {
            size_t at = ((size_t)(n / 16) * (size_t)groups + (size_t)(j / s->group)) * 16 +
                        (size_t)(n % 16);
            if (j % s->group == 0) {
                float v = (0.5f + (float)rng_below(r, 1000) / 1000) * 0.01f *
                          (rng_below(r, 8) ? 1 : -1);
                int is_low = is_low_half(s, j / s->group);
                if (is_low && half) v = f32_from_f16(half[at - 16]) / 16;
                else if (is_low) v = single[at - 16] / 16;
                if (s->scale == SCALE_SUBNORMAL)
                    half[at] = (uint16_t)rng_below(r, 1024); /* 0 included: a group of zeros */
                else if (half) half[at] = f16_from_f32(v);
                else single[at] = v;
            }
            int code = rng_below(r, 16);
            codes[((size_t)(n / 16) * (size_t)(s->k / 8) + (size_t)(j / 8)) * 64 +
                  (size_t)(n % 16 * 4 + j % 4)] |= (uint8_t)(j % 8 < 4 ? code : code << 4);
            q->value[(size_t)j * (size_t)s->out + (size_t)n] =
                (half ? f32_from_f16(half[at]) : single[at]) * (float)(code - zeros[at]);
        }
    q->w.codes = codes;
    q->w.zeros = zeros;
    q->w.scales = half ? (void *)half : single;
    q->w.scale_type = half ? DT_F16 : DT_F32;
    q->w.group = s->group;
    q->w.n_groups = groups;
}

static void make_dense(struct arena *a, struct rng *r, const struct shape *s, struct weights *q)
{
    size_t n = (size_t)s->in * (size_t)s->out;
    uint16_t *half = s->weight_type == DT_F32 ? NULL : arena_get(a, n * 2);
    float *single = half ? NULL : arena_get(a, n * 4);
    for (int o = 0; o < s->out; o++)
        for (int j = 0; j < s->in; j++) {
            size_t at = (size_t)o * (size_t)s->in + (size_t)j;
            float v = rng_normal(r) * 0.05f;
            if (s->weight_type == DT_BF16) half[at] = (uint16_t)(f32_bits(v) >> 16);
            else if (half)
                half[at] = rng_below(r, 50) ? f16_from_f32(v) : (uint16_t)rng_below(r, 1024);
            else single[at] = v;
            q->value[(size_t)j * (size_t)s->out + (size_t)o] = !half ? v
                                                               : s->weight_type == DT_F16
                                                                   ? f32_from_f16(half[at])
                                                                   : f32_from_bf16(half[at]);
        }
    q->w.weight = half ? (void *)half : single;
    q->w.weight_type = s->weight_type;
}

struct weights make_weights(struct arena *a, struct rng *r, const struct shape *s,
                            const int32_t *perm)
{
    struct weights q = {.w = {.in = s->in, .out = s->out, .k = s->k}};
    q.value = arena_get(a, (size_t)s->k * (size_t)s->out * sizeof *q.value);
    q.packed_x = arena_get(a, (size_t)s->k * sizeof *q.packed_x);
    if (s->group) make_quantized(a, r, s, &q);
    else make_dense(a, r, s, &q);
    q.w.perm = perm;
    if (s->bias) {
        float *bias = arena_get(a, (size_t)s->out * sizeof *bias);
        for (int n = 0; n < s->out; n++) bias[n] = rng_normal(r);
        q.w.bias = bias;
    }
    linear_find_pairs(&q.w);
    CHECK(q.w.pairs == (s->zeros == ZEROS_PAIRS));
    CHECK(q.w.outliers == (s->zeros == ZEROS_OUTLIERS));
    return q;
}

/* Quantizes x [k] and converts it back: sub-groups of at most 128 inputs, scale = largest / top.
 * The first `low` inputs: largest integer 7, which nine tenths of the largest magnitude are.
 * by_row: one scale for all. */
static void quantize(const struct linear *w, double *x, float top, int low, int by_row)
{
    enum { SUBGROUP = 128 };
    float all = 0;
    for (int j = 0; j < w->k && by_row; j++) all = fmaxf(all, fabsf((float)x[j]));
    for (int g = 0; g < w->k; g += w->group)
        for (int j0 = g; j0 < g + w->group; j0 += SUBGROUP) {
            int j1 = j0 + SUBGROUP < g + w->group ? j0 + SUBGROUP : g + w->group;
            float largest = all, most = g < low ? 7 : top;
            for (int j = j0; j < j1 && !by_row; j++) largest = fmaxf(largest, fabsf((float)x[j]));
            if (g < low) largest *= 0.9f;
            for (int j = j0; j < j1; j++) {
                float q = nearbyintf((float)x[j] * (most / largest));
                x[j] = largest > 0x1p-100f ? (double)(largest / most) * fminf(q, most) : 0;
            }
        }
}

/* Rounds x [k] to fp16 with a power-of-two scale that brings the largest magnitude into [2^14,
 * 2^15). */
static void round_to_f16(double *x, int k)
{
    int exponent;
    double largest = 0;
    for (int j = 0; j < k; j++) largest = fmax(largest, fabs(x[j]));
    frexp(largest, &exponent); /* largest = m * 2^exponent, m in [1/2, 1) */
    for (int j = 0; j < k; j++)
        x[j] = ldexp(f32_from_f16(f16_from_f32((float)ldexp(x[j], 15 - exponent))), exponent - 15);
}

/* The loop over outputs is innermost: no reduction, so the compiler vectorizes it. */
void expect(const struct weights *q, enum act act, const float *x, float *y, float *bound, int rows)
{
    enum { MAX_OUT = 520 };
    int out = q->w.out;
    for (int r = 0; r < rows; r++, x += q->w.in, y += out, bound += out) {
        double sum[MAX_OUT] = {0}, magnitude[MAX_OUT] = {0};
        CHECK(out <= MAX_OUT);
        for (int j = 0; j < q->w.k; j++)
            q->packed_x[j] = !q->w.perm ? x[j] : q->w.perm[j] < 0 ? 0 : x[q->w.perm[j]];
        if (act == ACT_F16 && q->w.codes) round_to_f16(q->packed_x, q->w.k);
        else if (act != ACT_F32 && q->w.codes)
            quantize(&q->w, q->packed_x, act == ACT_I16 ? 16256 : 127,
                     act == ACT_INT4 && q->w.outliers ? q->w.k - 2 * q->w.group : 0,
                     act == ACT_INT8_TOKEN);
        for (int j = 0; j < q->w.k; j++) {
            double v = q->packed_x[j];
            const float *w = q->value + (size_t)j * (size_t)out;
            if (v != 0)
                for (int n = 0; n < out; n++) {
                    double p = v * w[n];
                    sum[n] += p;
                    magnitude[n] += fabs(p);
                }
        }
        for (int n = 0; n < out; n++) {
            double b = q->w.bias ? q->w.bias[n] : 0;
            y[n] = (float)(sum[n] + b);
            bound[n] = (float)(0x1p-14 * magnitude[n] + 0x1p-23 * fabs(b));
            if (magnitude[n] == 0) bound[n] = 0;
        }
    }
}

/* Arguments of one call: n linears, rows of x. */
struct call {
    const struct weights *q;
    int n, rows, n_decode;
    const float *x;        /* [rows][in] */
    float *y[MAX_LINEARS]; /* [rows][out_i], filled by run */
};

/* The linears of a call on the rows of a batch; x, y: device buffers [rows][in], [rows][out_i]. */
static void apply(struct side *s, const struct call *k, struct be_linear *const packed[], void *x,
                  const struct dbuf y[], const struct batch *b)
{
    struct trial t = {0};
    int w[MAX_LINEARS], out[MAX_LINEARS];
    int in = trial_buffer(&t, x, ROWS_STEP, (size_t)k->q[0].w.in * 4);
    for (int i = 0; i < k->n; i++) {
        w[i] = trial_linear(&t, &k->q[i].w, packed[i]);
        out[i] = trial_buffer(&t, y[i].d, ROWS_STEP, (size_t)k->q[i].w.out * 4);
    }
    trial_linears(&t, in, k->n, w, out);
    trial_run(&t, s, b, 0);
}

/* Opens, packs, runs; when `alone` is set, then runs some rows by themselves and compares bits. */
static void run(struct check *c, int v, const char *name, const struct variant *on, int n_threads,
                const struct call *k, int alone, struct rng *r)
{
    struct side s;
    struct err e;
    struct arena a = {0};
    struct be_linear *packed[MAX_LINEARS];
    struct dbuf y[MAX_LINEARS];
    int in = k->q[0].w.in;
    struct be_config config = plain_config(k->rows);
    config.act = c->act;
    side_open(&s, on, n_threads, config);
    struct dbuf x = dbuf_from(&s, k->x, (size_t)k->rows * (size_t)in * sizeof(float));
    for (int i = 0; i < k->n; i++) {
        if (s.ops->pack(s.be, &k->q[i].w, &packed[i], &e)) {
            fail(c, v, name, "pack: %s", e.msg);
            k = NULL;
            side_close(&s);
            return;
        }
        y[i] = dbuf_new(&s, (size_t)k->rows * (size_t)k->q[i].w.out * sizeof(float));
    }
    struct batch b = make_plain_batch(&a, k->rows, k->n_decode);
    apply(&s, k, packed, x.d, y, &b);
    for (int i = 0; i < k->n; i++) {
        dbuf_get(&s, &y[i], k->y[i]);
        compare_fences(c, v, name, "output", &s, &y[i]);
    }
    float *x_after = arena_get(&a, x.bytes);
    dbuf_get(&s, &x, x_after);
    compare_bits(c, v, name, "the input afterwards", x_after, k->x, (size_t)k->rows * (size_t)in,
                 (size_t)in);
    for (int t = 0; alone && t < 2 * k->rows && t < 24; t++) {
        /* every row of small batches, then runs of 2 to 7 rows; in large batches rows at the ends
         * and around 256 */
        int m = t < k->rows && t < 12 ? 1 : 1 + rng_below(r, k->rows < 7 ? k->rows : 7);
        int row = m > 1                         ? rng_below(r, k->rows - m + 1)
                  : k->rows <= 12               ? t % k->rows
                  : t % 3 == 0                  ? k->rows - 1 - t / 3
                  : t % 3 == 1 && k->rows > 256 ? 254 + t / 3
                                                : rng_below(r, k->rows);
        int decode = k->n_decode - row < 0 ? 0 : k->n_decode - row < m ? k->n_decode - row : m;
        struct batch one = make_plain_batch(&a, m, decode);
        struct dbuf part[MAX_LINEARS];
        for (int i = 0; i < k->n; i++) {
            part[i] = dbuf_new(&s, (size_t)m * (size_t)k->q[i].w.out * sizeof(float));
        }
        apply(&s, k, packed, x.d + (size_t)row * (size_t)in * 4, part, &one);
        for (int i = 0; i < k->n; i++) {
            size_t out = (size_t)k->q[i].w.out;
            float *got = arena_get(&a, part[i].bytes);
            char what[80];
            dbuf_get(&s, &part[i], got);
            snprintf(what, sizeof what, "linear %d, rows %d..%d by themselves", i, row,
                     row + m - 1);
            compare_bits(c, v, name, what, got, k->y[i] + (size_t)row * out, (size_t)m * out, out);
            compare_fences(c, v, name, what, &s, &part[i]);
            dbuf_free(&s, &part[i]);
        }
    }
    for (int i = 0; i < k->n; i++) {
        s.ops->drop(s.be, packed[i]);
        dbuf_free(&s, &y[i]);
    }
    dbuf_free(&s, &x);
    side_close(&s);
    arena_free(&a);
}

static void check_call(struct check *c, const char *name, struct call *k, struct arena *a,
                       struct rng *r)
{
    if (is_caught(c)) return;
    float *want[MAX_LINEARS], *bound[MAX_LINEARS], *tight[MAX_LINEARS], *ref[MAX_LINEARS],
        *first[MAX_LINEARS], *kept[MAX_LINEARS];
    for (int i = 0; i < k->n; i++) {
        size_t n = (size_t)k->rows * (size_t)k->q[i].w.out;
        want[i] = arena_get(a, n * 4), bound[i] = arena_get(a, n * 4),
        tight[i] = arena_get(a, n * 4), ref[i] = arena_get(a, n * 4),
        first[i] = arena_get(a, n * 4), kept[i] = arena_get(a, n * 4), k->y[i] = ref[i];
        expect(&k->q[i], c->act, k->x, want[i], bound[i], k->rows);
        /* The reference rounds scale * (code - zero) to fp32 if the scale is fp32: 2^-24 of the
         * magnitudes; both round the result. */
        for (size_t t = 0; t < n; t++)
            tight[i][t] = bound[i][t] > 0 ? bound[i][t] * 0x1p-8f + 0x1p-23f * fabsf(want[i][t])
                                          : 0;
    }
    run(c, REF, name, &c->ref, 2, k, 0, r);
    count_case(c, REF);
    for (int i = 0; i < k->n; i++)
        compare(c, REF, name, "against the harness", ref[i], want[i], tight[i], (size_t)k->rows,
                (size_t)k->q[i].w.out);
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        for (int i = 0; i < k->n; i++) k->y[i] = first[i];
        run(c, v, name, &c->v[v], 1, k, 1, r);
        for (int i = 0; i < k->n; i++) {
            char what[32];
            snprintf(what, sizeof what, "linear %d", i);
            compare(c, v, name, what, first[i], ref[i], bound[i], (size_t)k->rows,
                    (size_t)k->q[i].w.out);
            compare_variants(c, v, name, what, kept[i], first[i],
                             (size_t)k->rows * (size_t)k->q[i].w.out, (size_t)k->q[i].w.out);
            k->y[i] = want[i]; /* the expected result is not needed any more */
        }
        if (!runs_again(c, v)) continue;
        run(c, v, name, &c->v[v], 3, k, 0, r);
        for (int i = 0; i < k->n; i++)
            compare_bits(c, v, name, "3 threads against 1", want[i], first[i],
                         (size_t)k->rows * (size_t)k->q[i].w.out, (size_t)k->q[i].w.out);
    }
}

void describe(char *name, const struct shape *s, int rows, int n_decode)
{
    if (s->group)
        snprintf(
            name, NAME_BYTES,
            "4-bit %dx%d k %d group %d perm %s scales %s zeros %s bias %d, %d rows (%d decode)",
            s->in, s->out, s->k, s->group, perm_names[s->perm], scale_names[s->scale],
            zero_names[s->zeros], s->bias, rows, n_decode);
    else
        snprintf(name, NAME_BYTES, "%s %dx%d bias %d, %d rows (%d decode)",
                 type_names[s->weight_type], s->in, s->out, s->bias, rows, n_decode);
}

/* All inputs equal and all codes 15, of pairs 0: the largest possible integer sums over one group.
 */
static void check_extremes(struct check *c, int pairs)
{
    static const struct shape shape[] = {
        {11008, 17, 11008, 11008, PERM_NONE, SCALE_F16, 0, 0, 0},
        {11008, 17, 11008, 22016, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    };
    const struct shape s = shape[pairs];
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "extreme digits over one group of %d, perm %s", s.in,
             perm_names[s.perm]);
    struct rng r = rng_for(c->seed, name);
    struct weights q = make_weights(&a, &r, &s, make_perm(&a, &r, &s));
    int panels = (s.out + 15) / 16, groups = s.k / s.group;
    memset((uint8_t *)q.w.codes, pairs ? 0 : 0xff, (size_t)(panels * s.k * 8));
    if (!pairs) memset((uint8_t *)q.w.zeros, 0, (size_t)(panels * 16));
    for (int j = 0; j < s.k; j++)
        for (int n = 0; n < s.out; n++) {
            size_t at = (size_t)((n / 16 * groups + j / s.group) * 16 + n % 16);
            q.value[j * s.out + n] = f32_at(q.w.scales, q.w.scale_type, at) *
                                     (float)((pairs ? 0 : 15) - q.w.zeros[at]);
        }
    float *x = arena_get(&a, (size_t)(3 * s.in) * sizeof *x);
    for (int j = 0; j < s.in; j++)
        x[j] = 100, x[s.in + j] = -100, x[2 * s.in + j] = j % 2 ? 99.99f : -100;
    struct call k = {.q = &q, .n = 1, .rows = 3, .n_decode = 1, .x = x};
    check_call(c, name, &k, &a, &r);
    arena_free(&a);
}

static void check_shape(struct check *c, const struct shape *s, int rows, int n_decode,
                        int first_kind, const char *tag)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    describe(name, s, rows, n_decode);
    strncat(name, tag, NAME_BYTES - strlen(name) - 1);
    struct rng r = rng_for(c->seed + (uint64_t)first_kind, name);
    struct weights q = make_weights(&a, &r, s, make_perm(&a, &r, s));
    float *x = arena_get(&a, (size_t)rows * (size_t)s->in * sizeof *x);
    if (first_kind >= 0) {
        fill_rows(&r, first_kind, x, rows, s->in);
    } else {
        for (int i = 0; i < rows; i++)
            fill_row(&r, ROW_ONE_HOT, i, x + (size_t)i * (size_t)s->in, s->in);
    }
    struct call k = {.q = &q, .n = 1, .rows = rows, .n_decode = n_decode, .x = x};
    check_call(c, name, &k, &a, &r);
    arena_free(&a);
}

/* Several linears of one input: mixed widths, equal permutations (by address and by value) and
 * different ones, pairs. */
static void check_fused(struct check *c, int rows)
{
    static const struct shape same[] = {{192, 40, 64, 192, PERM_SHUFFLED, SCALE_F16, 1, 0, 0},
                                        {192, 17, 32, 192, PERM_SHUFFLED, SCALE_F32, 0, 0, 0},
                                        {192, 70, 96, 192, PERM_SHUFFLED, SCALE_F16, 0, 0, 0}};
    static const struct shape mixed[] = {{192, 40, 64, 192, PERM_NONE, SCALE_F16, 1, 0, 0},
                                         {192, 9, 0, 192, PERM_NONE, 0, 1, DT_F16, 0},
                                         {192, 33, 64, 256, PERM_PADDED, SCALE_F16, 0, 0, 0}};
    static const struct shape dense[] = {{192, 40, 0, 192, PERM_NONE, 0, 1, DT_F16, 0},
                                         {192, 9, 0, 192, PERM_NONE, 0, 0, DT_BF16, 0},
                                         {192, 33, 0, 192, PERM_NONE, 0, 0, DT_F32, 0}};
    static const struct shape pairs[] = {
        {192, 40, 32, 384, PERM_PAIRS, SCALE_F32, 1, 0, ZEROS_PAIRS},
        {192, 17, 32, 384, PERM_PAIRS, SCALE_F32, 0, 0, ZEROS_PAIRS},
        {192, 70, 32, 384, PERM_PAIRS, SCALE_F32, 0, 0, ZEROS_EIGHT}};
    for (int kind = 0; kind < 6; kind++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        struct weights q[3];
        int n = kind == 3 ? 2 : 3;
        snprintf(name, NAME_BYTES, "%d linears, %s, %d rows", n,
                 (const char *const[]){"one perm", "equal perms", "different perms",
                                       "with and without perm, dense", "dense of three types",
                                       "pairs"}[kind],
                 rows);
        if (kind == 3) n = 3;
        struct rng r = rng_for(c->seed, name);
        const int32_t *first = make_perm(&a, &r, &same[0]);
        for (int i = 0; i < n; i++) {
            const struct shape *s = kind == 5   ? &pairs[i]
                                    : kind == 4 ? &dense[i]
                                    : kind == 3 ? &mixed[i]
                                                : &same[i];
            const int32_t *perm = first;
            if (kind >= 2) perm = make_perm(&a, &r, s);
            if (kind == 1)
                perm = memcpy(arena_get(&a, 192 * sizeof *perm), first, 192 * sizeof *perm);
            q[i] = make_weights(&a, &r, s, perm);
        }
        float *x = arena_get(&a, (size_t)rows * 192 * sizeof *x);
        fill_rows(&r, 0, x, rows, 192);
        struct call k = {.q = q, .n = n, .rows = rows, .n_decode = rows / 2, .x = x};
        check_call(c, name, &k, &a, &r);
        arena_free(&a);
    }
}

/* GPU kernels process long inputs in stages, for which the quick cases are too short: split-K
 * shares of unequal length, several stages, fp16 and fp32 scales, groups smaller than a thread's
 * share and not a power of two. */
static void check_long(struct check *c)
{
    static const struct shape s[] = {
        {2432, 20, 128, 2432, PERM_NONE, SCALE_F32, 1, 0, 0},
        {4864, 9, 128, 4864, PERM_NONE, SCALE_F16, 0, 0, 0},
        {2304, 33, 256, 2304, PERM_SHUFFLED, SCALE_F16, 1, 0, ZEROS_MIXED},
        {1408, 17, 704, 1408, PERM_NONE, SCALE_F16, 0, 0, 0},
        {1440, 17, 32, 1440, PERM_NONE, SCALE_F32, 0, 0, 0},
    };
    static const int rows[] = {1, 2, 4, 8};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            check_shape(c, &s[i], rows[m], rows[m] == 2 ? 1 : rows[m], (int)(i + m), ", long");
}

/* Many rows in integers, in tiles: of the last rows and outputs some are not there
 * (hopper/exact_linear_wgmma.hip; an emulated device of two multiprocessors chooses each of its
 * kernels for one of these). */
static void check_tiles(struct check *c)
{
    static const struct shape s[] = {
        {512, 200, 128, 512, PERM_NONE, SCALE_F16, 1, 0, 0},
        {512, 192, 256, 512, PERM_SHUFFLED, SCALE_F16, 0, 0, ZEROS_MIXED},
        {256, 72, 32, 512, PERM_PAIRS, SCALE_F32, 0, 0, ZEROS_PAIRS},
        {512, 40, 128, 1024, PERM_PAIRS_SHUFFLED, SCALE_F16, 1, 0, ZEROS_PAIRS},
    };
    static const int rows[] = {17, 70, 130};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            check_shape(c, &s[i], rows[m], (int)m % 2 * 40, (int)(i + m), ", tiles");
}

/* Many decode rows of 4-bit weights, alone and beside prompt rows, in tiles that two blocks share,
 * on a device of twelve multiprocessors four, and of slices of unequal length
 * (hopper/linear_dealt_wgmma.hip). */
void check_linear_many(struct check *c)
{
    static const struct shape s[] = {
        {1152, 40, 128, 1152, PERM_NONE, SCALE_F16, 1, 0, 0},
        {1024, 300, 256, 1024, PERM_SHUFFLED, SCALE_F16, 0, 0, ZEROS_MIXED},
        {512, 140, 128, 512, PERM_NONE, SCALE_F16, 0, 0, 0},
    };
    static const int rows[][2] = {{300, 300}, {110, 100}, {300, 280}}; /* all, decode rows */
    c->act = ACT_F16;
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        check_shape(c, &s[i], rows[i][0], rows[i][1], (int)i, ", many");
    c->act = ACT_F32;
}

/* Many rows of plain weights and codes of 8 bits, in tiles (hopper/linear_plain_wgmma.hip,
 * plain_decode_wgmma.hip; the device of two multiprocessors chooses each of their kernels for one
 * of these). */
static void check_plain_tiles(struct check *c)
{
    static const struct shape s[] = {
        {320, 520, 0, 320, PERM_NONE, 0, 1, DT_BF16, 0},
        {512, 140, 0, 512, PERM_NONE, 0, 0, DT_BF16, 0},
        {1000, 40, 0, 1000, PERM_NONE, 0, 1, DT_BF16, 0},
        {448, 264, 0, 448, PERM_NONE, 0, 1, DT_F16, 0},
        {256, 40, 0, 256, PERM_NONE, 0, 0, DT_F16, 0},
        {512, 200, 32, 1024, PERM_PAIRS, SCALE_F16, 1, 0, ZEROS_PAIRS},
        {320, 360, 32, 640, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS},
    };
    static const int rows[][2] = {{1, 0}, {70, 40}, {130, 0}, {140, 130}}; /* all, decode rows */
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            check_shape(c, &s[i], rows[m][0], rows[m][1], (int)(i + m), ", tiles");
}

void check_linear(struct check *c)
{
    int cpu = !strcmp(c->v[0].ops->name, "cpu"); /* an emulated GPU is slow for many rows */
    for (int i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        /* all row counts on two 4-bit shapes and two dense ones, a few on the others: the reference
         * is slow */
        int thorough = i == 1 || i == 7 || s->in == 256;
        for (int m = 0; m < N_ROW_COUNTS; m++) {
            int rows = row_counts[m];
            if (s->in > 1000 && rows > 7) continue;
            if (!thorough && rows != 1 && rows != 3 && rows != 5 && rows != 17 && rows != 33)
                continue;
            if (c->quick && (s->in > 500 || (rows > 8 && (!cpu || (rows != 17 && rows != 33)))))
                continue;
            check_shape(c, s, rows, m % 3 == 0 ? rows : m % 3 == 1 ? 0 : rows / 2, i + m, "");
        }
        /* one row of every kind, which takes the GEMV path */
        for (int kind = 0; kind < ROW_KINDS; kind++)
            if (kind != (i % ROW_KINDS) && !(c->quick && s->in > 500))
                check_shape(c, s, 1, 1, kind, "");
        /* each weight alone: rows of the identity matrix */
        if (s->in <= 300 && (!c->quick || s->in <= 200 || i == 0))
            check_shape(c, s, s->in, 0, -1, ", identity");
    }
    /* all remainders of panels, half panels and vectors of outputs, and of vectors of inputs */
    for (int i = 1; i <= (c->quick ? 0 : 39); i++)
        for (int rows = 1; rows <= 13; rows += 4) {
            check_shape(c,
                        &(struct shape){96, i, 32, 96, PERM_NONE, i % 2 ? SCALE_F16 : SCALE_F32,
                                        i % 3 != 0, 0, (enum zero_kind)(i / 2 % 3)},
                        rows, 0, i, "");
            check_shape(c,
                        &(struct shape){64 + i, i, 0, 64 + i, PERM_NONE, 0, i % 3 != 0,
                                        (enum dtype)(DT_F16 + i % 3), 0},
                        rows, 0, i, "");
        }
    check_fused(c, 1);
    check_fused(c, 6);
    if (!c->quick) check_fused(c, 40);
    if (!cpu) check_long(c);
    if (!cpu && gpu.act != ACT_F32) check_tiles(c);
    if (!cpu && c->act == ACT_F16) check_plain_tiles(c);
    check_extremes(c, 0);
    check_extremes(c, 1);
}

/* The CPU uses its fp32 kernels on rounded inputs, so few cases suffice. A GPU has kernels of its
 * own. */
void check_linear_f16(struct check *c)
{
    int quick = c->quick;
    c->act = ACT_F16;
    c->quick = quick || !strcmp(c->v[0].ops->name, "cpu");
    check_linear(c);
    c->quick = quick;
    c->act = ACT_F32;
}

void check_linear_i16(struct check *c)
{
    c->act = ACT_I16;
    check_linear(c);
    c->act = ACT_F32;
}

void check_linear_int8(struct check *c)
{
    c->act = ACT_INT8;
    check_linear(c);
    c->act = ACT_F32;
}

void check_linear_token(struct check *c)
{
    int quick = c->quick;
    c->act = ACT_INT8_TOKEN;
    c->quick = 1; /* int8's kernels on other scales */
    check_linear(c);
    c->quick = quick;
    c->act = ACT_F32;
}

void check_linear_int4(struct check *c)
{
    static const int rows_of[] = {1, 2, 3, 4, 5, 8, 9, 17, 33, 70};
    c->act = ACT_INT4;
    for (int i = 0; i < N_OUTLIER_SHAPES; i++) {
        const struct shape *s = &outlier_shapes[i];
        for (int m = 0; m < (int)(sizeof rows_of / sizeof *rows_of); m++) {
            int rows = rows_of[m];
            if (c->quick && (rows > 17 || (s->in > 300 && rows > 3))) continue;
            check_shape(c, s, rows, m % 3 == 0 ? rows : m % 3 == 1 ? 0 : rows / 2, i + m, "");
        }
        for (int kind = 0; kind < ROW_KINDS; kind++) check_shape(c, s, 1, 1, kind, "");
        if (!c->quick || i == 1) check_shape(c, s, s->in, 0, -1, ", identity");
    }
    c->act = gpu.act;
}

/* The paper's ablation (backend-hip/kernels/paper/linear_paper.hip). Its sums are fp16, with a
 * bound of their own: within 8 inputs a product and 4 additions are rounded to fp16, then the
 * scaled sum, then each atomic addition, one per 128 inputs (512 with smb): at most 6 + k/128
 * roundings of 2^-11 of the magnitudes, and 2^-25 for each subnormal one. Bits are not compared:
 * atomics have no order. No large rows, because results are fp16. */
void check_paper(struct check *c)
{
    static const struct shape paper_shapes[] = {
        {256, 48, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0},
        {1024, 130, 1024, 1024, PERM_NONE, SCALE_F16, 1, 0, 0},
        {480, 80, 160, 480, PERM_NONE, SCALE_F16, 1, 0, 0},
        {256, 64, 128, 256, PERM_SHUFFLED, SCALE_F16, 0, 0, 0},
        {200, 33, 64, 256, PERM_PADDED, SCALE_F16, 1, 0, 0},
        {1280, 250, 32, 1280, PERM_NONE, SCALE_F16, 0, 0, ZEROS_EIGHT},
        {256, 40, 64, 256, PERM_NONE, SCALE_SUBNORMAL, 0, 0, 0},
    };
    static const int rows_of[] = {1, 3, 8, 11};
    c->act = ACT_F16;
    for (int i = 0; i < (int)(sizeof paper_shapes / sizeof *paper_shapes * 4); i++) {
        const struct shape *s = &paper_shapes[i / 4];
        int rows = rows_of[i % 4];
        if (c->quick && i % 4 != i / 4 % 4) continue;
        char name[NAME_BYTES];
        struct arena a = {0};
        describe(name, s, rows, rows / 2);
        struct rng r = rng_for(c->seed, name);
        struct weights q = make_weights(&a, &r, s, make_perm(&a, &r, s));
        size_t n = (size_t)rows * (size_t)s->out;
        float *x = arena_get(&a, (size_t)rows * (size_t)s->in * 4), *want = arena_get(&a, n * 4),
              *bound = arena_get(&a, n * 4), *got = arena_get(&a, n * 4);
        for (int row = 0; row < rows; row++) {
            enum row_kind kind = (enum row_kind)((i + row) % ROW_KINDS);
            fill_row(&r, kind == ROW_LARGE ? ROW_RANDOM : kind, row,
                     x + (size_t)row * (size_t)s->in, s->in);
        }
        expect(&q, c->act, x, want, bound, rows);
        int commits = (s->k + 127) / 128;
        for (size_t t = 0; t < n; t++)
            bound[t] = bound[t] > 0
                           ? bound[t] * 8 * (float)(6 + commits) + (float)commits * 0x1p-25f
                           : 0;
        for (int v = 0; hip_paper_variant_name(v); v++) {
            const struct variant on = {c->v[0].ops, hip_paper_variant_name(v), 0};
            struct call k = {
                .q = &q, .n = 1, .rows = rows, .n_decode = rows / 2, .x = x, .y = {got}};
            count_case(c, 0);
            run(c, 0, name, &on, 1, &k, 0, &r);
            compare(c, 0, name, on.name, got, want, bound, (size_t)rows, (size_t)s->out);
        }
        arena_free(&a);
    }
    c->act = ACT_F32;
}
