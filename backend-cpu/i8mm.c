/* i8mm.c: variant "i8mm": "dotprod" with the int8 matrix product (FEAT_I8MM) for several rows: one
 * instruction multiplies eight inputs of two outputs with two planes. Empty on other
 * architectures. */
#if defined(__aarch64__)

#include "backend-cpu/neon.h"

#include <sys/auxv.h>

enum { I8MM = 1 << 13 }; /* HWCAP2_I8MM, a bit of Linux's AT_HWCAP2 */

static const char *i8mm_unusable(void)
{
    const char *why = cpu_dotprod.unusable();
    if (why) return why;
    return getauxval(AT_HWCAP2) & I8MM ? NULL : "this processor has no int8 matrix product (I8MM)";
}

/* 16 digits of planes i and i+1: inputs 0..7 of both, inputs 8..15 of both; the last of an odd
 * number of planes twice. */
ALWAYS_INLINE void load_pair(const int8_t *const *digit, int i, int planes, int j, int8x16_t *first,
                             int8x16_t *second)
{
    int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(digit[i] + j)),
              b = vreinterpretq_s64_s8(vld1q_s8(digit[i + 1 < planes ? i + 1 : i] + j));
    *first = vreinterpretq_s8_s64(vzip1q_s64(a, b));
    *second = vreinterpretq_s8_s64(vzip2q_s64(a, b));
}

/* A planes_fn for CODES_PAIRS. A sum holds outputs o, o+1 x planes i, i+1. */
ALWAYS_INLINE void matrix_planes(const uint8_t *codes, const int8_t *const *digit, int n,
                                 int32x4_t sum[MAX_PLANES][4], const int planes,
                                 enum code_form form)
{
    const int pairs = (planes + 1) / 2;
    int32x4_t s[MAX_PLANES / 2][8];
    (void)form;
    EACH (i, pairs)
        EACH (o, 8) s[i][o] = vdupq_n_s32(0);
    for (int j = 0; j < n; j += 16, codes += 256) {
        int8x16_t d[2][MAX_PLANES / 2];
        EACH (i, pairs) load_pair(digit, 2 * i, planes, j, &d[0][i], &d[1][i]);
        EACH (b, 2)
            EACH (o, 8) {
                int8x16_t c = vreinterpretq_s8_u8(vld1q_u8(codes + b * 128 + o * 16));
                EACH (i, pairs) s[i][o] = vmmlaq_s32(s[i][o], c, d[b][i]);
            }
    }
    EACH (i, planes)
        EACH (h, 4) {
            int32x4_t low = s[i / 2][2 * h], high = s[i / 2][2 * h + 1];
            sum[i][h] = i % 2 ? vuzp2q_s32(low, high) : vuzp1q_s32(low, high);
        }
}

static void i8mm_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                     float *scratch)
{
    if (x->rows == 1) cpu_dotprod.q4i(w, x, y, p0, p1, scratch);
    else q4i_rows(&(struct q4i_call){w, x, y, p0, p1}, scratch, 4, CODES_PAIRS, matrix_planes);
}

const struct cpu_kernels cpu_i8mm = {
    .name = "i8mm",
    .unusable = i8mm_unusable,
    .q4i = i8mm_q4i,
    .attend = dotprod_attend,
    .merge = neon_merge,
    NEON_KERNELS,
};

#else
typedef int translation_unit_is_not_empty;
#endif
