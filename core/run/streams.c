#include "core/run/streams.h"

#include "core/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { AHEAD = 2, MOST_STACKS = 8 }; /* layers whose stacks are there at once; stacks of a layer */

struct segment {
    struct step_plan plan;
    struct be_plan *compiled;
    int layer; /* number of the layer whose stacks it reads, -1: none */
};

struct layer {
    struct be_linear *stack[MOST_STACKS];
    int n;
};

struct streams {
    struct be *be;
    const struct step_plan *p;
    struct plan_memory memory; /* buffer, linear: own arrays; the rest is the place's */
    const struct plan_memory *place;
    struct segment *segment;
    int n_segments;
    struct layer *layer;
    int n_layers;
    double seconds;
};

static int is_away(const struct op *op, const uint8_t *of_experts)
{
    return op->kind == OP_EXPERTS && op->in[1] >= 0 && op->layer >= 0 && of_experts[op->layer];
}

/* The operation after the last one of the layer of operation i that reads a stack. */
static int end_of_layer(const struct step_plan *p, const uint8_t *of_experts, int i)
{
    int end = i + 1;
    for (int j = i; j < p->n_ops && p->op[j].layer == p->op[i].layer; j++)
        if (is_away(&p->op[j], of_experts)) end = j + 1;
    return end;
}

uint64_t streams_need(const struct step_plan *p, const uint8_t *of_experts,
                      const struct backend *ops, uint64_t *host)
{
    uint64_t most = 0;
    *host = 0;
    for (int i = 0, end; i < p->n_ops; i = end) {
        uint64_t layer = 0;
        end = i + 1;
        if (!is_away(&p->op[i], of_experts)) continue;
        end = end_of_layer(p, of_experts, i);
        for (int j = i; j < end; j++)
            for (int k = 0; k < p->op[j].n && is_away(&p->op[j], of_experts); k++)
                layer += ops->packed_bytes(&p->weight[p->op[j].w[k]].linear);
        *host += layer;
        if (layer > most) most = layer;
    }
    return AHEAD * most;
}

/* ---- opening */

static int has(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

/* The last operation of a segment that reads what its operation i leaves in a buffer; OP_KEPT: one
 * behind it does. */
static int last_reader(const struct step_plan *p, const struct step_plan *segment, int i,
                       int buffer)
{
    int last = i, end = segment->first + segment->n_ops;
    if (buffer == p->best || buffer == p->logits || buffer == p->top || buffer == p->score ||
        (p->keeps_hidden && buffer == p->hidden))
        return OP_KEPT;
    for (int j = segment->first + i + 1; j < p->n_ops; j++) {
        if (has(p->op[j].in, OP_INS, buffer)) {
            if (j >= end) return OP_KEPT;
            last = j - segment->first;
        }
        if (has(p->op[j].out, OP_OUTS, buffer)) break;
    }
    return last;
}

static int add_segment(struct streams *s, int first, int n, int layer, struct err *e)
{
    struct segment *g = &s->segment[s->n_segments];
    if (!n) return 0;
    if (step_plan_slice(s->p, first, n, &g->plan, e)) return -1;
    s->n_segments++;
    g->layer = layer;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < OP_OUTS; k++)
            g->plan.op[i].last[k] = g->plan.op[i].out[k] < 0
                                        ? i
                                        : last_reader(s->p, &g->plan, i, g->plan.op[i].out[k]);
    return s->be->ops->compile(s->be, &g->plan, &s->memory, &g->compiled, e);
}

/* Packs the stacks of operations first .. end - 1, as one layer. */
static int add_layer(struct streams *s, const uint8_t *of_experts, int first, int end,
                     struct err *e)
{
    struct layer *l = &s->layer[s->n_layers++];
    int parity = (s->n_layers - 1) % AHEAD;
    for (int i = first; i < end; i++) {
        const struct op *op = &s->p->op[i];
        for (int k = 0; k < op->n && is_away(op, of_experts); k++) {
            if (l->n == MOST_STACKS) return err_set(e, "a layer with more than 8 stacks");
            struct be_linear **w = &l->stack[l->n];
            if (s->be->ops->pack_away(s->be, &s->p->weight[op->w[k]].linear,
                                      parity * MOST_STACKS + l->n, w, e))
                return -1;
            s->memory.linear[op->w[k]] = *w;
            l->n++;
        }
    }
    return 0;
}

/* Buffers of the operations that the place leaves to others. */
static int take_buffers(struct streams *s, const struct forward_options *o, struct err *e)
{
    for (int i = 0; i < s->p->n_buffers; i++) {
        size_t bytes = place_buffer_bytes(s->p, i, o);
        if (s->memory.buffer[i] || !bytes) continue;
        if (!(s->memory.buffer[i] = s->be->ops->alloc(s->be, bytes)))
            return err_memory_for(e, "out of memory for activations (%zu bytes)", bytes);
    }
    return 0;
}

static int cut(struct streams *s, const uint8_t *of_experts, struct err *e)
{
    int n = s->p->n_ops, from = 0, n_packed = 0;
    for (int i = 0; i < n; i++) {
        if (!is_away(&s->p->op[i], of_experts)) continue;
        int end = end_of_layer(s->p, of_experts, i);
        if (add_layer(s, of_experts, i, end, e)) return -1;
        i = end - 1;
    }
    for (int i = 0; i < n; i++) {
        if (!is_away(&s->p->op[i], of_experts)) continue;
        int end = end_of_layer(s->p, of_experts, i);
        if (add_segment(s, from, i - from, -1, e) || add_segment(s, i, end - i, n_packed++, e))
            return -1;
        from = end;
        i = end - 1;
    }
    return add_segment(s, from, n - from, -1, e);
}

/* Seconds of a copy of all, by that of the first layers. */
static int time_copies(struct streams *s, struct err *e)
{
    int n = s->n_layers < AHEAD ? s->n_layers : AHEAD;
    const struct backend *ops = s->be->ops;
    for (int round = 0; round < 2; round++) { /* the first one touches the memory */
        double start = clock_now();
        for (int i = 0; i < n; i++) ops->fetch(s->be, s->layer[i].stack, s->layer[i].n);
        ops->await(s->be, 0);
        if (ops->sync(s->be, e)) return -1;
        s->seconds = (clock_now() - start) / n * s->n_layers;
    }
    return 0;
}

int streams_open(struct streams **out, struct be *be, const struct step_plan *p,
                 const uint8_t *of_experts, const struct plan_memory *memory,
                 const struct forward_options *o, struct err *e)
{
    struct streams *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e);
    s->be = be;
    s->p = p;
    s->place = memory;
    s->memory = *memory;
    s->memory.buffer = calloc((size_t)p->n_buffers + 1, sizeof *s->memory.buffer);
    s->memory.linear = calloc((size_t)p->n_weights + 1, sizeof *s->memory.linear);
    s->segment = calloc((size_t)p->n_ops + 1, sizeof *s->segment);
    s->layer = calloc((size_t)p->n_ops + 1, sizeof *s->layer);
    int rc = s->memory.buffer && s->memory.linear && s->segment && s->layer ? 0 : err_memory(e);
    if (!rc) {
        memcpy(s->memory.buffer, memory->buffer, (size_t)p->n_buffers * sizeof *memory->buffer);
        memcpy(s->memory.linear, memory->linear, (size_t)p->n_weights * sizeof *memory->linear);
        rc = take_buffers(s, o, e) || cut(s, of_experts, e) || time_copies(s, e) ? -1 : 0;
    }
    if (rc) streams_close(s);
    else *out = s;
    return rc;
}

void streams_close(struct streams *s)
{
    if (!s) return;
    const struct backend *ops = s->be->ops;
    for (int i = 0; i < s->n_segments; i++) {
        if (s->segment[i].compiled) ops->drop_plan(s->be, s->segment[i].compiled);
        step_plan_free_slice(&s->segment[i].plan);
    }
    for (int i = 0; i < s->n_layers; i++)
        for (int k = 0; k < s->layer[i].n; k++) ops->drop(s->be, s->layer[i].stack[k]);
    for (int i = 0; s->memory.buffer && i < s->p->n_buffers; i++)
        if (s->memory.buffer[i] != s->place->buffer[i]) ops->free(s->be, s->memory.buffer[i]);
    free(s->memory.buffer);
    free(s->memory.linear);
    free(s->segment);
    free(s->layer);
    free(s);
}

/* ---- steps */

void streams_run(struct streams *s)
{
    const struct backend *ops = s->be->ops;
    int n_fetched = 0;
    for (; n_fetched < s->n_layers && n_fetched < AHEAD; n_fetched++)
        ops->fetch(s->be, s->layer[n_fetched].stack, s->layer[n_fetched].n);
    for (int i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segment[i];
        if (g->layer >= 0) ops->await(s->be, n_fetched - 1 - g->layer);
        ops->run(s->be, g->compiled);
        if (g->layer < 0 || n_fetched == s->n_layers) continue;
        ops->fetch(s->be, s->layer[n_fetched].stack, s->layer[n_fetched].n);
        n_fetched++;
    }
}

double streams_seconds(const struct streams *s) { return s->seconds; }
