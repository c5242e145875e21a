#include "cli/modes/eval/exam_report.h"

#include "cli/modes/eval/exam_hash.h"
#include "core/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- groups */

/* Questions, mean and standard error of the subjects of a group (TASK_GROUPS: of all), weighted by
 * questions. */
struct pooled {
    int n, n_tasks;
    struct exam_result result;
};

static int in_group(const struct exam *x, int group)
{
    return x->subject && (group == TASK_GROUPS || (int)x->subject->group == group);
}

static struct pooled pool(const struct exam_report *r, int group)
{
    struct pooled p = {0};
    double squares = 0, sum = 0;
    for (int i = 0; i < r->list->n; i++) {
        const struct exam *x = &r->x[i];
        if (!in_group(x, group)) continue;
        struct exam_result one = exam_result(x, 0);
        p.n += x->n;
        p.n_tasks++;
        sum += one.mean * x->n;
        squares += (x->n - 1.0) * one.error * one.error * x->n; /* NAN where one has no error */
    }
    p.result.mean = sum / p.n;
    p.result.error = sqrt(squares / (p.n - p.n_tasks) / p.n);
    return p;
}

static const struct task_group_name *group_name(int group)
{
    static const struct task_group_name all = {"mmlu", "mmlu"};
    return group == TASK_GROUPS ? &all : &task_groups[group];
}

/* Whether a group is reported; the group of all is the last. */
static int has_group(const struct exam_report *r, int group)
{
    return group == TASK_GROUPS ? r->list->all : r->list->group[group];
}

/* ---- for a reader */

static void print_result(FILE *f, const char *name, struct exam_result result)
{
    if (isnan(result.error)) fprintf(f, " %s %.4f", name, result.mean);
    else fprintf(f, " %s %.4f +/- %.4f", name, result.mean, result.error);
}

void exam_report_print(const struct exam_report *r, FILE *f)
{
    for (int i = 0; i < r->list->n; i++) {
        const struct exam *x = &r->x[i];
        int n;
        const struct exam_metric *m = exam_metrics(x, &n);
        fprintf(f, "%s, %d question%s, %d-shot:", x->name, x->n, x->n == 1 ? "" : "s",
                x->n_examples);
        for (int k = 0; k < n; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s%s", m[k].name, strcmp(m[k].filter, "none") ? " " : "",
                     strcmp(m[k].filter, "none") ? m[k].filter : "");
            if (k) fputc(',', f);
            print_result(f, name, exam_result(x, k));
        }
        fputc('\n', f);
    }
    for (int g = 0; g <= TASK_GROUPS; g++) {
        if (!has_group(r, g)) continue;
        struct pooled p = pool(r, g);
        fprintf(f, "%s, %d subjects, %d questions:", group_name(g)->name, p.n_tasks, p.n);
        print_result(f, "acc", p.result);
        fputc('\n', f);
    }
}

/* ---- results.json */

static json_t *number(double v) { return isnan(v) ? json_string("N/A") : json_real(v); }

static void set_result(json_t *of, const struct exam_metric *m, struct exam_result result)
{
    char key[96];
    snprintf(key, sizeof key, "%s,%s", m->name, m->filter);
    json_object_set_new(of, key, json_real(result.mean));
    snprintf(key, sizeof key, "%s_stderr,%s", m->name, m->filter);
    json_object_set_new(of, key, number(result.error));
}

static json_t *task_result(const struct exam *x)
{
    int n;
    const struct exam_metric *m = exam_metrics(x, &n);
    json_t *j = json_pack("{s:s, s:s, s:i}", "name", x->name, "alias", x->alias, "sample_len",
                          x->n);
    for (int k = 0; k < n; k++) set_result(j, &m[k], exam_result(x, k));
    return j;
}

static json_t *group_result(const struct exam_report *r, int group)
{
    static const struct exam_metric acc = {"acc", "none"};
    struct pooled p = pool(r, group);
    json_t *j = json_pack("{s:s, s:s, s:i}", "alias", group_name(group)->alias, "name",
                          group_name(group)->name, "sample_len", p.n);
    set_result(j, &acc, p.result);
    json_object_set_new(j, "sample_count", json_pack("{s:i}", "acc,none", p.n));
    return j;
}

/* Names of the tasks of a group; of the group of all, those of the groups. */
static json_t *members(const struct exam_report *r, int group)
{
    static const enum task_group order[] = {TASK_STEM, TASK_OTHER, TASK_SOCIAL_SCIENCES,
                                            TASK_HUMANITIES};
    json_t *j = json_array();
    for (int g = 0; group == TASK_GROUPS && g < TASK_GROUPS; g++)
        json_array_append_new(j, json_string(task_groups[order[g]].name));
    for (int i = 0; group < TASK_GROUPS && i < r->list->n; i++)
        if (in_group(&r->x[i], group)) json_array_append_new(j, json_string(r->x[i].name));
    return j;
}

static json_t *stops(const struct task *t)
{
    json_t *j = json_array();
    for (int i = 0; i < TASK_MOST_STOPS && t->stop[i]; i++)
        json_array_append_new(j, json_string(t->stop[i]));
    return j;
}

static json_t *generation(const struct task *t)
{
    return json_pack("{s:o, s:b, s:f}", "until", stops(t), "do_sample", 0, "temperature", 0.0);
}

static json_t *metric_list(const struct exam *x)
{
    int n;
    const struct exam_metric *m = exam_metrics(x, &n);
    json_t *j = json_array();
    for (int k = 0; k < n; k++)
        if (!k || strcmp(m[k].name, m[k - 1].name))
            json_array_append_new(j, json_pack("{s:s, s:s, s:b}", "metric", m[k].name,
                                               "aggregation", "mean", "higher_is_better", 1));
    return j;
}

/* The definition of a task, as far as it is data. */
static json_t *config(const struct exam *x)
{
    const struct task *t = x->task;
    json_t *j =
        json_pack("{s:s, s:s, s:o, s:s, s:i, s:s, s:s, s:s, s:o, s:s, s:i, s:{s:f}}", "task",
                  x->name, "task_alias", x->alias, "data_file", json_text(x->docs.file->path),
                  !strcmp(t->split, "test") ? "test_split" : "validation_split", t->split,
                  "num_fewshot", x->n_examples, "target_delimiter", " ", "fewshot_delimiter",
                  "\n\n", "description", t->about ? t->about : "", "metric_list", metric_list(x),
                  "output_type", t->most_tokens ? "generate_until" : "multiple_choice", "repeats",
                  1, "metadata", "version", atof(t->version));
    if (x->n_examples) json_object_set_new(j, "fewshot_file", json_text(x->pool.file->path));
    if (t->most_tokens) json_object_set_new(j, "generation_kwargs", generation(t));
    return j;
}

static json_t *better(const struct exam *x)
{
    int n;
    const struct exam_metric *m = exam_metrics(x, &n);
    json_t *j = json_object();
    for (int k = 0; k < n; k++) json_object_set_new(j, m[k].name, json_true());
    return j;
}

static json_t *run_config(const struct exam_report *r)
{
    const struct options *o = r->o;
    json_t *args = json_pack("{s:o, s:s, s:s, s:s}", "pretrained", json_text(o->model), "act",
                             o->engine.act, "kv", o->engine.kv, "backend", r->identity);
    return json_pack("{s:s, s:o, s:s, s:s, s:n, s:o, s:{}, s:i, s:i, s:i, s:i}", "model",
                     "opt4gptq-run", "model_args", args, "batch_size", "auto", "device",
                     r->identity, "use_cache", "limit",
                     o->n_limit ? json_real(o->n_limit) : json_null(), "gen_kwargs", "random_seed",
                     0, "numpy_seed", 1234, "torch_seed", 1234, "fewshot_seed", 1234);
}

static void set_groups(const struct exam_report *r, json_t *j)
{
    json_t *groups = json_object(), *subtasks = json_object();
    for (int g = 0; g <= TASK_GROUPS; g++) {
        if (!has_group(r, g)) continue;
        const char *name = group_name(g)->name;
        json_object_set_new(groups, name, group_result(r, g));
        json_object_set_new(subtasks, name, members(r, g));
        json_object_set_new(json_object_get(j, "results"), name, group_result(r, g));
        json_object_set_new(json_object_get(j, "versions"), name, json_string("2"));
        json_object_set_new(json_object_get(j, "higher_is_better"), name,
                            json_pack("{s:b}", "acc", 1));
        for (int i = 0; i < r->list->n; i++)
            if (in_group(&r->x[i], g))
                json_object_set_new(json_object_get(j, "n-shot"), name,
                                    json_integer(r->x[i].n_examples));
    }
    if (json_object_size(groups)) json_object_set(j, "groups", groups);
    json_object_set_new(j, "group_subtasks", subtasks);
    json_decref(groups);
}

static int set_hashes(const struct exam_report *r, json_t *j, struct err *e)
{
    json_t *hashes = json_object();
    json_object_set_new(j, "task_hashes", hashes);
    for (int i = 0; i < r->list->n; i++) {
        char hex[EXAM_HASH];
        if (exam_hash_task(&r->x[i], hex, e)) return -1;
        json_object_set_new(hashes, r->x[i].name, json_string(hex));
    }
    return 0;
}

json_t *exam_report_json(const struct exam_report *r, struct err *e)
{
    json_t *j = json_pack("{s:{}, s:{}, s:{}, s:{}, s:{}, s:{}}", "results", "configs", "versions",
                          "n-shot", "higher_is_better", "n-samples");
    /* what there is nothing to say of */
    static const char *const of_python[] = {
        "git_hash",        "upper_git_hash",     "transformers_version",
        "pretty_env_info", "system_instruction", "system_instruction_sha",
        "chat_template",   "chat_template_sha",  "fewshot_as_multiturn"};
    char seconds[64];
    for (int i = 0; i < r->list->n; i++) {
        const struct exam *x = &r->x[i];
        json_object_set_new(json_object_get(j, "results"), x->name, task_result(x));
        json_object_set_new(json_object_get(j, "configs"), x->name, config(x));
        json_object_set_new(json_object_get(j, "versions"), x->name,
                            json_real(atof(x->task->version)));
        json_object_set_new(json_object_get(j, "n-shot"), x->name, json_integer(x->n_examples));
        json_object_set_new(json_object_get(j, "higher_is_better"), x->name, better(x));
        json_object_set_new(json_object_get(j, "n-samples"), x->name,
                            json_pack("{s:i, s:i}", "original", x->docs.n, "effective", x->n));
    }
    set_groups(r, j);
    snprintf(seconds, sizeof seconds, "%.6f", r->seconds);
    json_object_set_new(j, "config", run_config(r));
    for (size_t i = 0; i < sizeof of_python / sizeof *of_python; i++)
        json_object_set_new(j, of_python[i], json_null());
    if (set_hashes(r, j, e)) return json_decref(j), NULL;
    json_object_set_new(j, "date", json_real((double)time(NULL)));
    json_object_set_new(j, "lm_eval_version", json_string("0.4.13")); /* of the definitions */
    json_object_set_new(j, "max_length", json_integer(r->n_ctx));
    json_object_set_new(j, "model_source", json_string("opt4gptq-run"));
    json_object_set_new(j, "model_name", json_text(r->o->model));
    json_object_set_new(j, "total_evaluation_time_seconds", json_string(seconds));
    if (!json_check(e)) return j;
    json_decref(j);
    return NULL;
}

/* ---- single questions */

/* {"gen_args_0": {"arg_0": context, "arg_1": what follows it}, ...} */
static json_t *arguments(const struct exam *x, int q, struct err *e)
{
    const int most = x->task->most_tokens, n = most ? 1 : x->question[q].item.n_choices;
    json_t *all = json_object();
    for (int i = 0; i < n && all; i++) {
        char key[32], *context = exam_context(x, q, i, e),
                      *continuation = context && !most ? exam_continuation(x, q, i, e) : NULL;
        int bad = !context || (!most && !continuation);
        snprintf(key, sizeof key, "gen_args_%d", i);
        if (!bad)
            json_object_set_new(all, key,
                                json_pack("{s:o, s:o}", "arg_0", json_text(context), "arg_1",
                                          most ? generation(x->task) : json_text(continuation)));
        free(context);
        free(continuation);
        if (bad) json_decref(all), all = NULL;
    }
    return all;
}

/* ["log-likelihood", "True"] */
static json_t *response(const struct exam_question *q, int i)
{
    char text[48];
    snprintf(text, sizeof text, "%.17g", q->log_likelihood[i]);
    return json_pack("[s, s]", text, q->is_greedy[i] ? "True" : "False");
}

/* Of the answers after a filter. */
static void set_answers(json_t *j, const struct exam *x, int q, int filter)
{
    const struct exam_question *question = &x->question[q];
    json_t *all = json_array(), *filtered = json_array();
    for (int i = 0; !x->task->most_tokens && i < question->item.n_choices; i++) {
        json_array_append_new(all, json_pack("[o]", response(question, i)));
        json_array_append_new(filtered, response(question, i));
    }
    if (x->task->most_tokens) {
        json_array_append_new(all, json_pack("[o]", json_text(question->text)));
        json_array_append_new(filtered, json_text(question->found[filter]));
    }
    json_object_set_new(j, "resps", all);
    json_object_set_new(j, "filtered_resps", filtered);
}

static int write_sample(const struct exam *x, int q, int filter, FILE *f, struct err *e)
{
    int n;
    const struct exam_metric *m = exam_metrics(x, &n);
    json_t *args = arguments(x, q, e), *names = json_array();
    char *target = args ? exam_target(x, q, e) : NULL;
    struct exam_hash hash;
    json_t *j = json_pack("{s:i, s:o, s:o, s:o}", "doc_id", q, "doc", exam_document(x, q), "target",
                          json_text(target ? target : ""), "arguments", args);
    free(target);
    if (!args || !target || exam_hash(x, q, &hash, e))
        return json_decref(names), json_decref(j), -1;
    set_answers(j, x, q, filter);
    json_object_set_new(j, "filter", json_string(m[filter].filter));
    int first = x->task->most_tokens ? filter : 0, end = x->task->most_tokens ? filter + 1 : n;
    for (int k = first; k < end; k++) json_array_append_new(names, json_string(m[k].name));
    json_object_set_new(j, "metrics", names);
    json_object_set_new(j, "doc_hash", json_string(hash.document));
    json_object_set_new(j, "prompt_hash", json_string(hash.prompt));
    json_object_set_new(j, "target_hash", json_string(hash.target));
    for (int k = first; k < end; k++)
        json_object_set_new(j, m[k].name, json_real(x->question[q].right[k]));
    int rc = json_check(e);
    if (!rc) json_dumpf(j, f, 0), fputc('\n', f);
    json_decref(j);
    return rc;
}

int exam_report_samples(const struct exam *x, FILE *f, struct err *e)
{
    /* filters are in alphabetical order */
    for (int filter = exam_filters(x) - 1; filter >= 0; filter--)
        for (int q = 0; q < x->n; q++)
            if (write_sample(x, q, filter, f, e)) return -1;
    return 0;
}
