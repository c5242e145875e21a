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

/* The operations round the linears, in the order of a layer. */
static void describe(struct trial *t, const struct block *k, struct be_linear *const packed[],
                     const int b[N_LINEARS], int x, int in, int h, int norm)
{
    int w[N_LINEARS];
    for (int i = 0; i < N_LINEARS; i++) w[i] = trial_linear(t, &k->w[i], packed[i]);
    trial_linears(t, in, 1, w + O, b + O);
    struct op *op = NULL;
    for (int i = 0; i < 2; i++) {
        op = trial_op(t, OP_NORM);
        op->in[0] = op->out[1] = x;
        op->in[1] = b[O];
        op->out[0] = h;
        op->w[0] = norm;
        op->as.norm.eps = 1e-5f;
        if (i) break;
        trial_linears(t, h, 2, w + GATE, b + GATE);
        op = trial_op(t, OP_GLU);
        op->in[0] = op->out[0] = b[GATE];
        op->in[1] = b[UP];
        trial_linears(t, b[GATE], 1, w + DOWN, b + DOWN);
    }
    trial_linears(t, h, 3, w + Q, b + Q);
}

/* Rows row .. row + m - 1. apart: each operation is compiled alone. got: what is left of x [m][dim],
 * q, k and v one after the other [m][dim + ..] */
static void run_rows(struct check *c, int v, const char *name, struct side *s,
                     const struct block *k, struct be_linear *const w[], int row, int m, int apart,
                     float *got)
{
    struct arena a = {0};
    struct trial t = {0};
    struct batch b = make_plain_batch(&a, m, m);
    size_t dim = (size_t)k->dim, n = (size_t)m;
    struct dbuf x = dbuf_from(s, k->x + (size_t)row * dim, n * dim * 4),
                in = dbuf_from(s, k->a + row * ATTENTION, n * ATTENTION * 4),
                norm = dbuf_from(s, k->norm, dim * 4), delta = dbuf_new(s, n * dim * 4),
                h = dbuf_new(s, n * dim * 4);
    struct dbuf y[N_LINEARS];
    int buffer[N_LINEARS];
    for (int i = 0; i < N_LINEARS; i++) {
        size_t width = (size_t)k->w[i].out * 4;
        y[i] = i == O || i == DOWN ? delta : dbuf_new(s, n * width);
        buffer[i] = i == DOWN ? buffer[O] : trial_buffer(&t, y[i].d, ROWS_STEP, width);
        t.kept[buffer[i]] = i >= Q;
    }
    int bx = trial_buffer(&t, x.d, ROWS_STEP, dim * 4),
        ba = trial_buffer(&t, in.d, ROWS_STEP, ATTENTION * 4),
        bh = trial_buffer(&t, h.d, ROWS_STEP, dim * 4);
    t.kept[ba] = t.kept[bh] = 0;
    describe(&t, k, w, buffer, bx, ba, bh, trial_vector(&t, norm.d, k->dim));
    trial_run(&t, s, &b, apart);
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
    struct be_config config = plain_config(k->rows);
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
