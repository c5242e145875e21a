#include "cli/modes/batch/job_calls.h"

#include "cli/modes/batch/job.h"
#include "core/base/json.h"
#include "core/grammar/digits.h"
#include "core/grammar/free_text.h"
#include "core/text/reasoning.h"

#include <stdlib.h>
#include <string.h>

/* A special token within the text of a choice. */
struct special_mark {
    size_t at, end; /* bytes of the text that are the token: none where it is skipped */
    int32_t id;
};

/* ---- of a record */

void job_calls_env_close(struct job_calls_env *env)
{
    free(env->template);
    chat_close(env->chat);
    env->template = NULL;
    env->chat = NULL;
}

int job_calls_chat(struct job *j, const struct chat **chat, struct refusal *why, struct err *e)
{
    struct job_calls_env *env = j->env->calls;
    const json_t *given = j->record.chat_template;
    *chat = j->env->chat;
    if (!given) return 0;
    const char *text = json_string_value(given);
    size_t n = json_string_length(given);
    if (!env->template || strlen(env->template) != n || memcmp(env->template, text, n)) {
        struct err inner = {0};
        job_calls_env_close(env);
        if (!(env->template = malloc(n + 1))) return err_memory(e);
        memcpy(env->template, text, n + 1);
        if (chat_open_model(&env->chat, env->file, text, n, env->now, &inner)) {
            job_calls_env_close(env);
            if (err_is_memory(&inner)) return err_memory(e);
            why->field = "chat_template";
            why->why = inner;
            err_prefix(&why->why, "chat_template");
            return 1;
        }
    }
    *chat = env->chat;
    return 0;
}

/* The special tokens that the syntax's texts have. */
static int find_special(struct job_calls *c, const struct tokenizer *t, struct err *e)
{
    const char *texts[CALL_SYNTAX_TEXTS];
    struct tok_ids ids = {0};
    json_forget();
    c->special = json_array();
    call_syntax_texts(c->syntax, texts);
    for (int i = 0; i < CALL_SYNTAX_TEXTS; i++)
        if (tok_encode(t, texts[i], strlen(texts[i]), 0, &ids, e)) {
            tok_ids_free(&ids);
            return -1;
        }
    for (size_t i = 0; i < ids.n; i++) {
        char *text;
        size_t n;
        if (!tok_is_special(t, ids.id[i])) continue;
        if (tok_decode_inside(t, ids.id[i], &text, &n, e)) {
            tok_ids_free(&ids);
            return -1;
        }
        json_array_append_new(c->special, json_stringn(text, n));
        free(text);
    }
    tok_ids_free(&ids);
    return json_check(e);
}

/* Tags of reasoning are plain text to the reader of calls (mark_text). */
static int take_tags_out(struct job_calls *c, struct err *e)
{
    size_t i;
    json_t *v;
    json_forget();
    c->marked = json_array();
    json_array_foreach (c->special, i, v)
        if (!reasoning_has_token(c->tags, json_string_value(v))) json_array_append(c->marked, v);
    return json_check(e);
}

/* The text of the grammar of calls. */
static int ask_for_calls(struct job *j, struct err *e)
{
    struct record_tools *t = &j->record.calls;
    struct record_grammar *g = &j->record.grammar;
    json_forget();
    json_t *v = json_pack("{s:i, s:s, s:b, s:O, s:O}", "syntax",
                          call_syntax_number(j->calls.syntax), "choice",
                          t->choice == TOOLS_AUTO ? "auto" : "required", "parallel", !t->is_single,
                          "special", j->calls.special, "tools", t->list);
    if (v && g->field && t->choice == TOOLS_AUTO)
        json_object_set_new(v, "document",
                            json_pack("{s:i, s:s%}", "kind", (int)g->spec.kind, "text",
                                      g->spec.text ? g->spec.text : "", g->spec.bytes));
    else g->field = NULL; /* the command line's is for answers without calls */
    char *text = v ? digits_dump(v) : NULL;
    json_decref(v);
    if (!text || json_check(e)) {
        free(text);
        return err_memory(e);
    }
    free(g->owned);
    g->owned = text;
    if (!g->field) g->field = "tools";
    g->spec.kind = GRAMMAR_CALLS;
    g->spec.text = text;
    g->spec.bytes = strlen(text);
    return 0;
}

static int is_special_text(const struct tokenizer *t, const char *text)
{
    int32_t id = tok_id_of(t, text);
    return id >= 0 && tok_is_special(t, id);
}

/* 1: TEXT [n], but for white space at its end, ends with TAG. */
static int ends_with_tag(const char *text, size_t n, const char *tag)
{
    size_t m = strlen(tag);
    while (n && strchr(" \n\r\t", text[n - 1]) && text[n - 1]) n--;
    return n >= m && !memcmp(text + n - m, tag, m);
}

int job_calls_prepare(struct job *j, const char *text, size_t n, struct err *e)
{
    struct record_tools *t = &j->record.calls;
    struct job_calls *c = &j->calls;
    const struct job_calls_env *env = j->env->calls;
    size_t n_source;
    if (!env || !j->env->tokenizer || !record_is_chat(&j->record)) return 0;
    const char *source = chat_source(j->chat, &n_source);
    c->splits = env->splits;
    const struct reasoning_tags *tags = c->tags = reasoning_tags_of(source, n_source);
    if (c->splits && !ends_with_tag(text, n, tags->ends)) {
        c->thoughts.is_inside = ends_with_tag(text, n, tags->begins);
        if (tags->is_single)
            c->thoughts = (struct grammar_thoughts){
                .begins = tags->begins,
                .ends = tags->ends,
                .begins_is_token = is_special_text(j->env->tokenizer, tags->begins),
                .ends_is_token = is_special_text(j->env->tokenizer, tags->ends),
                .is_inside = c->thoughts.is_inside,
            };
    }
    if (t->choice == TOOLS_NONE) return 0;
    c->syntax = call_syntax_find(source, n_source, env->parser);
    if (!c->syntax && t->choice != TOOLS_AUTO) c->syntax = call_syntax_plain();
    if (!c->syntax) return 0;
    c->is_exact = t->is_strict || j->record.grammar.field;
    if (c->is_exact && c->syntax->body == CALL_PYTHON) c->syntax = call_syntax_plain();
    if (find_special(c, j->env->tokenizer, e)) return -1;
    if (c->splits && take_tags_out(c, e)) return -1;
    return c->is_exact ? ask_for_calls(j, e) : 0;
}

void job_calls_close(struct job_calls *c)
{
    json_decref(c->special);
    json_decref(c->marked);
    *c = (struct job_calls){0};
}

/* ---- the message */

int job_message_is_shaped(const struct job *j) { return j->calls.syntax || j->calls.splits; }

int job_calls_see(struct job *j, struct job_choice *c, int32_t id, size_t before, struct err *e)
{
    struct special_mark m = {c->text.n, c->text.n, id};
    if (!job_message_is_shaped(j) || !tok_is_special(j->env->tokenizer, id)) return 0;
    if (!j->record.skip_special) { /* the last bytes are the token's */
        char *text;
        size_t n;
        if (tok_decode_inside(j->env->tokenizer, id, &text, &n, e)) return -1;
        int is_there = c->text.n >= before + n && !memcmp(c->text.p + c->text.n - n, text, n);
        free(text);
        if (!is_there) return 0;
        m.at -= n;
    }
    out_bytes(&c->special, &m, sizeof m);
    return out_failed(&c->special) ? err_memory(e) : 0;
}

/* The choice's text with its special tokens between marks; reasoning's tags as plain text. */
static int mark_text(const struct job_choice *c, const struct job *j, struct out *o, struct err *e)
{
    const struct tokenizer *t = j->env->tokenizer;
    const struct reasoning_tags *tags = j->calls.splits ? j->calls.tags
                                                        : reasoning_tags_of(NULL, 0);
    const struct special_mark *m = (const void *)c->special.p;
    size_t at = 0;
    for (size_t i = 0; i < c->special.n / sizeof *m; i++) {
        char *text;
        size_t n;
        if (m[i].end > c->text.n) break;
        if (tok_decode_inside(t, m[i].id, &text, &n, e)) return -1;
        int is_tag = reasoning_has_token(tags, text);
        if (m[i].at > at) out_bytes(o, c->text.p + at, m[i].at - at);
        out_text(o, is_tag ? "" : FREE_TEXT_MARK);
        out_bytes(o, text, n);
        out_text(o, is_tag ? "" : FREE_TEXT_MARK);
        free(text);
        at = m[i].end;
    }
    if (c->text.n > at) out_bytes(o, c->text.p + at, c->text.n - at);
    return out_failed(o) ? err_memory(e) : 0;
}

static void trim(const struct out *o, const char **text, size_t *n)
{
    *text = o->n ? o->p : "";
    *n = o->n;
    while (*n && strchr(" \n\r\t", **text) && **text) ++*text, --*n;
    while (*n && strchr(" \n\r\t", (*text)[*n - 1]) && (*text)[*n - 1]) --*n;
}

/* Takes the reasoning out of O. 1: there was some. */
static int split(struct job_message *m, const struct job *j, struct out *o, struct err *e)
{
    struct reasoning r;
    struct out thoughts = {0}, answer = {0};
    enum reasoning_part part;
    const char *text;
    size_t n;
    int tags = j->calls.thoughts.is_inside;
    const struct reasoning_tags *spelt = j->calls.tags;
    reasoning_open(&r, spelt, spelt->begins, tags ? strlen(spelt->begins) : 0);
    int rc = reasoning_push(&r, o->n ? o->p : "", o->n, e);
    if (!rc) reasoning_end(&r);
    while (!rc && reasoning_next(&r, &part, &text, &n)) {
        tags |= part == REASONING_TAG;
        if (part != REASONING_TAG) out_bytes(part == REASONING_TEXT ? &thoughts : &answer, text, n);
    }
    reasoning_close(&r);
    if (!rc && (out_failed(&thoughts) || out_failed(&answer))) rc = err_memory(e);
    if (!rc && tags) {
        trim(&thoughts, &text, &n);
        m->n_thoughts = n;
        if (!(m->thoughts = malloc(n + 1))) rc = err_memory(e);
        else memcpy(m->thoughts, text, n);
        if (m->thoughts) toolcalls_unmark(m->thoughts, &m->n_thoughts, !j->record.skip_special);
        trim(&answer, &text, &n);
        out_clear(o);
        out_bytes(o, text, n);
        if (!rc && out_failed(o)) rc = err_memory(e);
    }
    out_free(&thoughts);
    out_free(&answer);
    return rc ? -1 : tags;
}

/* Without calls. */
static int take_text(struct job_message *m, const struct out *o, struct err *e)
{
    if (!(m->calls.text = malloc(o->n + 1))) return err_memory(e);
    if (o->n) memcpy(m->calls.text, o->p, o->n);
    m->calls.text_bytes = o->n;
    return 0;
}

int job_message_open(struct job_message *m, const struct job_prompt *p, const struct job_choice *c,
                     struct err *e)
{
    const struct job *j = p->job;
    const json_t *special = j->calls.marked ? j->calls.marked : j->calls.special;
    const struct toolcalls_source source = {j->calls.syntax, special, j->record.calls.list,
                                            c->finish == FINISH_LENGTH, j->calls.is_exact};
    struct out o = {0};
    *m = (struct job_message){0};
    int rc = mark_text(c, j, &o, e), has_thoughts = 0;
    if (!rc && j->calls.splits) rc = has_thoughts = split(m, j, &o, e);
    if (rc >= 0)
        rc = j->calls.syntax ? toolcalls_read(&m->calls, &source, o.n ? o.p : "", o.n, e)
                             : take_text(m, &o, e);
    out_free(&o);
    if (rc < 0) return -1;
    toolcalls_unmark(m->calls.text, &m->calls.text_bytes, !j->record.skip_special);
    m->is_null = !m->calls.text_bytes && (m->calls.n || has_thoughts);
    if (j->record.calls.is_single)
        while (m->calls.n > 1) {
            struct tool_call *last = &m->calls.call[--m->calls.n];
            free(last->name);
            free(last->arguments);
        }
    if (j->record.calls.hides_reasoning) {
        free(m->thoughts);
        m->thoughts = NULL;
    }
    return 0;
}

void job_message_close(struct job_message *m)
{
    toolcalls_close(&m->calls);
    free(m->thoughts);
    *m = (struct job_message){0};
}

/* The text of token ID of a choice as the reader of reasoning sees it: tags are texts, and no other
 * special token is. *own is freed by the caller. */
static int thought_piece(const struct job *j, struct tok_stream *s, int32_t id, const char **piece,
                         size_t *n, char **own, struct err *e)
{
    const struct tokenizer *t = j->env->tokenizer;
    *own = NULL;
    if (tok_stream_push(s, id, piece, n, e)) return -1;
    if (!j->record.skip_special || !tok_is_special(t, id)) return 0;
    if (tok_decode_inside(t, id, own, n, e)) return -1;
    *piece = *own;
    if (!reasoning_has_token(j->calls.tags, *own)) *n = 0;
    return 0;
}

int job_reasoning_tokens(const struct job_prompt *p, const struct job_choice *c, int *n,
                         struct err *e)
{
    const struct job *j = p->job;
    const struct reasoning_tags *tags = j->calls.tags;
    const int32_t *id = (const int32_t *)(const void *)c->ids.p;
    int n_ids = (int)(c->ids.n / sizeof *id), inside = j->calls.thoughts.is_inside, n_held = 0,
        rc = 0;
    struct tok_stream *s = NULL;
    struct reasoning r;
    *n = 0;
    if (!j->calls.splits || !p->stream) return 0;
    if (tok_stream_copy(&s, p->stream, e)) return -1;
    reasoning_open(&r, tags, tags->begins, inside ? strlen(tags->begins) : 0);
    for (int i = 0; !rc && i <= n_ids; i++) {
        enum reasoning_part part;
        const char *piece = "", *text;
        char *own = NULL;
        size_t bytes = 0;
        int answers = 0, thinks = 0;
        if (i < n_ids) {
            rc = thought_piece(j, s, id[i], &piece, &bytes, &own, e);
            if (!rc) rc = reasoning_push(&r, piece, bytes, e);
        } else reasoning_end(&r);
        free(own);
        while (!rc && reasoning_next(&r, &part, &text, &bytes))
            *(part == REASONING_ANSWER ? &answers : &thinks) = 1;
        n_held += i < n_ids;
        if (answers || thinks) inside = !answers;
        if (!answers && !thinks && i < n_ids) continue; /* what comes decides */
        *n += inside ? n_held : 0;
        n_held = 0;
    }
    reasoning_close(&r);
    tok_stream_close(s);
    return rc ? -1 : 0;
}
