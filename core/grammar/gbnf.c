#include "core/grammar/chars.h"
#include "core/grammar/named_tokens.h"
#include "core/grammar/notation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_COUNT = 10000 };

struct name {
    const char *text;
    size_t bytes;
    uint32_t rule;
    int is_defined;
};

struct gbnf {
    struct net *net;
    const struct vocab *vocab; /* NULL: tokens are not served */
    struct chars t;
    struct name *name; /* [n] */
    int *slot;         /* [n_slots]: hash table of names + 1 */
    int n, cap, depth, n_slots;
    struct err *e;
};

/* An error at the place that is being read. */
static int wrong(struct gbnf *g, const char *what)
{
    int line = 1;
    for (const char *p = g->t.begin; p < g->t.p; p++) line += *p == '\n';
    return err_set(g->e, "line %d: %s", line, what);
}

static int is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* White space and comments; ends of lines only where a rule may go on. */
static void space(struct gbnf *g, int lines)
{
    struct chars *t = &g->t;
    while (t->p < t->end) {
        if (*t->p == '#')
            while (t->p < t->end && *t->p != '\n') t->p++;
        else if (*t->p == ' ' || *t->p == '\t' || (lines && (*t->p == '\n' || *t->p == '\r')))
            t->p++;
        else break;
    }
}

static int at(const struct gbnf *g, char c) { return g->t.p < g->t.end && *g->t.p == c; }

/* The slot of a name, which is free where it is new. */
static int *slot_of(const struct gbnf *g, const char *text, size_t bytes)
{
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)text[i]) * 0x01000193u;
    for (uint32_t at = (h ^ h >> 15) & (uint32_t)(g->n_slots - 1);;
         at = (at + 1) & (uint32_t)(g->n_slots - 1)) {
        const struct name *k = &g->name[g->slot[at] - 1];
        if (!g->slot[at] || (k->bytes == bytes && !memcmp(k->text, text, bytes)))
            return &g->slot[at];
    }
}

/* Room for one more name. */
static int grow(struct gbnf *g)
{
    int cap = g->cap ? 2 * g->cap : 32, n_slots = 4 * cap;
    struct name *more = realloc(g->name, (size_t)cap * sizeof *more);
    if (more) g->name = more;
    int *slot = more ? calloc((size_t)n_slots, sizeof *slot) : NULL;
    if (!slot) return err_memory(g->e);
    free(g->slot);
    g->slot = slot;
    g->cap = cap;
    g->n_slots = n_slots;
    for (int i = 0; i < g->n; i++) *slot_of(g, g->name[i].text, g->name[i].bytes) = i + 1;
    return 0;
}

/* The name that begins here, found or made. */
static struct name *find_name(struct gbnf *g)
{
    const char *from = g->t.p;
    while (g->t.p < g->t.end && is_name(*g->t.p)) g->t.p++;
    size_t bytes = (size_t)(g->t.p - from);
    if (g->n == g->cap && grow(g)) return NULL;
    int *slot = slot_of(g, from, bytes);
    if (*slot) return &g->name[*slot - 1];
    *slot = g->n + 1;
    g->name[g->n] = (struct name){from, bytes, net_rule(g->net, from, bytes), 0};
    return &g->name[g->n++];
}

/* A character of a literal or a set, where a backslash escapes. */
static int character(struct gbnf *g, uint32_t *c)
{
    static const char from[] = "nrt\\\"[]'-^/", to[] = "\n\r\t\\\"[]'-^/";
    struct chars *t = &g->t;
    if (t->p == t->end) return wrong(g, "the text ends within quotes or brackets");
    if (*t->p != '\\') {
        *c = chars_next(t);
        return 0;
    }
    if (++t->p == t->end) return wrong(g, "the text ends with a backslash");
    const char *known = *t->p ? strchr(from, *t->p) : NULL;
    char kind = *t->p++;
    if (known) {
        *c = (unsigned char)to[known - from];
        return 0;
    }
    int64_t x = kind == 'x'   ? chars_hex(t, 2)
                : kind == 'u' ? chars_hex(t, 4)
                : kind == 'U' ? chars_hex(t, 8)
                              : -1;
    if (x < 0 || x > CHARS_LAST) return wrong(g, "an escape that is not known or not complete");
    *c = (uint32_t)x;
    return 0;
}

static int literal(struct gbnf *g, net_expr *x)
{
    *x = net_empty(g->net);
    for (g->t.p++; !at(g, '"');) {
        uint32_t c;
        if (character(g, &c)) return -1;
        *x = net_sequence(g->net, *x, net_chars(g->net, &(struct net_range){c, c}, 1));
    }
    g->t.p++;
    return 0;
}

static int set(struct gbnf *g, net_expr *x)
{
    struct char_set s = {0};
    int invert = 0, rc = 0;
    g->t.p++;
    if (at(g, '^')) invert = 1, g->t.p++;
    while (!rc && !at(g, ']')) {
        uint32_t first, last;
        rc = character(g, &first);
        last = first;
        if (!rc && at(g, '-') && g->t.end - g->t.p > 1 && g->t.p[1] != ']') {
            g->t.p++;
            rc = character(g, &last);
        }
        if (!rc && last < first) rc = wrong(g, "a range whose end comes before its begin");
        if (!rc) rc = char_set_add(&s, first, last, g->e);
    }
    g->t.p++;
    if (!rc && invert) rc = char_set_invert(&s, g->e);
    if (!rc) *x = net_chars(g->net, s.range, s.n);
    char_set_close(&s);
    return rc;
}

static int either(struct gbnf *g, net_expr *x, int nested);

static int group(struct gbnf *g, net_expr *x)
{
    if (++g->depth > MAX_DEPTH) return wrong(g, "parentheses are nested too deeply");
    g->t.p++;
    space(g, 1);
    if (either(g, x, 1)) return -1;
    if (!at(g, ')')) return wrong(g, "a parenthesis is not closed");
    g->t.p++;
    g->depth--;
    return 0;
}

/* {m}, {m,}, {m,n}, {,n} */
static int count(struct gbnf *g, int *min, int *max)
{
    struct chars *t = &g->t;
    t->p++;
    space(g, 0);
    int low = chars_number(t);
    space(g, 0);
    *min = low < 0 ? 0 : low;
    *max = low;
    if (at(g, ',')) {
        t->p++;
        space(g, 0);
        *max = chars_number(t);
        space(g, 0);
    } else if (low < 0) {
        return wrong(g, "a number belongs into {}");
    }
    if (!at(g, '}')) return wrong(g, "{ is not closed, or holds no number of at most six digits");
    t->p++;
    if (*min > MAX_COUNT || *max > MAX_COUNT || (*max >= 0 && *max < *min))
        return wrong(g, "a repetition of more than 10,000, or whose end comes before its begin");
    return 0;
}

/* <text>, <[id]>; behind an ! any number of others, so that the borders of tokens do not matter. */
static int token(struct gbnf *g, int is_not, net_expr *x)
{
    struct named_token t;
    struct err why;
    g->t.p += 1 + is_not;
    if (named_token_read(&t, g->vocab, &g->t.p, g->t.end, &why)) return wrong(g, why.msg);
    if (!is_not) {
        *x = named_token_itself(&t, g->net);
        return 0;
    }
    if (!at(g, '*') && !at(g, '+'))
        return wrong(g, "!<..> is served with * or + behind it: one token is no certain text");
    if (named_token_without(&t, g->vocab, *g->t.p++ == '+', g->net, x, &why))
        return wrong(g, why.msg);
    return 0;
}

/* One element and the repetitions behind it. */
static int element(struct gbnf *g, net_expr *x)
{
    struct name *name;
    int rc = 0;
    if (at(g, '"')) {
        rc = literal(g, x);
    } else if (at(g, '[')) {
        rc = set(g, x);
    } else if (at(g, '(')) {
        rc = group(g, x);
    } else if (at(g, '.')) {
        g->t.p++;
        *x = net_chars(g->net, &(struct net_range){0, CHARS_LAST}, 1);
    } else if (g->t.p < g->t.end && is_name(*g->t.p)) {
        if (!(name = find_name(g))) return -1;
        *x = net_call(g->net, name->rule);
    } else if (at(g, '<')) {
        rc = token(g, 0, x);
    } else if (g->t.end - g->t.p > 1 && !memcmp(g->t.p, "!<", 2)) {
        rc = token(g, 1, x);
    } else {
        return wrong(g, "something that is no literal, set, rule, token or group");
    }
    while (!rc && g->t.p < g->t.end && strchr("*+?{", *g->t.p) && *g->t.p) {
        char c = *g->t.p;
        int min = c == '+', max = c == '?' ? 1 : NET_NO_LIMIT;
        if (c == '{') rc = count(g, &min, &max);
        else g->t.p++;
        *x = net_repeat(g->net, *x, min, max);
    }
    return rc;
}

static int sequence(struct gbnf *g, net_expr *x, int nested)
{
    *x = net_empty(g->net);
    for (;;) {
        net_expr one;
        space(g, nested);
        if (g->t.p == g->t.end || strchr("|)\n\r", *g->t.p)) return 0;
        if (element(g, &one)) return -1;
        *x = net_sequence(g->net, *x, one);
    }
}

static int either(struct gbnf *g, net_expr *x, int nested)
{
    if (sequence(g, x, nested)) return -1;
    while (at(g, '|')) {
        net_expr one;
        g->t.p++;
        space(g, 1);
        if (sequence(g, &one, nested)) return -1;
        *x = net_either(g->net, *x, one);
    }
    return 0;
}

static int rule(struct gbnf *g)
{
    net_expr body;
    if (!is_name(*g->t.p)) return wrong(g, "a rule begins with its name");
    struct name *name = find_name(g);
    if (!name) return -1;
    if (name->is_defined) return wrong(g, "this rule is already defined");
    name->is_defined = 1;
    uint32_t number = name->rule; /* names may move */
    space(g, 0);
    if (g->t.end - g->t.p < 3 || memcmp(g->t.p, "::=", 3))
        return wrong(g, "::= belongs behind the name of a rule");
    g->t.p += 3;
    space(g, 1);
    if (either(g, &body, 0)) return -1;
    if (g->t.p < g->t.end && *g->t.p == ')') return wrong(g, "a parenthesis was not opened");
    net_define(g->net, number, body);
    return 0;
}

int notation_gbnf(struct net *n, const char *text, size_t bytes, const struct vocab *v,
                  uint32_t *root, struct err *e)
{
    struct gbnf g = {.net = n, .vocab = v, .t = {text, text, text + bytes}, .e = e};
    int rc = 0;
    for (space(&g, 1); g.t.p < g.t.end && !rc; space(&g, 1)) rc = rule(&g);
    int i = g.n ? *slot_of(&g, "root", 4) : 0;
    if (!rc && !i) rc = err_set(e, "there is no rule 'root'");
    if (!rc) *root = g.name[i - 1].rule;
    free(g.name);
    free(g.slot);
    return rc;
}
