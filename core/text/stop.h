/* stop.h: search for stop strings in streamed text; a possible beginning of one is held back. Owns:
 * the bytes held back. Must not know: tokens. */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include "core/base/err.h"

#include <stddef.h>

struct stop {
    const char *const *strings; /* [n], NUL-terminated, none empty; the caller's */
    int n;
    size_t longest;
    char *held; /* [2 * cap]: n_held bytes held back; the second half is the last output */
    size_t n_held, cap;
};

int stop_open(struct stop *s, const char *const *strings, int n, struct err *e);
void stop_close(struct stop *s);
/* Appends PIECE [n bytes]. *out [*n_out] is the text that cannot be part of a stop string, valid
 * until the next call. Returns 1 when a stop string is complete (the one that ends first counts; it
 * and all that follows are dropped), 0 otherwise, -1 on error. */
int stop_push(struct stop *s, const char *piece, size_t n, const char **out, size_t *n_out,
              struct err *e);
/* The text held back, when generation ends without a stop string. */
void stop_flush(struct stop *s, const char **out, size_t *n_out);

#endif
