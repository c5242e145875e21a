/* hip_open.h: the arrays of open pages of KV_INT4 in a step. Owns: their sizes and lists. */
#ifndef BACKEND_HIP_HIP_OPEN_H
#define BACKEND_HIP_HIP_OPEN_H

#include "backend-hip/hip_internal.h"

/* Bytes of the step pages of a plan's step set. */
size_t hip_open_set_bytes(const struct be_config *c, const struct step_plan *p);
/* Fills the rows' own pages and the lists of jobs of a step, at most hip_open_ints; returns their
 * number. d_ints: where they will be on the device */
size_t hip_open_ints(const struct be_config *c);
size_t hip_fill_open(struct hip *h, const struct batch *b, int32_t *ints, const int32_t *d_ints);

#endif
