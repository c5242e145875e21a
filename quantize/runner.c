#include "quantize/runner.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_ROWS = 8192 }; /* of a step on a device, unless a sequence has more */

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
    const size_t seqs = (size_t)r->at_once, rows = seqs * (size_t)r->want.sequence,
                 pages = (size_t)kv_pages(r->want.sequence);
    struct batch *b = &r->batch;
    int32_t *at = r->ints = calloc(4 * rows + (pages + 6) * seqs + 16, sizeof *at);
    if (!at) return err_memory(e);
    *b = (struct batch){.table_stride = (int)pages};
    int32_t **const array[] = {&b->token,       &b->pos,       &b->seq,       &b->slot,
                               &b->block_table, &b->seq_start, &b->kv_len,    &b->state_from,
                               &b->state_to,    &b->seat,      &b->logit_row, &b->top_row};
    const size_t n[] = {rows, rows, rows, rows, pages * seqs, seqs + 1, seqs, seqs,
                        seqs, seqs, 1,    1};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) *array[i] = at, at += n[i];
    return 0;
}

/* Sequence `number` as number i of a step, whose rows begin at `row`. Returns its rows. */
static int set_sequence(struct runner *r, int number, int i, int row)
{
    struct batch *b = &r->batch;
    int first = number * r->want.sequence, left = r->want.n_tokens - first,
        n = left < r->want.sequence ? left : r->want.sequence,
        page = (r->distinct ? number : i) * b->table_stride;
    int32_t *table = b->block_table + i * b->table_stride;
    for (int k = 0; k < b->table_stride; k++) table[k] = page + k;
    for (int k = 0; k < n; k++) {
        b->token[row + k] = r->want.token[first + k];
        b->pos[row + k] = k;
        b->seq[row + k] = i;
        b->slot[row + k] = table[k / KV_PAGE] * KV_PAGE + k % KV_PAGE;
    }
    b->seq_start[i + 1] = row + n;
    b->kv_len[i] = n;
    b->state_from[i] = -1;
    b->state_to[i] = b->seat[i] = i;
    return n;
}

/* Sequences from `first` on as a step. */
static void set_batch(struct runner *r, int first)
{
    int all = (r->want.n_tokens + r->want.sequence - 1) / r->want.sequence, left = all - first;
    r->batch.n_seqs = left < r->at_once ? left : r->at_once;
    r->batch.n_rows = 0;
    for (int i = 0; i < r->batch.n_seqs; i++)
        r->batch.n_rows += set_sequence(r, first + i, i, r->batch.n_rows);
}

static void *get(struct runner *r, size_t bytes, struct err *e)
{
    void *d = r->ops->alloc(r->be, bytes ? bytes : 1);
    if (d || r->ops->sync(r->be, e)) return d;
    if (!r->ops->gptq) err_memory(e);
    else
        err_set(e, "out of memory on the device, which a step of %d rows needs: take --backend cpu",
                r->at_once * r->want.sequence);
    return NULL;
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
    r->own = calloc((size_t)p->n_buffers + 1, sizeof *r->own);
    if (!r->own || !m->buffer || !m->linear || !m->vector || !m->kv || !m->state || !r->taken)
        return err_memory(e);
    for (int i = 0; i < p->n_buffers; i++) {
        size_t rows = p->buffer[i].rows == ROWS_STEP ? (size_t)r->want.sequence : 1;
        if (rows > 1) rows *= (size_t)r->at_once;
        if (!(r->own[i] = get(r, rows * p->buffer[i].row_bytes, e))) return -1;
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
    *r = (struct runner){.want = *want, .ops = ops, .at_once = 1};
    for (int i = 0; i < p->n_kv; i++) r->distinct |= is_spread(p, i);
    if (ops->gptq && want->sequence < STEP_ROWS) r->at_once = STEP_ROWS / want->sequence;
    if (r->at_once > n_seqs) r->at_once = n_seqs;
    r->n_pages = (r->distinct ? n_seqs : r->at_once) * pages;
    const struct be_config c = {.variant = "auto",
                                .n_threads = want->n_threads,
                                .device = want->device,
                                .own = want->own,
                                .act = ACT_I16,
                                .kv = KV_F16,
                                .max_rows = r->at_once * want->sequence,
                                .max_seqs = r->at_once,
                                .max_pages = pages};
    r->rows.limit = want->mem, r->rows.folder = want->folder;
    if (rows_open(&r->rows, p->n_buffers, want->n_tokens, e) || open_batch(r, e) ||
        ops->open(&r->be, &c, e))
        return -1;
    if (ops->gptq) r->rows.on = r->be;
    return open_memory(r, e);
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
    for (int i = 0; r->own && i < p->n_buffers; i++)
        if (r->own[i]) r->ops->free(r->be, r->own[i]);
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
    free(r->own);
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

int runner_keep(struct runner *r, int buffer, void **copy, struct err *e)
{
    *copy = NULL;
    if (!is_live(r->want.plan, r->at + 1, buffer)) return 0;
    size_t bytes = (size_t)r->rows.n * r->rows.row_bytes[buffer];
    void *rows = rows_borrow(&r->rows, buffer, e);
    if (!rows) return -1;
    if (r->rows.on) *copy = rows; /* is one */
    else if (!(*copy = malloc(bytes))) return err_memory(e);
    else memcpy(*copy, rows, bytes);
    return 0;
}

void runner_give_back(struct runner *r, int buffer, void *copy)
{
    size_t bytes = (size_t)r->rows.n * r->rows.row_bytes[buffer];
    if (!copy) return;
    if (r->rows.on) r->ops->upload(r->be, r->rows.data[buffer], copy, bytes);
    else memcpy(r->rows.data[buffer], copy, bytes);
    free(copy);
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
        size_t bytes = state < 0 ? 0 : p->state[state].bytes * (size_t)r->at_once;
        if (bytes && !m->state[state] && !(m->state[state] = get(r, bytes, e))) return -1;
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

/* The buffers of a step: its rows, where later operations read them or earlier ones have
 * written them. */
static void set_buffers(struct runner *r, int number, int to)
{
    const struct step_plan *p = r->want.plan;
    int64_t first = (int64_t)number * r->want.sequence;
    for (int b = 0; b < p->n_buffers; b++) {
        int kept = r->rows.data[b] && (is_live(p, r->at, b) || is_live(p, to, b));
        r->memory.buffer[b] = kept ? rows_at(&r->rows, b, first) : r->own[b];
    }
}

static int run_rows(struct runner *r, const struct step_plan *slice, int number, int to,
                    struct err *e)
{
    struct be_plan *part;
    set_buffers(r, number, to);
    if (r->ops->compile(r->be, slice, &r->memory, &part, e)) return -1;
    r->ops->begin_step(r->be, &r->batch);
    r->ops->run(r->be, part);
    r->ops->end_step(r->be);
    int rc = r->ops->wait_step(r->be, e);
    r->ops->drop_plan(r->be, part);
    return rc;
}

int runner_go(struct runner *r, int to, int (*step)(void *self, double work, struct err *e),
              void *self, struct err *e)
{
    struct step_plan slice;
    int n_seqs = (r->want.n_tokens + r->want.sequence - 1) / r->want.sequence, rc = 0;
    CHECK(to >= r->at);
    if (to == r->at) return 0;
    if (bind(r, to, e) || step_plan_slice(r->want.plan, r->at, to - r->at, &slice, e)) return -1;
    double work = forward_cost(r, r->at, to);
    for (int i = 0; i < n_seqs && !rc; i += r->batch.n_seqs) {
        set_batch(r, i);
        rc = run_rows(r, &slice, i, to, e);
        if (!rc) rc = step(self, work * r->batch.n_rows, e);
    }
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
