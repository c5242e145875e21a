/* hip_vector.h: operations on rows, one operation a launch: embedding, angles, norm, activations,
 * addition, gathering, argmax, top logits. Must not know: linears. */
#ifndef BACKEND_HIP_HIP_VECTOR_H
#define BACKEND_HIP_HIP_VECTOR_H

#include "backend-hip/hip_plan.h"

void hip_norm(struct hip *h, const struct be_plan *p, int op);
void hip_glu(struct hip *h, const struct be_plan *p, int op);
/* Whether the launches that include other operations know the norm, the activation. */
int hip_norm_is_plain(const struct be_plan *p, int op);
int hip_glu_is_plain(const struct be_plan *p, int op);
void hip_add(struct hip *h, const struct be_plan *p, int op);
void hip_sums(struct hip *h, const struct be_plan *p, int op);
void hip_softcap(struct hip *h, const struct be_plan *p, int op);
void hip_embed(struct hip *h, const struct be_plan *p, int op);
void hip_angles(struct hip *h, const struct be_plan *p, int op);
void hip_gather(struct hip *h, const struct be_plan *p, int op);
void hip_argmax(struct hip *h, const struct be_plan *p, int op);
void hip_top(struct hip *h, const struct be_plan *p, int op);
void hip_score(struct hip *h, const struct be_plan *p, int op);
void hip_sample(struct hip *h, const struct be_plan *p, int op);

#endif
