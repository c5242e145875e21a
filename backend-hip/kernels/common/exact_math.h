/* exact_math.h: the elementary functions of the CPU backend (backend-cpu/cpu_math.h), operation by
 * operation: the same bits on every device. Divisions and square roots are correctly rounded. */
#ifndef KERNELS_EXACT_MATH_H
#define KERNELS_EXACT_MATH_H

/* e^r - 1 of |r| <= ln2 / 2, and 2^n of x = n ln2 + r: 1.5 2^23 + n has n in its low bits */
DEVICE float exact_expm1(float x, float *two_n)
{
    float shifted = x * 0x1.715476p+0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    *two_n = f32_of((bits_of(shifted) << 23) + 0x3f800000u);
    float r = fma32(-n, 0x1.7f7d1cp-20f, fma32(-n, 0x1.62e4p-1f, x));
    float p = fma32(0x1.6d4328p-10f, r, 0x1.120b74p-7f);
    p = fma32(p, r, 0x1.5554eap-5f);
    p = fma32(p, r, 0x1.5554dcp-3f);
    p = fma32(p, r, 0.5f);
    return fma32(p, r * r, r);
}

DEVICE float exact_exp(float x)
{
    float two_n, e = exact_expm1(x > 88 ? 88 : x >= -87 ? x : -87, &two_n) + 1;
    e = e * two_n;
    return x != x ? x : x >= -87 ? e : 0;
}

/* e^x of x <= 0 or NaN. */
DEVICE float exact_exp_below(float x)
{
    int small = x < -87;
    float two_n, e = exact_expm1(small ? -87 : x, &two_n) + 1;
    return small ? 0 : e * two_n;
}

DEVICE float exact_tanh(float x)
{
    float y = 2 * abs32(x), two_n;
    y = y <= 20 ? y : 20;
    float e = exact_expm1(y, &two_n), m = fma32(two_n, e, two_n - 1), t = m / (m + 2);
    return x != x ? x : f32_of((bits_of(t) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
}

DEVICE float exact_sqrt(float x) { return __builtin_sqrtf(x); }

/* ln(x) of a finite x >= 1, as logits_log() of core/sample/logits.h */
DEVICE double exact_log(double x)
{
    u64 u;
    __builtin_memcpy(&u, &x, 8);
    int k = (int)(u >> 52) - 1022;
    u = (u & 0xfffffffffffffull) | 0x3fe0000000000000ull;
    double m;
    __builtin_memcpy(&m, &u, 8);
    if (m < 0.70710678118654752) m *= 2, k--;
    double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
    for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * z2;
    return k * 0x1.62e42fefa39efp-1 + 2 * (z + z * sum);
}

/* cos and sin of an angle of up to +-2^25, as cpu_sincos() */
DEVICE void exact_sincos(float angle, float *s, float *c)
{
    const double hi = 0x1.921fb54p+0, mid = 0x1.10b461p-30, lo = 0x1.a62633145c06ep-58;
    double x = angle, shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
    double r = ((x - n * hi) - n * mid) - n * lo, r2 = r * r;
    double sr = -1.0 / 1307674368000.0;
    sr = sr * r2 + 1.0 / 6227020800.0;
    sr = sr * r2 - 1.0 / 39916800.0;
    sr = sr * r2 + 1.0 / 362880.0;
    sr = sr * r2 - 1.0 / 5040.0;
    sr = sr * r2 + 1.0 / 120.0;
    sr = sr * r2 - 1.0 / 6.0;
    sr = sr * r2 * r + r;
    double cr = 1.0 / 20922789888000.0;
    cr = cr * r2 - 1.0 / 87178291200.0;
    cr = cr * r2 + 1.0 / 479001600.0;
    cr = cr * r2 - 1.0 / 3628800.0;
    cr = cr * r2 + 1.0 / 40320.0;
    cr = cr * r2 - 1.0 / 720.0;
    cr = cr * r2 + 1.0 / 24.0;
    cr = cr * r2 - 0.5;
    cr = cr * r2 + 1.0;
    u64 bits;
    __builtin_memcpy(&bits, &shifted, 8);
    int quadrant = (int)(bits & 3); /* the last bits of a number of 2^52 and more are its units */
    double ss = quadrant & 1 ? cr : sr, cc = quadrant & 1 ? sr : cr;
    *s = (float)(quadrant & 2 ? -ss : ss);
    *c = (float)(quadrant == 1 || quadrant == 2 ? -cc : cc);
}

enum { EXACT_LANES = 16 }; /* lanes of a reduction on the CPU */

/* s[EXACT_LANES] folded 8, 4, 2, 1 */
DEVICE float exact_fold(const float *s)
{
    float v[EXACT_LANES / 2];
    UNROLL for (int i = 0; i < 8; i++) v[i] = s[i] + s[i + 8];
    UNROLL for (int i = 0; i < 4; i++) v[i] += v[i + 4];
    UNROLL for (int i = 0; i < 2; i++) v[i] += v[i + 2];
    return v[0] + v[1];
}

/* ln(1 + e^x), as cpu_softplusf() */
DEVICE float exact_softplus(float x)
{
    float y = exact_exp(-abs32(x)), z = y / (2 + y), z2 = z * z;
    float p = fma32(1.0f / 17, z2, 1.0f / 15);
    p = fma32(p, z2, 1.0f / 13);
    p = fma32(p, z2, 1.0f / 11);
    p = fma32(p, z2, 1.0f / 9);
    p = fma32(p, z2, 1.0f / 7);
    p = fma32(p, z2, 1.0f / 5);
    p = fma32(p, z2, 1.0f / 3);
    return (x > 0 ? x : 0) + 2 * fma32(p, z2 * z, z);
}

DEVICE float exact_silu(float x) { return x / (1 + exact_exp(-x)); }

#endif
