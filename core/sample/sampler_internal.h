/* sampler_internal.h: declarations shared by sampler.c (logits, the default order and its short
 * ways, the random stream) and chain.c (any order of steps, one after the other). */
#ifndef CORE_SAMPLER_INTERNAL_H
#define CORE_SAMPLER_INTERNAL_H

#include "core/sample/sampler.h"

extern const double sampler_greedy; /* lower temperatures count as 0, as in vLLM */

/* A uniform number of 53 bits; use 0 draws the token, use 1 decides on XTC. */
uint64_t sampler_bits(const struct sampler_context *c, uint64_t use);
/* The place of the draw among `total` weights, 0 .. total - 1. */
uint64_t sampler_target(const struct sampler_context *c, uint64_t total);
/* A share of the weights, at least 1. */
uint64_t sampler_mass(double share, uint64_t total);
/* The depth of the least likely token that min-p keeps. */
int32_t sampler_most_depth(const struct sampler_params *p);
/* A total order, so that every selection is unique. */
int sampler_before(const struct sampler_candidate *a, const struct sampler_candidate *b);
uint64_t sampler_total(const struct sampler_candidate *c, int n);
/* Moves the smallest set of best candidates with a total weight >= MASS to the front; returns its
 * size, at least 1. */
int sampler_select_mass(struct sampler_candidate *c, int n, uint64_t mass);
/* Moves the k best candidates to the front; returns their number. */
int sampler_select_best(struct sampler_candidate *c, int n, int k);
/* Locally typical sampling (Meister et al. 2022, section 3) over weights exp((logit - max) *
 * scale): orders candidates by the distance of their information from the entropy. A key is minus
 * the logit before and after. */
int sampler_select_typical(struct sampler_candidate *c, int n, double max, double scale,
                           double typical_p);
#define SAMPLER_IN_PROMPT (1u << 31)
/* The tokens that the penalties look at: prompt [n] and generated [m]. */
void sampler_penalized_tokens(const struct sampler_context *c, const int32_t **prompt, int *n,
                              const int32_t **generated, int *m);
/* Counts in s->seen the tokens that the penalties look at. */
void sampler_count(struct sampler *s, const struct sampler_context *c);
/* The penalized logit of a token that was counted so. */
float sampler_penalized(const struct sampler_params *p, uint32_t seen, float logit);
/* Clears what sampler_count wrote; before that, with logits [vocab] not NULL, penalizes them. */
void sampler_uncount(struct sampler *s, const struct sampler_context *c, float *logits);
struct dry_history sampler_history(const struct sampler_context *c);
/* Whether the step is asked for and would do anything. */
int sampler_penalizes(const struct sampler_params *p);

/* The steps that are asked for, in their order; returns their number. */
int sampler_steps(const struct sampler_params *p, const uint8_t **step);
/* How many of them sampler_adjust applies. */
int sampler_n_leading(const struct sampler_params *p);
/* Chooses from adjusted logits by all further steps. */
int32_t chain_choose(struct sampler *s, const struct sampler_context *c, const float *logits);

#endif
