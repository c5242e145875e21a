/* checkop_choose.c: choose, and attend over what it has chosen, over paged keys of latent heads.
 *
 * Keys are integers that every kind of pages holds exactly: of both parts element 0 is 127 in the
 * order in which it is stored, the others are -7 .. 7. Scores of a row are computed in double; a
 * position may be chosen whose score is within the roundings of the least that has to be:
 *     (hd + heads + 4) * 2^-24 * sum over heads of |w_h| sum_i |q_i k_i|
 * Rows without weights have only ties: the first positions are chosen. A row's attention has the
 * bits of plain attention in a sequence that holds the chosen keys alone; that of a row before them
 * the bits of plain attention. Rows in chunks, with more threads and on other variants have the
 * same choices and bits. */
#include "core/step/kv_open.h"
#include "engine/backends.h"
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQS = 3 };

struct choose_case {
    int n_heads, rest, rotated, top_k;
    int n_decode, n_seqs;
    struct span span[MAX_SEQS];
};

static const struct choose_case cases[] = {
    {3, 16, 4, 5, 1, 3, {{0, 40, 1}, {1, 0, 19}, {2, 30, 9}}},
    {17, 32, 16, 24, 1, 2, {{0, 300, 1}, {1, 10, 40}}},
    {40, 64, 64, 33, 1, 2, {{0, 530, 1}, {1, 14, 30}}},
    {8, 48, 8, 260, 1, 2, {{0, 600, 1}, {1, 250, 24}}},
    {8, 20, 8, 12, 1, 2, {{0, 60, 1}, {1, 10, 24}}}, /* on CPUs alone */
};
enum { N_CASES = sizeof cases / sizeof *cases, N_QUICK = 2 };

struct choose_data {
    const struct choose_case *k;
    struct be_config config;
    struct page_map pages;
    struct batch batch;
    int start[MAX_SEQS + 1], hd;
    float *key;   /* [positions][hd], sequence by sequence */
    float *q, *w; /* [rows][n_heads][hd], [rows][n_heads] */
};

/* A key whose parts are integers where they are transformed (kv_rotate), too. */
static void make_key(struct rng *r, int n, float *x)
{
    for (int i = 0; i < n; i++) x[i] = (float)(rng_below(r, 15) - 7);
    x[0] = 127;
}

static struct choose_data make_data(struct arena *a, struct rng *r, const struct choose_case *k,
                                    enum kv_type kv, enum act act)
{
    struct choose_data d = {.k = k, .hd = k->rest + k->rotated};
    int n_ctx[MAX_SEQS];
    for (int i = 0; i < k->n_seqs; i++) {
        n_ctx[i] = k->span[i].pos0 + k->span[i].rows;
        d.start[i + 1] = d.start[i] + n_ctx[i];
    }
    d.pages = make_pages(a, r, n_ctx, k->n_seqs);
    d.batch = make_batch(a, &d.pages, k->span, k->n_seqs, k->n_decode);
    size_t positions = (size_t)d.start[k->n_seqs], rows = (size_t)d.batch.n_rows, hd = (size_t)d.hd,
           heads = (size_t)k->n_heads;
    d.key = arena_get(a, positions * hd * 4);
    d.q = arena_get(a, rows * heads * hd * 4);
    d.w = arena_get(a, rows * heads * 4);
    for (size_t p = 0; p < positions; p++) {
        float *rot = d.key + p * hd + k->rest;
        make_key(r, k->rest, d.key + p * hd);
        make_key(r, k->rotated, rot);
        if (kv_is_integer(kv)) kv_rotate(rot, k->rotated, 1.0f / (float)kv_rotation(k->rotated));
    }
    for (size_t i = 0; i < rows * heads * hd; i++) d.q[i] = rng_normal(r) / 16;
    for (size_t i = 0; i < rows * heads; i++) d.w[i] = i / heads % 5 == 3 ? 0 : rng_normal(r);
    d.config = (struct be_config){
        .act = act, .kv = kv, .max_rows = (int)positions, .max_pages = d.batch.table_stride};
    d.config.max_seqs = d.config.max_rows;
    return d;
}

static float *key_of(const struct choose_data *d, int seq, int pos)
{
    return d->key + (size_t)(d->start[seq] + pos) * (size_t)d->hd;
}

/* ---- steps on a side */

struct choose_side {
    struct side s;
    struct dbuf kv, seats;
};

static void open_choose(struct choose_side *t, const struct choose_data *d, const struct variant *v,
                        int n_threads, int n_pages, int n_seqs)
{
    const struct kv_cache cache = {1, d->hd, d->k->rest};
    struct be_config config = d->config;
    side_open(&t->s, v, n_threads, config);
    t->kv = dbuf_new(&t->s, (size_t)n_pages * t->s.ops->kv_page_bytes(config.kv, &cache));
    t->seats = dbuf_new(&t->s, (size_t)n_seqs * kv_open_bytes(config.kv, &cache));
}

static void close_choose(struct choose_side *t)
{
    dbuf_free(&t->s, &t->kv);
    dbuf_free(&t->s, &t->seats);
    side_close(&t->s);
}

/* What a step computes for the rows of a batch. */
struct choose_step {
    const struct batch *b;
    const float *key;   /* [rows][hd] */
    const float *q, *w; /* of the rows; NULL: they are only stored */
    int top_k;          /* 0: attention to all positions */
    int32_t *chosen;    /* out [rows][top_k] */
    float *out;         /* out [rows][n_heads * rest] */
};

/* Copies parts of rows [n][hd]: of each `count` elements from `first` on. */
static struct dbuf part_of(struct side *s, const float *x, size_t n, int hd, int first, int count)
{
    struct arena a = {0};
    float *y = arena_get(&a, n * (size_t)count * 4);
    for (size_t i = 0; i < n && x; i++)
        memcpy(y + i * (size_t)count, x + i * (size_t)hd + first, (size_t)count * 4);
    struct dbuf b = dbuf_from(s, y, n * (size_t)count * 4);
    arena_free(&a);
    return b;
}

/* Choice and attention of the queries in buffer q. in: as of run_step() */
static void add_attention(struct trial *trial, const struct choose_data *d,
                          const struct choose_step *x, int q, const struct dbuf *in)
{
    const struct choose_case *k = d->k;
    struct heads g = {k->n_heads, 1, d->hd, k->rest, k->rotated};
    size_t heads = (size_t)k->n_heads;
    int chosen = NO_BUFFER;
    struct op *op;
    if (x->top_k) {
        op = trial_op(trial, OP_CHOOSE);
        op->in[0] = q;
        op->in[1] = trial_buffer(trial, in[3].d, ROWS_STEP, heads * 4);
        chosen = op->out[0] = trial_buffer(trial, in[8].d, ROWS_STEP, (size_t)x->top_k * 4);
        op->as.choose.heads = g, op->as.choose.top_k = x->top_k;
    }
    op = trial_op(trial, OP_ATTEND);
    op->in[0] = q, op->in[1] = chosen;
    op->out[0] = trial_buffer(trial, in[7].d, ROWS_STEP, heads * (size_t)k->rest * 4);
    op->as.attend.heads = g;
    op->as.attend.scale = 0.1f;
    op->as.attend.chosen = x->top_k;
}

static void run_step(struct choose_side *t, const struct choose_data *d,
                     const struct choose_step *x)
{
    const struct choose_case *k = d->k;
    const int n_heads = x->q ? k->n_heads : 1;
    size_t rows = (size_t)x->b->n_rows, heads = (size_t)n_heads, hd = (size_t)d->hd,
           half = (size_t)k->rotated / 2, top_k = (size_t)(x->top_k ? x->top_k : 1);
    float none[512] = {0};
    struct side *s = &t->s;
    struct dbuf in[] = {part_of(s, x->q, rows * heads, d->hd, 0, k->rest),
                        part_of(s, x->q, rows * heads, d->hd, k->rest, k->rotated),
                        dbuf_from(s, x->key, rows * hd * 4),
                        part_of(s, x->w, rows, n_heads, 0, n_heads),
                        dbuf_from(s, none, half * 4),
                        dbuf_new(s, rows * half * 8),
                        dbuf_new(s, rows * heads * hd * 4),
                        dbuf_new(s, rows * heads * (size_t)k->rest * 4),
                        dbuf_new(s, rows * top_k * 4)};
    struct heads g = {n_heads, 1, d->hd, k->rest, k->rotated};
    struct trial trial = {0};
    int kv = trial_kv(&trial, t->kv.d, 1, d->hd);
    trial.kv[kv].value_dim = k->rest;
    trial.d_seat[kv] = t->seats.d;
    struct op *angles = trial_angles(&trial, trial_vector(&trial, in[4].d, (int)half), (int)half, 1,
                                     in[5].d, in[5].d + rows * half * 4),
              *op = trial_op(&trial, OP_ROPE_STORE);
    op->in[0] = trial_buffer(&trial, in[0].d, ROWS_STEP, heads * (size_t)k->rest * 4);
    op->in[1] = op->in[2] = trial_buffer(&trial, in[2].d, ROWS_STEP, hd * 4);
    op->in[3] = angles->out[0], op->in[4] = angles->out[1];
    op->in[5] = trial_buffer(&trial, in[1].d, ROWS_STEP, heads * half * 8);
    int q = op->out[0] = trial_buffer(&trial, in[6].d, ROWS_STEP, heads * hd * 4);
    op->as.rope.heads = g, op->as.rope.kv = kv, op->as.rope.joined = 1;
    if (x->q) add_attention(&trial, d, x, q, in);
    trial_run(&trial, s, x->b, 0);
    if (x->q) dbuf_get(s, &in[7], x->out);
    if (x->q && x->top_k) dbuf_get(s, &in[8], x->chosen);
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        CHECK(dbuf_fences_hold(s, &in[i]));
        dbuf_free(s, &in[i]);
    }
    CHECK(dbuf_fences_hold(s, &t->kv) && dbuf_fences_hold(s, &t->seats));
}

/* The keys of spans, one behind the other. */
static float *keys_of(struct arena *a, const struct choose_data *d, const struct span *span, int n)
{
    size_t rows = 0, hd = (size_t)d->hd;
    for (int i = 0; i < n; i++) rows += (size_t)span[i].rows;
    float *key = arena_get(a, rows * hd * 4), *to = key;
    for (int i = 0; i < n; to += (size_t)span[i++].rows * hd)
        memcpy(to, key_of(d, span[i].seq, span[i].pos0), (size_t)span[i].rows * hd * 4);
    return key;
}

/* What a run gives: of all rows. */
struct chosen_run {
    int32_t *chosen;
    float *out;
};

/* The past, then the rows in steps of at most `chunk` of a sequence; 0: all in one. */
static void run_all(const struct choose_data *d, const struct variant *v, int n_threads, int top_k,
                    int chunk, struct chosen_run to)
{
    struct choose_side t;
    struct arena a = {0};
    const struct choose_case *k = d->k;
    struct span past[MAX_SEQS];
    int n = 0, row = 0;
    size_t heads = (size_t)k->n_heads, out = heads * (size_t)k->rest;
    open_choose(&t, d, v, n_threads, d->pages.n_pages, k->n_seqs);
    for (int i = 0; i < k->n_seqs; i++)
        if (k->span[i].pos0) past[n++] = (struct span){k->span[i].seq, 0, k->span[i].pos0};
    struct batch b = make_batch(&a, &d->pages, past, n, 0);
    run_step(&t, d, &(struct choose_step){.b = &b, .key = keys_of(&a, d, past, n)});
    for (int i = 0; i < (chunk ? k->n_seqs : 1); i++)
        for (int done = 0, rows; chunk ? done < k->span[i].rows : !row; done += rows, row += rows) {
            struct span part = {i, k->span[i].pos0 + done, chunk};
            int left = k->span[i].rows - done;
            if (chunk > left) part.rows = left;
            if (chunk) b = make_batch(&a, &d->pages, &part, 1, i < k->n_decode);
            rows = chunk ? part.rows : d->batch.n_rows;
            run_step(&t, d,
                     &(struct choose_step){.b = chunk ? &b : &d->batch,
                                           .key = chunk ? keys_of(&a, d, &part, 1)
                                                        : keys_of(&a, d, k->span, k->n_seqs),
                                           .q = d->q + (size_t)row * heads * (size_t)d->hd,
                                           .w = d->w + (size_t)row * heads,
                                           .top_k = top_k,
                                           .chosen = to.chosen + (size_t)row * (size_t)k->top_k,
                                           .out = to.out + (size_t)row * out});
        }
    close_choose(&t);
    arena_free(&a);
}

/* Row `row` with the chosen keys as a sequence of its own. */
static void run_alone(const struct choose_data *d, const struct variant *v, int row,
                      const int32_t *chosen, float *out)
{
    struct choose_side t;
    struct arena a = {0};
    struct rng r = {1};
    const struct choose_case *k = d->k;
    size_t hd = (size_t)d->hd, n = (size_t)k->top_k;
    float *key = arena_get(&a, n * hd * 4);
    for (size_t i = 0; i < n; i++)
        memcpy(key + i * hd, key_of(d, d->batch.seq[row], chosen[i]), hd * 4);
    struct page_map pages = make_pages(&a, &r, &k->top_k, 1);
    struct span past = {0, 0, k->top_k - 1}, last = {0, k->top_k - 1, 1};
    struct batch before = make_batch(&a, &pages, &past, 1, 0),
                 now = make_batch(&a, &pages, &last, 1, 1);
    open_choose(&t, d, v, 1, pages.n_pages, 1);
    run_step(&t, d, &(struct choose_step){.b = &before, .key = key});
    run_step(&t, d,
             &(struct choose_step){.b = &now,
                                   .key = key + (n - 1) * hd,
                                   .q = d->q + (size_t)row * (size_t)k->n_heads * hd,
                                   .w = d->w + (size_t)row * (size_t)k->n_heads,
                                   .out = out});
    close_choose(&t);
    arena_free(&a);
}

/* ---- what is expected */

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void check_choice(struct check *c, int v, const char *name, const struct choose_data *d,
                         int row, const int32_t *chosen)
{
    const struct choose_case *k = d->k;
    int pos = d->batch.pos[row], seq = d->batch.seq[row], n = pos + 1, hd = d->hd;
    struct arena a = {0};
    double *score = arena_get(&a, (size_t)n * sizeof *score),
           *sorted = arena_get(&a, (size_t)n * sizeof *sorted), mass = 0;
    char *is = arena_get(&a, (size_t)n);
    for (int p = 0; p < n; p++) {
        const float *key = key_of(d, seq, p);
        double size = 0;
        for (int h = 0; h < k->n_heads; h++) {
            const float *q = d->q + (size_t)(row * k->n_heads + h) * (size_t)hd;
            double s = 0, m = 0, w = d->w[row * k->n_heads + h];
            for (int i = 0; i < hd; i++)
                s += (double)q[i] * key[i], m += fabs((double)q[i] * key[i]);
            score[p] += w * (s > 0 ? s : 0);
            size += fabs(w) * m;
        }
        mass = fmax(mass, size);
    }
    memcpy(sorted, score, (size_t)n * sizeof *score);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    double least = sorted[k->top_k - 1], off = (hd + k->n_heads + 4) * U * mass;
    for (int i = 0; i < k->top_k; i++) {
        int bad = chosen[i] < 0 || chosen[i] > pos || (i && chosen[i] <= chosen[i - 1]) ||
                  (mass == 0 && chosen[i] != i);
        if (bad) fail(c, v, name, "row %d: choice %d is position %d", row, i, chosen[i]);
        if (bad) goto done;
        is[chosen[i]] = 1;
    }
    for (int p = 0; p < n; p++)
        if (is[p] ? score[p] < least - off : score[p] > least + off)
            fail(c, v, name, "row %d: position %d with score %g, least %g, is %schosen", row, p,
                 score[p], least, is[p] ? "" : "not ");
done:
    arena_free(&a);
}

/* The choices and the attention of all rows of a run. plain: of attention to all positions. */
static void check_rows(struct check *c, int v, const char *name, const struct variant *on,
                       const struct choose_data *d, struct chosen_run x, const float *plain)
{
    const struct choose_case *k = d->k;
    size_t n = (size_t)(k->n_heads * k->rest);
    struct arena a = {0};
    float *alone = arena_get(&a, n * 4);
    for (int row = 0; row < d->batch.n_rows && !is_caught(c); row++) {
        const float *out = x.out + (size_t)row * n;
        int32_t *chosen = x.chosen + (size_t)row * (size_t)k->top_k;
        if (d->batch.pos[row] < k->top_k) {
            memset(chosen, 0, (size_t)k->top_k * sizeof *chosen); /* nothing is written */
            compare_bits(c, v, name, "a row that sees all", out, plain + (size_t)row * n, n, n);
            continue;
        }
        int failed = v == REF ? c->ref_tally.n_failed : c->tally[v].n_failed;
        check_choice(c, v, name, d, row, chosen);
        if (failed != (v == REF ? c->ref_tally.n_failed : c->tally[v].n_failed)) break;
        run_alone(d, on, row, chosen, alone);
        compare_bits(c, v, name, "the chosen keys alone", out, alone, n, n);
    }
    arena_free(&a);
}

static struct chosen_run room_for(struct arena *a, const struct choose_data *d)
{
    size_t rows = (size_t)d->batch.n_rows;
    return (struct chosen_run){arena_get(a, rows * (size_t)d->k->top_k * sizeof(int32_t)),
                               arena_get(a, rows * (size_t)(d->k->n_heads * d->k->rest) * 4)};
}

static void check_case(struct check *c, const struct choose_case *k, enum kv_type kv)
{
    if (k->rest % 16 && !strcmp(c->v[0].ops->name, "hip")) return;
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "%s, %d heads of %d and %d, kv %s, %d chosen",
             act_formats[c->act].name, k->n_heads, k->rest, k->rotated, kv_formats[kv].name,
             k->top_k);
    struct rng r = rng_for(c->seed, name);
    struct choose_data d = make_data(&a, &r, k, kv, c->act);
    struct chosen_run x = room_for(&a, &d), other = room_for(&a, &d), kept = room_for(&a, &d),
                      plain = room_for(&a, &d);
    size_t n = (size_t)(k->n_heads * k->rest), all = (size_t)d.batch.n_rows * n,
           choices = (size_t)(d.batch.n_rows * k->top_k);
    for (int v = REF; v < c->n && !is_caught(c); v++) {
        const struct variant *on = v == REF ? &c->ref : &c->v[v];
        count_case(c, v);
        run_all(&d, on, 1, 0, 0, plain);
        run_all(&d, on, 1, k->top_k, 0, x);
        check_rows(c, v, name, on, &d, x, plain.out);
        if (v == REF || is_caught(c)) continue;
        compare_variants(c, v, name, "output", kept.out, x.out, all, n);
        for (int how = 0; how < 2; how++) {
            const char *what = how ? "chunks of 7" : "3 threads against 1";
            run_all(&d, on, how ? 1 : 3, k->top_k, how ? 7 : 0, other);
            for (int row = 0; row < d.batch.n_rows; row++)
                if (d.batch.pos[row] < k->top_k)
                    memset(other.chosen + row * k->top_k, 0, (size_t)k->top_k * sizeof(int32_t));
            compare_bits(c, v, name, what, other.chosen, x.chosen, choices, (size_t)k->top_k);
            compare_bits(c, v, name, what, other.out, x.out, all, n);
        }
    }
    arena_free(&a);
}

void check_choose(struct check *c)
{
    static const enum kv_type kinds[] = {KV_F16, KV_INT4, KV_F32, KV_INT8};
    enum act was = c->act;
    for (int i = 0; i < (c->quick ? N_QUICK : N_CASES); i++)
        for (int j = 0; j < 4; j++) {
            if (i >= (c->quick ? 1 : 2) && j > 1) continue;
            c->act = was != ACT_F32                           ? was
                     : kv_is_integer(kinds[j]) && (i + j) % 2 ? ACT_I16
                                                              : ACT_F32;
            if (!is_caught(c)) check_case(c, &cases[i], kinds[j]);
        }
    c->act = was;
}
