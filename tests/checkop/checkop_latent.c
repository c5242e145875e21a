/* checkop_latent.c: latent heads (core/step/op.h): rope_store, then attend, over paged latents,
 * several sequences in one batch. The queries afterwards and all results have the same bits on all
 * variants that promise them, in chunks, alone and with more threads.
 *
 * The bound is attend's (checkop_attend.c), with hd = latent + rotated and the latents as values:
 *     |y - ref| <= (2^-14 + 2 (e^d - 1)) A,  d = (hd + 4) * 2^-24 * max_p sum_i |q_i k_i| * scale
 * Where pairs are turned both sides may be off by 8 roundings of |a cos| + |b sin| (checkop_rope.c)
 * in queries and keys: 2 * 16 more roundings of up to twice the products. Over integers nothing is
 * turned, so that both sides round the same numbers; in integer arithmetic queries are rounded in
 * two groups alike, and the weights of each chunk of 256 positions to steps of their largest:
 *     + sum over chunks of (max_p w_p / top / 2) * sum over their positions of |v_p| / scale_p
 * With fp16 activations a GPU has the integers of i16, and the reference is computed with them;
 * over fp16 it may round weights to fp16: another 2^-11 A. */
#include "core/step/kv_open.h"
#include "engine/backends.h"
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SEQS = 5, MAX_DIM = 640, GARBAGE = 0x4b, GARBAGE_SCALES = 0xff };

struct latent_case {
    int n_heads, latent, rotated;
    enum kv_type kv;
    int window, turns; /* turns: RoPE */
    float gain;
    int n_decode, n_seqs;
    struct span span[MAX_SEQS];
};

static const struct latent_case cases[] = {
    {4, 32, 16, KV_F16, 0, 0, 2, 1, 3, {{0, 40, 1}, {1, 0, 19}, {2, 250, 9}}},
    {20, 96, 24, KV_F16, 100, 0, 4, 1, 3, {{0, 255, 1}, {1, 17, 31}, {2, 505, 9}}},
    {5, 48, 8, KV_INT8, 0, 0, 2, 2, 4, {{0, 15, 1}, {1, 256, 1}, {2, 0, 17}, {3, 250, 12}}},
    {9, 64, 16, KV_INT4, 0, 0, 4, 2, 4, {{0, 47, 1}, {1, 300, 1}, {2, 0, 49}, {3, 250, 12}}},
    {4, 64, 32, KV_F32, 0, 1, 2, 1, 3, {{0, 600, 1}, {1, 0, 19}, {2, 250, 9}}},
    {40, 32, 16, KV_F16, 0, 0, 1, 1, 2, {{0, 530, 1}, {1, 14, 4}}},
    {16, 512, 64, KV_F16, 0, 0, 1, 1, 2, {{0, 280, 1}, {1, 20, 5}}},
    {16, 512, 64, KV_INT8, 0, 0, 1, 1, 2, {{0, 280, 1}, {1, 20, 5}}},
    {16, 512, 64, KV_INT4, 0, 0, 1, 1, 2, {{0, 280, 1}, {1, 20, 40}}},
    {3, 16, 4, KV_F32, 20, 1, 8, 1, 2, {{0, 300, 1}, {1, 0, 40}}},
    {3, 16, 4, KV_INT8, 20, 0, 8, 1, 2, {{0, 300, 1}, {1, 0, 40}}},
    {8, 80, 20, KV_INT4, 100, 0, 2, 1, 2, {{0, 520, 1}, {1, 500, 20}}},
    {10, 512, 128, KV_F16, 40, 0, 1, 2, 4, {{0, 333, 1}, {1, 17, 1}, {2, 505, 9}, {3, 0, 2}}},
    {33, 128, 32, KV_F16, 300, 1, 2, 2, 3, {{0, 640, 1}, {1, 1, 1}, {2, 250, 70}}},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_QUICK = 5 };

struct latent_data {
    const struct latent_case *k;
    struct be_config config, ref; /* ref: of the reference */
    struct page_map pages;
    struct batch batch;
    int start[MAX_SEQS + 1];
    float *latent, *k_rot;   /* [positions][latent], [positions][rotated] */
    float *q_latent, *q_rot; /* [rows][n_heads][latent], [rows][n_heads][rotated] */
    double *stored, *own;    /* [positions][hd] as later pages and as their own page read it */
    float *scale_of;         /* [positions][2] of integers */
    float scale, *inv_freq;  /* [rotated / 2] */
    double allowed;          /* of A */
    int hd, q_top, w_top;
};

/* Rounds x [n] to integers of at most `top`; returns the scale. */
static float round_group(const double *x, int n, int top, double *y)
{
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf((float)x[i]));
    float scale = largest / (float)top, factor = largest > 0x1p-100f ? (float)top / largest : 0;
    for (int i = 0; i < n; i++) y[i] = (double)scale * rintf((float)x[i] * factor);
    return scale;
}

/* The transform of the rotated part, in its order, in fp32. */
static void transform(double *x, int n, int divide)
{
    float y[MAX_DIM], z[MAX_DIM];
    int block = n & -n;
    for (int i = 0; i < n; i++) y[i] = (float)x[i];
    for (int bit = 1; bit < block; bit *= 2) {
        for (int i = 0; i < n; i++) z[i] = i & bit ? y[i ^ bit] - y[i] : y[i] + y[i ^ bit];
        memcpy(y, z, sizeof y);
    }
    for (int i = 0; i < n; i++) x[i] = divide ? y[i] * (1.0f / (float)block) : y[i];
}

/* A head's latent and its turned, transformed part. */
static void join(const struct latent_data *d, const float *latent, const float *rot, int pos,
                 int divide, double *x)
{
    int n = d->k->latent, r = d->k->rotated, half = r / 2;
    for (int i = 0; i < n; i++) x[i] = latent[i];
    for (int i = 0; i < half; i++) {
        float angle = (float)pos * d->inv_freq[i];
        double c = cos(angle), s = sin(angle);
        x[n + i] = rot[i] * c - rot[i + half] * s;
        x[n + half + i] = rot[i + half] * c + rot[i] * s;
    }
    if (kv_is_integer(d->k->kv)) transform(x + n, r, divide);
}

/* One element of the 16 positions of a full page as 4 bits keep it; scales: of the positions. */
static void round_channel(double *x, size_t row, const float *scale)
{
    double code[KV_PAGE], least = 127, most = -127;
    for (size_t i = 0; i < KV_PAGE; i++) {
        code[i] = scale[2 * i] > 0 ? rint(x[i * row] / scale[2 * i]) : 0;
        least = fmin(least, code[i]), most = fmax(most, code[i]);
    }
    double step = fmax(1, ceil((most - least) / 15)), half = floor(step / 2),
           lo = fmin(least, 127 - step * floor((most - least + half) / step));
    for (size_t i = 0; i < KV_PAGE; i++)
        x[i * row] = (double)scale[2 * i] * (lo + step * floor((code[i] - lo + half) / step));
}

static void store_all(struct arena *a, struct latent_data *d)
{
    size_t hd = (size_t)d->hd, positions = (size_t)d->start[d->k->n_seqs];
    int n = d->k->latent, r = d->k->rotated;
    d->stored = arena_get(a, positions * hd * sizeof(double));
    d->own = arena_get(a, positions * hd * sizeof(double));
    d->scale_of = arena_get(a, positions * 2 * sizeof(float));
    for (int s = 0; s < d->k->n_seqs; s++)
        for (int p = d->start[s]; p < d->start[s + 1]; p++) {
            double *x = d->stored + (size_t)p * hd;
            join(d, d->latent + (size_t)p * (size_t)n, d->k_rot + (size_t)p * (size_t)r,
                 p - d->start[s], 0, x);
            for (size_t i = 0; i < hd && d->k->kv == KV_F16; i++)
                x[i] = f32_from_f16(f16_from_f32((float)x[i]));
            if (!kv_is_integer(d->k->kv)) continue;
            d->scale_of[2 * p] = round_group(x, n, 127, x);
            d->scale_of[2 * p + 1] = round_group(x + n, r, 127, x + n);
        }
    memcpy(d->own, d->stored, positions * hd * sizeof(double));
    for (int s = 0; kv_has_open(d->k->kv) && s < d->k->n_seqs; s++)
        for (int at = d->start[s]; at + KV_PAGE <= d->start[s + 1]; at += KV_PAGE)
            for (size_t i = 0; i < hd; i++)
                round_channel(d->stored + (size_t)at * hd + i, hd,
                              d->scale_of + 2 * at + (i >= (size_t)n));
}

static struct latent_data make_data(struct arena *a, struct rng *r, const struct latent_case *k,
                                    enum act act, int on_gpu)
{
    struct latent_data d = {.k = k, .hd = k->latent + k->rotated};
    int n_ctx[MAX_SEQS], past = 0, half = k->rotated / 2;
    for (int i = 0; i < k->n_seqs; i++) {
        n_ctx[i] = k->span[i].pos0 + k->span[i].rows;
        d.start[i + 1] = d.start[i] + n_ctx[i];
        past += k->span[i].pos0;
    }
    d.allowed = 0x1p-14 + (act == ACT_F16 && k->kv == KV_F16 ? 0x1p-11 : 0);
    d.scale = 1 / sqrtf((float)d.hd);
    d.pages = make_pages(a, r, n_ctx, k->n_seqs);
    d.batch = make_batch(a, &d.pages, k->span, k->n_seqs, k->n_decode);
    size_t positions = (size_t)d.start[k->n_seqs], rows = (size_t)d.batch.n_rows,
           heads = (size_t)k->n_heads;
    const struct {
        float **x;
        size_t n;
        float gain;
    } made[] = {{&d.latent, positions * (size_t)k->latent, 1},
                {&d.k_rot, positions * (size_t)k->rotated, 3},
                {&d.q_latent, rows * heads * (size_t)k->latent, k->gain},
                {&d.q_rot, rows * heads * (size_t)k->rotated, k->gain / 2}};
    for (int i = 0; i < 4; i++) {
        float *x = *made[i].x = arena_get(a, made[i].n * 4);
        for (size_t j = 0; j < made[i].n; j++)
            x[j] = rng_normal(r) * made[i].gain * (j % 97 == 5 ? 8 : 1);
    }
    float *freq = d.inv_freq = arena_get(a, (size_t)half * 4);
    for (int i = 0; i < half; i++) freq[i] = k->turns ? (float)pow(1e4, -(double)i / half) : 0;
    d.config = (struct be_config){.act = act,
                                  .kv = k->kv,
                                  .max_rows = past > d.batch.n_rows ? past : d.batch.n_rows,
                                  .max_pages = d.batch.table_stride};
    d.config.max_seqs = d.config.max_rows;
    d.ref = d.config;
    if (on_gpu && act == ACT_F16 && kv_is_integer(k->kv)) d.ref.act = ACT_I16;
    if (kv_is_integer(k->kv)) {
        d.q_top = act_formats[d.ref.act].query_top;
        d.w_top = act_formats[d.ref.act].weight_top;
    }
    store_all(a, &d);
    return d;
}

/* Room for one head of one row: p [positions]; results and bound [latent]. */
struct head_room {
    double *p;
    float *y, *bound, *rounding;
};

/* Half a step of the weights p [n] of positions `first` on, in each chunk, of each value. */
static void expect_rounding(const struct latent_data *d, size_t at, int first, int n, int own,
                            const double *p, double *off)
{
    size_t hd = (size_t)d->hd;
    for (int i = 0, end; i < n; i = end) {
        double largest = 0;
        end = ((first + i) / 256 + 1) * 256 - first;
        if (end > n) end = n;
        for (int c = i; c < end; c++)
            largest = fmax(largest, p[c] * d->scale_of[2 * (at + (size_t)c)]);
        for (int c = i; c < end; c++) {
            const double *v = (c < own ? d->stored : d->own) + (at + (size_t)c) * hd;
            for (int j = 0; j < d->k->latent; j++)
                off[j] += 0.5 * (1 + 0x1p-10) * largest / d->w_top * fabs(v[j]) /
                          d->scale_of[2 * (at + (size_t)c)];
        }
    }
}

static void expect_head(const struct latent_data *d, int row, int head, const struct head_room *x)
{
    const struct latent_case *k = d->k;
    int seq = d->batch.seq[row], pos = d->batch.pos[row], hd = d->hd, n = k->latent,
        first = k->window && pos - k->window + 1 > 0 ? pos - k->window + 1 : 0,
        own = pos / KV_PAGE * KV_PAGE - first;
    size_t at = (size_t)(d->start[seq] + first), h = (size_t)(row * k->n_heads + head);
    double q[MAX_DIM], acc[MAX_DIM] = {0}, mass[MAX_DIM] = {0}, rounding[MAX_DIM] = {0}, *p = x->p,
                       max = -INFINITY, magnitude = 0, sum = 0, largest = 0;
    join(d, d->q_latent + h * (size_t)n, d->q_rot + h * (size_t)k->rotated, pos, 1, q);
    if (d->q_top) {
        round_group(q, n, d->q_top, q);
        round_group(q + n, k->rotated, d->q_top, q + n);
    }
    for (int i = 0; i <= pos - first; i++) {
        const double *key = (i < own ? d->stored : d->own) + (at + (size_t)i) * (size_t)hd;
        double s = 0, m = 0;
        for (int j = 0; j < hd; j++) s += q[j] * key[j], m += fabs(q[j] * key[j]);
        p[i] = s * d->scale;
        max = fmax(max, p[i]);
        magnitude = fmax(magnitude, m);
    }
    for (int i = 0; i <= pos - first; i++) {
        const double *v = (i < own ? d->stored : d->own) + (at + (size_t)i) * (size_t)hd;
        sum += p[i] = exp(p[i] - max);
        for (int j = 0; j < n; j++) {
            acc[j] += p[i] * v[j];
            mass[j] += fabs(p[i] * v[j]);
            largest = fmax(largest, fabs(v[j]));
        }
    }
    if (d->w_top) expect_rounding(d, at, first, pos - first + 1, own, p, rounding);
    double off = (hd + 4 + (k->turns ? 64 : 0)) * U * magnitude * d->scale,
           none = 0x1p-125 * (1 + (pos - first + 1) * largest); /* exponentials that count as 0 */
    for (int j = 0; j < n; j++) {
        x->y[j] = (float)(acc[j] / sum);
        x->bound[j] = (float)((d->allowed + 2 * expm1(off)) * mass[j] / sum);
        x->rounding[j] = (float)((rounding[j] + none) / sum);
    }
}

static void expect(struct arena *a, const struct latent_data *d, float *y, float *bound,
                   float *rounding)
{
    double *p = arena_get(a, (size_t)d->start[d->k->n_seqs] * sizeof *p);
    for (int row = 0; row < d->batch.n_rows; row++)
        for (int h = 0; h < d->k->n_heads; h++) {
            size_t at = (size_t)(row * d->k->n_heads + h) * (size_t)d->k->latent;
            expect_head(d, row, h, &(struct head_room){p, y + at, bound + at, rounding + at});
        }
}

/* The sequences on one side. */
struct latent_side {
    struct side s;
    struct dbuf kv, seats;
};

static struct dbuf floats_of(struct side *s, const float *x, size_t n)
{
    return x ? dbuf_from(s, x, n * 4) : dbuf_new(s, n * 4);
}

/* Rows of a step: those of `span` of batch b; row: the first among those of the whole batch, -1:
 * positions before them, which only are stored. out [rows][n_heads * latent], after [rows][n_heads
 * * hd]. */
struct latent_step {
    const struct batch *b;
    const struct span *span;
    int n, row;
    float *out, *after;
};

static void step(struct check *c, int v, const char *name, struct latent_side *t,
                 const struct latent_data *d, const struct latent_step *at_step)
{
    struct arena a = {0};
    const struct latent_case *k = d->k;
    const struct batch *b = at_step->b;
    const struct span *span = at_step->span;
    const int row = at_step->row;
    size_t rows = (size_t)b->n_rows, heads = (size_t)k->n_heads, latent = (size_t)k->latent,
           rot = (size_t)k->rotated, hd = (size_t)d->hd, half = rot / 2, at = 0;
    float *key = arena_get(&a, rows * latent * 4), *k_rot = arena_get(&a, rows * rot * 4),
          *zeros = arena_get(&a, rows * heads * hd * 4);
    for (int i = 0; i < at_step->n; at += (size_t)span[i++].rows) {
        size_t from = (size_t)(d->start[span[i].seq] + span[i].pos0), len = (size_t)span[i].rows;
        memcpy(key + at * latent, d->latent + from * latent, len * latent * 4);
        memcpy(k_rot + at * rot, d->k_rot + from * rot, len * rot * 4);
    }
    const float *q = row < 0 ? zeros : d->q_latent + (size_t)row * heads * latent,
                *q_rot = row < 0 ? zeros : d->q_rot + (size_t)row * heads * rot;
    struct dbuf in[] = {
        floats_of(&t->s, q, rows * heads * latent), floats_of(&t->s, k_rot, rows * rot),
        floats_of(&t->s, key, rows * latent),       floats_of(&t->s, q_rot, rows * heads * rot),
        floats_of(&t->s, d->inv_freq, half),        floats_of(&t->s, NULL, rows * half * 2),
        floats_of(&t->s, NULL, rows * heads * hd),  floats_of(&t->s, NULL, rows * heads * latent)};
    struct heads g = {k->n_heads, 1, d->hd, k->latent, k->rotated};
    struct trial trial = {0};
    int kv = trial_kv(&trial, t->kv.d, 1, d->hd);
    trial.kv[kv].value_dim = k->latent;
    trial.d_seat[kv] = t->seats.d;
    struct op *angles = trial_angles(&trial, trial_vector(&trial, in[4].d, (int)half), (int)half, 1,
                                     in[5].d, in[5].d + rows * half * 4),
              *op = trial_op(&trial, OP_ROPE_STORE);
    op->in[0] = trial_buffer(&trial, in[0].d, ROWS_STEP, heads * latent * 4);
    op->in[1] = trial_buffer(&trial, in[1].d, ROWS_STEP, rot * 4);
    op->in[2] = trial_buffer(&trial, in[2].d, ROWS_STEP, latent * 4);
    op->in[3] = angles->out[0], op->in[4] = angles->out[1];
    op->in[5] = trial_buffer(&trial, in[3].d, ROWS_STEP, heads * rot * 4);
    int joined = op->out[0] = trial_buffer(&trial, in[6].d, ROWS_STEP, heads * hd * 4);
    op->as.rope.heads = g, op->as.rope.kv = kv;
    if (row >= 0) {
        op = trial_op(&trial, OP_ATTEND);
        op->in[0] = joined;
        op->out[0] = trial_buffer(&trial, in[7].d, ROWS_STEP, heads * latent * 4);
        op->as.attend.heads = g, op->as.attend.kv = kv;
        op->as.attend.window = k->window, op->as.attend.scale = d->scale;
    }
    trial_run(&trial, &t->s, b, 0);
    if (row >= 0) {
        dbuf_get(&t->s, &in[6], at_step->after);
        dbuf_get(&t->s, &in[7], at_step->out);
    }
    compare_fences(c, v, name, "output", &t->s, &in[7]);
    compare_fences(c, v, name, "queries", &t->s, &in[6]);
    compare_fences(c, v, name, "pages", &t->s, &t->kv);
    compare_fences(c, v, name, "seats", &t->s, &t->seats);
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) dbuf_free(&t->s, &in[i]);
    arena_free(&a);
}

/* A backend to be opened. */
struct latent_on {
    const struct variant *v;
    int n_threads;
    const struct be_config *config;
};

static void open_sequences(struct check *c, int v, const char *name, struct latent_side *t,
                           const struct latent_on *on, const struct latent_data *d)
{
    side_open(&t->s, on->v, on->n_threads, *on->config);
    const struct kv_cache cache = {1, d->hd, d->k->latent};
    size_t bytes = (size_t)d->pages.n_pages * t->s.ops->kv_page_bytes(d->k->kv, &cache),
           seats = (size_t)d->k->n_seqs * kv_open_bytes(d->k->kv, &cache);
    struct arena a = {0};
    struct span past[MAX_SEQS];
    int garbage = kv_is_integer(d->k->kv) ? GARBAGE_SCALES : GARBAGE, n = 0;
    t->kv = dbuf_from(&t->s, memset(arena_get(&a, bytes), garbage, bytes), bytes);
    t->seats = dbuf_from(&t->s, memset(arena_get(&a, seats), garbage, seats), seats);
    for (int i = 0; i < d->k->n_seqs; i++)
        if (d->k->span[i].pos0) past[n++] = (struct span){i, 0, d->k->span[i].pos0};
    if (n) {
        struct batch b = make_batch(&a, &d->pages, past, n, 0);
        step(c, v, name, t, d, &(struct latent_step){&b, past, n, -1, NULL, NULL});
    }
    arena_free(&a);
}

static void close_sequences(struct latent_side *t)
{
    dbuf_free(&t->s, &t->kv);
    dbuf_free(&t->s, &t->seats);
    side_close(&t->s);
}

/* The rows in steps of `chunk` positions, sequence after sequence, from a fresh cache. */
static void in_chunks(struct check *c, int v, const char *name, const struct variant *on,
                      const struct latent_data *d, int chunk, const float *whole)
{
    struct latent_side t;
    size_t out_row = (size_t)(d->k->n_heads * d->k->latent);
    int row = 0;
    open_sequences(c, v, name, &t, &(struct latent_on){on, 1, &d->config}, d);
    for (int i = 0; i < d->k->n_seqs; i++)
        for (int done = 0, rows; done < d->k->span[i].rows; done += rows, row += rows) {
            struct arena a = {0};
            rows = d->k->span[i].rows - done < chunk ? d->k->span[i].rows - done : chunk;
            struct span part = {i, d->k->span[i].pos0 + done, rows};
            struct batch b = make_batch(&a, &d->pages, &part, 1, i < d->k->n_decode);
            float *out = arena_get(&a, (size_t)rows * out_row * 4),
                  *after = arena_get(&a, (size_t)(rows * d->k->n_heads * d->hd) * 4);
            char what[48];
            snprintf(what, sizeof what, "chunks of %d, at row %d", chunk, row);
            step(c, v, name, &t, d, &(struct latent_step){&b, &part, 1, row, out, after});
            compare_bits(c, v, name, what, out, whole + (size_t)row * out_row,
                         (size_t)rows * out_row, out_row);
            arena_free(&a);
        }
    close_sequences(&t);
}

/* The whole batch on a side. */
static void run(struct check *c, int v, const char *name, const struct latent_on *on,
                const struct latent_data *d, float *out, float *after)
{
    struct latent_side t;
    open_sequences(c, v, name, &t, on, d);
    step(c, v, name, &t, d,
         &(struct latent_step){&d->batch, d->k->span, d->k->n_seqs, 0, out, after});
    close_sequences(&t);
}

/* A query that is not a number: its head has no numbers as results, all others keep their bits. */
static void with_no_number(struct check *c, int v, const char *name, struct latent_data *d,
                           const float *whole)
{
    int heads = d->k->n_heads, n = d->k->latent, at = d->batch.n_rows * heads / 2;
    size_t cols = (size_t)(heads * n), total = (size_t)d->batch.n_rows * cols;
    struct arena a = {0};
    float *out = arena_get(&a, total * 4),
          *after = arena_get(&a, total / (size_t)n * (size_t)d->hd * 4),
          *x = d->q_latent + (size_t)at * (size_t)n + 3, was = *x;
    *x = NAN;
    run(c, v, name, &(struct latent_on){&c->v[v], 1, &d->config}, d, out, after);
    *x = was;
    for (int i = 0; i < n; i++) {
        float *y = out + (size_t)at * (size_t)n + i;
        if (*y != *y) *y = whole[(size_t)at * (size_t)n + (size_t)i];
        else *y = *y == 0; /* differs */
    }
    compare_bits(c, v, name, "with a query that is no number", out, whole, total, cols);
    arena_free(&a);
}

static void check_case(struct check *c, const struct latent_case *k)
{
    if (is_caught(c) || !(c->v[0].ops->kv_types >> k->kv & 1)) return;
    char name[NAME_BYTES];
    struct arena a = {0};
    int on_gpu = strcmp(c->v[0].ops->name, "cpu") != 0;
    snprintf(name, NAME_BYTES, "%s, %d heads, latent %d and %d, kv %s, window %d",
             act_formats[c->act].name, k->n_heads, k->latent, k->rotated, kv_formats[k->kv].name,
             k->window);
    struct rng r = rng_for(c->seed, name);
    struct latent_data d = make_data(&a, &r, k, c->act, on_gpu);
    size_t rows = (size_t)d.batch.n_rows, cols = (size_t)(k->n_heads * k->latent),
           total = rows * cols, queries = rows * (size_t)(k->n_heads * d.hd);
    float *want = arena_get(&a, total * 4), *bound = arena_get(&a, total * 4),
          *rounding = arena_get(&a, total * 4), *tight = arena_get(&a, total * 4),
          *ref = arena_get(&a, total * 4), *first = arena_get(&a, total * 4),
          *kept = arena_get(&a, total * 4), *after = arena_get(&a, queries * 4),
          *kept_after = arena_get(&a, queries * 4);
    expect(&a, &d, want, bound, rounding);
    for (size_t i = 0; i < total; i++) {
        tight[i] = bound[i] * (k->turns ? 1 : d.allowed > 0x1p-14 ? 0x1p-12f : 0x1p-8f);
        bound[i] += rounding[i];
    }
    run(c, REF, name, &(struct latent_on){&c->ref, 2, &d.ref}, &d, ref, after);
    count_case(c, REF);
    compare(c, REF, name, "against the harness", ref, want, tight, rows, cols);
    for (int v = 0; v < (on_gpu ? 1 : c->n); v++) { /* a GPU's variants are those of linears */
        count_case(c, v);
        run(c, v, name, &(struct latent_on){&c->v[v], 1, &d.config}, &d, first, after);
        compare(c, v, name, "output", first, ref, bound, rows, cols);
        compare_variants(c, v, name, "output", kept, first, total, cols);
        compare_variants(c, v, name, "queries", kept_after, after, queries, cols);
        run(c, v, name, &(struct latent_on){&c->v[v], 3, &d.config}, &d, want, after);
        compare_bits(c, v, name, "3 threads against 1", want, first, total, cols);
        in_chunks(c, v, name, &c->v[v], &d, 1, first);
        in_chunks(c, v, name, &c->v[v], &d, 7, first);
        with_no_number(c, v, name, &d, first);
    }
    arena_free(&a);
}

void check_latent(struct check *c)
{
    static const enum act acts[] = {ACT_F32, ACT_I16, ACT_INT8, ACT_F16};
    int on_gpu = strcmp(c->v[0].ops->name, "cpu") != 0;
    enum act was = c->act;
    for (int i = 0; i < 4; i++) {
        int exact = acts[i] == ACT_I16 || acts[i] == ACT_INT8;
        if (on_gpu ? (gpu.act != ACT_F32 ? acts[i] != gpu.act : exact) : acts[i] == ACT_F16)
            continue;
        c->act = acts[i];
        for (int j = 0; j < (c->quick ? N_QUICK : N_CASES); j++)
            if (acts[i] == ACT_F32 || on_gpu || kv_is_integer(cases[j].kv))
                check_case(c, &cases[j]);
    }
    c->act = was;
}
