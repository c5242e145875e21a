/* fibers.h: the functions with which common/prelude.h compiles the kernels as host code: each
 * thread of a block is a fiber, one block runs at a time. */
#ifndef TESTS_FIBERS_H
#define TESTS_FIBERS_H

#include <stddef.h>

/* What belongs to the launch that runs on this thread of the host; little enough for the room that
 * every thread has for libraries opened later. */
#define FIBER_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#pragma GCC visibility push(hidden)
extern FIBER_LOCAL int fiber_thread, fiber_block[3], fiber_grid_x, fiber_cluster_blocks;

/* A turn of a loop that waits for memory which another device writes: the other threads of the
 * block and of the host go on. */
void fiber_spin(void);

/* Waits until every thread of the block is here; a thread that has returned instead ends the
 * process with a message. */
void fiber_barrier(void);
/* The block's memory for the n-th call of a thread, the same for every thread's n-th call; filled
 * with NaNs when a block begins. */
void *fiber_lds(size_t bytes);

/* Stores 16 bytes in memory of another device. */
void fiber_send(void *p, const void *bytes);
void fiber_send_8(unsigned long long *p, unsigned long long v);

/* A matrix instruction of AMD, of enum matrix_kind (amd/matrix.h), by the documented contents of
 * each lane: c += a b. Every thread of the wave reaches it; the lane is the thread's number modulo
 * 64 or 32. */
void fiber_matrix(int kind, const unsigned *a, const unsigned *b, float *c);
void fiber_matrix_s8(int kind, const unsigned *a, const unsigned *b, int *c);

/* ---- for nvidia/ptx.h; a warp is 32 threads from a multiple of 32 on, all of which arrive ---- */
void fiber_warp_barrier(void);
/* Dynamic shared memory, filled with NaNs when a block begins; its addresses as numbers. */
void *fiber_dynamic_lds(void);
unsigned fiber_lds_address(const void *p);
void *fiber_lds_pointer(unsigned address);
/* An asynchronous copy to such an address; it happens as late as it may, in the fiber_copies_wait()
 * that requires it. Copies since the last fiber_copies_commit() are a group; a wait completes all
 * but the last n groups of this thread. */
void fiber_copy(unsigned to, const void *from, size_t bytes);
void fiber_copies_commit(void);
void fiber_copies_wait(int n);
/* v of another lane; the warp's number, for which its lanes meet; the transposed 8x8 matrix of
 * halves; c[4] += a[4] b[2] of 16x8x16 (contents of lanes: nvidia/ptx.h). */
unsigned fiber_shuffle(unsigned v, int lane);
int fiber_warp_number(void);
unsigned fiber_transposed(unsigned v);
/* Loads four 8x8 matrices of halves, or their transposes; lane 8i + j gives the address of row j of
 * matrix i. */
void fiber_load_matrices(unsigned address, unsigned m[4], int transposed);
void fiber_mma(float *c, const unsigned *a, const unsigned *b, int is_bf16);
void fiber_mma_s8(int *c, const unsigned *a, const unsigned *b); /* 16x8x32 signed bytes */

/* ---- for hopper/ptx.h, which documents each ---- */
void fiber_phase_init(unsigned barrier, int arrivals);
void fiber_phase_arrive(unsigned barrier, int bytes); /* bytes: copies of so many bytes are
                                                         announced */
void fiber_phase_wait(unsigned barrier, unsigned parity);
void fiber_copy_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier);
/* A tensor map of words, as cuTensorMapEncodeTiled fills it. */
struct fiber_map {
    const void *d;
    unsigned long long sizes[3], strides[2];
    unsigned box[3];
    int swizzled; /* 16 bytes number i of 128 at i ^ (number of the 128 bytes % 8) */
};
void fiber_copy_box(unsigned to, const void *map, int c0, int c1, int c2, unsigned barrier);
/* c[n / 2] (+)= a[4] b for n rows of b, whose descriptor is NVIDIA's. */
void fiber_wgmma(float *c, const unsigned *a, unsigned long long b, int n, int by_columns,
                 int accumulate);
void fiber_wgmma_bf16(float *c, const unsigned *a, unsigned long long b, int n, int accumulate);
/* fiber_wgmma() with a in shared memory, by a descriptor. */
void fiber_wgmma_shared(float *c, unsigned long long a, unsigned long long b, int n,
                        int accumulate);
/* 64 outputs, 32 inputs, 64 rows of signed bytes */
void fiber_wgmma_s8(int *c, const unsigned *a, unsigned long long b, int accumulate);
void fiber_cluster_barrier(void);
int fiber_cluster_rank(void);
float fiber_load_of_block(unsigned address, int rank);
void fiber_store_to_block(unsigned address, int rank, unsigned long long v);
void fiber_barrier_numbered(int id, int n);
void fiber_barrier_arrive(int id, int n);
#pragma GCC visibility pop

#endif
