/* tok_bpe.c: the vocabulary, the merges, and byte-pair encoding of a piece of text (Sennrich et al.
 * 2016, section 3.2; byte-level: Radford et al. 2019). Owns: the hash tables, constant after
 * tok_bpe_finish. Must not know: file formats, how text is split into pieces. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PAIR UINT64_MAX
#define NO_RANK UINT32_MAX
/* Pieces of up to this many symbols are merged by linear search over all pairs, longer ones with a
 * heap: a short array stays in a few cache lines. */
#define FEW 48

/* A hash over N bytes starts with hash_begin(N) and takes 8 bytes per step, fewer in the last one.
 */
static uint64_t hash_begin(size_t n) { return n * 0x9e3779b97f4a7c15u; }

static uint64_t hash_step(uint64_t h, uint64_t w)
{
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static uint32_t hash_end(uint64_t h) { return (uint32_t)(h * 0xc4ceb9fe1a85ec53u >> 32); }

static uint32_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = hash_begin(n), w;
    for (; n >= 8; n -= 8, s += 8) {
        memcpy(&w, s, 8);
        h = hash_step(h, w);
    }
    if (n) {
        w = 0;
        memcpy(&w, s, n);
        h = hash_step(h, w);
    }
    return hash_end(h);
}

/* Converts a spelling in the byte-level alphabet to the bytes that it stands for, out [n]; 0 if it
 * has other characters. */
static int to_raw(const char *s, size_t n, char *out, size_t *out_n)
{
    size_t k = 0, len;
    for (size_t i = 0; i < n; i += len) {
        int32_t cp = tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        int b = cp < 0 ? -1 : tok_byte_of_char((uint32_t)cp);
        if (b < 0) return 0;
        out[k++] = (char)b;
    }
    *out_n = k;
    return 1;
}

static int32_t find_spelling(const struct tok_bpe *b, const char *s, size_t n, int raw)
{
    uint32_t h = hash_bytes(s, n);
    for (uint32_t i = h & b->slot_mask;; i = (i + 1) & b->slot_mask) {
        const struct tok_slot *t = &b->slots[i];
        if (!t->id1) return -1;
        if (t->hash != h) continue;
        uint32_t id = t->id1 - 1;
        if (b->len[id] == n && !(b->flags[id] & TOK_ID_RAW) == !raw &&
            !memcmp(b->arena.p + b->off[id], s, n))
            return (int32_t)id;
    }
}

int32_t tok_bpe_find_text(const struct tok_bpe *b, const char *s, size_t n)
{
    return n > b->max_token ? -1 : find_spelling(b, s, n, b->byte_level);
}

/* The byte of the character of s [n] at *at, which advances; -1: not in the byte-level alphabet. */
static int next_raw(const char *s, size_t n, size_t *at)
{
    size_t len;
    int32_t cp = tok_utf8_next((const unsigned char *)s + *at, n - *at, &len);
    *at += len;
    return cp < 0 ? -1 : tok_byte_of_char((uint32_t)cp);
}

static int is_raw_of(const char *s, size_t n, const char *raw)
{
    for (size_t at = 0; at < n; raw++)
        if ((char)next_raw(s, n, &at) != *raw) return 0;
    return 1;
}

/* Looks up a spelling in the byte-level alphabet, of any length and COUNT raw bytes, without a
 * copy. */
static int32_t find_raw(const struct tok_bpe *b, const char *s, size_t n, size_t count)
{
    uint64_t h = hash_begin(count);
    for (size_t at = 0; at < n;) {
        char chunk[8] = {0};
        uint64_t w;
        for (int i = 0; i < 8 && at < n; i++) chunk[i] = (char)next_raw(s, n, &at);
        memcpy(&w, chunk, 8);
        h = hash_step(h, w);
    }
    uint32_t hash = hash_end(h);
    for (uint32_t i = hash & b->slot_mask; b->slots[i].id1; i = (i + 1) & b->slot_mask) {
        uint32_t id = b->slots[i].id1 - 1;
        if (b->slots[i].hash == hash && b->len[id] == count && (b->flags[id] & TOK_ID_RAW) &&
            is_raw_of(s, n, b->arena.p + b->off[id]))
            return (int32_t)id;
    }
    return -1;
}

int32_t tok_bpe_find(const struct tok_bpe *b, const char *s, size_t n)
{
    size_t count = 0, at = 0;
    if (!b->byte_level) return find_spelling(b, s, n, 0);
    if (n > 2 * b->max_token) return -1; /* a byte has at most two bytes in the alphabet */
    for (; at < n; count++)
        if (next_raw(s, n, &at) < 0) return find_spelling(b, s, n, 0);
    return find_raw(b, s, n, count);
}

int tok_bpe_spell(const struct tok_bpe *b, int32_t id, struct tok_buf *out, struct err *e)
{
    const char *s = b->arena.p + b->off[id];
    size_t n = b->len[id];
    if (!(b->flags[id] & TOK_ID_RAW)) return tok_buf_add(out, s, n, e);
    if (tok_buf_room(out, n * 2 + 4, e)) return -1;
    for (size_t i = 0; i < n; i++)
        out->n += tok_utf8_put(out->p + out->n, tok_char_of_byte((unsigned char)s[i]));
    return 0;
}

int tok_bpe_init(struct tok_bpe *b, int32_t n_ids, size_t n_entries, struct err *e)
{
    uint32_t n = 64;
    while (n < n_entries * 2) n *= 2;
    b->n_ids = n_ids;
    b->slot_mask = n - 1;
    b->slots = calloc(n, sizeof *b->slots);
    b->off = calloc((size_t)n_ids + 1, sizeof *b->off);
    b->len = calloc((size_t)n_ids + 1, sizeof *b->len);
    b->flags = calloc((size_t)n_ids + 1, 1);
    return b->slots && b->off && b->len && b->flags
               ? 0
               : err_memory_for(e, "out of memory (a vocabulary of %d ids)", n_ids);
}

void tok_bpe_free(struct tok_bpe *b)
{
    tok_buf_free(&b->arena);
    free(b->off);
    free(b->len);
    free(b->flags);
    free(b->slots);
    free(b->merges);
    free(b->byte_pairs);
    free(b->char_ids);
    *b = (struct tok_bpe){0};
}

int tok_bpe_add(struct tok_bpe *b, const char *s, size_t n, int32_t id, struct err *e)
{
    if (id < 0 || id >= b->n_ids) return err_set(e, "the vocabulary has the id %d", id);
    if (b->flags[id] & TOK_ID_PRESENT) return err_set(e, "the vocabulary has the id %d twice", id);
    if (b->arena.n + n > UINT32_MAX) return err_set(e, "the vocabulary is too large");
    if (tok_buf_room(&b->arena, n, e)) return -1;
    char *at = b->arena.p + b->arena.n;
    int raw = b->byte_level && to_raw(s, n, at, &n);
    if (!raw) memcpy(at, s, n);
    uint32_t h = hash_bytes(at, n), i = h & b->slot_mask;
    for (; b->slots[i].id1; i = (i + 1) & b->slot_mask) {
        uint32_t o = b->slots[i].id1 - 1;
        if (b->slots[i].hash == h && b->len[o] == n && !(b->flags[o] & TOK_ID_RAW) == !raw &&
            !memcmp(b->arena.p + b->off[o], at, n))
            return err_set(e, "the vocabulary has \"%.*s\" twice", (int)(n < 60 ? n : 60), s);
    }
    b->slots[i] = (struct tok_slot){h, (uint32_t)id + 1};
    b->off[id] = (uint32_t)b->arena.n;
    b->len[id] = (uint32_t)n;
    b->flags[id] = (uint8_t)(TOK_ID_PRESENT | (raw ? TOK_ID_RAW : 0));
    b->arena.n += n;
    b->n_entries++;
    if (n > b->max_token) b->max_token = n;
    return 0;
}

static inline const struct tok_merge *find_merge(const struct tok_bpe *b, int32_t left,
                                                 int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t mask = ((uint64_t)1 << b->merge_bits) - 1;
    for (uint64_t i = pair * 0x9e3779b97f4a7c15u >> (64 - b->merge_bits);; i = (i + 1) & mask) {
        const struct tok_merge *m = &b->merges[i];
        if (m->pair == pair) return m;
        if (m->pair == NO_PAIR) return NULL;
    }
}

int tok_bpe_init_merges(struct tok_bpe *b, size_t n, struct err *e)
{
    b->merge_bits = 6;
    while (((size_t)1 << b->merge_bits) < n + n / 2) b->merge_bits++;
    size_t slots = (size_t)1 << b->merge_bits;
    b->merges = malloc(slots * sizeof *b->merges);
    if (!b->merges) return err_memory_for(e, "out of memory (%zu merges)", n);
    for (size_t i = 0; i < slots; i++) b->merges[i].pair = NO_PAIR;
    return 0;
}

void tok_bpe_put_merge(struct tok_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t mask = ((uint64_t)1 << b->merge_bits) - 1;
    uint64_t i = pair * 0x9e3779b97f4a7c15u >> (64 - b->merge_bits);
    while (b->merges[i].pair != NO_PAIR && b->merges[i].pair != pair) i = (i + 1) & mask;
    b->n_merges += b->merges[i].pair == NO_PAIR;
    b->merges[i] = (struct tok_merge){pair, rank, id}; /* the later one of equal pairs counts */
}

static int32_t find_part(const struct tok_bpe *b, const char *s, size_t n, char *raw, size_t *raw_n,
                         int *is_raw)
{
    *is_raw = b->byte_level && to_raw(s, n, raw, raw_n);
    if (!*is_raw) {
        memcpy(raw, s, n);
        *raw_n = n;
    }
    return find_spelling(b, raw, *raw_n, *is_raw);
}

int tok_bpe_add_merge(struct tok_bpe *b, const char *left, size_t nl, const char *right, size_t nr,
                      uint32_t rank, struct err *e)
{
    char few[512];
    size_t kl = 0, kr = 0;
    int raw_l, raw_r;
    int32_t l = -1, r = -1, id = -1;
    if (nl + nr <= sizeof few) {
        l = find_part(b, left, nl, few, &kl, &raw_l);
        r = find_part(b, right, nr, few + kl, &kr, &raw_r);
        /* A concatenation is in the alphabet only if both halves are. */
        if (l >= 0 && r >= 0 && raw_l == raw_r) id = find_spelling(b, few, kl + kr, raw_l);
    }
    if (id < 0 && nl + nr <= 1u << 20) {
        char *joined = malloc(nl + nr + 1);
        if (!joined) return err_memory(e);
        memcpy(joined, left, nl);
        memcpy(joined + nl, right, nr);
        if (l < 0) l = tok_bpe_find(b, left, nl);
        if (r < 0) r = tok_bpe_find(b, right, nr);
        id = tok_bpe_find(b, joined, nl + nr);
        free(joined);
    }
    if (l < 0 || r < 0 || id < 0)
        return err_set(e, "merge %u (\"%.*s\" \"%.*s\") names a token outside the vocabulary", rank,
                       (int)(nl < 60 ? nl : 60), left, (int)(nr < 60 ? nr : 60), right);
    tok_bpe_put_merge(b, l, r, rank, id);
    return 0;
}

/* 1 if no merge makes a token in which cp follows another character. */
static int is_cut(const struct tok_bpe *b, const char *cp, size_t n)
{
    for (size_t i = 0; i < (size_t)1 << b->merge_bits; i++) {
        const struct tok_merge *m = &b->merges[i];
        if (m->pair == NO_PAIR) continue;
        const char *s = b->arena.p + b->off[m->id], *end = s + b->len[m->id];
        while ((size_t)(end - s) >= n && !memcmp(s, cp, n)) s += n;
        if (memmem(s, (size_t)(end - s), cp, n)) return 0;
    }
    return 1;
}

int tok_bpe_finish(struct tok_bpe *b, struct err *e)
{
    char name[16];
    size_t len;
    if (!b->merges && tok_bpe_init_merges(b, 0, e)) return -1;
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->byte_ids[i] = tok_bpe_find(b, name, 6);
        b->raw_ids[i] = b->byte_level ? find_spelling(b, &c, 1, 1) : -1;
    }
    if (b->byte_level) {
        b->byte_pairs = malloc(65536 * sizeof *b->byte_pairs);
        if (!b->byte_pairs) return err_memory(e);
        for (int i = 0; i < 65536; i++) {
            int32_t l = b->raw_ids[i >> 8], r = b->raw_ids[i & 255];
            const struct tok_merge *m = l >= 0 && r >= 0 ? find_merge(b, l, r) : NULL;
            b->byte_pairs[i] = m ? *m : (struct tok_merge){NO_PAIR, NO_RANK, -1};
        }
        return 0;
    }
    b->char_ids = malloc(65536 * sizeof *b->char_ids);
    if (!b->char_ids) return err_memory(e);
    for (int i = 0; i < 65536; i++) b->char_ids[i] = -1;
    for (int32_t id = 0; id < b->n_ids; id++) {
        if (!(b->flags[id] & TOK_ID_PRESENT) || b->len[id] == 0 || b->len[id] > 3) continue;
        int32_t cp = tok_utf8_next((const unsigned char *)b->arena.p + b->off[id], b->len[id],
                                   &len);
        if (cp >= 0 && cp < 65536 && len == b->len[id]) b->char_ids[cp] = id;
    }
    /* A character without token, bytes and unknown token vanishes, so that its neighbours may
     * merge. */
    int vanish = b->unk == -1;
    if (vanish && b->byte_fallback) {
        vanish = 0;
        for (int i = 0; i < 256; i++) vanish |= b->byte_ids[i] < 0;
    }
    if (!vanish && b->char_ids[0x2581] >= 0 && is_cut(b, "\xe2\x96\x81", 3)) b->cut = 0x2581;
    return 0;
}

/* ---- encoding ---- */

/* Merges ids [n], n <= FEW, in place. rank [n] and made [n] are the rank and the token of each
 * adjacent pair's merge. Returns the number of ids left. */
static size_t merge_few(const struct tok_bpe *b, int32_t *ids, uint32_t *rank, int32_t *made,
                        size_t n)
{
    for (;;) {
        size_t best = 0;
        uint32_t low = NO_RANK;
        for (size_t i = 0; i + 1 < n; i++)
            if (rank[i] < low) {
                low = rank[i];
                best = i;
            }
        if (low == NO_RANK) return n;
        ids[best] = made[best];
        size_t rest = n - best - 2;
        memmove(ids + best + 1, ids + best + 2, rest * sizeof *ids);
        memmove(rank + best + 1, rank + best + 2, rest * sizeof *rank);
        memmove(made + best + 1, made + best + 2, rest * sizeof *made);
        n--;
        if (best > 0) {
            const struct tok_merge *m = find_merge(b, ids[best - 1], ids[best]);
            rank[best - 1] = m ? m->rank : NO_RANK;
            made[best - 1] = m ? m->id : -1;
        }
        if (best + 1 < n) {
            const struct tok_merge *m = find_merge(b, ids[best], ids[best + 1]);
            rank[best] = m ? m->rank : NO_RANK;
            made[best] = m ? m->id : -1;
        }
    }
}

static int before(const struct tok_cand *a, const struct tok_cand *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void sift_down(struct tok_cand *h, size_t n, size_t i)
{
    struct tok_cand x = h[i];
    for (size_t c; (c = 4 * i + 1) < n; i = c) {
        size_t end = c + 4 < n ? c + 4 : n, best = c;
        for (size_t k = c + 1; k < end; k++)
            if (before(&h[k], &h[best])) best = k;
        c = best;
        if (!before(&h[c], &x)) break;
        h[i] = h[c];
    }
    h[i] = x;
}

static int push_cand(const struct tok_bpe *b, struct tok_scratch *sc, int32_t at, int32_t right,
                     struct err *e)
{
    const struct tok_merge *m = find_merge(b, sc->sym[at].id, sc->sym[right].id);
    if (!m) return 0;
    if (sc->heap_n == sc->heap_cap) {
        size_t cap = sc->heap_cap * 2;
        struct tok_cand *h = realloc(sc->heap, cap * sizeof *h);
        if (!h) return err_memory(e);
        sc->heap = h;
        sc->heap_cap = cap;
    }
    struct tok_cand x = {m->rank, (uint32_t)at, m->id};
    size_t i = sc->heap_n++;
    for (size_t up; i && (up = (i - 1) / 4, before(&x, &sc->heap[up])); i = up)
        sc->heap[i] = sc->heap[up];
    sc->heap[i] = x;
    return 0;
}

/* Merges the symbols sc->sym [n] of a long piece and appends their ids. */
static int merge_many(const struct tok_bpe *b, struct tok_scratch *sc, size_t n,
                      struct tok_ids *out, struct err *e)
{
    struct tok_symbol *sym = sc->sym;
    if (sc->heap_cap < n) {
        free(sc->heap);
        sc->heap_cap = 0;
        sc->heap = malloc((n + 64) * sizeof *sc->heap);
        if (!sc->heap) return err_memory(e);
        sc->heap_cap = n + 64;
    }
    sc->heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        sym[i].prev = (int32_t)i - 1;
        sym[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
        if (i + 1 == n) break;
        const struct tok_merge *m = find_merge(b, sym[i].id, sym[i + 1].id);
        if (m) sc->heap[sc->heap_n++] = (struct tok_cand){m->rank, (uint32_t)i, m->id};
    }
    for (size_t i = sc->heap_n / 4 + 1; i-- > 0;)
        if (i < sc->heap_n) sift_down(sc->heap, sc->heap_n, i);
    while (sc->heap_n) {
        struct tok_cand top = sc->heap[0];
        if (--sc->heap_n) {
            sc->heap[0] = sc->heap[sc->heap_n];
            sift_down(sc->heap, sc->heap_n, 0);
        }
        struct tok_symbol *s = &sym[top.pos];
        if (s->id < 0 || s->next < 0) continue;
        int32_t right = s->next;
        const struct tok_merge *m = find_merge(b, s->id, sym[right].id);
        if (!m || m->id != top.id)
            continue; /* outdated: one of the two symbols has been merged since */
        s->id = top.id;
        s->next = sym[right].next;
        sym[right].id = -1;
        if (s->next >= 0) sym[s->next].prev = (int32_t)top.pos;
        if (s->prev >= 0 && push_cand(b, sc, s->prev, (int32_t)top.pos, e)) return -1;
        if (s->next >= 0 && push_cand(b, sc, (int32_t)top.pos, s->next, e)) return -1;
    }
    if (tok_ids_room(out, n, e)) return -1;
    for (int32_t i = 0; i >= 0; i = sym[i].next) out->id[out->n++] = sym[i].id;
    return 0;
}

static int sym_room(struct tok_scratch *sc, size_t n, struct err *e)
{
    if (sc->sym_cap >= n) return 0;
    size_t cap = sc->sym_cap ? sc->sym_cap : 1024;
    while (cap < n) cap *= 2;
    struct tok_symbol *p = realloc(sc->sym, cap * sizeof *p);
    if (!p) return err_memory(e);
    sc->sym = p;
    sc->sym_cap = cap;
    return 0;
}

/* Makes the initial symbols of s [n] in the general case: characters, or bytes of the alphabet,
 * with byte fallback and unknown tokens. sc->sym must have room for 2 n; *count are used. */
static int symbols(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                   size_t *count, struct err *e)
{
    size_t k = 0, len;
    int pending = 0; /* an unknown token that may still grow */
    for (size_t i = 0; i < n; i += len) {
        char spelled[4];
        const char *c = s + i;
        int32_t id;
        size_t bytes;
        if (b->byte_level) {
            len = 1;
            id = b->raw_ids[(unsigned char)*c];
            bytes = id < 0 ? tok_utf8_put(spelled, tok_char_of_byte((unsigned char)*c)) : 1;
            c = spelled;
        } else {
            int32_t cp = tok_utf8_next((const unsigned char *)c, n - i, &len);
            bytes = len;
            id = cp < 65536 ? b->char_ids[cp] : find_spelling(b, c, len, 0);
        }
        if (id >= 0) {
            if (pending) sc->sym[k++].id = b->unk;
            pending = 0;
            sc->sym[k++].id = id;
            continue;
        }
        if (b->byte_fallback) {
            size_t j = 0;
            while (j < bytes && b->byte_ids[(unsigned char)c[j]] >= 0) j++;
            /* as in the library, a preceding unknown token comes after the bytes */
            if (j == bytes) {
                for (j = 0; j < bytes; j++) sc->sym[k++].id = b->byte_ids[(unsigned char)c[j]];
                continue;
            }
        }
        if (b->unk == -1) continue;
        if (b->unk < 0)
            return err_set(e, "the text needs the unknown token, which is not in the vocabulary");
        if (pending && !b->fuse_unk) sc->sym[k++].id = b->unk;
        pending = 1;
    }
    if (pending) sc->sym[k++].id = b->unk;
    *count = k;
    return 0;
}

static int encode_slow(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                       struct tok_ids *out, struct err *e)
{
    size_t k = 0;
    if (sym_room(sc, 2 * n + 2, e) || symbols(b, sc, s, n, &k, e)) return -1;
    return k ? merge_many(b, sc, k, out, e) : 0;
}

static int take(const int32_t *ids, size_t n, struct tok_ids *out, struct err *e)
{
    if (tok_ids_room(out, n, e)) return -1;
    memcpy(out->id + out->n, ids, n * sizeof *ids);
    out->n += n;
    return 0;
}

static int encode_bytes(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                        struct tok_ids *out, struct err *e)
{
    int32_t ids[FEW], made[FEW];
    uint32_t rank[FEW];
    if (n > FEW) return encode_slow(b, sc, s, n, out, e);
    const unsigned char *u = (const unsigned char *)s;
    for (size_t i = 0; i < n; i++) {
        ids[i] = b->raw_ids[u[i]];
        if (ids[i] < 0) return encode_slow(b, sc, s, n, out, e);
        if (i + 1 == n) break;
        const struct tok_merge *m = &b->byte_pairs[u[i] << 8 | u[i + 1]];
        rank[i] = m->rank;
        made[i] = m->id;
    }
    return take(ids, merge_few(b, ids, rank, made, n), out, e);
}

static int encode_chars(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                        struct tok_ids *out, struct err *e)
{
    int32_t ids[FEW], made[FEW];
    uint32_t rank[FEW];
    size_t k = 0, len;
    for (size_t i = 0; i < n; i += len) {
        int32_t cp = tok_utf8_next((const unsigned char *)s + i, n - i, &len);
        int32_t id = cp < 65536 ? b->char_ids[cp] : find_spelling(b, s + i, len, 0);
        if (id < 0 || k == FEW) return encode_slow(b, sc, s, n, out, e);
        ids[k++] = id;
    }
    for (size_t i = 0; i + 1 < k; i++) {
        const struct tok_merge *m = find_merge(b, ids[i], ids[i + 1]);
        rank[i] = m ? m->rank : NO_RANK;
        made[i] = m ? m->id : -1;
    }
    return take(ids, merge_few(b, ids, rank, made, k), out, e);
}

int tok_bpe_encode(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                   struct tok_ids *out, struct err *e)
{
    if (b->ignore_merges) {
        int32_t id = tok_bpe_find_text(b, s, n);
        if (id >= 0) return tok_ids_push(out, id, e);
    }
    if (b->byte_level) return encode_bytes(b, sc, s, n, out, e);
    if (!b->cut) return encode_chars(b, sc, s, n, out, e);
    /* No merge crosses a U+2581 after another character: the stretches between are encoded one by
     * one. */
    size_t from = 0;
    for (size_t i = 1; i < n; i++) {
        const char *hit = memchr(s + i, 0xe2, n - i);
        if (!hit) break;
        i = (size_t)(hit - s);
        if (n - i < 3 || memcmp(hit, "\xe2\x96\x81", 3)) continue;
        if (i >= 3 && !memcmp(hit - 3, "\xe2\x96\x81", 3)) continue;
        if (encode_chars(b, sc, s + from, i - from, out, e)) return -1;
        from = i;
    }
    return encode_chars(b, sc, s + from, n - from, out, e);
}
