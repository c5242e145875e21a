/* vllm_names.h: the options and commands of vLLM that opt4gptq-run does not have, and what is said
 * of each, as in llama_names.h. */
#ifndef CLI_VLLM_NAMES_H
#define CLI_VLLM_NAMES_H

#include "core/base/args.h"

extern const struct args_other vllm_names[];

#endif
