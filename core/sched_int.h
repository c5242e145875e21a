/* sched_int.h: what the scheduler's files share: scheduler.c (requests in and out, admission), sched_plan.c (which rows a
 * step computes, on which pages), sched_emit.c (from its logits to the sinks). */
#ifndef CORE_SCHED_INT_H
#define CORE_SCHED_INT_H

#include "core/kvcache.h"
#include "core/scheduler.h"

/* A request of which at least one choice was started. */
struct job {
    struct request *request; /* NULL: free */
    uint64_t age;            /* grows from job to job */
    uint64_t root;           /* prefix under which its pages are published */
    int n_started, n_finished;
    int prompt_done; /* a choice computed the whole prompt: its results are out, the others may start */
    int next_row;    /* prompt rows before this one have handed out their results */
};

enum seq_state { SEQ_FREE, SEQ_RUNNING, SEQ_PREEMPTED, SEQ_DONE };

/* One choice of a job. Its tokens are the prompt, then the generated ones, of which the last is not computed yet. */
struct seq {
    enum seq_state state;
    struct job *job;
    int choice;
    uint64_t key; /* random stream */
    int n_computed, n_generated;
    int n_pages;
    int n_shared; /* pages found or published: they and CHAIN name the prefix so far */
    uint64_t chain;
    int32_t *generated; /* [n_ctx] */
    int32_t *page;      /* [table_stride] */
    /* the step being planned */
    int reserved, n_rows, n_logits;
    int first_logit;
};

struct sched {
    struct forward *forward;
    struct sched_options options;
    int n_slots; /* sequences at once */
    struct kv kv;
    struct sampler sampler;
    struct batch batch;
    /* of the step, by logit row */
    int32_t *best;      /* [max_logits] index of the largest */
    float *logits;      /* [max_logits][vocab] where they are wanted */
    uint8_t *wanted;    /* [max_logits] */
    float *adjusted;    /* [vocab] */
    struct seq *seq;    /* [n_slots] */
    struct job *job;    /* [n_slots] */
    struct seq **order; /* [n_order] sequences in use, the oldest first */
    int n_order;
    struct request **queue; /* ring [queue_size] of requests of which nothing was started */
    int queue_size, queue_first, n_queue;
    uint64_t n_jobs;
    int rows_left, logits_left; /* while a step is planned */
    struct sched_stats stats;
};

static inline int seq_n_tokens(const struct seq *q) { return q->job->request->n_prompt + q->n_generated; }
static inline int sched_pages(int n_positions) { return (n_positions + KV_PAGE - 1) / KV_PAGE; }

/* What is wanted of a row, for the next token or for the prompt's results: only which logit is the largest, or all of them. */
enum { WANTS_NOTHING, WANTS_BEST, WANTS_LOGITS };
int seq_wants(const struct seq *q, int row);
/* Takes pages of known prefixes at the sequence's end, as far as their rows hand out nothing. */
void seq_find_pages(struct sched *s, struct seq *q);
void seq_release_pages(struct sched *s, struct seq *q);
/* Chooses rows and pages of a step and fills the batch. */
void sched_plan(struct sched *s);
/* Hands out what the step's logits say. -1: a sink failed. */
int sched_emit(struct sched *s, struct err *e);

#endif
