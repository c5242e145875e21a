/* answer.h: a job's answer as a line of the output file. A function of the record, the tokens that
 * came back and the model's name alone: ids are made from custom_id, `created` is 0, cached tokens
 * are not counted. Must not know: files, order. */
#ifndef CLI_MODES_BATCH_ANSWER_H
#define CLI_MODES_BATCH_ANSWER_H

#include "cli/modes/batch/job.h"
#include "cli/modes/batch/token_text.h"

enum answer_format { ANSWER_JSONL, ANSWER_TEXT, ANSWER_IDS, ANSWER_TABLE };

struct answer_env {
    enum answer_format format;
    const char *model; /* where a record names none */
    struct token_text *tokens;
    /* of ANSWER_TABLE: the input's, what separates cells, whether reasoning stands apart */
    struct table *table;
    char separator;
    int splits;
};

/* Appends the line, newline included. JSONL has the shape of an OpenAI batch output, as vLLM's
 * run-batch writes it. Text and ids are one line per record, its choices separated by tabs; in text
 * newline, return, tab and backslash are written as \n, \r, \t and \\. A table's rows have their
 * cells and the answer's (answer_table.h). -1: out of memory. */
int answer_write(struct out *o, const struct answer_env *env, const struct job *j, struct err *e);
/* The line of a record that was refused (400) or that the model failed on (500): the error stands
 * in the response's body, where OpenAI has it, and beside the response, where vLLM has it. Text and
 * ids give an empty line. */
int answer_refuse(struct out *o, const struct answer_env *env, const struct record *r, int status,
                  const struct refusal *why, struct err *e);

#endif
