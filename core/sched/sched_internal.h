/* sched_internal.h: declarations shared by scheduler.c (requests in and out, admission, the order
 * of steps), sched_plan.c (rows and pages of a step), sched_rows.c (logits to tokens),
 * sched_grammar.c (which tokens may come), sched_draft.c (tokens that are likely to come),
 * sched_patience.c (whether a device is waited for), sched_store.c (pages from and to disk) and
 * sched_emit.c (tokens to sinks).
 *
 * STEPS IN FLIGHT. With a backend that runs beside the host (sched_options.overlap) a step begins
 * before the previous step's results are emitted. It even begins before they are known, if the
 * previous step needs no more than the argmax of each row, or the token that the device draws
 * (OP_SAMPLE): the backend then reads the tokens from device memory. Hence sched_advance updates
 * all that planning reads when a step begins, sched_settle fills in the tokens, and sched_emit
 * calls the sinks. A sequence that ends by its token or by its sink may already have rows in the
 * next step: their results are dropped. Its pages and slots are free at once, because a backend
 * computes steps in order.
 *
 * GRAMMARS. A sequence with a grammar knows the first n_known tokens of its answer, and the mask of
 * the next one. Tokens that are forced are known before any row has chosen them; they wait in
 * `generated` behind n_generated until the step in flight is settled. Masks are made by the pool's
 * threads while a device computes a step, without such a device behind the step, when the next one
 * can have the rows of the forced tokens at once. Without log-probabilities forced tokens have no
 * logits: the sink gets them behind the token before them.
 *
 * STATES. Of a model with states a running sequence owns a slot. A step that ends at a boundary
 * where a snapshot is worth its slot writes the states into a slot of the snapshot instead; the
 * next step reads them there and writes into the sequence's own: nothing is copied. A sequence
 * takes cached pages up to a boundary that has a snapshot. */
#ifndef CORE_SCHED_INTERNAL_H
#define CORE_SCHED_INTERNAL_H

#include "core/sched/kvcache.h"
#include "core/base/pool.h"
#include "core/sched/scheduler.h"
#include "core/sched/statecache.h"

/* Most rows of drafts under a grammar in a step; memory that no such row touches is not taken. */
enum { DRAFT_MASKS = 1024 };
/* Classes of tokens of drafts by how likely they are: of texts, then the first, second .. one of
 * the model's draft layer. */
enum { SCHED_COSTS = 128, SCHED_TEXTS = 7, SCHED_MTP = 3, SCHED_CLASSES = SCHED_TEXTS + SCHED_MTP };
enum { SCHED_GUESS = 4 }; /* tokens of a guess (sched_patience.c) */

/* A request and the cursors of its choices, which are opened when it is submitted: steps allocate
 * nothing. */
struct queued {
    struct request *request;
    struct grammar_cursor **cursor; /* [n_cursors], NULL without a grammar */
    int n_cursors;
    uint64_t age; /* increases from request to request */
};

/* A request with at least one started choice. */
struct sched_job {
    struct request *request; /* NULL: free */
    struct queued queued;    /* owns the cursors; its request may be gone */
    uint64_t age;            /* its request's; behind all others when its turn is over */
    uint64_t root;           /* prefix under which its pages are published */
    int n_started, n_finished;
    int prompt_done; /* one choice has planned the whole prompt: the other choices may start */
    int next_row;    /* first prompt row whose results belong to no step yet */
    int leave_at[2]; /* prompt positions at which its sequences leave a snapshot; 0: none */
};

/* ENDING: no further rows; the last results are still to be emitted. DONE: rows in flight are
 * dropped. */
enum seq_state { SEQ_FREE, SEQ_RUNNING, SEQ_PREEMPTED, SEQ_ENDING, SEQ_DONE };

/* One choice of a job. Its tokens are the prompt and the generated ones; the last is not computed
 * yet. */
struct seq {
    enum seq_state state;
    struct sched_job *job;
    int choice;
    uint64_t key; /* of the random stream (sampler_key) */
    double mu;    /* Mirostat's; a preemption keeps it, as it keeps the tokens */
    int n_computed, n_generated;
    int n_pages;
    int n_shared; /* leading pages that were found or published; CHAIN is their prefix's serial */
    uint64_t chain;
    /* [n_ctx]; -1-i: the token that the step in flight chooses from its logits row i */
    int32_t *generated;
    int32_t *page; /* [table_stride] page ids */
    /* with a grammar */
    struct grammar_cursor *cursor; /* has read `generated` up to n_known; NULL: no grammar */
    struct grammar_cursor *ahead;  /* of the job: reads drafts */
    uint32_t *mask;                /* [n_mask] tokens that may follow them, EOS among them */
    int n_known, masked;           /* mask is that of token number `masked`, -1: of none */
    int n_rowed;      /* tokens whose rows of logits have been in a step that has begun */
    int closed;       /* the answer ends with its known tokens */
    enum finish why;  /* if closed */
    struct err wrong; /* the grammar failed behind the known tokens */
    int n_emitted;    /* tokens that the sink has received */
    /* tokens of a draft behind the generated ones, which the step in flight has rows of; -1: one of
     * them was wrong */
    int n_drafted, draft_class;
    int draft_mask; /* of s->draft_masks: that of the row of its first token; with a grammar */
    int n_compared; /* of them */
    int32_t mtp[SCHED_MTP]; /* what the model's draft layer says comes next */
    int n_mtp, n_missed;    /* positions that the draft layer has not seen */
    int32_t guess[SCHED_GUESS]; /* what may follow guess_at generated tokens */
    int n_guess, guess_at;
    int n_right; /* rows of drafts that were right and are not in the states yet (batch.n_right) */
    int own, from; /* slots of states: its own; that of its n_computed positions: own, a snapshot's,
                      or -1: zeros */
    int seat;      /* batch.seat; -1: it does not run */
    int leave_at;  /* prompt position at which it leaves a snapshot; 0: none */
    int kept_at;   /* that of the last one that it continued from or left; 0: none */
    int n_flights; /* steps in flight with rows of this sequence */
    /* of the step being planned */
    int reserved, n_rows, n_logits, n_hidden;
    int to; /* slot that its states are written to */
    int first_logit, first_hidden;
};

/* A row with logits, and its results. */
struct sched_row {
    struct seq *seq;
    int pos;
    /* generates: chooses the next token. scores: gives the log-probability of the prompt's next
     * token. shows: its logits go to the sink. */
    int generates, scores, shows;
    /* index into f->top; -1: all logits are there, or only the argmax */
    int top_at;
    int score_at;         /* index into f->score; -1: its log-probabilities need its logits */
    int sampled;          /* the device has chosen its token: that is its argmax */
    int later;            /* it is asked to, when the row's mask is known */
    int wants_all;        /* the step hands out all its logits */
    int behind_draft;     /* 1: tokens of a draft are in front of it */
    int picked;           /* the token of a greedy choice under a mask; -1: all logits decide */
    const uint32_t *mask; /* [n_mask] tokens that it may choose; with a grammar */
    int ends;          /* generates: the chosen token ends the sequence, whatever its sink says */
    struct err failed; /* msg is empty unless this row failed */
    /* the chosen token, or the prompt's token after this row if it is scored */
    struct token_info token;
    struct token_top top[REQUEST_MAX_NAMED];
};

/* A row whose result of the last norm goes to the sink. */
struct hidden_row {
    int pos, row;
};

/* A sequence's rows with logits, and its hidden rows, in a step. */
struct flight_seq {
    struct seq *seq;
    int first_logit, n_logits, first_hidden, n_hidden;
};

/* A step that has begun and whose results are not emitted yet. */
struct flight {
    int n_seqs, n_logits;
    /* n_wanted: rows of which the host needs more than the argmax. shows: some logits or hidden
     * rows go to a sink. */
    int n_wanted, shows, n_later; /* n_later: rows whose masks are made meanwhile */
    struct flight_seq *seq;       /* [n_slots] */
    struct sched_row *row;        /* [max_logits] by logits row of the step */
    struct hidden_row *hidden;    /* [n_batch] */
    uint8_t *wanted;              /* [max_logits] 1: the host needs all logits of the row */
};

struct sched {
    struct forward *forward;
    struct sched_options options;
    int n_slots; /* sequences that run at once */
    int n_held;  /* size of seq: as many more may be ending */
    int n_jobs;  /* size of job: some have choices to start and none that runs */
    struct kv kv;
    struct states states; /* without slots where the model has no states */
    int32_t *free_seat;   /* [n_seats] seats that no sequence has, at most n_slots */
    int n_seats;
    struct pool *pool, *own_pool; /* the backend's, or an own one */
    struct sampler *sampler;      /* [threads of the pool] */
    float *adjusted;              /* [threads][vocab] */
    uint32_t *masks;              /* [n_held][n_mask] */
    uint32_t *draft_masks;        /* [n_draft_masks][n_mask] with a drafter: of rows of drafts */
    int n_mask, n_draft_masks;
    /* of sched_look_ahead: sequences [n_slots]; the first one of each grammar [n_slots + 1] */
    struct seq **looking;
    int *look_first;
    struct batch batch, later; /* later: the choices under masks of a step (sched_choose) */
    uint32_t *later_masks;     /* [max_logits][n_mask] */
    struct flight flight[2];   /* used alternately */
    unsigned n_begun, n_emitted;
    struct seq *seq;       /* [n_held] */
    struct sched_job *job; /* [n_jobs] */
    struct seq **order;    /* [n_order] running and preempted sequences, the oldest first */
    int n_order;
    struct queued *queue; /* ring [queue_size] of requests without a started choice */
    int queue_size, queue_first, n_queue;
    int drains;                /* sched_drain was called */
    struct sched_store *store; /* NULL: none */
    struct drafter drafter;    /* propose NULL: none */
    struct draft_text *draft_text;
    struct sched_mtp *mtp; /* NULL: the model's layer drafts nothing */
    struct seq **of_batch; /* [n_of_batch] with mtp: sequences of the last step by their number */
    int n_of_batch;
    int needs_tokens;         /* the step's tokens are to be known before the next one begins */
    double cost[SCHED_COSTS]; /* seconds of a step by decode rows; not above 0: unknown */
    double accepts[SCHED_CLASSES]; /* probability that a token of a draft is right, by its class */
    int n_drafting;                /* sequences that decode in the step with drafts */
    int n_undrafted;               /* steps since the last draft */
    /* whether steps of a device beside the host are waited for, so that drafts can follow */
    struct sched_patience {
        int awaits, n_left;  /* steps that this lasts */
        int rest, n_looks;   /* steps of the last rest; looks */
        int n_seqs, is_new;  /* that decoded in the last step; it was the first of its shape */
        int n_steps;         /* since waiting began or ended */
        double at;           /* when the last step began */
        double step[2];      /* seconds of one without and with waiting, of step_seqs sequences */
        int step_seqs[2];    /* 0: not measured */
        double rows, right;  /* decode rows or guesses, of late, and their right tokens */
        uint64_t n_accepted; /* right tokens before the last step */
        unsigned turn;       /* sequence that guesses next */
    } patience;
    double begun_at;                      /* when the last step began */
    double busy_from; /* since when a step has been in flight, or the oldest one */
    uint64_t n_ages;
    int rows_left, logits_left; /* of the step being planned */
    struct sched_stats stats;
};

static inline int least(int a, int b) { return a < b ? a : b; }

/* The token at a position; below 0: chosen on the device, and not known yet. */
static inline int32_t seq_token(const struct seq *q, int pos)
{
    const struct request *r = q->job->request;
    return pos < r->n_prompt ? r->prompt[pos] : q->generated[pos - r->n_prompt];
}

static inline int seq_n_tokens(const struct seq *q)
{
    return q->job->request->n_prompt + q->n_generated;
}
/* The sequence as a drafter sees it. */
static inline struct draft_ask seq_ask(const struct sched *s, const struct seq *q)
{
    const struct request *r = q->job->request;
    return (struct draft_ask){(int)(q - s->seq), r->prompt, q->generated, r->n_prompt,
                              q->n_generated};
}
/* Number of generated tokens before the one that the row chooses. */
static inline int row_n_generated(const struct sched_row *r)
{
    return r->pos + 1 - r->seq->job->request->n_prompt;
}

static inline void seq_drop_snapshot(struct sched *s, struct seq *q)
{
    if (q->from >= 0 && q->from != q->own) states_release(&s->states, q->from);
    q->from = -1;
}
/* It begins with the states of a snapshot behind its pages, whose reference it gets. */
static inline void seq_continue_from(struct sched *s, struct seq *q, int32_t slot)
{
    seq_drop_snapshot(s, q);
    q->from = slot;
    q->kept_at = q->n_computed;
}

/* The inputs of the choice of a sequence's token number n_generated, all but Mirostat's. */
static inline struct sampler_context seq_context(const struct sched *s, const struct seq *q,
                                                 int n_generated)
{
    const struct request *r = q->job->request;
    const struct model_config *g = &s->forward->model->config;
    return (struct sampler_context){.params = &r->sampling,
                                    .key = q->key,
                                    .n_prompt = r->n_prompt,
                                    .n_generated = n_generated,
                                    .n_eos = g->n_eos,
                                    .prompt = r->prompt,
                                    .generated = q->generated,
                                    .eos = g->eos};
}

/* 1 if something of every generated token's logits goes to the sink. */
static inline int request_shows_all(const struct request *r)
{
    return r->n_top >= 0 || r->sink->token_logits;
}
/* Most tokens of a choice. */
static inline int seq_limit(const struct sched *s, const struct request *r)
{
    int room = s->options.n_ctx - r->n_prompt;
    return r->max_tokens < room ? r->max_tokens : room;
}

/* Positions from which on a snapshot is left: computing fewer again costs less than its slot. */
enum { SNAPSHOT_FROM = 2 * KV_PAGE };
/* Queued requests whose prompts are compared with that of a request that starts. */
enum { SNAPSHOT_QUEUE = 64 };
/* Least choices of a turn, and jobs that may wait for theirs. */
enum { SCHED_TURN = 8, JOBS_WAITING = 64 };

/* Positions of whole pages that the prompts of two requests share, and that each can take from the
 * cache. */
int requests_alike(const struct request *a, const struct request *b);
/* 1 if the sequence's next tokens are whole pages of its prompt. */
int seq_takes_pages(const struct seq *q);
/* Prompt positions that it may take from elsewhere: their rows have no results to emit. */
int seq_shares_up_to(const struct sched *s, const struct seq *q);
/* Takes cached pages for the sequence's next tokens, as far as their rows have no results to emit.
 */
void seq_find_pages(struct sched *s, struct seq *q);
/* Publishes the full pages before position END, of the prompt or, where these are shared, of all
 * tokens. */
void seq_publish(struct sched *s, struct seq *q, int end);
/* Drops its pages and slots: what it computed is lost. */
void seq_release(struct sched *s, struct seq *q);
/* Ends the computation of a sequence: it becomes ENDING or DONE. */
void seq_leave(struct sched *s, struct seq *q, enum seq_state state);
/* sched_grammar.c. Opens a cursor for each choice; -1: *e. */
int queued_open(struct queued *q, struct request *r, struct err *e);
void queued_close(struct queued *q);
/* Brings the masks of a step's sequences up to date, and finds the tokens that are forced. */
void sched_look_ahead(struct sched *s, const struct flight *f);
/* Makes known tokens generated ones and ends what needs no further rows, ahead of a plan. */
void sched_take_forced(struct sched *s);
/* Has the device choose the tokens of a step's rows whose masks are known by now. */
void sched_choose(struct sched *s, struct flight *f);
/* The same as sched_look_ahead for one sequence. */
void seq_look_ahead(struct sched *s, struct seq *q);
/* A token was chosen: reads it. */
void seq_know(struct sched *s, struct seq *q, int32_t id);
/* Cuts the drafts of sequences with a grammar where it does not allow a token or the answer would
 * end, and makes the masks of their rows. */
void sched_cut_drafts(struct sched *s);
/* sched_draft.c. Puts drafts behind the tokens of sequences, ahead of a plan. */
void sched_draft(struct sched *s);
/* Of so many decode rows, by what steps of the run cost; what a table of costs says of them. */
double sched_seconds(const struct sched *s, int rows);
double sched_cost(const double *cost, int rows, double unknown);
/* Notes what so many rows took. 1: they were a device's first, and do not count. */
int sched_note_cost(const struct sched *s, double *cost, int rows, double seconds);
/* 1: all of the sequence's tokens are known and its step computes them all. */
int seq_may_draft(const struct sched *s, const struct seq *q);
/* Sequences whose prompts are computed. */
int sched_n_decoding(const struct sched *s);
/* sched_mtp.c: drafts by the model's draft layer. */
int sched_mtp_open(struct sched *s, struct err *e);
void sched_mtp_close(struct sched *s);
/* Runs the draft layer on the rows of the last step, and on its own drafts: they are in q->mtp.
 * Ahead of a plan. */
int sched_mtp_draft(struct sched *s, struct err *e);
/* sched_patience.c, ahead of a plan: whether its step is waited for (s->patience.awaits). Without
 * the need for that, because steps are waited for anyway or nothing drafts: nothing. */
void sched_weigh_waiting(struct sched *s);
int sched_needs_patience(const struct sched *s);
/* What a step of the batch cost. */
void sched_learn_cost(struct sched *s, const struct batch *b, double seconds);
/* A row of a sequence with drafts has chosen a token. 1: it is the sequence's; 0: the row is behind
 * a token that was not the draft's. */
int seq_accept(struct sched *s, struct seq *q, const struct sched_row *row);
void sched_drafter_begin(struct sched *s, const struct seq *q);
void sched_drafter_end(struct sched *s, const struct seq *q);
/* sched_store.c; those that take no page need no store and then do nothing. */
int sched_store_open(struct sched *s, struct prefix_store *files, struct err *e);
/* Waits until all that is left is on disk. */
void sched_store_close(struct sched *s);
/* Takes pages that are on disk behind those that the sequence has, up to prompt position LIMIT.
 * Reads files. */
void seq_fetch(struct sched *s, struct seq *q, int limit);
/* The sequence has published its page number PAGE, with these tokens [KV_PAGE]; or its snapshot. */
void seq_store_page(struct sched *s, const struct seq *q, int page, const int32_t *token);
void seq_store_states(struct sched *s, const struct seq *q);
/* The next prompt position whose states are worth a file; 0: none. */
int seq_store_at(const struct sched *s, const struct seq *q);
/* Ahead of a step: copies aside what is full. Behind its end: hands it to the writer. Without
 * steps: both. */
void sched_store_begin(struct sched *s);
void sched_store_settle(struct sched *s);
void sched_store_idle(struct sched *s);
/* Whether ID ends an answer. */
int sched_is_end(const struct sched *s, const struct request *r, int32_t id);
/* The largest of the logits under the mask, from the argmax or the backend's top; -1: these do not
 * decide it. */
int sched_pick(const struct sched *s, const struct sched_row *row, int best);
/* Whether the mask allows ID. */
static inline int mask_allows(const uint32_t *mask, int32_t id)
{
    return mask[id / 32] >> id % 32 & 1;
}
/* Plans a step: chooses rows and pages, fills the batch and *f. */
void sched_plan(struct sched *s, struct flight *f);
/* Updates the sequences for a step that has begun; its tokens are still unknown. */
void sched_advance(struct sched *s, struct flight *f);
/* Chooses the tokens and log-probabilities of all rows, and ends the sequences whose token ends
 * them. */
int sched_settle(struct sched *s, struct flight *f, struct err *e);
/* Passes the rows' results to the sinks. -1: a sink failed. */
int sched_emit(struct sched *s, struct flight *f, struct err *e);

#endif
