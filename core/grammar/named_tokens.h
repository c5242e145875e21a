/* named_tokens.h: tokens that a grammar names by their text, <text>, or their number, <[id]>, as
 * expressions of a net. A special token is one (free_text.h); of a token of text in angle brackets
 * the grammar is its text, however an answer cuts it into tokens. Must not know: the notation
 * around them. */
#ifndef CORE_NAMED_TOKENS_H
#define CORE_NAMED_TOKENS_H

#include "core/grammar/net.h"
#include "core/grammar/vocab.h"

struct named_token {
    const char *text; /* [bytes] of the token */
    size_t bytes;
    int is_special;
};

/* *P is behind the token's `<`, at most at END, and gets behind its `>`. Errors are phrases. */
int named_token_read(struct named_token *t, const struct vocab *v, const char **p, const char *end,
                     struct err *e);
net_expr named_token_itself(const struct named_token *t, struct net *n);
/* Any number of characters and special tokens, at least MIN (0 or 1), without the token. */
int named_token_without(const struct named_token *t, const struct vocab *v, int min, struct net *n,
                        net_expr *x, struct err *e);

#endif
