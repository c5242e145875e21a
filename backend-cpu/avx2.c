/* avx2.c: variant "avx2": AVX2, FMA and F16C. Empty on other architectures. */
#if defined(__x86_64__)

#include "backend-cpu/act_quant.h"
#include "backend-cpu/avx2_attend_int8.h"
#include "backend-cpu/avx2_experts.h"
#include "backend-cpu/avx2_packed.h"
#include "backend-cpu/avx2_states.h"

static const char *avx2_unusable(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return "this processor has no AVX2";
    if (!__builtin_cpu_supports("fma")) return "this processor has no FMA";
    return __builtin_cpu_supports("f16c") ? NULL : "this processor has no F16C";
}

/* 8 scales of half a panel. */
ALWAYS_INLINE __m256 load_scales(const struct linear *w, size_t at)
{
    return w->scale_type == DT_F16 ? load_f16((const uint16_t *)w->scales + at)
                                   : _mm256_loadu_ps((const float *)w->scales + at);
}

/* Input b (0..7) of a block as 8 floats code - zero; v is 32 bytes of codes: 8 rows x 8 nibbles. */
ALWAYS_INLINE __m256 code_minus_zero(__m256i v, int b, __m256 zero)
{
    int shift = b < 4 ? 8 * b : 8 * (b - 4) + 4;
    __m256i c = shift ? _mm256_srli_epi32(v, shift) : v;
    if (shift < 28) c = _mm256_and_si256(c, _mm256_set1_epi32(15));
    return _mm256_sub_ps(_mm256_cvtepi32_ps(c), zero);
}

ALWAYS_INLINE __m256 load_zeros(const uint8_t *z)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)z)));
}

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

/* q4 GEMV for few rows: np panels x m rows from r0 on, decoded from the codes; 2*np*m <= 8
 * accumulators of a sub-group stay in registers. */
ALWAYS_INLINE void q4_few(const struct linear *w, const float *x, float *y, int rows, int r0, int p,
                          const int np, const int m)
{
    size_t panel_codes = (size_t)(w->k / 8) * 64, panel_groups = (size_t)w->n_groups * 16;
    __m256 total[4][4];
    EACH (h, 2 * np)
        EACH (r, m) total[h][r] = _mm256_setzero_ps();
    for (int g = 0; g < w->n_groups; g++) {
        __m256 zero[4];
        if (!r0) fetch_panels(w, p, g * w->group, w->group, np);
        EACH (h, 2 * np)
            zero[h] = load_zeros(w->zeros + (size_t)(p + h / 2) * panel_groups +
                                 (size_t)(g * 16 + h % 2 * 8));
        for (int j0 = g * w->group, j1; j0 < (g + 1) * w->group; j0 = j1) {
            j1 = q4_next(w, j0);
            const float *xj = x + (size_t)j0 * (size_t)rows + (size_t)r0 * (size_t)(j1 - j0);
            __m256 sum[4][4];
            EACH (h, 2 * np)
                EACH (r, m) sum[h][r] = _mm256_setzero_ps();
            for (int j = j0; j < j1; j += 8) {
                const uint8_t *c = w->codes + (size_t)p * panel_codes + (size_t)j * 8;
                __m256i v[4];
                EACH (h, 2 * np)
                    v[h] = _mm256_loadu_si256(
                        (const void *)(c + (size_t)(h / 2) * panel_codes + (size_t)(h % 2 * 32)));
                EACH (b, 8)
                    EACH (h, 2 * np) {
                        __m256 q = code_minus_zero(v[h], b, zero[h]);
                        EACH (r, m)
                            sum[h][r] = _mm256_fmadd_ps(
                                q, _mm256_broadcast_ss(xj + r * (j1 - j0) + j - j0 + b), sum[h][r]);
                    }
            }
            EACH (h, 2 * np) {
                __m256 s = load_scales(w, (size_t)(p + h / 2) * panel_groups +
                                              (size_t)(g * 16 + h % 2 * 8));
                EACH (r, m) total[h][r] = _mm256_fmadd_ps(s, sum[h][r], total[h][r]);
            }
        }
    }
    EACH (h, 2 * np)
        EACH (r, m)
            store_outputs(w, y + (size_t)(r0 + r) * (size_t)w->out, (p + h / 2) * 16 + h % 2 * 8,
                          total[h][r]);
}

/* For a single row codes are converted to floats in the mantissa: 2^23 with a code in its lowest
 * byte is 2^23 + code, 2^15 with a code in the next byte 2^15 + code, 2^7 with a code in the byte
 * above 2^7 + code, exactly. So the subtrahend of a zero point has one form for each. A mask
 * isolates the codes of four inputs at once, and a blend puts the byte of one of them into its
 * power of two. */
#define OF_8(v) {v, v, v, v, v, v, v, v}
static const uint32_t two_15[8] = OF_8(0x47000000), two_7[8] = OF_8(0x43000000);

struct zeros {
    __m256 at[3]; /* 2^23 + zero, 2^15 + zero, 2^7 + zero */
};

/* 8 inputs x of one row x four panel halves, two at c0 and two at c1: sum[h] += products, input by
 * input. The four accumulators alternate to hide the latency of additions. In assembly, because the
 * registers just suffice and gcc 12 spills. */
ALWAYS_INLINE void q4_step(const uint8_t *c0, const uint8_t *c1, const float *x,
                           const struct zeros *zero, __m256 *sum)
{
    const __m256i low = _mm256_set1_epi32(0x0f0f0f0f), two_23 = _mm256_set1_epi32(0x4b000000);
    const __m256i all_but_0 = _mm256_set1_epi32(~0xff), all_but_1 = _mm256_set1_epi32(~0xff00),
                  all_but_2 = _mm256_set1_epi32(~0xff0000);
    __m256i v0, v1, v2, v3, t, xb;
#define LOAD                                                                                       \
    "vmovdqu (%[c0]), %[v0]\n\tvmovdqu 32(%[c0]), %[v1]\n\tvmovdqu (%[c1]), %[v2]\n\tvmovdqu "     \
    "32(%[c1]), %[v3]\n\t"
#define EACH_OF(op, by)                                                                            \
    op by ", %[v0], %[v0]\n\t" op by ", %[v1], %[v1]\n\t" op by ", %[v2], %[v2]\n\t" op by         \
          ", %[v3], %[v3]\n\t"
#define ADD(zero_at, s)                                                                            \
    "vsubps " zero_at "(%[zero]), %[t], %[t]\n\tvfmadd231ps %[xb], %[t], %[" s "]\n\t"
#define BLEND(v, others, power, zero_at, s)                                                        \
    "vpblendvb %[" others "], " power ", %[" v "], %[t]\n\t" ADD(zero_at, s)
#define INPUT(at, others, power, z0, z1, z2, z3)                                                   \
    "vbroadcastss " at "(%[x]), %[xb]\n\t" BLEND("v0", others, power, z0, "s0")                    \
        BLEND("v1", others, power, z1, "s1") BLEND("v2", others, power, z2, "s2")                  \
            BLEND("v3", others, power, z3, "s3")
#define SHIFTED(v, zero_at, s)                                                                     \
    "vpsrld $24, %[" v "], %[t]\n\tvpor %[two_23], %[t], %[t]\n\t" ADD(zero_at, s)
#define LAST_INPUT(at)                                                                             \
    "vbroadcastss " at "(%[x]), %[xb]\n\t" SHIFTED("v0", "0", "s0") SHIFTED("v1", "96", "s1")      \
        SHIFTED("v2", "192", "s2") SHIFTED("v3", "288", "s3")
#define INPUTS(at0, at1, at2, at3)                                                                 \
    INPUT(at0, "all_but_0", "%[two_23]", "0", "96", "192", "288")                                  \
    INPUT(at1, "all_but_1", "%[two_15]", "32", "128", "224", "320")                                \
    INPUT(at2, "all_but_2", "%[two_7]", "64", "160", "256", "352") LAST_INPUT(at3)
    __asm__(LOAD EACH_OF("vpand", " %[low]") INPUTS("0", "4", "8", "12")
                LOAD EACH_OF("vpsrld", " $4") EACH_OF("vpand", " %[low]")
                    INPUTS("16", "20", "24", "28")
            : [s0] "+x"(sum[0]), [s1] "+x"(sum[1]), [s2] "+x"(sum[2]), [s3] "+x"(sum[3]),
              [v0] "=&x"(v0), [v1] "=&x"(v1), [v2] "=&x"(v2), [v3] "=&x"(v3), [t] "=&x"(t),
              [xb] "=&x"(xb)
            : [c0] "r"(c0), [c1] "r"(c1), [x] "r"(x), [zero] "r"(zero), [low] "x"(low),
              [two_23] "x"(two_23), [all_but_0] "x"(all_but_0), [all_but_1] "x"(all_but_1),
              [all_but_2] "x"(all_but_2), [two_15] "m"(two_15), [two_7] "m"(two_7),
              "m"(*(const uint8_t(*)[64])c0), "m"(*(const uint8_t(*)[64])c1),
              "m"(*(const float(*)[8])x), "m"(*(const struct zeros(*)[4])zero));
#undef LOAD
#undef EACH_OF
#undef ADD
#undef BLEND
#undef INPUT
#undef SHIFTED
#undef LAST_INPUT
#undef INPUTS
}

/* q4 GEMV of two panels x one row, which is bound by arithmetic on this instruction set. */
static void q4_row(const struct linear *w, const float *x, float *y, int p)
{
    size_t panel_codes = (size_t)(w->k / 8) * 64, panel_groups = (size_t)w->n_groups * 16;
    const uint8_t *c = w->codes + (size_t)p * panel_codes;
    __m256 total[4];
    EACH (h, 4) total[h] = _mm256_setzero_ps();
    for (int j0 = 0, j1; j0 < w->k; j0 = j1) {
        size_t group = (size_t)(j0 / w->group);
        struct zeros zero[4];
        __m256 sum[4];
        j1 = q4_next(w, j0);
        EACH (h, 4) {
            __m256 z = load_zeros(w->zeros + (size_t)(p + h / 2) * panel_groups + group * 16 +
                                  (size_t)(h % 2 * 8));
            zero[h] = (struct zeros){{z + _mm256_set1_ps(0x1p23f), z + _mm256_set1_ps(0x1p15f),
                                      z + _mm256_set1_ps(0x1p7f)}};
            sum[h] = _mm256_setzero_ps();
        }
        fetch_panels(w, p, j0, j1 - j0, 2);
        for (int j = j0; j < j1; j += 8, c += 64) q4_step(c, c + panel_codes, x + j, zero, sum);
        EACH (h, 4) {
            __m256 s = load_scales(w, (size_t)(p + h / 2) * panel_groups + group * 16 +
                                          (size_t)(h % 2 * 8));
            total[h] = _mm256_fmadd_ps(s, sum[h], total[h]);
        }
    }
    EACH (h, 4) store_outputs(w, y, (p + h / 2) * 16 + h % 2 * 8, total[h]);
}

/* Unpacks n inputs of one panel from j0 on to floats code - zero, dst [n][16]. */
static void unpack_panel(const struct linear *w, int p, int j0, int n, float *dst)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const uint8_t *z = w->zeros + ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
    __m256 z0 = load_zeros(z), z1 = load_zeros(z + 8);
    for (int j = 0; j < n; j += 8, c += 64, dst += 8 * 16) {
        __m256i v0 = _mm256_loadu_si256((const void *)c),
                v1 = _mm256_loadu_si256((const void *)(c + 32));
        EACH (b, 8) {
            _mm256_storeu_ps(dst + b * 16, code_minus_zero(v0, b, z0));
            _mm256_storeu_ps(dst + b * 16 + 8, code_minus_zero(v1, b, z1));
        }
    }
}

/* total[m][16] += scale * sum over n inputs of codes[n][16] * x[m][n] */
ALWAYS_INLINE void tile(const float *codes, const float *x, int n, __m256 s0, __m256 s1,
                        float *total, const int m)
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

/* Register blocks of up to 6 rows, of equal height. */
static void tiles(const float *codes, const float *x, int n, __m256 s0, __m256 s1, float *total,
                  int rows)
{
    for (int left = (rows + 5) / 6, m; left; left--, rows -= m, x += m * n, total += m * 16) {
        m = rows / left;
        switch (m) {
        case 6: tile(codes, x, n, s0, s1, total, 6); break;
        case 5: tile(codes, x, n, s0, s1, total, 5); break;
        case 4: tile(codes, x, n, s0, s1, total, 4); break;
        case 3: tile(codes, x, n, s0, s1, total, 3); break;
        case 2: tile(codes, x, n, s0, s1, total, 2); break;
        case 1: tile(codes, x, n, s0, s1, total, 1); break;
        }
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
            size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
            if (!r0) fetch_panels(w, p, j0, n, 1);
            unpack_panel(w, p, j0, n, codes);
            tiles(codes, c->x + (size_t)j0 * (size_t)c->rows + (size_t)r0 * (size_t)n, n,
                  load_scales(w, at), load_scales(w, at + 8), total + (p - p0) * nr * 16, nr);
        }
    }
    for (int p = p0; p < p1; p++)
        for (int r = r0; r < r0 + nr; r++, total += 16) {
            store_outputs(w, c->y + (size_t)r * (size_t)w->out, p * 16, _mm256_loadu_ps(total));
            store_outputs(w, c->y + (size_t)r * (size_t)w->out, p * 16 + 8,
                          _mm256_loadu_ps(total + 8));
        }
}

/* Up to this many rows are faster without unpack_panel (measured on a Zen 3). */
enum { FEW_ROWS = 12 };

static void avx2_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
                    float *scratch)
{
    if (rows > FEW_ROWS) {
        const struct q4_call c = {w, x, y, rows, p0, p1};
        for (int r = 0; r < rows; r += CPU_ROW_TILE)
            q4_many(&c, r, rows - r < CPU_ROW_TILE ? rows - r : CPU_ROW_TILE, scratch);
        return;
    }
    int p = p0;
    if (rows == 1)
        for (; p + 2 <= p1; p += 2) q4_row(w, x, y, p);
    for (; p < p1; p++)
        for (int left = (rows + 3) / 4, r = 0, m; left; left--, r += m) {
            m = (rows - r) / left;
            switch (m) {
            case 4: q4_few(w, x, y, rows, r, p, 1, 4); break;
            case 3: q4_few(w, x, y, rows, r, p, 1, 3); break;
            case 2: q4_few(w, x, y, rows, r, p, 1, 2); break;
            case 1: q4_few(w, x, y, rows, r, p, 1, 1); break;
            }
        }
}

#include "backend-cpu/avx2_integers.h"

/* 8 weights from element `at` on. */
ALWAYS_INLINE __m256 load_weights(const void *w, enum dtype t, size_t at)
{
    if (t == DT_F16) return load_f16((const uint16_t *)w + at);
    if (t == DT_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)((const uint16_t *)w + at))), 16));
    return _mm256_loadu_ps((const float *)w + at);
}

/* fold_lanes of 16 lanes in two vectors. */
ALWAYS_INLINE float fold_256(__m256 lo, __m256 hi)
{
    __m256 v = _mm256_add_ps(lo, hi);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* Adds inputs j .. in-1, fewer than LANES, to the lanes of output n. */
static __attribute__((noinline)) void dense_tail(const struct linear *w, enum dtype t,
                                                 const float *x, int n, int j, __m256 *a)
{
    float lane[LANES];
    _mm256_storeu_ps(lane, a[0]);
    _mm256_storeu_ps(lane + 8, a[1]);
    for (int l = 0; j + l < w->in; l++)
        lane[l] = fmaf(f32_at(w->weight, t, (size_t)n * (size_t)w->in + (size_t)(j + l)), x[j + l],
                       lane[l]);
    a[0] = _mm256_loadu_ps(lane);
    a[1] = _mm256_loadu_ps(lane + 8);
}

/* nn outputs x m rows, each with 16 lanes; asks for the weights `ahead` outputs further on. */
ALWAYS_INLINE void dense_block(const struct linear *w, enum dtype t, const float *x, float *y,
                               int n0, const int nn, const int m, int ahead)
{
    int in = w->in, j = 0;
    size_t bytes = t == DT_F32 ? 4 : 2;
    __m256 a[4][3][2];
    EACH (i, nn)
        EACH (r, m) a[i][r][0] = a[i][r][1] = _mm256_setzero_ps();
    for (; j + LANES <= in; j += LANES) {
        EACH (i, nn)
            __builtin_prefetch((const char *)w->weight +
                               ((size_t)(n0 + ahead + i) * (size_t)in + (size_t)j) * bytes);
        EACH (h, 2) {
            __m256 v[4];
            EACH (i, nn)
                v[i] = load_weights(w->weight, t,
                                    (size_t)(n0 + i) * (size_t)in + (size_t)(j + h * 8));
            EACH (r, m) {
                __m256 xr = _mm256_loadu_ps(x + (size_t)r * (size_t)in + j + h * 8);
                if (m > 1)
                    __asm__("" : "+x"(xr)); /* one load: gcc would repeat it for every output */
                EACH (i, nn) a[i][r][h] = _mm256_fmadd_ps(v[i], xr, a[i][r][h]);
            }
        }
    }
    EACH (i, nn)
        EACH (r, m) {
            if (j < in) dense_tail(w, t, x + (size_t)r * (size_t)in, n0 + i, j, a[i][r]);
            float total = fold_256(a[i][r][0], a[i][r][1]);
            y[(size_t)r * (size_t)w->out + n0 + i] = w->bias ? total + w->bias[n0 + i] : total;
        }
}

enum { DENSE_CHUNK = 16 };

ALWAYS_INLINE void dense_typed(const struct linear *w, enum dtype t, const float *x, float *y,
                               int rows, int n0, int n1)
{
    size_t in = (size_t)w->in, out = (size_t)w->out;
    int n = n0;
    if (rows == 1)
        for (; n + 4 <= n1; n += 4) dense_block(w, t, x, y, n, 4, 1, 4);
    for (int end; n + 2 <= n1; n = end) { /* blocks of up to three rows of equal height, which stay
                                             in L1; the weights of some outputs stay in L2 */
        end = n + DENSE_CHUNK <= n1 ? n + DENSE_CHUNK : n + (n1 - n) / 2 * 2;
        for (int left = (rows + 2) / 3, r = 0, m; left; left--, r += m) {
            m = (rows - r) / left;
            const float *xr = x + (size_t)r * in;
            float *yr = y + (size_t)r * out;
            int ahead = r ? 0 : 2; /* further rows find the weights in L2 */
            if (m == 3)
                for (int i = n; i < end; i += 2) dense_block(w, t, xr, yr, i, 2, 3, ahead);
            else if (m == 2)
                for (int i = n; i < end; i += 2) dense_block(w, t, xr, yr, i, 2, 2, ahead);
            else
                for (int i = n; i < end; i += 2) dense_block(w, t, xr, yr, i, 2, 1, ahead);
        }
    }
    for (; n < n1; n++)
        for (int r = 0; r < rows; r++)
            dense_block(w, t, x + (size_t)r * in, y + (size_t)r * out, n, 1, 1, 0);
}

static void avx2_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    if (w->weight_type == DT_F16) dense_typed(w, DT_F16, x, y, rows, n0, n1);
    else if (w->weight_type == DT_BF16) dense_typed(w, DT_BF16, x, y, rows, n0, n1);
    else dense_typed(w, DT_F32, x, y, rows, n0, n1);
}

static void avx2_norm(float *x, const float *delta, const float *weight, float eps, float *out,
                      int dim)
{
    fp32_norm(x, delta, weight, eps, out, dim);
}

static void avx2_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                            float eps, float *out, int dim)
{
    fp32_layer_norm(x, delta, weight, bias, eps, out, dim);
}

static void avx2_add(float *x, const float *y, const float *gate, float factor, int n)
{
    fp32_add(x, y, gate, factor, n);
}

static void avx2_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                      float eps, const float *cosv, const float *sinv)
{
    fp32_rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
}

const struct cpu_kernels cpu_avx2 = {
    .name = "avx2",
    .unusable = avx2_unusable,
    .q4 = avx2_q4,
    .quantize = avx2_quantize,
    .q4i = avx2_q4i,
    .dense = avx2_dense,
    .norm = avx2_norm,
    .layer_norm = avx2_layer_norm,
    .add = avx2_add,
    .rope = avx2_rope,
    .attend = avx2_attend,
    .merge = avx2_merge,
    .glu = avx2_glu,
    .softcap = avx2_softcap,
    .states = &avx2_states,
    .copy_digits = avx2_copy_digits,
    .route = avx2_route,
    .mix = avx2_mix,
    .sums = avx2_sums,
    .unpack = avx2_unpack,
};

#else
typedef int translation_unit_is_not_empty;
#endif
