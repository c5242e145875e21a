/* sampler.h: from logits to the next token.
 * Owns: penalties, truncation, the random stream. Must not know: models, text, other requests.
 *
 * Order (vLLM's): repetition, frequency and presence penalties on the logits; temperature; min-p relative to the
 * largest probability; top-k; top-p on what is left; one draw. Probabilities are computed in double.
 * The random stream is a function of (seed, stream, number of the draw) and of nothing else. */
#ifndef CORE_SAMPLER_H
#define CORE_SAMPLER_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

struct sampler_bias {
    int32_t id;
    float value; /* finite, or -INFINITY: never */
};

struct sampler_params {
    double temperature;        /* <= 0: the largest logit, lowest id on ties */
    int top_k;                 /* 0: off */
    double top_p;              /* 1: off */
    double min_p;              /* 0: off */
    double typical_p;          /* 1: off */
    double repetition_penalty; /* 1: off; over prompt and generated tokens */
    double presence_penalty;   /* 0: off; over generated tokens */
    double frequency_penalty;  /* 0: off; over generated tokens */
    int min_tokens;            /* EOS and stop_ids cannot be chosen before so many tokens */
    int ignore_eos;            /* EOS is a token like others (min_tokens still holds it back) */
    int n_stop_ids, n_bias;
    const int32_t *stop_ids;         /* [n_stop_ids] tokens that end the answer beside EOS; the caller's, inside the vocabulary */
    const struct sampler_bias *bias; /* [n_bias] added to logits; the caller's, each id once, inside the vocabulary */
    uint64_t seed;
};

struct sampler_candidate {
    double weight; /* first the logit, then exp(logit - largest) */
    int32_t id;
};

struct sampler {
    struct sampler_params params;
    int vocab;
    uint64_t key, n_draws;
    uint32_t *n_generated;                /* [vocab] times generated */
    uint8_t *in_prompt;                   /* [vocab] */
    struct sampler_candidate *candidates; /* [vocab] */
};

/* stream tells apart the requests of one run (a line's number, a choice's index). */
int sampler_open(struct sampler *s, const struct sampler_params *p, int vocab, uint64_t stream, struct err *e);
void sampler_close(struct sampler *s);
/* The prompt, for the repetition penalty. */
void sampler_see_prompt(struct sampler *s, const int32_t *token, size_t n);
/* Chooses from logits [vocab] (changed by the penalties) and counts the choice. NaN logits are an error: a model
 * that overflows must not look like one that answers. */
int sampler_next(struct sampler *s, float *logits, int32_t *token, struct err *e);

#endif
