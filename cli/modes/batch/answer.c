#include "cli/modes/batch/answer_ids.h"
#include "cli/modes/batch/answer_logprobs.h"
#include "cli/modes/batch/answer_pooling.h"
#include "cli/modes/batch/answer_response.h"
#include "cli/modes/batch/answer_table.h"

#include <string.h>

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
        answer_put_call_id(o, j, c, index, i);
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
    else if (chat) {
        out_text(o, "{\"content\":");
        if (answer_put_chat_logprobs(o, env, p, c, e)) return -1;
        out_text(o, "}");
    } else if (answer_put_completion_logprobs(o, env, p, c, e)) return -1;
    put_ending(o, r, c, calls);
    if (!chat && r->prompt_logprobs >= 0 && answer_put_prompt_logprobs(o, env, p, e)) return -1;
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
    if (r->kind >= RECORD_RESPONSE) {
        if (r->kind == RECORD_RESPONSE ? answer_response(o, env, j, model, e)
                                       : answer_pooled(o, j, model, e))
            return -1;
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
    if (chat && r->prompt_logprobs >= 0 && answer_put_prompt_logprobs(o, env, &j->prompt[0], e))
        return -1;
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
    if (env->format == ANSWER_TABLE) {
        if (answer_row(o, env, j, e)) return -1;
    } else if (env->format != ANSWER_JSONL && j->record.kind >= RECORD_EMBEDDING) {
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
    if (env->format == ANSWER_TABLE) {
        if (answer_refused_row(o, env, r, why->why.msg, e)) return -1;
    } else if (env->format == ANSWER_JSONL) {
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
