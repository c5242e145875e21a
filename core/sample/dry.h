/* dry.h: DRY, "don't repeat yourself" (p-e-w 2024): a token that would continue a sequence of n
 * tokens, which ends the text and stood in it before, loses multiplier * base^(n - allowed_length),
 * if n >= allowed_length. Of several such sequences the longest counts. A sequence reaches back to
 * the last sequence breaker at most, and a token whose text holds a breaker loses nothing. Owns:
 * the search. Must not know: how texts and tokens come to be. */
#ifndef CORE_DRY_H
#define CORE_DRY_H

#include <stddef.h>
#include <stdint.h>

/* The text of a token inside a text. */
struct dry_text {
    const char *text; /* [bytes] */
    size_t bytes;
};

/* Texts that end a sequence, wherever they stand in the text: in a token or across tokens. */
struct dry_breakers {
    const struct dry_text *token; /* [n_tokens] by id; the caller's */
    int n_tokens;
    const char *const *string; /* [n], NUL-terminated, none empty; the caller's */
    int n;
    size_t longest; /* bytes of the longest string */
};

struct dry_params {
    double multiplier;                   /* 0: off */
    double base;                         /* >= 1 */
    int allowed_length;                  /* >= 1 */
    int last_n;                          /* 0: looks at all tokens; n: at the last n */
    const struct dry_breakers *breakers; /* the caller's; NULL: none */
};

/* The tokens so far, prompt [n_prompt] first. */
struct dry_history {
    const int32_t *prompt, *generated;
    int n_prompt, n_generated;
};

/* Writes into length[id] the longest sequence that the token would continue, where that is at least
 * allowed_length; length [vocab] is zero before. Lengths beyond which the loss does not grow any
 * more are not told apart. */
void dry_mark(const struct dry_params *p, const struct dry_history *h, uint32_t *length);
/* Clears what dry_mark wrote; before that, with logits [vocab] not NULL, subtracts the losses. */
void dry_clear(const struct dry_params *p, const struct dry_history *h, uint32_t *length,
               float *logits);
/* The loss of a token with this length, at most 1e30. */
double dry_loss(const struct dry_params *p, uint32_t length);

#endif
