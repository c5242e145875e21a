/* hip_api.h: the entry points of a GPU runtime that this program uses, found by name in a library
 * opened at run time. HIP's module interface and CUDA's driver interface agree except where noted
 * here, so one table serves both. Owns: names, prototypes, constants. Must not know: kernels,
 * tensors.
 *
 * A stand-in for the library (the interpreter and the fibers of the tests) needs just the HIP names
 * in this file:
 *   hipInit, hipGetDeviceCount, hipDeviceGet, hipDeviceGetName, hipDeviceTotalMem, hipSetDevice,
 *       hipMemGetInfo,
 *   hipMalloc, hipFree, hipHostMalloc, hipHostFree, hipMemcpyHtoDAsync, hipMemcpyDtoHAsync,
 *       hipMemcpyDtoH, hipMemcpyDtoD,
 *   hipMemsetD8, hipModuleLoadData, hipModuleUnload, hipModuleGetFunction, hipModuleLaunchKernel,
 *   hipEventCreateWithFlags, hipEventDestroy, hipEventRecord, hipEventQuery, hipEventElapsedTime,
 *       hipGetErrorString,
 *   for microbatches hipStreamCreateWithFlags,
 *   and, only to print the architecture's name, hipGetDevicePropertiesR0600 or
 *       hipGetDeviceProperties (may be absent).
 *
 * Conventions:
 *  - Kernel arguments go through the `extra` buffer of hipModuleLaunchKernel, never through
 *    kernelParams: {(void *)1, buffer, (void *)2, &bytes, end}; end is (void *)3 for HIP, NULL for
 *    CUDA. Every kernel takes one structure by value, so the buffer is that structure.
 *  - Blocks are one-dimensional (the y and z sizes are 1), grids have up to three dimensions,
 *    shared memory is declared statically in the kernel (sharedMemBytes is 0) but for kernels of
 *    NVIDIA's that take more than 48 KiB.
 *  - HIP: the stream is NULL, unless there are microbatches. CUDA and microbatches: launches go to
 * a stream of their own that waits for the NULL stream and is waited for by it (flags 0); on CUDA
 * steps that come again are replayed as a graph captured from it.
 *  - Copies are synchronous but those from and to hipHostMalloc's memory, which are in order with
 *    the kernels; memory of hipMalloc is at least 256-byte aligned.
 *  - The code object is the image for one architecture, not a bundle; hipModuleLoadData refuses
 *    what does not fit the device (hipErrorNoBinaryForGpu = 209, CUDA_ERROR_NO_BINARY_FOR_GPU =
 *    209, any other code as well). */
#ifndef BACKEND_HIP_HIP_API_H
#define BACKEND_HIP_HIP_API_H

#include <stddef.h>

/* CUlaunchAttribute and CUlaunchConfig. */
struct cuda_launch_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int allowed;
        unsigned cluster[3];
    } value;
};

struct cuda_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct cuda_launch_attribute *attributes;
    unsigned n_attributes;
};

/* All calls return 0 on success in both runtimes. The program distinguishes only these codes, of an
 * allocation and of a query. */
enum { HIP_OUT_OF_MEMORY = 2, HIP_NOT_READY = 600, HIP_PEER_ALREADY = 704 };

/* Flags of host_alloc in both, the last of HIP alone; of hip_alloc_fine; a type of hip_link_type.
 */
enum {
    HOST_PORTABLE = 1,
    HOST_MAPPED = 2,
    HIP_HOST_COHERENT = 0x40000000,
    HIP_FINE_GRAINED = 1,
    HIP_LINK_XGMI = 4
};

struct hip_api {
    int (*init)(unsigned flags);                 /* hipInit                  cuInit */
    int (*device_count)(int *n);                 /* hipGetDeviceCount        cuDeviceGetCount */
    int (*device_get)(int *device, int ordinal); /* hipDeviceGet             cuDeviceGet */
    int (*device_name)(char *name, int bytes, int device); /* hipDeviceGetName cuDeviceGetName */
    int (*device_memory)(size_t *bytes,
                         int device); /* hipDeviceTotalMem        cuDeviceTotalMem_v2 */
    int (*memory_info)(size_t *free_bytes, size_t *total); /* hipMemGetInfo cuMemGetInfo_v2 */
    int (*alloc)(void **d, size_t bytes); /* hipMalloc                cuMemAlloc_v2 */
    int (*free)(void *d);                 /* hipFree                  cuMemFree_v2 */
    int (*copy_out)(void *dst, void *d,
                    size_t bytes); /* hipMemcpyDtoH            cuMemcpyDtoH_v2 */
    int (*copy_on)(void *d, void *d_src,
                   size_t bytes); /* hipMemcpyDtoD            cuMemcpyDtoD_v2 */
    int (*host_alloc)(void **p, size_t bytes,
                      unsigned); /* hipHostMalloc            cuMemHostAlloc */
    int (*host_free)(void *p);   /* hipHostFree              cuMemFreeHost */
    int (*copy_in_later)(void *d, const void *src, size_t bytes,
                         void *stream); /* hipMemcpyHtoDAsync  cuMemcpyHtoDAsync_v2 */
    int (*copy_out_later)(void *dst, void *d, size_t bytes,
                          void *stream); /* hipMemcpyDtoHAsync       cuMemcpyDtoHAsync_v2 */
    int (*fill)(void *d, unsigned char value,
                size_t n); /* hipMemsetD8              cuMemsetD8_v2 */
    int (*module_load)(void **module, const void *image); /* hipModuleLoadData cuModuleLoadData */
    int (*module_unload)(void *module); /* hipModuleUnload          cuModuleUnload */
    int (*function)(void **f, void *module,
                    const char *); /* hipModuleGetFunction     cuModuleGetFunction */
    int (*launch)(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                  void **params, void **extra);        /* hipModuleLaunchKernel  cuLaunchKernel */
    int (*event_create)(void **event, unsigned flags); /* hipEventCreateWithFlags  cuEventCreate */
    int (*event_destroy)(void *event);              /* hipEventDestroy          cuEventDestroy_v2 */
    int (*event_record)(void *event, void *stream); /* hipEventRecord           cuEventRecord */
    int (*event_query)(void *event);                /* hipEventQuery            cuEventQuery */
    int (*event_ms)(float *ms, void *from,
                    void *to); /* hipEventElapsedTime      cuEventElapsedTime */
    int (*can_access_peer)(int *can, int device,
                           int peer); /* hipDeviceCanAccessPeer   cuDeviceCanAccessPeer, optional */
    int (*stream_open)(void **stream, unsigned flags); /* hipStreamCreateWithFlags, cuStreamCreate;
                                                          optional */
    int (*stream_wait)(void *stream, void *event,
                       unsigned flags); /* hipStreamWaitEvent, cuStreamWaitEvent; optional */
    /* Entry points of one runtime, absent in the other. */
    const char *(*hip_error)(int code);                /* hipGetErrorString */
    int (*hip_set_device)(int ordinal);                /* hipSetDevice */
    int (*hip_properties_r0600)(void *p, int ordinal); /* hipGetDevicePropertiesR0600, optional */
    int (*hip_properties)(void *p, int ordinal);       /* hipGetDeviceProperties, optional */
    int (*hip_enable_peer)(int peer, unsigned flags);  /* hipDeviceEnablePeerAccess, optional */
    int (*hip_alloc_fine)(void **d, size_t bytes, unsigned flags); /* hipExtMallocWithFlags,
                                                                      optional */
    int (*hip_link_type)(int device, int peer, unsigned *type,
                         unsigned *hops); /* hipExtGetLinkTypeAndHopCount, optional */
    int (*cuda_enable_peer)(void *context, unsigned flags); /* cuCtxEnablePeerAccess, optional */
    int (*cuda_error)(int code, const char **text);         /* cuGetErrorString */
    int (*cuda_attribute)(int *value, int attribute, int device); /* cuDeviceGetAttribute */
    int (*cuda_context)(void **context, int device);              /* cuDevicePrimaryCtxRetain */
    int (*cuda_set_context)(void *context);                       /* cuCtxSetCurrent */
    int (*cuda_function_set)(void *f, int attribute, int value);  /* cuFuncSetAttribute */
    int (*cuda_stream)(void **stream, unsigned flags);            /* cuStreamCreate */
    int (*cuda_wait_value)(void *stream, void *word, unsigned value,
                           unsigned flags); /* cuStreamWaitValue32_v2; 0: until the word has come to
                                               the value; optional, as the next */
    int (*cuda_write_value)(void *stream, void *word, unsigned value,
                            unsigned flags);             /* cuStreamWriteValue32_v2 */
    int (*cuda_capture)(void *stream, int mode);         /* cuStreamBeginCapture_v2 */
    int (*cuda_capture_end)(void *stream, void **graph); /* cuStreamEndCapture */
    int (*cuda_graph_make)(void **exec, void *graph,
                           unsigned long long flags);   /* cuGraphInstantiateWithFlags */
    int (*cuda_graph_launch)(void *exec, void *stream); /* cuGraphLaunch */
    int (*cuda_graph_exec_drop)(void *exec);            /* cuGraphExecDestroy */
    int (*cuda_graph_drop)(void *graph);                /* cuGraphDestroy */
    int (*cuda_tensor_map)(void *map, int type, unsigned rank, void *d,
                           const unsigned long long *sizes, const unsigned long long *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle,
                           int l2, int fill); /* cuTensorMapEncodeTiled, optional */
    int (*cuda_launch_ex)(const struct cuda_launch_config *c, void *f, void **params,
                          void **extra); /* cuLaunchKernelEx, optional */
};

/* Offsets of gcnArchName in the structures that the two calls fill, and a size that holds either
 * structure (legacy: 792 bytes, R0600: 1472 bytes in ROCm 6; later ones may be longer). */
enum { HIP_ARCH_AT_LEGACY = 396, HIP_ARCH_AT_R0600 = 1160, HIP_PROPERTIES_BYTES = 16384 };
enum {
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_ATTRIBUTE_SHARED_BYTES = 97 /* of a block that asks for more than 48 KiB */
};
enum {
    CUDA_FUNCTION_SHARED_BYTES = 8,
    CUDA_FUNCTION_SHARED_PERCENT = 9, /* of a multiprocessor's memory beside the L1 cache */
    CUDA_CAPTURE_THREAD_LOCAL = 1,
    CUDA_LAUNCH_CLUSTER = 4,
    CUDA_LAUNCH_OVERLAPS = 6
};

enum { CUDA_MAP_BYTES = 128, CUDA_MAP_U32 = 2, CUDA_MAP_L2_256 = 3, CUDA_MAP_SWIZZLE_128 = 3 };

#define HIP_LAUNCH_BUFFER ((void *)1)
#define HIP_LAUNCH_BYTES ((void *)2)
#define HIP_LAUNCH_END ((void *)3)
#define CUDA_LAUNCH_END ((void *)0)

#endif
