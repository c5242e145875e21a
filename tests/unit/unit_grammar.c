/* unit_grammar.c: what may follow a text, against other judges of whole texts: regular expressions
 * against PCRE2 on all short texts of a small alphabet, JSON against jansson, grammars against
 * texts by hand; masks against one token at a time; places kept while everything else is forgotten.
 */
#include "core/base/json.h"
#include "core/grammar/grammar.h"
#include "core/grammar/notation.h"
#include "core/grammar/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- a vocabulary: every byte, and some texts */

#define THINK "\xff<think>\xff" /* special tokens, as free_text.h has them */
#define UNTHINK "\xff</think>\xff"
#define INST "\xff[INST]\xff"
static const char *const texts[] = {"ab",    "ba", "aab",    "\":",    "{\"", "\"}",      "\"a",
                                    "true",  "1,", " ,",     "}}",     "a}}", "\xc3\xa9", "\xa9",
                                    "]}",    "00", "a\"",    "\\u",    "bc",  "abc",      THINK,
                                    UNTHINK, INST, "<tool>", "</tool>"};
enum { N_TEXTS = sizeof texts / sizeof *texts, N_TOKENS = 256 + N_TEXTS };

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    char *all = arg;
    *bytes = id < 256 ? 1 : strlen(texts[id - 256]);
    return id < 256 ? all + id : texts[id - 256];
}

static struct vocab *vocab_of_test(void)
{
    static char all[256];
    struct vocab *v;
    struct err e;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    const struct vocab_source source = {N_TOKENS, token, all};
    assert_int_equal(vocab_open(&v, &source, &e), 0);
    return v;
}

static struct grammar *grammar_of(const struct vocab *v, enum grammar_kind kind, const char *text)
{
    const struct grammar_spec spec = {
        .kind = kind, .text = text, .bytes = strlen(text), .space = JSON_SPACE_ANY};
    struct grammar *g = NULL;
    struct err e = {0};
    if (grammar_open(&g, &spec, v, &e)) print_message("%s: %s\n", text, e.msg);
    assert_non_null(g);
    return g;
}

/* 1: TEXT [n] can be read; *ends: and may end there. */
static int reads(struct grammar *g, const char *text, size_t n, int *ends)
{
    struct grammar_cursor *c;
    struct err e;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    int ok = grammar_accept(c, text, n, &e);
    assert_true(ok >= 0);
    *ends = ok && grammar_may_end(c);
    grammar_cursor_close(c);
    return ok;
}

/* The mask of a cursor allows a token exactly when the token can be accepted. */
static void check_mask(const struct vocab *v, struct grammar *g, const char *text, size_t n)
{
    uint32_t bits[(N_TOKENS + 31) / 32];
    struct grammar_cursor *c, *d;
    struct err e;
    int n_allowed, found = 0, ends;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    assert_int_equal(grammar_accept(c, text, n, &e), 1);
    assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
    for (int32_t id = 0; id < N_TOKENS; id++) {
        size_t bytes;
        const char *t = vocab_token(v, id, &bytes);
        char all[64];
        assert_true(n + bytes < sizeof all);
        memcpy(all, text, n);
        memcpy(all + n, t, bytes);
        int allowed = bits[id / 32] >> id % 32 & 1;
        assert_int_equal(allowed, reads(g, all, n + bytes, &ends));
        found += allowed;
    }
    assert_int_equal(found, n_allowed);
    assert_true(n_allowed > 0 || grammar_may_end(c));
    assert_int_equal(grammar_must_end(c), n_allowed == 0);
    assert_int_equal(grammar_cursor_open(&d, g, &e), 0);
    grammar_cursor_close(c);
    grammar_cursor_close(d);
}

/* Each of GOOD [4] is a text of the language, none of BAD [4] is. */
static void check_texts(struct grammar *g, const char *const good[], const char *const bad[])
{
    int ends;
    for (int k = 0; k < 4 && good[k]; k++) {
        assert_int_equal(reads(g, good[k], strlen(good[k]), &ends), 1);
        assert_int_equal(ends, 1);
    }
    for (int k = 0; k < 4 && bad[k]; k++) {
        reads(g, bad[k], strlen(bad[k]), &ends);
        assert_int_equal(ends, 0);
    }
}

/* None of TEXT [n] is taken. */
static void check_refused(const struct vocab *v, enum grammar_kind kind, const char *const text[],
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct grammar_spec spec = {.kind = kind, .text = text[i], .bytes = strlen(text[i])};
        struct grammar *g;
        struct err e = {0};
        if (!grammar_open(&g, &spec, v, &e)) print_message("'%s' is taken\n", text[i]);
        assert_true(e.msg[0] != 0);
    }
}

/* ---- regular expressions */

static const char alphabet[] = "ab0";
enum { LONGEST = 7 };
static int has_anchors; /* of the expressions that are written */

/* All texts of the alphabet up to LONGEST: which match, and which begin one that does. */
static void judge(pcre2_code *code, pcre2_match_data *data, char *text, int n, char *match,
                  char *begins, int *at)
{
    int me = (*at)++;
    match[me] = pcre2_match(code, (PCRE2_SPTR)text, (size_t)n, 0,
                            PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, NULL) >= 0;
    begins[me] = match[me];
    if (n == LONGEST) return;
    for (const char *c = alphabet; *c; c++) {
        int child = *at;
        text[n] = *c;
        judge(code, data, text, n + 1, match, begins, at);
        begins[me] |= begins[child];
    }
}

static int compare(struct grammar *g, char *text, int n, const char *match, const char *begins,
                   int *at)
{
    int me = (*at)++, ends, bad = 0, ok = reads(g, text, (size_t)n, &ends);
    if (ends != match[me]) bad++;
    /* a text that begins no short match may begin a longer one */
    if (begins[me] && !ok) bad++;
    if (!has_anchors && !begins[me] && ok && n == 0) bad++;
    if (bad)
        print_message("'%.*s': reads %d, ends %d, PCRE2 says %d\n", n, text, ok, ends, match[me]);
    if (n == LONGEST) return bad;
    for (const char *c = alphabet; *c; c++) {
        text[n] = *c;
        bad += compare(g, text, n + 1, match, begins, at);
    }
    return bad;
}

/* A random expression whose matches, if any, include one of at most LONGEST characters. */
static int write_regex(unsigned *seed, char *p, int depth)
{
    if (has_anchors && rand_r(seed) % 5 == 0) return sprintf(p, "%c", "^$"[rand_r(seed) % 2]);
    unsigned r = rand_r(seed) % (depth ? 9 : 4);
    int n = 0;
    switch (r) {
    case 0: return sprintf(p, "%c", alphabet[rand_r(seed) % 3]);
    case 1: return sprintf(p, "[%c-b]", 'a' + (char)(rand_r(seed) % 2));
    case 2: return sprintf(p, "\\d");
    case 3: return sprintf(p, "[^a]");
    case 4:
    case 5: n = write_regex(seed, p, depth - 1); return n + write_regex(seed, p + n, depth - 1);
    case 6:
        n = sprintf(p, "(");
        n += write_regex(seed, p + n, depth - 1);
        n += sprintf(p + n, "|");
        n += write_regex(seed, p + n, depth - 1);
        return n + sprintf(p + n, ")");
    default:
        n = sprintf(p, "(?:");
        n += write_regex(seed, p + n, depth - 1);
        static const char *const many[] = {")*", ")+", ")?", "){2}", "){0,2}", "){1,}", ")*?"};
        return n + sprintf(p + n, "%s", many[rand_r(seed) % 7]);
    }
}

static void regex_against_pcre2(void **state)
{
    static char match[4096], begins[4096];
    struct vocab *v = vocab_of_test();
    unsigned seed = 1;
    int n_empty = 0;
    (void)state;
    for (int i = 0; i < 1200; i++) {
        char text[2000], word[LONGEST + 1];
        has_anchors = i >= 400;
        int code_error, at = 0;
        size_t offset;
        write_regex(&seed, text, 3);
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                         PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY, &code_error, &offset,
                                         NULL);
        assert_non_null(code);
        pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
        judge(code, data, word, 0, match, begins, &at);
        const struct grammar_spec spec = {
            .kind = GRAMMAR_REGEX, .text = text, .bytes = strlen(text)};
        struct grammar *g = NULL;
        struct err e;
        if (grammar_open(&g, &spec, v, &e)) { /* no text: an anchor never holds */
            if (!has_anchors || begins[0]) fail_msg("'%s': %s", text, e.msg);
            assert_non_null(strstr(e.msg, "no text at all"));
            n_empty++;
            pcre2_match_data_free(data);
            pcre2_code_free(code);
            continue;
        }
        at = 0;
        int bad = compare(g, word, 0, match, begins, &at);
        if (bad) print_message("of '%s'\n", text);
        assert_int_equal(bad, 0);
        check_mask(v, g, "", 0);
        grammar_close(g);
        pcre2_match_data_free(data);
        pcre2_code_free(code);
    }
    assert_in_range(n_empty, 20, 600);
    vocab_close(v);
}

static void regex_by_hand(void **state)
{
    static const struct {
        const char *regex, *good[4], *bad[4];
    } cases[] = {
        {"^\\d{3}-\\d{4}$", {"555-1234"}, {"555-123", "555-12345", "x"}},
        {"[\\w.]+@[a-z]+\\.(com|org)", {"a.b@c.com", "x_1@yy.org"}, {"@c.com", "a@b.net"}},
        {"\\u00e9|\\x41|\\cA|\\u{1F600}", {"\xc3\xa9", "A", "\x01", "\xf0\x9f\x98\x80"}, {"e"}},
        {"\\u0041\\u0042", {"AB"}, {"A", "B"}},
        {"\\ud83d\\ude00", {"\xf0\x9f\x98\x80"}, {"\xed\xa0\xbd"}},
        {"[^\\x00-\\x7f]{2}", {"\xc3\xa9\xe2\x82\xac"}, {"\xc3\xa9", "ab", "\xc3\xa9\xed\xa0\x80"}},
        {"[a\\]\\-z]+", {"a]-z"}, {"b"}},
        {"a{0}b", {"b"}, {"ab", ""}},
        {"(?<year>\\d{4})\\/x\\.", {"2026/x."}, {"2026/xy"}},
        {"[\\s\\S]", {"\n", "a", "\xf4\x8f\xbf\xbf"}, {"", "ab", "\xf4\x90\x80\x80"}},
        {"", {""}, {"a"}},
        {"(^a$)|(?P<x>^b$)", {"a", "b"}, {"", "ab", "c"}},
        {"^(a$|b)c?$", {"a", "b", "bc"}, {"ac", "", "c"}},
        {"(^|x)a(?:$|,)", {"a", "xa", "a,", "xa,"}, {"", "x", "xa,,"}},
        {"(?:a|^)*b", {"b", "ab", "aab"}, {"a", ""}},
    };
    static const char *const refused[] = {
        "(?=a)b", "a\\1", "a\\b", "[b-a]",   "a{2,1}",        "(a",     "a)", "a{b}",     "*a",
        "[a",     "a\\",  "b^a",  "a$b",     "\\p{L}",        "\\u00e", "[]", "a{20000}", "(?i)a",
        "(?P=x)", "^*a",  "a$+",  "\\ud83d", "\\ud83d\\u0041"};
    struct vocab *v = vocab_of_test();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = grammar_of(v, GRAMMAR_REGEX, cases[i].regex);
        check_texts(g, cases[i].good, cases[i].bad);
        grammar_close(g);
    }
    check_refused(v, GRAMMAR_REGEX, refused, sizeof refused / sizeof *refused);
    vocab_close(v);
}

/* ---- JSON */

static int is_json_object(const char *text, size_t n)
{
    struct err e = {0};
    json_t *j = json_read(text, n, JSON_ALLOW_NUL, NULL, &e);
    int ok = json_is_object(j);
    json_decref(j);
    return ok;
}

/* Numbers that jansson cannot hold: a large exponent, many digits. */
static int has_large_number(const char *text, size_t n)
{
    for (size_t i = 0, run = 0; i < n; i++) {
        run = strchr("0123456789", text[i]) && text[i] ? run + 1 : 0;
        size_t before = i - run; /* the character in front of the digits, or its sign */
        if (run > 17) return 1;
        if (run > 2 && i >= run) {
            if (before > 0 && strchr("+-", text[before])) before--;
            if (text[before] == 'e' || text[before] == 'E') return 1;
        }
    }
    return 0;
}

/* Random walks by the masks end in documents that jansson reads, however they are cut; random
 * changes of them are judged alike. */
static void json_against_jansson(void **state)
{
    struct vocab *v = vocab_of_test();
    struct grammar *g = grammar_of(v, GRAMMAR_JSON, "");
    unsigned seed = 7;
    int n_whole = 0;
    (void)state;
    for (int i = 0; i < 3000; i++) {
        uint32_t bits[(N_TOKENS + 31) / 32];
        struct grammar_cursor *c;
        struct err e;
        char text[400];
        size_t n = 0;
        int n_allowed;
        assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
        while (n < 300 && !grammar_must_end(c)) {
            assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
            assert_true(n_allowed > 0);
            int32_t id = -1;
            for (int tries = 0; id < 0; tries++) { /* what closes, more often than not */
                static const char *const liked = "{}\"\":,[]}1";
                int32_t k = tries < 20 && rand_r(&seed) % 2 ? liked[rand_r(&seed) % 10]
                                                            : (int32_t)(rand_r(&seed) % N_TOKENS);
                if (bits[k / 32] >> k % 32 & 1) id = k;
            }
            size_t bytes;
            const char *t = vocab_token(v, id, &bytes);
            memcpy(text + n, t, bytes);
            n += bytes;
            assert_int_equal(grammar_accept_token(c, id, &e), 1);
        }
        int ends = grammar_must_end(c);
        grammar_cursor_close(c);
        if (!ends || has_large_number(text, n)) continue;
        n_whole++;
        if (!is_json_object(text, n)) print_message("%.*s\n", (int)n, text);
        assert_true(is_json_object(text, n));
        text[rand_r(&seed) % n] = "{}\"x1,:\\\xc3"[rand_r(&seed) % 9];
        if (has_large_number(text, n)) continue;
        reads(g, text, n, &ends);
        int has_space = 0; /* which a parser takes where a grammar does not */
        for (size_t k = 0; k < n; k++) has_space |= strchr(" \t\r\n", text[k]) && text[k];
        if (has_space ? ends && !is_json_object(text, n) : ends != is_json_object(text, n)) {
            print_message("%d: %.*s\n", ends, (int)n, text);
            assert_true(0);
        }
    }
    assert_true(n_whole > 500);
    check_mask(v, g, "{\"a", 3);
    check_mask(v, g, "{\"\\u", 4);
    check_mask(v, g, "{\"a\":[1", 7);
    check_mask(v, g, "{\"\xc3", 3);
    grammar_close(g);
    const struct grammar_spec spec = {.kind = GRAMMAR_JSON, .text = "", .space = JSON_SPACE_NONE};
    struct err e;
    int ends;
    assert_int_equal(grammar_open(&g, &spec, v, &e), 0);
    assert_int_equal(reads(g, "{\"a\":[1,2]}", 11, &ends), 1);
    assert_int_equal(ends, 1);
    assert_int_equal(reads(g, "{ ", 2, &ends), 0);
    grammar_close(g);
    vocab_close(v);
}

/* ---- grammars */

static void grammars_by_hand(void **state)
{
    static const struct {
        const char *text, *good[4], *bad[4];
    } cases[] = {
        {"root ::= \"a\" b* # a comment\nb ::= \"b\" |\n  \"c\"\n",
         {"a", "abcb"},
         {"", "b", "abd"}},
        {"root ::= ( \"x\" |\n\"y\" ){2,3} [^x-z]?", {"xy", "xyx", "yya"}, {"x", "xyxx", "xyxyx"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "((()))"}, {"(()", ")"}},
        {"expr ::= term ( [-+] term )*\nterm ::= [0-9]+ | \"(\" expr \")\"\nroot ::= expr",
         {"1+2", "(1-(2+3))+44"},
         {"1+", "(1", "1)"}},
        {"root ::= \"\\u00e9\" . \"\\x41\"",
         {"\xc3\xa9\xe2\x82\xac"
          "A"},
         {"\xc3\xa9"
          "A"}},
        {"root ::= ((\"a\")*)* \"b\"", {"b", "aab"}, {"a"}},
        {"root ::= e e \"z\"\ne ::= \"\" | \"e\" e", {"z", "eeez"}, {"e"}},
        {"root ::= \"a\" | loop\nloop ::= \"x\" loop", {"a"}, {"x", ""}},
    };
    static const char *const refused[] = {"root ::= root \"a\" | \"b\"",
                                          "root ::= a\na ::= b \"x\"\nb ::= \"\" a | \"y\"",
                                          "root ::= missing",
                                          "other ::= \"a\"",
                                          "root ::= \"a",
                                          "root ::= [a",
                                          "root ::= (\"a\"",
                                          "root ::= \"a\")",
                                          "root ::= \"a\"\nroot ::= \"b\"",
                                          "root = \"a\"",
                                          "root ::= \"a\"{3,2}",
                                          "root ::= loop\nloop ::= \"x\" loop",
                                          "root ::= \"\\q\"",
                                          "root ::= [b-a]",
                                          "root ::= n\nn ::= e n \"a\" | \"b\"\ne ::= \"\" | \"e\"",
                                          ""};
    struct vocab *v = vocab_of_test();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = grammar_of(v, GRAMMAR_GBNF, cases[i].text);
        check_texts(g, cases[i].good, cases[i].bad);
        check_mask(v, g, "", 0);
        grammar_close(g);
    }
    check_refused(v, GRAMMAR_GBNF, refused, sizeof refused / sizeof *refused);
    vocab_close(v);
}

/* Tokens: special ones are told from their spelling, those of text are their text. */
static void tokens_in_gbnf(void **state)
{
    static const struct {
        const char *text, *good[4], *bad[4];
    } cases[] = {
        {"root ::= <think> thought </think> .*\nthought ::= !</think>*",
         {THINK "ab" UNTHINK "z", THINK INST "</think>" THINK UNTHINK, THINK UNTHINK},
         {"<think>ab</think>z", THINK UNTHINK "z" UNTHINK, THINK "a", THINK "</think>"}},
        {"root ::= <[278]>{2} (!<[278]>+ \"b\" | <think>)",
         {INST INST "ab", INST INST UNTHINK "b", INST INST THINK},
         {INST INST "b", INST INST "a" INST "b", INST "ab", "[INST][INST]ab"}},
        {"root ::= <tool> !</tool>* </tool>",
         {"<tool>a</b</tool>", "<tool></tool>", "<tool><tool></tool>"},
         {"<tool></tool></tool>", "<tool>", "</tool>"}},
    };
    static const char *const refused[] = {
        "root ::= <missing>", "root ::= <[97]>",    "root ::= <[999999]>", "root ::= <[x]>",
        "root ::= <[278>",    "root ::= !<think>",  "root ::= !<think>?",  "root ::= !\"a\"",
        "root ::= <think",    "root ::= !</tool>+", "root ::= !<[97]>*",   "root ::= !<missing>*",
        "root ::= <thi\nnk>", "root ::= <>",        "root ::= ! <think>*"};
    struct vocab *v = vocab_of_test();
    (void)state;
    assert_string_equal(texts[278 - 256], INST);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = grammar_of(v, GRAMMAR_GBNF, cases[i].text);
        check_texts(g, cases[i].good, cases[i].bad);
        check_mask(v, g, "", 0);
        for (size_t n = 1; n < strlen(cases[i].good[0]); n++)
            if (strchr(cases[i].good[0], 'a') == cases[i].good[0] + n)
                check_mask(v, g, cases[i].good[0], n);
        grammar_close(g);
    }
    check_refused(v, GRAMMAR_GBNF, refused, sizeof refused / sizeof *refused);
    vocab_close(v);
}

/* BEGIN, then EACH and a number n times with BETWEEN them, and END. */
static char *names_between(const char *begin, const char *each, const char *between,
                           const char *end, int n)
{
    size_t room = strlen(begin) + strlen(end) + (size_t)n * 32 + 1;
    char *text = malloc(room), *p = text + sprintf(text, "%s", begin);
    for (int i = 0; i < n; i++)
        p += sprintf(p, "%s%s%d", i ? between : "", each, (int)((unsigned)i * 7919u % 100003u));
    sprintf(p, "%s%s", strcmp(each, "\"name") ? "" : "\"", end);
    return text;
}

/* Of many names a text is read along few ways; what has too many is refused before it is used. */
static void many_ways(void **state)
{
    enum { N = 20000 };
    static const struct {
        enum grammar_kind kind;
        const char *begin, *each, *between, *end;
    } refused[] = {
        {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(", "name", "|", ")$\"}"},
        {GRAMMAR_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"^(", "name", "|",
         ")$\":true},\"additionalProperties\":false}"},
        {GRAMMAR_REGEX, "x(", "name", "|", ")"},
        {GRAMMAR_GBNF, "root ::= \"x\" (", "\"name", "\"|", ")"},
    };
    static const char *const few =
        "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"ab\",\"a\",\"\u00e9x\",\"\u00e8x\","
        "\"a.b\",\"ab\"]},\"additionalProperties\":{\"const\":1}}";
    static const char *const good[] = {"{\"a\":1}", "{\"ab\":1}", "{\"\u00e8x\":1}", "{\"a.b\":1}"},
                             *const bad[] = {"{\"\":1}", "{\"axb\":1}", "{\"\u00e8\":1}",
                                             "{\"abb\":1}"};
    struct vocab *v = vocab_of_test();
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct grammar *g;
        struct err e = {0};
        char *text = names_between(refused[i].begin, refused[i].each, refused[i].between,
                                   refused[i].end, 2 * N);
        const struct grammar_spec spec = {
            .kind = refused[i].kind, .text = text, .bytes = strlen(text)};
        assert_int_equal(grammar_open(&g, &spec, v, &e), -1);
        assert_non_null(strstr(e.msg, "ways at one place"));
        free(text);
    }
    struct grammar *g = grammar_of(v, GRAMMAR_SCHEMA, few);
    check_texts(g, good, bad);
    check_mask(v, g, "{\"", 2);
    grammar_close(g);
    char *text = names_between("{\"type\":\"object\",\"propertyNames\":{\"enum\":[", "\"name",
                               "\",", "]},\"additionalProperties\":{\"const\":1}}", N);
    g = grammar_of(v, GRAMMAR_SCHEMA, text);
    check_texts(g, (const char *const[4]){"{\"name7919\":1}"},
                (const char *const[4]){"{\"name1\":1}", "{\"name\":1}"});
    check_mask(v, g, "{\"", 2);
    check_mask(v, g, "{\"name", 6);
    grammar_close(g);
    free(text);
    vocab_close(v);
}

/* A rule that stands in itself: its places are those of the whole and those within it, where a
 * token may close both. */
static void rules_within_themselves(void **state)
{
    static const char *const text[] = {"", "{", "{{", "{{a", "{{a}", "{a", "{{{"};
    struct vocab *v = vocab_of_test();
    struct grammar *g = grammar_of(v, GRAMMAR_GBNF,
                                   "root ::= \"{\" ( root | [ab]* ) \"}\" | \"]\" [a-c]* \"0\"");
    (void)state;
    for (int twice = 0; twice < 2; twice++) /* the second time all are kept */
        for (size_t i = 0; i < sizeof text / sizeof *text; i++)
            check_mask(v, g, text[i], strlen(text[i]));
    grammar_close(g);
    vocab_close(v);
}

/* ---- what is kept */

static void forgets_all_but_places(void **state)
{
    static const char nested[] = "root ::= \"(\" root \")\" | \"x\"";
    struct err e;
    struct net *n;
    struct walk *w;
    uint32_t root;
    walk_place at = WALK_START, other = WALK_START;
    (void)state;
    assert_int_equal(net_open(&n, &e), 0);
    assert_int_equal(notation_gbnf(n, nested, strlen(nested), NULL, &root, &e), 0);
    assert_int_equal(net_finish(n, root, &e), 0);
    assert_int_equal(walk_open(&w, n, root, &e), 0);
    for (int i = 0; i < 70000; i++) assert_int_equal(walk_step(w, at, '(', &at, &e), 0);
    assert_true(walk_is_large(w));
    assert_int_equal(walk_forget(w, (walk_place *const[]){&at, &other}, 2, &e), 0);
    assert_false(walk_is_large(w));
    assert_int_equal(other, WALK_START);
    assert_int_equal(walk_step(w, at, 'x', &at, &e), 0);
    for (int i = 0; i < 70000; i++) {
        assert_int_equal(walk_may_end(w, at), 0);
        assert_int_equal(walk_step(w, at, ')', &at, &e), 0);
        assert_true(at != WALK_DEAD);
    }
    assert_int_equal(walk_must_end(w, at), 1);
    walk_close(w);
}

/* 300 groups one after the other, and 40,000 rules, in a few seconds of processor time. */
static void gbnf_of_many_parts(void **state)
{
    enum { GROUPS = 300, RULES = 40000 };
    struct vocab *v = vocab_of_test();
    char *text = malloc(RULES * 40), *p = text;
    clock_t began = clock();
    (void)state;
    assert_non_null(text);
    p += sprintf(p, "root ::=");
    for (int i = 0; i < GROUPS; i++) p += sprintf(p, " (\"a\")");
    struct grammar *g = grammar_of(v, GRAMMAR_GBNF, text);
    grammar_close(g);
    p = text + sprintf(text, "root ::= rule-0\n");
    for (int i = 0; i < RULES; i++) {
        p += sprintf(p, "rule-%d ::= \"a\"", i);
        p += i + 1 < RULES ? sprintf(p, " | \"b\" rule-%d\n", i + 1) : sprintf(p, "\n");
    }
    g = grammar_of(v, GRAMMAR_GBNF, text);
    grammar_close(g);
    assert_true(clock() - began < 10 * CLOCKS_PER_SEC);
    free(text);
    vocab_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regex_against_pcre2),    cmocka_unit_test(regex_by_hand),
        cmocka_unit_test(tokens_in_gbnf),         cmocka_unit_test(many_ways),
        cmocka_unit_test(gbnf_of_many_parts),     cmocka_unit_test(json_against_jansson),
        cmocka_unit_test(grammars_by_hand),       cmocka_unit_test(rules_within_themselves),
        cmocka_unit_test(forgets_all_but_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
