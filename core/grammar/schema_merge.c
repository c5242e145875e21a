#include "core/grammar/schema_merge.h"

#include "core/grammar/digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REFERENCES = 100, MAX_CASES = 400, MAX_STEPS = 20000, MAX_WORK = 200000000 };
enum { MEMBER = 100, SEARCH = 4000 }; /* the work of copying a member, of a regular expression */

int schema_work(struct schema_source *from, uint64_t more, struct err *e)
{
    from->work += more;
    return from->work > MAX_WORK
               ? err_set(e, "the schema is too large, or refers to itself too often")
               : 0;
}

static const char *const annotations[] = {"title",
                                          "description",
                                          "default",
                                          "examples",
                                          "example",
                                          "$schema",
                                          "$comment",
                                          "$id",
                                          "id",
                                          "$anchor",
                                          "readOnly",
                                          "writeOnly",
                                          "deprecated",
                                          "$defs",
                                          "definitions",
                                          "$vocabulary",
                                          "$dynamicAnchor",
                                          "$recursiveAnchor"};
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
    "opt4gptq:notEnum", "opt4gptq:notPattern", "opt4gptq:morePatterns", "opt4gptq:notFormat",
    "opt4gptq:moreMultiples", "opt4gptq:notMultiple", "opt4gptq:moreContains", "opt4gptq:counted",
    "opt4gptq:some", "opt4gptq:final", "opt4gptq:moreAnyOf"};

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
                 {"opt4gptq:notFormat", SCHEMA_STRING},
                 {"contains", SCHEMA_ARRAY},
                 {"opt4gptq:moreContains", SCHEMA_ARRAY},
                 {"opt4gptq:counted", SCHEMA_ARRAY},
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
                 {"propertyNames", SCHEMA_OBJECT},
                 {"opt4gptq:some", SCHEMA_OBJECT},
                 {"opt4gptq:final", SCHEMA_OBJECT},
                 {"minProperties", SCHEMA_OBJECT},
                 {"maxProperties", SCHEMA_OBJECT},
                 {"minimum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"maximum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"exclusiveMinimum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"exclusiveMaximum", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"multipleOf", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"opt4gptq:moreMultiples", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"opt4gptq:notMultiple", SCHEMA_INTEGER | SCHEMA_FRACTION}};
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
    struct decimal d;
    if (digits_is_long(v)) return digits_of(v, &d) || *d.digits ? SCHEMA_FRACTION : SCHEMA_INTEGER;
    switch (json_typeof(v)) {
    case JSON_OBJECT: return SCHEMA_OBJECT;
    case JSON_ARRAY: return SCHEMA_ARRAY;
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_INTEGER: return SCHEMA_INTEGER;
    case JSON_REAL: return digits_of(v, &d) || *d.digits ? SCHEMA_FRACTION : SCHEMA_INTEGER;
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

json_t *schema_types_as_json(unsigned types)
{
    json_t *j = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((types & names[i].types) == names[i].types) {
            json_array_append_new(j, json_string(names[i].name));
            types &= ~names[i].types;
        }
    return j;
}

/* ---- one schema of several */

/* The schema without KEY. */
static json_t *without(json_t *schema, const char *key)
{
    json_t *x = json_copy(schema);
    json_object_del(x, key);
    return x;
}

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

int schema_lists(json_t *list, const char *text)
{
    json_t *v;
    size_t i;
    json_array_foreach (list, i, v)
        if (!strcmp(json_string_value(v), text)) return 1;
    return 0;
}

json_t *schema_without_cases(json_t *flat, const char *key)
{
    json_t *x = without(flat, key), *more = json_object_get(x, "opt4gptq:moreAnyOf");
    if (strcmp(key, "anyOf") || !json_array_size(more)) return x;
    json_t *rest = json_copy(more);
    json_array_remove(rest, 0);
    json_object_set(x, key, json_array_get(more, 0));
    if (json_array_size(rest)) json_object_set(x, "opt4gptq:moreAnyOf", rest);
    else json_object_del(x, "opt4gptq:moreAnyOf");
    json_decref(rest);
    return x;
}

/* All that a schema says of the value of a member, added to ALL. */
static int say_of(json_t *schema, const char *name, json_t *all, struct err *e)
{
    json_t *own = json_object_get(json_object_get(schema, "properties"), name),
           *other = json_object_get(schema, "additionalProperties"), *v;
    const char *pattern;
    int is_known = own != NULL;
    if (own) json_array_append(all, own);
    if (schema_lists(json_object_get(schema, "opt4gptq:final"), name)) return 0;
    json_object_foreach (json_object_get(schema, "patternProperties"), pattern, v) {
        int finds = schema_finds(pattern, name, e);
        if (finds < 0) return -1;
        if (finds) json_array_append(all, v);
        is_known |= finds;
    }
    if (!is_known && other) json_array_append(all, other);
    return 0;
}

static json_t *all_of_list(json_t *list)
{
    return json_array_size(list) == 1 ? json_incref(json_array_get(list, 0))
           : json_array_size(list)    ? json_pack("{s:O}", "allOf", list)
                                      : json_true();
}

/* Members that either names: what both say of them, patterns included, which is final. */
static int both_named(json_t *a, json_t *b, json_t *all, json_t *final, struct err *e)
{
    json_t *from[2] = {a, b}, *v;
    const char *name;
    for (int i = 0; i < 2; i++)
        json_object_foreach (json_object_get(from[i], "properties"), name, v) {
            json_t *said;
            if (json_object_get(all, name)) continue;
            said = json_array();
            int rc = say_of(a, name, said, e) || say_of(b, name, said, e);
            if (!rc) json_object_set_new(all, name, all_of_list(said));
            json_decref(said);
            if (rc) return -1;
            json_array_append_new(final, json_string(name));
        }
    return 0;
}

/* Members by name, by pattern and all others belong together. */
static int both_members(json_t *out, json_t *a, json_t *b, struct err *e)
{
    json_t *ra = json_object_get(a, "patternProperties"),
           *rb = json_object_get(b, "patternProperties"),
           *oa = json_object_get(a, "additionalProperties"),
           *ob = json_object_get(b, "additionalProperties"), *v;
    json_t *named = json_object(), *patterns = json_object(), *final = json_array();
    const char *name;
    int rc = both_named(a, b, named, final, e);
    const int any = json_is_true(oa) || json_is_true(ob); /* which evaluates all members */
    if (json_is_true(oa)) oa = NULL;
    if (json_is_true(ob)) ob = NULL;
    if (!rc && json_object_size(ra) && json_object_size(rb) && (oa || ob) && !json_equal(ra, rb))
        rc = refuse_both("patternProperties", e);
    int same = json_equal(ra, rb);
    json_object_foreach (ra, name, v) {
        json_t *w = json_object_get(rb, name);
        json_object_set_new(patterns, name,
                            all_of(v, w                              ? w
                                      : same || json_object_size(rb) ? NULL
                                                                     : ob));
    }
    json_object_foreach (rb, name, v)
        if (!json_object_get(patterns, name))
            json_object_set_new(patterns, name, all_of(v, json_object_size(ra) ? NULL : oa));
    if (json_object_size(named)) {
        json_object_set(out, "properties", named);
        if (json_object_size(patterns)) json_object_set(out, "opt4gptq:final", final);
    }
    if (json_object_size(patterns)) json_object_set(out, "patternProperties", patterns);
    if (any || oa || ob) json_object_set_new(out, "additionalProperties", all_of(oa, ob));
    json_decref(named);
    json_decref(patterns);
    json_decref(final);
    return rc;
}

/* What a schema says of item I; NULL: nothing. */
static json_t *item_of(json_t *schema, size_t i)
{
    json_t *own = json_array_get(json_object_get(schema, "prefixItems"), i);
    return own ? own : json_object_get(schema, "items");
}

/* The first items and all others belong together. */
static void both_items(json_t *out, json_t *a, json_t *b)
{
    size_t na = json_array_size(json_object_get(a, "prefixItems")),
           nb = json_array_size(json_object_get(b, "prefixItems")), n = na > nb ? na : nb;
    json_t *ia = json_object_get(a, "items"), *ib = json_object_get(b, "items"),
           *prefix = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(prefix, all_of(item_of(a, i), item_of(b, i)));
    if (n) json_object_set(out, "prefixItems", prefix);
    if (ia || ib) json_object_set_new(out, "items", all_of(ia, ib));
    json_decref(prefix);
}

int schema_equal(json_t *a, json_t *b)
{
    json_t *v, *w;
    const char *key;
    size_t i;
    if (digits_is(a) && digits_is(b)) return digits_order(a, b) == 0;
    if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b)) return 0;
        json_array_foreach (a, i, v)
            if (!schema_equal(v, json_array_get(b, i))) return 0;
        return 1;
    }
    if (!json_is_object(a) || !json_is_object(b)) return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b)) return 0;
    json_object_foreach (a, key, v)
        if (!(w = json_object_get(b, key)) || !schema_equal(v, w)) return 0;
    return 1;
}

json_t *schema_value_set(json_t *values)
{
    json_t *set = json_object(), *v;
    size_t i;
    json_array_foreach (values, i, v) {
        char *text = digits_key(v);
        if (text) json_object_set_new(set, text, json_true());
        free(text);
    }
    return set;
}

int schema_value_in(json_t *set, json_t *v)
{
    char *text = digits_key(v);
    int is_in = text && json_object_get(set, text);
    free(text);
    return is_in;
}

/* What is said behind KEY moves to a list under MORE: all of it holds. */
static int add_more(json_t *out, const char *key, const char *more, json_t *a, json_t *b)
{
    json_t *all = json_array();
    json_array_append(all, b);
    json_array_extend(all, json_object_get(out, more));
    json_object_set_new(out, more, all);
    return json_object_set(out, key, a);
}

/* 1: A is larger; 0: not; -1: *e, one is no number or has too many digits. */
static int is_larger(const char *key, json_t *a, json_t *b, struct err *e)
{
    int order = digits_is(a) && digits_is(b) ? digits_order(a, b) : DIGITS_UNKNOWN;
    if (order == DIGITS_UNKNOWN)
        return err_set(e, "%s: is not a number, or has more digits than are served", key);
    return order > 0;
}

static int both_values(json_t *out, const char *key, json_t *a, json_t *b, struct err *e)
{
    static const char *const lower[] = {"minimum", "minLength", "minItems", "minProperties"},
                             *const upper[] = {"maximum", "maxLength", "maxItems", "maxProperties"};
    json_t *v;
    size_t i, k;
    if (json_equal(a, b)) return json_object_set(out, key, a);
    int is_open = (!strncmp(key, "exclusiveM", 10)) && digits_is(a) && digits_is(b),
        is_lower = is_one_of(key, lower, 4) || (is_open && key[10] == 'i');
    if (is_lower || is_one_of(key, upper, 4) || is_open) {
        int larger = is_larger(key, a, b, e);
        return larger < 0 ? -1 : json_object_set(out, key, larger == is_lower ? a : b);
    }
    if (!strcmp(key, "enum")) {
        json_t *common = json_array();
        json_t *of_b = schema_value_set(b);
        json_array_foreach (a, i, v)
            if (schema_value_in(of_b, v)) json_array_append(common, v);
        json_decref(of_b);
        return json_object_set_new(out, key, common);
    }
    if (!strcmp(key, "required")) {
        json_t *all = json_copy(a);
        json_array_extend(all, b);
        return json_object_set_new(out, key, all);
    }
    if (!strcmp(key, "anyOf")) return add_more(out, key, "opt4gptq:moreAnyOf", a, b);
    if (!strcmp(key, "uniqueItems"))
        return json_object_set_new(out, key, json_boolean(json_is_true(a) || json_is_true(b)));
    if (!strncmp(key, "opt4gptq:", 9)) { /* lists, of which all hold */
        json_t *all = json_copy(a);
        json_array_foreach (b, i, v) {
            for (k = 0; k < json_array_size(all) && !json_equal(json_array_get(all, k), v);) k++;
            if (k == json_array_size(all)) json_array_append(all, v);
        }
        return json_object_set_new(out, key, all);
    }
    if (!strcmp(key, "pattern")) return add_more(out, key, "opt4gptq:morePatterns", a, b);
    if (!strcmp(key, "multipleOf")) return add_more(out, key, "opt4gptq:moreMultiples", a, b);
    if (!strcmp(key, "contains")) return add_more(out, key, "opt4gptq:moreContains", a, b);
    if (!strcmp(key, "propertyNames")) return json_object_set_new(out, key, all_of(a, b));
    if (!strcmp(key, "oneOf")) {
        if (json_array_size(a) * json_array_size(b) > MAX_CASES) return refuse_both(key, e);
        return json_object_set_new(out, key, both_lists(a, b));
    }
    return refuse_both(key, e);
}

/* Keywords that are merged together with others. */
static int is_of_a_group(const char *key)
{
    static const char *const groups[] = {
        "properties", "patternProperties", "additionalProperties", "opt4gptq:final",
        "items",      "prefixItems"};
    return is_one_of(key, groups, sizeof groups / sizeof *groups);
}

/* About what it takes to merge A with another one: its members, each against its patterns. */
static uint64_t work_of(json_t *a, json_t *b)
{
    static const char *const lists[] = {
        "properties", "patternProperties", "required", "enum", "prefixItems", "anyOf", "oneOf"};
    uint64_t n = json_object_size(a) + json_object_size(b), named = 0, patterns = 0;
    json_t *of[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
            json_t *v = json_object_get(of[i], lists[k]);
            n += json_object_size(v) + json_array_size(v);
        }
        named += json_object_size(json_object_get(of[i], "properties"));
        patterns += json_object_size(json_object_get(of[i], "patternProperties"));
    }
    return MEMBER * n + SEARCH * named * patterns;
}

int schema_both(struct schema_source *from, json_t *a, json_t *b, json_t **out, struct err *e)
{
    json_t *x, *v;
    const char *key;
    int rc = 0;
    if (schema_work(from, work_of(a, b), e)) return -1;
    if (json_is_false(a) || json_is_false(b)) return *out = json_false(), 0;
    if (json_is_true(a)) return *out = json_incref(b), 0;
    if (json_is_true(b)) return *out = json_incref(a), 0;
    x = json_object();
    json_object_foreach (a, key, v)
        if (!schema_is_silent(key) && !is_of_a_group(key) && !json_object_get(b, key))
            json_object_set(x, key, v);
    json_object_foreach (b, key, v) {
        json_t *other = json_object_get(a, key);
        if (schema_is_silent(key) || is_of_a_group(key)) continue;
        if (!other && !strncmp(key, "opt4gptq:more", 13) && json_object_get(x, key))
            rc |= json_array_extend(json_object_get(x, key), v);
        else if (!other) rc |= json_object_set(x, key, v);
        else if (!strcmp(key, "type")) {
            unsigned of_a, of_b;
            rc |= schema_types(a, &of_a, e) || schema_types(b, &of_b, e) ? -1 : 0;
            if (!rc) json_object_set_new(x, key, schema_types_as_json(of_a & of_b));
        } else {
            rc |= both_values(x, key, other, v, e);
        }
        if (rc) break;
    }
    if (!rc) rc = both_members(x, a, b, e);
    if (!rc) both_items(x, a, b);
    if (!rc) return *out = x, 0;
    json_decref(x);
    return -1;
}

/* A bound that is open by a flag beside it (draft 4) as the number that later drafts have. */
static void open_bound(json_t *x, const char *closed, const char *open)
{
    json_t *flag = json_object_get(x, open), *bound = json_object_get(x, closed);
    int is_open = json_is_true(flag) && digits_is(bound);
    if (!json_is_boolean(flag)) return;
    if (is_open) json_object_set(x, open, bound);
    else json_object_del(x, open);
    if (is_open) json_object_del(x, closed);
}

/* `contains` with its bounds moves to a list, all of which holds; bounds alone say nothing. */
static void count_contained(struct schema_source *from, json_t *x)
{
    static const char *const keys[] = {"contains", "minContains", "maxContains"};
    json_t *one = json_object(), *v;
    for (int i = 0; i < 3; i++)
        if ((v = json_object_get(x, keys[i]))) json_object_set(one, keys[i], v);
    if (json_object_get(x, "contains") && !schema_draft_is_old(from)) {
        json_object_set_new(x, "opt4gptq:counted", json_pack("[O]", one));
        json_object_del(x, "contains");
    }
    json_object_del(x, "minContains");
    json_object_del(x, "maxContains");
    json_decref(one);
}

/* Earlier drafts' spellings as the latest one's, and counts of what is contained; a new
 * reference. */
static json_t *as_latest(struct schema_source *from, json_t *schema)
{
    json_t *items = json_object_get(schema, "items");
    int is_counted = json_object_get(schema, "minContains") ||
                     json_object_get(schema, "maxContains"),
        is_old = json_is_array(items) || json_object_get(schema, "additionalItems") ||
                 json_is_boolean(json_object_get(schema, "exclusiveMinimum")) ||
                 json_is_boolean(json_object_get(schema, "exclusiveMaximum"));
    if (!is_old && !is_counted) return json_incref(schema);
    json_t *x = json_copy(schema), *rest = json_object_get(schema, "additionalItems");
    open_bound(x, "minimum", "exclusiveMinimum");
    open_bound(x, "maximum", "exclusiveMaximum");
    if (json_is_array(items)) {
        if (json_array_size(items)) json_object_set(x, "prefixItems", items);
        json_object_del(x, "items");
        if (rest) json_object_set(x, "items", rest);
    }
    json_object_del(x, "additionalItems");
    if (is_counted) count_contained(from, x);
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

static int negate(struct schema_source *from, json_t *schema, int depth, json_t **out,
                  struct err *e)
{
    json_t *flat, *v, *cases;
    const char *key;
    int rc = 0;
    if (schema_flatten_at(from, schema, depth + 1, &flat, e)) return -1;
    if (json_is_boolean(flat)) {
        *out = json_boolean(json_is_false(flat));
        json_decref(flat);
        return 0;
    }
    cases = json_array();
    json_object_foreach (flat, key, v)
        if (!rc && !schema_is_silent(key)) rc = schema_negate_keyword(key, v, flat, cases, e);
    json_decref(flat);
    if (!rc && !json_array_size(cases)) *out = json_false();
    else if (!rc && json_array_size(cases) == 1) *out = json_incref(json_array_get(cases, 0));
    else if (!rc) *out = json_pack("{s:O}", "anyOf", cases);
    json_decref(cases);
    return rc;
}

/* Keywords that others can say are added to ALL, an allOf, and taken from X. */
static int rewrite(struct schema_source *from, json_t *x, int depth, json_t *all, struct err *e)
{
    static const char *const dependent[] = {"dependencies", "dependentRequired",
                                            "dependentSchemas"};
    json_t *v = json_object_get(x, "not"), *no;
    const char *name;
    if (v) {
        if (negate(from, v, depth, &no, e)) return -1;
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

/* Makes one of the schemas PART [n], which it gives back: halves, so that each is copied a few
 * times only. NULL among them: an error came before. */
static int merge(struct schema_source *from, json_t **part, size_t n, json_t **out, struct err *e)
{
    json_t *a = NULL, *b = NULL;
    enum { FEW = 16 };
    if (n <= FEW) {
        int rc = 0;
        *out = part[0];
        part[0] = NULL;
        for (size_t i = 1; i < n && !rc; i++) {
            rc = schema_both(from, *out, part[i], &a, e);
            json_decref(*out);
            *out = rc ? NULL : a;
        }
        return rc;
    }
    int rc = merge(from, part, n / 2, &a, e);
    if (!rc) rc = merge(from, part + n / 2, n - n / 2, &b, e);
    if (!rc) rc = schema_both(from, a, b, out, e);
    json_decref(a);
    json_decref(b);
    return rc;
}

/* A schema that has allOf. */
static int flatten_all(struct schema_source *from, json_t *schema, json_t *all, int depth,
                       json_t **out, struct err *e)
{
    size_t n = json_array_size(all) + 1, i;
    json_t **part = calloc(n, sizeof *part), *base = without(schema, "allOf"), *one;
    int rc = part ? schema_flatten_at(from, base, depth + 1, &part[0], e) : err_memory(e);
    json_decref(base);
    json_array_foreach (all, i, one)
        if (!rc) rc = schema_flatten_at(from, one, depth + 1, &part[i + 1], e);
    if (!rc) rc = merge(from, part, n, out, e);
    for (i = 0; part && i < n; i++) json_decref(part[i]);
    free(part);
    return rc;
}

int schema_flatten_at(struct schema_source *from, json_t *schema, int depth, json_t **out,
                      struct err *e)
{
    if (json_is_boolean(schema)) return *out = json_incref(schema), 0;
    if (!json_is_object(schema)) return err_set(e, "a schema is an object, true or false");
    if (depth > MAX_REFERENCES) return err_set(e, "$ref: refers to itself");
    if (from->n_steps++ >= MAX_STEPS)
        return err_set(e, "the schema is too large, or refers to itself too often");
    json_t *all = json_object_get(schema, "allOf"), *value = json_object_get(schema, "const");
    if (schema_has_unevaluated(from, schema))
        return schema_unevaluated(from, schema, depth, out, e);
    if (schema_reference_key(schema)) {
        const char *key = schema_reference_key(schema);
        json_t *target = schema_reference(from, schema, key, e);
        if (!target) return -1;
        json_t *rest = without(schema, key), *x, *y = NULL;
        int alone = schema_draft_is_old(from); /* what is beside it counts from 2019-09 on */
        int rc = schema_flatten_at(from, target, depth + 1, &x, e);
        if (!rc && !alone && says_something(rest)) {
            rc = schema_flatten_at(from, rest, depth + 1, &y, e);
            if (!rc) rc = schema_both(from, x, y, out, e);
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
        int rc = schema_flatten_at(from, x, depth + 1, &flat, e);
        if (!rc) {
            rc = schema_both(from, flat, y, out, e);
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
        int rc = rewrite(from, x, depth, more, e);
        json_object_set(x, "allOf", more);
        if (!rc) rc = schema_flatten_at(from, x, depth + 1, out, e);
        json_decref(more);
        json_decref(x);
        return rc;
    }
    if (!all) return *out = as_latest(from, schema), 0;
    if (!json_is_array(all)) return err_set(e, "allOf: is not an array");
    return flatten_all(from, schema, all, depth, out, e);
}

int schema_flatten(struct schema_source *from, json_t *schema, json_t **out, struct err *e)
{
    return schema_flatten_at(from, schema, 0, out, e);
}

/* ---- schemas told apart */

static int requires(json_t *schema, const char *name)
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

static int flat_apart(struct schema_source *from, json_t *a, json_t *b, int depth)
{
    struct err e;
    unsigned of_a, of_b;
    json_t *va = json_object_get(a, "enum"), *vb = json_object_get(b, "enum");
    json_t *v;
    size_t i;
    if (json_is_false(a) || json_is_false(b)) return 1;
    if (!json_is_object(a) || !json_is_object(b)) return 0;
    if (schema_types(a, &of_a, &e) || schema_types(b, &of_b, &e)) return 0;
    if (!(of_a & of_b)) return 1;
    if (va && vb) {
        int common = 0;
        json_t *values = schema_value_set(vb);
        json_array_foreach (va, i, v) common |= schema_value_in(values, v);
        json_decref(values);
        if (!common) return 1;
    }
    if ((of_a & of_b) != SCHEMA_OBJECT) return 0;
    json_array_foreach (json_object_get(a, "required"), i, v) {
        const char *name = json_string_value(v);
        if (!name) continue;
        if (forbids(b, name)) return 1;
        if (requires(b, name) &&
            schema_apart(from, json_object_get(json_object_get(a, "properties"), name),
                         json_object_get(json_object_get(b, "properties"), name), depth + 1))
            return 1;
    }
    json_array_foreach (json_object_get(b, "required"), i, v)
        if (json_is_string(v) && forbids(a, json_string_value(v))) return 1;
    return 0;
}

int schema_apart(struct schema_source *from, json_t *a, json_t *b, int depth)
{
    struct err e;
    json_t *x = NULL, *y = NULL;
    if (!a || !b || depth > 4) return 0;
    int apart = !schema_flatten(from, a, &x, &e) && !schema_flatten(from, b, &y, &e) &&
                flat_apart(from, x, y, depth);
    json_decref(x);
    json_decref(y);
    return apart;
}
