/* avx2_attend_int8.h: attention over KV_INT8 of variant "avx2"; a part of avx2.c, which alone
 * includes it. */
#ifndef BACKEND_CPU_AVX2_ATTEND_INT8_H
#define BACKEND_CPU_AVX2_ATTEND_INT8_H

#include "backend-cpu/attend_int8.h"
#include "backend-cpu/avx2_attend.h"

/* Byte j of each of 8 lanes as a float. */
ALWAYS_INLINE __m256 code_of_lane(__m256i v, int j)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * j), 24));
}

/* A scores_fn for m queries, in the order of fp32. */
ALWAYS_INLINE void scores_codes(const float *const *q, const uint8_t *keys, int head_dim,
                                float *scores, const int m)
{
    const __m256i bias = _mm256_set1_epi8((char)KEY_BIAS);
    const float *scale = key_scales(keys, head_dim);
    __m256 a[4][2];
    EACH (i, m) a[i][0] = a[i][1] = _mm256_setzero_ps();
    for (int d = 0; d < head_dim; d += 4) {
        const __m256i *k = (const void *)(keys + d * KV_PAGE);
        __m256i v0 = _mm256_xor_si256(_mm256_loadu_si256(k), bias),
                v1 = _mm256_xor_si256(_mm256_loadu_si256(k + 1), bias);
        EACH (j, 4) {
            if (d + j == head_dim) break;
            __m256 x0 = code_of_lane(v0, j), x1 = code_of_lane(v1, j);
            EACH (i, m) {
                __m256 x = _mm256_broadcast_ss(q[i] + d + j);
                a[i][0] = _mm256_fmadd_ps(x0, x, a[i][0]);
                a[i][1] = _mm256_fmadd_ps(x1, x, a[i][1]);
            }
        }
    }
    EACH (i, m)
        EACH (h, 2)
            _mm256_storeu_ps(scores + i * ATTEND_CHUNK + h * 8,
                             _mm256_mul_ps(a[i][h], _mm256_loadu_ps(scale + h * 8)));
}

ALWAYS_INLINE void avx2_scores_int8(const float *const *q, int n, const void *const *keys,
                                    int n_pages, int head_dim, enum kv_type kv, float *scores)
{
    (void)kv;
    for (int k = 0; k < n_pages; k++, scores += KV_PAGE) {
        int i = 0;
        for (; i + 4 <= n; i += 4)
            scores_codes(q + i, keys[k], head_dim, scores + i * ATTEND_CHUNK, 4);
        for (; i < n; i++) scores_codes(q + i, keys[k], head_dim, scores + i * ATTEND_CHUNK, 1);
    }
}

/* A values_fn for m queries, in the order of fp32. */
ALWAYS_INLINE void values_codes(const float *p, int n_pos, const int8_t *values, int head_dim,
                                float *acc, const int m)
{
    int d = 0;
    size_t group = (size_t)kv_padded(KV_INT8, head_dim) * 4;
    for (; d + 8 <= head_dim; d += 8) {
        const int8_t *row = values + d * 4;
        __m256 a[4];
        EACH (i, m) a[i] = _mm256_loadu_ps(acc + i * head_dim + d);
        for (int c = 0; c < n_pos; c += 4, row += group) {
            __m256i v = _mm256_loadu_si256((const void *)row);
            EACH (j, 4) {
                if (c + j == n_pos) break;
                __m256 x = code_of_lane(v, j);
                EACH (i, m)
                    a[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(p + i * ATTEND_CHUNK + c + j), x,
                                           a[i]);
            }
        }
        EACH (i, m) _mm256_storeu_ps(acc + i * head_dim + d, a[i]);
    }
    for (; d < head_dim; d++)
        for (int i = 0; i < m; i++)
            for (int c = 0; c < n_pos; c++)
                acc[i * head_dim + d] = fmaf(p[i * ATTEND_CHUNK + c],
                                             (float)values[value_at(d, c, head_dim)],
                                             acc[i * head_dim + d]);
}

ALWAYS_INLINE void avx2_values_int8(const float *p, int n, int n_pos, const void *values,
                                    int head_dim, enum kv_type kv, float *acc)
{
    int i = 0;
    (void)kv;
    for (; i + 4 <= n; i += 4)
        values_codes(p + i * ATTEND_CHUNK, n_pos, values, head_dim, acc + i * head_dim, 4);
    for (; i < n; i++)
        values_codes(p + i * ATTEND_CHUNK, n_pos, values, head_dim, acc + i * head_dim, 1);
}

/* Four integers of a query or of weights, for every four codes. */
ALWAYS_INLINE __m256i load_4_words(const int16_t *p)
{
    int64_t v;
    memcpy(&v, p, 8);
    return _mm256_set1_epi64x(v);
}

ALWAYS_INLINE __m256i words_of(const void *codes)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(codes));
}

/* 8 sums of neighbouring lanes of a, then of b. */
ALWAYS_INLINE __m256i sums_of_pairs(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
}

/* Keys are converted to words once for all queries, so many dimensions at a time. */
enum { KEY_DIMS = 64 };

/* sums[i][c] += sum over dims dimensions of q[i][d] * key(c)[d] for m queries, rows of `row`; lane
 * pairs are positions. words [dims / 4][4] vectors of 4 positions */
ALWAYS_INLINE void keys_words(const int16_t *q, int row, const __m256i *words, int dims,
                              int32_t *sums, const int m)
{
    __m256i a[2][4];
    EACH (i, m)
        EACH (h, 4) a[i][h] = _mm256_setzero_si256();
    for (int d = 0; d < dims; d += 4, words += 4) {
        __m256i v[2];
        EACH (i, m) v[i] = load_4_words(q + i * row + d);
        EACH (h, 4) {
            __m256i k = words[h];
            __asm__("" : "+x"(k)); /* loaded once */
            EACH (i, m) {
                a[i][h] = _mm256_add_epi32(a[i][h], _mm256_madd_epi16(k, v[i]));
                __asm__("" : "+x"(a[i][h])); /* as in values_words */
            }
        }
    }
    EACH (i, m)
        for (int h = 0; h < 4; h += 2) {
            __m256i *to = (void *)(sums + i * KV_PAGE + h * 4);
            _mm256_storeu_si256(
                to, _mm256_add_epi32(_mm256_loadu_si256(to), sums_of_pairs(a[i][h], a[i][h + 1])));
        }
}

/* An int8_keys_fn. */
ALWAYS_INLINE void avx2_keys(const int16_t *q, int n, const uint8_t *keys, int dims, int32_t *sums)
{
    const __m256i bias = _mm256_set1_epi16(KEY_BIAS);
    __m256i words[KEY_DIMS];
    memset(sums, 0, (size_t)(n * KV_PAGE) * sizeof *sums);
    for (int d = 0, some; d < dims; d += some, q += some) {
        some = dims - d < KEY_DIMS ? dims - d : KEY_DIMS;
        for (int j = 0; j < some; j++, keys += 16)
            words[j] = _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)keys)),
                                        bias);
        int i = 0;
        for (; i + 2 <= n; i += 2)
            keys_words(q + i * dims, dims, words, some, sums + i * KV_PAGE, 2);
        if (i < n) keys_words(q + i * dims, dims, words, some, sums + i * KV_PAGE, 1);
    }
}

/* The values of a chunk for m queries from i on, 8 dimensions at a time: lane pairs are dimensions.
 * w [n][ATTEND_CHUNK]: the integers of the weights; page: the chunk's pages */
ALWAYS_INLINE void values_words(struct attend_state *a, int i, const int16_t *w, const float *scale,
                                const int8_t *const *page, const int m)
{
    const int hd = a->t->value_dim, pages = a->page1 - a->page0;
    const size_t row = (size_t)kv_padded(KV_INT8, hd) * 4;
    w += i * ATTEND_CHUNK + a->page0 * KV_PAGE - a->c0;
    for (int d = 0; d + 8 <= hd; d += 8) {
        __m256i s[4][2];
        EACH (r, m) s[r][0] = s[r][1] = _mm256_setzero_si256();
        for (int k = 0; k < pages; k++) {
            const int8_t *v = page[k] + d * 4;
            const int16_t *x = w + k * KV_PAGE;
            for (int c = 0; c < KV_PAGE; c += 4, v += row, x += 4) {
                __m256i v0 = words_of(v), v1 = words_of(v + 16);
                EACH (r, m) {
                    __m256i y = load_4_words(x + r * ATTEND_CHUNK);
                    s[r][0] = _mm256_add_epi32(s[r][0], _mm256_madd_epi16(v0, y));
                    __asm__("" : "+x"(s[r][0])); /* in this order, or gcc 12 spills sums */
                    s[r][1] = _mm256_add_epi32(s[r][1], _mm256_madd_epi16(v1, y));
                    __asm__("" : "+x"(s[r][1]));
                }
            }
        }
        EACH (r, m)
            _mm256_storeu_ps(a->acc + (i + r) * hd + d,
                             _mm256_mul_ps(_mm256_cvtepi32_ps(sums_of_pairs(s[r][0], s[r][1])),
                                           _mm256_set1_ps(scale[i + r])));
    }
    for (int r = 0; r < m; r++)
        for (int d = hd & -8; d < hd; d++) {
            int32_t sum = 0;
            for (int k = 0; k < pages; k++)
                for (int c = 0; c < KV_PAGE; c++)
                    sum += w[r * ATTEND_CHUNK + k * KV_PAGE + c] * page[k][value_at(d, c, hd)];
            a->acc[(i + r) * hd + d] = (float)sum * scale[i + r];
        }
}

/* An int8_chunk_fn. */
ALWAYS_INLINE void values_integers(struct attend_state *a, const int16_t *w, const float *scale)
{
    const int8_t *page[ATTEND_CHUNK / KV_PAGE];
    int i = 0;
    for (int k = 0; k < a->page1 - a->page0; k++) {
        page[k] = page_values(a->t, a->page0 + k);
        if (!a->t->unpack) ask_for(page[k], a->t);
    }
    for (; i + 4 <= a->n; i += 4) values_words(a, i, w, scale, page, 4);
    for (; i < a->n; i++) values_words(a, i, w, scale, page, 1);
}

/* Each is a function of its own, for gcc's register allocation. */
static __attribute__((noinline)) void attend_integers(const struct attend_task *t, float *scratch)
{
    int8_attend_by(t, scratch, avx2_keys, NULL, values_integers, avx2_exps, avx2_mask,
                   avx2_softcap);
}

static __attribute__((noinline)) void attend_codes(const struct attend_task *t, float *scratch)
{
    fp32_attend(t, scratch, avx2_scores_int8, avx2_values_int8, avx2_exps, avx2_mask, avx2_softcap);
}

static void avx2_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv == KV_INT8 && t->q_top) attend_integers(t, scratch);
    else if (t->kv == KV_INT8) attend_codes(t, scratch);
    else avx2_attend_plain(t, scratch);
}

#endif
