#include "convert/notes.h"

#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>

/* Formats through struct err, which removes control characters of hostile names. */
static void say(const char *frame, const char *fmt, va_list ap)
{
    char text[400];
    struct err line;
    vsnprintf(text, sizeof text, fmt, ap);
    err_set(&line, "%s", text);
    fprintf(stderr, "opt4gptq-convert: %s%s\n", frame, line.msg);
}

void note_info(const struct notes *n, const char *fmt, ...)
{
    if (n->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void note_detail(const struct notes *n, const char *fmt, ...)
{
    if (n->quiet || !n->verbose) return;
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void note_warn(const struct notes *n, const char *fmt, ...)
{
    if (n->silent) return;
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

const char *note_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 999.5 && u < 4; u++) x /= 1000;
    snprintf(text, 32, "%.*f %s", !u || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2, x, units[u]);
    return text;
}

const char *note_seconds(double s, char text[32])
{
    double ms = 1000 * s;
    if (ms < 999.5) snprintf(text, 32, "%.0f ms", ms < 1 ? 1 : ms);
    else if (s < 599.5) snprintf(text, 32, "%.*f s", s < 99.95 ? 1 : 0, s);
    else snprintf(text, 32, "%.0f min", s / 60);
    return text;
}
