/* unit_eval_tasks.c: the parts of --eval that need no model: Python's draws, texts, answers, the
 * questions of each task, files, examples. Expected values are those of Python 3.11 and of
 * lm-evaluation-harness 0.4.13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/modes/eval/exam_list.h"
#include "cli/modes/eval/exam_tokens.h"
#include "cli/modes/eval/fp32_softmax.h"
#include "cli/modes/eval/python_json.h"
#include "cli/modes/eval/python_random.h"
#include "cli/modes/eval/task_answer.h"
#include "cli/modes/eval/task_text.h"
#include "core/model/modelfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;

/* ---- draws */

static void draws_are_pythons(void **state)
{
    (void)state;
    static const uint32_t bits[] = {4150886329u, 3342196574u, 1892932127u, 501869158u};
    static const struct {
        uint64_t seed;
        int n, k, list[3][8]; /* the first three draws */
    } draws[] = {
        {1234u,
         7473,
         5,
         {{6374, 3610, 957, 61, 742}, {7462, 6610, 4769, 286, 5501}, {5677, 687, 806, 6279, 2905}}},
        {1234u, 21, 5, {{14, 3, 0, 2, 1}, {2, 3, 11, 7, 0}, {0, 20, 11, 15, 14}}},
        {1234u, 22, 5, {{14, 3, 0, 2, 18}, {1, 21, 2, 3, 11}, {7, 0, 11, 20, 19}}},
        {1234u, 85, 6, {{56, 14, 0, 11, 74, 4}, {10, 12, 45, 30, 2, 3}, {2, 44, 82, 79, 61, 78}}},
        {1234u, 86, 6, {{56, 14, 0, 11, 74, 4}, {85, 10, 12, 45, 30, 2}, {3, 2, 44, 82, 79, 61}}},
        {0u, 9, 3, {{6, 8, 0}, {4, 7, 3}, {4, 7, 2}}},
        {5u, 3, 3, {{2, 1, 0}, {2, 0, 1}, {0, 2, 1}}},
        {1099511627853ull,
         100,
         8,
         {{48, 47, 95, 41, 45, 62, 65, 52},
          {50, 4, 23, 53, 80, 70, 9, 66},
          {30, 7, 47, 64, 20, 69, 80, 97}}},
    };
    struct python_random r;
    python_random_seed(&r, 1234);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        assert_int_equal(python_random_bits(&r, 32), bits[i]);
    for (int i = 4; i < 1300; i++) (void)python_random_bits(&r, 32);
    assert_int_equal(python_random_bits(&r, 7), 60);
    for (size_t d = 0; d < sizeof draws / sizeof *draws; d++) {
        python_random_seed(&r, draws[d].seed);
        for (int i = 0; i < 3; i++) {
            int32_t got[8];
            assert_int_equal(python_random_sample(&r, draws[d].n, draws[d].k, got, &e), 0);
            for (int k = 0; k < draws[d].k; k++) assert_int_equal(got[k], draws[d].list[i][k]);
        }
    }
}

/* ---- texts */

static void same(char *got, const char *want)
{
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void documents_are_written_as_by_python(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } reals[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1 / 3.0, "0.3333333333333333"},
        {-2.5, "-2.5"},
        {100, "100.0"},
        {12345678.9, "12345678.9"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {1e23, "1e+23"},
        {0.00012, "0.00012"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {-1.5e-7, "-1.5e-07"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
    };
    static const char document[] =
        "{\"a\": \"x\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\\u007f\\u2028\\ud834\\udd1e\", \"b\": [], "
        "\"c\": {}, \"d\": [1, -0.0, true, null, [false]], \"\u00e9\": {\"k\": "
        "9007199254740993}}",
                      written[] = "{\n  \"a\": \"x\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\x7f\u2028"
                                  "\U0001d11e\",\n  \"b\": [],\n  \"c\": {},\n  \"d\": [\n    1,\n"
                                  "    -0.0,\n    true,\n    null,\n    [\n      false\n    ]\n"
                                  "  ],\n  \"\u00e9\": {\n    \"k\": 9007199254740993\n  }\n}";
    struct out o = {0};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        out_clear(&o);
        python_json_real(&o, reals[i].v);
        assert_int_equal(o.n, strlen(reals[i].text));
        assert_memory_equal(o.p, reals[i].text, o.n);
    }
    json_t *j = json_loads(document, 0, NULL);
    out_clear(&o);
    python_json(&o, j);
    assert_int_equal(o.n, sizeof written - 1);
    assert_memory_equal(o.p, written, o.n);
    json_decref(j);
    out_free(&o);
}

static void texts_change_as_in_python(void **state)
{
    (void)state;
    same(task_text_strip(" \t\n\xc2\xa0 a b \xe2\x80\xa8\x1f\xe3\x80\x80"), "a b");
    same(task_text_strip(" \n "), "");
    same(task_text_strip("\xe2\x80\x8b x"), "\xe2\x80\x8b x"); /* no white space */
    assert_int_equal(task_text_end("ab \n", 4), 2);
    same(task_text_clean("  [header] How to sew [title] Thread it. [step] Take a needle. "),
         " How to sew. Thread it. Take a needle.");
    same(task_text_clean("[substeps] Cut it."), " Cut it.");
    same(task_text_clean("a    b   c"), "a  b  c");
    same(task_text_clean("a [b\nc] d [e] [f"), "a [b\nc] d [f");
    same(task_text_clean("a [b [c] d] e"), "a d] e");
    same(task_text_capitalize("hE saw MARY In ÉVREUX"), "He saw mary in évreux");
    same(task_text_capitalize("éCOLE"), "École");
    same(task_text_capitalize("ßA ΣΑΣ İ"), "Ssa σας i̇");
    same(task_text_capitalize("ﬁN ǆ"), "Fin ǆ");
    same(task_text_capitalize(""), "");
    same(task_text_lower("ΑΣ' Σ ΑΣΑ"), "ας' σ ασα");
    assert_int_equal(task_text_length("aé€🙂"), 4);
}

/* ---- answers */

static void answers_are_found_as_by_the_filters(void **state)
{
    (void)state;
    static const struct {
        const char *text, *strict, *flexible, *answer;
        int right[2];
    } cases[] = {
        {"4 + 5 = <<4+5=9>>9\n#### 9", "9", "9", "x\n#### 9", {1, 1}},
        {"#### -1,250.", "-1,250.", "-1,250.", "#### -1250", {1, 1}},
        {"#### $40", "[invalid]", "$40", "#### 40", {0, 1}},
        {"#### x #### 7 #### 8", "7", "8", "#### 8", {0, 1}},
        {"it costs $3.50 each, so 2.", "[invalid]", "2.", "#### 2", {0, 1}},
        {"a-4-b", "[invalid]", "-4", "#### 4", {0, 0}},
        {"--5", "[invalid]", "-5", "#### -5", {0, 1}},
        {"wait..", "[invalid]", "..", "#### 1", {0, 0}},
        {"1 . , 2 .", "[invalid]", "2", "#### 2", {0, 1}},
        {"-$12", "[invalid]", "-$12", "#### -12", {0, 1}},
        {"nothing", "[invalid]", "[invalid]", "#### [invalid]", {1, 1}},
        {"#### 5", "5", "5", "1 #### 2 #### 5.\n", {0, 0}},
        {"#### 5", "5", "5", "1 #### 2 #### 5.", {1, 1}},
        {"#### 5..", "5..", "5..", "#### 5.", {0, 0}},
        {"", "[invalid]", "[invalid]", "", {0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found[2] = {task_answer_strict(cases[i].text), task_answer_flexible(cases[i].text)};
        assert_string_equal(found[0], cases[i].strict);
        assert_string_equal(found[1], cases[i].flexible);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(task_answer_is(found[k], cases[i].answer), cases[i].right[k]);
            free(found[k]);
        }
    }
}

/* ---- questions */

static const struct task *task_of(const char *name)
{
    for (int i = 0; i < task_table_n; i++)
        if (!strcmp(task_table[i].name, name)) return &task_table[i];
    fail();
    return NULL;
}

/* A line of a task: its text, its choices joined by |, its target, its letter; or what is said of
 * it. */
static void read_as(const char *task, const char *line, const char *want)
{
    char got[1024] = "";
    struct task_item it = {0};
    json_t *doc = json_loads(line, 0, NULL);
    assert_non_null(doc);
    if (task_of(task)->read(doc, &it, &e)) {
        snprintf(got, sizeof got, "%s", e.msg);
    } else {
        snprintf(got, sizeof got, "%s", it.text ? it.text : "-");
        for (int i = 0; i < it.n_choices; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "|%s%s", i == it.gold ? "*" : "",
                     it.choice[i]);
        if (it.target) snprintf(got + strlen(got), sizeof got - strlen(got), "=%s", it.target);
        if (it.letter) snprintf(got + strlen(got), sizeof got - strlen(got), "=%s", it.letter);
    }
    assert_string_equal(got, want);
    task_item_free(&it);
    json_decref(doc);
}

static void questions_are_read(void **state)
{
    (void)state;
    read_as("mmlu", "{\"question\":\" Why? \",\"choices\":[\"a\",\"b \",\"\",\"d\"],\"answer\":2}",
            "Why?\nA. a\nB. b \nC. \nD. d\nAnswer:|A|B|*C|D");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\",\"b\",\"c\",\"d\"],\"answer\":\"B\"}",
            "Q\nA. a\nB. b\nC. c\nD. d\nAnswer:|A|*B|C|D=B");
    read_as("hellaswag",
            "{\"activity_label\":\"Sewing\",\"ctx_a\":\"A man sews.\",\"ctx_b\":\"the MAN\","
            "\"endings\":[\"[substeps] sits. \",\"b\",\"c\",\"d\"],\"label\":\"3\"}",
            "Sewing: A man sews. The man| sits.|b|c|*d");
    read_as("hellaswag",
            "{\"activity_label\":\"S\",\"ctx_a\":\"[header] How [title] So.\",\"ctx_b\":\"\","
            "\"endings\":[\"a\",\"b\",\"c\",\"d\"],\"label\":0}",
            "S: How. So.|*a|b|c|d");
    read_as("piqa", "{\"goal\":\"Sew.\",\"sol1\":\"a \",\"sol2\":\"b\",\"label\":1}",
            "Question: Sew.\nAnswer:|a |*b");
    read_as("winogrande",
            "{\"sentence\":\"The cat saw _ and _ ran.\",\"option1\":\"a\",\"option2\":\"b\","
            "\"answer\":\"1\"}",
            "-|*The cat saw a|The cat saw b=and _ ran.");
    read_as("arc_easy",
            "{\"id\":\"x\",\"question\":\"Why?\",\"choices\":{\"text\":[\"p\",\"q\",\"r\"],"
            "\"label\":[\"1\",\"2\",\"3\"]},\"answerKey\":\"2\"}",
            "Question: Why?\nAnswer:|p|*q|r");
    read_as("arc_challenge_letters",
            "{\"query\":\"Question: Why?\",\"choices\":[\"p\",\"q\",\"r\"],\"gold\":2}",
            "Why?\nA. p\nB. q\nC. r\nAnswer:|A|B|*C");
    read_as("gsm8k", "{\"question\":\"1+1?\",\"answer\":\"<<1+1=2>>2\\n#### 2\"}",
            "Question: 1+1?\nAnswer:=<<1+1=2>>2\n#### 2");
}

static void wrong_fields_are_named(void **state)
{
    (void)state;
    read_as("mmlu", "{\"question\":1,\"choices\":[],\"answer\":0}", "\"question\" is not a string");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\"],\"answer\":0}",
            "\"choices\" is not a list of 4 texts");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\",\"b\",\"c\",4],\"answer\":0}",
            "text 4 of \"choices\" is not a string");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\",\"b\",\"c\",\"d\"],\"answer\":4}",
            "\"answer\" is none of the answers 0 to 3");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\",\"b\",\"c\",\"d\"],\"answer\":\"E\"}",
            "\"answer\" is none of the answers 0 to 3");
    read_as("mmlu", "{\"question\":\"Q\",\"choices\":[\"a\",\"b\",\"c\",\"d\"],\"answer\":1.0}",
            "\"answer\" is none of the answers 0 to 3");
    read_as("hellaswag", "{\"ctx_a\":\"\"}", "has no \"activity_label\"");
    read_as("hellaswag",
            "{\"activity_label\":\"S\",\"ctx_a\":\"a\",\"ctx_b\":\"\","
            "\"endings\":[\"a\",\"b\",\"c\",\"d\"],\"label\":\"\"}",
            "\"label\" is none of the answers 0 to 3");
    read_as("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":-1}",
            "\"label\" is none of the answers 0 to 1");
    read_as("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"label\":1}", "has no \"sol2\"");
    read_as("winogrande",
            "{\"sentence\":\"x\",\"option1\":\"a\",\"option2\":\"b\",\"answer\":\"1\"}",
            "\"sentence\" has no \"_\"");
    read_as("winogrande",
            "{\"sentence\":\"_\",\"option1\":\"a\",\"option2\":\"b\",\"answer\":\"\"}",
            "\"answer\" is none of the answers 1 to 2");
    read_as("arc_easy", "{\"question\":\"q\",\"choices\":[\"a\"],\"answerKey\":\"A\"}",
            "\"choices\" is not an object");
    read_as("arc_easy",
            "{\"question\":\"q\",\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\"]},"
            "\"answerKey\":\"A\"}",
            "\"choices.label\" is not a list of 2 texts");
    read_as("arc_easy",
            "{\"question\":\"q\",\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\",\"B\"]},"
            "\"answerKey\":\"C\"}",
            "\"answerKey\" is none of \"choices.label\"");
    read_as("gsm8k", "{\"question\":\"q\",\"answer\":[]}", "\"answer\" is not a string");
}

static void names_mean_tasks(void **state)
{
    (void)state;
    struct exam_list l;
    static const int sizes[TASK_GROUPS] = {
        [TASK_STEM] = 19, [TASK_OTHER] = 13, [TASK_SOCIAL_SCIENCES] = 12, [TASK_HUMANITIES] = 13};
    assert_int_equal(exam_list_open(&l, "mmlu,piqa,mmlu_anatomy,mmlu_stem", &e), 0);
    assert_int_equal(l.n, 58);
    assert_true(l.all && l.group[TASK_HUMANITIES]);
    exam_list_close(&l);
    for (int g = 0; g < TASK_GROUPS; g++) {
        assert_int_equal(exam_list_open(&l, task_groups[g].name, &e), 0);
        assert_int_equal(l.n, sizes[g]);
        assert_true(l.group[g] && !l.all);
        exam_list_close(&l);
    }
    assert_int_equal(exam_list_open(&l, "mmlu_world_religions,gsm8k", &e), 0);
    assert_true(l.n == 2 && !l.all && !l.group[TASK_HUMANITIES]);
    exam_list_close(&l);
    static const char *const unknown[] = {"",     "piqa,",  "mmlu_", "mmlu_anatomies",
                                          "PIQA", "anatomy"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_int_equal(exam_list_open(&l, unknown[i], &e), -1);
        assert_non_null(strstr(e.msg, "is none of mmlu, hellaswag"));
    }
}

/* ---- files and examples */

static char dir[] = "/tmp/opt4gptq-unit-eval-XXXXXX";

static void write_lines(const char *name, int n, const char *format)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < n; i++)
        for (const char *c = format; *c; c++)
            if (*c == '#') fprintf(f, "%d", i);
            else fputc(*c, f);
    assert_int_equal(fclose(f), 0);
}

static void drop(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

static const char piqa[] = "{\"goal\":\"#\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":0}\n",
                  gsm8k[] = "{\"question\":\"#\",\"answer\":\"#### #\"}\n";

static int open_exam(struct exam *x, struct task_data *d, const char *task, int n_examples)
{
    struct exam_ask ask = {task_of(task), NULL, n_examples, 0};
    assert_int_equal(task_data_open(d, dir, &e), 0);
    return exam_open(x, d, &ask, &e);
}

static void close_exam(struct exam *x, struct task_data *d)
{
    exam_close(x);
    task_data_close(d);
}

static void refused(const char *task, int n_examples, const char *why)
{
    struct exam x;
    struct task_data d;
    assert_int_equal(open_exam(&x, &d, task, n_examples), -1);
    if (!strstr(e.msg, why)) fail_msg("%s, not %s", e.msg, why);
    close_exam(&x, &d);
}

static void expect_examples(const char *task, int n, int n_questions, const int *want)
{
    struct exam x;
    struct task_data d;
    if (open_exam(&x, &d, task, n)) fail_msg("%s", e.msg);
    assert_int_equal(x.n, n_questions);
    for (int q = 0; q < n_questions; q++)
        for (int i = 0; i < n; i++) assert_int_equal(x.question[q].example[i], want[q * n + i]);
    close_exam(&x, &d);
}

static void examples_are_drawn(void **state)
{
    (void)state;
    static const int from_training[] = {28, 7, 0, 5, 37, 2, 5, 6, 22, 15, 1, 22, 39, 30, 29},
                     but_itself[] = {3, 4, 5, 2, 5, 0, 4, 3, 0, 5, 4, 1,
                                     4, 1, 0, 2, 5, 0, 2, 1, 1, 0, 3, 4},
                     copies[] = {4, 5, 5, 4, 4, 5, 5, 4, 0, 1, 0, 4};
    write_lines("gsm8k_test.jsonl", 3, gsm8k);
    refused("gsm8k", 5, "5 examples: no file gsm8k_train.jsonl in ");
    write_lines("gsm8k_train.jsonl", 40, gsm8k);
    expect_examples("gsm8k", 5, 3, from_training);
    expect_examples("gsm8k", -1, 3, from_training);
    refused("gsm8k", 41, "41 examples: ");
    drop("gsm8k_train.jsonl");
    write_lines("gsm8k_train.jsonl", 0, "");
    refused("gsm8k", 1, "gsm8k_train.jsonl has 0");
    write_lines("piqa_validation.jsonl", 6, piqa);
    expect_examples("piqa", 4, 6, but_itself);
    refused("piqa", 6, "6 examples and the question itself: ");
    drop("piqa_validation.jsonl");
    /* all lines are equal but the last two */
    write_lines("piqa.jsonl", 4, "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":0}\n");
    write_lines("more", 2, piqa);
    char command[1100];
    snprintf(command, sizeof command, "cat %s/more >>%s/piqa.jsonl", dir, dir);
    assert_int_equal(system(command), 0);
    expect_examples("piqa", 2, 6, copies);
    refused("piqa", 3, "3 examples and the question itself: ");
    write_lines("piqa_val.json", 1, piqa);
    refused("piqa", 0, "both may be meant");
}

static void bad_files_are_named(void **state)
{
    (void)state;
    struct task_data d;
    write_lines("winogrande.jsonl", 1, "\n{\"sentence\": \"a\"}\n");
    refused("winogrande", 0, "winogrande.jsonl line 2: has no \"option1\"");
    write_lines("winogrande.jsonl", 1, "[1]\n");
    refused("winogrande", 0, "winogrande.jsonl line 1: is not a JSON object");
    write_lines("winogrande.jsonl", 1, "{\"a\": 1\n");
    refused("winogrande", 0, "winogrande.jsonl line 1: not JSON");
    write_lines("winogrande.jsonl", 1, "\n");
    refused("winogrande", 0, "winogrande.jsonl: has no questions");
    refused("hellaswag", 0, "hellaswag: no file hellaswag_validation.jsonl in ");
    assert_int_equal(task_data_open(&d, "/nowhere/at/all", &e), -1);
    assert_non_null(strstr(e.msg, "--eval-data /nowhere/at/all"));
}

static void subjects_have_files_or_fields(void **state)
{
    (void)state;
    static const char line[] =
        "{\"question\":\"#\",\"choices\":[\"a\",\"b\",\"c\",\"d\"],\"answer\":0%s}\n";
    char with[256], other[256];
    struct exam x;
    struct task_data d;
    snprintf(with, sizeof with, line, ",\"subject\":\"anatomy\"");
    snprintf(other, sizeof other, line, ",\"subject\":\"virology\"");
    char both[800];
    snprintf(both, sizeof both, "%s%s%s", other, with, other);
    write_lines("mmlu_test.jsonl", 3, both);
    write_lines("mmlu_dev.jsonl", 2, both);
    struct exam_list l;
    assert_int_equal(exam_list_open(&l, "mmlu_anatomy", &e), 0);
    l.ask[0].n_examples = 2;
    assert_int_equal(task_data_open(&d, dir, &e), 0);
    assert_int_equal(exam_open(&x, &d, &l.ask[0], &e), 0);
    assert_int_equal(x.n, 3);
    assert_int_equal(x.docs.doc[0]->line, 2);
    assert_string_equal(x.name, "mmlu_anatomy");
    same(exam_context(&x, 1, 0, &e),
         "The following are multiple choice questions (with answers) about anatomy.\n\n"
         "0\nA. a\nB. b\nC. c\nD. d\nAnswer: A\n\n1\nA. a\nB. b\nC. c\nD. d\nAnswer: A\n\n"
         "1\nA. a\nB. b\nC. c\nD. d\nAnswer:");
    same(exam_continuation(&x, 1, 3, &e), " D");
    same(exam_target(&x, 1, &e), "0");
    assert_non_null(x.question[1].item.letter = strdup("A"));
    same(exam_target(&x, 1, &e), "A");
    close_exam(&x, &d);
    l.ask[0].n_examples = 3;
    assert_int_equal(task_data_open(&d, dir, &e), 0);
    assert_int_equal(exam_open(&x, &d, &l.ask[0], &e), -1);
    assert_non_null(strstr(e.msg, "mmlu_anatomy: 3 examples: "));
    close_exam(&x, &d);
    write_lines("mmlu_anatomy_test.jsonl", 1, other);
    assert_int_equal(task_data_open(&d, dir, &e), 0);
    assert_int_equal(exam_open(&x, &d, &l.ask[0], &e), -1);
    assert_non_null(strstr(e.msg, "line 1: is of subject virology"));
    close_exam(&x, &d);
    exam_list_close(&l);
}

/* ---- numbers */

static void denominators_are_torchs(void **state)
{
    (void)state;
    enum { N = 8195 };
    static float x[N];
    double exact = 0;
    uint32_t seed = 1;
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 524288.0f - 30.0f;
    }
    x[77] = 2.5f;
    for (int i = 0; i < N; i++) exact += exp((double)x[i] - 2.5);
    float got = fp32_softmax_log_sum(x, N, 2.5f);
    assert_float_equal(got, log(exact), 2e-6);
    assert_float_equal(fp32_softmax_log_sum(x + 77, 1, 2.5f), 0, 0);
    x[3] = -INFINITY;
    assert_float_equal(fp32_softmax_log_sum(x, N, 2.5f), log(exact), 2e-6);
    /* small terms beside a large one in its lane are lost, as in torch */
    for (int i = 0; i < N; i++) x[i] = -17;
    x[16] = 0;
    double left = 1 + (double)(N - N / 16 - 1) * exp(-17.0);
    assert_float_equal(fp32_softmax_log_sum(x, N, 0), log(left), 1e-6);
}

/* ---- lm-evaluation-harness's own answers */

static int open_shared(struct tokenizer **t, json_t **cases)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    char path[600], *text[2] = {0};
    size_t n[2] = {0};
    snprintf(path, sizeof path, "%s/data/lm_eval/edge-cases.json", SHARED_DIR);
    *cases = json_load_file(path, 0, NULL);
    if (!*cases) return -1;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/models/wiki-g128/%s", SHARED_DIR, names[i]);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        size_t cap = 0;
        ssize_t got = getdelim(&text[i], &cap, 0, f);
        assert_true(got > 0);
        n[i] = (size_t)got;
        fclose(f);
    }
    struct tok_source s = {
        .json = text[0], .json_bytes = n[0], .config = text[1], .config_bytes = n[1]};
    int rc = tok_open(t, &s, &e);
    free(text[0]), free(text[1]);
    return rc;
}

static void expect_ids(const int32_t *id, size_t n, const json_t *want)
{
    assert_int_equal(n, json_array_size(want));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(id[i], json_integer_value(json_array_get(want, i)));
}

static void edge_cases_agree(void **state)
{
    (void)state;
    struct tokenizer *t;
    json_t *cases, *c;
    size_t at;
    if (open_shared(&t, &cases)) {
        printf("SKIP no %s/data/lm_eval\n", SHARED_DIR);
        skip();
    }
    json_array_foreach (json_object_get(cases, "pairs"), at, c) {
        struct tok_ids ids = {0};
        int from;
        const json_t *want = json_object_get(c, "wiki-g128"),
                     *context = json_object_get(want, "context_ids");
        assert_int_equal(exam_encode_pair(t, json_string_value(json_object_get(c, "context")),
                                          json_string_value(json_object_get(c, "continuation")),
                                          &ids, &from, &e),
                         0);
        if (json_array_size(context) == 1 && from > 1) /* of a long one their number */
            assert_int_equal(from, json_integer_value(json_array_get(context, 0)));
        else expect_ids(ids.id, (size_t)from, context);
        expect_ids(ids.id + from, ids.n - (size_t)from, json_object_get(want, "continuation_ids"));
        tok_ids_free(&ids);
    }
    json_array_foreach (json_object_get(cases, "answers"), at, c) {
        const char *text = json_string_value(json_object_get(c, "generated")),
                   *answer = json_string_value(json_object_get(c, "answer_field"));
        char *found[2] = {task_answer_strict(text), task_answer_flexible(text)};
        for (int i = 0; i < 2; i++) {
            assert_string_equal(found[i],
                                json_string_value(json_object_get(c, i ? "flexible" : "strict")));
            assert_int_equal(
                task_answer_is(found[i], answer),
                json_integer_value(json_array_get(json_object_get(c, "exact_match"), (size_t)i)));
            free(found[i]);
        }
    }
    json_array_foreach (json_object_get(json_object_get(cases, "sampling"), "draws"), at, c) {
        struct python_random r;
        const json_t *list, *lists = json_object_get(c, "lists");
        int n = (int)json_integer_value(json_object_get(c, "n")),
            k = (int)json_integer_value(json_object_get(c, "k"));
        int32_t got[64];
        size_t i;
        assert_true(k <= 64);
        python_random_seed(&r, (uint64_t)json_integer_value(json_object_get(c, "seed")));
        json_array_foreach (lists, i, list) {
            assert_int_equal(python_random_sample(&r, n, k, got, &e), 0);
            expect_ids(got, (size_t)k, list);
        }
    }
    tok_close(t);
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_pythons),
        cmocka_unit_test(documents_are_written_as_by_python),
        cmocka_unit_test(texts_change_as_in_python),
        cmocka_unit_test(answers_are_found_as_by_the_filters),
        cmocka_unit_test(questions_are_read),
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(names_mean_tasks),
        cmocka_unit_test(examples_are_drawn),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(subjects_have_files_or_fields),
        cmocka_unit_test(denominators_are_torchs),
        cmocka_unit_test(edge_cases_agree),
    };
    if (!mkdtemp(dir)) return perror(dir), 2;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    char command[600];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) ? 2 : rc;
}
