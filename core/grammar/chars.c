#include "core/grammar/chars.h"

#include <stdlib.h>

uint32_t chars_next(struct chars *t)
{
    unsigned char lead = (unsigned char)*t->p++;
    int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : -1;
    uint32_t c = more <= 0 ? lead : lead & (0x3fu >> more);
    if (more < 0) return 0xfffd;
    for (; more; more--) {
        if (t->p == t->end || ((unsigned char)*t->p & 0xc0) != 0x80) return 0xfffd;
        c = c << 6 | ((unsigned char)*t->p++ & 0x3f);
    }
    return c > CHARS_LAST ? 0xfffd : c;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int64_t chars_hex(struct chars *t, int digits)
{
    int64_t x = 0;
    if (t->end - t->p < digits) return -1;
    for (int i = 0; i < digits; i++) {
        int d = digit(t->p[i]);
        if (d < 0) return -1;
        x = x * 16 + d;
    }
    t->p += digits;
    return x;
}

int chars_number(struct chars *t)
{
    const char *p = t->p;
    int x = 0;
    while (p < t->end && p - t->p < 7 && *p >= '0' && *p <= '9') x = 10 * x + *p++ - '0';
    if (p == t->p || p - t->p > 6) return -1;
    t->p = p;
    return x;
}

int char_set_add(struct char_set *s, uint32_t first, uint32_t last, struct err *e)
{
    if (s->n == s->cap) {
        int cap = s->cap ? 2 * s->cap : 16;
        struct net_range *more = realloc(s->range, (size_t)cap * sizeof *more);
        if (!more) return err_memory(e);
        s->range = more;
        s->cap = cap;
    }
    s->range[s->n++] = (struct net_range){first, last};
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct net_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

int char_set_invert(struct char_set *s, struct err *e)
{
    struct char_set other = {0};
    uint32_t from = 0;
    int rc = 0;
    if (s->n) qsort(s->range, (size_t)s->n, sizeof *s->range, by_first);
    for (int i = 0; i < s->n && !rc; i++) {
        if (s->range[i].first > from) rc = char_set_add(&other, from, s->range[i].first - 1, e);
        if (s->range[i].last >= from) from = s->range[i].last + 1;
    }
    if (!rc && from <= CHARS_LAST) rc = char_set_add(&other, from, CHARS_LAST, e);
    char_set_close(rc ? &other : s);
    if (!rc) *s = other;
    return rc;
}

void char_set_close(struct char_set *s)
{
    free(s->range);
    *s = (struct char_set){0};
}
