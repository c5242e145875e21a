/* growth.h: does an input of four times as many parts take at most 2.5 x 2.5 times the processor
 * time? Times are the least of several runs, so that neighbours do not matter. */
#ifndef UNIT_GROWTH_H
#define UNIT_GROWTH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* BEGIN, N times PART with its number in place of each %d and BETWEEN them, END. */
struct growth_text {
    const char *begin, *part, *between, *end;
};

static inline char *growth_text(const struct growth_text *t, int n)
{
    size_t most = strlen(t->part) + strlen(t->between) + 64;
    char *text = malloc(strlen(t->begin) + strlen(t->end) + (size_t)n * most + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, t->begin);
    for (int i = 0; i < n; i++) {
        p = stpcpy(p, i ? t->between : "");
        for (const char *s = t->part; *s;) {
            const char *at = strstr(s, "%d");
            size_t plain = at ? (size_t)(at - s) : strlen(s);
            p = mempcpy(p, s, plain);
            if (at) p += sprintf(p, "%d", i);
            s += plain + (at ? 2 : 0);
        }
    }
    strcpy(p, t->end);
    return text;
}

static inline double growth_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 1: four times N parts take more than MOST times as long; SECONDS says what N parts of WHAT take.
 */
static inline int growth_exceeds(const char *name, double (*seconds)(const void *what, int n),
                                 const void *what, int n, double most)
{
    enum { ROUNDS = 40 }; /* a neighbour may have the cache for a while */
    double few = 1e9, many = 1e9;
    for (int k = 0; k < ROUNDS && (!k || many > most * few); k++) {
        double x = seconds(what, n), y = seconds(what, 4 * n);
        if (x < few) few = x;
        if (y < many) many = y;
    }
    print_message("%s: %d parts %.4f s, %d parts %.4f s\n", name, n, few, 4 * n, many);
    return many > most * few;
}

#endif
