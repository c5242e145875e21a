/* pool.h: a thread pool for the tasks of one operation or the rows of a step. Owns: the worker
 * threads and how they sleep. Must not know: what a task does. Each thread begins with an equal
 * share of neighbouring tasks, claims them one at a time, and then the last ones of other threads'
 * shares, of at most one task for each thread the caller alone; the caller waits for claimed tasks
 * only, never for a worker to wake up: a core lost to another process, or slower than the others,
 * costs no more than its share. */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/base/err.h"
#include "core/base/numa.h"

struct pool;

/* n_threads >= 1 includes the caller. */
int pool_open(struct pool **p, int n_threads, struct err *e);
void pool_close(struct pool *p);
int pool_n_threads(const struct pool *p);
/* Keeps every thread but the caller on the processors of a node of *m (numa_of). */
int pool_spread(struct pool *p, const struct numa *m, struct err *e);
/* Seconds of the operations since they were last set to 0: from call to return, and what the
 * threads spent in tasks, on average and the one that spent most. */
struct pool_watch {
    double wall, mean, slowest;
};

/* Adds to *w in every pool_run on more than one thread; NULL: no longer. Between operations. */
void pool_watch(struct pool *p, struct pool_watch *w);
/* Calls fn(arg, task, thread) for task = 0 .. n_tasks-1 in any order on any thread (0 ..
 * n_threads-1; 0 is the caller) and returns when all are done. At most 2^20 - 1 tasks. No
 * allocation; no system call but futex. */
void pool_run(struct pool *p, int n_tasks, void (*fn)(void *arg, int task, int thread), void *arg);
/* Shares tasks out to the first n threads, 1 to n_threads, from the next operation on; the others
 * sleep. A pool begins with all. */
void pool_use(struct pool *p, int n);
/* Between operations, as often as one likes: uses fewer threads while other processes take
 * processors away, more when they are gone (crowd.h). A system call in 50 ms. */
void pool_heed(struct pool *p);
/* The first task of the share that a thread begins with. */
int pool_first_task(const struct pool *p, int n_tasks, int thread);
/* Processors that this process may use: its affinity, limited by the control group's quota of
 * processor time (rounded up). */
int pool_n_processors(void);
/* The cores that they belong to, limited in the same way: how many threads are worth while, for
 * those of one core share its arithmetic units. */
int pool_n_cores(void);

#endif
