/* hip_patterns.c: the table of patterns of operations that one launch computes: whether each fits,
 * and its launch. A pattern that leaves a result unwritten applies only if the result has no other
 * reader (op.last, core/step/plan.h). A pattern gives the bits of its operations computed one by
 * one; tests/checkop/checkop_fuse.c checks every row of the table. Must not know: how the table is
 * searched (hip_fuse.c). */
#include "backend-hip/hip_patterns.h"

/* ---- linears with the producer of their input */
static int feeds_linear(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h; /* the kernel also writes the rows for other readers */
    return hip_op(p, first + 1)->in[0] == hip_op(p, first)->out[0] &&
           hip_takes_producer(p, first + 1);
}

static int norm_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_norm_is_plain(p, first) && feeds_linear(h, p, first);
}

static int glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_glu_is_plain(p, first) && feeds_linear(h, p, first);
}

static int mix_norm_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_feeds_norm(p, first, hip_width(p, first) / hip_op(p, first)->as.mix.top_k) &&
           norm_fits(h, p, first + 1);
}

static void launch_produced(struct hip *h, const struct be_plan *p, int first)
{
    hip_linear(h, p, first + 1, first);
}

static int attend_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return feeds_linear(h, p, first) && hip_only_for(p, first, 0, first + 1);
}

static void attend_then_linear(struct hip *h, const struct be_plan *p, int attend, int rope)
{
    int leave = hip_leaves_combine(h, p, attend);
    hip_attend(h, p, attend, rope, leave);
    hip_linear(h, p, attend + 1, leave ? attend : -1);
}

static void launch_attend_linear(struct hip *h, const struct be_plan *p, int first)
{
    attend_then_linear(h, p, first, -1);
}

/* ---- attention with rotation and storing */
static int rope_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_attend_rotates(h, p, first, first + 1) && hip_only_for(p, first, 0, first + 1);
}

static void launch_rope_attend(struct hip *h, const struct be_plan *p, int first)
{
    hip_attend(h, p, first + 1, first, 0);
}

static int rope_attend_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return rope_fits(h, p, first) && attend_fits(h, p, first + 1);
}

static void launch_rope_attend_linear(struct hip *h, const struct be_plan *p, int first)
{
    attend_then_linear(h, p, first + 1, first);
}

static int attend_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return hip_attend_gates(p, first) && hip_only_for(p, first, 0, first + 1);
}

static void launch_attend_glu(struct hip *h, const struct be_plan *p, int first)
{
    hip_attend_gated(h, p, first, -1);
}

static int rope_attend_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return rope_fits(h, p, first) && attend_glu_fits(h, p, first + 1);
}

static void launch_rope_attend_glu(struct hip *h, const struct be_plan *p, int first)
{
    hip_attend_gated(h, p, first + 1, first);
}

/* ---- the delta rule with what follows it */
static int delta_gated_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_stream_has_clusters(h->stream) && hip_delta_gates(p, first) &&
           hip_only_for(p, first, 0, first + 1) && hip_only_for(p, first + 1, 0, first + 2);
}

static int delta_gated_linear_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return delta_gated_fits(h, p, first) && hip_only_for(p, first + 2, 0, first + 3) &&
           hip_takes_gated_parts(h, p, first + 1);
}

/* ---- steps of a single decode row: GEMVs */
static int is_gemv(const struct be_plan *p, int op)
{
    return hip_op(p, op)->kind == OP_LINEAR && p->linears[op].gemv == GEMV_CODES;
}

static int gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return is_gemv(p, first);
}

static void launch_gemv(struct hip *h, const struct be_plan *p, int first)
{
    hip_gemv(h, p, first, -1, -1, -1);
}

/* The norm itself was checked by compile_gemvs(). */
static int norm_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return is_gemv(p, first + 1) && norm_fits(h, p, first);
}

static void launch_norm_gemv(struct hip *h, const struct be_plan *p, int first)
{
    hip_gemv(h, p, first + 1, first, -1, -1);
}

/* Whether a launch of two linears can include the activation after them, SwiGLU. */
static int activates(const struct be_plan *p, int op)
{
    const struct op *linear = hip_op(p, op), *glu = hip_op(p, op + 1);
    return linear->n == 2 && glu->in[0] == linear->out[0] && glu->in[1] == linear->out[1] &&
           glu->out[0] == linear->out[0] && hip_only_for(p, op, 1, op + 1) &&
           hip_weight(p, op, 0)->out == hip_weight(p, op, 1)->out;
}

static int gates(const struct be_plan *p, int op)
{
    return hip_op(p, op + 1)->as.glu.activation == ACTIVATION_SILU && activates(p, op);
}

static int norm_gemv_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_gemv_fits(h, p, first) && gates(p, first + 1);
}

static void launch_norm_gemv_glu(struct hip *h, const struct be_plan *p, int first)
{
    hip_gemv(h, p, first + 1, first, -1, first + 2);
}

static void attend_then_gemv(struct hip *h, const struct be_plan *p, int attend, int rope)
{
    int leave = hip_leaves_combine(h, p, attend) && hip_gemv_combines(h, p, attend);
    hip_attend(h, p, attend, rope, leave);
    hip_gemv(h, p, attend + 1, -1, leave ? attend : -1, -1);
}

static int attend_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return is_gemv(p, first + 1) && attend_fits(h, p, first);
}

static void launch_attend_gemv(struct hip *h, const struct be_plan *p, int first)
{
    attend_then_gemv(h, p, first, -1);
}

static int rope_attend_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return rope_fits(h, p, first) && attend_gemv_fits(h, p, first + 1);
}

static void launch_rope_attend_gemv(struct hip *h, const struct be_plan *p, int first)
{
    attend_then_gemv(h, p, first + 1, first);
}

/* ---- the same in the CPU's order */
static int exact_norm_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h; /* the norm itself was checked by compile_gemvs() */
    return is_gemv(p, first + 1) && hip_norm_is_plain(p, first) &&
           hip_op(p, first + 1)->in[0] == hip_op(p, first)->out[0];
}

static void launch_exact_norm_gemv(struct hip *h, const struct be_plan *p, int first)
{
    hip_exact_gemv(h, p, first + 1, first, -1, -1);
}

static int exact_norm_gemv_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return exact_norm_gemv_fits(h, p, first) && activates(p, first + 1);
}

static void launch_exact_norm_gemv_glu(struct hip *h, const struct be_plan *p, int first)
{
    hip_exact_gemv(h, p, first + 1, first, -1, first + 2);
}

static void exact_attend_gemv(struct hip *h, const struct be_plan *p, int attend, int rope)
{
    int leave = hip_exact_combines(h, p, attend);
    hip_exact_attend(h, p, attend, rope, leave);
    hip_exact_gemv(h, p, attend + 1, -1, leave ? attend : -1, -1);
}

static int exact_attend_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return is_gemv(p, first + 1) && hip_only_for(p, first, 0, first + 1) &&
           hip_op(p, first + 1)->in[0] == hip_op(p, first)->out[0];
}

static void launch_exact_attend_gemv(struct hip *h, const struct be_plan *p, int first)
{
    exact_attend_gemv(h, p, first, -1);
}

static int exact_rope_attend_gemv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return rope_fits(h, p, first) && exact_attend_gemv_fits(h, p, first + 1);
}

static void launch_exact_rope_attend_gemv(struct hip *h, const struct be_plan *p, int first)
{
    exact_attend_gemv(h, p, first + 1, first);
}

static void launch_exact_gemv(struct hip *h, const struct be_plan *p, int first)
{
    hip_exact_gemv(h, p, first, -1, -1, -1);
}

static void launch_exact_rope_attend(struct hip *h, const struct be_plan *p, int first)
{
    hip_exact_attend(h, p, first + 1, first, 0);
}

static void launch_exact_attend(struct hip *h, const struct be_plan *p, int first)
{
    hip_exact_attend(h, p, first, -1, 0);
}

/* ---- steps of a single decode row: GEMVs of plain linears */
/* A launch of n linears from op on, by themselves. */
static struct hip_dense_gemv dense_of(int op, int n)
{
    return (struct hip_dense_gemv){op, n, -1, -1, -1, -1, -1, -1};
}

static int dense_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return hip_dense_together(p, first, 1);
}

static void launch_dense(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first, 1);
    hip_dense_gemv(h, p, &g);
}

static int dense_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return dense_fits(h, p, first) && gates(p, first);
}

static void launch_dense_glu(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first, 1);
    g.glu = first + 1;
    hip_dense_gemv(h, p, &g);
}

static int dense_add_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return hip_dense_adds(p, first, first + 1);
}

static void launch_dense_add(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first, 1);
    g.add = first + 1;
    hip_dense_gemv(h, p, &g);
}

static int norm_dense_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return hip_norm_is_plain(p, first) && hip_is_complete(p, first) &&
           hip_width(p, first) <= NORM_PARTS_INPUTS && hip_dense_together(p, first + 1, 1) &&
           hip_op(p, first + 1)->in[0] == hip_op(p, first)->out[0];
}

static void launch_norm_dense(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 1);
    g.norm = first;
    hip_dense_gemv(h, p, &g);
}

/* Whether the rows of a norm are read by a gather alone, and its rows by a linear alone. */
static int gathers(const struct be_plan *p, int norm)
{
    const struct op *o = hip_op(p, norm);
    return hip_op(p, norm + 1)->in[0] == o->out[0] && hip_only_for(p, norm, 0, norm + 1) &&
           (o->out[1] < 0 || hip_only_for(p, norm, 1, norm)) &&
           hip_op(p, norm + 2)->in[0] == hip_op(p, norm + 1)->out[0] &&
           hip_only_for(p, norm + 1, 0, norm + 2);
}

static int norm_gather_dense_fits(const struct hip *h, const struct be_plan *p, int first)
{
    (void)h;
    return gathers(p, first) && hip_norm_is_plain(p, first) && hip_is_complete(p, first) &&
           hip_width(p, first) <= NORM_PARTS_INPUTS && hip_dense_together(p, first + 2, 1);
}

static void launch_norm_gather_dense(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 2, 1);
    g.norm = first;
    if (h->shape.n_logits) hip_dense_gemv(h, p, &g);
}

static int norm_dense_glu_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_dense_fits(h, p, first) && gates(p, first + 1);
}

static void launch_norm_dense_glu(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 1);
    g.norm = first;
    g.glu = first + 2;
    hip_dense_gemv(h, p, &g);
}

static int norm_two_dense_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_dense_fits(h, p, first) && hip_dense_together(p, first + 1, 2);
}

static void launch_norm_two_dense(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 2);
    g.norm = first;
    hip_dense_gemv(h, p, &g);
}

static int norm_two_dense_conv_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_two_dense_fits(h, p, first) && hip_dense_convolves(p, first + 1, 2, first + 3);
}

static void launch_norm_two_dense_conv(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 2);
    g.norm = first;
    g.conv = first + 3;
    hip_dense_gemv(h, p, &g);
}

/* Whether a router, the choice and the stacks after it, from operation `route` on, belong to a
 * norm. */
static int routes(const struct be_plan *p, int norm, int router, int route)
{
    return hip_op(p, route)->in[0] == hip_op(p, router)->out[0] &&
           hip_op(p, route + 1)->in[0] == hip_op(p, norm)->out[0] &&
           hip_op(p, route + 1)->in[1] == hip_op(p, route)->out[0];
}

static int norm_router_experts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_dense_fits(h, p, first) && hip_weight(p, first + 1, 0)->kind != WEIGHT_I8 &&
           routes(p, first, first + 1, first + 2) && hip_router_prepares(h, p, first + 3);
}

/* The norm fits ROUTER_INPUTS as it does NORM_PARTS_INPUTS. */
static void launch_norm_router_experts(struct hip *h, const struct be_plan *p, int first)
{
    hip_router(h, p, first, first + 1, first + 3);
    hip_route_experts(h, p, first + 2);
}

static int norm_router_shared_experts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_two_dense_fits(h, p, first) && routes(p, first, first + 1, first + 3) &&
           hip_router_prepares(h, p, first + 4);
}

static void launch_norm_router_shared_experts(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 2);
    g.norm = first;
    g.experts = first + 4;
    hip_dense_gemv(h, p, &g);
    hip_route_experts(h, p, first + 3);
}

/* The input of a plain linear is gated in its launch. */
static int glu_dense_fits(const struct hip *h, const struct be_plan *p, int first)
{
    const struct op *glu = hip_op(p, first);
    return glu->as.glu.activation == ACTIVATION_SILU && hip_glu_is_plain(p, first) &&
           dense_fits(h, p, first + 1) && hip_op(p, first + 1)->in[0] == glu->out[0] &&
           hip_only_for(p, first, 0, first + 1);
}

static void launch_glu_dense(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 1);
    g.gates = first;
    hip_dense_gemv(h, p, &g);
}

static int glu_dense_add_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return glu_dense_fits(h, p, first) && dense_add_fits(h, p, first + 1);
}

static void launch_glu_dense_add(struct hip *h, const struct be_plan *p, int first)
{
    struct hip_dense_gemv g = dense_of(first + 1, 1);
    g.add = first + 2;
    g.gates = first;
    hip_dense_gemv(h, p, &g);
}

static int glu_experts_fits(const struct hip *h, const struct be_plan *p, int first);

static int glu_experts_mix_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return glu_experts_fits(h, p, first) && hip_experts_mixes(h, p, first + 1) &&
           hip_op(p, first + 2)->in[0] == hip_op(p, first + 1)->out[0] &&
           hip_only_for(p, first, 0, first + 1) && hip_only_for(p, first + 1, 0, first + 2);
}

static void launch_glu_experts_mix(struct hip *h, const struct be_plan *p, int first)
{
    hip_experts_mix(h, p, first + 1);
}

static int experts_mix_shared_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return glu_experts_mix_fits(h, p, first) && glu_dense_add_fits(h, p, first + 3) &&
           hip_mixes_shared(p, first + 1);
}

static void launch_experts_mix_shared(struct hip *h, const struct be_plan *p, int first)
{
    hip_experts_mix_shared(h, p, first + 1);
}

/* ---- routers and other plain linears with the norm before them */
static int norm_parts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_takes_norm_parts(h, p, first, first + 1) &&
           hip_op(p, first + 1)->in[0] == hip_op(p, first)->out[0];
}

static void launch_norm_parts(struct hip *h, const struct be_plan *p, int first)
{
    hip_norm_parts(h, p, first, first + 1, NULL, 0);
}

/* The weighted sum comes behind the shared expert, with its addition and the norm. */
static int mix_parts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return hip_takes_mix_parts(h, p, first) && hip_only_for(p, first, 0, first + 3) &&
           hip_only_for(p, first + 2, 0, first + 3) &&
           hip_feeds_norm(p, first + 3, hip_width(p, first + 3));
}

static void launch_mix_parts(struct hip *h, const struct be_plan *p, int first)
{
    int glu = first + 1;
    if (glu_fits(h, p, glu)) {
        hip_linear(h, p, glu + 1, glu);
    } else {
        hip_glu(h, p, glu);
        hip_linear(h, p, glu + 1, -1);
    }
    hip_mix_parts(h, p, first);
}

/* The last norm and the head: only the rows that have logits. */
static int norm_gather_parts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return gathers(p, first) && hip_takes_norm_parts(h, p, first, first + 2);
}

static void launch_norm_gather_parts(struct hip *h, const struct be_plan *p, int first)
{
    hip_norm_parts(h, p, first, first + 2, NULL, 0);
}

static int norm_route_experts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_parts_fits(h, p, first) && routes(p, first, first + 1, first + 2);
}

static int norm_two_route_experts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    return norm_parts_fits(h, p, first) &&
           hip_op(p, first + 2)->in[0] == hip_op(p, first)->out[0] &&
           routes(p, first, first + 1, first + 3);
}

/* ---- experts with the activation of their inputs */
static int glu_experts_fits(const struct hip *h, const struct be_plan *p, int first)
{
    const struct op *glu = hip_op(p, first), *experts = hip_op(p, first + 1);
    (void)h;
    return experts->as.experts.each && experts->in[0] == glu->out[0] && hip_glu_is_plain(p, first);
}

static void launch_glu_experts(struct hip *h, const struct be_plan *p, int first)
{
    hip_experts(h, p, first + 1, first);
}

/* ---- single operations */
static void launch_linear(struct hip *h, const struct be_plan *p, int op)
{
    hip_linear(h, p, op, -1);
}

static void launch_attend(struct hip *h, const struct be_plan *p, int op)
{
    hip_attend(h, p, op, -1, 0);
}

static void launch_experts(struct hip *h, const struct be_plan *p, int op)
{
    hip_experts(h, p, op, -1);
}

const struct hip_pattern hip_patterns[] = {
    {"norm + gemv + glu", SINGLE_ROW, 3, {OP_NORM, OP_LINEAR, OP_GLU},
     norm_gemv_glu_fits, launch_norm_gemv_glu, K_q4_gemv_norm_glu},
    {"norm + gemv", SINGLE_ROW, 2, {OP_NORM, OP_LINEAR},
     norm_gemv_fits, launch_norm_gemv, K_q4_gemv_norm},
    {"rope + attend + gemv", SINGLE_ROW, 3, {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     rope_attend_gemv_fits, launch_rope_attend_gemv, K_q4_gemv_combine},
    {"attend + gemv", SINGLE_ROW, 2, {OP_ATTEND, OP_LINEAR},
     attend_gemv_fits, launch_attend_gemv, K_q4_gemv_combine},
    {"norm + router + linear + route + experts", SINGLE_ROW, 5,
     {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     norm_router_shared_experts_fits, launch_norm_router_shared_experts, K_dense_gemv_norm_f16},
    {"norm + router + route + experts", SINGLE_ROW, 4, {OP_NORM, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     norm_router_experts_fits, launch_norm_router_experts, K_dense_gemv_norm_f16},
    {"glu + experts + mix + shared expert", SINGLE_ROW, 6,
     {OP_GLU, OP_EXPERTS, OP_MIX, OP_GLU, OP_LINEAR, OP_ADD},
     experts_mix_shared_fits, launch_experts_mix_shared, K_q4_experts_mix_bf16},
    {"glu + experts + mix", SINGLE_ROW, 3, {OP_GLU, OP_EXPERTS, OP_MIX},
     glu_experts_mix_fits, launch_glu_experts_mix, K_q4_experts_mix},
    {"norm + dense gemv + glu", SINGLE_ROW, 3, {OP_NORM, OP_LINEAR, OP_GLU},
     norm_dense_glu_fits, launch_norm_dense_glu, K_dense_gemv_norm_f16},
    {"norm + two dense gemvs + conv", SINGLE_ROW, 4, {OP_NORM, OP_LINEAR, OP_LINEAR, OP_CONV},
     norm_two_dense_conv_fits, launch_norm_two_dense_conv, K_dense_gemv_norm_f16},
    {"norm + two dense gemvs", SINGLE_ROW, 3, {OP_NORM, OP_LINEAR, OP_LINEAR},
     norm_two_dense_fits, launch_norm_two_dense, K_dense_gemv_norm_f16},
    {"norm + gather + dense gemv", SINGLE_ROW, 3, {OP_NORM, OP_GATHER, OP_LINEAR},
     norm_gather_dense_fits, launch_norm_gather_dense, K_dense_gemv_norm_f16},
    {"norm + dense gemv", SINGLE_ROW, 2, {OP_NORM, OP_LINEAR},
     norm_dense_fits, launch_norm_dense, K_dense_gemv_norm_f16},
    {"glu + dense gemv + add", SINGLE_ROW, 3, {OP_GLU, OP_LINEAR, OP_ADD},
     glu_dense_add_fits, launch_glu_dense_add, K_dense_gemv_row_f16},
    {"glu + dense gemv", SINGLE_ROW, 2, {OP_GLU, OP_LINEAR},
     glu_dense_fits, launch_glu_dense, K_dense_gemv_row_f16},
    {"dense gemv + glu", SINGLE_ROW, 2, {OP_LINEAR, OP_GLU},
     dense_glu_fits, launch_dense_glu, K_dense_gemv_row_f16},
    {"dense gemv + add", SINGLE_ROW, 2, {OP_LINEAR, OP_ADD},
     dense_add_fits, launch_dense_add, K_dense_gemv_row_f16},
    {"dense gemv", SINGLE_ROW, 1, {OP_LINEAR}, dense_fits, launch_dense, K_dense_gemv_row_f16},
    {"gemv", SINGLE_ROW, 1, {OP_LINEAR}, gemv_fits, launch_gemv, K_q4_gemv_row},
    {"mix + shared expert + norm + plain linear", ANY_ROWS, 6,
     {OP_MIX, OP_GLU, OP_LINEAR, OP_ADD, OP_NORM, OP_LINEAR},
     mix_parts_fits, launch_mix_parts, K_mix_parts_i8},
    {"mix + norm + linear", ANY_ROWS, 3, {OP_MIX, OP_NORM, OP_LINEAR},
     mix_norm_fits, hip_mix_norm_linear, K_mix_norm_1024_4},
    {"norm + linear", ANY_ROWS, 2, {OP_NORM, OP_LINEAR}, norm_fits, launch_produced, K_COUNT},
    {"glu + linear", ANY_ROWS, 2, {OP_GLU, OP_LINEAR}, glu_fits, launch_produced, K_COUNT},
    {"rope + attend + linear", ANY_ROWS, 3, {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     rope_attend_fits, launch_rope_attend_linear, K_attend_pages_64},
    {"attend + linear", ANY_ROWS, 2, {OP_ATTEND, OP_LINEAR},
     attend_fits, launch_attend_linear, K_COUNT},
    {"rope + attend + glu", ANY_ROWS, 3, {OP_ROPE_STORE, OP_ATTEND, OP_GLU},
     rope_attend_glu_fits, launch_rope_attend_glu, K_attend_pages_64},
    {"rope + attend", ANY_ROWS, 2, {OP_ROPE_STORE, OP_ATTEND},
     rope_fits, launch_rope_attend, K_attend_pages_64},
    {"attend + glu", ANY_ROWS, 2, {OP_ATTEND, OP_GLU},
     attend_glu_fits, launch_attend_glu, K_COUNT},
    {"delta + norm + glu + plain linear", ANY_ROWS, 4, {OP_DELTA, OP_NORM, OP_GLU, OP_LINEAR},
     delta_gated_linear_fits, hip_delta_gated_linear, K_gated_parts_i8},
    {"delta + norm + glu", ANY_ROWS, 3, {OP_DELTA, OP_NORM, OP_GLU},
     delta_gated_fits, hip_delta_gated, K_delta_gated_128},
    {"norm + two linears + route + experts", ANY_ROWS, 5,
     {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     norm_two_route_experts_fits, hip_norm_route_experts, K_norm_parts_f16},
    {"norm + linear + route + experts", ANY_ROWS, 4, {OP_NORM, OP_LINEAR, OP_ROUTE, OP_EXPERTS},
     norm_route_experts_fits, hip_norm_route_experts, K_norm_parts_f16},
    {"norm + gather + plain linear", ANY_ROWS, 3, {OP_NORM, OP_GATHER, OP_LINEAR},
     norm_gather_parts_fits, launch_norm_gather_parts, K_norm_parts_f16},
    {"norm + plain linear", ANY_ROWS, 2, {OP_NORM, OP_LINEAR},
     norm_parts_fits, launch_norm_parts, K_norm_parts_f16},
    {"glu + experts", ANY_ROWS, 2, {OP_GLU, OP_EXPERTS},
     glu_experts_fits, launch_glu_experts, K_COUNT},
    {"embed", ANY_ROWS, 1, {OP_EMBED}, NULL, hip_embed, K_COUNT},
    {"angles", ANY_ROWS, 1, {OP_ANGLES}, NULL, hip_angles, K_COUNT},
    {"norm", ANY_ROWS, 1, {OP_NORM}, NULL, hip_norm, K_COUNT},
    {"linear", ANY_ROWS, 1, {OP_LINEAR}, NULL, launch_linear, K_COUNT},
    {"rope", ANY_ROWS, 1, {OP_ROPE_STORE}, NULL, hip_rope_store, K_COUNT},
    {"attend", ANY_ROWS, 1, {OP_ATTEND}, NULL, launch_attend, K_COUNT},
    {"glu", ANY_ROWS, 1, {OP_GLU}, NULL, hip_glu, K_COUNT},
    {"add", ANY_ROWS, 1, {OP_ADD}, NULL, hip_add, K_COUNT},
    {"conv", ANY_ROWS, 1, {OP_CONV}, NULL, hip_conv, K_COUNT},
    {"delta", ANY_ROWS, 1, {OP_DELTA}, NULL, hip_delta, K_COUNT},
    {"softcap", ANY_ROWS, 1, {OP_SOFTCAP}, NULL, hip_softcap, K_COUNT},
    {"gather", ANY_ROWS, 1, {OP_GATHER}, NULL, hip_gather, K_COUNT},
    {"argmax", ANY_ROWS, 1, {OP_ARGMAX}, NULL, hip_argmax, K_COUNT},
    {"route", ANY_ROWS, 1, {OP_ROUTE}, NULL, hip_route, K_COUNT},
    {"experts", ANY_ROWS, 1, {OP_EXPERTS}, NULL, launch_experts, K_COUNT},
    {"mix", ANY_ROWS, 1, {OP_MIX}, NULL, hip_mix, K_COUNT},
    {"top", ANY_ROWS, 1, {OP_TOP}, NULL, hip_top, K_COUNT},
    {"exact norm + gemv + glu", EXACT_SINGLE, 3, {OP_NORM, OP_LINEAR, OP_GLU},
     exact_norm_gemv_glu_fits, launch_exact_norm_gemv_glu, K_exact_gemv_norm_glu},
    {"exact norm + gemv", EXACT_SINGLE, 2, {OP_NORM, OP_LINEAR},
     exact_norm_gemv_fits, launch_exact_norm_gemv, K_exact_gemv_norm},
    {"exact rope + attend + gemv", EXACT_SINGLE, 3, {OP_ROPE_STORE, OP_ATTEND, OP_LINEAR},
     exact_rope_attend_gemv_fits, launch_exact_rope_attend_gemv, K_exact_gemv_combine},
    {"exact attend + gemv", EXACT_SINGLE, 2, {OP_ATTEND, OP_LINEAR},
     exact_attend_gemv_fits, launch_exact_attend_gemv, K_exact_gemv_combine},
    {"exact gemv", EXACT_SINGLE, 1, {OP_LINEAR}, gemv_fits, launch_exact_gemv, K_exact_gemv_row},
    {"exact rope + attend", EXACT_ROWS, 2, {OP_ROPE_STORE, OP_ATTEND},
     rope_fits, launch_exact_rope_attend, K_attend_chunk_int8_64},
    {"exact norm + linear", EXACT_ROWS, 2, {OP_NORM, OP_LINEAR},
     hip_exact_takes_norm, hip_exact_produced_linear, K_COUNT},
    {"exact glu + linear", EXACT_ROWS, 2, {OP_GLU, OP_LINEAR},
     hip_exact_takes_glu, hip_exact_produced_linear, K_COUNT},
    {"exact glu + experts", EXACT_ROWS, 2, {OP_GLU, OP_EXPERTS},
     hip_exact_takes_glu, hip_exact_produced_experts, K_COUNT},
    {"exact embed", EXACT_ROWS, 1, {OP_EMBED}, NULL, hip_embed, K_COUNT},
    {"exact angles", EXACT_ROWS, 1, {OP_ANGLES}, NULL, hip_exact_angles, K_COUNT},
    {"exact norm", EXACT_ROWS, 1, {OP_NORM}, NULL, hip_exact_norm, K_COUNT},
    {"exact linear", EXACT_ROWS, 1, {OP_LINEAR}, NULL, hip_exact_linear, K_COUNT},
    {"exact rope", EXACT_ROWS, 1, {OP_ROPE_STORE}, NULL, hip_rope_store, K_COUNT},
    {"exact attend", EXACT_ROWS, 1, {OP_ATTEND}, NULL, launch_exact_attend, K_COUNT},
    {"exact glu", EXACT_ROWS, 1, {OP_GLU}, NULL, hip_exact_glu, K_COUNT},
    {"exact add", EXACT_ROWS, 1, {OP_ADD}, NULL, hip_exact_add, K_COUNT},
    {"exact softcap", EXACT_ROWS, 1, {OP_SOFTCAP}, NULL, hip_exact_softcap, K_COUNT},
    {"exact conv", EXACT_ROWS, 1, {OP_CONV}, NULL, hip_conv, K_COUNT},
    {"exact delta", EXACT_ROWS, 1, {OP_DELTA}, NULL, hip_delta, K_COUNT},
    {"exact route", EXACT_ROWS, 1, {OP_ROUTE}, NULL, hip_route, K_COUNT},
    {"exact experts", EXACT_ROWS, 1, {OP_EXPERTS}, NULL, hip_exact_experts, K_COUNT},
    {"exact mix", EXACT_ROWS, 1, {OP_MIX}, NULL, hip_mix, K_COUNT},
    {"exact gather", EXACT_ROWS, 1, {OP_GATHER}, NULL, hip_gather, K_COUNT},
    {"exact argmax", EXACT_ROWS, 1, {OP_ARGMAX}, NULL, hip_argmax, K_COUNT},
    {"exact top", EXACT_ROWS, 1, {OP_TOP}, NULL, hip_top, K_COUNT},
};

const int hip_n_patterns = sizeof hip_patterns / sizeof *hip_patterns;

_Static_assert(sizeof hip_patterns / sizeof *hip_patterns <= MAX_PATTERNS,
               "struct hip counts launches of every pattern");
