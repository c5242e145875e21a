/* attend_int8.h: attention over keys and values of KV_INT8 in exact integer sums (ACT_I16,
 * ACT_INT8): a query is quantized once, the weights of a chunk once. Each variant compiles it for
 * its own instruction set and passes inlined functions for the sums; how a variant cuts integers
 * into digits changes no bit. Scores and weights between the sums are those of fp32.h. */
#ifndef BACKEND_CPU_ATTEND_INT8_H
#define BACKEND_CPU_ATTEND_INT8_H

#include "backend-cpu/fp32.h"

/* sums[i][c] = sum over d of q[i][d] * key(c)[d], for n queries and the positions c of a page; keys
 * as they are stored, with their bias; q [n][dims], dims padded; sums [n][KV_PAGE] */
typedef void int8_keys_fn(const int16_t *q, int n, const uint8_t *keys, int dims, int32_t *sums);
/* sums[i][d] += sum over the positions c of a page of w[i][c] * value(c)[d]; w has rows of
 * ATTEND_CHUNK integers, sums of head_dim, the elements of a value */
typedef void int8_values_fn(const int16_t *w, int n, const int8_t *values, int head_dim,
                            int32_t *sums);

/* The queries of a task as integers. */
struct int8_queries {
    int16_t *q;                  /* [n][kv_padded(head_dim)]; of latent heads [n][value_dim], and */
    int16_t *rot;                /* [n][rotated part] */
    float scale[ATTEND_QUERIES]; /* query = scale * integer */
    float rot_scale[ATTEND_QUERIES];
};

/* Rounds x [n] to integers q [padded n]; returns their scale. */
ALWAYS_INLINE float quantize_query(const float *x, int n, int top, int16_t *q)
{
    float scale, factor = kv_group_factor(kv_largest(x, n), (float)top, &scale);
    for (int d = 0; d < n; d++) q[d] = (int16_t)(factor == 0 ? 0 : kv_round(x[d], factor));
    for (int d = n; d < kv_padded(KV_INT8, n); d++) q[d] = 0;
    return scale;
}

ALWAYS_INLINE void quantize_queries(const struct attend_state *a, struct int8_queries *s)
{
    const struct attend_task *t = a->t;
    int first = t->latent ? t->value_dim : t->head_dim, dims = kv_padded(KV_INT8, first),
        rest = t->head_dim - first;
    s->q = (int16_t *)a->rest;
    s->rot = s->q + a->n * dims;
    for (int i = 0; i < a->n; i++) {
        const float *x = attend_query(t, i);
        s->scale[i] = quantize_query(x, first, t->q_top, s->q + i * dims);
        if (rest) s->rot_scale[i] = quantize_query(x + first, rest, t->q_top, s->rot + i * rest);
    }
}

/* The scores of latent heads: two sums of a page. */
ALWAYS_INLINE void int8_latent_scores(struct attend_state *a, const struct int8_queries *s,
                                      int8_keys_fn *keys)
{
    const struct attend_task *t = a->t;
    int32_t sum[2][ATTEND_QUERIES * KV_PAGE];
    for (int page = a->page0; page < a->page1; page++) {
        const uint8_t *k = page_keys(t, page);
        const float *scale = latent_scales(k, t->head_dim), *rot_scale = scale + KV_PAGE;
        if (page + 1 < a->page1) ask_for(page_keys(t, page + 1), t);
        keys(s->q, a->n, k, t->value_dim, sum[0]);
        keys(s->rot, a->n, k + t->value_dim * KV_PAGE, t->head_dim - t->value_dim, sum[1]);
        for (int i = 0; i < a->n; i++) {
            float *p = a->scores + i * ATTEND_CHUNK + page * KV_PAGE - a->c0;
            const int32_t *x = sum[0] + i * KV_PAGE, *y = sum[1] + i * KV_PAGE;
            for (int c = 0; c < KV_PAGE; c++)
                p[c] = (float)x[c] * (s->scale[i] * scale[c]) +
                       (float)y[c] * (s->rot_scale[i] * rot_scale[c]);
        }
    }
}

/* Sums of a page are kept in the place of its scores, and those of a chunk scaled together: a
 * compiler vectorizes long loops. */
ALWAYS_INLINE void int8_scores(struct attend_state *a, const struct int8_queries *s,
                               int8_keys_fn *keys)
{
    const struct attend_task *t = a->t;
    const int from = a->page0 * KV_PAGE - a->c0, to = a->page1 * KV_PAGE - a->c0;
    int32_t sums[ATTEND_QUERIES * KV_PAGE];
    float scale[ATTEND_CHUNK];
    if (t->latent) {
        int8_latent_scores(a, s, keys);
        return;
    }
    for (int page = a->page0; page < a->page1; page++) {
        const uint8_t *k = page_keys(t, page);
        const int c = page * KV_PAGE - a->c0;
        if (page + 1 < a->page1) ask_for(page_keys(t, page + 1), t);
        memcpy(scale + c, key_scales(k, t->head_dim), KV_PAGE * sizeof *scale);
        keys(s->q, a->n, k, kv_padded(KV_INT8, t->head_dim), sums);
        for (int i = 0; i < a->n; i++)
            memcpy(a->scores + i * ATTEND_CHUNK + c, sums + i * KV_PAGE, KV_PAGE * sizeof *sums);
    }
    for (int i = 0; i < a->n; i++) {
        float *p = a->scores + i * ATTEND_CHUNK, q_scale = s->scale[i];
        for (int c = from; c < to; c++) {
            int32_t sum;
            memcpy(&sum, p + c, sizeof sum);
            p[c] = (float)sum * (q_scale * scale[c]);
        }
    }
    if (t->bias_pairs) attend_add_biases(a);
}

/* The weights of the chunk as integers w [n][ATTEND_CHUNK], with their scales. */
ALWAYS_INLINE void quantize_weights(const struct attend_state *a, int16_t *w, float *scale)
{
    int from = a->page0 * KV_PAGE - a->c0, n = (a->page1 - a->page0) * KV_PAGE;
    for (int i = 0; i < a->n; i++) {
        const float *p = a->scores + (size_t)i * ATTEND_CHUNK + from;
        int16_t *to = w + i * ATTEND_CHUNK + from;
        float factor = kv_group_factor(kv_largest(p, n), KV_TOP_I16, &scale[i]);
        for (int c = 0; c < n; c++) to[c] = (int16_t)(factor == 0 ? 0 : kv_round(p[c], factor));
    }
}

/* acc = scale * the sums, which are in its place */
ALWAYS_INLINE void int8_values(struct attend_state *a, const int16_t *w, const float *scale,
                               int8_values_fn *values)
{
    int vd = a->t->value_dim;
    int32_t *sums = (int32_t *)a->acc;
    for (int page = a->page0; page < a->page1; page++) {
        if (page + 1 < a->page1) ask_for(page_values(a->t, page + 1), a->t);
        values(w + page * KV_PAGE - a->c0, a->n, page_values(a->t, page), vd, sums);
    }
    for (int i = 0; i < a->n; i++)
        for (int d = 0; d < vd; d++) a->acc[i * vd + d] = (float)sums[i * vd + d] * scale[i];
}

/* acc = the values of a chunk, w [n][ATTEND_CHUNK] their weights as integers with a scale each. */
typedef void int8_chunk_fn(struct attend_state *a, const int16_t *w, const float *scale);

/* Values a page at a time, or with `chunk` a chunk at a time. */
ALWAYS_INLINE void int8_attend_by(const struct attend_task *t, float *scratch, int8_keys_fn *keys,
                                  int8_values_fn *values, int8_chunk_fn *chunk, exps_fn *exps,
                                  mask_fn *mask, softcap_fn *softcap)
{
    struct attend_state a;
    struct int8_queries q;
    float w_scale[ATTEND_QUERIES];
    attend_begin(&a, t, scratch);
    int16_t *w = (int16_t *)a.more;
    quantize_queries(&a, &q);
    while (attend_next(&a)) {
        if (t->unpack) attend_unpack(&a, KEYS);
        int8_scores(&a, &q, keys);
        attend_weights(&a, exps, mask, softcap);
        attend_scale_weights(&a);
        quantize_weights(&a, w, w_scale);
        if (t->unpack || t->latent) attend_unpack(&a, VALUES);
        if (chunk) chunk(&a, w, w_scale);
        else int8_values(&a, w, w_scale, values);
        attend_merge(&a);
    }
    attend_end(&a);
}

ALWAYS_INLINE void int8_attend(const struct attend_task *t, float *scratch, int8_keys_fn *keys,
                               int8_values_fn *values, exps_fn *exps, mask_fn *mask,
                               softcap_fn *softcap)
{
    int8_attend_by(t, scratch, keys, values, NULL, exps, mask, softcap);
}

/* Plain C for the sums. */
ALWAYS_INLINE void plain_keys(const int16_t *q, int n, const uint8_t *keys, int dims, int32_t *sums)
{
    for (int i = 0; i < n; i++, q += dims) {
        int32_t sum[KV_PAGE] = {0};
        for (int d = 0; d < dims; d += 4)
            for (int c = 0; c < KV_PAGE; c++)
                for (int j = 0; j < 4; j++)
                    sum[c] += q[d + j] * (keys[d * KV_PAGE + c * 4 + j] - KEY_BIAS);
        memcpy(sums + i * KV_PAGE, sum, sizeof sum);
    }
}

ALWAYS_INLINE void plain_values(const int16_t *w, int n, const int8_t *values, int head_dim,
                                int32_t *sums)
{
    int dims = kv_padded(KV_INT8, head_dim);
    for (int i = 0; i < n; i++, w += ATTEND_CHUNK, sums += head_dim)
        for (int c = 0; c < KV_PAGE; c += 4)
            for (int d = 0; d < head_dim; d++)
                for (int j = 0; j < 4; j++)
                    sums[d] += w[c + j] * values[(c / 4 * dims + d) * 4 + j];
}

/* A scores_fn and a values_fn in the order of fp32, where a variant has none of its own. */
ALWAYS_INLINE void plain_scores_f32(const float *const *q, int n, const void *const *keys,
                                    int n_pages, int head_dim, enum kv_type kv, float *scores)
{
    (void)kv;
    for (int k = 0; k < n_pages; k++)
        for (int i = 0; i < n; i++) {
            const uint8_t *key = keys[k];
            const float *scale = key_scales(key, head_dim);
            float sum[KV_PAGE] = {0}, *to = scores + i * ATTEND_CHUNK + k * KV_PAGE;
            for (int d = 0; d < head_dim; d++)
                for (int c = 0; c < KV_PAGE; c++)
                    sum[c] = fmaf(q[i][d], (float)(key[key_at(d, c)] - KEY_BIAS), sum[c]);
            for (int c = 0; c < KV_PAGE; c++) to[c] = sum[c] * scale[c];
        }
}

ALWAYS_INLINE void plain_values_f32(const float *p, int n, int n_pos, const void *values,
                                    int head_dim, enum kv_type kv, float *acc)
{
    (void)kv;
    const int8_t *v = values;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < n_pos; c++)
            for (int d = 0; d < head_dim; d++)
                acc[i * head_dim + d] = fmaf(p[i * ATTEND_CHUNK + c],
                                             (float)v[value_at(d, c, head_dim)],
                                             acc[i * head_dim + d]);
}

#endif
