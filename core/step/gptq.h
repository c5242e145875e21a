/* gptq.h: what a backend may do for a quantizer beside running its plans: sums over rows, the
 * factor of such sums, the rounding of a matrix by it (GPTQ, Frantar et al. 2022), with the bits of
 * the host's loops (quantize/): every sum is a chain of fused multiply-adds in ascending order, and
 * where the host adds up chains, chains are added up. Must not know: which rows, files. */
#ifndef CORE_GPTQ_H
#define CORE_GPTQ_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct be;

enum {
    GPTQ_BLOCK = 128, /* inputs whose errors are passed on together; of a matrix's diagonal */
    GPTQ_CHUNK = 256, /* rows of a chain of sums */
};

/* Neighbours in the order of quantization that share scales. */
struct order_group {
    int first, n; /* places */
    int number;   /* in the checkpoint */
};
/* Whole groups, or GPTQ_BLOCK places of a larger one, whose errors are passed on together. */
struct order_block {
    int first, n;
    size_t at; /* of its rows of U: panels [(inputs - first) / 32][n][32] */
};

/* Rows d_x + index[i] * stride; index NULL: i. Their elements and the stride: multiples of 32. */
struct gptq_rows {
    const float *d_x;
    size_t stride;
    const int64_t *index; /* [n], of the host, or NULL */
    int64_t n;
};

/* A symmetric matrix in another order, whose factor is wanted (quantize/factor.h). */
struct gptq_factor {
    const float *d_sum; /* [n][n], on and above the diagonal */
    const int *order;   /* [n] input at a place */
    int n;
    double add; /* to the diagonal */
    /* Factors the block g [n][ld] in place, and inverts it into v [GPTQ_BLOCK][GPTQ_BLOCK]; 0: it
     * is not positive definite. */
    int (*diagonal)(double *g, size_t ld, int n, double *v);
};

/* A matrix to be rounded in the order of the last factor. */
struct gptq_matrix {
    int in, out; /* multiples of 32 */
    const int *order;
    const uint8_t *dead; /* [in] by place */
    const struct order_group *group;
    const struct order_block *block;
    int n_groups, n_blocks;
    int bits, low_bits; /* of the last group; of the others, 0: the same */
    int sym, search;    /* search: of the groups before the last, where low_bits is not 0 */
    float clip, beta;
    const float *w;   /* [out][in] */
    uint8_t *codes;   /* [in][out] */
    uint16_t *scales; /* [n_groups][out] F16 */
    uint8_t *zeros;   /* [n_groups][out] */
    double *error;    /* [out][3]: square sums of what an output loses, of what its weights lose, of
                         its weights */
};

/* Pointers d_* are the device's, all others the host's. Failures as those of the backend's other
 * calls: the first one is reported by sync. */
struct gptq_ops {
    /* d_sum [n][n] += x x^T, on and above the diagonal. */
    void (*add_rows)(struct be *be, float *d_sum, int n, const struct gptq_rows *x);
    /* diagonal [n] of d_sum [n][n] */
    void (*diagonal)(struct be *be, const float *d_sum, int n, float *diagonal);
    /* The backend keeps the factor until the next call. *done 0: it has none. Error: no memory. */
    int (*factor)(struct be *be, const struct gptq_factor *f, int *done, struct err *e);
    int (*round)(struct be *be, const struct gptq_matrix *m, struct err *e);
};

#endif
