/* stepwise.h: a plan that a backend runs operation by operation, with hooks around each: for times,
 * for the inputs of linears (capture.h), and for backends that are wrong in one thing.
 * Owns: the operations as plans of their own. Must not know: what the hooks are for. */
#ifndef CORE_STEPWISE_H
#define CORE_STEPWISE_H

#include "core/step/backend.h"

/* One operation of a plan while it runs. */
struct stepwise_call {
    const struct step_plan *plan;
    const struct plan_memory *memory;
    const struct op *op;
    const struct batch *batch;
    void *self; /* of the hooks */
};

/* Any may be NULL. change: once, when the plan is compiled. before, after: each time. */
struct stepwise_hooks {
    void (*change)(struct op *op);
    void (*before)(struct be *inner, const struct stepwise_call *c);
    void (*after)(struct be *inner, const struct stepwise_call *c);
    void *self;
};

/* inner: an open backend whose functions are *ops. Operations that *ops lacks are not run, but
 * their hooks are called. Nothing is allocated by stepwise_run. The result may stand for the plan
 * that a backend around the inner one compiles. */
int stepwise_compile(struct be *inner, const struct backend *ops,
                     const struct stepwise_hooks *hooks, const struct step_plan *p,
                     const struct plan_memory *m, struct be_plan **out, struct err *e);
void stepwise_drop(struct be *inner, const struct backend *ops, struct be_plan *p);
void stepwise_run(struct be *inner, const struct backend *ops, const struct stepwise_hooks *hooks,
                  const struct be_plan *p, const struct batch *b);
/* Operation i alone, without hooks. */
void stepwise_run_one(struct be *inner, const struct backend *ops, const struct be_plan *p, int i);

#endif
