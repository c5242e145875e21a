/* hip_internal.h: what the files of the HIP backend share. */
#ifndef BACKEND_HIP_HIP_INT_H
#define BACKEND_HIP_HIP_INT_H

#include "backend-hip/hip.h"
#include "backend-hip/hip_kernels.h"
#include "backend-hip/hip_launch.h"
#include "backend-hip/hip_pending.h"
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

/* The kernel for linears of one kind, remembered: to look for it takes longer than all else that a
 * launch takes. */
struct hip_choice {
    enum linear_phase phase;
    enum linear_format format;
    int plain, mapped, outputs, rows;
    enum hip_kernel kernel;
    int known; /* 0: free */
};

enum { CHOICES = 256 };

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

struct hip {
    struct be be;
    struct be_config config;
    struct hip_device *device;
    int pinned;              /* enum hip_kernel, by --variant; -1: none */
    void *function[K_COUNT]; /* of the kernels; NULL: not of this device (hip_has) */
    struct hip_choice choice[CHOICES];
    struct hip_stream *stream;
    int tensor_maps; /* the device copies boxes of tensors, and linears have maps for it */
    struct hip_pending pending;
    const struct batch *batch;
    int32_t *d_batch; /* this step's arrays, in one block: */
    const int32_t *d_token, *d_pos, *d_seq, *d_slot, *d_logit_row, *d_top_row, *d_table, *d_tiles,
        *d_work;
    int n_tiles;     /* of prompt rows */
    int work_blocks; /* of each head, in a launch for generated rows, by d_work; 0: one for each row
                        and span */
    int32_t *batch_copy; /* the same on the host */
    void *d_packed;      /* [max_rows][max_k rounded up to a chunk] fp32, fp16 or parts: inputs of a
                            linear */
    float *d_scale;      /* [max_rows] of fp16 ones */
    float *d_inv_freq;   /* [head_dim/2] */
    float *d_cos, *d_sin;      /* [max_rows][head_dim/2] */
    float *d_parts;            /* of attention over spans */
    int n_spans;               /* of this step */
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
    return h->pinned >= 0 && hip_kernels[h->pinned].op == OP_PAPER;
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
 * FEW_PIECES, SIZE_11 SOME_PIECES, SIZE_14 more. */
enum hip_size { SIZE_4, SIZE_11, SIZE_14, SIZES };
static inline enum hip_size hip_size_of(int dim)
{
    return dim <= FEW_PIECES * PIECE ? SIZE_4 : dim <= SOME_PIECES * PIECE ? SIZE_11 : SIZE_14;
}

/* Whether a block can merge the spans of all heads of a row. */
static inline int hip_merges_whole_rows(const struct hip *h)
{
    int heads = h->config.n_heads, hd = h->config.head_dim;
    return h->n_spans <= ROW_SPANS && heads * (MERGE_SPANS + 1) <= MERGE_WEIGHTS &&
           heads * hd <= MERGE_DIMS && hd % 4 == 0;
}

/* One scale of 16 bits for each item of 128 inputs. */
static inline int hip_is_plain(const struct be_linear *w)
{
    return !w->dense && w->group_chunks % 4 == 0 && !w->scale_f32;
}

void hip_rope_store(struct be *be, const struct rope_args *r);
void hip_attend(struct be *be, const struct attend_args *t);
/* Rows row .. row + rows - 1 of all. */
void hip_launch_rope(struct hip *h, const struct rope_kernel_args *all, int row, int rows);
/* Room for the results of spans; how many spans a generated row may have at most, and in this
 * batch. */
size_t hip_part_floats(const struct be_config *c);
int hip_most_spans(const struct be_config *c);
int hip_spans(const struct batch *b);
/* Prompt rows in tiles of two groups (args.h); the number of tiles. */
int hip_fill_tiles(const struct hip *h, const struct batch *b, int32_t *tile);
/* The spans of generated rows (args.h), work_blocks for each launch, where they are fewer than rows
 * x spans of the longest; their number, which is less than that. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work);

/* n linears of one generated row, which wait for the next operation. 0: not on this device, or not
 * these. */
int hip_one_linear(struct hip *h, int n, const struct be_linear *const w[], const float *d_x,
                   float *const d_y[]);
/* Lets the linear that waits, whose result is d_delta, add it to d_x instead; or lets the two that
 * wait leave silu(d_gate) * d_up in d_gate. 0: it is not what waits. */
int hip_one_adds(struct hip *h, float *d_x, const float *d_delta, int rows, int dim);
int hip_one_gates(struct hip *h, const float *d_gate, const float *d_up, size_t n);
/* Launches it where k, what waited, is such a linear. */
int hip_one_launch(struct hip *h, enum hip_kernel k);

uint64_t hip_packed_bytes(const struct linear *w);
int hip_pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e);
void hip_drop(struct be *be, struct be_linear *w);
/* first: block of the grid at which it begins */
struct linear_part hip_part_of(const struct be_linear *w, float *d_y, int first);
void hip_linear(struct be *be, int n, const struct be_linear *const w[], const float *d_x,
                float *const d_y[], int rows, int n_decode);
/* The pinned kernel of the paper alone, adding to d_sums. */
void hip_launch_paper(struct hip *h, const struct be_linear *w, int rows);
/* Sets n bytes of device memory to 0. */
void hip_clear(struct hip *h, void *d, size_t n);

#endif
