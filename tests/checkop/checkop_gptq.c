/* checkop_gptq.c: what a backend does for a quantizer (core/step/gptq.h) beside the host's loops:
 * sums over rows, factor and rounding, to the bit. Factors are compared by what is rounded with
 * them: an error of one passes on to all codes behind it. */
#include "quantize/solver.h"
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gptq_case {
    int n, rows, out, group, bits;
    enum quant_order kind;
    int asym, search, low_bits;
    double beta, damp;
    int apart;   /* elements between two rows */
    int indexed; /* rows in another order, some twice */
    int dead;    /* every so many inputs are 0 */
};

static const struct gptq_case cases[] = {
    {.n = 288,
     .rows = 300,
     .out = 96,
     .group = 128,
     .bits = 4,
     .search = 1,
     .dead = 50,
     .damp = .05},
    {.n = 160,
     .rows = 70,
     .out = 64,
     .group = 32,
     .bits = 3,
     .kind = ORDER_FULL,
     .asym = 1,
     .search = 1,
     .beta = .2,
     .indexed = 1,
     .apart = 32,
     .damp = .01},
    {.n = 320,
     .rows = 520,
     .out = 160,
     .group = 64,
     .bits = 8,
     .kind = ORDER_RISING,
     .low_bits = 4,
     .damp = .05},
    {.n = 64, .rows = 9, .out = 32, .group = 64, .bits = 2, .kind = ORDER_NONE, .asym = 1},
    {.n = 544, .rows = 1100, .out = 288, .group = 544, .bits = 8, .kind = ORDER_NONE, .damp = .05},
    {.n = 416,
     .rows = 257,
     .out = 128,
     .group = 96,
     .bits = 4,
     .kind = ORDER_FALLING,
     .low_bits = 4,
     .search = 1,
     .damp = .05},
    {.n = 1088,
     .rows = 256,
     .out = 64,
     .group = 128,
     .bits = 4,
     .search = 1,
     .beta = .2,
     .damp = .05},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_QUICK = 4 };

struct gptq_data {
    const struct gptq_case *k;
    float *x, *w;   /* [rows][n + apart], [out][n] */
    int64_t *index; /* or NULL */
    size_t stride;
};

static struct gptq_data make_data(struct arena *a, struct rng *r, const struct gptq_case *k)
{
    struct gptq_data d = {.k = k, .stride = (size_t)(k->n + k->apart)};
    size_t rows = (size_t)k->rows, n = (size_t)k->n;
    d.x = arena_get(a, rows * d.stride * sizeof *d.x);
    d.w = arena_get(a, (size_t)k->out * n * sizeof *d.w);
    for (size_t i = 0; i < rows * d.stride; i++) {
        int column = (int)(i % d.stride);
        d.x[i] = rng_normal(r) * (float)(1 + column % 7);
        if (column >= k->n) d.x[i] = NAN;
        else if (k->dead && column % k->dead == 1) d.x[i] = 0;
    }
    for (size_t i = 0; i < (size_t)k->out * n; i++) d.w[i] = rng_normal(r) * 0.05f;
    memset(d.w, 0, n * sizeof *d.w); /* an output of zeros */
    if (!k->indexed) return d;
    d.index = arena_get(a, rows * sizeof *d.index);
    for (int i = 0; i < k->rows; i++) d.index[i] = rng_below(r, k->rows);
    return d;
}

struct gptq_result {
    struct hessian h;
    struct factor f;
    struct solver_matrix m;
};

/* on: the device, or NULL: the host. */
static struct gptq_result run(const struct gptq_data *d, struct be *on, const float *x,
                              struct pool *pool)
{
    const struct gptq_case *k = d->k;
    const struct input_rows rows = {x, d->stride, d->index, k->rows};
    const struct factor_want want = {k->kind, k->group, k->damp, NULL};
    const struct solver_settings how = {k->bits, !k->asym,    k->search,
                                        k->beta, k->low_bits, k->low_bits ? 0.85f : 0};
    struct gptq_result r;
    struct err e;
    int rc = hessian_open(&r.h, k->n, on, &e);
    if (!rc) {
        hessian_add(&r.h, &rows, pool, &kernels_plain);
        rc = factor_open(&r.f, k->n, &r.h, &want, &e);
    }
    if (!rc) rc = factor_solve(&r.f, &r.h, k->damp, pool, &kernels_plain, &e);
    if (!rc) rc = solver_open(&r.m, k->n, k->out, (k->n + k->group - 1) / k->group, &e);
    if (!rc) {
        memcpy(r.m.w, d->w, (size_t)k->n * (size_t)k->out * sizeof *d->w);
        rc = solver_run(&r.m, &r.f, &how, pool, &kernels_plain, &e);
    }
    if (!rc) return r;
    fprintf(stderr, "checkop: %s\n", e.msg);
    exit(2);
}

static void drop(struct gptq_result *r)
{
    solver_close(&r->m);
    factor_close(&r->f);
    hessian_close(&r->h);
}

static void compare_bytes(struct check *c, int v, const char *name, const char *what,
                          const void *got, const void *want, size_t n)
{
    if (memcmp(got, want, n)) fail(c, v, name, "%s differ", what);
}

static void compare_results(struct check *c, int v, const char *name, const struct gptq_result *got,
                            const struct gptq_result *want)
{
    size_t n = (size_t)want->h.n, out = (size_t)want->m.out, groups = (size_t)want->m.n_groups;
    compare_bits(c, v, name, "diagonal", got->h.diagonal, want->h.diagonal, n, n);
    if (got->f.damp != want->f.damp || got->f.failed != want->f.failed)
        fail(c, v, name, "damping %g (failed %d), not %g (%d)", got->f.damp, got->f.failed,
             want->f.damp, want->f.failed);
    compare_bytes(c, v, name, "codes", got->m.codes, want->m.codes, n * out);
    compare_bytes(c, v, name, "scales", got->m.scales, want->m.scales, groups * out * 2);
    compare_bytes(c, v, name, "zero points", got->m.zeros, want->m.zeros, groups * out);
    compare_bytes(c, v, name, "errors", &got->m.error, &want->m.error, 2 * sizeof(double));
}

void check_gptq(struct check *c)
{
    struct pool *pool;
    struct err e;
    if (pool_open(&pool, 1, &e)) exit(2);
    for (int i = 0; i < (c->quick ? N_QUICK : N_CASES); i++) {
        struct arena a = {0};
        char name[64];
        snprintf(name, sizeof name, "%d inputs, %d rows, case %d", cases[i].n, cases[i].rows, i);
        struct rng r = rng_for(c->seed, name);
        struct gptq_data d = make_data(&a, &r, &cases[i]);
        struct gptq_result want = run(&d, NULL, d.x, pool);
        for (int v = 0; v < c->n; v++) {
            if (!c->v[v].ops->gptq) continue;
            struct side s;
            side_open(&s, &c->v[v], 1, plain_config(1));
            struct dbuf x = dbuf_from(&s, d.x, (size_t)cases[i].rows * d.stride * sizeof *d.x);
            struct gptq_result got = run(&d, s.be, (const float *)(const void *)x.d, pool);
            count_case(c, v);
            compare_results(c, v, name, &got, &want);
            compare_fences(c, v, name, "rows", &s, &x);
            drop(&got);
            dbuf_free(&s, &x);
            side_close(&s);
        }
        drop(&want);
        arena_free(&a);
    }
    pool_close(pool);
}
