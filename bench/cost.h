/* cost.h: the cost model: the bytes that the operations of a step must at least read and write, and
 * their arithmetic operations, computed from the plan and the shapes. Must not know: kernels, time.
 */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include "core/model/model.h"
#include "core/step/backend.h"

/* The names of a plan's operations, in the order of their first appearance. */
enum { COST_NAMES = 48 };
struct cost_names {
    int n;
    const char *name[COST_NAMES];
    int first[COST_NAMES]; /* the first operation of this name */
};
void cost_names_of(const struct step_plan *p, struct cost_names *n);
/* The number of a name that is in the list. */
int cost_name(const struct cost_names *n, const char *name);

/* n_seqs sequences, each with `rows` new positions behind `depth` cached ones; the step computes
 * the logits of one row of each sequence. decode: the rows are decode rows. */
struct step_shape {
    int n_seqs, rows, depth, decode;
};

struct cost {
    double weights; /* bytes of weights */
    double kv;      /* bytes of keys, values and states, read and written */
    double acts;    /* bytes of activations, read and written; they fit the processor's caches, so
                       the lower bound of a time leaves them out */
    double fp32;    /* fp32 operations; a fused multiply-add counts as two */
    double int8;    /* int8 operations, counted likewise */
};

/* One linear on `rows` rows. */
struct cost cost_linear(const struct linear *w, int rows, enum act act);
/* One operation of the plan. */
struct cost cost_op(const struct step_plan *p, const struct op *op, const struct step_shape *s,
                    enum act act, enum kv_type kv);
/* All operations of one name in a step. */
struct cost cost_step(const struct step_plan *p, const char *name, const struct step_shape *s,
                      enum act act, enum kv_type kv);
/* Operations of the products in exact arithmetic: the same number for every `act`; two int8 digits
 * count once. */
double cost_products(const struct cost *w, enum act act);
/* Bytes of all weights of a model, and parameters. */
void cost_model(const struct model *m, double *bytes, double *parameters);

#endif
