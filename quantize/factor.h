/* factor.h: what GPTQ (Frantar et al. 2022) needs of a Hessian H: the order in which inputs are
 * quantized, and the upper triangular U with U^T U = (H + damping)^-1 in that order. In double
 * precision: the inverse comes from the Cholesky factor of H in the reversed order, R^T R, as
 * U[i][j] = (R^-T)[n-1-i][n-1-j]. Sums have one order for every number of threads. Must not know:
 * weights, formats. */
#ifndef QUANTIZE_FACTOR_H
#define QUANTIZE_FACTOR_H

#include "core/step/gptq.h"
#include "quantize/hessian.h"

/* ORDER_GROUP   inputs by their square sums, the largest first, within each group, and the groups
 * by their largest: inputs of a group stay neighbours (GAR, arXiv 2505.14638) ORDER_FULL    all
 * inputs by their square sums; groups are cut from that order ("desc_act") ORDER_NONE    as they
 * as they are
 *
 * ORDER_RISING  all inputs by their sizes, the smallest first; the last group has the largest, the
 * outliers of W4A4. Where the inputs are no multiple of the group, the group before is shorter;
 * where there are no more than a group, all are outliers
 *
 * ORDER_FALLING the same, but the largest first among those before the outliers, and among these */
enum quant_order { ORDER_GROUP, ORDER_FULL, ORDER_NONE, ORDER_RISING, ORDER_FALLING };

struct factor {
    int n;
    enum quant_order kind;
    int group;
    int *order; /* [n] input at a place */
    struct order_group *groups;
    struct order_block *blocks;
    int n_groups, n_blocks;
    uint8_t *dead; /* [n] by place: 1: the input is 0 always */
    int solved;    /* U is there: in u, or on a device, where it stays until the next one */
    struct be *on; /* the device, or NULL */
    float *u;
    double damp; /* part of the mean square sum that was added to the diagonal */
    int failed;  /* no damping made the factorization possible */
};

struct factor_want {
    enum quant_order kind;
    int group;         /* inputs, a multiple of TN_COLUMNS; of the last group it may be fewer */
    double damp;       /* the first to be tried; then twice as much each time, up to 1 */
    const float *size; /* [n] of inputs, for the order; NULL: the Hessian's diagonal */
};

/* hessian NULL: order and groups alone, in the order of the inputs. */
int factor_open(struct factor *f, int n, const struct hessian *h, const struct factor_want *want,
                struct err *e);
/* Finds U, on the device where the sums are. */
int factor_solve(struct factor *f, const struct hessian *h, double damp, struct pool *p,
                 const struct quantize_kernels *k, struct err *e);
void factor_close(struct factor *f);

#endif
