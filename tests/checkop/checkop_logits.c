/* checkop_logits.c: argmax and top, of every backend the same: argmax is the first of the largest
 * logits, -1 where one is NaN or the largest is infinite; top has the logits of ever_top.h. */
#include "tests/checkop/checkop.h"
#include "tests/unit/ever_top.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ARGMAX_KINDS = 12 };

static void fill_logits(struct rng *r, int kind, float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = rng_normal(r) - (kind == 1 ? 100 : 0);
    if (kind == 2) x[n - 1] = 50;
    if (kind == 3) x[0] = 50;
    if (kind == 4)
        for (int i = 0; i < 3; i++) x[rng_below(r, n)] = 50; /* a tie */
    if (kind == 5)
        for (int i = 0; i < n; i++) x[i] = 7;
    if (kind == 6) /* +0 and -0 are equal, the rest below */
        for (int i = 0; i < n; i++)
            x[i] = i % 5 == 3 ? 0.0f : i % 5 == 1 ? -0.0f : -1 - (float)(i % 3);
    if (kind == 7)
        for (int i = 0; i < n; i++) x[i] = i % 2 ? -INFINITY : -3e38f - (float)(i % 7) * 1e30f;
    if (kind == 8)
        for (int i = 0; i < n; i++) x[i] = -INFINITY;
    if (kind == 9) x[rng_below(r, n)] = NAN;
    if (kind == 10) x[rng_below(r, n)] = INFINITY;
    if (kind == 11) x[0] = x[n - 1] = -NAN, x[n / 2] = INFINITY;
}

/* The definition, plainly. */
static int32_t largest_of(const float *x, int n)
{
    int32_t best = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(x[i])) return -1;
        if (x[i] > x[best]) best = i;
    }
    return isinf(x[best]) ? -1 : best;
}

static void run_argmax(struct check *c, int v, const char *name, const struct variant *on,
                       int n_threads, const float *x, int rows, int vocab, int32_t *id)
{
    struct side s;
    struct arena a = {0};
    side_open(&s, on, n_threads, plain_config(rows));
    struct batch b = make_plain_batch(&a, rows, rows);
    struct dbuf dx = dbuf_from(&s, x, (size_t)rows * (size_t)vocab * 4),
                di = dbuf_new(&s, (size_t)rows * 4);
    b.logit_row = b.pos;
    b.n_logits = rows;
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_ARGMAX);
    op->in[0] = trial_buffer(&t, dx.d, ROWS_LOGITS, (size_t)vocab * 4);
    op->out[0] = trial_buffer(&t, di.d, ROWS_LOGITS, 4);
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &di, id);
    compare_fences(c, v, name, "output", &s, &di);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &di);
    side_close(&s);
    arena_free(&a);
}

/* argmax is exact: the lowest index of the largest, if that is a number. */
void check_argmax(struct check *c)
{
    static const int vocabs[] = {1, 2, 7, 16, 31, 33, 100, 1000, 32003, 128256};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        int vocab = vocabs[i], rows = ARGMAX_KINDS * 2;
        snprintf(name, NAME_BYTES, "%d rows of %d", rows, vocab);
        struct rng r = rng_for(c->seed, name);
        float *x = arena_get(&a, (size_t)rows * (size_t)vocab * 4);
        int32_t want[ARGMAX_KINDS * 2] = {0}, got[ARGMAX_KINDS * 2];
        for (int t = 0; t < rows; t++) {
            float *row = x + (size_t)t * (size_t)vocab;
            fill_logits(&r, t % ARGMAX_KINDS, row, vocab);
            want[t] = largest_of(row, vocab);
        }
        run_argmax(c, REF, name, &c->ref, 1, x, rows, vocab, got);
        count_case(c, REF);
        compare_bits(c, REF, name, "index", got, want, (size_t)rows, 1);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_argmax(c, v, name, &c->v[v], 3, x, rows, vocab, got);
            compare_bits(c, v, name, "index", got, want, (size_t)rows, 1);
        }
        arena_free(&a);
    }
}

enum { TOP_KINDS = ARGMAX_KINDS + 7 };

/* Rows whose largest ones stand where a kernel that looks at parts of a row has to be right, too.
 */
static void fill_top(struct rng *r, int kind, float *x, int n)
{
    fill_logits(r, kind, x, n);
    if (kind == ARGMAX_KINDS) /* the best come last, the best come first */
        for (int i = 0; i < n; i++) x[i] = (float)i;
    if (kind == ARGMAX_KINDS + 1)
        for (int i = 0; i < n; i++) x[i] = (float)-i;
    if (kind == ARGMAX_KINDS + 2) /* side by side, in the middle */
        for (int i = n / 2; i < n && i < n / 2 + 100; i++) x[i] = 20 + rng_normal(r);
    if (kind == ARGMAX_KINDS + 3) /* a multiple of threads apart */
        for (int i = rng_below(r, n); i < n; i += 256) x[i] = 20 + rng_normal(r);
    if (kind == ARGMAX_KINDS + 4) /* few values, many of each */
        for (int i = 0; i < n; i++) x[i] = (float)rng_below(r, 3);
    if (kind == ARGMAX_KINDS + 5) /* hardly any */
        for (int i = 0; i < n; i++) x[i] = rng_below(r, n) < 50 ? x[i] : -INFINITY;
    if (kind == ARGMAX_KINDS + 6) /* last bits matter, of either sign */
        for (int i = 0; i < n; i++)
            x[i] = f32_from_bits((i % 2 ? 0x80000000u : 0) |
                                 (0x00000001u + (uint32_t)rng_below(r, 40)));
}

/* Those of the row that were found: all that must be and in order; the rest of the room untouched.
 */
static void check_found(struct check *c, int v, const char *name, int row, const float *x, int n,
                        uint8_t *is, const struct logits_entry *got)
{
    int n_ever = ever_top(x, n, OP_TOP_KEPT, is), n_got = 0, last = -1, bad = 0;
    if (got[0].id == -1) {
        if (n_ever && n_ever <= OP_TOP_ROOM / 2)
            fail(c, v, name, "row %d: no room for %d logits", row, n_ever);
        return;
    }
    for (; n_got < OP_TOP_ROOM && got[n_got].id != -1 && !bad; n_got++) {
        int id = got[n_got].id;
        bad = id <= last || id >= n ||
              f32_bits(got[n_got].value) != f32_bits(x[id < 0 || id >= n ? 0 : id]);
        if (bad) break;
        n_ever -= is[id];
        last = id;
    }
    if (bad)
        fail(c, v, name, "row %d: entry %d is %d, %g", row, n_got, got[n_got].id,
             (double)got[n_got].value);
    else if (n_ever) fail(c, v, name, "row %d: %d logits are not there", row, n_ever);
    else if (n > 4 * OP_TOP_ROOM && n_got > n / 4)
        fail(c, v, name, "row %d: nothing is left out", row);
}

static void run_top(struct check *c, int v, const char *name, const struct variant *on,
                    int n_threads, const float *x, int rows, int vocab, const int32_t *top_row,
                    int n_top, struct logits_entry *got)
{
    struct side s;
    struct arena a = {0};
    size_t bytes = (size_t)n_top * OP_TOP_ROOM * sizeof *got;
    side_open(&s, on, n_threads, plain_config(rows));
    struct batch b = make_plain_batch(&a, rows, rows);
    b.top_row = memcpy(arena_get(&a, (size_t)n_top * sizeof *top_row), top_row,
                       (size_t)n_top * sizeof *top_row);
    b.n_top = n_top;
    struct dbuf dx = dbuf_from(&s, x, (size_t)rows * (size_t)vocab * 4), dt = dbuf_new(&s, bytes);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_TOP);
    op->in[0] = trial_buffer(&t, dx.d, ROWS_LOGITS, (size_t)vocab * 4);
    op->out[0] = trial_buffer(&t, dt.d, ROWS_TOP, OP_TOP_ROOM * sizeof *got);
    trial_run(&t, &s, &b, 0);
    dbuf_get(&s, &dt, got);
    compare_fences(c, v, name, "output", &s, &dt);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dt);
    side_close(&s);
    arena_free(&a);
}

/* Of some rows in any order: what must be there is, exactly. Rows with NaN are only to do no harm.
 */
void check_top(struct check *c)
{
    static const struct {
        int vocab, rows;
    } sizes[] = {{1, 3},    {63, TOP_KINDS},   {64, TOP_KINDS},    {65, TOP_KINDS},
                 {700, 65}, {4097, TOP_KINDS}, {32003, TOP_KINDS}, {131101, TOP_KINDS}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !is_caught(c); i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        int vocab = sizes[i].vocab, rows = sizes[i].rows, n = rows - 2;
        if (c->quick && vocab > 100000) continue;
        snprintf(name, NAME_BYTES, "%d rows of %d", rows, vocab);
        struct rng r = rng_for(c->seed, name);
        float *x = arena_get(&a, (size_t)rows * (size_t)vocab * 4);
        int32_t *row = arena_get(&a, (size_t)rows * 4);
        uint8_t *is = arena_get(&a, (size_t)vocab);
        struct logits_entry *got = arena_get(&a, (size_t)rows * OP_TOP_ROOM * sizeof *got);
        for (int t = 0; t < rows; t++) {
            row[t] = rows - 1 - t;
            fill_top(&r, row[t] % TOP_KINDS, x + (size_t)row[t] * (size_t)vocab, vocab);
        }
        for (int v = 0; v < c->n; v++) {
            run_top(c, v, name, &c->v[v], 3, x, rows, vocab, row, n, got);
            count_case(c, v);
            for (int t = 0; t < n; t++) {
                int kind = row[t] % TOP_KINDS;
                if (kind == 9 || kind == 11) continue;
                check_found(c, v, name, row[t], x + (size_t)row[t] * (size_t)vocab, vocab, is,
                            got + (size_t)t * OP_TOP_ROOM);
            }
        }
        arena_free(&a);
    }
}
