/* softmax.h: a row of logits as a distribution: its largest values, the sum of its exponentials.
 * Own exp and log, from basic operations in a fixed order: the C library picks other code on other
 * processors, and log-probabilities and random choices must not depend on that. Must not know:
 * sampling, requests. */
#ifndef CORE_SOFTMAX_H
#define CORE_SOFTMAX_H

#include <stdint.h>

/* Index of the largest of logits [n], the lowest on ties; -1 when one is NaN or the largest is not
 * finite. */
int logits_argmax(const float *logits, int n);
/* exp(x) for x <= 0, relative error below 3e-15; below -700 it is that of -700. */
double logits_exp(double x);
/* Natural logarithm of a normal x > 0, relative error near 1e-16. */
double logits_log(double x);
/* Sum over logits [n] of exp((logit - max) * scale), scale > 0. */
double logits_sum_exp(const float *logits, int n, double max, double scale);
/* A logit and whose it is. */
struct logits_entry {
    float value;
    int32_t id;
};
/* Ids of the k largest of logits [n] (0 <= k <= n) in falling order, the lower id first on ties. */
void logits_top(const float *logits, int n, int k, int32_t *id);

/* The first of logits i .. n-1 that is larger than LOW; n: there is none. */
int logits_next_above(const float *logits, int i, int n, float low);

#endif
