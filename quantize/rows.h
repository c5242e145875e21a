/* rows.h: rows of the calibration between two linears: for some buffers of the plan an array of all
 * rows, where a backend reads them: in its device's memory, or in the host's, or in a nameless file
 * where there are too many. Must not know: what they are. */
#ifndef QUANTIZE_ROWS_H
#define QUANTIZE_ROWS_H

#include "core/step/backend.h"

#include <stddef.h>
#include <stdint.h>

struct rows {
    struct be *on; /* the open backend whose memory has them; NULL: the host's */
    int n_buffers;
    int64_t n;                 /* rows of a buffer */
    char **data;               /* [n_buffers] or NULL */
    size_t *row_bytes, *bytes; /* [n_buffers] */
    uint64_t used, limit;      /* bytes in the host's memory */
    char **spare;              /* [n_buffers] arrays of a device that were dropped: giving them back
                                  takes longer than computing them */
    size_t *spare_bytes;       /* [n_buffers], 0: none */
    const char *folder;        /* of files */
};

int rows_open(struct rows *r, int n_buffers, int64_t n, struct err *e);
void rows_close(struct rows *r);
/* Gives a buffer its array, if it has none. Error: no memory, no room in the folder. */
int rows_take(struct rows *r, int buffer, size_t row_bytes, struct err *e);
void rows_drop(struct rows *r, int buffer);
/* The array where the host reads and writes it: itself, or a copy, which rows_give writes back if
 * `changed`, and frees. NULL: no memory, or the device failed. */
void *rows_borrow(struct rows *r, int buffer, struct err *e);
void rows_give(struct rows *r, int buffer, void *borrowed, int changed);
/* Where the backend reads it. */
static inline void *rows_at(const struct rows *r, int buffer, int64_t row)
{
    return r->data[buffer] + (size_t)row * r->row_bytes[buffer];
}

#endif
