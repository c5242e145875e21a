/* answer_pooling.h: the body of an answer with embeddings, scores or ranks, in the shape of OpenAI
 * and of vLLM, which follows Jina and Cohere. Must not know: files, order, how vectors are made. */
#ifndef CLI_MODES_BATCH_ANSWER_POOLING_H
#define CLI_MODES_BATCH_ANSWER_POOLING_H

#include "cli/modes/batch/answer.h"

/* Appends the object; MODEL is what it calls the model. -1: out of memory. */
int answer_pooled(struct out *o, const struct job *j, const char *model, struct err *e);
/* Appends the numbers alone, those of one prompt or pair between tabs, without the line's end. */
int answer_pooled_plain(struct out *o, const struct job *j, struct err *e);
#endif
