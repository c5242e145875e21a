/* rows.h: rows of the calibration between two linears: for some buffers of the plan an array of all
 * rows, in memory, or in a nameless file where there are too many. Must not know: what they are. */
#ifndef QUANTIZE_ROWS_H
#define QUANTIZE_ROWS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct rows {
    int n_buffers;
    int64_t n;                 /* rows of a buffer */
    char **data;               /* [n_buffers] or NULL */
    size_t *row_bytes, *bytes; /* [n_buffers] */
    uint64_t used, limit;      /* bytes in memory */
    const char *folder;        /* of files */
};

int rows_open(struct rows *r, int n_buffers, int64_t n, struct err *e);
void rows_close(struct rows *r);
/* Gives a buffer its array, if it has none. Error: no memory, no room in the folder. */
int rows_take(struct rows *r, int buffer, size_t row_bytes, struct err *e);
void rows_drop(struct rows *r, int buffer);
static inline void *rows_at(const struct rows *r, int buffer, int64_t row)
{
    return r->data[buffer] + (size_t)row * r->row_bytes[buffer];
}

#endif
