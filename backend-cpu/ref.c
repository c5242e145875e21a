/* ref.c: variant "ref": the reference in double precision that every other kernel is compared with.
 */
#include "backend-cpu/act_quant.h"
#include "backend-cpu/packed.h"

#include <math.h>

static const char *always(void) { return 0; }

enum { PANEL = 16 }; /* outputs whose codes lie together */

/* The codes of 8 inputs of output n from input j on, a multiple of 8: of + b is of inputs j + b and
 * j + b + 4, b < 4. */
static const uint8_t *codes_at(const struct linear *w, int n, int j)
{
    return w->codes + ((size_t)(n / PANEL) * (size_t)(w->k / 8) + (size_t)(j / 8)) * 64 +
           (size_t)(n % PANEL * 4);
}

/* n inputs of output n from j0 on, multiples of 8, as codes. */
static void unpack_codes(const struct linear *w, int n, int j0, int count, int *dst)
{
    const uint8_t *of = codes_at(w, n, j0);
    for (int j = 0; j < count; j += 8, of += 64)
        for (int b = 0; b < 4; b++) dst[j + b] = of[b] & 15, dst[j + b + 4] = of[b] >> 4;
}

/* Scale and zero point of a group of output n. */
static size_t group_at(const struct linear *w, int n, int group)
{
    return ((size_t)(n / PANEL) * (size_t)w->n_groups + (size_t)group) * PANEL +
           (size_t)(n % PANEL);
}

/* Inputs j0 .. j0+count-1 of panel p, of one group, as code - zero: dst [count][PANEL]. */
static void unpack_panel(const struct linear *w, int p, int j0, int count, double *dst)
{
    const uint8_t *zero = w->zeros + group_at(w, p * PANEL, j0 / w->group),
                  *of = codes_at(w, p * PANEL, j0);
    for (int j = 0; j < count; j += 8, of += 64)
        for (int b = 0; b < 4; b++)
            for (int i = 0; i < PANEL; i++) {
                dst[(j + b) * PANEL + i] = (of[4 * i + b] & 15) - zero[i];
                dst[(j + b + 4) * PANEL + i] = (of[4 * i + b] >> 4) - zero[i];
            }
}

/* total[i] += scale[i] * the product of codes [n][PANEL], its column i, and x [n], added up in the
 * order of the inputs: the outputs of a panel beside one another. */
static void add_products(const double *codes, const double *scale, const float *x, int n,
                         double *total)
{
    double sum[PANEL] = {0};
    for (int j = 0; j < n; j++, codes += PANEL)
        for (int i = 0; i < PANEL; i++) sum[i] += codes[i] * x[j];
    for (int i = 0; i < PANEL; i++) total[i] += scale[i] * sum[i];
}

static void ref_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
                   float *scratch)
{
    double *total = (double *)scratch, codes[CPU_SUBGROUP * PANEL], scale[PANEL];
    for (int p = p0; p < p1; p++)
        for (int r0 = 0; r0 < rows; r0 += CPU_ROW_TILE) {
            const int nr = rows - r0 < CPU_ROW_TILE ? rows - r0 : CPU_ROW_TILE,
                      n = w->out - p * PANEL < PANEL ? w->out - p * PANEL : PANEL;
            memset(total, 0, (size_t)(nr * PANEL) * sizeof *total);
            for (int j0 = 0, count; j0 < w->k; j0 += count) {
                count = q4_next(w, j0) - j0;
                const float *of = x + (size_t)j0 * (size_t)rows + (size_t)r0 * (size_t)count;
                for (int i = 0; i < PANEL; i++)
                    scale[i] = f32_at(w->scales, w->scale_type,
                                      group_at(w, p * PANEL + i, j0 / w->group));
                unpack_panel(w, p, j0, count, codes);
                for (int r = 0; r < nr; r++, of += count)
                    add_products(codes, scale, of, count, total + r * PANEL);
            }
            for (int r = 0; r < nr; r++)
                for (int i = 0; i < n; i++) {
                    const int o = p * PANEL + i;
                    y[(size_t)(r0 + r) * (size_t)w->out + (size_t)o] =
                        (float)(total[r * PANEL + i] + (w->bias ? w->bias[o] : 0));
                }
        }
}

static void ref_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q)
{
    fp32_quantize(w, x, row, q);
}

/* Codes - zero point of `count` inputs of q4i from j0 on. */
static void integer_codes(const struct linear *w, int n, int j0, int count, int zero, int *dst)
{
    int low[CPU_SUBGROUP];
    unpack_codes(w, n, q4i_packed(w, j0), count, dst);
    if (w->pairs) unpack_codes(w, n, q4i_packed(w, j0) + w->group, count, low);
    for (int j = 0; j < count; j++)
        dst[j] = w->pairs ? 16 * dst[j] + low[j] - PAIR_ZERO : dst[j] - zero;
}

/* Sums of digits and codes [n] of one sub-group, of row r. */
static long digit_sum(const struct q4_digits *x, const int *codes, int j0, int n, int r)
{
    const int8_t *first = x->digit + (size_t)j0 * (size_t)x->rows * (size_t)x->n_digits +
                          (size_t)r * (size_t)n,
                 *second = first + (size_t)x->rows * (size_t)n;
    int sum = 0, low = 0; /* at most CPU_SUBGROUP * 255 * 128 each */
    for (int j = 0; j < n; j++) sum += codes[j] * first[j];
    if (x->n_digits != 2) return sum;
    for (int j = 0; j < n; j++) low += codes[j] * second[j];
    return 128 * (long)sum + low;
}

static void ref_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                    float *scratch)
{
    double *total = (double *)scratch;
    int n1 = p1 * 16 < w->out ? p1 * 16 : w->out, codes[CPU_SUBGROUP];
    for (int r0 = 0; r0 < x->rows; r0 += CPU_ROW_TILE)
        for (int n = p0 * 16; n < n1; n++) {
            int nr = x->rows - r0 < CPU_ROW_TILE ? x->rows - r0 : CPU_ROW_TILE;
            size_t s = (size_t)r0;
            for (int r = 0; r < nr; r++) total[r] = 0;
            for (int j0 = 0, j1; j0 < q4i_inputs(w); j0 = j1, s += (size_t)x->rows) {
                j1 = q4_next(w, j0);
                const size_t at = group_at(w, n, q4i_group_of(w, j0));
                integer_codes(w, n, j0, j1 - j0, w->zeros[at], codes);
                for (int r = 0; r < nr; r++)
                    total[r] += (double)f32_at(w->scales, w->scale_type, at) *
                                (double)x->scale[s + (size_t)r] *
                                (double)digit_sum(x, codes, j0, j1 - j0, r0 + r);
            }
            for (int r = 0; r < nr; r++)
                y[(size_t)(r0 + r) * (size_t)w->out + (size_t)n] =
                    (float)(total[r] + (w->bias ? w->bias[n] : 0));
        }
}

/* Rows whose sums are added up beside one another, each in its order: an addition takes several
 * cycles, and another row's may begin in each. */
enum { BESIDE = 4 };

static void ref_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    const size_t in = (size_t)w->in, out = (size_t)w->out;
    for (int n = n0; n < n1; n++)
        for (int r0 = 0; r0 < rows; r0 += BESIDE) {
            const float *row[BESIDE];
            double sum[BESIDE] = {0};
            for (int i = 0; i < BESIDE; i++)
                row[i] = x + (size_t)(r0 + i < rows ? r0 + i : rows - 1) * in;
            for (size_t j = 0; j < in; j++) {
                double weight = f32_at(w->weight, w->weight_type, (size_t)n * in + j);
                for (int i = 0; i < BESIDE; i++) sum[i] += weight * row[i][j];
            }
            for (int i = 0; i < BESIDE && r0 + i < rows; i++)
                y[(size_t)(r0 + i) * out + (size_t)n] =
                    (float)(sum[i] + (w->bias ? w->bias[n] : 0));
        }
}

static void ref_norm(float *x, const float *delta, const float *weight, float eps, float *out,
                     int dim)
{
    double sum = 0;
    for (int i = 0; i < dim; i++) {
        if (delta) x[i] += delta[i];
        sum += (double)x[i] * x[i];
    }
    double f = 1 / sqrt(sum / dim + (double)eps);
    for (int i = 0; i < dim; i++) out[i] = (float)(x[i] * f * weight[i]);
}

static void ref_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                           float eps, float *out, int dim)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < dim; i++) {
        if (delta) x[i] += delta[i];
        sum += x[i];
    }
    double mean = sum / dim;
    for (int i = 0; i < dim; i++) squares += (x[i] - mean) * (x[i] - mean);
    double f = 1 / sqrt(squares / dim + (double)eps);
    for (int i = 0; i < dim; i++)
        out[i] = (float)((x[i] - mean) * f * weight[i] + (bias ? bias[i] : 0));
}

static void ref_add(float *x, const float *y, const float *gate, float factor, int n)
{
    double g = gate ? 1 / (1 + exp(-(double)*gate)) : 1;
    for (int i = 0; i < n; i++) x[i] = (float)((x[i] + (y ? y[i] * g : 0)) * factor);
}

static void ref_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                     float eps, const float *cosv, const float *sinv)
{
    int half = head_dim / 2;
    for (int h = 0; h < n_heads; h++, x += head_dim, y += head_dim) {
        double f = 1;
        if (weight) {
            double sum = 0;
            for (int i = 0; i < head_dim; i++) sum += (double)x[i] * x[i];
            f = 1 / sqrt(sum / head_dim + (double)eps);
        }
        for (int i = 0; i < half; i++) {
            double a = x[i] * f * (weight ? weight[i] : 1),
                   b = x[i + half] * f * (weight ? weight[i + half] : 1);
            y[i] = (float)(a * cosv[i] - b * sinv[i]);
            y[i + half] = (float)(b * cosv[i] + a * sinv[i]);
        }
    }
}

static double softcapped(double x, double cap) { return cap * tanh(x / cap); }

/* The integers of `count` elements of the key or the value at pos by their scales; scales of a page
 * [2][KV_PAGE]. */
static void integers_of(const struct attend_task *t, enum kv_part part, int pos, int count,
                        double *x)
{
    const int c = pos % KV_PAGE, n = kv_padded(KV_INT8, t->head_dim), half = 8 * n;
    const int is_packed = t->unpack && pos / KV_PAGE != t->pos0 / KV_PAGE;
    const char *p = is_packed   ? t->pages + (size_t)t->table[pos / KV_PAGE] * t->page_bytes
                    : t->unpack ? t->own
                                : page_keys(t, pos / KV_PAGE);
    const float *scales = is_packed   ? packed_scales(p, n, t->latent ? 1 : 2)
                          : t->latent ? latent_scales(p, t->head_dim)
                                      : key_scales(p, t->head_dim);
    const double scale[2] = {scales[c], scales[KV_PAGE + c]};
    const uint8_t *codes = (const uint8_t *)p + (part == KEYS ? 0 : 2 * half), *lo = codes,
                  *step = codes;
    const int bias = part == KEYS ? KEY_BIAS : 0;
    if (is_packed) {
        codes = (const uint8_t *)packed_codes(p, part, n);
        lo = (const uint8_t *)packed_lo(p, part, n), step = packed_step(p, part, n);
    }
    for (int d = 0; d < count; d++) {
        int at = (int)part_at(part, d, c, t->head_dim), code;
        if (is_packed) {
            int pair = codes[at < half ? at : at - half];
            code = (part == KEYS ? lo[d] - bias : (int8_t)lo[d]) +
                   step[d] * (at < half ? pair & 15 : pair >> 4);
        } else {
            code = part == KEYS ? codes[at] - bias : (int8_t)codes[at];
        }
        x[d] = code * scale[t->latent ? d >= t->value_dim : part == VALUES];
    }
}

/* The key at pos [head_dim]. */
static void key_of(const struct attend_task *t, int pos, double *x)
{
    if (t->kv == KV_INT8) {
        integers_of(t, KEYS, pos, t->head_dim, x);
        return;
    }
    for (int d = 0; d < t->head_dim; d++)
        x[d] = f32_at(page_keys(t, pos / KV_PAGE), t->kv == KV_F16 ? DT_F16 : DT_F32,
                      (size_t)(d * KV_PAGE + pos % KV_PAGE));
}

/* The value at pos [value_dim]. */
static void value_of(const struct attend_task *t, int pos, double *x)
{
    if (t->kv == KV_INT8) {
        integers_of(t, t->latent ? KEYS : VALUES, pos, t->value_dim, x);
        return;
    }
    for (int d = 0; d < t->value_dim; d++)
        x[d] = t->latent ? f32_at(page_keys(t, pos / KV_PAGE), t->kv == KV_F16 ? DT_F16 : DT_F32,
                                  (size_t)(d * KV_PAGE + pos % KV_PAGE))
                         : f32_at(page_values(t, pos / KV_PAGE), t->kv == KV_F16 ? DT_F16 : DT_F32,
                                  (size_t)(pos % KV_PAGE * t->head_dim + d));
}

/* A query as attention takes it: in integers of KV_INT8 rounded, else as it is. */
static void query_of(const struct attend_task *t, const float *q, double *x)
{
    int rounds = t->kv == KV_INT8 && t->q_top, first = t->latent ? t->value_dim : t->head_dim;
    for (int d0 = 0, n = first; d0 < t->head_dim; d0 += n, n = t->head_dim - first) {
        float scale, factor = 0;
        if (rounds) factor = kv_group_factor(kv_largest(q + d0, n), (float)t->q_top, &scale);
        for (int d = d0; d < d0 + n; d++)
            x[d] = !rounds ? q[d] : (double)scale * (factor == 0 ? 0 : kv_round(q[d], factor));
    }
}

/* The query before kv_rotate, in double. */
static void undo_rotation(const float *q, int head_dim, double *x)
{
    for (int i = 0; i < head_dim; i++) x[i] = q[i];
    for (int apart = 1; apart < kv_rotation(head_dim); apart *= 2)
        for (int i = 0; i < head_dim; i++) {
            double a = x[i], b = x[i ^ apart];
            if (i & apart) continue;
            x[i] = a + b, x[i ^ apart] = a - b;
        }
}

/* The term of key biases; plain: the query before kv_rotate. */
static double bias_term(const struct attend_task *t, const double *plain, int pos)
{
    const int half = t->head_dim / 2, i = pos % KEY_BIAS_CHUNK;
    const float *turn = t->turns + (size_t)(pos / KEY_BIAS_CHUNK) * (size_t)t->head_dim,
                *row = t->bias;
    double sum = 0;
    for (int k = 0; k < t->bias_pairs; k++, row += KEY_BIAS_ROW) {
        const int d = (int)row[2 * KEY_BIAS_CHUNK];
        const double c = turn[2 * d], s = turn[2 * d + 1], a = plain[d], b = plain[d + half];
        sum += (a * c + b * s) * row[i] + (b * c - a * s) * row[KEY_BIAS_CHUNK + i];
    }
    return sum;
}

/* q: as query_of gives it; plain as bias_term takes it. */
static double key_dot(const struct attend_task *t, const double *q, const double *plain, int pos)
{
    double s = t->bias_pairs ? bias_term(t, plain, pos) : 0, key[1024];
    key_of(t, pos, key);
    for (int d = 0; d < t->head_dim; d++) s += q[d] * key[d];
    return t->softcap > 0 ? softcapped(s * t->scale, t->softcap) : s * t->scale;
}

/* Two passes over the positions (maximum, then sums): the scores of any number of positions need no
 * memory. Those of the first ones are kept. */
static void ref_attend(const struct attend_task *t, float *scratch)
{
    enum { KEPT = 512 };
    (void)scratch;
    for (int r = 0; r < t->n_rows; r++)
        for (int h = 0; h < t->n_heads; h++) {
            double q[1024], plain[1024]; /* head_dim <= 1024, checked by core/model/model.c */
            double score[KEPT];
            const int first = attend_first(t, r);
            const float *given = t->q + (size_t)r * (size_t)t->row_stride +
                                 (size_t)h * (size_t)t->head_dim;
            query_of(t, given, q);
            if (t->bias_pairs) undo_rotation(given, t->head_dim, plain);
            float *out = t->out + (size_t)r * (size_t)t->out_stride +
                         (size_t)h * (size_t)t->value_dim;
            double acc[1024] = {0}, sink = t->sinks ? t->sinks[h] : -INFINITY, max = sink;
            for (int p = first; p <= t->pos0 + r; p++) {
                double s = key_dot(t, q, plain, p);
                if (p - first < KEPT) score[p - first] = s;
                max = fmax(max, s);
            }
            double sum = t->sinks ? exp(sink - max) : 0;
            for (int p = first; p <= t->pos0 + r; p++) {
                double s = p - first < KEPT ? score[p - first] : key_dot(t, q, plain, p);
                double w = exp(s - max), value[1024];
                sum += w;
                value_of(t, p, value);
                for (int d = 0; d < t->value_dim; d++) acc[d] += w * value[d];
            }
            for (int d = 0; d < t->value_dim; d++) out[d] = (float)(acc[d] / sum);
        }
}

static double clamped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double activation(const struct cpu_glu *a, double x)
{
    switch (a->activation) {
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case ACTIVATION_RELU2: return x < 0 ? 0 : x * x;
    case ACTIVATION_NONE: return x;
    case ACTIVATION_SWIGLU_CLAMPED:
        x = clamped(x, -INFINITY, a->limit);
        return x / (1 + exp(-a->alpha * x));
    case ACTIVATION_XIELU:
        if (x > 0) return x * (a->xielu.p * x + a->xielu.beta);
        return (expm1(x < a->xielu.eps ? x : a->xielu.eps) - x) * a->xielu.n + a->xielu.beta * x;
    default: return x / (1 + exp(-x));
    }
}

static void ref_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double u = up ? up[i] : 1;
        if (a->activation == ACTIVATION_SWIGLU_CLAMPED) u = clamped(u, -a->limit, a->limit) + 1;
        gate[i] = (float)(activation(a, gate[i]) * u);
    }
}

static void ref_softcap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)softcapped(x[i], cap);
}

/* Marks the `count` largest of v [n], on ties those of the lowest index; is [n] is all 0 before. */
static void mark_largest(const double *v, int n, int count, char *is)
{
    for (int k = 0; k < count; k++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!is[i] && (best < 0 || v[i] > v[best])) best = i;
        is[best] = 1;
    }
}

/* Sets choice [n] to -infinity outside the groups with the largest sums of two, or `best` ones. */
static void keep_groups(double *choice, int n, int groups, int kept, int best)
{
    double sum[ROUTE_MAX_EXPERTS];
    char is[ROUTE_MAX_EXPERTS] = {0};
    int each = n / groups;
    for (int g = 0; g < groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int i = g * each; i < (g + 1) * each; i++)
            if (choice[i] > first) second = first, first = choice[i];
            else if (choice[i] > second) second = choice[i];
        sum[g] = each < 2 || best ? first : first + second;
    }
    mark_largest(sum, groups, kept, is);
    for (int i = 0; i < n; i++)
        if (!is[i / each]) choice[i] = -INFINITY;
}

static void ref_route(const struct route_task *t)
{
    const struct op *op = t->op;
    int n = op->as.route.n_experts, top = op->as.route.top_k, nan = 0, j = 0;
    double s[ROUTE_MAX_EXPERTS], choice[ROUTE_MAX_EXPERTS] = {0}, max = -INFINITY, sum = 0,
                                 chosen = 0;
    char is[ROUTE_MAX_EXPERTS] = {0};
    for (int i = 0; i < n; i++) max = t->x[i] > max ? t->x[i] : max; /* NaN excluded */
    for (int i = 0; i < n; i++) {
        s[i] = op->as.route.score == ROUTER_SIGMOID ? 1 / (1 + exp(-(double)t->x[i]))
                                                    : exp(t->x[i] - max);
        sum += s[i];
        nan |= s[i] != s[i];
    }
    for (; nan && j < top; j++) t->id[j] = j, t->weight[j] = NAN;
    if (nan) return;
    for (int i = 0; i < n; i++) {
        if (op->as.route.score == ROUTER_SOFTMAX) s[i] /= sum;
        choice[i] = s[i] + (t->bias ? t->bias[i] : 0);
    }
    if (op->as.route.groups > 1 && op->as.route.kept_groups < op->as.route.groups)
        keep_groups(choice, n, op->as.route.groups, op->as.route.kept_groups,
                    op->as.route.group_best);
    mark_largest(choice, n, top, is);
    for (int i = 0; i < n; i++)
        if (is[i]) t->id[j++] = i, chosen += s[i];
    for (j = 0; j < top; j++)
        t->weight[j] = (float)(s[t->id[j]] / (op->as.route.normalize ? chosen : 1) *
                               (op->as.route.scale != 0 ? op->as.route.scale : 1) *
                               (t->factor ? t->factor[t->id[j]] : 1));
}

static void ref_sums(const float *x, int group, int groups, float *out)
{
    for (int g = 0; g < groups; g++, x += group) {
        double sum = 0;
        for (int i = 0; i < group; i++) sum += x[i];
        out[g] = (float)sum;
    }
}

static void ref_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < top_k; j++)
            sum += (double)weight[j] * x[(size_t)j * (size_t)n + (size_t)i];
        out[i] = (float)sum;
    }
}

static double silu(double x) { return x / (1 + exp(-x)); }

static void ref_conv(const struct conv_task *t)
{
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->channels; c++) {
            double sum = 0;
            for (int i = 0; i < t->width; i++) {
                int at = r - t->width + 1 + i;
                sum += (double)t->weight[i * CONV_CHANNELS + c] *
                       (at < 0 ? t->before[(at + t->width - 1) * CONV_CHANNELS + c]
                               : t->x[(size_t)at * (size_t)t->row_stride + (size_t)c]);
            }
            if (t->bias) sum += (double)t->bias[c];
            t->out[(size_t)r * (size_t)t->row_stride + (size_t)c] = (float)(t->linear ? sum
                                                                                      : silu(sum));
        }
}

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static void ref_delta_prepare(const struct delta_inputs *t)
{
    int n = t->key_dim;
    for (int h = 0; h < 2 * t->key_heads; h++) {
        int is_q = h < t->key_heads;
        float *y = t->unit + (size_t)(is_q ? h : h - t->key_heads) * t->unit_stride + !is_q * n;
        const float *x = is_q ? t->q + h * n : t->k + (h - t->key_heads) * n;
        double sum = 1e-6, f;
        for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
        f = t->rule == DELTA_SSM || t->rule == DELTA_SCAN ? 1 : 1 / sqrt(is_q ? sum * n : sum);
        for (int i = 0; i < n; i++) y[i] = (float)(x[i] * f);
    }
    for (int h = 0; h < t->value_heads; h++) {
        const float *a = t->a + h * t->gates, *bias = t->bias + h * t->gates;
        float *g = t->g + (size_t)h * t->gate_stride, *beta = t->beta + (size_t)h * t->step_stride;
        for (int i = 0; i < t->gates; i++)
            g[i] = (float)exp(t->decay[h] * softplus((double)a[i] + bias[i]));
        for (int i = 0; i < t->steps; i++) /* DELTA_SCAN has one head */
            beta[i] = (float)(t->b
                                  ? t->beta_scale / (1 + exp(-(double)t->b[h]))
                                  : softplus(t->a[h + i] + (t->bias ? (double)t->bias[h + i] : 0)));
    }
}

/* S is rounded to fp32 once a row, as it is stored: results do not depend on the rows of a task. */
static void ref_delta(const struct delta_task *t)
{
    for (int r = 0; r < t->rows; r++) {
        const float *q = t->unit + (size_t)r * 2 * (size_t)t->key_dim, *k = q + t->key_dim;
        int scan = t->rule == DELTA_SCAN, channels = t->rule == DELTA_CHANNELS;
        for (int c = 0; c < t->columns; c++) {
            double sum = 0, out = 0, u, g[1024], /* key_dim <= 1024, checked by the architecture */
                beta = scan ? t->beta[(size_t)r * (size_t)t->beta_stride + (size_t)c] : t->beta[r];
            float *s = t->s + c;
            for (int i = 0; i < t->key_dim; i++)
                g[i] = scan       ? exp(beta * t->decay[i * DELTA_COLUMNS + c])
                       : channels ? t->g[r * t->key_dim + i]
                                  : t->g[r];
            for (int i = 0; i < t->key_dim && t->rule != DELTA_SSM && !scan; i++)
                sum += k[i] * (g[i] * s[i * DELTA_COLUMNS]);
            double v = t->v[(size_t)r * (size_t)t->v_stride + (size_t)c];
            u = beta * (v - sum);
            for (int i = 0; i < t->key_dim; i++) {
                double x = g[i] * s[i * DELTA_COLUMNS] + k[i] * u;
                out += q[i] * x;
                s[i * DELTA_COLUMNS] = (float)x;
            }
            if (t->rule == DELTA_SSM) out += t->skip * v;
            if (scan) out += t->skips[c] * v;
            t->out[(size_t)r * (size_t)t->out_stride + (size_t)c] = (float)out;
        }
    }
}

static void ref_choose(const struct choose_task *t)
{
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < KV_PAGE; c++) {
            double total = 0;
            for (int h = 0; h < t->n_heads; h++) {
                const float *q = t->q +
                                 ((size_t)r * (size_t)t->n_heads + (size_t)h) * (size_t)t->head_dim;
                double sum = 0;
                for (int d = 0; d < t->head_dim; d++)
                    sum += (double)q[d] * t->keys[d * KV_PAGE + c];
                total += t->w[(size_t)r * (size_t)t->n_heads + (size_t)h] * (sum > 0 ? sum : 0);
            }
            t->score[(size_t)r * t->stride + (size_t)c] = (float)total;
        }
}

static const struct state_kernels ref_states = {ref_conv, ref_delta_prepare, ref_delta, ref_choose};

const struct cpu_kernels cpu_ref = {
    .name = "ref",
    .unusable = always,
    .q4 = ref_q4,
    .quantize = ref_quantize,
    .q4i = ref_q4i,
    .dense = ref_dense,
    .norm = ref_norm,
    .layer_norm = ref_layer_norm,
    .add = ref_add,
    .rope = ref_rope,
    .attend = ref_attend,
    .glu = ref_glu,
    .softcap = ref_softcap,
    .states = &ref_states,
    .copy_digits = digits_copy,
    .route = ref_route,
    .mix = ref_mix,
    .sums = ref_sums,
    .unpack = plain_unpack,
};
