/* work.h: what the operations of a step must at least read and compute, from shapes alone: the cost
 * model. Walks the plan of a model. Must not know: how anything is computed, how long it takes. */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include "core/model/model.h"
#include "core/step/backend.h"

/* The names of a plan's operations, in the order of their first appearance. */
enum { WORK_NAMES = 48 };
struct work_names {
    int n;
    const char *name[WORK_NAMES];
    int first[WORK_NAMES]; /* the first operation of this name */
};
void work_names_of(const struct step_plan *p, struct work_names *n);
/* The number of a name that is in the list. */
int work_name(const struct work_names *n, const char *name);

/* n_seqs sequences with `rows` new positions each after `depth` old ones; the logits of one row of
 * each are wanted. */
struct step_shape {
    int n_seqs, rows, depth, decode;
};

struct work {
    double weights; /* bytes of weights */
    double kv;      /* bytes of keys and values, read and written */
    double acts;    /* bytes of activations, in and out: they stay in the caches and are no part of a
                       floor */
    double fp32;    /* fp32 operations: a multiplication and an addition are two */
    double int8;    /* the same of integer products */
};

/* One linear on `rows` rows. */
struct work work_linear(const struct linear *w, int rows, enum act act);
/* One operation of the plan. */
struct work work_op(const struct step_plan *p, const struct op *op, const struct step_shape *s,
                    enum act act, enum kv_type kv);
/* All operations of one name in a step. */
struct work work_step(const struct step_plan *p, const char *name, const struct step_shape *s,
                      enum act act, enum kv_type kv);
/* Operations of the products themselves: the same in every arithmetic. */
double work_products(const struct work *w, enum act act);
/* Bytes of all weights of a model, and parameters. */
void work_model(const struct model *m, double *bytes, double *parameters);

#endif
