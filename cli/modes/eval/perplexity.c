/* perplexity.c: how well a model predicts a text, by the two conventions of the field.
 *
 * second-half (llama.cpp's): the text in windows of n_ctx tokens, the first of each replaced by BOS
 * where the tokenizer puts BOS before a text; the tokens after the middle are predicted, so that
 * every prediction has at least half a window of context.
 * contiguous (the GPTQ papers'): windows as they come, every token but the first is predicted. In
 * both the text is tokenized as one, without special tokens, and the last partial window is
 * dropped. */
#include "cli/modes/meter.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/modes/eval/score.h"
#include "core/base/clock.h"
#include "core/base/progress.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct window {
    struct score score;
    double nll, nll_squares; /* sums over its predicted tokens */
    int is_done;
};

struct perplexity {
    const struct options *o;
    struct scorer scorer;
    struct side_file samples, report;
    struct tok_ids text; /* BOS is put into the windows' places */
    size_t n_bytes, n_words;
    struct window *window;                       /* [n_windows] */
    int n_windows, n_begun, n_done, n_predicted; /* per window */
    size_t n_all; /* windows of the whole text; n_windows without --windows */
    struct progress progress;
};

struct result {
    double nll, nll_error, perplexity, perplexity_error, per_byte, per_word;
    long n_tokens;
};

static size_t count_words(const char *text, size_t n)
{
    size_t words = 0;
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)text[i]) && (i == 0 || isspace((unsigned char)text[i - 1])))
            words++;
    return words;
}

static int open_text(struct perplexity *p, struct err *e)
{
    const struct options *o = p->o;
    const struct model_config *g = &p->scorer.engine.model.config;
    char *text;
    if (run_read_text(o, &text, &p->n_bytes, e)) return -1;
    p->n_words = count_words(text, p->n_bytes);
    int rc = tok_encode(p->scorer.engine.tokenizer, text, p->n_bytes, 0, &p->text, e),
        n_ctx = p->scorer.n_ctx;
    free(text);
    if (rc) return -1;
    for (size_t i = 0; i < p->text.n; i++)
        if (p->text.id[i] >= g->vocab)
            return err_set(e, "token %zu of the text is id %d, the model's vocabulary ends at %d",
                           i, p->text.id[i], g->vocab - 1);
    if (n_ctx < 4) return err_set(e, "-c %d: a window has at least 4 tokens", n_ctx);
    size_t windows = p->text.n / (size_t)n_ctx;
    if (!windows)
        return err_set(e, "the text has %zu tokens, one window %d (-c sets the window)", p->text.n,
                       n_ctx);
    p->n_all = windows;
    p->n_windows = o->n_windows && (size_t)o->n_windows < windows ? o->n_windows
                   : windows > INT32_MAX                          ? INT32_MAX
                                                                  : (int)windows;
    int second_half = !strcmp(o->perplexity, "second-half"), from = second_half ? n_ctx / 2 + 1 : 1;
    size_t n_before;
    const int32_t *before = tok_before(p->scorer.engine.tokenizer, &n_before);
    if (!second_half) n_before = 0;
    if (n_before > (size_t)from)
        return err_set(e,
                       "-c %d: the tokenizer puts %zu tokens before a text, more than half a "
                       "window",
                       n_ctx, n_before);
    p->n_predicted = n_ctx - from;
    p->window = calloc((size_t)p->n_windows, sizeof *p->window);
    if (!p->window) return err_memory(e);
    for (int i = 0; i < p->n_windows; i++) {
        int32_t *id = p->text.id + (size_t)i * (size_t)n_ctx;
        if (n_before) memcpy(id, before, n_before * sizeof *id);
        p->window[i].score = (struct score){.id = id, .n = n_ctx, .from = from};
    }
    return 0;
}

static int next_window(void *arg, struct score **score, struct err *e)
{
    struct perplexity *p = arg;
    if (p->n_begun == p->n_windows) return 0;
    *score = &p->window[p->n_begun++].score;
    (*score)->logprob = malloc((size_t)p->n_predicted * sizeof(double));
    return (*score)->logprob ? 0 : err_memory(e);
}

/* Over the windows that are done, in their order, so that the sum does not depend on which ended
 * first. */
static struct result sum_up(const struct perplexity *p)
{
    struct result r = {0};
    double sum = 0, squares = 0;
    for (int i = 0; i < p->n_windows; i++)
        if (p->window[i].is_done) {
            sum += p->window[i].nll;
            squares += p->window[i].nll_squares;
            r.n_tokens += p->n_predicted;
        }
    double n = (double)r.n_tokens;
    r.nll = sum / n;
    double variance = (squares / n - r.nll * r.nll) * n / (n - 1);
    r.nll_error = sqrt(variance > 0 ? variance / n : 0);
    r.perplexity = exp(r.nll);
    r.perplexity_error = r.perplexity * r.nll_error;
    r.per_byte = r.nll * (double)p->text.n / (double)p->n_bytes;
    r.per_word = r.nll * (double)p->text.n / (double)p->n_words;
    return r;
}

/* A line that overwrites itself on a terminal, one every 30 s elsewhere. */
static void show_progress(struct perplexity *p)
{
    char done[64], left[PROGRESS_TEXT], perplexity[64];
    if (!progress_due(&p->progress)) return;
    struct result r = sum_up(p);
    snprintf(done, sizeof done, "%d of %d windows", p->n_done, p->n_windows);
    progress_left(&p->progress, p->n_done, p->n_windows, left);
    snprintf(perplexity, sizeof perplexity, "perplexity so far %.4f", r.perplexity);
    progress_show(&p->progress, (const char *const[]){done, left, perplexity}, 3);
}

static int window_done(void *arg, struct score *score, struct err *e)
{
    struct perplexity *p = arg;
    struct window *w = (struct window *)score; /* its first member */
    (void)e;
    for (int i = 0; i < p->n_predicted; i++) {
        w->nll -= score->logprob[i];
        w->nll_squares += score->logprob[i] * score->logprob[i];
    }
    if (!p->o->samples) {
        free(score->logprob);
        score->logprob = NULL;
    }
    w->is_done = 1;
    p->n_done++;
    show_progress(p);
    return 0;
}

static int report(struct perplexity *p, const struct result *r, double seconds, struct err *e)
{
    const struct options *o = p->o;
    FILE *f = side_begin(&p->report);
    struct out text = {0};
    out_text(&text, "{\n  \"model\": ");
    out_string(&text, o->model, strlen(o->model));
    out_text(&text, ",\n  \"file\": ");
    const char *file = o->file ? o->file : "";
    out_string(&text, file, strlen(file));
    int failed = out_failed(&text);
    if (!failed) fwrite(text.p, 1, text.n, f);
    out_free(&text);
    if (failed) return err_memory(e);
    fprintf(f,
            ",\n  \"mode\": \"%s\", \"n_ctx\": %d, \"windows\": %d, \"windows_of\": %zu, \"act\": "
            "\"%s\", \"kv\": \"%s\", \"backend\": \"%s\",\n"
            "  \"tokens\": %ld, \"perplexity\": %.17g, \"perplexity_stderr\": %.17g, \"nll\": "
            "%.17g, \"nll_stderr\": %.17g,\n"
            "  \"nll_per_byte\": %.17g, \"nll_per_word\": %.17g, \"bits_per_byte\": %.17g, "
            "\"byte_perplexity\": %.17g, \"word_perplexity\": "
            "%.17g,\n"
            "  \"seconds\": %.3f\n}\n",
            o->perplexity, p->scorer.n_ctx, p->n_done, p->n_all, o->engine.act, o->engine.kv,
            p->scorer.engine.identity, r->n_tokens, r->perplexity, r->perplexity_error, r->nll,
            r->nll_error, r->per_byte, r->per_word, r->per_byte / log(2), exp(r->per_byte),
            exp(r->per_word), seconds);
    return side_close(&p->report, e);
}

/* A line per window: the log-probability of each predicted token, for comparisons token by token.
 */
static int write_samples(struct perplexity *p, struct err *e)
{
    FILE *f = side_begin(&p->samples);
    for (int i = 0; i < p->n_windows; i++) {
        if (!p->window[i].is_done) continue;
        fprintf(f, "{\"window\": %d, \"first\": %d, \"logprobs\": [", i, p->window[i].score.from);
        for (int t = 0; t < p->n_predicted; t++)
            fprintf(f, t ? ", %.17g" : "%.17g", p->window[i].score.logprob[t]);
        fprintf(f, "]}\n");
    }
    return side_close(&p->samples, e);
}

int run_perplexity(const struct options *o, struct err *e)
{
    struct perplexity p = {.o = o};
    struct err ignored;
    int rc = side_open(&p.samples, "--samples", o->samples, e) ||
                     side_open(&p.report, "--report", o->report, e) ||
                     scorer_open(&p.scorer, o, e) || open_text(&p, e)
                 ? -1
                 : 0;
    run_catch_signals();
    progress_begin(&p.progress);
    if (!rc) rc = scorer_run(&p.scorer, next_window, window_done, &p, e);
    double seconds = clock_now() - p.progress.start;
    progress_clear();
    if (rc > 0) fprintf(stderr, "stopped after %d of %d windows\n", p.n_done, p.n_windows);
    if (rc >= 0 && p.n_done) {
        struct result r = sum_up(&p);
        printf("perplexity %.6g +/- %.4g (%s, %d window%s of %d tokens, %ld predicted)\n"
               "nll per token %.6f +/- %.6f, per byte %.6f, per word %.6f; word perplexity %.6g\n",
               r.perplexity, r.perplexity_error, o->perplexity, p.n_done, p.n_done == 1 ? "" : "s",
               p.scorer.n_ctx, r.n_tokens, r.nll, r.nll_error, r.per_byte, r.per_word,
               exp(r.per_word));
        fprintf(stderr, "%.1f s, %.1f tokens/s\n", seconds,
                (double)p.n_done * p.scorer.n_ctx / seconds);
        if (fflush(stdout)) rc = err_sys(e, "cannot write to stdout");
        if (rc >= 0 && o->samples && write_samples(&p, e)) rc = -1;
        if (rc >= 0 && o->report && report(&p, &r, seconds, e)) rc = -1;
    }
    for (int i = 0; p.window && i < p.n_windows; i++) free(p.window[i].score.logprob);
    free(p.window);
    tok_ids_free(&p.text);
    scorer_close(&p.scorer);
    side_close(&p.samples, &ignored);
    side_close(&p.report, &ignored);
    return rc < 0 ? 1 : rc > 0 ? 4 : 0;
}
