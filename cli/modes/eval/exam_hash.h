/* exam_hash.h: the hashes by which results of lm-evaluation-harness 0.4.13 name questions: SHA-256
 * of the document as JSON (python_json.h), of the first text that the model reads, and of the right
 * answer; and of all questions of a task. Must not know: answers, files. */
#ifndef CLI_MODES_EVAL_EXAM_HASH_H
#define CLI_MODES_EVAL_EXAM_HASH_H

#include "cli/modes/eval/exam.h"

enum { EXAM_HASH = 65 }; /* 64 hexadecimal digits and NUL */

struct exam_hash {
    char document[EXAM_HASH], prompt[EXAM_HASH], target[EXAM_HASH];
};
/* Those of question Q. */
int exam_hash(const struct exam *x, int q, struct exam_hash *h, struct err *e);
/* Of the three hashes of every line of single questions, one behind the other. */
int exam_hash_task(const struct exam *x, char hex[EXAM_HASH], struct err *e);

#endif
