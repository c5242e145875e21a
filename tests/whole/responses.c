/* responses.c: lines of a batch for /v1/responses: the tokens of the same chat, OpenAI's response
 * object, calls and reasoning as items, the settings it repeats, equal bytes however they are
 * computed, refusals by field. Works on models/demo; usage: responses BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-responses-XXXXXX", model[300], in[300], out[300],
                          out2[300];

#define RUN(p, input, ...)                                                                         \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "-t", "1", "-c", "600",                           \
                           "--trust-request-chat-template", "-i", input, __VA_ARGS__, NULL},       \
                NULL)
#define ALL_OF "{{ messages | tojson }}{% if tools %}{{ tools | tojson }}{% endif %}"

/* A line for URL, whose body has the chat template TEMPLATE and FIELDS, a comma first. */
static void put(FILE *f, int i, const char *url, const char *template, const char *fields)
{
    json_t *text = json_string(template);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    fprintf(f, "{\"custom_id\":\"r%d\",\"url\":\"/v1/%s\",\"body\":{\"chat_template\":%s%s}}\n", i,
            url, quoted, fields);
    free(quoted);
    json_decref(text);
}

static FILE *begin(void)
{
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    return f;
}

/* The body of the answer that begins at *AT, which moves on; a new reference. */
static json_t *next_body(const char **at)
{
    json_t *line = json_loads(*at, JSON_DISABLE_EOF_CHECK, NULL),
           *body = json_incref(json_object_get(json_object_get(line, "response"), "body"));
    json_decref(line);
    *at = strchr(*at, '\n');
    if (*at) ++*at;
    return body;
}

/* The answer to one response with these FIELDS. */
static json_t *ask(const char *template, const char *fields, char *option, char *value)
{
    struct process p;
    FILE *f = begin();
    put(f, 0, "responses", template, fields);
    fclose(f);
    RUN(&p, in, "-o", "-", option, value);
    const char *at = p.out;
    json_t *body = next_body(&at);
    check(body != NULL, fields, &p);
    process_free(&p);
    return body;
}

static const char *text_of(const json_t *v, const char *name)
{
    const char *s = json_string_value(json_object_get(v, name));
    return s ? s : "";
}

static const json_t *item(const json_t *body, size_t i)
{
    return json_array_get(json_object_get(body, "output"), i);
}

static const json_t *content(const json_t *body, size_t i)
{
    return json_array_get(json_object_get(item(body, i), "content"), 0);
}

/* ---- the tokens of a chat */

#define FLAT                                                                                       \
    "{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":"        \
    "\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}}"
#define NESTED                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"   \
    "\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}}}"
#define SCHEMA                                                                                     \
    "\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{"         \
    "\"enum\":[1e0,\"two\"]}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}"
static const struct {
    const char *response, *chat;
} pairs[] = {
    {",\"input\":\"Where is the river?\"",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"Where is the river?\"}]"},
    {",\"input\":\"Where?\",\"instructions\":\"Be brief.\",\"seed\":3,\"temperature\":0.9",
     ",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\","
     "\"content\":\"Where?\"}],\"seed\":3,\"temperature\":0.9"},
    {",\"input\":[{\"role\":\"developer\",\"content\":\"Rule\"},{\"type\":\"message\",\"role\":"
     "\"user\",\"status\":\"completed\",\"content\":[{\"type\":\"input_text\",\"text\":\"One\"},{"
     "\"type\":\"input_text\",\"text\":\"two\"}]},{\"id\":\"msg_1\",\"type\":\"message\",\"role\":"
     "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Three\",\"annotations\":[],"
     "\"logprobs\":[]}]},{\"role\":\"user\",\"content\":\"Four\"}]",
     ",\"messages\":[{\"role\":\"system\",\"content\":\"Rule\"},{\"role\":\"user\",\"content\":[{"
     "\"type\":\"text\",\"text\":\"One\"},{\"type\":\"text\",\"text\":\"two\"}]},{\"role\":"
     "\"assistant\",\"content\":\"Three\"},{\"role\":\"user\",\"content\":\"Four\"}]"},
    {",\"input\":[{\"role\":\"user\",\"content\":\"How?\"},{\"type\":\"reasoning\",\"id\":\"rs\","
     "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm\"}]},{\"type\":"
     "\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"so\"}]},{\"role\":"
     "\"assistant\",\"content\":\"I ask\"},{\"type\":\"function_call\",\"call_id\":\"c1\","
     "\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1}\"},{\"type\":\"function_call\",\"call_id\":"
     "\"c2\",\"name\":\"f\",\"arguments\":\"\"},{\"type\":\"function_call_output\",\"call_id\":"
     "\"c1\",\"output\":\"7\"},{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":[{"
     "\"type\":\"input_text\",\"text\":\"8\"}]}],\"tool_choice\":\"none\",\"tools\":[" FLAT "]",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"How?\"},{\"role\":\"assistant\",\"content\":"
     "\"I "
     "ask\",\"reasoning_content\":\"Hm\\nso\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
     "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1}\"}},{\"id\":\"c2\",\"type\":"
     "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},{\"role\":\"tool\","
     "\"tool_call_id\":\"c1\",\"content\":\"7\"},{\"role\":\"tool\",\"tool_call_id\":\"c2\","
     "\"content\":\"8\"}],\"tool_choice\":\"none\",\"tools\":[" NESTED "]"},
    {",\"input\":[{\"role\":\"user\",\"content\":\"How?\"},{\"type\":\"function_call\","
     "\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\","
     "\"call_id\":\"c1\",\"output\":\"7\"},{\"role\":\"assistant\",\"content\":\"7\"},{\"role\":"
     "\"assistant\",\"content\":\"or 8\"}]",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"How?\"},{\"role\":\"assistant\",\"content\":"
     "null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"7\"},{"
     "\"role\":\"assistant\",\"content\":\"7\"},{\"role\":\"assistant\",\"content\":\"or 8\"}]"},
    {",\"input\":\"Say\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"strict\":"
     "true," SCHEMA "}}",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"Say\"}],\"response_format\":{\"type\":"
     "\"json_schema\",\"json_schema\":{\"name\":\"x\"," SCHEMA "}}"},
    {",\"input\":\"Say\",\"text\":{\"format\":{\"type\":\"json_object\"}},\"top_p\":0.5",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"Say\"}],\"response_format\":{\"type\":"
     "\"json_object\"},\"top_p\":0.5"},
    {",\"input\":\"Say\",\"structured_outputs\":{\"regex\":\"[0-9]{3}\"},\"stop\":\"7\"",
     ",\"messages\":[{\"role\":\"user\",\"content\":\"Say\"}],\"structured_outputs\":{\"regex\":"
     "\"[0-9]{3}\"},\"stop\":\"7\""},
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static void put_pairs(void)
{
    FILE *f = begin();
    for (int i = 0; i < 2 * N_PAIRS; i++) {
        char fields[3000];
        if (i % 2)
            snprintf(fields, sizeof fields,
                     "%s,\"max_tokens\":24,\"logprobs\":true,"
                     "\"top_logprobs\":3",
                     pairs[i / 2].chat);
        else
            snprintf(fields, sizeof fields,
                     "%s,\"max_output_tokens\":24,\"include\":[\"message.output_text.logprobs\"],"
                     "\"top_logprobs\":3",
                     pairs[i / 2].response);
        put(f, i / 2, i % 2 ? "chat/completions" : "responses", ALL_OF, fields);
    }
    fclose(f);
}

static void compare(int i, const json_t *response, const json_t *chat)
{
    const json_t *choice = json_array_get(json_object_get(chat, "choices"), 0),
                 *a = json_object_get(response, "usage"), *b = json_object_get(chat, "usage"),
                 *logprobs = json_object_get(json_object_get(choice, "logprobs"), "content");
    check_that(json_equal(json_object_get(content(response, 0), "logprobs"), logprobs) &&
                   json_array_size(logprobs),
               "%d: the log-probabilities of the chat", i);
    check_that(!strcmp(text_of(content(response, 0), "text"),
                       text_of(json_object_get(choice, "message"), "content")),
               "%d: \"%s\"", i, text_of(content(response, 0), "text"));
    check_that(
        json_equal(json_object_get(a, "input_tokens"), json_object_get(b, "prompt_tokens")) &&
            json_equal(json_object_get(a, "output_tokens"),
                       json_object_get(b, "completion_tokens")) &&
            json_equal(json_object_get(a, "total_tokens"), json_object_get(b, "total_tokens")),
        "%d: the tokens of the chat", i);
    int is_cut = !strcmp(text_of(choice, "finish_reason"), "length");
    check_that(!strcmp(text_of(response, "status"), is_cut ? "incomplete" : "completed") &&
                   !strcmp(text_of(item(response, 0), "status"), text_of(response, "status")) &&
                   !strcmp(text_of(json_object_get(response, "incomplete_details"), "reason"),
                           is_cut ? "max_output_tokens" : ""),
               "%d: status %s", i, text_of(response, "status"));
}

static void like_chats(void)
{
    static const char *const ways[][2] = {{"-np", "1"}, {"-b", "9"}, {"--speculate", "off"}};
    struct process p;
    size_t n;
    put_pairs();
    RUN(&p, in, "-o", out);
    check(p.code == 0, "responses and chats", &p);
    process_free(&p);
    char *text = read_file(out, &n);
    const char *at = text;
    for (int i = 0; i < N_PAIRS; i++) {
        json_t *a = next_body(&at), *b = next_body(&at);
        compare(i, a, b);
        json_decref(a);
        json_decref(b);
    }
    free(text);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        RUN(&p, in, "-o", out2, (char *)ways[i][0], (char *)ways[i][1]);
        process_free(&p);
        check_that(same_file(out, out2), "the same bytes with %s %s", ways[i][0], ways[i][1]);
        shell_code("rm -f %s*", out2);
    }
    RUN(&p, in, "-o", "-", "--format", "text");
    check(p.code == 0 && lines(p.out) == 2 * N_PAIRS, "--format text", &p);
    for (char *a = p.out, *b; *a && (b = strchr(a, '\n')); a = strchr(b + 1, '\n') + 1)
        check_that(!strncmp(a, b + 1, (size_t)(b - a) + 1), "a line of text as the chat's");
    process_free(&p);
    shell_code("rm -f %s*", out);
}

/* ---- the object */

static void object(void)
{
    static const char *const nulls[] = {"error", "previous_response_id", "max_tool_calls",
                                        "safety_identifier", "prompt_cache_key"};
    json_t *body = ask("a",
                       ",\"input\":\"x\",\"max_output_tokens\":2,\"metadata\":{\"k\": "
                       "\"a  \\\" b\"},\"user\":\"u\",\"store\":true,\"temperature\":0.7,"
                       "\"top_p\":1,\"truncation\":\"auto\",\"model\":\"m\",\"background\":"
                       "false,\"stream\":null,\"parallel_tool_calls\":false,\"reasoning\":{"
                       "\"effort\":null},\"service_tier\":\"flex\",\"instructions\":\"i\"",
                       "-np", "1");
    json_t *expected = json_pack(
        "{s:s, s:i, s:s, s:{s:s}, s:s, s:b, s:f, s:s, s:s, s:b, s:s, s:s, s:i, s:{s:n, s:n}}",
        "object", "response", "created_at", 0, "status", "incomplete", "metadata", "k", "a  \" b",
        "user", "u", "store", 1, "temperature", 0.7, "truncation", "auto", "model", "m",
        "parallel_tool_calls", 0, "service_tier", "flex", "instructions", "i", "max_output_tokens",
        2, "reasoning", "effort", "summary");
    const char *name;
    json_t *v;
    json_object_foreach (expected, name, v)
        check_that(json_equal(v, json_object_get(body, name)), "%s of the object", name);
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        check_that(json_is_null(json_object_get(body, nulls[i])), "%s is null", nulls[i]);
    v = json_object_get(json_object_get(body, "usage"), "input_tokens_details");
    check_that(json_is_integer(json_object_get(v, "cached_tokens")) &&
                   json_is_integer(json_object_get(v, "cache_write_tokens")),
               "what openai 3.57 demands of usage");
    check_that(!strncmp(text_of(body, "id"), "resp_", 5) &&
                   !strncmp(text_of(item(body, 0), "id"), "msg_", 4) &&
                   !strcmp(text_of(item(body, 0), "role"), "assistant") &&
                   !strcmp(text_of(content(body, 0), "type"), "output_text") &&
                   !json_array_size(json_object_get(content(body, 0), "annotations")) &&
                   json_is_array(json_object_get(content(body, 0), "annotations")),
               "a message");
    check_that(!strcmp(text_of(json_object_get(json_object_get(body, "text"), "format"), "type"),
                       "text") &&
                   !json_array_size(json_object_get(body, "tools")) &&
                   !strcmp(text_of(body, "tool_choice"), "auto"),
               "defaults");
    json_decref(expected);
    json_decref(body);
}

#define OF_WEATHER                                                                                 \
    "{\"type\":\"function\",\"name\":\"weather\",\"strict\":true,\"parameters\":{\"type\":"        \
    "\"object\",\"properties\":{\"city\":{\"enum\":[\"Paris\",\"Rome\"]}},\"required\":[\"city\"]" \
    ","                                                                                            \
    "\"additionalProperties\":false}}"
#define NOW "{\"type\":\"function\",\"name\":\"now\"}"
#define SHOWS "{{ messages[0].content }}{% if tools %} <tool_call></tool_call>{% endif %}"

/* A call that the record forces; NAME: what is called. */
static void calls(const char *choice, const char *name)
{
    char fields[800];
    snprintf(fields, sizeof fields,
             ",\"input\":\"x\",\"max_output_tokens\":300,\"parallel_tool_calls\":false,\"tools\":"
             "[" OF_WEATHER "," NOW "],\"tool_choice\":%s",
             choice);
    json_t *body = ask(SHOWS, fields, "--temp", "1");
    const json_t *call = item(body, 0);
    json_t *arguments = json_loads(text_of(call, "arguments"), 0, NULL);
    check_that(!strcmp(text_of(call, "type"), "function_call") &&
                   !strncmp(text_of(call, "call_id"), "call_", 5) &&
                   !strncmp(text_of(call, "id"), "fc_", 3) && json_is_object(arguments) &&
                   (!*name || !strcmp(text_of(call, "name"), name)),
               "%s: a call of \"%s\" with %s", choice, text_of(call, "name"),
               text_of(call, "arguments"));
    check_that(json_array_size(json_object_get(body, "output")) == 1 &&
                   !strcmp(text_of(body, "status"), "completed") &&
                   json_array_size(json_object_get(body, "tools")) == 2,
               "nothing but a call");
    json_decref(arguments);
    json_decref(body);
}

#define THOUGHT "<|channel|>analysis<|message|>I see.<|end|>"
#define FINAL "<|start|>assistant<|channel|>final<|message|>"

static void reasoning(void)
{
    json_t *body = ask("{# <|channel|>analysis #}{{ messages[0].content }}",
                       ",\"input\":\"x\",\"max_output_tokens\":200,\"include\":[\"message.output_"
                       "text.logprobs\"],\"structured_outputs\":{\"choice\":[\"" THOUGHT FINAL
                       "Yes.\"]}",
                       "--reasoning-parser", "openai_gptoss"),
           *token;
    const json_t *usage = json_object_get(body, "usage"), *part = content(body, 0);
    size_t i, n = 0,
              n_thought = (size_t)json_integer_value(json_object_get(
                  json_object_get(usage, "output_tokens_details"), "reasoning_tokens"));
    json_array_foreach (json_object_get(content(body, 1), "logprobs"), i, token)
        if (i < n_thought) n += strlen(text_of(token, "token"));
    check_that(!strcmp(text_of(item(body, 0), "type"), "reasoning") &&
                   !strcmp(text_of(part, "type"), "reasoning_text") &&
                   !strcmp(text_of(part, "text"), "I see.") &&
                   json_is_array(json_object_get(item(body, 0), "summary")),
               "reasoning apart: \"%s\"", text_of(part, "text"));
    check_that(!strcmp(text_of(content(body, 1), "text"), "Yes."), "the answer behind it");
    check_that(n >= strlen(THOUGHT FINAL) - 1 && n <= strlen(THOUGHT FINAL),
               "%zu tokens of reasoning are %zu of %zu bytes", n_thought, n, strlen(THOUGHT FINAL));
    json_decref(body);
    body = ask("{{ messages[0].content }}<think>\n", ",\"input\":\"x\",\"max_output_tokens\":8",
               "--reasoning-parser", "qwen3");
    usage = json_object_get(body, "usage");
    check_that(json_array_size(json_object_get(body, "output")) == 1 &&
                   !strcmp(text_of(item(body, 0), "type"), "reasoning") &&
                   !strcmp(text_of(item(body, 0), "status"), "incomplete") &&
                   json_integer_value(json_object_get(
                       json_object_get(usage, "output_tokens_details"), "reasoning_tokens")) == 8,
               "reasoning that was cut");
    json_decref(body);
    body = ask("a{{ reasoning_effort }}{{ verbosity }}",
               ",\"input\":\"x\",\"max_output_tokens\":1,\"reasoning\":{\"effort\":\"low\"},"
               "\"text\":{\"verbosity\":\"high\"},\"include\":[\"message.output_text.logprobs\"]",
               "-np", "1");
    json_t *same = ask("alowhigh",
                       ",\"input\":\"x\",\"max_output_tokens\":1,\"include\":[\"message.output_"
                       "text.logprobs\"]",
                       "-np", "1");
    check_that(json_equal(json_object_get(content(body, 0), "logprobs"),
                          json_object_get(content(same, 0), "logprobs")) &&
                   json_array_size(json_object_get(content(body, 0), "logprobs")),
               "words that the template reads");
    json_decref(body);
    json_decref(same);
}

/* ---- refusals */

static const struct {
    const char *fields, *field, *says;
} refused[] = {
    {"", "input", "is missing"},
    {",\"input\":[]", "input", "not empty"},
    {",\"input\":7", "input", "must be a string"},
    {",\"input\":[7]", "input", "input[0]: must be an object"},
    {",\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"critic\",\"content\":\"a\"}]",
     "input", "input[1].role"},
    {",\"input\":[{\"role\":\"user\"}]", "input", "input[0].content: must be"},
    {",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":\"u\"}]}"
     "]",
     "input", "input[0].content[0]: type \"input_image\""},
    {",\"input\":[{\"role\":\"user\",\"content\":[{\"text\":\"u\"}]}]", "input", "has no type"},
    {",\"input\":[{\"role\":\"user\",\"content\":\"a\",\"name\":\"n\"}]", "input",
     "input[0]: name is not served"},
    {",\"input\":[{\"type\":\"item_reference\",\"id\":\"m\"}]", "input", "item_reference"},
    {",\"input\":[{\"id\":\"m\"}]", "input", "item_reference"},
    {",\"input\":[{\"type\":\"web_search_call\",\"id\":\"m\"}]", "input", "\"web_search_call\""},
    {",\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{\"}"
     "]",
     "input", "input[0].arguments: not JSON"},
    {",\"input\":[{\"type\":\"function_call_output\",\"output\":\"f\"}]", "input", ".call_id"},
    {",\"input\":[{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[],\"encrypted_content\":\"x\"}"
     "]",
     "input", "encrypted_content"},
    {",\"input\":\"a\",\"instructions\":[1]", "instructions", "must be a string"},
    {",\"input\":\"a\",\"stream\":true", "stream", "not served for responses"},
    {",\"input\":\"a\",\"background\":true", "background", "not served for responses"},
    {",\"input\":\"a\",\"previous_response_id\":\"r\"", "previous_response_id", "not served"},
    {",\"input\":\"a\",\"conversation\":\"c\"", "conversation", "not served"},
    {",\"input\":\"a\",\"prompt\":{\"id\":\"p\"}", "prompt", "not served"},
    {",\"input\":\"a\",\"max_tokens\":3", "max_tokens", "not served"},
    {",\"input\":\"a\",\"n\":2", "n", "not served"},
    {",\"input\":\"a\",\"messages\":[{}]", "messages", "not served"},
    {",\"input\":\"a\",\"max_output_token\":3", "max_output_token", "not served"},
    {",\"input\":\"a\",\"max_output_tokens\":-3", "max_output_tokens", "must be an integer"},
    {",\"input\":\"a\",\"include\":[\"reasoning.encrypted_content\"]", "include", "encrypted"},
    {",\"input\":\"a\",\"top_logprobs\":2", "top_logprobs", "include"},
    {",\"input\":\"a\",\"top_logprobs\":21", "top_logprobs", "from 0 to 20"},
    {",\"input\":\"a\",\"metadata\":{\"k\":1}", "metadata", "strings"},
    {",\"input\":\"a\",\"store\":1", "store", "true or false"},
    {",\"input\":\"a\",\"truncation\":\"middle\"", "truncation", "\"auto\""},
    {",\"input\":\"a\",\"reasoning\":{\"effort\":\"lots\"}", "reasoning.effort", "must be one of"},
    {",\"input\":\"a\",\"reasoning\":{\"effort\":\"low\"}", "reasoning.effort", "does not read it"},
    {",\"input\":\"a\",\"reasoning\":{\"summary\":\"auto\"}", "reasoning", "reasoning.summary"},
    {",\"input\":\"a\",\"text\":{\"formt\":{}}", "text", ""},
    {",\"input\":\"a\",\"text\":{\"formt\":{\"a\":1}}", "text", "text.formt"},
    {",\"input\":\"a\",\"text\":{\"format\":{\"type\":\"xml\"}}", "text.format", "only \"text\""},
    {",\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}",
     "text.format", "no schema"},
    {",\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"json_schema\":{}}}",
     "text.format", "json_schema is not served"},
    {",\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"x\"}}"
     "}",
     "text.format", "type"},
    {",\"input\":\"a\",\"response_format\":{\"type\":\"json_object\"}", "response_format",
     "not served"},
    {",\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_object\"}},\"structured_outputs\":{"
     "\"regex\":\"a\"}",
     "structured_outputs", "text.format already says"},
    {",\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}]", "tools", "\"web_search\""},
    {",\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", "tools",
     "is a chat's"},
    {",\"input\":\"a\",\"tools\":[{\"type\":\"function\"}]", "tools", "name of 0"},
    {",\"input\":\"a\",\"tools\":[" NOW "],\"tool_choice\":{\"type\":\"file_search\"}",
     "tool_choice", "must be"},
    {",\"input\":\"a\",\"tools\":[" NOW "],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}",
     "tool_choice", "'f' is none"},
    {",\"input\":\"a\",\"tool_choice\":\"required\"", "tool_choice", "needs tools"},
};

static void refusals(void)
{
    enum { N = sizeof refused / sizeof *refused };
    struct process p;
    FILE *f = begin();
    for (int i = 0; i < N; i++) put(f, i, "responses", SHOWS, refused[i].fields);
    fclose(f);
    RUN(&p, in, "-o", "-", "-n", "1");
    check(p.code == 3, "some are refused", &p);
    const char *at = p.out;
    for (int i = 0; i < N; i++) {
        json_t *body = next_body(&at);
        const json_t *e = json_object_get(body, "error");
        if (!*refused[i].says) check_that(json_is_null(e), "%s is served", refused[i].fields);
        else
            check_that(!strcmp(text_of(e, "param"), refused[i].field) &&
                           strstr(text_of(e, "message"), refused[i].says),
                       "%s: \"%s\"", refused[i].fields, text_of(e, "message"));
        json_decref(body);
    }
    process_free(&p);
    f = begin();
    put(f, 0, "response", SHOWS, ",\"input\":\"a\"");
    fclose(f);
    RUN(&p, in, "-o", "-");
    check(p.code == 3 && strstr(p.out, "/v1/responses\\\" has this name"), "another url", &p);
    process_free(&p);
    f = begin();
    fprintf(f,
            "{\"url\":\"/v1/responses\",\"body\":{\"truncation\":\"auto\",\"chat_template\":\"{{ "
            "messages[0].content }}\",\"input\":\"");
    for (int i = 0; i < 700; i++) fprintf(f, "word ");
    fprintf(f, "\"}}\n");
    fclose(f);
    RUN(&p, in, "-o", "-");
    check(p.code == 3 && strstr(p.out, "input: has 7") && strstr(p.out, "drops no items"),
          "an input that is too long", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out.jsonl", dir);
    snprintf(out2, sizeof out2, "%s/out2.jsonl", dir);
    check(!shell_code("%s/opt4gptq-convert -q models/demo %s", argv[1], model), "convert", NULL);
    like_chats();
    object();
    calls("\"required\"", "");
    calls("{\"type\":\"function\",\"name\":\"weather\"}", "weather");
    calls("{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[" NOW "]}", "now");
    reasoning();
    refusals();
    shell_code("rm -rf %s", dir);
    return report("responses");
}
