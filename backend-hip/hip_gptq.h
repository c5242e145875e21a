/* hip_gptq.h: a quantizer's work on the device (core/step/gptq.h). Owns: its memory, the factor of
 * the last call. Must not know: plans, steps. */
#ifndef BACKEND_HIP_HIP_GPTQ_H
#define BACKEND_HIP_HIP_GPTQ_H

#include "core/step/gptq.h"

struct hip;

extern const struct gptq_ops hip_gptq_ops;
void hip_gptq_close(struct hip *h);

#endif
