/* hopper/ptx.h: PTX of sm_90a as inline assembly: wgmma (asynchronous matrix products of a
 * warpgroup), TMA and bulk copies into shared memory, mbarriers, thread-block clusters. PTX ISA,
 * sections "wgmma", "cp.async.bulk", "mbarrier". */
#ifndef KERNELS_HOPPER_H
#define KERNELS_HOPPER_H

/* ---- descriptors of operand b of wgmma, in shared memory: c[n / 2] += a b for 64 outputs, 16
 * inputs and n rows. a as in mma_16x8x16, warp w of the four has outputs 16w .. 16w+15; b in shared
 * memory: rows of 128 bytes (64 inputs), in eights of rows, 16 bytes number i of a row at i ^ (row
 * % 8), the 128-byte swizzle; c[4j ..] as in mma_16x8x16 for rows 8j .. 8j+7. ---- */
DEVICE u64 wgmma_rows(u32 lds)
{
    return (u64)(lds >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
/* Descriptor of b without swizzle, in pieces of 16 bytes: 8 inputs of a row. The pieces of 8 rows
 * lie one after the other; the next 8 inputs are `inputs` bytes further, the next 8 rows `rows`
 * bytes. */
DEVICE u64 wgmma_octets(u32 lds, u32 inputs, u32 rows)
{
    return (u64)(lds >> 4 & 0x3fff) | (u64)(inputs >> 4) << 16 | (u64)(rows >> 4) << 32;
}

/* Descriptor of b transposed: 128 bytes (64 rows) of each input lie together, 16 bytes number i of
 * them at i ^ (input % 8); the next 64 rows are `rows` bytes further. */
DEVICE u64 wgmma_columns(u32 lds, u32 rows)
{
    return (u64)(lds >> 4 & 0x3fff) | (u64)(rows >> 4) << 16 | (u64)(1024 >> 4) << 32 |
           (u64)1 << 62;
}

/* wgmma_columns() where the next 8 inputs are `inputs` bytes further. */
DEVICE u64 wgmma_columns_apart(u32 lds, u32 rows, u32 inputs)
{
    return (u64)(lds >> 4 & 0x3fff) | (u64)(rows >> 4) << 16 | (u64)(inputs >> 4) << 32 |
           (u64)1 << 62;
}

#if !defined(__NVPTX__)
#include "backend-hip/kernels/host/hopper.h"
#else
/* Reallocates registers from a producer to a consumer warpgroup (setmaxnreg). n is a constant. */
#define REGISTERS_LESS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define REGISTERS_MORE(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

/* ---- mbarriers: a phase completes after `arrivals` arrivals and all expected bytes ---- */
DEVICE void mbarrier_init(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
DEVICE void mbarrier_init_done(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void mbarrier_arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
/* Waits for the phase of this parity (0 for the first, then 1, ..) to complete. */
DEVICE void mbarrier_wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n\t"
                 "again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n\t"
                 "@!p bra again; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Loads from shared memory that stay behind earlier barriers. */
DEVICE u32 lds_word(u32 lds)
{
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(lds) : "memory");
    return v;
}
DEVICE u32x4 lds_words(u32 lds)
{
    u32x4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(lds)
                 : "memory");
    return v;
}
/* A load past the L1 cache, which may have the line of an earlier step. */
DEVICE float load_fresh(const float *from)
{
    float v;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(from) : "memory");
    return v;
}
DEVICE int load_fresh_int(const int *from)
{
    int v;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
/* v, kept in a register rather than recomputed. */
DEVICE u32 keep(u32 v)
{
    asm volatile("" : "+r"(v));
    return v;
}

/* ---- thread-block clusters: blocks that run at the same time and read each other's shared memory
 * ---- */
DEVICE int cluster_blocks(void)
{
    u32 n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return (int)n;
}
DEVICE int cluster_rank(void)
{
    u32 i;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(i));
    return (int)i;
}
/* All running threads of the cluster reach it; earlier writes to shared memory are visible after
 * it. */
DEVICE void cluster_barrier(void)
{
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}
/* cluster_barrier() in two halves, between which a block works on: without making writes visible,
 * or (cluster_arrive_written) with it. */
DEVICE void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
DEVICE void cluster_arrive_written(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
DEVICE void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* The float at address lds of block `rank` of the cluster (distributed shared memory). */
DEVICE float load_of_block(u32 lds, int rank)
{
    float v;
    asm volatile(
        "{ .reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a]; }"
        : "=f"(v)
        : "r"(lds), "r"(rank)
        : "memory");
    return v;
}

/* Stores v at address lds of block `rank`, which runs. */
DEVICE void store_to_block(u32 lds, int rank, u64 v)
{
    asm volatile(
        "{ .reg .u32 a; mapa.shared::cluster.u32 a, %0, %1; st.shared::cluster.u64 [a], %2; }" ::"r"(
            lds),
        "r"(rank), "l"(v)
        : "memory");
}

/* Counts the blocks that reach it; one thread of each calls it behind a barrier. Returns the number
 * of blocks before, whose writes the block sees if its threads read past the L1 cache. */
DEVICE int count_block(int *counter)
{
    int before;
    asm volatile("fence.acq_rel.gpu;\n\tatom.relaxed.gpu.global.add.s32 %0, [%1], "
                 "1;\n\tfence.acq_rel.gpu;"
                 : "=r"(before)
                 : "l"(counter)
                 : "memory");
    return before;
}

/* A flag between blocks that run at the same time: flag_give(), by one lane behind a warp's
 * barrier, makes the warp's earlier writes visible to who has waited in flag_await() and reads past
 * the L1 cache. */
DEVICE void flag_give(int *flag)
{
    asm volatile("fence.acq_rel.gpu;\n\tst.relaxed.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
}
DEVICE void flag_await(const int *flag)
{
    int set;
    do
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(set) : "l"(flag) : "memory");
    while (!set);
}
DEVICE f32x4 load_fresh_4(const f32x4 *from)
{
    f32x4 v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "l"(from)
                 : "memory");
    return v;
}

/* Bulk copy from global to shared memory; bytes and addresses are multiples of 16; counted by the
 * mbarrier. */
DEVICE void bulk_copy(u32 lds, const void *from, u32 bytes, u32 barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(lds),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

/* TMA load of a box of a tensor (map: hip_pack.c, in global memory) from these coordinates on;
 * outside are zeros. */
DEVICE void tma_load(u32 lds, const void *map, int c0, int c1, int c2, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(lds),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(barrier)
                 : "memory");
}

/* Turns of two warpgroups: waits until the other one gives the turn of this number. */
DEVICE void turn_wait(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }
DEVICE void turn_give(int id) { asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory"); }

/* ---- wgmma ---- */
DEVICE void wgmma_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until at most one commit group is in flight; q is read only afterwards. */
DEVICE void wgmma_wait_but_one(u32 *q0, u32 *q1)
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" : "+r"(*q0), "+r"(*q1)::"memory");
}

/* c[8] += a b for 16 rows. */
DEVICE void wgmma_16(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %13, 0; "
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, p, 1, 1, 0; }"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(accumulate)
                 : "memory");
}
/* name: of fp16 or bf16 */
#define WGMMA_32(name, type)                                                                       \
DEVICE void name(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate)                  \
{                                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %21, 0; "                                         \
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {"                  \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "                        \
                 "{%16,%17,%18,%19}, %20, p, 1, 1, 0; }"                                           \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),         \
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),       \
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])                              \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(accumulate)                     \
                 : "memory");                                                                      \
}
WGMMA_32(wgmma_32, "f16")
WGMMA_32(wgmma_bf16_32, "bf16")
#undef WGMMA_32
DEVICE void wgmma_wait_32(float *c)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 :
                 : "memory");
}

#define WGMMA_64(name, type)                                                                      \
DEVICE void name(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate)                  \
{                                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "                                         \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {"                  \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "              \
                 "{%32,%33,%34,%35}, %36, p, 1, 1, 0; }"                                           \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),         \
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),       \
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),   \
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),   \
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),   \
                   "+f"(c[30]), "+f"(c[31])                                                        \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(accumulate)                     \
                 : "memory");                                                                      \
}
WGMMA_64(wgmma_64, "f16")
WGMMA_64(wgmma_bf16_64, "bf16")
#undef WGMMA_64
DEVICE void wgmma_wait_64(float *c)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31])
                 :
                 : "memory");
}

#define WGMMA_128(name, type)                                                                      \
DEVICE void name(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate)                  \
{                                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "                                         \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {"                 \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                \
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                \
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "              \
                 "{%64,%65,%66,%67}, %68, p, 1, 1, 0; }"                                           \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),         \
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),       \
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),   \
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),   \
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),   \
                   "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),   \
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),   \
                   "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),   \
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]),   \
                   "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),   \
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])                              \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(accumulate)                     \
                 : "memory");                                                                      \
}
WGMMA_128(wgmma_128, "f16")
WGMMA_128(wgmma_bf16_128, "bf16")
#undef WGMMA_128
DEVICE void wgmma_wait_128(float *c)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
                   "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]),
                   "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
                 :
                 : "memory");
}

/* n is a constant. */
DEVICE void wgmma(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate, const int n)
{
    if (n == 128) wgmma_128(c, a0, a1, a2, a3, b, accumulate);
    else if (n == 64) wgmma_64(c, a0, a1, a2, a3, b, accumulate);
    else if (n == 32) wgmma_32(c, a0, a1, a2, a3, b, accumulate);
    else wgmma_16(c, a0, a1, a2, a3, b, accumulate);
}

/* wgmma() of halves (bf16 0), or of bfloats for 32, 64 or 128 rows. */
DEVICE void wgmma_of(float *c, const u32 a[4], u64 b, int accumulate, const int n, const int bf16)
{
    if (!bf16) wgmma(c, a[0], a[1], a[2], a[3], b, accumulate, n);
    else if (n == 128) wgmma_bf16_128(c, a[0], a[1], a[2], a[3], b, accumulate);
    else if (n == 64) wgmma_bf16_64(c, a[0], a[1], a[2], a[3], b, accumulate);
    else wgmma_bf16_32(c, a[0], a[1], a[2], a[3], b, accumulate);
}

/* 64 rows: both operands in shared memory, a as wgmma_octets() describes b. */
DEVICE void wgmma_shared_64(float *c, u64 a, u64 b, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                 "%32, %33, p, 1, 1, 0, 0; }"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31])
                 : "l"(a), "l"(b), "r"(accumulate)
                 : "memory");
}

/* Keeps reads of results behind the wait for them. */
DEVICE void wgmma_done(float *c, const int n)
{
    UNROLL for (int i = 0; i < n / 2; i++) asm volatile("" : "+f"(c[i]));
}
DEVICE void wgmma_wait_all(void) { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

/* Waits for all commit groups but the last. */
DEVICE void wgmma_wait_but_last(void)
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

/* Waits for all products; c can be read. */
DEVICE void wgmma_wait(float *c, const int n)
{
    if (n == 128) wgmma_wait_128(c);
    else if (n == 64) wgmma_wait_64(c);
    else wgmma_wait_32(c);
}

/* c += a b of signed bytes: 64 outputs, 32 inputs, n rows (a constant, 64 or 128). a is held as for
 * mma_s8; b is a descriptor of wgmma_rows(), rows of 128 inputs. */
DEVICE void wgmma_s8_64(int *c, const u32 a[4], u64 b, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                 "{%32,%33,%34,%35}, %36, p; }"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]),
                   "+r"(c[6]), "+r"(c[7]), "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]),
                   "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]), "+r"(c[16]), "+r"(c[17]),
                   "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
                   "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]),
                   "+r"(c[30]), "+r"(c[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)
                 : "memory");
}
DEVICE void wgmma_s8_128(int *c, const u32 a[4], u64 b, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
                 "{%64,%65,%66,%67}, %68, p; }"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]),
                   "+r"(c[6]), "+r"(c[7]), "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]),
                   "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]), "+r"(c[16]), "+r"(c[17]),
                   "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
                   "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]),
                   "+r"(c[30]), "+r"(c[31]), "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]),
                   "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]), "+r"(c[40]), "+r"(c[41]),
                   "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]),
                   "+r"(c[48]), "+r"(c[49]), "+r"(c[50]), "+r"(c[51]), "+r"(c[52]), "+r"(c[53]),
                   "+r"(c[54]), "+r"(c[55]), "+r"(c[56]), "+r"(c[57]), "+r"(c[58]), "+r"(c[59]),
                   "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)
                 : "memory");
}
DEVICE void wgmma_s8(int *c, const u32 a[4], u64 b, int accumulate, const int n)
{
    if (n == 128) wgmma_s8_128(c, a, b, accumulate);
    else wgmma_s8_64(c, a, b, accumulate);
}
/* Waits for all products; c can be read. */
DEVICE void wgmma_wait_s8(int *c, const int n)
{
    wgmma_wait_all();
    UNROLL for (int i = 0; i < n / 2; i++) asm volatile("" : "+r"(c[i]));
}

DEVICE void wgmma_by_columns_64(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                 "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b)
                 : "memory");
}
DEVICE void wgmma_by_columns_128(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
                 "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
                   "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]),
                   "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b)
                 : "memory");
}
/* n is a constant. */
DEVICE void wgmma_by_columns(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, const int n)
{
    if (n == 128) wgmma_by_columns_128(c, a0, a1, a2, a3, b);
    else wgmma_by_columns_64(c, a0, a1, a2, a3, b);
}

/* *word ^= bits, opaque to the compiler. */
DEVICE void change_by(u32 *word, int bits)
{
    asm volatile("xor.b32 %0, %0, %1;" : "+r"(*word) : "r"(bits));
}

/* Makes this thread's writes and copies to shared memory visible to later wgmma (async proxy
 * fence). */
DEVICE void matrix_reads_after(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif

#endif
