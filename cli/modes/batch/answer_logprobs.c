#include "cli/modes/batch/answer_logprobs.h"

#include <stdlib.h>
#include <string.h>

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
int answer_put_completion_logprobs(struct out *o, const struct answer_env *env,
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

int answer_put_chat_logprobs(struct out *o, const struct answer_env *env,
                             const struct job_prompt *p, const struct job_choice *c, struct err *e)
{
    struct scored s = scored(&c->scores, &c->tops);
    struct words w = {.env = env, .e = e};
    start_after_prompt(&w, p);
    out_text(o, "[");
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
    out_text(o, "]");
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
int answer_put_prompt_logprobs(struct out *o, const struct answer_env *env,
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
