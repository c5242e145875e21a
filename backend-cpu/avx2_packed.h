/* avx2_packed.h: unpacks pages of KV_INT4 (packed.h) by AVX2; a part of avx2.c. */
#ifndef BACKEND_CPU_AVX2_PACKED_H
#define BACKEND_CPU_AVX2_PACKED_H

#include "backend-cpu/fp32.h"
#include "backend-cpu/packed.h"

#include <immintrin.h>

/* unpack_64 of avx512_packed.h on 32 bytes. */
ALWAYS_INLINE void unpack_32(__m256i codes, __m256i even, __m256i odd, __m256i lo, void *to)
{
    __m256i a = _mm256_mullo_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x000f)), even),
            b = _mm256_mullo_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x0f00)), odd);
    _mm256_storeu_si256(to, _mm256_add_epi8(_mm256_or_si256(a, b), lo));
}

/* 32 bytes of keys are 8 positions of 4 channels: half of 64, of which the channels change. */
static void unpack_keys(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *lo = packed_lo(from, KEYS, n), *step = lo + n;
    for (int i = 0, half = 8 * n; i < half; i += 32) {
        __m256i x = _mm256_loadu_si256((const void *)(packed_codes(from, KEYS, n) + i));
        for (int at = i; at < 2 * half; at += half, x = _mm256_srli_epi16(x, 4)) {
            int32_t l, s;
            memcpy(&l, lo + at / 64 * 4, 4);
            memcpy(&s, step + at / 64 * 4, 4);
            unpack_32(x, _mm256_set1_epi32(s & 0x00ff00ff), _mm256_set1_epi32(s >> 8 & 0x00ff00ff),
                      _mm256_set1_epi32(l), to + at);
        }
    }
}

static void unpack_values(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *codes = packed_codes(from, VALUES, n), *lo = packed_lo(from, VALUES, n);
    const __m256i four = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                          0x08080808, 0x04040404, 0),
                  two = _mm256_or_si256(four, _mm256_set1_epi16((int16_t)0x8000));
    for (int d = 0; d < n; d += 8) {
        __m256i l = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(lo + d))),
                s = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(lo + n + d)));
        l = _mm256_shuffle_epi8(l, four);
        s = _mm256_shuffle_epi8(s, two);
        for (int at = 4 * d; at < 8 * n; at += 4 * n) {
            __m256i x = _mm256_loadu_si256((const void *)(codes + at));
            unpack_32(x, s, s, l, to + at);
            unpack_32(_mm256_srli_epi16(x, 4), s, s, l, to + at + 8 * n);
        }
    }
}

/* cpu_kernels.unpack */
static void avx2_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    int n = kv_padded(KV_INT8, head_dim);
    if (n % 8) plain_unpack(page, part, head_dim, to);
    else if (part == KEYS) unpack_keys((const uint8_t *)page, n, (uint8_t *)to);
    else unpack_values((const uint8_t *)page, n, (uint8_t *)to);
}

#endif
