/* shape.h: a model of given sizes with made-up weights, in memory: speed depends on shapes, not on
 * values. Must not know: files, what is measured. */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

#include "core/model/model.h"

struct shape {
    const char *name;
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context, group;
};

/* TinyLlama-1.1B, the six models of the paper's Table 1, and one that is small enough for tests:
 * 4-bit linears of group 128, no biases, fp16 embedding and head. Ends with a NULL name. */
extern const struct shape shapes[];

/* A model without a file: everything but `file` is filled. */
int shape_open(struct model *m, const struct shape *s, struct err *e);
void shape_close(struct model *m);

#endif
