/* avx2_integers.h: linears from integer activations of variant "avx2"; a part of avx2.c, which
 * alone includes it. */
#ifndef BACKEND_CPU_AVX2_INTEGERS_H
#define BACKEND_CPU_AVX2_INTEGERS_H

#include "backend-cpu/avx2_experts.h"

/* Integer activations. Two digits are stored as the 16-bit integer that they represent (madd_epi16
 * multiplies it by a code), one digit as a byte (maddubs_epi16). The inputs of a block of 8 are in
 * the order in which masks and shifts extract the codes of a 32-bit word: bytes 0..3 and 4..7;
 * 16-bit pairs (0,2) (1,3) (4,6) (5,7). */
ALWAYS_INLINE __m256i broadcast_4(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* a += v in 32 or 16 bits, as an instruction: gcc 12 reorders integer sums across a block and
 * spills. */
ALWAYS_INLINE void add_32(__m256i *a, __m256i v)
{
    __asm__("vpaddd %1, %0, %0" : "+x"(*a) : "x"(v));
}
ALWAYS_INLINE void add_16(__m256i *a, __m256i v)
{
    __asm__("vpaddw %1, %0, %0" : "+x"(*a) : "x"(v));
}

/* Stores 8 integers of one sub-group as one or two digits. */
ALWAYS_INLINE void store_digits(int8_t *digit, int n_digits, int i, __m256i v)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    if (n_digits == 2)
        _mm_storeu_si128((void *)(digit + 2 * i),
                         _mm_shuffle_epi8(words, _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13,
                                                               10, 11, 14, 15)));
    else _mm_storel_epi64((void *)(digit + i), _mm_packs_epi16(words, words));
}

static void avx2_quantize(const struct linear *w, const float *x, int row,
                          const struct q4_digits *q)
{
    float group[CPU_SUBGROUP];
    size_t rows = (size_t)q->rows, s = (size_t)row;
    struct row_block b = q->n_digits == 2 ? row_block_of(row, q->rows)
                                          : (struct row_block){0, q->rows};
    int8_t *block = (int8_t *)q->digit + (size_t)b.first * (size_t)q4i_inputs(w) * 2;
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const float *from = quantize_input(w, x, j0, n, group);
        const int digits = digits_of_group(q, j0);
        const __m256i top = _mm256_set1_epi32(digits_top(digits));
        float inverse = quantize_scale(from, n, digits, q->largest, (float *)q->scale + s);
        int8_t *digit = block + ((size_t)j0 * (size_t)b.n + (size_t)(row - b.first) * (size_t)n) *
                                    (size_t)q->n_digits;
        __m256i sum = _mm256_setzero_si256();
        for (int i = 0; i < n;
             /* cvtps rounds to nearest even, as kv_round; a factor of 0 gives 0, also for NaN */
             i += 8) {
            __m256 v = _mm256_mul_ps(_mm256_loadu_ps(from + i), _mm256_set1_ps(inverse));
            __m256i k = inverse == 0 ? _mm256_setzero_si256()
                                     : _mm256_min_epi32(_mm256_cvtps_epi32(v), top);
            sum = _mm256_add_epi32(sum, k);
            store_digits(digit, q->n_digits, i, k);
        }
        int32_t lane[8];
        _mm256_storeu_si256((void *)lane, sum);
        ((int32_t *)q->sum)[s] = lane[0] + lane[1] + lane[2] + lane[3] + lane[4] + lane[5] +
                                 lane[6] + lane[7];
    }
}

/* Codes of 8 rows x 8 inputs: the i-th vector of 16-bit pairs, in the order above. */
ALWAYS_INLINE __m256i pairs(__m256i v, const int i)
{
    static const int shift[] = {0, 8, 4, 12};
    __m256i q = shift[i] ? _mm256_srli_epi16(v, shift[i]) : v;
    return i < 3 ? _mm256_and_si256(q, _mm256_set1_epi16(15)) : q;
}

/* Adds the integer sum of one sub-group, scaled, to total (8 outputs). */
ALWAYS_INLINE __m256 add_group(__m256 total, __m256i sum, __m256 scale, float act_scale)
{
    return _mm256_add_ps(total, _mm256_mul_ps(_mm256_cvtepi32_ps(sum),
                                              _mm256_mul_ps(_mm256_set1_ps(act_scale), scale)));
}

ALWAYS_INLINE __m256i load_zeros_int(const struct linear *w, size_t at)
{
    if (w->pairs) return _mm256_set1_epi32(PAIR_ZERO);
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(w->zeros + at)));
}

/* Codes of a sub-group of some panel halves (h = 0 .. 3: two of one panel, two of the next). */
struct q4i_codes {
    const uint8_t *at;
    size_t panel_bytes, apart; /* apart: of pairs, from high to low halves; else 0 */
};

/* Panel half h of the block of 8 inputs at `offset`. */
ALWAYS_INLINE __m256i load_codes(const struct q4i_codes *c, int h, size_t offset)
{
    return _mm256_loadu_si256(
        (const void *)(c->at + (size_t)(h / 2) * c->panel_bytes + (size_t)(h % 2 * 32) + offset));
}

/* Integer sums of n inputs of nh panel halves x m rows of two-digit activations x [m][n], decoded
 * from the codes. */
ALWAYS_INLINE void dot_words(const struct q4i_codes *c, const int8_t *x, int n, __m256i sum[4][4],
                             const int nh, const int m, const int is_pair)
{
    EACH (h, nh)
        EACH (r, m) sum[h][r] = _mm256_setzero_si256();
    for (int j = 0; j < n; j += 8) {
        __m256i v[4], low[4];
        EACH (h, nh) {
            v[h] = load_codes(c, h, (size_t)j * 8);
            if (is_pair) low[h] = load_codes(c, h, (size_t)j * 8 + c->apart);
        }
        EACH (i, 4) {
            __m256i q[4];
            EACH (h, nh) {
                q[h] = pairs(v[h], i);
                if (is_pair) q[h] = _mm256_or_si256(_mm256_slli_epi16(q[h], 4), pairs(low[h], i));
            }
            EACH (r, m) {
                __m256i d = broadcast_4(x + (r * n + j) * 2 + i * 4);
                EACH (h, nh) add_32(&sum[h][r], _mm256_madd_epi16(q[h], d));
            }
        }
    }
}

/* dot_words() for one digit. maddubs adds two products of at most 15 * 127 in 16 bits; 8 of these
 * sums fit before they are widened. So the sum of pairs is 16 times that of their high halves and
 * that of the low ones. */
ALWAYS_INLINE void dot_bytes(const struct q4i_codes *c, const int8_t *x, int n, __m256i sum[4][4],
                             const int nh, const int m, const int is_pair)
{
    const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    EACH (h, nh)
        EACH (r, m) sum[h][r] = _mm256_setzero_si256();
    for (int half = 0; half <= is_pair; half++) {
        EACH (h, nh)
            EACH (r, m)
                if (half) sum[h][r] = _mm256_slli_epi32(sum[h][r], 4);
        for (int j = 0; j < n; j += 32) {
            size_t at = (size_t)j * 8 + (half ? c->apart : 0);
            __m256i part[4][4];
            EACH (h, nh)
                EACH (r, m) part[h][r] = _mm256_setzero_si256();
            EACH (i, 4)
                EACH (h, nh) {
                    __m256i v = load_codes(c, h, at + (size_t)i * 64),
                            low = _mm256_and_si256(v, mask);
                    __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
                    EACH (r, m) {
                        const int8_t *d = x + r * n + j + i * 8;
                        add_16(&part[h][r], _mm256_maddubs_epi16(low, broadcast_4(d)));
                        add_16(&part[h][r], _mm256_maddubs_epi16(high, broadcast_4(d + 4)));
                    }
                }
            EACH (h, nh)
                EACH (r, m) add_32(&sum[h][r], _mm256_madd_epi16(part[h][r], ones));
        }
    }
}

/* A register block: nh panel halves x m rows. Constants after inlining. */
struct q4i_block {
    int digits, nh, m;
};

/* q4i GEMV: k.nh panel halves from h0 on x k.m rows from r0 on, into y. */
ALWAYS_INLINE void q4i_few(const struct linear *w, const struct q4_digits *x, float *y, int h0,
                           int r0, const struct q4i_block k)
{
    const int digits = k.digits, nh = k.nh, m = k.m;
    size_t rows = (size_t)x->rows, s = (size_t)r0, panel_groups = (size_t)w->n_groups * 16,
           inputs = (size_t)q4i_inputs(w);
    struct q4i_codes c = {NULL, (size_t)(w->k / 8) * 64, w->pairs ? (size_t)w->group * 8 : 0};
    const uint8_t *codes = w->codes + (size_t)(h0 / 2) * c.panel_bytes + (size_t)(h0 % 2 * 32);
    __m256 total[4][4];
    EACH (h, nh)
        EACH (r, m) total[h][r] = _mm256_setzero_ps();
    for (int j0 = 0, n; j0 < (int)inputs; j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const int8_t *digit = x->digit + (digits == 2 ? (size_t)r0 * inputs + (size_t)(j0 * m)
                                                      : (size_t)j0 * rows + (size_t)(r0 * n)) *
                                             digits;
        __m256i sum[4][4];
        c.at = codes + (size_t)q4i_packed(w, j0) * 8;
        if (!r0 && h0 % 2 == 0) fetch_panels_q4i(w, h0 / 2, j0, n, (nh + 1) / 2);
        if (digits == 1) dot_bytes(&c, digit, n, sum, nh, m, w->pairs);
        else if (nh < 4 && w->pairs) dot_words(&c, digit, n, sum, nh, m, 1);
        else dot_words(&c, digit, n, sum, nh, m, 0);
        EACH (h, nh) {
            size_t at = (size_t)((h0 + h) / 2) * panel_groups +
                        (size_t)(q4i_group_of(w, j0) * 16 + (h0 + h) % 2 * 8);
            __m256i zero = load_zeros_int(w, at);
            __m256 scale = load_scales(w, at);
            EACH (r, m) {
                __m256i v = _mm256_sub_epi32(
                    sum[h][r], _mm256_mullo_epi32(zero, _mm256_set1_epi32(x->sum[s + (size_t)r])));
                total[h][r] = add_group(total[h][r], v, scale, x->scale[s + (size_t)r]);
            }
        }
    }
    EACH (h, nh)
        EACH (r, m)
            store_outputs(w, y + (size_t)(r0 + r) * (size_t)w->out, (h0 + h) * 8, total[h][r]);
}

/* Unpacks n packed inputs of one panel from j0 on to bytes with the zero points left in: dst
 * [n/4][16][4]. */
static void unpack_bytes(const struct linear *w, int p, int j0, int n, int8_t *dst)
{
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const __m256i mask = _mm256_set1_epi8(15);
    for (int j = 0; j < n; j += 8, c += 64, dst += 128)
        EACH (h, 2) {
            __m256i v = _mm256_loadu_si256((const void *)(c + h * 32));
            _mm256_storeu_si256((void *)(dst + h * 32), _mm256_and_si256(v, mask));
            _mm256_storeu_si256((void *)(dst + 64 + h * 32),
                                _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
        }
}

/* Operands of one sub-group of a panel and a tile of rows. */
struct q4i_group {
    int n;               /* inputs */
    int halves;          /* of codes: 2 for pairs, the high ones first */
    const int8_t *codes; /* [halves][n/4][16][4] unpacked */
    const int8_t *x;     /* [rows][n] digits */
    const float *scale;  /* [rows] */
    const int32_t *sum;  /* [rows] */
    __m256 w_scale[2];
    __m256i zero[2];
    float *total; /* [rows][16] */
};

/* total[m][16] += this sub-group, for m <= 3 rows from r0 on, one digit. */
ALWAYS_INLINE void tile_bytes(const struct q4i_group *t, int r0, const int m)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i a[3], b[3];
    const int8_t *x = t->x + r0 * t->n, *c = t->codes;
    EACH (r, m) a[r] = b[r] = _mm256_setzero_si256();
    for (int i0 = 0; i0 < t->n * t->halves; i0 += 32) {
        int j0 = i0 < t->n ? i0 : i0 - t->n;
        if (i0 == t->n)
            EACH (r, m) a[r] = _mm256_slli_epi32(a[r], 4), b[r] = _mm256_slli_epi32(b[r], 4);
        __m256i part_a[3], part_b[3];
        EACH (r, m) part_a[r] = part_b[r] = _mm256_setzero_si256();
        EACH (i, 8) {
            __m256i c0 = _mm256_loadu_si256((const void *)(c + i * 64)),
                    c1 = _mm256_loadu_si256((const void *)(c + i * 64 + 32));
            EACH (r, m) {
                __m256i v = broadcast_4(x + r * t->n + j0 + i * 4);
                add_16(&part_a[r], _mm256_maddubs_epi16(c0, v));
                add_16(&part_b[r], _mm256_maddubs_epi16(c1, v));
            }
        }
        c += 512;
        EACH (r, m) {
            add_32(&a[r], _mm256_madd_epi16(part_a[r], ones));
            add_32(&b[r], _mm256_madd_epi16(part_b[r], ones));
        }
    }
    EACH (r, m) {
        float *total = t->total + (r0 + r) * 16;
        __m256i sum = _mm256_set1_epi32(t->sum[r0 + r]);
        __m256i va = _mm256_sub_epi32(a[r], _mm256_mullo_epi32(t->zero[0], sum)),
                vb = _mm256_sub_epi32(b[r], _mm256_mullo_epi32(t->zero[1], sum));
        _mm256_storeu_ps(total,
                         add_group(_mm256_loadu_ps(total), va, t->w_scale[0], t->scale[r0 + r]));
        _mm256_storeu_ps(
            total + 8, add_group(_mm256_loadu_ps(total + 8), vb, t->w_scale[1], t->scale[r0 + r]));
    }
}

/* All rows in register blocks of 3 and 2. */
static void tiles_bytes(const struct q4i_group *t, int rows)
{
    for (int left = (rows + 2) / 3, r = 0, m; left; left--, r += m) {
        m = (rows - r) / left;
        if (m == 3) tile_bytes(t, r, 3);
        else if (m == 2) tile_bytes(t, r, 2);
        else CHECK(0);
    }
}

/* q4i GEMM of one digit for rows r0 .. r0+nr-1, more than FEW_BYTE_ROWS: a panel is unpacked once
 * for all rows. */
static __attribute__((noinline)) void q4i_many(const struct q4i_call *q, int r0, int nr,
                                               float *scratch)
{
    const struct linear *w = q->w;
    const struct q4_digits *x = q->x;
    const int p0 = q->p0, p1 = q->p1;
    int8_t *codes = (int8_t *)scratch;
    float *total = scratch + CPU_SUBGROUP * 16;
    memset(total, 0, (size_t)((p1 - p0) * nr * 16) * sizeof *total);
    size_t rows = (size_t)x->rows, s = (size_t)r0;
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const int8_t *digit = x->digit + (size_t)j0 * rows + (size_t)r0 * (size_t)n;
        for (int p = p0; p < p1; p++) {
            size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, j0)) * 16;
            if (!r0) fetch_panels_q4i(w, p, j0, n, 1);
            unpack_bytes(w, p, q4i_packed(w, j0), n, codes);
            if (w->pairs) unpack_bytes(w, p, q4i_packed(w, j0) + w->group, n, codes + n * 16);
            tiles_bytes(&(struct q4i_group){n,
                                            w->pairs ? 2 : 1,
                                            codes,
                                            digit,
                                            x->scale + s,
                                            x->sum + s,
                                            {load_scales(w, at), load_scales(w, at + 8)},
                                            {load_zeros_int(w, at), load_zeros_int(w, at + 8)},
                                            total + (p - p0) * nr * 16},
                        nr);
        }
    }
    for (int p = p0; p < p1; p++)
        for (int r = r0; r < r0 + nr; r++, total += 16) {
            store_outputs(w, q->y + (size_t)r * (size_t)w->out, p * 16, _mm256_loadu_ps(total));
            store_outputs(w, q->y + (size_t)r * (size_t)w->out, p * 16 + 8,
                          _mm256_loadu_ps(total + 8));
        }
}

/* The rows of a block, decoded from the codes, with as many panel halves at once as the registers
 * hold. */
ALWAYS_INLINE void q4i_direct(const struct linear *w, const struct q4_digits *x, float *y, int p0,
                              int p1, struct row_block b, const int digits)
{
    int h = 2 * p0, h1 = 2 * p1, r0 = b.first;
    switch (b.n) {
    case 1:
        for (; !w->pairs && h + 4 <= h1; h += 4)
            q4i_few(w, x, y, h, r0, (struct q4i_block){digits, 4, 1});
        for (; h < h1; h += 2) q4i_few(w, x, y, h, r0, (struct q4i_block){digits, 2, 1});
        break;
    case 2:
        for (; h < h1; h += 2) q4i_few(w, x, y, h, r0, (struct q4i_block){digits, 2, 2});
        break;
    case 3:
        for (; h < h1; h += digits) q4i_few(w, x, y, h, r0, (struct q4i_block){digits, digits, 3});
        break;
    case 4:
        for (; h < h1; h += digits) q4i_few(w, x, y, h, r0, (struct q4i_block){digits, digits, 4});
        break;
    }
}

/* Up to this many rows of one digit are faster without unpack_bytes, four at a time. Two digits
 * always are: their decoding uses execution ports that the additions cannot (measured on a Zen 3).
 */
enum { FEW_BYTE_ROWS = 8 };

static void avx2_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                     float *scratch)
{
    if (x->n_digits == 2 || x->rows <= FEW_BYTE_ROWS) {
        struct row_block b;
        for (int r = 0; r < x->rows; r += b.n) {
            b = row_block_of(r, x->rows);
            if (x->n_digits == 2) q4i_direct(w, x, y, p0, p1, b, 2);
            else q4i_direct(w, x, y, p0, p1, b, 1);
        }
        return;
    }
    /* tiles of equal height: none has only a few rows, for which unpacking does not pay */
    for (int left = (x->rows + CPU_ROW_TILE - 1) / CPU_ROW_TILE, r = 0, nr; left; left--, r += nr) {
        nr = (x->rows - r) / left;
        q4i_many(&(struct q4i_call){w, x, y, p0, p1}, r, nr, scratch);
    }
}

#endif
