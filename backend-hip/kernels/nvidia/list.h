/* list.h of nvidia/: the kernels for NVIDIA's matrix instructions, of which sm_80 has all that are
 * not SM90 (columns: kernel_list.h). */
#include "backend-hip/kernels/rows.h"

/* 4-bit linears of decode rows on sm_80 (linear_decode_mma.hip). tiles: tiles of 8 rows; panels: of
 * a block; depth: items of a ring */
#ifndef Q4_DECODE_MMA
#define Q4_DECODE_MMA(name, images, tiles, panels, depth, blocks)                                  \
    LINEAR(name, images, FOR_LINEAR, THREADS, blocks, DECODE_MMA_SHARED(panels, depth),            \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = 8 * (tiles),                    \
           .outputs = PANEL * (panels), .persistent = 1)
#endif
Q4_DECODE_MMA(q4_mma_decode_8, SM80, 1, 1, 4, 3)
Q4_DECODE_MMA(q4_mma_decode_16, SM80, 2, 1, 4, 2)
Q4_DECODE_MMA(q4_mma_decode_32, SM80, 4, 2, 3, 2)
Q4_DECODE_MMA(q4_mma_decode_64, SM80, 8, 4, 3, 1)

/* 4-bit linears of prompt rows (linear_prefill_mma.hip) */
#ifndef Q4_PREFILL_MMA
#define Q4_PREFILL_MMA(name, images, of_block, outs)                                               \
    LINEAR(name, images, FOR_LINEAR, THREADS, 1, 0, .phase = PHASE_PREFILL,                        \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
Q4_PREFILL_MMA(q4_mma_prefill, SM80, 128, 128)

/* Dense linears of all rows (linear_plain_mma.hip). A warp has `tiles` x 16 rows and
 * `panels` panels; `ways` warps share panels and have different rows. parts: of an activation */
#ifndef DENSE_MMA
#define DENSE_MMA(name, images, weights, parts, tiles, ways, panels, blocks)                       \
    LINEAR(name, images, FOR_LINEAR, THREADS, blocks,                                              \
           DENSE_MMA_SHARED(16 * (tiles) * (ways), THREADS / 32 / (ways) * (panels) * PANEL,       \
                            parts, weights),                                                       \
           .phase = PHASE_BOTH, .format = FORMAT_DENSE(weights), .rows = 16 * (tiles) * (ways),    \
           .outputs = THREADS / 32 / (ways) * (panels) * PANEL,                                    \
           .slower = (panels) == (ways) && (ways) > 1 ? 14 : 0)
#endif
DENSE_MMA(dense_mma_f16_16, MMA, WEIGHT_F16, 2, 1, 1, 1, 2)
DENSE_MMA(dense_mma_f16_32, MMA, WEIGHT_F16, 2, 2, 1, 2, 1)
DENSE_MMA(dense_mma_f16_64, MMA, WEIGHT_F16, 2, 2, 2, 4, 1)
DENSE_MMA(dense_mma_bf16_16, MMA, WEIGHT_BF16, 3, 1, 1, 1, 2)
DENSE_MMA(dense_mma_bf16_32, MMA, WEIGHT_BF16, 3, 2, 1, 2, 1)
DENSE_MMA(dense_mma_bf16_64, MMA, WEIGHT_BF16, 3, 2, 2, 4, 1)
DENSE_MMA(dense_mma_bf16_narrow, SM90, WEIGHT_BF16, 3, 2, 2, 2, 1)
DENSE_MMA(dense_i8_16, SM90, WEIGHT_I8, 1, 1, 1, 1, 2)
DENSE_MMA(dense_i8_32, SM90, WEIGHT_I8, 1, 2, 1, 2, 1)
DENSE_MMA(dense_i8_64, SM90, WEIGHT_I8, 1, 2, 2, 4, 1)
DENSE_MMA(dense_i8_narrow, SM90, WEIGHT_I8, 1, 2, 2, 2, 1)

/* Dense linears of all rows with few outputs (linear_few_mma.hip) */
#ifndef DENSE_FEW
#define DENSE_FEW(name, images, weights)                                                           \
    LINEAR(name, images, FOR_LINEAR, THREADS, 2, FEW_SHARED, .phase = PHASE_BOTH,                  \
           .format = FORMAT_DENSE(weights), .rows = 16, .outputs = PANEL, .few = 1)
#endif
DENSE_FEW(dense_few_f16, MMA, WEIGHT_F16)
DENSE_FEW(dense_few_bf16, MMA, WEIGHT_BF16)
DENSE_FEW(dense_few_i8, SM90, WEIGHT_I8)

/* Experts: the linears of stacks (linear_decode_mma.hip, linear_prefill_mma.hip,
 * linear_plain_mma.hip). The columns are those of the linears; a tile of a grouping has `rows`
 * places. */
#ifndef Q4_DECODE_MMA_EXPERTS
#define Q4_DECODE_MMA_EXPERTS(name, images, tiles, panels, depth, blocks)                          \
    LINEAR(name, images, FOR_EXPERTS, THREADS, blocks, DECODE_MMA_SHARED(panels, depth),           \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = 8 * (tiles),                    \
           .outputs = PANEL * (panels))
#endif
#ifndef Q4_PREFILL_MMA_EXPERTS
#define Q4_PREFILL_MMA_EXPERTS(name, images, of_block, outs)                                       \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 1, 0, .phase = PHASE_PREFILL,                       \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
#ifndef DENSE_MMA_EXPERTS
#define DENSE_MMA_EXPERTS(name, images, weights, parts, tiles, ways, panels, blocks)               \
    LINEAR(name, images, FOR_EXPERTS, THREADS, blocks,                                             \
           DENSE_MMA_SHARED(16 * (tiles) * (ways), THREADS / 32 / (ways) * (panels) * PANEL,       \
                            parts, weights),                                                       \
           .phase = PHASE_BOTH, .format = FORMAT_DENSE(weights), .rows = 16 * (tiles) * (ways),    \
           .outputs = THREADS / 32 / (ways) * (panels) * PANEL)
#endif
Q4_DECODE_MMA_EXPERTS(q4_experts_mma_decode_8, SM80, 1, 1, 4, 3)
Q4_DECODE_MMA_EXPERTS(q4_experts_mma_decode_16, SM80, 2, 1, 4, 2)
Q4_PREFILL_MMA_EXPERTS(q4_experts_mma_prefill, SM80, 128, 128)
DENSE_MMA_EXPERTS(dense_experts_mma_f16, MMA, WEIGHT_F16, 2, 1, 1, 1, 2)
DENSE_MMA_EXPERTS(dense_experts_mma_bf16, MMA, WEIGHT_BF16, 3, 1, 1, 1, 2)

/* Preparation in split precision of rows and slots, with the operation before it
 * (linear_plain_mma.hip) */
KERNEL_ROW(prepare_parts_f16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_parts_bf16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_parts_i8, SM90, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_parts_f16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_parts_bf16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_f16, MMA, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_bf16, MMA, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(mix_parts_bf16, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(mix_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gated_parts_bf16, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gated_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)

/* The CPU's order */
#ifndef EXACT_TILE /* exact_linear_mma.hip; panels: of a warp; pairs: codes of 8 bits */
#define EXACT_TILE(name, images, rows, panels, pairs)                                              \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, 2, EXACT_TILE_SHARED(rows, panels, pairs), 0, 0)
#endif
EXACT_TILE(exact_tile_1, MMA, 64, 1, 0)
EXACT_TILE(exact_tile_2, MMA, 64, 2, 0)
EXACT_TILE(exact_tile_32, MMA, 32, 1, 0)
EXACT_TILE(exact_pairs_tile, MMA, 64, 1, 1)
KERNEL_ROW(exact_split_8, MMA, FOR_EXACT, THREADS, 3, EXACT_SPLIT_TERMS * 4, 0, 0)
KERNEL_ROW(exact_experts_split, MMA, FOR_EXACT, THREADS, 3, EXACT_SPLIT_TERMS * 4, 0, 0)
KERNEL_ROW(exact_pairs_split, MMA, FOR_EXACT, THREADS, 2, EXACT_SPLIT_TERMS * 4, 0, 0)
#ifndef EXACT_DENSE_TILE /* exact_dense.hip; tile: rows and outputs of a thread */
#define EXACT_DENSE_TILE(name, images, weights, tile, blocks)                                      \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, blocks, DENSE_TILE_SHARED(tile), 0, 0)
#endif
EXACT_DENSE_TILE(exact_dense_tile_4_f16, MMA, WEIGHT_F16, 4, 2)
EXACT_DENSE_TILE(exact_dense_tile_4_bf16, MMA, WEIGHT_BF16, 4, 2)
EXACT_DENSE_TILE(exact_dense_tile_8_f16, MMA, WEIGHT_F16, 8, 1)
EXACT_DENSE_TILE(exact_dense_tile_8_bf16, MMA, WEIGHT_BF16, 8, 1)
#ifndef EXACT_ATTEND_MMA /* exact_attend_mma.hip; dims: of a head, at most */
#define EXACT_ATTEND_MMA(name, images, dims, blocks)                                               \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, blocks, EXACT_ATTEND_SHARED(dims), 0, 0)
#endif
EXACT_ATTEND_MMA(exact_attend_mma_64, MMA, 64, 2)
EXACT_ATTEND_MMA(exact_attend_mma_128, MMA, 128, 2)
EXACT_ATTEND_MMA(exact_attend_mma_256, MMA, 256, 1)
KERNEL_ROW(exact_delta_128, MMA, FOR_EXACT, EXACT_DELTA_THREADS, 2, 0, 0, 0)

/* Rotation (rope_pages.hip) */
KERNEL_ROW(rope_pages_64, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0)
KERNEL_ROW(rope_pages_128, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0)
KERNEL_ROW(rope_pages_256, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0)

/* Attention of prompt and decode rows by matrix instructions, for heads of `dims` dimensions
 * (attend_prefill_mma.hip, attend_decode_mma.hip) */
#ifndef ATTEND_TILE
#define ATTEND_TILE(name, images, dims)                                                            \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_TILE_THREADS, 0, ATTEND_TILE_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_PAGES
#define ATTEND_PAGES(name, images, dims)                                                           \
    KERNEL_ROW(name, images, FOR_ATTEND, SPLIT_THREADS, 0, SPLIT_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_TILE_INT8 /* attend_prefill_int8.hip */
#define ATTEND_TILE_INT8(name, images, dims)                                                       \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_TILE_THREADS, 0, ATTEND_TILE_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_CHUNK /* attend_chunk.hip */
#define ATTEND_CHUNK(name, images, dims, int4, blocks)                                             \
    KERNEL_ROW(name, images, FOR_ATTEND, THREADS, blocks, CHUNK_SHARED(dims, int4), 0, 0)
#endif
ATTEND_TILE(attend_tile_64, SM80, 64)
ATTEND_TILE(attend_tile_128, SM80, 128)
ATTEND_TILE(attend_tile_256, MMA, 256)
ATTEND_TILE_INT8(attend_tile_int8_64, SM80, 64)
ATTEND_TILE_INT8(attend_tile_int8_128, SM80, 128)
ATTEND_TILE_INT8(attend_tile_int8_256, MMA, 256)
ATTEND_PAGES(attend_pages_64, MMA, 64)
ATTEND_PAGES(attend_pages_128, MMA, 128)
ATTEND_PAGES(attend_pages_256, SM90, 256)
ATTEND_CHUNK(attend_chunk_int8_64, MMA, 64, 0, 3)
ATTEND_CHUNK(attend_chunk_int8_128, MMA, 128, 0, 3)
ATTEND_CHUNK(attend_chunk_int8_256, SM90, 256, 0, 1)
ATTEND_CHUNK(attend_chunk_int4_64, MMA, 64, 1, 4)
ATTEND_CHUNK(attend_chunk_int4_128, MMA, 128, 1, 4)
ATTEND_CHUNK(attend_chunk_int4_256, SM90, 256, 1, 2)

#undef Q4_DECODE_MMA
#undef Q4_PREFILL_MMA
#undef DENSE_MMA
#undef DENSE_FEW
#undef Q4_DECODE_MMA_EXPERTS
#undef Q4_PREFILL_MMA_EXPERTS
#undef DENSE_MMA_EXPERTS
#undef EXACT_TILE
#undef EXACT_DENSE_TILE
#undef EXACT_ATTEND_MMA
#undef ATTEND_TILE
#undef ATTEND_PAGES
#undef ATTEND_TILE_INT8
#undef ATTEND_CHUNK
