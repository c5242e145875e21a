/* schema_unevaluated.c: unevaluatedProperties and unevaluatedItems. What is beside them is made
 * flat first; where it then speaks of members in one way, they are what it says of all others
 * (additionalProperties, items). Cases that may hold together are taken apart by which of them do,
 * for each lets other members through. */
#include "core/grammar/schema_merge.h"

#include <string.h>

enum { MAX_DEPTH = 100, MAX_TOGETHER = 5 };
static const char *const both_keys[] = {"unevaluatedProperties", "unevaluatedItems"};

int schema_has_unevaluated(const struct schema_source *from, json_t *schema)
{
    return !schema_draft_is_old(from) &&
           (json_object_get(schema, both_keys[0]) || json_object_get(schema, both_keys[1]));
}

static const char *name_in(json_t *schema)
{
    return both_keys[!json_object_get(schema, both_keys[0])];
}

/* The keyword in the schema or in what it applies to the same value whose parts speak of members
 * but do not evaluate them, or not always; NULL: none. */
static const char *obstacle(struct schema_source *from, json_t *schema, int depth)
{
    static const char *const keys[] = {"not", "if", "dependencies", "dependentSchemas"},
                             *const lists[] = {"allOf", "anyOf", "oneOf"};
    const char *key = schema_reference_key(schema), *found = NULL;
    struct err e;
    json_t *v;
    size_t i;
    if (depth > MAX_DEPTH) return "$ref";
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(schema, keys[i])) return keys[i];
    if (key && (v = schema_reference(from, schema, key, &e))) found = obstacle(from, v, depth + 1);
    for (int k = 0; k < 3; k++)
        json_array_foreach (json_object_get(schema, lists[k]), i, v)
            if (!found) found = obstacle(from, v, depth + 1);
    return found;
}

/* 1: the flat schema evaluates members or items. */
static int evaluates(json_t *flat)
{
    static const char *const keys[] = {
        "properties",  "patternProperties", "additionalProperties", "items",
        "prefixItems", "contains",          "opt4gptq:counted",     "anyOf",
        "oneOf"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(flat, keys[i])) return 1;
    return 0;
}

/* 1: one of the cases does; -1: *e. */
static int any_evaluates(struct schema_source *from, json_t *cases, int depth, struct err *e)
{
    json_t *v, *flat;
    size_t i;
    int any = 0;
    json_array_foreach (cases, i, v) {
        if (schema_flatten_at(from, v, depth + 1, &flat, e)) return -1;
        any |= evaluates(flat);
        json_decref(flat);
    }
    return any;
}

/* What SCHEMA says of what is not evaluated, said of FLAT. */
static void say_of_others(struct schema_source *from, json_t *schema, json_t *flat)
{
    json_t *members = json_object_get(schema, both_keys[0]),
           *items = json_object_get(schema, both_keys[1]), *one, *v;
    const char *draft = json_string_value(json_object_get(from->root, "$schema"));
    int contains_counts = !draft || !strstr(draft, "2019-09");
    size_t i;
    if (members && !json_object_get(flat, "additionalProperties"))
        json_object_set(flat, "additionalProperties", members);
    if (!items || json_object_get(flat, "items")) return;
    json_t *any = json_pack("[O]", items);
    if (contains_counts && (one = json_object_get(flat, "contains"))) json_array_append(any, one);
    if (contains_counts) {
        json_array_extend(any, json_object_get(flat, "opt4gptq:moreContains"));
        json_array_foreach (json_object_get(flat, "opt4gptq:counted"), i, v)
            json_array_append(any, json_object_get(v, "contains"));
    }
    json_object_set_new(flat, "items", json_pack("{s:O}", "anyOf", any));
    json_decref(any);
}

/* The keywords, beside ALL, a list of which each holds; takes ALL. */
static json_t *beside(json_t *schema, json_t *all)
{
    json_t *x = json_pack("{s:o}", "allOf", all), *v;
    for (int i = 0; i < 2; i++)
        if ((v = json_object_get(schema, both_keys[i]))) json_object_set(x, both_keys[i], v);
    return x;
}

/* The cases of FLAT's KEY, each with what is said of what it and FLAT do not evaluate. */
static int take_apart(struct schema_source *from, json_t *schema, json_t *flat, const char *key,
                      json_t *cases, struct err *e)
{
    json_t *of = json_object_get(flat, key), *base = schema_without_cases(flat, key), *v, *w;
    size_t n = json_array_size(of), i, k;
    int rc = 0, is_one = key[0] == 'o';
    if (!is_one && n > MAX_TOGETHER)
        rc = err_set(e, "%s: beside an anyOf of more than %d is not served", name_in(schema),
                     MAX_TOGETHER);
    json_array_foreach (of, i, v)
        for (k = 0; is_one && k < i && !rc; k++) {
            w = json_array_get(of, k);
            json_t *a = json_pack("{s:[O, O]}", "allOf", base, v),
                   *b = json_pack("{s:[O, O]}", "allOf", base, w);
            if (!schema_apart(from, v, w, 0) && !schema_apart(from, a, b, 0))
                rc = err_set(e, "%s: beside a oneOf whose cases may meet is not served",
                             name_in(schema));
            json_decref(a);
            json_decref(b);
        }
    for (unsigned chosen = 1; !rc && chosen < (is_one ? (unsigned)n + 1 : 1u << n); chosen++) {
        json_t *all = json_pack("[O]", base);
        json_array_foreach (of, i, v)
            if (is_one ? i + 1 == chosen : chosen >> i & 1) json_array_append(all, v);
        json_array_append_new(cases, beside(schema, all));
    }
    json_decref(base);
    return rc;
}

/* FLAT with the keywords of SCHEMA. */
static int apply(struct schema_source *from, json_t *schema, json_t *flat, int depth, json_t **out,
                 struct err *e)
{
    static const char *const lists[] = {"anyOf", "oneOf"};
    json_t *x = json_is_object(flat) ? json_copy(flat) : json_object(), *more;
    size_t i;
    if (json_is_false(flat)) return json_decref(x), *out = json_false(), 0;
    for (int k = 0; k < 2; k++) {
        json_t *of = json_object_get(x, lists[k]), *cases;
        int any = any_evaluates(from, of, depth, e);
        json_array_foreach (json_object_get(x, "opt4gptq:moreAnyOf"), i, more)
            if (any == 0 && k == 0) any = any_evaluates(from, more, depth, e);
        if (any < 0) return json_decref(x), -1;
        if (!any) continue;
        cases = json_array();
        int rc = take_apart(from, schema, x, lists[k], cases, e);
        json_decref(x);
        if (rc) return json_decref(cases), -1;
        *out = json_pack("{s:o}", "anyOf", cases);
        return 0;
    }
    say_of_others(from, schema, x);
    *out = x;
    return 0;
}

int schema_unevaluated(struct schema_source *from, json_t *schema, int depth, json_t **out,
                       struct err *e)
{
    json_t *rest = json_copy(schema), *flat;
    const char *key;
    for (int i = 0; i < 2; i++) json_object_del(rest, both_keys[i]);
    int rc = (key = obstacle(from, rest, 0))
                 ? err_set(e, "%s: beside %s is not served", name_in(schema), key)
                 : schema_flatten_at(from, rest, depth + 1, &flat, e);
    json_decref(rest);
    if (rc) return -1;
    rc = apply(from, schema, flat, depth, out, e);
    json_decref(flat);
    return rc;
}
