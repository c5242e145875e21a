/* exam_list.h: which tasks the names of --eval mean: those of task.h, subjects ("mmlu_anatomy") and
 * groups of them. Must not know: files, models. */
#ifndef CLI_MODES_EVAL_EXAM_LIST_H
#define CLI_MODES_EVAL_EXAM_LIST_H

#include "cli/modes/eval/exam.h"

struct exam_list {
    struct exam_ask *ask; /* [n] task and subject, each once */
    int n;
    int group[TASK_GROUPS], all; /* the groups that were named; all: that of all groups */
};

/* NAMES, separated by commas. */
int exam_list_open(struct exam_list *l, const char *names, struct err *e);
void exam_list_close(struct exam_list *l);

#endif
