/* tok_text.c: growable buffers, UTF-8 and character classes. Must not know: vocabularies, files. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int tok_buf_room(struct tok_buf *b, size_t more, struct err *e)
{
    if (b->cap - b->n >= more) return 0;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n < more) {
        if (cap > SIZE_MAX / 2) return err_memory(e);
        cap *= 2;
    }
    char *p = realloc(b->p, cap);
    if (!p) return err_memory_for(e, "out of memory (%zu bytes)", cap);
    b->p = p;
    b->cap = cap;
    return 0;
}

int tok_buf_add(struct tok_buf *b, const void *s, size_t n, struct err *e)
{
    if (tok_buf_room(b, n, e)) return -1;
    if (n) memcpy(b->p + b->n, s, n);
    b->n += n;
    return 0;
}

void tok_buf_free(struct tok_buf *b)
{
    free(b->p);
    *b = (struct tok_buf){0};
}

int tok_ids_room(struct tok_ids *ids, size_t more, struct err *e)
{
    if (ids->cap - ids->n >= more) return 0;
    size_t cap = ids->cap ? ids->cap : 64;
    while (cap - ids->n < more) cap *= 2;
    int32_t *p = realloc(ids->id, cap * sizeof *p);
    if (!p) return err_memory_for(e, "out of memory (%zu ids)", cap);
    ids->id = p;
    ids->cap = cap;
    return 0;
}

int tok_ids_push(struct tok_ids *ids, int32_t id, struct err *e)
{
    if (ids->n == ids->cap && tok_ids_room(ids, 1, e)) return -1;
    ids->id[ids->n++] = id;
    return 0;
}

void tok_ids_free(struct tok_ids *ids)
{
    free(ids->id);
    *ids = (struct tok_ids){0};
}

int32_t tok_utf8_next(const unsigned char *s, size_t n, size_t *len)
{
    unsigned char c = s[0];
    *len = 1;
    if (c < 0x80) return c;
    /* The second byte's range excludes overlong forms, surrogates and values above U+10FFFF
     * (Unicode table 3-7). */
    unsigned char lo = 0x80, hi = 0xbf;
    size_t need;
    int32_t cp;
    if (c >= 0xc2 && c <= 0xdf) {
        need = 1;
        cp = c & 0x1f;
    } else if (c >= 0xe0 && c <= 0xef) {
        need = 2;
        cp = c & 0x0f;
        if (c == 0xe0) lo = 0xa0;
        if (c == 0xed) hi = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
        need = 3;
        cp = c & 0x07;
        if (c == 0xf0) lo = 0x90;
        if (c == 0xf4) hi = 0x8f;
    } else {
        return -1;
    }
    for (size_t i = 1; i <= need; i++) {
        if (i >= n || s[i] < lo || s[i] > hi) return -1;
        cp = cp << 6 | (s[i] & 0x3f);
        *len = i + 1;
        lo = 0x80;
        hi = 0xbf;
    }
    return cp;
}

size_t tok_utf8_put(char *out, uint32_t cp)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)out);
}

size_t tok_utf8_valid(const char *s, size_t n)
{
    size_t i = 0, len;
    while (i < n) {
        uint64_t w;
        if (n - i >= sizeof w) {
            memcpy(&w, s + i, sizeof w);
            if (!(w & 0x8080808080808080u)) {
                i += sizeof w;
                continue;
            }
        }
        if (tok_utf8_next((const unsigned char *)s + i, n - i, &len) < 0) return i;
        i += len;
    }
    return n;
}

int tok_utf8_lossy(struct tok_buf *out, const char *s, size_t n, int keep_tail, size_t *used,
                   struct err *e)
{
    size_t i = 0;
    while (i < n) {
        size_t ok = tok_utf8_valid(s + i, n - i), len;
        if (tok_buf_add(out, s + i, ok, e)) return -1;
        i += ok;
        if (i == n) break;
        tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        unsigned char c = (unsigned char)s[i];
        if (keep_tail && i + len == n && c >= 0xc2 && c <= 0xf4)
            break; /* more bytes may complete it */
        if (tok_buf_add(out, "\xef\xbf\xbd", 3, e)) return -1;
        i += len;
    }
    if (used) *used = i;
    return 0;
}

int tok_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

int tok_byte_of_char(uint32_t cp)
{
    if (cp < 0x21) return -1;
    if (cp <= 0x7e || (cp >= 0xa1 && cp <= 0xff && cp != 0xad)) return (int)cp;
    /* Bytes without a visible Latin-1 character map to U+0100 and up, in order: 00..20, 7F..A0, AD.
     */
    if (cp >= 0x100 && cp <= 0x120) return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142) return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

uint32_t tok_char_of_byte(unsigned char b)
{
    if (b <= 0x20) return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0) return 0x121u + b - 0x7f;
    return b == 0xad ? 0x143u : b;
}
