/* avx512.c: variant "avx512": AVX-512 F, BW, DQ and VL. The order of operations per output is that
 * of avx2.c, so that the two give the same bits. Empty on other architectures. */
#if defined(__x86_64__)

#include "backend-cpu/avx512.h"

#include "backend-cpu/avx512_attend.h"
#include "backend-cpu/avx512_packed.h"
#include "backend-cpu/fp32_experts.h"
#include "backend-cpu/avx512_states.h"

static const char *avx512_unusable(void)
{
    __builtin_cpu_init();
    int ok = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return ok ? NULL : "this processor or system has no AVX-512 (F, BW, DQ, VL)";
}

/* Conversion of the codes of one panel and group to floats. A permutation looks up the low 4 bits
 * of each lane and ignores the others, so no mask is needed; the table of symmetric groups (all
 * zeros 8) includes the zero point. */
struct decode {
    __m512 table, zero;
    int symmetric;
};

ALWAYS_INLINE struct decode decode_of(const uint8_t *zeros)
{
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i z = _mm_loadu_si128((const void *)zeros);
    struct decode d = {codes, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(z)),
                       _mm_movemask_epi8(_mm_cmpeq_epi8(z, _mm_set1_epi8(8))) == 0xffff};
    if (d.symmetric) d.table = _mm512_sub_ps(codes, _mm512_set1_ps(8));
    return d;
}

/* Input b (0..7) of a block as 16 floats code - zero; v is 64 bytes of codes: 16 rows x 8 nibbles.
 */
ALWAYS_INLINE __m512 code_minus_zero(__m512i v, int b, __m512 table, __m512 zero,
                                     const int symmetric)
{
    int shift = b < 4 ? 8 * b : 8 * (b - 4) + 4;
    __m512 c = _mm512_permutexvar_ps(shift ? _mm512_srli_epi32(v, (unsigned)shift) : v, table);
    return symmetric ? c : _mm512_sub_ps(c, zero);
}

/* Codes of np panels, which are panel_bytes apart, and those to be prefetched. */
struct q4_codes {
    const uint8_t *at, *ahead;
    size_t panel_bytes;
};

/* A register block: np panels x m rows. Constants after inlining. */
struct q4_block {
    int np, m, symmetric;
};

/* sum[np][m] = products of the codes and n inputs x [m][n]. */
ALWAYS_INLINE void q4_run(const struct q4_codes *c, const float *x, int n, const struct decode *d,
                          __m512 sum[4][4], const struct q4_block k)
{
    EACH (p, k.np)
        EACH (r, k.m) sum[p][r] = _mm512_setzero_ps();
    for (int j = 0; j < n; j += 8) {
        __m512i v[4];
        EACH (p, k.np) {
            size_t offset = (size_t)p * c->panel_bytes + (size_t)j * 8;
            v[p] = _mm512_loadu_si512(c->at + offset);
            _mm_prefetch((const char *)c->ahead + offset, _MM_HINT_T0);
        }
        EACH (b, 8)
            EACH (p, k.np) {
                __m512 q = code_minus_zero(v[p], b, d[p].table, d[p].zero, k.symmetric);
                EACH (r, k.m)
                    sum[p][r] = _mm512_fmadd_ps(q, _mm512_set1_ps(x[r * n + j + b]), sum[p][r]);
            }
    }
}

/* q4 GEMV for few rows: np panels x m rows decoded from the codes, np*m accumulators. */
ALWAYS_INLINE void q4_few(const struct linear *w, const float *x, float *y, int p0, const int np,
                          const int m)
{
    size_t panel_codes = (size_t)(w->k / 8) * 64;
    __m512 total[4][4], sum[4][4];
    EACH (p, np)
        EACH (r, m) total[p][r] = _mm512_setzero_ps();
    for (int g = 0; g < w->n_groups; g++) {
        struct decode d[4];
        int symmetric = 1;
        EACH (p, np) {
            d[p] = decode_of(w->zeros + ((size_t)(p0 + p) * (size_t)w->n_groups + (size_t)g) * 16);
            symmetric &= d[p].symmetric;
        }
        if (!symmetric)
            EACH (p, np)
                d[p].table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (int j0 = g * w->group, n; j0 < (g + 1) * w->group; j0 += n) {
            n = q4_next(w, j0) - j0;
            const uint8_t *codes = w->codes + (size_t)p0 * panel_codes + (size_t)j0 * 8;
            const float *xs = x + (size_t)j0 * m;
            /* The next panels follow the end of these, not the adjacent panel, which is being read.
             */
            int at_end = (size_t)j0 * 8 + AHEAD >= panel_codes;
            const struct q4_codes c = {
                codes, codes + AHEAD + (at_end ? (size_t)(np - 1) * panel_codes : 0), panel_codes};
            if (symmetric) q4_run(&c, xs, n, d, sum, (struct q4_block){np, m, 1});
            else q4_run(&c, xs, n, d, sum, (struct q4_block){np, m, 0});
            EACH (p, np) {
                __m512 s = load_scales(w,
                                       ((size_t)(p0 + p) * (size_t)w->n_groups + (size_t)g) * 16);
                EACH (r, m) total[p][r] = _mm512_fmadd_ps(s, sum[p][r], total[p][r]);
            }
        }
    }
    EACH (p, np)
        EACH (r, m) store_outputs(w, y + (size_t)r * (size_t)w->out, (p0 + p) * 16, total[p][r]);
}

/* Unpacks n inputs of one panel from j0 on to floats code - zero, dst [n][stride]. */
static void unpack_panel(const struct linear *w, int p, int j0, int n, float *dst, int stride)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    struct decode d =
        decode_of(w->zeros + ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16);
    if (d.symmetric) d.zero = _mm512_setzero_ps();
    for (int j = 0; j < n; j += 8, c += 64, dst += 8 * stride) {
        __m512i v = _mm512_loadu_si512(c);
        EACH (b, 8) _mm512_storeu_ps(dst + b * stride, code_minus_zero(v, b, d.table, d.zero, 0));
    }
}

/* total[m][np*16] += scale * sum over n inputs of codes[n][np*16] * x[m][n], np 1 or 2 */
ALWAYS_INLINE void tile(const float *codes, const float *x, int n, const __m512 *s, float *total,
                        const int np, const int m)
{
    __m512 a[8], b[8];
    EACH (r, m) a[r] = b[r] = _mm512_setzero_ps();
    for (int j = 0; j < n; j++, x++, codes += np * 16) {
        __m512 c0 = _mm512_loadu_ps(codes), c1 = np == 2 ? _mm512_loadu_ps(codes + 16) : c0;
        EACH (r, m) {
            __m512 v = _mm512_set1_ps(x[r * n]);
            a[r] = _mm512_fmadd_ps(c0, v, a[r]);
            if (np == 2) b[r] = _mm512_fmadd_ps(c1, v, b[r]);
        }
    }
    EACH (r, m) {
        float *t = total + r * np * 16;
        _mm512_storeu_ps(t, _mm512_fmadd_ps(s[0], a[r], _mm512_loadu_ps(t)));
        if (np == 2) _mm512_storeu_ps(t + 16, _mm512_fmadd_ps(s[1], b[r], _mm512_loadu_ps(t + 16)));
    }
}

ALWAYS_INLINE void tiles(const float *codes, const float *x, int n, const __m512 *s, float *total,
                         int rows, const int np)
{
    for (; rows >= 8; rows -= 8, x += 8 * n, total += 8 * np * 16)
        tile(codes, x, n, s, total, np, 8);
    for (; rows >= 4; rows -= 4, x += 4 * n, total += 4 * np * 16)
        tile(codes, x, n, s, total, np, 4);
    for (; rows; rows--, x += n, total += np * 16) tile(codes, x, n, s, total, np, 1);
}

/* q4 GEMM: np panels x rows r0 .. r0+nr-1 of `rows`. For each sub-group the panels are unpacked
 * once (16 KiB, stays in L1) for all rows. */
ALWAYS_INLINE void q4_many(const struct q4_call *c, int p, int r0, int nr, float *scratch,
                           const int np)
{
    const struct linear *w = c->w;
    float *codes = scratch, *total = scratch + CPU_SUBGROUP * np * 16;
    memset(total, 0, (size_t)(nr * np * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < w->k; j0 += n) {
        n = q4_next(w, j0) - j0;
        __m512 s[2];
        EACH (i, np)
            s[i] = load_scales(
                w, ((size_t)(p + i) * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16);
        if (!r0) fetch_panels(w, p, j0, n, np);
        EACH (i, np) unpack_panel(w, p + i, j0, n, codes + i * 16, np * 16);
        tiles(codes, c->x + (size_t)j0 * (size_t)c->rows + (size_t)r0 * (size_t)n, n, s, total, nr,
              np);
    }
    for (int r = 0; r < nr; r++)
        EACH (i, np)
            stream_outputs(w, c->y + (size_t)(r0 + r) * (size_t)w->out, (p + i) * 16,
                           _mm512_loadu_ps(total + (r * np + i) * 16), c->rows);
}

void avx512_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
               float *scratch)
{
    int p = p0;
    if (rows > 4) {
        const struct q4_call c = {w, x, y, rows, p0, p1};
        for (int r = 0; r < rows; r += CPU_ROW_TILE) {
            int n = rows - r < CPU_ROW_TILE ? rows - r : CPU_ROW_TILE;
            for (p = p0; p + 2 <= p1; p += 2) q4_many(&c, p, r, n, scratch, 2);
            if (p < p1) q4_many(&c, p, r, n, scratch, 1);
        }
        _mm_sfence();
        return;
    }
    if (rows == 1)
        for (; p + 4 <= p1; p += 4) q4_few(w, x, y, p, 4, 1);
    for (; p + 2 <= p1; p += 2) switch (rows) {
        case 1: q4_few(w, x, y, p, 2, 1); break;
        case 2: q4_few(w, x, y, p, 2, 2); break;
        case 3: q4_few(w, x, y, p, 2, 3); break;
        case 4: q4_few(w, x, y, p, 2, 4); break;
        }
    if (p < p1) switch (rows) {
        case 1: q4_few(w, x, y, p, 1, 1); break;
        case 2: q4_few(w, x, y, p, 1, 2); break;
        case 3: q4_few(w, x, y, p, 1, 3); break;
        case 4: q4_few(w, x, y, p, 1, 4); break;
        }
}

/* acc + products of 4 codes and 4 digits per lane, without VNNI. The sum is an instruction, because
 * gcc 12 reorders integer sums across a block and spills (tests/emulators/immintrin compiles this
 * for processors without it). */
ALWAYS_INLINE __m512i dot_maddubs(__m512i acc, __m512i codes, __m512i digits)
{
    __m512i v = _mm512_madd_epi16(_mm512_maddubs_epi16(codes, digits), _mm512_set1_epi16(1));
#ifdef __AVX512BW__
    __asm__("vpaddd %1, %0, %0" : "+v"(acc) : "v"(v));
    return acc;
#else
    return _mm512_add_epi32(acc, v);
#endif
}

/* quantize_scale of act_quant.h, n a multiple of 32. */
ALWAYS_INLINE float quantize_scale_512(const float *x, int n, int n_digits, int32_t largest,
                                       float *scale)
{
    if (largest) return quantize_factor(largest, n_digits, scale);
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    __m512i most0 = _mm512_setzero_si512(), most1 = most0;
    for (int i = 0; i < n; i += 32) {
        most0 = _mm512_max_epi32(most0, _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude));
        most1 = _mm512_max_epi32(most1,
                                 _mm512_and_si512(_mm512_loadu_si512(x + i + 16), magnitude));
    }
    return quantize_factor(_mm512_reduce_max_epi32(_mm512_max_epi32(most0, most1)), n_digits,
                           scale);
}

/* quantize_group of act_quant.h, n a multiple of 32. */
ALWAYS_INLINE int32_t quantize_group_512(const float *x, int n, const int n_digits, int32_t largest,
                                         int8_t *first, int8_t *second, float *scale)
{
    float inverse = quantize_scale_512(x, n, n_digits, largest, scale);
    if (inverse == 0) {
        memset(first, 0, (size_t)n);
        if (n_digits == 2) memset(second, 0, (size_t)n);
        return 0;
    }
    __m512i sum = _mm512_setzero_si512(), top = _mm512_set1_epi32(digits_top(n_digits));
    for (int i = 0; i < n; i += 16) {
        __m512i v = _mm512_cvtps_epi32(
            _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse))); /* to nearest even */
        if (n_digits == DIGITS_LOW) v = _mm512_min_epi32(v, top);
        sum = _mm512_add_epi32(sum, v);
        __m512i high = n_digits == 2
                           ? _mm512_srai_epi32(_mm512_add_epi32(v, _mm512_set1_epi32(64)), 7)
                           : v;
        _mm_storeu_si128((void *)(first + i), _mm512_cvtepi32_epi8(high));
        if (n_digits == 2)
            _mm_storeu_si128((void *)(second + i),
                             _mm512_cvtepi32_epi8(_mm512_sub_epi32(v, _mm512_slli_epi32(high, 7))));
    }
    return _mm512_reduce_add_epi32(sum);
}

ALWAYS_INLINE void quantize_row(const struct linear *w, const float *x, int row,
                                const struct q4_digits *q, const int n_digits)
{
    float group[CPU_SUBGROUP];
    size_t rows = (size_t)q->rows, s = (size_t)row;
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        int8_t *first = (int8_t *)q->digit + (size_t)j0 * rows * (size_t)n_digits +
                        (size_t)row * (size_t)n;
        const float *from = quantize_input(w, x, j0, n, group);
        float *scale = (float *)q->scale + s;
        ((int32_t *)q->sum)[s] = n_digits == 1 && j0 < q->low
                                     ? quantize_group_512(from, n, DIGITS_LOW, 0, first, NULL,
                                                          scale)
                                     : quantize_group_512(from, n, n_digits, q->largest, first,
                                                          first + rows * (size_t)n, scale);
    }
}

void avx512_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q)
{
    if (q->n_digits == 2) quantize_row(w, x, row, q, 2);
    else quantize_row(w, x, row, q, 1);
}

static void avx512_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                       float *scratch)
{
    q4i_512(&(struct q4i_call){w, x, y, p0, p1}, scratch, 10, 0, dot_maddubs);
}

/* 16 weights from element `at` on; lanes outside m are 0. */
ALWAYS_INLINE __m512 load_weights(const void *w, enum dtype t, size_t at, __mmask16 m)
{
    if (t == DT_F32) return _mm512_maskz_loadu_ps(m, (const float *)w + at);
    __m256i h = _mm256_maskz_loadu_epi16(m, (const uint16_t *)w + at);
    return t == DT_F16 ? _mm512_cvtph_ps(h)
                       : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Read pointers of nn outputs x m rows. With bases three rows apart, every row is a base plus 0, 1
 * or 2 strides, which an address holds. */
struct dense_at {
    const char *x[3], *weight;
    size_t x_row, weight_row; /* bytes */
};

/* Adds 16 inputs to the lanes. */
ALWAYS_INLINE void dense_step(const struct dense_at *at, enum dtype t, __mmask16 mask,
                              __m512 a[3][8], const int nn, const int m)
{
    __m512 u[3];
    EACH (i, nn) u[i] = load_weights(at->weight + (size_t)i * at->weight_row, t, 0, mask);
    EACH (r, m) {
        __m512 v = _mm512_maskz_loadu_ps(mask, at->x[r / 3] + (size_t)(r % 3) * at->x_row);
        KEEP_LOADED(v);
        EACH (i, nn) a[i][r] = _mm512_fmadd_ps(u[i], v, a[i][r]);
    }
}

/* Arguments of cpu_kernels.dense from some row on, and the state of its loops. */
struct dense_call {
    const struct linear *w;
    enum dtype t;
    const float *x;    /* [rows][in] */
    float *y;          /* [rows][out] */
    size_t ahead;      /* prefetch distance, bytes; or */
    const char **next; /* the next weights, of which each step prefetches next_bytes; else NULL */
    size_t next_bytes;
};

/* Lanes of a and b folded from 16 to 8 each. */
ALWAYS_INLINE __m512 fold_two(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

/* Lanes of four rows folded to 4 each. */
ALWAYS_INLINE __m512 fold_four(const __m512 a[4])
{
    __m512 b = fold_two(a[0], a[1]), c = fold_two(a[2], a[3]);
    return _mm512_add_ps(_mm512_shuffle_f32x4(b, c, 0x88), _mm512_shuffle_f32x4(b, c, 0xdd));
}

/* fold_16 of three outputs x rows r .. r+3, y [rows][out]. */
ALWAYS_INLINE void fold_outputs(__m512 a[3][8], int r, const struct linear *w, float *y, int n0)
{
    __m512 b = fold_four(a[0] + r), c = fold_four(a[1] + r), d = fold_four(a[2] + r);
    b = _mm512_add_ps(_mm512_shuffle_ps(b, c, 0x44), _mm512_shuffle_ps(b, c, 0xee));
    d = _mm512_add_ps(d, _mm512_shuffle_ps(d, d, 0xee));
    b = _mm512_add_ps(_mm512_shuffle_ps(b, d, 0x88), _mm512_shuffle_ps(b, d, 0xdd));
    if (w->bias) {
        const float *bias = w->bias + n0;
        b = _mm512_add_ps(b, _mm512_broadcast_f32x4(_mm_setr_ps(bias[0], bias[1], bias[2], 0)));
    }
    size_t out = (size_t)w->out;
    y += (size_t)r * out + (size_t)n0;
    _mm_mask_storeu_ps(y, 7, _mm512_extractf32x4_ps(b, 0));
    _mm_mask_storeu_ps(y + out, 7, _mm512_extractf32x4_ps(b, 1));
    _mm_mask_storeu_ps(y + 2 * out, 7, _mm512_extractf32x4_ps(b, 2));
    _mm_mask_storeu_ps(y + 3 * out, 7, _mm512_extractf32x4_ps(b, 3));
}

/* nn outputs from n0 on x m rows, inputs j0 .. j1-1, with the lanes of these outputs. */
ALWAYS_INLINE void dense_block(const struct dense_call *c, int n0, int j0, int j1, float *lanes,
                               const int nn, const int m, const int spread)
{
    const struct linear *w = c->w;
    size_t in = (size_t)w->in, bytes = c->t == DT_F32 ? 4 : 2;
    struct dense_at at = {.weight = (const char *)w->weight +
                                    ((size_t)n0 * in + (size_t)j0) * bytes,
                          .x_row = in * 4,
                          .weight_row = in * bytes};
    __m512 a[3][8];
    EACH (i, 3) at.x[i] = (const char *)(c->x + (3 * i < m ? 3 * i : 0) * (ptrdiff_t)in + j0);
    const char *ahead = c->next ? *c->next : at.weight + c->ahead;
    EACH (i, nn)
        EACH (r, m)
            a[i][r] = j0 ? _mm512_loadu_ps(lanes + (i * m + r) * LANES) : _mm512_setzero_ps();
    for (int left = (j1 - j0) / LANES; left; left--) {
        if (spread) _mm_prefetch(ahead, _MM_HINT_T1);
        else EACH (i, nn) _mm_prefetch(ahead + (size_t)i * at.weight_row, _MM_HINT_T0);
        dense_step(&at, c->t, 0xffff, a, nn, m);
        at.weight += LANES * bytes, ahead += spread ? c->next_bytes : LANES * bytes;
        EACH (i, 3) at.x[i] += LANES * 4;
    }
    if (spread) *c->next = ahead;
    if ((j1 - j0) % LANES)
        dense_step(&at, c->t, (__mmask16)((1u << (j1 - j0) % LANES) - 1), a, nn, m);
    if (j1 < w->in) {
        EACH (i, nn)
            EACH (r, m) _mm512_storeu_ps(lanes + (i * m + r) * LANES, a[i][r]);
        return;
    }
    if (nn == 3 && m % 4 == 0) {
        EACH (i, m / 4) fold_outputs(a, 4 * i, w, c->y, n0);
        return;
    }
    EACH (i, nn)
        EACH (r, m) {
            float total = fold_16(a[i][r]);
            c->y[(size_t)r * (size_t)w->out + n0 + i] = w->bias ? total + w->bias[n0 + i] : total;
        }
}

/* m rows from r on x outputs n0 .. n1-1. The inputs are processed in blocks, so that those of all
 * rows stay in L1; the lanes are saved between blocks. The first rows fetch the weights and
 * prefetch one block ahead; the other rows find them in L2. */
/* spread: while `passes` passes of m rows read these outputs, the next n1 - n0 come from memory. */
ALWAYS_INLINE void dense_rows(const struct dense_call *all, int r, int n0, int n1, const int m,
                              const int spread)
{
    enum { INPUTS = 1024, OUTPUTS = 3 };
    const struct linear *w = all->w;
    float lanes[CPU_DENSE_ROWS * 8 * LANES];
    struct dense_call c = *all;
    c.x += (size_t)r * (size_t)w->in;
    c.y += (size_t)r * (size_t)w->out;
    c.ahead = r ? 0 : (size_t)OUTPUTS * (size_t)w->in * (c.t == DT_F32 ? 4 : 2);
    CHECK(n1 - n0 <= CPU_DENSE_ROWS);
    for (int j0 = 0; j0 < w->in; j0 += INPUTS) {
        int j1 = j0 + INPUTS < w->in ? j0 + INPUTS : w->in, n = n0;
        for (; n + OUTPUTS <= n1; n += OUTPUTS)
            dense_block(&c, n, j0, j1, lanes + (n - n0) * m * LANES, OUTPUTS, m,
                        spread);
        for (; n < n1; n++)
            dense_block(&c, n, j0, j1, lanes + (n - n0) * m * LANES, 1, m, spread);
    }
}

ALWAYS_INLINE void dense_typed(const struct linear *w, enum dtype t, const float *x, float *y,
                               int rows, int n0, int n1)
{
    size_t weight_row = (size_t)w->in * (t == DT_F32 ? 4 : 2);
    const char *next = (const char *)w->weight + (size_t)n1 * weight_row;
    struct dense_call c = {.w = w, .t = t, .x = x, .y = y, .ahead = 4 * weight_row};
    float lanes[LANES];
    int n = n0, r = 0, passes = rows / 8;
    if (rows == 1) {
        /* one output at a time: memory is read in order */
        for (; n < n1; n++) dense_block(&c, n, 0, w->in, lanes, 1, 1, 0);
        return;
    }
    if (passes > 1) {
        c.next = &next;
        c.next_bytes = 3 * LANES * (weight_row / (size_t)w->in) / (size_t)passes;
        for (; r + 8 <= rows; r += 8) dense_rows(&c, r, n0, n1, 8, 1);
    }
    for (; r + 8 <= rows; r += 8) dense_rows(&c, r, n0, n1, 8, 0);
    for (; r + 4 <= rows; r += 4) dense_rows(&c, r, n0, n1, 4, 0);
    for (; r + 2 <= rows; r += 2) dense_rows(&c, r, n0, n1, 2, 0);
    for (; r < rows; r++) dense_rows(&c, r, n0, n1, 1, 0);
}

void avx512_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    if (w->weight_type == DT_F16) dense_typed(w, DT_F16, x, y, rows, n0, n1);
    else if (w->weight_type == DT_BF16) dense_typed(w, DT_BF16, x, y, rows, n0, n1);
    else dense_typed(w, DT_F32, x, y, rows, n0, n1);
}

void avx512_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim)
{
    fp32_norm(x, delta, weight, eps, out, dim);
}

void avx512_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                       float eps, float *out, int dim)
{
    fp32_layer_norm(x, delta, weight, bias, eps, out, dim);
}

void avx512_add(float *x, const float *y, const float *gate, float factor, int n)
{
    fp32_add(x, y, gate, factor, n);
}

void avx512_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                 float eps, const float *cosv, const float *sinv)
{
    fp32_rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
}

void avx512_scatter(float *y, size_t stride, const int32_t *row, const float *from, int rows,
                    int n)
{
    for (int r = 0; r < rows; r++, from += n) {
        float *to = y + (size_t)row[r] * stride;
        if (((uintptr_t)to & 63) || n % 16) memcpy(to, from, (size_t)n * sizeof *to);
        else
            for (int i = 0; i < n; i += 16) _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
    }
    _mm_sfence();
}

void avx512_route(const struct route_task *t) { fp32_route(t, avx512_exps); }

void avx512_sums(const float *x, int group, int groups, float *out)
{
    fp32_sums(x, group, groups, out);
}

void avx512_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    fp32_mix(x, weight, top_k, out, n);
}

const struct cpu_kernels cpu_avx512 = {
    .name = "avx512",
    .unusable = avx512_unusable,
    .q4 = avx512_q4,
    .quantize = avx512_quantize,
    .q4i = avx512_q4i,
    .dense = avx512_dense,
    .norm = avx512_norm,
    .layer_norm = avx512_layer_norm,
    .add = avx512_add,
    .rope = avx512_rope,
    .attend = avx512_attend,
    .merge = avx512_merge,
    .glu = avx512_glu,
    .softcap = avx512_softcap,
    .cached_bytes = CACHED_BYTES,
    .states = &avx512_states,
    .copy_digits = digits_copy,
    .scatter = avx512_scatter,
    .route = avx512_route,
    .mix = avx512_mix,
    .sums = avx512_sums,
    .unpack = avx512_unpack,
};

#else
typedef int translation_unit_is_not_empty;
#endif
