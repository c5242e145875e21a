/* avx2_attend.h: attention and SwiGLU of variant "avx2"; a part of avx2.c, which alone includes it,
 * with the helpers of both. */
#ifndef BACKEND_CPU_AVX2_ATTEND_H
#define BACKEND_CPU_AVX2_ATTEND_H

#include "backend-cpu/fp32.h"

#include <immintrin.h>

ALWAYS_INLINE __m256 load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

/* A loop over a register block. Its bounds are constants after inlining; it must be unrolled
 * completely for the block to stay in registers. */
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

ALWAYS_INLINE __m256 load_kv(const void *p, enum kv_type kv, size_t at)
{
    return kv == KV_F16 ? load_f16((const uint16_t *)p + at)
                        : _mm256_loadu_ps((const float *)p + at);
}

/* Scores of n <= 4 queries x the 16 positions of a page: each load of keys serves all queries, each
 * broadcast of a query both halves. */
ALWAYS_INLINE void scores_block(const float *const *q, const int n, const void *keys, int head_dim,
                                enum kv_type kv, float *scores)
{
    __m256 a[4][2];
    EACH (i, n) a[i][0] = a[i][1] = _mm256_setzero_ps();
    for (int d = 0; d < head_dim; d++) {
        __m256 k0 = load_kv(keys, kv, (size_t)(d * KV_PAGE)),
               k1 = load_kv(keys, kv, (size_t)(d * KV_PAGE + 8));
        EACH (i, n) {
            __m256 v = _mm256_broadcast_ss(q[i] + d);
            a[i][0] = _mm256_fmadd_ps(k0, v, a[i][0]);
            a[i][1] = _mm256_fmadd_ps(k1, v, a[i][1]);
        }
    }
    EACH (i, n) {
        _mm256_storeu_ps(scores + i * ATTEND_CHUNK, a[i][0]);
        _mm256_storeu_ps(scores + i * ATTEND_CHUNK + 8, a[i][1]);
    }
}

ALWAYS_INLINE void scores_typed(const float *const *q, int n, const void *keys, int head_dim,
                                enum kv_type kv, float *scores)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        scores_block(q + i, 4, keys, head_dim, kv, scores + i * ATTEND_CHUNK);
    for (; i < n; i++) scores_block(q + i, 1, keys, head_dim, kv, scores + i * ATTEND_CHUNK);
}

ALWAYS_INLINE void avx2_scores(const float *const *q, int n, const void *const *keys, int n_pages,
                               int head_dim, enum kv_type kv, float *scores)
{
    for (int k = 0; k < n_pages; k++, scores += KV_PAGE) {
        if (kv == KV_F16) scores_typed(q, n, keys[k], head_dim, KV_F16, scores);
        else scores_typed(q, n, keys[k], head_dim, KV_F32, scores);
    }
}

/* Values for n <= 4 queries, 16 dimensions at a time. */
ALWAYS_INLINE void values_block(const float *p, const int n, int n_pos, const void *values,
                                int head_dim, enum kv_type kv, float *acc)
{
    int d = 0;
    for (; d + 16 <= head_dim; d += 16) {
        __m256 a[4][2];
        EACH (i, n) {
            a[i][0] = _mm256_loadu_ps(acc + i * head_dim + d);
            a[i][1] = _mm256_loadu_ps(acc + i * head_dim + d + 8);
        }
        for (int c = 0; c < n_pos; c++) {
            __m256 v0 = load_kv(values, kv, (size_t)(c * head_dim + d)),
                   v1 = load_kv(values, kv, (size_t)(c * head_dim + d + 8));
            EACH (i, n) {
                __m256 w = _mm256_broadcast_ss(p + i * ATTEND_CHUNK + c);
                a[i][0] = _mm256_fmadd_ps(w, v0, a[i][0]);
                a[i][1] = _mm256_fmadd_ps(w, v1, a[i][1]);
            }
        }
        EACH (i, n) {
            _mm256_storeu_ps(acc + i * head_dim + d, a[i][0]);
            _mm256_storeu_ps(acc + i * head_dim + d + 8, a[i][1]);
        }
    }
    for (; d < head_dim; d++)
        for (int i = 0; i < n; i++)
            for (int c = 0; c < n_pos; c++)
                acc[i * head_dim + d] =
                    fmaf(p[i * ATTEND_CHUNK + c],
                         f32_at(values, kv == KV_F16 ? DT_F16 : DT_F32, (size_t)(c * head_dim + d)),
                         acc[i * head_dim + d]);
}

ALWAYS_INLINE void values_typed(const float *p, int n, int n_pos, const void *values, int head_dim,
                                enum kv_type kv, float *acc)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        values_block(p + i * ATTEND_CHUNK, 4, n_pos, values, head_dim, kv, acc + i * head_dim);
    for (; i < n; i++)
        values_block(p + i * ATTEND_CHUNK, 1, n_pos, values, head_dim, kv, acc + i * head_dim);
}

ALWAYS_INLINE void avx2_values(const float *p, int n, int n_pos, const void *values, int head_dim,
                               enum kv_type kv, float *acc)
{
    if (kv == KV_F16) values_typed(p, n, n_pos, values, head_dim, KV_F16, acc);
    else values_typed(p, n, n_pos, values, head_dim, KV_F32, acc);
}

/* cpu_expf on 8 lanes, with fused multiply-adds. */
ALWAYS_INLINE __m256 exp8(__m256 x)
{
    __m256 keep = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_NLT_UQ); /* NaN stays NaN */
    __m256 c = _mm256_min_ps(_mm256_set1_ps(EXP_MAX),
                             x); /* the second operand is returned if it is NaN */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(c, _mm256_set1_ps(EXP_LOG2E)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HI), c);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(EXP_P4);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P0));
    __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i scale =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(scale)), keep);
}

ALWAYS_INLINE float avx2_exps(float *p, float max, int n)
{
    __m256 m = _mm256_set1_ps(max), s0 = _mm256_setzero_ps(), s1 = s0;
    for (int i = 0; i < n; i += LANES) {
        __m256 e0 = exp8(_mm256_sub_ps(_mm256_loadu_ps(p + i), m));
        _mm256_storeu_ps(p + i, e0);
        s0 = _mm256_add_ps(s0, e0);
        __asm__(""
                : "+x"(s0), "+m"(*(float(*)[8])(
                                p + i + 8))); /* separate: both at once exceed the registers */
        __m256 e1 = exp8(_mm256_sub_ps(_mm256_loadu_ps(p + i + 8), m));
        _mm256_storeu_ps(p + i + 8, e1);
        s1 = _mm256_add_ps(s1, e1);
    }
    float lane[LANES];
    _mm256_storeu_ps(lane, s0);
    _mm256_storeu_ps(lane + 8, s1);
    return fold_lanes(lane);
}

ALWAYS_INLINE float avx2_scale(float *p, int n, float factor)
{
    __m256 f = _mm256_set1_ps(factor), top0 = _mm256_set1_ps(-INFINITY), top1 = top0;
    for (int i = 0; i < n; i += LANES) {
        __m256 v0 = _mm256_mul_ps(_mm256_loadu_ps(p + i), f),
               v1 = _mm256_mul_ps(_mm256_loadu_ps(p + i + 8), f);
        _mm256_storeu_ps(p + i, v0);
        _mm256_storeu_ps(p + i + 8, v1);
        top0 = _mm256_max_ps(v0, top0); /* the second operand is returned if the first is NaN */
        top1 = _mm256_max_ps(v1, top1);
    }
    float lane[8];
    _mm256_storeu_ps(lane, _mm256_max_ps(top0, top1));
    for (int l = 1; l < 8; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

ALWAYS_INLINE float avx2_mask(float *p, int from, int to, int a, int b, float factor)
{
    return mask_scores(p, from, to, a, b, factor, avx2_scale);
}

/* cpu_tanhf on 8 lanes. */
ALWAYS_INLINE __m256 tanh8(__m256 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    __m256 y = _mm256_mul_ps(_mm256_set1_ps(2), _mm256_andnot_ps(sign, x));
    y = _mm256_min_ps(y, _mm256_set1_ps(20)); /* the second operand is returned for NaN */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(y, _mm256_set1_ps(EXP_LOG2E)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HI), y);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(EXP_P4);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P0));
    __m256 q = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    __m256 two_n = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
    __m256 m = _mm256_fmadd_ps(two_n, q, _mm256_sub_ps(two_n, one)),
           t = _mm256_div_ps(m, _mm256_add_ps(m, _mm256_set1_ps(2)));
    t = _mm256_or_ps(t, _mm256_and_ps(sign, x)); /* m >= 0 */
    return _mm256_blendv_ps(t, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

ALWAYS_INLINE void softcap8(float *x, __m256 cap)
{
    _mm256_storeu_ps(x, _mm256_mul_ps(cap, tanh8(_mm256_div_ps(_mm256_loadu_ps(x), cap))));
}

static void avx2_softcap(float *x, float cap, size_t n)
{
    const __m256 c = _mm256_set1_ps(cap);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) softcap8(x + i, c);
    if (i == n) return;
    float tail[8] = {0};
    memcpy(tail, x + i, (n - i) * sizeof *tail);
    softcap8(tail, c);
    memcpy(x + i, tail, (n - i) * sizeof *tail);
}

/* Keys and values of fp16 and fp32. */
static void avx2_attend_plain(const struct attend_task *t, float *scratch)
{
    fp32_attend(t, scratch, avx2_scores, avx2_values, avx2_exps, avx2_mask, avx2_softcap);
}

/* gcc vectorizes it. */
static void avx2_merge(const struct attend_task *t, float *scratch) { fp32_merge(t, scratch); }

/* fp32_xielu on 8 lanes. */
ALWAYS_INLINE __m256 xielu8(const struct xielu *a, __m256 x)
{
    const __m256 beta = _mm256_set1_ps(a->beta);
    __m256 m = _mm256_min_ps(x, _mm256_set1_ps(a->eps)), sum = _mm256_setzero_ps();
#define TERM(factor) sum = _mm256_fmadd_ps(sum, m, _mm256_set1_ps(factor));
    XIELU_SERIES(TERM)
#undef TERM
    __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(m, m), sum, _mm256_sub_ps(m, x)),
           far = _mm256_sub_ps(_mm256_sub_ps(exp8(m), _mm256_set1_ps(1.0f)), x),
           q = _mm256_blendv_ps(far, near, _mm256_cmp_ps(m, _mm256_set1_ps(-0.5f), _CMP_GT_OQ)),
           below = _mm256_fmadd_ps(_mm256_set1_ps(a->n), q, _mm256_mul_ps(beta, x)),
           above = _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_set1_ps(a->p), x, beta));
    return _mm256_blendv_ps(below, above, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}

/* fp32_glu on 8 lanes. */
ALWAYS_INLINE __m256 glu8(const struct cpu_glu *a, const enum activation k, __m256 g, __m256 u,
                          const int has_up)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    if (k == ACTIVATION_XIELU) return xielu8(&a->xielu, g);
    if (k == ACTIVATION_SWIGLU_CLAMPED) {
        __m256 limit = _mm256_set1_ps(a->limit); /* min and max give the second operand for NaN */
        g = _mm256_min_ps(limit, g);
        u = _mm256_max_ps(_mm256_set1_ps(-a->limit), _mm256_min_ps(limit, u));
        u = _mm256_add_ps(u, one);
    }
    __m256 z = g;
    if (k == ACTIVATION_GELU_TANH)
        z = _mm256_mul_ps(g, _mm256_fmadd_ps(_mm256_set1_ps(GELU_3), _mm256_mul_ps(g, g),
                                             _mm256_set1_ps(GELU_1)));
    if (k == ACTIVATION_SWIGLU_CLAMPED) z = _mm256_mul_ps(_mm256_set1_ps(a->alpha), g);
    __m256 e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), z)),
           y = _mm256_div_ps(k == ACTIVATION_SIGMOID ? one : g, _mm256_add_ps(one, e));
    return has_up ? _mm256_mul_ps(y, u) : y;
}

ALWAYS_INLINE void glu_all(const struct cpu_glu *a, const enum activation k, const int has_up,
                           float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 u = has_up ? _mm256_loadu_ps(up + i) : _mm256_setzero_ps();
        _mm256_storeu_ps(gate + i, glu8(a, k, _mm256_loadu_ps(gate + i), u, has_up));
    }
    if (i == n) return;
    float g[8] = {0},
          u[8] = {
              0}; /* the tail takes the same path, so that a value does not depend on its index */
    memcpy(g, gate + i, (n - i) * sizeof *g);
    if (has_up) memcpy(u, up + i, (n - i) * sizeof *u);
    _mm256_storeu_ps(g, glu8(a, k, _mm256_loadu_ps(g), _mm256_loadu_ps(u), has_up));
    memcpy(gate + i, g, (n - i) * sizeof *g);
}

static void avx2_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    glu_each(a, gate, up, n, glu_all);
}

#endif
