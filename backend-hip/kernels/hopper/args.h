/* args.h of hopper/: what the kernels for sm_90a share with the host. */
#ifndef KERNELS_HOPPER_ARGS_H
#define KERNELS_HOPPER_ARGS_H

#include "backend-hip/kernels/nvidia/args.h"

/* Most KV splits of a row that combine_1024_* and combine_prepare take, and that combine_1024_4
 * takes. */
enum { ROW_SPLITS = 6, SHORT_ROW_SPLITS = 3 };

/* Threads of a block of vector_1024.hip; pieces of a thread when `pieces` pieces of THREADS threads
 * are divided among `threads`. */
enum { THREADS_1024 = 1024 };
#define PIECES_FOR(pieces, threads) (((pieces) * PIECE + 4 * (threads) - 1) / (4 * (threads)))

/* SPREAD_SHARED for glu_1024_14: what it asks for in addition to its static shared memory. */
enum { SPREAD_SHARED_1024 = 87 << 10 };

enum { CLUSTER = 4 }; /* blocks of a cluster (linear_decode_wgmma.hip) */

/* linear_prefill_wgmma.hip: threads of the producer warpgroup, which follow the consumers; bytes of
 * a pipeline stage, which has an item of the inputs of a row tile and one of the weights */
enum { WGMMA_PRODUCERS = 128 };
#define WGMMA_STAGE(rows, outputs) (256 * (rows) + 64 * (outputs) + 1024)
#define WGMMA_SHARED(rows, outputs, stages) ((stages) * WGMMA_STAGE(rows, outputs) + 1024)
/* linear_decode_wgmma.hip: outputs of a tile, consumer threads, floats from a row of sums to the
 * next */
enum { CLUSTER_OUTPUTS = 128, CLUSTER_CONSUMERS = 256, CLUSTER_STRIDE = CLUSTER_OUTPUTS + 4 };
#define CLUSTER_SHARED(rows, stages)                                                               \
    (WGMMA_SHARED(rows, CLUSTER_OUTPUTS, stages) + 4 * (rows) * CLUSTER_STRIDE)
/* linear_dealt_wgmma.hip: rows and outputs of a tile, consumer threads, blocks at most; bytes of 64
 * inputs of a tile's rows, of the codes and scales of an item, of the sums of a tile. DEALT_BYTES:
 * what blocks leave for the next one, the sums of a tile and a flag for each warp */
enum { DEALT_ROWS = 128, DEALT_OUTPUTS = 128, DEALT_CONSUMERS = 256, DEALT_BLOCKS = 132 };
enum { DEALT_X_BYTES = DEALT_ROWS * 128, DEALT_CODES = DEALT_OUTPUTS / PANEL * PLAIN_ITEM_BYTES };
enum { DEALT_SUM_BYTES = DEALT_ROWS * DEALT_OUTPUTS * 4 };
#define DEALT_SHARED(x_items, stages)                                                              \
    ((x_items) * 2 * DEALT_X_BYTES + (stages) * DEALT_CODES + 16 * (2 * (x_items) + (stages)) + 16)
#define DEALT_HEADS_BYTES (DEALT_BLOCKS * DEALT_SUM_BYTES)
#define DEALT_BYTES (DEALT_HEADS_BYTES + DEALT_BLOCKS * DEALT_CONSUMERS / 32 * 4)
/* linear_decode_mma.hip: sums, then the rings of 8 warps */
#define DECODE_HOPPER_SHARED(tiles, bytes, depth) (8 * (4096 * (tiles) + (bytes) * (depth)))
/* experts_decode_mma.hip: rings of 8 warps */
enum { EXPERTS_MMA_PANELS = 2 };
#define EXPERTS_MMA_SHARED(depth) (8 * PLAIN_ITEM_BYTES * EXPERTS_MMA_PANELS * (depth))
/* experts_route_gemv.hip: items of a ring; blocks of a multiprocessor, which has registers and
 * shared memory left for a block of experts_mix_gemv.hip. Most experts that a warp chooses among:
 * for one row, for rows of any kind, and with few instructions. Shared memory: rings and sums of 8
 * warps, and a scale */
enum { EXPERTS_ROUTE_DEPTH = 6, EXPERTS_ROUTE_BLOCKS = 2 };
enum { WARP_EXPERTS = 512, SOME_EXPERTS = 256, FEW_EXPERTS = 128 };
#define EXPERTS_ROUTE_SHARED (8 * (PLAIN_ITEM_BYTES * EXPERTS_ROUTE_DEPTH + 2 * 4 * PANEL) + 16)
/* experts_mix_gemv.hip: items of a ring, most inputs of a slot, most slots; MIX_ALONE: there is no
 * shared expert. Most inputs of a shared expert, four to a thread. Shared memory: rings, inputs and
 * results of 8 warps; the shared expert's row in parts, and a sum of each output for each 64 of its
 * inputs */
enum { MIX_DEPTH = 8, MIX_INPUTS = 2048, MIX_SLOTS = 8, MIX_ALONE = -1 };
enum { MIX_SHARED_INPUTS = 4 * THREADS };
#define MIX_SHARED                                                                                 \
    (8 * (PLAIN_ITEM_BYTES * MIX_DEPTH + 2 * MIX_INPUTS + 4 * PANEL) + 5 * MIX_SHARED_INPUTS)

/* linear_plain_wgmma.hip: rows of a tile in memory, of which a kernel may take a part; bytes of a
 * stage of 64 inputs, in whole KB for the swizzle; of the ring with its mbarriers */
enum { PLAIN_WGMMA_ROWS = 128 };
#define PLAIN_WGMMA_STAGE(weights, rows, groups)                                                   \
    ((F16_PARTS(weights) * (rows) * 128 +                                                          \
      (groups) * 4 * ((weights) == WEIGHT_I8 ? BYTES_STAGE : 2048) + 1023) / 1024 * 1024)
#define PLAIN_WGMMA_SHARED(weights, rows, groups, stages)                                          \
    ((stages) * PLAIN_WGMMA_STAGE(weights, rows, groups) + 16 * (stages))
/* plain_decode_wgmma.hip: bytes of a stage, which has 64 inputs of a tile's rows and of its
 * weights */
#define PLAIN_DECODE_STAGE(weights, rows, outputs)                                                 \
    (F16_PARTS(weights) * (rows) * 128 + (outputs) * 128)
#define PLAIN_DECODE_SHARED(weights, rows, outputs, stages)                                        \
    ((stages) * PLAIN_DECODE_STAGE(weights, rows, outputs) + 16 * (stages))

/* dense_gemv.hip: most inputs, linears of a launch. Shared memory: a row in parts, three buffers
 * with a sum of each of a panel's outputs for each 64 inputs, and mbarriers */
enum { DENSE_GEMV_INPUTS = 6144, DENSE_PARTS = 4 };
#define DENSE_GEMV_SHARED(inputs, parts, panels)                                                   \
    ((inputs) * 2 * (parts) + 3 * (inputs) * (panels) + 128)
/* dense_rows.hip: rows, inputs of 8 rows at most; columns that rows take. Shared memory: the rows
 * in parts, two buffers with a sum of each of a panel's outputs for each 64 inputs */
enum { DENSE_ROWS_MOST = 8, DENSE_ROWS_INPUTS = 4096 };
#define DENSE_ROWS_COLUMNS(rows) ((rows) > 4 ? 8 : (rows) > 2 ? 4 : 2)
#define DENSE_ROWS_SHARED(inputs, parts, columns) (2 * (inputs) * (columns) * ((parts) + 1))
/* router_gemv.hip: most inputs. Shared memory: the row in two parts of fp16, the row in fp32, and,
 * for each 64 inputs, a sum of each of the 8 outputs of half a panel */
enum { ROUTER_INPUTS = 4096 };
#define ROUTER_SHARED(inputs) ((inputs) * (2 * 2 + 4 + 1))

/* attend_prefill_wgmma.hip */
enum { ATTEND_WGMMA_THREADS = 384, ATTEND_WGMMA_STEP = 64 };
/* attend_prefill_pages.hip: positions of a stage, stages */
enum { ATTEND_STAGE_POSITIONS = 128, ATTEND_STAGES = 3 };
/* attend_prefill_int8.hip: stages, and their bytes; steps copied ahead */
enum { ATTEND_INT8_STAGES = 4, ATTEND_INT8_AHEAD = 3 };
#define ATTEND_INT8_STAGE(dims) (4 * ATTEND_WGMMA_STEP * (dims) + 1024)
#define ATTEND_INT8_SHARED(dims)                                                                   \
    (ATTEND_INT8_STAGES * ATTEND_INT8_STAGE(dims) +                                                \
     ATTEND_INT8_AHEAD * (2 * ATTEND_WGMMA_STEP * (dims) + 512) + 128)
/* attend_prefill_int8.hip for int4: the stages, and lo and step of the channels for the steps
 * ahead */
#define ATTEND_INT4_SHARED(dims) (ATTEND_INT8_SHARED(dims) + ATTEND_INT8_AHEAD * 16 * (dims))

/* attend_warp.hip: stages of a ring, query heads at most; WARP_PAGES: pages of a stage; WARP_PART,
 * WARP_STAGE: bytes of the keys or values of a page, of a stage; WARP_QUERY: bytes from a digit of
 * a query to the next. Shared memory: stages, scales and scores of a chunk, digits of queries,
 * mbarriers */
enum { WARP_DEPTH = 2, WARP_HEADS = 4 };
#define WARP_PAGES(int4) ((int4) ? 4 : 2)
#define WARP_PART(dims, int4) ((int4) ? 10 * (dims) : PAGE * (dims))
#define WARP_STAGE(dims, int4) (WARP_PAGES(int4) * (WARP_PART(dims, int4) + 32) - 32)
#define WARP_IN_PLACE(int4, heads) ((int4) && (heads) == 1) /* queries in the last scores' place */
#define WARP_QUERY(dims, int4, heads) (WARP_IN_PLACE(int4, heads) ? (dims) : (dims) + 16)
#define WARP_QUERIES(dims, int4, heads)                                                            \
    (WARP_IN_PLACE(int4, heads) ? 0 : 2 * (heads) * WARP_QUERY(dims, int4, heads))
#define ATTEND_WARP_SHARED(dims, int4, heads)                                                      \
    (WARP_DEPTH * WARP_STAGE(dims, int4) + (8 + 4 * (heads)) * KV_SPLIT +                          \
     WARP_QUERIES(dims, int4, heads) + 8 * (WARP_DEPTH + 1))

/* attend_latent.hip: threads, positions of a turn, columns of a block, of one of a row with few
 * heads. Shared memory: stages of keys, sums of eight warps, values of the chunks before, weights,
 * mbarriers */
enum { LATENT_THREADS = 512, LATENT_TURN = 32, LATENT_COLUMNS = 32, LATENT_FEW = 16 };
#define ATTEND_LATENT_SHARED(columns, stages, whole)                                               \
    ((stages) * (LATENT_TURN * LATENT_DIMS * 2 + 8) +                                              \
     (columns) * (8 * LATENT_TURN * 4 + ((whole) ? LATENT_VALUE * 4 : 0) + 2 * (LATENT_TURN + 8)))

#define ATTEND_WGMMA_SHARED(dims) (ATTEND_STAGES * 4 * ATTEND_STAGE_POSITIONS * (dims) + 128)
/* attend_prefill_256.hip: slots of a ring. Shared memory: the ring, and the queries of a tile in
 * two parts */
enum { ATTEND_LONG_SLOTS = 3 };
#define ATTEND_LONG_SHARED                                                                         \
    ((ATTEND_LONG_SLOTS + 2 * TILE_GROUPS) * ATTEND_WGMMA_STEP * 256 * 2 + 16 * ATTEND_LONG_SLOTS)

/* linear_gemv.hip: a linear of one row and its prologue: linear.x [in] fp32 as it is, a norm
 * without delta, or the combination of KV splits. */
struct gemv_args {
    struct linear_args linear; /* n_blocks: panels; with SwiGLU panels of the first part, and
                                  part[0].y = silu(part 0) * part 1 */
    struct norm_args norm;
    struct combine_args combine;
    const unsigned short *place; /* [in] packed position of each input; NULL: not permuted */
    int add;                     /* residual epilogue: part[0].y += the result of the only part */
};

/* What the prologue of a GEMV has for its input. */
enum gemv_source { GEMV_NORM, GEMV_COMBINE, GEMV_ROW };

/* Limits: pieces of a normed row; KV splits of a combined row; their weights, which are splits + 1
 * for each head. */
enum { GEMV_NORM_PIECES = 5, GEMV_SPLITS = 3, GEMV_COMBINE_WEIGHTS = 512 };
#define GEMV_SHARED(items, pieces)                                                                 \
    (8 * (items) * PLAIN_ITEM_BYTES + 2048 + 64 + 8 * GEMV_COMBINE_WEIGHTS + 2 * (pieces) * PIECE)

/* delta_gated.hip: sequences of one row; gate = silu(gate) * norm(out); out is not
 * written */
struct delta_gated_args {
    struct delta_args delta;
    const float *norm; /* [value_dim] */
    float *gate;       /* [rows][value_heads * value_dim] */
    float eps;
};

/* A linear of dense_gemv.hip and dense_rows.hip. */
struct dense_part {
    const void *weight;
    const float *bias; /* [out] or NULL */
    float *y;          /* [rows][out] */
    int out, first;    /* first: the first output tile */
};

/* dense_rows.hip: the linears of one or two operations of one input */
struct dense_rows_args {
    struct dense_part part[DENSE_PARTS];
    const void *x;      /* prepare_parts() */
    const float *scale; /* [rows] */
    int n_parts, n_tiles, n_chunks, rows;
};

/* dense_gemv.hip: linears of one row, whose input is the norm of a row without delta, or x [in] */
struct dense_gemv_args {
    struct dense_part part[DENSE_PARTS];
    const float *x, *up;   /* up: the input is silu(x) * up; NULL: it is x */
    struct norm_args norm; /* out: NULL, or where the normed row is stored for other readers */
    int n_parts, n_tiles, n_chunks;
    int byte_tiles, byte_blocks; /* tiles and blocks for codes of 8 bits, which come first; only
                                    where a launch has other weights, too */
    int together; /* panels of a tile, 1 or 2; with 2 part[0].y = silu(part 0) * part 1, and both
                     parts have the same tiles */
    /* The result v of a single part may be changed to before + v / (1 + e^-gate[0]), and be added
     * to y. */
    const float *before, *gate; /* [out], [1] or NULL */
    int add;
    /* Tiles of part 0 whose results are a step of one sequence's convolution of a width of 4;
     * conv.out and its state are written in their place. 0: none */
    int conv_tiles;
    struct conv_args conv;
    void *packed;  /* norm only: fp16 [stride], as prepare_args has it; NULL: none */
    float *scale;  /* [1] of packed */
    int stride;    /* at most DENSE_GEMV_INPUTS */
};

/* router_gemv.hip: a norm without delta and linears of its result, for one row; a part's first
 * block is counted in panels */
struct norm_router_args {
    struct norm_args norm;
    struct linear_args linear; /* x, scale: unused */
    void *packed;              /* fp16 [stride], as prepare_args has it */
    float *scale;              /* [1] of packed */
    int stride;
};

/* norm_route.hip, decode rows: blocks of a cluster, rows of a block at most; shared memory at most,
 * slots that it groups at most. The router's weights are plain, its inputs are those of the norm
 * and whole stages. half, parts: preparations of the normed rows; packed NULL: there is none. */
enum { ROUTE_CLUSTER = 8, ROUTE_ROWS = 2 };
enum { NORM_ROUTE_SHARED = 110 << 10, NORM_ROUTE_SLOTS = 2048 };
struct norm_route_args {
    struct norm_args norm;
    struct linear_args linear; /* rows and n_chunks alone */
    struct linear_part router;
    struct prepare_args half, parts;
    struct route_args route;     /* x: unused; by_warp 0: another launch makes the choice */
    struct expert_groups groups; /* n_slots 0: another launch groups the slots */
    int *counter;                /* [1] 0 between launches */
    int of_block;                /* rows of a block, 1 or ROUTE_ROWS */
    int is_bf16;                 /* 1: the router's weights are bf16; 0: fp16 */
};

/* norm_route.hip: the choice alone */
struct route_warps_args {
    struct route_args route;
    struct expert_groups groups; /* n_slots 0: another launch groups the slots; else one block has
                                    all rows */
};

/* conv_few.hip: rows of a sequence at most */
enum { CONV_FEW = 8 };

/* experts_route_gemv.hip: one row; experts.expert: unused */
struct route_experts_args {
    struct route_args route;
    struct experts_args experts;
};

/* experts_mix_gemv.hip */
struct experts_mix_args {
    struct experts_args experts; /* every slot is a tile; part[0].y [rows][n] */
    const float *gate, *up;      /* [rows][slots][in] */
    const float *weight;         /* [rows][slots] */
    struct route_args route;     /* by_warp: this launch makes the choice of its only row, too, from
                                    the scores of the launch before the last one, which let this one
                                    start after them; else experts.expert has the choice */
    int in, slots, gelu;
    int add; /* y += */
    /* The last linear of a shared expert, not in q4_experts_mix: y = result + its result [rows][n]
     * of silu(shared_gate) * shared_up, times 1 / (1 + e^-gate_of_shared[row]). shared_bias may be
     * NULL; gate_of_shared NULL: a factor of 1. */
    const void *shared; /* weight */
    const float *shared_bias, *shared_gate, *shared_up, *gate_of_shared; /* or NULL */
    int shared_chunks;
};

/* vector_1024.hip: a norm whose delta is a weighted sum of experts; norm.delta is unused */
struct mix_norm_args {
    struct norm_prepare_args both;
    struct mix_args mix;
};

/* exact_linear_wgmma.hip: bytes of a stage of a ring, which has the integers of a tile's columns
 * (one for each digit of a row), the codes and scales of the weights, and the scales of the rows */
#define EXACT_WGMMA_STAGE(groups, columns)                                                         \
    ((columns) * 128 + ((groups) * 4 * (1024 + 64) + (columns) * 4 + 1023) / 1024 * 1024)
#define EXACT_WGMMA_SHARED(groups, columns, stages)                                                \
    ((stages) * EXACT_WGMMA_STAGE(groups, columns) + 1024)

/* exact_gemv.hip */
struct exact_gemv_args {
    struct linear_args linear; /* n_blocks: panels; with an activation panels of the first part, and
                                  part[0].y = activation(part 0) * part 1 */
    struct norm_args norm;     /* without delta; out is not written */
    struct combine_args combine;
    struct glu_any_args glu; /* kind and constants of the activation alone */
    int n_subs, digits;
    int add; /* part[0].y += the result of the only part */
};

/* exact_gemv.hip: sub-groups of a stage, one for each warp that computes; stages; threads; bytes of
 * a stage and of the mbarriers; octets that a thread has of a normed row, and of another row.
 * Shared memory: the ring, the digits of the row, then terms in two buffers, which a lane reads 15
 * sub-groups too far; the squares of a normed row are in the place of the terms first. */
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

#endif
