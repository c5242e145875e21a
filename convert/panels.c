#include "convert/panels.h"

#include "core/model/modelfile.h"

#include <string.h>

/* One block: 8 inputs (in: [8] rows of 16 codes) -> [16][4]. */
static inline void pack_block(uint32_t *restrict dst, const uint8_t *const *in, int shift)
{
    uint8_t b[4][MF_PANEL];
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < MF_PANEL; r++)
            b[i][r] = (uint8_t)(((in[i][r] >> shift) & 15) | (in[i + 4][r] >> shift) << 4);
    for (int r = 0; r < MF_PANEL; r++)
        dst[r] = (uint32_t)b[0][r] | (uint32_t)b[1][r] << 8 | (uint32_t)b[2][r] << 16 |
                 (uint32_t)b[3][r] << 24;
}

void panels_pack(uint8_t *dst, const uint8_t *codes, const struct slots *s)
{
    static const uint8_t none[MF_PANEL];
    for (int64_t g = 0; g < s->n_groups; g++) {
        int shift = s->groups[g].high ? 4 : 0;
        for (int64_t j = g * s->group; j < (g + 1) * s->group; j += MF_BLOCK, dst += MF_PANEL * 4) {
            const uint8_t *in[MF_BLOCK];
            for (int i = 0; i < MF_BLOCK; i++)
                in[i] = s->perm[j + i] < 0 ? none : codes + (size_t)s->perm[j + i] * MF_PANEL;
            pack_block((uint32_t *)(void *)dst, in, shift);
        }
    }
}

/* Nibbles n7..n0 -> bytes n7n3 n6n2 n5n1 n4n0. */
static inline uint32_t spread(uint32_t x)
{
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
}

void panels_from_words(uint8_t *dst, const uint32_t *words, size_t stride, int64_t k,
                       int64_t n_panels)
{
    /* rows per pass over a panel: reads stay in few streams, each write is 1 KiB */
    enum { TILE = 16 };
    int64_t n_rows = k / MF_BLOCK;
    uint32_t *out = (uint32_t *)(void *)dst;
    for (int64_t r0 = 0; r0 < n_rows; r0 += TILE) {
        int64_t r1 = r0 + TILE < n_rows ? r0 + TILE : n_rows;
        for (int64_t p = 0; p < n_panels; p++)
            for (int64_t r = r0; r < r1; r++) {
                const uint32_t *restrict w = words + (size_t)r * stride + (size_t)p * MF_PANEL;
                uint32_t *restrict d = out + (size_t)(p * n_rows + r) * MF_PANEL;
                for (int c = 0; c < MF_PANEL; c++)
                    d[c] = spread(w[c] & 0xffff) | spread(w[c] >> 16) << 4;
            }
    }
}

void panels_scales(void *dst, enum dtype dst_type, const void *src, enum dtype src_type,
                   size_t stride, int64_t n_cols, const struct slots *s)
{
    size_t at = 0;
    for (int64_t p = 0; p * MF_PANEL < n_cols; p++)
        for (int64_t g = 0; g < s->n_groups; g++)
            for (int64_t r = 0; r < MF_PANEL; r++, at++) {
                int64_t c = p * MF_PANEL + r;
                int32_t source = s->groups[g].source;
                float v = 0;
                if (c < n_cols && source >= 0)
                    v = f32_at(src, src_type, (size_t)source * stride + (size_t)c);
                if (s->groups[g].high) v *= 16;
                if (dst_type == DT_F16) ((uint16_t *)dst)[at] = f16_from_f32(v);
                else ((float *)dst)[at] = v;
            }
}

void panels_zeros(uint8_t *dst, const uint16_t *zeros, size_t stride, int64_t n_cols,
                  const struct slots *s)
{
    int two = 0; /* a group with a high plane: zeros are split as the codes are, z = 16 zh + zl */
    for (int64_t g = 0; g < s->n_groups; g++) two |= s->groups[g].high;
    for (int64_t p = 0; p * MF_PANEL < n_cols; p++)
        for (int64_t g = 0; g < s->n_groups; g++)
            for (int64_t r = 0; r < MF_PANEL; r++) {
                int64_t c = p * MF_PANEL + r;
                int32_t source = s->groups[g].source;
                unsigned z = 0;
                if (c < n_cols && source >= 0) z = zeros[(size_t)source * stride + (size_t)c];
                *dst++ = (uint8_t)(!two ? z : s->groups[g].high ? z >> 4 : z & 15);
            }
}
