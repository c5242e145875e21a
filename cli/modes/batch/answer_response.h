/* answer_response.h: the body of an answer to /v1/responses: OpenAI's response object, whose output
 * are items: reasoning, a message, calls of functions. Must not know: files, order. */
#ifndef CLI_MODES_BATCH_ANSWER_RESPONSE_H
#define CLI_MODES_BATCH_ANSWER_RESPONSE_H

#include "cli/modes/batch/answer.h"

/* Appends the object; MODEL is what it calls the model. -1: out of memory. */
int answer_response(struct out *o, const struct answer_env *env, const struct job *j,
                    const char *model, struct err *e);

#endif
