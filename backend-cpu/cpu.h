/* cpu.h: the CPU backend, which holds the numeric reference. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "core/step/backend.h"

extern const struct backend backend_cpu;

#endif
