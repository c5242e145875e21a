#include "convert/notes.h"

#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>

/* Formats through struct err, which removes control characters of hostile names. */
static void say(const struct notes *n, const char *frame, const char *fmt, va_list ap)
{
    char text[400];
    struct err line;
    vsnprintf(text, sizeof text, fmt, ap);
    err_set(&line, "%s", text);
    fprintf(stderr, "%s: %s%s\n", n->program ? n->program : "opt4gptq-convert", frame, line.msg);
}

void note_info(const struct notes *n, const char *fmt, ...)
{
    if (n->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    say(n, "", fmt, ap);
    va_end(ap);
}

void note_detail(const struct notes *n, const char *fmt, ...)
{
    if (n->quiet || !n->verbose) return;
    va_list ap;
    va_start(ap, fmt);
    say(n, "", fmt, ap);
    va_end(ap);
}

void note_warn(const struct notes *n, const char *fmt, ...)
{
    if (n->silent) return;
    va_list ap;
    va_start(ap, fmt);
    say(n, "warning: ", fmt, ap);
    va_end(ap);
}
