#include "quantize/solver.h"

#include "core/base/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = LANES_ROWS };

int solver_open(struct solver_matrix *m, int in, int out, int n_groups, struct err *e)
{
    size_t i = (size_t)in, o = (size_t)out, g = (size_t)n_groups;
    CHECK(in % TN_COLUMNS == 0 && out % ROWS == 0);
    *m = (struct solver_matrix){.in = in,
                                .out = out,
                                .n_groups = n_groups,
                                .w = malloc(i * o * sizeof *m->w),
                                .codes = malloc(i * o),
                                .scales = malloc(g * o * sizeof *m->scales),
                                .zeros = malloc(g * o)};
    if (m->w && m->codes && m->scales && m->zeros) return 0;
    solver_close(m);
    return err_memory(e);
}

void solver_close(struct solver_matrix *m)
{
    free(m->w);
    free(m->codes);
    free(m->scales);
    free(m->zeros);
    *m = (struct solver_matrix){0};
}

/* What a thread works on: ROWS outputs side by side, inputs in the order of the factor. */
struct panel {
    float *w, *raw;      /* [in][ROWS] */
    float *e;            /* [GPTQ_BLOCK][ROWS] */
    uint8_t *q;          /* [in][ROWS] */
    struct range *range; /* one group's */
    int bits;            /* its codes' */
};

struct solve_call {
    struct solver_matrix *m;
    const struct factor *f;
    const struct solver_settings *s;
    const struct quantize_kernels *k;
    struct panel *panel; /* [threads] */
    double *error;       /* [out][3] square sums: lost by outputs, lost by weights, weights */
};

static void take_panel(const struct solve_call *c, struct panel *t, int row)
{
    size_t in = (size_t)c->m->in;
    const float *w = c->m->w + (size_t)row * in;
    for (size_t i = 0; i < in; i++)
        for (size_t l = 0; l < ROWS; l++)
            t->w[i * ROWS + l] = c->f->dead[i] ? 0 : w[l * in + (size_t)c->f->order[i]];
    if (t->raw) memcpy(t->raw, t->w, in * ROWS * sizeof *t->w);
}

static void put_scales(const struct solve_call *c, const struct range *r, int group, int row)
{
    size_t at = (size_t)group * (size_t)c->m->out + (size_t)row;
    for (int l = 0; l < ROWS; l++) {
        c->m->scales[at + (size_t)l] = f16_from_f32(r->scale[l]);
        c->m->zeros[at + (size_t)l] = (uint8_t)r->zero[l];
    }
}

/* Plain rounding of places from .. to - 1. */
static void round_plain(const struct solve_call *c, struct panel *t, int from, int to)
{
    static const float one[TN_COLUMNS] = {1};
    for (int i = from; i < to; i++) {
        size_t at = (size_t)i * ROWS;
        const struct round_of o = {.w = t->w + at,
                                   .e = t->e,
                                   .q = t->q + at,
                                   .u = one,
                                   .range = t->range,
                                   .n = 1,
                                   .to = 1,
                                   .bits = t->bits};
        c->k->round_inputs(&o);
    }
}

/* The error of a block goes to the places behind it. */
static void pass_on(const struct solve_call *c, struct panel *t, const struct order_block *b)
{
    const float *u = c->f->u + b->at;
    for (int j = b->first; j < c->f->n; j += TN_COLUMNS, u += b->n * TN_COLUMNS) {
        if (j < b->first + b->n) continue;
        const struct tn_f32 call = {.c = t->w + (size_t)j * ROWS,
                                    .a = u,
                                    .b = t->e,
                                    .ldc = ROWS,
                                    .lda = TN_COLUMNS,
                                    .ldb = ROWS,
                                    .ni = TN_COLUMNS,
                                    .nj = ROWS,
                                    .nr = b->n,
                                    .minus = 1};
        c->k->tn_f32(&call);
    }
}

static void round_block(const struct solve_call *c, struct panel *t, const struct order_block *b,
                        int from, int to)
{
    size_t at = (size_t)b->first * ROWS;
    if (!c->f->solved) {
        round_plain(c, t, from, to);
        return;
    }
    const struct round_of o = {.w = t->w + at,
                               .e = t->e,
                               .q = t->q + at,
                               .u = c->f->u + b->at,
                               .range = t->range,
                               .raw = t->raw ? t->raw + at : NULL,
                               .beta = (float)c->s->beta,
                               .n = b->n,
                               .from = from - b->first,
                               .to = to - b->first,
                               .bits = t->bits};
    c->k->round_inputs(&o);
}

static void add_squares(const float *e, int n, double *error)
{
    for (int i = 0; i < n; i++)
        for (int l = 0; l < ROWS; l++)
            error[3 * l] += (double)e[i * ROWS + l] * (double)e[i * ROWS + l];
}

/* The rounded weights and codes back to the order of the inputs. */
static void put_panel(const struct solve_call *c, const struct panel *t, int row, double *error)
{
    size_t in = (size_t)c->m->in, out = (size_t)c->m->out;
    float *w = c->m->w + (size_t)row * in;
    for (size_t i = 0; i < in; i++) {
        size_t input = (size_t)c->f->order[i];
        memcpy(c->m->codes + input * out + (size_t)row, t->q + i * ROWS, ROWS);
        for (size_t l = 0; l < ROWS; l++) {
            double was = (double)w[l * in + input], is = (double)t->w[i * ROWS + l];
            error[3 * l + 1] += (was - is) * (was - is);
            error[3 * l + 2] += was * was;
            w[l * in + input] = t->w[i * ROWS + l];
        }
    }
}

/* Chooses the scales of a group that is reached. */
static void begin_group(const struct solve_call *c, struct panel *t, int g, int row)
{
    const struct order_group *group = &c->f->groups[g];
    int low = c->s->low_bits && g + 1 < c->f->n_groups;
    t->bits = low ? c->s->low_bits : c->s->bits;
    const struct range_of o = {t->w + (size_t)group->first * ROWS,
                               group->n,
                               t->bits,
                               c->s->sym,
                               c->s->search && (low || !c->s->low_bits),
                               low ? c->s->clip : 0};
    c->k->find_range(&o, t->range);
    put_scales(c, t->range, group->number, row);
}

static void solve_panel(void *arg, int task, int thread)
{
    const struct solve_call *c = arg;
    const struct factor *f = c->f;
    struct panel *t = &c->panel[thread];
    int row = task * ROWS, g = 0;
    double *error = c->error + 3 * (size_t)row;
    take_panel(c, t, row);
    for (int i = 0; i < f->n_blocks; i++) {
        const struct order_block *b = &f->blocks[i];
        int end = b->first + b->n;
        for (int at = b->first; at < end;) {
            while (at >= f->groups[g].first + f->groups[g].n) g++;
            const struct order_group *group = &f->groups[g];
            int to = group->first + group->n < end ? group->first + group->n : end;
            if (at == group->first) begin_group(c, t, g, row);
            round_block(c, t, b, at, to);
            at = to;
        }
        if (!f->solved) continue;
        add_squares(t->e, b->n, error);
        pass_on(c, t, b);
    }
    put_panel(c, t, row, error);
}

static int open_panels(struct solve_call *c, int n_threads, struct err *e)
{
    size_t places = (size_t)c->m->in * ROWS, bad = 0;
    c->panel = calloc((size_t)n_threads, sizeof *c->panel);
    for (int i = 0; i < n_threads && c->panel; i++) {
        struct panel *t = &c->panel[i];
        *t = (struct panel){.w = malloc(places * sizeof *t->w),
                            .raw = c->s->beta > 0 ? malloc(places * sizeof *t->raw) : NULL,
                            .e = malloc(GPTQ_BLOCK * ROWS * sizeof *t->e),
                            .q = malloc(places),
                            .range = malloc(sizeof *t->range)};
        bad += !t->w || !t->e || !t->q || !t->range || (c->s->beta > 0 && !t->raw);
    }
    return c->panel && !bad ? 0 : err_memory(e);
}

static void close_panels(struct solve_call *c, int n_threads)
{
    for (int i = 0; i < n_threads && c->panel; i++) {
        free(c->panel[i].w);
        free(c->panel[i].raw);
        free(c->panel[i].e);
        free(c->panel[i].q);
        free(c->panel[i].range);
    }
    free(c->panel);
}

static int run_host(struct solve_call *c, struct pool *p, struct err *e)
{
    int rc = open_panels(c, pool_n_threads(p), e);
    if (!rc) pool_run(p, c->m->out / ROWS, solve_panel, c);
    close_panels(c, pool_n_threads(p));
    return rc;
}

static int run_device(const struct solve_call *c, struct err *e)
{
    const struct factor *f = c->f;
    const struct solver_settings *s = c->s;
    const struct gptq_matrix m = {.in = c->m->in,
                                  .out = c->m->out,
                                  .order = f->order,
                                  .dead = f->dead,
                                  .group = f->groups,
                                  .block = f->blocks,
                                  .n_groups = f->n_groups,
                                  .n_blocks = f->n_blocks,
                                  .bits = s->bits,
                                  .low_bits = s->low_bits,
                                  .sym = s->sym,
                                  .search = s->search,
                                  .clip = s->clip,
                                  .beta = (float)s->beta,
                                  .w = c->m->w,
                                  .codes = c->m->codes,
                                  .scales = c->m->scales,
                                  .zeros = c->m->zeros,
                                  .error = c->error};
    return f->on->ops->gptq->round(f->on, &m, e);
}

int solver_run(struct solver_matrix *m, const struct factor *f, const struct solver_settings *s,
               struct pool *p, const struct quantize_kernels *k, struct err *e)
{
    struct solve_call c = {m, f, s, k, NULL, calloc((size_t)m->out * 3, sizeof *c.error)};
    double lost = 0, all = 0;
    CHECK(f->n == m->in && f->n_groups == m->n_groups);
    int rc = !c.error ? err_memory(e) : f->on ? run_device(&c, e) : run_host(&c, p, e);
    m->error = 0;
    for (int i = 0; i < m->out && !rc; i++) {
        m->error += c.error[3 * i];
        lost += c.error[3 * i + 1];
        all += c.error[3 * i + 2];
    }
    m->weight_error = all > 0 ? lost / all : 0;
    free(c.error);
    return rc;
}
