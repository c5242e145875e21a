/* unit_reasoning.c: texts cut in every way give the same parts, which are those of a plain search.
 */
#include "core/text/reasoning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Tags, reasoning and answer of TEXT, pushed in pieces of SIZE bytes, or (0) of any size. */
static void split(const struct reasoning_tags *tags, const char *prompt, const char *text,
                  size_t size, char out[3][400])
{
    struct reasoning r;
    struct err e;
    enum reasoning_part part;
    const char *p;
    size_t n, given = 0;
    reasoning_open(&r, tags, prompt, strlen(prompt));
    for (int i = 0; i < 3; i++) out[i][0] = 0;
    for (size_t at = 0, all = strlen(text);; at += n) {
        size_t piece = size ? size : (size_t)rand() % 9;
        n = all - at < piece ? all - at : piece;
        assert_int_equal(reasoning_push(&r, text + at, n, &e), 0);
        if (at + n == all) reasoning_end(&r);
        size_t m;
        while (reasoning_next(&r, &part, &p, &m)) {
            assert_true(m > 0);
            strncat(out[part], p, m);
            given += m;
        }
        if (at + n == all) break;
    }
    assert_int_equal(given, strlen(text)); /* nothing is lost */
    reasoning_close(&r);
}

static void nothing_is_no_part(void **state)
{
    struct reasoning r;
    struct err e;
    enum reasoning_part part;
    const char *p;
    size_t n;
    (void)state;
    reasoning_open(&r, reasoning_tags_of(NULL, 0), "", 0);
    assert_int_equal(reasoning_next(&r, &part, &p, &n), 0);
    assert_int_equal(reasoning_push(&r, NULL, 0, &e), 0);
    reasoning_end(&r);
    assert_int_equal(reasoning_next(&r, &part, &p, &n), 0);
    reasoning_close(&r);
}

static void parts_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *prompt, *text, *tags, *thoughts, *answer;
    } cases[] = {
        {"", "An answer.", "", "", "An answer."},
        {"", "<think>I see.</think>\n\nYes.", "<think></think>", "I see.", "\n\nYes."},
        {"", " \n<think>\nI see.\n</think>Yes.", " \n<think></think>", "\nI see.\n", "Yes."},
        {"x<think>", "I see.</think>Yes.", "</think>", "I see.", "Yes."},
        {"x<think>\n\n", "I see. < </thin </think>Yes.</think>", "</think>", "I see. < </thin ",
         "Yes.</think>"},
        {"<think></think>", "Yes.", "", "", "Yes."},
        {"", "<think></think>Yes.", "<think></think>", "", "Yes."},
        {"", "<thin", "", "", "<thin"},
        {"", "  <thinking>", "", "", "  <thinking>"},
        {"", "\n ", "", "", "\n "},
        {"", "<think>and no end </th", "<think>", "and no end </th", ""},
        {"", "<think>a</think><think>b</think>", "<think></think>", "a", "<think>b</think>"},
        {"", "Not first: <think>a</think>", "", "", "Not first: <think>a</think>"},
        {"", "", "", "", ""},
        {"", "<think><think>a<</think>b", "<think></think>", "<think>a<", "b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 0; size < 40; size++) {
            char out[3][400];
            split(reasoning_tags_of(NULL, 0), cases[i].prompt, cases[i].text, size, out);
            assert_string_equal(out[REASONING_TAG], cases[i].tags);
            assert_string_equal(out[REASONING_TEXT], cases[i].thoughts);
            assert_string_equal(out[REASONING_ANSWER], cases[i].answer);
        }
}

/* Tags of other families, which the chat template tells. */
static void other_tags(void **state)
{
    (void)state;
#define FINAL "<|start|>assistant<|channel|>final<|message|>"
    static const struct {
        const char *template, *prompt, *text, *tags, *thoughts, *answer;
    } cases[] = {
        {"{{ '[THINK]' }}", "", "[THINK]I see.[/THINK]Yes.", "[THINK][/THINK]", "I see.", "Yes."},
        {"{{ '[THINK]' }}", "x[THINK]", "I see.[/THI[/THINK]Yes.", "[/THINK]", "I see.[/THI",
         "Yes."},
        {"{{ '[THINK]' }}", "", "<think>a</think>b", "", "", "<think>a</think>b"},
        {"<seed:think>", "", "<seed:think>I</seed:think>Yes.", "<seed:think></seed:think>", "I",
         "Yes."},
        {"<|channel|>analysis<|message|>", "",
         "<|channel|>analysis<|message|>I see.<|end|>" FINAL "Yes.",
         "<|channel|>analysis<|message|><|end|>" FINAL, "I see.", "Yes."},
        {"<|channel|>analysis<|message|>", "", "<|channel|>final<|message|>Yes.",
         "<|channel|>final<|message|>", "", "Yes."},
        {"<|channel|>analysis<|message|>", "",
         "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>commentary",
         "<|channel|>analysis<|message|><|end|>", "I see.",
         "<|start|>assistant<|channel|>commentary"},
        {"<|channel|>analysis<|message|>", "", "<|channel|>analysis<|message|>I see.<|end|><|sta",
         "<|channel|>analysis<|message|><|end|>", "I see.", "<|sta"},
        {"<|channel|>analysis<|message|>", "", "Yes.", "", "", "Yes."},
        {"'<|channel>thought\\n'", "", "<|channel>thought\nI see.\n<channel|>Yes.",
         "<|channel>thought<channel|>", "\nI see.\n", "Yes."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 0; size < 40; size++) {
            const char *from = cases[i].template;
            const struct reasoning_tags *tags = reasoning_tags_of(from, strlen(from));
            char out[3][400];
            split(tags, cases[i].prompt, cases[i].text, size, out);
            assert_string_equal(out[REASONING_TAG], cases[i].tags);
            assert_string_equal(out[REASONING_TEXT], cases[i].thoughts);
            assert_string_equal(out[REASONING_ANSWER], cases[i].answer);
        }
    const struct reasoning_tags *t = reasoning_tags_of(cases[4].template, 30);
    assert_true(reasoning_has_token(t, "<|channel|>") && reasoning_has_token(t, "<|end|>"));
    assert_true(reasoning_has_token(t, "<|start|>") && !reasoning_has_token(t, "<|call|>"));
    assert_false(reasoning_has_token(reasoning_tags_of("<think>", 7), "<|end|>"));
}

/* What is certain is handed out at once. */
static void nothing_waits_without_need(void **state)
{
    (void)state;
    struct reasoning r;
    struct err e;
    enum reasoning_part part;
    const char *p;
    size_t n;
    reasoning_open(&r, reasoning_tags_of(NULL, 0), "<think>", 7);
    assert_int_equal(reasoning_push(&r, "abc</th", 7, &e), 0);
    assert_true(reasoning_next(&r, &part, &p, &n) && n == 3 && part == REASONING_TEXT);
    assert_int_equal(reasoning_next(&r, &part, &p, &n), 0);
    assert_int_equal(reasoning_push(&r, "e</think>x", 10, &e), 0);
    assert_true(reasoning_next(&r, &part, &p, &n) && n == 5 && !memcmp(p, "</the", 5));
    assert_true(reasoning_next(&r, &part, &p, &n) && n == 8 && part == REASONING_TAG);
    assert_true(reasoning_next(&r, &part, &p, &n) && n == 1 && part == REASONING_ANSWER);
    reasoning_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_part),
        cmocka_unit_test(parts_are_told_apart),
        cmocka_unit_test(other_tags),
        cmocka_unit_test(nothing_waits_without_need),
    };
    return cmocka_run_group_tests_name("reasoning", tests, NULL, NULL);
}
