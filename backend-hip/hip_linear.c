/* hip_linear.c: which kernel computes a linear, and its launch. The phase of a row, the weights'
 * format and the arithmetic choose the family (the rows of the table below). Within a family the
 * number of rows may choose, because its members give the same bits. */
#include "backend-hip/hip_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void hip_print_variants(const struct be *be, FILE *f)
{
    static const char *const format[] = {"4-bit, f16", "4-bit, f32", "f16",
                                         "bf16",       "f32",        "4-bit, f16"};
    const struct hip *h = (const struct hip *)be;
    if (hip_has(h, K_q4_one_norm) && h->pinned < 0)
        fprintf(f, "kernel: %-20s %-10s %-9s a single row, with the operations around it\n",
                "q4_one", format[FORMAT_Q4_F16], "generated");
    for (int k = 0; k < K_COUNT; k++) {
        const struct hip_kernel_row *v = &hip_kernels[k];
        if (!v->rows || !hip_has(h, (enum hip_kernel)k) ||
            (hip_runs_paper(h) ? k != h->pinned : v->op == OP_PAPER))
            continue;
        fprintf(f, "kernel: %-20s %-10s %-9s blocks of %d row%s x %d outputs%s\n", v->name,
                format[v->format],
                v->format == FORMAT_PAPER || v->phase == PHASE_BOTH ? "all rows"
                : v->phase == PHASE_DECODE                          ? "generated"
                                                                    : "prompt",
                v->rows, v->rows == 1 ? "" : "s", v->outputs, k == h->pinned ? ", pinned" : "");
    }
}

static enum linear_format format_of(const struct hip *h, const struct be_linear *w)
{
    static const enum linear_format dense[] = {
        [WEIGHT_F16] = FORMAT_F16, [WEIGHT_BF16] = FORMAT_BF16, [WEIGHT_F32] = FORMAT_F32};
    if (w->dense) return dense[w->kind];
    return h->config.act == ACT_F16 ? FORMAT_Q4_F16 : FORMAT_Q4_F32;
}

static int applies(const struct hip *h, enum hip_kernel k, enum linear_phase phase,
                   const struct be_linear *w)
{
    const struct hip_kernel_row *v = &hip_kernels[k];
    return v->rows && (v->phase == phase || v->phase == PHASE_BOTH) &&
           v->format == format_of(h, w) && hip_has(h, k) &&
           (!v->linears || (v->linears == PLAIN_LINEAR) == hip_is_plain(w)) &&
           (!v->tile || w->d_maps) && (!v->in_clusters || hip_stream_has_clusters(h->stream));
}

static int n_tiles(const struct hip_kernel_row *v, int rows)
{
    return (rows + v->rows - 1) / v->rows;
}

/* What a multiprocessor computes one after the other, outputs x rows. */
static double time_of(const struct hip *h, const struct hip_kernel_row *v, int outputs, int rows)
{
    double units = v->persistent ? (double)v->blocks * hip_stream_units(h->stream) : 1,
           together = v->in_clusters ? CLUSTER : 1;
    double rounds = ceil((double)((outputs + v->outputs - 1) / v->outputs) * n_tiles(v, rows) *
                         together / units);
    return rounds * v->outputs / together * v->rows * (100 + v->slower);
}

/* Of two kernels that apply, whether a is to run and not b. For generated rows the one of the
 * fewest rows that holds all of them, or of the most; else the one that is done first. */
static int better(const struct hip *h, enum linear_phase phase, const struct hip_kernel_row *a,
                  const struct hip_kernel_row *b, int outputs, int rows)
{
    if (phase == PHASE_DECODE && a->rows != b->rows)
        return b->rows < rows ? a->rows > b->rows : a->rows >= rows && a->rows < b->rows;
    return time_of(h, a, outputs, rows) < time_of(h, b, outputs, rows);
}

/* For n linears that are alike: the pinned kernel where it applies, else the best one, the first in
 * the list where several are. */
static const struct hip_kernel_row *choose(struct hip *h, enum linear_phase phase, int n,
                                           const struct be_linear *const w[], int rows)
{
    int outputs = 0, best = -1;
    if (h->pinned >= 0 && applies(h, (enum hip_kernel)h->pinned, phase, w[0]))
        return &hip_kernels[h->pinned];
    for (int i = 0; i < n; i++) outputs += w[i]->out;
    struct hip_choice key = {.phase = phase,
                             .format = format_of(h, w[0]),
                             .plain = hip_is_plain(w[0]),
                             .mapped = w[0]->d_maps != NULL,
                             .outputs = outputs,
                             .rows = rows,
                             .known = 1};
    struct hip_choice *known = &h->choice[(unsigned)(key.outputs / 64 + key.rows * 37 +
                                                     (int)phase * 19 + (int)key.format * 5) %
                                          CHOICES];
    if (known->known && known->phase == phase && known->format == key.format &&
        known->plain == key.plain && known->mapped == key.mapped && known->outputs == outputs &&
        known->rows == rows)
        return &hip_kernels[known->kernel];
    for (int k = 0; k < K_COUNT; k++)
        if (applies(h, (enum hip_kernel)k, phase, w[0]) &&
            (best < 0 ||
             better(h, phase, &hip_kernels[k], &hip_kernels[best], outputs, rows)))
            best = k;
    CHECK(best >= 0);
    key.kernel = (enum hip_kernel)best;
    *known = key;
    return &hip_kernels[best];
}

static enum hip_kernel id_of(const struct hip_kernel_row *v)
{
    return (enum hip_kernel)(v - hip_kernels);
}

/* 1 when the two read the same prepared inputs. */
static int same_input(const struct be_linear *a, const struct be_linear *b)
{
    return a->dense == b->dense && (!a->dense || a->kind == b->kind) && a->perm == b->perm &&
           a->k == b->k && hip_is_plain(a) == hip_is_plain(b);
}

static int all_alike(int n, const struct be_linear *const w[])
{
    for (int i = 1; i < n; i++)
        if (!same_input(w[i - 1], w[i])) return 0;
    return 1;
}

/* How the prepared rows of both phases lie; where those of prompts begin, in elements. */
struct layout {
    int first_tile, rest_tile;
    size_t rest_at;
};

static struct layout layout_of(struct hip *h, const struct be_linear *w, int rows, int n_decode)
{
    struct layout l = {0};
    int n_first = n_decode;
    if (!w->stride && n_decode) l.first_tile = choose(h, PHASE_DECODE, 1, &w, n_decode)->tile;
    if (!w->stride && rows > n_decode)
        l.rest_tile = choose(h, PHASE_PREFILL, 1, &w, rows - n_decode)->tile;
    if (l.first_tile) n_first = (n_decode + l.first_tile - 1) / l.first_tile * l.first_tile;
    l.rest_at = (size_t)n_first * (size_t)w->n_chunks * CHUNK;
    return l;
}

/* 1 when the linear's kernels take activations in parts. */
static int takes_parts(struct hip *h, const struct be_linear *w)
{
    return w->dense && choose(h, PHASE_DECODE, 1, &w, 1)->phase == PHASE_BOTH;
}

/* Of a row before and after it is prepared. */
static int longest_of(const struct prepare_args *a)
{
    return a->stride > a->in ? a->stride : a->in;
}

/* Whether kernels/vector_1024.hip prepares the rows together with k: all of them generated, a
 * multiprocessor for each. */
static int takes_wide(const struct hip *h, enum hip_kernel k, const struct prepare_args *a,
                      int rows)
{
    int pieces = k == K_norm_rows ? SOME_PIECES : k == K_attend_merge ? MERGE_PIECES : ROW_PIECES;
    return hip_has(h, K_norm_wide_4) && rows == a->n_first && rows <= hip_stream_units(h->stream) &&
           longest_of(a) <= pieces * PIECE && a->in % 4 == 0 && a->k % 4 == 0 &&
           (a->order || !a->perm);
}

/* The operation that waits and the preparation of its result. */
static void prepare_pending(struct hip *h, const struct prepare_args *a, int rows, int keep)
{
    static const enum hip_kernel
        norm[SIZES] = {[SIZE_4] = K_norm_prepare_4,
                       [SIZE_11] = K_norm_prepare_11,
                       [SIZE_14] = K_norm_prepare_14},
        glu[SIZES] = {[SIZE_4] = K_glu_prepare_4,
                      [SIZE_11] = K_glu_prepare_11,
                      [SIZE_14] = K_glu_prepare_14};
    struct hip_pending *p = &h->pending;
    enum hip_kernel k = p->kernel;
    int longest = longest_of(a), wide = takes_wide(h, k, a, rows);
    enum hip_size size = hip_size_of(longest);
    p->kernel = K_COUNT;
    /* the kernel itself reads it back */
    if (longest > ROW_PIECES * PIECE || a->in % 4 || a->k % 4 ||
        (k == K_glu && !wide && (a->perm || a->stride != a->in)))
        keep = 1;
    if (k == K_norm_rows) {
        struct norm_prepare_args both = {p->norm, *a};
        if (!keep) both.norm.out = NULL;
        k = !wide ? norm[size] : size == SIZE_4 ? K_norm_wide_4 : K_norm_wide_11;
        hip_launch_rows(h, k, rows, &both, sizeof both);
    } else if (k == K_glu) {
        struct glu_prepare_args both = {p->glu, *a, keep};
        both.glu.n = (size_t)p->dim;
        int spread = a->first_tile && rows == a->n_first && rows <= hip_stream_units(h->stream) / 2;
        hip_launch(h, wide ? K_glu_wide_14 : glu[size],
                   (struct hip_blocks){(size_t)rows, 1, 1, spread}, &both, sizeof both);
    } else {
        struct merge_prepare_args both = {p->merge, *a};
        k = a->order ? K_merge_prepare_ordered : K_merge_prepare;
        if (wide)
            k = size == SIZE_4 && h->n_spans <= FEW_SPANS ? K_merge_wide_4 : K_merge_wide_8;
        hip_launch_rows(h, k, rows, &both, sizeof both);
    }
}

/* Brings the input into the order and the precision that the kernels take; together with the
 * operation that makes it, where that still waits. keep: another linear will read d_x, too. */
static void prepare(struct hip *h, const struct be_linear *w, const float *d_x, int rows,
                    int n_decode, int half, int keep)
{
    struct hip_pending *p = &h->pending;
    struct layout l = layout_of(h, w, rows, n_decode);
    struct prepare_args a = {.x = d_x,
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
                             .rest_at = l.rest_at};
    static const enum hip_kernel by_size[SIZES] = {[SIZE_4] = K_prepare_f16_4,
                                                   [SIZE_11] = K_prepare_f16_11,
                                                   [SIZE_14] = K_prepare_f16_14};
    enum hip_kernel k = p->kernel;
    if (k == K_attend_merge && !hip_merges_whole_rows(h)) hip_settle(h), k = K_COUNT;
    if (half && (k == K_norm_rows || k == K_glu || k == K_attend_merge) && p->out == d_x &&
        p->rows == rows && p->dim == w->in) {
        prepare_pending(h, &a, rows, keep);
        return;
    }
    hip_settle(h);
    if (takes_parts(h, w)) k = w->kind == WEIGHT_F16 ? K_prepare_parts_f16 : K_prepare_parts_bf16;
    else k = half ? by_size[hip_size_of(longest_of(&a))] : K_prepare_f32;
    hip_launch_rows(h, k, rows, &a, sizeof a);
}

void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows)
{
    const struct hip_kernel_row *v = &hip_kernels[h->pinned];
    const struct hip_blocks blocks = {(size_t)((w->stride + v->outputs - 1) / v->outputs),
                                      (size_t)n_tiles(v, rows),
                                      (size_t)((w->k + v->inputs - 1) / v->inputs), 0};
    struct paper_args a = {.weight = w->d_weight,
                           .meta = w->d_meta,
                           .x = h->d_packed,
                           .scale = h->d_scale,
                           .y = h->d_sums,
                           .rows = rows,
                           .k = w->k,
                           .stride = w->stride,
                           .group = w->group_chunks * CHUNK};
    hip_launch(h, id_of(v), blocks, &a, sizeof a);
}

/* kernels/linear_paper.hip: all rows, whatever their phase. */
static void run_paper(struct hip *h, const struct be_linear *w, float *d_y, int rows)
{
    struct paper_result_args r = {h->d_sums, w->d_bias, d_y, rows, w->out, w->stride};
    hip_clear(h, h->d_sums, (size_t)rows * (size_t)w->stride * 2);
    hip_launch_paper(h, w, rows);
    hip_launch_elements(h, K_paper_result, (size_t)rows * (size_t)w->out, &r, sizeof r);
}

struct linear_part hip_part_of(const struct be_linear *w, float *d_y, int first)
{
    struct linear_part p = {.weight = w->d_weight,
                            .meta = w->d_meta,
                            .bias = w->d_bias,
                            .maps = w->d_maps,
                            .y = d_y,
                            .out = w->out,
                            .first = first,
                            .group_chunks = w->group_chunks,
                            .group_shift = w->group_shift,
                            .last_group = w->n_groups - 1,
                            .scale_f32 = w->scale_f32,
                            .whole_items = w->group_chunks % 4 == 0};
    if (!w->dense)
        p.group_magic =
            (unsigned)(((1u << 31) + (unsigned)w->group_chunks - 1) / (unsigned)w->group_chunks);
    return p;
}

/* `rows` rows of one phase from row0 on, through n linears that read the same inputs, prepared in
 * tiles of `tile` from element x0 on. */
static void run(struct hip *h, int n, const struct be_linear *const w[], float *const d_y[],
                enum linear_phase phase, size_t x0, int tile, int row0, int rows, int half)
{
    if (!rows) return;
    const struct hip_kernel_row *v = choose(h, phase, n, w, rows);
    CHECK(v->tile == tile);
    struct linear_args a = {
        .x = (char *)h->d_packed + x0 * (half ? 2 : 4),
        .scale = half ? h->d_scale + row0 : NULL,
        .n_parts = n,
        .rows = rows,
        .n_chunks = w[0]->n_chunks,
    };
    for (int i = 0; i < n; i++) {
        a.part[i] = hip_part_of(w[i], d_y[i] + (size_t)row0 * (size_t)w[i]->out, a.n_blocks);
        a.n_blocks += (w[i]->out + v->outputs - 1) / v->outputs;
    }
    size_t tiles = (size_t)n_tiles(v, rows), blocks = (size_t)a.n_blocks * (v->tile ? tiles : 1),
           resident = v->persistent ? v->blocks * (size_t)hip_stream_units(h->stream) : 0;
    if (v->in_clusters) blocks *= CLUSTER;
    else if (resident && resident < blocks) blocks = resident;
    hip_launch(h, id_of(v), (struct hip_blocks){blocks, v->tile ? 1 : tiles, 1, 0}, &a, sizeof a);
}

/* As many of w[0..n) as one launch can take. */
static int n_together(const struct hip *h, int n, const struct be_linear *const w[])
{
    int i = 1;
    while (i < n && i < MAX_PARTS && !w[i]->stride && same_input(w[0], w[i]) &&
           format_of(h, w[0]) == format_of(h, w[i]))
        i++;
    return i;
}

void hip_linear(struct be *be, int n, const struct be_linear *const w[], const float *d_x,
                float *const d_y[], int rows, int n_decode)
{
    struct hip *h = (struct hip *)be;
    CHECK(rows <= h->config.max_rows);
    if (rows == 1 && n_decode == 1 && hip_one_linear(h, n, w, d_x, d_y)) return;
    for (int i = 0, some; i < n; i += some) {
        int half = !w[i]->dense && h->config.act == ACT_F16;
        if (i == 0 || !same_input(w[i - 1], w[i]))
            prepare(h, w[i], d_x, rows, n_decode, half, !all_alike(n, w));
        some = 1;
        if (w[i]->stride) {
            run_paper(h, w[i], d_y[i], rows);
            continue;
        }
        some = n_together(h, n - i, w + i);
        if (takes_parts(h, w[i])) {
            run(h, some, w + i, d_y + i, PHASE_DECODE, 0, 0, 0, rows, 1);
            continue;
        }
        struct layout l = layout_of(h, w[i], rows, n_decode);
        run(h, some, w + i, d_y + i, PHASE_DECODE, 0, l.first_tile, 0, n_decode, half);
        run(h, some, w + i, d_y + i, PHASE_PREFILL, l.rest_at, l.rest_tile, n_decode,
            rows - n_decode, half);
    }
}
