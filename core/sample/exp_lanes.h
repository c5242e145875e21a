/* exp_lanes.h: exp of two, four and eight doubles at once, the same bits in every lane, for the
 * files of core/sample that go through whole rows of logits. */
#ifndef CORE_EXP_LANES_H
#define CORE_EXP_LANES_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* 128-bit vectors of x86-64 and arm64; sums over a vocabulary use AVX2 if available. */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t bits __attribute__((vector_size(16)));
typedef float quad __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

/* 2^(j/32) */
/* clang-format off */
static const double power[32] = {
    0x1p0, 0x1.059b0d3158574p0, 0x1.0b5586cf9890fp0, 0x1.11301d0125b51p0,
    0x1.172b83c7d517bp0, 0x1.1d4873168b9aap0, 0x1.2387a6e756238p0, 0x1.29e9df51fdee1p0,
    0x1.306fe0a31b715p0, 0x1.371a7373aa9cbp0, 0x1.3dea64c123422p0, 0x1.44e086061892dp0,
    0x1.4bfdad5362a27p0, 0x1.5342b569d4f82p0, 0x1.5ab07dd485429p0, 0x1.6247eb03a5585p0,
    0x1.6a09e667f3bcdp0, 0x1.71f75e8ec5f74p0, 0x1.7a11473eb0187p0, 0x1.82589994cce13p0,
    0x1.8ace5422aa0dbp0, 0x1.93737b0cdc5e5p0, 0x1.9c49182a3f09p0, 0x1.a5503b23e255dp0,
    0x1.ae89f995ad3adp0, 0x1.b7f76f2fb5e47p0, 0x1.c199bdd85529cp0, 0x1.cb720dcef9069p0,
    0x1.d5818dcfba487p0, 0x1.dfc97337b9b5fp0, 0x1.ea4afa2a490dap0, 0x1.f50765b6e454p0,
};
/* clang-format on */

/* exp(k ln2/32 + r) = 2^(k/32) e^r with |r| <= ln2/64 (Tang 1989); e^r - 1 by its Taylor series to
 * r^5. ln2/32 is split into two constants so that r is exact. Adding 1.5 * 2^52 rounds to an
 * integer in the low bits: five of them index the table, the others are the exponent. */
static inline __attribute__((always_inline)) pair exp_pair(pair x)
{
    const pair shift = {0x1.8p52, 0x1.8p52}, lowest = {-700, -700};
    bits low = x < lowest;
    x = (pair)(((bits)x & ~low) | ((bits)lowest & low));
    pair t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
    pair r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
    pair p = r * (1.0 / 120) + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r;
    pair from = {power[((bits)t)[0] & 31], power[((bits)t)[1] & 31]};
    return (pair)((bits)(from + from * p) + (((bits)t & ~31LL) << 47));
}

#if defined(__x86_64__)
typedef double four __attribute__((vector_size(32)));
typedef int64_t four_bits __attribute__((vector_size(32)));
typedef double eight __attribute__((vector_size(64)));
typedef int64_t eight_bits __attribute__((vector_size(64)));
#define OF_FOURS static inline __attribute__((always_inline, target("avx2")))
#define OF_EIGHTS static inline __attribute__((always_inline, target("avx512f,avx512dq")))

OF_FOURS four load_four(const float *x)
{
    quad f;
    memcpy(&f, x, sizeof f);
    return __builtin_convertvector(f, four);
}

OF_FOURS four exp_four(four x)
{
    const four shift = {0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52}, lowest = {-700, -700, -700, -700};
    four_bits low = x < lowest;
    x = (four)(((four_bits)x & ~low) | ((four_bits)lowest & low));
    four t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
    four r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
    four p = r * (1.0 / 120) + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r;
    four_bits at = (four_bits)t & 31;
    four from = {power[at[0]], power[at[1]], power[at[2]], power[at[3]]};
    return (four)((four_bits)(from + from * p) + (((four_bits)t & ~31LL) << 47));
}

OF_EIGHTS eight load_eight(const float *x) { return (eight)_mm512_cvtps_pd(_mm256_loadu_ps(x)); }

/* The table is gathered. */
OF_EIGHTS eight exp_eight(eight x)
{
    const eight shift = {0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52,
                         0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52},
                lowest = {-700, -700, -700, -700, -700, -700, -700, -700};
    x = (eight)_mm512_max_pd((__m512d)lowest, (__m512d)x); /* the second operand if NaN */
    eight t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
    eight r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
    eight p = r * (1.0 / 120) + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r;
    __m512i at = _mm512_and_epi64((__m512i)t, _mm512_set1_epi64(31));
    eight from = (eight)_mm512_i64gather_pd(at, power, 8);
    return (eight)((eight_bits)(from + from * p) + (((eight_bits)t & ~31LL) << 47));
}
#endif

/* Whether this processor has the instructions for so many lanes (8, 4 or 2). */
static inline int logits_has_lanes(int lanes)
{
#if defined(__x86_64__)
    if (lanes == 8) return __builtin_cpu_supports("avx512dq") != 0;
    if (lanes == 4) return __builtin_cpu_supports("avx2") != 0;
#endif
    return lanes == 2;
}

static inline int logits_lanes(void)
{
    return logits_has_lanes(8) ? 8 : logits_has_lanes(4) ? 4 : 2;
}

#endif
