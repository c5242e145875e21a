/* dtype.h: element types of tensors and the exact widening of the 16-bit ones to fp32. */
#ifndef CORE_DTYPE_H
#define CORE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DT_BOOL,
    DT_U8,
    DT_I8,
    DT_I16,
    DT_U16,
    DT_I32,
    DT_U32,
    DT_I64,
    DT_U64,
    DT_F16,
    DT_BF16,
    DT_F32,
    DT_F64,
    DT_COUNT
};

/* Bytes of one element. */
static inline size_t dtype_bytes(enum dtype t)
{
    static const uint8_t bytes[DT_COUNT] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return bytes[t];
}

static inline float f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float f32_from_bf16(uint16_t h) { return f32_from_bits((uint32_t)h << 16); }

static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 1023;
    if (exp == 31) return f32_from_bits(sign | 0x7f800000u | man << 13);
    if (exp) return f32_from_bits(sign | (exp + 112) << 23 | man << 13);
    float tiny = (float)man * 0x1p-24f; /* exact: subnormals and zero */
    return f32_from_bits(f32_bits(tiny) | sign);
}

/* Round to nearest even, as vcvtps2ph does; overflow becomes infinity. */
static inline uint16_t f16_from_f32(float f)
{
    uint32_t u = f32_bits(f), sign = (u >> 16) & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((u >> 13) & 0x3ff));
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* subnormal half: let the fp32 adder round at 2^-24 */
        float r = f32_from_bits(u) + 0.5f;
        return (uint16_t)(sign | (f32_bits(r) - 0x3f000000u));
    }
    u += 0xfff + ((u >> 13) & 1);
    return (uint16_t)(sign | ((u >> 13) - (112 << 10)));
}

/* Element i of an array of F16, BF16 or F32; the caller has checked the type. */
static inline float f32_at(const void *p, enum dtype t, size_t i)
{
    if (t == DT_F16) return f32_from_f16(((const uint16_t *)p)[i]);
    if (t == DT_BF16) return f32_from_bf16(((const uint16_t *)p)[i]);
    return ((const float *)p)[i];
}

#endif
