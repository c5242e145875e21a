#include "cli/modes/batch/refusal.h"

#include <stdio.h>

int refuse(struct refusal *why, const char *field, const char *text)
{
    why->field = field;
    if (field) err_set(&why->why, "%s: %s", field, text);
    else err_set(&why->why, "%s", text);
    return 1;
}

int refuse_at(struct refusal *why, const char *field, const char *place, const char *fmt,
              va_list values)
{
    char text[300];
    vsnprintf(text, sizeof text, fmt, values);
    why->field = field;
    err_set(&why->why, "%s%s", place, text);
    return 1;
}
