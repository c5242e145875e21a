/* checkop_rope.c: rope_store: queries directly, keys and values through attend, because their
 * layout is private.
 *
 * q = a cos - b sin (and b cos + a sin). cos and sin are rounded once, scaled by rope_scale, and
 * the angle is the fp32 product of position and frequency on every side. A device may take sin and
 * cos good to 2 ulp: 4 roundings; then the scale, the product, the sum, the reference's rounding:
 * 8. With q_norm, a and b carry the error of norm (checkop_vector.c), N = (head_dim/16 + 6)/2 + 7,
 * and its two products.
 *     |q - ref| <= (8 + N) * 2^-24 * (|a cos| + |b sin|)
 * Keys: position p - 1 gets the key 0 and the value 0, position p the key k under test and the
 * value 1. With a window of two, a query that is one-hot at dimension d gives out = 1 / (1 +
 * e^-(k_d * scale)), whose slope is at most 1/4:
 *     |out - expected| <= (bound of q for k + rounding of the storage) / 4 + 2^-21
 * Where a kind of keys asks for it queries and keys are transformed; a transformed element is off
 * by the sum of the bounds of those that it is made of, and by its own roundings; scores then have
 * the scale 1 / sqrt(block).
 * Without k and v the queries have the same bits and the pages stay as they are.
 * Values: a window of one sees the own position only: out = v, as stored; one reciprocal and one
 * product: 2^-22 |v|. */
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct rope_case {
    int n_heads, n_kv_heads, head_dim;
    enum kv_type kv;
    int norm;
    float base, rope_scale;
    int pos[4]; /* odd positions, then -1: each is a sequence of two rows, pos-1 and pos */
};

static const struct rope_case cases[] = {
    {4, 2, 64, KV_F16, 0, 1e4f, 1, {1, 17, 255, -1}},
    {4, 2, 64, KV_F32, 0, 1e4f, 1, {1, 15, 33, 1027}},
    {8, 8, 32, KV_F32, 1, 1e6f, 1, {1, 31, 257, -1}},
    {7, 1, 36, KV_F16, 1, 1e4f, 1, {3, 511, -1}},
    {14, 2, 80, KV_F32, 0, 5e5f, 1.1875f, {9, 4001, -1}},
    {6, 3, 96, KV_F16, 1, 1e6f, 0.875f, {19, 2047, -1}},
    {5, 1, 128, KV_F32, 1, 1e4f, 1, {1, 32767, -1}},
    {2, 1, 512, KV_F16, 1, 1e6f, 1, {17, 5000, -1}},
    {4, 2, 256, KV_F16, 1, 1e7f, 1, {33, -1}},
    {2, 1, 2, KV_F32, 0, 1e4f, 1, {5, -1}},
    {8, 2, 64, KV_INT8, 0, 1e4f, 1, {1, 17, 255, -1}},
    {12, 4, 16, KV_INT8, 0, 1e4f, 1, {1, 17, 255, -1}},
    {7, 1, 36, KV_INT8, 1, 1e4f, 1, {3, 511, -1}},
    {4, 2, 128, KV_INT8, 1, 1e6f, 1, {33, 5000, -1}},
    {2, 1, 512, KV_INT8, 0, 1e6f, 1, {17, -1}},
};

struct rope_data {
    const struct rope_case *k;
    struct be_config config;
    struct page_map pages;
    struct batch batch;
    float *q, *key, *value, *q_norm, *k_norm, *inv_freq;
    size_t q_row, kv_row;
    float eps;
};

static struct rope_data make_data(struct arena *a, struct rng *r, const struct rope_case *k)
{
    struct rope_data d = {.k = k,
                          .q_row = (size_t)(k->n_heads * k->head_dim),
                          .kv_row = (size_t)(k->n_kv_heads * k->head_dim),
                          .eps = 1e-6f};
    struct span span[4];
    int n_ctx[4], n = 0;
    for (; n < 4 && k->pos[n] > 0; n++) {
        span[n] = (struct span){n, k->pos[n] - 1, 2};
        n_ctx[n] = k->pos[n] + 1;
    }
    d.pages = make_pages(a, r, n_ctx, n);
    d.batch = make_batch(a, &d.pages, span, n, 0);
    size_t rows = (size_t)d.batch.n_rows, hd = (size_t)k->head_dim;
    d.q = arena_get(a, rows * d.q_row * 4);
    d.key = arena_get(a, rows * d.kv_row * 4);
    d.value = arena_get(a, rows * d.kv_row * 4);
    for (size_t i = 0; i < rows; i++) {
        fill_row(r, i % 4 == 2 ? ROW_LARGE : ROW_RANDOM, 0, d.q + i * d.q_row, (int)d.q_row);
        if (i % 2) fill_row(r, ROW_RANDOM, 0, d.key + i * d.kv_row, (int)d.kv_row);
    }
    for (size_t i = 0; i < rows * d.kv_row; i++) d.value[i] = rng_normal(r);
    if (k->norm) {
        d.q_norm = arena_get(a, hd * 4);
        d.k_norm = arena_get(a, hd * 4);
        for (size_t i = 0; i < hd; i++)
            d.q_norm[i] = 1 + rng_normal(r) / 4, d.k_norm[i] = 1 + rng_normal(r) / 4;
    }
    float *inv_freq = arena_get(a, hd / 2 * 4);
    for (size_t i = 0; i < hd / 2; i++)
        inv_freq[i] = (float)pow(k->base, -2.0 * (double)i / (double)hd);
    if (k->rope_scale != 1) inv_freq[hd / 2 - 1] = 0; /* a pair that does not rotate */
    d.inv_freq = inv_freq;
    d.config = (struct be_config){.act = ACT_F32,
                                  .kv = k->kv,
                                  .max_rows = d.batch.n_rows,
                                  .max_seqs = d.batch.n_rows,
                                  .max_pages = d.batch.table_stride};
    return d;
}

/* x[rows][n_heads * head_dim] rotated, and the bound of fp32 sides */
static void rotate(const struct rope_data *d, const float *x, const float *norm, int n_heads,
                   float *y, float *bound)
{
    int hd = d->k->head_dim, half = hd / 2;
    double roundings = 8 + (norm ? ((double)hd / 16 + 6) / 2 + 7 : 0);
    for (int row = 0; row < d->batch.n_rows; row++)
        for (int h = 0; h < n_heads; h++, x += hd, y += hd, bound += hd) {
            double squares = 0;
            for (int i = 0; i < hd; i++) squares += (double)x[i] * x[i];
            double f = norm ? 1 / sqrt(squares / hd + (double)d->eps) : 1;
            for (int i = 0; i < half; i++) {
                float angle = (float)d->batch.pos[row] * d->inv_freq[i];
                double scale = d->inv_freq[i] != 0 ? d->k->rope_scale : 1;
                double c = cos(angle) * scale, s = sin(angle) * scale;
                double a = x[i] * f * (norm ? norm[i] : 1),
                       b = x[i + half] * f * (norm ? norm[i + half] : 1);
                y[i] = (float)(a * c - b * s);
                y[i + half] = (float)(b * c + a * s);
                bound[i] = (float)(roundings * U * (fabs(a * c) + fabs(b * s)));
                bound[i + half] = (float)(roundings * U * (fabs(b * c) + fabs(a * s)));
            }
        }
}

/* The transform of core/step/kv_format.h of x[rows][n_heads * head_dim] and its bound, in double:
 * sums of as many elements as a block has. Its roundings add log2(block) * 2^-24 * sum |x|, which
 * any side has: `own`. */
static void transform(const struct rope_data *d, int n_heads, int is_query, float *x, float *bound,
                      float *own)
{
    int hd = d->k->head_dim, block = 1, stages = 0;
    double y[512], off[512], sum[512];
    for (; hd % (2 * block) == 0; stages++) block *= 2;
    for (int h = 0; h < d->batch.n_rows * n_heads; h++, x += hd, bound += hd, own += hd) {
        double factor = is_query ? 1.0 / block : 1;
        for (int i = 0; i < hd; i++) {
            y[i] = off[i] = sum[i] = 0;
            for (int j = i / block * block; j < (i / block + 1) * block; j++) {
                y[i] += __builtin_parity((unsigned)(i % block & j % block)) ? -x[j] : x[j];
                off[i] += bound[j];
                sum[i] += fabs(x[j]);
            }
        }
        for (int i = 0; i < hd; i++) {
            x[i] = (float)(y[i] * factor);
            bound[i] = (float)(off[i] * factor);
            own[i] = (float)((stages + 1) * U * sum[i] * factor);
        }
    }
}

/* The expected results of one case. */
struct expected {
    float *q, *q_bound; /* [rows][q_row] */
    float *k, *k_bound; /* [rows][kv_row] */
    float *q_own, *k_own; /* part of the bounds that the reference has, too */
};

static struct heads heads_of(const struct rope_data *d)
{
    return (struct heads){d->k->n_heads, d->k->n_kv_heads, d->k->head_dim, 0, 0};
}

/* Of the scores: transformed keys are larger. */
static float score_scale(const struct rope_data *d)
{
    return kv_formats[d->k->kv].rotates ? 1 / sqrtf((float)kv_rotation(d->k->head_dim)) : 1;
}

static void attend(struct side *s, const struct rope_data *d, struct dbuf *q, struct dbuf *kv,
                   struct dbuf *out, int window)
{
    struct trial t = {0};
    int pages = trial_kv(&t, kv->d, d->k->n_kv_heads, d->k->head_dim);
    struct op *op = trial_op(&t, OP_ATTEND);
    op->in[0] = trial_buffer(&t, q->d, ROWS_STEP, d->q_row * 4);
    op->out[0] = trial_buffer(&t, out->d, ROWS_STEP, d->q_row * 4);
    op->as.attend.heads = heads_of(d);
    op->as.attend.kv = pages;
    op->as.attend.window = window;
    op->as.attend.scale = score_scale(d);
    trial_run(&t, s, &d->batch, 0);
}

/* The device's copies of a case. */
struct rope_side {
    struct dbuf q, k, v, q_norm, k_norm, inv_freq, angles, kv;
};

/* v NULL: k and v are absent; ahead: see core/step/op.h */
static void rope_store(struct side *s, const struct rope_data *d, const struct rope_side *x,
                       const struct dbuf *q, const struct dbuf *v, int ahead)
{
    struct trial t = {0};
    int half = d->k->head_dim / 2, hd = d->k->head_dim;
    struct op *cos = trial_angles(&t, trial_vector(&t, x->inv_freq.d, half), half,
                                  d->k->rope_scale, x->angles.d,
                                  x->angles.d + x->angles.bytes / 2);
    struct op *op = trial_op(&t, OP_ROPE_STORE);
    op->in[0] = op->out[0] = trial_buffer(&t, q->d, ROWS_STEP, d->q_row * 4);
    if (v) {
        op->in[1] = trial_buffer(&t, x->k.d, ROWS_STEP, d->kv_row * 4);
        op->in[2] = trial_buffer(&t, v->d, ROWS_STEP, d->kv_row * 4);
    }
    op->in[3] = cos->out[0];
    op->in[4] = cos->out[1];
    if (d->k->norm) {
        op->w[0] = trial_vector(&t, x->q_norm.d, hd);
        if (v) op->w[1] = trial_vector(&t, x->k_norm.d, hd);
    }
    op->as.rope.heads = heads_of(d);
    op->as.rope.kv = trial_kv(&t, x->kv.d, d->k->n_kv_heads, d->k->head_dim);
    op->as.rope.eps = d->eps;
    op->as.rope.ahead = ahead;
    trial_run(&t, s, &d->batch, 0);
}

/* Half a step of the integers of the head that x [head_dim] with the bound `off` (NULL: 0) is. */
static double half_step(const float *x, const float *off, int head_dim)
{
    double largest = 0;
    for (int i = 0; i < head_dim; i++) largest = fmax(largest, fabs(x[i]) + (off ? off[i] : 0));
    return largest / 127 * (0.5 + 0x1p-20);
}

/* What the storage adds to the error of element i of the heads x. */
static double storage(const struct rope_data *d, const float *x, const float *off, size_t i)
{
    size_t hd = (size_t)d->k->head_dim, head = i / hd * hd;
    if (d->k->kv == KV_INT8) return half_step(x + head, off ? off + head : NULL, d->k->head_dim);
    return d->k->kv == KV_F16 ? 0x1p-11 * fabs(x[i]) + 0x1p-25 : 0;
}

/* x of the head that starts at `head` as stored: exactly what its definition says. */
static float stored(const struct rope_data *d, const float *head, size_t i)
{
    if (d->k->kv != KV_INT8)
        return d->k->kv == KV_F16 ? f32_from_f16(f16_from_f32(head[i])) : head[i];
    float largest = 0;
    for (int j = 0; j < d->k->head_dim; j++) largest = fmaxf(largest, fabsf(head[j]));
    return largest / 127 * rintf(head[i] * (127 / largest));
}

/* Values: what the own position gives. */
static void check_values(struct check *c, int v, const char *name, struct side *s, struct arena *a,
                         const struct rope_data *d, struct dbuf *q, struct dbuf *kv)
{
    size_t rows = (size_t)d->batch.n_rows, n = rows * d->q_row, hd = (size_t)d->k->head_dim;
    int group = d->k->n_heads / d->k->n_kv_heads;
    float *got = arena_get(a, n * 4), *want = arena_get(a, n * 4), *bound = arena_get(a, n * 4);
    struct dbuf out = dbuf_new(s, n * 4);
    attend(s, d, q, kv, &out, 1);
    dbuf_get(s, &out, got);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < d->q_row; i++) {
            const float *head = d->value + row * d->kv_row + i / hd / (size_t)group * hd;
            want[row * d->q_row + i] = stored(d, head, i % hd);
            bound[row * d->q_row + i] = 0x1p-22f * fabsf(want[row * d->q_row + i]);
        }
    compare(c, v, name, "stored value", got, want, bound, rows, d->q_row);
    dbuf_free(s, &out);
}

/* Keys: dimension by dimension, over the values 0 and 1. */
static void check_keys(struct check *c, int v, const char *name, struct side *s, struct arena *a,
                       const struct rope_data *d, struct dbuf *kv, const struct expected *x)
{
    size_t rows = (size_t)d->batch.n_rows, n = rows * d->q_row, hd = (size_t)d->k->head_dim;
    int group = d->k->n_heads / d->k->n_kv_heads;
    float *probe = arena_get(a, n * 4), *got = arena_get(a, n * 4);
    float *all = arena_get(a, rows / 2 * d->q_row * 4),
          *want = arena_get(a, rows / 2 * d->q_row * 4),
          *bound = arena_get(a, rows / 2 * d->q_row * 4);
    for (size_t dim = 0; dim < hd; dim++) {
        for (size_t i = 0; i < n; i++) probe[i] = i % hd == dim;
        struct dbuf q = dbuf_from(s, probe, n * 4), out = dbuf_new(s, n * 4);
        attend(s, d, &q, kv, &out, 2);
        dbuf_get(s, &out, got);
        for (size_t row = 1; row < rows; row += 2)
            for (size_t h = 0; h < (size_t)d->k->n_heads; h++) {
                size_t at = row / 2 * d->q_row + h * hd + dim,
                       from = row * d->kv_row + h / (size_t)group * hd + dim;
                double k = x->k[from], off = x->k_bound[from] + storage(d, x->k, x->k_bound, from);
                all[at] = got[row * d->q_row + h * hd + dim];
                want[at] = (float)(1 / (1 + exp(-k * score_scale(d))));
                bound[at] = (float)(off * score_scale(d) / 4 + 0x1p-21);
            }
        dbuf_free(s, &q);
        dbuf_free(s, &out);
    }
    compare(c, v, name, "sigmoid of stored key", all, want, bound, rows / 2, d->q_row);
}

/* The same queries without keys and values. */
static void check_alone(struct check *c, int v, const char *name, struct side *s, struct arena *a,
                        const struct rope_data *d, const struct rope_side *x, const float *q_after)
{
    size_t n = (size_t)d->batch.n_rows * d->q_row;
    float *got = arena_get(a, n * 4);
    char *pages = arena_get(a, x->kv.bytes), *pages_after = arena_get(a, x->kv.bytes);
    struct dbuf q = dbuf_from(s, d->q, n * 4);
    dbuf_get(s, &x->kv, pages);
    rope_store(s, d, x, &q, NULL, 0);
    dbuf_get(s, &q, got);
    dbuf_get(s, &x->kv, pages_after);
    compare_bits(c, v, name, "q without k and v", got, q_after, n, d->q_row);
    if (memcmp(pages, pages_after, x->kv.bytes)) fail(c, v, name, "pages written without k and v");
    dbuf_free(s, &q);
}

/* The same queries rotated alone: what kinds of keys do with them is done here. */
static void check_ahead(struct check *c, int v, const char *name, struct side *s,
                        const struct rope_data *d, const struct rope_side *x,
                        const struct expected *want)
{
    size_t rows = (size_t)d->batch.n_rows, n = rows * d->q_row, hd = (size_t)d->k->head_dim;
    struct arena a = {0};
    float *got = arena_get(&a, n * 4);
    struct dbuf q = dbuf_from(s, d->q, n * 4);
    rope_store(s, d, x, &q, NULL, 1);
    dbuf_get(s, &q, got);
    for (size_t i = 0; kv_formats[d->k->kv].rotates && i < n; i += hd)
        kv_rotate(got + i, (int)hd, 1.0f / (float)kv_rotation((int)hd));
    compare(c, v, name, "q rotated ahead", got, want->q, want->q_bound, rows, d->q_row);
    dbuf_free(s, &q);
    arena_free(&a);
}

/* q and key out of one step; then the probes. */
static void run(struct check *c, int v, const char *name, const struct variant *on, int n_threads,
                const struct rope_data *d, const struct expected *x, float *q_after)
{
    struct side s;
    struct arena a = {0};
    size_t rows = (size_t)d->batch.n_rows, hd = (size_t)d->k->head_dim, kv_n = rows * d->kv_row;
    side_open(&s, on, n_threads, d->config);
    float *ones = arena_get(&a, kv_n * 4);
    for (size_t i = 0; i < kv_n; i++) ones[i] = (float)(i / d->kv_row % 2);
    struct rope_side t = {
        .q = dbuf_from(&s, d->q, rows * d->q_row * 4),
        .k = dbuf_from(&s, d->key, kv_n * 4),
        .v = dbuf_from(&s, d->value, kv_n * 4),
        .q_norm = dbuf_from(&s, d->k->norm ? d->q_norm : d->q, hd * 4),
        .k_norm = dbuf_from(&s, d->k->norm ? d->k_norm : d->q, hd * 4),
        .inv_freq = dbuf_from(&s, d->inv_freq, hd / 2 * 4),
        .angles = dbuf_new(&s, rows * hd * 4),
    };
    struct dbuf q2 = dbuf_from(&s, d->q, rows * d->q_row * 4), one = dbuf_from(&s, ones, kv_n * 4);
    size_t page_bytes = s.ops->kv_page_bytes(
               d->k->kv, &(struct kv_cache){d->k->n_kv_heads, d->k->head_dim, 0}),
           pages = (size_t)d->pages.n_pages * page_bytes;
    t.kv = dbuf_from(&s, arena_get(&a, pages), pages);
    rope_store(&s, d, &t, &t.q, &t.v, 0);
    dbuf_get(&s, &t.q, q_after);
    compare_fences(c, v, name, "q", &s, &t.q);
    compare_fences(c, v, name, "pages", &s, &t.kv);
    if (x) {
        check_values(c, v, name, &s, &a, d, &t.q, &t.kv);
        rope_store(&s, d, &t, &q2, &one, 0);
        check_keys(c, v, name, &s, &a, d, &t.kv, x);
        check_alone(c, v, name, &s, &a, d, &t, q_after);
        check_ahead(c, v, name, &s, d, &t, x);
    }
    struct dbuf *all[] = {&t.q,      &t.k,  &t.v, &t.q_norm, &t.k_norm, &t.inv_freq,
                          &t.angles, &t.kv, &q2,  &one};
    for (int i = 0; i < 10; i++) dbuf_free(&s, all[i]);
    side_close(&s);
    arena_free(&a);
}

static void check_case(struct check *c, const struct rope_case *k)
{
    if (is_caught(c) || !(c->v[0].ops->kv_types >> k->kv & 1)) return;
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES,
             "%d/%d heads of %d, kv %s, norm %d, base %g, scale %g, positions %d %d ..", k->n_heads,
             k->n_kv_heads, k->head_dim, kv_formats[k->kv].name, k->norm, (double)k->base,
             (double)k->rope_scale, k->pos[0], k->pos[1]);
    struct rng r = rng_for(c->seed, name);
    struct rope_data d = make_data(&a, &r, k);
    size_t rows = (size_t)d.batch.n_rows, n = rows * d.q_row;
    struct expected x = {arena_get(&a, n * 4),
                         arena_get(&a, n * 4),
                         arena_get(&a, rows * d.kv_row * 4),
                         arena_get(&a, rows * d.kv_row * 4),
                         arena_get(&a, n * 4),
                         arena_get(&a, rows * d.kv_row * 4)};
    float *ref = arena_get(&a, n * 4), *first = arena_get(&a, n * 4), *got = arena_get(&a, n * 4),
          *kept = arena_get(&a, n * 4), *tight = arena_get(&a, n * 4);
    rotate(&d, d.q, d.q_norm, k->n_heads, x.q, x.q_bound);
    rotate(&d, d.key, d.k_norm, k->n_kv_heads, x.k, x.k_bound);
    if (kv_formats[k->kv].rotates) {
        transform(&d, k->n_heads, 1, x.q, x.q_bound, x.q_own);
        transform(&d, k->n_kv_heads, 0, x.k, x.k_bound, x.k_own);
    }
    for (size_t i = 0; i < n; i++) {
        tight[i] = x.q_bound[i] * (k->norm ? 0.3f : 0.5f) + /* cos, the scale, the sum: 4 */
                   x.q_own[i];                              /* roundings */
        x.q_bound[i] += 2 * x.q_own[i];
    }
    for (size_t i = 0; i < rows * d.kv_row; i++) x.k_bound[i] += 2 * x.k_own[i];
    run(c, REF, name, &c->ref, 2, &d, &x, ref);
    count_case(c, REF);
    compare(c, REF, name, "q against the harness", ref, x.q, tight, rows, d.q_row);
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        run(c, v, name, &c->v[v], 1, &d, &x, first);
        compare(c, v, name, "q", first, ref, x.q_bound, rows, d.q_row);
        compare_variants(c, v, name, "q", kept, first, n, d.q_row);
        run(c, v, name, &c->v[v], 3, &d, NULL, got);
        compare_bits(c, v, name, "3 threads against 1", got, first, n, d.q_row);
    }
    arena_free(&a);
}

void check_rope(struct check *c)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!c->quick || i < 3 || i == 10 || i == 11) check_case(c, &cases[i]);
}
