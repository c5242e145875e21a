/* scheduler.h: continuous batching of many requests over a paged KV cache (Orca: Yu et al. 2022;
 * vLLM: Kwon et al. 2023). A step has the decode rows first, then prompt chunks up to a token
 * budget (chunked prefill). Sequences are admitted when pages suffice, those of a request with many
 * choices in turns with those of others, and preempted by recomputation; each token keeps its
 * phase, so no bit changes. Equal prefixes share pages. Owns: sequences, pages, the batch arrays.
 * Must not know: text, files, how a token is sampled.
 *
 * CONTRACT: the results of a request are a function of the request alone: not of n_seqs, n_batch,
 * n_pages, the prefix cache, the other requests, their order, or preemptions.
 *
 * FORCED TOKENS. Where a request's grammar allows one token only and no end, that token is not
 * sampled: it becomes a row of the sequence's next step together with those forced behind it, so
 * that a step computes several tokens of a sequence. Nothing else changes: these are generated
 * tokens, computed as decode rows as after a preemption, a draw is numbered by the tokens before it
 * and not by the draws, and with log-probabilities each of their rows has logits.
 *
 * DRAFTS. Tokens that are likely to come become rows of the sequence's step behind its last token.
 * Each of their rows chooses a token as it would have without them; the tokens up to the first one
 * that is not the draft's are the sequence's, and what was computed behind it is written over. So a
 * draft changes when a token is computed and nothing else. How many are computed is decided step by
 * step by what rows cost and how often drafts were right. */
#ifndef CORE_SCHEDULER_H
#define CORE_SCHEDULER_H

#include "core/run/forward.h"
#include "core/sched/draft.h"
#include "core/sched/prefix_store.h"
#include "core/sched/request.h"

struct sched_options {
    /* most sequences (choices) that run at once; n_batch and forward's max_logits are limits, too,
     * so that each sequence can have a row in every step */
    int n_seqs;
    int n_batch;      /* most rows of a step; <= forward's max_rows */
    int n_ctx;        /* most positions of a sequence */
    int prefix_cache; /* requests share the pages of equal prefixes */
    /* these may be generated tokens of an earlier request, too: for conversations, on backends
     * without phases and without overlap */
    int share_generated;
    /* of the queued requests those with the highest max_tokens start first, so that a batch does
     * not end with a long one alone; else the oldest do */
    int longest_first;
    /* new sequences start only when this many can start together, for backends on which a few
     * prompt rows take nearly as long as many; 0: they start at once */
    int gather;
    /* a step is computed while the results of the previous step are emitted, for backends that run
     * beside the host */
    int overlap;
    int sample_forced; /* tokens that a grammar forces are sampled one by one all the same */
    /* Most tokens of a draft; 0: no drafts. drafter: who proposes them; NULL: the text of the
     * sequence and of answers before it (draft.h). draft_always: every draft is computed, whether
     * that is worth while or not. draft_sure: with overlap, only what
     * is clearly worth while. Both 0 or 1. */
    int draft_most, draft_always, draft_sure;
    const struct drafter *drafter;
    int no_texts; /* nothing is drafted from texts */
    int mtp_most; /* most tokens that the model's draft layer drafts (forward's options.drafts) */
    struct prefix_store *store; /* the caller's; needs prefix_cache. NULL: none */
    struct pool
        *pool; /* threads for the rows of a step, the caller's; NULL: the backend's or own */
};

struct sched_stats {
    int n_waiting, n_running;
    int n_pages, n_pages_used;   /* used: referenced by a running sequence */
    int n_states, n_states_used; /* slots of states; 0 where the model has none */
    uint64_t state_bytes;        /* of all slots */
    uint64_t n_steps;
    /* computed, recomputation after a preemption included; found in cached pages */
    uint64_t n_prompt_tokens, n_cached_tokens;
    uint64_t n_stored_tokens; /* read from disk, which then are cached */
    uint64_t n_generated_tokens, n_preemptions;
    uint64_t n_drafted_tokens, n_accepted_tokens; /* rows of drafts; those whose token was right */
    uint64_t n_mtp_tokens, n_mtp_right;           /* of them those of the model's draft layer */
    double steps_saved;     /* by drafts: tokens that were right by sequences of their step */
    double forward_seconds; /* in forward_begin and forward_end; the rest of a run's time is the
                               host's own */
    double busy_seconds;    /* in which a step was in flight, as the host saw it */
};

struct sched;

/* Allocates everything: steps allocate nothing. */
int sched_open(struct sched **s, struct forward *f, const struct sched_options *o, struct err *e);
void sched_close(struct sched *s);
/* Bytes of memory that a scheduler with a store takes for it, of pages and slots of such sizes. */
uint64_t sched_store_bytes(uint64_t page, uint64_t states);
/* Bytes of memory for drafts from texts. */
uint64_t sched_draft_bytes(int n_seqs, int n_ctx);
/* Number of further requests that the scheduler needs now to keep its sequences busy (>= 0). */
int sched_wants(const struct sched *s);
/* Choices that run at once, at most. */
int sched_slots(const struct sched *s);
/* Choices that a request starts before those behind it have their turn. */
int sched_turn(const struct sched *s);
/* The threads for the rows of a step. */
struct pool *sched_pool(const struct sched *s);
/* Choices that run or wait, and tokens of prompts and answers that they may still take. */
struct sched_load {
    int n_choices;
    uint64_t n_tokens;
};
struct sched_load sched_load(const struct sched *s);
/* Takes back the request that was queued last, if it may start and none of its choices nor of its
 * group's has: it can be submitted elsewhere. NULL: there is none. */
struct request *sched_take_back(struct sched *s);
/* Queues *r, which stays the caller's until its done(). -1 if it can never run: its prompt exceeds
 * n_ctx, or it needs more pages than exist. */
int sched_submit(struct sched *s, struct request *r, struct err *e);
/* Stops starting queued requests, except those of groups that have started. Started requests still
 * get all their choices. sched_step is idle when they are complete; other queued requests stay
 * queued (sched_abort ends them). */
void sched_drain(struct sched *s);
/* Computes a step and calls sinks, with options.overlap those of the previous step. 1: there is
 * more to do; 0: idle; -1: fatal (backend or sink failed). */
int sched_step(struct sched *s, struct err *e);
/* As much of a step as there is without waiting for the backend, for who drives several schedulers.
 * SCHED_WAITS: nothing can be done before the step in flight ends; else as sched_step. */
enum { SCHED_WAITS = 2 };
int sched_try(struct sched *s, struct err *e);
/* Ends all running and queued requests with finished(FINISH_ABORTED) and done(), after the results
 * in flight. */
int sched_abort(struct sched *s, struct err *e);
void sched_stats(const struct sched *s, struct sched_stats *out);

#endif
