/* jinja_text.c: values as text: the output, Python's str() and repr(), JSON, code points, white
 * space, case. */
#include "core/text/jinja/jinja_internal.h"
#include "core/text/jinja/jinja_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- the output ---- */

int jinja_put(struct jinja_run *r, const char *s, size_t n)
{
    if (n > r->out_cap - r->n_out) {
        if (n > JINJA_MAX_OUTPUT || r->n_out + n > JINJA_MAX_OUTPUT)
            return jinja_fail(r, "a text of more than %d MiB", JINJA_MAX_OUTPUT >> 20);
        size_t cap = r->out_cap ? r->out_cap : 4096;
        while (cap < r->n_out + n) cap *= 2;
        char *grown = realloc(r->out, cap + 1);
        if (!grown) return err_memory(r->e);
        r->out = grown;
        r->out_cap = cap;
    }
    if (n) memcpy(r->out + r->n_out, s, n);
    r->n_out += n;
    return n > 64 ? jinja_steps(r, n / 64) : 0;
}

int jinja_take(struct jinja_run *r, size_t from, struct jinja_value *out)
{
    int rc = jinja_string(r, r->out ? r->out + from : "", r->n_out - from, out);
    r->n_out = from;
    return rc;
}

/* ---- code points ---- */

int32_t jinja_point(const char *s, size_t n, size_t *at)
{
    utf8proc_int32_t c = 0;
    if ((unsigned char)s[*at] < 0x80) return (unsigned char)s[(*at)++];
    utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)s + *at,
                                             (utf8proc_ssize_t)(n - *at), &c);
    *at += used > 0 ? (size_t)used : 1;
    return used > 0 ? c : -1;
}

size_t jinja_points(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

size_t jinja_point_offset(const char *s, size_t n, size_t points)
{
    size_t at = 0;
    for (; at < n; at++)
        if (((unsigned char)s[at] & 0xc0) != 0x80 && !points--) break;
    return at;
}

int jinja_put_point(struct jinja_run *r, int32_t c)
{
    utf8proc_uint8_t p[4];
    return jinja_put(r, (const char *)p, (size_t)utf8proc_encode_char(c, p));
}

int jinja_is_space(int32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int is_stripped(int32_t c, const struct jinja_value *chars)
{
    if (!chars) return jinja_is_space(c);
    for (size_t at = 0; at < chars->n;)
        if (jinja_point(chars->s, chars->n, &at) == c) return 1;
    return 0;
}

struct jinja_value jinja_strip(struct jinja_value v, const struct jinja_value *chars, int left,
                               int right)
{
    size_t from = 0, to = v.n;
    while (left && from < to) {
        size_t next = from;
        if (!is_stripped(jinja_point(v.s, v.n, &next), chars)) break;
        from = next;
    }
    while (right && to > from) {
        size_t last = to - 1, next;
        while (last > from && ((unsigned char)v.s[last] & 0xc0) == 0x80) last--;
        next = last;
        if (!is_stripped(jinja_point(v.s, v.n, &next), chars)) break;
        to = last;
    }
    v.s += from;
    v.n = to - from;
    return v;
}

/* ---- case ---- */

static int is_cased(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
           utf8proc_tolower(c) != c || utf8proc_toupper(c) != c;
}

/* 1 if c is not cased and the rule for a final sigma skips it. */
static int is_case_ignorable(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
           c == ':' || c == 0xb7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

static int is_final_sigma(const char *s, size_t n, size_t from, size_t to)
{
    int before = 0;
    while (from) {
        do from--;
        while (from && ((unsigned char)s[from] & 0xc0) == 0x80);
        size_t at = from;
        int32_t c = jinja_point(s, n, &at);
        if (is_case_ignorable(c)) continue;
        before = is_cased(c);
        break;
    }
    while (before && to < n) {
        int32_t c = jinja_point(s, n, &to);
        if (!is_case_ignorable(c)) return !is_cased(c);
    }
    return before;
}

static int put_upper(struct jinja_run *r, int32_t c, int title)
{
    for (size_t i = 0; c >= 0x80 && i < sizeof jinja_special_case / sizeof *jinja_special_case; i++)
        if (jinja_special_case[i].c == c) {
            const char *s = title ? jinja_special_case[i].title : jinja_special_case[i].upper;
            return jinja_put(r, s, strlen(s));
        }
    return jinja_put_point(r, title ? utf8proc_totitle(c) : utf8proc_toupper(c));
}

int jinja_put_case(struct jinja_run *r, const char *s, size_t n, int mode)
{
    int within = 0; /* the last letter was cased */
    if (jinja_steps(r, n / 16)) return -1;
    for (size_t at = 0, from = 0; at < n; from = at) {
        int32_t c = jinja_point(s, n, &at);
        int up = mode == 'u' || (mode == 'c' && from == 0) || (mode == 't' && !within) ||
                 (mode == 's' && utf8proc_tolower(c) == c);
        if (c < 0x80) {
            char b = (char)c;
            if (up && b >= 'a' && b <= 'z') b = (char)(b - 32);
            else if (!up && b >= 'A' && b <= 'Z') b = (char)(b + 32);
            if (jinja_put(r, &b, 1)) return -1;
        } else if (up) {
            if (put_upper(r, c, mode == 'c' || mode == 't')) return -1;
        } else if (c == 0x130) {
            if (jinja_put(r, "i\xcc\x87", 3)) return -1;
        } else if (jinja_put_point(r, c == 0x3a3 && is_final_sigma(s, n, from, at)
                                          ? 0x3c2
                                          : utf8proc_tolower(c))) {
            return -1;
        }
        within = c < 0x80 ? (c | 32) >= 'a' && (c | 32) <= 'z' : is_cased(c);
    }
    return 0;
}

/* ---- str() and repr() ---- */

/* Python's repr of a float: the shortest digits that parse to the same number, exponents as 1e16
 * and 1e-05. */
int jinja_put_float(struct jinja_run *r, double f)
{
    char digits[40], text[48];
    int n, exponent;
    if (isnan(f)) return jinja_put(r, "nan", 3);
    if (isinf(f)) return jinja_put(r, f < 0 ? "-inf" : "inf", f < 0 ? 4 : 3);
    for (int precision = 0;; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, f);
        if (precision == 16 || strtod(digits, NULL) == f) break;
    }
    char *e = strchr(digits, 'e');
    exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        *e = 0;
        n = snprintf(text, sizeof text, "%se%c%02d", digits, exponent < 0 ? '-' : '+',
                     abs(exponent));
    } else {
        char *point = strchr(digits, '.');
        int precision = (point ? (int)(e - point) - 1 : 0) - exponent;
        n = snprintf(text, sizeof text, "%.*f", precision < 1 ? 1 : precision, f);
    }
    return jinja_put(r, text, (size_t)n);
}

static int put_string_repr(struct jinja_run *r, struct jinja_value v)
{
    char quote = memchr(v.s, '\'', v.n) && !memchr(v.s, '"', v.n) ? '"' : '\'', text[16];
    if (jinja_put(r, &quote, 1)) return -1;
    for (size_t at = 0, from = 0; at < v.n; from = at) {
        int32_t c = jinja_point(v.s, v.n, &at);
        int n = 0;
        if (c == '\\' || c == quote) n = snprintf(text, sizeof text, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            n = snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7f) n = snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
        else if (c >= 0x80) {
            utf8proc_category_t k = utf8proc_category(c);
            if (k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
                k == UTF8PROC_CATEGORY_CS || k == UTF8PROC_CATEGORY_CO ||
                k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_ZL ||
                k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_ZS)
                n = snprintf(text, sizeof text,
                             c < 0x100     ? "\\x%02x"
                             : c < 0x10000 ? "\\u%04x"
                                           : "\\U%08x",
                             (unsigned)c);
        }
        if (n ? jinja_put(r, text, (size_t)n) : jinja_put(r, v.s + from, at - from)) return -1;
    }
    return jinja_put(r, &quote, 1);
}

static int put_items(struct jinja_run *r, const struct jinja_list *l, const char *open,
                     const char *close)
{
    if (jinja_enter(r) || jinja_put(r, open, strlen(open))) return -1;
    for (size_t i = 0; i < l->n; i++)
        if (jinja_steps(r, 1) || (i && jinja_put(r, ", ", 2)) || jinja_put_repr(r, l->item[i]))
            return -1;
    r->depth--;
    return jinja_put(r, close, strlen(close));
}

int jinja_put_repr(struct jinja_run *r, struct jinja_value v)
{
    char text[96];
    switch ((enum jinja_type)v.type) {
    case JINJA_UNDEFINED: return jinja_put(r, "Undefined", 9);
    case JINJA_NONE: return jinja_put(r, "None", 4);
    case JINJA_BOOL: return v.i ? jinja_put(r, "True", 4) : jinja_put(r, "False", 5);
    case JINJA_INT:
        return jinja_put(r, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v.i));
    case JINJA_FLOAT: return jinja_put_float(r, v.f);
    case JINJA_LONG: return jinja_put(r, v.s, v.n);
    case JINJA_STRING:
        if (v.flag) return jinja_fail(r, "the repr of a text marked safe is not supported");
        return put_string_repr(r, v);
    case JINJA_LIST: return put_items(r, v.list, "[", "]");
    case JINJA_TUPLE: return put_items(r, v.list, "(", v.list->n == 1 ? ",)" : ")");
    case JINJA_VIEW:
        return put_items(r, v.list,
                         v.flag == 'k'   ? "dict_keys(["
                         : v.flag == 'v' ? "dict_values(["
                                         : "dict_items([",
                         "])");
    case JINJA_DICT:
        if (jinja_enter(r) || jinja_put(r, "{", 1)) return -1;
        for (size_t i = 0; i < v.dict->n; i++)
            if (jinja_steps(r, 1) || (i && jinja_put(r, ", ", 2)) ||
                jinja_put_repr(r, v.dict->pair[i].key) || jinja_put(r, ": ", 2) ||
                jinja_put_repr(r, v.dict->pair[i].value))
                return -1;
        r->depth--;
        return jinja_put(r, "}", 1);
    case JINJA_RANGE: {
        int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)v.range->start,
                         (long long)v.range->stop);
        if (v.range->step != 1)
            n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)v.range->step);
        return jinja_put(r, text, (size_t)n) || jinja_put(r, ")", 1);
    }
    default: return jinja_fail(r, "a %s cannot be printed", jinja_type_name(v));
    }
}

int jinja_put_str(struct jinja_run *r, struct jinja_value v)
{
    if (v.type == JINJA_STRING) return jinja_put(r, v.s, v.n);
    return v.type == JINJA_UNDEFINED ? 0 : jinja_put_repr(r, v);
}

int jinja_str(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    size_t from = r->n_out;
    if (v.type == JINJA_STRING) {
        *out = v;
        return 0;
    }
    return jinja_put_str(r, v) ? -1 : jinja_take(r, from, out);
}

/* Appends in place if the left one ends at the last concatenation: a text that grows in a loop
 * costs linear, not quadratic time. */
int jinja_concat(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                 struct jinja_value *out)
{
    enum { SLOTS = sizeof r->grow / sizeof *r->grow, SMALL = 256 };
    size_t slot = 0, n = a.n + b.n;
    if (b.n > 64 && jinja_steps(r, b.n / 64)) return -1;
    if (a.n > JINJA_MAX_OUTPUT || b.n > JINJA_MAX_OUTPUT - a.n)
        return jinja_fail(r, "a text of more than %d MiB", JINJA_MAX_OUTPUT >> 20);
    if (!b.n || !a.n) {
        *out = a.n ? a : b;
        return 0;
    }
    while (slot < SLOTS && r->grow[slot].end != a.s + a.n) slot++;
    if (slot < SLOTS && r->grow[slot].left >= b.n) {
        memcpy(r->grow[slot].end, b.s, b.n);
        r->grow[slot].end += b.n;
        r->grow[slot].left -= b.n;
        *out = jinja_bytes(a.s, n);
        return 0;
    }
    size_t spare = n < SMALL ? 0 : n;
    char *p = jinja_get(r, n + spare);
    if (!p || jinja_steps(r, a.n / 64)) return -1;
    memcpy(p, a.s, a.n);
    memcpy(p + a.n, b.s, b.n);
    if (spare)
        r->grow[slot < SLOTS ? slot : r->n_grown++ % SLOTS] = (struct jinja_growth){p + n, spare};
    *out = jinja_bytes(p, n);
    return 0;
}

/* ---- json.dumps ---- */

struct dumper {
    struct jinja_run *r;
    const struct jinja_json_format *format;
    int level;
};

static int dump_string(struct dumper *d, struct jinja_value v)
{
    struct jinja_run *r = d->r;
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    if (jinja_put(r, "\"", 1)) return -1;
    size_t start = 0;
    for (size_t at = 0, here = 0; at < v.n; here = at) {
        int32_t c = jinja_point(v.s, v.n, &at);
        const char *known = c && c < 0x80 ? strchr(from, c) : NULL;
        int n;
        if (known) n = snprintf(text, sizeof text, "\\%c", to[known - from]);
        else if (c < 0x20) n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else if (d->format->ascii && c >= 0x10000)
            n = snprintf(text, sizeof text, "\\u%04x\\u%04x",
                         0xd800 + ((unsigned)(c - 0x10000) >> 10), 0xdc00 + ((unsigned)c & 0x3ff));
        else if (d->format->ascii && c >= 0x7f + 1)
            n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else continue;
        if (jinja_put(r, v.s + start, here - start) || jinja_put(r, text, (size_t)n)) return -1;
        start = at;
    }
    return jinja_put(r, v.s + start, v.n - start) || jinja_put(r, "\"", 1);
}

static int dump_break(struct dumper *d)
{
    if (!d->format->has_indent) return 0;
    if (jinja_put(d->r, "\n", 1)) return -1;
    for (int i = 0; i < d->level; i++)
        if (jinja_put(d->r, d->format->indent.s, d->format->indent.n)) return -1;
    return 0;
}

static int dump(struct dumper *d, struct jinja_value v);

static int dump_scalar(struct dumper *d, struct jinja_value v)
{
    struct jinja_run *r = d->r;
    if (v.type == JINJA_NONE) return jinja_put(r, "null", 4);
    if (v.type == JINJA_BOOL) return v.i ? jinja_put(r, "true", 4) : jinja_put(r, "false", 5);
    if (v.type == JINJA_FLOAT && !isfinite(v.f))
        return isnan(v.f) ? jinja_put(r, "NaN", 3)
               : v.f < 0  ? jinja_put(r, "-Infinity", 9)
                          : jinja_put(r, "Infinity", 8);
    return jinja_put_repr(r, v);
}

static int dump_key(struct dumper *d, struct jinja_value k)
{
    if (k.type == JINJA_STRING) return dump_string(d, k);
    if (k.type != JINJA_NONE && !jinja_is_number(k))
        return jinja_fail(d->r, "keys must be str, int, float, bool or None, not %s",
                          jinja_type_name(k));
    return jinja_put(d->r, "\"", 1) || dump_scalar(d, k) || jinja_put(d->r, "\"", 1) ? -1 : 0;
}

static int dump_dict(struct dumper *d, const struct jinja_dict *dict)
{
    struct jinja_run *r = d->r;
    size_t *order = jinja_get(r, dict->n * sizeof *order);
    if (!order) return -1;
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = i;
        for (; d->format->sort_keys && at; at--) {
            int less = jinja_less(r, dict->pair[i].key, dict->pair[order[at - 1]].key, OP_LT);
            if (less < 0 || jinja_steps(r, 1)) return -1;
            if (!less) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    if (jinja_put(r, "{", 1)) return -1;
    d->level++;
    for (size_t i = 0; i < dict->n; i++) {
        const struct jinja_pair *p = &dict->pair[order[i]];
        if ((i && jinja_put(r, d->format->separators[0].s, d->format->separators[0].n)) ||
            dump_break(d) || dump_key(d, p->key) ||
            jinja_put(r, d->format->separators[1].s, d->format->separators[1].n) ||
            dump(d, p->value))
            return -1;
    }
    d->level--;
    return (dict->n && dump_break(d)) || jinja_put(r, "}", 1) ? -1 : 0;
}

static int dump_list(struct dumper *d, const struct jinja_list *l)
{
    struct jinja_run *r = d->r;
    if (jinja_put(r, "[", 1)) return -1;
    d->level++;
    for (size_t i = 0; i < l->n; i++)
        if ((i && jinja_put(r, d->format->separators[0].s, d->format->separators[0].n)) ||
            dump_break(d) || dump(d, l->item[i]))
            return -1;
    d->level--;
    return (l->n && dump_break(d)) || jinja_put(r, "]", 1) ? -1 : 0;
}

static int dump(struct dumper *d, struct jinja_value v)
{
    int rc;
    if (jinja_steps(d->r, 1)) return -1;
    switch ((enum jinja_type)v.type) {
    case JINJA_NONE:
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
    case JINJA_LONG: return dump_scalar(d, v);
    case JINJA_STRING: return dump_string(d, v);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        if (jinja_enter(d->r)) return -1;
        rc = v.type == JINJA_DICT ? dump_dict(d, v.dict) : dump_list(d, v.list);
        d->r->depth--;
        return rc;
    default:
        return jinja_fail(d->r, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
}

int jinja_put_json(struct jinja_run *r, struct jinja_value v, const struct jinja_json_format *f)
{
    struct dumper d = {.r = r, .format = f};
    return dump(&d, v);
}
