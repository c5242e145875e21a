/* cpu_internal.h: what cpu.c (memory, scratch, plans) and the files of the operations (cpu_ops.c,
 * cpu_attend.c, cpu_states.c ..) share. */
#ifndef BACKEND_CPU_CPU_INTERNAL_H
#define BACKEND_CPU_CPU_INTERNAL_H

#include "backend-cpu/cpu.h"

#include "backend-cpu/kernels.h"
#include "core/base/pool.h"
#include "core/model/modelfile.h"

struct be_linear {
    struct linear w; /* read straight from the mapping: nothing is packed */
};

/* Rows of one sequence that one attend task takes, and the chunks of positions that they see. */
struct attend_block {
    int row, n_rows, seq;
    int chunk0, chunk1;
    int cut;     /* 1: its chunks are in several parts, and kept */
    size_t kept; /* offset in the floats of struct cpu in which chunks are kept */
};

/* Chunks chunk0 .. chunk1-1 of a block; each of its heads has one task for them. */
struct attend_part {
    int block, chunk0, chunk1;
};

struct be_plan {
    const struct step_plan *plan;
    const struct plan_memory *memory;
};

/* What KV_INT4 has beside its pages (cpu_open.c). */
struct open_pages;

/* Scratch of OP_CHOOSE (cpu_choose.c). */
struct chosen_scratch;

/* Scratch of OP_EXPERTS (cpu_experts.c). */
struct experts_scratch;

struct cpu {
    struct be be;
    struct be_config config;
    const struct cpu_kernels *kernels;
    struct pool *pool;
    const struct batch *batch;
    int max_k, max_kv; /* scratch sizes: packed inputs, elements of a row of keys */
    int max_delta;     /* cpu_delta_floats of a row */
    float *packed;     /* [max_rows * max_k] activations as q4 wants them */
    int8_t *digit;     /* [max_rows * max_k * 2] the same as q4i wants them, with their */
    float *act_scale;  /* [max_rows * max_k / MF_GROUP_MULTIPLE] scales and */
    int32_t *act_sum;  /* [the same] sums */
    float *rotated;    /* [max_rows][max_kv] keys before they are stored */
    struct experts_scratch *experts;
    float *delta;      /* [max_rows * max_delta] q and k over their norms and gates of OP_DELTA */
    char *scratch;     /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
    float *strips; /* [n_threads][strip_floats] gate and up of one task, [STRIP_ROWS][64] each */
    size_t strip_floats;
    struct attend_block *blocks; /* [max_rows] of this step (cpu_attend.c) */
    struct attend_part *parts;
    float *kept;
    int n_blocks, n_parts;
    struct heads cut_for; /* n_heads 0: not cut yet */
    int cut_window, cut_chosen;
    struct open_pages *open; /* of KV_INT4 (cpu_open.c) */
    struct chosen_scratch *chosen;
    char description[224];
};

/* An operation with the memory that its numbers stand for. */
struct call {
    struct cpu *c;
    const struct be_plan *p;
    const struct op *op;
};

static inline void *in_of(const struct call *t, int i)
{
    return t->op->in[i] < 0 ? NULL : t->p->memory->buffer[t->op->in[i]];
}
static inline void *out_of(const struct call *t, int i)
{
    return t->p->memory->buffer[t->op->out[i]];
}
static inline const float *vector_of(const struct call *t, int i)
{
    return t->op->w[i] < 0 ? NULL : t->p->memory->vector[t->op->w[i]];
}
static inline const struct linear *linear_of(const struct call *t, int i)
{
    return &t->p->memory->linear[t->op->w[i]]->w;
}

static inline int rows_of(const struct call *t, int buffer)
{
    const struct batch *b = t->c->batch;
    enum rows_of of = t->p->plan->buffer[buffer].rows;
    return of == ROWS_STEP ? b->n_rows : of == ROWS_LOGITS ? b->n_logits : b->n_top;
}

static inline int width_of(const struct call *t, int buffer)
{
    return (int)(t->p->plan->buffer[buffer].row_bytes / sizeof(float));
}

/* Bytes of a page of KV_PAGE positions: keys and values of every KV head. */
static inline size_t cpu_kv_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    return kv_format_page_bytes(t, kv);
}

/* Packs one row of x in the order in which q4 takes it (kernels.h), as row `row` of `rows` at `to`.
 * round_f16: rounds as ACT_F16 says. */
void cpu_pack_row(const struct linear *w, const float *x, float *to, int rows, int row,
                  int round_f16);
/* 1 when the two can read the same packed activations. */
int cpu_same_input(const struct linear *a, const struct linear *b);
/* Outputs n0 .. n1-1 as a linear; n0 is a multiple of 16 where it has codes. */
struct linear cpu_strip_of(struct linear w, int n0, int n1);

/* q4_digits.low of a linear. */
static inline int cpu_low(const struct cpu *c, const struct linear *w)
{
    return act_formats[c->config.act].low ? linear_low(w) : 0;
}

/* q4_digits.largest of a row of activations. */
static inline int32_t cpu_row_largest(const struct cpu *c, const struct linear *w, const float *x)
{
    return act_formats[c->config.act].by_row ? kv_largest(x, w->in) : 0;
}

/* The work of one row, on any thread. */
struct row_work {
    void (*fn)(void *job, int row, int thread);
    void *job;
};

/* Rows of a part whose gate and up stay with a thread, and where they begin. */
enum { STRIP_ROWS = 256, STRIP_OFF_LINE = 4 };

/* OP_LINEAR. before: makes the rows of the input, or NULL; glu: an OP_GLU of its two results, which
 * no other operation reads, or NULL. */
void cpu_run_linear(const struct call *t, const struct row_work *before, const struct call *glu);
struct cpu_glu cpu_glu_of(const struct op *op);

/* cpu_ops.c: calls fn for each of so many rows of `width` elements, on this thread alone where that
 * takes no longer than to start others. */
void cpu_run_rows(const struct cpu *c, int rows, int width, void (*fn)(void *, int, int),
                  void *arg);
/* cpu_attend.c: memory for the parts of a step's attention, once a pool is open. */
int cpu_attend_open(struct cpu *c, struct err *e);
void cpu_attend_free(struct cpu *c);
void cpu_run_attend(const struct call *t);

/* cpu_choose.c. Scratch for the chosen positions of a plan: c->chosen grows where it is smaller. */
int cpu_choose_grow(struct cpu *c, const struct step_plan *p, struct err *e);
void cpu_choose_free(struct cpu *c);
uint64_t cpu_choose_bytes(const struct be_config *g, const struct step_plan *p);
void cpu_run_choose(const struct call *t);
/* The chosen keys of a row for OP_ATTEND of t, as pages 0, 1 .. of KV_INT8 where they are integers,
 * in memory of the thread; its scratch is overwritten. */
struct chosen_keys {
    const char *pages;
    size_t page_bytes;
    const int32_t *table;
};
struct chosen_keys cpu_chosen_keys(const struct call *t, int row, int thread);

/* cpu_experts.c. Scratch for the experts of a plan: c->experts grows where it is smaller. */
int cpu_experts_grow(struct cpu *c, const struct step_plan *p, struct err *e);
void cpu_experts_free(struct cpu *c);
uint64_t cpu_experts_bytes(const struct step_plan *p, int max_rows);
/* An error for a size that is not supported. */
int cpu_experts_check(const struct step_plan *p, const struct op *op, struct err *e);
void cpu_run_route(const struct call *t);
void cpu_run_experts(const struct call *t);
void cpu_run_mix(const struct call *t);

/* cpu_open.c, KV_INT4 only. Memory for the step pages of a plan: c->open grows where it is smaller.
 */
int cpu_open_grow(struct cpu *c, const struct step_plan *p, struct err *e);
void cpu_open_free(struct cpu *c);
uint64_t cpu_open_bytes(const struct be_config *g, const struct step_plan *p);
/* Numbers the open pages of c->batch. */
void cpu_open_step(struct cpu *c);
/* Before OP_ROPE_STORE stores into open pages: moves those that a step goes beyond. After it: packs
 * the pages that are full. */
void cpu_open_begin(const struct call *t, int kv);
void cpu_open_pack(const struct call *t, int kv);
/* The open page of the cache in which sequence seq of the batch has its page-th page. */
char *cpu_open_page(const struct call *t, int kv, int seq, int page);

/* Floats of a row that OP_DELTA keeps beside its inputs: q, k of every key head; g, beta of every
 * value head. */
static inline int cpu_delta_floats(const struct op *op)
{
    return 2 * op->as.delta.key_heads * op->as.delta.key_dim +
           op->as.delta.value_heads * (delta_decays(op) + delta_steps(op));
}

/* Error: a size that cpu_states.c does not support. */
int cpu_states_check(const struct op *op, struct err *e);
void cpu_run_conv(const struct call *t);
void cpu_run_delta(const struct call *t);

/* Runs operations 0 .. n-1 of a compiled plan on c->batch. */
void cpu_run_ops(struct cpu *c, const struct be_plan *p, int n);

#endif
