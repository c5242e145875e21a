/* checkop_attend.c: attend over paged keys and values, several sequences in one batch.
 *
 * inv_freq is 0 here, so that rope_store stores the keys as given (times cos 0 = 1) and both sides
 * hold the same ones; checkop_rope.c is about the rotation. With A = sum_p p_p |v_p| (p: the
 * probabilities) and
 *     d = (head_dim + 4) * 2^-24 * max_p sum_i |q_i k_i| * scale,
 * the error of a score: head_dim products and additions, the scale, the subtraction of the maximum,
 * the reference's:
 *     |y - ref| <= (2^-14 + 2 (e^d - 1)) A
 * Scores off by d change each probability by e^d in the numerator and e^d in the sum. 2^-14 = 1024
 * roundings is for the exponentials, the sums over positions (256 of a chunk, then 4 per chunk
 * merged) and the quotient. A cap c on the scores does not amplify d, and its tanh, quotient and
 * product add 20 roundings of at most c (checkop_vector.c) to it.
 * A sink is one more term of the sum, which the 1024 roundings cover.
 * Integers: queries and keys are rotated where the kind says so, the same bits on every side, and
 * the bound is of what comes of it; both sides hold the same ones. In integer attention the query
 * is rounded alike on both
 * sides and sums are exact, but the weights w = p * scale of each chunk are rounded to steps of
 * their largest over `top`; the reference does not round them:
 *     + sum over chunks of (max_p w_p / top / 2) * sum over their positions of |v_p| / scale_p
 * Integers with f32 and f16 on a GPU: matrix instructions take w as two halves with steps of 2^-38
 * of the largest, which shows where v is 0 at all positions that count:
 *     + 2^-37 max |v| for each position
 * With fp16 activations a backend may round probabilities to halves (of
 * 11 bits), as it stores values: another 2^-11 A. Over integers a GPU may round queries and weights
 * to those of i16: the steps of the weights as above, and half a step of the query times sum |k_i|
 * * scale in d.
 * Key biases (op.h): the harness adds their term of the same tables, whose products count as those
 * of keys do; undoing the rotation of the query adds head_dim times the largest element of the query
 * to each of these.
 * With query_halves 1 the query of a prompt row is rounded to halves, and so is the harness's,
 * which stands in for ref, by the same rule: the bound is unchanged, and over integers without
 * half a step of the query. */
#include "engine/backends.h"
#include "core/step/kv_open.h"
#include "tests/checkop/checkop.h"
#include "tests/checkop/checkop_attend_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* pages hold what others left there: large finite numbers in fp16 and fp32, NaN as scales */
enum { GARBAGE = 0x4b, GARBAGE_SCALES = 0xff };

enum { BIAS_CHUNKS = 5 }; /* cases have up to 1,280 positions */

/* Everything of one case on the host. Positions are numbered through all sequences: start[seq] +
 * pos. */
struct attend_data {
    const struct attend_case *k;
    struct be_config config;
    struct page_map pages;
    struct batch batch;
    int start[MAX_SEQS + 1];
    float *key, *value;              /* [positions][n_kv_heads * head_dim], as given */
    double *k_stored, *v_stored;     /* the same as stored */
    double *k_own, *v_own;           /* as the rows of the same page read them */
    float *k_scale, *v_scale;        /* [positions][n_kv_heads] of integers */
    float *q, *q_after;              /* [batch rows][n_heads * head_dim], as given, as attended */
    float *q_rounded;                /* the same as multiplied */
    int q_top, w_top;                /* largest integers of queries, of weights; 0: fp32 */
    int halves;                      /* weights may be two halves */
    int query_halves;                /* those of prompt rows: 1, 2 */
    int query_step_top;              /* queries may be rounded to integers up to this; 0: not */
    float scale, softcap, *inv_freq; /* [head_dim/2] zeros */
    float *sinks;                    /* [n_heads] or NULL */
    int bias_pairs;
    float *bias, *turns; /* OP_ATTEND's w1 and w2 [BIAS_CHUNKS]; NULL: none */
    size_t q_row, kv_row;
};

/* Rounds x [n] to integers of at most `top`, as docs/numerics.md says, into y; returns the scale.
 */
static float round_group(const float *x, int n, int top, double *y)
{
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    float scale = largest / (float)top, factor = largest > 0x1p-100f ? (float)top / largest : 0;
    for (int i = 0; i < n; i++) y[i] = (double)scale * rintf(x[i] * factor);
    return scale;
}

/* The transform of core/step/kv_format.h of one head, in its order: sums 1, 2, 4, .. apart. */
static void rotate(const float *x, int n, float factor, float *y)
{
    int block = 1;
    float z[512];
    while (n % (2 * block) == 0) block *= 2;
    memcpy(y, x, (size_t)n * sizeof *y);
    for (int bit = 1; bit < block; bit *= 2) {
        for (int i = 0; i < n; i++) z[i] = i & bit ? y[i ^ bit] - y[i] : y[i] + y[i ^ bit];
        memcpy(y, z, (size_t)n * sizeof *y);
    }
    for (int i = 0; i < n; i++) y[i] *= factor == 0 ? 1 / (float)block : factor;
}

/* KV_INT4, as docs/numerics.md says: x, one element of the 16 positions of a page, each a scale
 * times an integer of 8 bits; they are row elements apart, their scales n_heads. */
static void round_channel(double *x, size_t row, const float *scale, size_t n_heads)
{
    double code[KV_PAGE], least = 127, most = -127;
    for (size_t i = 0; i < KV_PAGE; i++) {
        code[i] = scale[i * n_heads] > 0 ? rint(x[i * row] / scale[i * n_heads]) : 0;
        least = fmin(least, code[i]);
        most = fmax(most, code[i]);
    }
    double step = fmax(1, ceil((most - least) / 15)), half = floor(step / 2),
           lo = fmin(least, 127 - step * floor((most - least + half) / step));
    for (size_t i = 0; i < KV_PAGE; i++)
        x[i * row] = (double)scale[i * n_heads] * (lo + step * floor((code[i] - lo + half) / step));
}

/* Full pages as later ones read them. */
static void round_pages(struct arena *a, struct attend_data *d)
{
    size_t n = (size_t)d->start[d->k->n_seqs] * d->kv_row, heads = (size_t)d->k->n_kv_heads;
    d->k_own = memcpy(arena_get(a, n * sizeof(double)), d->k_stored, n * sizeof(double));
    d->v_own = memcpy(arena_get(a, n * sizeof(double)), d->v_stored, n * sizeof(double));
    for (int s = 0; s < d->k->n_seqs; s++)
        for (int at = d->start[s]; at + KV_PAGE <= d->start[s + 1]; at += KV_PAGE)
            for (size_t i = 0; i < d->kv_row; i++) {
                size_t x = (size_t)at * d->kv_row + i,
                       head = (size_t)at * heads + i / (size_t)d->k->head_dim;
                round_channel(d->k_stored + x, d->kv_row, d->k_scale + head, heads);
                round_channel(d->v_stored + x, d->kv_row, d->v_scale + head, heads);
            }
}

static void store(struct arena *a, struct attend_data *d)
{
    size_t queries = (size_t)d->batch.n_rows * d->q_row;
    int rotates = kv_formats[d->k->kv].rotates;
    float *key = arena_get(a, (size_t)d->k->head_dim * 4);
    d->q_after = arena_get(a, queries * 4);
    memcpy(d->q_after, d->q, queries * 4);
    for (size_t i = 0; rotates && i < queries; i += (size_t)d->k->head_dim)
        rotate(d->q + i, d->k->head_dim, 0, d->q_after + i);
    size_t n = (size_t)d->start[d->k->n_seqs] * d->kv_row, hd = (size_t)d->k->head_dim;
    d->k_stored = arena_get(a, n * sizeof(double));
    d->v_stored = arena_get(a, n * sizeof(double));
    d->k_scale = arena_get(a, n / hd * sizeof(float));
    d->v_scale = arena_get(a, n / hd * sizeof(float));
    for (size_t i = 0; i < n; i += hd)
        if (kv_is_integer(d->k->kv)) {
            if (rotates) rotate(d->key + i, (int)hd, 1, key);
            d->k_scale[i / hd] = round_group(rotates ? key : d->key + i, (int)hd, 127,
                                             d->k_stored + i);
            d->v_scale[i / hd] = round_group(d->value + i, (int)hd, 127, d->v_stored + i);
        }
    for (size_t i = 0; i < n && !kv_is_integer(d->k->kv); i++) {
        int f16 = d->k->kv == KV_F16;
        d->k_stored[i] = f16 ? f32_from_f16(f16_from_f32(d->key[i])) : d->key[i];
        d->v_stored[i] = f16 ? f32_from_f16(f16_from_f32(d->value[i])) : d->value[i];
    }
    d->k_own = d->k_stored, d->v_own = d->v_stored;
    if (kv_has_open(d->k->kv)) round_pages(a, d);
}

/* A query of n elements: the power of two that brings the largest into [2^14, 2^15), then halves.
 */
static void round_query(const float *q, int n, float *y)
{
    float largest = 0;
    int e;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(q[i]));
    frexpf(largest, &e);
    for (int i = 0; i < n; i++)
        y[i] = largest > 0 ? ldexpf(f32_from_f16(f16_from_f32(ldexpf(q[i], 15 - e))), e - 15) : 0;
}

static void round_queries(struct arena *a, struct attend_data *d)
{
    size_t n = (size_t)d->batch.n_rows * d->q_row, hd = (size_t)d->k->head_dim;
    d->q_rounded = memcpy(arena_get(a, n * sizeof(float)), d->q_after, n * sizeof(float));
    if (d->query_halves != 1) return;
    for (size_t i = (size_t)d->k->n_decode * d->q_row; i < n; i += hd)
        round_query(d->q_after + i, (int)hd, d->q_rounded + i);
}

static struct attend_data make_data(struct arena *a, struct rng *r, const struct attend_case *k,
                                    float faint, enum act act, int query_halves, int on_gpu)
{
    struct attend_data d = {.k = k,
                            .q_row = (size_t)(k->n_heads * k->head_dim),
                            .kv_row = (size_t)(k->n_kv_heads * k->head_dim),
                            .scale = 1 / sqrtf((float)k->head_dim)};
    int n_ctx[MAX_SEQS], past = 0;
    for (int i = 0; i < k->n_seqs; i++) {
        n_ctx[i] = k->span[i].pos0 + k->span[i].rows;
        d.start[i + 1] = d.start[i] + n_ctx[i];
        past += k->span[i].pos0;
    }
    d.pages = make_pages(a, r, n_ctx, k->n_seqs);
    d.batch = make_batch(a, &d.pages, k->span, k->n_seqs, k->n_decode);
    size_t n = (size_t)d.start[k->n_seqs] * d.kv_row;
    d.key = arena_get(a, n * 4);
    d.value = arena_get(a, n * 4);
    for (size_t i = 0; i < n; i++)
        d.key[i] = rng_normal(r), d.value[i] = rng_normal(r) * (i % 97 == 5 ? 30 : 1);
    for (size_t i = 0; i < n && faint > 0; i++)
        if (i / d.kv_row % 3 == 1) d.value[i] *= faint;
    d.q = arena_get(a, (size_t)d.batch.n_rows * d.q_row * 4);
    for (int i = 0; i < d.batch.n_rows; i++) {
        float *q = d.q + (size_t)i * d.q_row;
        for (size_t j = 0; j < d.q_row; j++) q[j] = rng_normal(r) * k->gain;
        if (i % 5 == 4) memset(q, 0, d.q_row * 4); /* all positions alike: the mean of the values */
    }
    d.config = (struct be_config){.act = act, .kv = k->kv, .own = gpu_own(query_halves)};
    d.query_halves = query_halves;
    if (kv_is_integer(k->kv)) {
        d.q_top = act_formats[act].query_top, d.w_top = act_formats[act].weight_top;
        d.halves = on_gpu && !d.w_top;
        if (on_gpu && act == ACT_F16)
            d.query_step_top = act_formats[ACT_I16].query_top,
            d.w_top = act_formats[ACT_I16].weight_top;
    }
    store(a, &d);
    round_queries(a, &d);
    d.inv_freq = arena_get(a, (size_t)k->head_dim / 2 * 4);
    d.config.max_rows = d.config.max_seqs = past > d.batch.n_rows ? past : d.batch.n_rows;
    d.config.max_pages = d.batch.table_stride;
    return d;
}

/* Room for one query head of one row: p [positions]; the results y, the bound of fp32 and what the
 * rounding of weights adds, each [head_dim]. */
struct head_room {
    double *p;
    float *y, *bound, *rounding;
};

/* Element j of the value of the i-th position that a row sees; `at`: of the first one. */
static double value_seen(const struct attend_data *d, size_t at, int i, int own, int j)
{
    return (i < own ? d->v_stored : d->v_own)[at + (size_t)i * d->kv_row + (size_t)j];
}

/* The rounding of the weights p [n] of positions `first` on: half a step in each chunk, of each
 * value. */
static void expect_rounding(const struct attend_data *d, size_t at, int first, int n, int own,
                            const double *p, double *off)
{
    const size_t heads = (size_t)d->k->n_kv_heads;
    const float *scale = d->v_scale + at / (size_t)d->k->head_dim;
    for (int i = 0, end; i < n; i = end) {
        double largest = 0;
        end = ((first + i) / 256 + 1) * 256 - first;
        if (end > n) end = n;
        for (int c = i; c < end; c++) largest = fmax(largest, p[c] * scale[(size_t)c * heads]);
        for (int c = i; c < end; c++)
            for (int j = 0; j < d->k->head_dim; j++)
                off[j] += 0.5 * (1 + 0x1p-10) * largest / d->w_top *
                          fabs(value_seen(d, at, c, own, j)) / scale[(size_t)c * heads];
    }
}

/* Tables of key biases of up to 300: pairs 0, 3, 6, .. of every head. */
static void make_biases(struct arena *a, struct rng *r, struct attend_data *d)
{
    const int hd = d->k->head_dim, half = hd / 2, heads = d->k->n_kv_heads;
    d->bias_pairs = (half + 2) / 3;
    size_t n = (size_t)(heads * d->bias_pairs) * KEY_BIAS_ROW;
    float *row = d->bias = arena_get(a, n * 4);
    d->turns = arena_get(a, (size_t)(BIAS_CHUNKS * hd) * 4);
    for (int i = 0; i < heads * d->bias_pairs; i++, row += KEY_BIAS_ROW) {
        int pair = 3 * (i % d->bias_pairs);
        double size = 50 * rng_normal(r), angle = ldexp(1, -pair % 24);
        for (int p = 0; p < KEY_BIAS_CHUNK; p++) {
            row[p] = (float)(size * cos(p * angle));
            row[KEY_BIAS_CHUNK + p] = (float)(size * sin(p * angle));
        }
        row[2 * KEY_BIAS_CHUNK] = (float)pair;
    }
    for (int c = 0; c < BIAS_CHUNKS; c++)
        for (int i = 0; i < half; i++) {
            double angle = ldexp(c * KEY_BIAS_CHUNK, -i % 24);
            d->turns[c * hd + 2 * i] = (float)cos(angle);
            d->turns[c * hd + 2 * i + 1] = (float)sin(angle);
        }
}

/* The term of key biases of a query, rotated as it is attended, at a position; adds to *magnitude
 * as a product of query and key does. */
static double bias_term(const struct attend_data *d, const float *q, int kv_head, int pos,
                        double *magnitude)
{
    const int hd = d->k->head_dim, half = hd / 2, i = pos % KEY_BIAS_CHUNK;
    const float *row = d->bias + (size_t)(kv_head * d->bias_pairs) * KEY_BIAS_ROW,
                *turn = d->turns + pos / KEY_BIAS_CHUNK * hd;
    double plain[512], was[512], sum = 0, most = 0;
    for (int j = 0; j < hd; j++) plain[j] = q[j];
    for (int bit = 1; hd % (2 * bit) == 0; bit *= 2) {
        memcpy(was, plain, sizeof was);
        for (int j = 0; j < hd; j++)
            plain[j] = j & bit ? was[j ^ bit] - was[j] : was[j] + was[j ^ bit];
    }
    for (int j = 0; j < hd; j++) most = fmax(most, fabs(plain[j]));
    for (int k = 0; k < d->bias_pairs; k++, row += KEY_BIAS_ROW) {
        int e = (int)row[2 * KEY_BIAS_CHUNK];
        double c = turn[2 * e], s = turn[2 * e + 1], x = plain[e] * c + plain[e + half] * s,
               y = plain[e + half] * c - plain[e] * s;
        sum += x * row[i] + y * row[KEY_BIAS_CHUNK + i];
        *magnitude += 3 * most * (fabs((double)row[i]) + fabs((double)row[KEY_BIAS_CHUNK + i]));
    }
    return sum;
}

/* One query head of one row: the harness's own result and the bound. */
static void expect_head(const struct attend_data *d, int row, int head, const struct head_room *x)
{
    int seq = d->batch.seq[row], pos = d->batch.pos[row], hd = d->k->head_dim,
        kv_head = head / (d->k->n_heads / d->k->n_kv_heads),
        first = op_first_seen(pos, d->k->window),
        own = pos / KV_PAGE * KV_PAGE - first; /* positions before those of its page */
    size_t at = (size_t)(d->start[seq] + first) * d->kv_row + (size_t)(kv_head * hd);
    const float *q = d->q_rounded + (size_t)row * d->q_row + (size_t)(head * hd);
    double sink = d->sinks ? d->sinks[head] : -INFINITY, *p = x->p;
    double max = sink, magnitude = 0, largest_query = 0, keys = 0, rounded[512];
    for (int j = 0; j < hd; j++) rounded[j] = q[j];
    if (d->q_top) round_group(q, hd, d->q_top, rounded);
    for (int i = 0; i <= pos - first; i++) {
        const double *k = (i < own ? d->k_stored : d->k_own) + at + (size_t)i * d->kv_row;
        double s = 0, m = 0, all = 0;
        for (int j = 0; j < hd; j++) {
            double t = rounded[j] * k[j];
            s += t;
            m += fabs(t);
            all += fabs(k[j]);
        }
        if (d->bias) s += bias_term(d, q, kv_head, first + i, &m);
        p[i] = s * d->scale;
        if (d->softcap > 0) p[i] = d->softcap * tanh(p[i] / d->softcap);
        max = fmax(max, p[i]);
        magnitude = fmax(magnitude, m);
        keys = fmax(keys, all);
    }
    for (int j = 0; j < hd; j++) largest_query = fmax(largest_query, fabs(q[j]));
    double allowed = 0x1p-14 + (d->config.act == ACT_F16 ? 0x1p-11 : 0);
    double acc[512] = {0}, mass[512] = {0}, rounding[512] = {0},
           sum = d->sinks ? exp(sink - max) : 0,
           off = (hd + 4) * U * magnitude * d->scale + 20 * U * d->softcap;
    CHECK(hd <= 512);
    for (int i = 0; i <= pos - first; i++) {
        double w = p[i] = exp(p[i] - max);
        sum += w;
        for (int j = 0; j < hd; j++) {
            double t = w * value_seen(d, at, i, own, j);
            acc[j] += t;
            mass[j] += fabs(t);
        }
    }
    double largest = 0, none = 0x1p-125; /* exponentials below that, from -87 on, count as 0 */
    for (int i = 0; i <= pos - first; i++)
        for (int j = 0; j < hd; j++) largest = fmax(largest, fabs(value_seen(d, at, i, own, j)));
    for (int j = 0; j < hd; j++)
        rounding[j] = (pos - first + 1) * (d->halves ? 0x1p-37 : none) * largest + none;
    if (d->w_top) expect_rounding(d, at, first, pos - first + 1, own, p, rounding);
    double steps = d->query_step_top && (d->query_halves != 1 || row < d->k->n_decode)
                       ? 0.5 * (1 + 0x1p-10) * largest_query / d->query_step_top * keys * d->scale
                       : 0;
    for (int j = 0; j < hd; j++) {
        rounding[j] += 2 * (expm1(off + steps) - expm1(off)) * mass[j];
        x->y[j] = (float)(acc[j] / sum);
        x->bound[j] = (float)((allowed + 2 * expm1(off)) * mass[j] / sum);
        x->rounding[j] = (float)(rounding[j] / sum);
    }
}

static void expect(struct arena *a, const struct attend_data *d, float *y, float *bound,
                   float *rounding)
{
    double *p = arena_get(a, (size_t)d->start[d->k->n_seqs] * sizeof *p);
    for (int row = 0; row < d->batch.n_rows; row++)
        for (int h = 0; h < d->k->n_heads; h++) {
            size_t at = (size_t)row * d->q_row + (size_t)(h * d->k->head_dim);
            expect_head(d, row, h, &(struct head_room){p, y + at, bound + at, rounding + at});
        }
}

/* The sequences on one side. */
struct attend_side {
    struct side s;
    struct dbuf kv, seats, q, k, v, out;
};

/* Stores and attends the rows of `span`; the queries are those of the batch's rows from `row` on;
 * -1: 0. out [rows][q_row] or NULL. */
static void step(struct check *c, int v, const char *name, struct attend_side *t,
                 const struct attend_data *d, const struct batch *b, const struct span *span, int n,
                 int row, int store, float *out)
{
    struct arena a = {0};
    const float *after = row < 0 ? NULL : d->q_after + (size_t)row * d->q_row,
                *q = row < 0 ? NULL
                     : store ? d->q + (size_t)row * d->q_row
                             : after;
    size_t rows = (size_t)b->n_rows;
    float *k = arena_get(&a, rows * d->kv_row * 4), *val = arena_get(&a, rows * d->kv_row * 4);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t from = (size_t)(d->start[span[i].seq] + span[i].pos0) * d->kv_row,
               len = (size_t)span[i].rows * d->kv_row;
        memcpy(k + at, d->key + from, len * 4);
        memcpy(val + at, d->value + from, len * 4);
        at += len;
    }
    struct dbuf dk = dbuf_from(&t->s, k, rows * d->kv_row * 4),
                dv = dbuf_from(&t->s, val, rows * d->kv_row * 4);
    struct dbuf dq = q ? dbuf_from(&t->s, q, rows * d->q_row * 4)
                       : dbuf_from(&t->s, memset(arena_get(&a, rows * d->q_row * 4), 0, 1),
                                   rows * d->q_row * 4);
    struct dbuf o = dbuf_new(&t->s, rows * d->q_row * 4);
    int half = d->k->head_dim / 2;
    struct heads heads = {d->k->n_heads, d->k->n_kv_heads, d->k->head_dim, 0, 0};
    struct dbuf freq = dbuf_from(&t->s, d->inv_freq, (size_t)half * 4),
                angles = dbuf_new(&t->s, rows * (size_t)half * 8),
                sinks = dbuf_from(&t->s, d->sinks ? d->sinks : d->inv_freq,
                                  d->sinks ? (size_t)d->k->n_heads * 4 : 4);
    int bias_floats = d->k->n_kv_heads * d->bias_pairs * KEY_BIAS_ROW,
        turn_floats = BIAS_CHUNKS * d->k->head_dim;
    struct dbuf bias = dbuf_from(&t->s, d->bias ? d->bias : d->inv_freq,
                                 d->bias ? (size_t)bias_floats * 4 : 4),
                turns = dbuf_from(&t->s, d->bias ? d->turns : d->inv_freq,
                                  d->bias ? (size_t)turn_floats * 4 : 4);
    struct trial trial = {0};
    int kv = trial_kv(&trial, t->kv.d, d->k->n_kv_heads, d->k->head_dim);
    trial.d_seat[kv] = t->seats.d;
    int bq = trial_buffer(&trial, dq.d, ROWS_STEP, d->q_row * 4);
    if (store) {
        struct op *cos = trial_angles(&trial, trial_vector(&trial, freq.d, half), half, 1, angles.d,
                                      angles.d + rows * (size_t)half * 4);
        struct op *op = trial_op(&trial, OP_ROPE_STORE);
        op->in[0] = op->out[0] = bq;
        op->in[1] = trial_buffer(&trial, dk.d, ROWS_STEP, d->kv_row * 4);
        op->in[2] = trial_buffer(&trial, dv.d, ROWS_STEP, d->kv_row * 4);
        op->in[3] = cos->out[0];
        op->in[4] = cos->out[1];
        op->as.rope.heads = heads;
        op->as.rope.kv = kv;
        op->as.rope.eps = 1e-6f;
    }
    if (out) {
        struct op *op = trial_op(&trial, OP_ATTEND);
        op->in[0] = bq;
        op->out[0] = trial_buffer(&trial, o.d, ROWS_STEP, d->q_row * 4);
        op->as.attend.heads = heads;
        op->as.attend.kv = kv;
        op->as.attend.window = d->k->window;
        op->as.attend.scale = d->scale;
        op->as.attend.softcap = d->softcap;
        if (d->sinks) op->w[0] = trial_vector(&trial, sinks.d, d->k->n_heads);
        if (d->bias) {
            op->as.attend.bias_pairs = d->bias_pairs;
            op->w[1] = trial_vector(&trial, bias.d, bias_floats);
            op->w[2] = trial_vector(&trial, turns.d, turn_floats);
        }
    }
    trial_run(&trial, &t->s, b, 0);
    if (out) {
        dbuf_get(&t->s, &o, out);
        float *q_after = arena_get(&a, rows * d->q_row * 4);
        dbuf_get(&t->s, &dq, q_after);
        compare_bits(c, v, name, "the queries afterwards", q_after, after, rows * d->q_row,
                     d->q_row);
        compare_fences(c, v, name, "output", &t->s, &o);
        compare_fences(c, v, name, "queries", &t->s, &dq);
    }
    compare_fences(c, v, name, "pages", &t->s, &t->kv);
    compare_fences(c, v, name, "seats", &t->s, &t->seats);
    struct dbuf *all[] = {&dk, &dv, &dq, &o, &freq, &angles, &sinks, &bias, &turns};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) dbuf_free(&t->s, all[i]);
    arena_free(&a);
}

/* What was before this step. */
static void store_past(struct check *c, int v, const char *name, struct attend_side *t,
                       const struct attend_data *d)
{
    struct arena a = {0};
    struct span past[MAX_SEQS];
    int n = 0;
    for (int i = 0; i < d->k->n_seqs; i++)
        if (d->k->span[i].pos0) past[n++] = (struct span){i, 0, d->k->span[i].pos0};
    if (n) {
        struct batch b = make_batch(&a, &d->pages, past, n, 0);
        step(c, v, name, t, d, &b, past, n, -1, 1, NULL);
    }
    arena_free(&a);
}

/* Bytes of the pages and of the open pages. */
struct cache_bytes {
    size_t pages, seats;
};

static struct cache_bytes cache_bytes(const struct attend_side *t, const struct attend_data *d)
{
    const struct kv_cache cache = {d->k->n_kv_heads, d->k->head_dim, 0};
    return (struct cache_bytes){(size_t)d->pages.n_pages *
                                    t->s.ops->kv_page_bytes(d->k->kv, &cache),
                                (size_t)d->k->n_seqs * kv_open_bytes(d->k->kv, &cache)};
}

static void open_sequences(struct check *c, int v, const char *name, struct attend_side *t,
                           const struct variant *on, int n_threads, const struct attend_data *d)
{
    side_open(&t->s, on, n_threads, d->config);
    size_t bytes = cache_bytes(t, d).pages, seats = cache_bytes(t, d).seats;
    struct arena a = {0};
    int garbage = kv_is_integer(d->k->kv) ? GARBAGE_SCALES : GARBAGE;
    t->kv = dbuf_from(&t->s, memset(arena_get(&a, bytes), garbage, bytes), bytes);
    t->seats = dbuf_from(&t->s, memset(arena_get(&a, seats), garbage, seats), seats);
    arena_free(&a);
    store_past(c, v, name, t, d);
}

/* What the positions before the step left. */
struct past {
    void *pages, *seats;
};

static struct past keep_past(struct arena *a, struct attend_side *t)
{
    struct past p = {arena_get(a, t->kv.bytes), arena_get(a, t->seats.bytes)};
    dbuf_get(&t->s, &t->kv, p.pages);
    dbuf_get(&t->s, &t->seats, p.seats);
    return p;
}

/* open_sequences() without computing the past again. */
static void open_again(struct attend_side *t, const struct variant *on, int n_threads,
                       const struct attend_data *d, const struct past *p)
{
    side_open(&t->s, on, n_threads, d->config);
    t->kv = dbuf_from(&t->s, p->pages, cache_bytes(t, d).pages);
    t->seats = dbuf_from(&t->s, p->seats, cache_bytes(t, d).seats);
}

static void close_sequences(struct attend_side *t)
{
    dbuf_free(&t->s, &t->kv);
    dbuf_free(&t->s, &t->seats);
    side_close(&t->s);
}

/* Each row, of prompts every third in quick runs, in a step of its own, over what the whole batch
 * has stored: positions after its own exist already. */
static void rows_alone(struct check *c, int v, const char *name, struct attend_side *t,
                       const struct attend_data *d, const float *whole)
{
    int n = d->batch.n_rows;
    for (int row = 0; row<n; row += n> 24 && row > 3 && row < n - 4 ? 7 : 1) {
        struct arena a = {0};
        if (c->quick && row >= d->k->n_decode && row % 3 && row < n - 1) continue;
        struct span one = {d->batch.seq[row], d->batch.pos[row], 1};
        if (kv_has_open(d->k->kv) && one.pos0 / KV_PAGE != (d->batch.kv_len[one.seq] - 1) / KV_PAGE)
            continue; /* its page is no longer open */
        struct batch b = make_batch(&a, &d->pages, &one, 1, row < d->k->n_decode);
        float *out = arena_get(&a, d->q_row * 4);
        char what[48];
        snprintf(what, sizeof what, "row %d by itself", row);
        step(c, v, name, t, d, &b, &one, 1, row, 0, out);
        compare_bits(c, v, name, what, out, whole + (size_t)row * d->q_row, d->q_row, d->q_row);
        arena_free(&a);
    }
}

/* The prompt rows in steps of these numbers of positions in turns, sequence after sequence, from
 * the past alone. */
static void in_chunks(struct check *c, int v, const char *name, const struct past *past,
                      const struct attend_data *d, const int chunks[2], const float *whole)
{
    struct attend_side t;
    char what[48];
    open_again(&t, &c->v[v], 1, d, past);
    int row = 0, n_steps = 0;
    for (int i = 0; i < d->k->n_seqs; i++)
        for (int done = 0; done < d->k->span[i].rows;) {
            struct arena a = {0};
            int chunk = chunks[n_steps++ % 2];
            int rows = d->k->span[i].rows - done < chunk ? d->k->span[i].rows - done : chunk;
            struct span part = {i, d->k->span[i].pos0 + done, rows};
            struct batch b = make_batch(&a, &d->pages, &part, 1, i < d->k->n_decode);
            size_t at = (size_t)row * d->q_row, n = (size_t)rows * d->q_row;
            float *out = arena_get(&a, n * 4);
            snprintf(what, sizeof what, "chunks of %d, at row %d", chunk, row);
            step(c, v, name, &t, d, &b, &part, 1, row, 1, out);
            compare_bits(c, v, name, what, out, whole + at, n, d->q_row);
            row += rows;
            done += rows;
            arena_free(&a);
        }
    close_sequences(&t);
}

/* Around the scores, some far above, some far below. */
static float *make_sinks(struct arena *a, struct rng *r, int n)
{
    float *sinks = arena_get(a, (size_t)n * 4);
    for (int i = 0; i < n; i++)
        sinks[i] = i % 5 == 1 ? 12 : i % 5 == 3 ? -100 : 2 + rng_normal(r) * 2;
    return sinks;
}

static void check_case(struct check *c, const struct attend_case *k, const struct attend_form *f,
                       int query_halves)
{
    if (is_caught(c) || !(c->v[0].ops->kv_types >> k->kv & 1)) return;
    char name[NAME_BYTES];
    struct arena a = {0};
    int n =
        snprintf(name, NAME_BYTES, "%s%s%s%d/%d heads of %d, kv %s, window %d, gain %g, rows",
                 c->act == ACT_F16                                       ? "f16, "
                 : kv_is_integer(k->kv) && act_formats[c->act].query_top ? act_formats[c->act].name
                                                                         : "",
                 query_halves == 1 ? "queries of one half, " : "", f ? f->name : "", k->n_heads,
                 k->n_kv_heads, k->head_dim, kv_formats[k->kv].name, k->window, (double)k->gain);
    for (int i = 0; i < k->n_seqs; i++)
        n += snprintf(name + n, (size_t)(NAME_BYTES - n), " %d+%d", k->span[i].pos0,
                      k->span[i].rows);
    struct rng r = rng_for(c->seed, name);
    struct attend_data d = make_data(&a, &r, k, f ? f->faint : 0, c->act, query_halves,
                                     strcmp(c->v[0].ops->name, "cpu") != 0);
    if (f) d.softcap = f->softcap;
    if (f && f->scale > 0) d.scale = f->scale;
    if (f && f->sinks) d.sinks = make_sinks(&a, &r, k->n_heads);
    if (f && f->biases) make_biases(&a, &r, &d);
    size_t rows = (size_t)d.batch.n_rows, total = rows * d.q_row;
    float *want = arena_get(&a, total * 4), *bound = arena_get(&a, total * 4),
          *tight = arena_get(&a, total * 4), *rounding = arena_get(&a, total * 4),
          *ref = arena_get(&a, total * 4), *first = arena_get(&a, total * 4),
          *got = arena_get(&a, total * 4), *kept = arena_get(&a, total * 4);
    expect(&a, &d, want, bound, rounding);
    /* of the bound of fp32 activations, of which that of fp16 is up to 9 times; ref does not round
     * weights */
    for (size_t i = 0; i < total; i++) {
        tight[i] = bound[i] * (c->act == ACT_F16 ? 0x1p-12f : 0x1p-8f);
        bound[i] += rounding[i];
    }
    struct attend_side t;
    if (query_halves == 1) { /* which ref does not have */
        for (size_t i = 0; i < total; i++) ref[i] = want[i], bound[i] += tight[i];
    } else {
        open_sequences(c, REF, name, &t, &c->ref, 2, &d);
        step(c, REF, name, &t, &d, &d.batch, k->span, k->n_seqs, 0, 1, ref);
        close_sequences(&t);
        count_case(c, REF);
        compare(c, REF, name, "against the harness", ref, want, tight, rows, d.q_row);
    }
    for (int v = 0; v < c->n; v++) {
        count_case(c, v);
        open_sequences(c, v, name, &t, &c->v[v], 1, &d);
        const struct past past = keep_past(&a, &t);
        step(c, v, name, &t, &d, &d.batch, k->span, k->n_seqs, 0, 1, first);
        compare(c, v, name, "output", first, ref, bound, rows, d.q_row);
        compare_variants(c, v, name, "output", kept, first, total, d.q_row);
        if (!is_caught(c)) rows_alone(c, v, name, &t, &d, first);
        close_sequences(&t);
        if (is_caught(c)) break;
        if (runs_again(c, v)) {
            open_again(&t, &c->v[v], 3, &d, &past);
            step(c, v, name, &t, &d, &d.batch, k->span, k->n_seqs, 0, 1, got);
            compare_bits(c, v, name, "3 threads against 1", got, first, total, d.q_row);
            close_sequences(&t);
        }
        if (c->quick) {
            in_chunks(c, v, name, &past, &d, (int[]){1, 7}, first);
        } else {
            in_chunks(c, v, name, &past, &d, (int[]){1, 1}, first);
            in_chunks(c, v, name, &past, &d, (int[]){7, 7}, first);
        }
    }
    arena_free(&a);
}

/* The cases of integers in the arithmetics of integers. */
static void check_in_integers(struct check *c)
{
    static const enum act acts[] = {ACT_I16, ACT_INT8};
    for (int i = 0; i < 2; i++) {
        c->act = acts[i];
        for (const struct attend_form *f = forms; f < forms + N_FORMS; f++)
            for (int j = 0; j < f->n; j++)
                if (kv_is_integer(f->k[j].kv) && (!c->quick || j < f->n_quick))
                    check_case(c, &f->k[j], f, 2);
    }
    c->act = ACT_F32;
}

int takes_one_half(const struct variant *v)
{
    struct side s;
    if (!strcmp(v->ops->name, "cpu")) return 0;
    side_open(&s, v, 1, plain_config(1));
    int takes = strstr(s.ops->describe(s.be), "sm_90a") != NULL;
    side_close(&s);
    return takes;
}

/* Heads that its kernels have. */
static int has_one_half(const struct attend_case *k, const struct attend_form *f)
{
    return (!f || f->softcap == 0) &&
           (k->head_dim == 64 || k->head_dim == 128 || (k->head_dim == 256 && k->kv == KV_F16));
}

/* On a GPU. */
static void check_halves(struct check *c, int query_halves)
{
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].kv == KV_F16 && (query_halves == 2 || has_one_half(&cases[i], NULL)) &&
            (!c->quick || i == 2 || i == 9 || i == 16))
            check_case(c, &cases[i], NULL, query_halves);
    for (const struct attend_form *f = forms; f < forms + N_FORMS; f++)
        for (int i = 0; i < f->n; i++)
            if (f->k[i].kv != KV_F32 && (query_halves == 2 || has_one_half(&f->k[i], f)) &&
                (!c->quick || (f->k == integers && i == 1) || (f->k == packed && i == 0)))
                check_case(c, &f->k[i], f, query_halves);
}

static void check_in_f16(struct check *c)
{
    c->act = ACT_F16;
    check_halves(c, 2);
    if (takes_one_half(&c->v[0])) check_halves(c, 1);
    c->act = ACT_F32;
}

/* Fp16 first, because what is wrong with a matrix instruction shows there. The CPU's attention with
 * fp16 activations is that of fp32. */
void check_attend(struct check *c)
{
    int on_cpu = !strcmp(c->v[0].ops->name, "cpu");
    if (!on_cpu && gpu.act == ACT_F32) check_in_f16(c);
    for (int i = 0; i < N_CASES; i++)
        if (!c->quick || (i >= 1 && i <= 3) || i == 11 || i == 16)
            check_case(c, &cases[i], NULL, 2);
    for (const struct attend_form *f = forms; f < forms + N_FORMS; f++)
        for (int i = 0; i < f->n; i++)
            if (!c->quick || i < f->n_quick) check_case(c, &f->k[i], f, 2);
    if (on_cpu && gpu.act == ACT_F32) check_in_integers(c);
}
