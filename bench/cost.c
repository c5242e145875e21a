#include "bench/cost.h"

#include <math.h>
#include <string.h>

void cost_names_of(const struct step_plan *p, struct cost_names *n)
{
    n->n = 0;
    for (int i = 0; i < p->n_ops; i++) {
        int k = 0;
        while (k < n->n && strcmp(n->name[k], p->op[i].name)) k++;
        if (k < n->n) continue;
        CHECK(n->n < COST_NAMES);
        n->first[n->n] = i;
        n->name[n->n++] = p->op[i].name;
    }
}

int cost_name(const struct cost_names *n, const char *name)
{
    int i = 0;
    while (i < n->n && strcmp(n->name[i], name)) i++;
    CHECK(i < n->n);
    return i;
}

/* Of one linear of a stack. */
static double one_linear_bytes(const struct linear *w)
{
    struct linear one = *w;
    one.stack = 0;
    return (double)linear_bytes(&one);
}

/* Of activations; 0: fp32. */
static int digits(enum act act) { return act_formats[act].digits; }

struct cost cost_linear(const struct linear *w, int rows, enum act act)
{
    double ops = 2.0 * (w->codes ? w->k : w->in) * w->out * rows;
    int n = w->codes ? digits(act) : 0;
    return (struct cost){.weights = (double)linear_bytes(w),
                         .acts = 4.0 * rows * (w->in + w->out),
                         .fp32 = n ? 0 : ops,
                         .int8 = n * ops};
}

static struct cost add(struct cost a, struct cost b)
{
    return (struct cost){a.weights + b.weights, a.kv + b.kv, a.acts + b.acts, a.fp32 + b.fp32,
                         a.int8 + b.int8};
}

/* Keys and values of one position. */
static double position_bytes(const struct heads *g, enum kv_type kv)
{
    struct kv_cache cache = {g->n_kv_heads, g->head_dim, g->value_dim};
    return (double)kv_format_page_bytes(kv, &cache) / KV_PAGE;
}

/* Experts are expected to be chosen with equal probability: n rows leave one out with (1 - top_k /
 * experts)^n. */
static struct cost experts(const struct step_plan *p, const struct op *op, double rows,
                           enum act act)
{
    struct cost all = {0};
    int top = op->as.experts.top_k;
    for (int i = 0; i < op->n; i++) {
        const struct linear *w = &p->weight[op->w[i]].linear;
        struct cost c = cost_linear(w, (int)rows * top, act);
        c.weights = one_linear_bytes(w) * w->stack *
                    (1 - pow(1 - (double)top / w->stack, rows));
        all = add(all, c);
    }
    return all;
}

static struct cost attend(const struct op *op, const struct step_shape *s, enum act act,
                          enum kv_type kv)
{
    const struct heads *g = &op->as.attend.heads;
    int window = op->as.attend.window, chosen = op->as.attend.chosen, end = s->depth + s->rows;
    double seen = 0; /* pairs of a row and a position that it sees, of one sequence */
    for (int i = 0; i < s->rows; i++) {
        int pos = s->depth + i, n = pos + 1 - op_first_seen(pos, window);
        seen += chosen && n > chosen ? chosen : n;
    }
    int first = op_first_seen(s->depth, window);
    double q = (double)g->n_heads * g->head_dim, v = (double)g->n_heads * heads_value_dim(g);
    double ops = 2 * (q + v) * s->n_seqs * seen; /* scores, then values */
    int n = kv_is_integer(kv) ? digits(act) : 0, read = end - first;
    if (chosen && read > chosen * s->rows) read = chosen * s->rows;
    return (struct cost){.kv = s->n_seqs * read * position_bytes(g, kv),
                         .weights = op->w[0] >= 0 ? 4.0 * g->n_heads : 0,
                         .acts = 4.0 * (q + v) * s->n_seqs * s->rows,
                         .fp32 = n ? 0 : ops,
                         .int8 = n * ops};
}

static struct cost choose(const struct op *op, const struct step_shape *s, enum kv_type kv)
{
    const struct heads *g = &op->as.choose.heads;
    double q = (double)g->n_heads * g->head_dim, seen = 0;
    for (int i = 0; i < s->rows; i++) seen += s->depth + i + 1;
    return (struct cost){.kv = s->n_seqs * (s->depth + s->rows) * position_bytes(g, kv),
                         .acts = 4.0 * (q + g->n_heads + op->as.choose.top_k) * s->n_seqs * s->rows,
                         .fp32 = 2 * q * s->n_seqs * seen};
}

/* A state is read and written once a step. */
static double state_bytes(const struct step_plan *p, int state, const struct step_shape *s)
{
    return 2.0 * s->n_seqs * (double)p->state[state].bytes;
}

/* Of S: its decay, k S (not of Mamba-2), the sum with k u, q S. */
static double delta_products(const struct op *op, double rows)
{
    double each = op->as.delta.rule == DELTA_SSM || op->as.delta.rule == DELTA_SCAN ? 5 : 7;
    return each * rows * op->as.delta.value_heads * op->as.delta.key_dim * op->as.delta.value_dim;
}

static double rows_of(const struct step_plan *p, int buffer, const struct step_shape *s)
{
    return p->buffer[buffer].rows == ROWS_STEP ? s->n_seqs * s->rows : s->n_seqs;
}

/* Bytes of the buffers that an operation reads and writes; of a result that it updates, twice. */
static double buffer_bytes(const struct step_plan *p, const struct op *op,
                           const struct step_shape *s)
{
    double bytes = 0;
    for (int i = 0; i < OP_INS; i++)
        if (op->in[i] >= 0)
            bytes += rows_of(p, op->in[i], s) * (double)p->buffer[op->in[i]].row_bytes;
    for (int i = 0; i < OP_OUTS; i++)
        if (op->out[i] >= 0)
            bytes += rows_of(p, op->out[i], s) * (double)p->buffer[op->out[i]].row_bytes;
    return bytes;
}

struct cost cost_op(const struct step_plan *p, const struct op *op, const struct step_shape *s,
                    enum act act, enum kv_type kv)
{
    struct cost w = {.acts = buffer_bytes(p, op, s)};
    const struct linear *table;
    switch (op->kind) {
    case OP_EMBED:
        table = &p->weight[op->w[0]].linear;
        w.weights = (double)s->n_seqs * s->rows * table->in *
                    (double)dtype_bytes(table->weight_type);
        w.acts = 4.0 * s->n_seqs * s->rows * table->in;
        return w;
    case OP_NORM:
        w.weights = 4.0 * p->weight[op->w[0]].n * (op->w[1] >= 0 ? 2 : 1);
        return w;
    case OP_LINEAR:
        w = (struct cost){0};
        for (int i = 0; i < op->n; i++)
            w = add(w,
                    cost_linear(&p->weight[op->w[i]].linear, (int)rows_of(p, op->in[0], s), act));
        return w;
    case OP_EXPERTS: return experts(p, op, rows_of(p, op->in[0], s), act);
    case OP_ROPE_STORE:
        if (op->in[1] >= 0) w.kv = s->n_seqs * s->rows * position_bytes(&op->as.rope.heads, kv);
        return w;
    case OP_CHOOSE: return choose(op, s, kv);
    case OP_ATTEND: return attend(op, s, act, kv);
    case OP_CONV:
        w.weights = 4.0 * p->weight[op->w[0]].n;
        w.kv = state_bytes(p, op->as.conv.state, s);
        w.fp32 = 2.0 * s->n_seqs * s->rows * op->as.conv.channels * op->as.conv.width;
        return w;
    case OP_DELTA:
        for (int i = 0; i < 3 && op->w[i] >= 0; i++) w.weights += 4.0 * p->weight[op->w[i]].n;
        w.kv = state_bytes(p, op->as.delta.state, s);
        w.fp32 = delta_products(op, s->n_seqs * s->rows);
        return w;
    case OP_GATHER: w.acts = 2.0 * s->n_seqs * (double)p->buffer[op->out[0]].row_bytes; return w;
    default: return w;
    }
}

struct cost cost_step(const struct step_plan *p, const char *name, const struct step_shape *s,
                      enum act act, enum kv_type kv)
{
    struct cost w = {0};
    for (int i = 0; i < p->n_ops; i++)
        if (!strcmp(p->op[i].name, name)) w = add(w, cost_op(p, &p->op[i], s, act, kv));
    return w;
}

double cost_products(const struct cost *w, enum act act)
{
    return w->fp32 + (act == ACT_I16 ? w->int8 / 2 : w->int8);
}

/* Frequencies are no parameters. */
static int is_frequency(const struct step_plan *p, int weight)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == OP_ANGLES && p->op[i].w[0] == weight) return 1;
    return 0;
}

void cost_model(const struct model *m, double *bytes, double *parameters)
{
    *bytes = *parameters = 0;
    for (int i = 0; i < m->plan.n_weights; i++) {
        const struct weight *w = &m->plan.weight[i];
        const struct linear *l = &w->linear;
        if (w->vector && is_frequency(&m->plan, i)) continue;
        *bytes += w->vector ? 4.0 * w->n : (double)linear_bytes(l);
        *parameters += w->vector ? w->n : ((double)l->in * l->out + (l->bias ? l->out : 0)) *
                                               (l->stack ? l->stack : 1);
    }
}
