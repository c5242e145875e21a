#include "cli/batch/answer.h"

#include <stdio.h>
#include <string.h>

static void put_id(struct out *o, const char *prefix, const struct record *r)
{
    char s[64];
    snprintf(s, sizeof s, "\"%s-%016llx\"", prefix, (unsigned long long)record_hash(r));
    out_text(o, s);
}

/* ---- log-probabilities */

static void put_token(struct out *o, const struct answer_env *env, int32_t id, size_t *code_points, struct err *e, int *rc)
{
    const char *text;
    size_t n;
    if (token_text_get(env->tokens, id, &text, &n, e)) {
        *rc = -1;
        return;
    }
    if (code_points)
        for (size_t i = 0; i < n; i++) *code_points += ((unsigned char)text[i] & 0xc0) != 0x80;
    out_string(o, text, n);
}

/* Two ids may have the same text, which an object can name once: the likelier one stays. */
static int named_before(const struct answer_env *env, const int32_t *ids, int n, int32_t id)
{
    const char *text, *other;
    size_t bytes, other_bytes;
    struct err ignored;
    if (token_text_get(env->tokens, id, &text, &bytes, &ignored)) return 0; /* put_token reports it */
    for (int i = 0; i < n; i++)
        if (ids[i] == id ||
            (!token_text_get(env->tokens, ids[i], &other, &other_bytes, &ignored) && bytes == other_bytes && !memcmp(text, other, bytes)))
            return 1;
    return 0;
}

/* {"token": logprob, ...}: the chosen token, then the likeliest, as vLLM orders them. */
static void put_alternatives(struct out *o, const struct answer_env *env, const struct job_score *s, const struct job_top *top,
                             struct err *e, int *rc)
{
    int32_t named[REQUEST_MAX_TOP + 1];
    int n = 0;
    out_text(o, "{");
    for (int i = -1; i < s->n_top; i++) {
        int32_t id = i < 0 ? s->id : top[s->top + i].id;
        if (named_before(env, named, n, id)) continue;
        named[n++] = id;
        if (n > 1) out_text(o, ",");
        put_token(o, env, id, NULL, e, rc);
        out_text(o, ":");
        out_logprob(o, i < 0 ? s->logprob : top[s->top + i].logprob);
    }
    out_text(o, "}");
}

struct scored {
    const struct job_score *score;
    const struct job_top *top;
    int n;
};

static struct scored scored(const struct out *scores, const struct out *tops)
{
    return (struct scored){(const void *)scores->p, (const void *)tops->p, (int)(scores->n / sizeof(struct job_score))};
}

/* The completions form: parallel arrays. With echo the prompt's tokens come first, its first one without a value. */
static int put_completion_logprobs(struct out *o, const struct answer_env *env, const struct job_prompt *p, const struct job_choice *c,
                                   struct err *e)
{
    struct scored part[2] = {scored(&p->scores, &p->tops), scored(&c->scores, &c->tops)};
    int echo = p->job->record.echo, rc = 0;
    if (!echo) part[0].n = 0;
    out_text(o, "{\"text_offset\":[");
    struct out tokens = {0};
    size_t at = 0;
    int n = 0;
    if (echo) {
        out_text(o, "0");
        put_token(&tokens, env, p->ids.id[0], &at, e, &rc);
        n = 1;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < part[k].n; i++, n++) {
            if (n) out_text(o, ","), out_text(&tokens, ",");
            out_int(o, (int64_t)at);
            put_token(&tokens, env, part[k].score[i].id, &at, e, &rc);
        }
    out_text(o, "],\"token_logprobs\":[");
    if (echo) out_text(o, "null");
    n = echo;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < part[k].n; i++, n++) {
            if (n) out_text(o, ",");
            out_logprob(o, part[k].score[i].logprob);
        }
    out_text(o, "],\"tokens\":[");
    out_bytes(o, tokens.p, tokens.n);
    out_text(o, "],\"top_logprobs\":[");
    if (echo) out_text(o, "null");
    n = echo;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < part[k].n; i++, n++) {
            if (n) out_text(o, ",");
            put_alternatives(o, env, &part[k].score[i], part[k].top, e, &rc);
        }
    out_text(o, "]}");
    if (out_failed(&tokens)) rc = err_memory(e);
    out_free(&tokens);
    return rc;
}

static void put_chat_token(struct out *o, const struct answer_env *env, int32_t id, double logprob, struct err *e, int *rc)
{
    const char *text;
    size_t n;
    if (token_text_get(env->tokens, id, &text, &n, e)) {
        *rc = -1;
        return;
    }
    out_text(o, "{\"token\":");
    out_string(o, text, n);
    out_text(o, ",\"logprob\":");
    out_logprob(o, logprob);
    out_text(o, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) out_text(o, ",");
        out_int(o, (unsigned char)text[i]);
    }
    out_text(o, "]");
}

static int put_chat_logprobs(struct out *o, const struct answer_env *env, const struct job_choice *c, struct err *e)
{
    struct scored s = scored(&c->scores, &c->tops);
    int rc = 0;
    out_text(o, "{\"content\":[");
    for (int i = 0; i < s.n; i++) {
        if (i) out_text(o, ",");
        put_chat_token(o, env, s.score[i].id, s.score[i].logprob, e, &rc);
        out_text(o, ",\"top_logprobs\":[");
        for (int k = 0; k < s.score[i].n_top; k++) {
            const struct job_top *top = &s.top[s.score[i].top + k];
            if (k) out_text(o, ",");
            put_chat_token(o, env, top->id, top->logprob, e, &rc);
            out_text(o, "}");
        }
        out_text(o, "]}");
    }
    out_text(o, "]}");
    return rc;
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

static void put_ending(struct out *o, const struct record *r, const struct job_choice *c)
{
    out_text(o, c->finish == FINISH_LENGTH ? ",\"finish_reason\":\"length\",\"stop_reason\":"
                                           : ",\"finish_reason\":\"stop\",\"stop_reason\":");
    if (c->stopped_by_string >= 0) out_string(o, r->stop[c->stopped_by_string], strlen(r->stop[c->stopped_by_string]));
    else if (c->stopped_by_token >= 0) out_int(o, c->stopped_by_token);
    else out_text(o, "null");
}

static int put_choice(struct out *o, const struct answer_env *env, const struct job_prompt *p, const struct job_choice *c, int index,
                      struct err *e)
{
    const struct record *r = &p->job->record;
    int chat = r->kind == RECORD_CHAT;
    out_text(o, "{\"index\":");
    out_int(o, index);
    out_text(o, chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":");
    if (r->echo) {
        struct out whole = {0};
        out_bytes(&whole, p->text, p->text_bytes);
        out_bytes(&whole, c->text.p, c->text.n);
        int failed = out_failed(&whole);
        if (!failed) out_string(o, whole.p, whole.n);
        out_free(&whole);
        if (failed) return err_memory(e);
    } else {
        out_string(o, c->text.p, c->text.n);
    }
    if (chat) out_text(o, "}");
    out_text(o, ",\"logprobs\":");
    if (r->logprobs < 0) out_text(o, "null");
    else if (chat ? put_chat_logprobs(o, env, c, e) : put_completion_logprobs(o, env, p, c, e)) return -1;
    put_ending(o, r, c);
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
    put_id(o, "batch_req", r);
    out_text(o, ",\"custom_id\":");
    out_string(o, r->id, r->id_bytes);
    out_text(o, ",\"response\":{\"status_code\":");
    out_int(o, status);
    out_text(o, ",\"request_id\":");
    put_id(o, "req", r);
    out_text(o, ",\"body\":");
}

static int write_jsonl(struct out *o, const struct answer_env *env, const struct job *j, struct err *e)
{
    const struct record *r = &j->record;
    int chat = r->kind == RECORD_CHAT, index = 0;
    const char *model = r->model ? r->model : env->model;
    put_head(o, r, 200);
    out_text(o, "{\"id\":");
    put_id(o, chat ? "chatcmpl" : "cmpl", r);
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
                if (j->record.echo) put_one_line(o, j->prompt[i].text, j->prompt[i].text_bytes);
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
    if (env->format != ANSWER_JSONL) write_plain(o, env, j);
    else if (write_jsonl(o, env, j, e)) return -1;
    out_text(o, "\n");
    return out_failed(o) ? err_memory(e) : 0;
}

static void put_error(struct out *o, int status, const struct refusal *why)
{
    out_text(o, "{\"message\":");
    out_string(o, why->why.msg, strlen(why->why.msg));
    out_text(o, status == 400 ? ",\"type\":\"BadRequestError\",\"param\":" : ",\"type\":\"InternalServerError\",\"param\":");
    if (why->field) out_string(o, why->field, strlen(why->field));
    else out_text(o, "null");
    out_text(o, status == 400 ? ",\"code\":\"invalid_request\"}" : ",\"code\":\"server_error\"}");
}

int answer_refuse(struct out *o, const struct answer_env *env, const struct record *r, int status, const struct refusal *why, struct err *e)
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
