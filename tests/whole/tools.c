/* tools.c: chats that call functions, as a person asks for them: forced calls are whole and have
 * the arguments of their schemas in every syntax, also where special tokens write it; the same
 * bytes however they are computed, killed and continued; reasoning apart; answers that go on with
 * the last message; templates of records; refusals by field. Works on models/demo; usage: tools
 * BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-tools-XXXXXX", model[300], special[300], in[300],
                          out[300], out2[300];

#define RUN(p, input, ...)                                                                         \
    process_run(p, (char *[]){run_bin, "-t", "1", "-c", "600", __VA_ARGS__, NULL}, input)
#define TRUST "--trust-request-chat-template"

/* The demo's checkpoint with its last tokens made added ones, all special but the first. */
static const char *const tokens[] = {"<｜tool▁calls▁begin｜>", "[TOOL_CALLS]", "[ARGS]", "<think>",
                                     "</think>"};
enum { N_TOKENS = 5, FIRST_TOKEN = 4096 - N_TOKENS };

static void make_special(const char *build)
{
    char path[400];
    const char *key;
    json_t *v;
    void *next;
    shell_code("cp -r models/demo %s/special", dir);
    snprintf(path, sizeof path, "%s/special/tokenizer.json", dir);
    json_t *t = json_load_file(path, 0, NULL), *bpe = json_object_get(t, "model"),
           *merges = json_object_get(bpe, "merges");
    json_object_foreach_safe(json_object_get(bpe, "vocab"), next, key, v)
    {
        if (json_integer_value(v) >= FIRST_TOKEN)
            json_object_del(json_object_get(bpe, "vocab"), key);
    }
    for (int i = 0; i < N_TOKENS; i++) {
        json_array_remove(merges, json_array_size(merges) - 1);
        json_array_append_new(json_object_get(t, "added_tokens"),
                              json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", FIRST_TOKEN + i,
                                        "content", tokens[i], "single_word", 0, "lstrip", 0,
                                        "rstrip", 0, "normalized", 0, "special", i > 0));
    }
    json_dump_file(t, path, 0);
    json_decref(t);
    check(!shell_code("%s/opt4gptq-convert -q %s/special %s", build, dir, special),
          "convert the demo with special tokens", NULL);
}

/* ---- records */

#define SHOWS(text) "{{ messages[0].content }}{% if tools %} " text "{% endif %}"
static const struct {
    const char *name, *template;
} syntaxes[] = {
    {"hermes", SHOWS("<tool_call></tool_call>")},
    {"qwen3_coder", SHOWS("<tool_call><function=f><parameter=p></tool_call>")},
    {"glm45", SHOWS("<tool_call><arg_key>k</arg_key>\n<arg_value>")},
    {"glm47", SHOWS("<tool_call><arg_key>k</arg_key><arg_value>")},
    {"deepseek_v3", SHOWS("<｜tool▁calls▁begin｜><｜tool▁sep｜>```json")},
    {"deepseek_v31", SHOWS("<｜tool▁calls▁begin｜><｜tool▁sep｜>")},
    {"mistral", SHOWS("[TOOL_CALLS] [")},
    {"mistral", SHOWS("[TOOL_CALLS]f[ARGS]")},
    {"granite", SHOWS("<|tool_call|>")},
    {"openai", SHOWS("<|channel|>commentary <|call|>")},
    {"llama3_json", SHOWS("<|python_tag|> \"parameters\"")},
    {"", SHOWS("in words of its own")},
};
enum { N_SYNTAXES = sizeof syntaxes / sizeof *syntaxes };

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"strict\":true,"              \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Paris\",\"Rome\"]}" \
    ",\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"detailed\":{\"type\":"         \
    "\"boolean\"}},\"required\":[\"city\",\"days\"],\"additionalProperties\":false}}},"            \
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]"
static const char *const choices[] = {
    "\"required\"", "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}}", "\"auto\""};

static void put_record(FILE *f, int i, const char *template, const char *fields)
{
    json_t *text = json_string(template);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    fprintf(f,
            "{\"custom_id\":\"t%d\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{"
            "\"role\":\"user\",\"content\":\"Once upon a time %d\"}],\"chat_template\":%s,"
            "\"temperature\":%d%s}}\n",
            i, i, quoted, i / 3 % 2, fields);
    free(quoted);
    json_decref(text);
}

static void write_calls(const char *path, int n)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < n; i++) {
        char fields[1000];
        snprintf(fields, sizeof fields,
                 ",\"max_tokens\":%d,\"n\":%d,\"tools\":%s,\"tool_choice\":%s,"
                 "\"parallel_tool_calls\":false%s",
                 i % 10 == 9 ? 12 : 300, 1 + i % 2, TOOLS, choices[i % 3],
                 i % 4 == 1 ? ",\"logprobs\":true" : "");
        put_record(f, i, syntaxes[i % N_SYNTAXES].template, fields);
    }
    if (!f || fclose(f)) exit(2);
}

/* Calls fn for every choice of the file; returns their number. */
static int each(const char *path, void (*fn)(const json_t *choice, int line))
{
    size_t n, k;
    char *text = read_file(path, &n);
    int count = 0, line = 0;
    for (const char *at = text; at && *at; line++) {
        json_t *r = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL), *choice;
        json_t *all = json_object_get(json_object_get(json_object_get(r, "response"), "body"),
                                      "choices");
        json_array_foreach (all, k, choice) {
            fn(choice, line);
            count++;
        }
        json_decref(r);
        at = strchr(at, '\n');
        if (at) at++;
    }
    free(text);
    return count;
}

static const char *text_at(const json_t *v, const char *a, const char *b)
{
    v = json_object_get(v, a);
    if (b) v = json_object_get(v, b);
    const char *s = json_string_value(v);
    return s ? s : "";
}

static int n_called, n_cut, n_text;

static int is_call(const json_t *call, int named)
{
    const char *name = text_at(call, "function", "name"), *id = text_at(call, "id", NULL);
    json_t *v = json_loads(text_at(call, "function", "arguments"), 0, NULL);
    const char *city = text_at(v, "city", NULL);
    json_int_t days = json_integer_value(json_object_get(v, "days"));
    size_t extra = json_object_get(v, "detailed") != NULL;
    int ok = !strcmp(text_at(call, "type", NULL), "function") && strlen(id) >= 9;
    if (!strcmp(name, "now")) ok &= !named && json_is_object(v) && !json_object_size(v);
    else
        ok &= !strcmp(name, "get_weather") && (!strcmp(city, "Paris") || !strcmp(city, "Rome")) &&
              days >= 1 && days <= 9 && json_object_size(v) == 2 + extra &&
              (!extra || json_is_boolean(json_object_get(v, "detailed")));
    json_decref(v);
    return ok;
}

static void expect_calls(const json_t *choice, int line)
{
    const json_t *message = json_object_get(choice, "message"),
                 *calls = json_object_get(message, "tool_calls");
    const char *why = text_at(choice, "finish_reason", NULL),
               *ends = line % 3 == 1 ? "stop" : "tool_calls";
    char *shown = json_dumps(message, 0);
    if (calls) {
        n_called++;
        check_that(json_array_size(calls) == 1 &&
                       is_call(json_array_get(calls, 0), line % 3 == 1) &&
                       json_is_null(json_object_get(message, "content")) && !strcmp(why, ends),
                   "line %d: %s (%s) is a call", line + 1, shown, why);
    } else if (line % 3 == 2) { /* auto: text is an answer, too */
        n_text++;
        check_that(json_is_string(json_object_get(message, "content")), "line %d: %s is text",
                   line + 1, shown);
    } else {
        n_cut++;
        check_that(!strcmp(why, "length") && *text_at(message, "content", NULL),
                   "line %d: %s (%s) was cut", line + 1, shown, why);
    }
    free(shown);
}

static void invariance(char *m)
{
    const char *const ways[][2] = {{"-np", "1"}, {"-np", "8"}, {"-b", "20"}};
    struct process p;
    for (int i = 0; i < 3; i++) {
        RUN(&p, NULL, "-m", m, "-i", in, "-o", out2, TRUST, "--compact-json", (char *)ways[i][0],
            (char *)ways[i][1]);
        check(p.code == 0 && same_file(out, out2), "the same calls", &p);
        process_free(&p);
        shell_code("rm -f %s %s.journal", out2, out2);
    }
    for (int i = 0; i < 3; i++)
        shell_code("timeout -s KILL 0.%d %s -t 1 -c 600 -m %s -i %s -o %s " TRUST
                   " --compact-json 2>/dev/null",
                   2 + 3 * i, run_bin, m, in, out2);
    RUN(&p, NULL, "-m", m, "-i", in, "-o", out2, TRUST, "--compact-json");
    check(p.code == 0 && same_file(out, out2), "killed and continued", &p);
    process_free(&p);
    shell_code("rm -f %s*", out2);
}

static void forced_calls(void)
{
    struct process p;
    write_calls(in, 66);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", out, TRUST, "--compact-json");
    check(p.code == 0, "records with tools", &p);
    process_free(&p);
    check(each(out, expect_calls) == 99, "99 answers", NULL);
    check_that(n_called > 40 && n_cut > 3 && n_text > 10, "%d calls, %d cut, %d texts", n_called,
               n_cut, n_text);
    invariance(model);
    RUN(&p, NULL, "-m", model, "-i", in, "--check", TRUST);
    check(p.code == 0 && strstr(p.out, "66 records, 0 would fail"), "--check", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", out, TRUST, "--compact-json", "--tool-call-parser",
        "glm45");
    check(p.code == 1 && strstr(p.err, "--tool-call-parser"), "another syntax does not continue",
          &p);
    process_free(&p);
    shell_code("rm -f %s*", out);
}

/* ---- special tokens */

static int n_token;

static void expect_token(const json_t *choice, int line)
{
    json_t *id;
    size_t i;
    int has = 0;
    json_array_foreach (json_object_get(choice, "token_ids"), i, id)
        has |= json_integer_value(id) == FIRST_TOKEN + (line % 4 < 3);
    const json_t *calls = json_object_get(json_object_get(choice, "message"), "tool_calls");
    check_that(has && is_call(json_array_get(calls, 0), 1) &&
                   (line % 4 == 3 || strlen(text_at(json_array_get(calls, 0), "id", NULL)) == 9),
               "line %d: a call behind its token", line + 1);
    n_token++;
}

static void special_tokens(void)
{
    struct process p;
    FILE *f = fopen(in, "w");
    for (int i = 0; f && i < 12; i++) {
        char fields[1000];
        snprintf(fields, sizeof fields,
                 ",\"max_tokens\":300,\"return_token_ids\":true,\"skip_special_tokens\":%s,"
                 "\"tools\":%s,\"tool_choice\":%s,\"logit_bias\":{\"%d\":%d}",
                 i % 2 ? "true" : "false", TOOLS, choices[1], FIRST_TOKEN, i % 4 == 3 ? 100 : 0);
        put_record(f, i, syntaxes[i % 4 == 3 ? 5 : i % 4 == 2 ? 6 : 7].template, fields);
    }
    if (!f || fclose(f)) exit(2);
    RUN(&p, NULL, "-m", special, "-i", in, "-o", out, TRUST, "--compact-json");
    check(p.code == 0, "calls by special tokens", &p);
    process_free(&p);
    each(out, expect_token);
    check_that(n_token == 12, "%d of 12 calls", n_token);
    invariance(special);
    shell_code("rm -f %s*", out);
}

/* ---- single records */

/* The answer to one record with these FIELDS; a new reference to the line. */
static json_t *ask(char *m, const char *template, const char *fields, char *option, char *value)
{
    struct process p;
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    put_record(f, 0, template, fields);
    fclose(f);
    RUN(&p, NULL, "-m", m, "-i", in, "-o", "-", TRUST, option, value);
    json_t *line = json_loads(p.out, JSON_DISABLE_EOF_CHECK, NULL);
    check(line != NULL, fields, &p);
    process_free(&p);
    return line;
}

static const json_t *choice_of(const json_t *line)
{
    const json_t *body = json_object_get(json_object_get(line, "response"), "body");
    return json_array_get(json_object_get(body, "choices"), 0);
}

/* Numbers that neither 64 bits nor a double hold: the template and the grammar see all digits. */
static void long_numbers(void)
{
#define N "18446744073709551617"
    json_t *line =
        ask(model,
            "{{ tools | tojson }}{{ tools[0].function.parameters.properties.n"
            ".maximum }}",
            ",\"max_tokens\":300,\"prompt_logprobs\":0,\"tool_choice\":\"required\","
            "\"parallel_tool_calls\":false,\"tools\":[{\"type\":\"function\",\"function\":"
            "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":{"
            "\"type\":\"integer\",\"minimum\":" N ",\"maximum\":" N ",\"default\":" N "}},"
            "\"required\":[\"n\"],\"additionalProperties\":false}}}]",
            "--compact-json", "--schema-order");
    const json_t *call = json_array_get(
        json_object_get(json_object_get(choice_of(line), "message"), "tool_calls"), 0);
    const char *arguments = text_at(call, "function", "arguments");
    check_that(!strcmp(arguments, "{\"n\":" N "}"), "all digits in a call: %s", arguments);
    json_decref(line);
    line = ask(model, "{{ tools[0].x + 1 }}",
               ",\"max_tokens\":1,\"tools\":[{\"type\":\"function\","
               "\"x\":" N ",\"function\":{\"name\":\"f\"}}]",
               "--temp", "0");
    const json_t *body = json_object_get(json_object_get(line, "response"), "body");
    check_that(json_object_get(body, "error") != NULL, "nothing is computed from such a number");
    json_decref(line);
#undef N
}

#define THINKS_OF_TOOLS SHOWS("<tool_call></tool_call>") "<think>\n"
#define THINKS "{{ messages[0].content }}<think>\n"
#define END_AT_ONCE ",\"max_tokens\":60,\"logit_bias\":{\"4095\":100}"

static void reasoning(void)
{
    json_t *line = ask(special, THINKS, END_AT_ONCE ",\"guided_choice\":[\"yes\",\"no\"]",
                       "--reasoning-parser", "deepseek_r1");
    const json_t *c = choice_of(line), *m = json_object_get(c, "message");
    const char *content = text_at(m, "content", NULL);
    check_that((!strcmp(content, "yes") || !strcmp(content, "no")) &&
                   json_is_string(json_object_get(m, "reasoning_content")) &&
                   !strcmp(text_at(c, "finish_reason", NULL), "stop"),
               "a choice behind reasoning: \"%s\"", content);
    json_decref(line);
    line = ask(special, THINKS, END_AT_ONCE ",\"guided_choice\":[\"yes\",\"no\"]", "--temp", "0");
    m = json_object_get(choice_of(line), "message");
    content = text_at(m, "content", NULL);
    check_that((!strcmp(content, "yes") || !strcmp(content, "no")) &&
                   !json_object_get(m, "reasoning_content"),
               "without the option: \"%s\"", content);
    json_decref(line);
    line = ask(special, THINKS, ",\"max_tokens\":8,\"guided_json\":{\"type\":\"object\"}",
               "--reasoning-parser", "think");
    c = choice_of(line), m = json_object_get(c, "message");
    check_that(json_is_null(json_object_get(m, "content")) &&
                   *text_at(m, "reasoning_content", NULL) &&
                   !strcmp(text_at(c, "finish_reason", NULL), "length"),
               "reasoning that was cut");
    json_decref(line);
    line = ask(special, THINKS_OF_TOOLS,
               END_AT_ONCE
               ",\"include_reasoning\":false,\"tool_choice\":\"required\",\"tools\":" TOOLS,
               "--reasoning-parser", "qwen3");
    m = json_object_get(choice_of(line), "message");
    check_that(m && !json_object_get(m, "reasoning_content"), "include_reasoning false");
    json_decref(line);
    line = ask(special, THINKS_OF_TOOLS,
               ",\"max_tokens\":400,\"logit_bias\":{\"4095\":100},\"parallel_tool_calls\":false,"
               "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}},"
               "\"tools\":" TOOLS,
               "--reasoning-parser", "qwen3");
    m = json_object_get(choice_of(line), "message");
    check_that(is_call(json_array_get(json_object_get(m, "tool_calls"), 0), 1) &&
                   json_is_string(json_object_get(m, "reasoning_content")),
               "a call behind reasoning");
    json_decref(line);
    line = ask(model, "{{ messages[0].content }}", ",\"max_tokens\":8", "--reasoning-parser",
               "qwen3");
    m = json_object_get(choice_of(line), "message");
    check_that(*text_at(m, "content", NULL) &&
                   json_is_null(json_object_get(m, "reasoning_content")),
               "an answer without reasoning");
    json_decref(line);
}

/* The chat template tells the tags. */
static void other_reasoning(void)
{
    json_t *line = ask(model, "{# [THINK] #}{{ messages[0].content }}[THINK]", ",\"max_tokens\":8",
                       "--reasoning-parser", "mistral");
    const json_t *m = json_object_get(choice_of(line), "message");
    check_that(json_is_null(json_object_get(m, "content")) &&
                   *text_at(m, "reasoning_content", NULL),
               "reasoning that [THINK] has begun");
    json_decref(line);
    line =
        ask(model, "{# <|channel|>analysis #}{{ messages[0].content }}",
            ",\"max_tokens\":200,\"guided_choice\":[\"<|channel|>analysis<|message|>I see.<|end|>"
            "<|start|>assistant<|channel|>final<|message|>Yes.\"]",
            "--reasoning-parser", "openai_gptoss");
    m = json_object_get(choice_of(line), "message");
    check_that(!strcmp(text_at(m, "content", NULL), "Yes.") &&
                   !strcmp(text_at(m, "reasoning_content", NULL), "I see."),
               "reasoning in a channel: \"%s\"", text_at(m, "content", NULL));
    json_decref(line);
}

/* The text of a completion whose prompt is PROMPT. */
static json_t *complete(const char *prompt)
{
    struct process p;
    char input[400];
    snprintf(input, sizeof input,
             "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"%s\",\"max_tokens\":9,"
             "\"temperature\":0,\"add_special_tokens\":false}}\n",
             prompt);
    RUN(&p, input, "-m", model, "-i", "-", "-o", "-");
    json_t *line = json_loads(p.out, JSON_DISABLE_EOF_CHECK, NULL);
    process_free(&p);
    return line;
}

static void continued(void)
{
    static const struct {
        const char *template, *last, *prompt;
    } cases[] = {
        {"{% for m in messages %}[{{ m.role }}] {{ m.content }}[end]{% endfor %}", "\"The sum \"",
         "[user] How?[end][assistant] The sum "},
        {"{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}[end]{% endfor %}",
         "\"The sum \"", "[user] How?[end][assistant] The sum"},
        {"{% for m in messages %}[{{ m.role }}] {{ m.content }}[end]{% endfor %}",
         "[{\"type\":\"text\",\"text\":\"One\"},{\"type\":\"text\",\"text\":\"two\"}]",
         "[user] How?[end][assistant] One\\ntwo"},
        {"{% for m in messages %}{% for p in m.content %}{{ p.text or p }}{% endfor %}[end]{% "
         "endfor %}",
         "[{\"type\":\"text\",\"text\":\"One\"},{\"type\":\"text\",\"text\":\" two\"}]",
         "How?[end]One two"},
        {"{% for m in messages %}{% for p in m.content %}{{ p.text or p }}{% endfor %}[end]{% "
         "endfor "
         "%}",
         "[{\"type\":\"text\",\"text\":\"One\"}]", "How?[end]One"},
        {"{{ messages[-1].content }}[end]", "\"The sum\"", "The sum"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fields[1000];
        snprintf(fields, sizeof fields,
                 ",\"messages\":[{\"role\":\"user\",\"content\":\"How?\"},{\"role\":\"assistant\","
                 "\"content\":%s}],\"add_generation_prompt\":false,\"continue_final_message\":true,"
                 "\"max_tokens\":9",
                 cases[i].last);
        json_t *line = ask(model, cases[i].template, fields, "--temp", "0"),
               *other = complete(cases[i].prompt);
        const char *text = text_at(choice_of(line), "message", "content"),
                   *expected = text_at(choice_of(other), "text", NULL);
        check_that(*text && !strcmp(text, expected), "case %zu goes on with \"%s\", as \"%s\"", i,
                   text, expected);
        json_decref(line);
        json_decref(other);
    }
}

static void refused(const char *fields, const char *field, const char *says)
{
    json_t *line = ask(model, syntaxes[1].template, fields, "--temp", "0"),
           *e = json_object_get(json_object_get(json_object_get(line, "response"), "body"),
                                "error");
    check_that(!strcmp(text_at(e, "param", NULL), field) &&
                   strstr(text_at(e, "message", NULL), says),
               "%s: %s", fields, text_at(e, "message", NULL));
    json_decref(line);
}

/* Beside a constraint of its own an answer is a call or the document. */
static void call_or_document(void)
{
    const char *const fields[] = {"\"guided_choice\":[\"yes\",\"no\"]",
                                  "\"response_format\":{\"type\":\"json_object\"}",
                                  "\"guided_regex\":\"[0-9]{3}\""};
    int n_calls = 0, n_documents = 0;
    for (int i = 0; i < 24; i++) {
        char text[1200];
        snprintf(text, sizeof text,
                 ",\"seed\":%d,\"max_tokens\":300,\"parallel_tool_calls\":false,\"tools\":%s,%s,"
                 "\"temperature\":1.5,\"logit_bias\":{\"%d\":%d}",
                 i, TOOLS, fields[i % 3], FIRST_TOKEN + 1, i % 2 ? 100 : -100);
        json_t *line = ask(special, syntaxes[i % 4 ? 7 : 6].template, text, "--compact-json",
                           "--schema-order");
        const json_t *c = choice_of(line), *m = json_object_get(c, "message"),
                     *call = json_array_get(json_object_get(m, "tool_calls"), 0);
        const char *content = text_at(m, "content", NULL);
        if (call) {
            n_calls++;
            check_that(i % 2 && !*content, "a call, and nothing else: %s", content);
        } else if (!strcmp(text_at(c, "finish_reason", NULL), "stop")) {
            json_t *v = json_loads(content, 0, NULL);
            n_documents++;
            check_that(i % 3 == 0   ? !strcmp(content, "yes") || !strcmp(content, "no")
                       : i % 3 == 1 ? json_is_object(v)
                                    : strspn(content, "0123456789") == 3 && strlen(content) == 3,
                       "a document: %s", content);
            json_decref(v);
        }
        json_decref(line);
    }
    check_that(n_calls > 4 && n_documents > 6, "%d calls, %d documents", n_calls, n_documents);
}

#define ALLOWED(mode, tools)                                                                       \
    ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode             \
    "\",\"tools\":[" tools "]}}"
#define NOW "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}"

/* Of two functions one is allowed: no other is called, whatever is likelier. */
static void allowed_tools(void)
{
    static const char *const choices_of_one[] = {ALLOWED("required", NOW), ALLOWED("auto", NOW)};
    for (int i = 0; i < 2; i++) {
        char fields[1200];
        snprintf(fields, sizeof fields,
                 ",\"n\":8,\"max_tokens\":60,\"temperature\":1.5,\"parallel_tool_calls\":false,"
                 "\"logit_bias\":{\"%d\":100},\"tools\":%s%s",
                 FIRST_TOKEN + 1, TOOLS, choices_of_one[i]);
        json_t *line = ask(special, syntaxes[7].template, fields, "--compact-json", "--ignore-eos"),
               *choice;
        int n = 0;
        size_t k;
        json_array_foreach (
            json_object_get(json_object_get(json_object_get(line, "response"), "body"), "choices"),
            k, choice) {
            json_t *call = json_array_get(
                json_object_get(json_object_get(choice, "message"), "tool_calls"), 0);
            const char *name = text_at(json_object_get(call, "function"), "name", NULL);
            n += call && !strcmp(name, "now");
            check_that(!call || !strcmp(name, "now"), "the function that is allowed, not %s", name);
        }
        check_that(n > 5, "%d calls of the function that is allowed", n);
        json_decref(line);
    }
}

/* Fields that are variables of the template, and those that change nothing. */
static void template_words(void)
{
    static const struct {
        const char *template, *fields, *same; /* the template whose prompt it is */
    } cases[] = {
        {"a{{ reasoning_effort }}", ",\"reasoning_effort\":\"low\"", "alow"},
        {"a{{ reasoning_effort or 'x' }}", ",\"reasoning_effort\":null", "ax"},
        {"a{{ reasoning_effort }}{{ b }}",
         ",\"reasoning_effort\":\"high\",\"chat_template_kwargs\":{\"b\":\"c\"}", "ahighc"},
        {"a{{ verbosity }}", ",\"verbosity\":\"low\"", "alow"},
        {"a",
         ",\"verbosity\":\"high\",\"prompt_cache_retention\":\"24h\",\"prediction\":{\"type\":"
         "\"content\",\"content\":\"x\"},\"prompt_cache_key\":\"k\"",
         "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fields[500];
        snprintf(fields, sizeof fields, ",\"max_tokens\":1,\"return_token_ids\":true%s",
                 cases[i].fields);
        json_t *line = ask(model, cases[i].template, fields, "--temp", "0"),
               *same = ask(model, cases[i].same, ",\"max_tokens\":1,\"return_token_ids\":true",
                           "--temp", "0"),
               *a = json_object_get(json_object_get(line, "response"), "body"),
               *b = json_object_get(json_object_get(same, "response"), "body");
        check_that(json_array_size(json_object_get(b, "prompt_token_ids")) &&
                       json_equal(json_object_get(a, "prompt_token_ids"),
                                  json_object_get(b, "prompt_token_ids")),
                   "%s", cases[i].fields);
        json_decref(line);
        json_decref(same);
    }
}

#define F(inner) ",\"tools\":[{\"type\":\"function\",\"function\":" inner "}]"
static void refusals(void)
{
    struct process p;
    refused(",\"tool_choice\":\"required\"", "tool_choice", "needs tools");
    refused(F("{\"name\":\"f\"}") ",\"tool_choice\":\"always\"", "tool_choice", "must be");
    refused(F("{\"name\":\"f\"}") ",\"tool_choice\":7", "tool_choice", "must be");
    refused(F("{\"name\":\"f\"}") ",\"tool_choice\":{\"type\":\"allowed_tools\"}", "tool_choice",
            "allowed_tools.mode must be");
    refused(F("{\"name\":\"f\"}") ALLOWED("auto", NOW), "tool_choice", "none of the tools");
    refused(F("{\"name\":\"now\"}") ALLOWED("auto", NOW "," NOW), "tool_choice", "one twice");
    refused(F("{\"name\":\"now\"}") ALLOWED("auto", ""), "tool_choice", "allowed_tools.tools must");
    refused(",\"reasoning_effort\":\"low\"", "reasoning_effort", "chat_template_kwargs");
    refused(",\"reasoning_effort\":\"lwo\"", "reasoning_effort", "must be one of \"none\"");
    refused(",\"verbosity\":3", "verbosity", "must be one of \"low\"");
    refused(",\"verbosity\":\"low\",\"chat_template_kwargs\":{\"verbosity\":\"high\"}", "verbosity",
            "says something else");
    refused(F("{\"name\":\"f\"}") ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
                                  "\"g\"}}",
            "tool_choice", "'g' is none of the tools");
    refused(F("{\"name\":\"f\"}") ",\"tool_choice\":\"required\",\"guided_regex\":\"a\"",
            "tool_choice", "guided_regex already says");
    refused(F("{\"name\":\"f\"}") ",\"parallel_tool_calls\":1", "parallel_tool_calls", "true or");
    refused(F("{}"), "tools", "function.name");
    refused(F("{\"name\":\"f\",\"parameters\":[]}"), "tools", "function.parameters");
    refused(F("{\"name\":\"f\",\"strict\":1}"), "tools", "function.strict");
    refused(F("{\"name\":\"f\"}") ",\"guided_regex\":\"(\"", "guided_regex", "guided_regex: ");
    refused(
        F("{\"name\":\"f\",\"strict\":true,\"parameters\":{\"minProperties\":2}}") ",\"guided_"
                                                                                   "regex\":\"a\"",
        "tools", "tools: 'f': minProperties");
    refused(",\"tools\":[7]", "tools", "0 is not an object");
    refused(",\"tools\":[{\"type\":\"web_search\"}]", "tools", "the type of 0");
    refused(
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\","
        "\"function\":{\"name\":\"f\"}}]",
        "tools", "the same name");
    refused(
        F("{\"name\":\"f\",\"parameters\":{\"type\":\"array\"}}") ",\"tool_choice\":\"required\"",
        "tools", "not an object");
    refused(F("{\"name\":\"f\",\"strict\":true,\"parameters\":{\"minProperties\":2}}"), "tools",
            "'f': minProperties");
    /* nothing stands before the place where an empty message ends */
    json_t *empty = ask(
               model, "{{ messages[-1].content }}[end]",
               ",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"add_generation_prompt\":"
               "false,\"continue_final_message\":true,\"max_tokens\":3,\"return_token_ids\":true",
               "--temp", "0"),
           *error = json_object_get(json_object_get(json_object_get(empty, "response"), "body"),
                                    "error");
    check_that(!strstr(text_at(error, "message", NULL), "leaves out"), "cut at byte 0: %s",
               text_at(error, "message", NULL));
    json_decref(empty);
    refused(",\"continue_final_message\":true", "continue_final_message", "add_generation_prompt");
    refused(
        ",\"continue_final_message\":true,\"add_generation_prompt\":false,\"messages\":[{\"role\":"
        "\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]",
        "continue_final_message", "leaves out the last message");
    refused(",\"chat_template\":7", "chat_template", "must be a string");
    refused(",\"chat_template\":\"{% if %}\"", "chat_template", "chat_template");
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    put_record(f, 0, "{{ messages }}", "");
    fclose(f);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", "-");
    check(p.code == 3 && strstr(p.out, "\"param\":\"chat_template\"") &&
              strstr(p.out, "--trust-request-chat-template"),
          "a template without the option", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", "-", "--tool-call-parser", "nobody");
    check(p.code == 2 && strstr(p.err, "--tool-call-parser"), "a syntax that is none", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-p", "a", "--reasoning-parser", "qwen3");
    check(p.code == 2 && strstr(p.err, "--reasoning-parser"), "--reasoning-parser of one prompt",
          &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(special, sizeof special, "%s/special.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(out2, sizeof out2, "%s/two", dir);
    check(!shell_code("%s/opt4gptq-convert -q models/demo %s", argv[1], model),
          "convert models/demo", NULL);
    make_special(argv[1]);
    forced_calls();
    special_tokens();
    reasoning();
    other_reasoning();
    long_numbers();
    continued();
    call_or_document();
    allowed_tools();
    template_words();
    refusals();
    shell_code("rm -r %s", dir);
    return report("tools");
}
