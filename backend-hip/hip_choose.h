/* hip_choose.h: OP_CHOOSE: the positions that rows attend to (kernels/common/choose.hip). */
#ifndef BACKEND_HIP_HIP_CHOOSE_H
#define BACKEND_HIP_HIP_CHOOSE_H

#include "backend-hip/hip_plan.h"

/* Bytes of the scores that a plan needs room for: of as many rows at once as have it in 32 MiB, of
 * one at least. 0: it has no OP_CHOOSE */
size_t hip_choose_bytes(const struct be_config *c, const struct step_plan *p);
/* Error: heads that the kernels do not have. */
int hip_check_choose(const struct heads *g, struct err *e);
void hip_choose(struct hip *h, const struct be_plan *p, int op);

#endif
