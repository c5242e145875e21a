/* fp32.h: operations shared by the fp32 variants: reductions over 16 lanes, RMSNorm (Zhang and
 * Sennrich 2019), RoPE (Su et al. 2021) and attention over KV chunks with online softmax (Milakov
 * and Gimelshein 2018; Dao et al. 2022). Each variant compiles them for its own instruction set and
 * passes inlined functions for the inner loops that a compiler does not vectorize. */
#ifndef BACKEND_CPU_FP32_H
#define BACKEND_CPU_FP32_H

#include "backend-cpu/cpu_math.h"
#include "backend-cpu/kernels.h"
#include "backend-cpu/latent.h"
#include "backend-cpu/packed.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 16, QUERY_BLOCK = 8, PAGES_AT_ONCE = 2 };

/* Arguments of cpu_kernels.q4: outputs of panels p0 .. p1-1. */
struct q4_call {
    const struct linear *w;
    const float *x; /* permuted and packed, see kernels.h */
    float *y;       /* [rows][out] */
    int rows, p0, p1;
};

/* Folds s[LANES] (overwritten) 8, 4, 2, 1. */
ALWAYS_INLINE float fold_lanes(float *s)
{
    for (int w = LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++) s[i] += s[i + w];
    return s[0];
}

ALWAYS_INLINE float sum_squares(const float *x, int n)
{
    float s[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) s[l] += x[i + l] * x[i + l];
    for (int l = 0; i + l < n; l++) s[l] += x[i + l] * x[i + l];
    return fold_lanes(s);
}

ALWAYS_INLINE void fp32_norm(float *x, const float *delta, const float *weight, float eps,
                             float *out, int dim)
{
    if (delta)
        for (int i = 0; i < dim; i++) x[i] += delta[i];
    float f = 1.0f / sqrtf(sum_squares(x, dim) / (float)dim + eps);
    for (int i = 0; i < dim; i++) out[i] = x[i] * f * weight[i];
}

/* Sum of x[i] - mean (power 1) or of its squares, in 16 lanes. */
ALWAYS_INLINE float sum_centered(const float *x, int n, float mean, const int power)
{
    float s[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float v = x[i + l] - mean;
            s[l] += power == 2 ? v * v : v;
        }
    for (int l = 0; i + l < n; l++) {
        float v = x[i + l] - mean;
        s[l] += power == 2 ? v * v : v;
    }
    return fold_lanes(s);
}

ALWAYS_INLINE void fp32_layer_norm(float *x, const float *delta, const float *weight,
                                   const float *bias, float eps, float *out, int dim)
{
    if (delta)
        for (int i = 0; i < dim; i++) x[i] += delta[i];
    float mean = sum_centered(x, dim, 0, 1) / (float)dim;
    float f = 1.0f / sqrtf(sum_centered(x, dim, mean, 2) / (float)dim + eps);
    if (bias)
        for (int i = 0; i < dim; i++) out[i] = (x[i] - mean) * f * weight[i] + bias[i];
    else
        for (int i = 0; i < dim; i++) out[i] = (x[i] - mean) * f * weight[i];
}

ALWAYS_INLINE void fp32_add(float *x, const float *y, const float *gate, float factor, int n)
{
    float g = gate ? 1.0f / (1.0f + cpu_expf(-*gate)) : 1.0f;
    if (y)
        for (int i = 0; i < n; i++) x[i] = fmaf(y[i], g, x[i]) * factor;
    else
        for (int i = 0; i < n; i++) x[i] *= factor;
}

ALWAYS_INLINE void fp32_rope(const float *x, float *y, int n_heads, int head_dim,
                             const float *weight, float eps, const float *cosv, const float *sinv)
{
    int half = head_dim / 2;
    float v[1024]; /* head_dim <= 1024 (checked by core/model/model.c); a copy, because x and y may
                      alias, which prevents vectorization */
    for (int h = 0; h < n_heads; h++, x += head_dim, y += head_dim) {
        if (weight) {
            float f = 1.0f / sqrtf(sum_squares(x, head_dim) / (float)head_dim + eps);
            for (int i = 0; i < head_dim; i++) v[i] = x[i] * f * weight[i];
        } else memcpy(v, x, (size_t)head_dim * sizeof *v);
        for (int i = 0; i < half; i++) {
            float a = v[i], b = v[i + half];
            y[i] = a * cosv[i] - b * sinv[i];
            y[i + half] = b * cosv[i] + a * sinv[i];
        }
    }
}

/* scores[i][c] = q_i . key(c) for n <= QUERY_BLOCK queries (row i at q[i], [head_dim]) and the
 * KV_PAGE positions c of each of n_pages <= PAGES_AT_ONCE pages; scores has rows of ATTEND_CHUNK
 * floats. */
typedef void scores_fn(const float *const *q, int n, const void *const *keys, int n_pages,
                       int head_dim, enum kv_type kv, float *scores);
/* acc[i][d] += sum over positions c of p[i][c] * value(page, c)[d], c ascending in 0 .. n_pos-1; p
 * has rows of ATTEND_CHUNK floats, acc of head_dim */
typedef void values_fn(const float *p, int n, int n_pos, const void *values, int head_dim,
                       enum kv_type kv, float *acc);
/* p[i] = exp(p[i] - max) for n (a multiple of LANES) elements; returns their sum, lane by lane and
 * folded */
typedef float exps_fn(float *p, float max, int n);
/* For p[from .. to-1], whole pages: p[i] *= factor for a <= i <= b, the others become -infinity;
 * returns the largest, NaN excluded */
typedef float mask_fn(float *p, int from, int to, int a, int b, float factor);
/* For mask_scores: p[i] *= factor for n (a multiple of LANES) elements; returns the largest, NaN
 * excluded */
typedef float scale_fn(float *p, int n, float factor);

/* For variants without their own; gcc 12 vectorizes it for arm64, not for x86. */
ALWAYS_INLINE float fp32_scale(float *p, int n, float factor)
{
    float top[LANES];
    for (int l = 0; l < LANES; l++) top[l] = -INFINITY;
    for (int c = 0; c < n; c += LANES)
        for (int l = 0; l < LANES; l++) {
            float v = p[c + l] * factor;
            p[c + l] = v;
            top[l] = v > top[l] ? v : top[l];
        }
    for (int l = 1; l < LANES; l++) top[0] = top[l] > top[0] ? top[l] : top[0];
    return top[0];
}

/* State of an attend task between chunks of positions. */
struct attend_state {
    const struct attend_task *t;
    int n;         /* queries; row r, head h is query r * n_heads + h */
    int last_page; /* last page of the task */
    int c_end;     /* end of the task's chunks */
    int c0, page0,
        page1;        /* the chunk: first position; first page and end of the pages that are read */
    int end;          /* end of the positions that are stored */
    float *scores;    /* [n][ATTEND_CHUNK]: scores, then weights */
    float *acc, *run; /* [n][value_dim] values of this chunk; of all previous chunks */
    float *rest;      /* scratch [2 * ATTEND_QUERIES][head_dim] of the variant, and a few more */
    float *more;      /* scratch [ATTEND_QUERIES][ATTEND_CHUNK + head_dim + 32] of the variant */
    float *plain;     /* [n][head_dim] with key biases: the queries as they were before kv_rotate */
    float max[ATTEND_QUERIES], sum[ATTEND_QUERIES], run_max[ATTEND_QUERIES],
        run_sum[ATTEND_QUERIES];
};

ALWAYS_INLINE const float *attend_query(const struct attend_task *t, int i)
{
    return t->q + (size_t)(i / t->n_heads) * (size_t)t->row_stride +
           (size_t)(i % t->n_heads) * (size_t)t->head_dim;
}

/* Where the result of query i goes. */
ALWAYS_INLINE float *attend_result(const struct attend_task *t, int i)
{
    return t->out + (size_t)(i / t->n_heads) * (size_t)t->out_stride +
           (size_t)(i % t->n_heads) * (size_t)t->value_dim;
}

/* Begins to merge. none: the number that the sums of values begin with */
ALWAYS_INLINE void attend_clear(struct attend_state *a, float none)
{
    for (int i = 0; i < a->n; i++) a->run_max[i] = -INFINITY, a->run_sum[i] = 0;
    for (int i = 0; i < a->n * a->t->value_dim; i++) a->run[i] = none;
}

/* Merged with these, a chunk is kept as it is: x * 1 + -0 has the bits of x. */
#define KEPT_BEGINS -0.0f

ALWAYS_INLINE void attend_begin(struct attend_state *a, const struct attend_task *t, float *scratch)
{
    size_t each = (size_t)ATTEND_QUERIES * (size_t)t->head_dim;
    int first = attend_first(t, 0) / ATTEND_CHUNK, last = t->pos0 + t->n_rows - 1;
    a->t = t;
    a->n = t->n_rows * t->n_heads;
    a->c0 = (t->kept ? t->chunk0 : first) * ATTEND_CHUNK - ATTEND_CHUNK;
    a->c_end = last + 1;
    if (t->kept && t->chunk1 * ATTEND_CHUNK <= last) a->c_end = t->chunk1 * ATTEND_CHUNK;
    a->last_page = (a->c_end - 1) / KV_PAGE;
    a->scores = scratch;
    a->acc = scratch + ATTEND_QUERIES * ATTEND_CHUNK;
    a->run = a->acc + each;
    a->rest = a->run + each;
    a->more = a->rest + 2 * each + 32 * ATTEND_QUERIES;
    a->plain = scratch + attend_floats(t->head_dim) - each;
    for (int i = 0; i < a->n && t->bias_pairs; i++) {
        float *q = memcpy(a->plain + i * t->head_dim, attend_query(t, i),
                          (size_t)t->head_dim * sizeof *q);
        kv_rotate(q, t->head_dim, 1);
    }
    attend_clear(a, t->kept ? KEPT_BEGINS : 0);
}

/* Where the task keeps chunk i of the sequence: the largest score and the sum of each query, then
 * the values [n][value_dim]. */
ALWAYS_INLINE float *kept_chunk(const struct attend_state *a, int i)
{
    return a->t->kept + (size_t)(i - a->t->chunk0) * (size_t)(a->n * (2 + a->t->value_dim));
}

/* Keeps the chunk that was computed, and begins to merge again. */
ALWAYS_INLINE void attend_keep(struct attend_state *a)
{
    float *to = kept_chunk(a, a->c0 / ATTEND_CHUNK);
    memcpy(to, a->run_max, (size_t)a->n * sizeof *to);
    memcpy(to + a->n, a->run_sum, (size_t)a->n * sizeof *to);
    memcpy(to + 2 * a->n, a->run, (size_t)(a->n * a->t->value_dim) * sizeof *to);
    attend_clear(a, KEPT_BEGINS);
}

/* Asks for one part of a packed page, and with the keys for the scales. */
ALWAYS_INLINE void ask_packed(const struct attend_task *t, int page, enum kv_part part)
{
    const char *p = packed_page(t, page);
    int n = kv_padded(KV_INT8, t->head_dim);
    for (int i = 0; i < 10 * n; i += 64)
        __builtin_prefetch((const char *)packed_codes(p, part, n) + i, 0, 2);
    for (int i = 0; part == KEYS && i < 2; i++)
        __builtin_prefetch((const char *)packed_scales(p, n, t->latent ? 1 : 2) + 64 * i, 0, 2);
}

/* KV_INT4: the values of a page as KV_INT8, to `to`. */
ALWAYS_INLINE void unpack_page_values(const struct attend_task *t, int page, char *to)
{
    int n = kv_padded(KV_INT8, t->head_dim);
    if (page != t->pos0 / KV_PAGE) t->unpack(packed_page(t, page), VALUES, t->head_dim, to);
    else memcpy(to, t->own + 16 * n, (size_t)(16 * n));
}

/* KV_INT4: the keys and scales of a page of the chunk, of those that are not in `own`. */
ALWAYS_INLINE void unpack_page_keys(const struct attend_task *t, int page)
{
    const char *from = packed_page(t, page);
    char *to = unpacked_keys(t, page);
    int n = kv_padded(KV_INT8, t->head_dim), parts = t->latent ? 1 : 2;
    if (page == t->pos0 / KV_PAGE) return;
    t->unpack(from, KEYS, t->head_dim, to);
    memcpy(to + 16 * parts * n, packed_scales(from, n, parts), 2 * KV_PAGE * sizeof(float));
}

/* Unpacks the keys of the chunk and asks for its values; or unpacks the values and asks for the
 * keys of the next chunk. Values of latent heads are made of the keys. */
ALWAYS_INLINE void attend_unpack(const struct attend_state *a, enum kv_part part)
{
    const struct attend_task *t = a->t;
    for (int page = a->page0; page < a->page1; page++) {
        int ahead = part == KEYS && !t->latent ? page : page + a->page1 - a->page0;
        if (t->latent && part == VALUES) latent_page_values(t, page);
        if (!t->unpack || (t->latent && part == VALUES)) continue;
        if (ahead < t->pos0 / KV_PAGE)
            ask_packed(t, ahead, part == KEYS && !t->latent ? VALUES : KEYS);
        if (part == KEYS) unpack_page_keys(t, page);
        else unpack_page_values(t, page, unpacked_values(t, page));
    }
}

/* Advances to the next chunk and clears acc; 0: there is none. */
ALWAYS_INLINE int attend_next(struct attend_state *a)
{
    int first = attend_first(a->t, 0);
    if (a->t->kept && a->c0 >= a->t->chunk0 * ATTEND_CHUNK) attend_keep(a);
    a->c0 += ATTEND_CHUNK;
    if (a->c0 >= a->c_end) return 0;
    a->end = a->c_end < a->c0 + ATTEND_CHUNK ? a->c_end : a->c0 + ATTEND_CHUNK;
    a->page0 = (first > a->c0 ? first : a->c0) / KV_PAGE;
    a->page1 = (a->end - 1) / KV_PAGE + 1;
    memset(a->acc, 0, (size_t)(a->n * a->t->value_dim) * sizeof *a->acc);
    return 1;
}

/* Prefetches the keys or values of a page during the work on the previous one: pages are scattered,
 * so the hardware prefetcher cannot predict them. */
ALWAYS_INLINE void ask_for(const void *p, const struct attend_task *t)
{
    for (size_t i = 0, n = kv_part_bytes(t->kv, t->head_dim); i < n; i += 64)
        __builtin_prefetch((const char *)p + i);
}

/* The scores of latent heads over KV_INT8, in fp32: a page's codes become floats once. */
ALWAYS_INLINE void latent_scores(struct attend_state *a, const float *const *q)
{
    const struct attend_task *t = a->t;
    const int hd = t->head_dim;
    float *code = a->rest; /* [hd][KV_PAGE] */
    for (int page = a->page0; page < a->page1; page++) {
        const uint8_t *keys = page_keys(t, page);
        const float *scale = latent_scales(keys, hd);
        for (int d = 0; d < hd; d++)
            for (int c = 0; c < KV_PAGE; c++)
                code[d * KV_PAGE + c] = (float)(keys[key_at(d, c)] - KEY_BIAS);
        for (int i = 0; i < a->n; i++) {
            float sum[2][KV_PAGE] = {{0}}, *to = a->scores + i * ATTEND_CHUNK + page * KV_PAGE;
            for (int d = 0; d < hd; d++) {
                float *s = sum[d >= t->value_dim];
                for (int c = 0; c < KV_PAGE; c++) s[c] = fmaf(q[i][d], code[d * KV_PAGE + c], s[c]);
            }
            for (int c = 0; c < KV_PAGE; c++)
                to[c - a->c0] = sum[0][c] * scale[c] + sum[1][c] * scale[KV_PAGE + c];
        }
    }
}

/* Adds the terms of key biases to the scores of the chunk. A function of its own: few models have
 * them. */
static __attribute__((noinline)) void attend_add_biases(struct attend_state *a)
{
    const struct attend_task *t = a->t;
    const int half = t->head_dim / 2, from = a->page0 * KV_PAGE - a->c0,
              to = a->page1 * KV_PAGE - a->c0;
    const float *turn = t->turns + (size_t)(a->c0 / ATTEND_CHUNK) * (size_t)t->head_dim;
    _Static_assert((int)ATTEND_CHUNK == (int)KEY_BIAS_CHUNK, "positions of a table");
    for (int i = 0; i < a->n; i++) {
        const float *q = a->plain + i * t->head_dim;
        float *p = a->scores + (size_t)i * ATTEND_CHUNK;
        for (int j = from; j < to; j += KV_PAGE) { /* whose sums have registers */
            const float *row = t->bias;
            float sum[KV_PAGE] = {0};
            for (int k = 0; k < t->bias_pairs; k++, row += KEY_BIAS_ROW) {
                const int d = (int)row[2 * KEY_BIAS_CHUNK];
                const float c = turn[2 * d], s = turn[2 * d + 1], x = q[d] * c + q[d + half] * s,
                            y = q[d + half] * c - q[d] * s;
                for (int e = 0; e < KV_PAGE; e++)
                    sum[e] = fmaf(y, row[KEY_BIAS_CHUNK + j + e], fmaf(x, row[j + e], sum[e]));
            }
            for (int e = 0; e < KV_PAGE; e++) p[j + e] += sum[e];
        }
    }
}

/* Computes the scores of all queries for the chunk. */
ALWAYS_INLINE void attend_scores(struct attend_state *a, const float *const *q, scores_fn *scores)
{
    const struct attend_task *t = a->t;
    if (t->latent && t->kv == KV_INT8) {
        latent_scores(a, q);
        return;
    }
    for (int page = a->page0, n; page < a->page1; page += n) {
        const void *keys[PAGES_AT_ONCE];
        n = a->page1 - page < PAGES_AT_ONCE ? a->page1 - page : PAGES_AT_ONCE;
        for (int i = 0; i < n; i++) {
            int next = page + n + i;
            keys[i] = page_keys(t, page + i);
            if (next < a->page1 || (next == a->page1 && i == 0))
                ask_for(next < a->page1 ? page_keys(t, next) : page_values(t, a->page0), t);
        }
        for (int i = 0; i < a->n; i += QUERY_BLOCK)
            scores(q + i, a->n - i < QUERY_BLOCK ? a->n - i : QUERY_BLOCK, keys, n, t->head_dim,
                   t->kv, a->scores + (size_t)i * ATTEND_CHUNK + page * KV_PAGE - a->c0);
    }
    if (t->bias_pairs) attend_add_biases(a);
}

/* A mask_fn for variants without their own: only the first and the last page are tested position by
 * position. */
ALWAYS_INLINE float mask_scores(float *p, int from, int to, int a, int b, float factor,
                                scale_fn *scale)
{
    int whole0 = (a + LANES - 1) / LANES * LANES, whole1 = (b + 1) / LANES * LANES;
    float max = whole0 < whole1 ? scale(p + whole0, whole1 - whole0, factor) : -INFINITY;
    for (int c = from; c < to; c++) {
        if (c >= whole0 && c < whole1) c = whole1;
        if (c == to) break;
        p[c] = c >= a && c <= b ? p[c] * factor : -INFINITY;
        max = p[c] > max ? p[c] : max;
    }
    return max;
}

ALWAYS_INLINE float fp32_mask(float *p, int from, int to, int a, int b, float factor)
{
    return mask_scores(p, from, to, a, b, factor, fp32_scale);
}

ALWAYS_INLINE void fp32_sums(const float *x, int group, int groups, float *out)
{
    for (int g = 0; g < groups; g++, x += group) {
        float s[LANES] = {0};
        for (int i = 0; i < group; i += LANES)
            for (int l = 0; l < LANES; l++) s[l] += x[i + l];
        out[g] = fold_lanes(s);
    }
}

ALWAYS_INLINE void fp32_softcap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = cap * cpu_tanhf(x[i] / cap);
}

/* cpu_kernels.softcap */
typedef void softcap_fn(float *x, float cap, size_t n);

/* Scales and caps the scores of the queries i0 .. i1-1 at positions from .. to-1. A function of its
 * own: it divides, which the loops of attention without a softcap must not. */
static __attribute__((noinline)) void attend_softcap(struct attend_state *a, int i0, int i1,
                                                     int from, int to, softcap_fn *softcap)
{
    for (int i = i0; i < i1; i++) {
        float *p = a->scores + (size_t)i * ATTEND_CHUNK;
        for (int c = from; c < to; c++) p[c] *= a->t->scale;
        softcap(p + from, a->t->softcap, (size_t)(to - from));
    }
}

/* First and last of the chunk's positions, from its beginning on, that row r sees; 0: none. */
ALWAYS_INLINE int attend_sees(const struct attend_state *a, int r, int *low, int *high)
{
    *low = attend_first(a->t, r) - a->c0, *high = a->t->pos0 + r - a->c0;
    if (*low < 0) *low = 0;
    if (*high > ATTEND_CHUNK - 1) *high = ATTEND_CHUNK - 1;
    return *low <= *high;
}

/* Turns scores into weights exp(score - max). Positions that a query does not see get weight 0. */
ALWAYS_INLINE void attend_weights(struct attend_state *a, exps_fn *exps, mask_fn *mask,
                                  softcap_fn *softcap)
{
    const struct attend_task *t = a->t;
    int from = a->page0 * KV_PAGE - a->c0, to = a->page1 * KV_PAGE - a->c0;
    float scale = t->softcap > 0 ? 1 : t->scale;
    for (int i0 = 0, i1; i0 < a->n;
         i0 = i1) { /* several queries at a time, to hide the latency of each maximum */
        int sees[QUERY_BLOCK];
        i1 = i0 + QUERY_BLOCK < a->n ? i0 + QUERY_BLOCK : a->n;
        if (t->softcap > 0) attend_softcap(a, i0, i1, from, to, softcap);
        for (int i = i0; i < i1; i++) {
            int low, high;
            sees[i - i0] = attend_sees(a, i / t->n_heads, &low, &high);
            a->max[i] = mask(a->scores + (size_t)i * ATTEND_CHUNK, from, to, low, high, scale);
        }
        for (int i = i0; i < i1; i++) {
            float *p = a->scores + (size_t)i * ATTEND_CHUNK + from;
            a->sum[i] = 0;
            if (sees[i - i0]) a->sum[i] = exps(p, a->max[i], to - from);
            else
                memset(p, 0,
                       (size_t)(to - from) * sizeof *p); /* the query sees nothing of this chunk */
        }
    }
}

/* Exponentials below this count as 0 in integers when attend_scales_even holds: their product with
 * a scale cannot become an integer other than 0, and the subnormal ones would be slow. */
#define LEAST_WEIGHT 0x1p-60f

/* 1: every scale [n] of a chunk's values is at least 2^-60, and 2^-40 of the largest. The weight of
 * the position with the largest score, exponential 1, is then 2^-40 of the largest scale or more,
 * and one below LEAST_WEIGHT is less than 2^-20 of it: less than half of 1 / KV_TOP_I16. */
ALWAYS_INLINE int attend_scales_even(const float *scale, int n)
{
    float most = 0;
    int even = 1;
    for (int i = 0; i < n; i++) most = scale[i] > most ? scale[i] : most;
    for (int i = 0; i < n; i++)
        even &= scale[i] >= LEAST_WEIGHT && scale[i] >= most * 0x1p-40f; /* NaN: 0 */
    return even;
}

/* KV_INT8: multiplies the weights by the scales of the values; 0 where a query does not see, and in
 * fp32 in place of a subnormal product, which would make every sum with it a slow one. */
ALWAYS_INLINE void attend_scale_weights(struct attend_state *a)
{
    const struct attend_task *t = a->t;
    const int from = a->page0 * KV_PAGE - a->c0, to = a->page1 * KV_PAGE - a->c0;
    float scale[ATTEND_CHUNK], least_weight, least_product = t->q_top ? 0 : FLT_MIN;
    for (int page = a->page0; page < a->page1; page++)
        memcpy(scale + page * KV_PAGE - a->c0, value_scales(t, page), KV_PAGE * sizeof *scale);
    least_weight = t->q_top && attend_scales_even(scale + from, a->end - a->c0 - from)
                       ? LEAST_WEIGHT
                       : 0;
    for (int i = 0; i < a->n; i++) {
        float *p = a->scores + (size_t)i * ATTEND_CHUNK;
        int low, high;
        attend_sees(a, i / t->n_heads, &low, &high);
        low = low < from ? from : low < to ? low : to;
        high = high < low ? low : high + 1 < to ? high + 1 : to;
        for (int c = from; c < low; c++) p[c] = 0;
        for (int c = low; c < high; c++) {
            float x = (p[c] < least_weight ? 0 : p[c]) * scale[c];
            p[c] = x < least_product ? 0 : x;
        }
        for (int c = high; c < to; c++) p[c] = 0;
    }
}

/* Adds the weighted values of the chunk to acc. */
ALWAYS_INLINE void attend_values(struct attend_state *a, values_fn *values)
{
    const struct attend_task *t = a->t;
    for (int page = a->page0; page < a->page1; page++) {
        int n_pos = a->end - page * KV_PAGE < KV_PAGE
                        ? a->end - page * KV_PAGE
                        : KV_PAGE; /* later positions are not stored yet */
        if (page + 1 < a->page1) ask_for(page_values(t, page + 1), t);
        for (int i = 0; i < a->n; i += QUERY_BLOCK)
            values(a->scores + (size_t)i * ATTEND_CHUNK + page * KV_PAGE - a->c0,
                   a->n - i < QUERY_BLOCK ? a->n - i : QUERY_BLOCK, n_pos, page_values(t, page),
                   t->value_dim, t->kv, a->acc + i * t->value_dim);
    }
}

/* Merges the (max, sum, values) of one chunk into the running ones of a query (online softmax). */
ALWAYS_INLINE void merge_chunk(float *run_max, float *run_sum, float *run, float max, float sum,
                               const float *acc, int head_dim)
{
    float m = *run_max > max ? *run_max : max;
    float a = cpu_expf(*run_max - m),
          b = cpu_expf(max - m); /* cpu_expf(-inf) is 0: the first chunk is no special case */
    *run_max = m;
    *run_sum = *run_sum * a + sum * b;
    for (int d = 0; d < head_dim; d++)
        run[d] = run[d] * a + acc[d] * b; /* not fused: two products and a sum */
}

/* Merges the chunk into the previous ones. */
ALWAYS_INLINE void attend_merge(struct attend_state *a)
{
    int vd = a->t->value_dim;
    for (int i = 0; i < a->n; i++)
        if (a->max[i] > -INFINITY)
            merge_chunk(&a->run_max[i], &a->run_sum[i], a->run + i * vd, a->max[i], a->sum[i],
                        a->acc + i * vd, vd);
}

/* What the values of all chunks are multiplied by: 1 / sum; with a sink, which has no value, it is
 * merged as a chunk of one position. */
ALWAYS_INLINE float attend_factor(const struct attend_state *a, int i)
{
    if (!a->t->sinks) return 1.0f / a->run_sum[i];
    float sink = a->t->sinks[i % a->t->n_heads], m = a->run_max[i] > sink ? a->run_max[i] : sink;
    float scaled = cpu_expf(a->run_max[i] - m);
    return scaled / (a->run_sum[i] * scaled + cpu_expf(sink - m));
}

/* The results of merging. */
ALWAYS_INLINE void attend_write(const struct attend_state *a)
{
    int vd = a->t->value_dim;
    for (int i = 0; i < a->n; i++) {
        float *out = attend_result(a->t, i), f = attend_factor(a, i);
        for (int d = 0; d < vd; d++) out[d] = a->run[i * vd + d] * f;
    }
}

ALWAYS_INLINE void attend_end(const struct attend_state *a)
{
    if (!a->t->kept) attend_write(a);
}

/* cpu_kernels.merge */
ALWAYS_INLINE void fp32_merge(const struct attend_task *t, float *scratch)
{
    struct attend_state a;
    int vd = t->value_dim;
    attend_begin(&a, t, scratch);
    attend_clear(&a, 0);
    for (int c = t->chunk0; c < t->chunk1; c++) {
        const float *max = kept_chunk(&a, c), *sum = max + a.n, *values = sum + a.n;
        for (int i = 0; i < a.n; i++)
            if (max[i] > -INFINITY)
                merge_chunk(&a.run_max[i], &a.run_sum[i], a.run + i * vd, max[i], sum[i],
                            values + i * vd, vd);
    }
    attend_write(&a);
}

/* z of the exponential e^-z of an activation */
ALWAYS_INLINE float glu_exponent(const struct cpu_glu *a, float g)
{
    if (a->activation == ACTIVATION_GELU_TANH) return g * fmaf(GELU_3, g * g, GELU_1);
    return a->activation == ACTIVATION_SWIGLU_CLAMPED ? a->alpha * g : g;
}

/* ACTIVATION_XIELU */
ALWAYS_INLINE float fp32_xielu(const struct xielu *a, float x)
{
    float m = x < a->eps ? x : a->eps, sum = 0, linear = a->beta * x;
#define TERM(factor) sum = fmaf(sum, m, factor);
    XIELU_SERIES(TERM)
#undef TERM
    float q = m > -0.5f ? fmaf(m * m, sum, m - x) : cpu_expf(m) - 1.0f - x;
    return x > 0 ? x * fmaf(a->p, x, a->beta) : fmaf(a->n, q, linear);
}

/* The activations without an exponential. up NULL: the activation alone */
ALWAYS_INLINE float glu_plain(const enum activation k, float g, const float *up)
{
    float p = g < 0 ? 0 : g, y = k == ACTIVATION_RELU2 ? p * p : g;
    return up ? y * *up : y;
}

/* up NULL: the activation alone */
ALWAYS_INLINE float fp32_glu(const struct cpu_glu *a, float g, const float *up)
{
    float u = up ? *up : 0;
    if (a->activation == ACTIVATION_XIELU) return fp32_xielu(&a->xielu, g);
    if (a->activation == ACTIVATION_RELU2 || a->activation == ACTIVATION_NONE)
        return glu_plain(a->activation, g, up);
    if (a->activation == ACTIVATION_SWIGLU_CLAMPED) {
        g = g > a->limit ? a->limit : g;
        u = u > a->limit ? a->limit : u;
        u = (u < -a->limit ? -a->limit : u) + 1.0f;
    }
    float y = (a->activation == ACTIVATION_SIGMOID ? 1.0f : g) /
              (1.0f + cpu_expf(-glu_exponent(a, g)));
    return up ? y * u : y;
}

/* All n elements by a variant's vectors; constants: k, the activation of *a, and has_up. */
typedef void glu_fn(const struct cpu_glu *a, enum activation k, int has_up, float *gate,
                    const float *up, size_t n);

/* gcc vectorizes it. */
ALWAYS_INLINE void glu_each_plain(const enum activation k, float *gate, const float *up, size_t n)
{
    if (up)
        for (size_t i = 0; i < n; i++) gate[i] = glu_plain(k, gate[i], up + i);
    else
        for (size_t i = 0; i < n; i++) gate[i] = glu_plain(k, gate[i], NULL);
}

ALWAYS_INLINE void glu_each(const struct cpu_glu *a, float *gate, const float *up, size_t n,
                            glu_fn *all)
{
    switch (a->activation) {
    case ACTIVATION_SILU:
        if (up) all(a, ACTIVATION_SILU, 1, gate, up, n);
        else all(a, ACTIVATION_SILU, 0, gate, up, n);
        break;
    case ACTIVATION_GELU_TANH:
        if (up) all(a, ACTIVATION_GELU_TANH, 1, gate, up, n);
        else all(a, ACTIVATION_GELU_TANH, 0, gate, up, n);
        break;
    case ACTIVATION_SIGMOID:
        if (up) all(a, ACTIVATION_SIGMOID, 1, gate, up, n);
        else all(a, ACTIVATION_SIGMOID, 0, gate, up, n);
        break;
    case ACTIVATION_SWIGLU_CLAMPED: all(a, ACTIVATION_SWIGLU_CLAMPED, 1, gate, up, n); break;
    case ACTIVATION_XIELU: all(a, ACTIVATION_XIELU, 0, gate, up, n); break;
    case ACTIVATION_RELU2: glu_each_plain(ACTIVATION_RELU2, gate, up, n); break;
    case ACTIVATION_NONE: glu_each_plain(ACTIVATION_NONE, gate, up, n); break;
    }
}

ALWAYS_INLINE void fp32_attend(const struct attend_task *t, float *scratch, scores_fn *scores,
                               values_fn *values, exps_fn *exps, mask_fn *mask,
                               softcap_fn *softcap)
{
    struct attend_state a;
    const float *q[ATTEND_QUERIES];
    attend_begin(&a, t, scratch);
    for (int i = 0; i < a.n; i++) q[i] = attend_query(t, i);
    while (attend_next(&a)) {
        if (t->unpack) attend_unpack(&a, KEYS);
        attend_scores(&a, q, scores);
        attend_weights(&a, exps, mask, softcap);
        if (t->kv == KV_INT8) attend_scale_weights(&a);
        if (t->unpack || t->latent) attend_unpack(&a, VALUES);
        attend_values(&a, values);
        attend_merge(&a);
    }
    attend_end(&a);
}

#endif
