/* backend.h: the interface of a backend: one constant table of functions that allocate device
 * memory, compile the plan of a step and run it. core/run/forward.c opens and runs it. Pointers
 * named d_* are device addresses: core passes them back and adds byte offsets to them, but never
 * dereferences them. Calls take effect in the order issued and may be asynchronous. Those without
 * an error return latch the first failure; wait_step and sync report it.
 *
 * NUMERIC CONTRACT: every output element is a function of its row's inputs and the shapes alone. It
 * depends neither on the other rows of the step, nor on their number, nor on threads. A backend
 * with different kernels for many and for few rows chooses by the phase of the row (decode rows
 * come first), not by the number of rows. */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include "core/base/err.h"
#include "core/step/act_format.h"
#include "core/step/batch.h"
#include "core/step/kv_format.h"
#include "core/step/plan.h"

#include <stddef.h>
#include <stdint.h>

struct numa;

/* Fixed for the life of a backend; sizes its scratch, so that a step allocates nothing. */
struct be_config {
    const char *variant;     /* one of the backend's sets of kernels, "auto" */
    int n_threads;           /* of the host; 0 = as many as this process has cores */
    const struct numa *numa; /* nodes to spread threads over; NULL: not at all */
    int device;              /* index of the device */
    const char *own; /* options that only this backend has, as its header says; NULL: defaults */
    enum act act;
    enum kv_type kv;
    /* Backends that share their devices, of which one at a time computes on each
     * (forward_options.lender). 0 or 1: it is alone. */
    int n_microbatches;
    int max_rows;  /* rows of one step, rows of logits */
    int max_seqs;  /* sequences of one step */
    int max_pages; /* pages of one sequence */
};

/* The rows that linked places send one another. */
struct be_traffic {
    unsigned senders[PLACES]; /* bit p of number q: place p sends rows to place q */
    /* That a place receives in a step, at most, and in how many exchanges: there is room for those
     * of two steps, so that no sender waits for a place that is busy. 0: senders may wait. */
    uint64_t floats;
    int n_exchanges;
    struct be *const *lender; /* [places] of microbatch 0; NULL: these are */
};

struct pool;
struct gptq_ops;
struct be;        /* an open backend; every backend's own struct begins with one */
struct be_linear; /* a linear in the backend's private layout */
struct be_plan;   /* a compiled plan */

struct backend {
    const char *name;
    unsigned kinds;    /* bit k: it has operations of enum op_kind k */
    unsigned kv_types; /* bit t: it stores enum kv_type t */
    int asynchronous;  /* steps run while the host does something else */
    int keeps_drafts;  /* batch.n_drafts, n_right: it has them; for seats so many times STATE_DRAFTS
                          rows (plan_memory.kept). 0: it has not */
    int phases;        /* a row's bits depend on its phase; 0: decode and prompt rows are alike */
    /* Sizes in bytes, before anything is opened. available: what can be allocated now, 0 when
     * unknown. packed_bytes: of a packed linear, 0 when it is read from the mapped file.
     * scratch_bytes: what an open backend allocates for itself. */
    int (*available)(const struct be_config *c, uint64_t *bytes, struct err *e);
    uint64_t (*packed_bytes)(const struct linear *w);
    uint64_t (*scratch_bytes)(const struct be_config *c, const struct step_plan *p);
    int (*open)(struct be **be, const struct be_config *c, struct err *e);
    void (*close)(struct be *be);
    /* One line for messages: instruction set and threads, or the device. Valid while open. */
    const char *(*describe)(const struct be *be);
    /* The threads that steps run on, free for the host's work between them; NULL: a backend that
     * computes elsewhere. */
    struct pool *(*pool)(const struct be *be);

    /* Zeroed, 64-byte aligned; NULL: out of memory. */
    void *(*alloc)(struct be *be, size_t bytes);
    void (*free)(struct be *be, void *d);
    /* Host memory of this size for fast downloads of block d: the block itself where the host can
     * read it (a download into it copies nothing), else pinned memory. NULL: out of memory. */
    void *(*view)(struct be *be, void *d, size_t bytes);
    void (*drop_view)(struct be *be, void *view);
    void (*upload)(struct be *be, void *d_dst, const void *src, size_t bytes);
    /* dst is valid after sync or wait_step. */
    void (*download)(struct be *be, void *dst, const void *d_src, size_t bytes);
    /* Converts a linear from the model file's layout to the backend's. The views in *w must outlive
     * the result; where packed_bytes is not 0, perm alone. pitch is 0 there. */
    int (*pack)(struct be *be, const struct linear *w, struct be_linear **out, struct err *e);
    void (*drop)(struct be *be, struct be_linear *w);
    /* Linears whose packed weights stay in the host's memory; NULL: the backend has none.
     * pack_away: as pack, but that operations may read it only between its own fetch and the next
     * fetch of another one with the same slot (0 to 15), of which all are of one size. fetch:
     * begins to copy w [n], behind the runs so far. await: the runs that follow wait for the copies
     * of the last fetch but `later` (0 to 3). */
    int (*pack_away)(struct be *be, const struct linear *w, int slot, struct be_linear **out,
                     struct err *e);
    void (*fetch)(struct be *be, struct be_linear *const *w, int n);
    void (*await)(struct be *be, int later);
    /* Bytes of one page of KV_PAGE positions of one cache. */
    size_t (*kv_page_bytes)(enum kv_type t, const struct kv_cache *kv);

    /* Links open backends as places 0 .. n-1 of a run, which may compile plans with OP_EXCHANGE
     * from then on and are to be closed together. NULL: it has no OP_EXCHANGE. link_bytes: what
     * each takes of its memory for that. */
    int (*link)(struct be *const *be, int n, const struct be_traffic *t, struct err *e);
    uint64_t (*link_bytes)(int n, const struct be_traffic *t);

    /* Compiles a plan whose numbers stand for the memory *m: chooses kernels, fuses operations,
     * allocates scratch. *p and *m must outlive the result. Error: an operation or a size that this
     * backend does not support. The caller drops the result before it frees memory of *m. *p is
     * constant: a backend that wants another order of operations makes a copy (step_plan_copy). */
    int (*compile)(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                   struct be_plan **out, struct err *e);
    void (*drop_plan)(struct be *be, struct be_plan *p);

    /* begin_step: the runs up to end_step, or to another begin_step, compute batch *b. run: issues
     * operations 0 .. n_body-1 of the plan, and the others when b->n_logits > 0. end_step: starts
     * what was issued; *b may change afterwards. wait_step: waits for the oldest ended step, of
     * which at most two are in flight; its downloads are valid afterwards. step_done: 1 when that
     * would not wait, because the step has ended or has failed; NULL: it never does. sync: waits
     * for all of them. */
    void (*begin_step)(struct be *be, const struct batch *b);
    void (*run)(struct be *be, const struct be_plan *p);
    void (*end_step)(struct be *be);
    int (*wait_step)(struct be *be, struct err *e);
    int (*step_done)(struct be *be);
    int (*sync)(struct be *be, struct err *e);
    const struct gptq_ops *gptq; /* core/step/gptq.h; NULL: the host computes for a quantizer */
};

struct be {
    const struct backend *ops;
};

#endif
