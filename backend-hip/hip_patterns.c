/* hip_patterns.c: the table of patterns of operations that one launch computes: their kinds, the
 * conditions under which each fits, and its launch. A pattern that leaves a result unwritten
 * applies only if the result has no other reader (op.last, core/step/plan.h). A pattern gives the
 * bits of its operations computed one by one; tests/checkop/checkop_fuse.c checks every row of the
 * table. Must not know: how the table is searched (hip_fuse.c). */
#include "backend-hip/hip_patterns.h"

#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_choose.h"
#include "backend-hip/hip_exact.h"
#include "backend-hip/hip_exchange.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_fused.h"
#include "backend-hip/hip_gemv.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_state.h"
#include "backend-hip/hip_vector.h"

/* ---- conditions on operation op and those after it */
/* The next operation is the only reader of the result. */
static int only_next(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_only_for(p, op, 0, op + 1);
}

/* The next operation reads the result, perhaps beside others. */
static int next_reads(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_op(p, op + 1)->in[0] == hip_op(p, op)->out[0];
}

/* The next operation are linears whose input the launch of this one can prepare. It also writes the
 * result for other readers. */
static int next_linear(const struct hip *h, const struct be_plan *p, int op)
{
    return next_reads(h, p, op) && hip_can_linear_produced(p, op + 1);
}

static int plain_norm(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_norm_is_plain(p, op);
}

static int plain_glu(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_glu_is_plain(p, op);
}

/* A weighted sum that goes to the norm after it alone. */
static int mix_norm(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_feeds_norm(p, op, hip_width(p, op) / hip_op(p, op)->as.mix.top_k);
}

static int rope_attend(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_can_attend_rotating(h, p, op, op + 1) && hip_only_for(p, op, 0, op + 1);
}

static int attend_glu(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_can_attend_gated(p, op) && only_next(h, p, op);
}

static int delta_gated(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_stream_has_clusters(h->stream) && hip_can_delta_gated(p, op) &&
           only_next(h, p, op) && only_next(h, p, op + 1);
}

/* Linears of a single row whose weights are 4-bit codes. compile_gemvs() has checked the norm
 * before them. */
static int gemv(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return p->linears[op].gemv == GEMV_CODES;
}

/* A launch of two linears can include the activation after them. */
static int two_and_activation(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *linear = hip_op(p, op), *glu = hip_op(p, op + 1);
    (void)h;
    return linear->n == 2 && glu->in[0] == linear->out[0] && glu->in[1] == linear->out[1] &&
           glu->out[0] == linear->out[0] && hip_only_for(p, op, 1, op + 1) &&
           hip_weight(p, op, 0)->out == hip_weight(p, op, 1)->out;
}

static int two_and_swiglu(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_op(p, op + 1)->as.glu.activation == ACTIVATION_SILU && two_and_activation(h, p, op);
}

/* Plain linears of a single row; two operations of one input. */
static int dense(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_dense_gemv(p, op, 1);
}

static int two_dense(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_dense_gemv(p, op, 2);
}

static int dense_add(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_dense_add(p, op, op + 1);
}

static int two_dense_conv(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_dense_conv(p, op, 2, op + 2);
}

/* A norm that the launch of plain linears of a single row can include. */
static int norm_of_row(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_norm_is_plain(p, op) && hip_is_complete(p, op) &&
           hip_width(p, op) <= NORM_PARTS_INPUTS;
}

/* Such a norm and the plain linears after it. */
static int norm_dense(const struct hip *h, const struct be_plan *p, int op)
{
    return norm_of_row(h, p, op) && dense(h, p, op + 1) && next_reads(h, p, op);
}

/* SwiGLU, which the launch of the plain linear after it can include. */
static int glu_dense(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_op(p, op)->as.glu.activation == ACTIVATION_SILU && hip_glu_is_plain(p, op) &&
           dense(h, p, op + 1) && next_reads(h, p, op) && only_next(h, p, op);
}

/* A gather alone reads the rows of a norm, and a linear alone its rows. */
static int norm_gather(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    return next_reads(h, p, op) && only_next(h, p, op) &&
           (o->out[1] < 0 || hip_only_for(p, op, 1, op)) && next_reads(h, p, op + 1) &&
           only_next(h, p, op + 1);
}

/* The choice, operation `route`, and the stacks after it belong to the norm and the router after
 * it. */
static int routes(const struct be_plan *p, int norm, int route)
{
    return hip_op(p, route)->in[0] == hip_op(p, norm + 1)->out[0] &&
           hip_op(p, route + 1)->in[0] == hip_op(p, norm)->out[0] &&
           hip_op(p, route + 1)->in[1] == hip_op(p, route)->out[0];
}

static int router_route(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return routes(p, op, op + 2);
}

static int router_linear_route(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return routes(p, op, op + 3);
}

/* The router's weights are not codes of 8 bits. */
static int no_bytes(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_weight(p, op, 0)->kind != WEIGHT_I8;
}

static int glu_experts(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_op(p, op + 1)->as.experts.each && next_reads(h, p, op) && plain_glu(h, p, op);
}

static int glu_experts_mix(const struct hip *h, const struct be_plan *p, int op)
{
    return glu_experts(h, p, op) && hip_can_experts_mix(h, p, op + 1) && next_reads(h, p, op + 1) &&
           only_next(h, p, op) && only_next(h, p, op + 1);
}

static int experts_mix_shared(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_experts_mix_shared(p, op);
}

/* A norm whose launch can prepare the input of the plain linears after it, or after the gather. */
static int norm_parts(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_can_norm_parts(h, p, op, op + 1) && next_reads(h, p, op);
}

/* The next operation are linears, too, which read the same prepared input. */
static int two_prepared(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_linears_share_input(p, op, op + 1);
}

static int norm_gather_parts(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_can_norm_parts(h, p, op, op + 2);
}

/* Operation op + 2 reads the result, too. */
static int second_reads(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_op(p, op + 2)->in[0] == hip_op(p, op)->out[0];
}

/* The weighted sum comes behind the shared expert, with its addition and the norm. */
static int mix_parts(const struct hip *h, const struct be_plan *p, int op)
{
    return hip_can_mix_parts(h, p, op) && hip_only_for(p, op, 0, op + 3) &&
           only_next(h, p, op + 2) && hip_feeds_norm(p, op + 3, hip_width(p, op + 3));
}

static int exact_norm_quantize(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_exact_norm_quantize(p, op);
}

static int exact_glu_quantize(const struct hip *h, const struct be_plan *p, int op)
{
    (void)h;
    return hip_can_exact_glu_quantize(p, op);
}

/* ---- launches. They find their operations by the kinds of the pattern. */
/* The first operation of a kind, -1: none. */
static int find(const struct hip_group *g, enum op_kind kind)
{
    for (int i = 0; i < g->pattern->n; i++)
        if (g->pattern->kind[i] == kind) return g->first + i;
    return -1;
}

/* A linear with the operation before it. */
static void launch_produced(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_linear(h, p, g->first + 1, g->first);
}

/* Attention, perhaps with rotation, gate or the linear after it. */
static void launch_attend(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int attend = find(g, OP_ATTEND), rope = find(g, OP_ROPE_STORE), linear = find(g, OP_LINEAR);
    if (find(g, OP_GLU) >= 0) {
        hip_attend_gated(h, p, attend, rope);
        return;
    }
    int leave = linear >= 0 && hip_leaves_combine(h, p, attend);
    hip_attend(h, p, attend, rope, leave);
    if (linear >= 0) hip_linear(h, p, linear, leave ? attend : -1);
}

static void launch_exact_attend(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_exact_attend(h, p, find(g, OP_ATTEND), find(g, OP_ROPE_STORE), 0);
}

/* A GEMV, perhaps with norm and activation or after attention. */
static void launch_gemv(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int attend = find(g, OP_ATTEND), leave = 0;
    if (attend >= 0) {
        leave = hip_leaves_combine(h, p, attend) && hip_gemv_combines(h, p, attend);
        hip_attend(h, p, attend, find(g, OP_ROPE_STORE), leave);
    }
    hip_gemv(h, p,
             &(struct hip_gemv_ops){.linear = find(g, OP_LINEAR),
                                    .norm = find(g, OP_NORM),
                                    .glu = find(g, OP_GLU),
                                    .attend = leave ? attend : -1});
}

static void launch_exact_gemv(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int attend = find(g, OP_ATTEND), leave = 0;
    if (attend >= 0) {
        leave = hip_exact_combines(h, p, attend);
        hip_exact_attend(h, p, attend, find(g, OP_ROPE_STORE), leave);
    }
    hip_exact_gemv(h, p,
                   &(struct hip_gemv_ops){.linear = find(g, OP_LINEAR),
                                          .norm = find(g, OP_NORM),
                                          .glu = find(g, OP_GLU),
                                          .attend = leave ? attend : -1});
}

/* Plain linears of a single row with what the pattern has around them: a gather leaves the row as
 * it is, an activation is one of the result or, before the linear, of the input. */
static void launch_dense(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int linear = find(g, OP_LINEAR), glu = find(g, OP_GLU), route = find(g, OP_ROUTE);
    struct hip_dense_gemv of = {.op = linear,
                                .norm = find(g, OP_NORM),
                                .glu = glu > linear ? glu : -1,
                                .add = find(g, OP_ADD),
                                .experts = find(g, OP_EXPERTS),
                                .gates = glu < linear ? glu : -1,
                                .conv = find(g, OP_CONV)};
    for (int i = 0; i < g->pattern->n; i++) of.n += g->pattern->kind[i] == OP_LINEAR;
    if (find(g, OP_GATHER) >= 0 && !h->shape.n_logits) return;
    hip_dense_gemv(h, p, &of);
    if (route >= 0) hip_route_experts(h, p, route);
}

/* The norm fits ROUTER_INPUTS as it does NORM_PARTS_INPUTS. */
static void launch_router(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_router(h, p, g->first, g->first + 1, g->first + 3);
    hip_route_experts(h, p, g->first + 2);
}

/* The operation before the stacks is in their launch. */
static void launch_experts_mix(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_experts_mix(h, p, g->first + 1);
}

static void launch_experts_mix_shared(struct hip *h, const struct be_plan *p,
                                      const struct hip_group *g)
{
    hip_experts_mix_shared(h, p, g->first + 1);
}

/* Linears that end a pattern behind others, with the same prepared input; -1: none. */
static int second_of(const struct hip_group *g)
{
    int n = g->pattern->n;
    const enum op_kind *kind = g->pattern->kind + n - 2;
    return kind[0] == OP_LINEAR && kind[1] == OP_LINEAR ? g->first + n - 1 : -1;
}

static void launch_norm_parts(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_norm_parts(h, p, g->first, find(g, OP_LINEAR), second_of(g), NULL, 0);
}

/* A shared expert, then the weighted sum before it with what follows. */
static void mix_parts_from(struct hip *h, const struct be_plan *p, int mix, int second)
{
    int glu = mix + 1;
    if (plain_glu(h, p, glu) && next_linear(h, p, glu)) {
        hip_linear(h, p, glu + 1, glu);
    } else {
        hip_glu(h, p, glu);
        hip_linear(h, p, glu + 1, -1);
    }
    hip_mix_parts(h, p, mix, second);
}

static void launch_mix_parts(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    mix_parts_from(h, p, g->first, second_of(g));
}

/* Stacks and shared expert with the weighted sum in one launch, if the step has few rows. */
static void launch_experts_mix_parts(struct hip *h, const struct be_plan *p,
                                     const struct hip_group *g)
{
    int experts = g->first + 1, norm = find(g, OP_NORM);
    if (hip_mixes_rows(h, p, norm)) {
        hip_experts_mix_shared(h, p, experts);
        hip_norm_parts(h, p, norm, norm + 1, second_of(g), NULL, 0);
        return;
    }
    hip_experts(h, p, experts, g->first);
    mix_parts_from(h, p, experts + 1, second_of(g));
}

static void launch_experts(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_experts(h, p, find(g, OP_EXPERTS), find(g, OP_GLU));
}

static void launch_linear(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    hip_linear(h, p, g->first, -1);
}

/* Linears or stacks in the CPU's order, perhaps with the operation before them. */
static void launch_exact_linear(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int linear = find(g, OP_LINEAR);
    hip_exact_linear(h, p, linear, linear > g->first ? g->first : -1);
}

static void launch_exact_experts(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    int experts = find(g, OP_EXPERTS);
    hip_exact_experts(h, p, experts, experts > g->first ? g->first : -1);
}

const struct hip_pattern hip_patterns[] = {
    {"norm + gemv + glu",
     SINGLE_ROW,
     K_q4_gemv_norm_glu,
     3,
     {OP_NORM, OP_LINEAR, OP_GLU},
     {{gemv, 1}, {plain_norm, 0}, {next_linear, 0}, {two_and_swiglu, 1}},
     .fused = launch_gemv},
    {"norm + gemv",
     SINGLE_ROW,
     K_q4_gemv_norm,
     2,
     {OP_NORM, OP_LINEAR},
     {{gemv, 1}, {plain_norm, 0}, {next_linear, 0}},
     .fused = launch_gemv},
    {"rope + attend + gemv",
     SINGLE_ROW,
     K_q4_gemv_combine,
     3,
     {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     {{rope_attend, 0}, {gemv, 2}, {next_linear, 1}, {only_next, 1}},
     .fused = launch_gemv},
    {"attend + gemv",
     SINGLE_ROW,
     K_q4_gemv_combine,
     2,
     {OP_ATTEND, OP_LINEAR},
     {{gemv, 1}, {next_linear, 0}, {only_next, 0}},
     .fused = launch_gemv},
    {"norm + router + linear + route + experts",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     5,
     {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     {{norm_dense, 0}, {two_dense, 1}, {router_linear_route, 0}, {hip_can_prepare_experts, 4}},
     .fused = launch_dense},
    {"norm + router + route + experts",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     4,
     {OP_NORM, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     {{norm_dense, 0}, {no_bytes, 1}, {router_route, 0}, {hip_can_prepare_experts, 3}},
     .fused = launch_router},
    {"glu + experts + mix + shared expert",
     SINGLE_ROW,
     K_q4_experts_mix_bf16,
     6,
     {OP_GLU, OP_EXPERTS, OP_MIX, OP_GLU, OP_LINEAR, OP_ADD},
     {{glu_experts_mix, 0}, {glu_dense, 3}, {dense_add, 4}, {experts_mix_shared, 1}},
     .fused = launch_experts_mix_shared},
    {"glu + experts + mix",
     SINGLE_ROW,
     K_q4_experts_mix,
     3,
     {OP_GLU, OP_EXPERTS, OP_MIX},
     {{glu_experts_mix, 0}},
     .fused = launch_experts_mix},
    {"norm + dense gemv + glu",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     3,
     {OP_NORM, OP_LINEAR, OP_GLU},
     {{norm_dense, 0}, {two_and_swiglu, 1}},
     .fused = launch_dense},
    {"norm + two dense gemvs + conv",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     4,
     {OP_NORM, OP_LINEAR, OP_LINEAR, OP_CONV},
     {{norm_dense, 0}, {two_dense, 1}, {two_dense_conv, 1}},
     .fused = launch_dense},
    {"norm + two dense gemvs",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     3,
     {OP_NORM, OP_LINEAR, OP_LINEAR},
     {{norm_dense, 0}, {two_dense, 1}},
     .fused = launch_dense},
    {"norm + gather + dense gemv",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     3,
     {OP_NORM, OP_GATHER, OP_LINEAR},
     {{norm_gather, 0}, {norm_of_row, 0}, {dense, 2}},
     .fused = launch_dense},
    {"norm + dense gemv",
     SINGLE_ROW,
     K_dense_gemv_norm_f16,
     2,
     {OP_NORM, OP_LINEAR},
     {{norm_dense, 0}},
     .fused = launch_dense},
    {"glu + dense gemv + add",
     SINGLE_ROW,
     K_dense_gemv_row_f16,
     3,
     {OP_GLU, OP_LINEAR, OP_ADD},
     {{glu_dense, 0}, {dense_add, 1}},
     .fused = launch_dense},
    {"glu + dense gemv",
     SINGLE_ROW,
     K_dense_gemv_row_f16,
     2,
     {OP_GLU, OP_LINEAR},
     {{glu_dense, 0}},
     .fused = launch_dense},
    {"dense gemv + glu",
     SINGLE_ROW,
     K_dense_gemv_row_f16,
     2,
     {OP_LINEAR, OP_GLU},
     {{dense, 0}, {two_and_swiglu, 0}},
     .fused = launch_dense},
    {"dense gemv + add",
     SINGLE_ROW,
     K_dense_gemv_row_f16,
     2,
     {OP_LINEAR, OP_ADD},
     {{dense_add, 0}},
     .fused = launch_dense},
    {"dense gemv",
     SINGLE_ROW,
     K_dense_gemv_row_f16,
     1,
     {OP_LINEAR},
     {{dense, 0}},
     .fused = launch_dense},
    {"gemv", SINGLE_ROW, K_q4_gemv_row, 1, {OP_LINEAR}, {{gemv, 0}}, .fused = launch_gemv},
    {"glu + experts + mix + shared expert + norm + two plain linears",
     ANY_ROWS,
     K_mix_parts_i8,
     9,
     {OP_GLU, OP_EXPERTS, OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR, OP_LINEAR},
     {{glu_experts_mix, 0},
      {glu_dense, 3},
      {dense_add, 4},
      {experts_mix_shared, 1},
      {mix_parts, 2},
      {two_prepared, 7}},
     .fused = launch_experts_mix_parts},
    {"glu + experts + mix + shared expert + norm + plain linear",
     ANY_ROWS,
     K_mix_parts_i8,
     8,
     {OP_GLU, OP_EXPERTS, OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR},
     {{glu_experts_mix, 0},
      {glu_dense, 3},
      {dense_add, 4},
      {experts_mix_shared, 1},
      {mix_parts, 2}},
     .fused = launch_experts_mix_parts},
    {"mix + shared expert + norm + two plain linears",
     ANY_ROWS,
     K_mix_parts_i8,
     7,
     {OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR, OP_LINEAR},
     {{mix_parts, 0}, {two_prepared, 5}},
     .fused = launch_mix_parts},
    {"mix + shared expert + norm + plain linear",
     ANY_ROWS,
     K_mix_parts_i8,
     6,
     {OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR},
     {{mix_parts, 0}},
     .fused = launch_mix_parts},
    {"mix + norm + linear",
     ANY_ROWS,
     K_mix_norm_1024_4,
     3,
     {OP_MIX, OP_NORM, OP_LINEAR},
     {{mix_norm, 0}, {plain_norm, 1}, {next_linear, 1}},
     .launch = hip_mix_norm_linear},
    {"norm + linear",
     ANY_ROWS,
     K_COUNT,
     2,
     {OP_NORM, OP_LINEAR},
     {{plain_norm, 0}, {next_linear, 0}},
     .fused = launch_produced},
    {"glu + linear",
     ANY_ROWS,
     K_COUNT,
     2,
     {OP_GLU, OP_LINEAR},
     {{plain_glu, 0}, {next_linear, 0}},
     .fused = launch_produced},
    {"rope + attend + linear",
     ANY_ROWS,
     K_attend_pages_64,
     3,
     {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     {{rope_attend, 0}, {next_linear, 1}, {only_next, 1}},
     .fused = launch_attend},
    {"attend + linear",
     ANY_ROWS,
     K_COUNT,
     2,
     {OP_ATTEND, OP_LINEAR},
     {{next_linear, 0}, {only_next, 0}},
     .fused = launch_attend},
    {"rope + attend + glu",
     ANY_ROWS,
     K_attend_pages_64,
     3,
     {OP_ROPE_STORE, OP_ATTEND, OP_GLU},
     {{rope_attend, 0}, {attend_glu, 1}},
     .fused = launch_attend},
    {"rope + attend",
     ANY_ROWS,
     K_attend_pages_64,
     2,
     {OP_ROPE_STORE, OP_ATTEND},
     {{rope_attend, 0}},
     .fused = launch_attend},
    {"attend + glu",
     ANY_ROWS,
     K_COUNT,
     2,
     {OP_ATTEND, OP_GLU},
     {{attend_glu, 0}},
     .fused = launch_attend},
    {"delta + norm + glu + plain linear",
     ANY_ROWS,
     K_gated_parts_i8,
     4,
     {OP_DELTA, OP_NORM, OP_GLU, OP_LINEAR},
     {{delta_gated, 0}, {only_next, 2}, {hip_can_gated_parts, 1}},
     .launch = hip_delta_gated_linear},
    {"delta + norm + glu",
     ANY_ROWS,
     K_delta_gated_128,
     3,
     {OP_DELTA, OP_NORM, OP_GLU},
     {{delta_gated, 0}},
     .launch = hip_delta_gated},
    {"norm + two linears + route + experts",
     ANY_ROWS,
     K_norm_parts_f16,
     5,
     {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     {{norm_parts, 0}, {second_reads, 0}, {router_linear_route, 0}},
     .launch = hip_norm_route_experts},
    {"norm + linear + route + experts",
     ANY_ROWS,
     K_norm_parts_f16,
     4,
     {OP_NORM, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     {{norm_parts, 0}, {router_route, 0}},
     .launch = hip_norm_route_experts},
    {"norm + gather + plain linear",
     ANY_ROWS,
     K_norm_parts_f16,
     3,
     {OP_NORM, OP_GATHER, OP_LINEAR},
     {{norm_gather, 0}, {norm_gather_parts, 0}},
     .fused = launch_norm_parts},
    {"norm + two plain linears",
     ANY_ROWS,
     K_norm_parts_f16,
     3,
     {OP_NORM, OP_LINEAR, OP_LINEAR},
     {{norm_parts, 0}, {two_prepared, 1}},
     .fused = launch_norm_parts},
    {"norm + plain linear",
     ANY_ROWS,
     K_norm_parts_f16,
     2,
     {OP_NORM, OP_LINEAR},
     {{norm_parts, 0}},
     .fused = launch_norm_parts},
    {"glu + experts",
     ANY_ROWS,
     K_COUNT,
     2,
     {OP_GLU, OP_EXPERTS},
     {{glu_experts, 0}},
     .fused = launch_experts},
    {"embed", ANY_ROWS, K_COUNT, 1, {OP_EMBED}, .launch = hip_embed},
    {"angles", ANY_ROWS, K_COUNT, 1, {OP_ANGLES}, .launch = hip_angles},
    {"norm", ANY_ROWS, K_COUNT, 1, {OP_NORM}, .launch = hip_norm},
    {"linear", ANY_ROWS, K_COUNT, 1, {OP_LINEAR}, .fused = launch_linear},
    {"rope", ANY_ROWS, K_COUNT, 1, {OP_ROPE_STORE}, .launch = hip_rope_store},
    {"choose", ANY_ROWS, K_COUNT, 1, {OP_CHOOSE}, .launch = hip_choose},
    {"attend", ANY_ROWS, K_COUNT, 1, {OP_ATTEND}, .fused = launch_attend},
    {"glu", ANY_ROWS, K_COUNT, 1, {OP_GLU}, .launch = hip_glu},
    {"add", ANY_ROWS, K_COUNT, 1, {OP_ADD}, .launch = hip_add},
    {"sums", ANY_ROWS, K_COUNT, 1, {OP_GROUP_SUMS}, .launch = hip_sums},
    {"conv", ANY_ROWS, K_COUNT, 1, {OP_CONV}, .launch = hip_conv},
    {"delta", ANY_ROWS, K_COUNT, 1, {OP_DELTA}, .launch = hip_delta},
    {"softcap", ANY_ROWS, K_COUNT, 1, {OP_SOFTCAP}, .launch = hip_softcap},
    {"gather", ANY_ROWS, K_COUNT, 1, {OP_GATHER}, .launch = hip_gather},
    {"argmax", ANY_ROWS, K_COUNT, 1, {OP_ARGMAX}, .launch = hip_argmax},
    {"route", ANY_ROWS, K_COUNT, 1, {OP_ROUTE}, .launch = hip_route},
    {"experts", ANY_ROWS, K_COUNT, 1, {OP_EXPERTS}, .fused = launch_experts},
    {"mix", ANY_ROWS, K_COUNT, 1, {OP_MIX}, .launch = hip_mix},
    {"top", ANY_ROWS, K_COUNT, 1, {OP_TOP}, .launch = hip_top},
    {"score", ANY_ROWS, K_COUNT, 1, {OP_SCORE}, .launch = hip_score},
    {"sample", ANY_ROWS, K_COUNT, 1, {OP_SAMPLE}, .launch = hip_sample},
    {"exchange", ANY_ROWS, K_COUNT, 1, {OP_EXCHANGE}, .launch = hip_exchange},
    {"exact norm + gemv + glu",
     EXACT_SINGLE,
     K_exact_gemv_norm_glu,
     3,
     {OP_NORM, OP_LINEAR, OP_GLU},
     {{gemv, 1}, {plain_norm, 0}, {next_reads, 0}, {two_and_activation, 1}},
     .fused = launch_exact_gemv},
    {"exact norm + gemv",
     EXACT_SINGLE,
     K_exact_gemv_norm,
     2,
     {OP_NORM, OP_LINEAR},
     {{gemv, 1}, {plain_norm, 0}, {next_reads, 0}},
     .fused = launch_exact_gemv},
    {"exact rope + attend + gemv",
     EXACT_SINGLE,
     K_exact_gemv_combine,
     3,
     {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     {{rope_attend, 0}, {gemv, 2}, {only_next, 1}, {next_reads, 1}},
     .fused = launch_exact_gemv},
    {"exact attend + gemv",
     EXACT_SINGLE,
     K_exact_gemv_combine,
     2,
     {OP_ATTEND, OP_LINEAR},
     {{gemv, 1}, {only_next, 0}, {next_reads, 0}},
     .fused = launch_exact_gemv},
    {"exact gemv",
     EXACT_SINGLE,
     K_exact_gemv_row,
     1,
     {OP_LINEAR},
     {{gemv, 0}},
     .fused = launch_exact_gemv},
    {"exact rope + attend",
     EXACT_ROWS,
     K_attend_chunk_int8_64,
     2,
     {OP_ROPE_STORE, OP_ATTEND},
     {{rope_attend, 0}},
     .fused = launch_exact_attend},
    {"exact norm + linear",
     EXACT_ROWS,
     K_COUNT,
     2,
     {OP_NORM, OP_LINEAR},
     {{exact_norm_quantize, 0}},
     .fused = launch_exact_linear},
    {"exact glu + linear",
     EXACT_ROWS,
     K_COUNT,
     2,
     {OP_GLU, OP_LINEAR},
     {{exact_glu_quantize, 0}},
     .fused = launch_exact_linear},
    {"exact glu + experts",
     EXACT_ROWS,
     K_COUNT,
     2,
     {OP_GLU, OP_EXPERTS},
     {{exact_glu_quantize, 0}},
     .fused = launch_exact_experts},
    {"exact embed", EXACT_ROWS, K_COUNT, 1, {OP_EMBED}, .launch = hip_embed},
    {"exact angles", EXACT_ROWS, K_COUNT, 1, {OP_ANGLES}, .launch = hip_exact_angles},
    {"exact norm", EXACT_ROWS, K_COUNT, 1, {OP_NORM}, .launch = hip_exact_norm},
    {"exact linear", EXACT_ROWS, K_COUNT, 1, {OP_LINEAR}, .fused = launch_exact_linear},
    {"exact rope", EXACT_ROWS, K_COUNT, 1, {OP_ROPE_STORE}, .launch = hip_rope_store},
    {"exact choose", EXACT_ROWS, K_COUNT, 1, {OP_CHOOSE}, .launch = hip_choose},
    {"exact attend", EXACT_ROWS, K_COUNT, 1, {OP_ATTEND}, .fused = launch_exact_attend},
    {"exact glu", EXACT_ROWS, K_COUNT, 1, {OP_GLU}, .launch = hip_exact_glu},
    {"exact add", EXACT_ROWS, K_COUNT, 1, {OP_ADD}, .launch = hip_exact_add},
    {"exact softcap", EXACT_ROWS, K_COUNT, 1, {OP_SOFTCAP}, .launch = hip_exact_softcap},
    {"exact sums", EXACT_ROWS, K_COUNT, 1, {OP_GROUP_SUMS}, .launch = hip_sums},
    {"exact conv", EXACT_ROWS, K_COUNT, 1, {OP_CONV}, .launch = hip_conv},
    {"exact delta", EXACT_ROWS, K_COUNT, 1, {OP_DELTA}, .launch = hip_delta},
    {"exact route", EXACT_ROWS, K_COUNT, 1, {OP_ROUTE}, .launch = hip_route},
    {"exact experts", EXACT_ROWS, K_COUNT, 1, {OP_EXPERTS}, .fused = launch_exact_experts},
    {"exact mix", EXACT_ROWS, K_COUNT, 1, {OP_MIX}, .launch = hip_mix},
    {"exact gather", EXACT_ROWS, K_COUNT, 1, {OP_GATHER}, .launch = hip_gather},
    {"exact argmax", EXACT_ROWS, K_COUNT, 1, {OP_ARGMAX}, .launch = hip_argmax},
    {"exact top", EXACT_ROWS, K_COUNT, 1, {OP_TOP}, .launch = hip_top},
    {"exact score", EXACT_ROWS, K_COUNT, 1, {OP_SCORE}, .launch = hip_score},
    {"exact sample", EXACT_ROWS, K_COUNT, 1, {OP_SAMPLE}, .launch = hip_sample},
    {"exact exchange", EXACT_ROWS, K_COUNT, 1, {OP_EXCHANGE}, .launch = hip_exchange},
};

const int hip_n_patterns = sizeof hip_patterns / sizeof *hip_patterns;

_Static_assert(sizeof hip_patterns / sizeof *hip_patterns <= MAX_PATTERNS,
               "struct hip counts launches of every pattern");
