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
enum { LAUNCH = MAX_THREADS }; /* the context of hipModuleLaunchKernel */
static FIBER_LOCAL void (*kernel)(const void *args);
static FIBER_LOCAL const void *kernel_args;
static FIBER_LOCAL char *stacks;
/* A thread goes on when *number is another than `value`, so that nobody switches to it before; one
 * that has returned waits for what never changes. */
static const int unchanging;
static FIBER_LOCAL struct wait {
    const int *number;
    int value;
} * waits; /* [MAX_THREADS] */
static const struct wait none = {&unchanging, 1}, returned = {&unchanging, 0};
/* Of the pass over all threads: the first, the one after the last, the next one's distance. */
static FIBER_LOCAL int pass_first, pass_end, pass_step, were_done, first_block;

enum { WARP = 32 };
static void enter(void);

#if defined(__x86_64__)
static FIBER_LOCAL void **context; /* [MAX_THREADS + 1] */
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
static FIBER_LOCAL ucontext_t *context; /* [MAX_THREADS + 1] */
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

static inline int may_run(int t) { return *waits[t].number != waits[t].value; }

/* The next of `lanes` threads, a power of two, around this one that may run; -1: none. */
static int next_of(int lanes)
{
    int t = fibers.self, first = t & -lanes;
    for (int other = t; other = first | ((other + pass_step) & (lanes - 1)), other != t;)
        if (may_run(other)) return other;
    return -1;
}

/* The next thread of the pass that may run; there is one. */
static int next_of_pass(void)
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
    } while (!may_run(t));
    return t;
}

/* The lanes of a warp go first: what one of them does not wait for, none does. */
static int next_thread(int lanes)
{
    int t = next_of(lanes);
    return t < 0 ? next_of_pass() : t;
}

static void enter(void)
{
    int t = fibers.self;
    kernel(kernel_args);
    waits[t] = returned;
    fibers.n_done++;
    int to = LAUNCH;
    if (fibers.n_done < fibers.n_threads * fiber_cluster_blocks) set_self(to = next_thread(WARP));
    go_on(t, to);
    abort(); /* a finished thread is never resumed */
}

static void switch_to(int to)
{
    int from = fibers.self;
    if (to == from) return;
    set_self(to);
    go_on(from, to);
}

void fiber_suspend(void) { switch_to(next_of_pass()); }

void fiber_wait(const int *number, int value, int lanes)
{
    if (*number != value) return;
    waits[fibers.self] = (struct wait){number, value};
    switch_to(next_thread(lanes));
    waits[fibers.self] = none;
}

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
    fiber_wait(&m->number, number, lanes);
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
        fiber_wait(&m->number, number, WARP);
    }
}

/* ---- memory of a block ---- */
FIBER_LOCAL char (*fiber_static_lds)[LDS_BYTES];
static FIBER_LOCAL size_t *lds_taken; /* [MAX_THREADS] */

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

/* Between two barriers of a block the warps run one after the other, in ascending order in one
 * block and descending in the next, and so do the lanes of a warp between two of its instructions:
 * a kernel that lacks a barrier cannot depend on one order. The blocks of a cluster run side by
 * side.
 */
static void run_blocks(int x, int y, int z)
{
    int all = fibers.n_threads * fiber_cluster_blocks,
        descending = (x / fiber_cluster_blocks + y + z) & 1;
    for (int t = 0; t < (all + 127) / 128 * 128; t++) waits[t] = t < all ? none : returned;
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

/* The memory of this thread's launches. */
static void launches_begin(void)
{
    if (stacks) return;
    stacks = fiber_memory((size_t)MAX_THREADS * STACK_BYTES);
    madvise(stacks, (size_t)MAX_THREADS * STACK_BYTES, MADV_HUGEPAGE);
    waits = fiber_memory(MAX_THREADS * sizeof *waits);
    context = fiber_memory((MAX_THREADS + 1) * sizeof *context);
    lds_taken = fiber_memory(MAX_THREADS * sizeof *lds_taken);
    fiber_static_lds = fiber_memory(MAX_BLOCKS * sizeof *fiber_static_lds);
}

void fiber_run(void *code, const void *args, const unsigned grid[3], int n_threads)
{
    launches_begin();
    kernel = (void (*)(const void *))code;
    kernel_args = args;
    fibers.n_threads = n_threads;
    fiber_grid_x = (int)grid[0];
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x += (unsigned)fiber_cluster_blocks)
                run_blocks((int)x, (int)y, (int)z);
}
