/* record_grammar.h: the fields response_format, structured_outputs and guided_* of a record. Must
 * not know: what a grammar is made of, the other fields. */
#ifndef CLI_MODES_BATCH_RECORD_GRAMMAR_H
#define CLI_MODES_BATCH_RECORD_GRAMMAR_H

#include "cli/modes/batch/record.h"

/* Fills r->grammar from BODY; LINE holds it as text. As record_parse: 0, 1 with *why, -1. */
int record_read_grammar(struct record *r, const json_t *body, const struct input_line *line,
                        struct refusal *why, struct err *e);
/* 1: numbers in this field of the body keep all digits, however many. */
int record_keeps_digits(const char *field);

#endif
