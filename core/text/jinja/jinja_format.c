/* jinja_format.c: Python's "..." % values and "...".format(values). */
#include "core/text/jinja/jinja_filters.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1000, MAX_PRECISION = 300 };

/* A replacement field of either kind. */
struct spec {
    char align, sign, type;                /* 0: not given */
    int alternate, zero, width, precision; /* precision -1: not given */
    int group;                             /* ',' or '_' between groups of digits; 0: none */
    const char *fill;
    size_t n_fill;
};

/* Parses digits of s [n] from *at on, at most `most`; -1: there are more. */
static int number_at(struct jinja_run *r, struct jinja_value s, size_t *at, int most, int *v)
{
    for (*v = 0; *at < s.n && isdigit((unsigned char)s.s[*at]); ++*at) {
        *v = *v * 10 + (s.s[*at] - '0');
        if (*v > most)
            return jinja_fail(r, "a format with a width or precision of more than %d", most);
    }
    return 0;
}

/* Formats a number's digits and point with C's printf, which agrees with Python's. */
static int put_float(struct jinja_run *r, double f, const struct spec *s, char *text, size_t size)
{
    int precision = s->precision < 0 ? 6 : s->precision;
    double x = fabs(f);
    if (s->type == '%')
        snprintf(text, size, s->alternate ? "%#.*f%%" : "%.*f%%", precision, x * 100);
    else if (s->type == 'e') snprintf(text, size, s->alternate ? "%#.*e" : "%.*e", precision, x);
    else if (s->type == 'E') snprintf(text, size, s->alternate ? "%#.*E" : "%.*E", precision, x);
    else if (s->type == 'f') snprintf(text, size, s->alternate ? "%#.*f" : "%.*f", precision, x);
    else if (s->type == 'F') snprintf(text, size, s->alternate ? "%#.*F" : "%.*F", precision, x);
    else if (s->type == 'G') snprintf(text, size, s->alternate ? "%#.*G" : "%.*G", precision, x);
    else if (s->type == 'g') snprintf(text, size, s->alternate ? "%#.*g" : "%.*g", precision, x);
    else return jinja_fail(r, "unknown format code '%c' for a float", s->type);
    return 0;
}

static const char *put_int(int64_t i, char type, int alternate, char text[80])
{
    uint64_t v = i < 0 ? -(uint64_t)i : (uint64_t)i;
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : (type | 32) == 'x' ? 16 : 10;
    char *p = text + 79;
    for (*p = 0; v || p == text + 79; v /= base)
        *--p = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    if (alternate && base != 10) *--p = type, *--p = '0';
    return p;
}

/* Outputs sign + digits, grouped and padded by the specification. */
static int put_number(struct jinja_run *r, int negative, const char *digits, const struct spec *s)
{
    char text[1500];
    size_t n = 0, whole = strspn(digits, "0123456789"), prefix = 0;
    char sign = negative ? '-' : s->sign == '+' || s->sign == ' ' ? s->sign : 0;
    if (sign) text[n++] = sign;
    if (digits[0] == '0' && isalpha((unsigned char)digits[1])) { /* 0x */
        text[n++] = *digits++, text[n++] = *digits++;
        prefix = 2;
        whole = strlen(digits);
    }
    size_t head = n;
    for (size_t i = 0; i < whole; i++) {
        if (s->group && i && (whole - i) % 3 == 0) text[n++] = (char)s->group;
        text[n++] = digits[i];
    }
    if (s->group && prefix)
        return jinja_fail(r, "grouped digits of a base other than 10 are not supported");
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", digits + whole);
    struct jinja_value v = jinja_bytes(text, n), body = jinja_bytes(text + head, n - head), out;
    if (s->zero && !s->align && isdigit((unsigned char)text[head])) {
        if (s->group) return jinja_fail(r, "grouped digits filled with zeros are not supported");
        if (jinja_put(r, text, head) ||
            jinja_center(r, body, s->width - (int64_t)head, "0", 1, '>', &out))
            return -1;
        return jinja_put(r, out.s, out.n);
    }
    if (s->align == '=') {
        if (jinja_put(r, text, head) ||
            jinja_center(r, body, s->width - (int64_t)head, s->fill, s->n_fill, '>', &out))
            return -1;
    } else if (jinja_center(r, v, s->width, s->fill, s->n_fill, s->align ? s->align : '>', &out)) {
        return -1;
    }
    return jinja_put(r, out.s, out.n);
}

static int put_text(struct jinja_run *r, struct jinja_value v, const struct spec *s, int align)
{
    struct jinja_value out;
    if (s->precision >= 0) v.n = jinja_point_offset(v.s, v.n, (size_t)s->precision);
    return jinja_center(r, v, s->width, s->fill, s->n_fill, s->align ? s->align : align, &out) ||
                   jinja_put(r, out.s, out.n)
               ? -1
               : 0;
}

static int repr(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    size_t from = r->n_out;
    return jinja_put_repr(r, v) ? -1 : jinja_take(r, from, out);
}

/* ---- % ---- */

static int percent_one(struct jinja_run *r, struct jinja_value v, const struct spec *s)
{
    char text[800];
    struct jinja_value out;
    if (s->type == 's' || s->type == 'r')
        return (s->type == 's' ? jinja_str(r, v, &out) : repr(r, v, &out)) ||
                       put_text(r, out, s, '>')
                   ? -1
                   : 0;
    if (v.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    int is_float = strchr("eEfFgG", s->type) != NULL;
    if (!jinja_is_number(v) || (v.type == JINJA_FLOAT && strchr("xXo", s->type)))
        return jinja_fail(r,
                          is_float ? "must be real number, not %.0s%s"
                                   : "%%%.1s format: a number is required, not %s",
                          (char[]){s->type, 0}, jinja_type_name(v));
    if (is_float)
        return put_float(r, jinja_number(v), s, text, sizeof text)
                   ? -1
                   : put_number(r, signbit(jinja_number(v)) != 0, text, s);
    int64_t i = v.i;
    if (v.type == JINJA_FLOAT) {
        if (!(v.f > -9.2e18 && v.f < 9.2e18))
            return jinja_fail(r, "an integer beyond 64 bits is not supported");
        i = (int64_t)v.f;
    }
    const char *digits = put_int(i, s->type, s->alternate, text);
    size_t n = strlen(digits);
    if (s->precision >= 0 && n < (size_t)s->precision)
        return jinja_fail(r, "a precision for an integer is not supported");
    return put_number(r, i < 0, digits, s);
}

int jinja_percent(struct jinja_run *r, struct jinja_value format, struct jinja_value args,
                  struct jinja_value *out)
{
    size_t start = r->n_out, next = 0;
    int is_tuple = args.type == JINJA_TUPLE, used = 0;
    if (format.flag) return jinja_fail(r, "%% on a text marked safe is not supported");
    for (size_t at = 0; at < format.n;) {
        const char *hit = memchr(format.s + at, '%', format.n - at);
        size_t to = hit ? (size_t)(hit - format.s) : format.n;
        struct spec s = {.precision = -1, .fill = " ", .n_fill = 1};
        struct jinja_value v = args;
        int named = 0;
        if (jinja_put(r, format.s + at, to - at)) return -1;
        if ((at = to + 1) > format.n) break;
        if (at < format.n && format.s[at] == '(') {
            const char *end = memchr(format.s + at, ')', format.n - at);
            if (!end) return jinja_fail(r, "incomplete format key");
            if (args.type != JINJA_DICT) return jinja_fail(r, "format requires a mapping");
            struct jinja_value key = jinja_bytes(format.s + at + 1,
                                                 (size_t)(end - format.s) - at - 1);
            int found = jinja_dict_find_text(r, args.dict, key.s, key.n, &v);
            if (found < 0) return -1;
            if (!found)
                return jinja_fail(r, "KeyError: '%.*s'", key.n > 60 ? 60 : (int)key.n, key.s);
            at = (size_t)(end - format.s) + 1;
            named = 1;
        }
        for (; at < format.n && format.s[at] && strchr("-+ #0", format.s[at]); at++) {
            if (format.s[at] == '-') s.align = '<';
            else if (format.s[at] == '#') s.alternate = 1;
            else if (format.s[at] == '0') s.zero = 1;
            else if (s.sign != '+') s.sign = format.s[at];
        }
        if (number_at(r, format, &at, MAX_WIDTH, &s.width)) return -1;
        if (at < format.n && format.s[at] == '.' &&
            (at++, number_at(r, format, &at, MAX_PRECISION, &s.precision)))
            return -1;
        if (at < format.n && strchr("hlL", format.s[at])) at++;
        if (at >= format.n) return jinja_fail(r, "incomplete format");
        s.type = format.s[at++];
        if (s.type == '%') {
            if (jinja_put(r, "%", 1)) return -1;
            continue;
        }
        if (!s.type || !strchr("srdiuxXoeEfFgG", s.type))
            return jinja_fail(r, "unsupported format character '%c'", s.type);
        if (!named) {
            if (is_tuple ? next >= args.list->n : used)
                return jinja_fail(r, "not enough arguments for format string");
            if (is_tuple) v = args.list->item[next++];
        }
        used = 1;
        if (percent_one(r, v, &s)) return -1;
    }
    if (is_tuple ? next < args.list->n
                 : !used && args.type != JINJA_DICT && args.type != JINJA_LIST)
        return jinja_fail(r, "not all arguments converted during string formatting");
    return jinja_take(r, start, out);
}

/* ---- str.format ---- */

static int read_spec(struct jinja_run *r, struct jinja_value text, struct spec *s)
{
    size_t at = 0, second = 0;
    *s = (struct spec){.precision = -1, .fill = " ", .n_fill = 1};
    if (memchr(text.s, '{', text.n))
        return jinja_fail(r, "a format within a format is not supported");
    if (text.n) jinja_point(text.s, text.n, &second);
    if (second && second < text.n && strchr("<>^=", text.s[second]))
        s->fill = text.s, s->n_fill = second, s->align = text.s[second], at = second + 1;
    else if (text.n && text.s[0] && strchr("<>^=", text.s[0])) s->align = text.s[0], at = 1;
    if (at < text.n && text.s[at] && strchr("+- ", text.s[at])) s->sign = text.s[at++];
    if (at < text.n && text.s[at] == '#') s->alternate = 1, at++;
    if (at < text.n && text.s[at] == '0') s->zero = 1, at++;
    if (number_at(r, text, &at, MAX_WIDTH, &s->width)) return -1;
    if (at < text.n && (text.s[at] == ',' || text.s[at] == '_')) s->group = text.s[at++];
    if (at < text.n && text.s[at] == '.') {
        if (++at >= text.n || !isdigit((unsigned char)text.s[at]))
            return jinja_fail(r, "Format specifier missing precision");
        if (number_at(r, text, &at, MAX_PRECISION, &s->precision)) return -1;
    }
    if (at < text.n) s->type = text.s[at++];
    return at < text.n ? jinja_fail(r, "Invalid format specifier '%.*s'",
                                    text.n > 60 ? 60 : (int)text.n, text.s)
                       : 0;
}

static int format_one(struct jinja_run *r, struct jinja_value v, struct jinja_value spec)
{
    char text[800];
    struct spec s;
    if (!spec.n) return jinja_put_str(r, v);
    if (v.type == JINJA_UNDEFINED || v.type == JINJA_NONE ||
        (v.type >= JINJA_LIST && v.type <= JINJA_LOOP))
        return jinja_fail(r, "unsupported format string passed to %s.__format__",
                          jinja_type_name(v));
    if (read_spec(r, spec, &s)) return -1;
    if (v.type == JINJA_STRING) {
        if ((s.type && s.type != 's') || s.sign || s.alternate || s.group || s.align == '=')
            return jinja_fail(r, "this format is not for a str");
        if (s.zero && !s.align) s.fill = "0";
        return put_text(r, v, &s, '<');
    }
    if (v.type != JINJA_FLOAT && (!s.type || strchr("bdoxX", s.type))) {
        if (v.type == JINJA_BOOL && !s.type)
            return jinja_fail(r, "a format of a bool is not supported");
        if (s.precision >= 0)
            return jinja_fail(r, "Precision not allowed in integer format specifier");
        return put_number(r, v.i < 0, put_int(v.i, s.type ? s.type : 'd', s.alternate, text), &s);
    }
    if (!s.type) { /* as repr, or as g with at least one decimal */
        if (s.precision >= 0)
            return jinja_fail(r, "a float's precision without a type is not supported");
        size_t start = r->n_out;
        struct jinja_value digits;
        if (jinja_put_float(r, fabs(v.f)) || jinja_take(r, start, &digits)) return -1;
        snprintf(text, sizeof text, "%.*s", (int)digits.n, digits.s);
        return put_number(r, signbit(v.f) != 0, text, &s);
    }
    return put_float(r, jinja_number(v), &s, text, sizeof text)
               ? -1
               : put_number(r, signbit(jinja_number(v)) != 0, text, &s);
}

/* The value of a field name: 0, name, 0.attribute, name[item]... */
static int field(struct jinja_run *r, struct jinja_value name, const struct jinja_args *args,
                 size_t *automatic, struct jinja_value *out)
{
    size_t n = 0, digits = 0;
    while (n < name.n && name.s[n] != '.' && name.s[n] != '[') n++;
    while (digits < n && isdigit((unsigned char)name.s[digits])) digits++;
    if (digits == n) {
        size_t at = 0;
        if (n > 6) return jinja_fail(r, "a format field of more than 6 digits");
        for (size_t i = 0; i < n; i++) at = at * 10 + (size_t)(name.s[i] - '0');
        if (!n) at = (*automatic)++;
        if (at >= args->n)
            return jinja_fail(r, "Replacement index %zu out of range for positional args tuple",
                              at);
        *out = args->pos[at];
    } else {
        size_t i = 0;
        while (i < args->n_kw && (args->kw[i].n != n || memcmp(args->kw[i].name, name.s, n))) i++;
        if (i == args->n_kw) return jinja_fail(r, "KeyError: '%.*s'", n > 60 ? 60 : (int)n, name.s);
        *out = args->kw[i].value;
    }
    while (n < name.n) {
        struct jinja_value of = *out;
        size_t from = ++n;
        if (name.s[from - 1] == '.') {
            while (n < name.n && name.s[n] != '.' && name.s[n] != '[') n++;
            if (jinja_attribute(r, of, name.s + from, n - from, out)) return -1;
            continue;
        }
        while (n < name.n && name.s[n] != ']') n++;
        if (n >= name.n) return jinja_fail(r, "Missing ']' in format string");
        struct jinja_value key = jinja_bytes(name.s + from, n - from);
        int64_t index = 0;
        for (digits = 0; digits < key.n && digits < 9 && isdigit((unsigned char)key.s[digits]);
             digits++)
            index = index * 10 + (key.s[digits] - '0');
        if (key.n && digits == key.n) key = jinja_int(index);
        if (jinja_item(r, of, key, out)) return -1;
        n++;
    }
    return 0;
}

int jinja_str_format(struct jinja_run *r, struct jinja_value format, const struct jinja_args *args,
                     struct jinja_value *out)
{
    size_t start = r->n_out, automatic = 0;
    for (size_t at = 0; at < format.n;) {
        char c = format.s[at];
        if (c != '{' && c != '}') {
            size_t to = at;
            while (to < format.n && format.s[to] != '{' && format.s[to] != '}') to++;
            if (jinja_put(r, format.s + at, to - at)) return -1;
            at = to;
            continue;
        }
        if (at + 1 < format.n && format.s[at + 1] == c) {
            if (jinja_put(r, &c, 1)) return -1;
            at += 2;
            continue;
        }
        if (c == '}') return jinja_fail(r, "Single '}' encountered in format string");
        size_t from = ++at, end;
        while (at < format.n && format.s[at] != '}') at++;
        if (at >= format.n) return jinja_fail(r, "expected '}' before end of string");
        for (end = from; end < at && format.s[end] != '!' && format.s[end] != ':'; end++) {
        }
        struct jinja_value v, spec = jinja_static("");
        if (field(r, jinja_bytes(format.s + from, end - from), args, &automatic, &v)) return -1;
        if (end < at && format.s[end] == '!') {
            char how = end + 1 < at ? format.s[end + 1] : 0;
            if (how != 's' && how != 'r')
                return jinja_fail(r, "a format conversion other than !s and !r is not supported");
            if (how == 's' ? jinja_str(r, v, &v) : repr(r, v, &v)) return -1;
            end += 2;
            if (end < at && format.s[end] != ':')
                return jinja_fail(r, "expected ':' after conversion specifier");
        }
        if (end < at) spec = jinja_bytes(format.s + end + 1, at - end - 1);
        if (format_one(r, v, spec)) return -1;
        at++;
    }
    return jinja_take(r, start, out);
}
