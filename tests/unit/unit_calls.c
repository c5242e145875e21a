/* unit_calls.c: calls of functions: which syntax a template shows; every random answer that a
 * grammar lets through is read as calls whose arguments the schema allows (judged by the grammar of
 * the schema alone); answers by hand as models write them, whole, cut and broken; reasoning before.
 */
#include "core/base/json.h"
#include "core/grammar/call_syntax.h"
#include "core/grammar/free_text.h"
#include "core/grammar/grammar.h"
#include "core/text/toolcalls.h"

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

static struct toolcalls read_answer(const struct toolcalls_source *s, const char *text, size_t n)
{
    struct toolcalls t;
    struct err e = {0};
    if (toolcalls_read(&t, s, text, n, &e)) print_message("%s\n", e.msg);
    assert_int_equal(e.msg[0], 0);
    return t;
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

/* ---- answers by hand */

/* What is read of an answer of one syntax. */
struct answer {
    const char *parser, *special, *text;
    int is_cut;
    const char *content, *calls; /* NAME ARGUMENTS; each */
};

/* Of Mistral's rows that with an array, but where the answer has [ARGS]. */
static const struct call_syntax *syntax_of(const struct answer *a)
{
    if (strcmp(a->parser, "mistral")) return call_syntax_find(NULL, 0, a->parser);
    return strstr(a->text, "[ARGS]") ? call_syntax_find("[TOOL_CALLS][ARGS]", 18, "mistral")
                                     : call_syntax_find("[TOOL_CALLS][", 13, "mistral");
}

static void read_answers(const struct answer *cases, size_t n, int is_exact)
{
    json_t *tools = json_loads(
        "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":"
        "\"string\"},\"i\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":"
        "\"object\"},\"n\":{\"type\":[\"string\",\"null\"]},\"l\":{\"type\":\"array\"},\"x\":"
        "{\"type\":\"number\"},\"m\":{\"anyOf\":[{\"type\":\"object\"},{\"type\":\"null\"}]},"
        "\"e\":{\"anyOf\":[{\"enum\":[\"NONE\",\"ALL\"]},{\"type\":\"null\"}]}}}},"
        "{\"name\":\"g\"}]",
        0, NULL);
    for (size_t i = 0; i < n; i++) {
        json_t *special = json_loads(cases[i].special, 0, NULL);
        const struct toolcalls_source s = {syntax_of(&cases[i]), special, tools, cases[i].is_cut,
                                           is_exact};
        struct toolcalls t = read_answer(&s, cases[i].text, strlen(cases[i].text));
        char calls[500] = "";
        for (int k = 0; k < t.n; k++)
            snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s %s;", t.call[k].name,
                     t.call[k].arguments);
        if (strcmp(calls, cases[i].calls)) print_message("of %s\n", cases[i].text);
        assert_string_equal(calls, cases[i].calls);
        assert_int_equal(t.text_bytes, strlen(cases[i].content));
        assert_memory_equal(t.text, cases[i].content, t.text_bytes);
        toolcalls_close(&t);
        json_decref(special);
    }
    json_decref(tools);
}

static void answers_by_hand(void **state)
{
    static const struct answer cases[] = {
        {"hermes", "[]",
         "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1 ]}}\n"
         "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
         0, "Let me see.", "f {\"a\": [1 ]};g {};"},
        /* the arguments before the name, as a text, under the other key; no end */
        {"hermes", "[]", "<tool_call>{\"arguments\":\"{\\\"a\\\":1}\",\"name\":\"f\"}</tool_call>",
         0, "", "f {\"a\":1};"},
        {"hermes", "[]", "<tool_call>\n{\"name\": \"f\", \"parameters\": {\"b\": 1e3}}", 0, "",
         "f {\"b\": 1e3};"},
        {"hermes", "[]", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", 1,
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", ""},
        {"hermes", "[]", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", 0,
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", ""},
        {"hermes", "[]", "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", 0,
         "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", ""},
        {"hermes", "[]", "<tool_call> is a tag", 0, "<tool_call> is a tag", ""},
        {"hermes", "[]", "\n plain\n", 0, "\n plain\n", ""},
        {"hermes", "[\"<tool_call>\"]", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
         0, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", ""},
        {"hermes", "[\"<tool_call>\"]",
         "a\xff<tool_call>\xff{\"name\":\"f\",\"arguments\":{}}</tool_call> b", 0, "a b", "f {};"},
        {"mistral", "[\"[TOOL_CALLS]\"]",
         "\xff[TOOL_CALLS]\xff[{\"name\": \"f\", \"arguments\": {\"a\": \"]\"}, \"id\": \"x\"},"
         "{\"name\": \"g\", \"arguments\": {}}]",
         0, "", "f {\"a\": \"]\"};g {};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n<parameter=s>\n 12\n\n</parameter>\n<parameter=i>\n 12 \n"
         "</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=o>\n{\"k\": "
         "null}\n</parameter>"
         "\n<parameter=s>\na<b\n</parameter>\n</function>\n</tool_call>",
         0, "", "f {\"s\": \"a<b\", \"i\": 12, \"b\": true, \"o\": {\"k\": null}};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n<parameter=i>\nmany\n</parameter>\n<parameter=n>\nnull\n"
         "</parameter>\n<parameter=z>\n7\n</parameter>\n</function>\n</tool_call>",
         0, "", "f {\"i\": \"many\", \"n\": null, \"z\": 7};"},
        {"qwen3_coder", "[]", "<tool_call>\n<function=g>\n</function>\n</tool_call>", 0, "",
         "g {};"},
        {"glm45", "[]",
         "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>i</arg_key>\n"
         "<arg_value>12</arg_value>\n</tool_call>",
         0, "", "f {\"s\": \"12\", \"i\": 12};"},
        {"glm47", "[]",
         "ok<tool_call>g</tool_call><tool_call>f<arg_key>s</arg_key><arg_value>x\n</arg_value>"
         "</tool_call>",
         0, "ok", "g {};f {\"s\": \"x\\n\"};"},
        {"deepseek_v3", "[]",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
         "1}\n```"
         "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```"
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         0, "", "f {\"a\": 1};g {};"},
        {"deepseek_v31", "[]",
         "Hm<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
         "<｜tool▁calls▁end｜>",
         0, "Hm", "f {\"a\": 1};"},
        {"llama3_json", "[]", "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", 0, "",
         "f {\"a\": \"b\"};"},
        {"llama3_json", "[\"<|python_tag|>\"]",
         "\xff<|python_tag|>\xff{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
         "\"parameters\": {}}",
         0, "", "f {};g {};"},
        /* an object that is the answer */
        {"llama3_json", "[]", "{\"name\": \"Bob\", \"parameters\": {}}", 0,
         "{\"name\": \"Bob\", \"parameters\": {}}", ""},
        {"json", "[]", "[{\"name\": \"f\", \"parameters\": {}}]", 0, "", "f {};"},
    };
    (void)state;
    read_answers(cases, sizeof cases / sizeof *cases, 0);
}

/* Values and tags without their end, calls without their opening, several in one tag. */
static void answers_that_lack_tags(void **state)
{
#define CODER(arguments) "<tool_call>\n<function=f>\n" arguments "</function>\n</tool_call>"
#define ARG(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define OPEN(key, value) "<parameter=" key ">\n" value "\n"
    static const struct answer cases[] = {
        {"qwen3_coder", "[]", CODER(OPEN("s", "K") ARG("i", "5")), 0, "",
         "f {\"s\": \"K\", \"i\": 5};"},
        {"qwen3_coder", "[]", CODER(ARG("i", "5") OPEN("s", "K")), 0, "",
         "f {\"i\": 5, \"s\": \"K\"};"},
        {"qwen3_coder", "[]", CODER(OPEN("o", "{\"k\": 1}") OPEN("i", "5")), 0, "",
         "f {\"o\": {\"k\": 1}, \"i\": 5};"},
        {"qwen3_coder", "[]", "<tool_call>\n<function=f>\n" OPEN("i", "5") "</tool_call>", 0, "",
         "f {\"i\": 5};"},
        {"qwen3_coder", "[]", "<tool_call>\n<function=f>\n" OPEN("s", "K"), 0, "",
         "f {\"s\": \"K\"};"},
        {"qwen3_coder", "[]", "<tool_call>\n<function=f>\n" OPEN("s", "K"), 1,
         "<tool_call>\n<function=f>\n" OPEN("s", "K"), ""},
        /* a text may hold the tags of others */
        {"qwen3_coder", "[]", CODER(ARG("s", "a </tool_call> b </function>")), 0, "",
         "f {\"s\": \"a </tool_call> b </function>\"};"},
        {"qwen3_coder", "[]", CODER(ARG("s", "a <parameter= b")), 0, "",
         "f {\"s\": \"a <parameter= b\"};"},
        /* the end belongs to the next call's value */
        {"qwen3_coder", "[]", CODER(OPEN("s", "K")) "\n" CODER(ARG("i", "5")), 0, "",
         "f {\"s\": \"K\"};f {\"i\": 5};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n" ARG("i", "1") "</function>\n<function=g>\n</function>\n"
                                                     "</tool_call>",
         0, "", "f {\"i\": 1};g {};"},
        {"qwen3_coder", "[]", "Now.\n<function=f>\n" ARG("s", "K") "</function>\n</tool_call>", 0,
         "Now.", "f {\"s\": \"K\"};"},
        {"qwen3_coder", "[]", "<function=f>\n" ARG("i", "1") "</function>", 0, "", "f {\"i\": 1};"},
        {"qwen3_coder", "[]", "<function=h>\n" ARG("i", "1") "</function>", 0,
         "<function=h>\n" ARG("i", "1") "</function>", ""},
        {"qwen3_coder", "[]", "as <function=g> says", 0, "as <function=g> says", ""},
        {"qwen3_coder", "[\"<tool_call>\"]", CODER(ARG("i", "1")), 0, CODER(ARG("i", "1")), ""},
        {"qwen3_coder", "[\"<tool_call>\"]", "<function=f>\n" ARG("i", "1") "</function>", 0, "",
         "f {\"i\": 1};"},
        {"glm45", "[]",
         "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>K\n<arg_key>i</arg_key>\n"
         "<arg_value>5\n</tool_call>",
         0, "", "f {\"s\": \"K\", \"i\": 5};"},
        {"glm45", "[]",
         "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a </tool_call> b</arg_value>\n"
         "</tool_call>",
         0, "", "f {\"s\": \"a </tool_call> b\"};"},
        {"glm47", "[]",
         "<tool_call>f<arg_key>s</arg_key><arg_value>K</tool_call><tool_call>f<arg_key>i</arg_key>"
         "<arg_value>5</arg_value></tool_call>",
         0, "", "f {\"s\": \"K\"};f {\"i\": 5};"},
        {"glm47", "[]",
         "<tool_call>f<arg_key>i</arg_key><arg_value>5</arg_value>f<arg_key>i</arg_key>"
         "<arg_value>6</arg_value></tool_call>",
         0, "", "f {\"i\": 5};f {\"i\": 6};"},
        {"glm45", "[]", "Now.\nf\n<arg_key>s</arg_key>\n<arg_value>K</arg_value>\n</tool_call>", 0,
         "Now.", "f {\"s\": \"K\"};"},
        {"glm47", "[\"<arg_key>\"]", "g</tool_call>", 0, "", "g {};"},
        {"glm47", "[]", "a gem</tool_call>", 0, "a gem</tool_call>", ""},
        {"hermes", "[]",
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n<tool_call>\n{\"name\": \"g\", "
         "\"arguments\": {}}\n</tool_call>",
         0, "", "f {};g {};"},
        {"hermes", "[]",
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}"
         "\n</tool_call>",
         0, "", "f {};g {};"},
        {"hermes", "[]", "{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", 0, "", "f {};"},
        {"hermes", "[]", "{\"name\": \"f\", \"arguments\": {}}", 0,
         "{\"name\": \"f\", \"arguments\": {}}", ""},
        {"hermes", "[]", "{\"name\": \"h\", \"arguments\": {}}</tool_call>", 0,
         "{\"name\": \"h\", \"arguments\": {}}</tool_call>", ""},
        {"granite", "[]", "[{\"name\": \"f\", \"arguments\": {\"i\": 1}}]", 0, "", "f {\"i\": 1};"},
        {"granite", "[]", "[{\"name\": \"h\", \"arguments\": {}}]", 0,
         "[{\"name\": \"h\", \"arguments\": {}}]", ""},
        {"mistral", "[\"[TOOL_CALLS]\"]", "f[ARGS]{\"i\": 1}", 0, "", "f {\"i\": 1};"},
        {"deepseek_v31", "[]",
         "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"i\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g"
         "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         0, "", "f {\"i\": 1};g {};"},
        {"deepseek_v3", "[]",
         "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"i\": "
         "1}\n```<｜tool▁call▁end｜>",
         0, "", "f {\"i\": 1};"},
    };
    static const struct answer exact[] = {
        {"qwen3_coder", "[]", CODER(ARG("s", "a\n" OPEN("i", "5"))), 0, "",
         "f {\"s\": \"a\\n<parameter=i>\\n5\\n\"};"},
        {"qwen3_coder", "[]", "<function=g>\n</function>", 0, "<function=g>\n</function>", ""},
        {"hermes", "[]", "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>", 0,
         "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>", ""},
    };
    (void)state;
    read_answers(cases, sizeof cases / sizeof *cases, 0);
    read_answers(exact, sizeof exact / sizeof *exact, 1);
}

/* Values without their ends before the next call, and calls of a list without theirs. */
static void answers_that_run_into_calls(void **state)
{
#define DEEPSEEK_F "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"i\": 1}"
    static const struct answer cases[] = {
        {"glm47", "[]",
         "<tool_call>f<arg_key>s</arg_key><arg_value>K<tool_call>f<arg_key>i</arg_key>"
         "<arg_value>5</arg_value></tool_call>",
         0, "", "f {\"s\": \"K\"};f {\"i\": 5};"},
        {"glm45", "[]",
         "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a <tool_call>g b</arg_value>\n"
         "<arg_key>i</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
         0, "", "f {\"s\": \"a <tool_call>g b\", \"i\": 5};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n<parameter=s>\nK\n<tool_call>\n<function=f>\n<parameter=i>\n"
         "5\n</parameter>\n</function>\n</tool_call>",
         0, "", "f {\"s\": \"K\"};f {\"i\": 5};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n<parameter=s>\nK\n<function=g>\n</function>\n</tool_call>", 0,
         "", "f {\"s\": \"K\"};g {};"},
        {"qwen3_coder", "[]",
         "<tool_call>\n<function=f>\n<parameter=s>\nK <function=h>\n<parameter=i>\n5\n"
         "</function>\n</tool_call>",
         0, "", "f {\"s\": \"K <function=h>\", \"i\": 5};"},
        {"deepseek_v31", "[]",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"i\": "
         "1}<｜tool▁call▁begin｜>g"
         "<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
         0, "", "f {\"i\": 1};g {};"},
        {"deepseek_v3", "[]", "<｜tool▁calls▁begin｜>" DEEPSEEK_F "\n```", 0, "", "f {\"i\": 1};"},
        {"deepseek_v3", "[]",
         "<｜tool▁calls▁begin｜>" DEEPSEEK_F "\n```\n" DEEPSEEK_F
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         0, "", "f {\"i\": 1};f {\"i\": 1};"},
        {"deepseek_v3", "[]", "<｜tool▁calls▁begin｜>" DEEPSEEK_F " and", 0,
         "<｜tool▁calls▁begin｜>" DEEPSEEK_F " and", ""},
    };
    (void)state;
    read_answers(cases, sizeof cases / sizeof *cases, 0);
}

/* Values as Python writes them, and in capitals. */
static void answers_with_literals(void **state)
{
    static const struct answer cases[] = {
        {"qwen3_coder", "[]", CODER(ARG("b", "FALSE") ARG("n", "None")), 0, "",
         "f {\"b\": false, \"n\": null};"},
        {"qwen3_coder", "[]", CODER(ARG("b", "tRUE") ARG("n", "NULL")), 0, "",
         "f {\"b\": true, \"n\": \"NULL\"};"},
        {"qwen3_coder", "[]", CODER(ARG("m", "NONE") ARG("e", "NONE")), 0, "",
         "f {\"m\": null, \"e\": \"NONE\"};"},
        {"qwen3_coder", "[]", CODER(ARG("o", "{'k': True, \"q\": [None, FALSE,]}")), 0, "",
         "f {\"o\": {\"k\": true, \"q\": [null, false]}};"},
        {"qwen3_coder", "[]", CODER(ARG("m", "{\"a\": True}")), 0, "", "f {\"m\": {\"a\": true}};"},
        {"qwen3_coder", "[]", CODER(ARG("l", "['x', 'it\\'s', \"a'b\", 'say \"é\"']")), 0, "",
         "f {\"l\": [\"x\", \"it's\", \"a'b\", \"say \\\"é\\\"\"]};"},
        {"qwen3_coder", "[]", CODER(ARG("l", "('a', (1,), {1: .5, 'k': +3, 'u': 1_000})")), 0, "",
         "f {\"l\": [\"a\", [1], {\"1\": 0.5, \"k\": 3, \"u\": 1000}]};"},
        {"qwen3_coder", "[]", CODER(ARG("l", "['\\x41\\u00e9\\n\\q']")), 0, "",
         "f {\"l\": [\"A\\u00e9\\u000a\\\\q\"]};"},
        /* JSON whose numbers jansson does not read */
        {"qwen3_coder", "[]", CODER(ARG("l", "[\"\\\"\", 1e999]") ARG("o", "{\"1\": -1e999}")), 0,
         "", "f {\"l\": [\"\\\"\", 1e999], \"o\": {\"1\": -1e999}};"},
        {"hermes", "[]", "<tool_call>{\"name\": \"g\", \"arguments\": null}</tool_call>", 0, "",
         "g {};"},
        {"hermes", "[]", "<tool_call>{\"name\": \"g\", \"arguments\": 5}</tool_call>", 0,
         "<tool_call>{\"name\": \"g\", \"arguments\": 5}</tool_call>", ""},
        {"qwen3_coder", "[]", CODER(ARG("i", "+5") ARG("x", "1.")), 0, "",
         "f {\"i\": 5, \"x\": 1.0};"},
        /* none of these: texts */
        {"qwen3_coder", "[]", CODER(ARG("l", "['x'") ARG("o", "{'k': y}") ARG("s", "['x']")), 0, "",
         "f {\"l\": \"['x'\", \"o\": \"{'k': y}\", \"s\": \"['x']\"};"},
        {"qwen3_coder", "[]", CODER(ARG("l", "(5)") ARG("i", "007") ARG("b", "yes")), 0, "",
         "f {\"l\": \"(5)\", \"i\": \"007\", \"b\": \"yes\"};"},
        {"glm45", "[]",
         "<tool_call>f\n<arg_key>l</arg_key>\n<arg_value>['x']</arg_value>\n<arg_key>b</arg_key>\n"
         "<arg_value>TRUE</arg_value>\n</tool_call>",
         0, "", "f {\"l\": [\"x\"], \"b\": true};"},
        {"hermes", "[]", "<tool_call>{'name': 'f', 'arguments': {'b': True}}</tool_call>", 0, "",
         "f {\"b\": true};"},
        {"deepseek_v31", "[]",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"b\": "
         "False}<｜tool▁call▁end｜>"
         "<｜tool▁calls▁end｜>",
         0, "", "f {\"b\": false};"},
    };
    (void)state;
    read_answers(cases, sizeof cases / sizeof *cases, 0);
#undef CODER
#undef ARG
#undef OPEN
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

static void marks(void **state)
{
    (void)state;
    char text[] = "a\xff[X]\xff"
                  "b";
    size_t n = strlen(text);
    toolcalls_unmark(text, &n, 1);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "a[X]b", 5);
    char again[] = "a\xff[X]\xff"
                   "b";
    n = strlen(again);
    toolcalls_unmark(again, &n, 0);
    assert_int_equal(n, 2);
    assert_memory_equal(again, "ab", 2);
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
        cmocka_unit_test(templates_by_hand),
        cmocka_unit_test(templates_of_models),
        cmocka_unit_test(random_answers),
        cmocka_unit_test(answers_by_hand),
        cmocka_unit_test(answers_that_lack_tags),
        cmocka_unit_test(answers_that_run_into_calls),
        cmocka_unit_test(answers_with_literals),
        cmocka_unit_test(damaged),
        cmocka_unit_test(marks),
        cmocka_unit_test(thoughts),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
