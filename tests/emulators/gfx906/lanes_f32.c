/* Vector operations on fp32 and fp64.
 *
 * Rounding: to nearest even, except where the name says otherwise. Denormals: kept or flushed by
 * the caller as the MODE register says; mad and mac, which have no denormals on this hardware,
 * flush theirs here, and so do the transcendental operations. exp, log, rcp, rsq, sqrt, sin and cos
 * are computed in double and rounded once: within 0.5000001 ulp, where the hardware promises 1 ulp
 * (sin, cos: 2^-20 or so absolute). A kernel must not rely on more than the hardware promises.
 * Where an invalid operation makes a NaN, its payload and sign are the host's. */
#include "lanes.h"

static inline float mad(float x, float y, float z)
{
    return flush(flush(flush(x) * flush(y)) + flush(z));
}
static inline float legacy_mul(float x, float y) { return x == 0 || y == 0 ? 0.0f : x * y; }
/* min and max: a number wins over a NaN, and -0 is less than +0 */
static inline uint32_t max_f(uint32_t x, uint32_t y)
{
    int first = is_nan32(y) || f32(x) > f32(y) || (f32(x) == f32(y) && x >> 31 == 0);
    return is_nan32(x) ? y : first ? x : y;
}
static inline uint32_t min_f(uint32_t x, uint32_t y)
{
    int first = is_nan32(y) || f32(x) < f32(y) || (f32(x) == f32(y) && x >> 31 == 1);
    return is_nan32(x) ? y : first ? x : y;
}
static inline uint32_t med_f(uint32_t x, uint32_t y, uint32_t z)
{
    if (is_nan32(x) || is_nan32(y) || is_nan32(z)) return min_f(min_f(x, y), z);
    return max_f(min_f(x, y), min_f(max_f(x, y), z));
}
LANE(v_add_f32, bits(FA + FB))
LANE(v_sub_f32, bits(FA - FB))
LANE(v_subrev_f32, bits(FB - FA))
LANE(v_mul_f32, bits(FA *FB))
LANE(v_mul_legacy_f32, bits(legacy_mul(FA, FB)))
LANE(v_min_f32, min_f(A, B))
LANE(v_max_f32, max_f(A, B))
LANE(v_fma_f32, bits(fmaf(FA, FB, FC)))
LANE(v_mad_f32, bits(mad(FA, FB, FC)))
LANE(v_mad_legacy_f32, bits(flush(flush(legacy_mul(flush(FA), flush(FB))) + flush(FC))))
LANE(v_min3_f32, min_f(min_f(A, B), C))
LANE(v_max3_f32, max_f(max_f(A, B), C))
LANE(v_med3_f32, med_f(A, B, C))
LANE(v_ldexp_f32, bits(ldexpf(FA, SB)))

/* conversions; out of range goes to the nearest, NaN to 0 */
static inline uint32_t to_u32(double x)
{
    return !(x > 0) ? 0 : x >= 4294967295.0 ? 0xffffffffu : (uint32_t)(int64_t)x;
}
static inline int32_t to_i32(double x)
{
    return !(x == x)            ? 0
           : x >= 2147483647.0  ? INT32_MAX
           : x <= -2147483648.0 ? INT32_MIN
                                : (int32_t)x;
}
LANE(v_cvt_f32_i32, bits((float)SA))
LANE(v_cvt_f32_u32, bits((float)A))
LANE(v_cvt_u32_f32, to_u32(FA))
LANE(v_cvt_i32_f32, to_i32(FA))
LANE(v_cvt_rpi_i32_f32, to_i32(floor((double)FA + 0.5)))
LANE(v_cvt_flr_i32_f32, to_i32(floorf(FA)))
LANE(v_cvt_off_f32_i4, bits((float)sext(A, 4) * 0.0625f))
LANE(v_cvt_f32_ubyte0, bits((float)(int32_t)(A & 255)))
LANE(v_cvt_f32_ubyte1, bits((float)(int32_t)(A >> 8 & 255)))
LANE(v_cvt_f32_ubyte2, bits((float)(int32_t)(A >> 16 & 255)))
LANE(v_cvt_f32_ubyte3, bits((float)(int32_t)(A >> 24)))
LANE(v_cvt_f32_f16, bits(HA))
LANE(v_cvt_f16_f32, to_half(FA))
static inline uint32_t to_half_rtz(uint32_t u)
{
    uint32_t m = u & 0x7fffffff, e = m >> 23, shift = e < 95 ? 31 : 126 - e;
    uint32_t r = m > 0x7f800000    ? 0x7e00
                 : m == 0x7f800000 ? 0x7c00
                 : e >= 143        ? 0x7bff
                 : e < 113         ? ((m & 0x7fffff) | 0x800000) >> (shift & 31)
                                   : (m - (112u << 23)) >> 13;
    return r | (u >> 16 & 0x8000);
}
LANE(v_cvt_pkrtz_f16_f32, to_half_rtz(A) | to_half_rtz(B) << 16)
static inline uint32_t norm_i16(float x)
{
    return !(x == x) ? 0 : (uint32_t)(int32_t)rintf(fminf(fmaxf(x, -1), 1) * 32767) & 0xffff;
}
static inline uint32_t norm_u16(float x)
{
    return !(x == x) ? 0 : (uint32_t)(int32_t)rintf(fminf(fmaxf(x, 0), 1) * 65535);
}
LANE(v_cvt_pknorm_i16_f32, norm_i16(FA) | norm_i16(FB) << 16)
LANE(v_cvt_pknorm_u16_f32, norm_u16(FA) | norm_u16(FB) << 16)
LANE(v_cvt_pk_u8_f32, (C & ~(255u << (8 * (B & 3)))) |
                          (uint32_t)to_i32(rintf(fminf(fmaxf(FA, 0), 255))) << (8 * (B & 3)))

LANE(v_fract_f32, bits(fminf(FA - floorf(FA), 0x1.fffffep-1f)))
LANE(v_trunc_f32, bits(truncf(FA)))
LANE(v_ceil_f32, bits(ceilf(FA)))
LANE(v_floor_f32, bits(floorf(FA)))
LANE(v_rndne_f32, bits(rintf(FA)))
LANE(v_exp_f32, bits(flush((float)exp2((double)flush(FA)))))
LANE(v_log_f32, bits((float)log2((double)flush(FA))))
LANE(v_rcp_f32, bits(flush((float)(1.0 / (double)flush(FA)))))
LANE(v_rsq_f32, bits((float)(1.0 / sqrt((double)flush(FA)))))
LANE(v_sqrt_f32, bits((float)sqrt((double)flush(FA))))
static inline double turn(float x)
{
    return 6.283185307179586476925 * ((double)x - floor((double)x));
}
LANE(v_sin_f32, bits(fabsf(FA) <= 256 ? (float)sin(turn(FA)) : FA - FA))
LANE(v_cos_f32, bits(fabsf(FA) <= 256 ? (float)cos(turn(FA)) : FA - FA + 1))
static inline int exponent(double x)
{
    int e = 0;
    if (x - x == 0) (void)frexp(x, &e);
    return e;
}
LANE(v_frexp_exp_i32_f32, exponent(FA))
LANE(v_frexp_mant_f32, bits(FA - FA == 0 ? (float)ldexp(FA, -exponent(FA)) : FA))

/* The last step of a division (ISA: V_DIV_FIXUP_F32): q is the quotient, den and num what was
 * divided. */
static inline uint32_t div_fixup(uint32_t q, uint32_t den, uint32_t num)
{
    uint32_t sign = (den ^ num) & 0x80000000;
    int e_den = (int)(den >> 23 & 255), e_num = (int)(num >> 23 & 255);
    float n = fabsf(f32(num)), d = fabsf(f32(den));
    if (is_nan32(num)) return num | 0x400000;
    if (is_nan32(den)) return den | 0x400000;
    if ((n == 0 && d == 0) || (n == INFINITY && d == INFINITY)) return 0xffc00000;
    if (d == 0 || n == INFINITY) return sign | 0x7f800000;
    if (d == INFINITY || n == 0) return sign;
    if (e_num - e_den < -150) return sign;
    if (e_den == 255) return sign | 0x7f800000;
    return sign | (q & 0x7fffffff);
}
LANE(v_div_fixup_f32, div_fixup(A, B, C))

/* fp64 */
static inline double max_d(double x, double y)
{
    return x != x ? y : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y;
}
static inline double min_d(double x, double y)
{
    return x != x ? y : y != y ? x : x < y || (x == y && signbit(x)) ? x : y;
}
/* V_DIV_FIXUP_F64, likewise */
static inline uint64_t div_fixup_64(double quotient, double den, double num)
{
    uint64_t sign = (bits64(den) ^ bits64(num)) & 1ull << 63, infinite = 0x7ffull << 52;
    int e_den = (int)(bits64(den) >> 52 & 2047), e_num = (int)(bits64(num) >> 52 & 2047);
    double n = fabs(num), d = fabs(den);
    if (num != num) return bits64(num) | 1ull << 51;
    if (den != den) return bits64(den) | 1ull << 51;
    if ((n == 0 && d == 0) || (n == INFINITY && d == INFINITY)) return 0xfff8ull << 48;
    if (d == 0 || n == INFINITY) return sign | infinite;
    if (d == INFINITY || n == 0) return sign;
    if (e_num - e_den < -1075) return sign;
    if (e_den == 2047) return sign | infinite;
    return sign | (bits64(quotient) & ~(1ull << 63));
}
LANE64(v_div_fixup_f64, div_fixup_64(DA, DB, DC))
LANE64(v_add_f64, bits64(DA + DB))
LANE64(v_mul_f64, bits64(DA *DB))
LANE64(v_min_f64, bits64(min_d(DA, DB)))
LANE64(v_max_f64, bits64(max_d(DA, DB)))
LANE64(v_fma_f64, bits64(fma(DA, DB, DC)))
LANE64(v_ldexp_f64, bits64(ldexp(DA, SB)))
LANE64(v_trunc_f64, bits64(trunc(DA)))
LANE64(v_ceil_f64, bits64(ceil(DA)))
LANE64(v_floor_f64, bits64(floor(DA)))
LANE64(v_rndne_f64, bits64(rint(DA)))
LANE64(v_fract_f64, bits64(fmin(DA - floor(DA), 0x1.fffffffffffffp-1)))
LANE64(v_rcp_f64, bits64(1.0 / DA))
LANE64(v_rsq_f64, bits64(1.0 / sqrt(DA)))
LANE64(v_sqrt_f64, bits64(sqrt(DA)))
LANE64(v_frexp_mant_f64, bits64(DA - DA == 0 ? ldexp(DA, -exponent(DA)) : DA))
LANE64(v_cvt_f64_i32, bits64((double)SA))
LANE64(v_cvt_f64_u32, bits64((double)A))
LANE64(v_cvt_f64_f32, bits64((double)FA))
LANE(v_frexp_exp_i32_f64, exponent(DA))
LANE(v_cvt_i32_f64, to_i32(DA))
LANE(v_cvt_u32_f64, to_u32(DA))
LANE(v_cvt_f32_f64, bits((float)DA))

/* comparisons: n.. are the negations, true when unordered */
#define FLOAT_MASKS(lt, eq, le, gt, lg, ge, o, u, nge, nlg, ngt, nle, neq, nlt, x, y)              \
    MASK(lt, (x) < (y))                                                                            \
    MASK(eq, (x) == (y))                                                                           \
    MASK(le, (x) <= (y))                                                                           \
    MASK(gt, (x) > (y))                                                                            \
    MASK(lg, (x) < (y) || (x) > (y))                                                               \
    MASK(ge, (x) >= (y))                                                                           \
    MASK(o, (x) == (x) && (y) == (y))                                                              \
    MASK(u, (x) != (x) || (y) != (y))                                                              \
    MASK(nge, !((x) >= (y)))                                                                       \
    MASK(nlg, !((x) < (y) || (x) > (y)))                                                           \
    MASK(ngt, !((x) > (y)))                                                                        \
    MASK(nle, !((x) <= (y)))                                                                       \
    MASK(neq, !((x) == (y)))                                                                       \
    MASK(nlt, !((x) < (y)))
MASK(never, 0)
MASK(always, 1)
FLOAT_MASKS(lt_f32, eq_f32, le_f32, gt_f32, lg_f32, ge_f32, o_f32, u_f32, nge_f32, nlg_f32, ngt_f32,
            nle_f32, neq_f32, nlt_f32, FA, FB)
FLOAT_MASKS(lt_f64, eq_f64, le_f64, gt_f64, lg_f64, ge_f64, o_f64, u_f64, nge_f64, nlg_f64, ngt_f64,
            nle_f64, neq_f64, nlt_f64, DA, DB)
FLOAT_MASKS(lt_f16, eq_f16, le_f16, gt_f16, lg_f16, ge_f16, o_f16, u_f16, nge_f16, nlg_f16, ngt_f16,
            nle_f16, neq_f16, nlt_f16, HA, HB)
/* bit of V_CMP_CLASS: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal,
 * +normal, +inf */
static inline uint32_t class_bit(int nan, int quiet, int inf, int zero, int normal, int negative)
{
    if (nan) return quiet ? 2 : 1;
    if (inf) return negative ? 4 : 512;
    if (zero) return negative ? 32 : 64;
    if (normal) return negative ? 8 : 256;
    return negative ? 16 : 128;
}
static inline uint32_t class32(uint32_t x)
{
    uint32_t m = x & 0x7fffffff;
    return class_bit(m > 0x7f800000, x >> 22 & 1, m == 0x7f800000, m == 0, m >= 0x800000, x >> 31);
}
static inline uint32_t class16(uint32_t x)
{
    uint32_t m = x & 0x7fff;
    return class_bit(m > 0x7c00, x >> 9 & 1, m == 0x7c00, m == 0, m >= 0x400, x >> 15 & 1);
}
static inline uint32_t class64(uint64_t x)
{
    uint64_t m = x & ~(1ull << 63), inf = 0x7ffull << 52;
    return class_bit(m > inf, x >> 51 & 1, m == inf, m == 0, m >= 1ull << 52, (int)(x >> 63));
}
MASK(class_f32, class32(A) & B)
MASK(class_f16, class16(A) & B)
MASK(class_f64, class64(QA) & B)

#define CMP(c, n, t, f) {ENC_VOPC, c, "v_cmp_" n, t, .mask = f}
#define CMP_ROWS(base, type, sig, lt, eq, le, gt, lg, ge, o, u, nge, nlg, ngt, nle, neq, nlt)      \
    CMP(base, "f_" type, sig, never), CMP(base + 1, "lt_" type, sig, lt),                          \
        CMP(base + 2, "eq_" type, sig, eq), CMP(base + 3, "le_" type, sig, le),                    \
        CMP(base + 4, "gt_" type, sig, gt), CMP(base + 5, "lg_" type, sig, lg),                    \
        CMP(base + 6, "ge_" type, sig, ge), CMP(base + 7, "o_" type, sig, o),                      \
        CMP(base + 8, "u_" type, sig, u), CMP(base + 9, "nge_" type, sig, nge),                    \
        CMP(base + 10, "nlg_" type, sig, nlg), CMP(base + 11, "ngt_" type, sig, ngt),              \
        CMP(base + 12, "nle_" type, sig, nle), CMP(base + 13, "neq_" type, sig, neq),              \
        CMP(base + 14, "nlt_" type, sig, nlt), CMP(base + 15, "tru_" type, sig, always)

const struct op LANE_TABLE[] = {
    {ENC_VOP2, 0x01, "v_add_f32", "fff", .lane = v_add_f32},
    {ENC_VOP2, 0x02, "v_sub_f32", "fff", .lane = v_sub_f32},
    {ENC_VOP2, 0x03, "v_subrev_f32", "fff", .lane = v_subrev_f32},
    {ENC_VOP2, 0x04, "v_mul_legacy_f32", "fff", .lane = v_mul_legacy_f32},
    {ENC_VOP2, 0x05, "v_mul_f32", "fff", .lane = v_mul_f32},
    {ENC_VOP2, 0x0a, "v_min_f32", "fff", .lane = v_min_f32},
    {ENC_VOP2, 0x0b, "v_max_f32", "fff", .lane = v_max_f32},
    {ENC_VOP2, 0x16, "v_mac_f32", "ffff", .lane = v_mad_f32},
    {ENC_VOP2, 0x17, "v_madmk_f32", "ffff", .lane = v_mad_f32},
    {ENC_VOP2, 0x18, "v_madak_f32", "ffff", .lane = v_mad_f32},
    {ENC_VOP2, 0x3b, "v_fmac_f32", "ffff", .lane = v_fma_f32},
    {ENC_VOP1, 0x05, "v_cvt_f32_i32", "fi", .lane = v_cvt_f32_i32},
    {ENC_VOP1, 0x06, "v_cvt_f32_u32", "fi", .lane = v_cvt_f32_u32},
    {ENC_VOP1, 0x07, "v_cvt_u32_f32", "if", .lane = v_cvt_u32_f32},
    {ENC_VOP1, 0x08, "v_cvt_i32_f32", "if", .lane = v_cvt_i32_f32},
    {ENC_VOP1, 0x0a, "v_cvt_f16_f32", "hf", .lane = v_cvt_f16_f32},
    {ENC_VOP1, 0x0b, "v_cvt_f32_f16", "fh", .lane = v_cvt_f32_f16},
    {ENC_VOP1, 0x0c, "v_cvt_rpi_i32_f32", "if", .lane = v_cvt_rpi_i32_f32},
    {ENC_VOP1, 0x0d, "v_cvt_flr_i32_f32", "if", .lane = v_cvt_flr_i32_f32},
    {ENC_VOP1, 0x0e, "v_cvt_off_f32_i4", "fi", .lane = v_cvt_off_f32_i4},
    {ENC_VOP1, 0x11, "v_cvt_f32_ubyte0", "fi", .lane = v_cvt_f32_ubyte0},
    {ENC_VOP1, 0x12, "v_cvt_f32_ubyte1", "fi", .lane = v_cvt_f32_ubyte1},
    {ENC_VOP1, 0x13, "v_cvt_f32_ubyte2", "fi", .lane = v_cvt_f32_ubyte2},
    {ENC_VOP1, 0x14, "v_cvt_f32_ubyte3", "fi", .lane = v_cvt_f32_ubyte3},
    {ENC_VOP1, 0x1b, "v_fract_f32", "ff", .lane = v_fract_f32},
    {ENC_VOP1, 0x1c, "v_trunc_f32", "ff", .lane = v_trunc_f32},
    {ENC_VOP1, 0x1d, "v_ceil_f32", "ff", .lane = v_ceil_f32},
    {ENC_VOP1, 0x1e, "v_rndne_f32", "ff", .lane = v_rndne_f32},
    {ENC_VOP1, 0x1f, "v_floor_f32", "ff", .lane = v_floor_f32},
    {ENC_VOP1, 0x20, "v_exp_f32", "ff", .lane = v_exp_f32},
    {ENC_VOP1, 0x21, "v_log_f32", "ff", .lane = v_log_f32},
    {ENC_VOP1, 0x22, "v_rcp_f32", "ff", .lane = v_rcp_f32},
    {ENC_VOP1, 0x24, "v_rsq_f32", "ff", .lane = v_rsq_f32},
    {ENC_VOP1, 0x27, "v_sqrt_f32", "ff", .lane = v_sqrt_f32},
    {ENC_VOP1, 0x29, "v_sin_f32", "ff", .lane = v_sin_f32},
    {ENC_VOP1, 0x2a, "v_cos_f32", "ff", .lane = v_cos_f32},
    {ENC_VOP1, 0x33, "v_frexp_exp_i32_f32", "if", .lane = v_frexp_exp_i32_f32},
    {ENC_VOP1, 0x34, "v_frexp_mant_f32", "ff", .lane = v_frexp_mant_f32},
    {ENC_VOP1, 0x03, "v_cvt_i32_f64", "id", .lane = v_cvt_i32_f64},
    {ENC_VOP1, 0x04, "v_cvt_f64_i32", "di", .lane = v_cvt_f64_i32},
    {ENC_VOP1, 0x0f, "v_cvt_f32_f64", "fd", .lane = v_cvt_f32_f64},
    {ENC_VOP1, 0x10, "v_cvt_f64_f32", "df", .lane = v_cvt_f64_f32},
    {ENC_VOP1, 0x15, "v_cvt_u32_f64", "id", .lane = v_cvt_u32_f64},
    {ENC_VOP1, 0x16, "v_cvt_f64_u32", "di", .lane = v_cvt_f64_u32},
    {ENC_VOP1, 0x17, "v_trunc_f64", "dd", .lane = v_trunc_f64},
    {ENC_VOP1, 0x18, "v_ceil_f64", "dd", .lane = v_ceil_f64},
    {ENC_VOP1, 0x19, "v_rndne_f64", "dd", .lane = v_rndne_f64},
    {ENC_VOP1, 0x1a, "v_floor_f64", "dd", .lane = v_floor_f64},
    {ENC_VOP1, 0x25, "v_rcp_f64", "dd", .lane = v_rcp_f64},
    {ENC_VOP1, 0x26, "v_rsq_f64", "dd", .lane = v_rsq_f64},
    {ENC_VOP1, 0x28, "v_sqrt_f64", "dd", .lane = v_sqrt_f64},
    {ENC_VOP1, 0x30, "v_frexp_exp_i32_f64", "id", .lane = v_frexp_exp_i32_f64},
    {ENC_VOP1, 0x31, "v_frexp_mant_f64", "dd", .lane = v_frexp_mant_f64},
    {ENC_VOP1, 0x32, "v_fract_f64", "dd", .lane = v_fract_f64},
    {ENC_VOP1, 0x23, "v_rcp_iflag_f32", "ff", .lane = v_rcp_f32},
    {ENC_VOP1, 0x4b, "v_exp_legacy_f32", "ff", .lane = v_exp_f32},
    {ENC_VOP1, 0x4c, "v_log_legacy_f32", "ff", .lane = v_log_f32},
    {ENC_VOP3, 0x1c0, "v_mad_legacy_f32", "ffff", .lane = v_mad_legacy_f32},
    {ENC_VOP3, 0x1c1, "v_mad_f32", "ffff", .lane = v_mad_f32},
    {ENC_VOP3, 0x1cb, "v_fma_f32", "ffff", .lane = v_fma_f32},
    {ENC_VOP3, 0x1d0, "v_min3_f32", "ffff", .lane = v_min3_f32},
    {ENC_VOP3, 0x1d3, "v_max3_f32", "ffff", .lane = v_max3_f32},
    {ENC_VOP3, 0x1d6, "v_med3_f32", "ffff", .lane = v_med3_f32},
    {ENC_VOP3, 0x1dd, "v_cvt_pk_u8_f32", "ifii", .lane = v_cvt_pk_u8_f32},
    {ENC_VOP3, 0x1de, "v_div_fixup_f32", "ffff", .lane = v_div_fixup_f32},
    {ENC_VOP3, 0x1df, "v_div_fixup_f64", "dddd", .lane = v_div_fixup_f64},
    {ENC_VOP3, 0x288, "v_ldexp_f32", "ffi", .lane = v_ldexp_f32},
    {ENC_VOP3, 0x294, "v_cvt_pknorm_i16_f32", "iff", .lane = v_cvt_pknorm_i16_f32},
    {ENC_VOP3, 0x295, "v_cvt_pknorm_u16_f32", "iff", .lane = v_cvt_pknorm_u16_f32},
    {ENC_VOP3, 0x296, "v_cvt_pkrtz_f16_f32", "iff", .lane = v_cvt_pkrtz_f16_f32},
    {ENC_VOP3, 0x1cc, "v_fma_f64", "dddd", .lane = v_fma_f64},
    {ENC_VOP3, 0x280, "v_add_f64", "ddd", .lane = v_add_f64},
    {ENC_VOP3, 0x281, "v_mul_f64", "ddd", .lane = v_mul_f64},
    {ENC_VOP3, 0x282, "v_min_f64", "ddd", .lane = v_min_f64},
    {ENC_VOP3, 0x283, "v_max_f64", "ddd", .lane = v_max_f64},
    {ENC_VOP3, 0x284, "v_ldexp_f64", "ddi", .lane = v_ldexp_f64},
    CMP_ROWS(0x40, "f32", "sff", lt_f32, eq_f32, le_f32, gt_f32, lg_f32, ge_f32, o_f32, u_f32,
             nge_f32, nlg_f32, ngt_f32, nle_f32, neq_f32, nlt_f32),
    CMP_ROWS(0x60, "f64", "sdd", lt_f64, eq_f64, le_f64, gt_f64, lg_f64, ge_f64, o_f64, u_f64,
             nge_f64, nlg_f64, ngt_f64, nle_f64, neq_f64, nlt_f64),
    CMP_ROWS(0x20, "f16", "shh", lt_f16, eq_f16, le_f16, gt_f16, lg_f16, ge_f16, o_f16, u_f16,
             nge_f16, nlg_f16, ngt_f16, nle_f16, neq_f16, nlt_f16),
    CMP(0x10, "class_f32", "sfi", class_f32),
    CMP(0x12, "class_f64", "sdi", class_f64),
    CMP(0x14, "class_f16", "shi", class_f16),
    {0},
};
