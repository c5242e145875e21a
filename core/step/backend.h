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

#include "core/step/batch.h"
#include "core/base/dtype.h"
#include "core/base/err.h"
#include "core/sample/logits.h"

#include <stddef.h>
#include <stdint.h>

/* Arithmetic of activations in 4-bit linears: fp32; or integers with a scale per row and sub-group
 * of at most 128 inputs, of about 15 bits (two int8 digits) or of 8 (one), whose products with the
 * codes are summed exactly; or fp16 with a power of two for each row, that brings its largest
 * magnitude into [2^14, 2^15), products summed in fp32. A backend refuses what it does not have.
 * And storage of keys and values. */
enum act { ACT_F32, ACT_I16, ACT_INT8, ACT_F16 };
enum kv_type { KV_F16, KV_F32 };

/* A linear as the model file has it (core/model/modelfile.h gives the layout): codes != NULL means
 * 4-bit. */
struct linear {
    int in, out;
    int k, group, n_groups; /* 4-bit: packed inputs, k = group * n_groups */
    const uint8_t *codes;   /* [ceil(out/16)][k/8][16][4] or NULL */
    const void *scales;     /* [ceil(out/16)][n_groups][16] of scale_type F16 | F32 */
    const uint8_t *zeros;   /* [ceil(out/16)][n_groups][16], 0..16 */
    const int32_t *perm;    /* [k] or NULL: packed input j is x[perm[j]], -1 gives 0 */
    const void *weight;     /* [out][in] of weight_type F16 | BF16 | F32, when codes is NULL */
    const float *bias;      /* [out] or NULL */
    enum dtype scale_type, weight_type;
};

/* Fixed for the life of a backend; sizes its scratch, so that a step allocates nothing. */
struct be_config {
    const char *variant; /* cpu: rung of the ladder ("auto", "ref", ...); hip: a kernel for linears
                            or "auto" */
    int n_threads;       /* cpu: 0 = as many as this process may use */
    const char *library; /* hip: the runtime library, NULL = the first of the known ones */
    int device;          /* hip: which of its devices */
    int wait_seconds;    /* hip: a device that takes longer for what it was given counts as hung; 0:
                            120 */
    enum act act;
    enum kv_type kv;
    int n_heads, n_kv_heads, head_dim;
    const float *inv_freq; /* [head_dim/2] */
    float rope_scale;      /* factor on cos and sin */
    int max_rows;          /* rows of one step */
    int max_k;             /* largest k (or in) of any linear */
    int max_seqs;          /* sequences of one step, and pages of one of them; used by hip */
    int max_pages;
};

/* Of the operation `top`. */
enum { BE_TOP = 64, BE_TOP_ROOM = 1024 };

struct be;        /* an open backend; every backend's own struct begins with one */
struct be_linear; /* a linear in the backend's private layout */

struct rope_args {
    float *d_q;             /* in/out [n_rows][n_heads * head_dim] */
    const float *d_k, *d_v; /* [n_rows][n_kv_heads * head_dim] */
    const float *d_q_norm,
        *d_k_norm; /* [head_dim] or NULL: RMSNorm of each head before the rotation */
    float eps;
    void *d_kv; /* this layer's pages; keys are rotated, then stored with the values */
};

struct attend_args {
    const float *d_q; /* [n_rows][n_heads * head_dim], rotated */
    const void *d_kv;
    float *d_out; /* [n_rows][n_heads * head_dim] */
    int window;   /* 0: all positions <= own; w: those with own - p < w */
    float scale;  /* on q.k */
};

struct backend {
    const char *name;
    int asynchronous; /* operations run beside the host, which has time for something else before it
                         waits */
    /* To size a run before anything is opened: bytes that could be allocated now (0: cannot tell);
     * what a packed linear takes, 0 where it is read from the mapped file; what an open backend
     * takes for itself. */
    int (*available)(const struct be_config *c, uint64_t *bytes, struct err *e);
    uint64_t (*packed_bytes)(const struct linear *w);
    uint64_t (*scratch_bytes)(const struct be_config *c);
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
    /* Bytes of one KV page of one layer. */
    size_t (*kv_page_bytes)(const struct be *be);

    void (*begin_step)(struct be *be, const struct batch *b);
    /* After the last operation of a step: it may run from now on, and *b may change. wait_step
     * waits for the oldest step that was ended and not waited for (at most two are), whose
     * downloads are valid then; sync for everything. */
    void (*end_step)(struct be *be);
    int (*wait_step)(struct be *be, struct err *e);
    int (*sync)(struct be *be, struct err *e);

    /* d_out[r] = row token[r] of the table [vocab][dim] (an unquantized linear: the head may be the
     * same one); where that is negative row d_chosen[-1 - token[r]], or any one if that is
     * negative, too: nobody will want what comes of it */
    void (*embed)(struct be *be, const struct be_linear *table, const int32_t *d_chosen,
                  float *d_out);
    /* d_x += d_delta (unless NULL), then d_out = d_x / sqrt(mean(d_x^2) + eps) * d_weight;
     * [rows][dim]. What linear made d_delta right before may not be in memory afterwards. */
    void (*norm)(struct be *be, float *d_x, const float *d_delta, const float *d_weight, float eps,
                 float *d_out, int rows, int dim);
    /* d_y[i] = W_i d_x + bias_i for n linears of one input; d_x [rows][in], d_y[i] [rows][out_i];
     * the first n_decode rows are decode rows. What norm or glu made d_x right before may not be in
     * memory afterwards: it is for this operation, or for another. */
    void (*linear)(struct be *be, int n, const struct be_linear *const w[], const float *d_x,
                   float *const d_y[], int rows, int n_decode);
    void (*rope_store)(struct be *be, const struct rope_args *a);
    void (*attend)(struct be *be, const struct attend_args *a);
    /* d_gate = silu(d_gate) * d_up, n elements. What linear made d_up right before may not be in
     * memory afterwards. */
    void (*glu)(struct be *be, float *d_gate, const float *d_up, size_t n);
    /* d_out[i] = d_x[logit_row[i]], [n_logits][dim] */
    void (*gather)(struct be *be, const float *d_x, float *d_out, int dim);
    /* d_id[i] = index of the largest of d_logits[i], the lowest on ties; -1 when one is NaN or the
     * largest is not finite; [rows][vocab] */
    void (*argmax)(struct be *be, const float *d_logits, int32_t *d_id, int rows, int vocab);
    /* NULL where all logits are in the host's memory anyway. d_top[i] = those of
     * d_logits[top_row[i]] that are among the BE_TOP largest of the row up to them, the lower id
     * first on ties, and perhaps others, in order of ids; an id of -1 ends them where there is room
     * left, and is the first where there was not room for all; not said where one is NaN;
     * [n_logits][vocab], [n_top][BE_TOP_ROOM] */
    void (*top)(struct be *be, const float *d_logits, struct logits_entry *d_top, int vocab);
};

struct be {
    const struct backend *ops;
};

#endif
