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

const struct cpu_kernels cpu_dotprod = {
    .name = "dotprod",
    .unusable = dotprod_unusable,
    .q4 = neon_q4,
    .quantize = neon_quantize,
    .q4i = dotprod_q4i,
    .dense = neon_dense,
    .norm = neon_norm,
    .layer_norm = neon_layer_norm,
    .add = neon_add,
    .rope = neon_rope,
    .attend = neon_attend,
    .glu = neon_glu,
    .softcap = neon_softcap,
    .states = &neon_states,
    .copy_digits = digits_copy,
    .route = neon_route,
    .mix = neon_mix,
    .unpack = neon_unpack,
};

#else
typedef int translation_unit_is_not_empty;
#endif
