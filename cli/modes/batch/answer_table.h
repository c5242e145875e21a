/* answer_table.h: answers as rows of a table: the cells of the input's row, then answer, reasoning
 * where it stands apart, finish_reason and error. Must not know: files, order. */
#ifndef CLI_MODES_BATCH_ANSWER_TABLE_H
#define CLI_MODES_BATCH_ANSWER_TABLE_H

#include "cli/modes/batch/answer.h"

/* Each appends a row; the header with its line's end, the others without. -1: out of memory. */
int answer_table_header(struct out *o, const struct answer_env *env, struct err *e);
int answer_row(struct out *o, const struct answer_env *env, const struct job *j, struct err *e);
/* That of a record without an answer: MSG in the column error. */
int answer_refused_row(struct out *o, const struct answer_env *env, const struct record *r,
                       const char *msg, struct err *e);

#endif
