#include "core/grammar/chars.h"
#include "core/grammar/notation.h"

#include <string.h>

enum { MAX_DEPTH = 200, MAX_COUNT = 10000 };

struct regex {
    struct net *net;
    const struct regex_way *way;
    struct chars t;
    int depth;
    struct err *e;
};

static int wrong(struct regex *r, const char *what)
{
    return err_set(r->e, "character %d: %s", (int)(r->t.p - r->t.begin) + 1, what);
}

static int at(const struct regex *r, char c) { return r->t.p < r->t.end && *r->t.p == c; }
static int follows(const struct regex *r, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(r->t.end - r->t.p) >= n && !memcmp(r->t.p, text, n);
}

/* \d \w \s and what they are not; 0: C names none of these, 1: added to S. */
static int add_class(struct regex *r, char c, struct char_set *s)
{
    static const struct net_range digits[] = {{'0', '9'}},
                                  words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                  spaces[] = {{9, 13},          {' ', ' '},       {0xa0, 0xa0},
                                              {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                              {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                              {0xfeff, 0xfeff}};
    static const struct {
        char name;
        const struct net_range *range;
        int n;
    } classes[] = {{'d', digits, 1}, {'w', words, 4}, {'s', spaces, 10}};
    for (int i = 0; i < 3; i++) {
        struct char_set own = {0};
        if ((c | 0x20) != classes[i].name) continue;
        int rc = 0;
        for (int k = 0; k < classes[i].n && !rc; k++)
            rc = char_set_add(&own, classes[i].range[k].first, classes[i].range[k].last, r->e);
        if (!rc && c < 'a') rc = char_set_invert(&own, r->e);
        for (int k = 0; k < own.n && !rc; k++)
            rc = char_set_add(s, own.range[k].first, own.range[k].last, r->e);
        char_set_close(&own);
        return rc ? -1 : 1;
    }
    return 0;
}

/* The character of an escape, behind its backslash. */
static int escaped(struct regex *r, int in_class, uint32_t *c)
{
    static const char from[] = "nrtvf", to[] = "\n\r\t\v\f";
    struct chars *t = &r->t;
    const char *known;
    if (t->p == t->end) return wrong(r, "the expression ends with a backslash");
    char kind = *t->p;
    if (kind && (known = strchr(from, kind))) {
        t->p++;
        *c = (unsigned char)to[known - from];
        return 0;
    }
    if (kind >= '1' && kind <= '9') return wrong(r, "back references are not served");
    if ((kind == 'b' || kind == 'B') && !in_class)
        return wrong(r, "word boundaries are not served");
    if (kind == 'p' || kind == 'P' || kind == 'k')
        return wrong(r, "\\p, \\P and \\k are not served");
    t->p++;
    int64_t x = -1;
    if (kind == 'b') x = 8;
    else if (kind == '0') x = 0;
    else if (kind == 'x') x = chars_hex(t, 2);
    else if (kind == 'c') x = t->p < t->end ? *t->p++ & 31 : -1;
    else if (kind == 'u' && at(r, '{')) {
        int digits = 0;
        t->p++;
        while (t->p + digits < t->end && t->p[digits] != '}' && digits < 7) digits++;
        x = digits ? chars_hex(t, digits) : -1;
        if (!at(r, '}')) x = -1;
        else t->p++;
    } else if (kind == 'u') {
        x = chars_hex(t, 4);
        if (x >= 0xd800 && x < 0xdc00 && follows(r, "\\u")) { /* a pair of surrogates */
            t->p += 2;
            int64_t low = chars_hex(t, 4);
            x = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((x & 0x3ff) << 10) + (low & 0x3ff) : -1;
        }
    } else if (!(((kind | 0x20) >= 'a' && (kind | 0x20) <= 'z') || kind == '_')) {
        t->p--; /* any other punctuation or character stands for itself */
        x = chars_next(t);
    }
    if (x < 0 || x > CHARS_LAST) return wrong(r, "an escape that is not known or not complete");
    *c = (uint32_t)x;
    return 0;
}

/* A character, or a class of them that is added to S: *is_class. */
static int character(struct regex *r, int in_class, struct char_set *s, uint32_t *c, int *is_class)
{
    *is_class = 0;
    if (r->t.p == r->t.end) return wrong(r, "[ is not closed");
    if (*r->t.p != '\\') {
        *c = chars_next(&r->t);
        return 0;
    }
    r->t.p++;
    if (r->t.p < r->t.end && (*is_class = add_class(r, *r->t.p, s))) {
        r->t.p++;
        return *is_class < 0 ? -1 : 0;
    }
    return escaped(r, in_class, c);
}

static int read_class(struct regex *r, struct char_set *s)
{
    int invert = 0, is_class, ends_in_class;
    uint32_t first, last;
    r->t.p++;
    if (at(r, '^')) invert = 1, r->t.p++;
    while (!at(r, ']')) {
        if (character(r, 1, s, &first, &is_class)) return -1;
        if (is_class) continue;
        last = first;
        if (at(r, '-') && r->t.end - r->t.p > 1 && r->t.p[1] != ']') {
            r->t.p++;
            if (character(r, 1, s, &last, &ends_in_class)) return -1;
            if (ends_in_class) { /* as Annex B has it: the dash stands for itself */
                last = first;
                if (char_set_add(s, '-', '-', r->e)) return -1;
            }
        }
        if (last < first) return wrong(r, "a range whose end comes before its begin");
        if (char_set_add(s, first, last, r->e)) return -1;
    }
    r->t.p++;
    return invert ? char_set_invert(s, r->e) : 0;
}

static int either(struct regex *r, net_expr *x);

static int group(struct regex *r, net_expr *x)
{
    if (++r->depth > MAX_DEPTH) return wrong(r, "parentheses are nested too deeply");
    r->t.p++;
    if (follows(r, "?:")) {
        r->t.p += 2;
    } else if (follows(r, "?<") && !follows(r, "?<=") && !follows(r, "?<!")) {
        while (r->t.p < r->t.end && *r->t.p != '>') r->t.p++;
        if (!at(r, '>')) return wrong(r, "the name of a group is not closed");
        r->t.p++;
    } else if (at(r, '?')) {
        return wrong(r, "look-ahead, look-behind and flags are not served");
    }
    if (either(r, x)) return -1;
    if (!at(r, ')')) return wrong(r, "a parenthesis is not closed");
    r->t.p++;
    r->depth--;
    return 0;
}

static net_expr counted(const struct regex *r, net_expr x)
{
    int counter = r->way->counter;
    return counter < 0 ? x : net_sequence(r->net, net_count(r->net, counter), x);
}

/* Characters that may stand around the expression. */
static net_expr around(const struct regex *r)
{
    return net_repeat(r->net, counted(r, r->way->any(r->net)), 0, NET_NO_LIMIT);
}

/* One atom; *is_anchor: one that reads nothing. */
static int atom(struct regex *r, net_expr *x)
{
    static const struct net_range lines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct char_set s = {0};
    uint32_t c;
    int rc = 0, is_class;
    if (at(r, '(')) return group(r, x);
    if (at(r, '[')) {
        rc = read_class(r, &s);
    } else if (at(r, '.')) {
        r->t.p++;
        for (int i = 0; i < 3 && !rc; i++)
            rc = char_set_add(&s, lines[i].first, lines[i].last, r->e);
        if (!rc) rc = char_set_invert(&s, r->e);
    } else if (*r->t.p && strchr("*+?{", *r->t.p)) {
        return wrong(r, "a repetition of nothing");
    } else if (*r->t.p == '^' || *r->t.p == '$') {
        return wrong(r, "^ and $ are served at the ends of the expression only");
    } else {
        rc = character(r, 0, &s, &c, &is_class);
        if (!rc && !is_class) rc = char_set_add(&s, c, c, r->e);
    }
    if (!rc) *x = counted(r, r->way->chars(r->net, s.range, s.n));
    char_set_close(&s);
    return rc;
}

/* *, +, ?, {m}, {m,}, {m,n}, each with a ? that changes nothing about which texts match. */
static int repeated(struct regex *r, net_expr *x)
{
    while (r->t.p < r->t.end && *r->t.p && strchr("*+?{", *r->t.p)) {
        char c = *r->t.p++;
        int min = c == '+', max = c == '?' ? 1 : NET_NO_LIMIT;
        if (c == '{') {
            min = max = chars_number(&r->t);
            if (min >= 0 && at(r, ',')) {
                r->t.p++;
                max = at(r, '}') ? NET_NO_LIMIT : chars_number(&r->t);
                if (max < 0 && !at(r, '}')) min = -1;
            }
            if (min < 0 || !at(r, '}'))
                return wrong(r, "{ begins a repetition {m}, {m,} or {m,n}; \\{ is the character");
            r->t.p++;
            if (min > MAX_COUNT || max > MAX_COUNT || (max >= 0 && max < min))
                return wrong(r, "a repetition of more than 10,000, or whose end comes first");
        }
        if (at(r, '?')) r->t.p++;
        *x = net_repeat(r->net, *x, min, max);
    }
    return 0;
}

/* One way of several. Between parentheses ^ and $ are not known; elsewhere they end it, and where
 * they do not, something may stand around it. */
static int sequence(struct regex *r, net_expr *x)
{
    int begins = 0, ends = 0;
    net_expr next;
    *x = net_empty(r->net);
    if (!r->depth && at(r, '^')) begins = 1, r->t.p++;
    while (r->t.p < r->t.end && *r->t.p != '|' && *r->t.p != ')') {
        if (!r->depth && *r->t.p == '$' && (r->t.p + 1 == r->t.end || r->t.p[1] == '|')) {
            ends = 1;
            r->t.p++;
            break;
        }
        if (atom(r, &next) || repeated(r, &next)) return -1;
        *x = net_sequence(r->net, *x, next);
    }
    if (r->depth || !r->way->any) return 0;
    if (!begins) *x = net_sequence(r->net, around(r), *x);
    if (!ends) *x = net_sequence(r->net, *x, around(r));
    return 0;
}

static int either(struct regex *r, net_expr *x)
{
    if (sequence(r, x)) return -1;
    while (at(r, '|')) {
        net_expr one;
        r->t.p++;
        if (sequence(r, &one)) return -1;
        *x = net_either(r->net, *x, one);
    }
    return 0;
}

int notation_regex_as(struct net *n, const char *text, size_t bytes, const struct regex_way *way,
                      net_expr *x, struct err *e)
{
    struct regex r = {.net = n, .way = way, .t = {text, text, text + bytes}, .e = e};
    if (either(&r, x)) return -1;
    return r.t.p < r.t.end ? wrong(&r, "a parenthesis was not opened") : 0;
}

int notation_regex(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e)
{
    static const struct regex_way plain = {net_chars, NULL, -1};
    net_expr x;
    *root = net_rule(n, "root", 4);
    if (notation_regex_as(n, text, bytes, &plain, &x, e)) return -1;
    net_define(n, *root, x);
    return 0;
}
