/* checkop_score.c: what a device finds for log-probabilities has the bits of core/sample/logits.c:
 * sums, the largest logits and their order, ranks, whatever the row looks like. */
#include "core/sample/logits.h"
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KINDS = 10, MANY_IN_FEW = 7 };

static void fill_logits_row(struct rng *r, int kind, float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = rng_normal(r) * (kind == 1 ? 30 : 3);
    for (int i = 0; kind == 2 && i < n; i++) x[i] = 7; /* ties */
    for (int i = 0; kind == 3 && i < n; i++) x[i] = i % 3 ? -0.0f : 0.0f;
    for (int i = 0; kind == 4 && i < n; i++) x[i] = (float)i * 1e-3f;
    for (int i = 0; kind == 5 && i < n; i++) x[i] = -(float)i;
    for (int i = 0; kind == 6 && i < n; i++)
        if (i && rng_below(r, 4)) x[i] = -INFINITY;
    /* more in half as many groups of threads as alternatives are asked for than a block has room
     * for */
    for (int i = 0; kind == MANY_IN_FEW && i < n; i++)
        x[i] = i % 960 < 320 ? 9 + (float)(i % 7) : -20;
    for (int i = 0; kind == 8 && i < n; i++) x[i] = (float)(int)x[i]; /* few values */
    if (kind == 9) x[rng_below(r, n)] = 60;
}

/* The definition, plainly. */
static struct logits_score score_of(const float *x, int n, const struct batch_score *b)
{
    struct logits_score s = {.rank = 1, .n_top = b->n_top};
    int best = logits_argmax(x, n), id = b->id < 0 ? best : b->id;
    int32_t top[OP_SCORE_TOP];
    s.max = x[best];
    s.logit = x[id];
    s.sum = logits_sum_exp(x, n, s.max, 1);
    for (int i = 0; i < n; i++) s.rank += x[i] > x[id] || (x[i] == x[id] && i < id);
    logits_top(x, n, b->n_top, top);
    for (int i = 0; i < b->n_top; i++) s.top[i] = (struct logits_entry){x[top[i]], top[i]};
    return s;
}

static void run_score(struct check *c, int v, const char *name, const float *x, int vocab,
                      const struct batch *scores, struct logits_score *got)
{
    struct side s;
    struct arena a = {0};
    const int rows = scores->n_logits;
    size_t bytes = (size_t)scores->n_scores * sizeof *got;
    int32_t *best = arena_get(&a, (size_t)rows * 4);
    for (int i = 0; i < rows; i++) best[i] = logits_argmax(x + (size_t)i * (size_t)vocab, vocab);
    side_open(&s, &c->v[v], 3, plain_config(rows));
    struct batch b = make_plain_batch(&a, rows, rows);
    b.score = scores->score;
    b.n_scores = scores->n_scores;
    b.logit_row = b.pos;
    b.n_logits = rows;
    struct dbuf dx = dbuf_from(&s, x, (size_t)rows * (size_t)vocab * 4),
                di = dbuf_from(&s, best, (size_t)rows * 4), ds = dbuf_new(&s, bytes);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_SCORE);
    op->in[0] = trial_buffer(&t, dx.d, ROWS_LOGITS, (size_t)vocab * 4);
    op->in[1] = trial_buffer(&t, di.d, ROWS_LOGITS, 4);
    op->out[0] = trial_buffer(&t, ds.d, ROWS_SCORES, sizeof *got);
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &ds, got);
    compare_fences(c, v, name, "output", &s, &ds);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &di);
    dbuf_free(&s, &ds);
    side_close(&s);
    arena_free(&a);
}

static int is_same(const struct logits_score *a, const struct logits_score *b)
{
    if (memcmp(&a->sum, &b->sum, sizeof a->sum) || a->max != b->max || a->logit != b->logit ||
        a->rank != b->rank || a->n_top != b->n_top)
        return 0;
    for (int i = 0; i < a->n_top; i++)
        if (a->top[i].id != b->top[i].id || a->top[i].value != b->top[i].value) return 0;
    return 1;
}

/* Every fourth row has no score. */
static void check_rows(struct check *c, int rows, int vocab)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    snprintf(name, NAME_BYTES, "%d rows of %d", rows, vocab);
    struct rng r = rng_for(c->seed, name);
    float *x = arena_get(&a, (size_t)rows * (size_t)vocab * 4);
    struct batch b = {.n_logits = rows, .score = arena_get(&a, (size_t)rows * sizeof *b.score)};
    struct logits_score *want = arena_get(&a, (size_t)rows * sizeof *want),
                        *got = arena_get(&a, (size_t)rows * sizeof *got);
    for (int i = 0; i < rows; i++) {
        float *row = x + (size_t)i * (size_t)vocab;
        fill_logits_row(&r, i % KINDS, row, vocab);
        if (i % 4 == 3) continue;
        int n_top = i % KINDS == MANY_IN_FEW ? OP_SCORE_TOP : rng_below(&r, OP_SCORE_TOP + 1);
        if (n_top > vocab) n_top = vocab;
        struct batch_score *to = &b.score[b.n_scores];
        *to = (struct batch_score){i, rng_below(&r, 2) ? -1 : rng_below(&r, vocab), n_top};
        want[b.n_scores++] = score_of(row, vocab, to);
    }
    for (int v = 0; v < c->n && !is_caught(c); v++) {
        run_score(c, v, name, x, vocab, &b, got);
        count_case(c, v);
        for (int i = 0; i < b.n_scores; i++)
            if (!is_same(&got[i], &want[i]))
                fail(c, v, name, "row %d: sum %a, rank %d, not %a, %d", b.score[i].row, got[i].sum,
                     got[i].rank, want[i].sum, want[i].rank);
    }
    arena_free(&a);
}

void check_score(struct check *c)
{
    static const int vocabs[] = {1, 7, 20, 64, 1000, 4097, 32003, 128256};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs && !is_caught(c); i++) {
        if (c->quick && vocabs[i] > 100000) continue;
        check_rows(c, 4 * KINDS, vocabs[i]);
    }
}
