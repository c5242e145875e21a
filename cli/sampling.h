/* sampling.h: from the options of the command line to the sampler's parameters.
 * Must not know: records, which may have parameters of their own. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/options.h"
#include "core/model/modelfile.h"
#include "core/sample/sampler.h"

/* The defaults of llama.cpp, for one prompt, and those of OpenAI and vLLM, for a batch. */
extern const struct sampler_params sampling_llama, sampling_openai;
/* *p: what the options say, else the checkpoint's generation_config, else `otherwise`. */
int sampling_choose(struct sampler_params *p, const struct options *o, const struct modelfile *m,
                    const struct sampler_params *otherwise, struct err *e);

#endif
