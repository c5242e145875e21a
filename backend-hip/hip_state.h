/* hip_state.h: operations that keep a state of every sequence: the causal convolution and the gated
 * delta rule. */
#ifndef BACKEND_HIP_HIP_STATE_H
#define BACKEND_HIP_HIP_STATE_H

#include "backend-hip/hip_plan.h"

/* Whether the kernels take the operation's sizes. 0 or -1. */
int hip_check_state(const struct op *op, struct err *e);
/* Rows of drafts of a step: their numbers at to [n_seqs][KEPT_INTS], which will be at d. Returns
 * how many ints there are: 0 where no sequence has any, nor right ones. */
size_t hip_fill_kept(struct hip *h, const struct batch *b, int32_t *to, const int32_t *d);
void hip_conv(struct hip *h, const struct be_plan *p, int op);
void hip_delta(struct hip *h, const struct be_plan *p, int op);

#endif
