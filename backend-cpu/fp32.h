/* fp32.h: what the fp32 rungs share: reductions over 16 lanes, RMSNorm, RoPE and the walk over the KV chunks.
 * Each rung compiles these for its own instruction set; the inner loops that a compiler does not find are given
 * by the rung as functions, inlined. */
#ifndef BACKEND_CPU_FP32_H
#define BACKEND_CPU_FP32_H

#include "backend-cpu/cpu_math.h"
#include "backend-cpu/kernels.h"

#include <math.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 16, QUERY_BLOCK = 8, PAGES_AT_ONCE = 2 };

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

ALWAYS_INLINE void fp32_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim)
{
    if (delta)
        for (int i = 0; i < dim; i++) x[i] += delta[i];
    float f = 1.0f / sqrtf(sum_squares(x, dim) / (float)dim + eps);
    for (int i = 0; i < dim; i++) out[i] = x[i] * f * weight[i];
}

ALWAYS_INLINE void fp32_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight, float eps, const float *cosv,
                             const float *sinv)
{
    int half = head_dim / 2;
    float v[1024]; /* head_dim <= 1024, checked by core/model.c; a copy, because y may be x, which would rule out vectors */
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

/* scores[i][c] = q_i . key(c) for n <= QUERY_BLOCK queries (row i at q[i], [head_dim]) and the KV_PAGE positions c of each of
 * n_pages <= PAGES_AT_ONCE pages; scores has rows of ATTEND_CHUNK floats. */
typedef void scores_fn(const float *const *q, int n, const void *const *keys, int n_pages, int head_dim, enum kv_type kv, float *scores);
/* acc[i][d] += sum over positions c of p[i][c] * value(page, c)[d], c ascending in 0 .. n_pos-1; p has rows of
 * ATTEND_CHUNK floats, acc of head_dim */
typedef void values_fn(const float *p, int n, int n_pos, const void *values, int head_dim, enum kv_type kv, float *acc);
/* p[i] = exp(p[i] - max) for n (a multiple of LANES) elements; returns their sum, lane by lane and folded */
typedef float exps_fn(float *p, float max, int n);
/* Of p[from .. to-1], whole pages: p[i] *= factor where a <= i <= b, the others become -infinity; returns the largest that is a number */
typedef float mask_fn(float *p, int from, int to, int a, int b, float factor);
/* For mask_scores: p[i] *= factor for n (a multiple of LANES) elements; returns the largest that is a number */
typedef float scale_fn(float *p, int n, float factor);

/* For rungs without one of their own; gcc 12 makes vectors of it for arm64, not for x86. */
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

/* Asks for the keys or values of a page while the one before is worked on: pages lie scattered, so the hardware cannot foresee
 * them. */
ALWAYS_INLINE void ask_for(const void *p, const struct attend_task *t)
{
    for (size_t i = 0, n = (size_t)t->head_dim * KV_PAGE * kv_bytes(t->kv); i < n; i += 64) __builtin_prefetch((const char *)p + i);
}

/* Scores of all queries for the pages [page0, page1) of the chunk that starts at c0. */
ALWAYS_INLINE void chunk_scores(const struct attend_task *t, int nq, const float *const *q, int c0, int page0, int page1, float *s,
                                scores_fn *scores)
{
    for (int page = page0, n; page < page1; page += n) {
        const void *keys[PAGES_AT_ONCE];
        n = page1 - page < PAGES_AT_ONCE ? page1 - page : PAGES_AT_ONCE;
        for (int i = 0; i < n; i++) {
            int next = page + n + i;
            keys[i] = page_keys(t, page + i);
            if (next < page1 || (next == page1 && i == 0)) ask_for(next < page1 ? page_keys(t, next) : page_values(t, page0), t);
        }
        for (int i = 0; i < nq; i += QUERY_BLOCK)
            scores(q + i, nq - i < QUERY_BLOCK ? nq - i : QUERY_BLOCK, keys, n, t->head_dim, t->kv,
                   s + (size_t)i * ATTEND_CHUNK + page * KV_PAGE - c0);
    }
}

/* A mask_fn for rungs without one of their own: only the pages at the ends are looked at one position after the other. */
ALWAYS_INLINE float mask_scores(float *p, int from, int to, int a, int b, float factor, scale_fn *scale)
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

/* Merges one chunk's (max, sum, values) of one query into its running ones. */
ALWAYS_INLINE void merge_chunk(float *run_max, float *run_sum, float *run, float max, float sum, const float *acc, int head_dim)
{
    float m = *run_max > max ? *run_max : max;
    float a = cpu_expf(*run_max - m), b = cpu_expf(max - m); /* cpu_expf(-inf) is 0: the first chunk needs no case */
    *run_max = m;
    *run_sum = *run_sum * a + sum * b;
    for (int d = 0; d < head_dim; d++) run[d] = run[d] * a + acc[d] * b; /* not fused: once per chunk */
}

ALWAYS_INLINE void fp32_attend(const struct attend_task *t, float *scratch, scores_fn *scores, values_fn *values, exps_fn *exps,
                               mask_fn *mask)
{
    int nq = t->n_rows * t->n_heads, hd = t->head_dim;
    float *s = scratch, *acc = s + ATTEND_QUERIES * ATTEND_CHUNK, *run = acc + ATTEND_QUERIES * hd;
    float run_max[ATTEND_QUERIES], run_sum[ATTEND_QUERIES];
    const float *q[ATTEND_QUERIES];
    for (int i = 0; i < nq; i++) {
        q[i] = t->q + (size_t)(i / t->n_heads) * (size_t)t->row_stride + (size_t)(i % t->n_heads) * (size_t)hd;
        run_max[i] = -INFINITY;
        run_sum[i] = 0;
    }
    memset(run, 0, (size_t)(nq * hd) * sizeof *run);
    int first = attend_first(t, 0), last = t->pos0 + t->n_rows - 1;
    for (int c0 = first / ATTEND_CHUNK * ATTEND_CHUNK; c0 <= last; c0 += ATTEND_CHUNK) {
        int lo = first > c0 ? first : c0, hi = last < c0 + ATTEND_CHUNK - 1 ? last : c0 + ATTEND_CHUNK - 1;
        int page0 = lo / KV_PAGE, page1 = hi / KV_PAGE + 1;
        chunk_scores(t, nq, q, c0, page0, page1, s, scores);
        float max[ATTEND_QUERIES], sum[ATTEND_QUERIES];
        for (int i = 0; i < nq; i++) {
            /* Only positions that this query sees take part; the others of the pages read get weight 0. */
            int r = i / t->n_heads, a = attend_first(t, r) - c0, b = t->pos0 + r - c0;
            float *p = s + (size_t)i * ATTEND_CHUNK;
            if (a < 0) a = 0;
            if (b > ATTEND_CHUNK - 1) b = ATTEND_CHUNK - 1;
            max[i] = mask(p, page0 * KV_PAGE - c0, page1 * KV_PAGE - c0, a, b, t->scale);
            if (a > b) { /* this query sees nothing of this chunk */
                memset(p + page0 * KV_PAGE - c0, 0, (size_t)((page1 - page0) * KV_PAGE) * sizeof *p);
                sum[i] = 0;
            } else {
                sum[i] = exps(p + page0 * KV_PAGE - c0, max[i], (page1 - page0) * KV_PAGE);
            }
        }
        memset(acc, 0, (size_t)(nq * hd) * sizeof *acc);
        for (int page = page0; page < page1; page++) {
            int n_pos = hi + 1 - page * KV_PAGE < KV_PAGE ? hi + 1 - page * KV_PAGE : KV_PAGE; /* beyond: not written yet */
            if (page + 1 < page1) ask_for(page_values(t, page + 1), t);
            for (int i = 0; i < nq; i += QUERY_BLOCK)
                values(s + (size_t)i * ATTEND_CHUNK + page * KV_PAGE - c0, nq - i < QUERY_BLOCK ? nq - i : QUERY_BLOCK, n_pos,
                       page_values(t, page), hd, t->kv, acc + i * hd);
        }
        for (int i = 0; i < nq; i++)
            if (max[i] > -INFINITY) merge_chunk(&run_max[i], &run_sum[i], run + i * hd, max[i], sum[i], acc + i * hd, hd);
    }
    for (int i = 0; i < nq; i++) {
        float *out = t->out + (q[i] - t->q), f = 1.0f / run_sum[i];
        for (int d = 0; d < hd; d++) out[d] = run[i * hd + d] * f;
    }
}

#endif
