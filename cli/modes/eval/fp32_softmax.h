/* fp32_softmax.h: the denominator of softmax as torch's CPU kernels add it up in fp32 (on
 * processors with AVX-512), which is what lm-evaluation-harness compares: a sum over a vocabulary
 * in 16 lanes loses some of the small terms, about 6e-7 of a token's log-probability, always the
 * same way. Must not know: questions, tokens' texts. */
#ifndef CLI_MODES_EVAL_FP32_SOFTMAX_H
#define CLI_MODES_EVAL_FP32_SOFTMAX_H

/* Of logits [n] with this maximum: the logarithm of the sum of exp(logit - max). */
float fp32_softmax_log_sum(const float *logits, int n, float max);

#endif
