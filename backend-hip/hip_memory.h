/* hip_memory.h: memory of the device and of the host, copies between them, waits for steps. Owns:
 * the buffers of uploads, the views, the events of steps. Must not know: operations. */
#ifndef BACKEND_HIP_HIP_MEMORY_H
#define BACKEND_HIP_HIP_MEMORY_H

#include "backend-hip/hip_internal.h"

/* Device memory, zeroed; NULL when there is none. */
void *hip_alloc(struct be *be, size_t bytes);
void hip_free(struct be *be, void *d);
int hip_waiting_open(struct hip *h, struct err *e);
void hip_waiting_close(struct hip *h);
/* Pinned memory. */
void *hip_view(struct be *be, void *d, size_t bytes);
/* Zeroed memory of the host that devices read and write while they run; NULL: there is none.
 * api.host_free gives it back. */
void *hip_common_memory(const struct hip *h, size_t bytes);
void hip_drop_view(struct be *be, void *view);
/* A copy in order with the kernels; src may change on return. */
void hip_upload(struct be *be, void *d, const void *src, size_t bytes);
void hip_download(struct be *be, void *dst, const void *d_src, size_t bytes);
/* Sets n bytes of device memory to 0. */
void hip_clear(struct hip *h, void *d, size_t n);
int hip_sync(struct be *be, struct err *e);
void hip_end_step(struct be *be);
int hip_wait_step(struct be *be, struct err *e);
int hip_step_done(struct be *be);

#endif
