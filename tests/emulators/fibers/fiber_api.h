/* fiber_api.h: HIP's entry points of fiber_runtime.c (prototypes: backend-hip/runtime/hip_api.h),
 * the library's own, or behind CUDA's (fiber_cuda.c). */
#ifndef TESTS_FIBER_API_H
#define TESTS_FIBER_API_H

#include <stddef.h>

#ifdef FIBERS_CUDA
#pragma GCC visibility push(hidden)
#else
#pragma GCC visibility push(default)
#endif
int hipInit(unsigned flags);
int hipGetDeviceCount(int *n);
int hipDeviceGet(int *device, int ordinal);
int hipDeviceGetName(char *name, int bytes, int device);
int hipDeviceTotalMem(size_t *bytes, int device);
int hipSetDevice(int ordinal);
int hipMemGetInfo(size_t *left, size_t *total);
int hipMalloc(void **d, size_t bytes);
int hipFree(void *d);
int hipMemcpyHtoD(void *d, const void *src, size_t bytes);
int hipMemcpyDtoH(void *dst, void *d, size_t bytes);
int hipMemsetD8(void *d, unsigned char value, size_t n);
int hipMemcpyDtoD(void *d, void *src, size_t bytes);
int hipHostMalloc(void **p, size_t bytes, unsigned flags);
int hipHostFree(void *p);
int hipMemcpyHtoDAsync(void *d, const void *src, size_t bytes, void *stream);
int hipMemcpyDtoHAsync(void *dst, void *d, size_t bytes, void *stream);
int hipEventCreateWithFlags(void **event, unsigned flags);
int hipEventDestroy(void *event);
int hipEventRecord(void *event, void *stream);
int hipEventQuery(void *event);
int hipEventElapsedTime(float *ms, void *from, void *to);
int hipModuleLoadData(void **module, const void *image);
int hipModuleUnload(void *module);
int hipModuleGetFunction(void **f, void *module, const char *name);
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int hipMemcpyDtoDAsync(void *d, void *src, size_t bytes, void *stream);
int hipMemcpyPeerAsync(void *d, int to, const void *src, int from, size_t bytes, void *stream);
int hipDeviceCanAccessPeer(int *can, int device, int peer);
int hipDeviceEnablePeerAccess(int peer, unsigned flags);
int hipExtMallocWithFlags(void **d, size_t bytes, unsigned flags);
int hipExtGetLinkTypeAndHopCount(int device, int peer, unsigned *type, unsigned *hops);
int hipHostGetDevicePointer(void **d, void *p, unsigned flags);
int hipHostRegister(void *p, size_t bytes, unsigned flags);
int hipHostUnregister(void *p);
int hipStreamWaitEvent(void *stream, void *event, unsigned flags);
int hipStreamCreateWithFlags(void **stream, unsigned flags);
const char *hipGetErrorString(int code);

#pragma GCC visibility pop

#endif
