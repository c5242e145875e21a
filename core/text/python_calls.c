#include "core/text/python_calls.h"

#include "core/base/json_span.h"
#include "core/text/literals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of the name that begins at P; dots stand in those of functions. */
static const char *name_end(const char *p, const char *end, int dots)
{
    const char *begin = p;
    while (p < end &&
           ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
            (p > begin && ((*p >= '0' && *p <= '9') || (dots && (*p == '.' || *p == '-'))))))
        p++;
    return p;
}

/* Goes on behind the sign, if that is what follows. */
static int takes(const char **p, const char *end, char sign)
{
    const char *at = json_span_space(*p, end);
    if (at == end || *at != sign) return 0;
    *p = at + 1;
    return 1;
}

/* 1: KEY [n] is one of an object's keys so far, {"A": 1, "B": 2. */
static int comes_again(const char *object, const char *key, size_t n)
{
    const char *p = object + 1, *end = object + strlen(object);
    for (; p < end; p = json_span_value(p, end)) {
        while (p < end && strchr(", ", *p)) p++;
        const char *name = p + 1;
        p = json_span_value(p, end);
        if ((size_t)(p - name) == n + 1 && !memcmp(name, key, n)) return 1;
        while (p < end && strchr(": ", *p)) p++;
    }
    return 0;
}

/* KEY=VALUE, as a member of the object that f writes into *object. */
static int read_member(const char **p, const char *end, FILE *f, char *const *object, int first,
                       struct err *e)
{
    const char *key = json_span_space(*p, end), *behind;
    size_t n = (size_t)(name_end(key, end, 0) - key), n_value;
    char *value = NULL;
    *p = key + n;
    if (!n || !takes(p, end, '=')) return 0;
    if (fflush(f)) return err_memory(e);
    if (comes_again(*object, key, n)) return 0;
    int rc = literal_to_json(json_span_space(*p, end), end, &behind, &value, &n_value, e);
    if (rc > 0) {
        fprintf(f, "%s\"%.*s\": ", first ? "" : ", ", (int)n, key);
        fwrite(value, 1, n_value, f);
        *p = behind;
    }
    free(value);
    return rc;
}

/* Behind the opening bracket. */
static int read_members(const char **p, const char *end, FILE *f, char *const *object,
                        struct err *e)
{
    fputs("{", f);
    for (int first = 1; !takes(p, end, ')'); first = 0) {
        if (!first && !takes(p, end, ',')) return 0;
        if (!first && takes(p, end, ')')) break; /* a comma behind the last */
        int rc = read_member(p, end, f, object, first, e);
        if (rc <= 0) return rc;
    }
    fputs("}", f);
    return 1;
}

int python_call_read(const char *p, const char *end, const char **behind, char **name,
                     char **arguments, struct err *e)
{
    size_t bytes;
    const char *begin = p = json_span_space(p, end);
    *name = *arguments = NULL;
    p = name_end(begin, end, 1);
    size_t n = (size_t)(p - begin);
    if (!n || !takes(&p, end, '(')) return 0;
    FILE *f = open_memstream(arguments, &bytes);
    if (!f) return err_memory(e);
    int rc = read_members(&p, end, f, arguments, e), failed = ferror(f);
    if ((fclose(f) || failed) && rc >= 0) rc = err_memory(e);
    if (rc > 0 && !(*name = strndup(begin, n))) rc = err_memory(e);
    if (rc > 0) *behind = p;
    if (rc > 0) return 1;
    free(*arguments);
    *arguments = NULL;
    return rc;
}
