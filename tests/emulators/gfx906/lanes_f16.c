/* lanes_f16.c: vector operations on fp16: scalar, packed, mixed with fp32, dot products.
 *
 * Results are rounded once, to nearest even; fma is fused. mad and mac round the product, too, and
 * flush denormals, as LLVM assumes of this hardware. v_dot2_f32_f16 sums as fma(a1, b1, fma(a0, b0,
 * c)) in fp32; the order inside the hardware is not documented. Transcendental operations: rounded
 * once from double. */
#include "lanes.h"

static inline uint32_t mad16(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t product = half_flush(to_half(half(half_flush(x)) * half(half_flush(y))));
    return half_flush(to_half(half(product) + half(half_flush(z))));
}
static inline int is_nan16(uint32_t x) { return (x & 0x7fff) > 0x7c00; }
static inline uint32_t max_h(uint32_t x, uint32_t y)
{
    int first = is_nan16(y) || half(x) > half(y) || (half(x) == half(y) && (x & 0x8000) == 0);
    return (is_nan16(x) ? y : first ? x : y) & 0xffff;
}
static inline uint32_t min_h(uint32_t x, uint32_t y)
{
    int first = is_nan16(y) || half(x) < half(y) || (half(x) == half(y) && (x & 0x8000) != 0);
    return (is_nan16(x) ? y : first ? x : y) & 0xffff;
}
static inline uint32_t med_h(uint32_t x, uint32_t y, uint32_t z)
{
    if (is_nan16(x) || is_nan16(y) || is_nan16(z)) return min_h(min_h(x, y), z);
    return max_h(min_h(x, y), min_h(max_h(x, y), z));
}
LANE(v_add_f16, to_half(HA + HB))
LANE(v_sub_f16, to_half(HA - HB))
LANE(v_subrev_f16, to_half(HB - HA))
LANE(v_mul_f16, to_half(HA *HB))
LANE(v_fma_f16, half_fma(A, B, C))
LANE(v_mad_f16, mad16(A, B, C))
LANE(v_max_f16, max_h(A, B))
LANE(v_min_f16, min_h(A, B))
LANE(v_max3_f16, max_h(max_h(A, B), C))
LANE(v_min3_f16, min_h(min_h(A, B), C))
LANE(v_med3_f16, med_h(A, B, C))
LANE(v_pack_b32_f16, (A & 0xffff) | B << 16)
static inline uint32_t scale_half(float x, int e)
{
    return to_half(ldexpf(x, e < -60 ? -60 : e > 60 ? 60 : e));
}
LANE(v_ldexp_f16, scale_half(HA, sext(B, 16)))
LANE(v_cvt_f16_u16, to_half((float)(int32_t)(A & 0xffff)))
LANE(v_cvt_f16_i16, to_half((float)sext(A, 16)))
static inline int32_t clamp_int(float x, int32_t lo, int32_t hi)
{
    return !(x == x) ? 0 : x <= (float)lo ? lo : x >= (float)hi ? hi : (int32_t)x;
}
LANE(v_cvt_u16_f16, clamp_int(HA, 0, 65535))
LANE(v_cvt_i16_f16, clamp_int(HA, -32768, 32767) & 0xffff)
LANE(v_rcp_f16, to_half((float)(1.0 / (double)HA)))
LANE(v_sqrt_f16, to_half(sqrtf(HA)))
LANE(v_rsq_f16, to_half((float)(1.0 / sqrt((double)HA))))
LANE(v_log_f16, to_half(log2f(HA)))
LANE(v_exp_f16, to_half(exp2f(HA)))
static inline double turn(float x)
{
    return 6.283185307179586476925 * ((double)x - floor((double)x));
}
LANE(v_sin_f16, to_half(fabsf(HA) <= 256 ? (float)sin(turn(HA)) : HA - HA))
LANE(v_cos_f16, to_half(fabsf(HA) <= 256 ? (float)cos(turn(HA)) : HA - HA + 1))
LANE(v_floor_f16, to_half(floorf(HA)))
LANE(v_ceil_f16, to_half(ceilf(HA)))
LANE(v_trunc_f16, to_half(truncf(HA)))
LANE(v_rndne_f16, to_half(rintf(HA)))
LANE(v_fract_f16, to_half(fminf(HA - floorf(HA), 0x1.ffcp-1f)))
static inline int exponent(float x)
{
    int e = 0;
    if (x - x == 0) (void)frexpf(x, &e);
    return e;
}
LANE(v_frexp_exp_i16_f16, exponent(HA) & 0xffff)
LANE(v_frexp_mant_f16, to_half(HA - HA == 0 ? ldexpf(HA, -exponent(HA)) : HA))
/* The last step of a division: q the quotient, den and num what was divided. */
static inline uint32_t div_fixup(uint32_t q, uint32_t den, uint32_t num)
{
    uint32_t sign = (den ^ num) & 0x8000;
    float n = fabsf(half(num)), d = fabsf(half(den));
    if (is_nan16(num)) return num | 0x200;
    if (is_nan16(den)) return den | 0x200;
    if ((n == 0 && d == 0) || (n == INFINITY && d == INFINITY)) return 0xfe00;
    if (d == 0 || n == INFINITY) return sign | 0x7c00;
    if (d == INFINITY || n == 0) return sign;
    return sign | (q & 0x7fff);
}
LANE(v_div_fixup_f16, div_fixup(A, B, C) & 0xffff)

/* Packed: with F16C four lanes, eight halves, at a time. */
#ifdef __F16C__
#include <immintrin.h>
typedef float eight __attribute__((vector_size(32)));
typedef int32_t eight_ints __attribute__((vector_size(32)));
static inline eight pairs(const uint32_t *row)
{
    return (eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)row));
}
static inline eight sum(eight a, eight b) { return a + b; }
static inline eight product(eight a, eight b) { return a * b; }
/* add_odd on vectors */
static inline eight fused(eight a, eight b, eight c)
{
    eight p = a * b, s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
    eight_ints u = (eight_ints)s, inexact = ((u & 0x7f800000) != 0x7f800000) & (e != 0),
               too_far = (((eight_ints)e ^ u) < 0) & inexact;
    return (eight)((u + too_far) | (inexact & 1));
}
#define PACKED(name, f)                                                                            \
    static void name(ROWS)                                                                         \
    {                                                                                              \
        UNUSED_ROWS;                                                                               \
        for (int l = 0; l < LANES; l += 4)                                                         \
            _mm_storeu_si128((__m128i *)(d + l),                                                   \
                             _mm256_cvtps_ph((__m256)(f), _MM_FROUND_TO_NEAREST_INT));             \
    }
#define PA pairs(a + l)
#define PB pairs(b + l)
#define PC pairs(c + l)
PACKED(v_pk_fma_f16, fused(PA, PB, PC))
PACKED(v_pk_add_f16, sum(PA, PB))
PACKED(v_pk_mul_f16, product(PA, PB))
/* the low and the high halves of eight lanes */
static inline __m256 halves_of(const uint32_t *row, int hi)
{
    __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)row)),
           y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 4)));
    __m256 z = hi ? _mm256_shuffle_ps(x, y, 0xdd) : _mm256_shuffle_ps(x, y, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(z), 0xd8));
}
static void v_dot2_f32_f16(ROWS)
{
    for (int l = 0; l < LANES; l += 8) {
        __m256 r = _mm256_fmadd_ps(halves_of(a + l, 0), halves_of(b + l, 0),
                                   _mm256_loadu_ps((const float *)(c + l)));
        _mm256_storeu_ps((float *)(d + l),
                         _mm256_fmadd_ps(halves_of(a + l, 1), halves_of(b + l, 1), r));
    }
}
#else
#define PACKED(name, lo, hi) LANE(name, (lo) | (hi) << 16)
PACKED(v_pk_fma_f16, half_fma(A, B, C), half_fma(A >> 16, B >> 16, C >> 16))
PACKED(v_pk_add_f16, to_half(HA + HB), to_half(half(A >> 16) + half(B >> 16)))
PACKED(v_pk_mul_f16, to_half(HA *HB), to_half(half(A >> 16) * half(B >> 16)))
LANE(v_dot2_f32_f16, bits(fmaf(half(A >> 16), half(B >> 16), fmaf(HA, HB, FC))))
#endif
#define PAIR(lo, hi) ((lo) | (hi) << 16)
LANE(v_pk_min_f16, PAIR(min_h(A, B), min_h(A >> 16, B >> 16)))
LANE(v_pk_max_f16, PAIR(max_h(A, B), max_h(A >> 16, B >> 16)))
LANE(v_fma_mix_f32, bits(fmaf(FA, FB, FC)))
LANE(v_fma_mix_f16, to_half(fmaf(FA, FB, FC)))

const struct op LANE_TABLE[] = {
    {ENC_VOP2, 0x1f, "v_add_f16", "hhh", .lane = v_add_f16},
    {ENC_VOP2, 0x20, "v_sub_f16", "hhh", .lane = v_sub_f16},
    {ENC_VOP2, 0x21, "v_subrev_f16", "hhh", .lane = v_subrev_f16},
    {ENC_VOP2, 0x22, "v_mul_f16", "hhh", .lane = v_mul_f16},
    {ENC_VOP2, 0x23, "v_mac_f16", "hhhh", .lane = v_mad_f16},
    {ENC_VOP2, 0x24, "v_madmk_f16", "hhhh", .lane = v_mad_f16},
    {ENC_VOP2, 0x25, "v_madak_f16", "hhhh", .lane = v_mad_f16},
    {ENC_VOP2, 0x2d, "v_max_f16", "hhh", .lane = v_max_f16},
    {ENC_VOP2, 0x2e, "v_min_f16", "hhh", .lane = v_min_f16},
    {ENC_VOP2, 0x33, "v_ldexp_f16", "hhw", .lane = v_ldexp_f16},
    {ENC_VOP1, 0x39, "v_cvt_f16_u16", "hw", .lane = v_cvt_f16_u16},
    {ENC_VOP1, 0x3a, "v_cvt_f16_i16", "hw", .lane = v_cvt_f16_i16},
    {ENC_VOP1, 0x3b, "v_cvt_u16_f16", "wh", .lane = v_cvt_u16_f16},
    {ENC_VOP1, 0x3c, "v_cvt_i16_f16", "wh", .lane = v_cvt_i16_f16},
    {ENC_VOP1, 0x3d, "v_rcp_f16", "hh", .lane = v_rcp_f16},
    {ENC_VOP1, 0x3e, "v_sqrt_f16", "hh", .lane = v_sqrt_f16},
    {ENC_VOP1, 0x3f, "v_rsq_f16", "hh", .lane = v_rsq_f16},
    {ENC_VOP1, 0x40, "v_log_f16", "hh", .lane = v_log_f16},
    {ENC_VOP1, 0x41, "v_exp_f16", "hh", .lane = v_exp_f16},
    {ENC_VOP1, 0x42, "v_frexp_mant_f16", "hh", .lane = v_frexp_mant_f16},
    {ENC_VOP1, 0x43, "v_frexp_exp_i16_f16", "wh", .lane = v_frexp_exp_i16_f16},
    {ENC_VOP1, 0x44, "v_floor_f16", "hh", .lane = v_floor_f16},
    {ENC_VOP1, 0x45, "v_ceil_f16", "hh", .lane = v_ceil_f16},
    {ENC_VOP1, 0x46, "v_trunc_f16", "hh", .lane = v_trunc_f16},
    {ENC_VOP1, 0x47, "v_rndne_f16", "hh", .lane = v_rndne_f16},
    {ENC_VOP1, 0x48, "v_fract_f16", "hh", .lane = v_fract_f16},
    {ENC_VOP1, 0x49, "v_sin_f16", "hh", .lane = v_sin_f16},
    {ENC_VOP1, 0x4a, "v_cos_f16", "hh", .lane = v_cos_f16},
    {ENC_VOP3, 0x1ea, "v_mad_legacy_f16", "hhhh", .lane = v_mad_f16},
    {ENC_VOP3, 0x1ee, "v_fma_legacy_f16", "hhhh", .lane = v_fma_f16},
    {ENC_VOP3, 0x1ef, "v_div_fixup_legacy_f16", "hhhh", .lane = v_div_fixup_f16},
    {ENC_VOP3, 0x1f4, "v_min3_f16", "Hhhh", .lane = v_min3_f16},
    {ENC_VOP3, 0x1f7, "v_max3_f16", "Hhhh", .lane = v_max3_f16},
    {ENC_VOP3, 0x1fa, "v_med3_f16", "Hhhh", .lane = v_med3_f16},
    {ENC_VOP3, 0x203, "v_mad_f16", "Hhhh", .lane = v_mad_f16},
    {ENC_VOP3, 0x206, "v_fma_f16", "Hhhh", .lane = v_fma_f16},
    {ENC_VOP3, 0x207, "v_div_fixup_f16", "Hhhh", .lane = v_div_fixup_f16},
    {ENC_VOP3, 0x2a0, "v_pack_b32_f16", "ihh", .lane = v_pack_b32_f16},
    {ENC_VOP3P, 0x0e, "v_pk_fma_f16", "pppp", .lane = v_pk_fma_f16},
    {ENC_VOP3P, 0x0f, "v_pk_add_f16", "ppp", .lane = v_pk_add_f16},
    {ENC_VOP3P, 0x10, "v_pk_mul_f16", "ppp", .lane = v_pk_mul_f16},
    {ENC_VOP3P, 0x11, "v_pk_min_f16", "ppp", .lane = v_pk_min_f16},
    {ENC_VOP3P, 0x12, "v_pk_max_f16", "ppp", .lane = v_pk_max_f16},
    {ENC_VOP3P, 0x20, "v_fma_mix_f32", "fmmm", .lane = v_fma_mix_f32},
    {ENC_VOP3P, 0x21, "v_fma_mixlo_f16", "Hmmm", .lane = v_fma_mix_f16},
    {ENC_VOP3P, 0x22, "v_fma_mixhi_f16", "Hmmm", .lane = v_fma_mix_f16},
    {ENC_VOP3P, 0x23, "v_dot2_f32_f16", "fppf", .lane = v_dot2_f32_f16},
    {0},
};
