/* probe_kernels.h: the loop of the bandwidth probe. */
#ifndef BENCH_PROBE_KERNELS_H
#define BENCH_PROBE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Reads a 64-byte aligned range, a multiple of 256 bytes. The result only keeps the reads alive. */
uint64_t probe_read(const void *p, size_t bytes);

#endif
