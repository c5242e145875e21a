/* avx512_packed.h: unpacks pages of KV_INT4 (packed.h) by AVX-512; a part of avx512.c. */
#ifndef BACKEND_CPU_AVX512_PACKED_H
#define BACKEND_CPU_AVX512_PACKED_H

#include "backend-cpu/avx512.h"
#include "backend-cpu/packed.h"

/* lo + step * code of the low bits of 64 bytes. There is no product of bytes: even and odd bytes
 * are factors of 16 bits, whose products fit a byte. even: steps of even bytes in 16 bits; odd: of
 * odd ones in the low 8 of 16 bits. */
ALWAYS_INLINE void unpack_64(__m512i codes, __m512i even, __m512i odd, __m512i lo, void *to)
{
    __m512i a = _mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0x000f)), even),
            b = _mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0x0f00)), odd);
    _mm512_storeu_si512(to, _mm512_add_epi8(_mm512_or_si512(a, b), lo));
}

/* Both codes of 64 bytes of keys, of 4 channels each. */
ALWAYS_INLINE void unpack_keys(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *lo = packed_lo(from, KEYS, n), *step = lo + n;
    for (int d = 0, half = n / 2; d < half; d += 4, to += 64) {
        __m512i x = _mm512_loadu_si512(packed_codes(from, KEYS, n) + 16 * d);
        for (int high = 0; high < 2; high++) {
            int32_t l, s;
            memcpy(&l, lo + d + high * half, 4);
            memcpy(&s, step + d + high * half, 4);
            unpack_64(high ? _mm512_srli_epi16(x, 4) : x, _mm512_set1_epi32(s & 0x00ff00ff),
                      _mm512_set1_epi32(s >> 8 & 0x00ff00ff), _mm512_set1_epi32(l),
                      to + high * 8 * n);
        }
    }
}

/* The same of values: 4 positions of 16 channels in 64 bytes. */
ALWAYS_INLINE void unpack_values(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *codes = packed_codes(from, VALUES, n), *lo = packed_lo(from, VALUES, n);
    /* a byte of every 32 bits: to all four of them; to both halves */
    const __m512i four = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                  two = _mm512_or_si512(four, _mm512_set1_epi16((int16_t)0x8000));
    for (int d = 0; d < n; d += 16) {
        __m512i l = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(lo + d))),
                s = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(lo + n + d)));
        l = _mm512_shuffle_epi8(l, four);
        s = _mm512_shuffle_epi8(s, two);
        for (int at = 4 * d; at < 8 * n; at += 4 * n) {
            __m512i x = _mm512_loadu_si512(codes + at);
            unpack_64(x, s, s, l, to + at);
            unpack_64(_mm512_srli_epi16(x, 4), s, s, l, to + at + 8 * n);
        }
    }
}

/* cpu_kernels.unpack */
void avx512_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    int n = kv_padded(KV_INT8, head_dim);
    if (n % 16) plain_unpack(page, part, head_dim, to);
    else if (part == KEYS) unpack_keys((const uint8_t *)page, n, (uint8_t *)to);
    else unpack_values((const uint8_t *)page, n, (uint8_t *)to);
}

#endif
