#include "core/grammar/grammar.h"

#include "core/grammar/choice.h"
#include "core/grammar/notation.h"
#include "core/grammar/shared.h"
#include "core/grammar/walk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Choices are a trie, constant once it is made; everything else a walk, which grows with what is
 * asked of it: its lock is taken for every question. */
struct grammar {
    const struct vocab *vocab;
    struct choice *choice;
    struct walk *walk;
    pthread_mutex_t lock;
    struct grammar_cursor *cursors; /* of the walk */
    int n_cursors;
};

struct grammar_cursor {
    struct grammar *g;
    uint32_t at;    /* node of the trie, place of the walk */
    uint32_t *path; /* [vocab_longest + 1] scratch of masks */
    struct grammar_cursor *next, **link;
};

static int open_walk(struct grammar *g, const struct grammar_spec *spec, struct err *e)
{
    struct net *net;
    uint32_t root = 0;
    if (net_open(&net, e)) return -1;
    int rc = spec->kind == GRAMMAR_REGEX  ? notation_regex(net, spec->text, spec->bytes, &root, e)
             : spec->kind == GRAMMAR_GBNF ? notation_gbnf(net, spec->text, spec->bytes, &root, e)
             : spec->kind == GRAMMAR_SCHEMA
                 ? notation_schema(net, spec->text, spec->bytes, spec->schema_order, spec->compact,
                                   &root, e)
                 : notation_json(net, spec->compact, &root, e);
    if (!rc) rc = net_finish(net, root, e);
    if (rc) {
        net_close(net);
        return -1;
    }
    return walk_open(&g->walk, net, root, ((size_t)vocab_n(g->vocab) + 31) / 32, e);
}

int grammar_open(struct grammar **out, const struct grammar_spec *spec, const struct vocab *v,
                 struct err *e)
{
    struct grammar *g = calloc(1, sizeof *g);
    if (!g) return err_memory(e);
    g->vocab = v;
    pthread_mutex_init(&g->lock, NULL);
    if (spec->kind == GRAMMAR_CHOICE ? choice_open(&g->choice, spec->text, spec->bytes, e)
                                     : open_walk(g, spec, e)) {
        grammar_close(g);
        return -1;
    }
    *out = g;
    return 0;
}

void grammar_close(struct grammar *g)
{
    if (!g) return;
    choice_close(g->choice);
    walk_close(g->walk);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

int grammar_cursor_open(struct grammar_cursor **out, struct grammar *g, struct err *e)
{
    struct grammar_cursor *c = calloc(1, sizeof *c);
    if (c) c->path = calloc(vocab_longest(g->vocab) + 1, sizeof *c->path);
    if (!c || !c->path) {
        free(c);
        return err_memory(e);
    }
    c->g = g;
    grammar_cursor_reset(c);
    pthread_mutex_lock(&g->lock);
    c->next = g->cursors;
    c->link = &g->cursors;
    if (c->next) c->next->link = &c->next;
    g->cursors = c;
    g->n_cursors++;
    pthread_mutex_unlock(&g->lock);
    *out = c;
    return 0;
}

void grammar_cursor_close(struct grammar_cursor *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->g->lock);
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    c->g->n_cursors--;
    pthread_mutex_unlock(&c->g->lock);
    free(c->path);
    free(c);
}

_Static_assert((int)CHOICE_DEAD == (int)WALK_DEAD && (int)CHOICE_START == (int)WALK_START,
               "a cursor begins alike");
void grammar_cursor_copy(struct grammar_cursor *to, const struct grammar_cursor *from)
{
    pthread_mutex_lock(&to->g->lock);
    to->at = from->at;
    pthread_mutex_unlock(&to->g->lock);
}

void grammar_cursor_reset(struct grammar_cursor *c)
{
    pthread_mutex_lock(&c->g->lock);
    c->at = CHOICE_START;
    pthread_mutex_unlock(&c->g->lock);
}

/* One byte further from AT, which is not dead. The lock is held. */
static int step(const struct grammar *g, uint32_t at, char byte, uint32_t *to, struct err *e)
{
    if (g->walk) return walk_step(g->walk, at, (unsigned char)byte, to, e);
    *to = choice_step(g->choice, at, (unsigned char)byte);
    return 0;
}

int grammar_accept(struct grammar_cursor *c, const char *text, size_t n, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&c->g->lock);
    uint32_t at = c->at; /* under the lock: make_room gives places new numbers */
    for (size_t i = 0; i < n && at && !rc; i++) rc = step(c->g, at, text[i], &at, e);
    if (!rc && at) c->at = at;
    pthread_mutex_unlock(&c->g->lock);
    return rc ? -1 : at != 0;
}

int grammar_accept_token(struct grammar_cursor *c, int32_t id, struct err *e)
{
    size_t bytes;
    const char *t = vocab_token(c->g->vocab, id, &bytes);
    return t ? grammar_accept(c, t, bytes, e) : 0;
}

int grammar_may_end(struct grammar_cursor *c)
{
    if (c->g->choice) return choice_may_end(c->g->choice, c->at);
    pthread_mutex_lock(&c->g->lock);
    int may = walk_may_end(c->g->walk, c->at);
    pthread_mutex_unlock(&c->g->lock);
    return may;
}

int grammar_must_end(struct grammar_cursor *c)
{
    if (c->g->choice) return choice_must_end(c->g->choice, c->at);
    pthread_mutex_lock(&c->g->lock);
    int must = walk_must_end(c->g->walk, c->at);
    pthread_mutex_unlock(&c->g->lock);
    return must;
}

/* Tokens in order of their bytes: all, or those of a list; common: bytes that each begins with like
 * the one before it. */
struct tokens {
    const int32_t *id;
    const uint32_t *list, *common;
    int n;
};

/* Which of the tokens can be read at AT: a token takes the path of the one before it as far as they
 * agree, and those that begin like one that does not fit are passed over. Of an inner place, those
 * on whose way the text may end are listed too, ENDS [tokens]. */
static int find_allowed(struct grammar_cursor *c, uint32_t at, const struct tokens *all,
                        struct walk_mask *m, uint32_t *ends, struct err *e)
{
    const struct vocab *v = c->g->vocab;
    uint32_t ends_at = UINT32_MAX; /* bytes of the path after which the text may end */
    c->path[0] = at;
    for (int i = 0; i < all->n;) {
        uint32_t which = all->list ? all->list[i] : (uint32_t)i;
        size_t bytes, k = all->common[i];
        const int32_t id = all->id[which];
        const char *t = vocab_token(v, id, &bytes);
        if (ends_at > k) ends_at = UINT32_MAX;
        while (k < bytes) {
            if (step(c->g, c->path[k], t[k], &c->path[k + 1], e)) return -1;
            if (!c->path[k + 1]) break;
            k++;
            if (ends && ends_at == UINT32_MAX && walk_may_end(c->g->walk, c->path[k]))
                ends_at = (uint32_t)k;
        }
        if (ends && ends_at <= k) ends[m->n_ends++] = which;
        if (k < bytes) { /* path[k] has no byte t[k] */
            for (i++; i < all->n && all->common[i] > k; i++)
                if (ends && ends_at <= k)
                    ends[m->n_ends++] = all->list ? all->list[i] : (uint32_t)i;
            continue;
        }
        if (!(m->bits[id / 32] >> id % 32 & 1)) m->n_allowed++;
        m->bits[id / 32] |= 1u << id % 32;
        if (id < m->lowest) m->lowest = id;
        i++;
    }
    return 0;
}

static struct tokens all_tokens(const struct grammar *g)
{
    struct tokens t = {0};
    t.id = vocab_sorted(g->vocab, &t.n, &t.common);
    return t;
}

/* Finds the mask of an inner place into fresh arrays. */
static int find_inner(struct grammar_cursor *c, walk_place at, size_t bytes, struct walk_mask *m,
                      struct err *e)
{
    const struct tokens all = all_tokens(c->g);
    *m = (struct walk_mask){.lowest = INT32_MAX};
    m->bits = calloc(bytes + 1, 1);
    m->end = malloc(((size_t)all.n + 1) * sizeof *m->end);
    int rc = m->bits && m->end ? find_allowed(c, at, &all, m, m->end, e) : err_memory(e);
    uint32_t *fewer = rc ? NULL : realloc(m->end, ((size_t)m->n_ends + 1) * sizeof *m->end);
    if (fewer) m->end = fewer;
    if (!rc && !(m->common = malloc(((size_t)m->n_ends + 1) * sizeof *m->common)))
        rc = err_memory(e);
    for (int i = 0; i < m->n_ends && !rc; i++) {
        uint32_t least = i ? UINT32_MAX : 0;
        for (uint32_t k = i ? m->end[i - 1] + 1 : 0; i && k <= m->end[i]; k++)
            if (all.common[k] < least) least = all.common[k];
        m->common[i] = least;
    }
    if (!rc) return 0;
    free(m->bits);
    free(m->end);
    free(m->common);
    return -1;
}

/* The mask of an inner place: this grammar's own, or one that all grammars share. */
static int inner_mask(struct grammar_cursor *c, walk_place at, size_t bytes,
                      const struct walk_mask **out, struct err *e)
{
    enum { MAX_WORDS = 512 };
    uint32_t key[MAX_WORDS];
    struct walk_mask m;
    struct shared_masks *shared = vocab_shared(c->g->vocab);
    int words = walk_write_down(c->g->walk, at, key, MAX_WORDS);
    *out = words ? shared_find(shared, key, words) : walk_mask(c->g->walk, at, 1);
    if (*out) return 0;
    if (find_inner(c, at, bytes, &m, e)) return -1;
    if (words) return shared_keep(shared, key, words, &m, out, e);
    int rc = walk_keep_mask(c->g->walk, at, 1, &m, e);
    free(m.bits);
    if (!rc) {
        *out = walk_mask(c->g->walk, at, 1);
        return 0;
    }
    free(m.end);
    free(m.common);
    return -1;
}

/* Before a mask: what was found is forgotten when it is much, but for the cursors' places. */
static int make_room(struct grammar *g, struct err *e)
{
    int n = 0;
    if (!walk_is_large(g->walk)) return 0;
    walk_place **places = malloc((size_t)(g->n_cursors + 1) * sizeof *places);
    if (!places) return err_memory(e);
    for (struct grammar_cursor *c = g->cursors; c; c = c->next) places[n++] = &c->at;
    int rc = walk_forget(g->walk, places, n, e);
    free(places);
    return rc;
}

/* Fills M, whose bits are the caller's, from what is kept, or finds it and keeps it. Most tokens
 * inside a string, say, do not end it: those are known from the inner place, and only the others
 * depend on what is around the string. */
static int walk_to_mask(struct grammar_cursor *c, struct walk_mask *m, size_t bytes, struct err *e)
{
    struct walk *w = c->g->walk;
    struct tokens tokens = all_tokens(c->g);
    walk_place inner;
    if (make_room(c->g, e)) return -1;
    const struct walk_mask *kept = walk_mask(w, c->at, 0);
    if (kept) {
        memcpy(m->bits, kept->bits, bytes);
        m->n_allowed = kept->n_allowed;
        m->lowest = kept->lowest;
        return 0;
    }
    if (walk_inner(w, c->at, &inner, e)) return -1;
    memset(m->bits, 0, bytes);
    if (inner != c->at) {
        if (inner_mask(c, inner, bytes, &kept, e)) return -1;
        memcpy(m->bits, kept->bits, bytes);
        m->n_allowed = kept->n_allowed;
        m->lowest = kept->lowest;
        tokens.list = kept->end;
        tokens.common = kept->common;
        tokens.n = kept->n_ends;
    }
    return find_allowed(c, c->at, &tokens, m, NULL, e) ? -1 : walk_keep_mask(w, c->at, 0, m, e);
}

int grammar_mask(struct grammar_cursor *c, uint32_t *bits, int *n_allowed, int32_t *only,
                 struct err *e)
{
    const size_t bytes = ((size_t)vocab_n(c->g->vocab) + 31) / 32 * sizeof *bits;
    const struct tokens all = all_tokens(c->g);
    struct walk_mask m = {.bits = bits, .lowest = INT32_MAX};
    int rc;
    if (c->g->walk) {
        pthread_mutex_lock(&c->g->lock);
        rc = walk_to_mask(c, &m, bytes, e);
        pthread_mutex_unlock(&c->g->lock);
    } else {
        memset(bits, 0, bytes);
        rc = find_allowed(c, c->at, &all, &m, NULL, e);
    }
    if (rc) return -1;
    *n_allowed = m.n_allowed;
    if (only) *only = m.n_allowed ? m.lowest : -1;
    return 0;
}
