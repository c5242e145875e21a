/* checkop_bench.c: time of a few operations at real sizes, median of several runs. */
#include "tests/checkop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 9 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct timer {
    double t[MAX_RUNS], start, spent;
    int n;
};

/* At most MAX_RUNS runs or half a second; the first one warms up and does not count. */
static int again(struct timer *t)
{
    double now = seconds();
    if (t->start > 0) {
        if (t->n >= 0) t->t[t->n] = now - t->start;
        t->spent += now - t->start;
        if (++t->n == MAX_RUNS || (t->n > 0 && t->spent > 0.5)) return 0;
    } else {
        t->n = -1;
    }
    t->start = seconds();
    return 1;
}

static void print(const struct side *s, const char *what, struct timer *t, double bytes, double flops)
{
    qsort(t->t, (size_t)t->n, sizeof *t->t, by_value);
    double m = t->t[t->n / 2];
    printf("%-24s %-36s %9.1f us  %7.2f GB/s  %8.2f GFLOP/s  (median of %d)\n", s->ops->describe(s->be), what, m * 1e6, bytes / m * 1e-9,
           flops / m * 1e-9, t->n);
    fflush(stdout);
}

static void bench_linear(const struct variant *v, int n_threads, int in, int out, int group, int rows)
{
    struct arena a = {0};
    struct side s;
    struct err e;
    struct rng r = {7};
    side_open(&s, v, n_threads, plain_config(rows, in));
    struct linear w = {.in = in, .out = out, .k = in};
    size_t n = (size_t)in * (size_t)out, bytes = n * 2;
    if (group) {
        size_t n_scales = n / (size_t)group;
        uint16_t *scales = arena_get(&a, n_scales * 2);
        for (size_t i = 0; i < n_scales; i++) scales[i] = f16_from_f32(0.01f);
        uint8_t *codes = arena_get(&a, n / 2), *zeros = arena_get(&a, n_scales);
        for (size_t i = 0; i < n / 2; i++) codes[i] = (uint8_t)rng_next(&r);
        memset(zeros, 8, n_scales);
        w.codes = codes, w.zeros = zeros, w.scales = scales, w.scale_type = DT_F16, w.group = group, w.n_groups = in / group;
        bytes = n / 2 + 3 * n_scales;
    } else {
        uint16_t *weight = arena_get(&a, n * 2);
        for (size_t i = 0; i < n; i++) weight[i] = f16_from_f32(0.01f * (float)(int)(i % 7));
        w.weight = weight, w.weight_type = DT_F16;
    }
    float *x = arena_get(&a, (size_t)rows * (size_t)in * 4);
    fill_rows(&r, 0, x, rows, in);
    struct dbuf dx = dbuf_from(&s, x, (size_t)rows * (size_t)in * 4), dy = dbuf_new(&s, (size_t)rows * (size_t)out * 4);
    struct be_linear *packed;
    if (s.ops->pack(s.be, &w, &packed, &e)) exit(2);
    struct batch b = make_plain_batch(&a, rows, rows <= 8 ? rows : 0);
    s.ops->begin_step(s.be, &b);
    struct timer t = {0};
    while (again(&t)) {
        s.ops->linear(s.be, 1, (const struct be_linear *const *)&packed, (float *)dx.d, (float *const[]){(float *)dy.d}, rows, b.n_decode);
        s.ops->sync(s.be, &e);
    }
    char what[64];
    snprintf(what, sizeof what, "linear %s %dx%d, %d row%s", group ? "q4" : "f16", in, out, rows, rows == 1 ? "" : "s");
    print(&s, what, &t, (double)bytes, 2.0 * (double)n * rows);
    s.ops->drop(s.be, packed);
    dbuf_free(&s, &dx);
    dbuf_free(&s, &dy);
    side_close(&s);
    arena_free(&a);
}

static void bench_attend(const struct variant *v, int n_threads, int n_heads, int n_kv_heads, int head_dim, int context, int rows)
{
    struct arena a = {0};
    struct side s;
    struct err e;
    struct rng r = {7};
    size_t q_row = (size_t)(n_heads * head_dim), kv_row = (size_t)(n_kv_heads * head_dim);
    struct be_config config = {.kv = KV_F16,
                               .n_heads = n_heads,
                               .n_kv_heads = n_kv_heads,
                               .head_dim = head_dim,
                               .rope_scale = 1,
                               .max_rows = context,
                               .max_k = 64};
    config.inv_freq = arena_get(&a, (size_t)head_dim * 4);
    side_open(&s, v, n_threads, config);
    struct page_map m = make_pages(&a, &r, &context, 1);
    struct span all = {0, 0, context}, last = {0, context - rows, rows};
    struct batch past = make_batch(&a, &m, &all, 1, 0), b = make_batch(&a, &m, &last, 1, rows == 1);
    float *x = arena_get(&a, (size_t)context * q_row * 4);
    fill_rows(&r, 0, x, context, (int)q_row);
    size_t page = s.ops->kv_page_bytes(s.be);
    struct dbuf q = dbuf_from(&s, x, (size_t)context * q_row * 4), k = dbuf_from(&s, x, (size_t)context * kv_row * 4),
                o = dbuf_new(&s, (size_t)rows * q_row * 4), kv = dbuf_new(&s, (size_t)m.n_pages * page);
    s.ops->begin_step(s.be, &past);
    s.ops->rope_store(s.be, &(struct rope_args){.d_q = (float *)q.d, .d_k = (float *)k.d, .d_v = (float *)k.d, .eps = 1e-6f, .d_kv = kv.d});
    s.ops->begin_step(s.be, &b);
    struct timer t = {0};
    while (again(&t)) {
        s.ops->attend(s.be, &(struct attend_args){.d_q = (float *)q.d, .d_kv = kv.d, .d_out = (float *)o.d, .scale = 0.125f});
        s.ops->sync(s.be, &e);
    }
    char what[64];
    snprintf(what, sizeof what, "attend %d/%d x %d at %d, %d row%s", n_heads, n_kv_heads, head_dim, context, rows, rows == 1 ? "" : "s");
    print(&s, what, &t, (double)context / KV_PAGE * (double)page, 4.0 * (double)q_row * context * rows);
    struct dbuf *bufs[] = {&q, &k, &o, &kv};
    for (int i = 0; i < 4; i++) dbuf_free(&s, bufs[i]);
    side_close(&s);
    arena_free(&a);
}

static void bench_glu(const struct variant *v, int n_threads, int n)
{
    struct arena a = {0};
    struct side s;
    struct err e;
    struct rng r = {7};
    side_open(&s, v, n_threads, plain_config(1, 1));
    struct batch b = make_plain_batch(&a, 1, 0);
    s.ops->begin_step(s.be, &b);
    float *x = arena_get(&a, (size_t)n * 4);
    fill_row(&r, ROW_RANDOM, 0, x, n);
    struct dbuf g = dbuf_from(&s, x, (size_t)n * 4), u = dbuf_from(&s, x, (size_t)n * 4);
    struct timer t = {0};
    while (again(&t)) {
        s.ops->glu(s.be, (float *)g.d, (float *)u.d, (size_t)n);
        s.ops->sync(s.be, &e);
    }
    char what[64];
    snprintf(what, sizeof what, "glu %d", n);
    print(&s, what, &t, 12.0 * n, 0);
    dbuf_free(&s, &g);
    dbuf_free(&s, &u);
    side_close(&s);
    arena_free(&a);
}

void bench(const struct variant *v, int n_threads)
{
    static const int rows[] = {1, 8, 256};
    for (int i = 0; i < 3; i++) bench_linear(v, n_threads, 2048, 5632, 128, rows[i]);
    bench_linear(v, n_threads, 2048, 32000, 0, 1);
    bench_linear(v, n_threads, 2048, 32000, 0, 8);
    bench_attend(v, n_threads, 32, 4, 64, 1024, 1);
    bench_attend(v, n_threads, 32, 4, 64, 1024, 128);
    bench_glu(v, n_threads, 256 * 5632);
}
