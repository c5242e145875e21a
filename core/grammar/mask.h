/* mask.h: which tokens of a vocabulary can be read from a place: those after which the place is not
 * dead. Must not know: grammars, what is kept but by masks.h. */
#ifndef CORE_MASK_H
#define CORE_MASK_H

#include "core/grammar/choice.h"
#include "core/grammar/vocab.h"
#include "core/grammar/walk.h"

struct mask_maker {
    struct walk *walk;
    const struct vocab *vocab;
    uint64_t owner;           /* of masks of this walk (masks.h) */
    walk_place *path, *other; /* [vocab_longest + 1] scratch */
};

/* Writes bits [(vocab_n + 31) / 32]: bit id % 32 of bits[id / 32]. */
int mask_of(struct mask_maker *m, walk_place at, uint32_t *bits, struct err *e);
void mask_of_choice(const struct choice *c, uint32_t at, const struct vocab *v, uint32_t *path,
                    uint32_t *bits);

#endif
