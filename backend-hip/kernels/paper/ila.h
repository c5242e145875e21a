/* ila.h: the paper's inline assembly (Opt4GPTQ, algorithm 3: HIP_HFMA2, HIP_HADD2), and the atomic
 * addition of a pair of halves. The paper names v_mad_f16 and v_add_f16 for half2 operands. On gfx9
 * these compute one half, so a pair takes two instructions: v_mad_f16 again with op_sel on the high
 * halves, and v_add_f16 by SDWA, which keep the low half. The packed forms are v_pk_fma_f16 and
 * v_pk_add_f16, one instruction each, which is what a compiler makes of __hfma2 and __hadd2.
 * v_mad_f16 rounds the product. gfx906 is the one AMD image with these kernels; NVIDIA has the
 * packed forms only. */
#ifndef KERNELS_ILA_H
#define KERNELS_ILA_H

#include "backend-hip/kernels/common/prelude.h"

enum ila { ILA_NONE, ILA_LITERAL, ILA_PACKED };

/* a * b + c on both halves; with ILA_NONE fused, as __hfma2 */
DEVICE f16x2 multiply_add(f16x2 a, f16x2 b, f16x2 c, const enum ila how)
{
#if defined(__AMDGCN__)
    f16x2 d;
    if (how == ILA_PACKED) {
        __asm__("v_pk_fma_f16 %0, %1, %2, %3" : "=v"(d) : "v"(a), "v"(b), "v"(c));
        return d;
    }
    if (how == ILA_LITERAL) {
        __asm__("v_mad_f16 %0, %1, %2, %3\n\tv_mad_f16 %0, %1, %2, %3 op_sel:[1,1,1,1]"
                : "=&v"(d)
                : "v"(a), "v"(b), "v"(c));
        return d;
    }
#else
    (void)how;
#endif
    return fma16x2(a, b, c);
}

/* a + b on both halves */
DEVICE f16x2 add(f16x2 a, f16x2 b, const enum ila how)
{
#if defined(__AMDGCN__)
    f16x2 d;
    if (how == ILA_PACKED) {
        __asm__("v_pk_add_f16 %0, %1, %2" : "=v"(d) : "v"(a), "v"(b));
        return d;
    }
    if (how == ILA_LITERAL) {
        __asm__("v_add_f16 %0, %1, %2\n\tv_add_f16_sdwa %0, %1, %2 dst_sel:WORD_1 "
                "dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_1"
                : "=&v"(d)
                : "v"(a), "v"(b));
        return d;
    }
#else
    (void)how;
#endif
    return a + b;
}

/* *p += v on both halves, in no fixed order among threads: the last bits of a sum vary from run to
 * run. */
DEVICE void atomic_add_pair(u32 *p, f16x2 v)
{
#if defined(__AMDGCN__)
    u32 seen = *p,
        sum; /* no packed atomic on gfx906; every global floating-point atomic is a loop there */
    do {
        f16x2 s = pair_of(seen) + v;
        __builtin_memcpy(&sum, &s, 4);
    } while (!__hip_atomic_compare_exchange_strong(p, &seen, sum, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT));
#elif defined(__NVPTX__)
    __asm__ volatile("red.relaxed.gpu.add.noftz.f16x2 [%0], %1;"
                     :
                     : "l"(p), "r"(word_of(v))
                     : "memory");
#else
    f16x2 s = pair_of(*p) + v;
    __builtin_memcpy(p, &s, 4);
#endif
}

#endif
