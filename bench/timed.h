/* timed.h: a backend table around another one that runs a plan operation by operation and times
 * each. Owns: the times. Must not know: what the operations do. */
#ifndef BENCH_TIMED_H
#define BENCH_TIMED_H

#include "bench/cost.h"
#include "core/base/pool.h"
#include "core/run/forward.h"
#include "core/step/stepwise.h"

/* What is timed: the start of a step, every name of the plan, what comes after. */
enum { TIMED_BEGIN, TIMED_OPS, TIMED_MOST = COST_NAMES + 3 };

struct timed {
    struct backend ops; /* first: the wrapper finds its struct through the backend's own table */
    const struct backend *inner;
    const struct forward *forward;
    const struct batch *batch; /* of the step */
    struct cost_names names;
    struct stepwise_hooks hooks;
    struct be_plan *steps;      /* the plan, operation by operation */
    double start;               /* of the operation that runs */
    int n;                      /* what is timed: "begin_step", names.name .., "download", "sync" */
    double seconds[TIMED_MOST]; /* since timed_reset */
    int calls[TIMED_MOST];
    struct pool_watch threads[TIMED_MOST]; /* of the backend's pool, if it has one */
};

/* From now on the operations of f are timed: each ends with a sync, so that an asynchronous backend
 * is timed too. *t must live as long as f, or until timed_detach. */
int timed_attach(struct timed *t, struct forward *f, struct err *e);
void timed_detach(struct timed *t, struct forward *f);
void timed_reset(struct timed *t);
const char *timed_name(const struct timed *t, int i);

#endif
