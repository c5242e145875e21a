/* token_text.h: the text of one token by itself, as log-probabilities name it; each looked up once.
 * Must not know: records, requests. */
#ifndef CLI_MODES_BATCH_TOKEN_TEXT_H
#define CLI_MODES_BATCH_TOKEN_TEXT_H

#include "core/text/tokenizer.h"

struct token_text {
    const struct tokenizer *tokenizer;
    int32_t n;
    struct token_text_entry {
        char *text; /* [bytes] or NULL: not asked for yet */
        size_t bytes;
    } *entry; /* [n] */
};

int token_text_open(struct token_text *t, const struct tokenizer *tokenizer, struct err *e);
void token_text_close(struct token_text *t);
/* UTF-8; a token that is part of a character gives U+FFFD, an id that has no token nothing. Valid
 * until close. */
int token_text_get(struct token_text *t, int32_t id, const char **text, size_t *bytes,
                   struct err *e);

#endif
