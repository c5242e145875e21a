/* vocab.h: the tokens of a tokenizer as bytes, for masks: as a tree, and taken apart by how many
 * characters of an alphabet they begin with. Made once for a model, constant afterwards, shared by
 * all grammars and threads. Must not know: grammars, requests. */
#ifndef CORE_VOCAB_H
#define CORE_VOCAB_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct vocab;
struct masks;

/* token(arg, id, &bytes) gives what ID adds to the answer's text, as bytes (a token may end inside
 * a character); NULL or no bytes: the token is never allowed (unused ids). Special tokens, which
 * add nothing, have bytes that no text has (free_text.h). */
struct vocab_source {
    int n; /* ids */
    const char *(*token)(void *arg, int32_t id, size_t *bytes);
    void *arg;
};
int vocab_open(struct vocab **v, const struct vocab_source *source, struct err *e);
void vocab_close(struct vocab *v);
int vocab_n(const struct vocab *v);
const char *vocab_token(const struct vocab *v, int32_t id, size_t *bytes);
/* Bytes of the longest token. */
size_t vocab_longest(const struct vocab *v);
/* Masks that grammars of this vocabulary keep. */
struct masks *vocab_masks(const struct vocab *v);

/* Texts as a forest, its nodes in depth-first order, siblings in the order of their bytes. A node
 * is a byte behind those of its parents. */
struct vocab_node {
    uint32_t end;   /* the node behind it and all below it */
    uint32_t first; /* its tokens: id[first], up to the next node's first */
    uint32_t depth; /* bytes from the root, its own included */
    unsigned char byte;
};
struct vocab_tree {
    struct vocab_node *node; /* [n + 1], the last one ends the list */
    int32_t *id;
    uint32_t n, n_ids;
};
/* All tokens that have bytes. */
const struct vocab_tree *vocab_all(const struct vocab *v);

/* Alphabets: of characters that most grammars treat alike. */
enum vocab_alphabet {
    VOCAB_PLAIN, /* what a JSON string spells as it is: U+0020 on but " and \, as whole UTF-8 */
    VOCAB_ALNUM, /* A-Z a-z 0-9 */
    VOCAB_LOWER, /* a-z */
    VOCAB_ALPHABETS
};
enum { VOCAB_RUN = 24 }; /* characters that are told apart by their number */

/* The tokens by alphabet: each begins with a number of its characters, and has a rest. */
struct vocab_runs {
    /* tokens without a rest of at most i characters: pure + i * words; i VOCAB_RUN + 1: all */
    uint32_t *pure;
    size_t words; /* of a mask */
    /* rests behind i characters are the nodes start[i] up to start[i + 1]; i VOCAB_RUN + 1: behind
     * more */
    struct vocab_tree rest;
    uint32_t start[VOCAB_RUN + 3];
    /* whole tokens that begin with more than VOCAB_RUN characters */
    struct vocab_tree longer;
    struct vocab_tree mixed; /* VOCAB_PLAIN: whole tokens that have a rest */
};
const struct vocab_runs *vocab_runs(const struct vocab *v, enum vocab_alphabet a);

#endif
