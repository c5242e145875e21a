/* hip_pending.h: an operation whose launch waits for the next one: when that is a linear that reads
 * its result, one launch does this and prepares the linear's input; attend rotates queries itself,
 * and keys of generated rows. */
#ifndef BACKEND_HIP_HIP_PENDING_H
#define BACKEND_HIP_HIP_PENDING_H

#include "backend-hip/hip_kernels.h"

struct hip;

struct hip_pending {
    enum hip_kernel kernel; /* by itself; K_COUNT: nothing waits */
    const float *out;       /* [rows][dim] */
    int rows, dim;
    struct norm_args norm;
    struct glu_args glu; /* n: of all rows */
    struct merge_args merge;
    struct rope_kernel_args rope; /* for attend, of all rows */
    struct one_row_args one;
};

/* Launches what waits, by itself. */
void hip_settle(struct hip *h);
/* The same, and issues the launches so far. */
void hip_settle_and_flush(struct hip *h);
/* Lets an operation wait whose result is out [rows][dim]. */
struct hip_pending *hip_wait_for_next(struct hip *h, enum hip_kernel k, const float *out, int rows,
                                      int dim);

#endif
