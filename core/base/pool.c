#include "core/base/pool.h"

#include "core/base/cgroup.h"
#include "core/base/clock.h"
#include "core/base/crowd.h"
#include "core/base/topology.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 microseconds: longer than the gap between two operations of a step, shorter than a
 * scheduler tick. */
enum { SPINS = 2000, TASK_BITS = 20, TASK_MASK = (1 << TASK_BITS) - 1, CACHE_LINE = 64 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

/* Tasks that a thread begins with, on a cache line of its own: epoch (24 bits) | first unclaimed |
 * end. One word, so that a claim is one compare-and-swap and a late worker cannot claim a task of
 * the next operation for this one. */
struct share {
    _Alignas(CACHE_LINE) _Atomic uint64_t left;
    double busy; /* of this operation, seconds; only while watched */
};

struct pool {
    /* futex of sleeping workers; changes with every operation, its lowest bit is FEW */
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch;
    _Alignas(CACHE_LINE) _Atomic uint32_t n_done; /* futex of the waiting caller */
    _Alignas(CACHE_LINE) _Atomic int n_sleeping;
    _Atomic int caller_sleeps, stop;
    _Atomic uint32_t n_used; /* threads that begin with a share; futex of the others */
    void (*fn)(void *arg, int task, int thread);
    void *arg;
    int n_tasks, n_threads, n_started;
    struct pool_watch *watch;
    struct crowd crowd;
    struct worker *worker; /* [n_threads], the first is unused */
    struct share share[];  /* [n_threads] */
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static uint64_t share_word(uint32_t epoch, int first, int end)
{
    return (uint64_t)epoch << (2 * TASK_BITS) | (uint64_t)first << TASK_BITS | (uint64_t)end;
}

/* An operation with at most one task for each thread. Workers look at their own share alone, for
 * shares that all look at change hands for longer than such a task may take; what a late worker
 * has not claimed is the caller's. */
enum { FEW = 1 };

/* Claims the first task of the thread's own share, or the last one of another's, of the N_SHARES
 * from its own on; -1: none is left. */
static int claim(struct pool *p, int thread, int n_shares)
{
    for (int i = 0; i < n_shares; i++) {
        int of = thread + i < p->n_threads ? thread + i : thread + i - p->n_threads;
        struct share *s = &p->share[of];
        uint64_t v = atomic_load_explicit(&s->left, memory_order_acquire);
        for (;;) {
            int first = (int)(v >> TASK_BITS & TASK_MASK), end = (int)(v & TASK_MASK);
            if (first >= end) break;
            uint64_t rest = i ? v - 1 : v + (1 << TASK_BITS);
            if (atomic_compare_exchange_weak(&s->left, &v, rest)) return i ? end - 1 : first;
        }
    }
    return -1;
}

static void work(struct pool *p, int thread, int n_shares)
{
    uint32_t done = 0, n = 0;
    for (int task; (task = claim(p, thread, n_shares)) >= 0; done++) {
        /* fn, arg, n_tasks and watch are stable: the operation cannot end before this task. */
        double start = p->watch ? clock_now() : 0;
        p->fn(p->arg, task, thread);
        n = (uint32_t)p->n_tasks;
        if (p->watch) p->share[thread].busy += clock_now() - start;
    }
    if (done && atomic_fetch_add(&p->n_done, done) + done == n && atomic_load(&p->caller_sleeps))
        futex_wake(&p->n_done, 1);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    uint32_t seen = 0;
    for (;;) {
        for (uint32_t n; (n = atomic_load(&p->n_used)) <= (uint32_t)w->index;)
            futex_wait(&p->n_used, n);
        for (int i = 0; i < SPINS && atomic_load_explicit(&p->epoch, memory_order_acquire) == seen;
             i++)
            relax();
        while (atomic_load(&p->epoch) == seen) {
            atomic_fetch_add(&p->n_sleeping, 1);
            futex_wait(&p->epoch, seen);
            atomic_fetch_sub(&p->n_sleeping, 1);
        }
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->stop)) return NULL;
        work(p, w->index, seen & FEW ? 1 : p->n_threads);
    }
}

/* At most as many as the control group's quota has processors: more threads would use it up early
 * and then all stall. */
static int within_quota(int n)
{
    double quota = cgroup_cpus(CGROUP_SELF, CGROUP_MOUNT);
    if (quota > 0 && quota < n) n = (int)ceil(quota);
    return n > 0 ? n : 1;
}

int pool_n_processors(void)
{
    cpu_set_t set;
    return within_quota(sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set));
}

int pool_n_cores(void)
{
    cpu_set_t set;
    return within_quota(
        sched_getaffinity(0, sizeof set, &set) ? 0 : topology_n_cores(&set, TOPOLOGY_SYS));
}

int pool_open(struct pool **out, int n_threads, struct err *e)
{
    size_t bytes = sizeof(struct pool) + (size_t)n_threads * sizeof(struct share);
    struct pool *p = aligned_alloc(CACHE_LINE, bytes);
    if (!p) return err_memory(e);
    memset(p, 0, bytes);
    p->n_threads = n_threads;
    p->n_used = (uint32_t)n_threads;
    if (!(p->worker = calloc((size_t)n_threads, sizeof *p->worker))) {
        free(p);
        return err_memory(e);
    }
    for (int i = 1; i < n_threads; i++) {
        p->worker[i] = (struct worker){.pool = p, .index = i};
        if (pthread_create(&p->worker[i].thread, NULL, worker_main, &p->worker[i])) {
            pool_close(p);
            return err_set(e, "cannot start %d threads", n_threads);
        }
        p->n_started++;
    }
    *out = p;
    return 0;
}

void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, 1);
    pool_use(p, p->n_threads);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, p->n_threads);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->worker[i].thread, NULL);
    free(p->worker);
    free(p);
}

int pool_n_threads(const struct pool *p) { return p->n_threads; }

int pool_spread(struct pool *p, const struct numa *m, struct err *e)
{
    for (int i = 1; m->n && i < p->n_threads; i++)
        if ((errno = pthread_setaffinity_np(p->worker[i].thread, sizeof(cpu_set_t),
                                            numa_of(m, i, p->n_threads))))
            return err_sys(e, "--numa distribute: cannot keep a thread on its node");
    return 0;
}

void pool_watch(struct pool *p, struct pool_watch *w) { p->watch = w; }

void pool_use(struct pool *p, int n)
{
    atomic_store(&p->n_used, (uint32_t)n);
    futex_wake(&p->n_used, p->n_threads);
}

void pool_heed(struct pool *p)
{
    struct rusage use;
    double now = clock_now();
    if (p->n_threads == 1 || !crowd_due(&p->crowd, now) || getrusage(RUSAGE_SELF, &use)) return;
    int used = (int)p->n_used, n = crowd_look(&p->crowd, used, p->n_threads, now, use.ru_nivcsw);
    if (n != used) pool_use(p, n);
}

int pool_first_task(const struct pool *p, int n_tasks, int thread)
{
    int n = (int)atomic_load_explicit(&p->n_used, memory_order_relaxed);
    int each = n_tasks / n, more = n_tasks % n;
    if (thread > n) thread = n; /* it has none of its own */
    return thread * each + (thread < more ? thread : more);
}

/* Shares out the tasks, neighbours to the same thread, and wakes the workers. Shares of the
 * operation before are empty. */
static void begin(struct pool *p, int n_tasks)
{
    const uint32_t few = n_tasks <= (int)atomic_load(&p->n_used) ? FEW : 0,
                   epoch = (atomic_load(&p->epoch) | FEW) + 1 + few;
    p->n_tasks = n_tasks;
    atomic_store(&p->n_done, 0);
    for (int i = 0; i < p->n_threads; i++) {
        int first = pool_first_task(p, n_tasks, i), end = pool_first_task(p, n_tasks, i + 1);
        if (first < end)
            atomic_store_explicit(&p->share[i].left, share_word(epoch, first, end),
                                  memory_order_release);
    }
    atomic_store(&p->epoch, epoch);
    if (atomic_load(&p->n_sleeping)) futex_wake(&p->epoch, p->n_threads - 1);
}

static void wait_for_all(struct pool *p)
{
    uint32_t done, n = (uint32_t)p->n_tasks;
    for (int i = 0; i < SPINS && atomic_load_explicit(&p->n_done, memory_order_acquire) < n; i++)
        relax();
    while ((done = atomic_load(&p->n_done)) < n) {
        atomic_store(&p->caller_sleeps, 1);
        if (atomic_load(&p->n_done) == done) futex_wait(&p->n_done, done);
        atomic_store(&p->caller_sleeps, 0);
    }
}

static void add_to_watch(struct pool *p, double seconds)
{
    double sum = 0, slowest = 0;
    for (int i = 0; i < p->n_threads; i++) {
        sum += p->share[i].busy;
        slowest = p->share[i].busy > slowest ? p->share[i].busy : slowest;
        p->share[i].busy = 0;
    }
    p->watch->wall += seconds;
    p->watch->mean += sum / p->n_threads;
    p->watch->slowest += slowest;
}

void pool_run(struct pool *p, int n_tasks, void (*fn)(void *arg, int task, int thread), void *arg)
{
    CHECK(n_tasks <= TASK_MASK);
    if (n_tasks <= 1 || p->n_threads == 1) {
        for (int i = 0; i < n_tasks; i++) fn(arg, i, 0);
        return;
    }
    double start = p->watch ? clock_now() : 0;
    p->fn = fn;
    p->arg = arg;
    begin(p, n_tasks);
    work(p, 0, p->n_threads);
    wait_for_all(p);
    if (p->watch) add_to_watch(p, clock_now() - start);
}
