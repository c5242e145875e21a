/* args_gptq.h: arguments of the kernels of gptq.hip (core/step/gptq.h). */
#ifndef KERNELS_COMMON_ARGS_GPTQ_H
#define KERNELS_COMMON_ARGS_GPTQ_H

/* Tiles of results of a block, rows of operands at a time. */
enum { GPTQ_TILE = 128, GPTQ_TILE_WIDE = 256, GPTQ_TILE_64 = 64, GPTQ_ROWS = 16, GPTQ_STEP = 16 };
/* Outputs of a block: that chooses ranges, with the threads of each; that rounds. */
enum { GPTQ_RANGE_ROWS = 16, GPTQ_RANGE_LANES = 16, GPTQ_ROUND_ROWS = 64, GPTQ_AT_ONCE = 8 };
enum { GPTQ_RANGE_STEPS = 80, GPTQ_PLACES = 128 };

/* c[i][j] += or -= chains of a[r][i] b[r][j], of `chunk` rows each; rows index[r], or r. upper:
 * tiles below the diagonal are left out. */
struct gptq_product_args {
    float *c;
    const float *a, *b;
    const long long *index;
    unsigned long long ldc, lda, ldb;
    long long nr;
    int ni, nj, chunk, minus, upper;
};

/* The same in double, of one chain. set: c is 0 before. c may be b where ni is at most a tile. */
struct gptq_product_64_args {
    double *c;
    const double *a, *b;
    unsigned long long ldc, lda, ldb;
    int ni, nj, nr, minus, set, upper;
};

/* g[i][j], j >= i: the sums in reversed order, `add` more on the diagonal. */
struct gptq_matrix_args {
    double *g;
    const float *sum;
    const int *order;
    unsigned long long ld;
    double add;
    int n;
};

/* to[i][j] = from[i][j] of n x n, rows of GPTQ_PLACES. */
struct gptq_corner_args {
    double *to;
    const double *from;
    unsigned long long ld;
    int n;
};

/* u [n][n] of the matrix g, whose diagonal blocks are transposed in inverse. */
struct gptq_factor_args {
    float *u;
    const double *g, *inverse;
    unsigned long long ld;
    int n;
};

/* to[i] = sum[i][i] */
struct gptq_diagonal_args {
    float *to;
    const float *sum;
    int n;
};

/* A matrix [in][out] by places from w [out][in], and back. */
struct gptq_places_args {
    const float *w;
    float *places;
    const float *raw; /* places before any change */
    const int *order;
    const unsigned char *dead, *q; /* q [in][out] codes by place */
    unsigned char *codes;          /* [in][out] by input */
    double *error;                 /* [out][3] */
    int in, out;
};

/* Ranges of a group of n places. */
struct gptq_range_args {
    const float *w; /* [n][out] */
    float *scale, *inverse, *zero;
    unsigned short *scales; /* F16 */
    unsigned char *zeros;
    float clip;
    int n, out, bits, sym, search;
};

/* Places from .. to - 1 of a block of n. */
struct gptq_round_args {
    float *w;         /* [n][out] */
    const float *raw; /* the same before any change */
    float *e;         /* [n][out] */
    unsigned char *q; /* [n][out] */
    const float *u;   /* [n] rows of ldu */
    const float *scale, *inverse, *zero;
    double *error; /* [out][3] */
    unsigned long long ldu;
    float beta;
    int n, from, to, out, bits;
};

#endif
