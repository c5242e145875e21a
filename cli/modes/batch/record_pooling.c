#include "cli/modes/batch/record_pooling.h"

#include "cli/modes/batch/record_tokens.h"

#include <stdio.h>
#include <string.h>

const json_t *record_pooling_text(const json_t *v, size_t i)
{
    const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
    return json_is_object(item) ? json_object_get(item, "text") : item;
}

size_t record_pooling_count(const json_t *v) { return json_is_array(v) ? json_array_size(v) : 1; }

/* A text, or an array of texts, which may be objects {"text": ..}. */
static int read_texts(const json_t **to, const char **field, const char *name, const json_t *v,
                      struct refusal *why)
{
    size_t n = record_pooling_count(v);
    if (*to) {
        char text[96];
        snprintf(text, sizeof text, "stands beside %s", *field);
        return refuse(why, name, text);
    }
    if (!n) return refuse(why, name, "is empty");
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(record_pooling_text(v, i)))
            return refuse(why, name, "must be a string or an array of strings");
    *to = v;
    *field = name;
    return 0;
}

static int read_flag(const char *name, const json_t *v, int on, int off, int *to,
                     struct refusal *why)
{
    if (!json_is_boolean(v)) return refuse(why, name, "must be true or false");
    *to = json_is_true(v) ? on : off;
    return 0;
}

/* One of two texts that a field may have; 1: the second. */
static int read_choice(const char *name, const json_t *v, const char *a, const char *b, int *to,
                       struct refusal *why)
{
    const char *s = json_string_value(v);
    char text[96];
    *to = s && b && !strcmp(s, b);
    if (s && (*to || !strcmp(s, a))) return 0;
    snprintf(text, sizeof text, b ? "must be \"%s\" or \"%s\"" : "only \"%s\" is served", a, b);
    return refuse(why, name, text);
}

int record_pooling_read(struct record *r, const char *name, const json_t *v, struct refusal *why)
{
    static const char *const first[] = {"text_1", "data_1", "queries"}, *const second[] = {
                                                                            "text_2", "data_2",
                                                                            "items", "documents"};
    struct record_pooling *p = &r->pooling;
    int unused;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (!strcmp(name, first[i])) return read_texts(&p->a, &p->a_field, first[i], v, why);
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        if (!strcmp(name, second[i])) return read_texts(&p->b, &p->b_field, second[i], v, why);
    if (!strcmp(name, "query")) {
        if (json_is_array(v)) return refuse(why, name, "must be a string");
        return read_texts(&p->a, &p->a_field, "query", v, why);
    }
    if (!strcmp(name, "input")) {
        p->a = r->prompt = v;
        p->a_field = "input";
    } else if (!strcmp(name, "encoding_format")) {
        return read_choice(name, v, "float", "base64", &p->base64, why);
    } else if (!strcmp(name, "embed_dtype")) {
        return read_choice(name, v, "float32", NULL, &unused, why);
    } else if (!strcmp(name, "endianness")) {
        return read_choice(name, v, "native", "little", &unused, why);
    } else if (!strcmp(name, "normalize")) {
        return read_flag(name, v, EMBEDDING_EUCLIDEAN, EMBEDDING_NO_NORM, &p->norm, why);
    } else if (!strcmp(name, "use_activation")) {
        if (r->kind == RECORD_EMBEDDING)
            return read_flag(name, v, EMBEDDING_EUCLIDEAN, EMBEDDING_NO_NORM, &p->norm, why);
        if (!json_is_true(v)) return refuse(why, name, "only true is served");
    } else if (!strcmp(name, "instruction")) {
        if (!json_is_string(v)) return refuse(why, name, "must be a string");
        p->instruction = v;
    } else if (!strcmp(name, "chat_template_kwargs")) {
        if (!json_is_object(v)) return refuse(why, name, "must be an object");
        r->kwargs = v;
    } else if (!strcmp(name, "truncation_side")) {
        return record_tokens_side(r, v, why);
    }
    return 0;
}

int record_pooling_check(struct record *r, struct refusal *why)
{
    const struct record_pooling *p = &r->pooling;
    if (r->kind == RECORD_EMBEDDING) {
        if (r->messages && p->a) return refuse(why, "messages", "stands beside input");
        if (r->messages) {
            if (!json_is_array(r->messages) || !json_array_size(r->messages))
                return refuse(why, "messages", "must be an array that is not empty");
            return 0;
        }
        if (!p->a) return refuse(why, "input", "is missing");
        return json_is_array(p->a) && !json_array_size(p->a) ? refuse(why, "input", "is empty") : 0;
    }
    if (!p->a) return refuse(why, r->kind == RECORD_SCORE ? "text_1" : "query", "is missing");
    if (!p->b) return refuse(why, r->kind == RECORD_SCORE ? "text_2" : "documents", "is missing");
    size_t a = record_pooling_count(p->a), b = record_pooling_count(p->b);
    if (a != 1 && a != b) {
        why->field = p->a_field;
        err_set(&why->why, "%s: has %zu texts, %s %zu: one, or as many as these", p->a_field, a,
                p->b_field, b);
        return 1;
    }
    return 0;
}
