/* hip_step.h: compiling a plan and running it on the batch of a step: entries of the backend's
 * table. Must not know: what an operation launches (hip_patterns.c). */
#ifndef BACKEND_HIP_HIP_STEP_H
#define BACKEND_HIP_HIP_STEP_H

#include "core/step/backend.h"

int hip_step_compile(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                     struct be_plan **out, struct err *e);
void hip_step_drop(struct be *be, struct be_plan *p);
void hip_step_run(struct be *be, const struct be_plan *p);

#endif
