/* unit_calls.c: calls of functions: which syntax a template shows; every random answer that a
 * grammar lets through is read as calls whose arguments the schema allows (judged by the grammar of
 * the schema alone); damaged ones; reasoning before. */
#include "core/base/json.h"
#include "core/grammar/call_syntax.h"
#include "core/grammar/free_text.h"
#include "core/grammar/grammar.h"
#include "tests/unit/call_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef SHARED_DIR
#define SHARED_DIR "../shared"
#endif

/* ---- recognition */

static const char *name_of(const char *source, size_t n)
{
    const struct call_syntax *s = call_syntax_find(source, n, NULL);
    return s ? s->name : "";
}

static void templates_by_hand(void **state)
{
    static const struct {
        const char *source, *name, *begin;
    } cases[] = {
        {"<tool_call>\\n{...}\\n</tool_call>", "hermes", NULL},
        {"'<tool_call>\\n<function=' + f + '>' '<parameter=' '</tool_call>'", "qwen3_coder", NULL},
        {"<tool_call>{{ n }}\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call>",
         "glm45", NULL},
        {"<tool_call>{{ n }}<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>", "glm47",
         NULL},
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>n\\n```json",
         "deepseek_v3", NULL},
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>n<｜tool▁sep｜>", "deepseek_v31", NULL},
        {"\"[TOOL_CALLS] [\"", "mistral", "[TOOL_CALLS] ["},
        {"\"[TOOL_CALLS][\"", "mistral", "[TOOL_CALLS]["},
        {"'[TOOL_CALLS]' + n + '[ARGS]'", "mistral", NULL},
        {"<|tool_call|>", "granite", NULL},
        {"<|python_tag|> '\"parameters\": '", "llama3_json", NULL},
        {"<seed:tool_call>\n<function= <parameter=", "seed_oss", NULL},
        {"'<minimax:tool_call>' '<invoke name=\"' + n", "minimax_m2", "<minimax:tool_call>\n"},
        {"<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>",
         "kimi_k2", NULL},
        {"<|action_start|><|plugin|>", "internlm", NULL},
        {"[func_name1(params_name1=params_value1), func_name2(params)]", "pythonic", "["},
        {"'functions.' + n + '<|channel|>commentary ' + '<|call|>'", "openai", NULL},
        {"<tool_calls>[ ]</tool_calls>", "hunyuan_a13b", NULL},
        {"<|system|> + '<|tool|>' + tools + '<|/tool|>'", "phi4_mini_json", "functools["},
        {"<|im_start|>", "", NULL},
        {"", "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].source);
        assert_string_equal(name_of(cases[i].source, n), cases[i].name);
        const struct call_syntax *s = call_syntax_find(cases[i].source, n, NULL);
        if (cases[i].begin) assert_string_equal(s->begin, cases[i].begin);
        /* the same by the row's name; another one's by its own */
        if (s) assert_ptr_equal(call_syntax_find(cases[i].source, n, s->name), s);
        assert_string_equal(call_syntax_find(cases[i].source, n, "llama4_json")->name,
                            "llama3_json");
    }
    assert_true(call_syntax_is_name("hermes") && call_syntax_is_name("qwen3_xml"));
    assert_false(call_syntax_is_name("qwen") || call_syntax_is_name("xml"));
    assert_null(call_syntax_find("x", 1, "nobody"));
}

static void templates_of_models(void **state)
{
    static const char *const files[][2] = {{"Qwen-Qwen2.5-7B-Instruct", "hermes"},
                                           {"Qwen-Qwen3-0.6B", "hermes"},
                                           {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json"},
                                           {"chatml", ""},
                                           {"llama-2-chat", ""},
                                           {"llama-3-instruct", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[200], text[20000];
        snprintf(path, sizeof path, SHARED_DIR "/data/chat_templates/%s.jinja", files[i][0]);
        FILE *f = fopen(path, "r");
        if (!f) {
            print_message("SKIP: %s is not there\n", path);
            skip();
        }
        size_t n = fread(text, 1, sizeof text, f);
        fclose(f);
        assert_string_equal(name_of(text, n), files[i][1]);
    }
}

/* ---- random answers */

#define WEATHER                                                                                    \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"city\",\"days\"],"        \
    "\"properties\":{\"city\":{\"enum\":[\"Paris\",\"New \\\"York\\\"\"]},\"days\":{\"type\":"     \
    "\"integer\",\"minimum\":1,\"maximum\":9},\"when\":{\"type\":\"string\",\"pattern\":"          \
    "\"^[0-9]{4}$\"},\"note\":{\"type\":\"string\"},\"maybe\":{\"anyOf\":[{\"type\":\"string\"},"  \
    "{\"type\":\"null\"}]},\"which\":{\"$ref\":\"#/$defs/w\"},\"odd\":{\"type\":[\"integer\","     \
    "\"string\"],\"maximum\":3},\"list\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"    \
    "\"maxItems\":2}},\"$defs\":{\"w\":{\"type\":[\"boolean\",\"string\",\"number\"]}}}"
#define OTHER                                                                                      \
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"x\":{\"$ref\":"         \
    "\"#/$defs/w\"}},\"$defs\":{\"w\":{\"const\":\"only\"}}}"
static const struct {
    const char *name, *schema;
} functions[] = {
    {"get_weather", WEATHER},
    {"other.one", OTHER},
    {"now", NULL},
    {"map", "{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"null\"]}}"},
};
enum { N_FUNCTIONS = 4 };

static json_t *tools_of_test(void)
{
    json_t *list = json_array();
    for (int i = 0; i < N_FUNCTIONS; i++) {
        json_t *tool = json_pack("{s:s}", "name", functions[i].name);
        if (functions[i].schema)
            json_object_set_new(tool, "parameters", json_loads(functions[i].schema, 0, NULL));
        json_array_append_new(list, tool);
    }
    return list;
}

/* Every byte, the texts of a syntax, and some more; special ones between marks. */
struct words {
    char text[64][80];
    int n;
    char byte[256];
};

static void add_word(struct words *w, const char *text, int is_special)
{
    if (!*text) return;
    const char *mark = is_special ? FREE_TEXT_MARK : "";
    snprintf(w->text[w->n++], sizeof w->text[0], "%s%s%s", mark, text, mark);
}

static const char *word(void *arg, int32_t id, size_t *bytes)
{
    const struct words *w = arg;
    *bytes = id < 256 ? id != 0xff : strlen(w->text[id - 256]);
    return !*bytes ? NULL : id < 256 ? &w->byte[id] : w->text[id - 256];
}

static struct vocab *vocab_of(struct words *w, const struct call_syntax *s, const json_t *special)
{
    static const char *const others[] = {"\"",   "\"}", "}", "\": ", "Paris", "true",   "note",
                                         "days", "1",   "3", "city", "null",  "\u00e9", "2026"};
    const char *texts[CALL_SYNTAX_TEXTS];
    struct vocab *v;
    struct err e;
    json_t *one;
    size_t i;
    *w = (struct words){0};
    for (int b = 0; b < 256; b++) w->byte[b] = (char)b;
    call_syntax_texts(s, texts);
    for (int k = 0; k < CALL_SYNTAX_TEXTS; k++) add_word(w, texts[k], 0);
    for (i = 0; i < sizeof others / sizeof *others; i++) add_word(w, others[i], 0);
    json_array_foreach (special, i, one) add_word(w, json_string_value(one), 1);
    const struct vocab_source source = {256 + w->n, word, w};
    assert_int_equal(vocab_open(&v, &source, &e), 0);
    return v;
}

static struct grammar *open_grammar(const struct vocab *v, struct grammar_spec *spec)
{
    struct grammar *g = NULL;
    struct err e = {0};
    spec->bytes = strlen(spec->text);
    if (grammar_open(&g, spec, v, &e)) print_message("%s\n", e.msg);
    assert_non_null(g);
    return g;
}

/* A random answer of the grammar, of at least some tokens; longer words are preferred. */
static size_t walk(struct grammar *g, const struct vocab *v, unsigned *seed, char *text, size_t cap)
{
    struct grammar_cursor *c;
    struct err e;
    uint32_t bits[16];
    size_t n = 0;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    while (!grammar_must_end(c) && !(grammar_may_end(c) && rand_r(seed) % 4 == 0)) {
        int32_t allowed[512];
        int n_allowed, k = 0, first = 0;
        assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
        assert_true(n_allowed > 0);
        for (int32_t id = 0; id < vocab_n(v); id++)
            if (bits[id / 32] >> id % 32 & 1) allowed[k++] = id;
        while (first < k && allowed[first] < 256) first++;
        int32_t id = first < k && rand_r(seed) % 3
                         ? allowed[first + (int)(rand_r(seed) % (unsigned)(k - first))]
                         : allowed[rand_r(seed) % (unsigned)k];
        size_t bytes;
        const char *t = vocab_token(v, id, &bytes);
        assert_int_equal(grammar_accept_token(c, id, &e), 1);
        if (n + bytes > cap) {
            n = 0;
            break; /* too long: none */
        }
        memcpy(text + n, t, bytes);
        n += bytes;
    }
    grammar_cursor_close(c);
    return n;
}

/* 1: the schema's own grammar takes the arguments. */
static int are_allowed(const struct vocab *v, const char *name, const char *arguments)
{
    const char *schema = "{\"type\":\"object\",\"additionalProperties\":false}";
    int i = 0, ok;
    while (i < N_FUNCTIONS && strcmp(functions[i].name, name)) i++;
    assert_true(i < N_FUNCTIONS);
    if (functions[i].schema) schema = functions[i].schema;
    struct grammar_spec spec = {
        .kind = GRAMMAR_SCHEMA, .text = schema, .order = JSON_ORDER_ANY, .space = JSON_SPACE_ANY};
    struct grammar *g = open_grammar(v, &spec);
    struct grammar_cursor *c;
    struct err e;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    ok = grammar_accept(c, arguments, strlen(arguments), &e) > 0 && grammar_may_end(c);
    grammar_cursor_close(c);
    grammar_close(g);
    return ok;
}

/* All of one row, of one kind of choice; returns how many answers had calls. */
static int walk_row(int row, const char *choice, int parallel, json_t *special, int ordered)
{
    static char text[1 << 16];
    const struct call_syntax *s = call_syntax_row(row);
    struct words w;
    struct vocab *v = vocab_of(&w, s, special);
    json_t *tools = tools_of_test();
    json_t *asked = json_pack("{s:i,s:s,s:b,s:O,s:O}", "syntax", row, "choice", choice, "parallel",
                              parallel, "special", special, "tools", tools);
    char *job = json_dumps(asked, 0);
    json_decref(asked);
    struct grammar_spec spec = {.kind = GRAMMAR_CALLS,
                                .text = job,
                                .order = ordered ? JSON_ORDER_STRICT : JSON_ORDER_ANY,
                                .space = JSON_SPACE_ANY};
    struct grammar *g = open_grammar(v, &spec);
    const struct toolcalls_source source = {s, special, tools, 0, 1};
    unsigned seed = (unsigned)row + 1;
    int n_calls = 0, n_texts = 0;
    for (int i = 0; i < 60; i++) {
        size_t n = walk(g, v, &seed, text, sizeof text);
        if (!n) continue;
        struct toolcalls t = read_answer(&source, text, n);
        if (!t.n && !strcmp(choice, "required"))
            print_message("%s: no call in %.*s\n", s->name, (int)n, text);
        assert_true(t.n > 0 || !strcmp(choice, "auto"));
        assert_true(parallel || t.n <= 1);
        if (!strcmp(choice, "required")) assert_int_equal(t.text_bytes, 0);
        for (int k = 0; k < t.n; k++) {
            int ok = are_allowed(v, t.call[k].name, t.call[k].arguments);
            if (!ok)
                print_message("%s: %s %s\nof %.*s\n", s->name, t.call[k].name, t.call[k].arguments,
                              (int)n, text);
            assert_true(ok);
        }
        n_calls += t.n > 0;
        n_texts += !t.n;
        toolcalls_close(&t);
    }
    if (!strcmp(choice, "auto") && strcmp(s->name, "json")) assert_true(n_texts > 0);
    grammar_close(g);
    vocab_close(v);
    free(job);
    json_decref(tools);
    return n_calls;
}

static void random_answers(void **state)
{
    (void)state;
    for (int row = 0; call_syntax_row(row); row++) {
        const struct call_syntax *s = call_syntax_row(row);
        size_t n;
        if (s->body == CALL_PYTHON) continue; /* no grammar has it */
        const char *opening = call_syntax_opening(s, &n);
        json_t *none = json_array(), *some = json_array();
        const char *texts[CALL_SYNTAX_TEXTS];
        call_syntax_texts(s, texts);
        assert_true(walk_row(row, "required", 1, none, 0) > 20);
        assert_true(walk_row(row, "required", 0, none, 1) > 20);
        walk_row(row, "auto", 1, none, 0);
        /* its opening and all texts without spaces are special tokens */
        if (n) json_array_append_new(some, json_stringn(opening, n));
        for (int i = 0; i < CALL_SYNTAX_TEXTS; i++)
            if (strlen(texts[i]) > 3 && !strpbrk(texts[i], " \n\"{"))
                json_array_append_new(some, json_string(texts[i]));
        if (n) {
            assert_true(walk_row(row, "required", 1, some, 0) > 20);
            assert_true(walk_row(row, "auto", 0, some, 0) > 0);
        }
        json_decref(none);
        json_decref(some);
    }
}

/* Damaged answers: read as calls with JSON for arguments, or kept as they are. */
static void damaged(void **state)
{
    static char text[1 << 16];
    json_t *none = json_array(), *tools = tools_of_test();
    (void)state;
    for (int row = 0; call_syntax_row(row); row++) {
        const struct call_syntax *s = call_syntax_row(row);
        struct words w;
        if (s->body == CALL_PYTHON) continue;
        struct vocab *v = vocab_of(&w, s, none);
        json_t *asked = json_pack("{s:i,s:s,s:b,s:O,s:O}", "syntax", row, "choice", "required",
                                  "parallel", 1, "special", none, "tools", tools);
        char *job = json_dumps(asked, 0);
        struct grammar_spec spec = {.kind = GRAMMAR_CALLS, .text = job};
        struct grammar *g = open_grammar(v, &spec);
        unsigned seed = (unsigned)row + 5;
        for (int i = 0; i < 400; i++) {
            const struct toolcalls_source source = {s, none, tools, i % 2, i / 2 % 2};
            size_t n = walk(g, v, &seed, text, sizeof text - 100);
            if (!n) continue;
            for (int k = 0; k < 1 + i % 3; k++) {
                size_t at = rand_r(&seed) % n;
                if (k % 2) n = at + 1;
                else if (i % 5 == 0) text[at] = (char)rand_r(&seed);
                else memmove(text + at, text + at + 1, --n - at);
                if (!n) text[n++] = '{';
            }
            struct toolcalls t = read_answer(&source, text, n);
            if (!t.n) {
                assert_int_equal(t.text_bytes, n);
                assert_memory_equal(t.text, text, n);
            }
            for (int k = 0; k < t.n; k++) {
                assert_true(*t.call[k].name != 0);
                if (!strpbrk(t.call[k].arguments, "eE")) { /* jansson has no 1e999 */
                    json_t *value = json_loads(t.call[k].arguments,
                                               JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
                    assert_non_null(value);
                    json_decref(value);
                }
            }
            toolcalls_close(&t);
        }
        grammar_close(g);
        vocab_close(v);
        free(job);
        json_decref(asked);
    }
    json_decref(none);
    json_decref(tools);
}

/* ---- reasoning before a document */

static int reads(struct grammar *g, const char *text)
{
    struct grammar_cursor *c;
    struct err e;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    int ok = grammar_accept(c, text, strlen(text), &e) > 0 && grammar_may_end(c);
    grammar_cursor_close(c);
    return ok;
}

static void thoughts(void **state)
{
    struct words w;
    json_t *none = json_array();
    struct vocab *v = vocab_of(&w, call_syntax_plain(), none);
    const struct grammar_thoughts plain = {"<think>", "</think>", 0, 0, 0},
                                  inside = {"<think>", "</think>", 0, 0, 1},
                                  tokens = {"<think>", "</think>", 1, 1, 0};
    struct grammar_spec spec = {.kind = GRAMMAR_CHOICE, .text = "[\"yes\",\"no\"]"};
    (void)state;
    spec.thoughts = plain;
    struct grammar *g = open_grammar(v, &spec);
    assert_true(reads(g, "yes") && reads(g, "<think>a</thin</think>\n\nno"));
    assert_true(reads(g, "\n<think></think>no") && reads(g, "<think><think> é</think>no"));
    assert_false(reads(g, "<think>a</think>") || reads(g, "maybe") || reads(g, "<think>no"));
    assert_false(reads(g, "<think>a</think>b</think>no"));
    grammar_close(g);
    spec.thoughts = inside;
    g = open_grammar(v, &spec);
    assert_true(reads(g, "so\n</think>\n\nyes") && reads(g, "</think>yes"));
    assert_false(reads(g, "yes") || reads(g, "no</think>"));
    grammar_close(g);
    spec.thoughts = tokens;
    spec.kind = GRAMMAR_JSON;
    spec.text = "";
    g = open_grammar(v, &spec);
    assert_true(reads(g, "{}") && reads(g, "\xff<think>\xff</think>\xff</think>\xff{}"));
    assert_false(reads(g, "<think>a</think>{}"));
    grammar_close(g);
    vocab_close(v);
    json_decref(none);
}

/* ---- what is refused */

static void refused(void **state)
{
    static const struct {
        const char *parser, *tools, *says;
    } cases[] = {
        {"hermes", "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"not\":{\"type\":7}}}]",
         "'f'"},
        {"hermes", "[{\"name\":\"f\",\"parameters\":{\"type\":\"string\"}}]", "not an object"},
        {"hermes",
         "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":"
         "{\"$ref\":\"http://x\"}}}}]",
         "'f'"},
        {"qwen3_coder", "[{\"name\":\"a b\"}]", "cannot be written"},
        {"qwen3_coder",
         "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"anyOf\":[{"
         "\"required\":[\"a\"]}]}}]",
         "anyOf: is not served"},
        {"qwen3_coder",
         "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":"
         "{\"enum\":[\"</parameter>\"]}}}}]",
         "which ends an argument"},
    };
    struct words w;
    json_t *none = json_array();
    struct vocab *v = vocab_of(&w, call_syntax_plain(), none);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        struct err e = {0};
        struct grammar *g;
        snprintf(
            text, sizeof text,
            "{\"syntax\":%d,\"choice\":\"required\",\"parallel\":true,\"special\":[],\"tools\":"
            "%s}",
            call_syntax_number(call_syntax_find(NULL, 0, cases[i].parser)), cases[i].tools);
        const struct grammar_spec spec = {
            .kind = GRAMMAR_CALLS, .text = text, .bytes = strlen(text)};
        assert_int_equal(grammar_open(&g, &spec, v, &e), -1);
        if (!strstr(e.msg, cases[i].says)) print_message("%s\n", e.msg);
        assert_non_null(strstr(e.msg, cases[i].says));
    }
    vocab_close(v);
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_by_hand), cmocka_unit_test(templates_of_models),
        cmocka_unit_test(random_answers),    cmocka_unit_test(damaged),
        cmocka_unit_test(thoughts),          cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
