/* avx512_attend_int8.h: attention over KV_INT8 of variant "avx512"; a part of avx512.c, which alone
 * includes it. */
#ifndef BACKEND_CPU_AVX512_ATTEND_INT8_H
#define BACKEND_CPU_AVX512_ATTEND_INT8_H

#include "backend-cpu/attend_int8.h"
#include "backend-cpu/avx512_softmax.h"

/* Byte j of each of 16 lanes as a float. */
ALWAYS_INLINE __m512 code_of_lane(__m512i v, int j)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(v, (unsigned)(24 - 8 * j)), 24));
}

/* A scores_fn for m queries, in the order of fp32. */
ALWAYS_INLINE void scores_codes(const float *const *q, const uint8_t *keys, int head_dim,
                                float *scores, const int m)
{
    const __m512i bias = _mm512_set1_epi8((char)KEY_BIAS);
    const __m512 scale = _mm512_loadu_ps(key_scales(keys, head_dim));
    __m512 a[QUERY_BLOCK];
    EACH (i, m) a[i] = _mm512_setzero_ps();
    for (int d = 0; d < head_dim; d += 4) {
        __m512i v = _mm512_xor_si512(_mm512_loadu_si512(keys + d * KV_PAGE), bias);
        EACH (j, 4) {
            if (d + j == head_dim) break;
            __m512 x = code_of_lane(v, j);
            EACH (i, m) a[i] = _mm512_fmadd_ps(x, _mm512_set1_ps(q[i][d + j]), a[i]);
        }
    }
    EACH (i, m) _mm512_storeu_ps(scores + i * ATTEND_CHUNK, _mm512_mul_ps(a[i], scale));
}

ALWAYS_INLINE void avx512_scores_int8(const float *const *q, int n, const void *const *keys,
                                      int n_pages, int head_dim, enum kv_type kv, float *scores)
{
    (void)kv;
    for (int k = 0; k < n_pages; k++, scores += KV_PAGE) {
        int i = 0;
        for (; i + 8 <= n; i += 8)
            scores_codes(q + i, keys[k], head_dim, scores + i * ATTEND_CHUNK, 8);
        for (; i + 4 <= n; i += 4)
            scores_codes(q + i, keys[k], head_dim, scores + i * ATTEND_CHUNK, 4);
        for (; i < n; i++) scores_codes(q + i, keys[k], head_dim, scores + i * ATTEND_CHUNK, 1);
    }
}

/* A values_fn for m queries, in the order of fp32. */
ALWAYS_INLINE void values_codes(const float *p, int n_pos, const int8_t *values, int head_dim,
                                float *acc, const int m)
{
    for (int d = 0; d < head_dim; d += LANES) {
        __mmask16 mask = head_dim - d >= LANES ? 0xffff : (__mmask16)((1u << (head_dim - d)) - 1);
        const int8_t *row = values + d * 4;
        __m512 a[QUERY_BLOCK];
        EACH (i, m) a[i] = _mm512_maskz_loadu_ps(mask, acc + i * head_dim + d);
        for (int c = 0; c < n_pos; c += 4, row += kv_padded(KV_INT8, head_dim) * 4) {
            __m512i v = _mm512_loadu_si512(row);
            EACH (j, 4) {
                if (c + j == n_pos) break;
                __m512 x = code_of_lane(v, j);
                EACH (i, m)
                    a[i] = _mm512_fmadd_ps(_mm512_set1_ps(p[i * ATTEND_CHUNK + c + j]), x, a[i]);
            }
        }
        EACH (i, m) _mm512_mask_storeu_ps(acc + i * head_dim + d, mask, a[i]);
    }
}

ALWAYS_INLINE void avx512_values_int8(const float *p, int n, int n_pos, const void *values,
                                      int head_dim, enum kv_type kv, float *acc)
{
    int i = 0;
    (void)kv;
    for (; i + 8 <= n; i += 8)
        values_codes(p + i * ATTEND_CHUNK, n_pos, values, head_dim, acc + i * head_dim, 8);
    for (; i + 4 <= n; i += 4)
        values_codes(p + i * ATTEND_CHUNK, n_pos, values, head_dim, acc + i * head_dim, 4);
    for (; i < n; i++)
        values_codes(p + i * ATTEND_CHUNK, n_pos, values, head_dim, acc + i * head_dim, 1);
}

/* Integer sums are avx2's: without VNNI longer vectors gain little. */
NOT_INLINE void attend_int8(const struct attend_task *t, float *scratch)
{
    if (t->q_top) cpu_avx2.attend(t, scratch);
    else
        fp32_attend(t, scratch, avx512_scores_int8, avx512_values_int8, avx512_exps, avx512_mask,
                    avx512_softcap);
}

#endif
