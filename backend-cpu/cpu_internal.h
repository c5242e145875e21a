/* cpu_internal.h: what cpu.c (memory, scratch, plans) and cpu_ops.c (operations) share. */
#ifndef BACKEND_CPU_CPU_INTERNAL_H
#define BACKEND_CPU_CPU_INTERNAL_H

#include "backend-cpu/cpu.h"

#include "backend-cpu/kernels.h"
#include "core/base/pool.h"
#include "core/model/modelfile.h"

struct be_linear {
    struct linear w; /* read straight from the mapping: nothing is packed */
};

/* Rows of one sequence that one attend task takes. */
struct attend_block {
    int row, n_rows, seq;
};

struct be_plan {
    const struct step_plan *plan;
    const struct plan_memory *memory;
};

struct cpu {
    struct be be;
    struct be_config config;
    const struct cpu_kernels *kernels;
    struct pool *pool;
    const struct batch *batch;
    int max_k, max_kv; /* scratch sizes: packed inputs, elements of a row of keys */
    float *packed;     /* [max_rows * max_k] activations as q4 wants them */
    int8_t *digit;     /* [max_rows * max_k * 2] the same as q4i wants them, with their */
    float *act_scale;  /* [max_rows * max_k / MF_GROUP_MULTIPLE] scales and */
    int32_t *act_sum;  /* [the same] sums */
    float *rotated;    /* [max_rows][max_kv] keys before they are stored */
    char *scratch;     /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
    struct attend_block *blocks; /* [max_rows] of this step, for heads in groups of: */
    int n_blocks, block_group;   /* query heads to a KV head; 0: not cut yet */
    char description[224];
};

/* Bytes of a page of KV_PAGE positions: keys and values of every KV head. */
static inline size_t cpu_kv_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    return (size_t)kv->n_kv_heads * 2 * KV_PAGE * (size_t)kv->head_dim * kv_bytes(t);
}

/* Runs one operation of a compiled plan on c->batch. */
void cpu_run_op(struct cpu *c, const struct be_plan *p, const struct op *op);

#endif
