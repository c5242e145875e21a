/* hip_stream.h: the launches of a step, kept until someone waits for a result; then issued, or
 * replayed as a graph when the same ones (functions, grids, arguments, to the byte) came before.
 * Owns: the stream and its graphs. Must not know: what is launched. */
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
    const void *args; /* [bytes] the kernel's one argument, copied */
    size_t bytes;
};

int hip_stream_open(struct hip_stream **s, const struct hip_device *d, struct err *e);
void hip_stream_close(struct hip_stream *s);
/* The runtime's stream, which copies go through, too. */
void *hip_stream_handle(const struct hip_stream *s);
/* Blocks that the device runs side by side come in multiples of this: multiprocessors. 0: unknown.
 */
int hip_stream_multiprocessors(const struct hip_stream *s);
/* Whether blocks can run in clusters that read each other's LDS. */
int hip_stream_has_clusters(const struct hip_stream *s);
/* -1: out of memory. */
int hip_stream_add(struct hip_stream *s, const struct launch *l);
/* Launches that were captured under a key of HIP_KEY_BYTES at most run again: *replayed 1. Returns
 * the runtime's code. */
enum { HIP_KEY_BYTES = 256 };
int hip_stream_replay(struct hip_stream *s, const void *key, size_t bytes, int *replayed);
/* Issues what was added. Where its key came before, the launches are captured as a graph, for
 * hip_stream_replay: one key stands for one sequence of launches with the same arguments. bytes 0:
 * no key. Returns the runtime's code, with the name of what failed. */
int hip_stream_issue(struct hip_stream *s, const void *key, size_t bytes, const char **name);

#endif
