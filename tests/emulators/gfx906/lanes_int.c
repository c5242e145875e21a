/* lanes_int.c: vector operations on integers and bits, 16, 32 and 64 bits wide. */
#include "lanes.h"

#include <stdlib.h>

LANE(v_mov_b32, A)
LANE(v_not_b32, ~A)
LANE(v_and_b32, A &B)
LANE(v_or_b32, A | B)
LANE(v_xor_b32, A ^ B)
LANE(v_xnor_b32, ~(A ^ B))
LANE(v_lshlrev_b32, B << (A & 31))
LANE(v_lshrrev_b32, B >> (A & 31))
LANE(v_ashrrev_i32, SB >> (A & 31))
LANE(v_add_u32, A + B)
LANE(v_sub_u32, A - B)
LANE(v_subrev_u32, B - A)
LANE(v_add_u32_clamp, A + B < A ? ~0u : A + B)
LANE(v_sub_u32_clamp, A < B ? 0 : A - B)
LANE(v_subrev_u32_clamp, B < A ? 0 : B - A)
LANE(v_mul_lo_u32, A *B)
LANE(v_mul_hi_u32, (uint64_t)A *B >> 32)
LANE(v_mul_hi_i32, (int64_t)SA *SB >> 32)
LANE(v_mul_u32_u24, (A & 0xffffff) * (B & 0xffffff))
LANE(v_mul_hi_u32_u24, (uint64_t)(A & 0xffffff) * (B & 0xffffff) >> 32)
LANE(v_mul_i32_i24, (uint32_t)sext(A, 24) * (uint32_t)sext(B, 24))
LANE(v_mul_hi_i32_i24, (int64_t)sext(A, 24) * sext(B, 24) >> 32)
LANE(v_mad_u32_u24, (A & 0xffffff) * (B & 0xffffff) + C)
LANE(v_mad_i32_i24, (uint32_t)sext(A, 24) * (uint32_t)sext(B, 24) + C)
LANE(v_mad_u32_u16, (A & 0xffff) * (B & 0xffff) + C)
LANE(v_mad_i32_i16, (uint32_t)(sext(A, 16) * sext(B, 16)) + C)
LANE(v_lshl_add_u32, (A << (B & 31)) + C)
LANE(v_add_lshl_u32, (A + B) << (C & 31))
LANE(v_add3_u32, A + B + C)
LANE(v_lshl_or_b32, A << (B & 31) | C)
LANE(v_and_or_b32, (A & B) | C)
LANE(v_or3_b32, A | B | C)
LANE(v_xad_u32, (A ^ B) + C)
LANE(v_bfi_b32, (A & B) | (~A & C))
LANE(v_bfe_u32, A >> (B & 31) & ((1u << (C & 31)) - 1))
LANE(v_bfe_i32, (C & 31) == 0 ? 0
                : (B & 31) + (C & 31) >= 32
                    ? SA >> (B & 31)
                    : (int32_t)(A << (32 - (B & 31) - (C & 31))) >> (32 - (C & 31)))
LANE(v_bfm_b32, ((1u << (A & 31)) - 1) << (B & 31))
LANE(v_alignbit_b32, ((uint64_t)A << 32 | B) >> (C & 31))
LANE(v_alignbyte_b32, ((uint64_t)A << 32 | B) >> (8 * (C & 3)))
LANE(v_max_i32, SA > SB ? SA : SB)
LANE(v_min_i32, SA < SB ? SA : SB)
LANE(v_max_u32, A > B ? A : B)
LANE(v_min_u32, A < B ? A : B)
static inline uint32_t med_u(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t lo = x < y ? x : y, hi = x < y ? y : x;
    return z < lo ? lo : z > hi ? hi : z;
}
static inline int32_t med_i(int32_t x, int32_t y, int32_t z)
{
    int32_t lo = x < y ? x : y, hi = x < y ? y : x;
    return z < lo ? lo : z > hi ? hi : z;
}
static inline int32_t min_i(int32_t x, int32_t y) { return x < y ? x : y; }
static inline int32_t max_i(int32_t x, int32_t y) { return x > y ? x : y; }
static inline uint32_t min_u(uint32_t x, uint32_t y) { return x < y ? x : y; }
static inline uint32_t max_u(uint32_t x, uint32_t y) { return x > y ? x : y; }
LANE(v_max3_i32, max_i(max_i(SA, SB), SC))
LANE(v_min3_i32, min_i(min_i(SA, SB), SC))
LANE(v_max3_u32, max_u(max_u(A, B), C))
LANE(v_min3_u32, min_u(min_u(A, B), C))
LANE(v_med3_i32, med_i(SA, SB, SC))
LANE(v_med3_u32, med_u(A, B, C))

/* bytes 0..3 of B, 4..7 of A, sign of a 16-bit half (8..11), 0 (12), 255 (13 and up) */
static inline uint32_t perm_byte(uint32_t hi, uint32_t lo, uint32_t s)
{
    uint64_t x = (uint64_t)hi << 32 | lo;
    if (s < 8) return x >> (8 * s) & 255;
    if (s < 12) return x >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
    return s == 12 ? 0 : 255;
}
LANE(v_perm_b32, perm_byte(A, B, C & 255) | perm_byte(A, B, C >> 8 & 255) << 8 |
                     perm_byte(A, B, C >> 16 & 255) << 16 | perm_byte(A, B, C >> 24) << 24)
static inline uint32_t reverse(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
LANE(v_bfrev_b32, reverse(A))
LANE(v_ffbh_u32, A ? __builtin_clz(A) : -1)
LANE(v_ffbl_b32, A ? __builtin_ctz(A) : -1)
LANE(v_ffbh_i32, SA == 0 || SA == -1 ? -1 : __builtin_clz((uint32_t)(SA ^ SA >> 31)))
LANE(v_bcnt_u32_b32, (uint32_t)__builtin_popcount(A) + B)
LANE(v_mbcnt_lo, (uint32_t)__builtin_popcount(A &(l < 32 ? (1u << l) - 1 : ~0u)) + B)
LANE(v_mbcnt_hi, (uint32_t)__builtin_popcount(A &(l > 32 ? (1u << (l - 32)) - 1 : 0)) + B)
LANE(v_sad_u32, (A > B ? A - B : B - A) + C)
static inline uint32_t sad8(uint32_t x, uint32_t y)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 8) r += (uint32_t)abs((int)(x >> k & 255) - (int)(y >> k & 255));
    return r;
}
LANE(v_sad_u8, sad8(A, B) + C)
LANE(v_sad_u16, (uint32_t)abs((int)(A & 0xffff) - (int)(B & 0xffff)) +
                    (uint32_t)abs((int)(A >> 16) - (int)(B >> 16)) + C)
LANE(v_cvt_pk_u16_u32, min_u(A, 0xffff) | min_u(B, 0xffff) << 16)
LANE(v_cvt_pk_i16_i32, ((uint32_t)max_i(min_i(SA, 32767), -32768) & 0xffff) |
                           (uint32_t)max_i(min_i(SB, 32767), -32768) << 16)
LANE(v_sat_pk_u8_i16,
     (uint32_t)max_i(min_i(sext(A, 16), 255), 0) | (uint32_t)max_i(min_i(SA >> 16, 255), 0) << 8)

/* 16 bits; the tables' type w or W takes the low half of a source and of the result */
LANE(v_add_u16, (A + B) & 0xffff)
LANE(v_sub_u16, (A - B) & 0xffff)
LANE(v_subrev_u16, (B - A) & 0xffff)
LANE(v_mul_lo_u16, ((A & 0xffff) * (B & 0xffff)) & 0xffff)
LANE(v_mad_u16, ((A & 0xffff) * (B & 0xffff) + C) & 0xffff)
LANE(v_lshlrev_b16, B << (A & 15) & 0xffff)
LANE(v_lshrrev_b16, (B & 0xffff) >> (A & 15))
LANE(v_ashrrev_i16, (sext(B, 16) >> (A & 15)) & 0xffff)
LANE(v_max_u16, max_u(A & 0xffff, B & 0xffff))
LANE(v_min_u16, min_u(A & 0xffff, B & 0xffff))
LANE(v_max_i16, max_i(sext(A, 16), sext(B, 16)) & 0xffff)
LANE(v_min_i16, min_i(sext(A, 16), sext(B, 16)) & 0xffff)
LANE(v_max3_u16, max_u(max_u(A & 0xffff, B & 0xffff), C & 0xffff))
LANE(v_min3_u16, min_u(min_u(A & 0xffff, B & 0xffff), C & 0xffff))
LANE(v_max3_i16, max_i(max_i(sext(A, 16), sext(B, 16)), sext(C, 16)) & 0xffff)
LANE(v_min3_i16, min_i(min_i(sext(A, 16), sext(B, 16)), sext(C, 16)) & 0xffff)
LANE(v_med3_i16, med_i(sext(A, 16), sext(B, 16), sext(C, 16)) & 0xffff)
LANE(v_med3_u16, med_u(A & 0xffff, B & 0xffff, C & 0xffff))

/* packed 16 bits */
#define BOTH(lo, hi) (((uint32_t)(lo) & 0xffff) | (uint32_t)(hi) << 16)
#define SLO(x) sext(x, 16)
#define SHI(x) ((int32_t)(x) >> 16)
#define ULO(x) ((x) & 0xffff)
#define UHI(x) ((x) >> 16)
LANE(v_pk_mad_16, BOTH(A *B + C, UHI(A) * UHI(B) + UHI(C)))
LANE(v_pk_mul_lo_u16, BOTH(A *B, UHI(A) * UHI(B)))
LANE(v_pk_add_16, BOTH(A + B, UHI(A) + UHI(B)))
LANE(v_pk_sub_16, BOTH(A - B, UHI(A) - UHI(B)))
LANE(v_pk_lshlrev_b16, BOTH(B << (A & 15), UHI(B) << (UHI(A) & 15)))
LANE(v_pk_lshrrev_b16, BOTH(ULO(B) >> (A & 15), UHI(B) >> (UHI(A) & 15)))
LANE(v_pk_ashrrev_i16, BOTH(SLO(B) >> (A & 15), SHI(B) >> (UHI(A) & 15)))
LANE(v_pk_max_i16, BOTH(max_i(SLO(A), SLO(B)), max_i(SHI(A), SHI(B))))
LANE(v_pk_min_i16, BOTH(min_i(SLO(A), SLO(B)), min_i(SHI(A), SHI(B))))
LANE(v_pk_max_u16, BOTH(max_u(ULO(A), ULO(B)), max_u(UHI(A), UHI(B))))
LANE(v_pk_min_u16, BOTH(min_u(ULO(A), ULO(B)), min_u(UHI(A), UHI(B))))
/* dot products; the sum wraps (clamp is refused by the decoder) */
LANE(v_dot2_i32_i16, (uint32_t)(SLO(A) * SLO(B)) + (uint32_t)(SHI(A) * SHI(B)) + C)
LANE(v_dot2_u32_u16, ULO(A) * ULO(B) + UHI(A) * UHI(B) + C)
static inline uint32_t dot4_i(uint32_t x, uint32_t y)
{
    return (uint32_t)(sext(x, 8) * sext(y, 8) + sext(x >> 8, 8) * sext(y >> 8, 8) +
                      sext(x >> 16, 8) * sext(y >> 16, 8) +
                      ((int32_t)x >> 24) * ((int32_t)y >> 24));
}
static inline uint32_t dot4_u(uint32_t x, uint32_t y)
{
    return (x & 255) * (y & 255) + (x >> 8 & 255) * (y >> 8 & 255) +
           (x >> 16 & 255) * (y >> 16 & 255) + (x >> 24) * (y >> 24);
}
static inline uint32_t dot8_i(uint32_t x, uint32_t y)
{
    int32_t r = 0;
    for (int k = 0; k < 32; k += 4) r += sext(x >> k, 4) * sext(y >> k, 4);
    return (uint32_t)r;
}
static inline uint32_t dot8_u(uint32_t x, uint32_t y)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 4) r += (x >> k & 15) * (y >> k & 15);
    return r;
}
LANE(v_dot4_i32_i8, dot4_i(A, B) + C)
LANE(v_dot4_u32_u8, dot4_u(A, B) + C)
LANE(v_dot8_i32_i4, dot8_i(A, B) + C)
LANE(v_dot8_u32_u4, dot8_u(A, B) + C)

/* 64 bits */
LANE64(v_lshlrev_b64, QB << (A & 63))
LANE64(v_lshrrev_b64, QB >> (A & 63))
LANE64(v_ashrrev_i64, (int64_t)QB >> (A & 63))

/* comparisons */
MASK(cmp_never, 0)
MASK(cmp_always, 1)
#define COMPARE6(lt, eq, le, gt, ne, ge, x, y)                                                     \
    MASK(lt, (x) < (y))                                                                            \
    MASK(eq, (x) == (y))                                                                           \
    MASK(le, (x) <= (y)) MASK(gt, (x) > (y)) MASK(ne, (x) != (y)) MASK(ge, (x) >= (y))
COMPARE6(lt_i32, eq_i32, le_i32, gt_i32, ne_i32, ge_i32, SA, SB)
COMPARE6(lt_u32, eq_u32, le_u32, gt_u32, ne_u32, ge_u32, A, B)
COMPARE6(lt_i16, eq_i16, le_i16, gt_i16, ne_i16, ge_i16, SLO(A), SLO(B))
COMPARE6(lt_u16, eq_u16, le_u16, gt_u16, ne_u16, ge_u16, ULO(A), ULO(B))
COMPARE6(lt_i64, eq_i64, le_i64, gt_i64, ne_i64, ge_i64, (int64_t)QA, (int64_t)QB)
COMPARE6(lt_u64, eq_u64, le_u64, gt_u64, ne_u64, ge_u64, QA, QB)

#define CMP(c, n, t, f) {ENC_VOPC, c, "v_cmp_" n, t, .mask = f}
/* six comparisons of one type; the decoder finds v_cmpx 16 codes higher */
#define CMP_ROWS(base, type, sig, lt, eq, le, gt, ne, ge)                                          \
    CMP(base, "f_" type, sig, cmp_never), CMP(base + 1, "lt_" type, sig, lt),                      \
        CMP(base + 2, "eq_" type, sig, eq), CMP(base + 3, "le_" type, sig, le),                    \
        CMP(base + 4, "gt_" type, sig, gt), CMP(base + 5, "ne_" type, sig, ne),                    \
        CMP(base + 6, "ge_" type, sig, ge), CMP(base + 7, "t_" type, sig, cmp_always)

const struct op LANE_TABLE[] = {
    {ENC_VOP1, 0x01, "v_mov_b32", "ii", .lane = v_mov_b32},
    {ENC_VOP1, 0x2b, "v_not_b32", "ii", .lane = v_not_b32},
    {ENC_VOP1, 0x2c, "v_bfrev_b32", "ii", .lane = v_bfrev_b32},
    {ENC_VOP1, 0x2d, "v_ffbh_u32", "ii", .lane = v_ffbh_u32},
    {ENC_VOP1, 0x2e, "v_ffbl_b32", "ii", .lane = v_ffbl_b32},
    {ENC_VOP1, 0x2f, "v_ffbh_i32", "ii", .lane = v_ffbh_i32},
    {ENC_VOP1, 0x4f, "v_sat_pk_u8_i16", "ii", .lane = v_sat_pk_u8_i16},
    {ENC_VOP2, 0x06, "v_mul_i32_i24", "iii", .lane = v_mul_i32_i24},
    {ENC_VOP2, 0x07, "v_mul_hi_i32_i24", "iii", .lane = v_mul_hi_i32_i24},
    {ENC_VOP2, 0x08, "v_mul_u32_u24", "iii", .lane = v_mul_u32_u24},
    {ENC_VOP2, 0x09, "v_mul_hi_u32_u24", "iii", .lane = v_mul_hi_u32_u24},
    {ENC_VOP2, 0x0c, "v_min_i32", "iii", .lane = v_min_i32},
    {ENC_VOP2, 0x0d, "v_max_i32", "iii", .lane = v_max_i32},
    {ENC_VOP2, 0x0e, "v_min_u32", "iii", .lane = v_min_u32},
    {ENC_VOP2, 0x0f, "v_max_u32", "iii", .lane = v_max_u32},
    {ENC_VOP2, 0x10, "v_lshrrev_b32", "iii", .lane = v_lshrrev_b32},
    {ENC_VOP2, 0x11, "v_ashrrev_i32", "iii", .lane = v_ashrrev_i32},
    {ENC_VOP2, 0x12, "v_lshlrev_b32", "iii", .lane = v_lshlrev_b32},
    {ENC_VOP2, 0x13, "v_and_b32", "iii", .lane = v_and_b32},
    {ENC_VOP2, 0x14, "v_or_b32", "iii", .lane = v_or_b32},
    {ENC_VOP2, 0x15, "v_xor_b32", "iii", .lane = v_xor_b32},
    {ENC_VOP2, 0x34, "v_add_u32", "iii", .lane = v_add_u32},
    {ENC_VOP2, 0x35, "v_sub_u32", "iii", .lane = v_sub_u32},
    {ENC_VOP2, 0x36, "v_subrev_u32", "iii", .lane = v_subrev_u32},
    {ENC_VOP2, 0x3d, "v_xnor_b32", "iii", .lane = v_xnor_b32},
    {ENC_VOP2, 0x26, "v_add_u16", "www", .lane = v_add_u16},
    {ENC_VOP2, 0x27, "v_sub_u16", "www", .lane = v_sub_u16},
    {ENC_VOP2, 0x28, "v_subrev_u16", "www", .lane = v_subrev_u16},
    {ENC_VOP2, 0x29, "v_mul_lo_u16", "www", .lane = v_mul_lo_u16},
    {ENC_VOP2, 0x2a, "v_lshlrev_b16", "www", .lane = v_lshlrev_b16},
    {ENC_VOP2, 0x2b, "v_lshrrev_b16", "www", .lane = v_lshrrev_b16},
    {ENC_VOP2, 0x2c, "v_ashrrev_i16", "www", .lane = v_ashrrev_i16},
    {ENC_VOP2, 0x2f, "v_max_u16", "www", .lane = v_max_u16},
    {ENC_VOP2, 0x30, "v_max_i16", "www", .lane = v_max_i16},
    {ENC_VOP2, 0x31, "v_min_u16", "www", .lane = v_min_u16},
    {ENC_VOP2, 0x32, "v_min_i16", "www", .lane = v_min_i16},
    {ENC_VOP3, 0x1c2, "v_mad_i32_i24", "iiii", .lane = v_mad_i32_i24},
    {ENC_VOP3, 0x1c3, "v_mad_u32_u24", "iiii", .lane = v_mad_u32_u24},
    {ENC_VOP3, 0x1c8, "v_bfe_u32", "iiii", .lane = v_bfe_u32},
    {ENC_VOP3, 0x1c9, "v_bfe_i32", "iiii", .lane = v_bfe_i32},
    {ENC_VOP3, 0x1ca, "v_bfi_b32", "iiii", .lane = v_bfi_b32},
    {ENC_VOP3, 0x1ce, "v_alignbit_b32", "iiii", .lane = v_alignbit_b32},
    {ENC_VOP3, 0x1cf, "v_alignbyte_b32", "iiii", .lane = v_alignbyte_b32},
    {ENC_VOP3, 0x1d1, "v_min3_i32", "iiii", .lane = v_min3_i32},
    {ENC_VOP3, 0x1d2, "v_min3_u32", "iiii", .lane = v_min3_u32},
    {ENC_VOP3, 0x1d4, "v_max3_i32", "iiii", .lane = v_max3_i32},
    {ENC_VOP3, 0x1d5, "v_max3_u32", "iiii", .lane = v_max3_u32},
    {ENC_VOP3, 0x1d7, "v_med3_i32", "iiii", .lane = v_med3_i32},
    {ENC_VOP3, 0x1d8, "v_med3_u32", "iiii", .lane = v_med3_u32},
    {ENC_VOP3, 0x1d9, "v_sad_u8", "iiii", .lane = v_sad_u8},
    {ENC_VOP3, 0x1db, "v_sad_u16", "iiii", .lane = v_sad_u16},
    {ENC_VOP3, 0x1dc, "v_sad_u32", "iiii", .lane = v_sad_u32},
    {ENC_VOP3, 0x1ed, "v_perm_b32", "iiii", .lane = v_perm_b32},
    {ENC_VOP3, 0x1f1, "v_mad_u32_u16", "iwwi", .lane = v_mad_u32_u16},
    {ENC_VOP3, 0x1f2, "v_mad_i32_i16", "iwwi", .lane = v_mad_i32_i16},
    {ENC_VOP3, 0x1f3, "v_xad_u32", "iiii", .lane = v_xad_u32},
    {ENC_VOP3, 0x1f5, "v_min3_i16", "Wwww", .lane = v_min3_i16},
    {ENC_VOP3, 0x1f6, "v_min3_u16", "Wwww", .lane = v_min3_u16},
    {ENC_VOP3, 0x1f8, "v_max3_i16", "Wwww", .lane = v_max3_i16},
    {ENC_VOP3, 0x1f9, "v_max3_u16", "Wwww", .lane = v_max3_u16},
    {ENC_VOP3, 0x1fb, "v_med3_i16", "Wwww", .lane = v_med3_i16},
    {ENC_VOP3, 0x1fc, "v_med3_u16", "Wwww", .lane = v_med3_u16},
    {ENC_VOP3, 0x1fd, "v_lshl_add_u32", "iiii", .lane = v_lshl_add_u32},
    {ENC_VOP3, 0x1fe, "v_add_lshl_u32", "iiii", .lane = v_add_lshl_u32},
    {ENC_VOP3, 0x1ff, "v_add3_u32", "iiii", .lane = v_add3_u32},
    {ENC_VOP3, 0x200, "v_lshl_or_b32", "iiii", .lane = v_lshl_or_b32},
    {ENC_VOP3, 0x201, "v_and_or_b32", "iiii", .lane = v_and_or_b32},
    {ENC_VOP3, 0x202, "v_or3_b32", "iiii", .lane = v_or3_b32},
    {ENC_VOP3, 0x1eb, "v_mad_legacy_u16", "wwww", .lane = v_mad_u16},
    {ENC_VOP3, 0x1ec, "v_mad_legacy_i16", "wwww", .lane = v_mad_u16},
    {ENC_VOP3, 0x204, "v_mad_u16", "Wwww", .lane = v_mad_u16},
    {ENC_VOP3, 0x205, "v_mad_i16", "Wwww", .lane = v_mad_u16},
    {ENC_VOP3, 0x285, "v_mul_lo_u32", "iii", .lane = v_mul_lo_u32},
    {ENC_VOP3, 0x286, "v_mul_hi_u32", "iii", .lane = v_mul_hi_u32},
    {ENC_VOP3, 0x287, "v_mul_hi_i32", "iii", .lane = v_mul_hi_i32},
    {ENC_VOP3, 0x28b, "v_bcnt_u32_b32", "iii", .lane = v_bcnt_u32_b32},
    {ENC_VOP3, 0x28c, "v_mbcnt_lo_u32_b32", "iii", .lane = v_mbcnt_lo},
    {ENC_VOP3, 0x28d, "v_mbcnt_hi_u32_b32", "iii", .lane = v_mbcnt_hi},
    {ENC_VOP3, 0x28f, "v_lshlrev_b64", "qiq", .lane = v_lshlrev_b64},
    {ENC_VOP3, 0x290, "v_lshrrev_b64", "qiq", .lane = v_lshrrev_b64},
    {ENC_VOP3, 0x291, "v_ashrrev_i64", "qiq", .lane = v_ashrrev_i64},
    {ENC_VOP3, 0x293, "v_bfm_b32", "iii", .lane = v_bfm_b32},
    {ENC_VOP3, 0x297, "v_cvt_pk_u16_u32", "iii", .lane = v_cvt_pk_u16_u32},
    {ENC_VOP3, 0x298, "v_cvt_pk_i16_i32", "iii", .lane = v_cvt_pk_i16_i32},
    /* those with the bit for it, at codes that nothing has (decode.c) */
    {ENC_VOP3, CODE_CLAMPED + 0, "v_add_u32 clamp", "iii", .lane = v_add_u32_clamp},
    {ENC_VOP3, CODE_CLAMPED + 1, "v_sub_u32 clamp", "iii", .lane = v_sub_u32_clamp},
    {ENC_VOP3, CODE_CLAMPED + 2, "v_subrev_u32 clamp", "iii", .lane = v_subrev_u32_clamp},
    {ENC_VOP3, 0x29c, "v_add_i32", "iii", .lane = v_add_u32},
    {ENC_VOP3, 0x29d, "v_sub_i32", "iii", .lane = v_sub_u32},
    {ENC_VOP3, 0x29e, "v_add_i16", "Www", .lane = v_add_u16},
    {ENC_VOP3, 0x29f, "v_sub_i16", "Www", .lane = v_sub_u16},
    {ENC_VOP3P, 0x00, "v_pk_mad_i16", "pppp", .lane = v_pk_mad_16},
    {ENC_VOP3P, 0x01, "v_pk_mul_lo_u16", "ppp", .lane = v_pk_mul_lo_u16},
    {ENC_VOP3P, 0x02, "v_pk_add_i16", "ppp", .lane = v_pk_add_16},
    {ENC_VOP3P, 0x03, "v_pk_sub_i16", "ppp", .lane = v_pk_sub_16},
    {ENC_VOP3P, 0x04, "v_pk_lshlrev_b16", "ppp", .lane = v_pk_lshlrev_b16},
    {ENC_VOP3P, 0x05, "v_pk_lshrrev_b16", "ppp", .lane = v_pk_lshrrev_b16},
    {ENC_VOP3P, 0x06, "v_pk_ashrrev_i16", "ppp", .lane = v_pk_ashrrev_i16},
    {ENC_VOP3P, 0x07, "v_pk_max_i16", "ppp", .lane = v_pk_max_i16},
    {ENC_VOP3P, 0x08, "v_pk_min_i16", "ppp", .lane = v_pk_min_i16},
    {ENC_VOP3P, 0x09, "v_pk_mad_u16", "pppp", .lane = v_pk_mad_16},
    {ENC_VOP3P, 0x0a, "v_pk_add_u16", "ppp", .lane = v_pk_add_16},
    {ENC_VOP3P, 0x0b, "v_pk_sub_u16", "ppp", .lane = v_pk_sub_16},
    {ENC_VOP3P, 0x0c, "v_pk_max_u16", "ppp", .lane = v_pk_max_u16},
    {ENC_VOP3P, 0x0d, "v_pk_min_u16", "ppp", .lane = v_pk_min_u16},
    {ENC_VOP3P, 0x26, "v_dot2_i32_i16", "ippi", .lane = v_dot2_i32_i16},
    {ENC_VOP3P, 0x27, "v_dot2_u32_u16", "ippi", .lane = v_dot2_u32_u16},
    {ENC_VOP3P, 0x28, "v_dot4_i32_i8", "iiii", .lane = v_dot4_i32_i8},
    {ENC_VOP3P, 0x29, "v_dot4_u32_u8", "iiii", .lane = v_dot4_u32_u8},
    {ENC_VOP3P, 0x2a, "v_dot8_i32_i4", "iiii", .lane = v_dot8_i32_i4},
    {ENC_VOP3P, 0x2b, "v_dot8_u32_u4", "iiii", .lane = v_dot8_u32_u4},
    CMP_ROWS(0xa0, "i16", "sww", lt_i16, eq_i16, le_i16, gt_i16, ne_i16, ge_i16),
    CMP_ROWS(0xa8, "u16", "sww", lt_u16, eq_u16, le_u16, gt_u16, ne_u16, ge_u16),
    CMP_ROWS(0xc0, "i32", "sii", lt_i32, eq_i32, le_i32, gt_i32, ne_i32, ge_i32),
    CMP_ROWS(0xc8, "u32", "sii", lt_u32, eq_u32, le_u32, gt_u32, ne_u32, ge_u32),
    CMP_ROWS(0xe0, "i64", "sqq", lt_i64, eq_i64, le_i64, gt_i64, ne_i64, ge_i64),
    CMP_ROWS(0xe8, "u64", "sqq", lt_u64, eq_u64, le_u64, gt_u64, ne_u64, ge_u64),
    {0},
};
