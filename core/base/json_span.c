#include "core/base/json_span.h"

#include "core/base/json.h"

#include <string.h>

const char *json_span_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) && *p) p++;
    return p;
}

static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) p += *p == '\\';
    return p < end ? p + 1 : end;
}

const char *json_span_value(const char *p, const char *end)
{
    int depth = 0;
    if (p < end && *p != '"' && *p != '{' && *p != '[') {
        while (p < end && *p && !strchr(",]} \t\r\n", *p)) p++;
        return p;
    }
    while (p < end) {
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p = *p == '"' ? skip_string(p, end) : p + 1;
        if (!depth) return p;
    }
    return end;
}

/* The key with its quotes [n], however it is escaped. */
static int is_key(const char *key, size_t n, const char *name)
{
    if (!memchr(key, '\\', n)) return n == strlen(name) + 2 && !memcmp(key + 1, name, n - 2);
    struct err ignored = {0};
    json_t *v = json_read(key, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, &ignored);
    int same = v && json_string_length(v) == strlen(name) && !strcmp(json_string_value(v), name);
    json_decref(v);
    return same;
}

int json_span_member(const char **p, const char **end, const char *name)
{
    const char *at = *p, *found = NULL, *found_end = NULL;
    if (at >= *end || *at != '{') return 0;
    for (at = json_span_space(at + 1, *end); at < *end && *at == '"';) {
        const char *key = at, *key_end = skip_string(at, *end);
        at = json_span_space(key_end, *end);
        at = json_span_space(at + (at < *end), *end); /* the colon */
        if (at >= *end) return 0;
        const char *value = at;
        at = json_span_value(at, *end);
        if (is_key(key, (size_t)(key_end - key), name)) found = value, found_end = at;
        at = json_span_space(at, *end);
        if (at < *end && *at == ',') at = json_span_space(at + 1, *end);
    }
    if (!found) return 0;
    *p = found;
    *end = found_end;
    return 1;
}
