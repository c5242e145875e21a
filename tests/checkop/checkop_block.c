/* checkop_block.c: linears with the vector operations of a layer around them, which a backend may
 * join in one launch: o, added by a norm; gate and up, gated; down, added by a norm; q, k and v;
 * with their inputs in place, and permuted. What each of them is good to is checked elsewhere. Here
 * generated rows have the same bits by themselves, joined in whatever way, as beside others, and
 * where nothing is joined because every operation is waited for. */
#include "tests/checkop/checkop.h"

#include "core/base/dtype.h"

#include <stdio.h>
#include <string.h>

enum { O, GATE, UP, DOWN, Q, K, V, N_LINEARS, GROUP = 128, ATTENTION = 256, KV = 48 };

struct block {
    int rows, dim, ffn;
    struct linear w[N_LINEARS];
    float *x, *a, *norm; /* [rows][dim], [rows][ATTENTION], [dim] */
};

static struct linear make_linear(struct arena *a, struct rng *r, int in, int out, int has_bias)
{
    size_t panels = ((size_t)out + 15) / 16, groups = (size_t)in / GROUP, n = panels * groups * 16;
    uint8_t *codes = arena_get(a, panels * (size_t)in * 8), *zeros = arena_get(a, n);
    uint16_t *scales = arena_get(a, n * 2);
    float *bias = has_bias ? arena_get(a, (size_t)out * sizeof *bias) : NULL;
    for (size_t i = 0; i < panels * (size_t)in * 8; i++) codes[i] = (uint8_t)rng_below(r, 256);
    for (size_t i = 0; i < n; i++)
        zeros[i] = (uint8_t)rng_below(r, 17),
        scales[i] = f16_from_f32((1 + (float)rng_below(r, 100)) * 1e-4f);
    for (int i = 0; bias && i < out; i++) bias[i] = rng_normal(r);
    return (struct linear){.in = in,
                           .out = out,
                           .k = in,
                           .group = GROUP,
                           .n_groups = (int)groups,
                           .codes = codes,
                           .zeros = zeros,
                           .scales = scales,
                           .scale_type = DT_F16,
                           .bias = bias};
}

static void pause(struct side *s, int apart)
{
    struct err e;
    if (apart) s->ops->sync(s->be, &e); /* a failure shows in what is downloaded */
}

/* Rows row .. row + m - 1. apart: each operation is waited for. got: what is left of x [m][dim], q,
 * k and v one after the other [m][dim + ..] */
static void run_rows(struct check *c, int v, const char *name, struct side *s,
                     const struct block *k, struct be_linear *const w[], int row, int m, int apart,
                     float *got)
{
    const struct be_linear *const *l = (const struct be_linear *const *)w;
    struct arena a = {0};
    struct batch b = make_plain_batch(&a, m, m);
    size_t dim = (size_t)k->dim, n = (size_t)m;
    struct dbuf x = dbuf_from(s, k->x + (size_t)row * dim, n * dim * 4),
                in = dbuf_from(s, k->a + row * ATTENTION, n * ATTENTION * 4),
                norm = dbuf_from(s, k->norm, dim * 4), delta = dbuf_new(s, n * dim * 4),
                h = dbuf_new(s, n * dim * 4);
    struct dbuf y[N_LINEARS];
    for (int i = 0; i < N_LINEARS; i++)
        y[i] = i == O || i == DOWN ? delta : dbuf_new(s, n * (size_t)k->w[i].out * 4);
    float *d_x = (float *)x.d, *d_h = (float *)h.d, *d_norm = (float *)norm.d,
          *d_delta = (float *)delta.d, *d_gate = (float *)y[GATE].d;
    s->ops->begin_step(s->be, &b);
    s->ops->linear(s->be, 1, l + O, (const float *)in.d, &d_delta, m, m);
    pause(s, apart);
    s->ops->norm(s->be, d_x, d_delta, d_norm, 1e-5f, d_h, m, k->dim);
    pause(s, apart);
    s->ops->linear(s->be, 2, l + GATE, d_h, (float *const[]){d_gate, (float *)y[UP].d}, m, m);
    pause(s, apart);
    s->ops->glu(s->be, d_gate, (const float *)y[UP].d, n * (size_t)k->ffn);
    pause(s, apart);
    s->ops->linear(s->be, 1, l + DOWN, d_gate, &d_delta, m, m);
    pause(s, apart);
    s->ops->norm(s->be, d_x, d_delta, d_norm, 1e-5f, d_h, m, k->dim);
    pause(s, apart);
    s->ops->linear(s->be, 3, l + Q, d_h,
                   (float *const[]){(float *)y[Q].d, (float *)y[K].d, (float *)y[V].d}, m, m);
    const struct dbuf *const out[] = {&x, &y[Q], &y[K], &y[V]};
    for (int i = 0; i < 4; i++) {
        dbuf_get(s, out[i], got);
        compare_fences(c, v, name, "a block", s, out[i]);
        got += out[i]->bytes / 4;
    }
    for (int i = 0; i < N_LINEARS; i++)
        if (i != O && i != DOWN) dbuf_free(s, &y[i]);
    struct dbuf *const rest[] = {&x, &in, &norm, &delta, &h};
    for (int i = 0; i < 5; i++) dbuf_free(s, rest[i]);
    arena_free(&a);
}

static void run_block(struct check *c, int v, const char *name, const struct block *k)
{
    struct be_config config = plain_config(k->rows, k->dim > k->ffn ? k->dim : k->ffn);
    const size_t width[] = {(size_t)k->dim, (size_t)k->dim, KV, KV};
    struct be_linear *w[N_LINEARS];
    struct arena a = {0};
    struct side s;
    struct err e;
    const size_t all_width = 2 * (size_t)k->dim + 2 * KV;
    float *all = arena_get(&a, (size_t)k->rows * 4 * all_width),
          *apart = arena_get(&a, (size_t)k->rows * 4 * all_width),
          *one = arena_get(&a, 4 * all_width);
    config.act = ACT_F16;
    side_open(&s, &c->v[v], 1, config);
    for (int i = 0; i < N_LINEARS; i++)
        if (s.ops->pack(s.be, &k->w[i], &w[i], &e)) {
            fail(c, v, name, "pack: %s", e.msg);
            side_close(&s);
            arena_free(&a);
            return;
        }
    run_rows(c, v, name, &s, k, w, 0, k->rows, 0, all);
    run_rows(c, v, name, &s, k, w, 0, k->rows, 1, apart);
    compare_bits(c, v, name, "operations one by one", apart, all, (size_t)k->rows * all_width,
                 all_width);
    for (int row = 0; row < k->rows; row++) {
        const float *together = all, *alone = one;
        run_rows(c, v, name, &s, k, w, row, 1, 0, one);
        for (int i = 0; i < 4; i++) {
            compare_bits(c, v, name, "a row by itself", alone, together + (size_t)row * width[i],
                         width[i], width[i]);
            together += (size_t)k->rows * width[i];
            alone += width[i];
        }
    }
    for (int i = 0; i < N_LINEARS; i++) s.ops->drop(s.be, w[i]);
    side_close(&s);
    arena_free(&a);
}

/* Linears of one input are permuted alike, as checkpoints are. */
static void permute(struct arena *a, struct rng *r, struct linear *w)
{
    for (int i = 0; i < N_LINEARS; i++) {
        if (i == UP || i == K || i == V) {
            w[i].perm = w[i - 1].perm;
            continue;
        }
        int32_t *perm = arena_get(a, (size_t)w[i].k * sizeof *perm);
        for (int j = 0; j < w[i].k; j++) {
            int other = rng_below(r, j + 1);
            perm[j] = perm[other];
            perm[other] = j;
        }
        w[i].perm = perm;
    }
}

void check_block(struct check *c)
{
    static const int sizes[][3] = {{3, 256, 384}, {2, 1152, 2176}}; /* rows, dim, ffn */
    for (int i = 0; i < (c->quick ? 2 : 4); i++) {
        int permuted = i % 2;
        struct block k = {.rows = sizes[i / 2][0], .dim = sizes[i / 2][1], .ffn = sizes[i / 2][2]};
        struct arena a = {0};
        char name[NAME_BYTES];
        snprintf(name, NAME_BYTES, "%d rows of %d, %d%s", k.rows, k.dim, k.ffn,
                 permuted ? ", permuted" : "");
        struct rng r = rng_for(c->seed, name);
        const int in[] = {ATTENTION, k.dim, k.dim, k.ffn, k.dim, k.dim, k.dim},
                  out[] = {k.dim, k.ffn, k.ffn, k.dim, k.dim, KV, KV};
        for (int j = 0; j < N_LINEARS; j++) k.w[j] = make_linear(&a, &r, in[j], out[j], j % 2 == 0);
        if (permuted) permute(&a, &r, k.w);
        k.x = arena_get(&a, (size_t)(k.rows * k.dim) * 4),
        k.a = arena_get(&a, (size_t)(k.rows * ATTENTION) * 4);
        k.norm = arena_get(&a, (size_t)k.dim * 4);
        for (int j = 0; j < k.rows * k.dim; j++) k.x[j] = rng_normal(&r);
        for (int j = 0; j < k.rows * ATTENTION; j++) k.a[j] = rng_normal(&r);
        for (int j = 0; j < k.dim; j++) k.norm[j] = 0.5f + 0.001f * (float)rng_below(&r, 1000);
        for (int v = 0; v < c->n; v++) {
            count_case(c, v);
            run_block(c, v, name, &k);
        }
        arena_free(&a);
    }
}
