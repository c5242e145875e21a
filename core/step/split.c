/* split.c: places for operations. A simulation of the plan keeps, for each buffer, the places that
 * have its rows whole and how it is cut into columns otherwise; an operation that needs rows which
 * its place lacks gets a transfer. */
#include "core/step/split_internal.h"

#include <stdlib.h>
#include <string.h>

enum { PANEL = 16, EVERYWHERE = -1 };

static int op_has(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

/* ---- shares of columns */

/* Shares of n units of `unit` columns, as even as can be; no groups: there are too few units. */
static struct cut cut_units(const struct splitter *s, int n, int unit, int last)
{
    struct cut c = {.groups = 1};
    int places = s->out->n_places;
    if (n < places) return (struct cut){0};
    for (int q = 1; q <= places; q++) c.at[q] = (int)((int64_t)n * q / places) * unit;
    c.at[places] = last;
    return c;
}

/* Of the outputs of a linear. */
static struct cut cut_outputs(const struct splitter *s, int out)
{
    return cut_units(s, (out + PANEL - 1) / PANEL, PANEL, out);
}

/* Of attention: all heads that share a KV head stay together; `each` elements to a KV head. None
 * where the linear before it would be cut within a panel. */
static struct cut cut_heads(const struct splitter *s, const struct heads *h, int kv, int each)
{
    int whole = s->kv_whole[kv] || heads_are_latent(h);
    struct cut c = whole ? (struct cut){0}
                         : cut_units(s, h->n_kv_heads, each, h->n_kv_heads * each);
    for (int q = 1; q < s->out->n_places; q++)
        if (c.at[q] % PANEL) return (struct cut){0};
    return c;
}

static struct cut cut_queries(const struct splitter *s, const struct heads *h, int kv)
{
    return cut_heads(s, h, kv, h->n_heads / h->n_kv_heads * h->head_dim);
}

static int same_cut(const struct cut *a, const struct cut *b)
{
    return a->groups > 0 && !memcmp(a, b, sizeof *a);
}

/* The operation that reads first what is in the buffer behind operation i; -1: none. */
static int reader(const struct splitter *s, int i, int buffer)
{
    for (int j = i + 1; j < s->p->n_ops; j++) {
        if (op_has(s->p->op[j].in, OP_INS, buffer)) return j;
        if (op_has(s->p->op[j].out, OP_OUTS, buffer)) return -1;
    }
    return -1;
}

static const struct op *writer(const struct splitter *s, int i, int buffer)
{
    for (int j = i - 1; j >= 0; j--)
        if (op_has(s->p->op[j].out, OP_OUTS, buffer)) return &s->p->op[j];
    return NULL;
}

/* Whether operation op adds offsets to a linear's results. */
static int adds_offsets(const struct splitter *s, const struct op *op)
{
    const struct op *from = op->kind == OP_ADD && op->in[1] >= 0
                                ? writer(s, (int)(op - s->p->op), op->in[1])
                                : NULL;
    return from && step_plan_is_offsets(s->p, from);
}

/* The shares that the reader of a linear's outputs asks for, in the buffer behind operation i: of
 * heads, or even ones. */
static struct cut cut_for_reader(const struct splitter *s, int i, int buffer, int out)
{
    for (int b = buffer, j = i; (j = reader(s, j, b)) >= 0;) {
        const struct op *op = &s->p->op[j];
        if (op->kind == OP_ROUTE) return (struct cut){0}; /* a router is small */
        if (op->kind == OP_ROPE_STORE)
            return b == op->in[0] ? cut_queries(s, &op->as.rope.heads, op->as.rope.kv)
                                  : cut_heads(s, &op->as.rope.heads, op->as.rope.kv,
                                              op->as.rope.heads.head_dim);
        if (op->kind == OP_GLU && op->in[1] >= 0) {
            const struct op *other = writer(s, j, op->in[0] == b ? op->in[1] : op->in[0]);
            if (other && other->kind == OP_ATTEND)
                return cut_queries(s, &other->as.attend.heads, other->as.attend.kv);
            break;
        }
        if (op->kind != OP_ADD && op->kind != OP_NORM && op->kind != OP_SOFTCAP) break;
        if (!adds_offsets(s, op) && (op->in[0] != b || op->in[1] >= 0)) break;
        b = op->out[0];
    }
    return cut_outputs(s, out);
}

/* ---- which operations have shares */

static const struct cut *cut_of(const struct splitter *s, int buffer)
{
    return buffer < 0 ? NULL : &s->value[buffer].cut;
}

/* Whether the input of a linear is attention's result, perhaps gated. */
static int reads_attention(const struct splitter *s, int i)
{
    const struct op *from = writer(s, i, s->p->op[i].in[0]);
    if (from && from->kind == OP_GROUP_SUMS) /* of offsets: as the linear that they belong to */
        from = writer(s, (int)(from - s->p->op), from->in[0]);
    if (from && from->kind == OP_GLU && from->in[1] >= 0)
        for (int k = 0; k < 2; k++) {
            const struct op *gated = writer(s, (int)(from - s->p->op), from->in[k]);
            if (gated && gated->kind == OP_ATTEND) return 1;
        }
    return from && from->kind == OP_ATTEND;
}

/* Two places compute attention's output linear whole: that takes less time than an exchange more.
 */
static int linears(struct splitter *s, int i, struct cut out[OP_OUTS])
{
    if (s->out->n_places == 2 && reads_attention(s, i)) return 0;
    const struct op *op = &s->p->op[i];
    int any = 0, k = op->kind == OP_EXPERTS ? op->as.experts.top_k : 1;
    for (int j = 0; j < op->n; j++) {
        const struct linear *w = &s->p->weight[op->w[j]].linear;
        out[j] = op->kind == OP_LINEAR ? cut_for_reader(s, i, op->out[j], w->out)
                                       : cut_outputs(s, w->out);
        if (out[j].groups && out[j].at[s->out->n_places] != w->out) out[j] = cut_outputs(s, w->out);
        if (out[j].groups) out[j].groups = k;
        any |= out[j].groups > 0;
    }
    return any;
}

/* in1 absent, or cut alike. */
static int elementwise(struct splitter *s, const struct op *op, struct cut out[OP_OUTS])
{
    const struct cut *a = cut_of(s, op->in[0]), *b = cut_of(s, op->in[1]);
    out[0] = *a;
    return a->groups && (!b || same_cut(a, b));
}

static int norm_of_groups(struct splitter *s, const struct op *op, struct cut out[OP_OUTS])
{
    int n = op->as.norm.groups, each = n > 1 ? split_width(s, op->in[0]) / n : 0;
    out[0] = *cut_of(s, op->in[0]);
    for (int q = 0; each && q <= s->out->n_places; q++)
        if (out[0].at[q] % each) return 0;
    return each && op->in[1] < 0 && !op->as.norm.own && out[0].groups == 1;
}

/* An attention that has no shares has them nowhere: its cache is whole on every place. */
static int rope(struct splitter *s, const struct op *op, struct cut out[OP_OUTS])
{
    const struct heads *h = &op->as.rope.heads;
    struct cut q = cut_queries(s, h, op->as.rope.kv),
               kv = cut_heads(s, h, op->as.rope.kv, h->head_dim);
    out[0] = q;
    int can = q.groups && kv.groups && same_cut(&q, cut_of(s, op->in[0]));
    for (int i = 1; i < 3; i++)
        if (op->in[i] >= 0) can = can && same_cut(&kv, cut_of(s, op->in[i]));
    if (!can && !s->kv_whole[op->as.rope.kv]) s->kv_whole[op->as.rope.kv] = 1, s->again = 1;
    return can;
}

static int attend(struct splitter *s, const struct op *op, struct cut out[OP_OUTS])
{
    struct cut q = cut_queries(s, &op->as.attend.heads, op->as.attend.kv);
    out[0] = q;
    int can = q.groups && same_cut(&q, cut_of(s, op->in[0]));
    if (!can && !s->kv_whole[op->as.attend.kv]) s->kv_whole[op->as.attend.kv] = 1, s->again = 1;
    return can;
}

static int mix(struct splitter *s, const struct op *op, struct cut out[OP_OUTS])
{
    out[0] = *cut_of(s, op->in[0]);
    int can = out[0].groups == op->as.mix.top_k && out[0].groups > 0;
    if (can) out[0].groups = 1;
    return can;
}

/* 1: every place computes its columns out[i] of output i, where out[i] has groups, of its columns
 * of the inputs; out[i] without: all of it. */
static int shares(struct splitter *s, int i, struct cut out[OP_OUTS])
{
    const struct op *op = &s->p->op[i];
    memset(out, 0, OP_OUTS * sizeof *out);
    switch (op->kind) {
    case OP_LINEAR:
    case OP_EXPERTS: return linears(s, i, out);
    case OP_GLU:
    case OP_SOFTCAP: return elementwise(s, op, out);
    case OP_ADD: return op->in[2] < 0 && elementwise(s, op, out);
    case OP_NORM: return norm_of_groups(s, op, out);
    case OP_ROPE_STORE: return rope(s, op, out);
    case OP_ATTEND: return attend(s, op, out);
    case OP_MIX: return mix(s, op, out);
    default: return 0;
    }
}

/* ---- walking the plan */

static int place_of_layer(const struct split_want *w, int layer)
{
    int q = 0;
    if (layer < 0) return 0;
    if (w->of_layer) return w->of_layer[layer];
    while (q + 1 < w->n_places && w->first_layer[q + 1] <= layer) q++;
    return q;
}

/* Stacks that rows choose from; those of latent heads are a part of attention. */
static int is_chosen(const struct op *op) { return op->kind == OP_EXPERTS && op->in[1] >= 0; }

/* Whether an operation is one of a mixture of experts: an OP_GLU is between its stacks. */
static int is_of_experts(const struct splitter *s, int i)
{
    const struct op *op = &s->p->op[i];
    if (is_chosen(op) || op->kind == OP_MIX) return 1;
    const struct op *from = op->kind == OP_GLU ? writer(s, i, op->in[0]) : NULL;
    return from && is_chosen(from);
}

/* The layer that an operation goes with: a cache is where the layer is that stores it, also for the
 * layers that attend to it later. */
static int layer_of(const struct splitter *s, const struct op *op)
{
    int kv = op_cache(op);
    for (int i = 0; kv >= 0 && i < s->p->n_ops; i++) {
        const struct op *store = &s->p->op[i];
        if (store->kind == OP_ROPE_STORE && store->in[1] >= 0 && store->as.rope.kv == kv)
            return store->layer;
    }
    return op->layer;
}

/* The place of an operation, or EVERYWHERE. */
static int place_of(const struct splitter *s, int i)
{
    const struct op *op = &s->p->op[i];
    const struct split_want *w = s->want;
    if (w->rule == SPLIT_LAYERS && w->of_experts && is_of_experts(s, i))
        return w->of_experts[op->layer];
    if (w->rule == SPLIT_LAYERS) return place_of_layer(w, layer_of(s, op));
    if (w->rule == SPLIT_EXPERTS) return is_of_experts(s, i) ? place_of_layer(w, op->layer) : 0;
    return op->kind == OP_EMBED || op->kind == OP_ARGMAX || op->kind == OP_TOP ||
                   op->kind == OP_SCORE || op->kind == OP_SAMPLE
               ? 0
               : EVERYWHERE;
}

static int is_linear(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERTS;
}

/* Whether operation op, computed in shares, takes its columns of an input. */
static int takes_part(const struct splitter *s, const struct op *op, int k)
{
    return !is_linear(op) && s->value[op->in[k]].cut.groups > 0;
}

/* Gives places the whole inputs of an operation, but those of which they take their columns. */
static void need_inputs(struct splitter *s, const struct op *op, unsigned places, int in_shares)
{
    for (int k = 0; k < OP_INS; k++)
        if (op->in[k] >= 0 && !(in_shares && takes_part(s, op, k)))
            split_need(s, op->in[k], places);
}

static void wrote_whole(struct splitter *s, const struct op *op, unsigned places)
{
    for (int k = 0; k < OP_OUTS; k++)
        if (op->out[k] >= 0) s->value[op->out[k]] = (struct value){.written = 1, .whole = places};
}

/* The operation with place q's columns of its inputs and outputs. */
static void shared_op(struct splitter *s, const struct op *of, int q, const struct cut out[OP_OUTS])
{
    struct op op = *of;
    for (int k = 0; k < OP_INS; k++)
        if (op.in[k] >= 0 && takes_part(s, of, k))
            op.in[k] = split_part(s, q, op.in[k], &s->value[op.in[k]].cut);
    for (int k = 0; k < OP_OUTS; k++) {
        if (op.out[k] < 0 || !out[k].groups) continue;
        if (is_linear(of))
            op.w[k] = split_rows(s, q, op.w[k], out[k].at[q], out[k].at[q + 1] - out[k].at[q]);
        op.out[k] = split_part(s, q, op.out[k], &out[k]);
    }
    split_narrow(s, q, &op, &out[0]);
    split_add_op(s, q, &op);
}

static void wrote_shares(struct splitter *s, const struct op *op, const struct cut out[OP_OUTS])
{
    unsigned all = (1u << s->out->n_places) - 1;
    for (int k = 0; k < OP_OUTS; k++)
        if (op->out[k] >= 0)
            s->value[op->out[k]] =
                (struct value){.written = 1, .whole = out[k].groups ? 0 : all, .cut = out[k]};
}

/* All places get their inputs before one computes the operation, which may overwrite them. */
static void place_op(struct splitter *s, int i)
{
    const struct op *op = &s->p->op[i];
    struct cut out[OP_OUTS];
    int place = place_of(s, i), first = place == EVERYWHERE ? 0 : place,
        end = place == EVERYWHERE ? s->out->n_places : place + 1,
        in_shares = place == EVERYWHERE && shares(s, i, out);
    unsigned places = place == EVERYWHERE ? (1u << end) - 1 : 1u << place;
    need_inputs(s, op, places, in_shares);
    for (int q = first; q < end; q++)
        if (in_shares) shared_op(s, op, q, out);
        else split_add_op(s, q, op);
    if (in_shares) wrote_shares(s, op, out);
    else wrote_whole(s, op, places);
}

/* One walk; s->again: an attention turned out to have no shares. */
static int walk(struct splitter *s)
{
    const struct step_plan *p = s->p;
    s->again = 0;
    memset(s->value, 0, (size_t)p->n_buffers * sizeof *s->value);
    if (split_begin(s)) return -1;
    for (int i = 0; i < p->n_ops && !s->failed && !s->again; i++) {
        if (i == p->n_body) split_end_body(s);
        place_op(s, i);
    }
    split_end(s);
    return s->failed ? -1 : 0;
}

static int check(const struct split_want *w, struct err *e)
{
    if (w->n_places < 2 || w->n_places > PLACES)
        return err_set(e, "%d places; 2 to %d are supported", w->n_places, PLACES);
    for (int q = 1; q < w->n_places && w->rule != SPLIT_OUTPUTS; q++)
        if (w->first_layer[q] < w->first_layer[q - 1])
            return err_set(e, "layers of places do not ascend");
    return 0;
}

int split_plan(const struct step_plan *p, const struct split_want *want, struct split *out,
               struct err *e)
{
    memset(out, 0, sizeof *out);
    if (check(want, e)) return -1;
    struct splitter s = {.p = p, .want = want, .out = out, .e = e};
    s.value = calloc((size_t)p->n_buffers, sizeof *s.value);
    s.kv_whole = calloc((size_t)p->n_kv + 1, 1);
    int rc = s.value && s.kv_whole ? 0 : err_memory(e);
    out->n_places = want->n_places;
    do {
        split_free_plans(out);
        if (!rc) rc = walk(&s);
    } while (!rc && s.again);
    if (!rc) rc = split_segments(&s);
    free(s.value);
    free(s.kv_whole);
    free(s.part);
    if (rc) split_free(out);
    return rc;
}
