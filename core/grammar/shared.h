/* shared.h: masks that several grammars of a vocabulary have in common: of places within JSON's own
 * rules. Owns: the masks, until the vocabulary closes; they never change. Threads may ask at once.
 * Must not know: how a place is written down. */
#ifndef CORE_SHARED_H
#define CORE_SHARED_H

#include "core/grammar/walk.h"

struct shared_masks;
int shared_open(struct shared_masks **s, struct err *e);
void shared_close(struct shared_masks *s);
/* The mask of the place KEY [words]; NULL: not there. */
const struct walk_mask *shared_find(struct shared_masks *s, const uint32_t *key, int words);
/* Keeps M, whose arrays it owns from now on, also after an error; *kept is it, or one that was
 * there. */
int shared_keep(struct shared_masks *s, const uint32_t *key, int words, const struct walk_mask *m,
                const struct walk_mask **kept, struct err *e);

#endif
