/* masks.h: masks that were found and may be asked for again, of all grammars of a vocabulary. Owns:
 * a fixed amount of memory, in which the mask that was not asked for longest gives way. Threads may
 * ask at once. Must not know: how a mask is found, what places are. */
#ifndef CORE_MASKS_H
#define CORE_MASKS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct masks;
/* Of WORDS words each. */
int masks_open(struct masks **m, size_t words, struct err *e);
void masks_close(struct masks *m);
/* A number that no other owner of masks has. */
uint64_t masks_owner(struct masks *m);
/* 1: the mask of PLACE is copied to bits [words]; its number of tokens, and the lowest one. */
int masks_find(struct masks *m, uint64_t owner, uint32_t place, uint32_t *bits, int *n_allowed,
               int32_t *lowest);
/* Keeps a copy, and counts as masks_count. */
void masks_keep(struct masks *m, uint64_t owner, uint32_t place, const uint32_t *bits,
                int *n_allowed, int32_t *lowest);
/* How many tokens there are in bits [words], and the lowest one, -1: none. */
void masks_count(const uint32_t *bits, size_t words, int *n_allowed, int32_t *lowest);

#endif
