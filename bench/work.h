/* work.h: what the operations of a step must at least read and compute, from shapes alone.
 * Must not know: how anything is computed, how long it takes. */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include "core/model/model.h"

/* The operations of a step, in the order of forward_step. */
enum op {
    OP_BEGIN,
    OP_EMBED,
    OP_NORM,
    OP_QKV,
    OP_ROPE,
    OP_ATTEND,
    OP_O,
    OP_GATE_UP,
    OP_GLU,
    OP_DOWN,
    OP_GATHER,
    OP_HEAD,
    OP_ARGMAX,
    OP_TOP,
    OP_DOWNLOAD,
    OP_SYNC,
    OP_COUNT
};

extern const char *const op_name[OP_COUNT];

/* n_seqs sequences with `rows` new positions each after `depth` old ones; the logits of one row of
 * each are wanted. */
struct step_shape {
    int n_seqs, rows, depth, decode;
};

struct work {
    double weights; /* bytes of weights */
    double kv;      /* bytes of keys and values, read and written */
    double acts; /* bytes of activations, in and out: they stay in the caches and are no part of a
                    floor */
    double fp32; /* fp32 operations: a multiplication and an addition are two */
    double int8; /* the same of integer products */
};

/* One linear on `rows` rows. */
struct work work_linear(const struct linear *w, int rows, enum act act);
/* One call of an operation in layer `layer`; OP_NORM has one of the 2 * n_layers + 1. */
struct work work_call(const struct model *m, enum op op, int layer, const struct step_shape *s,
                      enum act act, enum kv_type kv);
/* All calls of an operation in a step. */
struct work work_step(const struct model *m, enum op op, const struct step_shape *s, enum act act,
                      enum kv_type kv);
/* Operations of the products themselves: the same in every arithmetic. */
double work_products(const struct work *w, enum act act);
/* Bytes of all weights of a model, and parameters. */
void work_model(const struct model *m, double *bytes, double *parameters);

#endif
