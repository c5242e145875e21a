/* states_loops.h: the kernels of OP_CONV and OP_DELTA over the vectors of a variant, which defines
 * before it includes this: VEC_LANES (a divisor of LANES), vec, vec_load, vec_store, vec_set1,
 * vec_sub, vec_mul, vec_fma(a, b, c) = a b + c, vec_exp of x <= 0 and vec_silu, whose lanes have
 * the bits of cpu_expf and silu_of. */
#ifndef BACKEND_CPU_STATES_LOOPS_H
#define BACKEND_CPU_STATES_LOOPS_H

#include "backend-cpu/fp32.h"
#include "backend-cpu/states.h"

#define EACH_VEC(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

ALWAYS_INLINE float silu_of(float x) { return x / (1.0f + cpu_expf(-x)); }

/* linear, biased: of the task, as constants */
ALWAYS_INLINE void conv_row(const struct conv_task *t, const float *const *row, float *out,
                            const int width, const int linear, const int biased)
{
    int c = 0;
    for (; c + VEC_LANES <= t->channels; c += VEC_LANES) {
        vec sum = vec_mul(vec_load(t->weight + c), vec_load(row[0] + c));
        EACH_VEC (i, width - 1)
            sum = vec_fma(vec_load(t->weight + (i + 1) * CONV_CHANNELS + c),
                          vec_load(row[i + 1] + c), sum);
        if (biased) sum = vec_add(sum, vec_load(t->bias + c));
        vec_store(out + c, linear ? sum : vec_silu(sum));
    }
    for (; c < t->channels; c++) {
        float sum = t->weight[c] * row[0][c];
        for (int i = 1; i < width; i++)
            sum = fmaf(t->weight[i * CONV_CHANNELS + c], row[i][c], sum);
        if (biased) sum += t->bias[c];
        out[c] = linear ? sum : silu_of(sum);
    }
}

ALWAYS_INLINE void conv_row_any(const struct conv_task *t, const float *const *row, float *out)
{
    if (t->linear && t->bias) conv_row(t, row, out, t->width, 1, 1);
    else if (t->linear) conv_row(t, row, out, t->width, 1, 0);
    else if (t->bias && t->width == 4) conv_row(t, row, out, 4, 0, 1);
    else if (t->bias) conv_row(t, row, out, t->width, 0, 1);
    else if (t->width == 4) conv_row(t, row, out, 4, 0, 0);
    else conv_row(t, row, out, t->width, 0, 0);
}

ALWAYS_INLINE void states_conv(const struct conv_task *t)
{
    for (int r = 0; r < t->rows; r++) {
        const float *row[CONV_WIDTH];
        float *out = t->out + (size_t)r * (size_t)t->row_stride;
        for (int i = 0; i < t->width; i++) {
            int at = r - t->width + 1 + i;
            row[i] = at < 0 ? t->before + (at + t->width - 1) * CONV_CHANNELS
                            : t->x + (size_t)at * (size_t)t->row_stride;
        }
        conv_row_any(t, row, out);
    }
}

/* q and k as they are. */
ALWAYS_INLINE void states_copy_keys(const struct delta_inputs *t)
{
    size_t n = (size_t)t->key_dim, bytes = n * sizeof(float);
    for (int h = 0; h < t->key_heads; h++) {
        float *y = t->unit + (size_t)h * t->unit_stride;
        memcpy(y, t->q + (size_t)h * n, bytes);
        memcpy(y + n, t->k + (size_t)h * n, bytes);
    }
}

/* The step dt of every head in place of beta. */
ALWAYS_INLINE void states_ssm_prepare(const struct delta_inputs *t)
{
    states_copy_keys(t);
    for (int h = 0; h < t->value_heads; h++)
        t->beta[(size_t)h * t->step_stride] = cpu_softplusf(t->a[h] + t->bias[h]);
    for (int h = 0; h < t->value_heads; h++) { /* by itself: its constants fill the registers */
        size_t at = (size_t)h * t->gate_stride;
        t->g[at] = cpu_expf(t->decay[h] * t->beta[(size_t)h * t->step_stride]);
    }
}

/* A step of every column. */
ALWAYS_INLINE void states_scan_prepare(const struct delta_inputs *t)
{
    states_copy_keys(t);
    float *beta = t->beta;
    for (int c = 0; c < t->steps; c++) beta[c] = t->a[c] + (t->bias ? t->bias[c] : 0);
    for (int c = 0; c < t->steps; c++) beta[c] = cpu_softplusf(beta[c]);
}

ALWAYS_INLINE void states_delta_prepare(const struct delta_inputs *t)
{
    if (t->rule == DELTA_SSM) {
        states_ssm_prepare(t);
        return;
    }
    if (t->rule == DELTA_SCAN) {
        states_scan_prepare(t);
        return;
    }
    int n = t->key_dim;
    float root = 1.0f / sqrtf((float)n);
    for (int h = 0; h < 2 * t->key_heads; h++) {
        int is_q = h < t->key_heads;
        const float *x = is_q ? t->q + h * n : t->k + (h - t->key_heads) * n;
        float *y = t->unit + (size_t)(is_q ? h : h - t->key_heads) * t->unit_stride + !is_q * n;
        float f = 1.0f / sqrtf(sum_squares(x, n) + 1e-6f);
        if (is_q)
            for (int i = 0; i < n; i++) y[i] = x[i] * f * root;
        else
            for (int i = 0; i < n; i++) y[i] = x[i] * f;
    }
    for (int h = 0; h < t->value_heads; h++) {
        const float *a = t->a + h * t->gates, *bias = t->bias + h * t->gates;
        float *g = t->g + (size_t)h * t->gate_stride;
        for (int i = 0; i < t->gates; i++) g[i] = cpu_softplusf(a[i] + bias[i]);
        for (int i = 0; i < t->gates; i++) /* by itself, as above */
            g[i] = cpu_expf(t->decay[h] * g[i]);
        t->beta[(size_t)h * t->step_stride] = t->beta_scale / (1.0f + cpu_expf(-t->b[h]));
    }
}

enum { DELTA_VECS = DELTA_COLUMNS / VEC_LANES };

/* k S of the first row and S = g S. channels: a decay for each row of S */
ALWAYS_INLINE void delta_begin(const struct delta_task *t, vec *sum, const int channels)
{
    vec g = vec_set1(t->g[0]);
    float *s = t->s;
    EACH_VEC (c, DELTA_VECS) sum[c] = vec_set1(0);
    for (int i = 0; i < t->key_dim; i++, s += DELTA_COLUMNS) {
        vec k = vec_set1(t->unit[t->key_dim + i]);
        if (channels) g = vec_set1(t->g[i]);
        EACH_VEC (c, DELTA_VECS) {
            vec x = vec_mul(g, vec_load(s + c * VEC_LANES));
            vec_store(s + c * VEC_LANES, x);
            sum[c] = vec_fma(k, x, sum[c]);
        }
    }
}

/* One row: S += k u and out = q S; with `next` in the same pass S = g S and sum = k S of the next
 * row. */
ALWAYS_INLINE void delta_row(const struct delta_task *t, int r, const vec *u, vec *sum, vec *out,
                             const int next, const int channels)
{
    const float *q = t->unit + (size_t)r * 2 * (size_t)t->key_dim, *k = q + t->key_dim,
                *then = next ? k + 2 * t->key_dim : k;
    const float *gates = t->g + (size_t)(r + next) * (size_t)(channels ? t->key_dim : 1);
    vec g = vec_set1(next ? gates[0] : 0);
    float *s = t->s;
    EACH_VEC (c, DELTA_VECS) sum[c] = out[c] = vec_set1(0);
    _Pragma("GCC unroll 4")
    for (int i = 0; i < t->key_dim; i++, s += DELTA_COLUMNS) {
        vec ki = vec_set1(k[i]), qi = vec_set1(q[i]), ti = vec_set1(then[i]);
        EACH_VEC (c, DELTA_VECS) {
            vec x = vec_fma(ki, u[c], vec_load(s + c * VEC_LANES));
            out[c] = vec_fma(qi, x, out[c]);
            if (next) {
                if (channels) g = vec_set1(gates[i]);
                x = vec_mul(g, x);
                sum[c] = vec_fma(ti, x, sum[c]);
            }
            vec_store(s + c * VEC_LANES, x);
        }
    }
}

/* Asks for the values and outputs of a later row: rows are far apart. */
ALWAYS_INLINE void delta_ask(const struct delta_task *t, int r)
{
    if (r >= t->rows) return;
    for (int c = 0; c < t->columns; c += 16) {
        __builtin_prefetch(t->v + (size_t)r * (size_t)t->v_stride + c);
        __builtin_prefetch(t->out + (size_t)r * (size_t)t->out_stride + c, 1);
    }
}

ALWAYS_INLINE void copy_columns(float *to, const float *from, int n)
{
    if (n == DELTA_COLUMNS) memcpy(to, from, DELTA_COLUMNS * sizeof *to);
    else memcpy(to, from, (size_t)n * sizeof *to);
}

/* Rows of DELTA_SSM that one pass over S takes: as many as the registers hold. */
enum { SSM_ROWS = VEC_LANES == 16 ? 4 : 1 };

/* Rows r .. r + n - 1: S = g S + k u and out = q S, row by row. */
ALWAYS_INLINE void ssm_rows(const struct delta_task *t, int r, const int n)
{
    vec u[SSM_ROWS][DELTA_VECS], out[SSM_ROWS][DELTA_VECS], g[SSM_ROWS];
    size_t dk = (size_t)t->key_dim;
    const float *q = t->unit + (size_t)r * 2 * dk;
    float v[SSM_ROWS][DELTA_COLUMNS] = {{0}}, *s = t->s;
    EACH_VEC (j, n) {
        copy_columns(v[j], t->v + (size_t)(r + j) * (size_t)t->v_stride, t->columns);
        g[j] = vec_set1(t->g[r + j]);
        EACH_VEC (c, DELTA_VECS) {
            u[j][c] = vec_mul(vec_set1(t->beta[r + j]), vec_load(v[j] + c * VEC_LANES));
            out[j][c] = vec_set1(0);
        }
    }
    for (size_t i = 0; i < dk; i++, s += DELTA_COLUMNS)
        EACH_VEC (c, DELTA_VECS) {
            vec x = vec_load(s + c * VEC_LANES);
            EACH_VEC (j, n) {
                const float *row = q + (size_t)j * 2 * dk + i;
                x = vec_fma(vec_set1(row[dk]), u[j][c], vec_mul(g[j], x));
                out[j][c] = vec_fma(vec_set1(row[0]), x, out[j][c]);
            }
            vec_store(s + c * VEC_LANES, x);
        }
    EACH_VEC (j, n) {
        EACH_VEC (c, DELTA_VECS)
            vec_store(v[j] + c * VEC_LANES,
                      vec_fma(vec_set1(t->skip), vec_load(v[j] + c * VEC_LANES), out[j][c]));
        copy_columns(t->out + (size_t)(r + j) * (size_t)t->out_stride, v[j], t->columns);
    }
}

ALWAYS_INLINE void states_ssm(const struct delta_task *t)
{
    int r = 0;
    for (; r + SSM_ROWS <= t->rows; r += SSM_ROWS) ssm_rows(t, r, SSM_ROWS);
    for (; r < t->rows; r++) ssm_rows(t, r, 1);
}

/* Vectors that one pass over S takes: as many as registers hold beside vec_exp's constants. */
enum { SCAN_VECS = VEC_LANES == 16 ? DELTA_VECS : 1 };

/* Columns `first` on of a row, SCAN_VECS vectors: S = exp(step a) S + k step v and out = q S; step,
 * v, out [DELTA_COLUMNS] */
ALWAYS_INLINE void scan_columns(const struct delta_task *t, const float *q, const float *step,
                                const float *v, float *out, int first)
{
    size_t dk = (size_t)t->key_dim;
    const float *a = t->decay + first;
    float *s = t->s + first;
    vec dt[SCAN_VECS], u[SCAN_VECS], sum[SCAN_VECS];
    EACH_VEC (c, SCAN_VECS) {
        dt[c] = vec_load(step + first + c * VEC_LANES);
        u[c] = vec_mul(dt[c], vec_load(v + first + c * VEC_LANES));
        sum[c] = vec_set1(0);
    }
    for (size_t i = 0; i < dk; i++, s += DELTA_COLUMNS, a += DELTA_COLUMNS)
        EACH_VEC (c, SCAN_VECS) {
            vec g = vec_exp(vec_mul(dt[c], vec_load(a + c * VEC_LANES))),
                x = vec_fma(vec_set1(q[dk + i]), u[c], vec_mul(g, vec_load(s + c * VEC_LANES)));
            sum[c] = vec_fma(vec_set1(q[i]), x, sum[c]);
            vec_store(s + c * VEC_LANES, x);
        }
    EACH_VEC (c, SCAN_VECS) vec_store(out + first + c * VEC_LANES, sum[c]);
}

/* DELTA_SCAN, row by row: every cell of S has a decay of its own. */
ALWAYS_INLINE void states_scan(const struct delta_task *t)
{
    size_t dk = (size_t)t->key_dim;
    for (int r = 0; r < t->rows; r++) {
        const float *q = t->unit + (size_t)r * 2 * dk;
        float v[DELTA_COLUMNS] = {0}, beta[DELTA_COLUMNS] = {0}, skip[DELTA_COLUMNS] = {0},
              out[DELTA_COLUMNS];
        copy_columns(v, t->v + (size_t)r * (size_t)t->v_stride, t->columns);
        copy_columns(beta, t->beta + (size_t)r * (size_t)t->beta_stride, t->columns);
        copy_columns(skip, t->skips, t->columns);
        for (int first = 0; first < DELTA_COLUMNS; first += SCAN_VECS * VEC_LANES)
            scan_columns(t, q, beta, v, out, first);
        EACH_VEC (c, DELTA_VECS)
            vec_store(v + c * VEC_LANES,
                      vec_fma(vec_load(skip + c * VEC_LANES), vec_load(v + c * VEC_LANES),
                              vec_load(out + c * VEC_LANES)));
        copy_columns(t->out + (size_t)r * (size_t)t->out_stride, v, t->columns);
    }
}

ALWAYS_INLINE void states_gated(const struct delta_task *t, const int channels)
{
    vec sum[DELTA_VECS], out[DELTA_VECS], u[DELTA_VECS];
    float v[DELTA_COLUMNS] = {0};
    delta_begin(t, sum, channels);
    for (int r = 0; r < t->rows; r++) {
        delta_ask(t, r + 4);
        vec beta = vec_set1(t->beta[r]);
        copy_columns(v, t->v + (size_t)r * (size_t)t->v_stride, t->columns);
        EACH_VEC (c, DELTA_VECS)
            u[c] = vec_mul(beta, vec_sub(vec_load(v + c * VEC_LANES), sum[c]));
        if (r + 1 < t->rows) delta_row(t, r, u, sum, out, 1, channels);
        else delta_row(t, r, u, sum, out, 0, channels);
        EACH_VEC (c, DELTA_VECS) vec_store(v + c * VEC_LANES, out[c]);
        copy_columns(t->out + (size_t)r * (size_t)t->out_stride, v, t->columns);
    }
}

ALWAYS_INLINE void states_delta(const struct delta_task *t)
{
    switch (t->rule) {
    case DELTA_SSM: states_ssm(t); break;
    case DELTA_SCAN: states_scan(t); break;
    case DELTA_CHANNELS: states_gated(t, 1); break;
    default: states_gated(t, 0);
    }
}

#endif
