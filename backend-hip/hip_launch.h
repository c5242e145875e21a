/* hip_launch.h: the kernels of an open device and their launches. Owns: the kernels' functions, the
 * launches of a step that are not issued yet, the first failure. Must not know: operations. */
#ifndef BACKEND_HIP_HIP_LAUNCH_H
#define BACKEND_HIP_HIP_LAUNCH_H

#include "backend-hip/hip_kernels.h"
#include "backend-hip/runtime/hip_stream.h"

struct hip;

/* Records the first failure; code 0: none. what: a string that outlives the device. */
void hip_fail(struct hip *h, int code, const char *what);
/* No linked device waits for this one any more. */
void hip_stop_peers(const struct hip *h);
/* Every entry of the backend's table begins with it: calls of the runtime mean this device. */
void hip_use(struct hip *h);
/* Finds the kernels of the device's image, each of which is loaded before its first launch. Absent
 * (hip_has): kernels of other images, and linears that need more shared memory than the device has.
 * 0 or -1. */
int hip_find_kernels(struct hip *h, struct err *e);
int hip_has(const struct hip *h, enum hip_kernel k);

/* The grid of a launch, in blocks; the list of kernels has the rest. */
struct hip_blocks {
    size_t x, y, z; /* 0: no launch */
    unsigned shared; /* bytes of dynamic shared memory: 0: of column shared, 1: of column spread; or
                        fewer than column shared has */
};

/* Adds a launch to the step unless something has failed. It is issued by hip_issue() or
 * hip_flush(). args [bytes], copied: the kernel's one argument. */
void hip_launch(struct hip *h, enum hip_kernel k, struct hip_blocks blocks, const void *args,
                size_t bytes);
/* Launches one thread for each of n elements. */
void hip_launch_elements(struct hip *h, enum hip_kernel k, size_t n, const void *args,
                         size_t bytes);
/* Launches one block for each row. */
void hip_launch_rows(struct hip *h, enum hip_kernel k, int rows, const void *args, size_t bytes);
/* Replays the launches that were issued under an equal key [bytes]; 0: there is no such graph. */
int hip_replay(struct hip *h, const void *key, size_t bytes);
/* Issues the launches added so far, under key [bytes]; bytes 0: no key. idle: the device has no
 * other step, which the key says, too (hip_stream_issue) */
void hip_issue(struct hip *h, const void *key, size_t bytes, int idle);
/* Issues the launches added so far, so that later copies and events follow them. */
void hip_flush(struct hip *h);

#endif
