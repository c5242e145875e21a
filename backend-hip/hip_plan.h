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
    case ROWS_SCORES: *n_decode = 0; return s->n_scores;
    default: *n_decode = 0; return s->n_top;
    }
}

/* Whether this step has a single row, a decode row. */
static inline int hip_single(const struct hip *h)
{
    return h->shape.n_rows == 1 && h->shape.n_decode == 1 && !h->shape.d_kept;
}

/* ---- hip_fuse.c */
/* Fills the groups of a plan from the table of patterns. 0 or -1. */
int hip_fuse(struct hip *h, struct be_plan *p, struct err *e);
void hip_launch_group(struct hip *h, const struct be_plan *p, const struct hip_group *g);

#endif
