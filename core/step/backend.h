/* backend.h: what a backend is: one constant table of coarse operations on memory it owns. The
 * transformer (core/step/forward.c) is written once over this table. Pointers named d_* are device
 * addresses: core hands them back, adds byte offsets, never follows them. All matrices are
 * row-major fp32 unless said otherwise. Operations run in the order issued and may be asynchronous;
 * they return nothing, the first failure latches and sync reports it.
 *
 * NUMERIC CONTRACT: every output element is a function of its row's inputs and the shapes alone,
 * never of the other rows in the step, of their number, or of threads. A backend that has different
 * kernels for many and few rows chooses by the phase of the row (decode rows come first), not by
 * counting. */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include "core/base/err.h"
#include "core/step/batch.h"
#include "core/step/plan.h"

#include <stddef.h>
#include <stdint.h>

/* Arithmetic of activations in 4-bit linears: fp32; or integers with a scale per row and sub-group
 * of at most 128 inputs, of about 15 bits (two int8 digits) or of 8 (one), whose products with the
 * codes are summed exactly; or fp16 with a power of two for each row, that brings its largest
 * magnitude into [2^14, 2^15), products summed in fp32. A backend refuses what it does not have.
 * And storage of keys and values. */
enum act { ACT_F32, ACT_I16, ACT_INT8, ACT_F16 };
enum kv_type { KV_F16, KV_F32 };

/* Fixed for the life of a backend; sizes its scratch, so that a step allocates nothing. */
struct be_config {
    const char *variant; /* cpu: an instruction-set variant ("auto", "ref", ..); hip: a kernel for
                            linears or "auto" */
    int n_threads;       /* cpu: 0 = as many as this process may use */
    const char *library; /* hip: the runtime library, NULL = the first of the known ones */
    int device;          /* hip: which of its devices */
    int wait_seconds;    /* hip: a device that takes longer for what it was given counts as hung; 0:
                            120 */
    enum act act;
    enum kv_type kv;
    int max_rows; /* rows of one step, rows of logits */
    int max_seqs; /* sequences of one step, and pages of one of them; used by hip */
    int max_pages;
};

struct be;        /* an open backend; every backend's own struct begins with one */
struct be_linear; /* a linear in the backend's private layout */
struct be_plan;   /* a compiled plan */

struct backend {
    const char *name;
    unsigned kinds;   /* bit k: it has operations of enum op_kind k */
    int asynchronous; /* operations run beside the host, which has time for something else before it
                         waits */
    /* To size a run before anything is opened: bytes that could be allocated now (0: cannot tell);
     * what a packed linear takes, 0 where it is read from the mapped file; what an open backend
     * takes for itself. */
    int (*available)(const struct be_config *c, uint64_t *bytes, struct err *e);
    uint64_t (*packed_bytes)(const struct linear *w);
    uint64_t (*scratch_bytes)(const struct be_config *c, const struct step_plan *p);
    int (*open)(struct be **be, const struct be_config *c, struct err *e);
    void (*close)(struct be *be);
    /* A line for people: which instructions, how many threads. Valid while open. */
    const char *(*describe)(const struct be *be);

    void *(*alloc)(struct be *be,
                   size_t bytes); /* zeroed, 64-byte aligned; NULL when there is none */
    void (*free)(struct be *be, void *d);
    /* Host memory of a block's size that downloading it into is fast; the block itself where the
     * host can read it: then there is nothing to copy. NULL: there is none. */
    void *(*view)(struct be *be, void *d, size_t bytes);
    void (*drop_view)(struct be *be, void *view);
    void (*upload)(struct be *be, void *d_dst, const void *src, size_t bytes);
    void (*download)(struct be *be, void *dst, const void *d_src,
                     size_t bytes); /* valid after sync or wait_step */
    /* Canonical -> private layout. The views in *w must outlive the result. */
    int (*pack)(struct be *be, const struct linear *w, struct be_linear **out, struct err *e);
    void (*drop)(struct be *be, struct be_linear *w);
    /* Bytes of one page of KV_PAGE positions of one cache. */
    size_t (*kv_page_bytes)(enum kv_type t, const struct kv_cache *kv);

    /* Compiles a plan over memory of this backend, once: chooses kernels, fuses, makes room for
     * scratch. *p and *m must outlive the result. Error: an operation or a size that this backend
     * does not have. The result is dropped before anything that *m names is freed. */
    int (*compile)(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                   struct be_plan **out, struct err *e);
    void (*drop_plan)(struct be *be, struct be_plan *p);

    /* begin_step makes *b the batch of the runs up to end_step. A run issues the plan's operations
     * in order: 0 .. n_body-1, and all where b->n_logits > 0. end_step lets everything begin; *b
     * may change afterwards. wait_step waits for the oldest step that was ended and not waited for
     * (at most two are); its downloads are valid then. sync waits for everything. */
    void (*begin_step)(struct be *be, const struct batch *b);
    void (*run)(struct be *be, const struct be_plan *p);
    void (*end_step)(struct be *be);
    int (*wait_step)(struct be *be, struct err *e);
    int (*sync)(struct be *be, struct err *e);
};

struct be {
    const struct backend *ops;
};

#endif
