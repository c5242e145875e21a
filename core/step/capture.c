#include "core/step/capture.h"

#include "core/step/stepwise.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    struct capture_of of;
    const struct backend *ops;
    struct step_plan before, layer; /* slices of the plan: up to the first linear; from it on */
    struct be_plan *first;          /* before, compiled; NULL: it is empty */
    struct be_plan *steps;          /* layer, operation by operation */
    struct stepwise_hooks hooks;
    capture_fn *fn;
    void *self;
    float *x;        /* [max_rows][widest input] as downloaded */
    float *gathered; /* rows of one expert */
    int32_t *ids;    /* [max_rows][top_k] experts */
    int32_t *row;
    int failed;
    struct err why;
};

static int is_linear(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERTS;
}

static size_t row_floats(const struct step_plan *p, const struct op *op)
{
    return p->buffer[op->in[0]].row_bytes / sizeof(float);
}

/* Not the linears of offsets: a quantizer has no use for sums. */
static int wanted(const struct capture *c, const struct op *op)
{
    return is_linear(op) && op->layer == c->of.layer && !step_plan_is_offsets(c->of.plan, op);
}

/* Elements of the input of a weight of the operation. */
static int width_of(const struct step_plan *p, const struct op *op)
{
    return p->weight[op->w[0]].linear.in;
}

static int hand_out(struct capture *c, const struct stepwise_call *call, struct capture_rows *r)
{
    r->op = call->op;
    r->row = c->row;
    r->batch = call->batch;
    return c->fn(c->self, r, &c->why);
}

static int rows_of(const struct stepwise_call *call)
{
    const struct buffer *b = &call->plan->buffer[call->op->in[0]];
    return b->rows == ROWS_STEP ? call->batch->n_rows : call->batch->n_logits;
}

static int linear_input(struct capture *c, const struct stepwise_call *call)
{
    struct capture_rows r = {
        .expert = -1, .n = rows_of(call), .width = width_of(call->plan, call->op), .x = c->x};
    for (int i = 0; i < r.n; i++) c->row[i] = i;
    return hand_out(c, call, &r);
}

/* The rows of expert number `expert`, in the order of the batch. */
static int expert_input(struct capture *c, const struct stepwise_call *call, int expert)
{
    const struct op *op = call->op;
    int k = op->as.experts.top_k, n = call->batch->n_rows;
    struct capture_rows r = {.expert = expert, .width = width_of(call->plan, op), .x = c->gathered};
    size_t width = (size_t)r.width, row = row_floats(call->plan, op);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) {
            if (c->ids[(size_t)i * (size_t)k + (size_t)j] != expert) continue;
            const float *from = c->x + (size_t)i * row;
            if (op->as.experts.each) from += (size_t)j * width;
            memcpy(c->gathered + (size_t)r.n * width, from, width * sizeof *from);
            c->row[r.n++] = i;
        }
    return r.n ? hand_out(c, call, &r) : 0;
}

static int inputs(struct capture *c, const struct stepwise_call *call)
{
    const struct op *op = call->op;
    const struct plan_memory *m = call->memory;
    size_t rows = (size_t)rows_of(call), row = row_floats(call->plan, op);
    int stack = call->plan->weight[op->w[0]].linear.stack;
    c->ops->download(c->of.be, c->x, m->buffer[op->in[0]], rows * row * sizeof *c->x);
    if (op->kind == OP_EXPERTS)
        c->ops->download(c->of.be, c->ids, m->buffer[op->in[1]],
                         rows * (size_t)op->as.experts.top_k * sizeof *c->ids);
    if (c->ops->sync(c->of.be, &c->why)) return -1;
    if (op->kind == OP_LINEAR) return linear_input(c, call);
    for (int i = 0; i < stack; i++)
        if (expert_input(c, call, i)) return -1;
    return 0;
}

static void before_op(struct be *be, const struct stepwise_call *call)
{
    struct capture *c = call->self;
    (void)be;
    if (!c->failed && wanted(c, call->op)) c->failed = inputs(c, call) != 0;
}

static int open_room(struct capture *c, struct err *e)
{
    const struct step_plan *p = c->of.plan;
    size_t rows = (size_t)c->of.max_rows, widest = 0, most = 1, gathered = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (!wanted(c, op)) continue;
        size_t k = op->kind == OP_EXPERTS ? (size_t)op->as.experts.top_k : 1,
               width = (size_t)width_of(p, op);
        if (row_floats(p, op) > widest) widest = row_floats(p, op);
        if (k > most) most = k;
        if (op->kind == OP_EXPERTS && k * width > gathered) gathered = k * width;
    }
    c->x = malloc(rows * widest * sizeof *c->x);
    c->gathered = malloc((rows * gathered + 1) * sizeof *c->gathered);
    c->ids = malloc(rows * most * sizeof *c->ids);
    c->row = malloc(rows * most * sizeof *c->row);
    return c->x && c->gathered && c->ids && c->row ? 0 : err_memory(e);
}

/* The slices up to the layer's first linear, and from there to its last. */
static int open_plans(struct capture *c, struct err *e)
{
    const struct step_plan *p = c->of.plan;
    int first = p->n_ops, last = -1;
    for (int i = 0; i < p->n_ops; i++)
        if (wanted(c, &p->op[i])) {
            last = i;
            if (i < first) first = i;
        }
    if (last < 0) return err_set(e, "layer %d has no linear", c->of.layer);
    if (first && (step_plan_slice(p, 0, first, &c->before, e) ||
                  c->ops->compile(c->of.be, &c->before, c->of.memory, &c->first, e)))
        return -1;
    if (step_plan_slice(p, first, last - first + 1, &c->layer, e)) return -1;
    return stepwise_compile(c->of.be, c->ops, &c->hooks, &c->layer, c->of.memory, &c->steps, e);
}

int capture_open(struct capture **out, const struct capture_of *of, capture_fn *fn, void *self,
                 struct err *e)
{
    struct capture *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e);
    c->of = *of;
    c->ops = of->be->ops;
    c->fn = fn;
    c->self = self;
    c->hooks = (struct stepwise_hooks){.before = before_op, .self = c};
    if (open_plans(c, e) || open_room(c, e)) {
        capture_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

int capture_step(struct capture *c, const struct batch *b, struct err *e)
{
    CHECK(b->n_rows <= c->of.max_rows && b->n_logits <= c->of.max_rows);
    c->failed = 0;
    c->ops->begin_step(c->of.be, b);
    if (c->first) c->ops->run(c->of.be, c->first);
    stepwise_run(c->of.be, c->ops, &c->hooks, c->steps, b);
    c->ops->end_step(c->of.be);
    if (c->ops->wait_step(c->of.be, e)) return -1;
    if (c->failed) *e = c->why;
    return c->failed ? -1 : 0;
}

void capture_close(struct capture *c)
{
    if (!c) return;
    stepwise_drop(c->of.be, c->ops, c->steps);
    if (c->first) c->ops->drop_plan(c->of.be, c->first);
    step_plan_free_slice(&c->before);
    step_plan_free_slice(&c->layer);
    free(c->x);
    free(c->gathered);
    free(c->ids);
    free(c->row);
    free(c);
}
