/* host/nvidia.h: the functions of nvidia/ptx.h as host code
 * (tests/emulators/fibers/fiber_matrix.c). */
#ifndef TESTS_FIBER_NVIDIA_H
#define TESTS_FIBER_NVIDIA_H

#include "backend-hip/kernels/host/fibers.h"

#define dynamic_lds ((u32 *)fiber_dynamic_lds())

DEVICE int grid_x(void) { return fiber_grid_x; }
DEVICE void warp_barrier(void) { fiber_warp_barrier(); }
DEVICE void barrier_numbered(int id) { fiber_barrier_numbered(id, THREADS); }
#define BARRIER_OF(id, n) fiber_barrier_numbered(id, n)
DEVICE void warpgroup_barrier(int id) { fiber_barrier_numbered(id, 128); }
DEVICE void barrier_arrive(int id) { fiber_barrier_arrive(id, THREADS); }
DEVICE float exp2_estimate(float x) { return exp2f(x); }

DEVICE u32 lds_address(const void *p) { return fiber_lds_address(p); }
DEVICE void copy_16(u32 lds, const void *from) { fiber_copy(lds, from, 16); }
DEVICE void copy_16_or_zeros(u32 lds, const void *from, int there)
{
    fiber_copy(lds, there ? from : NULL, 16);
}
DEVICE void copy_8(u32 lds, const void *from) { fiber_copy(lds, from, 8); }
DEVICE void copy_4(u32 lds, const void *from) { fiber_copy(lds, from, 4); }
DEVICE void copies_commit(void) { fiber_copies_commit(); }
#define COPIES_WAIT(n) fiber_copies_wait(n)
DEVICE u32x4 load_once(const void *from) { return *(const u32x4 *)from; }
DEVICE u32x4 load_input(const void *from) { return *(const u32x4 *)from; }
DEVICE void touch(const char *const p[4]) { (void)p; }

DEVICE float shuffle_from(float x, int lane) { return f32_of(fiber_shuffle(bits_of(x), lane)); }
DEVICE u32 max_of_warp(u32 v)
{
    for (int i = 1; i < 32; i *= 2) {
        u32 other = shuffle_xor(v, i);
        v = v > other ? v : other;
    }
    return v;
}
DEVICE int warp_number(void) { return fiber_warp_number(); }
DEVICE u32 transposed(u32 v) { return fiber_transposed(v); }
DEVICE void load_matrices(u32 address, u32 m[4]) { fiber_load_matrices(address, m, 0); }
DEVICE void load_transposed(u32 address, u32 m[4]) { fiber_load_matrices(address, m, 1); }

DEVICE void mma_16x8x16(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    const u32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    fiber_mma(c, a, b, 0);
}
DEVICE void mma_s8(int c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    const u32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    fiber_mma_s8(c, a, b);
}
DEVICE void mma_bf16(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    const u32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    fiber_mma(c, a, b, 1);
}

#endif
