/* amx.c: rung "amx": the integer linears of many rows through AMX tiles, everything else as rung "vnni"; the integer sums are
 * exact, so that both give the same bits. Tiles are configured for each task and released behind it: a thread owns none
 * between tasks. Empty on other architectures. */
#if defined(__x86_64__)

#include "backend-cpu/avx512.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Linux gives a process tiles on request only (arch/x86/include/uapi/asm/prctl.h); threads inherit the permission. */
#ifndef MAY_USE_TILES
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#define MAY_USE_TILES() (!syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA))
#endif

static const char *amx_unusable(void)
{
    const char *why = cpu_vnni.unusable();
    if (why) return why;
    if (!__builtin_cpu_supports("amx-tile") || !__builtin_cpu_supports("amx-int8")) return "this processor or system has no AMX int8";
    return MAY_USE_TILES() ? NULL : "this processor has AMX, the system does not allow it";
}

/* A tile is 16 rows of 64 bytes: 16 rows of 64 activation digits, 16 fours of inputs x 16 outputs x 4, or 16 x 16 sums. */
enum { TILE_ROWS = 16, TILE_INPUTS = 64, TILE_BYTES = 1024 };

/* Intel SDM, LDTILECFG */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void configure(void)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) c.rows[i] = TILE_ROWS, c.row_bytes[i] = 64;
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 believes that 8 bytes of it are read and leaves out the rest */
    _tile_loadconfig(&c);
}

/* n inputs (a multiple of 32) of one panel from j0 on as bytes code - zero: whole tiles, the last one filled up with 0. */
static void unpack_tiles(const struct linear *w, int p, int j0, int n, int8_t *dst)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const uint8_t *z = w->zeros + ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
    __m512i zero = _mm512_mullo_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)z)), _mm512_set1_epi32(0x01010101));
    for (int j = 0; j < n; j += 8, c += 64, dst += 128) {
        __m512i v = _mm512_loadu_si512(c);
        _mm512_storeu_si512(dst, _mm512_sub_epi8(_mm512_and_si512(v, mask), zero));
        _mm512_storeu_si512(dst + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), mask), zero));
    }
    if (n % TILE_INPUTS) memset(dst, 0, TILE_BYTES / 2);
}

/* One sub-group of one or two panels and the rows that meet it. */
struct meeting {
    int n, rows;         /* inputs; rows, at least TILE_ROWS */
    const int8_t *codes; /* [np][2 tiles] */
    const int8_t *digit; /* first row's first digits; a row is n bytes, the second digits are `second` further on */
    size_t second;       /* 0: one digit */
    const float *scale;  /* [rows] of the activations */
    __m512 w_scale[2];   /* of the panels */
    float *total;        /* [rows][np][16] */
};

/* sums[2 * i + p] = rows from r[i] on, one digit, x panel p: na blocks of rows, np panels. A block of rows is read up to 32 bytes
 * beyond a short sub-group, where the codes are 0 (kernels.h: there is something to read). */
ALWAYS_INLINE void dot_tiles(const struct meeting *t, const int8_t *digit, const int *r, int32_t sums[4][256], const int na, const int np)
{
    const int8_t *codes = t->codes, *a0 = digit + (size_t)r[0] * (size_t)t->n, *a1 = digit + (size_t)r[1] * (size_t)t->n;
    _tile_zero(0);
    if (np == 2) _tile_zero(1);
    if (na == 2) _tile_zero(2);
    if (na == 2 && np == 2) _tile_zero(3);
    for (int j = 0; j < t->n; j += TILE_INPUTS, codes += TILE_BYTES) {
        _tile_loadd(4, a0 + j, t->n);
        _tile_loadd(6, codes, 64);
        _tile_dpbssd(0, 4, 6);
        if (np == 2) {
            _tile_loadd(7, codes + 2 * TILE_BYTES, 64);
            _tile_dpbssd(1, 4, 7);
        }
        if (na == 2) {
            _tile_loadd(5, a1 + j, t->n);
            _tile_dpbssd(2, 5, 6);
            if (np == 2) _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, sums[0], 64);
    if (np == 2) _tile_stored(1, sums[1], 64);
    if (na == 2) _tile_stored(2, sums[2], 64);
    if (na == 2 && np == 2) _tile_stored(3, sums[3], 64);
}

/* total += the sub-group for rows from `done` on of na blocks of 16, the first rows of which are in r. */
ALWAYS_INLINE void meet_blocks(const struct meeting *t, const int *r, int done, const int na, const int np)
{
    int32_t first[4][256] __attribute__((aligned(64))), second[4][256] __attribute__((aligned(64)));
    dot_tiles(t, t->digit, r, first, na, np);
    if (t->second) dot_tiles(t, t->digit + t->second, r, second, na, np);
    for (int i = 0; i < na; i++)
        for (int row = r[i] > done ? r[i] : done; row < r[i] + TILE_ROWS; row++, done++)
            EACH (p, np) {
                size_t at = (size_t)(row - r[i]) * 16;
                __m512i v = _mm512_loadu_si512(first[2 * i + p] + at);
                if (t->second) v = _mm512_add_epi32(_mm512_slli_epi32(v, 7), _mm512_loadu_si512(second[2 * i + p] + at));
                float *total = t->total + (row * np + p) * 16;
                __m512 f = _mm512_mul_ps(_mm512_set1_ps(t->scale[row]), t->w_scale[p]);
                _mm512_storeu_ps(total, _mm512_add_ps(_mm512_loadu_ps(total), _mm512_mul_ps(_mm512_cvtepi32_ps(v), f)));
            }
}

/* All rows, in blocks of 16; the last block reaches back over rows that are done already. */
ALWAYS_INLINE void meet_rows(const struct meeting *t, const int np)
{
    int last = t->rows - TILE_ROWS, done = 0;
    for (; done + TILE_ROWS < t->rows; done += 2 * TILE_ROWS) {
        int r[2] = {done, done + TILE_ROWS < last ? done + TILE_ROWS : last};
        meet_blocks(t, r, done, 2, np);
    }
    if (done < t->rows) meet_blocks(t, (int[2]){last, last}, done, 1, np);
}

/* np panels from p on x rows r0 .. r0+nr-1: sub-group by sub-group the codes are unpacked once for all rows. */
ALWAYS_INLINE void tile_panels(const struct linear *w, const struct q4_digits *x, float *y, int p, int r0, int nr, float *scratch,
                               const int np)
{
    int8_t *codes = (int8_t *)scratch;
    float *total = scratch + np * 2 * TILE_BYTES / 4;
    size_t rows = (size_t)x->rows, s = (size_t)r0;
    memset(total, 0, (size_t)(nr * np * 16) * sizeof *total);
    for (int j0 = 0, n; j0 < w->k; j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        struct meeting t = {.n = n, .rows = nr, .codes = codes, .scale = x->scale + s, .total = total};
        t.digit = x->digit + (size_t)j0 * rows * (size_t)x->n_digits + (size_t)r0 * (size_t)n;
        t.second = x->n_digits == 2 ? rows * (size_t)n : 0;
        EACH (i, np) {
            t.w_scale[i] = load_scales(w, ((size_t)(p + i) * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16);
            unpack_tiles(w, p + i, j0, n, codes + i * 2 * TILE_BYTES);
        }
        __asm__ volatile("" ::: "memory"); /* gcc does not know that loading a tile reads memory */
        meet_rows(&t, np);
    }
    for (int r = 0; r < nr; r++)
        EACH (i, np) store_outputs(w, y + (size_t)(r0 + r) * (size_t)w->out, (p + i) * 16, _mm512_loadu_ps(total + (r * np + i) * 16));
}

static void amx_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1, float *scratch)
{
    if (x->rows < TILE_ROWS) {
        vnni_q4i(w, x, y, p0, p1, scratch);
        return;
    }
    configure();
    for (int left = (x->rows + CPU_ROW_TILE - 1) / CPU_ROW_TILE, r = 0, nr; left; left--, r += nr) {
        nr = (x->rows - r) / left;
        int p = p0;
        for (; p + 2 <= p1; p += 2) tile_panels(w, x, y, p, r, nr, scratch, 2);
        if (p < p1) tile_panels(w, x, y, p, r, nr, scratch, 1);
    }
    _tile_release();
}

const struct cpu_kernels cpu_amx = {"amx",        amx_unusable, avx512_q4,   avx512_quantize, amx_q4i,
                                    avx512_dense, avx512_norm,  avx512_rope, avx512_attend,   avx512_glu};

#else
typedef int translation_unit_is_not_empty;
#endif
