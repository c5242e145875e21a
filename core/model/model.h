/* model.h: a checked model: configuration and views into the mapping, then the same packed for one
 * backend. Owns: the meaning of the tensors' names. Must not know: sequences, sampling, text. */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "core/step/backend.h"
#include "core/model/modelfile.h"

struct model_config {
    char architecture[32];
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context;
    float norm_eps, rope_scale;
    int bos; /* -1: none */
    int n_eos;
    int32_t *eos; /* [n_eos] */
    int *windows; /* [n_layers] */
};

enum { LIN_Q, LIN_K, LIN_V, LIN_O, LIN_GATE, LIN_UP, LIN_DOWN, LIN_COUNT };

struct layer {
    struct linear linear[LIN_COUNT];
    const float *input_norm, *post_norm; /* [dim] */
    const float *q_norm, *k_norm;        /* [head_dim] or both NULL */
};

struct model {
    struct modelfile file;
    struct model_config config;
    struct layer *layers;      /* [n_layers] */
    struct linear embed, head; /* head.weight == embed.weight when tied */
    const float *norm;         /* [dim] */
    const float *inv_freq;     /* [head_dim/2] */
};

/* Opens PATH and checks every shape, dtype, index, zero point and scale that a kernel will use. */
int model_open(struct model *m, const char *path, struct err *e);
void model_close(struct model *m);
/* Largest number of packed inputs of any linear: sizes the backends' scratch. */
int model_max_k(const struct model *m);
/* 4-bit linears; 0 for a model that has none. */
int model_n_quantized(const struct model *m);

#endif
