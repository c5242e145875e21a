#include "cli/modes/batch/answer_response.h"

#include "cli/modes/batch/answer_ids.h"
#include "cli/modes/batch/answer_logprobs.h"

#include <string.h>

/* What the items of one answer share. */
struct items {
    struct out *o;
    const struct answer_env *env;
    const struct job *job;
    const struct job_prompt *prompt;
    const struct job_choice *choice;
    const char *status; /* of what the answer's length may have cut */
    int n;
};

static void begin_item(struct items *x, const char *prefix, const char *type)
{
    if (x->n) out_text(x->o, ",");
    out_text(x->o, "{\"id\":");
    answer_put_item_id(x->o, prefix, &x->job->record, x->n++);
    out_text(x->o, ",\"type\":\"");
    out_text(x->o, type);
    out_text(x->o, "\"");
}

static void put_status(struct out *o, const char *status)
{
    out_text(o, ",\"status\":\"");
    out_text(o, status);
    out_text(o, "\"");
}

static void put_reasoning(struct items *x, const struct job_message *m)
{
    begin_item(x, "rs", "reasoning");
    out_text(x->o, ",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":");
    out_string(x->o, m->thoughts, m->n_thoughts);
    out_text(x->o, "}],\"encrypted_content\":null");
    put_status(x->o, m->is_null && !m->calls.n ? x->status : "completed");
    out_text(x->o, "}");
}

static int put_message(struct items *x, const char *text, size_t n, struct err *e)
{
    begin_item(x, "msg", "message");
    put_status(x->o, x->status);
    out_text(x->o, ",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":");
    out_string(x->o, n ? text : "", n);
    out_text(x->o, ",\"annotations\":[],\"logprobs\":");
    if (x->job->record.logprobs < 0) out_text(x->o, "[]");
    else if (answer_put_chat_logprobs(x->o, x->env, x->prompt, x->choice, e)) return -1;
    out_text(x->o, "}]}");
    return 0;
}

static void put_call(struct items *x, const struct tool_call *c, int at)
{
    begin_item(x, "fc", "function_call");
    put_status(x->o, "completed");
    out_text(x->o, ",\"call_id\":");
    answer_put_call_id(x->o, x->job, c, 0, at);
    out_text(x->o, ",\"name\":");
    out_string(x->o, c->name, strlen(c->name));
    out_text(x->o, ",\"arguments\":");
    out_string(x->o, c->arguments, strlen(c->arguments));
    out_text(x->o, "}");
}

static int put_output(struct items *x, struct err *e)
{
    const struct job_choice *c = x->choice;
    struct job_message m;
    if (!job_message_is_shaped(x->job)) return put_message(x, c->text.p, c->text.n, e);
    int rc = job_message_open(&m, x->prompt, c, e);
    if (!rc && m.thoughts) put_reasoning(x, &m);
    if (!rc && !m.is_null) rc = put_message(x, m.calls.text, m.calls.text_bytes, e);
    for (int i = 0; !rc && i < m.calls.n; i++) put_call(x, &m.calls.call[i], i);
    job_message_close(&m);
    return rc;
}

static int put_usage(struct out *o, const struct job *j, struct err *e)
{
    const struct job_prompt *p = &j->prompt[0];
    int prompt = job_prompt_tokens(j), generated = job_generated_tokens(j), thought;
    if (job_reasoning_tokens(p, &p->choice[0], &thought, e)) return -1;
    out_text(o, ",\"usage\":{\"input_tokens\":");
    out_int(o, prompt);
    out_text(o, ",\"input_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":0},\"output_"
                "tokens\":");
    out_int(o, generated);
    out_text(o, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    out_int(o, thought);
    out_text(o, "},\"total_tokens\":");
    out_int(o, prompt + generated);
    out_text(o, "}");
    return 0;
}

int answer_response(struct out *o, const struct answer_env *env, const struct job *j,
                    const char *model, struct err *e)
{
    const struct job_prompt *p = &j->prompt[0];
    int is_cut = p->choice[0].finish == FINISH_LENGTH;
    struct items x = {o, env, j, p, &p->choice[0], is_cut ? "incomplete" : "completed", 0};
    out_text(o, "{\"id\":");
    answer_put_item_id(o, "resp", &j->record, 0);
    out_text(o, ",\"object\":\"response\",\"created_at\":0,\"completed_at\":");
    out_text(o, is_cut ? "null" : "0");
    put_status(o, x.status);
    out_text(o, ",\"error\":null,\"incomplete_details\":");
    out_text(o, is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    out_text(o, ",\"model\":");
    out_string(o, model, strlen(model));
    out_text(o, ",\"output\":[");
    if (put_output(&x, e)) return -1;
    out_text(o, "]");
    if (put_usage(o, j, e)) return -1;
    out_bytes(o, j->record.response.settings.p, j->record.response.settings.n);
    out_text(o, "}");
    return 0;
}
