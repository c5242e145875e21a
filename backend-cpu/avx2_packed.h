/* avx2_packed.h: the vectors of packed_loops.h in AVX2; a part of avx2.c. */
#ifndef BACKEND_CPU_AVX2_PACKED_H
#define BACKEND_CPU_AVX2_PACKED_H

#include "backend-cpu/fp32.h"

#include <immintrin.h>

enum { CODE_BYTES = 32 };
typedef __m256i code_vec;
#define codes_and _mm256_and_si256
#define codes_add _mm256_add_epi8
#define codes_mul _mm256_mullo_epi16
#define codes_srl _mm256_srli_epi16
#define codes_set1 _mm256_set1_epi32

ALWAYS_INLINE code_vec codes_load(const void *p) { return _mm256_loadu_si256(p); }
ALWAYS_INLINE void codes_store(void *p, code_vec x) { _mm256_storeu_si256(p, x); }

ALWAYS_INLINE code_vec codes_join(code_vec a, code_vec b)
{
    return _mm256_or_si256(_mm256_and_si256(a, codes_set1(0x00ff00ff)), b);
}

ALWAYS_INLINE code_vec codes_channels(const uint8_t *p)
{
    const code_vec four = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                        0x08080808, 0x04040404, 0);
    return _mm256_shuffle_epi8(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)), four);
}

#include "backend-cpu/packed_loops.h"

static void avx2_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    unpack_part(page, part, head_dim, to);
}

#endif
