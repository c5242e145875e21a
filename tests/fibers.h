/* fibers.h: what kernels/prelude.h needs to compile the kernels as host code: each thread of a block is a fiber, one block
 * at a time. */
#ifndef TESTS_FIBERS_H
#define TESTS_FIBERS_H

#include <stddef.h>

extern int fiber_thread, fiber_block[3];

/* Waits until every thread of the block is here; a thread that has returned instead ends the process with a message. */
void fiber_barrier(void);
/* The block's memory for the n-th call of a thread, the same for the n-th call of every thread; NaNs when a block begins. */
void *fiber_lds(size_t bytes);

/* A matrix instruction of AMD (kernels/matrix.h says which: enum matrix_kind), by what the instruction set documents say that each
 * lane holds: c += a b. Every thread of the block reaches it; a lane is the thread's number modulo 64 or 32. */
void fiber_matrix(int kind, const unsigned *a, const unsigned *b, float *c);

#endif
