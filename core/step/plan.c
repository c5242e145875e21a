#include "core/step/plan.h"

#include <stdlib.h>
#include <string.h>

void step_plan_init(struct step_plan *p)
{
    *p = (struct step_plan){.best = -1, .logits = -1, .top = -1, .score = -1, .hidden = -1};
}

void step_plan_free(struct step_plan *p)
{
    free(p->op);
    free(p->draft);
    free(p->buffer);
    free(p->weight);
    free(p->kv);
    free(p->state);
    step_plan_init(p);
}

void step_plan_free_slice(struct step_plan *p)
{
    free(p->op);
    step_plan_init(p);
}

/* Appends one element to *array of n; capacities are powers of two. */
static int append(void **array, int *n, const void *element, size_t bytes, struct err *e)
{
    if ((*n & (*n - 1)) == 0) {
        void *grown = realloc(*array, (size_t)(*n ? 2 * *n : 1) * bytes);
        if (!grown) return err_memory(e);
        *array = grown;
    }
    memcpy((char *)*array + (size_t)*n * bytes, element, bytes);
    return (*n)++;
}

int step_plan_add_op(struct step_plan *p, const struct op *op, struct err *e)
{
    return append((void **)&p->op, &p->n_ops, op, sizeof *op, e);
}

int step_plan_add_draft(struct step_plan *p, const struct op *op, struct err *e)
{
    return append((void **)&p->draft, &p->n_draft, op, sizeof *op, e);
}

int step_plan_add_buffer(struct step_plan *p, const char *name, enum rows_of rows, size_t row_bytes,
                         struct err *e)
{
    struct buffer b = {name, rows, row_bytes};
    return append((void **)&p->buffer, &p->n_buffers, &b, sizeof b, e);
}

int step_plan_add_weight(struct step_plan *p, const struct weight *w, struct err *e)
{
    return append((void **)&p->weight, &p->n_weights, w, sizeof *w, e);
}

int step_plan_add_kv(struct step_plan *p, struct kv_cache kv, struct err *e)
{
    return append((void **)&p->kv, &p->n_kv, &kv, sizeof kv, e);
}

int step_plan_add_state(struct step_plan *p, struct state state, struct err *e)
{
    return append((void **)&p->state, &p->n_states, &state, sizeof state, e);
}

struct op op_of(enum op_kind kind, const char *name, int layer)
{
    struct op op = {.kind = kind, .name = name, .layer = layer, .n = 1};
    for (int i = 0; i < OP_INS; i++) op.in[i] = NO_BUFFER;
    for (int i = 0; i < OP_OUTS; i++) op.out[i] = NO_BUFFER, op.w[i] = NO_WEIGHT;
    return op;
}

static int uses(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

/* The last operation that reads the result of operation i in a buffer, before another operation
 * overwrites it. An operation that updates a buffer in place reads it first. */
static int last_reader(const struct step_plan *p, int i, int buffer)
{
    int last = i;
    for (int j = i + 1; j < p->n_ops; j++) {
        if (uses(p->op[j].in, OP_INS, buffer)) last = j;
        if (uses(p->op[j].out, OP_OUTS, buffer)) return last;
    }
    int kept = buffer == p->best || buffer == p->logits || buffer == p->top || buffer == p->score ||
               (p->keeps_hidden && buffer == p->hidden);
    return kept ? OP_KEPT : last;
}

/* 1 if operation i reads what others store in a cache. */
static int reads_cache(const struct step_plan *p, int i)
{
    return p->op[i].kind == OP_ATTEND || p->op[i].kind == OP_CHOOSE;
}

/* The last operation that reads what operation i stores; i: none. */
static int last_attend(const struct step_plan *p, int i)
{
    int last = i;
    for (int j = i + 1; j < p->n_ops; j++)
        if (reads_cache(p, j) && op_cache(&p->op[j]) == p->op[i].as.rope.kv) last = j;
    return last;
}

/* 1 if operation i of kind OP_ROPE_STORE stores something. */
static int stores(const struct step_plan *p, int i)
{
    return p->op[i].kind == OP_ROPE_STORE && p->op[i].in[1] >= 0;
}

/* Gives every cache the lowest step set that no earlier cache still needs. */
static void choose_step_sets(struct step_plan *p)
{
    p->n_step_sets = 0;
    for (int i = 0; i < p->n_ops; i++) {
        if (!stores(p, i)) continue;
        int set = 0, kv = p->op[i].as.rope.kv;
        for (int j = 0; j < i; j++)
            if (stores(p, j) && p->op[j].as.rope.step_set == set && last_attend(p, j) > i)
                set++, j = -1;
        p->op[i].as.rope.step_set = set;
        for (int j = i + 1; j < p->n_ops; j++) {
            struct op *op = &p->op[j];
            if (op_cache(op) != kv || !reads_cache(p, j)) continue;
            *(op->kind == OP_ATTEND ? &op->as.attend.step_set : &op->as.choose.step_set) = set;
        }
        if (set >= p->n_step_sets) p->n_step_sets = set + 1;
    }
}

void step_plan_liveness(struct step_plan *p, int keep_all)
{
    for (int i = 0; i < p->n_ops; i++) {
        struct op *op = &p->op[i];
        for (int k = 0; k < OP_OUTS; k++)
            op->last[k] = op->out[k] < 0 ? i : keep_all ? OP_KEPT : last_reader(p, i, op->out[k]);
    }
    if (!keep_all) choose_step_sets(p);
}

static int copy_ops(const struct step_plan *p, int first, int n, struct step_plan *out,
                    struct err *e)
{
    *out = *p;
    out->op = malloc((size_t)n * sizeof *out->op);
    if (!out->op) return err_memory(e);
    memcpy(out->op, p->op + first, (size_t)n * sizeof *out->op);
    out->n_ops = n;
    return 0;
}

int step_plan_copy(const struct step_plan *p, struct step_plan *out, struct err *e)
{
    return copy_ops(p, 0, p->n_ops, out, e);
}

/* Whether a and b give the same results in either order. */
static int commute(const struct op *a, const struct op *b)
{
    for (int i = 0; i < OP_OUTS; i++) {
        int x = a->out[i], y = b->out[i];
        if (x >= 0 && (uses(b->in, OP_INS, x) || uses(b->out, OP_OUTS, x))) return 0;
        if (y >= 0 && uses(a->in, OP_INS, y)) return 0;
    }
    return 1;
}

/* The last readers of the results that are not kept, after operations changed places. */
static void renew_readers(struct step_plan *p)
{
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < OP_OUTS; k++)
            if (p->op[i].out[k] < 0) p->op[i].last[k] = i;
            else if (p->op[i].last[k] != OP_KEPT)
                p->op[i].last[k] = last_reader(p, i, p->op[i].out[k]);
}

int step_plan_move_up(struct step_plan *p, int from, int to)
{
    const struct op moved = p->op[from];
    CHECK(to >= 0 && to <= from && from < p->n_ops);
    if ((from < p->n_body) != (to < p->n_body)) return 0;
    for (int i = to; i < from; i++)
        if (!commute(&p->op[i], &moved)) return 0;
    memmove(p->op + to + 1, p->op + to, (size_t)(from - to) * sizeof *p->op);
    p->op[to] = moved;
    renew_readers(p);
    return 1;
}

/* No operation writes or reads what OP_SCORE finds. */
static void drop_score(struct step_plan *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == OP_SAMPLE) p->op[i].in[2] = NO_BUFFER;
    p->score = NO_BUFFER;
}

void step_plan_drop(struct step_plan *p, enum op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->op[i].kind == kind) p->n_body -= i < p->n_body;
        else p->op[n++] = p->op[i];
    }
    p->n_ops = n;
    if (kind == OP_TOP) p->top = NO_BUFFER;
    if (kind == OP_SCORE) drop_score(p);
    renew_readers(p);
}

int step_plan_slice(const struct step_plan *p, int first, int n, struct step_plan *out,
                    struct err *e)
{
    CHECK(first >= 0 && n > 0 && first + n <= p->n_ops);
    if (copy_ops(p, first, n, out, e)) return -1;
    out->whole = p->whole ? p->whole : p;
    out->first = p->first + first;
    out->n_body = p->n_body <= first ? 0 : p->n_body < first + n ? p->n_body - first : n;
    step_plan_liveness(out, 1);
    return 0;
}

int step_plan_keep_hidden(const struct step_plan *p, struct step_plan *out, struct err *e)
{
    CHECK(p->hidden >= 0 && p->n_body < p->n_ops && p->op[p->n_body].out[0] == p->hidden);
    if (copy_ops(p, 0, p->n_ops, out, e)) return -1;
    out->n_body++;
    out->keeps_hidden = 1;
    step_plan_liveness(out, 0);
    return 0;
}

int step_plan_draft(const struct step_plan *p, int again, struct step_plan *out, struct err *e)
{
    struct step_plan drafts = *p;
    CHECK(p->n_draft > 0);
    drafts.op = p->draft;
    if (copy_ops(&drafts, 0, p->n_draft, out, e)) return -1;
    out->n_body = p->draft_body;
    out->best = p->draft_best;
    out->logits = p->draft_logits;
    out->top = out->score = NO_BUFFER;
    out->hidden = p->draft_last;
    out->keeps_hidden = 1;
    for (int i = 0; i < out->n_ops && again; i++)
        for (int k = 0; k < OP_INS; k++)
            if (out->op[i].in[k] == p->draft_hidden) out->op[i].in[k] = p->draft_last;
    step_plan_liveness(out, 0);
    return 0;
}

int step_plan_max_k(const struct step_plan *p)
{
    int k = 0;
    for (int i = 0; i < p->n_weights; i++)
        if (!p->weight[i].vector && p->weight[i].linear.k > k) k = p->weight[i].linear.k;
    return k;
}

int step_plan_n_quantized(const struct step_plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_weights; i++) n += !p->weight[i].vector && p->weight[i].linear.codes;
    return n;
}

int step_plan_is_offsets(const struct step_plan *p, const struct op *op)
{
    return op->kind == OP_LINEAR && op->w[0] > 0 && p->weight[op->w[0] - 1].has_offsets;
}
