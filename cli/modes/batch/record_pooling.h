/* record_pooling.h: the fields of records for embeddings, scores and reranking that no row of
 * numbers describes. Must not know: models, tokens, how vectors are made. */
#ifndef CLI_MODES_BATCH_RECORD_POOLING_H
#define CLI_MODES_BATCH_RECORD_POOLING_H

#include "cli/modes/batch/record.h"
#include "engine/embedding.h"

/* Reads the field NAME. 0; 1: *why. */
int record_pooling_read(struct record *r, const char *name, const json_t *v, struct refusal *why);
/* Whether what the record needs is there, in a form that goes together. */
int record_pooling_check(struct record *r, struct refusal *why);
/* Text I of text or array V. */
const json_t *record_pooling_text(const json_t *v, size_t i);
/* 1 for a text, else the size of the array. */
size_t record_pooling_count(const json_t *v);

#endif
