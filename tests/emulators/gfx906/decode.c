/* decode.c: machine words to struct insn, once per instruction of a kernel. An instruction that is
 * not in the tables, or uses a field in an unsupported way, becomes one that faults when it is
 * reached. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

extern const struct op lanes_int_base[], lanes_f32_base[], lanes_f16_base[];
#ifdef __x86_64__
extern const struct op lanes_int_v3[], lanes_f32_v3[], lanes_f16_v3[];
#endif

enum { MAX_CODE = 1024, SRC_SDWA = 249, SRC_DPP = 250, SRC_LITERAL = 255 };
static const struct op *by_code[N_ENC][MAX_CODE];

static void add_table(const struct op *t)
{
    for (; t->name; t++) by_code[t->enc][t->code] = t;
}

void decode_init(bool portable)
{
    add_table(lanes_int_base), add_table(lanes_f32_base), add_table(lanes_f16_base);
#ifdef __x86_64__
    if (!portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
        add_table(lanes_int_v3), add_table(lanes_f32_v3), add_table(lanes_f16_v3);
#endif
    add_table(ops_salu), add_table(ops_valu), add_table(ops_mem), add_table(ops_lds);
}

const struct op *decode_op(enum encoding enc, int code)
{
    return code < MAX_CODE ? by_code[enc][code] : NULL;
}

static void exec_refused(struct wave *w, const struct insn *i)
{
    fault(w, i, -1, "%s (encoding %08x %08x)", i->refusal, i->word[0], i->word[1]);
}

static void refuse(struct insn *i, const char *why)
{
    if (i->refusal) return;
    i->exec = exec_refused;
    i->refusal = why;
}

static void mark_v(const struct kernel *k, struct insn *i, uint64_t set[4], int reg, int n)
{
    if (reg + n > (int)k->n_vgprs) refuse(i, "VGPR above the number that the kernel declares");
    for (; n-- && reg < 256; reg++) set[reg / 64] |= 1ull << reg % 64;
}

static void mark_s(const struct kernel *k, struct insn *i, uint64_t set[2], int reg, int n)
{
    if (reg < 102 && reg + n > (int)k->n_sgprs)
        refuse(i, "SGPR above the number that the kernel declares");
    for (; n-- && reg < 128; reg++) set[reg / 64] |= 1ull << reg % 64;
}

static int type_regs(char type)
{
    return type == 'd' || type == 'q' || type == 's' || type == 'k' ? 2 : 1;
}

/* 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / (2 pi): as fp64, fp32, fp16 */
static uint64_t inline_float(int code, char type)
{
    static const uint64_t d[] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                 0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                 0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
    static const uint32_t f[] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                 0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
    static const uint16_t h[] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
                                 0xc000, 0x4400, 0xc400, 0x3118};
    int n = code - 240;
    return type == 'd' || type == 'q'                  ? d[n]
           : type == 'h' || type == 'w' || type == 'p' ? h[n]
                                                       : f[n];
}

/* Source k: a 9-bit code (256 and up: VGPR), or 8 bits of a scalar instruction. */
static void set_source(const struct kernel *kn, struct insn *i, int k, int code, char type)
{
    struct src *s = &i->src[k];
    int n = type_regs(type);
    s->type = (uint8_t)type;
    s->sel = SEL_DWORD;
    if (k >= i->n_src) i->n_src = (uint8_t)(k + 1);
    if (code >= 256) {
        s->kind = SRC_VGPR, s->reg = (uint8_t)(code - 256);
        mark_v(kn, i, i->check_v, s->reg, n);
    } else if (code < 128) {
        s->kind = SRC_SGPR, s->reg = (uint8_t)code;
        mark_s(kn, i, i->check_s, code, n);
    } else if (code <= 208) {
        s->kind = SRC_CONST, s->value = (uint64_t)(int64_t)(code <= 192 ? code - 128 : 192 - code);
    } else if (code >= 240 && code <= 248) {
        s->kind = SRC_CONST, s->value = inline_float(code, type);
    } else if (code == SRC_LITERAL) {
        s->kind = SRC_CONST, s->value = type == 'd' ? (uint64_t)i->literal << 32 : i->literal;
    } else if (code >= 235 && code <= 238) {
        static const uint64_t aperture[] = {LDS_APERTURE, LDS_APERTURE | 0xffffffff,
                                            SCRATCH_APERTURE, SCRATCH_APERTURE | 0xffffffff};
        s->kind = SRC_CONST, s->value = aperture[code - 235];
    } else if (code >= SPECIAL_VCCZ && code <= SPECIAL_SCC) {
        s->kind = SRC_SPECIAL, s->reg = (uint8_t)code;
        if (code == SPECIAL_VCCZ) mark_s(kn, i, i->check_s, SGPR_VCC, 2);
    } else {
        refuse(i, "unknown source operand");
    }
}

static void write_mask(const struct kernel *k, struct insn *i, int sdst, int n)
{
    i->sdst = (uint8_t)sdst;
    mark_s(k, i, i->check_s, sdst, n);
    mark_s(k, i, i->write_s, sdst, n);
}

static void write_vgpr(const struct kernel *k, struct insn *i, int dst, int n)
{
    i->dst = (uint8_t)dst;
    mark_v(k, i, i->check_v, dst, n);
    mark_v(k, i, i->write_v, dst, n);
}

/* The result of a vector instruction; sdst: where its mask goes, if it makes one. */
static void set_result(const struct kernel *k, struct insn *i, int dst, int sdst)
{
    char t = i->op->sig[0];
    i->dst_type = (uint8_t)t;
    if (t == 's') write_mask(k, i, sdst, 2);
    else if (t == 'r') write_mask(k, i, dst, 1);
    else if (t != '-') write_vgpr(k, i, dst, type_regs(t));
    if (t == 'c' || t == 'k') write_mask(k, i, sdst, 2);
    if (i->cmpx) mark_s(k, i, i->write_s, SGPR_EXEC, 2);
}

/* Which operands the lanes read without preparation, and whether the result needs none. */
static void finish_vector(struct insn *i)
{
    for (int k = 0; k < i->n_src; k++) {
        struct src *s = &i->src[k];
        bool modified = s->neg || s->abs || s->sext || s->sel != SEL_DWORD || (k == 0 && i->dpp);
        if (s->type == 'p') modified = s->neg || s->neg_hi || s->hi || !s->hi2;
        else if (s->type == 'm') modified = modified || s->hi2;
        else modified = modified || s->hi;
        s->plain = s->kind == SRC_VGPR && !modified;
        if ((s->neg || s->abs) && !strchr("fFhdpm", s->type)) refuse(i, "neg or abs of an integer");
        if (s->hi && !strchr("hwpm", s->type)) refuse(i, "op_sel of a whole register");
    }
    if (i->op->exec && i->op->exec != exec_lanes) i->exec = i->op->exec;
    else i->exec = i->op->mask ? exec_compare : exec_lanes;
    bool packed_float = i->op->enc == ENC_VOP3P && i->op->code >= 0x0e &&
                        i->op->code <= 0x12; /* v_pk_fma_f16 .. v_pk_max_f16 */
    bool float_result = strchr("fhHd", i->dst_type) || packed_float;
    if ((i->clamp && !float_result) || (i->omod && !strchr("fhHd", i->dst_type)))
        refuse(i, "clamp or output factor of an integer");
    if (i->op->enc != ENC_VOP3 && i->op->enc != ENC_VOP3P && i->dst_hi)
        refuse(i, "op_sel of a result that has none");
    i->direct = strchr("ifhwp", i->dst_type) && !i->clamp && !i->omod && !i->dpp &&
                !(i->sdwa && i->dst_sel != SEL_DWORD) && i->op->lane;
    if (i->op->enc == ENC_VOP3P && i->op->code == 0x22) i->dst_hi = true; /* v_fma_mixhi_f16 */
    if (i->refusal) i->exec = exec_refused;
}

/* The second word of a DPP or SDWA instruction; returns the code of source 0. */
static int extra_word(struct insn *i, bool sdwa, bool compare)
{
    uint32_t x = i->word[1];
    i->n_words = 2;
    if (sdwa) {
        i->sdwa = true;
        i->dst_sel = compare ? SEL_DWORD : x >> 8 & 7, i->dst_unused = compare ? 0 : x >> 11 & 3;
        i->clamp = !compare && (x >> 13 & 1), i->omod = compare ? 0 : x >> 14 & 3;
        return (int)(x & 255) + (x >> 23 & 1 ? 0 : 256);
    }
    i->dpp = true;
    i->dpp_ctrl = x >> 8 & 0x1ff, i->bound_ctrl = x >> 19 & 1;
    i->bank_mask = x >> 24 & 15, i->row_mask = x >> 28;
    return (int)(x & 255) + 256;
}

static void extra_modifiers(struct insn *i)
{
    uint32_t x = i->word[1];
    struct src *a = &i->src[0], *b = &i->src[1];
    if (i->sdwa) {
        bool fp[2] = {strchr("fFhd", a->type) != NULL, strchr("fFhd", b->type) != NULL};
        a->sel = x >> 16 & 7, a->sext = x >> 19 & 1, a->neg = fp[0] && (x >> 20 & 1),
        a->abs = fp[0] && (x >> 21 & 1);
        if (i->n_src > 1)
            b->sel = x >> 24 & 7, b->sext = x >> 27 & 1, b->neg = fp[1] && (x >> 28 & 1),
            b->abs = fp[1] && (x >> 29 & 1);
        if (a->sel == 7 || b->sel == 7 || i->dst_sel == 7) refuse(i, "reserved SDWA selection");
    } else {
        a->neg = x >> 20 & 1, a->abs = x >> 21 & 1;
        if (i->n_src > 1) b->neg = x >> 22 & 1, b->abs = x >> 23 & 1;
    }
}

static const struct op *find(struct insn *i, enum encoding enc, int code)
{
    i->op = decode_op(enc, code);
    if (!i->op && enc == ENC_VOPC && (code & 0x10) && code >= 0x20)
        i->op = decode_op(enc, code & ~0x10), i->cmpx = true;
    if (!i->op && enc == ENC_VOPC && (code & 0xf9) == 0x11)
        i->op = decode_op(enc, code & ~1), i->cmpx = true;
    if (!i->op) refuse(i, "unknown instruction");
    return i->op;
}

static void decode_vop12c(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0];
    int code = x >> 25 & 63, src0 = x & 511, vsrc1 = (int)(x >> 9 & 255) + 256, dst = x >> 17 & 255;
    enum encoding enc = code == 63 ? ENC_VOP1 : code == 62 ? ENC_VOPC : ENC_VOP2;
    if (enc == ENC_VOP1) code = x >> 9 & 255;
    if (enc == ENC_VOPC) code = dst;
    i->unit = UNIT_VALU;
    const struct op *op = find(i, enc, code);
    if (!op) return;
    bool has_k = enc == ENC_VOP2 && (code == 0x17 || code == 0x18 || code == 0x24 || code == 0x25);
    if (src0 == SRC_LITERAL || has_k) i->literal = i->word[1], i->n_words = 2;
    bool extra = src0 == SRC_SDWA || src0 == SRC_DPP;
    if (extra) src0 = extra_word(i, src0 == SRC_SDWA, enc == ENC_VOPC);
    const char *sig = op->sig;
    if (sig[1]) set_source(k, i, 0, src0, sig[1]);
    if (enc != ENC_VOP1 && sig[1] && sig[2]) {
        if (i->sdwa && i->word[1] >> 31) vsrc1 -= 256; /* source 1 is an SGPR */
        bool madmk = has_k && (code & 1) == (code < 0x20);
        set_source(k, i, 1, madmk ? SRC_LITERAL : vsrc1, sig[2]);
        if (sig[3])
            set_source(k, i, 2,
                       sig[3] == 's' ? SGPR_VCC
                       : !has_k      ? 256 + dst
                       : madmk       ? vsrc1
                                     : SRC_LITERAL,
                       sig[3]);
    }
    if (extra) extra_modifiers(i);
    int mask = i->sdwa && enc == ENC_VOPC && (i->word[1] >> 15 & 1) ? (int)(i->word[1] >> 8 & 127)
                                                                    : SGPR_VCC;
    set_result(k, i, dst, mask);
    finish_vector(i);
}

static void decode_vop3(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    int code = x >> 16 & 1023, src[3] = {y & 511, y >> 9 & 511, y >> 18 & 511};
    i->n_words = 2;
    i->unit = UNIT_VALU;
    const struct op *op = code < 0x100   ? find(i, ENC_VOPC, code)
                          : code < 0x140 ? find(i, ENC_VOP2, code - 0x100)
                          : code < 0x1c0 ? find(i, ENC_VOP1, code - 0x140)
                                         : find(i, ENC_VOP3, code);
    if (op && op->enc == ENC_VOP2 && x >> 15 & 1 && code >= 0x100 + VOP2_ADD_U32 &&
        code < 0x100 + VOP2_ADD_U32 + 3) {
        op = find(i, ENC_VOP3, CODE_CLAMPED + code - 0x100 - VOP2_ADD_U32);
        x &= ~(1u << 15);
    }
    if (!op) return;
    bool has_sdst = op->sig[0] == 'c' || op->sig[0] == 'k';
    int abs = has_sdst ? 0 : x >> 8 & 7, op_sel = has_sdst ? 0 : x >> 11 & 15;
    i->clamp = x >> 15 & 1, i->omod = y >> 27 & 3, i->dst_hi = op_sel >> 3;
    for (int n = 0; n < 3 && op->sig[1] && op->sig[n + 1]; n++) {
        bool tied = op->enc == ENC_VOP2 && n == 2 &&
                    op->sig[3] != 's'; /* mac: the third source is the destination */
        if (src[n] == SRC_LITERAL) refuse(i, "literal in VOP3");
        set_source(k, i, n, tied ? 256 + (int)(x & 255) : src[n], op->sig[n + 1]);
        i->src[n].abs = abs >> n & 1, i->src[n].neg = y >> (29 + n) & 1,
        i->src[n].hi = op_sel >> n & 1;
        if (op->sig[n + 1] == 's') i->src[n].hi = i->src[n].neg = false;
    }
    set_result(k, i, x & 255, code < 0x100 ? (int)(x & 127) : (int)(x >> 8 & 127));
    finish_vector(i);
}

static void decode_vop3p(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    int src[3] = {y & 511, y >> 9 & 511, y >> 18 & 511},
        hi2 = (int)(y >> 27 & 3) | (int)(x >> 14 & 1) << 2;
    i->n_words = 2;
    i->unit = UNIT_VALU;
    const struct op *op = find(i, ENC_VOP3P, x >> 16 & 127);
    if (!op) return;
    i->clamp = x >> 15 & 1;
    for (int n = 0; n < 3 && op->sig[n + 1]; n++) {
        char type = op->sig[n + 1];
        struct src *s = &i->src[n];
        s->hi = x >> (11 + n) & 1, s->hi2 = hi2 >> n & 1;
        set_source(k, i, n, src[n],
                   type == 'm' && s->hi2 ? 'h' : type); /* an inline constant is fp16 there */
        s->type = (uint8_t)type;
        s->neg = y >> (29 + n) & 1;
        if (type == 'm') s->abs = x >> (8 + n) & 1;
        else s->neg_hi = x >> (8 + n) & 1;
        if (type == 'f') s->hi = s->neg_hi = false;
        if (type == 'i' && (s->hi || s->neg_hi)) refuse(i, "half selection of a whole register");
        if (type == 'i') s->hi = s->neg_hi = false;
    }
    set_result(k, i, x & 255, 0);
    finish_vector(i);
}

/* Scalar results: 'q' two registers, 'i' one; '-' none. */
static void scalar_result(const struct kernel *k, struct insn *i, int sdst)
{
    char t = i->op->sig[0];
    i->dst_type = (uint8_t)t;
    i->sdst = (uint8_t)sdst;
    if (t != '-') mark_s(k, i, i->check_s, sdst, type_regs(t));
    if (sdst > 127) refuse(i, "unknown destination");
}

static void decode_scalar(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0];
    int sdst = x >> 16 & 127, s0 = x & 255, s1 = x >> 8 & 255;
    const struct op *op;
    i->unit = UNIT_SALU;
    i->simm = (int16_t)(x & 0xffff);
    if (x >> 23 == 0x17f) {
        op = find(i, ENC_SOPP, x >> 16 & 127);
        if (!op) return;
        i->unit = (uint8_t)(op->arg >> 8 ? op->arg >> 8 : UNIT_OTHER);
        i->exec = op->exec;
        if (op->sig[1] == 'v') mark_s(k, i, i->check_s, SGPR_VCC, 2);
        return;
    }
    if (x >> 28 == 0xb && (x >> 23 & 31) < 0x1d) {
        op = find(i, ENC_SOPK, x >> 23 & 31);
        if (!op) return;
        if ((x >> 23 & 31) == 0x14)
            i->literal = i->word[1], i->n_words = 2; /* s_setreg_imm32_b32 */
        if (op->sig[1] == 'i') set_source(k, i, 0, sdst, 'i');
        scalar_result(k, i, sdst);
    } else if (x >> 23 == 0x17d || x >> 23 == 0x17e) {
        bool one = x >> 23 == 0x17d;
        op = find(i, one ? ENC_SOP1 : ENC_SOPC, one ? s1 : (int)(x >> 16 & 127));
        if (!op) return;
        if (s0 == SRC_LITERAL || (!one && s1 == SRC_LITERAL))
            i->literal = i->word[1], i->n_words = 2;
        if (op->sig[1]) set_source(k, i, 0, s0, op->sig[1]);
        if (op->sig[1] && op->sig[2]) set_source(k, i, 1, one ? sdst : s1, op->sig[2]);
        scalar_result(k, i, one ? sdst : 0);
    } else {
        op = find(i, ENC_SOP2, x >> 23 & 127);
        if (!op) return;
        if (s0 == SRC_LITERAL || s1 == SRC_LITERAL) i->literal = i->word[1], i->n_words = 2;
        set_source(k, i, 0, s0, op->sig[1]);
        set_source(k, i, 1, s1, op->sig[2]);
        scalar_result(k, i, sdst);
    }
    i->exec = i->refusal ? exec_refused : op->exec;
}

static void decode_smem(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    i->n_words = 2;
    i->unit = UNIT_SMEM;
    const struct op *op = find(i, ENC_SMEM, x >> 18 & 255);
    if (!op) return;
    i->sbase = (uint8_t)((x & 63) * 2);
    i->sdst = x >> 6 & 127;
    i->n_dwords = (uint8_t)op->arg;
    bool imm = x >> 17 & 1, soffset_en = x >> 14 & 1;
    i->soffset = soffset_en ? (uint8_t)(y >> 25) : imm ? 255 : y & 127;
    i->offset = imm ? (int32_t)(y << 11) >> 11 : 0;
    i->glc = x >> 16 & 1;
    if (i->soffset != 255) mark_s(k, i, i->check_s, i->soffset, 1);
    if (op->sig[1]) mark_s(k, i, i->check_s, i->sbase, op->sig[1] == 'b' ? 4 : 2);
    if (i->n_dwords) mark_s(k, i, i->check_s, i->sdst, i->n_dwords);
    i->exec = i->refusal ? exec_refused : op->exec;
}

/* The registers of a vector memory instruction: data read, data written. A load may not overtake an
 * earlier load of the same kind, so its target is checked when it is issued, not here. */
static void memory_data(const struct kernel *k, struct insn *i, int vdst)
{
    const struct transfer *t = &transfers[i->transfer];
    i->dst = (uint8_t)vdst;
    i->n_dwords = t->data;
    if (t->data) mark_v(k, i, i->check_v, i->data, t->data);
    if (t->data1) mark_v(k, i, i->check_v, i->data1, t->data1);
    uint64_t unused[4] = {0};
    if (t->keeps_half) mark_v(k, i, i->check_v, vdst, 1);
    else if (t->result && (i->glc || !t->atomic)) mark_v(k, i, unused, vdst, t->result);
}

static void decode_ds(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    i->n_words = 2;
    i->unit = UNIT_LDS;
    const struct op *op = find(i, ENC_DS, x >> 17 & 255);
    if (!op) return;
    if (x >> 16 & 1) refuse(i, "GDS");
    i->transfer = (uint8_t)op->arg;
    i->offset = x & 0xffff, i->offset1 = x >> 8 & 255;
    i->addr = y & 255, i->data = y >> 8 & 255, i->data1 = y >> 16 & 255;
    i->glc = x >> 22 & 1; /* atomics that return the old value have opcodes of their own */
    mark_v(k, i, i->check_v, i->addr, 1);
    memory_data(k, i, (int)(y >> 24));
    i->exec = i->refusal ? exec_refused : op->exec;
}

static void decode_flat(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    i->n_words = 2;
    i->unit = UNIT_VMEM;
    const struct op *op = find(i, ENC_FLAT, x >> 18 & 127);
    if (!op) return;
    i->seg = x >> 14 & 3;
    i->glc = x >> 16 & 1;
    i->transfer = (uint8_t)op->arg;
    i->offset = i->seg ? (int32_t)(x << 19) >> 19 : (int32_t)(x & 0xfff);
    i->addr = y & 255, i->data = y >> 8 & 255, i->sbase = y >> 16 & 127;
    i->has_saddr = i->seg && i->sbase != 127;
    if (i->seg == 3 || (x >> 13 & 1)) refuse(i, "unknown instruction");
    if (i->has_saddr) mark_s(k, i, i->check_s, i->sbase, i->seg == 2 ? 2 : 1);
    if (i->seg != 1 || !i->has_saddr)
        mark_v(k, i, i->check_v, i->addr, i->seg == 1 || i->has_saddr ? 1 : 2);
    memory_data(k, i, (int)(y >> 24));
    i->exec = i->refusal ? exec_refused : op->exec;
}

static void decode_mubuf(const struct kernel *k, struct insn *i)
{
    uint32_t x = i->word[0], y = i->word[1];
    i->n_words = 2;
    i->unit = UNIT_VMEM;
    const struct op *op = find(i, ENC_MUBUF, x >> 18 & 127);
    if (!op) return;
    i->transfer = (uint8_t)op->arg;
    i->offset = x & 0xfff, i->offen = x >> 12 & 1, i->idxen = x >> 13 & 1, i->glc = x >> 14 & 1;
    i->addr = y & 255, i->data = y >> 8 & 255, i->sbase = (uint8_t)((y >> 16 & 31) * 4);
    i->exec = op->exec;
    if (op->sig[1] == 0) return; /* cache control: no operands */
    if (x >> 16 & 1) refuse(i, "buffer load to LDS");
    set_source(k, i, 0, (int)(y >> 24), 'i'); /* the scalar offset */
    mark_s(k, i, i->check_s, i->sbase, 4);
    if (i->offen || i->idxen) mark_v(k, i, i->check_v, i->addr, i->offen + i->idxen);
    memory_data(k, i, i->data);
    if (i->refusal) i->exec = exec_refused;
}

void decode(struct kernel *k, uint32_t pc, struct insn *i)
{
    const uint8_t *image = k->module->image;
    i->pc = pc;
    i->n_words = 1;
    memcpy(&i->word[0], image + pc, 4);
    if (pc + 8 <= k->module->size) memcpy(&i->word[1], image + pc + 4, 4);
    uint32_t x = i->word[0];
    if (x >> 31 == 0) decode_vop12c(k, i);
    else if (x >> 30 == 2) decode_scalar(k, i);
    else if (x >> 26 == 0x30) decode_smem(k, i);
    else if (x >> 23 == 0x1a7) decode_vop3p(k, i);
    else if (x >> 26 == 0x34) decode_vop3(k, i);
    else if (x >> 26 == 0x36) decode_ds(k, i);
    else if (x >> 26 == 0x37) decode_flat(k, i);
    else if (x >> 26 == 0x38) decode_mubuf(k, i);
    else refuse(i, "unknown instruction");
    if (pc + 4u * i->n_words > k->module->size)
        refuse(i, "instruction cut off by the end of the image");
}
