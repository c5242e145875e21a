/* args_exact.h, a part of args.h: arguments and layouts of the kernels in the CPU's order
 * (common/exact_*.hip). */
#ifndef KERNELS_ARGS_EXACT_H
#define KERNELS_ARGS_EXACT_H

/* Sub-groups of a 4-bit linear: at most 4 chunks of one group each, `each` to a group, n in all. */
struct exact_groups {
    int group_chunks, each, n, n_chunks; /* n_chunks: of all inputs, without padding */
    int pairs; /* codes of 8 bits: their halves are groups 2 i and 2 i + 1 of the weights */
};

/* Activations as integers: digit [row][digit][stride] bytes, 128 * first digit + second; within 8
 * inputs in the order 0 4 1 5 2 6 3 7, as exact_linear.hip unpacks the codes. tile: not 0: in tiles
 * of so many rows, with their scales, for hopper/exact_linear_wgmma.hip, which says their layout;
 * scaled is unused. lanes: for 4-bit codes in common/exact_linear_lanes.hip, which says their
 * layout in images that have v_dot8. */
struct exact_scaled {
    float scale; /* activation = scale * integer */
    int sum;     /* of the integers */
};

struct exact_digits {
    void *digit;
    struct exact_scaled *scaled; /* [sub-group][rows] */
    int stride, digits, rows, tile, lanes;
};

struct exact_quantize_args {
    const float *x;  /* [rows][in] */
    const int *perm; /* [k] or NULL; -1 gives 0 */
    struct exact_digits to;
    struct exact_groups groups;
    int in;
    const int *slot_expert; /* experts: [slots] whose permutations [experts][k] apply; row i is slot
                               i of x [slots / top_k][in]; NULL: rows */
    int k, top_k;
    /* x is activation(x) * up, not stored; only where glu.gate is there. Pointers as x */
    struct glu_any_args glu;
};

struct exact_linear_args {
    struct linear_args linear; /* x: dense linears only; experts: rows are slots, slot of places */
    struct exact_digits of;
    struct exact_groups groups;
    /* experts: the tiles of a grouping, as experts_args has them; expert NULL: rows. The input of
     * slot i is row i / top_k */
    const int *expert, *end, *n_tiles;
    int top_k;
    int row_warps; /* nvidia/exact_dense.hip: 1 or 2 */
    int tiles;     /* common/exact_linear_lanes.hip: of the rows of a block */
};

/* common/exact_linear_lanes.hip: outputs of a block, most tiles of 8 rows */
enum { EXACT_OUTPUTS = 64, EXACT_ROW_TILES = 4 };

/* amd/exact_linear_matrix.hip: rows and panels of a block */
enum { EXACT_MATRIX_ROWS = 64, EXACT_MATRIX_PANELS = 8 };

/* nvidia/exact_linear_mma.hip: rows of a warp; panels of a block of 8 warps; bytes between rows of
 * digits in shared memory, stages; rows of a block for few rows, its terms */
enum { EXACT_WARP_ROWS = 32, EXACT_MMA_STRIDE = 160, EXACT_STAGES = 3 };
#define EXACT_TILE_PANELS(rows, panels) (8 * EXACT_WARP_ROWS / (rows) * (panels))
enum { EXACT_SPLIT_ROWS = 8, EXACT_SPLIT_TERMS = 8192 };
#define EXACT_TILE_SHARED(rows, panels, pairs)                                                     \
    (EXACT_STAGES * ((rows) * (2 * EXACT_MMA_STRIDE + 8) +                                         \
                     EXACT_TILE_PANELS(rows, panels) * (1024 * (1 + (pairs)) + 128)))

/* hopper/exact_linear_wgmma.hip: bytes of a stage of a ring: the integers of a tile's columns, one
 * for each digit of a row; codes, scales of the weights, scales of the rows */
#define EXACT_WGMMA_STAGE(groups, columns)                                                         \
    ((columns) * 128 + ((groups) * 4 * (1024 + 64) + (columns) * 4 + 1023) / 1024 * 1024)
#define EXACT_WGMMA_SHARED(groups, columns, stages)                                                \
    ((stages) * EXACT_WGMMA_STAGE(groups, columns) + 1024)

/* hopper/exact_gemv.hip */
struct exact_gemv_args {
    struct linear_args linear; /* n_blocks: panels; with an activation those of the first part, and
                                  part[0].y = activation(part 0) * part 1 */
    struct norm_args norm;     /* without delta; out: not written */
    struct combine_args combine;
    struct glu_any_args glu; /* the activation alone */
    int n_subs, digits;
    int add; /* part[0].y += the result of the only part */
};

/* Sub-groups of a stage, one for each warp that computes; stages; bytes of a stage and of the
 * mbarriers; octets of a thread of a normed row, of another. After the ring and the digits of the
 * row: terms in two buffers, which a lane reads 15 sub-groups too far; in their place first the
 * squares of a normed row. */
enum { EXACT_GEMV_ITEMS = 16, EXACT_GEMV_STAGES = 10, EXACT_GEMV_COMPUTE = 32 * EXACT_GEMV_ITEMS };
enum { EXACT_GEMV_THREADS = EXACT_GEMV_COMPUTE + 64 };
enum { EXACT_GEMV_STAGE = EXACT_GEMV_ITEMS * PLAIN_ITEM_BYTES, EXACT_GEMV_BARRIERS = 256 };
enum { EXACT_GEMV_NORM_OCTETS = 2, EXACT_GEMV_ROW_OCTETS = 4 };
#define EXACT_GEMV_INPUTS(octets) ((octets) * 8 * EXACT_GEMV_COMPUTE)
#define EXACT_GEMV_SUBS(source)                                                                    \
    (EXACT_GEMV_INPUTS((source) == GEMV_NORM ? EXACT_GEMV_NORM_OCTETS : EXACT_GEMV_ROW_OCTETS) /   \
     128)
#define EXACT_GEMV_TERMS(subs, panels) (4 * PANEL * (2 * (panels) * (subs) + 15))
#define EXACT_GEMV_PLACE(subs, panels, norm)                                                       \
    ((norm) && 4 * 128 * (subs) > EXACT_GEMV_TERMS(subs, panels)                                   \
         ? 4 * 128 * (subs)                                                                        \
         : EXACT_GEMV_TERMS(subs, panels))
#define EXACT_GEMV_SHARED(subs, panels, norm)                                                      \
    (EXACT_GEMV_STAGES * EXACT_GEMV_STAGE + EXACT_GEMV_BARRIERS + 2 * 128 * (subs) +               \
     ((subs) + 1) / 2 * 16 + EXACT_GEMV_PLACE(subs, panels, norm))

/* Rows and panels of a block of exact_dense */
enum { EXACT_DENSE_ROWS = 8, EXACT_DENSE_PANELS = THREADS / 32 };
/* nvidia/exact_dense.hip: inputs of a stage, stages, floats between rows; rows and panels of a
 * block; bytes of all stages, which are most where row_warps is 1 */
enum { DENSE_SPAN = 128, DENSE_STAGES = 3, DENSE_STRIDE = DENSE_SPAN + 16 };
#define DENSE_TILE_ROWS(tile, row_warps) (2 * (tile) * (row_warps))
#define DENSE_TILE_PANELS(tile, row_warps) ((tile) / (row_warps))
#define DENSE_TILE_SHARED(tile)                                                                    \
    (DENSE_STAGES * (2 * (tile) * DENSE_STRIDE * 4 + DENSE_SPAN / 8 * (256 * (tile) + 32)))

/* Rows of a block of exact_attend_rows, a divisor of GROUP_ROWS */
enum { EXACT_ATTEND_ROWS = 8 };
/* amd/attend_matrix.hip: rows times query heads of a block, a divisor of GROUP_ROWS; maximal
 * dimensions of a head over pages of fp16 */
enum { ATTEND_MATRIX_ROWS = 16, ATTEND_HALVES_DIM = 128 };
/* nvidia/exact_attend_mma.hip: rows of a block, a divisor of GROUP_ROWS; weights, their digits and
 * those of queries */
enum { EXACT_TILE_ROWS = 32 };
#define EXACT_ATTEND_SHARED(dims)                                                                  \
    (EXACT_TILE_ROWS * (4 * (KV_SPLIT + 16) + 2 * 4 * (KV_SPLIT / 4 + 4) + 2 * (dims) + 64))

/* Floats of a row in shared memory; whether a norm keeps its row there. */
enum { EXACT_SPAN = 4096 };
#define EXACT_NORM_IN_SPAN(dim) ((dim) <= EXACT_SPAN && (dim) % 4 == 0)

struct exact_norm_args {
    struct norm_args norm;
    const float *bias; /* centered: [dim] or NULL */
    int groups, centered;
};

/* A norm and the quantization of its result, which is stored, too, unless norm.out is NULL. */
struct exact_norm_quantize_args {
    struct exact_norm_args norm;
    struct exact_quantize_args quantize;
};

struct gather_args {
    const float *x;
    const int *row; /* [n] */
    float *out;     /* [n][dim] */
    int dim;
};

/* Spans of a row of logits, at most; where there are more than so many rows */
enum { ARGMAX_SPANS = 128, ARGMAX_FEW_ROWS = 8, ARGMAX_SPANS_OF_MANY = 32 };

struct largest {
    float value;
    int at;
};

struct argmax_args {
    const float *logits;   /* [rows][vocab] */
    struct largest *spans; /* [rows][n_spans] */
    int *id;               /* [rows] */
    int vocab, n_spans;
};

/* the largest logits of a row; room for all logits that are among them at some point; threads of a
 * block */
enum { TOP = 64, TOP_ROOM = 1024, TOP_THREADS = 1024 };

struct top_args {
    const float *logits; /* [][vocab] */
    const int *row;      /* [n] of logits */
    struct largest *top; /* [n][TOP_ROOM]; an `at` of -1 ends a list that is not full, and is the
                            first entry of one that did not fit */
    int vocab;
};

#endif
