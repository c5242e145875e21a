/* unit_mask.c: masks against single tokens: a mask allows exactly the tokens that can be read. The
 * vocabulary is made up of what real ones have: words, runs longer than any count, parts of
 * characters, ends of strings within tokens. Places are those of random answers. */
#include "core/grammar/grammar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_TOKENS = 3000, MAX_BYTES = 48, N_BYTES = 256, STEPS = 24, ANSWERS = 6 };

static struct {
    char text[MAX_BYTES];
    size_t bytes;
} all[N_TOKENS];

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    (void)arg;
    *bytes = all[id].bytes;
    return *bytes ? all[id].text : NULL;
}

static unsigned seed = 11;
static unsigned below(unsigned n) { return (unsigned)rand_r(&seed) % n; }

/* Pieces that tokens are put together from. */
static const char *const pieces[] = {"a",
                                     "the",
                                     "zq",
                                     "name",
                                     "Kappa",
                                     "id",
                                     "foo",
                                     "ERR",
                                     "0",
                                     "42",
                                     "2026",
                                     " ",
                                     " ",
                                     "  ",
                                     "-",
                                     "_",
                                     ".",
                                     "/",
                                     ":",
                                     ",",
                                     "\"",
                                     "\"",
                                     "\\",
                                     "\\n",
                                     "\\\"",
                                     "\\u00",
                                     "\\u00e9",
                                     "\\ud83d",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "\n",
                                     "\t",
                                     "\xc3",
                                     "\xa9",
                                     "\xc3\xa9",
                                     "\xe4\xb8",
                                     "\xe4\xb8\xad",
                                     "\xe6\x96\x87",
                                     "\xf0\x9f",
                                     "\x98\x80",
                                     "\xf0\x9f\x98\x80",
                                     "\xed\xa0\x80",
                                     "\xff",
                                     "true",
                                     "null",
                                     "\": ",
                                     "\", \"",
                                     "aaaaaaaaaaaaaaaaaaaaaaaaaa",
                                     "------------------------------"};

static void make_tokens(void)
{
    for (int i = 0; i < N_TOKENS; i++) {
        all[i].bytes = 0;
        if (i < N_BYTES) {
            all[i].text[0] = (char)i;
            all[i].bytes = 1;
            continue;
        }
        if (i % 97 == 0) continue; /* special ones have no text */
        for (unsigned k = 0, n = 1 + below(4); k < n; k++) {
            const char *p = pieces[below(sizeof pieces / sizeof *pieces)];
            size_t bytes = strlen(p);
            if (all[i].bytes + bytes > MAX_BYTES) break;
            memcpy(all[i].text + all[i].bytes, p, bytes);
            all[i].bytes += bytes;
        }
    }
}

static void check_mask(const struct vocab *v, struct grammar_cursor *c,
                       struct grammar_cursor *probe, const uint32_t *bits, int n_allowed,
                       const char *what)
{
    struct err e;
    for (int32_t id = 0; id < N_TOKENS; id++) {
        size_t bytes;
        const char *t = vocab_token(v, id, &bytes);
        int allowed = bits[id / 32] >> id % 32 & 1, reads = 0;
        grammar_cursor_copy(probe, c);
        if (t) reads = grammar_accept(probe, t, bytes, &e);
        if (reads != allowed)
            print_message("%s: token %d '%.*s': mask %d, reads %d\n", what, id, (int)bytes, t,
                          allowed, reads);
        assert_int_equal(reads, allowed);
        n_allowed -= allowed;
    }
    assert_int_equal(n_allowed, 0);
}

/* One of the tokens that are allowed, or -1: rather one that goes on than one byte. */
static int32_t choose(const uint32_t *bits, int n_allowed)
{
    int32_t found = -1;
    for (int tries = 0; tries < 40 && n_allowed; tries++) {
        int32_t id = (int32_t)below(N_TOKENS);
        if (!(bits[id / 32] >> id % 32 & 1)) continue;
        found = id;
        if (id >= N_BYTES) return id;
    }
    for (int32_t id = 0; id < N_TOKENS && found < 0; id++)
        if (bits[id / 32] >> id % 32 & 1) found = id;
    return found;
}

static void follow(const struct vocab *v, struct grammar *g, const char *begin, const char *what)
{
    struct grammar_cursor *c, *probe;
    struct err e;
    uint32_t bits[(N_TOKENS + 31) / 32];
    int n_allowed;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    assert_int_equal(grammar_cursor_open(&probe, g, &e), 0);
    assert_int_equal(grammar_accept(c, begin, strlen(begin), &e), 1);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
        check_mask(v, c, probe, bits, n_allowed, what);
        int32_t id = choose(bits, n_allowed);
        if (id < 0) break;
        assert_int_equal(grammar_accept_token(c, id, &e), 1);
    }
    grammar_cursor_close(c);
    grammar_cursor_close(probe);
}

static void masks(void **state)
{
    static const struct {
        enum grammar_kind kind;
        const char *text, *begin;
    } cases[] = {
        {GRAMMAR_JSON, "", "{\"a"},
        {GRAMMAR_JSON, "", "{\"a\":"},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\"}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"maxLength\":9}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":70}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"minLength\":40}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9]{1,50}$\"}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[a-z0-9_-]{1,63}$\"}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[a-z]+(/[a-z]+)*$\"}", "\"the"},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"foo\"}", "\"fo"},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"foo\",\"maxLength\":12}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"not\":{\"enum\":[\"the\",\"name\"]}}", "\""},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(..)*$\"}", "\"a"},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"format\":\"email\"}", "\"the@"},
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"format\":\"uri\"}", "\"http:"},
        {GRAMMAR_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"names\":{"
         "\"type\":\"integer\"},\"id\":{\"maxLength\":5},\"\u00e9\":true}}",
         "{\""},
        {GRAMMAR_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"id\":{\"type\":"
         "\"integer\"}},\"additionalProperties\":false,\"required\":[\"id\"]}",
         "{\""},
        {GRAMMAR_SCHEMA,
         "{\"type\":\"object\",\"patternProperties\":{\"^foo\":{\"type\":\"null\"},\"id$\":{}}}",
         "{\""},
        {GRAMMAR_REGEX, ".{3,40}", ""},
        {GRAMMAR_REGEX, "[ -~]*(\\n[ -~]*){0,2}", ""},
        {GRAMMAR_REGEX, "[^\\u4e2d\\n]*", "a"},
        {GRAMMAR_GBNF, "root ::= ( [a-z] | [^\\x00-\\x7F] )+ ( \"\\n\" root )?", ""},
        {GRAMMAR_CHOICE, "[\"the\",\"the name\",\"a\",\"\xe4\xb8\xad\xe6\x96\x87\"]", ""},
    };
    const struct vocab_source source = {N_TOKENS, token, NULL};
    struct vocab *v;
    struct err e;
    (void)state;
    make_tokens();
    assert_int_equal(vocab_open(&v, &source, &e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct grammar_spec spec = {
            .kind = cases[i].kind, .text = cases[i].text, .bytes = strlen(cases[i].text)};
        struct grammar *g;
        if (grammar_open(&g, &spec, v, &e)) print_message("%s: %s\n", cases[i].text, e.msg);
        assert_non_null(g);
        for (int k = 0; k < ANSWERS; k++) follow(v, g, cases[i].begin, cases[i].text);
        grammar_close(g);
    }
    vocab_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
