/* replicas.h: several schedulers of one model as one: each has weights, pages and steps of its own
 * on a device of its own, and a request goes to one of them. One thread drives all: a step that a
 * device still computes holds up none of the others. Results do not depend on where a request runs
 * (scheduler.h). Owns: which scheduler gets a request. Must not know: devices, how they are opened.
 *
 * WHERE A REQUEST GOES. To the scheduler that needs requests and has the fewest tokens to do;
 * ahead of that, among those that have nearly the fewest choices, to one that computed the same
 * beginning for another request. Requests that have not started leave a scheduler for one that has
 * nothing to run. */
#ifndef CORE_REPLICAS_H
#define CORE_REPLICAS_H

#include "core/sched/scheduler.h"

enum { REPLICAS = 16 };

struct replica {
    struct sched *sched; /* the caller's */
    char name[24];       /* in front of its errors; empty: nothing */
};

struct replicas;

/* Of 1 .. REPLICAS schedulers without requests. The calls are those of scheduler.h. */
int replicas_open(struct replicas **out, const struct replica *r, int n, struct err *e);
void replicas_close(struct replicas *r);
int replicas_wants(const struct replicas *r);
int replicas_turn(const struct replicas *r);
int replicas_submit(struct replicas *r, struct request *q, struct err *e);
void replicas_drain(struct replicas *r);
/* Steps of all whose results are there; waits for one, but not long, where there are none. */
int replicas_step(struct replicas *r, struct err *e);
int replicas_abort(struct replicas *r, struct err *e);
/* Sums over all. */
void replicas_stats(const struct replicas *r, struct sched_stats *out);

int replicas_n(const struct replicas *r);
void replicas_stats_of(const struct replicas *r, int i, struct sched_stats *out);
/* Whether scheduler i got on in the last replicas_step. */
int replicas_has_moved(const struct replicas *r, int i);

#endif
