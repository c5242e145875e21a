/* hf_config.h: the architecture and its parameters, from config.json. Owns: supported
 * architectures, aliases and defaults of their keys, sliding windows, RoPE tables. Must not know:
 * quantization, tensors. */
#ifndef CONVERT_HF_CONFIG_H
#define CONVERT_HF_CONFIG_H

#include "convert/notes.h"
#include "core/base/err.h"

#include <jansson.h>

struct hf_config {
    const char *architecture; /* "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3" */
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context;
    int tied;              /* the embedding is also the head (lm_head) */
    int gemma;             /* of that kind: what the fields of the second half say */
    int qkv_bias, qk_norm; /* the architecture always has q, k, v biases; norms of q and k */
    double norm_eps, rope_scale;
    char rope[160];  /* description, for messages */
    float *inv_freq; /* [head_dim/2] */
    int *windows;    /* [n_layers], 0 = none */
    int bos;         /* -1 = none */
    int *eos;        /* [n_eos] */
    size_t n_eos;
    /* Gemma: */
    float *sliding_inv_freq; /* [head_dim/2] of layers with a window */
    double embed_scale, attend_scale, attend_softcap, logits_softcap; /* softcaps 0: none */
};

/* Reads CONFIG (config.json) and GENERATION (generation_config.json or NULL). Messages begin with
 * "config.json: ". */
int hfc_read(struct hf_config *c, const json_t *config, const json_t *generation,
             const struct notes *n, struct err *e);
void hfc_free(struct hf_config *c);
/* The metadata string "opt4gptq.config" (core/model/modelfile.h) as an object. */
json_t *hfc_to_json(const struct hf_config *c);

/* Computes inv_freq, rope_scale, rope and (dynamic scaling) context from rope_theta, rope_scaling
 * or rope_parameters. head_dim and context must be set. In rope.c. */
int hfc_rope(struct hf_config *c, const json_t *config, const struct notes *n, struct err *e);

#endif
