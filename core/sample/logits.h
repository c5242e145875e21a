/* logits.h: operations on a row of logits: argmax, top-k search, sum of exponentials (softmax's
 * denominator), exp and log. exp and log are made of basic operations in a fixed order: the C
 * library's differ between processors, and log-probabilities and random choices must not. Must not
 * know: sampling, requests. */
#ifndef CORE_LOGITS_H
#define CORE_LOGITS_H

#include <stdint.h>

/* Index of the largest of logits [n], the lowest on ties; -1 if one is NaN or the largest is
 * infinite. */
int logits_argmax(const float *logits, int n);
/* The same of those whose bit i % 32 of set[i / 32] is set; -1 also if there is none. */
int logits_argmax_in(const float *logits, int n, const uint32_t *set);
/* exp(x) for x <= 0, relative error below 3e-15; exp(-700) below -700. */
double logits_exp(double x);
/* Natural logarithm of a normal x > 0, relative error near 1e-16. */
double logits_log(double x);
/* Sum over logits [n] of exp((logit - max) * scale), scale > 0. */
double logits_sum_exp(const float *logits, int n, double max, double scale);
/* The same bits by the instructions for so many LANES (8, 4 or 2); NAN: this processor lacks them.
 */
double logits_sum_exp_by(int lanes, const float *logits, int n, double max, double scale);
/* Writes the ids [k] of the k largest of logits [n] (0 <= k <= n) in descending order, the lower id
 * first on ties. */
void logits_top(const float *logits, int n, int k, int32_t *id);
/* Writes logits [n] to OUT, -INFINITY where bit i % 32 of set[i / 32] is clear. */
void logits_mask(const float *logits, int n, const uint32_t *set, float *out);

/* Index of the first of logits i .. n-1 that exceeds LOW; n: none. */
int logits_next_above(const float *logits, int i, int n, float low);

#endif
