/* choose_loops.h: the kernel of OP_CHOOSE over the vectors of a variant, as states_loops.h has
 * them, and vec_max(a, b), b where a is NaN. */
#ifndef BACKEND_CPU_CHOOSE_LOOPS_H
#define BACKEND_CPU_CHOOSE_LOOPS_H

#include "backend-cpu/states_loops.h"
#include "core/step/batch.h"

/* Heads whose sums have registers at once. */
enum { PAGE_VECS = KV_PAGE / VEC_LANES, CHOOSE_HEADS = VEC_LANES == 16 ? 8 : 4 };

/* total += the terms of n heads, q [n][head_dim], w [n] */
ALWAYS_INLINE void choose_heads(const struct choose_task *t, const float *q, const float *w,
                                vec *total, const int n)
{
    vec sum[CHOOSE_HEADS][PAGE_VECS];
    const float *k = t->keys;
    EACH_VEC (h, n)
        EACH_VEC (c, PAGE_VECS) sum[h][c] = vec_set1(0);
    for (int d = 0; d < t->head_dim; d++, k += KV_PAGE)
        EACH_VEC (h, n) {
            vec x = vec_set1(q[h * t->head_dim + d]);
            EACH_VEC (c, PAGE_VECS) sum[h][c] = vec_fma(x, vec_load(k + c * VEC_LANES), sum[h][c]);
        }
    EACH_VEC (h, n)
        EACH_VEC (c, PAGE_VECS)
            total[c] = vec_fma(vec_set1(w[h]), vec_max(sum[h][c], vec_set1(0)), total[c]);
}

ALWAYS_INLINE void states_choose(const struct choose_task *t)
{
    for (int r = 0; r < t->rows; r++) {
        const float *q = t->q + (size_t)r * (size_t)(t->n_heads * t->head_dim),
                    *w = t->w + (size_t)r * (size_t)t->n_heads;
        vec total[PAGE_VECS];
        int h = 0;
        EACH_VEC (c, PAGE_VECS) total[c] = vec_set1(0);
        for (; h + CHOOSE_HEADS <= t->n_heads; h += CHOOSE_HEADS)
            choose_heads(t, q + h * t->head_dim, w + h, total, CHOOSE_HEADS);
        for (; h < t->n_heads; h++) choose_heads(t, q + h * t->head_dim, w + h, total, 1);
        EACH_VEC (c, PAGE_VECS)
            vec_store(t->score + (size_t)r * t->stride + c * VEC_LANES, total[c]);
    }
}

#endif
