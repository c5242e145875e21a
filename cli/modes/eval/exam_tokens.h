/* exam_tokens.h: the tokens of texts as lm-evaluation-harness makes them. Must not know: questions,
 * models. */
#ifndef CLI_MODES_EVAL_EXAM_TOKENS_H
#define CLI_MODES_EVAL_EXAM_TOKENS_H

#include "core/text/tokenizer.h"

/* TEXT [n] with what the tokenizer adds to a text; one that begins with BOS gets no other. */
int exam_encode(const struct tokenizer *t, const char *text, size_t n, struct tok_ids *ids,
                struct err *e);
/* The tokens of the context, then what the whole text has more of them. White space at the end of
 * the context belongs to the continuation; nothing as context is BOS, else EOS. *from: the first
 * token of the continuation. */
int exam_encode_pair(const struct tokenizer *t, const char *context, const char *continuation,
                     struct tok_ids *ids, int *from, struct err *e);

#endif
