/* jinja_strings.c: filters on text, and helpers of Python's string methods. */
#include "core/text/jinja/jinja_filters.h"

#include <string.h>
#include <utf8proc.h>

/* ---- helpers ---- */

/* A text argument; ABSENT and none give `otherwise`. */
static int text_arg(struct jinja_run *r, struct jinja_value v, const char *otherwise,
                    struct jinja_value *out)
{
    if (v.type == JINJA_STRING) {
        *out = v;
        return 0;
    }
    if (otherwise && (v.type == JINJA_ABSENT || v.type == JINJA_NONE)) {
        *out = jinja_static(otherwise);
        return 0;
    }
    if (v.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    return jinja_fail(r, "a str is needed, not %s", jinja_type_name(v));
}

static int int_arg(struct jinja_run *r, struct jinja_value v, int64_t otherwise, int64_t *out)
{
    *out = v.type == JINJA_ABSENT || v.type == JINJA_NONE ? otherwise : v.i;
    if (v.type == JINJA_ABSENT || v.type == JINJA_NONE || v.type == JINJA_INT ||
        v.type == JINJA_BOOL)
        return 0;
    if (v.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    return jinja_fail(r, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
}

static int put_fill(struct jinja_run *r, int64_t n, const char *fill, size_t n_fill)
{
    for (; n > 0; n--)
        if (jinja_put(r, fill, n_fill)) return -1;
    return 0;
}

/* align: '<' '>' '^' as in a format; 'c' rounds as str.center. */
int jinja_center(struct jinja_run *r, struct jinja_value v, int64_t width, const char *fill,
                 size_t n_fill, int align, struct jinja_value *out)
{
    int64_t pad = width - (int64_t)jinja_points(v.s, v.n), left;
    size_t from = r->n_out;
    if (pad <= 0) {
        *out = v;
        return 0;
    }
    if (pad > JINJA_MAX_OUTPUT)
        return jinja_fail(r, "a text of more than %d MiB", JINJA_MAX_OUTPUT >> 20);
    left = align == '<'   ? 0
           : align == '>' ? pad
           : align == 'c' ? pad / 2 + (pad & width & 1)
                          : pad / 2;
    if (jinja_steps(r, (size_t)pad / 8) || put_fill(r, left, fill, n_fill) ||
        jinja_put(r, v.s, v.n) || put_fill(r, pad - left, fill, n_fill))
        return -1;
    return jinja_take(r, from, out);
}

int jinja_replace(struct jinja_run *r, struct jinja_value v, struct jinja_value from,
                  struct jinja_value to, int64_t count, struct jinja_value *out)
{
    size_t start = r->n_out, at = 0, next;
    if (jinja_steps(r, v.n / 16)) return -1;
    while (count && at <= v.n) {
        if (!from.n) { /* between all characters */
            if (jinja_put(r, to.s, to.n)) return -1;
            next = at;
            if (at < v.n) jinja_point(v.s, v.n, &next);
            if (jinja_put(r, v.s + at, next - at)) return -1;
            at = at < v.n ? next : v.n + 1;
        } else {
            const char *hit = memmem(v.s + at, v.n - at, from.s, from.n);
            if (!hit) break;
            if (jinja_put(r, v.s + at, (size_t)(hit - v.s) - at) || jinja_put(r, to.s, to.n))
                return -1;
            at = (size_t)(hit - v.s) + from.n;
        }
        count -= count > 0;
    }
    if (at < v.n && jinja_put(r, v.s + at, v.n - at)) return -1;
    return jinja_take(r, start, out);
}

/* Bytes of a line break at s [n], or 0. */
static size_t line_break(const char *s, size_t n)
{
    size_t at = 0;
    if (n >= 2 && s[0] == '\r' && s[1] == '\n') return 2;
    int32_t c = jinja_point(s, n, &at);
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
                   c == 0x2029
               ? at
               : 0;
}

int jinja_put_splitlines(struct jinja_run *r, struct jinja_value v, int keep, struct jinja_list *l)
{
    for (size_t at = 0; at < v.n;) {
        size_t end = at, brk = 0;
        while (end < v.n && !(brk = line_break(v.s + end, v.n - end))) end++;
        if (jinja_steps(r, 1) ||
            jinja_push(r, l, jinja_bytes(v.s + at, end - at + (keep ? brk : 0))))
            return -1;
        at = end + brk;
    }
    return 0;
}

int jinja_text_is(struct jinja_value v, int what)
{
    int cased = 0, within = 0;
    for (size_t at = 0; at < v.n;) {
        int32_t c = jinja_point(v.s, v.n, &at);
        utf8proc_category_t k = utf8proc_category(c);
        int letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO,
            decimal = k == UTF8PROC_CATEGORY_ND;
        int super = c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
                    (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
        int number = decimal || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
        int upper = k == UTF8PROC_CATEGORY_LU, lower = k == UTF8PROC_CATEGORY_LL,
            title = k == UTF8PROC_CATEGORY_LT;
        cased |= upper || lower || title;
        if ((what == 'a' && !letter) || (what == 'D' && !decimal) ||
            (what == 'd' && !decimal && !super) || (what == 'n' && !number) ||
            (what == 'A' && !letter && !number) || (what == 's' && !jinja_is_space(c)) ||
            (what == 'i' && c >= 0x80) || (what == 'u' && (lower || title)) ||
            (what == 'l' && (upper || title)) ||
            (what == 't' && ((upper || title) ? within : lower && !within)))
            return 0;
        within = upper || lower || title;
    }
    return what == 'i' || (what == 'u' || what == 'l' || what == 't' ? cased : v.n != 0);
}

static int text_case(struct jinja_run *r, struct jinja_value on, int mode, struct jinja_value *out)
{
    struct jinja_value s;
    size_t from;
    if (jinja_str(r, on, &s)) return -1;
    from = r->n_out;
    return jinja_put_case(r, s.s, s.n, mode) ? -1 : jinja_take(r, from, out);
}

/* ---- filters ---- */

int jinja_filter_upper(FILTER_PARAMS)
{
    (void)args, (void)slot;
    return text_case(r, on, 'u', out);
}
int jinja_filter_lower(FILTER_PARAMS)
{
    (void)args, (void)slot;
    return text_case(r, on, 'l', out);
}
int jinja_filter_capitalize(FILTER_PARAMS)
{
    (void)args, (void)slot;
    return text_case(r, on, 'c', out);
}

/* Unlike str.title: a word begins only after - ( { [ < and white space. */
int jinja_filter_title(FILTER_PARAMS)
{
    struct jinja_value s;
    (void)args, (void)slot;
    if (jinja_str(r, on, &s)) return -1;
    size_t start = r->n_out;
    for (size_t at = 0, from; at < s.n;) {
        for (from = at; at < s.n;) {
            size_t next = at;
            int32_t c = jinja_point(s.s, s.n, &next);
            if (c != '-' && c != '(' && c != '{' && c != '[' && c != '<' && !jinja_is_space(c))
                break;
            at = next;
        }
        if (jinja_put(r, s.s + from, at - from)) return -1;
        for (from = at; at < s.n;) {
            size_t next = at;
            int32_t c = jinja_point(s.s, s.n, &next);
            if (c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_is_space(c))
                break;
            at = next;
        }
        size_t first = from;
        if (at > from) jinja_point(s.s, s.n, &first);
        if (jinja_put_case(r, s.s + from, first - from, 'u') ||
            jinja_put_case(r, s.s + first, at - first, 'l'))
            return -1;
    }
    return jinja_take(r, start, out);
}

int jinja_filter_trim(FILTER_PARAMS)
{
    struct jinja_value s, chars;
    (void)args;
    if (jinja_str(r, on, &s)) return -1;
    int given = slot[0].type != JINJA_ABSENT && slot[0].type != JINJA_NONE;
    if (given && text_arg(r, slot[0], NULL, &chars)) return -1;
    *out = jinja_strip(s, given ? &chars : NULL, 1, 1);
    return 0;
}

int jinja_filter_string(FILTER_PARAMS)
{
    (void)args, (void)slot;
    return jinja_str(r, on, out);
}

int jinja_filter_safe(FILTER_PARAMS)
{
    (void)args, (void)slot;
    if (jinja_str(r, on, out)) return -1;
    out->flag = 1;
    return 0;
}

int jinja_filter_forceescape(FILTER_PARAMS)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct jinja_value s;
    (void)args, (void)slot;
    if (jinja_str(r, on, &s)) return -1;
    size_t start = r->n_out;
    for (size_t i = 0; i < s.n; i++) {
        const char *known = s.s[i] ? strchr(from, s.s[i]) : NULL;
        if (known ? jinja_put(r, to[known - from], strlen(to[known - from]))
                  : jinja_put(r, s.s + i, 1))
            return -1;
    }
    if (jinja_take(r, start, out)) return -1;
    out->flag = 1;
    return 0;
}

int jinja_filter_escape(FILTER_PARAMS)
{
    if (on.type != JINJA_STRING || !on.flag)
        return jinja_filter_forceescape(r, on, args, slot, out);
    *out = on;
    return 0;
}

int jinja_filter_replace(FILTER_PARAMS)
{
    struct jinja_value s, from, to;
    int64_t count;
    (void)args;
    if (jinja_str(r, on, &s) || jinja_str(r, slot[0], &from) || jinja_str(r, slot[1], &to) ||
        int_arg(r, slot[2], -1, &count))
        return -1;
    return jinja_replace(r, s, from, to, count, out);
}

int jinja_filter_center(FILTER_PARAMS)
{
    struct jinja_value s;
    int64_t width;
    (void)args;
    return jinja_str(r, on, &s) || int_arg(r, slot[0], 80, &width)
               ? -1
               : jinja_center(r, s, width, " ", 1, 'c', out);
}

int jinja_filter_indent(FILTER_PARAMS) /* width first blank */
{
    struct jinja_value s, pad, lines;
    size_t start = r->n_out;
    (void)args;
    if (text_arg(r, on, NULL, &s)) return -1;
    if (slot[0].type == JINJA_STRING) {
        pad = slot[0];
    } else {
        int64_t width;
        if (int_arg(r, slot[0], 4, &width) ||
            jinja_center(r, jinja_static(""), width, " ", 1, '<', &pad))
            return -1;
    }
    int first = jinja_truth(slot[1]), blank = jinja_truth(slot[2]);
    if (jinja_list(r, JINJA_LIST, 8, &lines) || jinja_put_splitlines(r, s, 0, lines.list))
        return -1;
    /* Jinja adds a newline before it splits: a text that ends with one keeps an empty last line. */
    size_t last = s.n;
    while (last && ((unsigned char)s.s[last - 1] & 0xc0) == 0x80) last--;
    if ((!s.n || line_break(s.s + last - (last > 0), s.n - last + (last > 0))) &&
        !(s.n && s.s[s.n - 1] == '\r') && jinja_push(r, lines.list, jinja_static("")))
        return -1;
    if (first && jinja_put(r, pad.s, pad.n)) return -1;
    for (size_t i = 0; i < lines.list->n; i++) {
        struct jinja_value line = lines.list->item[i];
        if ((i && jinja_put(r, "\n", 1)) ||
            (i && (line.n || blank) && jinja_put(r, pad.s, pad.n)) || jinja_put(r, line.s, line.n))
            return -1;
    }
    return jinja_take(r, start, out);
}

int jinja_filter_truncate(FILTER_PARAMS) /* length killwords end leeway */
{
    struct jinja_value s = {0}, end;
    int64_t length, leeway, n, n_end;
    (void)args;
    if (on.type == JINJA_UNDEFINED) on = jinja_bytes("", 0); /* which has a length in Python */
    if (int_arg(r, slot[0], 255, &length) || text_arg(r, slot[2], "...", &end) ||
        int_arg(r, slot[3], 5, &leeway) || jinja_length(r, on, &n) || jinja_length(r, end, &n_end))
        return -1;
    if (length < n_end)
        return jinja_fail(r, "expected length >= %lld, got %lld", (long long)n_end,
                          (long long)length);
    if (leeway < 0) return jinja_fail(r, "expected leeway >= 0, got %lld", (long long)leeway);
    if (n - leeway <= length) { /* also a list */
        *out = on;
        return 0;
    }
    if (text_arg(r, on, NULL, &s)) return -1;
    size_t cut = jinja_point_offset(s.s, s.n, (size_t)(length - n_end));
    const char *space = jinja_truth(slot[1]) ? NULL : memrchr(s.s, ' ', cut);
    return jinja_concat(r, jinja_bytes(s.s, space ? (size_t)(space - s.s) : cut), end, out);
}

int jinja_filter_wordcount(FILTER_PARAMS)
{
    struct jinja_value s;
    int64_t n = 0;
    int within = 0;
    (void)args, (void)slot;
    if (jinja_str(r, on, &s)) return -1;
    for (size_t at = 0, from = 0; at < s.n; from = at) {
        jinja_point(s.s, s.n, &at);
        int word = s.s[from] == '_' || jinja_text_is(jinja_bytes(s.s + from, at - from), 'A');
        n += word && !within;
        within = word;
    }
    *out = jinja_int(n);
    return 0;
}

int jinja_filter_tojson(FILTER_PARAMS) /* ensure_ascii indent separators sort_keys */
{
    struct jinja_json_format f = {
        .ascii = jinja_truth(slot[0]),
        .sort_keys = jinja_truth(slot[3]),
        .has_indent = slot[1].type != JINJA_ABSENT && slot[1].type != JINJA_NONE,
        .separators = {jinja_static(", "), jinja_static(": ")},
    };
    size_t start = r->n_out;
    (void)args;
    if (f.has_indent) {
        f.separators[0] = jinja_static(",");
        if (slot[1].type == JINJA_STRING) {
            f.indent = slot[1];
        } else {
            int64_t width;
            if (int_arg(r, slot[1], 0, &width) ||
                jinja_center(r, jinja_static(""), width, " ", 1, '<', &f.indent))
                return -1;
        }
    }
    if (slot[2].type == JINJA_LIST || slot[2].type == JINJA_TUPLE) {
        const struct jinja_list *l = slot[2].list;
        if (l->n != 2 || l->item[0].type != JINJA_STRING || l->item[1].type != JINJA_STRING)
            return jinja_fail(r, "tojson: separators are two strings");
        f.separators[0] = l->item[0], f.separators[1] = l->item[1];
    } else if (slot[2].type != JINJA_ABSENT && slot[2].type != JINJA_NONE) {
        return jinja_fail(r, "tojson: separators are two strings");
    }
    if (jinja_put_json(r, on, &f)) return -1;
    return jinja_take(r, start, out);
}

int jinja_filter_format(FILTER_PARAMS)
{
    struct jinja_value s, v;
    (void)slot;
    if (jinja_str(r, on, &s)) return -1;
    if (args->n && args->n_kw)
        return jinja_fail(r, "can't handle positional and keyword arguments at the same time");
    if (args->n_kw) {
        if (jinja_dict(r, JINJA_DICT, args->n_kw, &v)) return -1;
        for (size_t i = 0; i < args->n_kw; i++)
            if (jinja_dict_set(r, v.dict, jinja_bytes(args->kw[i].name, args->kw[i].n),
                               args->kw[i].value))
                return -1;
    } else {
        if (jinja_list(r, JINJA_TUPLE, args->n, &v)) return -1;
        for (size_t i = 0; i < args->n; i++)
            if (jinja_push(r, v.list, args->pos[i])) return -1;
    }
    return jinja_percent(r, s, v, out);
}
