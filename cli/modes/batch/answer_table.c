#include "cli/modes/batch/answer_table.h"

#include "cli/modes/batch/table.h"

#include <string.h>

static const char *const columns[] = {"answer", "finish_reason", "error"},
                         *const with_reasoning[] = {"answer", "reasoning", "finish_reason",
                                                    "error"};

int answer_table_header(struct out *o, const struct answer_env *env, struct err *e)
{
    return table_put_header(o, env->table, env->separator, env->splits ? with_reasoning : columns,
                            env->splits ? 4 : 3, e);
}

static void end_cell(struct out *o, const struct answer_env *env)
{
    out_bytes(o, &env->separator, 1);
}

static void put_text(struct out *o, const struct answer_env *env, const char *text, size_t n)
{
    table_put_cell(o, env->separator, text, n);
    end_cell(o, env);
}

int answer_row(struct out *o, const struct answer_env *env, const struct job *j, struct err *e)
{
    const struct record *r = &j->record;
    const struct job_choice *c = &j->prompt[0].choice[0];
    if (table_put_row(o, env->table, env->separator, r->own, r->n_row, e)) return -1;
    if (job_message_is_shaped(j)) {
        struct job_message m;
        int rc = job_message_open(&m, &j->prompt[0], c, e);
        if (!rc) put_text(o, env, m.calls.text, m.calls.text_bytes);
        if (!rc && env->splits) put_text(o, env, m.thoughts, m.n_thoughts);
        job_message_close(&m);
        if (rc) return -1;
    } else {
        put_text(o, env, c->text.p, c->text.n);
        if (env->splits) end_cell(o, env);
    }
    out_text(o, c->finish == FINISH_LENGTH ? "length" : "stop");
    end_cell(o, env);
    return 0;
}

int answer_refused_row(struct out *o, const struct answer_env *env, const struct record *r,
                       const char *msg, struct err *e)
{
    if (table_put_row(o, env->table, env->separator, r->own, r->n_row, e)) return -1;
    for (int i = env->splits ? 3 : 2; i; i--) end_cell(o, env);
    table_put_cell(o, env->separator, msg, strlen(msg));
    return 0;
}
