/* reasoning.h: tells a model's reasoning from its answer while the text streams: what stands
 * between two tags, <think> and </think> as a rule, at the beginning of the text. Owns: the tags
 * that models use, the bytes that may begin one. Must not know: tokens, templates, what becomes of
 * the parts. */
#ifndef CORE_REASONING_H
#define CORE_REASONING_H

#include "core/base/err.h"

#include <stddef.h>

/* How a family writes it. */
struct reasoning_tags {
    const char *sign; /* a chat template has it; NULL: those of all others */
    const char *begins, *ends;
    const char *then;   /* what may stand before the answer behind `ends`; NULL: nothing */
    const char *direct; /* with what an answer without reasoning may begin; NULL: nothing */
    int is_single;      /* both tags are one token, if they are tokens */
};
/* The tags that a chat template's source [n] speaks of; NULL: those of most models. */
const struct reasoning_tags *reasoning_tags_of(const char *source, size_t n);
/* 1: a special token of this text is a tag or a part of one. */
int reasoning_has_token(const struct reasoning_tags *t, const char *text);

/* A tag comes with the white space before it where that begins the text. */
enum reasoning_part { REASONING_TAG, REASONING_TEXT, REASONING_ANSWER };

struct reasoning {
    const struct reasoning_tags *tags;
    int state;
    char *held; /* [n_held] bytes, of which the first n_taken were handed out */
    size_t n_held, n_taken, cap;
    int at_end;
};

/* PROMPT [n]: the text before; one that ends with the first tag has begun the reasoning. */
void reasoning_open(struct reasoning *r, const struct reasoning_tags *tags, const char *prompt,
                    size_t n);
void reasoning_close(struct reasoning *r);
/* Adds a piece of text. */
int reasoning_push(struct reasoning *r, const char *piece, size_t n, struct err *e);
/* The text has ended: what was held back is no tag. */
void reasoning_end(struct reasoning *r);
/* The next run of bytes of one kind, valid until the next push. 0: there is none yet. */
int reasoning_next(struct reasoning *r, enum reasoning_part *part, const char **text, size_t *n);

#endif
