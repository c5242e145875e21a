/* amx.c: rung "amx": the integer linears of many rows through AMX tiles, everything else as rung
 * "vnni"; the integer sums are exact, so that both give the same bits. Tiles are configured for
 * each task and released behind it: a thread owns none between tasks. Empty on other architectures.
 */
#if defined(__x86_64__)

#include "backend-cpu/avx512.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Linux gives a process tiles on request only (arch/x86/include/uapi/asm/prctl.h); threads inherit
 * the permission. */
#ifndef MAY_USE_TILES
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#define MAY_USE_TILES() (!syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA))
#endif

static const char *amx_unusable(void)
{
    const char *why = cpu_vnni.unusable();
    if (why) return why;
    if (!__builtin_cpu_supports("amx-tile") || !__builtin_cpu_supports("amx-int8"))
        return "this processor or system has no AMX int8";
    return MAY_USE_TILES() ? NULL : "this processor has AMX, the system does not allow it";
}

/* A tile is 16 rows of 64 bytes: 16 rows of 64 activation digits, 16 fours of inputs x 16 outputs x
 * 4, or 16 x 16 sums. */
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
    for (int i = 0; i < 8; i++)
        c.rows[i] = (uint8_t)(i < 4 ? rows : TILE_ROWS), c.row_bytes[i] = 64;
    __asm__ volatile(
        ""
        :
        : "r"(&c)
        : "memory"); /* gcc 12 believes that 8 bytes of it are read and leaves out the rest */
    _tile_loadconfig(&c);
}

/* Panels are taken in pairs. A visit is a pair x one sub-group, whose codes stay in tiles 4 .. 7
 * while all rows meet them, a block of 16 after the other. */
enum {
    PAIRS = CPU_PANELS / 2,
    SUMS = 2 * 2 * 256,
    ROWS_AT_ONCE = 128,
    GROUP_BLOCKS = CPU_SUBGROUP / 8
};

struct visit {
    int q, s, j0, n; /* pair, sub-group, its first input, inputs (a multiple of 32) */
    int8_t *codes;   /* unpacked: whole tiles of both panels */
    const uint8_t *packed[2], *ahead[2]; /* of the panels; what is asked for while they are read */
    __m512i zero[2];                     /* of each output, four times */
};

ALWAYS_INLINE size_t panel_bytes(int n) { return n > TILE_INPUTS ? 2 * TILE_BYTES : TILE_BYTES; }

/* Blocks of 8 inputs from the l-th on become bytes code - zero; GROUP_BLOCKS belong to each panel.
 */
ALWAYS_INLINE void unpack_blocks(const struct visit *v, int l, const int count)
{
    const __m512i mask = _mm512_set1_epi8(15);
    EACH (i, count) {
        int p = l + i >= GROUP_BLOCKS, at = (l + i) % GROUP_BLOCKS;
        int8_t *to = v->codes + (p ? panel_bytes(v->n) : 0) + at * 128;
        __m512i c = _mm512_loadu_si512(v->packed[p] + at * 64);
        _mm_prefetch((const char *)v->ahead[p] + at * 64, _MM_HINT_T1);
        _mm512_storeu_si512(to, _mm512_sub_epi8(_mm512_and_si512(c, mask), v->zero[p]));
        _mm512_storeu_si512(
            to + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(c, 4), mask), v->zero[p]));
    }
}

/* All of them; the last tile is filled up with 0. */
static void unpack_visit(const struct visit *v)
{
    for (int p = 0; p < 2; p++) {
        for (int l = 0; l < v->n / 8; l++) unpack_blocks(v, p * GROUP_BLOCKS + l, 1);
        if (v->n % TILE_INPUTS)
            memset(v->codes + (size_t)p * panel_bytes(v->n) + v->n * 16, 0, TILE_BYTES / 2);
    }
}

/* The sums of a block, still to be scaled and added: that is done while the tiles of the next one
 * are multiplied. */
struct rest {
    const int32_t *sums; /* [panel][16 rows][16] of the first digits */
    int second;          /* those of the second are so much further on */
    const float *scale;  /* [16] of the activations */
    float *total;        /* [16][2][16] */
    __m512 w_scale[2];   /* of the panels */
    int from,
        to; /* its rows that count: the last block reaches back over some that are done already */
};

ALWAYS_INLINE void add_row(const struct rest *u, int r, const int digits)
{
    EACH (p, 2) {
        const int32_t *sums = u->sums + p * 256 + r * 16;
        float *total = u->total + (r * 2 + p) * 16;
        __m512i v = _mm512_loadu_si512(sums);
        if (digits == 2)
            v = _mm512_add_epi32(_mm512_slli_epi32(v, 7), _mm512_loadu_si512(sums + u->second));
        __m512 f = _mm512_mul_ps(_mm512_set1_ps(u->scale[r]), u->w_scale[p]);
        _mm512_storeu_ps(
            total, _mm512_add_ps(_mm512_loadu_ps(total), _mm512_mul_ps(_mm512_cvtepi32_ps(v), f)));
    }
}

/* Part `part` of `parts` of what is done besides products: the rest, and the codes of the next
 * visit, NULL: none. */
ALWAYS_INLINE void do_part(const struct rest *rest, const struct visit *next, const int part,
                           const int parts, const int digits, const int whole)
{
    const int rows = whole ? TILE_ROWS / parts : 0;
    if (next) unpack_blocks(next, part * (2 * GROUP_BLOCKS / parts), 2 * GROUP_BLOCKS / parts);
    EACH (i, rows) add_row(rest, part * rows + i, digits);
    if (!whole) {
        int n = rest->to - rest->from;
        for (int r = rest->from + part * n / parts; r < rest->from + (part + 1) * n / parts; r++)
            add_row(rest, r, digits);
    }
}

/* How a block of rows is multiplied: digits; tiles of digits one after the other (one, when both
 * digits of a row are rows of a tile); products for each. */
struct shape {
    int digits, tiles, steps;
};

/* Multiplies one block: rows of n bytes at digit[tile], of which `steps` tiles are read: up to 32
 * bytes beyond a short sub-group, where the codes are 0 (kernels.h: there is something to read).
 * Vector instructions stand between those on tiles: the processor does not look far enough ahead to
 * find them by itself. */
ALWAYS_INLINE void multiply_block(const int8_t *const digit[2], int n, int32_t *sums,
                                  const struct rest *rest, const struct visit *next,
                                  const struct shape k, const int whole)
{
    EACH (d, k.tiles) {
        _tile_loadd(2, digit[d], n);
        if (k.steps == 2) _tile_loadd(3, digit[d] + TILE_INPUTS, n);
        _tile_zero(0);
        _tile_zero(1);
        _tile_dpbssd(0, 2, 4);
        do_part(rest, next, d * 4, k.tiles * 4, k.digits, whole);
        _tile_dpbssd(1, 2, 6);
        do_part(rest, next, d * 4 + 1, k.tiles * 4, k.digits, whole);
        if (k.steps == 2) _tile_dpbssd(0, 3, 5);
        do_part(rest, next, d * 4 + 2, k.tiles * 4, k.digits, whole);
        if (k.steps == 2) _tile_dpbssd(1, 3, 7);
        do_part(rest, next, d * 4 + 3, k.tiles * 4, k.digits, whole);
        _tile_stored(0, sums + d * 512, 64);
        _tile_stored(1, sums + d * 512 + 256, 64);
    }
}

/* A visit, ready for all rows. */
struct meeting {
    int n, rows, block;  /* inputs; rows, of one block */
    const int8_t *digit; /* first row's first digits; a row is n bytes, the second digits are
                            `second` further on */
    size_t second;
    const float *scale; /* [rows] of the activations */
    float *total;       /* [rows][2][16] */
    __m512 w_scale[2];
    const struct visit *next; /* to be unpacked meanwhile, or NULL */
};

/* What is handed on from one block to the next. */
struct line {
    int32_t (*sums)[SUMS]; /* two, taken in turns */
    int turn;
    struct rest rest;
};

/* The block from row `done` on; returns the rows done then. */
ALWAYS_INLINE int meet_block(const struct meeting *t, int done, struct line *l,
                             const struct visit *next, const struct shape k, const int whole)
{
    int last = t->rows - t->block, r = done < last ? done : last;
    const int8_t *a = t->digit + (size_t)r * (size_t)t->n;
    multiply_block((const int8_t *const[]){a, a + t->second}, t->n, l->sums[l->turn], &l->rest,
                   next, k, whole);
    l->rest = (struct rest){l->sums[l->turn],  k.tiles == 2 ? 512 : t->rows * 16, t->scale + r,
                            t->total + r * 32, {t->w_scale[0], t->w_scale[1]},    done - r,
                            t->block};
    l->turn ^= 1;
    return done + t->block;
}

/* All blocks. Before the first there may be no rest, or that of a last block. */
ALWAYS_INLINE void meet_rows(const struct meeting *t, struct line *l, const struct shape k)
{
    int done = k.tiles == k.digits && l->rest.to - l->rest.from == TILE_ROWS
                   ? meet_block(t, 0, l, t->next, k, 1)
                   : meet_block(t, 0, l, t->next, k, 0);
    while (done < t->rows) done = meet_block(t, done, l, NULL, k, 1);
}

/* Where things lie in a thread's scratch. */
struct place {
    int32_t sums[2][SUMS]; /* of the block that is multiplied and of the one before */
    float total[PAIRS * ROWS_AT_ONCE * 32];
    int8_t codes[]; /* unpacked, of two visits; with more rows than at once those of all */
};
_Static_assert(sizeof(struct place) + 2 * 4 * TILE_BYTES <=
                   CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE) * sizeof(float),
               "kernels.h: scratch");

/* One call's outputs. */
struct job {
    const struct linear *w;
    const struct q4_digits *x;
    float *y;
    int p0, p1;
};

/* Few rows take a pair of panels from its beginning to its end: that is how codes lie in memory,
 * which is what such rows wait for. Many take all pairs for each sub-group, whose digits then are
 * at hand. */
enum { FEW_ROWS = 32, AHEAD_BYTES = 2048 };

/* An odd last panel is its own partner. */
ALWAYS_INLINE int visit_panel(const struct job *o, const struct visit *v, int i)
{
    int p = o->p0 + 2 * v->q + i;
    return p < o->p1 ? p : o->p1 - 1;
}

/* Prepares a visit whose q, s and j0 are given. What is asked for at the end of a panel is the
 * beginning of the one that comes next. */
ALWAYS_INLINE void plan_visit(const struct job *o, struct visit *v, int8_t *codes, int few)
{
    const struct linear *w = o->w;
    size_t panel = (size_t)(w->k / 8) * 64, from = (size_t)v->j0 * 8;
    v->n = q4_next(w, v->j0) - v->j0;
    v->codes = codes;
    EACH (i, 2) {
        int p = visit_panel(o, v, i);
        v->packed[i] = w->codes + (size_t)p * panel + from;
        v->ahead[i] = v->packed[i] + AHEAD_BYTES +
                      (from + AHEAD_BYTES < panel ? 0 : panel * (few ? 1 : CPU_PANELS - 1));
        const uint8_t *z = w->zeros +
                           ((size_t)p * (size_t)w->n_groups + (size_t)(v->j0 / w->group)) * 16;
        v->zero[i] = _mm512_mullo_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)z)),
                                        _mm512_set1_epi32(0x01010101));
    }
}

/* 0: there is none after it. */
ALWAYS_INLINE int next_visit(const struct job *o, const struct visit *v, struct visit *next,
                             int pairs, int few)
{
    next->q = v->q, next->s = v->s + 1, next->j0 = v->j0 + v->n;
    if (few) {
        if (next->j0 == o->w->k) next->q++, next->s = next->j0 = 0;
        return next->q < pairs;
    }
    if (++next->q < pairs) next->s = v->s, next->j0 = v->j0;
    else next->q = 0;
    return next->j0 < o->w->k;
}

ALWAYS_INLINE void load_codes(const struct visit *v)
{
    const int8_t *second = v->codes + panel_bytes(v->n);
    __asm__ volatile("" ::: "memory"); /* gcc does not know that loading a tile reads memory */
    _tile_loadd(4, v->codes, 64);
    _tile_loadd(6, second, 64);
    if (v->n <= TILE_INPUTS) return;
    _tile_loadd(5, v->codes + TILE_BYTES, 64);
    _tile_loadd(7, second + TILE_BYTES, 64);
}

/* Rows r0 .. r0+nr-1, visit by visit. The first rows unpack the codes; where others follow they are
 * kept for them. */
ALWAYS_INLINE void tile_rows(const struct job *o, int r0, int nr, struct place *at,
                             const int digits, const int tiles)
{
    const struct linear *w = o->w;
    int pairs = (o->p1 - o->p0 + 1) / 2, block = nr < TILE_ROWS ? nr : TILE_ROWS,
        few = o->x->rows <= FEW_ROWS, keep = o->x->rows > nr;
    size_t rows = (size_t)o->x->rows;
    struct line line = {.sums = at->sums};
    struct visit v[2] = {{0}};
    memset(at->total, 0, (size_t)(pairs * nr * 32) * sizeof *at->total);
    plan_visit(o, &v[0], at->codes, few);
    if (!r0) unpack_visit(&v[0]);
    for (int more = 1, turn = 0; more; turn ^= 1) {
        struct visit *now = &v[turn], *next = &v[turn ^ 1];
        int n = now->n, piped;
        struct meeting t = {n,
                            nr,
                            block,
                            o->x->digit + (size_t)now->j0 * rows * (size_t)digits +
                                (size_t)r0 * (size_t)n,
                            rows * (size_t)n,
                            o->x->scale + (size_t)now->s * rows + (size_t)r0,
                            at->total + now->q * nr * 32,
                            {_mm512_setzero_ps()},
                            NULL};
        EACH (i, 2)
            t.w_scale[i] = load_scales(w, ((size_t)visit_panel(o, now, i) * (size_t)w->n_groups +
                                           (size_t)(now->j0 / w->group)) *
                                              16);
        load_codes(now);
        more = next_visit(o, now, next, pairs, few);
        if (more)
            plan_visit(o, next,
                       keep ? now->codes + 2 * panel_bytes(n)
                            : at->codes + (turn ^ 1) * 4 * TILE_BYTES,
                       few);
        piped = more && !r0 && next->n == CPU_SUBGROUP;
        if (piped) t.next = next;
        if (n > TILE_INPUTS) meet_rows(&t, &line, (struct shape){digits, tiles, 2});
        else meet_rows(&t, &line, (struct shape){digits, tiles, 1});
        if (more && !r0 && !piped) unpack_visit(next);
    }
    for (int r = line.rest.from; r < line.rest.to; r++) add_row(&line.rest, r, digits);
    for (int r = 0; r < nr; r++)
        for (int p = o->p0; p < o->p1; p++) {
            __m512 sum = _mm512_loadu_ps(at->total +
                                         (((p - o->p0) / 2 * nr + r) * 2 + (p - o->p0) % 2) * 16);
            stream_outputs(w, o->y + (size_t)(r0 + r) * (size_t)w->out, p * 16, sum, o->x->rows);
        }
}

/* All rows, in rounds. */
ALWAYS_INLINE void tile_job(const struct job *o, struct place *at, const int digits,
                            const int tiles)
{
    int rows = o->x->rows;
    for (int left = (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, r = 0, nr; r < rows;
         left--, r += nr) {
        nr = ((rows - r) / left + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
        if (nr > rows - r) nr = rows - r;
        tile_rows(o, r, nr, at, digits, tiles);
    }
}

/* Each a function of its own, for gcc's registers. */
static __attribute__((noinline)) void one_digit(const struct job *o, struct place *at)
{
    tile_job(o, at, 1, 1);
}

static __attribute__((noinline)) void two_digits(const struct job *o, struct place *at)
{
    tile_job(o, at, 2, 2);
}

static __attribute__((noinline)) void two_in_a_tile(const struct job *o, struct place *at)
{
    tile_job(o, at, 2, 1);
}

/* A single row is left to VNNI, which does not unpack. */
static void amx_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                    float *scratch)
{
    struct job job = {w, x, y, p0, p1};
    int in_a_tile = x->n_digits == 2 && 2 * x->rows <= TILE_ROWS,
        rows = in_a_tile ? 2 * x->rows : x->rows;
    if (x->rows == 1) {
        vnni_q4i(w, x, y, p0, p1, scratch);
        return;
    }
    configure(rows < TILE_ROWS ? rows : TILE_ROWS);
    if (in_a_tile) two_in_a_tile(&job, (struct place *)scratch);
    else if (x->n_digits == 2) two_digits(&job, (struct place *)scratch);
    else one_digit(&job, (struct place *)scratch);
    _tile_release();
    _mm_sfence();
}

const struct cpu_kernels cpu_amx = {"amx",         amx_unusable, avx512_q4,   avx512_quantize,
                                    amx_q4i,       avx512_dense, avx512_norm, avx512_rope,
                                    avx512_attend, avx512_glu,   CACHED_BYTES};

#else
typedef int translation_unit_is_not_empty;
#endif
