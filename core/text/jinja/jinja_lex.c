/* jinja_lex.c: template text to tokens, with Jinja's rules for white space around tags. Must not
 * know: syntax beyond tokens. */
#include "core/text/jinja/jinja_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct jinja_arena *arena;
    const char *s; /* [n] newlines normalized to \n, the last one removed */
    size_t n, at;
    int line, line_starting; /* 1: the last token ended with a newline */
    struct jinja_token *tok;
    size_t n_tok, cap;
    struct err *e;
};

static int fail(struct lexer *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct lexer *x, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(x->e, "line %d: %s", x->line, text);
}

static int add(struct lexer *x, struct jinja_token t)
{
    if (x->n_tok == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 256;
        struct jinja_token *grown = jinja_arena_get(x->arena, cap * sizeof *grown);
        if (!grown) return err_memory(x->e);
        if (x->n_tok) memcpy(grown, x->tok, x->n_tok * sizeof *grown);
        x->tok = grown;
        x->cap = cap;
    }
    t.line = x->line;
    x->tok[x->n_tok++] = t;
    return 0;
}

/* Offset after the white space at `at`. */
static size_t skip_space(const struct lexer *x, size_t at)
{
    while (at < x->n) {
        size_t next = at;
        if (!jinja_is_space(jinja_point(x->s, x->n, &next))) break;
        at = next;
    }
    return at;
}

static size_t strip_right(const char *s, size_t from, size_t to)
{
    struct jinja_value v = jinja_strip(jinja_bytes(s + from, to - from), NULL, 0, 1);
    return from + v.n;
}

/* Advances to `to`, counting lines. */
static void move(struct lexer *x, size_t to)
{
    if (to > x->at) x->line_starting = x->s[to - 1] == '\n';
    for (; x->at < to; x->at++) x->line += x->s[x->at] == '\n';
}

static int here(const struct lexer *x, size_t at, const char *text)
{
    size_t n = strlen(text);
    return x->n - at >= n && !memcmp(x->s + at, text, n);
}

/* Offset after an end tag at `at` (with its sign and the white space that it removes), or 0. */
static size_t end_tag(const struct lexer *x, size_t at, const char *tag, int is_variable)
{
    if (here(x, at, tag)) {
        at += 2;
        return !is_variable && at < x->n && x->s[at] == '\n' ? at + 1 : at;
    }
    if (at >= x->n || !here(x, at + 1, tag)) return 0;
    if (x->s[at] == '-') return skip_space(x, at + 3);
    return x->s[at] == '+' && !is_variable ? at + 3 : 0;
}

/* Offset after "raw" or "endraw" and its tag, in a block tag whose sign ends at `at`; 0: another
 * tag. */
static size_t raw_tag(const struct lexer *x, size_t at, const char *word)
{
    at = skip_space(x, at);
    if (!here(x, at, word)) return 0;
    at = skip_space(x, at + strlen(word));
    if (!strcmp(word, "endraw")) return end_tag(x, at, "%}", 0);
    return here(x, at, "%}") ? at + 2 : here(x, at, "-%}") ? skip_space(x, at + 3) : 0;
}

/* Adds the text from x->at up to the tag at `to`, whose sign is `sign`, with white space removed by
 * Jinja's rules. */
static int add_text(struct lexer *x, size_t to, char sign, int is_variable)
{
    size_t from = x->at, end = to;
    if (sign == '-') {
        end = strip_right(x->s, from, to);
    } else if (sign != '+' && !is_variable) {
        size_t line = to;
        while (line > from && x->s[line - 1] != '\n') line--;
        if ((line > from || x->line_starting) && strip_right(x->s, line, to) == line) end = line;
    }
    if (end > from &&
        add(x, (struct jinja_token){.type = TOK_DATA, .s = x->s + from, .n = end - from}))
        return -1;
    move(x, to);
    return 0;
}

/* ---- inside a tag ---- */

static int is_digit(int c) { return c >= '0' && c <= '9'; }

/* Offset after digits with single underscores between them, or `at`. */
static size_t digits(const struct lexer *x, size_t at, int base)
{
    for (size_t i = at;; i++) {
        if (i < x->n && x->s[i] == '_' && i > at) i++;
        int c = i < x->n ? x->s[i] | 32 : 0;
        int v = is_digit(i < x->n ? x->s[i] : 0) ? x->s[i] - '0'
                : c >= 'a' && c <= 'f'           ? c - 'a' + 10
                                                 : 99;
        if (v >= base) return i > at && x->s[i - 1] == '_' ? i - 1 : i;
    }
}

static int add_number(struct lexer *x)
{
    const char *s = x->s;
    size_t at = x->at, end;
    int base = 10, is_float = 0;
    if (s[at] == '0' && at + 1 < x->n && strchr("bBoOxX", s[at + 1])) {
        base = (s[at + 1] | 32) == 'b' ? 2 : (s[at + 1] | 32) == 'o' ? 8 : 16;
        end = digits(x, at + 2, base);
        if (end == at + 2) base = 10;
    }
    if (base == 10) {
        end = digits(x, at, 10);
        if (!(at && s[at - 1] == '.')) {
            size_t more = end;
            if (more + 1 < x->n && s[more] == '.' && is_digit(s[more + 1]))
                more = digits(x, more + 1, 10), is_float = 1, end = more;
            if (more < x->n && (s[more] | 32) == 'e') {
                size_t power = more + 1;
                if (power < x->n && (s[power] == '+' || s[power] == '-')) power++;
                if (power < x->n && is_digit(s[power])) is_float = 1, end = digits(x, power, 10);
            }
        }
        if (!is_float && s[at] == '0')
            for (size_t i = at; i < end; i++)
                if (s[i] != '0' && s[i] != '_') return fail(x, "a number with leading zeros");
    }
    char text[400];
    size_t n = 0;
    for (size_t i = base == 10 ? at : at + 2; i < end; i++) {
        if (s[i] == '_') continue;
        if (n + 1 == sizeof text)
            return fail(x, "a number of more than %zu digits", sizeof text - 1);
        text[n++] = s[i];
    }
    text[n] = 0;
    struct jinja_token t = {.type = is_float ? TOK_FLOAT : TOK_INTEGER};
    errno = 0;
    if (is_float) t.f = strtod(text, NULL);
    else t.i = strtoll(text, NULL, base);
    if (errno && !is_float)
        return fail(x, "the integer %.40s does not fit 64 bits, which is not supported", text);
    if (add(x, t)) return -1;
    move(x, end);
    return 0;
}

static int hex_value(const char *s, size_t n, uint32_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        int c = s[i] | 32;
        if (is_digit(s[i])) *v = *v * 16 + (uint32_t)(s[i] - '0');
        else if (c >= 'a' && c <= 'f') *v = *v * 16 + (uint32_t)(c - 'a' + 10);
        else return -1;
    }
    return 0;
}

static size_t encode(char *p, uint32_t c)
{
    if (c < 0x80) {
        p[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i; c >>= 6) p[i] = (char)(0x80 | (c & 63));
    p[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* Decodes one escape of s [n] (after the backslash) into p, as Python's unicode-escape; *used:
 * bytes of s. -1: invalid. */
static long unescape(const char *s, size_t n, char *p, size_t *used)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *known = strchr(from, s[0]);
    uint32_t c;
    *used = 1;
    if (s[0] == '\n') return 0;
    if (known && s[0]) {
        *p = to[known - from];
        return 1;
    }
    if (s[0] >= '0' && s[0] <= '7') {
        for (c = 0, *used = 0; *used < 3 && *used < n && s[*used] >= '0' && s[*used] <= '7';
             ++*used)
            c = c * 8 + (uint32_t)(s[*used] - '0');
        return (long)encode(p, c);
    }
    if (s[0] == 'x' || s[0] == 'u' || s[0] == 'U') {
        size_t width = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
        if (n <= width || hex_value(s + 1, width, &c) || c > 0x10ffff ||
            (c >= 0xd800 && c < 0xe000))
            return -1;
        *used = 1 + width;
        return (long)encode(p, c);
    }
    if (s[0] == 'N') return -1;
    p[0] = '\\';
    if ((unsigned char)s[0] < 0x80) {
        p[1] = s[0];
        return 2;
    }
    /* Python first converts non-ASCII characters to escapes; a backslash before one consumes its
     * backslash. */
    *used = 0;
    int32_t point = jinja_point(s, n, used);
    char text[16];
    int len = snprintf(text, sizeof text,
                       point < 0x100     ? "x%02x"
                       : point < 0x10000 ? "u%04x"
                                         : "U%08x",
                       (unsigned)point);
    memcpy(p + 1, text, (size_t)len);
    return 1 + len;
}

static int add_string(struct lexer *x)
{
    size_t from = x->at + 1, to = from;
    for (; to < x->n && x->s[to] != x->s[x->at]; to++)
        if (x->s[to] == '\\') to++;
    if (to >= x->n) return fail(x, "a string without its closing %c", x->s[x->at]);
    char *text = jinja_arena_get(x->arena, 4 * (to - from) + 1);
    if (!text) return err_memory(x->e);
    size_t n = 0;
    for (size_t i = from; i < to;) {
        if (x->s[i] != '\\') {
            text[n++] = x->s[i++];
            continue;
        }
        size_t used;
        long more = unescape(x->s + i + 1, to - i - 1, text + n, &used);
        if (more < 0)
            return fail(x, "the escape \\%.*s in a string is not supported",
                        to - i > 5 ? 5 : (int)(to - i - 1), x->s + i + 1);
        n += (size_t)more;
        i += 1 + used;
    }
    if (add(x, (struct jinja_token){.type = TOK_STRING, .s = text, .n = n})) return -1;
    move(x, to + 1);
    return 0;
}

static int add_operator(struct lexer *x, char *open, int *n_open)
{
    static const struct {
        const char *text;
        int op;
    } doubles[] = {{"//", OP_FLOORDIV}, {"**", OP_POW}, {"==", OP_EQ},
                   {"!=", OP_NE},       {">=", OP_GE},  {"<=", OP_LE}};
    char c = x->s[x->at];
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        if (here(x, x->at, doubles[i].text)) {
            if (add(x, (struct jinja_token){.type = TOK_OPERATOR, .op = (uint8_t)doubles[i].op}))
                return -1;
            move(x, x->at + 2);
            return 0;
        }
    if (!strchr("+-/*%~[](){}><=.:|,;", c) || !c) {
        size_t next = x->at;
        jinja_point(x->s, x->n, &next);
        return fail(x, "unexpected character '%.*s'", (int)(next - x->at), x->s + x->at);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (*n_open == JINJA_MAX_PARSE_DEPTH)
            return fail(x, "more than %d brackets within each other", JINJA_MAX_PARSE_DEPTH);
        open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!*n_open) return fail(x, "unexpected '%c'", c);
        if (open[--*n_open] != c)
            return fail(x, "unexpected '%c', expected '%c'", c, open[*n_open]);
    }
    int op = c == '<' ? OP_LT : c == '>' ? OP_GT : c;
    if (add(x, (struct jinja_token){.type = TOK_OPERATOR, .op = (uint8_t)op})) return -1;
    move(x, x->at + 1);
    return 0;
}

/* Adds the tokens up to the end of the tag. */
static int lex_tag(struct lexer *x, int is_variable)
{
    char open[JINJA_MAX_PARSE_DEPTH];
    int n_open = 0, line = x->line;
    for (;;) {
        size_t end;
        if (x->at >= x->n) {
            x->line = line;
            return fail(x, "a tag that is never closed");
        }
        if (!n_open && (end = end_tag(x, x->at, is_variable ? "}}" : "%}", is_variable))) {
            if (add(x,
                    (struct jinja_token){.type = is_variable ? TOK_VARIABLE_END : TOK_BLOCK_END}))
                return -1;
            move(x, end);
            return 0;
        }
        int c = x->s[x->at], rc;
        end = skip_space(x, x->at);
        if (end > x->at) {
            move(x, end);
            continue;
        }
        if (is_digit(c)) {
            rc = add_number(x);
        } else if ((c | 32) >= 'a' && (c | 32) <= 'z' && c > 0) {
            end = x->at;
            while (end < x->n && (is_digit(x->s[end]) || x->s[end] == '_' ||
                                  ((x->s[end] | 32) >= 'a' && (x->s[end] | 32) <= 'z')))
                end++;
            rc = add(x,
                     (struct jinja_token){.type = TOK_NAME, .s = x->s + x->at, .n = end - x->at});
            move(x, end);
        } else if (c == '_') {
            end = x->at;
            while (end < x->n && (is_digit(x->s[end]) || x->s[end] == '_' ||
                                  ((x->s[end] | 32) >= 'a' && (x->s[end] | 32) <= 'z')))
                end++;
            rc = add(x,
                     (struct jinja_token){.type = TOK_NAME, .s = x->s + x->at, .n = end - x->at});
            move(x, end);
        } else if (c == '\'' || c == '"') {
            rc = add_string(x);
        } else {
            rc = add_operator(x, open, &n_open);
        }
        if (rc) return -1;
    }
}

/* Adds a {% raw %} block whose opening tag ends at `at`. */
static int lex_raw(struct lexer *x, size_t at)
{
    move(x, at);
    for (size_t i = x->at; i + 1 < x->n; i++) {
        if (!here(x, i, "{%")) continue;
        char sign = i + 2 < x->n && (x->s[i + 2] == '-' || x->s[i + 2] == '+') ? x->s[i + 2] : 0;
        size_t end = raw_tag(x, i + 2 + (sign != 0), "endraw");
        if (!end) continue;
        if (add_text(x, i, sign, 0)) return -1;
        move(x, end);
        return 0;
    }
    return fail(x, "raw without endraw");
}

static int lex_comment(struct lexer *x)
{
    for (size_t i = x->at; i < x->n; i++) {
        size_t end = end_tag(x, i, "#}", 0);
        if (!end) continue;
        move(x, end);
        return 0;
    }
    return fail(x, "a comment that is never closed");
}

static int lex_all(struct lexer *x)
{
    for (;;) {
        size_t tag = x->at;
        while (tag + 1 < x->n &&
               !(x->s[tag] == '{' && strchr("%{#", x->s[tag + 1]) && x->s[tag + 1]))
            tag++;
        if (tag + 1 >= x->n) break;
        char kind = x->s[tag + 1],
             sign = tag + 2 < x->n && (x->s[tag + 2] == '-' || x->s[tag + 2] == '+') ? x->s[tag + 2]
                                                                                     : 0;
        if (add_text(x, tag, sign, kind == '{')) return -1;
        size_t inside = tag + 2 + (sign != 0), raw = kind == '%' ? raw_tag(x, inside, "raw") : 0;
        if (raw) {
            if (lex_raw(x, raw)) return -1;
            continue;
        }
        move(x, inside);
        if (kind == '#') {
            if (lex_comment(x)) return -1;
            continue;
        }
        if (add(x,
                (struct jinja_token){.type = kind == '{' ? TOK_VARIABLE_BEGIN : TOK_BLOCK_BEGIN}) ||
            lex_tag(x, kind == '{'))
            return -1;
    }
    if (x->at < x->n &&
        add(x, (struct jinja_token){.type = TOK_DATA, .s = x->s + x->at, .n = x->n - x->at}))
        return -1;
    move(x, x->n);
    return add(x, (struct jinja_token){.type = TOK_EOF});
}

int jinja_lex(struct jinja_arena *a, const char *source, size_t n, struct jinja_token **tokens,
              struct err *e)
{
    struct lexer x = {.arena = a, .line = 1, .line_starting = 1, .e = e};
    char *text = jinja_arena_get(a, n + 1);
    if (!text) return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        text[x.n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (x.n && text[x.n - 1] == '\n') x.n--;
    x.s = text;
    if (lex_all(&x)) return -1;
    *tokens = x.tok;
    return 0;
}
