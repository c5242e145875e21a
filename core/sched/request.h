/* request.h: one request to the scheduler: token ids and parameters in, token ids out through a
 * sink. Must not know: text, files, chat, other requests. */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/base/err.h"
#include "core/grammar/grammar.h"
#include "core/sample/sampler.h"

#include <stdint.h>

/* Most alternatives in a token's log-probability record, beside the token itself: the most probable
 * ones, or tokens that the request names. */
enum { REQUEST_MAX_TOP = 20, REQUEST_MAX_NAMED = 128 };

/* Why a choice ended. FINISH_STOP: EOS, one of stop_token_ids, a document that is complete, or the
 * sink's decision. */
enum finish { FINISH_STOP, FINISH_LENGTH, FINISH_ABORTED };

struct token_top {
    int32_t id;
    double logprob;
};

/* A token, its log-probability under the model's distribution (natural logarithm, before penalties
 * and temperature, as vLLM's default), and the n_top most probable tokens in descending order (the
 * lower id first on ties); of a generated token instead those that the request names, in the same
 * order. */
struct token_info {
    int32_t id;
    double logprob; /* NAN where not requested */
    int n_top;
    const struct token_top *top; /* [n_top], valid during the call */
    int rank; /* of a prompt token with request.ranks: 1 for the most probable, else 0 */
};

/* Receives a request's results on the thread that calls sched_step, in order of positions; calls
 * for different choices and requests interleave. A callback that returns -1 with *e set ends the
 * run. */
struct request_sink {
    /* The prompt token at POS (>= 1, >= score_from) and its log-probability given its predecessors;
     * only when prompt_top >= 0. Called once per position, before the first generated token,
     * regardless of the prefix cache and preemptions. */
    int (*prompt_token)(void *arg, int pos, const struct token_info *t, struct err *e);
    /* May be NULL. The raw logits [vocab] after prompt token POS, once for every POS from show_from
     * on, in order; the request then shares the pages before show_from only. */
    int (*prompt_logits)(void *arg, int pos, const float *logits, struct err *e);
    /* The last norm's result [dim] at prompt token POS, once for every POS from hidden_from up to
     * hidden_end, in order; the request then shares the pages before hidden_from only. */
    int (*prompt_hidden)(void *arg, int pos, const float *hidden, struct err *e);
    /* May be NULL. The raw logits [vocab] from which the choice's next token was chosen, before
     * that token. */
    int (*token_logits)(void *arg, int choice, const float *logits, struct err *e);
    /* A generated token, EOS and stop_token_ids included. Returns 1 to end this choice here (a stop
     * string is complete), 0 to go on. */
    int (*token)(void *arg, int choice, const struct token_info *t, struct err *e);
    int (*finished)(void *arg, int choice, enum finish why, struct err *e);
    /* Follows the last choice, or a failure of this request alone (MSG != NULL, e.g. NaN logits).
     * The request's memory may be released from here on. */
    int (*done)(void *arg, const char *msg, struct err *e);
};

/* What the requests of one record share; zero-initialize. Lives until the last one's done(). */
struct request_group {
    int n_started; /* choices that have started */
};

struct request {
    const int32_t *prompt; /* [n_prompt], ids inside the vocabulary; the caller's until done() */
    int n_prompt;          /* 1 .. context - 1; up to context when max_tokens is 0 */
    int n_choices;         /* >= 1; they share the prompt's pages */
    int max_tokens; /* per choice; 0: only the prompt is evaluated. The context is a limit, too
                       (FINISH_LENGTH) */
    int n_top;      /* alternatives per generated token; -1: no log-probabilities */
    int prompt_top; /* the same for prompt tokens */
    int score_from; /* first prompt position to be scored */
    int ranks;      /* prompt tokens get their rank */
    int show_from;  /* first position of prompt_logits */
    int hidden_from, hidden_end; /* positions of prompt_hidden; both 0: none. Needs a forward that
                                    was opened for them */
    /* [n_named] ids, ascending, with n_top >= 0: the alternatives of every generated token; NULL:
     * the n_top most probable ones */
    const int32_t *named;
    int n_named;
    struct sampler_params sampling;
    /* What every choice has to be, or NULL; its vocabulary is the model's. A token that it forbids
     * is never chosen; EOS may come where the document may end, and not at all with ignore_eos. A
     * choice ends with FINISH_STOP behind the token with which nothing more can follow, whatever
     * min_tokens says and without an EOS token; with FINISH_LENGTH it may be incomplete. A token
     * of stop_ids or a stop string of the sink ends it as any other. */
    struct grammar *grammar;
    struct request_group *group; /* or NULL. sched_drain completes groups that have started */
    /* Selects the random stream, with sampling.seed and the choice: a function of the record, never
     * of scheduling. */
    uint64_t stream;
    const struct request_sink *sink;
    void *arg;
};

#endif
