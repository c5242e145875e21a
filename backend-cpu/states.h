/* states.h: the interface of the kernels of OP_CONV, OP_DELTA and OP_CHOOSE (core/step/op.h) of a
 * variant. Every variant has the same order of operations (ref excepted), for any number of rows of
 * a task: channels, columns and positions are lanes; sums over t, over dk and over elements and
 * heads ascend from 0 (conv: from a product), fused. */
#ifndef BACKEND_CPU_STATES_H
#define BACKEND_CPU_STATES_H

#include "core/step/op.h"

#include <stddef.h>

enum {
    CONV_CHANNELS = 512, /* channels of one task of OP_CONV */
    CONV_WIDTH = 16,     /* largest width */
    DELTA_COLUMNS = 32,  /* columns of S of one task: [dk][DELTA_COLUMNS] stays in the L1 cache */
};

/* Consecutive rows of one sequence, some channels. */
struct conv_task {
    const float *x;      /* [rows], a row is row_stride floats, channels of them are read */
    float *out;          /* the same shape */
    const float *before; /* [width - 1][CONV_CHANNELS] the rows before the first */
    const float *weight; /* [width][CONV_CHANNELS] */
    const float *bias;   /* [channels] or NULL */
    int row_stride, rows, width, channels;
    int linear; /* no silu */
};

/* One row of the inputs of OP_DELTA for delta_task: of q, k, in1, in2. */
struct delta_inputs {
    int key_heads, value_heads, key_dim;
    int gates, steps; /* delta_decays(), delta_steps() */
    enum delta_rule rule;
    float beta_scale;
    const float *q, *k;        /* [key_heads][key_dim] */
    const float *a, *b;        /* in1, in2: of each value head gates or steps; 1, or b NULL */
    const float *decay, *bias; /* w0 [value_heads]; w1 as a */
    float *unit; /* out, of each key head unit_stride floats apart: [2][key_dim] q and k over their
                    norms, q over sqrt(key_dim); DELTA_SSM and DELTA_SCAN: as they are */
    float *g, *beta; /* out, of each value head [gates], [steps], so many strides apart */
    size_t unit_stride, gate_stride, step_stride;
};

/* Consecutive rows of one sequence, one value head, some columns of its S. */
struct delta_task {
    const float *unit;  /* [rows][2][key_dim] q and k */
    const float *v;     /* [rows][columns], a row is v_stride floats */
    const float *g;     /* [rows][gates] */
    const float *beta;  /* [rows]; DELTA_SCAN: [rows][columns], a row is beta_stride floats */
    const float *decay; /* DELTA_SCAN: w0 [key_dim][DELTA_COLUMNS], 0 beyond `columns` */
    const float *skips; /* DELTA_SCAN: w2 [columns] */
    float *out;         /* [rows][columns], a row is out_stride floats */
    float *s;           /* [key_dim][DELTA_COLUMNS], updated; 0 beyond `columns` */
    int v_stride, out_stride, beta_stride;
    int rows, key_dim, columns;
    enum delta_rule rule;
    float skip; /* w2 of the head */
};

/* Scores of OP_CHOOSE: some rows of one sequence, the positions of one page. */
struct choose_task {
    const float *q, *w; /* [rows][n_heads][head_dim]; [rows][n_heads] */
    const float *keys;  /* [head_dim][KV_PAGE] */
    float *score;       /* [rows][KV_PAGE], a row is `stride` floats */
    size_t stride;
    int rows, n_heads, head_dim;
};

struct state_kernels {
    void (*conv)(const struct conv_task *t);
    void (*delta_prepare)(const struct delta_inputs *t);
    void (*delta)(const struct delta_task *t);
    void (*choose)(const struct choose_task *t);
};

#endif
