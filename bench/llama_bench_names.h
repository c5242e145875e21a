/* llama_bench_names.h: the options of llama-bench that opt4gptq-bench does not have, and what is
 * said of each: why it changes nothing here, or what to do instead. */
#ifndef BENCH_LLAMA_BENCH_NAMES_H
#define BENCH_LLAMA_BENCH_NAMES_H

#include "core/base/args.h"

extern const struct args_other llama_bench_names[];

#endif
