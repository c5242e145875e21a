/* unit_growth_records.c: a record and a chat template of four times as many parts take at most 2.5
 * x 2.5 times the processor time (growth.h), up to the grammar and the tokens of the prompt, or
 * they are refused by name. What a template's author makes quadratic ends at the bound of steps.
 * The folder is the project's root. */
#include "cli/modes/batch/job.h"
#include "core/text/chat.h"
#include "core/text/jinja.h"
#include "engine/pooling.h"
#include "tests/unit/growth.h"

/* ---- what a run has: the tokenizer of the demo model, a template with calls as Hermes writes them
 */

static const char hermes[] =
    "{% if tools %}{{ tools | tojson }}<tool_call>\\n{..}\\n</tool_call>{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}";

static struct tokenizer *tokenizer;
static struct chat *chat;
static struct constraints *constraints;
static struct breaker_texts breakers;
static struct job_calls_env calls = {.splits = 1};
static const struct pooling pooling = {.dim = 8, .yes = -1, .no = -1, .may_cut = 1};
static int32_t eos;

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(4 << 20);
    assert_true(f && p);
    *n = fread(p, 1, 4 << 20, f);
    fclose(f);
    return p;
}

static int open_run(void **state)
{
    struct err e = {0};
    struct tok_source s = {0};
    struct chat_source c = {.jinja = {hermes, sizeof hermes - 1}};
    (void)state;
    s.json = read_all("models/demo/tokenizer.json", &s.json_bytes);
    s.config = read_all("models/demo/tokenizer_config.json", &s.config_bytes);
    c.config.text = s.config;
    c.config.bytes = s.config_bytes;
    if (tok_open(&tokenizer, &s, &e) || chat_open(&chat, &c, 1700000000, &e)) fail_msg("%s", e.msg);
    eos = tok_eos(tokenizer);
    const struct vocabulary_source v = {tokenizer, &eos, 1, tok_n_ids(tokenizer)};
    if (constraints_open(&constraints, &v, &e)) fail_msg("%s", e.msg);
    free((char *)s.json), free((char *)s.config);
    return 0;
}

static int close_run(void **state)
{
    (void)state;
    constraints_close(constraints);
    chat_close(chat);
    tok_close(tokenizer);
    return 0;
}

/* ---- records */

#define CHAT "{\"url\":\"/v1/chat/completions\",\"body\":{"
#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
#define CALL "{\"id\":\"c%d\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f%d\"}}"

static const struct record_case {
    const char *name;
    struct growth_text line;
    int n;
    const char *refused; /* begin of the reason why 4 n parts are refused, or NULL */
} records[] = {
    {"messages",
     {CHAT "\"messages\":[", "{\"role\":\"user\",\"content\":\"m%d\"}", ",", "]}}"},
     2000,
     NULL},
    {"parts of a message",
     {CHAT "\"messages\":[{\"role\":\"user\",\"content\":[", "{\"type\":\"text\",\"text\":\"m%d\"}",
      ",", "]}]}}"},
     2000,
     NULL},
    {"words",
     {CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"", "word %d\\n", "", "\"}]}}"},
     10000,
     NULL},
    {"letters of a word",
     {CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"", "aa", "", "\"}]}}"},
     10000,
     NULL},
    {"spaces",
     {CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"", "  ", "", "\"}]}}"},
     20000,
     NULL},
    {"brackets in a text",
     {CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"", "[", "", "\"}]}}"},
     20000,
     NULL},
    {"tools", {CHAT ASK ",\"tools\":[", TOOL, ",", "]}}"}, 500, NULL},
    {"tools that are required",
     {CHAT ASK ",\"tool_choice\":\"required\",\"tools\":[", TOOL, ",", "]}}"},
     500,
     NULL},
    {"tools of one schema each",
     {CHAT ASK ",\"tool_choice\":\"required\",\"tools\":[",
      "{\"type\":\"function\",\"function\":{\"name\":\"f%d\",\"parameters\":{\"type\":\"object\","
      "\"properties\":{\"x%d\":{\"type\":\"integer\"}}}}}",
      ",", "]}}"},
     200,
     NULL},
    {"calls of a message",
     {CHAT "\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[",
      CALL "\"{\\\"x\\\":%d}\"}}", ",", "]}]}}"},
     1000,
     NULL},
    {"arguments of a call",
     {CHAT "\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" CALL "\"{",
      "\\\"x%d\\\":%d", ",", "}\"}}]}]}}"},
     1000,
     NULL},
    {"values for the template",
     {CHAT ASK ",\"chat_template_kwargs\":{", "\"k%d\":%d", ",", "}}}"},
     2000,
     NULL},
    {"stop strings", {CHAT ASK ",\"stop\":[", "\"s%d\"", ",", "]}}"}, 5000, "stop: more than"},
    {"bad words", {CHAT ASK ",\"bad_words\":[", "\"w%d\"", ",", "]}}"}, 250, NULL},
    {"biases", {CHAT ASK ",\"logit_bias\":{", "\"%d\":-1", ",", "}}}"}, 200, NULL},
    {"allowed tokens", {CHAT ASK ",\"allowed_token_ids\":[", "7", ",", "]}}"}, 20000, NULL},
    {"prompts",
     {"{\"url\":\"/v1/completions\",\"body\":{\"max_tokens\":1,\"prompt\":[", "\"p %d\"", ",",
      "]}}"},
     500,
     NULL},
    {"tokens of a prompt",
     {"{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[", "7", ",", "]}}"},
     20000,
     NULL},
    {"texts of an embedding",
     {"{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[", "\"p %d\"", ",", "]}}"},
     500,
     NULL},
    {"items of a response",
     {"{\"url\":\"/v1/responses\",\"body\":{\"input\":[", "{\"role\":\"user\",\"content\":\"m%d\"}",
      ",", "]}}"},
     2000,
     NULL},
    {"tools of a response",
     {"{\"url\":\"/v1/responses\",\"body\":{\"input\":\"a\",\"tools\":[",
      "{\"type\":\"function\",\"name\":\"f%d\"}", ",", "]}}"},
     500,
     NULL},
    {"strings of a choice", {CHAT ASK ",\"guided_choice\":[", "\"v%d\"", ",", "]}}"}, 2000, NULL},
    {"fields that are not known", {CHAT ASK ",", "\"u%d\":1", ",", "}}"}, 5000, "u0: "},
};

static void on_done(void *arg, struct job *j) { (void)arg, (void)j; }
static double no_clock(void) { return 1; }

static double seconds_of_record(const void *what, int n)
{
    const struct record_case *c = what;
    const struct job_env env = {.tokenizer = tokenizer,
                                .chat = chat,
                                .vocab = tok_n_ids(tokenizer),
                                .n_ctx = 1 << 24,
                                .texts = &breakers,
                                .constraints = constraints,
                                .calls = &calls,
                                .pooling = &pooling,
                                .done = on_done,
                                .clock = no_clock};
    const struct record_defaults d = {
        .sampling = {.temperature = 1, .top_p = 1}, .max_tokens = 4, .vocab = tok_n_ids(tokenizer)};
    char *text = growth_text(&c->line, n);
    const struct input_line line = {.text = text, .n = strlen(text), .number = 1};
    struct refusal why = {0};
    struct err e = {0};
    struct job *j;
    double begin = growth_clock();
    int rc = job_open(&j, &env, &line, 0, &d, &why, &e);
    if (!rc) rc = job_take_grammar(j, 1, &why, &e);
    double end = growth_clock();
    if (rc < 0 || (rc == 1 && !c->refused))
        fail_msg("%s, %d: %s", c->name, n, rc < 0 ? e.msg : why.why.msg);
    if (c->refused && (rc != 1 || strncmp(why.why.msg, c->refused, strlen(c->refused))))
        fail_msg("%s, %d: %d %s", c->name, n, rc, why.why.msg);
    job_close(j);
    free(text);
    return end - begin;
}

static void records_grow_with_their_parts(void **state)
{
    int n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        n_wrong += growth_exceeds(records[i].name, seconds_of_record, &records[i], records[i].n,
                                  6.25);
    assert_int_equal(n_wrong, 0);
}

/* ---- templates: of many parts, and with many values: the list x, the dict d, the text s */

static const struct template_case {
    const char *name;
    struct growth_text text;
    int n;
} templates[] = {
    {"text", {"", "text %d\n", "", ""}, 20000},
    {"expressions", {"", "{{ x[0] }}", "", ""}, 2000},
    {"conditions", {"{% if x[0] == 0 %}", "{% elif x[0] == %d %}a", "", "{% endif %}"}, 1000},
    {"names", {"", "{% set a%d = %d %}", "", ""}, 1000},
    {"macros", {"", "{% macro f%d(a) %}{{ a }}{% endmacro %}", "", ""}, 1000},
    {"members of a literal", {"{{ [", "%d", ",", "] | length }}"}, 2000},
    {"keys of a literal", {"{{ {", "'k%d': %d", ",", "} | length }}"}, 1000},
    {"terms", {"{{ ", "1", " + ", " }}"}, 100},
    {"pieces of a text", {"{{ ", "'a%d'", " ~ ", " }}"}, 2000},
};

static const char *const uses[] = {
    "{% for i in x %}{{ i }}{% endfor %}",
    "{% for i in x %}{{ loop.index }}{{ loop.previtem }}{{ loop.changed(i) }}{% endfor %}",
    "{% for i in x if i in d %}{{ d[i] }}{% endfor %}",
    "{% for k, v in d.items() %}{{ d.get(k) }}{{ v }}{% endfor %}",
    "{% for k in d | sort %}{{ k }}{% endfor %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{% for i in x %}{{ f(i) }}{% endfor %}",
    "{% for i in x %}{% set a = i %}{{ a }}{% endfor %}",
    "{% for c in s %}{{ c }}{% endfor %}",
    "{{ x | join(',') }}{{ x | tojson }}{{ d | tojson }}{{ x | string }}{{ x == x }}",
    "{{ x | map('upper') | select('equalto', 'V7') | list | length }}{{ x | reverse | list | "
    "length }}",
    "{{ x | unique | list | length }}{{ x | sort | first }}{{ x | groupby(0) | length }}",
    "{{ x | batch(3) | list | length }}{{ x | slice(3) | list | length }}{{ x | max }}{{ x[::2] | "
    "length }}",
    "{{ s | replace('a', 'bb') | length }}{{ s.split('a') | length }}{{ s.split() | length }}",
    "{{ s | upper | title | trim | length }}{{ s | indent(2) | escape | length }}{{ s[::-1] | "
    "length }}",
    "{{ s.find('zz') }}{{ s.count('a') }}{{ 'zz' in s }}{{ s.strip('ab') | length }}{{ s | list | "
    "length }}",
    "{{ s | tojson | length }}{{ s | wordcount }}{{ '%s' | format(s) | length }}{{ s.rsplit('a', "
    "3) | length }}",
};

/* Of X: x ["v0", ..], d {"v0": 0, ..}, s "ab c.. "; [n]. */
static json_t *values(int n)
{
    json_t *x = json_array(), *d = json_object();
    char *s = malloc(3 * (size_t)n + 1), name[20];
    assert_non_null(s);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "v%d", i);
        json_array_append_new(x, json_string(name));
        json_object_set_new(d, name, json_integer(i));
        memcpy(s + 3 * i, i % 7 ? "ab " : "c.\n", 4);
    }
    json_t *v = json_pack("{s:o, s:o, s:s}", "x", x, "d", d, "s", s);
    free(s);
    return v;
}

/* 0, or -1 with the reason; *seconds of parsing and rendering. */
static int render(const char *text, json_t *v, double *seconds, struct err *e)
{
    struct jinja *t;
    char *out = NULL;
    size_t n;
    double begin = growth_clock();
    int rc = jinja_open(&t, text, strlen(text), e);
    if (!rc) {
        rc = jinja_render(t, v, 0, &out, &n, e);
        jinja_close(t);
    }
    *seconds = growth_clock() - begin;
    free(out);
    return rc;
}

static double seconds_of_template(const void *what, int n)
{
    const struct template_case *c = what;
    char *text = growth_text(&c->text, n);
    json_t *v = values(1);
    struct err e = {0};
    double seconds;
    if (render(text, v, &seconds, &e)) fail_msg("%s, %d: %s", c->name, n, e.msg);
    json_decref(v);
    free(text);
    return seconds;
}

static double seconds_of_use(const void *what, int n)
{
    json_t *v = values(n);
    struct err e = {0};
    double seconds;
    if (render(what, v, &seconds, &e)) fail_msg("%s, %d: %s", (const char *)what, n, e.msg);
    json_decref(v);
    return seconds;
}

static void templates_grow_with_their_parts(void **state)
{
    int n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        n_wrong += growth_exceeds(templates[i].name, seconds_of_template, &templates[i],
                                  templates[i].n, 6.25);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        n_wrong += growth_exceeds(uses[i], seconds_of_use, uses[i], 2000, 6.25);
    assert_int_equal(n_wrong, 0);
}

/* What takes time by the square of its values ends with a reason. */
static void what_grows_faster_is_bounded(void **state)
{
    static const char *const quadratic[] = {
        "{% for i in x %}{% for j in x %}{{ j }}{% endfor %}{% endfor %}",
        "{% for i in x %}{% if i in x %}{% endif %}{% endfor %}",
        "{% for i in x %}{{ s | length }}{% endfor %}",
        "{% set n = namespace(l=[]) %}{% for i in x %}{% set n.l = n.l + [i] %}{% endfor %}",
    };
    json_t *v = values(20000);
    (void)state;
    for (size_t i = 0; i < sizeof quadratic / sizeof *quadratic; i++) {
        struct err e = {0};
        double seconds;
        assert_int_equal(render(quadratic[i], v, &seconds, &e), -1);
        print_message("%s: %.4f s, %s\n", quadratic[i], seconds, e.msg);
        assert_true(strstr(e.msg, "does not come to an end within") ||
                    strstr(e.msg, "wants more than"));
    }
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_grow_with_their_parts),
                                       cmocka_unit_test(templates_grow_with_their_parts),
                                       cmocka_unit_test(what_grows_faster_is_bounded)};
    return cmocka_run_group_tests(tests, open_run, close_run);
}
