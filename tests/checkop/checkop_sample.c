/* checkop_sample.c: the tokens that a device draws are those of the sampler on the host, for any
 * parameters that it describes: flat and peaked rows, ties beyond every table of the kernel, the
 * largest bits of the draw, masks. */
#include "core/sample/sampler.h"
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KINDS = 14, HISTORY = 40, BIASES = 6 };

/* A row of logits and how its token is chosen. */
struct draw_case {
    struct sampler_params p;
    struct sampler_bias bias[BIASES];
    int32_t prompt[HISTORY], generated[HISTORY], stop[2];
    struct sampler_context c;
    const uint32_t *mask; /* [(vocab + 31) / 32], or NULL */
    int32_t want;
};

static double uniform(struct rng *r) { return (rng_below(r, 1 << 24) + 0.5) / (1 << 24); }

static void fill_logits_row(struct rng *r, int kind, float *x, int n)
{
    static const float spread[KINDS] = {1, 6, 0.01f, 0, 3, 1e-6f, 0.3f, 20, 2, 1, 2, 4, 1, 1};
    for (int i = 0; i < n; i++) x[i] = rng_normal(r) * spread[kind] - (kind == 1 ? 50 : 0);
    for (int i = 0; kind == 3 && i < n; i++) x[i] = i % 3 ? 1.5f : i % 2 ? -0.0f : 0.0f;
    for (int i = 0; kind == 4 && i < n; i++) x[i] = (float)(int)x[i]; /* few values */
    for (int i = 0; kind == 8 && i < n; i++)
        if (rng_below(r, 4)) x[i] = -INFINITY;
    for (int i = 0; kind == 9 && i < 40; i++) x[rng_below(r, n)] = 8 + 3 * rng_normal(r);
    if (kind == 10) x[rng_below(r, n)] = NAN;
    if (kind == 11) x[n - 1] = 100;
    for (int i = 0; kind == 12 && i < n; i++) x[i] = 7;
    for (int i = 0; kind == 13 && i < n; i++) x[i] = -INFINITY;
    if (kind == 13) x[n / 2] = -3e38f;
}

static void fill_history(struct rng *r, struct draw_case *d, int vocab)
{
    int kinds = vocab < 30 ? vocab : 30;
    for (int i = 0; i < HISTORY; i++) {
        d->prompt[i] = rng_below(r, vocab);
        d->generated[i] = rng_below(r, 2) ? rng_below(r, kinds) : d->prompt[i];
    }
    d->c.n_prompt = rng_below(r, HISTORY + 1);
    d->c.n_generated = rng_below(r, HISTORY + 1);
}

static void fill_changes(struct rng *r, struct draw_case *d, int vocab)
{
    struct sampler_params *p = &d->p;
    if (rng_below(r, 2)) p->repetition_penalty = 0.5 + uniform(r);
    if (rng_below(r, 2)) p->frequency_penalty = uniform(r) - 0.3;
    if (rng_below(r, 2)) p->presence_penalty = uniform(r) - 0.3;
    if (rng_below(r, 2)) p->penalty_last_n = rng_below(r, HISTORY);
    if (rng_below(r, 2)) p->min_tokens = HISTORY;
    for (int i = 0; i < 2; i++) d->stop[i] = rng_below(r, vocab);
    p->stop_ids = d->stop;
    p->n_stop_ids = rng_below(r, 3);
    p->bias = d->bias;
    p->n_bias = vocab > BIASES ? rng_below(r, BIASES + 1) : 0;
    for (int i = 0; i < p->n_bias; i++)
        d->bias[i] = (struct sampler_bias){vocab / BIASES * i + rng_below(r, vocab / BIASES),
                                           rng_below(r, 3) ? 4 * rng_normal(r) : -INFINITY};
}

static void fill_case(struct rng *r, struct draw_case *d, int vocab)
{
    struct sampler_params *p = &d->p;
    *d = (struct draw_case){.p = {.temperature = 0.1 + 2 * uniform(r),
                                  .top_p = 1,
                                  .typical_p = 1,
                                  .repetition_penalty = 1}};
    d->c = (struct sampler_context){.params = p,
                                    .key = sampler_key(3, (uint64_t)rng_below(r, 1 << 30), 0),
                                    .prompt = d->prompt,
                                    .generated = d->generated};
    fill_history(r, d, vocab);
    if (rng_below(r, 2)) p->top_p = rng_below(r, 4) ? uniform(r) : 1 - 1e-16;
    if (rng_below(r, 8) == 0) p->top_p = 0;
    if (rng_below(r, 3) == 0) p->top_k = 1 + rng_below(r, rng_below(r, 2) ? 40 : vocab);
    if (rng_below(r, 3) == 0) p->min_p = uniform(r) * uniform(r);
    if (rng_below(r, 8) == 0) p->temperature = rng_below(r, 2) ? 1e-5 : 1e5;
    if (rng_below(r, 3) == 0) fill_changes(r, d, vocab);
    if (rng_below(r, 8) == 0 && sampler_adjusts(p, d->c.n_generated)) p->temperature = 0;
}

/* What the host chooses; -1: nothing. */
static int32_t chosen_by_host(struct sampler *s, const struct draw_case *d, const float *x, int n)
{
    struct arena a = {0};
    struct err e;
    float *y = memcpy(arena_get(&a, (size_t)n * sizeof *y), x, (size_t)n * sizeof *y);
    int32_t id = -1, best = logits_argmax(y, n), is_number = best >= 0;
    if (d->mask) logits_mask(x, n, d->mask, y);
    if (is_number && sampler_adjusts(&d->p, d->c.n_generated)) sampler_adjust(s, &d->c, y);
    if (is_number) best = logits_argmax(y, n);
    if (sampler_choose(s, &d->c, y, best, &id, &e)) id = -1;
    arena_free(&a);
    return id;
}

/* Rows of logits x [rows][vocab], and the batch with their draws. */
struct drawn_rows {
    const float *x;
    int rows, vocab;
    struct batch b; /* masks [rows] are the host's */
};

static struct dbuf draw(struct side *s, struct arena *a, const struct drawn_rows *d,
                        const int32_t *best, struct dbuf *dx, struct dbuf *ds)
{
    const int rows = d->rows, vocab = d->vocab;
    struct batch b = make_plain_batch(a, rows, rows);
    b.sample = d->b.sample;
    b.change = d->b.change;
    b.n_samples = d->b.n_samples;
    b.n_changes = d->b.n_changes;
    b.logit_row = b.pos;
    b.n_logits = rows;
    *dx = dbuf_from(s, d->x, (size_t)rows * (size_t)vocab * 4);
    struct dbuf di = dbuf_from(s, best, (size_t)rows * 4),
                dm = dbuf_from(s, d->b.masks, (size_t)rows * (size_t)((vocab + 31) / 32) * 4);
    b.masks = (const uint32_t *)(const void *)dm.d;
    *ds = dbuf_new(s, ((size_t)b.n_samples + 1) * sizeof(struct logits_score));
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_SAMPLE);
    op->in[0] = trial_buffer(&t, dx->d, ROWS_LOGITS, (size_t)vocab * 4);
    op->in[1] = op->out[0] = trial_buffer(&t, di.d, ROWS_LOGITS, 4);
    op->in[2] = trial_buffer(&t, ds->d, ROWS_SCORES, sizeof(struct logits_score));
    trial_run(&t, s, &b, 0);
    dbuf_free(s, &dm);
    return di;
}

/* The logits of the tokens, as they were before changes: entry i is that of draw i. */
static void check_logits(struct check *c, int v, const char *name, const struct drawn_rows *d,
                         const int32_t *best, const struct logits_score *score)
{
    for (int i = 0; i < d->b.n_samples; i++) {
        int row = d->b.sample[i].row;
        float want = best[row] < 0 ? 0 : d->x[(size_t)row * (size_t)d->vocab + (size_t)best[row]];
        if (best[row] >= 0 && score[i].logit != want)
            fail(c, v, name, "row %d: the token's logit is %g, not %g", row, score[i].logit, want);
    }
}

/* best [rows]: the argmax of each row, then the tokens. Before that the device draws by each
 * other's parameters: nothing of it may be left. */
static void run_sample(struct check *c, int v, const char *name, const struct drawn_rows *d,
                       int32_t *best)
{
    struct side s;
    struct arena a = {0};
    struct drawn_rows other = *d;
    size_t n = (size_t)d->b.n_samples;
    other.b.sample = arena_get(&a, (n + 1) * sizeof *other.b.sample);
    for (size_t i = 0; i < n; i++) {
        other.b.sample[i] = d->b.sample[(i + 1) % n];
        other.b.sample[i].row = d->b.sample[i].row;
    }
    side_open(&s, &c->v[v], 3, plain_config(d->rows));
    struct logits_score *score = arena_get(&a, (n + 1) * sizeof *score);
    struct dbuf dx[2], ds[2],
        di[2] = {draw(&s, &a, &other, best, &dx[0], &ds[0]), draw(&s, &a, d, best, &dx[1], &ds[1])};
    dbuf_get(&s, &di[1], best);
    dbuf_get(&s, &ds[1], score);
    check_logits(c, v, name, d, best, score);
    compare_fences(c, v, name, "output", &s, &di[1]);
    for (int i = 0; i < 2; i++) {
        dbuf_free(&s, &dx[i]);
        dbuf_free(&s, &di[i]);
        dbuf_free(&s, &ds[i]);
    }
    side_close(&s);
    arena_free(&a);
}

/* Few tokens of a mask may come, about half, or all but a few; now and then one that is alone. */
static const uint32_t *fill_mask(struct rng *r, uint32_t *mask, int vocab)
{
    int kind = rng_below(r, 4);
    for (int i = 0; i < vocab; i++) {
        int may = kind == 0 ? !rng_below(r, 50) : kind == 1 ? rng_below(r, 2) : rng_below(r, 50);
        mask[i / 32] |= (uint32_t)(may != 0 && kind < 3) << i % 32;
    }
    int sure = rng_below(r, vocab);
    mask[sure / 32] |= 1u << sure % 32;
    return mask;
}

/* Every third row is not drawn and keeps its argmax. */
static void check_rows(struct check *c, int rows, int vocab)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    struct sampler s;
    struct err e;
    snprintf(name, NAME_BYTES, "%d rows of %d", rows, vocab);
    struct rng r = rng_for(c->seed, name);
    float *x = arena_get(&a, (size_t)rows * (size_t)vocab * 4);
    struct draw_case *d = arena_get(&a, (size_t)rows * sizeof *d);
    int32_t *best = arena_get(&a, (size_t)rows * 4), *got = arena_get(&a, (size_t)rows * 4);
    size_t words = (size_t)(vocab + 31) / 32;
    uint32_t *masks = arena_get(&a, (size_t)rows * words * sizeof *masks); /* zeros */
    struct batch b = {.masks = masks,
                      .sample = arena_get(&a, (size_t)rows * sizeof *b.sample),
                      .change = arena_get(&a, BATCH_CHANGES * sizeof *b.change)};
    if (sampler_open(&s, vocab, &e)) CHECK(!"memory");
    for (int i = 0; i < rows; i++) {
        float *row = x + (size_t)i * (size_t)vocab;
        fill_logits_row(&r, i % KINDS, row, vocab);
        fill_case(&r, &d[i], vocab);
        if (rng_below(&r, 3) == 0) d[i].mask = fill_mask(&r, masks + (size_t)i * words, vocab);
        best[i] = d[i].want = logits_argmax(row, vocab);
        struct batch_sample *to = &b.sample[b.n_samples];
        if (i % 3 == 2 ||
            !sampler_describe(&s, &d[i].c, to, b.change + b.n_changes, BATCH_CHANGES - b.n_changes))
            continue;
        d[i].want = chosen_by_host(&s, &d[i], row, vocab);
        to->row = i;
        to->mask = d[i].mask ? i + 1 : 0;
        to->first_change = b.n_changes;
        b.n_changes += to->n_changes;
        to->score = ++b.n_samples;
    }
    for (int v = 0; v < c->n && !is_caught(c); v++) {
        memcpy(got, best, (size_t)rows * sizeof *got);
        run_sample(c, v, name, &(struct drawn_rows){x, rows, vocab, b}, got);
        count_case(c, v);
        for (int i = 0; i < rows; i++)
            if (got[i] != d[i].want)
                fail(c, v, name, "row %d: token %d, not %d (T %g, top_p %g, top_k %d, min_p %g)", i,
                     got[i], d[i].want, d[i].p.temperature, d[i].p.top_p, d[i].p.top_k,
                     d[i].p.min_p);
    }
    sampler_close(&s);
    arena_free(&a);
}

void check_sample(struct check *c)
{
    static const int vocabs[] = {1, 3, 64, 1000, 4097, 32003, 128256};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs && !is_caught(c); i++) {
        if (c->quick && vocabs[i] > 100000) continue;
        check_rows(c, vocabs[i] > 10000 ? 2 * KINDS : 15 * KINDS, vocabs[i]); /* few and many */
        check_rows(c, 3, vocabs[i]);
    }
}
