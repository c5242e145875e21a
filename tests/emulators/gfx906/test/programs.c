/* Small programs: memory of all widths, lanes among each other, LDS, atomics, loops, blocks of
 * several dimensions. Each reads IN and writes OUT; a function says what OUT must be. */
#include "tests/emulators/gfx906/test/harness.h"

#include <string.h>

enum { IN_WORDS = 4096, OUT_WORDS = 4096 };
static uint32_t in[IN_WORDS], out[OUT_WORDS], want[OUT_WORDS];

/* s[4:5] IN, s[6:7] OUT, v0 lane, v1 = 4 * lane, v2 = IN[lane] */
static const struct line start[] = {
    TWO("s_load_dwordx4 s[4:7], s[0:1], 0x0", 0xc00a0100, 0x00000000),
    ONE("v_lshlrev_b32_e32 v1, 2, v0", 0x24020082),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_load_dword v2, v1, s[4:5]", 0xdc508000, 0x02040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
};
/* OUT[lane] = v8 */
static const struct line finish[] = {
    TWO("global_store_dword v1, v8, s[6:7]", 0xdc708000, 0x00060801),
    ONE("s_endpgm", 0xbf810000),
};

/* --- lanes */
static const struct line quad_perm[] = {
    ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf", 0x7e1002fa,
        0xff004e02)};
static void want_quad_perm(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 2];
}
static const struct line row_shr[] = {
    ONE("v_mov_b32_e32 v8, 7", 0x7e100287), ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_shr:3 row_mask:0xf bank_mask:0xf", 0x7e1002fa, 0xff011302)};
static void want_row_shr(void)
{
    for (int l = 0; l < 64; l++) want[l] = l % 16 < 3 ? 7 : in[l - 3];
}
static const struct line row_shl[] = {
    ONE("v_mov_b32_e32 v8, 7", 0x7e100287), ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_shl:1 row_mask:0xf bank_mask:0xf bound_ctrl:0", 0x7e1002fa,
        0xff090102)};
static void want_row_shl(void)
{
    for (int l = 0; l < 64; l++) want[l] = l % 16 == 15 ? 0 : in[l + 1];
}
static const struct line row_ror[] = {
    ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_ror:5 row_mask:0xf bank_mask:0xf", 0x7e1002fa, 0xff012502)};
static void want_row_ror(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[(l & 48) | ((l - 5) & 15)];
}
static const struct line mirror[] = {
    ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_mirror row_mask:0xf bank_mask:0xf", 0x7e1002fa, 0xff014002)};
static void want_mirror(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 15];
}
static const struct line half_mirror[] = {
    ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_half_mirror row_mask:0xf bank_mask:0xf", 0x7e1002fa, 0xff014102)};
static void want_half_mirror(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 7];
}
static const struct line wave_shr[] = {
    ONE("v_mov_b32_e32 v8, 7", 0x7e100287), ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 wave_shr:1 row_mask:0xf bank_mask:0xf", 0x7e1002fa, 0xff013802)};
static void want_wave_shr(void)
{
    for (int l = 0; l < 64; l++) want[l] = l ? in[l - 1] : 7;
}
static const struct line masked[] = {
    ONE("v_mov_b32_e32 v8, 7", 0x7e100287), ONE("s_nop 1", 0xbf800001),
    TWO("v_mov_b32_dpp v8, v2 row_mirror row_mask:0x5 bank_mask:0xc", 0x7e1002fa, 0x5c014002)};
static void want_masked(void)
{
    for (int l = 0; l < 64; l++) want[l] = (l >> 4) % 2 == 0 && l % 16 >= 8 ? in[l ^ 15] : 7;
}
/* The sum over 64 lanes that compilers make: in lane 63. */
static const struct line dpp_sum[] = {
    ONE("v_mov_b32_e32 v8, v2", 0x7e100302),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0", 0x681010fa,
        0xff091108),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0", 0x681010fa,
        0xff091208),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:0", 0x681010fa,
        0xff091408),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:0", 0x681010fa,
        0xff091808),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_bcast:15 row_mask:0xa bank_mask:0xf", 0x681010fa, 0xaf014208),
    ONE("s_nop 1", 0xbf800001),
    TWO("v_add_u32_dpp v8, v8, v8 row_bcast:31 row_mask:0xc bank_mask:0xf", 0x681010fa, 0xcf014308),
    TWO("v_readlane_b32 s20, v8, 63", 0xd2890014, 0x00017f08),
    ONE("v_mov_b32_e32 v8, s20", 0x7e100214),
};
static void want_dpp_sum(void)
{
    uint32_t sum = 0;
    for (int l = 0; l < 64; l++) sum += in[l];
    for (int l = 0; l < 64; l++) want[l] = sum;
}
static const struct line bpermute[] = {TWO("v_xor_b32_e32 v3, 0x94, v1", 0x2a0602ff, 0x00000094),
                                       TWO("ds_bpermute_b32 v8, v3, v2", 0xd87e0000, 0x08000203),
                                       ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)};
static void want_bpermute(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 0x25];
}
static const struct line permute[] = {ONE("v_add_u32_e32 v3, 40, v1", 0x680602a8),
                                      TWO("ds_permute_b32 v8, v3, v2", 0xd87c0000, 0x08000203),
                                      ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)};
static void want_permute(void)
{
    for (int l = 0; l < 64; l++) want[(l + 10) & 63] = in[l];
}
/* Lanes that are off give 0. */
static const struct line bpermute_off[] = {
    ONE("v_mov_b32_e32 v8, 9", 0x7e100289),
    ONE("v_xor_b32_e32 v3, 4, v1", 0x2a060284),
    ONE("s_mov_b64 exec, 0x7", 0xbefe0187),
    TWO("ds_bpermute_b32 v8, v3, v2", 0xd87e0000, 0x08000203),
    ONE("s_mov_b64 exec, -1", 0xbefe01c1),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
};
static void want_bpermute_off(void)
{
    for (int l = 0; l < 64; l++) want[l] = l > 2 ? 9 : l == 2 ? 0 : in[l ^ 1];
}
static const struct line swizzle[] = {
    TWO("ds_swizzle_b32 v8, v2 offset:0x081f", 0xd87a081f, 0x08000002),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)}; /* xor 2 */
static void want_swizzle(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 2];
}
static const struct line swizzle_quad[] = {
    TWO("ds_swizzle_b32 v8, v2 offset:0x80b1", 0xd87a80b1, 0x08000002),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)}; /* 1,0,3,2 */
static void want_swizzle_quad(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l ^ 1];
}
static const struct line readlane[] = {
    TWO("v_readlane_b32 s20, v2, 17", 0xd2890014, 0x00012302),
    ONE("v_readfirstlane_b32 s21, v2", 0x7e2a0502),
    ONE("s_mov_b64 exec, 0x30", 0xbefe01b0),
    ONE("v_readfirstlane_b32 s22, v2", 0x7e2c0502),
    ONE("s_mov_b64 exec, -1", 0xbefe01c1),
    ONE("v_mov_b32_e32 v8, s20", 0x7e100214),
    TWO("v_writelane_b32 v8, s21, 5", 0xd28a0008, 0x00010a15),
    TWO("v_writelane_b32 v8, s22, 6", 0xd28a0008, 0x00010c16),
};
static void want_readlane(void)
{
    for (int l = 0; l < 64; l++) want[l] = l == 5 ? in[0] : l == 6 ? in[4] : in[17];
}
/* With no lane on: the first lane is lane 0, comparisons give no lane, v_writelane writes all the
 * same, loads read nothing. */
static const struct line no_lane[] = {
    ONE("v_mov_b32_e32 v8, 0", 0x7e100280),
    ONE("v_mov_b32_e32 v3, -1", 0x7e0602c1),
    ONE("s_mov_b64 exec, 0", 0xbefe0180),
    ONE("v_mov_b32_e32 v8, 1", 0x7e100281),
    ONE("v_readfirstlane_b32 s20, v2", 0x7e280502),
    ONE("v_cmp_eq_u32_e32 vcc, v0, v0", 0x7d940100),
    TWO("v_writelane_b32 v8, s20, 9", 0xd28a0008, 0x00011214),
    TWO("v_writelane_b32 v8, vcc_lo, 10", 0xd28a0008, 0x0001146a),
    TWO("global_load_dword v8, v[2:3], off", 0xdc508000, 0x087f0002),
    TWO("ds_write_b32 v3, v3", 0xd81a0000, 0x00000303),
    ONE("s_waitcnt vmcnt(0) lgkmcnt(0)", 0xbf8c0070),
    ONE("s_mov_b64 exec, -1", 0xbefe01c1),
};
static void want_no_lane(void) { want[9] = in[0]; }
static const struct line mbcnt[] = {
    TWO("v_mbcnt_lo_u32_b32 v8, -1, 0", 0xd28c0008, 0x000100c1),
    TWO("v_mbcnt_hi_u32_b32 v8, -1, v8", 0xd28d0008, 0x000210c1),
    ONE("v_add_u32_e32 v8, v8, v8", 0x68101108),
};
static void want_mbcnt(void)
{
    for (int l = 0; l < 64; l++) want[l] = 2u * (uint32_t)l;
}

/* --- masks and carries */
static const struct line carry[] = {
    /* 64-bit sum of (v2, lane) and (~v2 + 5, 3) */
    ONE("v_not_b32_e32 v3, v2", 0x7e065702),
    ONE("v_add_u32_e32 v3, 5, v3", 0x68060685),
    ONE("v_add_co_u32_e32 v4, vcc, v2, v3", 0x32080702),
    TWO("v_addc_co_u32_e64 v8, s[20:21], v0, 3, vcc", 0xd11c1408, 0x01a90700),
    TWO("v_lshl_add_u32 v8, v8, 4, v4", 0xd1fd0008, 0x04110908),
};
static void want_carry(void)
{
    for (int l = 0; l < 64; l++) {
        uint64_t a = in[l] | (uint64_t)l << 32, b = (uint32_t)(~in[l] + 5) | 3ull << 32,
                 sum = a + b;
        want[l] = ((uint32_t)(sum >> 32) << 4) + (uint32_t)sum;
    }
}
static const struct line saturated[] = {
    ONE("v_lshrrev_b32_e32 v3, 26, v2", 0x2006049a),
    TWO("v_sub_u32_e64 v4, v3, v0 clamp", 0xd1358004, 0x00020103),
    TWO("v_add_u32_e64 v5, v2, v2 clamp", 0xd1348005, 0x00020502),
    TWO("v_subrev_u32_e64 v6, v3, v0 clamp", 0xd1368006, 0x00020103),
    TWO("v_lshl_add_u32 v8, v4, 1, v5", 0xd1fd0008, 0x04150304),
    ONE("v_add_u32_e32 v8, v8, v6", 0x68100d08)};
static void want_saturated(void)
{
    for (uint32_t l = 0; l < 64; l++) {
        uint32_t x = in[l] >> 26, twice = in[l] >> 31 ? ~0u : 2 * in[l];
        want[l] = (x > l ? 2 * (x - l) : l - x) + twice;
    }
}
static const struct line select[] = {
    ONE("v_cmp_gt_u32_e32 vcc, 10, v0", 0x7d98008a),
    TWO("v_cmp_lt_u32_e64 s[20:21], 60, v0", 0xd0c90014, 0x000200bc),
    ONE("v_cndmask_b32_e32 v8, 1, v2, vcc", 0x00100481),
    TWO("v_cndmask_b32_e64 v8, v8, -v2, s[20:21]", 0xd1000008, 0x40520508),
};
static void want_select(void)
{
    for (int l = 0; l < 64; l++) want[l] = l > 60 ? in[l] ^ 0x80000000 : l < 10 ? in[l] : 1;
}
static const struct line saveexec[] = {
    ONE("v_mov_b32_e32 v8, 1", 0x7e100281),
    ONE("v_cmp_gt_u32_e32 vcc, 32, v0", 0x7d9800a0),
    ONE("s_and_saveexec_b64 s[20:21], vcc", 0xbe94206a),
    ONE("v_mov_b32_e32 v8, 2", 0x7e100282),
    ONE("s_xor_b64 exec, exec, s[20:21]", 0x88fe147e),
    ONE("v_add_u32_e32 v8, v8, v0", 0x68100108),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
};
static void want_saveexec(void)
{
    for (int l = 0; l < 64; l++) want[l] = l < 32 ? 2 : 1 + (uint32_t)l;
}
/* Each way to combine EXEC with a mask, seen by adding a power of two under it. */
static const struct line exec_ways[] = {
    ONE("v_mov_b32_e32 v8, 0", 0x7e100280),
    TWO("s_mov_b32 s20, 0xffff00ff", 0xbe9400ff, 0xffff00ff),
    TWO("s_mov_b32 s21, 0x0f0f0f0f", 0xbe9500ff, 0x0f0f0f0f),
    TWO("s_mov_b32 s22, 0x00fff00f", 0xbe9600ff, 0x00fff00f),
    TWO("s_mov_b32 s23, 0xff00ff00", 0xbe9700ff, 0xff00ff00),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_or_saveexec_b64 s[24:25], s[22:23]", 0xbe982116),
    ONE("v_add_u32_e32 v8, 1, v8", 0x68101081),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_xor_saveexec_b64 s[24:25], s[22:23]", 0xbe982216),
    ONE("v_add_u32_e32 v8, 2, v8", 0x68101082),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_andn2_saveexec_b64 s[24:25], s[22:23]", 0xbe982316),
    ONE("v_add_u32_e32 v8, 4, v8", 0x68101084),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_orn2_saveexec_b64 s[24:25], s[22:23]", 0xbe982416),
    ONE("v_add_u32_e32 v8, 8, v8", 0x68101088),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_nand_saveexec_b64 s[24:25], s[22:23]", 0xbe982516),
    ONE("v_add_u32_e32 v8, 16, v8", 0x68101090),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_nor_saveexec_b64 s[24:25], s[22:23]", 0xbe982616),
    ONE("v_add_u32_e32 v8, 32, v8", 0x681010a0),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_xnor_saveexec_b64 s[24:25], s[22:23]", 0xbe982716),
    ONE("v_add_u32_e32 v8, 64, v8", 0x681010c0),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_andn1_saveexec_b64 s[24:25], s[22:23]", 0xbe983316),
    TWO("v_add_u32_e32 v8, 0x80, v8", 0x681010ff, 0x00000080),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_orn1_saveexec_b64 s[24:25], s[22:23]", 0xbe983416),
    TWO("v_add_u32_e32 v8, 0x100, v8", 0x681010ff, 0x00000100),
    ONE("s_mov_b64 exec, s[20:21]", 0xbefe0114),
    ONE("s_andn2_wrexec_b64 s[26:27], s[22:23]", 0xbe9a3616),
    TWO("v_add_u32_e32 v8, 0x200, v8", 0x681010ff, 0x00000200),
    ONE("s_xor_b64 exec, s[24:25], s[26:27]", 0x88fe1a18), /* the old EXEC and the written copy */
    TWO("v_add_u32_e32 v8, 0x400, v8", 0x681010ff, 0x00000400),
    ONE("s_mov_b64 exec, -1", 0xbefe01c1),
};
static void want_exec_ways(void)
{
    const uint64_t e = 0x0f0f0f0fffff00ff, s = 0xff00ff0000fff00f;
    const uint64_t ways[] = {s | e,    s ^ e,  s & ~e, s | ~e, ~(s & e),    ~(s | e),
                             ~(s ^ e), ~s & e, ~s | e, s & ~e, e ^ (s & ~e)};
    for (int l = 0; l < 64; l++) {
        for (int k = 0; k < 11; k++) want[l] += (uint32_t)(ways[k] >> l & 1) << k;
    }
}
/* Branches that are and are not taken: each wrong one spoils a bit. */
static const struct line branches[] = {
    ONE("v_mov_b32_e32 v8, 0", 0x7e100280),      ONE("s_mov_b64 vcc, 0", 0xbeea0180),
    ONE("s_cmp_eq_u32 s2, s2", 0xbf060202), /* SCC 1 */
    ONE("s_cbranch_scc0 1", 0xbf840001),         ONE("v_or_b32_e32 v8, 1, v8", 0x28101081),
    ONE("s_cbranch_vccnz 1", 0xbf870001),        ONE("v_or_b32_e32 v8, 2, v8", 0x28101082),
    ONE("s_cbranch_execz 1", 0xbf880001),        ONE("v_or_b32_e32 v8, 4, v8", 0x28101084),
    ONE("s_cbranch_vccz 1", 0xbf860001),         ONE("v_or_b32_e32 v8, 8, v8", 0x28101088),
    ONE("s_cbranch_execnz 1", 0xbf890001),       ONE("v_or_b32_e32 v8, 16, v8", 0x28101090),
    ONE("s_mov_b64 vcc, 2", 0xbeea0182),         ONE("s_cbranch_vccnz 1", 0xbf870001),
    ONE("v_or_b32_e32 v8, 32, v8", 0x281010a0),  ONE("s_mov_b64 exec, 0", 0xbefe0180),
    ONE("s_cbranch_execz 1", 0xbf880001),        ONE("s_mov_b64 exec, -1", 0xbefe01c1),
    ONE("v_or_b32_e32 v8, 64, v8", 0x281010c0), /* no lane is on */
    ONE("s_mov_b64 exec, -1", 0xbefe01c1),       ONE("s_addk_i32 s2, 0x10", 0xb7020010),
    ONE("s_mulk_i32 s2, 0xfffd", 0xb782fffd), /* -48 */
    ONE("s_cmpk_eq_i32 s2, 0xffd0", 0xb102ffd0), ONE("s_cmovk_i32 s2, 0x80", 0xb0820080),
    ONE("v_or_b32_e32 v8, s2, v8", 0x28101002),
};
static void want_branches(void)
{
    for (int l = 0; l < 64; l++) want[l] = 1 | 2 | 4 | 0x80;
}
/* 64-bit differences with borrow, both ways around */
static const struct line borrow[] = {
    ONE("v_not_b32_e32 v3, v2", 0x7e065702),
    ONE("v_sub_co_u32_e32 v4, vcc, v2, v3", 0x34080702),
    ONE("v_subb_co_u32_e32 v8, vcc, 5, v0, vcc", 0x3a100085),
    ONE("v_subrev_co_u32_e32 v5, vcc, v2, v3", 0x360a0702),
    ONE("v_subbrev_co_u32_e32 v6, vcc, v0, v1, vcc", 0x3c0c0300),
    ONE("v_swap_b32 v5, v6", 0x7e0aa306),
    ONE("v_xor_b32_e32 v8, v8, v4", 0x2a100908),
    ONE("v_lshlrev_b32_e32 v6, 1, v6", 0x240c0c81),
    TWO("v_add3_u32 v8, v8, v5, v6", 0xd1ff0008, 0x041a0b08),
};
static void want_borrow(void)
{
    for (uint32_t l = 0; l < 64; l++) {
        uint32_t a = in[l], b = ~a, first = (5 - l - (a < b)) ^ (a - b);
        want[l] = first + (4 * l - l - (b < a)) + 2 * (b - a);
    }
}
static const struct line loop[] = {
    /* v8 = sum of 1..10, by a loop of 10 */
    ONE("s_mov_b32 s20, 0", 0xbe940080),      ONE("v_mov_b32_e32 v8, 0", 0x7e100280),
    ONE("s_add_i32 s20, s20, 1", 0x81148114), ONE("v_add_u32_e32 v8, s20, v8", 0x68101014),
    ONE("s_cmp_lt_u32 s20, 10", 0xbf0a8a14),  ONE("s_cbranch_scc1 65532", 0xbf85fffc),
};
static void want_loop(void)
{
    for (int l = 0; l < 64; l++) want[l] = 55;
}
static const struct line call[] = {
    ONE("v_mov_b32_e32 v8, 1", 0x7e100281),
    ONE("s_getpc_b64 s[20:21]", 0xbe941c00),
    ONE("s_add_u32 s20, s20, 16", 0x80149014),
    ONE("s_addc_u32 s21, s21, 0", 0x82158015),
    ONE("s_swappc_b64 s[22:23], s[20:21]", 0xbe961e14),
    ONE("s_branch 2", 0xbf820002),
    ONE("v_add_u32_e32 v8, 6, v8", 0x68101086),
    ONE("s_setpc_b64 s[22:23]", 0xbe801d16),
};
static void want_call(void)
{
    for (int l = 0; l < 64; l++) want[l] = 7;
}
/* x / y with the sequence that compilers emit for a correctly rounded fp32 division */
static const struct line division[] = {
    ONE("v_cvt_f32_u32_e32 v2, v2", 0x7e040d02),
    ONE("v_cvt_f32_u32_e32 v3, v0", 0x7e060d00),
    ONE("v_add_f32_e32 v3, 1.0, v3", 0x020606f2),
    TWO("v_div_scale_f32 v4, s[20:21], v3, v3, v2", 0xd1e01404, 0x040a0703),
    TWO("v_div_scale_f32 v5, vcc, v2, v3, v2", 0xd1e06a05, 0x040a0702),
    ONE("v_rcp_f32_e32 v6, v4", 0x7e0c4504),
    TWO("v_fma_f32 v7, -v4, v6, 1.0", 0xd1cb0007, 0x23ca0d04),
    TWO("v_fma_f32 v6, v7, v6, v6", 0xd1cb0006, 0x041a0d07),
    ONE("v_mul_f32_e32 v7, v5, v6", 0x0a0e0d05),
    TWO("v_fma_f32 v9, -v4, v7, v5", 0xd1cb0009, 0x24160f04),
    TWO("v_fma_f32 v7, v9, v6, v7", 0xd1cb0007, 0x041e0d09),
    TWO("v_fma_f32 v4, -v4, v7, v5", 0xd1cb0004, 0x24160f04),
    TWO("v_div_fmas_f32 v4, v4, v6, v7", 0xd1e20004, 0x041e0d04),
    TWO("v_div_fixup_f32 v8, v4, v3, v2", 0xd1de0008, 0x040a0704),
};
static void want_division(void)
{
    for (int l = 0; l < 64; l++) {
        float q = (float)in[l] / (float)(l + 1);
        memcpy(&want[l], &q, 4);
    }
}

/* --- memory: 64 lanes copy 16 bytes each, in parts */
static const struct line widths[] = {
    ONE("v_lshlrev_b32_e32 v3, 4, v0", 0x24060084),
    TWO("global_load_dwordx4 v[4:7], v3, s[4:5]", 0xdc5c8000, 0x04040003),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("global_store_dwordx2 v3, v[4:5], s[6:7] offset:1024", 0xdc748400, 0x00060403),
    TWO("global_store_dword v3, v6, s[6:7] offset:1032", 0xdc708408, 0x00060603),
    TWO("global_store_short v3, v7, s[6:7] offset:1036", 0xdc68840c, 0x00060703),
    TWO("global_store_byte_d16_hi v3, v7, s[6:7] offset:1038", 0xdc64840e, 0x00060703),
    ONE("v_lshrrev_b32_e32 v7, 24, v7", 0x200e0e98),
    TWO("global_store_byte v3, v7, s[6:7] offset:1039", 0xdc60840f, 0x00060703),
    TWO("global_load_dwordx3 v[8:10], v3, s[4:5]", 0xdc588000, 0x08040003),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("global_store_dwordx3 v3, v[8:10], s[6:7] offset:2048", 0xdc788800, 0x00060803),
    TWO("global_load_sbyte v8, v1, s[4:5]", 0xdc448000, 0x08040001),
    TWO("global_load_ushort v9, v1, s[4:5] offset:2", 0xdc488002, 0x09040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    ONE("v_add_u32_e32 v8, v8, v9", 0x68101308),
};
static void want_widths(void)
{
    for (int l = 0; l < 64; l++) {
        for (int k = 0; k < 4; k++) want[256 + 4 * l + k] = in[4 * l + k];
        for (int k = 0; k < 3; k++) want[512 + 4 * l + k] = in[4 * l + k];
        want[l] = (uint32_t)(int8_t)in[l] + (in[l] >> 16);
    }
}
static const struct line d16[] = {
    TWO("v_mov_b32_e32 v8, 0x11112222", 0x7e1002ff, 0x11112222),
    TWO("global_load_short_d16 v8, v1, s[4:5] offset:2", 0xdc908002, 0x08040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    ONE("v_mov_b32_e32 v3, v8", 0x7e060308),
    TWO("global_load_short_d16_hi v3, v1, s[4:5]", 0xdc948000, 0x03040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("global_store_short_d16_hi v1, v3, s[6:7] offset:1024", 0xdc6c8400, 0x00060301),
    TWO("global_load_ubyte_d16_hi v8, v1, s[4:5]", 0xdc848000, 0x08040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
};
static void want_d16(void)
{
    for (int l = 0; l < 64; l++) {
        want[l] = in[l] >> 16 | (in[l] & 255) << 16;
        want[256 + l] = in[l] & 0xffff;
    }
}
/* flat addresses, negative offsets, 64-bit addresses */
static const struct line flat[] = {
    ONE("v_mov_b32_e32 v4, s5", 0x7e080205),
    ONE("v_add_co_u32_e32 v3, vcc, s4, v1", 0x32060204),
    ONE("v_addc_co_u32_e32 v4, vcc, 0, v4, vcc", 0x38080880),
    TWO("flat_load_dword v5, v[3:4] offset:4", 0xdc500004, 0x05000003),
    TWO("v_add_co_u32_e32 v3, vcc, 0x100, v3", 0x320606ff, 0x00000100),
    ONE("v_addc_co_u32_e32 v4, vcc, 0, v4, vcc", 0x38080880),
    TWO("global_load_dword v6, v[3:4], off offset:-256", 0xdc509f00, 0x067f0003),
    ONE("s_waitcnt vmcnt(0) lgkmcnt(0)", 0xbf8c0070),
    ONE("v_sub_u32_e32 v8, v5, v6", 0x6a100d05),
};
static void want_flat(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l + 1] - in[l];
}
static const struct line scalar_loads[] = {
    TWO("s_load_dwordx2 s[20:21], s[4:5], 0x10", 0xc0060502, 0x00000010),
    TWO("s_load_dwordx16 s[24:39], s[4:5], 0x40", 0xc0120602, 0x00000040),
    ONE("s_movk_i32 s22, 0x8", 0xb0160008),
    TWO("s_load_dword s23, s[4:5], s22", 0xc00005c2, 0x00000016),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_add_u32 s20, s20, s21", 0x80141514),
    ONE("s_add_u32 s20, s20, s39", 0x80142714),
    ONE("s_add_u32 s20, s20, s23", 0x80141714),
    ONE("v_mov_b32_e32 v8, s20", 0x7e100214),
};
static void want_scalar_loads(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[4] + in[5] + in[31] + in[2];
}
static const struct line atomics[] = {
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280),
    ONE("v_mov_b32_e32 v4, 1", 0x7e080281),
    TWO("global_atomic_add v3, v4, s[6:7] offset:1024", 0xdd088400, 0x00060403),
    TWO("global_atomic_umax v3, v0, s[6:7] offset:1028", 0xdd1c8404, 0x00060003),
    TWO("global_atomic_add v8, v3, v4, s[6:7] offset:1024 glc", 0xdd098400, 0x08060403),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    ONE("v_mov_b32_e32 v5, v0", 0x7e0a0300),
    ONE("v_mov_b32_e32 v4, 33", 0x7e0802a1),
    TWO("global_atomic_cmpswap v3, v[4:5], s[6:7] offset:1032", 0xdd048408, 0x00060403),
    ONE("v_mov_b32_e32 v5, 0", 0x7e0a0280),
    TWO("global_atomic_or_x2 v3, v[4:5], s[6:7] offset:1040", 0xdda48410, 0x00060403),
};
static void want_atomics(void)
{
    for (int l = 0; l < 64; l++) want[l] = 64 + (uint32_t)l; /* lanes in order */
    want[256] = 128, want[257] = 63, want[258] = 33, want[260] = 33;
}

/* --- LDS */
static const struct line lds_widths[] = {
    /* the lane's 16 bytes to LDS in parts, read back by the lane 63 - l */
    ONE("v_lshlrev_b32_e32 v3, 4, v0", 0x24060084),
    TWO("global_load_dwordx4 v[4:7], v3, s[4:5]", 0xdc5c8000, 0x04040003),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("ds_write_b64 v3, v[4:5]", 0xd89a0000, 0x00000403),
    TWO("ds_write_b16 v3, v6 offset:8", 0xd83e0008, 0x00000603),
    TWO("ds_write_b16_d16_hi v3, v6 offset:10", 0xd8aa000a, 0x00000603),
    TWO("ds_write_b8 v3, v7 offset:12", 0xd83c000c, 0x00000703),
    ONE("v_lshrrev_b32_e32 v9, 8, v7", 0x20120e88),
    TWO("ds_write_b8 v3, v9 offset:13", 0xd83c000d, 0x00000903),
    TWO("ds_write_b16_d16_hi v3, v7 offset:14", 0xd8aa000e, 0x00000703),
    TWO("v_sub_u32_e32 v9, 0x3f0, v3", 0x6a1206ff, 0x000003f0),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read_b128 v[4:7], v9", 0xd9fe0000, 0x04000009),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_store_dwordx4 v3, v[4:7], s[6:7] offset:1024", 0xdc7c8400, 0x00060403),
    TWO("ds_read2_b32 v[10:11], v9 offset0:1 offset1:3", 0xd86e0301, 0x0a000009),
    TWO("ds_read_u16 v12, v9 offset:6", 0xd8780006, 0x0c000009),
    TWO("ds_read_i8 v13, v9 offset:9", 0xd8720009, 0x0d000009),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("v_add_u32_e32 v8, v10, v11", 0x6810170a),
    ONE("v_add_u32_e32 v8, v8, v12", 0x68101908),
    ONE("v_add_u32_e32 v8, v8, v13", 0x68101b08),
};
static void want_lds_widths(void)
{
    for (int l = 0; l < 64; l++) {
        const uint32_t *from = &in[4 * (63 - l)];
        for (int k = 0; k < 4; k++) want[256 + 4 * l + k] = from[k];
        want[l] = from[1] + from[3] + (from[1] >> 16) + (uint32_t)(int8_t)(from[2] >> 8);
    }
}
/* The other widths: 16 bytes out in one, in as 12, 8, bytes and halves; pairs 64 elements apart. */
static const struct line lds_more[] = {
    ONE("v_lshlrev_b32_e32 v3, 4, v0", 0x24060084),
    TWO("global_load_dwordx4 v[4:7], v3, s[4:5]", 0xdc5c8000, 0x04040003),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
    TWO("ds_write_b128 v3, v[4:7]", 0xd9be0000, 0x00000403),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_b96 v[8:10], v3", 0xd9fc0000, 0x08000003),
    TWO("ds_read_b64 v[11:12], v3 offset:8", 0xd8ec0008, 0x0b000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("v_xor_b32_e32 v8, v8, v9", 0x2a101308),
    ONE("v_xor_b32_e32 v8, v8, v10", 0x2a101508),
    TWO("v_add3_u32 v8, v8, v11, v12", 0xd1ff0008, 0x04321708),
    TWO("ds_read_i16 v9, v3 offset:2", 0xd8760002, 0x09000003),
    TWO("ds_read_u8 v10, v3 offset:7", 0xd8740007, 0x0a000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("v_add3_u32 v8, v8, v9, v10", 0xd1ff0008, 0x042a1308),
    ONE("v_mov_b32_e32 v9, 0", 0x7e120280),
    TWO("ds_read_u8_d16 v9, v3 offset:1", 0xd8ac0001, 0x09000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_i8_d16_hi v9, v3 offset:3", 0xd8b20003, 0x09000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("v_add_u32_e32 v8, v8, v9", 0x68101308),
    TWO("ds_read_u16_d16 v9, v3 offset:4", 0xd8b40004, 0x09000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_u16_d16_hi v9, v3 offset:6", 0xd8b60006, 0x09000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("v_add_u32_e32 v8, v8, v9", 0x68101308),
    TWO("ds_write_b96 v3, v[4:6] offset:4", 0xd9bc0004, 0x00000403),
    TWO("ds_write_b8_d16_hi v3, v4 offset:4", 0xd8a80004, 0x00000403),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read2_b64 v[4:7], v3 offset0:0 offset1:1", 0xd8ee0100, 0x04000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_store_dwordx4 v3, v[4:7], s[6:7] offset:1024", 0xdc7c8400, 0x00060403),
    ONE("s_barrier", 0xbf8a0000),
    ONE("v_lshlrev_b32_e32 v10, 3, v0", 0x24140083),
    TWO("ds_write2st64_b32 v1, v8, v0 offset0:0 offset1:1", 0xd81e0100, 0x00000801),
    ONE("v_mov_b32_e32 v9, v1", 0x7e120301),
    TWO("ds_write2_b64 v10, v[8:9], v[8:9] offset0:64 offset1:128", 0xd89c8040, 0x0008080a),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read2st64_b32 v[4:5], v1 offset0:0 offset1:1", 0xd8700100, 0x04000001),
    TWO("ds_read2st64_b64 v[11:14], v10 offset0:1 offset1:2", 0xd8f00201, 0x0b00000a),
    ONE("v_mov_b32_e32 v7, 3", 0x7e0e0283),
    TWO("ds_wrxchg_rtn_b32 v6, v1, v7 offset:256", 0xd85a0100, 0x06000701),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("v_add3_u32 v8, v4, v5, v6", 0xd1ff0008, 0x041a0b04),
    TWO("v_add3_u32 v8, v8, v11, v14", 0xd1ff0008, 0x043a1708),
};
static void want_lds_more(void)
{
    for (uint32_t l = 0; l < 64; l++) {
        const uint32_t *p = &in[4 * l];
        uint32_t x = (p[0] ^ p[1] ^ p[2]) + p[2] + p[3] + (uint32_t)(int16_t)(p[0] >> 16) +
                     (p[1] >> 24);
        x += (p[0] >> 8 & 255) | (uint32_t)(int8_t)(p[0] >> 24) << 16;
        x += p[1];
        want[256 + 4 * l] = p[0], want[257 + 4 * l] = (p[0] & ~255u) | (p[0] >> 16 & 255),
                       want[258 + 4 * l] = p[1], want[259 + 4 * l] = p[2];
        want[l] = x + 2 * l + x + 4 * l;
    }
}
static const struct line lds_atomics[] = {
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280),
    ONE("v_mov_b32_e32 v4, 0", 0x7e080280),
    ONE("v_mov_b32_e32 v5, 1.0", 0x7e0a02f2),
    TWO("ds_write2_b32 v3, v4, v4 offset0:0 offset1:1", 0xd81c0100, 0x00040403),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_add_f32 v3, v5", 0xd82a0000, 0x00000503),
    ONE("v_mov_b32_e32 v6, 3", 0x7e0c0283),
    TWO("ds_add_rtn_u32 v7, v3, v6 offset:4", 0xd8400004, 0x07000603),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read2_b32 v[4:5], v3 offset0:0 offset1:1", 0xd86e0100, 0x04000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("v_cvt_u32_f32_e32 v4, v4", 0x7e080f04),
    TWO("v_lshl_add_u32 v8, v5, 8, v4", 0xd1fd0008, 0x04111105),
};
static void want_lds_atomics(void)
{
    for (int l = 0; l < 64; l++) want[l] = (3 * 64 << 8) + 64;
}
/* Four waves: each lane's word goes to the lane 255 - l of the block. */
static const struct line lds_reverse[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("v_sub_u32_e32 v3, 0x3fc, v1", 0x6a0602ff, 0x000003fc),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read_b32 v8, v3", 0xd86c0000, 0x08000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
};
static void want_lds_reverse(void)
{
    for (int l = 0; l < 256; l++) want[l] = in[255 - l];
}

/* --- dimensions: v0, v1, v2 are x, y, z of a block of 4 x 3 x 5, the block's number in s2; writes
 * its own program */
static const struct line dimensions[] = {
    TWO("s_load_dwordx4 s[4:7], s[0:1], 0x0", 0xc00a0100, 0x00000000),
    ONE("v_mul_u32_u24_e32 v3, 3, v2", 0x10060483),
    ONE("v_add_u32_e32 v3, v3, v1", 0x68060303),
    TWO("v_lshl_add_u32 v3, v3, 2, v0", 0xd1fd0003, 0x04010503),
    ONE("s_mul_i32 s20, s2, 60", 0x9214bc02),
    ONE("v_add_u32_e32 v3, s20, v3", 0x68060614),
    ONE("v_lshlrev_b32_e32 v4, 2, v3", 0x24080682),
    ONE("v_lshlrev_b32_e32 v5, 8, v1", 0x240a0288),
    ONE("v_lshlrev_b32_e32 v6, 16, v2", 0x240c0490),
    TWO("v_or3_b32 v8, v0, v5, v6", 0xd2020008, 0x041a0b00),
    ONE("s_lshl_b32 s20, s2, 24", 0x8e149802),
    ONE("v_or_b32_e32 v8, s20, v8", 0x28101014),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_store_dword v4, v8, s[6:7]", 0xdc708000, 0x00060804),
    ONE("s_endpgm", 0xbf810000),
};
static void want_dimensions(void)
{
    for (uint32_t k = 0; k < 180; k++)
        want[k] = (k % 4) | (k / 4 % 3) << 8 | (k / 12 % 5) << 16 | (k / 60) << 24;
}
/* scratch through scratch_ instructions */
static const struct line scratch[] = {
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280),
    TWO("scratch_store_dword v3, v2, off offset:8", 0xdc704008, 0x007f0203),
    ONE("v_mov_b32_e32 v4, 4", 0x7e080284),
    TWO("scratch_load_dword v8, v4, off offset:4", 0xdc504004, 0x087f0004),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
};
static void want_copy(void)
{
    for (int l = 0; l < 64; l++) want[l] = in[l];
}
/* With fp32 denormals off: tiny numbers are 0 as source and as result. */
static const struct line flushed[] = {
    TWO("v_mov_b32_e32 v3, 0x00000fff", 0x7e0602ff, 0x00000fff),
    TWO("v_mov_b32_e32 v4, 0x01000000", 0x7e0802ff, 0x01000000),
    ONE("v_add_f32_e32 v5, v3, v3", 0x020a0703),
    ONE("v_mul_f32_e32 v6, 0.5, v4", 0x0a0c08f0),
    ONE("v_mul_f32_e32 v6, 0.5, v6", 0x0a0c0cf0),
    TWO("v_or3_b32 v8, v5, v6, 1", 0xd2020008, 0x02060d05),
};
static void want_flushed(void)
{
    for (int l = 0; l < 64; l++) want[l] = 1;
}

#define BODY(name) #name, name, COUNT(name)
static const struct program {
    const char *name;
    const struct line *body;
    int n;
    void (*expect)(void);
    struct build build;
    unsigned grid,
        block[3]; /* 0: one block of 64; more than one dimension: the body is the whole program */
} programs[] = {
    {BODY(quad_perm), want_quad_perm, {0}, 0, {0}},
    {BODY(row_shr), want_row_shr, {0}, 0, {0}},
    {BODY(row_shl), want_row_shl, {0}, 0, {0}},
    {BODY(row_ror), want_row_ror, {0}, 0, {0}},
    {BODY(mirror), want_mirror, {0}, 0, {0}},
    {BODY(half_mirror), want_half_mirror, {0}, 0, {0}},
    {BODY(wave_shr), want_wave_shr, {0}, 0, {0}},
    {BODY(masked), want_masked, {0}, 0, {0}},
    {BODY(dpp_sum), want_dpp_sum, {0}, 0, {0}},
    {BODY(bpermute), want_bpermute, {0}, 0, {0}},
    {BODY(permute), want_permute, {0}, 0, {0}},
    {BODY(bpermute_off), want_bpermute_off, {0}, 0, {0}},
    {BODY(swizzle), want_swizzle, {0}, 0, {0}},
    {BODY(swizzle_quad), want_swizzle_quad, {0}, 0, {0}},
    {BODY(readlane), want_readlane, {0}, 0, {0}},
    {BODY(no_lane), want_no_lane, {0}, 0, {0}},
    {BODY(mbcnt), want_mbcnt, {0}, 0, {0}},
    {BODY(saturated), want_saturated, {0}, 0, {0}},
    {BODY(carry), want_carry, {0}, 0, {0}},
    {BODY(select), want_select, {0}, 0, {0}},
    {BODY(saveexec), want_saveexec, {0}, 0, {0}},
    {BODY(exec_ways), want_exec_ways, {0}, 0, {0}},
    {BODY(branches), want_branches, {0}, 0, {0}},
    {BODY(borrow), want_borrow, {0}, 0, {0}},
    {BODY(loop), want_loop, {0}, 0, {0}},
    {BODY(call), want_call, {0}, 0, {0}},
    {BODY(division), want_division, {0}, 0, {0}},
    {BODY(widths), want_widths, {0}, 0, {0}},
    {BODY(d16), want_d16, {0}, 0, {0}},
    {BODY(flat), want_flat, {0}, 0, {0}},
    {BODY(scalar_loads), want_scalar_loads, {0}, 0, {0}},
    {BODY(atomics), want_atomics, {0}, 0, {0}},
    {BODY(lds_widths), want_lds_widths, {.lds = 1024}, 0, {0}},
    {BODY(lds_more), want_lds_more, {.lds = 2048}, 0, {0}},
    {BODY(lds_atomics), want_lds_atomics, {.lds = 8}, 0, {0}},
    {BODY(lds_reverse), want_lds_reverse, {.lds = 1024}, 1, {256, 1, 1}},
    {BODY(dimensions), want_dimensions, {.dimensions = 3}, 3, {4, 3, 5}},
    {BODY(scratch), want_copy, {.scratch = 16}, 0, {0}},
    {BODY(flushed), want_flushed, {.flush_denormals = 1}, 0, {0}},
};

void each_program_line(void (*f)(const struct line *l))
{
    for (int k = 0; k < COUNT(start); k++) f(&start[k]);
    for (int k = 0; k < COUNT(finish); k++) f(&finish[k]);
    for (int p = 0; p < COUNT(programs); p++) {
        for (int k = 0; k < programs[p].n; k++) f(&programs[p].body[k]);
    }
}

/* 0 right, 1 wrong numbers, -1 a fault */
static int run_program(const struct program *p)
{
    struct code code = {.n = 0};
    if (p->build.dimensions < 2) code_add(&code, start, COUNT(start));
    code_add(&code, p->body, p->n);
    if (p->build.dimensions < 2) code_add(&code, finish, COUNT(finish));
    uint32_t x = 1;
    for (int k = 0; k < IN_WORDS; k++) in[k] = x = x * 1664525 + 1013904223;
    memset(want, 0, sizeof want);
    p->expect();
    const unsigned one_block[3] = {64, 1, 1};
    int rc = run_code(&code, &p->build, in, sizeof in, out, sizeof out,
                      (const unsigned[]){p->grid ? p->grid : 1, 1, 1},
                      p->grid ? p->block : one_block);
    return rc ? -1 : memcmp(out, want, sizeof out) != 0;
}

/* Each program, changed in one lane's business, must be noticed: a wrong lane, a wrong constant. */
static void test_of_the_test(void)
{
    static const struct line wrong_quad[] = {
        ONE("s_nop 1", 0xbf800001),
        TWO("v_mov_b32_dpp v8, v2 quad_perm:[2,3,1,0] row_mask:0xf bank_mask:0xf", 0x7e1002fa,
            0xff001e02)};
    static const struct line wrong_lane[] = {
        TWO("v_xor_b32_e32 v3, 0x90, v1", 0x2a0602ff, 0x00000090),
        TWO("ds_bpermute_b32 v8, v3, v2", 0xd87e0000, 0x08000203),
        ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)};
    const struct program broken[] = {{BODY(wrong_quad), want_quad_perm, {0}, 0, {0}},
                                     {BODY(wrong_lane), want_bpermute, {0}, 0, {0}}};
    for (int k = 0; k < COUNT(broken); k++)
        check(run_program(&broken[k]) == 1, "%s passes", broken[k].name);
}

void test_programs(void)
{
    for (int k = 0; k < COUNT(programs); k++) {
        int rc = run_program(&programs[k]);
        int at = 0;
        while (at < OUT_WORDS - 1 && out[at] == want[at]) at++;
        if (rc < 0) check(0, "%s: %s", programs[k].name, gpu.last_fault());
        else
            check(rc == 0, "%s: word %d is %08x, wanted %08x", programs[k].name, at, out[at],
                  want[at]);
    }
    test_of_the_test();
}
