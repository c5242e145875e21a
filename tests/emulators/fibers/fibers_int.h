/* fibers_int.h: declarations shared by fibers.c (threads and their memory), fiber_runtime.c,
 * fiber_images.c and fiber_cuda.c (the runtime) and fiber_matrix.c (warp instructions). */
#ifndef TESTS_FIBERS_INT_H
#define TESTS_FIBERS_INT_H

#include "backend-hip/kernels/host/fibers.h"

/* per cluster, per block */
enum { MAX_BLOCKS = 8, MAX_THREADS = 2048, LDS_BYTES = 64 << 10, DYNAMIC_BYTES = 227 << 10 };

#pragma GCC visibility push(hidden)
struct fibers {
    int self;                    /* index in the cluster of the running thread */
    int block;                   /* of the cluster, the running thread's */
    int n_threads, n_done;       /* of a block; of the cluster */
    int progress;                /* a thread has run since the last pass over all threads */
    size_t lds_high[MAX_BLOCKS]; /* of fiber_static_lds */
    size_t dynamic_bytes;
};
extern FIBER_LOCAL struct fibers fibers;
extern FIBER_LOCAL char (*fiber_static_lds)[LDS_BYTES]; /* [MAX_BLOCKS] */

static inline int fiber_block_of_cluster(void) { return fibers.block; }

unsigned long long env_number(const char *name, unsigned long long otherwise);
/* Item `device` of a list with commas, NULL: there is none. */
const char *env_item(const char *name, int device, size_t *length);
/* Number `device` of a list with commas; one number is all devices'. */
unsigned long long env_of(const char *name, int device, unsigned long long otherwise);

#ifdef FIBERS_CUDA /* 80 or 90: the architecture */
#define FIBERS_TARGET (FIBERS_CUDA >= 90 ? "sm_90a" : "sm_80")
enum { IS_CUDA = 1 };
#else
#define FIBERS_TARGET ""
enum { IS_CUDA = 0 };
#endif

/* The device that calls of this thread mean; -1: none was chosen (CUDA). */
extern FIBER_LOCAL int fiber_device;
enum { MAX_DEVICES = 16 };
int fiber_device_count(void);

/* Whether an image is an ELF file for EM_AMDGPU whose flags name the device's architecture, or PTX
 * for it; whether it has a kernel of this name; it is freed, and another one may lie in its place.
 */
int fiber_image_fits(const void *image, int device);
int fiber_image_has(const char *image, const char *name);
void fiber_image_forget(const char *image);

/* Zeros that this thread's launches use, until it ends; not touched before they are used. */
void *fiber_memory(size_t bytes);

/* Runs a kernel, all blocks one after another; fibers.dynamic_bytes and fiber_cluster_blocks are
 * the launch's. */
void fiber_run(void *code, const void *args, const unsigned grid[3], int n_threads);

/* A barrier of n threads. */
struct thread_barrier {
    int came, number;
};
/* lanes: of the threads from a multiple of it on, which go first, since they wait for each other */
void fiber_arrive_and_wait(struct thread_barrier *m, int n, int lanes);
/* Lets other threads run. */
void fiber_suspend(void);
/* Lets other threads run until *number is another than `value`, those of its `lanes` first. */
void fiber_wait(const int *number, int value, int lanes);

/* Begins a block or cluster: its memory is uninitialized, no copy is in flight. */
void fiber_matrix_begin(void);
#pragma GCC visibility pop

#endif
