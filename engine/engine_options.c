#include "engine/engine_options.h"

#include <stdarg.h>
#include <stdio.h>

void engine_note(const struct engine_options *o, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (o->note) o->note(o->note_arg, line);
}
