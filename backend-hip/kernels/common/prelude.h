/* prelude.h: the language of the kernels: plain C and the words below, compiled from one source for
 * three targets: AMD (clang -x hip, freestanding), NVIDIA (clang -x cuda, freestanding, to PTX) and
 * the host, where each thread of a block is a fiber (tests/emulators/fibers/fibers.c). Must not
 * know: any kernel.
 *
 *   KERNEL(name, struct args) { ... }   a kernel, of the threads that its row of kernel_list.h says
 *   ARGS                                const pointer to its arguments, after the producer launch
 *                                       has ended
 *   EARLY_ARGS                          the same at once: before wait_for_producer(), which every
 *                                       thread calls, a kernel writes nothing and reads only
 *                                       memory that no launch of a step writes
 *   LATE_ARGS(a)                        the arguments at a, read again
 *   wait_before_next()                  wait_for_producer() first, then the next launch may start:
 *                                       all that this launch's producers wrote is there for it
 *   next_may_start()                    the next launch may start now
 *   KERNEL_TWICE(name, struct args) { ... }   a kernel with an occupancy of two blocks on AMD
 *   DEVICE float f(...)                 a function, always inlined, so that constant arguments are
 *                                       constants inside
 *   LDS(float, name, count)             static shared memory of a block, undefined at its start
 *   thread(), block_x() .. block_z()    indices; blocks have one dimension, grids three
 *   barrier()                           all threads of the block reach it; earlier writes are
 *                                       visible after it
 *   take_numbers(counter, n)            counter += n of an int in shared memory, atomically; gives
 *                                       the old value
 *   take_of_all(counter, n), add_of_all(sum, n)   the same of an int, of a u64 in global memory
 * that all blocks of a launch share set_bits(word, bits)                word |= bits in shared
 * memory, atomically (NVIDIA) signal(flag, n), signalled(flag)    writes and reads a word that
 * another device or the host reads and writes: what this thread wrote before signal(), and the
 * block before a barrier() behind publish(), is there for who has read the word and calls
 * trust_signal(), and for its block behind a barrier() publish()                           what
 * this thread wrote is there for other devices before what the block signals behind the next
 * barrier() signal_taken(flag, n)               the same, but only says what the block has read
 *   send_16(p, v), send_8(p, v)         stores 16 bytes in memory of another device or of the host;
 *                                       8 bytes that arrive at once
 *   received_8(p)                       8 bytes that another device or the host may write
 *   rest()                              in a loop that waits for another device
 *   PATIENCE                            turns of such a loop, after which it asks the host
 *                                       whether to go on: that is slow where many threads do
 *
 * -ffp-contract=off everywhere: fma32 is the only fused multiply-add. So the bits of a result
 * follow from the source, whatever it is inlined into, and kernels for one row and for sixteen
 * agree. */
#ifndef KERNELS_PRELUDE_H
#define KERNELS_PRELUDE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((vector_size(4)));
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
typedef float f32x4 __attribute__((vector_size(16)));

#if defined(__AMDGCN__)

#define DEVICE static inline __attribute__((device, always_inline))
#define KERNEL_FUNCTION(name, type)                                                                \
    extern "C" __attribute__((                                                                     \
        global, amdgpu_flat_work_group_size(THREADS_OF_##name, THREADS_OF_##name))) void           \
    name(const type args_by_value)
#define EARLY_ARGS (&args_by_value)
#define LDS(type, name, count) static __attribute__((shared)) type name[count]
#if __clang_major__ >= 16
#define UNROLL _Pragma("unroll")
#else /* older compilers of AMD's runtimes unroll too late to keep arrays in registers, unless
         forced */
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#define UNROLL_2 _Pragma("unroll 2")
#define UNROLL_4 _Pragma("unroll 4")
#define UNROLL_8 _Pragma("unroll 8")
#define NO_UNROLL _Pragma("nounroll")
DEVICE void wait_for_producer(void) {}
DEVICE void wait_before_next(void) {}
DEVICE void next_may_start(void) {}
DEVICE int thread(void) { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int block_x(void) { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE int block_y(void) { return (int)__builtin_amdgcn_workgroup_id_y(); }
DEVICE int block_z(void) { return (int)__builtin_amdgcn_workgroup_id_z(); }
DEVICE void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE int take_numbers(int *counter, int n)
{
    return __hip_atomic_fetch_add(counter, n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
DEVICE int take_of_all(int *counter, int n)
{
    return __hip_atomic_fetch_add(counter, n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void add_of_all(u64 *sum, u64 n)
{
    __hip_atomic_fetch_add(sum, n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void signal(u32 *flag, u32 n)
{
    __hip_atomic_store(flag, n, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE u32 signalled(const u32 *flag)
{
    return __hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE void signal_taken(u32 *flag, u32 n)
{
    __hip_atomic_store(flag, n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE void trust_signal(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
DEVICE void publish(void) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
DEVICE void send_16(f32x4 *p, f32x4 v) { *p = v; }
DEVICE void send_8(u64 *p, u64 v)
{
    __hip_atomic_store(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE u64 received_8(const u64 *p)
{
    return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE void rest(void) { __builtin_amdgcn_s_sleep(1); }
enum { PATIENCE = 1 << 14 };
DEVICE float rcp_estimate(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float rsqrt_estimate(float x) { return __builtin_amdgcn_rsqf(x); }

#elif defined(__NVPTX__)

#define DEVICE static inline __attribute__((device, always_inline))
#define KERNEL_FUNCTION(name, type)                                                                \
    extern "C" __attribute__((                                                                     \
        global, launch_bounds(THREADS_OF_##name, BLOCKS_OF_##name))) void                          \
    name(const type args_by_value)
#define EARLY_ARGS (&args_by_value)
#define LDS(type, name, count) static __attribute__((shared)) type name[count]
#define UNROLL _Pragma("unroll")
#define UNROLL_2 _Pragma("unroll 2")
#define UNROLL_4 _Pragma("unroll 4")
#define UNROLL_8 _Pragma("unroll 8")
#define NO_UNROLL _Pragma("nounroll")
/* From sm_90 on launches overlap (programmatic dependent launch): the next launch may start now;
 * this one continues when all launches before it have ended. */
DEVICE void wait_for_producer(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void wait_before_next(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void next_may_start(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE int thread(void) { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE int block_x(void) { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE int block_y(void) { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE int block_z(void) { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE void barrier(void) { __syncthreads(); }
DEVICE int take_numbers(int *counter, int n)
{
    return __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
DEVICE int take_of_all(int *counter, int n) { return take_numbers(counter, n); }
DEVICE void add_of_all(u64 *sum, u64 n) { __atomic_fetch_add(sum, n, __ATOMIC_RELAXED); }
DEVICE void set_bits(u32 *word, u32 bits) { __atomic_fetch_or(word, bits, __ATOMIC_RELAXED); }
DEVICE u32 shuffle_xor(u32 v, int lanes)
{
    u32 other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                 : "=r"(other)
                 : "r"(v), "r"(lanes));
    return other;
}
DEVICE void signal(u32 *flag, u32 n)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(n) : "memory");
}
DEVICE u32 signalled(const u32 *flag)
{
    u32 n;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(n) : "l"(flag) : "memory");
    return n;
}
DEVICE void signal_taken(u32 *flag, u32 n)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(n) : "memory");
}
DEVICE void trust_signal(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
DEVICE void publish(void) {} /* signal()'s release holds for what the barrier has brought */
DEVICE void send_16(f32x4 *p, f32x4 v) { *p = v; }
DEVICE void send_8(u64 *p, u64 v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
DEVICE u64 received_8(const u64 *p)
{
    u64 v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
DEVICE void rest(void) {}
enum { PATIENCE = 1 << 16 };
DEVICE float rcp_estimate(float x) { return __nvvm_rcp_approx_ftz_f(x); }
DEVICE float rsqrt_estimate(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
/* 2^x with a relative error of 2^-22; subnormal results are 0. */
DEVICE float exp2_estimate(float x) { return __nvvm_ex2_approx_ftz_f(x); }

#else

#include "backend-hip/kernels/host/fibers.h"

#include <math.h>

#define DEVICE static inline __attribute__((always_inline, unused))
#define KERNEL_FUNCTION(name, type)                                                                \
    void name(const type *args);                                                                   \
    void name(const type *args)
#define EARLY_ARGS args
#define LDS(type, name, count) type *name = fiber_lds(sizeof(type) * (count))
#define UNROLL /* no unrolling: a host compiler would need minutes */
#define UNROLL_2
#define UNROLL_4
#define UNROLL_8
#define NO_UNROLL
DEVICE void wait_for_producer(void) {}
DEVICE void wait_before_next(void) {}
DEVICE void next_may_start(void) {}
DEVICE int thread(void) { return fiber_thread; }
DEVICE int block_x(void) { return fiber_block[0]; }
DEVICE int block_y(void) { return fiber_block[1]; }
DEVICE int block_z(void) { return fiber_block[2]; }
DEVICE void barrier(void) { fiber_barrier(); }
DEVICE int take_numbers(int *counter, int n)
{
    int first = *counter;
    *counter = (int)((u32)first + (u32)n);
    return first;
}
DEVICE int take_of_all(int *counter, int n) { return take_numbers(counter, n); }
DEVICE void add_of_all(u64 *sum, u64 n) { *sum += n; }
DEVICE void set_bits(u32 *word, u32 bits) { *word |= bits; }
DEVICE u32 shuffle_xor(u32 v, int lanes) { return fiber_shuffle(v, fiber_thread % 32 ^ lanes); }
DEVICE void signal(u32 *flag, u32 n) { __atomic_store_n(flag, n, __ATOMIC_RELEASE); }
DEVICE u32 signalled(const u32 *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }
DEVICE void signal_taken(u32 *flag, u32 n) { __atomic_store_n(flag, n, __ATOMIC_RELEASE); }
DEVICE void trust_signal(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
DEVICE void publish(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
DEVICE void send_16(f32x4 *p, f32x4 v) { fiber_send(p, &v); }
DEVICE void send_8(u64 *p, u64 v) { fiber_send_8(p, v); }
DEVICE u64 received_8(const u64 *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
DEVICE void rest(void) { fiber_spin(); }
enum { PATIENCE = 1 };
DEVICE float rcp_estimate(float x) { return 1 / x; }
DEVICE float rsqrt_estimate(float x) { return 1 / sqrtf(x); }

#endif

#define KERNEL(name, type)                                                                         \
    _Static_assert(((int)IMAGES_OF_##name & THIS_IMAGE) != 0, #name ": not of this image");        \
    KERNEL_FUNCTION(name, type)
#if defined(__AMDGCN__)
#define KERNEL_TWICE(name, type) __attribute__((amdgpu_waves_per_eu(2))) KERNEL_FUNCTION(name, type)
#else
#define KERNEL_TWICE(name, type) KERNEL(name, type)
#endif
#define ARGS (wait_for_producer(), EARLY_ARGS)
/* The arguments at a, read again: what was read before need not be kept in registers. */
#if defined(__AMDGCN__)
DEVICE const void *late_args(void)
{
    u64 args = (u64)__builtin_amdgcn_kernarg_segment_ptr();
    __asm__ volatile("" : "+s"(args));
    return (const void *)(const __attribute__((address_space(4))) void *)args;
}
#define LATE_ARGS(a) ((__typeof__(a))late_args())
#else
#define LATE_ARGS(a) (a)
#endif

/* Prefetches the line of 128 bytes at p into the L2 cache. */
DEVICE void prefetch_line(const void *p)
{
#if defined(__NVPTX__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
#else
    (void)p;
#endif
}

/* Prefetches `bytes` from p on into the L2 cache, up to a line of 128 bytes for each thread. */
DEVICE void prefetch_lines(const void *p, int bytes)
{
    if (thread() * 128 < bytes) prefetch_line((const char *)p + thread() * 128);
}

DEVICE float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/* The larger of a and b; the number if a is NaN. One instruction on NVIDIA, whose compiler makes
 * two of the comparison. */
#if defined(__NVPTX__)
DEVICE float max32(float a, float b) { return __builtin_fmaxf(a, b); }
#else
DEVICE float max32(float a, float b) { return a > b ? a : b; }
#endif
DEVICE float abs32(float x) { return __builtin_fabsf(x); }

DEVICE u32 bits_of(float x)
{
    u32 u;
    __builtin_memcpy(&u, &x, 4);
    return u;
}

/* A number in an order of bits; not 0. -0 is 0. */
DEVICE u32 ordered_bits(float x)
{
    u32 u = bits_of(x + 0.0f);
    return u >> 31 ? ~u : u | 0x80000000u;
}

DEVICE float f32_of(u32 u)
{
    float x;
    __builtin_memcpy(&x, &u, 4);
    return x;
}

DEVICE f16x2 pair_of(u32 u)
{
    f16x2 h;
    __builtin_memcpy(&h, &u, 4);
    return h;
}

DEVICE u32 word_of(f16x2 h)
{
    u32 u;
    __builtin_memcpy(&u, &h, 4);
    return u;
}

DEVICE f16 half_of(u32 u)
{
    u16 low = (u16)u;
    f16 h;
    __builtin_memcpy(&h, &low, 2);
    return h;
}

/* a * b + c, fused; on the host rounded to fp32 first, which makes no difference where the product
 * is exact in fp16. */
DEVICE f16x2 fma16x2(f16x2 a, f16x2 b, f16x2 c)
{
#if !defined(__AMDGCN__) && !defined(__NVPTX__)
    return (f16x2){(f16)fmaf((float)a[0], (float)b[0], (float)c[0]),
                   (f16)fmaf((float)a[1], (float)b[1], (float)c[1])};
#elif __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#else
    return (f16x2){(f16)__builtin_fmaf16(a[0], b[0], c[0]),
                   (f16)__builtin_fmaf16(a[1], b[1], c[1])};
#endif
}

/* Bytes 0 and 2 (odd 0) or 1 and 3 (odd 1) of a word as the low bytes of two halves with high byte
 * `high`. */
DEVICE u32 spread_bytes(u32 word, const int odd, u32 high)
{
#if defined(__AMDGCN__)
    return __builtin_amdgcn_perm(word, high * 0x01010101u, odd ? 0x00070005u : 0x00060004u);
#else
    return (word >> (8 * odd) & 0x00ff00ffu) | high * 0x01000100u;
#endif
}

/* Four bytes chosen from a (numbers 0 to 3) and b (4 to 7). Each nibble of the constant `which` is
 * the number of a byte, the lowest nibble first. */
DEVICE u32 chosen_bytes(u32 a, u32 b, u32 which)
{
#if defined(__NVPTX__)
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(which));
    return v;
#elif defined(__AMDGCN__)
    return __builtin_amdgcn_perm(b, a,
                                 (which & 7) | (which >> 4 & 7) << 8 | (which >> 8 & 7) << 16 |
                                     (which >> 12 & 7) << 24);
#else
    u64 bytes = (u64)a | (u64)b << 32;
    u32 v = 0;
    for (int i = 0; i < 4; i++) v |= (u32)(bytes >> (which >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
    return v;
#endif
}

/* Addresses of a uniform pointer and a 32-bit offset of the thread: AMD's loads add the two.
 * Without these the compiler computes each address in advance, in two registers. */
DEVICE const u8 *uniform(const u8 *p)
{
#if defined(__AMDGCN__)
    const __attribute__((address_space(1)))
    u8 *global = (const __attribute__((address_space(1))) u8 *)p;
    __asm__("" : "+s"(global));
    return (const u8 *)global;
#else
    return p;
#endif
}

/* A number that is the same in all threads of the block. */
DEVICE int uniform_int(int n)
{
#if defined(__AMDGCN__)
    return __builtin_amdgcn_readfirstlane(n);
#else
    return n;
#endif
}

DEVICE u32 of_lane(u32 offset)
{
#if defined(__AMDGCN__)
    __asm__("" : "+v"(offset));
#endif
    return offset;
}

/* An offset that is the same in the wave, in a scalar register; what is loaded from there is not
 * loaded earlier than here. */
DEVICE u32 of_wave(u32 offset)
{
#if defined(__AMDGCN__)
    __asm__ volatile("" : "+s"(offset));
#endif
    return offset;
}

/* Waits for the load of a value, or computes it, here. */
DEVICE void await_16(u32x4 *v)
{
#if defined(__AMDGCN__)
    __asm__ volatile("" : "+v"(*v));
#else
    (void)v;
#endif
}

DEVICE void await_4(u32 *v)
{
#if defined(__AMDGCN__)
    __asm__ volatile("" : "+v"(*v));
#else
    (void)v;
#endif
}

DEVICE float f32_of_bf16(u32 u) { return f32_of(u << 16); }

/* c + the sum of products of 4 signed bytes. */
DEVICE int dot4(u32 a, u32 b, int c)
{
#if defined(__AMDGCN__) && HAS_DOT2 && (defined(GFX11) || defined(GFX12))
    return __builtin_amdgcn_sudot4(1, (int)a, 1, (int)b, c, 0);
#elif defined(__AMDGCN__) && HAS_DOT2
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, 0);
#elif defined(__NVPTX__)
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#else
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
    return c;
#endif
}

/* c + the sum of products of 8 unsigned nibbles. */
DEVICE u32 dot8_u4(u32 a, u32 b, u32 c)
{
#if HAS_DOT8
    return __builtin_amdgcn_udot8(a, b, c, 0);
#else
    for (int i = 0; i < 32; i += 4) c += (a >> i & 15) * (b >> i & 15);
    return c;
#endif
}

/* c + the sum of products of 8 signed nibbles. */
DEVICE int dot8_i4(u32 a, u32 b, int c)
{
#if HAS_DOT8 && (defined(GFX11) || defined(GFX12))
    return __builtin_amdgcn_sudot8(1, (int)a, 1, (int)b, c, 0);
#elif HAS_DOT8
    return __builtin_amdgcn_sdot8((int)a, (int)b, c, 0);
#else
    for (int i = 28; i >= 0; i -= 4) c += ((int)(a << i) >> 28) * ((int)(b << i) >> 28);
    return c;
#endif
}

/* n words from an address that is the same in all lanes of a wave, of memory that no thread of the
 * launch writes: by scalar loads on AMD. */
DEVICE void uniform_words(const void *p, const int n, u32 *to)
{
#if defined(__AMDGCN__)
    const __attribute__((address_space(4)))
    u32 *from = (const __attribute__((address_space(4))) u32 *)(u64)p;
#else
    const u32 *from = (const u32 *)p;
#endif
    UNROLL for (int i = 0; i < n; i++) to[i] = from[i];
}

/* The compiler moves nothing across: what it would load early needs registers. */
DEVICE void no_mixing(void)
{
#if defined(__AMDGCN__) && __has_builtin(__builtin_amdgcn_sched_barrier)
    __builtin_amdgcn_sched_barrier(0);
#endif
}

/* c + a[0] * b[0] + a[1] * b[1]: exact products, fp32 sums. */
DEVICE float dot2(f16x2 a, f16x2 b, float c)
{
#if HAS_DOT2
    return __builtin_amdgcn_fdot2(a, b, c, 0);
#else
    return fma32((float)a[1], (float)b[1], fma32((float)a[0], (float)b[0], c));
#endif
}

/* 1 / x and x^-1/2 with an error of an ulp or two, for normal x and normal results. */
DEVICE float rcp32(float x)
{
    float r = rcp_estimate(x);
    return fma32(fma32(-x, r, 1), r, r);
}

DEVICE float rsqrt32(float x)
{
    float r = rsqrt_estimate(x);
    return fma32(fma32(-x * r, r, 1), 0.5f * r, r);
}

/* e^x, 2 ulp; 0 below -87, e^88 above 88; NaN stays NaN. NVIDIA: 2^x of the rounded x log2(e),
 * corrected by its rounding error. Others: 2^n (1 + r + r^2 P(r)), |r| <= ln2/2, P minimax of
 * degree 4. */
DEVICE float exp32(float x)
{
    float y = x > 88 ? 88 : x;
#if defined(__NVPTX__)
    float t = y * 0x1.715476p+0f, off = fma32(y, 0x1.4ae0c0p-26f, fma32(y, 0x1.715476p+0f, -t)),
          e = exp2_estimate(t);
    return y < -87 ? 0 : fma32(e, off * 0x1.62e43p-1f, e);
#else
    float n = y * 0x1.715476p+0f + 0x1.8p23f - 0x1.8p23f;
    float r = fma32(-n, 0x1.7f7d1cp-20f, fma32(-n, 0x1.62e4p-1f, y));
    float p = fma32(0x1.6d4328p-10f, r, 0x1.120b74p-7f);
    p = fma32(p, r, 0x1.5554eap-5f);
    p = fma32(p, r, 0x1.5554dcp-3f);
    p = fma32(p, r, 0.5f);
    float e = fma32(p, r * r, r) + 1;
    e = y < -87 ? 0 : e * f32_of((u32)((int)(y < -87 ? 0 : n) + 127) << 23);
    return x != x ? x : e;
#endif
}

/* tanh(x) within 5 ulp, as cpu_tanhf() of backend-cpu/cpu_math.h: m / (m + 2) of m = e^2|x| - 1. */
DEVICE float tanh32(float x)
{
    float y = 2 * abs32(x);
    y = y <= 20 ? y : 20;
    float n = y * 0x1.715476p+0f + 0x1.8p23f - 0x1.8p23f;
    float r = fma32(-n, 0x1.7f7d1cp-20f, fma32(-n, 0x1.62e4p-1f, y));
    float p = fma32(0x1.6d4328p-10f, r, 0x1.120b74p-7f);
    p = fma32(p, r, 0x1.5554eap-5f);
    p = fma32(p, r, 0x1.5554dcp-3f);
    p = fma32(p, r, 0.5f);
    float two_n = f32_of((u32)((int)n + 127) << 23),
          m = fma32(two_n, fma32(p, r * r, r), two_n - 1);
    float t = m * rcp32(m + 2);
    return x != x ? x : x < 0 ? -t : t;
}

DEVICE float softcapped(float x, float cap) { return cap * tanh32(x * rcp32(cap)); }

DEVICE float sigmoid32(float x) { return rcp32(1 + exp32(-x)); }

/* ln(1 + x) for 0 <= x <= 1, 4 ulp: 2 artanh(s) of s = x / (2 + x) by its Taylor series, whose
 * first omitted term is below 2^-32 of the result. */
DEVICE float log1p32(float x)
{
    float s = x * rcp32(2 + x), z = s * s;
    float p = fma32(0x1.e1e1e2p-5f, z, 0x1.111112p-4f);
    p = fma32(p, z, 0x1.3b13b2p-4f);
    p = fma32(p, z, 0x1.745d18p-4f);
    p = fma32(p, z, 0x1.c71c72p-4f);
    p = fma32(p, z, 0x1.24924ap-3f);
    p = fma32(p, z, 0x1.99999ap-3f);
    p = fma32(p, z, 0x1.555556p-2f);
    return 2 * fma32(s * z, p, s);
}

/* ln(x) for normal x >= 1. */
DEVICE float log32(float x)
{
    u32 u = bits_of(x);
    float n = (float)((int)(u >> 23) - 127), m = f32_of((u & 0x7fffffu) | 0x3f800000u);
    return fma32(n, 0x1.62e43p-1f, fma32(n, -0x1.05c61p-29f, log1p32(m - 1)));
}

/* ln(1 + e^x) */
DEVICE float softplus32(float x) { return (x > 0 ? x : 0) + log1p32(exp32(-abs32(x))); }

/* The sum over 4 or 8 neighbouring lanes, in each of them: neighbours, pairs, fours. All lanes of
 * the wave are active. */
#if defined(__AMDGCN__)
#define DPP_SUM(x, control)                                                                        \
    ((x) + f32_of((u32)__builtin_amdgcn_update_dpp(0, (int)bits_of(x), control, 0xf, 0xf, 1)))
enum { SWAP_NEIGHBOURS = 0xb1, SWAP_PAIRS = 0x4e, MIRROR_8 = 0x141 }; /* DPP controls */
DEVICE float sum_of_4(float x)
{
    x = DPP_SUM(x, SWAP_NEIGHBOURS);
    return DPP_SUM(x, SWAP_PAIRS);
}
DEVICE float sum_of_8(float x)
{
    x = sum_of_4(x);
    return DPP_SUM(x, MIRROR_8);
}
#else
DEVICE float sum_of_4(float x)
{
    x += f32_of(shuffle_xor(bits_of(x), 1));
    return x + f32_of(shuffle_xor(bits_of(x), 2));
}
DEVICE float sum_of_8(float x)
{
    x = sum_of_4(x);
    return x + f32_of(shuffle_xor(bits_of(x), 4));
}
#endif

/* sin and cos of |x| < 2^23, 2 ulp: reduction by multiples of pi/2 in three fused steps (n * hi - x
 * is exact), then Taylor polynomials on |r| <= pi/4, whose first omitted terms are below 2^-28. */
DEVICE void sincos32(float x, float *s, float *c)
{
    float n = x * 0x1.45f306p-1f + 0x1.8p23f - 0x1.8p23f;
    float r = fma32(-n, 0x1.921fb6p+0f, x);
    r = fma32(-n, -0x1.777a5cp-25f, r);
    r = fma32(-n, -0x1.ee59dap-50f, r);
    float r2 = r * r;
    float p = fma32(0x1.71de3ap-19f, r2, -0x1.a01a02p-13f);
    p = fma32(p, r2, 0x1.111112p-7f);
    p = fma32(p, r2, -0x1.555556p-3f);
    float sr = fma32(p * r2, r, r);
    float q = fma32(-0x1.27e4fcp-22f, r2, 0x1.a01a02p-16f);
    q = fma32(q, r2, -0x1.6c16c2p-10f);
    q = fma32(q, r2, 0x1.555556p-5f);
    q = fma32(q, r2, -0.5f);
    float cr = fma32(q, r2, 1);
    int quadrant = (int)n & 3;
    float ss = quadrant & 1 ? cr : sr, cc = quadrant & 1 ? sr : cr;
    *s = quadrant & 2 ? -ss : ss;
    *c = quadrant == 1 || quadrant == 2 ? -cc : cc;
}

/* Sum and maximum over the block of one value per thread, in every thread, by a tree of fixed
 * shape. scratch[THREADS] may be reused afterwards. */
DEVICE float sum_or_max(float a, float b, const int max) { return max ? max32(a, b) : a + b; }

#if !defined(__AMDGCN__)
/* The tree by one warp, whose lanes have values i, i + 32, .. in v, the last levels by shuffles; the
 * result is in every lane. */
DEVICE float tree_of_lanes(float v[THREADS / 32], const int max)
{
    int t = thread();
    UNROLL for (int w = THREADS / 64; w; w /= 2) UNROLL for (int i = 0; i < w; i++)
        v[i] = sum_or_max(v[i], v[i + w], max);
    UNROLL for (int w = 16; w; w /= 2)
    {
        float other = f32_of(shuffle_xor(bits_of(v[0]), w));
        v[0] = t & w ? sum_or_max(other, v[0], max) : sum_or_max(v[0], other, max);
    }
    return v[0];
}

/* The tree of one warp over scratch[THREADS]. */
DEVICE float warp_tree(const float *scratch, const int max)
{
    float v[THREADS / 32];
    UNROLL for (int i = 0; i < THREADS / 32; i++) v[i] = scratch[thread() % 32 + 32 * i];
    return tree_of_lanes(v, max);
}
#endif

DEVICE float block_tree(float x, float *scratch, const int max)
{
    int t = thread();
    scratch[t] = x;
    barrier();
#if defined(__NVPTX__) /* every warp computes the whole tree: two barriers in place of ten */
    float result = warp_tree(scratch, max);
#else
    for (int w = THREADS / 2; w; w /= 2) {
        if (t < w) scratch[t] = sum_or_max(scratch[t], scratch[t + w], max);
        barrier();
    }
    float result = scratch[0];
#endif
    barrier();
    return result;
}

DEVICE float block_sum(float x, float *scratch) { return block_tree(x, scratch, 0); }
DEVICE float block_max(float x, float *scratch) { return block_tree(x, scratch, 1); }

#endif
