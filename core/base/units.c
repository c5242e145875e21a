#include "core/base/units.h"

#include <stdio.h>

const char *units_bytes(uint64_t bytes, char text[UNITS_TEXT])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 999.5 && u < 4; u++) x /= 1000;
    snprintf(text, UNITS_TEXT, "%.*f %s", !u || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2, x, units[u]);
    return text;
}

const char *units_seconds(double s, char text[UNITS_TEXT])
{
    double ms = 1000 * s;
    if (ms < 999.5) snprintf(text, UNITS_TEXT, "%.0f ms", ms < 1 ? 1 : ms);
    else if (s < 599.5) snprintf(text, UNITS_TEXT, "%.*f s", s < 99.95 ? 1 : 0, s);
    else snprintf(text, UNITS_TEXT, "%.0f min", s / 60);
    return text;
}
