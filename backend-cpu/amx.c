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

/* Tiles 0 .. 3 get sums and digits of `rows` rows, 4 .. 7 codes. */
static void configure(int rows)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) c.rows[i] = (uint8_t)(i < 4 ? rows : TILE_ROWS), c.row_bytes[i] = 64;
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 believes that 8 bytes of it are read and leaves out the rest */
    _tile_loadconfig(&c);
}

/* Bytes that a panel's codes of a whole sub-group take: the next ones are asked for while others are worked on. */
enum { NEXT_CODES = CPU_SUBGROUP * 8 };

/* n inputs (a multiple of 32) of one panel from j0 on as bytes code - zero: whole tiles, the last one filled up with 0. */
static void unpack_tiles(const struct linear *w, int p, int j0, int n, int8_t *dst)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const uint8_t *c = w->codes + ((size_t)p * (size_t)(w->k / 8) + (size_t)(j0 / 8)) * 64;
    const uint8_t *z = w->zeros + ((size_t)p * (size_t)w->n_groups + (size_t)(j0 / w->group)) * 16;
    __m512i zero = _mm512_mullo_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)z)), _mm512_set1_epi32(0x01010101));
    for (int j = 0; j < n; j += 8, c += 64, dst += 128) {
        __m512i v = _mm512_loadu_si512(c);
        _mm_prefetch((const char *)c + NEXT_CODES, _MM_HINT_T0);
        _mm512_storeu_si512(dst, _mm512_sub_epi8(_mm512_and_si512(v, mask), zero));
        _mm512_storeu_si512(dst + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), mask), zero));
    }
    if (n % TILE_INPUTS) memset(dst, 0, TILE_BYTES / 2);
}

/* Panels are taken in pairs. A unit of work is a block of 16 rows x a pair x one sub-group. */
enum { PAIRS = CPU_PANELS / 2, SUMS = 2 * 2 * 256, ROWS_AT_ONCE = 128 };

/* The sums of a unit, still to be scaled and added: that is done while the tiles of the next unit are multiplied. */
struct rest {
    const int32_t *sums; /* [digit][panel][16 rows][16] */
    const float *scale;  /* [16] of the activations */
    float *total;        /* [16][2][16] */
    __m512 w_scale[2];   /* of the panels */
    int from, to;        /* its rows that count: the last block reaches back over some that are done already */
};

ALWAYS_INLINE void add_row(const struct rest *u, int r, const int digits)
{
    EACH (p, 2) {
        const int32_t *sums = u->sums + p * 256 + r * 16;
        float *total = u->total + (r * 2 + p) * 16;
        __m512i v = _mm512_loadu_si512(sums);
        if (digits == 2) v = _mm512_add_epi32(_mm512_slli_epi32(v, 7), _mm512_loadu_si512(sums + 512));
        __m512 f = _mm512_mul_ps(_mm512_set1_ps(u->scale[r]), u->w_scale[p]);
        _mm512_storeu_ps(total, _mm512_add_ps(_mm512_loadu_ps(total), _mm512_mul_ps(_mm512_cvtepi32_ps(v), f)));
    }
}

/* Part `part` of 4 * digits of a whole unit's rest. */
ALWAYS_INLINE void add_part(const struct rest *u, const int part, const int digits, const int whole)
{
    const int rows = whole ? 4 / digits : 0;
    EACH (i, rows) add_row(u, part * rows + i, digits);
}

/* Multiplies one unit: the codes of the pair are in tiles 4 .. 7, the rows at digit[d], n bytes each, of which `steps` tiles are read: up
 * to 32 bytes beyond a short sub-group, where the codes are 0 (kernels.h: there is something to read). Vector instructions on the rest
 * stand between those on tiles: the processor does not look far enough ahead to find them by itself. */
ALWAYS_INLINE void multiply_unit(const int8_t *const digit[2], int n, int32_t *sums, const struct rest *rest, const int digits,
                                 const int steps, const int whole)
{
    EACH (d, digits) {
        _tile_loadd(2, digit[d], n);
        if (steps == 2) _tile_loadd(3, digit[d] + TILE_INPUTS, n);
        _tile_zero(0);
        _tile_dpbssd(0, 2, 4);
        add_part(rest, d * 4, digits, whole);
        if (steps == 2) _tile_dpbssd(0, 3, 5);
        add_part(rest, d * 4 + 1, digits, whole);
        _tile_zero(1);
        _tile_dpbssd(1, 2, 6);
        add_part(rest, d * 4 + 2, digits, whole);
        if (steps == 2) _tile_dpbssd(1, 3, 7);
        add_part(rest, d * 4 + 3, digits, whole);
        _tile_stored(0, sums + d * 512, 64);
        _tile_stored(1, sums + d * 512 + 256, 64);
    }
    if (!whole)
        for (int r = rest->from; r < rest->to; r++) add_row(rest, r, digits);
}

/* One pair x one sub-group, ready for all rows. */
struct meeting {
    int n, rows, block;  /* inputs; rows, of one block */
    const int8_t *digit; /* first row's first digits; a row is n bytes, the second digits are `second` further on */
    size_t second;
    const float *scale; /* [rows] of the activations */
    float *total;       /* [rows][2][16] */
    __m512 w_scale[2];
};

/* What is handed on from one unit to the next. */
struct line {
    int32_t (*sums)[SUMS]; /* two, taken in turns */
    int turn;
    struct rest rest;
};

/* The block from row `done` on; returns the rows done then. */
ALWAYS_INLINE int meet_block(const struct meeting *t, int done, struct line *l, const int digits, const int steps, const int whole)
{
    int last = t->rows - t->block, r = done < last ? done : last;
    const int8_t *a = t->digit + (size_t)r * (size_t)t->n;
    multiply_unit((const int8_t *const[]){a, a + t->second}, t->n, l->sums[l->turn], &l->rest, digits, steps, whole);
    l->rest = (struct rest){l->sums[l->turn], t->scale + r, t->total + r * 32, {t->w_scale[0], t->w_scale[1]}, done - r, t->block};
    l->turn ^= 1;
    return done + t->block;
}

/* All blocks. Before the first there may be no rest, or that of a last block. */
ALWAYS_INLINE void meet_rows(const struct meeting *t, struct line *line, const int digits, const int steps)
{
    struct line l = *line;
    int done = l.rest.to - l.rest.from == TILE_ROWS ? 0 : meet_block(t, 0, &l, digits, steps, 0);
    while (done < t->rows) done = meet_block(t, done, &l, digits, steps, 1);
    *line = l;
}

/* Not inlined, so that the loop over blocks is one with a single way in. */
static __attribute__((noinline)) void meet(const struct meeting *t, struct line *l, int digits)
{
    if (digits == 2 && t->n > TILE_INPUTS) meet_rows(t, l, 2, 2);
    else if (digits == 2) meet_rows(t, l, 2, 1);
    else if (t->n > TILE_INPUTS) meet_rows(t, l, 1, 2);
    else meet_rows(t, l, 1, 1);
}

/* Where things lie in a thread's scratch. */
struct place {
    int32_t sums[2][SUMS]; /* of the unit that is multiplied and of the one before */
    float total[PAIRS * ROWS_AT_ONCE * 32];
    int8_t codes[]; /* unpacked; with more rows than at once those of all sub-groups */
};
_Static_assert(sizeof(struct place) + PAIRS * 4 * TILE_BYTES <= CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE) * sizeof(float),
               "kernels.h: scratch");

/* One call's outputs. */
struct job {
    const struct linear *w;
    const struct q4_digits *x;
    float *y;
    int p0, p1;
};

/* A pair of panels and a sub-group from j0 on into tiles 4 .. 7 by way of `codes`, where they are already unless `unpack`. An odd last panel
 * is its own partner. Returns the bytes of codes. */
ALWAYS_INLINE size_t load_pair(const struct job *o, int p, int j0, int n, int8_t *codes, int unpack, __m512 w_scale[2])
{
    size_t panel_bytes = n > TILE_INPUTS ? 2 * TILE_BYTES : TILE_BYTES;
    EACH (i, 2) {
        int panel = p + i < o->p1 ? p + i : p;
        w_scale[i] = load_scales(o->w, ((size_t)panel * (size_t)o->w->n_groups + (size_t)(j0 / o->w->group)) * 16);
        if (unpack) unpack_tiles(o->w, panel, j0, n, codes + (size_t)i * panel_bytes);
    }
    __asm__ volatile("" ::: "memory"); /* gcc does not know that loading a tile reads memory */
    _tile_loadd(4, codes, 64);
    _tile_loadd(6, codes + panel_bytes, 64);
    if (n > TILE_INPUTS) {
        _tile_loadd(5, codes + TILE_BYTES, 64);
        _tile_loadd(7, codes + panel_bytes + TILE_BYTES, 64);
    }
    return 2 * panel_bytes;
}

/* Rows r0 .. r0+nr-1: sub-group by sub-group and pair by pair, whose codes stay in tiles while all rows meet them. The first rows unpack the
 * codes; where others follow they are kept for them. */
ALWAYS_INLINE void tile_rows(const struct job *o, int r0, int nr, struct place *at, const int digits)
{
    const struct linear *w = o->w;
    int pairs = (o->p1 - o->p0 + 1) / 2, block = nr < TILE_ROWS ? nr : TILE_ROWS;
    size_t rows = (size_t)o->x->rows, s = (size_t)r0;
    struct line line = {.sums = at->sums};
    int8_t *codes = at->codes;
    memset(at->total, 0, (size_t)(pairs * nr * 32) * sizeof *at->total);
    for (int j0 = 0, n; j0 < w->k; j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        const int8_t *first = o->x->digit + (size_t)j0 * rows * (size_t)digits + (size_t)r0 * (size_t)n;
        if ((int)rows == nr) codes = at->codes;
        for (int q = 0; q < pairs; q++) {
            struct meeting t = {n, nr, block, first, rows * (size_t)n, o->x->scale + s, at->total + q * nr * 32, {_mm512_setzero_ps()}};
            codes += load_pair(o, o->p0 + 2 * q, j0, n, codes, !r0, t.w_scale);
            meet(&t, &line, digits);
        }
    }
    for (int r = line.rest.from; r < line.rest.to; r++) add_row(&line.rest, r, digits);
    for (int r = 0; r < nr; r++)
        for (int p = o->p0; p < o->p1; p++) {
            __m512 v = _mm512_loadu_ps(at->total + (((p - o->p0) / 2 * nr + r) * 2 + (p - o->p0) % 2) * 16);
            stream_outputs(w, o->y + (size_t)(r0 + r) * (size_t)w->out, p * 16, v, o->x->rows);
        }
}

/* Fewer rows are left to VNNI, which does not unpack. */
enum { LEAST_ROWS = 6 };

static void amx_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1, float *scratch)
{
    struct job job = {w, x, y, p0, p1};
    if (x->rows < LEAST_ROWS) {
        vnni_q4i(w, x, y, p0, p1, scratch);
        return;
    }
    configure(x->rows < TILE_ROWS ? x->rows : TILE_ROWS);
    for (int left = (x->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, r = 0, nr; r < x->rows; left--, r += nr) {
        nr = ((x->rows - r) / left + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
        if (nr > x->rows - r) nr = x->rows - r;
        if (x->n_digits == 2) tile_rows(&job, r, nr, (struct place *)scratch, 2);
        else tile_rows(&job, r, nr, (struct place *)scratch, 1);
    }
    _tile_release();
    _mm_sfence();
}

const struct cpu_kernels cpu_amx = {"amx",       amx_unusable, avx512_q4,     avx512_quantize, amx_q4i,     avx512_dense,
                                    avx512_norm, avx512_rope,  avx512_attend, avx512_glu,      CACHED_BYTES};

#else
typedef int translation_unit_is_not_empty;
#endif
