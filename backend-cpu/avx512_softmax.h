/* avx512_softmax.h: exponentials and masks of attention on 16 lanes, for the AVX-512 variants. */
#ifndef BACKEND_CPU_AVX512_SOFTMAX_H
#define BACKEND_CPU_AVX512_SOFTMAX_H

#include "backend-cpu/avx512.h"

/* fold_lanes of fp32.h in registers. */
ALWAYS_INLINE float fold_16(__m512 v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* exp8 of avx2_attend.h on 16 lanes, the same operations; capped: x may exceed EXP_MAX. */
ALWAYS_INLINE __m512 exp16(__m512 x, const int capped)
{
    __mmask16 keep = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_MIN), _CMP_NLT_UQ);
    __m512 c = capped ? _mm512_min_ps(_mm512_set1_ps(EXP_MAX), x) : x;
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(c, _mm512_set1_ps(EXP_LOG2E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_HI), c);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_LO), r);
    __m512 p = _mm512_set1_ps(EXP_P4);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P0));
    __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(keep, y, n);
}

ALWAYS_INLINE float avx512_exps(float *p, float max, int n)
{
    __m512 m = _mm512_set1_ps(max), s = _mm512_setzero_ps();
    for (int i = 0; i < n; i += LANES) {
        __m512 v = exp16(_mm512_sub_ps(_mm512_loadu_ps(p + i), m), 0);
        _mm512_storeu_ps(p + i, v);
        s = _mm512_add_ps(s, v);
    }
    return fold_16(s);
}

ALWAYS_INLINE float avx512_mask(float *p, int from, int to, int a, int b, float factor)
{
    const __m512 none = _mm512_set1_ps(-INFINITY), f = _mm512_set1_ps(factor);
    __m512 top = none;
    for (int i = from; i < to; i += LANES) {
        __m512 v = _mm512_loadu_ps(p + i);
        if (a <= i && i + LANES - 1 <= b) {
            v = _mm512_mul_ps(v, f);
        } else {
            int low = a - i < 0       ? 0
                      : a - i < LANES ? a - i
                                      : LANES,
                high = b + 1 - i < 0       ? 0
                       : b + 1 - i < LANES ? b + 1 - i
                                           : LANES;
            v = _mm512_mask_mul_ps(none, (__mmask16)(((1u << high) - 1) & ~((1u << low) - 1)), v,
                                   f);
        }
        _mm512_storeu_ps(p + i, v);
        top = _mm512_max_ps(v, top); /* the second operand is returned if the first is NaN */
    }
    return _mm512_reduce_max_ps(top);
}

#endif
