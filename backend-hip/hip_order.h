/* hip_order.h: the plan in the order in which it is launched, and which linear a result feeds.
 * Must not know: kernels, launches. */
#ifndef BACKEND_HIP_HIP_ORDER_H
#define BACKEND_HIP_HIP_ORDER_H

#include "core/step/plan.h"

/* *out is *p, with operations of its own, where the first linears of a shared expert come behind
 * the router, before the choice of experts, if the weights of both are plain: one launch prepares
 * the input of both. Free it by step_plan_free_slice. */
int hip_order(const struct step_plan *p, struct step_plan *out, struct err *e);
/* The first weight of the OP_LINEAR that is the first reader of out[0] of operation op, also where
 * *p is a slice that ends before; NO_WEIGHT: another operation is, or none. */
int hip_first_fed(const struct step_plan *p, int op);

#endif
