/* unit_text.c: an answer decoded after its prompt. For every tokenizer and any split of ids into a
 * prompt and an answer, tok_decode's text of the prompt and the answer's pieces make up
 * tok_decode's text of all ids. Runs from the project root; without SHARED_DIR its tokenizers are
 * skipped. */
#include "core/text/tokenizer.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#ifndef SHARED_DIR
#define SHARED_DIR "../shared"
#endif

/* Marsaglia's xorshift64 (13, 7, 17), upper 32 bits. */
static uint32_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return (uint32_t)(*x >> 32);
}

static struct tokenizer *open_source(const char *name, const struct tok_source *src)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    if (tok_open(&t, src, &e)) fail_msg("%s: %s", name, e.msg);
    return t;
}

static struct tokenizer *open_json(const char *name, const char *json, size_t n)
{
    return open_source(name, &(struct tok_source){.json = json, .json_bytes = n});
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
    return p;
}

static int is_utf8(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);
    json_decref(j);
    return j != NULL;
}

static void show_ids(const int32_t *ids, size_t n, size_t cut)
{
    for (size_t i = 0; i < n; i++) print_error(i == cut ? " | %d" : " %d", ids[i]);
    print_error("\n");
}

/* Decodes IDS [n] split at CUT. A copy of the stream takes over inside the answer. */
static void check_cut(const char *name, const struct tokenizer *t, int skip, const int32_t *ids,
                      size_t n, size_t cut, size_t take_over)
{
    struct err e = {0};
    struct tok_stream *s, *copy;
    char *all, *prompt, *joined = malloc(1);
    const char *piece;
    size_t n_all, n_prompt, bytes, n_answer = 0;
    assert_int_equal(tok_decode(t, ids, n, skip, &all, &n_all, &e), 0);
    assert_int_equal(tok_decode(t, ids, cut, skip, &prompt, &n_prompt, &e), 0);
    assert_int_equal(tok_stream_open_after(&s, t, skip, ids, cut, &e), 0);
    assert_int_equal(tok_stream_before(s), n_prompt);
    for (size_t i = cut; i <= n; i++) {
        if (i == take_over) {
            assert_int_equal(tok_stream_copy(&copy, s, &e), 0);
            tok_stream_close(s);
            s = copy;
        }
        assert_int_equal(i < n ? tok_stream_push(s, ids[i], &piece, &bytes, &e)
                               : tok_stream_flush(s, &piece, &bytes, &e),
                         0);
        joined = realloc(joined, n_answer + bytes + 1);
        assert_non_null(joined);
        memcpy(joined + n_answer, piece, bytes);
        n_answer += bytes;
        if (!is_utf8(piece, bytes)) fail_msg("%s: a piece ends inside a character", name);
    }
    size_t before = tok_stream_before(s);
    int is_prefix = n_prompt <= n_all && !memcmp(all, prompt, n_prompt);
    if (before + n_answer != n_all || memcmp(all, prompt, before) ||
        memcmp(all + before, joined, n_answer) ||
        (is_prefix ? before != n_prompt : before >= n_prompt)) {
        print_error("%s, special tokens %s:", name, skip ? "skipped" : "shown");
        show_ids(ids, n, cut);
        fail_msg("\"%s\" is not \"%.*s\" (of \"%s\") and \"%.*s\"", all, (int)before, prompt,
                 prompt, (int)n_answer, joined);
    }
    tok_stream_close(s);
    free(joined);
    free(prompt);
    free(all);
}

/* Random ids, among them runs of byte tokens and special tokens, and ids of a text; every split of
 * short ones, some of long ones. */
static size_t check_tokenizer(const char *name, const struct tokenizer *t, int rounds)
{
    static const char *const texts[] = {"The capital of France is not",
                                        "  two  spaces \n\n and a line",
                                        "\u65e5\u672c\U0001f600\u00e9x \u65e5", "<s> x</s>"};
    uint64_t x = 88172645463325252u;
    size_t cuts = 0;
    struct tok_ids ids = {0};
    struct err e = {0};
    int32_t byte_0 = tok_id_of(t, "<0x00>"), special[8];
    int n_special = 0;
    for (int32_t i = 0; i < tok_n_ids(t) && n_special < 8; i++)
        if (tok_is_special(t, i)) special[n_special++] = i;
    for (int i = 0; i < rounds; i++) {
        ids.n = 0;
        if (i % 3 == 0) {
            const char *text = texts[next_random(&x) % 4];
            assert_int_equal(tok_encode(t, text, strlen(text), i % 2, &ids, &e), 0);
        } else {
            assert_int_equal(tok_encode(t, "", 0, i % 2, &ids, &e), 0);
        }
        for (uint32_t k = next_random(&x) % 8; k > 0; k--) {
            uint32_t kind = next_random(&x) % 4;
            int32_t id = (int32_t)(next_random(&x) % (uint32_t)tok_n_ids(t));
            if (kind == 0 && byte_0 >= 0) id = byte_0 + (int32_t)(0x80 + next_random(&x) % 0x80);
            if (kind == 1 && n_special && next_random(&x) % 2)
                id = special[next_random(&x) % (uint32_t)n_special];
            int32_t *grown = realloc(ids.id, (ids.n + 1) * sizeof *grown);
            assert_non_null(grown);
            ids.id = grown;
            ids.cap = ids.n + 1;
            ids.id[ids.n++] = id;
        }
        for (size_t cut = 0; cut <= ids.n; cut++, cuts++)
            check_cut(name, t, i % 4 < 2, ids.id, ids.n, cut,
                      cut + next_random(&x) % (ids.n - cut + 1));
    }
    tok_ids_free(&ids);
    return cuts;
}

static json_t *load_cases(void)
{
    json_t *cases = json_load_file("tests/data/tokenizer-cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(cases);
    return cases;
}

static const char *case_json(const json_t *cases, const char *name)
{
    size_t i;
    json_t *c;
    json_array_foreach (cases, i, c)
        if (!strcmp(json_string_value(json_object_get(c, "name")), name))
            return json_string_value(json_object_get(c, "json"));
    fail_msg("no case %s", name);
    return NULL;
}

static void test_small(void **state)
{
    (void)state;
    json_t *cases = load_cases(), *c;
    size_t i, cuts = 0;
    json_array_foreach (cases, i, c) {
        json_t *spm = json_object_get(c, "spm"), *json = json_object_get(c, "json");
        struct tok_source src = {.json = json_string_value(json),
                                 .json_bytes = json_string_length(json)};
        char *model = spm ? from_hex(json_string_value(spm), &src.spm_bytes) : NULL;
        const char *name = json_string_value(json_object_get(c, "name"));
        src.spm = model;
        struct tokenizer *t = open_source(name, &src);
        cuts += check_tokenizer(name, t, 300);
        tok_close(t);
        free(model);
    }
    print_message("%zu small tokenizers, %zu cuts\n", json_array_size(cases), cuts);
    json_decref(cases);
}

/* Decoders that no tokenizer of the cases has, over the vocabulary of one of them. */
static const char *const decoders[] = {
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":0}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"}"
    ",\"content\":\" \"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":3,\"stop\":0}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"}"
    ",\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":1}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
    "\"type\":\"Replace\",\"pattern\":{\"String\":"
    "\"\u2581\"},\"content\":\" \"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":0}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\"\u2581\u2581\"},\"content\":\"=\"},"
    "{\"type\":\"Strip\",\"content\":\"\u2581\",\"start\":1,\"stop\":2}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"Regex\":\"^\u2581\"},\"content\":\"\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Metaspace\","
    "\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\"}]}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\"}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\","
    "\"replacement\":\"\u2581\"},"
    "{\"type\":\"Strip\",\"content\":\"o\",\"start\":1,\"stop\":1}]}",
};

static void test_decoders(void **state)
{
    (void)state;
    json_t *cases = load_cases(), *j = json_loads(case_json(cases, "llama2"), JSON_ALLOW_NUL, NULL);
    size_t cuts = 0;
    assert_non_null(j);
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        json_t *decoder = json_loads(decoders[i], 0, NULL);
        assert_non_null(decoder);
        json_object_set_new(j, "decoder", decoder);
        char *text = json_dumps(j, JSON_COMPACT);
        struct tokenizer *t = open_json(decoders[i], text, strlen(text));
        cuts += check_tokenizer(decoders[i], t, 300);
        tok_close(t);
        free(text);
    }
    print_message("%zu decoders, %zu cuts\n", sizeof decoders / sizeof *decoders, cuts);
    json_decref(j);
    json_decref(cases);
}

static void test_whole(void **state)
{
    (void)state;
    static const char *const places[] = {"models/*/tokenizer.json",
                                         SHARED_DIR "/models/*/tokenizer.json",
                                         SHARED_DIR "/data/tokenizers/*/tokenizer.json"};
    size_t n_tokenizers = 0, cuts = 0, from_shared = 0;
    for (int i = 0; i < 3; i++) {
        glob_t found;
        if (glob(places[i], 0, NULL, &found)) continue;
        for (size_t k = 0; k < found.gl_pathc; k++, n_tokenizers++) {
            FILE *f = fopen(found.gl_pathv[k], "rb");
            static char json[64 << 20];
            assert_non_null(f);
            size_t n = fread(json, 1, sizeof json, f);
            fclose(f);
            struct tokenizer *t = open_json(found.gl_pathv[k], json, n);
            cuts += check_tokenizer(found.gl_pathv[k], t, 300);
            tok_close(t);
            from_shared += i > 0;
        }
        globfree(&found);
    }
    if (!from_shared) print_message("SKIP: tokenizers under %s: it is not there\n", SHARED_DIR);
    print_message("%zu whole tokenizers, %zu cuts\n", n_tokenizers, cuts);
    assert_true(n_tokenizers > 0);
}

static void expect(const struct tokenizer *t, int skip, const char *prompt, const char *answer,
                   const char *want)
{
    int32_t ids[16], n = 0, cut = 0;
    struct err e = {0};
    struct tok_stream *s;
    char text[256] = "";
    const char *piece;
    size_t bytes;
    for (int k = 0; k < 2; k++) {
        char *list = strdup(k ? answer : prompt), *save, *name = strtok_r(list, " ", &save);
        for (; name; name = strtok_r(NULL, " ", &save)) {
            assert_true((ids[n] = tok_id_of(t, name)) >= 0);
            n++;
        }
        if (!k) cut = n;
        free(list);
    }
    assert_int_equal(tok_stream_open_after(&s, t, skip, ids, (size_t)cut, &e), 0);
    for (int i = cut; i <= n; i++) {
        assert_int_equal(i < n ? tok_stream_push(s, ids[i], &piece, &bytes, &e)
                               : tok_stream_flush(s, &piece, &bytes, &e),
                         0);
        strncat(text, piece, bytes);
    }
    tok_stream_close(s);
    assert_string_equal(text, want);
}

/* Special cases at the border of prompt and answer. */
static void test_borders(void **state)
{
    (void)state;
    json_t *cases = load_cases();
    const char *json = case_json(cases, "llama2");
    struct tokenizer *t = open_json("llama2", json, strlen(json));
    expect(t, 1, "<s> \u2581h", "\u2581h t", " ht"); /* inside a text the space stays */
    expect(t, 1, "<s>", "\u2581h t", "ht");          /* no visible text precedes */
    expect(t, 0, "<s>", "\u2581h t", " ht");         /* the preceding token is visible */
    expect(t, 1, "", "\u2581h", "h");
    expect(t, 1, "\u2581", "\u2581h", " h"); /* the preceding space is the stripped one */
    expect(t, 1, "\u2581h <0xE6> <0x97>", "<0xA5> t",
           "\u65e5t"); /* the answer completes the prompt's character */
    expect(t, 1, "\u2581h <0xE6> <0x97> <0xA5>", "\u2581h",
           " h"); /* the byte run belongs to the prompt */
    expect(t, 1, "\u2581h <0xE6> <0x97> <0xA5>", "<0xE6> <0x97> <0xA5>", "\u65e5");
    expect(t, 1, "\u2581h <0xE6>", "t", "t"); /* its U+FFFD belongs to the prompt */
    expect(t, 1, "\u2581h", "", "");
    expect(t, 1, "\u2581h </s>", "\u2581 t", " t");
    tok_close(t);
    json = case_json(cases, "metaspace-always");
    t = open_json("metaspace-always", json, strlen(json));
    expect(t, 1, "t", "\u2581h", " h");
    expect(t, 1, "", "\u2581h", "h");
    tok_close(t);
    json_decref(cases);
}

/* A single token's text is as inside a text, whatever is stripped at its beginning. */
static void test_inside(void **state)
{
    (void)state;
    json_t *cases = load_cases(), *j = json_loads(case_json(cases, "llama2"), JSON_ALLOW_NUL, NULL);
    for (size_t i = 1; i < 3; i++) {
        static const char *const want[][2] = {
            {"\u2581h", " h"}, {"\u2581", " "}, {"t", "t"}, {"<0xE6>", "\ufffd"}, {"<s>", "<s>"}};
        json_object_set_new(j, "decoder", json_loads(decoders[i], 0, NULL));
        if (i == 2)
            json_array_remove(json_object_get(json_object_get(j, "decoder"), "decoders"), 3);
        char *text = json_dumps(j, JSON_COMPACT), *got;
        struct tokenizer *t = open_json("inside", text, strlen(text));
        for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
            struct err e = {0};
            size_t n;
            if (i == 1 && k == 3) continue; /* no byte fallback */
            assert_true(tok_id_of(t, want[k][0]) >= 0);
            assert_int_equal(tok_decode_inside(t, tok_id_of(t, want[k][0]), &got, &n, &e), 0);
            assert_string_equal(got, want[k][1]);
            assert_int_equal(n, strlen(got));
            free(got);
        }
        tok_close(t);
        free(text);
    }
    json_decref(j);
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borders), cmocka_unit_test(test_inside),
        cmocka_unit_test(test_small),   cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
