/* unit_record_grammar.c: what the fields of a record ask for: the kind of grammar and its text, a
 * schema as the line spells it. */
#include "cli/modes/batch/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(struct record *r, const char *line, struct refusal *why)
{
    static const struct record_defaults d = {
        .sampling = {.temperature = 1, .top_p = 1}, .max_tokens = -1, .vocab = 10};
    struct err e = {0};
    const struct input_line in = {.text = line, .n = strlen(line), .number = 1};
    return record_parse(r, &in, 0, &d, why, &e);
}

#define LINE(fields) "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"" fields "}}"
#define FORMAT(schema)                                                                             \
    LINE(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","         \
         "\"schema\":" schema ",\"strict\":true}}")

static void fields_and_their_texts(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum grammar_kind kind;
        const char *text; /* NULL: none */
        enum json_space space;
    } cases[] = {
        {LINE(""), 0, NULL, 0},
        {LINE(",\"response_format\":{\"type\":\"text\"}"), 0, NULL, 0},
        {LINE(",\"response_format\":null,\"guided_json\":null"), 0, NULL, 0},
        {LINE(",\"structured_outputs\":{}"), 0, NULL, 0},
        {LINE(",\"guided_json_object\":false"), 0, NULL, 0},
        {LINE(",\"response_format\":{\"type\":\"json_object\"}"), GRAMMAR_JSON, "", 0},
        {LINE(",\"response_format\":{\"type\":\"json_object\",\"schema\":{\"a\":1}}"),
         GRAMMAR_SCHEMA, "{\"a\":1}", 0},
        {FORMAT("{\"multipleOf\": 0.10, \"maximum\":1E400 }"), GRAMMAR_SCHEMA, NULL, 0},
        {FORMAT("{\"multipleOf\": 0.10,\n\"x\":[ \"}\\\"]{\", {} ] }"), GRAMMAR_SCHEMA,
         "{\"multipleOf\": 0.10,\n\"x\":[ \"}\\\"]{\", {} ] }", 0},
        {FORMAT("true"), GRAMMAR_SCHEMA, "true", 0},
        {FORMAT("{\"a\":\"\\\\\"}"), GRAMMAR_SCHEMA, "{\"a\":\"\\\\\"}", 0},
        /* the key escaped; a key that comes twice */
        {LINE(",\"guided\\u005fjson\" : {\"b\" : 2.50 }"), GRAMMAR_SCHEMA, "{\"b\" : 2.50 }", 0},
        {LINE(",\"guided_json\":{\"b\":1},\"guided_json\":{\"b\":2}"), GRAMMAR_SCHEMA, "{\"b\":2}",
         0},
        {"{\"body\" : 7, \"url\":\"/v1/completions\", \"body\" :{\"prompt\":\"{\\\"guided_json\\\":"
         "1}\",\"guided_json\":{\"c\":[1 , 2]} } }",
         GRAMMAR_SCHEMA, "{\"c\":[1 , 2]}", 0},
        {LINE(",\"guided_json\":\"{\\\"a\\\": 0.10}\""), GRAMMAR_SCHEMA, "{\"a\": 0.10}", 0},
        {LINE(",\"guided_regex\":\"a|b\""), GRAMMAR_REGEX, "a|b", 0},
        {LINE(",\"guided_choice\":[\"a\",\"b\\\"\"]"), GRAMMAR_CHOICE, "[\"a\",\"b\\\"\"]", 0},
        {LINE(",\"guided_grammar\":\"root ::= \\\"a\\\"\""), GRAMMAR_GBNF, "root ::= \"a\"", 0},
        {LINE(",\"structured_outputs\":{\"json\":{\"a\": 1.0},\"regex\":null}"), GRAMMAR_SCHEMA,
         "{\"a\": 1.0}", 0},
        {LINE(",\"structured_outputs\":{\"json_object\":true,\"disable_any_whitespace\":true}"),
         GRAMMAR_JSON, "", 1},
        {LINE(",\"structured_outputs\":{\"json_object\":true,\"disable_any_whitespace\":false}"),
         GRAMMAR_JSON, "", JSON_SPACE_ANY},
        {LINE(",\"structured_outputs\":{\"json\":{},\"any_order\":true}"), GRAMMAR_SCHEMA, "{}", 0},
        {LINE(",\"structured_outputs\":{\"regex\":\"a\",\"_backend\":\"x\"}"), GRAMMAR_REGEX, "a",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record r;
        struct refusal why;
        int rc = parse(&r, cases[i].line, &why);
        if (strstr(cases[i].line, "1E400")) { /* not a number of the line's reader */
            assert_int_equal(rc, 1);
            record_free(&r);
            continue;
        }
        if (rc) fail_msg("%s: %s", cases[i].line, why.why.msg);
        if (!cases[i].text) assert_null(r.grammar.field);
        else {
            if (!r.grammar.field) fail_msg("%s: asks for nothing", cases[i].line);
            assert_int_equal(r.grammar.spec.kind, cases[i].kind);
            assert_string_equal(r.grammar.spec.text, cases[i].text);
            assert_int_equal(r.grammar.spec.bytes, strlen(cases[i].text));
            assert_int_equal(r.grammar.spec.space, cases[i].space);
            assert_int_equal(r.grammar.spec.order, strstr(cases[i].line, "any_order")
                                                       ? JSON_ORDER_ANY
                                                       : JSON_ORDER_SCHEMA);
        }
        record_free(&r);
    }
}

static void members_of_a_format(void **state)
{
    (void)state;
    static const struct {
        const char *member, *says; /* NULL: it is served */
    } cases[] = {
        {"\"strict\":false", NULL},
        {"\"strict\":null", NULL},
        {"\"strict\":1", "strict must be true or false"},
        {"\"strict\":\"true\"", "strict must be true or false"},
        {"\"description\":\"d\"", NULL},
        {"\"description\":1", "must be a string"},
        {"\"other\":1", "is not served"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[400];
        struct record r;
        struct refusal why;
        snprintf(line, sizeof line,
                 LINE(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":"
                      "{},%s}}"),
                 cases[i].member);
        int rc = parse(&r, line, &why);
        if (cases[i].says ? rc != 1 || !strstr(why.why.msg, cases[i].says) : rc)
            fail_msg("%s: %s", cases[i].member, rc ? why.why.msg : "is served");
        record_free(&r);
    }
}

#define CHAT(fields)                                                                               \
    "{\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":"    \
    "\"a\"}]," fields "}}"
#define F(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define TOOLS "\"tools\":[" F("a") "," F("b") "," F("c") "]"
#define ALLOWED(tools)                                                                             \
    TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\","     \
          "\"tools\":[" tools "]}}"

static void what_is_refused_is_named(void **state)
{
    (void)state;
    static const char foreign[] = "tool_choice: allowed_tools.tools has something that is none of "
                                  "the tools, or one twice";
    static const struct {
        const char *line, *says; /* NULL: it is served */
    } cases[] = {
        {CHAT("\"reasoning_effort\":\"huge\""),
         "reasoning_effort: must be one of \"none\", \"minimal\", \"low\", \"medium\", \"high\", "
         "\"xhigh\", \"max\""},
        {CHAT("\"verbosity\":3"), "verbosity: must be one of \"low\", \"medium\", \"high\""},
        {CHAT(TOOLS), NULL},
        {CHAT(TOOLS ",\"tool_choice\":\"required\",\"guided_regex\":\"a\""),
         "tool_choice: guided_regex already says what the answer has to be"},
        {CHAT("\"tools\":[" F("a") "," F("b") "," F("a") "]"), "tools: 0 and 2 have the same name"},
        {CHAT(ALLOWED(F("c") "," F("a"))), NULL},
        {CHAT(ALLOWED(F("c") "," F("d"))), foreign},
        {CHAT(ALLOWED(F("c") "," F("c"))), foreign},
        {CHAT(ALLOWED(F("c") "," F("a\\u0000"))), foreign},
        {CHAT(ALLOWED("7")), foreign},
        {CHAT(ALLOWED("")), "tool_choice: allowed_tools.tools must be an array of functions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record r;
        struct refusal why = {0};
        int rc = parse(&r, cases[i].line, &why);
        const char *says = rc ? why.why.msg : NULL;
        if (!says != !cases[i].says || (says && strcmp(says, cases[i].says)))
            fail_msg("%s: %s", cases[i].line, says ? says : "is served");
        record_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_and_their_texts),
                                       cmocka_unit_test(members_of_a_format),
                                       cmocka_unit_test(what_is_refused_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
