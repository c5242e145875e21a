/* library_request.c: one request of the library, from its parameters to its sink. */
#include "engine/library.h"

#include "core/grammar/grammar.h"
#include "engine/embedding.h"

#include <stdlib.h>
#include <string.h>

struct o4_request {
    struct o4_request *next, *before;
    o4_engine *engine;
    struct request request;
    int32_t *prompt; /* [request.n_prompt] */
    struct o4_sink sink;
    void *arg;
    struct tok_stream *stream; /* NULL: the model has no tokenizer */
    struct grammar *grammar;
    double *sum; /* [dim] of an embedding */
    int n_rows;
    enum finish why;
};

void o4_request_free(o4_engine *g, struct o4_request *q)
{
    if (q->before) q->before->next = q->next;
    else g->first = q->next;
    if (q->next) q->next->before = q->before;
    tok_stream_close(q->stream);
    grammar_close(q->grammar);
    free(q->sum);
    free(q->prompt);
    free(q);
}

static int is_eos(const struct model_config *c, int32_t id)
{
    for (int i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id) return 1;
    return 0;
}

/* ---- what the scheduler calls */

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct o4_request *q = arg;
    const char *text = "";
    size_t bytes = 0;
    int ends = is_eos(&q->engine->model->engine.model.config, t->id) &&
               !q->request.sampling.ignore_eos;
    (void)choice;
    if (q->stream && !ends && tok_stream_push(q->stream, t->id, &text, &bytes, e)) return -1;
    return q->sink.token && q->sink.token(q->arg, t->id, text, bytes) ? 1 : 0;
}

static int on_hidden(void *arg, int pos, const float *hidden, struct err *e)
{
    struct o4_request *q = arg;
    int dim = q->engine->model->pooling.dim;
    (void)pos, (void)e;
    for (int i = 0; i < dim; i++) q->sum[i] += (double)hidden[i];
    q->n_rows++;
    return 0;
}

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    (void)arg, (void)pos, (void)t, (void)e;
    return 0;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)choice, (void)e;
    ((struct o4_request *)arg)->why = why;
    return 0;
}

/* The text that the decoder held back comes with id -1. */
static int end_text(struct o4_request *q, struct err *e)
{
    const char *text;
    size_t bytes;
    if (!q->stream || !q->sink.token) return 0;
    if (tok_stream_flush(q->stream, &text, &bytes, e)) return -1;
    if (bytes) q->sink.token(q->arg, -1, text, bytes);
    return 0;
}

static int end_vector(struct o4_request *q, const char **msg, struct err *e)
{
    const struct pooling *by = &q->engine->model->pooling;
    float *v = malloc((size_t)by->dim * sizeof *v);
    if (!v) return err_memory(e);
    if (embedding_make(q->sum, by->dim, q->n_rows, by->norm, v))
        *msg = "the model's results are not finite: the checkpoint is damaged or overflows";
    else if (q->sink.vector) q->sink.vector(q->arg, v, by->dim);
    free(v);
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct o4_request *q = arg;
    int whole = !msg && q->why != FINISH_ABORTED;
    if (whole && (q->sum ? end_vector(q, &msg, e) : end_text(q, e))) return -1;
    if (q->sink.done)
        q->sink.done(q->arg, q->why == FINISH_STOP     ? O4_STOP
                             : q->why == FINISH_LENGTH ? O4_LENGTH
                                                       : O4_ABORTED,
                     msg);
    o4_request_free(q->engine, q);
    return 0;
}

static const struct request_sink answer_sink = {.prompt_token = on_prompt_token,
                                                .token = on_token,
                                                .finished = on_finished,
                                                .done = on_done},
                                 vector_sink = {.prompt_token = on_prompt_token,
                                                .prompt_hidden = on_hidden,
                                                .token = on_token,
                                                .finished = on_finished,
                                                .done = on_done};

/* ---- parameters */

static int range(const char *name, double x, double low, double high, struct err *e)
{
    return x >= low && x <= high ? 0 : err_set(e, "%s: not from %g to %g", name, low, high);
}

static int read_sampling(struct sampler_params *s, const struct o4_params *p, struct err *e)
{
    *s = (struct sampler_params){
        .temperature = p->temperature,
        .top_k = p->top_k,
        .top_p = p->top_p == 0 ? 1 : p->top_p,
        .min_p = p->min_p,
        .typical_p = 1,
        .repetition_penalty = p->repetition_penalty == 0 ? 1 : p->repetition_penalty,
        .presence_penalty = p->presence_penalty,
        .frequency_penalty = p->frequency_penalty,
        .min_tokens = p->min_tokens,
        .ignore_eos = p->ignore_eos,
        .seed = p->seed};
    return range("temperature", s->temperature, 0, 100, e) ||
                   range("top_p", s->top_p, 0, 1, e) || range("min_p", s->min_p, 0, 1, e) ||
                   range("repetition_penalty", s->repetition_penalty, 0.01, 100, e) ||
                   range("presence_penalty", s->presence_penalty, -100, 100, e) ||
                   range("frequency_penalty", s->frequency_penalty, -100, 100, e) ||
                   range("top_k", s->top_k, 0, 1 << 24, e) ||
                   range("min_tokens", s->min_tokens, 0, 1 << 24, e) ||
                   range("max_tokens", p->max_tokens, 0, 1 << 24, e)
               ? -1
               : 0;
}

static int read_constraint(struct o4_request *q, const struct o4_params *p, struct err *e)
{
    const char *text[] = {p->json_schema, p->regex, p->grammar};
    static const enum grammar_kind kind[] = {GRAMMAR_SCHEMA, GRAMMAR_REGEX, GRAMMAR_GBNF};
    static const char *const name[] = {"json_schema", "regex", "grammar"};
    const struct engine *g = &q->engine->model->engine;
    int which = -1;
    for (int i = 0; i < 3; i++) {
        if (text[i] && which >= 0)
            return err_set(e, "%s and %s exclude each other", name[which], name[i]);
        if (text[i]) which = i;
    }
    if (which < 0) return 0;
    if (!g->tokenizer) return err_set(e, "%s: the model has no tokenizer", name[which]);
    const struct model_config *c = &g->model.config;
    const struct vocabulary_source tokens = {g->tokenizer, c->eos, c->n_eos, c->vocab};
    if (!q->engine->vocab && vocabulary_open(&q->engine->vocab, &tokens, e)) return -1;
    const struct grammar_spec spec = {
        .kind = kind[which], .text = text[which], .bytes = strlen(text[which])};
    if (grammar_open(&q->grammar, &spec, q->engine->vocab, e))
        return err_prefix(e, "%s", name[which]);
    q->request.grammar = q->grammar;
    return 0;
}

static int read_embedding(struct o4_request *q, struct err *e)
{
    const struct pooling *by = &q->engine->model->pooling;
    struct request *r = &q->request;
    if (!q->engine->model->engine.hidden)
        return err_set(e, "embedding: the engine was opened without embeddings");
    if (by->wrong[0]) return err_set(e, "embedding: %s", by->wrong);
    if (!(q->sum = calloc((size_t)by->dim, sizeof *q->sum))) return err_memory(e);
    r->max_tokens = 0;
    r->hidden_from = by->kind == POOLING_LAST ? r->n_prompt - 1 : 0;
    r->hidden_end = by->kind == POOLING_CLS ? 1 : r->n_prompt;
    r->sink = &vector_sink;
    return 0;
}

static int fill(struct o4_request *q, const struct o4_params *p, const int32_t *prompt, size_t n,
                struct err *e)
{
    const struct engine *g = &q->engine->model->engine;
    int context = engine_context(g);
    if (!n || n > (size_t)context)
        return err_set(e, "the prompt has %zu tokens, the context %d", n, context);
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || prompt[i] >= g->model.config.vocab)
            return err_set(e, "the prompt's id %d is not in the vocabulary", prompt[i]);
    if (!(q->prompt = malloc(n * sizeof *prompt))) return err_memory(e);
    memcpy(q->prompt, prompt, n * sizeof *prompt);
    q->request = (struct request){.prompt = q->prompt,
                                  .n_prompt = (int)n,
                                  .n_choices = 1,
                                  .max_tokens = p->max_tokens ? p->max_tokens : context - (int)n,
                                  .n_top = -1,
                                  .prompt_top = -1,
                                  .sink = &answer_sink,
                                  .arg = q};
    if (read_sampling(&q->request.sampling, p, e)) return -1;
    if (p->embedding) return read_embedding(q, e);
    if (g->model.config.headless)
        return err_set(e, "the model has no head: it makes embeddings alone");
    if (g->tokenizer && tok_stream_open_after(&q->stream, g->tokenizer, 1, prompt, n, e)) return -1;
    return read_constraint(q, p, e);
}

int o4_submit(o4_engine *g, const struct o4_params *p, const int32_t *prompt, size_t n,
              const struct o4_sink *sink, void *arg, struct o4_error *e)
{
    struct err why = {0};
    struct o4_params params = {0};
    struct o4_request *q = calloc(1, sizeof *q);
    if (!q) return o4_fail(e, O4_MEMORY, (err_memory(&why), &why));
    q->engine = g;
    q->next = g->first;
    if (g->first) g->first->before = q;
    g->first = q;
    q->arg = arg;
    int rc = 0;
    if (p && (p->size < sizeof p->size || p->size > sizeof params))
        rc = err_set(&why, "o4_params has a size that this library does not know");
    else if (sink->size < sizeof sink->size || sink->size > sizeof q->sink)
        rc = err_set(&why, "o4_sink has a size that this library does not know");
    if (!rc && p) memcpy(&params, p, p->size);
    if (!rc) memcpy(&q->sink, sink, sink->size);
    if (!rc) rc = fill(q, &params, prompt, n, &why);
    if (!rc) rc = replicas_submit(g->model->engine.replicas, &q->request, &why);
    if (!rc) return 0;
    o4_request_free(g, q);
    return o4_fail(e, O4_INPUT, &why);
}
