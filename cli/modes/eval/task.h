/* task.h: what lm-evaluation-harness 0.4.13 asks in each of its tasks that are served here: a row
 * of a table, and a function that reads a question. Must not know: files, models, how examples are
 * drawn. */
#ifndef CLI_MODES_EVAL_TASK_H
#define CLI_MODES_EVAL_TASK_H

#include "core/base/err.h"

#include <jansson.h>

/* A question or an example. */
struct task_item {
    char *text; /* what the choices or the answer follow; NULL: each choice is a text of its own */
    char **choice; /* [n_choices] */
    char *target;  /* the whole right answer, or what follows each text; NULL: a choice */
    char *letter;  /* the right choice, where the question names it so and not by its index */
    int n_choices, gold;
};
void task_item_free(struct task_item *it);

/* The first ones of their file; a draw for each question; a draw of one more, from which the
 * question itself is dropped. */
enum task_examples { TASK_FIRST, TASK_DRAWN, TASK_DRAWN_BUT_IT };
enum { TASK_MOST_STOPS = 4 };

struct task {
    const char *name;
    const char *data;     /* first part of its files' names */
    const char *split;    /* of the questions */
    const char *pools[2]; /* splits of examples: the first one that has a file; or NULL */
    const char *about;    /* stands before the examples, with the subject for %s; or NULL */
    const char *version;  /* of lm-evaluation-harness's definition */
    int (*read)(const json_t *doc, struct task_item *it, struct err *e);
    /* Adds the fields that the definition makes of a question; what fails is for json_check. NULL:
     * there are none. */
    void (*process)(json_t *doc, const struct task_item *it);
    enum task_examples examples;
    int n_examples;                    /* where no number is asked for */
    int by_subject;                    /* a task for each subject */
    int normalizes;                    /* acc_norm, too */
    int most_tokens;                   /* of a generated answer; 0: the choices are compared */
    const char *stop[TASK_MOST_STOPS]; /* texts that end it, beside EOS */
};
extern const struct task task_table[];
extern const int task_table_n;

enum task_group { TASK_HUMANITIES, TASK_OTHER, TASK_SOCIAL_SCIENCES, TASK_STEM, TASK_GROUPS };
/* Name as in "mmlu_stem" and as a title. */
struct task_group_name {
    const char *name, *alias;
};
extern const struct task_group_name task_groups[TASK_GROUPS];

struct task_subject {
    const char *name;
    enum task_group group;
};
extern const struct task_subject task_subjects[];
extern const int task_subjects_n;

#endif
