/* hip_compile.h: kernels for an AMD device that no embedded code object fits: the embedded source,
 * compiled by the runtime's own compiler (hiprtc). It runs in a child process, since it aborts on
 * architectures that it does not know. NVIDIA's driver compiles the embedded PTX for every device
 * from sm_70 on by itself, so there is nothing like it there. Must not know: devices, what a kernel
 * does. */
#ifndef BACKEND_HIP_HIP_COMPILE_H
#define BACKEND_HIP_HIP_COMPILE_H

#include "core/base/err.h"

/* A code object for ARCH ("gfx90c:xnack-") as hipModuleLoadData takes it, to be freed; runtime:
 * path of the library in use, which may contain the compiler. It is killed after so many seconds.
 */
int hip_compile(const char *runtime, const char *arch, int seconds, void **object, struct err *e);

#endif
