/* cpu_math.h: elementary functions with operations in a fixed order, fused only by fmaf
 * (-ffp-contract=off), so that results do not depend on the C library's version or its choice for a
 * processor. */
#ifndef BACKEND_CPU_CPU_MATH_H
#define BACKEND_CPU_CPU_MATH_H

#include "core/base/dtype.h"

#include <math.h>

/* exp(r) on |r| <= ln2/2 as 1 + r + r^2 * P(r), P of degree 4 (minimax): within 2 ulp after the
 * scaling by 2^n. */
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HI 0x1.62e4p-1f /* 15 bits: n * hi is exact for |n| < 2^9 */
#define EXP_LN2_LO 0x1.7f7d1cp-20f
#define EXP_P0 0x1p-1f
#define EXP_P1 0x1.5554dcp-3f
#define EXP_P2 0x1.5554eap-5f
#define EXP_P3 0x1.120b74p-7f
#define EXP_P4 0x1.6d4328p-10f
#define EXP_MIN -87.0f /* below: flushed to 0, so that no subnormals appear */
#define EXP_MAX 88.0f

static inline float cpu_expf(float x)
{
    if (!(x >= EXP_MIN)) return x != x ? x : 0.0f;
    if (x > EXP_MAX) x = EXP_MAX;
    float n = x * EXP_LOG2E + 0x1.8p23f - 0x1.8p23f; /* round to nearest even */
    float r = fmaf(-n, EXP_LN2_LO, fmaf(-n, EXP_LN2_HI, x));
    float p = fmaf(EXP_P4, r, EXP_P3);
    p = fmaf(p, r, EXP_P2);
    p = fmaf(p, r, EXP_P1);
    p = fmaf(p, r, EXP_P0);
    float y = fmaf(p, r * r, r) + 1.0f;
    return y * f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

/* tanh(x) within 5 ulp: m / (m + 2) of m = e^2|x| - 1 = 2^n q + (2^n - 1), q = e^r - 1 as in
 * cpu_expf, so that small x lose nothing; 1 from |x| = 10 on. */
static inline float cpu_tanhf(float x)
{
    float y = 2 * fabsf(x);
    y = y <= 20.0f ? y : 20.0f;
    float n = y * EXP_LOG2E + 0x1.8p23f - 0x1.8p23f;
    float r = fmaf(-n, EXP_LN2_LO, fmaf(-n, EXP_LN2_HI, y));
    float p = fmaf(EXP_P4, r, EXP_P3);
    p = fmaf(p, r, EXP_P2);
    p = fmaf(p, r, EXP_P1);
    p = fmaf(p, r, EXP_P0);
    float two_n = f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
    float m = fmaf(two_n, fmaf(p, r * r, r), two_n - 1.0f);
    return x != x ? x : copysignf(m / (m + 2.0f), x);
}

/* log(1 + e^x) = max(x, 0) + log(1 + y) with y = e^-|x| <= 1, and log(1 + y) = 2 artanh(z) of z =
 * y / (2 + y) <= 1/3 by its series, whose first omitted term is below 2^-31 of the first: within 4
 * ulp. */
static inline float cpu_softplusf(float x)
{
    float y = cpu_expf(-fabsf(x)), z = y / (2.0f + y), z2 = z * z;
    float p = fmaf(1.0f / 17, z2, 1.0f / 15);
    p = fmaf(p, z2, 1.0f / 13);
    p = fmaf(p, z2, 1.0f / 11);
    p = fmaf(p, z2, 1.0f / 9);
    p = fmaf(p, z2, 1.0f / 7);
    p = fmaf(p, z2, 1.0f / 5);
    p = fmaf(p, z2, 1.0f / 3);
    return (x > 0 ? x : 0.0f) + 2.0f * fmaf(p, z2 * z, z);
}

#endif
