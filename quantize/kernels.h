/* kernels.h: the loops in which a quantization spends its time, compiled for several sets of
 * instructions. Every sum is a chain of fused multiply-adds in ascending order, so the bits are the
 * same for every set and every number of threads. Must not know: threads, Hessians, formats. */
#ifndef QUANTIZE_KERNELS_H
#define QUANTIZE_KERNELS_H

#include "core/step/gptq.h"

enum {
    TN_COLUMNS = 32,  /* sizes of results are multiples of it */
    LANES_ROWS = 32,  /* outputs of a linear that are quantized together, side by side */
    RANGE_STEPS = 80, /* of the range search: shrunk by 1/100 each time */
};

/* c[i][j] += or -= sum over r of a[r][i] b[r][j] for i < ni, j < nj, r ascending from 0: one chain
 * of fused multiply-adds, then one sum with c. ni, nj: multiples of TN_COLUMNS. */
struct tn_f32 {
    float *c;
    const float *a, *b;
    size_t ldc, lda, ldb;
    int ni, nj, nr;
    int minus;
};
struct tn_f64 {
    double *c;
    const double *a, *b;
    size_t ldc, lda, ldb;
    int ni, nj, nr;
    int minus;
};

/* A group of inputs of LANES_ROWS outputs: w [n][LANES_ROWS]. */
struct range_of {
    const float *w;
    int n, bits, sym;
    int search; /* ranges shrunk by 0 .. RANGE_STEPS - 1 hundredths are tried */
    float clip; /* without it: the part of the range that codes reach; 0: all of it */
};
/* W = scale (code - zero); the scale is a number of F16, inverse = 1 / scale in fp32. */
struct range {
    float scale[LANES_ROWS], inverse[LANES_ROWS], zero[LANES_ROWS], error[LANES_ROWS];
};

/* Inputs first .. first + n - 1 of LANES_ROWS outputs, one after another: each is rounded, and its
 * error goes to those behind it. */
struct round_of {
    float *w;         /* [n][LANES_ROWS] becomes the rounded weights */
    float *e;         /* [n][LANES_ROWS] receives (w - rounded) / u_ii */
    unsigned char *q; /* [n][LANES_ROWS] receives the codes */
    const float *u;   /* [n] columns of TN_COLUMNS, see factor.h: panels [..][n][TN_COLUMNS] */
    const struct range *range;
    const float *raw; /* [n][LANES_ROWS] weights before any change, with beta > 0 */
    float beta;
    int n, from, to, bits; /* this call: from .. to - 1 of the n */
};

struct quantize_kernels {
    const char *name;
    void (*tn_f32)(const struct tn_f32 *t);
    void (*tn_f64)(const struct tn_f64 *t);
    void (*find_range)(const struct range_of *o, struct range *r);
    void (*round_inputs)(const struct round_of *o);
    /* Of a symmetric block g [n][ld], n at most GPTQ_BLOCK: R above its diagonal (R^T R = g), and v
     * [GPTQ_BLOCK][GPTQ_BLOCK] its inverse. 0: the block is not positive definite. */
    int (*diagonal)(double *g, size_t ld, int n, double *v);
};

/* The best for this processor. */
const struct quantize_kernels *quantize_kernels(void);

extern const struct quantize_kernels kernels_plain, kernels_avx2, kernels_avx512;

#endif
