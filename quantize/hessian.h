/* hessian.h: sums x x^T over the inputs of a linear. Chunks of rows and tiles of results have fixed
 * places, so the sums are the same for every number of threads: fp32, in a chunk of HESSIAN_ROWS
 * rows one chain of fused multiply-adds for each element, then one sum with the chunks before; the
 * error of an element is at most (HESSIAN_ROWS + chunks) 2^-24 of the sum of |x_i x_j|.
 * Must not know: where inputs come from, what becomes of the sums. */
#ifndef QUANTIZE_HESSIAN_H
#define QUANTIZE_HESSIAN_H

#include "core/base/err.h"
#include "core/base/pool.h"
#include "core/step/backend.h"
#include "quantize/kernels.h"

#include <stdint.h>

enum { HESSIAN_ROWS = GPTQ_CHUNK, HESSIAN_TILE = 128 };

/* Rows x + index[i] * stride; index NULL: i. x is the device's where the sums are. */
struct input_rows {
    const float *x;
    size_t stride;
    const int64_t *index; /* [n] or NULL */
    int64_t n;
};

struct hessian {
    int n;         /* inputs, a multiple of TN_COLUMNS */
    struct be *on; /* a backend whose memory has the sums, or NULL: */
    float *sum;    /* [n][n], the tiles on and above the diagonal */
    float *packed; /* [n / TN_COLUMNS][HESSIAN_ROWS][TN_COLUMNS] a chunk of rows */
    float *d_sum;
    float *diagonal; /* [n] */
    int64_t rows;    /* summed so far */
};

/* All zeros. on: an open backend with gptq, or NULL. */
int hessian_open(struct hessian *h, int n, struct be *on, struct err *e);
void hessian_close(struct hessian *h);
/* Opens it anew, all zeros. */
int hessian_clear(struct hessian *h, struct err *e);
void hessian_add(struct hessian *h, const struct input_rows *x, struct pool *p,
                 const struct quantize_kernels *k);
/* 0: an input was NaN or infinite, or too large for its square. */
int hessian_is_finite(const struct hessian *h);

#endif
