/* hip_linear.c: the choice of a kernel for every linear and row class, and the launches of linears.
 * Weight format, arithmetic and phase of the rows choose a family of kernels; within a family the
 * row class chooses, because all members give the same bits. All choices are made when a plan is
 * compiled. Must not know: attention, single-row GEMVs. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hip_print_variants(const struct be *be, FILE *f)
{
    static const char *const format[] = {"4-bit, f16", "4-bit, f32", "f16",       "bf16",
                                         "f32",        "8-bit, f16", "4-bit, f16"};
    const struct hip *h = (const struct hip *)be;
    if (hip_has(h, K_q4_gemv_norm) && h->pinned < 0)
        fprintf(f, "kernel: %-20s %-10s %-9s a single row, with the operations around it\n",
                "q4_gemv", format[FORMAT_Q4_F16], "generated");
    for (int k = 0; k < K_COUNT; k++) {
        const struct hip_kernel_row *v = &hip_kernels[k];
        if (!v->rows || v->op == FOR_EXPERTS || !hip_has(h, (enum hip_kernel)k) ||
            (hip_runs_paper(h) ? k != h->pinned : v->op == FOR_PAPER))
            continue;
        fprintf(f, "kernel: %-20s %-10s %-9s blocks of %d row%s x %d outputs%s\n", v->name,
                format[v->format],
                v->format == FORMAT_PAPER || v->phase == PHASE_BOTH ? "all rows"
                : v->phase == PHASE_DECODE                          ? "generated"
                                                                    : "prompt",
                v->rows, v->rows == 1 ? "" : "s", v->outputs, k == h->pinned ? ", pinned" : "");
    }
}

int hip_rounds_parts(const struct hip *h)
{
    return h->config.act == ACT_F16 && hip_has(h, K_plain_256);
}

int hip_has_f16_parts(const struct hip *h, const struct be_linear *w)
{
    return w->kind != WEIGHT_BF16 || h->config.act == ACT_F16;
}

static enum linear_format format_of(const struct hip *h, const struct be_linear *w)
{
    static const enum linear_format dense[] = {
        [WEIGHT_F16] = FORMAT_F16,
        [WEIGHT_BF16] = FORMAT_BF16,
        [WEIGHT_F32] = FORMAT_F32,
        [WEIGHT_I8] = FORMAT_I8};
    if (w->dense) return dense[w->kind];
    return h->config.act == ACT_F16 ? FORMAT_Q4_F16 : FORMAT_Q4_F32;
}

/* Whether hopper/linear_plain_wgmma.hip computes the linear in prompt rows, all of them. */
static int by_plain_wgmma(const struct hip *h, const struct be_linear *w)
{
    return w->dense && (w->kind == WEIGHT_BF16 || w->kind == WEIGHT_I8) &&
           h->config.act == ACT_F16 && w->n_chunks % 2 == 0 && hip_has(h, K_plain_256);
}

/* Whether the linear has kernels for row tiles: of dense ones hopper/plain_decode_wgmma.hip. */
static int takes_tiles(const struct hip *h, const struct be_linear *w)
{
    return w->d_maps && (!w->dense || (h->config.act == ACT_F16 && w->n_chunks % 2 == 0));
}

/* Whether it is a kernel of hopper/dense_rows.hip. */
static int of_few_rows(const struct hip_kernel_row *v) { return v->op == FOR_GEMV; }

int hip_linear_applies(const struct hip *h, enum hip_kernel k, enum kernel_op of,
                       enum linear_phase phase, const struct be_linear *w)
{
    const struct hip_kernel_row *v = &hip_kernels[k];
    if (of_few_rows(v) && (!hip_rounds_parts(h) || w->n_chunks % 2 || w->in > DENSE_ROWS_INPUTS))
        return 0;
    int by_phase = w->dense && of == FOR_LINEAR && phase == PHASE_PREFILL && by_plain_wgmma(h, w);
    return v->rows && v->op == of && (v->phase == phase || (v->phase == PHASE_BOTH && !by_phase)) &&
           v->format == format_of(h, w) && hip_has(h, k) && (!v->few || w->in <= FEW_INPUTS) &&
           (!v->linears || (v->linears == PLAIN_LINEAR) == hip_is_plain(w)) &&
           (!v->tile || (w->dense && phase == PHASE_PREFILL ? by_phase : takes_tiles(h, w))) &&
           (!v->in_clusters || hip_stream_has_clusters(h->stream)) && (!v->dealt || h->d_heads);
}

static int applies(const struct hip *h, enum hip_kernel k, enum linear_phase phase,
                   const struct be_linear *w)
{
    return hip_linear_applies(h, k, FOR_LINEAR, phase, w);
}

static int n_tiles(const struct hip_kernel_row *v, int rows)
{
    return (rows + v->rows - 1) / v->rows;
}

/* Row tiles are powers of two up to this, or multiples of it. */
enum { CLASS_ROWS = 64 };

/* Output tiles of n linears, each of whole tiles. */
static int output_tiles(const struct hip_kernel_row *v, int n, const struct be_linear *const w[])
{
    int tiles = 0;
    for (int i = 0; i < n; i++) tiles += (w[i]->out + v->outputs - 1) / v->outputs;
    return tiles;
}

/* Estimated time of a launch: outputs x rows that a multiprocessor computes one after the other.
 * Two blocks of a dense linear take turns. */
static double time_of(const struct hip *h, const struct hip_kernel_row *v, int n,
                      const struct be_linear *const w[], int rows)
{
    double all = hip_stream_multiprocessors(h->stream),
           cluster = v->in_clusters ? v->in_clusters : 1;
    double at_once = v->persistent            ? (v->format == FORMAT_Q4_F16 ? v->blocks : 1) * all
                     : v->phase == PHASE_BOTH ? all
                                              : 1;
    double waves = (double)output_tiles(v, n, w) * n_tiles(v, rows) * cluster / at_once;
    if (v->dealt > 1) waves = v->dealt * waves <= 1 ? 1.0 / v->dealt : INFINITY;
    else waves = v->dealt && waves > 1 ? ceil(8 * waves) / 8 : ceil(waves);
    return waves * v->outputs / cluster * v->rows * (100 + v->slower);
}

/* Whether kernel a is the better choice; both apply. For decode rows the smallest row tile that
 * holds all rows is better, and the largest tile where none does. On equal tiles, of more rows on
 * two of CLASS_ROWS or more, and for prompt rows, the kernel with the shorter estimated time is
 * better. */
static int better(const struct hip *h, enum linear_phase phase, const struct hip_kernel_row *a,
                  const struct hip_kernel_row *b, int n, const struct be_linear *const w[],
                  int rows)
{
    int large = a->rows >= CLASS_ROWS && b->rows >= CLASS_ROWS && rows > CLASS_ROWS;
    if (phase == PHASE_DECODE && a->rows != b->rows && !large)
        return b->rows < rows ? a->rows > b->rows : a->rows >= rows && a->rows < b->rows;
    return time_of(h, a, n, w, rows) < time_of(h, b, n, w, rows);
}

/* Whether a kernel for few outputs, a, is better than kernel b: always up to FEW_OUTPUTS, and for
 * few rows where b would leave half of the multiprocessors idle, unless its small blocks, one at a
 * time, each take longer than FEW_BLOCK outputs x rows of b. */
static int better_for_few(const struct hip *h, const struct hip_kernel_row *a,
                          const struct hip_kernel_row *b, int n, const struct be_linear *const w[],
                          int rows)
{
    enum { FEW_OUTPUTS = 512, FEW_ROWS = 64, FEW_BLOCK = 750 };
    int all = hip_stream_multiprocessors(h->stream), outputs = 0,
        blocks = output_tiles(b, n, w) * n_tiles(b, rows);
    double waves = ceil((double)output_tiles(a, n, w) * n_tiles(a, rows) / all);
    for (int i = 0; i < n; i++) outputs += w[i]->out;
    if (outputs <= FEW_OUTPUTS) return 1;
    return rows <= FEW_ROWS && 2 * blocks <= all &&
           (rows <= a->rows || 100 * waves * FEW_BLOCK <= time_of(h, b, n, w, rows));
}

/* Whether kernel a, for few rows, is better than kernel b: its persistent blocks of one panel share
 * the work out more evenly unless b's tiles fill the multiprocessors twice. */
static int better_for_rows(const struct hip *h, const struct hip_kernel_row *a,
                           const struct hip_kernel_row *b, int n, const struct be_linear *const w[],
                           int rows)
{
    return rows <= a->rows && output_tiles(b, n, w) <= 2 * hip_stream_multiprocessors(h->stream);
}

/* The kernel for n linears of one format and input: the pinned kernel where it applies, else the
 * best one; on ties the first in the list. */
static enum hip_kernel choose(const struct hip *h, enum linear_phase phase, int n,
                              const struct be_linear *const w[], int rows)
{
    int best = -1;
    if (h->pinned >= 0 && applies(h, (enum hip_kernel)h->pinned, phase, w[0]))
        return (enum hip_kernel)h->pinned;
    for (int k = 0; k < K_COUNT; k++)
        if (!hip_kernels[k].few && applies(h, (enum hip_kernel)k, phase, w[0]) &&
            (best < 0 || better(h, phase, &hip_kernels[k], &hip_kernels[best], n, w, rows)))
            best = k;
    CHECK(best >= 0);
    for (int k = 0; k < K_COUNT; k++)
        if (hip_linear_applies(h, (enum hip_kernel)k, FOR_GEMV, phase, w[0]) &&
            better_for_rows(h, &hip_kernels[k], &hip_kernels[best], n, w, rows))
            return (enum hip_kernel)k;
    for (int k = 0; k < K_COUNT; k++)
        if (hip_kernels[k].few && applies(h, (enum hip_kernel)k, phase, w[0]) &&
            better_for_few(h, &hip_kernels[k], &hip_kernels[best], n, w, rows))
            return (enum hip_kernel)k;
    return (enum hip_kernel)best;
}

/* Row classes. The choice of a kernel depends on the number of rows only through the number of row
 * tiles, and tiles have a power of two of rows, up to 64 for decode rows, or a multiple of 64 for
 * prompt rows. Classes end at 1, 2, 4, 8, 16, 32, 64, 128, 192, .. decode rows and at 64, 128, 192,
 * .. prompt rows. */
enum { SMALL_CLASSES = 6 };

static int class_of(enum linear_phase phase, int rows)
{
    int c = 0;
    if (phase == PHASE_PREFILL) return (rows + CLASS_ROWS - 1) / CLASS_ROWS - 1;
    while (c < SMALL_CLASSES && 1 << c < rows) c++;
    return c < SMALL_CLASSES ? c : SMALL_CLASSES + (rows + CLASS_ROWS - 1) / CLASS_ROWS - 1;
}

static int rows_of_class(enum linear_phase phase, int c)
{
    if (phase == PHASE_PREFILL) return (c + 1) * CLASS_ROWS;
    return c < SMALL_CLASSES ? 1 << c : (c - SMALL_CLASSES + 1) * CLASS_ROWS;
}

static const struct hip_kernel_row *kernel_of(const struct hip_linear_run *r,
                                              enum linear_phase phase, int rows)
{
    return &hip_kernels[r->kernel[phase][class_of(phase, rows)]];
}

static enum hip_kernel id_of(const struct hip_kernel_row *v)
{
    return (enum hip_kernel)(v - hip_kernels);
}

/* Whether two linears read the same prepared input. */
static int same_input(const struct be_linear *a, const struct be_linear *b)
{
    return a->dense == b->dense && (!a->dense || a->kind == b->kind) && a->perm == b->perm &&
           a->k == b->k && hip_is_plain(a) == hip_is_plain(b);
}

/* Layout of the prepared rows: the row tiles of both phases, 0 for row-major, and the first element
 * of the prompt rows. */
struct layout {
    int first_tile, rest_tile;
    size_t rest_at;
};

static struct layout layout_of(const struct hip_linear_run *r, const struct be_linear *w, int rows,
                               int n_decode)
{
    struct layout l = {0};
    int n_first = n_decode;
    if (!w->stride && n_decode) l.first_tile = kernel_of(r, PHASE_DECODE, n_decode)->tile;
    if (r->parts) { /* decode rows are, at most, two parts of whole tiles or three of sixteens */
        int whole = l.first_tile ? l.first_tile : 16;
        if (!r->by_phase) return l;
        l.rest_tile = PLAIN_WGMMA_ROWS;
        l.rest_at = (l.first_tile ? 2 : 3) * (size_t)((n_decode + whole - 1) / whole * whole) *
                    (size_t)w->n_chunks * CHUNK;
        return l;
    }
    if (!w->stride && rows > n_decode)
        l.rest_tile = kernel_of(r, PHASE_PREFILL, rows - n_decode)->tile;
    if (l.first_tile) n_first = (n_decode + l.first_tile - 1) / l.first_tile * l.first_tile;
    l.rest_at = (size_t)n_first * (size_t)w->n_chunks * CHUNK;
    return l;
}

/* The longer of a row's lengths before and after its preparation, in elements. */
static int longest_of(const struct prepare_args *a)
{
    return a->stride > a->in ? a->stride : a->in;
}

int hip_fits_1024_threads(const struct hip *h, const struct prepare_args *a, int pieces)
{
    return hip_has(h, K_norm_1024_4) && longest_of(a) <= pieces * PIECE && a->in % 4 == 0 &&
           a->k % 4 == 0 && (a->order || !a->perm);
}

/* Whether it does: all are decode rows, and each has a multiprocessor of its own. */
static int uses_1024_threads(const struct hip *h, const struct op *producer,
                             const struct prepare_args *a, int rows)
{
    enum op_kind kind = producer->kind;
    int pieces = kind == OP_NORM ? MEDIUM_PIECES : kind == OP_ATTEND ? COMBINE_PIECES : ROW_PIECES;
    if (kind == OP_GLU && producer->as.glu.activation != ACTIVATION_SILU) return 0;
    return rows == a->n_first && rows <= hip_stream_multiprocessors(h->stream) &&
           hip_fits_1024_threads(h, a, pieces);
}

/* Launches the producer of the input and its preparation as one kernel. keep: the input has other
 * readers. */
static void prepare_produced(struct hip *h, const struct be_plan *p, int producer,
                             const struct prepare_args *a, int rows, int keep)
{
    static const enum hip_kernel norm[SIZES] =
        {[SIZE_4] = K_norm_prepare_4, [SIZE_11] = K_norm_prepare_11, [SIZE_14] = K_norm_prepare_14},
                                 glu[SIZES] = {[SIZE_4] = K_glu_prepare_4,
                                               [SIZE_11] = K_glu_prepare_11,
                                               [SIZE_14] = K_glu_prepare_14};
    enum op_kind kind = hip_op(p, producer)->kind;
    int longest = longest_of(a), by_1024 = uses_1024_threads(h, hip_op(p, producer), a, rows);
    enum hip_size size = hip_size_of(longest);
    enum hip_kernel k;
    /* the kernel reads it back itself */
    if (longest > ROW_PIECES * PIECE || a->in % 4 || a->k % 4 ||
        (kind == OP_GLU && !by_1024 && (a->perm || a->stride != a->in)))
        keep = 1;
    if (kind == OP_NORM) {
        struct norm_prepare_args both = {hip_norm_args(h, p, producer), *a};
        if (!keep) both.norm.out = NULL;
        k = !by_1024 ? norm[size] : size == SIZE_4 ? K_norm_1024_4 : K_norm_1024_11;
        hip_launch_rows(h, k, rows, &both, sizeof both);
    } else if (kind == OP_GLU) {
        struct glu_args gate = {hip_in(p, producer, 0), hip_in(p, producer, 1),
                                (size_t)hip_width(p, producer),
                                hip_op(p, producer)->as.glu.activation == ACTIVATION_GELU_TANH};
        struct glu_prepare_args both = {gate, *a, keep};
        unsigned spread = a->first_tile && rows == a->n_first &&
                     rows <= hip_stream_multiprocessors(h->stream) / 2;
        hip_launch(h, by_1024 ? K_glu_1024_14 : glu[size],
                   (struct hip_blocks){(size_t)rows, 1, 1, spread}, &both, sizeof both);
    } else {
        struct combine_prepare_args both = {hip_combine_args(h, p, producer, 0), *a};
        k = a->order ? K_combine_prepare_ordered : K_combine_prepare;
        if (by_1024)
            k = size == SIZE_4 && h->shape.n_splits <= SHORT_ROW_SPLITS ? K_combine_1024_4
                                                                        : K_combine_1024_8;
        hip_launch_rows(h, k, rows, &both, sizeof both);
    }
}

static struct prepare_args prepare_args_of(const struct hip *h, const struct be_plan *p, int op,
                                           const struct hip_linear_run *r, int rows, int n_decode)
{
    const struct be_linear *w = hip_weight(p, op, r->first);
    if (r->parts && !r->by_phase) n_decode = rows;
    struct layout l = layout_of(r, w, rows, n_decode);
    return (struct prepare_args){.x = hip_in(p, op, 0),
                                 .perm = w->d_perm,
                                 .order = w->d_order,
                                 .packed = h->d_packed,
                                 .scale = h->d_scale,
                                 .in = w->in,
                                 .k = w->k,
                                 .stride = w->n_chunks * CHUNK,
                                 .top = w->stride ? 8 : 14,
                                 .n_first = n_decode,
                                 .first_tile = l.first_tile,
                                 .rest_tile = l.rest_tile,
                                 .rest_at = l.rest_at,
                                 .rounded = hip_rounds_parts(h)};
}

struct prepare_args hip_prepare_args(const struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    return prepare_args_of(h, p, op, &p->linears[op].run[0], rows, n_decode);
}

/* Prepares the input of a run: permutes it, and converts it to the precision that the run's kernels
 * take. producer: as hip_linear() has it, for the first run. */
static void prepare(struct hip *h, const struct be_plan *p, int op, const struct hip_linear_run *r,
                    int rows, int n_decode, int producer)
{
    static const enum hip_kernel by_size[SIZES] = {
        [SIZE_4] = K_prepare_f16_4, [SIZE_11] = K_prepare_f16_11, [SIZE_14] = K_prepare_f16_14};
    static const enum hip_kernel parts[] = {[WEIGHT_F16] = K_prepare_parts_f16,
                                            [WEIGHT_BF16] = K_prepare_parts_bf16,
                                            [WEIGHT_I8] = K_prepare_parts_i8};
    const struct be_linear *w = hip_weight(p, op, r->first);
    struct prepare_args a = prepare_args_of(h, p, op, r, rows, n_decode);
    enum hip_kernel k = K_prepare_f32;
    if (producer >= 0) {
        prepare_produced(h, p, producer, &a, rows, hip_op(p, producer)->last[0] != op);
        return;
    }
    if (r->parts) k = parts[w->kind];
    else if (r->half) k = by_size[hip_size_of(longest_of(&a))];
    hip_launch_rows(h, k, rows, &a, sizeof a);
}

/* Rows row0 .. row0 + rows - 1 by one kernel of the paper's. */
static void launch_paper(struct hip *h, const struct hip_kernel_row *v, const struct be_linear *w,
                         int row0, int rows)
{
    if (!rows) return;
    const struct hip_blocks blocks = {(size_t)((w->stride + v->outputs - 1) / v->outputs),
                                      (size_t)n_tiles(v, rows),
                                      (size_t)((w->k + v->inputs - 1) / v->inputs), 0};
    struct paper_args a = {.weight = w->d_weight,
                           .meta = w->d_meta,
                           .x = (char *)h->d_packed + (size_t)row0 * (size_t)w->k * 2,
                           .scale = h->d_scale + row0,
                           .y = (char *)h->d_sums + (size_t)row0 * (size_t)w->stride * 2,
                           .rows = rows,
                           .k = w->k,
                           .stride = w->stride,
                           .group = w->group_chunks * CHUNK};
    hip_launch(h, id_of(v), blocks, &a, sizeof a);
}

void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows)
{
    const struct hip_kernel_row *v = &hip_kernels[h->pinned];
    int rest = rows % v->rows;
    launch_paper(h, v, w, 0, rows - rest);
    launch_paper(h, v + rest - v->rows, w, rows - rest, rest);
}

/* paper/linear_paper.hip: the rows of both phases together. */
static void run_paper(struct hip *h, const struct be_linear *w, float *d_y, int rows)
{
    struct paper_result_args r = {h->d_sums, w->d_bias, d_y, rows, w->out, w->stride};
    hip_clear(h, h->d_sums, (size_t)rows * (size_t)w->stride * 2);
    hip_launch_paper(h, w, rows);
    hip_launch_elements(h, K_paper_result, (size_t)rows * (size_t)w->out, &r, sizeof r);
}

/* Rows row0 .. row0 + rows - 1 of one phase; their prepared inputs begin at element x0. */
struct phase_rows {
    enum linear_phase phase;
    int row0, rows;
    size_t x0;
};

/* Adds the linears of a run to a launch of hopper/dense_rows.hip. */
static void add_rows_parts(const struct be_plan *p, int op, const struct hip_linear_run *r,
                           struct dense_rows_args *a)
{
    for (int i = r->first; i < r->first + r->n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        a->part[a->n_parts++] = (struct dense_part){w->d_weight, w->d_bias, hip_out(p, op, i),
                                                    w->out, a->n_tiles};
        a->n_tiles += (w->out + PANEL - 1) / PANEL;
    }
}

/* Launches kernel k of hopper/dense_rows.hip. a: with its parts; w: the first one's weights */
static void launch_rows(struct hip *h, enum hip_kernel k, const struct be_linear *w, int rows,
                        struct dense_rows_args *a)
{
    enum { HALF_SHARED = 112 << 10 }; /* with more a multiprocessor takes one block */
    const struct hip_kernel_row *v = &hip_kernels[k];
    unsigned shared = (unsigned)DENSE_ROWS_SHARED(w->n_chunks * CHUNK, F16_PARTS(w->kind),
                                                  DENSE_ROWS_COLUMNS(rows));
    size_t resident = (shared > HALF_SHARED ? 1 : v->blocks) *
                      (size_t)hip_stream_multiprocessors(h->stream),
           tiles = (size_t)a->n_tiles;
    a->x = h->d_packed;
    a->scale = h->d_scale;
    a->n_chunks = w->n_chunks;
    a->rows = rows;
    hip_launch(h, k,
               (struct hip_blocks){tiles < resident ? tiles : resident, (size_t)n_tiles(v, rows), 1,
                                   shared},
               a, sizeof *a);
}

static void launch(struct hip *h, const struct be_plan *p, int op, const struct hip_linear_run *r,
                   const struct phase_rows *of)
{
    if (!of->rows) return;
    const struct hip_kernel_row *v = kernel_of(r, of->phase, of->rows);
    if (of_few_rows(v)) { /* decode rows, which come first */
        struct dense_rows_args few = {.n_parts = 0};
        add_rows_parts(p, op, r, &few);
        launch_rows(h, id_of(v), hip_weight(p, op, r->first), of->rows, &few);
        return;
    }
    struct linear_args a = {
        .x = (char *)h->d_packed + of->x0 * (r->half ? 2 : 4),
        .scale = r->half ? h->d_scale + of->row0 : NULL,
        .n_parts = r->n,
        .rows = of->rows,
        .n_chunks = hip_weight(p, op, r->first)->n_chunks,
        .heads = v->dealt ? h->d_heads : NULL,
    };
    for (int i = 0; i < r->n; i++) {
        const struct be_linear *w = hip_weight(p, op, r->first + i);
        float *y = hip_out(p, op, r->first + i);
        a.part[i] = hip_part_of(w, y + (size_t)of->row0 * (size_t)w->out, a.n_blocks);
        a.n_blocks += (w->out + v->outputs - 1) / v->outputs;
    }
    size_t tiles = (size_t)n_tiles(v, of->rows),
           blocks = (size_t)a.n_blocks * (v->tile ? tiles : 1),
           resident = v->persistent ? v->blocks * (size_t)hip_stream_multiprocessors(h->stream) : 0;
    if (v->in_clusters) blocks *= v->in_clusters;
    else if (resident && resident < blocks) blocks = resident;
    if (v->dealt > 1) blocks *= (size_t)v->dealt;
    if (v->dealt && blocks > DEALT_BLOCKS) blocks = DEALT_BLOCKS;
    hip_launch(h, id_of(v), (struct hip_blocks){blocks, v->tile ? 1 : tiles, 1, 0}, &a, sizeof a);
}

/* The rows of both phases, whose inputs are prepared. */
static void launch_prepared(struct hip *h, const struct be_plan *p, int op,
                            const struct hip_linear_run *r, int rows, int n_decode)
{
    if (r->parts && !r->by_phase) n_decode = rows;
    size_t rest_at = layout_of(r, hip_weight(p, op, r->first), rows, n_decode).rest_at;
    launch(h, p, op, r, &(struct phase_rows){PHASE_DECODE, 0, n_decode, 0});
    launch(h, p, op, r, &(struct phase_rows){PHASE_PREFILL, n_decode, rows - n_decode, rest_at});
}

void hip_linear(struct hip *h, const struct be_plan *p, int op, int producer)
{
    const struct hip_linears *l = &p->linears[op];
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    CHECK(rows <= h->config.max_rows);
    for (int i = 0; i < l->n_runs && rows; i++) {
        const struct hip_linear_run *r = &l->run[i];
        const struct be_linear *w = hip_weight(p, op, r->first);
        if (r->prepares) prepare(h, p, op, r, rows, n_decode, i == 0 ? producer : -1);
        if (w->stride) run_paper(h, w, hip_out(p, op, r->first), rows);
        else launch_prepared(h, p, op, r, rows, n_decode);
    }
}

int hip_linears_share_input(const struct be_plan *p, int a, int b)
{
    const struct hip_linears *l = &p->linears[b];
    return p->linears[a].n_runs == 1 && l->n_runs == 1 && l->run[0].parts &&
           hip_op(p, a)->in[0] == hip_op(p, b)->in[0] &&
           same_input(hip_weight(p, a, 0), hip_weight(p, b, 0));
}

void hip_linear_prepared(struct hip *h, const struct be_plan *p, int op)
{
    const struct hip_linears *l = &p->linears[op];
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    for (int i = 0; i < l->n_runs; i++) launch_prepared(h, p, op, &l->run[i], rows, n_decode);
}

/* Whether one launch of hopper/dense_rows.hip computes the linears of a and of b, all rows. */
static int in_one_launch(const struct hip *h, const struct be_plan *p, int a, int b)
{
    const struct hip_linear_run *first = &p->linears[a].run[0], *second = &p->linears[b].run[0];
    int n_decode, rows = hip_rows(h, p, hip_op(p, a)->in[0], &n_decode);
    if ((first->by_phase && n_decode < rows) || first->n + second->n > DENSE_PARTS) return 0;
    const struct hip_kernel_row *v = kernel_of(first, PHASE_DECODE, rows);
    return of_few_rows(v) && v == kernel_of(second, PHASE_DECODE, rows);
}

void hip_linears_prepared(struct hip *h, const struct be_plan *p, int a, int b)
{
    if (b >= 0 && in_one_launch(h, p, a, b)) {
        const struct hip_linear_run *first = &p->linears[a].run[0];
        int n_decode, rows = hip_rows(h, p, hip_op(p, a)->in[0], &n_decode);
        struct dense_rows_args few = {.n_parts = 0};
        add_rows_parts(p, a, first, &few);
        add_rows_parts(p, b, &p->linears[b].run[0], &few);
        launch_rows(h, id_of(kernel_of(first, PHASE_DECODE, rows)), hip_weight(p, a, 0), rows,
                    &few);
        return;
    }
    hip_linear_prepared(h, p, a);
    if (b < 0) return;
    struct prepare_args is = hip_prepare_args(h, p, a), wanted = hip_prepare_args(h, p, b);
    if (is.first_tile == wanted.first_tile && is.rest_tile == wanted.rest_tile &&
        is.rest_at == wanted.rest_at)
        hip_linear_prepared(h, p, b);
    else hip_linear(h, p, b, -1);
}

int hip_can_linear_produced(const struct be_plan *p, int op)
{
    const struct hip_linears *l = &p->linears[op];
    for (int i = 1; i < l->n_runs; i++)
        if (l->run[i].prepares) return 0; /* a second preparation reads the unprepared input */
    return l->run[0].half && !l->run[0].parts;
}

int hip_n_together(const struct hip *h, const struct be_plan *p, int op, int i)
{
    const struct be_linear *first = hip_weight(p, op, i);
    int n = 1;
    while (i + n < hip_op(p, op)->n && n < MAX_PARTS) {
        const struct be_linear *w = hip_weight(p, op, i + n);
        if (w->stride || !same_input(first, w) || format_of(h, first) != format_of(h, w)) break;
        n++;
    }
    return n;
}

static void compile_run(const struct hip *h, const struct be_plan *p, int op,
                        struct hip_linear_run *r)
{
    const struct be_linear *w[OP_OUTS];
    for (int i = 0; i < r->n; i++) w[i] = hip_weight(p, op, r->first + i);
    r->half = !w[0]->dense && h->config.act == ACT_F16;
    if (w[0]->stride) return; /* the paper's kernel is pinned */
    for (int phase = PHASE_DECODE; phase <= PHASE_PREFILL; phase++)
        for (int c = 0; c < h->n_classes[phase]; c++)
            r->kernel[phase][c] = (uint16_t)choose(h, (enum linear_phase)phase, r->n, w,
                                                   rows_of_class((enum linear_phase)phase, c));
    r->parts = w[0]->dense && w[0]->kind != WEIGHT_F32 && hip_has(h, K_prepare_parts_f16);
    r->by_phase = by_plain_wgmma(h, w[0]);
    if (r->parts) r->half = 1;
}

int hip_compile_linears(struct hip *h, struct be_plan *p, struct err *e)
{
    int n_ops = p->plan->n_ops, n = 0;
    for (int phase = PHASE_DECODE; phase <= PHASE_PREFILL; phase++)
        h->n_classes[phase] = class_of((enum linear_phase)phase, h->config.max_rows) + 1;
    size_t classes = (size_t)(h->n_classes[PHASE_DECODE] + h->n_classes[PHASE_PREFILL]);
    for (int i = 0; i < n_ops; i++)
        if (hip_op(p, i)->kind == OP_LINEAR) n += hip_op(p, i)->n;
    p->linears = calloc((size_t)n_ops, sizeof *p->linears);
    p->kernels = calloc((size_t)n + 1, classes * sizeof *p->kernels);
    if (!p->linears || !p->kernels) return err_memory(e);
    if (hip_is_exact(h)) return 0; /* hip_exact.c */
    uint16_t *at = p->kernels;
    for (int i = 0; i < n_ops; i++) {
        struct hip_linears *l = &p->linears[i];
        if (hip_op(p, i)->kind != OP_LINEAR) continue;
        for (int first = 0, n_linears; first < hip_op(p, i)->n; first += n_linears, at += classes) {
            struct hip_linear_run *r = &l->run[l->n_runs++];
            n_linears = hip_weight(p, i, first)->stride ? 1 : hip_n_together(h, p, i, first);
            *r = (struct hip_linear_run){
                .first = first,
                .n = n_linears,
                .prepares = !first ||
                            !same_input(hip_weight(p, i, first - 1), hip_weight(p, i, first)),
                .kernel = {[PHASE_DECODE] = at, [PHASE_PREFILL] = at + h->n_classes[PHASE_DECODE]}};
            compile_run(h, p, i, r);
        }
    }
    return 0;
}
