/* out.h: results as records for programs (csv, json, jsonl) or as a table for people (md).
 * Must not know: what is measured. */
#ifndef BENCH_OUT_H
#define BENCH_OUT_H

#include "core/base/err.h"

#include <jansson.h>

enum { OUT_COLUMNS = 16, OUT_CELL = 64 };

struct out {
    const char *format; /* md, csv, json, jsonl */
    int n_records;
    int is_alone; /* there is one record only: json has no list around it */
    /* md: the table being filled */
    int n_columns, n_rows;
    char (*cells)[OUT_COLUMNS][OUT_CELL]; /* [n_rows], the first is the heading */
};

void out_open(struct out *o, const char *format);
int out_is_md(const struct out *o);
/* Writes one record as it comes and drops it; nothing with md. All records of a run have the same
 * keys. */
int out_record(struct out *o, json_t *record, struct err *e);
/* md: begins a table, or its next row; cells are filled from the left. A heading ending in ':'
 * marks a left-aligned column. */
int out_table(struct out *o, int n_columns, const char *const heading[], struct err *e);
int out_row(struct out *o, struct err *e);
void out_cell(struct out *o, int column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* md: prints the table, without the columns [n_columns] where hide is nonzero, and forgets it. */
void out_print(struct out *o, const int *hide);
/* Ends the output; an error on stdout shows here. */
int out_close(struct out *o, struct err *e);

#endif
