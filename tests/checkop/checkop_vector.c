/* checkop_vector.c: norm, add, glu, softcap, sums of groups, gather.
 *
 * norm: y = x * f * w, f = 1/sqrt(mean(x^2) + eps). All terms of the sum of squares are positive,
 * so its relative error is at most one rounding per step of the longest chain: the square, dim/16
 * additions in each of 16 lanes, 4 to fold them. The root halves it. Then: mean, eps, root,
 * reciprocal, two products, and the reference's own rounding: 7.
 *     |y - ref| <= ((dim/16 + 6) / 2 + 7) * 2^-24 * |ref|
 * x itself becomes x + delta, one IEEE addition: exact. LayerNorm: y = (x - m) f w + b. With M =
 * mean(|x|) and s = sqrt(var + eps) the mean is off by (N + 2) U M, N = dim/16 + 4 the longest
 * chain and its quotient, which is r = (N + 2) U M / s of the result's unit. It shifts x - m, and
 * the variance by r^2; the squares of rounded differences have 3 + N roundings, of which the root
 * halves, then come 7 of norm's, the difference and the sum:
 *     |y - ref| <= ((N/2 + 11) U + r^2) |ref - b| + r |w| + 2 U |ref|
 *
 * add: y = (x + d g) s f. g = 1 / (1 + e^-z): 4 roundings of the exponential, the sum, the
 * quotient. Product, sum, the factors' product, f's rounding and its product: with the reference's
 * 10 in all
 *     |y - ref| <= 10 U (|x| + |d g|) |s f|
 * f itself is the float nearest to 1 + beta ln n; a device may take it 4 roundings off: 14.
 *
 * glu: y = g / (1 + e^-g) * u. The exponential is good to 2 ulp (4 roundings), then +1, the
 * quotient, the product, the reference's rounding: 8 roundings. An exponential that saturates at
 * e^88 is off by g * u * e^-88 at most.
 *     |y - ref| <= 8 * 2^-24 * |ref| + |g * u| * 2^-126
 * Of GELU the exponential is of z = g (a + b g^2), all terms of one sign: square, fused sum,
 * product and two rounded constants put it off by 5 roundings of |z|, and so the result by as much
 * of itself. Of the clamped SwiGLU it is of alpha g, one rounding of |z|, and u + 1 is another.
 *
 * softcap: y = c tanh(x / c). tanh is good to 5 ulp (10 roundings), before it the quotient (on GPUs
 * a reciprocal of 2 ulp and a product: 5 roundings), which tanh does not amplify, after it the
 * product and the reference's rounding.
 *     |y - ref| <= 17 * 2^-24 * |ref| */
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* kind of a case: RMSNorm; of groups with weights of their own; LayerNorm without and with a bias
 */
enum { RMS, OWN, CENTERED, BIASED };

struct norm_case {
    int rows, dim, delta; /* a row is `groups` rows of dim elements */
    float eps;
    int kind, groups, in_place;
};

static int norm_groups(const struct norm_case *k) { return k->groups ? k->groups : 1; }

/* Weights; as many biases follow. */
static int norm_weights(const struct norm_case *k)
{
    return k->kind == OWN ? k->dim * k->groups : k->dim;
}

/* The norm of the rows of a batch, at byte offset `at` of x, delta and y; d: x, weights then
 * biases, delta, y. */
static void apply_norm(struct side *s, const struct norm_case *k, const struct dbuf d[4], size_t at,
                       const struct batch *b)
{
    struct trial t = {0};
    size_t row = (size_t)(k->dim * norm_groups(k)) * 4;
    struct op *op = trial_op(&t, OP_NORM);
    op->in[0] = trial_buffer(&t, d[0].d + at, ROWS_STEP, row);
    if (k->delta) op->in[1] = trial_buffer(&t, d[2].d + at, ROWS_STEP, row), op->out[1] = op->in[0];
    op->out[0] = k->in_place ? op->in[0] : trial_buffer(&t, d[3].d + at, ROWS_STEP, row);
    op->w[0] = trial_vector(&t, d[1].d, norm_weights(k));
    if (k->kind == BIASED) op->w[1] = trial_vector(&t, d[1].d + (size_t)k->dim * 4, k->dim);
    op->as.norm.eps = k->eps;
    op->as.norm.groups = k->groups;
    op->as.norm.centered = k->kind >= CENTERED;
    op->as.norm.own = k->kind == OWN;
    trial_run(&t, s, b, 0);
}

static void run_norm(struct check *c, int v, const char *name, const struct variant *on,
                     int n_threads, const struct norm_case *k, const float *x, const float *delta,
                     const float *weight, float *x_after, float *y, int alone)
{
    struct side s;
    size_t dim = (size_t)(k->dim * norm_groups(k)), n = (size_t)k->rows * dim;
    side_open(&s, on, n_threads, plain_config(k->rows));
    struct dbuf dx = dbuf_from(&s, x, n * 4),
                dw = dbuf_from(&s, weight, (size_t)norm_weights(k) * 8),
                dd = dbuf_from(&s, delta, n * 4), dy = dbuf_new(&s, n * 4);
    const struct dbuf *out = k->in_place ? &dx : &dy;
    struct arena a = {0};
    struct batch b = make_plain_batch(&a, k->rows, 0);
    const struct dbuf d[] = {dx, dw, dd, dy};
    apply_norm(&s, k, d, 0, &b);
    dbuf_get(&s, &dx, x_after);
    dbuf_get(&s, out, y);
    compare_fences(c, v, name, "x", &s, &dx);
    compare_fences(c, v, name, "output", &s, &dy);
    if (alone) {
        float *got = arena_get(&a, n * 4);
        s.ops->upload(s.be, dx.d, x, n * 4);
        struct batch one = make_plain_batch(&a, 1, 0);
        for (int i = k->rows - 1; i >= 0; i--) apply_norm(&s, k, d, (size_t)i * dim * 4, &one);
        dbuf_get(&s, out, got);
        compare_bits(c, v, name, "rows one by one", got, y, n, dim);
    }
    struct dbuf *all[] = {&dx, &dw, &dd, &dy};
    for (int i = 0; i < 4; i++) dbuf_free(&s, all[i]);
    side_close(&s);
    arena_free(&a);
}

/* One row of x [dim] by the harness's own arithmetic, its bound and what the reference may be off.
 * weight [dim], for LayerNorm then bias [dim]. */
static void expect_norm(const struct norm_case *k, const float *x, const float *weight, float *want,
                        float *bound, float *tight)
{
    double mean = 0, magnitude = 0, squares = 0, n = k->dim / 16.0 + 4;
    for (int i = 0; i < k->dim; i++) mean += x[i], magnitude += fabs(x[i]);
    mean = k->kind < CENTERED ? 0 : mean / k->dim;
    magnitude /= k->dim;
    for (int i = 0; i < k->dim; i++) squares += (x[i] - mean) * (x[i] - mean);
    double root = sqrt(squares / k->dim + (double)k->eps), shift = (n + 2) * U * magnitude / root;
    for (int i = 0; i < k->dim; i++) {
        double y = (x[i] - mean) / root * weight[i],
               bias = k->kind == BIASED ? weight[k->dim + i] : 0;
        want[i] = (float)(y + bias);
        bound[i] = (float)(((k->dim / 16.0 + 6) / 2 + 7) * U * fabs(y));
        tight[i] = (float)(2 * U * fabs(y));
        if (k->kind < CENTERED) continue;
        bound[i] = (float)(((n / 2 + 11) * U + shift * shift) * fabs(y) +
                           shift * fabs(weight[i]) + 2 * U * fabs(y + bias));
        tight[i] = (float)(2 * U * fabs(y + bias) + 0x1p-40 * (fabs(y) + fabs(bias) +
                           magnitude / root * fabs(weight[i])));
    }
}

static void check_norm_case(struct check *c, const struct norm_case *k)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "%d rows of %d, delta %d, eps %g%s%s", k->rows, k->dim, k->delta,
             (double)k->eps,
             k->kind < CENTERED  ? ""
             : k->kind == BIASED ? ", centered, bias"
                                 : ", centered",
             k->in_place ? ", in place" : "");
    if (k->groups > 1)
        snprintf(name + strlen(name), NAME_BYTES - strlen(name), ", %d groups%s", k->groups,
                 k->kind == OWN ? " of their own" : "");
    struct rng r = rng_for(c->seed, name);
    size_t dim = (size_t)(k->dim * norm_groups(k)), rows = (size_t)k->rows, n = rows * dim;
    float *x = arena_get(&a, n * 4), *delta = arena_get(&a, n * 4),
          *weight = arena_get(&a, (size_t)norm_weights(k) * 8), *bound = arena_get(&a, n * 4),
          *tight = arena_get(&a, n * 4), *zero = arena_get(&a, n * 4);
    float *sum = arena_get(&a, n * 4), *want = arena_get(&a, n * 4),
          *x_after = arena_get(&a, n * 4), *ref = arena_get(&a, n * 4),
          *first = arena_get(&a, n * 4), *got = arena_get(&a, n * 4), *kept = arena_get(&a, n * 4);
    fill_rows(&r, rng_below(&r, ROW_KINDS), x, k->rows * norm_groups(k), k->dim);
    fill_row(&r, ROW_RANDOM, 0, weight, norm_weights(k));
    for (size_t i = 0; i < n; i++)
        delta[i] = rng_normal(&r) * (x[i] != 0 ? 1 : 0); /* rows of zeros stay so */
    if (k->kind == BIASED) fill_row(&r, ROW_RANDOM, 0, weight + k->dim, k->dim);
    for (size_t i = 0; i < n; i++) sum[i] = k->delta ? x[i] + delta[i] : x[i];
    for (size_t i = 0; i < n; i += (size_t)k->dim)
        expect_norm(k, sum + i, weight + (k->kind == OWN ? i % dim : 0), want + i, bound + i,
                    tight + i);
    if (k->in_place) sum = want;
    run_norm(c, REF, name, &c->ref, 1, k, x, delta, weight, x_after, ref, 0);
    count_case(c, REF);
    compare(c, REF, name, "x", x_after, sum, k->in_place ? tight : zero, rows, dim);
    compare(c, REF, name, "output", ref, want, tight, rows, dim);
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        run_norm(c, v, name, &c->v[v], 1, k, x, delta, weight, x_after, first, 1);
        if (!k->in_place) compare(c, v, name, "x", x_after, sum, zero, rows, dim);
        compare(c, v, name, "output", first, ref, bound, rows, dim);
        compare_variants(c, v, name, "output", kept, first, n, dim);
        run_norm(c, v, name, &c->v[v], 3, k, x, delta, weight, x_after, got, 0);
        compare_bits(c, v, name, "3 threads against 1", got, first, n, dim);
    }
    arena_free(&a);
}

void check_norm(struct check *c)
{
    static const int dims[] = {1, 7, 16, 36, 80, 100, 256, 1000, 4096}, rows[] = {1, 5, 17};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
            for (int delta = 0; delta < 2; delta++)
                check_norm_case(c, &(struct norm_case){rows[j], dims[i], delta,
                                                       (i + j) % 2 ? 1e-5f : 1e-6f, RMS, 0, 0});
    static const struct norm_case more[] = {
        {5, 36, 0, 1e-6f, RMS, 1, 1},       {1, 4096, 0, 1e-6f, RMS, 0, 1},
        {1, 64, 0, 1e-6f, RMS, 5, 1},       {17, 36, 0, 1e-6f, RMS, 3, 0},
        {5, 128, 0, 1e-5f, RMS, 8, 0},      {3, 512, 0, 1e-6f, RMS, 2, 1},
        {1, 1, 0, 1e-5f, CENTERED, 0, 0},   {5, 7, 1, 1e-5f, CENTERED, 0, 0},
        {17, 36, 0, 1e-5f, BIASED, 0, 0},   {1, 80, 1, 1e-5f, BIASED, 0, 0},
        {5, 256, 1, 1e-6f, CENTERED, 0, 0}, {5, 1000, 1, 1e-5f, BIASED, 0, 0},
        {17, 4096, 1, 1e-5f, BIASED, 0, 0}, {3, 64, 0, 1e-5f, BIASED, 4, 0},
        {5, 96, 0, 1e-5f, OWN, 2, 0},       {17, 38, 0, 1e-6f, OWN, 3, 0},
        {1, 512, 0, 1e-5f, OWN, 8, 1},      {3, 5000, 0, 1e-5f, OWN, 2, 0},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) check_norm_case(c, &more[i]);
}

struct add_case {
    enum rows_of of;
    int rows, n, has_y, has_gate;
    float scale, beta;
    int original, first;
};

static void run_add(struct check *c, int v, const char *name, const struct variant *on,
                    int n_threads, const struct add_case *k, const struct batch *b,
                    const float *x, const float *y, const float *gate, float *got)
{
    struct side s;
    size_t row = (size_t)k->n * 4, rows = (size_t)k->rows;
    struct be_config config = plain_config(b->n_rows);
    config.max_pages = b->pos[b->n_rows - 1] / KV_PAGE + 1;
    side_open(&s, on, n_threads, config);
    struct dbuf dx = dbuf_from(&s, x, rows * row), dy = dbuf_from(&s, y, rows * row),
                dg = dbuf_from(&s, gate, rows * 4);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_ADD);
    op->in[0] = op->out[0] = trial_buffer(&t, dx.d, k->of, row);
    if (k->has_y) op->in[1] = trial_buffer(&t, dy.d, k->of, row);
    if (k->has_gate) op->in[2] = trial_buffer(&t, dg.d, k->of, 4);
    op->as.add.scale = k->scale;
    op->as.add.beta = k->beta;
    op->as.add.original = k->original;
    op->as.add.first = k->first;
    trial_run(&t, &s, b, 0);
    dbuf_get(&s, &dx, got);
    compare_fences(c, v, name, "output", &s, &dx);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dy);
    dbuf_free(&s, &dg);
    side_close(&s);
}

/* The rows of the step are at positions 0, 3, 8, 15 ..; rows of logits are the last of them,
 * backwards. */
static struct batch add_batch(struct arena *a, const struct add_case *k)
{
    int rows = k->of == ROWS_STEP ? k->rows : 2 * k->rows;
    struct batch b = make_plain_batch(a, rows, rows);
    for (int i = 0; i < rows; i++) b.pos[i] = i * (i + 2);
    if (k->of == ROWS_STEP) return b;
    b.n_logits = b.n_decode_logits = k->rows;
    b.logit_row = arena_get(a, (size_t)k->rows * sizeof *b.logit_row);
    for (int i = 0; i < k->rows; i++) b.logit_row[i] = rows - 1 - i;
    return b;
}

static void check_add_case(struct check *c, const struct add_case *k)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "%d rows%s of %d, y %d, gate %d, scale %g, beta %g of %d from %d",
             k->rows, k->of == ROWS_LOGITS ? " of logits" : "", k->n, k->has_y, k->has_gate,
             (double)k->scale, (double)k->beta, k->original, k->first);
    struct rng r = rng_for(c->seed, name);
    size_t rows = (size_t)k->rows, cols = (size_t)k->n, n = rows * cols;
    float *x = arena_get(&a, n * 4), *y = arena_get(&a, n * 4), *gate = arena_get(&a, rows * 4),
          *bound = arena_get(&a, n * 4), *tight = arena_get(&a, n * 4),
          *want = arena_get(&a, n * 4), *ref = arena_get(&a, n * 4), *first = arena_get(&a, n * 4),
          *got = arena_get(&a, n * 4), *kept = arena_get(&a, n * 4);
    fill_rows(&r, 0, x, k->rows, k->n);
    fill_rows(&r, 1, y, k->rows, k->n);
    struct batch b = add_batch(&a, k);
    for (size_t i = 0; i < rows; i++) {
        gate[i] = i % 7 == 5 ? (i & 8 ? 200 : -200) : rng_normal(&r) * 4;
        int pos = b.pos[k->of == ROWS_LOGITS ? b.logit_row[i] : (int)i];
        double g = k->has_gate ? 1 / (1 + exp(-(double)gate[i])) : 1,
               f = k->original ? 1 + k->beta * log(1 + (pos + k->first) / k->original) : 1,
               s = f * (k->scale != 0 ? k->scale : 1);
        for (size_t j = i * cols; j < (i + 1) * cols; j++) {
            double d = k->has_y ? y[j] * g : 0;
            want[j] = (float)((x[j] + d) * s);
            bound[j] = (float)(14 * U * (fabs(x[j]) + fabs(d)) * fabs(s) + fabs(y[j]) * 0x1p-124);
            tight[j] = (float)(5 * U * (fabs(x[j]) + fabs(d)) * fabs(s));
        }
    }
    run_add(c, REF, name, &c->ref, 1, k, &b, x, y, gate, ref);
    count_case(c, REF);
    compare(c, REF, name, "output", ref, want, tight, rows, cols);
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        run_add(c, v, name, &c->v[v], 1, k, &b, x, y, gate, first);
        compare(c, v, name, "output", first, ref, bound, rows, cols);
        compare_variants(c, v, name, "output", kept, first, n, cols);
        run_add(c, v, name, &c->v[v], 3, k, &b, x, y, gate, got);
        compare_bits(c, v, name, "3 threads against 1", got, first, n, cols);
        if (k->original || k->rows > 20) continue;
        struct add_case one = *k;
        one.rows = 1;
        struct batch alone = add_batch(&a, &one);
        for (size_t i = 0; i < rows; i++) {
            run_add(c, v, name, &c->v[v], 1, &one, &alone, x + i * cols, y + i * cols, gate + i,
                    got);
            compare_bits(c, v, name, "a row by itself", got, first + i * cols, cols, cols);
        }
    }
    arena_free(&a);
}

void check_add(struct check *c)
{
    static const struct add_case k[] = {
        {ROWS_STEP, 1, 1, 1, 0, 0, 0, 0, 0},        {ROWS_STEP, 5, 37, 1, 0, 0, 0, 0, 0},
        {ROWS_STEP, 17, 1000, 1, 1, 0, 0, 0, 0},    {ROWS_STEP, 3, 64, 1, 1, 0.22f, 0, 0, 0},
        {ROWS_STEP, 33, 256, 1, 0, 0.22f, 0, 0, 0}, {ROWS_STEP, 5, 4100, 0, 0, 1.5f, 0, 0, 0},
        {ROWS_STEP, 20, 96, 0, 0, 0, 0.1f, 16, 0},  {ROWS_STEP, 40, 36, 1, 1, -3, 0.25f, 7, 0},
        {ROWS_STEP, 1, 8192, 0, 0, 0, 0.1f, 8, 0},  {ROWS_LOGITS, 6, 320, 0, 0, 0.125f, 0, 0, 0},
        {ROWS_LOGITS, 9, 50, 1, 1, 2, 0.5f, 3, 0},  {ROWS_STEP, 300, 16, 1, 1, 0, 0, 0, 0},
        {ROWS_STEP, 40, 36, 0, 0, 0, 0.3f, 16, 1},
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) check_add_case(c, &k[i]);
}

/* One form of OP_GLU; alone: without up */
struct glu_case {
    const char *name;
    enum activation activation;
    int alone;
    float limit, alpha;
    struct xielu xielu;
};

static void run_glu(struct check *c, int v, const char *name, const struct variant *on,
                    int n_threads, const struct glu_case *k, const float *gate, const float *up,
                    float *y, size_t n)
{
    struct side s;
    struct arena a = {0};
    side_open(&s, on, n_threads, plain_config(1));
    struct batch b = make_plain_batch(&a, 1, 0);
    struct dbuf g = dbuf_from(&s, gate, n * 4), u = dbuf_from(&s, up, n * 4);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_GLU);
    op->in[0] = op->out[0] = trial_buffer(&t, g.d, ROWS_STEP, n * 4);
    if (!k->alone) op->in[1] = trial_buffer(&t, u.d, ROWS_STEP, n * 4);
    op->as.glu.activation = k->activation;
    op->as.glu.limit = k->limit;
    op->as.glu.alpha = k->alpha;
    op->as.glu.xielu = k->xielu;
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &g, y);
    compare_fences(c, v, name, "output", &s, &g);
    dbuf_free(&s, &g);
    dbuf_free(&s, &u);
    side_close(&s);
    arena_free(&a);
}

/* y = product / (1 + e^-z), with so many roundings. */
struct glu_terms {
    double z, product, roundings;
};

static struct glu_terms glu_terms(const struct glu_case *k, double g, double u)
{
    double factor = k->alone ? 1 : u;
    switch (k->activation) {
    case ACTIVATION_GELU_TANH: {
        double z = sqrt(8 / M_PI) * (g + 0.044715 * g * g * g);
        return (struct glu_terms){z, g * factor, 8 + 5 * fabs(z)};
    }
    case ACTIVATION_SIGMOID: return (struct glu_terms){g, factor, 8};
    case ACTIVATION_RELU2: return (struct glu_terms){INFINITY, (g < 0 ? 0 : g * g) * factor, 3};
    case ACTIVATION_NONE: return (struct glu_terms){INFINITY, g * factor, 2};
    case ACTIVATION_SWIGLU_CLAMPED: {
        double a = fmin(g, k->limit), b = fmax(fmin(u, k->limit), -k->limit), z = k->alpha * a;
        return (struct glu_terms){z, a * (b + 1), 9 + fabs(z)};
    }
    default: return (struct glu_terms){g, g * factor, 8};
    }
}

/* The activation with the size of what is added and so many roundings of it. */
static double expected_glu(const struct glu_case *k, double g, double u, double *size,
                           double *roundings)
{
    const struct xielu *a = &k->xielu;
    if (k->activation != ACTIVATION_XIELU) {
        struct glu_terms t = glu_terms(k, g, u);
        double y = t.product / (1 + exp(-t.z));
        *size = fabs(y) + fabs(t.product) * 0x1p-126 / U; /* saturated */
        *roundings = t.roundings;
        return y;
    }
    double q = expm1(fmin(g, a->eps)) - g,
           y = g > 0 ? g * (a->p * g + a->beta) : q * a->n + a->beta * g;
    /* of e^m - 1 from m = -1/2 on 3 of less than 1, the rest is of q >= 0.1 */
    *size = g > 0 ? y : fabs(q * a->n) + fabs(a->beta * g);
    *roundings = g > 0 ? 4 : 40;
    return y;
}

static void check_activation(struct check *c, const struct glu_case *k)
{
    static const size_t sizes[] = {1, 7, 8, 15, 16, 33, 100, 5632, 16384 + 5, 3 * 16384, 50001};
    static const float edges[] = {0,      -0.0f, 1e-30f, -1e-30f, 86.9f,  -86.9f, 87.1f,
                                  -87.1f, 88,    -88,    88.8f,   -88.8f, 90,     -90,
                                  104,    -104,  1e4f,   -1e4f,   65504,  -65504};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        size_t n = sizes[i];
        snprintf(name, NAME_BYTES, "%zu elements%s", n, k->name);
        struct rng r = rng_for(c->seed, name);
        float *g = arena_get(&a, n * 4), *u = arena_get(&a, n * 4), *bound = arena_get(&a, n * 4),
              *tight = arena_get(&a, n * 4), *want = arena_get(&a, n * 4),
              *ref = arena_get(&a, n * 4), *first = arena_get(&a, n * 4),
              *got = arena_get(&a, n * 4), *kept = arena_get(&a, n * 4);
        for (size_t j = 0; j < n; j++) {
            g[j] = j % 7 == 3 ? edges[(j / 7) % N_EDGES]
                              : rng_normal(&r) * (float)(1 << rng_below(&r, 6));
            u[j] = rng_normal(&r) * (j % 11 == 5 ? 100 : 1);
            double size, roundings, y = expected_glu(k, g[j], u[j], &size, &roundings);
            want[j] = (float)y;
            bound[j] = (float)(roundings * U * size);
            tight[j] = (float)(2 * U * size);
        }
        run_glu(c, REF, name, &c->ref, 1, k, g, u, ref, n);
        count_case(c, REF);
        compare(c, REF, name, "output", ref, want, tight, 1, n);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_glu(c, v, name, &c->v[v], 1, k, g, u, first, n);
            compare(c, v, name, "output", first, ref, bound, 1, n);
            compare_variants(c, v, name, "output", kept, first, n, n);
            run_glu(c, v, name, &c->v[v], 3, k, g, u, got, n);
            compare_bits(c, v, name, "3 threads against 1", got, first, n, n);
            if (n < 200) /* an element's value must not depend on its place: a row's start moves
                            with the batch */
                for (size_t j = 0; j < n; j++) {
                    run_glu(c, v, name, &c->v[v], 1, k, g + j, u + j, got, 1);
                    compare_bits(c, v, name, "elements one by one", got, first + j, 1, 1);
                }
        }
        arena_free(&a);
    }
}

void check_glu(struct check *c)
{
    static const struct glu_case k[] = {
        {.name = "", .activation = ACTIVATION_SILU},
        {.name = ", gelu", .activation = ACTIVATION_GELU_TANH},
        {.name = ", sigmoid", .activation = ACTIVATION_SIGMOID},
        {.name = ", clamped", .activation = ACTIVATION_SWIGLU_CLAMPED, .limit = 7, .alpha = 1.702f},
        {.name = ", silu alone", .activation = ACTIVATION_SILU, .alone = 1},
        {.name = ", gelu alone", .activation = ACTIVATION_GELU_TANH, .alone = 1},
        {.name = ", sigmoid alone", .activation = ACTIVATION_SIGMOID, .alone = 1},
        {.name = ", xielu",
         .activation = ACTIVATION_XIELU,
         .alone = 1,
         .xielu = {0.8f, 1.3f, 0.5f, -0x1.0cp-20f}},
        {.name = ", xielu, eps 0",
         .activation = ACTIVATION_XIELU,
         .alone = 1,
         .xielu = {0.2f, 0.9f, 0.5f, 0}},
        {.name = ", squared relu", .activation = ACTIVATION_RELU2},
        {.name = ", squared relu alone", .activation = ACTIVATION_RELU2, .alone = 1},
        {.name = ", product", .activation = ACTIVATION_NONE},
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) check_activation(c, &k[i]);
}

static void run_softcap(struct check *c, int v, const char *name, const struct variant *on,
                        int n_threads, float cap, const float *x, float *y, size_t n)
{
    struct side s;
    struct arena a = {0};
    side_open(&s, on, n_threads, plain_config(1));
    struct batch b = make_plain_batch(&a, 1, 0);
    struct dbuf d = dbuf_from(&s, x, n * 4);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_SOFTCAP);
    op->in[0] = op->out[0] = trial_buffer(&t, d.d, ROWS_STEP, n * 4);
    op->as.softcap.cap = cap;
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &d, y);
    compare_fences(c, v, name, "output", &s, &d);
    dbuf_free(&s, &d);
    side_close(&s);
    arena_free(&a);
}

void check_softcap(struct check *c)
{
    static const size_t sizes[] = {1, 33, 320, 16384 + 5, 50001};
    static const float caps[] = {30, 0.5f},
                       edges[] = {0, 1e-30f, -1e-6f, 0.3466f, -0.3466f, 10, -10, 1e9f, -1e9f, 87};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        size_t n = sizes[i];
        float cap = caps[i % 2];
        snprintf(name, NAME_BYTES, "%zu elements, cap %g", n, (double)cap);
        struct rng r = rng_for(c->seed, name);
        float *x = arena_get(&a, n * 4), *bound = arena_get(&a, n * 4),
              *tight = arena_get(&a, n * 4), *want = arena_get(&a, n * 4),
              *ref = arena_get(&a, n * 4), *first = arena_get(&a, n * 4),
              *got = arena_get(&a, n * 4), *kept = arena_get(&a, n * 4);
        for (size_t j = 0; j < n; j++) {
            x[j] = j % 7 == 3 ? edges[(j / 7) % N_EDGES] * cap
                              : rng_normal(&r) * (float)(1 << rng_below(&r, 6));
            double y = cap * tanh((double)x[j] / cap);
            want[j] = (float)y;
            bound[j] = (float)(17 * U * fabs(y));
            tight[j] = (float)(2 * U * fabs(y));
        }
        run_softcap(c, REF, name, &c->ref, 1, cap, x, ref, n);
        count_case(c, REF);
        compare(c, REF, name, "output", ref, want, tight, 1, n);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_softcap(c, v, name, &c->v[v], 1, cap, x, first, n);
            compare(c, v, name, "output", first, ref, bound, 1, n);
            compare_variants(c, v, name, "output", kept, first, n, n);
            run_softcap(c, v, name, &c->v[v], 3, cap, x, got, n);
            compare_bits(c, v, name, "3 threads against 1", got, first, n, n);
            for (size_t j = 0; n < 50 && j < n; j++) {
                run_softcap(c, v, name, &c->v[v], 1, cap, x + j, got, 1);
                compare_bits(c, v, name, "elements one by one", got, first + j, 1, 1);
            }
        }
        arena_free(&a);
    }
}

struct sums_case {
    int rows, group, groups;
};

static void run_sums(struct check *c, int v, const char *name, int n_threads,
                     const struct sums_case *k, const float *x, float *y)
{
    struct side s;
    struct arena a = {0};
    size_t out = (size_t)k->groups * 4, in = out * (size_t)k->group;
    side_open(&s, v == REF ? &c->ref : &c->v[v], n_threads, plain_config(k->rows));
    struct batch b = make_plain_batch(&a, k->rows, k->rows / 2);
    struct dbuf dx = dbuf_from(&s, x, (size_t)k->rows * in),
                dy = dbuf_new(&s, (size_t)k->rows * out);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_GROUP_SUMS);
    op->as.sums.group = k->group;
    op->in[0] = trial_buffer(&t, dx.d, ROWS_STEP, in);
    op->out[0] = trial_buffer(&t, dy.d, ROWS_STEP, out);
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &dy, y);
    compare_fences(c, v, name, "output", &s, &dy);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dy);
    side_close(&s);
    arena_free(&a);
}

/* The bits of sums by lanes, which every variant but the reference has, those of GPUs, too. */
static float lanes_sum(const float *x, int group)
{
    float s[16] = {0};
    for (int i = 0; i < group; i++) s[i % 16] += x[i];
    for (int w = 8; w; w /= 2)
        for (int l = 0; l < w; l++) s[l] += s[l + w];
    return s[0];
}

static void compare_sums(struct check *c, const char *name, const struct sums_case *k,
                         const float *x, const float *bits, const float *of_ref)
{
    struct arena a = {0};
    const struct sums_case row = {1, k->group, k->groups};
    size_t width = (size_t)k->groups, all = (size_t)k->rows * width;
    float *got = arena_get(&a, all * 4);
    for (int v = 0; v < c->n; v++) {
        const float *as = strcmp(c->v[v].name, "ref") ? bits : of_ref;
        count_case(c, v);
        for (int threads = 1; threads <= 3; threads += 2) {
            run_sums(c, v, name, threads, k, x, got);
            compare_bits(c, v, name, threads == 1 ? "output" : "3 threads", got, as, all, width);
        }
        run_sums(c, v, name, 1, &row, x, got);
        compare_bits(c, v, name, "a row alone", got, as, width, width);
    }
    arena_free(&a);
}

static void check_sums_case(struct check *c, const struct sums_case *k)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "%d rows, %d groups of %d", k->rows, k->groups, k->group);
    struct rng r = rng_for(c->seed, name);
    size_t width = (size_t)k->groups, all = (size_t)k->rows * width, n = all * (size_t)k->group;
    float *x = arena_get(&a, n * 4), *want = arena_get(&a, all * 4),
          *tight = arena_get(&a, all * 4), *bits = arena_get(&a, all * 4),
          *ref = arena_get(&a, all * 4);
    fill_rows(&r, rng_below(&r, ROW_KINDS), x, k->rows, k->group * k->groups);
    for (size_t at = 0; at < all; at++) {
        const float *g = x + at * (size_t)k->group;
        double sum = 0, magnitude = 0;
        for (int i = 0; i < k->group; i++) sum += (double)g[i], magnitude += fabs((double)g[i]);
        want[at] = (float)sum;
        tight[at] = (float)(2 * U * fabs(sum) + 0x1p-48 * magnitude);
        bits[at] = lanes_sum(g, k->group);
    }
    count_case(c, REF);
    run_sums(c, REF, name, 1, k, x, ref);
    compare(c, REF, name, "output", ref, want, tight, (size_t)k->rows, width);
    compare_sums(c, name, k, x, bits, ref);
    arena_free(&a);
}

/* sums: in the order of op.h to the bit; of the reference in double precision, rounded once. */
void check_sums(struct check *c)
{
    static const struct sums_case k[] = {{1, 32, 8}, {3, 128, 5}, {17, 32, 172},
                                         {2, 16, 1}, {40, 96, 3}, {1, 11008, 1}};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) check_sums_case(c, &k[i]);
}

static void run_gather(struct check *c, int v, const char *name, const struct variant *on,
                       int n_threads, const struct batch *b, const float *x, int dim, float *y)
{
    struct side s;
    side_open(&s, on, n_threads,
              plain_config(b->n_rows > b->n_logits ? b->n_rows : b->n_logits));
    struct dbuf dx = dbuf_from(&s, x, (size_t)b->n_rows * (size_t)dim * 4),
                dy = dbuf_new(&s, (size_t)b->n_logits * (size_t)dim * 4);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_GATHER);
    op->in[0] = trial_buffer(&t, dx.d, ROWS_STEP, (size_t)dim * 4);
    op->out[0] = trial_buffer(&t, dy.d, ROWS_LOGITS, (size_t)dim * 4);
    trial_run(&t, &s, b, 0);
    dbuf_get(&s, &dy, y);
    compare_fences(c, v, name, "output", &s, &dy);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dy);
    side_close(&s);
}

/* gather copies: exact. */
void check_gather(struct check *c)
{
    static const int rows[] = {1, 5, 40, 300}, dims[] = {1, 36, 257};
    for (int i = 0; i < 12; i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        int n_rows = rows[i / 3], dim = dims[i % 3], n = i % 2 ? n_rows : (n_rows + 1) / 2;
        snprintf(name, NAME_BYTES, "%d of %d rows of %d", n, n_rows, dim);
        struct rng r = rng_for(c->seed, name);
        struct batch b = make_plain_batch(&a, n_rows, n_rows / 2);
        b.n_logits = n;
        b.logit_row = arena_get(&a, (size_t)n * sizeof *b.logit_row);
        size_t d = (size_t)dim, size = (size_t)n_rows * d * 4;
        float *x = arena_get(&a, size), *want = arena_get(&a, (size_t)n * d * 4),
              *got = arena_get(&a, (size_t)n * d * 4), *zero = arena_get(&a, (size_t)n * d * 4);
        fill_rows(&r, 0, x, n_rows, dim);
        for (int t = 0; t < n; t++) {
            b.logit_row[t] = t == 0 ? n_rows - 1
                                    : rng_below(&r, n_rows); /* any order, also twice */
            memcpy(want + (size_t)t * d, x + (size_t)b.logit_row[t] * d, d * 4);
        }
        run_gather(c, REF, name, &c->ref, 1, &b, x, dim, got);
        count_case(c, REF);
        compare(c, REF, name, "output", got, want, zero, (size_t)n, d);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_gather(c, v, name, &c->v[v], 3, &b, x, dim, got);
            compare(c, v, name, "output", got, want, zero, (size_t)n, d);
        }
        arena_free(&a);
    }
}
