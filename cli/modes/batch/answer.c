#include "cli/modes/batch/answer_pooling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void answer_put_id(struct out *o, const char *prefix, const struct record *r)
{
    char s[64];
    snprintf(s, sizeof s, "\"%s-%016llx\"", prefix, (unsigned long long)record_hash(r));
    out_text(o, s);
}

/* ---- log-probabilities */

/* Texts of tokens, as they are named one after the other. */
struct words {
    const struct answer_env *env;
    struct tok_stream
        *start; /* while nothing precedes: a decoder may treat what begins a text differently */
    struct err *e;
    int rc;
};

struct word {
    const char *text; /* [n] */
    size_t n;
    char *own; /* NULL: of env->tokens */
};

/* A token that begins a text, as it reads there. */
static int at_start(const struct words *w, int32_t id, struct word *x)
{
    struct tok_stream *s;
    const char *piece[2];
    size_t n[2], total = 0;
    int rc = tok_stream_copy(&s, w->start, w->e);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = i ? tok_stream_flush(s, &piece[i], &n[i], w->e)
               : tok_stream_push(s, id, &piece[i], &n[i], w->e);
        char *grown = rc ? NULL : realloc(x->own, total + n[i] + 1);
        if (!rc && !grown) rc = err_memory(w->e);
        if (rc) break;
        x->own = grown;
        memcpy(grown + total, piece[i], n[i]);
        total += n[i];
    }
    tok_stream_close(s);
    if (rc) return -1;
    x->text = x->own;
    x->n = total;
    return 0;
}

static void get_word(struct words *w, int32_t id, struct word *x)
{
    *x = (struct word){.text = ""};
    int special = tok_is_special(w->env->tokens->tokenizer, id);
    if (w->start && !special ? at_start(w, id, x)
                             : token_text_get(w->env->tokens, id, &x->text, &x->n, w->e)) {
        w->rc = -1;
        x->n = 0;
    }
}

/* The text goes on with the token. */
static void go_on(struct words *w, int32_t id)
{
    struct word x = {0};
    const char *piece;
    size_t n;
    if (!w->start) return;
    if (at_start(w, id, &x) || tok_stream_push(w->start, id, &piece, &n, w->e)) w->rc = -1;
    if (x.n || w->rc) {
        tok_stream_close(w->start);
        w->start = NULL;
    }
    free(x.own);
}

static void start_after_prompt(struct words *w, const struct job_prompt *p)
{
    tok_stream_close(w->start);
    w->start = NULL;
    if (p->stream && !tok_stream_before(p->stream) && tok_stream_copy(&w->start, p->stream, w->e))
        w->rc = -1;
}

static void start_at_prompt(struct words *w, const struct job_prompt *p)
{
    const struct tokenizer *t = p->job->env->tokenizer;
    int skip = !p->from_ids ||
               p->job->record.skip_special; /* a prompt of text does not show its BOS */
    if (t && tok_stream_open(&w->start, t, skip, w->e)) w->rc = -1;
}

static void put_token(struct out *o, struct words *w, int32_t id, size_t *code_points)
{
    struct word x;
    get_word(w, id, &x);
    for (size_t i = 0; i < x.n; i++) *code_points += ((unsigned char)x.text[i] & 0xc0) != 0x80;
    out_string(o, x.text, x.n);
    free(x.own);
}

/* {"token": logprob, ...}: the chosen token, then the likeliest, as vLLM orders them. Two ids may
 * have the same text, which an object can name once: the likelier one stays. */
static void put_alternatives(struct out *o, struct words *w, const struct job_score *s,
                             const struct job_top *top, int n_top)
{
    struct word named[REQUEST_MAX_NAMED + 1];
    int n = 0;
    out_text(o, "{");
    for (int i = -1; i < n_top; i++) {
        struct word *x = &named[n];
        int before = 0;
        get_word(w, i < 0 ? s->id : top[s->top + i].id, x);
        for (int k = 0; k < n && !before; k++)
            before = named[k].n == x->n && !memcmp(named[k].text, x->text, x->n);
        if (before) {
            free(x->own);
            continue;
        }
        if (n++) out_text(o, ",");
        out_string(o, x->text, x->n);
        out_text(o, ":");
        out_logprob(o, i < 0 ? s->logprob : top[s->top + i].logprob);
    }
    out_text(o, "}");
    while (n) free(named[--n].own);
}

struct scored {
    const struct job_score *score;
    const struct job_top *top;
    int n;
};

static struct scored scored(const struct out *scores, const struct out *tops)
{
    return (struct scored){(const void *)scores->p, (const void *)tops->p,
                           (int)(scores->n / sizeof(struct job_score))};
}

/* The completions form: parallel arrays. With echo the prompt's tokens come first, its first one
 * without a value. An offset is the code points of the tokens before it. */
static int put_completion_logprobs(struct out *o, const struct answer_env *env,
                                   const struct job_prompt *p, const struct job_choice *c,
                                   struct err *e)
{
    struct scored part[2] = {scored(&p->scores, &p->tops), scored(&c->scores, &c->tops)};
    struct words w = {.env = env, .e = e};
    struct out tokens = {0}, tops = {0};
    int echo = p->job->record.echo, n = 0;
    size_t at = 0;
    out_text(o, "{\"text_offset\":[");
    if (echo) {
        start_at_prompt(&w, p);
        out_text(o, "0");
        put_token(&tokens, &w, p->ids.id[0], &at);
        out_text(&tops, "null");
        go_on(&w, p->ids.id[0]);
        n = 1;
    }
    for (int k = !echo; k < 2; k++) {
        if (k) start_after_prompt(&w, p);
        for (int i = 0; i < part[k].n; i++, n++) {
            const struct job_score *s = &part[k].score[i];
            if (n) out_text(o, ","), out_text(&tokens, ","), out_text(&tops, ",");
            out_int(o, (int64_t)at);
            put_token(&tokens, &w, s->id, &at);
            int most = k ? s->n_top : p->job->record.logprobs;
            int n_top = s->n_top < most ? s->n_top : most;
            put_alternatives(&tops, &w, s, part[k].top, n_top);
            go_on(&w, s->id);
        }
    }
    tok_stream_close(w.start);
    out_text(o, "],\"token_logprobs\":[");
    if (echo) out_text(o, "null");
    n = echo;
    for (int k = !echo; k < 2; k++)
        for (int i = 0; i < part[k].n; i++, n++) {
            if (n) out_text(o, ",");
            out_logprob(o, part[k].score[i].logprob);
        }
    out_text(o, "],\"tokens\":[");
    out_bytes(o, tokens.p, tokens.n);
    out_text(o, "],\"top_logprobs\":[");
    out_bytes(o, tops.p, tops.n);
    out_text(o, "]}");
    if (out_failed(&tokens) || out_failed(&tops)) w.rc = err_memory(e);
    out_free(&tokens);
    out_free(&tops);
    return w.rc;
}

/* The bytes of a word: of a token that holds part of a character its own. */
static void put_bytes(struct out *o, struct words *w, int32_t id, const struct word *x)
{
    const char *p = x->text;
    char *own = NULL;
    size_t n = x->n, n_own;
    if (n && memmem(p, n, "\xef\xbf\xbd", 3)) {
        if (tok_own_bytes(w->env->tokens->tokenizer, id, &own, &n_own, w->e)) w->rc = -1;
        if (own) p = own, n = n_own;
    }
    for (size_t i = 0; i < n; i++) {
        if (i) out_text(o, ",");
        out_int(o, (unsigned char)p[i]);
    }
    free(own);
}

static void put_chat_token(struct out *o, struct words *w, int32_t id, double logprob)
{
    struct word x;
    get_word(w, id, &x);
    out_text(o, "{\"token\":");
    out_string(o, x.text, x.n);
    out_text(o, ",\"logprob\":");
    out_logprob(o, logprob);
    out_text(o, ",\"bytes\":[");
    put_bytes(o, w, id, &x);
    out_text(o, "]");
    free(x.own);
}

static int put_chat_logprobs(struct out *o, const struct answer_env *env,
                             const struct job_prompt *p, const struct job_choice *c, struct err *e)
{
    struct scored s = scored(&c->scores, &c->tops);
    struct words w = {.env = env, .e = e};
    start_after_prompt(&w, p);
    out_text(o, "{\"content\":[");
    for (int i = 0; i < s.n; i++) {
        if (i) out_text(o, ",");
        put_chat_token(o, &w, s.score[i].id, s.score[i].logprob);
        out_text(o, ",\"top_logprobs\":[");
        for (int k = 0; k < s.score[i].n_top; k++) {
            const struct job_top *top = &s.top[s.score[i].top + k];
            if (k) out_text(o, ",");
            put_chat_token(o, &w, top->id, top->logprob);
            out_text(o, "}");
        }
        out_text(o, "]}");
        go_on(&w, s.score[i].id);
    }
    out_text(o, "]}");
    tok_stream_close(w.start);
    return w.rc;
}

static void put_ranked(struct out *o, struct words *w, int32_t id, double logprob, int rank)
{
    struct word x;
    out_text(o, "\"");
    out_int(o, id);
    out_text(o, "\":{\"logprob\":");
    out_logprob(o, logprob);
    out_text(o, ",\"rank\":");
    out_int(o, rank);
    out_text(o, ",\"decoded_token\":");
    get_word(w, id, &x);
    out_string(o, x.text, x.n);
    out_text(o, "}");
    free(x.own);
}

/* vLLM's form: null for the first token, then an object of ids for each: the prompt's token and the
 * likeliest ones, each once. */
static int put_prompt_logprobs(struct out *o, const struct answer_env *env,
                               const struct job_prompt *p, struct err *e)
{
    struct scored s = scored(&p->scores, &p->tops);
    struct words w = {.env = env, .e = e};
    int k = p->job->record.prompt_logprobs;
    out_text(o, ",\"prompt_logprobs\":[null");
    for (int i = 0; i < s.n; i++) {
        const struct job_score *t = &s.score[i];
        out_text(o, ",{");
        put_ranked(o, &w, t->id, t->logprob, t->rank);
        for (int a = 0; a < t->n_top && a < k; a++) {
            if (a + 1 == t->rank) continue;
            out_text(o, ",");
            put_ranked(o, &w, s.top[t->top + a].id, s.top[t->top + a].logprob, a + 1);
        }
        out_text(o, "}");
    }
    out_text(o, "]");
    return w.rc;
}

/* ---- choices */

static void put_ids(struct out *o, const int32_t *id, size_t n)
{
    out_text(o, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) out_text(o, ",");
        out_int(o, id[i]);
    }
    out_text(o, "]");
}

static void put_ending(struct out *o, const struct record *r, const struct job_choice *c, int calls)
{
    out_text(o, calls                        ? ",\"finish_reason\":\"tool_calls\",\"stop_reason\":"
                : c->finish == FINISH_LENGTH ? ",\"finish_reason\":\"length\",\"stop_reason\":"
                                             : ",\"finish_reason\":\"stop\",\"stop_reason\":");
    if (c->stopped_by_string >= 0)
        out_string(o, r->stop[c->stopped_by_string], strlen(r->stop[c->stopped_by_string]));
    else if (c->stopped_by_token >= 0) out_int(o, c->stopped_by_token);
    else out_text(o, "null");
}

/* An id of the call: of the record, the choice and its place alone. */
static void put_call_id(struct out *o, const struct job *j, const struct tool_call *c, int index,
                        int at)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char s[32] = "call_";
    int is_short = j->calls.syntax->short_ids, n = is_short ? 0 : 5;
    uint64_t h = record_hash(&j->record) ^
                 ((uint64_t)index << 20 | (uint64_t)at) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    for (int end = n + (is_short ? CALL_ID_LETTERS : 11); n < end; h /= 62)
        s[n++] = letters[h % 62];
    s[n] = 0;
    out_string(o, *c->id ? c->id : s, strlen(*c->id ? c->id : s));
}

/* Content, and what else a message has. */
static int put_message(struct out *o, const struct job *j, const struct job_message *m, int index)
{
    if (m->is_null) out_text(o, "null");
    else out_string(o, m->calls.text, m->calls.text_bytes);
    if (j->calls.splits && !j->record.calls.hides_reasoning) {
        out_text(o, ",\"reasoning_content\":");
        if (m->thoughts) out_string(o, m->thoughts, m->n_thoughts);
        else out_text(o, "null");
    }
    for (int i = 0; i < m->calls.n; i++) {
        const struct tool_call *c = &m->calls.call[i];
        out_text(o, i ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":");
        put_call_id(o, j, c, index, i);
        out_text(o, ",\"type\":\"function\",\"function\":{\"name\":");
        out_string(o, c->name, strlen(c->name));
        out_text(o, ",\"arguments\":");
        out_string(o, c->arguments, strlen(c->arguments));
        out_text(o, "}}");
    }
    if (m->calls.n) out_text(o, "]");
    /* as OpenAI has it, a call that the record names is no reason of its own */
    return m->calls.n && j->record.calls.choice != TOOLS_NAMED;
}

static int put_choice(struct out *o, const struct answer_env *env, const struct job_prompt *p,
                      const struct job_choice *c, int index, struct err *e)
{
    const struct record *r = &p->job->record;
    int chat = r->kind == RECORD_CHAT, calls = 0;
    out_text(o, "{\"index\":");
    out_int(o, index);
    out_text(o, chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":");
    if (r->echo) {
        struct out whole = {0};
        out_bytes(&whole, p->text, job_echo_bytes(p, c));
        out_bytes(&whole, c->text.p, c->text.n);
        int failed = out_failed(&whole);
        if (!failed) out_string(o, whole.n ? whole.p : "", whole.n);
        out_free(&whole);
        if (failed) return err_memory(e);
    } else if (job_message_is_shaped(p->job)) {
        struct job_message m;
        int rc = job_message_open(&m, p, c, e);
        if (!rc) calls = put_message(o, p->job, &m, index);
        job_message_close(&m);
        if (rc) return -1;
    } else {
        out_string(o, c->text.n ? c->text.p : "", c->text.n);
    }
    if (chat) out_text(o, "}");
    out_text(o, ",\"logprobs\":");
    if (r->logprobs < 0) out_text(o, "null");
    else if (chat ? put_chat_logprobs(o, env, p, c, e) : put_completion_logprobs(o, env, p, c, e))
        return -1;
    put_ending(o, r, c, calls);
    if (!chat && r->prompt_logprobs >= 0 && put_prompt_logprobs(o, env, p, e)) return -1;
    if (r->return_ids) {
        if (!chat) {
            out_text(o, ",\"prompt_token_ids\":");
            put_ids(o, p->ids.id, p->ids.n);
        }
        out_text(o, ",\"token_ids\":");
        put_ids(o, (const int32_t *)(const void *)c->ids.p, c->ids.n / sizeof(int32_t));
    }
    out_text(o, "}");
    return 0;
}

/* ---- lines */

static void put_head(struct out *o, const struct record *r, int status)
{
    out_text(o, "{\"id\":");
    answer_put_id(o, "batch_req", r);
    out_text(o, ",\"custom_id\":");
    out_string(o, r->id, r->id_bytes);
    out_text(o, ",\"response\":{\"status_code\":");
    out_int(o, status);
    out_text(o, ",\"request_id\":");
    answer_put_id(o, "req", r);
    out_text(o, ",\"body\":");
}

static int write_jsonl(struct out *o, const struct answer_env *env, const struct job *j,
                       struct err *e)
{
    const struct record *r = &j->record;
    int chat = r->kind == RECORD_CHAT, index = 0;
    const char *model = r->model ? r->model : env->model;
    put_head(o, r, 200);
    if (r->kind >= RECORD_EMBEDDING) {
        if (answer_pooled(o, j, model, e)) return -1;
        out_text(o, "},\"error\":null}");
        return 0;
    }
    out_text(o, "{\"id\":");
    answer_put_id(o, chat ? "chatcmpl" : "cmpl", r);
    out_text(o, chat ? ",\"object\":\"chat.completion\",\"created\":0,\"model\":"
                     : ",\"object\":\"text_completion\",\"created\":0,\"model\":");
    out_string(o, model, strlen(model));
    out_text(o, ",\"choices\":[");
    for (int i = 0; i < j->n_prompts; i++)
        for (int c = 0; c < r->n; c++, index++) {
            if (index) out_text(o, ",");
            if (put_choice(o, env, &j->prompt[i], &j->prompt[i].choice[c], index, e)) return -1;
        }
    int prompt = job_prompt_tokens(j), generated = job_generated_tokens(j);
    out_text(o, "],\"usage\":{\"prompt_tokens\":");
    out_int(o, prompt);
    out_text(o, ",\"total_tokens\":");
    out_int(o, prompt + generated);
    out_text(o, ",\"completion_tokens\":");
    out_int(o, generated);
    out_text(o, "}");
    if (chat && r->prompt_logprobs >= 0 && put_prompt_logprobs(o, env, &j->prompt[0], e)) return -1;
    if (r->return_ids && chat) {
        out_text(o, ",\"prompt_token_ids\":");
        put_ids(o, j->prompt[0].ids.id, j->prompt[0].ids.n);
    }
    out_text(o, "}},\"error\":null}");
    return 0;
}

static void put_one_line(struct out *o, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) switch (s[i]) {
        case '\n': out_text(o, "\\n"); break;
        case '\r': out_text(o, "\\r"); break;
        case '\t': out_text(o, "\\t"); break;
        case '\\': out_text(o, "\\\\"); break;
        default: out_bytes(o, &s[i], 1);
        }
}

static void write_plain(struct out *o, const struct answer_env *env, const struct job *j)
{
    for (int i = 0; i < j->n_prompts; i++)
        for (int k = 0; k < j->record.n; k++) {
            const struct job_choice *c = &j->prompt[i].choice[k];
            if (i + k) out_text(o, "\t");
            if (env->format == ANSWER_TEXT) {
                if (j->record.echo)
                    put_one_line(o, j->prompt[i].text, job_echo_bytes(&j->prompt[i], c));
                put_one_line(o, c->text.p, c->text.n);
                continue;
            }
            const int32_t *id = (const int32_t *)(const void *)c->ids.p;
            for (size_t t = 0; t < c->ids.n / sizeof *id; t++) {
                if (t) out_text(o, " ");
                out_int(o, id[t]);
            }
        }
}

int answer_write(struct out *o, const struct answer_env *env, const struct job *j, struct err *e)
{
    if (env->format != ANSWER_JSONL && j->record.kind >= RECORD_EMBEDDING) {
        if (answer_pooled_plain(o, j, e)) return -1;
    } else if (env->format != ANSWER_JSONL) write_plain(o, env, j);
    else if (write_jsonl(o, env, j, e)) return -1;
    out_text(o, "\n");
    return out_failed(o) ? err_memory(e) : 0;
}

static void put_error(struct out *o, int status, const struct refusal *why)
{
    out_text(o, "{\"message\":");
    out_string(o, why->why.msg, strlen(why->why.msg));
    out_text(o, status == 400 ? ",\"type\":\"BadRequestError\",\"param\":"
                              : ",\"type\":\"InternalServerError\",\"param\":");
    if (why->field) out_string(o, why->field, strlen(why->field));
    else out_text(o, "null");
    out_text(o, status == 400 ? ",\"code\":\"invalid_request\"}" : ",\"code\":\"server_error\"}");
}

int answer_refuse(struct out *o, const struct answer_env *env, const struct record *r, int status,
                  const struct refusal *why, struct err *e)
{
    if (env->format == ANSWER_JSONL) {
        put_head(o, r, status);
        out_text(o, "{\"error\":");
        put_error(o, status, why);
        out_text(o, "}},\"error\":");
        put_error(o, status, why);
        out_text(o, "}");
    }
    out_text(o, "\n");
    return out_failed(o) ? err_memory(e) : 0;
}
