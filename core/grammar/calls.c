/* calls.c: answers that call functions, as a net: the syntax by its description (call_syntax.h),
 * the arguments by their schemas. The text of this notation is a JSON object with members
 *
 * - syntax: number of the row
 * - choice: "auto", text, then calls or none; "required", calls alone
 * - parallel: false, one call
 * - special: the row's special tokens
 * - document: {"kind": enum grammar_kind, "text": ..}, in place of text, with "auto"
 * - tools: array of {"name", "parameters" (absent: none), "free": true (any arguments)} */
#include "core/base/json_long.h"
#include "core/grammar/call_syntax.h"
#include "core/grammar/call_values.h"
#include "core/grammar/free_text.h"
#include "core/grammar/grammar.h"
#include "core/grammar/notation.h"
#include "core/grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGUMENTS = 64 }; /* flags of a rule */

struct calls {
    struct net *net;
    const struct call_syntax *syntax;
    json_t *special;
    enum json_order order;
    enum json_space space;
    uint32_t text, any_name; /* rules: a string as it is; a name of an argument */
    struct err *e;
};

static net_expr after(struct calls *c, net_expr a, net_expr b)
{
    return net_sequence(c->net, a, b);
}

static net_expr fixed(struct calls *c, const char *text)
{
    return text ? free_text_fixed(c->net, text, strlen(text), c->special) : net_empty(c->net);
}

/* ---- arguments that stand by themselves */

static int is_served(const char *key)
{
    static const char *const served[] = {"type", "properties", "required", "additionalProperties"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(key, served[i])) return 1;
    return schema_is_silent(key);
}

/* What ends a value, without the white space at its edges. */
static const char *value_mark(const struct call_syntax *y, size_t *n)
{
    const char *p = y->value_end + strspn(y->value_end, " \n");
    *n = strcspn(p, " \n");
    return p;
}

/* The strings of a flat schema as they are: any, or those of a list. */
static int text_value(struct calls *c, json_t *flat, net_expr *x)
{
    json_t *list = json_object_get(flat, "enum"), *one;
    size_t i, n;
    const char *mark = value_mark(c->syntax, &n);
    if (!list) return *x = net_call(c->net, c->text), 0;
    *x = net_chars(c->net, NULL, 0);
    json_array_foreach (list, i, one) {
        const char *s = json_string_value(one);
        size_t bytes = json_string_length(one);
        if (!s) continue;
        if (memmem(s, bytes, mark, n) || memchr(s, 0, bytes))
            return err_set(c->e, "enum: a text holds %.*s, which ends an argument", (int)n, mark);
        *x = net_either(c->net, *x, net_text(c->net, s, bytes));
    }
    return 0;
}

/* The strings among the cases of a schema, as they are. */
static int texts_of(struct calls *c, struct schema *s, json_t *flat, net_expr *x)
{
    json_t *cases = json_object_get(flat, "anyOf"), *one, *inner;
    net_expr y;
    size_t i;
    int rc = 0;
    if (!cases) cases = json_object_get(flat, "oneOf");
    if (!cases) return text_value(c, flat, x);
    *x = net_chars(c->net, NULL, 0);
    json_array_foreach (cases, i, one) {
        unsigned types = SCHEMA_ALL;
        if (schema_flatten(s->from, one, &inner, c->e)) return -1;
        if (json_is_object(inner)) rc = schema_types(inner, &types, c->e);
        if (!rc && types & SCHEMA_STRING) rc = text_value(c, inner, &y);
        if (!rc && types & SCHEMA_STRING) *x = net_either(c->net, *x, y);
        json_decref(inner);
        if (rc) return -1;
    }
    return 0;
}

/* The rule of an argument's value as it is written. Where strings stand without quotes, values of
 * other types need no rule of their own: nothing is said of them but their types. */
static int value_rule(struct calls *c, struct schema *s, json_t *schema, const char *name,
                      uint32_t *rule)
{
    static const struct {
        unsigned type;
        const char *rule, *text;
    } others[] = {{SCHEMA_NULL, NULL, "null"},
                  {SCHEMA_BOOLEAN, NULL, "true"},
                  {SCHEMA_BOOLEAN, NULL, "false"},
                  {SCHEMA_FRACTION, "number", NULL}};
    struct call_value v;
    json_t *flat;
    net_expr x;
    if (call_value_of(s->from->root, schema, &v, c->e)) return -1;
    if (!v.has_text) return schema_rule(s, schema, name, rule);
    if (schema_flatten(s->from, schema, &flat, c->e)) return -1;
    int rc = texts_of(c, s, flat, &x);
    json_decref(flat);
    if (rc) return -1;
    if (v.is_any_text) v.others = 0; /* they are among all texts */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (v.others & others[i].type)
            x = net_either(c->net, x,
                           others[i].rule
                               ? net_call(c->net, net_named(c->net, others[i].rule))
                               : net_text(c->net, others[i].text, strlen(others[i].text)));
    if (v.others & SCHEMA_INTEGER && !(v.others & SCHEMA_FRACTION)) {
        net_expr digits = net_repeat(c->net, net_chars(c->net, &(struct net_range){'0', '9'}, 1), 0,
                                     NET_NO_LIMIT);
        net_expr from_1 = after(c, net_chars(c->net, &(struct net_range){'1', '9'}, 1), digits);
        net_expr minus = net_repeat(c->net, net_text(c->net, "-", 1), 0, 1);
        x = net_either(c->net, x,
                       after(c, minus, net_either(c->net, net_text(c->net, "0", 1), from_1)));
    }
    *rule = net_rule(c->net, name, strlen(name));
    net_define(c->net, *rule, x);
    return 0;
}

/* key NAME key_end VALUE value_end */
static net_expr argument(struct calls *c, net_expr name, uint32_t value)
{
    const struct call_syntax *y = c->syntax;
    net_expr x = after(c, after(c, fixed(c, y->key), name), fixed(c, y->key_end));
    return after(c, after(c, x, net_call(c->net, value)), fixed(c, y->value_end));
}

/* One argument after the other as they are added: in any order, each once, or in that of the
 * schema. */
struct arguments {
    net_expr any, ordered, needs;
    uint64_t required;
    int n;
};

static int add_argument(struct calls *c, struct schema *s, struct arguments *a, const char *name,
                        json_t *schema, int is_required)
{
    uint32_t rule;
    if (a->n == MAX_ARGUMENTS)
        return err_set(c->e, "properties: more than %d are not served in this syntax of calls",
                       MAX_ARGUMENTS);
    if (!call_syntax_takes_name(name, strlen(name)))
        return err_set(c->e, "properties: '%.60s' cannot be written in this syntax of calls", name);
    if (value_rule(c, s, schema, name, &rule)) {
        if (!err_is_memory(c->e)) err_prefix(c->e, "%s", name);
        return -1;
    }
    net_expr x = argument(c, net_text(c->net, name, strlen(name)), rule);
    if (is_required) {
        a->required |= (uint64_t)1 << a->n;
        a->needs = after(c, net_need(c->net, rule), a->needs);
    }
    a->ordered = after(c, a->ordered, is_required ? x : net_repeat(c->net, x, 0, 1));
    x = after(c, net_mark(c->net, a->n++), x);
    a->any = a->any == NET_FAILED ? x : net_either(c->net, a->any, x);
    return 0;
}

static int is_among(json_t *names, const char *name)
{
    json_t *v;
    size_t i;
    json_array_foreach (names, i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), name)) return 1;
    return 0;
}

/* Arguments of any name: values of a rule. */
static net_expr any_arguments(struct calls *c, uint32_t value)
{
    net_expr x = argument(c, net_call(c->net, c->any_name), value);
    return net_repeat(c->net, x, 0, NET_NO_LIMIT);
}

/* Arguments where no name is known. */
static int other_members(struct calls *c, struct schema *s, json_t *other, net_expr *x)
{
    uint32_t value = c->text;
    if (other && !json_is_true(other) && value_rule(c, s, other, "additionalProperties", &value))
        return -1;
    *x = json_is_false(other) ? net_empty(c->net) : any_arguments(c, value);
    return 0;
}

static int members(struct calls *c, struct schema *s, json_t *flat, net_expr *x)
{
    json_t *properties = json_object_get(flat, "properties"),
           *required = json_object_get(flat, "required"), *v;
    struct arguments a = {NET_FAILED, net_empty(c->net), net_empty(c->net), 0, 0};
    const char *name;
    size_t i;
    json_object_foreach (flat, name, v)
        if (!is_served(name))
            return err_set(c->e, "%s: is not served in this syntax of calls", name);
    if (properties && !json_is_object(properties))
        return err_set(c->e, "properties: is not an object");
    if (required && !json_is_array(required)) return err_set(c->e, "required: is not an array");
    json_object_foreach (properties, name, v)
        if (add_argument(c, s, &a, name, v, is_among(required, name))) return -1;
    json_array_foreach (required, i, v) {
        if (!json_is_string(v)) return err_set(c->e, "required: is not an array of names");
        name = json_string_value(v);
        if (json_object_get(properties, name)) continue;
        if (add_argument(c, s, &a, name, call_value_schema(flat, name), 1)) return -1;
    }
    json_t *other = json_object_get(flat, "additionalProperties");
    if (!a.n) return other_members(c, s, other, x);
    if (c->order != JSON_ORDER_ANY) *x = a.ordered;
    else *x = after(c, net_repeat(c->net, a.any, 0, NET_NO_LIMIT), net_test(c->net, a.required));
    *x = after(c, a.needs, *x);
    return 0;
}

/* ---- calls */

/* The rule of a function's arguments. */
static int arguments_rule(struct calls *c, const char *name, json_t *tool, uint32_t *rule)
{
    struct schema_source from = {.root = json_object_get(tool, "parameters")};
    struct schema s = {.net = c->net, .from = &from, .order = c->order, .e = c->e};
    unsigned types = SCHEMA_ALL;
    json_t *flat;
    net_expr x = NET_FAILED;
    int is_free = json_is_true(json_object_get(tool, "free"));
    *rule = net_named(c->net, "object");
    if (is_free && c->syntax->body != CALL_MEMBERS) return 0;
    if (is_free) {
        *rule = net_rule(c->net, name, strlen(name));
        net_define(c->net, *rule, any_arguments(c, c->text));
        return 0;
    }
    if (schema_check_words(from.root, c->e) || call_value_flatten(from.root, &flat, c->e))
        return -1;
    if (json_is_object(flat) ? schema_types(flat, &types, c->e) : 0) {
        json_decref(flat);
        return -1;
    }
    int rc = 0;
    if (json_is_false(flat) || !(types & SCHEMA_OBJECT))
        rc = err_set(c->e, "parameters: are not an object");
    if (json_is_true(flat)) {
        json_decref(flat);
        flat = json_object();
    }
    json_object_set_new(flat, "type", json_string("object"));
    if (!from.root) from.root = flat;
    s.rules = json_object();
    if (rc) {
    } else if (c->syntax->body != CALL_MEMBERS) {
        rc = schema_rule(&s, flat, "parameters", rule);
    } else if (!(rc = members(c, &s, flat, &x))) {
        *rule = net_rule(c->net, name, strlen(name));
        net_define(c->net, *rule, x);
    }
    json_decref(flat);
    json_decref(s.rules);
    return rc;
}

/* {"name": NAME, "arguments": ARGUMENTS}, spelled as templates spell it. */
static net_expr json_body(struct calls *c, const char *name, net_expr arguments)
{
    char *text = NULL, *quoted = NULL;
    json_t *v = json_string(name);
    net_expr x = net_empty(c->net);
    if (v) quoted = json_dumps(v, JSON_ENCODE_ANY);
    if (quoted && asprintf(&text, "{\"%s\": %s, \"%s\": ", c->syntax->name_key, quoted,
                           c->syntax->arguments_key) >= 0)
        x = after(c, net_text(c->net, text, strlen(text)), arguments);
    else x = NET_FAILED;
    free(text);
    free(quoted);
    json_decref(v);
    return x == NET_FAILED ? x : after(c, x, net_text(c->net, "}", 1));
}

static net_expr named_body(struct calls *c, const char *name, net_expr arguments)
{
    static const struct net_range letter[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    static const struct net_range digit = {'0', '9'};
    net_expr x = net_text(c->net, name, strlen(name)), one;
    if (c->syntax->index)
        x = after(c, after(c, x, fixed(c, c->syntax->index)),
                  net_repeat(c->net, net_chars(c->net, &digit, 1), 1, CALL_INDEX_DIGITS));
    if (c->syntax->call_id) {
        one = net_chars(c->net, letter, 3);
        x = after(c, after(c, x, fixed(c, c->syntax->call_id)),
                  net_repeat(c->net, one, CALL_ID_LETTERS, CALL_ID_LETTERS));
    }
    return after(c, after(c, x, fixed(c, c->syntax->name_end)), arguments);
}

/* Any one call. */
static int one_call(struct calls *c, json_t *tools, net_expr *x)
{
    json_t *tool;
    size_t i;
    *x = NET_FAILED;
    json_array_foreach (tools, i, tool) {
        const char *name = json_string_value(json_object_get(tool, "name"));
        uint32_t rule;
        if (c->syntax->body != CALL_JSON && !call_syntax_takes_name(name, strlen(name)))
            return err_set(c->e, "'%.60s': the name cannot be written in this syntax of calls",
                           name);
        if (arguments_rule(c, name, tool, &rule))
            return err_is_memory(c->e) ? -1 : err_prefix(c->e, "'%.60s'", name);
        net_expr arguments = net_call(c->net, rule), y = c->syntax->body == CALL_JSON
                                                             ? json_body(c, name, arguments)
                                                             : named_body(c, name, arguments);
        if (y == NET_FAILED) return err_memory(c->e);
        *x = *x == NET_FAILED ? y : net_either(c->net, *x, y);
    }
    *x = after(c, fixed(c, c->syntax->call), *x);
    *x = after(c, *x, fixed(c, c->syntax->call_end));
    return 0;
}

/* Text that a call may follow, or that the answer ends with; *alone: text that none may follow. */
static net_expr text_before(struct calls *c, net_expr *alone)
{
    static const struct net_range space_or_brace[] = {
        {1, 8}, {11, 12}, {14, 31}, {33, 'z'}, {'|', 0x10ffff}};
    size_t n;
    const char *opening = call_syntax_opening(c->syntax, &n);
    net_expr text = free_text_without(c->net, opening, n, c->special);
    *alone = text;
    if (n) return text;
    /* a call is all of an answer that begins with a brace */
    *alone = after(c, net_chars(c->net, space_or_brace, 5), text);
    *alone = after(c, free_text_space(c->net), net_repeat(c->net, *alone, 0, 1));
    return free_text_space(c->net);
}

/* The document that an answer is where it is no call; its errors are its own. */
static int document(struct calls *c, const json_t *v, net_expr *x)
{
    const json_t *text = json_object_get(v, "text");
    const struct grammar_spec spec = {
        .kind = (enum grammar_kind)json_integer_value(json_object_get(v, "kind")),
        .text = json_string_value(text),
        .bytes = json_string_length(text),
        .order = c->order,
        .space = c->space,
    };
    uint32_t root;
    if (notation_of(c->net, &spec, NULL, &root, c->e)) return -1;
    *x = net_either(c->net, *x, net_call(c->net, root));
    return 0;
}

static int all_calls(struct calls *c, json_t *v, net_expr *x)
{
    const struct call_syntax *y = c->syntax;
    net_expr one, alone, before;
    if (one_call(c, json_object_get(v, "tools"), &one))
        return err_is_memory(c->e) ? -1 : err_prefix(c->e, "tools");
    uint32_t call = net_rule(c->net, "call", 4);
    net_define(c->net, call, one);
    *x = net_call(c->net, call);
    if (json_is_true(json_object_get(v, "parallel")) && !y->is_single)
        *x = after(c, *x,
                   net_repeat(c->net, after(c, fixed(c, y->between), net_call(c->net, call)), 0,
                              NET_NO_LIMIT));
    *x = after(c, after(c, fixed(c, y->begin), *x), fixed(c, y->end));
    if (y->maybe) *x = after(c, net_repeat(c->net, fixed(c, y->maybe), 0, 1), *x);
    if (strcmp(json_string_value(json_object_get(v, "choice")), "auto")) return 0;
    if (json_check(c->e)) return -1; /* a document's schema begins to count anew */
    if (json_object_get(v, "document")) return document(c, json_object_get(v, "document"), x);
    before = text_before(c, &alone);
    *x = net_either(c->net, after(c, before, *x), alone);
    return 0;
}

int notation_calls(struct net *n, const struct grammar_spec *spec, uint32_t *root, struct err *e)
{
    static const struct net_range name_chars[] = {{'!', '!'}, {'#', ';'}, {'=', '='}, {'?', 'Z'},
                                                  {'^', 'z'}, {'|', '|'}, {'~', '~'}};
    struct calls c = {.net = n, .order = spec->order, .space = spec->space, .e = e};
    uint32_t object;
    net_expr x = NET_FAILED;
    if (notation_json(n, spec->space, &object, e)) return -1;
    json_forget();
    json_t *v = json_read_long(spec->text, spec->bytes, e);
    if (!v) return -1;
    c.syntax = call_syntax_row(json_integer_value(json_object_get(v, "syntax")));
    c.special = json_object_get(v, "special");
    if (c.syntax->body == CALL_PYTHON) {
        json_decref(v);
        return err_set(e, "calls as Python writes them have no grammar");
    }
    if (c.syntax->body == CALL_MEMBERS) {
        size_t mark_bytes;
        const char *mark = value_mark(c.syntax, &mark_bytes);
        c.text = net_rule(n, "argument", 8);
        net_define(n, c.text, free_text_without(n, mark, mark_bytes, c.special));
        c.any_name = net_rule(n, "argument name", 13);
        net_define(n, c.any_name, net_repeat(n, net_chars(n, name_chars, 7), 1, NET_NO_LIMIT));
    }
    *root = net_rule(n, "answer", 6);
    int rc = all_calls(&c, v, &x);
    if (!rc) net_define(n, *root, x);
    json_decref(v);
    struct err memory;
    if (!json_check(&memory)) return rc;
    *e = memory;
    return -1;
}
