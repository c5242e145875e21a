/* documents.c: perplexity of documents, each by itself: JSON lines {"text": ..}. A document begins
 * with BOS where the tokenizer puts it there, and every token (without BOS: but the first) is
 * predicted once: those of a long document in windows of n_ctx + 1 tokens that overlap by one
 * (lm-evaluation-harness calls it rolling).
 *
 * Documents are drawn independently, tokens are not: the standard error is that of the ratio of two
 * sums over documents, nll / tokens (Cochran 1977, section 6.3). */
#include "cli/modes/batch/input.h"
#include "cli/modes/eval/score.h"
#include "cli/outputs.h"
#include "cli/text/out.h"
#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/progress.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct window {
    struct score score; /* first member: the score's address is the window's */
    struct document *document;
};

struct document {
    uint64_t line;
    struct tok_ids ids;
    size_t n_bytes, n_words;
    size_t first; /* the first token that is predicted */
    int n_begun, n_left, n_windows;
    struct window *window; /* [n_windows] */
    double *logprob;       /* [ids.n - first], with --samples */
    double nll;
    int is_done;
};

struct documents {
    const struct options *o;
    struct scorer scorer;
    struct side_file samples, report;
    struct document **document; /* [n] */
    size_t n, cap, n_begun, n_done, n_empty;
    struct progress progress;
};

struct sums {
    double nll, error, per_byte, per_word;
    long n_tokens, n_documents;
};

/* ---- reading */

static size_t count_words(const char *text, size_t n)
{
    size_t words = 0;
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)text[i]) && (i == 0 || isspace((unsigned char)text[i - 1])))
            words++;
    return words;
}

static int encode(struct documents *d, struct document *doc, const json_t *text, struct err *e)
{
    const struct model_config *g = &d->scorer.engine.model.config;
    struct tok_ids *ids = &doc->ids;
    const char *s = json_string_value(text);
    doc->n_bytes = json_string_length(text);
    doc->n_words = count_words(s, doc->n_bytes);
    const struct tokenizer *t = d->scorer.engine.tokenizer;
    size_t n_before;
    const int32_t *before = tok_before(t, &n_before);
    if (n_before) { /* room for them, before the text's ids */
        ids->cap = n_before + 64;
        if (!(ids->id = malloc(ids->cap * sizeof *ids->id))) return err_memory(e);
        memcpy(ids->id, before, n_before * sizeof *before);
        ids->n = n_before;
    }
    doc->first = n_before ? n_before : 1;
    if (doc->first >= (size_t)d->scorer.n_ctx)
        return err_set(e, "-c %d: a window has at least %zu tokens", d->scorer.n_ctx,
                       doc->first + 1);
    if (tok_encode(t, s, doc->n_bytes, 0, ids, e)) return -1;
    if (ids->n > 1 << 30) return err_set(e, "more than 2^30 tokens");
    for (size_t i = 0; i < ids->n; i++)
        if (ids->id[i] >= g->vocab)
            return err_set(e, "token %zu is id %d, the model's vocabulary ends at %d", i,
                           ids->id[i], g->vocab - 1);
    return 0;
}

/* Number of its tokens that are predicted. */
static size_t n_predicted(const struct document *doc)
{
    return doc->ids.n > doc->first ? doc->ids.n - doc->first : 0;
}

static void free_document(struct document *doc)
{
    tok_ids_free(&doc->ids);
    free(doc->logprob);
    free(doc->window);
    free(doc);
}

static int add(struct documents *d, const struct input_line *line, struct err *e)
{
    struct document *doc = calloc(1, sizeof *doc);
    if (!doc) return err_memory(e);
    doc->line = line->number;
    json_t *v = line->too_long ? NULL : json_read(line->text, line->n, JSON_ALLOW_NUL, NULL, e);
    const json_t *text = json_object_get(v, "text");
    int rc = line->too_long           ? err_set(e, "the line is longer than 64 MiB")
             : !v && err_is_memory(e) ? -1
             : !v                     ? err_prefix(e, "not JSON")
             : !json_is_string(text)  ? err_set(e, "has no \"text\" that is a string")
                                      : encode(d, doc, text, e);
    json_decref(v);
    if (!rc && !n_predicted(doc)) {
        d->n_empty++;
        free_document(doc);
        return 0;
    }
    if (!rc && d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 64;
        struct document **grown = realloc(d->document, cap * sizeof *grown);
        if (grown) d->document = grown, d->cap = cap;
        else rc = err_memory(e);
    }
    if (rc) {
        free_document(doc);
        return err_is_memory(e)
                   ? -1
                   : err_prefix(e, "%s: line %llu", d->o->file, (unsigned long long)line->number);
    }
    int step = d->scorer.n_ctx - 1, behind = (int)doc->ids.n - 1;
    doc->n_windows = doc->n_left = (behind + step - 1) / step;
    d->document[d->n++] = doc;
    return 0;
}

static int read_all(struct documents *d, struct err *e)
{
    struct input *in = NULL;
    struct input_line line;
    int more = 0, rc = 0;
    if (input_open(&in, d->o->file, NULL, e)) return -1;
    rc = input_check_text(in, e);
    while (!rc && !run_stop_requested && (!d->o->n_windows || d->n < (size_t)d->o->n_windows) &&
           (more = input_next(in, &line, e)) == 1)
        rc = add(d, &line, e);
    input_close(in);
    if (rc || more < 0) return -1;
    if (d->n_empty)
        fprintf(stderr, "note: %zu document%s without tokens to predict %s left out\n", d->n_empty,
                d->n_empty == 1 ? "" : "s", d->n_empty == 1 ? "is" : "are");
    return d->n ? 0 : err_set(e, "%s: has no documents", d->o->file);
}

/* ---- scoring */

static int next_window(void *arg, struct score **score, struct err *e)
{
    struct documents *d = arg;
    if (d->n_begun == d->n) return 0;
    struct document *doc = d->document[d->n_begun];
    int step = d->scorer.n_ctx - 1, first = doc->n_begun * step, n = (int)doc->ids.n - first;
    if (!doc->window && !(doc->window = calloc((size_t)doc->n_windows, sizeof *doc->window)))
        return err_memory(e);
    struct window *w = &doc->window[doc->n_begun];
    if (n > d->scorer.n_ctx) n = d->scorer.n_ctx;
    w->document = doc;
    w->score =
        (struct score){.id = doc->ids.id + first, .n = n, .from = first ? 1 : (int)doc->first};
    if (!doc->logprob && !(doc->logprob = malloc(n_predicted(doc) * sizeof *doc->logprob)))
        return err_memory(e);
    w->score.logprob = doc->logprob + (first ? (size_t)first + 1 - doc->first : 0);
    if (++doc->n_begun == doc->n_windows) d->n_begun++;
    *score = &w->score;
    return 0;
}

/* Over the documents that are done, in their order. */
static struct sums sum_up(const struct documents *d)
{
    struct sums s = {0};
    double squares = 0, bytes = 0, words = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct document *doc = d->document[i];
        if (!doc->is_done) continue;
        s.nll += doc->nll;
        s.n_tokens += (long)n_predicted(doc);
        s.n_documents++;
        bytes += (double)doc->n_bytes;
        words += (double)doc->n_words;
    }
    s.per_byte = s.nll / bytes;
    s.per_word = s.nll / words;
    s.nll /= (double)s.n_tokens;
    for (size_t i = 0; i < d->n; i++) {
        const struct document *doc = d->document[i];
        double off = doc->nll - s.nll * (double)n_predicted(doc);
        if (doc->is_done) squares += off * off;
    }
    double n = (double)s.n_documents;
    s.error = n > 1 ? sqrt(squares * n / (n - 1)) / (double)s.n_tokens : NAN;
    return s;
}

static void show_progress(struct documents *d)
{
    char done[64], left[PROGRESS_TEXT], perplexity[64];
    if (!progress_due(&d->progress)) return;
    snprintf(done, sizeof done, "%zu of %zu documents", d->n_done, d->n);
    progress_left(&d->progress, (double)d->n_done, (double)d->n, left);
    snprintf(perplexity, sizeof perplexity, "perplexity so far %.4f", exp(sum_up(d).nll));
    progress_show(&d->progress, (const char *const[]){done, left, perplexity}, 3);
}

static int window_done(void *arg, struct score *score, struct err *e)
{
    struct documents *d = arg;
    struct document *doc = ((struct window *)score)->document;
    (void)e;
    if (--doc->n_left) return 0;
    for (size_t i = 0; i < n_predicted(doc); i++) doc->nll -= doc->logprob[i];
    if (!d->o->samples) {
        free(doc->logprob);
        doc->logprob = NULL;
    }
    doc->is_done = 1;
    d->n_done++;
    show_progress(d);
    return 0;
}

/* ---- results */

static int write_samples(struct documents *d, struct err *e)
{
    FILE *f = side_begin(&d->samples);
    for (size_t i = 0; i < d->n; i++) {
        const struct document *doc = d->document[i];
        if (!doc->is_done) continue;
        fprintf(f,
                "{\"line\": %llu, \"tokens\": %zu, \"nll\": %.17g, \"perplexity\": %.17g, "
                "\"logprobs\": [",
                (unsigned long long)doc->line, n_predicted(doc), doc->nll,
                exp(doc->nll / (double)n_predicted(doc)));
        for (size_t t = 0; t < n_predicted(doc); t++)
            fprintf(f, t ? ", %.17g" : "%.17g", doc->logprob[t]);
        fprintf(f, "]}\n");
    }
    return side_close(&d->samples, e);
}

static int write_report(struct documents *d, const struct sums *s, double seconds, struct err *e)
{
    FILE *f = side_begin(&d->report);
    struct out text = {0};
    char error[2][32] = {"null", "null"};
    if (!isnan(s->error)) {
        snprintf(error[0], sizeof error[0], "%.17g", s->error);
        snprintf(error[1], sizeof error[1], "%.17g", s->error * exp(s->nll));
    }
    out_text(&text, "{\n  \"model\": ");
    out_string(&text, d->o->model, strlen(d->o->model));
    out_text(&text, ",\n  \"file\": ");
    out_string(&text, d->o->file, strlen(d->o->file));
    int failed = out_failed(&text);
    if (!failed) fwrite(text.p, 1, text.n, f);
    out_free(&text);
    if (failed) return err_memory(e);
    fprintf(
        f,
        ",\n  \"mode\": \"documents\", \"n_ctx\": %d, \"documents\": %ld, \"act\": \"%s\", \"kv\": "
        "\"%s\", \"backend\": \"%s\",\n"
        "  \"tokens\": %ld, \"perplexity\": %.17g, \"perplexity_stderr\": %s, \"nll\": %.17g, "
        "\"nll_stderr\": %s,\n"
        "  \"nll_per_byte\": %.17g, \"nll_per_word\": %.17g, \"bits_per_byte\": %.17g, "
        "\"byte_perplexity\": %.17g, \"word_perplexity\": %.17g,\n"
        "  \"seconds\": %.3f\n}\n",
        d->scorer.n_ctx, s->n_documents, d->o->engine.act, d->o->engine.kv,
        d->scorer.engine.identity, s->n_tokens, exp(s->nll), error[1], s->nll, error[0],
        s->per_byte, s->per_word, s->per_byte / log(2), exp(s->per_byte), exp(s->per_word),
        seconds);
    return side_close(&d->report, e);
}

static void print(const struct documents *d, const struct sums *s)
{
    if (isnan(s->error))
        printf("perplexity %.6g (one document: no standard error; %ld tokens predicted)\n",
               exp(s->nll), s->n_tokens);
    else
        printf("perplexity %.6g +/- %.4g (%ld documents, windows of %d tokens, %ld predicted)\n",
               exp(s->nll), s->error * exp(s->nll), s->n_documents, d->scorer.n_ctx, s->n_tokens);
    printf("nll per token %.6f, per byte %.6f, per word %.6f; word perplexity %.6g\n", s->nll,
           s->per_byte, s->per_word, exp(s->per_word));
}

int run_documents(const struct options *o, struct err *e)
{
    struct documents d = {.o = o};
    struct err ignored;
    int rc = side_open(&d.samples, "--samples", o->samples, e) ||
                     side_open(&d.report, "--report", o->report, e) ||
                     scorer_open(&d.scorer, o, e) || read_all(&d, e)
                 ? -1
                 : 0;
    run_catch_signals();
    progress_begin(&d.progress);
    if (!rc) rc = scorer_run(&d.scorer, next_window, window_done, &d, e);
    double seconds = clock_now() - d.progress.start;
    progress_clear();
    if (rc > 0) fprintf(stderr, "stopped after %zu of %zu documents\n", d.n_done, d.n);
    if (rc >= 0 && d.n_done) {
        struct sums s = sum_up(&d);
        print(&d, &s);
        fprintf(stderr, "%.1f s, %.1f tokens/s\n", seconds, (double)s.n_tokens / seconds);
        if (fflush(stdout)) rc = err_sys(e, "cannot write to stdout");
        if (rc >= 0 && o->samples && write_samples(&d, e)) rc = -1;
        if (rc >= 0 && o->report && write_report(&d, &s, seconds, e)) rc = -1;
    }
    for (size_t i = 0; i < d.n; i++) free_document(d.document[i]);
    free(d.document);
    scorer_close(&d.scorer);
    side_close(&d.samples, &ignored);
    side_close(&d.report, &ignored);
    return rc < 0 ? 1 : rc > 0 ? 4 : 0;
}
