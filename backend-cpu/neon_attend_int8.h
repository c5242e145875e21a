/* neon_attend_int8.h: attention over KV_INT8 of variant "neon"; a part of neon.c, which alone
 * includes it. */
#ifndef BACKEND_CPU_NEON_ATTEND_INT8_H
#define BACKEND_CPU_NEON_ATTEND_INT8_H

#include "backend-cpu/neon.h"

/* 8 codes of keys as words. */
ALWAYS_INLINE int16x8_t key_words(const uint8_t *p)
{
    return vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))), vdupq_n_s16(KEY_BIAS));
}

/* Sums of the lanes of a[0], a[1], a[2] and a[3]. */
ALWAYS_INLINE int32x4_t sums_of_lanes(const int32x4_t *a)
{
    return vpaddq_s32(vpaddq_s32(a[0], a[1]), vpaddq_s32(a[2], a[3]));
}

/* An int8_keys_fn: lanes are four dimensions of one position, 8 positions at a time. */
ALWAYS_INLINE void neon_keys(const int16_t *q, int n, const uint8_t *keys, int dims, int32_t *sums)
{
    for (int i = 0; i < 2 * n; i++) {
        const uint8_t *k = keys + i % 2 * 32;
        const int16_t *x = q + i / 2 * dims;
        int32x4_t a[8];
        EACH (c, 8) a[c] = vdupq_n_s32(0);
        for (int d = 0; d < dims; d += 4, k += 4 * KV_PAGE) {
            int16x4_t v = vld1_s16(x + d);
            EACH (h, 4) {
                int16x8_t two = key_words(k + h * 8);
                a[2 * h] = vmlal_s16(a[2 * h], vget_low_s16(two), v);
                a[2 * h + 1] = vmlal_s16(a[2 * h + 1], vget_high_s16(two), v);
            }
        }
        vst1q_s32(sums + i * 8, sums_of_lanes(a));
        vst1q_s32(sums + i * 8 + 4, sums_of_lanes(a + 4));
    }
}

/* An int8_values_fn: lanes are four positions of one dimension. head_dim is even. */
ALWAYS_INLINE void neon_values_words(const int16_t *w, int n, const int8_t *values, int head_dim,
                                     int32_t *sums)
{
    int row = kv_padded(KV_INT8, head_dim) * 4;
    for (int i = 0; i < n; i++, w += ATTEND_CHUNK, sums += head_dim)
        for (int d = 0; d < head_dim; d += 4) {
            int32x4_t a[4], was = vdupq_n_s32(0);
            int32_t part[4];
            int left = head_dim - d < 4 ? head_dim - d : 4;
            EACH (k, 4) a[k] = vdupq_n_s32(0);
            EACH (c, KV_PAGE / 4) {
                int8x16_t v = vld1q_s8(values + c * row + d * 4);
                int16x4_t x = vld1_s16(w + c * 4);
                int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_s8(vget_high_s8(v));
                a[0] = vmlal_s16(a[0], vget_low_s16(low), x);
                a[1] = vmlal_s16(a[1], vget_high_s16(low), x);
                a[2] = vmlal_s16(a[2], vget_low_s16(high), x);
                a[3] = vmlal_s16(a[3], vget_high_s16(high), x);
            }
            if (left == 4) was = vld1q_s32(sums + d);
            vst1q_s32(part, vaddq_s32(was, sums_of_lanes(a)));
            for (int k = 0; k < left; k++)
                sums[d + k] = left == 4 ? part[k] : sums[d + k] + part[k];
        }
}

/* Adds the products of query x and one dimension's key codes of 16 positions to sum[4]. */
ALWAYS_INLINE void add_dimension(float32x4_t *sum, uint8x16_t codes, float x)
{
    int8x16_t c = vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(KEY_BIAS)));
    int16x8_t low = vmovl_s8(vget_low_s8(c)), high = vmovl_s8(vget_high_s8(c));
    sum[0] = vfmaq_n_f32(sum[0], vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), x);
    sum[1] = vfmaq_n_f32(sum[1], vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))), x);
    sum[2] = vfmaq_n_f32(sum[2], vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), x);
    sum[3] = vfmaq_n_f32(sum[3], vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))), x);
}

/* plain_scores_f32 with the positions of a page as lanes. */
ALWAYS_INLINE void neon_scores_f32(const float *const *q, int n, const void *const *keys,
                                   int n_pages, int head_dim, enum kv_type kv, float *scores)
{
    (void)kv;
    for (int k = 0; k < n_pages; k++)
        for (int i = 0; i < n; i++) {
            const uint8_t *key = keys[k];
            const float *scale = key_scales(key, head_dim);
            float *to = scores + i * ATTEND_CHUNK + k * KV_PAGE;
            float32x4_t sum[4];
            EACH (c, 4) sum[c] = vdupq_n_f32(0);
            for (int d = 0; d < head_dim; d += 4, key += 4 * KV_PAGE) {
                uint8x16x4_t four = vld4q_u8(key);
                EACH (j, 4)
                    if (d + j < head_dim) add_dimension(sum, four.val[j], q[i][d + j]);
            }
            EACH (c, 4) vst1q_f32(to + c * 4, vmulq_f32(sum[c], vld1q_f32(scale + c * 4)));
        }
}

/* Integer attention with a variant's sums. */
void neon_int8_attend(const struct attend_task *t, float *scratch, int8_keys_fn *keys,
                      int8_values_fn *values)
{
    int8_attend(t, scratch, keys, values, neon_exps, fp32_mask, neon_softcap);
}

static __attribute__((noinline)) void attend_int8(const struct attend_task *t, float *scratch)
{
    if (t->q_top)
        int8_attend(t, scratch, neon_keys, neon_values_words, neon_exps, fp32_mask, neon_softcap);
    else
        fp32_attend(t, scratch, neon_scores_f32, plain_values_f32, neon_exps, fp32_mask,
                    neon_softcap);
}

#endif
