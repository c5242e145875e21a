#include "core/base/json_long.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *json_long(const json_t *v)
{
    const json_t *text = json_object_size(v) == 1 ? json_object_get(v, JSON_LONG) : NULL;
    return json_string_value(text);
}

/* 1: jansson's number is the number that TEXT [n] is. Up to 17 digits name a double. */
static int is_held(const char *text, size_t n)
{
    char copy[64], again[32];
    size_t significant = 0;
    if (n >= sizeof copy) return 0;
    memcpy(copy, text, n);
    copy[n] = 0;
    if (!strpbrk(copy, ".eE")) {
        snprintf(again, sizeof again, "%lld", strtoll(copy, NULL, 10));
        return n < 19 || !strcmp(again, copy);
    }
    for (const char *p = copy; *p && *p != 'e' && *p != 'E'; p++)
        significant += *p >= '0' && *p <= '9' && (significant || *p != '0');
    double x = strtod(copy, NULL);
    return significant <= 17 && isfinite(x) && (x != 0 || !significant);
}

static int is_of_number(char c) { return c && strchr("+-.0123456789eE", c) != NULL; }

/* Behind the string that begins at P. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) p += *p == '\\' && p + 1 < end;
    return p < end ? p + 1 : end;
}

/* 1: TEXT [n] is a number as RFC 8259 has it; else it stays for jansson, which says so. */
static int is_number(const char *text, size_t n)
{
    const char *p = text, *end = text + n, *from;
    if (p < end && *p == '-') p++;
    for (from = p; p < end && *p >= '0' && *p <= '9';) p++;
    if (p == from || (*from == '0' && p > from + 1)) return 0;
    if (p < end && *p == '.') {
        for (from = ++p; p < end && *p >= '0' && *p <= '9';) p++;
        if (p == from) return 0;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        for (from = p; p < end && *p >= '0' && *p <= '9';) p++;
        if (p == from) return 0;
    }
    return p == end;
}

/* TEXT [bytes] with other numbers in their form, written to OUT if it is not NULL; *n: its bytes.
 * Returns how many numbers were changed. */
static size_t rewrite(const char *text, size_t bytes, char *out, size_t *n)
{
    const char *p = text, *end = text + bytes;
    size_t changed = 0;
    *n = 0;
    while (p < end) {
        const char *from = p;
        if (*p == '"') p = skip_string(p, end);
        else if (is_of_number(*p))
            while (p < end && is_of_number(*p)) p++;
        else p++;
        size_t part = (size_t)(p - from);
        int is_long = *from != '"' && (*from == '-' || (*from >= '0' && *from <= '9')) &&
                      is_number(from, part) && !is_held(from, part);
        const char *before = is_long ? "{\"" JSON_LONG "\":\"" : "", *after = is_long ? "\"}" : "";
        if (out) {
            memcpy(out + *n, before, strlen(before));
            memcpy(out + *n + strlen(before), from, part);
            memcpy(out + *n + strlen(before) + part, after, strlen(after));
        }
        *n += strlen(before) + part + strlen(after);
        changed += (size_t)is_long;
    }
    return changed;
}

static size_t count_long(const json_t *v)
{
    const char *key;
    json_t *one;
    size_t i, n = 0;
    json_array_foreach ((json_t *)(uintptr_t)v, i, one) n += count_long(one);
    json_object_foreach ((json_t *)(uintptr_t)v, key, one)
        n += !strcmp(key, JSON_LONG) ? 1 : count_long(one);
    return n;
}

int json_has_long(const char *text, size_t bytes)
{
    size_t n;
    return rewrite(text, bytes, NULL, &n) > 0;
}

json_t *json_read_long(const char *text, size_t bytes, struct err *e)
{
    enum { FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY };
    size_t n, changed = rewrite(text, bytes, NULL, &n);
    char *more = changed ? malloc(n + 1) : NULL;
    if (changed && !more) return err_memory(e), NULL;
    if (changed) rewrite(text, bytes, more, &n);
    json_t *v = changed ? json_read(more, n, FLAGS, NULL, e)
                        : json_read(text, bytes, FLAGS, NULL, e);
    free(more);
    if (v && count_long(v) > changed) {
        json_decref(v);
        err_set(e, "keyword: names with opt4gptq: are this program's own");
        return NULL;
    }
    return v;
}
