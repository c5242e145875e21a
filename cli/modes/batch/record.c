#include "cli/modes/batch/record.h"

#include "cli/modes/batch/record_grammar.h"
#include "cli/modes/batch/record_pooling.h"
#include "cli/modes/batch/record_tokens.h"

#include "engine/sampling.h"
#include "core/base/json_long.h"
#include "core/base/json_span.h"
#include "core/sched/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_CHOICES = 1024, MAX_RECORD_STOPS = 64, MAX_STOP_BYTES = 4096, MAX_BREAKER_BYTES = 256 };
enum { MAX_VALUES = 4 << 20 }; /* of a line: jansson takes up to 200 bytes for each */

/* How a field of the body is treated. SERVED fields have a reader; IGNORED ones cannot change an
 * answer; REFUSED ones may only hold a value that asks for nothing (null, false, "", [], {}). */
enum {
    COMPLETION = 1 << RECORD_COMPLETION,
    CHAT = 1 << RECORD_CHAT,
    RESPONSE = 1 << RECORD_RESPONSE,
    BOTH = COMPLETION | CHAT,
    CHATS = CHAT | RESPONSE,
    ANSWERED = BOTH | RESPONSE,
    EMBEDDING = 1 << RECORD_EMBEDDING,
    SCORE = 1 << RECORD_SCORE,
    RERANK = 1 << RECORD_RERANK,
    PAIRS = SCORE | RERANK,
    POOLED = EMBEDDING | PAIRS,
    ALL = ANSWERED | POOLED
};
enum field_kind { F_INT, F_REAL, F_BOOL, F_OTHER, F_IGNORED, F_REFUSED };

static const struct field {
    const char *name;
    int where;
    enum field_kind kind;
    size_t offset;
    double lo, hi;
} fields[] = {
#define AT(member) offsetof(struct record, member)
    {"temperature", ANSWERED, F_REAL, AT(sampling.temperature), 0, 100},
    {"top_p", ANSWERED, F_REAL, AT(sampling.top_p), 0, 1},
    {"min_p", ANSWERED, F_REAL, AT(sampling.min_p), 0, 1},
    {"top_k", ANSWERED, F_INT, AT(sampling.top_k), -1, 1 << 24},
    {"repetition_penalty", ANSWERED, F_REAL, AT(sampling.repetition_penalty), 0.01, 100},
    {"presence_penalty", ANSWERED, F_REAL, AT(sampling.presence_penalty), -100, 100},
    {"frequency_penalty", ANSWERED, F_REAL, AT(sampling.frequency_penalty), -100, 100},
    {"typical_p", ANSWERED, F_REAL, AT(sampling.typical_p), 0, 1},
    {"top_n_sigma", ANSWERED, F_REAL, AT(sampling.top_n_sigma), -1, 1000},
    {"repeat_last_n", ANSWERED, F_INT, AT(repeat_last_n), -1, 1 << 24},
    {"dry_multiplier", ANSWERED, F_REAL, AT(sampling.dry.multiplier), 0, 1000},
    {"dry_base", ANSWERED, F_REAL, AT(sampling.dry.base), 1, 1000},
    {"dry_allowed_length", ANSWERED, F_INT, AT(sampling.dry.allowed_length), 1, 1 << 24},
    {"dry_penalty_last_n", ANSWERED, F_INT, AT(dry_last_n), -1, 1 << 24},
    {"xtc_probability", ANSWERED, F_REAL, AT(sampling.xtc_probability), 0, 1},
    {"xtc_threshold", ANSWERED, F_REAL, AT(sampling.xtc_threshold), 0, 1},
    {"mirostat", ANSWERED, F_INT, AT(sampling.mirostat), 0, 2},
    {"mirostat_tau", ANSWERED, F_REAL, AT(sampling.mirostat_tau), 0, 100},
    {"mirostat_eta", ANSWERED, F_REAL, AT(sampling.mirostat_eta), 0, 100},
    {"min_tokens", ANSWERED, F_INT, AT(sampling.min_tokens), 0, 1 << 24},
    {"ignore_eos", ANSWERED, F_BOOL, AT(sampling.ignore_eos), 0, 0},
    {"n", BOTH, F_INT, AT(n), 1, MAX_CHOICES},
    {"max_tokens", BOTH, F_INT, AT(max_tokens), 0, 1 << 24},
    {"max_completion_tokens", CHAT, F_INT, AT(max_tokens), 0,
     1 << 24}, /* after max_tokens: it wins */
    {"max_output_tokens", RESPONSE, F_INT, AT(max_tokens), 0, 1 << 24},
    {"include_stop_str_in_output", ANSWERED, F_BOOL, AT(include_stop), 0, 0},
    {"skip_special_tokens", ANSWERED, F_BOOL, AT(skip_special), 0, 0},
    {"add_special_tokens", BOTH | EMBEDDING, F_BOOL, AT(add_special), 0, 0},
    {"add_generation_prompt", CHAT | EMBEDDING, F_BOOL, AT(add_generation_prompt), 0, 0},
    {"continue_final_message", CHAT, F_BOOL, AT(continue_final), 0, 0},
    {"return_token_ids", BOTH, F_BOOL, AT(return_ids), 0, 0},
    {"echo", COMPLETION, F_BOOL, AT(echo), 0, 0},
    {"logprobs", COMPLETION, F_INT, AT(logprobs), 0, REQUEST_MAX_TOP},
    {"prompt_logprobs", BOTH, F_INT, AT(prompt_logprobs), 0, REQUEST_MAX_TOP},
    {"truncate_prompt_tokens", ALL, F_INT, AT(truncate), RECORD_FITTING, 1 << 24},
    {"dimensions", EMBEDDING, F_INT, AT(pooling.dimensions), 1, 1 << 24},
    {"embd_normalize", EMBEDDING, F_INT, AT(pooling.norm), -1, EMBEDDING_MAX_NORM},
    {"top_n", RERANK, F_INT, AT(pooling.top_n), 0, 1 << 24},
    {"return_documents", RERANK, F_BOOL, AT(pooling.return_documents), 0, 0},
#undef AT
    {"logprobs", CHAT, F_OTHER, 0, 0, 0},
    {"top_logprobs", CHATS, F_OTHER, 0, 0, 0},
    {"prompt", COMPLETION, F_OTHER, 0, 0, 0},
    {"messages", CHAT | EMBEDDING, F_OTHER, 0, 0, 0},
    {"tools", CHATS, F_OTHER, 0, 0, 0},
    {"tool_choice", CHATS, F_OTHER, 0, 0, 0},
    {"reasoning_effort", CHAT, F_OTHER, 0, 0, 0},
    {"verbosity", CHAT, F_OTHER, 0, 0, 0},
    {"chat_template_kwargs", CHATS | POOLED, F_OTHER, 0, 0, 0},
    {"chat_template", CHATS, F_OTHER, 0, 0, 0},
    {"model", ALL, F_OTHER, 0, 0, 0},
    {"seed", ANSWERED, F_OTHER, 0, 0, 0},
    {"stop", ANSWERED, F_OTHER, 0, 0, 0},
    {"stop_token_ids", ANSWERED, F_OTHER, 0, 0, 0},
    {"logit_bias", ANSWERED, F_OTHER, 0, 0, 0},
    {"dry_sequence_breakers", ANSWERED, F_OTHER, 0, 0, 0},
    {"samplers", ANSWERED, F_OTHER, 0, 0, 0},
    {"response_format", BOTH, F_OTHER, 0, 0, 0},
    {"structured_outputs", ANSWERED, F_OTHER, 0, 0, 0},
    {"guided_json", BOTH, F_OTHER, 0, 0, 0},
    {"guided_regex", BOTH, F_OTHER, 0, 0, 0},
    {"guided_choice", BOTH, F_OTHER, 0, 0, 0},
    {"guided_grammar", BOTH, F_OTHER, 0, 0, 0},
    {"guided_json_object", BOTH, F_OTHER, 0, 0, 0},
    {"guided_whitespace_pattern", BOTH, F_OTHER, 0, 0, 0},
    {"guided_decoding_backend", BOTH, F_IGNORED, 0, 0, 0},
    {"best_of", COMPLETION, F_OTHER, 0, 0, 0},
    {"modalities", CHAT, F_OTHER, 0, 0, 0},
    {"logprob_token_ids", ANSWERED, F_OTHER, 0, 0, 0},
    {"allowed_token_ids", ANSWERED, F_OTHER, 0, 0, 0},
    {"bad_words", ANSWERED, F_OTHER, 0, 0, 0},
    {"truncation_side", ALL, F_OTHER, 0, 0, 0},
    {"input", EMBEDDING | RESPONSE, F_OTHER, 0, 0, 0},
    {"encoding_format", EMBEDDING, F_OTHER, 0, 0, 0},
    {"embed_dtype", EMBEDDING, F_OTHER, 0, 0, 0},
    {"endianness", EMBEDDING, F_OTHER, 0, 0, 0},
    {"normalize", EMBEDDING, F_OTHER, 0, 0, 0},
    {"use_activation", POOLED, F_OTHER, 0, 0, 0},
    {"text_1", SCORE, F_OTHER, 0, 0, 0},
    {"text_2", SCORE, F_OTHER, 0, 0, 0},
    {"data_1", SCORE, F_OTHER, 0, 0, 0},
    {"data_2", SCORE, F_OTHER, 0, 0, 0},
    {"queries", SCORE, F_OTHER, 0, 0, 0},
    {"items", SCORE, F_OTHER, 0, 0, 0},
    {"query", RERANK, F_OTHER, 0, 0, 0},
    {"documents", PAIRS, F_OTHER, 0, 0, 0},
    {"instruction", PAIRS, F_OTHER, 0, 0, 0},
    {"instructions", RESPONSE, F_OTHER, 0, 0, 0}, /* these are read by record_response.c */
    {"text", RESPONSE, F_OTHER, 0, 0, 0},
    {"include", RESPONSE, F_OTHER, 0, 0, 0},
    {"reasoning", RESPONSE, F_OTHER, 0, 0, 0},
    {"truncation", RESPONSE, F_OTHER, 0, 0, 0},
    {"max_tool_calls", RESPONSE, F_IGNORED, 0, 0, 0}, /* of OpenAI's own tools */
    {"user", ALL, F_IGNORED, 0, 0, 0},
    {"metadata", ANSWERED, F_IGNORED, 0, 0, 0},
    {"store", ANSWERED, F_IGNORED, 0, 0, 0},
    {"service_tier", ANSWERED, F_IGNORED, 0, 0, 0},
    {"safety_identifier", ANSWERED, F_IGNORED, 0, 0, 0},
    {"prompt_cache_key", ANSWERED, F_IGNORED, 0, 0, 0},
    {"prompt_cache_retention", ANSWERED, F_IGNORED, 0, 0, 0},
    {"prompt_cache_options", ANSWERED, F_IGNORED, 0, 0, 0},
    {"prediction", CHAT, F_IGNORED, 0, 0, 0}, /* of the answer: for speed */
    {"stream_options", BOTH, F_IGNORED, 0, 0, 0},
    {"parallel_tool_calls", CHATS, F_IGNORED, 0, 0, 0},
    {"include_reasoning", CHAT, F_IGNORED, 0, 0, 0},
    {"spaces_between_special_tokens", BOTH, F_IGNORED, 0, 0, 0},
    {"length_penalty", BOTH, F_IGNORED, 0, 0, 0}, /* of beam search only */
    {"priority", ALL, F_IGNORED, 0, 0, 0},
    {"request_id", ALL, F_IGNORED, 0, 0, 0},
    {"cache_salt", ALL, F_IGNORED, 0, 0, 0},
};

static const struct field *find_field(const char *name, enum record_kind kind)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].where & 1 << kind && !strcmp(fields[i].name, name)) return &fields[i];
    return NULL;
}

static int asks_for_nothing(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_string(v) && !json_string_length(v)) ||
           (json_is_array(v) && !json_array_size(v)) || (json_is_object(v) && !json_object_size(v));
}

/* An integer, also one written as 16.0. */
static int as_integer(const json_t *v, double *x)
{
    if (!json_is_number(v)) return 0;
    *x = json_number_value(v);
    return json_is_integer(v) || (*x >= -0x1p53 && *x <= 0x1p53 && *x == (double)(int64_t)*x);
}

static int read_simple(struct record *r, const struct field *f, const json_t *v,
                       struct refusal *why)
{
    char text[96];
    void *to = (char *)r + f->offset;
    double x = 0;
    if (f->kind == F_BOOL) {
        if (!json_is_boolean(v)) return refuse(why, f->name, "must be true or false");
        *(int *)to = json_is_true(v);
        return 0;
    }
    int ok = f->kind == F_INT ? as_integer(v, &x) : json_is_number(v);
    if (f->kind == F_REAL) x = json_number_value(v);
    if (!ok || !(x >= f->lo && x <= f->hi)) {
        snprintf(text, sizeof text, "must be %s from %.10g to %.10g",
                 f->kind == F_INT ? "an integer" : "a number", f->lo, f->hi);
        return refuse(why, f->name, text);
    }
    if (f->kind == F_INT) *(int *)to = (int)x;
    else *(double *)to = x;
    return 0;
}

static int read_stop(struct record *r, const json_t *v, struct refusal *why, struct err *e)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > MAX_RECORD_STOPS) return refuse(why, "stop", "more than 64 strings");
    const char **stop = malloc((n + 1) * sizeof *stop);
    if (!stop) return err_memory(e);
    free(r->stop);
    r->stop = stop;
    r->n_stop = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(s))
            return refuse(why, "stop", "must be a string or an array of strings");
        if (!json_string_length(s)) return refuse(why, "stop", "a stop string is empty");
        if (json_string_length(s) > MAX_STOP_BYTES)
            return refuse(why, "stop", "a stop string is longer than 4096 bytes");
        if (strlen(json_string_value(s)) != json_string_length(s))
            return refuse(why, "stop", "a stop string contains NUL");
        stop[r->n_stop++] = json_string_value(s);
    }
    return 0;
}

/* DRY's breakers: [] stands for none. */
static int read_breakers(struct record *r, const json_t *v, struct refusal *why, struct err *e)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return refuse(why, "dry_sequence_breakers", "must be an array of strings");
    if (n > MAX_RECORD_STOPS) return refuse(why, "dry_sequence_breakers", "more than 64 strings");
    if (!(r->breakers = malloc((n + 1) * sizeof *r->breakers))) return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(v, i);
        if (!json_is_string(s) || !json_string_length(s) ||
            json_string_length(s) > MAX_BREAKER_BYTES ||
            strlen(json_string_value(s)) != json_string_length(s))
            return refuse(why, "dry_sequence_breakers",
                          "must be an array of strings of 1 to 256 bytes");
        r->breakers[r->n_breakers++] = json_string_value(s);
    }
    return 0;
}

/* The order of steps: a list of names, or a text of names or letters. */
static int read_samplers(struct record *r, const json_t *v, struct refusal *why)
{
    char names[512] = "";
    const char *text = json_string_value(v);
    struct err inner = {0};
    struct sampler_params *p = &r->sampling;
    size_t i, n = 0;
    json_t *name;
    if (!text && !json_is_array(v))
        return refuse(why, "samplers", "must be an array of names, or a text");
    if (asks_for_nothing(v)) return 0;
    json_array_foreach ((json_t *)v, i, name) {
        if (!json_is_string(name) || n + json_string_length(name) + 2 > sizeof names)
            return refuse(why, "samplers", "must be an array of names");
        n += (size_t)snprintf(names + n, sizeof names - n, i ? ";%s" : "%s",
                              json_string_value(name));
    }
    int rc = sampling_read_names(p, text ? text : names, &inner);
    if (rc && text && !strchr(text, ';')) rc = sampling_read_letters(p, text, &inner);
    return rc ? refuse(why, "samplers", inner.msg) : 0;
}

static int read_stop_ids(struct record *r, const json_t *v, int vocab, struct refusal *why,
                         struct err *e)
{
    if (!json_is_array(v)) return refuse(why, "stop_token_ids", "must be an array of token ids");
    size_t n = json_array_size(v);
    if (n > (size_t)vocab) return refuse(why, "stop_token_ids", "has more ids than the vocabulary");
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids) return err_memory(e);
    r->sampling.stop_ids = ids;
    for (size_t i = 0; i < n; i++) {
        double x;
        if (!as_integer(json_array_get(v, i), &x) || x < 0 || x >= vocab)
            return refuse(why, "stop_token_ids",
                          "must be an array of token ids inside the vocabulary");
        ids[r->sampling.n_stop_ids++] = (int32_t)x;
    }
    return 0;
}

static int read_bias(struct record *r, const json_t *v, int vocab, struct refusal *why,
                     struct err *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return refuse(why, "logit_bias", "must be an object of token ids and numbers");
    struct sampler_bias *bias = malloc((json_object_size(v) + 1) * sizeof *bias);
    if (!bias) return err_memory(e);
    r->sampling.bias = bias;
    json_object_foreach ((json_t *)v, key, value) {
        char *end;
        long id = strtol(key, &end, 10);
        double x = json_number_value(value);
        if (key[0] < '0' || key[0] > '9' || *end || (key[0] == '0' && key[1]) || id < 0 ||
            id >= vocab)
            return refuse(why, "logit_bias", "a key is not a token id inside the vocabulary");
        if (!json_is_number(value) || !(x >= -100 && x <= 100))
            return refuse(why, "logit_bias", "a value is not a number from -100 to 100");
        bias[r->sampling.n_bias++] = (struct sampler_bias){(int32_t)id, (float)x};
    }
    return 0;
}

static int read_logprobs_of_chat(struct record *r, const json_t *body, struct refusal *why)
{
    const json_t *on = json_object_get(body, "logprobs"),
                 *top = json_object_get(body, "top_logprobs");
    double x = 0;
    if (on && !json_is_null(on) && !json_is_boolean(on))
        return refuse(why, "logprobs", "must be true or false");
    if (top && !json_is_null(top) && (!as_integer(top, &x) || x < 0 || x > REQUEST_MAX_TOP))
        return refuse(why, "top_logprobs", "must be an integer from 0 to 20");
    if (x > 0 && !json_is_true(on)) return refuse(why, "top_logprobs", "needs logprobs true");
    if (json_is_true(on)) r->logprobs = (int)x;
    return 0;
}

static int read_template(struct record *r, const json_t *v, int is_trusted, struct refusal *why)
{
    if (asks_for_nothing(v)) return 0;
    if (!json_is_string(v)) return refuse(why, "chat_template", "must be a string");
    if (!is_trusted)
        return refuse(why, "chat_template",
                      "is served with --trust-request-chat-template only, which is not given");
    r->chat_template = v;
    return 0;
}

/* A word that the chat template may read. */
static int read_word(const json_t **word, const char *name, const json_t *v,
                     const char *const *words, struct refusal *why)
{
    char all[160] = "must be";
    const char *s = json_string_value(v);
    for (int i = 0; words[i]; i++) {
        if (s && !strcmp(s, words[i])) return *word = v, 0;
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s \"%s\"", i ? "," : " one of", words[i]);
    }
    return refuse(why, name, all);
}

/* Fields that no row of numbers describes. */
static int read_other(struct record *r, const char *name, const json_t *v,
                      const struct record_defaults *d, struct refusal *why, struct err *e)
{
    const int vocab = d->vocab;
    double x;
    if (!strcmp(name, "prompt")) {
        r->prompt = v;
    } else if (!strcmp(name, "messages")) {
        r->messages = v;
    } else if (!strcmp(name, "model")) {
        if (!json_is_string(v)) return refuse(why, name, "must be a string");
        r->model = json_string_value(v);
    } else if (!strcmp(name, "seed")) {
        if (!as_integer(v, &x))
            return refuse(why, name,
                          "must be an integer from -9223372036854775808 to 9223372036854775807");
        r->sampling.seed = json_is_integer(v) ? (uint64_t)json_integer_value(v)
                                              : (uint64_t)(int64_t)x;
        r->has_seed = 1;
    } else if (!strcmp(name, "stop")) {
        return read_stop(r, v, why, e);
    } else if (!strcmp(name, "stop_token_ids")) {
        return read_stop_ids(r, v, vocab, why, e);
    } else if (!strcmp(name, "logit_bias")) {
        return read_bias(r, v, vocab, why, e);
    } else if (!strcmp(name, "dry_sequence_breakers")) {
        return read_breakers(r, v, why, e);
    } else if (!strcmp(name, "samplers")) {
        return read_samplers(r, v, why);
    } else if (!strcmp(name, "best_of")) {
        if (!as_integer(v, &x) || x != r->n)
            return refuse(why, name, "only the value of n is served");
    } else if (!strcmp(name, "tools")) {
        if (!json_is_array(v)) return refuse(why, name, "must be an array");
        r->tools = json_array_size(v) ? v : NULL;
    } else if (!strcmp(name, "chat_template_kwargs")) {
        if (!json_is_object(v)) return refuse(why, name, "must be an object");
        r->kwargs = v;
    } else if (!strcmp(name, "reasoning_effort")) {
        static const char *const words[] = {"none", "minimal", "low", "medium",
                                            "high", "xhigh",   "max", NULL};
        return read_word(&r->effort, name, v, words, why);
    } else if (!strcmp(name, "verbosity")) {
        static const char *const words[] = {"low", "medium", "high", NULL};
        return read_word(&r->verbosity, name, v, words, why);
    } else if (!strcmp(name, "chat_template")) {
        return read_template(r, v, d->trusts_templates, why);
    } else if (!strcmp(name, "modalities")) {
        const char *only = json_string_value(json_array_get(v, 0));
        if (json_array_size(v) != 1 || !only || strcmp(only, "text"))
            return refuse(why, name, "only [\"text\"] is served");
    } else if (r->kind >= RECORD_EMBEDDING) {
        return record_pooling_read(r, name, v, why);
    } else {
        return record_tokens_read(r, name, v, vocab, why, e);
    }
    return 0;
}

static const char *const plural[] = {"completions", "chat completions", "responses",
                                     "embeddings",  "scores",           "reranking"};

static int read_body(struct record *r, const json_t *body, const struct record_defaults *d,
                     struct refusal *why, struct err *e)
{
    int rc = 0;
    const char *name;
    json_t *v;
    /* What is not known is refused first, in the record's order. */
    json_object_foreach ((json_t *)body, name, v) {
        const struct field *f = find_field(name, r->kind);
        if (!f && !asks_for_nothing(v)) {
            why->field = name;
            err_set(&why->why, "%.80s: not served for %s", name, plural[r->kind]);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *f = &fields[i];
        if (!(f->where & 1 << r->kind)) continue;
        v = json_object_get(body, f->name);
        if (!v || json_is_null(v)) continue;
        if (f->kind == F_OTHER) rc = read_other(r, f->name, v, d, why, e);
        else if (f->kind != F_IGNORED) rc = read_simple(r, f, v, why);
        if (rc) return rc;
    }
    if (r->sampling.top_k < 0) r->sampling.top_k = 0;
    if (r->sampling.mirostat == 1)
        return refuse(why, "mirostat", "1 is not served, 2 (Mirostat 2) and 0 are");
    if (r->kind == RECORD_CHAT && read_logprobs_of_chat(r, body, why)) return 1;
    if (r->max_tokens >= 0 && r->sampling.min_tokens > r->max_tokens)
        return refuse(why, "min_tokens", "is more than max_tokens");
    if (r->kind >= RECORD_EMBEDDING) return record_pooling_check(r, why);
    if (record_tokens_check(r, why)) return 1;
    if (r->kind == RECORD_COMPLETION && !r->prompt) return refuse(why, "prompt", "is missing");
    if (r->kind == RECORD_CHAT && (!json_is_array(r->messages) || !json_array_size(r->messages)))
        return refuse(why, "messages",
                      r->messages ? "must be an array that is not empty" : "is missing");
    if (r->continue_final && r->add_generation_prompt)
        return refuse(why, "continue_final_message",
                      "cannot be true while add_generation_prompt is, as it is by default");
    if (r->kind == RECORD_RESPONSE) return record_read_response(r, body, why, e);
    return r->kind == RECORD_CHAT ? record_read_tools(r, body, why, e) : 0;
}

static int record_kind_of(const char *url)
{
    static const struct {
        const char *url;
        enum record_kind kind;
    } urls[] = {{"/v1/completions", RECORD_COMPLETION},
                {"/v1/chat/completions", RECORD_CHAT},
                {"/v1/responses", RECORD_RESPONSE},
                {"/v1/embeddings", RECORD_EMBEDDING},
                {"/v1/score", RECORD_SCORE},
                {"/score", RECORD_SCORE},
                {"/v1/rerank", RECORD_RERANK},
                {"/v2/rerank", RECORD_RERANK},
                {"/rerank", RECORD_RERANK}};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (!strcmp(urls[i].url, url)) return (int)urls[i].kind;
    return -1;
}

static int read_envelope(struct record *r, const json_t **body, struct refusal *why)
{
    const json_t *id = json_object_get(r->root, "custom_id"),
                 *method = json_object_get(r->root, "method"),
                 *url = json_object_get(r->root, "url");
    const char *s, *name;
    json_t *v;
    if (id && !json_is_null(id)) {
        if (!json_is_string(id)) return refuse(why, "custom_id", "must be a string");
        r->id = json_string_value(id);
        r->id_bytes = json_string_length(id);
    }
    if (method && (!(s = json_string_value(method)) || strcmp(s, "POST")))
        return refuse(why, "method", "only \"POST\" is served");
    if (!url) return refuse(why, "url", "is missing");
    s = json_string_value(url);
    int kind = s ? record_kind_of(s) : -1;
    if (kind < 0 && s && strstr(s, "response"))
        return refuse(why, "url", "only \"/v1/responses\" has this name");
    if (kind < 0)
        return refuse(why, "url",
                      "only \"/v1/completions\", \"/v1/chat/completions\", \"/v1/embeddings\", "
                      "\"/v1/score\" and \"/v1/rerank\" are served");
    r->kind = (enum record_kind)kind;
    /* Other keys beside the body are the caller's own notes, unless they were meant to be in the
     * body. */
    json_object_foreach (r->root, name, v)
        if (strcmp(name, "metadata") && strcmp(name, "user") && find_field(name, r->kind) &&
            !json_is_null(v))
            return refuse(why, find_field(name, r->kind)->name,
                          "stands beside the body, not in it");
    *body = json_object_get(r->root, "body");
    if (!json_is_object(*body))
        return refuse(why, "body", *body ? "must be an object" : "is missing");
    return 0;
}

static int is_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + i,
                                                (utf8proc_ssize_t)(n - i), &c);
        if (got <= 0) return 0;
        i += (size_t)got;
    }
    return 1;
}

/* 1 when the line has more values than may be. */
static int has_too_many_values(const char *p, size_t n)
{
    size_t values = 0;
    int in_string = 0;
    if (n <= MAX_VALUES) return 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"') in_string = !in_string;
        else if (in_string) i += p[i] == '\\';
        else values += p[i] == ',' || p[i] == '[' || p[i] == '{';
    }
    return values > MAX_VALUES;
}

/* *big: the line has integers beyond 64 bits, and all of its integers were read as reals. */
static int parse_json(struct record *r, const struct input_line *line, int *big,
                      struct refusal *why, struct err *e)
{
    json_error_t je;
    *big = 0;
    if (has_too_many_values(line->text, line->n))
        return refuse(why, NULL, "the line holds more than 4194304 values");
    r->root = json_read(line->text, line->n, JSON_ALLOW_NUL, &je, e);
    if (!r->root && !err_is_memory(e) && json_error_code(&je) == json_error_numeric_overflow) {
        *big = 1;
        r->root = json_read(line->text, line->n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &je, e);
    }
    if (!r->root && err_is_memory(e)) return -1;
    if (!r->root) {
        *e = (struct err){0};
        why->field = NULL;
        if (!is_utf8(line->text, line->n)) return refuse(why, NULL, "not UTF-8");
        err_set(&why->why, "not JSON: %s (at byte %d)", json_why(&je), je.position);
        return 1;
    }
    *e = (struct err){0};
    return json_is_object(r->root) ? 0 : refuse(why, NULL, "not a JSON object");
}

static int holds_big(const json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;
    double x = json_real_value(v);
    if (json_is_real(v)) return x >= 0x1p63 || x < -0x1p63;
    json_array_foreach (v, i, item)
        if (holds_big(item)) return 1;
    json_object_foreach ((json_t *)v, key, item)
        if (holds_big(item)) return 1;
    return 0;
}

/* What is read has no such integer: it is in something that is handed on as it is. */
static int refuse_big(const struct record *r, const json_t *body, struct refusal *why)
{
    const json_t *const places[] = {body, r->root};
    const char *key;
    json_t *v;
    for (int i = 0; i < 2; i++)
        json_object_foreach ((json_t *)places[i], key, v)
            if (v != body && !record_keeps_digits(key) && holds_big(v)) {
                why->field = key;
                err_set(&why->why,
                        "%.80s: holds an integer that is not from -9223372036854775808 to "
                        "9223372036854775807",
                        key);
                return 1;
            }
    return 0;
}

/* Tools whose schemas have numbers that jansson does not hold, again with all their digits. */
static int keep_digits(const struct input_line *line, const json_t *body, struct err *e)
{
    const char *end = line->text + line->n, *p = json_span_space(line->text, end);
    if (!json_object_get(body, "tools") || !json_span_member(&p, &end, "body") ||
        !json_span_member(&p, &end, "tools") || !json_has_long(p, (size_t)(end - p)))
        return 0;
    json_t *tools = json_read_long(p, (size_t)(end - p), e);
    if (!tools) return -1;
    return json_object_set_new((json_t *)(uintptr_t)body, "tools", tools) ? err_memory(e) : 0;
}

/* Lists that the record leaves out. */
static int take_defaults(struct record *r, const struct record_defaults *d, struct err *e)
{
    struct sampler_params *p = &r->sampling;
    if (!r->stop && d->n_stop) {
        if (!(r->stop = malloc((size_t)d->n_stop * sizeof *r->stop))) return err_memory(e);
        memcpy(r->stop, d->stop, (size_t)d->n_stop * sizeof *r->stop);
        r->n_stop = d->n_stop;
    }
    if (!r->breakers && d->n_breakers && p->dry.multiplier != 0) {
        r->breakers = malloc((size_t)d->n_breakers * sizeof *r->breakers);
        if (!r->breakers) return err_memory(e);
        memcpy(r->breakers, d->breakers, (size_t)d->n_breakers * sizeof *r->breakers);
        r->n_breakers = d->n_breakers;
    }
    if (!p->bias && d->sampling.n_bias) {
        struct sampler_bias *bias = malloc((size_t)d->sampling.n_bias * sizeof *bias);
        if (!(p->bias = bias)) return err_memory(e);
        memcpy(bias, d->sampling.bias, (size_t)d->sampling.n_bias * sizeof *bias);
        p->n_bias = d->sampling.n_bias;
    }
    sampling_set_windows(p, r->repeat_last_n, r->dry_last_n);
    return 0;
}

/* Keeps a table's row, and its name: that of a column, or its number. */
static int keep_row(struct record *r, const struct input_line *line, struct err *e)
{
    if (!(r->own = malloc(line->n_row + line->n_id + 1))) return err_memory(e);
    memcpy(r->own, line->row, line->n_row);
    r->n_row = line->n_row;
    r->id_bytes = (size_t)snprintf(r->name, sizeof r->name, "%llu",
                                   (unsigned long long)line->number);
    if (!line->id) return 0;
    r->id = memcpy(r->own + line->n_row, line->id, line->n_id);
    r->id_bytes = line->n_id;
    return 0;
}

int record_parse(struct record *r, const struct input_line *line, int plain,
                 const struct record_defaults *d, struct refusal *why, struct err *e)
{
    *r = (struct record){.number = line->number,
                         .n = 1,
                         .max_tokens = -1,
                         .logprobs = -1,
                         .prompt_logprobs = -1,
                         .truncate = RECORD_WHOLE,
                         .pooling = {.norm = RECORD_NO_NORM, .return_documents = 1},
                         .skip_special = !d->include_special};
    r->sampling = d->sampling;
    r->sampling.bias = NULL;
    r->sampling.n_bias = 0;
    r->repeat_last_n = d->repeat_last_n;
    r->dry_last_n = d->dry_last_n;
    r->id = r->name;
    r->id_bytes = (size_t)snprintf(r->name, sizeof r->name, "line-%llu",
                                   (unsigned long long)line->number);
    r->add_generation_prompt = 1;
    json_forget();
    why->field = NULL;
    why->why.msg[0] = 0;
    if (line->is_row && keep_row(r, line, e)) return -1;
    if (line->too_long) return refuse(why, NULL, "the line is longer than 64 MiB");
    if (line->bad) return refuse(why, NULL, line->bad);
    if (plain) {
        if (!is_utf8(line->text, line->n)) return refuse(why, NULL, "not UTF-8");
        r->text = line->text;
        r->text_bytes = line->n;
        r->kind = d->chat ? RECORD_CHAT : RECORD_COMPLETION;
        r->add_special = !d->chat; /* a chat template writes BOS itself */
    } else {
        const json_t *body = NULL;
        int big, rc = parse_json(r, line, &big, why, e);
        if (!rc) rc = read_envelope(r, &body, why);
        if (!rc && keep_digits(line, body, e)) {
            if (err_is_memory(e)) return -1;
            why->field = "tools";
            err_set(&why->why, "tools: %.200s", e->msg);
            *e = (struct err){0};
            return 1;
        }
        r->add_special = !record_is_chat(r) && !(r->kind == RECORD_EMBEDDING &&
                                                 json_is_array(json_object_get(body, "messages")));
        if (r->kind >= RECORD_EMBEDDING) r->add_generation_prompt = 0;
        if (!rc) rc = read_body(r, body, d, why, e);
        if (!rc && r->kind < RECORD_EMBEDDING) rc = record_read_grammar(r, body, line, why, e);
        if (!rc && r->grammar.field && r->calls.choice > TOOLS_AUTO) {
            why->field = "tool_choice";
            rc = 1;
            err_set(&why->why, "tool_choice: %s already says what the answer has to be",
                    r->grammar.field);
        }
        if (!rc && big) rc = refuse_big(r, body, why);
        if (json_check(e)) return -1;
        if (rc) return rc;
    }
    if (r->kind >= RECORD_EMBEDDING) {
        r->max_tokens = 0;
        return 0;
    }
    if (take_defaults(r, d, e)) return -1;
    if (!r->grammar.is_given) r->grammar = d->grammar;
    if (!r->grammar.has_order) r->grammar.spec.order = d->grammar.spec.order;
    if (!r->grammar.has_space) r->grammar.spec.space = d->grammar.spec.space;
    r->grammar.spec.may_begin_with_space = d->grammar.spec.may_begin_with_space &&
                                           r->kind == RECORD_COMPLETION;
    if (r->max_tokens < 0 && d->max_tokens >= 0) r->max_tokens = d->max_tokens;
    if (r->max_tokens < 0 && d->max_tokens == -1 && r->kind == RECORD_COMPLETION)
        r->max_tokens = 16;
    return r->kind == RECORD_RESPONSE ? record_keep_settings(r, line, e) : 0;
}

void record_free(struct record *r)
{
    json_decref(r->root);
    free((void *)r->sampling.stop_ids);
    free((void *)r->sampling.bias);
    free(r->stop);
    free(r->breakers);
    free(r->own);
    free(r->named);
    free(r->allowed);
    free(r->grammar.owned);
    json_decref(r->calls.list);
    json_decref(r->response.messages);
    json_decref(r->response.tools);
    out_free(&r->response.settings);
    *r = (struct record){0};
}

void record_settle(struct record *r)
{
    json_t *body = json_object_get(r->root, "body"), *v;
    const char *key;
    void *next;
    r->prompt = r->messages = r->tools = r->kwargs = NULL;
    r->effort = r->verbosity = NULL;
    r->bad_words = r->chat_template = NULL;
    json_decref(r->response.messages);
    json_decref(r->response.tools);
    r->response.messages = r->response.tools = NULL;
    if (r->kind != RECORD_RERANK) r->pooling.b = NULL;
    r->pooling.a = NULL;
    json_object_foreach_safe(r->root, next, key, v) if (v != body && strcmp(key, "custom_id"))
        json_object_del(r->root, key);
    json_object_foreach_safe(body, next, key, v) if (strcmp(key, "stop") && strcmp(key, "model") &&
                                                     strcmp(key, "dry_sequence_breakers") &&
                                                     strcmp(key, "documents"))
        json_object_del(body, key);
}

uint64_t record_hash(const struct record *r)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < r->id_bytes; i++) h = (h ^ (unsigned char)r->id[i]) * 0x100000001b3u;
    return h;
}
