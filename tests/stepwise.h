/* stepwise.h: a plan that another backend runs operation by operation, with hooks around each: what
 * a backend that is wrong in one thing would do, without touching the backend. Must not know: what
 * the hooks are for. */
#ifndef TESTS_STEPWISE_H
#define TESTS_STEPWISE_H

#include "core/step/backend.h"

/* One operation of a plan while it runs. */
struct stepwise_call {
    const struct step_plan *plan;
    const struct plan_memory *memory;
    const struct op *op;
    const struct batch *batch;
};

/* Any may be NULL. change: once, when the plan is compiled. before, after: each time. */
struct stepwise_hooks {
    void (*change)(struct op *op);
    void (*before)(struct be *inner, const struct stepwise_call *c);
    void (*after)(struct be *inner, const struct stepwise_call *c);
};

/* inner: an open backend whose functions are *ops. Operations that *ops lacks are not run, but
 * their hooks are called. Nothing is allocated by stepwise_run. */
int stepwise_compile(struct be *inner, const struct backend *ops,
                     const struct stepwise_hooks *hooks, const struct step_plan *p,
                     const struct plan_memory *m, struct be_plan **out, struct err *e);
void stepwise_drop(struct be *inner, const struct backend *ops, struct be_plan *p);
void stepwise_run(struct be *inner, const struct backend *ops, const struct stepwise_hooks *hooks,
                  const struct be_plan *p, const struct batch *b);

#endif
