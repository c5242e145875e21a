/* sched_store.c: pages and states of prompts, from and to disk (prefix_store.h). A sequence that
 * begins takes what is there behind the pages that memory has. Full pages and snapshots are copied
 * aside when the next step begins, as many as there is room for; the rest waits, and is lost if its
 * page is taken for other contents meanwhile. A step reads and writes no file. */
#include "core/sched/sched_internal.h"

#include "core/run/parts.h"

#include <stdlib.h>
#include <string.h>

/* Copies on their way to the disk: about so many bytes of pages. */
enum { STAGE_BYTES = 64 << 20, FEWEST_STAGES = 8, MOST_STAGES = 64, STATE_STAGES = 2 };
/* With a store, positions between snapshots that no request of this run asks for, and fewest from
 * the last one to the end of a prompt that are worth one: so many are computed again at most. */
enum { STATES_EVERY = 2048, STATES_FROM = 256 };
enum { LAST = -1, NOT_QUEUED = -2 };

struct stage {
    struct prefix_job job;
    int copies;     /* the backend has not finished the copy yet */
    unsigned until; /* it has when so many steps have ended */
    uint64_t turn;  /* copies of this run before it */
};

struct sched_store {
    struct prefix_store *files;
    struct prefix_item root;
    size_t bytes[PREFIX_KINDS];
    /* pages by their number, behind them slots of states */
    struct prefix_item *item; /* what it holds, of shared pages and snapshots */
    int32_t *next;            /* of those that wait to be copied; LAST, NOT_QUEUED */
    int32_t first[PREFIX_KINDS], last[PREFIX_KINDS];
    struct stage *stage;
    int n_stages[PREFIX_KINDS]; /* of pages, behind them of states */
    uint64_t n_copies;
    char *memory; /* of the stages */
    void *buffer; /* what is read */
    int is_off;   /* nothing is written any more */
};

static int count_stages(size_t page)
{
    size_t n = page ? STAGE_BYTES / page : 0;
    return n < FEWEST_STAGES ? FEWEST_STAGES : n > MOST_STAGES ? MOST_STAGES : (int)n;
}

uint64_t sched_store_bytes(uint64_t page, uint64_t states)
{
    return page * (uint64_t)count_stages((size_t)page) + states * STATE_STAGES +
           (page > states ? page : states);
}

static int open_stages(struct sched *s, struct sched_store *t, struct err *e)
{
    t->n_stages[PREFIX_PAGE] = count_stages(t->bytes[PREFIX_PAGE]);
    t->n_stages[PREFIX_STATE] = t->bytes[PREFIX_STATE] ? STATE_STAGES : 0;
    int n = t->n_stages[PREFIX_PAGE] + t->n_stages[PREFIX_STATE];
    size_t bytes = 0;
    for (int k = 0; k < PREFIX_KINDS; k++) bytes += (size_t)t->n_stages[k] * t->bytes[k];
    t->stage = calloc((size_t)n, sizeof *t->stage);
    t->memory = part_memory(s->forward, bytes);
    if (!t->stage || !t->memory) return err_memory(e);
    for (int i = 0; i < n; i++) {
        int at = i - t->n_stages[PREFIX_PAGE];
        size_t offset = at < 0 ? (size_t)i * t->bytes[PREFIX_PAGE]
                               : (size_t)t->n_stages[PREFIX_PAGE] * t->bytes[PREFIX_PAGE] +
                                     (size_t)at * t->bytes[PREFIX_STATE];
        t->stage[i].job.data = t->memory + offset;
    }
    return 0;
}

int sched_store_open(struct sched *s, struct prefix_store *files, struct err *e)
{
    struct sched_store *t = s->store = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    size_t n = (size_t)s->kv.n_pages + (size_t)s->states.n_slots;
    t->files = files;
    t->root = prefix_store_root(files);
    t->bytes[PREFIX_PAGE] = part_bytes(s->forward, PART_PAGE);
    t->bytes[PREFIX_STATE] = part_bytes(s->forward, PART_STATES);
    t->item = calloc(n, sizeof *t->item);
    t->next = malloc(n * sizeof *t->next);
    t->buffer = malloc(t->bytes[PREFIX_PAGE] > t->bytes[PREFIX_STATE] ? t->bytes[PREFIX_PAGE]
                                                                      : t->bytes[PREFIX_STATE]);
    if (!t->item || !t->next || !t->buffer) return err_memory(e);
    for (size_t i = 0; i < n; i++) t->next[i] = NOT_QUEUED;
    for (int k = 0; k < PREFIX_KINDS; k++) t->first[k] = t->last[k] = LAST;
    return open_stages(s, t, e);
}

/* ---- to the disk */

static void queue(struct sched_store *t, enum prefix_kind kind, int32_t i)
{
    if (t->is_off || t->next[i] != NOT_QUEUED) return;
    t->next[i] = LAST;
    if (t->last[kind] == LAST) t->first[kind] = i;
    else t->next[t->last[kind]] = i;
    t->last[kind] = i;
}

static int32_t unqueue(struct sched_store *t, enum prefix_kind kind)
{
    int32_t i = t->first[kind];
    t->first[kind] = t->next[i];
    if (t->first[kind] == LAST) t->last[kind] = LAST;
    t->next[i] = NOT_QUEUED;
    return i;
}

static const struct prefix_item *item_before(const struct sched *s, const struct seq *q, int page)
{
    return page ? &s->store->item[q->page[page - 1]] : &s->store->root;
}

void seq_store_page(struct sched *s, const struct seq *q, int page, const int32_t *token)
{
    struct sched_store *t = s->store;
    int32_t i = q->page[page];
    t->item[i] = prefix_item_of(item_before(s, q, page), token);
    if (s->kv.page[i].serial) queue(t, PREFIX_PAGE, i);
}

void seq_store_states(struct sched *s, const struct seq *q)
{
    struct sched_store *t = s->store;
    int32_t i = s->kv.n_pages + q->to;
    CHECK(q->n_shared > 0);
    t->item[i] = t->item[q->page[q->n_shared - 1]];
    t->item[i].kind = PREFIX_STATE;
    if (s->states.slot[q->to].serial) queue(t, PREFIX_STATE, i);
}

/* It is not yet taken for other contents. */
static int is_kept(const struct sched *s, enum prefix_kind kind, int32_t i)
{
    return kind == PREFIX_PAGE ? s->kv.page[i].serial != 0
                               : s->states.slot[i - s->kv.n_pages].serial != 0;
}

static struct stage *free_stage(struct sched_store *t, enum prefix_kind kind)
{
    int from = kind == PREFIX_PAGE ? 0 : t->n_stages[PREFIX_PAGE];
    for (int i = from; i < from + t->n_stages[kind]; i++)
        if (!t->stage[i].copies && !atomic_load(&t->stage[i].job.busy)) return &t->stage[i];
    return NULL;
}

/* The first copy that is complete after so many steps; NULL: none is. */
static struct stage *first_copy(const struct sched_store *t, unsigned n_ended)
{
    struct stage *first = NULL;
    for (int i = 0; i < t->n_stages[PREFIX_PAGE] + t->n_stages[PREFIX_STATE]; i++) {
        struct stage *x = &t->stage[i];
        if (x->copies && (int)(n_ended - x->until) >= 0 && (!first || x->turn < first->turn))
            first = x;
    }
    return first;
}

/* Gives the writer the copies that are complete after so many steps, a page before those behind
 * it. */
static void hand_over(struct sched *s, unsigned n_ended)
{
    struct sched_store *t = s->store;
    for (struct stage *x; (x = first_copy(t, n_ended));) {
        x->copies = 0;
        if (!t->is_off) t->is_off = !prefix_store_put(t->files, &x->job);
    }
}

static void copy_one(struct sched *s, enum prefix_kind kind, int32_t i, struct stage *x)
{
    struct sched_store *t = s->store;
    x->job.item = t->item[i];
    x->until = s->forward->n_begun + 1;
    x->turn = t->n_copies++;
    x->copies = 1;
    if (kind == PREFIX_PAGE) part_save(s->forward, PART_PAGE, i, (void *)(uintptr_t)x->job.data);
    else part_save(s->forward, PART_STATES, i - s->kv.n_pages, (void *)(uintptr_t)x->job.data);
}

/* States after all pages that wait, among which are those that they are behind. */
static void copy_aside(struct sched *s)
{
    struct sched_store *t = s->store;
    for (int k = 0; k < PREFIX_KINDS; k++) {
        enum prefix_kind kind = (enum prefix_kind)k;
        struct stage *x;
        if (kind == PREFIX_STATE && t->first[PREFIX_PAGE] != LAST) break;
        while (t->first[k] != LAST && (x = free_stage(t, kind))) {
            int32_t i = unqueue(t, kind);
            if (!t->is_off && is_kept(s, kind, i)) copy_one(s, kind, i, x);
        }
    }
    if (!s->forward->be->ops->asynchronous) hand_over(s, s->forward->n_begun + 1);
}

void sched_store_begin(struct sched *s)
{
    if (s->store) copy_aside(s);
}

void sched_store_settle(struct sched *s)
{
    if (s->store) hand_over(s, s->forward->n_ended);
}

static int is_waiting(const struct sched_store *t)
{
    return t->first[PREFIX_PAGE] != LAST || t->first[PREFIX_STATE] != LAST;
}

/* Copies without a step. -1: the backend failed, what was copied is not used. */
static int copy_now(struct sched *s)
{
    struct err ignored;
    copy_aside(s);
    if (part_sync(s->forward, &ignored)) return -1;
    hand_over(s, s->forward->n_begun + 1);
    return 0;
}

void sched_store_idle(struct sched *s)
{
    if (s->store && is_waiting(s->store)) (void)copy_now(s);
}

static int n_busy(const struct sched_store *t)
{
    int n = 0;
    for (int i = 0; i < t->n_stages[PREFIX_PAGE] + t->n_stages[PREFIX_STATE]; i++)
        n += atomic_load(&t->stage[i].job.busy);
    return n;
}

void sched_store_close(struct sched *s)
{
    struct sched_store *t = s->store;
    if (!t) return;
    if (t->stage && t->memory) {
        while (!copy_now(s) && is_waiting(t) && !t->is_off) prefix_store_wait(t->files);
        while (n_busy(t)) prefix_store_wait(t->files);
    }
    if (t->memory) part_memory_free(s->forward, t->memory);
    free(t->stage);
    free(t->item);
    free(t->next);
    free(t->buffer);
    free(t);
    s->store = NULL;
}

/* ---- from the disk */

/* The page behind those that the sequence has, from memory or disk. 0: it is not there. */
static int take_page(struct sched *s, struct seq *q)
{
    struct sched_store *t = s->store;
    const int32_t *token = q->job->request->prompt + q->n_computed;
    int32_t page = kv_find(&s->kv, q->chain, token);
    CHECK(q->n_pages == q->n_shared);
    if (page < 0) {
        const struct prefix_item item = prefix_item_of(item_before(s, q, q->n_shared), token);
        if (!kv_n_free(&s->kv) || !prefix_store_read(t->files, &item, t->buffer)) return 0;
        page = kv_take(&s->kv);
        t->item[page] = item;
        part_load(s->forward, PART_PAGE, page, t->buffer);
        kv_publish(&s->kv, page, q->chain, token);
        s->stats.n_stored_tokens += KV_PAGE;
    }
    q->page[q->n_pages++] = page;
    q->n_shared++;
    q->chain = s->kv.page[page].serial;
    q->n_computed += KV_PAGE;
    return 1;
}

/* The states behind the sequence's pages. 0: they are not there, or there is no slot. */
static int take_states(struct sched *s, struct seq *q)
{
    struct sched_store *t = s->store;
    struct prefix_item item = t->item[q->page[q->n_shared - 1]];
    int32_t slot = states_take(&s->states);
    item.kind = PREFIX_STATE;
    if (slot < 0) return 0;
    if (!prefix_store_read(t->files, &item, t->buffer)) {
        states_release(&s->states, slot);
        return 0;
    }
    t->item[s->kv.n_pages + slot] = item;
    part_load(s->forward, PART_STATES, slot, t->buffer);
    states_publish(&s->states, slot, q->chain);
    seq_continue_from(s, q, slot);
    return 1;
}

/* The last boundary up to LIMIT that has states on disk, 0: none. *there: positions whose pages
 * are. */
static int last_states(const struct sched *s, const struct seq *q, int limit, int *there)
{
    struct prefix_item item = *item_before(s, q, q->n_shared);
    int n = q->n_computed, best = 0;
    while (n + KV_PAGE <= limit) {
        item = prefix_item_of(&item, q->job->request->prompt + n);
        if (!prefix_store_has(s->store->files, &item)) break;
        n += KV_PAGE;
        struct prefix_item states = item;
        states.kind = PREFIX_STATE;
        if (prefix_store_has(s->store->files, &states)) best = n;
    }
    *there = n;
    return best;
}

/* Of a model with states: pages up to a boundary that has them, or none. Where there are pages
 * behind it, the sequence leaves a snapshot at their end. */
static void take_with_states(struct sched *s, struct seq *q, int limit)
{
    int start = q->n_computed, there, end = last_states(s, q, limit, &there);
    uint64_t chain = q->chain;
    int is_there = end > start;
    while (is_there && q->n_computed < end) is_there = take_page(s, q);
    if (is_there) is_there = take_states(s, q);
    if (!is_there) {
        for (; q->n_computed > start; q->n_computed -= KV_PAGE, q->n_shared--)
            kv_release(&s->kv, q->page[--q->n_pages]);
        q->chain = chain;
    }
    if (there - q->n_computed >= SNAPSHOT_FROM) q->leave_at = there;
}

void seq_fetch(struct sched *s, struct seq *q, int limit)
{
    int start = q->n_computed;
    if (s->states.n_slots) take_with_states(s, q, limit);
    else
        while (q->n_computed + KV_PAGE <= limit && take_page(s, q)) {
        }
    if (q->n_computed == start) return;
    s->stats.n_cached_tokens += (uint64_t)(q->n_computed - start);
    struct prefix_item last = s->store->item[q->page[q->n_shared - 1]];
    prefix_store_touch(s->store->files, &last);
    last.kind = PREFIX_STATE;
    if (s->states.n_slots) prefix_store_touch(s->store->files, &last);
}

int seq_store_at(const struct sched *s, const struct seq *q)
{
    if (!s->store || s->store->is_off) return 0;
    int end = (q->job->request->n_prompt - 1) / KV_PAGE * KV_PAGE,
        next = (q->n_computed / STATES_EVERY + 1) * STATES_EVERY;
    if (next < end) return next;
    return end - q->kept_at >= STATES_FROM ? end : 0;
}
