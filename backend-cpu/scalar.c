/* scalar.c: variant "scalar": plain C over arrays of 16, for processors without a variant of their
 * own. */
#include "backend-cpu/act_quant.h"
#include "backend-cpu/attend_int8.h"
#include "backend-cpu/fp32_experts.h"
#include "backend-cpu/packed.h"

static const char *always(void) { return 0; }

/* Unpacks one sub-group of one panel, inputs j0 .. j0+n-1, to floats code - zero: dst [n][16]. */
static void unpack_codes(const struct linear *w, int p, int j0, int n, float *dst)
{
    const uint8_t *z = w->zeros +
                       ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * LANES;
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    for (int j = 0; j < n; j += 8, c += 64)
        for (int b = 0; b < 4; b++)
            for (int l = 0; l < LANES; l++) {
                dst[(j + b) * LANES + l] = (float)((c[l * 4 + b] & 15) - z[l]);
                dst[(j + 4 + b) * LANES + l] = (float)((c[l * 4 + b] >> 4) - z[l]);
            }
}

static void scalar_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
                      float *scratch)
{
    float *codes = scratch, *total = scratch + CPU_SUBGROUP * LANES;
    for (int p = p0; p < p1; p++)
        for (int r0 = 0; r0 < rows; r0 += CPU_ROW_TILE) {
            int nr = rows - r0 < CPU_ROW_TILE ? rows - r0 : CPU_ROW_TILE,
                n1 = w->out - p * LANES < LANES ? w->out - p * LANES : LANES;
            memset(total, 0, (size_t)(nr * LANES) * sizeof *total);
            for (int j0 = 0, n; j0 < w->k; j0 += n) {
                n = q4_next(w, j0) - j0;
                float s[LANES];
                for (int l = 0; l < LANES; l++)
                    s[l] =
                        f32_at(w->scales, w->scale_type,
                               ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * LANES +
                                   (size_t)l);
                unpack_codes(w, p, j0, n, codes);
                for (int r = 0; r < nr; r++) {
                    const float *xr = x + (size_t)j0 * (size_t)rows + (size_t)(r0 + r) * (size_t)n;
                    float sum[LANES] = {0};
                    for (int j = 0; j < n; j++)
                        for (int l = 0; l < LANES; l++)
                            sum[l] = fmaf(codes[j * LANES + l], xr[j], sum[l]);
                    for (int l = 0; l < LANES; l++)
                        total[r * LANES + l] = fmaf(s[l], sum[l], total[r * LANES + l]);
                }
            }
            for (int r = 0; r < nr; r++)
                for (int l = 0; l < n1; l++) {
                    int o = p * LANES + l;
                    y[(size_t)(r0 + r) * (size_t)w->out + (size_t)o] =
                        w->bias ? total[r * LANES + l] + w->bias[o] : total[r * LANES + l];
                }
        }
}

/* Unpacks n packed inputs from j0 on to codes with the zero points left in: dst [n][16]. */
static void unpack_raw(const struct linear *w, int p, int j0, int n, int16_t *dst)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    for (int j = 0; j < n; j += 8, c += 64)
        for (int b = 0; b < 4; b++)
            for (int l = 0; l < LANES; l++) {
                dst[(j + b) * LANES + l] = c[l * 4 + b] & 15;
                dst[(j + 4 + b) * LANES + l] = c[l * 4 + b] >> 4;
            }
}

/* codes [n][16]: high halves, which become codes of 8 bits with the low ones from packed input j0
 * on; low: scratch */
static void unpack_low(const struct linear *w, int p, int j0, int n, int16_t *codes, int16_t *low)
{
    unpack_raw(w, p, j0, n, low);
    for (int i = 0; i < n * LANES; i++) codes[i] = (int16_t)(16 * codes[i] + low[i]);
}

/* sum[16] = factor * sum + codes[n][16] * x[n]; 16 products of at most 15 * 128 fit int16. */
static void dot_digit(const int16_t *codes, const int8_t *x, int n, int factor, int32_t *sum)
{
    for (int l = 0; l < LANES; l++) sum[l] *= factor;
    for (int j0 = 0; j0 < n; j0 += 16) {
        int16_t part[LANES] = {0};
        for (int j = j0; j < j0 + 16; j++)
            for (int l = 0; l < LANES; l++)
                part[l] = (int16_t)(part[l] + codes[j * LANES + l] * x[j]);
        for (int l = 0; l < LANES; l++) sum[l] += part[l];
    }
}

/* dot_digit() for codes of 8 bits. */
static void dot_pairs(const int16_t *codes, const int8_t *x, int n, int factor, int32_t *sum)
{
    for (int l = 0; l < LANES; l++) sum[l] *= factor;
    for (int j = 0; j < n; j++)
        for (int l = 0; l < LANES; l++) sum[l] += codes[j * LANES + l] * x[j];
}

static void scalar_quantize(const struct linear *w, const float *x, int row,
                            const struct q4_digits *q)
{
    fp32_quantize(w, x, row, q);
}

static void scalar_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                       float *scratch)
{
    int16_t *codes = (int16_t *)scratch,
            *low = codes + CPU_SUBGROUP * LANES; /* [CPU_SUBGROUP][16] */
    float *total = scratch + CPU_SUBGROUP * LANES;
    void (*dot)(const int16_t *, const int8_t *, int, int, int32_t *) = w->pairs ? dot_pairs
                                                                                 : dot_digit;
    for (int p = p0; p < p1; p++)
        for (int r0 = 0; r0 < x->rows; r0 += CPU_ROW_TILE) {
            int nr = x->rows - r0 < CPU_ROW_TILE ? x->rows - r0 : CPU_ROW_TILE,
                n1 = w->out - p * LANES < LANES ? w->out - p * LANES : LANES;
            size_t s = (size_t)r0;
            memset(total, 0, (size_t)(nr * LANES) * sizeof *total);
            for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += (size_t)x->rows) {
                n = q4_next(w, j0) - j0;
                size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * LANES;
                const int8_t *digit = x->digit + (size_t)j0 * (size_t)(x->rows * x->n_digits) +
                                      (size_t)r0 * (size_t)n;
                unpack_raw(w, p, q4i_packed(w, j0), n, codes);
                if (w->pairs) unpack_low(w, p, q4i_packed(w, j0) + w->group, n, codes, low);
                for (int r = 0; r < nr; r++, digit += n) {
                    int32_t sum[LANES] = {0};
                    dot(codes, digit, n, 1, sum);
                    if (x->n_digits == 2)
                        dot(codes, digit + (size_t)x->rows * (size_t)n, n, 128, sum);
                    for (int l = 0; l < LANES; l++) {
                        int zero = w->pairs ? PAIR_ZERO : w->zeros[at + (size_t)l];
                        int32_t v = sum[l] - zero * x->sum[s + (size_t)r];
                        total[r * LANES + l] += (float)v *
                                                (x->scale[s + (size_t)r] *
                                                 f32_at(w->scales, w->scale_type, at + (size_t)l));
                    }
                }
            }
            for (int r = 0; r < nr; r++)
                for (int l = 0; l < n1; l++) {
                    int o = p * LANES + l;
                    y[(size_t)(r0 + r) * (size_t)w->out + (size_t)o] =
                        w->bias ? total[r * LANES + l] + w->bias[o] : total[r * LANES + l];
                }
        }
}

static void scalar_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    for (int n = n0; n < n1; n++)
        for (int r = 0; r < rows; r++) {
            const float *xr = x + (size_t)r * (size_t)w->in;
            size_t at = (size_t)n * (size_t)w->in;
            float sum[LANES] = {0};
            int j = 0;
            for (; j + LANES <= w->in; j += LANES)
                for (int l = 0; l < LANES; l++)
                    sum[l] = fmaf(f32_at(w->weight, w->weight_type, at + (size_t)(j + l)),
                                  xr[j + l], sum[l]);
            for (int l = 0; j + l < w->in; l++)
                sum[l] = fmaf(f32_at(w->weight, w->weight_type, at + (size_t)(j + l)), xr[j + l],
                              sum[l]);
            float total = fold_lanes(sum);
            y[(size_t)r * (size_t)w->out + (size_t)n] = w->bias ? total + w->bias[n] : total;
        }
}

static void scalar_norm(float *x, const float *delta, const float *weight, float eps, float *out,
                        int dim)
{
    fp32_norm(x, delta, weight, eps, out, dim);
}

static void scalar_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                              float eps, float *out, int dim)
{
    fp32_layer_norm(x, delta, weight, bias, eps, out, dim);
}

static void scalar_add(float *x, const float *y, const float *gate, float factor, int n)
{
    fp32_add(x, y, gate, factor, n);
}

static void scalar_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                        float eps, const float *cosv, const float *sinv)
{
    fp32_rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
}

ALWAYS_INLINE void scalar_scores(const float *const *q, int n, const void *const *keys, int n_pages,
                                 int head_dim, enum kv_type kv, float *scores)
{
    enum dtype t = kv == KV_F16 ? DT_F16 : DT_F32;
    if (kv == KV_INT8) {
        plain_scores_f32(q, n, keys, n_pages, head_dim, kv, scores);
        return;
    }
    for (int k = 0; k < n_pages; k++)
        for (int i = 0; i < n; i++) {
            float sum[KV_PAGE] = {0};
            for (int d = 0; d < head_dim; d++)
                for (int c = 0; c < KV_PAGE; c++)
                    sum[c] = fmaf(q[i][d], f32_at(keys[k], t, (size_t)(d * KV_PAGE + c)), sum[c]);
            memcpy(scores + i * ATTEND_CHUNK + k * KV_PAGE, sum, sizeof sum);
        }
}

ALWAYS_INLINE void scalar_values(const float *p, int n, int n_pos, const void *values, int head_dim,
                                 enum kv_type kv, float *acc)
{
    enum dtype t = kv == KV_F16 ? DT_F16 : DT_F32;
    if (kv == KV_INT8) {
        plain_values_f32(p, n, n_pos, values, head_dim, kv, acc);
        return;
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < n_pos; c++)
            for (int d = 0; d < head_dim; d++)
                acc[i * head_dim + d] = fmaf(p[i * ATTEND_CHUNK + c],
                                             f32_at(values, t, (size_t)(c * head_dim + d)),
                                             acc[i * head_dim + d]);
}

ALWAYS_INLINE float scalar_exps(float *p, float max, int n)
{
    float sum[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) sum[l] += p[i + l] = cpu_expf(p[i + l] - max);
    return fold_lanes(sum);
}

static void scalar_softcap(float *x, float cap, size_t n) { fp32_softcap(x, cap, n); }

static void scalar_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv == KV_INT8 && t->q_top)
        int8_attend(t, scratch, plain_keys, plain_values, scalar_exps, fp32_mask, scalar_softcap);
    else
        fp32_attend(t, scratch, scalar_scores, scalar_values, scalar_exps, fp32_mask,
                    scalar_softcap);
}

static void scalar_merge(const struct attend_task *t, float *scratch) { fp32_merge(t, scratch); }

static void scalar_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) gate[i] = fp32_glu(a, gate[i], up ? up + i : NULL);
}

static void scalar_route(const struct route_task *t) { fp32_route(t, scalar_exps); }

static void scalar_sums(const float *x, int group, int groups, float *out)
{
    fp32_sums(x, group, groups, out);
}

static void scalar_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    fp32_mix(x, weight, top_k, out, n);
}

/* A vector of 16 floats (states_loops.h). */
enum { VEC_LANES = LANES };

typedef struct {
    float lane[VEC_LANES];
} vec;

#define LANE_BY_LANE(value)                                                                        \
    vec y;                                                                                         \
    for (int l = 0; l < VEC_LANES; l++) y.lane[l] = (value);                                       \
    return y

ALWAYS_INLINE float silu_of(float x);
ALWAYS_INLINE vec vec_load(const float *p) { LANE_BY_LANE(p[l]); }
ALWAYS_INLINE void vec_store(float *p, vec a) { memcpy(p, a.lane, sizeof a.lane); }
ALWAYS_INLINE vec vec_set1(float a) { LANE_BY_LANE(a); }
ALWAYS_INLINE vec vec_add(vec a, vec b) { LANE_BY_LANE(a.lane[l] + b.lane[l]); }
ALWAYS_INLINE vec vec_sub(vec a, vec b) { LANE_BY_LANE(a.lane[l] - b.lane[l]); }
ALWAYS_INLINE vec vec_mul(vec a, vec b) { LANE_BY_LANE(a.lane[l] * b.lane[l]); }
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c)
{
    LANE_BY_LANE(fmaf(a.lane[l], b.lane[l], c.lane[l]));
}
ALWAYS_INLINE vec vec_max(vec a, vec b)
{
    LANE_BY_LANE(a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l]);
}
ALWAYS_INLINE vec vec_exp(vec a) { LANE_BY_LANE(cpu_expf(a.lane[l])); }
ALWAYS_INLINE vec vec_silu(vec a) { LANE_BY_LANE(silu_of(a.lane[l])); }

#include "backend-cpu/choose_loops.h"

static void scalar_conv(const struct conv_task *t) { states_conv(t); }
static void scalar_delta_prepare(const struct delta_inputs *t) { states_delta_prepare(t); }
static void scalar_delta(const struct delta_task *t) { states_delta(t); }
static void scalar_choose(const struct choose_task *t) { states_choose(t); }

static const struct state_kernels scalar_states = {scalar_conv, scalar_delta_prepare, scalar_delta,
                                                   scalar_choose};

const struct cpu_kernels cpu_scalar = {
    .name = "scalar",
    .unusable = always,
    .q4 = scalar_q4,
    .quantize = scalar_quantize,
    .q4i = scalar_q4i,
    .dense = scalar_dense,
    .norm = scalar_norm,
    .layer_norm = scalar_layer_norm,
    .add = scalar_add,
    .rope = scalar_rope,
    .attend = scalar_attend,
    .merge = scalar_merge,
    .glu = scalar_glu,
    .softcap = scalar_softcap,
    .states = &scalar_states,
    .copy_digits = digits_copy,
    .route = scalar_route,
    .mix = scalar_mix,
    .sums = scalar_sums,
    .unpack = plain_unpack,
};
