#include "core/text/stop.h"

#include <stdlib.h>
#include <string.h>

int stop_open(struct stop *s, const char *const *strings, int n, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->strings = strings;
    s->n = n;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(strings[i]);
        if (!len) return err_set(e, "a stop string is empty");
        if (len > s->longest) s->longest = len;
    }
    return 0;
}

void stop_close(struct stop *s)
{
    free(s->held);
    memset(s, 0, sizeof *s);
}

/* 1: text [left] may be the beginning of a stop string. */
static int may_begin(const struct stop *s, const char *text, size_t left)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->strings[i]) > left && !memcmp(text, s->strings[i], left)) return 1;
    return 0;
}

/* Where the stop string begins that ends first in text [n], of several the longest; n: none. It is
 * the same one however the text comes in pieces. */
static size_t find_first(const struct stop *s, const char *text, size_t n)
{
    size_t begin = n, end = n + 1;
    for (int i = 0; i < s->n; i++) {
        size_t len = strlen(s->strings[i]);
        const char *p = n ? memmem(text, n, s->strings[i], len) : NULL;
        if (!p) continue;
        size_t at = (size_t)(p - text);
        if (at + len < end || (at + len == end && at < begin)) begin = at, end = at + len;
    }
    return begin;
}

int stop_push(struct stop *s, const char *piece, size_t n, const char **out, size_t *n_out,
              struct err *e)
{
    if (!s->held || s->n_held + n > s->cap) {
        size_t cap = 2 * (s->n_held + n) + 64;
        char *p = malloc(2 * cap);
        if (!p) return err_memory(e);
        if (s->n_held) memcpy(p, s->held, s->n_held);
        free(s->held);
        s->held = p;
        s->cap = cap;
    }
    if (n) memcpy(s->held + s->n_held, piece, n);
    size_t total = s->n_held + n, i = find_first(s, s->held, total);
    int found = i < total;
    for (i = found ? i : 0; !found && i < total; i++)
        if (may_begin(s, s->held + i, total - i)) break;
    /* The final text moves behind the buffer's first half, which the next push overwrites. */
    char *certain = s->held + s->cap;
    if (i) memcpy(certain, s->held, i);
    *out = certain;
    *n_out = i;
    s->n_held = found ? 0 : total - i;
    if (s->n_held) memmove(s->held, s->held + i, s->n_held);
    return found;
}

void stop_flush(struct stop *s, const char **out, size_t *n_out)
{
    *out = s->held;
    *n_out = s->n_held;
    s->n_held = 0;
}
