/* unit_outputs.c: no file that an option names is written over by another option: every option of
 * the table that writes against every one that reads or writes; permissions of files that are
 * replaced; what a terminal may have of strangers' texts. */
#include "bench/options.h"
#include "cli/modes/batch/durable.h"
#include "cli/text/out.h"
#include "cli/outputs.h"
#include "core/base/file.h"
#include "core/base/printable.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/opt4gptq-outputs-XXXXXX";

/* NAME in the test's folder; with BYTES a file of these. */
static const char *in_dir(char path[128], const char *name, const char *bytes)
{
    snprintf(path, 128, "%s/%s", dir, name);
    FILE *f = bytes ? fopen(path, "w") : NULL;
    if (f) fputs(bytes, f);
    if (f) fclose(f);
    return path;
}

static void set(struct options *o, const struct args_row *r, const char *path)
{
    assert_int_equal(r->kind, ARGS_IS_TEXT);
    *(const char **)((char *)o + r->offset) = path;
}

/* What outputs_check says when A writes PATH_A and B has PATH_B. */
static int checked(const struct args_row *a, const char *path_a, const struct args_row *b,
                   const char *path_b, struct err *e)
{
    static char *argv[] = {"run"};
    struct options o;
    assert_int_equal(options_parse(&o, 1, argv, e), 0);
    set(&o, a, path_a);
    set(&o, b, path_b);
    return outputs_check(&o, e);
}

/* A and B on one file, under its name and under a link's, and B on each file that comes with A's. */
static void one_file(const struct args_row *a, const struct args_row *b)
{
    char file[128], link[128], other[128], beside[256];
    struct err e;
    in_dir(file, "file", "x");
    in_dir(link, "link", NULL);
    in_dir(other, "other", NULL);
    if (checked(a, file, b, other, &e)) fail_msg("%s %s: %s", a->names[0], b->names[0], e.msg);
    if (!checked(a, file, b, file, &e)) fail_msg("%s %s", a->names[0], b->names[0]);
    if (!strstr(e.msg, a->names[0])) fail_msg("%s: %s", a->names[0], e.msg);
    assert_non_null(strstr(e.msg, b->names[0]));
    if (!checked(a, file, b, link, &e)) fail_msg("%s %s by a link", a->names[0], b->names[0]);
    for (const char *at = a->beside ? a->beside : ""; *at; at += strspn(at, " ")) {
        int n = (int)strcspn(at, " ");
        snprintf(beside, sizeof beside, "%s%.*s", file, n, at);
        if (!checked(a, file, b, beside, &e))
            fail_msg("%s's %.*s and %s", a->names[0], n, at, b->names[0]);
        at += n;
    }
}

static void no_output_is_an_input(void **state)
{
    (void)state;
    const struct args_row *rows = run_program.rows;
    char file[128], link[128];
    int n_reads = 0, n_writes = 0;
    in_dir(file, "file", "x");
    in_dir(link, "link", NULL);
    assert_int_equal(symlink(file, link), 0);
    for (int i = 0; i < run_program.n_rows; i++) {
        n_reads += rows[i].file == ARGS_READS;
        n_writes += rows[i].file == ARGS_WRITES;
        for (int k = 0; k < run_program.n_rows && rows[i].file == ARGS_WRITES; k++)
            if (k != i && rows[k].file != ARGS_NO_FILE) one_file(&rows[i], &rows[k]);
    }
    assert_true(n_reads >= 10 && n_writes >= 5);
}

/* Two names of one file, where a file system does not tell upper from lower case. */
static void names_differ_in_more_than_case(void **state)
{
    (void)state;
    char answers[128], report[128], beside[128], other[128], here[128];
    struct args_row const *o = NULL, *r = NULL;
    struct err e;
    for (int i = 0; i < run_program.n_rows; i++) {
        const char *name = run_program.rows[i].names[0];
        if (name && !strcmp(name, "-o")) o = &run_program.rows[i];
        if (name && !strcmp(name, "--report")) r = &run_program.rows[i];
    }
    assert_true(o && r);
    in_dir(answers, "Answers", NULL);
    in_dir(report, "ANSWERS", NULL);
    in_dir(beside, "answers.Journal", NULL);
    in_dir(other, "answers2", NULL);
    assert_int_equal(checked(o, answers, r, report, &e), -1);
    assert_non_null(strstr(e.msg, "where upper and lower case are one"));
    assert_int_equal(checked(o, answers, r, beside, &e), -1);
    assert_int_equal(checked(o, answers, r, other, &e), 0);
    in_dir(here, "here", "x"); /* a file that is there is told by itself */
    in_dir(report, "HERE", NULL);
    assert_int_equal(checked(o, here, r, report, &e), 0);
}

/* An option whose value is shown as a file says whether it is read or written. */
static void rows_say_what_becomes_of_files(void **state)
{
    (void)state;
    const struct args_program *programs[] = {&run_program, &bench_program};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < programs[p]->n_rows; i++) {
            const struct args_row *r = &programs[p]->rows[i];
            int shown = r->arg && (!strcmp(r->arg, "FILE") || !strcmp(r->arg, "PATH"));
            if (shown != (r->file != ARGS_NO_FILE)) fail_msg("%s %s", r->names[0], r->arg);
            if (r->names[0] && strstr(r->names[0], "-file") && !shown) fail_msg("%s", r->names[0]);
        }
}

/* A command of a conversation writes none of them, either. */
static void commands_write_no_input(void **state)
{
    (void)state;
    static char *argv[] = {"run"};
    char file[128], other[128];
    in_dir(file, "file", "x");
    in_dir(other, "new", NULL);
    for (int i = 0; i < run_program.n_rows; i++) {
        struct options o;
        struct err e;
        if (run_program.rows[i].file == ARGS_NO_FILE) continue;
        assert_int_equal(options_parse(&o, 1, argv, &e), 0);
        set(&o, &run_program.rows[i], file);
        assert_int_equal(outputs_check_one(&o, "/save", other, &e), 0);
        assert_int_equal(outputs_check_one(&o, "/save", file, &e), -1);
        assert_non_null(strstr(e.msg, "/save"));
    }
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void permissions_are_kept(void **state)
{
    (void)state;
    static const unsigned modes[] = {0600, 0644, 0640, 0400, 0666, 0755};
    char old[128], new[128];
    struct err e;
    int fd;
    in_dir(old, "old", "x");
    in_dir(new, "new", NULL);
    mode_t mask = umask(022);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(old, modes[i]), 0);
        assert_int_equal(dur_create(&fd, new, old, &e), 0);
        close(fd);
        assert_int_equal(mode_of(new), modes[i]);
        assert_int_equal(unlink(new), 0);
    }
    umask(077);
    assert_int_equal(dur_create(&fd, new, dir, &e), 0); /* no regular file: as any new one */
    close(fd);
    assert_int_equal(mode_of(new), 0600);
    umask(mask);
    assert_int_equal(unlink(new), 0);
}

/* A leftover of the name, also a link, makes room, and no message of it remains. */
static void leftovers_say_nothing(void **state)
{
    (void)state;
    char part[128], victim[128];
    int fd;
    in_dir(victim, "victim", "kept");
    for (int link = 0; link < 2; link++) {
        struct err e = {0};
        in_dir(part, "part", link ? NULL : "stale");
        if (link) assert_int_equal(symlink(victim, part), 0);
        assert_int_equal(dur_create(&fd, part, NULL, &e), 0);
        close(fd);
        assert_string_equal(e.msg, "");
        assert_int_equal(unlink(part), 0);
    }
    FILE *f = fopen(victim, "r");
    char text[8] = "";
    assert_non_null(f);
    assert_int_equal(fread(text, 1, 7, f), 4);
    fclose(f);
    assert_string_equal(text, "kept");
}

/* No byte that a terminal obeys is left of strangers' texts, in messages and beside them. */
static void nothing_raw_is_shown(void **state)
{
    (void)state;
    static const char hostile[] = "a\x1b[31m\r\n\t\x07\x7f\xc2\x9b"
                                  "5m\xc2\x80 gr\xc3\xbc\xc3\x9f\xc2\xa0.";
    static const char clean[] = "a?[31m????" "?" "??5m?? gr\xc3\xbc\xc3\x9f\xc2\xa0.";
    char room[PRINTABLE];
    struct err e;
    struct out o = {0};
    assert_string_equal(printable_text(hostile, room), clean);
    err_set(&e, "%s", hostile);
    assert_string_equal(e.msg, clean);
    err_prefix(&e, "%s", hostile);
    assert_true(!strncmp(e.msg, clean, strlen(clean)) && !strpbrk(e.msg, "\x1b\r\n\t\x7f"));
    out_shown(&o, hostile, strlen(hostile));
    out_bytes(&o, "", 1);
    assert_string_equal(o.p, "a^[[31m^M\n\t^G^?<U+009B>5m<U+0080> gr\xc3\xbc\xc3\x9f\xc2\xa0.");
    out_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_output_is_an_input),
        cmocka_unit_test(names_differ_in_more_than_case),
        cmocka_unit_test(rows_say_what_becomes_of_files),
        cmocka_unit_test(commands_write_no_input),
        cmocka_unit_test(permissions_are_kept),
        cmocka_unit_test(leftovers_say_nothing),
        cmocka_unit_test(nothing_raw_is_shown),
    };
    char command[128];
    if (!mkdtemp(dir)) return 2;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) ? 2 : rc;
}
