/* hip_experts.h: mixtures of experts: the choice of experts, the slots of a step in tiles, linears
 * of stacks, weighted sums. Owns: the grouping of a step's slots. */
#ifndef BACKEND_HIP_HIP_EXPERTS_H
#define BACKEND_HIP_HIP_EXPERTS_H

#include "backend-hip/hip_plan.h"

/* The slots of a phase, laid out in tiles for a kernel. */
struct hip_slots {
    enum linear_phase phase;
    int row0, rows;
    int grouped;          /* 0: every slot is a tile */
    size_t place0, tiles; /* its first place; the largest number of tiles */
    const struct hip_kernel_row *kernel;
    struct expert_groups groups;
};

/* Bytes of scratch for one plan, in the order of struct hip_experts. */
void hip_experts_need(const struct be_config *c, const struct step_plan *p,
                      size_t need[EXPERTS_SCRATCH]);
void hip_route(struct hip *h, const struct be_plan *p, int op);
/* Launches the stacks of an operation. glu: the OP_GLU before it in the same launch, -1: none;
 * EXPERTS_PREPARED: the input of decode rows is prepared. */
enum { EXPERTS_PREPARED = -2 };
void hip_experts(struct hip *h, const struct be_plan *p, int op, int glu);
void hip_mix(struct hip *h, const struct be_plan *p, int op);
/* The kernel of stacks like w for so many slots of a phase. */
const struct hip_kernel_row *hip_experts_kernel(const struct hip *h, enum linear_phase phase,
                                                const struct be_linear *w, size_t slots);
/* Lays out the slots of both phases for a stack; their groupings lie one behind the other in
 * scratch. */
void hip_lay_out_slots(const struct hip *h, const struct be_plan *p, int op,
                       const struct be_linear *w, struct hip_slots slots[2]);
/* What a grouping of slots is known by: two of equal ones have the same result. */
struct hip_grouping hip_grouping_of(const struct be_linear *w, const struct hip_slots slots[2]);
/* The arguments for all stacks of an operation on the slots of a phase, by blocks of so many
 * outputs. */
struct experts_args hip_experts_args(const struct hip *h, const struct be_plan *p, int op,
                                     const struct hip_slots *s, int outputs);
/* Groups all slots of a step by expert, whatever their phase, in tiles of `tile` places; id
 * [slots]. Returns the largest number of tiles. */
size_t hip_group_slots(struct hip *h, const struct be_linear *w, const int *id, int slots, int tile,
                       struct expert_groups *groups);
/* [rows][top_k] the expert of every slot; where the operation has none, of slot j expert j. */
const int *hip_expert_ids(const struct hip *h, const struct be_plan *p, int op);
/* Memory for the latter, of a plan. */
int hip_reserve_heads(struct hip *h, const struct step_plan *p, struct err *e);
size_t hip_heads_bytes(const struct be_config *c, const struct step_plan *p);
/* At the begin of a run: results of earlier runs are grouped anew. */
void hip_forget_grouping(struct hip *h);

#endif
