/* vnni_attend.h: the sums of integer attention by four-way dot products; a part of vnni.c, which
 * alone includes it. */
#ifndef BACKEND_CPU_VNNI_ATTEND_H
#define BACKEND_CPU_VNNI_ATTEND_H

#include "backend-cpu/avx512_int8.h"

/* A register block: m queries x n pages of keys, or vectors of 16 dimensions of values. Constants
 * after inlining: digits * m * n sums are enough to hide the latency of each. */
struct digits_block {
    int digits, m, n;
};

/* Scores of the queries from i on at the positions of the pages keys[k.n], the first of which
 * begins at c of the chunk. */
ALWAYS_INLINE void vnni_keys_block(struct digits_state *s, int i, const char *const *keys, int c,
                                   const struct digits_block k)
{
    enum { M = 4, N = 4 };
    const int8_t *q = s->q + i * s->row, *second = q + s->a.n * s->row;
    __m512i x[M][N], y[M][N];
    EACH (r, k.m)
        EACH (p, k.n) x[r][p] = y[r][p] = _mm512_setzero_si512();
    for (int d = 0; d < s->dims; d += 4)
        EACH (p, k.n) {
            __m512i key = _mm512_loadu_si512(keys[p] + d * KV_PAGE);
            EACH (r, k.m) {
                x[r][p] = dot_vnni(x[r][p], key, load_4(q + r * s->row + d));
                if (k.digits == 2)
                    y[r][p] = dot_vnni(y[r][p], key, load_4(second + r * s->row + d));
            }
        }
    EACH (p, k.n) {
        __m512 scale = _mm512_loadu_ps(key_scales(keys[p], s->a.t->head_dim));
        EACH (r, k.m)
            finish_scores(s, i + r, k.digits == 2 ? join_digits(x[r][p], y[r][p]) : x[r][p], scale,
                          s->a.scores + (i + r) * ATTEND_CHUNK + c + p * KV_PAGE);
    }
}

/* All queries at n pages. */
ALWAYS_INLINE void vnni_keys_pages(struct digits_state *s, const char *const *keys, int c,
                                   const int n, const int digits)
{
    int i = 0;
    for (; n <= 2 && i + 4 <= s->a.n; i += 4)
        vnni_keys_block(s, i, keys, c, (struct digits_block){digits, 4, n});
    for (; i < s->a.n; i++) vnni_keys_block(s, i, keys, c, (struct digits_block){digits, 1, n});
}

ALWAYS_INLINE void vnni_keys(struct digits_state *s, const int digits)
{
    const int together = s->a.n < 4 ? 4 : 2;
    for (int page = s->a.page0, n; page < s->a.page1; page += n) {
        const char *keys[4];
        int c = page * KV_PAGE - s->a.c0;
        n = s->a.page1 - page < together ? 1 : together;
        for (int k = 0; k < n; k++) begin_page(s, page + k, keys[k] = page_keys(s->a.t, page + k));
        if (n == 4) vnni_keys_pages(s, keys, c, 4, digits);
        else if (n == 2) vnni_keys_pages(s, keys, c, 2, digits);
        else vnni_keys_pages(s, keys, c, 1, digits);
    }
}

NOT_INLINE void vnni_keys_1(struct digits_state *s) { vnni_keys(s, 1); }
NOT_INLINE void vnni_keys_2(struct digits_state *s) { vnni_keys(s, 2); }

static void vnni_scores(struct digits_state *s)
{
    if (s->n_digits == 2) vnni_keys_2(s);
    else vnni_keys_1(s);
}

/* The values of k.m queries from i on in k.n vectors of dimensions from d on. ask: keys of the next
 * chunk are asked for. */
ALWAYS_INLINE void vnni_values_block(struct digits_state *s, int i, int d, int ask,
                                     const struct digits_block k)
{
    enum { M = 4, N = 4 };
    const uint8_t *w = s->w + i * ATTEND_CHUNK - s->a.c0, *second = w + s->a.n * ATTEND_CHUNK;
    __m512i x[M][N], y[M][N];
    EACH (r, k.m)
        EACH (v, k.n) x[r][v] = y[r][v] = _mm512_setzero_si512();
    for (int page = s->a.page0; page < s->a.page1; page++) {
        const char *value = (const char *)page_values(s->a.t, page) + d * 4;
        if (ask) ask_next_chunk(s, page - s->a.c0 / KV_PAGE, PART_MORE_VALUES);
        for (int c = page * KV_PAGE; c < (page + 1) * KV_PAGE; c += 4, value += s->dims * 4) {
            __m512i u[N];
            EACH (v, k.n) u[v] = _mm512_loadu_si512(value + v * 64);
            EACH (r, k.m) {
                __m512i high = load_4((const int8_t *)w + r * ATTEND_CHUNK + c),
                        low = load_4((const int8_t *)second + r * ATTEND_CHUNK + c);
                EACH (v, k.n) x[r][v] = dot_vnni(x[r][v], high, u[v]);
                EACH (v, k.n) y[r][v] = dot_vnni(y[r][v], low, u[v]);
            }
        }
    }
    EACH (r, k.m)
        EACH (v, k.n) finish_values(s, i + r, d + v * 16, join_digits(x[r][v], y[r][v]));
}

NOT_INLINE void vnni_values(struct digits_state *s)
{
    int hd = s->a.t->head_dim, d = 0;
    for (int page = s->a.page0; s->a.t->unpack && page < s->a.page1; page++)
        unpack_page_values(s->a.t, page, unpacked_values(s->a.t, page));
    for (int i = 0; i < s->a.n;) {
        int m = s->a.n - i >= 4 ? 4 : 1;
        for (d = 0; m == 1 && d + 64 <= hd; d += 64)
            vnni_values_block(s, i, d, !i && !d, (struct digits_block){2, 1, 4});
        for (; m == 4 && d + 32 <= hd; d += 32)
            vnni_values_block(s, i, d, !i && !d, (struct digits_block){2, 4, 2});
        for (; d < hd; d += 16) {
            if (m == 4) vnni_values_block(s, i, d, !i && !d, (struct digits_block){2, 4, 1});
            else vnni_values_block(s, i, d, !i && !d, (struct digits_block){2, 1, 1});
        }
        i += m;
    }
}

void vnni_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv == KV_INT8 && t->q_top && !t->latent)
        attend_digits(t, scratch, vnni_scores, vnni_values);
    else avx512_attend(t, scratch);
}

#endif
