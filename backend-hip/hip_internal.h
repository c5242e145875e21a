/* hip_internal.h: declarations shared by the files of the HIP backend. Owns: struct hip, the open
 * backend, and struct be_linear, a linear on the device. Must not know: plans, kernels' code. */
#ifndef BACKEND_HIP_HIP_INTERNAL_H
#define BACKEND_HIP_HIP_INTERNAL_H

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
    int low_groups; /* in int4: groups before the pair of outliers, 0: none */
    int pairs; /* in i16 and int8: codes of 8 bits (core/step/linear.h); k and perm name an input
                  once */
    enum weight_kind kind;   /* dense */
    void *d_weight, *d_meta; /* layouts in kernels/args.h */
    int32_t *d_perm;
    uint16_t *d_order; /* [n_chunks * CHUNK] the same for a block that keeps the row in registers;
                          NULL: a longer row, or fp32 */
    uint16_t *d_place; /* [in] packed position of each input, for linear_gemv.hip; NULL: an input
                          has none or several */
    float *d_bias;
    void *d_maps;        /* tensor maps of codes and scales for TMA; NULL: not on this device */
    const int32_t *perm; /* the host's array, compared to find linears of equal input */
    int stack;  /* 0: one linear; n: a stack of n, whose arrays follow one another */
    size_t weight_bytes, meta_bytes; /* of one linear of a stack */
    int stride; /* not 0: packed for paper/linear_paper.hip; outputs rounded up to a panel */
    char *away; /* the packed weights and metas in the host's memory (hip_away.h), or NULL */
    int is_pinned;
};

/* Memory that stacks come to in turn, the stream that brings them (hip_away.h). */
enum { AWAY_SLOTS = 16, FETCHES = 4 };
struct hip_slot_of_weights {
    void *d_weight, *d_meta; /* NULL: not taken */
    size_t weight, meta;
};
struct hip_away {
    int is_open;
    void *stream, *used;    /* used: event, end of what was issued before a copy */
    void *arrived[FETCHES]; /* events: ends of the last copies */
    unsigned n_fetched;
    struct hip_slot_of_weights slot[AWAY_SLOTS];
};

/* One of the buffers through which uploads go in turn. */
struct hip_upload {
    void *pinned; /* [UPLOAD_BYTES] on the host */
    void *sent;   /* event: end of the last copy from it */
    int used;
};

enum { UPLOADS = 2, UPLOAD_BYTES = 8 << 20 };

/* Pinned memory that was handed out; copies into it are asynchronous. */
struct hip_view {
    char *pinned; /* NULL: none */
    size_t bytes;
};

enum { VIEWS = 8, STEPS = 2, MAX_PATTERNS = 96 };

/* What the launches of a step depend on beside the plan. Steps of one plan and equal shapes have
 * equal launches; filled from zeros, compared as bytes. */
struct hip_shape {
    int n_rows, n_decode, n_logits, n_decode_logits, n_top, n_samples, n_scores, n_seqs,
        table_stride;
    int single_rows; /* every decode row is the only row of its sequence */
    int n_splits;    /* KV splits of the longest decode row, rounded up */
    int work_blocks; /* blocks of each head in a launch for decode rows, listed in d_work; 0: one
                        for each row and split */
    int has_changes; /* some samples have changes or masks */
    int n_tiles;     /* tiles of prompt rows */
    int prompt_positions; /* of all sequences with prompt rows, rounded up to a power of two */
    int n_copies, n_packs; /* jobs of open pages, rounded up */
    int n_row_packs;  /* the first ones of n_packs, of decode rows that attention may store */
    int n_part_packs; /* these and those of pages that no prompt of this step fills alone */
    /* the step's arrays, in one block: */
    const struct sample_draw *d_sample;
    struct sample_change_of *d_change;
    const struct score_row *d_score;
    const uint32_t *d_masks;
    const int32_t *d_token, *d_pos, *d_seq, *d_slot, *d_logit_row, *d_top_row, *d_seq_start,
        *d_state_from, *d_state_to, *d_table, *d_tiles, *d_work, *d_own, *d_copies, *d_packs;
    const int32_t *d_kept; /* of state_rows; NULL: no sequence has rows of drafts, or right ones */
    int n_kept_seqs;       /* those that may have such rows come first */
};

/* What the slots of a step were last grouped by (hip_experts.c). */
struct hip_grouping {
    const int *id[2]; /* NULL: not grouped; by phase */
    int tile[2], n_experts;
    int waited; /* a launch waited for it before it let others start */
};

enum { EXPERTS_SCRATCH = 3 };

/* Scratch of mixtures of experts: inputs of slots by place, their scales, groupings. */
struct hip_experts {
    void *d_packed;
    float *d_scale;
    int *d_groups;
    size_t bytes[EXPERTS_SCRATCH];
    int *d_heads; /* [max_rows][heads] 0 .. heads - 1: experts of stacks that every slot has */
    int heads;
    struct hip_grouping grouping;
    int routed; /* the OP_ROUTE that was last launched with the stacks after it, -1: none; its
                   scores are there for the early part of the next launch */
};

/* Memory of quantizations (hip_gptq.c), each as large as the largest call needed. */
enum { GPTQ_BUFFERS = 20 };
struct hip_gptq {
    void *d[GPTQ_BUFFERS];
    size_t bytes[GPTQ_BUFFERS];
    int n; /* inputs of the last factor */
};

struct hip {
    struct be be;
    struct be_config config;
    struct hip_options options; /* config.own */
    struct hip_device *device;
    int pinned;              /* enum hip_kernel, by --variant; -1: none */
    char has[K_COUNT];       /* whether the device's image has a kernel (hip_has) */
    void *function[K_COUNT]; /* NULL: not launched yet */
    struct hip_stream *stream;
    struct hip_away away;
    struct hip_gptq gptq;
    int tensor_maps; /* the device has TMA, and linears and pages have maps for it */
    unsigned n_plans;
    long n_launched[MAX_PATTERNS]; /* of each pattern of hip_patterns.c, replays not counted */
    int n_classes[2];              /* row classes of linears: [PHASE_DECODE, PHASE_PREFILL] */
    struct hip_shape shape;        /* of this step */
    int32_t *d_batch;              /* its arrays */
    int32_t *batch_copy;           /* a copy of d_batch on the host */
    char *kept_half; /* [max_seqs] by seat: which half of its kept rows was written last */
    /* Scratch for all plans that were compiled: */
    int max_k, most_heads; /* maximal packed inputs of a linear; maximal query heads */
    size_t split_floats;   /* partial results of all heads of a row for one KV split */
    void *d_packed; /* [max_rows][max_k rounded up to a chunk] fp32, fp16 or parts: inputs of a
                       linear */
    float *d_scale; /* [max_rows] scales of fp16 inputs */
    float *d_parts; /* partial results of KV splits: hip_part_floats */
    void *d_heads;  /* [DEALT_BYTES] of linear_args, where there are many rows in f16; NULL: none */
    struct largest *d_largest;   /* of argmax_args */
    struct sample_slot *d_slots; /* [SAMPLE_FEW, at most max_rows], between steps without counts */
    struct hip_experts experts;
    int stores_apart;   /* a plan stores decode rows of KV_INT4 in launches of their own */
    void *d_step_pages; /* [step sets][step pages] of a plan's largest: hip_open.c */
    size_t step_bytes;
    /* of OP_CHOOSE: [score_bytes], hip_choose_bytes */
    float *d_scores;
    size_t score_bytes;
    void *d_sums;              /* [max_rows][max_stride] fp16 sums of paper/linear_paper.hip */
    int max_stride;
    struct hip_link *link;            /* to other devices (hip_exchange.c), or NULL */
    uint32_t *stop[EXCHANGE_DEVICES]; /* of linked devices, on the host: not 0 ends their waits */
    struct hip_turns *turns;          /* of microbatches (hip_turns.h), or NULL */
    uint32_t *words[EXCHANGE_DEVICES], *served[EXCHANGE_DEVICES]; /* of linked devices' turns */
    void *d_stage; /* [STAGE_BYTES] staging buffer for weights before they are packed */
    struct hip_upload upload[UPLOADS];
    unsigned n_uploads;
    struct hip_view view[VIEWS];
    void *step_done[STEPS]; /* events: end of the steps that are issued and not waited for */
    unsigned n_ended, n_waited;
    /* when hip_step_done was first asked for the oldest step; 0: not yet */
    double asked_since;
    void *all_done;    /* event: end of all launches before a wait */
    size_t bytes;      /* allocated on the device */
    struct err failed; /* the first failure; nothing is launched after it */
    char description[640];
};

enum { STAGE_BYTES = 16 << 20, TURN_WORDS = (EXCHANGE_DEVICES + 1) * EXCHANGE_FLAG };

static inline int hip_wait_seconds(const struct hip *h)
{
    return h->options.wait_seconds ? h->options.wait_seconds : 120;
}
/* Whether the arithmetic is one of integers: every operation has the CPU's bits. */
static inline int hip_is_exact(const struct hip *h) { return act_is_integer(h->config.act); }
static inline int hip_runs_paper(const struct hip *h)
{
    return h->pinned >= 0 && hip_kernels[h->pinned].op == FOR_PAPER;
}

/* Row size of dim elements, an index of arrays of kernels: SIZE_4 is up to SHORT_PIECES pieces,
 * SIZE_11 up to MEDIUM_PIECES, SIZE_14 longer. */
enum hip_size { SIZE_4, SIZE_11, SIZE_14, SIZES };
static inline enum hip_size hip_size_of(int dim)
{
    return dim <= SHORT_PIECES * PIECE ? SIZE_4 : dim <= MEDIUM_PIECES * PIECE ? SIZE_11 : SIZE_14;
}

/* Whether a 4-bit linear is plain: one 16-bit scale for each item of 128 inputs. */
static inline int hip_is_plain(const struct be_linear *w)
{
    return !w->dense && w->group_chunks % 4 == 0 && !w->scale_f32;
}

#endif
