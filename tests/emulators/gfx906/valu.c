/* valu.c: the vector unit around the lane operations: sources with modifiers (DPP, SDWA, op_sel,
 * neg, abs), results under the EXEC mask, and operations on several register rows or a scalar
 * register. */
#include "gpu.h"
#include "numeric.h"

/* --- sources */
uint32_t salu_read(const struct wave *w, const struct src *s)
{
    if (s->kind == SRC_SGPR) return w->s[s->reg];
    if (s->kind == SRC_CONST)
        return (uint32_t)(s->value >= LDS_APERTURE && s->value <= (SCRATCH_APERTURE | 0xffffffff)
                              ? s->value >> 32
                              : s->value);
    if (s->reg == SPECIAL_SCC) return w->scc;
    return s->reg == SPECIAL_VCCZ ? VCC(w) == 0 : EXEC(w) == 0;
}

uint64_t salu_read64(const struct wave *w, const struct src *s)
{
    if (s->kind == SRC_SGPR) return w->s[s->reg] | (uint64_t)w->s[s->reg + 1] << 32;
    return s->kind == SRC_CONST ? s->value : salu_read(w, s);
}

/* The lane that lane l reads under a DPP control; -1: none. */
static int dpp_source(int ctrl, int l)
{
    int row = l & ~15, q = l & 15, n = ctrl & 15;
    if (ctrl <= 0xff) return (l & ~3) | (ctrl >> 2 * (l & 3) & 3);
    if (ctrl >= 0x101 && ctrl <= 0x10f) return q + n < 16 ? l + n : -1; /* row_shl */
    if (ctrl >= 0x111 && ctrl <= 0x11f) return q - n >= 0 ? l - n : -1; /* row_shr */
    if (ctrl >= 0x121 && ctrl <= 0x12f) return row | ((q - n) & 15);    /* row_ror */
    switch (ctrl) {
    case 0x130: return l < 63 ? l + 1 : -1; /* wave_shl:1 */
    case 0x134: return (l + 1) & 63;        /* wave_rol:1 */
    case 0x138: return l - 1;               /* wave_shr:1 */
    case 0x13c: return (l - 1) & 63;        /* wave_ror:1 */
    case 0x140: return row | (15 - q);      /* row_mirror */
    case 0x141: return (l & ~7) | (7 - (l & 7));
    case 0x142: return row - 1;           /* row_bcast:15 */
    case 0x143: return l >= 32 ? 31 : -1; /* row_bcast:31 */
    default: return -2;
    }
}

/* Lanes that read no lane or an inactive one get 0 (bound_ctrl) or do not write. */
static void dpp_row(struct wave *w, const struct insn *i, uint32_t *t)
{
    const uint32_t *row = w->v[i->src[0].reg];
    w->dpp_mask = 0;
    for (int l = 0; l < LANES; l++) {
        int from = dpp_source(i->dpp_ctrl, l);
        if (from == -2) fault(w, i, -1, "unknown DPP control 0x%x", i->dpp_ctrl);
        bool valid = from >= 0 && (EXEC(w) >> from & 1);
        bool masked = (i->row_mask >> (l >> 4) & 1) && (i->bank_mask >> (l >> 2 & 3) & 1);
        t[l] = valid ? row[from] : 0;
        if (masked && (valid || i->bound_ctrl)) w->dpp_mask |= 1ull << l;
    }
}

static void broadcast(uint32_t *t, uint64_t x, bool wide)
{
    for (int l = 0; l < LANES; l++) t[l] = (uint32_t)x;
    for (int l = 0; l < LANES && wide; l++) t[LANES + l] = (uint32_t)(x >> 32);
}

static void apply_sdwa(const struct src *s, uint32_t *t)
{
    int shift = s->sel <= 3 ? 8 * s->sel : s->sel == SEL_WORD1 ? 16 : 0, n = s->sel <= 3 ? 8 : 16;
    if (s->sel == SEL_DWORD) return;
    for (int l = 0; l < LANES; l++)
        t[l] = s->sext ? (uint32_t)sext(t[l] >> shift, n)
                       : (t[l] >> shift) & (n == 8 ? 0xff : 0xffff);
}

static void apply_packed(const struct src *s, uint32_t *t)
{
    int lo = s->hi ? 16 : 0, hi = s->hi2 ? 16 : 0;
    uint32_t sign = (s->neg ? 0x8000u : 0) | (s->neg_hi ? 0x80000000u : 0);
    for (int l = 0; l < LANES; l++)
        t[l] = ((t[l] >> lo & 0xffff) | (t[l] >> hi & 0xffff) << 16) ^ sign;
}

static void apply_sign(const struct src *s, uint32_t *t)
{
    bool is_half = s->type == 'h';
    uint32_t *top = s->type == 'd' ? t + LANES : t, sign = is_half ? 0x8000 : 0x80000000;
    for (int l = 0; l < LANES && s->abs; l++) top[l] &= ~sign;
    for (int l = 0; l < LANES && s->neg; l++) top[l] ^= sign;
}

enum { FLUSH_IN = 1, FLUSH_OUT = 2 };
/* Which denormals the MODE register flushes for a type, as a mask of FLUSH_.. */
static int flushes(const struct wave *w, char type)
{
    uint32_t allowed = type == 'f' ? w->mode >> 4 & 3 : strchr("hHpd", type) ? w->mode >> 6 & 3 : 3;
    return 3 & ~(int)allowed;
}

static void flush_row(uint32_t *t, char type)
{
    for (int l = 0; l < LANES; l++) {
        if (type == 'f') t[l] = bits(flush(f32(t[l])));
        else if (type == 'd')
            t[LANES + l] &= t[LANES + l] & 0x7ff00000 ? ~0u : 0x80000000u,
                t[l] = t[LANES + l] & 0x7fffffff ? t[l] : 0;
        else if (type == 'p') t[l] = half_flush(t[l] & 0xffff) | half_flush(t[l] >> 16) << 16;
        else t[l] = half_flush(t[l] & 0xffff);
    }
}

const uint32_t *valu_source(struct wave *w, const struct insn *i, int k)
{
    const struct src *s = &i->src[k];
    bool all_denormals = (w->mode & 0xf0) == 0xf0;
    if (s->plain && all_denormals) return w->v[s->reg];
    uint32_t *t = w->tmp[k];
    bool wide = s->type == 'd' || s->type == 'q';
    if (s->kind == SRC_VGPR) {
        memcpy(t, w->v[s->reg], (wide ? 2 : 1) * sizeof w->v[0]);
        if (k == 0 && i->dpp) dpp_row(w, i, t);
    } else if (wide) {
        broadcast(t, salu_read64(w, s), true);
    } else {
        broadcast(t, salu_read(w, s), false);
    }
    if (s->type == 'p') {
        apply_packed(s, t);
    } else if (s->type == 'm') {
        if (s->hi2) {
            for (int l = 0; l < LANES; l++) t[l] = bits(half(s->hi ? t[l] >> 16 : t[l] & 0xffff));
        }
        apply_sign(s, t);
    } else {
        apply_sdwa(s, t);
        for (int l = 0; l < LANES && s->hi; l++) t[l] >>= 16;
        if (s->neg || s->abs) apply_sign(s, t);
    }
    if (!all_denormals && (flushes(w, (char)s->type) & FLUSH_IN)) flush_row(t, (char)s->type);
    return t;
}

/* --- results */
static void blend(uint32_t *d, const uint32_t *t, uint64_t mask)
{
    static const uint32_t expand[16][4] = {
        {0, 0, 0, 0},     {~0u, 0, 0, 0},     {0, ~0u, 0, 0},     {~0u, ~0u, 0, 0},
        {0, 0, ~0u, 0},   {~0u, 0, ~0u, 0},   {0, ~0u, ~0u, 0},   {~0u, ~0u, ~0u, 0},
        {0, 0, 0, ~0u},   {~0u, 0, 0, ~0u},   {0, ~0u, 0, ~0u},   {~0u, ~0u, 0, ~0u},
        {0, 0, ~0u, ~0u}, {~0u, 0, ~0u, ~0u}, {0, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}};
    if (mask == ~0ull) {
        memcpy(d, t, LANES * sizeof *d);
        return;
    }
    for (int l = 0; l < LANES; l += 4) {
        const uint32_t *m = expand[mask >> l & 15];
        for (int k = 0; k < 4; k++) d[l + k] = (t[l + k] & m[k]) | (d[l + k] & ~m[k]);
    }
}

static float scaled(float x, int omod)
{
    return omod == 1 ? x * 2 : omod == 2 ? x * 4 : omod == 3 ? x * 0.5f : x;
}
static float clamped(float x) { return x > 1 ? 1 : x > 0 ? x : 0; }

static void modify_result(const struct insn *i, uint32_t *t)
{
    for (int l = 0; l < LANES; l++) {
        if (i->dst_type == 'f') {
            float x = scaled(f32(t[l]), i->omod);
            t[l] = bits(i->clamp ? clamped(x) : x);
        } else if (i->dst_type == 'd') {
            double x = f64(join(t, l)) * (i->omod == 1   ? 2
                                          : i->omod == 2 ? 4
                                          : i->omod == 3 ? 0.5
                                                         : 1);
            split(t, l, bits64(!i->clamp ? x : x > 1 ? 1 : x > 0 ? x : 0));
        } else if (i->dst_type == 'p') {
            t[l] = to_half(clamped(half(t[l]))) | to_half(clamped(half(t[l] >> 16))) << 16;
        } else {
            float x = scaled(half(t[l]), i->omod);
            t[l] = to_half(i->clamp ? clamped(x) : x);
        }
    }
}

static void merge_sdwa(const struct insn *i, uint32_t *t, const uint32_t *old)
{
    int shift = i->dst_sel <= 3           ? 8 * i->dst_sel
                : i->dst_sel == SEL_WORD1 ? 16
                                          : 0,
        n = i->dst_sel <= 3 ? 8 : 16;
    uint32_t field = (n == 8 ? 0xffu : 0xffffu) << shift;
    for (int l = 0; l < LANES; l++) {
        uint32_t x = t[l] << shift & field;
        if (i->dst_unused == 2) t[l] = x | (old[l] & ~field);
        else
            t[l] = i->dst_unused == 1 ? (uint32_t)sext(t[l], n) << shift
                                      : x; /* extended above, 0 below */
    }
}

static uint64_t written_lanes(const struct wave *w, const struct insn *i)
{
    return i->dpp ? EXEC(w) & w->dpp_mask : EXEC(w);
}

void valu_commit(struct wave *w, const struct insn *i, int n_regs)
{
    uint64_t mask = written_lanes(w, i);
    uint32_t *t = w->out, *old = w->v[i->dst];
    if (i->sdwa && i->dst_sel != SEL_DWORD) merge_sdwa(i, t, old);
    else if (i->dst_type == 'H' || i->dst_type == 'W') {
        for (int l = 0; l < LANES; l++)
            t[l] = i->dst_hi ? (old[l] & 0xffff) | t[l] << 16 : (old[l] & 0xffff0000) | t[l];
    }
    for (int n = 0; n < n_regs; n++) blend(w->v[i->dst + n], t + n * LANES, mask);
}

void exec_lanes(struct wave *w, const struct insn *i)
{
    const uint32_t *s[3] = {0};
    bool all_denormals = (w->mode & 0xf0) == 0xf0;
    for (int k = 0; k < i->n_src; k++) s[k] = valu_source(w, i, k);
    if (i->direct && EXEC(w) == ~0ull && all_denormals) {
        i->op->lane(w->v[i->dst], s[0], s[1], s[2]);
        return;
    }
    i->op->lane(w->out, s[0], s[1], s[2]);
    if (i->omod || i->clamp) modify_result(i, w->out);
    if (!all_denormals && (flushes(w, (char)i->dst_type) & FLUSH_OUT))
        flush_row(w->out, (char)i->dst_type);
    valu_commit(w, i, i->dst_type == 'd' || i->dst_type == 'q' ? 2 : 1);
}

static void write_mask(struct wave *w, int sdst, uint64_t mask)
{
    w->s[sdst] = (uint32_t)mask;
    w->s[sdst + 1] = (uint32_t)(mask >> 32);
}

void exec_compare(struct wave *w, const struct insn *i)
{
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1);
    uint64_t mask = i->op->mask(a, b) & written_lanes(w, i);
    write_mask(w, i->sdst, mask);
    if (i->cmpx) EXEC(w) = mask;
}

/* --- operations with masks or scalar registers */
static void v_nop(struct wave *w, const struct insn *i) { (void)w, (void)i; }

static void v_cndmask_b32(struct wave *w, const struct insn *i)
{
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1);
    memcpy(w->out, a, LANES * sizeof *a);
    blend(w->out, b, salu_read64(w, &i->src[2]));
    valu_commit(w, i, 1);
}

enum { CARRY_ADD, CARRY_SUB, CARRY_SUBREV };
static void carry(struct wave *w, const struct insn *i)
{
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1);
    uint64_t in = i->n_src > 2 ? salu_read64(w, &i->src[2]) : 0, out = 0;
    for (int l = 0; l < LANES; l++) {
        uint64_t x = a[l], y = b[l], c = in >> l & 1;
        uint64_t r = i->op->arg == CARRY_ADD   ? x + y + c
                     : i->op->arg == CARRY_SUB ? x - y - c
                                               : y - x - c;
        w->out[l] = (uint32_t)r;
        out |= (r >> 32 & 1) << l;
    }
    valu_commit(w, i, 1);
    write_mask(w, i->sdst, out & written_lanes(w, i));
}

static void mad_64(struct wave *w, const struct insn *i)
{
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1), *c = valu_source(w, i, 2);
    uint64_t out = 0;
    for (int l = 0; l < LANES; l++) {
        uint64_t z = join(c, l),
                 p = i->op->arg ? (uint64_t)((int64_t)(int32_t)a[l] * (int32_t)b[l])
                                : (uint64_t)a[l] * b[l],
                 r = p + z;
        bool over = i->op->arg ? ((p ^ r) & (z ^ r)) >> 63 : r < p;
        split(w->out, l, r);
        out |= (uint64_t)over << l;
    }
    valu_commit(w, i, 2);
    write_mask(w, i->sdst, out & written_lanes(w, i));
}

static int first_lane(const struct wave *w) { return EXEC(w) ? __builtin_ctzll(EXEC(w)) : 0; }
static void v_readfirstlane_b32(struct wave *w, const struct insn *i)
{
    w->s[i->sdst] = valu_source(w, i, 0)[first_lane(w)];
}
static void v_readlane_b32(struct wave *w, const struct insn *i)
{
    w->s[i->sdst] = valu_source(w, i, 0)[salu_read(w, &i->src[1]) & 63];
}
static void v_writelane_b32(struct wave *w, const struct insn *i)
{
    w->v[i->dst][salu_read(w, &i->src[1]) & 63] = salu_read(w, &i->src[0]);
}
static void v_swap_b32(struct wave *w, const struct insn *i)
{
    memcpy(w->tmp[0], w->v[i->dst], sizeof w->v[0]);
    memcpy(w->tmp[1], w->v[i->src[0].reg], sizeof w->v[0]);
    blend(w->v[i->dst], w->tmp[1], EXEC(w));
    blend(w->v[i->src[0].reg], w->tmp[0], EXEC(w));
}

/* The first step of a division (ISA: V_DIV_SCALE): a is the denominator or the numerator, scaled by
 * a power of two when the quotient or the reciprocal would leave the range; the mask tells
 * v_div_fmas to undo it. */
struct range {
    int scale, far, small, min; /* exponents: factor, distance that is too far, numerator that is
                                   small, least normal */
};
static double div_scaled(double a, double den, double num, const struct range *r, bool *post)
{
    int e_den = 0, e_num = 0;
    *post = false;
    if (num == 0 || den == 0) return NAN;
    (void)frexp(den, &e_den), (void)frexp(num, &e_num);
    double least = ldexp(1, r->min), up = ldexp(a, r->scale);
    bool rcp_small = fabs(1 / den) < least, q_small = fabs(num / den) < least;
    if (e_num - e_den >= r->far) return *post = true, a == den ? up : a;
    if (fabs(den) < least) return up;
    /* the documents scale up here, which would leave the range; v_div_fmas scales down */
    if (rcp_small && q_small) return *post = true, a == den ? ldexp(a, -r->scale) : a;
    if (rcp_small) return ldexp(a, -r->scale);
    if (q_small) return *post = true, a == num ? up : a;
    return e_num - 1 <= r->small ? up : a;
}

static void div_scale(struct wave *w, const struct insn *i)
{
    static const struct range single = {64, 96, 23 - 127, -126},
                              twice = {128, 768, 53 - 1023, -1022};
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1), *c = valu_source(w, i, 2);
    uint64_t out = 0;
    for (int l = 0; l < LANES; l++) {
        bool post;
        if (i->op->arg)
            split(w->out, l,
                  bits64(div_scaled(f64(join(a, l)), f64(join(b, l)), f64(join(c, l)), &twice,
                                    &post)));
        else w->out[l] = bits((float)div_scaled(f32(a[l]), f32(b[l]), f32(c[l]), &single, &post));
        out |= (uint64_t)post << l;
    }
    valu_commit(w, i, i->op->arg ? 2 : 1);
    write_mask(w, i->sdst, out & written_lanes(w, i));
}

static void div_fmas(struct wave *w, const struct insn *i)
{
    const uint32_t *a = valu_source(w, i, 0), *b = valu_source(w, i, 1), *c = valu_source(w, i, 2);
    for (int l = 0; l < LANES; l++) {
        bool post = VCC(w) >> l & 1;
        if (i->op->arg) {
            double z = f64(join(c, l)), r = fma(f64(join(a, l)), f64(join(b, l)), z);
            split(w->out, l, bits64(post ? ldexp(r, fabs(z) >= 2 ? 128 : -128) : r));
        } else {
            float z = f32(c[l]), r = fmaf(f32(a[l]), f32(b[l]), z);
            w->out[l] = bits(post ? ldexpf(r, fabsf(z) >= 2 ? 64 : -64) : r);
        }
    }
    valu_commit(w, i, i->op->arg ? 2 : 1);
}

const struct op ops_valu[] = {
    {ENC_VOP1, 0x00, "v_nop", "-", .exec = v_nop},
    {ENC_VOP1, 0x02, "v_readfirstlane_b32", "ri", .exec = v_readfirstlane_b32},
    {ENC_VOP1, 0x51, "v_swap_b32", "ii", .exec = v_swap_b32},
    {ENC_VOP2, 0x00, "v_cndmask_b32", "iFFs", .exec = v_cndmask_b32},
    {ENC_VOP2, 0x19, "v_add_co_u32", "cii", .exec = carry, .arg = CARRY_ADD},
    {ENC_VOP2, 0x1a, "v_sub_co_u32", "cii", .exec = carry, .arg = CARRY_SUB},
    {ENC_VOP2, 0x1b, "v_subrev_co_u32", "cii", .exec = carry, .arg = CARRY_SUBREV},
    {ENC_VOP2, 0x1c, "v_addc_co_u32", "ciis", .exec = carry, .arg = CARRY_ADD},
    {ENC_VOP2, 0x1d, "v_subb_co_u32", "ciis", .exec = carry, .arg = CARRY_SUB},
    {ENC_VOP2, 0x1e, "v_subbrev_co_u32", "ciis", .exec = carry, .arg = CARRY_SUBREV},
    {ENC_VOP3, 0x1e0, "v_div_scale_f32", "cfff", .exec = div_scale},
    {ENC_VOP3, 0x1e1, "v_div_scale_f64", "kddd", .exec = div_scale, .arg = 1},
    {ENC_VOP3, 0x1e2, "v_div_fmas_f32", "ffff", .exec = div_fmas},
    {ENC_VOP3, 0x1e3, "v_div_fmas_f64", "dddd", .exec = div_fmas, .arg = 1},
    {ENC_VOP3, 0x1e8, "v_mad_u64_u32", "kiiq", .exec = mad_64},
    {ENC_VOP3, 0x1e9, "v_mad_i64_i32", "kiiq", .exec = mad_64, .arg = 1},
    {ENC_VOP3, 0x289, "v_readlane_b32", "rii", .exec = v_readlane_b32},
    {ENC_VOP3, 0x28a, "v_writelane_b32", "iii", .exec = v_writelane_b32},
    {0},
};
