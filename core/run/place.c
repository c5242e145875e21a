#include "core/run/place.h"

#include "core/base/progress.h"
#include "core/step/kv_open.h"

#include <stdlib.h>
#include <string.h>

struct be_config place_config(const struct forward_options *o)
{
    return (struct be_config){
        .variant = o->variant,
        .n_threads = o->n_threads,
        .numa = o->numa,
        .device = o->device,
        .own = o->own,
        .act = o->act,
        .kv = o->kv,
        .n_microbatches = o->n_microbatches,
        .max_rows = o->max_rows > o->max_logits ? o->max_rows : o->max_logits,
        .max_seqs = o->max_seqs,
        .max_pages = o->max_pages,
    };
}

/* ---- what the operations of a plan use: a place has a part of a model */

static int names(const int *ids, int n, int number)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == number) return 1;
    return 0;
}

static int uses_weight(const struct step_plan *p, int w)
{
    if (!p->is_part) return 1;
    for (int i = 0; i < p->n_ops; i++)
        if (names(p->op[i].w, OP_OUTS, w)) return 1;
    return 0;
}

static int uses_buffer(const struct step_plan *p, int b)
{
    if (!p->is_part) return 1;
    for (int i = 0; i < p->n_ops; i++)
        if (names(p->op[i].in, OP_INS, b) || names(p->op[i].out, OP_OUTS, b)) return 1;
    return 0;
}

static int uses_kv(const struct step_plan *p, int kv)
{
    if (!p->is_part) return 1;
    for (int i = 0; i < p->n_ops; i++)
        if (op_cache(&p->op[i]) == kv) return 1;
    return 0;
}

static int uses_state(const struct step_plan *p, int state)
{
    if (!p->is_part) return 1;
    for (int i = 0; i < p->n_ops; i++)
        if ((p->op[i].kind == OP_CONV && p->op[i].as.conv.state == state) ||
            (p->op[i].kind == OP_DELTA && p->op[i].as.delta.state == state))
            return 1;
    return 0;
}

size_t place_page_bytes(const struct step_plan *p, const struct backend *ops, enum kv_type kv,
                        int i)
{
    return uses_kv(p, i) ? ops->kv_page_bytes(kv, &p->kv[i]) : 0;
}

size_t place_slot_bytes(const struct step_plan *p, int i)
{
    return uses_state(p, i) ? p->state[i].bytes : 0;
}

uint64_t place_kv_bytes(const struct step_plan *p, const struct backend *ops, enum kv_type kv,
                        int n_pages)
{
    uint64_t page = 0;
    for (int i = 0; i < p->n_kv; i++) page += place_page_bytes(p, ops, kv, i);
    return page * (uint64_t)n_pages;
}

uint64_t place_seat_bytes(const struct step_plan *p, enum kv_type kv)
{
    uint64_t bytes = 0;
    for (int i = 0; i < p->n_kv; i++)
        if (uses_kv(p, i)) bytes += kv_open_bytes(kv, &p->kv[i]);
    return bytes;
}

uint64_t place_state_bytes(const struct step_plan *p)
{
    uint64_t bytes = 0;
    for (int i = 0; i < p->n_states; i++) bytes += place_slot_bytes(p, i);
    return bytes;
}

size_t place_buffer_bytes(const struct step_plan *p, int i, const struct forward_options *o)
{
    const struct buffer *b = &p->buffer[i];
    if ((b->rows == ROWS_TOP && p->top < 0) || (b->rows == ROWS_SCORES && p->score < 0)) return 0;
    if (!uses_buffer(p, i)) return 0;
    size_t rows = (size_t)(b->rows == ROWS_STEP ? o->max_rows : o->max_logits);
    return rows * b->row_bytes * (i == p->best || i == p->score ? STEP_PARTS : 1);
}

/* Bytes of a stack that so many rows read whose experts are chosen by chance. */
static uint64_t chosen_bytes(const struct linear *w, int top_k, int rows)
{
    double missed = 1;
    if (!w->stack || top_k >= w->stack) return linear_bytes(w);
    for (int i = 0; i < rows; i++) missed *= 1 - (double)top_k / w->stack;
    return (uint64_t)((double)linear_bytes(w) * (1 - missed));
}

uint64_t place_op_reads(const struct step_plan *p, const struct op *op, int rows)
{
    uint64_t bytes = 0;
    if (op->kind != OP_LINEAR && op->kind != OP_EXPERTS) return 0;
    for (int k = 0; k < op->n; k++)
        bytes += chosen_bytes(&p->weight[op->w[k]].linear,
                              op->kind == OP_EXPERTS ? op->as.experts.top_k : 1, rows);
    return bytes;
}

static void count_reads(const struct step_plan *p, uint64_t read[2])
{
    for (int i = 0; i < p->n_ops; i++) {
        read[0] += place_op_reads(p, &p->op[i], 1);
        read[1] += place_op_reads(p, &p->op[i], FORWARD_MANY);
    }
}

/* Of masks of tokens (forward_choose), for all rows of logits. */
static uint64_t mask_bytes(const struct step_plan *p, const struct backend *ops,
                           const struct forward_options *o)
{
    if (!(ops->kinds >> OP_SAMPLE & 1) || p->logits < 0) return 0;
    return (uint64_t)o->max_logits * ((p->buffer[p->logits].row_bytes / sizeof(float) + 31) / 32) *
           sizeof(uint32_t);
}

/* Of rows of drafts of all seats, in one state. */
static size_t kept_bytes(const struct step_plan *p, int i, const struct backend *ops,
                         const struct forward_options *o)
{
    return (size_t)o->max_seqs * STATE_DRAFTS * (size_t)ops->keeps_drafts * p->state[i].kept_bytes;
}

void place_need(const struct step_plan *p, const struct backend *ops,
                const struct forward_options *o, struct forward_need *n)
{
    struct be_config c = place_config(o);
    *n = (struct forward_need){.page = place_kv_bytes(p, ops, o->kv, 1),
                               .state = place_state_bytes(p),
                               .steps = ops->scratch_bytes(&c, p)};
    for (int i = 0; i < p->n_weights; i++)
        if (!p->weight[i].vector && uses_weight(p, i)) {
            n->weights += ops->packed_bytes(&p->weight[i].linear);
            n->mapped += linear_bytes(&p->weight[i].linear);
        }
    for (int i = 0; i < p->n_buffers; i++) n->steps += place_buffer_bytes(p, i, o);
    n->steps += mask_bytes(p, ops, o);
    n->steps += (uint64_t)o->max_seqs * place_seat_bytes(p, o->kv);
    for (int i = 0; i < p->n_states && o->keeps_drafts; i++)
        if (uses_state(p, i)) n->steps += kept_bytes(p, i, ops, o);
    count_reads(p, n->read);
}

/* ---- binding */

struct binding {
    struct be *be;
    const struct backend *ops;
    const struct step_plan *p;
    const struct forward_options *o;
    struct plan_memory *m;
};

static void *get(const struct binding *b, size_t bytes, struct err *e)
{
    void *d = b->ops->alloc(b->be, bytes);
    if (!d && !b->ops->sync(b->be, e))
        err_memory_for(e, "out of memory for activations (%zu bytes)", bytes);
    return d;
}

/* A backend that copies weights gets a part of a stack as a stack of its own. */
static int pack(const struct binding *b, const struct linear *w, struct be_linear **out,
                struct err *e)
{
    struct linear close = *w;
    void *memory = NULL;
    if (w->pitch && b->ops->packed_bytes(w) && linear_close_up(w, &close, &memory, e)) return -1;
    int rc = b->ops->pack(b->be, &close, out, e);
    free(memory);
    return rc;
}

static uint64_t packed_bytes(const struct binding *b, int i)
{
    const struct weight *w = &b->p->weight[i];
    return w->vector || !uses_weight(b->p, i) ? 0 : b->ops->packed_bytes(&w->linear);
}

static int bind_vector(const struct binding *b, int i, struct err *e)
{
    const struct forward_options *o = b->o;
    const struct weight *w = &b->p->weight[i];
    int context = o->context ? o->context : o->max_pages * KV_PAGE;
    int longer = w->longer && context > w->longer_from;
    size_t bytes = (size_t)w->n * sizeof *w->vector;
    if (!(b->m->vector[i] = get(b, bytes, e))) return -1;
    b->ops->upload(b->be, b->m->vector[i], longer ? w->longer : w->vector, bytes);
    return 0;
}

static int bind_weights(const struct binding *b, struct err *e)
{
    struct progress progress;
    uint64_t done = 0, total = 0; /* bytes of packed linears */
    if (b->m->lender) {
        const size_t n = (size_t)b->p->n_weights;
        memcpy(b->m->linear, b->m->lender->linear, n * sizeof *b->m->linear);
        memcpy(b->m->vector, b->m->lender->vector, n * sizeof *b->m->vector);
        return 0;
    }
    progress_begin(&progress);
    for (int i = 0; i < b->p->n_weights; i++) total += packed_bytes(b, i);
    for (int i = 0; i < b->p->n_weights; i++) {
        const struct weight *w = &b->p->weight[i];
        if (!uses_weight(b->p, i)) continue;
        if (w->vector ? bind_vector(b, i, e) : pack(b, &w->linear, &b->m->linear[i], e)) return -1;
        if (w->vector) continue;
        done += packed_bytes(b, i);
        if (b->o->show_progress) progress_bytes(&progress, "loading", done, total);
    }
    if (b->o->show_progress) progress_clear();
    return 0;
}

static int bind_caches(const struct binding *b, struct err *e)
{
    const struct step_plan *p = b->p;
    const struct forward_options *o = b->o;
    for (int i = 0; i < p->n_kv; i++) {
        if (!uses_kv(p, i)) continue;
        size_t page = b->ops->kv_page_bytes(o->kv, &p->kv[i]);
        b->m->kv[i] = b->ops->alloc(b->be, (size_t)o->n_pages * page);
        if (b->m->kv[i]) continue;
        if (b->ops->sync(b->be, e)) return -1;
        const double bytes = (double)place_kv_bytes(p, b->ops, o->kv, o->n_pages);
        const int giga = bytes >= 1 << 30;
        return err_memory_for(e,
                              "out of memory: the KV cache needs %.*f %s for %d positions; a "
                              "smaller -c, or of a batch -np or --mem, asks for less",
                              giga, bytes / (giga ? 1 << 30 : 1 << 20), giga ? "GiB" : "MiB",
                              o->n_pages * KV_PAGE);
    }
    for (int i = 0; i < p->n_kv && kv_has_open(o->kv); i++) {
        size_t bytes = (size_t)o->max_seqs * kv_open_bytes(o->kv, &p->kv[i]);
        if (uses_kv(p, i) && !(b->m->seat[i] = get(b, bytes, e))) return -1;
    }
    for (int i = 0; i < p->n_states; i++) {
        size_t bytes = (size_t)forward_n_states(o) * p->state[i].bytes;
        if (uses_state(p, i) && !(b->m->state[i] = get(b, bytes, e))) return -1;
        bytes = kept_bytes(p, i, b->ops, o);
        if (o->keeps_drafts && uses_state(p, i) && !(b->m->kept[i] = get(b, bytes, e))) return -1;
    }
    return 0;
}

int place_bind(struct be *be, const struct step_plan *p, const struct forward_options *o,
               struct plan_memory *m, struct err *e)
{
    const struct binding b = {be, be->ops, p, o, m};
    m->buffer = calloc((size_t)p->n_buffers, sizeof *m->buffer);
    m->linear = calloc((size_t)p->n_weights, sizeof *m->linear);
    m->vector = calloc((size_t)p->n_weights, sizeof *m->vector);
    m->kv = calloc((size_t)p->n_kv + 1, sizeof *m->kv);
    m->seat = calloc((size_t)p->n_kv + 1, sizeof *m->seat);
    m->state = calloc((size_t)p->n_states + 1, sizeof *m->state);
    m->kept = calloc((size_t)p->n_states + 1, sizeof *m->kept);
    if (!m->buffer || !m->linear || !m->vector || !m->kv || !m->seat || !m->state || !m->kept)
        return err_memory(e);
    if (bind_weights(&b, e) || bind_caches(&b, e)) return -1;
    for (int i = 0; i < p->n_buffers; i++) {
        size_t bytes = place_buffer_bytes(p, i, o);
        if (bytes && !(m->buffer[i] = get(&b, bytes, e))) return -1;
    }
    return 0;
}

void place_release(struct be *be, const struct step_plan *p, struct plan_memory *m)
{
    const struct backend *ops = be->ops;
    for (int i = 0; m->linear && !m->lender && i < p->n_weights; i++)
        if (m->linear[i]) ops->drop(be, m->linear[i]);
    for (int i = 0; m->vector && !m->lender && i < p->n_weights; i++) ops->free(be, m->vector[i]);
    for (int i = 0; m->buffer && i < p->n_buffers; i++) ops->free(be, m->buffer[i]);
    for (int i = 0; m->kv && i < p->n_kv; i++) ops->free(be, m->kv[i]);
    for (int i = 0; m->seat && i < p->n_kv; i++) ops->free(be, m->seat[i]);
    for (int i = 0; m->state && i < p->n_states; i++) ops->free(be, m->state[i]);
    for (int i = 0; m->kept && i < p->n_states; i++) ops->free(be, m->kept[i]);
    free(m->buffer);
    free(m->linear);
    free(m->vector);
    free(m->kv);
    free(m->seat);
    free(m->state);
    free(m->kept);
    memset(m, 0, sizeof *m);
}
