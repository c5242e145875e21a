/* hip_linear.h: linears of any number of rows: the choice of their kernels, the preparation of
 * their inputs, their launches. Owns: hip_linear_run of a compiled plan. Must not know: attention,
 * GEMVs. */
#ifndef BACKEND_HIP_HIP_LINEAR_H
#define BACKEND_HIP_HIP_LINEAR_H

#include "backend-hip/hip_plan.h"

/* Chooses the kernels of every run and row class of the plan's linears. 0 or -1. */
int hip_compile_linears(struct hip *h, struct be_plan *p, struct err *e);
/* Launches the linears of an operation. producer: the operation before it whose launch also
 * prepares their input (OP_NORM, OP_GLU, or OP_ATTEND with its combination left); -1: none. */
void hip_linear(struct hip *h, const struct be_plan *p, int op, int producer);
/* Launches the linears of an operation, whose input is prepared. */
void hip_linear_prepared(struct hip *h, const struct be_plan *p, int op);
/* Launches those of a, then those of b (-1: none), if hip_linears_share_input(): as one launch
 * where a kernel for few rows computes both; where b wants the rows in another form, they are
 * prepared again. */
void hip_linears_prepared(struct hip *h, const struct be_plan *p, int a, int b);
/* What a launch needs to prepare the input of the linears of op. */
struct prepare_args hip_prepare_args(const struct hip *h, const struct be_plan *p, int op);
/* Whether the launch of a producer can prepare the input: fp16 activations, one preparation for all
 * linears. */
int hip_can_linear_produced(const struct be_plan *p, int op);
/* Whether linears b read the input that is prepared for linears a, each of one kind of weights. */
int hip_linears_share_input(const struct be_plan *p, int a, int b);
/* Whether a block of hopper/vector_1024.hip can prepare rows of up to so many pieces in the launch
 * of their producer. */
int hip_fits_1024_threads(const struct hip *h, const struct prepare_args *a, int pieces);
/* Whether inputs of bf16 weights are two parts, rounded to nearest, instead of three; whether the
 * inputs of a plain linear are in the parts that hopper/ has for single rows and routers. */
int hip_rounds_parts(const struct hip *h);
int hip_has_f16_parts(const struct hip *h, const struct be_linear *w);
/* Whether a kernel of operation `of` (FOR_LINEAR, FOR_GEMV, FOR_EXPERTS) computes such a linear or
 * stack in rows of this phase. */
int hip_linear_applies(const struct hip *h, enum hip_kernel k, enum kernel_op of,
                       enum linear_phase phase, const struct be_linear *w);
/* The number of linears or stacks of an operation from number i on that one launch computes. */
int hip_n_together(const struct hip *h, const struct be_plan *p, int op, int i);
/* Launches the paper's pinned kernel, which adds to d_sums. */
void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows);

#endif
