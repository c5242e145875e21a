/* stop.h: finds stop strings in text that arrives in pieces, and holds back what may still become
 * one. Owns: the bytes held back. Must not know: tokens. */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include "core/base/err.h"

#include <stddef.h>

struct stop {
    const char *const *strings; /* [n], NUL-terminated, none empty; the caller's */
    int n;
    size_t longest;
    char *held; /* [2 * cap]: n_held bytes held back; the second half is what was handed out */
    size_t n_held, cap;
};

int stop_open(struct stop *s, const char *const *strings, int n, struct err *e);
void stop_close(struct stop *s);
/* Adds PIECE [n bytes]. *out [*n_out] is the text that is certain now, valid until the next call.
 * Returns 1 when a stop string was completed (its text and what follows are dropped; the earliest
 * one wins), 0 when not, -1 on error. */
int stop_push(struct stop *s, const char *piece, size_t n, const char **out, size_t *n_out,
              struct err *e);
/* The text still held back when generation ends otherwise. */
void stop_flush(struct stop *s, const char **out, size_t *n_out);

#endif
