#include "cli/modes/eval/python_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 2, MOST_DIGITS = 17, LEAST_EXPONENT = -4, MOST_EXPONENT = 15 };

void python_json_real(struct out *o, double v)
{
    char text[40], digits[24] = "";
    for (int n = 0; n < MOST_DIGITS; n++) {
        snprintf(text, sizeof text, "%.*e", n, v);
        if (strtod(text, NULL) == v) break;
    }
    const char *e = strchr(text, 'e'), *first = text + (*text == '-');
    const int exponent = atoi(e + 1);
    snprintf(digits, sizeof digits, "%c%.*s", *first, e - first > 2 ? (int)(e - first - 2) : 0,
             first + 2);
    int n = (int)strlen(digits);
    while (n > 1 && digits[n - 1] == '0') digits[--n] = 0;
    if (*text == '-') out_text(o, "-");
    if (exponent < LEAST_EXPONENT || exponent > MOST_EXPONENT)
        snprintf(text, sizeof text, "%c%s%se%c%02d", *digits, n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0) snprintf(text, sizeof text, "0.%.*s%s", -exponent - 1, "000", digits);
    else if (n > exponent + 1)
        snprintf(text, sizeof text, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    else snprintf(text, sizeof text, "%s%.*s.0", digits, exponent + 1 - n, "000000000000000");
    out_text(o, text);
}

static void put(struct out *o, const json_t *v, int depth);

static void put_line(struct out *o, int depth)
{
    out_text(o, "\n");
    for (int i = 0; i < INDENT * depth; i++) out_text(o, " ");
}

static void put_object(struct out *o, const json_t *v, int depth)
{
    void *at = json_object_iter((json_t *)(uintptr_t)v);
    out_text(o, "{");
    for (int first = 1; at; at = json_object_iter_next((json_t *)(uintptr_t)v, at), first = 0) {
        const char *key = json_object_iter_key(at);
        if (!first) out_text(o, ",");
        put_line(o, depth + 1);
        out_string(o, key, strlen(key));
        out_text(o, ": ");
        put(o, json_object_iter_value(at), depth + 1);
    }
    if (json_object_size(v)) put_line(o, depth);
    out_text(o, "}");
}

static void put_array(struct out *o, const json_t *v, int depth)
{
    out_text(o, "[");
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (i) out_text(o, ",");
        put_line(o, depth + 1);
        put(o, json_array_get(v, i), depth + 1);
    }
    if (json_array_size(v)) put_line(o, depth);
    out_text(o, "]");
}

static void put(struct out *o, const json_t *v, int depth)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: put_object(o, v, depth); break;
    case JSON_ARRAY: put_array(o, v, depth); break;
    case JSON_STRING: out_string(o, json_string_value(v), json_string_length(v)); break;
    case JSON_INTEGER: out_int(o, json_integer_value(v)); break;
    case JSON_REAL: python_json_real(o, json_real_value(v)); break;
    case JSON_TRUE: out_text(o, "true"); break;
    case JSON_FALSE: out_text(o, "false"); break;
    case JSON_NULL: out_text(o, "null"); break;
    }
}

void python_json(struct out *o, const json_t *document) { put(o, document, 0); }
