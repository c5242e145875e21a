/* neon.h: operations shared by the arm64 variants, and the integer q4 kernels over dot products,
 * which each variant provides. */
#ifndef BACKEND_CPU_NEON_H
#define BACKEND_CPU_NEON_H

#include "backend-cpu/act_quant.h"
#include "backend-cpu/attend_int8.h"

#include <arm_neon.h>

void neon_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
             float *scratch);
void neon_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q);
void neon_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1);
void neon_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim);
void neon_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                     float eps, float *out, int dim);
void neon_add(float *x, const float *y, const float *gate, float factor, int n);
void neon_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight, float eps,
               const float *cosv, const float *sinv);
void dotprod_attend(const struct attend_task *t, float *scratch);
void neon_unpack(const char *page, enum kv_part part, int head_dim, char *to);
void neon_int8_attend(const struct attend_task *t, float *scratch, int8_keys_fn *keys,
                      int8_values_fn *values);
void neon_attend(const struct attend_task *t, float *scratch);
void neon_merge(const struct attend_task *t, float *scratch);
void neon_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n);
void neon_softcap(float *x, float cap, size_t n);
void neon_route(const struct route_task *t);
void neon_sums(const float *x, int group, int groups, float *out);
void neon_mix(const float *x, const float *weight, int top_k, float *out, int n);
extern const struct state_kernels neon_states;

/* A loop over a register block, see avx2_attend.h. The 16 outputs of a panel are four quarters of
 * four. */
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* Prefetch distance in bytes of single-row kernels, as in avx512.h. */
enum { AHEAD = 8192 };

ALWAYS_INLINE void prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }

/* 4 floats from element `at` of an array of F16, BF16 or F32 on. */
ALWAYS_INLINE float32x4_t load_4(const void *w, enum dtype t, size_t at)
{
    if (t == DT_F16) return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)w + at)));
    if (t == DT_BF16)
        return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)w + at), 16));
    return vld1q_f32((const float *)w + at);
}

/* 16 floats from element `at` on. */
ALWAYS_INLINE void load_16(const void *w, enum dtype t, size_t at, float32x4_t v[4])
{
    if (t == DT_F32) {
        EACH (h, 4) v[h] = vld1q_f32((const float *)w + at + h * 4);
        return;
    }
    EACH (i, 2) {
        uint16x8_t u = vld1q_u16((const uint16_t *)w + at + i * 8);
        if (t == DT_F16) {
            v[2 * i] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(u)));
            v[2 * i + 1] = vcvt_high_f32_f16(vreinterpretq_f16_u16(u));
        } else {
            v[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(u), 16));
            v[2 * i + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(u, 16));
        }
    }
}

/* Outputs n0 .. n0+3 of one row; the last panel may be ragged. */
ALWAYS_INLINE void store_outputs(const struct linear *w, float *y, int n0, float32x4_t v)
{
    if (n0 + 4 <= w->out) {
        if (w->bias) v = vaddq_f32(v, vld1q_f32(w->bias + n0));
        vst1q_f32(y + n0, v);
        return;
    }
    float lane[4];
    vst1q_f32(lane, v);
    for (int l = 0; n0 + l < w->out; l++) y[n0 + l] = w->bias ? lane[l] + w->bias[n0 + l] : lane[l];
}

/* The codes of a sub-group of one panel: packed as in the model file, or a byte each: per block of
 * 8 inputs 64 bytes for inputs 0..3 ([output][input]), then 64 for inputs 4..7; or as pairs, 8
 * inputs of an output together. */
enum code_form { CODES_PACKED, CODES_BYTES, CODES_PAIRS };

/* Quarter h of a block: codes of inputs 0..3 and 4..7, [4 outputs][4 inputs] each. */
ALWAYS_INLINE void load_codes(const uint8_t *block, int h, enum code_form form, int8x16_t *low,
                              int8x16_t *high)
{
    uint8x16_t v = vld1q_u8(block + h * 16);
    *low = vreinterpretq_s8_u8(form == CODES_BYTES ? v : vandq_u8(v, vdupq_n_u8(15)));
    *high = vreinterpretq_s8_u8(form == CODES_BYTES ? vld1q_u8(block + 64 + h * 16)
                                                    : vshrq_n_u8(v, 4));
}

/* Most planes of a register block; a plane is one digit of one row. */
enum { MAX_PLANES = 4 };

/* sum[plane][h] = integer dot products of a panel's codes with n digits of each plane, outputs 4h
 * .. 4h+3. n is a multiple of 32 and at most CPU_SUBGROUP. Packed codes are prefetched. */
typedef void planes_fn(const uint8_t *codes, const int8_t *const *digit, int n,
                       int32x4_t sum[MAX_PLANES][4], int planes, enum code_form form);

/* One sub-group of a panel, and rows of activations. */
struct q4i_group {
    int n; /* inputs */
    const uint8_t *codes, *low; /* low: pairs, multiplied half by half: the low halves; or NULL */
    const int8_t *digit[2]; /* [rows][n] first digits; second digits */
    const uint8_t *zeros;   /* [16] that the codes have left in */
    float32x4_t scale[4];
    const int32_t *sum;     /* [rows] of the integers */
    const float *act_scale; /* [rows] */
    float *total;           /* [rows][16] */
};

/* A register block: m rows. whole: the dot product takes codes of 8 bits. Constants after inlining.
 */
struct q4i_block {
    int digits, m;
    enum code_form form;
    int whole;
};

/* total[m][16] += the sub-group x m rows from r0 on. */
ALWAYS_INLINE void q4i_tile(const struct q4i_group *g, int r0, const struct q4i_block k,
                            planes_fn *dot)
{
    const int digits = k.digits, m = k.m;
    const int8_t *digit[MAX_PLANES];
    int32x4_t s[MAX_PLANES][4];
    EACH (r, m) {
        digit[r] = g->digit[0] + (r0 + r) * g->n;
        if (digits == 2) digit[m + r] = g->digit[1] + (r0 + r) * g->n;
    }
    dot(g->codes, digit, g->n, s, m * digits, k.form);
    if (g->low) {
        int32x4_t of_low[MAX_PLANES][4];
        dot(g->low, digit, g->n, of_low, m * digits, k.form);
        EACH (i, m * digits)
            EACH (h, 4) s[i][h] = vaddq_s32(vshlq_n_s32(s[i][h], 4), of_low[i][h]);
    }
    uint16x8_t z0 = vmovl_u8(vld1_u8(g->zeros)), z1 = vmovl_u8(vld1_u8(g->zeros + 8));
    int32x4_t zero[4] = {
        vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(z0))),
        vreinterpretq_s32_u32(vmovl_high_u16(z0)),
        vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(z1))),
        vreinterpretq_s32_u32(vmovl_high_u16(z1)),
    };
    EACH (r, m)
        EACH (h, 4) {
            int32x4_t v = digits == 2 ? vaddq_s32(vshlq_n_s32(s[r][h], 7), s[m + r][h]) : s[r][h];
            v = vmlsq_n_s32(v, zero[h], g->sum[r0 + r]);
            float *t = g->total + (r0 + r) * 16 + h * 4;
            float32x4_t f = vmulq_n_f32(g->scale[h], g->act_scale[r0 + r]);
            vst1q_f32(t, vaddq_f32(vld1q_f32(t), vmulq_f32(vcvtq_f32_s32(v), f)));
        }
}

/* Codes of 8 bits minus PAIR_ZERO from high halves and low ones. */
ALWAYS_INLINE int8x16_t join_halves(int8x16_t high, int8x16_t low)
{
    return vaddq_s8(vorrq_s8(vshlq_n_s8(high, 4), low), vdupq_n_s8(-PAIR_ZERO));
}

/* Unpacks n inputs of packed codes to CODES_BYTES or CODES_PAIRS. low_halves: of pairs, to become
 * codes of 8 bits minus PAIR_ZERO; or NULL. */
ALWAYS_INLINE void spread_codes(const uint8_t *codes, const uint8_t *low_halves, int n,
                                uint8_t *dst, enum code_form form)
{
    for (int j = 0; j < n; j += 8, codes += 64, dst += 128)
        EACH (h, 4) {
            int8x16_t low, high;
            load_codes(codes, h, CODES_PACKED, &low, &high);
            if (low_halves) {
                int8x16_t low2, high2;
                load_codes(low_halves + j * 8, h, CODES_PACKED, &low2, &high2);
                low = join_halves(low, low2), high = join_halves(high, high2);
            }
            if (form == CODES_PAIRS) {
                int32x4_t a = vreinterpretq_s32_s8(low), b = vreinterpretq_s32_s8(high);
                vst1q_u8(dst + h * 32, vreinterpretq_u8_s32(vzip1q_s32(a, b)));
                vst1q_u8(dst + h * 32 + 16, vreinterpretq_u8_s32(vzip2q_s32(a, b)));
                continue;
            }
            vst1q_u8(dst + h * 16, vreinterpretq_u8_s8(low));
            vst1q_u8(dst + 64 + h * 16, vreinterpretq_u8_s8(high));
        }
}

/* Panel p x rows r0 .. r0+nr-1, k.m rows at a time. One row reads the packed codes; for more, the
 * codes of a sub-group are unpacked to bytes once (2 KiB, stays in L1; pairs half by half 4 KiB).
 * scratch: total [nr][16], then those bytes. */
ALWAYS_INLINE void q4i_panel(const struct q4i_call *c, int p, int r0, int nr, float *scratch,
                             const struct q4i_block k, planes_fn *dot)
{
    const struct linear *w = c->w;
    const struct q4_digits *x = c->x;
    static const uint8_t no_zeros[16],
        pair_zeros[16] = {PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO,
                          PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO,
                          PAIR_ZERO, PAIR_ZERO, PAIR_ZERO, PAIR_ZERO};
    float *total = scratch;
    uint8_t *bytes = (uint8_t *)(scratch + CPU_ROW_TILE * 16);
    size_t rows = (size_t)x->rows, s = (size_t)r0;
    const uint8_t *panel = w->codes + (size_t)p * (size_t)(w->k / 8) * 64;
    memset(total, 0, (size_t)(nr * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const uint8_t *packed = panel + (size_t)q4i_packed(w, j0) * 8,
                      *low = w->pairs ? packed + (size_t)w->group * 8 : NULL;
        const int8_t *digit = x->digit + (size_t)j0 * rows * k.digits + (size_t)r0 * (size_t)n;
        size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * 16;
        int by_halves = low && !k.whole;
        struct q4i_group g = {.n = n,
                              .codes = k.form == CODES_PACKED ? packed : bytes,
                              .low = !by_halves               ? NULL
                                     : k.form == CODES_PACKED ? low
                                                              : bytes + n * 16,
                              .digit = {digit, digit + rows * (size_t)n},
                              .zeros = by_halves ? pair_zeros
                                       : low     ? no_zeros
                                                 : w->zeros + at,
                              .sum = x->sum + s,
                              .act_scale = x->scale + s,
                              .total = total};
        load_16(w->scales, w->scale_type, at, g.scale);
        if (k.form != CODES_PACKED) spread_codes(packed, k.whole ? low : NULL, n, bytes, k.form);
        if (k.form != CODES_PACKED && by_halves) spread_codes(low, NULL, n, bytes + n * 16, k.form);
        int r = 0;
        for (; r + k.m <= nr; r += k.m) q4i_tile(&g, r, k, dot);
        for (; k.m > 1 && r < nr; r++)
            q4i_tile(&g, r, (struct q4i_block){k.digits, 1, k.form, k.whole}, dot);
    }
    for (int r = 0; r < nr; r++)
        EACH (h, 4)
            store_outputs(w, c->y + (size_t)(r0 + r) * (size_t)w->out, p * 16 + h * 4,
                          vld1q_f32(total + r * 16 + h * 4));
}

/* Several rows. planes: the planes of the variant's register block, 2, or 4 where it takes codes of
 * 8 bits. */
ALWAYS_INLINE void q4i_rows(const struct q4i_call *c, float *scratch, const int planes,
                            const enum code_form form, planes_fn *dot)
{
    const struct q4_digits *x = c->x;
    const int whole = planes == 4;
    const struct q4i_block two = {2, planes / 2, form, whole}, one = {1, planes, form, whole};
    for (int p = c->p0; p < c->p1; p++)
        for (int r = 0; r < x->rows; r += CPU_ROW_TILE) {
            int nr = x->rows - r < CPU_ROW_TILE ? x->rows - r : CPU_ROW_TILE;
            if (x->n_digits == 2) q4i_panel(c, p, r, nr, scratch, two, dot);
            else q4i_panel(c, p, r, nr, scratch, one, dot);
        }
}

ALWAYS_INLINE void q4i_128(const struct q4i_call *c, float *scratch, const int planes,
                           planes_fn *dot)
{
    const struct q4i_block two_row = {2, 1, CODES_PACKED, 0}, one_row = {1, 1, CODES_PACKED, 0};
    if (c->x->rows > 1) {
        q4i_rows(c, scratch, planes, CODES_BYTES, dot);
        return;
    }
    for (int p = c->p0; p < c->p1; p++) {
        if (c->x->n_digits == 2) q4i_panel(c, p, 0, 1, scratch, two_row, dot);
        else q4i_panel(c, p, 0, 1, scratch, one_row, dot);
    }
}

/* What the variants of arm64 share in their tables. */
#define NEON_KERNELS                                                                               \
    .q4 = neon_q4, .quantize = neon_quantize, .dense = neon_dense, .norm = neon_norm,              \
    .layer_norm = neon_layer_norm, .add = neon_add, .rope = neon_rope, .glu = neon_glu,            \
    .softcap = neon_softcap, .states = &neon_states, .copy_digits = digits_copy,                   \
    .route = neon_route, .mix = neon_mix, .sums = neon_sums, .unpack = neon_unpack

#endif
