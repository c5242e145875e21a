/* dotprod.c: variant "dotprod": NEON with the four-way int8 dot product (FEAT_DotProd). Empty on
 * other architectures. */
#if defined(__aarch64__)

#include "backend-cpu/neon.h"

#include <sys/auxv.h>

enum { ASIMDDP = 1 << 20 }; /* HWCAP_ASIMDDP, a bit of Linux's AT_HWCAP */

static const char *dotprod_unusable(void)
{
    return getauxval(AT_HWCAP) & ASIMDDP ? NULL : "this processor has no dot product (ASIMDDP)";
}

/* A planes_fn. A lane of codes is four inputs of one output; a lane of digits the same four inputs,
 * for every output. */
ALWAYS_INLINE void dot_planes(const uint8_t *codes, const int8_t *const *digit, int n,
                              int32x4_t sum[MAX_PLANES][4], const int planes, enum code_form form)
{
    const int block = form == CODES_BYTES ? 128 : 64;
    EACH (i, planes)
        EACH (h, 4) sum[i][h] = vdupq_n_s32(0);
    for (int j = 0; j < n; j += 16, codes += 2 * block) {
        int8x16_t d[MAX_PLANES];
        EACH (i, planes) d[i] = vld1q_s8(digit[i] + j);
        if (form == CODES_PACKED) {
            prefetch(codes + AHEAD);
            prefetch(codes + AHEAD + 64);
        }
        EACH (b, 2)
            EACH (h, 4) {
                int8x16_t low, high;
                load_codes(codes + b * block, h, form, &low, &high);
                EACH (i, planes) {
                    sum[i][h] = b ? vdotq_laneq_s32(sum[i][h], low, d[i], 2)
                                  : vdotq_laneq_s32(sum[i][h], low, d[i], 0);
                    sum[i][h] = b ? vdotq_laneq_s32(sum[i][h], high, d[i], 3)
                                  : vdotq_laneq_s32(sum[i][h], high, d[i], 1);
                }
            }
    }
}

static void dotprod_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                        float *scratch)
{
    q4i_128(&(struct q4i_call){w, x, y, p0, p1}, scratch, 4, dot_planes);
}

/* n integers, a multiple of 4, as 128 * high + low; up to 8 more may be written. */
ALWAYS_INLINE void split_words(const int16_t *x, int n, int8_t *high, int8_t *low)
{
    for (int i = 0; i < n; i += 8) {
        int16x8_t v = vld1q_s16(x + i), h = vshrq_n_s16(vaddq_s16(v, vdupq_n_s16(64)), 7);
        vst1_s8(high + i, vmovn_s16(h));
        vst1_s8(low + i, vmovn_s16(vsubq_s16(v, vshlq_n_s16(h, 7))));
    }
}

/* Four bytes, for every lane. */
ALWAYS_INLINE int8x16_t dup_4(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

/* An int8_keys_fn: lanes are positions. */
static void dot_keys(const int16_t *q, int n, const uint8_t *keys, int dims, int32_t *sums)
{
    int8_t high[1024 + 8], low[1024 + 8]; /* head_dim <= 1024, checked by core/model/model.c */
    const uint8x16_t bias = vdupq_n_u8(KEY_BIAS);
    for (int i = 0; i < n; i++, q += dims, sums += KV_PAGE) {
        int32x4_t a[4], b[4];
        split_words(q, dims, high, low);
        EACH (h, 4) a[h] = b[h] = vdupq_n_s32(0);
        for (int d = 0; d < dims; d += 4) {
            int8x16_t x = dup_4(high + d), y = dup_4(low + d);
            EACH (h, 4) {
                int8x16_t k =
                    vreinterpretq_s8_u8(veorq_u8(vld1q_u8(keys + d * KV_PAGE + h * 16), bias));
                a[h] = vdotq_s32(a[h], k, x);
                b[h] = vdotq_s32(b[h], k, y);
            }
        }
        EACH (h, 4) vst1q_s32(sums + h * 4, vaddq_s32(vshlq_n_s32(a[h], 7), b[h]));
    }
}

/* An int8_values_fn: lanes are dimensions. */
static void dot_values(const int16_t *w, int n, const int8_t *values, int head_dim, int32_t *sums)
{
    int row = kv_padded(KV_INT8, head_dim) * 4;
    int8_t high[KV_PAGE], low[KV_PAGE];
    for (int i = 0; i < n; i++, w += ATTEND_CHUNK, sums += head_dim) {
        split_words(w, KV_PAGE, high, low);
        for (int d = 0; d < head_dim; d += 4) {
            int32x4_t a = vdupq_n_s32(0), b = a;
            int32_t sum[4];
            EACH (c, 4) {
                int8x16_t v = vld1q_s8(values + c * row + d * 4);
                a = vdotq_s32(a, v, dup_4(high + c * 4));
                b = vdotq_s32(b, v, dup_4(low + c * 4));
            }
            vst1q_s32(sum, vaddq_s32(vshlq_n_s32(a, 7), b));
            for (int k = 0; k < 4 && d + k < head_dim; k++) sums[d + k] += sum[k];
        }
    }
}

void dotprod_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv == KV_INT8 && t->q_top) neon_int8_attend(t, scratch, dot_keys, dot_values);
    else neon_attend(t, scratch);
}

const struct cpu_kernels cpu_dotprod = {
    .name = "dotprod",
    .unusable = dotprod_unusable,
    .q4i = dotprod_q4i,
    .attend = dotprod_attend,
    .merge = neon_merge,
    NEON_KERNELS,
};

#else
typedef int translation_unit_is_not_empty;
#endif
