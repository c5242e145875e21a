/* conversation.c: messages and answers in turns. The whole conversation is rendered and encoded for
 * each answer, as for a record of a batch with these messages; the scheduler finds the keys and
 * values of what was computed before. */
#include "cli/modes/conversation/conversation.h"

#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one answer */

static int is_eos(const struct model_config *g, int32_t id)
{
    for (int i = 0; i < g->n_eos; i++)
        if (g->eos[i] == id) return 1;
    return 0;
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct conversation *c = arg;
    (void)choice;
    c->begun = 1;
    if (is_eos(&c->engine.model.config, t->id) && !c->o->sampling.ignore_eos) return 0;
    c->n_tokens++;
    if (c->grammar && run_keep_id(&c->chosen, t->id, e)) return -1;
    return c->stopped = show_token(&c->show, t->id, e);
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)choice, (void)e;
    ((struct conversation *)arg)->finish = why;
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct conversation *c = arg;
    (void)e;
    if (msg) snprintf(c->failed, sizeof c->failed, "%s", msg);
    return 0;
}

static const struct request_sink sink = {.token = on_token,
                                         .finished = on_finished,
                                         .done = on_done};

/* The prompt of all messages, as text and as ids. 1: it cannot be answered, *e says why. */
static int make_prompt(struct conversation *c, char **text, size_t *bytes, struct err *e)
{
    json_t *messages = NULL;
    int rc = chat_messages(c->chat, c->messages, &messages, e);
    const struct chat_input in = {
        .messages = messages, .extra = c->variables, .add_generation_prompt = 1};
    if (!rc) rc = chat_render(c->chat, &in, text, bytes, e);
    json_decref(messages);
    c->prompt.n = 0;
    if (!rc) rc = tok_encode(c->engine.tokenizer, *text, *bytes, 0, &c->prompt, e);
    if (rc) return err_is_memory(e) ? -1 : 1;
    for (size_t i = 0; i < c->prompt.n; i++)
        if (c->prompt.id[i] >= c->engine.model.config.vocab)
            return -err_set(e, "token %zu is id %d, the model's vocabulary ends at %d", i,
                            c->prompt.id[i], c->engine.model.config.vocab - 1);
    if (!c->prompt.n) return -err_set(e, "the prompt is empty");
    if (c->prompt.n < (size_t)c->n_ctx) return 0;
    return -err_set(e, "the conversation has %zu tokens, the context %d: /reset begins a new one",
                    c->prompt.n, c->n_ctx);
}

/* Steps until the answer is complete or a signal asks for the end. */
static int compute(struct conversation *c, struct err *e)
{
    struct request r = {.prompt = c->prompt.id,
                        .n_prompt = (int)c->prompt.n,
                        .n_choices = 1,
                        .max_tokens = c->o->n_predict < 0 ? c->n_ctx : c->o->n_predict,
                        .grammar = c->grammar,
                        .n_top = -1,
                        .prompt_top = -1,
                        .sampling = c->sampling,
                        .stream = c->n_again,
                        .sink = &sink,
                        .arg = c};
    int rc = sched_submit(c->engine.sched, &r, e) ? -1 : 1;
    while (rc > 0 && !run_stop_requested) {
        double *seconds = c->begun ? &c->generate_seconds : &c->prompt_seconds, now = clock_now();
        rc = sched_step(c->engine.sched, e);
        *seconds += clock_now() - now;
    }
    return rc > 0 ? sched_abort(c->engine.sched, e) : rc;
}

static void trim(const struct out *o, const char **text, size_t *n)
{
    *text = o->n ? o->p : "";
    *n = o->n;
    while (*n && strchr(" \n\r\t", **text)) ++*text, --*n;
    while (*n && strchr(" \n\r\t", (*text)[*n - 1])) --*n;
}

/* The answer as a message; reasoning stands apart, as templates read it. */
static int keep_answer(struct conversation *c, struct err *e)
{
    const struct show *s = &c->show;
    const char *text = s->answer.n ? s->answer.p : "", *thoughts;
    size_t n = s->answer.n, n_thoughts;
    if (s->thoughts.n) trim(&s->answer, &text, &n);
    if (run_add_message(c->messages, "assistant", text, n, "the answer", e)) return -1;
    if (!s->thoughts.n) return 0;
    trim(&s->thoughts, &thoughts, &n_thoughts);
    json_t *last = json_array_get(c->messages, json_array_size(c->messages) - 1);
    return json_object_set_new(last, "reasoning_content", json_stringn(thoughts, n_thoughts))
               ? err_memory(e)
               : 0;
}

static void say_answer(const struct conversation *c, const struct sched_stats *before)
{
    struct sched_stats s;
    sched_stats(c->engine.sched, &s);
    fprintf(stderr,
            "prompt %zu token%s, %llu of them kept, %llu computed; generated %d token%s%s\n",
            c->prompt.n, units_s(c->prompt.n),
            (unsigned long long)(s.n_cached_tokens - before->n_cached_tokens),
            (unsigned long long)(s.n_prompt_tokens - before->n_prompt_tokens), c->n_tokens,
            units_s((uint64_t)c->n_tokens), run_stop_requested ? ", stopped" : "");
}

/* Answers the messages. 1: they cannot be answered, *e says why. */
static int answer(struct conversation *c, struct err *e)
{
    char *text = NULL;
    size_t bytes = 0;
    struct sched_stats before;
    size_t n_source;
    const char *source = chat_source(c->chat, &n_source);
    const struct show_how how = {.tokenizer = c->engine.tokenizer,
                                 .special = c->o->special,
                                 .stop = &c->o->stop,
                                 .reasoning = show_reasoning_of(c->o),
                                 .tags = reasoning_tags_of(source, n_source),
                                 .terminal = isatty(1)};
    sched_stats(c->engine.sched, &before);
    c->begun = c->n_tokens = c->stopped = 0;
    c->chosen.n = 0;
    c->finish = FINISH_STOP;
    c->failed[0] = 0;
    int rc = make_prompt(c, &text, &bytes, e);
    if (!rc) {
        rc = show_open(&c->show, &how, &c->prompt, text, bytes, e);
        if (!rc) rc = compute(c, e);
        if (!rc) rc = show_end(&c->show, c->stopped, e);
        if (!rc && c->failed[0]) rc = -err_set(e, "%s", c->failed);
        if (!rc) rc = keep_answer(c, e);
        if (!rc) {
            c->n_answers++;
            c->n_generated += (uint64_t)c->n_tokens;
            c->n_prompt += c->prompt.n;
            if (c->o->verbose) say_answer(c, &before);
            if (c->prompt.n + (size_t)c->n_tokens >= (size_t)c->n_ctx)
                fprintf(stderr, "note: the context of %d tokens is full\n", c->n_ctx);
            if (c->grammar && c->finish == FINISH_LENGTH)
                rc = run_say_cut(c->grammar, &c->chosen,
                                 c->prompt.n + (size_t)c->n_tokens >= (size_t)c->n_ctx, e);
        }
        show_close(&c->show);
    }
    free(text);
    return rc;
}

/* ---- lines */

static void say(struct conversation *c, struct err *e)
{
    fprintf(stderr, "%s\n", e->msg);
    *e = (struct err){0};
    c->n_failed++;
}

/* A message of the user, answered; one that cannot be is dropped. */
static int take_message(struct conversation *c, const char *text, size_t n, struct err *e)
{
    struct out whole = c->read; /* the text of files comes first */
    c->read = (struct out){0};
    if (whole.n) {
        out_bytes(&whole, text, n);
        text = whole.p;
        n = whole.n;
    }
    int added = out_failed(&whole)
                    ? err_memory(e)
                    : run_add_message(c->messages, "user", text, n, "the message", e);
    out_free(&whole);
    if (added) {
        if (err_is_memory(e)) return -1;
        say(c, e);
        return 0;
    }
    c->n_again = 0;
    int rc = answer(c, e);
    if (rc <= 0) return rc;
    conversation_drop(c);
    say(c, e);
    return 0;
}

/* One message or command. 1: the end was asked for. */
static int take_text(struct conversation *c, const struct out *text, int quoted, struct err *e)
{
    enum command_then then;
    char *p = text->p;
    const int shift = !quoted && p[0] == ' ' && p[1] == '/';
    if (quoted || !conversation_is_command(p))
        return take_message(c, p + shift, text->n - 1 - (size_t)shift, e);
    if (conversation_command(c, p, &then, e)) {
        if (err_is_memory(e)) return -1;
        say(c, e);
        return 0;
    }
    int rc = then == COMMAND_ANSWER ? answer(c, e) : 0;
    if (rc > 0) say(c, e);
    return rc < 0 ? -1 : then == COMMAND_EXIT;
}

#define QUOTES "\"\"\""

static int begins_with(const char *s, size_t n, const char *what)
{
    return n >= strlen(what) && !memcmp(s, what, strlen(what));
}

/* A message: a line, and the next while a line ends with a backslash (with -mli: until one does);
 * within three quotation marks, all lines up to the other three (*quoted). *text ends with NUL. */
static int read_text(struct conversation *c, struct out *text, int *quoted, struct err *e)
{
    const char *line;
    size_t n;
    int first = 1;
    out_clear(text);
    *quoted = 0;
    for (;; first = 0) {
        int got = line_read(c->lines, first ? "> " : ". ", &line, &n, e), more;
        if (got == LINE_END && *quoted) return err_set(e, QUOTES " without the other three");
        if (got != LINE_TEXT && (got != LINE_END || first)) return got;
        if (got == LINE_END) line = "", n = 0;
        if (first && begins_with(line, n, QUOTES)) *quoted = 1, line += 3, n -= 3;
        if (*quoted) {
            more = got == LINE_TEXT && !(n >= 3 && begins_with(line + n - 3, 3, QUOTES));
            if (!more) n -= 3;
        } else {
            int slash = got == LINE_TEXT && n && line[n - 1] == '\\';
            n -= (size_t)slash;
            more = slash;
            if (c->o->multiline && !(first && conversation_is_command(line)))
                more = got == LINE_TEXT && !slash;
        }
        out_bytes(text, line, n);
        out_bytes(text, more ? "\n" : "", 1);
        if (out_failed(text)) return err_memory(e);
        if (!more) return LINE_TEXT;
    }
}

/* -st: the one answer was made, or of a pipe could not be. */
static int is_over(const struct conversation *c)
{
    return c->o->single_turn && (c->n_answers || (c->n_failed && !line_is_terminal(c->lines)));
}

static int talk(struct conversation *c, struct err *e)
{
    struct out text = {0};
    int rc = 0, interrupted = 0, quoted;
    if (c->o->prompt || c->o->file) {
        char *first = NULL;
        size_t n;
        rc = run_read_text(c->o, &first, &n, e);
        if (!rc && !n && c->o->file) rc = err_set(e, "%s: is empty", c->o->file);
        if (!rc && line_is_terminal(c->lines))
            rc = show_put("> ", 2, e) || show_put(first, n, e) || show_put("\n", 1, e) ? -1 : 0;
        if (!rc) rc = take_message(c, first, n, e);
        free(first);
    }
    while (!rc && !is_over(c)) {
        if (run_stop_requested == SIGINT) run_stop_requested = 0;
        int got = run_stop_requested ? LINE_INTERRUPTED : read_text(c, &text, &quoted, e);
        if (got < 0) rc = -1;
        if (got == LINE_END) {
            if (c->read.n && !line_is_terminal(c->lines)) rc = take_message(c, "", 0, e);
            break;
        }
        if (got == LINE_INTERRUPTED) {
            if (run_stop_requested != SIGINT || interrupted || !line_is_terminal(c->lines)) break;
            fputs("Ctrl-C again ends, as /exit does\n", stderr);
            interrupted = 1;
        }
        if (got != LINE_TEXT) continue;
        interrupted = 0;
        size_t blank = strspn(text.p, " \t");
        if (quoted || blank + 1 < text.n) rc = take_text(c, &text, quoted, e);
    }
    out_free(&text);
    return rc < 0 ? -1 : 0;
}

/* ---- the whole */

static int open_all(struct conversation *c, struct err *e)
{
    const struct options *o = c->o;
    char *template = NULL;
    size_t n = 0;
    if (engine_open_model(&c->engine, o->model, &o->engine, e)) return -1;
    if (!c->engine.tokenizer)
        return err_set(e, "%s: has no tokenizer: a conversation needs one", o->model);
    if (run_read_template(o, &template, &n, e)) return -1;
    int rc = chat_open_model(&c->chat, &c->engine.model.file, template, n, run_local_time(), e);
    free(template);
    if (rc) return -1;
    if (!chat_source(c->chat, &n))
        return err_set(e, "%s: the model has no chat template (give one with --chat-template-file)",
                       o->model);
    if (run_template_variables(o, c->chat, &c->variables, e)) return -1;
    if (!(c->messages = json_array())) return err_memory(e);
    if (o->system_prompt && run_add_message(c->messages, "system", o->system_prompt,
                                            strlen(o->system_prompt), "--system-prompt", e))
        return -1;
    const struct model_config *g = &c->engine.model.config;
    const struct vocabulary_source tokens = {c->engine.tokenizer, g->eos, g->n_eos, g->vocab};
    if (constraint_one_open(&c->constraint, o, &tokens, &c->grammar, e)) return -1;
    run_say_seed(o, o->sampling.seed.value);
    engine_say_context(&c->engine);
    if (sampling_open(&c->sampling, &c->memory, &o->sampling, &c->engine.model.file,
                      c->engine.tokenizer, c->engine.model.config.vocab, e) ||
        engine_open_conversation(&c->engine, &c->n_ctx, e) || line_open(&c->lines, e))
        return -1;
    run_say_slow(o);
    if (!o->engine.n_ctx && c->n_ctx < engine_context(&c->engine))
        fprintf(stderr, "note: the context is %d tokens, for which the memory suffices\n",
                c->n_ctx);
    return 0;
}

static void report(const struct conversation *c)
{
    struct sched_stats s;
    sched_stats(c->engine.sched, &s);
    fprintf(stderr, "%llu answer%s; prompts %llu token%s, %llu kept",
            (unsigned long long)c->n_answers, units_s(c->n_answers),
            (unsigned long long)c->n_prompt, units_s(c->n_prompt),
            (unsigned long long)s.n_cached_tokens);
    if (c->o->engine.prefix_dir)
        fprintf(stderr, " (%llu from disk)", (unsigned long long)s.n_stored_tokens);
    fprintf(stderr, "; generated %llu in %.1f s; %.0f MiB\n", (unsigned long long)c->n_generated,
            c->generate_seconds, (double)memory_peak() / (1 << 20));
}

int run_conversation(const struct options *o, struct err *e)
{
    struct conversation c = {.o = o};
    int rc = open_all(&c, e), terminal = !rc && line_is_terminal(c.lines);
    if (!rc) {
        run_interrupts_only_ask(1);
        (void)run_signal_fd();
        run_catch_signals();
        if (terminal) fputs("/help lists the commands; Ctrl-D ends\n", stderr);
        rc = talk(&c, e);
        if (!rc) report(&c);
    }
    line_close(c.lines);
    sampling_close(&c.memory);
    json_decref(c.messages);
    tok_ids_free(&c.prompt);
    tok_ids_free(&c.chosen);
    out_free(&c.read);
    chat_close(c.chat);
    json_decref(c.variables);
    engine_close(&c.engine);
    constraint_one_close(&c.constraint);
    if (rc) return 1;
    if (run_stop_requested == SIGTERM || (run_stop_requested && !terminal)) return 4;
    return c.n_failed && !terminal ? 1 : 0;
}
