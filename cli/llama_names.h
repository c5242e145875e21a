/* llama_names.h: the options of llama.cpp's programs that opt4gptq-run does not have, and what is
 * said of each: why it changes nothing here, or what to do instead. */
#ifndef CLI_LLAMA_NAMES_H
#define CLI_LLAMA_NAMES_H

#include "core/base/args.h"

extern const struct args_other llama_names[];

#endif
