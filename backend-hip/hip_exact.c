/* hip_exact.c: launches of the operations in the CPU's order (kernels/common/exact_*.hip), for
 * --act i16 and int8. The bits of a row do not depend on phase or number of rows, so the number
 * chooses among kernels. Must not know: the other arithmetics. */
#include "backend-hip/hip_plan.h"

void hip_exact_angles(struct hip *h, const struct be_plan *p, int op)
{
    struct angles_args a = hip_angles_args(h, p, op);
    hip_launch_elements(h, K_exact_angles, (size_t)a.rows * (size_t)a.half, &a, sizeof a);
}

void hip_exact_norm(struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int groups = o->as.norm.groups > 1 ? o->as.norm.groups : 1, n_decode,
        rows = hip_rows(h, p, o->in[0], &n_decode);
    struct exact_norm_args a = {hip_norm_args(h, p, op), hip_vector(p, op, 1), groups,
                                o->as.norm.centered};
    a.norm.dim /= groups;
    hip_launch_rows(h, K_exact_norm, rows * groups, &a, sizeof a);
}

static struct exact_groups groups_of(const struct be_linear *w)
{
    struct exact_groups g = {.group_chunks = w->group_chunks,
                             .each = (w->group_chunks + 3) / 4,
                             .n_chunks = w->k / CHUNK};
    int whole = g.n_chunks / g.group_chunks, rest = g.n_chunks % g.group_chunks;
    g.n = whole * g.each + (rest + 3) / 4;
    return g;
}

/* Digits, scales and sums of `rows` rows at d. */
static struct exact_digits digits_at(const struct hip *h, void *d, const struct be_linear *w,
                                     size_t rows)
{
    struct exact_digits x = {.digit = d,
                             .stride = w->n_chunks * CHUNK,
                             .digits = h->config.act == ACT_I16 ? 2 : 1,
                             .rows = (int)rows};
    x.scaled = (struct exact_scaled *)((char *)d + rows * (size_t)(x.stride * x.digits));
    return x;
}

static int same_digits(const struct be_linear *a, const struct be_linear *b)
{
    return a->dense == b->dense && (!a->dense || a->kind == b->kind) && a->perm == b->perm &&
           a->k == b->k && (a->dense || a->group_chunks == b->group_chunks);
}

/* Rows of a launch of linears or stacks, and the rows of its input; experts: slots. */
struct exact_rows {
    int rows, inputs;
    const int *expert; /* of slots, or NULL */
    int top_k;         /* slot i reads input i / top_k */
    void *d_digits;
};

/* Linears first .. first + n - 1 of the operation, which read the same integers. */
static void linears(struct hip *h, const struct be_plan *p, int op, int first, int n,
                    const struct exact_rows *of)
{
    static const enum hip_kernel dense[] = {[WEIGHT_F16] = K_exact_dense_f16,
                                            [WEIGHT_BF16] = K_exact_dense_bf16,
                                            [WEIGHT_F32] = K_exact_dense_f32};
    const struct be_linear *w = hip_weight(p, op, first);
    struct exact_linear_args a = {
        .linear = {.x = hip_in(p, op, 0), .n_parts = n, .rows = of->rows, .n_chunks = w->n_chunks},
        .slot_expert = of->expert,
        .top_k = of->top_k};
    for (int i = 0; i < n; i++) {
        const struct be_linear *v = hip_weight(p, op, first + i);
        a.linear.part[i] = hip_part_of(v, hip_out(p, op, first + i), a.linear.n_blocks);
        a.linear.n_blocks += (v->out + PANEL - 1) / PANEL;
    }
    size_t panels = (size_t)a.linear.n_blocks, rows = (size_t)of->rows;
    if (w->dense) {
        size_t of_block = of->expert ? 1 : EXACT_DENSE_ROWS;
        a.groups.n = w->in;
        hip_launch(h, dense[w->kind],
                   (struct hip_blocks){(panels + EXACT_DENSE_PANELS - 1) / EXACT_DENSE_PANELS,
                                       (rows + of_block - 1) / of_block, 1, 0},
                   &a, sizeof a);
        return;
    }
    int by_slot = of->expert && w->perm;
    size_t prepared = by_slot ? rows : (size_t)of->inputs;
    a.groups = groups_of(w);
    a.of = digits_at(h, of->d_digits, w, prepared);
    struct exact_quantize_args q = {.x = hip_in(p, op, 0),
                                    .perm = w->d_perm,
                                    .to = a.of,
                                    .groups = a.groups,
                                    .in = w->in,
                                    .slot_expert = of->expert,
                                    .k = w->k,
                                    .top_k = by_slot ? of->top_k : 1};
    if (by_slot) a.top_k = 1;
    hip_launch(h, K_exact_quantize,
               (struct hip_blocks){((size_t)a.groups.n + 15) / 16, prepared, 1, 0}, &q, sizeof q);
    if (!of->expert && rows > EXACT_FEW_ROWS && hip_has(h, K_exact_q4_mma)) {
        hip_launch(h, K_exact_q4_mma,
                   (struct hip_blocks){(rows + EXACT_MMA_ROWS - 1) / EXACT_MMA_ROWS,
                                       (panels + EXACT_MMA_PANELS - 1) / EXACT_MMA_PANELS, 1, 0},
                   &a, sizeof a);
        return;
    }
    size_t of_block = of->expert || rows == 1 ? 1 : rows > 4 || !hip_has(h, K_exact_q4_4) ? 8 : 4;
    hip_launch(h,
               of_block == 8   ? K_exact_q4_8
               : of_block == 4 ? K_exact_q4_4
                               : K_exact_q4_1,
               (struct hip_blocks){panels, (rows + of_block - 1) / of_block, 1, 0}, &a, sizeof a);
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

void hip_exact_linear(struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    CHECK(rows <= h->config.max_rows);
    all_linears(
        h, p, op,
        &(struct exact_rows){.rows = rows, .inputs = rows, .top_k = 1, .d_digits = h->d_packed});
}

void hip_exact_experts(struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int n_decode, rows = hip_rows(h, p, o->in[0], &n_decode), slots = rows * o->as.experts.top_k,
                  each = o->as.experts.each;
    all_linears(h, p, op,
                &(struct exact_rows){.rows = slots,
                                     .inputs = each ? slots : rows,
                                     .expert = hip_in(p, op, 1),
                                     .top_k = each ? 1 : o->as.experts.top_k,
                                     .d_digits = h->experts.d_packed});
}

void hip_exact_rope(struct hip *h, const struct be_plan *p, int op)
{
    struct rope_kernel_args a = hip_rope_args(h, p, op);
    hip_launch(
        h, K_exact_rope_store,
        (struct hip_blocks){(size_t)h->shape.n_rows, (size_t)(a.n_heads + a.n_kv_heads), 1, 0}, &a,
        sizeof a);
}

void hip_exact_attend(struct hip *h, const struct be_plan *p, int op)
{
    struct attend_kernel_args a = hip_attend_args(h, p, op);
    hip_launch(h, h->config.kv == KV_F32 ? K_exact_attend_f32 : K_exact_attend_f16,
               (struct hip_blocks){(size_t)h->shape.n_rows, (size_t)a.n_heads, 1, 0}, &a, sizeof a);
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
               (struct hip_blocks){((size_t)a.dim + THREADS - 1) / THREADS, (size_t)rows, 1, 0}, &a,
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
