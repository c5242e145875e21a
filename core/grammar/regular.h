/* regular.h: texts that are in all of some languages and in none of others, for languages whose
 * rules do not name themselves: their places are followed together, and every combination becomes a
 * rule. */
#ifndef CORE_REGULAR_H
#define CORE_REGULAR_H

#include "core/grammar/net.h"
#include "core/grammar/walk.h"

/* The languages of WALK [n_in] without those of WALK [n_in .. n_in + n_out), as an expression of
 * another net; LENGTHS (NULL: any) bounds how often a text of them may end in the last one of
 * WALK [n_in]. Error: more combinations than the bound, or memory. */
struct regular_lengths {
    int min, max; /* NET_NO_LIMIT */
};
int regular_product(struct net *net, struct walk *const walk[], int n_in, int n_out,
                    const struct regular_lengths *lengths, net_expr *x, struct err *e);

#endif
