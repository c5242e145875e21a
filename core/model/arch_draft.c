#include "core/model/arch_draft.h"

/* Angles of the rows of a drafting step are its own. */
static void repeat_angles(struct builder *b)
{
    for (int i = 0; i < b->plan->n_ops && !b->failed; i++) {
        const struct op op = b->plan->op[i];
        if (op.kind == OP_ANGLES) *arch_op(b, OP_ANGLES, op.name) = op;
    }
}

/* x and delta, whose sum is the layer's input: the projections of the normed embedding and of the
 * normed hidden row. */
static void project(struct builder *b, const struct arch_stream *s, int hidden)
{
    int dim = b->config->dim, x = s->x, delta = s->delta;
    int e = arch_room(b, "draft_embed", dim), y = arch_room(b, "draft_normed", dim);
    int w_e = arch_linear(b, "draft.embed_proj", dim, dim),
        w_h = arch_linear(b, "draft.hidden_proj", dim, dim);
    arch_embed(b, s->embed, e);
    arch_norm(b, "hidden_norm", hidden, NO_BUFFER, arch_vector(b, "draft.hidden_norm.weight", dim),
              y);
    arch_linears(b, "hidden_proj", y, 1, &w_h, &delta);
    arch_norm(b, "embed_norm", e, NO_BUFFER, arch_vector(b, "draft.embed_norm.weight", dim), y);
    arch_linears(b, "embed_proj", y, 1, &w_e, &x);
}

/* The rows of the head that are read; all of them: the head itself. */
static int head_of(struct builder *b, int head, int n)
{
    struct weight w = b->plan->weight[head];
    if (b->failed || n == b->config->vocab) return head;
    w.linear = linear_rows(&w.linear, 0, n);
    int i = step_plan_add_weight(b->plan, &w, b->err);
    b->failed |= i < 0;
    return b->failed ? 0 : i;
}

static int logits_buffer(struct builder *b, const char *name, size_t row_bytes)
{
    int i = b->failed ? 0 : step_plan_add_buffer(b->plan, name, ROWS_LOGITS, row_bytes, b->err);
    b->failed |= i < 0;
    return b->failed ? 0 : i;
}

static void tail(struct builder *b, const struct arch_stream *s, int y)
{
    struct step_plan *p = b->plan;
    int vocab = b->config->vocab, n = vocab < DRAFT_VOCAB ? vocab : DRAFT_VOCAB,
        dim = b->config->dim, head = head_of(b, s->tail.head, n);
    b->layer = -1;
    p->draft_body = p->n_draft;
    arch_norm(b, "norm", s->x, s->delta, arch_vector(b, "draft.norm.weight", dim), y);
    p->draft_last = logits_buffer(b, "draft_last", (size_t)dim * sizeof(float));
    p->draft_logits = logits_buffer(b, "draft_logits", (size_t)n * sizeof(float));
    p->draft_best = logits_buffer(b, "draft_best", sizeof(int32_t));
    struct op *op = arch_op(b, OP_GATHER, "gather");
    op->in[0] = y;
    op->out[0] = p->draft_last;
    arch_linears(b, "head", p->draft_last, 1, &head, &p->draft_logits);
    op = arch_op(b, OP_ARGMAX, "argmax");
    op->in[0] = p->draft_logits;
    op->out[0] = p->draft_best;
}

void arch_draft(struct builder *b, const struct arch_stream *stream,
                void (*layer)(struct builder *b, struct arch_stream *s, int sparse, void *arg),
                void *arg)
{
    struct arch_stream s = *stream;
    if (b->failed || !arch_has(b, "draft_layers") || !arch_int(b, "draft_layers", 0, 1)) return;
    int sparse = arch_int(b, "draft_experts", 0, 1);
    b->drafts = 1;
    b->layer = b->config->n_layers;
    b->plan->draft_hidden = b->plan->hidden;
    s.h = arch_room(b, "draft_h", b->config->dim);
    repeat_angles(b);
    project(b, &s, b->plan->hidden);
    s.added = s.delta;
    layer(b, &s, sparse, arg);
    tail(b, &s, s.h);
    b->drafts = 0;
}
