/* tok_regex.c: the file's regular expressions on PCRE2. Owns: the translation from the dialect of
 * tokenizer.json (Oniguruma's Ruby syntax, Unicode 16) to PCRE2 10.42 (Unicode 14), and the
 * handling of a match that needs more stack than there is. Must not know: the use of matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/tokenizer/tok_internal.h"
#include "core/text/tokenizer/tok_tables.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Most steps of a backtracking search; when they are used up the rest of the text has no match.
 * Patterns in use need a few per character. */
#define MATCH_STEPS 20000000u
#define JIT_STACK_MAX (64u << 20) /* bytes; only if the 32 KiB on the C stack do not suffice */

struct tok_pattern {
    pcre2_code *re; /* NULL: a plain string */
    int jit;
    size_t n; /* bytes of str */
    char str[];
};

struct tok_match {
    pcre2_match_data *data;
    pcre2_match_context *ctx;
    pcre2_jit_stack *stack; /* NULL until a match needs it */
    int lacked_memory;
};

static const struct tok_class *find_class(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof tok_classes / sizeof tok_classes[0]; i++)
        if (strlen(tok_classes[i].name) == n && !memcmp(tok_classes[i].name, name, n))
            return &tok_classes[i];
    return NULL;
}

static int add_str(struct tok_buf *b, const char *s, struct err *e)
{
    return tok_buf_add(b, s, strlen(s), e);
}

/* Appends a class as its members: in brackets if alone; its complement if negated inside brackets.
 */
static int add_class(struct tok_buf *out, const struct tok_class *c, int negated, int in_set,
                     struct err *e)
{
    if (in_set && !negated) return add_str(out, c->members, e);
    if (in_set) {
        if (!c->complement)
            return err_set(e, "the class \\%s negated inside brackets is not supported", c->name);
        return add_str(out, c->complement, e);
    }
    return add_str(out, negated ? "[^" : "[", e) || add_str(out, c->members, e) ||
                   add_str(out, "]", e)
               ? -1
               : 0;
}

/* \p{Name}, \P{Name}, \p{^Name}; s points behind the p. Returns the bytes consumed, 0 on failure.
 */
static size_t add_property(struct tok_buf *out, const char *s, size_t n, int negated, int in_set,
                           struct err *e)
{
    if (n < 2 || s[0] != '{') {
        err_set(e, "a \\p without braces");
        return 0;
    }
    const char *end = memchr(s, '}', n);
    if (!end) {
        err_set(e, "a \\p{ without its end");
        return 0;
    }
    const char *name = s + 1;
    size_t len = (size_t)(end - name), used = (size_t)(end - s) + 1;
    if (len && name[0] == '^') {
        negated = !negated;
        name++;
        len--;
    }
    char key[40];
    if (len == 0 || len >= sizeof key) {
        err_set(e, "a property name of %zu bytes", len);
        return 0;
    }
    memcpy(key, name, len);
    key[len] = 0;
    for (size_t i = 0; i < sizeof tok_long_names / sizeof tok_long_names[0]; i++)
        if (!strcmp(key, tok_long_names[i].from)) strcpy(key, tok_long_names[i].to);
    const struct tok_class *c = find_class(key, strlen(key));
    int rc;
    if (c && !(negated && in_set)) rc = add_class(out, c, negated, in_set, e);
    else {
        /* PCRE2 matches a bare script name by Script_Extensions, Oniguruma by Script. */
        int bare = strlen(key) <= 2 || !strcmp(key, "Any") || !strcmp(key, "Alphabetic");
        rc = add_str(out, negated ? "\\P{" : "\\p{", e) || (!bare && add_str(out, "sc:", e)) ||
             add_str(out, key, e) || add_str(out, "}", e);
    }
    return rc ? 0 : used;
}

/* Translates one escape, s[0] == '\\'. Returns the bytes consumed, 0 on failure. */
static size_t add_escape(struct tok_buf *out, const char *s, size_t n, int in_set, struct err *e)
{
    if (n < 2) {
        err_set(e, "a backslash at the end");
        return 0;
    }
    char c = s[1];
    if (c == 'p' || c == 'P') {
        size_t used = add_property(out, s + 2, n - 2, c == 'P', in_set, e);
        return used ? used + 2 : 0;
    }
    if (c == 's' || c == 'S' || c == 'w' || c == 'W' || c == 'd' || c == 'D' || c == 'h' ||
        c == 'H') {
        char key = (char)(c | 0x20);
        const struct tok_class *k = key == 'w' && !in_set ? find_class("w alone", 7)
                                                          : find_class(&key, 1);
        return add_class(out, k, c != key, in_set, e) ? 0 : 2;
    }
    if ((c == 'b' || c == 'B') && !in_set) { /* PCRE2's word characters are fewer */
        const char *w = find_class("w alone", 7)->members;
        const char *parts[] = {"(?:(?<=[", w, "])(?", c == 'b' ? "!" : "=", "[", w,
                               "])|(?<![", w, "])(?", c == 'b' ? "=" : "!", "[", w,
                               "]))"};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (add_str(out, parts[i], e)) return 0;
        return 2;
    }
    if (strchr("QEKXRGNCOy", c)) { /* different or no meaning in the other dialect */
        err_set(e, "\\%c is not supported", c);
        return 0;
    }
    return tok_buf_add(out, s, 2, e) ? 0 : 2;
}

/* Translates [:name:] inside brackets, s[0] == '['. Returns the bytes consumed, 0 on failure. */
static size_t add_posix(struct tok_buf *out, const char *s, size_t n, struct err *e)
{
    static const struct {
        const char *name, *members;
    } sets[] = {{"[:alpha:]", "Alphabetic"},
                {"[:digit:]", "d"},
                {"[:space:]", "s"},
                {"[:word:]", "w"},
                {"[:xdigit:]", "h"}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        size_t len = strlen(sets[i].name);
        if (n >= len && !memcmp(s, sets[i].name, len))
            return add_class(out, find_class(sets[i].members, strlen(sets[i].members)), 0, 1, e)
                       ? 0
                       : len;
    }
    err_set(e, "a set inside a set is not supported");
    return 0;
}

static int translate(const char *s, size_t n, struct tok_buf *out, struct err *e)
{
    int in_set = 0;
    size_t set_start = 0;
    for (size_t i = 0; i < n;) {
        if (s[i] == '\\') {
            size_t used = add_escape(out, s + i, n - i, in_set, e);
            if (!used) return -1;
            i += used;
            continue;
        }
        if (!in_set && s[i] == '[') {
            in_set = 1;
            if (tok_buf_add(out, s + i, 1, e)) return -1;
            i++;
            if (i < n && s[i] == '^') {
                if (tok_buf_add(out, s + i, 1, e)) return -1;
                i++;
            }
            set_start = i;
            continue;
        }
        if (in_set && s[i] == '[') {
            size_t used = add_posix(out, s + i, n - i, e);
            if (!used) return -1;
            i += used;
            continue;
        }
        if (in_set && s[i] == '&' && i + 1 < n && s[i + 1] == '&')
            return err_set(e, "the intersection of sets (&&) is not supported");
        if (in_set && s[i] == ']' && i > set_start) in_set = 0;
        if (tok_buf_add(out, s + i, 1, e)) return -1;
        i++;
    }
    return 0;
}

int tok_pattern_regex(struct tok_pattern **p, const char *src, size_t n, struct err *e)
{
    struct tok_buf b = {0};
    pcre2_compile_context *cc = NULL;
    struct tok_pattern *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    if (n > 65536) {
        err_set(e, "a pattern of %zu bytes is longer than 65536", n);
        goto fail;
    }
    if (translate(src, n, &b, e)) {
        err_prefix(e, "pattern \"%.*s\"", (int)(n < 80 ? n : 80), src);
        goto fail;
    }
    cc = pcre2_compile_context_create(NULL);
    if (!cc) {
        err_memory(e);
        goto fail;
    }
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(cc, 100);
    int code;
    PCRE2_SIZE at;
    /* Ruby syntax: ^ and $ match at every line. No duplicate names, no \C. */
    t->re = pcre2_compile((PCRE2_SPTR)(b.p ? b.p : ""), b.n,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                              PCRE2_NO_UTF_CHECK,
                          &code, &at, cc);
    if (!t->re && (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY)) {
        err_memory(e);
        goto fail;
    }
    if (!t->re) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        if (code == PCRE2_ERROR_HEAP_FAILED) err_memory(e);
        else err_set(e, "pattern \"%.*s\": %s", (int)(n < 80 ? n : 80), src, (const char *)why);
        goto fail;
    }
    t->jit = pcre2_jit_compile(t->re, PCRE2_JIT_COMPLETE) == 0;
    pcre2_compile_context_free(cc);
    tok_buf_free(&b);
    *p = t;
    return 0;
fail:
    pcre2_compile_context_free(cc);
    tok_buf_free(&b);
    free(t);
    return -1;
}

int tok_pattern_string(struct tok_pattern **p, const char *src, size_t n, struct err *e)
{
    if (n == 0) return tok_pattern_regex(p, "", 0, e); /* matches between any two characters */
    struct tok_pattern *t = calloc(1, sizeof *t + n);
    if (!t) return err_memory(e);
    memcpy(t->str, src, n);
    t->n = n;
    *p = t;
    return 0;
}

void tok_pattern_close(struct tok_pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->re);
    free(p);
}

size_t tok_pattern_one_char(const struct tok_pattern *p)
{
    size_t len;
    if (p->re || tok_utf8_next((const unsigned char *)p->str, p->n, &len) < 0 || len != p->n)
        return 0;
    return len;
}

int tok_match_open(struct tok_match **m, struct err *e)
{
    struct tok_match *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    t->data = pcre2_match_data_create(1, NULL);
    t->ctx = pcre2_match_context_create(NULL);
    if (!t->data || !t->ctx) {
        tok_match_close(t);
        return err_memory(e);
    }
    pcre2_set_match_limit(t->ctx, MATCH_STEPS);
    pcre2_set_depth_limit(t->ctx, MATCH_STEPS);
    pcre2_set_heap_limit(t->ctx, 2u << 20); /* KiB */
    *m = t;
    return 0;
}

void tok_match_close(struct tok_match *m)
{
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->ctx);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

int tok_match_check(const struct tok_match *m, struct err *e)
{
    return m->lacked_memory ? err_memory(e) : 0;
}

void tok_walk_init(struct tok_walk *w) { *w = (struct tok_walk){.last_match = SIZE_MAX}; }

/* 1 if re matches s [n] at or after pos. A search that exceeds its steps or its memory has no
 * match: a pathological text costs time but does not fail the request. */
static int search(const struct tok_pattern *p, struct tok_match *m, const char *s, size_t n,
                  size_t pos)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (p->jit) {
        rc = pcre2_jit_match(p->re, (PCRE2_SPTR)s, n, pos, 0, m->data, m->ctx);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !m->stack) {
            m->stack = pcre2_jit_stack_create(64 << 10, JIT_STACK_MAX, NULL);
            if (m->stack) {
                pcre2_jit_stack_assign(m->ctx, NULL, m->stack);
                rc = pcre2_jit_match(p->re, (PCRE2_SPTR)s, n, pos, 0, m->data, m->ctx);
            }
        }
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->re, (PCRE2_SPTR)s, n, pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                         m->ctx);
    if (rc == PCRE2_ERROR_NOMEMORY) m->lacked_memory = 1;
    if (rc < PCRE2_ERROR_NOMATCH)
        pcre2_set_match_limit(m->ctx, MATCH_STEPS / 64); /* a text gets the full limit only once */
    return rc >= 0; /* 0: more groups than slots; the match itself is valid */
}

int tok_walk_next(const struct tok_pattern *p, struct tok_match *m, const char *s, size_t n,
                  struct tok_walk *w)
{
    if (!p->re) {
        if (w->pos > n) return 0;
        const char *hit = memmem(s + w->pos, n - w->pos, p->str, p->n);
        if (!hit) return 0;
        w->start = (size_t)(hit - s);
        w->pos = w->end = w->start + p->n;
        return 1;
    }
    while (w->pos <= n) {
        if (!search(p, m, s, n, w->pos)) return 0;
        PCRE2_SIZE *o = pcre2_get_ovector_pointer(m->data);
        if (o[1] < w->pos || o[0] > o[1]) return 0; /* no progress (\K, lookbehind): stop */
        if (o[0] == o[1] && o[1] == w->last_match) {
            /* An empty match at the end of the previous one does not count. */
            size_t len = 1;
            if (w->pos < n) tok_utf8_next((const unsigned char *)s + w->pos, n - w->pos, &len);
            w->pos += len;
            continue;
        }
        w->start = o[0];
        w->end = w->pos = w->last_match = o[1];
        return 1;
    }
    return 0;
}

int tok_is_numeric(uint32_t cp)
{
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    if (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO)
        return 1;
    return tok_in_ranges(tok_numeric_extra, sizeof tok_numeric_extra / sizeof tok_numeric_extra[0],
                         cp);
}
