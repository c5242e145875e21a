/* hip_gemv.h: linears of a single decode row, with the operations around them. */
#ifndef BACKEND_HIP_HIP_GEMV_H
#define BACKEND_HIP_HIP_GEMV_H

#include "backend-hip/hip_plan.h"

/* ---- hip_gemv.c */
/* Which GEMV kernels can compute the operation's linears. */
enum hip_gemv hip_gemv_of(const struct hip *h, const struct be_plan *p, int op);
/* Operations of a launch of linear_gemv.hip or exact_gemv.hip; -1: none. */
struct hip_gemv_ops {
    int linear, norm, glu;
    int attend; /* whose KV splits the launch combines (hip_gemv_combines, hip_exact_combines) */
};
void hip_gemv(struct hip *h, const struct be_plan *p, const struct hip_gemv_ops *of);
/* The parts and blocks of l, of which n_parts is set and n_blocks 0; with glu the blocks of the
 * first part alone. 1: the result goes to the residual, and part[0].y is that. */
int hip_gemv_parts(const struct be_plan *p, int op, int glu, struct linear_args *l);
int hip_gemv_combines(const struct hip *h, const struct be_plan *p, int attend);

/* A launch of dense_gemv.hip: the linears of one or two operations of one input, and the operations
 * around them, -1: none. */
struct hip_dense_gemv {
    int op, n; /* the first OP_LINEAR, number */
    int norm;
    int glu, add; /* of the result */
    int experts;  /* the OP_EXPERTS whose input the norm prepares */
    int gates;    /* the OP_GLU of the input */
    int conv;     /* the OP_CONV of the first result; hip_can_dense_conv() */
};

/* Whether one launch can compute n OP_LINEARs from op on. */
int hip_can_dense_gemv(const struct be_plan *p, int op, int n);
/* Whether it can add their result as operation add has it. */
int hip_can_dense_add(const struct be_plan *p, int op, int add);
/* Whether it can include operation conv of its first result, in the launch of n OP_LINEARs from op
 * on. */
int hip_can_dense_conv(const struct be_plan *p, int op, int n, int conv);
void hip_dense_gemv(struct hip *h, const struct be_plan *p, const struct hip_dense_gemv *of);

/* ---- hip_exact_gemv.c */
/* Whether a GEMV can compute the operation's linears of a single decode row in the CPU's order;
 * whether it can combine the chunks of the attention before them; the launch. */
int hip_exact_is_gemv(const struct hip *h, const struct be_plan *p, int op);
int hip_exact_combines(const struct hip *h, const struct be_plan *p, int attend);
void hip_exact_gemv(struct hip *h, const struct be_plan *p, const struct hip_gemv_ops *of);

#endif
