/* unit_allocation_text.c: each allocation of the tokenizer, the template language, chats and stop
 * strings fails once: the call then reports a lack of memory (err_is_memory), or gives the
 * undisturbed result. Errors about an input are never of that kind. All allocations of the program,
 * those in libraries included, go through the wrappers below (tests.mk: -Wl,--wrap). */
#include "core/text/chat_continue.h"
#include "core/text/toolcalls.h"
#include "core/grammar/grammar.h"
#include "core/text/chat.h"
#include "core/text/jinja.h"
#include "core/base/json.h"
#include "core/text/stop.h"
#include "core/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
/* json_read leaks what jansson holds when memory is short; all of it comes from json.c's hook. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:^hook$\n"; }
#endif

static long left = -1; /* allocations until one fails; below 0: none does */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static int fails(void) { return left >= 0 && left-- == 0; }
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

/* The result of a scenario. */
struct result {
    char *p; /* [n] */
    size_t n;
};

static void keep(struct result *r, const void *p, size_t n)
{
    r->p = __real_realloc(r->p, r->n + n + 1);
    if (n) memcpy(r->p + r->n, p, n);
    r->n += n;
}

typedef int scenario(const void *arg, struct result *r, struct err *e);

/* Fails the first allocation, then the second, and so on, until the scenario has none left to fail.
 */
static void sweep(const char *name, scenario *run, const void *arg)
{
    struct result want = {0};
    struct err e = {0};
    long k = 0, failed = 0;
    json_forget();
    if (run(arg, &want, &e)) fail_msg("%s: %s", name, e.msg);
    for (int more = 1; more; k++) {
        struct result got = {0};
        e = (struct err){0};
        json_forget();
        left = k;
        int rc = run(arg, &got, &e);
        more = left < 0;
        left = -1;
        if (rc && !err_is_memory(&e))
            fail_msg("%s: with allocation %ld failed: %s", name, k, e.msg);
        if (!rc && (got.n != want.n || memcmp(got.p, want.p, got.n)))
            fail_msg("%s: with allocation %ld failed another result: %.*s", name, k, (int)got.n,
                     got.p);
        failed += rc != 0;
        free(got.p);
    }
    json_forget();
    free(want.p);
    print_message("%s: %ld allocations, %ld of them cannot be done without\n", name, k - 1, failed);
    assert_true(failed > 0);
}

/* ---- tokenizers */

static const char *const texts[] = {"hello  the world\n",
                                    "\u65e5\u672ce\u0301\u0316 a\u0323\u0301 12 <s> the\u00e9", ""};

static int tokenize(const void *arg, struct result *r, struct err *e)
{
    struct tokenizer *t = NULL;
    struct tok_stream *s = NULL, *copy = NULL;
    struct tok_ids ids = {0};
    char *text = NULL;
    const char *piece;
    size_t n;
    int rc = -1;
    if (tok_open(&t, arg, e)) return -1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (tok_encode(t, texts[i], strlen(texts[i]), i % 2, &ids, e)) goto fail;
    keep(r, ids.id, ids.n * sizeof *ids.id);
    if (tok_decode(t, ids.id, ids.n, 1, &text, &n, e)) goto fail;
    keep(r, text, n);
    free(text);
    text = NULL;
    if (tok_decode_inside(t, ids.id[0], &text, &n, e)) goto fail;
    keep(r, text, n);
    if (tok_stream_open_after(&s, t, 0, ids.id, ids.n / 2, e) || tok_stream_copy(&copy, s, e))
        goto fail;
    for (size_t i = ids.n / 2; i <= ids.n; i++) {
        if (i < ids.n ? tok_stream_push(copy, ids.id[i], &piece, &n, e)
                      : tok_stream_flush(copy, &piece, &n, e))
            goto fail;
        keep(r, piece, n);
    }
    rc = 0;
fail:
    free(text);
    tok_stream_close(s);
    tok_stream_close(copy);
    tok_ids_free(&ids);
    tok_close(t);
    return rc;
}

static void tokenizers(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2",
                                        "gpt2",
                                        "qwen",
                                        "NFD",
                                        "NFKC",
                                        "Lowercase",
                                        "metaspace-always",
                                        "replace-regex",
                                        "replace-regex-decoder",
                                        "added-single_word",
                                        "added-normalized",
                                        "no-decoder",
                                        "split-MergedWithNext-0",
                                        "digits",
                                        "strip-each",
                                        "fuse-byte-level",
                                        "unk-each",
                                        "spm"};
    static const char config[] =
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\",\"add_bos_token\":true,"
        "\"added_tokens_decoder\":{\"3\":{\"content\":\"<x>\",\"special\":true},\"4\":{\"content\":"
        "\"<y>\"}}}";
    json_t *cases = json_load_file("tests/data/tokenizer-cases.json", JSON_ALLOW_NUL, NULL), *c;
    size_t i, found = 0;
    json_array_foreach (cases, i, c) {
        const char *name = json_string_value(json_object_get(c, "name")),
                   *hex = json_string_value(json_object_get(c, "spm"));
        const json_t *json = json_object_get(c, "json");
        size_t k = 0, n = hex ? strlen(hex) / 2 : 0;
        for (; k < sizeof names / sizeof *names; k++)
            if (!strcmp(names[k], name)) break;
        if (k == sizeof names / sizeof *names) continue;
        char *spm = malloc(n + 1);
        for (size_t at = 0; at < n; at++) {
            unsigned v;
            assert_int_equal(sscanf(hex + 2 * at, "%2x", &v), 1);
            spm[at] = (char)v;
        }
        const struct tok_source src = {.json = json_string_value(json),
                                       .json_bytes = json_string_length(json),
                                       .spm = hex ? spm : NULL,
                                       .spm_bytes = n,
                                       .config = config,
                                       .config_bytes = sizeof config - 1};
        sweep(name, tokenize, &src);
        free(spm);
        found++;
    }
    assert_int_equal(found, sizeof names / sizeof *names);
    json_decref(cases);
}

/* A merge and an added token that need more room than the stack buffers have. */
static void long_tokens(void **state)
{
    (void)state;
    enum { HALF = 400 };
    char a[HALF + 1], json[8 * HALF + 400];
    memset(a, 'a', HALF);
    a[HALF] = 0;
    snprintf(
        json, sizeof json,
        "{\"added_tokens\":[{\"id\":1,\"content\":\"%s%s\"}],\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"%s\":0,\"%s%s\":1,\"h\":2},\"merges\":[[\"%s\","
        "\"%s\"]]}}",
        a, a, a, a, a, a, a);
    sweep("long tokens", tokenize, &(struct tok_source){.json = json, .json_bytes = strlen(json)});
}

/* ---- chats */

static int say(const void *arg, struct result *r, struct err *e)
{
    static const char request[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"be\"},{"
        "\"type\":\"text\",\"text\":\"brief\"}]},"
        "{\"role\":\"user\",\"content\":\"hello\",\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,"
        "\"g\":7,\"h\":8,\"i\":9},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"x\\\":[1,2]}\"}},"
        "{\"function\":{\"name\":\"g\",\"arguments\":\"\"}}]}],\"tools\":[{\"type\":\"function\"}],"
        "\"extra\":{\"enable_thinking\":true}}";
    struct chat *c = NULL;
    json_t *j = NULL, *messages = NULL;
    char *text = NULL;
    size_t n;
    int rc = -1;
    if (!(j = json_read(request, strlen(request), 0, NULL, e))) return -1;
    if (chat_open(&c, arg, 1753500000, e) ||
        chat_messages(c, json_object_get(j, "messages"), &messages, e))
        goto fail;
    keep(r, (char[]){(char)('0' + chat_reads_tools(c))}, 1);
    const struct chat_input in = {messages, json_object_get(j, "tools"),
                                  json_object_get(j, "extra"), 1};
    if (chat_render(c, &in, &text, &n, e)) goto fail;
    keep(r, text, n);
    rc = 0;
fail:
    free(text);
    chat_close(c);
    json_decref(messages);
    json_decref(j);
    return rc;
}

static struct chat_file as_file(const char *s) { return (struct chat_file){s, strlen(s)}; }

static void chats(void **state)
{
    (void)state;
    static const char plain[] =
        "{%- macro show(m, end='|') %}{{ m.role | upper ~ ': ' ~ (m.content or '') | trim }}{{ end "
        "}}{% endmacro -%}"
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ show(m) "
        "}}{{ m | tojson }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson(indent=2) }}{% endfor %}"
        "{{ '%s %5.2f' | format(loop.index, 1.5) }}{{ m.keys() | list | sort | join(',') }}{% "
        "endfor %}{{ 'a,b'.split(',') | last }}"
        "{{ bos_token ~ ns.n }}{{ tools | length }}{{ strftime_now('%Y') }}{{ [3,1,2] | sort | "
        "map('string') | join }}{{ range(3) | list }}";
    static const char parts[] = "{% for m in messages %}{% if m.content is string %}{{ m.content "
                                "}}{% else %}{% for part in m.content or [] %}"
                                "<{{ part.text }}>{% endfor %}{% endif %}{% endfor %}";
    static const char config[] =
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</"
        "s>\",\"chat_template\":[{\"name\":\"default\",\"template\":\"{{ bos_token }}"
        "{% for m in messages %}{{ m.role }}{% endfor "
        "%}\"},{\"name\":\"tool_use\",\"template\":\"T{{ tools | tojson }}\"}]}";
    const struct chat_source sources[] = {
        {.given = as_file(plain), .config = as_file(config)},
        {.jinja = as_file(parts), .special_map = as_file("{\"bos_token\":\"<s>\"}")},
        {.config = as_file(config)},
        {.json =
             as_file("{\"chat_template\":\"{% for m in messages %}{{ m.content }}{% endfor %}\"}")},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) sweep("chat", say, &sources[i]);
}

/* ---- stop strings */

static int look(const void *arg, struct result *r, struct err *e)
{
    static const char *const strings[] = {"END", "stop here"},
                             *const pieces[] = {"", "one EN", "D no: stop",
                                                " there, a longer piece of text "};
    struct stop s;
    const char *out;
    size_t n;
    int rc = stop_open(&s, strings, (int)(intptr_t)arg, e);
    for (int i = 0; i < 4 && rc >= 0; i++)
        if ((rc = stop_push(&s, pieces[i], strlen(pieces[i]), &out, &n, e)) >= 0) keep(r, out, n);
    if (rc >= 0) {
        stop_flush(&s, &out, &n);
        keep(r, out, n);
    }
    stop_close(&s);
    return rc < 0 ? -1 : 0;
}

static void stop_strings(void **state)
{
    (void)state;
    for (intptr_t n = 0; n < 3; n++) sweep("stop strings", look, (const void *)n);
}

/* ---- errors that are no lack of memory */

/* ---- grammars: compiled, followed through a text, with all masks on the way */

static const char *one_byte(void *arg, int32_t id, size_t *bytes)
{
    *bytes = 1;
    return (const char *)arg + id;
}

struct constrained {
    struct grammar_spec spec;
    const char *text;
};

static int constrain(const void *arg, struct result *r, struct err *e)
{
    static char all[256];
    const struct constrained *k = arg;
    struct vocab *v = NULL;
    struct grammar *g = NULL;
    struct grammar_cursor *c = NULL;
    uint32_t bits[8];
    int n, rc;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    const struct vocab_source source = {256, one_byte, all};
    rc = vocab_open(&v, &source, e);
    if (!rc) rc = grammar_open(&g, &k->spec, v, e);
    if (!rc) rc = grammar_cursor_open(&c, g, e);
    for (const char *p = k->text; !rc && *p; p++) {
        if ((rc = grammar_mask(c, bits, &n, NULL, e))) break;
        keep(r, bits, sizeof bits);
        int accepted = grammar_accept(c, p, 1, e);
        if (accepted < 0) rc = -1;
        else keep(r, &accepted, sizeof accepted);
    }
    grammar_cursor_close(c);
    grammar_close(g);
    vocab_close(v);
    return rc;
}

static void grammars(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\","
        "\"maxLength\":2},\"b\":{\"oneOf\":[{\"type\":\"integer\",\"minimum\":1},{\"maximum\":3,"
        "\"type\":\"integer\"}]},\"c\":{\"not\":{\"enum\":[\"q\"]},\"type\":\"string\"}},"
        "\"required\":[\"b\"],\"patternProperties\":{\"^d\":{\"type\":[\"null\",\"array\"]}},"
        "\"additionalProperties\":false}";
    static const char gbnf[] = "root ::= [a-c]{2} ( \"x\" | rest )*\nrest ::= \"y\" root?";
    static const char regex[] = "(?:ab|[^a]{2,3})\\d";
    static const struct constrained cases[] = {
        {{.kind = GRAMMAR_SCHEMA, .text = schema, .bytes = sizeof schema - 1},
         "{\"b\": 7, \"a\":\"x\",\"de\":[{}]}"},
        {{.kind = GRAMMAR_GBNF, .text = gbnf, .bytes = sizeof gbnf - 1}, "abxyca"},
        {{.kind = GRAMMAR_REGEX, .text = regex, .bytes = sizeof regex - 1}, "\xc3\xa9z4"},
        {{.kind = GRAMMAR_JSON, .text = ""}, "{\"a\":[1,{}]}"},
        {{.kind = GRAMMAR_CHOICE, .text = "[\"yes\",\"no\"]", .bytes = 12}, "yes"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        sweep("grammar", constrain, &cases[i]);
}

/* ---- calls of functions: their grammars, the answers that are read, prompts that go on */

#define CALL_TOOLS                                                                                 \
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{"     \
    "\"enum\":[\"x\",\"y\"]},{\"type\":\"null\"}]},\"b\":{\"type\":[\"string\",\"integer\"]},"     \
    "\"c\":{"                                                                                      \
    "\"type\":\"array\"}},\"required\":[\"b\"]}},{\"name\":\"g\"}]"

static int read_calls(const void *arg, struct result *r, struct err *e)
{
    const struct constrained *k = arg;
    json_error_t why;
    json_t *job = json_read(k->spec.text, k->spec.bytes, 0, &why, e);
    if (!job) return -1;
    const struct toolcalls_source source = {
        call_syntax_row(json_integer_value(json_object_get(job, "syntax"))),
        json_object_get(job, "special"), json_object_get(job, "tools"), 0, 0};
    struct toolcalls t;
    int rc = toolcalls_read(&t, &source, k->text, strlen(k->text), e);
    if (!rc) keep(r, t.text, t.text_bytes);
    for (int i = 0; i < t.n && !rc; i++) {
        keep(r, t.call[i].name, strlen(t.call[i].name));
        keep(r, t.call[i].arguments, strlen(t.call[i].arguments));
    }
    toolcalls_close(&t);
    json_decref(job);
    return rc;
}

static int go_on(const void *arg, struct result *r, struct err *e)
{
    char rendered[200];
    json_t *text = NULL, *messages = json_read(arg, strlen(arg), 0, NULL, e);
    if (!messages) return -1;
    int rc = chat_continue_mark(messages, &text, e);
    if (!rc) {
        const char *marked =
            json_string_value(json_object_get(json_array_get(messages, 0), "content"));
        size_t n = (size_t)snprintf(rendered, sizeof rendered, "[%s]", marked);
        rc = chat_continue_cut(rendered, &n, text, e);
        if (!rc) keep(r, rendered, n);
    }
    json_decref(text);
    json_decref(messages);
    return rc;
}

static void calls(void **state)
{
    static const struct {
        const char *parser, *text;
    } answers[] = {
        {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1}}\n</tool_call>"},
        {"qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=b>\n7x\n</parameter>\n<parameter=a>\n"
         "null\n</parameter>\n<parameter=c>\n[1e999]\n</parameter>\n</function>\n"
         "</tool_call>"},
        {"hermes", "<tool_call>{'name': 'f', 'arguments': {'b': (1, None)}}"},
        {"qwen3_coder", "<function=f>\n<parameter=c>\n['x']\n<parameter=b>\n7\n</function>"},
        {"deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"
                         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "{\"syntax\":%d,\"choice\":\"auto\",\"parallel\":true,\"special\":[\"<think>\"],"
                 "\"tools\":" CALL_TOOLS "%s}",
                 call_syntax_number(call_syntax_find(NULL, 0, answers[i].parser)),
                 i ? "" : ",\"document\":{\"kind\":3,\"text\":\"[\\\"yes\\\"]\"}");
        const struct constrained k = {{.kind = GRAMMAR_CALLS,
                                       .text = text,
                                       .bytes = strlen(text),
                                       .thoughts = {"<think>", "</think>", 1, 0, (int)i % 2}},
                                      answers[i].text};
        sweep("grammar of calls", constrain, &k);
        sweep("calls", read_calls, &k);
    }
    sweep("a message that goes on", go_on, "[{\"role\":\"assistant\",\"content\":\"The sum \"}]");
}

static void bounds_and_words_are_not_memory(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{{ raise_exception('out of memory') }}",
        "{{ 'out of memory' + 1 }}",
        "{{ x.y['out of memory'].z }}",
        "{{ ('a' * 1000000) * 1000 }}",
        "{% set ns = namespace(s='x' * 1000000) %}{% for i in range(2000) %}{% set ns.s = 'y' "
        "+ ns.s %}{% endfor %}",
        "{{ range(100000000) | list }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(1000) %}{{ 'x' * 1000000 }}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'out of memory' | nosuch }}",
        "{{ 'out of memory",
        "{{ '%1000000000d' | format(1) }}",
        "{{ 'x'.center(1000000000) }}",
        "{{ ['x' * 1000000] * 1000000 | join }}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const struct chat_source src = {.given = as_file(templates[i])};
        struct err e = {0};
        struct chat *c = NULL;
        char *text = NULL;
        size_t n;
        json_t *messages = json_array();
        int rc = chat_open(&c, &src, 0, &e)
                     ? -1
                     : chat_render(c, &(struct chat_input){messages, NULL, NULL, 1}, &text, &n, &e);
        if (!rc) fail_msg("%s: rendered", templates[i]);
        if (err_is_memory(&e)) fail_msg("%s: taken for a lack of memory: %s", templates[i], e.msg);
        free(text);
        chat_close(c);
        json_decref(messages);
    }
    static const char *const messages[] = {
        "[{\"role\":\"user\",\"content\":[{\"type\":\"out of memory\"}]}]",
        "[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{\"function\":{\"arguments\":\"out "
        "of memory\"}}]}]",
        "[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{\"function\":{\"arguments\":"
        "\"\\\"out of memory\"}}]}]",
        "[\"out of memory\"]",
    };
    static const char template[] = "{{ messages }}";
    const struct chat_source src = {.given = as_file(template)};
    struct err e = {0};
    struct chat *c;
    assert_int_equal(chat_open(&c, &src, 0, &e), 0);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        json_t *j = json_loads(messages[i], 0, NULL), *out = NULL;
        assert_int_equal(chat_messages(c, j, &out, &e), -1);
        if (err_is_memory(&e)) fail_msg("%s: taken for a lack of memory: %s", messages[i], e.msg);
        json_decref(j);
    }
    chat_close(c);
    static const char *const tokenizers[] = {
        "{\"model\":{\"type\":\"out of memory\"}}", "{\"out of memory",
        "{\"decoder\":{\"type\":\"out of memory\"},\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{\"out of memory\":0,\"out of memory\":1},\"merges\":[]}}",
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(out of "
        "memory\"},\"behavior\":\"Isolated\"},\"model\":{\"vocab\":{},\"merges\":[]}}"};
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        const struct tok_source ts = {.json = tokenizers[i], .json_bytes = strlen(tokenizers[i])};
        struct tokenizer *t;
        assert_int_equal(tok_open(&t, &ts, &e), -1);
        if (err_is_memory(&e)) fail_msg("%s: taken for a lack of memory: %s", tokenizers[i], e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizers),
        cmocka_unit_test(long_tokens),
        cmocka_unit_test(chats),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(grammars),
        cmocka_unit_test(calls),
        cmocka_unit_test(bounds_and_words_are_not_memory),
    };
    return cmocka_run_group_tests_name("allocation_text", tests, NULL, NULL);
}
