/* breakers.h: DRY's sequence breakers as a model's tokenizer has them. Owns: the texts of all
 * tokens. Must not know: how they are searched (core/sample/dry.h). */
#ifndef ENGINE_BREAKERS_H
#define ENGINE_BREAKERS_H

#include "core/sample/dry.h"
#include "core/text/tokenizer.h"

/* Made when first asked for; zero-initialize. */
struct breaker_texts {
    struct dry_text *token; /* [n] by id */
    int n;
};

/* llama.cpp's: newline, colon, quote, asterisk; NULL ends. */
extern const char *const breakers_default[];

/* Breakers STRING [n], which stay the caller's; without a tokenizer there are none. T must outlive
 * them. */
int breakers_open(struct dry_breakers *b, struct breaker_texts *t,
                  const struct tokenizer *tokenizer, const char *const *string, int n,
                  struct err *e);
void breakers_close(struct breaker_texts *t);

#endif
