#include "tests/harness.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int n_passed, n_failed, n_skipped;

void check(int ok, const char *what, const struct process *p)
{
    if (ok) {
        n_passed++;
        return;
    }
    n_failed++;
    printf("FAIL %s\n", what);
    if (p) printf("  exit %d\n  stdout: %.600s\n  stderr: %.600s\n", p->code, p->out, p->err);
}

void check_that(int ok, const char *format, ...)
{
    char what[4096];
    va_list v;
    va_start(v, format);
    vsnprintf(what, sizeof what, format, v);
    va_end(v);
    check(ok, what, NULL);
}

void skip(const char *format, ...)
{
    va_list v;
    n_skipped++;
    va_start(v, format);
    printf("SKIP ");
    vprintf(format, v);
    printf("\n");
    va_end(v);
}

/* Runs the command line; what it was (malloc'd). */
static char *shell(struct process *p, const char *format, va_list v)
{
    char *command;
    if (vasprintf(&command, format, v) < 0) exit(2);
    process_run(p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    return command;
}

int shell_code(const char *format, ...)
{
    struct process p;
    va_list v;
    va_start(v, format);
    free(shell(&p, format, v));
    va_end(v);
    int code = p.code;
    process_free(&p);
    return code;
}

void shell_ok(const char *format, ...)
{
    struct process p;
    va_list v;
    va_start(v, format);
    char *command = shell(&p, format, v);
    va_end(v);
    check(p.code == 0, command, &p);
    process_free(&p);
    free(command);
}

int report(const char *name)
{
    printf("%s: %d passed, %d failed, %d skipped\n", name, n_passed, n_failed, n_skipped);
    return n_failed != 0;
}

int lines(const char *s)
{
    int n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *p = malloc((size_t)size + 1);
    if (!p) exit(2);
    *n = fread(p, 1, (size_t)size, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) exit(2);
}

int same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = read_file(a, &n), *y = read_file(b, &m);
    int same = x && y && n == m && n && !memcmp(x, y, n);
    free(x);
    free(y);
    return same;
}

int has_terminal(void)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY), has = fd >= 0 && !grantpt(fd) && !unlockpt(fd);
    int end = has ? open(ptsname(fd), O_RDWR | O_NOCTTY) : -1;
    if (end >= 0) close(end);
    if (fd >= 0) close(fd);
    if (end < 0) skip("a terminal: no pseudo-terminal can be opened (is /dev/pts mounted?)");
    return end >= 0;
}
