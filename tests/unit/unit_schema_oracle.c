/* unit_schema_oracle.c: random small schemas of all keywords against a validator that is written
 * from the specification (oracle_validator.h): of all documents of a small world, those are taken
 * that it allows; random walks by the masks end, and in documents that it allows. A refused schema
 * is counted by keyword; one refused because nothing fits it must have no document.
 *
 * A program of its own: [--schemas N] [--seed S] tries others. */
#include "core/base/json.h"
#include "core/grammar/call_syntax.h"
#include "core/grammar/grammar.h"
#include "tests/unit/oracle_schemas.h"
#include "tests/unit/oracle_validator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

enum { LONGEST = 64, MAX_DOCUMENTS = 8000, MAX_SHOWN = 12 };
enum { N_WALKS = 8, WALK_BYTES = 4000, WALK_FREE = 30, WALK_TOKENS = 1500 };

static int wanted = 1000;
static uint64_t seed = 1;

/* ---- the documents */

struct document {
    char text[LONGEST];
    json_t *value;
    int group;        /* of those that differ in the order of members alone */
    int is_unspelled; /* a value may be allowed, and not in this spelling: 1.0 */
};
static struct document documents[MAX_DOCUMENTS];
static int n_documents, n_groups;

static void add_document(const char *text)
{
    struct document *d = &documents[n_documents++];
    assert_true(n_documents <= MAX_DOCUMENTS && strlen(text) < LONGEST);
    strcpy(d->text, text);
    d->value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(d->value);
    d->is_unspelled = strstr(text, ".0") || strstr(text, "\\u");
}

__attribute__((format(printf, 1, 2))) static void add_format(const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_document(text);
}

static const char *const scalars[] = {"null",
                                      "true",
                                      "false",
                                      "\"\"",
                                      "\"a\"",
                                      "\"b\"",
                                      "\"ab\"",
                                      "\"ba\"",
                                      "\"\xc3\xa9\"",
                                      "\"abb\"",
                                      "-1",
                                      "0",
                                      "1",
                                      "2",
                                      "3",
                                      "4",
                                      "5",
                                      "6",
                                      "7",
                                      "8",
                                      "9",
                                      "10",
                                      "11",
                                      "12",
                                      "-0.5",
                                      "0.5",
                                      "1.5",
                                      "2.5",
                                      "11.5",
                                      "1.0",
                                      "-1.5",
                                      "3.0",
                                      "\"\\u0061\"",
                                      "\"b\\u0061\"",
                                      "\"\\u00e9\""};
static const char *const items[] = {"null", "true",  "0",      "1",  "2",  "1.5",
                                    "\"\"", "\"a\"", "\"ab\"", "[]", "{}", "1.0"};
static const char *const members[] = {"null", "1",  "2",  "\"a\"", "\"ba\"",
                                      "true", "[]", "{}", "1.5"};
static const char *const nested[] = {"[1]",
                                     "[\"a\"]",
                                     "[1,\"a\"]",
                                     "[2,2]",
                                     "{\"a\":1}",
                                     "{\"b\":\"a\"}",
                                     "{\"ab\":null}",
                                     "{\"a\":\"b\",\"b\":1}",
                                     "[[]]",
                                     "[{}]",
                                     "{\"a\":{}}",
                                     "[null,true]",
                                     "{\"a\":1,\"ab\":true}",
                                     "{\"b\":1,\"a\":\"b\"}",
                                     "{\"ab\":true,\"a\":1}"};
static const char *const all_names[] = {"a", "b", "ab", "c"};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static void add_arrays(void)
{
    add_document("[]");
    for (int i = 0; i < COUNT(items); i++) {
        add_format("[%s]", items[i]);
        for (int k = 0; k < COUNT(items); k++) {
            add_format("[%s,%s]", items[i], items[k]);
            for (int m = 0; m < COUNT(items) && i % 2 && k % 2; m += 2)
                add_format("[%s,%s,%s]", items[i], items[k], items[m]);
        }
    }
    for (int i = 0; i < COUNT(nested); i++) {
        add_format("[%s]", nested[i]);
        add_format("[%s,1]", nested[i]);
        add_format("[\"a\",%s]", nested[i]);
    }
}

/* An object of these members, which are not none, in every order. */
static void add_orders(const char *const member[3])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int m = 3 - i - k;
            if (i == k || (!member[2] && (k == 2 || i == 2))) continue;
            if (member[2]) add_format("{%s,%s,%s}", member[i], member[k], member[m]);
            else add_format("{%s,%s}", member[i], member[k]);
        }
}

static const char *member_of(char *to, int name, const char *value)
{
    snprintf(to, LONGEST, "\"%s\":%s", all_names[name], value);
    return to;
}

static void add_objects(void)
{
    int n = COUNT(all_names), n_members = COUNT(members);
    char a[LONGEST], b[LONGEST], c[LONGEST];
    const char *member[3] = {a, b, NULL};
    add_document("{}");
    for (int i = 0; i < n; i++) {
        for (int x = 0; x < n_members; x++) add_format("{%s}", member_of(a, i, members[x]));
        for (int x = 0; x < COUNT(nested); x++) add_format("{%s}", member_of(a, i, nested[x]));
        for (int k = 0; k < i; k++) {
            for (int x = 0; x < n_members * n_members; x++) {
                member_of(a, i, members[x % n_members]);
                member_of(b, k, members[x / n_members]);
                add_orders(member);
            }
            for (int x = 0; x < COUNT(nested); x++) {
                member_of(a, i, nested[x]);
                member_of(b, k, k % 2 ? "1" : "\"a\"");
                add_orders(member);
            }
        }
        for (int k = 0; k < n && i == 0; k++) /* all names but one */
            for (int x = 0; x < 27; x++) {
                member_of(a, k == 0, members[x % 3]);
                member_of(b, k <= 1 ? 2 : 1, members[x / 3 % 3]);
                member_of(c, k <= 2 ? 3 : 2, members[x / 9 % 3]);
                add_orders((const char *[]){a, b, c});
            }
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct document *)a)->text, ((const struct document *)b)->text);
}

/* Names that are spelled otherwise. */
static void add_escapes(void)
{
    for (int x = 0; x < COUNT(members); x++) {
        add_format("{\"\\u0061\":%s}", members[x]);
        add_format("{\"a\\u0062\":%s}", members[x]);
        add_format("{\"\\u0062\":%s,\"a\":1}", members[x]);
        add_format("{\"\\u0063\":%s}", members[x]);
    }
}

/* All documents, sorted, so that those that begin alike are beside each other. */
static void make_documents(void)
{
    json_t *groups = json_object();
    for (int i = 0; i < COUNT(scalars); i++) add_document(scalars[i]);
    add_arrays();
    add_objects();
    add_escapes();
    qsort(documents, (size_t)n_documents, sizeof *documents, by_text);
    for (int i = 0; i < n_documents; i++) {
        char *key = json_dumps(documents[i].value, JSON_SORT_KEYS | JSON_ENCODE_ANY);
        json_t *known = json_object_get(groups, key);
        if (!known) json_object_set_new(groups, key, known = json_integer(n_groups++));
        documents[i].group = (int)json_integer_value(known);
        free(key);
    }
    json_decref(groups);
}

/* ---- the vocabulary: every byte, and texts that go over the ends of JSON's parts */

static const char *const tokens[] = {
    "{\"",    "\":",  "\",\"", "\"}",     "\"}}", "}}",       "}]",      "],", "\"a\"", "\"b\"",
    "\"ab\"", "a\":", "b\":",  "true",    "null", "1,",       "12",      "1}", "[[",    "[{\"",
    "[\"",    ",\"",  "\"\"",  "\"a\":1", "\\\"", "\xc3\xa9", "\\u0061", "ab", "0.5",   "false"};
enum { N_TOKENS = 256 + sizeof tokens / sizeof *tokens };

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    *bytes = id < 256 ? 1 : strlen(tokens[id - 256]);
    return id < 256 ? (char *)arg + id : tokens[id - 256];
}

static struct vocab *vocab;

static void make_vocab(void)
{
    static char all[256];
    struct err e;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    const struct vocab_source source = {N_TOKENS, token, all};
    assert_int_equal(vocab_open(&vocab, &source, &e), 0);
}

/* ---- one schema against the validator */

struct verdict {
    int is_served, is_empty, is_lost; /* is_lost: the specification has no answer */
    int n_differences, n_walks, n_whole, n_endless, n_twice;
    int show;          /* so many differences are printed */
    char refusal[256]; /* where it is not served */
    char difference[WALK_BYTES + 200];
};

static void differ(struct verdict *r, const char *what, const char *text, size_t n)
{
    if (r->n_differences++ == 0)
        snprintf(r->difference, sizeof r->difference, "%s: %.*s", what, (int)n, text);
    if (r->show-- > 0) print_message("    %s: %.*s\n", what, (int)n, text);
}

/* 1: an object of several members stands in an enum or const, whose order is the schema's. */
static int orders_values(json_t *x, int in_value)
{
    const char *key;
    json_t *one;
    size_t i;
    if (in_value && json_object_size(x) > 1) return 1;
    json_object_foreach (x, key, one)
        if (orders_values(one, in_value || !strcmp(key, "enum") || !strcmp(key, "const"))) return 1;
    json_array_foreach (x, i, one)
        if (orders_values(one, in_value)) return 1;
    return 0;
}

/* What the grammar says of all documents: taken [n_documents]. */
static void read_documents(struct grammar *g, char *taken)
{
    struct grammar_cursor *at[LONGEST]; /* behind so many bytes of the document before */
    size_t known = 0;                   /* of these */
    struct err e;
    for (int i = 0; i < LONGEST; i++) assert_int_equal(grammar_cursor_open(&at[i], g, &e), 0);
    for (int i = 0; i < n_documents; i++) {
        const char *text = documents[i].text;
        size_t n = 0;
        while (n < known && text[n] == documents[i - 1].text[n]) n++;
        for (known = n; text[known]; known++) {
            grammar_cursor_copy(at[known + 1], at[known]);
            int rc = grammar_accept(at[known + 1], text + known, 1, &e);
            assert_true(rc >= 0);
            if (!rc) break;
        }
        taken[i] = !text[known] && grammar_may_end(at[known]);
    }
    for (int i = 0; i < LONGEST; i++) grammar_cursor_close(at[i]);
}

/* ORDERED: one order of members is enough. */
static void compare_documents(struct grammar *g, json_t *schema, int ordered, struct verdict *r)
{
    static char taken[MAX_DOCUMENTS], is_taken[MAX_DOCUMENTS];
    read_documents(g, taken);
    ordered |= orders_values(schema, 0);
    memset(is_taken, 0, sizeof is_taken);
    for (int i = 0; i < n_documents; i++) is_taken[documents[i].group] |= taken[i];
    for (int i = 0; i < n_documents; i++) {
        const struct document *d = &documents[i];
        struct validator v = {.root = schema};
        int allowed = valid(&v, schema, d->value);
        if (v.is_lost) r->is_lost = 1;
        if (v.is_lost) return;
        int lost = ordered ? !is_taken[d->group] : !taken[i];
        if (taken[i] && !allowed) differ(r, "takes what is not allowed", d->text, strlen(d->text));
        if (allowed && lost && !d->is_unspelled)
            differ(r, "does not take what is allowed", d->text, strlen(d->text));
    }
}

/* Numbers that jansson or a double cannot hold: many digits, a large exponent. */
static int has_large_number(const char *text, size_t n)
{
    for (size_t i = 0, digits = 0; i < n; i++) {
        int is_part = text[i] && strchr("0123456789.", text[i]);
        digits = is_part ? digits + 1 : 0;
        if (digits > 15) return 1;
        if (digits > 1 && i >= digits) {
            size_t before = i - digits;
            if (before > 0 && strchr("+-", text[before])) before--;
            if (text[before] == 'e' || text[before] == 'E') return 1;
        }
    }
    return 0;
}

/* A text at which an answer may end: a document that the schema allows. */
static void check_walked(json_t *schema, const char *text, size_t n, struct verdict *r)
{
    json_error_t why;
    json_t *x;
    struct validator v = {.root = schema};
    if (has_large_number(text, n)) return;
    x = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!x && json_error_code(&why) == json_error_null_byte_in_key) return; /* jansson has none */
    if (!x && json_error_code(&why) == json_error_duplicate_key) { /* names that no schema names */
        r->n_twice++;
        return;
    }
    r->n_whole++;
    int allowed = x && valid(&v, schema, x);
    r->is_lost |= v.is_lost;
    if (!x) differ(r, "a walk ends in what is no JSON", text, n);
    else if (!allowed && !v.is_lost) differ(r, "a walk ends in what is not allowed", text, n);
    json_decref(x);
}

static int is_set(const uint32_t *bits, int32_t id) { return bits[id / 32] >> id % 32 & 1; }

/* The token that leads from TEXT [n] to an end, often: what closes, and names of members; -1. */
static int32_t choose_closing(struct dice *d, const uint32_t *bits, const char *text, size_t n)
{
    char last = n ? text[n - 1] : 0, before = 0;
    for (size_t i = n; i > 1 && !before; i--)
        if (!strchr(" \t\n\r", text[i - 2])) before = text[i - 2];
    static const char values[] = "nft-0123456789\"[{";
    const char *wish = "\"}]:";
    if (strchr(",:[", last) && chance(d, 50)) { /* a value of some kind */
        char value = values[roll(d, sizeof values - 1)];
        if (is_set(bits, value)) return value;
    }
    if (last == '{' || last == '[') wish = "}]\"";
    if (last == '"' && (before == ',' || before == '{')) wish = chance(d, 50) ? "ab\"" : "ba\"";
    if (last == 'a' && chance(d, 40)) wish = "b\"";
    for (; *wish; wish++)
        if (is_set(bits, *wish)) return *wish;
    return -1;
}

/* One of the tokens of the mask: at first any, later those that close what is open. */
static int32_t choose(struct dice *d, const uint32_t *bits, int n_allowed)
{
    static const char liked[] = "{}[]\",:ab01\"";
    for (int tries = 0; tries < 12; tries++) {
        int32_t id = chance(d, 60) ? liked[roll(d, sizeof liked - 1)]
                                   : 256 + (int32_t)roll(d, N_TOKENS - 256);
        if (is_set(bits, id)) return id;
    }
    for (int32_t id = 0, left = (int32_t)roll(d, (unsigned)n_allowed);; id++)
        if (is_set(bits, id) && left-- == 0) return id;
}

/* SCHEMA NULL: the texts are calls, which are not judged. */
static void walk(struct grammar *g, json_t *schema, struct dice *d, struct verdict *r)
{
    uint32_t bits[(N_TOKENS + 31) / 32];
    char text[WALK_BYTES];
    struct grammar_cursor *c;
    struct err e;
    size_t n = 0, bytes;
    int n_allowed, ended = 0;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    r->n_walks++;
    for (int step = 0; step < WALK_TOKENS && n + 32 < WALK_BYTES && !ended; step++) {
        int is_closing = step > WALK_FREE, may_end = grammar_may_end(c);
        assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
        if (may_end && schema) check_walked(schema, text, n, r);
        if (n_allowed == 0 && !may_end) differ(r, "a walk comes to a dead end", text, n);
        ended = n_allowed == 0 || (may_end && (is_closing || chance(d, 50)));
        if (ended) break;
        int32_t id = is_closing && chance(d, 97) ? choose_closing(d, bits, text, n) : -1;
        if (step < 3 * WALK_FREE && is_set(bits, ',') && chance(d, 30)) id = ',';
        if (id < 0) id = choose(d, bits, n_allowed);
        const char *t = vocab_token(vocab, id, &bytes);
        memcpy(text + n, t, bytes);
        n += bytes;
        if (grammar_accept_token(c, id, &e) != 1) {
            differ(r, "a token of the mask is not taken", text, n);
            ended = 1;
        }
    }
    r->n_endless += !ended;
    grammar_cursor_close(c);
}

/* Calls of a function whose parameters the schema has, in some syntax: walks that come to no end. */
static void walk_calls(json_t *schema, uint64_t of, int ordered, struct verdict *r)
{
    int n_rows = 0;
    while (call_syntax_row(n_rows)) n_rows++;
    json_t *call = json_pack("{s:i, s:s, s:b, s:[], s:[{s:s, s:O}]}", "syntax",
                             (int)(of % (unsigned)n_rows), "choice", "required", "parallel", 0,
                             "special", "tools", "name", "f", "parameters", schema);
    char *text = json_dumps(call, JSON_COMPACT);
    const struct grammar_spec spec = {.kind = GRAMMAR_CALLS,
                                      .text = text,
                                      .bytes = strlen(text),
                                      .order = ordered ? JSON_ORDER_STRICT : JSON_ORDER_ANY};
    struct grammar *g;
    struct err e = {0};
    struct dice d = {of};
    if (json_is_object(schema) && !grammar_open(&g, &spec, vocab, &e)) {
        for (int i = 0; i < N_WALKS / 2; i++) walk(g, NULL, &d, r);
        grammar_close(g);
    }
    free(text);
    json_decref(call);
}

/* A schema that is said to allow nothing. */
static void check_empty(json_t *schema, struct verdict *r)
{
    for (int i = 0; i < n_documents; i++) {
        struct validator v = {.root = schema};
        if (valid(&v, schema, documents[i].value))
            differ(r, "is refused as empty, but allows", documents[i].text,
                   strlen(documents[i].text));
        if (v.is_lost) r->is_lost = 1;
    }
}

/* What is found of SCHEMA; the walks depend on it and SEED alone. */
static void judge(json_t *schema, uint64_t of, int ordered, struct verdict *r)
{
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    const struct grammar_spec spec = {.kind = GRAMMAR_SCHEMA,
                                      .text = text,
                                      .bytes = strlen(text),
                                      .order = ordered ? JSON_ORDER_STRICT : JSON_ORDER_ANY,
                                      .space = of % 2 ? JSON_SPACE_ANY : JSON_SPACE_NONE};
    struct grammar *g = NULL;
    struct err e = {0};
    struct dice d = {of};
    r->is_served = grammar_open(&g, &spec, vocab, &e) == 0;
    if (r->is_served) {
        compare_documents(g, schema, ordered, r);
        for (int i = 0; i < N_WALKS && !r->is_lost; i++) walk(g, schema, &d, r);
        if (!r->is_lost) walk_calls(schema, of, ordered, r);
    } else {
        snprintf(r->refusal, sizeof r->refusal, "%.255s", e.msg);
        r->is_empty = strstr(e.msg, "no text at all") != NULL;
        if (r->is_empty) check_empty(schema, r);
    }
    if (r->is_lost) r->n_differences = 0;
    grammar_close(g);
    free(text);
}

/* The smallest schema that is still judged otherwise, by leaving out what can be left out. */
static void show_smallest(json_t *schema, uint64_t of, int ordered)
{
    json_incref(schema);
    for (int n = 1;; n++) {
        int left = n;
        json_t *less = smaller(schema, &left);
        struct verdict r = {0};
        if (left > 0) {
            json_decref(less);
            break;
        }
        judge(less, of, ordered, &r);
        if (r.n_differences) {
            json_decref(schema);
            schema = json_incref(less);
            n = 0;
        }
        json_decref(less);
    }
    struct verdict r = {0};
    judge(schema, of, ordered, &r);
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    print_message("  smaller: %s%s\n    %s\n", text, ordered ? " (in its order)" : "",
                  r.difference);
    free(text);
    json_decref(schema);
}

/* ---- what is refused */

/* The last keyword of "path: keyword: what". */
static void count_refusal(json_t *counts, const char *refusal)
{
    char key[512];
    const char *end = NULL, *begin;
    for (const char *p = refusal; (p = strstr(p, ": ")); p++) end = p;
    if (!end) end = refusal + strlen(refusal);
    for (begin = end; begin > refusal && begin[-1] != ' ';) begin--;
    snprintf(key, sizeof key, "%.*s: %s", (int)(end - begin), begin, *end ? end + 2 : "");
    json_t *n = json_object_get(counts, key);
    json_object_set_new(counts, key, json_integer(json_integer_value(n) + 1));
}

static void show_refusals(json_t *counts)
{
    const char *key, *most;
    json_t *n;
    while (json_object_size(counts)) {
        most = NULL;
        json_object_foreach (counts, key, n)
            if (!most || json_integer_value(n) > json_integer_value(json_object_get(counts, most)))
                most = key;
        print_message("  %5d refused by %s\n",
                      (int)json_integer_value(json_object_get(counts, most)), most);
        json_object_del(counts, most);
    }
}

/* ---- */

static void schemas_against_the_validator(void **state)
{
    int n = 0, served = 0, empty = 0, refused = 0, lost = 0, wrong = 0, walks = 0, whole = 0,
        endless = 0, twice = 0;
    json_t *counts = json_object();
    clock_t began = clock();
    (void)state;
    make_documents();
    make_vocab();
    while (served < wanted) {
        uint64_t of = seed * 1000000 + (uint64_t)n++;
        struct dice d = {of * 0x9e3779b97f4a7c15u};
        roll(&d, 2);
        json_t *schema = of % 5 == 0 ? crowd(&d, 1) : random_schema(&d, 3, NULL);
        if (json_is_object(schema) && chance(&d, 30))
            json_object_set_new(schema, "$defs",
                                json_pack("{s:o, s:o}", "x", random_schema(&d, 2, NULL), "y",
                                          random_schema(&d, 2, NULL)));
        else if (json_is_object(schema))
            json_object_set_new(schema, "$defs",
                                json_pack("{s:b, s:{s:s}}", "x", 1, "y", "type", "string"));
        if (json_is_object(schema)) { /* without end, and one that ends */
            json_t *defs = json_object_get(schema, "$defs");
            if (json_is_object(json_object_get(defs, "y")))
                json_object_set_new(json_object_get(defs, "y"), "$anchor", json_string("anchor"));
            json_object_set_new(defs, "endless", parsed("{\"type\":\"object\",\"properties\":{\"a\":"
                                                        "{\"$ref\":\"#/$defs/endless\"}},"
                                                        "\"required\":[\"a\"]}"));
            json_object_set_new(defs, "chain", parsed("{\"type\":\"object\",\"properties\":{\"a\":"
                                                      "{\"$ref\":\"#/$defs/chain\"}},"
                                                      "\"additionalProperties\":false}"));
        }
        int ordered = of % 4 == 3;
        struct verdict r = {0};
        judge(schema, of, ordered, &r);
        served += r.is_served && !r.is_lost;
        lost += r.is_lost;
        empty += r.is_empty;
        refused += !r.is_served && !r.is_empty;
        if (!r.is_served && !r.is_empty) count_refusal(counts, r.refusal);
        walks += r.n_walks;
        whole += r.n_whole;
        endless += r.n_endless;
        twice += r.n_twice;
        if (r.n_differences && ++wrong <= MAX_SHOWN) {
            char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
            print_message("%d: %s\n    %d differences: %s\n", n - 1, text, r.n_differences,
                          r.difference);
            free(text);
            show_smallest(schema, of, ordered);
        }
        json_decref(schema);
    }
    print_message("%d schemas: %d served, %d allow nothing, %d refused, %d have no answer\n", n,
                  served, empty, refused, lost);
    show_refusals(counts);
    print_message("%d documents; %d walks, %d without an end, %d documents on them (%d more with a "
                  "name twice); %.1f s of processor time\n",
                  n_documents, walks, endless, whole, twice,
                  (double)(clock() - began) / CLOCKS_PER_SEC);
    print_message("%d schemas with differences\n", wrong);
    json_decref(counts);
    for (int i = 0; i < n_documents; i++) json_decref(documents[i].value);
    vocab_close(vocab);
    assert_int_equal(wrong, 0);
    assert_true(endless * 100 < walks); /* steps are chosen without knowing the schema */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schemas_against_the_validator)};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--schemas")) wanted = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
