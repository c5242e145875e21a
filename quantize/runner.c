#include "quantize/runner.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a buffer, a cache is needed for */

static int names(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

/* 1 if operations from `first` on read what those before have left in the buffer. */
static int is_live(const struct step_plan *p, int first, int buffer)
{
    int written = 0;
    for (int i = 0; i < first && !written; i++) written = names(p->op[i].out, OP_OUTS, buffer);
    for (int i = first; i < p->n_body && written; i++) {
        if (names(p->op[i].in, OP_INS, buffer)) return 1;
        if (names(p->op[i].out, OP_OUTS, buffer)) return 0;
    }
    return 0;
}

static int state_of(const struct op *op)
{
    return op->kind == OP_CONV ? op->as.conv.state : op->kind == OP_DELTA ? op->as.delta.state : -1;
}

static int is_linear(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERTS;
}

/* 1 if a linear stands between two operations with the same cache. */
static int is_spread(const struct step_plan *p, int cache)
{
    int seen = 0, linear = 0;
    for (int i = 0; i < p->n_body; i++) {
        if (op_cache(&p->op[i]) == cache) {
            if (linear) return 1;
            seen = 1;
        }
        linear |= seen && is_linear(&p->op[i]);
    }
    return 0;
}

static int is_used_later(const struct step_plan *p, int first, int cache)
{
    for (int i = first; i < p->n_body; i++)
        if (op_cache(&p->op[i]) == cache) return 1;
    return 0;
}

/* ---- memory */

static int open_batch(struct runner *r, struct err *e)
{
    size_t rows = (size_t)r->want.sequence, pages = (size_t)kv_pages(r->want.sequence);
    struct batch *b = &r->batch;
    int32_t *at = r->ints = calloc(4 * rows + pages + 16, sizeof *at);
    if (!at) return err_memory(e);
    *b = (struct batch){.n_seqs = 1, .table_stride = (int)pages};
    int32_t **const array[] = {&b->token,       &b->pos,       &b->seq,       &b->slot,
                               &b->block_table, &b->seq_start, &b->kv_len,    &b->state_from,
                               &b->state_to,    &b->seat,      &b->logit_row, &b->top_row};
    const size_t n[] = {rows, rows, rows, rows, pages, 2, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) *array[i] = at, at += n[i];
    return 0;
}

/* Sequence `number` as a step. */
static void set_batch(struct runner *r, int number)
{
    struct batch *b = &r->batch;
    int first = number * r->want.sequence, left = r->want.n_tokens - first,
        n = left < r->want.sequence ? left : r->want.sequence,
        page = r->distinct ? number * b->table_stride : 0;
    for (int i = 0; i < b->table_stride; i++) b->block_table[i] = page + i;
    for (int i = 0; i < n; i++) {
        b->token[i] = r->want.token[first + i];
        b->pos[i] = i;
        b->seq[i] = 0;
        b->slot[i] = b->block_table[i / KV_PAGE] * KV_PAGE + i % KV_PAGE;
    }
    b->n_rows = b->seq_start[1] = b->kv_len[0] = n;
    b->state_from[0] = -1;
}

static void *get(struct runner *r, size_t bytes, struct err *e)
{
    void *d = r->ops->alloc(r->be, bytes ? bytes : 1);
    if (!d && !r->ops->sync(r->be, e)) err_memory(e);
    return d;
}

static int open_memory(struct runner *r, struct err *e)
{
    const struct step_plan *p = r->want.plan;
    struct plan_memory *m = &r->memory;
    size_t nw = (size_t)p->n_weights + 1;
    m->buffer = calloc((size_t)p->n_buffers + 1, sizeof *m->buffer);
    m->linear = calloc(nw, sizeof *m->linear);
    m->vector = calloc(nw, sizeof *m->vector);
    m->kv = calloc((size_t)p->n_kv + 1, sizeof *m->kv);
    m->state = calloc((size_t)p->n_states + 1, sizeof *m->state);
    r->taken = calloc(nw, sizeof *r->taken);
    if (!m->buffer || !m->linear || !m->vector || !m->kv || !m->state || !r->taken)
        return err_memory(e);
    for (int i = 0; i < p->n_buffers; i++) {
        size_t rows = p->buffer[i].rows == ROWS_STEP ? (size_t)r->want.sequence : 1;
        if (!(m->buffer[i] = get(r, rows * p->buffer[i].row_bytes, e))) return -1;
    }
    for (int i = 0; i < p->n_weights; i++) {
        const struct weight *w = &p->weight[i];
        int longer = w->longer && r->want.sequence > w->longer_from;
        if (!w->vector) continue;
        if (!(m->vector[i] = get(r, (size_t)w->n * sizeof(float), e))) return -1;
        r->ops->upload(r->be, m->vector[i], longer ? w->longer : w->vector,
                       (size_t)w->n * sizeof(float));
    }
    return 0;
}

int runner_open(struct runner *r, const struct backend *ops, const struct runner_want *want,
                struct err *e)
{
    const struct step_plan *p = want->plan;
    int pages = kv_pages(want->sequence),
        n_seqs = (want->n_tokens + want->sequence - 1) / want->sequence;
    *r = (struct runner){.want = *want, .ops = ops};
    for (int i = 0; i < p->n_kv; i++) r->distinct |= is_spread(p, i);
    r->n_pages = r->distinct ? n_seqs * pages : pages;
    const struct be_config c = {.variant = "auto",
                                .n_threads = want->n_threads,
                                .act = ACT_I16,
                                .kv = KV_F16,
                                .max_rows = want->sequence,
                                .max_seqs = 1,
                                .max_pages = pages};
    r->rows.limit = want->mem, r->rows.folder = want->folder;
    return rows_open(&r->rows, p->n_buffers + 1, want->n_tokens, e) || open_batch(r, e) ||
                   ops->open(&r->be, &c, e) || open_memory(r, e)
               ? -1
               : 0;
}

static void drop_linear(struct runner *r, int w)
{
    if (r->memory.linear[w]) r->ops->drop(r->be, r->memory.linear[w]);
    r->memory.linear[w] = NULL;
    free(r->taken[w]);
    r->taken[w] = NULL;
}

void runner_close(struct runner *r)
{
    const struct step_plan *p = r->want.plan;
    struct plan_memory *m = &r->memory;
    for (int i = 0; r->taken && i < p->n_weights; i++) {
        drop_linear(r, i);
        if (m->vector[i]) r->ops->free(r->be, m->vector[i]);
    }
    for (int i = 0; r->taken && i < p->n_buffers; i++)
        if (m->buffer[i]) r->ops->free(r->be, m->buffer[i]);
    for (int i = 0; r->taken && i < p->n_kv; i++)
        if (m->kv[i]) r->ops->free(r->be, m->kv[i]);
    for (int i = 0; r->taken && i < p->n_states; i++)
        if (m->state[i]) r->ops->free(r->be, m->state[i]);
    free(m->buffer);
    free(m->linear);
    free(m->vector);
    free(m->kv);
    free(m->state);
    free(r->taken);
    free(r->ints);
    rows_close(&r->rows);
    if (r->be) r->ops->close(r->be);
    *r = (struct runner){0};
}

int runner_take(struct runner *r, int weight, void *memory, struct err *e)
{
    drop_linear(r, weight);
    r->taken[weight] = memory;
    return r->ops->pack(r->be, &r->want.plan->weight[weight].linear, &r->memory.linear[weight], e);
}

int runner_keep(struct runner *r, int buffer, struct err *e)
{
    int copy = r->want.plan->n_buffers;
    if (!is_live(r->want.plan, r->at + 1, buffer)) return 0;
    if (rows_take(&r->rows, copy, r->rows.row_bytes[buffer], e)) return -1;
    memcpy(rows_at(&r->rows, copy, 0), rows_at(&r->rows, buffer, 0),
           (size_t)r->rows.n * r->rows.row_bytes[buffer]);
    return 0;
}

void runner_give_back(struct runner *r, int buffer)
{
    int copy = r->want.plan->n_buffers;
    if (!r->rows.data[copy]) return;
    memcpy(rows_at(&r->rows, buffer, 0), rows_at(&r->rows, copy, 0),
           (size_t)r->rows.n * r->rows.row_bytes[buffer]);
    rows_drop(&r->rows, copy);
}

/* ---- a part */

/* What the operations of a part need and do not have yet. */
static int bind(struct runner *r, int to, struct err *e)
{
    const struct step_plan *p = r->want.plan;
    struct plan_memory *m = &r->memory;
    for (int i = r->at; i < to; i++) {
        const struct op *op = &p->op[i];
        int kv = op_cache(op), state = state_of(op);
        for (int k = 0; k < OP_OUTS; k++) {
            int w = op->w[k];
            if (w < 0 || p->weight[w].vector || m->linear[w]) continue;
            if (r->ops->pack(r->be, &p->weight[w].linear, &m->linear[w], e)) return -1;
        }
        size_t page = kv < 0 ? 0 : r->ops->kv_page_bytes(KV_F16, &p->kv[kv]);
        if (kv >= 0 && !m->kv[kv] && !(m->kv[kv] = get(r, page * (size_t)r->n_pages, e))) return -1;
        if (state >= 0 && !m->state[state] && !(m->state[state] = get(r, p->state[state].bytes, e)))
            return -1;
    }
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffer[b].rows == ROWS_STEP && is_live(p, to, b) &&
            rows_take(&r->rows, b, p->buffer[b].row_bytes, e))
            return -1;
    return 0;
}

/* Drops what no later operation needs. */
static void unbind(struct runner *r, int to)
{
    const struct step_plan *p = r->want.plan;
    struct plan_memory *m = &r->memory;
    for (int i = r->at; i < to; i++) {
        const struct op *op = &p->op[i];
        int kv = op_cache(op), state = state_of(op);
        for (int k = 0; k < OP_OUTS; k++)
            if (op->w[k] >= 0 && !p->weight[op->w[k]].vector) drop_linear(r, op->w[k]);
        if (kv >= 0 && m->kv[kv] && !is_used_later(p, to, kv)) {
            r->ops->free(r->be, m->kv[kv]);
            m->kv[kv] = NULL;
        }
        if (state >= 0 && m->state[state]) {
            r->ops->free(r->be, m->state[state]);
            m->state[state] = NULL;
        }
    }
    for (int b = 0; b < p->n_buffers; b++)
        if (!is_live(p, to, b)) rows_drop(&r->rows, b);
}

static double forward_cost(const struct runner *r, int from, int to)
{
    const struct step_plan *p = r->want.plan;
    double sum = 1;
    for (int i = from; i < to; i++)
        for (int k = 0; k < p->op[i].n && is_linear(&p->op[i]); k++) {
            const struct linear *w = &p->weight[p->op[i].w[k]].linear;
            double slots = p->op[i].kind == OP_EXPERTS ? p->op[i].as.experts.top_k : 1;
            sum += (double)w->in * (double)w->out * slots;
        }
    return sum;
}

static int run_sequence(struct runner *r, struct be_plan *part, int number, int to, struct err *e)
{
    const struct step_plan *p = r->want.plan;
    int64_t first = (int64_t)number * r->want.sequence;
    set_batch(r, number);
    for (int b = 0; b < p->n_buffers; b++)
        if (r->rows.data[b] && is_live(p, r->at, b))
            r->ops->upload(r->be, r->memory.buffer[b], rows_at(&r->rows, b, first),
                           (size_t)r->batch.n_rows * r->rows.row_bytes[b]);
    r->ops->begin_step(r->be, &r->batch);
    r->ops->run(r->be, part);
    for (int b = 0; b < p->n_buffers; b++)
        if (r->rows.data[b] && is_live(p, to, b))
            r->ops->download(r->be, rows_at(&r->rows, b, first), r->memory.buffer[b],
                             (size_t)r->batch.n_rows * r->rows.row_bytes[b]);
    r->ops->end_step(r->be);
    return r->ops->wait_step(r->be, e);
}

int runner_go(struct runner *r, int to, int (*step)(void *self, double work, struct err *e),
              void *self, struct err *e)
{
    struct step_plan slice;
    struct be_plan *part = NULL;
    int n_seqs = (r->want.n_tokens + r->want.sequence - 1) / r->want.sequence;
    CHECK(to >= r->at);
    if (to == r->at) return 0;
    if (bind(r, to, e) || step_plan_slice(r->want.plan, r->at, to - r->at, &slice, e)) return -1;
    int rc = r->ops->compile(r->be, &slice, &r->memory, &part, e);
    double work = forward_cost(r, r->at, to);
    for (int i = 0; i < n_seqs && !rc; i++) {
        rc = run_sequence(r, part, i, to, e);
        if (!rc) rc = step(self, work * r->batch.n_rows, e);
    }
    if (part) r->ops->drop_plan(r->be, part);
    step_plan_free_slice(&slice);
    if (rc) return -1;
    unbind(r, to);
    r->at = to;
    return 0;
}

double runner_cost_of(const struct runner *r, const struct op *op, int k)
{
    const struct linear *w = &r->want.plan->weight[op->w[k]].linear;
    double in = w->in, out = w->out, many = w->stack ? w->stack : 1, rows = r->want.n_tokens;
    if (op->kind == OP_EXPERTS) rows *= op->as.experts.top_k;
    return many * out * in * (in / 2 + 2000) + (k ? 0 : many * in * in * in + rows * in * in / 2);
}

double runner_cost(const struct runner *r, int last)
{
    double sum = forward_cost(r, 0, last) * r->want.n_tokens;
    for (int i = 0; i <= last; i++)
        for (int k = 0; k < r->want.plan->op[i].n && is_linear(&r->want.plan->op[i]); k++)
            sum += runner_cost_of(r, &r->want.plan->op[i], k);
    return sum;
}
