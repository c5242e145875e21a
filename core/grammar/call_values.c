#include "core/grammar/call_values.h"

#include <string.h>

/* 1: the flat schema says nothing of these types but that they may come, and perhaps EXCEPT. */
static int says_nothing_of(json_t *flat, unsigned types, const char *except)
{
    const char *key;
    json_t *v;
    json_object_foreach (flat, key, v)
        if (strcmp(key, "type") && strcmp(key, except) && !schema_is_silent(key) &&
            schema_is_about(key) & types)
            return 0;
    return 1;
}

/* Without cases: strings of which nothing is said, or a list of strings. */
static int of_one(json_t *flat, struct call_value *v, struct err *e)
{
    unsigned types = json_is_false(flat) ? 0 : SCHEMA_ALL;
    if (json_is_object(flat) && schema_types(flat, &types, e)) return -1;
    *v = (struct call_value){.others = types};
    if (!(types & SCHEMA_STRING)) return 0;
    int is_list = types == SCHEMA_STRING && json_object_get(flat, "enum");
    if (!says_nothing_of(flat, types, is_list ? "enum" : "")) return 0;
    v->has_text = 1;
    v->is_any_text = !is_list;
    v->others &= ~(unsigned)SCHEMA_STRING;
    return 0;
}

/* One of several cases that stand alone; *is_quoted: strings need their quotes. */
static int of_case(struct schema_source *from, json_t *schema, int is_one_of, struct call_value *v,
                   int *is_quoted, struct err *e)
{
    json_t *flat;
    struct call_value x = {0};
    int rc = 0;
    if (schema_flatten(from, schema, &flat, e)) return -1;
    if (json_object_get(flat, "anyOf") || json_object_get(flat, "oneOf")) {
        x.others = SCHEMA_ALL;
        *is_quoted = 1;
    } else {
        rc = of_one(flat, &x, e);
    }
    *is_quoted |= (x.others & SCHEMA_STRING) || !says_nothing_of(flat, x.others, "") ||
                  (is_one_of && ((x.others & v->others) || (x.has_text && v->has_text)));
    v->has_text |= x.has_text;
    v->is_any_text |= x.is_any_text;
    v->others |= x.others;
    json_decref(flat);
    return rc;
}

int call_value_of(json_t *root, json_t *schema, struct call_value *v, struct err *e)
{
    json_t *flat, *cases, *one;
    const char *key;
    size_t i;
    struct schema_source from = {.root = root};
    int rc = 0, is_quoted = 0;
    if (schema_flatten(&from, schema, &flat, e)) return -1;
    int is_one_of = !json_object_get(flat, "anyOf");
    cases = json_object_get(flat, is_one_of ? "oneOf" : "anyOf");
    *v = (struct call_value){0};
    if (!cases) rc = of_one(flat, v, e);
    json_array_foreach (cases, i, one)
        if (!rc) rc = of_case(&from, one, is_one_of, v, &is_quoted, e);
    json_object_foreach (flat, key, one)
        if (cases && one != cases && !schema_is_silent(key)) is_quoted = 1;
    /* one of some texts, or what may hold that which ends a value */
    if (!v->is_any_text && v->others & (SCHEMA_OBJECT | SCHEMA_ARRAY)) is_quoted = 1;
    if (is_quoted && v->has_text) *v = (struct call_value){.others = v->others | SCHEMA_STRING};
    json_decref(flat);
    return rc;
}

json_t *call_value_schema(json_t *parameters, const char *key)
{
    json_t *v = json_object_get(json_object_get(parameters, "properties"), key);
    if (!v) v = json_object_get(parameters, "additionalProperties");
    return v ? v : json_true();
}

int call_value_flatten(json_t *parameters, json_t **flat, struct err *e)
{
    struct schema_source from = {.root = parameters};
    if (parameters && !json_is_null(parameters)) return schema_flatten(&from, parameters, flat, e);
    *flat = json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties",
                      0);
    return *flat ? 0 : err_memory(e);
}
