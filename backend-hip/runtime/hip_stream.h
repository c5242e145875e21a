/* hip_stream.h: the launches of a step, kept until someone waits for a result; then issued, or
 * replayed as a graph when the same ones (functions, grids, arguments, to the byte) came before.
 * Owns: the stream and its graphs. Must not know: what is launched. */
#ifndef BACKEND_HIP_HIP_STREAM_H
#define BACKEND_HIP_HIP_STREAM_H

#include "backend-hip/runtime/hip_runtime.h"

struct hip_stream;

int hip_stream_open(struct hip_stream **s, const struct hip_device *d, struct err *e);
void hip_stream_close(struct hip_stream *s);
/* The runtime's stream, which copies go through, too. */
void *hip_stream_handle(const struct hip_stream *s);
/* Blocks that the device runs side by side come in multiples of this: multiprocessors. 0: unknown.
 */
int hip_stream_units(const struct hip_stream *s);
/* Whether blocks can run in clusters that read each other's LDS. */
int hip_stream_has_clusters(const struct hip_stream *s);
/* args [bytes] is the kernel's one argument; name must outlive the stream; cluster: blocks in one,
 * along x. -1: out of memory. */
int hip_stream_add(struct hip_stream *s, void *function, const char *name, const unsigned grid[3],
                   unsigned threads, unsigned lds, unsigned cluster, const void *args,
                   size_t bytes);
/* Issues what was added. Returns the runtime's code, with the name of what failed. */
int hip_stream_flush(struct hip_stream *s, const char **name);

#endif
