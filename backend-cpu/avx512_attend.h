/* avx512_attend.h: attention and SwiGLU of variant "avx512"; a part of avx512.c, which alone
 * includes it, with the helpers of both. */
#ifndef BACKEND_CPU_AVX512_ATTEND_H
#define BACKEND_CPU_AVX512_ATTEND_H

#include "backend-cpu/avx512_attend_int8.h"

/* From this many queries on keys and values are converted to fp32 once: a conversion costs as much
 * as two products of a vector. */
enum { CONVERT_FROM = 16 };

/* Pages processed at once; the following ones are prefetched meanwhile. */
enum { PAGES_TOGETHER = 2 };

/* Page i in reading order: from the chunk's first page on all keys of the chunk, then all values,
 * page by page; i may lead into the next chunk. */
ALWAYS_INLINE const char *page_in_turn(const struct attend_state *a, int i)
{
    int n = a->page1 - a->page0, next = a->page1 + i - 2 * n;
    if (i < n) return page_keys(a->t, a->page0 + i);
    if (i < 2 * n) return page_values(a->t, a->page0 + i - n);
    return page_keys(a->t, next < a->last_page ? next : a->last_page);
}

ALWAYS_INLINE __m512 load_kv(const char *p, enum kv_type kv)
{
    return kv == KV_F16 ? load_f16(p) : _mm512_loadu_ps(p);
}

/* Pages of keys or of values, as stored or converted, and the pages to be prefetched. */
struct kv_pages {
    const char *at[PAGES_TOGETHER];
    const char *ahead[PAGES_TOGETHER];
    int n;
};

/* A page's keys or values as those of KV_F32, to [head_dim][KV_PAGE] or [KV_PAGE][head_dim]. */
ALWAYS_INLINE void convert_f16(const char *page, int head_dim, float *to)
{
    for (int d = 0; d < head_dim * KV_PAGE; d += LANES)
        _mm512_storeu_ps(to + d, load_f16(page + d * 2));
}

ALWAYS_INLINE void convert_keys_int8(const char *page, int head_dim, float *to)
{
    const __m512i bias = _mm512_set1_epi8((char)KEY_BIAS);
    for (int d = 0; d < head_dim; d += 4) {
        __m512i v = _mm512_xor_si512(_mm512_loadu_si512(page + d * KV_PAGE), bias);
        EACH (j, 4)
            if (d + j < head_dim) _mm512_storeu_ps(to + (d + j) * KV_PAGE, code_of_lane(v, j));
    }
}

ALWAYS_INLINE void convert_values_int8(const char *page, int head_dim, float *to)
{
    int row = kv_padded(KV_INT8, head_dim) * 4;
    for (int c = 0; c < KV_PAGE; c += 4, page += row, to += 4 * head_dim) {
        int d = 0;
        for (; d + LANES <= head_dim; d += LANES) { /* no masks: they are not forwarded to loads */
            __m512i v = _mm512_loadu_si512(page + d * 4);
            EACH (j, 4) _mm512_storeu_ps(to + j * head_dim + d, code_of_lane(v, j));
        }
        if (d == head_dim) continue;
        __m512i v = _mm512_loadu_si512(page + d * 4);
        EACH (j, 4)
            _mm512_mask_storeu_ps(to + j * head_dim + d, (__mmask16)((1u << (head_dim - d)) - 1),
                                  code_of_lane(v, j));
    }
}

/* Pages i .. i+n-1 in reading order; those stored as `convert` are converted into the scratch
 * behind the queries (KV_F32: none). */
ALWAYS_INLINE struct kv_pages take_pages(const struct attend_state *a, int i, int n,
                                         const enum kv_type convert)
{
    struct kv_pages p = {.n = n};
    int keys = i < a->page1 - a->page0, hd = keys ? a->t->head_dim : a->t->value_dim;
    for (int k = 0; k < n; k++) {
        p.at[k] = page_in_turn(a, i + k), p.ahead[k] = page_in_turn(a, i + n + k);
        if (convert == KV_F32) continue;
        float *to = a->rest + (ATTEND_QUERIES + k * KV_PAGE) * a->t->head_dim;
        if (convert == KV_F16) convert_f16(p.at[k], hd, to);
        else if (keys) convert_keys_int8(p.at[k], hd, to);
        else convert_values_int8(p.at[k], hd, to);
        p.at[k] = (const char *)to;
    }
    return p;
}

/* Prefetches `lines` cache lines from p on. */
ALWAYS_INLINE void prefetch_lines(const char *p, const int lines)
{
    EACH (i, lines) _mm_prefetch(p + i * 64, _MM_HINT_T0);
}

/* Types of keys and values: kv as read, stored in the cache (the prefetched bytes). Constants after
 * inlining. */
struct kv_types {
    enum kv_type kv, stored;
};

/* m queries q[head_dim][m] x the positions of np pages of type kv: up to 16 sums, so that none
 * waits for itself. */
ALWAYS_INLINE void scores_block(const float *q, const struct kv_pages *keys, int head_dim,
                                float *scores, const int m, const int np, const struct kv_types t)
{
    const enum kv_type kv = t.kv, stored = t.stored;
    const size_t line = KV_PAGE * kv_bytes(kv), step = 2 * KV_PAGE * kv_bytes(stored);
    const char *k0 = keys->at[0], *k1 = keys->at[np - 1], *a0 = keys->ahead[0],
               *a1 = keys->ahead[np - 1];
    __m512 a[QUERY_BLOCK][2];
    EACH (i, m) a[i][0] = a[i][1] = _mm512_setzero_ps();
    for (int d = 0; d < head_dim;
         /* head_dim is even, since RoPE rotates pairs */
         d += 2) {
        prefetch_lines(a0, stored == KV_F32 ? 2 : 1);
        if (np == 2) prefetch_lines(a1, stored == KV_F32 ? 2 : 1);
        EACH (h, 2) {
            __m512 x = load_kv(k0 + h * line, kv), y = np == 2 ? load_kv(k1 + h * line, kv) : x;
            EACH (i, m) {
                __m512 v = _mm512_set1_ps(q[h * m + i]);
                a[i][0] = _mm512_fmadd_ps(x, v, a[i][0]);
                if (np == 2) a[i][1] = _mm512_fmadd_ps(y, v, a[i][1]);
            }
        }
        q += 2 * m;
        k0 += 2 * line, a0 += step;
        if (np == 2) k1 += 2 * line, a1 += step;
    }
    EACH (i, m)
        EACH (p, np) _mm512_storeu_ps(scores + i * ATTEND_CHUNK + p * KV_PAGE, a[i][p]);
}

/* Queries are packed in blocks of 8, 4 and 1. */
ALWAYS_INLINE int query_block(int left) { return left >= 8 ? 8 : left >= 4 ? 4 : 1; }

/* All queries x np pages; the first block of queries prefetches the next pages. */
ALWAYS_INLINE void scores_pages(const struct attend_state *a, const struct kv_pages *p,
                                float *scores, const int np, const struct kv_types t)
{
    int hd = a->t->head_dim;
    struct kv_pages again = *p;
    for (int k = 0; k < np; k++) again.ahead[k] = again.at[k];
    for (int i = 0, m; i < a->n; i += m) {
        const float *q = a->rest + i * hd;
        const struct kv_pages *keys = i ? &again : p;
        float *s = scores + i * ATTEND_CHUNK;
        m = query_block(a->n - i);
        if (m == 8) scores_block(q, keys, hd, s, 8, np, t);
        else if (m == 4) scores_block(q, keys, hd, s, 4, np, t);
        else scores_block(q, keys, hd, s, 1, np, t);
    }
}

/* Multiplies the scores of np pages with the scales of their keys. */
ALWAYS_INLINE void scale_scores(const struct attend_state *a, int page, int np, float *scores)
{
    for (int k = 0; k < np; k++, scores += KV_PAGE) {
        __m512 scale = _mm512_loadu_ps(key_scales(page_keys(a->t, page + k), a->t->head_dim));
        for (int i = 0; i < a->n; i++) {
            float *s = scores + i * ATTEND_CHUNK;
            _mm512_storeu_ps(s, _mm512_mul_ps(_mm512_loadu_ps(s), scale));
        }
    }
}

ALWAYS_INLINE void scores_chunk(struct attend_state *a, enum kv_type stored, const int convert)
{
    const struct kv_types t = {convert ? KV_F32 : stored, stored};
    for (int i = 0, n = a->page1 - a->page0; i < n; i += PAGES_TOGETHER) {
        struct kv_pages p = take_pages(a, i, n - i < PAGES_TOGETHER ? n - i : PAGES_TOGETHER,
                                       convert ? stored : KV_F32);
        float *s = a->scores + (a->page0 + i) * KV_PAGE - a->c0;
        if (p.n == 2) scores_pages(a, &p, s, 2, t);
        else scores_pages(a, &p, s, 1, t);
        if (stored == KV_INT8) scale_scores(a, a->page0 + i, p.n, s);
    }
}

/* n_pos positions from weights p on, m queries x nd vectors of dimensions from d on; lanes outside
 * mask stay. Not a struct: gcc 12 then makes loops of 7% more instructions. */
ALWAYS_INLINE void values_block(const float *p, const struct kv_pages *v, int prefetch, int n_pos,
                                int head_dim, int d, __mmask16 mask, float *acc, const int m,
                                const int nd, enum kv_type kv, enum kv_type stored)
{
    const size_t bytes = kv_bytes(kv), row = (size_t)head_dim * bytes,
                 ahead_row = (size_t)head_dim * kv_bytes(stored);
    __m512 a[QUERY_BLOCK][2];
    EACH (i, m)
        EACH (k, nd) a[i][k] = _mm512_maskz_loadu_ps(mask, acc + i * head_dim + d + k * LANES);
    for (int page = 0, left = n_pos; left > 0; page++, left -= KV_PAGE) {
        const char *x = v->at[page] + (size_t)d * bytes,
                   *next = prefetch ? v->ahead[page] + (size_t)d * kv_bytes(stored) : x;
        for (int c = left < KV_PAGE ? left : KV_PAGE; c; c--, p++, x += row, next += ahead_row) {
            __m512 u[2];
            if (nd == 2) {
                EACH (k, 2) u[k] = load_kv(x + k * LANES * bytes, kv);
                prefetch_lines(next, stored == KV_F32 ? 2 : 1);
            } else if (kv == KV_F16) u[0] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, x));
            else u[0] = _mm512_maskz_loadu_ps(mask, x);
            EACH (i, m) {
                __m512 w = _mm512_set1_ps(p[i * ATTEND_CHUNK]);
                EACH (k, nd) a[i][k] = _mm512_fmadd_ps(w, u[k], a[i][k]);
            }
        }
    }
    EACH (i, m)
        EACH (k, nd) _mm512_mask_storeu_ps(acc + i * head_dim + d + k * LANES, mask, a[i][k]);
}

ALWAYS_INLINE void values_dims(const float *p, const struct kv_pages *v, int prefetch, int n_pos,
                               int head_dim, float *acc, const int m, enum kv_type kv,
                               enum kv_type stored)
{
    int d = 0;
    for (; d + 2 * LANES <= head_dim; d += 2 * LANES)
        values_block(p, v, prefetch, n_pos, head_dim, d, 0xffff, acc, m, 2, kv, stored);
    for (; d < head_dim; d += LANES) {
        __mmask16 mask = head_dim - d >= LANES ? 0xffff : (__mmask16)((1u << (head_dim - d)) - 1);
        values_block(p, v, prefetch, n_pos, head_dim, d, mask, acc, m, 1, kv, stored);
    }
}

/* Pages as stored are processed one by one, in memory order; converted ones in pairs, which halves
 * the loads and stores of the accumulators. */
ALWAYS_INLINE void values_chunk(struct attend_state *a, enum kv_type stored, const int convert)
{
    enum kv_type kv = convert ? KV_F32 : stored;
    const int together = convert ? PAGES_TOGETHER : 1;
    int hd = a->t->value_dim, n = a->page1 - a->page0;
    for (int i = 0; i < n; i += together) {
        struct kv_pages v = take_pages(a, n + i, n - i < together ? n - i : together,
                                       convert ? stored : KV_F32);
        int left = a->end - (a->page0 + i) * KV_PAGE,
            n_pos = left < v.n * KV_PAGE ? left
                                         : v.n * KV_PAGE; /* later positions are not stored yet */
        const float *p = a->scores + (a->page0 + i) * KV_PAGE - a->c0;
        for (int k = 0, m; k < a->n; k += m) {
            m = query_block(a->n - k);
            if (m == 8)
                values_dims(p + k * ATTEND_CHUNK, &v, !k, n_pos, hd, a->acc + k * hd, 8, kv,
                            stored);
            else if (m == 4)
                values_dims(p + k * ATTEND_CHUNK, &v, !k, n_pos, hd, a->acc + k * hd, 4, kv,
                            stored);
            else
                values_dims(p + k * ATTEND_CHUNK, &v, !k, n_pos, hd, a->acc + k * hd, 1, kv,
                            stored);
        }
    }
}

/* Copies the queries into rest, block by block as [head_dim][block]: a step of the scores reads
 * consecutive floats. */
ALWAYS_INLINE void pack_queries(struct attend_state *a)
{
    int hd = a->t->head_dim;
    for (int i = 0, m; i < a->n; i += m) {
        m = query_block(a->n - i);
        for (int k = 0; k < m; k++) {
            const float *q = attend_query(a->t, i + k);
            for (int d = 0; d < hd; d++) a->rest[i * hd + d * m + k] = q[d];
        }
    }
}

/* Each in a function of its own: in larger ones gcc runs out of registers for pointers. */
NOT_INLINE void avx512_attend_keys(struct attend_state *a) { scores_chunk(a, KV_F16, 0); }
NOT_INLINE void avx512_attend_values(struct attend_state *a) { values_chunk(a, KV_F16, 0); }
NOT_INLINE void avx512_attend_keys_converted(struct attend_state *a) { scores_chunk(a, KV_F16, 1); }
NOT_INLINE void avx512_attend_values_converted(struct attend_state *a)
{
    values_chunk(a, KV_F16, 1);
}
NOT_INLINE void avx512_attend_keys_int8(struct attend_state *a) { scores_chunk(a, KV_INT8, 1); }
NOT_INLINE void avx512_attend_values_int8(struct attend_state *a) { values_chunk(a, KV_INT8, 1); }
NOT_INLINE void avx512_attend_keys_f32(struct attend_state *a) { scores_chunk(a, KV_F32, 0); }
NOT_INLINE void avx512_attend_values_f32(struct attend_state *a) { values_chunk(a, KV_F32, 0); }

/* gcc vectorizes it. */
void avx512_softcap(float *x, float cap, size_t n) { fp32_softcap(x, cap, n); }

/* Attention over KV_INT8 in fp32. */
static void attend_codes(struct attend_state *a)
{
    while (attend_next(a)) {
        if (a->t->unpack) attend_unpack(a, KEYS);
        avx512_attend_keys_int8(a);
        if (a->t->bias_pairs) attend_add_biases(a);
        attend_weights(a, avx512_exps, avx512_mask, avx512_softcap);
        attend_scale_weights(a);
        if (a->t->unpack) attend_unpack(a, VALUES);
        avx512_attend_values_int8(a);
        attend_merge(a);
    }
    attend_end(a);
}

void avx512_attend(const struct attend_task *t, float *scratch)
{
    struct attend_state a;
    int plain = t->q_top || t->latent || t->n_rows * t->n_heads < CONVERT_FROM;
    if (t->kv == KV_INT8 && plain) {
        attend_int8(t, scratch);
        return;
    }
    attend_begin(&a, t, scratch);
    pack_queries(&a);
    if (t->kv == KV_INT8) {
        attend_codes(&a);
        return;
    }
    while (attend_next(&a)) {
        int convert = t->kv == KV_F16 && a.n >= CONVERT_FROM;
        if (t->kv == KV_F32) avx512_attend_keys_f32(&a);
        else if (convert) avx512_attend_keys_converted(&a);
        else avx512_attend_keys(&a);
        attend_weights(&a, avx512_exps, avx512_mask, avx512_softcap);
        if (t->latent) attend_unpack(&a, VALUES);
        if (t->kv == KV_F32) avx512_attend_values_f32(&a);
        else if (convert) avx512_attend_values_converted(&a);
        else avx512_attend_values(&a);
        attend_merge(&a);
    }
    attend_end(&a);
}

/* gcc vectorizes it. */
void avx512_merge(const struct attend_task *t, float *scratch) { fp32_merge(t, scratch); }

/* fp32_xielu on 16 lanes. */
ALWAYS_INLINE __m512 xielu16(const struct xielu *a, __m512 x)
{
    const __m512 beta = _mm512_set1_ps(a->beta), one = _mm512_set1_ps(1.0f);
    __m512 m = _mm512_min_ps(x, _mm512_set1_ps(a->eps)), sum = _mm512_setzero_ps();
#define TERM(factor) sum = _mm512_fmadd_ps(sum, m, _mm512_set1_ps(factor));
    XIELU_SERIES(TERM)
#undef TERM
    __mmask16 is_near = _mm512_cmp_ps_mask(m, _mm512_set1_ps(-0.5f), _CMP_GT_OQ),
              is_above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
    __m512 near = _mm512_fmadd_ps(_mm512_mul_ps(m, m), sum, _mm512_sub_ps(m, x)),
           far = _mm512_sub_ps(_mm512_sub_ps(exp16(m, 1), one), x),
           q = _mm512_mask_mul_ps(far, is_near, near, one),
           below = _mm512_fmadd_ps(_mm512_set1_ps(a->n), q, _mm512_mul_ps(beta, x)),
           above = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_set1_ps(a->p), x, beta));
    return _mm512_mask_mul_ps(below, is_above, above, one);
}

/* fp32_glu on 16 lanes. */
ALWAYS_INLINE __m512 glu16(const struct cpu_glu *a, const enum activation k, __m512 g, __m512 u,
                           const int has_up)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    if (k == ACTIVATION_XIELU) return xielu16(&a->xielu, g);
    if (k == ACTIVATION_SWIGLU_CLAMPED) {
        __m512 limit = _mm512_set1_ps(a->limit); /* min and max give the second operand for NaN */
        g = _mm512_min_ps(limit, g);
        u = _mm512_max_ps(_mm512_set1_ps(-a->limit), _mm512_min_ps(limit, u));
        u = _mm512_add_ps(u, one);
    }
    __m512 z = g;
    if (k == ACTIVATION_GELU_TANH)
        z = _mm512_mul_ps(g, _mm512_fmadd_ps(_mm512_set1_ps(GELU_3), _mm512_mul_ps(g, g),
                                             _mm512_set1_ps(GELU_1)));
    if (k == ACTIVATION_SWIGLU_CLAMPED) z = _mm512_mul_ps(_mm512_set1_ps(a->alpha), g);
    __m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), z), 1),
           y = _mm512_div_ps(k == ACTIVATION_SIGMOID ? one : g, _mm512_add_ps(one, e));
    return has_up ? _mm512_mul_ps(y, u) : y;
}

ALWAYS_INLINE void glu_all(const struct cpu_glu *a, const enum activation k, const int has_up,
                           float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = n - i >= LANES ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m512 g = _mm512_maskz_loadu_ps(m, gate + i),
               u = has_up ? _mm512_maskz_loadu_ps(m, up + i) : _mm512_setzero_ps();
        _mm512_mask_storeu_ps(gate + i, m, glu16(a, k, g, u, has_up));
    }
}

void avx512_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    glu_each(a, gate, up, n, glu_all);
}

#endif
