/* hip_args.h: the arguments of kernels (kernels/args.h) from operations, weights and the batch of a
 * step. Owns: nothing; the floor below the operations. Must not know: which kernel runs, launches.
 */
#ifndef BACKEND_HIP_HIP_ARGS_H
#define BACKEND_HIP_HIP_ARGS_H

#include "backend-hip/hip_plan.h"

/* The linear as a part of a launch; first: the part's first block in the grid. */
struct linear_part hip_part_of(const struct be_linear *w, float *d_y, int first);
struct norm_args hip_norm_args(const struct hip *h, const struct be_plan *p, int op);
struct angles_args hip_angles_args(const struct hip *h, const struct be_plan *p, int op);
struct add_args hip_add_args(const struct hip *h, const struct be_plan *p, int op);
struct glu_any_args hip_glu_args(const struct hip *h, const struct be_plan *p, int op);
/* The open pages of KV cache number kv in the step pages of set number `set`; kv -1: none. */
struct open_pages hip_open_pages(const struct hip *h, const struct be_plan *p, int kv, int set);
struct rope_kernel_args hip_rope_args(const struct hip *h, const struct be_plan *p, int op);
/* The arguments for rows from row `row` on. */
struct rope_kernel_args hip_rope_from(const struct rope_kernel_args *all, int row);
struct attend_kernel_args hip_attend_args(const struct hip *h, const struct be_plan *p, int op);
/* Moves the arguments to rows from row `row` on. */
void hip_skip_rows(struct attend_kernel_args *a, size_t row);
/* Has attention rotate and store decode rows. */
void hip_rotate_in(struct attend_kernel_args *a, const struct rope_kernel_args *rope);
struct conv_args hip_conv_args(const struct hip *h, const struct be_plan *p, int op);
struct delta_args hip_delta_args(const struct hip *h, const struct be_plan *p, int op);
struct route_args hip_route_args(const struct be_plan *p, int op);
struct mix_args hip_mix_args(const struct hip *h, const struct be_plan *p, int op);

#endif
