#include "cli/sampling.h"

#include "core/sample/gen_config.h"

const struct sampler_params sampling_llama = {.temperature = 0.8,
                                              .top_k = 40,
                                              .top_p = 0.95,
                                              .min_p = 0.05,
                                              .typical_p = 1,
                                              .repetition_penalty = 1};
const struct sampler_params sampling_openai = {.temperature = 1,
                                               .top_p = 1,
                                               .typical_p = 1,
                                               .repetition_penalty = 1};

int sampling_choose(struct sampler_params *p, const struct options *o, const struct modelfile *m,
                    const struct sampler_params *otherwise, struct err *e)
{
    *p = *otherwise;
    if (gen_config_apply(m, p, e)) return -1;
    if (o->temperature > OPT_UNSET_REAL) p->temperature = o->temperature;
    if (o->top_p > OPT_UNSET_REAL) p->top_p = o->top_p;
    if (o->min_p > OPT_UNSET_REAL) p->min_p = o->min_p;
    if (o->repeat_penalty > OPT_UNSET_REAL) p->repetition_penalty = o->repeat_penalty;
    if (o->top_k > OPT_UNSET) p->top_k = o->top_k;
    p->presence_penalty = o->presence_penalty;
    p->frequency_penalty = o->frequency_penalty;
    p->ignore_eos = o->ignore_eos;
    p->seed = o->seed;
    return 0;
}
