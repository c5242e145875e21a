#include "core/base/printable.h"

#include <stdio.h>
#include <string.h>

/* Bytes of the control character that begins TEXT [n]; 0: it is none. */
static size_t control(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x20 || p[0] == 0x7f) return 1;
    if (p[0] == 0xc2 && n > 1 && p[1] >= 0x80 && p[1] < 0xa0) return 2;
    if (p[0] != 0xe2 || n < 3) return 0;
    return (p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) ||
                   (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)
               ? 3
               : 0;
}

void printable_bytes(char *text, size_t n)
{
    for (size_t at = 0, bytes; at < n; at += bytes ? bytes : 1)
        if ((bytes = control(text + at, n - at))) memset(text + at, '?', bytes);
}

void err_printable(char *s) { printable_bytes(s, strlen(s)); }

const char *printable_text(const char *text, char room[PRINTABLE])
{
    snprintf(room, PRINTABLE, "%s", text);
    printable_bytes(room, strlen(room));
    return room;
}

int printable_obeyed(const char *text, size_t n, size_t *bytes)
{
    *bytes = control(text, n);
    return *bytes && *bytes < 3 && *text != '\n' && *text != '\t';
}
