/* model.h: an opened model: its configuration and the plan of a step, with views into the mapping.
 * Must not know: backends, sequences, sampling, text. */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "core/model/arch.h"
#include "core/model/modelfile.h"
#include "core/step/act_format.h"

struct model {
    struct modelfile file;
    struct model_config config;
    struct step_plan plan;
    void *made_up; /* weights without a file (bench/shape.c), else NULL */
};

/* Opens PATH and checks every shape, dtype, index, zero point and scale that kernels use. */
int model_open(struct model *m, const char *path, struct err *e);
/* Error: linears of it cannot have these activations. */
int model_check_act(const struct model *m, enum act act, struct err *e);
void model_close(struct model *m);

#endif
