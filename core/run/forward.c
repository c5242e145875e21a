#include "core/run/forward.h"

#include "core/base/numa.h"
#include "core/base/progress.h"
#include "core/step/kv_open.h"

#include <stdlib.h>
#include <string.h>

uint64_t forward_kv_bytes(const struct model *m, const struct backend *ops, enum kv_type kv,
                          int n_pages)
{
    uint64_t page = 0;
    for (int i = 0; i < m->plan.n_kv; i++) page += ops->kv_page_bytes(kv, &m->plan.kv[i]);
    return page * (uint64_t)n_pages;
}

/* The open pages of one seat. */
static uint64_t seat_bytes(const struct step_plan *p, enum kv_type kv)
{
    uint64_t bytes = 0;
    for (int i = 0; i < p->n_kv; i++) bytes += kv_open_bytes(kv, &p->kv[i]);
    return bytes;
}

static uint64_t state_bytes(const struct step_plan *p)
{
    uint64_t bytes = 0;
    for (int i = 0; i < p->n_states; i++) bytes += p->state[i].bytes;
    return bytes;
}

static int lacks_top(const struct backend *ops) { return !(ops->kinds & 1u << OP_TOP); }

/* The model's plan with operations of its own, without those that the backend can do without. */
static int make_plan(struct forward *f, const struct backend *ops, struct err *e)
{
    struct step_plan all;
    if (step_plan_copy(&f->model->plan, &all, e)) return -1;
    if (lacks_top(ops)) step_plan_drop_top(&all);
    if (!f->options.hidden) {
        f->plan = all;
        return 0;
    }
    int rc = step_plan_keep_hidden(&all, &f->plan, e);
    step_plan_free_slice(&all);
    return rc;
}

static struct be_config config_of(const struct forward_options *o)
{
    return (struct be_config){
        .variant = o->variant,
        .n_threads = o->n_threads,
        .numa = o->numa,
        .device = o->device,
        .own = o->own,
        .act = o->act,
        .kv = o->kv,
        .max_rows = o->max_rows > o->max_logits ? o->max_rows : o->max_logits,
        .max_seqs = o->max_seqs,
        .max_pages = o->max_pages,
    };
}

/* Parts of the buffer of OP_ARGMAX's results: the device's, and two of the host. */
enum { BEST_PARTS = 3 };

/* 0: a buffer that the plan of this backend does not use. */
static size_t buffer_bytes(const struct step_plan *p, int i, const struct forward_options *o)
{
    const struct buffer *b = &p->buffer[i];
    if (b->rows == ROWS_TOP && p->top < 0) return 0;
    size_t rows = (size_t)(b->rows == ROWS_STEP ? o->max_rows : o->max_logits);
    return rows * b->row_bytes * (i == p->best ? BEST_PARTS : 1);
}

void forward_need(const struct model *m, const struct backend *ops, const struct forward_options *o,
                  struct forward_need *n)
{
    struct be_config c = config_of(o);
    struct step_plan p = m->plan;
    if (lacks_top(ops)) p.top = NO_BUFFER;
    *n = (struct forward_need){.page = forward_kv_bytes(m, ops, o->kv, 1),
                               .state = state_bytes(&p),
                               .steps = ops->scratch_bytes(&c, &p)};
    for (int i = 0; i < p.n_weights; i++)
        if (!p.weight[i].vector) n->weights += ops->packed_bytes(&p.weight[i].linear);
    for (int i = 0; i < p.n_buffers; i++) n->steps += buffer_bytes(&p, i, o);
    n->steps += (uint64_t)o->max_seqs * seat_bytes(&p, o->kv);
}

int forward_available(const struct backend *ops, const struct forward_options *o, uint64_t *bytes,
                      struct err *e)
{
    struct be_config c = config_of(o);
    return ops->available(&c, bytes, e);
}

static int check_fit(const struct model *m, const struct backend *ops,
                     const struct forward_options *o, struct err *e)
{
    struct forward_need n;
    uint64_t available;
    forward_need(m, ops, o, &n);
    if (!n.weights) return 0;
    if (forward_available(ops, o, &available, e)) return -1;
    uint64_t kv = n.page * (uint64_t)o->n_pages, states = n.state * (uint64_t)forward_n_states(o);
    if (!available || n.weights + kv + states + n.steps <= available) return 0;
    const double mib = 1 << 20;
    return err_memory_for(e,
                          "out of memory: weights %.0f MiB, KV cache %.0f MiB for %d positions, "
                          "%s%.0f MiB: more than the %.0f MiB that are free",
                          (double)n.weights / mib, (double)kv / mib, o->n_pages * KV_PAGE,
                          n.state ? "states and steps " : "steps ",
                          (double)(n.steps + states) / mib, (double)available / mib);
}

static void *get(struct forward *f, size_t bytes, struct err *e)
{
    void *d = f->be->ops->alloc(f->be, bytes);
    if (!d && !f->be->ops->sync(f->be, e))
        err_memory_for(e, "out of memory for activations (%zu bytes)", bytes);
    return d;
}

static int bind_weights(struct forward *f, struct err *e)
{
    const struct backend *ops = f->be->ops;
    int context = f->options.context ? f->options.context : f->options.max_pages * KV_PAGE;
    struct progress progress;
    uint64_t done = 0, total = 0; /* bytes of packed linears */
    progress_begin(&progress);
    for (int i = 0; i < f->plan.n_weights; i++)
        if (!f->plan.weight[i].vector) total += ops->packed_bytes(&f->plan.weight[i].linear);
    for (int i = 0; i < f->plan.n_weights; i++) {
        const struct weight *w = &f->plan.weight[i];
        if (!w->vector) {
            if (ops->pack(f->be, &w->linear, &f->memory.linear[i], e)) return -1;
            done += ops->packed_bytes(&w->linear);
            if (f->options.show_progress) progress_bytes(&progress, "loading", done, total);
            continue;
        }
        size_t bytes = (size_t)w->n * sizeof *w->vector;
        int longer = w->longer && context > w->longer_from;
        if (!(f->memory.vector[i] = get(f, bytes, e))) return -1;
        ops->upload(f->be, f->memory.vector[i], longer ? w->longer : w->vector, bytes);
    }
    if (f->options.show_progress) progress_clear();
    return 0;
}

static int bind_buffers(struct forward *f, struct err *e)
{
    const struct backend *ops = f->be->ops;
    const struct forward_options *o = &f->options;
    for (int i = 0; i < f->plan.n_kv; i++) {
        size_t page = ops->kv_page_bytes(o->kv, &f->plan.kv[i]);
        f->memory.kv[i] = ops->alloc(f->be, (size_t)o->n_pages * page);
        if (f->memory.kv[i]) continue;
        if (ops->sync(f->be, e)) return -1;
        const double bytes = (double)forward_kv_bytes(f->model, ops, o->kv, o->n_pages);
        const int giga = bytes >= 1 << 30;
        return err_memory_for(e,
                              "out of memory: the KV cache needs %.*f %s for %d positions; a "
                              "smaller -c, or of a batch -np or --mem, asks for less",
                              giga, bytes / (giga ? 1 << 30 : 1 << 20), giga ? "GiB" : "MiB",
                              o->n_pages * KV_PAGE);
    }
    for (int i = 0; i < f->plan.n_kv && kv_has_open(o->kv); i++) {
        size_t bytes = (size_t)o->max_seqs * kv_open_bytes(o->kv, &f->plan.kv[i]);
        if (!(f->memory.seat[i] = get(f, bytes, e))) return -1;
    }
    for (int i = 0; i < f->plan.n_states; i++) {
        size_t bytes = (size_t)forward_n_states(o) * f->plan.state[i].bytes;
        if (!(f->memory.state[i] = get(f, bytes, e))) return -1;
    }
    for (int i = 0; i < f->plan.n_buffers; i++) {
        size_t bytes = buffer_bytes(&f->plan, i, o);
        if (bytes && !(f->memory.buffer[i] = get(f, bytes, e))) return -1;
    }
    return 0;
}

enum { N_VIEWS = 4 };

/* Host memory for the results that are read after a step. */
static int open_views(struct forward *f, struct err *e)
{
    const struct backend *ops = f->be->ops;
    const struct step_plan *p = &f->plan;
    void **const view[] = {(void **)&f->best_view, (void **)&f->logits, (void **)&f->top,
                           (void **)&f->hidden};
    const int of[] = {p->best, p->logits, p->top, p->keeps_hidden ? p->hidden : -1};
    for (int i = 0; i < N_VIEWS; i++) {
        if (of[i] < 0) continue;
        *view[i] = ops->view(f->be, f->memory.buffer[of[i]], buffer_bytes(p, of[i], &f->options));
        if (*view[i]) continue;
        if (!ops->sync(f->be, e)) err_memory_for(e, "out of memory for results on the host");
        return -1;
    }
    return 0;
}

int forward_open(struct forward *f, const struct model *m, const struct backend *ops,
                 const struct forward_options *o, struct err *e)
{
    memset(f, 0, sizeof *f);
    f->model = m;
    f->options = *o;
    if (make_plan(f, ops, e)) goto fail;
    struct be_config c = config_of(o);
    if (!(ops->kv_types >> o->kv & 1)) {
        err_set(e, "--backend %s: has no --kv %s", ops->name, kv_formats[o->kv].name);
        goto fail;
    }
    if (check_fit(m, ops, o, e) || ops->open(&f->be, &c, e)) goto fail;
    if (o->numa && m->file.map &&
        numa_interleave(o->numa, (void *)(uintptr_t)m->file.map, m->file.st.file_bytes, e))
        goto fail;
    struct plan_memory *to = &f->memory;
    to->buffer = calloc((size_t)f->plan.n_buffers, sizeof *to->buffer);
    to->linear = calloc((size_t)f->plan.n_weights, sizeof *to->linear);
    to->vector = calloc((size_t)f->plan.n_weights, sizeof *to->vector);
    to->kv = calloc((size_t)f->plan.n_kv + 1, sizeof *to->kv);
    to->seat = calloc((size_t)f->plan.n_kv + 1, sizeof *to->seat);
    to->state = calloc((size_t)f->plan.n_states + 1, sizeof *to->state);
    if (!to->buffer || !to->linear || !to->vector || !to->kv || !to->seat || !to->state) {
        err_memory(e);
        goto fail;
    }
    if (bind_weights(f, e) || bind_buffers(f, e) || open_views(f, e)) goto fail;
    if (ops->compile(f->be, &f->plan, &f->memory, &f->compiled, e)) goto fail;
    return 0;
fail:
    forward_close(f);
    return -1;
}

void forward_close(struct forward *f)
{
    struct plan_memory *m = &f->memory;
    if (f->be) {
        const struct backend *ops = f->be->ops;
        if (f->compiled) ops->drop_plan(f->be, f->compiled);
        void *const view[] = {f->best_view, f->logits, f->top, f->hidden};
        for (int i = 0; i < N_VIEWS; i++)
            if (view[i]) ops->drop_view(f->be, view[i]);
        for (int i = 0; m->linear && i < f->plan.n_weights; i++)
            if (m->linear[i]) ops->drop(f->be, m->linear[i]);
        for (int i = 0; m->vector && i < f->plan.n_weights; i++) ops->free(f->be, m->vector[i]);
        for (int i = 0; m->buffer && i < f->plan.n_buffers; i++) ops->free(f->be, m->buffer[i]);
        for (int i = 0; m->kv && i < f->plan.n_kv; i++) ops->free(f->be, m->kv[i]);
        for (int i = 0; m->seat && i < f->plan.n_kv; i++) ops->free(f->be, m->seat[i]);
        for (int i = 0; m->state && i < f->plan.n_states; i++) ops->free(f->be, m->state[i]);
        ops->close(f->be);
    }
    free(m->buffer);
    free(m->linear);
    free(m->vector);
    free(m->kv);
    free(m->seat);
    free(m->state);
    step_plan_free_slice(&f->plan);
    memset(f, 0, sizeof *f);
}

static int32_t *best_of(struct forward *f, unsigned step)
{
    return f->best_view + (1 + step % 2) * (size_t)f->options.max_logits;
}

/* Downloads the wanted rows, consecutive ones in one copy. 0: there are none. */
static int download_logits(struct forward *f, const uint8_t *wanted, int n)
{
    size_t vocab = (size_t)f->model->config.vocab;
    const float *d_logits = f->memory.buffer[f->plan.logits];
    int any = 0;
    for (int i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && wanted[end]; end++) {
        }
        size_t at = (size_t)i * vocab;
        if (end > i)
            f->be->ops->download(f->be, f->logits + at, d_logits + at,
                                 (size_t)(end - i) * vocab * sizeof *f->logits);
        any |= end > i;
    }
    return any;
}

/* Downloads b->hidden_row, consecutive rows in one copy. */
static void download_hidden(struct forward *f, const struct batch *b)
{
    size_t dim = (size_t)f->model->config.dim;
    const float *d_hidden = f->memory.buffer[f->plan.hidden];
    for (int i = 0, n; i < b->n_hidden; i += n) {
        for (n = 1; i + n < b->n_hidden && b->hidden_row[i + n] == b->hidden_row[i] + n;) n++;
        size_t at = (size_t)b->hidden_row[i] * dim;
        f->be->ops->download(f->be, f->hidden + at, d_hidden + at,
                             (size_t)n * dim * sizeof *f->hidden);
    }
}

void forward_begin(struct forward *f, const struct batch *b, const uint8_t *wanted)
{
    const struct backend *ops = f->be->ops;
    const struct step_plan *p = &f->plan;
    CHECK(b->n_rows <= f->options.max_rows && b->n_logits <= f->options.max_logits);
    CHECK(b->n_top <= b->n_logits && (!b->n_top || p->top >= 0));
    CHECK(!b->n_hidden || f->hidden);
    CHECK(f->n_begun - f->n_ended < 2 && !f->logits_wanted);
    ops->begin_step(f->be, b);
    ops->run(f->be, f->compiled);
    if (b->n_logits) {
        ops->download(f->be, best_of(f, f->n_begun), f->memory.buffer[p->best],
                      (size_t)b->n_logits * sizeof *f->best);
        if (b->n_top)
            ops->download(f->be, f->top, f->memory.buffer[p->top],
                          (size_t)b->n_top * OP_TOP_ROOM * sizeof *f->top);
        if (wanted) f->logits_wanted = download_logits(f, wanted, b->n_logits);
        f->logits_wanted |= b->n_top > 0;
    }
    if (b->n_hidden) {
        download_hidden(f, b);
        f->logits_wanted = 1;
    }
    ops->end_step(f->be);
    f->n_begun++;
}

int forward_has_top(const struct forward *f, int i)
{
    return f->top[(size_t)i * OP_TOP_ROOM].id >= 0;
}

int forward_n_top(const struct forward *f, int i)
{
    const struct logits_entry *top = f->top + (size_t)i * OP_TOP_ROOM;
    int n = 0;
    while (n < OP_TOP_ROOM && top[n].id >= 0) n++;
    return n;
}

int forward_fetch(struct forward *f, const uint8_t *wanted, int n, struct err *e)
{
    CHECK(f->n_ended == f->n_begun);
    return download_logits(f, wanted, n) ? f->be->ops->sync(f->be, e) : 0;
}

int forward_end(struct forward *f, struct err *e)
{
    CHECK(f->n_ended < f->n_begun);
    f->best = best_of(f, f->n_ended++);
    if (f->n_ended == f->n_begun)
        f->logits_wanted = 0; /* only the step begun last can download logits */
    return f->be->ops->wait_step(f->be, e);
}

int forward_step(struct forward *f, const struct batch *b, const uint8_t *wanted, struct err *e)
{
    forward_begin(f, b, wanted);
    return forward_end(f, e);
}
