#include "core/sched/replicas.h"

#include "core/base/clock.h"
#include "core/run/forward.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Beginnings of prompts: of 1, 2, 4 .. pages. */
enum { N_BEGINNINGS = 8192, MOST_DOUBLINGS = 16 };
/* A step that nobody ends: waiting spins, then sleeps between looks, and the caller has a turn. */
static const double spin_seconds = 0.002, turn_seconds = 0.02;

struct beginning {
    uint64_t hash;
    uint32_t where; /* bit i: scheduler i got a request that begins so */
};

struct replicas {
    int n, first; /* first: the one whose turn comes first in the next step */
    struct replica replica[REPLICAS];
    int n_slots[REPLICAS]; /* sequences that run at once */
    char busy[REPLICAS], moved[REPLICAS];
    struct beginning beginning[N_BEGINNINGS];
};

int replicas_open(struct replicas **out, const struct replica *from, int n, struct err *e)
{
    CHECK(n >= 1 && n <= REPLICAS);
    struct replicas *r = calloc(1, sizeof *r);
    if (!r) return err_memory(e);
    r->n = n;
    memcpy(r->replica, from, (size_t)n * sizeof *from);
    for (int i = 0; i < n; i++) r->n_slots[i] = sched_slots(from[i].sched);
    *out = r;
    return 0;
}

void replicas_close(struct replicas *r) { free(r); }

int replicas_n(const struct replicas *r) { return r->n; }

static struct sched *at(const struct replicas *r, int i) { return r->replica[i].sched; }

static int failed(const struct replicas *r, int i, struct err *e)
{
    return r->replica[i].name[0] ? err_prefix(e, "%s", r->replica[i].name) : -1;
}

int replicas_wants(const struct replicas *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) n += sched_wants(at(r, i));
    return n;
}

int replicas_turn(const struct replicas *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) n += sched_turn(at(r, i));
    return n;
}

/* ---- where a request goes */

/* Tokens at the beginning of the prompt, by scheduler, that it computes for another request, and
 * notes that scheduler `to` gets this one (-1: none). */
static void see_beginnings(struct replicas *r, const struct request *q, int shared[REPLICAS],
                           int to)
{
    uint64_t hash = 0xcbf29ce484222325u;
    int n = 0, end = KV_PAGE;
    for (int k = 0; k < MOST_DOUBLINGS && end < q->n_prompt; k++, end *= 2) {
        for (; n < end; n++) hash = (hash ^ (uint32_t)q->prompt[n]) * 0x100000001b3u;
        struct beginning *b = &r->beginning[(hash ^ hash >> 32) % N_BEGINNINGS];
        if (to >= 0) {
            if (b->hash != hash) *b = (struct beginning){.hash = hash};
            b->where |= 1u << to;
        } else if (b->hash == hash) {
            for (int i = 0; i < r->n; i++)
                if (b->where >> i & 1) shared[i] = end;
        }
    }
}

/* Whether scheduler i wants requests, or nobody does, and has nearly the fewest choices of those.
 */
static void find_candidates(const struct replicas *r, const struct sched_load *load,
                            char is_one[REPLICAS])
{
    int any = 0, least = -1;
    for (int i = 0; i < r->n; i++) any |= is_one[i] = sched_wants(at(r, i)) > 0;
    for (int i = 0; i < r->n; i++) {
        is_one[i] |= !any;
        if (is_one[i] && (least < 0 || load[i].n_choices < least)) least = load[i].n_choices;
    }
    for (int i = 0; i < r->n; i++)
        if (load[i].n_choices > least + r->n_slots[i] / 4) is_one[i] = 0;
}

static int choose(struct replicas *r, const struct request *q)
{
    struct sched_load load[REPLICAS];
    char is_one[REPLICAS];
    int shared[REPLICAS] = {0}, best = -1;
    for (int i = 0; i < r->n; i++) load[i] = sched_load(at(r, i));
    find_candidates(r, load, is_one);
    see_beginnings(r, q, shared, -1);
    for (int i = 0; i < r->n; i++) {
        if (!is_one[i]) continue;
        if (best < 0 || shared[i] > shared[best] ||
            (shared[i] == shared[best] && load[i].n_tokens < load[best].n_tokens))
            best = i;
    }
    CHECK(best >= 0);
    return best;
}

int replicas_submit(struct replicas *r, struct request *q, struct err *e)
{
    int to = r->n > 1 ? choose(r, q) : 0;
    if (r->n > 1) see_beginnings(r, q, NULL, to);
    return sched_submit(at(r, to), q, e);
}

/* The scheduler with the most choices of those that have more than they can run; -1: none has. */
static int fullest(const struct replicas *r)
{
    int most = -1, n_most = 0;
    for (int i = 0; i < r->n; i++) {
        int n = sched_load(at(r, i)).n_choices;
        if (n > r->n_slots[i] && n > n_most) most = i, n_most = n;
    }
    return most;
}

/* Those that have fewer choices than they can run get some that wait elsewhere. */
static int share_out(struct replicas *r, struct err *e)
{
    for (int i = 0; i < r->n; i++)
        while (sched_wants(at(r, i)) > r->n_slots[i]) {
            int from = fullest(r);
            struct request *q = from >= 0 && from != i ? sched_take_back(at(r, from)) : NULL;
            if (!q) break;
            see_beginnings(r, q, NULL, i);
            if (sched_submit(at(r, i), q, e)) return failed(r, i, e);
        }
    return 0;
}

/* ---- steps */

void replicas_drain(struct replicas *r)
{
    for (int i = 0; i < r->n; i++) sched_drain(at(r, i));
}

/* Each scheduler as far as it gets without waiting. 1: there is more to do; 0; -1. *any: one got
 * on. */
static int try_all(struct replicas *r, int *any, struct err *e)
{
    int busy = 0;
    *any = 0;
    for (int k = 0; k < r->n; k++) {
        int i = (r->first + k) % r->n, rc = sched_try(at(r, i), e);
        if (rc < 0) return failed(r, i, e);
        r->moved[i] = rc == 1 || (!rc && r->busy[i]);
        r->busy[i] = rc != 0;
        busy |= r->busy[i];
        *any |= r->moved[i];
    }
    r->first = (r->first + 1) % r->n;
    return busy;
}

int replicas_step(struct replicas *r, struct err *e)
{
    int busy, any;
    if (r->n == 1) {
        r->moved[0] = 1;
        return (busy = sched_step(at(r, 0), e)) < 0 ? failed(r, 0, e) : busy;
    }
    if (share_out(r, e)) return -1;
    double start = clock_now(), waited;
    while ((busy = try_all(r, &any, e)) == 1 && !any) {
        if ((waited = clock_now() - start) > turn_seconds) break;
        if (waited > spin_seconds) nanosleep(&(struct timespec){0, 50000}, NULL);
        else sched_yield();
    }
    return busy;
}

int replicas_abort(struct replicas *r, struct err *e)
{
    for (int i = 0; i < r->n; i++)
        if (sched_abort(at(r, i), e)) return failed(r, i, e);
    return 0;
}

int replicas_has_moved(const struct replicas *r, int i) { return r->moved[i]; }

void replicas_stats_of(const struct replicas *r, int i, struct sched_stats *out)
{
    sched_stats(at(r, i), out);
}

void replicas_stats(const struct replicas *r, struct sched_stats *out)
{
    sched_stats(at(r, 0), out);
    for (int i = 1; i < r->n; i++) {
        struct sched_stats s;
        sched_stats(at(r, i), &s);
        out->n_waiting += s.n_waiting;
        out->n_running += s.n_running;
        out->n_pages += s.n_pages;
        out->n_pages_used += s.n_pages_used;
        out->n_states += s.n_states;
        out->n_states_used += s.n_states_used;
        out->state_bytes += s.state_bytes;
        out->n_steps += s.n_steps;
        out->n_prompt_tokens += s.n_prompt_tokens;
        out->n_cached_tokens += s.n_cached_tokens;
        out->n_stored_tokens += s.n_stored_tokens;
        out->n_generated_tokens += s.n_generated_tokens;
        out->n_preemptions += s.n_preemptions;
        out->n_drafted_tokens += s.n_drafted_tokens;
        out->n_accepted_tokens += s.n_accepted_tokens;
        out->n_mtp_tokens += s.n_mtp_tokens;
        out->n_mtp_right += s.n_mtp_right;
        out->steps_saved += s.steps_saved;
        out->forward_seconds += s.forward_seconds;
        out->busy_seconds += s.busy_seconds;
    }
}
