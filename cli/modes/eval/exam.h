/* exam.h: one task as lm-evaluation-harness names them ("piqa", "mmlu_anatomy"): its questions, the
 * examples before each of them, the texts that a model reads, its verdicts. Owns: questions,
 * answers and verdicts. Must not know: tokens, engines, reports. */
#ifndef CLI_MODES_EVAL_EXAM_H
#define CLI_MODES_EVAL_EXAM_H

#include "cli/modes/eval/task.h"
#include "cli/modes/eval/task_data.h"

enum { EXAM_METRICS = 2, EXAM_MOST_EXAMPLES = 1000 };

struct exam_question {
    struct task_item item;
    int32_t *example; /* [n_examples] indices of the pool */
    /* the model's answers: of each choice [n_choices] log-likelihood and whether each token was
     * the likeliest; or the text, and what the filters find in it */
    double *log_likelihood;
    unsigned char *is_greedy;
    char *text, *found[EXAM_METRICS];
    unsigned char right[EXAM_METRICS]; /* by metric */
};

struct exam {
    const struct task *task;
    const struct task_subject *subject; /* or NULL */
    char *name;
    const char *alias;
    struct task_docs docs, pool;
    int n_examples;
    struct exam_question *question; /* [n] the first of docs */
    int n;
};

/* What is measured: acc and acc_norm, or exact_match after either filter. */
struct exam_metric {
    const char *name, *filter;
};
struct exam_result {
    double mean, error; /* error NAN: of one question there is none */
};

/* What is asked: N_EXAMPLES < 0: as many as the task says; at most LIMIT questions, 0: all. */
struct exam_ask {
    const struct task *task;
    const struct task_subject *subject;
    int n_examples, limit;
};
/* Opens questions and draws their examples. */
int exam_open(struct exam *x, struct task_data *d, const struct exam_ask *ask, struct err *e);
void exam_close(struct exam *x);

/* Whether all questions have the same examples. */
int exam_shares_examples(const struct exam *x);
/* Question Q with the fields that its definition adds, as reports have it: a new object, or NULL.
 * What failed is for json_check. */
json_t *exam_document(const struct exam *x, int q);
/* The text that choice I of question Q follows (of a generated answer: the prompt), malloc'd; NULL:
 * *e is set. */
char *exam_context(const struct exam *x, int q, int i, struct err *e);
/* What follows it; the same. */
char *exam_continuation(const struct exam *x, int q, int i, struct err *e);
/* The right answer as reports of single questions have it; the same. */
char *exam_target(const struct exam *x, int q, struct err *e);

/* Decides on question Q, whose answers are there. */
int exam_judge(struct exam *x, int q, struct err *e);
const struct exam_metric *exam_metrics(const struct exam *x, int *n);
/* How many filters there are: 1 but for generated answers. */
int exam_filters(const struct exam *x);
struct exam_result exam_result(const struct exam *x, int metric);

#endif
