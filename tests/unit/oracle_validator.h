/* oracle_validator.h: whether a JSON schema allows a value, by the words of the specification
 * (2020-12, and what drafts 4 to 2019-09 have beside it), one keyword after the other. Owns: what
 * keywords mean. Must not know: grammars. Included by one test.
 *
 * Numbers are compared as doubles: judged values have few digits. */
#ifndef UNIT_ORACLE_VALIDATOR_H
#define UNIT_ORACLE_VALIDATOR_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct validator {
    json_t *root;
    int depth;
    int is_lost; /* no answer: a reference goes nowhere, or a schema needs itself to say something
                    of the same value */
};
enum { VALIDATOR_DEPTH = 60 };

static int valid(struct validator *v, json_t *schema, json_t *x);

/* Equal as JSON Schema has it: numbers by value, members in any order. */
static int same_value(json_t *a, json_t *b)
{
    const char *name;
    json_t *one;
    size_t i;
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return 0;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return 0;
        json_array_foreach (a, i, one)
            if (!same_value(one, json_array_get(b, i))) return 0;
        return 1;
    }
    if (json_is_object(a)) {
        if (json_object_size(a) != json_object_size(b)) return 0;
        json_object_foreach (a, name, one) {
            json_t *other = json_object_get(b, name);
            if (!other || !same_value(one, other)) return 0;
        }
        return 1;
    }
    return json_equal(a, b);
}

static int has_type(json_t *x, const char *type)
{
    double whole;
    switch (json_typeof(x)) {
    case JSON_OBJECT: return !strcmp(type, "object");
    case JSON_ARRAY: return !strcmp(type, "array");
    case JSON_STRING: return !strcmp(type, "string");
    case JSON_NULL: return !strcmp(type, "null");
    case JSON_TRUE:
    case JSON_FALSE: return !strcmp(type, "boolean");
    case JSON_INTEGER:
    case JSON_REAL: break;
    }
    return !strcmp(type, "number") ||
           (!strcmp(type, "integer") && modf(json_number_value(x), &whole) == 0);
}

/* 1: the pattern finds something in TEXT [n]. Compiled patterns are kept. */
static int finds(const char *pattern, const char *text, size_t n)
{
    static struct {
        char pattern[64];
        pcre2_code *code;
        pcre2_match_data *data;
    } kept[256];
    int i = 0, error;
    size_t at;
    while (i < 255 && kept[i].code && strcmp(kept[i].pattern, pattern)) i++;
    if (!kept[i].code) {
        strncpy(kept[i].pattern, pattern, sizeof kept[i].pattern - 1);
        kept[i].code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &error, &at,
                                     NULL);
        if (!kept[i].code || strcmp(kept[i].pattern, pattern)) abort();
        kept[i].data = pcre2_match_data_create_from_pattern(kept[i].code, NULL);
    }
    return pcre2_match(kept[i].code, (PCRE2_SPTR)text, n, 0, 0, kept[i].data, NULL) >= 0;
}

/* 1: MIN and MAX, where they are there, let N through. */
static int within(json_t *s, const char *min, const char *max, double n)
{
    json_t *low = json_object_get(s, min), *high = json_object_get(s, max);
    return (!low || n >= json_number_value(low)) && (!high || n <= json_number_value(high));
}

static int valid_number(json_t *s, double x)
{
    json_t *low = json_object_get(s, "exclusiveMinimum"),
           *high = json_object_get(s, "exclusiveMaximum"), *step = json_object_get(s, "multipleOf");
    if (!within(s, "minimum", "maximum", x)) return 0;
    if (json_is_true(low)) low = json_object_get(s, "minimum"); /* draft 4 */
    if (json_is_true(high)) high = json_object_get(s, "maximum");
    if (json_is_number(low) && x <= json_number_value(low)) return 0;
    if (json_is_number(high) && x >= json_number_value(high)) return 0;
    return !step || fmod(x, json_number_value(step)) == 0;
}

static int valid_string(json_t *s, json_t *x)
{
    const char *text = json_string_value(x), *pattern;
    size_t n = json_string_length(x), points = 0;
    for (size_t i = 0; i < n; i++) points += (text[i] & 0xc0) != 0x80;
    if (!within(s, "minLength", "maxLength", (double)points)) return 0;
    pattern = json_string_value(json_object_get(s, "pattern"));
    return !pattern || finds(pattern, text, n);
}

static int valid_array(struct validator *v, json_t *s, json_t *x)
{
    json_t *prefix = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items"),
           *contains = json_object_get(s, "contains"), *one;
    size_t i, k, found = 0, n = json_array_size(x);
    if (json_is_array(items)) { /* drafts before 2020-12 */
        prefix = items;
        items = json_object_get(s, "additionalItems");
    }
    if (!within(s, "minItems", "maxItems", (double)n)) return 0;
    json_array_foreach (x, i, one) {
        json_t *sub = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (sub && !valid(v, sub, one)) return 0;
        if (contains) found += (size_t)valid(v, contains, one);
    }
    if (contains && !json_object_get(s, "minContains") && found == 0) return 0;
    if (contains && !within(s, "minContains", "maxContains", (double)found)) return 0;
    if (json_is_true(json_object_get(s, "uniqueItems")))
        for (i = 0; i < n; i++)
            for (k = 0; k < i; k++)
                if (same_value(json_array_get(x, i), json_array_get(x, k))) return 0;
    return 1;
}

/* All names of the array are there. */
static int has_all(json_t *names, json_t *x)
{
    json_t *name;
    size_t i;
    json_array_foreach (names, i, name)
        if (!json_object_get(x, json_string_value(name))) return 0;
    return 1;
}

static int valid_member(struct validator *v, json_t *s, const char *name, json_t *x)
{
    json_t *own = json_object_get(json_object_get(s, "properties"), name),
           *other = json_object_get(s, "additionalProperties"),
           *names = json_object_get(s, "propertyNames"), *sub;
    const char *pattern;
    int is_known = own != NULL;
    if (own && !valid(v, own, x)) return 0;
    json_object_foreach (json_object_get(s, "patternProperties"), pattern, sub) {
        if (!finds(pattern, name, strlen(name))) continue;
        if (!valid(v, sub, x)) return 0;
        is_known = 1;
    }
    if (!is_known && other && !valid(v, other, x)) return 0;
    if (!names) return 1;
    json_t *text = json_string(name);
    int ok = valid(v, names, text);
    json_decref(text);
    return ok;
}

static int valid_object(struct validator *v, json_t *s, json_t *x)
{
    static const char *const dependent[] = {"dependencies", "dependentRequired",
                                            "dependentSchemas"};
    const char *name;
    json_t *one;
    if (!within(s, "minProperties", "maxProperties", (double)json_object_size(x))) return 0;
    if (!has_all(json_object_get(s, "required"), x)) return 0;
    json_object_foreach (x, name, one)
        if (!valid_member(v, s, name, one)) return 0;
    for (int i = 0; i < 3; i++)
        json_object_foreach (json_object_get(s, dependent[i]), name, one) {
            if (!json_object_get(x, name)) continue;
            if (json_is_array(one) ? !has_all(one, x) : !valid(v, one, x)) return 0;
        }
    return 1;
}

/* ---- what is evaluated (2019-09, Core 9.3) */

/* Where a reference goes, or NULL. */
static json_t *target_of(struct validator *v, json_t *s)
{
    const char *to = json_string_value(json_object_get(s, "$ref"));
    json_t *defs = json_object_get(v->root, "$defs"), *target;
    if (!to) return NULL;
    target = !strcmp(to, "#")         ? v->root
             : !strcmp(to, "#anchor") ? json_object_get(defs, "y")
                                      : json_object_get(defs, strrchr(to, '/') + 1);
    if (!target) v->is_lost = 1;
    return target;
}

static void mark_all(json_t *x, json_t *seen)
{
    const char *name;
    json_t *one;
    size_t i;
    json_object_foreach (x, name, one) json_object_set_new(seen, name, json_true());
    json_array_foreach (x, i, one) {
        char at[24];
        snprintf(at, sizeof at, "%zu", i);
        json_object_set_new(seen, at, json_true());
    }
}

static void mark(struct validator *v, json_t *s, json_t *x, json_t *seen);

static void mark_members(json_t *s, json_t *x, json_t *seen)
{
    const char *name, *pattern;
    json_t *one, *sub;
    json_object_foreach (x, name, one) {
        int is_known = json_object_get(json_object_get(s, "properties"), name) != NULL ||
                       json_object_get(s, "additionalProperties") ||
                       json_object_get(s, "unevaluatedProperties");
        json_object_foreach (json_object_get(s, "patternProperties"), pattern, sub)
            is_known |= finds(pattern, name, strlen(name));
        if (is_known) json_object_set_new(seen, name, json_true());
    }
}

static void mark_items(struct validator *v, json_t *s, json_t *x, json_t *seen)
{
    json_t *prefix = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items"),
           *contains = json_object_get(s, "contains"), *one;
    size_t i;
    if (json_is_array(items)) { /* drafts before 2020-12 */
        prefix = items;
        items = json_object_get(s, "additionalItems");
    }
    if (items || json_object_get(s, "unevaluatedItems")) mark_all(x, seen);
    json_array_foreach (x, i, one) {
        char at[24];
        snprintf(at, sizeof at, "%zu", i);
        if (i < json_array_size(prefix) || (contains && valid(v, contains, one)))
            json_object_set_new(seen, at, json_true());
    }
}

/* The names, or numbers, of what S evaluates in X, which it allows. */
static void mark(struct validator *v, json_t *s, json_t *x, json_t *seen)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"}, *const dependent[] = {
                                                                        "dependencies",
                                                                        "dependentSchemas"};
    json_t *one, *when = json_object_get(s, "if"), *target;
    const char *name;
    size_t i;
    if (!json_is_object(s) || v->is_lost) return;
    if (v->depth > VALIDATOR_DEPTH) {
        v->is_lost = 1;
        return;
    }
    v->depth++;
    if (json_is_object(x)) mark_members(s, x, seen);
    if (json_is_array(x)) mark_items(v, s, x, seen);
    if ((target = target_of(v, s))) mark(v, target, x, seen);
    for (int k = 0; k < 3; k++)
        json_array_foreach (json_object_get(s, lists[k]), i, one)
            if (valid(v, one, x)) mark(v, one, x, seen);
    if (when) {
        int is_so = valid(v, when, x);
        if (is_so) mark(v, when, x, seen);
        mark(v, json_object_get(s, is_so ? "then" : "else"), x, seen);
    }
    for (int k = 0; k < 2; k++)
        json_object_foreach (json_object_get(s, dependent[k]), name, one)
            if (json_object_get(x, name)) mark(v, one, x, seen);
    v->depth--;
}

/* What is said of members and items that nothing else in S evaluates. */
static int valid_others(struct validator *v, json_t *s, json_t *x)
{
    json_t *sub = json_object_get(s,
                                  json_is_object(x) ? "unevaluatedProperties" : "unevaluatedItems"),
           *rest, *seen, *one;
    const char *name;
    size_t i;
    int ok = 1;
    if (!sub) return 1;
    rest = json_copy(s);
    json_object_del(rest, json_is_object(x) ? "unevaluatedProperties" : "unevaluatedItems");
    seen = json_object();
    mark(v, rest, x, seen);
    json_object_foreach (x, name, one)
        if (!json_object_get(seen, name)) ok &= valid(v, sub, one);
    json_array_foreach (x, i, one) {
        char at[24];
        snprintf(at, sizeof at, "%zu", i);
        if (!json_object_get(seen, at)) ok &= valid(v, sub, one);
    }
    json_decref(seen);
    json_decref(rest);
    return ok;
}

/* What schemas of schemas say. */
static int valid_together(struct validator *v, json_t *s, json_t *x)
{
    json_t *any = json_object_get(s, "anyOf"), *exactly = json_object_get(s, "oneOf"),
           *no = json_object_get(s, "not"), *when = json_object_get(s, "if"), *one;
    size_t i, n = 0;
    if (json_object_get(s, "$ref")) {
        json_t *target = target_of(v, s);
        if (!target || !valid(v, target, x)) return 0;
    }
    json_array_foreach (json_object_get(s, "allOf"), i, one)
        if (!valid(v, one, x)) return 0;
    json_array_foreach (any, i, one) n += (size_t)valid(v, one, x);
    if (any && n == 0) return 0;
    n = 0;
    json_array_foreach (exactly, i, one) n += (size_t)valid(v, one, x);
    if (exactly && n != 1) return 0;
    if (no && valid(v, no, x)) return 0;
    if (when) {
        json_t *next = json_object_get(s, valid(v, when, x) ? "then" : "else");
        if (next && !valid(v, next, x)) return 0;
    }
    return 1;
}

static int valid_here(struct validator *v, json_t *s, json_t *x)
{
    json_t *type = json_object_get(s, "type"), *values = json_object_get(s, "enum"),
           *value = json_object_get(s, "const"), *one;
    size_t i;
    int found = 0;
    if (json_is_string(type) && !has_type(x, json_string_value(type))) return 0;
    if (json_is_array(type)) {
        json_array_foreach (type, i, one) found |= has_type(x, json_string_value(one));
        if (!found) return 0;
    }
    found = 0;
    json_array_foreach (values, i, one) found |= same_value(one, x);
    if (values && !found) return 0;
    if (value && !same_value(value, x)) return 0;
    if (json_is_number(x) && !valid_number(s, json_number_value(x))) return 0;
    if (json_is_string(x) && !valid_string(s, x)) return 0;
    if (json_is_array(x) && !valid_array(v, s, x)) return 0;
    if (json_is_object(x) && !valid_object(v, s, x)) return 0;
    if (!valid_together(v, s, x)) return 0;
    return !(json_is_object(x) || json_is_array(x)) || valid_others(v, s, x);
}

/* 1: SCHEMA allows X. */
static int valid(struct validator *v, json_t *schema, json_t *x)
{
    if (v->is_lost) return 0;
    if (v->depth > VALIDATOR_DEPTH) return v->is_lost = 1, 0;
    if (json_is_boolean(schema)) return json_is_true(schema);
    v->depth++;
    int ok = valid_here(v, schema, x);
    v->depth--;
    return ok;
}

#endif
