/* salu.c: the scalar unit: integer operations with SCC, branches, the MODE register, waits and
 * barriers. */
#include "gpu.h"
#include "numeric.h"

#define SRC0 salu_read(w, &i->src[0])
#define SRC1 salu_read(w, &i->src[1])
#define SRC0_64 salu_read64(w, &i->src[0])
#define SRC1_64 salu_read64(w, &i->src[1])
#define IMM ((uint32_t)i->simm)

static void put64(struct wave *w, int sdst, uint64_t x)
{
    w->s[sdst] = (uint32_t)x;
    w->s[sdst + 1] = (uint32_t)(x >> 32);
}

/* r from a and b (sources 0 and 1); SCC becomes scc, or stays where scc is w->scc. */
#define OP32(name, expr, condition)                                                                \
    static void name(struct wave *w, const struct insn *i)                                         \
    {                                                                                              \
        uint32_t a = SRC0, b = i->n_src > 1 ? SRC1 : 0, r = (uint32_t)(expr);                      \
        (void)a, (void)b;                                                                          \
        w->scc = (condition) != 0;                                                                 \
        w->s[i->sdst] = r;                                                                         \
    }
#define OP64(name, expr, condition)                                                                \
    static void name(struct wave *w, const struct insn *i)                                         \
    {                                                                                              \
        uint64_t a = SRC0_64, b = i->n_src > 1 ? SRC1_64 : 0, r = (uint64_t)(expr);                \
        (void)a, (void)b;                                                                          \
        w->scc = (condition) != 0;                                                                 \
        put64(w, i->sdst, r);                                                                      \
    }
#define I(x) ((int32_t)(x))
#define L(x) ((int64_t)(x))
OP32(s_add_u32, a + b, r < a)
OP32(s_sub_u32, a - b, a < b)
OP32(s_add_i32, a + b, (~(a ^ b) & (a ^ r)) >> 31)
OP32(s_sub_i32, a - b, ((a ^ b) & (a ^ r)) >> 31)
static void s_addc_u32(struct wave *w, const struct insn *i)
{
    uint64_t r = (uint64_t)SRC0 + SRC1 + w->scc;
    w->s[i->sdst] = (uint32_t)r, w->scc = r >> 32 & 1;
}
static void s_subb_u32(struct wave *w, const struct insn *i)
{
    uint64_t r = (uint64_t)SRC0 - SRC1 - w->scc;
    w->s[i->sdst] = (uint32_t)r, w->scc = r >> 32 & 1;
}
OP32(s_min_i32, I(a) < I(b) ? a : b, I(a) < I(b))
OP32(s_min_u32, a < b ? a : b, a < b)
OP32(s_max_i32, I(a) > I(b) ? a : b, I(a) > I(b))
OP32(s_max_u32, a > b ? a : b, a > b)
OP32(s_cselect_b32, w->scc ? a : b, w->scc)
OP64(s_cselect_b64, w->scc ? a : b, w->scc)
OP32(s_and_b32, a &b, r)
OP64(s_and_b64, a &b, r)
OP32(s_or_b32, a | b, r)
OP64(s_or_b64, a | b, r)
OP32(s_xor_b32, a ^ b, r)
OP64(s_xor_b64, a ^ b, r)
OP32(s_andn2_b32, a & ~b, r)
OP64(s_andn2_b64, a & ~b, r)
OP32(s_orn2_b32, a | ~b, r)
OP64(s_orn2_b64, a | ~b, r)
OP32(s_nand_b32, ~(a &b), r)
OP64(s_nand_b64, ~(a &b), r)
OP32(s_nor_b32, ~(a | b), r)
OP64(s_nor_b64, ~(a | b), r)
OP32(s_xnor_b32, ~(a ^ b), r)
OP64(s_xnor_b64, ~(a ^ b), r)
OP32(s_lshl_b32, a << (b & 31), r)
OP64(s_lshl_b64, a << (b & 63), r)
OP32(s_lshr_b32, a >> (b & 31), r)
OP64(s_lshr_b64, a >> (b & 63), r)
OP32(s_ashr_i32, I(a) >> (b & 31), r)
OP64(s_ashr_i64, L(a) >> (b & 63), r)
OP32(s_bfm_b32, ((1u << (a & 31)) - 1) << (b & 31), w->scc)
OP64(s_bfm_b64, ((1ull << (a & 63)) - 1) << (b & 63), w->scc)
OP32(s_mul_i32, a *b, w->scc)
OP32(s_mul_hi_u32, (uint64_t)a *b >> 32, w->scc)
OP32(s_mul_hi_i32, (int64_t)I(a) * I(b) >> 32, w->scc)
/* fields: offset in the low bits of b, width from bit 16 up */
static uint64_t field(uint64_t x, unsigned at, unsigned width, unsigned size, bool is_signed)
{
    if (width == 0) return 0;
    if (width > size - at) width = size - at;
    x <<= 64 - at - width;
    return is_signed ? (uint64_t)((int64_t)x >> (64 - width)) : x >> (64 - width);
}
OP32(s_bfe_u32, field(a, b & 31, b >> 16 & 127, 32, false), r)
OP32(s_bfe_i32, field(a, b & 31, b >> 16 & 127, 32, true), r)
OP64(s_bfe_u64, field(a, b & 63, b >> 16 & 127, 64, false), r)
OP64(s_bfe_i64, field(a, b & 63, b >> 16 & 127, 64, true), r)
OP32(s_absdiff_i32, I(a - b) < 0 ? b - a : a - b, r)
OP32(s_lshl1_add_u32, (a << 1) + b, ((uint64_t)a << 1) + b > 0xffffffff)
OP32(s_lshl2_add_u32, (a << 2) + b, ((uint64_t)a << 2) + b > 0xffffffff)
OP32(s_lshl3_add_u32, (a << 3) + b, ((uint64_t)a << 3) + b > 0xffffffff)
OP32(s_lshl4_add_u32, (a << 4) + b, ((uint64_t)a << 4) + b > 0xffffffff)
OP32(s_pack_ll_b32_b16, (a & 0xffff) | b << 16, w->scc)
OP32(s_pack_lh_b32_b16, (a & 0xffff) | (b & 0xffff0000), w->scc)
OP32(s_pack_hh_b32_b16, a >> 16 | (b & 0xffff0000), w->scc)

OP32(s_mov_b32, a, w->scc)
OP64(s_mov_b64, a, w->scc)
OP32(s_cmov_b32, w->scc ? a : w->s[i->sdst], w->scc)
OP64(s_cmov_b64, w->scc ? a : (w->s[i->sdst] | (uint64_t)w->s[i->sdst + 1] << 32), w->scc)
OP32(s_not_b32, ~a, r)
OP64(s_not_b64, ~a, r)
static uint64_t reverse(uint64_t x, int n)
{
    uint64_t r = 0;
    for (int k = 0; k < n; k++) r |= (x >> k & 1) << (n - 1 - k);
    return r;
}
OP32(s_brev_b32, reverse(a, 32), w->scc)
OP64(s_brev_b64, reverse(a, 64), w->scc)
/* operations from 64 bits to 32 */
#define OP64_32(name, expr, condition)                                                             \
    static void name(struct wave *w, const struct insn *i)                                         \
    {                                                                                              \
        uint64_t a = SRC0_64;                                                                      \
        uint32_t r = (uint32_t)(expr);                                                             \
        w->scc = (condition) != 0;                                                                 \
        w->s[i->sdst] = r;                                                                         \
    }
OP32(s_bcnt0_i32_b32, __builtin_popcount(~a), r)
OP64_32(s_bcnt0_i32_b64, __builtin_popcountll(~a), r)
OP32(s_bcnt1_i32_b32, __builtin_popcount(a), r)
OP64_32(s_bcnt1_i32_b64, __builtin_popcountll(a), r)
OP32(s_ff0_i32_b32, ~a ? __builtin_ctz(~a) : -1, w->scc)
OP64_32(s_ff0_i32_b64, ~a ? __builtin_ctzll(~a) : -1, w->scc)
OP32(s_ff1_i32_b32, a ? __builtin_ctz(a) : -1, w->scc)
OP64_32(s_ff1_i32_b64, a ? __builtin_ctzll(a) : -1, w->scc)
OP32(s_flbit_i32_b32, a ? __builtin_clz(a) : -1, w->scc)
OP64_32(s_flbit_i32_b64, a ? __builtin_clzll(a) : -1, w->scc)
OP32(s_flbit_i32, a == 0 || a == ~0u ? -1 : __builtin_clz(a ^ (uint32_t)(I(a) >> 31)), w->scc)
OP64_32(s_flbit_i32_i64, a == 0 || a == ~0ull ? -1 : __builtin_clzll(a ^ (uint64_t)(L(a) >> 63)),
        w->scc)
OP32(s_sext_i32_i8, sext(a, 8), w->scc)
OP32(s_sext_i32_i16, sext(a, 16), w->scc)
OP32(s_bitset0_b32, w->s[i->sdst] & ~(1u << (a & 31)), w->scc)
OP32(s_bitset1_b32, w->s[i->sdst] | 1u << (a & 31), w->scc)
OP32(s_abs_i32, I(a) < 0 ? -a : a, r)

enum {
    EXEC_AND,
    EXEC_OR,
    EXEC_XOR,
    EXEC_ANDN2,
    EXEC_ORN2,
    EXEC_NAND,
    EXEC_NOR,
    EXEC_XNOR,
    EXEC_ANDN1,
    EXEC_ORN1
};
static uint64_t combine(uint32_t how, uint64_t s, uint64_t e)
{
    switch (how) {
    case EXEC_AND: return s & e;
    case EXEC_OR: return s | e;
    case EXEC_XOR: return s ^ e;
    case EXEC_ANDN2: return s & ~e;
    case EXEC_ORN2: return s | ~e;
    case EXEC_NAND: return ~(s & e);
    case EXEC_NOR: return ~(s | e);
    case EXEC_XNOR: return ~(s ^ e);
    case EXEC_ANDN1: return ~s & e;
    default: return ~s | e;
    }
}
static void saveexec(struct wave *w, const struct insn *i)
{
    uint64_t old = EXEC(w), s = SRC0_64;
    put64(w, i->sdst, old);
    EXEC(w) = combine(i->op->arg, s, old);
    w->scc = EXEC(w) != 0;
}
static void wrexec(struct wave *w, const struct insn *i)
{
    EXEC(w) = combine(i->op->arg, SRC0_64, EXEC(w));
    put64(w, i->sdst, EXEC(w));
    w->scc = EXEC(w) != 0;
}

/* --- program counter */
static uint64_t code_address(const struct wave *w, uint32_t pc)
{
    return w->block->launch->kernel->module->base + pc;
}
static void jump(struct wave *w, const struct insn *i, uint64_t to)
{
    const struct module *m = w->block->launch->kernel->module;
    if (to < m->base || to >= m->base + m->size || to % 4)
        fault(w, i, -1, "jump to 0x%llx, outside the code", (unsigned long long)to);
    w->pc = (uint32_t)(to - m->base);
}
static void s_getpc_b64(struct wave *w, const struct insn *i)
{
    put64(w, i->sdst, code_address(w, w->pc));
}
static void s_setpc_b64(struct wave *w, const struct insn *i) { jump(w, i, SRC0_64); }
static void s_swappc_b64(struct wave *w, const struct insn *i)
{
    uint64_t to = SRC0_64;
    put64(w, i->sdst, code_address(w, w->pc));
    jump(w, i, to);
}
static void s_call_b64(struct wave *w, const struct insn *i)
{
    put64(w, i->sdst, code_address(w, w->pc));
    jump(w, i, code_address(w, w->pc) + (uint64_t)((int64_t)i->simm * 4));
}
enum {
    BRANCH_ALWAYS,
    BRANCH_SCC0,
    BRANCH_SCC1,
    BRANCH_VCCZ,
    BRANCH_VCCNZ,
    BRANCH_EXECZ,
    BRANCH_EXECNZ
};
static void branch(struct wave *w, const struct insn *i)
{
    bool taken = true;
    switch (i->op->arg & 255) {
    case BRANCH_SCC0: taken = !w->scc; break;
    case BRANCH_SCC1: taken = w->scc; break;
    case BRANCH_VCCZ: taken = VCC(w) == 0; break;
    case BRANCH_VCCNZ: taken = VCC(w) != 0; break;
    case BRANCH_EXECZ: taken = EXEC(w) == 0; break;
    case BRANCH_EXECNZ: taken = EXEC(w) != 0; break;
    default: break;
    }
    if (taken) jump(w, i, code_address(w, w->pc) + (uint64_t)((int64_t)i->simm * 4));
}

/* --- comparisons */
#define COMPARE(name, expr)                                                                        \
    static void name(struct wave *w, const struct insn *i)                                         \
    {                                                                                              \
        uint32_t a = SRC0, b = i->n_src > 1 ? SRC1 : IMM;                                          \
        w->scc = (expr) != 0;                                                                      \
    }
COMPARE(s_cmp_eq, a == b)
COMPARE(s_cmp_lg, a != b)
COMPARE(s_cmp_gt_i32, I(a) > I(b))
COMPARE(s_cmp_ge_i32, I(a) >= I(b))
COMPARE(s_cmp_lt_i32, I(a) < I(b))
COMPARE(s_cmp_le_i32, I(a) <= I(b))
COMPARE(s_cmp_gt_u32, a > b)
COMPARE(s_cmp_ge_u32, a >= b)
COMPARE(s_cmp_lt_u32, a < b)
COMPARE(s_cmp_le_u32, a <= b)
COMPARE(s_bitcmp0_b32, !(a >> (b & 31) & 1))
COMPARE(s_bitcmp1_b32, a >> (b & 31) & 1)
static void s_bitcmp_b64(struct wave *w, const struct insn *i)
{
    w->scc = (SRC0_64 >> (SRC1 & 63) & 1) == i->op->arg;
}
static void s_cmp_u64(struct wave *w, const struct insn *i)
{
    w->scc = (SRC0_64 == SRC1_64) == i->op->arg;
}
/* with a 16-bit constant: sign-extended, or (arg 1) zero-extended */
enum { K_EQ, K_LG, K_GT, K_GE, K_LT, K_LE };
static void s_cmpk(struct wave *w, const struct insn *i)
{
    int64_t a = i->op->arg >> 8 ? (int64_t)SRC0 : (int64_t)I(SRC0),
            b = i->op->arg >> 8 ? (int64_t)(IMM & 0xffff) : (int64_t)i->simm;
    switch (i->op->arg & 255) {
    case K_EQ: w->scc = a == b; break;
    case K_LG: w->scc = a != b; break;
    case K_GT: w->scc = a > b; break;
    case K_GE: w->scc = a >= b; break;
    case K_LT: w->scc = a < b; break;
    default: w->scc = a <= b; break;
    }
}
static void s_movk_i32(struct wave *w, const struct insn *i) { w->s[i->sdst] = IMM; }
static void s_cmovk_i32(struct wave *w, const struct insn *i)
{
    if (w->scc) w->s[i->sdst] = IMM;
}
static void s_addk_i32(struct wave *w, const struct insn *i)
{
    uint32_t a = SRC0, r = a + IMM;
    w->scc = (~(a ^ IMM) & (a ^ r)) >> 31;
    w->s[i->sdst] = r;
}
static void s_mulk_i32(struct wave *w, const struct insn *i) { w->s[i->sdst] = SRC0 * IMM; }

/* --- hardware registers: MODE; to read, what older compilers take the apertures from */
enum { HWREG_MODE = 1, HWREG_SH_MEM_BASES = 15 };
static int hwreg_of(const struct insn *i, int *at, uint32_t *mask)
{
    int size = (i->simm >> 11 & 31) + 1;
    *at = i->simm >> 6 & 31;
    *mask = size == 32 ? ~0u : (1u << size) - 1;
    return i->simm & 63;
}
static void s_getreg_b32(struct wave *w, const struct insn *i)
{
    int at;
    uint32_t mask, reg = w->mode;
    int id = hwreg_of(i, &at, &mask);
    if (id == HWREG_SH_MEM_BASES)
        reg = (uint32_t)(LDS_APERTURE >> 48 << 16 | SCRATCH_APERTURE >> 48);
    else if (id != HWREG_MODE) fault(w, i, -1, "hardware register %d is not implemented", id);
    w->s[i->sdst] = reg >> at & mask;
}
static void s_setreg_b32(struct wave *w, const struct insn *i)
{
    int at;
    uint32_t mask, *reg = &w->mode, x = i->n_words == 2 ? i->literal : w->s[i->sdst];
    int id = hwreg_of(i, &at, &mask);
    if (id != HWREG_MODE)
        fault(w, i, -1, "hardware register %d is not implemented to be written", id);
    *reg = (*reg & ~(mask << at)) | (x & mask) << at;
    if (*reg & 15) fault(w, i, -1, "rounding mode %u is not implemented", *reg & 15);
}

/* --- the wave itself */
static void s_nop(struct wave *w, const struct insn *i) { w->tick += IMM & 15; }
static void nothing(struct wave *w, const struct insn *i) { (void)w, (void)i; }
/* What waits for another device lets that go on. */
static void s_sleep(struct wave *w, const struct insn *i)
{
    (void)w, (void)i;
    interpreter_rest();
}
static void s_endpgm(struct wave *w, const struct insn *i)
{
    (void)i;
    w->done = true;
}
static void s_waitcnt(struct wave *w, const struct insn *i)
{
    wave_wait(w, &w->vm, (int)((IMM & 15) | (IMM >> 14 & 3) << 4));
    wave_wait(w, &w->lgkm, (int)(IMM >> 8 & 15));
}
static void s_barrier(struct wave *w, const struct insn *i)
{
    for (int k = 0; k < w->lgkm.n; k++) {
        if (w->lgkm.e[k].kind != PEND_SMEM)
            fault(w, i, -1, "s_barrier before the s_waitcnt lgkmcnt for the LDS access at pc 0x%x",
                  w->lgkm.e[k].pc);
    }
    w->at_barrier = true;
    w->block->launch->kernel->stats->sum.barriers++;
}
static void s_trap(struct wave *w, const struct insn *i)
{
    fault(w, i, -1, "s_trap %u", IMM & 255);
}

#define SOP2(c, n, t, f) {ENC_SOP2, c, n, t, .exec = f}
#define SOP1(c, n, t, f) {ENC_SOP1, c, n, t, .exec = f}
#define BRANCH(c, n, t, a) {ENC_SOPP, c, n, t, .exec = branch, .arg = UNIT_BRANCH << 8 | a}
const struct op ops_salu[] = {
    SOP2(0x00, "s_add_u32", "iii", s_add_u32),
    SOP2(0x01, "s_sub_u32", "iii", s_sub_u32),
    SOP2(0x02, "s_add_i32", "iii", s_add_i32),
    SOP2(0x03, "s_sub_i32", "iii", s_sub_i32),
    SOP2(0x04, "s_addc_u32", "iii", s_addc_u32),
    SOP2(0x05, "s_subb_u32", "iii", s_subb_u32),
    SOP2(0x06, "s_min_i32", "iii", s_min_i32),
    SOP2(0x07, "s_min_u32", "iii", s_min_u32),
    SOP2(0x08, "s_max_i32", "iii", s_max_i32),
    SOP2(0x09, "s_max_u32", "iii", s_max_u32),
    SOP2(0x0a, "s_cselect_b32", "iii", s_cselect_b32),
    SOP2(0x0b, "s_cselect_b64", "qqq", s_cselect_b64),
    SOP2(0x0c, "s_and_b32", "iii", s_and_b32),
    SOP2(0x0d, "s_and_b64", "qqq", s_and_b64),
    SOP2(0x0e, "s_or_b32", "iii", s_or_b32),
    SOP2(0x0f, "s_or_b64", "qqq", s_or_b64),
    SOP2(0x10, "s_xor_b32", "iii", s_xor_b32),
    SOP2(0x11, "s_xor_b64", "qqq", s_xor_b64),
    SOP2(0x12, "s_andn2_b32", "iii", s_andn2_b32),
    SOP2(0x13, "s_andn2_b64", "qqq", s_andn2_b64),
    SOP2(0x14, "s_orn2_b32", "iii", s_orn2_b32),
    SOP2(0x15, "s_orn2_b64", "qqq", s_orn2_b64),
    SOP2(0x16, "s_nand_b32", "iii", s_nand_b32),
    SOP2(0x17, "s_nand_b64", "qqq", s_nand_b64),
    SOP2(0x18, "s_nor_b32", "iii", s_nor_b32),
    SOP2(0x19, "s_nor_b64", "qqq", s_nor_b64),
    SOP2(0x1a, "s_xnor_b32", "iii", s_xnor_b32),
    SOP2(0x1b, "s_xnor_b64", "qqq", s_xnor_b64),
    SOP2(0x1c, "s_lshl_b32", "iii", s_lshl_b32),
    SOP2(0x1d, "s_lshl_b64", "qqi", s_lshl_b64),
    SOP2(0x1e, "s_lshr_b32", "iii", s_lshr_b32),
    SOP2(0x1f, "s_lshr_b64", "qqi", s_lshr_b64),
    SOP2(0x20, "s_ashr_i32", "iii", s_ashr_i32),
    SOP2(0x21, "s_ashr_i64", "qqi", s_ashr_i64),
    SOP2(0x22, "s_bfm_b32", "iii", s_bfm_b32),
    SOP2(0x23, "s_bfm_b64", "qii", s_bfm_b64),
    SOP2(0x24, "s_mul_i32", "iii", s_mul_i32),
    SOP2(0x25, "s_bfe_u32", "iii", s_bfe_u32),
    SOP2(0x26, "s_bfe_i32", "iii", s_bfe_i32),
    SOP2(0x27, "s_bfe_u64", "qqi", s_bfe_u64),
    SOP2(0x28, "s_bfe_i64", "qqi", s_bfe_i64),
    SOP2(0x2a, "s_absdiff_i32", "iii", s_absdiff_i32),
    SOP2(0x2c, "s_mul_hi_u32", "iii", s_mul_hi_u32),
    SOP2(0x2d, "s_mul_hi_i32", "iii", s_mul_hi_i32),
    SOP2(0x2e, "s_lshl1_add_u32", "iii", s_lshl1_add_u32),
    SOP2(0x2f, "s_lshl2_add_u32", "iii", s_lshl2_add_u32),
    SOP2(0x30, "s_lshl3_add_u32", "iii", s_lshl3_add_u32),
    SOP2(0x31, "s_lshl4_add_u32", "iii", s_lshl4_add_u32),
    SOP2(0x32, "s_pack_ll_b32_b16", "iii", s_pack_ll_b32_b16),
    SOP2(0x33, "s_pack_lh_b32_b16", "iii", s_pack_lh_b32_b16),
    SOP2(0x34, "s_pack_hh_b32_b16", "iii", s_pack_hh_b32_b16),
    SOP1(0x00, "s_mov_b32", "ii", s_mov_b32),
    SOP1(0x01, "s_mov_b64", "qq", s_mov_b64),
    SOP1(0x02, "s_cmov_b32", "ii", s_cmov_b32),
    SOP1(0x03, "s_cmov_b64", "qq", s_cmov_b64),
    SOP1(0x04, "s_not_b32", "ii", s_not_b32),
    SOP1(0x05, "s_not_b64", "qq", s_not_b64),
    SOP1(0x08, "s_brev_b32", "ii", s_brev_b32),
    SOP1(0x09, "s_brev_b64", "qq", s_brev_b64),
    SOP1(0x0a, "s_bcnt0_i32_b32", "ii", s_bcnt0_i32_b32),
    SOP1(0x0b, "s_bcnt0_i32_b64", "iq", s_bcnt0_i32_b64),
    SOP1(0x0c, "s_bcnt1_i32_b32", "ii", s_bcnt1_i32_b32),
    SOP1(0x0d, "s_bcnt1_i32_b64", "iq", s_bcnt1_i32_b64),
    SOP1(0x0e, "s_ff0_i32_b32", "ii", s_ff0_i32_b32),
    SOP1(0x0f, "s_ff0_i32_b64", "iq", s_ff0_i32_b64),
    SOP1(0x10, "s_ff1_i32_b32", "ii", s_ff1_i32_b32),
    SOP1(0x11, "s_ff1_i32_b64", "iq", s_ff1_i32_b64),
    SOP1(0x12, "s_flbit_i32_b32", "ii", s_flbit_i32_b32),
    SOP1(0x13, "s_flbit_i32_b64", "iq", s_flbit_i32_b64),
    SOP1(0x14, "s_flbit_i32", "ii", s_flbit_i32),
    SOP1(0x15, "s_flbit_i32_i64", "iq", s_flbit_i32_i64),
    SOP1(0x16, "s_sext_i32_i8", "ii", s_sext_i32_i8),
    SOP1(0x17, "s_sext_i32_i16", "ii", s_sext_i32_i16),
    SOP1(0x18, "s_bitset0_b32", "ii", s_bitset0_b32),
    SOP1(0x1a, "s_bitset1_b32", "ii", s_bitset1_b32),
    SOP1(0x1e, "s_swappc_b64", "qq", s_swappc_b64),
    {ENC_SOP1, 0x20, "s_and_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_AND},
    {ENC_SOP1, 0x21, "s_or_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_OR},
    {ENC_SOP1, 0x22, "s_xor_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_XOR},
    {ENC_SOP1, 0x23, "s_andn2_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_ANDN2},
    {ENC_SOP1, 0x24, "s_orn2_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_ORN2},
    {ENC_SOP1, 0x25, "s_nand_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_NAND},
    {ENC_SOP1, 0x26, "s_nor_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_NOR},
    {ENC_SOP1, 0x27, "s_xnor_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_XNOR},
    SOP1(0x30, "s_abs_i32", "ii", s_abs_i32),
    {ENC_SOP1, 0x33, "s_andn1_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_ANDN1},
    {ENC_SOP1, 0x34, "s_orn1_saveexec_b64", "qq", .exec = saveexec, .arg = EXEC_ORN1},
    {ENC_SOP1, 0x35, "s_andn1_wrexec_b64", "qq", .exec = wrexec, .arg = EXEC_ANDN1},
    {ENC_SOP1, 0x36, "s_andn2_wrexec_b64", "qq", .exec = wrexec, .arg = EXEC_ANDN2},
    SOP1(0x1c, "s_getpc_b64", "q", s_getpc_b64),
    SOP1(0x1d, "s_setpc_b64", "-q", s_setpc_b64),
    {ENC_SOPC, 0x00, "s_cmp_eq_i32", "-ii", .exec = s_cmp_eq},
    {ENC_SOPC, 0x01, "s_cmp_lg_i32", "-ii", .exec = s_cmp_lg},
    {ENC_SOPC, 0x02, "s_cmp_gt_i32", "-ii", .exec = s_cmp_gt_i32},
    {ENC_SOPC, 0x03, "s_cmp_ge_i32", "-ii", .exec = s_cmp_ge_i32},
    {ENC_SOPC, 0x04, "s_cmp_lt_i32", "-ii", .exec = s_cmp_lt_i32},
    {ENC_SOPC, 0x05, "s_cmp_le_i32", "-ii", .exec = s_cmp_le_i32},
    {ENC_SOPC, 0x06, "s_cmp_eq_u32", "-ii", .exec = s_cmp_eq},
    {ENC_SOPC, 0x07, "s_cmp_lg_u32", "-ii", .exec = s_cmp_lg},
    {ENC_SOPC, 0x08, "s_cmp_gt_u32", "-ii", .exec = s_cmp_gt_u32},
    {ENC_SOPC, 0x09, "s_cmp_ge_u32", "-ii", .exec = s_cmp_ge_u32},
    {ENC_SOPC, 0x0a, "s_cmp_lt_u32", "-ii", .exec = s_cmp_lt_u32},
    {ENC_SOPC, 0x0b, "s_cmp_le_u32", "-ii", .exec = s_cmp_le_u32},
    {ENC_SOPC, 0x0c, "s_bitcmp0_b32", "-ii", .exec = s_bitcmp0_b32},
    {ENC_SOPC, 0x0d, "s_bitcmp1_b32", "-ii", .exec = s_bitcmp1_b32},
    {ENC_SOPC, 0x0e, "s_bitcmp0_b64", "-qi", .exec = s_bitcmp_b64, .arg = 0},
    {ENC_SOPC, 0x0f, "s_bitcmp1_b64", "-qi", .exec = s_bitcmp_b64, .arg = 1},
    {ENC_SOPC, 0x12, "s_cmp_eq_u64", "-qq", .exec = s_cmp_u64, .arg = 1},
    {ENC_SOPC, 0x13, "s_cmp_lg_u64", "-qq", .exec = s_cmp_u64, .arg = 0},
    {ENC_SOPK, 0x02, "s_cmpk_eq_i32", "-i", .exec = s_cmpk, .arg = K_EQ},
    {ENC_SOPK, 0x03, "s_cmpk_lg_i32", "-i", .exec = s_cmpk, .arg = K_LG},
    {ENC_SOPK, 0x04, "s_cmpk_gt_i32", "-i", .exec = s_cmpk, .arg = K_GT},
    {ENC_SOPK, 0x05, "s_cmpk_ge_i32", "-i", .exec = s_cmpk, .arg = K_GE},
    {ENC_SOPK, 0x06, "s_cmpk_lt_i32", "-i", .exec = s_cmpk, .arg = K_LT},
    {ENC_SOPK, 0x07, "s_cmpk_le_i32", "-i", .exec = s_cmpk, .arg = K_LE},
    {ENC_SOPK, 0x08, "s_cmpk_eq_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_EQ},
    {ENC_SOPK, 0x09, "s_cmpk_lg_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_LG},
    {ENC_SOPK, 0x0a, "s_cmpk_gt_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_GT},
    {ENC_SOPK, 0x0b, "s_cmpk_ge_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_GE},
    {ENC_SOPK, 0x0c, "s_cmpk_lt_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_LT},
    {ENC_SOPK, 0x0d, "s_cmpk_le_u32", "-i", .exec = s_cmpk, .arg = 1 << 8 | K_LE},
    {ENC_SOPK, 0x00, "s_movk_i32", "i", .exec = s_movk_i32},
    {ENC_SOPK, 0x01, "s_cmovk_i32", "i", .exec = s_cmovk_i32},
    {ENC_SOPK, 0x0e, "s_addk_i32", "ii", .exec = s_addk_i32},
    {ENC_SOPK, 0x0f, "s_mulk_i32", "ii", .exec = s_mulk_i32},
    {ENC_SOPK, 0x11, "s_getreg_b32", "i", .exec = s_getreg_b32},
    {ENC_SOPK, 0x12, "s_setreg_b32", "-i", .exec = s_setreg_b32},
    {ENC_SOPK, 0x14, "s_setreg_imm32_b32", "-", .exec = s_setreg_b32},
    {ENC_SOPK, 0x15, "s_call_b64", "q", .exec = s_call_b64},
    {ENC_SOPP, 0x00, "s_nop", "-", .exec = s_nop},
    {ENC_SOPP, 0x01, "s_endpgm", "-", .exec = s_endpgm},
    BRANCH(0x02, "s_branch", "-", BRANCH_ALWAYS),
    {ENC_SOPP, 0x03, "s_wakeup", "-", .exec = nothing},
    BRANCH(0x04, "s_cbranch_scc0", "-", BRANCH_SCC0),
    BRANCH(0x05, "s_cbranch_scc1", "-", BRANCH_SCC1),
    BRANCH(0x06, "s_cbranch_vccz", "-v", BRANCH_VCCZ),
    BRANCH(0x07, "s_cbranch_vccnz", "-v", BRANCH_VCCNZ),
    BRANCH(0x08, "s_cbranch_execz", "-", BRANCH_EXECZ),
    BRANCH(0x09, "s_cbranch_execnz", "-", BRANCH_EXECNZ),
    {ENC_SOPP, 0x0a, "s_barrier", "-", .exec = s_barrier},
    {ENC_SOPP, 0x0c, "s_waitcnt", "-", .exec = s_waitcnt},
    {ENC_SOPP, 0x0e, "s_sleep", "-", .exec = s_sleep},
    {ENC_SOPP, 0x0f, "s_setprio", "-", .exec = nothing},
    {ENC_SOPP, 0x12, "s_trap", "-", .exec = s_trap},
    {ENC_SOPP, 0x13, "s_icache_inv", "-", .exec = nothing},
    {0},
};
