/* fibers.c: kernels as host code: each thread of a block is a fiber, one block or cluster runs at a
 * time, with its shared memory. Launches run in the thread of the host that makes them: those of
 * several at once. Must not know: the runtime (fiber_runtime.c). */
#include "tests/emulators/fibers/fibers_int.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Stacks are no power of two apart, where the ends of all would have the same few lines of the
 * caches. */
enum { STACK_BYTES = (64 << 10) + 11 * 64 };

FIBER_LOCAL int fiber_thread, fiber_block[3], fiber_grid_x, fiber_cluster_blocks = 1;
FIBER_LOCAL struct fibers fibers;

unsigned long long env_number(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

const char *env_item(const char *name, int device, size_t *length)
{
    const char *text = getenv(name);
    if (text && strchr(text, ','))
        for (; device && text; device--) text = (text = strchr(text, ',')) ? text + 1 : NULL;
    if (text) *length = strcspn(text, ",");
    return text && *length ? text : NULL;
}

unsigned long long env_of(const char *name, int device, unsigned long long otherwise)
{
    size_t length;
    const char *text = env_item(name, device, &length);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- memory of a thread of the host ---- */
/* A page in front of each block. */
struct memory {
    size_t bytes;
    struct memory *next;
};
enum { MEMORY_PAGE = 4096 };
static FIBER_LOCAL struct memory *memory;
static pthread_key_t memory_key;
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;

static void memory_drop(void *of)
{
    for (struct memory *m = of, *next; m; m = next) {
        next = m->next;
        munmap(m, m->bytes);
    }
}

static void memory_make_key(void)
{
    if (pthread_key_create(&memory_key, memory_drop)) abort();
}

void *fiber_memory(size_t bytes)
{
    bytes += MEMORY_PAGE;
    struct memory *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) abort();
    *m = (struct memory){bytes, memory};
    memory = m;
    if (pthread_once(&memory_once, memory_make_key) || pthread_setspecific(memory_key, m)) abort();
    return (char *)m + MEMORY_PAGE;
}

/* ---- fibers: each goes on with the next one itself ---- */
enum { WARP = 32, LAUNCH = MAX_THREADS /* the context of hipModuleLaunchKernel */ };
/* A thread goes on when *number is another than `value`, so that nobody switches to it before; one
 * that has returned waits for what never changes. */
static const int unchanging;
struct wait {
    const int *number;
    int value;
};
static const struct wait none = {&unchanging, 1}, returned = {&unchanging, 0};

/* Of this thread's launch. Together, since a library loads the place of each thread-local variable
 * before it uses it. */
static FIBER_LOCAL struct {
    void (*kernel)(const void *args);
    const void *args;
    char *stacks;
    struct wait *waits;                  /* [MAX_THREADS] */
    struct context *context;             /* [MAX_THREADS + 1] */
    size_t *lds_taken;                   /* [MAX_THREADS] */
    int pass_first, pass_end, pass_step; /* of the pass over all threads: the first, the one after
                                            the last, the next one's distance */
    int were_done, first_block;
} run;

static void enter(void);

#if defined(__x86_64__)
struct context {
    void *sp, *bp, *ip;
};

/* The registers that gcc may use beyond those of every x86-64. */
#if defined(__AVX512F__)
#define WIDE_REGISTERS                                                                             \
    "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",      \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6",  \
        "k7",
#else
#define WIDE_REGISTERS
#endif

/* Inlined, as a function would save once more what lies in its caller's frame. Stacks are in the
 * second level of the caches, so the one that probably follows is fetched meanwhile. */
static inline __attribute__((always_inline)) void go_on(int from, int to)
{
    struct context *save = &run.context[from], *load = &run.context[to];
    const char *soon = run.context[(to + run.pass_step) & (MAX_THREADS - 1)].sp;
    __builtin_prefetch(soon);
    __builtin_prefetch(soon + 64);
    __asm__ volatile("mov %%rsp,(%0)\nmov %%rbp,8(%0)\nlea 1f(%%rip),%%rcx\nmov %%rcx,16(%0)\n"
                     "mov (%1),%%rsp\nmov 8(%1),%%rbp\njmp *16(%1)\n1:\n"
                     : "+a"(save), "+d"(load)
                     :
                     : WIDE_REGISTERS "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
                       "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "memory", "cc");
}

static void start(int t)
{
    /* as after a call: 8 below a multiple of 16 */
    char *top = run.stacks + (size_t)(t + 1) * STACK_BYTES - 8;
    run.context[t] = (struct context){top, NULL, (void *)enter};
}

static int is_new(int t) { return run.context[t].ip == (void *)enter; }
#else
#include <ucontext.h>
struct context {
    ucontext_t of;
};
static void go_on(int from, int to) { swapcontext(&run.context[from].of, &run.context[to].of); }

static void start(int t)
{
    ucontext_t *of = &run.context[t].of;
    getcontext(of);
    of->uc_stack.ss_sp = run.stacks + (size_t)t * STACK_BYTES;
    of->uc_stack.ss_size = STACK_BYTES;
    makecontext(of, enter, 0);
}

static int is_new(int t) { return (void)t, 0; }
#endif

static inline void set_self(int t)
{
    fibers.self = fiber_thread = t;
    if (fiber_cluster_blocks == 1) return;
    fibers.block = t / fibers.n_threads;
    fiber_thread = t - fibers.block * fibers.n_threads;
    fiber_block[0] = run.first_block + fibers.block;
}

static inline int may_run(int t) { return *run.waits[t].number != run.waits[t].value; }

/* The next of `lanes` threads, a power of two, around this one that may run; -1: none. */
static inline int next_of(int lanes)
{
    int t = fibers.self, first = t & -lanes, step = run.pass_step;
    const struct wait *waits = run.waits;
    for (int other = t; other = first | ((other + step) & (lanes - 1)), other != t;)
        if (*waits[other].number != waits[other].value) return other;
    return -1;
}

/* The next thread of the pass that may run; there is one. */
static int next_of_pass(void)
{
    int t = fibers.self;
    do {
        t += run.pass_step;
        if (t != run.pass_end) continue;
        if (!fibers.progress && fibers.n_done == run.were_done) {
            fprintf(stderr,
                    "fibers: %d of %d threads returned while the others wait at a barrier\n",
                    fibers.n_done, fibers.n_threads * fiber_cluster_blocks);
            abort();
        }
        fibers.progress = 0;
        run.were_done = fibers.n_done;
        t = run.pass_first;
    } while (!may_run(t));
    return t;
}

/* The lanes of a warp go first: what one of them does not wait for, none does. */
static inline int next_thread(int lanes)
{
    int t = next_of(lanes);
    return t < 0 ? next_of_pass() : t;
}

/* One thread after the other: one that has not begun does so on this stack. */
static void enter(void)
{
    int last;
    do {
        run.kernel(run.args);
        last = fibers.self;
        run.waits[last] = returned;
        if (++fibers.n_done == fibers.n_threads * fiber_cluster_blocks) go_on(last, LAUNCH);
        set_self(next_thread(WARP));
    } while (is_new(fibers.self));
    go_on(last, fibers.self);
    abort(); /* a finished thread is never resumed */
}

static inline void switch_to(int to)
{
    int from = fibers.self;
    if (to == from) return;
    set_self(to);
    go_on(from, to);
}

void fiber_suspend(void) { switch_to(next_of_pass()); }

static inline void wait_for(const int *number, int value, int lanes)
{
    if (*number != value) return;
    run.waits[fibers.self] = (struct wait){number, value};
    switch_to(next_thread(lanes));
    run.waits[fibers.self] = none;
}

void fiber_wait(const int *number, int value, int lanes) { wait_for(number, value, lanes); }

void fiber_spin(void)
{
    fibers.progress = 1; /* another device's */
    sched_yield();
    fiber_suspend();
}

/* The last of n to arrive continues at once. */
void fiber_arrive_and_wait(struct thread_barrier *m, int n, int lanes)
{
    int number = m->number;
    if (++m->came == n) {
        m->came = 0;
        m->number++;
        fibers.progress = 1;
    }
    wait_for(&m->number, number, lanes);
}

/* All threads suspend, so that the order of run_blocks holds. */
void fiber_barrier(void)
{
    static FIBER_LOCAL struct thread_barrier *block; /* [MAX_BLOCKS] */
    if (!block) block = fiber_memory(MAX_BLOCKS * sizeof *block);
    struct thread_barrier *m = &block[fiber_block_of_cluster()];
    int number = m->number;
    if (++m->came == fibers.n_threads) {
        m->came = 0;
        m->number++;
        fibers.progress = 1;
        fiber_suspend();
    } else {
        wait_for(&m->number, number, WARP);
    }
}

/* ---- memory of a block ---- */
FIBER_LOCAL char (*fiber_static_lds)[LDS_BYTES];

void *fiber_lds(size_t bytes)
{
    int block = fiber_block_of_cluster();
    size_t *taken = &run.lds_taken[fibers.self], *high = &fibers.lds_high[block], at = *taken;
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

/* Between two barriers of a block the warps run one after the other, in ascending order in one
 * block and descending in the next, and so do the lanes of a warp between two of its instructions:
 * a kernel that lacks a barrier cannot depend on one order. The blocks of a cluster run side by
 * side.
 */
static void run_blocks(int x, int y, int z)
{
    int all = fibers.n_threads * fiber_cluster_blocks,
        descending = (x / fiber_cluster_blocks + y + z) & 1;
    for (int t = 0; t < (all + 127) / 128 * 128; t++) run.waits[t] = t < all ? none : returned;
    memset(run.lds_taken, 0, (size_t)all * sizeof *run.lds_taken);
    memset(fibers.lds_high, 0, sizeof fibers.lds_high);
    fibers.n_done = fibers.progress = run.were_done = 0;
    fiber_matrix_begin();
    for (int t = 0; t < all; t++) start(t);
    run.pass_first = descending ? all - 1 : 0;
    run.pass_end = descending ? -1 : all;
    run.pass_step = descending ? -1 : 1;
    run.first_block = fiber_block[0] = x, fiber_block[1] = y, fiber_block[2] = z;
    fibers.block = 0;
    set_self(run.pass_first);
    go_on(LAUNCH, run.pass_first);
}

/* The memory of this thread's launches. */
static void launches_begin(void)
{
    if (run.stacks) return;
    run.stacks = fiber_memory((size_t)MAX_THREADS * STACK_BYTES);
    madvise(run.stacks, (size_t)MAX_THREADS * STACK_BYTES, MADV_HUGEPAGE);
    run.waits = fiber_memory(MAX_THREADS * sizeof *run.waits);
    run.context = fiber_memory((MAX_THREADS + 1) * sizeof *run.context);
    run.lds_taken = fiber_memory(MAX_THREADS * sizeof *run.lds_taken);
    fiber_static_lds = fiber_memory(MAX_BLOCKS * sizeof *fiber_static_lds);
}

void fiber_run(void *code, const void *args, const unsigned grid[3], int n_threads)
{
    launches_begin();
    run.kernel = (void (*)(const void *))code;
    run.args = args;
    fibers.n_threads = n_threads;
    fiber_grid_x = (int)grid[0];
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x += (unsigned)fiber_cluster_blocks)
                run_blocks((int)x, (int)y, (int)z);
}
