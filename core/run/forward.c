#include "core/run/forward.h"

#include "core/base/numa.h"
#include "core/run/places.h"

#include <string.h>

uint64_t forward_kv_bytes(const struct model *m, const struct backend *ops, enum kv_type kv,
                          int n_pages)
{
    return place_kv_bytes(&m->plan, ops, kv, n_pages);
}

static int lacks(const struct backend *ops, enum op_kind kind)
{
    return !(ops->kinds & 1u << kind);
}

/* The layer that drafts tokens takes no memory where it is not wanted. */
static void leave_drafts(struct step_plan *p, int drafts)
{
    if (p->n_draft && !drafts) p->is_part = 1;
}

/* The model's plan with operations of its own, without those that the backend can do without. */
static int make_plan(const struct model *m, const struct backend *ops,
                     const struct forward_options *o, struct step_plan *out, struct err *e)
{
    struct step_plan all;
    int hidden = o->hidden || o->drafts;
    if (step_plan_copy(&m->plan, &all, e)) return -1;
    leave_drafts(&all, o->drafts);
    if (lacks(ops, OP_TOP)) step_plan_drop(&all, OP_TOP);
    if (lacks(ops, OP_SCORE)) step_plan_drop(&all, OP_SCORE);
    if (lacks(ops, OP_SAMPLE)) step_plan_drop(&all, OP_SAMPLE);
    if (!hidden) {
        *out = all;
        return 0;
    }
    int rc = step_plan_keep_hidden(&all, out, e);
    step_plan_free_slice(&all);
    return rc;
}

void forward_need(const struct model *m, const struct backend *ops, const struct forward_options *o,
                  struct forward_need *n)
{
    struct step_plan p = m->plan;
    leave_drafts(&p, o->drafts);
    if (lacks(ops, OP_TOP)) p.top = NO_BUFFER;
    if (lacks(ops, OP_SCORE)) p.score = NO_BUFFER;
    place_need(&p, ops, o, n);
}

int forward_need_places(const struct model *m, const struct forward_place *place,
                        const struct split_want *want, const struct forward_options *o,
                        struct forward_need *need, struct err *e)
{
    struct step_plan p;
    if (make_plan(m, place[0].ops, o, &p, e)) return -1;
    int rc = places_need(&p, place, want, o, need, e);
    step_plan_free_slice(&p);
    return rc;
}

int forward_available(const struct backend *ops, const struct forward_options *o, uint64_t *bytes,
                      struct err *e)
{
    struct be_config c = place_config(o);
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

enum { N_VIEWS = 6 };

/* Host memory for the results that are read after a step. */
static int open_views(struct forward *f, struct err *e)
{
    const struct backend *ops = f->be->ops;
    const struct step_plan *p = &f->plan;
    void **const view[] = {(void **)&f->best_view,  (void **)&f->logits,
                           (void **)&f->top,        (void **)&f->hidden,
                           (void **)&f->draft_best, (void **)&f->score_view};
    const int of[] = {p->best,
                      p->logits,
                      p->top,
                      f->options.hidden ? p->hidden : -1,
                      f->options.drafts ? p->draft_best : -1,
                      p->score};
    for (int i = 0; i < N_VIEWS; i++) {
        if (of[i] < 0) continue;
        *view[i] = ops->view(f->be, f->memory.buffer[of[i]],
                             place_buffer_bytes(p, of[i], &f->options));
        if (*view[i]) continue;
        if (!ops->sync(f->be, e)) err_memory_for(e, "out of memory for results on the host");
        return -1;
    }
    return 0;
}

static void begin_open(struct forward *f, const struct model *m, const struct forward_options *o)
{
    memset(f, 0, sizeof *f);
    f->model = m;
    f->options = *o;
}

/* Weights in the file's mapping are read by all nodes. */
static int interleave(const struct forward *f, struct err *e)
{
    const struct modelfile *file = &f->model->file;
    return f->options.numa && file->map
               ? numa_interleave(f->options.numa, (void *)(uintptr_t)file->map, file->st.file_bytes,
                                 e)
               : 0;
}

static int compile_drafts(struct forward *f, struct err *e)
{
    const struct backend *ops = f->be->ops;
    for (int i = 0; i < 2 && f->options.drafts; i++)
        if (step_plan_draft(&f->plan, i, &f->draft_plan[i], e) ||
            ops->compile(f->be, &f->draft_plan[i], &f->memory, &f->draft_compiled[i], e))
            return -1;
    return 0;
}

static size_t mask_words(const struct forward *f)
{
    return ((size_t)f->model->config.vocab + 31) / 32;
}

/* OP_SAMPLE is the last operation of a plan that has it. */
static int compile_choice(struct forward *f, const struct backend *ops, struct err *e)
{
    if (lacks(ops, OP_SAMPLE)) return 0;
    size_t bytes = (size_t)f->options.max_logits * mask_words(f) * sizeof *f->d_masks;
    CHECK(f->plan.op[f->plan.n_ops - 1].kind == OP_SAMPLE);
    if (!(f->d_masks = ops->alloc(f->be, bytes)))
        return ops->sync(f->be, e) ? -1 : err_memory_for(e, "out of memory for masks of tokens");
    if (step_plan_slice(&f->plan, f->plan.n_ops - 1, 1, &f->choice, e)) return -1;
    return ops->compile(f->be, &f->choice, &f->memory, &f->choice_compiled, e);
}

static int take_biases(struct forward *f, struct err *e)
{
    const struct forward_options *o = &f->options;
    int context = o->context ? o->context : o->max_pages * KV_PAGE;
    return key_biases_take(&f->biases, &f->plan, o->kv, context, e);
}

int forward_open(struct forward *f, const struct model *m, const struct backend *ops,
                 const struct forward_options *o, struct err *e)
{
    struct be_config c = place_config(o);
    begin_open(f, m, o);
    CHECK(!o->drafts || m->plan.n_draft);
    if (model_check_act(m, o->act, e) || make_plan(m, ops, o, &f->plan, e) || take_biases(f, e))
        goto fail;
    if (!(ops->kv_types >> o->kv & 1)) {
        err_set(e, "--backend %s: has no --kv %s", ops->name, kv_formats[o->kv].name);
        goto fail;
    }
    if (check_fit(m, ops, o, e) || ops->open(&f->be, &c, e) || interleave(f, e)) goto fail;
    if (place_bind(f->be, &f->plan, o, &f->memory, e) || open_views(f, e)) goto fail;
    if (ops->compile(f->be, &f->plan, &f->memory, &f->compiled, e)) goto fail;
    if (compile_drafts(f, e) || compile_choice(f, ops, e)) goto fail;
    return 0;
fail:
    forward_close(f);
    return -1;
}

int forward_open_places(struct forward *f, const struct model *m, const struct forward_place *place,
                        const struct split_want *want, const struct forward_options *o,
                        struct err *e)
{
    begin_open(f, m, o);
    CHECK(!o->lender || (o->lender->places && o->lender->places->linked));
    for (int i = 0; i < want->n_places; i++)
        if (model_check_act(m, place[i].act, e)) goto fail;
    if (make_plan(m, place[0].ops, o, &f->plan, e) || take_biases(f, e) ||
        places_open(&f->places, &f->plan, place, want, o, e))
        goto fail;
    f->be = f->places->be[0];
    f->memory = f->places->memory[0];
    if (interleave(f, e) || open_views(f, e)) goto fail;
    return 0;
fail:
    forward_close(f);
    return -1;
}

void forward_close(struct forward *f)
{
    if (f->be) {
        const struct backend *ops = f->be->ops;
        if (f->compiled) ops->drop_plan(f->be, f->compiled);
        void *const view[] = {f->best_view, f->logits,     f->top,
                              f->hidden,    f->draft_best, f->score_view};
        for (int i = 0; i < 2; i++)
            if (f->draft_compiled[i]) ops->drop_plan(f->be, f->draft_compiled[i]);
        if (f->choice_compiled) ops->drop_plan(f->be, f->choice_compiled);
        if (f->d_masks) ops->free(f->be, f->d_masks);
        for (int i = 0; i < N_VIEWS; i++)
            if (view[i]) ops->drop_view(f->be, view[i]);
    }
    if (f->places) {
        places_close(f->places);
    } else if (f->be) {
        place_release(f->be, &f->plan, &f->memory);
        f->be->ops->close(f->be);
    }
    step_plan_free_slice(&f->plan);
    for (int i = 0; i < 2; i++) step_plan_free_slice(&f->draft_plan[i]);
    step_plan_free_slice(&f->choice);
    key_biases_free(&f->biases);
    memset(f, 0, sizeof *f);
}

int forward_n_places(const struct forward *f) { return f->places ? f->places->split.n_places : 1; }

const struct be *forward_be(const struct forward *f, int q)
{
    return f->places ? f->places->be[q] : f->be;
}

int forward_overlaps(const struct forward *f)
{
    return f->be->ops->asynchronous && (!f->places || f->places->linked);
}

struct pool *forward_pool(const struct forward *f)
{
    struct pool *pool = NULL;
    for (int q = 0; q < forward_n_places(f) && !pool; q++) {
        const struct be *be = forward_be(f, q);
        if (be->ops->pool) pool = be->ops->pool(be);
    }
    return pool;
}

/* Rows before those of a step in a buffer of STEP_PARTS. */
static size_t part_of(const struct forward *f, unsigned step)
{
    return (1 + step % 2) * (size_t)f->options.max_logits;
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

/* What OP_ARGMAX or OP_SAMPLE and OP_SCORE of a step have found. */
static void download_choices(struct forward *f, unsigned step, int n_logits, int n_scores)
{
    const struct backend *ops = f->be->ops;
    const struct step_plan *p = &f->plan;
    size_t part = part_of(f, step);
    ops->download(f->be, f->best_view + part, f->memory.buffer[p->best],
                  (size_t)n_logits * sizeof *f->best);
    if (n_scores)
        ops->download(f->be, f->score_view + part, f->memory.buffer[p->score],
                      (size_t)n_scores * sizeof *f->score);
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
    CHECK(b->n_samples <= b->n_logits && (!b->n_samples || forward_samples(f)));
    CHECK(b->n_scores <= b->n_logits && (!b->n_scores || forward_scores(f)));
    CHECK(!b->n_hidden || f->hidden);
    CHECK(f->n_begun - f->n_ended < 2 && !f->logits_wanted && !f->n_later);
    CHECK(!b->n_later || forward_chooses(f));
    if (f->places) {
        CHECK(f->places->linked || f->n_begun == f->n_ended);
        places_begin(f->places, b);
    } else {
        ops->begin_step(f->be, b);
        ops->run(f->be, f->compiled);
    }
    if (b->n_logits) {
        download_choices(f, f->n_begun, b->n_logits, b->n_scores);
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
    f->n_later = b->n_later;
    f->n_scores = b->n_scores;
    if (f->places) places_end(f->places);
    else if (!f->n_later) ops->end_step(f->be);
    f->n_begun++;
}

int forward_chooses(const struct forward *f) { return f->choice_compiled != NULL; }

void forward_choose(struct forward *f, const struct batch *c, const uint32_t *masks, int n_masks)
{
    const struct backend *ops = f->be->ops;
    struct batch b = *c;
    CHECK(f->n_later > 0 && n_masks <= f->options.max_logits);
    if (b.n_samples) {
        ops->upload(f->be, f->d_masks, masks, (size_t)n_masks * mask_words(f) * sizeof *masks);
        b.masks = f->d_masks;
        b.n_drafts = b.n_right = NULL; /* they were the step's */
        ops->begin_step(f->be, &b);
        ops->run(f->be, f->choice_compiled);
        download_choices(f, f->n_begun - 1, b.n_logits, f->n_scores);
    }
    ops->end_step(f->be);
    f->n_later = 0;
}

int forward_draft(struct forward *f, int again, const struct batch *b, struct err *e)
{
    const struct backend *ops = f->be->ops;
    CHECK(f->draft_compiled[again] && f->n_ended == f->n_begun);
    CHECK(b->n_rows <= f->options.max_rows && b->n_logits <= f->options.max_logits);
    ops->begin_step(f->be, b);
    ops->run(f->be, f->draft_compiled[again]);
    if (b->n_logits)
        ops->download(f->be, f->draft_best, f->memory.buffer[f->plan.draft_best],
                      (size_t)b->n_logits * sizeof *f->draft_best);
    ops->end_step(f->be);
    return ops->wait_step(f->be, e);
}

int forward_samples(const struct forward *f) { return !lacks(f->be->ops, OP_SAMPLE); }

int forward_scores(const struct forward *f) { return f->score_view != NULL; }

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

int forward_ready(struct forward *f)
{
    CHECK(f->n_ended < f->n_begun);
    if (f->places) return places_ready(f->places);
    return !f->be->ops->step_done || f->be->ops->step_done(f->be);
}

int forward_end(struct forward *f, struct err *e)
{
    CHECK(f->n_ended < f->n_begun && !f->n_later);
    f->best = f->best_view + part_of(f, f->n_ended);
    if (f->score_view) f->score = f->score_view + part_of(f, f->n_ended);
    f->n_ended++;
    if (f->n_ended == f->n_begun)
        f->logits_wanted = 0; /* only the step begun last can download logits */
    return f->places ? places_wait(f->places, e) : f->be->ops->wait_step(f->be, e);
}

int forward_step(struct forward *f, const struct batch *b, const uint8_t *wanted, struct err *e)
{
    forward_begin(f, b, wanted);
    return forward_end(f, e);
}
