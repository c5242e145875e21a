/* fibers_int.h: what fibers.c (threads, memory, the runtime) and fiber_matrix.c (instructions of
 * warps) share. */
#ifndef TESTS_FIBERS_INT_H
#define TESTS_FIBERS_INT_H

#include "backend-hip/kernels/host/fibers.h"

/* of a cluster, of a block */
enum { MAX_BLOCKS = 4, MAX_THREADS = 1536, LDS_BYTES = 64 << 10, DYNAMIC_BYTES = 227 << 10 };

struct fibers {
    int self;                    /* the thread that runs, of the cluster */
    int n_threads, n_done;       /* of a block; of the cluster */
    int progress;                /* since the last look at all threads someone went on */
    size_t lds_high[MAX_BLOCKS]; /* of fiber_static_lds */
    size_t dynamic_bytes;
};
extern struct fibers fibers;
extern char fiber_static_lds[MAX_BLOCKS][LDS_BYTES];

static inline int fiber_block_of_cluster(void) { return fibers.self / fibers.n_threads; }

unsigned long long env_number(const char *name, unsigned long long otherwise);

/* Threads that wait for each other: n of them. */
struct meeting {
    int came, number;
};
void fiber_meet(struct meeting *m, int n);
/* Lets others run. */
void fiber_suspend(void);

/* A block or cluster begins: nothing is in its memory, nothing under way. */
void fiber_matrix_begin(void);

#endif
