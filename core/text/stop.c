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

/* Compares text [left] with the stop strings: 1: it starts with one, 2: it may be the beginning of
 * one, 0: neither. */
static int match_at(const struct stop *s, const char *text, size_t left)
{
    int partial = 0;
    for (int i = 0; i < s->n; i++) {
        size_t len = strlen(s->strings[i]);
        if (len <= left && !memcmp(text, s->strings[i], len)) return 1;
        if (len > left && !memcmp(text, s->strings[i], left)) partial = 2;
    }
    return partial;
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
    size_t total = s->n_held + n, i = 0;
    int m = 0;
    for (; i < total; i++)
        if ((m = match_at(s, s->held + i, total - i))) break;
    /* The final text moves behind the buffer's first half, which the next push overwrites. */
    char *certain = s->held + s->cap;
    if (i) memcpy(certain, s->held, i);
    *out = certain;
    *n_out = i;
    s->n_held = m == 2 ? total - i : 0;
    if (s->n_held) memmove(s->held, s->held + i, s->n_held);
    return m == 1;
}

void stop_flush(struct stop *s, const char **out, size_t *n_out)
{
    *out = s->held;
    *n_out = s->n_held;
    s->n_held = 0;
}
