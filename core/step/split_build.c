/* split_build.c: writes down the plans of the places, segments and transfers. */
#include "core/step/split_internal.h"

#include <stdlib.h>
#include <string.h>

static void fail(struct splitter *s)
{
    if (!s->failed) err_memory(s->e);
    s->failed = 1;
}

static struct split_item *add_item(struct splitter *s)
{
    struct split *o = s->out;
    if ((o->n_items & (o->n_items - 1)) == 0) {
        size_t n = o->n_items ? 2 * (size_t)o->n_items : 1;
        struct split_item *grown = realloc(o->item, n * sizeof *grown);
        if (!grown) {
            fail(s);
            return NULL;
        }
        o->item = grown;
    }
    return memset(&o->item[o->n_items++], 0, sizeof *o->item);
}

/* What place q has computed so far becomes a segment. */
static void end_segment(struct splitter *s, int q)
{
    int first = s->pending[q], n = s->out->plan[q].n_ops - first;
    struct split_item *item = n ? add_item(s) : NULL;
    if (!item) return;
    item->place = q;
    item->first = first;
    item->n_ops = n;
    s->pending[q] += n;
}

static void *copied(const void *from, int n, size_t bytes)
{
    void *to = malloc((size_t)n * bytes + 1);
    return to && n ? memcpy(to, from, (size_t)n * bytes) : to;
}

/* Capacities of step_plan_add_*() are powers of two, those of a copy are its size. */
static int begin_plan(const struct step_plan *p, struct step_plan *q, struct err *e)
{
    int rc = 0;
    step_plan_init(q);
    for (int i = 0; i < p->n_buffers && rc >= 0; i++)
        rc = step_plan_add_buffer(q, p->buffer[i].name, p->buffer[i].rows, p->buffer[i].row_bytes,
                                  e);
    for (int i = 0; i < p->n_weights && rc >= 0; i++)
        rc = step_plan_add_weight(q, &p->weight[i], e);
    q->kv = copied(p->kv, p->n_kv, sizeof *p->kv);
    q->state = copied(p->state, p->n_states, sizeof *p->state);
    if (!q->kv || !q->state) return err_memory(e);
    q->is_part = 1;
    q->n_kv = p->n_kv;
    q->n_states = p->n_states;
    q->n_step_sets = p->n_step_sets;
    return rc < 0 ? -1 : 0;
}

int split_begin(struct splitter *s)
{
    const struct step_plan *p = s->p;
    memset(s->pending, 0, sizeof s->pending);
    s->n_parts = 0;
    for (int q = 0; q < s->out->n_places; q++)
        if (begin_plan(p, &s->out->plan[q], s->e)) return -1;
    struct step_plan *first = &s->out->plan[0];
    first->best = p->best;
    first->logits = p->logits;
    first->top = p->top;
    first->score = p->score;
    first->hidden = p->hidden;
    first->keeps_hidden = p->keeps_hidden;
    return 0;
}

void split_end_body(struct splitter *s)
{
    if (s->p->keeps_hidden) split_need(s, s->p->hidden, 1u);
    for (int q = 0; q < s->out->n_places; q++) {
        end_segment(s, q);
        s->out->plan[q].n_body = s->out->plan[q].n_ops;
    }
    s->out->n_body = s->out->n_items;
}

void split_end(struct splitter *s)
{
    for (int q = 0; q < s->out->n_places; q++) end_segment(s, q);
}

void split_add_op(struct splitter *s, int q, const struct op *op)
{
    if (step_plan_add_op(&s->out->plan[q], op, s->e) < 0) s->failed = 1;
}

/* 0, or -1 and the splitter has failed. */
static int add_part(struct splitter *s, const struct part *t)
{
    if ((s->n_parts & (s->n_parts - 1)) == 0) {
        size_t n = s->n_parts ? 2 * (size_t)s->n_parts : 1;
        struct part *grown = realloc(s->part, n * sizeof *grown);
        if (!grown) {
            fail(s);
            return -1;
        }
        s->part = grown;
    }
    s->part[s->n_parts++] = *t;
    return 0;
}

int split_part(struct splitter *s, int q, int buffer, const struct cut *cut)
{
    struct step_plan *p = &s->out->plan[q];
    const struct buffer b = s->p->buffer[buffer];
    size_t bytes = (size_t)cut->groups * (size_t)(cut->at[q + 1] - cut->at[q]) * sizeof(float);
    for (int i = 0; i < s->n_parts; i++) {
        const struct part *t = &s->part[i];
        if (t->q == q && t->buffer == buffer && p->buffer[t->number].row_bytes == bytes)
            return t->number;
    }
    int number = step_plan_add_buffer(p, b.name, b.rows, bytes, s->e);
    if (number < 0) s->failed = 1;
    return number < 0 || add_part(s, &(struct part){q, buffer, number}) ? 0 : number;
}

/* ---- transfers */

static int lowest(unsigned places)
{
    int q = 0;
    while (!(places >> q & 1)) q++;
    return q;
}

/* The whole rows of another place, or the columns of all. */
static void make_transfer(struct splitter *s, int buffer, int to, struct transfer *t)
{
    const struct value *v = &s->value[buffer];
    int width = split_width(s, buffer);
    *t = (struct transfer){.to = to, .buffer = buffer, .rows = s->p->buffer[buffer].rows};
    if (v->whole) {
        t->groups = t->n = 1;
        t->width = width;
        t->piece[0] = (struct transfer_piece){lowest(v->whole), buffer, 0, width};
        return;
    }
    t->groups = v->cut.groups;
    t->width = width / t->groups;
    for (int q = 0; q < s->out->n_places; q++)
        t->piece[t->n++] = (struct transfer_piece){q, split_part(s, q, buffer, &v->cut),
                                                   v->cut.at[q], v->cut.at[q + 1] - v->cut.at[q]};
}

static void end_segments(struct splitter *s, unsigned places)
{
    for (int q = 0; q < s->out->n_places; q++)
        if (places >> q & 1) end_segment(s, q);
}

void split_need(struct splitter *s, int buffer, unsigned places)
{
    struct value *v = &s->value[buffer];
    struct transfer t;
    unsigned lack = v->written ? places & ~v->whole : 0;
    if (!lack) return;
    make_transfer(s, buffer, lowest(lack), &t);
    unsigned from = 0;
    for (int i = 0; i < t.n; i++) from |= 1u << t.piece[i].from;
    /* who only receives comes first: a device computes while the others do their parts */
    end_segments(s, lack & ~from);
    end_segments(s, from);
    end_segments(s, lack & from);
    for (int q = 0; q < s->out->n_places; q++) {
        if (!(lack >> q & 1)) continue;
        struct split_item *item = add_item(s);
        t.to = q;
        if (item) item->transfer = t;
    }
    v->whole |= lack;
}

/* ---- weights and sizes of shares */

static int is_view(const struct weight *a, const struct weight *b)
{
    return a->vector == b->vector && a->n == b->n && a->linear.out == b->linear.out &&
           a->linear.codes == b->linear.codes && a->linear.weight == b->linear.weight;
}

static int add_view(struct splitter *s, int q, const struct weight *w)
{
    struct step_plan *p = &s->out->plan[q];
    for (int i = s->p->n_weights; i < p->n_weights; i++)
        if (is_view(&p->weight[i], w)) return i;
    int i = step_plan_add_weight(p, w, s->e);
    if (i < 0) s->failed = 1, i = 0;
    return i;
}

int split_rows(struct splitter *s, int q, int weight, int first, int n)
{
    struct weight w = s->p->weight[weight];
    w.has_offsets = 0; /* they are no neighbour of the view */
    w.linear = linear_rows(&w.linear, first, n);
    return add_view(s, q, &w);
}

static void narrow_heads(struct splitter *s, int q, struct heads *h, int kv, int columns)
{
    int of_group = h->n_heads / h->n_kv_heads;
    h->n_heads = columns / h->head_dim;
    h->n_kv_heads = h->n_heads / of_group;
    s->out->plan[q].kv[kv].n_kv_heads = h->n_kv_heads;
}

/* The rows of key biases of a place whose first query head is first_head. */
static void narrow_biases(struct splitter *s, int q, struct op *op, int first_head)
{
    const struct heads *h = &op->as.attend.heads;
    int each = op->as.attend.bias_pairs * KEY_BIAS_ROW;
    if (!each) return;
    struct weight rows = s->p->weight[op->w[1]];
    rows.vector += (size_t)(first_head / (h->n_heads / h->n_kv_heads)) * (size_t)each;
    rows.n = h->n_kv_heads * each;
    op->w[1] = add_view(s, q, &rows);
}

void split_narrow(struct splitter *s, int q, struct op *op, const struct cut *out)
{
    int columns = out->at[q + 1] - out->at[q];
    if (op->kind == OP_NORM) {
        int each = out->at[s->out->n_places] / op->as.norm.groups;
        op->as.norm.groups = columns / each;
    } else if (op->kind == OP_ROPE_STORE) {
        narrow_heads(s, q, &op->as.rope.heads, op->as.rope.kv, columns);
    } else if (op->kind == OP_ATTEND) {
        int head_dim = op->as.attend.heads.head_dim;
        narrow_heads(s, q, &op->as.attend.heads, op->as.attend.kv, columns);
        narrow_biases(s, q, op, out->at[q] / head_dim);
        if (op->w[0] < 0) return;
        struct weight sinks = s->p->weight[op->w[0]];
        sinks.vector += out->at[q] / head_dim;
        sinks.n = op->as.attend.heads.n_heads;
        op->w[0] = add_view(s, q, &sinks);
    }
}

/* ---- segments */

static int has(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

static int is_sent(const struct split *o, int q, int buffer)
{
    for (int i = 0; i < o->n_items; i++) {
        const struct transfer *t = &o->item[i].transfer;
        for (int k = 0; !o->item[i].n_ops && k < t->n; k++)
            if (t->piece[k].from == q && t->piece[k].buffer == buffer) return 1;
    }
    return 0;
}

/* Whether what is in a buffer of place q behind operation i of its plan is read later: by another
 * place, after the step, or by an operation. */
static int is_read_after(const struct split *o, int q, int i, int buffer)
{
    const struct step_plan *p = &o->plan[q];
    if (is_sent(o, q, buffer) || buffer == p->best || buffer == p->logits || buffer == p->top ||
        buffer == p->score || (p->keeps_hidden && buffer == p->hidden))
        return 1;
    for (int j = i; j < p->n_ops; j++) {
        if (has(p->op[j].in, OP_INS, buffer)) return 1;
        if (has(p->op[j].out, OP_OUTS, buffer)) return 0;
    }
    return 0;
}

static int last_in_segment(const struct split *o, const struct split_item *t, int i, int buffer)
{
    int last = i;
    for (int j = i + 1; j < t->n_ops; j++) {
        if (has(t->plan.op[j].in, OP_INS, buffer)) last = j;
        if (has(t->plan.op[j].out, OP_OUTS, buffer)) return last;
    }
    return is_read_after(o, t->place, t->first + t->n_ops, buffer) ? OP_KEPT : last;
}

int split_segments(struct splitter *s)
{
    struct split *o = s->out;
    for (int i = 0; i < o->n_items; i++) {
        struct split_item *t = &o->item[i];
        if (!t->n_ops) continue;
        if (step_plan_slice(&o->plan[t->place], t->first, t->n_ops, &t->plan, s->e)) return -1;
        for (int j = 0; j < t->n_ops; j++)
            for (int k = 0; k < OP_OUTS; k++)
                t->plan.op[j].last[k] = t->plan.op[j].out[k] < 0
                                            ? j
                                            : last_in_segment(o, t, j, t->plan.op[j].out[k]);
    }
    return 0;
}

void split_free_plans(struct split *o)
{
    for (int i = 0; i < o->n_items; i++) step_plan_free_slice(&o->item[i].plan);
    for (int q = 0; q < o->n_places; q++) step_plan_free(&o->plan[q]);
    free(o->item);
    o->item = NULL;
    o->n_items = o->n_body = 0;
}

void split_free(struct split *o)
{
    split_free_plans(o);
    memset(o, 0, sizeof *o);
}
