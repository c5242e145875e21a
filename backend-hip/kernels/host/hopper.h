/* host/hopper.h: the functions of hopper/ptx.h as host code
 * (tests/emulators/fibers/fiber_matrix.c). Products complete at once, so a read that is too early
 * is not detected. */
#ifndef TESTS_FIBER_HOPPER_H
#define TESTS_FIBER_HOPPER_H

#include "backend-hip/kernels/host/fibers.h"

#define REGISTERS_LESS(n) (void)(n)
#define REGISTERS_MORE(n) (void)(n)

DEVICE void mbarrier_init(u32 barrier, u32 arrivals) { fiber_phase_init(barrier, (int)arrivals); }
DEVICE void mbarrier_init_done(void) {}
DEVICE void mbarrier_arrive(u32 barrier) { fiber_phase_arrive(barrier, 0); }
DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes)
{
    fiber_phase_arrive(barrier, (int)bytes);
}
DEVICE void mbarrier_wait(u32 barrier, u32 parity) { fiber_phase_wait(barrier, parity); }
DEVICE u32 lds_word(u32 lds) { return *(const u32 *)fiber_lds_pointer(lds); }
DEVICE u32x4 lds_words(u32 lds) { return *(const u32x4 *)fiber_lds_pointer(lds); }
DEVICE float load_fresh(const float *from) { return *from; }
DEVICE int load_fresh_int(const int *from) { return *from; }
DEVICE u32 keep(u32 v) { return v; }
DEVICE void change_by(u32 *v, int zero) { *v ^= (u32)zero; }

DEVICE int cluster_blocks(void) { return fiber_cluster_blocks; }
DEVICE int cluster_rank(void) { return fiber_cluster_rank(); }
DEVICE void cluster_barrier(void) { fiber_cluster_barrier(); }
DEVICE void cluster_arrive(void) { fiber_cluster_barrier(); }
DEVICE void cluster_arrive_written(void) { fiber_cluster_barrier(); }
DEVICE void cluster_wait(void) {}
DEVICE float load_of_block(u32 lds, int rank) { return fiber_load_of_block(lds, rank); }
DEVICE void store_to_block(u32 lds, int rank, u64 v) { fiber_store_to_block(lds, rank, v); }
DEVICE int count_block(int *counter) { return (*counter)++; }
DEVICE void flag_give(int *flag) { *flag = 1; }
/* Blocks run one after another, so whoever gives has run. */
DEVICE void flag_await(const int *flag)
{
    if (!*flag) __builtin_trap();
}
DEVICE f32x4 load_fresh_4(const f32x4 *from) { return *from; }
DEVICE void bulk_copy(u32 lds, const void *from, u32 bytes, u32 barrier)
{
    fiber_copy_bytes(lds, from, bytes, barrier);
}
DEVICE void tma_load(u32 lds, const void *map, int c0, int c1, int c2, u32 barrier)
{
    fiber_copy_box(lds, map, c0, c1, c2, barrier);
}

DEVICE void turn_wait(int id) { fiber_barrier_numbered(id, 256); }
DEVICE void turn_give(int id) { fiber_barrier_arrive(id, 256); }

DEVICE void wgmma_begin(void) {}
DEVICE void wgmma_commit(void) {}
DEVICE void wgmma_wait_but_one(u32 *q0, u32 *q1) { (void)q0, (void)q1; }
DEVICE void wgmma_wait_all(void) {}
DEVICE void wgmma_wait_but_last(void) {}
DEVICE void wgmma_done(float *c, int n) { (void)c, (void)n; }
DEVICE void wgmma_wait(float *c, int n) { (void)c, (void)n; }
DEVICE void matrix_reads_after(void) {}

DEVICE void wgmma(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate, int n)
{
    const u32 a[] = {a0, a1, a2, a3};
    fiber_wgmma(c, a, b, n, 0, accumulate);
}
DEVICE void wgmma_shared_64(float *c, u64 a, u64 b, int accumulate)
{
    fiber_wgmma_shared(c, a, b, 64, accumulate);
}
DEVICE void wgmma_of(float *c, const u32 a[4], u64 b, int accumulate, int n, int bf16)
{
    if (bf16) fiber_wgmma_bf16(c, a, b, n, accumulate);
    else fiber_wgmma(c, a, b, n, 0, accumulate);
}

DEVICE void wgmma_s8(int *c, const u32 a[4], u64 b, int accumulate, int n)
{
    /* 64 rows are 8 KB, which a descriptor counts in 16 bytes */
    for (int i = 0; i < n / 64; i++) fiber_wgmma_s8(c + 32 * i, a, b + 512 * (u64)i, accumulate);
}
DEVICE void wgmma_wait_s8(int *c, int n) { (void)c, (void)n; }

DEVICE void wgmma_by_columns(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int n)
{
    const u32 a[] = {a0, a1, a2, a3};
    fiber_wgmma(c, a, b, n, 1, 1);
}

#endif
