/* kernels_loops.h: the loops of kernels.h, for a file that defines vectors of F32_LANES floats and
 * F64_LANES doubles with their operations, tiles of TILE_I x (2 vectors), and KERNELS, the name of
 * its table. */
#include "quantize/kernels.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE void tile_f32(const struct tn_f32 *t, int i0, int j0)
{
    f32v sum[TILE_I][2];
    const float *a = t->a + i0, *b = t->b + j0;
    for (int i = 0; i < TILE_I; i++) sum[i][0] = sum[i][1] = f32_set(0);
    for (int r = 0; r < t->nr; r++, a += t->lda, b += t->ldb) {
        f32v b0 = f32_load(b), b1 = f32_load(b + F32_LANES);
        for (int i = 0; i < TILE_I; i++) {
            f32v x = f32_set(a[i]);
            sum[i][0] = f32_fma(x, b0, sum[i][0]);
            sum[i][1] = f32_fma(x, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < TILE_I; i++)
        for (int k = 0; k < 2; k++) {
            float *c = t->c + (size_t)(i0 + i) * t->ldc + j0 + k * F32_LANES;
            f32_store(c,
                      t->minus ? f32_sub(f32_load(c), sum[i][k]) : f32_add(f32_load(c), sum[i][k]));
        }
}

static void loops_tn_f32(const struct tn_f32 *t)
{
    for (int j = 0; j < t->nj; j += 2 * F32_LANES)
        for (int i = 0; i < t->ni; i += TILE_I) tile_f32(t, i, j);
}

INLINE void tile_f64(const struct tn_f64 *t, int i0, int j0)
{
    f64v sum[TILE_I][2];
    const double *a = t->a + i0, *b = t->b + j0;
    for (int i = 0; i < TILE_I; i++) sum[i][0] = sum[i][1] = f64_set(0);
    for (int r = 0; r < t->nr; r++, a += t->lda, b += t->ldb) {
        f64v b0 = f64_load(b), b1 = f64_load(b + F64_LANES);
        for (int i = 0; i < TILE_I; i++) {
            f64v x = f64_set(a[i]);
            sum[i][0] = f64_fma(x, b0, sum[i][0]);
            sum[i][1] = f64_fma(x, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < TILE_I; i++)
        for (int k = 0; k < 2; k++) {
            double *c = t->c + (size_t)(i0 + i) * t->ldc + j0 + k * F64_LANES;
            f64_store(c,
                      t->minus ? f64_sub(f64_load(c), sum[i][k]) : f64_add(f64_load(c), sum[i][k]));
        }
}

static void loops_tn_f64(const struct tn_f64 *t)
{
    for (int j = 0; j < t->nj; j += 2 * F64_LANES)
        for (int i = 0; i < t->ni; i += TILE_I) tile_f64(t, i, j);
}

/* To the nearest integer, halves to even; |x| < 2^22. */
INLINE float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
INLINE float least(float a, float b) { return a < b ? a : b; }
INLINE float most(float a, float b) { return a > b ? a : b; }

/* The nearest number of F16 that is not 0: 11 digits, or multiples of 2^-24. */
INLINE float to_f16(float s)
{
    float split = s * 8193.0f, normal = split - (split - s), small = (s + 0.5f) - 0.5f;
    small = most(small, 0x1p-24f);
    return least(s < 0x1p-14f ? small : normal, 65504.0f);
}

/* |x|^2.4 to 6e-5 of itself: x^2 2^(0.4 log2 |x|), 0 for what is below 2^-60. */
INLINE float power(float x)
{
    float a = most(fabsf(x), 0x1p-60f), small = fabsf(x) < 0x1p-60f ? 0.0f : 1.0f;
    int32_t bits, out;
    memcpy(&bits, &a, 4);
    int32_t up = (bits & 0x7fffff) > 0x3504f3;
    int32_t e = ((bits >> 23) & 255) - 127 + up, m = (bits & 0x7fffff) | ((127 - up) << 23);
    float f, y;
    memcpy(&f, &m, 4);
    f -= 1.0f; /* log2(1 + f) for f in [-0.293, 0.415] */
    float p = fmaf(f, -0.1549f, 0.2270f);
    p = fmaf(f, p, -0.2490f);
    p = fmaf(f, p, 0.2865f);
    p = fmaf(f, p, -0.36045f);
    p = fmaf(f, p, 0.48087f);
    p = fmaf(f, p, -0.721349f);
    p = fmaf(f, p, 1.442695f);
    y = 0.4f * fmaf(f, p, (float)e);
    float whole = nearest(y), rest = y - whole;
    float g = fmaf(rest, 0.009618f, 0.0555041f);
    g = fmaf(rest, g, 0.2402265f);
    g = fmaf(rest, g, 0.6931472f);
    g = fmaf(rest, g, 1.0f);
    out = ((int32_t)whole + 127) << 23;
    memcpy(&y, &out, 4);
    return small * (a * a) * (g * y);
}

struct extent {
    float low[LANES_ROWS], high[LANES_ROWS];
};

INLINE void extent_of(const struct range_of *o, struct extent *x)
{
    for (int l = 0; l < LANES_ROWS; l++) x->low[l] = x->high[l] = 0;
    for (int i = 0; i < o->n; i++)
        for (int l = 0; l < LANES_ROWS; l++) {
            float w = o->w[i * LANES_ROWS + l];
            x->low[l] = least(x->low[l], w);
            x->high[l] = most(x->high[l], w);
        }
    for (int l = 0; l < LANES_ROWS; l++) {
        float top = most(-x->low[l], x->high[l]), none = top == 0 ? 1.0f : 0.0f;
        if (o->sym) x->low[l] = -top, x->high[l] = top;
        x->low[l] -= none, x->high[l] += none;
    }
}

/* The scales and zero points of an extent that is shrunk by `factor`. Zero points of the asymmetric
 * kind are at least 1: stored minus one, 0 would borrow from the next field. */
INLINE void range_at(const struct range_of *o, const struct extent *x, float factor,
                     struct range *r)
{
    float codes = (float)((1 << o->bits) - 1), middle = (float)(1 << (o->bits - 1));
    for (int l = 0; l < LANES_ROWS; l++) {
        float low = x->low[l] * factor, high = x->high[l] * factor;
        r->scale[l] = to_f16((high - low) / codes);
        r->inverse[l] = 1.0f / r->scale[l];
        float zero = nearest(most(least(-low * r->inverse[l], 4096.0f), 0.0f));
        r->zero[l] = o->sym ? middle : most(1.0f, least(zero, codes));
        r->error[l] = 0;
    }
}

INLINE float rounded(float w, float inverse, float zero, float codes)
{
    float q = nearest(most(-65536.0f, least(65536.0f, w * inverse))) + zero;
    return most(0.0f, least(codes, q));
}

static void loops_find_range(const struct range_of *o, struct range *best)
{
    float codes = (float)((1 << o->bits) - 1);
    struct extent x;
    struct range r;
    extent_of(o, &x);
    range_at(o, &x, o->clip > 0 ? o->clip : 1, best);
    for (int step = 0; step < RANGE_STEPS && o->search; step++) {
        range_at(o, &x, 1 - (float)step / 100, &r);
        for (int i = 0; i < o->n; i++) {
            const float *w = o->w + i * LANES_ROWS;
            for (int l = 0; l < LANES_ROWS; l++) {
                float q = rounded(w[l], r.inverse[l], r.zero[l], codes) - r.zero[l];
                r.error[l] += power(fmaf(q, r.scale[l], -w[l]));
            }
        }
        for (int l = 0; l < LANES_ROWS; l++) {
            int better = !step || r.error[l] < best->error[l];
            best->scale[l] = better ? r.scale[l] : best->scale[l];
            best->inverse[l] = better ? r.inverse[l] : best->inverse[l];
            best->zero[l] = better ? r.zero[l] : best->zero[l];
            best->error[l] = better ? r.error[l] : best->error[l];
        }
    }
}

/* Row i of the factor, from column i on, lies in panels of TN_COLUMNS columns. */
INLINE float factor_at(const struct round_of *o, int i, int j)
{
    return o->u[((size_t)(j / TN_COLUMNS) * (size_t)o->n + (size_t)i) * TN_COLUMNS +
                (size_t)(j % TN_COLUMNS)];
}

static void loops_round_inputs(const struct round_of *o)
{
    float codes = (float)((1 << o->bits) - 1);
    const struct range *r = o->range;
    for (int i = o->from; i < o->to; i++) {
        float *w = o->w + i * LANES_ROWS, *e = o->e + i * LANES_ROWS, d = 1.0f / factor_at(o, i, i);
        unsigned char *q = o->q + i * LANES_ROWS;
        for (int l = 0; l < LANES_ROWS; l++) {
            float code = rounded(w[l], r->inverse[l], r->zero[l], codes),
                  value = r->scale[l] * (code - r->zero[l]), drift = w[l] - value;
            if (o->beta > 0) drift = fmaf(-o->beta, w[l] - o->raw[i * LANES_ROWS + l], drift);
            q[l] = (unsigned char)code;
            e[l] = drift * d;
            w[l] = value;
        }
        for (int j = i + 1; j < o->n; j++) {
            float u = factor_at(o, i, j), *to = o->w + j * LANES_ROWS;
            for (int l = 0; l < LANES_ROWS; l++) to[l] = fmaf(-u, e[l], to[l]);
        }
        if (o->beta > 0 && i + 1 < o->n) {
            float *to = w + LANES_ROWS;
            const float *raw = o->raw + (i + 1) * LANES_ROWS;
            for (int l = 0; l < LANES_ROWS; l++) to[l] = fmaf(-o->beta, to[l] - raw[l], to[l]);
        }
    }
}

/* Every element of the inverse is one chain, k ascending; terms beyond the diagonal are 0. */
static int loops_diagonal(double *g, size_t ld, int n, double *v)
{
    for (int p = 0; p < n; p++) {
        double *row = g + (size_t)p * ld;
        if (!(row[p] > 0) || !isfinite(row[p])) return 0;
        double d = sqrt(row[p]);
        for (int j = p; j < n; j++) row[j] /= d;
        for (int i = p + 1; i < n; i++) {
            double *to = row + (size_t)(i - p) * ld, x = -row[i];
            for (int j = i; j < n; j++) to[j] = fma(x, row[j], to[j]);
        }
    }
    memset(v, 0, sizeof *v * GPTQ_BLOCK * GPTQ_BLOCK);
    for (int i = n - 1; i >= 0; i--) {
        const double *r = g + (size_t)i * ld;
        double *to = v + i * GPTQ_BLOCK;
        for (int k = i + 1; k < n; k++)
            for (int j = k; j < n; j++) to[j] = fma(r[k], v[k * GPTQ_BLOCK + j], to[j]);
        for (int j = i + 1; j < n; j++) to[j] = -to[j] / r[i];
        to[i] = 1 / r[i];
    }
    return 1;
}

const struct quantize_kernels KERNELS = {
    .name = KERNELS_NAME,
    .tn_f32 = loops_tn_f32,
    .tn_f64 = loops_tn_f64,
    .find_range = loops_find_range,
    .round_inputs = loops_round_inputs,
    .diagonal = loops_diagonal,
};
