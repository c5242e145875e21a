/* task_data.h: the files of questions in a folder: which one has a split of a task, and its lines.
 * Owns: the lines read. Must not know: what a question asks, how examples are drawn.
 *
 * A file of SPLIT has the name NAME_SPLIT or NAME/SPLIT, that of the questions also NAME, and ends
 * with .jsonl or .json, perhaps packed (.gz, .xz). Two that fit are an error. */
#ifndef CLI_MODES_EVAL_TASK_DATA_H
#define CLI_MODES_EVAL_TASK_DATA_H

#include "core/base/err.h"

#include <jansson.h>

struct task_doc {
    json_t *json; /* an object */
    int line;     /* from 1 */
};

/* The lines of a file. */
struct task_file {
    char *path;
    struct task_doc *doc; /* [n] */
    int n;
};

/* Of lines that belong together: all of a file, or those of a subject. */
struct task_docs {
    const struct task_file *file;
    const struct task_doc **doc; /* [n] into the file */
    int n;
};

struct task_data {
    const char *dir;
    struct task_file **file; /* [n], each read once */
    int n;
};

/* DIR must be a folder; it is the caller's. */
int task_data_open(struct task_data *d, const char *dir, struct err *e);
void task_data_close(struct task_data *d);
/* Those of a split; file NULL: there is no such file. A SUBJECT (or NULL) has a file of its own,
 * NAME_SUBJECT, or is that of the field "subject" in the lines of NAME. PLAIN: the file may have
 * the name without the split. */
int task_data_find(struct task_data *d, struct task_docs *docs, const char *name,
                   const char *subject, const char *split, int plain, struct err *e);
void task_docs_free(struct task_docs *docs);

#endif
