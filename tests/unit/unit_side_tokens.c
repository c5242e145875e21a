/* unit_side_tokens.c: added tokens and settings that stand beside the tokenizer's own file. The ids
 * and texts are those of transformers 4.57.3 and 5.24 with the same files; where both differ, a
 * comment says whose. */
#include "core/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* <s> is special, <q> is not. */
static const char json[] =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":8,\"content\":\"<q>\",\"special\":false,\"normalized\":true}],"
    "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"
    "\"ab\":2,\" \":3,\"<\":4,\"x\":5,\">\":6},\"merges\":[\"a b\"]}}";

static size_t put(char *p, const void *s, size_t n) { return memcpy(p, s, n), n; }

static size_t put_piece(char *p, const char *s, float score, int type)
{
    size_t n = strlen(s);
    const char head[] = {10, (char)(n + 9), 10, (char)n}, tail[] = {24, (char)type};
    size_t at = put(p, head, sizeof head);
    at += put(p + at, s, n);
    at += put(p + at, "\x15", 1);
    at += put(p + at, &score, 4);
    return at + put(p + at, tail, sizeof tail);
}

/* 14 pieces, of which <t> is user-defined; a prefix of a space, no other normalization. */
static size_t make_spm(char *p)
{
    static const char *const pieces[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "<t>",
                                         "\xe2\x96\x81"
                                         "a",
                                         "\xe2\x96\x81"
                                         "b",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "<",
                                         ">",
                                         "t",
                                         "x",
                                         "|"};
    static const char settings[] = {0x12, 2, 0x18, 2, 0x1a, 4, 0x18, 1, 0x20, 0};
    size_t at = 0;
    for (int i = 0; i < 14; i++)
        at += put_piece(p + at, pieces[i], (float)-i, i == 0 ? 2 : i < 3 ? 3 : i == 3 ? 4 : 1);
    return at + put(p + at, settings, sizeof settings);
}

#define TOKEN(text, more) "{\"content\":\"" text "\"," more "}"
#define PLAIN "\"lstrip\":false,\"rstrip\":false,\"single_word\":false,\"normalized\":false"
#define ALL "a <x>b<y> <q>a<z>"

struct example {
    const char *config, *map, *added, *text;
    int ids[16]; /* ends with -1 */
    const char *shown;
    int eos;
};

static const struct example of_json[] = {
    {NULL, NULL, NULL, ALL, {0, 3, 4, 5, 6, 1, 4, 6, 3, 8, 0, 4, 6, -1}, "a <x>b<> <q>a<>", -1},
    /* by their numbers' order, behind those of the tokenizer */
    {"{\"added_tokens_decoder\":{\"10\":" TOKEN("<x>", PLAIN ",\"special\":true") ",\"9\":" TOKEN(
         "<y>", "\"rstrip\":true,\"normalized\":false,\"special\":false") "}}",
     NULL,
     NULL,
     ALL,
     {0, 3, 10, 1, 9, 8, 0, 4, 6, -1},
     "a b<y><q>a<>",
     -1},
    /* settings of a token that the tokenizer has */
    {"{\"added_tokens_decoder\":{\"8\":" TOKEN("<q>", "\"lstrip\":true,\"special\":true") "}}",
     NULL,
     NULL,
     ALL,
     {0, 3, 4, 5, 6, 1, 4, 6, 8, 0, 4, 6, -1},
     "a <x>b<>a<>",
     -1},
    /* added_tokens_decoder hides the map; a special token remains one; a named one becomes one */
    {"{\"added_tokens_decoder\":{\"7\":" TOKEN("<s>", PLAIN ",\"special\":false") ",\"8\":" TOKEN(
         "<q>", PLAIN ",\"special\":false") "},\"eos_token\":\"<q>\"}",
     "{\"eos_token\":\"<z>\",\"additional_special_tokens\":[\"<x>\"]}",
     "{\"<y>\":9}",
     ALL "<s>",
     {0, 3, 4, 5, 6, 1, 4, 6, 3, 8, 0, 4, 6, 7, -1},
     "a <x>b<> a<>",
     8},
    /* 4.57: 5.24 leaves the map's list out beside another */
    {"{\"additional_special_tokens\":[\"<x>\",{\"__type\":\"AddedToken\",\"content\":\"<y>\","
     "\"rstrip\":true,\"normalized\":true}]}",
     "{\"additional_special_tokens\":[\"<z>\"]}",
     NULL,
     ALL,
     {0, 3, 9, 1, 10, 8, 0, 11, -1},
     "a b<q>a",
     -1},
    {"{\"extra_special_tokens\":{\"x_token\":\"<x>\",\"y_token\":\"<y>\"}}",
     NULL,
     NULL,
     ALL,
     {0, 3, 9, 1, 10, 3, 8, 0, 4, 6, -1},
     "a b <q>a<>",
     -1},
    {"{\"extra_special_tokens\":[\"<x>\",\"<y>\"],\"additional_special_tokens\":[\"<z>\"]}",
     NULL,
     NULL,
     ALL,
     {0, 3, 9, 1, 10, 3, 8, 0, 4, 6, -1},
     "a b <q>a<>",
     -1},
    {"{\"eos_token\":{\"content\":\"<x>\",\"lstrip\":true,\"normalized\":true},\"pad_token\":"
     "\"<y>\",\"unk_token\":\"<q>\"}",
     NULL,
     NULL,
     ALL,
     {0, 9, 1, 10, 3, 8, 0, 4, 6, -1},
     "ab a<>",
     9},
    {"{\"eos_token\":\"<x>\",\"bos_token\":\"<s>\"}",
     "{\"eos_token\":{\"content\":\"<z>\",\"rstrip\":true,\"normalized\":false}}",
     NULL,
     ALL,
     {0, 3, 4, 5, 6, 1, 4, 6, 3, 8, 0, 9, -1},
     "a <x>b<> <q>a",
     9},
    {"{\"eos_token\":\"<y>\"}",
     NULL,
     "{\"<x>\":10,\"<y>\":9,\"<z>\":11}",
     ALL,
     {0, 3, 10, 1, 9, 3, 8, 0, 11, -1},
     "a <x>b <q>a<z>",
     9},
    {"{\"eos_token\":\"ab\"}", NULL, NULL, "abab b", {2, 2, 3, 1, -1}, " b", 2},
};

static const struct example of_spm[] = {
    {"{\"legacy\":false}",
     NULL,
     NULL,
     "a<t>b </s>a<x>",
     {1, 4, 3, 8, 6, 2, 7, 9, 12, 10, -1},
     "a<t>b a<x>",
     2},
    /* SentencePiece's and the slow tokenizer's: a user-defined piece has no prefix behind it */
    {"{\"legacy\":true}",
     NULL,
     NULL,
     "a<t>b </s>a<x>",
     {1, 4, 3, 8, 6, 2, 4, 9, 12, 10, -1},
     "a<t>b  a<x>",
     2},
    {NULL, NULL, NULL, "<t>b", {1, 6, 3, 8, -1}, "<t>b", 2},
    {"{\"legacy\":0,\"add_prefix_space\":0}",
     NULL,
     NULL,
     "a<t>b </s>a",
     {1, 7, 3, 8, 6, 2, 7, -1},
     "a<t>b a",
     2},
    {"{\"legacy\":false}", NULL, "{\"<x>\":14}", "a<x>b a", {1, 4, 14, 8, 4, -1}, "a<x>b a", 2},
    /* 5.24's and the slow tokenizer's */
    {"{\"legacy\":true}", NULL, "{\"<x>\":14}", "a<x>b a", {1, 4, 14, 5, 4, -1}, "a<x> b a", 2},
    {"{\"legacy\":false,\"eos_token\":\"<x>\"}", NULL, NULL, "b<x>a", {1, 5, 14, 7, -1}, "ba", 14},
    {"{\"legacy\":false,\"added_tokens_decoder\":{\"15\":" TOKEN(
         "<x>", PLAIN ",\"special\":true") ",\"14\":" TOKEN("<|", PLAIN) "}}",
     NULL,
     NULL,
     "b<x>a<|",
     {1, 5, 15, 7, 14, -1},
     "ba<|",
     2},
};

static int open_example(struct tokenizer **t, const struct example *x, const char *spm,
                        size_t spm_bytes, struct err *e)
{
    struct tok_source s = {.json = spm ? NULL : json,
                           .json_bytes = sizeof json - 1,
                           .spm = spm,
                           .spm_bytes = spm_bytes,
                           .config = x->config,
                           .special_map = x->map,
                           .added = x->added};
    if (x->config) s.config_bytes = strlen(x->config);
    if (x->map) s.special_map_bytes = strlen(x->map);
    if (x->added) s.added_bytes = strlen(x->added);
    *e = (struct err){0};
    return tok_open(t, &s, e);
}

static void check(const struct example *x, const char *spm, size_t spm_bytes, size_t number)
{
    struct tokenizer *t = NULL;
    struct tok_ids ids = {0};
    struct err e;
    char *text;
    size_t n = 0, bytes;
    const char *kind = spm ? "spm" : "json";
    if (open_example(&t, x, spm, spm_bytes, &e)) fail_msg("%s %zu: %s", kind, number, e.msg);
    assert_int_equal(tok_encode(t, x->text, strlen(x->text), 1, &ids, &e), 0);
    while (x->ids[n] >= 0) n++;
    for (size_t i = 0; i < ids.n || i < n; i++)
        if (i >= ids.n || i >= n || ids.id[i] != x->ids[i])
            fail_msg("%s %zu: id %zu is %d of %zu, not %d of %zu", kind, number, i,
                     i < ids.n ? ids.id[i] : -1, ids.n, x->ids[i], n);
    assert_int_equal(tok_decode(t, ids.id, ids.n, 1, &text, &bytes, &e), 0);
    if (strcmp(text, x->shown)) fail_msg("%s %zu: '%s'", kind, number, text);
    if (tok_eos(t) != x->eos) fail_msg("%s %zu: eos %d", kind, number, tok_eos(t));
    free(text);
    tok_ids_free(&ids);
    tok_close(t);
}

static void tokens_beside_tokenizer_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof of_json / sizeof *of_json; i++) check(&of_json[i], NULL, 0, i);
}

static void tokens_beside_tokenizer_model(void **state)
{
    (void)state;
    char spm[600];
    size_t n = make_spm(spm);
    for (size_t i = 0; i < sizeof of_spm / sizeof *of_spm; i++) check(&of_spm[i], spm, n, i);
}

/* The end token that a class of transformers has where the files name none. */
static void classes_have_end_tokens(void **state)
{
    (void)state;
    static const struct example named = {.config = "{\"tokenizer_class\":\"LlamaTokenizerFast\"}"},
                                other = {.config = "{\"tokenizer_class\":\"PreTrainedTokenizer\"}"};
    struct tok_source s = {
        .json = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"</s>\":1},\"merges\":[]}}"};
    struct tokenizer *t = NULL;
    struct err e = {0};
    s.json_bytes = strlen(s.json);
    for (int i = 0; i < 2; i++) {
        s.config = i ? other.config : named.config, s.config_bytes = strlen(s.config);
        assert_int_equal(tok_open(&t, &s, &e), 0);
        assert_int_equal(tok_eos(t), i ? -1 : 1);
        tok_close(t);
    }
}

static void wrong_files_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        struct example x;
        const char *says;
    } bad[] = {
        {{.config = "{\"legacy\":\"false\"}"}, "legacy is neither true nor false"},
        {{.config = "{\"add_bos_token\":\"yes\"}"}, "add_bos_token is neither"},
        {{.config = "{\"add_eos_token\":2}"}, "add_eos_token is neither"},
        {{.config = "{\"add_prefix_space\":[]}"}, "add_prefix_space is neither"},
        {{.config = "{\"added_tokens_decoder\":{\"14\":" TOKEN("<x>", "\"special\":\"true\"") "}}"},
         "special is neither"},
        {{.config = "{\"added_tokens_decoder\":{\"14\":" TOKEN("<x>", "\"lstrip\":\"no\"") "}}"},
         "lstrip is neither"},
        {{.config = "{\"added_tokens_decoder\":{\"14\":{\"special\":true}}}"}, "14 has no content"},
        {{.config = "{\"added_tokens_decoder\":{\"x\":" TOKEN("<x>", PLAIN) "}}"}, "no usable id"},
        {{.config = "{\"added_tokens_decoder\":[]}"}, "is not an object"},
        {{.config = "{\"additional_special_tokens\":[1]}"}, "additional_special_tokens holds"},
        {{.config = "{\"additional_special_tokens\":\"<x>\"}"}, "additional_special_tokens is no"},
        {{.config = "{\"eos_token\":2}"}, "eos_token holds what is no token"},
        {{.map = "{\"eos_token\":NaN}"}, "eos_token holds what is no token"},
        {{.config = "{\"pad_token\":{\"content\":-Infinity}}"}, "pad_token holds what is no token"},
        {{.map = "[]"}, "special_tokens_map.json: not an object"},
        {{.added = "{\"<x>\":\"14\"}"}, "added_tokens.json: '<x>' has no usable id"},
        {{.added = "{\"<x>\":-1}"}, "added_tokens.json: '<x>' has no usable id"},
    };
    char spm[600];
    size_t n = make_spm(spm);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tokenizer *t = NULL;
        struct err e;
        if (!open_example(&t, &bad[i].x, spm, n, &e)) fail_msg("%zu is read", i);
        if (!strstr(e.msg, bad[i].says)) fail_msg("%zu: %s", i, e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_beside_tokenizer_json),
        cmocka_unit_test(tokens_beside_tokenizer_model),
        cmocka_unit_test(classes_have_end_tokens),
        cmocka_unit_test(wrong_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
