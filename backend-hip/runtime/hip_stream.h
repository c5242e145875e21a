/* hip_stream.h: the launches of a step, collected, then issued or replayed as a CUDA graph that was
 * captured under the same key. Owns: the stream and its graphs. Must not know: what is launched. */
#ifndef BACKEND_HIP_HIP_STREAM_H
#define BACKEND_HIP_HIP_STREAM_H

#include "backend-hip/runtime/hip_runtime.h"

struct hip_stream;

/* One launch. */
struct launch {
    void *function;
    const char *name; /* outlives the stream */
    unsigned grid[3]; /* blocks */
    unsigned threads; /* of a block */
    unsigned shared;  /* bytes of dynamic shared memory */
    unsigned cluster; /* blocks of a cluster, along x */
    int apart;        /* neither it nor the next launch starts before the one ahead has ended */
    const void *args; /* [bytes] the kernel's one argument, copied */
    size_t bytes;
};

/* The stream that every device has, or one of its own; usually that on HIP, this on CUDA. */
enum hip_stream_of { STREAM_USUAL, STREAM_OWN, STREAM_COMMON };
int hip_stream_open(struct hip_stream **s, const struct hip_device *d, enum hip_stream_of which,
                    struct err *e);
void hip_stream_close(struct hip_stream *s);
/* The runtime's stream, for copies in order with the launches. */
void *hip_stream_handle(const struct hip_stream *s);
/* Room for the graphs of so many plans. -1: out of memory. */
int hip_stream_reserve(struct hip_stream *s, int n_plans);
/* The number of multiprocessors; 0: unknown. */
int hip_stream_multiprocessors(const struct hip_stream *s);
/* Whether the device has thread-block clusters. */
int hip_stream_has_clusters(const struct hip_stream *s);
/* -1: out of memory. */
int hip_stream_add(struct hip_stream *s, const struct launch *l);
/* Replays the graph that was captured under key [bytes], at most HIP_KEY_BYTES: *replayed 1.
 * Returns the runtime's code. */
enum { HIP_KEY_BYTES = 320 };
int hip_stream_replay(struct hip_stream *s, const void *key, size_t bytes, int *replayed);
/* Issues the launches that were added. If their key was issued before, they are captured as a graph
 * for hip_stream_replay(), for a device that is idle as one that begins soon; equal keys stand for
 * equal launches with equal arguments and an equal `idle`. bytes 0: no key. Returns the runtime's
 * code, and the name of the launch that failed. */
int hip_stream_issue(struct hip_stream *s, const void *key, size_t bytes, int idle,
                     const char **name);

#endif
