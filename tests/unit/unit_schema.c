/* unit_schema.c: JSON schemas: by hand, and the 2,321 schemas of SHARED with instances that another
 * validator judged (skipped without them): what is served takes every valid instance and no invalid
 * one. */
#include "core/base/json.h"
#include "core/grammar/grammar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include <cmocka.h>

/* Every byte, and texts that go over the ends of JSON's parts. */
static const char *const texts[] = {"{\"",  "\":",   "\": \"", "\", \"", "\"}",    "\"}}",
                                    "}}",   "}]",    "],",     ", \"",   "e\"",    "na",
                                    "type", "true}", "1,",     "12",     "\\u00",  "\\\"",
                                    ":{\"", "a\":1", "[[",     "null",   "ame\":", "  "};
enum { N_TEXTS = sizeof texts / sizeof *texts, N_TOKENS = 256 + N_TEXTS };

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    *bytes = id < 256 ? 1 : strlen(texts[id - 256]);
    return id < 256 ? (char *)arg + id : texts[id - 256];
}

/* Strings of a format, and strings that are none; NULL ends each. */
static const struct {
    const char *name, *is[10], *is_not[10];
} formats[] = {
    {"time",
     {"18:00:00Z", "00:00:59.25+23:59", "23:59:60z", "23:59:60.5-00:00"},
     {"24:00:00Z", "22:59:60Z", "23:58:60Z", "23:59:60+01:00", "18:00:61Z", "18:00:00"}},
    {"ipv6",
     {"::", "1::", "::1", "1:2:3:4:5:6:7:8", "1::d6:192.168.0.1", "1:2::192.168.0.1",
      "::ffff:10.0.0.1", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:255.255.255.255"},
     {"", ":", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::1.2.3",
      "::256.0.0.1", "::01.2.3.4"}},
    {"hostname",
     {"a", "a-b.example", "a--b.com", "1host", "a.b.c",
      "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"},
     {"", ".", "a.", ".a", "-a", "a-", "a_b", "xn--x",
      "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"}},
    {"email",
     {"joe@example.com", "te.s~t@a", "\\\"joe bloggs\\\"@example.com", "a@[127.0.0.1]",
      "a@[IPv6:::1]"},
     {"joe", "@example.com", "a@", ".a@b", "a.@b", "a..b@c", "a b@c", "a@[1.2.3]"}},
    {"uri",
     {"http://example.com:80/a?b#c", "urn:isbn:1", "mailto:a@b", "a:", "file:///x", "http://[::1]/",
      "x:/a//b", "http://a@b/%20"},
     {"", "a", "//a/b", "1a:b", "http://a b", "http://a/%2", "http://[a]/", "http:/[::1]",
      "http://a:b/", "http://a@b@c"}},
    {"uri-reference",
     {"", "a", "//a:1/b", "/a/b", "?q", "#f", "../a:b", "http://a"},
     {"1:b", "/[::1]", "//a:b/", "//a@b@c/", "a\\\\b", "#a#b"}},
    {"uri-template",
     {"", "a/{b}", "{+a,b:3,c*}", "{?x.y}", "%41", "a'b"},
     {"{", "{}", "a b", "{a,,b}", "{v:0}", "{v:10000}", "a}b", "{a=b}", "%4"}},
    {"relative-json-pointer",
     {"0", "1", "120/foo/bar", "0#", "0//", "1/~0~1"},
     {"", "01", "-1", "/a", "0##", "1#/a", "0/~2"}},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static struct vocab *byte_vocab(void)
{
    static char all[256];
    struct vocab *v;
    struct err e;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    const struct vocab_source source = {N_TOKENS, token, all};
    assert_int_equal(vocab_open(&v, &source, &e), 0);
    return v;
}

static int open_schema(struct grammar **g, const struct vocab *v, const char *text, int ordered,
                       struct err *e)
{
    const struct grammar_spec spec = {.kind = GRAMMAR_SCHEMA,
                                      .text = text,
                                      .bytes = strlen(text),
                                      .order = ordered ? JSON_ORDER_STRICT : JSON_ORDER_ANY,
                                      .space = JSON_SPACE_ANY};
    *g = NULL;
    return grammar_open(g, &spec, v, e);
}

/* 1: TEXT is a document. *at: bytes that were read. */
static int is_document(struct grammar *g, const char *text, size_t *at)
{
    struct grammar_cursor *c;
    struct err e;
    size_t n = strlen(text);
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    for (*at = 0; *at < n; ++*at)
        if (grammar_accept(c, text + *at, 1, &e) != 1) break;
    int ok = *at == n && grammar_may_end(c);
    grammar_cursor_close(c);
    return ok;
}

/* At each byte of TEXT the mask allows the tokens that can be read there, and no others. */
static void check_masks(const struct vocab *v, struct grammar *g, const char *text)
{
    struct grammar_cursor *c, *probe;
    struct err e;
    uint32_t bits[(N_TOKENS + 31) / 32];
    int n_allowed;
    assert_int_equal(grammar_cursor_open(&c, g, &e), 0);
    assert_int_equal(grammar_cursor_open(&probe, g, &e), 0);
    for (size_t at = 0; text[at]; at++) {
        assert_int_equal(grammar_mask(c, bits, &n_allowed, NULL, &e), 0);
        for (int32_t id = 0; id < N_TOKENS; id++) {
            size_t bytes;
            const char *t = vocab_token(v, id, &bytes);
            grammar_cursor_copy(probe, c);
            int reads = grammar_accept(probe, t, bytes, &e), allowed = bits[id / 32] >> id % 32 & 1;
            if (reads != allowed)
                print_message("'%s' after %.*s: mask %d, reads %d\n", t, (int)at, text, allowed,
                              reads);
            assert_int_equal(reads, allowed);
            n_allowed -= allowed;
        }
        assert_int_equal(n_allowed, 0);
        assert_int_equal(grammar_accept(c, text + at, 1, &e), 1);
    }
    grammar_cursor_close(c);
    grammar_cursor_close(probe);
}

static void by_hand(void **state)
{
    static const struct {
        const char *schema, *good[5], *bad[6];
    } cases[] = {
        {"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
         {"-12", "0", "-0", "104", "7"},
         {"-13", "105", "1.5", "007", "1e1", "+1"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1}",
         {"0.001", "1", "1.00", "0.5"},
         {"0", "0.0", "1.01", "-1", "2"}},
        {"{\"type\":\"number\",\"minimum\":-3,\"maximum\":-2}",
         {"-3", "-2.5", "-2.0", "-3.000"},
         {"-3.1", "-1.9", "2.5", "0"}},
        {"{\"type\":\"number\",\"minimum\":-0.25,\"exclusiveMaximum\":1.05}",
         {"-0.25", "0", "1.04999", "1.0", "-0.2500"},
         {"-0.2501", "1.05", "1.050", "1.1", "-1", "2"}},
        {"{\"type\":\"number\",\"minimum\":0.1,\"maximum\":0.15}",
         {"0.1", "0.12", "0.150", "0.1499"},
         {"0", "0.09", "0.1500001", "0.2", "1", "-0.1"}},
        {"{\"type\":\"number\",\"multipleOf\":0.05}",
         {"0.05", "-3", "10.100", "0", "7.3500"},
         {"0.01", "0.051", "7.355", "00.05", "5.", "1e1"}},
        {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10,\"not\":{\"const\":21}}",
         {"14", "28", "7000"},
         {"7", "21", "15", "14.0", "-14"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":5},"
         "\"minItems\":2}",
         {"[5,1]", "[1,1,9]", "[7,8]"},
         {"[5]", "[1,2]", "[]", "[5,\"a\"]"}},
        {"{\"type\":\"object\",\"maxProperties\":2,\"required\":[\"a\"]}",
         {"{\"a\":1}", "{\"x\":1,\"a\":1}"},
         {"{\"x\":1,\"y\":", "{\"a\":1,\"x\":1,\"y\":1}", "{}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]+$\"},\"properties\":{\"d\":{"
         "}}}",
         {"{\"ab\":1}", "{}"},
         {"{\"d\":1}", "{\"abd\":1}", "{\"\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"string\"}}}",
         {"{\"a\":1}", "{\"a\":\"\",\"b\":null}"},
         {"{}", "{\"a\":\"x\"}", "[]"}},
        {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}",
         {"\"ax\"", "\"xb\"", "\"a\"", "\"\\u00e9b\""},
         {"\"xa\"", "\"bx\"", "1"}},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"\\n\\u00e9\"", "\"\xf0\x9f\x98\x80\\ud83d\\ude00x\""},
         {"\"a\"", "\"abcd\"", "\"\\ud83d\""}},
        {"{\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":\"boolean\"}},\"required\":["
         "\"ab\"]}",
         {"{\"ab\":true}", "{\"a\":null,\"ab\":false}",
          "{\"ab\":true, \"abc\":1,\"b\":2, \"a\":null}", "7", "{\"\":0,\"ab\":true}"},
         {"{\"a\":null}", "{\"ab\":1}", "{\"ab\":true,\"a\":1}", "{}",
          "{\"ab\":true,\"ab\":true}"}},
        {"{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\",null]},\"minItems\":1,\"maxItems\":2}",
         {"[1]", "[\"x\",null]", "[ 1, 1 ]"},
         {"[]", "[1,1,1]", "[2]"}},
        {"{\"items\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"additionalItems\":false,"
         "\"type\":\"array\"}",
         {"[]", "[\"a\"]", "[\"a\",1]"},
         {"[1]", "[\"a\",1,1]", "[\"a\",]"}},
        {"{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/t\"}},"
         "\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
         {"{}", "{\"n\":{\"n\":{}}}"},
         {"{\"n\":1}", "{\"m\":{}}", "[]"}},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{\"type\":"
         "\"integer\"}},"
         "\"required\":[\"k\",\"x\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"}}"
         ",\"required\":[\"k\"]}]}",
         {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\"}", "{\"x\":\"?\",\"k\":\"b\"}"},
         {"{\"k\":\"a\"}", "{\"k\":\"c\"}", "{\"x\":\"?\",\"k\":\"a\"}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":"
         "false},"
         "{\"required\":[\"a\"],\"type\":\"object\"}]}",
         {"{\"a\":1}"},
         {"{}", "{\"a\":1,\"b\":2}", "3"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\"]}}",
         {"[]", "[\"a\"]", "[\"b\",\"a\"]"},
         {"[\"a\",\"a\"]", "[\"b\",\"a\",\"b\"]", "[\"b\",\"a\","}},
        {"{\"type\":\"string\",\"format\":\"date-time\"}",
         {"\"2026-11-24T18:00:00Z\"", "\"2026-11-24T18:00:00.5+01:00\""},
         {"\"2026-13-24T18:00:00Z\"", "\"2026-11-24\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":3,\"not\":{\"enum\":[\"ab\","
         "\"x\"]}}",
         {"\"abc\"", "\"y\"", "\"xx\""},
         {"\"ab\"", "\"x\"", "\"abcd\"", "\"\"", "\"A\""}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"}},"
         "\"patternProperties\":{\"^a\":"
         "{\"minimum\":5,\"type\":\"number\"},\"z$\":{\"type\":[\"number\",\"string\"]}},"
         "\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"ab\":7}", "{\"a\":5.5,\"q\":null}", "{\"z\":\"?\",\"az\":6}"},
         {"{\"ab\":4}", "{\"ab\":5.5}", "{\"q\":1}", "{\"az\":\"?\"}", "{\"a\":1}"}},
        {"{\"oneOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":\"integer\",\"maximum\":3}]}",
         {"0", "4", "-7"},
         {"1", "2", "3", "\"a\""}},
        {"{\"type\":\"object\",\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":["
         "\"k\"]},"
         "\"then\":{\"required\":[\"x\"]},\"else\":{\"properties\":{\"x\":false}}}",
         {"{\"k\":\"a\",\"x\":1}", "{}", "{\"k\":\"b\"}", "{\"k\":1}"},
         {"{\"k\":\"a\"}", "{\"x\":1}", "{\"k\":\"b\",\"x\":1}"}},
        {"{\"type\":\"object\",\"dependencies\":{\"a\":[\"b\"]},\"not\":{\"required\":[\"c\"]}}",
         {"{}", "{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"b\":1,\"d\":0,\"a\":1}"},
         {"{\"a\":1}", "{\"c\":1}", "{\"b\":1,\"c\":1}"}},
        {"{\"type\":\"integer\",\"minimum\":-9007199254740993,\"maximum\":9007199254740993}",
         {"9007199254740993", "-9007199254740993", "0", "999999999999999"},
         {"9007199254740994", "-9007199254740994", "10000000000000000", "90071992547409930"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":0,\"maximum\":18446744073709551615}",
         {"1", "18446744073709551615", "9223372036854775808"},
         {"0", "18446744073709551616", "99999999999999999999", "-1"}},
        {"{\"type\":\"number\",\"minimum\":1e20,\"exclusiveMaximum\":340282366920938463463374607431"
         "768211456}",
         {"100000000000000000000", "340282366920938463463374607431768211455.9",
          "100000000000000000000.5"},
         {"99999999999999999999", "99999999999999999999.9",
          "340282366920938463463374607431768211456", "1"}},
        {"{\"type\":\"number\",\"maximum\":0.12345678901234567890123,\"minimum\":-1e-25}",
         {"0.12345678901234567890123", "0", "-0.0000000000000000000000001"},
         {"0.12345678901234567890124", "0.1234567890123456790", "-0.0000000000000000000000002"}},
        {"{\"enum\":[18446744073709551616,[123456789012345678901,0.10000000000000000001],1e22]}",
         {"18446744073709551616", "[123456789012345678901,0.10000000000000000001]",
          "10000000000000000000000", "1e+22", "10000000000000000000000.0"},
         {"18446744073709551615", "18446744073709552000", "[123456789012345678900,0.1]",
          "18446744073709551616.0"}},
        {"{\"const\":9223372036854775808,\"minimum\":9223372036854775808,\"default\":1e999,"
         "\"examples\":[-99999999999999999999]}",
         {"9223372036854775808"},
         {"9223372036854775807", "9223372036854775809"}},
        {"{\"allOf\":[{\"type\":\"integer\",\"maximum\":9223372036854775809},"
         "{\"maximum\":9223372036854775808},{\"minimum\":9223372036854775807},"
         "{\"not\":{\"const\":9223372036854775808}}]}",
         {"9223372036854775807"},
         {"9223372036854775808", "9223372036854775809", "9223372036854775806"}},
        {"{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"number\"}},"
         "\"additionalProperties\":{\"type\":\"integer\",\"enum\":[\"x\"]},\"maxProperties\":2}",
         {"{}", "{\"c\":8}", "{ \"c\": 8 }"},
         {"{\"c\":8,", "{\"d\""}},
        {"{\"type\":\"string\",\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}",
         {"\"http://a.b/c?d\"", "\"a:\"", "\"urn:isbn:1\""},
         {"\"\"", "\"a b\"", "\"//a\""}},
        {"{\"type\":\"string\",\"format\":\"email\",\"maxLength\":9}",
         {"\"a@b\"", "\"abc@d.efg\"", "\"ab@cdefgh\""},
         {"\"abc@d.efgh\"", "\"abcdefgh@", "\"a@[IPv6:", "\"@b\"", "\"a@b.c.d.e.\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?:\u00e9x|\u00e0|ab(?:cde)?)$\",\"maxLength\":1}",
         {"\"\xc3\xa0\"", "\"\\u00e0\""},
         {"\"\xc3\xa9", "\"a", "\"\\u00e9"}},
        {"{\"type\":\"string\",\"pattern\":\"^(?:abc)*d?$\",\"minLength\":4,\"maxLength\":5}",
         {"\"abcd\""},
         {"\"abc\"", "\"abcabc", "\"d", "\"abca"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]{3,64}$\",\"format\":\"hostname\",\"minLength\":"
         "5,"
         "\"maxLength\":255,\"not\":{\"const\":\"abcde\"}}",
         {"\"abcdef\"", "\"abcdx\""},
         {"\"abcd\"", "\"abcde\"", "\"a.bcdef\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"\\\\d$\",\"minLength\":3}",
         {"\"ab1\"", "\"\xf0\x9f\x98\x80\\ud83d\\ude007\"", "\"abcdefgh1\""},
         {"\"a1\"", "\"abcd\""}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":5},"
         "\"minContains\":2,\"maxContains\":3,\"maxItems\":4}",
         {"[5,6]", "[1,7,2,8]", "[9,9,9,1]"},
         {"[5]", "[]", "[5,5,5,5]", "[1,2,3]", "[1,1,5,5,1]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"enum\":[1,2,3]},"
         "\"contains\":{\"const\":3},\"maxItems\":2}",
         {"[1,3]"},
         {"[1]", "[3,1]", "[1,2]", "[1,3,3]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"contains\":false,\"minContains\":0}",
         {"[]", "[null]"},
         {"[1]"}},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"items\":"
         "{\"enum\":[1,2]},\"contains\":{\"const\":2},\"minContains\":2}",
         {"[2]", "[1,2,1]"},
         {"[1]", "[]"}},
        {"{\"$ref\":\"#item\",\"$defs\":{\"a\":{\"$anchor\":\"item\",\"type\":\"null\"},"
         "\"b\":{\"const\":{\"$anchor\":\"item\"}}}}",
         {"null"},
         {"1", "{}"}},
        {"{\"$id\":\"https://a.b/c/"
         "root.json\",\"properties\":{\"p\":{\"$ref\":\"leaf.json\"},\"q\":"
         "{\"$ref\":\"https://a.b/c/root.json#/$defs/l\"},\"r\":{\"$ref\":\"leaf.json#t\"}},"
         "\"additionalProperties\":false,\"$defs\":{\"l\":{\"$id\":\"leaf.json\",\"type\":"
         "\"array\",\"maxItems\":0,\"$defs\":{\"z\":{\"$anchor\":\"t\",\"type\":\"null\"}}}}}",
         {"{\"p\":[]}", "{\"q\":[]}", "{\"r\":null}"},
         {"{\"p\":1}", "{\"r\":[]}"}},
        {"{\"$id\":\"#top\",\"type\":\"array\",\"items\":{\"$ref\":\"#top\"}}",
         {"[]", "[[],[[]]]"},
         {"[1]"}},
        {"{\"$dynamicAnchor\":\"node\",\"type\":\"object\",\"properties\":{\"next\":"
         "{\"$dynamicRef\":\"#node\"}},\"unevaluatedProperties\":false}",
         {"{}", "{\"next\":{\"next\":{}}}"},
         {"{\"other\":1}", "{\"next\":1}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"null\"}}},{\"$ref\":\"#/$defs/"
         "b\"}],\"type\":"
         "\"object\",\"unevaluatedProperties\":false,\"$defs\":{\"b\":{\"properties\":{\"b\":{}}}}"
         "}",
         {"{}", "{\"a\":null,\"b\":1}"},
         {"{\"c\":1}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"k\":{}},\"anyOf\":[{\"properties\":{\"a\":{"
         "\"const\":"
         "1}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"const\":2}},\"required\":[\"b\"]}],"
         "\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1}", "{\"k\":0,\"a\":1,\"b\":2}", "{\"b\":2,\"a\":null}", "{\"a\":1,\"c\":null}"},
         {"{}", "{\"a\":1,\"b\":3}", "{\"a\":1,\"c\":1}", "{\"a\":null}"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"contains\":{\"const\":2},"
         "\"unevaluatedItems\":false}",
         {"[1,2]", "[1,2,2]"},
         {"[1]", "[1,3]", "[2,2]"}},
        {"{\"type\":\"object\",\"allOf\":[{\"additionalProperties\":true},{\"properties\":{\"a\":"
         "{}}}],\"unevaluatedProperties\":false}",
         {"{\"z\":1}"},
         {"[]"}},
        {"{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/t\"}},"
         "\"additionalProperties\":false}},\"allOf\":[{\"$ref\":\"#/$defs/t\"}],\"enum\":[{},"
         "{\"n\":{\"n\":{}}},{\"n\":{\"m\":1}},{\"m\":1},1]}",
         {"{}", "{\"n\":{\"n\":{}}}"},
         {"{\"m\":1}", "{\"n\":{}}", "{\"n\":{\"m\":1}}", "1"}},
        {"{\"type\":\"string\",\"allOf\":[{\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b\"},{"
         "\"pattern\":\"d\"}]},{\"allOf\":[{\"pattern\":\"c$\"},{\"pattern\":\"^....$\"},{"
         "\"pattern\":\"[^x]..$\"}]}]}",
         {"\"abdc\"", "\"adbc\""},
         {"\"xbdc\"", "\"axdc\"", "\"abxc\"", "\"abdx\"", "\"abdcc\"", "\"axbdc\""}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"minLength\":2}}}",
         {"{\"a\":1}", "{\"bc\":1,\"\":2}"},
         {"{}", "{\"ab\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"maxLength\":1}}}",
         {"{\"ab\":1}", "{\"a\":1,\"bcd\":2}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"enum\":[\"a\",1]}}}",
         {"{\"b\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"const\":\"a\"}}}",
         {"{\"b\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"type\":\"integer\"}}}",
         {"{\"b\":1}"},
         {"{}"}},
        {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"allOf\":[{\"pattern\":\"^a\"},{"
         "\"maxLength\":2}]}}}",
         {"{\"b\":1}", "{\"abc\":1}"},
         {"{}", "{\"ab\":1}"}},
        {"{\"enum\":[123456789012345678901234567890,\"a\",1],\"allOf\":[{\"enum\":[\"a\","
         "123456789012345678901234567891,1.0,123456789012345678901234567890]}]}",
         {"123456789012345678901234567890", "\"a\"", "1"},
         {"123456789012345678901234567891", "1.0"}},
        {"{\"type\":\"string\",\"pattern\":\"^[^a]$\"}",
         {"\"\xf4\x8f\xbf\xbf\"", "\"\\udbff\\udfff\"", "\"\\ud7ff\"", "\"\\ue000\"", "\"\x7f\""},
         {"\"a\"", "\"bc", "\"\\ud800\"", "\"\""}},
        {"true", {"{}", "[1]", "\"x\"", "null"}, {"", "nul"}},
    };
    static const char *const refused[][2] = {
        {"{\"not\":{\"prefixItems\":[{}]}}", "#: not: of prefixItems is not served"},
        {"{\"not\":{\"propertyNames\":{\"format\":\"date\"}}}",
         "#: not: of this propertyNames is not served"},
        {"{\"type\":\"number\",\"minimum\":1e-99999999999999999999}",
         "#: minimum: has more digits than are served"},
        {"{\"type\":\"number\",\"minimum\":1e-100001}",
         "#: minimum: has more digits than are served"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"maxProperties\":64,\"required\":["
         "\"a\"]}",
         "#: maxProperties: of so many is not served"},
        {"{\"not\":{\"contains\":{},\"minContains\":2000000000}}", "#: minContains: is too large"},
        {"{\"properties\":{\"a\":{\"propertyNames\":{\"format\":\"date\"}}}}",
         "#: a: propertyNames: is served for patterns, lengths and texts"},
        {"{\"opt4gptq:some\":[]}", "keyword: names with opt4gptq: are this program's own"},
        {"{\"properties\":{\"a\":{\"$anchor\":\"x\"},\"b\":{\"$anchor\":\"x\"},\"c\":{\"$ref\":\"#"
         "x\"}}}",
         "#: c: $ref: '#x' means more than one part"},
        {"{\"$ref\":\"#x\"}", "#: $ref: '#x' is not there"},
        {"{\"$dynamicRef\":\"#x\",\"$defs\":{\"a\":{\"$dynamicAnchor\":\"x\"},\"b\":{\"$id\":\"b\","
         "\"$dynamicAnchor\":\"x\"}}}",
         "#: $dynamicRef: '#x' means more than one part"},
        {"{\"$dynamicRef\":\"#x\",\"$defs\":{\"a\":{\"$dynamicAnchor\":\"x\"},\"b\":{\"$id\":\"b\"}"
         "}}",
         "#: $dynamicRef: '#x' means more than one part"},
        {"{\"if\":{\"required\":[\"a\"]},\"then\":{},\"unevaluatedProperties\":false}",
         "#: unevaluatedProperties: beside if is not served"},
        {"{\"oneOf\":[{\"prefixItems\":[{}]},{\"minItems\":3}],\"unevaluatedItems\":false}",
         "#: unevaluatedItems: beside a oneOf whose cases may meet is not served"},
        {"{\"contains\":{\"const\":1},\"minContains\":-1}",
         "#: minContains: is not a number of 0 or more"},
        {"{\"contains\":{\"const\":1},\"maxContains\":30000}",
         "#: contains: so many, beside such bounds of items, are not served"},
        {"{\"$ref\":\"other.json\"}", "#: $ref: 'other.json' is not in this schema"},
        {"{\"type\":\"foo\"}", "#: type: 'foo' is no type of JSON"},
        {"false", "allows no text at all"},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}",
         "#: pattern: character 2: look-ahead, look-behind and flags are not served"},
        {"{\"multipleOf\":0}", "#: multipleOf: is not a number above 0"},
        {"{\"type\":\"string\",\"format\":\"email\",\"pattern\":\"a.{14}$\",\"maxLength\":60}",
         "#: pattern, format, maxLength: these together are more than 10000 cases"},
        {"{\"type\":\"string\",\"pattern\":\"^(?:aa)*$\",\"minLength\":3,\"maxLength\":3}",
         "allows no text at all"},
        {"{\"maximum\":1e400}", "#: maximum: has more digits than are served"},
        {"{\"exclusiveMinimum\":1e-400}", "#: exclusiveMinimum: has more digits than are served"},
        {"{\"enum\":[1,[1e400]]}", "#: enum: a number has more digits than are served"},
        {"{\"allOf\":[{\"maximum\":1e400},{\"maximum\":1}]}",
         "#: maximum: is not a number, or has more digits than are served"},
        {"{\"maxLength\":18446744073709551615}", "#: maxLength: more than 100,000 is not served"},
        {"{\"multipleOf\":123456789012345678901}",
         "#: multipleOf: more than 5,000 cases are not served"},
        {"{\"const\":{\"opt4gptq:number\":\"1\"}}",
         "keyword: names with opt4gptq: are this program's own"},
        {"{", NULL},
        {"[]", "#: a schema is an object, true or false"},
    };
    struct vocab *v = byte_vocab();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g;
        struct err e = {0};
        size_t at;
        if (open_schema(&g, v, cases[i].schema, 0, &e))
            print_message("%s: %s\n", cases[i].schema, e.msg);
        assert_non_null(g);
        for (int k = 0; k < 5 && cases[i].good[k]; k++) {
            if (!is_document(g, cases[i].good[k], &at))
                print_message("%s of %s: at %zu\n", cases[i].good[k], cases[i].schema, at);
            assert_true(is_document(g, cases[i].good[k], &at));
            check_masks(v, g, cases[i].good[k]);
        }
        for (int k = 0; k < 6 && cases[i].bad[k]; k++) {
            if (is_document(g, cases[i].bad[k], &at))
                print_message("%s is taken by %s\n", cases[i].bad[k], cases[i].schema);
            assert_false(is_document(g, cases[i].bad[k], &at));
        }
        grammar_close(g);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct grammar *g;
        struct err e = {0};
        assert_int_equal(open_schema(&g, v, refused[i][0], 0, &e), -1);
        if (refused[i][1]) assert_string_equal(e.msg, refused[i][1]);
    }
    vocab_close(v);
}

static void in_the_order_of_the_schema(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},"
        "\"b\":{\"type\":\"null\"},\"c\":{\"type\":\"null\"}},\"required\":[\"b\"]}";
    static const char *const good[] = {"{\"b\":null}", "{\"a\":null,\"b\":null}",
                                       "{\"b\":null,\"c\":null,\"d\":1}"},
                             *const bad[] = {"{\"b\":null,\"a\":null}", "{}",
                                             "{\"a\":null,\"c\":null}", "{\"d\":1,\"b\":null}"};
    struct vocab *v = byte_vocab();
    struct grammar *g;
    struct err e;
    size_t at;
    (void)state;
    assert_int_equal(open_schema(&g, v, schema, 1, &e), 0);
    for (int i = 0; i < 3; i++) assert_true(is_document(g, good[i], &at));
    for (int i = 0; i < 4; i++) assert_false(is_document(g, bad[i], &at));
    grammar_close(g);
    vocab_close(v);
}

/* White space as writers of JSON have it, by kind; members in the schema's order where nothing else
 * is asked for, in any order where that order is not served. */
static void spellings(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"},\"b\":{\"const\":{\"x\":["
        "0,{}]"
        "}},\"c\":{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true},\"d\":{"
        "\"type\":"
        "\"array\",\"prefixItems\":[{},{}],\"maxItems\":3},\"e\":{\"contains\":{\"const\":1}}}}";
    static const struct {
        enum json_space space;
        const char *text;
        int ok;
    } cases[] = {
        {JSON_SPACE_ONE,
         "{\"a\": [1, {\"k\": 2, \"l\": []}], \"b\": {\"x\": [0, {}]}, \"c\": [2, 1]}", 1},
        {JSON_SPACE_ONE, "{\"d\": [1, 2, 3], \"e\": [0, 1]}", 1},
        {JSON_SPACE_ONE, "{\"d\": [], \"e\": [1]}", 1},
        {JSON_SPACE_ONE, "{\"a\":[]}", 0},
        {JSON_SPACE_ONE, "{\"a\": [1,2]}", 0},
        {JSON_SPACE_ONE, "{\"a\": [],\"b\"", 0},
        {JSON_SPACE_ONE, "{ \"a\"", 0},
        {JSON_SPACE_ONE, "{\"a\":  []}", 0},
        {JSON_SPACE_ONE, "{\"a\": [] }", 0},
        {JSON_SPACE_ONE, "{\"b\": {\"x\": [0, {}]}, \"a\"", 0},
        {JSON_SPACE_NONE, "{\"a\":[1,{\"k\":2}],\"b\":{\"x\":[0,{}]},\"c\":[2,1],\"d\":[1,2,3]}",
         1},
        {JSON_SPACE_NONE, "{\"a\": []}", 0},
        {JSON_SPACE_ANY, "{\"a\":[1,{\"k\": 2}], \"b\":{\"x\":[0,{}]},\"c\":[2, 1]}", 1},
        {JSON_SPACE_ANY,
         "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"c\": [ 1 ],\n\t\"e\": [\r\n1 ]\n}", 1},
        {JSON_SPACE_ANY, "{ \"b\": { \"x\": [ 0, {} ] }, \"d\": [\n 1,\n 2,\n 3\n] }", 1},
        {JSON_SPACE_ANY, "{\"a\" ", 0},
        {JSON_SPACE_ANY, "{\"a\":\n", 0},
        {JSON_SPACE_ANY, "{\"a\": [] ,", 0},
        {JSON_SPACE_ANY, "{\n\n", 0},
        {JSON_SPACE_ANY, "{\n \t", 0},
        {JSON_SPACE_ANY, "{\"a\": [],  ", 0},
    };
    struct vocab *v = byte_vocab();
    struct grammar *g;
    struct err e;
    size_t at;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct grammar_spec spec = {.kind = GRAMMAR_SCHEMA,
                                          .text = schema,
                                          .bytes = strlen(schema),
                                          .space = cases[i].space};
        assert_int_equal(grammar_open(&g, &spec, v, &e), 0);
        int ok = is_document(g, cases[i].text, &at);
        if (ok != cases[i].ok || (!ok && at + 1 < strlen(cases[i].text) - 4))
            print_message("%s: %d, %d bytes\n", cases[i].text, ok, (int)at);
        assert_int_equal(ok, cases[i].ok);
        if (ok) check_masks(v, g, cases[i].text);
        grammar_close(g);
    }
    static const char counted[] = "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}}"
                                  ",\"additionalProperties\":false,"
                                  "\"minProperties\":2}";
    struct grammar_spec spec = {.kind = GRAMMAR_SCHEMA, .text = counted, .bytes = strlen(counted)};
    assert_int_equal(grammar_open(&g, &spec, v, &e), 0);
    assert_true(is_document(g, "{\"c\": 1, \"a\": 2}", &at));
    grammar_close(g);
    spec.order = JSON_ORDER_STRICT;
    assert_int_equal(grammar_open(&g, &spec, v, &e), -1);
    assert_non_null(strstr(e.msg, "minProperties: is not served in the schema's order"));
    spec = (struct grammar_spec){.kind = GRAMMAR_SCHEMA,
                                 .text = "{\"type\":\"object\"}",
                                 .bytes = 17,
                                 .may_begin_with_space = 1};
    assert_int_equal(grammar_open(&g, &spec, v, &e), 0);
    assert_true(is_document(g, " {}", &at) && is_document(g, "{\"a\": 1}", &at));
    assert_false(is_document(g, "  {}", &at));
    grammar_close(g);
    vocab_close(v);
}

/* 1: an instance whose text has what is read otherwise here than by the judge of the instances:
 * numbers with exponents. */
static int is_spelled_otherwise(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((*p == 'e' || *p == 'E') && p > text && strchr("0123456789", p[-1]) &&
            strchr("+-0123456789", p[1]))
            return 1;
    return 0;
}

static void of_the_wild(void **state)
{
    static char line[4 << 20];
    gzFile f = gzopen(SHARED_DIR "/data/json_schema/schemas.jsonl.gz", "rb");
    int n = 0, served = 0, n_valid = 0, n_invalid = 0, lost = 0, taken = 0;
    int verbose = getenv("SCHEMAS_VERBOSE") != NULL;
    (void)state;
    if (!f) skip();
    struct vocab *v = byte_vocab();
    while (gzgets(f, line, sizeof line)) {
        struct err e = {0};
        struct grammar *g;
        json_t *j = json_read(line, strlen(line), JSON_ALLOW_NUL, NULL, &e), *test;
        if (!j) print_message("%.80s: %s\n", line, e.msg);
        if (!j) continue; /* what jansson cannot hold */
        char *text = json_dumps(json_object_get(j, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
        const char *name = json_string_value(json_object_get(j, "name"));
        size_t i, at;
        n++;
        if (open_schema(&g, v, text, 0, &e)) {
            if (verbose) print_message("refused %s: %s\n", name, e.msg);
        } else {
            served++;
            json_array_foreach (json_object_get(j, "tests"), i, test) {
                int valid = json_is_true(json_object_get(test, "valid"));
                char *data = json_dumps(json_object_get(test, "data"),
                                        JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
                int ok = is_document(g, data, &at);
                if (is_spelled_otherwise(data)) ok = valid;
                if (ok && valid && n % 8 == 0 && strlen(data) < 600) check_masks(v, g, data);
                n_valid += valid;
                n_invalid += !valid;
                lost += valid && !ok;
                taken += !valid && ok;
                if (verbose && valid != ok)
                    print_message("%s %s: at %zu of %.600s\n", valid ? "lost" : "taken", name, at,
                                  data);
                free(data);
            }
            grammar_close(g);
        }
        free(text);
        json_decref(j);
    }
    gzclose(f);
    vocab_close(v);
    print_message(
        "%d of %d schemas served; %d of %d valid instances lost, %d of %d invalid taken\n", served,
        n, lost, n_valid, taken, n_invalid);
    assert_true(10 * served >= 9 * n);
    assert_int_equal(lost, 0);
    assert_int_equal(taken, 0);
}

static int is_string(struct grammar *g, const char *content)
{
    char text[128];
    size_t at;
    snprintf(text, sizeof text, "\"%s\"", content);
    return is_document(g, text, &at);
}

static void formats_by_hand(void **state)
{
    struct vocab *v = byte_vocab();
    (void)state;
    for (int i = 0; i < N_FORMATS; i++) {
        struct grammar *g;
        struct err e;
        char schema[80];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"format\":\"%s\"}", formats[i].name);
        if (open_schema(&g, v, schema, 0, &e)) fail_msg("%s: %s", formats[i].name, e.msg);
        for (int k = 0; k < 10 && formats[i].is[k]; k++)
            if (!is_string(g, formats[i].is[k]))
                fail_msg("%s: %s is refused", formats[i].name, formats[i].is[k]);
        for (int k = 0; k < 10 && formats[i].is_not[k]; k++)
            if (is_string(g, formats[i].is_not[k]))
                fail_msg("%s: %s is taken", formats[i].name, formats[i].is_not[k]);
        grammar_close(g);
    }
    vocab_close(v);
}

/* Numbers between two bounds, in thousandths, against each decimal of three places. */
static void check_between(const struct vocab *v, int low, int high, int opens)
{
    static const char digits[] = "0259";
    const char *by_low = opens & 1 ? "exclusiveMinimum" : "minimum",
               *by_high = opens & 2 ? "exclusiveMaximum" : "maximum";
    char schema[200], text[16];
    struct grammar *g;
    struct err e = {0};
    size_t at;
    snprintf(schema, sizeof schema, "{\"type\":\"number\",\"%s\":%g,\"%s\":%g}", by_low,
             low / 1000.0, by_high, high / 1000.0);
    if (open_schema(&g, v, schema, 0, &e)) {
        assert_true(low == high && opens);
        return;
    }
    for (int i = 0; i < 2 * 3 * 85; i++) {
        int is_negative = i % 2, whole = i / 2 % 3, k = i / 6, places = 0;
        for (int n = 1; k >= n; k -= n, n *= 4) places++;
        int x = whole * 1000, n = snprintf(text, sizeof text, "%s%d%s", is_negative ? "-" : "",
                                           whole, places ? "." : "");
        for (int p = 0, each = 100; p < places; p++, each /= 10, k /= 4) {
            text[n++] = digits[k % 4];
            x += each * (digits[k % 4] - '0');
        }
        text[n] = 0;
        if (is_negative) x = -x;
        int fits = x >= low + (opens & 1) && x <= high - (opens >> 1);
        if (is_document(g, text, &at) != fits) fail_msg("%s: %s", schema, text);
    }
    grammar_close(g);
}

static void bounds_against_decimals(void **state)
{
    static const int bounds[] = {-1500, -1000, -250, 0, 200, 1500, 1550, 2000, 2255};
    enum { N = sizeof bounds / sizeof *bounds };
    struct vocab *v = byte_vocab();
    (void)state;
    for (int i = 0; i < N; i++)
        for (int k = i; k < N; k++)
            for (int opens = 0; opens < 4; opens++) check_between(v, bounds[i], bounds[k], opens);
    vocab_close(v);
}

/* Schemas of many parts are compiled or refused in a few seconds of processor time. */
static void schemas_of_many_parts(void **state)
{
    enum { PARTS = 15000 };
    struct vocab *v = byte_vocab();
    char *text = malloc(PARTS * 120), *p = text;
    struct err e = {0};
    struct grammar *g;
    clock_t began = clock();
    (void)state;
    assert_non_null(text);
    p += sprintf(p, "{\"allOf\":[true");
    for (int i = 0; i < PARTS; i++)
        p += sprintf(p, ",{\"properties\":{\"a%d\":{\"type\":\"null\"}}}", i);
    sprintf(p, "]}");
    open_schema(&g, v, text, 0, &e);
    grammar_close(g);
    p = text + sprintf(text, "{\"allOf\":[{\"enum\":[-1");
    for (int i = 0; i < PARTS; i++) p += sprintf(p, ",%d", i);
    p += sprintf(p, "]},{\"enum\":[-2");
    for (int i = PARTS; i; i--) p += sprintf(p, ",%d", i);
    sprintf(p, "]}]}");
    open_schema(&g, v, text, 0, &e);
    grammar_close(g);
    p = text + sprintf(text, "{\"type\":\"object\",\"properties\":{\"a\":{}");
    for (int i = 0; i < PARTS; i++) p += sprintf(p, ",\"a%d\":{}", i);
    p += sprintf(p, "},\"required\":[\"a\"");
    for (int i = 0; i < PARTS; i++) p += sprintf(p, ",\"a%d\"", i);
    sprintf(p, "]}");
    open_schema(&g, v, text, 1, &e);
    grammar_close(g);
    assert_true(clock() - began < 15 * CLOCKS_PER_SEC);
    free(text);
    vocab_close(v);
}

/* Each of the characters that have a short escape may be spelled by it where it alone may stand,
 * and by no other one's. */
static void short_escapes_spell_their_own(void **state)
{
    static const char is[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    struct vocab *v = byte_vocab();
    (void)state;
    for (int i = 0; is[i]; i++) {
        char schema[64], text[8];
        struct grammar *g;
        struct err e;
        size_t at;
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"^[\\\\u%04x]$\"}",
                 is[i]);
        if (open_schema(&g, v, schema, 0, &e)) fail_msg("%s: %s", schema, e.msg);
        for (int k = 0; letters[k]; k++) {
            snprintf(text, sizeof text, "\"\\%c\"", letters[k]);
            assert_int_equal(is_document(g, text, &at), k == i);
        }
        snprintf(text, sizeof text, "\"%c\"", is[i]);
        assert_int_equal(is_document(g, text, &at), is[i] == '/');
        grammar_close(g);
    }
    vocab_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(short_escapes_spell_their_own),
        cmocka_unit_test(in_the_order_of_the_schema),
        cmocka_unit_test(spellings),
        cmocka_unit_test(bounds_against_decimals),
        cmocka_unit_test(formats_by_hand),
        cmocka_unit_test(schemas_of_many_parts),
        cmocka_unit_test(of_the_wild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
