/* plan.h: the array of operations of a step, with its buffers and weights.
 * Owns: the arrays and the liveness of every result. Must not know: names of tensors, backends. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/base/err.h"
#include "core/step/op.h"

struct step_plan {
    struct op *op;
    int n_ops,
        n_body; /* operations 0 .. n_body-1 run in every step, the rest where logits are read */
    struct buffer *buffer;
    int n_buffers;
    struct weight *weight;
    int n_weights;
    struct kv_cache *kv;
    int n_kv, n_step_sets; /* step_set of every operation is less */
    struct state *state;
    int n_states;
    int best, logits, top, score; /* buffers that are read after a step; -1: none */
    int hidden;            /* buffer of the last norm's rows [rows][dim] of the step; -1: none */
    int keeps_hidden;      /* it is read after every step, too (step_plan_keep_hidden) */
    /* operations of their own that draft tokens, or none: step_plan_draft() */
    struct op *draft;
    int n_draft, draft_body; /* 0 .. draft_body-1 run in every step of them */
    int draft_hidden, draft_last, draft_best, draft_logits; /* buffers, see step_plan_draft() */
    const struct step_plan *whole; /* of a slice: the plan that it is of, else NULL */
    int first;                     /* and the number of its first operation there */
    int is_part; /* of a split: it names weights, buffers, caches that no operation uses */
};

/* The device addresses and packed linears of a plan's numbers on one backend. */
struct be_linear;
struct plan_memory {
    const struct plan_memory *lender; /* has the linears and vectors; NULL: this one */

    void **buffer;             /* [n_buffers] */
    struct be_linear **linear; /* [n_weights], NULL for a vector */
    float **vector;            /* [n_weights], NULL for a linear */
    void **kv;                 /* [n_kv] pages */
    void **seat;               /* [n_kv] open pages of the seats (kv_open.h), or NULL */
    void **state;              /* [n_states] slots of state.bytes */
    void **kept; /* [n_states] of each seat STATE_DRAFTS times backend.keeps_drafts rows of
                    kept_bytes, or NULL */
};

void step_plan_init(struct step_plan *p);
void step_plan_free(struct step_plan *p);
/* Each appends a copy and returns its number; -1: out of memory. */
int step_plan_add_op(struct step_plan *p, const struct op *op, struct err *e);
int step_plan_add_draft(struct step_plan *p, const struct op *op, struct err *e);
int step_plan_add_buffer(struct step_plan *p, const char *name, enum rows_of rows, size_t row_bytes,
                         struct err *e);
int step_plan_add_weight(struct step_plan *p, const struct weight *w, struct err *e);
int step_plan_add_kv(struct step_plan *p, struct kv_cache kv, struct err *e);
int step_plan_add_state(struct step_plan *p, struct state state, struct err *e);
/* Fills `last` of every operation, and without keep_all the step sets. The buffers best, logits and
 * top are read after the step; with keep_all all buffers are. */
void step_plan_liveness(struct step_plan *p, int keep_all);
/* Operations first .. first + n - 1 as a plan of their own over the same buffers, weights, KV
 * caches and states; all results are kept. *out owns its operations only: free it by
 * step_plan_free_slice, before the plan that it is a slice of. */
int step_plan_slice(const struct step_plan *p, int first, int n, struct step_plan *out,
                    struct err *e);
void step_plan_free_slice(struct step_plan *p);
/* *out has operations of its own, which may be moved and dropped: free it by step_plan_free_slice.
 */
int step_plan_copy(const struct step_plan *p, struct step_plan *out, struct err *e);
/* Moves operation `from` up to number `to`, and those between one down. 0: nothing is moved,
 * because one of them reads or writes what it writes, or writes what it reads, or n_body lies
 * between. */
int step_plan_move_up(struct step_plan *p, int from, int to);
/* Drops every operation of a kind that a backend can do without: OP_TOP, OP_SAMPLE. */
void step_plan_drop(struct step_plan *p, enum op_kind kind);
/* *out is the plan whose body ends with the last norm, so that every step leaves the hidden rows in
 * the buffer `hidden`. It owns its operations only: free it by step_plan_free_slice. */
int step_plan_keep_hidden(const struct step_plan *p, struct step_plan *out, struct err *e);
/* *out is the plan of the drafting operations over the same buffers, weights and caches. Row r has
 * a token and reads the row r of the buffer draft_hidden: what the last norm left of the position
 * before the token. Rows of logits leave their hidden rows in draft_last, from which the plan
 * with `again` reads. It owns its operations only: free it by step_plan_free_slice. */
int step_plan_draft(const struct step_plan *p, int again, struct step_plan *out, struct err *e);
/* An operation without buffers and weights. */
struct op op_of(enum op_kind kind, const char *name, int layer);
/* Largest number of packed inputs of any linear; 4-bit linears; both 0 for none. */
int step_plan_max_k(const struct step_plan *p);
int step_plan_n_quantized(const struct step_plan *p);
/* Whether an operation is the linears of other linears' offsets, which read sums of groups. */
int step_plan_is_offsets(const struct step_plan *p, const struct op *op);

#endif
