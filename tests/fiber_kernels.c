/* fiber_kernels.c: the kernels of backend-hip, compiled as host code for fibers.c. */
#include "backend-hip/kernels/kernels.hip"
