/* hip_fused.h: launches of several operations that are no operation's own: the floor above the
 * operations. hip_can_X() says whether one launch can compute the operations of hip_X(). Must not
 * know: which operations of a plan they are chosen for (hip_patterns.c). */
#ifndef BACKEND_HIP_HIP_FUSED_H
#define BACKEND_HIP_HIP_FUSED_H

#include "backend-hip/hip_plan.h"

/* ---- hip_fused.c: the operation before plain linears prepares their input in split precision */
/* A norm and the linears of op, which follows it or the gather of its rows, and those of `second`,
 * hip_linears_share_input(), -1: none. half: the preparation of the first n_half rows as fp16
 * beside it; n_half 0: none */
int hip_can_norm_parts(const struct hip *h, const struct be_plan *p, int norm, int op);
void hip_norm_parts(struct hip *h, const struct be_plan *p, int norm, int op, int second,
                    const struct prepare_args *half, int n_half);
/* A weighted sum of experts, the addition of a shared expert, a norm and its linears: OP_MIX,
 * OP_ADD, OP_NORM and OP_LINEAR of OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR, and those
 * of `second` as hip_norm_parts() has it. The shared expert is launched before. */
int hip_can_mix_parts(const struct hip *h, const struct be_plan *p, int mix);
void hip_mix_parts(struct hip *h, const struct be_plan *p, int mix, int second);
/* A norm of groups, its gate and linears: OP_NORM, OP_GLU, OP_LINEAR */
int hip_can_gated_parts(const struct hip *h, const struct be_plan *p, int norm);
void hip_gated_parts(struct hip *h, const struct be_plan *p, int norm);
/* A weighted sum of experts, the norm after it and the linears of that: OP_MIX, OP_NORM, OP_LINEAR;
 * sum and norm together where a kernel for so few rows can */
void hip_mix_norm_linear(struct hip *h, const struct be_plan *p, int mix);
/* The delta rule, the norm of its heads and their gate, for sequences of one row: OP_DELTA,
 * OP_NORM, OP_GLU; and with the OP_LINEAR after them where hip_can_gated_parts() */
int hip_can_delta_gated(const struct be_plan *p, int op);
void hip_delta_gated(struct hip *h, const struct be_plan *p, int op);
void hip_delta_gated_linear(struct hip *h, const struct be_plan *p, int op);

/* ---- hip_fused_experts.c: mixtures of experts */
/* Whether the launch of a router's norm can prepare the input of the stacks of op. */
int hip_can_prepare_experts(const struct hip *h, const struct be_plan *p, int op);
/* A norm and the router after it, op, of a single row, which prepare the input of the stacks of
 * `experts`. */
void hip_router(struct hip *h, const struct be_plan *p, int norm, int op, int experts);
/* The choice of experts of a single row and the stacks after it, whose input is prepared: OP_ROUTE,
 * OP_EXPERTS */
void hip_route_experts(struct hip *h, const struct be_plan *p, int op);
/* OP_NORM, OP_LINEAR of a router, perhaps an OP_LINEAR of the same input, OP_ROUTE, OP_EXPERTS: the
 * norm prepares the inputs of the router, of linears that share its input, and of decode rows'
 * experts. */
void hip_norm_route_experts(struct hip *h, const struct be_plan *p, int norm);
/* Stacks with the OP_GLU before them and the OP_MIX after them, for a single row. */
int hip_can_experts_mix(const struct hip *h, const struct be_plan *p, int op);
void hip_experts_mix(struct hip *h, const struct be_plan *p, int op);
/* And with the last linear of a shared expert and its addition, operations op + 3 and op + 4 behind
 * an OP_GLU that fits. */
int hip_can_experts_mix_shared(const struct be_plan *p, int op);
/* Whether the step has so few rows, all of decode, that the launch takes less time than those of
 * its operations: it reads the weights of an expert anew for each row. */
int hip_mixes_rows(const struct hip *h, const struct be_plan *p, int op);
void hip_experts_mix_shared(struct hip *h, const struct be_plan *p, int op);

#endif
