/* avx512_int8.h: attention over KV_INT8 in integers for the AVX-512 variants: queries and weights
 * as digits, and everything between the sums, which a variant provides (vnni.c, amx.c). The order
 * of operations is that of attend_int8.h. */
#ifndef BACKEND_CPU_AVX512_INT8_H
#define BACKEND_CPU_AVX512_INT8_H

#include "backend-cpu/attend_int8.h"
#include "backend-cpu/avx512_softmax.h"

/* Digits of one byte: integer of a query = 128 * first + second, both signed; of a weight the
 * same, both in 0 .. 127. Row `digit * n + i` of either is query i's. */
struct digits_state {
    struct attend_state a;
    int n_digits; /* digits of queries; weights have two */
    int dims;     /* elements of a key, padded */
    int row;      /* bytes of a row of q: dims in multiples of 64, filled up with 0 */
    int8_t *q;    /* [n_digits * n][row] */
    uint8_t *w;   /* [2 * n][ATTEND_CHUNK] */
    int32_t bias[ATTEND_QUERIES]; /* KEY_BIAS times the sum of a query's integers */
    float q_scale[ATTEND_QUERIES], w_scale[ATTEND_QUERIES];
    float v_scale[ATTEND_CHUNK];                              /* scales of the chunk's values */
    float run_factor[ATTEND_QUERIES], factor[ATTEND_QUERIES]; /* factors for merging: of all chunks
                                                                 before, of this one */
};

/* A variant's sums: the scores of the chunk; the values of the chunk, merged. */
typedef void chunk_fn(struct digits_state *s);

ALWAYS_INLINE void query_digits(struct digits_state *s)
{
    const struct attend_task *t = s->a.t;
    int hd = t->head_dim;
    memset(s->q, 0, (size_t)(s->n_digits * s->a.n * s->row));
    for (int i = 0; i < s->a.n; i++) {
        const float *x = attend_query(t, i);
        int8_t *first = s->q + i * s->row, *second = first + s->a.n * s->row;
        float factor = kv_group_factor(kv_largest(x, hd), (float)t->q_top, &s->q_scale[i]);
        int32_t sum = 0;
        for (int d = 0; d < hd && factor != 0; d++) {
            int32_t v = kv_round(x[d], factor), high = s->n_digits == 2 ? (v + 64) >> 7 : v;
            sum += v;
            first[d] = (int8_t)high;
            if (s->n_digits == 2) second[d] = (int8_t)(v - high * 128);
        }
        s->bias[i] = KEY_BIAS * sum;
    }
}

/* 128 * first + second */
ALWAYS_INLINE __m512i join_digits(__m512i first, __m512i second)
{
    return _mm512_add_epi32(_mm512_slli_epi32(first, 7), second);
}

/* The scores of query i at the 16 positions of a page from their sum with biased keys, scaled where
 * no softcap comes first. */
ALWAYS_INLINE void finish_scores(const struct digits_state *s, int i, __m512i sum, __m512 k_scale,
                                 float *scores)
{
    const float scale = s->a.t->softcap > 0 || s->a.t->bias_pairs ? 1 : s->a.t->scale;
    __m512 x = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(s->bias[i])));
    x = _mm512_mul_ps(x, _mm512_mul_ps(_mm512_set1_ps(s->q_scale[i]), k_scale));
    _mm512_storeu_ps(scores, _mm512_mul_ps(x, _mm512_set1_ps(scale)));
}

/* Asks for a part of page i of the next chunk: a whole chunk ahead, so that the level-2 cache has
 * it. Memory is to be busy all the time: keys and scales are asked for during the sums of keys, the
 * values, in two halves, during the work on weights and the sums of values. */
enum page_part { PART_KEYS, PART_VALUES, PART_MORE_VALUES };

ALWAYS_INLINE void ask_next_chunk(const struct digits_state *s, int i, enum page_part part)
{
    const struct attend_task *t = s->a.t;
    int next = s->a.c0 / KV_PAGE + ATTEND_CHUNK / KV_PAGE + i;
    if (next > s->a.last_page || (t->unpack && next == t->pos0 / KV_PAGE)) return;
    size_t bytes = t->unpack ? packed_part_bytes(s->dims) : kv_part_bytes(KV_INT8, t->head_dim),
           half = bytes / 2 & -(size_t)64;
    const char *page = t->unpack ? packed_page(t, next) : page_keys(t, next);
    size_t from = part == PART_KEYS     ? 0
                  : part == PART_VALUES ? bytes
                                        : bytes + half,
           to = part == PART_KEYS     ? bytes
                : part == PART_VALUES ? bytes + half
                                      : 2 * bytes;
    for (size_t at = from; at < to; at += 64) _mm_prefetch(page + at, _MM_HINT_T1);
    if (part != PART_KEYS) return;
    _mm_prefetch(page + 2 * bytes, _MM_HINT_T1);
    _mm_prefetch(page + 2 * bytes + 64, _MM_HINT_T1);
}

/* What is done before the sums of a page's keys: of KV_INT4 the keys are unpacked; the scales of
 * the page's values are kept. */
ALWAYS_INLINE void begin_page(struct digits_state *s, int page, const char *keys)
{
    ask_next_chunk(s, page - s->a.c0 / KV_PAGE, PART_KEYS);
    if (s->a.t->unpack) unpack_page_keys(s->a.t, page);
    _mm512_storeu_ps(s->v_scale + page * KV_PAGE - s->a.c0,
                     _mm512_loadu_ps(key_scales(keys, s->a.t->head_dim) + KV_PAGE));
}

/* Positions low .. high of the 16 from c on. */
ALWAYS_INLINE __mmask16 seen_of_page(int c, int low, int high)
{
    int skip = low - c < 0         ? 0
               : low - c < KV_PAGE ? low - c
                                   : KV_PAGE,
        seen = high + 1 - c < 0         ? 0
               : high + 1 - c < KV_PAGE ? high + 1 - c
                                        : KV_PAGE;
    return (__mmask16)(((1u << seen) - 1) & ~((1u << skip) - 1));
}

/* The largest score of p[from .. to-1], which all see, NaN excluded. */
ALWAYS_INLINE float largest_score(const float *p, int from, int to)
{
    __m512 top = _mm512_set1_ps(-INFINITY);
    for (int c = from; c < to; c += KV_PAGE) top = _mm512_max_ps(_mm512_loadu_ps(p + c), top);
    return _mm512_reduce_max_ps(top);
}

/* The integers of weights p[from .. to-1] as digits; 0 elsewhere in the chunk. */
ALWAYS_INLINE void split_weights(const float *p, int from, int to, float factor, uint8_t *first,
                                 uint8_t *second)
{
    /* packing interleaves the vectors by runs of four */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  low7 = _mm512_set1_epi16(127);
    const __m512 f = _mm512_set1_ps(factor);
    for (int c = 0; c < ATTEND_CHUNK; c += 64) {
        __m512i v[4];
        EACH (k, 4) {
            int at = c + k * 16, is_weight = factor != 0 && at >= from && at < to;
            v[k] = is_weight ? _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(p + at), f))
                             : _mm512_setzero_si512();
        }
        __m512i x = _mm512_packus_epi32(v[0], v[1]), y = _mm512_packus_epi32(v[2], v[3]);
        __m512i high = _mm512_packus_epi16(_mm512_srli_epi16(x, 7), _mm512_srli_epi16(y, 7)),
                low = _mm512_packus_epi16(_mm512_and_si512(x, low7), _mm512_and_si512(y, low7));
        _mm512_storeu_si512(first + c, _mm512_permutexvar_epi32(order, high));
        _mm512_storeu_si512(second + c, _mm512_permutexvar_epi32(order, low));
    }
}

/* Exponentials of scores and their sum, as avx512_exps; the weights, exponentials times scales of
 * values, in their place, 0 where query i does not see or the exponential is below least_weight;
 * returns the bits of the largest. Weights are not negative, so unsigned integers order them, NaN
 * above all. */
ALWAYS_INLINE int32_t exps_and_weights(struct digits_state *s, int i, int from, int to, int low,
                                       int high, float least_weight)
{
    const __m512 least = _mm512_set1_ps(least_weight);
    float *p = s->a.scores + (size_t)i * ATTEND_CHUNK;
    __m512 max = _mm512_set1_ps(s->a.max[i]), sum = _mm512_setzero_ps();
    __m512i top = _mm512_setzero_si512();
    for (int c = from; c < to; c += KV_PAGE) {
        __m512 e = exp16(_mm512_sub_ps(_mm512_loadu_ps(p + c), max), 0),
               scale = _mm512_loadu_ps(s->v_scale + c), w;
        __mmask16 counts = _mm512_cmp_ps_mask(e, least, _CMP_NLT_UQ);
        sum = _mm512_add_ps(sum, e);
        if (low > c || c + KV_PAGE - 1 > high) counts &= seen_of_page(c, low, high);
        w = _mm512_maskz_mul_ps(counts, e, scale);
        _mm512_storeu_ps(p + c, w);
        top = _mm512_max_epu32(top, _mm512_castps_si512(w));
    }
    s->a.sum[i] = fold_16(sum);
    return (int32_t)(_mm512_reduce_max_epu32(top) & INT32_MAX);
}

/* Turns the scores of the chunk, already scaled, into digits of weights: maxima of all queries,
 * then exponentials of all, then digits, so that the reductions of different queries overlap. */
ALWAYS_INLINE void weigh_chunk(struct digits_state *s)
{
    int from = s->a.page0 * KV_PAGE - s->a.c0, to = s->a.page1 * KV_PAGE - s->a.c0;
    int low[ATTEND_QUERIES], high[ATTEND_QUERIES], sees[ATTEND_QUERIES];
    int32_t top[ATTEND_QUERIES];
    float least = attend_scales_even(s->v_scale + from, s->a.end - s->a.c0 - from) ? LEAST_WEIGHT
                                                                                   : 0;
    if (s->a.t->softcap > 0) attend_softcap(&s->a, 0, s->a.n, from, to, avx512_softcap);
    for (int i = 0; i < s->a.n; i++) {
        float *p = s->a.scores + (size_t)i * ATTEND_CHUNK;
        sees[i] = attend_sees(&s->a, i / s->a.t->n_heads, &low[i], &high[i]);
        s->a.max[i] = -INFINITY;
        if (sees[i] && low[i] <= from && to - 1 <= high[i])
            s->a.max[i] = largest_score(p, from, to);
        else if (sees[i]) s->a.max[i] = avx512_mask(p, from, to, low[i], high[i], 1);
    }
    for (int i = 0, asked = 0; i < s->a.n; i++) {
        for (; asked * s->a.n < (i + 1) * (ATTEND_CHUNK / KV_PAGE); asked++)
            ask_next_chunk(s, asked, PART_VALUES);
        s->a.sum[i] = 0, top[i] = 0;
        if (sees[i]) top[i] = exps_and_weights(s, i, from, to, low[i], high[i], least);
    }
    for (int i = 0; i < s->a.n; i++) {
        uint8_t *first = s->w + i * ATTEND_CHUNK, *second = first + s->a.n * ATTEND_CHUNK;
        float factor = kv_group_factor(top[i], KV_TOP_I16, &s->w_scale[i]);
        split_weights(s->a.scores + (size_t)i * ATTEND_CHUNK, from, to, factor, first, second);
    }
}

/* merge_chunk of fp32.h but for the values: maxima, sums, and the factors of values. */
ALWAYS_INLINE void merge_sums(struct digits_state *s)
{
    struct attend_state *a = &s->a;
    for (int i = 0; i < a->n; i += LANES) {
        __mmask16 m = a->n - i >= LANES ? 0xffff : (__mmask16)((1u << (a->n - i)) - 1);
        const __m512 none = _mm512_set1_ps(-INFINITY);
        __m512 was = _mm512_mask_loadu_ps(none, m, a->run_max + i),
               now = _mm512_mask_loadu_ps(none, m, a->max + i);
        __mmask16 has = _mm512_cmp_ps_mask(now, none, _CMP_GT_OQ);
        __m512 both = _mm512_max_ps(was, now);
        __m512 x = exp16(_mm512_sub_ps(was, both), 0), y = exp16(_mm512_sub_ps(now, both), 0);
        __m512 sum = _mm512_maskz_loadu_ps(m, a->run_sum + i),
               more = _mm512_maskz_loadu_ps(m, a->sum + i);
        sum = _mm512_add_ps(_mm512_mul_ps(sum, x), _mm512_mul_ps(more, y));
        _mm512_mask_storeu_ps(a->run_max + i, has, both);
        _mm512_mask_storeu_ps(a->run_sum + i, has, sum);
        _mm512_mask_storeu_ps(s->run_factor + i, m, x);
        _mm512_mask_storeu_ps(s->factor + i, m, y);
    }
}

/* Merges 16 dimensions from d on of query i's values of the chunk into those of all. */
ALWAYS_INLINE void finish_values(const struct digits_state *s, int i, int d, __m512i sum)
{
    int left = s->a.t->head_dim - d;
    float *run = s->a.run + i * s->a.t->head_dim + d;
    if (!(s->a.max[i] > -INFINITY)) return;
    __mmask16 m = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(s->w_scale[i]));
    v = _mm512_add_ps(
        _mm512_mul_ps(_mm512_maskz_loadu_ps(m, run), _mm512_set1_ps(s->run_factor[i])),
        _mm512_mul_ps(v, _mm512_set1_ps(s->factor[i])));
    _mm512_mask_storeu_ps(run, m, v);
}

/* Adds the terms of key biases to scores, and scales them where no softcap does. */
NOT_INLINE void bias_chunk(struct attend_state *a)
{
    const int from = a->page0 * KV_PAGE - a->c0, to = a->page1 * KV_PAGE - a->c0;
    attend_add_biases(a);
    for (int i = 0; i < a->n && !(a->t->softcap > 0); i++)
        for (int c = from; c < to; c++) a->scores[i * ATTEND_CHUNK + c] *= a->t->scale;
}

ALWAYS_INLINE void attend_digits(const struct attend_task *t, float *scratch, chunk_fn *scores,
                                 chunk_fn *values)
{
    struct digits_state s;
    attend_begin(&s.a, t, scratch);
    s.n_digits = t->q_top == KV_TOP_I16 ? 2 : 1;
    s.dims = kv_padded(KV_INT8, t->head_dim);
    s.row = (s.dims + 63) / 64 * 64;
    s.w = (uint8_t *)s.a.more;
    s.q = (int8_t *)(s.w + 2 * ATTEND_QUERIES * ATTEND_CHUNK);
    query_digits(&s);
    while (attend_next(&s.a)) {
        scores(&s);
        if (t->bias_pairs) bias_chunk(&s.a);
        weigh_chunk(&s);
        merge_sums(&s);
        values(&s);
    }
    attend_end(&s.a);
}

#endif
