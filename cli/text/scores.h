/* scores.h: a list of tokens with their log-probabilities (--logprobs): a line each, for people or
 * as JSON. Owns: the sums. Must not know: where the tokens come from. */
#ifndef CLI_TEXT_SCORES_H
#define CLI_TEXT_SCORES_H

#include "cli/modes/batch/token_text.h"
#include "cli/text/out.h"
#include "core/sched/request.h"

struct scores {
    struct token_text texts;
    struct out line;
    int as_json;
    int n; /* lines: the position of the next token */
    int n_scored, n_prompt_scored;
    double sum, prompt_sum; /* of log-probabilities */
};

int scores_open(struct scores *s, const struct tokenizer *tokenizer, int as_json, struct err *e);
void scores_close(struct scores *s);
/* The next token, to stdout. One without a log-probability (NAN) is the first of the text. */
int scores_add(struct scores *s, const struct token_info *t, int is_prompt, struct err *e);
/* Sums and perplexities on stderr. */
void scores_end(const struct scores *s);

#endif
