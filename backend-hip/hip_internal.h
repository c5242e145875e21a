/* hip_internal.h: what the files of the HIP backend share. */
#ifndef BACKEND_HIP_HIP_INT_H
#define BACKEND_HIP_HIP_INT_H

#include "backend-hip/hip.h"
#include "backend-hip/hip_kernels.h"
#include "backend-hip/hip_launch.h"
#include "backend-hip/runtime/hip_runtime.h"
#include "backend-hip/runtime/hip_stream.h"

enum { MAX_TILE_ROWS = 64 + 128 };

struct be_linear {
    int in, out, k, n_chunks,
        dense; /* k: packed inputs; n_chunks: a multiple of 4 for 4-bit ones */
    int group_chunks, group_shift, n_groups, scale_f32;
    enum weight_kind kind;   /* dense */
    void *d_weight, *d_meta; /* layouts in kernels/args.h */
    int32_t *d_perm;
    uint16_t
        *d_order; /* the same for rows that a block keeps in registers; NULL: longer, or of fp32 */
    uint16_t *d_place; /* where an input lies among the packed ones, for kernels/linear_gemv.hip;
                          NULL where it has no single place */
    float *d_bias;
    void *d_maps; /* of codes and scales, as linear_prefill_wgmma.hip copies them; NULL: not on this
                     device */
    const int32_t *perm; /* the host's, to know whose inputs are the same */
    int stride; /* not 0: packed for kernels/linear_paper.hip; outputs rounded up to a panel */
};

/* One of the buffers that uploads go through in turn. */
struct hip_upload {
    void *pinned; /* [UPLOAD_BYTES] on the host */
    void *sent;   /* event: the last copy from it is done */
    int used;
};

enum { UPLOADS = 2, UPLOAD_BYTES = 8 << 20 };

/* Pinned memory that was handed out: copies into it need not be waited for. */
struct hip_view {
    char *pinned; /* NULL: none */
    size_t bytes;
};

enum { VIEWS = 4, STEPS = 2 };

/* What the launches of a step depend on beside the plan: steps of one plan and one shape issue the
 * same launches. Filled from zeros, so that shapes can be compared as bytes. */
struct hip_shape {
    int n_rows, n_decode, n_logits, n_decode_logits, n_top, table_stride;
    int single_rows; /* no generated row has another one of its sequence beside it */
    int n_splits;     /* position splits of a generated row, at most */
    int work_blocks; /* of each head, in a launch for generated rows, by d_work; 0: one for each row
                        and span */
    int n_tiles;     /* of prompt rows */
    /* the step's arrays, in one block: */
    const int32_t *d_token, *d_pos, *d_seq, *d_slot, *d_logit_row, *d_top_row, *d_table, *d_tiles,
        *d_work;
};

struct hip {
    struct be be;
    struct be_config config;
    struct hip_device *device;
    int pinned;              /* enum hip_kernel, by --variant; -1: none */
    void *function[K_COUNT]; /* of the kernels; NULL: not of this device (hip_has) */
    struct hip_stream *stream;
    int tensor_maps; /* the device copies boxes of tensors, and linears have maps for it */
    unsigned n_plans;
    int n_classes[2]; /* row classes of linears: [PHASE_DECODE, PHASE_PREFILL] */
    struct hip_shape shape; /* of this step */
    int32_t *d_batch;       /* its arrays */
    int32_t *batch_copy;    /* the same on the host */
    /* Scratch for all plans that were compiled: */
    int max_k, most_heads; /* packed inputs of a linear; query heads */
    size_t split_floats;    /* results of all heads of a row and a position split */
    void *d_packed;        /* [max_rows][max_k rounded up to a chunk] fp32, fp16 or parts: inputs of a
                              linear */
    float *d_scale;        /* [max_rows] of fp16 ones */
    float *d_parts;        /* of attention over position splits: hip_part_floats */
    struct largest *d_largest; /* [max_rows][ARGMAX_SPANS] */
    void *d_sums; /* fp16 results of kernels/linear_paper.hip: [max_rows][max_stride] */
    int max_stride;
    void *d_stage; /* STAGE_BYTES of the model file on their way to their own layout */
    struct hip_upload upload[UPLOADS];
    unsigned n_uploads;
    struct hip_view view[VIEWS];
    void *step_done[STEPS]; /* events: of the steps that were ended and not waited for */
    unsigned n_ended, n_waited;
    void *all_done;    /* event: what was launched before a wait */
    size_t bytes;      /* allocated on the device */
    struct err failed; /* the first failure; nothing is launched after it */
    char description[640];
};

enum { STAGE_BYTES = 16 << 20 };

static inline int hip_wait_seconds(const struct be_config *c)
{
    return c->wait_seconds ? c->wait_seconds : 120;
}
static inline int hip_runs_paper(const struct hip *h)
{
    return h->pinned >= 0 && hip_kernels[h->pinned].op == FOR_PAPER;
}

/* Device memory, zeroed; NULL when there is none. */
void *hip_alloc(struct be *be, size_t bytes);
void hip_free(struct be *be, void *d);
int hip_waiting_open(struct hip *h, struct err *e);
void hip_waiting_close(struct hip *h);
/* Pinned memory. */
void *hip_view(struct be *be, void *d, size_t bytes);
void hip_drop_view(struct be *be, void *view);
/* In order with the kernels; src may change when it returns. */
void hip_upload(struct be *be, void *d, const void *src, size_t bytes);
void hip_download(struct be *be, void *dst, const void *d_src, size_t bytes);
int hip_sync(struct be *be, struct err *e);
void hip_end_step(struct be *be);
int hip_wait_step(struct be *be, struct err *e);
/* The size of a row of dim elements, an index of arrays of kernels by size; SIZE_4 holds
 * SHORT_PIECES, SIZE_11 MEDIUM_PIECES, SIZE_14 more. */
enum hip_size { SIZE_4, SIZE_11, SIZE_14, SIZES };
static inline enum hip_size hip_size_of(int dim)
{
    return dim <= SHORT_PIECES * PIECE ? SIZE_4 : dim <= MEDIUM_PIECES * PIECE ? SIZE_11 : SIZE_14;
}

/* One scale of 16 bits for each item of 128 inputs. */
static inline int hip_is_plain(const struct be_linear *w)
{
    return !w->dense && w->group_chunks % 4 == 0 && !w->scale_f32;
}

/* Floats of the results of a row and a position split; of the room for all of them; how many splits
 * a generated row may have at most, and in this batch. */
size_t hip_split_floats(const struct heads *g);
size_t hip_part_floats(const struct be_config *c, size_t split_floats);
int hip_max_splits(const struct be_config *c);
int hip_kv_splits(const struct batch *b);
/* Whether no generated row has another one of its sequence beside it, whose key it would look at. */
int hip_single_rows(const struct batch *b);
/* Prompt rows in tiles of two groups (args.h); the number of tiles. */
int hip_fill_tiles(const struct hip *h, const struct batch *b, int32_t *tile);
/* The spans of generated rows (args.h), work_blocks for each launch, where they are fewer than rows
 * x spans of the longest; their number, which is less than that. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work);

/* Makes the scratch large enough for a plan. 0 or -1. */
int hip_reserve(struct hip *h, const struct step_plan *p, struct err *e);
uint64_t hip_packed_bytes(const struct linear *w);
int hip_pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e);
void hip_drop(struct be *be, struct be_linear *w);
/* first: block of the grid at which it begins */
struct linear_part hip_part_of(const struct be_linear *w, float *d_y, int first);
/* The pinned kernel of the paper alone, adding to d_sums. */
void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows);
/* Sets n bytes of device memory to 0. */
void hip_clear(struct hip *h, void *d, size_t n);

#endif
