/* avx2.c: rung "avx2": AVX2, FMA and F16C. Empty on other architectures. */
#if defined(__x86_64__)

#include "backend-cpu/act.h"

#include <immintrin.h>

static const char *avx2_unusable(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return "this processor has no AVX2";
    if (!__builtin_cpu_supports("fma")) return "this processor has no FMA";
    return __builtin_cpu_supports("f16c") ? NULL : "this processor has no F16C";
}

ALWAYS_INLINE __m256 load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

/* 8 scales of a panel half. */
ALWAYS_INLINE __m256 load_scales(const struct linear *w, size_t at)
{
    return w->scale_type == DT_F16 ? load_f16((const uint16_t *)w->scales + at) : _mm256_loadu_ps((const float *)w->scales + at);
}

/* Input b (0..7) of a block as 8 floats code - zero; v is 32 bytes of codes: 8 rows x 8 nibbles. */
ALWAYS_INLINE __m256 code_minus_zero(__m256i v, int b, __m256 zero)
{
    int shift = b < 4 ? 8 * b : 8 * (b - 4) + 4;
    __m256i c = shift ? _mm256_srli_epi32(v, shift) : v;
    if (shift < 28) c = _mm256_and_si256(c, _mm256_set1_epi32(15));
    return _mm256_sub_ps(_mm256_cvtepi32_ps(c), zero);
}

ALWAYS_INLINE __m256 load_zeros(const uint8_t *z) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)z))); }

/* Outputs n0 .. n0+7 of one row; the last panel may be ragged. */
ALWAYS_INLINE void store_outputs(const struct linear *w, float *y, int n0, __m256 v)
{
    if (n0 + 8 <= w->out) {
        if (w->bias) v = _mm256_add_ps(v, _mm256_loadu_ps(w->bias + n0));
        _mm256_storeu_ps(y + n0, v);
        return;
    }
    float lane[8];
    _mm256_storeu_ps(lane, v);
    for (int l = 0; n0 + l < w->out; l++) y[n0 + l] = w->bias ? lane[l] + w->bias[n0 + l] : lane[l];
}

/* Loops over the parts of a register block: their bounds are constants once inlined, and every one must be unrolled
 * for the block to live in registers. */
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* np panels x m rows straight from the codes, the sums of a sub-group in registers: 2*np*m <= 8 of them. */
ALWAYS_INLINE void q4_few(const struct linear *w, const float *x, float *y, int p, const int np, const int m)
{
    size_t panel_codes = (size_t)(w->k / 8) * 64, panel_groups = (size_t)w->n_groups * 16;
    __m256 total[4][4];
    EACH (h, 2 * np)
        EACH (r, m) total[h][r] = _mm256_setzero_ps();
    for (int g = 0; g < w->n_groups; g++) {
        __m256 zero[4];
        EACH (h, 2 * np) zero[h] = load_zeros(w->zeros + (size_t)(p + h / 2) * panel_groups + (size_t)(g * 16 + h % 2 * 8));
        for (int j0 = g * w->group, j1; j0 < (g + 1) * w->group; j0 = j1) {
            j1 = q4_next(w, j0);
            const float *xj = x + (size_t)j0 * m;
            __m256 sum[4][4];
            EACH (h, 2 * np)
                EACH (r, m) sum[h][r] = _mm256_setzero_ps();
            for (int j = j0; j < j1; j += 8) {
                const uint8_t *c = w->codes + (size_t)p * panel_codes + (size_t)j * 8;
                __m256i v[4];
                EACH (h, 2 * np) v[h] = _mm256_loadu_si256((const void *)(c + (size_t)(h / 2) * panel_codes + (size_t)(h % 2 * 32)));
                EACH (b, 8)
                    EACH (h, 2 * np) {
                        __m256 q = code_minus_zero(v[h], b, zero[h]);
                        EACH (r, m) sum[h][r] = _mm256_fmadd_ps(q, _mm256_broadcast_ss(xj + r * (j1 - j0) + j - j0 + b), sum[h][r]);
                    }
            }
            EACH (h, 2 * np) {
                __m256 s = load_scales(w, (size_t)(p + h / 2) * panel_groups + (size_t)(g * 16 + h % 2 * 8));
                EACH (r, m) total[h][r] = _mm256_fmadd_ps(s, sum[h][r], total[h][r]);
            }
        }
    }
    EACH (h, 2 * np)
        EACH (r, m) store_outputs(w, y + (size_t)r * (size_t)w->out, (p + h / 2) * 16 + h % 2 * 8, total[h][r]);
}

/* n inputs of one panel from j0 on as floats code - zero, [n][16]. */
static void unpack_panel(const struct linear *w, int p, int j0, int n, float *dst)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const uint8_t *z = w->zeros + ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
    __m256 z0 = load_zeros(z), z1 = load_zeros(z + 8);
    for (int j = 0; j < n; j += 8, c += 64, dst += 8 * 16) {
        __m256i v0 = _mm256_loadu_si256((const void *)c), v1 = _mm256_loadu_si256((const void *)(c + 32));
        EACH (b, 8) {
            _mm256_storeu_ps(dst + b * 16, code_minus_zero(v0, b, z0));
            _mm256_storeu_ps(dst + b * 16 + 8, code_minus_zero(v1, b, z1));
        }
    }
}

/* total[m][16] += scale * sum over n inputs of codes[n][16] * x[m][n] */
ALWAYS_INLINE void tile(const float *codes, const float *x, int n, __m256 s0, __m256 s1, float *total, const int m)
{
    __m256 a[6], b[6];
    EACH (r, m) a[r] = b[r] = _mm256_setzero_ps();
    for (int j = 0; j < n; j++, codes += 16) {
        __m256 c0 = _mm256_loadu_ps(codes), c1 = _mm256_loadu_ps(codes + 8);
        EACH (r, m) {
            __m256 v = _mm256_broadcast_ss(x + r * n + j);
            a[r] = _mm256_fmadd_ps(c0, v, a[r]);
            b[r] = _mm256_fmadd_ps(c1, v, b[r]);
        }
    }
    for (int r = 0; r < m; r++, total += 16) {
        _mm256_storeu_ps(total, _mm256_fmadd_ps(s0, a[r], _mm256_loadu_ps(total)));
        _mm256_storeu_ps(total + 8, _mm256_fmadd_ps(s1, b[r], _mm256_loadu_ps(total + 8)));
    }
}

static void tiles(const float *codes, const float *x, int n, __m256 s0, __m256 s1, float *total, int rows)
{
    for (; rows >= 6; rows -= 6, x += 6 * n, total += 6 * 16) tile(codes, x, n, s0, s1, total, 6);
    switch (rows) {
    case 5: tile(codes, x, n, s0, s1, total, 5); break;
    case 4: tile(codes, x, n, s0, s1, total, 4); break;
    case 3: tile(codes, x, n, s0, s1, total, 3); break;
    case 2: tile(codes, x, n, s0, s1, total, 2); break;
    case 1: tile(codes, x, n, s0, s1, total, 1); break;
    }
}

/* Rows r0 .. r0+nr-1 of `rows`. Sub-group by sub-group: a panel is unpacked once (8 KiB, stays in L1) and meets all of
 * them. */
static void q4_many(const struct linear *w, const float *x, float *y, int rows, int r0, int nr, int p0, int p1, float *scratch)
{
    float *codes = scratch, *total = scratch + CPU_SUBGROUP * 16;
    memset(total, 0, (size_t)((p1 - p0) * nr * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < w->k; j0 += n) {
        n = q4_next(w, j0) - j0;
        for (int p = p0; p < p1; p++) {
            size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
            unpack_panel(w, p, j0, n, codes);
            tiles(codes, x + (size_t)j0 * (size_t)rows + (size_t)r0 * (size_t)n, n, load_scales(w, at), load_scales(w, at + 8),
                  total + (p - p0) * nr * 16, nr);
        }
    }
    for (int p = p0; p < p1; p++)
        for (int r = r0; r < r0 + nr; r++, total += 16) {
            store_outputs(w, y + (size_t)r * (size_t)w->out, p * 16, _mm256_loadu_ps(total));
            store_outputs(w, y + (size_t)r * (size_t)w->out, p * 16 + 8, _mm256_loadu_ps(total + 8));
        }
}

static void avx2_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1, float *scratch)
{
    if (rows > 4) {
        for (int r = 0; r < rows; r += CPU_ROW_TILE)
            q4_many(w, x, y, rows, r, rows - r < CPU_ROW_TILE ? rows - r : CPU_ROW_TILE, p0, p1, scratch);
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

/* 4 activation digits, in every lane. */
ALWAYS_INLINE __m256i load_4(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* One half (8 outputs) of panel p x m rows of integer activations, rows r0 .. r0+m-1, into y. maddubs adds two products of
 * at most 15 * 127 in 16 bits; 8 of those fit, then they are widened. */
ALWAYS_INLINE void q4i_half(const struct linear *w, const struct q4_digits *x, float *y, int p, int half, int r0, const int digits,
                            const int m)
{
    const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    size_t rows = (size_t)x->rows, s = (size_t)r0;
    const uint8_t *c = w->codes + (size_t)p * (size_t)(w->k / 8) * 64 + (size_t)(half * 32);
    __m256 total[4];
    EACH (r, m) total[r] = _mm256_setzero_ps();
    for (int j0 = 0, n; j0 < w->k; j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16 + (size_t)(half * 8);
        const int8_t *first = x->digit + (size_t)j0 * rows * digits + (size_t)r0 * (size_t)n, *second = first + rows * (size_t)n;
        __m256i a[4], b[4];
        EACH (r, m) a[r] = b[r] = _mm256_setzero_si256();
        for (int j = 0; j < n; j += 32) {
            __m256i part_a[4], part_b[4];
            EACH (r, m) part_a[r] = part_b[r] = _mm256_setzero_si256();
            EACH (i, 4) {
                __m256i v = _mm256_loadu_si256((const void *)(c + (j0 + j) * 8 + i * 64));
                __m256i low = _mm256_and_si256(v, mask), high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
                EACH (r, m) {
                    const int8_t *f = first + r * n + j + i * 8, *g = second + r * n + j + i * 8;
                    part_a[r] = _mm256_add_epi16(part_a[r], _mm256_maddubs_epi16(low, load_4(f)));
                    part_a[r] = _mm256_add_epi16(part_a[r], _mm256_maddubs_epi16(high, load_4(f + 4)));
                    if (digits == 2) {
                        part_b[r] = _mm256_add_epi16(part_b[r], _mm256_maddubs_epi16(low, load_4(g)));
                        part_b[r] = _mm256_add_epi16(part_b[r], _mm256_maddubs_epi16(high, load_4(g + 4)));
                    }
                }
            }
            EACH (r, m) {
                a[r] = _mm256_add_epi32(a[r], _mm256_madd_epi16(part_a[r], ones));
                if (digits == 2) b[r] = _mm256_add_epi32(b[r], _mm256_madd_epi16(part_b[r], ones));
            }
        }
        __m256i zero = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(w->zeros + at)));
        __m256 scale = load_scales(w, at);
        EACH (r, m) {
            __m256i v = digits == 2 ? _mm256_add_epi32(_mm256_slli_epi32(a[r], 7), b[r]) : a[r];
            v = _mm256_sub_epi32(v, _mm256_mullo_epi32(zero, _mm256_set1_epi32(x->sum[s + (size_t)r])));
            __m256 f = _mm256_mul_ps(_mm256_broadcast_ss(x->scale + s + r), scale);
            total[r] = _mm256_add_ps(total[r], _mm256_mul_ps(_mm256_cvtepi32_ps(v), f));
        }
    }
    EACH (r, m) store_outputs(w, y + (size_t)(r0 + r) * (size_t)w->out, p * 16 + half * 8, total[r]);
}

static void avx2_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q) { fp32_quantize(w, x, row, q); }

static void avx2_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1, float *scratch)
{
    (void)scratch;
    for (int h = 2 * p0; h < 2 * p1; h++) {
        int r = 0;
        if (x->n_digits == 2) {
            for (; r + 2 <= x->rows; r += 2) q4i_half(w, x, y, h / 2, h % 2, r, 2, 2);
            if (r < x->rows) q4i_half(w, x, y, h / 2, h % 2, r, 2, 1);
        } else {
            for (; r + 4 <= x->rows; r += 4) q4i_half(w, x, y, h / 2, h % 2, r, 1, 4);
            for (; r < x->rows; r++) q4i_half(w, x, y, h / 2, h % 2, r, 1, 1);
        }
    }
}

/* 8 weights from element `at` on. */
ALWAYS_INLINE __m256 load_weights(const void *w, enum dtype t, size_t at)
{
    if (t == DT_F16) return load_f16((const uint16_t *)w + at);
    if (t == DT_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)((const uint16_t *)w + at))), 16));
    return _mm256_loadu_ps((const float *)w + at);
}

/* nn outputs x m rows, each with its 16 lanes. */
ALWAYS_INLINE void dense_block(const struct linear *w, enum dtype t, const float *x, float *y, int n0, const int nn, const int m)
{
    int in = w->in, j = 0;
    __m256 a[4][3][2];
    EACH (i, nn)
        EACH (r, m) a[i][r][0] = a[i][r][1] = _mm256_setzero_ps();
    for (; j + LANES <= in; j += LANES)
        EACH (h, 2)
            EACH (i, nn) {
                __m256 v = load_weights(w->weight, t, (size_t)(n0 + i) * (size_t)in + (size_t)(j + h * 8));
                EACH (r, m) a[i][r][h] = _mm256_fmadd_ps(v, _mm256_loadu_ps(x + (size_t)r * (size_t)in + j + h * 8), a[i][r][h]);
            }
    EACH (i, nn)
        EACH (r, m) {
            float lane[LANES];
            _mm256_storeu_ps(lane, a[i][r][0]);
            _mm256_storeu_ps(lane + 8, a[i][r][1]);
            for (int l = 0; j + l < in; l++)
                lane[l] =
                    fmaf(f32_at(w->weight, t, (size_t)(n0 + i) * (size_t)in + (size_t)(j + l)), x[(size_t)r * (size_t)in + j + l], lane[l]);
            float total = fold_lanes(lane);
            y[(size_t)r * (size_t)w->out + n0 + i] = w->bias ? total + w->bias[n0 + i] : total;
        }
}

ALWAYS_INLINE void dense_typed(const struct linear *w, enum dtype t, const float *x, float *y, int rows, int n0, int n1)
{
    size_t in = (size_t)w->in, out = (size_t)w->out;
    int n = n0;
    if (rows == 1)
        for (; n + 4 <= n1; n += 4) dense_block(w, t, x, y, n, 4, 1);
    for (; n + 2 <= n1; n += 2) { /* the weights of two outputs stay in L1 for all rows */
        int r = 0;
        for (; r + 3 <= rows; r += 3) dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 2, 3);
        for (; r < rows; r++) dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 2, 1);
    }
    for (; n < n1; n++)
        for (int r = 0; r < rows; r++) dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 1);
}

static void avx2_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    if (w->weight_type == DT_F16) dense_typed(w, DT_F16, x, y, rows, n0, n1);
    else if (w->weight_type == DT_BF16) dense_typed(w, DT_BF16, x, y, rows, n0, n1);
    else dense_typed(w, DT_F32, x, y, rows, n0, n1);
}

static void avx2_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim)
{
    fp32_norm(x, delta, weight, eps, out, dim);
}

static void avx2_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight, float eps, const float *cosv,
                      const float *sinv)
{
    fp32_rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
}

ALWAYS_INLINE __m256 load_kv(const void *p, enum kv_type kv, size_t at)
{
    return kv == KV_F16 ? load_f16((const uint16_t *)p + at) : _mm256_loadu_ps((const float *)p + at);
}

ALWAYS_INLINE void scores_block(const float *const *q, const int n, const void *keys, int head_dim, enum kv_type kv, float *scores)
{
    __m256 a[4][2];
    EACH (i, n) a[i][0] = a[i][1] = _mm256_setzero_ps();
    for (int d = 0; d < head_dim; d++) {
        __m256 k0 = load_kv(keys, kv, (size_t)(d * KV_PAGE)), k1 = load_kv(keys, kv, (size_t)(d * KV_PAGE + 8));
        EACH (i, n) {
            __m256 v = _mm256_broadcast_ss(q[i] + d);
            a[i][0] = _mm256_fmadd_ps(k0, v, a[i][0]);
            a[i][1] = _mm256_fmadd_ps(k1, v, a[i][1]);
        }
    }
    EACH (i, n) {
        _mm256_storeu_ps(scores + i * ATTEND_CHUNK, a[i][0]);
        _mm256_storeu_ps(scores + i * ATTEND_CHUNK + 8, a[i][1]);
    }
}

ALWAYS_INLINE void avx2_scores(const float *const *q, int n, const void *keys, int head_dim, enum kv_type kv, float *scores)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        if (kv == KV_F16) scores_block(q + i, 4, keys, head_dim, KV_F16, scores + i * ATTEND_CHUNK);
        else scores_block(q + i, 4, keys, head_dim, KV_F32, scores + i * ATTEND_CHUNK);
    }
    for (; i < n; i++) scores_block(q + i, 1, keys, head_dim, kv, scores + i * ATTEND_CHUNK);
}

ALWAYS_INLINE void values_block(const float *p, const int n, int n_pos, const void *values, int head_dim, enum kv_type kv, float *acc)
{
    int d = 0;
    for (; d + 16 <= head_dim; d += 16) {
        __m256 a[4][2];
        EACH (i, n) a[i][0] = _mm256_loadu_ps(acc + i * head_dim + d), a[i][1] = _mm256_loadu_ps(acc + i * head_dim + d + 8);
        for (int c = 0; c < n_pos; c++) {
            __m256 v0 = load_kv(values, kv, (size_t)(c * head_dim + d)), v1 = load_kv(values, kv, (size_t)(c * head_dim + d + 8));
            EACH (i, n) {
                __m256 w = _mm256_broadcast_ss(p + i * ATTEND_CHUNK + c);
                a[i][0] = _mm256_fmadd_ps(w, v0, a[i][0]);
                a[i][1] = _mm256_fmadd_ps(w, v1, a[i][1]);
            }
        }
        EACH (i, n) _mm256_storeu_ps(acc + i * head_dim + d, a[i][0]), _mm256_storeu_ps(acc + i * head_dim + d + 8, a[i][1]);
    }
    for (; d < head_dim; d++)
        for (int i = 0; i < n; i++)
            for (int c = 0; c < n_pos; c++)
                acc[i * head_dim + d] =
                    fmaf(p[i * ATTEND_CHUNK + c], f32_at(values, kv == KV_F16 ? DT_F16 : DT_F32, (size_t)(c * head_dim + d)),
                         acc[i * head_dim + d]);
}

ALWAYS_INLINE void avx2_values(const float *p, int n, int n_pos, const void *values, int head_dim, enum kv_type kv, float *acc)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        if (kv == KV_F16) values_block(p + i * ATTEND_CHUNK, 4, n_pos, values, head_dim, KV_F16, acc + i * head_dim);
        else values_block(p + i * ATTEND_CHUNK, 4, n_pos, values, head_dim, KV_F32, acc + i * head_dim);
    }
    for (; i < n; i++) values_block(p + i * ATTEND_CHUNK, 1, n_pos, values, head_dim, kv, acc + i * head_dim);
}

/* cpu_expf on 8 lanes, with fused multiply-adds. */
ALWAYS_INLINE __m256 exp8(__m256 x)
{
    __m256 keep = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_NLT_UQ); /* NaN stays NaN */
    __m256 c = _mm256_min_ps(_mm256_set1_ps(EXP_MAX), x);                 /* the second operand survives when it is NaN */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(c, _mm256_set1_ps(EXP_LOG2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HI), c);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(EXP_P4);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P0));
    __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i scale = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(scale)), keep);
}

ALWAYS_INLINE float avx2_exps(float *p, float max, int n)
{
    __m256 m = _mm256_set1_ps(max), s0 = _mm256_setzero_ps(), s1 = s0;
    for (int i = 0; i < n; i += LANES) {
        __m256 e0 = exp8(_mm256_sub_ps(_mm256_loadu_ps(p + i), m)), e1 = exp8(_mm256_sub_ps(_mm256_loadu_ps(p + i + 8), m));
        _mm256_storeu_ps(p + i, e0);
        _mm256_storeu_ps(p + i + 8, e1);
        s0 = _mm256_add_ps(s0, e0);
        s1 = _mm256_add_ps(s1, e1);
    }
    float lane[LANES];
    _mm256_storeu_ps(lane, s0);
    _mm256_storeu_ps(lane + 8, s1);
    return fold_lanes(lane);
}

static void avx2_attend(const struct attend_task *t, float *scratch) { fp32_attend(t, scratch, avx2_scores, avx2_values, avx2_exps); }

ALWAYS_INLINE __m256 glu8(__m256 g, __m256 u)
{
    __m256 one = _mm256_set1_ps(1.0f), e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), g));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), u);
}

static void avx2_glu(float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(gate + i, glu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i == n) return;
    float g[8] = {0}, u[8] = {0}; /* the tail takes the same path, so that an element's value does not depend on its place */
    memcpy(g, gate + i, (n - i) * sizeof *g);
    memcpy(u, up + i, (n - i) * sizeof *u);
    _mm256_storeu_ps(g, glu8(_mm256_loadu_ps(g), _mm256_loadu_ps(u)));
    memcpy(gate + i, g, (n - i) * sizeof *g);
}

const struct cpu_kernels cpu_avx2 = {"avx2",     avx2_unusable, avx2_q4,   avx2_quantize, avx2_q4i,
                                     avx2_dense, avx2_norm,     avx2_rope, avx2_attend,   avx2_glu};

#else
typedef int translation_unit_is_not_empty;
#endif
