/* packed_loops.h: unpacks pages of KV_INT4 (packed.h) by the vectors of a variant, which defines
 * before it includes this: CODE_BYTES (32 or 64), code_vec (a vector of as many bytes), codes_load,
 * codes_store, codes_and, codes_add (bytes), codes_mul (16 bits), codes_srl (16 bits), codes_set1
 * (32 bits), codes_join(a, b): of every two bytes the low one of a, the high one of b, whose low
 * one is 0; and codes_channels(p), CODE_BYTES / 4 bytes, each in 4 neighbours. */
#ifndef BACKEND_CPU_PACKED_LOOPS_H
#define BACKEND_CPU_PACKED_LOOPS_H

#include "backend-cpu/packed.h"

/* 4 neighbouring channels in every 4 bytes. */
static inline code_vec codes_four(const uint8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return codes_set1(x);
}

/* lo + step * code of keys, neighbours of different channels. There is no product of bytes: even
 * and odd ones are factors of 16 bits, whose products fit a byte. The other channel in the upper
 * byte of a step does not reach the byte that is kept. step [n + 1]. */
static inline code_vec unpack_four(code_vec x, const uint8_t *lo, const uint8_t *step)
{
    code_vec even = codes_mul(codes_and(x, codes_set1(0x000f000f)), codes_four(step)),
          odd = codes_mul(codes_and(x, codes_set1(0x0f000f00)), codes_four(step + 1));
    return codes_add(codes_join(even, odd), codes_four(lo));
}

static inline void unpack_keys(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *lo = packed_lo(from, KEYS, n), *step = lo + n;
    for (int i = 0, half = 8 * n; i < half; i += CODE_BYTES) {
        int low = i / 64 * 4, high = low + n / 2;
        code_vec x = codes_load(packed_codes(from, KEYS, n) + i);
        codes_store(to + i, unpack_four(x, lo + low, step + low));
        codes_store(to + half + i, unpack_four(codes_srl(x, 4), lo + high, step + high));
    }
}

/* Unpacks values: the 4 positions of a channel are neighbours, so that one product of 16 bits is
 * that of two codes. */
static inline void unpack_values(const uint8_t *from, int n, uint8_t *to)
{
    const uint8_t *code = packed_codes(from, VALUES, n), *lo = packed_lo(from, VALUES, n);
    const code_vec low = codes_set1(0x0f0f0f0f), one = codes_set1(0x00ff00ff);
    for (int d = 0; d < n; d += CODE_BYTES / 4) {
        code_vec l = codes_channels(lo + d), s = codes_and(codes_channels(lo + n + d), one);
        for (int at = 4 * d; at < 8 * n; at += 4 * n) {
            code_vec x = codes_load(code + at), a = codes_and(x, low),
                  b = codes_and(codes_srl(x, 4), low);
            codes_store(to + at, codes_add(codes_mul(a, s), l));
            codes_store(to + at + 8 * n, codes_add(codes_mul(b, s), l));
        }
    }
}

/* cpu_kernels.unpack */
static inline void unpack_part(const char *page, enum kv_part part, int head_dim, char *to)
{
    int n = kv_padded(KV_INT8, head_dim);
    if (n % (CODE_BYTES / 4)) plain_unpack(page, part, head_dim, to);
    else if (part == KEYS) unpack_keys((const uint8_t *)page, n, (uint8_t *)to);
    else unpack_values((const uint8_t *)page, n, (uint8_t *)to);
}

#endif
