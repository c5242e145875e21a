/* checkop_embed.c: embed: rows of a table of every type, copied exactly or with one product. */
#include "tests/checkop/checkop_linear.h"

#include <stdio.h>
#include <string.h>

/* chosen [rows]: the ids for tokens below 0. */
static void run_embed(struct check *c, int v, const char *name, const struct variant *on,
                      int n_threads, const struct linear *table, float scale, const struct batch *b,
                      const int32_t *chosen, float *out)
{
    struct side s;
    struct err e;
    struct be_linear *packed;
    side_open(&s, on, n_threads, plain_config(b->n_rows));
    if (s.ops->pack(s.be, table, &packed, &e)) {
        fail(c, v, name, "pack: %s", e.msg);
        side_close(&s);
        return;
    }
    struct dbuf y = dbuf_new(&s, (size_t)b->n_rows * (size_t)table->in * sizeof(float));
    struct dbuf ids = dbuf_new(&s, (size_t)b->n_rows * sizeof *chosen);
    s.ops->upload(s.be, ids.d, chosen, ids.bytes);
    struct trial t = {0};
    struct op *op = trial_op(&t, OP_EMBED);
    op->in[0] = trial_buffer(&t, ids.d, ROWS_LOGITS, sizeof *chosen);
    op->out[0] = trial_buffer(&t, y.d, ROWS_STEP, (size_t)table->in * 4);
    op->w[0] = trial_linear(&t, table, packed);
    op->as.embed.scale = scale;
    trial_run(&t, &s, b, 0);
    dbuf_get(&s, &y, out);
    compare_fences(c, v, name, "output", &s, &y);
    s.ops->drop(s.be, packed);
    dbuf_free(&s, &ids);
    dbuf_free(&s, &y);
    side_close(&s);
}

/* embed copies, exactly, or with one product. Every third token is one that the previous step
 * chose. */
void check_embed(struct check *c)
{
    static const struct {
        int vocab, dim;
        enum dtype type;
        int rows;
        float scale;
    } cases[] = {
        {100, 36, DT_F16, 1, 0},      {100, 256, DT_F16, 33, 0},  {64, 80, DT_BF16, 17, 0},
        {31, 7, DT_F32, 8, 0},        {256, 128, DT_F32, 300, 0}, {255, 100, DT_BF16, 3, 0},
        {100, 36, DT_F16, 4, 11.31f}, {64, 80, DT_BF16, 17, 9},   {31, 7, DT_F32, 8, 3.7f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[NAME_BYTES];
        struct arena a = {0};
        const struct shape s = {
            cases[i].dim, cases[i].vocab, 0, cases[i].dim, PERM_NONE, 0, 0, cases[i].type, 0};
        int rows = cases[i].rows;
        snprintf(name, NAME_BYTES, "%s [%d][%d], %d rows", type_names[s.weight_type], s.out, s.in,
                 rows);
        float scale = cases[i].scale;
        struct rng r = rng_for(c->seed, name);
        struct weights q = make_weights(&a, &r, &s, NULL);
        struct batch b = make_plain_batch(&a, rows, rows / 3);
        size_t n = (size_t)rows * (size_t)s.in;
        float *want = arena_get(&a, n * 4), *got = arena_get(&a, n * 4),
              *zero = arena_get(&a, n * 4);
        int32_t *chosen = memset(arena_get(&a, (size_t)rows * sizeof *chosen), 0,
                                 (size_t)rows * sizeof *chosen);
        for (int t = 0; t < rows; t++) {
            b.token[t] = t == 0 ? s.out - 1 : t == 1 ? 0 : rng_below(&r, s.out);
            for (int j = 0; j < s.in; j++)
                want[t * s.in + j] = (float)q.value[j * s.out + b.token[t]] *
                                     (scale > 0 ? scale : 1);
            if (t % 3 != 1) continue;
            chosen[rows - 1 - t] = b.token[t];
            b.token[t] = -1 - (rows - 1 - t);
        }
        run_embed(c, REF, name, &c->ref, 1, &q.w, scale, &b, chosen, got);
        count_case(c, REF);
        compare(c, REF, name, "output", got, want, zero, (size_t)rows, (size_t)s.in);
        for (int v = 0; v < c->n; v++)
            for (int threads = 1; threads <= 3; threads += 2) {
                if (threads == 1) count_case(c, v);
                run_embed(c, v, name, &c->v[v], threads, &q.w, scale, &b, chosen, got);
                compare(c, v, name, "output", got, want, zero, (size_t)rows, (size_t)s.in);
            }
        arena_free(&a);
    }
}
