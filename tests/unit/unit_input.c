/* unit_input.c: lines and rows of an input: line ends, a byte order mark, quoted cells, what is too
 * long; the same however the file is read. */
#include "cli/modes/batch/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 8 };

/* What TEXT [n] is read as; separator 0: lines. */
static void reads(const char *text, size_t n, char separator, const char *const want[MOST])
{
    struct input *in;
    struct input_line line;
    struct err e = {0};
    char path[40];
    int fd = memfd_create("in", 0), k = 0, rc;
    assert_int_equal(write(fd, text, n), n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (input_open(&in, path, NULL, &e)) fail_msg("%s", e.msg);
    for (int pass = 0; pass < 2; pass++) {
        if (separator) input_take_rows(in, separator);
        for (k = 0; (rc = input_next(in, &line, &e)) == 1; k++) {
            if (k == MOST || !want[k]) fail_msg("%.20s: more than %d rows", text, k);
            if (line.n != strlen(want[k]) || memcmp(line.text, want[k], line.n))
                fail_msg("row %d: '%.*s', not '%s'", k, (int)line.n, line.text, want[k]);
        }
        assert_int_equal(rc, 0);
        assert_true(k == MOST || !want[k]);
        assert_int_equal(input_rewind(in, &e), 0);
    }
    input_close(in);
    close(fd);
}

#define READS(text, separator, ...)                                                                \
    reads(text, sizeof(text) - 1, separator, (const char *const[MOST]){__VA_ARGS__})

static void lines(void **state)
{
    (void)state;
    READS("a\nb\n", 0, "a", "b");
    READS("a\r\n\r\n  \t\nb", 0, "a", "b");
    READS("\xef\xbb\xbf{\"a\":1}\n\xef\xbb\xbf{}\n", 0, "{\"a\":1}", "\xef\xbb\xbf{}");
    READS("\xef\xbb", 0, "\xef\xbb");
    READS("", 0, NULL);
}

/* A cell that begins with a quote goes on over line ends, behind a byte order mark, too. */
static void rows(void **state)
{
    (void)state;
    READS("a,b\n\"x\ny\",1\nz,2", ',', "a,b", "\"x\ny\",1", "z,2");
    READS("\xef\xbb\xbf\"a\nb\",c\n1,2\n", ',', "\"a\nb\",c", "1,2");
    READS("\xef\xbb\xbf"
          "a,\"b\n\"\n1,2\n",
          ',', "a,\"b\n\"", "1,2");
    READS("x\xef\"a\nb\n", ',', "x\xef\"a", "b"); /* a quote within a cell is none */
    READS("\"q\"\"\nq\"\tb\nc\td\n", '\t', "\"q\"\"\nq\"\tb", "c\td");
}

static void cells(void **state)
{
    static const struct {
        const char *text, *cell;
    } cases[] = {{"", ""},
                 {"a b", "a b"},
                 {"a,b", "\"a,b\""},
                 {"say \"x\"", "\"say \"\"x\"\"\""},
                 {"\xff", "\xef\xbf\xbd"},
                 {"\xc3\xa9\xc3", "\xc3\xa9\xef\xbf\xbd"},
                 {"\xff,\"", "\"\xef\xbf\xbd,\"\"\""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct out o = {0};
        size_t n = strlen(cases[i].text);
        char *own = malloc(n + 1); /* without a zero behind it */
        memcpy(own, cases[i].text, n);
        own[n] = (char)0x80;
        table_put_cell(&o, ',', own, n);
        out_bytes(&o, "", 1);
        assert_string_equal(o.p, cases[i].cell);
        free(own);
        out_free(&o);
    }
}

/* Ten lines, of which those in BAD are no text, and a row of JSON first where JSON is 1. */
static int is_refused(unsigned bad, int json)
{
    struct input *in;
    struct err e = {0};
    char path[40];
    int fd = memfd_create("in", 0), refused;
    for (int i = 0; i < 10; i++)
        dprintf(fd, "%s", bad >> i & 1 ? "a\xff\n" : json ? "{}\n" : "a\n");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (input_open(&in, path, NULL, &e)) fail_msg("%s", e.msg);
    refused = input_check_text(in, &e);
    assert_true(!refused || strstr(e.msg, "is not UTF-8 text: byte "));
    input_close(in);
    close(fd);
    return refused;
}

/* A text may have a bad line here and there, but not first, nor many; JSON may have any. */
static void texts_are_told_from_other_files(void **state)
{
    (void)state;
    assert_false(is_refused(0, 0));
    assert_false(is_refused(1 << 4, 0));
    assert_false(is_refused(3 << 4, 0));
    assert_true(is_refused(7 << 4, 0));
    assert_true(is_refused(1, 0));
    assert_false(is_refused(0x3fe, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(rows),
                                       cmocka_unit_test(cells),
                                       cmocka_unit_test(texts_are_told_from_other_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
