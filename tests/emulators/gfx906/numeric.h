/* Bits and numbers of one lane, written so that gcc turns loops over lanes into vector code: no
 * branches, no calls. */
#ifndef NUMERIC_H
#define NUMERIC_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float f32(uint32_t x)
{
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline uint32_t bits(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return x;
}
static inline double f64(uint64_t x)
{
    double f;
    memcpy(&f, &x, 8);
    return f;
}
static inline uint64_t bits64(double f)
{
    uint64_t x;
    memcpy(&x, &f, 8);
    return x;
}

/* fp16 -> fp32, exact; the upper half of h is ignored. */
static inline float half(uint32_t h)
{
    uint32_t m = (h & 0x7fff) << 13, normal = m + (112u << 23);
    uint32_t subnormal = bits(f32(m + (113u << 23)) - f32(113u << 23));
    uint32_t r = (h & 0x7c00) == 0x7c00 ? m | 0x7f800000 : (h & 0x7c00) == 0 ? subnormal : normal;
    return f32(r | (h & 0x8000) << 16);
}

/* fp32 -> fp16, to nearest even, subnormals kept, NaN made quiet. Result in the low half, upper
 * half 0. */
static inline uint32_t to_half(float f)
{
    uint32_t u = bits(f), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    uint32_t normal = (m - (112u << 23) + 0xfff + (m >> 13 & 1)) >> 13;
    uint32_t subnormal = bits(f32(m) + 0.5f) - bits(0.5f);
    uint32_t nan = 0x7e00 | (m >> 13 & 0x3ff);
    uint32_t r = m > 0x7f800000      ? nan
                 : m >= (143u << 23) ? 0x7c00
                 : m < (113u << 23)  ? subnormal
                                     : normal;
    return r | sign;
}

/* a + b as fp32 with the inexact bit kept in the last place ("round to odd"): rounding it once more
 * to fp16 gives the correctly rounded sum (Boldo, Melquiond: Emulation of FMA and correctly rounded
 * sums, 2008). */
static inline float add_odd(float a, float b)
{
    float s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
    uint32_t u = bits(s);
    uint32_t inexact = (u & 0x7f800000) != 0x7f800000 &&
                       e != 0;                          /* e is not a number when s overflowed */
    uint32_t too_far = ((bits(e) ^ u) >> 31) & inexact; /* the exact sum lies nearer to 0 */
    return f32((u - too_far) | inexact);
}

/* fp16 fused multiply-add: the product of two fp16 values is exact in fp32. */
static inline uint32_t half_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return to_half(add_odd(half(a) * half(b), half(c)));
}

static inline float flush(float f)
{
    return f32((bits(f) & 0x7f800000) == 0 ? bits(f) & 0x80000000 : bits(f));
}
static inline uint32_t half_flush(uint32_t h) { return (h & 0x7c00) == 0 ? h & 0x8000 : h; }
static inline int is_nan32(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }

static inline uint64_t join(const uint32_t *row, int l)
{
    return row[l] | (uint64_t)row[l + 64] << 32;
}
static inline void split(uint32_t *row, int l, uint64_t x)
{
    row[l] = (uint32_t)x;
    row[l + 64] = (uint32_t)(x >> 32);
}
static inline int32_t sext(uint32_t x, int n) { return (int32_t)(x << (32 - n)) >> (32 - n); }
#endif
