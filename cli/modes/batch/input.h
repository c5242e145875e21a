/* input.h: the lines of a batch file, plain or gzip, read twice: once to know how many there are
 * and their checksum, once to be answered. What cannot be read twice (a pipe) is copied to an
 * unnamed temporary file first. Owns: the file, the line buffer. Must not know: what a line means.
 */
#ifndef CLI_MODES_BATCH_INPUT_H
#define CLI_MODES_BATCH_INPUT_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { INPUT_MAX_LINE = 64 << 20 };

struct input;

struct input_line {
    const char *
        text; /* [n], valid until the next line; without line end and, in line 1, byte order mark */
    size_t n;
    uint64_t number; /* from 1, empty lines counted */
    int too_long;    /* more than INPUT_MAX_LINE bytes; text is the beginning */
    /* of a table's row (table.h), else 0: the row as the file has it [n_row]; its name [n_id], or
     * NULL; why it makes no prompt, or NULL */
    int is_row;
    const char *row, *id, *bad;
    size_t n_row, n_id;
};

/* PATH or "-". A copy of a pipe is made in the directory of SPOOL_NEAR (or /tmp when NULL). */
int input_open(struct input **in, const char *path, const char *spool_near, struct err *e);
void input_close(struct input *in);
int input_rewind(struct input *in, struct err *e);
/* From here on a line is a row of a table: it goes on where a quoted cell holds line ends, and
 * number counts rows that are not empty. A quote that nothing closes is an error. */
void input_take_rows(struct input *in, char separator);
/* Refuses what is not text as a whole, by what its beginning looks like: archives, models, other
 * encodings. Lines that are bad within a text are none of its business. For a file just opened or
 * rewound. */
int input_check_text(struct input *in, struct err *e);
/* 1: the next line that is not empty (only spaces, tabs and carriage returns count as empty); 0:
 * the end; -1: failed. */
int input_next(struct input *in, struct input_line *line, struct err *e);
/* crc32 and bytes of what was read since the start, unpacked. */
uint32_t input_crc(const struct input *in);
uint64_t input_bytes(const struct input *in);

#endif
