/* hip_exact.c: launches of the operations in the CPU's order (kernels/common/exact_*.hip), for
 * --act i16 and int8. The bits of a row do not depend on phase or number of rows, so the number
 * chooses among kernels. Must not know: the other arithmetics. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_exact.h"
#include "backend-hip/hip_experts.h"

void hip_exact_angles(struct hip *h, const struct be_plan *p, int op)
{
    struct angles_args a = hip_angles_args(h, p, op);
    hip_launch_elements(h, K_exact_angles, (size_t)a.rows * (size_t)a.half, &a, sizeof a);
}

static struct exact_norm_args norm_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int groups = o->as.norm.groups > 1 ? o->as.norm.groups : 1;
    struct exact_norm_args a = {hip_norm_args(h, p, op), hip_vector(p, op, 1), groups,
                                o->as.norm.centered, o->as.norm.own};
    a.norm.dim /= groups;
    return a;
}

void hip_exact_norm(struct hip *h, const struct be_plan *p, int op)
{
    struct exact_norm_args a = norm_args(h, p, op);
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    hip_launch_rows(h, K_exact_norm, rows * a.groups, &a, sizeof a);
}

static struct exact_groups groups_of(const struct be_linear *w)
{
    struct exact_groups g = {.group_chunks = w->group_chunks,
                             .each = (w->group_chunks + 3) / 4,
                             .n_chunks = w->k / CHUNK,
                             .pairs = w->pairs};
    int whole = g.n_chunks / g.group_chunks, rest = g.n_chunks % g.group_chunks;
    g.n = whole * g.each + (rest + 3) / 4;
    return g;
}

/* Digits, scales and sums of `rows` rows at d. */
static struct exact_digits digits_at(const struct hip *h, void *d, const struct be_linear *w,
                                     size_t rows)
{
    struct exact_digits x = {.digit = d,
                             .stride = (w->k / CHUNK + 3) / 4 * 4 * CHUNK,
                             .digits = act_formats[h->config.act].digits,
                             .rows = (int)rows,
                             .low = w->low_groups * groups_of(w).each};
    x.scaled = (struct exact_scaled *)((char *)d + rows * (size_t)(x.stride * x.digits));
    return x;
}

static int same_digits(const struct be_linear *a, const struct be_linear *b)
{
    return a->dense == b->dense && (!a->dense || a->kind == b->kind) && a->perm == b->perm &&
           a->k == b->k &&
           (a->dense || (a->group_chunks == b->group_chunks && a->pairs == b->pairs &&
                         a->low_groups == b->low_groups));
}

/* Whether one launch computes all linears of an operation, and so one quantization its input. */
static int quantizes_once(const struct be_plan *p, int op)
{
    const struct op *linear = hip_op(p, op);
    for (int i = 0; i < linear->n; i++)
        if (hip_weight(p, op, i)->dense ||
            !same_digits(hip_weight(p, op, 0), hip_weight(p, op, i)))
            return 0;
    return linear->n <= MAX_PARTS;
}

/* Rows of a launch of linears or stacks, and the rows of its input; experts: slots. */
struct exact_rows {
    int rows, inputs;
    const int *expert; /* of slots, or NULL */
    int top_k;         /* slot i reads input i / top_k */
    int single;        /* all slots are of one row */
    void *d_digits;
    int producer; /* operation in the launch that quantizes: OP_NORM, OP_GLU; -1: none */
};

/* Quantizes the rows, in the launch of their producer if there is one. */
static void quantize(struct hip *h, const struct be_plan *p, const struct exact_quantize_args *q,
                     size_t rows, int producer)
{
    size_t of_block = THREADS / (q->to.tile ? 8 : 16);
    const struct hip_blocks blocks = {rows, ((size_t)q->groups.n + of_block - 1) / of_block, 1, 0};
    struct exact_quantize_args a = *q;
    if (producer >= 0 && hip_op(p, producer)->kind == OP_NORM) {
        struct exact_norm_quantize_args both = {norm_args(h, p, producer), a};
        if (hip_op(p, producer)->last[0] == producer + 1 && quantizes_once(p, producer + 1) &&
            !both.norm.centered && EXACT_NORM_IN_SPAN(both.norm.norm.dim))
            both.norm.norm.out = NULL;
        hip_launch_rows(h, a.to.tile ? K_exact_norm_tiles : K_exact_norm_quantize, (int)rows, &both,
                        sizeof both);
        return;
    }
    if (producer >= 0) {
        a.glu = hip_glu_args(h, p, producer);
        a.x = a.glu.gate;
    }
    hip_launch(h, a.to.tile ? K_exact_quantize_tiles : K_exact_quantize, blocks, &a, sizeof a);
}

/* Whether linears first .. first + n - 1 of the operation are such as wgmma takes
 * (hopper/exact_linear_wgmma.hip). */
static int takes_wgmma(const struct hip *h, const struct be_plan *p, int op, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        if (w->dense || w->pairs || !hip_is_plain(w) || !w->d_maps || w->k / CHUNK % ITEM_CHUNKS)
            return 0;
    }
    return hip_has(h, K_exact_wgmma_192);
}

/* Kernels with tiles of wgmma: panels and columns of a tile; the cost of as many tiles as run at
 * once, of half as many or fewer, with one digit and with two: times on an H200; 0: not for such
 * rows. */
static const struct wgmma_form {
    enum hip_kernel kernel;
    int panels, columns, cost[2], half[2];
} wgmma_forms[] = {
    {K_exact_wgmma_128, 8, 256, {0, 35}, {0, 22}},
    {K_exact_wgmma_192, 12, 128, {0, 28}, {0, 28}},
    {K_exact_wgmma_64, 4, 128, {25, 20}, {17, 15}},
    {K_exact_few_192, 12, 64, {23, 20}, {23, 20}},
    {K_exact_few_64, 4, 64, {18, 14}, {12, 11}},
};

/* The form of a kernel, or NULL. */
static const struct wgmma_form *wgmma_form(enum hip_kernel k)
{
    for (size_t i = 0; i < sizeof wgmma_forms / sizeof *wgmma_forms; i++)
        if (wgmma_forms[i].kernel == k) return &wgmma_forms[i];
    return NULL;
}

/* Tiles of a kernel's outputs; `first` of the parts becomes one of tiles. */
static int in_tiles(struct exact_linear_args *a, int panels)
{
    int n = 0;
    for (int i = 0; i < a->linear.n_parts; i++) {
        a->linear.part[i].first = n;
        n += ((a->linear.part[i].out + PANEL - 1) / PANEL + panels - 1) / panels;
    }
    return n;
}

/* A kernel of wgmma for these rows. */
static enum hip_kernel wgmma_kernel(const struct hip *h, const struct exact_linear_args *a,
                                    int digits)
{
    const struct wgmma_form *best = NULL;
    int least = 0;
    for (size_t i = 0; i < sizeof wgmma_forms / sizeof *wgmma_forms; i++) {
        const struct wgmma_form *f = &wgmma_forms[i];
        struct exact_linear_args of = *a;
        if (!f->cost[digits - 1]) continue;
        int at_once = hip_stream_multiprocessors(h->stream) * (int)hip_kernels[f->kernel].blocks,
            n = (a->linear.rows * digits + f->columns - 1) / f->columns * in_tiles(&of, f->panels),
            rest = n % at_once,
            cost = n / at_once * f->cost[digits - 1] + (rest > at_once / 2 ? f->cost[digits - 1]
                                                        : rest             ? f->half[digits - 1]
                                                                           : 0);
        if (best && cost >= least) continue;
        best = f;
        least = cost;
    }
    return best->kernel;
}

/* Tiles of 64 rows by AMD's matrix instructions, or K_COUNT. */
static enum hip_kernel matrix_kernel(const struct hip *h)
{
    static const enum hip_kernel k[] = {K_exact_mfma, K_exact_wmma, K_exact_wmma12};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        if (hip_has(h, k[i])) return k[i];
    return K_COUNT;
}

/* A kernel for so many rows that share codes, K_COUNT: tiles of 64 rows. */
static enum hip_kernel few_kernel(const struct hip *h, int rows, int pairs)
{
    enum hip_kernel matrix = matrix_kernel(h);
    if (matrix != K_COUNT && rows > 16) return matrix;
    if (!hip_has(h, K_exact_tile_2))
        return rows <= 1 ? K_exact_q4_1 : rows <= 4 ? K_exact_q4_4 : K_exact_q4_8;
    if (rows <= 16) return pairs ? K_exact_pairs_split : K_exact_split_8;
    return pairs ? K_exact_pairs_tile : K_COUNT;
}

/* A kernel of stacks for so many slots of an expert. */
static enum hip_kernel experts_kernel(const struct hip *h, int rows, int pairs)
{
    enum hip_kernel k = few_kernel(h, rows, pairs);
    if (k == K_exact_split_8) return K_exact_experts_split;
    return k != K_COUNT ? k : rows <= 64 ? K_exact_tile_32 : K_exact_tile_2;
}

/* A kernel of the 4-bit linears. by_wgmma: those kernels may be chosen */
static enum hip_kernel q4_kernel(const struct hip *h, const struct exact_linear_args *a,
                                 int by_wgmma, int digits)
{
    int rows = a->linear.rows, panels = a->linear.n_blocks;
    enum hip_kernel k = few_kernel(h, rows, a->groups.pairs);
    if (k != K_COUNT) return k;
    if (by_wgmma) return wgmma_kernel(h, a, digits);
    /* the wider tile reads digits less often, but may leave multiprocessors without one */
    int tiles = (rows + 63) / 64 * ((panels + 7) / 8);
    return tiles >= hip_stream_multiprocessors(h->stream) ? K_exact_tile_2 : K_exact_tile_1;
}

static void launch_wgmma(struct hip *h, enum hip_kernel k, const struct exact_linear_args *all)
{
    struct exact_linear_args a = *all;
    a.linear.n_blocks = in_tiles(&a, wgmma_form(k)->panels);
    size_t tiles = (size_t)a.linear.n_blocks *
                   (size_t)((a.linear.rows + a.of.tile - 1) / a.of.tile),
           at_once = (size_t)(hip_stream_multiprocessors(h->stream) * hip_kernels[k].blocks);
    if (k == K_exact_wgmma_128 && 2 * tiles <= at_once) tiles *= 2; /* halves */
    hip_launch(h, k, (struct hip_blocks){tiles < at_once ? tiles : at_once, 1, 1, 0}, &a, sizeof a);
}

/* Whether it is one of common/exact_linear_lanes.hip. */
static int by_lanes(enum hip_kernel k)
{
    return k == K_exact_q4_1 || k == K_exact_q4_4 || k == K_exact_q4_8;
}

/* Rows of a block of a kernel without wgmma, of one tile of exact_q4_8. */
static int block_rows(enum hip_kernel k)
{
    switch (k) {
    case K_exact_q4_1: return 1;
    case K_exact_q4_4: return 4;
    case K_exact_q4_8: return 8;
    case K_exact_tile_32: return 32;
    case K_exact_tile_1:
    case K_exact_tile_2:
    case K_exact_pairs_tile: return 64;
    case K_exact_mfma:
    case K_exact_wmma:
    case K_exact_wmma12: return EXACT_MATRIX_ROWS;
    default: return EXACT_SPLIT_ROWS;
    }
}

/* Tiles of a block, for so many rows that share codes. */
static int row_tiles(enum hip_kernel k, int rows)
{
    return k != K_exact_q4_8 || rows <= 8 ? 1 : rows <= 16 ? 2 : EXACT_ROW_TILES;
}

/* tiles: of the experts' grouping, 0: of rows */
static void launch_q4(struct hip *h, enum hip_kernel k, const struct exact_linear_args *all,
                      size_t tiles)
{
    struct exact_linear_args of = *all, *a = &of;
    int lanes = by_lanes(k);
    if (lanes) a->linear.n_blocks = in_tiles(a, EXACT_OUTPUTS / PANEL);
    int rows = block_rows(k) * a->tiles, tile = lanes || rows > EXACT_SPLIT_ROWS,
        four = k == K_exact_tile_1 || k == K_exact_pairs_tile,
        panels = lanes || !tile ? 1 : four ? 4 : 8;
    size_t across = (size_t)((a->linear.n_blocks + panels - 1) / panels),
           down = tiles ? tiles : (size_t)((a->linear.rows + rows - 1) / rows);
    /* neighbouring blocks of tiles share weights */
    hip_launch(h, k, (struct hip_blocks){tile ? down : across, tile ? across : down, 1, 0}, a,
               sizeof *a);
}

/* Chooses a kernel for the slots of stacks, and groups them for it; a single row's are a tile each.
 * Returns the number of tiles. */
static size_t group_slots(struct hip *h, const struct be_linear *w, const struct exact_rows *of,
                          struct exact_linear_args *a, enum hip_kernel *k)
{
    struct expert_groups g;
    int rows = (of->rows + of->rows / 2) / w->stack; /* of most experts */
    *k = experts_kernel(h, rows, w->pairs);
    a->tiles = row_tiles(*k, rows);
    a->expert = of->expert;
    if (of->single || block_rows(*k) == 1) return (size_t)of->rows;
    size_t tiles = hip_group_slots(h, w, of->expert, of->rows, block_rows(*k) * a->tiles, &g);
    a->expert = g.expert;
    a->end = g.end;
    a->n_tiles = g.n_tiles;
    a->linear.slot = g.slot;
    return tiles;
}

/* Blocks of exact_dense_tile_*; neighbouring ones share weights. */
static struct hip_blocks dense_tiles(struct exact_linear_args *a, int tile)
{
    size_t rows = (size_t)a->linear.rows, panels = (size_t)a->linear.n_blocks;
    a->row_warps = rows <= (size_t)DENSE_TILE_ROWS(tile, 1) ? 1 : 2;
    size_t down = (size_t)DENSE_TILE_ROWS(tile, a->row_warps),
           across = (size_t)DENSE_TILE_PANELS(tile, a->row_warps);
    return (struct hip_blocks){(rows + down - 1) / down, (panels + across - 1) / across, 1, 0};
}

static void launch_dense(struct hip *h, struct exact_linear_args *a, enum weight_kind kind)
{
    static const enum hip_kernel row[] = {[WEIGHT_F16] = K_exact_dense_f16,
                                          [WEIGHT_BF16] = K_exact_dense_bf16,
                                          [WEIGHT_F32] = K_exact_dense_f32},
                                 rows_8[] = {[WEIGHT_F16] = K_exact_dense_f16_8,
                                             [WEIGHT_BF16] = K_exact_dense_bf16_8,
                                             [WEIGHT_F32] = K_exact_dense_f32_8},
                                 tile_4[] = {[WEIGHT_F16] = K_exact_dense_tile_4_f16,
                                             [WEIGHT_BF16] = K_exact_dense_tile_4_bf16},
                                 tile_8[] = {[WEIGHT_F16] = K_exact_dense_tile_8_f16,
                                             [WEIGHT_BF16] = K_exact_dense_tile_8_bf16};
    size_t panels = (size_t)a->linear.n_blocks, rows = (size_t)a->linear.rows;
    enum hip_kernel k;
    struct hip_blocks blocks;
    if (a->expert || rows <= EXACT_DENSE_ROWS / 2) {
        k = row[kind];
        blocks = (struct hip_blocks){rows, panels, 1, 0};
    } else if (kind == WEIGHT_F32 || !hip_has(h, tile_8[kind])) {
        k = rows_8[kind];
        blocks = (struct hip_blocks){
            (panels + 2 * EXACT_DENSE_PANELS - 1) / (2 * EXACT_DENSE_PANELS),
            (rows + EXACT_DENSE_ROWS - 1) / EXACT_DENSE_ROWS, 1, 0};
    } else {
        k = tile_8[kind];
        blocks = dense_tiles(a, 8);
        if (blocks.x * blocks.y < (size_t)hip_stream_multiprocessors(h->stream)) {
            k = tile_4[kind];
            blocks = dense_tiles(a, 4);
        }
    }
    hip_launch(h, k, blocks, a, sizeof *a);
}

/* Linears first .. first + n - 1 of the operation, which read the same integers. */
static void linears(struct hip *h, const struct be_plan *p, int op, int first, int n,
                    const struct exact_rows *of)
{
    const struct be_linear *w = hip_weight(p, op, first);
    struct exact_linear_args a = {
        .linear = {.x = hip_in(p, op, 0), .n_parts = n, .rows = of->rows, .n_chunks = w->n_chunks},
        .top_k = of->top_k};
    for (int i = 0; i < n; i++) {
        const struct be_linear *v = hip_weight(p, op, first + i);
        a.linear.part[i] = hip_part_of(v, hip_out(p, op, first + i), a.linear.n_blocks);
        a.linear.n_blocks += (v->out + PANEL - 1) / PANEL;
    }
    if (w->dense) {
        a.groups.n = w->in;
        a.expert = of->expert;
        launch_dense(h, &a, w->kind);
        return;
    }
    int by_slot = of->expert && w->perm;
    size_t prepared = (size_t)(by_slot ? of->rows : of->inputs), tiles = 0;
    a.groups = groups_of(w);
    int digits = act_formats[h->config.act].digits;
    enum hip_kernel k;
    if (of->expert) {
        tiles = group_slots(h, w, of, &a, &k);
    } else {
        k = q4_kernel(h, &a, takes_wgmma(h, p, op, first, n), digits);
        a.tiles = row_tiles(k, of->rows);
    }
    const struct wgmma_form *by_wgmma = wgmma_form(k);
    int tile = by_wgmma ? by_wgmma->columns / digits : 1;
    a.of = digits_at(h, of->d_digits, w,
                     (prepared + (size_t)tile - 1) / (size_t)tile * (size_t)tile);
    a.of.tile = by_wgmma ? tile : 0;
    a.of.lanes = by_lanes(k) && !w->pairs;
    struct exact_quantize_args q = {.x = hip_in(p, op, 0),
                                    .perm = w->d_perm,
                                    .to = a.of,
                                    .groups = a.groups,
                                    .in = w->in,
                                    .slot_expert = of->expert,
                                    .k = w->k,
                                    .top_k = by_slot ? of->top_k : 1};
    if (by_slot) a.top_k = 1;
    quantize(h, p, &q, prepared, first ? -1 : of->producer);
    if (by_wgmma) launch_wgmma(h, k, &a);
    else launch_q4(h, k, &a, tiles);
}

static void all_linears(struct hip *h, const struct be_plan *p, int op, const struct exact_rows *of)
{
    int all = hip_op(p, op)->n;
    for (int first = 0, n; first < all && of->rows; first += n) {
        n = 1;
        while (first + n < all && n < MAX_PARTS &&
               same_digits(hip_weight(p, op, first), hip_weight(p, op, first + n)))
            n++;
        linears(h, p, op, first, n, of);
    }
}

void hip_exact_linear(struct hip *h, const struct be_plan *p, int op, int producer)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    CHECK(rows <= h->config.max_rows);
    all_linears(h, p, op,
                &(struct exact_rows){.rows = rows,
                                     .inputs = rows,
                                     .top_k = 1,
                                     .d_digits = h->d_packed,
                                     .producer = producer});
}

/* The result is stored for other readers. */
int hip_can_exact_norm_quantize(const struct be_plan *p, int norm)
{
    return !hip_weight(p, norm + 1, 0)->dense && hip_op(p, norm)->as.norm.groups <= 1 &&
           hip_op(p, norm + 1)->in[0] == hip_op(p, norm)->out[0];
}

int hip_can_exact_glu_quantize(const struct be_plan *p, int glu)
{
    return quantizes_once(p, glu + 1) && hip_op(p, glu + 1)->in[0] == hip_op(p, glu)->out[0] &&
           hip_op(p, glu)->last[0] == glu + 1;
}

void hip_exact_experts(struct hip *h, const struct be_plan *p, int op, int producer)
{
    const struct op *o = hip_op(p, op);
    int n_decode, rows = hip_rows(h, p, o->in[0], &n_decode), slots = rows * o->as.experts.top_k,
                  each = o->as.experts.each;
    all_linears(h, p, op,
                &(struct exact_rows){.rows = slots,
                                     .inputs = each ? slots : rows,
                                     .expert = hip_expert_ids(h, p, op),
                                     .top_k = each ? 1 : o->as.experts.top_k,
                                     .single = rows == 1,
                                     .d_digits = h->experts.d_packed,
                                     .producer = producer});
}

void hip_exact_glu(struct hip *h, const struct be_plan *p, int op)
{
    struct glu_any_args a = hip_glu_args(h, p, op);
    hip_launch_elements(h, K_exact_glu, a.n, &a, sizeof a);
}

void hip_exact_add(struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct add_args a = hip_add_args(h, p, op);
    hip_launch(h, K_exact_add,
               (struct hip_blocks){(size_t)rows, ((size_t)a.dim + THREADS - 1) / THREADS, 1, 0}, &a,
               sizeof a);
}

void hip_exact_softcap(struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    struct softcap_args a = {.x = hip_in(p, op, 0),
                             .n = (size_t)rows * (size_t)hip_width(p, op),
                             .cap = hip_op(p, op)->as.softcap.cap};
    hip_launch_elements(h, K_exact_softcap, a.n, &a, sizeof a);
}
