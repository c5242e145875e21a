/* fiber_cuda.c: the entry points of CUDA's driver for fiber_runtime.c, in
 * build/tests/bin/libcuda-fibers-*.so: a device of two multiprocessors (FIBERS_UNITS=N: of N) that
 * accepts PTX for sm_80 or sm_90a. Launches are captured as graphs and replayed with their
 * arguments. */
#include "backend-hip/runtime/hip_api.h"
#include "tests/emulators/fibers/fiber_api.h"
#include "tests/emulators/fibers/fibers_int.h"

#include <stddef.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* The same under CUDA's names. */
#define SAME(cuda, hip, parameters, ...)                                                           \
    int cuda parameters;                                                                           \
    int cuda parameters { return hip(__VA_ARGS__); }
SAME(cuInit, hipInit, (unsigned flags), flags)
SAME(cuDeviceGetCount, hipGetDeviceCount, (int *n), n)
SAME(cuDeviceGet, hipDeviceGet, (int *device, int ordinal), device, ordinal)
SAME(cuDeviceGetName, hipDeviceGetName, (char *name, int bytes, int device), name, bytes, device)
SAME(cuDeviceTotalMem_v2, hipDeviceTotalMem, (size_t *bytes, int device), bytes, device)
SAME(cuMemGetInfo_v2, hipMemGetInfo, (size_t *left, size_t *total), left, total)
SAME(cuMemAlloc_v2, hipMalloc, (void **d, size_t bytes), d, bytes)
SAME(cuMemFree_v2, hipFree, (void *d), d)
SAME(cuMemcpyDtoH_v2, hipMemcpyDtoH, (void *dst, void *d, size_t bytes), dst, d, bytes)
SAME(cuMemcpyDtoD_v2, hipMemcpyDtoD, (void *d, void *src, size_t bytes), d, src, bytes)
SAME(cuMemHostAlloc, hipHostMalloc, (void **p, size_t bytes, unsigned flags), p, bytes, flags)
SAME(cuMemFreeHost, hipHostFree, (void *p), p)
SAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync,
     (void *d, const void *src, size_t bytes, void *stream), d, src, bytes, stream)
SAME(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, (void *dst, void *d, size_t bytes, void *stream),
     dst, d, bytes, stream)
SAME(cuMemsetD8_v2, hipMemsetD8, (void *d, unsigned char value, size_t n), d, value, n)
SAME(cuModuleLoadData, hipModuleLoadData, (void **module, const void *image), module, image)
SAME(cuModuleUnload, hipModuleUnload, (void *module), module)
SAME(cuModuleGetFunction, hipModuleGetFunction, (void **f, void *module, const char *name), f,
     module, name)
SAME(cuEventCreate, hipEventCreateWithFlags, (void **event, unsigned flags), event, flags)
SAME(cuEventDestroy_v2, hipEventDestroy, (void *event), event)
SAME(cuEventRecord, hipEventRecord, (void *event, void *stream), event, stream)
SAME(cuEventQuery, hipEventQuery, (void *event), event)
SAME(cuEventElapsedTime, hipEventElapsedTime, (float *ms, void *from, void *to), ms, from, to)
SAME(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, (void *d, void *src, size_t bytes, void *stream), d,
     src, bytes, stream)
SAME(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, (int *can, int device, int peer), can, device,
     peer)
SAME(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer, (void **d, void *p, unsigned flags), d,
     p, flags)
SAME(cuMemHostRegister_v2, hipHostRegister, (void *p, size_t bytes, unsigned flags), p, bytes,
     flags)
SAME(cuMemHostUnregister, hipHostUnregister, (void *p), p)
SAME(cuStreamWaitEvent, hipStreamWaitEvent, (void *stream, void *event, unsigned flags), stream,
     event, flags)

#define API(...)                                                                                   \
    int __VA_ARGS__;                                                                               \
    int __VA_ARGS__
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

API(cuGetErrorString(int code, const char **text))
{
    *text = hipGetErrorString(code);
    return OK;
}

/* Most shared memory of a block on an H100 and on an A100. */
enum { MOST_SHARED = (FIBERS_CUDA == 90 ? 227 : 163) << 10 };

API(cuDeviceGetAttribute(int *value, int attribute, int device))
{
    enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED_BYTES = 97 };
    *value = attribute == MULTIPROCESSORS ? (int)env_of("FIBERS_UNITS", device, 2)
             : attribute == MAJOR         ? FIBERS_CUDA / 10
             : attribute == SHARED_BYTES  ? MOST_SHARED
                                          : 0;
    return *value || attribute == MINOR ? OK : INVALID_VALUE;
}

static char contexts[MAX_DEVICES];

API(cuDevicePrimaryCtxRetain(void **context, int device))
{
    if (device < 0 || device >= fiber_device_count()) return INVALID_VALUE;
    *context = &contexts[device];
    return OK;
}

static int device_of(const void *context)
{
    ptrdiff_t device = (const char *)context - contexts;
    return device >= 0 && device < MAX_DEVICES ? (int)device : -1;
}

API(cuCtxSetCurrent(void *context))
{
    fiber_device = device_of(context);
    return fiber_device >= 0 ? OK : INVALID_VALUE;
}

API(cuCtxEnablePeerAccess(void *context, unsigned flags))
{
    int peer = device_of(context);
    return peer < 0 ? INVALID_VALUE : hipDeviceEnablePeerAccess(peer, flags);
}

API(cuMemcpyPeerAsync(void *d, void *to, void *src, void *from, size_t bytes, void *s))
{
    return hipMemcpyPeerAsync(d, device_of(to), src, device_of(from), bytes, s);
}

API(cuFuncSetAttribute(void *f, int attribute, int value))
{
    enum { SHARED_BYTES = 8, SHARED_PERCENT = 9 };
    int most = attribute == SHARED_BYTES ? MOST_SHARED : attribute == SHARED_PERCENT ? 100 : -1;
    return f && value >= 0 && value <= most ? OK : INVALID_VALUE;
}

/* ---- the stream, and launches that it records during a capture ---- */
struct launch {
    void *f;
    unsigned grid[3], block[3], shared, cluster;
    size_t bytes;
    char args[1024];
};

struct graph {
    int n;
    struct launch *launch;
};

/* Streams are never destroyed; a process opens few. */
enum { MAX_STREAMS = 256 };
static struct stream {
    int device;
    struct graph *captured;
} streams[MAX_STREAMS];
static int n_streams;

API(cuStreamCreate(void **s, unsigned flags))
{
    struct stream *of = &streams[__atomic_fetch_add(&n_streams, 1, __ATOMIC_RELAXED) % MAX_STREAMS];
    (void)flags;
    of->device = fiber_device;
    *s = of;
    return fiber_device < 0 ? INVALID_VALUE : OK;
}

/* The stream, NULL: it is not one of this thread's device. The NULL stream is of any. */
static struct stream *stream_of(void *s)
{
    static struct stream common;
    struct stream *of = s;
    if (!s) return &common;
    return of >= streams && of < streams + MAX_STREAMS && of->device == fiber_device ? of : NULL;
}

/* Launches have ended when their call returns, so a stream waits in its call. */
API(cuStreamWaitValue32_v2(void *s, void *word, unsigned value, unsigned flags))
{
    struct stream *of = stream_of(s);
    if (!of || of->captured || flags) return INVALID_VALUE;
    while ((int)(__atomic_load_n((unsigned *)word, __ATOMIC_ACQUIRE) - value) < 0) sched_yield();
    return OK;
}

API(cuStreamWriteValue32_v2(void *s, void *word, unsigned value, unsigned flags))
{
    struct stream *of = stream_of(s);
    if (!of || of->captured || flags) return INVALID_VALUE;
    __atomic_store_n((unsigned *)word, value, __ATOMIC_RELEASE);
    return OK;
}

API(cuStreamBeginCapture_v2(void *s, int mode))
{
    (void)mode;
    struct stream *of = stream_of(s);
    if (!of || of->captured) return INVALID_VALUE;
    return (of->captured = calloc(1, sizeof *of->captured)) ? OK : OUT_OF_MEMORY;
}

API(cuStreamEndCapture(void *s, void **graph))
{
    struct stream *of = stream_of(s);
    if (!of || !of->captured) return INVALID_VALUE;
    *graph = of->captured;
    of->captured = NULL;
    return OK;
}

API(cuGraphDestroy(void *graph))
{
    struct graph *g = graph;
    free(g->launch);
    free(g);
    return OK;
}

API(cuGraphExecDestroy(void *graph)) { return cuGraphDestroy(graph); }

API(cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags))
{
    const struct graph *from = graph;
    struct graph *g = calloc(1, sizeof *g);
    (void)flags;
    if (!g || !(g->launch = malloc((size_t)from->n * sizeof *g->launch))) {
        free(g);
        return OUT_OF_MEMORY;
    }
    memcpy(g->launch, from->launch, (size_t)from->n * sizeof *g->launch);
    g->n = from->n;
    *exec = g;
    return OK;
}

static int run(struct launch *l)
{
    void *extra[] = {(void *)1, l->args, (void *)2, &l->bytes, NULL};
    fiber_cluster_blocks = (int)l->cluster;
    return hipModuleLaunchKernel(l->f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                 l->block[2], l->shared, NULL, NULL, extra);
}

API(cuGraphLaunch(void *exec, void *s))
{
    struct graph *g = exec;
    int code = stream_of(s) ? OK : INVALID_VALUE;
    for (int i = 0; i < g->n && !code; i++) code = run(&g->launch[i]);
    return code;
}

static int launch(struct launch *l, void *s, void **params, void **extra)
{
    struct stream *of = stream_of(s);
    if (params || extra[4] || *(size_t *)extra[3] > sizeof l->args || !of) return INVALID_VALUE;
    l->bytes = *(size_t *)extra[3];
    memcpy(l->args, extra[1], l->bytes);
    struct graph *g = of->captured;
    if (!g) return run(l);
    struct launch *more = realloc(g->launch, (size_t)(g->n + 1) * sizeof *more);
    if (!more) return OUT_OF_MEMORY;
    g->launch = more;
    more[g->n++] = *l;
    return OK;
}

API(cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *s, void **params, void **extra))
{
    return launch(
        &(struct launch){
            .f = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .cluster = 1},
        s, params, extra);
}

#if FIBERS_CUDA >= 90
API(cuLaunchKernelEx(const struct cuda_launch_config *c, void *f, void **params, void **extra))
{
    struct launch l = {.f = f, .shared = c->shared_bytes, .cluster = 1};
    memcpy(l.grid, c->grid, sizeof l.grid);
    memcpy(l.block, c->block, sizeof l.block);
    for (unsigned i = 0; i < c->n_attributes; i++)
        if (c->attributes[i].id == CUDA_LAUNCH_CLUSTER)
            l.cluster = c->attributes[i].value.cluster[0];
    return launch(&l, c->stream, params, extra);
}

API(cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *d,
                           const unsigned long long *sizes, const unsigned long long *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle,
                           int l2, int fill))
{
    struct fiber_map m = {.d = d, .swizzled = swizzle == CUDA_MAP_SWIZZLE_128};
    (void)l2;
    if (type != CUDA_MAP_U32 || rank != 3 || interleave || fill || (swizzle && !m.swizzled) ||
        (swizzle && box[0] > 32) || (size_t)map % 64 ||
        (size_t)d % 16)
        return INVALID_VALUE;
    for (int i = 0; i < 3; i++) {
        if (steps[i] != 1 || !box[i] || box[i] > 256 || !sizes[i] || (i < 2 && strides[i] % 16))
            return INVALID_VALUE;
        m.sizes[i] = sizes[i];
        m.box[i] = box[i];
        if (i < 2) m.strides[i] = strides[i];
    }
    memset(map, 0, CUDA_MAP_BYTES);
    memcpy(map, &m, sizeof m);
    return OK;
}
#endif
