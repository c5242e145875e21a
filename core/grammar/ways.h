/* ways.h: whether some place of a network has more ways to go on than are followed at once, before
 * anything is computed. Must not know: where a text is. */
#ifndef CORE_WAYS_H
#define CORE_WAYS_H

#include "core/grammar/net.h"

/* -1: from one node that ROOT leads to, more than MOST nodes are reached without a byte; counted
 * within bounds of work, and only where nothing but the place decides it. */
int ways_check(const struct net *n, uint32_t root, uint32_t most, struct err *e);

#endif
