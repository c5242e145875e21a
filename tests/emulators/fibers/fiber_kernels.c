/* fiber_kernels.c: the kernels of backend-hip, compiled as host code for fibers.c. */
#pragma GCC diagnostic ignored                                                                     \
    "-Wmaybe-uninitialized" /* threads beyond a row load nothing and use nothing: gcc does not see \
                               the second */
#include "backend-hip/kernels/kernels.hip"
