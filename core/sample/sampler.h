/* sampler.h: from logits to the next token. Owns: what changes logits, truncation, the random
 * stream. Must not know: models, text, other requests.
 *
 * Order, as vLLM documents it: tokens that may not come yet (min_tokens), logit_bias; repetition,
 * then frequency and presence penalties; temperature; min-p relative to the largest probability;
 * top-k; typical (between top-k and top-p, where llama.cpp has it); top-p on what is left; one
 * draw. Probabilities are computed in double.
 *
 * A choice is a function of the logits, the parameters, the tokens so far and (seed, stream,
 * choice, number of the draw): the sampler remembers nothing between two calls, so one serves all
 * sequences. */
#ifndef CORE_SAMPLER_H
#define CORE_SAMPLER_H

#include "core/base/err.h"
#include "core/sample/logits.h"

#include <stddef.h>
#include <stdint.h>

struct sampler_bias {
    int32_t id;
    float value; /* finite, or -INFINITY: never */
};

struct sampler_params {
    double temperature;        /* < 1e-5: the largest logit, lowest id on ties */
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
    const int32_t *stop_ids; /* [n_stop_ids] tokens that end the answer beside EOS; the caller's,
                                inside the vocabulary */
    const struct sampler_bias
        *bias; /* [n_bias] added to logits; the caller's, each id once, inside the vocabulary */
    uint64_t seed;
};

/* What one choice depends on beside the logits. */
struct sampler_context {
    const struct sampler_params *params;
    uint64_t key;                            /* of sampler_key */
    int n_prompt, n_generated, n_eos;        /* n_generated is also the number of the draw */
    const int32_t *prompt, *generated, *eos; /* [n_prompt], [n_generated], [n_eos] */
};

struct sampler_candidate {
    double key;    /* smaller is better */
    double weight; /* exp((logit - largest) / temperature) */
    int32_t id;
    float logit;
};

/* Scratch memory of one vocabulary. */
struct sampler {
    int vocab;
    uint32_t *seen;                       /* [vocab] zero between calls */
    double *block_sum;                    /* [vocab / block, rounded up] */
    struct sampler_candidate *candidates; /* [vocab] */
    struct logits_entry *heap;           /* [vocab] */
};

int sampler_open(struct sampler *s, int vocab, struct err *e);
void sampler_close(struct sampler *s);
/* The random stream of a choice: stream tells apart the requests of one seed. */
uint64_t sampler_key(uint64_t seed, uint64_t stream, uint64_t choice);
/* 1 when sampler_adjust may change logits after so many generated tokens. */
int sampler_adjusts(const struct sampler_params *p, int n_generated);
/* What of the model's own logits a choice takes: the index of the largest; besides, those that are
 * among the n_top largest of all up to them; or all. */
enum sampler_wants { SAMPLER_WANTS_BEST, SAMPLER_WANTS_TOP, SAMPLER_WANTS_LOGITS };
enum sampler_wants sampler_wants(const struct sampler_params *p, int n_generated, int n_top);
/* The steps before the temperature, on logits [vocab]. */
void sampler_adjust(struct sampler *s, const struct sampler_context *c, float *logits);
/* Chooses from adjusted logits [vocab], of which logits_argmax said `best`; where nothing is
 * drawn they are not read. NaN logits are an error: a model that overflows must not look like one
 * that answers. */
int sampler_choose(struct sampler *s, const struct sampler_context *c, const float *logits,
                   int best, int32_t *token, struct err *e);
/* The same, to the bit, from some of them, top [n] in order of ids: where that wants
 * SAMPLER_WANTS_TOP, at least from those. */
int sampler_choose_top(struct sampler *s, const struct sampler_context *c,
                       const struct logits_entry *top, int n, int best, int32_t *token,
                       struct err *e);

#endif
