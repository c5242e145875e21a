#include "core/grammar/chars.h"
#include "core/grammar/notation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_COUNT = 10000 };

/* A part of an expression; what it has below it is numbers of other parts. */
struct part {
    enum { CHARS, EMPTY, BEGIN, END, SEQUENCE, EITHER, REPEAT } kind;
    net_expr plain; /* its texts, where anchors hold everywhere */
    int a, b, min, max;
    int has_anchor, is_nullable; /* is_nullable: not counting anchors */
};

struct regex {
    struct net *net;
    const struct regex_way *way;
    struct chars t;
    int depth;
    struct part *part; /* [n] */
    int n, cap;
    struct known *known; /* [n], while anchors are looked at */
    struct err *e;
};

/* The texts of a part: of those it has below it. */
static net_expr plain_of(const struct regex *r, const struct part *x)
{
    const struct part *of = r->part;
    switch (x->kind) {
    case CHARS: return x->plain;
    case SEQUENCE:
        if (of[x->a].kind == EMPTY) return of[x->b].plain;
        return net_sequence(r->net, of[x->a].plain, of[x->b].plain);
    case EITHER: return net_either(r->net, of[x->a].plain, of[x->b].plain);
    case REPEAT: return net_repeat(r->net, of[x->a].plain, x->min, x->max);
    case EMPTY:
    case BEGIN:
    case END: break;
    }
    return net_empty(r->net);
}

/* A new part; -1: *e. */
static int add(struct regex *r, struct part x)
{
    const struct part *of = r->part;
    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 64;
        struct part *more = realloc(r->part, (size_t)cap * sizeof *more);
        if (!more) return err_memory(r->e);
        r->part = more;
        r->cap = cap;
        of = more;
    }
    int two = x.kind == SEQUENCE || x.kind == EITHER;
    x.has_anchor = x.kind == BEGIN || x.kind == END ||
                   ((two || x.kind == REPEAT) && of[x.a].has_anchor) || (two && of[x.b].has_anchor);
    x.is_nullable = x.kind == EMPTY ||
                    (x.kind == SEQUENCE && of[x.a].is_nullable && of[x.b].is_nullable) ||
                    (x.kind == EITHER && (of[x.a].is_nullable || of[x.b].is_nullable)) ||
                    (x.kind == REPEAT && (x.min == 0 || of[x.a].is_nullable));
    x.plain = plain_of(r, &x);
    r->part[r->n] = x;
    return r->n++;
}

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

static int either(struct regex *r);

/* Parentheses with a name or without, which change nothing about which texts match. */
static int group(struct regex *r)
{
    if (++r->depth > MAX_DEPTH) return wrong(r, "parentheses are nested too deeply");
    r->t.p++;
    if (follows(r, "?:")) {
        r->t.p += 2;
    } else if (follows(r, "?P<") ||
               (follows(r, "?<") && !follows(r, "?<=") && !follows(r, "?<!"))) {
        while (r->t.p < r->t.end && *r->t.p != '>') r->t.p++;
        if (!at(r, '>')) return wrong(r, "the name of a group is not closed");
        r->t.p++;
    } else if (follows(r, "?P=") || follows(r, "?P>")) {
        return wrong(r, "back references are not served");
    } else if (at(r, '?')) {
        return wrong(r, follows(r, "?=") || follows(r, "?!") || follows(r, "?<")
                            ? "look-ahead, look-behind and flags are not served"
                            : "flags and other groups that begin with (? are not served");
    }
    int x = either(r);
    if (x < 0) return -1;
    if (!at(r, ')')) return wrong(r, "a parenthesis is not closed");
    r->t.p++;
    r->depth--;
    return x;
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

static int atom(struct regex *r)
{
    static const struct net_range lines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct char_set s = {0};
    uint32_t c;
    int rc = 0, is_class;
    if (at(r, '(')) return group(r);
    if (at(r, '[')) {
        rc = read_class(r, &s);
    } else if (at(r, '.')) {
        r->t.p++;
        for (int i = 0; i < 3 && !rc; i++)
            rc = char_set_add(&s, lines[i].first, lines[i].last, r->e);
        if (!rc) rc = char_set_invert(&s, r->e);
    } else if (*r->t.p && strchr("*+?{", *r->t.p)) {
        return wrong(r, "a repetition of nothing");
    } else {
        rc = character(r, 0, &s, &c, &is_class);
        if (!rc && !is_class) rc = char_set_add(&s, c, c, r->e);
    }
    int x = rc ? -1
               : add(r, (struct part){.kind = CHARS,
                                      .plain = counted(r, r->way->chars(r->net, s.range, s.n))});
    char_set_close(&s);
    return x;
}

/* *, +, ?, {m}, {m,}, {m,n}, each with a ? that changes nothing about which texts match. */
static int repeated(struct regex *r, int x)
{
    while (x >= 0 && r->t.p < r->t.end && *r->t.p && strchr("*+?{", *r->t.p)) {
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
        x = add(r, (struct part){.kind = REPEAT, .a = x, .min = min, .max = max});
    }
    return x;
}

static int sequence(struct regex *r)
{
    int x = add(r, (struct part){.kind = EMPTY}), next;
    while (x >= 0 && r->t.p < r->t.end && *r->t.p != '|' && *r->t.p != ')') {
        if (at(r, '^') || at(r, '$')) {
            next = add(r, (struct part){.kind = at(r, '^') ? BEGIN : END});
            r->t.p++;
            if (r->t.p < r->t.end && *r->t.p && strchr("*+?{", *r->t.p))
                return wrong(r, "a repetition of an anchor");
        } else {
            next = repeated(r, atom(r));
        }
        if (next < 0) return -1;
        x = add(r, (struct part){.kind = SEQUENCE, .a = x, .b = next});
    }
    return x;
}

static int either(struct regex *r)
{
    int x = sequence(r);
    while (x >= 0 && at(r, '|')) {
        r->t.p++;
        int one = sequence(r);
        x = one < 0 ? -1 : add(r, (struct part){.kind = EITHER, .a = x, .b = one});
    }
    return x;
}

/* ---- anchors anywhere: ^ holds where nothing was read before, $ where nothing is read behind. So
 * the texts of a part depend on whether there is something before it and behind it, and are told
 * apart into the empty one and the others. */

/* Where a part stands. */
struct edges {
    int begins, ends; /* 1: nothing is before it, behind it */
};
enum { NONE = NET_FAILED, UNKNOWN = UINT32_MAX - 1 };

/* What was found of a part, for each of four edges. */
struct known {
    net_expr something[4];
    signed char takes_nothing[4]; /* -1: not known */
};

static int edge_of(struct edges at) { return 2 * at.begins + at.ends; }
static int takes_nothing(const struct regex *r, int i, struct edges at);

static int find_nothing(const struct regex *r, int i, struct edges at)
{
    const struct part *x = &r->part[i];
    switch (x->kind) {
    case CHARS: return 0;
    case EMPTY: return 1;
    case BEGIN: return at.begins;
    case END: return at.ends;
    case SEQUENCE: return takes_nothing(r, x->a, at) && takes_nothing(r, x->b, at);
    case EITHER: return takes_nothing(r, x->a, at) || takes_nothing(r, x->b, at);
    case REPEAT: break;
    }
    return x->min == 0 || takes_nothing(r, x->a, at);
}

static int takes_nothing(const struct regex *r, int i, struct edges at)
{
    signed char *known = &r->known[i].takes_nothing[edge_of(at)];
    if (*known < 0) *known = (signed char)find_nothing(r, i, at);
    return *known;
}

static net_expr or_none(const struct regex *r, net_expr a, net_expr b)
{
    return a == NONE ? b : b == NONE ? a : net_either(r->net, a, b);
}

static net_expr both(const struct regex *r, net_expr a, net_expr b)
{
    return a == NONE || b == NONE ? NONE : net_sequence(r->net, a, b);
}

/* The texts but for the empty one; NET_FAILED: there are none. */
static net_expr something(const struct regex *r, int i, struct edges at);

/* All texts. */
static net_expr all(const struct regex *r, int i, struct edges at)
{
    net_expr x = something(r, i, at);
    return takes_nothing(r, i, at) ? or_none(r, x, net_empty(r->net)) : x;
}

static net_expr sequence_of(const struct regex *r, const struct part *x, struct edges at)
{
    const struct edges first = {at.begins, 0}, last = {0, at.ends};
    net_expr y;
    if (!r->part[x->a].has_anchor || !at.ends) { /* its texts are the same whatever is behind */
        y = both(r, something(r, x->a, first), all(r, x->b, last));
    } else {
        y = both(r, something(r, x->a, first), something(r, x->b, last));
        if (takes_nothing(r, x->b, last)) y = or_none(r, y, something(r, x->a, at));
    }
    return takes_nothing(r, x->a, first) ? or_none(r, y, something(r, x->b, at)) : y;
}

/* One text that is not empty, or several; empty ones between them count, too. */
static net_expr repeat_of(const struct regex *r, const struct part *x, struct edges at)
{
    const struct edges first = {at.begins, 0}, last = {0, at.ends}, inner = {0, 0};
    int fills = takes_nothing(r, x->a, first) || takes_nothing(r, x->a, last),
        min = fills || x->min < 1 ? 1 : x->min;
    net_expr y = NONE, middle;
    if (x->max == 0) return NONE;
    if (min == 1) y = something(r, x->a, at);
    if (x->max == 1) return y;
    int more = min > 2 ? min - 2 : 0, most = x->max == NET_NO_LIMIT ? x->max : x->max - 2;
    middle = something(r, x->a, inner);
    if (middle == NONE && more) return y;
    middle = middle == NONE ? net_empty(r->net) : net_repeat(r->net, middle, more, most);
    net_expr several = both(r, something(r, x->a, first),
                            both(r, middle, something(r, x->a, last)));
    return or_none(r, y, several);
}

static net_expr find_something(const struct regex *r, int i, struct edges at)
{
    const struct part *x = &r->part[i];
    if (!x->has_anchor && !x->is_nullable) return x->plain;
    switch (x->kind) {
    case CHARS: return x->plain;
    case SEQUENCE: return sequence_of(r, x, at);
    case EITHER: return or_none(r, something(r, x->a, at), something(r, x->b, at));
    case REPEAT: return repeat_of(r, x, at);
    case EMPTY:
    case BEGIN:
    case END: break;
    }
    return NONE;
}

static net_expr something(const struct regex *r, int i, struct edges at)
{
    net_expr *known = &r->known[i].something[edge_of(at)];
    if (*known == UNKNOWN) *known = find_something(r, i, at);
    return *known;
}

/* ---- the expression */

/* The parts of a sequence from its end on, and whether only its ends are anchors. */
struct ends {
    int begins, ends, is_simple;
};

static struct ends ends_of(const struct regex *r, int i)
{
    struct ends e = {0, 0, 1};
    for (int is_last = 1; r->part[i].kind == SEQUENCE; i = r->part[i].a, is_last = 0) {
        const struct part *x = &r->part[r->part[i].b];
        int is_first = r->part[r->part[i].a].kind == EMPTY;
        if (x->kind == END && is_last) e.ends = 1;
        else if (x->kind == BEGIN && is_first) e.begins = 1;
        else if (x->has_anchor) e.is_simple = 0;
    }
    return e;
}

/* A way whose anchors are not at its ends alone. */
static int anchored_way(struct regex *r, int i, net_expr *x)
{
    enum { MAX_PARTS = 1000 };
    const struct edges whole = {1, 1};
    if (r->way->any) { /* characters, the expression, characters */
        int any = add(r, (struct part){.kind = CHARS, .plain = counted(r, r->way->any(r->net))}),
            some = any < 0 ? -1
                           : add(r, (struct part){.kind = REPEAT, .a = any, .max = NET_NO_LIMIT});
        if (some >= 0) i = add(r, (struct part){.kind = SEQUENCE, .a = some, .b = i});
        if (some < 0 || i < 0) return -1;
        if ((i = add(r, (struct part){.kind = SEQUENCE, .a = i, .b = some})) < 0) return -1;
    }
    if (r->n > MAX_PARTS) return err_set(r->e, "^ or $ within so long an expression is not served");
    if (!(r->known = malloc((size_t)r->n * sizeof *r->known))) return err_memory(r->e);
    for (int k = 0; k < r->n; k++)
        r->known[k] = (struct known){{UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, {-1, -1, -1, -1}};
    *x = all(r, i, whole);
    if (*x == NONE) *x = net_chars(r->net, NULL, 0);
    free(r->known);
    r->known = NULL;
    return 0;
}

/* One way of several. */
static int one_way(struct regex *r, int i, net_expr *x)
{
    const struct ends e = ends_of(r, i);
    if (!e.is_simple) return anchored_way(r, i, x);
    *x = r->part[i].plain;
    if (!r->way->any) return 0;
    if (!e.begins) *x = net_sequence(r->net, around(r), *x);
    if (!e.ends) *x = net_sequence(r->net, *x, around(r));
    return 0;
}

/* Ways are nested to the left, the last one first. */
static int all_ways(struct regex *r, int i, net_expr *x)
{
    net_expr one = NONE;
    int rc = 0, is_first = 1;
    while (!rc) {
        const int is_last = r->part[i].kind != EITHER;
        rc = one_way(r, is_last ? i : r->part[i].b, &one);
        if (!rc) *x = is_first ? one : net_either(r->net, *x, one);
        if (is_last) break;
        is_first = 0;
        i = r->part[i].a;
    }
    return rc;
}

int notation_regex_as(struct net *n, const char *text, size_t bytes, const struct regex_way *way,
                      net_expr *x, struct err *e)
{
    struct regex r = {.net = n, .way = way, .t = {text, text, text + bytes}, .e = e};
    int i = either(&r), rc = i < 0 ? -1 : 0;
    if (!rc && r.t.p < r.t.end) rc = wrong(&r, "a parenthesis was not opened");
    if (!rc) rc = all_ways(&r, i, x);
    free(r.part);
    return rc;
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
