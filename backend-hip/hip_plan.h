/* hip_plan.h: a compiled plan: a kernel for every linear and row class, and the groups of
 * operations that one launch computes (patterns of hip_patterns.c). Owns: the compiled plan. Must
 * not know: what a kernel does inside. */
#ifndef BACKEND_HIP_HIP_PLAN_H
#define BACKEND_HIP_HIP_PLAN_H

#include "backend-hip/hip_internal.h"

struct hip_pattern;

/* A match of a pattern: the operations from first on. */
struct hip_group {
    const struct hip_pattern *pattern;
    int first;
};

/* Linears of one operation that one launch computes; they read the same prepared input. */
struct hip_linear_run {
    int first, n;       /* index of the first; number */
    int prepares;       /* 0: reads the input that the run before has prepared */
    int half;           /* activations are fp16, whole or in parts; else fp32 */
    int parts;          /* activations are in split precision */
    int by_phase;       /* of parts: prompt rows have a launch of their own; 0: all rows have one */
    uint16_t *kernel[2]; /* [PHASE_DECODE, PHASE_PREFILL][row class] enum hip_kernel */
};

/* What computes the linears of an operation in steps of a single row: the general kernels, those of
 * hopper/linear_gemv.hip (exact_gemv.hip in the CPU's order) or of hopper/dense_gemv.hip. */
enum hip_gemv { GEMV_NONE, GEMV_CODES, GEMV_DENSE };

struct hip_linears {
    int n_runs; /* 0: not an OP_LINEAR */
    enum hip_gemv gemv;
    int adds; /* then it, an OP_MIX or an OP_ADD adds its result to the x of the norm that follows
               */
    struct hip_linear_run run[OP_OUTS];
};

/* Steps of a single decode row have groups of their own: GEMVs fused with the operations around
 * them. */
enum hip_regime { ANY_ROWS, SINGLE_ROW, REGIMES };
/* Of a pattern: any rows, a single decode row, in the CPU's order (hip_exact.c). */
enum { EXACT_ROWS = REGIMES, EXACT_SINGLE };

struct be_plan {
    const struct step_plan *plan; /* own */
    struct step_plan own;         /* the caller's in the order of launches (hip_order.h) */
    const struct plan_memory *memory;
    unsigned serial;             /* unique among the backend's plans, for replay */
    int replays;                 /* its launches can be replayed as a graph */
    size_t step_set_bytes;       /* hip_open_set_bytes */
    char *d_values;              /* [n_kv] tensor maps of the values of KV_F16, or NULL */
    struct hip_linears *linears; /* [n_ops] */
    uint16_t *kernels;           /* memory of hip_linear_run.kernel */
    struct hip_group *group[REGIMES];
    int n_groups[REGIMES], n_body[REGIMES]; /* groups; groups before plan->n_body */
};

static inline const struct op *hip_op(const struct be_plan *p, int op) { return &p->plan->op[op]; }

/* Device addresses of an operation's buffers and weights; NULL: the operation has none. */
static inline void *hip_in(const struct be_plan *p, int op, int i)
{
    int b = p->plan->op[op].in[i];
    return b < 0 ? NULL : p->memory->buffer[b];
}

static inline void *hip_out(const struct be_plan *p, int op, int i)
{
    int b = p->plan->op[op].out[i];
    return b < 0 ? NULL : p->memory->buffer[b];
}

static inline const float *hip_vector(const struct be_plan *p, int op, int i)
{
    int w = p->plan->op[op].w[i];
    return w < 0 ? NULL : p->memory->vector[w];
}

static inline const struct be_linear *hip_weight(const struct be_plan *p, int op, int i)
{
    return p->memory->linear[p->plan->op[op].w[i]];
}

/* Elements of a row of the operation's first input. */
static inline int hip_width(const struct be_plan *p, int op)
{
    return (int)(p->plan->buffer[p->plan->op[op].in[0]].row_bytes / sizeof(float));
}

/* The number of rows of a buffer in this step; *n_decode: decode rows, which come first. */
static inline int hip_rows(const struct hip *h, const struct be_plan *p, int buffer, int *n_decode)
{
    const struct hip_shape *s = &h->shape;
    switch (p->plan->buffer[buffer].rows) {
    case ROWS_STEP: *n_decode = s->n_decode; return s->n_rows;
    case ROWS_LOGITS: *n_decode = s->n_decode_logits; return s->n_logits;
    default: *n_decode = 0; return s->n_top;
    }
}

/* Whether this step has a single row, a decode row. */
static inline int hip_single(const struct hip *h)
{
    return h->shape.n_rows == 1 && h->shape.n_decode == 1;
}

/* ---- hip_fuse.c */
/* Fills the groups of a plan from the table of patterns. 0 or -1. */
int hip_fuse(struct hip *h, struct be_plan *p, struct err *e);
void hip_launch_group(struct hip *h, const struct be_plan *p, const struct hip_group *g);

/* ---- hip_linear.c */
/* Chooses the kernels of every run and row class of the plan's linears. 0 or -1. */
int hip_compile_linears(struct hip *h, struct be_plan *p, struct err *e);
/* Launches the linears of an operation. producer: the operation before it whose launch also
 * prepares their input (OP_NORM, OP_GLU, or OP_ATTEND with its combination left); -1: none. */
void hip_linear(struct hip *h, const struct be_plan *p, int op, int producer);
/* Whether one launch can compute a norm and prepare the input of the plain linears of op, which
 * follows it, or the gather of its rows; the launch, then the linears. half: the preparation of the
 * first n_half rows as fp16 beside it; n_half 0: none. */
int hip_takes_norm_parts(const struct hip *h, const struct be_plan *p, int norm, int op);
void hip_norm_parts(struct hip *h, const struct be_plan *p, int norm, int op,
                    const struct prepare_args *half, int n_half);
/* The same where the norm's row is completed by a weighted sum of experts and the result of a
 * shared expert, operations mix .. mix + 3 (OP_MIX, OP_GLU, OP_LINEAR, OP_ADD), of which the first
 * and the last are in the launch, too. */
int hip_takes_mix_parts(const struct hip *h, const struct be_plan *p, int mix);
void hip_mix_parts(struct hip *h, const struct be_plan *p, int mix);
/* Whether one launch can norm groups, gate them and prepare the input of plain linears, operations
 * norm .. norm + 2; the launch, then the linears. */
int hip_takes_gated_parts(const struct hip *h, const struct be_plan *p, int norm);
void hip_gated_parts(struct hip *h, const struct be_plan *p, int norm);
/* Whether linears b read the input that has been prepared for linears a, with one launch; the
 * launch. */
int hip_linears_alike(const struct be_plan *p, int a, int b);
void hip_linear_prepared(struct hip *h, const struct be_plan *p, int op);
/* Whether inputs of bf16 weights are two parts, rounded to nearest, instead of three; whether the
 * inputs of a plain linear are in the parts that hopper/ has for single rows and routers. */
int hip_rounds_parts(const struct hip *h);
int hip_has_f16_parts(const struct hip *h, const struct be_linear *w);
/* What a launch needs to prepare the input of the plain linears of op in split precision. */
struct prepare_args hip_parts_args(const struct hip *h, const struct be_plan *p, int op);
/* Whether a producer's launch can include the preparation: fp16 activations, one preparation for
 * all linears. */
int hip_takes_producer(const struct be_plan *p, int op);

/* Whether a kernel of operation `of` (FOR_LINEAR, FOR_EXPERTS) computes such a linear or stack in
 * rows of this phase. */
int hip_linear_applies(const struct hip *h, enum hip_kernel k, enum kernel_op of,
                       enum linear_phase phase, const struct be_linear *w);
/* The number of linears or stacks of an operation from number i on that one launch computes. */
int hip_n_together(const struct hip *h, const struct be_plan *p, int op, int i);

/* Launches a weighted sum of experts, the norm after it and the linears of that, operations mix ..
 * mix + 2: sum and norm together where a kernel for so few rows can. */
void hip_mix_norm_linear(struct hip *h, const struct be_plan *p, int mix);

/* ---- hip_experts.c: mixtures of experts */
/* Bytes of scratch for one plan, in the order of struct hip_experts. */
void hip_experts_need(const struct be_config *c, const struct step_plan *p,
                      size_t need[EXPERTS_SCRATCH]);
void hip_route(struct hip *h, const struct be_plan *p, int op);
/* Launches the stacks of an operation. glu: the OP_GLU before it in the same launch, -1: none;
 * EXPERTS_PREPARED: the input of decode rows is prepared. */
enum { EXPERTS_PREPARED = -2 };
void hip_experts(struct hip *h, const struct be_plan *p, int op, int glu);
/* Whether the launch of a router's norm can prepare the input of the stacks of op. */
int hip_router_prepares(const struct hip *h, const struct be_plan *p, int op);
/* Launches a norm and the router after it, op, of a single row, which prepare the input of the
 * stacks of `experts`. */
void hip_router(struct hip *h, const struct be_plan *p, int norm, int op, int experts);
/* Launches norm, router, perhaps other linears of the norm, choice of experts and the stacks after
 * it, operations from `norm` on, where the norm prepares the inputs of the router, of linears alike
 * and of decode rows' experts. */
void hip_norm_route_experts(struct hip *h, const struct be_plan *p, int norm);
/* Launches the choice of experts, op, of a single row and the stacks after it, whose input is
 * prepared. */
void hip_route_experts(struct hip *h, const struct be_plan *p, int op);
/* Whether one launch can compute the stack of op with the OP_GLU before it and the OP_MIX after it
 * in steps of a single row; the launch. */
int hip_experts_mixes(const struct hip *h, const struct be_plan *p, int op);
void hip_experts_mix(struct hip *h, const struct be_plan *p, int op);
/* Whether the launch can include the last linear of a shared expert and its addition, operations op
 * + 3 and op + 4 behind an OP_GLU that fits; the launch. */
int hip_mixes_shared(const struct be_plan *p, int op);
void hip_experts_mix_shared(struct hip *h, const struct be_plan *p, int op);
struct mix_args hip_mix_args(const struct hip *h, const struct be_plan *p, int op);
void hip_mix(struct hip *h, const struct be_plan *p, int op);
/* Groups all slots of a step by expert, whatever their phase, in tiles of `tile` places; id
 * [slots]. Returns the largest number of tiles. */
size_t hip_group_slots(struct hip *h, const struct be_linear *w, const int *id, int slots, int tile,
                       struct expert_groups *groups);
/* At the begin of a run: results of earlier runs are grouped anew. */
void hip_forget_grouping(struct hip *h);

/* ---- hip_gemv.c: linears of a single decode row. */
/* Which GEMV kernels can compute the operation's linears. */
enum hip_gemv hip_gemv_of(const struct hip *h, const struct be_plan *p, int op);
/* Launches the linears of op as a GEMV. norm, attend, glu: the operation in the same launch, -1:
 * none; attend: its combination, which must fit (hip_gemv_combines). */
void hip_gemv(struct hip *h, const struct be_plan *p, int op, int norm, int attend, int glu);
/* The parts and blocks of l, of which n_parts is set and n_blocks 0; with glu the blocks of the first
 * part alone. 1: the result goes to the residual, and part[0].y is that. */
int hip_gemv_parts(const struct be_plan *p, int op, int glu, struct linear_args *l);
int hip_gemv_combines(const struct hip *h, const struct be_plan *p, int attend);

/* A launch of dense_gemv.hip: the linears of one or two operations of one input, and the operations
 * around them, -1: none. */
struct hip_dense_gemv {
    int op, n; /* the first OP_LINEAR, number */
    int norm;
    int glu, add; /* of the result */
    int experts;  /* the OP_EXPERTS whose input the norm prepares */
    int gates;    /* the OP_GLU of the input */
    int conv;     /* the OP_CONV of the first result; hip_dense_convolves() */
};

/* Whether one launch can compute n OP_LINEARs from op on. */
int hip_dense_together(const struct be_plan *p, int op, int n);
/* Whether it can add their result as operation add has it. */
int hip_dense_adds(const struct be_plan *p, int op, int add);
/* Whether it can include operation conv of its first result, in the launch of n OP_LINEARs from op
 * on. */
int hip_dense_convolves(const struct be_plan *p, int op, int n, int conv);
void hip_dense_gemv(struct hip *h, const struct be_plan *p, const struct hip_dense_gemv *of);

/* ---- hip_attend.c */
/* Whether prompts have a kernel with the query_halves of the options. 0 or -1. */
int hip_check_queries(const struct hip *h, const struct op *attend, struct err *e);
/* Makes the tensor maps of a plan where its prompts need some. 0 or -1. */
int hip_map_values(struct hip *h, struct be_plan *p, struct err *e);
/* Whether attention can include the rotation and storage of operation rope. */
int hip_attend_rotates(const struct hip *h, const struct be_plan *p, int rope, int attend);
/* Attention. rope: the rotation that it includes, -1: none. leave: the next launch combines the KV
 * splits; only if hip_leaves_combine(). */
void hip_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave);
/* Whether attention can include its gate, the OP_GLU after it; both. */
int hip_attend_gates(const struct be_plan *p, int op);
void hip_attend_gated(struct hip *h, const struct be_plan *p, int op, int rope);
void hip_rotate_in(struct attend_kernel_args *a, const struct rope_kernel_args *rope);
void hip_skip_rows(struct attend_kernel_args *a, size_t row);
struct attend_kernel_args hip_attend_args(const struct hip *h, const struct be_plan *p, int op);
/* Decode rows whose partial results have room at a time. */
int hip_rows_at_once(const struct hip *h);
/* The kernel of nvidia/attend_chunk.hip for an operation's decode rows; K_COUNT: none */
enum hip_kernel hip_chunk_kernel(const struct hip *h, const struct op *attend);
/* chunk, or hopper/attend_warp.hip in its place for a launch of this grid */
enum hip_kernel hip_warp_kernel(const struct hip *h, const struct heads *g, enum hip_kernel chunk,
                                const struct hip_blocks *grid);
/* Its launch grid, and that of attend_decode_mma.hip, for n rows; the work list of the rows that are
 * launched together from row `row` on, or NULL. */
struct hip_blocks hip_pages_grid(const struct hip *h, const struct heads *g, size_t n);
const int32_t *hip_row_work(const struct hip *h, size_t row);
int hip_leaves_combine(const struct hip *h, const struct be_plan *p, int op);
struct combine_args hip_combine_args(const struct hip *h, const struct be_plan *p, int op);

/* ---- hip_rope.c */
struct rope_kernel_args hip_rope_args(const struct hip *h, const struct be_plan *p, int op);
/* The arguments for rows from row `row` on. */
struct rope_kernel_args hip_rope_from(const struct rope_kernel_args *all, int row);
struct hip_rope_rows {
    int op;
    int without_decode;  /* attention rotates and stores decode rows */
    int keys_of_prompts; /* attention rotates the queries of prompt rows */
};
/* Rotation of queries and keys, storage of keys and values, with the jobs of open pages. */
void hip_rope_rows(struct hip *h, const struct be_plan *p, const struct hip_rope_rows *r);
void hip_rope_store(struct hip *h, const struct be_plan *p, int op);

/* ---- hip_open.c: open pages of KV_INT4 */
struct open_pages hip_open_pages(const struct hip *h, const struct be_plan *p, int kv, int set);
/* Launches around the stores of an OP_ROPE_STORE: copies pages that the step goes beyond from their
 * seats; packs those that it fills. by_attention: attention packs those of decode rows; by_pages:
 * nvidia/rope_pages.hip those whose rows are all prompt rows of this step */
void hip_open_begin(struct hip *h, const struct be_plan *p, int op);
void hip_open_pack(struct hip *h, const struct be_plan *p, int op, int by_attention,
                   int by_pages);

/* ---- hip_state.c */
/* Whether the kernels take the operation's sizes. 0 or -1. */
int hip_check_state(const struct op *op, struct err *e);
struct conv_args hip_conv_args(const struct hip *h, const struct be_plan *p, int op);
void hip_conv(struct hip *h, const struct be_plan *p, int op);
void hip_delta(struct hip *h, const struct be_plan *p, int op);
/* Whether one launch can compute the delta rule, the norm of its heads and their gate, operations
 * op .. op + 2, for sequences of one row; their launches. */
int hip_delta_gates(const struct be_plan *p, int op);
void hip_delta_gated(struct hip *h, const struct be_plan *p, int op);
/* The same with the linear that follows, of hip_takes_gated_parts(). */
void hip_delta_gated_linear(struct hip *h, const struct be_plan *p, int op);

/* ---- hip_exact.c: operations in the CPU's order */
void hip_exact_angles(struct hip *h, const struct be_plan *p, int op);
void hip_exact_norm(struct hip *h, const struct be_plan *p, int op);
void hip_exact_linear(struct hip *h, const struct be_plan *p, int op);
/* Whether one launch can compute the operation and quantize its result for the linears after it;
 * both operations. */
int hip_exact_takes_norm(const struct hip *h, const struct be_plan *p, int norm);
int hip_exact_takes_glu(const struct hip *h, const struct be_plan *p, int glu);
void hip_exact_produced_linear(struct hip *h, const struct be_plan *p, int producer);
/* Attention. rope: the rotation that it includes where it can, hip_rope_rows() elsewhere; -1:
 * none. leave: the next launch combines the chunks, of a single decode row only. */
void hip_exact_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave);
/* Attention of the prompt rows, in the CPU's order unless --act f32 reads integers: kernels that
 * neighbouring rows share; in f16 and f32 for heads that no other kernel takes. */
void hip_attend_rows(struct hip *h, const struct attend_kernel_args *all);
void hip_exact_glu(struct hip *h, const struct be_plan *p, int op);
void hip_exact_add(struct hip *h, const struct be_plan *p, int op);
void hip_exact_experts(struct hip *h, const struct be_plan *p, int op);
void hip_exact_produced_experts(struct hip *h, const struct be_plan *p, int producer);
void hip_exact_softcap(struct hip *h, const struct be_plan *p, int op);

/* ---- hip_exact_gemv.c */
/* Whether a GEMV can compute the operation's linears of a single decode row in the CPU's order, and
 * combine the chunks of the attention before them; the launch, as hip_gemv has it. */
int hip_exact_is_gemv(const struct hip *h, const struct be_plan *p, int op);
int hip_exact_combines(const struct hip *h, const struct be_plan *p, int attend);
void hip_exact_gemv(struct hip *h, const struct be_plan *p, int op, int norm, int attend, int glu);

/* ---- hip_vector.c */
struct norm_args hip_norm_args(const struct hip *h, const struct be_plan *p, int op);
struct angles_args hip_angles_args(const struct hip *h, const struct be_plan *p, int op);
struct add_args hip_add_args(const struct hip *h, const struct be_plan *p, int op);
struct glu_any_args hip_glu_args(const struct hip *h, const struct be_plan *p, int op);
void hip_norm(struct hip *h, const struct be_plan *p, int op);
void hip_glu(struct hip *h, const struct be_plan *p, int op);
/* Whether the launches that include other operations know the norm, the activation. */
int hip_norm_is_plain(const struct be_plan *p, int op);
int hip_glu_is_plain(const struct be_plan *p, int op);
void hip_add(struct hip *h, const struct be_plan *p, int op);
void hip_softcap(struct hip *h, const struct be_plan *p, int op);
void hip_embed(struct hip *h, const struct be_plan *p, int op);
void hip_angles(struct hip *h, const struct be_plan *p, int op);
void hip_gather(struct hip *h, const struct be_plan *p, int op);
void hip_argmax(struct hip *h, const struct be_plan *p, int op);
void hip_top(struct hip *h, const struct be_plan *p, int op);

#endif
