#include "cli/modes/eval/exam.h"

#include "cli/modes/eval/python_random.h"
#include "cli/modes/eval/task_answer.h"
#include "cli/modes/eval/task_text.h"
#include "cli/text/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- examples */

enum { SEED = 1234 };

static int lacks(const struct exam *x, int n_needed, struct err *e)
{
    const int one_more = n_needed > x->n_examples;
    return err_set(e, "%s: %d examples%s: %s has %d", x->name, x->n_examples,
                   one_more ? " and the question itself" : "", x->pool.file->path, x->pool.n);
}

/* Takes N of PICKED [n_picked] that are not the question itself; returns how many there are. */
static int keep_others(const struct exam *x, int q, const int32_t *picked, int n_picked, int n)
{
    int kept = 0;
    for (int i = 0; i < n_picked && kept < n; i++)
        if (!json_equal(x->pool.doc[picked[i]]->json, x->docs.doc[q]->json))
            x->question[q].example[kept++] = picked[i];
    return kept;
}

/* Draws one example more than asked for, and leaves out the question itself. Where copies of it
 * leave too few, draws once more from all others. ROOM [pool + 1] */
static int draw_but_it(struct exam *x, int q, struct python_random *r, int32_t *room, struct err *e)
{
    int n = x->n_examples, others = 0;
    if (python_random_sample(r, x->pool.n, n + 1, room, e)) return -1;
    if (keep_others(x, q, room, n + 1, n) == n) return 0;
    for (int i = 0; i < x->pool.n; i++)
        if (!json_equal(x->pool.doc[i]->json, x->docs.doc[q]->json)) room[others++] = i;
    if (others < n) return lacks(x, n + 1, e);
    int32_t *example = x->question[q].example;
    if (python_random_sample(r, others, n, example, e)) return -1;
    for (int i = 0; i < n; i++) example[i] = room[example[i]];
    return 0;
}

static int draw(struct exam *x, struct err *e)
{
    struct python_random r;
    int n = x->n_examples, but_it = x->task->examples == TASK_DRAWN_BUT_IT, rc = 0;
    if (n + but_it > x->pool.n) return lacks(x, n + but_it, e);
    int32_t *room = malloc((size_t)(x->pool.n + 1) * sizeof *room);
    if (!room) return err_memory(e);
    python_random_seed(&r, SEED);
    for (int q = 0; q < x->n && !rc; q++) {
        int32_t *example = x->question[q].example = malloc((size_t)n * sizeof *example);
        if (!example) rc = err_memory(e);
        else if (but_it) rc = draw_but_it(x, q, &r, room, e);
        else if (x->task->examples == TASK_DRAWN)
            rc = python_random_sample(&r, x->pool.n, n, example, e);
        else
            for (int i = 0; i < n; i++) example[i] = i;
    }
    free(room);
    return rc;
}

static int find_pool(struct exam *x, struct task_data *d, struct err *e)
{
    const struct task *t = x->task;
    const char *subject = x->subject ? x->subject->name : NULL;
    for (int i = 0; i < 2 && t->pools[i] && !x->pool.file; i++)
        if (task_data_find(d, &x->pool, t->data, subject, t->pools[i],
                           !strcmp(t->pools[i], t->split), e))
            return -1;
    if (x->pool.file) return 0;
    return err_set(e, "%s: %d examples: no file %s%s%s_%s.jsonl in %s", x->name, x->n_examples,
                   t->data, subject ? "_" : "", subject ? subject : "", t->pools[0], d->dir);
}

/* ---- opening */

static int find_questions(struct exam *x, struct task_data *d, struct err *e)
{
    const struct task *t = x->task;
    const char *subject = x->subject ? x->subject->name : NULL;
    if (task_data_find(d, &x->docs, t->data, subject, t->split, 1, e)) return -1;
    if (!x->docs.file)
        return err_set(e, "%s: no file %s%s%s_%s.jsonl in %s", x->name, t->data, subject ? "_" : "",
                       subject ? subject : "", t->split, d->dir);
    if (x->docs.n) return 0;
    return err_set(e, subject ? "%s: has no questions of subject %s" : "%s: has no questions",
                   x->docs.file->path, subject);
}

static int read_item(const struct exam *x, const struct task_docs *docs, int i,
                     struct task_item *it, struct err *e)
{
    *it = (struct task_item){0};
    if (!x->task->read(docs->doc[i]->json, it, e)) return 0;
    task_item_free(it);
    return err_is_memory(e) ? -1
                            : err_prefix(e, "%s line %d", docs->file->path, docs->doc[i]->line);
}

static int read_questions(struct exam *x, int limit, struct err *e)
{
    x->n = limit && limit < x->docs.n ? limit : x->docs.n;
    x->question = calloc((size_t)x->n, sizeof *x->question);
    if (!x->question) return x->n = 0, err_memory(e);
    for (int i = 0; i < x->n; i++) {
        struct exam_question *q = &x->question[i];
        if (read_item(x, &x->docs, i, &q->item, e)) return -1;
        if (!q->item.n_choices) continue;
        q->log_likelihood = calloc((size_t)q->item.n_choices, sizeof *q->log_likelihood);
        q->is_greedy = malloc((size_t)q->item.n_choices);
        if (!q->log_likelihood || !q->is_greedy) return err_memory(e);
        memset(q->is_greedy, 1, (size_t)q->item.n_choices);
    }
    return 0;
}

int exam_open(struct exam *x, struct task_data *d, const struct exam_ask *ask, struct err *e)
{
    const struct task *t = ask->task;
    *x = (struct exam){.task = t,
                       .subject = ask->subject,
                       .n_examples = ask->n_examples < 0 ? t->n_examples : ask->n_examples};
    if (!ask->subject) x->name = strdup(t->name);
    else if (asprintf(&x->name, "%s_%s", t->name, ask->subject->name) < 0) x->name = NULL;
    if (!x->name) return err_memory(e);
    x->alias = ask->subject ? ask->subject->name : t->name;
    if (find_questions(x, d, e) || read_questions(x, ask->limit, e)) return -1;
    return x->n_examples && (find_pool(x, d, e) || draw(x, e)) ? -1 : 0;
}

void exam_close(struct exam *x)
{
    for (int i = 0; i < x->n; i++) {
        struct exam_question *q = &x->question[i];
        task_item_free(&q->item);
        free(q->example);
        free(q->log_likelihood);
        free(q->is_greedy);
        free(q->text);
        for (int k = 0; k < EXAM_METRICS; k++) free(q->found[k]);
    }
    free(x->question);
    task_docs_free(&x->docs);
    task_docs_free(&x->pool);
    free(x->name);
    *x = (struct exam){0};
}

/* ---- texts */

int exam_shares_examples(const struct exam *x)
{
    return x->n_examples && x->task->examples == TASK_FIRST;
}

static void put_about(const struct exam *x, struct out *o)
{
    const char *about = x->task->about, *gap = about ? strstr(about, "%s") : NULL;
    if (!about) return;
    if (!gap) return out_text(o, about);
    out_bytes(o, about, (size_t)(gap - about));
    for (const char *c = x->subject->name; *c; c++) out_bytes(o, *c == '_' ? " " : c, 1);
    out_text(o, gap + 2);
}

/* Text, one space, what is right, an empty line; without these where nothing is right. */
static void put_example(const struct task_item *it, struct out *o)
{
    const char *right = it->target ? it->target : it->choice[it->gold];
    out_text(o, it->text ? it->text : it->choice[it->gold]);
    if (it->target && !*right) return;
    out_text(o, " ");
    out_text(o, right);
    out_text(o, "\n\n");
}

json_t *exam_document(const struct exam *x, int q)
{
    json_t *doc = json_copy(x->docs.doc[q]->json);
    if (doc && x->task->process) x->task->process(doc, &x->question[q].item);
    return doc;
}

static char *taken(struct out *o, struct err *e)
{
    out_bytes(o, "", 1);
    if (!out_failed(o)) return o->p;
    out_free(o);
    err_memory(e);
    return NULL;
}

char *exam_context(const struct exam *x, int q, int i, struct err *e)
{
    const struct exam_question *question = &x->question[q];
    struct out o = {0};
    put_about(x, &o);
    for (int k = 0; k < x->n_examples; k++) {
        struct task_item it;
        if (read_item(x, &x->pool, question->example[k], &it, e)) {
            out_free(&o);
            return NULL;
        }
        put_example(&it, &o);
        task_item_free(&it);
    }
    out_text(&o, question->item.text ? question->item.text : question->item.choice[i]);
    return taken(&o, e);
}

char *exam_continuation(const struct exam *x, int q, int i, struct err *e)
{
    const struct task_item *it = &x->question[q].item;
    struct out o = {0};
    out_text(&o, " ");
    out_text(&o, it->text ? it->choice[i] : it->target);
    return taken(&o, e);
}

char *exam_target(const struct exam *x, int q, struct err *e)
{
    const struct task_item *it = &x->question[q].item;
    struct out o = {0};
    if (it->target || it->letter) out_text(&o, it->target ? it->target : it->letter);
    else out_int(&o, it->gold);
    return taken(&o, e);
}

/* ---- verdicts */

/* The choice with the largest log-likelihood, divided by its length in characters or not; the first
 * of equals. */
static int best(const struct exam_question *q, int normalize)
{
    int best = 0;
    double top = -INFINITY;
    for (int i = 0; i < q->item.n_choices; i++) {
        double v = q->log_likelihood[i];
        if (normalize) v /= task_text_length(q->item.choice[i]);
        if (v > top) top = v, best = i;
    }
    return best;
}

int exam_judge(struct exam *x, int number, struct err *e)
{
    struct exam_question *q = &x->question[number];
    if (!x->task->most_tokens) {
        for (int i = 0; i <= x->task->normalizes; i++) q->right[i] = best(q, i) == q->item.gold;
        return 0;
    }
    q->found[0] = task_answer_strict(q->text);
    q->found[1] = task_answer_flexible(q->text);
    for (int i = 0; i < EXAM_METRICS; i++) {
        int is = q->found[i] ? task_answer_is(q->found[i], q->item.target) : -1;
        if (is < 0) return err_memory(e);
        q->right[i] = (unsigned char)is;
    }
    return 0;
}

const struct exam_metric *exam_metrics(const struct exam *x, int *n)
{
    static const struct exam_metric of_choices[] = {{"acc", "none"}, {"acc_norm", "none"}},
                                    of_answers[] = {{"exact_match", "strict-match"},
                                                    {"exact_match", "flexible-extract"}};
    *n = x->task->most_tokens ? EXAM_METRICS : 1 + x->task->normalizes;
    return x->task->most_tokens ? of_answers : of_choices;
}

int exam_filters(const struct exam *x) { return x->task->most_tokens ? EXAM_METRICS : 1; }

struct exam_result exam_result(const struct exam *x, int metric)
{
    double n = x->n, right = 0, squares = 0;
    for (int i = 0; i < x->n; i++) right += x->question[i].right[metric];
    double mean = right / n;
    for (int i = 0; i < x->n; i++) {
        double off = x->question[i].right[metric] - mean;
        squares += off * off;
    }
    return (struct exam_result){mean, n > 1 ? sqrt(squares / (n - 1)) / sqrt(n) : NAN};
}
