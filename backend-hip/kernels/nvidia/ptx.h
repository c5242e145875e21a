/* nvidia/ptx.h: PTX of sm_80 and later as inline assembly: mma, ldmatrix, cp.async, shuffles, named
 * barriers. PTX ISA. Must not know: any kernel. */
#ifndef KERNELS_NVIDIA_H
#define KERNELS_NVIDIA_H

enum { WARP = 32, WARPS = THREADS / WARP };
enum { ITEM_CODES = ITEM_BYTES / 4 }; /* words of an item's codes */

#if !defined(__NVPTX__)
#include "backend-hip/kernels/host/nvidia.h"
#else
/* Dynamic shared memory, of the size in kernel_list.h. */
extern __attribute__((shared)) u32 dynamic_lds[] __attribute__((aligned(1024)));

DEVICE int grid_x(void) { return __nvvm_read_ptx_sreg_nctaid_x(); }

DEVICE void warp_barrier(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

DEVICE u32 lds_address(const void *p)
{
    u32 address;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(p));
    return address;
}

/* Asynchronous copies to shared memory (cp.async); a thread's copies since its last copies_commit()
 * are a group. */
DEVICE void copy_16(u32 lds, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(lds), "l"(from)
                 : "memory");
}
/* copy_16(); where `valid` is 0 it writes zeros and does not read `from`. */
DEVICE void copy_16_or_zeros(u32 lds, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(lds), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
DEVICE void copy_8(u32 lds, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(lds), "l"(from) : "memory");
}
DEVICE void copy_4(u32 lds, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(lds), "l"(from) : "memory");
}
DEVICE void copies_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most n groups of this thread are in flight; n is a constant. */
#define COPIES_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* Weights that this launch reads once: they leave no trace in L1, whose lines would bound the loads
 * in flight. */
DEVICE u32x4 load_once(const void *from)
{
    u32x4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(from));
    return v;
}
/* A load that keeps its order among the others of its kind. */
DEVICE u32x4 load_input(const void *from)
{
    u32x4 v;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(from)
                 : "memory");
    return v;
}
/* Loads four lines into the L1 cache. */
DEVICE void touch(const char *const p[4])
{
    u32 v[4];
    asm volatile("ld.global.u32 %0, [%4];\n\tld.global.u32 %1, [%5];\n\tld.global.u32 %2, "
                 "[%6];\n\tld.global.u32 %3, [%7];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(p[0]), "l"(p[1]), "l"(p[2]), "l"(p[3])
                 : "memory");
}

/* Named barriers 1 .. 15 of a block: barrier_numbered() waits for all threads, barrier_arrive()
 * only arrives. */
DEVICE void barrier_numbered(int id)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}
/* barrier_numbered() for n threads, a constant. */
#define BARRIER_OF(id, n) asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(n) : "memory")
/* barrier_numbered() for the 128 threads of a warpgroup. */
DEVICE void warpgroup_barrier(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
DEVICE void barrier_arrive(int id)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

DEVICE float shuffle_from(float x, int lane)
{
    u32 other;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;"
                 : "=r"(other)
                 : "r"(bits_of(x)), "r"(lane));
    return f32_of(other);
}

/* The largest v of the warp. */
DEVICE u32 max_of_warp(u32 v)
{
    u32 max;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(max) : "r"(v));
    return max;
}

/* The number of this thread's warp, uniform to the compiler, which then computes what depends on it
 * once a warp. */
DEVICE int warp_number(void)
{
    int warp;
    asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;"
                 : "=r"(warp)
                 : "r"(thread() / WARP));
    return warp;
}

/* The transposed 8x8 matrix of halves; lane 4r + t holds columns 2t and 2t + 1 of row r. */
DEVICE u32 transposed(u32 v)
{
    u32 w;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(w) : "r"(v));
    return w;
}

/* Loads four 8x8 matrices of halves: lane 8i + j gives the address of row j of matrix i; held as
 * transposed() says. */
DEVICE void load_matrices(u32 address, u32 m[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
}
DEVICE void load_transposed(u32 address, u32 m[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
}

/* c[4] += a b: a 16x16 (outputs x inputs), b 16x8 (inputs x rows). Lane 4r + t holds of a the pairs
 * (output r, inputs 2t), (r + 8, 2t), (r, 2t + 8), (r + 8, 2t + 8); of b (inputs 2t, row r), (2t +
 * 8, r); of c (output r, rows 2t and 2t + 1), (r + 8, the same). The numbering of inputs is free if
 * a and b agree. */
DEVICE void mma_16x8x16(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* mma_16x8x16 of bfloats. */
DEVICE void mma_bf16(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* c += A (16 x 32) B (32 x 8) of signed bytes: lane 4r + t has in a0, a1 rows r and r + 8 of A at
 * columns 4t .. 4t + 3, in a2, a3 the same + 16; in b0, b1 these rows of B's column r. c as above. */
DEVICE void mma_s8(int c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#endif

/* The number of ordered_bits(). */
DEVICE float of_ordered(u32 u) { return f32_of(u >> 31 ? u & 0x7fffffffu : ~u); }

DEVICE float quad_max(float x)
{
    UNROLL for (int i = 1; i < 4; i *= 2) x = max32(x, f32_of(shuffle_xor(bits_of(x), i)));
    return x;
}

DEVICE float quad_sum(float x)
{
    UNROLL for (int i = 1; i < 4; i *= 2) x += f32_of(shuffle_xor(bits_of(x), i));
    return x;
}

/* Sums and differences of x[n] between lanes that are `lanes` apart; the lower lane has the
 * sums. */
DEVICE void hadamard_lanes(float *x, const int n, const int lanes)
{
    UNROLL for (int i = 0; i < n; i++)
    {
        float other = f32_of(shuffle_xor(bits_of(x[i]), lanes));
        x[i] = thread() & lanes ? other - x[i] : x[i] + other;
    }
}

/* First output tile of a block; each block of the grid has a contiguous range of tiles. */
DEVICE int tile_share(const struct linear_args *a, int block)
{
    return (int)((u64)a->n_blocks * (u64)block / (u64)grid_x());
}

struct two_halves {
    u32 high, low; /* a pair of numbers in split precision, each high + low */
};

DEVICE struct two_halves split_pair(float a, float b)
{
    f16x2 high = {(f16)a, (f16)b}, low = {(f16)(a - (float)high[0]), (f16)(b - (float)high[1])};
    return (struct two_halves){word_of(high), word_of(low)};
}

/* total += scale * a chunk of 32 inputs: lo[] of output r, hi[] of output r + 8, x: 8 inputs of row
 * r. */
DEVICE void mma_chunk(float total[4], const f16x2 lo[4], const f16x2 hi[4], u32x4 x, float scale_lo,
                      float scale_hi)
{
    float part[4] = {0, 0, 0, 0};
    mma_16x8x16(part, word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]), x[0], x[1]);
    mma_16x8x16(part, word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]), x[2], x[3]);
    total[0] = fma32(scale_lo, part[0], total[0]);
    total[1] = fma32(scale_lo, part[1], total[1]);
    total[2] = fma32(scale_hi, part[2], total[2]);
    total[3] = fma32(scale_hi, part[3], total[3]);
}

#endif
