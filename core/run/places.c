#include "core/run/places.h"

#include "core/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* The options of one place: those of the run, with its own backend's. */
static struct forward_options options_of(const struct forward_options *o,
                                         const struct forward_place *place)
{
    struct forward_options own = *o;
    own.variant = place->variant;
    own.n_threads = place->n_threads;
    own.device = place->device;
    own.own = place->own;
    own.act = place->act;
    return own;
}

static size_t transfer_row(const struct transfer *t)
{
    return (size_t)t->groups * (size_t)t->width * sizeof(float);
}

static int open_stage(struct places *s, const struct forward_options *o, struct err *e)
{
    size_t largest = 0;
    for (int i = 0; i < s->split.n_items; i++) {
        const struct split_item *item = &s->split.item[i];
        if (!item->n_ops && transfer_row(&item->transfer) > largest)
            largest = transfer_row(&item->transfer);
    }
    int rows = o->max_rows > o->max_logits ? o->max_rows : o->max_logits;
    s->stage = malloc(2 * (size_t)rows * largest + 1);
    return s->stage ? 0 : err_memory(e);
}

/* All places are of one backend, which can link them. */
static int can_link(const struct forward_place *place, int n)
{
    int can = place[0].ops->link != NULL;
    for (int q = 1; q < n; q++) can = can && place[q].ops == place[0].ops;
    return can;
}

/* ---- linked places */

static void *issue(void *arg)
{
    struct place_thread *t = arg;
    struct places *s = t->places;
    struct be *be = s->be[t->place];
    unsigned done = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        if (s->n_steps == done) {
            pthread_cond_wait(&s->change, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        be->ops->begin_step(be, s->batch);
        be->ops->run(be, s->compiled[t->place]);
        done++;
        pthread_mutex_lock(&s->lock);
        s->n_issued++;
        pthread_cond_broadcast(&s->change);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int start_threads(struct places *s, struct err *e)
{
    for (int q = 0; q < s->split.n_places; q++) {
        struct place_thread *t = &s->thread[q];
        t->places = s;
        t->place = q;
        if (pthread_create(&t->thread, NULL, issue, t))
            return err_set(e, "cannot start a thread for each of %d devices", s->split.n_places);
        t->started = 1;
    }
    return 0;
}

static void end_threads(struct places *s)
{
    pthread_mutex_lock(&s->lock);
    s->ends = 1;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    for (int q = 0; q < s->split.n_places; q++)
        if (s->thread[q].started) pthread_join(s->thread[q].thread, NULL);
}

/* Returns when all places have their parts of the step. */
static void issue_step(struct places *s, const struct batch *b)
{
    pthread_mutex_lock(&s->lock);
    s->batch = b;
    s->n_steps++;
    s->n_issued = 0;
    pthread_cond_broadcast(&s->change);
    while (s->n_issued < (unsigned)s->split.n_places) pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Rows that an exchange may have. */
static uint64_t most_rows(const struct transfer *t, const struct forward_options *o)
{
    return (uint64_t)(t->rows == ROWS_STEP ? o->max_rows : o->max_logits);
}

/* What places send one another. Of microbatches none waits for room, or it would hold up the
 * others. */
static struct be_traffic traffic_of(const struct split *s, const struct forward_options *o)
{
    struct be_traffic t = {.floats = 0};
    uint64_t floats[PLACES] = {0}; /* that a place receives */
    int n[PLACES] = {0};
    for (int i = 0; i < s->n_items; i++) {
        const struct transfer *of = &s->item[i].transfer;
        if (s->item[i].n_ops) continue;
        n[of->to]++;
        floats[of->to] += most_rows(of, o) * (uint64_t)of->groups * (uint64_t)of->width;
        for (int k = 0; k < of->n; k++) t.senders[of->to] |= 1u << of->piece[k].from;
    }
    for (int q = 0; q < s->n_places; q++) {
        t.senders[q] &= ~(1u << q);
        if (n[q] > t.n_exchanges) t.n_exchanges = n[q];
        if (o->n_microbatches > 1 && floats[q] > t.floats) t.floats = floats[q];
    }
    return t;
}

static int link_places(struct places *s, const struct forward_options *o, struct err *e)
{
    const struct backend *ops = s->be[0]->ops;
    struct be_traffic t = traffic_of(&s->split, o);
    int n = s->split.n_places;
    if (o->lender) t.lender = o->lender->places->be;
    s->compiled = calloc((size_t)n, sizeof *s->compiled);
    if (!s->compiled) return err_memory(e);
    if (ops->link(s->be, n, &t, e) || split_link(&s->split, s->plan, e)) return -1;
    for (int q = 0; q < n; q++)
        if (ops->compile(s->be[q], &s->plan[q], &s->memory[q], &s->compiled[q], e)) return -1;
    return start_threads(s, e);
}

/* ---- places of any backends */

/* Whole rows of one place, which the host can read where they land. */
static int lands(const struct places *s, const struct transfer *t)
{
    return t->n == 1 && s->be[t->piece[0].from]->ops->asynchronous &&
           !s->be[t->to]->ops->asynchronous;
}

/* Bytes of the buffer that transfer i lands in; 0: an earlier one does, too. */
static size_t landing_bytes(const struct places *s, int i, const struct forward_options *o)
{
    const struct split_item *item = &s->split.item[i];
    const struct transfer *t = &item->transfer;
    if (item->n_ops || !lands(s, t)) return 0;
    for (int k = 0; k < i; k++) {
        const struct split_item *before = &s->split.item[k];
        if (!before->n_ops && before->transfer.to == t->to &&
            before->transfer.buffer == t->buffer && lands(s, &before->transfer))
            return 0;
    }
    size_t bytes = place_buffer_bytes(&s->split.plan[t->to], t->buffer, o);
    return (bytes + 63) / 64 * 64;
}

/* Moves these buffers into one page-locked block; where there is none they stay. */
static void open_landing(struct places *s, const struct forward_options *o)
{
    size_t all = 0, at = 0;
    for (int i = 0; i < s->split.n_items; i++) {
        size_t bytes = landing_bytes(s, i, o);
        if (bytes) s->pinner = s->be[s->split.item[i].transfer.piece[0].from];
        all += bytes;
    }
    if (all) s->landing = s->pinner->ops->view(s->pinner, NULL, all);
    for (int i = 0; s->landing && i < s->split.n_items; i++) {
        size_t bytes = landing_bytes(s, i, o);
        const struct transfer *t = &s->split.item[i].transfer;
        if (!bytes) continue;
        void **buffer = &s->memory[t->to].buffer[t->buffer];
        s->be[t->to]->ops->free(s->be[t->to], *buffer);
        *buffer = memset((char *)s->landing + at, 0, bytes);
        at += bytes;
    }
}

static int is_landing(const struct places *s, int i)
{
    const struct transfer *t = &s->split.item[i].transfer;
    return s->landing && !s->split.item[i].n_ops && lands(s, t);
}

static int compile(struct places *s, const struct forward_options *o, struct err *e)
{
    if (s->linked) return link_places(s, o, e);
    s->compiled = calloc((size_t)s->split.n_items, sizeof *s->compiled);
    if (!s->compiled) return err_memory(e);
    for (int i = 0; i < s->split.n_items; i++) {
        const struct split_item *item = &s->split.item[i];
        struct be *be = s->be[item->place];
        if (item->n_ops &&
            be->ops->compile(be, &item->plan, &s->memory[item->place], &s->compiled[i], e))
            return -1;
    }
    return 0;
}

static int open_place(struct places *s, int q, const struct forward_place *place,
                      const struct forward_options *o, struct err *e)
{
    const struct forward_options own = options_of(o, place);
    struct be_config c = place_config(&own);
    const struct step_plan *p = &s->split.plan[q];
    if (o->lender) {
        struct places *from = o->lender->places;
        s->memory[q].lender = &from->memory[q];
        if (from->be[q]->ops->sync(from->be[q], e)) return -1; /* the weights are there */
    }
    if (!(place->ops->kv_types >> o->kv & 1))
        return err_set(e, "--backend %s: has no --kv %s", place->ops->name, kv_formats[o->kv].name);
    return place->ops->open(&s->be[q], &c, e) || place_bind(s->be[q], p, &own, &s->memory[q], e)
               ? -1
               : 0;
}

static int open_streams(struct places *s, const struct step_plan *p,
                        const struct forward_place *place, const struct split_want *want,
                        const struct forward_options *o, struct err *e)
{
    const struct forward_options own = options_of(o, place);
    s->stream_rows = want->stream_rows;
    return want->streams
               ? streams_open(&s->streams, s->be[0], p, want->of_experts, &s->memory[0], &own, e)
               : 0;
}

int places_open(struct places **out, const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o, struct err *e)
{
    struct places *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    int rc = split_plan(p, want, &s->split, e);
    for (int q = 0; q < want->n_places && !rc; q++) rc = open_place(s, q, &place[q], o, e);
    s->linked = can_link(place, want->n_places);
    if (!rc) open_landing(s, o);
    if (rc || (!s->linked && open_stage(s, o, e)) || compile(s, o, e) ||
        open_streams(s, p, &place[0], want, o, e)) {
        places_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* Adds what a stream of experts takes to the need of place 0. */
static void need_streams(const struct step_plan *p, const struct step_plan *part,
                         const struct forward_place *place, const struct split_want *want,
                         const struct forward_options *o, struct forward_need *n)
{
    uint64_t host, buffers = 0;
    struct be_config c = place_config(o);
    for (int i = 0; i < p->n_buffers; i++)
        buffers += place_buffer_bytes(p, i, o) - place_buffer_bytes(part, i, o);
    n->slots = streams_need(p, want->of_experts, place->ops, &host);
    n->steps += n->slots + buffers + place->ops->scratch_bytes(&c, p) -
                place->ops->scratch_bytes(&c, part);
    n->away = host;
}

int places_need(const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o,
                struct forward_need *need, struct err *e)
{
    struct split s;
    if (split_plan(p, want, &s, e)) return -1;
    const struct be_traffic t = traffic_of(&s, o);
    for (int q = 0; q < want->n_places; q++) {
        const struct forward_options own = options_of(o, &place[q]);
        place_need(&s.plan[q], place[q].ops, &own, &need[q]);
        if (!q && want->streams) need_streams(p, &s.plan[0], place, want, &own, &need[0]);
        if (can_link(place, want->n_places))
            need[q].steps += place[q].ops->link_bytes(want->n_places, &t);
    }
    split_free(&s);
    return 0;
}

void places_close(struct places *s)
{
    if (!s) return;
    end_threads(s);
    struct err why;
    while (s->n_in_flight) places_wait(s, &why);
    for (int q = 0; q < s->split.n_places && s->be[q]; q++) s->be[q]->ops->sync(s->be[q], &why);
    streams_close(s->streams);
    int n = s->linked ? s->split.n_places : s->split.n_items;
    for (int i = 0; s->compiled && i < n; i++) {
        struct be *be = s->be[s->linked ? i : s->split.item[i].place];
        if (s->compiled[i]) be->ops->drop_plan(be, s->compiled[i]);
    }
    for (int i = 0; i < s->split.n_items; i++) { /* these are not the place's to free */
        const struct transfer *t = &s->split.item[i].transfer;
        if (is_landing(s, i)) s->memory[t->to].buffer[t->buffer] = NULL;
    }
    if (s->landing) s->pinner->ops->drop_view(s->pinner, s->landing);
    for (int q = 0; q < s->split.n_places; q++) {
        step_plan_free_slice(&s->plan[q]);
        if (!s->be[q]) continue;
        place_release(s->be[q], &s->split.plan[q], &s->memory[q]);
        s->be[q]->ops->close(s->be[q]);
    }
    split_free(&s->split);
    free(s->compiled);
    free(s->stage);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Puts n columns of each group of the rows behind one another at `from` into theirs of `to`. */
static void put_columns(const struct transfer *t, const struct transfer_piece *piece, size_t rows,
                        const float *from, float *to)
{
    size_t n = (size_t)piece->n_columns, width = (size_t)t->width;
    for (size_t i = 0; i < rows * (size_t)t->groups; i++)
        memcpy(to + i * width + (size_t)piece->column, from + i * n, n * sizeof *to);
}

static size_t rows_of(const struct batch *b, enum rows_of rows)
{
    return (size_t)(rows == ROWS_STEP ? b->n_rows : rows == ROWS_LOGITS ? b->n_logits : b->n_top);
}

/* Waits for rows that land on a place, and for those that left it, ahead of what else it gets to
 * do. -1: a transfer has failed. */
static int settle(struct places *s, int place)
{
    for (int q = 0; q < s->split.n_places && !s->failed.msg[0]; q++) {
        struct be *from = s->be[q];
        if (!s->landed[q] || (q != place && !(s->landed[q] >> place & 1))) continue;
        s->landed[q] = 0;
        if (from->ops->sync(from, &s->failed)) break;
    }
    return s->failed.msg[0] ? -1 : 0;
}

/* Pieces one behind the other into the second half of the stage, all of them as rows into the
 * first. */
static void transfer(struct places *s, const struct transfer *t, const struct batch *b)
{
    size_t rows = rows_of(b, t->rows), bytes = rows * transfer_row(t), at = 0;
    float *whole = (float *)(void *)s->stage, *parts = whole + bytes / sizeof *whole;
    struct be *to = s->be[t->to];
    if (!rows || s->failed.msg[0]) return;
    if (lands(s, t)) { /* waited for with others that follow, when the rows are needed */
        const struct transfer_piece *piece = &t->piece[0];
        struct be *from = s->be[piece->from];
        from->ops->download(from, s->memory[t->to].buffer[t->buffer],
                            s->memory[piece->from].buffer[piece->buffer], bytes);
        s->landed[piece->from] |= 1u << t->to;
        return;
    }
    for (int i = 0; i < t->n; i++) {
        struct be *from = s->be[t->piece[i].from];
        if (settle(s, t->piece[i].from)) return;
        size_t n = rows * (size_t)t->groups * (size_t)t->piece[i].n_columns;
        from->ops->download(from, parts + at,
                            s->memory[t->piece[i].from].buffer[t->piece[i].buffer],
                            n * sizeof *parts);
        at += n;
    }
    for (int i = 0; i < t->n; i++) {
        struct be *from = s->be[t->piece[i].from];
        if (from->ops->sync(from, &s->failed)) return;
    }
    at = 0;
    for (int i = 0; i < t->n; i++) {
        put_columns(t, &t->piece[i], rows, parts + at, whole);
        at += rows * (size_t)t->groups * (size_t)t->piece[i].n_columns;
    }
    to->ops->upload(to, s->memory[t->to].buffer[t->buffer], whole, bytes);
}

static int class_of(int rows)
{
    int c = 0;
    while (c + 1 < ROW_CLASSES && rows >> (c + 1)) c++;
    return c;
}

/* The time of the host's part of a step of so many rows. */
static void keep_time(struct places *s, int rows, double seconds)
{
    double *kept = &s->host_seconds[class_of(rows)];
    *kept = *kept ? 0.75 * *kept + 0.25 * seconds : seconds;
}

/* Whether a step takes less time if experts come to place 0; by times of fewer rows where there is
 * none of as many. Results do not depend on it. */
static int takes_stream(const struct places *s, int rows)
{
    if (!s->streams) return 0;
    if (s->stream_rows) return rows >= s->stream_rows;
    int c = class_of(rows), known = c;
    while (known >= 0 && !s->host_seconds[known]) known--;
    if (known < 0) return rows >= STREAM_ROWS;
    return s->host_seconds[known] * (known == c ? 1 : (double)rows / (1 << known)) >
           streams_seconds(s->streams);
}

void places_begin(struct places *s, const struct batch *b)
{
    const struct split *p = &s->split;
    int n = b->n_logits > 0 ? p->n_items : p->n_body;
    s->failed.msg[0] = 0;
    if (s->linked) {
        issue_step(s, b);
        return;
    }
    memset(s->landed, 0, sizeof s->landed);
    for (int q = 0; q < p->n_places; q++) s->be[q]->ops->begin_step(s->be[q], b);
    if (takes_stream(s, b->n_rows)) {
        streams_run(s->streams);
        return;
    }
    double host = 0;
    for (int i = 0; i < n; i++) {
        const struct split_item *item = &p->item[i];
        struct be *be = s->be[item->place];
        if (!item->n_ops) {
            transfer(s, &item->transfer, b);
        } else if (!settle(s, item->place)) {
            double start = clock_now();
            be->ops->run(be, s->compiled[i]);
            if (!be->ops->asynchronous) host += clock_now() - start;
        }
    }
    keep_time(s, b->n_rows, host);
}

int places_ready(struct places *s)
{
    int ready = 1;
    for (int q = 0; q < s->split.n_places && s->linked; q++)
        ready = ready && s->be[q]->ops->step_done(s->be[q]);
    return ready;
}

void places_end(struct places *s)
{
    for (int q = 0; q < s->split.n_places; q++) s->be[q]->ops->end_step(s->be[q]);
    s->n_in_flight++;
}

/* Waits for the step of all linked places at once: one that fails while another waits for it is
 * seen to, and ends that wait. */
static void wait_linked(struct places *s)
{
    const struct backend *ops = s->be[0]->ops;
    const double start = clock_now();
    for (int n_done = 0; n_done < s->split.n_places;) {
        n_done = 0;
        for (int q = 0; q < s->split.n_places; q++) n_done += ops->step_done(s->be[q]);
        if (n_done < s->split.n_places) clock_rest(clock_now() - start);
    }
}

int places_wait(struct places *s, struct err *e)
{
    int rc = 0;
    s->n_in_flight--;
    if (s->linked) wait_linked(s);
    for (int q = 0; q < s->split.n_places; q++) {
        struct err one;
        if (!s->be[q]->ops->wait_step(s->be[q], &one)) continue;
        if (!rc) *e = one;
        rc = -1;
    }
    if (!rc && s->failed.msg[0]) *e = s->failed, rc = -1;
    return rc;
}
