/* unit_call_answers.c: answers with calls of functions, by hand, as models write them: whole, cut,
 * broken, without tags, with literals; marks of texts. */
#include "core/base/json.h"
#include "core/grammar/call_syntax.h"
#include "tests/unit/call_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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
        {"seed_oss", "[]",
         "so\n<seed:tool_call>\n<function=f>\n<parameter=s>12</parameter>\n<parameter=i>12"
         "</parameter>\n</function>\n</seed:tool_call>",
         0, "so", "f {\"s\": \"12\", \"i\": 12};"},
        {"minimax_m2", "[]",
         "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a \"q\"\n</parameter>\n"
         "<parameter name=\"o\">{\"k\": [1]}</parameter>\n</invoke>\n<invoke "
         "name=\"g\">\n</invoke>\n"
         "</minimax:tool_call>",
         0, "", "f {\"s\": \"a \\\"q\\\"\\n\", \"o\": {\"k\": [1]}};g {};"},
        {"minimax_m2", "[]", /* without the outer tag */
         "ok <invoke name=\"f\"><parameter name=\"i\">3</parameter></invoke>", 0, "ok",
         "f {\"i\": 3};"},
        {"pythonic", "[]", "[f(s='it\\'s', i=3,b=True , o={'k': [1, None]},), g()]", 0, "",
         "f {\"s\": \"it's\", \"i\": 3, \"b\": true, \"o\": {\"k\": [1, null]}};g {};"},
        {"pythonic", "[\"<|python_start|>\"]", "\xff<|python_start|>\xff[ g ( ) ]", 0, "", "g {};"},
        {"pythonic", "[]", "so: [g(x=\"a\")] then", 0, "so:  then", "g {\"x\": \"a\"};"},
        {"pythonic", "[]", "[h(a=1)]", 0, "[h(a=1)]", ""},           /* no tool */
        {"pythonic", "[]", "[f(i=1, i=2)]", 0, "[f(i=1, i=2)]", ""}, /* twice */
        {"pythonic", "[]", "[f(1)]", 0, "[f(1)]", ""},
        {"pythonic", "[]", "[f(i=one)]", 0, "[f(i=one)]", ""},
        {"pythonic", "[]", "[f(i=1", 0, "[f(i=1", ""},
        {"pythonic", "[]", "a list [1] of numbers", 0, "a list [1] of numbers", ""},
        {"openai", "[]",
         "<|start|>assistant<|channel|>commentary to=functions.f "
         "<|constrain|>json<|message|>{\"i\": 1}",
         0, "", "f {\"i\": 1};"},
        {"openai", "[\"<|channel|>\", \"<|constrain|>\", \"<|message|>\", \"<|start|>\"]",
         "\xff<|channel|>\xff"
         "commentary to=functions.f\xff<|constrain|>\xffjson\xff<|message|>\xff"
         "{\"s\": \"<|call|>\"}",
         0, "", "f {\"s\": \"<|call|>\"};"},
        /* what is said before the call */
        {"openai", "[]",
         "<|channel|>commentary<|message|>So.<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.g <|constrain|>json<|message|>{}<|call|>",
         0, "<|channel|>commentary<|message|>So.<|end|><|call|>", "g {};"},
        {"openai", "[]", "<|channel|>commentary to=nobody", 0, "<|channel|>commentary to=nobody",
         ""},
        {"openai", "[\"<|channel|>\"]", "<|channel|>commentary to=functions.g {}", 0,
         "<|channel|>commentary to=functions.g {}", ""},
        {"kimi_k2", "[\"<|tool_calls_section_begin|>\", \"<|tool_call_begin|>\"]",
         "hm\xff<|tool_calls_section_begin|>\xff\xff<|tool_call_begin|>\xff"
         "functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>"
         "\xff<|tool_call_begin|>\xff"
         "functions.g:12<|tool_call_argument_begin|>{}"
         "<|tool_call_end|><|tool_calls_section_end|>",
         0, "hm", "f {\"a\": 1};g {};"},
        {"internlm", "[]",
         "<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": "
         "1}}<|action_end|>\n",
         0, "", "f {\"a\": 1};"},
        {"jamba", "[]",
         "<tool_calls>[\n{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": "
         "{}}]\n"
         "</tool_calls>",
         0, "", "f {};g {};"},
        {"phi4_mini_json", "[]", "functools[{\"name\": \"f\", \"arguments\": {\"a\": 2}}]", 0, "",
         "f {\"a\": 2};"},
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
        {"qwen3_coder", "[]", CODER(ARG("l", "['\\U0001f600']")), 0, "", "f {\"l\": [\"😀\"]};"},
        {"qwen3_coder", "[]", CODER(ARG("l", "['\\U0000d83d']")), 0, "",
         "f {\"l\": \"['\\\\U0000d83d']\"};"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_by_hand),
        cmocka_unit_test(answers_that_lack_tags),
        cmocka_unit_test(answers_that_run_into_calls),
        cmocka_unit_test(answers_with_literals),
        cmocka_unit_test(marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
