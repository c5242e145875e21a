/* tok_unicode.c: normal forms and lower case, with the library's character data where its Unicode
 * version differs from utf8proc's, and without utf8proc's quadratic reordering of long runs of
 * marks. Must not know: tokenizers. */
#include "core/text/tokenizer/tok_internal.h"
#include "core/text/tokenizer/tok_unitab.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static int combining_class(int32_t cp)
{
    if (cp < 0x300) return 0;
    int k = utf8proc_get_property(cp)->combining_class;
    return k && tok_in_ranges(tok_no_class, COUNT(tok_no_class), (uint32_t)cp) ? 0 : k;
}

/* 1 if the form neither changes cp nor moves or joins it to what precedes. */
static int is_stable(enum tok_op form, uint32_t cp)
{
    if (form != TOK_NORM_NFC) return cp < 0x80;
    if (cp < 0x300 || (cp >= 0x3400 && cp <= 0x9fff)) return 1;
    return !tok_in_ranges(tok_nfc_unsafe, COUNT(tok_nfc_unsafe), cp);
}

static int compose_pair(int32_t a, int32_t b)
{
    if (b < 0x300) return -1;
    if (a == 0x11935 && b == 0x11930) return -1; /* newer than the library's data */
    utf8proc_int32_t pair[2] = {a, b};
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1 ? pair[0]
                                                                                      : -1;
}

struct mark {
    int32_t cp, class, at; /* at: index in the run, for a stable sort */
};

static int by_class(const void *x, const void *y)
{
    const struct mark *a = x, *b = y;
    return a->class != b->class ? a->class - b->class : a->at - b->at;
}

/* Canonical order of cp [n]: each run of characters with a class is sorted by class, stably. */
static int reorder(int32_t *cp, size_t n, struct err *e)
{
    struct mark few[32];
    for (size_t i = 0; i < n;) {
        int k = combining_class(cp[i]);
        if (!k) {
            i++;
            continue;
        }
        size_t end = i;
        int sorted = 1, last = 0;
        while (end < n && (k = combining_class(cp[end])) != 0) {
            if (k < last) sorted = 0;
            last = k;
            end++;
        }
        if (!sorted) {
            size_t len = end - i;
            struct mark *m = len <= COUNT(few) ? few : malloc(len * sizeof *m);
            if (!m) return err_memory(e);
            for (size_t j = 0; j < len; j++)
                m[j] = (struct mark){cp[i + j], combining_class(cp[i + j]), (int32_t)j};
            qsort(m, len, sizeof *m, by_class);
            for (size_t j = 0; j < len; j++) cp[i + j] = m[j].cp;
            if (m != few) free(m);
        }
        i = end;
    }
    return 0;
}

/* Composes cp [n] in place (Unicode 3.11, D117); returns the new length. */
static size_t compose(int32_t *cp, size_t n)
{
    size_t out = 0, starter = SIZE_MAX;
    int last = 0; /* class of the last character kept after the starter; 0: none */
    for (size_t i = 0; i < n; i++) {
        int k = combining_class(cp[i]), joined;
        int open = starter != SIZE_MAX && (out == starter + 1 || (last != 0 && last < k));
        if (open && (joined = compose_pair(cp[starter], cp[i])) >= 0) {
            cp[starter] = joined;
            continue;
        }
        if (!k) starter = out;
        last = k;
        cp[out++] = cp[i];
    }
    return out;
}

static int wide_room(struct tok_scratch *sc, size_t n, struct err *e)
{
    if (sc->wide_cap >= n) return 0;
    size_t cap = sc->wide_cap ? sc->wide_cap : 256;
    while (cap < n) cap *= 2;
    int32_t *p = realloc(sc->wide, cap * sizeof *p);
    if (!p) return err_memory(e);
    sc->wide = p;
    sc->wide_cap = cap;
    return 0;
}

static int normalize_run(enum tok_op form, struct tok_scratch *sc, const char *s, size_t n,
                         struct tok_buf *out, struct err *e)
{
    utf8proc_option_t opt = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (form == TOK_NORM_NFKC || form == TOK_NORM_NFKD) opt |= UTF8PROC_COMPAT;
    size_t count = 0, len;
    for (size_t i = 0; i < n; i += len) {
        int32_t cp = tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        if (wide_room(sc, count + 64, e)) return -1; /* no character decomposes into more than 18 */
        if (tok_in_ranges(tok_inert, COUNT(tok_inert), (uint32_t)cp)) {
            sc->wide[count++] = cp;
            continue;
        }
        int boundary = 0;
        utf8proc_ssize_t got = utf8proc_decompose_char(cp, sc->wide + count, 64, opt, &boundary);
        if (got < 0 || got > 64) return err_set(e, "U+%04X cannot be normalized", (unsigned)cp);
        count += (size_t)got;
    }
    if (reorder(sc->wide, count, e)) return -1;
    if (form == TOK_NORM_NFC || form == TOK_NORM_NFKC) count = compose(sc->wide, count);
    if (tok_buf_room(out, count * 4, e)) return -1;
    for (size_t i = 0; i < count; i++)
        out->n += tok_utf8_put(out->p + out->n, (uint32_t)sc->wide[i]);
    return 0;
}

int tok_unicode_normalize(enum tok_op form, struct tok_scratch *sc, const char *s, size_t n,
                          struct tok_buf *out, int *changed, struct err *e)
{
    size_t copied = 0, prev = 0,
           len; /* prev: start of the character before i, which a mark may join */
    *changed = 0;
    for (size_t i = 0; i < n;) {
        uint64_t w;
        if (n - i > sizeof w) {
            memcpy(&w, s + i, sizeof w);
            if (!(w & 0x8080808080808080u)) {
                i += sizeof w;
                prev = i - 1;
                continue;
            }
        }
        uint32_t cp = (uint32_t)tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        if (is_stable(form, cp)) {
            prev = i;
            i += len;
            continue;
        }
        size_t end = i + len;
        while (end < n && !is_stable(form, (uint32_t)tok_utf8_next((const unsigned char *)s + end,
                                                                   n - end, &len)))
            end += len;
        if (!*changed) out->n = 0;
        if (prev < copied) prev = copied;
        if (tok_buf_add(out, s + copied, prev - copied, e)) return -1;
        if (normalize_run(form, sc, s + prev, end - prev, out, e)) return -1;
        *changed = 1;
        copied = prev = i = end;
    }
    if (*changed && tok_buf_add(out, s + copied, n - copied, e)) return -1;
    return 0;
}

int tok_unicode_lower(const char *s, size_t n, struct tok_buf *out, struct err *e)
{
    size_t len;
    if (tok_buf_room(out, n + n / 2 + 8, e)) return -1;
    for (size_t i = 0; i < n; i += len) {
        uint32_t cp = (uint32_t)tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        if (tok_buf_room(out, 8, e)) return -1;
        if (cp < 0x80) {
            out->p[out->n++] = (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
            continue;
        }
        if (cp == 0x130) { /* the only character whose lower case is two characters */
            memcpy(out->p + out->n, "i\xcc\x87", 3);
            out->n += 3;
            continue;
        }
        uint32_t low = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        for (size_t k = 0; k < COUNT(tok_lower_extra); k++)
            if (cp >= tok_lower_extra[k].lo && cp <= tok_lower_extra[k].hi)
                low = (uint32_t)((int32_t)cp + tok_lower_extra[k].add);
        out->n += tok_utf8_put(out->p + out->n, low);
    }
    return 0;
}
