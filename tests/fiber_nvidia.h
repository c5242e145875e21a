/* fiber_nvidia.h: what kernels/nvidia.h has as inline PTX, as host code of fibers.c. */
#ifndef TESTS_FIBER_NVIDIA_H
#define TESTS_FIBER_NVIDIA_H

#include "tests/fibers.h"

#define KERNEL_BLOCKS(name, blocks, type) KERNEL(name, type)
#define dynamic_lds ((u32 *)fiber_dynamic_lds())

DEVICE int grid_x(void) { return fiber_grid_x; }
DEVICE void warp_barrier(void) { fiber_warp_barrier(); }
DEVICE u32 lds_address(const void *p) { return fiber_lds_address(p); }
DEVICE void copy_16(u32 lds, const void *from) { fiber_copy(lds, from, 16); }
DEVICE void copy_4(u32 lds, const void *from) { fiber_copy(lds, from, 4); }
DEVICE void copies_commit(void) { fiber_copies_commit(); }
#define COPIES_WAIT(n) fiber_copies_wait(n)
DEVICE u32 shuffle_xor(u32 v, int lanes) { return fiber_shuffle(v, fiber_thread % 32 ^ lanes); }
DEVICE u32 transposed(u32 v) { return fiber_transposed(v); }

DEVICE void mma_16x8x16(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    const u32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    fiber_mma(c, a, b, 0);
}

#endif
