/* hip_vector.c: launches of the operations on rows: embedding, angles, norm, SwiGLU and its
 * relatives, addition, sums of groups, gathering, argmax and top logits, one operation each.
 * hip_linear.c and hip_gemv.c launch norm and SwiGLU fused with a linear. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_order.h"
#include "backend-hip/hip_vector.h"

_Static_assert((int)TOP == OP_TOP_KEPT && (int)TOP_ROOM == OP_TOP_ROOM &&
                   sizeof(struct largest) == sizeof(struct logits_entry),
               "kernels and core agree");
_Static_assert(sizeof(struct score_row) == sizeof(struct batch_score) &&
                   sizeof(struct score) == sizeof(struct logits_score) &&
                   (int)SCORE_TOP == OP_SCORE_TOP,
               "kernels and core agree");
_Static_assert(sizeof(struct sample_draw) == sizeof(struct batch_sample) &&
                   sizeof(struct sample_change_of) == sizeof(struct batch_change) &&
                   sizeof(struct batch_sample) % sizeof(double) == 0,
               "kernels and core agree");

void hip_embed(struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *table = hip_weight(p, op, 0);
    float scale = hip_op(p, op)->as.embed.scale;
    struct embed_args a = {.weight = table->d_weight,
                           .token = h->shape.d_token,
                           .chosen = hip_in(p, op, 0),
                           .out = hip_out(p, op, 0),
                           .dim = table->in,
                           .n_chunks = table->n_chunks,
                           .kind = (int)table->kind,
                           .scale = scale > 0 ? scale : 1};
    hip_launch_rows(h, K_embed_rows, h->shape.n_rows, &a, sizeof a);
}

void hip_angles(struct hip *h, const struct be_plan *p, int op)
{
    struct angles_args a = hip_angles_args(h, p, op);
    hip_launch_elements(h, K_rope_angles, (size_t)a.rows * (size_t)a.half, &a, sizeof a);
}

/* Whether the fused kernels keep the normed rows in registers, where they sum them in another order
 * than norm_rows (fits_pieces() of common/vector.hip): the linear that the norm feeds has fp16
 * activations, and its rows fit. */
static int sums_by_4(const struct hip *h, const struct be_plan *p, int op)
{
    int feeds = hip_first_fed(p->plan, op);
    const struct be_linear *w = feeds < 0 ? NULL : p->memory->linear[feeds];
    return w && !w->dense && h->config.act == ACT_F16 && w->in % 4 == 0 && w->k % 4 == 0 &&
           w->in <= ROW_PIECES * PIECE && w->n_chunks * CHUNK <= ROW_PIECES * PIECE;
}

int hip_norm_is_plain(const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    return o->as.norm.groups <= 1 && !o->as.norm.centered;
}

/* A norm of groups, or LayerNorm. */
static void norm_groups(struct hip *h, const struct be_plan *p, int op, int rows)
{
    enum { OF_BLOCK = THREADS / 8 };
    const struct op *o = hip_op(p, op);
    int groups = o->as.norm.groups > 1 ? o->as.norm.groups : 1;
    struct norm_groups_args a = {hip_norm_args(h, p, op), rows * groups,
                                 o->as.norm.own ? groups : 0};
    a.norm.dim /= groups;
    if (o->as.norm.centered) {
        struct norm_centered_args c = {a.norm, hip_vector(p, op, 1)};
        hip_launch_rows(h, K_norm_centered, a.n, &c, sizeof c);
    } else {
        hip_launch_rows(h, K_norm_groups, (a.n + OF_BLOCK - 1) / OF_BLOCK, &a, sizeof a);
    }
}

void hip_norm(struct hip *h, const struct be_plan *p, int op)
{
    struct norm_args a = hip_norm_args(h, p, op);
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    if (!hip_norm_is_plain(p, op)) {
        norm_groups(h, p, op, rows);
        return;
    }
    hip_launch_rows(h, sums_by_4(h, p, op) ? K_norm_rows_by_4 : K_norm_rows, rows, &a, sizeof a);
}

int hip_glu_is_plain(const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    return o->in[1] >= 0 && (o->as.glu.activation == ACTIVATION_SILU ||
                             o->as.glu.activation == ACTIVATION_GELU_TANH);
}

void hip_glu(struct hip *h, const struct be_plan *p, int op)
{
    struct glu_any_args any = hip_glu_args(h, p, op);
    if (!hip_glu_is_plain(p, op)) {
        hip_launch_elements(h, K_glu_any, any.n, &any, sizeof any);
        return;
    }
    struct glu_args a = {any.gate, any.up, any.n, any.activation == ACTIVATION_GELU_TANH};
    hip_launch_elements(h, K_glu, a.n, &a, sizeof a);
}

void hip_add(struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct add_args a = hip_add_args(h, p, op);
    hip_launch(h, K_add_rows,
               (struct hip_blocks){(size_t)rows, ((size_t)a.dim + THREADS - 1) / THREADS, 1, 0}, &a,
               sizeof a);
}

void hip_sums(struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int n_decode, rows = hip_rows(h, p, o->in[0], &n_decode), group = o->as.sums.group;
    struct group_sums_args a = {hip_in(p, op, 0), hip_out(p, op, 0),
                                (size_t)rows * (size_t)(hip_width(p, op) / group), group};
    hip_launch_elements(h, K_group_sums, a.n, &a, sizeof a);
}

void hip_softcap(struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct softcap_args a = {.x = hip_in(p, op, 0),
                             .n = (size_t)rows * (size_t)hip_width(p, op),
                             .cap = hip_op(p, op)->as.softcap.cap};
    hip_launch_elements(h, K_softcap, a.n, &a, sizeof a);
}

void hip_gather(struct hip *h, const struct be_plan *p, int op)
{
    struct gather_args a = {hip_in(p, op, 0), h->shape.d_logit_row, hip_out(p, op, 0),
                            hip_width(p, op)};
    hip_launch_rows(h, K_gather_rows, h->shape.n_logits, &a, sizeof a);
}

/* Spans of a row of n logits, at most `limit`, in each of which every thread has one to read. */
static int spans_of(int n, int threads, int limit)
{
    int spans = (n + threads - 1) / threads;
    return spans < limit ? spans : limit;
}

void hip_argmax(struct hip *h, const struct be_plan *p, int op)
{
    int rows = h->shape.n_logits, vocab = hip_width(p, op);
    int spans = spans_of(vocab, THREADS,
                         rows <= ARGMAX_FEW_ROWS ? ARGMAX_SPANS : ARGMAX_SPANS_OF_MANY);
    struct argmax_args a = {hip_in(p, op, 0), h->d_largest, hip_out(p, op, 0), vocab, spans};
    CHECK(rows <= h->config.max_rows);
    hip_launch(h, K_argmax_spans, (struct hip_blocks){(size_t)rows, (size_t)spans, 1, 0}, &a,
               sizeof a);
    hip_launch_rows(h, K_argmax_rows, rows, &a, sizeof a);
}

void hip_top(struct hip *h, const struct be_plan *p, int op)
{
    struct top_args a = {hip_in(p, op, 0), h->shape.d_top_row, hip_out(p, op, 0), hip_width(p, op)};
    hip_launch_rows(h, K_top_rows, h->shape.n_top, &a, sizeof a);
}

void hip_score(struct hip *h, const struct be_plan *p, int op)
{
    struct score_args a = {.logits = hip_in(p, op, 0),
                           .row = h->shape.d_score,
                           .best = hip_in(p, op, 1),
                           .score = hip_out(p, op, 0),
                           .vocab = hip_width(p, op)};
    hip_launch_rows(h, K_score_rows, h->shape.n_scores, &a, sizeof a);
}

/* Few rows are spread over the multiprocessors by their spans. */
void hip_sample(struct hip *h, const struct be_plan *p, int op)
{
    enum { BLOCKS = 256 };
    int rows = h->shape.n_samples, few = rows <= SAMPLE_FEW, vocab = hip_width(p, op);
    int n_spans = spans_of(vocab, SAMPLE_THREADS,
                           rows <= BLOCKS / SAMPLE_SPANS ? SAMPLE_SPANS : BLOCKS / rows);
    struct sample_args a = {.logits = hip_in(p, op, 0),
                            .draw = h->shape.d_sample,
                            .change = h->shape.d_change,
                            .best = hip_out(p, op, 0),
                            .slot = few ? h->d_slots : NULL,
                            .score = hip_op(p, op)->in[2] < 0 ? NULL : hip_in(p, op, 2),
                            .masks = h->shape.d_masks,
                            .vocab = vocab,
                            .n_spans = n_spans};
    if (few) {
        const struct hip_blocks spans = {(size_t)n_spans, (size_t)rows, 1, 0};
        if (h->shape.has_changes) hip_launch_rows(h, K_sample_changes, rows, &a, sizeof a);
        hip_launch(h, K_sample_spans, spans, &a, sizeof a);
        hip_launch(h, K_sample_listed, spans, &a, sizeof a);
    }
    hip_launch_rows(h, K_sample_rows, rows, &a, sizeof a);
}
