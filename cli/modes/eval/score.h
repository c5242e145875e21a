/* score.h: log-probabilities of given tokens, many sequences at once: what perplexity and multiple
 * choice share. Owns: the opened model and its engine. Must not know: texts, windows, questions. */
#ifndef CLI_MODES_EVAL_SCORE_H
#define CLI_MODES_EVAL_SCORE_H

#include "cli/options.h"
#include "engine/engine.h"
#include "core/text/tokenizer.h"

/* One sequence of tokens. The caller fills id, n and from; arg of the request's sink is its own. */
struct score {
    const int32_t *id; /* [n], the caller's until done() */
    int n, from;       /* 1 <= from < n */
    double *logprob;   /* [n - from] natural logarithm of the probability of id[from ..], each given
                          all before it */
    struct scorer *scorer;
    struct request request;
};

struct scorer {
    struct engine engine;
    int n_ctx;
    int (*done)(void *arg, struct score *s, struct err *e);
    void *arg;
};

/* Opens model, tokenizer (its absence is an error) and engine; -c, -b, -np, --mem as in a batch. */
int scorer_open(struct scorer *s, const struct options *o, struct err *e);
void scorer_close(struct scorer *s);
/* Computes the requests that next() gives until it gives none (*r NULL) and nothing runs; a sink
 * may make next() give more. Returns 0, -1, or 1 when a signal ended it. */
int scorer_compute(struct scorer *s, int (*next)(void *arg, struct request **r, struct err *e),
                   void *arg, struct err *e);
/* Scores what next() gives until it gives nothing (*score NULL) and nothing runs; done() may make
 * next() give more. Both return 0, or -1 with *e set. Returns 0, -1, or 1 when a signal ended it.
 */
int scorer_run(struct scorer *s, int (*next)(void *arg, struct score **score, struct err *e),
               int (*done)(void *arg, struct score *score, struct err *e), void *arg,
               struct err *e);

#endif
