/* ila.h: the paper's inline assembly (Opt4GPTQ, section 3.3), and the atomic addition of a pair of
 * halves. The paper names v_mad_f16 and v_add_f16 for half2 operands. On gfx9 these compute one
 * half, so a pair takes two instructions, the second with op_sel on the high halves; the first
 * keeps the high half of its result. The packed form is v_pk_fma_f16, one instruction. v_mad_f16
 * rounds the product; from gfx10 on it does not exist, and v_fma_f16 replaces it. */
#ifndef KERNELS_ILA_H
#define KERNELS_ILA_H

#include "backend-hip/kernels/common/prelude.h"

enum ila { ILA_NONE, ILA_LITERAL, ILA_PACKED };

/* a * b + c on both halves */
DEVICE f16x2 multiply_add(f16x2 a, f16x2 b, f16x2 c, const enum ila how)
{
#if defined(__AMDGCN__)
    f16x2 d;
    if (how == ILA_PACKED) {
        __asm__("v_pk_fma_f16 %0, %1, %2, %3" : "=v"(d) : "v"(a), "v"(b), "v"(c));
        return d;
    }
    if (how == ILA_LITERAL) {
#if HAS_MAD_F16
        __asm__("v_mad_f16 %0, %1, %2, %3\n\tv_mad_f16 %0, %1, %2, %3 op_sel:[1,1,1,1]"
                : "=&v"(d)
                : "v"(a), "v"(b), "v"(c));
#else
        __asm__("v_fma_f16 %0, %1, %2, %3\n\tv_fma_f16 %0, %1, %2, %3 op_sel:[1,1,1,1]"
                : "=&v"(d)
                : "v"(a), "v"(b), "v"(c));
#endif
        return d;
    }
#elif defined(__NVPTX__)
    if (how != ILA_NONE) { /* NVIDIA has the packed form only */
        u32 d;
        __asm__("fma.rn.f16x2 %0, %1, %2, %3;"
                : "=r"(d)
                : "r"(word_of(a)), "r"(word_of(b)), "r"(word_of(c)));
        return pair_of(d);
    }
#else
    (void)how;
#endif
    return a * b + c;
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
