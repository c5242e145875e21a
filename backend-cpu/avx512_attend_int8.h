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

/* Four integers of a query or of weights, for every four codes. */
ALWAYS_INLINE __m512i load_4_words(const int16_t *p)
{
    int64_t v;
    memcpy(&v, p, 8);
    return _mm512_set1_epi64(v);
}

/* 8 sums of neighbouring lanes. */
ALWAYS_INLINE __m256i sums_of_pairs(__m512i v)
{
    return _mm512_cvtepi64_epi32(_mm512_add_epi32(v, _mm512_srli_epi64(v, 32)));
}

ALWAYS_INLINE __m512i words_of(const void *codes)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(codes));
}

/* int8_keys_fn for m queries: lane pairs are positions. */
ALWAYS_INLINE void keys_words(const int16_t *q, const uint8_t *keys, int dims, int32_t *sums,
                              const int m)
{
    const __m512i bias = _mm512_set1_epi16(KEY_BIAS);
    __m512i a[4], b[4];
    EACH (i, m) a[i] = b[i] = _mm512_setzero_si512();
    for (int d = 0; d < dims; d += 4) {
        const __m256i *k = (const void *)(keys + d * KV_PAGE);
        __m512i x = _mm512_sub_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(k)), bias),
                y = _mm512_sub_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(k + 1)), bias);
        EACH (i, m) {
            __m512i v = load_4_words(q + i * dims + d);
            a[i] = _mm512_add_epi32(a[i], _mm512_madd_epi16(x, v));
            b[i] = _mm512_add_epi32(b[i], _mm512_madd_epi16(y, v));
        }
    }
    EACH (i, m) {
        _mm256_storeu_si256((void *)(sums + i * KV_PAGE), sums_of_pairs(a[i]));
        _mm256_storeu_si256((void *)(sums + i * KV_PAGE + 8), sums_of_pairs(b[i]));
    }
}

ALWAYS_INLINE void avx512_keys(const int16_t *q, int n, const uint8_t *keys, int dims,
                               int32_t *sums)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) keys_words(q + i * dims, keys, dims, sums + i * KV_PAGE, 4);
    for (; i < n; i++) keys_words(q + i * dims, keys, dims, sums + i * KV_PAGE, 1);
}

/* int8_values_fn for m queries: lane pairs are dimensions. */
ALWAYS_INLINE void values_words(const int16_t *w, const int8_t *values, int head_dim, int32_t *sums,
                                const int m)
{
    size_t row = (size_t)kv_padded(KV_INT8, head_dim) * 4;
    for (int d = 0; d < head_dim; d += 8) {
        __mmask8 mask = head_dim - d >= 8 ? 0xff : (__mmask8)((1u << (head_dim - d)) - 1);
        __m512i v[4];
        EACH (c, 4) v[c] = words_of(values + (size_t)c * row + d * 4);
        EACH (i, m) {
            __m512i a = _mm512_madd_epi16(v[0], load_4_words(w + i * ATTEND_CHUNK));
            for (int c = 1; c < 4; c++)
                a = _mm512_add_epi32(
                    a, _mm512_madd_epi16(v[c], load_4_words(w + i * ATTEND_CHUNK + c * 4)));
            int32_t *to = sums + i * head_dim + d;
            _mm256_mask_storeu_epi32(
                to, mask, _mm256_add_epi32(_mm256_maskz_loadu_epi32(mask, to), sums_of_pairs(a)));
        }
    }
}

ALWAYS_INLINE void avx512_values(const int16_t *w, int n, const int8_t *values, int head_dim,
                                 int32_t *sums)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        values_words(w + i * ATTEND_CHUNK, values, head_dim, sums + i * head_dim, 4);
    for (; i < n; i++) values_words(w + i * ATTEND_CHUNK, values, head_dim, sums + i * head_dim, 1);
}

NOT_INLINE void attend_int8(const struct attend_task *t, float *scratch)
{
    if (t->q_top)
        int8_attend(t, scratch, avx512_keys, avx512_values, avx512_exps, avx512_mask,
                    avx512_softcap);
    else
        fp32_attend(t, scratch, avx512_scores_int8, avx512_values_int8, avx512_exps, avx512_mask,
                    avx512_softcap);
}

#endif
