/* unit_pieces.c: SentencePiece models made of a few pieces: which merge comes first, what is
 * damaged. */
#include "core/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

/* Appends a piece s [n] of a SentencePiece model. */
static size_t put_piece(char *p, const char *s, size_t n, float score, int type)
{
    p[0] = 0x0a, p[1] = (char)(2 + n + 5 + 2), p[2] = 0x0a, p[3] = (char)n;
    memcpy(p + 4, s, n);
    p[4 + n] = 0x15;
    memcpy(p + 5 + n, &score, 4);
    p[9 + n] = 0x18, p[10 + n] = (char)type;
    return 11 + n;
}

/* Of two merges whose pieces have the same score, the one of the earlier piece in the file comes
 * first. */
static void test_equal_scores(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *want; /* of "abc" */
    } orders[] = {{"bc", "ab", "14"}, {"ab", "bc", "43"}};
    for (int i = 0; i < 2; i++) {
        char model[256];
        size_t n = put_piece(model, "<unk>", 5, 0, 2);
        n += put_piece(model + n, "a", 1, -1, 1); /* ids 1, 2, 3 */
        n += put_piece(model + n, "b", 1, -1, 1);
        n += put_piece(model + n, "c", 1, -1, 1);
        n += put_piece(model + n, orders[i].first, strlen(orders[i].first), -5, 1);
        n += put_piece(model + n, orders[i].second, strlen(orders[i].second), -5, 1);
        static const char settings[] = {
            0x12, 2,    0x18, 2,    0x1a,
            4,    0x18, 0,    0x20, 0}; /* BPE; no dummy prefix, spaces as they are */
        memcpy(model + n, settings, sizeof settings);
        struct tok_source src = {.spm = model, .spm_bytes = n + sizeof settings};
        struct tokenizer *t = NULL;
        struct err e = {0};
        if (tok_open(&t, &src, &e)) fail_msg("%s", e.msg);
        struct tok_ids ids = {0};
        assert_int_equal(tok_encode(t, "abc", 3, 0, &ids, &e), 0);
        assert_int_equal(ids.n, 2);
        for (int k = 0; k < 2; k++) assert_int_equal(ids.id[k], orders[i].want[k] - '0');
        tok_ids_free(&ids);
        tok_close(t);
    }
}

static void test_damaged_pieces(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        float score;
        int is_damaged;
    } pieces[] = {{"a", 1, -1, 0},    {"\xc3\xa9", 2, 0, 0}, {"", 0, -1, 1},
                  {"\xc3", 1, -1, 1}, {"a\xff", 2, -1, 1},   {"a", 1, NAN, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char b[200];
        struct tokenizer *t = NULL;
        struct err e = {0};
        size_t n = put_piece(b, "<unk>", 5, 0, 2);
        n += put_piece(b + n, "b", 1, -2, 1);
        n += put_piece(b + n, pieces[i].text, pieces[i].n, pieces[i].score, 1);
        const char spec[] = {0x12, 2, 0x18, 2, 0x1a, 2, 0x18, 1}; /* BPE */
        memcpy(b + n, spec, sizeof spec);
        const struct tok_source src = {.spm = b, .spm_bytes = n + sizeof spec};
        assert_int_equal(tok_open(&t, &src, &e), -pieces[i].is_damaged);
        if (pieces[i].is_damaged) assert_non_null(strstr(e.msg, "piece 2 is damaged"));
        else tok_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_scores),
                                       cmocka_unit_test(test_damaged_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
