/* hip_scratch.h: scratch memory of an open backend: the arrays of a step, the inputs and partial
 * results of kernels. Owns: their sizes. Must not know: launches. */
#ifndef BACKEND_HIP_HIP_SCRATCH_H
#define BACKEND_HIP_HIP_SCRATCH_H

#include "backend-hip/hip_internal.h"

/* 32-bit words of the arrays of a step: of struct batch, tiles of prompt rows, KV splits. */
size_t hip_batch_ints(const struct be_config *c);
/* Bytes of everything for one plan, before anything is open. */
uint64_t hip_scratch_bytes(const struct be_config *c, const struct step_plan *p);
/* What does not depend on plans. Error: no memory. */
int hip_scratch_open(struct hip *h, struct err *e);
void hip_scratch_close(struct hip *h);
/* Makes the rest large enough for a plan. Error: no memory. */
int hip_reserve(struct hip *h, const struct step_plan *p, struct err *e);

#endif
