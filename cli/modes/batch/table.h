/* table.h: a table (RFC 4180: comma- or tab-separated values) as the input of a batch: its columns,
 * the prompt that a template makes of a row, and rows written again beside their answers. Owns:
 * columns, template, the last row's texts. Must not know: files, records, how a row is answered. */
#ifndef CLI_MODES_BATCH_TABLE_H
#define CLI_MODES_BATCH_TABLE_H

#include "cli/modes/batch/input.h"
#include "cli/text/out.h"

struct table;

/* What separates the cells of an input that FORMAT (of --input-format) or the ending of PATH makes
 * a table: ',' or '\t'; 0: it is none. */
char table_separator(const char *format, const char *path);
/* The same of an output by its ending. */
char table_separator_of_name(const char *path);

/* Reads TEMPLATE, which must outlive the table: {column} stands for a cell, {{ and }} for braces.
 * -1: it is no template. */
int table_open(struct table **t, const char *template, char separator, struct err *e);
void table_close(struct table *t);
/* Takes the columns' names from the first row of PATH. -1: one comes twice, or the template names
 * another. */
int table_take_header(struct table *t, const struct input_line *row, const char *path,
                      struct err *e);
/* 1: a column custom_id or id names the rows. */
int table_names_rows(const struct table *t);
/* Makes of a row the line of its record: number (rows behind the header count from 1), prompt, id,
 * or why there is none (`bad`); valid until the next call. -1: out of memory. */
int table_read_row(struct table *t, struct input_line *line, struct err *e);

/* A table again, its cells between SEPARATORs and folded (out.h): a cell, quoted where it must be.
 */
void table_put_cell(struct out *o, char separator, const char *text, size_t n);
/* The columns' names, each with a separator behind it; then MORE [n], which get a number where a
 * column has such a name, and the line's end. */
int table_put_header(struct out *o, const struct table *t, char separator, const char *const *more,
                     int n, struct err *e);
/* The cells of ROW [n], each with a separator behind it, as many as there are columns. */
int table_put_row(struct out *o, struct table *t, char separator, const char *row, size_t n,
                  struct err *e);

#endif
