/* avx512.h: operations shared by the AVX-512 variants, and the integer q4 kernels over a four-way
 * dot product, which each variant provides. */
#ifndef BACKEND_CPU_AVX512_H
#define BACKEND_CPU_AVX512_H

#include "backend-cpu/act_quant.h"

#include <immintrin.h>

void avx512_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
               float *scratch);
void avx512_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q);
void avx512_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1);
void avx512_norm(float *x, const float *delta, const float *weight, float eps, float *out, int dim);
void avx512_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                       float eps, float *out, int dim);
void avx512_add(float *x, const float *y, const float *gate, float factor, int n);
void avx512_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                 float eps, const float *cosv, const float *sinv);
void avx512_attend(const struct attend_task *t, float *scratch);
void avx512_merge(const struct attend_task *t, float *scratch);
void avx512_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n);
void avx512_softcap(float *x, float cap, size_t n);
void avx512_scatter(float *y, size_t stride, const int32_t *row, const float *from, int rows,
                    int n);
void avx512_route(const struct route_task *t);
void avx512_sums(const float *x, int group, int groups, float *out);
void avx512_mix(const float *x, const float *weight, int top_k, float *out, int n);
extern const struct state_kernels avx512_states;
void avx512_unpack(const char *page, enum kv_part part, int head_dim, char *to);
void vnni_attend(const struct attend_task *t, float *scratch);
void vnni_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
              float *scratch);

/* Half of the level-2 cache of most processors with AVX-512 or AMX. */
enum { CACHED_BYTES = 1 << 20 };

/* From this many rows on, outputs leave the caches before they are read. */
enum { STREAM_ROWS = 64 };

/* Functions that are too large for each other's registers. */
#define NOT_INLINE static __attribute__((noinline))

/* A loop over a register block, see avx2_attend.h. */
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

ALWAYS_INLINE __m512 load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

/* 16 scales of one panel and group. */
ALWAYS_INLINE __m512 load_scales(const struct linear *w, size_t at)
{
    return w->scale_type == DT_F16 ? load_f16((const uint16_t *)w->scales + at)
                                   : _mm512_loadu_ps((const float *)w->scales + at);
}

/* Outputs n0 .. n0+15 of one row; the last panel may be ragged. */
ALWAYS_INLINE void store_outputs(const struct linear *w, float *y, int n0, __m512 v)
{
    int left = w->out - n0;
    __mmask16 m = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
    if (w->bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, w->bias + n0));
    _mm512_mask_storeu_ps(y + n0, m, v);
}

/* store_outputs() for one of many rows, with non-temporal stores: lines that are overwritten
 * completely are not fetched. The caller ends with _mm_sfence. */
ALWAYS_INLINE void stream_outputs(const struct linear *w, float *y, int n0, __m512 v, int rows)
{
    if (rows < STREAM_ROWS || w->out - n0 < 16 || ((uintptr_t)(y + n0) & 63)) {
        store_outputs(w, y, n0, v);
        return;
    }
    if (w->bias) v = _mm512_add_ps(v, _mm512_loadu_ps(w->bias + n0));
    _mm512_stream_ps(y + n0, v);
}

/* v, just loaded, is used from its register: gcc else gives each of several products the load. */
#ifdef __AVX512F__ /* emulated vectors are no operands */
#define KEEP_LOADED(v) __asm__("" : "+v"(v))
#else
#define KEEP_LOADED(v) ((void)(v))
#endif

/* acc + sum of 4 products per 32-bit lane, codes unsigned, digits signed */
typedef __m512i dot4_fn(__m512i acc, __m512i codes, __m512i digits);

/* A block of 8 inputs x 16 outputs: inputs 0..3 of each output, inputs 4..7. */
struct block_codes {
    __m512i low, high;
};

/* Loads a block from c; of pairs also the low halves, `apart` bytes further. */
ALWAYS_INLINE struct block_codes load_block(const uint8_t *c, size_t apart, const int pairs)
{
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i v = _mm512_loadu_si512(c);
    if (!pairs)
        return (struct block_codes){_mm512_and_si512(v, mask),
                                    _mm512_and_si512(_mm512_srli_epi16(v, 4), mask)};
    enum { SELECT = 0xca }; /* bits of the second operand where the first has 1, else the third */
    __m512i l = _mm512_loadu_si512(c + apart);
    return (struct block_codes){
        _mm512_ternarylogic_epi32(mask, l, _mm512_slli_epi32(v, 4), SELECT),
        _mm512_ternarylogic_epi32(mask, _mm512_srli_epi16(l, 4), v, SELECT)};
}

/* The zero points of 16 outputs. at: where those of the panel and group begin */
ALWAYS_INLINE __m512i load_zeros(const struct linear *w, size_t at, const int pairs)
{
    return pairs ? _mm512_set1_epi32(PAIR_ZERO)
                 : _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(w->zeros + at)));
}

/* 4 activation digits, broadcast to every lane. */
ALWAYS_INLINE __m512i load_4(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

/* One sub-group of one or two panels, and rows of activations. */
struct q4i_group {
    int n;                   /* inputs */
    const uint8_t *codes[2]; /* codes of each panel */
    size_t apart;            /* pairs: bytes from high to low halves */
    const int8_t *digit[2];  /* [rows][n] first digits; second digits */
    __m512i zero[2];
    __m512 scale[2];
    const int32_t *sum;     /* [rows] of the integers */
    const float *act_scale; /* [rows] */
    float *total;           /* [rows][np*16] */
};

/* A register block: np panels (1 or 2) x m rows. whole: codes of pairs are multiplied as codes of 8
 * bits, else half by half: 16 times the sum of the high halves and that of the low ones. Constants
 * after inlining, but for pairs where whole is 0. */
struct q4i_block {
    int np, digits, m, pairs, whole;
};

/* total[m][np*16] += the sub-group x m rows from r0 on. */
ALWAYS_INLINE void q4i_tile(const struct q4i_group *g, int r0, const struct q4i_block k,
                            dot4_fn *dot4)
{
    enum { MAX = 12 };
    const int n = g->n, np = k.np, digits = k.digits, m = k.m, whole = k.whole,
              passes = k.pairs && !whole ? 2 : 1;
    const int32_t *sum = g->sum + r0;
    const float *act_scale = g->act_scale + r0;
    float *total = g->total + r0 * np * 16;
    __m512i a0[MAX], b0[MAX], a1[MAX], b1[MAX]; /* first and second digit of panel 0, of panel 1 */
    EACH (r, m) a0[r] = b0[r] = a1[r] = b1[r] = _mm512_setzero_si512();
    for (int pass = 0; pass < passes; pass++) {
        const uint8_t *c0 = g->codes[0], *c1 = g->codes[1];
        const int8_t *first = g->digit[0] + r0 * n, *second = g->digit[1] + r0 * n;
        if (pass) {
            c0 += g->apart, c1 += g->apart;
            EACH (r, m) {
                a0[r] = _mm512_slli_epi32(a0[r], 4), b0[r] = _mm512_slli_epi32(b0[r], 4);
                a1[r] = _mm512_slli_epi32(a1[r], 4), b1[r] = _mm512_slli_epi32(b1[r], 4);
            }
        }
        for (int j = 0; j < n; j += 8, c0 += 64, c1 += 64, first += 8, second += 8) {
            struct block_codes v0 = load_block(c0, g->apart, whole),
                               v1 = np == 2 ? load_block(c1, g->apart, whole) : v0;
            EACH (r, m) {
                __m512i f = load_4(first + r * n), h = load_4(first + r * n + 4);
                a0[r] = dot4(dot4(a0[r], v0.low, f), v0.high, h);
                if (np == 2) a1[r] = dot4(dot4(a1[r], v1.low, f), v1.high, h);
                if (digits == 2) {
                    f = load_4(second + r * n), h = load_4(second + r * n + 4);
                    b0[r] = dot4(dot4(b0[r], v0.low, f), v0.high, h);
                    if (np == 2) b1[r] = dot4(dot4(b1[r], v1.low, f), v1.high, h);
                }
            }
        }
    }
    EACH (r, m)
        EACH (p, np) {
            __m512i a = p ? a1[r] : a0[r], b = p ? b1[r] : b0[r],
                    v = digits == 2 ? _mm512_add_epi32(_mm512_slli_epi32(a, 7), b) : a;
            v = _mm512_sub_epi32(v, _mm512_mullo_epi32(g->zero[p], _mm512_set1_epi32(sum[r])));
            float *t = total + (r * np + p) * 16;
            __m512 f = _mm512_mul_ps(_mm512_set1_ps(act_scale[r]), g->scale[p]);
            _mm512_storeu_ps(
                t, _mm512_add_ps(_mm512_loadu_ps(t), _mm512_mul_ps(_mm512_cvtepi32_ps(v), f)));
        }
}

/* Of 8 rows, blocks of 6 leave two that are multiplied one by one, of 9 three. */
ALWAYS_INLINE int fours_leave_less(int rows, const int m)
{
    return m == 6 && (rows == 8 || rows == 9);
}

/* q4i GEMM: k.np panels from p on x rows r0 .. r0+nr-1, k.m rows at a time. total [nr][np*16] is
 * scratch. */
ALWAYS_INLINE void q4i_panels(const struct q4i_call *c, int p, int r0, int nr, float *total,
                              const struct q4i_block k, dot4_fn *dot4)
{
    const struct linear *w = c->w;
    const struct q4_digits *x = c->x;
    const int np = k.np;
    const struct q4i_block four = {np, k.digits, 4, k.pairs, k.whole},
                           one = {np, k.digits, 1, k.pairs, k.whole};
    size_t rows = (size_t)x->rows, s = (size_t)r0, panel = (size_t)(w->k / 8) * 64;
    memset(total, 0, (size_t)(nr * np * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const uint8_t *codes = w->codes + (size_t)p * panel + (size_t)q4i_packed(w, j0) * 8;
        const int8_t *digit = x->digit + (size_t)j0 * rows * k.digits + (size_t)r0 * (size_t)n;
        struct q4i_group g = {.n = n,
                              .codes = {codes, codes + panel},
                              .apart = (size_t)w->group * 8,
                              .digit = {digit, digit + rows * (size_t)n},
                              .sum = x->sum + s,
                              .act_scale = x->scale + s,
                              .total = total};
        EACH (i, np) {
            size_t at = ((size_t)(p + i) * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * 16;
            g.zero[i] = load_zeros(w, at, k.pairs);
            g.scale[i] = load_scales(w, at);
        }
        if (!r0) fetch_panels_q4i(w, p, j0, n, np);
        int r = 0;
        for (; r + k.m <= nr && !fours_leave_less(nr - r, k.m); r += k.m) q4i_tile(&g, r, k, dot4);
        for (; k.m > 4 && r + 4 <= nr; r += 4) q4i_tile(&g, r, four, dot4);
        for (; r < nr; r++) q4i_tile(&g, r, one, dot4);
    }
    for (int r = 0; r < nr; r++)
        EACH (i, np)
            stream_outputs(w, c->y + (size_t)(r0 + r) * (size_t)w->out, (p + i) * 16,
                           _mm512_loadu_ps(total + (r * np + i) * 16), x->rows);
}

/* Prefetch distance in bytes of single-row kernels: beyond the 4 KiB page at which the hardware
 * prefetcher stops. */
enum { AHEAD = 8192 };

/* q4i GEMV of one row, bound by memory: the codes are read once in memory order and prefetched. A
 * low and a high accumulator per digit and block of two hide the latency of sums. */
ALWAYS_INLINE void q4i_row(const struct linear *w, const struct q4_digits *x, float *y, int p,
                           const struct q4i_block k, dot4_fn *dot4)
{
    const int digits = k.digits, whole = k.whole, passes = k.pairs && !whole ? 2 : 1;
    const size_t apart = (size_t)w->group * 8;
    const uint8_t *panel = w->codes + (size_t)p * (size_t)(w->k / 8) * 64;
    const int8_t *first = x->digit, *second;
    __m512 total = _mm512_setzero_ps();
    for (int j0 = 0, n, s = 0; j0 < q4i_inputs(w); j0 += n, s++, first += n * digits) {
        n = q4_next(w, j0) - j0;
        second = first + n;
        size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * 16;
        __m512i a[4], b[4];
        EACH (i, 4) a[i] = b[i] = _mm512_setzero_si512();
        for (int pass = 0; pass < passes; pass++) {
            const uint8_t *c = panel + (size_t)q4i_packed(w, j0) * 8 + (pass ? apart : 0);
            if (pass)
                EACH (i, 4)
                    a[i] = _mm512_slli_epi32(a[i], 4), b[i] = _mm512_slli_epi32(b[i], 4);
            for (int j = 0; j < n; j += 16, c += 128) {
                EACH (i, 2) {
                    struct block_codes v = load_block(c + i * 64, apart, whole);
                    _mm_prefetch((const char *)c + i * 64 + AHEAD, _MM_HINT_T0);
                    if (whole) _mm_prefetch((const char *)c + i * 64 + apart + AHEAD, _MM_HINT_T0);
                    a[2 * i] = dot4(a[2 * i], v.low, load_4(first + j + i * 8));
                    a[2 * i + 1] = dot4(a[2 * i + 1], v.high, load_4(first + j + i * 8 + 4));
                    if (digits == 2) {
                        b[2 * i] = dot4(b[2 * i], v.low, load_4(second + j + i * 8));
                        b[2 * i + 1] = dot4(b[2 * i + 1], v.high, load_4(second + j + i * 8 + 4));
                    }
                }
            }
        }
        __m512i v = _mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_add_epi32(a[2], a[3]));
        if (digits == 2)
            v = _mm512_add_epi32(
                _mm512_slli_epi32(v, 7),
                _mm512_add_epi32(_mm512_add_epi32(b[0], b[1]), _mm512_add_epi32(b[2], b[3])));
        v = _mm512_sub_epi32(
            v, _mm512_mullo_epi32(load_zeros(w, at, k.pairs), _mm512_set1_epi32(x->sum[s])));
        total = _mm512_add_ps(
            total, _mm512_mul_ps(_mm512_cvtepi32_ps(v),
                                 _mm512_mul_ps(_mm512_set1_ps(x->scale[s]), load_scales(w, at))));
    }
    store_outputs(w, y, p * 16, total);
}

/* q4i of all rows, m of them (2 .. FEW_ROWS), bound by memory: the codes are read once in memory
 * order and prefetched, as q4i_row does. */
enum { FEW_ROWS = 8 };

/* most: rows for which the caller takes q4i_rows() */
ALWAYS_INLINE int takes_few(const struct linear *w, const struct q4_digits *x, int most)
{
    return x->rows > 1 && x->rows <= most && !w->pairs;
}

ALWAYS_INLINE void q4i_rows(const struct q4i_call *c, int p, const int digits, const int m,
                            dot4_fn *dot4)
{
    const int apart = digits * m < 8; /* more rows hide the latency of sums without a second
                                         accumulator */
    const struct linear *w = c->w;
    const struct q4_digits *x = c->x;
    const uint8_t *codes = w->codes + (size_t)p * (size_t)(w->k / 8) * 64;
    const int8_t *first = x->digit, *second;
    __m512 total[FEW_ROWS];
    EACH (r, m) total[r] = _mm512_setzero_ps();
    for (int j0 = 0, n, s = 0; j0 < w->k; j0 += n, s += m, first += n * m * digits) {
        n = q4_next(w, j0) - j0;
        second = first + n * m;
        size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * 16;
        /* sums of the low and of the high blocks (or of all) of the first, of the second digits */
        __m512i a[FEW_ROWS], b[FEW_ROWS], a2[FEW_ROWS], b2[FEW_ROWS];
        EACH (r, m) a[r] = b[r] = a2[r] = b2[r] = _mm512_setzero_si512();
        for (int j = 0; j < n; j += 8, codes += 64) {
            struct block_codes v = load_block(codes, 0, 0);
            _mm_prefetch((const char *)codes + AHEAD, _MM_HINT_T0);
            EACH (r, m) {
                a[r] = dot4(a[r], v.low, load_4(first + r * n + j));
                __m512i *high = apart ? b : a;
                high[r] = dot4(high[r], v.high, load_4(first + r * n + j + 4));
                if (digits == 2) {
                    a2[r] = dot4(a2[r], v.low, load_4(second + r * n + j));
                    high = apart ? b2 : a2;
                    high[r] = dot4(high[r], v.high, load_4(second + r * n + j + 4));
                }
            }
        }
        __m512i zero = load_zeros(w, at, 0);
        __m512 scale = load_scales(w, at);
        EACH (r, m) {
            __m512i v = _mm512_add_epi32(a[r], b[r]);
            if (digits == 2)
                v = _mm512_add_epi32(_mm512_slli_epi32(v, 7), _mm512_add_epi32(a2[r], b2[r]));
            v = _mm512_sub_epi32(v, _mm512_mullo_epi32(zero, _mm512_set1_epi32(x->sum[s + r])));
            __m512 f = _mm512_mul_ps(_mm512_set1_ps(x->scale[s + r]), scale);
            total[r] = _mm512_add_ps(total[r], _mm512_mul_ps(_mm512_cvtepi32_ps(v), f));
        }
    }
    EACH (r, m) store_outputs(w, c->y + (size_t)r * (size_t)w->out, p * 16, total[r]);
}

/* two, one: register blocks of two digits, of one */
ALWAYS_INLINE void q4i_blocks(const struct q4i_call *c, float *scratch, const struct q4i_block two,
                              const struct q4i_block one, dot4_fn *dot4)
{
    const struct q4_digits *x = c->x;
    const struct q4i_block two_odd = {1, 2, 4, two.pairs, two.whole}, /* small: at most one panel */
                           one_odd = {1, 1, 4, one.pairs, one.whole};
    if (x->rows == 1) {
        for (int p = c->p0; p < c->p1; p++) {
            if (x->n_digits == 2) q4i_row(c->w, x, c->y, p, two, dot4);
            else q4i_row(c->w, x, c->y, p, one, dot4);
        }
        return;
    }
    for (int r = 0; r < x->rows; r += CPU_ROW_TILE) {
        int nr = x->rows - r < CPU_ROW_TILE ? x->rows - r : CPU_ROW_TILE, p = c->p0;
        for (; p + two.np <= c->p1; p += two.np) {
            if (x->n_digits == 2) q4i_panels(c, p, r, nr, scratch, two, dot4);
            else q4i_panels(c, p, r, nr, scratch, one, dot4);
        }
        if (two.np == 1 || p == c->p1) continue;
        if (x->n_digits == 2) q4i_panels(c, p, r, nr, scratch, two_odd, dot4);
        else q4i_panels(c, p, r, nr, scratch, one_odd, dot4);
    }
    _mm_sfence();
}

/* max_digits: digit rows of a register block; each takes two accumulators and what dot4 needs.
 * whole: dot4 takes codes of 8 bits; their blocks are small, for the size of the program. */
ALWAYS_INLINE void q4i_512(const struct q4i_call *c, float *scratch, const int max_digits,
                           const int whole, dot4_fn *dot4)
{
    const int pairs = whole ? 0 : c->w->pairs;
    if (whole && c->w->pairs)
        q4i_blocks(c, scratch, (struct q4i_block){1, 2, 4, 1, 1}, (struct q4i_block){1, 1, 8, 1, 1},
                   dot4);
    else
        q4i_blocks(c, scratch, (struct q4i_block){2, 2, max_digits / 2, pairs, 0},
                   (struct q4i_block){2, 1, max_digits, pairs, 0}, dot4);
}

#endif
