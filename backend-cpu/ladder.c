/* ladder.c: the rungs, slowest first. */
#include "backend-cpu/kernels.h"

const struct cpu_kernels *const cpu_ladder[] = {
    &cpu_ref,  &cpu_scalar,
#if defined(__x86_64__)
    &cpu_avx2, &cpu_avx512, &cpu_vnni,
#elif defined(__aarch64__)
    &cpu_neon, &cpu_dotprod,
#endif
    NULL,
};
