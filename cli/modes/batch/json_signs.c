#include "cli/modes/batch/json_signs.h"

#include "core/base/json.h"

#include <string.h>
#include <strings.h>

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* 1: KEY with the quote behind it, then a colon. */
static int has_key(const char *p, size_t n, const char *key)
{
    const char *end = p + n;
    size_t m = strlen(key);
    for (; (p = memmem(p, (size_t)(end - p), key, m)); p += m) {
        const char *q = p + m;
        while (q < end && is_space(*q)) q++;
        if (q < end && *q == ':') return 1;
    }
    return 0;
}

/* 1: the line begins an array of objects or is all of an array. */
static int is_array(const char *p, size_t n, struct err *e)
{
    size_t at = 1;
    while (at < n && is_space(p[at])) at++;
    if (at == n || p[at] == '{') return 1;
    json_t *v = json_read(p, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL, e);
    int rc = json_is_array(v);
    json_decref(v);
    return rc;
}

/* 1: the line is a record, whole or without its beginning. */
static int is_record(const char *p, size_t n)
{
    while (n && (is_space(p[n - 1]) || p[n - 1] == ',')) n--;
    int is_whole = n && p[n - 1] == '}';
    if (strchr("{[\"", *p) && (has_key(p, n, "\"custom_id\"") || has_key(p, n, "\"messages\"") ||
                               has_key(p, n, "\"body\"")))
        return 1;
    if (*p == '[' && n > 1 && (p[1] == '{' || is_space(p[1])) && has_key(p, n, "\"role\""))
        return 1;
    return is_whole && has_key(p, n, "custom_id\"");
}

int json_signs_see(struct json_signs *s, const char *line, size_t n, uint64_t n_before,
                   struct err *e)
{
    static const char *const comments[] = {"#", "//", "/*", "--", ";"};
    struct err inner = {0};
    while (n && is_space(*line)) line++, n--;
    if (!n) return 0;
    if (!n_before) {
        for (size_t i = 0; i < sizeof comments / sizeof *comments; i++)
            s->is_comment |= n >= strlen(comments[i]) &&
                             !memcmp(line, comments[i], strlen(comments[i]));
        if (*line == '[' && is_array(line, n, &inner))
            return err_set(e,
                           "is a JSON array, not one object a line (jq -c '.[]' makes such lines)");
        if (err_is_memory(&inner)) return err_memory(e);
    }
    if (n_before == 1 && s->is_comment && *line == '{')
        return err_set(e, "begins with a comment, and objects follow: JSON lines have none");
    if (!n_before && is_record(line, n))
        return err_set(e, "line 1 looks like a record whose beginning is missing");
    if (is_record(line, n))
        return err_set(e,
                       "begins as plain text does, but has records: JSON lines have an object on "
                       "each line");
    return 0;
}

int json_signs_name(const char *path)
{
    static const char *const ends[] = {".json", ".jsonl", ".ndjson"};
    size_t n = strlen(path);
    if (n > 3 && !strcasecmp(path + n - 3, ".gz")) n -= 3;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n >= m && !strncasecmp(path + n - m, ends[i], m)) return 1;
    }
    return 0;
}
