/* job_internal.h: what the files of a job share: job.c (prompts and requests of completions and
 * chats, what comes back), job_tokens.c (cut prompts, bad words), job_pooling.c (embeddings and
 * scores). */
#ifndef CLI_MODES_BATCH_JOB_INTERNAL_H
#define CLI_MODES_BATCH_JOB_INTERNAL_H

#include "cli/modes/batch/job.h"

int job_refuse(struct refusal *why, const char *field, struct err *inner);
/* Room for N prompts. */
int job_add_prompts(struct job *j, int n, struct err *e);
/* TEXT [bytes] as the ids of *p, cut as the record asks. 0; 1: *why; -1. */
int job_encode(const struct job *j, const char *text, size_t bytes, struct job_prompt *p,
               struct refusal *why, struct err *e);
/* A request of prompt *p ended, with MSG in failure. */
int job_end_prompt(struct job_prompt *p, const char *msg);

/* job_tokens.c. Cuts the ids of *p to what truncate_prompt_tokens leaves, and sets was_cut. What
 * the tokenizer adds around a TEXT [bytes] (BOS, EOS) stays; NULL: the prompt was given as ids. */
int job_cut(const struct job *j, const char *text, size_t bytes, struct job_prompt *p,
            struct refusal *why, struct err *e);
/* bad_words as token ids. */
int job_take_bad_words(struct job *j, struct refusal *why, struct err *e);

/* job_pooling.c. Prompts of pairs; whether the model makes what the record asks for. */
int job_read_pairs(struct job *j, struct refusal *why, struct err *e);
int job_check_pooling(const struct job *j, struct refusal *why);
uint64_t job_pooled_bytes(const struct job *j);
void job_make_pooled(struct job *j);

#endif
