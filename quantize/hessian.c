#include "quantize/hessian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int open_host(struct hessian *h)
{
    size_t m = (size_t)h->n;
    h->sum = calloc(m * m, sizeof *h->sum);
    h->packed = malloc(HESSIAN_ROWS * m * sizeof *h->packed);
    return h->sum && h->packed ? 0 : -1;
}

int hessian_open(struct hessian *h, int n, struct be *on, struct err *e)
{
    CHECK(n > 0 && n % TN_COLUMNS == 0);
    size_t m = (size_t)n, bytes = m * m * sizeof *h->sum;
    *h = (struct hessian){.n = n, .on = on, .diagonal = calloc(m, sizeof *h->diagonal)};
    if (on) h->d_sum = on->ops->alloc(on, bytes);
    if (h->diagonal && (on ? h->d_sum != NULL : !open_host(h))) return 0;
    hessian_close(h);
    return err_memory_for(e, "out of memory%s: the sums of %d inputs take %.0f MiB",
                          on ? " on the device" : "", n, (double)bytes / (1 << 20));
}

void hessian_close(struct hessian *h)
{
    if (h->d_sum) h->on->ops->free(h->on, h->d_sum);
    free(h->sum);
    free(h->packed);
    free(h->diagonal);
    *h = (struct hessian){0};
}

int hessian_clear(struct hessian *h, struct err *e)
{
    h->rows = 0;
    if (!h->on) {
        memset(h->sum, 0, (size_t)h->n * (size_t)h->n * sizeof *h->sum);
        return 0;
    }
    int n = h->n;
    struct be *on = h->on;
    hessian_close(h);
    return hessian_open(h, n, on, e);
}

struct chunk {
    struct hessian *h;
    const struct input_rows *x;
    const struct quantize_kernels *k;
    int64_t first;
    int rows, tiles;
};

static void pack(void *arg, int panel, int thread)
{
    const struct chunk *c = arg;
    float *to = c->h->packed + (size_t)panel * HESSIAN_ROWS * TN_COLUMNS;
    (void)thread;
    for (int r = 0; r < c->rows; r++, to += TN_COLUMNS) {
        int64_t row = c->x->index ? c->x->index[c->first + r] : c->first + r;
        memcpy(to, c->x->x + (size_t)row * c->x->stride + panel * TN_COLUMNS,
               TN_COLUMNS * sizeof *to);
    }
}

static void add_tile(void *arg, int task, int thread)
{
    const struct chunk *c = arg;
    struct hessian *h = c->h;
    int ti = 0;
    (void)thread;
    while (task >= c->tiles - ti) task -= c->tiles - ti++; /* rows of tiles from the diagonal on */
    int i0 = ti * HESSIAN_TILE, j0 = (ti + task) * HESSIAN_TILE;
    int i1 = i0 + HESSIAN_TILE < h->n ? i0 + HESSIAN_TILE : h->n,
        j1 = j0 + HESSIAN_TILE < h->n ? j0 + HESSIAN_TILE : h->n;
    for (int j = j0; j < j1; j += TN_COLUMNS)
        for (int i = i0; i < i1; i += TN_COLUMNS) {
            const struct tn_f32 t = {.c = h->sum + (size_t)i * (size_t)h->n + j,
                                     .a = h->packed + (size_t)i * HESSIAN_ROWS,
                                     .b = h->packed + (size_t)j * HESSIAN_ROWS,
                                     .ldc = (size_t)h->n,
                                     .lda = TN_COLUMNS,
                                     .ldb = TN_COLUMNS,
                                     .ni = TN_COLUMNS,
                                     .nj = TN_COLUMNS,
                                     .nr = c->rows};
            c->k->tn_f32(&t);
        }
}

static void add_host(struct hessian *h, const struct input_rows *x, struct pool *p,
                     const struct quantize_kernels *k)
{
    struct chunk c = {.h = h, .x = x, .k = k, .tiles = (h->n + HESSIAN_TILE - 1) / HESSIAN_TILE};
    for (; c.first < x->n; c.first += c.rows) {
        c.rows = x->n - c.first < HESSIAN_ROWS ? (int)(x->n - c.first) : HESSIAN_ROWS;
        pool_run(p, h->n / TN_COLUMNS, pack, &c);
        pool_run(p, c.tiles * (c.tiles + 1) / 2, add_tile, &c);
    }
    for (int i = 0; i < h->n; i++) h->diagonal[i] = h->sum[(size_t)i * (size_t)h->n + (size_t)i];
}

void hessian_add(struct hessian *h, const struct input_rows *x, struct pool *p,
                 const struct quantize_kernels *k)
{
    h->rows += x->n;
    if (!h->on) {
        add_host(h, x, p, k);
        return;
    }
    const struct gptq_ops *ops = h->on->ops->gptq;
    const struct gptq_rows rows = {x->x, x->stride, x->index, x->n};
    ops->add_rows(h->on, h->d_sum, h->n, &rows);
    ops->diagonal(h->on, h->d_sum, h->n, h->diagonal);
}

int hessian_is_finite(const struct hessian *h)
{
    for (int i = 0; i < h->n; i++)
        if (!isfinite(h->diagonal[i])) return 0;
    return 1;
}
