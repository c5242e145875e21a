/* task_answer.h: what GSM8K reads out of a generated text, and when that is right, as
 * lm-evaluation-harness's filters and its exact_match. Must not know: questions, models. */
#ifndef CLI_MODES_EVAL_TASK_ANSWER_H
#define CLI_MODES_EVAL_TASK_ANSWER_H

/* The first number behind "#### " (strict-match); the last number (flexible-extract). Malloc'd,
 * "[invalid]" where there is none, NULL: no memory. */
char *task_answer_strict(const char *text);
char *task_answer_flexible(const char *text);
/* Whether what was found says the same as the question's answer: both without commas, dollars,
 * everything before the last "#### " and a full stop at the end, in lower case. -1: no memory. */
int task_answer_is(const char *found, const char *answer);

#endif
