/* record_tokens.h: the fields of a record that name tokens and words, or cut its prompt:
 * logprob_token_ids, allowed_token_ids, bad_words, truncation_side. Must not know: tokens' text,
 * the other fields. */
#ifndef CLI_MODES_BATCH_RECORD_TOKENS_H
#define CLI_MODES_BATCH_RECORD_TOKENS_H

#include "cli/modes/batch/record.h"

/* Reads the field NAME, if it is one of these. As record_parse: 0, 1 with *why, -1. */
int record_tokens_read(struct record *r, const char *name, const json_t *v, int vocab,
                       struct refusal *why, struct err *e);
/* truncation_side: the end that is cut off is the left one or the right one. */
int record_tokens_side(struct record *r, const json_t *v, struct refusal *why);
/* Whether the fields go together. */
int record_tokens_check(const struct record *r, struct refusal *why);

#endif
