#include "core/grammar/schema.h"

#include "core/grammar/json_text.h"
#include "core/grammar/notation.h"
#include "core/grammar/schema_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_RULES = 20000, MAX_REPEAT = 10000, MAX_UNIQUE = 64 };

int schema_refuse(struct schema *s, const char *keyword, const char *what)
{
    return err_set(s->e, "%s: %s", keyword, what);
}

/* ---- numbers */

static int bound_of(struct schema *s, json_t *flat, const char *key, const char *open_key,
                    int is_lower, int *has, int *is_open, int64_t *value)
{
    json_t *closed = json_object_get(flat, key), *open = json_object_get(flat, open_key);
    double x = 0;
    *has = *is_open = 0;
    if (json_is_number(closed)) {
        *has = 1;
        x = json_number_value(closed);
        *is_open = json_is_true(open); /* draft 4 */
    } else if (closed) {
        return schema_refuse(s, key, "is not a number");
    }
    if (json_is_number(open)) {
        double y = json_number_value(open);
        if (!*has || (is_lower ? y >= x : y <= x)) *has = *is_open = 1, x = y;
    }
    if (!*has) return 0;
    if (x < -1e15 || x > 1e15) { /* beyond what the digits below count: of no use, or impossible */
        if (is_lower ? x < 0 : x > 0) return *has = 0;
        return schema_refuse(s, key, "beyond 10^15 is not served");
    }
    if (x != (double)(int64_t)x)
        return schema_refuse(s, key, "a bound that is not whole is not served");
    *value = (int64_t)x;
    return 0;
}

static int number(struct schema *s, json_t *flat, unsigned types, net_expr *x)
{
    struct json_bounds b = {.whole = !(types & SCHEMA_FRACTION)};
    json_t *step = json_object_get(flat, "multipleOf");
    if (!(types & SCHEMA_INTEGER))
        return schema_refuse(s, "not", "of integers alone is not served");
    if (step) {
        if (!json_is_number(step) || json_number_value(step) != 1)
            return schema_refuse(s, "multipleOf", "is served as 1 only");
        b.whole = 1;
    }
    if (bound_of(s, flat, "minimum", "exclusiveMinimum", 1, &b.has_low, &b.low_open, &b.low) ||
        bound_of(s, flat, "maximum", "exclusiveMaximum", 0, &b.has_high, &b.high_open, &b.high))
        return -1;
    *x = !b.has_low && !b.has_high && !b.whole ? net_call(s->net, net_named(s->net, "number"))
                                               : json_number_between(s->net, &b);
    return 0;
}

/* ---- arrays */

/* Items of few values, each at most once. */
static int unique_items(struct schema *s, json_t *flat, json_t *items, int min, int max,
                        net_expr *x)
{
    json_t *values, *one, *item;
    unsigned types;
    size_t i;
    int rc;
    if (schema_flatten(s->root, items, &item, s->e)) return -1;
    values = json_object_get(item, "enum");
    if (json_object_get(flat, "prefixItems") || !json_is_array(values) ||
        json_array_size(values) > MAX_UNIQUE || min > 1 || max != NET_NO_LIMIT) {
        json_decref(item);
        return schema_refuse(s, "uniqueItems", "is served for items of an enum alone");
    }
    net_expr first = NET_FAILED, next = NET_FAILED;
    rc = schema_types(item, &types, s->e);
    json_array_foreach (values, i, one) {
        if (!(schema_type_of(one) & types)) continue;
        net_expr value = then(s, json_value_of(s->net, one), ws(s)),
                 mark = net_mark(s->net, (int)i);
        first = or_else(s, first, then(s, mark, value));
        next = or_else(s, next, then(s, mark, then(s, then(s, text(s, ","), ws(s)), value)));
    }
    json_decref(item);
    if (rc) return -1;
    net_expr all = first == NET_FAILED ? net_empty(s->net)
                                       : then(s, first, net_repeat(s->net, next, 0, NET_NO_LIMIT));
    if (min == 0) all = net_repeat(s->net, all, 0, 1);
    *x = then(s, then(s, then(s, text(s, "["), ws(s)), all), text(s, "]"));
    return 0;
}

static int array(struct schema *s, json_t *flat, net_expr *x)
{
    json_t *prefix = json_object_get(flat, "prefixItems"), *items = json_object_get(flat, "items"),
           *one;
    int min = 0, max = NET_NO_LIMIT, n = 0;
    uint32_t rule, rest_rule = net_named(s->net, "value");
    size_t i;
    if (schema_length(s, flat, "minItems", &min) || schema_length(s, flat, "maxItems", &max))
        return -1;
    if (json_is_array(items)) { /* drafts before 2020-12 */
        prefix = items;
        items = json_object_get(flat, "additionalItems");
    }
    if (max != NET_NO_LIMIT && max < min) return *x = net_chars(s->net, NULL, 0), 0;
    if (json_is_true(json_object_get(flat, "uniqueItems")) && max != 0 && max != 1)
        return unique_items(s, flat, items ? items : json_true(), min, max, x);
    if (items && schema_rule(s, items, "items", &rest_rule)) return -1;
    net_expr comma = then(s, text(s, ","), ws(s)),
             rest = then(s, net_call(s->net, rest_rule), ws(s)), tail, body;
    n = (int)json_array_size(prefix);
    int more = min > n ? min - n : 0, most = max == NET_NO_LIMIT ? NET_NO_LIMIT
                                             : max > n           ? max - n
                                                                 : 0;
    if (n == 0) {
        if (most == 0) body = net_empty(s->net);
        else {
            tail = net_repeat(s->net, then(s, comma, rest), more ? more - 1 : 0,
                              most == NET_NO_LIMIT ? most : most - 1);
            body = net_repeat(s->net, then(s, rest, tail), more ? 1 : 0, 1);
        }
    } else {
        net_expr *item = calloc((size_t)n, sizeof *item);
        if (!item) return err_memory(s->e);
        json_array_foreach (prefix, i, one) {
            char name[32];
            snprintf(name, sizeof name, "items/%zu", i);
            if (schema_rule(s, one, name, &rule)) {
                free(item);
                return -1;
            }
            item[i] = then(s, net_call(s->net, rule), ws(s));
        }
        body = net_repeat(s->net, then(s, comma, rest), more, most);
        for (int k = n - 1; k >= 0; k--) {
            if (max != NET_NO_LIMIT && k >= max) {
                body = net_empty(s->net);
                continue;
            }
            body = then(s, k ? then(s, comma, item[k]) : item[k], body);
            if (k >= min) body = net_repeat(s->net, body, 0, 1);
        }
        free(item);
    }
    *x = then(s, then(s, then(s, text(s, "["), ws(s)), body), text(s, "]"));
    return 0;
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
                                         "additionalItems",
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

/* 1: a value of an enum is what the rest of the schema asks for; 0: not; -1: that is not served. */
static int fits(struct schema *s, json_t *flat, json_t *v)
{
    unsigned of = schema_type_of(v);
    const char *key;
    json_t *c;
    int ok = 1;
    json_object_foreach (flat, key, c) {
        double bound = json_number_value(c), x = json_number_value(v);
        if (!strcmp(key, "type") || !strcmp(key, "enum") || !strcmp(key, "opt4gptq:notEnum") ||
            !(schema_is_about(key) & of))
            continue;
        size_t length = 0, i = 0;
        for (const char *p = json_string_value(v); p && *p; p++) length += (*p & 0xc0) != 0x80;
        if (!strcmp(key, "minLength")) ok &= (double)length >= bound;
        else if (!strcmp(key, "maxLength")) ok &= (double)length <= bound;
        else if (!strcmp(key, "minItems")) ok &= (double)json_array_size(v) >= bound;
        else if (!strcmp(key, "maxItems")) ok &= (double)json_array_size(v) <= bound;
        else if (!strcmp(key, "minimum")) ok &= x >= bound;
        else if (!strcmp(key, "maximum")) ok &= x <= bound;
        else if (!strcmp(key, "exclusiveMinimum") && json_is_number(c)) ok &= x > bound;
        else if (!strcmp(key, "exclusiveMaximum") && json_is_number(c)) ok &= x < bound;
        else if (!strcmp(key, "pattern")) {
            int finds = schema_finds(s, json_string_value(c), json_string_value(v));
            if (finds < 0) return -1;
            ok &= finds;
        } else if (!strcmp(key, "required") && json_is_array(c)) {
            json_t *name;
            json_array_foreach (c, i, name)
                ok &= json_object_get(v, json_string_value(name)) != NULL;
        } else {
            schema_refuse(s, key, "beside enum or const is not served");
            return -1;
        }
    }
    return ok;
}

/* Values of an enum: all that "type" lets through, where nothing else is said about them. */
static int values_of(struct schema *s, json_t *flat, unsigned types, net_expr *x)
{
    json_t *v, *no, *values = json_object_get(flat, "enum");
    size_t i, k;
    if (!json_is_array(values)) return schema_refuse(s, "enum", "is not an array");
    *x = NET_FAILED;
    json_array_foreach (values, i, v) {
        int is_out = 0;
        json_array_foreach (json_object_get(flat, "opt4gptq:notEnum"), k, no)
            is_out |= json_equal(v, no);
        if (is_out || !(schema_type_of(v) & types)) continue;
        int rc = fits(s, flat, v);
        if (rc < 0) return -1;
        if (rc) *x = or_else(s, *x, json_value_of(s->net, v));
    }
    if (*x == NET_FAILED) *x = net_chars(s->net, NULL, 0);
    return 0;
}

static int cases(struct schema *s, json_t *flat, const char *key, net_expr *x)
{
    json_t *all = json_object_get(flat, key), *base = json_copy(flat), *one, *other;
    size_t i, k;
    int rc = 0, overlap = 0;
    json_object_del(base, key);
    *x = NET_FAILED;
    if (!json_is_array(all)) rc = schema_refuse(s, key, "is not an array");
    if (!rc && key[0] == 'o')
        json_array_foreach (all, i, one)
            for (k = 0; k < i && !overlap; k++) {
                other = json_array_get(all, k);
                json_t *a = json_pack("{s:[O, O]}", "allOf", base, one),
                       *b = json_pack("{s:[O, O]}", "allOf", base, other);
                int apart = schema_apart(s->root, one, other, 0) || schema_apart(s->root, a, b, 0);
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
        if (!rc) rc = schema_flatten(s->root, alone ? alone : one, &own, s->e);
        if (!rc) rc = schema_both(base, own, &both, s->e);
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

static int value(struct schema *s, json_t *flat, net_expr *x)
{
    unsigned types;
    net_expr y;
    json_t *no;
    size_t i;
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
    if (json_object_get(flat, "enum")) return values_of(s, flat, types, x);
    json_array_foreach (json_object_get(flat, "opt4gptq:notEnum"), i, no) {
        unsigned of = schema_type_of(no) & types;
        if (of & SCHEMA_NULL) types &= ~(unsigned)SCHEMA_NULL;
        else if (of && of != SCHEMA_STRING)
            return schema_refuse(s, "not", "of an enum is served for strings and null");
    }
    if (types & SCHEMA_NULL) *x = or_else(s, *x, text(s, "null"));
    if (types & SCHEMA_BOOLEAN)
        *x = or_else(s, *x, net_either(s->net, text(s, "true"), text(s, "false")));
    if (types & SCHEMA_STRING) {
        if (schema_string(s, flat, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (types & (SCHEMA_INTEGER | SCHEMA_FRACTION)) {
        if (number(s, flat, types, &y)) return -1;
        *x = or_else(s, *x, y);
    }
    if (types & SCHEMA_ARRAY) {
        if (array(s, flat, &y)) return -1;
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
    if (schema_flatten(s->root, sub, &flat, s->e)) return err_prefix(s->e, "%s", name);
    char *key = json_dumps(flat, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!key) {
        json_decref(flat);
        return err_memory(s->e);
    }
    json_t *known = json_object_get(s->rules, key);
    int rc = 0;
    if (known) {
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

int notation_schema(struct net *n, const char *source, size_t bytes, int ordered, int compact,
                    uint32_t *root, struct err *e)
{
    struct schema s = {.net = n, .ordered = ordered, .e = e};
    uint32_t object;
    if (notation_json(n, compact, &object, e)) return -1;
    json_forget();
    if (!(s.root = json_read(source, bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL, e))) return -1;
    s.rules = json_object();
    int rc = schema_rule(&s, s.root, "#", root);
    json_decref(s.root);
    json_decref(s.rules);
    struct err memory;
    if (!json_check(&memory)) return rc;
    *e = memory; /* whatever came of it: a schema was not made as it should be */
    return -1;
}
