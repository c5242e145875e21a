#include "cli/modes/batch/job_internal.h"

#include "cli/run.h"
#include "core/text/chat.h"
#include "core/text/chat_continue.h"
#include "core/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct request_sink sink;

int job_refuse(struct refusal *why, const char *field, struct err *inner)
{
    why->field = field;
    why->why = *inner;
    return 1;
}

/* ---- prompts -> tokens */

/* The text of a prompt that is known as ids, for echo. */
static int keep_text_of_ids(const struct job *j, struct job_prompt *p, struct err *e)
{
    p->from_ids = 1;
    if (!j->record.echo || !j->env->tokenizer) return 0;
    return tok_decode(j->env->tokenizer, p->ids.id, p->ids.n, j->record.skip_special, &p->text,
                      &p->text_bytes, e);
}

int job_encode(const struct job *j, const char *text, size_t bytes, struct job_prompt *p,
               struct refusal *why, struct err *e)
{
    const struct job_env *env = j->env;
    struct err inner = {0};
    if (!env->tokenizer) {
        err_set(&inner, "the model has no tokenizer: prompts must be token ids");
        return job_refuse(why, j->field, &inner);
    }
    if (tok_encode(env->tokenizer, text, bytes, j->record.add_special, &p->ids, &inner)) {
        if (!err_is_memory(&inner)) return job_refuse(why, j->field, &inner);
        *e = inner;
        return -1;
    }
    for (size_t i = 0; i < p->ids.n; i++) {
        if (p->ids.id[i] < env->vocab) continue;
        err_set(&inner, "%s: token %zu of the text is id %d, the model's vocabulary ends at %d",
                j->field, i, p->ids.id[i], env->vocab - 1);
        return job_refuse(why, j->field, &inner);
    }
    int rc = job_cut(j, text, bytes, p, why, e);
    if (rc) return rc;
    if (p->was_cut) return keep_text_of_ids(j, p, e);
    if (j->record.echo) {
        if (!(p->text = malloc(bytes + 1))) return err_memory(e);
        memcpy(p->text, text, bytes);
        p->text_bytes = bytes;
    }
    return 0;
}

static int take_ids(const struct job *j, const json_t *array, struct job_prompt *p,
                    struct refusal *why, struct err *e)
{
    size_t n = json_array_size(array);
    struct err inner;
    if (!(p->ids.id = malloc((n + 1) * sizeof *p->ids.id))) return err_memory(e);
    p->ids.cap = n + 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(array, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v))
            err_set(&inner, "%s: must be a string, an array of token ids, or an array of these",
                    j->field);
        else if (id < 0 || id >= j->env->vocab)
            err_set(&inner, "%s: token %zu is outside the vocabulary (0..%d)", j->field, i,
                    j->env->vocab - 1);
        else {
            p->ids.id[p->ids.n++] = (int32_t)id;
            continue;
        }
        return job_refuse(why, j->field, &inner);
    }
    int rc = job_cut(j, NULL, 0, p, why, e);
    return rc ? rc : keep_text_of_ids(j, p, e);
}

static int one_prompt(const struct job *j, const json_t *v, struct job_prompt *p,
                      struct refusal *why, struct err *e)
{
    if (json_is_string(v))
        return job_encode(j, json_string_value(v), json_string_length(v), p, why, e);
    if (json_is_array(v)) return take_ids(j, v, p, why, e);
    struct err inner;
    err_set(&inner, "%s: must be a string, an array of token ids, or an array of these", j->field);
    return job_refuse(why, j->field, &inner);
}

/* Developers of a response are what its template calls them: most know the system only. */
static void name_developers(const struct chat *c, json_t *messages)
{
    size_t n, i;
    const char *source = chat_source(c, &n), *role;
    json_t *m;
    if (source && memmem(source, n, "developer", strlen("developer"))) return;
    json_array_foreach (messages, i, m)
        if ((role = json_string_value(json_object_get(m, "role"))) && !strcmp(role, "developer"))
            json_object_set_new(m, "role", json_string("system"));
}

/* Messages of a record, or a line of text as one. */
static int make_messages(const struct job *j, json_t **messages, struct err *e)
{
    const struct record *r = &j->record;
    const char *system = j->env->system_prompt;
    if (r->kind == RECORD_RESPONSE) name_developers(j->chat, r->response.messages);
    if (r->messages) return chat_messages(j->chat, r->messages, messages, e);
    if (!(*messages = json_array())) return err_memory(e);
    if (system &&
        run_add_message(*messages, "system", system, strlen(system), "--system-prompt", e))
        return -1;
    return run_add_message(*messages, "user", r->text, r->text_bytes, "the line", e);
}

/* Variables of the run that the record leaves open. */
static int defaults_of(const struct job *j, json_t *extra, struct err *e)
{
    const struct record *r = &j->record;
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)j->env->variables, name, v) {
        int is_said = json_object_get(extra, name) ||
                      (r->effort && !strcmp(name, "reasoning_effort")) ||
                      (r->verbosity && !strcmp(name, "verbosity"));
        if (!is_said && json_object_set(extra, name, v)) return err_memory(e);
    }
    return 0;
}

/* The template's further variables: chat_template_kwargs and the fields that are such variables. */
static int template_variables(const struct job *j, json_t **extra, struct refusal *why,
                              struct err *e)
{
    const struct record *r = &j->record;
    const json_t *const words[] = {r->effort, r->verbosity};
    static const char *const names[] = {"reasoning_effort", "verbosity"}, *const of_response[] = {
                                                                              "reasoning.effort",
                                                                              "text.verbosity"};
    const char *const *fields = r->kind == RECORD_RESPONSE ? of_response : names;
    struct err inner = {0};
    *extra = r->kwargs ? json_copy((json_t *)(uintptr_t)r->kwargs) : json_object();
    if (!*extra) return err_memory(e);
    if (j->env->variables && defaults_of(j, *extra, e)) return -1;
    for (int i = 0; i < 2; i++) {
        const json_t *given = json_object_get(*extra, names[i]);
        if (!words[i]) continue;
        if (given && !json_equal(given, words[i]))
            err_set(&inner, "%s: chat_template_kwargs says something else", fields[i]);
        else if (chat_reads(j->chat, r->tools != NULL, names[i]))
            json_object_set(*extra, names[i], (json_t *)(uintptr_t)words[i]);
        else if (!i)
            err_set(&inner,
                    "%s: the model's chat template does not read it; variables that it "
                    "reads are set by chat_template_kwargs",
                    fields[i]);
        if (inner.msg[0]) return job_refuse(why, fields[i], &inner);
    }
    return json_check(e);
}

/* Renders MESSAGES; of continue_final_message, the text ends within the last one. 1: refused. */
static int render(const struct job *j, json_t *messages, const json_t *extra, char **text,
                  size_t *bytes, struct refusal *why, struct err *e)
{
    const struct record *r = &j->record;
    const struct chat_input in = {messages, r->tools, extra, r->add_generation_prompt};
    json_t *last = NULL;
    struct err inner = {0};
    int rc = r->continue_final ? chat_continue_mark(messages, &last, &inner) : 0, is_cut = rc;
    if (!rc) rc = chat_render(j->chat, &in, text, bytes, e);
    if (!rc && r->continue_final) rc = is_cut = chat_continue_cut(*text, bytes, last, &inner);
    json_decref(last);
    if (!rc) return 0;
    if (is_cut) *e = inner;
    if (!is_cut || err_is_memory(&inner)) return -1;
    err_prefix(&inner, "continue_final_message");
    return job_refuse(why, "continue_final_message", &inner);
}

static int chat_prompt(struct job *j, struct job_prompt *p, struct refusal *why, struct err *e)
{
    const struct record *r = &j->record;
    struct err inner = {0};
    json_t *messages = NULL, *extra = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int rc = job_calls_chat(j, &j->chat, why, e);
    if (rc) return rc;
    if (r->tools && !chat_reads_tools(j->chat)) {
        err_set(&inner, "tools: the model's chat template does not use tools");
        return job_refuse(why, "tools", &inner);
    }
    if ((rc = template_variables(j, &extra, why, e))) {
        json_decref(extra);
        return rc;
    }
    rc = make_messages(j, &messages, &inner);
    if (!rc) rc = render(j, messages, extra, &text, &bytes, why, &inner);
    json_decref(messages);
    json_decref(extra);
    if (rc == 1) {
        free(text);
        return 1;
    }
    if (rc) json_check(&inner);
    if (rc && !err_is_memory(&inner)) {
        if (strncmp(inner.msg, j->field, strlen(j->field))) err_prefix(&inner, "%s", j->field);
        return job_refuse(why, j->field, &inner);
    }
    if (rc) *e = inner;
    else rc = job_encode(j, text, bytes, p, why, e);
    if (!rc) rc = job_calls_prepare(j, text, bytes, e);
    free(text);
    return rc;
}

int job_add_prompts(struct job *j, int n, struct err *e)
{
    j->n_prompts = n;
    j->prompt = calloc((size_t)n, sizeof *j->prompt);
    if (!j->prompt) return err_memory(e);
    for (int i = 0; i < n; i++) j->prompt[i].job = j;
    return 0;
}

static int read_prompts(struct job *j, struct refusal *why, struct err *e)
{
    const struct record *r = &j->record;
    j->field = r->pooling.b_field                 ? r->pooling.b_field
               : r->pooling.a_field               ? r->pooling.a_field
               : r->kind == RECORD_RESPONSE       ? "input"
               : r->messages || record_is_chat(r) ? "messages"
                                                  : "prompt";
    if (r->kind >= RECORD_EMBEDDING && job_check_pooling(j, why)) return 1;
    if (r->kind < RECORD_EMBEDDING && j->env->headless) {
        struct err none;
        err_set(&none, "the model has no head (lm_head): it makes embeddings only");
        return job_refuse(why, NULL, &none);
    }
    const json_t *first = json_array_get(r->prompt, 0);
    int many = json_is_array(r->prompt) && first && !json_is_integer(first), rc = 0;
    size_t n_prompts = many ? json_array_size(r->prompt) : 1;
    struct err inner;
    if (n_prompts * (size_t)r->n > RECORD_MAX_CHOICES) {
        const char *field = r->n > 1 ? "n" : j->field;
        err_set(&inner, "%s: %zu prompts with n %d are %zu choices, a record may ask for %d", field,
                n_prompts, r->n, n_prompts * (size_t)r->n, RECORD_MAX_CHOICES);
        return job_refuse(why, field, &inner);
    }
    if (r->pooling.b) rc = job_read_pairs(j, why, e);
    else if (job_add_prompts(j, (int)n_prompts, e)) return -1;
    else if (r->messages || record_is_chat(r)) rc = chat_prompt(j, &j->prompt[0], why, e);
    else if (!r->prompt) rc = job_encode(j, r->text, r->text_bytes, &j->prompt[0], why, e);
    else if (!many) rc = one_prompt(j, r->prompt, &j->prompt[0], why, e);
    else
        for (int i = 0; i < j->n_prompts && !rc; i++)
            rc = one_prompt(j, json_array_get(r->prompt, (size_t)i), &j->prompt[i], why, e);
    if (rc) return rc;
    for (int i = 0; i < j->n_prompts; i++) {
        size_t n = j->prompt[i].ids.n, limit = (size_t)j->env->n_ctx - (r->max_tokens != 0);
        if (!n) err_set(&inner, "%s: is empty", j->field);
        else if (n > limit)
            err_set(&inner, "%s: has %zu tokens, the context %d%s", j->field, n, j->env->n_ctx,
                    r->response.drops_items ? " (truncation \"auto\" drops no items here)" : "");
        else continue;
        return job_refuse(why, j->field, &inner);
    }
    return 0;
}

/* ---- how much an answer may be */

/* About what a token takes of the answer, without its text. */
static uint64_t token_bytes(const struct record *r)
{
    int n = r->named ? r->n_named : r->logprobs;
    return 16 + (r->logprobs < 0 ? 0 : 64 + 128 * (uint64_t)n);
}

/* Counts N bytes of the answer. 1: it became too large. */
static int grow(struct job *j, uint64_t n)
{
    j->bytes += n;
    if (j->bytes > JOB_MAX_ANSWER && !j->failed[0]) {
        snprintf(
            j->failed, sizeof j->failed,
            "the answer takes more than %llu MiB: ask for less of n, max_tokens, logprobs or echo",
            (unsigned long long)(JOB_MAX_ANSWER >> 20));
        j->status = 400;
    }
    return j->failed[0] != 0;
}

/* Counts the bytes of the answer that are known before any step. */
static int measure(struct job *j, struct refusal *why)
{
    const struct record *r = &j->record;
    struct err inner;
    for (int i = 0; i < j->n_prompts; i++) {
        const struct job_prompt *p = &j->prompt[i];
        uint64_t choice = 512 + (r->return_ids ? p->ids.n * 8 : 0);
        if (r->prompt_logprobs >= 0) choice += p->ids.n * (128 + 80 * (uint64_t)r->prompt_logprobs);
        if (r->echo) choice += p->text_bytes + (r->logprobs >= 0 ? p->ids.n * token_bytes(r) : 0);
        if (!grow(j, choice * (uint64_t)r->n)) continue;
        err_set(&inner, "%s", j->failed);
        return job_refuse(why, NULL, &inner);
    }
    if (r->kind < RECORD_EMBEDDING || !grow(j, job_pooled_bytes(j))) return 0;
    err_set(&inner, "the answer takes more than %llu MiB: ask for fewer texts or dimensions",
            (unsigned long long)(JOB_MAX_ANSWER >> 20));
    return job_refuse(why, NULL, &inner);
}

/* ---- requests */

static int make_requests(struct job *j, struct err *e)
{
    struct record *r = &j->record;
    uint64_t stream = r->has_seed ? 0 : record_hash(r);
    if (!r->has_seed) r->sampling.seed = j->env->seed;
    if (r->kind >= RECORD_EMBEDDING) {
        job_make_pooled(j);
        return 0;
    }
    r->sampling.dry.breakers = &j->breakers;
    r->sampling.allowed = r->allowed;
    r->sampling.bad = j->bad;
    r->sampling.n_bad = j->n_bad;
    if (r->sampling.dry.multiplier != 0 && r->n_breakers &&
        breakers_open(&j->breakers, j->env->texts, j->env->tokenizer, r->breakers, r->n_breakers,
                      e))
        return -1;
    for (int i = 0; i < j->n_prompts; i++) {
        struct job_prompt *p = &j->prompt[i];
        p->request = (struct request){
            .prompt = p->ids.id,
            .n_prompt = (int)p->ids.n,
            .n_choices = r->n,
            .max_tokens = r->max_tokens < 0 ? j->env->n_ctx : r->max_tokens,
            .n_top = r->logprobs,
            .prompt_top = r->echo && r->logprobs > r->prompt_logprobs ? r->logprobs
                                                                      : r->prompt_logprobs,
            .score_from = 1,
            .ranks = r->prompt_logprobs >= 0,
            .named = r->named,
            .n_named = r->n_named,
            .sampling = r->sampling,
            .stream = stream + (uint64_t)i * 0x9e3779b97f4a7c15u,
            .sink = &sink,
            .arg = p,
        };
        p->choice = calloc((size_t)r->n, sizeof *p->choice);
        if (!p->choice) return err_memory(e);
        if (j->env->tokenizer && tok_stream_open_after(&p->stream, j->env->tokenizer,
                                                       r->skip_special, p->ids.id, p->ids.n, e))
            return -1;
        for (int c = 0; c < r->n; c++) {
            struct job_choice *ch = &p->choice[c];
            ch->stopped_by_string = ch->stopped_by_token = -1;
            if (stop_open(&ch->stop, r->stop, r->n_stop, e)) return -1;
            if (p->stream && tok_stream_copy(&ch->stream, p->stream, e)) return -1;
        }
    }
    j->n_running = j->n_prompts;
    return 0;
}

/* ---- what answers have to be */

static int ask_for_grammar(struct job *j, struct refusal *why, struct err *e)
{
    const struct record_grammar *g = &j->record.grammar;
    struct grammar_spec spec = g->spec;
    struct err inner;
    if (!g->field) return 0;
    spec.thoughts = j->calls.thoughts;
    if (j->env->constraints) return constraint_ask(j->env->constraints, &spec, &j->constraint, e);
    err_set(&inner, "%s: the model has no tokenizer", g->field);
    return job_refuse(why, g->field, &inner);
}

int job_take_grammar(struct job *j, int wait, struct refusal *why, struct err *e)
{
    struct grammar *g;
    struct err inner;
    if (!j->constraint) return 0;
    int rc = constraint_get(j->env->constraints, j->constraint, wait, &g, &inner);
    if (!rc) return 2;
    if (rc < 0 && err_is_memory(&inner)) {
        *e = inner;
        return -1;
    }
    if (rc < 0) {
        const char *field = j->record.grammar.field;
        int is_of_tools = !strncmp(inner.msg, "tools: ", strlen("tools: "));
        if (!is_of_tools) err_prefix(&inner, "%s", field);
        return job_refuse(why, is_of_tools ? "tools" : field, &inner);
    }
    for (int i = 0; i < j->n_prompts; i++) j->prompt[i].request.grammar = g;
    return 0;
}

int job_open(struct job **result, const struct job_env *env, const struct input_line *line,
             int plain, const struct record_defaults *d, struct refusal *why, struct err *e)
{
    struct job *j = calloc(1, sizeof *j);
    *result = NULL;
    if (!j) return err_memory(e);
    j->env = env;
    int rc = record_parse(&j->record, line, plain, d, why, e);
    if (!rc) rc = read_prompts(j, why, e);
    if (!rc) rc = job_take_bad_words(j, why, e);
    if (!rc) rc = measure(j, why);
    if (!rc) record_settle(&j->record);
    if (!rc) rc = make_requests(j, e);
    if (!rc) rc = ask_for_grammar(j, why, e);
    if (rc < 0) job_close(j);
    else *result = j;
    return rc;
}

void job_close(struct job *j)
{
    if (!j) return;
    for (int i = 0; j->prompt && i < j->n_prompts; i++) {
        struct job_prompt *p = &j->prompt[i];
        for (int c = 0; p->choice && c < j->record.n; c++) {
            struct job_choice *ch = &p->choice[c];
            tok_stream_close(ch->stream);
            stop_close(&ch->stop);
            out_free(&ch->text);
            out_free(&ch->ids);
            out_free(&ch->scores);
            out_free(&ch->tops);
            out_free(&ch->special);
        }
        free(p->choice);
        tok_stream_close(p->stream);
        tok_ids_free(&p->ids);
        free(p->text);
        out_free(&p->scores);
        out_free(&p->tops);
        free(p->sum);
        free(p->vector);
    }
    for (int i = 0; i < j->bad_room; i++) tok_ids_free(&j->bad_ids[i]);
    free(j->bad_ids);
    free(j->bad);
    free(j->prompt);
    if (j->constraint) constraint_drop(j->env->constraints, j->constraint);
    job_calls_close(&j->calls);
    record_free(&j->record);
    free(j);
}

int job_prompt_tokens(const struct job *j)
{
    int n = 0;
    for (int i = 0; i < j->n_prompts; i++) n += (int)j->prompt[i].ids.n;
    return n;
}

int job_generated_tokens(const struct job *j)
{
    int n = 0;
    for (int i = 0; i < j->n_prompts; i++)
        for (int c = 0; j->prompt[i].choice && c < j->record.n; c++)
            n += (int)(j->prompt[i].choice[c].ids.n / sizeof(int32_t));
    return n;
}

size_t job_echo_bytes(const struct job_prompt *p, const struct job_choice *c)
{
    return p->from_ids && c->stream ? tok_stream_before(c->stream) : p->text_bytes;
}

/* ---- what the scheduler hands back */

static void keep_score(struct out *scores, struct out *tops, const struct token_info *t)
{
    struct job_score s = {t->id, (float)t->logprob, (int)(tops->n / sizeof(struct job_top)),
                          t->n_top, t->rank};
    for (int i = 0; i < t->n_top; i++)
        out_bytes(tops, &(struct job_top){t->top[i].id, (float)t->top[i].logprob},
                  sizeof(struct job_top));
    out_bytes(scores, &s, sizeof s);
}

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    struct job_prompt *p = arg;
    (void)pos;
    keep_score(&p->scores, &p->tops, t);
    return out_failed(&p->scores) || out_failed(&p->tops) ? err_memory(e) : 0;
}

/* Adds a piece of text. 1 when it completed a stop string: the text then ends there. */
static int add_text(const struct record *r, struct job_choice *c, const char *piece, size_t n,
                    int look, struct err *e)
{
    const char *certain;
    size_t n_certain;
    out_bytes(&c->text, piece, n);
    if (out_failed(&c->text)) return err_memory(e);
    if (!look || !r->n_stop) {
        c->n_certain = c->text.n;
        return 0;
    }
    int stopped = stop_push(&c->stop, piece, n, &certain, &n_certain, e);
    if (stopped < 0) return -1;
    c->n_certain += n_certain;
    if (!stopped) return 0;
    for (int i = 0; i < r->n_stop; i++) {
        size_t len = strlen(r->stop[i]);
        if (len > c->text.n - c->n_certain || memcmp(c->text.p + c->n_certain, r->stop[i], len))
            continue;
        c->stopped_by_string = i;
        c->text.n = c->n_certain + (r->include_stop ? len : 0);
        break;
    }
    return 1;
}

static int among(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct job_prompt *p = arg;
    struct job_choice *c = &p->choice[choice];
    const struct job_env *env = p->job->env;
    const struct record *r = &p->job->record;
    const char *piece;
    size_t n;
    if (!p->job->first_token) p->job->first_token = env->clock();
    if (grow(p->job, token_bytes(r))) return 1;
    out_bytes(&c->ids, &t->id, sizeof t->id);
    if (r->logprobs >= 0) keep_score(&c->scores, &c->tops, t);
    if (out_failed(&c->ids) || out_failed(&c->scores) || out_failed(&c->tops)) return err_memory(e);
    if (!c->stream) return 0;
    int ends = !r->sampling.ignore_eos && among(env->eos, env->n_eos, t->id);
    if (!ends && among(r->sampling.stop_ids, r->sampling.n_stop_ids, t->id)) {
        ends = 1;
        c->stopped_by_token = t->id;
    }
    if (ends && !r->include_stop) return 0;
    if (tok_stream_push(c->stream, t->id, &piece, &n, e)) return -1;
    if (grow(p->job, n)) return 1;
    size_t before = c->text.n;
    /* As vLLM has it, the text of the first min_tokens tokens is not searched for stop strings. */
    int rc = add_text(r, c, piece, n, (int)(c->ids.n / sizeof(int32_t)) > r->sampling.min_tokens,
                      e);
    return rc ? rc : job_calls_see(p->job, c, t->id, before, e);
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    struct job_prompt *p = arg;
    struct job_choice *c = &p->choice[choice];
    const char *piece;
    size_t n;
    c->finish = why;
    if (why == FINISH_ABORTED) p->job->aborted = 1;
    if (!c->stream || c->stopped_by_string >= 0) return 0;
    if (tok_stream_flush(c->stream, &piece, &n, e)) return -1;
    int stopped = add_text(&p->job->record, c, piece, n,
                           (int)(c->ids.n / sizeof(int32_t)) > p->job->record.sampling.min_tokens,
                           e);
    if (stopped == 1 && why == FINISH_LENGTH) c->finish = FINISH_STOP;
    return stopped < 0 ? -1 : 0;
}

int job_end_prompt(struct job_prompt *p, const char *msg)
{
    struct job *j = p->job;
    if (msg && !j->failed[0]) {
        snprintf(j->failed, sizeof j->failed, "%s", msg);
        j->status = 500;
    }
    if (--j->n_running) return 0;
    j->end = j->env->clock();
    j->env->done(j->env->arg, j);
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    (void)e;
    return job_end_prompt(arg, msg);
}

static const struct request_sink sink = {.prompt_token = on_prompt_token,
                                         .token = on_token,
                                         .finished = on_finished,
                                         .done = on_done};
