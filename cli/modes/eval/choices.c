/* choices.c: accuracy on questions with given answers, as lm-evaluation-harness computes it for
 * ARC: the log-likelihood of " {choice}" after "{query}\nAnswer:", the whole tokenized together,
 * BOS in front where the tokenizer puts it. acc takes the likeliest choice, acc_norm the likeliest
 * per character. A question's first choice is scored before its others, which find its pages in the
 * cache. */
#include "cli/modes/meter.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/modes/eval/score.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/progress.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct question;

struct choice {
    struct score score; /* first member: the score's address is the choice's */
    struct question *question;
    char *text;
    double log_likelihood;
    int n_characters;
};

struct question {
    char *context;
    struct choice *choice; /* [n_choices] */
    int n_choices, gold, n_begun, n_done;
};

struct quiz {
    const struct options *o;
    struct scorer scorer;
    struct side_file samples, report;
    char *examples;            /* solved questions before each one, or "" */
    struct question *question; /* [n] */
    int n, cap, n_begun, n_done;
    int n_set; /* questions of the whole file; n without --limit */
    struct choice *
        *ready; /* [n_all] choices whose context is cached, in the order in which they became so */
    int n_all, ready_first, ready_count;
    struct progress progress;
};

static int utf8_length(const char *s)
{
    int n = 0;
    for (; *s; s++) n += (*s & 0xC0) != 0x80;
    return n;
}

static void free_question(struct question *q)
{
    for (int i = 0; q->choice && i < q->n_choices; i++) {
        free(q->choice[i].text);
        free((int32_t *)q->choice[i].score.id);
        free(q->choice[i].score.logprob);
    }
    free(q->choice);
    free(q->context);
}

/* {"query": "...", "choices": ["...", ...], "gold": i} */
static int parse_question(struct question *q, const char *line, struct err *e)
{
    json_t *j = json_read(line, strlen(line), JSON_REJECT_DUPLICATES, NULL, e);
    if (!j) return err_is_memory(e) ? -1 : err_prefix(e, "not JSON");
    const json_t *query = json_object_get(j, "query"), *choices = json_object_get(j, "choices"),
                 *gold = json_object_get(j, "gold");
    size_t n = json_array_size(choices);
    int rc = 0;
    if (!json_is_string(query)) rc = err_set(e, "\"query\" is not a string");
    else if (n < 2 || n > 1000) rc = err_set(e, "\"choices\" is not a list of at least two");
    else if (!json_is_integer(gold) || json_integer_value(gold) < 0 ||
             (size_t)json_integer_value(gold) >= n)
        rc = err_set(e, "\"gold\" is not the index of a choice");
    for (size_t i = 0; i < n && !rc; i++)
        if (!json_string_length(json_array_get(choices, i)))
            rc = err_set(e, "choice %zu is not a string or empty", i);
    if (!rc) {
        *q = (struct question){.n_choices = (int)n, .gold = (int)json_integer_value(gold)};
        if (asprintf(&q->context, "%s\nAnswer:", json_string_value(query)) < 0) q->context = NULL;
        q->choice = calloc(n, sizeof *q->choice);
        int failed = !q->context || !q->choice;
        for (size_t i = 0; i < n && !failed; i++) {
            struct choice *c = &q->choice[i];
            c->text = strdup(json_string_value(json_array_get(choices, i)));
            failed = !c->text;
            if (c->text) c->n_characters = utf8_length(c->text);
        }
        if (failed) {
            free_question(q);
            rc = err_memory(e);
        }
    }
    json_decref(j);
    return rc;
}

/* Calls take() with every question of the file, at most `limit` (0: all); take owns it. *n_all (may
 * be NULL) counts the lines of the others as well. */
static int read_questions(const char *path, int limit,
                          int (*take)(void *arg, struct question *q, struct err *e), void *arg,
                          int *n_all, struct err *e)
{
    FILE *f = fopen(path, "re");
    if (!f) return err_sys(e, "%s", path);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    for (int number = 1, taken = 0;
         !rc && (n_all || !limit || taken < limit) && (n = getline(&line, &cap, f)) >= 0;
         number++) {
        if (line[strspn(line, " \t\r\n")] == 0) continue;
        if (n_all) ++*n_all;
        if (limit && taken == limit) continue;
        struct question q;
        rc = strlen(line) != (size_t)n ? err_set(e, "a zero byte") : parse_question(&q, line, e);
        if (rc) err_prefix(e, "%s line %d", path, number);
        else rc = take(arg, &q, e), taken++;
    }
    if (!rc && ferror(f)) rc = err_sys(e, "%s", path);
    free(line);
    fclose(f);
    return rc;
}

static int take_question(void *arg, struct question *q, struct err *e)
{
    struct quiz *z = arg;
    if (z->n == z->cap) {
        int cap = z->cap ? 2 * z->cap : 256;
        struct question *grown = realloc(z->question, (size_t)cap * sizeof *grown);
        if (!grown) {
            free_question(q);
            return err_memory(e);
        }
        z->question = grown;
        z->cap = cap;
    }
    z->question[z->n++] = *q;
    z->n_all += q->n_choices;
    return 0;
}

static int take_example(void *arg, struct question *q, struct err *e)
{
    struct quiz *z = arg;
    char *longer;
    int n = asprintf(&longer, "%s%s %s\n\n", z->examples, q->context, q->choice[q->gold].text);
    free_question(q);
    if (n < 0) return err_memory(e);
    free(z->examples);
    z->examples = longer;
    return 0;
}

/* What the tokenizer puts before a text (a text that begins with it already gets no other), context
 * and continuation as lm-evaluation-harness encodes the pair: what the whole has more tokens than
 * the context is the continuation. Over n_ctx tokens the beginning is cut off. */
static int encode(const struct quiz *z, const struct question *q, struct choice *c, struct err *e)
{
    const struct tokenizer *t = z->scorer.engine.tokenizer;
    const struct model_config *g = &z->scorer.engine.model.config;
    struct tok_ids context = {0}, whole = {0};
    char *text = NULL;
    int rc = -1, n_ctx = z->scorer.n_ctx;
    if (asprintf(&text, "%s%s %s", z->examples, q->context, c->text) < 0) {
        text = NULL;
        err_memory(e);
    } else if (!tok_encode(t, text, strlen(z->examples) + strlen(q->context), 0, &context, e) &&
               !tok_encode(t, text, strlen(text), 0, &whole, e)) {
        size_t n_before;
        const int32_t *before = tok_before(t, &n_before);
        if (n_before && context.n && context.id[0] == before[0]) n_before = 0;
        int bos = (int)n_before, n = (int)whole.n + bos, cut = n > n_ctx ? n - n_ctx : 0,
            from = (int)context.n + bos - cut;
        int32_t *id = malloc((size_t)n * sizeof *id);
        c->score = (struct score){.id = id, .n = n - cut, .from = from};
        c->score.logprob = malloc((size_t)(n + 1) * sizeof(double));
        if (!id || !c->score.logprob) err_memory(e);
        else if (whole.n <= context.n || from < 1)
            err_set(e, "the choice \"%.40s\" %s", c->text,
                    from < 1 ? "does not fit into the context" : "has no tokens");
        else rc = 0;
        for (int i = cut; i < n && !rc; i++) {
            id[i - cut] = i < bos ? before[i] : whole.id[i - bos];
            if (id[i - cut] >= g->vocab)
                rc = err_set(e, "token id %d: the model's vocabulary ends at %d", id[i - cut],
                             g->vocab - 1);
        }
    }
    free(text);
    tok_ids_free(&context);
    tok_ids_free(&whole);
    return rc;
}

static int open_questions(struct quiz *z, struct err *e)
{
    const struct options *o = z->o;
    z->examples = strdup("");
    if (!z->examples) return err_memory(e);
    if (o->n_few_shot && read_questions(o->few_shot_file, o->n_few_shot, take_example, z, NULL, e))
        return -1;
    if (read_questions(o->choices, o->n_limit, take_question, z, &z->n_set, e)) return -1;
    if (!z->n) return err_set(e, "%s: has no questions", o->choices);
    z->ready = malloc((size_t)z->n_all * sizeof *z->ready);
    if (!z->ready) return err_memory(e);
    for (int i = 0; i < z->n; i++)
        for (int j = 0; j < z->question[i].n_choices; j++) {
            z->question[i].choice[j].question = &z->question[i];
            if (encode(z, &z->question[i], &z->question[i].choice[j], e))
                return err_prefix(e, "%s question %d", o->choices, i + 1);
        }
    return 0;
}

static int next_choice(void *arg, struct score **score, struct err *e)
{
    struct quiz *z = arg;
    (void)e;
    if (z->ready_count) {
        *score = &z->ready[z->ready_first++]->score;
        z->ready_count--;
    } else if (z->n_begun < z->n) {
        *score = &z->question[z->n_begun++].choice[0].score;
    }
    return 0;
}

static void show_progress(struct quiz *z)
{
    char done[64], left[PROGRESS_TEXT];
    if (!progress_due(&z->progress)) return;
    snprintf(done, sizeof done, "%d of %d questions", z->n_done, z->n);
    progress_left(&z->progress, z->n_done, z->n, left);
    progress_show(&z->progress, (const char *const[]){done, left}, 2);
}

static int choice_done(void *arg, struct score *score, struct err *e)
{
    struct quiz *z = arg;
    struct choice *c = (struct choice *)score;
    struct question *q = c->question;
    (void)e;
    for (int i = 0; i < score->n - score->from; i++) c->log_likelihood += score->logprob[i];
    if (c == q->choice)
        for (int i = 1; i < q->n_choices; i++)
            z->ready[z->ready_first + z->ready_count++] = &q->choice[i];
    if (++q->n_done == q->n_choices) z->n_done++;
    show_progress(z);
    return 0;
}

/* The choice with the largest log-likelihood, divided by its length in characters or not; the first
 * one on ties. */
static int best(const struct question *q, int normalize)
{
    int best = 0;
    double top = -INFINITY;
    for (int i = 0; i < q->n_choices; i++) {
        double v = q->choice[i].log_likelihood / (normalize ? q->choice[i].n_characters : 1);
        if (v > top) top = v, best = i;
    }
    return best;
}

struct accuracy {
    double value, error;
};

static struct accuracy accuracy(const struct quiz *z, int normalize)
{
    int right = 0;
    for (int i = 0; i < z->n; i++) right += best(&z->question[i], normalize) == z->question[i].gold;
    double p = (double)right / z->n;
    return (struct accuracy){p, z->n > 1 ? sqrt(p * (1 - p) / (z->n - 1))
                                         : 0}; /* of the mean, with the sample's deviation */
}

static int write_samples(struct quiz *z, struct err *e)
{
    FILE *f = side_begin(&z->samples);
    for (int i = 0; i < z->n; i++) {
        const struct question *q = &z->question[i];
        fprintf(f, "{\"doc_id\": %d, \"target\": %d, \"loglikelihoods\": [", i, q->gold);
        for (int j = 0; j < q->n_choices; j++)
            fprintf(f, j ? ", %.17g" : "%.17g", q->choice[j].log_likelihood);
        fprintf(f, "], \"acc\": %d, \"acc_norm\": %d}\n", best(q, 0) == q->gold,
                best(q, 1) == q->gold);
    }
    return side_close(&z->samples, e);
}

/* The questions' file without folder and ending, as UTF-8: what lm-evaluation-harness would call
 * the task. */
static json_t *task_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash ? slash + 1 : path), *dot = name ? strrchr(name, '.') : NULL;
    if (dot && dot != name) *dot = 0;
    json_t *j = json_text(name);
    free(name);
    return j;
}

/* The shape of lm-evaluation-harness's results.json. */
static int write_report(struct quiz *z, const char *task, double seconds, struct err *e)
{
    const struct options *o = z->o;
    struct accuracy acc = accuracy(z, 0), norm = accuracy(z, 1);
    json_t *j = json_pack("{s:{s:{s:s, s:f, s:f, s:f, s:f}}, s:{s:i}, s:{s:{s:i, s:i}}, s:{s:s, "
                          "s:o, s:s, s:s, s:s, s:o?}, s:f}",
                          "results", task, "alias", task, "acc,none", acc.value, "acc_stderr,none",
                          acc.error, "acc_norm,none", norm.value, "acc_norm_stderr,none",
                          norm.error, "n-shot", task, o->n_few_shot, "n-samples", task, "original",
                          z->n_set, "effective", z->n, "config", "model", "opt4gptq-run",
                          "model_args", json_text(o->model), "act", o->engine.act, "kv",
                          o->engine.kv, "backend", z->scorer.engine.identity, "few_shot_file",
                          json_text(o->few_shot_file), "total_evaluation_time_seconds", seconds);
    if (!j) return err_memory(e);
    json_dumpf(j, side_begin(&z->report), JSON_INDENT(2));
    json_decref(j);
    return json_check(e) ? -1 : side_close(&z->report, e);
}

static int finish(struct quiz *z, double seconds, struct err *e)
{
    json_t *task = task_name(z->o->choices);
    if (!task) return err_memory(e);
    const char *name = json_string_value(task);
    char shown[PRINTABLE];
    struct accuracy acc = accuracy(z, 0), norm = accuracy(z, 1);
    printf("%s, %d question%s, %d-shot: acc %.4f +/- %.4f, acc_norm %.4f +/- %.4f\n",
           printable_text(name, shown), z->n, z->n == 1 ? "" : "s", z->o->n_few_shot, acc.value, acc.error, norm.value, norm.error);
    fprintf(stderr, "%.1f s\n", seconds);
    int rc = fflush(stdout) ? err_sys(e, "cannot write to stdout") : 0;
    if (!rc && z->o->samples) rc = write_samples(z, e);
    if (!rc && z->o->report) rc = write_report(z, name, seconds, e);
    json_decref(task);
    return rc;
}

int run_choices(const struct options *o, struct err *e)
{
    struct quiz z = {.o = o};
    struct err ignored;
    int rc = side_open(&z.samples, "--samples", o->samples, e) ||
                     side_open(&z.report, "--report", o->report, e) ||
                     scorer_open(&z.scorer, o, e) || open_questions(&z, e)
                 ? -1
                 : 0;
    run_catch_signals();
    progress_begin(&z.progress);
    if (!rc) rc = scorer_run(&z.scorer, next_choice, choice_done, &z, e);
    progress_clear();
    if (rc > 0) fprintf(stderr, "stopped after %d of %d questions: no accuracy\n", z.n_done, z.n);
    if (!rc) rc = finish(&z, clock_now() - z.progress.start, e);
    for (int i = 0; i < z.n; i++) free_question(&z.question[i]);
    free(z.question);
    free(z.ready);
    free(z.examples);
    scorer_close(&z.scorer);
    side_close(&z.samples, &ignored);
    side_close(&z.report, &ignored);
    return rc < 0 ? 1 : rc > 0 ? 4 : 0;
}
