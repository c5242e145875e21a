/* request.h: one request as the scheduler takes it: token ids and parameters in, token ids out
 * through a sink. Must not know: text, files, chat, how many other requests there are. */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/base/err.h"
#include "core/sample/sampler.h"

#include <stdint.h>

/* Most alternatives that a log-probability record carries beside the token itself. */
enum { REQUEST_MAX_TOP = 20 };

/* Why a choice ended; FINISH_STOP covers EOS, stop_token_ids and a sink that asked for the end. */
enum finish { FINISH_STOP, FINISH_LENGTH, FINISH_ABORTED };

struct token_top {
    int32_t id;
    double logprob;
};

/* A token with its log-probability under the model's own distribution (natural logarithm, before
 * penalties and temperature, as vLLM's default has it), and the n_top likeliest ones in falling
 * order (lower id first on ties). */
struct token_info {
    int32_t id;
    double logprob; /* NAN where none was asked for */
    int n_top;
    const struct token_top *top; /* [n_top], valid during the call */
};

/* Receives a request's results, always on the thread that calls sched_step, in order of positions;
 * calls for different choices and requests interleave. A callback that returns -1 with *e set ends
 * the run. */
struct request_sink {
    /* Prompt token at POS (>= 1, >= score_from), given those before it; only when prompt_top >= 0.
     * Called once per position, before the first generated token, whatever the prefix cache or a
     * preemption recomputed. */
    int (*prompt_token)(void *arg, int pos, const struct token_info *t, struct err *e);
    /* NULL, or raw logits [vocab] after prompt token POS, for every POS from 0, once, in order; no
     * page is shared then. */
    int (*prompt_logits)(void *arg, int pos, const float *logits, struct err *e);
    /* A generated token. Returns 1 to end this choice with it (a stop string was completed), 0 to
     * go on. EOS and stop_token_ids are handed out too, then finished() follows. */
    int (*token)(void *arg, int choice, const struct token_info *t, struct err *e);
    int (*finished)(void *arg, int choice, enum finish why, struct err *e);
    /* After the last choice, or when this request alone failed (MSG != NULL: NaN logits, say). The
     * request's memory may be released from here on. */
    int (*done)(void *arg, const char *msg, struct err *e);
};

struct request {
    const int32_t *prompt; /* [n_prompt], ids inside the vocabulary; the caller's until done() */
    int n_prompt;          /* 1 .. context - 1 (context when max_tokens is 0) */
    int n_choices;         /* >= 1; they share the prompt's pages */
    int max_tokens;        /* per choice, 0: only the prompt is evaluated; the context bounds it too
                              (FINISH_LENGTH) */
    int n_top;      /* -1: no log-probabilities of generated tokens; else that many alternatives */
    int prompt_top; /* the same for prompt tokens */
    int score_from; /* first prompt position whose log-probability is wanted */
    struct sampler_params sampling;
    uint64_t group;  /* sched_drain: requests of one group (not 0) are of use together only */
    uint64_t stream; /* with sampling.seed and the choice: the random stream. A function of the
                        record, never of scheduling */
    const struct request_sink *sink;
    void *arg;
};

#endif
