/* microbatches.h: the microbatches of a run by layers on several devices (core/run/forward.h): as
 * many groups of sequences as there are devices, each with pages and a scheduler of its own, so
 * that every device has a group's rows to compute while the others compute those of other groups
 * (pipeline parallelism). Owns: the microbatches beside the engine's own forward and scheduler, and
 * g->replicas of them all. Must not know: requests. */
#ifndef ENGINE_MICROBATCHES_H
#define ENGINE_MICROBATCHES_H

#include "engine/engine.h"

/* Sequences of the largest microbatch; of all without microbatches. */
int microbatches_seqs(const struct engine *g);
/* Opens microbatches 1 .. g->n_microbatches - 1 beside microbatch 0, which the engine has opened
 * with options *f and *s, and g->replicas. */
int microbatches_open(struct engine *g, const struct forward_options *f,
                      const struct sched_options *s, struct err *e);
/* Ahead of g->sched and g->forward. */
void microbatches_close(struct engine *g);

#endif
