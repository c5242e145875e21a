/* fuzz_grammar.c: strangers' schemas, regular expressions and GBNF grammars: those below, those of
 * SHARED where it is there, and random changes of them. Each is opened or refused in little
 * processor time and memory, and what is opened has no dead end; a crash names its case.
 *
 * usage: fuzz_grammar [SHARED_DIR] [--cases N] [--seed S] [--only CASE]
 *        fuzz_grammar [SHARED_DIR] --write DIR   (the inputs that others are made of, a file each)
 */
#include "core/base/json.h"
#include "tests/fuzz/grammar_input.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_SEEDS = 1000, MAX_BYTES = 16384, MAX_SHARED = 300, SHARED_BYTES = 3000 };
/* Processor time in which an input has to be opened, and a mask made; a case that takes
 * CASE_SECONDS is ended. A sanitized program has no limits of time and memory but the latter. */
enum { CASE_SECONDS = 60 };
#ifdef __SANITIZE_ADDRESS__
static const double most_seconds = CASE_SECONDS;
#else
static const double most_seconds = 1;
#endif

static const char *const own[] = {
    /* which refers to itself under "not", in two ways at each level */
    "0{\"type\":\"boolean\",\"oneOf\":[{\"type\":\"boolean\",\"enum\":[{\"a\":1,\"b\":\"a\"}],"
    "\"not\":{\"$ref\":\"#\"}},{\"type\":[\"boolean\",\"array\"]}]}",
    "0{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-3},\"b\":{"
    "\"enum\":"
    "[1,\"x\",null,2.5,[1],{\"k\":1}]}},\"required\":[\"a\",\"q\"],\"additionalProperties\":false}"
    "\377"
    "{\"a\":1",
    "4{\"properties\":{\"a\":true,\"b\":false,\"c\":{}},\"required\":[\"c\"],\"minProperties\":1,"
    "\"maxProperties\":9}",
    "8{\"patternProperties\":{\"^a\":{\"type\":\"null\"},\"b$\":{\"maxLength\":3}},"
    "\"additionalProperties\":{\"type\":\"boolean\"},\"propertyNames\":{\"pattern\":\"^.{1,3}$\"}}",
    "0{\"type\":\"string\",\"pattern\":\"^(a|b)+c{2,3}[^x-z]*$\",\"minLength\":3,\"maxLength\":12,"
    "\"not\":{\"enum\":[\"acc\",\"bcc\"]}}\377\"abcc",
    "0{\"type\":\"string\",\"format\":\"date-time\",\"pattern\":\"^2\"}",
    "0{\"type\":\"string\",\"format\":\"ipv6\",\"maxLength\":20}",
    "0{\"type\":\"number\",\"exclusiveMinimum\":-12,\"maximum\":105,\"multipleOf\":0.5}\377-1",
    "0{\"type\":\"integer\",\"minimum\":-999999999999999,\"maximum\":1e15,\"multipleOf\":7}",
    "0{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"null\"]},\"minItems\":2,\"maxItems\":5,"
    "\"contains\":{\"const\":\"x\"},\"uniqueItems\":true}",
    "0{\"prefixItems\":[{\"type\":\"null\"},{\"enum\":[1,2]}],\"items\":{\"type\":\"string\"},"
    "\"minItems\":1}",
    "0{\"items\":{\"enum\":[1,2,3,4,5,6,7,8]},\"uniqueItems\":true}\377[1,2,3",
    "0{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/t\"},\"l\":"
    "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}},\"$ref\":\"#/$defs/t\"}\377{\"n\":{",
    "0{\"anyOf\":[{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"const\":\"a\"}"
    "}},"
    "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":\"integer\",\"maximum\":3}]}],"
    "\"not\":{\"const\":7}}",
    "0{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{\"required\":["
    "\"b\"]},"
    "\"else\":{\"properties\":{\"b\":false}},\"dependentRequired\":{\"c\":[\"d\"]},"
    "\"dependentSchemas\":{\"d\":{\"maxProperties\":3}},\"dependencies\":{\"e\":[\"a\"]}}",
    "0{\"allOf\":[{\"$ref\":\"#/$defs/x\"},{\"$ref\":\"#/$defs/y\"}],\"$defs\":{\"x\":{\"allOf\":[{"
    "\"$ref\":\"#/$defs/y\"},{\"$ref\":\"#/$defs/y\"}]},\"y\":{\"anyOf\":[{\"minLength\":1},{"
    "\"minItems\":1}]}}}",
    "0{\"minLength\":100000,\"maxLength\":100000}",
    "0{\"items\":{\"items\":{\"items\":{\"maxItems\":10000,\"minItems\":10000}}},\"minItems\":"
    "10000}",
    "0{\"anyOf\":[{\"$ref\":\"#\"},{\"not\":{\"$ref\":\"#\"}}]}",
    "0{\"additionalProperties\":{\"$ref\":\"#\"},\"maxProperties\":2,\"minProperties\":2}",
    "0{\"$ref\":\"#/properties/%7Ea~1b/items/0\",\"properties\":{\"~a/b\":{\"items\":[{}]}}}",
    "0[1,2",
    "0\"\\ud800\"",
    "0true",
    "1(a|b)*abb\377abab",
    "1[\\w.+-]+@[a-z]{2,8}(\\.[a-z]+){1,3}\377a@b",
    "1^(?:x{3,5}y?|[^a-c\\d]*?)$",
    "1(a{1,50}){1,50}b",
    "1((((a?)*)*)*)*c",
    "1(a|aa|aaa|b)*a(a|b){12}",
    "1\\u{1F600}|\\x41|\\cA|[\\s\\S]",
    "1(?<n>\\d{4})-\\u00e9[\\]\\-z]",
    "1(a*)*(b*)*(a*b*)*$",
    "1[^]",
    "1a{10000}{10000}",
    "1(|a|)+",
    "2root ::= \"a\" b* # a comment\nb ::= \"b\" | \n \"c\" [x-z]{2,3}\n\377ab",
    "2root ::= expr\nexpr ::= term ([-+] term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n\377(1+2",
    "2root ::= \"(\" root \")\" | \"\"\n\377(((",
    "2root ::= a a a\na ::= b b b\nb ::= c c c\nc ::= \"x\"?\n",
    "2root ::= [^\\n]* . \"\\u00e9\\x41\\n\" ( \"a\" | ( \"b\" ){2} )+",
    "2root ::= x{1,1000}\nx ::= y{1,1000}\ny ::= \"z\"?",
    "2root ::= a | b\na ::= \"\" b\nb ::= \"\" a | \"y\"",
    "2root ::= e* \"z\"\ne ::= \"\" | \"e\" e"};

/* What is put into texts: parts of the notations. */
static const char *const parts[] = {"\"type\":",
                                    "\"object\"",
                                    "\"string\"",
                                    "\"integer\"",
                                    "\"array\"",
                                    "\"null\"",
                                    "\"enum\":[",
                                    "\"const\":",
                                    "\"properties\":{",
                                    "\"required\":[\"a\"],",
                                    "\"additionalProperties\":",
                                    "\"patternProperties\":{\"^a\":",
                                    "\"propertyNames\":",
                                    "\"minProperties\":2,",
                                    "\"maxProperties\":1,",
                                    "\"items\":",
                                    "\"prefixItems\":[",
                                    "\"additionalItems\":",
                                    "\"contains\":",
                                    "\"minItems\":3,",
                                    "\"maxItems\":2,",
                                    "\"uniqueItems\":true,",
                                    "\"minLength\":2,",
                                    "\"maxLength\":900,",
                                    "\"pattern\":\"",
                                    "\"format\":\"uri\",",
                                    "\"minimum\":",
                                    "\"exclusiveMaximum\":",
                                    "\"multipleOf\":",
                                    "\"allOf\":[",
                                    "\"anyOf\":[",
                                    "\"oneOf\":[",
                                    "\"not\":{",
                                    "\"if\":{",
                                    "\"then\":{",
                                    "\"else\":{",
                                    "\"$ref\":\"#\",",
                                    "\"$ref\":\"#/$defs/x\",",
                                    "\"$defs\":{\"x\":",
                                    "\"dependentSchemas\":{\"a\":",
                                    "\"dependencies\":{\"a\":[\"b\"]},",
                                    "true",
                                    "false",
                                    "null",
                                    "{}",
                                    "[]",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ",",
                                    "-1",
                                    "0.5",
                                    "1e99",
                                    "-0.0",
                                    "99999999999999999999",
                                    "1000",
                                    "\"a\"",
                                    "\"\\u0000\"",
                                    "\"\"",
                                    "(",
                                    ")",
                                    "(?:",
                                    "|",
                                    "*",
                                    "+",
                                    "?",
                                    "{2,9}",
                                    "{1000}",
                                    "{0,}",
                                    "[^a]",
                                    "[a-z",
                                    "\\d",
                                    "\\S",
                                    "\\u{",
                                    "^",
                                    "$",
                                    "(?=",
                                    "\\1",
                                    "\\p{L}",
                                    ".",
                                    " ::= ",
                                    "root",
                                    "\n",
                                    "\"x\"",
                                    "#",
                                    "\xc3\xa9",
                                    "\xf0\x9f",
                                    "\xed\xa0\x80",
                                    "\377"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct seed {
    uint8_t *p;
    size_t n;
} seeds[MAX_SEEDS];
static size_t n_seeds;

static volatile int current; /* case */
static uint64_t rng_state;

static size_t below(size_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = rng_state >> 29;
    return (size_t)((x ^ x >> 17) % n);
}

static void add_seed(const char *first, size_t n_first, const char *text, size_t n)
{
    struct seed *s = &seeds[n_seeds++];
    if (n_seeds > MAX_SEEDS || !(s->p = malloc(n_first + n + 1))) abort();
    memcpy(s->p, first, n_first);
    memcpy(s->p + n_first, text, n);
    s->n = n_first + n;
}

/* Small schemas of SHARED; 0: they are not there. */
static int add_shared(const char *shared)
{
    static char line[4 << 20];
    char path[1024];
    int n = 0, k = 0;
    snprintf(path, sizeof path, "%s/data/json_schema/schemas.jsonl.gz", shared);
    gzFile f = gzopen(path, "rb");
    while (f && gzgets(f, line, sizeof line) && n < MAX_SHARED) {
        struct err e;
        json_t *j = json_read(line, strlen(line), JSON_ALLOW_NUL, NULL, &e);
        char *text = json_dumps(json_object_get(j, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
        if (text && strlen(text) < SHARED_BYTES && k++ % 4 == 0) {
            add_seed("0", 1, text, strlen(text));
            n++;
        }
        free(text);
        json_decref(j);
    }
    if (f) gzclose(f);
    return n;
}

/* Replaces CUT bytes at AT with PUT [n]. */
static void splice(uint8_t *b, size_t *n, size_t at, size_t cut, const void *put, size_t n_put)
{
    uint8_t keep[MAX_BYTES];
    if (at > *n) at = *n;
    if (cut > *n - at) cut = *n - at;
    size_t behind = *n - at - cut;
    if (at + n_put + behind > MAX_BYTES) return;
    memcpy(keep, put, n_put);
    memmove(b + at + n_put, b + at + cut, behind);
    memcpy(b + at, keep, n_put);
    *n = at + n_put + behind;
}

static void change(uint8_t *b, size_t *n)
{
    const struct seed *other = &seeds[below(n_seeds)];
    size_t at = 1 + below(*n), length = 1 + below(24), from;
    const char *part = parts[below(COUNT(parts))];
    uint8_t byte = (uint8_t)below(256);
    switch (below(9)) {
    case 0: splice(b, n, at, 1, &byte, 1); break;
    case 1: splice(b, n, at, length, "", 0); break;
    case 2:
    case 3:
    case 4: splice(b, n, at, below(3) ? 0 : length, part, strlen(part)); break;
    case 5: /* a piece of itself again, several times */
        from = at < *n ? at : *n - 1;
        if (length > *n - from) length = *n - from;
        for (size_t i = 0, times = 1 + below(below(8) ? 3 : 200); i < times; i++)
            splice(b, n, from, 0, b + from, length);
        break;
    case 6: /* a piece of another */
        from = below(other->n);
        if (length * 4 > other->n - from) length = (other->n - from) / 4;
        splice(b, n, at, 0, other->p + from, length * 4);
        break;
    case 7: /* nested within itself */
        for (size_t i = 0, times = 1 + below(300); i < times; i++)
            splice(b, n, at, 0, part, strlen(part));
        break;
    default: *n = 1 + below(*n);
    }
    if (*n == 0) *n = 1;
}

/* The bytes of case K: a seed as it is, or changed. */
static size_t make_case(int k, uint64_t seed, uint8_t *b)
{
    rng_state = (seed << 32) + (uint64_t)k;
    below(2);
    const struct seed *s = (size_t)k < n_seeds ? &seeds[k] : &seeds[below(n_seeds)];
    /* those of this file more often than those of SHARED */
    if ((size_t)k >= n_seeds && below(2)) s = &seeds[below(COUNT(own))];
    size_t n = s->n;
    memcpy(b, s->p, n);
    if ((size_t)k < n_seeds) return n;
    for (size_t i = 0, times = 1 + below(6); i < times; i++) change(b, &n);
    if (below(8) == 0) b[0] = (uint8_t)('0' + below(16));
    return n;
}

static void show(const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n && i < 600; i++)
        if (b[i] < ' ' || b[i] > '~') printf("\\x%02x", b[i]);
        else putchar(b[i]);
    printf(n > 600 ? "... (%zu bytes)\n" : "\n", n);
}

/* Says which case it was, from within a signal. */
static void on_signal(int signal_number)
{
    char text[] = "\nFAIL case          : a crash, or more than 60 s of processor time\n";
    int k = current;
    for (char *p = strchr(text, ':') - 2; k; k /= 10) *p-- = (char)('0' + k % 10);
    if (write(1, text, sizeof text - 1) < 0) _exit(3);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void limit(void)
{
    const struct itimerval t = {.it_value = {.tv_sec = CASE_SECONDS}};
    setitimer(ITIMER_PROF, &t, NULL);
}

static int write_seeds(const char *dir)
{
    char path[1024];
    for (size_t i = 0; i < n_seeds; i++) {
        snprintf(path, sizeof path, "%s/seed-%03zu", dir, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(seeds[i].p, 1, seeds[i].n, f) != seeds[i].n || fclose(f)) {
            perror(path);
            return 1;
        }
    }
    return 0;
}

static int run_cases(int n_cases, uint64_t seed, int only)
{
    static uint8_t b[MAX_BYTES];
    struct grammar_cost slowest[2] = {{0}};
    int slowest_case[2] = {0}, n_failed = 0, n_served = 0, n_run = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int k = 0; k < n_cases; k++) {
        struct grammar_cost cost;
        const char *why;
        if (only >= 0 && k != only) continue;
        size_t n = make_case(k, seed, b);
        current = k;
        limit();
        if (only >= 0) show(b, n);
        int rc = grammar_input_try(b, n, &cost, &why);
        if (!rc && cost.open > most_seconds) why = "too slow to open", rc = -1;
        if (!rc && cost.step > most_seconds) why = "a mask is too slow", rc = -1;
        if (rc) {
            printf("FAIL case %d: %s (%.2f s to open, %.2f s a mask)\n", k, why, cost.open,
                   cost.step);
            show(b, n);
        }
        if (only >= 0)
            printf("%.3f s to open, %.3f s a mask: %s\n", cost.open, cost.step,
                   cost.is_served ? "served" : cost.refusal);
        n_run++;
        n_failed += rc != 0;
        n_served += cost.is_served;
        if (cost.open > slowest[0].open) slowest[0] = cost, slowest_case[0] = k;
        if (cost.step > slowest[1].step) slowest[1] = cost, slowest_case[1] = k;
    }
    printf("%d grammars, %d served; slowest to open %.0f ms (case %d), slowest mask %.0f ms (case "
           "%d)\n",
           n_run, n_served, 1e3 * slowest[0].open, slowest_case[0], 1e3 * slowest[1].step,
           slowest_case[1]);
    printf("fuzz_grammar: %d passed, %d failed, 0 skipped\n", n_run - n_failed, n_failed);
    return n_failed != 0;
}

int main(int argc, char **argv)
{
    int n_cases = 3000, only = -1, i = 1;
    uint64_t seed = 1;
    const char *to = NULL;
    for (size_t k = 0; k < COUNT(own); k++) add_seed("", 0, own[k], strlen(own[k]));
    if (argc > 1 && argv[1][0] != '-') add_shared(argv[i++]);
    for (; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--cases")) n_cases = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--only")) only = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--write")) to = argv[i + 1];
        else break;
    }
    if (i < argc) {
        fprintf(stderr, "usage: fuzz_grammar [SHARED_DIR] [--cases N] [--seed S] [--only CASE] "
                        "[--write DIR]\n");
        return 2;
    }
#ifndef __SANITIZE_ADDRESS__
    const struct rlimit memory = {2ul << 30, 2ul << 30};
    setrlimit(RLIMIT_AS, &memory);
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    for (size_t k = 0; k < COUNT(deadly); k++) signal(deadly[k], on_signal);
#endif
    signal(SIGPROF, on_signal);
    int rc = to ? write_seeds(to) : run_cases(n_cases, seed, only);
    while (n_seeds) free(seeds[--n_seeds].p);
    return rc;
}
