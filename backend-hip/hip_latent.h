/* hip_latent.h: latent heads (core/step/op.h): pages, rotation and storage, attention. */
#ifndef BACKEND_HIP_HIP_LATENT_H
#define BACKEND_HIP_HIP_LATENT_H

#include "backend-hip/hip_plan.h"

size_t hip_latent_page_bytes(enum kv_type t, const struct kv_cache *kv);
/* Error: sizes that the kernels do not have. */
int hip_check_latent(const struct heads *g, struct err *e);
/* OP_ROPE_STORE and OP_ATTEND of latent heads. */
void hip_latent_rope(struct hip *h, const struct be_plan *p, int op);
void hip_latent_attend(struct hip *h, const struct be_plan *p, int op);

#endif
