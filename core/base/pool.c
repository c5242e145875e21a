#include "core/base/pool.h"

#include "core/base/cgroup.h"

#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 microseconds: longer than the gap between two operations of a step, shorter than a
 * scheduler tick. */
enum { SPINS = 2000, TASK_BITS = 20, TASK_MASK = (1 << TASK_BITS) - 1 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    /* epoch (24 bits) | tasks of this operation | next unclaimed task. One word, so that a claim is
     * one compare-and-swap and a late worker cannot claim a task of the next operation for this
     * one. */
    _Atomic uint64_t ticket;
    _Atomic uint32_t epoch;  /* futex of sleeping workers; changes with every operation */
    _Atomic uint32_t n_done; /* futex of the waiting caller */
    _Atomic int n_sleeping, caller_sleeps, stop;
    void (*fn)(void *arg, int task, int thread);
    void *arg;
    int n_threads, n_started;
    struct worker workers[]; /* [n_threads], the first is unused */
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

static void work(struct pool *p, int thread)
{
    uint64_t t = atomic_load(&p->ticket);
    for (;;) {
        uint32_t next = t & TASK_MASK, n = (t >> TASK_BITS) & TASK_MASK;
        if (next >= n) return;
        if (!atomic_compare_exchange_weak(&p->ticket, &t, t + 1)) continue;
        /* fn and arg are stable: the operation cannot end before this task. */
        p->fn(p->arg, (int)next, thread);
        if (atomic_fetch_add(&p->n_done, 1) + 1 == n && atomic_load(&p->caller_sleeps))
            futex_wake(&p->n_done, 1);
        t = atomic_load(&p->ticket);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    uint32_t seen = 0;
    for (;;) {
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
        work(p, w->index);
    }
}

int pool_n_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
    double quota = cgroup_cpus(CGROUP_SELF, CGROUP_MOUNT);
    /* More threads would use up the quota early and then all stall. */
    if (quota > 0 && quota < n) n = (int)ceil(quota);
    return n > 0 ? n : 1;
}

int pool_open(struct pool **out, int n_threads, struct err *e)
{
    struct pool *p = calloc(1, sizeof *p + (size_t)n_threads * sizeof p->workers[0]);
    if (!p) return err_memory(e);
    p->n_threads = n_threads;
    for (int i = 1; i < n_threads; i++) {
        p->workers[i] = (struct worker){.pool = p, .index = i};
        if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i])) {
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
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, p->n_threads);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    free(p);
}

int pool_n_threads(const struct pool *p) { return p->n_threads; }

void pool_run(struct pool *p, int n_tasks, void (*fn)(void *arg, int task, int thread), void *arg)
{
    CHECK(n_tasks <= TASK_MASK);
    if (n_tasks <= 1 || p->n_threads == 1) {
        for (int i = 0; i < n_tasks; i++) fn(arg, i, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->n_done, 0);
    uint32_t epoch = atomic_load(&p->epoch) + 1;
    atomic_store(&p->ticket, (uint64_t)epoch << (2 * TASK_BITS) | (uint64_t)n_tasks << TASK_BITS);
    atomic_store(&p->epoch, epoch);
    if (atomic_load(&p->n_sleeping)) futex_wake(&p->epoch, p->n_threads - 1);
    work(p, 0);
    uint32_t done;
    for (int i = 0;
         i < SPINS && atomic_load_explicit(&p->n_done, memory_order_acquire) < (uint32_t)n_tasks;
         i++)
        relax();
    while ((done = atomic_load(&p->n_done)) < (uint32_t)n_tasks) {
        atomic_store(&p->caller_sleeps, 1);
        if (atomic_load(&p->n_done) == done) futex_wait(&p->n_done, done);
        atomic_store(&p->caller_sleeps, 0);
    }
}
