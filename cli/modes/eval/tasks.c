/* tasks.c: evaluation by the tasks of lm-evaluation-harness 0.4.13 (--eval), from files of
 * questions: opens the tasks that the names mean, has them answered, prints and writes the results.
 */
#include "cli/modes/eval/exam_report.h"
#include "cli/modes/eval/exam_run.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tasks {
    const struct options *o;
    struct exam_list list;
    struct task_data data;
    struct exam *exam; /* [n] */
    int n;
    struct side_file report, *samples; /* [n] */
    char **samples_path;               /* [n] */
    struct scorer scorer;
    struct sampler_params sampling;
    struct sampling_memory sampling_memory;
};

/* ---- files that are written */

/* None is one of the questions' files. */
static int check_file(const struct tasks *t, const char *what, const char *path, struct err *e)
{
    struct stat a, b;
    if (stat(path, &a)) return 0;
    for (int i = 0; i < t->data.n; i++)
        if (!stat(t->data.file[i]->path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return err_set(e, "%s %s: is also a file of questions", what, path);
    return 0;
}

/* --samples: the file of one task; of several a folder, which is made. */
static int name_samples(struct tasks *t, int in_folder, struct err *e)
{
    const char *path = t->o->samples;
    for (int i = 0; i < t->n; i++) {
        if (in_folder) {
            if (asprintf(&t->samples_path[i], "%s/samples_%s.jsonl", path, t->exam[i].name) < 0)
                t->samples_path[i] = NULL;
        } else {
            t->samples_path[i] = strdup(path);
        }
        if (!t->samples_path[i]) return err_memory(e);
    }
    return 0;
}

static int open_samples(struct tasks *t, struct err *e)
{
    const char *path = t->o->samples;
    struct stat st;
    int exists = !stat(path, &st), is_folder = exists && S_ISDIR(st.st_mode);
    if (t->n > 1 && exists && !is_folder)
        return err_set(e, "--samples %s: %d tasks need a folder, a file each", path, t->n);
    if (t->n > 1 && !exists && mkdir(path, 0777)) return err_sys(e, "--samples %s", path);
    if (name_samples(t, t->n > 1 || is_folder, e)) return -1;
    for (int i = 0; i < t->n; i++)
        if (check_file(t, "--samples", t->samples_path[i], e) ||
            (is_folder && outputs_check_one(t->o, "--samples", t->samples_path[i], e)) ||
            side_open(&t->samples[i], "--samples", t->samples_path[i], e))
            return -1;
    return 0;
}

static int open_outputs(struct tasks *t, struct err *e)
{
    const struct options *o = t->o;
    if (o->report && check_file(t, "--report", o->report, e)) return -1;
    t->samples = calloc((size_t)t->n, sizeof *t->samples);
    t->samples_path = calloc((size_t)t->n, sizeof *t->samples_path);
    if (!t->samples || !t->samples_path) return err_memory(e);
    return side_open(&t->report, "--report", o->report, e) || (o->samples && open_samples(t, e))
               ? -1
               : 0;
}

/* ---- the run */

static int open_exams(struct tasks *t, struct err *e)
{
    const struct options *o = t->o;
    if (exam_list_open(&t->list, o->eval, e) || task_data_open(&t->data, o->eval_data, e))
        return -1;
    t->exam = calloc((size_t)t->list.n, sizeof *t->exam);
    if (!t->exam) return err_memory(e);
    for (; t->n < t->list.n; t->n++) {
        struct exam_ask ask = t->list.ask[t->n];
        ask.n_examples = options_given(o, &o->n_few_shot) ? o->n_few_shot : -1;
        ask.limit = o->n_limit;
        if (exam_open(&t->exam[t->n], &t->data, &ask, e)) {
            exam_close(&t->exam[t->n]);
            return -1;
        }
    }
    return 0;
}

static int open_model(struct tasks *t, struct err *e)
{
    const struct engine *g = &t->scorer.engine;
    if (scorer_open(&t->scorer, t->o, e) ||
        sampling_open(&t->sampling, &t->sampling_memory, &t->o->sampling, &g->model.file,
                      g->tokenizer, g->model.config.vocab, e))
        return -1;
    t->sampling.temperature = 0;
    return 0;
}

static int finish(struct tasks *t, double seconds, struct err *e)
{
    const struct exam_report r = {
        t->o, &t->list, t->exam, t->scorer.engine.identity, t->scorer.n_ctx, seconds};
    exam_report_print(&r, stdout);
    fprintf(stderr, "%.1f s\n", seconds);
    int rc = fflush(stdout) ? err_sys(e, "cannot write to stdout") : 0;
    for (int i = 0; i < t->n && t->o->samples && !rc; i++) {
        rc = exam_report_samples(&t->exam[i], side_begin(&t->samples[i]), e);
        if (!rc) rc = side_close(&t->samples[i], e);
    }
    if (rc || !t->o->report) return rc;
    json_t *j = exam_report_json(&r, e);
    if (!j) return -1;
    json_dumpf(j, side_begin(&t->report), JSON_INDENT(2));
    json_decref(j);
    return side_close(&t->report, e);
}

static void close_all(struct tasks *t)
{
    struct err ignored;
    sampling_close(&t->sampling_memory);
    scorer_close(&t->scorer);
    for (int i = 0; i < t->n; i++) {
        if (t->samples) side_close(&t->samples[i], &ignored);
        if (t->samples_path) free(t->samples_path[i]);
        exam_close(&t->exam[i]);
    }
    side_close(&t->report, &ignored);
    free(t->samples);
    free(t->samples_path);
    free(t->exam);
    task_data_close(&t->data);
    exam_list_close(&t->list);
}

int run_tasks(const struct options *o, struct err *e)
{
    struct tasks t = {.o = o};
    int rc = open_exams(&t, e) || open_outputs(&t, e) || open_model(&t, e) ? -1 : 0;
    run_catch_signals();
    double start = clock_now();
    struct exam_run_ask ask = {&t.scorer, &t.sampling, t.exam, t.n, 0};
    if (!rc) rc = exam_run(&ask, e);
    if (rc > 0) fprintf(stderr, "stopped after %d questions: no accuracy\n", ask.n_done);
    if (!rc) rc = finish(&t, clock_now() - start, e);
    close_all(&t);
    return rc < 0 ? 1 : rc > 0 ? 4 : 0;
}
