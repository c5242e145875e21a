/* unit_options.c: the names of the options of opt4gptq-run and opt4gptq-bench: exact and whole,
 * with dashes or underscores, never abbreviated or combined. */
#include "bench/llama_bench_names.h"
#include "bench/options.h"
#include "cli/llama_names.h"
#include "cli/vllm_names.h"
#include "cli/options.h"
#include "core/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_NAMES = 1024, NAME = 64 };

struct names {
    char name[MAX_NAMES][NAME];
    int n, n_own; /* the program's own names come first */
};

static int is_name(const struct names *all, const char *word)
{
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->name[i], word)) return 1;
    return 0;
}

/* Each name once. */
static void add(struct names *all, const char *word, size_t n)
{
    char name[NAME];
    assert_true(n < sizeof name && all->n < MAX_NAMES);
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (is_name(all, name)) fail_msg("%s is there twice", name);
    strcpy(all->name[all->n++], name);
}

/* The names in the help of a program: at the beginning of a line or after a comma. */
static void read_help(struct names *all, const struct args_program *program)
{
    FILE *f = tmpfile();
    char line[256];
    assert_non_null(f);
    args_help(program, f);
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "  ", 2) || line[2 + strspn(line + 2, " ")] != '-' ||
            strspn(line, " ") > 6)
            continue;
        for (const char *p = line + strspn(line, " "); *p == '-';) {
            size_t n = strcspn(p, ", \n");
            add(all, p, n);
            p += n;
            p += *p == ',' ? 2 : 0;
        }
    }
    fclose(f);
    all->n_own = all->n;
}

static void read_others(struct names *all, const struct args_other *o)
{
    for (; o->names; o++)
        for (const char *p = o->names; *p; p += strspn(p, " ")) {
            if (*p == '-') add(all, p, strcspn(p, " ")); /* others are words */
            p += strcspn(p, " ");
        }
}

static int parse_run(int argc, char **argv, struct err *e)
{
    struct options o;
    return options_parse(&o, argc, argv, e);
}

static int parse_bench(int argc, char **argv, struct err *e)
{
    struct bench_options o;
    return bench_options_parse(&o, argc, argv, e);
}

static int parse(int (*program)(int, char **, struct err *), const char *word, struct err *e)
{
    char *argv[] = {"program", (char *)word, "1", "-h", NULL};
    *e = (struct err){0};
    return program(4, argv, e);
}

static void check_names(const struct names *all, int (*program)(int, char **, struct err *))
{
    struct err e, f;
    for (int i = 0; i < all->n; i++) {
        const char *name = all->name[i];
        char word[NAME + 8];
        assert_true(name[0] == '-' && name[1]);
        int rc = parse(program, name, &e);
        if (rc && strstr(e.msg, "unknown option")) fail_msg("%s: %s", name, e.msg);
        /* with underscores it is the same */
        strcpy(word, name);
        for (char *p = word + 2; strlen(word) > 2 && *p; p++)
            if (*p == '-') *p = '_';
        if (!strncmp(name, "--", 2)) {
            if (parse(program, word, &f) != rc)
                fail_msg("%s: %s, %s: %s", name, e.msg, word, f.msg);
            assert_int_equal(strlen(e.msg), strlen(f.msg));
        }
        /* no prefix of it is an option, nor a longer word */
        for (size_t n = 2; n < strlen(name); n++) {
            snprintf(word, sizeof word, "%.*s", (int)n, name);
            if (is_name(all, word) || !strcmp(word, "--")) continue;
            if (!parse(program, word, &e)) fail_msg("'%s' is taken for %s", word, name);
        }
        snprintf(word, sizeof word, "%s5", name);
        if (!is_name(all, word)) assert_int_equal(parse(program, word, &e), -1);
    }
}

static void test_run(void **state)
{
    (void)state;
    static struct names all;
    read_help(&all, &run_program);
    assert_true(all.n_own > 70);
    read_others(&all, llama_names);
    assert_true(all.n > 500);
    read_others(&all, vllm_names);
    assert_true(all.n > 700);
    check_names(&all, parse_run);
}

static void test_bench(void **state)
{
    (void)state;
    static struct names all;
    read_help(&all, &bench_program);
    assert_true(all.n_own > 30);
    read_others(&all, llama_bench_names);
    check_names(&all, parse_bench);
}

/* The names that the help omits. */
static void test_spellings(void **state)
{
    (void)state;
    struct options o;
    struct err e;
    char *argv[] = {"run",
                    "--n-predict",
                    "3",
                    "--temperature=0.5",
                    "--in_file",
                    "f",
                    "--chunks=2",
                    "--multiple-choice-tasks",
                    "4",
                    "-bf",
                    "g",
                    "--input-file=i",
                    "--output_file",
                    "o",
                    "--log-verbose",
                    "--repetition_penalty",
                    "1.5",
                    "--no-escape"};
    assert_int_equal(options_parse(&o, 18, argv, &e), 0);
    assert_true(o.n_predict == 3 && o.sampling.temperature == 0.5 && o.n_windows == 2 &&
                o.n_limit == 4);
    assert_true(!strcmp(o.file, "g") && !strcmp(o.input, "i") && !strcmp(o.output, "o"));
    assert_true(o.verbose && o.sampling.repeat_penalty == 1.5 && o.no_escape &&
                o.given.n_notes == 0);
    assert_string_equal(options_given(&o, &o.file), "-bf");
    assert_string_equal(options_given(&o, &o.output), "--output-file");
    assert_null(options_given(&o, &o.model));
    assert_null(options_given(&o, &o.chat));
}

/* Options of two ways to run; the reason of one that has a reason. */
static void test_exclusions(void **state)
{
    (void)state;
    struct options o;
    struct bench_options b;
    struct err e;
    char *run[] = {"run", "-m", "x", "-p", "a", "-i", "b"},
         *probe[] = {"bench", "--probe", "-m", "x"};
    assert_int_equal(options_parse(&o, 7, run, &e), 0);
    assert_int_equal(args_check(&run_program, &o.given, &e), -1);
    assert_string_equal(e.msg, "-i and -p exclude each other");
    assert_int_equal(bench_options_parse(&b, 4, probe, &e), -1);
    assert_string_equal(e.msg, "--probe and -m exclude each other: --probe measures the machine");
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"1", 1},
                {"800M", 800ull << 20},
                {"6g", 6ull << 30},
                {"1.5G", 3ull << 29},
                {"8388607T", 8388607ull << 40}};
    uint64_t bytes;
    struct err e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(memory_parse(&bytes, good[i].text, &e), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const char *const bad[] = {
        "8388608T", "1e30T", "9223372036854775808", "-1", "0", "nan", "inf", "0.9", "", "5X"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(memory_parse(&bytes, bad[i], &e), -1);
}

/* Every option that a batch may have says what of its answers it decides, or that it decides
 * nothing: a batch is continued by the same options only. */
static void batches_know_what_options_decide(void **state)
{
    const unsigned batch = 1u << RUN_BATCH;
    int n = 0;
    (void)state;
    for (int i = 0; i < run_program.n_rows; i++) {
        const struct args_row *r = &run_program.rows[i];
        int is_common = r->offset < offsetof(struct options, common) + sizeof(struct args_common) &&
                        r->offset >= offsetof(struct options, common);
        if (!r->names[0] || is_common || (r->modes && !(r->modes & batch)) ||
            (r->chooses && r->chooses != RUN_BATCH))
            continue;
        n++;
        if (!r->decides) fail_msg("%s does not say what it decides", r->names[0]);
    }
    assert_true(n > 80);
}

/* A list holds ARGS_LIST values; one that comes again takes no room. */
static void lists_have_an_end(void **state)
{
    struct lists {
        struct args_ints ints;
        struct args_texts texts;
    };
    static const struct args_row rows[] = {{.names = {"--ints"},
                                            .arg = "N,..",
                                            .help = "h",
                                            .kind = ARGS_IS_INTS,
                                            .offset = offsetof(struct lists, ints),
                                            .lo = 0,
                                            .hi = 100},
                                           {.names = {"--texts"},
                                            .arg = "T,..",
                                            .help = "h",
                                            .kind = ARGS_IS_TEXTS,
                                            .offset = offsetof(struct lists, texts)}};
    static const struct args_program program = {.name = "p", .rows = rows, .n_rows = 2};
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int n = ARGS_LIST - 1; n <= ARGS_LIST + 1; n++) {
            struct lists l = {0};
            struct args_given g;
            struct err e = {0};
            char text[200] = "1,2", *argv[] = {"p", kind ? "--texts" : "--ints", text};
            for (int i = 1; i <= n; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), ",%d", i);
            int rc = args_parse(&program, &l, &g, 3, argv, &e);
            if (n <= ARGS_LIST) {
                assert_int_equal(rc, 0);
                assert_int_equal(kind ? l.texts.n : l.ints.n, n);
            } else if (!rc || !strstr(e.msg, "more than 16 values")) {
                fail_msg("%s: %s", argv[1], rc ? e.msg : "is taken");
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_an_end), cmocka_unit_test(batches_know_what_options_decide),
        cmocka_unit_test(test_run),          cmocka_unit_test(test_bench),
        cmocka_unit_test(test_spellings),    cmocka_unit_test(test_exclusions),
        cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
