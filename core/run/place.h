/* place.h: the memory of a plan on one open backend: packed weights, vectors, KV cache, states,
 * buffers. Must not know: steps, other places. */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "core/run/forward.h"

/* Sizes of a plan's parts. */
uint64_t place_kv_bytes(const struct step_plan *p, const struct backend *ops, enum kv_type kv,
                        int n_pages);
uint64_t place_seat_bytes(const struct step_plan *p, enum kv_type kv);
uint64_t place_state_bytes(const struct step_plan *p);
/* 0: a buffer that the plan of this backend does not use. */
size_t place_buffer_bytes(const struct step_plan *p, int i, const struct forward_options *o);
/* Bytes of one page of a cache, and of one slot of a state; 0: the plan does not use it. */
size_t place_page_bytes(const struct step_plan *p, const struct backend *ops, enum kv_type kv,
                        int i);
size_t place_slot_bytes(const struct step_plan *p, int i);
/* Bytes of weights that an operation reads for so many rows, which choose experts by chance. */
uint64_t place_op_reads(const struct step_plan *p, const struct op *op, int rows);
/* What the plan takes of the backend's memory. */
void place_need(const struct step_plan *p, const struct backend *ops,
                const struct forward_options *o, struct forward_need *n);
/* The configuration of a place's backend. */
struct be_config place_config(const struct forward_options *o);

/* Packs the weights that operations of *p use, unless m->lender has them, allocates the rest; *m
 * may hold a part of it after an error. */
int place_bind(struct be *be, const struct step_plan *p, const struct forward_options *o,
               struct plan_memory *m, struct err *e);
void place_release(struct be *be, const struct step_plan *p, struct plan_memory *m);

/* Parts of the buffers of what OP_ARGMAX and OP_SCORE find: the device's, and two of the host. */
enum { STEP_PARTS = 3 };

#endif
