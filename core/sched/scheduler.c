#include "core/base/clock.h"
#include "core/sched/sched_internal.h"
#include "core/step/kv_open.h"

#include <stdlib.h>
#include <string.h>

/* Of sequences with states: rows of drafts, and those that were right. */
static int open_kept(struct sched *s)
{
    struct batch *b = &s->batch;
    if (!s->states.n_slots || !s->forward->options.keeps_drafts) return 0;
    b->n_drafts = calloc(2 * (size_t)s->n_slots, sizeof *b->n_drafts);
    if (!b->n_drafts) return -1;
    b->n_right = b->n_drafts + s->n_slots;
    return 0;
}

/* Choices and scores of a device that makes them, of n rows of logits. */
static int open_choices(struct sched *s, size_t n)
{
    const struct forward *f = s->forward;
    struct batch *b = &s->batch, *later = &s->later;
    int failed = 0;
    if (forward_samples(f)) {
        b->sample = calloc(n, sizeof *b->sample);
        b->change = malloc(BATCH_CHANGES * sizeof *b->change);
        failed |= !b->sample || !b->change;
    }
    if (forward_chooses(f)) {
        later->sample = calloc(n, sizeof *later->sample);
        later->change = malloc(BATCH_CHANGES * sizeof *later->change);
        s->later_masks = malloc(n * (size_t)s->n_mask * sizeof *s->later_masks);
        failed |= !later->sample || !later->change || !s->later_masks;
    }
    if (forward_scores(f)) {
        b->score = calloc(n, sizeof *b->score);
        failed |= !b->score;
    }
    return failed ? -1 : 0;
}

static int open_arrays(struct sched *s, struct err *e)
{
    struct batch *b = &s->batch;
    size_t rows = (size_t)s->options.n_batch, slots = (size_t)s->n_slots,
           vocab = (size_t)s->forward->model->config.vocab,
           n_logits = (size_t)s->forward->options.max_logits;
    b->table_stride = kv_pages(s->options.n_ctx);
    size_t stride = (size_t)b->table_stride, n_ctx = (size_t)s->options.n_ctx;
    /* calloc: pages of the larger arrays that are never touched take no memory */
    size_t held = (size_t)s->n_held;
    s->seq = calloc(held, sizeof *s->seq);
    s->job = calloc((size_t)s->n_jobs, sizeof *s->job);
    s->order = calloc(slots, sizeof *s->order);
    s->looking = calloc(slots, sizeof *s->looking);
    s->look_first = calloc(slots + 1, sizeof *s->look_first);
    s->adjusted = malloc((size_t)pool_n_threads(s->pool) * vocab * sizeof *s->adjusted);
    s->n_mask = (int)((vocab + 31) / 32);
    s->masks = calloc(held * (size_t)s->n_mask, sizeof *s->masks);
    int32_t *p = b->token =
        calloc(rows * 5 + 2 * n_logits + 6 * slots + 1 + slots * stride + held * (stride + n_ctx),
               sizeof *p);
    int failed = !s->seq || !s->job || !s->order || !s->looking || !s->look_first || !s->adjusted ||
                 !s->masks || !p;
    for (int i = 0; i < 2; i++) {
        struct flight *f = &s->flight[i];
        f->seq = malloc(slots * sizeof *f->seq);
        f->row = malloc(n_logits * sizeof *f->row);
        f->wanted = malloc(n_logits * sizeof *f->wanted);
        f->hidden = malloc(rows * sizeof *f->hidden);
        failed |= !f->seq || !f->row || !f->wanted || !f->hidden;
    }
    if (open_kept(s) || open_choices(s, n_logits) || failed) return err_memory(e);
    b->pos = p += rows;
    b->seq = p += rows;
    b->slot = p += rows;
    b->hidden_row = p += rows;
    b->logit_row = p += rows;
    b->top_row = p += n_logits;
    b->seq_start = p += n_logits;
    b->kv_len = p += slots + 1;
    b->state_from = p += slots;
    b->state_to = p += slots;
    b->seat = p += slots;
    s->free_seat = p += slots;
    b->block_table = p += slots;
    p += slots * stride;
    for (; s->n_seats < s->n_slots; s->n_seats++) s->free_seat[s->n_seats] = s->n_seats;
    for (size_t i = 0; i < held; i++, p += stride + n_ctx) {
        s->seq[i].page = p, s->seq[i].generated = p + stride;
        s->seq[i].mask = s->masks + i * (size_t)s->n_mask;
    }
    return 0;
}

/* The threads for the rows of a step, and their samplers: those of the backend, whose idle threads
 * would else take processors from others while they still spin. */
static int open_threads(struct sched *s, struct err *e)
{
    const struct forward *f = s->forward;
    int n = f->options.n_threads > 0 ? f->options.n_threads : pool_n_cores();
    s->pool = s->options.pool ? s->options.pool : forward_pool(f);
    if (!s->pool) {
        if (pool_open(&s->own_pool, least(n, f->options.max_logits), e)) return -1;
        s->pool = s->own_pool;
    }
    n = pool_n_threads(s->pool);
    s->sampler = calloc((size_t)n, sizeof *s->sampler);
    if (!s->sampler) return err_memory(e);
    for (int i = 0; i < n; i++)
        if (sampler_open(&s->sampler[i], s->forward->model->config.vocab, e)) return -1;
    return 0;
}

/* The probabilities are those of texts that repeat themselves now and then, until outcomes are
 * there. */
static int open_drafter(struct sched *s, struct err *e)
{
    static const double accepts[SCHED_CLASSES] = {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.7, 0.6, 0.5};
    memcpy(s->accepts, accepts, sizeof accepts);
    if (s->options.draft_most <= 0) return 0;
    s->n_draft_masks = least(s->n_slots * s->options.draft_most, DRAFT_MASKS);
    s->draft_masks = calloc((size_t)s->n_draft_masks * (size_t)s->n_mask, sizeof *s->draft_masks);
    if (!s->draft_masks) return err_memory(e);
    if (s->options.mtp_most > 0 && sched_mtp_open(s, e)) return -1;
    if (s->options.no_texts) return 0;
    if (s->options.drafter) s->drafter = *s->options.drafter;
    else if (draft_text_open(&s->draft_text, s->n_held, s->options.n_ctx, e)) return -1;
    else s->drafter = draft_text_drafter(s->draft_text);
    return 0;
}

/* As many sequences may be ending as run. */
static int held_of(int n_slots) { return 2 * n_slots; }

uint64_t sched_draft_bytes(int n_seqs, int n_ctx)
{
    return draft_text_bytes(held_of(n_seqs), n_ctx);
}

int sched_open(struct sched **out, struct forward *f, const struct sched_options *o, struct err *e)
{
    CHECK(o->n_seqs > 0 && o->n_batch > 0 && o->n_ctx > 0 && o->n_batch <= f->options.max_rows &&
          f->options.max_logits > 0);
    CHECK(!kv_has_open(f->options.kv) || o->n_seqs <= f->options.max_seqs);
    CHECK(!o->store || o->prefix_cache);
    CHECK(!o->share_generated || (o->prefix_cache && !o->overlap && !f->be->ops->phases));
    struct sched *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e);
    s->forward = f;
    s->options = *o;
    s->n_slots = least(o->n_seqs, least(o->n_batch, f->options.max_logits));
    int n_states = f->plan.n_states ? forward_n_states(&f->options) : 0;
    if (n_states) s->n_slots = least(s->n_slots, n_states);
    s->n_held = held_of(s->n_slots);
    s->n_jobs = s->n_held + JOBS_WAITING;
    if (kv_open(&s->kv, f->options.n_pages, e) || states_open(&s->states, n_states, e) ||
        open_threads(s, e) || open_arrays(s, e)) {
        sched_close(s);
        return -1;
    }
    if (open_drafter(s, e) || (o->store && sched_store_open(s, o->store, e))) {
        sched_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void sched_close(struct sched *s)
{
    if (!s) return;
    /* A step in flight writes to memory that is freed below. */
    for (struct err e; s->forward->n_ended != s->forward->n_begun;)
        (void)forward_end(s->forward, &e);
    sched_store_close(s);
    for (int i = 0; s->job && i < s->n_jobs; i++) queued_close(&s->job[i].queued);
    for (int i = 0; i < s->n_queue; i++)
        queued_close(&s->queue[(s->queue_first + i) % s->queue_size]);
    kv_close(&s->kv);
    states_close(&s->states);
    draft_text_close(s->draft_text);
    sched_mtp_close(s);
    for (int i = 0; s->sampler && i < pool_n_threads(s->pool); i++) sampler_close(&s->sampler[i]);
    pool_close(s->own_pool);
    free(s->sampler);
    free(s->seq);
    free(s->job);
    free(s->order);
    for (int i = 0; i < 2; i++) {
        free(s->flight[i].seq);
        free(s->flight[i].row);
        free(s->flight[i].wanted);
        free(s->flight[i].hidden);
    }
    free(s->adjusted);
    free(s->masks);
    free(s->draft_masks);
    free(s->looking);
    free(s->look_first);
    free(s->batch.token);
    free(s->batch.sample);
    free(s->batch.score);
    free(s->later.sample);
    free(s->later.change);
    free(s->later_masks);
    free(s->batch.n_drafts);
    free(s->batch.change);
    free(s->queue);
    free(s);
}

/* Most positions that are computed for a choice; its last token is not. */
static int max_positions(const struct sched *s, const struct request *r)
{
    return r->max_tokens < s->options.n_ctx - r->n_prompt
               ? r->n_prompt + r->max_tokens - (r->max_tokens > 0)
               : s->options.n_ctx - (r->max_tokens > 0);
}

/* Number of choices to be started. A request that only evaluates its prompt has none. */
static int choices_left(const struct sched_job *j)
{
    return j->request && j->request->max_tokens ? j->request->n_choices - j->n_started : 0;
}

static struct queued *queued_at(const struct sched *s, int i)
{
    return &s->queue[(s->queue_first + i) % s->queue_size];
}

/* 1 if a queued request may start. */
static int is_admitted(const struct sched *s, const struct queued *q)
{
    return !s->drains || (q->request->group && q->request->group->n_started);
}

int sched_turn(const struct sched *s) { return s->n_slots > SCHED_TURN ? s->n_slots : SCHED_TURN; }

/* Of a request counts its first turn: what is behind it need not wait for more. */
int sched_wants(const struct sched *s)
{
    /* as many are queued as run, or so many more that the longest can be chosen */
    int n = (s->options.longest_first ? 4 : 2) * s->n_slots - s->n_order, turn = sched_turn(s);
    for (int i = 0; i < s->n_jobs; i++) {
        const struct sched_job *j = &s->job[i];
        if (j->n_started < turn) n -= least(choices_left(j), turn - j->n_started);
    }
    for (int i = 0; i < s->n_queue && n > 0; i++)
        if (is_admitted(s, queued_at(s, i))) n -= least(queued_at(s, i)->request->n_choices, turn);
    return n > 0 ? n : 0;
}

int sched_submit(struct sched *s, struct request *r, struct err *e)
{
    CHECK(r->n_prompt > 0 && r->n_choices > 0 && r->max_tokens >= 0 &&
          r->n_top <= REQUEST_MAX_TOP && r->prompt_top <= REQUEST_MAX_TOP);
    CHECK(r->n_named <= REQUEST_MAX_NAMED && r->hidden_from <= r->hidden_end &&
          r->hidden_end <= r->n_prompt && (!r->hidden_end || s->forward->hidden));
    for (int i = 0; i < r->n_prompt; i++)
        CHECK(r->prompt[i] >= 0 && r->prompt[i] < s->forward->model->config.vocab);
    int room = s->options.n_ctx - (r->max_tokens > 0);
    if (r->n_prompt > room)
        return err_set(e, "the prompt has %d tokens, %d fit into the context", r->n_prompt, room);
    int pages = kv_pages(max_positions(s, r));
    if (pages > s->kv.n_pages)
        return err_set(e, "the request needs %d KV pages at most, there are %d", pages,
                       s->kv.n_pages);
    if (s->n_queue == s->queue_size) {
        int size = s->queue_size ? 2 * s->queue_size : 64;
        struct queued *q = malloc((size_t)size * sizeof *q);
        if (!q) return err_memory(e);
        for (int i = 0; i < s->n_queue; i++) q[i] = s->queue[(s->queue_first + i) % s->queue_size];
        free(s->queue);
        s->queue = q;
        s->queue_size = size;
        s->queue_first = 0;
    }
    struct queued *q = queued_at(s, s->n_queue);
    if (queued_open(q, r, e)) return -1;
    q->age = s->n_ages++;
    s->n_queue++;
    return 0;
}

struct pool *sched_pool(const struct sched *s) { return s->pool; }

static void add_load(struct sched_load *l, uint64_t n_choices, uint64_t n_prompt, uint64_t n_answer)
{
    l->n_choices += (int)n_choices;
    l->n_tokens += n_prompt + n_choices * n_answer;
}

int sched_slots(const struct sched *s) { return s->n_slots; }

struct sched_load sched_load(const struct sched *s)
{
    struct sched_load l = {0};
    for (int i = 0; i < s->n_order; i++) {
        const struct seq *q = s->order[i];
        int n_prompt = q->job->request->n_prompt - q->n_computed,
            n_answer = seq_limit(s, q->job->request) - q->n_generated;
        add_load(&l, 1, n_prompt > 0 ? (uint64_t)n_prompt : 0,
                 n_answer > 0 ? (uint64_t)n_answer : 0);
    }
    for (int i = 0; i < s->n_jobs; i++) {
        const struct sched_job *j = &s->job[i];
        if (choices_left(j))
            add_load(&l, (uint64_t)choices_left(j), 0, (uint64_t)seq_limit(s, j->request));
    }
    for (int i = 0; i < s->n_queue; i++) {
        const struct request *r = queued_at(s, i)->request;
        add_load(&l, (uint64_t)r->n_choices, (uint64_t)r->n_prompt, (uint64_t)seq_limit(s, r));
    }
    return l;
}

struct request *sched_take_back(struct sched *s)
{
    struct queued *q = s->n_queue ? queued_at(s, s->n_queue - 1) : NULL;
    struct request *r = q ? q->request : NULL;
    if (!r || !is_admitted(s, q) || (r->group && r->group->n_started)) return NULL;
    queued_close(q);
    s->n_queue--;
    return r;
}

/* Number of pages that the sequence lacks for its tokens and the next one. */
static int n_missing_pages(const struct sched *s, const struct seq *q)
{
    int n = kv_pages(least(seq_n_tokens(q) + 1, max_positions(s, q->job->request))) - q->n_pages;
    return n > 0 ? n : 0;
}

/* A slot for the states of a sequence that begins; without a free one that snapshot's from which it
 * would have continued. 0: none is free. */
static int take_slot(struct sched *s, struct seq *q)
{
    if (!s->states.n_slots) return 1;
    q->own = states_take(&s->states);
    if (q->own < 0) {
        seq_release(s, q);
        q->own = states_take(&s->states);
    }
    return q->own >= 0;
}

/* Lets the sequence run if the free pages suffice for it, for the missing pages of the running
 * sequences and for one more page of each of them; otherwise it would soon be preempted. Without
 * running sequences the pages always suffice. */
static int enter(struct sched *s, struct seq *q)
{
    int n_running = 0, missing = 0;
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->state == SEQ_RUNNING)
            n_running++, missing += n_missing_pages(s, s->order[i]);
    uint64_t n_cached = s->stats.n_cached_tokens;
    seq_find_pages(s, q);
    if (!take_slot(s, q)) {
        CHECK(n_running);
        s->stats.n_cached_tokens = n_cached;
        return 0;
    }
    if (n_running && missing + n_missing_pages(s, q) + n_running > kv_n_free(&s->kv)) {
        seq_release(s, q);
        s->stats.n_cached_tokens = n_cached;
        return 0;
    }
    if (s->store && seq_takes_pages(q)) seq_fetch(s, q, seq_shares_up_to(s, q));
    CHECK(s->n_seats > 0 && q->seat < 0); /* at most n_slots are running */
    q->seat = s->free_seat[--s->n_seats];
    q->state = SEQ_RUNNING;
    return 1;
}

/* Where the sequences of a job leave snapshots: at the last page of the prompt when its choices
 * continue from there, and where a queued request leaves the prompt. */
static void choose_snapshots(struct sched *s, struct sched_job *j)
{
    const struct request *r = j->request;
    if (!s->states.n_slots) return;
    if ((r->n_choices > 1 && r->max_tokens) || s->options.share_generated)
        j->leave_at[0] = requests_alike(r, r);
    for (int i = 1; s->options.prefix_cache && i < s->n_queue && i <= SNAPSHOT_QUEUE; i++) {
        int n = requests_alike(r, s->queue[(s->queue_first + i) % s->queue_size].request);
        if (n > j->leave_at[1]) j->leave_at[1] = n;
    }
    for (int i = 0; i < 2; i++)
        if (j->leave_at[i] < SNAPSHOT_FROM) j->leave_at[i] = 0;
}

/* Starts the job's next choice; 0: not enough pages. */
static int start_choice(struct sched *s, struct sched_job *j)
{
    struct seq *q = s->seq;
    while (q->state != SEQ_FREE) q++;
    *q = (struct seq){.job = j,
                      .choice = j->n_started,
                      .chain = j->root,
                      .own = -1,
                      .from = -1,
                      .seat = -1,
                      .masked = -1,
                      .mask = q->mask,
                      .generated = q->generated,
                      .page = q->page};
    if (j->queued.cursor) {
        q->cursor = j->queued.cursor[q->choice];
        q->ahead = j->queued.cursor[j->request->n_choices];
    }
    q->key = sampler_key(j->request->sampling.seed, j->request->stream, (uint64_t)q->choice);
    if (!enter(s, q)) return 0;
    if (++j->n_started % sched_turn(s) == 0) j->age = s->n_ages++;
    if (j->request->group) j->request->group->n_started++;
    s->order[s->n_order++] = q;
    sched_drafter_begin(s, q);
    return 1;
}

/* The job with choices to start whose turn it is. */
static struct sched_job *next_job(struct sched *s)
{
    struct sched_job *oldest = NULL;
    for (int i = 0; i < s->n_jobs; i++) {
        struct sched_job *j = &s->job[i];
        if (choices_left(j) && j->prompt_done && (!oldest || j->age < oldest->age)) oldest = j;
    }
    return oldest;
}

/* 1 if some queued request may start. */
static int may_begin(const struct sched *s)
{
    for (int i = 0; i < s->n_queue; i++)
        if (is_admitted(s, queued_at(s, i))) return 1;
    return 0;
}

/* Brings the first queued request that may start to the front, or with longest_first the first of
 * those that may generate the most tokens; NULL: there is none. */
static struct queued *first_admitted(struct sched *s)
{
    int at = -1;
    for (int i = 0; i < s->n_queue && (at < 0 || s->options.longest_first); i++) {
        const struct queued *q = queued_at(s, i);
        if (!is_admitted(s, q)) continue;
        if (at < 0 || q->request->max_tokens > queued_at(s, at)->request->max_tokens) at = i;
    }
    if (at < 0) return NULL;
    struct queued first = *queued_at(s, at);
    for (; at; at--) *queued_at(s, at) = *queued_at(s, at - 1);
    *queued_at(s, 0) = first;
    return queued_at(s, 0);
}

void sched_drain(struct sched *s) { s->drains = 1; }

/* 1 if sequences should start: `gather` of them can start together, or all that are waiting. */
static int enough_to_start(const struct sched *s)
{
    int n_free = s->n_slots - s->n_order, n_waiting = may_begin(s) ? s->n_queue : 0;
    for (int i = 0; i < s->n_jobs; i++)
        if (s->job[i].prompt_done) n_waiting += choices_left(&s->job[i]);
    return !s->n_order || n_free >= least(s->options.gather, n_waiting);
}

static struct sched_job *free_job(struct sched *s)
{
    for (int i = 0; i < s->n_jobs; i++)
        if (!s->job[i].request) return &s->job[i];
    return NULL;
}

/* Starts the first queued request as the job J; 0: not enough pages. */
static int begin_request(struct sched *s, const struct queued *q, struct sched_job *j)
{
    *j = (struct sched_job){.request = q->request,
                            .queued = *q,
                            .age = q->age,
                            .root = s->options.prefix_cache ? 0 : kv_root(&s->kv)};
    choose_snapshots(s, j);
    if (!start_choice(s, j)) {
        *j = (struct sched_job){0}; /* the cursors stay the queue's */
        return 0;
    }
    s->queue_first = (s->queue_first + 1) % s->queue_size;
    s->n_queue--;
    return 1;
}

/* Admits preempted sequences, then further choices and queued requests in order of age, in which a
 * request with many choices comes behind the others after each turn. */
static void admit(struct sched *s)
{
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->state == SEQ_PREEMPTED && !enter(s, s->order[i])) return;
    if (!enough_to_start(s)) return;
    while (s->n_order < s->n_slots) {
        struct sched_job *j = next_job(s), *next = free_job(s);
        const struct queued *q = next ? first_admitted(s) : NULL;
        if (q && (!j || q->age < j->age)) {
            if (!begin_request(s, q, next)) return;
        } else if (!j || !start_choice(s, j)) {
            return;
        }
    }
}

static struct flight *oldest(struct sched *s)
{
    return s->n_emitted == s->n_begun ? NULL : &s->flight[s->n_emitted % 2];
}

/* Begins a step if there is one to compute. */
static int begin(struct sched *s, struct err *e)
{
    struct flight *f = &s->flight[s->n_begun % 2];
    sched_store_begin(s);
    sched_take_forced(s);
    if (s->mtp && sched_mtp_draft(s, e)) return -1;
    admit(s);
    if (!s->n_order) return 0;
    s->begun_at = clock_now();
    if (s->n_begun == s->n_emitted) s->busy_from = s->begun_at;
    sched_draft(s);
    if (s->draft_masks) sched_cut_drafts(s);
    sched_plan(s, f);
    double start = clock_now();
    forward_begin(s->forward, &s->batch, f->wanted);
    s->stats.forward_seconds += clock_now() - start;
    s->stats.n_steps++;
    s->n_begun++;
    sched_advance(s, f);
    sched_look_ahead(s, f);
    if (f->n_later) sched_choose(s, f);
    return 0;
}

static int settle(struct sched *s, struct flight *f, struct err *e)
{
    double start = clock_now();
    int rc = forward_end(s->forward, e);
    double end = clock_now();
    s->stats.forward_seconds += end - start;
    s->stats.busy_seconds += end - s->busy_from;
    s->busy_from = end;
    if (rc) return -1;
    sched_store_settle(s);
    if (sched_settle(s, f, e)) return -1;
    if (s->n_begun - s->n_emitted == 1) /* the batch is still that of the step */
        sched_learn_cost(s, &s->batch, clock_now() - s->begun_at);
    if (!s->options.overlap || s->draft_masks)
        sched_look_ahead(s, f); /* drafts stand behind what is forced */
    return 0;
}

static int emit(struct sched *s, struct flight *f, struct err *e)
{
    s->n_emitted++;
    return sched_emit(s, f, e);
}

/* Emits the results of the step in flight while the next one is computed. The next step begins
 * early only if the backend has all its tokens, and only after the sinks have received logits and
 * hidden rows: the next step overwrites them. */
static int step(struct sched *s, int waits, struct err *e)
{
    pool_heed(s->pool);
    struct flight *f = oldest(s);
    const int has_begun = s->n_begun - s->n_emitted == 2; /* by a call that did not wait */
    int settled = f && !has_begun && (f->n_wanted || f->shows);
    if (settled && !waits && !forward_ready(s->forward)) return SCHED_WAITS;
    if (settled && settle(s, f, e)) return -1;
    if (f && f->shows) {
        if (emit(s, f, e)) return -1;
        f = NULL;
    }
    if (!has_begun && begin(s, e)) return -1;
    if (!s->options.overlap) f = oldest(s);
    if (f && !settled && !waits && !forward_ready(s->forward)) return SCHED_WAITS;
    if (f && ((!settled && settle(s, f, e)) || emit(s, f, e))) return -1;
    int busy = s->n_order || may_begin(s) || oldest(s);
    for (int i = 0; i < s->n_jobs; i++) busy |= s->job[i].request != NULL;
    if (!busy) sched_store_idle(s);
    return busy;
}

int sched_step(struct sched *s, struct err *e) { return step(s, 1, e); }

int sched_try(struct sched *s, struct err *e) { return step(s, 0, e); }

static int abort_request(struct sched *s, struct queued *p, struct sched_job *j, struct err *e)
{
    struct request *r = p->request;
    for (int c = 0; c < r->n_choices; c++) {
        int ended = j && c < j->n_started;
        for (int i = 0; i < s->n_order; i++)
            if (s->order[i]->job == j && s->order[i]->choice == c) ended = 0;
        if (!ended && r->sink->finished(r->arg, c, FINISH_ABORTED, e)) return -1;
    }
    queued_close(p);
    return r->sink->done(r->arg, NULL, e);
}

int sched_abort(struct sched *s, struct err *e)
{
    int rc = 0;
    for (struct flight *f; !rc && (f = oldest(s));) rc = settle(s, f, e) || emit(s, f, e) ? -1 : 0;
    for (int i = 0; i < s->n_jobs && !rc; i++)
        if (s->job[i].request) rc = abort_request(s, &s->job[i].queued, &s->job[i], e);
    for (; s->n_queue && !rc; s->n_queue--, s->queue_first = (s->queue_first + 1) % s->queue_size)
        rc = abort_request(s, &s->queue[s->queue_first], NULL, e);
    for (int i = 0; i < s->n_order; i++) {
        seq_release(s, s->order[i]);
        s->order[i]->state = SEQ_FREE;
    }
    memset(s->job, 0, (size_t)s->n_jobs * sizeof *s->job);
    s->n_order = s->n_queue = 0;
    return rc;
}

void sched_stats(const struct sched *s, struct sched_stats *out)
{
    *out = s->stats;
    out->n_waiting = s->n_queue;
    out->n_running = 0;
    for (int i = 0; i < s->n_order; i++) {
        out->n_waiting += s->order[i]->state == SEQ_PREEMPTED;
        out->n_running += s->order[i]->state == SEQ_RUNNING;
    }
    out->n_pages = s->kv.n_pages;
    out->n_pages_used = s->kv.n_used;
    out->n_states = s->states.n_slots;
    out->n_states_used = s->states.n_used;
    for (int i = 0; i < s->forward->plan.n_states; i++)
        out->state_bytes += (uint64_t)s->forward->plan.state[i].bytes * (uint64_t)out->n_states;
}
