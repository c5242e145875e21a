/* regular.h: texts that are in all of some languages and in none of others, for languages whose
 * rules do not name themselves: their places are followed together, and every combination becomes a
 * rule. */
#ifndef CORE_REGULAR_H
#define CORE_REGULAR_H

#include "core/grammar/net.h"
#include "core/grammar/walk.h"

/* The languages of WALK [n_in] without those of WALK [n_in .. n_in + n_out), as an expression of
 * another net. Error: more combinations than the bound, or memory. */
int regular_product(struct net *net, struct walk *const walk[], int n_in, int n_out, net_expr *x,
                    struct err *e);

#endif
