#include "core/text/literals.h"

#include "core/base/json_span.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

enum { MAX_DEPTH = 500 };

struct literal {
    const char *p, *end; /* what is left */
    FILE *out;
    int depth;
};

/* Functions below return 1: read and written; 0: it is something else. */

static int value(struct literal *l);

static void skip_space(struct literal *l) { l->p = json_span_space(l->p, l->end); }

static int is_digit(const struct literal *l, const char *p)
{
    return p < l->end && *p >= '0' && *p <= '9';
}

static int is_letter(const struct literal *l, const char *p)
{
    return p < l->end && (((*p | 32) >= 'a' && (*p | 32) <= 'z') || *p == '_');
}

static int word(struct literal *l)
{
    static const char *const words[][2] = {
        {"true", "true"}, {"false", "false"}, {"none", "null"}, {"null", "null"}};
    size_t n = 0;
    while (is_letter(l, l->p + n) || is_digit(l, l->p + n)) n++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i][0]) == n && !strncasecmp(l->p, words[i][0], n)) {
            fputs(words[i][1], l->out);
            l->p += n;
            return 1;
        }
    return 0;
}

/* Digits, perhaps with single underscores between them; how many there are. */
static int digits(struct literal *l)
{
    int n = 0;
    for (; is_digit(l, l->p); n++) {
        fputc(*l->p++, l->out);
        if (l->p < l->end && *l->p == '_' && is_digit(l, l->p + 1)) l->p++;
    }
    return n;
}

static int number(struct literal *l)
{
    if (*l->p == '-') fputc('-', l->out);
    if (*l->p == '-' || *l->p == '+') l->p++;
    if (is_digit(l, l->p) && *l->p == '0' && is_digit(l, l->p + 1)) return 0;
    const char *begin = l->p;
    int n = digits(l), fraction = 0;
    if (!n) fputc('0', l->out);
    if (l->p < l->end && *l->p == '.') {
        fputc(*l->p++, l->out);
        fraction = digits(l);
        if (!fraction) fputc('0', l->out);
    }
    if (l->p == begin || (!n && !fraction)) return 0;
    if (l->p < l->end && (*l->p | 32) == 'e') {
        fputc(*l->p++, l->out);
        if (l->p < l->end && (*l->p == '-' || *l->p == '+')) fputc(*l->p++, l->out);
        if (!digits(l)) return 0;
    }
    return !is_letter(l, l->p) && !is_digit(l, l->p) && (l->p == l->end || *l->p != '.');
}

/* One character of a string. */
static void put(struct literal *l, int32_t c)
{
    utf8proc_uint8_t bytes[4];
    if (c == '"' || c == '\\') fprintf(l->out, "\\%c", (char)c);
    else if (c < 32) fprintf(l->out, "\\u%04x", (unsigned)c);
    else fwrite(bytes, 1, (size_t)utf8proc_encode_char(c, bytes), l->out);
}

/* N hexadecimal digits at p; -1: there are not as many. */
static int64_t hexadecimal(const struct literal *l, const char *p, int n)
{
    int64_t v = 0;
    for (int i = 0; i < n; i++, p++) {
        int c = p < l->end ? *p | 32 : 0;
        if (!is_digit(l, p) && (c < 'a' || c > 'f')) return -1;
        v = v * 16 + (is_digit(l, p) ? *p - '0' : c - 'a' + 10);
    }
    return v;
}

/* What stands behind a backslash. */
static int escape(struct literal *l)
{
    static const char letters[] = "abfnrtv\\'\"/", means[] = "\a\b\f\n\r\t\v\\'\"/";
    if (l->p == l->end) return 0;
    char c = *l->p++;
    const char *known = c ? strchr(letters, c) : NULL;
    int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n') return 1;
    if (known) return put(l, means[known - letters]), 1;
    if (!n) return put(l, '\\'), l->p--, 1; /* Python keeps the backslash */
    int64_t v = hexadecimal(l, l->p, n);
    if (v < 0 || v > 0x10ffff) return 0;
    if (n == 4) fprintf(l->out, "\\u%04x", (unsigned)v); /* perhaps one half of a pair */
    else if (!utf8proc_codepoint_valid((utf8proc_int32_t)v)) return 0;
    else put(l, (int32_t)v);
    l->p += n;
    return 1;
}

static int string(struct literal *l)
{
    char quote = *l->p++;
    fputc('"', l->out);
    while (l->p < l->end && *l->p != quote) {
        unsigned char c = (unsigned char)*l->p++;
        if (c == '\\') {
            if (!escape(l)) return 0;
        } else if (c < 128) {
            put(l, c);
        } else {
            fputc(c, l->out);
        }
    }
    if (l->p == l->end) return 0;
    l->p++;
    fputc('"', l->out);
    return 1;
}

/* A member's name: a string, or a number or word as a string. */
static int key(struct literal *l)
{
    if (l->p < l->end && (*l->p == '"' || *l->p == '\'')) return string(l);
    if (l->p == l->end || strchr("[{(", *l->p)) return 0;
    fputc('"', l->out);
    int rc = value(l);
    fputc('"', l->out);
    return rc;
}

/* Elements or members up to CLOSE; *n: how many. */
static int elements(struct literal *l, char close, int *n)
{
    for (*n = 0;; ++*n) {
        skip_space(l);
        if (l->p < l->end && *l->p == close) return l->p++, 1;
        if (*n) fputs(", ", l->out);
        if (close == '}') {
            if (!key(l)) return 0;
            skip_space(l);
            if (l->p == l->end || *l->p++ != ':') return 0;
            fputs(": ", l->out);
            skip_space(l);
        }
        if (!value(l)) return 0;
        skip_space(l);
        if (l->p == l->end) return 0;
        if (*l->p != ',' && *l->p != close) return 0;
        l->p += *l->p == ',';
    }
}

static int container(struct literal *l)
{
    char open = *l->p++, close = open == '(' ? ')' : (char)(open + 2); /* [ ] and { } in ASCII */
    int n, rc;
    if (++l->depth > MAX_DEPTH) return 0;
    fputc(open == '(' ? '[' : open, l->out);
    rc = elements(l, close, &n);
    fputc(close == ')' ? ']' : close, l->out);
    l->depth--;
    if (!rc || open != '(' || n != 1) return rc;
    const char *before = l->p - 1; /* (5) is a number, (5,) a tuple */
    while (strchr(" \t\r\n", before[-1])) before--;
    return before[-1] == ',';
}

static int value(struct literal *l)
{
    if (l->p == l->end || !*l->p) return 0;
    if (strchr("[{(", *l->p)) return container(l);
    if (strchr("\"'", *l->p)) return string(l);
    if (strchr("+-.0123456789", *l->p)) return number(l);
    return word(l);
}

int literal_to_json(const char *p, const char *end, const char **behind, char **json, size_t *n,
                    struct err *e)
{
    struct literal l = {.p = p, .end = end};
    *json = NULL;
    if (!(l.out = open_memstream(json, n))) return err_memory(e);
    skip_space(&l);
    int rc = value(&l), failed = ferror(l.out);
    failed |= fclose(l.out) != 0;
    *behind = l.p;
    if (rc && !failed) return 1;
    free(*json);
    *json = NULL;
    return failed ? err_memory(e) : 0;
}
