#include "cli/text/out.h"

#include "core/base/printable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void out_free(struct out *o)
{
    free(o->p);
    *o = (struct out){0};
}

void out_clear(struct out *o)
{
    o->n = 0;
    o->failed = 0;
}

int out_failed(const struct out *o) { return o->failed; }

void out_bytes(struct out *o, const void *p, size_t n)
{
    if (o->failed || !n) return;
    if (n > o->cap - o->n) {
        size_t cap = o->cap ? o->cap : 64;
        while (cap - o->n < n) cap *= 2;
        char *grown = realloc(o->p, cap);
        if (!grown) {
            o->failed = 1;
            return;
        }
        o->p = grown;
        o->cap = cap;
    }
    memcpy(o->p + o->n, p, n);
    o->n += n;
}

void out_text(struct out *o, const char *s) { out_bytes(o, s, strlen(s)); }

void out_int(struct out *o, int64_t v)
{
    char s[24];
    out_bytes(o, s, (size_t)snprintf(s, sizeof s, "%lld", (long long)v));
}

void out_string(struct out *o, const char *s, size_t n)
{
    out_bytes(o, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        unsigned char c = (unsigned char)s[i];
        utf8proc_int32_t code_point;
        utf8proc_ssize_t got = c < 0x80 ? 1
                                        : utf8proc_iterate((const utf8proc_uint8_t *)s + i,
                                                           (utf8proc_ssize_t)(n - i), &code_point);
        if (got > 0 && c >= 0x20 && c != '"' && c != '\\') {
            i += (size_t)got;
            continue;
        }
        char escape[8];
        const char *at = c ? strchr(names, c) : NULL;
        if (got < 1) snprintf(escape, sizeof escape, "\xef\xbf\xbd");
        else if (at) snprintf(escape, sizeof escape, "\\%c", letters[at - names]);
        else snprintf(escape, sizeof escape, "\\u%04x", c);
        out_bytes(o, s + from, i - from);
        out_text(o, escape);
        from = ++i;
    }
    out_bytes(o, s + from, n - from);
    out_bytes(o, "\"", 1);
}

void out_shown(struct out *o, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0, bytes; i < n; i += bytes ? bytes : 1) {
        if (!printable_obeyed(s + i, n - i, &bytes)) continue;
        char shown[16];
        if (bytes == 1) snprintf(shown, sizeof shown, "^%c", s[i] ^ 0x40);
        else snprintf(shown, sizeof shown, "<U+00%02X>", (unsigned char)s[i + 1]);
        out_bytes(o, s + from, i - from);
        out_text(o, shown);
        from = i + bytes;
    }
    out_bytes(o, s + from, n - from);
}

void out_logprob(struct out *o, double v)
{
    float f = (float)v;
    if (!(f > -9999.0f)) f = -9999.0f;
    out_real(o, (double)f);
}

void out_real(struct out *o, double v)
{
    char s[32];
    int n = snprintf(s, sizeof s - 2, "%.9g", (double)(float)v);
    if (!strpbrk(s, ".e")) n += snprintf(s + n, 3, ".0");
    out_bytes(o, s, (size_t)n);
}

enum { DLE = 0x10 };

void out_folded(struct out *o, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = {DLE, s[i] == '\n' ? 'n' : 'd'};
        if (s[i] == '\n' || s[i] == DLE) out_bytes(o, pair, 2);
        else out_bytes(o, s + i, 1);
    }
}

void out_unfold(struct out *o, size_t from)
{
    size_t at = from;
    for (size_t i = from; i < o->n; i++) {
        char c = o->p[i];
        if (c == DLE && i + 1 < o->n) c = o->p[++i] == 'n' ? '\n' : DLE;
        o->p[at++] = c;
    }
    o->n = at;
}
