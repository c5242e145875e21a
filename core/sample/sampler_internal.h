/* sampler_internal.h: declarations shared by sampler.c (logits, the default order and its short
 * ways, the random stream) and chain.c (any order of steps, one after the other). */
#ifndef CORE_SAMPLER_INTERNAL_H
#define CORE_SAMPLER_INTERNAL_H

#include "core/sample/sampler.h"

extern const double sampler_greedy; /* lower temperatures count as 0, as in vLLM */

/* A uniform number in [0, 1) with 53 bits; use 0 draws the token, use 1 decides on XTC. */
double sampler_draw(const struct sampler_context *c, uint64_t use);
/* A total order, so that every selection is unique. */
int sampler_before(const struct sampler_candidate *a, const struct sampler_candidate *b);
double sampler_total(const struct sampler_candidate *c, int n);
/* Moves the smallest set of best candidates with a total weight >= MASS to the front; returns its
 * size, at least 1. */
int sampler_select_mass(struct sampler_candidate *c, int n, double mass);
/* Locally typical sampling (Meister et al. 2022, section 3) over weights exp((logit - max) *
 * scale): orders candidates by the distance of their information from the entropy. A key is minus
 * the logit before and after. */
int sampler_select_typical(struct sampler_candidate *c, int n, double max, double scale,
                           double typical_p);
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
