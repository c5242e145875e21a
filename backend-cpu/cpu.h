/* cpu.h: the CPU backend, which holds the numeric reference. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "core/step/backend.h"

extern const struct backend backend_cpu;

/* The name in the ladder of the variant that an open backend computes with. */
const char *cpu_variant_of(const struct be *be);

#endif
