/* unit_tokenizer.c: the tokenizer against the tokenizers library. tests/data/tokenizer-cases.json:
 * small tokenizers, one feature each, with the library's ids and texts.
 * tests/data/tokenizer-golden.txt: hashes over seeded random strings and wikitext for whole
 * tokenizers. scripts/golden-tokenizer writes both. Runs from the project root; without SHARED_DIR
 * its tests are skipped. */
#include "core/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <jansson.h>

#ifndef SHARED_DIR
#define SHARED_DIR "../shared"
#endif

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *p = malloc((size_t)size + 1);
    assert_non_null(p);
    *n = fread(p, 1, (size_t)size, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

static char *from_hex(const char *hex, size_t *n)
{
    *n = strlen(hex) / 2;
    char *p = malloc(*n + 1);
    assert_non_null(p);
    for (size_t i = 0; i < *n; i++) {
        unsigned v;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        p[i] = (char)v;
    }
    p[*n] = 0;
    return p;
}

static struct tokenizer *open_json(const char *json)
{
    struct tok_source src = {.json = json, .json_bytes = strlen(json)};
    struct tokenizer *t = NULL;
    struct err e = {0};
    if (tok_open(&t, &src, &e)) fail_msg("%s", e.msg);
    return t;
}

/* ---- small tokenizers ---- */

static void check_ids(const char *name, size_t row, const struct tok_ids *got, const json_t *want)
{
    int same = got->n == json_array_size(want);
    for (size_t i = 0; same && i < got->n; i++)
        same = got->id[i] == json_integer_value(json_array_get(want, i));
    if (same) return;
    print_error("%s, row %zu: got", name, row);
    for (size_t i = 0; i < got->n; i++) print_error(" %d", got->id[i]);
    fail_msg("other ids than the library");
}

static int is_utf8(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);
    json_decref(j);
    return j != NULL;
}

/* Decoding at once and streamed gives the text in hex; no streamed piece ends inside a character.
 */
static void check_text(const char *name, size_t row, const struct tokenizer *t,
                       const struct tok_ids *ids, int skip, const char *hex)
{
    struct err e = {0};
    struct tok_stream *s;
    size_t n, want_n, bytes, at = 0;
    char *want = from_hex(hex, &want_n), *text;
    const char *piece;
    assert_int_equal(tok_decode(t, ids->id, ids->n, skip, &text, &n, &e), 0);
    if (n != want_n || memcmp(text, want, n))
        fail_msg("%s, row %zu: decoded \"%s\", the library \"%s\"", name, row, text, want);
    assert_int_equal(tok_stream_open(&s, t, skip, &e), 0);
    for (size_t i = 0; i <= ids->n; i++) {
        assert_int_equal(i < ids->n ? tok_stream_push(s, ids->id[i], &piece, &bytes, &e)
                                    : tok_stream_flush(s, &piece, &bytes, &e),
                         0);
        if (at + bytes > n || memcmp(text + at, piece, bytes) || !is_utf8(piece, bytes))
            fail_msg("%s, row %zu: bad piece \"%.*s\"", name, row, (int)bytes, piece);
        at += bytes;
    }
    assert_int_equal(at, n);
    tok_stream_close(s);
    free(text);
    free(want);
}

static void test_cases(void **state)
{
    (void)state;
    json_error_t je;
    json_t *cases = json_load_file("tests/data/tokenizer-cases.json", JSON_ALLOW_NUL, &je), *c,
           *row;
    if (!cases) fail_msg("tests/data/tokenizer-cases.json: %s", je.text);
    size_t i, k, rows = 0;
    json_array_foreach (cases, i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        json_t *spm = json_object_get(c, "spm"), *json = json_object_get(c, "json");
        struct tok_source src = {.json = json_string_value(json),
                                 .json_bytes = json_string_length(json)};
        char *model = spm ? from_hex(json_string_value(spm), &src.spm_bytes) : NULL;
        struct tokenizer *t = NULL;
        struct err e = {0};
        src.spm = model;
        if (tok_open(&t, &src, &e)) fail_msg("%s: %s", name, e.msg);
        json_array_foreach (json_object_get(c, "rows"), k, row) {
            struct tok_ids ids = {0};
            size_t n;
            char *text = from_hex(json_string_value(json_object_get(row, "hex")), &n);
            assert_int_equal(tok_encode(t, text, n, 1, &ids, &e), 0);
            check_ids(name, k, &ids, json_object_get(row, "special"));
            ids.n = 0;
            assert_int_equal(tok_encode(t, text, n, 0, &ids, &e), 0);
            check_ids(name, k, &ids, json_object_get(row, "ids"));
            check_text(name, k, t, &ids, 0, json_string_value(json_object_get(row, "text")));
            check_text(name, k, t, &ids, 1, json_string_value(json_object_get(row, "plain")));
            tok_ids_free(&ids);
            free(text);
            rows++;
        }
        tok_close(t);
        free(model);
    }
    print_message("%zu small tokenizers, %zu texts\n", json_array_size(cases), rows);
    json_decref(cases);
}

/* ---- refusals ---- */

#define TEN "0123456789"
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *why;
    } bad[] = {
        {"", "tokenizer.json"},
        {"[]", "not an object"},
        {"{", "tokenizer.json"},
        {"{}", "BPE"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "Unigram is not supported"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece is not supported"},
        {"{\"normalizer\":{\"type\":\"BertNormalizer\"}," BPE "}",
         "normalizer: BertNormalizer is not supported"},
        {"{\"normalizer\":{\"type\":\"Precompiled\"}," BPE "}",
         "normalizer: Precompiled is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," BPE "}",
         "pre_tokenizer: Whitespace is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":"
         "\"Isolated\"}," BPE "}",
         "&&"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[bc]]\"},\"behavior\":"
         "\"Isolated\"}," BPE "}",
         "a set inside a set"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:graph:]]\"},"
         "\"behavior\":"
         "\"Isolated\"}," BPE "}",
         "a set inside a set"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
         "\"Isolated\"}," BPE "}",
         "pattern"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
         "\"Sideways\"}," BPE "}",
         "Sideways"},
        {"{\"decoder\":{\"type\":\"CTC\"}," BPE "}", "decoder: CTC is not supported"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"}," BPE "}",
         "post_processor: BertProcessing is not supported"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"x\"}}],\"special_tokens\":{\"x\":{"
         "\"ids\":[77]}}}," BPE "}",
         "77"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "twice"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", "twice"},
        {"{\"model\":{\"vocab\":{\"a\":4000000000},\"merges\":[]}}", "id of \"a\""},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "id of \"a\""},
        {"{\"model\":{\"vocab\":{\"" TEN TEN TEN TEN TEN TEN TEN "\":-1},\"merges\":[]}}",
         "id of \"" TEN TEN TEN TEN TEN TEN "\" is not an integer"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "outside the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "not two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "not a pair"},
        {"{\"model\":{\"vocab\":{\"a\":0,},\"merges\":[]}}", "damaged"},
        {"{\"model\":{\"vocab\":{\"\\ud800\":0},\"merges\":[]}}", "surrogate"},
        {"{\"model\":{\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", "dropout"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "end_of_word_suffix"},
        {"{\"added_tokens\":[{\"id\":1}]," BPE "}", "no content"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tok_source src = {.json = bad[i].json, .json_bytes = strlen(bad[i].json)};
        struct tokenizer *t = NULL;
        struct err e = {0};
        assert_int_equal(tok_open(&t, &src, &e), -1);
        if (!strstr(e.msg, bad[i].why))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].json, e.msg, bad[i].why);
    }
    struct tok_source none = {0};
    struct tokenizer *t = NULL;
    struct err e = {0};
    assert_int_equal(tok_open(&t, &none, &e), -1);
    struct tok_source unigram = {.spm = "\x0a\x03\x0a\x01"
                                        "a\x12\x02\x18\x01",
                                 .spm_bytes = 9};
    assert_int_equal(tok_open(&t, &unigram, &e), -1);
    assert_non_null(strstr(e.msg, "unigram"));
}

/* Every hexadecimal digit of an escape, in both cases. */
static void test_escapes(void **state)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0123\\u4567\":1,"
        "\"\\u89Ab\\uaBcD\":2,\"\\uCdEf\\u00fe\":3},\"merges\":[]}}";
    const struct tok_source src = {.json = json, .json_bytes = sizeof json - 1};
    struct tokenizer *t = NULL;
    struct err e = {0};
    (void)state;
    assert_int_equal(tok_open(&t, &src, &e), 0);
    assert_int_equal(tok_id_of(t, "\xc4\xa3\xe4\x95\xa7"), 1);
    assert_int_equal(tok_id_of(t, "\xe8\xa6\xab\xea\xaf\x8d"), 2);
    assert_int_equal(tok_id_of(t, "\xec\xb7\xaf\xc3\xbe"), 3);
    tok_close(t);
}

/* The first of the marks that compose is one of them. */
static void test_composes(void **state)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{"
        "\"\\u00c0\":0,\"\\u00c1\":1,\"\\u1ea6\":2},\"merges\":[]}}";
    const struct tok_source src = {.json = json, .json_bytes = sizeof json - 1};
    static const char text[] = "A\u0300A\u0301\u00c2\u0300";
    struct tok_ids ids = {0};
    struct tokenizer *t = NULL;
    struct err e = {0};
    (void)state;
    assert_int_equal(tok_open(&t, &src, &e), 0);
    assert_int_equal(tok_encode(t, text, sizeof text - 1, 0, &ids, &e), 0);
    assert_int_equal(ids.n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ids.id[i], i);
    tok_ids_free(&ids);
    tok_close(t);
}

/* Digits stand alone, wherever the piece begins that has them. */
static void test_digits_of_later_pieces(void **state)
{
    static const char json[] = "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
                               "\"type\":\"Split\",\"pattern\":{"
                               "\"String\":\"a\"},\"behavior\":\"Isolated\",\"invert\":false},{"
                               "\"type\":\"Digits\",\"individual_digits\":true}]},"
                               "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"1\":1,\"2\":2,"
                               "\"12\":3},\"merges\":[\"1 2\"]}}";
    const struct tok_source src = {.json = json, .json_bytes = sizeof json - 1};
    static const int32_t want[] = {0, 0, 1, 2};
    struct tok_ids ids = {0};
    struct tokenizer *t = NULL;
    struct err e = {0};
    (void)state;
    if (tok_open(&t, &src, &e)) fail_msg("%s", e.msg);
    assert_int_equal(tok_encode(t, "aa12", 4, 0, &ids, &e), 0);
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.id, want, sizeof want);
    tok_ids_free(&ids);
    tok_close(t);
}

static void test_names(void **state)
{
    (void)state;
    static const char json[] = "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true},"
                               "{\"id\":4,\"content\":\"<e>\",\"special\":true},"
                               "{\"id\":5,\"content\":\"<x>\",\"special\":false}]," BPE "}";
    static const char config[] = "{\"model_max_length\":1000000000000000019884624838656,\"bos_"
                                 "token\":{\"content\":\"<s>\"},\"eos_token\":null}";
    static const char map[] = "{\"bos_token\":\"<x>\",\"eos_token\":\"<e>\"}";
    struct tok_source src = {.json = json,
                             .json_bytes = sizeof json - 1,
                             .config = config,
                             .config_bytes = sizeof config - 1,
                             .special_map = map,
                             .special_map_bytes = sizeof map - 1};
    struct tokenizer *t = NULL;
    struct err e = {0};
    assert_int_equal(tok_open(&t, &src, &e), 0);
    assert_int_equal(tok_n_ids(t), 6);
    assert_int_equal(tok_bos(t), 5); /* as transformers does, the map has priority */
    assert_int_equal(tok_eos(t), 4);
    assert_int_equal(tok_id_of(t, "ab"), 2);
    assert_int_equal(tok_id_of(t, "<x>"), 5);
    assert_int_equal(tok_id_of(t, "c"), -1);
    assert_true(tok_is_special(t, 3) && tok_is_special(t, 5) && !tok_is_special(t, 2) &&
                !tok_is_special(t, -1) && !tok_is_special(t, 99));
    int32_t odd[] = {-1, 99, 2, INT32_MAX, INT32_MIN};
    char *text;
    size_t n;
    assert_int_equal(tok_decode(t, odd, 5, 0, &text, &n, &e), 0);
    assert_string_equal(text, "ab");
    free(text);
    tok_close(t);
    t = open_json("{" BPE "}");
    assert_int_equal(tok_bos(t), -1);
    assert_int_equal(tok_eos(t), -1);
    tok_close(t);
}

/* ---- damaged files ---- */

/* Marsaglia's xorshift64 (13, 7, 17), upper 32 bits, as in scripts/golden-tokenizer. */
static uint32_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return (uint32_t)(*x >> 32);
}

static void try_damaged(const struct tok_source *src, size_t *opened)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    if (tok_open(&t, src, &e)) {
        assert_true(e.msg[0]);
        return;
    }
    static const char text[] = "<s>Hello  world, e\xcc\x81 12\n\xf0\x9f\x98\x80 \xff<sp>  the";
    struct tok_ids ids = {0};
    char *back;
    size_t n;
    ++*opened;
    if (!tok_encode(t, text, sizeof text - 1, 1, &ids, &e)) {
        assert_int_equal(tok_decode(t, ids.id, ids.n, 0, &back, &n, &e), 0);
        free(back);
    }
    tok_ids_free(&ids);
    tok_close(t);
}

/* Every small tokenizer with bytes changed, removed or truncated: an error or a tokenizer, no
 * crash. */
static void test_damaged(void **state)
{
    (void)state;
    json_t *cases = json_load_file("tests/data/tokenizer-cases.json", JSON_ALLOW_NUL, NULL), *c;
    assert_non_null(cases);
    uint64_t x = 1;
    size_t i, opened = 0, tried = 0;
    json_array_foreach (cases, i, c) {
        json_t *spm = json_object_get(c, "spm"), *json = json_object_get(c, "json");
        size_t n = json_string_length(json);
        char *file = spm ? from_hex(json_string_value(spm), &n) : strdup(json_string_value(json)),
             *p = malloc(n);
        for (int k = 0; k < (spm ? 400 : 30); k++) {
            memcpy(p, file, n);
            size_t len = n;
            for (uint32_t m = 1 + next_random(&x) % 4; m > 0; m--) {
                size_t at = next_random(&x) % n, span = next_random(&x) % 8;
                uint32_t how = next_random(&x) % 8;
                if (how < 4)
                    p[at] = how == 0 ? (char)next_random(&x) : "{}[],:\"0e"[next_random(&x) % 9];
                else if (how < 6 && at + span < len)
                    memmove(p + at, p + at + span, len - at - span), len -= span;
                else if (how == 6 && span == 0) len = at;
                else if (at + span < len) memset(p + at, p[at], span);
                if (!len) len = 1;
                if (spm && how < 3) p[at] = (char)next_random(&x);
            }
            char *exact = malloc(len); /* a sanitizer detects reads beyond the end */
            memcpy(exact, p, len);
            struct tok_source src = {0};
            *(spm ? &src.spm : &src.json) = exact;
            *(spm ? &src.spm_bytes : &src.json_bytes) = len;
            try_damaged(&src, &opened);
            free(exact);
            tried++;
        }
        free(p);
        free(file);
    }
    json_decref(cases);
    print_message("%zu damaged files, %zu still opened\n", tried, opened);
}

/* ---- whole tokenizers ---- */

static const uint32_t ranges[][2] = {
    {0x20, 0x7e},       {0x20, 0x7e},     {0x20, 0x7e},     {0x20, 0x7e},       {0, 0x1f},
    {0x80, 0xff},       {0x100, 0x24f},   {0x300, 0x36f},   {0x370, 0x3ff},     {0x400, 0x4ff},
    {0x590, 0x5ff},     {0x600, 0x6ff},   {0x900, 0x97f},   {0xe00, 0xe7f},     {0x1100, 0x11ff},
    {0x1e00, 0x1fff},   {0x2000, 0x206f}, {0x20a0, 0x2bff}, {0x3000, 0x30ff},   {0x4e00, 0x9fff},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff}, {0xfe00, 0xffff}, {0x1f300, 0x1faff}, {0x10000, 0x1ffff},
    {0x20000, 0x323af}, {0, 0x10ffff}};
static const char *const words[] = {"hello",
                                    " world",
                                    "\n",
                                    "\r\n",
                                    "  ",
                                    "   \n  ",
                                    "\t",
                                    "'s",
                                    "'RE",
                                    "'\u017f",
                                    " 123",
                                    "4567",
                                    "e\u0301",
                                    "a\u0316\u0301",
                                    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
                                    "\u180e",
                                    "\u3000",
                                    "\u2581",
                                    "\uac00\u11a8",
                                    "<s>",
                                    "</s>",
                                    "<unk>",
                                    "<0x41>",
                                    "<|im_start|>",
                                    "<|endoftext|>",
                                    "<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|",
                                    "|>",
                                    " <s> ",
                                    "\ufffd",
                                    "\u0120"};

static size_t put_char(char *p, uint32_t c)
{
    if (c < 0x80) return p[0] = (char)c, 1;
    if (c < 0x800) return p[0] = (char)(0xc0 | c >> 6), p[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return p[0] = (char)(0xe0 | c >> 12), p[1] = (char)(0x80 | (c >> 6 & 63)),
               p[2] = (char)(0x80 | (c & 63)), 3;
    return p[0] = (char)(0xf0 | c >> 18), p[1] = (char)(0x80 | (c >> 12 & 63)),
           p[2] = (char)(0x80 | (c >> 6 & 63)), p[3] = (char)(0x80 | (c & 63)), 4;
}

/* A string of at most 10 parts of at most 24 bytes, into out [256]; as Xorshift.text of
 * scripts/golden-tokenizer. */
static size_t random_text(uint64_t *x, char *out)
{
    size_t n = 0;
    for (uint32_t parts = 1 + next_random(x) % 10; parts > 0; parts--) {
        if (next_random(x) % 4 == 0) {
            const char *w = words[next_random(x) % (sizeof words / sizeof words[0])];
            memcpy(out + n, w, strlen(w));
            n += strlen(w);
            continue;
        }
        const uint32_t *r = ranges[next_random(x) % (sizeof ranges / sizeof ranges[0])];
        for (uint32_t k = 1 + next_random(x) % 5; k > 0; k--) {
            uint32_t c = r[0] + next_random(x) % (r[1] - r[0] + 1);
            if (c < 0xd800 || c > 0xdfff) n += put_char(out + n, c);
        }
    }
    return n;
}

struct sums {
    uint64_t ids, text;
    size_t n;
};

static uint64_t fnv(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static void add_text(const struct tokenizer *t, const char *s, size_t n, struct tok_ids *ids,
                     struct sums *sum)
{
    struct err e = {0};
    char *text;
    size_t bytes;
    ids->n = 0;
    assert_int_equal(tok_encode(t, s, n, 1, ids, &e), 0);
    for (size_t i = 0; i <= ids->n; i++) {
        uint32_t id = i < ids->n ? (uint32_t)ids->id[i] : UINT32_MAX;
        unsigned char le[4] = {(unsigned char)id, (unsigned char)(id >> 8),
                               (unsigned char)(id >> 16), (unsigned char)(id >> 24)};
        sum->ids = fnv(sum->ids, le, 4);
    }
    sum->n += ids->n;
    assert_int_equal(tok_decode(t, ids->id, ids->n, 0, &text, &bytes, &e), 0);
    sum->text = fnv(sum->text, text, bytes + 1);
    free(text);
}

static int open_named(const char *name, struct tokenizer **t)
{
    static const char *const places[] = {"models/%s/tokenizer.json",
                                         SHARED_DIR "/models/%s/tokenizer.json",
                                         SHARED_DIR "/data/tokenizers/%s/tokenizer.json"};
    for (int i = 0; i < 3; i++) {
        char path[512];
        size_t n;
        snprintf(path, sizeof path, places[i], name);
        char *json = read_file(path, &n);
        if (!json) continue;
        struct tok_source src = {.json = json, .json_bytes = n};
        struct err e = {0};
        if (tok_open(t, &src, &e)) fail_msg("%s: %s", path, e.msg);
        free(json);
        return 0;
    }
    return -1;
}

static void test_golden(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/tokenizer-golden.txt", "r");
    assert_non_null(f);
    size_t wiki_n = 0, done = 0, skipped = 0;
    char *wiki = read_file(SHARED_DIR "/data/eval/wiki.test.raw", &wiki_n), line[256], name[64],
         corpus[64], last[64] = "";
    struct tokenizer *t = NULL;
    struct tok_ids ids = {0};
    while (fgets(line, sizeof line, f)) {
        struct sums want, got = {0xcbf29ce484222325u, 0xcbf29ce484222325u, 0};
        unsigned long long a, b;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%63s %63s %zu %llx %llx", name, corpus, &want.n, &a, &b), 5);
        if (strcmp(name, last)) {
            tok_close(t);
            t = NULL;
            open_named(name, &t);
            strcpy(last, name);
        }
        int needs_wiki = strcmp(corpus, "random") != 0;
        if (!t || (needs_wiki && !wiki)) {
            print_message("SKIP: %s %s: not under %s\n", name, corpus, SHARED_DIR);
            skipped++;
            continue;
        }
        if (!needs_wiki) {
            uint64_t x = 88172645463325252u;
            char text[256];
            for (int i = 0; i < 20000; i++) add_text(t, text, random_text(&x, text), &ids, &got);
        } else if (!strcmp(corpus, "wiki")) {
            add_text(t, wiki, wiki_n, &ids, &got);
        } else {
            for (char *p = wiki, *end = wiki + wiki_n; p <= end;) {
                /* A newline after every line, the last one included; read_file's NUL leaves room
                 * for it. */
                char *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
                if (!nl) *end = '\n';
                add_text(t, p, (size_t)((nl ? nl : end) - p) + 1, &ids, &got);
                if (!nl) break;
                p = nl + 1;
            }
        }
        if (got.n != want.n || got.ids != a || got.text != b)
            fail_msg("%s %s: %zu ids %016llx %016llx, the library %zu %016llx %016llx", name,
                     corpus, got.n, (unsigned long long)got.ids, (unsigned long long)got.text,
                     want.n, a, b);
        done++;
    }
    tok_close(t);
    tok_ids_free(&ids);
    free(wiki);
    fclose(f);
    print_message("%zu goldens, %zu skipped\n", done, skipped);
    if (!done) skip();
}

/* llama.cpp's published vectors. */
static void test_vectors(void **state)
{
    (void)state;
    static const char *const sets[][2] = {
        {"llama-spm", "Llama-2"}, {"llama-bpe", "Llama-3"}, {"qwen2", "Qwen1.5-Qwen2"}};
    static const char between[] = "\n__ggml_vocab_test__\n";
    for (int k = 0; k < 3; k++) {
        struct tokenizer *t = NULL;
        struct tok_ids ids = {0};
        struct err e = {0};
        char path[512];
        size_t n, n_out;
        snprintf(path, sizeof path, SHARED_DIR "/data/vectors/ggml-vocab-%s.gguf.inp", sets[k][0]);
        char *in = read_file(path, &n);
        snprintf(path, sizeof path, SHARED_DIR "/data/vectors/ggml-vocab-%s.gguf.out", sets[k][0]);
        char *out = read_file(path, &n_out);
        if (!in || !out || open_named(sets[k][1], &t)) {
            print_message("SKIP: vectors %s: not under %s\n", sets[k][0], SHARED_DIR);
            free(in);
            free(out);
            skip();
            return;
        }
        int checked = 0;
        char *want = out;
        for (char *p = in; p; checked++) {
            char *end = strstr(p, between);
            ids.n = 0;
            assert_int_equal(tok_encode(t, p, end ? (size_t)(end - p) : strlen(p), 0, &ids, &e), 0);
            size_t i = 0;
            while (*want && *want != '\n') {
                long id = strtol(want, &want, 10);
                assert_true(i < ids.n && ids.id[i] == id);
                i++;
                while (*want == ' ') want++;
            }
            assert_int_equal(i, ids.n);
            if (*want) want++;
            p = end ? end + sizeof between - 1 : NULL;
        }
        print_message("%s: %d vectors\n", sets[k][0], checked);
        tok_ids_free(&ids);
        tok_close(t);
        free(in);
        free(out);
    }
}

/* Long lines of one repeated string must not take quadratic time. The limit allows for a sanitizer
 * on a busy machine. */
static void test_long_lines(void **state)
{
    (void)state;
    struct tokenizer *t = NULL;
    if (open_named("demo", &t)) {
        print_message("SKIP: no models/demo\n");
        skip();
        return;
    }
    static const char *const units[] = {
        "a", " ", "\U0001f600", "ab", "\n", " \n", "a\u0301\u0316", "<|", "\xff"};
    size_t n = 500000;
    char *s = malloc(n);
    assert_non_null(s);
    struct tok_ids ids = {0};
    struct err e = {0};
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++) {
        size_t w = strlen(units[k]);
        for (size_t i = 0; i + w <= n; i += w) memcpy(s + i, units[k], w);
        ids.n = 0;
        clock_t start = clock();
        assert_int_equal(tok_encode(t, s, n / w * w, 0, &ids, &e), 0);
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20.0);
    }
    tok_ids_free(&ids);
    free(s);
    tok_close(t);
}

/* Ids as letters of a string, 0 = '0'. */
static void expect_ids(const struct tokenizer *t, const char *text, const char *want)
{
    struct tok_ids ids = {0};
    struct err e = {0};
    char got[64] = "";
    if (tok_encode(t, text, strlen(text), 0, &ids, &e)) fail_msg("%s", e.msg);
    for (size_t i = 0; i < ids.n && i < sizeof got - 1; i++) got[i] = (char)('0' + ids.id[i]);
    tok_ids_free(&ids);
    if (strcmp(got, want)) fail_msg("\"%s\": ids %s, the library %s", text, got, want);
}

/* A pattern that matches the empty string: it matches everywhere except at the end of the previous
 * match. The expected ids are from tokenizers 0.23.3. */
static void test_empty_matches(void **state)
{
    (void)state;
    static const char model[] = "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
                                "\"aa\":3,\"bb\":4,\"-\":5,\"c\":6},"
                                "\"merges\":[\"a b\",\"a a\",\"b b\"]}";
    static const char split[] = "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"%s\":\"%s\"}"
                                ",\"behavior\":\"%s\"},%s}";
    static const char replace[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"%s\":\"%s\"},\"content\":\"%s\"},%s}";
    static const char *const texts[] = {"abab", "aabb", "bbaac", ""};
    static const struct {
        const char *json, *kind, *pattern, *how, *want[4];
    } cases[] = {{split, "Regex", "x*", "Isolated", {"0101", "0011", "11006", ""}},
                 {split, "Regex", "x*", "Contiguous", {"0101", "0011", "11006", ""}},
                 {split, "Regex", "a*", "Isolated", {"0101", "311", "1136", ""}},
                 {split, "Regex", "a*", "Removed", {"11", "11", "116", ""}},
                 {split, "Regex", "a*", "MergedWithPrevious", {"0101", "311", "1136", ""}},
                 {split, "Regex", "a*", "MergedWithNext", {"22", "021", "1136", ""}},
                 {split, "Regex", "(?=b)", "Isolated", {"0101", "311", "1136", ""}},
                 {split, "String", "", "Isolated", {"0101", "0011", "11006", ""}},
                 {replace, "Regex", "x*", "-", {"505150515", "505051515", "51515050565", ""}},
                 {replace, "Regex", "a*", "-", {"51515", "51515", "5151565", ""}},
                 {replace, "String", "", "-", {"505150515", "505051515", "51515050565", ""}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[600];
        snprintf(json, sizeof json, cases[i].json, cases[i].kind, cases[i].pattern, cases[i].how,
                 model);
        struct tokenizer *t = open_json(json);
        for (int k = 0; k < 4; k++) expect_ids(t, texts[k], cases[i].want[k]);
        tok_close(t);
    }
}

/* The bytes of all ids: an id's text where that is whole characters, and together the text of any
 * ids, whatever characters they cut. */
static void test_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"demo", "Llama-2", "Llama-3", "Qwen1.5-Qwen2", "Qwen3"};
    int n_parts = 0, n_texts = 0, n_own = 0;
    for (int k = 0; k < 5; k++) {
        struct tokenizer *t = NULL;
        struct tok_bytes all;
        struct err e = {0};
        struct tok_ids ids = {0};
        if (open_named(names[k], &t)) {
            print_message("SKIP: no tokenizer %s\n", names[k]);
            continue;
        }
        assert_int_equal(tok_bytes_open(&all, t, &e), 0);
        assert_int_equal(all.n, tok_n_ids(t));
        for (int32_t id = 0; id < all.n; id += 1 + all.n / 20000) {
            size_t n = all.start[id + 1] - all.start[id], bytes;
            char *text;
            assert_int_equal(tok_decode_inside(t, id, &text, &bytes, &e), 0);
            if (tok_is_special(t, id)) assert_int_equal(n, 0);
            else if (!strstr(text, "\xef\xbf\xbd")) {
                assert_int_equal(n, bytes);
                assert_memory_equal(all.text + all.start[id], text, n);
                n_texts++;
            } else if (n) n_parts += !is_utf8(all.text + all.start[id], n);
            if (strstr(text, "\xef\xbf\xbd")) {
                char *own;
                assert_int_equal(tok_own_bytes(t, id, &own, &bytes, &e), 0);
                if (own) { /* else its text is U+FFFD itself */
                    assert_int_equal(bytes, n);
                    assert_memory_equal(own, all.text + all.start[id], n);
                } else if (n) {
                    assert_memory_equal(text, all.text + all.start[id], n);
                }
                n_own += own != NULL;
                free(own);
            }
            free(text);
        }
        const char *text = "Gr\u00fc\u00dfe \U0001f600\u6f22 {\"a\": [1, -2.5e3]}\n\t x";
        assert_int_equal(tok_encode(t, text, strlen(text), 0, &ids, &e), 0);
        char joined[512];
        size_t n = 0;
        for (size_t i = 0; i < ids.n; i++) {
            size_t bytes = all.start[ids.id[i] + 1] - all.start[ids.id[i]];
            assert_true(n + bytes < sizeof joined);
            memcpy(joined + n, all.text + all.start[ids.id[i]], bytes);
            n += bytes;
        }
        joined[n] = 0;
        assert_string_equal(joined + (joined[0] == ' '), text); /* some put a space in front */
        tok_ids_free(&ids);
        tok_bytes_close(&all);
        tok_close(t);
    }
    printf("# %d texts, %d parts of characters\n", n_texts, n_parts);
    assert_true(n_texts > 1000 && n_parts > 100 && n_own >= n_parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_composes),
        cmocka_unit_test(test_digits_of_later_pieces),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_empty_matches),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
