/* answer_logprobs.h: log-probabilities of tokens in the forms of completions, chats and vLLM's
 * prompt_logprobs. Must not know: what an answer is besides. */
#ifndef CLI_MODES_BATCH_ANSWER_LOGPROBS_H
#define CLI_MODES_BATCH_ANSWER_LOGPROBS_H

#include "cli/modes/batch/answer.h"

/* Each appends its form; -1: out of memory. That of completions is an object of parallel arrays. */
int answer_put_completion_logprobs(struct out *o, const struct answer_env *env,
                                   const struct job_prompt *p, const struct job_choice *c,
                                   struct err *e);
/* That of chats and responses: an array. */
int answer_put_chat_logprobs(struct out *o, const struct answer_env *env,
                             const struct job_prompt *p, const struct job_choice *c, struct err *e);
/* The member prompt_logprobs, comma first. */
int answer_put_prompt_logprobs(struct out *o, const struct answer_env *env,
                               const struct job_prompt *p, struct err *e);

#endif
