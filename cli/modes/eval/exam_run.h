/* exam_run.h: the questions of exams on a model: their tokens as lm-evaluation-harness makes them,
 * the requests, log-likelihoods and generated texts. A question's first choice is computed before
 * its others, and a first question before those with the same examples, so that they find its
 * pages in the cache. Must not know: files, reports. */
#ifndef CLI_MODES_EVAL_EXAM_RUN_H
#define CLI_MODES_EVAL_EXAM_RUN_H

#include "cli/modes/eval/exam.h"
#include "cli/modes/eval/score.h"

/* Answers and judges all questions of x [n]. Generated answers are greedy otherwise SAMPLING.
 * Returns 0, -1, or 1 when a signal ended it, with *n_done questions. */
struct exam_run_ask {
    struct scorer *scorer;
    const struct sampler_params *sampling;
    struct exam *x; /* [n] */
    int n;
    int n_done; /* set */
};
int exam_run(struct exam_run_ask *ask, struct err *e);

#endif
