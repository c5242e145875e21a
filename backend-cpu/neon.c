/* neon.c: variant "neon": the baseline of arm64. The order of operations per output is that of
 * avx2.c, so that the two give the same bits. Empty on other architectures. */
#if defined(__aarch64__)

#include "backend-cpu/fp32_experts.h"
#include "backend-cpu/neon.h"

static const char *always(void) { return 0; }

/* Conversion of four outputs' codes to floats. A code minus its zero point is a signed byte; a
 * table lookup moves byte b of each output to the top of its lane, and the conversion divides by
 * 2^24: two exact instructions. */
struct decode {
    uint8x16_t place[4];
};

ALWAYS_INLINE struct decode decode_init(void)
{
    struct decode d;
    const uint32x4_t rows = {0x00ffffff, 0x04ffffff, 0x08ffffff,
                             0x0cffffff}; /* an index of 255 gives 0 */
    EACH (b, 4) d.place[b] = vreinterpretq_u8_u32(vaddq_u32(rows, vdupq_n_u32((uint32_t)b << 24)));
    return d;
}

/* Input b (0..3) of four outputs' signed bytes as floats. */
ALWAYS_INLINE float32x4_t decode_input(const struct decode *d, int b, uint8x16_t codes)
{
    return vcvtq_n_f32_s32(vreinterpretq_s32_u8(vqtbl1q_u8(codes, d->place[b])), 24);
}

/* Zero points of quarter h, each four times. */
ALWAYS_INLINE uint8x16_t load_zeros(const uint8_t *zeros, int h)
{
    const uint8x16_t four = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    return vqtbl1q_u8(vld1q_u8(zeros), vaddq_u8(four, vdupq_n_u8((uint8_t)(4 * h))));
}

/* Inputs 0..3 (half 0) or 4..7 of four outputs as signed bytes code - zero. */
ALWAYS_INLINE uint8x16_t code_minus_zero(const uint8_t *codes, int half, uint8x16_t zero)
{
    uint8x16_t v = vld1q_u8(codes);
    return vsubq_u8(half ? vshrq_n_u8(v, 4) : vandq_u8(v, vdupq_n_u8(15)), zero);
}

/* q4 GEMV for few rows: np panels x m rows decoded from the codes; 4*np*m <= 16 accumulators of a
 * sub-group stay in registers. */
ALWAYS_INLINE void q4_few(const struct linear *w, const float *x, float *y, int p, const int np,
                          const int m)
{
    size_t panel_codes = (size_t)(w->k / 8) * 64, panel_groups = (size_t)w->n_groups * 16;
    const struct decode d = decode_init();
    float32x4_t total[8][4];
    EACH (h, 4 * np)
        EACH (r, m) total[h][r] = vdupq_n_f32(0);
    for (int g = 0; g < w->n_groups; g++) {
        size_t at = (size_t)p * panel_groups + (size_t)g * 16;
        uint8x16_t zero[8];
        EACH (h, 4 * np)
            zero[h] = load_zeros(w->zeros + at + (size_t)(h / 4) * panel_groups, h % 4);
        for (int j0 = g * w->group, n; j0 < (g + 1) * w->group; j0 += n) {
            n = q4_next(w, j0) - j0;
            const float *xj = x + (size_t)j0 * m;
            const uint8_t *c = w->codes + (size_t)p * panel_codes + (size_t)j0 * 8;
            /* The next panels follow the end of these, not the adjacent panel, which is being read.
             */
            const uint8_t *ahead =
                c + AHEAD +
                ((size_t)j0 * 8 + AHEAD >= panel_codes ? (size_t)(np - 1) * panel_codes : 0);
            float32x4_t sum[8][4];
            EACH (h, 4 * np)
                EACH (r, m) sum[h][r] = vdupq_n_f32(0);
            for (int j = 0; j < n; j += 8, c += 64, ahead += 64) {
                EACH (i, np) prefetch(ahead + (size_t)i * panel_codes);
                EACH (half, 2) {
                    float32x4_t v[4];
                    EACH (r, m) v[r] = vld1q_f32(xj + r * n + j + half * 4);
                    EACH (h, 4 * np) {
                        uint8x16_t u = code_minus_zero(
                            c + (size_t)(h / 4) * panel_codes + h % 4 * 16, half, zero[h]);
                        EACH (b, 4) {
                            float32x4_t q = decode_input(&d, b, u);
                            EACH (r, m) sum[h][r] = vfmaq_n_f32(sum[h][r], q, v[r][b]);
                        }
                    }
                }
            }
            EACH (i, np) {
                float32x4_t s[4];
                load_16(w->scales, w->scale_type, at + (size_t)i * panel_groups, s);
                EACH (h, 4)
                    EACH (r, m)
                        total[i * 4 + h][r] = vfmaq_f32(total[i * 4 + h][r], s[h],
                                                        sum[i * 4 + h][r]);
            }
        }
    }
    EACH (h, 4 * np)
        EACH (r, m)
            store_outputs(w, y + (size_t)r * (size_t)w->out, (p + h / 4) * 16 + h % 4 * 4,
                          total[h][r]);
}

/* Unpacks n inputs of one panel from j0 on to floats code - zero, dst [n][16]. */
static void unpack_panel(const struct linear *w, int p, int j0, int n, float *dst)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const uint8_t *zeros = w->zeros +
                           ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
    const struct decode d = decode_init();
    uint8x16_t zero[4];
    EACH (h, 4) zero[h] = load_zeros(zeros, h);
    for (int j = 0; j < n; j += 8, c += 64)
        EACH (half, 2) {
            EACH (h, 4) {
                uint8x16_t u = code_minus_zero(c + h * 16, half, zero[h]);
                EACH (b, 4) vst1q_f32(dst + b * 16 + h * 4, decode_input(&d, b, u));
            }
            dst += 4 * 16;
        }
}

/* total[m][16] += scale * sum over n inputs (a multiple of 4) of codes[n][16] * x[m][n] */
ALWAYS_INLINE void tile(const float *codes, const float *x, int n, const float32x4_t s[4],
                        float *total, const int m)
{
    float32x4_t a[4][4];
    EACH (r, m)
        EACH (h, 4) a[r][h] = vdupq_n_f32(0);
    for (int j = 0; j < n; j += 4, codes += 4 * 16) {
        float32x4_t v[4];
        EACH (r, m) v[r] = vld1q_f32(x + r * n + j);
        EACH (b, 4)
            EACH (h, 4) {
                float32x4_t c = vld1q_f32(codes + b * 16 + h * 4);
                EACH (r, m) a[r][h] = vfmaq_n_f32(a[r][h], c, v[r][b]);
            }
    }
    EACH (r, m)
        EACH (h, 4) {
            float *t = total + r * 16 + h * 4;
            vst1q_f32(t, vfmaq_f32(vld1q_f32(t), s[h], a[r][h]));
        }
}

static void tiles(const float *codes, const float *x, int n, const float32x4_t s[4], float *total,
                  int rows)
{
    for (; rows >= 4; rows -= 4, x += 4 * n, total += 4 * 16) tile(codes, x, n, s, total, 4);
    switch (rows) {
    case 3: tile(codes, x, n, s, total, 3); break;
    case 2: tile(codes, x, n, s, total, 2); break;
    case 1: tile(codes, x, n, s, total, 1); break;
    }
}

/* q4 GEMM for rows r0 .. r0+nr-1 of `rows`. For each sub-group a panel is unpacked once (8 KiB,
 * stays in L1) for all rows. */
static void q4_many(const struct q4_call *c, int r0, int nr, float *scratch)
{
    const struct linear *w = c->w;
    const int p0 = c->p0, p1 = c->p1;
    float *codes = scratch, *total = scratch + CPU_SUBGROUP * 16;
    memset(total, 0, (size_t)((p1 - p0) * nr * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < w->k; j0 += n) {
        n = q4_next(w, j0) - j0;
        for (int p = p0; p < p1; p++) {
            float32x4_t s[4];
            load_16(w->scales, w->scale_type,
                    ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16, s);
            unpack_panel(w, p, j0, n, codes);
            tiles(codes, c->x + (size_t)j0 * (size_t)c->rows + (size_t)r0 * (size_t)n, n, s,
                  total + (p - p0) * nr * 16, nr);
        }
    }
    for (int p = p0; p < p1; p++)
        for (int r = r0; r < r0 + nr; r++, total += 16)
            EACH (h, 4)
                store_outputs(w, c->y + (size_t)r * (size_t)w->out, p * 16 + h * 4,
                              vld1q_f32(total + h * 4));
}

void neon_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
             float *scratch)
{
    if (rows > 4) {
        const struct q4_call c = {w, x, y, rows, p0, p1};
        for (int r = 0; r < rows; r += CPU_ROW_TILE)
            q4_many(&c, r, rows - r < CPU_ROW_TILE ? rows - r : CPU_ROW_TILE, scratch);
        return;
    }
    int p = p0;
    if (rows == 1)
        for (; p + 2 <= p1; p += 2) q4_few(w, x, y, p, 2, 1);
    for (; p < p1; p++) switch (rows) {
        case 1: q4_few(w, x, y, p, 1, 1); break;
        case 2: q4_few(w, x, y, p, 1, 2); break;
        case 3: q4_few(w, x, y, p, 1, 3); break;
        case 4: q4_few(w, x, y, p, 1, 4); break;
        }
}

/* quantize_group of act_quant.h on 16 inputs at a time; the hardware rounds to nearest even. */
void neon_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q)
{
    float group[CPU_SUBGROUP];
    size_t rows = (size_t)q->rows, s = (size_t)row;
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        int8_t *first = (int8_t *)q->digit + (size_t)j0 * rows * (size_t)q->n_digits +
                        (size_t)row * (size_t)n,
               *second = first + rows * (size_t)n;
        const float *from = quantize_input(w, x, j0, n, group);
        const int digits = digits_of_group(q, j0);
        const int16x8_t top = vdupq_n_s16((int16_t)digits_top(digits));
        float inverse = quantize_scale(from, n, digits, q->largest, (float *)q->scale + s);
        int32x4_t sum = vdupq_n_s32(0);
        for (int j = 0; j < n; j += 16) {
            int16x8_t v[2];
            int8x8_t high[2], low[2];
            EACH (i, 2) {
                int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(from + j + i * 8), inverse));
                int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(from + j + i * 8 + 4), inverse));
                v[i] = vminq_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b)), top);
                sum = vpadalq_s16(sum, v[i]);
                high[i] = q->n_digits == 2 ? vshrn_n_s16(vaddq_s16(v[i], vdupq_n_s16(64)), 7)
                                           : vmovn_s16(v[i]);
                low[i] =
                    vsub_s8(vmovn_s16(v[i]),
                            vshl_n_s8(high[i], 7)); /* modulo 256: v - 128 * high fits a byte */
            }
            vst1q_s8(first + j, vcombine_s8(high[0], high[1]));
            if (q->n_digits == 2) vst1q_s8(second + j, vcombine_s8(low[0], low[1]));
        }
        ((int32_t *)q->sum)[s] = vaddvq_s32(sum);
    }
}

/* part[8] += 16-bit products of digits and codes; 16 of at most 15 * 127 fit. */
ALWAYS_INLINE void multiply_add(int16x8_t part[8], int h, int8x16_t codes, const int8_t *digits)
{
    int32_t four;
    memcpy(&four, digits, 4);
    int8x16_t d = vreinterpretq_s8_s32(vdupq_n_s32(four));
    part[2 * h] = vmlal_s8(part[2 * h], vget_low_s8(codes), vget_low_s8(d));
    part[2 * h + 1] = vmlal_high_s8(part[2 * h + 1], codes, d);
}

/* A planes_fn. Products are summed in 16 bits over at most 64 inputs (16 products per lane), then
 * widened. */
ALWAYS_INLINE void mlal_planes(const uint8_t *codes, const int8_t *const *digit, int n,
                               int32x4_t sum[MAX_PLANES][4], const int planes, enum code_form form)
{
    const int block = form == CODES_BYTES ? 128 : 64;
    EACH (i, planes)
        EACH (h, 4) sum[i][h] = vdupq_n_s32(0);
    for (int j0 = 0; j0 < n; j0 += 64) {
        int j1 = n - j0 < 64 ? n : j0 + 64;
        int16x8_t part[2][8];
        EACH (i, planes)
            EACH (h, 8) part[i][h] = vdupq_n_s16(0);
        for (int j = j0; j < j1; j += 8, codes += block) {
            if (form == CODES_PACKED) prefetch(codes + AHEAD);
            EACH (h, 4) {
                int8x16_t low, high;
                load_codes(codes, h, form, &low, &high);
                EACH (i, planes) {
                    multiply_add(part[i], h, low, digit[i] + j);
                    multiply_add(part[i], h, high, digit[i] + j + 4);
                }
            }
        }
        EACH (i, planes)
            EACH (h, 4)
                sum[i][h] = vaddq_s32(sum[i][h], vpaddq_s32(vpaddlq_s16(part[i][2 * h]),
                                                            vpaddlq_s16(part[i][2 * h + 1])));
    }
}

static void neon_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                     float *scratch)
{
    q4i_128(&(struct q4i_call){w, x, y, p0, p1}, scratch, 2, mlal_planes);
}

/* nn outputs x m rows, each with 16 lanes: nn*m <= 4. */
ALWAYS_INLINE void dense_block(const struct linear *w, enum dtype t, const float *x, float *y,
                               int n0, const int nn, const int m)
{
    int in = w->in, j = 0;
    float32x4_t a[4][4][4];
    EACH (i, nn)
        EACH (r, m)
            EACH (h, 4) a[i][r][h] = vdupq_n_f32(0);
    for (; j + LANES <= in; j += LANES)
        EACH (i, nn) {
            float32x4_t v[4];
            size_t at = (size_t)(n0 + i) * (size_t)in + (size_t)j;
            load_16(w->weight, t, at, v);
            if (m == 1) prefetch((const char *)w->weight + at * (t == DT_F32 ? 4 : 2) + AHEAD);
            EACH (r, m)
                EACH (h, 4)
                    a[i][r][h] = vfmaq_f32(a[i][r][h], v[h],
                                           vld1q_f32(x + (size_t)r * (size_t)in + j + h * 4));
        }
    EACH (i, nn)
        EACH (r, m) {
            float lane[LANES];
            EACH (h, 4) vst1q_f32(lane + h * 4, a[i][r][h]);
            for (int l = 0; j + l < in; l++)
                lane[l] =
                    fmaf(f32_at(w->weight, t, (size_t)(n0 + i) * (size_t)in + (size_t)(j + l)),
                         x[(size_t)r * (size_t)in + j + l], lane[l]);
            float total = fold_lanes(lane);
            y[(size_t)r * (size_t)w->out + n0 + i] = w->bias ? total + w->bias[n0 + i] : total;
        }
}

ALWAYS_INLINE void dense_typed(const struct linear *w, enum dtype t, const float *x, float *y,
                               int rows, int n0, int n1)
{
    size_t in = (size_t)w->in, out = (size_t)w->out;
    int n = n0;
    if (rows == 1)
        for (; n + 4 <= n1; n += 4) dense_block(w, t, x, y, n, 4, 1);
    for (; n < n1; n++) { /* the weights of one output stay in L1 for all rows */
        int r = 0;
        for (; r + 4 <= rows; r += 4)
            dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 4);
        switch (rows - r) {
        case 3: dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 3); break;
        case 2: dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 2); break;
        case 1: dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 1); break;
        }
    }
}

void neon_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    if (w->weight_type == DT_F16) dense_typed(w, DT_F16, x, y, rows, n0, n1);
    else if (w->weight_type == DT_BF16) dense_typed(w, DT_BF16, x, y, rows, n0, n1);
    else dense_typed(w, DT_F32, x, y, rows, n0, n1);
}

void neon_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim)
{
    fp32_norm(x, delta, weight, eps, out, dim);
}

void neon_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                     float eps, float *out, int dim)
{
    fp32_layer_norm(x, delta, weight, bias, eps, out, dim);
}

void neon_add(float *x, const float *y, const float *gate, float factor, int n)
{
    fp32_add(x, y, gate, factor, n);
}

void neon_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight, float eps,
               const float *cosv, const float *sinv)
{
    fp32_rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
}

ALWAYS_INLINE void scores_block(const float *const *q, const int n, const void *keys, int head_dim,
                                enum dtype t, float *scores)
{
    float32x4_t a[4][4];
    EACH (i, n)
        EACH (h, 4) a[i][h] = vdupq_n_f32(0);
    for (int d = 0; d < head_dim; d++) {
        float32x4_t k[4];
        load_16(keys, t, (size_t)(d * KV_PAGE), k);
        EACH (i, n)
            EACH (h, 4) a[i][h] = vfmaq_n_f32(a[i][h], k[h], q[i][d]);
    }
    EACH (i, n)
        EACH (h, 4) vst1q_f32(scores + i * ATTEND_CHUNK + h * 4, a[i][h]);
}

ALWAYS_INLINE void scores_typed(const float *const *q, int n, const void *keys, int head_dim,
                                enum dtype t, float *scores)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) scores_block(q + i, 4, keys, head_dim, t, scores + i * ATTEND_CHUNK);
    for (; i < n; i++) scores_block(q + i, 1, keys, head_dim, t, scores + i * ATTEND_CHUNK);
}

ALWAYS_INLINE void neon_scores(const float *const *q, int n, const void *const *keys, int n_pages,
                               int head_dim, enum kv_type kv, float *scores)
{
    for (int k = 0; k < n_pages; k++, scores += KV_PAGE) {
        if (kv == KV_F16) scores_typed(q, n, keys[k], head_dim, DT_F16, scores);
        else scores_typed(q, n, keys[k], head_dim, DT_F32, scores);
    }
}

ALWAYS_INLINE void values_block(const float *p, const int n, int n_pos, const void *values,
                                int head_dim, enum dtype t, float *acc)
{
    int d = 0;
    for (; d + 16 <= head_dim; d += 16) {
        float32x4_t a[4][4];
        EACH (i, n)
            EACH (h, 4) a[i][h] = vld1q_f32(acc + i * head_dim + d + h * 4);
        for (int c = 0; c < n_pos; c++) {
            float32x4_t v[4];
            load_16(values, t, (size_t)(c * head_dim + d), v);
            EACH (i, n)
                EACH (h, 4) a[i][h] = vfmaq_n_f32(a[i][h], v[h], p[i * ATTEND_CHUNK + c]);
        }
        EACH (i, n)
            EACH (h, 4) vst1q_f32(acc + i * head_dim + d + h * 4, a[i][h]);
    }
    for (; d < head_dim; d++)
        for (int i = 0; i < n; i++)
            for (int c = 0; c < n_pos; c++)
                acc[i * head_dim + d] = fmaf(p[i * ATTEND_CHUNK + c],
                                             f32_at(values, t, (size_t)(c * head_dim + d)),
                                             acc[i * head_dim + d]);
}

ALWAYS_INLINE void values_typed(const float *p, int n, int n_pos, const void *values, int head_dim,
                                enum dtype t, float *acc)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        values_block(p + i * ATTEND_CHUNK, 4, n_pos, values, head_dim, t, acc + i * head_dim);
    for (; i < n; i++)
        values_block(p + i * ATTEND_CHUNK, 1, n_pos, values, head_dim, t, acc + i * head_dim);
}

ALWAYS_INLINE void neon_values(const float *p, int n, int n_pos, const void *values, int head_dim,
                               enum kv_type kv, float *acc)
{
    if (kv == KV_F16) values_typed(p, n, n_pos, values, head_dim, DT_F16, acc);
    else values_typed(p, n, n_pos, values, head_dim, DT_F32, acc);
}

/* cpu_expf on 4 lanes, with fused multiply-adds. */
ALWAYS_INLINE float32x4_t exp4(float32x4_t x)
{
    uint32x4_t drop = vcltq_f32(x, vdupq_n_f32(EXP_MIN)); /* false for NaN, which stays */
    float32x4_t c = vminq_f32(x, vdupq_n_f32(EXP_MAX)),
                n = vrndnq_f32(vmulq_f32(c, vdupq_n_f32(EXP_LOG2E)));
    float32x4_t r = vfmsq_f32(c, n, vdupq_n_f32(EXP_LN2_HI));
    r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LO));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(EXP_P3), vdupq_n_f32(EXP_P4), r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P2), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P1), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P0), p, r);
    float32x4_t y = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
    int32x4_t scale = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vreinterpretq_f32_u32(
        vbicq_u32(vreinterpretq_u32_f32(vmulq_f32(y, vreinterpretq_f32_s32(scale))), drop));
}

ALWAYS_INLINE float neon_exps(float *p, float max, int n)
{
    float32x4_t m = vdupq_n_f32(max), s[4];
    EACH (h, 4) s[h] = vdupq_n_f32(0);
    for (int i = 0; i < n; i += LANES)
        EACH (h, 4) {
            float32x4_t e = exp4(vsubq_f32(vld1q_f32(p + i + h * 4), m));
            vst1q_f32(p + i + h * 4, e);
            s[h] = vaddq_f32(s[h], e);
        }
    float lane[LANES];
    EACH (h, 4) vst1q_f32(lane + h * 4, s[h]);
    return fold_lanes(lane);
}

/* cpu_tanhf on 4 lanes. */
ALWAYS_INLINE float32x4_t tanh4(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1);
    float32x4_t y = vminnmq_f32(vmulq_n_f32(vabsq_f32(x), 2), vdupq_n_f32(20)), /* NaN: 20 */
        n = vrndnq_f32(vmulq_f32(y, vdupq_n_f32(EXP_LOG2E)));
    float32x4_t r = vfmsq_f32(y, n, vdupq_n_f32(EXP_LN2_HI));
    r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LO));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(EXP_P3), vdupq_n_f32(EXP_P4), r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P2), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P1), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_P0), p, r);
    float32x4_t q = vfmaq_f32(r, p, vmulq_f32(r, r)),
                two_n = vreinterpretq_f32_s32(
                    vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)),
                m = vfmaq_f32(vsubq_f32(two_n, one), two_n, q),
                t = vdivq_f32(m, vaddq_f32(m, vdupq_n_f32(2)));
    t = vbslq_f32(vdupq_n_u32(0x80000000), x, t);
    return vbslq_f32(vceqq_f32(x, x), t, x); /* NaN stays */
}

ALWAYS_INLINE void softcap4(float *x, float32x4_t cap)
{
    vst1q_f32(x, vmulq_f32(cap, tanh4(vdivq_f32(vld1q_f32(x), cap))));
}

void neon_softcap(float *x, float cap, size_t n)
{
    const float32x4_t c = vdupq_n_f32(cap);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) softcap4(x + i, c);
    if (i == n) return;
    float tail[4] = {0};
    memcpy(tail, x + i, (n - i) * sizeof *tail);
    softcap4(tail, c);
    memcpy(x + i, tail, (n - i) * sizeof *tail);
}

#include "backend-cpu/neon_attend_int8.h"

void neon_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv == KV_INT8) attend_int8(t, scratch);
    else fp32_attend(t, scratch, neon_scores, neon_values, neon_exps, fp32_mask, neon_softcap);
}

void neon_merge(const struct attend_task *t, float *scratch) { fp32_merge(t, scratch); }

/* fp32_xielu on 4 lanes. */
ALWAYS_INLINE float32x4_t xielu4(const struct xielu *a, float32x4_t x)
{
    const float32x4_t beta = vdupq_n_f32(a->beta), eps = vdupq_n_f32(a->eps);
    float32x4_t m = vbslq_f32(vcltq_f32(x, eps), x, eps), sum = vdupq_n_f32(0);
#define TERM(factor) sum = vfmaq_f32(vdupq_n_f32(factor), sum, m);
    XIELU_SERIES(TERM)
#undef TERM
    float32x4_t near = vfmaq_f32(vsubq_f32(m, x), vmulq_f32(m, m), sum),
                far = vsubq_f32(vsubq_f32(exp4(m), vdupq_n_f32(1.0f)), x),
                q = vbslq_f32(vcgtq_f32(m, vdupq_n_f32(-0.5f)), near, far),
                below = vfmaq_f32(vmulq_f32(beta, x), vdupq_n_f32(a->n), q),
                above = vmulq_f32(x, vfmaq_f32(beta, vdupq_n_f32(a->p), x));
    return vbslq_f32(vcgtq_f32(x, vdupq_n_f32(0)), above, below);
}

/* fp32_glu on 4 lanes; vmin and vmax keep NaN. */
ALWAYS_INLINE float32x4_t glu4(const struct cpu_glu *a, const enum activation k, float32x4_t g,
                               float32x4_t u, const int has_up)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    if (k == ACTIVATION_XIELU) return xielu4(&a->xielu, g);
    if (k == ACTIVATION_SWIGLU_CLAMPED) {
        float32x4_t limit = vdupq_n_f32(a->limit);
        g = vminq_f32(g, limit);
        u = vaddq_f32(vmaxq_f32(vminq_f32(u, limit), vdupq_n_f32(-a->limit)), one);
    }
    float32x4_t z = g;
    if (k == ACTIVATION_GELU_TANH)
        z = vmulq_f32(g, vfmaq_f32(vdupq_n_f32(GELU_1), vdupq_n_f32(GELU_3), vmulq_f32(g, g)));
    if (k == ACTIVATION_SWIGLU_CLAMPED) z = vmulq_n_f32(g, a->alpha);
    float32x4_t e = exp4(vsubq_f32(vdupq_n_f32(0), z)),
                y = vdivq_f32(k == ACTIVATION_SIGMOID ? one : g, vaddq_f32(one, e));
    return has_up ? vmulq_f32(y, u) : y;
}

ALWAYS_INLINE void glu_all(const struct cpu_glu *a, const enum activation k, const int has_up,
                           float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t u = has_up ? vld1q_f32(up + i) : vdupq_n_f32(0);
        vst1q_f32(gate + i, glu4(a, k, vld1q_f32(gate + i), u, has_up));
    }
    if (i == n) return;
    float g[4] = {0},
          u[4] = {
              0}; /* the tail takes the same path, so that a value does not depend on its index */
    memcpy(g, gate + i, (n - i) * sizeof *g);
    if (has_up) memcpy(u, up + i, (n - i) * sizeof *u);
    vst1q_f32(g, glu4(a, k, vld1q_f32(g), vld1q_f32(u), has_up));
    memcpy(gate + i, g, (n - i) * sizeof *g);
}

void neon_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    glu_each(a, gate, up, n, glu_all);
}

void neon_route(const struct route_task *t) { fp32_route(t, neon_exps); }

void neon_sums(const float *x, int group, int groups, float *out)
{
    fp32_sums(x, group, groups, out);
}

void neon_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    fp32_mix(x, weight, top_k, out, n);
}

#include "backend-cpu/neon_packed.h"
#include "backend-cpu/neon_states.h"

const struct cpu_kernels cpu_neon = {
    .name = "neon",
    .unusable = always,
    .q4i = neon_q4i,
    .attend = neon_attend,
    .merge = neon_merge,
    NEON_KERNELS,
};

#else
typedef int translation_unit_is_not_empty;
#endif
