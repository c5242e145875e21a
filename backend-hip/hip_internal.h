/* hip_internal.h: what the files of the HIP backend share. */
#ifndef BACKEND_HIP_HIP_INT_H
#define BACKEND_HIP_HIP_INT_H

#include "backend-hip/hip.h"
#include "backend-hip/runtime/hip_runtime.h"
#include "backend-hip/runtime/hip_stream.h"
#include "backend-hip/kernels/common/args.h"

/* Kernels that are not rows of the table of variants. */
enum hip_kernel {
    K_REPACK_CODES,
    K_REPACK_ROWS,
    K_REPACK_META,
    K_REPACK_DENSE_16,
    K_REPACK_DENSE_32,
    K_PREPARE_F16, /* three of these each, for rows of up to 4, 11 and 14 pieces: hip_by_row() */
    K_PREPARE_F32 = K_PREPARE_F16 + 3,
    K_EMBED,
    K_NORM,
    K_ANGLES,
    K_ROPE_STORE,
    K_NORM_PREPARE,
    K_ATTEND_F16 = K_NORM_PREPARE + 3,
    K_ATTEND_F32,
    K_SPLIT_F16,
    K_SPLIT_F32,
    K_MERGE,
    K_MERGE_PREPARE,
    K_MERGE_PREPARE_ORDERED,
    K_GLU,
    K_GLU_PREPARE,
    K_GATHER = K_GLU_PREPARE + 3,
    K_ARGMAX_SPANS,
    K_ARGMAX,
    K_TOP,
    K_PAPER_RESULT,
    K_ATTEND_TILE_64, /* from here on only where the image has it */
    K_ATTEND_TILE_128,
    K_ATTEND_WIDE_64,
    K_ATTEND_WIDE_128,
    K_ATTEND_HALF_64, /* where activations are fp16 */
    K_ATTEND_HALF_128,
    K_PAGES_64,
    K_PAGES_128,
    K_PREPARE_PARTS_F16,
    K_PREPARE_PARTS_BF16,
    K_NORM_WIDE, /* kernels/hopper_rows.hip; two of these, for rows of up to 4 and 11 pieces */
    K_MERGE_WIDE = K_NORM_WIDE + 2, /* two, for up to 4 and FEW_SPANS, and for more */
    K_GLU_WIDE = K_MERGE_WIDE + 2,
    K_ONE_NORM, /* hip_one.c */
    K_ONE_NORM_GATED,
    K_ONE_MERGE,
    K_ONE_ROW,
    K_COUNT
};

/* What a linear kernel multiplies: 4-bit codes with fp16 or fp32 activations, or dense weights with
 * fp32 ones; or what kernels/paper.hip does with 4-bit codes. */
enum hip_format { FORMAT_Q4_F16, FORMAT_Q4_F32, FORMAT_F16, FORMAT_BF16, FORMAT_F32, FORMAT_PAPER };
enum hip_phase { PHASE_DECODE, PHASE_PREFILL, PHASE_BOTH };

/* One kernel for linears. All that share format and phase and are there on one device give the same
 * bits, or the choice among them by the number of rows would not be allowed. Those for both phases
 * take activations in parts (kernels/mma_dense.hip). Those of FORMAT_PAPER run only when pinned,
 * then for both phases, and promise nothing about bits. */
/* Linears that a variant takes: plain ones have one scale of 16 bits for each 128 inputs or more.
 * All that take the same linear and hold as many rows want the same tile: activations are prepared
 * before it is known which of them it is. */
enum hip_plain { ANY_LINEAR, PLAIN_LINEAR, OTHER_LINEAR };

struct hip_variant {
    const char *name; /* the kernel's, too */
    enum hip_phase phase;
    enum hip_format format;
    int rows, outputs; /* of one block */
    int inputs;        /* of one block, 0: all */
    int resident;      /* not 0: as many blocks for a multiprocessor take all outputs in turn */
    unsigned lds;      /* bytes of LDS that the launch has to ask for */
    int tile;          /* not 0: takes activations in tiles of so many rows, and all tiles in turn
                          (kernels/wgmma.hip) */
    enum hip_plain plain;
    int slower;       /* percent, than others of its phase for the same outputs and rows */
    unsigned threads; /* of a block, 0: BLOCK_THREADS */
    int in_clusters;  /* CLUSTER blocks compute a tile together */
};

enum { MAX_VARIANTS = 80, MAX_TILE_ROWS = 64 + 128 };
extern const struct hip_variant hip_variants[]; /* ends with a NULL name */

struct be_linear {
    int in, out, k, n_chunks,
        dense; /* k: packed inputs; n_chunks: a multiple of 4 for 4-bit ones */
    int group_chunks, group_shift, n_groups, wide_meta;
    enum weight_kind kind;   /* dense */
    void *d_weight, *d_meta; /* layouts in kernels/args.h */
    int32_t *d_perm;
    uint16_t
        *d_order; /* the same for rows that a block keeps in registers; NULL: longer, or of fp32 */
    uint16_t *d_place; /* where an input lies among the packed ones, for kernels/hopper_one.hip;
                          NULL where it has no single place */
    float *d_bias;
    void *d_maps; /* of codes and scales, as wgmma.hip copies them; NULL: not on this device */
    const int32_t *perm; /* the host's, to know whose inputs are the same */
    int stride;          /* not 0: packed for kernels/paper.hip; outputs rounded up to a panel */
};

/* The kernel for linears of one kind, remembered: to look for it takes longer than all else that a
 * launch takes. */
struct hip_choice {
    enum hip_phase phase;
    enum hip_format format;
    int plain, mapped, outputs, rows;
    const struct hip_variant *variant; /* NULL: free */
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

/* An operation whose launch waits for the next one: when that is a linear that reads its result,
 * one launch does this and prepares the linear's input; attend rotates queries itself, and keys of
 * generated rows. */
struct hip_pending {
    enum hip_kernel kernel; /* by itself; K_COUNT: nothing waits */
    const float *out;       /* [rows][dim] */
    int rows, dim;
    struct norm_args norm;
    struct glu_args glu; /* n: of all rows */
    struct merge_args merge;
    struct rope_kernel_args rope; /* for attend, of all rows */
    struct one_row_args one;
};

struct hip {
    struct be be;
    struct be_config config;
    struct hip_device *device;
    const struct hip_variant *pinned; /* --variant, NULL: all */
    void *kernel[K_COUNT];
    void *variant[MAX_VARIANTS]; /* NULL: not among the kernels for this device */
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
    void *d_sums;              /* fp16 results of kernels/paper.hip: [max_rows][max_stride] */
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

enum { STAGE_BYTES = 16 << 20, BLOCK_THREADS = 256, PAPER_BLOCK_THREADS = 128 };
/* LDS that a block of few rows' gating asks for, so that a multiprocessor takes only one: a launch
 * begins before the one before has ended, and all its blocks would go to the few multiprocessors
 * that are idle then. A block of kernels/wgmma_few.hip fits beside it. WIDE_: beside what
 * kernels/hopper_rows.hip has; its registers keep others out, too, and it was not measured without
 * this. */
enum { SPREAD_LDS = 95 << 10, WIDE_SPREAD_LDS = 87 << 10 };

static inline int hip_wait_seconds(const struct be_config *c)
{
    return c->wait_seconds ? c->wait_seconds : 120;
}
static inline int hip_runs_paper(const struct hip *h)
{
    return h->pinned && h->pinned->format == FORMAT_PAPER;
}

/* Records the first failure; 0 is none. */
void hip_fail(struct hip *h, int code, const char *what);
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
/* Adds a launch to the step unless something has failed; they run when a result is waited for. */
void hip_launch(struct hip *h, void *function, const char *name, const unsigned grid[3],
                unsigned threads, unsigned lds, const void *args, size_t bytes);
void hip_launch_clusters(struct hip *h, void *function, const char *name, const unsigned grid[3],
                         unsigned threads, unsigned lds, unsigned cluster, const void *args,
                         size_t bytes);
void hip_launch_kernel(struct hip *h, enum hip_kernel k, size_t grid_x, size_t grid_y,
                       const void *args, size_t bytes);
/* One block to a row. */
void hip_launch_rows(struct hip *h, enum hip_kernel k, int rows, unsigned threads, unsigned lds,
                     const void *args, size_t bytes);

/* Of three kernels from k on the one for rows of dim elements. */
static inline enum hip_kernel hip_by_row(enum hip_kernel k, int dim)
{
    return k + (dim > FEW_PIECES * PIECE) + (dim > SOME_PIECES * PIECE);
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
    return !w->dense && w->group_chunks % 4 == 0 && !w->wide_meta;
}

/* Launches what waits, by itself. */
void hip_settle(struct hip *h);

/* Issues the launches so far. */
void hip_flush(struct hip *h);

/* Lets an operation wait whose result is out [rows][dim]. */
struct hip_pending *hip_wait_for_next(struct hip *h, enum hip_kernel k, const float *out, int rows,
                                      int dim);

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
/* Bytes of LDS of a block. */
int hip_one_lds(enum hip_kernel k);
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
/* The row that --variant names (NULL for "auto"); unknown: an error that lists the names. */
int hip_find_variant(const char *name, const struct hip_variant **v, struct err *e);

#endif
