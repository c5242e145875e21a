/* hip_fused_experts.c: launches of a mixture of experts that compute several of its operations:
 * norm, router and choice; choice and stacks; stacks and weighted sum. Must not know: how a kernel
 * computes. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_fused.h"
#include "backend-hip/hip_gemv.h"
#include "backend-hip/hip_linear.h"

int hip_can_prepare_experts(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    return !o->as.experts.each && hip_n_together(h, p, op, 0) == o->n &&
           hip_experts_kernel(h, PHASE_DECODE, hip_weight(p, op, 0), (size_t)o->as.experts.top_k)
               ->gathers &&
           !hip_weight(p, op, 0)->perm;
}

void hip_router(struct hip *h, const struct be_plan *p, int norm, int op, int experts)
{
    const struct op *o = hip_op(p, op);
    const struct be_linear *first = hip_weight(p, op, 0);
    struct norm_router_args a = {.norm = hip_norm_args(h, p, norm),
                                 .linear = {.n_parts = o->n, .n_chunks = first->n_chunks},
                                 .packed = h->experts.d_packed,
                                 .scale = h->experts.d_scale,
                                 .stride = hip_weight(p, experts, 0)->n_chunks * CHUNK};
    CHECK(o->n <= MAX_PARTS);
    for (int i = 0; i < o->n; i++) {
        a.linear.part[i] = hip_part_of(hip_weight(p, op, i), hip_out(p, op, i), a.linear.n_blocks);
        a.linear.n_blocks += (hip_weight(p, op, i)->out + PANEL - 1) / PANEL;
    }
    hip_launch_rows(h, first->kind == WEIGHT_F16 ? K_norm_router_f16 : K_norm_router_bf16,
                    2 * a.linear.n_blocks + 1, &a, sizeof a);
}

/* Rows of a block of norm_route.hip: two where the multiprocessors would have more than one block
 * each. */
static int norm_route_rows(const struct hip *h, int rows)
{
    return rows > hip_stream_multiprocessors(h->stream) ? ROUTE_ROWS : 1;
}

/* Bytes of its shared memory for these rows, a multiple of 16. */
static size_t norm_route_shared(const struct hip *h, const struct be_linear *router,
                                const struct hip_slots *s)
{
    size_t panels = ((size_t)router->out + PANEL - 1) / PANEL,
           stages = (size_t)router->n_chunks / 2, of_block = (size_t)norm_route_rows(h, s->rows),
           share = (stages + ROUTE_CLUSTER - 1) / ROUTE_CLUSTER,
           sums = of_block * stages * panels * PANEL * sizeof(float),
           parts = share * 2 * F16_PARTS(WEIGHT_BF16) * 2 * 32 * sizeof(uint64_t),
           normed = (size_t)router->in * sizeof(float), words = ((size_t)s->rows + 31) / 32,
           groups = ((size_t)router->out * 2 * words + 8) * sizeof(int),
           rows = (sums > normed ? sums : normed) + of_block * (parts + normed);
    return (rows > groups ? rows : groups + 15) / 16 * 16;
}

/* Whether one launch computes norm, router and choice: the step has decode rows alone. s: their
 * slots, in the stacks of `experts`. */
static int routes_together(const struct hip *h, const struct be_plan *p, int norm, int route,
                           const struct hip_slots of[2])
{
    const struct be_linear *w = hip_weight(p, norm + 1, 0);
    return h->pinned < 0 && of[0].rows && !of[1].rows && hip_op(p, norm + 1)->n == 1 &&
           hip_has(h, K_norm_route) && hip_stream_has_clusters(h->stream) &&
           (w->kind == WEIGHT_F16 || w->kind == WEIGHT_BF16) && hip_has_f16_parts(h, w) &&
           w->in == w->n_chunks * CHUNK && w->n_chunks % 2 == 0 && w->in <= ROUTER_INPUTS &&
           w->out == hip_op(p, route)->as.route.n_experts &&
           norm_route_shared(h, w, &of[0]) <= NORM_ROUTE_SHARED;
}

/* half, parts: packed NULL: none. 0: the experts are not chosen yet */
static int norm_route(struct hip *h, const struct be_plan *p, int norm, int route,
                      const struct hip_slots of[2], const struct prepare_args *half,
                      const struct prepare_args *parts)
{
    const struct be_linear *router = hip_weight(p, norm + 1, 0), *w = hip_weight(p, route + 1, 0);
    struct norm_route_args a = {.norm = hip_norm_args(h, p, norm),
                                .linear = {.rows = of[0].rows, .n_chunks = router->n_chunks},
                                .router = hip_part_of(router, hip_out(p, norm + 1, 0), 0),
                                .half = *half,
                                .parts = *parts,
                                .route = hip_route_args(p, route),
                                .counter = h->experts.d_groups,
                                .of_block = norm_route_rows(h, of[0].rows),
                                .is_bf16 = router->kind == WEIGHT_BF16};
    hip_forget_grouping(h);
    if (a.route.by_warp && of[0].grouped && w->stack == router->out &&
        of[0].groups.n_slots <= NORM_ROUTE_SLOTS) {
        a.groups = of[0].groups;
        h->experts.grouping = hip_grouping_of(w, of);
    }
    size_t of_cluster = (size_t)(ROUTE_CLUSTER * a.of_block),
           blocks = ((size_t)of[0].rows + of_cluster - 1) / of_cluster * ROUTE_CLUSTER;
    hip_launch(h, K_norm_route,
               (struct hip_blocks){blocks, 1, 1, norm_route_shared(h, router, &of[0])}, &a,
               sizeof a);
    return a.route.by_warp;
}

void hip_norm_route_experts(struct hip *h, const struct be_plan *p, int norm)
{
    int two = hip_op(p, norm + 2)->kind == OP_LINEAR, route = norm + 2 + two, experts = route + 1,
        alike = two && hip_linears_share_input(p, norm + 1, norm + 2);
    const struct be_linear *w = hip_weight(p, experts, 0);
    struct hip_slots of[2];
    hip_lay_out_slots(h, p, experts, w, of);
    int takes = of[0].rows && of[0].kernel->gathers && !w->perm && !w->dense &&
                !hip_op(p, experts)->as.experts.each;
    struct prepare_args none = {0}, half = {.packed = h->experts.d_packed,
                                            .scale = h->experts.d_scale,
                                            .stride = w->n_chunks * CHUNK,
                                            .top = 14};
    int chosen = 0;
    if (routes_together(h, p, norm, route, of)) {
        struct prepare_args parts = alike ? hip_prepare_args(h, p, norm + 2) : none;
        chosen = norm_route(h, p, norm, route, of, takes ? &half : &none, &parts);
        if (alike) hip_linear_prepared(h, p, norm + 2);
    } else {
        hip_norm_parts(h, p, norm, norm + 1, alike ? norm + 2 : -1, &half, takes ? of[0].rows : 0);
    }
    if (two && !alike) hip_linear(h, p, norm + 2, -1);
    if (!chosen) hip_route(h, p, route);
    hip_experts(h, p, experts, takes ? EXPERTS_PREPARED : -1);
}

void hip_route_experts(struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *w = hip_weight(p, op + 1, 0);
    struct hip_slots of[2];
    hip_lay_out_slots(h, p, op + 1, w, of);
    CHECK(!of[0].grouped && of[0].kernel->gathers);
    struct route_experts_args a = {.route = hip_route_args(p, op)};
    if (of[0].kernel != &hip_kernels[K_q4_experts_mma_8] || !a.route.by_warp) {
        hip_route(h, p, op);
        hip_experts(h, p, op + 1, EXPERTS_PREPARED);
        return;
    }
    a.experts = hip_experts_args(h, p, op + 1, &of[0], PANEL);
    size_t tasks = of[0].tiles * (size_t)a.experts.linear.n_blocks,
           resident = EXPERTS_ROUTE_BLOCKS * (size_t)hip_stream_multiprocessors(h->stream);
    hip_forget_grouping(h);
    hip_launch_rows(h, K_q4_experts_route, (int)(tasks < resident ? tasks + 1 : resident), &a,
                    sizeof a);
    h->experts.routed = op;
}

int hip_can_experts_mix(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct be_linear *w = hip_weight(p, op, 0);
    return h->pinned < 0 && h->config.act == ACT_F16 && hip_has(h, K_q4_experts_mix) && o->n == 1 &&
           o->as.experts.each && o->as.experts.top_k <= MIX_SLOTS && hip_is_plain(w) && !w->perm &&
           w->in % 4 == 0 && w->n_chunks * CHUNK <= MIX_INPUTS;
}

static struct experts_mix_args mix_args_of(const struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *w = hip_weight(p, op, 0);
    int adds = hip_single(h) && p->linears[op + 1].adds;
    struct experts_mix_args a = {.experts = {.linear = {.n_parts = 1,
                                                        .n_chunks = w->n_chunks,
                                                        .n_blocks = (w->out + PANEL - 1) / PANEL},
                                             .expert = hip_in(p, op, 1)},
                                 .gate = hip_in(p, op - 1, 0),
                                 .up = hip_in(p, op - 1, 1),
                                 .weight = hip_in(p, op + 1, 1),
                                 .in = w->in,
                                 .slots = hip_op(p, op)->as.experts.top_k,
                                 .gelu = hip_op(p, op - 1)->as.glu.activation ==
                                         ACTIVATION_GELU_TANH,
                                 .add = adds};
    if (h->experts.routed == op - 3) a.route = hip_route_args(p, op - 3);
    a.experts.linear.part[0] = hip_part_of(w, adds ? hip_in(p, op + 2, 0) : hip_out(p, op + 1, 0),
                                           0);
    return a;
}

void hip_experts_mix(struct hip *h, const struct be_plan *p, int op)
{
    struct experts_mix_args a = mix_args_of(h, p, op);
    hip_launch_rows(h, K_q4_experts_mix, a.experts.linear.n_blocks, &a, sizeof a);
}

int hip_can_experts_mix_shared(const struct be_plan *p, int op)
{
    const struct be_linear *shared = hip_weight(p, op + 3, 0);
    return hip_can_dense_add(p, op + 3, op + 4) && shared->in <= MIX_SHARED_INPUTS &&
           shared->out == hip_weight(p, op, 0)->out &&
           hip_op(p, op + 4)->in[0] == hip_op(p, op + 1)->out[0] &&
           hip_op(p, op + 1)->last[0] == op + 4;
}

int hip_mixes_rows(const struct hip *h, const struct be_plan *p, int op)
{
    enum { MIX_ROWS = 4 };
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    return rows == n_decode && rows <= MIX_ROWS;
}

void hip_experts_mix_shared(struct hip *h, const struct be_plan *p, int op)
{
    static const enum hip_kernel kernel[] = {[WEIGHT_F16] = K_q4_experts_mix_f16,
                                             [WEIGHT_BF16] = K_q4_experts_mix_bf16,
                                             [WEIGHT_I8] = K_q4_experts_mix_i8};
    const struct be_linear *shared = hip_weight(p, op + 3, 0);
    int n_decode, rows = hip_rows(h, p, hip_op(p, op + 3)->in[0], &n_decode);
    struct experts_mix_args a = mix_args_of(h, p, op);
    a.add = hip_single(h) && p->linears[op + 4].adds;
    a.experts.linear.part[0].y = a.add ? hip_in(p, op + 5, 0) : hip_out(p, op + 4, 0);
    a.shared = shared->d_weight;
    a.shared_bias = shared->d_bias;
    a.shared_gate = hip_in(p, op + 2, 0);
    a.shared_up = hip_in(p, op + 2, 1);
    a.gate_of_shared = hip_in(p, op + 4, 2);
    a.shared_chunks = shared->n_chunks;
    hip_launch(h, kernel[shared->kind],
               (struct hip_blocks){(size_t)a.experts.linear.n_blocks, (size_t)rows, 1, 0}, &a,
               sizeof a);
}
