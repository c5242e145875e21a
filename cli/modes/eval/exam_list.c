#include "cli/modes/eval/exam_list.h"

#include "core/base/printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct exam_list *l, const struct task *t, const struct task_subject *subject,
               struct err *e)
{
    for (int i = 0; i < l->n; i++)
        if (l->ask[i].task == t && l->ask[i].subject == subject) return 0;
    struct exam_ask *grown = realloc(l->ask, (size_t)(l->n + 1) * sizeof *grown);
    if (!grown) return err_memory(e);
    l->ask = grown;
    l->ask[l->n++] = (struct exam_ask){.task = t, .subject = subject};
    return 0;
}

/* GROUP < 0: all subjects. */
static int add_subjects(struct exam_list *l, const struct task *t, int group, struct err *e)
{
    for (int i = 0; i < task_subjects_n; i++)
        if ((group < 0 || (int)task_subjects[i].group == group) && add(l, t, &task_subjects[i], e))
            return -1;
    for (int i = 0; i < TASK_GROUPS; i++) l->group[i] |= group < 0 || i == group;
    l->all |= group < 0;
    return 0;
}

/* 1: NAME is one of the task's subjects or groups of them. */
static int add_part(struct exam_list *l, const struct task *t, const char *name, struct err *e)
{
    size_t n = strlen(t->name);
    if (!t->by_subject || strncmp(name, t->name, n) || name[n] != '_') return 0;
    for (int i = 0; i < TASK_GROUPS; i++)
        if (!strcmp(task_groups[i].name, name)) return add_subjects(l, t, i, e) ? -1 : 1;
    for (int i = 0; i < task_subjects_n; i++)
        if (!strcmp(task_subjects[i].name, name + n + 1))
            return add(l, t, &task_subjects[i], e) ? -1 : 1;
    return 0;
}

static int unknown(const char *name, struct err *e)
{
    char known[256] = "", shown[PRINTABLE];
    for (int i = 0; i < task_table_n; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s, ", task_table[i].name);
    return err_set(e, "--eval: \"%.40s\" is none of %smmlu_stem and the other groups, mmlu_SUBJECT",
                   printable_text(name, shown), known);
}

static int add_name(struct exam_list *l, const char *name, struct err *e)
{
    for (int i = 0; i < task_table_n; i++) {
        const struct task *t = &task_table[i];
        if (!strcmp(t->name, name))
            return t->by_subject ? add_subjects(l, t, -1, e) : add(l, t, NULL, e);
        int rc = add_part(l, t, name, e);
        if (rc) return rc < 0 ? -1 : 0;
    }
    return unknown(name, e);
}

int exam_list_open(struct exam_list *l, const char *names, struct err *e)
{
    *l = (struct exam_list){0};
    for (const char *at = names;; at++) {
        size_t n = strcspn(at, ",");
        char *name = strndup(at, n);
        int rc = name ? add_name(l, name, e) : err_memory(e);
        free(name);
        if (rc) {
            exam_list_close(l);
            return -1;
        }
        at += n;
        if (!*at) return 0;
    }
}

void exam_list_close(struct exam_list *l)
{
    free(l->ask);
    *l = (struct exam_list){0};
}
