/* quantize.h: a quantization from the published weights to the result. Owns: the order of its
 * steps. Must not know: options' names, signals. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "quantize/run.h"

/* Error: among others, a target that is there. Nothing is left under the target's name after an
 * error; what is finished stays in OUT.work. */
int quantize_run(const struct quantize_options *o, struct err *e);

#endif
