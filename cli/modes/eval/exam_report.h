/* exam_report.h: results of exams as lm-evaluation-harness 0.4.13 writes them: its results.json and
 * its lines of single questions; and as lines for a reader. Must not know: how they were computed.
 */
#ifndef CLI_MODES_EVAL_EXAM_REPORT_H
#define CLI_MODES_EVAL_EXAM_REPORT_H

#include "cli/modes/eval/exam_list.h"
#include "cli/options.h"

#include <stdio.h>

struct exam_report {
    const struct options *o;
    const struct exam_list *list;
    const struct exam *x; /* [list->n] */
    const char *identity; /* of the backend */
    int n_ctx;
    double seconds;
};

void exam_report_print(const struct exam_report *r, FILE *f);
/* The whole report; NULL: *e is set. */
json_t *exam_report_json(const struct exam_report *r, struct err *e);
/* A line a question; of a generated answer one for each filter. */
int exam_report_samples(const struct exam *x, FILE *f, struct err *e);

#endif
