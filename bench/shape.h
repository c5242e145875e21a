/* shape.h: a model of given sizes with made-up weights, in memory: speed depends on shapes, not on
 * values. Must not know: files, what is measured. */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

#include "core/model/model.h"

struct shape {
    const char *name;
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context, group;
    const char *architecture; /* NULL: "llama" */
    const char *json;         /* NULL, or more of its opt4gptq.config, as the text of an object */
    int plain;                /* 0, or one of those below */
};

/* Attention, shared expert and head are plain bf16, or 8-bit linears with a scale per 32 inputs, as
 * `--plain 8bit` makes them; or the head alone is such an 8-bit linear; or 4-bit linears have
 * offsets, as those of GGUF files of Q4_1. */
enum { SHAPE_PLAIN = 1, SHAPE_PLAIN_8BIT, SHAPE_HEAD_8BIT, SHAPE_OFFSETS };

/* TinyLlama-1.1B, the six models of the paper's Table 1, mixtures of experts (two with latent
 * attention), and one that is small enough for tests: 4-bit linears of group 128, no biases, plain
 * embedding, router and head. Ends with a NULL name. */
extern const struct shape shapes[];

/* A model without a file: everything but `file` is filled. n_layers 0: as many as the shape has. */
int shape_open(struct model *m, const struct shape *s, int n_layers, struct err *e);
/* The same with weights that are nowhere: for what a run would take. */
int shape_count(struct model *m, const struct shape *s, int n_layers, struct err *e);
/* The shape of this name; the error lists all. */
int shape_find(const char *name, const struct shape **s, struct err *e);
void shape_close(struct model *m);

#endif
