#include "cli/text/scores.h"

#include "cli/text/show.h"
#include "core/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int scores_open(struct scores *s, const struct tokenizer *tokenizer, int as_json, struct err *e)
{
    *s = (struct scores){.as_json = as_json};
    return token_text_open(&s->texts, tokenizer, e);
}

void scores_close(struct scores *s)
{
    token_text_close(&s->texts);
    out_free(&s->line);
}

static int put_text(struct scores *s, int32_t id, struct err *e)
{
    const char *text;
    size_t n;
    if (token_text_get(&s->texts, id, &text, &n, e)) return -1;
    out_string(&s->line, text, n);
    return 0;
}

/* {"position":3,"id":260,"token":" a","logprob":-1.5,"top":[{"id":..,"token":..,"logprob":..}]} */
static int put_json(struct scores *s, const struct token_info *t, struct err *e)
{
    struct out *o = &s->line;
    out_text(o, "{\"position\":");
    out_int(o, s->n);
    out_text(o, ",\"id\":");
    out_int(o, t->id);
    out_text(o, ",\"token\":");
    if (put_text(s, t->id, e)) return -1;
    out_text(o, ",\"logprob\":");
    if (isnan(t->logprob)) out_text(o, "null");
    else out_logprob(o, t->logprob);
    out_text(o, ",\"top\":[");
    for (int i = 0; i < t->n_top; i++) {
        out_text(o, i ? ",{\"id\":" : "{\"id\":");
        out_int(o, t->top[i].id);
        out_text(o, ",\"token\":");
        if (put_text(s, t->top[i].id, e)) return -1;
        out_text(o, ",\"logprob\":");
        out_logprob(o, t->top[i].logprob);
        out_text(o, "}");
    }
    out_text(o, "]}\n");
    return 0;
}

static int put_line(struct scores *s, const struct token_info *t, struct err *e)
{
    struct out *o = &s->line;
    char number[64];
    int n = isnan(t->logprob)
                ? snprintf(number, sizeof number, "%6d %7d         -  ", s->n, t->id)
                : snprintf(number, sizeof number, "%6d %7d %9.4f  ", s->n, t->id, t->logprob);
    out_bytes(o, number, (size_t)n);
    if (put_text(s, t->id, e)) return -1;
    for (int i = 0; i < t->n_top; i++) {
        out_text(o, i ? "  " : "\t");
        if (put_text(s, t->top[i].id, e)) return -1;
        out_bytes(o, number, (size_t)snprintf(number, sizeof number, " %.4f", t->top[i].logprob));
    }
    out_text(o, "\n");
    return 0;
}

int scores_add(struct scores *s, const struct token_info *t, int is_prompt, struct err *e)
{
    out_clear(&s->line);
    if (s->as_json ? put_json(s, t, e) : put_line(s, t, e)) return -1;
    if (out_failed(&s->line)) return err_memory(e);
    s->n++;
    if (!isnan(t->logprob)) {
        s->n_scored++;
        s->sum += t->logprob;
        if (is_prompt) s->n_prompt_scored++, s->prompt_sum += t->logprob;
    }
    return show_put(s->line.p, s->line.n, e);
}

static void say(const char *what, int n, double sum)
{
    if (n)
        fprintf(stderr, "%s: %d token%s, log-probability %.4f, perplexity %.6g\n", what, n,
                units_s((uint64_t)n), sum, exp(-sum / n));
}

void scores_end(const struct scores *s)
{
    say("prompt after its first token", s->n_prompt_scored, s->prompt_sum);
    say("generated", s->n_scored - s->n_prompt_scored, s->sum - s->prompt_sum);
}
