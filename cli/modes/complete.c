/* complete.c: one prompt: open, evaluate, generate, report. */
#include "cli/run.h"

#include "cli/text/constraint_text.h"
#include "cli/text/scores.h"
#include "cli/text/show.h"
#include "core/base/clock.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/units.h"
#include "engine/engine.h"
#include "engine/sampling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOGITS_BYTES = 64 << 20 };

/* Everything that one completion holds; closed in one place. */
struct completion {
    const struct options *o;
    struct engine engine;
    struct request request;
    struct sampling_memory sampling;
    struct constraint_one constraint;
    struct show show; /* of text */
    struct logits_file *logits;
    int logits_of_prompt, logits_of_text;
    struct tok_ids chosen; /* with logits_of_text or a grammar */
    enum finish finish;
    struct scores scores;  /* --logprobs */
    struct tok_ids prompt;
    char *text; /* prompt as text or NULL */
    size_t text_bytes;
    const struct reasoning_tags *tags; /* of the chat template, or NULL */
    int n_ctx, n_used, n_generated, text_mode;
    int begun, ended_by_text;
    double load_s, prompt_s, generate_s;
};

static int read_prompt(struct completion *c, struct err *e)
{
    const struct options *o = c->o;
    if (o->prompt_ids) {
        if (run_parse_ids(o->prompt_ids, &c->prompt, e)) return err_prefix(e, "--prompt-ids");
    } else {
        if (!c->engine.tokenizer)
            return err_set(e, "%s: has no tokenizer: give the prompt as --prompt-ids", o->model);
        if (o->chat
                ? run_chat_prompt(o, &c->engine.model.file, &c->text, &c->text_bytes, &c->tags, e)
                : run_read_text(o, &c->text, &c->text_bytes, e))
            return -1;
        /* a chat template writes BOS itself */
        if (tok_encode(c->engine.tokenizer, c->text, c->text_bytes, !o->chat, &c->prompt, e))
            return -1;
    }
    if (!c->prompt.n) return err_set(e, "the prompt is empty");
    for (size_t i = 0; i < c->prompt.n; i++)
        if (c->prompt.id[i] >= c->engine.model.config.vocab)
            return err_set(e, "prompt token %zu is id %d, the model's vocabulary ends at %d", i,
                           c->prompt.id[i], c->engine.model.config.vocab - 1);
    c->n_ctx = engine_context(&c->engine);
    engine_say_context(&c->engine);
    if (c->prompt.n >= (size_t)c->n_ctx)
        return err_set(e,
                       "the prompt has %zu token%s, the context %d: no room for an answer (-c sets "
                       "the context)",
                       c->prompt.n, units_s(c->prompt.n), c->n_ctx);
    return 0;
}

/* Rows whose logits one step hands out: as many as LOGITS_BYTES hold, where a file takes them. */
static int rows_of_logits(const struct completion *c)
{
    size_t row = (size_t)c->engine.model.config.vocab * sizeof(float);
    const int many = c->logits_of_prompt || c->o->logprobs >= 0;
    return many && row < LOGITS_BYTES ? (int)(LOGITS_BYTES / row) : 1;
}

static int open_engine(struct completion *c, struct err *e)
{
    const struct options *o = c->o;
    struct engine *g = &c->engine;
    if (engine_open_model(g, o->model, &o->engine, e)) return -1;
    if (c->text_mode && !g->tokenizer && o->n_predict)
        return err_set(e, "%s: has no tokenizer: --format ids prints token ids", o->model);
    if (read_prompt(c, e) || sampling_open(&c->request.sampling, &c->sampling, &o->sampling,
                                           &g->model.file, g->tokenizer, g->model.config.vocab, e))
        return -1;
    const struct model_config *m = &g->model.config;
    const struct vocabulary_source tokens = {g->tokenizer, m->eos, m->n_eos, m->vocab};
    if (constraint_one_open(&c->constraint, o, &tokens, &c->request.grammar, e)) return -1;
    int n_prompt = (int)c->prompt.n;
    c->n_used = o->n_predict >= 0 && o->n_predict < c->n_ctx - n_prompt ? n_prompt + o->n_predict
                                                                        : c->n_ctx;
    return engine_open_one(g, &(struct engine_one){n_prompt, c->n_used, rows_of_logits(c)}, e);
}

static int open_all(struct completion *c, struct err *e)
{
    const struct options *o = c->o;
    const char *of = !o->logits_out ? "" : o->logits_of ? o->logits_of : "prompt";
    c->logits_of_prompt = !strcmp(of, "prompt") || !strcmp(of, "all");
    c->logits_of_text = !strcmp(of, "generated") || !strcmp(of, "all");
    run_say_seed(o, o->sampling.seed.value);
    if (open_engine(c, e)) return -1;
    if (o->logprobs >= 0 && !c->engine.tokenizer)
        return err_set(e, "%s: has no tokenizer: --logprobs prints tokens as text", o->model);
    if (o->logprobs >= 0 &&
        scores_open(&c->scores, c->engine.tokenizer, !strcmp(o->format, "jsonl"), e))
        return -1;
    const struct show_how how = {.tokenizer = c->engine.tokenizer,
                                 .special = o->special,
                                 .stop = &o->stop,
                                 .reasoning = show_reasoning_of(o),
                                 .tags = c->tags,
                                 .terminal = isatty(1)};
    if (how.tokenizer && show_open(&c->show, &how, &c->prompt, c->text, c->text_bytes, e))
        return -1;
    run_say_on_signal("\nstopping after this step; a second signal ends at once\n",
                      "stopped at once\n");
    run_catch_signals();
    return o->logits_out
               ? logits_file_open(&c->logits, o->logits_out, c->engine.model.config.vocab, e)
               : 0;
}

static int close_all(struct completion *c, int failed, struct err *e)
{
    int rc = c->logits && c->logits_of_text && !failed
                 ? logits_file_ids(c->logits, c->chosen.id, c->chosen.n, e)
                 : 0;
    if (logits_file_close(c->logits, !failed && !rc, rc ? &(struct err){0} : e)) rc = -1;
    scores_close(&c->scores);
    tok_ids_free(&c->chosen);
    show_close(&c->show);
    engine_close(&c->engine);
    constraint_one_close(&c->constraint);
    sampling_close(&c->sampling);
    tok_ids_free(&c->prompt);
    free(c->text);
    return rc;
}

static void say_machine(const struct completion *c)
{
    const struct model_config *g = &c->engine.model.config;
    const int n_quantized = step_plan_n_quantized(&c->engine.model.plan);
    char name[PRINTABLE];
    fprintf(stderr,
            "model: %s, %d layer%s, %d head%s (%d KV) of %d, vocabulary %d, context %d, %d 4-bit "
            "linear%s\n",
            printable_text(g->architecture, name), g->n_layers, units_s((uint64_t)g->n_layers),
            g->n_heads, units_s((uint64_t)g->n_heads), g->n_kv_heads, g->head_dim, g->vocab,
            g->context, n_quantized, units_s((uint64_t)n_quantized));
    struct sched_stats s;
    sched_stats(c->engine.sched, &s);
    char machine[400];
    placement_describe(&c->engine.forward, machine, sizeof machine);
    fprintf(stderr, "machine: %s; KV cache %.1f MiB for %d positions", machine,
            (double)engine_cache_bytes(&c->engine) / (1 << 20),
            c->engine.forward.options.n_pages * KV_PAGE);
    if (s.n_states) fprintf(stderr, ", states %.1f MiB", (double)s.state_bytes / (1 << 20));
    fputc('\n', stderr);
    run_say_variants(c->o, &c->engine);
}

static int is_eos(const struct model_config *g, int32_t id)
{
    for (int i = 0; i < g->n_eos; i++)
        if (g->eos[i] == id) return 1;
    return 0;
}

/* Shows one generated token. Returns 1 when a stop string ended the text. */
static int show(struct completion *c, int32_t id, struct err *e)
{
    char number[16];
    if (c->text_mode) return show_token(&c->show, id, e);
    return show_put(number,
                    (size_t)snprintf(number, sizeof number, c->n_generated ? " %d" : "%d", id), e);
}

/* --- what the scheduler calls */
static int on_logits(void *arg, int pos, const float *logits, struct err *e)
{
    (void)pos;
    return logits_file_write(((struct completion *)arg)->logits, logits, 1, e);
}

static int on_token_logits(void *arg, int choice, const float *logits, struct err *e)
{
    struct completion *c = arg;
    int last_of_prompt = !c->chosen.n && c->logits_of_prompt; /* this row is there already */
    (void)choice;
    return last_of_prompt ? 0 : logits_file_write(c->logits, logits, 1, e);
}

/* A token with --logprobs; the first of the text has none. EOS is listed, too. */
static int list(struct completion *c, const struct token_info *t, int is_prompt, struct err *e)
{
    const struct token_info first = {.id = c->prompt.id[0], .logprob = NAN};
    if (!c->scores.n && scores_add(&c->scores, &first, 1, e)) return -1;
    return scores_add(&c->scores, t, is_prompt, e);
}

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    (void)pos;
    return list(arg, t, 1, e);
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct completion *c = arg;
    (void)choice;
    if (!c->begun) progress_clear();
    if ((c->logits_of_text || c->request.grammar) && run_keep_id(&c->chosen, t->id, e)) return -1;
    if (c->o->logprobs >= 0) {
        c->begun = 1;
        c->n_generated++;
        return list(c, t, 0, e);
    }
    if (!c->begun && c->text && c->text_mode && !c->o->no_display_prompt && !c->o->chat &&
        show_put(c->text, c->text_bytes, e))
        return -1;
    c->begun = 1;
    if (is_eos(&c->engine.model.config, t->id) && !c->o->sampling.ignore_eos) return 0;
    c->ended_by_text = show(c, t->id, e);
    c->n_generated++;
    return c->ended_by_text;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)choice, (void)e;
    ((struct completion *)arg)->finish = why;
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    return msg ? err_set(e, "%s: %s", ((struct completion *)arg)->o->model, msg) : 0;
}

/* How far the prompt is; where its tokens are listed, the list shows it. */
static void show_progress(struct completion *c, struct progress *p, size_t n_prompt)
{
    char done[64], left[PROGRESS_TEXT];
    if (c->begun || c->o->logprobs >= 0 || n_prompt >= c->prompt.n || !progress_due(p)) return;
    snprintf(done, sizeof done, "prompt %zu of %zu tokens", n_prompt, c->prompt.n);
    progress_left(p, (double)n_prompt, (double)c->prompt.n, left);
    progress_show(p, (const char *const[]){done, left}, 2);
}

/* Steps until the answer is complete or a signal asks for the end; *n_prompt receives the prompt
 * tokens computed or found. */
static int compute(struct completion *c, size_t *n_prompt, struct err *e)
{
    struct request *r = &c->request;
    const struct request_sink sink = {.prompt_token = on_prompt_token,
                                      .prompt_logits = c->logits_of_prompt ? on_logits : NULL,
                                      .token_logits = c->logits_of_text ? on_token_logits : NULL,
                                      .token = on_token,
                                      .finished = on_finished,
                                      .done = on_done};
    r->prompt = c->prompt.id;
    r->n_prompt = (int)c->prompt.n;
    r->n_choices = 1;
    r->max_tokens = c->n_used - r->n_prompt;
    r->n_top = r->prompt_top = c->o->logprobs >= 0 ? c->o->logprobs : -1;
    r->score_from = 1;
    r->sink = &sink;
    r->arg = c;
    struct progress progress;
    progress_begin(&progress);
    int rc = sched_submit(c->engine.sched, r, e) ? -1 : 1;
    while (rc > 0 && !run_stop_requested) {
        double *seconds = c->begun ? &c->generate_s : &c->prompt_s, before = clock_now();
        struct sched_stats stats;
        rc = sched_step(c->engine.sched, e);
        sched_stats(c->engine.sched, &stats);
        *n_prompt = stats.n_prompt_tokens + stats.n_cached_tokens;
        *seconds += clock_now() - before;
        show_progress(c, &progress, *n_prompt);
    }
    progress_clear();
    if (rc < 0) return -1;
    if (c->o->logprobs >= 0) scores_end(&c->scores);
    if (!c->begun || c->o->logprobs >= 0) return 0;
    return c->text_mode ? show_end(&c->show, c->ended_by_text, e) : show_put("\n", 1, e);
}

/* Nothing where no time has passed that the clock sees. */
static void put_rate(int n, double seconds)
{
    if (seconds > 0) fprintf(stderr, " (%.1f tok/s)", n / seconds);
}

static void report(const struct completion *c)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    struct sched_stats s;
    sched_stats(c->engine.sched, &s);
    int n = (int)c->prompt.n,
        decoded = c->n_generated > 1 ? c->n_generated - 1
                                     : 0; /* the first token comes from the prompt's logits */
    fprintf(stderr, "\nload %.3f s; prompt %d token%s", c->load_s, n, n == 1 ? "" : "s");
    if (c->o->engine.prefix_dir)
        fprintf(stderr, ", %llu of them from disk,", (unsigned long long)s.n_stored_tokens);
    fprintf(stderr, " in %.3f s", c->prompt_s);
    put_rate(n - (int)s.n_stored_tokens, c->prompt_s);
    fprintf(stderr, "; generated %d token%s", c->n_generated, c->n_generated == 1 ? "" : "s");
    if (decoded) fprintf(stderr, " in %.3f s", c->generate_s);
    if (decoded) put_rate(decoded, c->generate_s);
    if (s.n_drafted_tokens)
        fprintf(stderr, "; drafts %llu token%s, %llu right", (unsigned long long)s.n_drafted_tokens,
                units_s(s.n_drafted_tokens), (unsigned long long)s.n_accepted_tokens);
    fprintf(stderr, "; peak memory %.0f MiB\n", (double)u.ru_maxrss / 1024);
}

int run_complete(const struct options *o, struct err *e)
{
    struct completion c = {.o = o, .text_mode = !strcmp(o->format, "text")};
    double t0 = clock_now();
    size_t n_prompt = 0; /* computed or found */
    int rc = open_all(&c, e), stopped = 0;
    if (!rc) {
        c.load_s = clock_now() - t0;
        run_say_slow(o);
        if (o->verbose) say_machine(&c);
        rc = compute(&c, &n_prompt, e);
        stopped = n_prompt < c.prompt.n; /* by a signal, within the prompt */
        if (!rc && stopped)
            fprintf(stderr, "\nstopped after %zu of %zu prompt tokens in %.3f s\n", n_prompt,
                    c.prompt.n, c.prompt_s);
        else if (!rc) report(&c);
        if (!rc && !stopped && c.request.grammar && c.finish == FINISH_LENGTH && c.chosen.n)
            rc = run_say_cut(c.request.grammar, &c.chosen, c.n_used == c.n_ctx, e);
    }
    struct err close_err = {0};
    if (close_all(&c, rc || stopped, &close_err) && !rc) {
        *e = close_err;
        rc = -1;
    }
    return rc ? 1 : run_stop_requested ? 4 : 0;
}
