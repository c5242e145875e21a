/* scheduler.h: many requests on one forward: continuous batching over paged KV memory. Decode rows
 * first, then prompt chunks up to a budget of tokens per step; admission by pages; preemption by
 * recomputation (each token keeps its phase, so that no bit changes); pages of equal prefixes
 * shared. Owns: sequences, pages, the batch arrays. Must not know: text, files, sampling's inside.
 *
 * CONTRACT: what a request's sink receives is a function of the request alone: not of n_seqs,
 * n_batch, n_pages, the prefix cache, the other requests, their order, or of preemptions. */
#ifndef CORE_SCHEDULER_H
#define CORE_SCHEDULER_H

#include "core/step/forward.h"
#include "core/sched/request.h"

struct sched_options {
    int n_seqs; /* sequences (choices) that run at once, at most; nor more than n_batch or forward's
                   max_logits, so that */
    int n_batch; /* every one can have a row in each step. Rows of one step, at most; <= forward's
                    max_rows */
    int n_ctx;   /* positions of one sequence, at most */
    int prefix_cache; /* share pages of equal prefixes across requests */
    int gather;  /* new sequences wait until so many can start at once: for backends on which some
                    prompt rows take nearly as long as  many do. 0: none waits */
    int overlap; /* a step is computed while the results of the one before are handed out: for
                    backends beside the host */
};

struct sched_stats {
    int n_waiting, n_running;
    int n_pages, n_pages_used; /* used: referenced by a running sequence */
    uint64_t n_steps;
    uint64_t n_prompt_tokens,
        n_cached_tokens; /* computed (again after a preemption, too), and found in pages instead */
    uint64_t n_generated_tokens, n_preemptions;
    double forward_seconds; /* spent in forward_begin and forward_end; the rest of a run's time is
                               the engine's own */
};

struct sched;

/* Sizes everything: steps allocate nothing. */
int sched_open(struct sched **s, struct forward *f, const struct sched_options *o, struct err *e);
void sched_close(struct sched *s);
/* How many more requests the scheduler would like to hold now to keep its sequences busy (>= 0). */
int sched_wants(const struct sched *s);
/* Queues *r (the caller's until its done()). -1 when it can never run: prompt over n_ctx, or more
 * pages than there are. */
int sched_submit(struct sched *s, struct request *r, struct err *e);
/* From now on nothing that waits is begun, but for further choices of what was begun and requests
 * of the group that was begun last. sched_step is idle when nothing else is left; what waits stays
 * queued (sched_abort ends it). */
void sched_drain(struct sched *s);
/* Computes a step and calls sinks, with options.overlap those of the step before. 1: there is more
 * to do; 0: idle; -1: fatal (backend or sink failed). */
int sched_step(struct sched *s, struct err *e);
/* Ends what runs or waits: finished(FINISH_ABORTED) and done() for each. What is being computed is
 * handed out before. */
int sched_abort(struct sched *s, struct err *e);
void sched_stats(const struct sched *s, struct sched_stats *out);

#endif
