/* vocab.h: the tokens of a tokenizer as bytes, sorted into tries, for masks. Made once for a model,
 * constant afterwards, shared by all grammars and threads. Must not know: grammars, requests. */
#ifndef CORE_VOCAB_H
#define CORE_VOCAB_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct vocab;
struct shared_masks;

/* token(arg, id, &bytes) gives what ID adds to the answer's text, as bytes (a token may end inside
 * a character); NULL or no bytes: the token is never allowed (special tokens, unused ids). */
struct vocab_source {
    int n; /* ids */
    const char *(*token)(void *arg, int32_t id, size_t *bytes);
    void *arg;
};
int vocab_open(struct vocab **v, const struct vocab_source *source, struct err *e);
void vocab_close(struct vocab *v);
int vocab_n(const struct vocab *v);
const char *vocab_token(const struct vocab *v, int32_t id, size_t *bytes);
/* The tokens that have bytes, [*n] ids in order of their bytes; common [*n]: bytes that each begins
 * with like the one before it, 0 for the first. */
const int32_t *vocab_sorted(const struct vocab *v, int *n, const uint32_t **common);
/* What grammars of this vocabulary have in common. */
struct shared_masks *vocab_shared(const struct vocab *v);
/* Bytes of the longest token. */
size_t vocab_longest(const struct vocab *v);

#endif
