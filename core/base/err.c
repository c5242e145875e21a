#include "core/base/err.h"

#include "core/base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void err_write(struct err *e, enum err_kind kind, const char *fmt, va_list ap)
{
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    err_printable(e->msg); /* a message may quote bytes of a hostile file */
    e->kind = kind;
}

int err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_write(e, ERR_OTHER, fmt, ap);
    va_end(ap);
    return -1;
}

/* The limit that a user may not know of, behind a message of memory. */
static void say_limit(struct err *e)
{
    struct rlimit all;
    size_t n = strlen(e->msg);
    if (e->kind != ERR_MEMORY || getrlimit(RLIMIT_AS, &all) || all.rlim_cur == RLIM_INFINITY)
        return;
    snprintf(e->msg + n, sizeof e->msg - n, " (ulimit -v lets this process have %.0f MiB)",
             (double)all.rlim_cur / (1 << 20));
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int code = errno;
    va_list ap;
    va_start(ap, fmt);
    err_write(e, code == ENOMEM ? ERR_MEMORY : ERR_OTHER, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s",
             code == ENOMEM ? "out of memory" : strerror(code));
    say_limit(e);
    return -1;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    err_write(e, e->kind, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old);
    return -1;
}

int err_memory(struct err *e) { return err_memory_for(e, "out of memory"); }

int err_memory_for(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_write(e, ERR_MEMORY, fmt, ap);
    va_end(ap);
    say_limit(e);
    return -1;
}

int err_is_memory(const struct err *e) { return e->kind == ERR_MEMORY; }

_Noreturn void check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "opt4gptq: internal error at %s:%d: %s\n", file, line, what);
    abort();
}
