/* walk.h: places in a network: what may come after a text, found as it is needed and kept. A place
 * is a set of nodes, each with the rules that it returns to. Owns: places, the steps between them.
 * Must not know: notations, tokens. One thread at a time. */
#ifndef CORE_WALK_H
#define CORE_WALK_H

#include "core/grammar/net.h"

/* Nodes that one place may have, or go through: beyond, what may come would take too long to find.
 */
enum { WALK_MAX_WAYS = 1 << 15 };
struct walk;
typedef uint32_t walk_place;
enum { WALK_DEAD, WALK_START };
#define WALK_UNKNOWN UINT32_MAX

/* Of the finished NET, which the walk then owns; ROOT is the language. */
int walk_open(struct walk **w, struct net *net, uint32_t root, struct err *e);
/* Takes memory ahead, so that steps through some thousands of places take none; beyond that they do,
 * each time as much as there is. */
int walk_reserve(struct walk *w, struct err *e);
void walk_close(struct walk *w);

/* *to: the place after one more byte. -1: memory is short, or the place would have more nodes than
 * the bound. */
int walk_step(struct walk *w, walk_place at, unsigned char byte, walk_place *to, struct err *e);
/* 1: the text may end here; 1: and no other one goes on. */
int walk_may_end(const struct walk *w, walk_place at);
int walk_must_end(const struct walk *w, walk_place at);

/* The steps that are known: bytes that go the same way from a place are one class of it; class 0
 * goes nowhere. The arrays may move with a walk_step that finds a new place. */
struct walk_row {
    uint32_t map, first;
};
struct walk_steps {
    const struct walk_row *row;      /* of each place: its classes, and where its steps begin */
    const unsigned char (*map)[256]; /* class of each byte */
    const walk_place *next;          /* of each class, or WALK_UNKNOWN */
};
const struct walk_steps *walk_steps(const struct walk *w);
static inline walk_place walk_peek(const struct walk_steps *s, walk_place at, unsigned char byte)
{
    const struct walk_row r = s->row[at];
    return s->next[r.first + s->map[r.map][byte]];
}

/* Numbers for who makes masks, WALK_UNKNOWN at first; walk_forget forgets them. */
enum { WALK_NOTES = 3 };
uint32_t *walk_notes(struct walk *w, walk_place at);

/* 1: what is kept is large, and the places of all who follow an answer are to be kept over it. */
int walk_is_large(const struct walk *w);
/* Forgets all but PLACES [n], which receive their new numbers. After an error the walk is as it
 * was. */
int walk_forget(struct walk *w, walk_place *const places[], int n, struct err *e);

#endif
