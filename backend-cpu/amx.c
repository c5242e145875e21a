/* amx.c: variant "amx": integer linears of several rows as a GEMM on AMX tiles, all else as variant
 * "vnni"; the integer sums are exact, so both give the same bits. A software pipeline: while the
 * tile unit multiplies one block of rows, vector instructions scale and add the sums of the
 * previous block and unpack the codes of the next stage. Tiles are configured for each task and
 * released after it: a thread owns none between tasks. Empty on other architectures. */
#if defined(__x86_64__)

#include "backend-cpu/avx512.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Linux permits tiles to a process on request (arch/x86/include/uapi/asm/prctl.h); threads inherit
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

/* A tile is 16 rows of 64 bytes: 64 activation digits of 16 rows; codes of 64 inputs x 16 outputs
 * as [16][16 outputs][4 inputs]; or 16 x 16 sums. */
enum { TILE_ROWS = 16, TILE_INPUTS = 64, TILE_BYTES = 1024 };

/* Memory format of LDTILECFG (Intel SDM, volume 2). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Sub-groups of half a tile's inputs, for which tiles of digits and codes are halved. */
ALWAYS_INLINE int half_tiles(const struct linear *w) { return w->group == TILE_INPUTS / 2; }

/* Tiles 0, 1 are sums, 2, 3 digits of `rows` rows, 4 .. 7 codes; `inputs` of a tile. */
static void configure(int rows, int inputs)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = (uint8_t)(i < 4 ? rows : inputs / 4);
        c.row_bytes[i] = (uint16_t)(i == 2 || i == 3 ? inputs : 64);
    }
    __asm__ volatile(
        ""
        :
        : "r"(&c)
        : "memory"); /* gcc 12 assumes that only 8 bytes of c are read and drops other stores */
    _tile_loadconfig(&c);
}

/* A stage is a pair of panels x one sub-group: its codes stay in tiles 4 .. 7 while all rows are
 * multiplied with them, in blocks of 16. */
enum {
    PAIRS = CPU_PANELS / 2,
    SUMS = 2 * 2 * 256, /* of a block: [digit][panel][16 rows][16 outputs] */
    ROWS_AT_ONCE = 128,
    GROUP_BLOCKS = CPU_SUBGROUP / 8
};

struct stage {
    int pair, subgroup, j0, n; /* j0: first input; n: inputs, a multiple of 32 */
    int8_t *codes;             /* unpacked: whole tiles of both panels */
    const uint8_t *packed[2];  /* codes of each panel in the model file */
    const uint8_t *prefetch[2];
    size_t apart;    /* pairs: bytes from high to low halves */
    __m512i zero[2]; /* zero points of each panel's outputs, each four times */
};

ALWAYS_INLINE size_t panel_bytes(int n) { return n > TILE_INPUTS ? 2 * TILE_BYTES : TILE_BYTES; }

/* Unpacks block i of 8 inputs of panel p to bytes code - zero. */
ALWAYS_INLINE void unpack_block(const struct stage *s, int p, int i, const int pairs)
{
    int8_t *to = s->codes + (p ? panel_bytes(s->n) : 0) + i * 128;
    struct block_codes c = load_block(s->packed[p] + i * 64, s->apart, pairs);
    _mm_prefetch((const char *)s->prefetch[p] + i * 64, _MM_HINT_T1);
    if (pairs) _mm_prefetch((const char *)s->prefetch[p] + i * 64 + s->apart, _MM_HINT_T1);
    _mm512_storeu_si512(to, _mm512_sub_epi8(c.low, s->zero[p]));
    _mm512_storeu_si512(to + 64, _mm512_sub_epi8(c.high, s->zero[p]));
}

/* Unpacks a stage of pairs, or a short one. */
NOT_INLINE void unpack_other(const struct stage *s)
{
    for (int i = 0; i < s->n / 4; i++) {
        int p = i >= s->n / 8, k = i - p * (s->n / 8);
        if (s->apart) unpack_block(s, p, k, 1);
        else unpack_block(s, p, k, 0);
    }
}

/* Share i of `shares` of a stage's blocks; the first half of the shares is of the first panel. Only
 * whole sub-groups of codes of 4 bits are shared out. */
ALWAYS_INLINE void unpack_share(const struct stage *s, const int i, const int shares)
{
    const int p = i >= shares / 2, count = 2 * GROUP_BLOCKS / shares,
              first = (i - p * shares / 2) * count;
    if (s->n == CPU_SUBGROUP && !s->apart)
        EACH (k, count) unpack_block(s, p, first + k, 0);
    else if (!i) unpack_other(s);
}

/* Fills the last tile of each panel up with 0. */
static void fill_up_stage(const struct stage *s)
{
    for (int p = 0; p < 2; p++)
        memset(s->codes + (size_t)p * panel_bytes(s->n) + s->n * 16, 0, TILE_BYTES / 2);
}

/* The integer sums of a block, not scaled and added yet. */
struct pending {
    const int32_t *sums; /* [panel][16 rows][16] of the first digits */
    int second;          /* offset of the second digits' sums */
    const float *scale;  /* [16] of the activations */
    float *total;        /* [16][2][16] */
    __m512 w_scale[2];   /* scales of the two panels' weights */
    int from, to;        /* valid rows: the last block overlaps rows that are complete */
};

/* Adds the scaled sums of row r to its totals. */
ALWAYS_INLINE void add_row(const struct pending *u, int r, const int digits)
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

/* Share i of `shares` of a block's vector work: the pending sums, and the codes of the next stage
 * (NULL: none). whole: all 16 rows are pending. */
ALWAYS_INLINE void vector_work(const struct pending *u, const struct stage *next, const int i,
                               const int shares, const int digits, const int whole)
{
    const int rows = whole ? TILE_ROWS / shares : 0;
    if (next) unpack_share(next, i, shares);
    EACH (r, rows) add_row(u, i * rows + r, digits);
    if (!whole) {
        int n = u->to - u->from;
        for (int r = u->from + i * n / shares; r < u->from + (i + 1) * n / shares; r++)
            add_row(u, r, digits);
    }
}

/* Tiling of a block: digits; tiles of digits one after the other (one if both digits of a row are
 * rows of a tile); products per tile. */
struct tiling {
    int digits, tiles, steps;
};

/* Multiplies one block: rows of n bytes at digit[tile], `steps` tiles of them. A short sub-group is
 * read up to 32 bytes too far, where the codes are 0 (DIGIT_SLACK). The vector work is interleaved
 * with the tile instructions, which are too long for the processor's out-of-order window. */
ALWAYS_INLINE void multiply_block(const int8_t *const digit[2], int n, int32_t *sums,
                                  const struct pending *u, const struct stage *next,
                                  const struct tiling k, const int whole)
{
    EACH (d, k.tiles) {
        _tile_loadd(2, digit[d], n);
        if (k.steps == 2) _tile_loadd(3, digit[d] + TILE_INPUTS, n);
        _tile_zero(0);
        _tile_zero(1);
        _tile_dpbssd(0, 2, 4);
        vector_work(u, next, d * 4, k.tiles * 4, k.digits, whole);
        _tile_dpbssd(1, 2, 6);
        vector_work(u, next, d * 4 + 1, k.tiles * 4, k.digits, whole);
        if (k.steps == 2) _tile_dpbssd(0, 3, 5);
        vector_work(u, next, d * 4 + 2, k.tiles * 4, k.digits, whole);
        if (k.steps == 2) _tile_dpbssd(1, 3, 7);
        vector_work(u, next, d * 4 + 3, k.tiles * 4, k.digits, whole);
        _tile_stored(0, sums + d * 512, 64);
        _tile_stored(1, sums + d * 512 + 256, 64);
    }
}

/* Operands of a stage for all rows. */
struct operands {
    int n, rows, block;  /* inputs; rows, of one block */
    const int8_t *digit; /* [rows][n] first digits; the second digits are `second` bytes further */
    size_t second;
    const float *scale; /* [rows] of the activations */
    float *total;       /* [rows][2][16] */
    __m512 w_scale[2];
    const struct stage *next; /* the stage that is unpacked meanwhile, or NULL */
};

/* State of the pipeline between two blocks. */
struct pipeline {
    int32_t (*sums)[SUMS]; /* two, used alternately */
    int slot;
    struct pending pending;
};

/* Multiplies the block from row `done` on; returns the number of rows done. */
ALWAYS_INLINE int run_block(const struct operands *o, int done, struct pipeline *l,
                            const struct stage *next, const struct tiling k, const int whole)
{
    int last = o->rows - o->block, r = done < last ? done : last;
    const int8_t *a = o->digit + (size_t)r * (size_t)o->n;
    multiply_block((const int8_t *const[]){a, a + o->second}, o->n, l->sums[l->slot], &l->pending,
                   next, k, whole);
    l->pending = (struct pending){.sums = l->sums[l->slot],
                                  .second = k.tiles == 2 ? 512 : o->rows * 16,
                                  .scale = o->scale + r,
                                  .total = o->total + r * 32,
                                  .w_scale = {o->w_scale[0], o->w_scale[1]},
                                  .from = done - r,
                                  .to = o->block};
    l->slot ^= 1;
    return done + o->block;
}

/* Multiplies all blocks of a stage. Before the first block nothing or a partial block may be
 * pending. */
ALWAYS_INLINE void run_stage(const struct operands *o, struct pipeline *l, const struct tiling k)
{
    int done = k.tiles == k.digits && l->pending.to - l->pending.from == TILE_ROWS
                   ? run_block(o, 0, l, o->next, k, 1)
                   : run_block(o, 0, l, o->next, k, 0);
    while (done < o->rows) done = run_block(o, done, l, NULL, k, 1);
}

/* Layout of a thread's scratch memory. */
struct scratch {
    int32_t sums[2][SUMS]; /* sums of the current block and of the pending one */
    float total[PAIRS * ROWS_AT_ONCE * 32];
    int8_t codes[]; /* unpacked codes of two stages; of all stages where there are more rows than
                       ROWS_AT_ONCE */
};
_Static_assert(sizeof(struct scratch) + 2 * 4 * TILE_BYTES <=
                   CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE) * sizeof(float),
               "kernels.h: scratch");

/* Order of the stages. Few rows are bound by memory and take each pair of panels from its first to
 * its last sub-group, the order of the codes in memory. More rows take all pairs for each
 * sub-group, whose digits then stay in cache. */
enum { IN_ORDER_ROWS = 32, PREFETCH_BYTES = 2048 };

/* Panel i (0, 1) of the stage; an odd last panel is its own partner. */
ALWAYS_INLINE int stage_panel(const struct q4i_call *c, const struct stage *s, int i)
{
    int p = c->p0 + 2 * s->pair + i;
    return p < c->p1 ? p : c->p1 - 1;
}

/* Completes a stage of which pair, subgroup and j0 are set. At the end of a panel the beginning of
 * the next one is prefetched. */
ALWAYS_INLINE void prepare_stage(const struct q4i_call *c, struct stage *s, int8_t *codes, int few)
{
    const struct linear *w = c->w;
    size_t panel = (size_t)(w->k / 8) * 64, from = (size_t)q4i_packed(w, s->j0) * 8;
    s->n = q4_next(w, s->j0) - s->j0;
    s->codes = codes;
    s->apart = w->pairs ? (size_t)w->group * 8 : 0;
    if (s->n % TILE_INPUTS && !half_tiles(w)) fill_up_stage(s);
    EACH (i, 2) {
        int p = stage_panel(c, s, i);
        s->packed[i] = w->codes + (size_t)p * panel + from;
        s->prefetch[i] = s->packed[i] + PREFETCH_BYTES +
                         (from + PREFETCH_BYTES < panel ? 0 : panel * (few ? 1 : CPU_PANELS - 1));
        size_t at = ((size_t)p * (size_t)w->n_groups + (size_t)q4i_group_of(w, s->j0)) * 16;
        s->zero[i] = _mm512_mullo_epi32(load_zeros(w, at, w->pairs), _mm512_set1_epi32(0x01010101));
    }
}

/* Sets pair, subgroup and j0 of the stage after s; 0: s is the last one. */
ALWAYS_INLINE int next_stage(const struct q4i_call *c, const struct stage *s, struct stage *next,
                             int pairs, int few)
{
    next->pair = s->pair, next->subgroup = s->subgroup + 1, next->j0 = s->j0 + s->n;
    if (few) {
        if (next->j0 == q4i_inputs(c->w)) next->pair++, next->subgroup = next->j0 = 0;
        return next->pair < pairs;
    }
    if (++next->pair < pairs) next->subgroup = s->subgroup, next->j0 = s->j0;
    else next->pair = 0;
    return next->j0 < q4i_inputs(c->w);
}

/* Loads the stage's codes into tiles 4 .. 7. */
ALWAYS_INLINE void load_codes(const struct stage *s)
{
    const int8_t *second = s->codes + panel_bytes(s->n);
    __asm__ volatile("" ::: "memory"); /* gcc does not know that loading a tile reads memory */
    _tile_loadd(4, s->codes, 64);
    _tile_loadd(6, second, 64);
    if (s->n <= TILE_INPUTS) return;
    _tile_loadd(5, s->codes + TILE_BYTES, 64);
    _tile_loadd(7, second + TILE_BYTES, 64);
}

/* Rows r0 .. r0+nr-1, stage by stage. The first rows unpack the codes, which are kept if further
 * rows follow. */
ALWAYS_INLINE void gemm_rows(const struct q4i_call *c, int r0, int nr, struct scratch *m,
                             const int digits, const int tiles)
{
    const struct linear *w = c->w;
    int pairs = (c->p1 - c->p0 + 1) / 2, block = nr < TILE_ROWS ? nr : TILE_ROWS,
        few = c->x->rows <= IN_ORDER_ROWS, keep = c->x->rows > nr;
    size_t rows = (size_t)c->x->rows;
    struct pipeline line = {.sums = m->sums};
    struct stage stages[2] = {{0}};
    memset(m->total, 0, (size_t)(pairs * nr * 32) * sizeof *m->total);
    prepare_stage(c, &stages[0], m->codes, few);
    EACH (i, 4)
        if (!r0) unpack_share(&stages[0], i, 4);
    for (int has_next = 1, slot = 0; has_next; slot ^= 1) {
        struct stage *s = &stages[slot], *next = &stages[slot ^ 1];
        int n = s->n;
        struct operands o = {n,
                             nr,
                             block,
                             c->x->digit + (size_t)s->j0 * rows * (size_t)digits +
                                 (size_t)r0 * (size_t)n,
                             rows * (size_t)n,
                             c->x->scale + (size_t)s->subgroup * rows + (size_t)r0,
                             m->total + s->pair * nr * 32,
                             {_mm512_setzero_ps()},
                             NULL};
        EACH (i, 2)
            o.w_scale[i] = load_scales(w, ((size_t)stage_panel(c, s, i) * (size_t)w->n_groups +
                                           (size_t)q4i_group_of(w, s->j0)) *
                                              16);
        load_codes(s);
        has_next = next_stage(c, s, next, pairs, few);
        if (has_next)
            prepare_stage(
                c, next,
                keep ? s->codes + 2 * panel_bytes(n) : m->codes + (slot ^ 1) * 4 * TILE_BYTES, few);
        if (has_next && !r0) o.next = next;
        if (n > TILE_INPUTS) run_stage(&o, &line, (struct tiling){digits, tiles, 2});
        else run_stage(&o, &line, (struct tiling){digits, tiles, 1});
    }
    for (int r = line.pending.from; r < line.pending.to; r++) add_row(&line.pending, r, digits);
    for (int r = 0; r < nr; r++)
        for (int p = c->p0; p < c->p1; p++) {
            __m512 sum =
                _mm512_loadu_ps(m->total + (((p - c->p0) / 2 * nr + r) * 2 + (p - c->p0) % 2) * 16);
            stream_outputs(w, c->y + (size_t)(r0 + r) * (size_t)w->out, p * 16, sum, c->x->rows);
        }
}

/* All rows, in passes of equal size, at most ROWS_AT_ONCE. */
ALWAYS_INLINE void gemm(const struct q4i_call *c, struct scratch *m, const int digits,
                        const int tiles)
{
    int rows = c->x->rows;
    for (int left = (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, r = 0, nr; r < rows;
         left--, r += nr) {
        nr = ((rows - r) / left + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
        if (nr > rows - r) nr = rows - r;
        gemm_rows(c, r, nr, m, digits, tiles);
    }
}

/* Each is a function of its own, for gcc's register allocation. */
static __attribute__((noinline)) void gemm_one_digit(const struct q4i_call *c, struct scratch *m)
{
    gemm(c, m, 1, 1);
}

static __attribute__((noinline)) void gemm_two_digits(const struct q4i_call *c, struct scratch *m)
{
    gemm(c, m, 2, 2);
}

static __attribute__((noinline)) void gemm_digits_in_a_tile(const struct q4i_call *c,
                                                            struct scratch *m)
{
    gemm(c, m, 2, 1);
}

/* One and few rows are bound by memory: VNNI does not unpack codes. Tiles read more rows faster. */
enum { VNNI_ROWS = 4 };

static void amx_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                    float *scratch)
{
    struct q4i_call call = {w, x, y, p0, p1};
    struct scratch *m = (struct scratch *)scratch;
    int in_a_tile = x->n_digits == 2 && 2 * x->rows <= TILE_ROWS,
        rows = in_a_tile ? 2 * x->rows : x->rows;
    if (x->rows == 1 || takes_few(w, x, VNNI_ROWS)) {
        vnni_q4i(w, x, y, p0, p1, scratch);
        return;
    }
    configure(rows < TILE_ROWS ? rows : TILE_ROWS, half_tiles(w) ? TILE_INPUTS / 2 : TILE_INPUTS);
    if (in_a_tile) gemm_digits_in_a_tile(&call, m);
    else if (x->n_digits == 2) gemm_two_digits(&call, m);
    else gemm_one_digit(&call, m);
    _tile_release();
    _mm_sfence();
}

#include "backend-cpu/amx_attend.h"

const struct cpu_kernels cpu_amx = {
    .name = "amx",
    .unusable = amx_unusable,
    .q4 = avx512_q4,
    .quantize = avx512_quantize,
    .q4i = amx_q4i,
    .dense = avx512_dense,
    .norm = avx512_norm,
    .layer_norm = avx512_layer_norm,
    .add = avx512_add,
    .rope = avx512_rope,
    .attend = amx_attend,
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
