#include "bench/timed.h"

#include "bench/stats.h"

#include <string.h>

static struct timed *timed_of(struct be *be) { return (struct timed *)be->ops; }

/* A failure stays latched in the backend until the step's own wait. */
static void stop(struct be *be, enum op op, double start)
{
    struct timed *t = timed_of(be);
    struct err e;
    if (op != OP_SYNC) t->inner->sync(be, &e);
    t->seconds[op] += stats_wall() - start;
    t->calls[op]++;
}

static enum op linear_op(const struct forward *f, const struct be_linear *w)
{
    if (w == f->head) return OP_HEAD;
    for (int i = 0; i < f->model->config.n_layers; i++) {
        struct be_linear *const *l = f->layers[i].linear;
        if (w == l[LIN_Q]) return OP_QKV;
        if (w == l[LIN_O]) return OP_O;
        if (w == l[LIN_GATE]) return OP_GATE_UP;
        if (w == l[LIN_DOWN]) return OP_DOWN;
    }
    CHECK(!"a linear of the model");
    return OP_COUNT;
}

static void timed_begin_step(struct be *be, const struct batch *b)
{
    double start = stats_wall();
    timed_of(be)->inner->begin_step(be, b);
    stop(be, OP_BEGIN, start);
}

static int timed_wait_step(struct be *be, struct err *e)
{
    double start = stats_wall();
    int rc = timed_of(be)->inner->wait_step(be, e);
    stop(be, OP_SYNC, start);
    return rc;
}

static void timed_embed(struct be *be, const struct be_linear *table, const int32_t *d_chosen,
                        float *d_out)
{
    double start = stats_wall();
    timed_of(be)->inner->embed(be, table, d_chosen, d_out);
    stop(be, OP_EMBED, start);
}

static void timed_norm(struct be *be, float *d_x, const float *d_delta, const float *d_weight,
                       float eps, float *d_out, int rows, int dim)
{
    double start = stats_wall();
    timed_of(be)->inner->norm(be, d_x, d_delta, d_weight, eps, d_out, rows, dim);
    stop(be, OP_NORM, start);
}

static void timed_linear(struct be *be, int n, const struct be_linear *const w[], const float *d_x,
                         float *const d_y[], int rows, int n_decode)
{
    enum op op = linear_op(timed_of(be)->forward, w[0]);
    double start = stats_wall();
    timed_of(be)->inner->linear(be, n, w, d_x, d_y, rows, n_decode);
    stop(be, op, start);
}

static void timed_rope_store(struct be *be, const struct rope_args *a)
{
    double start = stats_wall();
    timed_of(be)->inner->rope_store(be, a);
    stop(be, OP_ROPE, start);
}

static void timed_attend(struct be *be, const struct attend_args *a)
{
    double start = stats_wall();
    timed_of(be)->inner->attend(be, a);
    stop(be, OP_ATTEND, start);
}

static void timed_glu(struct be *be, float *d_gate, const float *d_up, size_t n)
{
    double start = stats_wall();
    timed_of(be)->inner->glu(be, d_gate, d_up, n);
    stop(be, OP_GLU, start);
}

static void timed_gather(struct be *be, const float *d_x, float *d_out, int dim)
{
    double start = stats_wall();
    timed_of(be)->inner->gather(be, d_x, d_out, dim);
    stop(be, OP_GATHER, start);
}

static void timed_argmax(struct be *be, const float *d_logits, int32_t *d_id, int rows, int vocab)
{
    double start = stats_wall();
    timed_of(be)->inner->argmax(be, d_logits, d_id, rows, vocab);
    stop(be, OP_ARGMAX, start);
}

static void timed_top(struct be *be, const float *d_logits, struct logits_entry *d_top, int vocab)
{
    double start = stats_wall();
    timed_of(be)->inner->top(be, d_logits, d_top, vocab);
    stop(be, OP_TOP, start);
}

static void timed_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    double start = stats_wall();
    timed_of(be)->inner->download(be, dst, d_src, bytes);
    stop(be, OP_DOWNLOAD, start);
}

void timed_attach(struct timed *t, struct forward *f)
{
    *t = (struct timed){.ops = *f->be->ops, .inner = f->be->ops, .forward = f};
    t->ops.begin_step = timed_begin_step;
    t->ops.wait_step = timed_wait_step;
    t->ops.embed = timed_embed;
    t->ops.norm = timed_norm;
    t->ops.linear = timed_linear;
    t->ops.rope_store = timed_rope_store;
    t->ops.attend = timed_attend;
    t->ops.glu = timed_glu;
    t->ops.gather = timed_gather;
    t->ops.argmax = timed_argmax;
    if (t->ops.top) t->ops.top = timed_top;
    t->ops.download = timed_download;
    f->be->ops = &t->ops;
}

void timed_detach(struct timed *t, struct forward *f) { f->be->ops = t->inner; }

void timed_reset(struct timed *t)
{
    memset(t->seconds, 0, sizeof t->seconds);
    memset(t->calls, 0, sizeof t->calls);
}
