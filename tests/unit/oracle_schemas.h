/* oracle_schemas.h: random small JSON schemas of all keywords that the specification has for
 * validation, combined as they come; and smaller ones of one that was found wanting. Owns: the
 * small world that they speak of. Must not know: which of them are served. Included by one test. */
#ifndef UNIT_ORACLE_SCHEMAS_H
#define UNIT_ORACLE_SCHEMAS_H

#include <jansson.h>
#include <stdint.h>
#include <string.h>

struct dice {
    uint64_t state;
};

static unsigned roll(struct dice *d, unsigned n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = d->state >> 33;
    return (unsigned)((x ^ x >> 13) % n);
}
/* 1 in N times of a hundred. */
static int chance(struct dice *d, unsigned percent) { return roll(d, 100) < percent; }

#define PICK(d, list) ((list)[roll(d, sizeof(list) / sizeof *(list))])

static const char *const world_names[] = {"a", "b", "ab"};
static const char *const world_patterns[] = {"^a",      "b$", "a",        "^[ab]$", "^a*b$", "^$",
                                             "^[^a]?$", "b",  "^(a|ba)$", "\\d",    "^a|b$"};
static const char *const world_values[] = {
    "null",        "true", "false",     "0",    "1",         "2",      "1.0",
    "-1",          "1.5",  "12",        "\"\"", "\"a\"",     "\"b\"",  "\"ab\"",
    "[]",          "[1]",  "[1,\"a\"]", "{}",   "{\"a\":1}", "\"ba\"", "{\"a\":1,\"b\":\"a\"}",
    "{\"b\":null}"};

/* A schema with up to DEPTH levels of others in it, more often than not of TYPE (NULL: any). */
static json_t *random_schema(struct dice *d, int depth, const char *type);

static json_t *parsed(const char *text) { return json_loads(text, JSON_DECODE_ANY, NULL); }

static void put(json_t *s, const char *key, json_t *v) { json_object_set_new(s, key, v); }

static json_t *random_number(struct dice *d)
{
    return chance(d, 20) ? json_real(roll(d, 8) / 2.0 - 1) : json_integer((int)roll(d, 8) - 1);
}

static json_t *random_names(struct dice *d)
{
    json_t *all = json_array();
    for (unsigned i = 0, n = 1 + roll(d, 2); i < n; i++)
        json_array_append_new(all, json_string(PICK(d, world_names)));
    if (json_array_size(all) == 2 && json_equal(json_array_get(all, 0), json_array_get(all, 1)))
        json_array_remove(all, 1);
    return all;
}

static json_t *random_list(struct dice *d, int depth, unsigned most, const char *type)
{
    json_t *all = json_array();
    for (unsigned i = 0, n = 1 + roll(d, most); i < n; i++)
        json_array_append_new(all, random_schema(d, depth, type));
    return all;
}

static void number_keyword(struct dice *d, json_t *s)
{
    static const char *const bounds[] = {"minimum", "maximum",          "minimum",
                                         "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    static const double steps[] = {1, 1, 2, 3, 0.5, 1.5};
    switch (roll(d, 8)) {
    case 0: {
        double step = PICK(d, steps);
        put(s, "multipleOf", step == (int)step ? json_integer((int)step) : json_real(step));
        break;
    }
    case 1: { /* draft 4 */
        int is_low = roll(d, 2) != 0;
        put(s, is_low ? "minimum" : "maximum", random_number(d));
        put(s, is_low ? "exclusiveMinimum" : "exclusiveMaximum", json_boolean(chance(d, 80)));
        break;
    }
    default: put(s, PICK(d, bounds), random_number(d));
    }
}

static void string_keyword(struct dice *d, json_t *s)
{
    switch (roll(d, 3)) {
    case 0: put(s, "minLength", json_integer(roll(d, 3))); break;
    case 1: put(s, "maxLength", json_integer(roll(d, 4))); break;
    default: put(s, "pattern", json_string(PICK(d, world_patterns)));
    }
}

static void array_keyword(struct dice *d, json_t *s, int depth)
{
    switch (roll(d, 9)) {
    case 0:
    case 1: put(s, "items", random_schema(d, depth, NULL)); break;
    case 2: put(s, "prefixItems", random_list(d, depth, 2, NULL)); break;
    case 3: put(s, "minItems", json_integer(roll(d, 3))); break;
    case 4: put(s, "maxItems", json_integer(roll(d, 4))); break;
    case 5: put(s, "uniqueItems", json_boolean(chance(d, 90))); break;
    case 6:
        put(s, "contains", random_schema(d, depth, NULL));
        if (chance(d, 30)) put(s, "minContains", json_integer(roll(d, 3)));
        if (chance(d, 30)) put(s, "maxContains", json_integer(roll(d, 3)));
        break;
    case 7: put(s, "additionalItems", random_schema(d, depth, NULL)); break;
    default: /* drafts before 2020-12 */
        if (json_object_get(s, "prefixItems")) break;
        put(s, "items", random_list(d, depth, 2, NULL));
        if (chance(d, 60)) put(s, "additionalItems", random_schema(d, depth, NULL));
    }
    if (json_is_array(json_object_get(s, "items"))) json_object_del(s, "prefixItems");
}

static void object_keyword(struct dice *d, json_t *s, int depth)
{
    static const char *const dependent[] = {"dependentSchemas", "dependencies"};
    json_t *o = json_object();
    switch (roll(d, 13)) {
    case 0:
    case 1:
    case 2:
    case 3:
        for (unsigned i = 0, n = 1 + roll(d, 3); i < n; i++)
            put(o, PICK(d, world_names), random_schema(d, depth, NULL));
        put(s, "properties", json_incref(o));
        break;
    case 4:
    case 5: put(s, "required", random_names(d)); break;
    case 6:
    case 7:
        put(s, "additionalProperties",
            chance(d, 60) ? json_false() : random_schema(d, depth, NULL));
        break;
    case 8:
        for (unsigned i = 0, n = 1 + roll(d, 2); i < n; i++)
            put(o, PICK(d, world_patterns), random_schema(d, depth, NULL));
        put(s, "patternProperties", json_incref(o));
        break;
    case 9: put(s, "minProperties", json_integer(roll(d, 3))); break;
    case 10: put(s, "maxProperties", json_integer(roll(d, 4))); break;
    case 11: put(s, "propertyNames", random_schema(d, chance(d, 80) ? 0 : depth, "string")); break;
    default:
        if (chance(d, 50)) {
            put(o, PICK(d, world_names), random_names(d));
            put(s, chance(d, 80) ? "dependentRequired" : "dependencies", json_incref(o));
        } else {
            put(o, PICK(d, world_names), random_schema(d, depth, "object"));
            put(s, PICK(d, dependent), json_incref(o));
        }
    }
    json_decref(o);
}

/* What no value is, in the ways that a schema can say it; or some value, mostly small. */
static json_t *perhaps_never(struct dice *d, int depth)
{
    static const char *const never[] = {"false",
                                        "{\"type\":\"integer\",\"enum\":[\"x\"]}",
                                        "{\"not\":{}}",
                                        "{\"$ref\":\"#/$defs/endless\"}",
                                        "{\"type\":\"string\",\"minLength\":2,\"maxLength\":1}",
                                        "{\"type\":\"array\",\"items\":false,\"minItems\":1}",
                                        "{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}"},
                             *const some[] = {"true", "{\"type\":\"integer\"}",
                                              "{\"$ref\":\"#/$defs/chain\"}",
                                              "{\"enum\":[1,\"a\"]}", "{\"type\":\"null\"}"};
    if (chance(d, 35)) return parsed(PICK(d, never));
    return chance(d, 20) ? random_schema(d, depth, NULL) : parsed(PICK(d, some));
}

/* An object or an array whose counts meet members that cannot be. */
static json_t *crowd(struct dice *d, int depth)
{
    json_t *s = json_object(), *o = json_object();
    int is_array = chance(d, 25);
    put(s, "type", json_string(is_array ? "array" : "object"));
    for (unsigned i = 0, n = roll(d, 4); i < n; i++)
        if (is_array) array_keyword(d, s, 0);
        else put(o, PICK(d, world_names), perhaps_never(d, depth));
    if (is_array) {
        if (chance(d, 50) && !json_is_array(json_object_get(s, "items")))
            put(s, "items", perhaps_never(d, depth));
        if (chance(d, 40)) put(s, "maxItems", json_integer(roll(d, 4)));
        json_decref(o);
        return s;
    }
    if (json_object_size(o)) put(s, "properties", json_incref(o));
    json_decref(o);
    if (chance(d, 40)) put(s, "required", random_names(d));
    if (chance(d, 60)) put(s, "additionalProperties", perhaps_never(d, depth));
    if (chance(d, 25))
        put(s, "patternProperties",
            json_pack("{s:o}", PICK(d, world_patterns), perhaps_never(d, depth)));
    if (chance(d, 20)) put(s, "propertyNames", random_schema(d, 0, "string"));
    if (chance(d, 55)) put(s, "maxProperties", json_integer(roll(d, 4)));
    if (chance(d, 35)) put(s, "minProperties", json_integer(roll(d, 4)));
    return s;
}

static void together_keyword(struct dice *d, json_t *s, int depth, const char *type)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    switch (roll(d, 9)) {
    case 0:
    case 1: put(s, "not", random_schema(d, depth, type)); break;
    case 2:
        put(s, "if", random_schema(d, depth, type));
        if (chance(d, 80)) put(s, "then", random_schema(d, depth, type));
        if (chance(d, 60)) put(s, "else", random_schema(d, depth, type));
        break;
    case 3:
        put(s, "$ref",
            json_string(chance(d, 10)   ? "#"
                        : chance(d, 30) ? "#anchor"
                        : chance(d, 50) ? "#/$defs/x"
                                        : "#/$defs/y"));
        break;
    default: put(s, PICK(d, lists), random_list(d, depth, 3, type));
    }
}

/* What is said of members and items that nothing else speaks of, mostly that there are none. */
static void others_keyword(struct dice *d, json_t *s, int depth)
{
    put(s, chance(d, 60) ? "unevaluatedProperties" : "unevaluatedItems",
        chance(d, 70) ? json_false() : random_schema(d, depth, NULL));
}

static void values_keyword(struct dice *d, json_t *s)
{
    if (chance(d, 40)) {
        put(s, "const", parsed(PICK(d, world_values)));
        return;
    }
    json_t *all = json_array();
    for (unsigned i = 0, n = 1 + roll(d, 4); i < n; i++)
        json_array_append_new(all, parsed(PICK(d, world_values)));
    put(s, "enum", all);
}

static json_t *random_schema(struct dice *d, int depth, const char *hint)
{
    static const char *const types[] = {"object", "object",  "object", "array",   "array", "string",
                                        "string", "integer", "number", "boolean", "null"};
    if (chance(d, 4)) return json_boolean(chance(d, 60));
    if (depth > 1 && chance(d, 25)) return crowd(d, depth - 1);
    json_t *s = json_object();
    const char *type = hint && chance(d, 80) ? hint : PICK(d, types);
    unsigned n = 1 + roll(d, 3);
    if (chance(d, hint ? 40 : 75)) put(s, "type", json_string(type));
    else if (chance(d, 40)) {
        const char *other = PICK(d, types);
        put(s, "type",
            !strcmp(type, other) ? json_pack("[s]", type) : json_pack("[s, s]", type, other));
    }
    if (chance(d, 12)) values_keyword(d, s);
    if (depth > 0 && chance(d, 8)) others_keyword(d, s, depth - 1);
    for (unsigned i = 0; i < n; i++) {
        unsigned what = roll(d, 100);
        if (depth > 0 && what < 30) together_keyword(d, s, depth - 1, type);
        else if (what < 40) type = PICK(d, types); /* also of others than its type */
        else if (type[0] == 's') string_keyword(d, s);
        else if (type[0] == 'i' || !strcmp(type, "number")) number_keyword(d, s);
        else if (type[0] == 'a' && depth > 0) array_keyword(d, s, depth - 1);
        else if (type[0] == 'o' && depth > 0) object_keyword(d, s, depth - 1);
    }
    return s;
}

/* ---- smaller schemas */

/* Changes the schema, or what stands in it, in the N-th way that leaves less of it: an entry less,
 * or one of those within it in its place. *n is 0 once it is done. */
static json_t *smaller(json_t *x, int *n)
{
    json_t *copy, *one;
    const char *key;
    size_t i;
    if (json_is_object(x)) {
        copy = json_copy(x);
        json_object_foreach (x, key, one) {
            if (*n > 0 && --*n == 0) return json_object_del(copy, key), copy;
            if (*n > 0 && (json_is_object(one) || json_is_array(one))) {
                json_t *less = smaller(one, n);
                if (*n == 0) return json_object_set_new(copy, key, less), copy;
                json_decref(less);
            }
            if (*n > 0 && json_is_object(one) && --*n == 0)
                return json_decref(copy), json_incref(one);
        }
        return copy;
    }
    copy = json_copy(x);
    json_array_foreach (x, i, one) {
        if (*n > 0 && --*n == 0) return json_array_remove(copy, i), copy;
        if (*n > 0 && (json_is_object(one) || json_is_array(one))) {
            json_t *less = smaller(one, n);
            if (*n == 0) return json_array_set_new(copy, i, less), copy;
            json_decref(less);
        }
        if (*n > 0 && json_is_object(one) && --*n == 0) return json_decref(copy), json_incref(one);
    }
    return copy;
}

#endif
