/* record_grammar.c: the fields of a record that say what its answers have to be. A schema is taken
 * as the line spells it: its numbers keep all their digits. */
#include "cli/modes/batch/record_grammar.h"

#include "core/base/json_span.h"

#include <stdlib.h>
#include <string.h>

static const char *const fields[] = {"response_format",   "structured_outputs", "guided_json",
                                     "guided_regex",      "guided_choice",      "guided_grammar",
                                     "guided_json_object"};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* What is being read. */
struct reading {
    struct record *r;
    const struct input_line *line;
    struct refusal *why;
    struct err *e;
    const char *field;       /* of the body, as errors name it */
    const char *const *path; /* [3] members of the body down to the field; NULL: the field is one */
};

enum format_type { AS_TEXT, AS_OBJECT, AS_SCHEMA, FORMAT_TYPES };

static int refuse_field(const struct reading *x, const char *text)
{
    return refuse(x->why, x->field, text);
}

static int refuse_member(const struct reading *x, const char *member, const char *text)
{
    x->why->field = x->field;
    err_set(&x->why->why, "%s: %.80s %s", x->field, member, text);
    return 1;
}

static int take(const struct reading *x, enum grammar_kind kind, const char *text, size_t n)
{
    struct record_grammar *g = &x->r->grammar;
    if (!(g->owned = malloc(n + 1))) return err_memory(x->e);
    if (n) memcpy(g->owned, text, n);
    g->owned[n] = 0;
    g->field = x->field;
    g->spec.kind = kind;
    g->spec.text = g->owned;
    g->spec.bytes = n;
    return 0;
}

/* ---- a value's own spelling */

/* The field's value and what is up to two members below it, as the line spells it. */
static int take_spelling(const struct reading *x, const char *first, const char *second)
{
    const char *end = x->line->text + x->line->n, *p = json_span_space(x->line->text, end);
    const char *const own[] = {x->field, NULL, NULL}, *const *at = x->path ? x->path : own,
                      *const path[] = {"body", at[0], at[1], at[2], first, second};
    for (int i = 0; i < 6; i++)
        if (path[i] && !json_span_member(&p, &end, path[i]))
            return refuse_field(x, "cannot be found again");
    return take(x, GRAMMAR_SCHEMA, p, (size_t)(end - p));
}

/* A schema, or a string that holds one. */
static int take_schema(const struct reading *x, const json_t *v, const char *first)
{
    if (json_is_string(v))
        return take(x, GRAMMAR_SCHEMA, json_string_value(v), json_string_length(v));
    if (json_is_object(v) || json_is_boolean(v)) return take_spelling(x, first, NULL);
    if (first) return refuse_member(x, first, "must be a JSON schema: an object");
    return refuse_field(x, "must be a JSON schema: an object");
}

/* ---- the fields */

int record_keeps_digits(const char *field)
{
    return !strcmp(field, "tools") || !strcmp(field, "text") || !strcmp(field, fields[0]) ||
           !strcmp(field, fields[1]) || !strcmp(field, fields[2]);
}

static int is_nothing(const json_t *v) { return !v || json_is_null(v) || json_is_false(v); }

static int read_json_schema(const struct reading *x, const json_t *v)
{
    const char *name;
    json_t *member;
    if (!json_is_object(v)) return refuse_field(x, "json_schema must be an object");
    json_object_foreach ((json_t *)v, name, member) {
        if (!strcmp(name, "schema") || json_is_null(member)) continue;
        int is_text = !strcmp(name, "name") || !strcmp(name, "description");
        if (is_text && !json_is_string(member)) return refuse_member(x, name, "must be a string");
        if (!strcmp(name, "strict") && !json_is_boolean(member))
            return refuse_field(x, "strict must be true or false");
        if (!is_text && strcmp(name, "strict")) return refuse_member(x, name, "is not served");
    }
    v = json_object_get(v, "schema");
    if (!v || json_is_null(v)) return refuse_field(x, "json_schema has no schema");
    if (!json_is_object(v) && !json_is_boolean(v))
        return refuse_field(x, "schema must be a JSON schema: an object");
    return take_spelling(x, "json_schema", "schema");
}

/* The type of a format. 1: refused. */
static int read_type(const struct reading *x, const json_t *v, enum format_type *type)
{
    static const char *const names[] = {
        [AS_TEXT] = "text", [AS_OBJECT] = "json_object", [AS_SCHEMA] = "json_schema"};
    const char *name = json_string_value(json_object_get(v, "type"));
    if (!name)
        return refuse_field(x, "must be an object whose type is \"text\", \"json_object\" or "
                               "\"json_schema\"");
    for (*type = 0; *type < FORMAT_TYPES; (*type)++)
        if (!strcmp(name, names[*type])) return 0;
    return refuse_field(x, "type: only \"text\", \"json_object\" and \"json_schema\" are served");
}

static int read_response_format(const struct reading *x, const json_t *v)
{
    enum format_type type;
    const char *name;
    json_t *member;
    if (read_type(x, v, &type)) return 1;
    int is_schema = type == AS_SCHEMA, is_object = type == AS_OBJECT;
    json_object_foreach ((json_t *)v, name, member) {
        int known = !strcmp(name, "type") || (is_schema && !strcmp(name, "json_schema")) ||
                    ((is_schema || is_object) && !strcmp(name, "schema"));
        if (!known && !json_is_null(member)) return refuse_member(x, name, "is not served");
    }
    if (type == AS_TEXT) return 0;
    const json_t *inner = json_object_get(v, "json_schema"), *schema = json_object_get(v, "schema");
    if (inner) return read_json_schema(x, inner);
    if (is_schema && !schema) return refuse_field(x, "json_schema is missing");
    /* as llama.cpp's server has it */
    if (schema && !json_is_null(schema)) return take_schema(x, schema, "schema");
    return take(x, GRAMMAR_JSON, "", 0);
}

static int read_text(const struct reading *x, enum grammar_kind kind, const json_t *v,
                     const char *member)
{
    if (!json_is_string(v))
        return member ? refuse_member(x, member, "must be a string")
                      : refuse_field(x, "must be a string");
    return take(x, kind, json_string_value(v), json_string_length(v));
}

static int read_choice(const struct reading *x, const json_t *v)
{
    size_t i, n = json_array_size(v);
    for (i = 0; i < n; i++)
        if (!json_is_string(json_array_get(v, i))) break;
    if (!n || i < n) return refuse_field(x, "must be an array of strings that is not empty");
    char *text = json_dumps(v, JSON_COMPACT);
    if (!text) return err_memory(x->e);
    int rc = take(x, GRAMMAR_CHOICE, text, strlen(text));
    free(text);
    return rc;
}

/* vLLM's object: one of json, regex, choice, grammar, json_object, and how to spell it. */
static int read_structured(const struct reading *x, const json_t *v)
{
    static const char *const kinds[] = {"json", "regex", "choice", "grammar", "json_object"};
    const char *name, *chosen = NULL;
    json_t *member;
    if (!json_is_object(v)) return refuse_field(x, "must be an object");
    json_object_foreach ((json_t *)v, name, member) {
        int kind = 0;
        if (!strcmp(name, "disable_any_whitespace") && json_is_boolean(member)) {
            x->r->grammar.spec.space = json_is_true(member) ? JSON_SPACE_NONE : JSON_SPACE_ANY;
            x->r->grammar.has_space = 1;
        }
        if (!strcmp(name, "any_order") && json_is_boolean(member)) {
            x->r->grammar.spec.order = json_is_true(member) ? JSON_ORDER_ANY : JSON_ORDER_SCHEMA;
            x->r->grammar.has_order = 1;
        }
        if (is_nothing(member)) continue;
        while (kind < 5 && strcmp(name, kinds[kind])) kind++;
        if (kind < 5 && chosen)
            return refuse_field(
                x, "asks for more than one of json, regex, choice, grammar, json_object");
        if (kind < 5) chosen = kinds[kind];
        else if (strcmp(name, "disable_fallback") && strcmp(name, "_backend") &&
                 strcmp(name, "backend") &&
                 ((strcmp(name, "disable_any_whitespace") && strcmp(name, "any_order")) ||
                  !json_is_true(member)))
            return refuse_member(x, name, "is not served");
    }
    if (!chosen)
        return json_object_size(v)
                   ? refuse_field(x, "asks for none of json, regex, choice, grammar, "
                                     "json_object")
                   : 0;
    v = json_object_get(v, chosen);
    if (!strcmp(chosen, "json")) return take_schema(x, v, "json");
    if (!strcmp(chosen, "choice")) return read_choice(x, v);
    if (!strcmp(chosen, "json_object"))
        return json_is_true(v) ? take(x, GRAMMAR_JSON, "", 0)
                               : refuse_field(x, "json_object must be true or false");
    return read_text(x, chosen[0] == 'r' ? GRAMMAR_REGEX : GRAMMAR_GBNF, v, chosen);
}

static int read_field(const struct reading *x, const json_t *v)
{
    if (x->field == fields[0]) return read_response_format(x, v);
    if (x->field == fields[1]) return read_structured(x, v);
    if (x->field == fields[2]) return take_schema(x, v, NULL);
    if (x->field == fields[3]) return read_text(x, GRAMMAR_REGEX, v, NULL);
    if (x->field == fields[4]) return read_choice(x, v);
    if (x->field == fields[5]) return read_text(x, GRAMMAR_GBNF, v, NULL);
    return json_is_boolean(v) ? json_is_true(v) ? take(x, GRAMMAR_JSON, "", 0) : 0
                              : refuse_field(x, "must be true or false");
}

/* text.format of a response: that of a chat, flat. */
static int read_text_format(const struct reading *x, const json_t *v)
{
    static const char *const known[] = {"type", "name", "description", "strict", "schema"};
    const json_t *schema = json_object_get(v, "schema");
    enum format_type type;
    const char *name;
    json_t *member;
    if (read_type(x, v, &type)) return 1;
    json_object_foreach ((json_t *)v, name, member) {
        size_t i = 0, n = type == AS_SCHEMA ? sizeof known / sizeof *known : 1;
        while (i < n && strcmp(name, known[i])) i++;
        if (i == n && !json_is_null(member)) return refuse_member(x, name, "is not served");
        if ((i == 1 || i == 2) && !json_is_string(member) && !json_is_null(member))
            return refuse_member(x, name, "must be a string");
        if (i == 3 && !json_is_boolean(member) && !json_is_null(member))
            return refuse_field(x, "strict must be true or false");
    }
    if (type == AS_TEXT) return 0;
    if (type == AS_OBJECT) return take(x, GRAMMAR_JSON, "", 0);
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return schema ? refuse_field(x, "schema must be a JSON schema: an object")
                      : refuse_field(x, "json_schema has no schema");
    return take_spelling(x, "schema", NULL);
}

/* 1: refused; 0; -1. */
static int read_response(struct reading *x, const json_t *body)
{
    static const char *const path[] = {"text", "format", NULL};
    const json_t *v = json_object_get(json_object_get(body, "text"), "format");
    if (!v || json_is_null(v)) return 0;
    x->field = "text.format";
    x->path = path;
    x->r->grammar.is_given = 1;
    int rc = read_text_format(x, v);
    x->path = NULL;
    return rc;
}

int record_read_grammar(struct record *r, const json_t *body, const struct input_line *line,
                        struct refusal *why, struct err *e)
{
    struct reading x = {r, line, why, e, NULL, NULL};
    const json_t *v = json_object_get(body, "guided_whitespace_pattern");
    if (v && !json_is_null(v)) {
        x.field = "guided_whitespace_pattern";
        return refuse_field(&x, "is not served: a space behind each comma and colon, none with "
                                "structured_outputs.disable_any_whitespace true, any with false");
    }
    int of_text = r->kind == RECORD_RESPONSE ? read_response(&x, body) : 0;
    if (of_text) return of_text;
    for (int i = 0; i < N_FIELDS; i++) {
        const char *before = r->grammar.field;
        char *text = r->grammar.owned;
        v = json_object_get(body, fields[i]);
        if (!v || json_is_null(v)) continue;
        x.field = fields[i];
        r->grammar.is_given = 1;
        int rc = read_field(&x, v);
        if (before && text != r->grammar.owned) {
            free(text);
            why->field = fields[i];
            err_set(&why->why, "%s: %s already says what the answer has to be", fields[i], before);
            return 1;
        }
        if (rc) return rc;
    }
    return 0;
}
