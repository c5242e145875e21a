/* hip_choose.c: launches of OP_CHOOSE, the same for all devices, phases and arithmetics: some rows
 * at once have their scores, a block for each chunk of positions, then the choice, a block for each
 * row. Rows before position top_k leave both at once. Must not know: attention. */
#include "backend-hip/hip_choose.h"

#include "backend-hip/hip_args.h"

enum { SCORE_FLOATS = 8 << 20 };

static size_t positions_of(const struct be_config *c) { return (size_t)c->max_pages * PAGE; }

static size_t rows_at_once(const struct be_config *c)
{
    size_t fit = SCORE_FLOATS / positions_of(c), rows = (size_t)c->max_rows;
    return fit < 1 ? 1 : fit < rows ? fit : rows;
}

size_t hip_choose_bytes(const struct be_config *c, const struct step_plan *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == OP_CHOOSE) return rows_at_once(c) * positions_of(c) * sizeof(float);
    return 0;
}

int hip_check_choose(const struct heads *g, struct err *e)
{
    if (heads_are_latent(g) && g->head_dim <= CHOOSE_DIMS) return 0;
    return err_set(e,
                   "--backend hip: an indexer with heads of %d dimensions; up to %d are supported",
                   g->head_dim, CHOOSE_DIMS);
}

/* Chunks of the longest row, or more. */
static size_t chunks_of(const struct hip *h)
{
    const struct hip_shape *s = &h->shape;
    size_t most = (positions_of(&h->config) + KV_SPLIT - 1) / KV_SPLIT,
           decode = s->n_decode ? (size_t)s->n_splits : 0,
           prompt = s->n_rows > s->n_decode
                        ? ((size_t)s->prompt_positions + KV_SPLIT - 1) / KV_SPLIT
                        : 0,
           n = decode > prompt ? decode : prompt;
    return n < most ? n : most;
}

void hip_choose(struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.choose.heads;
    size_t rows = (size_t)h->shape.n_rows, at_once = rows_at_once(&h->config),
           chunks = chunks_of(h), top_k = (size_t)o->as.choose.top_k;
    struct choose_args a = {
        .q = hip_in(p, op, 0),
        .w = hip_in(p, op, 1),
        .pages = p->memory->kv[o->as.choose.kv],
        .pos = h->shape.d_pos,
        .seq = h->shape.d_seq,
        .table = h->shape.d_table,
        .score = h->d_scores,
        .out = hip_out(p, op, 0),
        .open = hip_open_pages(h, p, o->as.choose.kv, o->as.choose.step_set),
        .positions = positions_of(&h->config),
        .table_stride = h->shape.table_stride,
        .n_heads = g->n_heads,
        .latent = g->value_dim,
        .rotated = g->rotated,
        .kv = (int)h->config.kv,
        .top_k = o->as.choose.top_k,
    };
    if (chunks * KV_SPLIT <= top_k) return;
    for (size_t row = 0, n; row < rows; row += n) {
        n = rows - row < at_once ? rows - row : at_once;
        hip_launch(h, K_choose_scores, (struct hip_blocks){n, chunks, 1, 0}, &a, sizeof a);
        hip_launch_rows(h, K_choose_rows, (int)n, &a, sizeof a);
        a.q += n * (size_t)(g->n_heads * g->head_dim);
        a.w += n * (size_t)g->n_heads;
        a.pos += n;
        a.seq += n;
        a.out += n * top_k;
        if (a.open.own) a.open.own += n;
    }
}
