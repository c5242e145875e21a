/* args.h of nvidia/: what the kernels for NVIDIA's matrix instructions (sm_80 on) share with the
 * host. */
#ifndef KERNELS_NVIDIA_ARGS_H
#define KERNELS_NVIDIA_ARGS_H

#include "backend-hip/kernels/common/args.h"

/* linear_decode_mma.hip: words of an item that has scales for each chunk; words of the sums of a
 * block */
enum { MMA_ITEM = 384, MMA_SUMS = 2560 };
#define DECODE_MMA_SHARED(panels, depth) (4 * (8 * (depth) * (panels) * MMA_ITEM + MMA_SUMS))
/* linear_plain_mma.hip */
#define DENSE_MMA_SHARED(rows, outputs, parts, weights)                                            \
    (512 * (rows) * (parts) + ((weights) == WEIGHT_I8 ? 272 : 512) * (outputs))
/* Parts of an activation of plain linears in f16 on sm_90a. */
#define F16_PARTS(weights) ((weights) == WEIGHT_I8 ? 1 : 2)
/* linear_few_mma.hip: most inputs; bytes of the sums of 8 stages, twice */
enum { FEW_INPUTS = 8192, FEW_SHARED = 2 * 8 * 16 * PANEL * 4 };

/* attend_decode_mma.hip: threads; shared memory for keys and values, then queries.
 * attend_prefill_mma.hip: threads; shared memory */
enum { SPLIT_THREADS = 128, ATTEND_TILE_THREADS = 128 };
#define SPLIT_SHARED(dims) ((128 + 8) * (dims) * 4)
#define ATTEND_TILE_SHARED(dims) ((dims) > 128 ? (dims) * 2 * ATTEND_TILE_THREADS : 0)
/* attend_chunk.hip: bytes from a page in shared memory to the next; shared memory for pages, the
 * own page, digits */
#define CHUNK_STRIDE(dims, int4) (((int4) ? INT4_PAGE(dims) : INT8_PAGE(dims)) + 32)
#define CHUNK_SHARED(dims, int4)                                                                   \
    (KV_SPLIT / PAGE * CHUNK_STRIDE(dims, int4) + ((int4) ? INT8_PAGE(dims) : 0) +                 \
     16 * ((dims) > 240 ? (dims) + 16 : 256))

/* exact_linear_mma.hip: rows of a warp; bytes between rows of digits in shared memory, stages;
 * panels of a block of 8 warps; for few rows the rows and the terms of a block */
enum { EXACT_WARP_ROWS = 32, EXACT_MMA_STRIDE = 160, EXACT_STAGES = 3 };
#define EXACT_TILE_PANELS(rows, panels) (8 * EXACT_WARP_ROWS / (rows) * (panels))
enum { EXACT_SPLIT_ROWS = 8, EXACT_SPLIT_TERMS = 8192 };
#define EXACT_TILE_SHARED(rows, panels, pairs)                                                     \
    (EXACT_STAGES * ((rows) * (2 * EXACT_MMA_STRIDE + 8) +                                         \
                     EXACT_TILE_PANELS(rows, panels) * (1024 * (1 + (pairs)) + 128)))
/* exact_dense.hip: inputs of a stage, stages, floats between rows; rows and panels of a block;
 * bytes of all stages, of which row_warps 1 needs most */
enum { DENSE_SPAN = 128, DENSE_STAGES = 3, DENSE_STRIDE = DENSE_SPAN + 16 };
#define DENSE_TILE_ROWS(tile, row_warps) (2 * (tile) * (row_warps))
#define DENSE_TILE_PANELS(tile, row_warps) ((tile) / (row_warps))
#define DENSE_TILE_SHARED(tile)                                                                    \
    (DENSE_STAGES * (2 * (tile) * DENSE_STRIDE * 4 + DENSE_SPAN / 8 * (256 * (tile) + 32)))
/* exact_attend_mma.hip: rows of a block, a divisor of GROUP_ROWS. Shared memory: weights, the
 * digits of weights and of queries */
enum { EXACT_TILE_ROWS = 32 };
#define EXACT_ATTEND_SHARED(dims)                                                                  \
    (EXACT_TILE_ROWS * (4 * (KV_SPLIT + 16) + 2 * 4 * (KV_SPLIT / 4 + 4) + 2 * (dims) + 64))
/* exact_delta.hip */
enum { EXACT_DELTA_KEYS = 128, EXACT_DELTA_COLUMNS = 64, EXACT_DELTA_THREADS = 192 };

/* rope_pages.hip: the prompt rows of tiles. Pages of a group of rows: one more than its length has,
 * because a group may begin within a page */
enum { ROPE_GROUP_PAGES = GROUP_ROWS / PAGE + 1 };
struct rope_pages_args {
    struct rope_kernel_args rope;
    const int *pos, *tiles; /* those of attend_kernel_args */
    int exact;              /* 1: rotates in the CPU's order */
};

/* linear_plain_mma.hip: a norm and preparations of its result. parts: x is unused, no permutation;
 * half: fp16 rows of the first n_half rows; from: [rows] the row of norm.x that each row is, which
 * nobody reads afterwards; NULL: row i */
enum { NORM_PARTS_INPUTS = 4096 };
struct norm_parts_args {
    struct norm_args norm;
    const int *from; /* [rows] */
    struct prepare_args parts, half;
    int n_half;
};

/* linear_plain_mma.hip: a norm of every row whose delta is the weighted sum of its slots + shared /
 * (1 + e^-gate); norm.delta is unused */
struct mix_parts_args {
    struct norm_parts_args both; /* from NULL, n_half 0 */
    struct mix_args mix;
    const float *shared; /* [rows][n] */
    const float *gate;   /* [rows] or NULL */
};

/* linear_plain_mma.hip: norms of groups, times silu(gate), and their preparation. parts: x is
 * unused, no permutation */
struct gated_parts_args {
    struct norm_args norm; /* dim: elements of a group, a multiple of 4; delta, out: unused */
    const float *gate;     /* [rows][parts.in], at most NORM_PARTS_INPUTS */
    struct prepare_args parts;
};

#endif
