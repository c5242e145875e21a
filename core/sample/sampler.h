/* sampler.h: from logits to the next token. Owns: logits processing, truncation, the random stream.
 * Must not know: models, text, other requests.
 *
 * Order, as vLLM documents it: the mask of a grammar, which is the caller's and leaves forbidden
 * tokens -INFINITY, so that everything below sees the model's distribution over the others alone;
 * allowed tokens, bad words, min_tokens, logit_bias; repetition penalty (Keskar et al. 2019),
 * frequency and presence penalties; temperature; min-p relative to the largest probability (Nguyen
 * et al. 2024); top-k (Fan et al. 2018); locally typical (Meister et al. 2022; between top-k and
 * top-p as in llama.cpp); top-p of the remaining mass (Holtzman et al. 2020); one draw.
 * Tokens weigh whole numbers (weights.h), and one is drawn in order of ids: a choice does not
 * depend on the order in which weights are summed. Also: DRY (dry.h) behind the penalties,
 * top-n-sigma (Tang et al. 2024) behind the temperature, XTC (p-e-w 2024) at the end, Mirostat 2
 * (Basu et al. 2021) in place of all truncation, and any other order of these steps.
 *
 * A choice is a function of the logits, the parameters, the tokens so far and (seed, stream,
 * choice, number of the draw), of Mirostat also of the choices before. The sampler keeps no state
 * between calls, so one serves all sequences; Mirostat's is the caller's. */
#ifndef CORE_SAMPLER_H
#define CORE_SAMPLER_H

#include "core/base/err.h"
#include "core/sample/dry.h"
#include "core/sample/logits.h"

#include <stddef.h>
#include <stdint.h>

struct logits_entry; /* core/step/op.h */
struct batch_sample; /* core/step/batch.h */
struct batch_change;

/* Tokens that must not follow each other: after id[0 .. n-2], at the end of the generated tokens,
 * id[n-1] is forbidden. */
struct sampler_bad {
    const int32_t *id; /* [n], n >= 1, inside the vocabulary */
    int n;
};

struct sampler_bias {
    int32_t id;
    float value; /* finite, or -INFINITY: the token is forbidden */
};

/* The steps of a choice in their default order. allowed, bad, min_tokens and logit_bias come before
 * all. */
enum sampler_step {
    SAMPLER_PENALTIES,
    SAMPLER_DRY,
    SAMPLER_TEMPERATURE,
    SAMPLER_TOP_N_SIGMA,
    SAMPLER_MIN_P,
    SAMPLER_TOP_K,
    SAMPLER_TYPICAL,
    SAMPLER_TOP_P,
    SAMPLER_XTC,
    SAMPLER_STEPS /* their number */
};

struct sampler_params {
    double temperature;        /* < 1e-5: greedy, the lowest id on ties */
    int top_k;                 /* 0: off */
    double top_p;              /* 1: off */
    double min_p;              /* 0: off */
    double typical_p;          /* 1: off */
    double repetition_penalty; /* 1: off; over prompt and generated tokens */
    double presence_penalty;   /* 0: off; over generated tokens */
    double frequency_penalty;  /* 0: off; over generated tokens */
    int penalty_last_n;        /* 0: these penalties look at all tokens; n: at the last n of both */
    struct dry_params dry;
    double top_n_sigma; /* 0: off; keeps logits within so many standard deviations of the largest */
    double xtc_probability, xtc_threshold; /* probability 0: off */
    int mirostat; /* 1: Mirostat 2 truncates; the other truncations are off */
    double mirostat_tau, mirostat_eta;
    /* [n_steps] an enum sampler_step each, none twice; what is missing is off. n_steps 0: the
     * default order */
    int n_steps;
    uint8_t step[SAMPLER_STEPS];
    int min_tokens; /* EOS and stop_ids are forbidden before so many tokens */
    int ignore_eos; /* EOS is an ordinary token (min_tokens still forbids it) */
    int n_stop_ids, n_bias, n_bad;
    /* [n_stop_ids] tokens that end the answer beside EOS; the caller's, inside the vocabulary */
    const int32_t *stop_ids;
    /* [n_bias] added to logits; the caller's, each id once, inside the vocabulary */
    const struct sampler_bias *bias;
    /* the caller's: bit i % 32 of allowed[i / 32] is set where token i may come ([(vocab + 31) / 32]
     * words), NULL: all may; bad [n_bad] */
    const uint32_t *allowed;
    const struct sampler_bad *bad;
    uint64_t seed;
};

/* The inputs of a choice beside the logits. */
struct sampler_context {
    const struct sampler_params *params;
    uint64_t key;                            /* of sampler_key */
    int n_prompt, n_generated, n_eos;        /* n_generated is also the number of the draw */
    const int32_t *prompt, *generated, *eos; /* [n_prompt], [n_generated], [n_eos] */
    /* Mirostat's bound on surprise in bits, written by every choice, from n_generated 0 on; may be
     * NULL without Mirostat */
    double *mu;
    /* [vocab / 32] bit i % 32 of mask[i / 32]: token i may come; NULL: all may. Not where
     * sampler_chains. */
    const uint32_t *mask;
};

struct sampler_candidate {
    double key;      /* smaller is better */
    uint64_t weight; /* weights.h */
    double logit;
    int32_t id;
};

/* Scratch memory for one vocabulary. */
struct sampler {
    int vocab;
    uint32_t *seen;                       /* [vocab] zero between calls */
    uint64_t *block_sum;                  /* [vocab / block, rounded up] */
    uint64_t *class_sum;                  /* [classes of depths] */
    int32_t *depth;                       /* [block] */
    uint64_t *weight;                     /* [block] */
    struct sampler_candidate *candidates; /* [vocab] */
    struct logits_entry *heap;            /* [vocab] */
    float *block;                         /* [block] logits under a mask */
};

int sampler_open(struct sampler *s, int vocab, struct err *e);
void sampler_close(struct sampler *s);
/* The key of a choice's random stream; `stream` distinguishes requests with the same seed. */
uint64_t sampler_key(uint64_t seed, uint64_t stream, uint64_t choice);
/* 1 if sampler_adjust may change logits after n_generated tokens. */
int sampler_adjusts(const struct sampler_params *p, int n_generated);
/* The logits that a choice needs: the argmax only; the n_top largest as well; or all of them. */
enum sampler_wants { SAMPLER_WANTS_BEST, SAMPLER_WANTS_TOP, SAMPLER_WANTS_LOGITS };
enum sampler_wants sampler_wants(const struct sampler_params *p, int n_generated, int n_top);
/* Whether a device has all steps of the choice. */
int sampler_is_for_device(const struct sampler_params *p);
/* Describes the choice for OP_SAMPLE, all but the row (batch.h); changes [room] become those of
 * logits. 0: a device cannot make it (steps in another order, typical, DRY, Mirostat, bad and
 * allowed words), or the changes do not fit. Tokens that are not known yet (negative) are no
 * tokens. */
int sampler_describe(struct sampler *s, const struct sampler_context *c, struct batch_sample *out,
                     struct batch_change *change, int room);
/* 1 if allowed or bad may forbid a token. */
int sampler_forbids(const struct sampler_params *p);
/* Applies to logits [vocab] allowed, bad, min_tokens, logit_bias, and the penalties and DRY where
 * no other step precedes them. */
void sampler_adjust(struct sampler *s, const struct sampler_context *c, float *logits);
/* -1 for the argmax of logits that are not finite (or of which none is allowed). */
int sampler_check(int best, struct err *e);
/* 1 if the steps are taken one after the other, from logits that a mask was applied to. */
int sampler_chains(const struct sampler_params *p);
/* Chooses a token from adjusted logits [vocab]; `best` is their logits_argmax, with a mask that of
 * those it allows. A greedy choice does not read them. best < 0 (NaN) is an error: a model that overflows must not appear to answer. */
int sampler_choose(struct sampler *s, const struct sampler_context *c, const float *logits,
                   int best, int32_t *token, struct err *e);
/* The same choice, to the bit, from top [n] in ascending order of ids, which must contain the
 * logits of SAMPLER_WANTS_TOP and may contain others. */
int sampler_choose_top(struct sampler *s, const struct sampler_context *c,
                       const struct logits_entry *top, int n, int best, int32_t *token,
                       struct err *e);

#endif
