/* unit_jinja.c: the template language and chat templates, against Python's jinja2 with
 * transformers' settings. tests/data/jinja-cases.json: small templates, one feature each, and
 * failing ones; tests/data/chat-golden.json: many conversations through whole chat templates, as
 * hashes. scripts/golden-jinja writes both. Runs from the project root; the chat templates are in
 * SHARED_DIR, without which their tests are skipped. */
#include "core/base/json_long.h"
#include "core/text/chat.h"
#include "core/text/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#ifndef SHARED_DIR
#define SHARED_DIR "../shared"
#endif

static json_t *load(const char *path)
{
    json_error_t je;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &je);
    if (!j) fail_msg("%s: %s", path, je.text);
    return j;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n + 1);
    assert_non_null(p);
    *n = fread(p, 1, *n, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

/* Parses and renders; returns the text (malloc'd), or NULL with *e set. */
static char *render(const char *template, size_t n_template, const json_t *variables, size_t *n,
                    struct err *e)
{
    struct jinja *t;
    char *text = NULL;
    *n = 0;
    e->msg[0] = 0;
    if (jinja_open(&t, template, n_template, e)) return NULL;
    jinja_render(t, variables, 1753500000, &text, n, e);
    jinja_close(t);
    return text;
}

static void cases_give_what_jinja2_gives(void **state)
{
    (void)state;
    json_t *file = load("tests/data/jinja-cases.json"), *c;
    const json_t *variables = json_object_get(file, "variables");
    size_t i, n, n_texts = 0, n_errors = 0;
    json_array_foreach (json_object_get(file, "cases"), i, c) {
        const json_t *template = json_object_get(c, "template"), *want = json_object_get(c, "text");
        const char *name = json_string_value(json_object_get(c, "name"));
        struct err e;
        char *have = render(json_string_value(template), json_string_length(template), variables,
                            &n, &e);
        if (!want) {
            if (have) fail_msg("case '%s': no error but '%s'", name, have);
            assert_memory_equal(e.msg, "line ", 5);
            n_errors++;
            continue;
        }
        if (!have) fail_msg("case '%s': %s", name, e.msg);
        if (n != json_string_length(want) || memcmp(have, json_string_value(want), n))
            fail_msg("case '%s': have '%s', want '%s'", name, have, json_string_value(want));
        free(have);
        n_texts++;
    }
    assert_true(n_texts > 60 && n_errors > 35);
    json_decref(file);
}

/* The contents of an error message. */
static void errors_name_line_and_construct(void **state)
{
    (void)state;
    static const struct {
        const char *template, *says;
    } cases[] = {
        {"a\n\n{% extends 'x' %}", "line 3: the tag 'extends' is not supported"},
        {"{% include 'x' %}", "'include'"},
        {"{% block x %}{% endblock %}", "'block'"},
        {"{% import 'x' as y %}", "'import'"},
        {"a\n{{ lipsum() }}", "line 2: 'lipsum' is not supported"},
        {"{{ cycler(1) }}", "'cycler'"},
        {"\n{{ 'x' | urlize }}", "line 2: 'urlize' is not supported"},
        {"{{ 'abc'.replace('b') }}", "replace() is missing the argument"},
        {"{{ 'abc'.replace() }}", "replace() is missing the argument"},
        {"{{ 'x'.encode() }}", "the method 'encode' of str is not supported"},
        {"{{ 9223372036854775807 + 1 }}", "64 bits"},
        {"{{ -9223372036854775807 - 2 }}", "64 bits"},
        {"{{ 3 ** 99 }}", "64 bits"},
        {"{{ 99999999999999999999 }}", "64 bits"},
        {"{{ range }}", "cannot be printed"},
        {"{{ [1] | map('string') }}", "cannot be printed"},
        {"{% endif %}", "unknown tag 'endif'"},
        {"\n\n{% for x in y %}\n", "line 3: 'for' is never closed"},
        {"{{ 'abc", "string without its closing '"},
        {"{# never", "comment that is never closed"},
        {"{{ 1", "never closed"},
        {"{% raw %}", "raw without endraw"},
        {"{{ \xc3\xa9 }}", "unexpected character"},
        {"{{ '\\ud800' }}", "escape"},
        {"{% break %}", "outside of a loop"},
        {"{% set x.y = 1 %}", "non-namespace"},
        {"\xff", "not UTF-8"},
        {"{{ raise_exception('no \"system\" role') }}", "line 1: no \"system\" role"},
        {"{% macro f(a, bb) %}{% endmacro %}{{ f(a=1, bb=2, **{'bb': 3}) }}",
         "got multiple values for keyword argument 'bb'"},
        {"\n{% call raise_exception(\n'a'\n~ 'b') %}x{% endcall %}", "line 2: "},
    };
    json_t *none = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        size_t n;
        char *have = render(cases[i].template, strlen(cases[i].template), none, &n, &e);
        if (have || !strstr(e.msg, cases[i].says))
            fail_msg("%s: '%s' does not say '%s'", cases[i].template, have ? have : e.msg,
                     cases[i].says);
    }
    json_decref(none);
}

/* Values at the edges, as Python gives them. */
static void values_by_hand(void **state)
{
    static const struct {
        const char *template, *text; /* text NULL: an error */
    } cases[] = {
        {"{{ '1_0.5' | float }}", "10.5"},
        {"{{ '_1' | float(7) }},{{ '1_' | float(7) }},{{ '1__0' | float(7) }}", "7,7,7"},
        {"{{ 1.5 | round(-300) }},{{ 1.26 | round(1) }}", "0.0,1.3"},
        {"{{ 1.5 | round(301) }}", NULL},
        {"{{ 1e308 * 10 }}", "inf"},
        {"{{ [1e308 * 10, -1e308 * 10, 1e308 * 10 - 1e308 * 10] | tojson }}",
         "[Infinity, -Infinity, NaN]"},
        {"{{ [1, 2, 3] | batch(2) | list }}", "[[1, 2], [3]]"},
        {"{{ [1, 2, 3] | batch(0) | list }}", NULL},
        {"{{ [1, 2, 3] | batch(-1) | list }}", NULL},
        {"{{ [1, 2, 3] | batch('2') | list }}", NULL},
        {"{{ 'a-b-c'.rsplit('-', 1) }}", "['a-b', 'c']"},
        {"{{ 'a-b'.rsplit(1) }}", NULL},
        {"{{ 'a-b'.rsplit('') }}", NULL},
        {"{{ 'abc'.endswith('xc') }},{{ 'abc'.endswith('bc') }},{{ 'c'.endswith('bc') }}",
         "False,True,False"},
        {"{{ 'abc'.startswith('ax') }},{{ 'abc'.startswith('ab') }}", "False,True"},
        {"{{ none is sameas(none) }},{{ 1 is sameas(true) }}", "True,False"},
        {"{{ 'a' is sameas('a') }}", NULL},
        {"{{ '%(a)s %(b)05.1f' | format(a=1, b=2.25) }}", "1 002.2"},
        {"{{ '%(a' | format(a=1) }}", NULL},
        {"{{ strftime_now('%Zx%zy%%Z%H:%M%Z') }}", "xy%Z03:20"}, /* a time without a zone */
        {"{% set ns = namespace(t='x' * 300) %}{% for i in range(12) %}{% set ns.t = ns.t ~ i %}"
         "{% endfor %}{{ ns.t[-16:] }}",
         "xx01234567891011"},
    };
    json_t *none = json_object();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        size_t n;
        char *have = render(cases[i].template, strlen(cases[i].template), none, &n, &e);
        if (!cases[i].text ? have != NULL : !have || strcmp(have, cases[i].text))
            fail_msg("%s: %s", cases[i].template, have ? have : e.msg);
        free(have);
    }
    json_decref(none);
}

static char *repeated(const char *head, const char *middle, size_t times, const char *tail)
{
    size_t n = strlen(middle);
    char *s = malloc(strlen(head) + n * times + strlen(tail) + 1), *p = s;
    assert_non_null(s);
    p = stpcpy(p, head);
    for (size_t i = 0; i < times; i++) p = stpcpy(p, middle);
    strcpy(p, tail);
    return s;
}

/* Templates made to exhaust a resource end soon in an error (or a text), without a leak. */
static void hostile_templates_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *head, *middle;
        size_t times;
        const char *tail, *says; /* NULL: renders */
    } cases[] = {
        {"{{ ", "(", 100000, "1", "within each other"},
        {"{{ ", "[", 190, "1", "never closed"},
        {"{{ ", "-", 100000, "1 }}", "within each other"},
        {"{{ ", "not ", 100000, "1 }}", "within each other"},
        {"{{ 1", " + 1", 100000, " }}", "within each other"},
        {"{{ 1", " if 1 else 1", 100000, " }}", "within each other"},
        {"{{ x", ".y", 100000, " }}", "within each other"},
        {"{{ 'x'", "|trim", 100000, " }}", "within each other"},
        {"{{ 1", " ~ 1", 100000, " }}", NULL},
        {"", "{% if 1 %}", 100000, "", "within each other"},
        {"{% if 0 %}", "{% elif 0 %}", 100000, "{% endif %}", NULL},
        {"", "{% for x in range(100000) %}", 3, "{% endfor %}{% endfor %}{% endfor %}", "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "", 0, "", "within each other"},
        {"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "", 0, "",
         "within each other"},
        {"{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor "
         "%}{{ n.x }}",
         "", 0, "", "within each other"},
        {"{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor "
         "%}{{ n.x | tojson }}",
         "", 0, "", "within each other"},
        {"{% set n = namespace(x=[],y=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% set "
         "n.y = [n.y] %}{% endfor %}{{ n.x == n.y "
         "}}",
         "", 0, "", "within each other"},
        {"{% set n = namespace(x={}) %}{% set n.x = {'a': n} %}{{ n.x }}", "", 0, "",
         "cannot be printed"},
        {"{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor "
         "%}",
         "", 0, "", "MiB"},
        {"{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor "
         "%}",
         "", 0, "", "MiB"},
        {"{% for i in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxx' * 1000 }}{% endfor %}", "", 0,
         "", "MiB"},
        {"{{ 'x' * 9223372036854775807 }}", "", 0, "", "steps"},
        {"{{ [1] * 9223372036854775807 }}", "", 0, "", "M"},
        {"{{ 'x'.center(9223372036854775807) }}", "", 0, "", "MiB"},
        {"{{ '%99999d' % 1 }}", "", 0, "", "width"},
        {"{{ '{:9999999999999}'.format(1) }}", "", 0, "", "width"},
        {"{{ [] | tojson(indent=9223372036854775807) }}", "", 0, "", "MiB"},
        {"{{ strftime_now('%999999999d') }}", "", 0, "", "strftime_now"},
        {"{{ range(-9223372036854775807, 9223372036854775807) }}", "", 0, "", "Range too big"},
        {"{{ range(9223372036854775806, 9223372036854775807)[0] }}{{ "
         "'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] "
         "}}",
         "", 0, "", NULL},
        {"{{ (-9223372036854775807 - 1) // -1 }}", "", 0, "", "64 bits"},
        {"{{ (-9223372036854775807 - 1) % -1 }}{{ 1e308 * 10 }}{{ 1 / 3 }}", "", 0, "", NULL},
    };
    json_t *none = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        size_t n;
        char *template = repeated(cases[i].head, cases[i].middle, cases[i].times, cases[i].tail);
        char *have = render(template, strlen(template), none, &n, &e);
        if (cases[i].says ? have || !strstr(e.msg, cases[i].says) : !have)
            fail_msg("%s%s...: '%.100s' does not say '%s'", cases[i].head, cases[i].middle,
                     have ? have : e.msg, cases[i].says);
        free(have);
        free(template);
    }
    json_decref(none);
}

/* A text that grows in a loop is not copied in each iteration: that would exceed the bound on
 * memory. */
static void text_grows_in_place(void **state)
{
    (void)state;
    static const char template[] = "{% set n = namespace(x='') %}{% for i in range(20000) %}{% set "
                                   "n.x = n.x + '0123456789' * 10 %}{% endfor %}{{ n.x | length }}";
    json_t *none = json_object();
    struct err e;
    size_t n;
    char *have = render(template, strlen(template), none, &n, &e);
    if (!have) fail_msg("%s", e.msg);
    assert_string_equal(have, "2000000");
    free(have);
    json_decref(none);
}

/* Mutated templates: a text or an error of one line, whatever the damage; the sanitizers detect the
 * rest. */
static void mutated_templates_do_no_harm(void **state)
{
    (void)state;
    static const char *const scraps[] = {
        "{{",          "}}",     "{%",   "%}",       "{#",     "#}",
        "-",           "(",      ")",    "[",        "]",      "{",
        "}",           "|",      ".",    "'",        "\"",     "\\",
        "for ",        " in ",   "if ",  "else",     "endif",  "endfor",
        "set ",        "macro ", "loop", "messages", "tojson", "** ",
        "*",           "%",      "~",    " is ",     "not ",   "9223372036854775807",
        "-1",          "0",      ":",    ",",        "=",      "==",
        "namespace()", "\n",     " ",    "\xc3\xa9", "\xff",   "recursive"};
    json_t *file = load("tests/data/jinja-cases.json"), *all = json_object_get(file, "cases");
    const json_t *variables = json_object_get(file, "variables");
    uint64_t seed = 42;
    size_t n_rendered = 0, n_refused = 0;
#define NEXT(k) ((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % (k)
    for (int round = 0; round < 12000; round++) {
        const json_t *source = json_object_get(json_array_get(all, NEXT(json_array_size(all))),
                                               "template");
        const json_t *other = json_object_get(json_array_get(all, NEXT(json_array_size(all))),
                                              "template");
        char text[8192];
        size_t n = json_string_length(source), at, cut;
        if (n + 2048 > sizeof text) n = sizeof text - 2048;
        memcpy(text, json_string_value(source), n);
        for (size_t k = 1 + NEXT(4); k && n; k--) {
            const char *scrap = scraps[NEXT(sizeof scraps / sizeof *scraps)];
            size_t n_scrap = strlen(scrap), how = NEXT(4);
            at = NEXT(n);
            cut = how == 0 ? NEXT(12) : how == 1 ? n_scrap : 0;
            if (how == 3)
                scrap = json_string_value(other), n_scrap = NEXT(60),
                scrap += NEXT(
                    json_string_length(other) > n_scrap ? json_string_length(other) - n_scrap : 1);
            if (how == 3 && strlen(scrap) < n_scrap) n_scrap = strlen(scrap);
            if (how == 0) n_scrap = 0;
            if (cut > n - at) cut = n - at;
            memmove(text + at + n_scrap, text + at + cut, n - at - cut);
            memcpy(text + at, scrap, n_scrap);
            n = n - cut + n_scrap;
        }
        struct err e;
        size_t bytes;
        char *have = render(text, n, variables, &bytes, &e);
        if (have) n_rendered++;
        else n_refused++;
        if (!have && (!e.msg[0] || strchr(e.msg, '\n'))) fail_msg("round %d: '%s'", round, e.msg);
        free(have);
    }
#undef NEXT
    assert_true(n_rendered > 500 && n_refused > 2000);
    json_decref(file);
}

/* ---- chat ---- */

static struct chat_file as_file(const char *s) { return (struct chat_file){s, s ? strlen(s) : 0}; }

static uint64_t fnv(uint64_t h, const void *p, size_t n)
{
    for (const unsigned char *b = p; n; n--) h = (h ^ *b++) * 0x100000001b3u;
    return h;
}

/* Whole chat templates over all conversations of the golden file. */
static void reference_templates(void **state)
{
    (void)state;
    json_t *golden = load("tests/data/chat-golden.json"), *of, *lists[3];
    const json_t *g = json_object_get(golden, "conversations");
    static const char *const keys[] = {"messages", "tools", "extra"};
    char *tokens = json_dumps(json_object_get(golden, "tokens"), 0);
    const char *name;
    int n_templates = 0;
    for (int i = 0; i < 3; i++) lists[i] = json_object_get(g, keys[i]);
    json_object_foreach (json_object_get(golden, "templates"), name, of) {
        char path[512], hash[20];
        size_t n, rendered = 0, raised = 0, want_raised = 0;
        snprintf(path, sizeof path, "%s/data/chat_templates/%s", SHARED_DIR, name);
        char *text = read_file(path, &n);
        if (!text) continue;
        struct chat_source src = {.given = {text, n}, .config = as_file(tokens)};
        struct chat *c;
        struct err e;
        if (chat_open(&c, &src, 0, &e)) fail_msg("%s: %s", name, e.msg);
        uint64_t h = 0xcbf29ce484222325u;
        for (size_t i = 0; i < json_array_size(lists[0]) * json_array_size(lists[1]) *
                                   json_array_size(lists[2]) * 2;
             i++) {
            size_t x = i / 2 % json_array_size(lists[2]),
                   y = i / 2 / json_array_size(lists[2]) % json_array_size(lists[1]);
            json_t *tools = json_array_get(lists[1], y),
                   *messages = json_array_get(lists[0], i / 2 / json_array_size(lists[2]) /
                                                            json_array_size(lists[1]));
            char *out;
            const struct chat_input in = {messages, json_is_null(tools) ? NULL : tools,
                                          json_array_get(lists[2], x), i % 2};
            if (!chat_render(c, &in, &out, &n, &e)) {
                h = fnv(h, out, n + 1);
                rendered++;
                free(out);
                continue;
            }
            h = fnv(h, "\1", 2);
            const char *message;
            json_t *count;
            json_object_foreach (json_object_get(of, "raised"), message, count)
                raised += strstr(e.msg, message) != NULL;
        }
        const char *message;
        json_t *count;
        json_object_foreach (json_object_get(of, "raised"), message, count)
            want_raised += (size_t)json_integer_value(count);
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)h);
        if (strcmp(hash, json_string_value(json_object_get(of, "hash"))) ||
            rendered != (size_t)json_integer_value(json_object_get(of, "rendered")) ||
            raised != want_raised)
            fail_msg("%s: %zu rendered, %zu raised, hash %s", name, rendered, raised, hash);
        chat_close(c);
        free(text);
        n_templates++;
    }
    free(tokens);
    json_decref(golden);
    if (!n_templates) {
        printf("SKIP reference_templates: %s/data/chat_templates is not there\n", SHARED_DIR);
        skip();
    }
}

static char *say(const struct chat_source *src, const char *messages, const char *tools,
                 struct err *e)
{
    struct chat *c;
    char *text = NULL;
    size_t n;
    e->msg[0] = 0;
    if (chat_open(&c, src, 0, e)) return NULL;
    json_t *m = json_loads(messages, 0, NULL), *t = tools ? json_loads(tools, 0, NULL) : NULL;
    assert_non_null(m);
    chat_render(c, &(struct chat_input){m, t, NULL, 1}, &text, &n, e);
    json_decref(m);
    json_decref(t);
    chat_close(c);
    return text;
}

static void expect(const struct chat_source *src, const char *tools, const char *want)
{
    struct err e;
    char *have = say(src, "[{\"role\": \"user\", \"content\": \"Hi\"}]", tools, &e);
    if (!have || strcmp(have, want)) fail_msg("have '%s', want '%s'", have ? have : e.msg, want);
    free(have);
}

/* The choice among a checkpoint's files and names, and the variables of the template. */
static void template_is_chosen_as_transformers_does(void **state)
{
    (void)state;
    struct chat_source src = {
        .config = as_file("{\"model_max_length\": 1000000000000000019884624838656, \"bos_token\": "
                          "{\"content\": \"<s>\"}, \"eos_token\": null, "
                          "\"chat_template\": \"C{{ bos_token }}{{ eos_token is defined }}{{ "
                          "unk_token }}{{ tools is none }}\"}"),
        .special_map = as_file("{\"bos_token\": \"<other>\", \"unk_token\": \"<unk>\"}"),
        .json = as_file("{\"chat_template\": \"J\"}")};
    struct err e;
    expect(&src, NULL, "C<s>False<unk>True");
    src.jinja = as_file("F{{ messages[0].content }}{{ add_generation_prompt }}");
    src.tool_use = as_file("T");
    expect(&src, NULL, "FHiTrue");
    expect(&src, "[]", "T");
    src.given = as_file("G");
    expect(&src, "[]", "G");
    src = (struct chat_source){
        .config = as_file("{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, "
                          "{\"name\": \"tool_use\", \"template\": \"T\"}, "
                          "{\"name\": \"rag\", \"template\": \"{% not jinja\"}]}")};
    expect(&src, NULL, "D");
    expect(&src, "[]", "T");
    src.config = as_file("{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, "
                         "{\"name\": \"x\", \"template\": \"X\"}]}");
    assert_null(say(&src, "[]", NULL, &e));
    assert_non_null(strstr(e.msg, "rag, x"));
    src.config = as_file("{}");
    src.json = as_file("{\"chat_template\": \"J\"}");
    expect(&src, NULL, "J");
    src.json = as_file(NULL);
    assert_null(say(&src, "[]", NULL, &e));
    assert_non_null(strstr(e.msg, "no chat template"));
    src.given = as_file("a\n{% foo %}");
    assert_null(say(&src, "[]", NULL, &e));
    assert_non_null(strstr(e.msg, "chat template: line 2: encountered unknown tag 'foo'"));
    src.given = as_file("{{ strftime_now('%Y') }}");
    expect(&src, NULL, "1970");
}

static void what_a_template_reads(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        int reads;
    } cases[] = {
        {"{{ tools }}", 1},
        {"{% if tools is defined and tools %}x{% endif %}", 1},
        {"{% for t in tools %}{% endfor %}", 1},
        {"{% macro m(a=tools) %}{% endmacro %}", 1},
        {"{% set x = messages if tools is not none else [] %}", 1},
        {"{% set ns = namespace(t=tools) %}", 1},
        {"{{ messages | selectattr('x', 'in', tools) | list }}", 1},
        {"{{ ('', x[tools]) }}", 1},
        {"{{ messages }}", 0},
        {"tools {# tools #}{{ 'tools' }}{{ m.tools }}{{ m['tools'] }}{{ f(tools=1) }}", 0},
        {"{% set tools = [] %}{% for tools in x %}{% endfor %}{% set tools, y = 1, 2 %}", 0},
        {"{% with tools = 1 %}{{ y }}{% endwith %}", 0},
        {"{% set tools %}{{ tools }}{% endset %}", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct jinja *t;
        struct chat *c;
        const struct chat_source src = {.given = as_file(cases[i].template)};
        if (jinja_open(&t, cases[i].template, strlen(cases[i].template), &e))
            fail_msg("%s: %s", cases[i].template, e.msg);
        if (jinja_reads(t, "tools") != cases[i].reads)
            fail_msg("%s: tools is%s read", cases[i].template, cases[i].reads ? "" : " not");
        assert_int_equal(jinja_reads(t, "documents"), 0);
        jinja_close(t);
        assert_int_equal(chat_open(&c, &src, 0, &e), 0);
        assert_int_equal(chat_reads_tools(c), cases[i].reads);
        chat_close(c);
    }
    /* with several templates the one for tools counts */
    const struct chat_source two = {.jinja = as_file("{{ messages }}"),
                                    .tool_use = as_file("{{ tools }}")},
                             none = {0};
    struct err e = {0};
    struct chat *c;
    assert_int_equal(chat_open(&c, &two, 0, &e), 0);
    assert_int_equal(chat_reads_tools(c), 1);
    chat_close(c);
    assert_int_equal(chat_open(&c, &none, 0, &e), 0);
    assert_int_equal(chat_reads_tools(c), 1);
    chat_close(c);
}

/* Empty output of a block, a macro or a filter is an empty text. */
static void nothing_is_text_too(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{% set x %}{% endset %}{{ x }}",
        "{% macro m() %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% endcall %}",
        "{% filter upper %}{% endfilter %}",
        "{{ '' | e }}{{ '' | escape }}{{ '' | forceescape }}{{ '' | safe }}",
        "{{ '' ~ '' }}{{ '' + '' }}{{ '' * 3 }}{{ [] | join }}{{ [''] | join(',') }}",
        "{{ '' | upper | lower | trim | title | capitalize | replace('', '') | center(0) | indent "
        "}}",
        "{{ '%s' | format('') }}{{ '{}'.format('') }}{{ ''.split(',') | join }}{{ ''.strip('') }}",
        "{{ '' | reverse }}{{ ''[::-1] }}{{ ''[0:0] }}{{ [][1:] | join }}{{ '' | string }}",
        "{{ x | default('') }}{{ [] | sort | join }}{{ {} | dictsort | join }}{{ ''.join([]) }}",
        "{{ ''.replace('a', '') }}{{ '' in '' and '' }}{{ ([] + []) | join }}{{ (() + ()) | join "
        "}}"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct err e = {0};
        size_t n;
        char *text = render(templates[i], strlen(templates[i]), NULL, &n, &e);
        if (!text) fail_msg("%s: %s", templates[i], e.msg);
        assert_int_equal(n, 0);
        free(text);
    }
}

static void openai_messages(void **state)
{
    (void)state;
    static const struct {
        const char *template, *in, *out; /* out: JSON, or the error's text */
    } cases[] = {
        {"x",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
         "\"text\":\"b\"}]}]",
         "[{\"role\":\"user\",\"content\":\"a\\nb\"}]"},
        {"{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]"},
        {"{% for m in messages %}{% set c = m.content %}{% if c is not string %}{% for p in c | "
         "list %}{% endfor %}{% endif %}{% endfor %}",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]"},
        {"x",
         "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
         "\"arguments\":\"{\\\"a\\\": "
         "1}\"}},{\"function\":{\"arguments\":\"\"}}]}]",
         "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
         "\"arguments\":{\"a\":1}}},{\"function\":{"
         "\"arguments\":{}}}]}]"},
        {"x",
         "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
         "null}},"
         "{\"function\":{\"name\":\"g\"}},{\"function\":{\"arguments\":\" null \"}},{\"function\":{"
         "\"arguments\":\"\\n\"}},{\"function\":{\"arguments\":\"[1]\"}},{\"function\":{"
         "\"arguments\":"
         "{\"a\":1}}}]}]",
         "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}"
         ","
         "{\"function\":{\"name\":\"g\",\"arguments\":{}}},{\"function\":{\"arguments\":{}}},"
         "{\"function\":{\"arguments\":{}}},{\"function\":{\"arguments\":[1]}},{\"function\":{"
         "\"arguments\":{\"a\":1}}}]}]"},
        /* reasoning of earlier turns */
        {"x", "[{\"role\":\"assistant\",\"reasoning\":\"r\"}]",
         "[{\"role\":\"assistant\",\"reasoning\":\"r\",\"reasoning_content\":\"r\",\"thinking\":"
         "\"r\"}]"},
        {"x", "[{\"role\":\"assistant\",\"thinking\":\"t\",\"reasoning\":\"r\"}]",
         "[{\"role\":\"assistant\",\"thinking\":\"t\",\"reasoning\":\"r\",\"reasoning_content\":"
         "\"t\"}]"},
        {"x", "[{\"role\":\"assistant\",\"reasoning_content\":null,\"reasoning\":\"r\"}]",
         "[{\"role\":\"assistant\",\"reasoning_content\":\"r\",\"reasoning\":\"r\",\"thinking\":"
         "\"r\"}]"},
        {"x", "[{\"role\":\"assistant\",\"reasoning_content\":\"c\",\"thinking\":\"t\"}]",
         "[{\"role\":\"assistant\",\"reasoning_content\":\"c\",\"thinking\":\"t\"}]"},
        {"x", "[{\"role\":\"assistant\",\"reasoning_content\":\"\",\"reasoning\":\"r\"}]",
         "[{\"role\":\"assistant\",\"reasoning_content\":\"r\",\"reasoning\":\"r\",\"thinking\":"
         "\"r\"}]"},
        {"x", "[{\"role\":\"assistant\",\"reasoning\":null}]",
         "[{\"role\":\"assistant\",\"reasoning\":null}]"},
        /* parts that hold text under other names */
        {"x",
         "[{\"role\":\"a\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":"
         "\"refusal\","
         "\"refusal\":\"b\"},{\"type\":\"thinking\",\"thinking\":\"c\"},\"d\",{\"type\":"
         "\"output_text\",\"text\":\"e\"}]}]",
         "[{\"role\":\"a\",\"content\":\"a\\nb\\nc\\nd\\ne\"}]"},
        {"{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}",
         "[{\"role\":\"a\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"b\"}]}]",
         "[{\"role\":\"a\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}]"},
        {"x", "[{\"role\":\"a\",\"content\":[{\"type\":\"refusal\",\"text\":\"b\"}]}]",
         "content[0] has no refusal"},
        {"x", "[]", "at least one"},
        {"x", "{}", "not a list"},
        {"x", "[1]", "messages[0] is not an object"},
        {"x", "[{\"role\":\"user\"},{\"content\":\"x\"}]", "messages[1].role"},
        {"x", "[{\"role\":\"user\",\"content\":5}]", "messages[0].content"},
        {"x", "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
         "messages[0].content[0]: 'image_url'"},
        {"x", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "content[0] has no text"},
        {"x", "[{\"role\":\"a\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}]",
         "tool_calls[0].function.arguments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chat_source src = {.given = as_file(cases[i].template)};
        struct chat *c;
        struct err e = {0};
        json_t *in = json_loads(cases[i].in, 0, NULL), *out;
        assert_non_null(in);
        assert_int_equal(chat_open(&c, &src, 0, &e), 0);
        int rc = chat_messages(c, in, &out, &e);
        char *have = rc ? strdup(e.msg) : json_dumps(out, JSON_COMPACT);
        if (rc ? !strstr(have, cases[i].out) : strcmp(have, cases[i].out) != 0)
            fail_msg("case %zu: '%s', want '%s'", i, have, cases[i].out);
        free(have);
        json_decref(in);
        json_decref(out);
        chat_close(c);
    }
}

/* Integers beyond 64 bits are written as Python writes them; nothing is computed from them. */
static void long_integers_are_written(void **state)
{
    static const char text[] = "{\"a\": {\"maximum\": 18446744073709551616, \"b\": "
                               "[-99999999999999999999, 0.12345678901234567890]}}",
                      template[] = "{{ a | tojson }} {{ a.maximum }} {{ a.maximum is number }} {{ a"
                                   ".maximum is integer }} {{ a.maximum is string }}",
                      want[] = "{\"maximum\": 18446744073709551616, \"b\": "
                               "[-99999999999999999999, 0.12345678901234568]} "
                               "18446744073709551616 True True False";
    struct err e = {0};
    size_t n;
    json_t *variables = json_read_long(text, strlen(text), &e);
    (void)state;
    char *have = render(template, strlen(template), variables, &n, &e);
    assert_non_null(have);
    assert_string_equal(have, want);
    free(have);
    assert_null(render("{{ a.maximum + 1 }}", 19, variables, &n, &e));
    json_decref(variables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_give_what_jinja2_gives),
        cmocka_unit_test(errors_name_line_and_construct),
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(hostile_templates_are_bounded),
        cmocka_unit_test(text_grows_in_place),
        cmocka_unit_test(mutated_templates_do_no_harm),
        cmocka_unit_test(reference_templates),
        cmocka_unit_test(template_is_chosen_as_transformers_does),
        cmocka_unit_test(what_a_template_reads),
        cmocka_unit_test(nothing_is_text_too),
        cmocka_unit_test(openai_messages),
        cmocka_unit_test(long_integers_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
