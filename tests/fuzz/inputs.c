/* inputs.c: the inputs of targets.h, each as it is and changed by chance; a crash, a hang and a
 * broken promise name the case.
 *
 * usage: inputs [--target NAME] [--cases N] [--seed S] [--only CASE]
 *        inputs --target NAME --write DIR   (the inputs to begin with, a file each)
 *        N: of each target, behind those to begin with */
#include "tests/fuzz/targets.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SEEDS = 400, MAX_BYTES = 1 << 16, CASE_SECONDS = 20 };

static struct seed {
    uint8_t *p;
    size_t n;
} seeds[MAX_SEEDS];
static size_t n_seeds;
static volatile int current;
static const char *volatile current_target;

static void add_seed(const void *p, size_t n)
{
    if (n_seeds == MAX_SEEDS || n > MAX_BYTES) return;
    seeds[n_seeds].p = malloc(n + 1);
    if (!seeds[n_seeds].p) abort();
    memcpy(seeds[n_seeds].p, p, n);
    seeds[n_seeds++].n = n;
}

/* ---- random numbers: splitmix64 */
static uint64_t rng_state;

static size_t below(size_t n)
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return n ? z % n : 0;
}

/* ---- changes */

static uint8_t bytes[MAX_BYTES];
static size_t n_bytes;

/* Replaces CUT bytes at AT with PUT [n]. */
static void splice(size_t at, size_t cut, const void *put, size_t n)
{
    uint8_t keep[4096];
    if (at > n_bytes) at = n_bytes;
    if (cut > n_bytes - at) cut = n_bytes - at;
    if (n > sizeof keep || n_bytes - cut + n > MAX_BYTES) return;
    memcpy(keep, put, n);
    memmove(bytes + at + n, bytes + at + cut, n_bytes - at - cut);
    memcpy(bytes + at, keep, n);
    n_bytes = n_bytes - cut + n;
}

/* A part of the notation, or a few bytes. */
static size_t draw_word(const char *words, char *word, size_t cap)
{
    static const char raw[][8] = {"\0\0\0\0\0\0\0", "\377\377\377\377\377\377\377", "\0\0\0\200",
                                  "\1\0\0\0\0\0\0", "\377\377\377\177"};
    size_t n_words = 1;
    for (const char *p = words; p && *p; p++) n_words += *p == ' ';
    if (!words || below(4) == 0) {
        size_t n = 1 + below(8);
        memcpy(word, raw[below(sizeof raw / sizeof *raw)], n);
        for (size_t i = 0; below(2) && i < n; i++) word[i] = (char)below(256);
        return n;
    }
    const char *p = words;
    for (size_t k = below(n_words); k; k--) p = strchr(p, ' ') + 1;
    size_t n = strcspn(p, " ");
    if (n > cap) n = cap;
    memcpy(word, p, n);
    return n;
}

static void change(const struct fuzz_target *t)
{
    char word[64];
    const struct seed *other = &seeds[below(n_seeds)];
    size_t at = below(n_bytes + 1), n = 1 + below(below(4) ? 8 : 200), from;
    uint8_t byte = (uint8_t)below(256);
    switch (below(8)) {
    case 0:
        if (at < n_bytes) bytes[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1: splice(at, 1, &byte, 1); break;
    case 2: splice(at, n, "", 0); break;
    case 3:
    case 4: {
        size_t m = draw_word(t->words, word, sizeof word);
        splice(at, below(2) ? 0 : m, word, m);
        break;
    }
    case 5: /* a piece of itself again, several times */
        if (n > n_bytes - at) n = n_bytes - at;
        for (size_t i = 0, times = 1 + below(below(8) ? 2 : 60); i < times; i++)
            splice(at, 0, bytes + at, n);
        break;
    case 6: /* a piece of another */
        if (!other->n) break;
        from = below(other->n);
        if (n > other->n - from) n = other->n - from;
        splice(at, below(2) ? 0 : n, other->p + from, n);
        break;
    default: n_bytes = at; /* cut */
    }
}

/* The bytes of case K: an input as it is, or changed. */
static void make_case(const struct fuzz_target *t, int k, uint64_t seed)
{
    rng_state = (seed << 32) + (uint64_t)k;
    const struct seed *s = (size_t)k < n_seeds ? &seeds[k] : &seeds[below(n_seeds)];
    n_bytes = s->n;
    memcpy(bytes, s->p, s->n);
    if ((size_t)k < n_seeds) return;
    for (size_t i = 0, times = 1 + below(5); i < times; i++) change(t);
}

/* ---- cases */

static void show(const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n && i < 1500; i++)
        if (b[i] < ' ' || b[i] > '~') printf("\\x%02x", b[i]);
        else putchar(b[i]);
    printf(n > 1500 ? "... (%zu bytes)\n" : "\n", n);
}

static void on_signal(int number)
{
    char text[160];
    int n = snprintf(text, sizeof text, "\nFAIL %s case %d: a crash, or more than %d s\n",
                     current_target, current, CASE_SECONDS);
    if (write(1, text, (size_t)n) < 0) _exit(3);
    signal(number, SIG_DFL);
    raise(number);
}

static void limit(void)
{
    const struct itimerval t = {.it_value = {.tv_sec = CASE_SECONDS}};
    setitimer(ITIMER_PROF, &t, NULL);
}

/* In memory of exactly its length, so that a read beyond it is found. */
static const char *try_case(const struct fuzz_target *t)
{
    uint8_t *own = malloc(n_bytes ? n_bytes : 1);
    if (!own) abort();
    memcpy(own, bytes, n_bytes);
    const char *why = t->run(own, n_bytes);
    free(own);
    return why;
}

static void take_seeds(const struct fuzz_target *t)
{
    while (n_seeds) free(seeds[--n_seeds].p);
    t->seeds(add_seed);
}

/* The number of those that fail. */
static int run_target(const struct fuzz_target *t, int n_cases, uint64_t seed, int only)
{
    int n_failed = 0, n_run = 0;
    struct timespec from, to;
    take_seeds(t);
    current_target = t->name;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int k = 0; k < n_cases + (int)n_seeds; k++) {
        if (only >= 0 && k != only) continue;
        make_case(t, k, seed);
        current = k;
        limit();
        if (only >= 0) show(bytes, n_bytes);
        const char *why = try_case(t);
        n_run++;
        if (!why) continue;
        printf("FAIL %s case %d: %s\n", t->name, k, why);
        if (n_failed++ < 5) show(bytes, n_bytes);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%-14s %6d inputs, %3zu to begin with, %.2f s\n", t->name, n_run, n_seeds,
           (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    return n_failed;
}

static int write_seeds(const struct fuzz_target *t, const char *dir)
{
    char path[1024];
    take_seeds(t);
    for (size_t i = 0; i < n_seeds; i++) {
        snprintf(path, sizeof path, "%s/seed-%03zu", dir, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(seeds[i].p, 1, seeds[i].n, f) != seeds[i].n || fclose(f)) return 2;
    }
    return 0;
}

static void guard(void)
{
#ifndef __SANITIZE_ADDRESS__
    const struct rlimit memory = {3ul << 30, 3ul << 30};
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    setrlimit(RLIMIT_AS, &memory);
    for (size_t k = 0; k < sizeof deadly / sizeof *deadly; k++) signal(deadly[k], on_signal);
#endif
    signal(SIGPROF, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int main(int argc, char **argv)
{
    int n_cases = 3000, only = -1, n_failed = 0, n_found = 0;
    uint64_t seed = 1;
    const char *name = NULL, *to = NULL;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--target")) name = value;
        else if (!strcmp(argv[i], "--cases")) n_cases = atoi(value);
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--only")) only = atoi(value);
        else if (!strcmp(argv[i], "--write")) to = value;
        else n_cases = -1;
    }
    if (n_cases < 0) {
        fprintf(stderr, "usage: inputs [--target NAME] [--cases N] [--seed S] [--only CASE] "
                        "[--write DIR]\n");
        return 2;
    }
    guard();
    for (const struct fuzz_target *t = fuzz_targets; t < fuzz_targets + N_FUZZ_TARGETS; t++) {
        if (name && strcmp(name, t->name)) continue;
        n_found++;
        if (to) {
            if (write_seeds(t, to)) return 2;
            continue;
        }
        n_failed += run_target(t, n_cases, seed, only) != 0;
    }
    while (n_seeds) free(seeds[--n_seeds].p);
    printf("inputs: %d passed, %d failed, 0 skipped\n", n_found - n_failed, n_failed);
    return n_failed != 0 || !n_found;
}
