#include "core/base/crc.h"

#include <zlib.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { LEAST = 256 }; /* shorter data is zlib's */

/* x times a power of the variable, modulo the polynomial, plus what stands there: the numbers of
 * k are those of Gopal et al. 2009, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction", for reflected bits. */
__attribute__((target("pclmul,sse4.1"), always_inline)) static inline __m128i
fold(__m128i x, __m128i k, __m128i there)
{
    __m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

/* Any n of at least 64: four streams of 16 bytes are folded into one, of which zlib makes the sum.
 */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_folded(uint32_t crc, const uint8_t *p,
                                                                    size_t n)
{
    const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4),
                  by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i *v = (const __m128i *)(const void *)p;
    __m128i x[4];
    uint8_t rest[16];
    for (int i = 0; i < 4; i++) x[i] = _mm_loadu_si128(v++);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (n -= 64; n >= 64; n -= 64)
        for (int i = 0; i < 4; i++) x[i] = fold(x[i], by_64, _mm_loadu_si128(v++));
    for (int i = 1; i < 4; i++) x[0] = fold(x[0], by_16, x[i]);
    _mm_storeu_si128((__m128i *)(void *)rest, x[0]);
    crc = (uint32_t)crc32_z(0xffffffff, rest, sizeof rest);
    return (uint32_t)crc32_z(crc, (const Bytef *)v, n);
}

uint32_t crc_of(uint32_t crc, const void *data, size_t n)
{
    if (n >= LEAST && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        return crc_folded(crc, data, n);
    return (uint32_t)crc32_z(crc, data, n);
}
#else
uint32_t crc_of(uint32_t crc, const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc, data, n);
}
#endif
