/* hip_launch.h: the kernels of an open device, and launches of them. Owns: the kernels' functions,
 * the step's launches until they are issued, the first failure. Must not know: operations. */
#ifndef BACKEND_HIP_HIP_LAUNCH_H
#define BACKEND_HIP_HIP_LAUNCH_H

#include "backend-hip/hip_kernels.h"
#include "backend-hip/runtime/hip_stream.h"

struct hip;

/* Records the first failure; code 0 is none. what outlives the device. */
void hip_fail(struct hip *h, int code, const char *what);
/* Finds the functions of the device's kernels, and has the device allow their shared memory.
 * Kernels that other images have are absent (hip_has); so are linears that need more shared memory
 * than the device has. 0 or -1. */
int hip_load_kernels(struct hip *h, struct err *e);
int hip_has(const struct hip *h, enum hip_kernel k);

/* A launch of a kernel: blocks along x, y, z, and its one argument. The row of kernel_list.h says
 * the rest. */
struct hip_blocks {
    size_t x, y, z; /* 0: no launch */
    int spread;     /* with the row's spread */
};

/* Adds a launch to the step unless something has failed; they run when a result is waited for.
 * args [bytes] are copied. */
void hip_launch(struct hip *h, enum hip_kernel k, struct hip_blocks blocks, const void *args,
                size_t bytes);
/* As many blocks as cover n elements, a thread each. */
void hip_launch_elements(struct hip *h, enum hip_kernel k, size_t n, const void *args,
                         size_t bytes);
/* A block for each row. */
void hip_launch_rows(struct hip *h, enum hip_kernel k, int rows, const void *args, size_t bytes);
/* Replays the launches that were issued under an equal key [bytes]. 0: there are none. */
int hip_replay(struct hip *h, const void *key, size_t bytes);
/* Issues the launches so far, which are those of key [bytes]; 0 bytes: of none. */
void hip_issue(struct hip *h, const void *key, size_t bytes);
/* Issues the launches so far: what follows on the host is to come after them. */
void hip_flush(struct hip *h);

#endif
