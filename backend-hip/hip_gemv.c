/* hip_gemv.c: linears of a single decode row, fused with the operations around them
 * (hopper/linear_gemv.hip, hopper/dense_gemv.hip): as prologue the norm or the combination of KV
 * splits, as epilogue additions, to the residual stream among them, or SwiGLU. Only images of
 * sm_90a have these kernels; the general ones (hip_linear.c) give the same bits. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_gemv.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_linear.h"

static int takes_codes(const struct hip *h, const struct be_plan *p, int op)
{
    int n = hip_op(p, op)->n;
    const struct be_linear *first = hip_weight(p, op, 0);
    if (!hip_has(h, K_q4_gemv_norm) || h->config.act != ACT_F16 || n > MAX_PARTS) return 0;
    for (int i = 0; i < n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        if (!hip_is_plain(w) || w->stride || w->perm != first->perm || (w->perm && !w->d_place) ||
            w->k != w->in || w->in != w->n_chunks * CHUNK)
            return 0;
        if (w->in != first->in || w->in > ROW_PIECES * PIECE ||
            w->group_chunks != first->group_chunks)
            return 0;
    }
    return 1;
}

static int takes_dense(const struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *first = hip_weight(p, op, 0);
    if (!hip_has(h, K_dense_gemv_row_f16) || !hip_has_f16_parts(h, first)) return 0;
    for (int i = 0; i < hip_op(p, op)->n; i++) {
        const struct be_linear *w = hip_weight(p, op, i);
        if (!w->dense || w->kind == WEIGHT_F32 || w->kind != first->kind || w->in % 64 ||
            w->in > DENSE_GEMV_INPUTS)
            return 0;
    }
    return 1;
}

enum hip_gemv hip_gemv_of(const struct hip *h, const struct be_plan *p, int op)
{
    if (h->pinned >= 0) return GEMV_NONE;
    return takes_codes(h, p, op) ? GEMV_CODES : takes_dense(h, p, op) ? GEMV_DENSE : GEMV_NONE;
}

int hip_gemv_combines(const struct hip *h, const struct be_plan *p, int attend)
{
    int n_heads = hip_op(p, attend)->as.attend.heads.n_heads, n = h->shape.n_splits;
    return n <= GEMV_SPLITS && n_heads * (n + 1) <= GEMV_COMBINE_WEIGHTS;
}

int hip_gemv_parts(const struct be_plan *p, int op, int glu, struct linear_args *l)
{
    for (int i = 0; i < l->n_parts; i++) {
        l->part[i] = hip_part_of(hip_weight(p, op, i), hip_out(p, op, i), l->n_blocks);
        l->n_blocks += (hip_weight(p, op, i)->out + PANEL - 1) / PANEL;
    }
    if (glu) l->n_blocks = l->part[1].first;
    if (!p->linears[op].adds) return 0;
    l->part[0].y = hip_in(p, op + 1, 0);
    return 1;
}

void hip_gemv(struct hip *h, const struct be_plan *p, const struct hip_gemv_ops *of)
{
    int op = of->linear, n = hip_op(p, op)->n;
    const struct be_linear *first = hip_weight(p, op, 0);
    struct gemv_args a = {
        .linear = {.x = hip_in(p, op, 0), .n_parts = n, .rows = 1, .n_chunks = first->n_chunks},
        .place = first->d_place};
    enum hip_kernel k = of->norm >= 0 && of->glu >= 0 ? K_q4_gemv_norm_glu
                        : of->norm >= 0               ? K_q4_gemv_norm
                        : of->attend >= 0             ? K_q4_gemv_combine
                                                      : K_q4_gemv_row;
    if (of->norm >= 0) a.norm = hip_norm_args(h, p, of->norm);
    if (of->attend >= 0) a.combine = hip_combine_args(h, p, of->attend, 0);
    a.add = hip_gemv_parts(p, op, of->glu >= 0, &a.linear);
    size_t blocks = (size_t)a.linear.n_blocks,
           resident = hip_kernels[k].blocks * (size_t)hip_stream_multiprocessors(h->stream);
    hip_launch_rows(h, k, (int)(blocks < resident ? blocks : resident), &a, sizeof a);
}

int hip_can_dense_gemv(const struct be_plan *p, int op, int n)
{
    int parts = 0, kinds = 0; /* a bit for each */
    for (int i = op; i < op + n; i++) {
        if (hip_op(p, i)->kind != OP_LINEAR || p->linears[i].gemv != GEMV_DENSE ||
            hip_op(p, i)->in[0] != hip_op(p, op)->in[0])
            return 0;
        kinds |= 1 << hip_weight(p, i, 0)->kind;
        parts += hip_op(p, i)->n;
    }
    return parts <= DENSE_PARTS &&
           ((kinds & (kinds - 1)) == 0 || kinds == (1 << WEIGHT_I8 | 1 << WEIGHT_BF16));
}

int hip_can_dense_add(const struct be_plan *p, int op, int add)
{
    const struct op *o = hip_op(p, op), *a = hip_op(p, add);
    return hip_can_dense_gemv(p, op, 1) && o->n == 1 && a->in[1] == o->out[0] &&
           o->last[0] == add && !a->as.add.original && !a->as.add.beta &&
           (a->as.add.scale == 0 || a->as.add.scale == 1) &&
           hip_width(p, add) == hip_weight(p, op, 0)->out;
}

int hip_can_dense_conv(const struct be_plan *p, int op, int n, int conv)
{
    const struct be_linear *w = hip_weight(p, op, 0);
    int first = 1; /* its tiles come first */
    for (int i = op; i < op + n; i++) first = first && hip_weight(p, i, 0)->kind == w->kind;
    return w->kind != WEIGHT_F16 && (first || w->kind == WEIGHT_I8) &&
           hip_op(p, conv)->in[0] == hip_op(p, op)->out[0] && hip_op(p, op)->last[0] == conv &&
           hip_op(p, conv)->as.conv.width == 4 && hip_op(p, conv)->w[1] < 0 &&
           !hip_op(p, conv)->as.conv.linear && hip_op(p, conv)->as.conv.channels == w->out;
}

/* The result of the operation goes to the x of the norm that follows instead. */
static void add_to_residual(const struct be_plan *p, int op, struct dense_gemv_args *a)
{
    if (!p->linears[op].adds) return;
    a->part[0].y = hip_in(p, op + 1, 0);
    a->add = 1;
}

/* The parts of a launch whose weights are of codes of 8 bits, or are not. */
static void dense_parts(const struct be_plan *p, const struct hip_dense_gemv *of, int bytes,
                        struct dense_gemv_args *a)
{
    for (int op = of->op; op < of->op + of->n; op++)
        for (int i = 0; i < hip_op(p, op)->n; i++) {
            const struct be_linear *w = hip_weight(p, op, i);
            if ((w->kind == WEIGHT_I8) != bytes) continue;
            a->part[a->n_parts++] = (struct dense_part){.weight = w->d_weight,
                                                        .bias = w->d_bias,
                                                        .y = hip_out(p, op, i),
                                                        .out = w->out,
                                                        .first = a->n_tiles};
            a->n_tiles += (w->out + PANEL - 1) / PANEL;
        }
}

/* Blocks for the tiles of codes of 8 bits, of all blocks of a launch: a share by bytes. */
static int byte_blocks(const struct dense_gemv_args *a, int blocks)
{
    int others = a->n_tiles - a->byte_tiles,
        n = (blocks * 2 * others + a->n_tiles + others - 1) / (a->n_tiles + others);
    if (n > others) n = others;
    return blocks - n;
}

void hip_dense_gemv(struct hip *h, const struct be_plan *p, const struct hip_dense_gemv *of)
{
    /* by source and kind: [of a norm][enum weight_kind] */
    static const enum hip_kernel kernel[2][WEIGHT_I8 + 1] = {
        {K_dense_gemv_row_f16, K_dense_gemv_row_bf16, K_COUNT, K_dense_gemv_row_i8},
        {K_dense_gemv_norm_f16, K_dense_gemv_norm_bf16, K_COUNT, K_dense_gemv_norm_i8}};
    const struct be_linear *first = hip_weight(p, of->op, 0);
    int last = of->experts >= 0 ? of->experts : of->op + of->n - 1;
    struct dense_gemv_args a = {
        .x = hip_in(p, of->op, 0), .n_chunks = first->n_chunks, .together = 1 + (of->glu >= 0)};
    dense_parts(p, of, 1, &a);
    a.byte_tiles = a.n_tiles;
    dense_parts(p, of, 0, &a);
    if (of->glu >= 0) a.n_parts = 1, a.n_tiles = a.part[1].first;
    if (of->gates >= 0) a.up = hip_in(p, of->gates, 1);
    if (of->conv >= 0) {
        a.conv = hip_conv_args(h, p, of->conv);
        a.conv_tiles = (a.conv.channels + PANEL - 1) / PANEL;
    }
    if (of->norm >= 0) {
        a.norm = hip_norm_args(h, p, of->norm);
        if (hip_op(p, of->norm)->last[0] <= last) a.norm.out = NULL;
    }
    if (of->experts >= 0) {
        a.packed = h->experts.d_packed;
        a.scale = h->experts.d_scale;
        a.stride = hip_weight(p, of->experts, 0)->n_chunks * CHUNK;
    }
    if (of->add >= 0) {
        a.before = a.part[0].y = hip_in(p, of->add, 0);
        a.gate = hip_in(p, of->add, 2);
        add_to_residual(p, of->add, &a);
    } else {
        add_to_residual(p, of->op + of->n - 1, &a);
    }
    enum weight_kind kind = first->kind;
    if (kind == WEIGHT_I8) kind = hip_weight(p, of->op + of->n - 1, 0)->kind;
    enum hip_kernel k = kernel[of->norm >= 0][kind];
    int resident = hip_kernels[k].blocks * hip_stream_multiprocessors(h->stream),
        n = a.n_tiles < resident ? a.n_tiles : resident;
    if (a.byte_tiles && a.byte_tiles < a.n_tiles) {
        k = K_dense_gemv_mixed_bf16;
        a.byte_blocks = byte_blocks(&a, n);
    }
    const struct hip_blocks blocks = {
        .x = (size_t)n,
        .y = 1,
        .z = 1,
        .shared = (unsigned)DENSE_GEMV_SHARED(first->in, F16_PARTS(kind), a.together)};
    hip_launch(h, k, blocks, &a, sizeof a);
}
