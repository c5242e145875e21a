/* immintrin.h: emulation of AVX-512, VNNI and AMX on AVX2: found before the compiler's header of the same name, it lets the variants avx512, vnni and amx compile unchanged. Semantics from the Intel Intrinsics Guide and the SDM; only the intrinsics that those files use, in the cases that they use (checked by static assertions). A 512-bit vector is two 256-bit ones; tiles are thread-local memory. Must not know: what the kernels compute. */
#ifndef TESTS_EMULATED_IMMINTRIN_H
#define TESTS_EMULATED_IMMINTRIN_H

#include_next <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__) || defined(__AVX512F__)
#error compile with -mavx2 -mfma -mf16c
#endif

#define EMULATED static inline __attribute__((always_inline, unused))

EMULATED int emulated_supports(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#define __builtin_cpu_supports(feature) emulated_supports()

/* ---- vectors ---- */
union emulated_512 {
    __m512 ps;
    __m512i si;
    __m256 half_ps[2];
    __m256i half_si[2];
    float f32[16];
    uint32_t u32[16];
    int32_t i32[16];
    uint8_t u8[64];
    int8_t i8[64];
};

/* Defines a function of __m512 by one of __m256. */
#define EMULATED_PS(name, of_half)                                                                                                         \
    EMULATED __m512 name(__m512 a, __m512 b)                                                                                               \
    {                                                                                                                                      \
        union emulated_512 x = {.ps = a}, y = {.ps = b};                                                                                   \
        for (int i = 0; i < 2; i++) x.half_ps[i] = of_half(x.half_ps[i], y.half_ps[i]);                                                    \
        return x.ps;                                                                                                                       \
    }
#define EMULATED_SI(name, of_half)                                                                                                         \
    EMULATED __m512i name(__m512i a, __m512i b)                                                                                            \
    {                                                                                                                                      \
        union emulated_512 x = {.si = a}, y = {.si = b};                                                                                   \
        for (int i = 0; i < 2; i++) x.half_si[i] = of_half(x.half_si[i], y.half_si[i]);                                                    \
        return x.si;                                                                                                                       \
    }
#define EMULATED_FMA(name, of_half)                                                                                                        \
    EMULATED __m512 name(__m512 a, __m512 b, __m512 c)                                                                                     \
    {                                                                                                                                      \
        union emulated_512 x = {.ps = a}, y = {.ps = b}, z = {.ps = c};                                                                    \
        for (int i = 0; i < 2; i++) x.half_ps[i] = of_half(x.half_ps[i], y.half_ps[i], z.half_ps[i]);                                      \
        return x.ps;                                                                                                                       \
    }
#define EMULATED_SHIFT(name, of_half)                                                                                                      \
    EMULATED __m512i name(__m512i a, unsigned n)                                                                                           \
    {                                                                                                                                      \
        union emulated_512 x = {.si = a};                                                                                                  \
        for (int i = 0; i < 2; i++) x.half_si[i] = of_half(x.half_si[i], (int)n);                                                          \
        return x.si;                                                                                                                       \
    }

EMULATED_PS(emulated_add_ps, _mm256_add_ps)
EMULATED_PS(emulated_sub_ps, _mm256_sub_ps)
EMULATED_PS(emulated_mul_ps, _mm256_mul_ps)
EMULATED_PS(emulated_div_ps, _mm256_div_ps)
EMULATED_PS(emulated_min_ps, _mm256_min_ps)
EMULATED_PS(emulated_max_ps, _mm256_max_ps)
EMULATED_SI(emulated_add_epi32, _mm256_add_epi32)
EMULATED_SI(emulated_sub_epi32, _mm256_sub_epi32)
EMULATED_SI(emulated_sub_epi8, _mm256_sub_epi8)
EMULATED_SI(emulated_sub_epi16, _mm256_sub_epi16)
EMULATED_SI(emulated_max_epu32, _mm256_max_epu32)
EMULATED_SI(emulated_xor_si512, _mm256_xor_si256)
EMULATED_SI(emulated_packus_epi16, _mm256_packus_epi16)
EMULATED_SI(emulated_packus_epi32, _mm256_packus_epi32)
EMULATED_SI(emulated_mullo_epi32, _mm256_mullo_epi32)
EMULATED_SI(emulated_max_epi32, _mm256_max_epi32)
EMULATED_SI(emulated_min_epi32, _mm256_min_epi32)
EMULATED_SI(emulated_and_si512, _mm256_and_si256)
EMULATED_SI(emulated_or_si512, _mm256_or_si256)
EMULATED_SI(emulated_add_epi8, _mm256_add_epi8)
EMULATED_SI(emulated_mullo_epi16, _mm256_mullo_epi16)
EMULATED_SI(emulated_shuffle_epi8, _mm256_shuffle_epi8)
EMULATED_SI(emulated_madd_epi16, _mm256_madd_epi16)
EMULATED_SI(emulated_maddubs_epi16, _mm256_maddubs_epi16)
EMULATED_FMA(emulated_fmadd_ps, _mm256_fmadd_ps)
EMULATED_FMA(emulated_fnmadd_ps, _mm256_fnmadd_ps)
EMULATED_SHIFT(emulated_slli_epi32, _mm256_slli_epi32)
EMULATED_SHIFT(emulated_srai_epi32, _mm256_srai_epi32)
EMULATED_SHIFT(emulated_srli_epi32, _mm256_srli_epi32)
EMULATED_SHIFT(emulated_srli_epi16, _mm256_srli_epi16)
EMULATED_SHIFT(emulated_srli_epi64, _mm256_srli_epi64)

EMULATED __m512 emulated_set1_ps(float v) { return (union emulated_512){.half_ps = {_mm256_set1_ps(v), _mm256_set1_ps(v)}}.ps; }

EMULATED __m512i emulated_set1(__m256i v) { return (union emulated_512){.half_si = {v, v}}.si; }

EMULATED __m512i emulated_set4_epi32(int d, int c, int b, int a) { return emulated_set1(_mm256_set_epi32(d, c, b, a, d, c, b, a)); }

EMULATED __m512 emulated_loadu_ps(const void *p)
{
    return (union emulated_512){.half_ps = {_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)}}.ps;
}

EMULATED __m512i emulated_loadu_si512(const void *p)
{
    return (union emulated_512){.half_si = {_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i_u *)p + 1)}}.si;
}

EMULATED void emulated_storeu(void *p, const union emulated_512 *v) { memcpy(p, v, 64); }

/* Masked loads and stores touch no lane outside the mask. */
EMULATED __m512 emulated_maskz_loadu_ps(__mmask16 m, const void *p)
{
    union emulated_512 v = {.u32 = {0}};
    if (m == 0xffff) return emulated_loadu_ps(p);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) v.f32[i] = ((const float *)p)[i];
    return v.ps;
}

EMULATED __m512 emulated_mask_loadu_ps(__m512 source, __mmask16 m, const void *p)
{
    union emulated_512 v = {.ps = source};
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) v.f32[i] = ((const float *)p)[i];
    return v.ps;
}

EMULATED __m256i emulated_maskz_loadu_epi32(__mmask8 m, const void *p)
{
    int32_t v[8] = {0};
    for (int i = 0; i < 8; i++)
        if (m >> i & 1) v[i] = ((const int32_t *)p)[i];
    return _mm256_loadu_si256((const void *)v);
}

EMULATED void emulated_mask_storeu_epi32(void *p, __mmask8 m, __m256i a)
{
    int32_t v[8];
    _mm256_storeu_si256((void *)v, a);
    for (int i = 0; i < 8; i++)
        if (m >> i & 1) ((int32_t *)p)[i] = v[i];
}

EMULATED __m256i emulated_maskz_loadu_epi16(__mmask16 m, const void *p)
{
    uint16_t v[16] = {0};
    if (m == 0xffff) return _mm256_loadu_si256(p);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) v[i] = ((const uint16_t *)p)[i];
    return _mm256_loadu_si256((const void *)v);
}

EMULATED void emulated_mask_storeu_ps(void *p, __mmask16 m, __m512 a)
{
    union emulated_512 v = {.ps = a};
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) ((float *)p)[i] = v.f32[i];
}

EMULATED void emulated_mask_storeu_128(float *p, __mmask8 m, __m128 a)
{
    float v[4];
    _mm_storeu_ps(v, a);
    for (int i = 0; i < 4; i++)
        if (m >> i & 1) p[i] = v[i];
}

/* Quarters of a, then of b, by two bits each. */
EMULATED __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int which)
{
    union emulated_512 x = {.ps = a}, y = {.ps = b}, r;
    for (int i = 0; i < 16; i++) r.u32[i] = (i < 8 ? &x : &y)->u32[(which >> i / 4 * 2 & 3) * 4 + i % 4];
    return r.ps;
}

/* Within each quarter: two lanes of a, two of b. */
EMULATED __m512 emulated_shuffle_ps(__m512 a, __m512 b, int which)
{
    union emulated_512 x = {.ps = a}, y = {.ps = b}, r;
    for (int i = 0; i < 16; i++) r.u32[i] = (i % 4 < 2 ? &x : &y)->u32[i / 4 * 4 + (which >> i % 4 * 2 & 3)];
    return r.ps;
}

EMULATED __m512 emulated_maskz_mul_ps(__mmask16 m, __m512 a, __m512 b)
{
    union emulated_512 v = {.ps = emulated_mul_ps(a, b)};
    for (int i = 0; i < 16; i++)
        if (!(m >> i & 1)) v.u32[i] = 0;
    return v.ps;
}
/* m: valid lanes, the others become 0; b: integers that keep the result out of the subnormals, or NaN */
EMULATED __m512 emulated_maskz_scalef_ps(__mmask16 m, __m512 a, __m512 b)
{
    union emulated_512 x = {.ps = a}, y = {.ps = b};
    for (int i = 0; i < 16; i++) x.f32[i] = !(m >> i & 1) ? 0 : y.f32[i] == y.f32[i] ? ldexpf(x.f32[i], (int)y.f32[i]) : y.f32[i];
    return x.ps;
}

EMULATED __m512 emulated_mask_mul_ps(__m512 source, __mmask16 m, __m512 a, __m512 b)
{
    union emulated_512 v = {.ps = emulated_mul_ps(a, b)}, s = {.ps = source};
    for (int i = 0; i < 16; i++)
        if (!(m >> i & 1)) v.u32[i] = s.u32[i];
    return v.ps;
}

/* The index is taken modulo 16. */
EMULATED __m512 emulated_permutexvar_ps(__m512i index, __m512 table)
{
    union emulated_512 x = {.si = index}, t = {.ps = table}, v;
    for (int i = 0; i < 16; i++) v.f32[i] = t.f32[x.u32[i] & 15];
    return v.ps;
}

EMULATED __m512i emulated_permutexvar_epi32(__m512i index, __m512i table)
{
    union emulated_512 x = {.si = index}, t = {.si = table}, v;
    for (int i = 0; i < 16; i++) v.u32[i] = t.u32[x.u32[i] & 15];
    return v.si;
}

EMULATED __m512 emulated_cvtepi32_ps(__m512i a)
{
    union emulated_512 x = {.si = a};
    for (int i = 0; i < 2; i++) x.half_ps[i] = _mm256_cvtepi32_ps(x.half_si[i]);
    return x.ps;
}

EMULATED __m512i emulated_cvtps_epi32(__m512 a)
{
    union emulated_512 x = {.ps = a};
    for (int i = 0; i < 2; i++) x.half_si[i] = _mm256_cvtps_epi32(x.half_ps[i]);
    return x.si;
}

/* The lowest byte of each lane. */
EMULATED __m128i emulated_cvtepi32_epi8(__m512i a)
{
    union emulated_512 x = {.si = a};
    uint8_t v[16];
    for (int i = 0; i < 16; i++) v[i] = (uint8_t)x.u32[i];
    return _mm_loadu_si128((const void *)v);
}

/* The lower half of each 64-bit lane. */
EMULATED __m256i emulated_cvtepi64_epi32(__m512i a)
{
    union emulated_512 x = {.si = a};
    int32_t v[8];
    for (int i = 0; i < 8; i++) v[i] = x.i32[2 * i];
    return _mm256_loadu_si256((const void *)v);
}

EMULATED uint32_t emulated_reduce_max_epu32(__m512i a)
{
    union emulated_512 x = {.si = a};
    uint32_t most = x.u32[0];
    for (int i = 1; i < 16; i++) most = x.u32[i] > most ? x.u32[i] : most;
    return most;
}

EMULATED int32_t emulated_reduce_add_epi32(__m512i a)
{
    union emulated_512 x = {.si = a};
    uint32_t sum = 0;
    for (int i = 0; i < 16; i++) sum += x.u32[i];
    return (int32_t)sum;
}

EMULATED int32_t emulated_reduce_max_epi32(__m512i a)
{
    union emulated_512 x = {.si = a};
    int32_t most = x.i32[0];
    for (int i = 1; i < 16; i++) most = x.i32[i] > most ? x.i32[i] : most;
    return most;
}

EMULATED float emulated_reduce_max_ps(__m512 a)
{
    union emulated_512 x = {.ps = a};
    float most = x.f32[0];
    for (int i = 1; i < 16; i++) most = x.f32[i] > most ? x.f32[i] : most;
    return most;
}

EMULATED __m512i emulated_cvtepu8_epi32(__m128i a)
{
    return (union emulated_512){.half_si = {_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))}}.si;
}

EMULATED __m512i emulated_cvtepi8_epi16(__m256i a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    return (union emulated_512){.half_si = {_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)}}.si;
}

EMULATED __m512i emulated_cvtepu8_epi16(__m256i a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    return (union emulated_512){.half_si = {_mm256_cvtepu8_epi16(low), _mm256_cvtepu8_epi16(high)}}.si;
}

EMULATED __m512i emulated_cvtepu16_epi32(__m256i a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    return (union emulated_512){.half_si = {_mm256_cvtepu16_epi32(low), _mm256_cvtepu16_epi32(high)}}.si;
}

EMULATED __m512 emulated_cvtph_ps(__m256i a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    return (union emulated_512){.half_ps = {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)}}.ps;
}

EMULATED __m512 emulated_round_ps(__m512 a)
{
    union emulated_512 x = {.ps = a};
    for (int i = 0; i < 2; i++) x.half_ps[i] = _mm256_round_ps(x.half_ps[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return x.ps;
}

EMULATED __mmask16 emulated_cmp_nlt_uq(__m512 a, __m512 b)
{
    union emulated_512 x = {.ps = a}, y = {.ps = b};
    int low = _mm256_movemask_ps(_mm256_cmp_ps(x.half_ps[0], y.half_ps[0], _CMP_NLT_UQ));
    int high = _mm256_movemask_ps(_mm256_cmp_ps(x.half_ps[1], y.half_ps[1], _CMP_NLT_UQ));
    return (__mmask16)(low | high << 8);
}

EMULATED __mmask16 emulated_cmp_gt_oq(__m512 a, __m512 b)
{
    union emulated_512 x = {.ps = a}, y = {.ps = b};
    int low = _mm256_movemask_ps(_mm256_cmp_ps(x.half_ps[0], y.half_ps[0], _CMP_GT_OQ));
    int high = _mm256_movemask_ps(_mm256_cmp_ps(x.half_ps[1], y.half_ps[1], _CMP_GT_OQ));
    return (__mmask16)(low | high << 8);
}

/* Unsigned by signed bytes, four products to a lane, no saturation. */
EMULATED __m512i emulated_dpbusd_epi32(__m512i acc, __m512i a, __m512i b)
{
    union emulated_512 v = {.si = acc}, x = {.si = a}, y = {.si = b};
    const __m256i low = _mm256_set1_epi16(255);
    for (int i = 0; i < 2; i++) { /* even and odd bytes as words, whose products fit an int32 */
        __m256i even = _mm256_madd_epi16(_mm256_and_si256(x.half_si[i], low), _mm256_srai_epi16(_mm256_slli_epi16(y.half_si[i], 8), 8));
        __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x.half_si[i], 8), _mm256_srai_epi16(y.half_si[i], 8));
        v.half_si[i] = _mm256_add_epi32(v.half_si[i], _mm256_add_epi32(even, odd));
    }
    return v.si;
}

/* The value of an immediate that the emulation knows. */
#define EMULATED_ONLY(value, known) _Static_assert((value) == (known), "tests/emulators/immintrin: only " #known)

/* Bit 4a + 2b + c of the table is the result for bits a, b, c. */
EMULATED __m512i emulated_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table)
{
    union emulated_512 x = {.si = a}, y = {.si = b}, z = {.si = c}, r = {.u32 = {0}};
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 8; k++)
            if (table >> k & 1)
                r.u32[i] |= (k & 4 ? x.u32[i] : ~x.u32[i]) & (k & 2 ? y.u32[i] : ~y.u32[i]) & (k & 1 ? z.u32[i] : ~z.u32[i]);
    return r.si;
}

/* The names that the variants use. */
#undef _mm512_sub_epi16
#undef _mm512_max_epu32
#undef _mm512_xor_si512
#undef _mm512_ternarylogic_epi32
#undef _mm512_packus_epi16
#undef _mm512_packus_epi32
#undef _mm512_srli_epi64
#undef _mm512_mask_loadu_ps
#undef _mm256_maskz_loadu_epi32
#undef _mm256_mask_storeu_epi32
#undef _mm512_permutexvar_epi32
#undef _mm512_cvtepi64_epi32
#undef _mm512_reduce_max_epu32
#undef _mm512_cvtepi8_epi16
#undef _mm512_cvtepu8_epi16
#undef _mm512_set1_epi64
#undef _mm512_setr_epi32
#undef _mm512_castps_si512
#define _mm512_sub_epi16 emulated_sub_epi16
#define _mm512_max_epu32 emulated_max_epu32
#define _mm512_xor_si512 emulated_xor_si512
#define _mm512_ternarylogic_epi32 emulated_ternarylogic_epi32
#define _mm512_packus_epi16 emulated_packus_epi16
#define _mm512_packus_epi32 emulated_packus_epi32
#define _mm512_srli_epi64 emulated_srli_epi64
#define _mm512_mask_loadu_ps emulated_mask_loadu_ps
#define _mm256_maskz_loadu_epi32 emulated_maskz_loadu_epi32
#define _mm256_mask_storeu_epi32 emulated_mask_storeu_epi32
#define _mm512_permutexvar_epi32 emulated_permutexvar_epi32
#define _mm512_cvtepi64_epi32 emulated_cvtepi64_epi32
#define _mm512_reduce_max_epu32 emulated_reduce_max_epu32
#define _mm512_cvtepi8_epi16 emulated_cvtepi8_epi16
#define _mm512_cvtepu8_epi16 emulated_cvtepu8_epi16
#define _mm512_set1_epi64(v) emulated_set1(_mm256_set1_epi64x(v))
#define _mm512_setr_epi32(...) ((union emulated_512){.i32 = {__VA_ARGS__}}.si)
#define _mm512_castps_si512(v) ((union emulated_512){.ps = (v)}.si)
#undef _mm_mask_storeu_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_ps
#undef _mm512_extractf32x4_ps
#undef _mm512_broadcast_f32x4
#define _mm_mask_storeu_ps emulated_mask_storeu_128
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#define _mm512_shuffle_ps emulated_shuffle_ps
#define _mm512_extractf32x4_ps(v, i) _mm_loadu_ps((union emulated_512){.ps = (v)}.f32 + 4 * (i))
#define _mm512_broadcast_f32x4(v) ((union emulated_512){.half_ps = {_mm256_set_m128(v, v), _mm256_set_m128(v, v)}}.ps)
#undef _mm512_add_epi32
#undef _mm512_castps512_ps256
#undef _mm512_extractf32x8_ps
#undef _mm512_reduce_max_ps
#undef _mm512_mask_mul_ps
#undef _mm512_stream_ps
#undef _mm512_srai_epi32
#undef _mm512_reduce_max_epi32
#undef _mm512_reduce_add_epi32
#undef _mm512_max_epi32
#undef _mm512_min_epi32
#undef _mm512_cvtepi32_epi8
#undef _mm512_add_ps
#undef _mm512_and_si512
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_epi32
#undef _mm512_div_ps
#undef _mm512_dpbusd_epi32
#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#undef _mm512_loadu_ps
#undef _mm512_loadu_si512
#undef _mm512_madd_epi16
#undef _mm512_maddubs_epi16
#undef _mm512_mask_storeu_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_maskz_mul_ps
#undef _mm512_maskz_scalef_ps
#undef _mm512_max_ps
#undef _mm512_min_ps
#undef _mm512_mul_ps
#undef _mm512_mullo_epi32
#undef _mm512_set4_epi32
#undef _mm512_shuffle_epi8
#undef _mm512_mullo_epi16
#undef _mm512_add_epi8
#undef _mm512_or_si512
#undef _mm512_permutexvar_ps
#undef _mm512_set1_ps
#undef _mm512_slli_epi32
#undef _mm512_srli_epi16
#undef _mm512_srli_epi32
#undef _mm512_sub_epi32
#undef _mm512_sub_epi8
#undef _mm512_sub_ps
#undef _mm512_set1_epi8
#undef _mm512_set1_epi16
#undef _mm512_set1_epi32
#undef _mm512_storeu_ps
#undef _mm512_storeu_si512
#undef _mm512_setzero_ps
#undef _mm512_setzero_si512
#undef _mm512_setr_ps
#undef _mm512_castsi512_ps
#undef _mm512_cmp_ps_mask
#undef _mm512_roundscale_ps
#undef _mm256_maskz_loadu_epi16

#define _mm512_cvtepi32_epi8 emulated_cvtepi32_epi8
#define _mm512_max_epi32 emulated_max_epi32
#define _mm512_min_epi32 emulated_min_epi32
#define _mm512_reduce_add_epi32 emulated_reduce_add_epi32
#define _mm512_reduce_max_epi32 emulated_reduce_max_epi32
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_mask_mul_ps emulated_mask_mul_ps
#define _mm512_castps512_ps256(v) ((union emulated_512){.ps = (v)}.half_ps[0])
#define _mm512_extractf32x8_ps(v, i) ((union emulated_512){.ps = (v)}.half_ps[i])
#define _mm512_reduce_max_ps emulated_reduce_max_ps
#define _mm512_add_epi32 emulated_add_epi32
#define _mm512_add_ps emulated_add_ps
#define _mm512_and_si512 emulated_and_si512
#define _mm512_set4_epi32 emulated_set4_epi32
#define _mm512_shuffle_epi8 emulated_shuffle_epi8
#define _mm512_mullo_epi16 emulated_mullo_epi16
#define _mm512_add_epi8 emulated_add_epi8
#define _mm512_or_si512 emulated_or_si512
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_div_ps emulated_div_ps
#define _mm512_dpbusd_epi32 emulated_dpbusd_epi32
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_fnmadd_ps emulated_fnmadd_ps
#define _mm512_loadu_ps emulated_loadu_ps
#define _mm512_loadu_si512 emulated_loadu_si512
#define _mm512_madd_epi16 emulated_madd_epi16
#define _mm512_maddubs_epi16 emulated_maddubs_epi16
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_maskz_mul_ps emulated_maskz_mul_ps
#define _mm512_maskz_scalef_ps emulated_maskz_scalef_ps
#define _mm512_max_ps emulated_max_ps
#define _mm512_min_ps emulated_min_ps
#define _mm512_mul_ps emulated_mul_ps
#define _mm512_mullo_epi32 emulated_mullo_epi32
#define _mm512_permutexvar_ps emulated_permutexvar_ps
#define _mm512_set1_ps emulated_set1_ps
#define _mm512_slli_epi32 emulated_slli_epi32
#define _mm512_srli_epi16 emulated_srli_epi16
#define _mm512_srli_epi32 emulated_srli_epi32
#define _mm512_sub_epi32 emulated_sub_epi32
#define _mm512_sub_epi8 emulated_sub_epi8
#define _mm512_sub_ps emulated_sub_ps
#define _mm256_maskz_loadu_epi16 emulated_maskz_loadu_epi16
#define _mm512_set1_epi8(v) emulated_set1(_mm256_set1_epi8(v))
#define _mm512_set1_epi16(v) emulated_set1(_mm256_set1_epi16(v))
#define _mm512_set1_epi32(v) emulated_set1(_mm256_set1_epi32(v))
#define _mm512_setzero_ps() emulated_set1_ps(0)
#define _mm512_setzero_si512() emulated_set1(_mm256_setzero_si256())
#define _mm512_setr_ps(...) ((union emulated_512){.f32 = {__VA_ARGS__}}.ps)
#define _mm512_castsi512_ps(v) ((union emulated_512){.si = (v)}.ps)
#define _mm512_stream_ps(p, v) emulated_storeu(p, &(union emulated_512){.ps = (v)})
#define _mm512_storeu_ps(p, v) emulated_storeu(p, &(union emulated_512){.ps = (v)})
#define _mm512_storeu_si512(p, v) emulated_storeu(p, &(union emulated_512){.si = (v)})
#define _mm512_cmp_ps_mask(a, b, how)                                                                                                      \
    ({                                                                                                                                     \
        _Static_assert((how) == _CMP_NLT_UQ || (how) == _CMP_GT_OQ, "tests/emulators/immintrin: only _CMP_NLT_UQ, _CMP_GT_OQ");            \
        (how) == _CMP_NLT_UQ ? emulated_cmp_nlt_uq(a, b) : emulated_cmp_gt_oq(a, b);                                                       \
    })
#define _mm512_roundscale_ps(a, how)                                                                                                       \
    ({                                                                                                                                     \
        EMULATED_ONLY(how, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);                                                                 \
        emulated_round_ps(a);                                                                                                              \
    })

/* ---- tiles (SDM volume 1, chapter 18): the use of a tile that this thread has not configured, or in a shape that does not match, is a fault as on the processor ---- */
struct emulated_tiles {
    int rows[8], row_bytes[8]; /* 0: not configured */
    uint8_t data[8][16][64];
};
static _Thread_local struct emulated_tiles emulated_tile __attribute__((unused));

#define MAY_USE_TILES() 1

EMULATED void emulated_tile_fault(const char *why)
{
    fprintf(stderr, "tests/emulators/immintrin: tile fault: %s\n", why);
    abort();
}

EMULATED void emulated_tile_ready(int t)
{
    if (!emulated_tile.rows[t] || !emulated_tile.row_bytes[t]) emulated_tile_fault("not configured on this thread");
}

/* A nonzero reserved byte or an invalid palette or shape: #GP */
static inline void emulated_tile_loadconfig(const void *config)
{
    const uint8_t *c = config;
    if (c[0] != 1) emulated_tile_fault("palette");
    for (int i = 2; i < 16; i++)
        if (c[i]) emulated_tile_fault("reserved byte");
    for (int t = 0; t < 16; t++) {
        int row_bytes = c[16 + 2 * t] | c[17 + 2 * t] << 8, rows = c[48 + t];
        if (row_bytes > 64 || rows > 16 || !row_bytes != !rows || (t >= 8 && rows)) emulated_tile_fault("shape");
        if (t < 8) emulated_tile.rows[t] = rows, emulated_tile.row_bytes[t] = row_bytes;
    }
    memset(emulated_tile.data, 0, sizeof emulated_tile.data);
}

static inline void emulated_tile_release(void) { memset(&emulated_tile, 0, sizeof emulated_tile); }

static inline void emulated_tile_zero(int t)
{
    emulated_tile_ready(t);
    memset(emulated_tile.data[t], 0, sizeof emulated_tile.data[t]);
}

static inline void emulated_tile_loadd(int t, const void *base, long stride)
{
    emulated_tile_zero(t);
    for (int r = 0; r < emulated_tile.rows[t]; r++)
        memcpy(emulated_tile.data[t][r], (const char *)base + r * stride, (size_t)emulated_tile.row_bytes[t]);
}

static inline void emulated_tile_stored(int t, void *base, long stride)
{
    emulated_tile_ready(t);
    for (int r = 0; r < emulated_tile.rows[t]; r++)
        memcpy((char *)base + r * stride, emulated_tile.data[t][r], (size_t)emulated_tile.row_bytes[t]);
}

/* c [m][n] += a [m][4 k] x b [k][n][4], signed bytes; b_unsigned: those of b are unsigned */
static inline void emulated_tile_multiply(int c, int a, int b, int b_unsigned)
{
    struct emulated_tiles *t = &emulated_tile;
    emulated_tile_ready(a);
    emulated_tile_ready(b);
    emulated_tile_ready(c);
    if (t->rows[c] != t->rows[a] || t->row_bytes[a] != 4 * t->rows[b] || t->row_bytes[c] != t->row_bytes[b] || a == b || a == c || b == c)
        emulated_tile_fault("operands");
    for (int m = 0; m < t->rows[c]; m++) {
        union emulated_512 sum;
        memcpy(&sum, t->data[c][m], 64);
        for (int k = 0; k < t->rows[b]; k++) {
            union emulated_512 codes;
            __m128i four = _mm_set1_epi32(0);
            memcpy(&four, t->data[a][m] + 4 * k, 4);
            memcpy(&codes, t->data[b][k], 64);
            __m256i x = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(four)); /* four words, repeated */
            for (int i = 0; i < 2; i++) {
                __m128i first = _mm256_castsi256_si128(codes.half_si[i]), second = _mm256_extracti128_si256(codes.half_si[i], 1);
                __m256i low = _mm256_madd_epi16(b_unsigned ? _mm256_cvtepu8_epi16(first) : _mm256_cvtepi8_epi16(first), x);
                __m256i high = _mm256_madd_epi16(b_unsigned ? _mm256_cvtepu8_epi16(second) : _mm256_cvtepi8_epi16(second), x);
                /* sums of two to sums of four; hadd works within 128 bits */
                __m256i both = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xd8);
                sum.half_si[i] = _mm256_add_epi32(sum.half_si[i], both);
            }
        }
        memcpy(t->data[c][m], &sum, 64);
    }
}

static inline void emulated_tile_dpbssd(int c, int a, int b) { emulated_tile_multiply(c, a, b, 0); }
static inline void emulated_tile_dpbsud(int c, int a, int b) { emulated_tile_multiply(c, a, b, 1); }

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbsud
#define _tile_dpbsud emulated_tile_dpbsud
#define _tile_loadconfig emulated_tile_loadconfig
#define _tile_release emulated_tile_release
#define _tile_loadd emulated_tile_loadd
#define _tile_stored emulated_tile_stored
#define _tile_zero emulated_tile_zero
#define _tile_dpbssd emulated_tile_dpbssd

#endif
