/* schema_not.c: what keywords of a schema do not allow, as schemas of what they leave: some keyword
 * fails. Schemas that are made here have keywords of their own, "opt4gptq:..". */
#include "core/grammar/schema_merge.h"

#include "core/grammar/digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

int schema_finds(const char *pattern, const char *text, struct err *e)
{
    int code = 0, found;
    size_t at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &code, &at,
                                  NULL);
    pcre2_match_data *data = c ? pcre2_match_data_create_from_pattern(c, NULL) : NULL;
    found = data ? pcre2_match(c, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL)
            : c || code == PCRE2_ERROR_HEAP_FAILED ? PCRE2_ERROR_NOMEMORY
                                                   : PCRE2_ERROR_BADDATA;
    pcre2_match_data_free(data);
    pcre2_code_free(c);
    if (found >= 0 || found == PCRE2_ERROR_NOMATCH) return found >= 0;
    if (found == PCRE2_ERROR_NOMEMORY || found == PCRE2_ERROR_HEAPLIMIT) return err_memory(e);
    return err_set(e, "pattern: '%.60s' is no regular expression, or too hard to judge", pattern);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Bytes of the characters that two texts, which agree up to FROM, begin with. */
static size_t in_common(const char *a, const char *b, size_t from)
{
    size_t at = from;
    while (a[at] && a[at] == b[at]) at++;
    while (at > from && ((a[at] & 0xc0) == 0x80 || (b[at] & 0xc0) == 0x80)) at--;
    return at;
}

/* What is left of sorted texts [n] from byte AT on, up to which they agree. The characters with
 * which several go on stand once, so that a text is read along few ways. Returns the end. */
static char *put_some(char *p, const char *const *text, size_t n, size_t at, int depth)
{
    enum { MAX_DEPTH = 100 }; /* beyond, one by one */
    size_t common = in_common(text[0], text[n - 1], at);
    for (const char *t = text[0] + at; t < text[0] + common; t++) {
        if (strchr("^$\\.*+?()[]{}|/-", *t)) *p++ = '\\';
        *p++ = *t;
    }
    if (n == 1) return p;
    p += sprintf(p, "(?:");
    for (size_t i = 0, k; i < n; i = k) {
        k = i + 1;
        while (k < n && depth < MAX_DEPTH && in_common(text[i], text[k], common) > common) k++;
        if (i) *p++ = '|';
        p = put_some(p, text + i, k - i, common, depth + 1);
    }
    *p++ = ')';
    return p;
}

/* A regular expression of exactly these texts, at least one; NULL: memory, or one is no text. */
static json_t *one_of(json_t *texts)
{
    size_t bytes = 16, i, n = json_array_size(texts);
    json_t *v, *j = NULL;
    const char **text = malloc(n * sizeof *text);
    json_array_foreach (texts, i, v) {
        bytes += 2 * json_string_length(v) + 8;
        if (text) text[i] = json_is_string(v) ? json_string_value(v) : "";
    }
    char *all = malloc(bytes);
    if (all && text) {
        qsort(text, n, sizeof *text, by_bytes);
        strcpy(put_some(all + sprintf(all, "^(?:"), text, n, 0, 0), ")$");
        j = json_string(all);
    }
    free(text);
    free(all);
    return j;
}

/* The strings of an enum as a pattern; false: there are none. */
static json_t *texts_of(json_t *values)
{
    json_t *texts = json_array(), *v, *pattern;
    size_t i;
    json_array_foreach (values, i, v)
        if (json_is_string(v)) json_array_append(texts, v);
    pattern = json_array_size(texts) ? one_of(texts) : json_false();
    json_decref(texts);
    return pattern;
}

/* What a keyword asks of names is added to ALL; 0: that is not known. */
static int add_name_pattern(const char *key, json_t *v, json_t *all)
{
    char length[64];
    size_t i;
    json_t *one;
    if (!strcmp(key, "pattern") && json_is_string(v)) return !json_array_append(all, v);
    if (!strcmp(key, "enum") && json_is_array(v)) return !json_array_append_new(all, texts_of(v));
    if (!strcmp(key, "const")) {
        json_t *values = json_pack("[O]", v);
        json_array_append_new(all, texts_of(values));
        json_decref(values);
        return 1;
    }
    if (!strcmp(key, "type")) { /* names are strings */
        int is_string = json_is_string(v) && !strcmp(json_string_value(v), "string");
        json_array_foreach (v, i, one)
            is_string |= json_is_string(one) && !strcmp(json_string_value(one), "string");
        if (!is_string) json_array_append_new(all, json_false());
        return 1;
    }
    if ((!strcmp(key, "minLength") || !strcmp(key, "maxLength")) && json_is_integer(v)) {
        snprintf(length, sizeof length, key[1] == 'i' ? "^[\\s\\S]{%lld,}$" : "^[\\s\\S]{0,%lld}$",
                 (long long)json_integer_value(v));
        return !json_array_append_new(all, json_string(length));
    }
    if (strcmp(key, "allOf") || !json_is_array(v)) return schema_is_silent(key);
    json_array_foreach (v, i, one) {
        json_t *more = schema_name_patterns(one);
        if (!more) return 0;
        json_array_extend(all, more);
        json_decref(more);
    }
    return 1;
}

json_t *schema_name_patterns(json_t *schema)
{
    json_t *all = json_array(), *v;
    const char *key;
    int is_known = json_is_object(schema) || json_is_boolean(schema);
    if (json_is_false(schema)) json_array_append_new(all, json_false());
    json_object_foreach (schema, key, v) is_known &= add_name_pattern(key, v, all);
    if (is_known) return all;
    json_decref(all);
    return NULL;
}

/* A case for each of LIST: of this TYPE, and KEY says so of it (AS_LIST: as a list of one). */
static void add_cases(json_t *cases, json_t *list, const char *type, const char *key, int as_list)
{
    json_t *v;
    size_t i;
    json_array_foreach (list, i, v) {
        json_t *of = as_list ? json_pack("[O]", v) : json_incref(v);
        json_array_append_new(cases, json_pack("{s:s, s:o}", "type", type, key, of));
    }
}

static int add_case(json_t *cases, const char *type, const char *key, json_t *of)
{
    return json_array_append_new(cases, json_pack("{s:s, s:o}", "type", type, key, of));
}

static json_t *names_of(json_t *object)
{
    json_t *names = json_array(), *v;
    const char *name;
    json_object_foreach (object, name, v) json_array_append_new(names, json_string(name));
    return names;
}

/* A member of which a schema of names or of values does not hold: "opt4gptq:some" has a list of
 * {"names": none of them, "yes": patterns that find something in its name, "no": patterns that do
 * not, "value": a schema of its value}. */
static int negate_members(const char *key, json_t *v, json_t *flat, json_t *cases, struct err *e)
{
    json_t *one, *patterns = json_object_get(flat, "patternProperties"),
                 *final = json_object_get(flat, "opt4gptq:final");
    const char *name;
    if (!strcmp(key, "additionalProperties")) {
        one = json_pack("[{s:o, s:[], s:o, s:{s:O}}]", "names",
                        names_of(json_object_get(flat, "properties")), "yes", "no",
                        names_of(patterns), "value", "not", v);
        return add_case(cases, "object", "opt4gptq:some", one);
    }
    if (!strcmp(key, "patternProperties")) {
        json_object_foreach (v, name, one)
            add_case(cases, "object", "opt4gptq:some",
                     json_pack("[{s:o, s:[s], s:[], s:{s:O}}]", "names",
                               final ? json_incref(final) : json_array(), "yes", name, "no",
                               "value", "not", one));
        return 0;
    }
    json_t *names = schema_name_patterns(v);
    size_t i;
    if (!names) return err_set(e, "not: of this propertyNames is not served");
    json_array_foreach (names, i, one) {
        if (json_is_false(one)) add_case(cases, "object", "minProperties", json_integer(1));
        else
            add_case(
                cases, "object", "opt4gptq:some",
                json_pack("[{s:[], s:[], s:[O], s:b}]", "names", "yes", "no", one, "value", 1));
    }
    json_decref(names);
    return 0;
}

/* No member that "opt4gptq:some" asks for: then all of its names have other values. */
static int negate_some(json_t *list, json_t *cases, struct err *e)
{
    json_t *one, *v;
    size_t i, k;
    json_array_foreach (list, i, one) {
        json_t *names = json_object_get(one, "names"), *yes = json_object_get(one, "yes"),
               *no = json_object_get(one, "no"), *value = json_object_get(one, "value");
        json_t *x = json_pack("{s:s}", "type", "object"), *known = json_object(),
               *patterns = json_object();
        if (json_array_size(yes) > 1 ||
            (json_array_size(yes) && (json_array_size(names) || json_array_size(no)))) {
            json_decref(x);
            json_decref(known);
            json_decref(patterns);
            return err_set(e, "not: of these members is not served");
        }
        json_array_foreach (names, k, v)
            json_object_set_new(known, json_string_value(v), json_true());
        json_array_foreach (no, k, v)
            json_object_set_new(patterns, json_string_value(v), json_true());
        json_array_foreach (yes, k, v)
            json_object_set_new(patterns, json_string_value(v), json_pack("{s:O}", "not", value));
        if (!json_array_size(yes))
            json_object_set_new(x, "additionalProperties", json_pack("{s:O}", "not", value));
        json_object_set_new(x, "properties", known);
        json_object_set_new(x, "patternProperties", patterns);
        json_array_append_new(cases, x);
    }
    return 0;
}

/* One of several: none holds, or two do. */
static int negate_one_of(json_t *v, json_t *cases, struct err *e)
{
    enum { MOST = 8 };
    json_t *one, *none = json_array();
    size_t i, k;
    if (json_array_size(v) > MOST) {
        json_decref(none);
        return err_set(e, "not: of a oneOf of more than %d is not served", MOST);
    }
    json_array_foreach (v, i, one) {
        json_array_append_new(none, json_pack("{s:O}", "not", one));
        for (k = 0; k < i; k++)
            json_array_append_new(cases,
                                  json_pack("{s:[O, O]}", "allOf", one, json_array_get(v, k)));
    }
    return json_array_append_new(cases, json_pack("{s:o}", "allOf", none));
}

/* Keywords whose failure is another keyword's. 1: it is one of them, its failures are in CASES. */
static int negate_simply(const char *key, json_t *v, json_t *cases)
{
    static const struct {
        const char *key, *type, *other;
        int step;
    } bounds[] = {
        {"minimum", "number", "exclusiveMaximum", 0},
        {"maximum", "number", "exclusiveMinimum", 0},
        {"exclusiveMinimum", "number", "maximum", 0},
        {"exclusiveMaximum", "number", "minimum", 0},
        {"minLength", "string", "maxLength", -1},
        {"maxLength", "string", "minLength", 1},
        {"minItems", "array", "maxItems", -1},
        {"maxItems", "array", "minItems", 1},
        {"minProperties", "object", "maxProperties", -1},
        {"maxProperties", "object", "minProperties", 1},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(key, bounds[i].key) || !digits_is(v)) continue;
        double x = json_number_value(v);
        int is_count = bounds[i].step && !digits_is_long(v) && x < 1e15; /* larger: not served */
        if (is_count && x + bounds[i].step < 0) return 1;                /* never fails */
        add_case(cases, bounds[i].type, bounds[i].other,
                 is_count ? json_integer((json_int_t)x + bounds[i].step) : json_incref(v));
        return 1;
    }
    if (!strcmp(key, "enum") && json_is_array(v))
        json_array_append_new(cases, json_pack("{s:O}", "opt4gptq:notEnum", v));
    else if (!strcmp(key, "opt4gptq:notEnum"))
        json_array_append_new(cases, json_pack("{s:O}", "enum", v));
    else if (!strcmp(key, "pattern"))
        add_case(cases, "string", "opt4gptq:notPattern", json_pack("[O]", v));
    else if (!strcmp(key, "format"))
        add_case(cases, "string", "opt4gptq:notFormat", json_pack("[O]", v));
    else if (!strcmp(key, "multipleOf"))
        add_case(cases, "number", "opt4gptq:notMultiple", json_pack("[O]", v));
    else if (!strcmp(key, "contains"))
        add_case(cases, "array", "items", json_pack("{s:O}", "not", v));
    else if (!strcmp(key, "opt4gptq:morePatterns"))
        add_cases(cases, v, "string", "opt4gptq:notPattern", 1);
    else if (!strcmp(key, "opt4gptq:moreMultiples"))
        add_cases(cases, v, "number", "opt4gptq:notMultiple", 1);
    else if (!strcmp(key, "opt4gptq:notPattern")) add_cases(cases, v, "string", "pattern", 0);
    else if (!strcmp(key, "opt4gptq:notFormat")) add_cases(cases, v, "string", "format", 0);
    else if (!strcmp(key, "opt4gptq:notMultiple")) add_cases(cases, v, "number", "multipleOf", 0);
    else return 0;
    return 1;
}

/* Counts of what is contained: one fewer than the least is the most, and so on. */
static int negate_counts(json_t *list, json_t *cases, struct err *e)
{
    static const char *const keys[] = {"minContains", "maxContains"};
    json_t *one, *v;
    size_t i;
    json_array_foreach (list, i, one)
        for (int k = 0; k < 2; k++) {
            v = json_object_get(one, keys[k]);
            double n = v ? json_number_value(v) : 1 - k;
            if (!v && k) continue;
            if (v && (digits_is_long(v) || n > 1e9)) return err_set(e, "%s: is too large", keys[k]);
            if (n < 1 && !k) continue;
            json_t *of = json_pack("{s:s, s:O, s:I}", "type", "array", "contains",
                                   json_object_get(one, "contains"), "minContains",
                                   k ? (json_int_t)n + 1 : 0);
            if (!k) json_object_set_new(of, "maxContains", json_integer((json_int_t)n - 1));
            json_array_append_new(cases, of);
        }
    return 0;
}

/* The failures of one keyword of FLAT are added to CASES. */
int schema_negate_keyword(const char *key, json_t *v, json_t *flat, json_t *cases, struct err *e)
{
    json_t *one;
    const char *name;
    size_t i;
    if (negate_simply(key, v, cases) || !strcmp(key, "opt4gptq:final")) return 0;
    if (!strcmp(key, "type")) {
        unsigned types;
        json_t *of = json_pack("{s:O}", "type", v);
        int rc = schema_types(of, &types, e);
        json_decref(of);
        if (rc) return -1;
        return json_array_append_new(
            cases, json_pack("{s:o}", "type", schema_types_as_json(SCHEMA_ALL & ~types)));
    }
    if (!strcmp(key, "required") && json_is_array(v)) {
        json_array_foreach (v, i, one)
            if (json_is_string(one))
                add_case(cases, "object", "properties",
                         json_pack("{s:b}", json_string_value(one), 0));
        return 0;
    }
    if (!strcmp(key, "properties") && json_is_object(v)) {
        json_object_foreach (v, name, one)
            json_array_append_new(cases,
                                  json_pack("{s:s, s:[s], s:{s:{s:O}}}", "type", "object",
                                            "required", name, "properties", name, "not", one));
        return 0;
    }
    if (!strcmp(key, "items") && !json_object_get(flat, "prefixItems"))
        return add_case(cases, "array", "contains", json_pack("{s:O}", "not", v));
    if (!strcmp(key, "additionalProperties") || !strcmp(key, "patternProperties") ||
        !strcmp(key, "propertyNames"))
        return negate_members(key, v, flat, cases, e);
    if (!strcmp(key, "allOf") && json_is_array(v)) {
        json_array_foreach (v, i, one) json_array_append_new(cases, json_pack("{s:O}", "not", one));
        return 0;
    }
    if (!strcmp(key, "anyOf") && json_is_array(v)) {
        json_t *all = json_array();
        json_array_foreach (v, i, one) json_array_append_new(all, json_pack("{s:O}", "not", one));
        return json_array_append_new(cases, json_pack("{s:o}", "allOf", all));
    }
    if (!strcmp(key, "oneOf") && json_is_array(v)) return negate_one_of(v, cases, e);
    if (!strcmp(key, "opt4gptq:some")) return negate_some(v, cases, e);
    if (!strcmp(key, "opt4gptq:moreContains")) {
        json_array_foreach (v, i, one)
            add_case(cases, "array", "items", json_pack("{s:O}", "not", one));
        return 0;
    }
    if (!strcmp(key, "opt4gptq:counted")) return negate_counts(v, cases, e);
    if (!strcmp(key, "opt4gptq:moreAnyOf")) {
        json_array_foreach (v, i, one)
            if (schema_negate_keyword("anyOf", one, flat, cases, e)) return -1;
        return 0;
    }
    if (!strncmp(key, "opt4gptq:", 9)) return err_set(e, "not: of these together is not served");
    return err_set(e, "not: of %s is not served", key);
}
