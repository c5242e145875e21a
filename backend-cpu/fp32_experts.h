/* fp32_experts.h: OP_ROUTE and OP_MIX of one row (core/step/op.h), shared by the fp32 variants as
 * fp32.h is: in one order of operations, so that all variants choose the same experts. */
#ifndef BACKEND_CPU_FP32_EXPERTS_H
#define BACKEND_CPU_FP32_EXPERTS_H

#include "backend-cpu/fp32.h"

/* The scores of x [n], n padded to whole vectors, in place; 0: they are NaN. x has no NaN. The
 * exponentials and their sum are those of attention. */
ALWAYS_INLINE int route_scores(enum router_score score, float *s, int n, exps_fn *exps)
{
    int padded = (n + LANES - 1) / LANES * LANES;
    for (int i = n; i < padded; i++) s[i] = -INFINITY;
    if (score == ROUTER_SIGMOID) {
        for (int i = 0; i < padded; i++) s[i] = -s[i];
        exps(s, 0, padded);
        for (int i = 0; i < n; i++) s[i] = 1.0f / (1.0f + s[i]);
        return 1;
    }
    float max = fp32_scale(s, padded, 1);
    if (!isfinite(max)) return 0;
    float sum = exps(s, max, padded);
    for (int i = 0; i < n; i++) s[i] /= sum;
    return 1;
}

/* The top indices of the largest of v [n], from the largest down, on ties the lower index first. */
ALWAYS_INLINE void route_largest(const float *v, int n, int top, int32_t *index)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (kept == top && !(v[i] > v[index[top - 1]])) continue;
        int at = kept < top ? kept++ : top - 1;
        for (; at && v[i] > v[index[at - 1]]; at--) index[at] = index[at - 1];
        index[at] = i;
    }
}

/* Sets choice [n] to -infinity outside the groups that are kept. one: of the largest, else of the
 * largest sums of two. */
ALWAYS_INLINE void route_groups(float *choice, int n, int groups, int kept, int one)
{
    float sum[ROUTE_MAX_EXPERTS];
    int32_t best[2], keeps[ROUTE_MAX_EXPERTS];
    char is[ROUTE_MAX_EXPERTS] = {0};
    int each = n / groups;
    for (int g = 0; g < groups; g++) {
        const float *v = choice + g * each;
        route_largest(v, each, each < 2 || one ? 1 : 2, best);
        sum[g] = each < 2 || one ? v[best[0]] : v[best[0]] + v[best[1]];
    }
    route_largest(sum, groups, kept, keeps);
    for (int i = 0; i < kept; i++) is[keeps[i]] = 1;
    for (int i = 0; i < n; i++)
        if (!is[i / each]) choice[i] = -INFINITY;
}

/* Ascending, n <= ROUTE_MAX_TOP. */
ALWAYS_INLINE void route_sort(int32_t *id, int n)
{
    for (int i = 1; i < n; i++) {
        int32_t v = id[i];
        int at = i;
        for (; at && id[at - 1] > v; at--) id[at] = id[at - 1];
        id[at] = v;
    }
}

ALWAYS_INLINE void fp32_route(const struct route_task *t, exps_fn *exps)
{
    const struct op *op = t->op;
    int n = op->as.route.n_experts, top = op->as.route.top_k, nan = 0;
    float s[ROUTE_MAX_EXPERTS + LANES], choice[ROUTE_MAX_EXPERTS], sum = 0;
    float scale = op->as.route.scale;
    for (int i = 0; i < n; i++) s[i] = t->x[i], nan |= t->x[i] != t->x[i];
    nan = nan || !route_scores(op->as.route.score, s, n, exps);
    for (int j = 0; nan && j < top; j++) t->id[j] = j, t->weight[j] = NAN;
    if (nan) return;
    for (int i = 0; i < n; i++) choice[i] = t->bias ? s[i] + t->bias[i] : s[i];
    if (op->as.route.groups > 1 && op->as.route.kept_groups < op->as.route.groups)
        route_groups(choice, n, op->as.route.groups, op->as.route.kept_groups,
                     op->as.route.group_best);
    route_largest(choice, n, top, t->id);
    route_sort(t->id, top);
    for (int j = 0; j < top; j++) sum += t->weight[j] = s[t->id[j]];
    for (int j = 0; j < top; j++) {
        float w = op->as.route.normalize ? t->weight[j] / sum : t->weight[j];
        if (scale != 0) w *= scale;
        t->weight[j] = t->factor ? w * t->factor[t->id[j]] : w;
    }
}

/* out [n] = sum over j < top_k of weight[j] * x[j][n] */
ALWAYS_INLINE void fp32_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    enum { BLOCK = 4 * LANES };
    int i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        float sum[BLOCK];
        for (int l = 0; l < BLOCK; l++) sum[l] = weight[0] * x[i + l];
        for (int j = 1; j < top_k; j++) {
            const float *xj = x + (size_t)j * (size_t)n + i;
            for (int l = 0; l < BLOCK; l++) sum[l] = fmaf(weight[j], xj[l], sum[l]);
        }
        memcpy(out + i, sum, sizeof sum);
    }
    for (; i < n; i++) {
        float sum = weight[0] * x[i];
        for (int j = 1; j < top_k; j++)
            sum = fmaf(weight[j], x[(size_t)j * (size_t)n + (size_t)i], sum);
        out[i] = sum;
    }
}

#endif
