/* fibers.c: a GPU runtime that runs the kernels as host code. It offers the entry points of
 * backend-hip/runtime/hip_api.h as a shared library (build/tests/bin/libhip-fibers.so), so that the
 * real host runtime loads it with --hip-library and everything above it is what a GPU would see.
 * Device memory is malloc'd to the byte where AddressSanitizer sees what a kernel does outside of
 * it; elsewhere a page without access follows each block, rounded up to 256 bytes. It
 * pretends to be one architecture, refuses code objects for anything else, and runs the functions
 * of the same names that are compiled into this library (fiber_kernels.c) instead of those in the
 * code object. A copy from pinned memory happens as late as it may: source memory that is written
 * again too early shows.
 *   FIBERS_ARCH=NAME      the architecture: gfx90a (default), another one of arch[] below, which
 *                         differ in their matrix instructions
 * Faults are injected by the environment (numbers begin at 1):
 *   FIBERS_MEMORY=BYTES   limits the device memory
 *   FIBERS_FAIL_ALLOC=N   allocation N fails, of device or pinned memory
 *   FIBERS_WRONG_LANE=1   matrix instructions give lane 1 what is lane 2's
 *   FIBERS_HANG=N         launch N never ends: no query says that it has, and a call that would
 *                         wait for it ends the process */
#include "tests/emulators/fibers/fibers_int.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { STACK_BYTES = 64 << 10 };
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    NOT_READY = 600
};

int fiber_thread, fiber_block[3], fiber_grid_x, fiber_cluster_blocks = 1;
struct fibers fibers;

unsigned long long env_number(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- fibers: each goes on with the next one itself ---- */
enum { LAUNCH = MAX_THREADS }; /* the context of hipModuleLaunchKernel */
static void (*kernel)(const void *args);
static const void *kernel_args;
static char *stacks, done[MAX_THREADS];
/* Of the pass over all threads: the first, the one after the last, the next one's distance. */
static int pass_first, pass_end, pass_step, were_done, first_block;

static void enter(void);

#if defined(__x86_64__)
static void *context[MAX_THREADS + 1];
void fiber_switch(void **save, void *to);
__asm__(".text\n.globl fiber_switch\n.hidden fiber_switch\n.type fiber_switch,@function\n"
        "fiber_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size fiber_switch,.-fiber_switch\n");

static inline void go_on(int from, int to) { fiber_switch(&context[from], context[to]); }

static void start(int t)
{
    void **s = (void **)(stacks + (size_t)(t + 1) * STACK_BYTES);
    *--s = NULL; /* enter's return address, and alignment of its stack */
    *--s = (void *)enter;
    for (int i = 0; i < 6; i++) *--s = NULL;
    context[t] = s;
}
#else
#include <ucontext.h>
static ucontext_t context[MAX_THREADS + 1];
static void go_on(int from, int to) { swapcontext(&context[from], &context[to]); }

static void start(int t)
{
    getcontext(&context[t]);
    context[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
    context[t].uc_stack.ss_size = STACK_BYTES;
    makecontext(&context[t], enter, 0);
}
#endif

static void set_self(int t)
{
    fibers.self = t;
    fibers.block = fiber_cluster_blocks == 1 ? 0 : t / fibers.n_threads;
    fiber_thread = t - fibers.block * fibers.n_threads;
    fiber_block[0] = first_block + fibers.block;
}

/* The next thread that has not returned becomes the running one; there is one. */
static int next_thread(void)
{
    int t = fibers.self;
    do {
        t += pass_step;
        if (t != pass_end) continue;
        if (!fibers.progress && fibers.n_done == were_done) {
            fprintf(stderr,
                    "fibers: %d of %d threads returned while the others wait at a barrier\n",
                    fibers.n_done, fibers.n_threads * fiber_cluster_blocks);
            abort();
        }
        fibers.progress = 0;
        were_done = fibers.n_done;
        t = pass_first;
    } while (done[t]);
    set_self(t);
    return t;
}

static void enter(void)
{
    int t = fibers.self;
    kernel(kernel_args);
    done[t] = 1;
    fibers.n_done++;
    go_on(t, fibers.n_done == fibers.n_threads * fiber_cluster_blocks ? LAUNCH : next_thread());
    abort(); /* a finished thread is never resumed */
}

void fiber_suspend(void)
{
    int from = fibers.self, to = next_thread();
    if (to != from) go_on(from, to);
}

/* The last of n to arrive continues at once. */
void fiber_arrive_and_wait(struct thread_barrier *m, int n)
{
    int number = m->number;
    if (++m->came == n) {
        m->came = 0;
        m->number++;
        fibers.progress = 1;
    }
    while (m->number == number) fiber_suspend();
}

/* All threads suspend, so that the order of run_blocks holds. */
void fiber_barrier(void)
{
    static struct thread_barrier block[MAX_BLOCKS];
    struct thread_barrier *m = &block[fiber_block_of_cluster()];
    int number = m->number;
    if (++m->came == fibers.n_threads) {
        m->came = 0;
        m->number++;
        fibers.progress = 1;
    }
    do fiber_suspend();
    while (m->number == number);
}

/* ---- memory of a block ---- */
char fiber_static_lds[MAX_BLOCKS][LDS_BYTES] __attribute__((aligned(256)));
static size_t lds_taken[MAX_THREADS];

void *fiber_lds(size_t bytes)
{
    int block = fiber_block_of_cluster();
    size_t *taken = &lds_taken[fibers.self], *high = &fibers.lds_high[block], at = *taken;
    *taken = at + (bytes + 15) / 16 * 16;
    if (*taken > LDS_BYTES) {
        fprintf(stderr, "fibers: a kernel wants more than %d bytes of shared memory\n", LDS_BYTES);
        abort();
    }
    if (*taken > *high) {
        memset(fiber_static_lds[block] + *high, 0xff,
               *taken - *high); /* the first request: the memory is uninitialized */
        *high = *taken;
    }
    return fiber_static_lds[block] + at;
}

/* Between two barriers the threads run one after the other, in ascending order in one block and
 * descending in the next: a kernel that lacks a barrier cannot depend on one order. The blocks of a
 * cluster run side by side. */
static void run_blocks(int x, int y, int z)
{
    int all = fibers.n_threads * fiber_cluster_blocks,
        descending = (x / fiber_cluster_blocks + y + z) & 1;
    memset(done, 0, (size_t)all);
    memset(lds_taken, 0, (size_t)all * sizeof *lds_taken);
    memset(fibers.lds_high, 0, sizeof fibers.lds_high);
    fibers.n_done = fibers.progress = were_done = 0;
    fiber_matrix_begin();
    for (int t = 0; t < all; t++) start(t);
    pass_first = descending ? all - 1 : 0;
    pass_end = descending ? -1 : all;
    pass_step = descending ? -1 : 1;
    first_block = x, fiber_block[1] = y, fiber_block[2] = z;
    set_self(pass_first);
    go_on(LAUNCH, pass_first);
}

/* ---- the runtime's entry points; prototypes of backend-hip/runtime/hip_api.h ---- */
static size_t allocated;

static size_t memory_limit(void) { return env_number("FIBERS_MEMORY", 8ull << 30); }

static int allocation_fails(void)
{
    static unsigned long long n;
    return ++n == env_number("FIBERS_FAIL_ALLOC", 0);
}

static unsigned long long n_launches;

static int hangs(void) { return n_launches && n_launches >= env_number("FIBERS_HANG", ~0ull); }

static void would_block(const char *call)
{
    if (!hangs()) return;
    fprintf(stderr, "fibers: %s waits for ever\n", call);
    abort();
}

/* Copies from pinned memory that are still to be made. */
enum { MAX_PENDING = 64 };
static struct {
    void *d;
    const void *src;
    size_t bytes;
} pending[MAX_PENDING];
static int n_pending;

static void copy_pending(void)
{
    for (int i = 0; i < n_pending; i++) memcpy(pending[i].d, pending[i].src, pending[i].bytes);
    n_pending = 0;
}

/* Copies to the host arrive when an event after them is found complete; until then the destination
 * has other contents. */
static struct {
    void *dst, *copy;
    size_t bytes;
} arriving[MAX_PENDING];
static unsigned n_sent, n_arrived;

static void arrive(unsigned n)
{
    for (; n_arrived < n; n_arrived++) {
        memcpy(arriving[n_arrived % MAX_PENDING].dst, arriving[n_arrived % MAX_PENDING].copy,
               arriving[n_arrived % MAX_PENDING].bytes);
        free(arriving[n_arrived % MAX_PENDING].copy);
    }
}

#ifdef FIBERS_CUDA                                /* 80 or 90: the architecture */
#define API __attribute__((visibility("hidden"))) /* fiber_cuda.c */
#define FIBERS_TARGET (FIBERS_CUDA >= 90 ? "sm_90a" : "sm_80")
enum { IS_CUDA = 1 };
#else
#define FIBERS_TARGET ""
#define API __attribute__((visibility("default")))
enum { IS_CUDA = 0 };
#endif
API int hipInit(unsigned flags);
API int hipGetDeviceCount(int *n);
API int hipDeviceGet(int *device, int ordinal);
API int hipDeviceGetName(char *name, int bytes, int device);
API int hipDeviceTotalMem(size_t *bytes, int device);
API int hipSetDevice(int ordinal);
API int hipMemGetInfo(size_t *left, size_t *total);
API int hipMalloc(void **d, size_t bytes);
API int hipFree(void *d);
API int hipMemcpyHtoD(void *d, const void *src, size_t bytes);
API int hipMemcpyDtoH(void *dst, void *d, size_t bytes);
API int hipMemsetD8(void *d, unsigned char value, size_t n);
API int hipMemcpyDtoD(void *d, void *src, size_t bytes);
API int hipHostMalloc(void **p, size_t bytes, unsigned flags);
API int hipHostFree(void *p);
API int hipMemcpyHtoDAsync(void *d, const void *src, size_t bytes, void *stream);
API int hipMemcpyDtoHAsync(void *dst, void *d, size_t bytes, void *stream);
API int hipEventCreateWithFlags(void **event, unsigned flags);
API int hipEventDestroy(void *event);
API int hipEventRecord(void *event, void *stream);
API int hipEventQuery(void *event);
API int hipEventElapsedTime(float *ms, void *from, void *to);
API int hipModuleLoadData(void **module, const void *image);
API int hipModuleUnload(void *module);
API int hipModuleGetFunction(void **f, void *module, const char *name);
API int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **params, void **extra);
API const char *hipGetErrorString(int code);

int hipInit(unsigned flags)
{
    (void)flags;
    return OK;
}

int hipGetDeviceCount(int *n)
{
    *n = 1;
    return OK;
}

int hipDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? INVALID_VALUE : OK;
}

int hipDeviceGetName(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "fibers");
    return OK;
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
    (void)device;
    *bytes = memory_limit();
    return OK;
}

int hipSetDevice(int ordinal) { return ordinal ? INVALID_VALUE : OK; }

int hipMemGetInfo(size_t *left, size_t *total)
{
    *total = memory_limit();
    *left = *total - allocated;
    return OK;
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

/* The length is stored 256 bytes before the block. */
int hipMalloc(void **d, size_t bytes)
{
    char *p;
    if (allocation_fails() || bytes > memory_limit() - allocated || !(p = block_new(bytes)))
        return OUT_OF_MEMORY;
    memcpy(p, &bytes, sizeof bytes);
    allocated += bytes;
    *d = p + 256;
    return OK;
}

int hipFree(void *d)
{
    size_t bytes;
    would_block("hipFree");
    copy_pending();
    memcpy(&bytes, (char *)d - 256, sizeof bytes);
    allocated -= bytes;
    block_free((char *)d - 256, bytes);
    return OK;
}

int hipMemcpyHtoD(void *d, const void *src, size_t bytes)
{
    would_block("hipMemcpyHtoD");
    copy_pending();
    memcpy(d, src, bytes);
    return OK;
}

int hipMemcpyDtoH(void *dst, void *d, size_t bytes)
{
    would_block("hipMemcpyDtoH");
    copy_pending();
    memcpy(dst, d, bytes);
    return OK;
}

int hipMemcpyDtoD(void *d, void *src, size_t bytes)
{
    copy_pending();
    memcpy(d, src, bytes);
    return OK;
}

int hipMemsetD8(void *d, unsigned char value, size_t n)
{
    copy_pending();
    memset(d, value, n);
    return OK;
}

int hipHostMalloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    *p = allocation_fails() ? NULL : malloc(bytes);
    return *p ? OK : OUT_OF_MEMORY;
}

int hipHostFree(void *p)
{
    would_block("hipHostFree");
    copy_pending();
    arrive(n_sent);
    free(p);
    return OK;
}

int hipMemcpyHtoDAsync(void *d, const void *src, size_t bytes, void *stream)
{
    if (stream && !IS_CUDA) return INVALID_VALUE;
    if (n_pending == MAX_PENDING) copy_pending();
    pending[n_pending].d = d;
    pending[n_pending].src = src;
    pending[n_pending++].bytes = bytes;
    return OK;
}

int hipMemcpyDtoHAsync(void *dst, void *d, size_t bytes, void *stream)
{
    if (stream && !IS_CUDA) return INVALID_VALUE;
    void *copy = malloc(bytes);
    if (!copy) return OUT_OF_MEMORY;
    copy_pending();
    memcpy(copy, d, bytes);
    memset(dst, 0xa5, bytes);
    if (n_sent - n_arrived == MAX_PENDING) arrive(n_arrived + 1);
    arriving[n_sent % MAX_PENDING].dst = dst;
    arriving[n_sent % MAX_PENDING].copy = copy;
    arriving[n_sent++ % MAX_PENDING].bytes = bytes;
    return OK;
}

/* An event: the time of its recording, the work issued before it, and whether a launch that never
 * ends precedes it. */
struct event {
    struct timespec time;
    unsigned n_sent;
    int never;
};

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    return (*event = calloc(1, sizeof(struct event))) ? OK : OUT_OF_MEMORY;
}

int hipEventDestroy(void *event)
{
    free(event);
    return OK;
}

int hipEventRecord(void *event, void *stream)
{
    (void)stream;
    struct event *e = event;
    clock_gettime(CLOCK_MONOTONIC, &e->time);
    e->n_sent = n_sent;
    e->never = hangs();
    return OK;
}

int hipEventQuery(void *event)
{
    const struct event *e = event;
    if (e->never) return NOT_READY;
    copy_pending();
    arrive(e->n_sent);
    return OK;
}

int hipEventElapsedTime(float *ms, void *from, void *to)
{
    const struct timespec *a = &((struct event *)from)->time, *b = &((struct event *)to)->time;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return OK;
}

static const char *names_of; /* the image whose kernels `names` has */

/* Accepts only an ELF file for EM_AMDGPU whose flags name the architecture; PTX is copied. */
int hipModuleLoadData(void **module, const void *image)
{
    enum { MACHINE_AT = 18, FLAGS_AT = 48, EM_AMDGPU = 224 };
    static const struct {
        const char *name;
        uint8_t flags;
    } arch[] = {{"gfx90a", 0x3f},  {"gfx906", 0x2f},  {"gfx908", 0x30}, {"gfx942", 0x4c},
                {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}};
    const uint8_t *p = image;
    const char *name = getenv("FIBERS_ARCH");
    if (IS_CUDA) { /* PTX, a text */
        char target[64];
        snprintf(target, sizeof target, ".target %s\n", FIBERS_TARGET);
        if (!strstr(image, target)) return NO_BINARY;
        *module = strdup(image);
        names_of = NULL;
        return *module ? OK : OUT_OF_MEMORY;
    }
    size_t i = 0;
    while (name && i < sizeof arch / sizeof *arch - 1 && strcmp(arch[i].name, name)) i++;
    if (memcmp(p, "\177ELF\2\1", 6) || p[MACHINE_AT] != EM_AMDGPU || p[FLAGS_AT] != arch[i].flags)
        return NO_BINARY;
    *module = (void *)(uintptr_t)image;
    return OK;
}

int hipModuleUnload(void *module)
{
    if (IS_CUDA) free(module);
    return OK;
}

/* Where the names of the last image's kernels begin: in PTX behind ".entry ", in a code object's
 * strings ahead of ".kd". It has megabytes and is searched once, not for each name. */
enum { MAX_NAMES = 2048 };
static const char *names[MAX_NAMES];
static int n_names;

static void add_name(const char *name)
{
    if (n_names < MAX_NAMES) names[n_names++] = name;
}

/* By hand: the sanitizers' strstr() measures the whole text first. */
static void find_entries(const char *text)
{
    static const char entry[] = ".entry ";
    for (const char *p = text; *p; p++)
        if (p[0] == '.' && p[1] == 'e' && !strncmp(p, entry, sizeof entry - 1))
            add_name(p + sizeof entry - 1);
}

static void find_descriptors(const char *image)
{
    enum { SECTIONS_AT = 40, SECTION_BYTES_AT = 58, N_SECTIONS_AT = 60 };
    uint64_t bytes;
    uint16_t each, n;
    memcpy(&bytes, image + SECTIONS_AT, sizeof bytes);
    memcpy(&each, image + SECTION_BYTES_AT, sizeof each);
    memcpy(&n, image + N_SECTIONS_AT, sizeof n);
    const char *end = image + bytes + (uint64_t)each * n;
    for (const char *p = image; (p = memmem(p, (size_t)(end - p), ".kd", sizeof ".kd")); p++) {
        const char *name = p;
        while (name > image && name[-1]) name--;
        add_name(name);
    }
}

/* 1 if the image has a kernel of this name. */
static int image_has(const char *image, const char *name)
{
    size_t n = strlen(name);
    if (names_of != image) {
        n_names = 0;
        if (IS_CUDA) find_entries(image);
        else find_descriptors(image);
        names_of = image;
    }
    for (int i = 0; i < n_names; i++)
        if (!strncmp(names[i], name, n) &&
            (IS_CUDA ? names[i][n] == '(' : !strcmp(names[i] + n, ".kd")))
            return 1;
    return 0;
}

int hipModuleGetFunction(void **f, void *module, const char *name)
{
    Dl_info self;
    if (!image_has(module, name) || !dladdr((void *)hipInit, &self)) return NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *f = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    return *f ? OK : NOT_FOUND;
}

int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    if (!bx || bx * (unsigned)fiber_cluster_blocks > MAX_THREADS ||
        gx % (unsigned)fiber_cluster_blocks || by != 1 || bz != 1 || params ||
        extra[0] != (void *)1 || extra[2] != (void *)2)
        return INVALID_VALUE;
    if (IS_CUDA ? shared > DYNAMIC_BYTES || bx % 32 || extra[4]
                : shared || stream || extra[4] != (void *)3)
        return INVALID_VALUE;
    static char args[1024] __attribute__((aligned(16)));
    size_t bytes = *(size_t *)extra[3];
    if (bytes > sizeof args) return INVALID_VALUE;
    n_launches++;
    if (hangs()) return OK;
    copy_pending();
    memcpy(args, extra[1], bytes);
    if (!stacks) {
        stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return OUT_OF_MEMORY;
    }
    kernel = (void (*)(const void *))f;
    kernel_args = args;
    fibers.n_threads = (int)bx;
    fiber_grid_x = (int)gx;
    fibers.dynamic_bytes = shared;
    for (unsigned z = 0; z < gz; z++)
        for (unsigned y = 0; y < gy; y++)
            for (unsigned x = 0; x < gx; x += (unsigned)fiber_cluster_blocks)
                run_blocks((int)x, (int)y, (int)z);
    return OK;
}

const char *hipGetErrorString(int code)
{
    return code == NO_BINARY       ? "no binary for this device"
           : code == OUT_OF_MEMORY ? "out of memory"
           : code == NOT_FOUND     ? "no such kernel"
                                   : "invalid value";
}
