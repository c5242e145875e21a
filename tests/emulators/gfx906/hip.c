/* hip.c: the HIP API of the interpreter: every device (GFX906_DEVICES of them, one if not given) is
 * a gfx906 with 60 compute units, and reaches the memory of all. One thread interprets at a time;
 * one whose kernel sleeps (s_sleep) lets others go on. One stream; all work is done during the
 * call, but as on a device a kernel's fault is reported by the next call that waits for it, and
 * then by every call until hipDeviceReset. Conventions: hip_runtime_api.h of ROCm 5 and 6. */
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API GFX906_API
enum {
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    OUT_OF_RESOURCES = 701,
    LAUNCH_FAILURE = 719,
    UNKNOWN = 999
};
enum {
    COMPUTE_UNITS = 60,
    WARP = 64,
    MAX_THREADS = 1024,
    CLOCK_KHZ = 1725000,
    MAX_KERNARG = 65536
};
static const char arch_name[] = "gfx906:sramecc-:xnack-", device_name[] = "gfx906 interpreter";

enum { MAX_DEVICES = 16 };
static int n_devices = 1;
static __thread int current;    /* the thread's device */
static int errors[MAX_DEVICES]; /* latched */
#define sticky errors[current]

/* One thread at a time. */
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static int enter(void)
{
    pthread_mutex_lock(&interpreter);
    return 0;
}
static void leave(const int *entered)
{
    (void)entered;
    pthread_mutex_unlock(&interpreter);
}
#define ALONE __attribute__((cleanup(leave), unused)) const int entered = enter()

void interpreter_rest(void)
{
    pthread_mutex_unlock(&interpreter);
    if (n_devices > 1) usleep(20);
    pthread_mutex_lock(&interpreter);
}

/* calls left until the failure, 0: none */
static uint64_t fail_launch_in, lose_device_in, fail_alloc_in;
static uint64_t step_limit = 1ull << 28;

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
    transfers_init();
    decode_init(false);
    fail_launch_in = env_number("GFX906_FAIL_LAUNCH", 0);
    lose_device_in = env_number("GFX906_LOSE_DEVICE", 0);
    fail_alloc_in = env_number("GFX906_FAIL_ALLOC", 0);
    step_limit = env_number("GFX906_STEP_LIMIT", step_limit);
    n_devices = (int)env_number("GFX906_DEVICES", 1);
    if (n_devices < 1 || n_devices > MAX_DEVICES) n_devices = MAX_DEVICES;
    memory_total = env_number("GFX906_MEMORY_MIB", memory_total >> 20) << 20;
}

void gfx906_fail_launch(uint64_t n) { fail_launch_in = n; }
void gfx906_lose_device(uint64_t n) { lose_device_in = n; }
void gfx906_fail_alloc(uint64_t n) { fail_alloc_in = n; }
void gfx906_set_step_limit(uint64_t steps) { step_limit = steps; }
void gfx906_portable_lanes(int on) { decode_init(on); }
const char *gfx906_last_fault(void) { return fault_text; }
void gfx906_print_faults(int on) { fault_quiet = !on; }

static bool comes_now(uint64_t *calls_left) { return *calls_left && --*calls_left == 0; }
static int wrong(const char *call, const char *what)
{
    if (!fault_quiet) fprintf(stderr, "gfx906: %s: %s\n", call, what);
    return INVALID_VALUE;
}

/* --- device */
static bool is_device(int device) { return device >= 0 && device < n_devices; }
API int hipInit(unsigned flags);
API int hipInit(unsigned flags)
{
    rtc_initialized();
    return flags ? INVALID_VALUE : sticky;
}
API int hipGetDeviceCount(int *n);
API int hipGetDeviceCount(int *n) { return *n = n_devices, 0; }
API int hipDeviceGet(int *device, int ordinal);
API int hipDeviceGet(int *device, int ordinal)
{
    return is_device(ordinal) ? (*device = ordinal, 0) : INVALID_DEVICE;
}
API int hipGetDevice(int *device);
API int hipGetDevice(int *device) { return *device = current, 0; }
API int hipSetDevice(int device);
API int hipSetDevice(int device)
{
    return is_device(device) ? (current = device, 0) : INVALID_DEVICE;
}
API int hipDeviceCanAccessPeer(int *can, int device, int peer);
API int hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    return is_device(device) && is_device(peer) ? (*can = device != peer, 0) : INVALID_DEVICE;
}
API int hipDeviceEnablePeerAccess(int peer, unsigned flags);
API int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return flags ? INVALID_VALUE : is_device(peer) ? 0 : INVALID_DEVICE;
}
API int hipDeviceSynchronize(void);
API int hipDeviceSynchronize(void) { return sticky; }
API int hipDeviceReset(void);
API int hipDeviceReset(void)
{
    fault_text[0] = 0;
    return sticky = 0;
}
API int hipRuntimeGetVersion(int *version);
API int hipRuntimeGetVersion(int *version) { return *version = 50221153, 0; }
API int hipDriverGetVersion(int *version);
API int hipDriverGetVersion(int *version) { return *version = 50221153, 0; }

API int hipDeviceGetName(char *name, int bytes, int device);
API int hipDeviceGetName(char *name, int bytes, int device)
{
    if (!is_device(device)) return INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "%s", device_name);
    return 0;
}
API int hipDeviceTotalMem(size_t *bytes, int device);
API int hipDeviceTotalMem(size_t *bytes, int device)
{
    return is_device(device) ? (*bytes = memory_total, 0) : INVALID_DEVICE;
}
API int hipMemGetInfo(size_t *free_bytes, size_t *total);
API int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    return *total = memory_total, *free_bytes = memory_total - memory_used(), sticky;
}

/* Fields of the structure by their offsets, which differ between the two versions of the ABI. */
static int properties(void *p, int device, size_t memory_at, size_t threads_at, size_t units_at,
                      size_t arch_at)
{
    uint8_t *d = p;
    const size_t lds = LDS_MAX;
    const int warp = WARP, threads = MAX_THREADS, units = COMPUTE_UNITS;
    if (!is_device(device)) return INVALID_DEVICE;
    snprintf((char *)d, 256, "%s", device_name);
    memcpy(d + memory_at, &(size_t){memory_total}, sizeof(size_t));
    memcpy(d + memory_at + 8, &lds, sizeof lds);
    memcpy(d + memory_at + 20, &warp, sizeof warp);
    memcpy(d + threads_at, &threads, sizeof threads);
    memcpy(d + units_at, &units, sizeof units);
    snprintf((char *)d + arch_at, 256, "%s", arch_name);
    return 0;
}
API int hipGetDeviceProperties(void *p, int device);
API int hipGetDeviceProperties(void *p, int device)
{
    memset(p, 0, 792);
    return properties(p, device, 256, 280, 336, 396);
}
API int hipGetDevicePropertiesR0600(void *p, int device);
API int hipGetDevicePropertiesR0600(void *p, int device)
{
    memset(p, 0, 1472);
    return properties(p, device, 288, 320, 388, 1160);
}

API const char *hipGetErrorString(int e);
API const char *hipGetErrorString(int e)
{
    switch (e) {
    case 0: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case NO_MEMORY: return "out of memory";
    case INVALID_CONFIGURATION: return "invalid configuration argument";
    case INVALID_DEVICE: return "invalid device ordinal";
    case INVALID_IMAGE: return "device kernel image is invalid";
    case NO_BINARY: return "no kernel image is available for execution on the device";
    case NOT_FOUND: return "named symbol not found";
    case OUT_OF_RESOURCES: return "out of resources";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default: return "unknown error";
    }
}
API const char *hipGetErrorName(int e);
API const char *hipGetErrorName(int e)
{
    switch (e) {
    case 0: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case NO_MEMORY: return "hipErrorOutOfMemory";
    case INVALID_CONFIGURATION: return "hipErrorInvalidConfiguration";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case INVALID_IMAGE: return "hipErrorInvalidImage";
    case NO_BINARY: return "hipErrorNoBinaryForGpu";
    case NOT_FOUND: return "hipErrorNotFound";
    case OUT_OF_RESOURCES: return "hipErrorLaunchOutOfResources";
    case LAUNCH_FAILURE: return "hipErrorLaunchFailure";
    default: return "hipErrorUnknown";
    }
}

/* --- memory */
API int hipMalloc(void **p, size_t bytes);
API int hipMalloc(void **p, size_t bytes)
{
    ALONE;
    uint64_t addr = 0;
    *p = NULL;
    if (sticky || bytes == 0) return sticky;
    if (comes_now(&fail_alloc_in) || memory_alloc(&addr, bytes, ALLOC_DATA) < 0) return NO_MEMORY;
    *p = (void *)(uintptr_t)addr;
    return 0;
}
API int hipFree(void *p);
API int hipFree(void *p)
{
    ALONE;
    if (p && memory_free((uintptr_t)p) < 0)
        return wrong("hipFree", "not an address from hipMalloc, or freed before");
    return sticky;
}
API int hipExtMallocWithFlags(void **p, size_t bytes, unsigned flags);
API int hipExtMallocWithFlags(void **p, size_t bytes, unsigned flags)
{
    return flags > 1 ? INVALID_VALUE : hipMalloc(p, bytes); /* 1: fine-grained */
}
API int hipHostMalloc(void **p, size_t bytes, unsigned flags);
API int hipHostMalloc(void **p, size_t bytes, unsigned flags)
{
    ALONE;
    (void)flags;
    *p = comes_now(&fail_alloc_in) ? NULL : malloc(bytes ? bytes : 1);
    if (!*p || memory_add_host(*p, bytes) < 0) {
        free(*p);
        *p = NULL;
        return NO_MEMORY;
    }
    return sticky;
}
API int hipHostFree(void *p);
API int hipHostFree(void *p)
{
    ALONE;
    if (p && memory_remove_host(p) < 0)
        return wrong("hipHostFree", "not an address from hipHostMalloc, or freed before");
    free(p);
    return sticky;
}

static int copy(const char *call, void *dst, const void *src, size_t bytes, bool to_device,
                bool from_device)
{
    ALONE;
    void *d = to_device ? memory_host((uintptr_t)dst, bytes) : dst;
    const void *s = from_device ? memory_host((uintptr_t)src, bytes) : src;
    if (sticky || bytes == 0) return sticky;
    if (!d || !s)
        return wrong(call, !d ? "writes outside the allocations of the device"
                              : "reads outside the allocations of the device");
    memmove(d, s, bytes);
    return 0;
}
API int hipMemcpyHtoD(void *dst, const void *src, size_t bytes);
API int hipMemcpyHtoD(void *dst, const void *src, size_t bytes)
{
    return copy("hipMemcpyHtoD", dst, src, bytes, true, false);
}
API int hipMemcpyDtoH(void *dst, void *src, size_t bytes);
API int hipMemcpyDtoH(void *dst, void *src, size_t bytes)
{
    return copy("hipMemcpyDtoH", dst, src, bytes, false, true);
}
API int hipMemcpyDtoD(void *dst, void *src, size_t bytes);
API int hipMemcpyDtoD(void *dst, void *src, size_t bytes)
{
    return copy("hipMemcpyDtoD", dst, src, bytes, true, true);
}
API int hipMemcpyHtoDAsync(void *dst, const void *src, size_t bytes, void *stream);
API int hipMemcpyHtoDAsync(void *dst, const void *src, size_t bytes, void *stream)
{
    return (void)stream, hipMemcpyHtoD(dst, src, bytes);
}
API int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream);
API int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream)
{
    return (void)stream, hipMemcpyDtoH(dst, src, bytes);
}
API int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream);
API int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream)
{
    return (void)stream, hipMemcpyDtoD(dst, src, bytes);
}
static bool is_known(const void *p)
{
    ALONE;
    return memory_find((uintptr_t)p) != NULL;
}
API int hipMemcpy(void *dst, const void *src, size_t bytes, int kind);
API int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
    bool guess = kind == 4; /* hipMemcpyDefault */
    bool to = guess ? is_known(dst) : kind == 1 || kind == 3;
    bool from = guess ? is_known(src) : kind == 2 || kind == 3;
    return copy("hipMemcpy", dst, src, bytes, to, from);
}
API int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream);
API int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
    return (void)stream, hipMemcpy(dst, src, bytes, kind);
}

static int fill(void *dst, uint32_t value, size_t n, size_t size)
{
    ALONE;
    uint8_t *d = memory_host((uintptr_t)dst, n * size);
    if (sticky || n == 0) return sticky;
    if (!d) return wrong("hipMemset", "writes outside the allocations of the device");
    for (size_t k = 0; k < n; k++) memcpy(d + k * size, &value, size);
    return 0;
}
API int hipMemset(void *dst, int value, size_t bytes);
API int hipMemset(void *dst, int value, size_t bytes)
{
    return fill(dst, (uint32_t)value, bytes, 1);
}
API int hipMemsetAsync(void *dst, int value, size_t bytes, void *stream);
API int hipMemsetAsync(void *dst, int value, size_t bytes, void *stream)
{
    return (void)stream, fill(dst, (uint32_t)value, bytes, 1);
}
API int hipMemsetD8(void *dst, unsigned char value, size_t n);
API int hipMemsetD8(void *dst, unsigned char value, size_t n) { return fill(dst, value, n, 1); }
API int hipMemsetD32(void *dst, int value, size_t n);
API int hipMemsetD32(void *dst, int value, size_t n) { return fill(dst, (uint32_t)value, n, 4); }

/* --- modules and launches */
API int hipModuleLoadData(void **module, const void *image);
API int hipModuleLoadData(void **module, const void *image)
{
    ALONE;
    char why[128] = "";
    if (getenv("GFX906_ONLY_COMPILED") && ((const char *)image)[COMPILED_MARK_AT] != COMPILED_MARK)
        return NO_BINARY;
    int rc = sticky ? sticky : module_load(image, (struct module **)module, why);
    if (rc == INVALID_IMAGE) wrong("hipModuleLoadData", why);
    return rc;
}
API int hipModuleUnload(void *module);
API int hipModuleUnload(void *module)
{
    ALONE;
    module_free(module);
    return 0;
}
API int hipModuleGetFunction(void **function, void *module, const char *name);
API int hipModuleGetFunction(void **function, void *module, const char *name)
{
    return (*function = module_kernel(module, name)) ? 0 : NOT_FOUND;
}
API int hipModuleGetGlobal(void **addr, size_t *bytes, void *module, const char *name);
API int hipModuleGetGlobal(void **addr, size_t *bytes, void *module, const char *name)
{
    const struct module *m = module;
    for (int k = 0; k < m->n_symbols; k++) {
        if (!strcmp(m->symbols[k].name, name))
            return *addr = (void *)(uintptr_t)(m->base + m->symbols[k].value),
                   *bytes = m->symbols[k].size, 0;
    }
    return NOT_FOUND;
}

/* Collects the arguments as the kernel reads them; hidden ones are 0. -1: they do not fit the
 * kernel. */
static int collect_args(const struct kernel *k, void **params, void **extra, uint8_t *out)
{
    if (params) {
        for (int n = 0; n < k->n_args; n++)
            memcpy(out + k->args[n].offset, params[n], k->args[n].size);
        return 0;
    }
    const void *buffer = NULL;
    size_t bytes = 0;
    for (; extra && *extra && *extra != (void *)3; extra += 2) {
        if (extra[0] == (void *)1) buffer = extra[1];
        else if (extra[0] == (void *)2) bytes = *(size_t *)extra[1];
        else return -1;
    }
    size_t needed = 0;
    for (int n = 0; n < k->n_args; n++) {
        if (k->args[n].offset + k->args[n].size > needed)
            needed = k->args[n].offset + k->args[n].size;
    }
    if (bytes < needed || bytes > MAX_KERNARG || (needed && !buffer)) return -1;
    if (bytes) memcpy(out, buffer, bytes < k->kernarg_size ? bytes : k->kernarg_size);
    return 0;
}

/* The dispatch packet, for kernels that ask for the sizes of grid and block. */
static void fill_packet(uint8_t *p, const struct launch *l)
{
    memset(p, 0, 64);
    p[0] = 2, p[2] = 3; /* kernel dispatch, three dimensions */
    for (int d = 0; d < 3; d++) {
        uint16_t block = (uint16_t)l->block[d];
        uint32_t grid = l->grid[d] * l->block[d];
        memcpy(p + 4 + 2 * d, &block, 2);
        memcpy(p + 12 + 4 * d, &grid, 4);
    }
    memcpy(p + 24, &l->kernel->scratch_size, 4);
    memcpy(p + 28, &l->lds_size, 4);
    memcpy(p + 40, &l->kernarg, 8);
}

static int launch(struct launch *l, const uint8_t *args)
{
    uint32_t size = (l->kernel->kernarg_size + 15) & ~15u;
    if (memory_alloc(&l->kernarg, size, ALLOC_CODE) < 0 ||
        memory_alloc(&l->packet, 64, ALLOC_CODE) < 0)
        return NO_MEMORY;
    memcpy(memory_host(l->kernarg, size), args, size);
    fill_packet(memory_host(l->packet, 64), l);
    sticky = run_launch(l);
    memory_free(l->packet);
    memory_free(l->kernarg);
    return 0;
}

API int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **params, void **extra);
API int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **params, void **extra)
{
    struct kernel *k = function;
    struct launch l = {.kernel = k,
                       .grid = {gx, gy, gz},
                       .block = {bx, by, bz},
                       .lds_size = k->lds_size + shared,
                       .step_limit = step_limit};
    uint8_t args[MAX_KERNARG];
    ALONE;
    (void)stream;
    if (sticky) return sticky;
    if (comes_now(&fail_launch_in)) return LAUNCH_FAILURE;
    if (comes_now(&lose_device_in)) return sticky = UNKNOWN;
    if (!gx || !gy || !gz || !bx || !by || !bz) return INVALID_CONFIGURATION;
    uint64_t threads = (uint64_t)bx * by * bz;
    if (threads > MAX_THREADS || threads > k->max_threads)
        return wrong(k->name, "more threads in a block than the kernel was compiled for"),
               INVALID_CONFIGURATION;
    if (l.lds_size > LDS_MAX || l.lds_size < shared) return OUT_OF_RESOURCES;
    if (k->kernarg_size > MAX_KERNARG - 16) return OUT_OF_RESOURCES;
    memset(args, 0, k->kernarg_size + 16);
    if (collect_args(k, params, extra, args) < 0)
        return wrong(k->name, "the arguments do not fit the kernel");
    return launch(&l, args);
}

/* --- streams and events: all work is done in order when a call returns */
API int hipStreamCreate(void **stream);
API int hipStreamCreate(void **stream) { return (*stream = malloc(1)) ? 0 : NO_MEMORY; }
API int hipStreamCreateWithFlags(void **stream, unsigned flags);
API int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    return (void)flags, hipStreamCreate(stream);
}
API int hipStreamDestroy(void *stream);
API int hipStreamDestroy(void *stream)
{
    free(stream);
    return 0;
}
API int hipStreamSynchronize(void *stream);
API int hipStreamSynchronize(void *stream) { return (void)stream, sticky; }
API int hipStreamWaitEvent(void *stream, void *event, unsigned flags);
API int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return (void)stream, (void)event, (void)flags, sticky;
}
API int hipEventCreate(void **event);
API int hipEventCreate(void **event)
{
    return (*event = calloc(1, sizeof(struct timespec))) ? 0 : NO_MEMORY;
}
API int hipEventCreateWithFlags(void **event, unsigned flags);
API int hipEventCreateWithFlags(void **event, unsigned flags)
{
    return (void)flags, hipEventCreate(event);
}
API int hipEventDestroy(void *event);
API int hipEventDestroy(void *event)
{
    free(event);
    return 0;
}
API int hipEventRecord(void *event, void *stream);
API int hipEventRecord(void *event, void *stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    return sticky;
}
API int hipEventSynchronize(void *event);
API int hipEventSynchronize(void *event) { return (void)event, sticky; }
API int hipEventQuery(void *event);
API int hipEventQuery(void *event) { return (void)event, sticky; }
API int hipEventElapsedTime(float *ms, void *begin_event, void *end_event);
API int hipEventElapsedTime(float *ms, void *begin_event, void *end_event)
{
    const struct timespec *a = begin_event, *b = end_event;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return sticky;
}
API int hipGetLastError(void);
API int hipGetLastError(void) { return sticky; }
