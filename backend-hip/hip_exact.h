/* hip_exact.h: operations in the CPU's order (--act i16 and int8), but attention (hip_attend.h) and
 * GEMVs (hip_gemv.h). */
#ifndef BACKEND_HIP_HIP_EXACT_H
#define BACKEND_HIP_HIP_EXACT_H

#include "backend-hip/hip_plan.h"

void hip_exact_angles(struct hip *h, const struct be_plan *p, int op);
void hip_exact_norm(struct hip *h, const struct be_plan *p, int op);
void hip_exact_glu(struct hip *h, const struct be_plan *p, int op);
void hip_exact_add(struct hip *h, const struct be_plan *p, int op);
void hip_exact_softcap(struct hip *h, const struct be_plan *p, int op);
/* Whether one launch can compute the operation and quantize its result for the linears or stacks
 * after it. */
int hip_can_exact_norm_quantize(const struct be_plan *p, int norm);
int hip_can_exact_glu_quantize(const struct be_plan *p, int glu);
/* Linears, stacks. producer: the operation before them in the launch that quantizes their input;
 * -1: none */
void hip_exact_linear(struct hip *h, const struct be_plan *p, int op, int producer);
void hip_exact_experts(struct hip *h, const struct be_plan *p, int op, int producer);

#endif
