/* args.h: the arguments of every kernel, as the host fills them and the device reads them, and the
 * layouts of the memory that they point to. Pointers are device addresses.
 *
 * LINEARS. Outputs are in panels of 16, inputs in chunks of 32, the last one padded with zeros. A
 * 4-bit linear has a multiple of 4 chunks.
 *   codes   [panel][two chunks][lane 0..31][4 words of 8 codes]. The 4 words of lane 4r + t are
 *           inputs 8t .. 8t+7 of output r in the first chunk, of output r + 8 in the first, of r in
 *           the second, of r + 8 in the second: what the lane holds of four 16x16 fragments of a
 *           matrix instruction. In a word, code i is input 2i and code 4+i is input 2i+1: (word >>
 *           4i) & 0x000f000f are two neighbours as the low bits of two halves
 *   meta    [panel][group][16] of one word (fp16 scale, fp16 zero point << 16), or of two words
 *           (fp32 scale, fp32 zero point)
 *   weight  [panel][piece][16 outputs][16 bytes]. A piece is 8 inputs of fp16 or bf16, or 4 of fp32
 *   x       [rows][32 * chunks] of fp16 with a power of two for each row, or of fp32
 *     wgmma [tile][64 inputs][rows of a tile][128 bytes] of fp16. The 16 bytes at place i ^ (row %
 *           8) of a row are, with p = i % 4, inputs 2p and 2p + 1 of each eight of chunk i / 4
 *     parts two fp16 parts of an fp32 activation, with a power of two for each row, or three bf16
 *           parts (nvidia/linear_plain_mma.hip)
 * The paper's kernels: codes [k / 8][outputs padded to 16] words, meta [group][the same] one word.
 *
 * PAGES of keys and values of one layer, [page][kv head], of fp16 or fp32. d8 is head_dim rounded
 * up to 8, with zeros beyond head_dim:
 *   keys [d8 / 8][PAGE][8], then values [PAGE][d8] */
#ifndef KERNELS_ARGS_H
#define KERNELS_ARGS_H

/* PANEL and PAGE are core's, too: hip.c asserts it. GPU_HEAD_DIM: dimensions of a head, at most */
enum { PANEL = 16, CHUNK = 32, PAGE = 16, GPU_HEAD_DIM = 256 };
enum { THREADS = 256 }; /* of a block, where kernel_list.h does not say otherwise */
/* Positions of a sequence that a block attends to, from an absolute multiple of SPAN on. */
enum { SPAN = 256 };
/* What merge_prepare takes: spans of a row, outputs of all heads; weights of spans: (spans + 1) of
 * each head. attend_merge takes MERGE_WEIGHTS - 1 spans. */
enum { MERGE_SPANS = 16, MERGE_DIMS = 8192, MERGE_WEIGHTS = 2048 };
/* of a row that a block merges, at most; in few registers */
enum { ROW_SPANS = 6, FEW_SPANS = 3 };
/* prompt rows of a sequence that attend together, and groups of them to a tile */
enum { GROUP_ROWS = 64, TILE_GROUPS = 2 };
/* Rows of activations that a block of vector.hip keeps in registers, in pieces of 4 elements for
 * each thread: kernels for rows of up to so many, in the order of enum hip_kernel. Registers that a
 * row does not need cost blocks that run side by side. */
enum { PIECE = 1024, FEW_PIECES = 4, SOME_PIECES = 11, ROW_PIECES = 14 };
enum { MERGE_PIECES = MERGE_DIMS / PIECE }; /* of a merged row */
/* Words of 8 bytes of LDS in which such a row, of up to so many pieces, is brought into another
 * order: its halves, and a zero. */
#define ORDERED(pieces) ((pieces) * PIECE / 4 + 1)
/* Threads of a block of vector_1024.hip; pieces of 4 elements for each of them where those of
 * THREADS are so many. */
enum { WIDE_THREADS = 1024 };
#define WIDE_PIECES(pieces, threads) (((pieces) * PIECE + 4 * (threads) - 1) / (4 * (threads)))
enum { CLUSTER = 4 }; /* blocks that compute a tile together (linear_decode_wgmma.hip) */
enum weight_kind { WEIGHT_F16, WEIGHT_BF16, WEIGHT_F32 };

/* What a row of kernel_list.h says. An operation: */
enum kernel_op {
    FOR_LINEAR,
    FOR_PAPER,
    FOR_GEMV,
    FOR_PACK,
    FOR_PREPARE,
    FOR_EMBED,
    FOR_NORM,
    FOR_GLU,
    FOR_GATHER,
    FOR_ROPE,
    FOR_ATTEND,
    FOR_MERGE,
    FOR_SAMPLE
};
/* The rows that a linear kernel takes. */
enum linear_phase { PHASE_DECODE, PHASE_PREFILL, PHASE_BOTH };
/* What it multiplies: 4-bit codes with fp16 or fp32 activations, or dense weights with fp32 ones,
 * in the order of enum weight_kind; or what linear_paper.hip does with 4-bit codes. */
enum linear_format {
    FORMAT_Q4_F16,
    FORMAT_Q4_F32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_F32,
    FORMAT_PAPER
};
#define FORMAT_DENSE(weights) (FORMAT_F16 + (int)(weights))
/* The linears that it takes: plain ones have one scale of 16 bits for each 128 inputs or more. */
enum linear_set { ANY_LINEAR, PLAIN_LINEAR, OTHER_LINEAR };

/* Items: the codes of 4 chunks of a panel; of a plain linear with their 16 scales. Bytes. */
enum { ITEM_BYTES = 1024, PLAIN_ITEM_BYTES = ITEM_BYTES + 64 };

/* hopper/linear_prefill_wgmma.hip: threads that copy, after those that compute; a stage: an item of
 * the inputs of a tile of rows, and of the weights */
enum { WGMMA_PRODUCERS = 128 };
#define WGMMA_STAGE(rows, outputs) (256 * (rows) + 64 * (outputs) + 1024)
#define WGMMA_SHARED(rows, outputs, stages) ((stages) * WGMMA_STAGE(rows, outputs) + 1024)
/* hopper/linear_decode_wgmma.hip: outputs of a tile, threads that compute, sums of a row */
enum { FEW_OUTPUTS = 128, FEW_THREADS = 256, FEW_STRIDE = FEW_OUTPUTS + 4 };
#define FEW_SHARED(rows, stages) (WGMMA_SHARED(rows, FEW_OUTPUTS, stages) + 4 * (rows) * FEW_STRIDE)
/* hopper/linear_decode_mma.hip: sums, then rings of the 8 warps */
#define DECODE_HOPPER_SHARED(tiles, depth) (8 * (4096 * (tiles) + PLAIN_ITEM_BYTES * (depth)))
/* nvidia/linear_decode_mma.hip: an item with scales for each chunk, in words; sums */
enum { MMA_ITEM = 384, MMA_SUMS = 2560 };
#define DECODE_MMA_SHARED(panels, depth) (4 * (8 * (depth) * (panels) * MMA_ITEM + MMA_SUMS))
/* nvidia/linear_plain_mma.hip */
#define DENSE_MMA_SHARED(rows, outputs, parts) (512 * ((outputs) + (rows) * (parts)))
/* common/linear_prefill.hip */
enum { PREFILL_OUTPUTS = 64, DENSE_PREFILL_ROWS = 64 };
/* paper/linear_paper.hip: inputs of a slice; outputs of a block are 4 of a thread */
enum { PAPER_THREADS = 128, PAPER_INPUTS = 128, SMB_SLICES = 4 };
#define PAPER_SLICES(smb) ((smb) ? SMB_SLICES : 1)
#define PAPER_OUTPUTS(smb) (4 * PAPER_THREADS / PAPER_SLICES(smb))
/* nvidia/attend_decode_mma.hip; nvidia/attend_prefill_mma.hip; hopper/attend_prefill_wgmma.hip */
enum { SPLIT_THREADS = 128, ATTEND_TILE_THREADS = 128, ATTEND_WIDE_THREADS = 384 };
enum { ATTEND_WIDE_STEP = 64, ATTEND_WIDE_STAGES = 6 };
#define SPLIT_SHARED(dims) (128 * (dims) * 4)
#define ATTEND_WIDE_SHARED(dims) (ATTEND_WIDE_STAGES * 2 * ATTEND_WIDE_STEP * (dims) * 2 + 128)
/* Shared memory that a block of few rows' gating asks for, so that a multiprocessor takes only one:
 * a launch begins before the one before has ended, and all its blocks would go to the few
 * multiprocessors that are idle then. A block of linear_decode_wgmma.hip fits beside it. WIDE_:
 * beside what vector_1024.hip declares; its registers keep others out, too, and it was not measured
 * without this. */
enum { SPREAD_SHARED = 95 << 10, WIDE_SPREAD_SHARED = 87 << 10 };

struct prepare_args {
    const float *x;              /* [rows][in] */
    const int *perm;             /* [k] or NULL; -1 gives 0 */
    const unsigned short *order; /* [stride], the same for rows in pieces, where `in` gives 0; NULL:
                                    without perm, or for longer rows */
    void *packed;                /* [rows][stride] of fp16 or fp32; zeros from k on */
    float *scale;                /* [rows], fp16 only: x = packed * scale */
    int in, k, stride;
    int top; /* fp16: the largest magnitude comes into [2^top, 2^(top+1)) */
    /* fp16: rows before n_first are laid out in tiles of first_tile rows, those from it on, by
     * themselves, in tiles of rest_tile, 0: row by row; rest_at: where these begin, in halves */
    int n_first, first_tile, rest_tile;
    unsigned long long rest_at;
};

/* One of up to three linears that have one input. */
struct linear_part {
    const void *weight; /* codes or weight */
    const void *meta;   /* 4-bit only */
    const float *bias;  /* [out] or NULL */
    const void *maps;   /* of codes and meta for Hopper's tensor copies (hip_pack.c), or NULL */
    float *y;           /* first row, [rows][out] */
    int out;
    int first; /* block (as wide as the variant says) of the grid at which it begins */
    int group_chunks, group_shift,
        last_group;       /* a group is group_chunks chunks, = 1 << group_shift unless that is -1 */
    int scale_f32;        /* two words a scale */
    int whole_items;      /* four chunks, from a multiple of four on, are of one group */
    unsigned group_magic; /* chunk * this >> 31 is its group */
};

enum { MAX_PARTS = 3 };

struct linear_args {
    struct linear_part part[MAX_PARTS];
    const void *x;      /* first row */
    const float *scale; /* of the first row, or NULL */
    int n_parts, rows, n_chunks;
    int n_blocks; /* of all parts */
};

struct repack_args { /* of some whole panels */
    const void *src; /* codes as in the model file; or rows of `in` weights */
    void *dst;
    int n_panels, n_chunks;
    int in, out_left; /* dense: inputs; rows that exist from the first panel on */
    int first, stride; /* rows of words (the paper's): the first of these panels; a row's outputs */
};

struct repack_meta_args {
    const void *scales;         /* fp16 or fp32, [n] */
    const unsigned char *zeros; /* [n] */
    void *dst;
    int n, wide;
    int first, n_groups, stride; /* stride 0: in place; else dst[group][stride], the first element
                                    being number `first` */
};

struct paper_args {
    const void *weight; /* [k/8][stride] words of 8 codes */
    const void *meta;   /* [k/group][stride] words: scale, zero point << 16 */
    const void *x;      /* [rows][k] fp16 */
    const float *scale; /* [rows] */
    void *y;            /* [rows][stride] fp16, added to */
    int rows, k, stride, group;
};

struct paper_result_args {
    const void *sums; /* [rows][stride] fp16 */
    const float *bias;
    float *y; /* [rows][out] */
    int rows, out, stride;
};

struct embed_args {
    const void *weight;
    const int *token;  /* [rows] */
    const int *chosen; /* by token -1, -2, ... */
    float *out;        /* [rows][dim] */
    int dim, n_chunks;
    int kind; /* enum weight_kind */
    float scale;
};

struct norm_args {
    float *x;            /* [rows][dim] */
    const float *delta;  /* the same or NULL */
    const float *weight; /* [dim] */
    float *out;          /* NULL: only what norm_prepare makes of it is read */
    float eps;
    int dim;
};

struct angles_args {
    const int *pos;        /* [rows] */
    const float *inv_freq; /* [half] */
    float *cos, *sin;      /* [rows][half] */
    float scale;
    int rows, half;
};

struct rope_kernel_args {
    float *q;                     /* [rows][n_heads * head_dim] */
    const float *k, *v;           /* [rows][n_kv_heads * head_dim] */
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    const float *cos, *sin;       /* [rows][head_dim / 2] */
    const int *slot;              /* [rows] */
    void *pages;
    float eps;
    int n_heads, n_kv_heads, head_dim, kv_f32; /* kv_f32: fp32 */
    int in_octets; /* a block takes several heads: none is normed, head_dim is a multiple of 16 */
};

struct attend_kernel_args {
    const float *q; /* [rows][n_heads * head_dim] */
    const void *pages;
    float *out;
    const int *pos, *seq; /* [rows] */
    const int *table;     /* [n_seqs][table_stride] */
    float scale, softcap; /* softcap 0: none; only attend.hip's kernels have it */
    int table_stride, window, n_heads, n_kv_heads, head_dim;
    float *parts; /* attend_split, attend_pages: as in merge_args */
    /* attend_decode_mma.hip, attend_prefill_wgmma.hip: not rotated yet are, where cos is not NULL,
     * the queries, where k is not NULL, the keys of generated rows, which are not stored either,
     * nor the values
     */
    const float *k, *v;     /* [rows][n_kv_heads * head_dim] */
    const float *cos, *sin; /* [rows][head_dim / 2] */
    int n_spans;            /* of the longest sequence of the step, or more */
    const int *work; /* [] row << 16 | span of a block of generated rows; NULL: the grid has a block
                        for each row and span */
    const int *tiles; /* [][TILE_GROUPS][2] first row and number of rows, 0 to GROUP_ROWS, all of
                         one sequence */
};

struct merge_args {
    const float *parts; /* [rows][n_heads][n_spans][part_floats(head_dim)] */
    float *out;         /* [rows][n_heads * head_dim] */
    const int *pos;     /* [rows] */
    int n_spans, window, n_heads, head_dim;
};

/* The operation before a linear and what prepares its input, in one launch: rows of `out` are read
 * back by the block that wrote them. Where nobody else reads them they may stay in registers. */
struct norm_prepare_args {
    struct norm_args norm;
    struct prepare_args prepare;
};

struct merge_prepare_args {
    struct merge_args merge;
    struct prepare_args prepare;
};

struct glu_args {
    float *gate;
    const float *up;
    unsigned long long n;
    int gelu; /* GELU by tanh instead of SiLU; glu_wide and linear_gemv.hip have SiLU only */
};

struct softcap_args {
    float *x;
    unsigned long long n;
    float cap;
};

struct glu_prepare_args {
    struct glu_args glu; /* n: of a row */
    struct prepare_args prepare;
    int keep; /* gate is read by others, too */
};

/* linear_gemv.hip: a linear of one row and what it makes its inputs from: linear.x [in] fp32, or
 * norm, without a delta, or merge. */
struct one_row_args {
    struct linear_args linear; /* n_blocks: panels; of the first part where the results are gated:
                                  part[0].y = silu(part 0) * part 1 */
    struct norm_args norm;
    struct merge_args merge;
    const unsigned short
        *place; /* [in], where an input lies among the weights; NULL: where it is */
    int add;    /* part[0].y += the only part's results */
};

/* Pieces of a normed row; spans of a merged row, and weights of them, spans + 1 of each head. */
enum { ONE_NORM_PIECES = 5, ONE_SPANS = 3, ONE_MERGE_WEIGHTS = 512 };
#define ONE_SHARED(items, pieces)                                                                  \
    (8 * (items) * PLAIN_ITEM_BYTES + 2048 + 64 + 8 * ONE_MERGE_WEIGHTS + 2 * (pieces) * PIECE)

struct gather_args {
    const float *x;
    const int *row; /* [n] */
    float *out;     /* [n][dim] */
    int dim;
};

enum { ARGMAX_SPANS = 32 }; /* of a row of logits */

struct largest {
    float value;
    int at;
};

struct argmax_args {
    const float *logits;   /* [rows][vocab] */
    struct largest *spans; /* [rows][ARGMAX_SPANS] */
    int *id;               /* [rows] */
    int vocab;
};

/* logits kept as the largest of a row; room for all that ever were; of a block */
enum { TOP = 64, TOP_ROOM = 1024, TOP_THREADS = 1024 };

struct top_args {
    const float *logits; /* [][vocab] */
    const int *row;      /* [n] of logits */
    struct largest *top; /* [n][TOP_ROOM], ends with an `at` of -1 where it is not full; begins with
                            it where there are more */
    int vocab;
};

#endif
