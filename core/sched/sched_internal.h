/* sched_internal.h: what the scheduler's files share: scheduler.c (requests in and out, admission,
 * the order of steps), sched_plan.c (which rows a step computes, on which pages), sched_rows.c
 * (from its logits to tokens), sched_emit.c (from these to the sinks).
 *
 * STEPS IN FLIGHT. Where the backend runs beside the host (sched_options.overlap) a step is begun
 * before the last one's results are handed out, and, where nothing but the largest logit of each
 * row was wanted of that one, before they are known: the backend takes its tokens from there. So
 * everything that a plan needs to know of a sequence is brought up to date when a step begins; its
 * tokens follow (sched_settle), then the sinks (sched_emit). A sequence that turns out to have
 * ended, by its token or by what the sink made of it, may have rows in the next step already: they
 * are dropped. Its pages are free at once, because a backend computes steps in order. */
#ifndef CORE_SCHED_INT_H
#define CORE_SCHED_INT_H

#include "core/sched/kvcache.h"
#include "core/base/pool.h"
#include "core/sched/scheduler.h"

/* A request of which at least one choice was started. */
struct job {
    struct request *request; /* NULL: free */
    uint64_t age;            /* grows from job to job */
    uint64_t root;           /* prefix under which its pages are published */
    int n_started, n_finished;
    int prompt_done; /* a choice's steps came to the prompt's end: the others may start */
    int next_row;    /* prompt rows before this one are in a step that hands out their results */
};

/* ENDING: nothing more is computed, its last results are still to be handed out. DONE: rows of it
 * in flight are dropped. */
enum seq_state { SEQ_FREE, SEQ_RUNNING, SEQ_PREEMPTED, SEQ_ENDING, SEQ_DONE };

/* One choice of a job. Its tokens are the prompt, then the generated ones, of which the last is not
 * computed yet. */
struct seq {
    enum seq_state state;
    struct job *job;
    int choice;
    uint64_t key; /* random stream */
    int n_computed, n_generated;
    int n_pages;
    int n_shared; /* pages found or published: they and CHAIN name the prefix so far */
    uint64_t chain;
    int32_t
        *generated; /* [n_ctx]; -1-i: what the step in flight chooses from its i-th row of logits */
    int32_t *page;  /* [table_stride] */
    int n_flights;  /* steps in flight that have rows of it */
    /* the step being planned */
    int reserved, n_rows, n_logits;
    int first_logit;
};

/* A row of whose logits something is wanted, and what was made of it. */
struct sched_row {
    struct seq *seq;
    int pos;
    int generates, scores, shows; /* chooses the next token; says how likely the prompt's next one
                                     is; hands out its logits */
    int top_at; /* where it stands in f->top, -1: all logits are there, or only the largest one's
                   index */
    int ends;   /* a row that generates: with the token, whatever its sink says */
    struct err failed; /* msg empty: it did not */
    struct token_info
        token; /* the next one, or the prompt's behind this row, where either is handed out */
    struct token_top top[REQUEST_MAX_TOP];
};

/* Rows that one sequence has in a step. */
struct sched_part {
    struct seq *seq;
    int first_logit, n_logits;
};

/* A step that was begun and whose results were not handed out. */
struct flight {
    int n_parts, n_logits;
    int n_wanted, shows; /* rows of whose logits the host wants more than the largest one's index;
                            some are handed out */
    struct sched_part *part; /* [n_slots] */
    struct sched_row *row;   /* by logit row of the step, [max_logits] */
    uint8_t *wanted;         /* its logits, [max_logits] */
};

struct sched {
    struct forward *forward;
    struct sched_options options;
    int n_slots; /* sequences at once */
    int n_held;  /* sequences and jobs: as many more may be ending */
    struct kv kv;
    struct pool *pool;
    struct sampler *sampler; /* [threads of the pool] */
    float *adjusted;         /* [threads][vocab] */
    struct batch batch;
    struct flight flight[2]; /* steps take turns */
    unsigned n_begun, n_emitted;
    struct seq *seq;    /* [n_held] */
    struct job *job;    /* [n_held] */
    struct seq **order; /* [n_order] running and preempted sequences, the oldest first */
    int n_order;
    struct request **queue; /* ring [queue_size] of requests of which nothing was started */
    int queue_size, queue_first, n_queue;
    int drains;          /* sched_drain was called */
    uint64_t last_group; /* of the request that was begun last */
    uint64_t n_jobs;
    int rows_left, logits_left; /* while a step is planned */
    struct sched_stats stats;
};

static inline int seq_n_tokens(const struct seq *q)
{
    return q->job->request->n_prompt + q->n_generated;
}
static inline int sched_pages(int n_positions) { return (n_positions + KV_PAGE - 1) / KV_PAGE; }
/* Tokens generated before the one that the row chooses. */
static inline int row_n_generated(const struct sched_row *r)
{
    return r->pos + 1 - r->seq->job->request->n_prompt;
}

/* Takes pages of known prefixes at the sequence's end, as far as their rows hand out nothing. */
void seq_find_pages(struct sched *s, struct seq *q);
void seq_release_pages(struct sched *s, struct seq *q);
/* Nothing more is computed of a sequence: it becomes ENDING or DONE. */
void seq_leave(struct sched *s, struct seq *q, enum seq_state state);
/* Chooses rows and pages of a step, and fills the batch and *f. */
void sched_plan(struct sched *s, struct flight *f);
/* Brings the sequences up to date with a step that has begun. */
void sched_advance(struct sched *s, struct flight *f);
/* Chooses tokens and finds log-probabilities of all rows, and ends the sequences that end with
 * their token. */
int sched_settle(struct sched *s, struct flight *f, struct err *e);
/* Hands out what the rows say. -1: a sink failed. */
int sched_emit(struct sched *s, struct flight *f, struct err *e);

#endif
