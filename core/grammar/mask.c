/* mask.c: the tokens are a tree; what is dead is passed over with all below it. A place within a
 * string can read most of them, and every position of a bounded one is another place: so the tokens
 * are also known by how many characters of an alphabet they begin with (vocab.h).
 *
 * - runs: every character of an alphabet leads from the place to one next place, from there to one,
 *   and so on, up to where none can be read or forever. Tokens of so many characters are allowed;
 *   of others only what is behind the characters is read, from the place that they lead to.
 * - everything: all plain characters can be read for ever, but lead to different places. Tokens of
 *   plain characters are allowed, the others are read.
 * - difference: most characters lead to a place whose mask is known (the names of an object: most
 *   lead to other names). The tree is read from both places at once, and only where they differ. */
#include "core/grammar/mask.h"

#include "core/grammar/masks.h"

#include <string.h>

/* What follows a character of an alphabet: one place (its number), or one of these. */
enum {
    SEVERAL = WALK_UNKNOWN - 1, /* all can be read, and lead to several places */
    SOME = WALK_UNKNOWN - 2,    /* some can be read */
    NONE = WALK_UNKNOWN - 3
};

static inline int go(struct mask_maker *m, walk_place at, unsigned char byte, walk_place *to,
                     struct err *e)
{
    *to = walk_peek(walk_steps(m->walk), at, byte);
    return *to == WALK_UNKNOWN ? walk_step(m->walk, at, byte, to, e) : 0;
}

static inline void allow(uint32_t *bits, int32_t id) { bits[id / 32] |= 1u << id % 32; }

/* Reads the nodes FROM up to END of a forest, whose roots are behind AT. */
static int read_forest(struct mask_maker *m, const struct vocab_tree *t, uint32_t from,
                       uint32_t end, walk_place at, uint32_t *bits, struct err *e)
{
    walk_place *path = m->path;
    path[0] = at;
    for (uint32_t i = from; i < end;) {
        const struct vocab_node x = t->node[i];
        walk_place to;
        if (go(m, path[x.depth - 1], x.byte, &to, e)) return -1;
        if (to == WALK_DEAD) {
            i = x.end;
            continue;
        }
        path[x.depth] = to;
        i++;
        for (uint32_t k = x.first; k < t->node[i].first; k++) allow(bits, t->id[k]);
    }
    return 0;
}

/* ---- characters */

/* UTF-8 as an automaton (RFC 3629, section 4): the bytes that may come in a state, and the state
 * that they lead to. */
enum utf8 { CHARACTER, LAST, TWO, THREE, E0, ED, F0, F4, END };
struct bytes {
    unsigned char first, last, to;
};
static const struct bytes utf8[][8] = {
    [CHARACTER] = {{0x20, 0x21, END},
                   {0x23, 0x5b, END},
                   {0x5d, 0x7f, END},
                   {0xc2, 0xdf, LAST},
                   {0xe0, 0xe0, E0},
                   {0xe1, 0xec, TWO},
                   {0xee, 0xef, TWO},
                   {0, 0, 0}},
    [LAST] = {{0x80, 0xbf, END}},
    [TWO] = {{0x80, 0xbf, LAST}},
    [THREE] = {{0x80, 0xbf, TWO}},
    [E0] = {{0xa0, 0xbf, LAST}},
    [ED] = {{0x80, 0x9f, LAST}},
    [F0] = {{0x90, 0xbf, TWO}},
    [F4] = {{0x80, 0x8f, TWO}},
};
static const struct bytes beyond[8] = {{0xed, 0xed, ED},
                                       {0xf0, 0xf0, F0},
                                       {0xf1, 0xf3, THREE},
                                       {0xf4, 0xf4, F4}};
static const struct bytes alnum[8] = {{'0', '9', END}, {'A', 'Z', END}, {'a', 'z', END}},
                          lower[8] = {{'a', 'z', END}};

/* Places that characters lead to, in the making. */
struct after {
    struct mask_maker *m;
    walk_place to; /* the first one, WALK_UNKNOWN: none yet */
    int is_dead, is_several;
};

static int follow(struct after *a, walk_place at, const struct bytes *b, struct err *e);

static int arrive(struct after *a, walk_place to, enum utf8 state, struct err *e)
{
    if (to == WALK_DEAD) a->is_dead = 1;
    else if (state != END) return follow(a, to, utf8[state], e);
    else if (a->to == WALK_UNKNOWN) a->to = to;
    else if (a->to != to) a->is_several = 1;
    return 0;
}

/* All ways that the ranges B leave open from AT, each class of bytes once. */
static int follow(struct after *a, walk_place at, const struct bytes *b, struct err *e)
{
    for (; b->last; b++) {
        walk_place last = WALK_UNKNOWN;
        for (int byte = b->first; byte <= b->last; byte++) {
            walk_place to;
            if (go(a->m, at, (unsigned char)byte, &to, e)) return -1;
            if (to == last) continue; /* neighbours mostly go the same way */
            last = to;
            if (arrive(a, to, b->to, e)) return -1;
        }
    }
    return 0;
}

/* What follows a character of the alphabet; kept as a note of the place. */
static int after_one(struct mask_maker *m, walk_place at, enum vocab_alphabet alphabet,
                     uint32_t *out, struct err *e)
{
    _Static_assert((int)VOCAB_ALPHABETS <= (int)WALK_NOTES, "a note for each alphabet");
    struct after a = {.m = m, .to = WALK_UNKNOWN};
    *out = walk_notes(m->walk, at)[alphabet];
    if (*out != WALK_UNKNOWN) return 0;
    const struct bytes *first = alphabet == VOCAB_PLAIN   ? utf8[CHARACTER]
                                : alphabet == VOCAB_ALNUM ? alnum
                                                          : lower;
    if (follow(&a, at, first, e)) return -1;
    if (alphabet == VOCAB_PLAIN && !(a.is_dead && a.to != WALK_UNKNOWN) &&
        follow(&a, at, beyond, e))
        return -1;
    *out = a.to == WALK_UNKNOWN ? NONE : a.is_dead ? SOME : a.is_several ? SEVERAL : a.to;
    walk_notes(m->walk, at)[alphabet] = *out;
    return 0;
}

/* ---- runs */

/* The places after 0 .. VOCAB_RUN characters; *n of them are alive. 1: and each of these leads to
 * one next place or, the last one, to none. *forever: the last one leads to itself. */
static int find_run(struct mask_maker *m, walk_place at, enum vocab_alphabet a,
                    walk_place place[VOCAB_RUN + 1], int *n, int *forever, struct err *e)
{
    *forever = 0;
    place[0] = at;
    for (*n = 1;; ++*n) {
        uint32_t next;
        if (after_one(m, place[*n - 1], a, &next, e)) return -1;
        if (next == NONE) return *n > 1;
        if (next == SEVERAL || next == SOME) return 0;
        if (next == place[*n - 1]) return *forever = 1;
        if (*n == VOCAB_RUN + 1) return 1;
        place[*n] = next;
    }
}

static int of_runs(struct mask_maker *m, enum vocab_alphabet a,
                   const walk_place place[VOCAB_RUN + 1], int n, int forever, uint32_t *bits,
                   struct err *e)
{
    const struct vocab_runs *r = vocab_runs(m->vocab, a);
    const uint32_t *pure = r->pure + (size_t)(forever ? VOCAB_RUN + 1 : n - 1) * r->words;
    memcpy(bits, pure, r->words * sizeof *bits);
    for (int i = 0; i < (forever ? VOCAB_RUN + 2 : n); i++)
        if (read_forest(m, &r->rest, r->start[i], r->start[i + 1], place[i < n ? i : n - 1], bits,
                        e))
            return -1;
    if (forever || n <= VOCAB_RUN) return 0;
    return read_forest(m, &r->longer, 0, r->longer.n, place[0], bits, e);
}

/* ---- everything */

enum { MAX_PLACES = 24 };

/* The places that characters lead to are added to PLACE [*n]; 1: all can be read. */
struct several {
    walk_place place[MAX_PLACES];
    int n, is_dead, is_full;
};

static void add(struct several *s, walk_place at)
{
    for (int i = 0; i < s->n; i++)
        if (s->place[i] == at) return;
    if (s->n == MAX_PLACES) s->is_full = 1;
    else s->place[s->n++] = at;
}

static int spread(struct mask_maker *m, struct several *s, walk_place at, const struct bytes *b,
                  struct err *e)
{
    for (; b->last && !s->is_dead && !s->is_full; b++) {
        walk_place last = WALK_UNKNOWN, to;
        for (int byte = b->first; byte <= b->last; byte++) {
            if (go(m, at, (unsigned char)byte, &to, e)) return -1;
            if (to == last) continue;
            last = to;
            if (to == WALK_DEAD) s->is_dead = 1;
            else if (b->to == END) add(s, to);
            else if (spread(m, s, to, utf8[b->to], e)) return -1;
        }
    }
    return 0;
}

/* 1: plain characters can be read for ever. */
static int reads_everything(struct mask_maker *m, walk_place at, struct err *e)
{
    struct several s = {.place = {at}, .n = 1};
    for (int i = 0; i < s.n && !s.is_dead && !s.is_full; i++) {
        uint32_t next;
        if (after_one(m, s.place[i], VOCAB_PLAIN, &next, e)) return -1;
        if (next == SOME || next == NONE) return 0;
        if (next != SEVERAL) add(&s, next);
        else if (spread(m, &s, s.place[i], utf8[CHARACTER], e) ||
                 spread(m, &s, s.place[i], beyond, e))
            return -1;
    }
    return !s.is_dead && !s.is_full;
}

/* Whole tokens, but for those of plain characters alone. */
static int of_everything(struct mask_maker *m, walk_place at, uint32_t *bits, struct err *e)
{
    const struct vocab_runs *r = vocab_runs(m->vocab, VOCAB_PLAIN);
    memcpy(bits, r->pure + (VOCAB_RUN + 1) * r->words, r->words * sizeof *bits);
    return read_forest(m, &r->mixed, 0, r->mixed.n, at, bits, e);
}

/* ---- difference */

/* The place that most plain characters of ASCII lead to. */
static int mostly(struct mask_maker *m, walk_place at, walk_place *out, struct err *e)
{
    walk_place to[95];
    int n = 0, most = 0;
    for (int byte = 0x20; byte < 0x7f; byte++)
        if (go(m, at, (unsigned char)byte, &to[n++], e)) return -1;
    *out = WALK_DEAD;
    for (int i = 0; i < n && 2 * most < n; i++) {
        int same = 0;
        for (int k = i; k < n; k++) same += to[k] == to[i];
        if (same > most) most = same, *out = to[i];
    }
    return 0;
}

/* BITS is the mask of OTHER, and becomes that of AT. */
static int read_difference(struct mask_maker *m, walk_place at, walk_place other, uint32_t *bits,
                           struct err *e)
{
    const struct vocab_tree *t = vocab_all(m->vocab);
    m->path[0] = at;
    m->other[0] = other;
    for (uint32_t i = 0; i < t->n;) {
        const struct vocab_node x = t->node[i];
        walk_place a, b = WALK_DEAD;
        if (go(m, m->path[x.depth - 1], x.byte, &a, e) ||
            go(m, m->other[x.depth - 1], x.byte, &b, e))
            return -1;
        if (a == b || a == WALK_DEAD) {
            for (uint32_t k = x.first; a != b && k < t->node[x.end].first; k++)
                bits[t->id[k] / 32] &= ~(1u << t->id[k] % 32);
            i = x.end;
            continue;
        }
        m->path[x.depth] = a;
        m->other[x.depth] = b;
        i++;
        for (uint32_t k = x.first; k < t->node[i].first; k++) allow(bits, t->id[k]);
    }
    return 0;
}

/* 1: made so. */
static int of_difference(struct mask_maker *m, walk_place at, uint32_t *bits, struct err *e)
{
    walk_place other, place[VOCAB_RUN + 1];
    struct masks *kept = vocab_masks(m->vocab);
    int n, forever, n_allowed;
    int32_t lowest;
    if (mostly(m, at, &other, e)) return -1;
    if (other == WALK_DEAD || other == at) return 0;
    int rc = find_run(m, other, VOCAB_PLAIN, place, &n, &forever, e);
    if (rc <= 0 || !forever) return rc < 0 ? rc : 0;
    if (!masks_find(kept, m->owner, other, bits, &n_allowed, &lowest)) {
        if (of_runs(m, VOCAB_PLAIN, place, n, forever, bits, e)) return -1;
        masks_keep(kept, m->owner, other, bits, &n_allowed, &lowest);
    }
    return read_difference(m, at, other, bits, e) ? -1 : 1;
}

int mask_of(struct mask_maker *m, walk_place at, uint32_t *bits, struct err *e)
{
    walk_place place[VOCAB_RUN + 1];
    int n, forever, rc;
    for (int a = 0; a < VOCAB_ALPHABETS; a++) {
        uint32_t next;
        if ((rc = find_run(m, at, a, place, &n, &forever, e)) < 0) return -1;
        if (rc) return of_runs(m, a, place, n, forever, bits, e);
        if (a != VOCAB_PLAIN) continue;
        if (after_one(m, at, a, &next, e)) return -1;
        if (next == NONE || next == SOME) continue;
        if ((rc = of_difference(m, at, bits, e)) != 0) return rc < 0 ? -1 : 0;
        if ((rc = reads_everything(m, at, e)) < 0) return -1;
        if (rc) return of_everything(m, at, bits, e);
    }
    const struct vocab_tree *t = vocab_all(m->vocab);
    memset(bits, 0, vocab_runs(m->vocab, VOCAB_PLAIN)->words * sizeof *bits);
    return read_forest(m, t, 0, t->n, at, bits, e);
}

void mask_of_choice(const struct choice *c, uint32_t at, const struct vocab *v, uint32_t *path,
                    uint32_t *bits)
{
    const struct vocab_tree *t = vocab_all(v);
    memset(bits, 0, vocab_runs(v, VOCAB_PLAIN)->words * sizeof *bits);
    path[0] = at;
    for (uint32_t i = 0; i < t->n;) {
        const struct vocab_node x = t->node[i];
        if (!(path[x.depth] = choice_step(c, path[x.depth - 1], x.byte))) {
            i = x.end;
            continue;
        }
        i++;
        for (uint32_t k = x.first; k < t->node[i].first; k++) allow(bits, t->id[k]);
    }
}
