/* unit_growth.c: compiling a constraint of four times as many parts takes at most 2.5 x 2.5 times
 * the processor time, for every construct that may have many. Times are the least of several runs,
 * so that neighbours do not matter. Where many parts leave the caches (6.5 times was measured) 10
 * times is allowed, and a quadratic part would take 16. */
#include "core/grammar/grammar.h"

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
static const struct construct {
    const char *name;
    enum grammar_kind kind;
    const char *begin, *part, *between, *end;
    int n;    /* parts of the smaller one; what is compiled fits into a processor's caches */
    int many; /* parts of a larger one, in whose tables most looks miss them; 0: none */
} constructs[] = {
    {"enum", GRAMMAR_SCHEMA, "{\"enum\":[", "\"v%d\"", ",", "]}", 5000, 20000},
    {"enum of numbers", GRAMMAR_SCHEMA, "{\"enum\":[", "%d", ",", "]}", 2000, 0},
    {"properties", GRAMMAR_SCHEMA, "{\"type\":\"object\",\"properties\":{",
     "\"p%d\":{\"type\":\"null\"}", ",", "},\"additionalProperties\":false}", 2000, 0},
    {"required", GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},"
     "\"required\":[",
     "\"p%d\"", ",", "]}", 500, 0},
    {"allOf", GRAMMAR_SCHEMA, "{\"allOf\":[", "{\"properties\":{\"p%d\":{\"type\":\"null\"}}}", ",",
     "]}", 1500, 0},
    {"allOf of enums", GRAMMAR_SCHEMA, "{\"enum\":[\"a\",\"b\"],\"allOf\":[",
     "{\"enum\":[\"a\",\"v%d\"]}", ",", "]}", 2000, 0},
    {"anyOf", GRAMMAR_SCHEMA, "{\"anyOf\":[",
     "{\"type\":\"array\",\"maxItems\":1,\"prefixItems\":["
     "{\"const\":%d}]}",
     ",", "]}", 500, 0},
    {"patternProperties", GRAMMAR_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"^(", "v%d",
     "|", ")$\":{\"type\":\"null\"}},\"additionalProperties\":false}", 1500, 0},
    {"propertyNames", GRAMMAR_SCHEMA, "{\"type\":\"object\",\"propertyNames\":{\"enum\":[",
     "\"v%d\"", ",", "]}}", 5000, 0},
    {"$defs", GRAMMAR_SCHEMA, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
     "\"d%d\":{\"type\":\"string\",\"maxLength\":3}", ",", "}}", 1000, 30000},
    {"prefixItems", GRAMMAR_SCHEMA, "{\"type\":\"array\",\"prefixItems\":[", "{\"const\":%d}", ",",
     "]}", 2000, 0},
    {"GBNF rules", GRAMMAR_GBNF, "root ::= r0\n", "r%d ::= \"x\"", "\n", "\n", 4000, 20000},
    {"GBNF alternatives", GRAMMAR_GBNF, "root ::= ", "\"v%d\"", " | ", "\n", 2000, 0},
    {"GBNF sets", GRAMMAR_GBNF, "root ::= ", "[a-z%d]", " ", "\n", 5000, 0},
    {"regex alternatives", GRAMMAR_REGEX, "x(", "v%d", "|", ")", 2000, 0},
    {"regex groups", GRAMMAR_REGEX, "", "(?:v%d)*", "", "x", 2000, 0},
    {"choices", GRAMMAR_CHOICE, "[", "\"v%d\"", ",", "]", 20000, 0},
};

static const char *letter(void *arg, int32_t id, size_t *bytes)
{
    *bytes = 1;
    return (const char *)arg + id;
}

static char *text_of(const struct construct *c, int n)
{
    size_t most = strlen(c->part) + strlen(c->between) + 16;
    char *text = malloc(strlen(c->begin) + strlen(c->end) + (size_t)n * most + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, c->begin);
    for (int i = 0; i < n; i++) {
        const char *at = strstr(c->part, "%d");
        p += sprintf(p, "%s%.*s%d%s", i ? c->between : "", (int)(at - c->part), c->part, i, at + 2);
    }
    strcpy(p, c->end);
    return text;
}

/* Seconds of this thread for a grammar of N parts, which has to be there. */
static double seconds_of(const struct construct *c, const struct vocab *v, int n)
{
    char *text = text_of(c, n);
    const struct grammar_spec spec = {
        .kind = c->kind, .text = text, .bytes = strlen(text), .order = JSON_ORDER_STRICT};
    struct timespec a, b;
    struct grammar *g;
    struct err e = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    if (grammar_open(&g, &spec, v, &e)) fail_msg("%s, %d parts: %s", c->name, n, e.msg);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    grammar_close(g);
    free(text);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* 1: four times N parts take more than MOST times as long. */
static int grows_faster(const struct construct *c, const struct vocab *v, int n, double most)
{
    enum { ROUNDS = 40 }; /* a neighbour may have the cache for a while */
    double few = 1e9, many = 1e9;
    for (int k = 0; k < ROUNDS && (!k || many > most * few); k++) {
        double x = seconds_of(c, v, n), y = seconds_of(c, v, 4 * n);
        if (x < few) few = x;
        if (y < many) many = y;
    }
    print_message("%s: %d parts %.4f s, %d parts %.4f s\n", c->name, n, few, 4 * n, many);
    return many > most * few;
}

static void time_grows_with_the_input(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const struct vocab_source source = {36, letter, (void *)(uintptr_t)letters};
    struct vocab *v;
    struct err e;
    int n_wrong = 0;
    (void)state;
    assert_int_equal(vocab_open(&v, &source, &e), 0);
    for (size_t i = 0; i < sizeof constructs / sizeof *constructs; i++) {
        const struct construct *c = &constructs[i];
        n_wrong += grows_faster(c, v, c->n, 6.25);
        if (c->many) n_wrong += grows_faster(c, v, c->many, 10);
    }
    assert_int_equal(n_wrong, 0);
    vocab_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
