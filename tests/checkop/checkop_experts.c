/* checkop_experts.c: route, experts and mix.
 *
 * route: the experts are those of the double reference, exactly: rows are drawn so that scores (and
 * sums of groups) at the edge of the choice are the same numbers, which tie, or are apart by more
 * than any rounding. Weights: the exponent x - max is off by one rounding of itself, the
 * exponential by 5, their sum by E / 8 + 8, the quotient by 1; normalized: the same of the sum of
 * the chosen ones, k additions and a quotient; then two products and the reference's rounding.
 *     |y - ref| <= (2 (|x - max| + E / 8 + 16) + k + 4) 2^-24 |ref|
 *
 * experts: every element has the bits of OP_LINEAR with that expert, and is within its bound.
 *
 * mix: k products and sums:
 *     |y - ref| <= (k + 1) 2^-24 sum |w x| */
#include "tests/checkop/checkop_linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- route ---- */

struct route_case {
    int rows, experts, top, groups, kept;
    enum router_score score;
    int normalize;
    float scale;
    int choice_bias, factor;
};

static const struct route_case route_cases[] = {
    {1, 4, 2, 0, 0, ROUTER_SOFTMAX, 1, 0, 0, 0},
    {17, 8, 2, 1, 1, ROUTER_SOFTMAX, 1, 0, 0, 0},
    {5, 60, 4, 1, 1, ROUTER_SOFTMAX, 0, 0, 0, 0},
    {33, 128, 8, 1, 1, ROUTER_SOFTMAX, 1, 0, 0, 0},
    {9, 512, 10, 0, 0, ROUTER_SOFTMAX, 1, 0, 0, 0},
    {7, 128, 8, 1, 1, ROUTER_SIGMOID, 1, 1.5f, 1, 0},
    {6, 32, 4, 8, 3, ROUTER_SIGMOID, 1, 2.5f, 1, 0},
    {5, 256, 8, 8, 4, ROUTER_SIGMOID, 1, 2.5f, 1, 0},
    {8, 24, 3, 6, 2, ROUTER_SOFTMAX, 0, 0.5f, 0, 0},
    {4, 16, 4, 16, 5, ROUTER_SIGMOID, 0, 0, 1, 0},
    {11, 20, 4, 1, 1, ROUTER_SOFTMAX, 1, 0, 0, 1},
    {3, 7, 7, 1, 1, ROUTER_SOFTMAX, 0, 0, 1, 1},
    {3, 1024, 64, 1, 1, ROUTER_SIGMOID, 1, 0, 0, 0},
    {40, 33, 5, 1, 1, ROUTER_SOFTMAX, 1, 0, 1, 0},
};

/* Marks the `count` largest of v [n]; 0: the edge of the choice is too close to be certain. */
static int mark_largest(const double *v, int n, int count, char *is)
{
    double last = INFINITY;
    for (int k = 0; k <= count && k < n; k++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!is[i] && (best < 0 || v[i] > v[best])) best = i;
        if (k == count) break;
        is[best] = 1;
        last = v[best];
    }
    for (int i = 0; i < n; i++)
        if (v[i] != last && fabs(v[i] - last) <= 1e-5 * fabs(last)) return 0;
    return 1;
}

/* The expected experts, weights and bounds of a row without NaN; 0: not certain. */
static int expect_route(const struct route_case *k, const float *x, const float *bias,
                        const float *factor, int32_t *id, float *want, float *bound)
{
    double s[ROUTE_MAX_EXPERTS], choice[ROUTE_MAX_EXPERTS], max = -INFINITY, sum = 0, chosen = 0;
    double group[ROUTE_MAX_EXPERTS], spread = 0;
    char is[ROUTE_MAX_EXPERTS] = {0}, keeps[ROUTE_MAX_EXPERTS] = {0};
    int n = k->experts, groups = k->groups > 1 ? k->groups : 1, each = n / groups, j = 0;
    for (int i = 0; i < n; i++) max = fmax(max, x[i]);
    for (int i = 0; i < n; i++) {
        s[i] = k->score == ROUTER_SIGMOID ? 1 / (1 + exp(-(double)x[i])) : exp(x[i] - max);
        sum += s[i];
    }
    for (int i = 0; i < n; i++) {
        if (k->score == ROUTER_SOFTMAX) s[i] /= sum;
        choice[i] = s[i] + (bias ? bias[i] : 0);
    }
    for (int g = 0; g < groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int i = g * each; i < (g + 1) * each; i++) {
            double v = choice[i];
            if (v > first) second = first, first = v;
            else if (v > second) second = v;
        }
        group[g] = each > 1 ? first + second : first;
    }
    if (!mark_largest(group, groups, groups > 1 ? k->kept : 1, keeps)) return 0;
    for (int i = 0; i < n; i++)
        if (!keeps[i / each]) choice[i] = -INFINITY;
    if (!mark_largest(choice, n, k->top, is)) return 0;
    for (int i = 0; i < n; i++)
        if (is[i]) id[j++] = i, chosen += s[i], spread = fmax(spread, fabs(max - x[i]));
    for (j = 0; j < k->top; j++) {
        double w = s[id[j]] / (k->normalize ? chosen : 1) * (k->scale != 0 ? k->scale : 1) *
                   (factor ? factor[id[j]] : 1);
        want[j] = (float)w;
        bound[j] = (float)((2 * (spread + n / 8.0 + 16) + k->top + 4) * U * fabs(w) + 0x1p-120);
    }
    return 1;
}

/* Router logits of one row. Some are equal: whole groups where there are groups. */
static void fill_logits(struct rng *r, const struct route_case *k, float *x, int row)
{
    int n = k->experts, each = k->groups > 1 ? n / k->groups : 1;
    float wide = row % 3 == 1 ? 8 : 1;
    for (int i = 0; i < n; i++) x[i] = rng_normal(r) * wide;
    for (int i = 0; row % 4 == 2 && i < n; i++) x[i] = (float)rng_below(r, 3);
    for (int i = 0; row % 4 == 3 && i < n; i++) x[i] = x[i / each % 3 * each + i % each];
    if (row % 7 == 6)
        for (int i = 0; i < n; i++) x[i] = 0.25f;
    if (row % 11 == 4) x[rng_below(r, n)] = 40;
}

struct routed {
    const struct route_case *k;
    float *x, *bias, *factor; /* bias, factor: NULL where the case has none */
    int32_t *id;              /* [rows][top] */
    float *weight;            /* [rows][top] */
};

static void run_route(struct check *c, int v, const char *name, const struct variant *on,
                      int n_threads, const struct routed *q, int first, int rows)
{
    const struct route_case *k = q->k;
    struct side s;
    struct arena a = {0};
    size_t n = (size_t)k->experts * 4, top = (size_t)k->top * 4;
    side_open(&s, on, n_threads, plain_config(rows));
    struct batch b = make_plain_batch(&a, rows, rows / 2);
    struct dbuf x = dbuf_from(&s, q->x + (size_t)first * (size_t)k->experts, (size_t)rows * n),
                id = dbuf_new(&s, (size_t)rows * top), w = dbuf_new(&s, (size_t)rows * top),
                bias = dbuf_from(&s, k->choice_bias ? q->bias : q->x, n),
                factor = dbuf_from(&s, k->factor ? q->factor : q->x, n);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_ROUTE);
    op->in[0] = trial_buffer(&t, x.d, ROWS_STEP, n);
    op->out[0] = trial_buffer(&t, id.d, ROWS_STEP, top);
    op->out[1] = trial_buffer(&t, w.d, ROWS_STEP, top);
    if (k->choice_bias) op->w[0] = trial_vector(&t, bias.d, k->experts);
    if (k->factor) op->w[1] = trial_vector(&t, factor.d, k->experts);
    op->as.route.n_experts = k->experts;
    op->as.route.top_k = k->top;
    op->as.route.score = k->score;
    op->as.route.normalize = k->normalize;
    op->as.route.groups = k->groups;
    op->as.route.kept_groups = k->kept;
    op->as.route.scale = k->scale;
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &id, q->id);
    dbuf_get(&s, &w, q->weight);
    compare_fences(c, v, name, "experts", &s, &id);
    compare_fences(c, v, name, "weights", &s, &w);
    struct dbuf *all[] = {&x, &id, &w, &bias, &factor};
    for (int i = 0; i < 5; i++) dbuf_free(&s, all[i]);
    side_close(&s);
    arena_free(&a);
}

/* Compares with what is expected; the last row is the one with NaN. */
static void compare_route(struct check *c, int v, const char *name, const struct routed *q,
                          const struct routed *want, const float *bound)
{
    size_t rows = (size_t)q->k->rows, top = (size_t)q->k->top, last = (rows - 1) * top;
    compare_bits(c, v, name, "experts", q->id, want->id, rows * top, top);
    compare(c, v, name, "weights", q->weight, want->weight, bound, rows - 1, top);
    for (size_t j = 0; j < top; j++)
        if (q->weight[last + j] == q->weight[last + j])
            fail(c, v, name, "the row with NaN: weight %zu is %g", j, (double)q->weight[last + j]);
}

static void check_route_case(struct check *c, const struct route_case *given)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    struct route_case with_nan = *given, *k = &with_nan;
    k->rows++;
    snprintf(name, NAME_BYTES, "%d rows, %d of %d experts, %d of %d groups, %s%s%s%s", k->rows,
             k->top, k->experts, k->kept, k->groups,
             k->score == ROUTER_SOFTMAX ? "softmax" : "sigmoid", k->normalize ? ", normalized" : "",
             k->choice_bias ? ", bias" : "", k->factor ? ", factors" : "");
    struct rng r = rng_for(c->seed, name);
    size_t n = (size_t)k->experts, top = (size_t)k->top, rows = (size_t)k->rows;
    float *x = arena_get(&a, rows * n * 4), *bias = arena_get(&a, n * 4),
          *factor = arena_get(&a, n * 4), *bound = arena_get(&a, rows * top * 4);
    struct routed want = {.k = k}, got, kept;
    want.x = x;
    for (size_t i = 0; i < n; i++)
        bias[i] = (float)rng_below(&r, 5) * 0.125f, factor[i] = 0.5f + (float)rng_below(&r, 9) / 8;
    want.bias = k->choice_bias ? bias : NULL;
    want.factor = k->factor ? factor : NULL;
    got = kept = want;
    struct routed *all[] = {&want, &got, &kept};
    for (int i = 0; i < 3; i++) {
        all[i]->id = arena_get(&a, rows * top * 4);
        all[i]->weight = arena_get(&a, rows * top * 4);
    }
    for (size_t i = 0, tries = 0; i + 1 < rows; i++, tries = 0)
        do fill_logits(&r, k, x + i * n, tries++ < 100 ? (int)i : 0);
        while (!expect_route(k, x + i * n, want.bias, want.factor, want.id + i * top,
                             want.weight + i * top, bound + i * top));
    fill_row(&r, ROW_RANDOM, 0, x + (rows - 1) * n, k->experts);
    x[(rows - 1) * n + n / 2] = NAN;
    for (size_t j = 0; j < top; j++) want.id[(rows - 1) * top + j] = (int32_t)j;
    run_route(c, REF, name, &c->ref, 1, &got, 0, k->rows);
    count_case(c, REF);
    compare_route(c, REF, name, &got, &want, bound);
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        run_route(c, v, name, &c->v[v], 1, &got, 0, k->rows);
        compare_route(c, v, name, &got, &want, bound);
        compare_variants(c, v, name, "weights", kept.weight, got.weight, (rows - 1) * top, top);
        struct routed again = got;
        again.id = arena_get(&a, rows * top * 4);
        again.weight = arena_get(&a, rows * top * 4);
        run_route(c, v, name, &c->v[v], 3, &again, 0, k->rows);
        compare_bits(c, v, name, "3 threads against 1", again.weight, got.weight, (rows - 1) * top,
                     top);
        for (size_t i = 0; i + 1 < rows && i < 5; i++) {
            run_route(c, v, name, &c->v[v], 1, &again, (int)i, 1);
            compare_bits(c, v, name, "a row alone", again.weight, got.weight + i * top, top, top);
        }
    }
    arena_free(&a);
}

void check_route(struct check *c)
{
    for (size_t i = 0; i < sizeof route_cases / sizeof *route_cases; i++)
        check_route_case(c, &route_cases[i]);
}

/* ---- experts ---- */

enum { MAX_STACKS = 3, MAX_EXPERTS = 12 };

struct experts_case {
    struct shape shape[MAX_STACKS];
    int n, experts, top, rows, each;
    int spread; /* 0: any experts; 1: all rows have the same; 2: some experts have no row */
};

static const struct experts_case experts_cases[] = {
    {{{256, 48, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0},
      {256, 80, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0}},
     2,
     8,
     3,
     33,
     0,
     0},
    {{{256, 48, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0},
      {256, 48, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0}},
     2,
     4,
     2,
     1,
     0,
     0},
    {{{192, 37, 32, 192, PERM_NONE, SCALE_F32, 1, 0, 0}}, 1, 5, 2, 9, 1, 0},
    {{{192, 150, 64, 192, PERM_NONE, SCALE_F16, 1, 0, ZEROS_MIXED}}, 1, 12, 4, 5, 1, 2},
    {{{128, 70, 32, 128, PERM_SHUFFLED, SCALE_F16, 1, 0, 0},
      {128, 70, 32, 128, PERM_SHUFFLED, SCALE_F16, 0, 0, 0}},
     2,
     6,
     2,
     12,
     0,
     0},
    {{{200, 33, 64, 256, PERM_PADDED, SCALE_F16, 1, 0, 0}}, 1, 4, 2, 7, 1, 2},
    {{{192, 48, 64, 256, PERM_OUTLIERS_SHUFFLED, SCALE_F16, 0, 0, ZEROS_OUTLIERS},
      {192, 48, 64, 256, PERM_OUTLIERS_SHUFFLED, SCALE_F16, 0, 0, ZEROS_OUTLIERS}},
     2,
     5,
     2,
     9,
     0,
     0},
    {{{160, 37, 32, 192, PERM_OUTLIERS, SCALE_F16, 1, 0, ZEROS_OUTLIERS}}, 1, 5, 2, 9, 1, 2},
    {{{160, 24, 32, 320, PERM_TWICE, SCALE_F32, 0, 0, 0}}, 1, 3, 1, 6, 0, 1},
    {{{256, 66, 64, 256, PERM_NONE, SCALE_F16, 0, 0, ZEROS_EIGHT},
      {256, 9, 0, 256, PERM_NONE, 0, 1, DT_F16, 0},
      {256, 66, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0}},
     3,
     6,
     2,
     8,
     0,
     0},
    {{{80, 65, 0, 80, PERM_NONE, 0, 1, DT_BF16, 0}, {80, 65, 0, 80, PERM_NONE, 0, 1, DT_BF16, 0}},
     2,
     6,
     2,
     11,
     0,
     0},
    {{{100, 70, 0, 100, PERM_NONE, 0, 0, DT_F16, 0}}, 1, 4, 2, 3, 1, 0},
    {{{64, 64, 32, 64, PERM_NONE, SCALE_F16, 0, 0, 0},
      {64, 64, 32, 64, PERM_NONE, SCALE_F16, 0, 0, 0}},
     2,
     3,
     2,
     300,
     0,
     1},
    {{{64, 20, 32, 64, PERM_NONE, SCALE_F16, 1, 0, 0}}, 1, 3, 2, 140, 1, 2},
    {{{96, 70, 32, 192, PERM_PAIRS, SCALE_F32, 1, 0, ZEROS_PAIRS},
      {96, 33, 32, 192, PERM_PAIRS, SCALE_F32, 0, 0, ZEROS_PAIRS}},
     2,
     5,
     2,
     9,
     0,
     0},
    {{{120, 40, 64, 256, PERM_PAIRS_SHUFFLED, SCALE_F16, 0, 0, ZEROS_PAIRS}}, 1, 4, 2, 12, 0, 1},
    {{{64, 20, 32, 128, PERM_PAIRS, SCALE_F16, 0, 0, ZEROS_PAIRS}}, 1, 3, 2, 7, 1, 2},
    {{{256, 150, 128, 256, PERM_NONE, SCALE_F16, 1, 0, ZEROS_MIXED},
      {256, 33, 128, 256, PERM_NONE, SCALE_F16, 0, 0, 0}},
     2,
     3,
     2,
     60,
     0,
     0},
    {{{96, 70, 32, 192, PERM_PAIRS, SCALE_F16, 1, 0, ZEROS_PAIRS}}, 1, 3, 2, 70, 1, 0},
    {{{256, 150, 128, 256, PERM_NONE, SCALE_F16, 1, 0, 0}}, 1, 2, 1, 300, 0, 0}, /* many slots */
    /* 3, 6, 12 and 16 items: odd numbers of panels, several tiles of an expert */
    {{{384, 16, 128, 384, PERM_NONE, SCALE_F16, 0, 0, 0},
      {384, 40, 128, 384, PERM_NONE, SCALE_F16, 1, 0, ZEROS_MIXED}},
     2,
     12,
     3,
     7,
     0,
     0},
    {{{768, 70, 128, 768, PERM_NONE, SCALE_F16, 1, 0, ZEROS_MIXED}}, 1, 5, 2, 16, 1, 0},
    {{{1536, 24, 128, 1536, PERM_NONE, SCALE_F16, 0, 0, 0}}, 1, 4, 2, 9, 1, 2},
    {{{2048, 33, 256, 2048, PERM_NONE, SCALE_F16, 0, 0, ZEROS_MIXED},
      {2048, 48, 128, 2048, PERM_NONE, SCALE_F16, 1, 0, 0}},
     2,
     6,
     2,
     13,
     0,
     0},
};

struct experts_call {
    const struct experts_case *k;
    struct weights q[MAX_STACKS][MAX_EXPERTS];
    struct linear stack[MAX_STACKS];
    float *x;              /* [rows][in], each: [rows][top][in] */
    int32_t *id;           /* [rows][top] */
    float *y[MAX_STACKS];  /* [rows][top][out], filled by run_experts */
    float *by_linear[MAX_STACKS]; /* the same, or NULL: not wanted */
};

static void *joined(struct arena *a, const void *const part[], int n, size_t bytes)
{
    if (!part[0]) return NULL;
    char *p = arena_get(a, (size_t)n * bytes);
    for (int i = 0; i < n; i++) memcpy(p + (size_t)i * bytes, part[i], bytes);
    return p;
}

#define JOIN(field, bytes)                                                                        \
    do {                                                                                          \
        const void *part[MAX_EXPERTS];                                                            \
        for (int i_ = 0; i_ < n; i_++) part[i_] = q[i_].w.field;                                  \
        w.field = joined(a, part, n, (bytes));                                                    \
    } while (0)

/* The stack of the linears q [n]. */
static struct linear stack_of(struct arena *a, const struct weights *q, int n)
{
    struct linear w = q[0].w;
    size_t out = (size_t)w.out, panels = (out + 15) / 16, k = (size_t)w.k;
    w.stack = n;
    JOIN(codes, panels * k * 8);
    JOIN(scales, panels * (size_t)w.n_groups * 16 * dtype_bytes(w.scale_type));
    JOIN(zeros, panels * (size_t)w.n_groups * 16);
    JOIN(perm, k * sizeof(int32_t));
    JOIN(weight, out * (size_t)w.in * dtype_bytes(w.weight_type));
    JOIN(bias, out * sizeof(float));
    linear_find_pairs(&w);
    CHECK(w.pairs == q[0].w.pairs && w.outliers == q[0].w.outliers);
    return w;
}

/* Ascending experts of each row. */
static void fill_ids(struct rng *r, const struct experts_case *k, int32_t *id)
{
    for (int row = 0; row < k->rows; row++, id += k->top) {
        char is[MAX_EXPERTS] = {0};
        int n = k->spread == 2 ? (k->experts + 1) / 2 : k->experts, j = 0;
        if (n < k->top) n = k->top;
        if (k->spread == 1) is[k->experts / 2] = 1, j = 1;
        while (j < k->top) {
            int e = rng_below(r, n);
            j += !is[e];
            is[e] = 1;
        }
        j = 0;
        for (int e = 0; e < k->experts; e++)
            if (is[e]) id[j++] = e;
    }
}

/* OP_LINEAR with every expert of stack i: the slots' outputs. x [rows][in], of slot j with each. In
 * fp16 stacks scale the halves of codes of 8 bits apart, so the linears do. */
static void by_linear(struct side *s, const struct experts_call *q, int i, const struct batch *b,
                      struct arena *a, enum act act)
{
    const struct experts_case *k = q->k;
    size_t in = (size_t)q->stack[i].in, out = (size_t)q->stack[i].out, rows = (size_t)k->rows,
           top = (size_t)k->top;
    float *y = arena_get(a, rows * out * 4), *x = arena_get(a, rows * in * 4);
    struct dbuf dx = dbuf_new(s, rows * in * 4), dy = dbuf_new(s, rows * out * 4);
    for (int e = 0; e < k->experts; e++) {
        struct be_linear *packed;
        struct err err;
        struct linear one = q->q[i][e].w;
        if (act == ACT_F16) one.pairs = one.in_order = 0;
        CHECK(!s->ops->pack(s->be, &one, &packed, &err));
        for (size_t j = 0; j < (k->each ? top : 1); j++) {
            size_t stride = k->each ? top * in : in;
            for (size_t r = 0; r < rows; r++)
                memcpy(x + r * in, q->x + r * stride + j * in, in * 4);
            s->ops->upload(s->be, dx.d, x, rows * in * 4);
            struct trial t = {0};
            int w = trial_linear(&t, &one, packed);
            int from = trial_buffer(&t, dx.d, ROWS_STEP, in * 4),
                to = trial_buffer(&t, dy.d, ROWS_STEP, out * 4);
            trial_linears(&t, from, 1, &w, &to);
            trial_run(&t, s, b, 0);
            dbuf_get(s, &dy, y);
            for (size_t slot = 0; slot < rows * top; slot++)
                if (q->id[slot] == e && (!k->each || slot % top == j))
                    memcpy(q->by_linear[i] + slot * out, y + slot / top * out, out * 4);
        }
        s->ops->drop(s->be, packed);
    }
    dbuf_free(s, &dx);
    dbuf_free(s, &dy);
}

static void run_experts(struct check *c, int v, const char *name, const struct variant *on,
                        int n_threads, const struct experts_call *q)
{
    const struct experts_case *k = q->k;
    struct side s;
    struct err e;
    struct arena a = {0};
    struct be_linear *packed[MAX_STACKS];
    struct dbuf y[MAX_STACKS];
    struct trial t = {0};
    size_t in = (size_t)q->stack[0].in, slots = (size_t)k->rows * (size_t)k->top,
           inputs = k->each ? slots : (size_t)k->rows, top = (size_t)k->top;
    struct be_config config = plain_config(k->rows);
    config.act = c->act;
    side_open(&s, on, n_threads, config);
    struct batch b = make_plain_batch(&a, k->rows, k->rows / 2);
    struct dbuf x = dbuf_from(&s, q->x, inputs * in * 4), id = dbuf_from(&s, q->id, slots * 4);
    struct op *op = trial_op(&t, OP_EXPERTS);
    op->n = k->n;
    op->as.experts.top_k = k->top;
    op->as.experts.each = k->each;
    op->in[0] = trial_buffer(&t, x.d, ROWS_STEP, in * 4 * (k->each ? top : 1));
    op->in[1] = trial_buffer(&t, id.d, ROWS_STEP, top * 4);
    for (int i = 0; i < k->n; i++) {
        size_t out = (size_t)q->stack[i].out * 4;
        if (s.ops->pack(s.be, &q->stack[i], &packed[i], &e)) {
            fail(c, v, name, "pack: %s", e.msg);
            side_close(&s);
            arena_free(&a);
            return;
        }
        y[i] = dbuf_new(&s, slots * out);
        op->w[i] = trial_linear(&t, &q->stack[i], packed[i]);
        op->out[i] = trial_buffer(&t, y[i].d, ROWS_STEP, top * out);
    }
    trial_run(&t, &s, &b, 0);
    for (int i = 0; i < k->n; i++) {
        dbuf_get(&s, &y[i], q->y[i]);
        compare_fences(c, v, name, "output", &s, &y[i]);
        if (q->by_linear[i]) by_linear(&s, q, i, &b, &a, c->act);
        s.ops->drop(s.be, packed[i]);
        dbuf_free(&s, &y[i]);
    }
    dbuf_free(&s, &x);
    dbuf_free(&s, &id);
    side_close(&s);
    arena_free(&a);
}

/* The expected outputs of stack i and their bounds [rows][top][out]. */
static void expect_experts(const struct check *c, const struct experts_call *q, int i, float *want,
                           float *bound)
{
    const struct experts_case *k = q->k;
    size_t in = (size_t)q->stack[i].in, out = (size_t)q->stack[i].out;
    for (int slot = 0; slot < k->rows * k->top; slot++)
        expect(&q->q[i][q->id[slot]], c->act,
               q->x + (size_t)(k->each ? slot : slot / k->top) * in, want + (size_t)slot * out,
               bound + (size_t)slot * out, 1);
}

/* Whether stacks have the order of linears in prompt rows, too: not with plain weights and fp16
 * activations, where linears may have a kernel of their own for those. */
static int same_kernels(const struct check *c, const struct linear *stack)
{
    return c->act != ACT_F16 || stack->codes;
}

static void compare_experts(struct check *c, const char *name, struct experts_call *q,
                            struct arena *a)
{
    const struct experts_case *k = q->k;
    float *want[MAX_STACKS], *bound[MAX_STACKS], *tight[MAX_STACKS], *kept[MAX_STACKS],
        *first[MAX_STACKS], *linear[MAX_STACKS];
    size_t slots = (size_t)k->rows * (size_t)k->top,
           decode_slots = (size_t)(k->rows / 2) * (size_t)k->top;
    for (int i = 0; i < k->n; i++) {
        size_t n = slots * (size_t)q->stack[i].out;
        float **all[] = {&want[i], &bound[i], &tight[i], &kept[i], &first[i], &linear[i]};
        for (int j = 0; j < 6; j++) *all[j] = arena_get(a, n * 4);
        expect_experts(c, q, i, want[i], bound[i]);
        for (size_t t = 0; t < n; t++)
            tight[i][t] = bound[i][t] > 0 ? bound[i][t] * 0x1p-8f + 0x1p-23f * fabsf(want[i][t])
                                          : 0;
        q->y[i] = first[i];
    }
    run_experts(c, REF, name, &c->ref, 2, q);
    count_case(c, REF);
    for (int i = 0; i < k->n; i++)
        compare(c, REF, name, "against the harness", first[i], want[i], tight[i], slots,
                (size_t)q->stack[i].out);
    for (int v = 0; v < c->n && !is_caught(c); v++) {
        count_case(c, v);
        for (int i = 0; i < k->n; i++) q->by_linear[i] = linear[i], q->y[i] = first[i];
        run_experts(c, v, name, &c->v[v], 1, q);
        for (int i = 0; i < k->n; i++) {
            size_t out = (size_t)q->stack[i].out;
            char what[40];
            snprintf(what, sizeof what, "stack %d", i);
            compare(c, v, name, what, first[i], want[i], bound[i], slots, out);
            compare_variants(c, v, name, what, kept[i], first[i], slots * out, out);
            compare_bits(c, v, name, "against OP_LINEAR", first[i], linear[i],
                         (same_kernels(c, &q->stack[i]) ? slots : decode_slots) * out, out);
            q->by_linear[i] = NULL, q->y[i] = linear[i];
        }
        if (!runs_again(c, v)) continue;
        run_experts(c, v, name, &c->v[v], 3, q);
        for (int i = 0; i < k->n; i++) {
            size_t out = (size_t)q->stack[i].out;
            compare_bits(c, v, name, "3 threads against 1", linear[i], first[i], slots * out, out);
        }
    }
}

static void check_experts_case(struct check *c, const struct experts_case *k)
{
    char name[NAME_BYTES], more[64];
    struct arena a = {0};
    struct experts_call q = {.k = k};
    describe(name, &k->shape[0], k->rows, k->rows / 2);
    snprintf(more, sizeof more, ", %d of %d experts, %d stacks%s, act %d", k->top, k->experts, k->n,
             k->each ? ", each" : "", (int)c->act);
    strncat(name, more, NAME_BYTES - strlen(name) - 1);
    struct rng r = rng_for(c->seed, name);
    size_t slots = (size_t)k->rows * (size_t)k->top;
    int inputs = k->each ? k->rows * k->top : k->rows, in = k->shape[0].in;
    q.x = arena_get(&a, (size_t)inputs * (size_t)in * 4);
    q.id = arena_get(&a, slots * 4);
    fill_rows(&r, rng_below(&r, ROW_KINDS), q.x, inputs, in);
    fill_ids(&r, k, q.id);
    /* outliers: experts share an order, but those of the last stack */
    for (int i = 0; i < k->n; i++) {
        int32_t *perm = make_perm(&a, &r, &k->shape[i]);
        for (int e = 0; e < k->experts; e++) {
            if (e && !(k->shape[i].zeros == ZEROS_OUTLIERS && i + 1 < k->n))
                perm = make_perm(&a, &r, &k->shape[i]);
            q.q[i][e] = make_weights(&a, &r, &k->shape[i], perm);
        }
        q.stack[i] = stack_of(&a, q.q[i], k->experts);
    }
    compare_experts(c, name, &q, &a);
    arena_free(&a);
}

void check_experts(struct check *c)
{
    static const struct {
        enum act act;
        const char *op; /* that a backend with this arithmetic has */
    } acts[] = {{ACT_F32, "linear"}, {ACT_I16, "i16"},          {ACT_INT8, "int8"},
                {ACT_F16, "f16"},    {ACT_INT8_TOKEN, "token"}, {ACT_INT4, "int4"}};
    for (int i = 0; i < 6; i++) {
        if (!has(&c->v[0], acts[i].op) || (gpu.act != ACT_F32 && gpu.act != acts[i].act)) continue;
        c->act = acts[i].act;
        for (size_t j = 0; j < sizeof experts_cases / sizeof *experts_cases; j++) {
            if (is_caught(c) || (c->quick && experts_cases[j].rows > 100)) continue;
            if (c->act == ACT_INT4 && experts_cases[j].shape[0].perm < PERM_OUTLIERS) continue;
            check_experts_case(c, &experts_cases[j]);
        }
    }
    c->act = gpu.act;
}

/* ---- mix ---- */

static void run_mix(struct check *c, int v, const char *name, const struct variant *on,
                    int n_threads, const float *x, const float *w, int rows, int top, int n,
                    float *y)
{
    struct side s;
    struct arena a = {0};
    size_t slots = (size_t)rows * (size_t)top, columns = (size_t)n;
    side_open(&s, on, n_threads, plain_config(rows));
    struct batch b = make_plain_batch(&a, rows, rows / 2);
    struct dbuf dx = dbuf_from(&s, x, slots * columns * 4), dw = dbuf_from(&s, w, slots * 4),
                dy = dbuf_new(&s, (size_t)rows * columns * 4);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_MIX);
    op->as.mix.top_k = top;
    op->in[0] = trial_buffer(&t, dx.d, ROWS_STEP, (size_t)top * columns * 4);
    op->in[1] = trial_buffer(&t, dw.d, ROWS_STEP, (size_t)top * 4);
    op->out[0] = trial_buffer(&t, dy.d, ROWS_STEP, columns * 4);
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &dy, y);
    compare_fences(c, v, name, "output", &s, &dy);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dw);
    dbuf_free(&s, &dy);
    side_close(&s);
    arena_free(&a);
}

void check_mix(struct check *c)
{
    static const int shapes[][3] = {{1, 1, 7},  {1, 8, 2048}, {5, 2, 100}, {17, 4, 65},
                                    {3, 10, 64}, {33, 8, 192}, {2, 64, 80}}; /* rows, top_k, n */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int rows = shapes[i][0], top = shapes[i][1], n = shapes[i][2];
        char name[NAME_BYTES];
        struct arena a = {0};
        snprintf(name, NAME_BYTES, "%d rows, %d times %d", rows, top, n);
        struct rng r = rng_for(c->seed, name);
        size_t columns = (size_t)n, all = (size_t)rows * columns, slots = (size_t)(rows * top);
        float *x = arena_get(&a, slots * columns * 4), *w = arena_get(&a, slots * 4),
              *want = arena_get(&a, all * 4), *bound = arena_get(&a, all * 4),
              *tight = arena_get(&a, all * 4), *first = arena_get(&a, all * 4),
              *got = arena_get(&a, all * 4), *kept = arena_get(&a, all * 4);
        fill_rows(&r, 0, x, rows * top, n);
        for (size_t j = 0; j < slots; j++) w[j] = fabsf(rng_normal(&r));
        for (size_t at = 0; at < all; at++) {
            double sum = 0, magnitude = 0;
            for (size_t j = 0; j < (size_t)top; j++) {
                size_t slot = at / columns * (size_t)top + j;
                double p = (double)w[slot] * x[slot * columns + at % columns];
                sum += p, magnitude += fabs(p);
            }
            want[at] = (float)sum;
            bound[at] = (float)((top + 1) * U * magnitude);
            tight[at] = (float)(2 * U * fabs(sum) + 0x1p-48 * magnitude);
        }
        run_mix(c, REF, name, &c->ref, 1, x, w, rows, top, n, got);
        count_case(c, REF);
        compare(c, REF, name, "output", got, want, tight, (size_t)rows, columns);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_mix(c, v, name, &c->v[v], 1, x, w, rows, top, n, first);
            compare(c, v, name, "output", first, want, bound, (size_t)rows, columns);
            compare_variants(c, v, name, "output", kept, first, all, columns);
            run_mix(c, v, name, &c->v[v], 3, x, w, rows, top, n, got);
            compare_bits(c, v, name, "3 threads against 1", got, first, all, columns);
            run_mix(c, v, name, &c->v[v], 1, x, w, 1, top, n, got);
            compare_bits(c, v, name, "a row alone", got, first, columns, columns);
        }
        arena_free(&a);
    }
}
