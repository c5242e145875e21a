/* fiber_runtime.c: a GPU runtime that runs the kernels as host code. It offers the entry points of
 * backend-hip/runtime/hip_api.h as a shared library (build/tests/bin/libhip-fibers.so), so that the
 * real host runtime loads it with --hip-library and everything above it is what a GPU would see.
 * Device memory is malloc'd to the byte where AddressSanitizer sees what a kernel does outside of
 * it; elsewhere a page without access follows each block, rounded up to 256 bytes. It
 * pretends to be one architecture, refuses code objects for anything else, and runs the functions
 * of the same names that are compiled into this library (fiber_kernels.c) instead of those in the
 * code object. A copy from pinned memory happens as late as it may: source memory that is written
 * again too early shows.
 * Launches run in the thread that makes them (fibers.c).
 *   FIBERS_ARCH=NAME      the architecture: gfx90a (default), another one of arch[] below, which
 *                         differ in their matrix instructions
 *   FIBERS_DEVICES=N      devices, one if not given; then NAME and each number below may be a list
 *                         with commas, one for each device ("" for none)
 *   FIBERS_NAME=TEXT      the device's name, fibers if not given
 *   FIBERS_SLOW=N         an event is found complete by its query N
 *   FIBERS_LATE=N         a launch begins N us later
 *   FIBERS_PEER=none      no device reaches another one's memory; corrupt: copies between devices,
 *                         and some of what kernels store there, change a bit
 *   FIBERS_XGMI=1         devices of AMD have links of their own
 * Faults are injected by the environment (numbers begin at 1):
 *   FIBERS_MEMORY=BYTES   limits the device memory
 *   FIBERS_FAIL_ALLOC=N   allocation N fails, of device or pinned memory
 *   FIBERS_FAIL_COPY=N    copy N between host and device in a stream fails
 *   FIBERS_WRONG_LANE=1   matrix instructions give lane 1 what is lane 2's
 *   FIBERS_LOST=N         launch N and every call after it fails
 *   FIBERS_NO_PIN=1       memory of the host cannot be page-locked afterwards
 *   FIBERS_HANG=N         launch N never ends: no query says that it has, and a call that would
 *                         wait for it ends the process */
#include "tests/emulators/fibers/fiber_api.h"
#include "tests/emulators/fibers/fibers_int.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_ARGS = 1024 };
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_BINARY = 209,
    NO_DEVICE = 101,
    NO_CONTEXT = 201,
    OTHER_DEVICE = 400, /* a handle that is another device's */
    NOT_FOUND = 500,
    NOT_READY = 600,
    NO_PEER = 217,
    IS_PEER = 704,
    LAUNCH_FAILED = 719
};

/* ---- the runtime's entry points; prototypes of backend-hip/runtime/hip_api.h ---- */
/* Copies from pinned memory that are still to be made, and copies to the host: these arrive when an
 * event after them is found complete; until then the destination has other contents. */
enum { MAX_PENDING = 64 };

static struct device {
    pthread_mutex_t lock; /* of what follows; not held while kernels run */
    size_t allocated;
    unsigned long long n_allocations, n_copies, n_launches;
    struct {
        void *d;
        const void *src;
        size_t bytes;
    } pending[MAX_PENDING];
    int n_pending;
    struct {
        void *dst, *copy;
        size_t bytes;
    } arriving[MAX_PENDING];
    unsigned n_sent, n_arrived;
    struct {
        void *d;
        const void *src;
        size_t bytes;
    } late[MAX_PENDING]; /* of the stream of copies: number i in i % MAX_PENDING */
    unsigned n_late, n_here;
    int peer[MAX_DEVICES]; /* whose memory this one may reach */
} devices[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

int fiber_device_count(void)
{
    unsigned long long n = env_number("FIBERS_DEVICES", 1);
    return n < MAX_DEVICES ? (int)n : MAX_DEVICES;
}

static int number_of(const struct device *v) { return (int)(v - devices); }

static size_t memory_limit(int device) { return env_of("FIBERS_MEMORY", device, 8ull << 30); }

static int allocation_fails(struct device *v)
{
    return ++v->n_allocations == env_of("FIBERS_FAIL_ALLOC", number_of(v), 0);
}

static int copy_fails(struct device *v)
{
    return ++v->n_copies == env_of("FIBERS_FAIL_COPY", number_of(v), 0);
}

static int is_at_launch(const struct device *v, const char *fault)
{
    return v->n_launches && v->n_launches >= env_of(fault, number_of(v), ~0ull);
}

static int hangs(const struct device *v) { return is_at_launch(v, "FIBERS_HANG"); }

static void would_block(const struct device *v, const char *call)
{
    if (!hangs(v)) return;
    fprintf(stderr, "fibers: %s waits for ever\n", call);
    abort();
}

static void copy_pending(struct device *v)
{
    for (int i = 0; i < v->n_pending; i++)
        memcpy(v->pending[i].d, v->pending[i].src, v->pending[i].bytes);
    v->n_pending = 0;
}

static void arrive(struct device *v, unsigned n)
{
    for (; v->n_arrived < n; v->n_arrived++) {
        unsigned i = v->n_arrived % MAX_PENDING;
        memcpy(v->arriving[i].dst, v->arriving[i].copy, v->arriving[i].bytes);
        free(v->arriving[i].copy);
    }
}

/* Begins a call of this thread's device; what is no 0 is the call's answer. */
static int device_begin(struct device **out)
{
    if (fiber_device < 0) return NO_CONTEXT;
    struct device *v = *out = &devices[fiber_device];
    pthread_mutex_lock(&v->lock);
    if (!is_at_launch(v, "FIBERS_LOST")) return OK;
    pthread_mutex_unlock(&v->lock);
    return LAUNCH_FAILED;
}

static int device_end(struct device *v, int code)
{
    pthread_mutex_unlock(&v->lock);
    return code;
}

FIBER_LOCAL int fiber_device = IS_CUDA ? -1 : 0;

int hipInit(unsigned flags)
{
    (void)flags;
    return OK;
}

int hipGetDeviceCount(int *n)
{
    *n = fiber_device_count();
    return OK;
}

static int there_is(int ordinal) { return ordinal >= 0 && ordinal < fiber_device_count(); }

int hipDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return there_is(ordinal) ? OK : NO_DEVICE;
}

int hipDeviceGetName(char *name, int bytes, int device)
{
    size_t length = 0;
    const char *text = env_item("FIBERS_NAME", device, &length);
    snprintf(name, (size_t)bytes, "%.*s", text ? (int)length : 6, text ? text : "fibers");
    return OK;
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
    *bytes = memory_limit(device);
    return OK;
}

int hipSetDevice(int ordinal)
{
    if (!there_is(ordinal)) return NO_DEVICE;
    fiber_device = ordinal;
    return OK;
}

int hipMemGetInfo(size_t *left, size_t *total)
{
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    *total = memory_limit(number_of(v));
    *left = *total - v->allocated;
    return device_end(v, OK);
}

enum { BLOCK_PAGE = 4096 };
#ifndef __SANITIZE_ADDRESS__
static size_t block_pages(size_t bytes)
{
    return ((bytes + 255) / 256 * 256 + 256 + BLOCK_PAGE - 1) / BLOCK_PAGE * BLOCK_PAGE;
}
#endif

/* Memory of `bytes` behind 256 bytes; NULL: there is none. */
static char *block_new(size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    char *p;
    return posix_memalign((void **)&p, 256, bytes + 256) ? NULL : p;
#else
    size_t n = block_pages(bytes);
    char *p = mmap(NULL, n + BLOCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0);
    if (p == MAP_FAILED) return NULL;
    if (mprotect(p + n, BLOCK_PAGE, PROT_NONE)) abort();
    return p + n - (bytes + 255) / 256 * 256 - 256;
#endif
}

static void block_free(char *p, size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    (void)bytes;
    free(p);
#else
    size_t n = block_pages(bytes);
    munmap(p + 256 + (bytes + 255) / 256 * 256 - n, n + BLOCK_PAGE);
#endif
}

/* Stored 256 bytes before a block. */
struct block_header {
    size_t bytes;
    int device;
};

int hipMalloc(void **d, size_t bytes)
{
    struct device *v;
    char *p;
    int code = device_begin(&v);
    if (code) return code;
    if (allocation_fails(v) || bytes > memory_limit(number_of(v)) - v->allocated ||
        !(p = block_new(bytes)))
        return device_end(v, OUT_OF_MEMORY);
    memcpy(p, &(struct block_header){bytes, number_of(v)}, sizeof(struct block_header));
    v->allocated += bytes;
    *d = p + 256;
    return device_end(v, OK);
}

int hipFree(void *d)
{
    struct block_header header;
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    would_block(v, "hipFree");
    copy_pending(v);
    memcpy(&header, (char *)d - 256, sizeof header);
    if (header.device != number_of(v)) return device_end(v, OTHER_DEVICE);
    v->allocated -= header.bytes;
    block_free((char *)d - 256, header.bytes);
    return device_end(v, OK);
}

/* A call that waits for all earlier work of the device. */
static int wait_begin(struct device **v, const char *call)
{
    int code = device_begin(v);
    if (code) return code;
    would_block(*v, call);
    copy_pending(*v);
    return OK;
}

int hipMemcpyHtoD(void *d, const void *src, size_t bytes)
{
    struct device *v;
    int code = wait_begin(&v, "hipMemcpyHtoD");
    if (code) return code;
    memcpy(d, src, bytes);
    return device_end(v, OK);
}

int hipMemcpyDtoH(void *dst, void *d, size_t bytes)
{
    struct device *v;
    int code = wait_begin(&v, "hipMemcpyDtoH");
    if (code) return code;
    memcpy(dst, d, bytes);
    return device_end(v, OK);
}

int hipMemcpyDtoDAsync(void *d, void *src, size_t bytes, void *stream)
{
    struct device *v;
    int code = device_begin(&v);
    (void)stream;
    if (code) return code;
    copy_pending(v);
    memcpy(d, src, bytes);
    return device_end(v, OK);
}

int hipMemcpyDtoD(void *d, void *src, size_t bytes)
{
    return hipMemcpyDtoDAsync(d, src, bytes, NULL);
}

/* Whole pages of zeros need no memory before they are used: a backend has megabytes of scratch. */
static void fill(char *d, unsigned char value, size_t n)
{
    enum { MANY = 16 * BLOCK_PAGE };
    size_t ahead = -(uintptr_t)d % BLOCK_PAGE, pages = n < MANY ? 0 : (n - ahead) / BLOCK_PAGE;
    size_t whole = pages * BLOCK_PAGE;
    if (value || !whole || madvise(d + ahead, whole, MADV_DONTNEED)) {
        memset(d, value, n);
        return;
    }
    memset(d, 0, ahead);
    memset(d + ahead + whole, 0, n - ahead - whole);
}

int hipMemsetD8(void *d, unsigned char value, size_t n)
{
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    copy_pending(v);
    fill(d, value, n);
    return device_end(v, OK);
}

/* Memory of the host that was allocated last; what is freed may stay in the list. */
enum { MAX_HOST = 256 };
static struct {
    const char *p;
    size_t bytes;
} host[MAX_HOST];
static unsigned n_host;

static int is_of_host(const void *p)
{
    const char *at = p;
    for (int i = 0; i < MAX_HOST; i++)
        if (host[i].p && at >= host[i].p && at < host[i].p + host[i].bytes) return 1;
    return 0;
}

int hipHostMalloc(void **p, size_t bytes, unsigned flags)
{
    struct device *v;
    int code = device_begin(&v);
    (void)flags;
    if (code) return code;
    *p = allocation_fails(v) ? NULL : malloc(bytes);
    unsigned i = __atomic_fetch_add(&n_host, 1, __ATOMIC_RELAXED) % MAX_HOST;
    host[i].p = *p;
    host[i].bytes = bytes;
    return device_end(v, *p ? OK : OUT_OF_MEMORY);
}

int hipHostFree(void *p)
{
    struct device *v;
    int code = wait_begin(&v, "hipHostFree");
    if (code) return code;
    arrive(v, v->n_sent);
    free(p);
    return device_end(v, OK);
}

/* Copies of a stream of their own come when the device waits for them, not before. */
static int stream_of_copies, stream_of_launches;

static void come(struct device *v, unsigned n)
{
    for (; (int)(n - v->n_here) > 0; v->n_here++) {
        unsigned i = v->n_here % MAX_PENDING;
        memcpy(v->late[i].d, v->late[i].src, v->late[i].bytes);
    }
}

static int copy_late(struct device *v, void *d, const void *src, size_t bytes)
{
    if (v->n_late - v->n_here == MAX_PENDING) come(v, v->n_here + 1);
    unsigned i = v->n_late++ % MAX_PENDING;
    v->late[i].d = d;
    v->late[i].src = src;
    v->late[i].bytes = bytes;
    return OK;
}

/* One that does not wait for the NULL stream is for copies; others are in order like that. */
int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    *stream = flags ? &stream_of_copies : &stream_of_launches;
    return OK;
}

static int is_for_launches(const void *stream)
{
    return !stream || IS_CUDA || stream == &stream_of_launches;
}

int hipMemcpyHtoDAsync(void *d, const void *src, size_t bytes, void *stream)
{
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    if (copy_fails(v)) return device_end(v, INVALID_VALUE);
    if (stream == &stream_of_copies) return device_end(v, copy_late(v, d, src, bytes));
    if (!is_for_launches(stream)) return device_end(v, INVALID_VALUE);
    if (v->n_pending == MAX_PENDING) copy_pending(v);
    v->pending[v->n_pending].d = d;
    v->pending[v->n_pending].src = src;
    v->pending[v->n_pending++].bytes = bytes;
    return device_end(v, OK);
}

int hipMemcpyDtoHAsync(void *dst, void *d, size_t bytes, void *stream)
{
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    if (copy_fails(v)) return device_end(v, INVALID_VALUE);
    void *copy = malloc(bytes);
    if (!copy || !is_for_launches(stream)) {
        free(copy);
        return device_end(v, copy ? INVALID_VALUE : OUT_OF_MEMORY);
    }
    copy_pending(v);
    memcpy(copy, d, bytes);
    memset(dst, 0xa5, bytes);
    if (v->n_sent - v->n_arrived == MAX_PENDING) arrive(v, v->n_arrived + 1);
    v->arriving[v->n_sent % MAX_PENDING].dst = dst;
    v->arriving[v->n_sent % MAX_PENDING].copy = copy;
    v->arriving[v->n_sent++ % MAX_PENDING].bytes = bytes;
    return device_end(v, OK);
}

/* ---- devices beside each other ---- */
static int peers_are(const char *what)
{
    const char *text = getenv("FIBERS_PEER");
    return text && !strcmp(text, what);
}

int hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer && there_is(device) && there_is(peer) && !peers_are("none");
    return OK;
}

int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    struct device *v;
    int can, code = device_begin(&v);
    (void)flags;
    if (code) return code;
    hipDeviceCanAccessPeer(&can, number_of(v), peer);
    if (!can || v->peer[peer]) return device_end(v, can ? IS_PEER : NO_PEER);
    v->peer[peer] = 1;
    return device_end(v, OK);
}

int hipExtMallocWithFlags(void **d, size_t bytes, unsigned flags)
{
    (void)flags;
    return hipMalloc(d, bytes);
}

int hipExtGetLinkTypeAndHopCount(int device, int peer, unsigned *type, unsigned *hops)
{
    (void)device, (void)peer;
    *type = env_number("FIBERS_XGMI", 0) ? 4 : 2;
    *hops = 1;
    return OK;
}

/* Whether what is stored at p is to be corrupted. */
static int corrupts(const void *p)
{
    enum { EACH = 5003 };
    static FIBER_LOCAL unsigned n;
    return ++n % EACH == 0 && peers_are("corrupt") && !is_of_host(p);
}

void fiber_send(void *p, const void *bytes)
{
    enum { WORDS = 4 };
    unsigned word[WORDS];
    memcpy(word, bytes, sizeof word);
    if (corrupts(p)) word[1] ^= 1u << 20;
    memcpy(p, word, sizeof word);
}

void fiber_send_8(unsigned long long *p, unsigned long long v)
{
    __atomic_store_n(p, corrupts(p) ? v ^ 1u << 20 : v, __ATOMIC_RELAXED);
}

int hipMemcpyPeerAsync(void *d, int to, const void *src, int from, size_t bytes, void *stream)
{
    int code = hipMemcpyDtoDAsync(d, (void *)src, bytes, stream);
    if (!code && bytes && to != from && peers_are("corrupt")) ((char *)d)[bytes / 2] ^= 4;
    return code;
}

int hipHostGetDevicePointer(void **d, void *p, unsigned flags)
{
    (void)flags;
    *d = p;
    return OK;
}

int hipHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    return env_number("FIBERS_NO_PIN", 0) ? OUT_OF_MEMORY : OK;
}

int hipHostUnregister(void *p)
{
    (void)p;
    return OK;
}

/* ---- events ---- */
/* The time of its recording, the work issued before it, and whether a launch that never ends
 * precedes it. */
struct event {
    struct timespec time;
    unsigned n_sent, n_late;
    int never, device;
    unsigned long long n_queries;
};

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    struct event *e = calloc(1, sizeof *e);
    (void)flags;
    if (!e) return OUT_OF_MEMORY;
    e->device = fiber_device;
    *event = e;
    return OK;
}

int hipEventDestroy(void *event)
{
    free(event);
    return OK;
}

int hipEventRecord(void *event, void *stream)
{
    struct event *e = event;
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    if (e->device != number_of(v)) return device_end(v, OTHER_DEVICE);
    clock_gettime(CLOCK_MONOTONIC, &e->time);
    e->n_sent = v->n_sent;
    e->n_late = stream == &stream_of_copies ? v->n_late : v->n_here;
    e->never = hangs(v);
    e->n_queries = 0;
    return device_end(v, OK);
}

/* Of any device. */
int hipEventQuery(void *event)
{
    struct event *e = event;
    struct device *v = &devices[e->device < 0 ? 0 : e->device];
    pthread_mutex_lock(&v->lock);
    if (is_at_launch(v, "FIBERS_LOST")) return device_end(v, LAUNCH_FAILED);
    if (e->never || ++e->n_queries < env_of("FIBERS_SLOW", e->device, 0))
        return device_end(v, NOT_READY);
    copy_pending(v);
    come(v, e->n_late);
    arrive(v, e->n_sent);
    return device_end(v, OK);
}

/* Launches have ended when their call returns, so an event that was recorded is complete. */
int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct event *e = event;
    struct device *v = &devices[e->device < 0 ? 0 : e->device];
    (void)flags;
    if (stream == &stream_of_copies) return OK;
    pthread_mutex_lock(&v->lock);
    come(v, e->n_late);
    return device_end(v, OK);
}

int hipEventElapsedTime(float *ms, void *from, void *to)
{
    const struct timespec *a = &((struct event *)from)->time, *b = &((struct event *)to)->time;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return OK;
}

/* ---- modules ---- */
struct function {
    void *code;
    int device;
    struct function *next;
};

struct module {
    const char *image;
    int device;
    char *text; /* of PTX, a copy */
    struct function *functions;
};

int hipModuleLoadData(void **module, const void *image)
{
    if (fiber_device < 0) return NO_CONTEXT;
    if (!fiber_image_fits(image, fiber_device)) return NO_BINARY;
    struct module *m = calloc(1, sizeof *m);
    if (!m) return OUT_OF_MEMORY;
    m->device = fiber_device;
    if (IS_CUDA) m->text = strdup(image);
    m->image = IS_CUDA ? m->text : image;
    if (!m->image) {
        free(m);
        return OUT_OF_MEMORY;
    }
    *module = m;
    return OK;
}

int hipModuleUnload(void *module)
{
    struct module *m = module;
    fiber_image_forget(m->image);
    for (struct function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(m->text);
    free(m);
    return OK;
}

int hipModuleGetFunction(void **f, void *module, const char *name)
{
    struct module *m = module;
    Dl_info self;
    if (!fiber_image_has(m->image, name) || !dladdr((void *)hipInit, &self)) return NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *code = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    if (!code) return NOT_FOUND;
    struct function *of = malloc(sizeof *of);
    if (!of) return OUT_OF_MEMORY;
    *of = (struct function){code, m->device, m->functions};
    *f = m->functions = of;
    return OK;
}

int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    if (!bx || bx * (unsigned)fiber_cluster_blocks > MAX_THREADS ||
        gx % (unsigned)fiber_cluster_blocks || by != 1 || bz != 1 || params ||
        extra[0] != (void *)1 || extra[2] != (void *)2)
        return INVALID_VALUE;
    if (IS_CUDA ? shared > DYNAMIC_BYTES || bx % 32 || extra[4]
                : shared || !is_for_launches(stream) || extra[4] != (void *)3)
        return INVALID_VALUE;
    static FIBER_LOCAL char *args; /* [1024] */
    size_t bytes = *(size_t *)extra[3];
    if (bytes > MAX_ARGS) return INVALID_VALUE;
    struct device *v;
    int code = device_begin(&v);
    if (code) return code;
    if (((struct function *)f)->device != number_of(v)) return device_end(v, OTHER_DEVICE);
    v->n_launches++;
    if (is_at_launch(v, "FIBERS_LOST")) return device_end(v, LAUNCH_FAILED);
    if (hangs(v)) return device_end(v, OK);
    copy_pending(v);
    unsigned long long late = env_of("FIBERS_LATE", number_of(v), 0);
    device_end(v, OK);
    if (late) nanosleep(&(struct timespec){0, (long)late * 1000}, NULL);
    if (!args) args = fiber_memory(MAX_ARGS);
    memcpy(args, extra[1], bytes);
    fibers.dynamic_bytes = shared;
    fiber_run(((struct function *)f)->code, args, (unsigned[]){gx, gy, gz}, (int)bx);
    return OK;
}

const char *hipGetErrorString(int code)
{
    return code == NO_BINARY       ? "no binary for this device"
           : code == OUT_OF_MEMORY ? "out of memory"
           : code == NOT_FOUND     ? "no such kernel"
           : code == NO_DEVICE     ? "invalid device ordinal"
           : code == NO_CONTEXT    ? "invalid device context"
           : code == OTHER_DEVICE  ? "invalid resource handle"
           : code == LAUNCH_FAILED ? "unspecified launch failure"
                                   : "invalid value";
}
