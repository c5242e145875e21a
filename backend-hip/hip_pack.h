/* hip_pack.h: linears on the device. Owns: the choice of their layout. Must not know: launches of
 * linears. */
#ifndef BACKEND_HIP_HIP_PACK_H
#define BACKEND_HIP_HIP_PACK_H

#include "backend-hip/hip_internal.h"

uint64_t hip_packed_bytes(const struct linear *w);
int hip_pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e);
/* Makes the maps of a linear's weights again, which are elsewhere now. */
void hip_make_maps(struct hip *h, struct be_linear *l);
void hip_drop(struct be *be, struct be_linear *w);

#endif
