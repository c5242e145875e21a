/* avx512_packed.h: the vectors of packed_loops.h in AVX-512; a part of avx512.c. */
#ifndef BACKEND_CPU_AVX512_PACKED_H
#define BACKEND_CPU_AVX512_PACKED_H

#include "backend-cpu/avx512.h"

enum { CODE_BYTES = 64 };
typedef __m512i code_vec;
#define codes_load _mm512_loadu_si512
#define codes_store _mm512_storeu_si512
#define codes_and _mm512_and_si512
#define codes_add _mm512_add_epi8
#define codes_mul _mm512_mullo_epi16
#define codes_srl _mm512_srli_epi16
#define codes_set1 _mm512_set1_epi32

ALWAYS_INLINE code_vec codes_join(code_vec a, code_vec b) /* a & 0x00ff | b */
{
    return _mm512_ternarylogic_epi32(a, b, codes_set1(0x00ff00ff), 0xec);
}

ALWAYS_INLINE code_vec codes_channels(const uint8_t *p)
{
    const code_vec four = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)), four);
}

#include "backend-cpu/packed_loops.h"

void avx512_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    unpack_part(page, part, head_dim, to);
}

#endif
