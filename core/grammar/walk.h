/* walk.h: places in a network: what may come after a text, found as it is needed and kept. A place
 * is a set of nodes, each with the rules that it returns to. Owns: places, the steps between them,
 * a mask for each. Must not know: notations. One thread at a time. */
#ifndef CORE_WALK_H
#define CORE_WALK_H

#include "core/grammar/net.h"

struct walk;
typedef uint32_t walk_place;
enum { WALK_DEAD, WALK_START };

/* Of the finished NET, which the walk then owns; ROOT is the language. MASK_WORDS is the size of
 * a mask. */
int walk_open(struct walk **w, struct net *net, uint32_t root, size_t mask_words, struct err *e);
void walk_close(struct walk *w);

/* *to: the place after one more byte. -1: memory is short. */
int walk_step(struct walk *w, walk_place at, unsigned char byte, walk_place *to, struct err *e);
/* 1: the text may end here; 1: and no other one goes on. */
int walk_may_end(const struct walk *w, walk_place at);
int walk_must_end(const struct walk *w, walk_place at);

/* What the nodes of a place have in common are the rules below the deepest one that all return to:
 * *inner is the place without these, where a text may end when those rules go on. A place inside
 * a string, say, is the same for all members of an object. AT itself where nothing is in common. */
int walk_inner(struct walk *w, walk_place at, walk_place *inner, struct err *e);

/* Writes a place down so that every net with the same net_common has the same words for it, at most
 * MAX; returns their number, 0: it is of other rules, too, or too long. */
int walk_write_down(const struct walk *w, walk_place at, uint32_t *words, int max);

/* The mask of a place, [mask_words] bits; NULL: none is kept. Stays until walk_forget. */
struct walk_mask {
    uint32_t *bits;
    int n_allowed;
    int32_t lowest;
    /* of an inner place: tokens on whose way the text may end, as places in the sorted order, and
     * bytes that each begins with like the one before it [n_ends] */
    uint32_t *end, *common;
    int n_ends;
};
const struct walk_mask *walk_mask(const struct walk *w, walk_place at, int is_inner);
/* Keeps a copy of the bits, and the lists, which were allocated. */
int walk_keep_mask(struct walk *w, walk_place at, int is_inner, const struct walk_mask *m,
                   struct err *e);

/* 1: what is kept is large, and the places of all who follow an answer are to be kept over it. */
int walk_is_large(const struct walk *w);
/* Forgets all but PLACES [n], which receive their new numbers. After an error the walk is as it
 * was. */
int walk_forget(struct walk *w, walk_place *const places[], int n, struct err *e);

#endif
