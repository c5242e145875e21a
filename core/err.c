#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages may quote bytes of hostile files: a control character must not reach the terminal. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}

int err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    make_printable(e->msg);
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int code = errno;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(code));
    make_printable(e->msg);
    return -1;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    make_printable(e->msg);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old);
    return -1;
}

int err_is_memory(const struct err *e) { return strstr(e->msg, "out of memory") != NULL; }

_Noreturn void check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "opt4gptq: internal error at %s:%d: %s\n", file, line, what);
    abort();
}
