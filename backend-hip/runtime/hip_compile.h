/* hip_compile.h: compiles the embedded kernel source for an AMD device that no embedded code object
 * fits, by the runtime's own compiler (hiprtc). The compiler runs in a fresh process of this program,
 * because it aborts on unknown architectures, and because threads of the initialized runtime may
 * hold locks that a forked child would wait for. NVIDIA needs none: its driver compiles the embedded
 * PTX for every device from sm_70 on. Must not know: devices, what a kernel does. */
#ifndef BACKEND_HIP_HIP_COMPILE_H
#define BACKEND_HIP_HIP_COMPILE_H

#include "core/base/err.h"

/* *object: a code object for ARCH ("gfx90c:xnack-") as hipModuleLoadData takes it, to be freed.
 * runtime: path of the library in use, which may contain the compiler. The compiler is killed after
 * so many seconds. 0 or -1. */
int hip_compile(const char *runtime, const char *arch, int seconds, void **object, struct err *e);
/* For a program that is no opt4gptq program: PATH, which outlives all calls, is one that compiles;
 * NULL: nothing is compiled. */
void hip_compile_by(const char *path);
/* A program's first call where hip_compile() is to work: 1 when this is the fresh process, which has
 * compiled and ends with *status. */
int hip_compile_asked(int argc, char **argv, int *status);

#endif
