/* unit_growth.c: compiling a constraint of four times as many parts takes at most 2.5 x 2.5 times
 * the processor time (growth.h), for every construct that may have many. Where many parts leave the
 * caches (6.5 times was measured) 10 times is allowed, and a quadratic part would take 16. */
#include "core/grammar/grammar.h"
#include "tests/unit/growth.h"

static const struct construct {
    const char *name;
    enum grammar_kind kind;
    struct growth_text text;
    int n;    /* parts of the smaller one; what is compiled fits into a processor's caches */
    int many; /* parts of a larger one, in whose tables most looks miss them; 0: none */
} constructs[] = {
    {"enum", GRAMMAR_SCHEMA, {"{\"enum\":[", "\"v%d\"", ",", "]}"}, 5000, 20000},
    {"enum of numbers", GRAMMAR_SCHEMA, {"{\"enum\":[", "%d", ",", "]}"}, 2000, 0},
    {"properties",
     GRAMMAR_SCHEMA,
     {"{\"type\":\"object\",\"properties\":{", "\"p%d\":{\"type\":\"null\"}", ",",
      "},\"additionalProperties\":false}"},
     2000,
     0},
    {"required",
     GRAMMAR_SCHEMA,
     {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},"
      "\"required\":[",
      "\"p%d\"", ",", "]}"},
     500,
     0},
    {"allOf",
     GRAMMAR_SCHEMA,
     {"{\"allOf\":[", "{\"properties\":{\"p%d\":{\"type\":\"null\"}}}", ",", "]}"},
     1500,
     0},
    {"allOf of enums",
     GRAMMAR_SCHEMA,
     {"{\"enum\":[\"a\",\"b\"],\"allOf\":[", "{\"enum\":[\"a\",\"v%d\"]}", ",", "]}"},
     2000,
     0},
    {"anyOf",
     GRAMMAR_SCHEMA,
     {"{\"anyOf\":[",
      "{\"type\":\"array\",\"maxItems\":1,\"prefixItems\":["
      "{\"const\":%d}]}",
      ",", "]}"},
     500,
     0},
    {"patternProperties",
     GRAMMAR_SCHEMA,
     {"{\"type\":\"object\",\"patternProperties\":{\"^(", "v%d", "|",
      ")$\":{\"type\":\"null\"}},\"additionalProperties\":false}"},
     1500,
     0},
    {"propertyNames",
     GRAMMAR_SCHEMA,
     {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[", "\"v%d\"", ",", "]}}"},
     5000,
     0},
    {"$defs",
     GRAMMAR_SCHEMA,
     {"{\"$ref\":\"#/$defs/d0\",\"$defs\":{", "\"d%d\":{\"type\":\"string\",\"maxLength\":3}", ",",
      "}}"},
     1000,
     30000},
    {"prefixItems",
     GRAMMAR_SCHEMA,
     {"{\"type\":\"array\",\"prefixItems\":[", "{\"const\":%d}", ",", "]}"},
     2000,
     0},
    {"GBNF rules", GRAMMAR_GBNF, {"root ::= r0\n", "r%d ::= \"x\"", "\n", "\n"}, 4000, 20000},
    {"GBNF alternatives", GRAMMAR_GBNF, {"root ::= ", "\"v%d\"", " | ", "\n"}, 2000, 0},
    {"GBNF sets", GRAMMAR_GBNF, {"root ::= ", "[a-z%d]", " ", "\n"}, 5000, 0},
    {"regex alternatives", GRAMMAR_REGEX, {"x(", "v%d", "|", ")"}, 2000, 0},
    {"regex groups", GRAMMAR_REGEX, {"", "(?:v%d)*", "", "x"}, 2000, 0},
    {"choices", GRAMMAR_CHOICE, {"[", "\"v%d\"", ",", "]"}, 20000, 0},
};

static const char *letter(void *arg, int32_t id, size_t *bytes)
{
    *bytes = 1;
    return (const char *)arg + id;
}

static struct vocab *vocab;

/* Seconds of this thread for a grammar of N parts, which has to be there. */
static double seconds_of(const void *what, int n)
{
    const struct construct *c = what;
    char *text = growth_text(&c->text, n);
    const struct grammar_spec spec = {
        .kind = c->kind, .text = text, .bytes = strlen(text), .order = JSON_ORDER_STRICT};
    struct grammar *g;
    struct err e = {0};
    double begin = growth_clock();
    if (grammar_open(&g, &spec, vocab, &e)) fail_msg("%s, %d parts: %s", c->name, n, e.msg);
    double end = growth_clock();
    grammar_close(g);
    free(text);
    return end - begin;
}

static void time_grows_with_the_input(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const struct vocab_source source = {36, letter, (void *)(uintptr_t)letters};
    struct err e;
    int n_wrong = 0;
    (void)state;
    assert_int_equal(vocab_open(&vocab, &source, &e), 0);
    for (size_t i = 0; i < sizeof constructs / sizeof *constructs; i++) {
        const struct construct *c = &constructs[i];
        n_wrong += growth_exceeds(c->name, seconds_of, c, c->n, 6.25);
        if (c->many) n_wrong += growth_exceeds(c->name, seconds_of, c, c->many, 10);
    }
    assert_int_equal(n_wrong, 0);
    vocab_close(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
