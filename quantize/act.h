/* act.h: activations as --act int4 takes them: which inputs of a linear are large, and rows rounded
 * before GPTQ sees them. Must not know: where rows come from, weights. */
#ifndef QUANTIZE_ACT_H
#define QUANTIZE_ACT_H

#include "quantize/factor.h"

/* size [n]: square sums of the inputs over all rows, ascending, in double. */
void act_sizes(float *size, int n, const struct input_rows *x, struct pool *p);
/* Every row becomes what its integers stand for: 4 bits in the groups of f, 8 in the last. All rows
 * are taken; x->index is NULL. */
int act_round(const struct input_rows *x, const struct factor *f, struct pool *p, struct err *e);

#endif
