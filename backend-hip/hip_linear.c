/* hip_linear.c: which kernel computes a linear, and its launch. The phase of a row, the weights'
 * format and the arithmetic choose the family (the rows of the table below). Within a family the
 * number of rows may choose, because its members give the same bits. */
#include "backend-hip/hip_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of kernels/mma_decode.hip, mma_dense.hip, hopper_decode.hip, wgmma.hip and wgmma_few.hip. */
#define MMA_DECODE_LDS(panels, depth) (4 * (8 * (depth) * (panels) * 384 + 2560))
#define WGMMA_LDS(rows, outputs, stages) ((stages) * (256 * (rows) + 64 * (outputs) + 1024) + 1024)
#define DENSE_MMA_LDS(rows, outputs, parts) (512 * ((outputs) + (rows) * (parts)))
#define FEW_LDS(rows, stages) (WGMMA_LDS(rows, 128, stages) + 4 * (rows) * (128 + 4))
#define HOPPER_DECODE_LDS(tiles, depth) (8 * (4096 * (tiles) + 1088 * (depth)))

#define BLOCKS(name, phase, format, rows, outputs) {name, phase, format, rows, outputs, .inputs = 0}
#define PAPER(name, rows, outputs, of_block)                                                       \
    {name, PHASE_DECODE, FORMAT_PAPER, rows, outputs, .inputs = of_block}
/* groups: of 64 outputs, which a warpgroup computes, and one copies */
#define WGMMA(name, phase, rows, groups, stages, linears, percent)                                 \
    {name,                                                                                         \
     phase,                                                                                        \
     FORMAT_Q4_F16,                                                                                \
     rows,                                                                                         \
     64 * (groups),                                                                                \
     .resident = 1,                                                                                \
     .lds = WGMMA_LDS(rows, 64 * (groups), stages),                                                \
     .tile = rows,                                                                                 \
     .plain = linears,                                                                             \
     .slower = percent,                                                                            \
     .threads = 128 * (groups) + 128}
#define FEW(name, rows, stages)                                                                    \
    {name,                                                                                         \
     PHASE_DECODE,                                                                                 \
     FORMAT_Q4_F16,                                                                                \
     rows,                                                                                         \
     128,                                                                                          \
     .resident = 2,                                                                                \
     .lds = FEW_LDS(rows, stages),                                                                 \
     .tile = rows,                                                                                 \
     .plain = PLAIN_LINEAR,                                                                        \
     .slower = 230,                                                                                \
     .threads = 384,                                                                               \
     .in_clusters = 1}

const struct hip_variant hip_variants[] = {
    {"q4_hopper_decode_8", PHASE_DECODE, FORMAT_Q4_F16, 8, PANEL, .resident = 2,
     .lds = HOPPER_DECODE_LDS(1, 5), .plain = PLAIN_LINEAR},
    {"q4_hopper_decode_any", PHASE_DECODE, FORMAT_Q4_F16, 16, PANEL, .resident = 1,
     .lds = HOPPER_DECODE_LDS(2, 5), .plain = OTHER_LINEAR},
    {"q4_mma_decode_8", PHASE_DECODE, FORMAT_Q4_F16, 8, PANEL, .resident = 3,
     .lds = MMA_DECODE_LDS(1, 4)},
    {"q4_mma_decode_16", PHASE_DECODE, FORMAT_Q4_F16, 16, PANEL, .resident = 2,
     .lds = MMA_DECODE_LDS(1, 4)},
    FEW("q4_wgmma_few_16", 16, 7),
    FEW("q4_wgmma_few_32", 32, 5),
    FEW("q4_wgmma_few_64", 64, 3),
    WGMMA("q4_wgmma_decode_16", PHASE_DECODE, 16, 2, 12, PLAIN_LINEAR, 20),
    WGMMA("q4_wgmma_decode_32", PHASE_DECODE, 32, 2, 10, PLAIN_LINEAR, 20),
    WGMMA("q4_wgmma_decode_64", PHASE_DECODE, 64, 2, 8, PLAIN_LINEAR, 20),
    WGMMA("q4_wgmma_wide_16", PHASE_DECODE, 16, 3, 12, PLAIN_LINEAR, 0),
    WGMMA("q4_wgmma_wide_32", PHASE_DECODE, 32, 3, 9, PLAIN_LINEAR, 0),
    WGMMA("q4_wgmma_wide_64", PHASE_DECODE, 64, 3, 7, PLAIN_LINEAR, 0),
    WGMMA("q4_wgmma_decode_any", PHASE_DECODE, 64, 2, 7, OTHER_LINEAR, 0),
    {"q4_mma_decode_32", PHASE_DECODE, FORMAT_Q4_F16, 32, 2 * PANEL, .resident = 2,
     .lds = MMA_DECODE_LDS(2, 3)},
    {"q4_mma_decode_64", PHASE_DECODE, FORMAT_Q4_F16, 64, 4 * PANEL, .resident = 1,
     .lds = MMA_DECODE_LDS(4, 3)},
    WGMMA("q4_wgmma_prefill_192", PHASE_PREFILL, 128, 3, 4, PLAIN_LINEAR, 0),
    WGMMA("q4_wgmma_prefill_128", PHASE_PREFILL, 128, 2, 5, PLAIN_LINEAR, 15),
    WGMMA("q4_wgmma_prefill_any", PHASE_PREFILL, 128, 2, 5, OTHER_LINEAR, 0),
    BLOCKS("q4_mma_prefill", PHASE_PREFILL, FORMAT_Q4_F16, 128, 128),
    BLOCKS("q4_mfma_prefill", PHASE_PREFILL, FORMAT_Q4_F16, 64, 128),
    BLOCKS("q4_wmma_prefill", PHASE_PREFILL, FORMAT_Q4_F16, 64, 128),
    BLOCKS("q4_wmma12_prefill", PHASE_PREFILL, FORMAT_Q4_F16, 64, 128),
    BLOCKS("q4_decode_f16_1", PHASE_DECODE, FORMAT_Q4_F16, 1, PANEL),
    BLOCKS("q4_decode_f16_2", PHASE_DECODE, FORMAT_Q4_F16, 2, PANEL),
    BLOCKS("q4_decode_f16_4", PHASE_DECODE, FORMAT_Q4_F16, 4, PANEL),
    BLOCKS("q4_decode_f16_8", PHASE_DECODE, FORMAT_Q4_F16, 8, PANEL),
    BLOCKS("q4_decode_f32_1", PHASE_DECODE, FORMAT_Q4_F32, 1, PANEL),
    BLOCKS("q4_decode_f32_4", PHASE_DECODE, FORMAT_Q4_F32, 4, PANEL),
    {"dense_mma_f16_16", PHASE_BOTH, FORMAT_F16, 16, 128, .lds = DENSE_MMA_LDS(16, 128, 2)},
    {"dense_mma_f16_32", PHASE_BOTH, FORMAT_F16, 32, 256, .lds = DENSE_MMA_LDS(32, 256, 2)},
    {"dense_mma_f16_64", PHASE_BOTH, FORMAT_F16, 64, 256, .lds = DENSE_MMA_LDS(64, 256, 2)},
    {"dense_mma_bf16_16", PHASE_BOTH, FORMAT_BF16, 16, 128, .lds = DENSE_MMA_LDS(16, 128, 3)},
    {"dense_mma_bf16_32", PHASE_BOTH, FORMAT_BF16, 32, 256, .lds = DENSE_MMA_LDS(32, 256, 3)},
    {"dense_mma_bf16_64", PHASE_BOTH, FORMAT_BF16, 64, 256, .lds = DENSE_MMA_LDS(64, 256, 3)},
    BLOCKS("dense_decode_f16_1", PHASE_DECODE, FORMAT_F16, 1, PANEL),
    BLOCKS("dense_decode_f16_4", PHASE_DECODE, FORMAT_F16, 4, PANEL),
    BLOCKS("dense_decode_f16_8", PHASE_DECODE, FORMAT_F16, 8, PANEL),
    BLOCKS("dense_decode_bf16_1", PHASE_DECODE, FORMAT_BF16, 1, PANEL),
    BLOCKS("dense_decode_bf16_4", PHASE_DECODE, FORMAT_BF16, 4, PANEL),
    BLOCKS("dense_decode_bf16_8", PHASE_DECODE, FORMAT_BF16, 8, PANEL),
    BLOCKS("dense_decode_f32_1", PHASE_DECODE, FORMAT_F32, 1, PANEL),
    BLOCKS("dense_decode_f32_4", PHASE_DECODE, FORMAT_F32, 4, PANEL),
    BLOCKS("dense_decode_f32_8", PHASE_DECODE, FORMAT_F32, 8, PANEL),
    BLOCKS("q4_prefill_f16", PHASE_PREFILL, FORMAT_Q4_F16, 128, 64),
    BLOCKS("q4_prefill_f32", PHASE_PREFILL, FORMAT_Q4_F32, 64, 64),
    BLOCKS("dense_prefill_f16", PHASE_PREFILL, FORMAT_F16, 64, 64),
    BLOCKS("dense_prefill_bf16", PHASE_PREFILL, FORMAT_BF16, 64, 64),
    BLOCKS("dense_prefill_f32", PHASE_PREFILL, FORMAT_F32, 64, 64),
    PAPER("paper_base_1", 1, 512, 128),
    PAPER("paper_base_8", 8, 512, 128),
    PAPER("paper_smb_1", 1, 128, 512),
    PAPER("paper_smb_8", 8, 128, 512),
    PAPER("paper_vml_1", 1, 512, 128),
    PAPER("paper_vml_8", 8, 512, 128),
    PAPER("paper_ila_literal_1", 1, 512, 128),
    PAPER("paper_ila_literal_8", 8, 512, 128),
    PAPER("paper_ila_packed_1", 1, 512, 128),
    PAPER("paper_ila_packed_8", 8, 512, 128),
    PAPER("paper_all_literal_1", 1, 128, 512),
    PAPER("paper_all_literal_8", 8, 128, 512),
    PAPER("paper_all_packed_1", 1, 128, 512),
    PAPER("paper_all_packed_8", 8, 128, 512),
    {0},
};

const char *hip_variant_name(int i)
{
    if (i == 0) return "auto";
    return hip_variants[i - 1].name && hip_variants[i - 1].format != FORMAT_PAPER
               ? hip_variants[i - 1].name
               : NULL;
}

const char *hip_paper_variant_name(int i)
{
    const struct hip_variant *v = hip_variants;
    while (v->name && v->format != FORMAT_PAPER) v++;
    return v[i].name;
}

int hip_find_variant(const char *name, const struct hip_variant **v, struct err *e)
{
    char names[800] = "auto";
    *v = NULL;
    if (!name || !strcmp(name, "auto")) return 0;
    for (const struct hip_variant *i = hip_variants; i->name; i++) {
        if (!strcmp(i->name, name)) {
            *v = i;
            return 0;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", i->name);
    }
    return err_set(e, "--variant %s: unknown; there are %s", name, names);
}

void hip_print_variants(const struct be *be, FILE *f)
{
    static const char *const format[] = {"4-bit, f16", "4-bit, f32", "f16",
                                         "bf16",       "f32",        "4-bit, f16"};
    const struct hip *h = (const struct hip *)be;
    if (h->kernel[K_ONE_NORM] && !h->pinned)
        fprintf(f, "kernel: %-20s %-10s %-9s a single row, with the operations around it\n",
                "q4_one", format[FORMAT_Q4_F16], "generated");
    for (const struct hip_variant *v = hip_variants; v->name; v++)
        if ((v->format == FORMAT_PAPER) == hip_runs_paper(h) &&
            (!hip_runs_paper(h) || v == h->pinned) && h->variant[v - hip_variants])
            fprintf(f, "kernel: %-20s %-10s %-9s blocks of %d row%s x %d outputs%s\n", v->name,
                    format[v->format],
                    v->format == FORMAT_PAPER || v->phase == PHASE_BOTH ? "all rows"
                    : v->phase == PHASE_DECODE                          ? "generated"
                                                                        : "prompt",
                    v->rows, v->rows == 1 ? "" : "s", v->outputs, v == h->pinned ? ", pinned" : "");
}

static enum hip_format format_of(const struct hip *h, const struct be_linear *w)
{
    static const enum hip_format dense[] = {
        [WEIGHT_F16] = FORMAT_F16, [WEIGHT_BF16] = FORMAT_BF16, [WEIGHT_F32] = FORMAT_F32};
    if (w->dense) return dense[w->kind];
    return h->config.act == ACT_F16 ? FORMAT_Q4_F16 : FORMAT_Q4_F32;
}

static int applies(const struct hip *h, const struct hip_variant *v, enum hip_phase phase,
                   const struct be_linear *w)
{
    return (v->phase == phase || v->phase == PHASE_BOTH) && v->format == format_of(h, w) &&
           h->variant[v - hip_variants] &&
           (!v->plain || (v->plain == PLAIN_LINEAR) == hip_is_plain(w)) &&
           (!v->tile || w->d_maps) && (!v->in_clusters || hip_stream_has_clusters(h->stream));
}

static int n_tiles(const struct hip_variant *v, int rows) { return (rows + v->rows - 1) / v->rows; }

/* What a multiprocessor computes one after the other, outputs x rows. */
static double time_of(const struct hip *h, const struct hip_variant *v, int outputs, int rows)
{
    double units = v->resident ? v->resident * hip_stream_units(h->stream) : 1,
           together = v->in_clusters ? CLUSTER : 1;
    double rounds = ceil((double)((outputs + v->outputs - 1) / v->outputs) * n_tiles(v, rows) *
                         together / units);
    return rounds * v->outputs / together * v->rows * (100 + v->slower);
}

/* For n linears that are alike: the pinned row where it can do this. Else of those for generated
 * tokens those of the fewest rows that hold all of them, or those of the most; of these and of
 * those for prompts the one that is done first. */
static const struct hip_variant *choose(struct hip *h, enum hip_phase phase, int n,
                                        const struct be_linear *const w[], int rows)
{
    const struct hip_variant *best = NULL;
    int outputs = 0;
    if (h->pinned && applies(h, h->pinned, phase, w[0])) return h->pinned;
    for (int i = 0; i < n; i++) outputs += w[i]->out;
    const struct hip_choice key = {
        phase, format_of(h, w[0]), hip_is_plain(w[0]), w[0]->d_maps != NULL, outputs, rows, NULL};
    struct hip_choice *known = &h->choice[(unsigned)(key.outputs / 64 + key.rows * 37 +
                                                     (int)phase * 19 + (int)key.format * 5) %
                                          CHOICES];
    if (known->variant && known->phase == phase && known->format == key.format &&
        known->plain == key.plain && known->mapped == key.mapped && known->outputs == outputs &&
        known->rows == rows)
        return known->variant;
    for (const struct hip_variant *v = hip_variants; v->name; v++) {
        if (!applies(h, v, phase, w[0])) continue;
        if (!best) best = v;
        else if (phase == PHASE_DECODE && v->rows != best->rows)
            best = best->rows < rows && v->rows > best->rows ? v : best;
        else if (time_of(h, v, outputs, rows) < time_of(h, best, outputs, rows)) best = v;
    }
    CHECK(best);
    *known = key;
    known->variant = best;
    return best;
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

/* Whether kernels/hopper_rows.hip prepares the rows together with k: all of them generated, a
 * multiprocessor for each. */
static int takes_wide(const struct hip *h, enum hip_kernel k, const struct prepare_args *a,
                      int rows)
{
    int pieces = k == K_NORM ? SOME_PIECES : k == K_MERGE ? MERGE_DIMS / PIECE : ROW_PIECES;
    return h->kernel[K_NORM_WIDE] && rows == a->n_first && rows <= hip_stream_units(h->stream) &&
           longest_of(a) <= pieces * PIECE && a->in % 4 == 0 && a->k % 4 == 0 &&
           (a->order || !a->perm);
}

/* The operation that waits and the preparation of its result. */
static void prepare_pending(struct hip *h, const struct prepare_args *a, int rows, int keep)
{
    struct hip_pending *p = &h->pending;
    enum hip_kernel k = p->kernel;
    int longest = longest_of(a), more = longest > FEW_PIECES * PIECE,
        wide = takes_wide(h, k, a, rows);
    unsigned threads = wide ? WIDE_THREADS : BLOCK_THREADS;
    p->kernel = K_COUNT;
    /* the kernel itself reads it back */
    if (longest > ROW_PIECES * PIECE || a->in % 4 || a->k % 4 ||
        (k == K_GLU && !wide && (a->perm || a->stride != a->in)))
        keep = 1;
    if (k == K_NORM) {
        struct norm_prepare_args both = {p->norm, *a};
        if (!keep) both.norm.out = NULL;
        k = hip_by_row(K_NORM_PREPARE, longest);
        if (wide) k = K_NORM_WIDE + more;
        hip_launch_rows(h, k, rows, threads, 0, &both, sizeof both);
    } else if (k == K_GLU) {
        struct glu_prepare_args both = {p->glu, *a, keep};
        both.glu.n = (size_t)p->dim;
        int spread = a->first_tile && rows == a->n_first && rows <= hip_stream_units(h->stream) / 2;
        k = wide ? K_GLU_WIDE : hip_by_row(K_GLU_PREPARE, longest);
        hip_launch_rows(h, k, rows, threads,
                        !spread ? 0
                        : wide  ? WIDE_SPREAD_LDS
                                : SPREAD_LDS,
                        &both, sizeof both);
    } else {
        struct merge_prepare_args both = {p->merge, *a};
        k = a->order ? K_MERGE_PREPARE_ORDERED : K_MERGE_PREPARE;
        if (wide) k = K_MERGE_WIDE + (more || h->n_spans > FEW_SPANS);
        hip_launch_rows(h, k, rows, threads, 0, &both, sizeof both);
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
    enum hip_kernel k = p->kernel;
    if (k == K_MERGE && !hip_merges_whole_rows(h)) hip_settle(h), k = K_COUNT;
    if (half && (k == K_NORM || k == K_GLU || k == K_MERGE) && p->out == d_x && p->rows == rows &&
        p->dim == w->in) {
        prepare_pending(h, &a, rows, keep);
        return;
    }
    hip_settle(h);
    if (takes_parts(h, w)) k = w->kind == WEIGHT_F16 ? K_PREPARE_PARTS_F16 : K_PREPARE_PARTS_BF16;
    else k = half ? hip_by_row(K_PREPARE_F16, longest_of(&a)) : K_PREPARE_F32;
    hip_launch_kernel(h, k, (size_t)rows, 1, &a, sizeof a);
}

void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows)
{
    const struct hip_variant *v = h->pinned;
    const unsigned grid[3] = {(unsigned)((w->stride + v->outputs - 1) / v->outputs),
                              (unsigned)((rows + v->rows - 1) / v->rows),
                              (unsigned)((w->k + v->inputs - 1) / v->inputs)};
    struct paper_args a = {.weight = w->d_weight,
                           .meta = w->d_meta,
                           .x = h->d_packed,
                           .scale = h->d_scale,
                           .y = h->d_sums,
                           .rows = rows,
                           .k = w->k,
                           .stride = w->stride,
                           .group = w->group_chunks * CHUNK};
    hip_launch(h, h->variant[v - hip_variants], v->name, grid, PAPER_BLOCK_THREADS, 0, &a,
               sizeof a);
}

/* kernels/paper.hip: all rows, whatever their phase. */
static void run_paper(struct hip *h, const struct be_linear *w, float *d_y, int rows)
{
    struct paper_result_args r = {h->d_sums, w->d_bias, d_y, rows, w->out, w->stride};
    hip_clear(h, h->d_sums, (size_t)rows * (size_t)w->stride * 2);
    hip_launch_paper(h, w, rows);
    hip_launch_kernel(h, K_PAPER_RESULT,
                      ((size_t)rows * (size_t)w->out + BLOCK_THREADS - 1) / BLOCK_THREADS, 1, &r,
                      sizeof r);
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
                            .wide_meta = w->wide_meta,
                            .whole_items = w->group_chunks % 4 == 0};
    if (!w->dense)
        p.group_magic =
            (unsigned)(((1u << 31) + (unsigned)w->group_chunks - 1) / (unsigned)w->group_chunks);
    return p;
}

/* `rows` rows of one phase from row0 on, through n linears that read the same inputs, prepared in
 * tiles of `tile` from element x0 on. */
static void run(struct hip *h, int n, const struct be_linear *const w[], float *const d_y[],
                enum hip_phase phase, size_t x0, int tile, int row0, int rows, int half)
{
    if (!rows) return;
    const struct hip_variant *v = choose(h, phase, n, w, rows);
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
    unsigned tiles = (unsigned)n_tiles(v, rows),
             blocks = (unsigned)a.n_blocks * (v->tile ? tiles : 1);
    unsigned resident = (unsigned)(v->resident * hip_stream_units(h->stream));
    unsigned cluster = v->in_clusters ? CLUSTER : 1;
    const unsigned grid[3] = {cluster > 1                     ? blocks * cluster
                              : resident && resident < blocks ? resident
                                                              : blocks,
                              v->tile ? 1 : tiles, 1};
    hip_launch_clusters(h, h->variant[v - hip_variants], v->name, grid,
                        v->threads ? v->threads : BLOCK_THREADS, v->lds, cluster, &a, sizeof a);
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
