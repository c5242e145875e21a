/* weights.h: what a token weighs in a draw, in whole numbers: sums of weights are exact, so that a
 * selection and a draw are the same in whatever order and by however many threads they are
 * computed, on a CPU and on a GPU. Must not know: sampling, requests.
 *
 * The depth of a token is how far its logit lies below the largest one, over the temperature, in
 * nats of 2^26: (int32) min((max - logit) * scale, WEIGHTS_DEEPEST), fp32 operations, cut off. Its
 * weight is 2^44 e^-depth: 2^-n of the whole part n of depth / ln 2, and a polynomial of degree 7
 * for the rest: a relative error below 2^-28, and less than 1 is cut off; 0 from 30.5 nats on. */
#ifndef CORE_WEIGHTS_H
#define CORE_WEIGHTS_H

#include <stdint.h>

enum { WEIGHTS_NAT = 1 << 26, WEIGHTS_DEEPEST = 2147483520 /* an fp32 number */ };

/* WEIGHTS_NAT / temperature */
static inline float weights_scale(double temperature)
{
    double scale = WEIGHTS_NAT / temperature;
    return scale < 3e38 ? (float)scale : 3e38f;
}

static inline int32_t weights_depth(float logit, float max, float scale)
{
    float y = (max - logit) * scale;
    return (int32_t)(y < (float)WEIGHTS_DEEPEST ? y : (float)WEIGHTS_DEEPEST);
}

/* How the logits of a row weigh. */
struct weighing {
    float max, scale; /* the largest logit, weights_scale */
    int32_t most;     /* what is deeper weighs nothing */
};

uint64_t weights_of(int32_t depth);
/* Of logits [n]: writes depth [n], WEIGHTS_DEEPEST of what weighs nothing, and weight [n]; returns
 * the sum of weights. */
uint64_t weights_row(const float *logits, int n, const struct weighing *w, int32_t *depth,
                     uint64_t *weight);
/* The same by the instructions for so many LANES (8, 4 or 1); -1: this processor lacks them. */
int weights_row_by(int lanes, const float *logits, int n, const struct weighing *w, int32_t *depth,
                   uint64_t *weight);

#endif
