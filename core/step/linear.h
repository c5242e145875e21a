/* linear.h: the weights of a linear in the layout of the model file (FORMAT in modelfile.h).
 * Must not know: their source, the layouts of backends. */
#ifndef CORE_LINEAR_H
#define CORE_LINEAR_H

#include "core/base/dtype.h"
#include "core/base/err.h"

#include <stdint.h>

/* Largest number of inputs, outputs or rows of any tensor, so that the product of two stays below
 * 2^62 and every index fits an int. */
enum { MODEL_MAX_SIZE = 1 << 24 };

/* y = W x + bias. codes != NULL: 4-bit, W = scale (code - zero); else `weight` is W. A stack of n
 * linears: every array has one more leading dimension [n]. Pairs: groups 2i and 2i + 1 are the high
 * and the low halves of the same inputs' codes of 8 bits, W = low scale (16 high + low - 128).
 * Outliers: the last two groups are such halves, the others are groups of 4 bits with the zero
 * point 8. */
struct linear {
    int in, out;
    int stack; /* 0: one linear; n: a stack of n */
    int pitch; /* of a stack: outputs from one linear's arrays to the next one's, 0: out */
    int k, group, n_groups; /* 4-bit: packed inputs, k = group * n_groups; else k = in */
    int pairs;              /* all groups are pairs */
    int outliers;           /* the last two groups are a pair, the others groups of 4 bits */
    int in_order;         /* of both kinds: input j of the layer is number j, pairs counted once */
    int one_perm;         /* a stack whose linears have equal perm */
    const uint8_t *codes; /* [ceil(out/16)][k/8][16][4] or NULL */
    const void *scales;   /* [ceil(out/16)][n_groups][16] of scale_type F16 | F32 */
    const uint8_t *zeros; /* [ceil(out/16)][n_groups][16], 0..16 */
    const int32_t *perm;  /* [k] or NULL: packed input j is x[perm[j]], -1 gives 0 */
    const void *weight;   /* [out][in] of weight_type F16 | BF16 | F32, when codes is NULL */
    const float *bias;    /* [out] or NULL */
    enum dtype scale_type, weight_type;
};

/* Number i of a stack, or the linear itself. */
struct linear linear_of_stack(const struct linear *w, int i);

/* Bytes of the model file that a linear or stack is. */
uint64_t linear_bytes(const struct linear *w);

/* The linear or stack of n outputs from `first` on: a view. first, n: multiples of 16, but for n up
 * to the last output. */
struct linear linear_rows(const struct linear *w, int first, int n);
/* *out is the stack with its linears one behind the other, but for perm, in one block that *memory
 * receives, to be freed by the caller. */
int linear_close_up(const struct linear *w, struct linear *out, void **memory, struct err *e);

/* Sets w->pairs, w->outliers, w->in_order and w->one_perm. The two groups of a pair have the same
 * inputs, and each output scales 16 : 1 and the zero points 8 and 0. */
void linear_find_pairs(struct linear *w);

/* Inputs of the packed order before the pair of a linear with outliers; without it 0. */
static inline int linear_low(const struct linear *w)
{
    return w->outliers ? w->k - 2 * w->group : 0;
}

#endif
