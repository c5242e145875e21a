#include "core/grammar/schema_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REFERENCES = 100, MAX_CASES = 400 };

static const char *const annotations[] = {
    "title",      "description", "default",     "examples",   "example",  "$schema",
    "$comment",   "$id",         "id",          "$anchor",    "readOnly", "writeOnly",
    "deprecated", "$defs",       "definitions", "$vocabulary"};
/* Keywords that say something; all others are of nobody. */
static const char *const keywords[] = {
    "type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
    "minProperties", "maxProperties", "dependencies", "dependentRequired", "dependentSchemas",
    "unevaluatedProperties", "unevaluatedItems", "items", "prefixItems", "additionalItems",
    "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "minLength",
    "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "$dynamicRef",
    "$recursiveRef", "divisibleBy", "disallow", "extends",
    /* of schemas that are made here */
    "opt4gptq:notEnum", "opt4gptq:notPattern", "opt4gptq:morePatterns"};

static int is_one_of(const char *key, const char *const list[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(key, list[i])) return 1;
    return 0;
}

int schema_is_silent(const char *key)
{
    return is_one_of(key, annotations, sizeof annotations / sizeof *annotations) ||
           !is_one_of(key, keywords, sizeof keywords / sizeof *keywords);
}

unsigned schema_is_about(const char *key)
{
    static const struct {
        const char *key;
        unsigned types;
    } about[] = {{"minLength", SCHEMA_STRING},
                 {"maxLength", SCHEMA_STRING},
                 {"pattern", SCHEMA_STRING},
                 {"format", SCHEMA_STRING},
                 {"opt4gptq:notPattern", SCHEMA_STRING},
                 {"opt4gptq:morePatterns", SCHEMA_STRING},
                 {"items", SCHEMA_ARRAY},
                 {"prefixItems", SCHEMA_ARRAY},
                 {"additionalItems", SCHEMA_ARRAY},
                 {"minItems", SCHEMA_ARRAY},
                 {"maxItems", SCHEMA_ARRAY},
                 {"uniqueItems", SCHEMA_ARRAY},
                 {"properties", SCHEMA_OBJECT},
                 {"required", SCHEMA_OBJECT},
                 {"additionalProperties", SCHEMA_OBJECT},
                 {"patternProperties", SCHEMA_OBJECT},
                 {"minProperties", SCHEMA_OBJECT},
                 {"maxProperties", SCHEMA_OBJECT},
                 {"minimum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"maximum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"exclusiveMinimum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"exclusiveMaximum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"multipleOf", SCHEMA_INTEGER | SCHEMA_FRACTION}};
    if (schema_is_silent(key)) return 0;
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (!strcmp(key, about[i].key)) return about[i].types;
    return SCHEMA_ALL;
}

/* ---- types */

static const struct {
    const char *name;
    unsigned types;
} names[] = {{"null", SCHEMA_NULL},
             {"boolean", SCHEMA_BOOLEAN},
             {"string", SCHEMA_STRING},
             {"number", SCHEMA_INTEGER | SCHEMA_FRACTION},
             {"integer", SCHEMA_INTEGER},
             {"object", SCHEMA_OBJECT},
             {"array", SCHEMA_ARRAY},
             {"opt4gptq:fraction", SCHEMA_FRACTION}}; /* of schemas that are made here */

unsigned schema_type_of(json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return SCHEMA_OBJECT;
    case JSON_ARRAY: return SCHEMA_ARRAY;
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_INTEGER: return SCHEMA_INTEGER;
    case JSON_REAL: {
        double x = json_real_value(v);
        return x > -9e15 && x < 9e15 && x == (double)(long long)x ? SCHEMA_INTEGER
                                                                  : SCHEMA_FRACTION;
    }
    case JSON_NULL: return SCHEMA_NULL;
    case JSON_TRUE:
    case JSON_FALSE: break;
    }
    return SCHEMA_BOOLEAN;
}

static int add_type(json_t *name, unsigned *types, struct err *e)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is_string(name) && !strcmp(json_string_value(name), names[i].name)) {
            *types |= names[i].types;
            return 0;
        }
    return err_set(e, "type: '%.40s' is no type of JSON",
                   json_is_string(name) ? json_string_value(name) : "?");
}

int schema_types(json_t *schema, unsigned *types, struct err *e)
{
    json_t *t = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
    json_t *one;
    size_t i;
    *types = t ? 0 : SCHEMA_ALL;
    if (json_is_array(t)) {
        json_array_foreach (t, i, one)
            if (add_type(one, types, e)) return -1;
    } else if (t && add_type(t, types, e)) {
        return -1;
    }
    if (!values) return 0;
    unsigned of_values = 0;
    json_array_foreach (values, i, one) of_values |= schema_type_of(one);
    *types &= of_values;
    return 0;
}

static json_t *types_as_json(unsigned types)
{
    json_t *j = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((types & names[i].types) == names[i].types) {
            json_array_append_new(j, json_string(names[i].name));
            types &= ~names[i].types;
        }
    return j;
}

/* ---- references */

static json_t *look_up(json_t *root, const char *pointer)
{
    char part[256];
    json_t *at = root;
    if (*pointer && *pointer != '/') return NULL;
    while (at && *pointer == '/') {
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/' && n < sizeof part - 1; n++, pointer++) {
            unsigned hex;
            part[n] = *pointer;
            if (!strncmp(pointer, "~0", 2) || !strncmp(pointer, "~1", 2))
                part[n] = *++pointer == '0' ? '~' : '/';
            else if (*pointer == '%' && sscanf(pointer, "%%%2x", &hex) == 1)
                part[n] = (char)hex, pointer += 2;
        }
        part[n] = 0;
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(part, NULL, 10))
                               : json_object_get(at, part);
    }
    return at;
}

/* ---- one schema of several */

static int refuse_both(const char *key, struct err *e)
{
    return err_set(e, "%s: two of these for one value are not served", key);
}

static json_t *both_lists(json_t *a, json_t *b)
{
    json_t *all = json_array(), *x, *y;
    size_t i, k;
    json_array_foreach (a, i, x)
        json_array_foreach (b, k, y)
            json_array_append_new(all, json_pack("{s:[O, O]}", "allOf", x, y));
    return all;
}

static json_t *all_of(json_t *a, json_t *b)
{
    if (!a || json_is_true(a)) return b ? json_incref(b) : json_true();
    if (!b || json_is_true(b) || json_equal(a, b)) return json_incref(a);
    return json_pack("{s:[O, O]}", "allOf", a, b);
}

/* Properties of one that the other does not name are that one's additional ones. */
static void both_properties(json_t *out, json_t *a, json_t *b)
{
    json_t *pa = json_object_get(a, "properties"), *pb = json_object_get(b, "properties"),
           *oa = json_object_get(a, "additionalProperties"),
           *ob = json_object_get(b, "additionalProperties");
    json_t *all = json_object(), *v;
    const char *name;
    json_object_foreach (pa, name, v) {
        json_t *other = json_object_get(pb, name);
        json_object_set_new(all, name, all_of(v, other ? other : ob));
    }
    json_object_foreach (pb, name, v)
        if (!json_object_get(pa, name)) json_object_set_new(all, name, all_of(v, oa));
    if (pa || pb) json_object_set_new(out, "properties", all);
    else json_decref(all);
    if (oa || ob) json_object_set_new(out, "additionalProperties", all_of(oa, ob));
}

static int is_larger(json_t *a, json_t *b) { return json_number_value(a) > json_number_value(b); }

static int both_values(json_t *out, const char *key, json_t *a, json_t *b, struct err *e)
{
    static const char *const lower[] = {"minimum", "minLength", "minItems", "minProperties"},
                             *const upper[] = {"maximum", "maxLength", "maxItems", "maxProperties"};
    json_t *v, *w;
    size_t i, k;
    if (json_equal(a, b)) return json_object_set(out, key, a);
    if (is_one_of(key, lower, 4) ||
        (!strcmp(key, "exclusiveMinimum") && json_is_number(a) && json_is_number(b)))
        return json_object_set(out, key, (is_larger(a, b) ? a : b));
    if (is_one_of(key, upper, 4) ||
        (!strcmp(key, "exclusiveMaximum") && json_is_number(a) && json_is_number(b)))
        return json_object_set(out, key, (is_larger(a, b) ? b : a));
    if (!strcmp(key, "enum")) {
        json_t *common = json_array();
        json_array_foreach (a, i, v)
            json_array_foreach (b, k, w)
                if (json_equal(v, w)) json_array_append(common, v);
        return json_object_set_new(out, key, common);
    }
    if (!strcmp(key, "required")) {
        json_t *all = json_copy(a);
        json_array_extend(all, b);
        return json_object_set_new(out, key, all);
    }
    if (!strcmp(key, "anyOf")) {
        if (json_array_size(a) * json_array_size(b) > MAX_CASES) return refuse_both(key, e);
        return json_object_set_new(out, key, both_lists(a, b));
    }
    if (!strcmp(key, "items") && !json_is_array(a) && !json_is_array(b))
        return json_object_set_new(out, key, all_of(a, b));
    if (!strcmp(key, "uniqueItems"))
        return json_object_set_new(out, key, json_boolean(json_is_true(a) || json_is_true(b)));
    if (!strcmp(key, "opt4gptq:notEnum") || !strcmp(key, "opt4gptq:notPattern")) {
        json_t *all = json_copy(a);
        json_array_extend(all, b);
        return json_object_set_new(out, key, all);
    }
    if (!strcmp(key, "pattern")) { /* further ones are kept apart */
        json_t *all = json_array();
        json_array_append(all, b);
        if (json_object_get(out, "opt4gptq:morePatterns"))
            json_array_extend(all, json_object_get(out, "opt4gptq:morePatterns"));
        json_object_set_new(out, "opt4gptq:morePatterns", all);
        return json_object_set(out, key, a);
    }
    if (!strcmp(key, "opt4gptq:morePatterns")) {
        json_t *all = json_copy(a);
        json_array_extend(all, b);
        return json_object_set_new(out, key, all);
    }
    if (!strcmp(key, "patternProperties") && json_is_object(a) && json_is_object(b)) {
        json_t *all = json_copy(a), *v2;
        const char *name;
        json_object_foreach (b, name, v2)
            json_object_set_new(all, name, all_of(json_object_get(a, name), v2));
        return json_object_set_new(out, key, all);
    }
    return refuse_both(key, e);
}

int schema_both(json_t *a, json_t *b, json_t **out, struct err *e)
{
    json_t *x, *v;
    const char *key;
    int rc = 0;
    if (json_is_false(a) || json_is_false(b)) return *out = json_false(), 0;
    if (json_is_true(a)) return *out = json_incref(b), 0;
    if (json_is_true(b)) return *out = json_incref(a), 0;
    x = json_object();
    json_object_foreach (a, key, v)
        if (!schema_is_silent(key) && !json_object_get(b, key)) json_object_set(x, key, v);
    json_object_foreach (b, key, v) {
        json_t *other = json_object_get(a, key);
        if (schema_is_silent(key)) continue;
        if (!other && !strcmp(key, "opt4gptq:morePatterns") && json_object_get(x, key))
            rc |= json_array_extend(json_object_get(x, key), v);
        else if (!other) rc |= json_object_set(x, key, v);
        else if (!strcmp(key, "type")) {
            unsigned of_a, of_b;
            rc |= schema_types(a, &of_a, e) || schema_types(b, &of_b, e) ? -1 : 0;
            if (!rc) json_object_set_new(x, key, types_as_json(of_a & of_b));
        } else if (strcmp(key, "properties") && strcmp(key, "additionalProperties")) {
            rc |= both_values(x, key, other, v, e);
        }
        if (rc) break;
    }
    /* what a schema says of members that it does not name is known where it has no patterns */
    json_t *pa = json_object_get(a, "patternProperties"),
           *pb = json_object_get(b, "patternProperties");
    if (!rc && ((json_object_size(pa) && json_object_get(a, "additionalProperties") &&
                 (json_object_size(json_object_get(b, "properties")) || json_object_size(pb))) ||
                (json_object_size(pb) && json_object_get(b, "additionalProperties") &&
                 (json_object_size(json_object_get(a, "properties")) || json_object_size(pa)))))
        rc = refuse_both("patternProperties", e);
    if (!rc) {
        json_object_del(x, "properties");
        json_object_del(x, "additionalProperties");
        both_properties(x, a, b);
    }
    if (!rc) return *out = x, 0;
    json_decref(x);
    return -1;
}

static int flatten(json_t *root, json_t *schema, int depth, json_t **out, struct err *e);

/* The schema without KEY. */
static json_t *without(json_t *schema, const char *key)
{
    json_t *x = json_copy(schema);
    json_object_del(x, key);
    return x;
}

static int says_something(json_t *schema)
{
    const char *key;
    json_t *v;
    json_object_foreach (schema, key, v)
        if (!schema_is_silent(key)) return 1;
    return 0;
}

/* ---- what a schema does not allow, as a schema: one keyword or another fails */

/* The failures of one keyword are added to CASES. */
static int negate_keyword(const char *key, json_t *v, json_t *cases, struct err *e)
{
    static const struct {
        const char *key, *type, *other;
        int step;
    } bounds[] = {
        {"minimum", "number", "exclusiveMaximum", 0}, {"maximum", "number", "exclusiveMinimum", 0},
        {"exclusiveMinimum", "number", "maximum", 0}, {"exclusiveMaximum", "number", "minimum", 0},
        {"minLength", "string", "maxLength", -1},     {"maxLength", "string", "minLength", 1},
        {"minItems", "array", "maxItems", -1},        {"maxItems", "array", "minItems", 1}};
    json_t *one;
    const char *name;
    size_t i;
    int rc = 0;
    for (i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(key, bounds[i].key)) continue;
        if (!json_is_number(v)) break;
        double x = json_number_value(v);
        if (bounds[i].step && x + bounds[i].step < 0) return 0; /* never fails */
        one = bounds[i].step ? json_integer((json_int_t)x + bounds[i].step) : json_incref(v);
        return json_array_append_new(
            cases, json_pack("{s:s, s:o}", "type", bounds[i].type, bounds[i].other, one));
    }
    if (!strcmp(key, "type")) {
        struct err ignored;
        unsigned types;
        json_t *of = json_pack("{s:O}", "type", v);
        rc = schema_types(of, &types, &ignored);
        json_decref(of);
        types = SCHEMA_ALL & ~types;
        if (!rc)
            return json_array_append_new(cases, json_pack("{s:o}", "type", types_as_json(types)));
    } else if (!strcmp(key, "enum") && json_is_array(v)) {
        return json_array_append_new(cases, json_pack("{s:O}", "opt4gptq:notEnum", v));
    } else if (!strcmp(key, "opt4gptq:notEnum")) {
        return json_array_append_new(cases, json_pack("{s:O}", "enum", v));
    } else if (!strcmp(key, "pattern") && json_is_string(v)) {
        return json_array_append_new(
            cases, json_pack("{s:s, s:[O]}", "type", "string", "opt4gptq:notPattern", v));
    } else if (!strcmp(key, "required") && json_is_array(v)) {
        json_array_foreach (v, i, one)
            if (json_is_string(one))
                json_array_append_new(cases, json_pack("{s:s, s:{s:b}}", "type", "object",
                                                       "properties", json_string_value(one), 0));
        return 0;
    } else if (!strcmp(key, "properties") && json_is_object(v)) {
        json_object_foreach (v, name, one)
            json_array_append_new(cases,
                                  json_pack("{s:s, s:[s], s:{s:{s:O}}}", "type", "object",
                                            "required", name, "properties", name, "not", one));
        return 0;
    } else if (!strcmp(key, "allOf") && json_is_array(v)) {
        json_array_foreach (v, i, one) json_array_append_new(cases, json_pack("{s:O}", "not", one));
        return 0;
    } else if (!strcmp(key, "anyOf") && json_is_array(v)) {
        json_t *all = json_array();
        json_array_foreach (v, i, one) json_array_append_new(all, json_pack("{s:O}", "not", one));
        return json_array_append_new(cases, json_pack("{s:o}", "allOf", all));
    }
    return err_set(e, "not: of %s is not served", key);
}

static int negate(json_t *root, json_t *schema, int depth, json_t **out, struct err *e)
{
    json_t *flat, *v, *cases;
    const char *key;
    int rc = 0;
    if (flatten(root, schema, depth + 1, &flat, e)) return -1;
    if (json_is_boolean(flat)) {
        *out = json_boolean(json_is_false(flat));
        json_decref(flat);
        return 0;
    }
    cases = json_array();
    json_object_foreach (flat, key, v)
        if (!rc && !schema_is_silent(key)) rc = negate_keyword(key, v, cases, e);
    json_decref(flat);
    if (!rc && !json_array_size(cases)) *out = json_false();
    else if (!rc && json_array_size(cases) == 1) *out = json_incref(json_array_get(cases, 0));
    else if (!rc) *out = json_pack("{s:O}", "anyOf", cases);
    json_decref(cases);
    return rc;
}

/* Keywords that others can say are added to ALL, an allOf, and taken from X. */
static int rewrite(json_t *root, json_t *x, int depth, json_t *all, struct err *e)
{
    static const char *const dependent[] = {"dependencies", "dependentRequired",
                                            "dependentSchemas"};
    json_t *v = json_object_get(x, "not"), *no;
    const char *name;
    if (v) {
        if (negate(root, v, depth, &no, e)) return -1;
        json_array_append_new(all, no);
        json_object_del(x, "not");
    }
    if ((v = json_object_get(x, "if"))) {
        json_t *yes = json_object_get(x, "then"), *other = json_object_get(x, "else");
        if (yes || other) {
            json_t *a = json_pack("[O, O]", v, yes ? yes : json_true()),
                   *b = json_pack("[{s:O}, O]", "not", v, other ? other : json_true());
            json_array_append_new(all,
                                  json_pack("{s:[{s:o}, {s:o}]}", "anyOf", "allOf", a, "allOf", b));
        }
    }
    json_object_del(x, "if");
    json_object_del(x, "then");
    json_object_del(x, "else");
    for (int i = 0; i < 3; i++) {
        json_t *one;
        json_object_foreach (json_object_get(x, dependent[i]), name, one) {
            json_t *then = json_is_array(one)    ? json_pack("{s:O}", "required", one)
                           : json_is_string(one) ? json_pack("{s:[O]}", "required", one)
                                                 : json_incref(one);
            json_array_append_new(
                all, json_pack("{s:[{s:{s:b}}, o]}", "anyOf", "properties", name, 0, then));
        }
        json_object_del(x, dependent[i]);
    }
    return 0;
}

static int flatten(json_t *root, json_t *schema, int depth, json_t **out, struct err *e)
{
    if (json_is_boolean(schema)) return *out = json_incref(schema), 0;
    if (!json_is_object(schema)) return err_set(e, "a schema is an object, true or false");
    if (depth > MAX_REFERENCES) return err_set(e, "$ref: refers to itself");
    json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf"),
           *value = json_object_get(schema, "const");
    if (ref) {
        const char *to = json_string_value(ref);
        json_t *target = to && *to == '#' ? look_up(root, to + 1) : NULL;
        if (!to) return err_set(e, "$ref: is not a string");
        if (*to != '#') return err_set(e, "$ref: '%.80s' is not in this schema", to);
        if (!target) return err_set(e, "$ref: '%.80s' is not there", to);
        json_t *rest = without(schema, "$ref"), *x, *y = NULL;
        const char *draft = json_string_value(json_object_get(root, "$schema"));
        int alone = draft &&
                    strstr(draft, "draft-0"); /* what is beside it counts from 2019-09 on */
        int rc = flatten(root, target, depth + 1, &x, e);
        if (!rc && !alone && says_something(rest)) {
            rc = flatten(root, rest, depth + 1, &y, e);
            if (!rc) rc = schema_both(x, y, out, e);
            json_decref(x);
        } else if (!rc) {
            *out = x;
        }
        json_decref(y);
        json_decref(rest);
        return rc;
    }
    if (value) {
        json_t *x = without(schema, "const"), *y = json_pack("{s:[O]}", "enum", value), *flat;
        int rc = flatten(root, x, depth + 1, &flat, e);
        if (!rc) {
            rc = schema_both(flat, y, out, e);
            json_decref(flat);
        }
        json_decref(x);
        json_decref(y);
        return rc;
    }
    if (json_object_get(schema, "not") || json_object_get(schema, "if") ||
        json_object_get(schema, "then") || json_object_get(schema, "else") ||
        json_object_get(schema, "dependencies") || json_object_get(schema, "dependentRequired") ||
        json_object_get(schema, "dependentSchemas")) {
        json_t *x = json_copy(schema), *more = all ? json_copy(all) : json_array();
        int rc = rewrite(root, x, depth, more, e);
        json_object_set(x, "allOf", more);
        if (!rc) rc = flatten(root, x, depth + 1, out, e);
        json_decref(more);
        json_decref(x);
        return rc;
    }
    if (!all) return *out = json_incref(schema), 0;
    if (!json_is_array(all)) return err_set(e, "allOf: is not an array");
    json_t *base = without(schema, "allOf"), *now, *one;
    size_t i;
    int rc = flatten(root, base, depth + 1, &now, e);
    json_decref(base);
    json_array_foreach (all, i, one) {
        json_t *next, *more;
        if (rc) break;
        rc = flatten(root, one, depth + 1, &more, e);
        if (rc) {
            json_decref(now);
            break;
        }
        rc = schema_both(now, more, &next, e);
        json_decref(more);
        json_decref(now);
        now = rc ? NULL : next;
    }
    if (!rc) *out = now;
    return rc;
}

int schema_flatten(json_t *root, json_t *schema, json_t **out, struct err *e)
{
    return flatten(root, schema, 0, out, e);
}

/* ---- schemas told apart */

static int
    requires(json_t *schema, const char *name)
{
    json_t *v;
    size_t i;
    json_array_foreach (json_object_get(schema, "required"), i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), name)) return 1;
    return 0;
}

static int forbids(json_t *schema, const char *name)
{
    json_t *p = json_object_get(json_object_get(schema, "properties"), name);
    return p ? json_is_false(p)
             : json_is_false(json_object_get(schema, "additionalProperties")) &&
                   !json_object_get(schema, "patternProperties");
}

static int flat_apart(json_t *root, json_t *a, json_t *b, int depth)
{
    struct err e;
    unsigned of_a, of_b;
    json_t *va = json_object_get(a, "enum"), *vb = json_object_get(b, "enum");
    json_t *v, *w;
    size_t i, k;
    if (json_is_false(a) || json_is_false(b)) return 1;
    if (!json_is_object(a) || !json_is_object(b)) return 0;
    if (schema_types(a, &of_a, &e) || schema_types(b, &of_b, &e)) return 0;
    if (!(of_a & of_b)) return 1;
    if (va && vb) {
        int common = 0;
        json_array_foreach (va, i, v)
            json_array_foreach (vb, k, w) common |= json_equal(v, w);
        if (!common) return 1;
    }
    if ((of_a & of_b) != SCHEMA_OBJECT) return 0;
    json_array_foreach (json_object_get(a, "required"), i, v) {
        const char *name = json_string_value(v);
        if (!name) continue;
        if (forbids(b, name)) return 1;
        if (requires(b, name) &&
            schema_apart(root, json_object_get(json_object_get(a, "properties"), name),
                         json_object_get(json_object_get(b, "properties"), name), depth + 1))
            return 1;
    }
    json_array_foreach (json_object_get(b, "required"), i, v)
        if (json_is_string(v) && forbids(a, json_string_value(v))) return 1;
    return 0;
}

int schema_apart(json_t *root, json_t *a, json_t *b, int depth)
{
    struct err e;
    json_t *x = NULL, *y = NULL;
    if (!a || !b || depth > 4) return 0;
    int apart = !schema_flatten(root, a, &x, &e) && !schema_flatten(root, b, &y, &e) &&
                flat_apart(root, x, y, depth);
    json_decref(x);
    json_decref(y);
    return apart;
}
