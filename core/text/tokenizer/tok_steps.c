/* tok_steps.c: the normalizers and pre-tokenizers of tokenizer.json, in the file's order. Must not
 * know: vocabularies, added tokens, how the file spells the steps. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

struct tok_step *tok_steps_add(struct tok_steps *a, enum tok_op op, struct err *e)
{
    if (a->n == 64) {
        err_set(e, "more than 64 steps");
        return NULL;
    }
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 4;
        struct tok_step *s = realloc(a->s, cap * sizeof *s);
        if (!s) {
            err_memory(e);
            return NULL;
        }
        a->s = s;
        a->cap = cap;
    }
    struct tok_step *s = &a->s[a->n++];
    *s = (struct tok_step){.op = op};
    return s;
}

int tok_step_set_str(struct tok_step *s, const char *str, size_t n, struct err *e)
{
    s->str = malloc(n + 1);
    if (!s->str) return err_memory(e);
    if (n) memcpy(s->str, str, n);
    s->str[n] = 0;
    s->str_bytes = n;
    return 0;
}

void tok_steps_free(struct tok_steps *a)
{
    for (size_t i = 0; i < a->n; i++) {
        tok_pattern_close(a->s[i].pat);
        free(a->s[i].str);
    }
    free(a->s);
    *a = (struct tok_steps){0};
}

void tok_scratch_free(struct tok_scratch *sc)
{
    tok_match_close(sc->match);
    tok_buf_free(&sc->lossy);
    for (int i = 0; i < 2; i++) {
        tok_buf_free(&sc->norm[i]);
        tok_buf_free(&sc->pre[i]);
    }
    free(sc->pieces.p);
    free(sc->spare.p);
    free(sc->sym);
    free(sc->heap);
    free(sc->wide);
    *sc = (struct tok_scratch){0};
}

int tok_replace(const struct tok_step *st, struct tok_match *m, const char *s, size_t n,
                struct tok_buf *out, struct err *e)
{
    struct tok_walk w;
    size_t done = 0;
    tok_walk_init(&w);
    while (n && tok_walk_next(st->pat, m, s, n, &w)) {
        if (tok_buf_add(out, s + done, w.start - done, e) ||
            tok_buf_add(out, st->str, st->str_bytes, e))
            return -1;
        done = w.end;
        if (out->n > TOK_MAX_TEXT)
            return err_set(e, "the text grows past %u bytes by a replacement", TOK_MAX_TEXT);
    }
    return tok_match_check(m, e) || tok_buf_add(out, s + done, n - done, e) ? -1 : 0;
}

/* ---- normalizers ---- */

/* 1 if replacing keeps the first character at the start of the input: the library attributes the
 * inserted text to the last character replaced. */
static int replace_keeps_first(const struct tok_step *st, struct tok_match *m, const char *s,
                               size_t n)
{
    struct tok_walk w;
    size_t len;
    tok_walk_init(&w);
    if (!tok_walk_next(st->pat, m, s, n, &w) || w.start > 0) return 1;
    tok_utf8_next((const unsigned char *)s, n, &len);
    return st->str_bytes > 0 && w.end <= len;
}

static void strip(const struct tok_step *st, const char **text, size_t *n, int *first)
{
    const char *s = *text;
    size_t a = 0, b = *n, len;
    while (st->left && a < b &&
           tok_is_space((uint32_t)tok_utf8_next((const unsigned char *)s + a, b - a, &len)))
        a += len;
    while (st->right && b > a) {
        size_t c = b;
        do c--;
        while (c > a && ((unsigned char)s[c] & 0xc0) == 0x80);
        if (!tok_is_space((uint32_t)tok_utf8_next((const unsigned char *)s + c, b - c, &len)))
            break;
        b = c;
    }
    if (a) *first = 0;
    *text = s + a;
    *n = b - a;
}

int tok_normalize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                  size_t *n, int *first, struct err *e)
{
    int turn = 0, changed;
    for (size_t i = 0; i < steps->n && *n; i++) {
        const struct tok_step *st = &steps->s[i];
        struct tok_buf *out = &sc->norm[turn];
        out->n = 0;
        changed = 1;
        switch (st->op) {
        case TOK_NORM_PREPEND:
            if (tok_buf_add(out, st->str, st->str_bytes, e) || tok_buf_add(out, *text, *n, e))
                return -1;
            break;
        case TOK_NORM_REPLACE:
            if (*first && !replace_keeps_first(st, sc->match, *text, *n)) *first = 0;
            if (tok_replace(st, sc->match, *text, *n, out, e)) return -1;
            break;
        case TOK_NORM_NFC:
        case TOK_NORM_NFD:
        case TOK_NORM_NFKC:
        case TOK_NORM_NFKD:
            if (tok_unicode_normalize(st->op, sc, *text, *n, out, &changed, e)) return -1;
            break;
        case TOK_NORM_LOWERCASE:
            if (tok_unicode_lower(*text, *n, out, e)) return -1;
            break;
        case TOK_NORM_STRIP:
            strip(st, text, n, first);
            changed = 0;
            break;
        default: CHECK(!"a normalizer");
        }
        if (!changed) continue;
        if (out->n > TOK_MAX_TEXT)
            return err_set(e, "the text grows past %u bytes when normalized", TOK_MAX_TEXT);
        *text = out->p;
        *n = out->n;
        turn ^= 1;
    }
    return 0;
}

/* ---- pre-tokenizers ---- */

static int add_piece(struct tok_pieces *a, size_t off, size_t len, int first, struct err *e)
{
    if (!len) return 0;
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 64;
        struct tok_piece *p = realloc(a->p, cap * sizeof *p);
        if (!p) return err_memory(e);
        a->p = p;
        a->cap = cap;
    }
    a->p[a->n++] = (struct tok_piece){(uint32_t)off, (uint32_t)len, (uint32_t)first};
    return 0;
}

/* Turns successive stretches, matches or not, into pieces; the stretch kept back may still grow. */
struct cutter {
    struct tok_pieces *out;
    enum tok_split behavior;
    size_t base, off, end; /* of the piece's text; of the stretch kept back, bytes */
    int first, was_match, held;
};

static int flush_cut(struct cutter *c, struct err *e)
{
    if (!c->held) return 0;
    c->held = 0;
    return add_piece(c->out, c->base + c->off, c->end - c->off, c->first && c->off == 0, e);
}

static int cut(struct cutter *c, size_t a, size_t b, int is_match, struct err *e)
{
    int grow = 0;
    switch (c->behavior) {
    case TOK_SPLIT_ISOLATED: return add_piece(c->out, c->base + a, b - a, c->first && a == 0, e);
    case TOK_SPLIT_REMOVED:
        return is_match ? 0 : add_piece(c->out, c->base + a, b - a, c->first && a == 0, e);
    case TOK_SPLIT_PREVIOUS: grow = is_match && !c->was_match; break;
    case TOK_SPLIT_NEXT: /* from the right: a match joins the following stretch unless that is a
                            match */
        grow = c->was_match && !is_match;
        break;
    case TOK_SPLIT_CONTIGUOUS: grow = is_match == c->was_match; break;
    }
    c->was_match = is_match;
    if (grow && c->held) {
        c->end = b;
        return 0;
    }
    if (flush_cut(c, e)) return -1;
    c->held = 1;
    c->off = a;
    c->end = b;
    return 0;
}

static int split_piece(const struct tok_step *st, const struct tok_pattern *pat,
                       struct tok_match *m, const char *text, const struct tok_piece *p,
                       struct tok_pieces *out, struct err *e)
{
    const char *s = text + p->off;
    struct cutter c = {
        .out = out, .behavior = st->behavior, .base = p->off, .first = (int)p->first};
    struct tok_walk w;
    size_t done = 0;
    tok_walk_init(&w);
    while (tok_walk_next(pat, m, s, p->len, &w)) {
        if (w.start > done && cut(&c, done, w.start, st->invert, e)) return -1;
        if (cut(&c, w.start, w.end, !st->invert, e)) return -1;
        done = w.end;
    }
    if (done < p->len && cut(&c, done, p->len, st->invert, e)) return -1;
    return tok_match_check(m, e) || flush_cut(&c, e) ? -1 : 0;
}

static int split_digits(const struct tok_step *st, const char *text, const struct tok_piece *p,
                        struct tok_pieces *out, struct err *e)
{
    const char *s = text + p->off;
    struct cutter c = {.out = out,
                       .base = p->off,
                       .first = (int)p->first,
                       .behavior = st->individual ? TOK_SPLIT_ISOLATED : TOK_SPLIT_CONTIGUOUS};
    size_t done = 0, len;
    for (size_t i = 0; i < p->len; i += len) {
        if (!tok_is_numeric(
                (uint32_t)tok_utf8_next((const unsigned char *)s + i, p->len - i, &len)))
            continue;
        if (done < i && cut(&c, done, i, 0, e)) return -1;
        if (cut(&c, i, i + len, 1, e)) return -1;
        done = i + len;
    }
    if (done < p->len && cut(&c, done, p->len, 0, e)) return -1;
    return flush_cut(&c, e);
}

/* Replaces spaces, adds a replacement before the piece according to the scheme, and splits before
 * each. */
static int metaspace(const struct tok_step *st, const char *text, const struct tok_piece *p,
                     struct tok_buf *buf, struct tok_pieces *out, struct err *e)
{
    const char *s = text + p->off, *r = st->str;
    size_t n = p->len, k = st->str_bytes, base = buf->n;
    int starts = s[0] == ' ' || (n >= k && !memcmp(s, r, k));
    if (!starts &&
        (st->scheme == TOK_SCHEME_ALWAYS || (st->scheme == TOK_SCHEME_FIRST && p->first)) &&
        tok_buf_add(buf, r, k, e))
        return -1;
    for (size_t i = 0; i < n;) {
        const char *sp = memchr(s + i, ' ', n - i);
        size_t upto = sp ? (size_t)(sp - s) : n;
        if (tok_buf_add(buf, s + i, upto - i, e) || (sp && tok_buf_add(buf, r, k, e))) return -1;
        i = upto + (sp != NULL);
    }
    size_t end = buf->n, from = base;
    if (st->split) {
        struct cutter c = {
            .out = out, .behavior = TOK_SPLIT_NEXT, .base = base, .first = (int)p->first};
        const char *t = buf->p + base;
        size_t total = end - base, done = 0;
        for (const char *hit;
             done < total && (hit = memmem(t + done, total - done, r, k)) != NULL;) {
            size_t a = (size_t)(hit - t);
            if (a > done && cut(&c, done, a, 0, e)) return -1;
            if (cut(&c, a, a + k, 1, e)) return -1;
            done = a + k;
        }
        if (done < total && cut(&c, done, total, 0, e)) return -1;
        return flush_cut(&c, e);
    }
    return add_piece(out, from, end - from, (int)p->first, e);
}

/* Text of the step's result, if it has one: a leading space for byte-level. */
static int prefix_spaces(struct tok_scratch *sc, const char **text, struct tok_buf *buf,
                         struct err *e)
{
    buf->n = 0;
    for (size_t i = 0; i < sc->pieces.n; i++) {
        struct tok_piece *p = &sc->pieces.p[i];
        size_t at = buf->n;
        if ((*text)[p->off] != ' ' && tok_buf_add(buf, " ", 1, e)) return -1;
        if (tok_buf_add(buf, *text + p->off, p->len, e)) return -1;
        p->off = (uint32_t)at;
        p->len = (uint32_t)(buf->n - at);
    }
    *text = buf->p;
    return 0;
}

static int map_bytes(struct tok_scratch *sc, const char **text, struct tok_buf *buf, struct err *e)
{
    buf->n = 0;
    for (size_t i = 0; i < sc->pieces.n; i++) {
        struct tok_piece *p = &sc->pieces.p[i];
        size_t at = buf->n;
        if (tok_buf_room(buf, (size_t)p->len * 2 + 4, e)) return -1;
        for (uint32_t j = 0; j < p->len; j++)
            buf->n += tok_utf8_put(buf->p + buf->n,
                                   tok_char_of_byte((unsigned char)(*text)[p->off + j]));
        p->off = (uint32_t)at;
        p->len = (uint32_t)(buf->n - at);
    }
    *text = buf->p;
    return 0;
}

static void swap_pieces(struct tok_scratch *sc)
{
    struct tok_pieces t = sc->pieces;
    sc->pieces = sc->spare;
    sc->spare = t;
    sc->spare.n = 0;
}

int tok_pretokenize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                    size_t *n, int first, struct err *e)
{
    int turn = 0;
    sc->pieces.n = sc->spare.n = 0;
    if (add_piece(&sc->pieces, 0, *n, first, e)) return -1;
    for (size_t k = 0; k < steps->n && sc->pieces.n; k++) {
        const struct tok_step *st = &steps->s[k];
        struct tok_buf *buf = &sc->pre[turn];
        const struct tok_pattern *pat = st->pat;
        switch (st->op) {
        case TOK_PRE_BYTE_LEVEL:
            if (st->prefix_space) {
                if (prefix_spaces(sc, text, buf, e)) return -1;
                buf = &sc->pre[turn ^= 1];
            }
            if (pat) {
                for (size_t i = 0; i < sc->pieces.n; i++)
                    if (split_piece(st, pat, sc->match, *text, &sc->pieces.p[i], &sc->spare, e))
                        return -1;
                swap_pieces(sc);
            }
            if (!st->as_bytes) {
                if (map_bytes(sc, text, buf, e)) return -1;
                turn ^= 1;
            }
            break;
        case TOK_PRE_SPLIT:
            for (size_t i = 0; i < sc->pieces.n; i++)
                if (split_piece(st, pat, sc->match, *text, &sc->pieces.p[i], &sc->spare, e))
                    return -1;
            swap_pieces(sc);
            break;
        case TOK_PRE_DIGITS:
            for (size_t i = 0; i < sc->pieces.n; i++)
                if (split_digits(st, *text, &sc->pieces.p[i], &sc->spare, e)) return -1;
            swap_pieces(sc);
            break;
        case TOK_PRE_METASPACE:
            buf->n = 0;
            for (size_t i = 0; i < sc->pieces.n; i++)
                if (metaspace(st, *text, &sc->pieces.p[i], buf, &sc->spare, e)) return -1;
            *text = buf->p;
            turn ^= 1;
            swap_pieces(sc);
            break;
        default: CHECK(!"a pre-tokenizer");
        }
        if (sc->pre[0].n > TOK_MAX_TEXT || sc->pre[1].n > TOK_MAX_TEXT)
            return err_set(e, "the text grows past %u bytes when cut", TOK_MAX_TEXT);
    }
    return 0;
}
