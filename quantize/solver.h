/* solver.h: GPTQ of one matrix: inputs are rounded one after another in the order of a factor, and
 * what is lost goes to those behind it; or plain rounding. Groups get their scales when they are
 * reached. Must not know: files, layers. */
#ifndef QUANTIZE_SOLVER_H
#define QUANTIZE_SOLVER_H

#include "quantize/factor.h"

struct solver_settings {
    int bits, sym;
    int search;   /* ranges by the least error, not by the largest weight */
    double beta;  /* FOEM (AAAI 2026); 0: not */
    int low_bits; /* of all groups but the last in the order, with `clip`; 0: all have `bits` */
    float clip;   /* without search: the part of their range that codes reach */
};

/* A matrix and what becomes of it: W = scale (code - zero). Owned by the caller of solver_open. */
struct solver_matrix {
    int in, out; /* multiples of 32 */
    int n_groups;
    float *w;            /* [out][in], which the host's rounding changes */
    uint8_t *codes;      /* [in][out] */
    uint16_t *scales;    /* [n_groups][out] F16 */
    uint8_t *zeros;      /* [n_groups][out] */
    double error;        /* with a Hessian: square sum of what the outputs lose on its rows */
    double weight_error; /* square sum of changes of weights over that of the weights */
};

int solver_open(struct solver_matrix *m, int in, int out, int n_groups, struct err *e);
void solver_close(struct solver_matrix *m);
/* Where the factor is; f that is not solved: plain rounding in groups of the order, on the host. */
int solver_run(struct solver_matrix *m, const struct factor *f, const struct solver_settings *s,
               struct pool *p, const struct quantize_kernels *k, struct err *e);

#endif
