/* fibers.c: a GPU runtime that runs the kernels as host code. It offers the entry points of backend-hip/hip_api.h as a
 * shared library (build/tests/libhip-fibers.so), so that the real host runtime loads it with --hip-library and everything
 * above it is what a GPU would see. Device memory is malloc'd to the byte: AddressSanitizer sees what a kernel does
 * outside of it. It pretends to be one architecture, refuses code objects for anything else, and runs the functions of the same
 * names that are compiled into this library (fiber_kernels.c) instead of those in the code object. A copy from pinned memory
 * happens as late as it may: source memory that is written again too early shows.
 *   FIBERS_ARCH=NAME      which: gfx90a (if not said), gfx1030, gfx1100, gfx1201; they differ in their matrix instructions. For
 *                         CUDA (libcuda-fibers.so, fiber_cuda.c) sm_80
 * What goes wrong is asked for in the environment (a number, the first is 1):
 *   FIBERS_MEMORY=BYTES   limits the device memory
 *   FIBERS_FAIL_ALLOC=N   allocation N fails, of device or pinned memory
 *   FIBERS_WRONG_LANE=1   matrix instructions give lane 1 what is lane 2's
 *   FIBERS_HANG=N         launch N never ends: no query says that it has, and a call that would wait for it ends the process */
#include "tests/fibers.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 256, STACK_BYTES = 64 << 10, LDS_BYTES = 64 << 10 };
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_BINARY = 209, NOT_FOUND = 500, NOT_READY = 600 };

int fiber_thread, fiber_block[3], fiber_grid_x;

static unsigned long long env_number(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- fibers ---- */
static void (*kernel)(const void *args);
static const void *kernel_args;
static char *stacks, done[MAX_THREADS];
static int n_done, n_threads;

#if defined(__x86_64__)
static void *stack_pointer[MAX_THREADS], *scheduler;
void fiber_switch(void **save, void *to);
__asm__(".text\n.globl fiber_switch\n.type fiber_switch,@function\nfiber_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size fiber_switch,.-fiber_switch\n");

static void resume(int t) { fiber_switch(&scheduler, stack_pointer[t]); }
static void suspend(int t) { fiber_switch(&stack_pointer[t], scheduler); }

static void enter(void)
{
    int t = fiber_thread;
    kernel(kernel_args);
    done[t] = 1;
    n_done++;
    suspend(t);
    abort(); /* nobody resumes a thread that is done */
}

static void start(int t)
{
    void **s = (void **)(stacks + (size_t)(t + 1) * STACK_BYTES);
    *--s = NULL; /* where enter would return to, and what aligns its stack */
    *--s = (void *)enter;
    for (int i = 0; i < 6; i++) *--s = NULL;
    stack_pointer[t] = s;
}
#else
#include <ucontext.h>
static ucontext_t context[MAX_THREADS], scheduler;
static void resume(int t) { swapcontext(&scheduler, &context[t]); }
static void suspend(int t) { swapcontext(&context[t], &scheduler); }

static void enter(void)
{
    int t = fiber_thread;
    kernel(kernel_args);
    done[t] = 1;
    n_done++;
}

static void start(int t)
{
    getcontext(&context[t]);
    context[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
    context[t].uc_stack.ss_size = STACK_BYTES;
    context[t].uc_link = &scheduler;
    makecontext(&context[t], enter, 0);
}
#endif

/* Threads that wait for each other. */
struct meeting {
    int came, number;
};

static struct meeting block_meeting, warp_meeting[MAX_THREADS / 32];
static int progress;

/* The last of n to come may go on at once. */
static void meet(struct meeting *m, int n)
{
    int t = fiber_thread, number = m->number;
    if (++m->came == n) {
        m->came = 0;
        m->number++;
        progress = 1;
    }
    while (m->number == number) suspend(t);
}

/* Nobody goes on at once, so that the order of run_block holds. */
void fiber_barrier(void)
{
    int t = fiber_thread, number = block_meeting.number;
    if (++block_meeting.came == n_threads) {
        block_meeting.came = 0;
        block_meeting.number++;
        progress = 1;
    }
    do suspend(t);
    while (block_meeting.number == number);
}

void fiber_warp_barrier(void) { meet(&warp_meeting[fiber_thread / 32], 32); }

/* ---- memory of a block ---- */
static char lds[LDS_BYTES] __attribute__((aligned(256)));
static size_t lds_taken[MAX_THREADS], lds_high;

void *fiber_lds(size_t bytes)
{
    size_t at = lds_taken[fiber_thread];
    lds_taken[fiber_thread] = at + (bytes + 15) / 16 * 16;
    if (lds_taken[fiber_thread] > LDS_BYTES) {
        fprintf(stderr, "fibers: a kernel wants more than %d bytes of shared memory\n", LDS_BYTES);
        abort();
    }
    if (lds_taken[fiber_thread] > lds_high) {
        memset(lds + lds_high, 0xff, lds_taken[fiber_thread] - lds_high); /* the first thread to ask: nothing is there yet */
        lds_high = lds_taken[fiber_thread];
    }
    return lds + at;
}

/* ---- memory whose size the launch gives, and copies to it ---- */
enum { DYNAMIC_BYTES = 227 << 10, MAX_COPIES = 256 };
static char dynamic[DYNAMIC_BYTES] __attribute__((aligned(1024)));
static size_t dynamic_bytes;

static struct copies {
    struct {
        unsigned to;
        const void *from;
        size_t bytes;
        int group;
    } copy[MAX_COPIES];
    int n, group;
} copies[MAX_THREADS];

void *fiber_dynamic_lds(void) { return dynamic; }

/* Memory of both kinds has addresses, that of fiber_lds() behind the other. */
unsigned fiber_lds_address(const void *p)
{
    const char *at = p;
    return (unsigned)(at >= lds && at < lds + LDS_BYTES ? at - lds + DYNAMIC_BYTES : at - dynamic);
}

static char *at_address(unsigned to) { return to < DYNAMIC_BYTES ? dynamic + to : lds + (to - DYNAMIC_BYTES); }

void fiber_copy(unsigned to, const void *from, size_t bytes)
{
    struct copies *c = &copies[fiber_thread];
    size_t end = to < DYNAMIC_BYTES ? dynamic_bytes : DYNAMIC_BYTES + lds_high;
    if (to % bytes || to + bytes > end || c->n == MAX_COPIES) {
        fprintf(stderr, "fibers: a copy to %u, of shared memory that ends at %zu, and %d copies under way\n", to, end, c->n);
        abort();
    }
    memset(at_address(to), 0xff, bytes);
    c->copy[c->n].to = to;
    c->copy[c->n].from = from;
    c->copy[c->n].bytes = bytes;
    c->copy[c->n++].group = c->group;
}

void fiber_copies_commit(void) { copies[fiber_thread].group++; }

void fiber_copies_wait(int n)
{
    struct copies *c = &copies[fiber_thread];
    int left = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->copy[i].group >= c->group - n) c->copy[left++] = c->copy[i];
        else if (c->copy[i].from) memcpy(at_address(c->copy[i].to), c->copy[i].from, c->copy[i].bytes);
        else memset(at_address(c->copy[i].to), 0, c->copy[i].bytes);
    }
    c->n = left;
}

/* ---- instructions of NVIDIA's warps ---- */
/* What each lane of the warp holds in a register. Two sets in turn: who is at the next exchange but one has met all who read. */
static const unsigned *exchange(unsigned mine)
{
    static unsigned mail[2][MAX_THREADS];
    static int turn_of[MAX_THREADS];
    int t = fiber_thread, turn = turn_of[t] ^= 1;
    mail[turn][t] = mine;
    meet(&warp_meeting[t / 32], 32);
    return mail[turn] + t / 32 * 32;
}

unsigned fiber_shuffle(unsigned v, int lane) { return exchange(v)[lane & 31]; }

static unsigned half_at(const unsigned *v, int i) { return v[i / 2] >> (16 * (i % 2)) & 0xffff; }

unsigned fiber_transposed(unsigned v)
{
    const unsigned *of = exchange(v);
    int row = fiber_thread % 32 / 4, column = fiber_thread % 4 * 2;
    return half_at(of + 4 * column, row) | half_at(of + 4 * (column + 1), row) << 16;
}

static float number_of(unsigned bits, int is_bf16)
{
    unsigned wide = bits << 16;
    uint16_t narrow = (uint16_t)bits;
    _Float16 half;
    float f;
    if (is_bf16) memcpy(&f, &wide, 4);
    else memcpy(&half, &narrow, 2), f = (float)half;
    return f;
}

typedef float vector __attribute__((vector_size(64)));

static float sum_of(vector v)
{
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += v[i];
    return sum;
}

static int wrong_lane(void)
{
    static int asked = -1;
    if (asked < 0) asked = env_number("FIBERS_WRONG_LANE", 0) != 0;
    return asked;
}

void fiber_mma(float *c, const unsigned *a, const unsigned *b, int is_bf16)
{
    /* Two sets in turn, as in exchange(): rows of A and columns of B. */
    static vector operand[2][MAX_THREADS / 32][24];
    static int turn_of[MAX_THREADS];
    int t = fiber_thread, lane = t % 32, turn = turn_of[t] ^= 1;
    vector *of = operand[turn][t / 32];
    for (int i = 0; i < 8; i++) of[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] = number_of(half_at(a, i), is_bf16);
    for (int i = 0; i < 4; i++) of[16 + lane / 4][lane % 4 * 2 + i / 2 * 8 + i % 2] = number_of(half_at(b, i), is_bf16);
    meet(&warp_meeting[t / 32], 32);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int i = 0; i < 4; i++) c[i] += sum_of(of[lane / 4 + i / 2 * 8] * of[16 + lane % 4 * 2 + i % 2]);
}

/* ---- matrix instructions of AMD ---- */
enum { MFMA, WMMA, WMMA12 }; /* enum matrix_kind */

/* The half that a lane has in register n / 2 of A (or B, the same), and which input it is; and the row of the lane's value n. */
static int matrix_input(int kind, int lane, int n) { return kind == MFMA ? 4 * (lane / 16) + n : kind == WMMA ? n : 8 * (lane / 16) + n; }

static int matrix_row_of(int kind, int lane, int n)
{
    return kind == MFMA ? 4 * (lane / 16) + n : kind == WMMA ? 2 * n + lane / 16 : 8 * (lane / 16) + n;
}

void fiber_matrix(int kind, const unsigned *a, const unsigned *b, float *c)
{
    /* Two sets in turn: who is at the next instruction but one has passed a barrier that all who read this one came to. */
    static float operand[2][MAX_THREADS / 32][2][16][16]; /* [wave][A, B][row or column][input] */
    static int turn_of[MAX_THREADS];
    int lanes = kind == MFMA ? 64 : 32, halves = kind == MFMA ? 4 : kind == WMMA ? 16 : 8, values = kind == MFMA ? 4 : 8;
    int t = fiber_thread, lane = t % lanes, turn = turn_of[t] ^= 1;
    float(*of)[16][16] = operand[turn][t / lanes];
    for (int n = 0; n < halves; n++) {
        _Float16 x, y;
        memcpy(&x, (const char *)a + 2 * n, 2);
        memcpy(&y, (const char *)b + 2 * n, 2);
        of[0][lane % 16][matrix_input(kind, lane, n)] = (float)x;
        of[1][lane % 16][matrix_input(kind, lane, n)] = (float)y;
    }
    fiber_barrier();
    if (wrong_lane() && lane == 1) lane = 2;
    for (int n = 0; n < values; n++) {
        const float *x = of[0][matrix_row_of(kind, lane, n)], *y = of[1][lane % 16];
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += x[k] * y[k];
        c[n] += sum;
    }
}

/* Between two barriers the threads run one after the other, upwards in one block and downwards in the next: a kernel that
 * lacks a barrier does not get away with an order that happens to suit it. */
static void run_block(int parity)
{
    memset(done, 0, sizeof done);
    memset(lds_taken, 0, sizeof lds_taken);
    n_done = 0;
    lds_high = 0;
    memset(&block_meeting, 0, sizeof block_meeting);
    memset(warp_meeting, 0, sizeof warp_meeting);
    memset(dynamic, 0xff, dynamic_bytes);
    for (int t = 0; t < n_threads; t++) copies[t].n = copies[t].group = 0;
    for (int t = 0; t < n_threads; t++) start(t);
    while (n_done < n_threads) {
        int were_done = n_done;
        progress = 0;
        for (int i = 0; i < n_threads; i++) {
            fiber_thread = parity ? n_threads - 1 - i : i;
            if (!done[fiber_thread]) resume(fiber_thread);
        }
        if (!progress && n_done == were_done) {
            fprintf(stderr, "fibers: %d of %d threads returned while the others wait at a barrier\n", n_done, n_threads);
            abort();
        }
    }
}

/* ---- the runtime's entry points; prototypes of backend-hip/hip_api.h ---- */
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

/* Copies from pinned memory that have not happened yet. */
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

#ifdef FIBERS_CUDA
#define API __attribute__((visibility("hidden"))) /* fiber_cuda.c */
enum { IS_CUDA = 1 };
#else
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
API int hipEventCreateWithFlags(void **event, unsigned flags);
API int hipEventDestroy(void *event);
API int hipEventRecord(void *event, void *stream);
API int hipEventQuery(void *event);
API int hipEventElapsedTime(float *ms, void *from, void *to);
API int hipModuleLoadData(void **module, const void *image);
API int hipModuleUnload(void *module);
API int hipModuleGetFunction(void **f, void *module, const char *name);
API int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              void *stream, void **params, void **extra);
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

/* The length stands 256 bytes before the block. */
int hipMalloc(void **d, size_t bytes)
{
    char *p;
    if (allocation_fails() || bytes > memory_limit() - allocated || posix_memalign((void **)&p, 256, bytes + 256)) return OUT_OF_MEMORY;
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
    free((char *)d - 256);
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

/* An event is the time of its recording, and whether that came after a launch that never ends. */
struct event {
    struct timespec time;
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
    e->never = hangs();
    return OK;
}

int hipEventQuery(void *event)
{
    const struct event *e = event;
    if (e->never) return NOT_READY;
    copy_pending();
    return OK;
}

int hipEventElapsedTime(float *ms, void *from, void *to)
{
    const struct timespec *a = &((struct event *)from)->time, *b = &((struct event *)to)->time;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return OK;
}

/* Only an ELF file for EM_AMDGPU whose flags say the architecture. */
int hipModuleLoadData(void **module, const void *image)
{
    enum { MACHINE_AT = 18, FLAGS_AT = 48, EM_AMDGPU = 224 };
    static const struct {
        const char *name;
        uint8_t flags;
    } arch[] = {{"gfx90a", 0x3f}, {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}};
    const uint8_t *p = image;
    const char *name = getenv("FIBERS_ARCH");
    if (IS_CUDA) { /* PTX, a text */
        char target[64];
        snprintf(target, sizeof target, ".target %s\n", name ? name : "sm_80");
        if (!strstr(image, target)) return NO_BINARY;
        *module = (void *)(uintptr_t)image;
        return OK;
    }
    size_t i = 0;
    while (name && i < sizeof arch / sizeof *arch - 1 && strcmp(arch[i].name, name)) i++;
    if (memcmp(p, "\177ELF\2\1", 6) || p[MACHINE_AT] != EM_AMDGPU || p[FLAGS_AT] != arch[i].flags) return NO_BINARY;
    *module = (void *)(uintptr_t)image;
    return OK;
}

int hipModuleUnload(void *module)
{
    (void)module;
    return OK;
}

/* The code object has a symbol of this name. */
static int image_has(const char *image, const char *name)
{
    enum { SECTIONS_AT = 40, SECTION_BYTES_AT = 58, N_SECTIONS_AT = 60 };
    uint64_t bytes;
    uint16_t each, n;
    char text[128];
    if (IS_CUDA) {
        snprintf(text, sizeof text, ".entry %s(", name);
        return strstr(image, text) != NULL;
    }
    memcpy(&bytes, image + SECTIONS_AT, sizeof bytes);
    memcpy(&each, image + SECTION_BYTES_AT, sizeof each);
    memcpy(&n, image + N_SECTIONS_AT, sizeof n);
    int length = snprintf(text, sizeof text, "%c%s.kd", 0, name);
    return memmem(image, bytes + (uint64_t)each * n, text, (size_t)length + 1) != NULL;
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

int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          void *stream, void **params, void **extra)
{
    if (!bx || bx > MAX_THREADS || by != 1 || bz != 1 || params || extra[0] != (void *)1 || extra[2] != (void *)2) return INVALID_VALUE;
    if (IS_CUDA ? shared > DYNAMIC_BYTES || bx % 32 || extra[4] : shared || stream || extra[4] != (void *)3) return INVALID_VALUE;
    static char args[1024] __attribute__((aligned(16)));
    size_t bytes = *(size_t *)extra[3];
    if (bytes > sizeof args) return INVALID_VALUE;
    n_launches++;
    if (hangs()) return OK;
    copy_pending();
    memcpy(args, extra[1], bytes);
    if (!stacks) {
        stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return OUT_OF_MEMORY;
    }
    kernel = (void (*)(const void *))f;
    kernel_args = args;
    n_threads = (int)bx;
    fiber_grid_x = (int)gx;
    dynamic_bytes = shared;
    unsigned grid[3] = {gx, gy, gz};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                fiber_block[0] = (int)x, fiber_block[1] = (int)y, fiber_block[2] = (int)z;
                run_block((x + y + z) & 1);
            }
    return OK;
}

const char *hipGetErrorString(int code)
{
    return code == NO_BINARY       ? "no binary for this device"
           : code == OUT_OF_MEMORY ? "out of memory"
           : code == NOT_FOUND     ? "no such kernel"
                                   : "invalid value";
}
