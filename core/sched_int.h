/* sched_int.h: what the scheduler's files share: scheduler.c (requests in and out, admission), sched_plan.c (which rows a
 * step computes, on which pages), sched_rows.c (from its logits to tokens), sched_emit.c (from these to the sinks). */
#ifndef CORE_SCHED_INT_H
#define CORE_SCHED_INT_H

#include "core/kvcache.h"
#include "core/pool.h"
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

/* A row of whose logits something is wanted, and what was made of it. */
struct sched_row {
    const struct seq *seq;
    int pos;
    struct err failed;       /* msg empty: it did not */
    struct token_info token; /* the next one, or the prompt's behind this row, where either is handed out */
    struct token_top top[REQUEST_MAX_TOP];
};

struct sched {
    struct forward *forward;
    struct sched_options options;
    int n_slots; /* sequences at once */
    struct kv kv;
    struct pool *pool;
    struct sampler *sampler; /* [threads of the pool] */
    float *adjusted;         /* [threads][vocab] */
    struct batch batch;
    /* by logit row of the step, [max_logits]: */
    struct sched_row *row;
    uint8_t *wanted;    /* its logits */
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

/* 1 when the next token comes from this row. */
static inline int seq_generates(const struct seq *q, int row) { return row == seq_n_tokens(q) - 1 && q->job->request->max_tokens > 0; }
/* 1 when this row says how likely the prompt's next token is, to somebody who was not told yet. */
static inline int seq_scores(const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    return row >= q->job->next_row && r->prompt_top >= 0 && row + 1 >= r->score_from && row + 1 < r->n_prompt;
}
/* What is wanted of a row: only which logit is the largest, or all of them. */
enum { WANTS_NOTHING, WANTS_BEST, WANTS_LOGITS };
int seq_wants(const struct seq *q, int row);
/* Takes pages of known prefixes at the sequence's end, as far as their rows hand out nothing. */
void seq_find_pages(struct sched *s, struct seq *q);
void seq_release_pages(struct sched *s, struct seq *q);
/* Chooses rows and pages of a step and fills the batch. */
void sched_plan(struct sched *s);
/* Chooses tokens and finds log-probabilities of all rows. */
void sched_rows(struct sched *s);
/* Hands out what the rows say. -1: a sink failed. */
int sched_emit(struct sched *s, struct err *e);

#endif
