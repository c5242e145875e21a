/* reasoning.h: tells a model's reasoning from its answer while the text streams: what stands
 * between <think> and </think> at the beginning of the text. Owns: the bytes that may begin a tag.
 * Must not know: tokens, templates, what becomes of the parts. */
#ifndef CORE_REASONING_H
#define CORE_REASONING_H

#include "core/base/err.h"

#include <stddef.h>

/* A tag comes with the white space before it where that begins the text. */
enum reasoning_part { REASONING_TAG, REASONING_TEXT, REASONING_ANSWER };

struct reasoning {
    int state;
    char *held; /* [n_held] bytes, of which the first n_taken were handed out */
    size_t n_held, n_taken, cap;
    int at_end;
};

/* PROMPT [n]: the text before; one that ends with <think> has begun the reasoning. */
void reasoning_open(struct reasoning *r, const char *prompt, size_t n);
void reasoning_close(struct reasoning *r);
/* Adds a piece of text. */
int reasoning_push(struct reasoning *r, const char *piece, size_t n, struct err *e);
/* The text has ended: what was held back is no tag. */
void reasoning_end(struct reasoning *r);
/* The next run of bytes of one kind, valid until the next push. 0: there is none yet. */
int reasoning_next(struct reasoning *r, enum reasoning_part *part, const char **text, size_t *n);

#endif
