/* tok_added.c: search for added tokens in text: leftmost, then longest, by a byte trie. Must not
 * know: how the text between them is tokenized; files. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t edge_hash(uint32_t node, uint8_t byte)
{
    uint32_t h = (node * 256u + byte) * 2654435761u;
    return h ^ h >> 15;
}

static uint32_t trie_step(const struct tok_trie *t, uint32_t node, uint8_t byte)
{
    for (uint32_t i = edge_hash(node, byte) & t->mask;; i = (i + 1) & t->mask) {
        const struct tok_trie_edge *d = &t->edges[i];
        if (!d->child) return 0;
        if (d->node == node && d->byte == byte) return d->child;
    }
}

static int trie_grow(struct tok_trie *t, struct err *e)
{
    uint32_t n = t->edges ? (t->mask + 1) * 2 : 256;
    struct tok_trie_edge *old = t->edges, *edges = calloc(n, sizeof *edges);
    if (!edges) return err_memory(e);
    for (uint32_t i = 0; old && i <= t->mask; i++) {
        if (!old[i].child) continue;
        uint32_t j = edge_hash(old[i].node, old[i].byte) & (n - 1);
        while (edges[j].child) j = (j + 1) & (n - 1);
        edges[j] = old[i];
    }
    free(old);
    t->edges = edges;
    t->mask = n - 1;
    return 0;
}

static int trie_node(struct tok_trie *t, struct err *e)
{
    if (t->n_nodes == t->value_cap) {
        size_t cap = t->value_cap ? t->value_cap * 2 : 128;
        int32_t *v = realloc(t->value, cap * sizeof *v);
        if (!v) return err_memory(e);
        t->value = v;
        t->value_cap = cap;
    }
    t->value[t->n_nodes++] = -1;
    return 0;
}

int tok_trie_add(struct tok_trie *t, const char *s, size_t n, int32_t value, struct err *e)
{
    if (!t->edges && (trie_grow(t, e) || trie_node(t, e))) return -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if (i == 0) t->first[c] = 1;
        uint32_t child = trie_step(t, node, c);
        if (!child) {
            if (t->n_nodes > 1u << 27) return err_set(e, "the added tokens are too many to index");
            if ((t->n_edges + 1) * 2 > t->mask && trie_grow(t, e)) return -1;
            child = t->n_nodes;
            if (trie_node(t, e)) return -1;
            uint32_t j = edge_hash(node, c) & t->mask;
            while (t->edges[j].child) j = (j + 1) & t->mask;
            t->edges[j] = (struct tok_trie_edge){.node = node, .child = child, .byte = c};
            t->n_edges++;
        }
        node = child;
    }
    t->value[node] = value;
    return 0;
}

void tok_trie_free(struct tok_trie *t)
{
    free(t->edges);
    free(t->value);
    *t = (struct tok_trie){0};
}

/* 1 if s [n] begins with a word character. */
static int word_at(const struct tok_pattern *p, struct tok_match *m, const char *s, size_t n)
{
    struct tok_walk w;
    tok_walk_init(&w);
    return tok_walk_next(p, m, s, n, &w);
}

static size_t char_start_before(const char *s, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

/* The longest added token that begins at s[at]; *end: behind it. -1: none. */
static int32_t added_at(const struct tok_trie *t, const char *s, size_t n, size_t at, size_t *end)
{
    int32_t found = -1;
    uint32_t node = 0;
    if (!t->first[(uint8_t)s[at]]) return -1;
    for (size_t i = at; i < n && (node = trie_step(t, node, (uint8_t)s[i])) != 0; i++) {
        if (t->value[node] < 0) continue;
        found = t->value[node];
        *end = i + 1;
    }
    return found;
}

/* 1 when neither the character before `start` nor the one at `stop` is part of a word. */
static int is_single_word(const struct tok_pattern *word, struct tok_match *m, const char *s,
                          size_t n, size_t start, size_t stop)
{
    size_t before = start ? char_start_before(s, start) : 0, len;
    if (start && word_at(word, m, s + before, start - before)) return 0;
    if (stop == n) return 1;
    tok_utf8_next((const unsigned char *)s + stop, n - stop, &len);
    return !word_at(word, m, s + stop, len);
}

/* Start of the white space before `start`, at least `least`. */
static size_t strip_left(const char *s, size_t start, size_t least)
{
    size_t len;
    while (start > least) {
        size_t b = char_start_before(s, start);
        if (!tok_is_space((uint32_t)tok_utf8_next((const unsigned char *)s + b, start - b, &len)))
            break;
        start = b;
    }
    return start < least ? least : start;
}

/* End of the white space from `stop` on. A run is scanned once for all matches that begin inside
 * it. */
static size_t strip_right(const char *s, size_t n, size_t stop, struct tok_section_walk *w)
{
    size_t from = stop, len;
    if (stop >= w->space && stop < w->space_end) stop = w->space_end;
    while (stop < n &&
           tok_is_space((uint32_t)tok_utf8_next((const unsigned char *)s + stop, n - stop, &len)))
        stop += len;
    w->space = from;
    w->space_end = stop;
    return stop;
}

/* Finds the next accepted match from w->scan on; *out includes the white space that it strips. 0:
 * there is none. */
static int find_added(const struct tok_added_set *set, const struct tok_trie *t,
                      struct tok_match *m, const char *s, size_t n, struct tok_section_walk *w,
                      struct tok_section *out)
{
    for (size_t at = w->scan; at < n;) {
        size_t start = at, stop = at;
        int32_t found = added_at(t, s, n, at, &stop);
        if (found < 0) {
            at++;
            continue;
        }
        const struct tok_added *a = &set->a[found];
        w->scan = at = stop; /* the search continues after a rejected match, not inside it */
        if (a->single_word && !is_single_word(set->word, m, s, n, start, stop)) continue;
        if (a->lstrip) start = strip_left(s, start, w->done);
        if (a->rstrip) stop = strip_right(s, n, stop, w);
        *out = (struct tok_section){
            .off = start, .len = stop > start ? stop - start : 0, .added = found};
        return 1;
    }
    w->scan = n;
    return 0;
}

int tok_added_next(const struct tok_added_set *set, const struct tok_trie *trie,
                   struct tok_match *m, const char *s, size_t n, struct tok_section_walk *w,
                   struct tok_section *out)
{
    if (!w->has_next) {
        struct tok_section a;
        if (trie->edges && find_added(set, trie, m, s, n, w, &a)) {
            w->next = a;
            w->has_next = 1;
        } else {
            if (w->done >= n) return 0;
            *out = (struct tok_section){.off = w->done, .len = n - w->done, .added = -1};
            w->done = n;
            return 1;
        }
    }
    if (w->done < w->next.off) {
        *out = (struct tok_section){.off = w->done, .len = w->next.off - w->done, .added = -1};
        w->done = w->next.off;
        return 1;
    }
    *out = w->next;
    w->done = w->next.off + w->next.len;
    w->has_next = 0;
    return 1;
}

const struct tok_added *tok_added_by_id(const struct tok_added_set *set, int32_t id)
{
    size_t lo = 0, hi = set->by_id ? set->n : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int32_t v = set->a[set->by_id[mid]].id;
        if (v == id) return &set->a[set->by_id[mid]];
        if (v < id) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

const struct tok_added *tok_added_by_text(const struct tok_added_set *set, const char *s, size_t n)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->a[i].text_bytes == n && !memcmp(set->a[i].text, s, n)) return &set->a[i];
    return NULL;
}

void tok_added_free(struct tok_added_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->a[i].norm != set->a[i].text) free(set->a[i].norm);
        free(set->a[i].text);
    }
    free(set->a);
    free(set->by_id);
    tok_trie_free(&set->raw);
    tok_trie_free(&set->norm);
    tok_pattern_close(set->word);
    *set = (struct tok_added_set){0};
}

struct tok_added *tok_added_new(struct tokenizer *t, const char *s, size_t n, struct err *e)
{
    struct tok_added_set *set = &t->added;
    if (n > TOK_MAX_ADDED_BYTES) {
        err_set(e, "an added token of %zu bytes is longer than %d", n, TOK_MAX_ADDED_BYTES);
        return NULL;
    }
    if (set->n == set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 16;
        struct tok_added *a = realloc(set->a, cap * sizeof *a);
        if (!a) {
            err_memory(e);
            return NULL;
        }
        set->a = a;
        set->cap = cap;
    }
    char *copy = malloc(n + 1);
    if (!copy) {
        err_memory(e);
        return NULL;
    }
    memcpy(copy, s, n);
    copy[n] = 0;
    struct tok_added *a = &set->a[set->n++];
    *a = (struct tok_added){.text = copy, .norm = copy, .text_bytes = n, .norm_bytes = n, .id = -1};
    return a;
}

/* Computes the spelling of an added token after the normalizers. */
static int normalize_added(struct tokenizer *t, struct tok_scratch *sc, struct tok_added *a,
                           struct err *e)
{
    const char *s = a->text;
    size_t n = a->text_bytes;
    int first = 1;
    if (tok_normalize(&t->norm, sc, &s, &n, &first, e)) return -1;
    if (n == a->text_bytes && !memcmp(s, a->text, n)) return 0;
    if (n > TOK_MAX_ADDED_BYTES * 4)
        return err_set(e, "an added token grows to %zu bytes when normalized", n);
    char *copy = malloc(n + 1);
    if (!copy) return err_memory(e);
    if (n) memcpy(copy, s, n);
    copy[n] = 0;
    a->norm = copy;
    a->norm_bytes = n;
    return 0;
}

struct added_ref {
    const struct tok_added *a;
    int32_t index;
};

static int by_text(const void *x, const void *y)
{
    const struct added_ref *p = x, *q = y;
    size_t n = p->a->text_bytes < q->a->text_bytes ? p->a->text_bytes : q->a->text_bytes;
    int c = memcmp(p->a->text, q->a->text, n);
    if (c) return c;
    if (p->a->text_bytes != q->a->text_bytes) return p->a->text_bytes < q->a->text_bytes ? -1 : 1;
    return p->index < q->index ? -1 : 1;
}

static int by_id(const void *x, const void *y)
{
    const struct added_ref *p = x, *q = y;
    return p->a->id < q->a->id ? -1 : p->a->id > q->a->id;
}

/* Removes duplicate and empty spellings: the last token of a spelling counts, at the first one's
 * index. */
static int drop_duplicates(struct tok_added_set *set, struct err *e)
{
    struct added_ref *r = malloc((set->n + 1) * sizeof *r);
    if (!r) return err_memory(e);
    for (size_t i = 0; i < set->n; i++) r[i] = (struct added_ref){&set->a[i], (int32_t)i};
    qsort(r, set->n, sizeof *r, by_text);
    for (size_t i = 1; i < set->n; i++) {
        const struct tok_added *p = r[i - 1].a, *q = r[i].a;
        if (p->text_bytes != q->text_bytes || memcmp(p->text, q->text, p->text_bytes)) continue;
        struct tok_added *first = &set->a[r[i - 1].index], *last = &set->a[r[i].index];
        char *keep = first->text;
        int special = first->special | last->special;
        *first = *last; /* the later token's settings count; a special token remains one */
        first->special = special;
        first->norm = first->text = keep;
        free(last->text);
        last->text = last->norm = NULL;
        last->text_bytes = 0;
        r[i] = r[i - 1];
    }
    free(r);
    size_t w = 0;
    for (size_t i = 0; i < set->n; i++) {
        if (set->a[i].text_bytes) set->a[w++] = set->a[i];
        else free(set->a[i].text);
    }
    set->n = w;
    return 0;
}

int tok_added_settle(struct tokenizer *t, struct err *e)
{
    struct tok_added_set *set = &t->added;
    struct tok_scratch sc = {0};
    struct added_ref *r = NULL;
    int rc = -1, words = 0;
    if (drop_duplicates(set, e) || tok_match_open(&sc.match, e)) goto fail;
    /* As in the library, the file's ids are ignored: a spelling in the vocabulary keeps its id, the
     * others are numbered from the vocabulary's size on. */
    int64_t next = (int64_t)t->bpe.n_entries;
    t->n_ids = t->bpe.n_ids;
    for (size_t i = 0; i < set->n; i++) {
        struct tok_added *a = &set->a[i];
        a->id = tok_bpe_find(&t->bpe, a->text, a->text_bytes);
        if (a->id < 0) a->id = (int32_t)next++;
        if (a->id >= TOK_MAX_IDS) {
            err_set(e, "too many added tokens");
            goto fail;
        }
        if (a->id >= t->n_ids) t->n_ids = a->id + 1;
        if (a->normalized && !a->as_is && normalize_added(t, &sc, a, e)) goto fail;
        words |= a->single_word;
        if (a->norm_bytes && tok_trie_add(a->normalized ? &set->norm : &set->raw, a->norm,
                                          a->norm_bytes, (int32_t)i, e))
            goto fail;
    }
    if (words) {
        /* The library uses another regular expression crate here, whose \w differs from that of the
         * pre-tokenizers. */
        static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
        if (tok_pattern_regex(&set->word, word, sizeof word - 1, e)) goto fail;
    }
    r = malloc((set->n + 1) * sizeof *r);
    set->by_id = malloc((set->n + 1) * sizeof *set->by_id);
    if (!r || !set->by_id) {
        err_memory(e);
        goto fail;
    }
    for (size_t i = 0; i < set->n; i++) r[i] = (struct added_ref){&set->a[i], (int32_t)i};
    qsort(r, set->n, sizeof *r, by_id);
    for (size_t i = 0; i < set->n; i++) set->by_id[i] = r[i].index;
    rc = 0;
fail:
    free(r);
    tok_scratch_free(&sc);
    return rc;
}
