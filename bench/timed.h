/* timed.h: a backend table around another one that times every operation of a step.
 * Owns: the times. Must not know: what the operations do. */
#ifndef BENCH_TIMED_H
#define BENCH_TIMED_H

#include "bench/work.h"
#include "core/step/forward.h"

struct timed {
    struct backend ops; /* first: the wrapper finds its struct through the backend's own table */
    const struct backend *inner;
    const struct forward *forward;
    double seconds[OP_COUNT]; /* since timed_reset */
    int calls[OP_COUNT];
};

/* From now on the operations of f are timed: each ends with a sync, so that an asynchronous backend
 * is timed too. *t must live as long as f, or until timed_detach. */
void timed_attach(struct timed *t, struct forward *f);
void timed_detach(struct timed *t, struct forward *f);
void timed_reset(struct timed *t);

#endif
