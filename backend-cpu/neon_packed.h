/* neon_packed.h: unpacks pages of KV_INT4 (packed.h) by NEON; a part of the arm64 variants. */
#ifndef BACKEND_CPU_NEON_PACKED_H
#define BACKEND_CPU_NEON_PACKED_H

#include "backend-cpu/packed.h"

#include <arm_neon.h>

/* lo + step * code of both codes of 16 bytes, to `to` and `half` bytes behind it. */
static inline void unpack_16(uint8x16_t codes, const uint8x16_t lo[2], const uint8x16_t step[2],
                             uint8_t *to, int half)
{
    vst1q_u8(to, vmlaq_u8(lo[0], step[0], vandq_u8(codes, vdupq_n_u8(15))));
    vst1q_u8(to + half, vmlaq_u8(lo[1], step[1], vshrq_n_u8(codes, 4)));
}

/* 4 channels in all 4 places of a vector. */
static inline uint8x16_t channels_of_keys(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return vreinterpretq_u8_u32(vdupq_n_u32(x));
}

/* 4 channels, each in 4 neighbours. */
static inline uint8x16_t channels_of_values(const uint8_t *p)
{
    static const uint8_t each[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    return vqtbl1q_u8(channels_of_keys(p), vld1q_u8(each));
}

/* cpu_kernels.unpack */
void neon_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    const int n = kv_padded(KV_INT8, head_dim), half = 8 * n;
    const uint8_t *codes = packed_codes(page, part, n), *lo = packed_lo(page, part, n);
    uint8_t *out = (uint8_t *)to;
    for (int i = 0; part == KEYS && i < half; i += 16) {
        const uint8_t *low = lo + i / 64 * 4, *high = lo + (i + half) / 64 * 4;
        const uint8x16_t l[] = {channels_of_keys(low), channels_of_keys(high)},
                         s[] = {channels_of_keys(low + n), channels_of_keys(high + n)};
        unpack_16(vld1q_u8(codes + i), l, s, out + i, half);
    }
    for (int d = 0; part == VALUES && d < n; d += 4) {
        const uint8x16_t l = channels_of_values(lo + d), s = channels_of_values(lo + n + d);
        for (int i = 4 * d; i < half; i += 4 * n)
            unpack_16(vld1q_u8(codes + i), (const uint8x16_t[]){l, l}, (const uint8x16_t[]){s, s},
                      out + i, half);
    }
}

#endif
