/* gen_config.h: sampling defaults from a checkpoint's generation_config.json. */
#ifndef CORE_GEN_CONFIG_H
#define CORE_GEN_CONFIG_H

#include "core/model/modelfile.h"
#include "core/sample/sampler.h"

/* Overwrites temperature, top_k, top_p, min_p and repetition_penalty with the values in the model
 * file's generation_config.json. A value of the wrong type or range is an error. */
int gen_config_apply(const struct modelfile *m, struct sampler_params *p, struct err *e);

#endif
