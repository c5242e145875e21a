#include "core/grammar/schema.h"

#include "core/grammar/digits.h"
#include "core/grammar/json_text.h"
#include "core/grammar/notation.h"
#include "core/grammar/schema_merge.h"
#include "core/grammar/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_RULES = 20000, MAX_CASES = 4000 };

int schema_refuse(struct schema *s, const char *keyword, const char *what)
{
    return err_set(s->e, "%s: %s", keyword, what);
}

/* ---- values */

static int check_keywords(struct schema *s, json_t *flat)
{
    static const char *const served[] = {"type",
                                         "enum",
                                         "anyOf",
                                         "oneOf",
                                         "properties",
                                         "required",
                                         "additionalProperties",
                                         "patternProperties",
                                         "minProperties",
                                         "maxProperties",
                                         "items",
                                         "prefixItems",
                                         "minItems",
                                         "maxItems",
                                         "uniqueItems",
                                         "minLength",
                                         "maxLength",
                                         "pattern",
                                         "format",
                                         "minimum",
                                         "maximum",
                                         "exclusiveMinimum",
                                         "exclusiveMaximum",
                                         "multipleOf",
                                         "contentEncoding",
                                         "contentMediaType",
                                         "contentSchema",
                                         "contains",
                                         "opt4gptq:moreMultiples",
                                         "opt4gptq:notMultiple",
                                         "opt4gptq:some",
                                         "propertyNames",
                                         "opt4gptq:moreAnyOf",
                                         "opt4gptq:final",
                                         "opt4gptq:moreContains",
                                         "opt4gptq:counted",
                                         "opt4gptq:notFormat",
                                         "opt4gptq:notEnum",
                                         "opt4gptq:notPattern",
                                         "opt4gptq:morePatterns"};
    const char *key;
    json_t *v;
    json_object_foreach (flat, key, v) {
        size_t i = 0, n = sizeof served / sizeof *served;
        while (i < n && strcmp(key, served[i])) i++;
        if (i == n && !schema_is_silent(key)) return schema_refuse(s, key, "is not served");
    }
    return 0;
}

/* Whether keywords beside the enum say something about its values. */
static int says_more(json_t *flat, json_t *v)
{
    const char *key;
    json_t *c;
    json_object_foreach (flat, key, c)
        if (strcmp(key, "type") && strcmp(key, "enum") && strcmp(key, "opt4gptq:notEnum") &&
            (schema_is_about(key) & schema_type_of(v)))
            return 1;
    return 0;
}

/* 1: the text is a document of the walk; 0: not; -1: *e. */
static int reads(struct walk *w, const char *text, struct err *e)
{
    walk_place at = WALK_START;
    for (; *text && at != WALK_DEAD; text++)
        if (walk_step(w, at, (unsigned char)*text, &at, e)) return -1;
    return at != WALK_DEAD && walk_may_end(w, at);
}

/* The values among those of an enum that the rest of the schema allows: they are read by a net of
 * the rest. */
static int keep_those(struct schema *s, json_t *flat, json_t *values, json_t *kept)
{
    struct schema rest = {.from = s->from, .depth = s->depth, .order = JSON_ORDER_ANY, .e = s->e};
    struct walk *w = NULL;
    json_t *without = json_copy(flat), *v;
    uint32_t object, root;
    size_t i;
    int rc = net_open(&rest.net, s->e);
    json_object_del(without, "enum");
    json_object_del(without, "opt4gptq:notEnum");
    if (!rc) {
        rest.rules = json_object();
        rc = notation_json(rest.net, JSON_SPACE_NONE, &object, s->e);
        if (!rc) rc = schema_rule(&rest, without, "enum", &root);
        if (!rc) rc = net_finish(rest.net, root, s->e);
        json_decref(rest.rules);
        if (rc && !err_is_memory(s->e) && net_is_empty(rest.net)) {
            net_close(rest.net);
            json_decref(without);
            return 0;
        }
        if (rc) net_close(rest.net);
        else rc = walk_open(&w, rest.net, root, s->e);
    }
    json_decref(without);
    json_array_foreach (values, i, v) {
        if (rc) break;
        char *text = digits_dump(v);
        rc = text ? reads(w, text, s->e) : err_memory(s->e);
        free(text);
        if (rc > 0) rc = json_array_append(kept, v);
    }
    walk_close(w);
    return rc;
}

/* Strings as a tree, all others one by one. */
static int of_values(struct schema *s, json_t *values, net_expr *x)
{
    struct json_string *text = calloc(json_array_size(values) + 1, sizeof *text);
    int n = 0;
    size_t i;
    json_t *v;
    if (!text) return err_memory(s->e);
    *x = NET_FAILED;
    json_array_foreach (values, i, v) {
        if (json_is_string(v))
            text[n++] = (struct json_string){json_string_value(v), json_string_length(v)};
        else *x = or_else(s, *x, json_value_of(s->net, v));
    }
    if (n || *x == NET_FAILED) *x = or_else(s, *x, json_text_of_some(s->net, text, n));
    free(text);
    return 0;
}

int schema_values(struct schema *s, json_t *flat, json_t **out)
{
    json_t *v, *not = json_object_get(flat, "opt4gptq:notEnum"),
               *no = not ? schema_value_set(not ) : NULL, *values = json_object_get(flat, "enum"),
               *simple = json_array(), *judged = json_array();
    unsigned types;
    size_t i;
    int rc = schema_types(flat, &types, s->e);
    if (!rc && !json_is_array(values)) rc = schema_refuse(s, "enum", "is not an array");
    json_array_foreach (values, i, v) {
        int is_out = rc;
        is_out |= no && schema_value_in(no, v);
        if (!rc && !digits_have_room(v))
            rc = schema_refuse(s, "enum", "a number has more digits than are served");
        if (is_out || !(schema_type_of(v) & types)) continue;
        json_array_append(says_more(flat, v) ? judged : simple, v);
    }
    if (!rc && json_array_size(judged)) rc = keep_those(s, flat, judged, simple);
    json_decref(judged);
    json_decref(no);
    *out = simple;
    if (rc) json_decref(simple);
    return rc;
}

static int values_of(struct schema *s, json_t *flat, net_expr *x)
{
    json_t *values;
    if (schema_values(s, flat, &values)) return -1;
    int rc = of_values(s, values, x);
    json_decref(values);
    return rc;
}

static int cases(struct schema *s, json_t *flat, const char *key, net_expr *x)
{
    json_t *all = json_object_get(flat, key), *base = schema_without_cases(flat, key), *one, *other;
    size_t i, k;
    int rc = 0, overlap = 0;
    *x = NET_FAILED;
    if (!json_is_array(all)) rc = schema_refuse(s, key, "is not an array");
    else if ((s->n_cases += (int)json_array_size(all)) > MAX_CASES)
        rc = schema_refuse(s, key, "more than 4,000 cases in all are not served");
    if (!rc && key[0] == 'o')
        json_array_foreach (all, i, one)
            for (k = 0; k < i && !overlap; k++) {
                other = json_array_get(all, k);
                json_t *a = json_pack("{s:[O, O]}", "allOf", base, one),
                       *b = json_pack("{s:[O, O]}", "allOf", base, other);
                int apart = schema_apart(s->from, one, other, 0) || schema_apart(s->from, a, b, 0);
                json_decref(a);
                json_decref(b);
                overlap |= !apart;
            }
    json_array_foreach (all, i, one) {
        json_t *own = NULL, *both = NULL, *alone = NULL;
        char name[32];
        uint32_t rule;
        if (overlap) { /* this one, and none of the others */
            alone = json_array();
            json_array_append(alone, one);
            json_array_foreach (all, k, other)
                if (k != i) json_array_append_new(alone, json_pack("{s:O}", "not", other));
            alone = json_pack("{s:o}", "allOf", alone);
        }
        if (!rc) rc = schema_flatten(s->from, alone ? alone : one, &own, s->e);
        if (!rc) rc = schema_both(s->from, base, own, &both, s->e);
        snprintf(name, sizeof name, "%s/%zu", key, i);
        if (!rc) rc = schema_rule(s, both, name, &rule);
        if (!rc) *x = or_else(s, *x, net_call(s->net, rule));
        json_decref(own);
        json_decref(both);
        json_decref(alone);
    }
    json_decref(base);
    if (!rc && *x == NET_FAILED) *x = net_chars(s->net, NULL, 0);
    return rc;
}

/* An object of which some member has to be so, as "opt4gptq:some" says: one of those that the
 * schema names, or another one. *cases is an anyOf of that, NULL: it is another one. */
static int which_member(struct schema *s, json_t *flat, json_t *some, json_t **cases)
{
    json_t *of = json_array(), *known = json_object_get(flat, "properties"), *names, *v, *p;
    const char *name;
    size_t i;
    names = json_copy(json_object_get(some, "names"));
    json_t *all = json_object(); /* names that are required are known, too */
    json_object_update(all, known);
    json_array_foreach (json_object_get(flat, "required"), i, v)
        if (json_is_string(v)) json_object_set_new(all, json_string_value(v), json_true());
    json_object_foreach (all, name, v) {
        int is_it = 1, finds;
        json_array_foreach (json_object_get(some, "names"), i, p)
            is_it &= strcmp(json_string_value(p), name) != 0;
        if (is_it) json_array_append_new(names, json_string(name));
        for (int yes = 0; yes < 2 && is_it; yes++)
            json_array_foreach (json_object_get(some, yes ? "yes" : "no"), i, p) {
                if ((finds = schema_finds(json_string_value(p), name, s->e)) < 0) {
                    json_decref(all);
                    json_decref(of);
                    json_decref(names);
                    return -1;
                }
                is_it &= finds == yes;
            }
        if (is_it)
            json_array_append_new(of, json_pack("{s:[s], s:{s:O}}", "required", name, "properties",
                                                name, json_object_get(some, "value")));
    }
    json_decref(all);
    *cases = NULL;
    if (json_array_size(of)) {
        json_t *other = json_copy(some);
        json_object_set(other, "names", names);
        json_array_append_new(of, json_pack("{s:[o]}", "opt4gptq:some", other));
        *cases = json_incref(of);
    }
    json_decref(names);
    json_decref(of);
    return 0;
}

/* 1: *x is made of cases, one for each member that may be the one. */
static int some_member(struct schema *s, json_t *flat, net_expr *x)
{
    json_t *some = json_object_get(flat, "opt4gptq:some"), *one, *cases_of;
    size_t i;
    json_array_foreach (some, i, one) {
        if (which_member(s, flat, one, &cases_of)) return -1;
        if (!cases_of) continue;
        json_t *rest = json_copy(flat), *others = json_copy(some);
        json_array_remove(others, i);
        json_object_del(rest, "opt4gptq:some");
        if (json_array_size(others)) json_object_set(rest, "opt4gptq:some", others);
        json_object_set_new(rest, "anyOf", cases_of);
        int rc = cases(s, rest, "anyOf", x);
        json_decref(others);
        json_decref(rest);
        return rc ? -1 : 1;
    }
    return 0;
}

static int value(struct schema *s, json_t *flat, net_expr *x)
{
    unsigned types;
    net_expr y;
    json_t *no;
    size_t i;
    int not_boolean = 0; /* 1: not false; 2: not true */
    *x = NET_FAILED;
    if (json_is_boolean(flat)) {
        *x = json_is_true(flat) ? net_call(s->net, net_named(s->net, "value"))
                                : net_chars(s->net, NULL, 0);
        return 0;
    }
    if (check_keywords(s, flat)) return -1;
    if (json_object_get(flat, "anyOf")) return cases(s, flat, "anyOf", x);
    if (json_object_get(flat, "oneOf")) return cases(s, flat, "oneOf", x);
    if (schema_types(flat, &types, s->e)) return -1;
    if (json_object_get(flat, "enum")) return values_of(s, flat, x);
    json_array_foreach (json_object_get(flat, "opt4gptq:notEnum"), i, no) {
        unsigned of = schema_type_of(no) & types;
        if (of & SCHEMA_NULL) types &= ~(unsigned)SCHEMA_NULL;
        if (of & (SCHEMA_ARRAY | SCHEMA_OBJECT))
            return schema_refuse(s, "not", "of an enum of arrays or objects is not served");
        if (of & SCHEMA_BOOLEAN) not_boolean |= 1 << json_is_true(no);
    }
    if (types & SCHEMA_OBJECT && json_object_get(flat, "opt4gptq:some")) {
        int made = some_member(s, flat, x);
        if (made) return made < 0 ? -1 : 0;
    }
    if (types & SCHEMA_NULL) *x = or_else(s, *x, text(s, "null"));
    for (int yes = 0; yes < 2; yes++)
        if (types & SCHEMA_BOOLEAN && !(not_boolean >> yes & 1))
            *x = or_else(s, *x, text(s, yes ? "true" : "false"));
    if (types & SCHEMA_STRING) {
        if (schema_string(s, flat, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (types & (SCHEMA_INTEGER | SCHEMA_FRACTION)) {
        if (schema_number(s, flat, types, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (types & SCHEMA_ARRAY) {
        if (schema_array(s, flat, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (types & SCHEMA_OBJECT) {
        if (schema_object(s, flat, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (*x == NET_FAILED) *x = net_chars(s->net, NULL, 0);
    return 0;
}

int schema_rule(struct schema *s, json_t *sub, const char *name, uint32_t *rule)
{
    json_t *flat = NULL;
    net_expr x = NET_FAILED;
    if (s->depth > MAX_DEPTH) return schema_refuse(s, name, "schemas are nested too deeply");
    if (schema_flatten(s->from, sub, &flat, s->e)) return err_prefix(s->e, "%s", name);
    char *key = json_dumps(flat, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!key) {
        json_decref(flat);
        return err_memory(s->e);
    }
    json_t *known = json_object_get(s->rules, key);
    int rc = schema_work(s->from, strlen(key), s->e);
    if (rc) {
    } else if (known) {
        *rule = (uint32_t)json_integer_value(known);
    } else if (json_object_size(s->rules) >= MAX_RULES) {
        rc = err_set(s->e, "the schema is too large");
    } else {
        uint32_t own = *rule = net_rule(s->net, name, strlen(name));
        json_object_set_new(s->rules, key, json_integer(own));
        s->depth++;
        rc = value(s, flat, &x);
        s->depth--;
        if (!rc) net_define(s->net, own, x);
        if (rc && !err_is_memory(s->e)) err_prefix(s->e, "%s", name);
    }
    free(key);
    json_decref(flat);
    return rc;
}

/* Keywords and types that are made here are nobody else's. PARENT: the keyword that holds V; the
 * keys of V are names, or V no schema, for some. */
static int check_words(json_t *v, const char *parent, struct err *e)
{
    static const char *const of_names[] = {"properties",  "patternProperties", "$defs",
                                           "definitions", "dependentSchemas",  "dependencies"};
    static const char *const values[] = {"enum", "const", "default", "examples", "example"};
    const char *key;
    json_t *one;
    size_t i;
    int is_names = 0;
    if (digits_is_long(v)) return 0;
    for (i = 0; parent && i < sizeof of_names / sizeof *of_names; i++)
        is_names |= !strcmp(parent, of_names[i]);
    for (i = 0; parent && i < sizeof values / sizeof *values; i++)
        if (!strcmp(parent, values[i])) return 0;
    json_array_foreach (v, i, one)
        if (check_words(one, parent && !strcmp(parent, "type") ? parent : NULL, e)) return -1;
    json_object_foreach (v, key, one) {
        if (!is_names && !strncmp(key, "opt4gptq:", 9))
            return err_set(e, "keyword: names with opt4gptq: are this program's own");
        if (check_words(one, is_names ? NULL : key, e)) return -1;
    }
    if (parent && !strcmp(parent, "type") && json_is_string(v) &&
        !strncmp(json_string_value(v), "opt4gptq:", 9))
        return err_set(e, "type: '%.40s' is no type of JSON", json_string_value(v));
    return 0;
}

int schema_check_words(json_t *root, struct err *e) { return check_words(root, NULL, e); }

int notation_schema(struct net *n, const struct grammar_spec *spec, uint32_t *root, struct err *e)
{
    struct schema_source from = {0};
    struct schema s = {.net = n, .from = &from, .order = spec->order, .e = e};
    uint32_t object;
    if (notation_json(n, spec->space, &object, e)) return -1;
    json_forget();
    if (!(from.root = json_read_long(spec->text, spec->bytes, e))) return -1;
    s.rules = json_object();
    int rc = schema_check_words(from.root, e);
    if (!rc) rc = schema_rule(&s, from.root, "#", root);
    json_decref(from.root);
    json_decref(s.rules);
    struct err memory;
    if (!json_check(&memory)) return rc;
    *e = memory; /* whatever came of it: a schema was not made as it should be */
    return -1;
}
