/* list.h of hopper/: the kernels for sm_90a (columns: kernel_list.h). */
#include "backend-hip/kernels/rows.h"

/* 4-bit linears of decode rows, a ring for each warp (linear_decode_mma.hip). tiles: of 8
 * rows; depth: items of a ring */
#ifndef Q4_DECODE_HOPPER
#define Q4_DECODE_HOPPER(name, images, tiles, depth, which, blocks)                                \
    LINEAR(name, images, FOR_LINEAR, THREADS, blocks,                                              \
           DECODE_HOPPER_SHARED(                                                                   \
               tiles, (which) == PLAIN_LINEAR ? PLAIN_ITEM_BYTES : OTHER_ITEM_BYTES, depth),       \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = 8 * (tiles), .outputs = PANEL,  \
           .persistent = 1, .linears = which)
#endif
Q4_DECODE_HOPPER(q4_hopper_decode_8, SM90, 1, 5, PLAIN_LINEAR, 2)
Q4_DECODE_HOPPER(q4_hopper_decode_any, SM90, 2, 5, OTHER_LINEAR, 1)

/* 4-bit linears with few outputs, split-K over a cluster (linear_decode_wgmma.hip) */
#ifndef Q4_WGMMA_CLUSTER
#define Q4_WGMMA_CLUSTER(name, images, tile_rows, stages, percent)                                 \
    LINEAR(name, images, FOR_LINEAR, CLUSTER_CONSUMERS + WGMMA_PRODUCERS, 2,                       \
           CLUSTER_SHARED(tile_rows, stages),                                                      \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = tile_rows,                      \
           .outputs = CLUSTER_OUTPUTS, .persistent = 1, .tile = tile_rows,                         \
           .linears = PLAIN_LINEAR, .slower = percent, .in_clusters = CLUSTER)
#endif
Q4_WGMMA_CLUSTER(q4_wgmma_few_16, SM90, 16, 7, 230)
Q4_WGMMA_CLUSTER(q4_wgmma_few_32, SM90, 32, 5, 230)
Q4_WGMMA_CLUSTER(q4_wgmma_few_64, SM90, 64, 3, 230)

/* 4-bit linears in row tiles (linear_prefill_wgmma.hip). groups: consumer warpgroups, 64
 * outputs each */
#ifndef Q4_WGMMA
#define Q4_WGMMA(name, images, of_phase, tile_rows, groups, stages, which, percent)                \
    LINEAR(name, images, FOR_LINEAR, 128 * (groups) + WGMMA_PRODUCERS, 1,                          \
           WGMMA_SHARED(tile_rows, 64 * (groups), stages), .phase = of_phase,                      \
           .format = FORMAT_Q4_F16, .rows = tile_rows, .outputs = 64 * (groups), .persistent = 1,  \
           .tile = tile_rows, .linears = which, .slower = percent)
#endif
Q4_WGMMA(q4_wgmma_prefill_192, SM90, PHASE_PREFILL, 128, 3, 4, PLAIN_LINEAR, 0)
Q4_WGMMA(q4_wgmma_prefill_128, SM90, PHASE_PREFILL, 128, 2, 5, PLAIN_LINEAR, 15)
Q4_WGMMA(q4_wgmma_prefill_any, SM90, PHASE_PREFILL, 128, 2, 5, OTHER_LINEAR, 0)
Q4_WGMMA(q4_wgmma_decode_16, SM90, PHASE_DECODE, 16, 2, 12, PLAIN_LINEAR, 20)
Q4_WGMMA(q4_wgmma_decode_32, SM90, PHASE_DECODE, 32, 2, 10, PLAIN_LINEAR, 20)
Q4_WGMMA(q4_wgmma_decode_64, SM90, PHASE_DECODE, 64, 2, 8, PLAIN_LINEAR, 20)
Q4_WGMMA(q4_wgmma_decode_any, SM90, PHASE_DECODE, 64, 2, 7, OTHER_LINEAR, 0)
Q4_WGMMA(q4_wgmma_wide_16, SM90, PHASE_DECODE, 16, 3, 12, PLAIN_LINEAR, 0)
Q4_WGMMA(q4_wgmma_wide_32, SM90, PHASE_DECODE, 32, 3, 9, PLAIN_LINEAR, 0)
Q4_WGMMA(q4_wgmma_wide_64, SM90, PHASE_DECODE, 64, 3, 7, PLAIN_LINEAR, 0)

/* 4-bit linears of many decode rows, whose tiles are dealt to blocks by eighths
 * (linear_dealt_wgmma.hip). x_items, stages: items of the rings of inputs and of codes; sharers:
 * blocks of a tile */
#ifndef Q4_WGMMA_DEALT
#define Q4_WGMMA_DEALT(name, images, x_items, stages, percent, sharers)                            \
    LINEAR(name, images, FOR_LINEAR, DEALT_CONSUMERS + WGMMA_PRODUCERS, 1,                         \
           DEALT_SHARED(x_items, stages), .phase = PHASE_DECODE, .format = FORMAT_Q4_F16,          \
           .rows = DEALT_ROWS, .outputs = DEALT_OUTPUTS, .persistent = 1, .tile = DEALT_ROWS,      \
           .linears = PLAIN_LINEAR, .slower = percent, .dealt = sharers)
#endif
Q4_WGMMA_DEALT(q4_wgmma_wide_128, SM90, 6, 4, 6, 1)
Q4_WGMMA_DEALT(q4_wgmma_wide_shared, SM90, 6, 4, 6, 4)

/* Dense linears of prompt rows with fp16 activations (linear_plain_wgmma.hip). groups: consumer
 * warpgroups of 64 outputs each. plain_few is for few rows: routers, and heads of last rows */
#ifndef PLAIN_WGMMA
#define PLAIN_WGMMA(name, images, weights, tile_rows, groups, stages, of_sm, percent)              \
    LINEAR(name, images, FOR_LINEAR, 128 * (groups) + WGMMA_PRODUCERS, of_sm,                      \
           PLAIN_WGMMA_SHARED(weights, tile_rows, groups, stages), .phase = PHASE_PREFILL,         \
           .format = FORMAT_DENSE(weights), .rows = tile_rows, .outputs = 64 * (groups),           \
           .persistent = 1, .tile = PLAIN_WGMMA_ROWS, .slower = percent)
#endif
PLAIN_WGMMA(plain_256, SM90, WEIGHT_BF16, 128, 4, 3, 1, 0)
PLAIN_WGMMA(plain_64, SM90, WEIGHT_BF16, 128, 1, 5, 1, 60)
PLAIN_WGMMA(plain_few, SM90, WEIGHT_BF16, 32, 1, 7, 2, 100)
PLAIN_WGMMA(plain_i8, SM90, WEIGHT_I8, 128, 2, 8, 1, 0)

/* Dense linears of decode rows with fp16 activations (plain_decode_wgmma.hip). groups: consumer
 * warpgroups of `tall` times 64 outputs each. In names r is bf16, h fp16, few is for few outputs */
#ifndef PLAIN_DECODE
#define PLAIN_DECODE(name, images, weights, tile_rows, groups, tall, stages, of_sm, percent)       \
    LINEAR(name, images, FOR_LINEAR, 128 * (groups) + WGMMA_PRODUCERS, of_sm,                      \
           PLAIN_DECODE_SHARED(weights, tile_rows, 64 * (groups) * (tall), stages),                \
           .phase = PHASE_DECODE, .format = FORMAT_DENSE(weights), .rows = tile_rows,              \
           .outputs = 64 * (groups) * (tall), .persistent = 1, .tile = tile_rows,                  \
           .slower = percent)
#endif
PLAIN_DECODE(plain_r64, SM90, WEIGHT_BF16, 64, 3, 2, 3, 1, -50)
PLAIN_DECODE(plain_rfew, SM90, WEIGHT_BF16, 64, 2, 1, 3, 2, -40)
PLAIN_DECODE(plain_r128, SM90, WEIGHT_BF16, 128, 3, 1, 4, 1, -60)
PLAIN_DECODE(plain_h64, SM90, WEIGHT_F16, 64, 4, 1, 4, 1, -48)
PLAIN_DECODE(plain_hfew, SM90, WEIGHT_F16, 64, 2, 1, 3, 2, -40)

/* Dense linears of few decode rows with fp16 activations (dense_rows.hip) */
#ifndef DENSE_ROWS_OF
#define DENSE_ROWS_OF(name, images, weights)                                                       \
    LINEAR(name, images, FOR_GEMV, THREADS, 2,                                                     \
           DENSE_ROWS_SHARED(DENSE_ROWS_INPUTS, F16_PARTS(weights), DENSE_ROWS_MOST),              \
           .phase = PHASE_DECODE, .format = FORMAT_DENSE(weights), .rows = DENSE_ROWS_MOST,        \
           .outputs = PANEL, .persistent = 1)
#endif
DENSE_ROWS_OF(dense_rows_f16, SM90, WEIGHT_F16)
DENSE_ROWS_OF(dense_rows_bf16, SM90, WEIGHT_BF16)
DENSE_ROWS_OF(dense_rows_i8, SM90, WEIGHT_I8)

/* Experts: the linears of stacks. A tile of a grouping has `rows` places. */
#ifndef EXPERTS_MMA /* experts_decode_mma.hip */
#define EXPERTS_MMA(name, images, depth, which, blocks)                                            \
    LINEAR(name, images, FOR_EXPERTS, THREADS, blocks, EXPERTS_MMA_SHARED(depth),                  \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = 8,                              \
           .outputs = EXPERTS_MMA_PANELS * PANEL, .persistent = 1, .gathers = 1,                   \
           .linears = which)
#endif
#ifndef EXPERTS_WGMMA /* linear_prefill_wgmma.hip */
#define EXPERTS_WGMMA(name, images, of_phase, tile_rows, groups, stages, which, blocks)            \
    LINEAR(name, images, FOR_EXPERTS, 128 * (groups) + WGMMA_PRODUCERS, blocks,                    \
           WGMMA_SHARED(tile_rows, 64 * (groups), stages), .phase = of_phase,                      \
           .format = FORMAT_Q4_F16, .rows = tile_rows, .outputs = 64 * (groups), .persistent = 1,  \
           .tile = tile_rows, .linears = which)
#endif
EXPERTS_MMA(q4_experts_mma_8, SM90, 3, PLAIN_LINEAR, 2)
EXPERTS_MMA(q4_experts_mma_any, SM90, 4, OTHER_LINEAR, 2)
EXPERTS_WGMMA(q4_experts_wgmma_decode_16, SM90, PHASE_DECODE, 16, 2, 7, PLAIN_LINEAR, 2)
EXPERTS_WGMMA(q4_experts_wgmma_decode_32, SM90, PHASE_DECODE, 32, 2, 6, PLAIN_LINEAR, 2)
EXPERTS_WGMMA(q4_experts_wgmma_64, SM90, PHASE_PREFILL, 64, 2, 8, PLAIN_LINEAR, 1)
EXPERTS_WGMMA(q4_experts_wgmma_any, SM90, PHASE_PREFILL, 64, 2, 7, OTHER_LINEAR, 1)

/* Mixtures of experts around their linears (router_gemv.hip, norm_route.hip,
 * experts_route_gemv.hip, experts_mix_gemv.hip) */
KERNEL_ROW(norm_router_f16, SM90, FOR_ROUTE, THREADS, 0, ROUTER_SHARED(ROUTER_INPUTS), 0, 0)
KERNEL_ROW(norm_router_bf16, SM90, FOR_ROUTE, THREADS, 0, ROUTER_SHARED(ROUTER_INPUTS), 0, 0)
#ifndef NORM_ROUTE /* norm_route.hip */
#define NORM_ROUTE(name, images)                                                                   \
    LINEAR(name, images, FOR_ROUTE, THREADS, 2, NORM_ROUTE_SHARED, .in_clusters = ROUTE_CLUSTER)
#endif
NORM_ROUTE(norm_route, SM90)
KERNEL_ROW(route_warps, SM90, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(q4_experts_route, SM90, FOR_ROUTE, THREADS, 4, EXPERTS_ROUTE_SHARED, 0, 0)
KERNEL_ROW(slots_gate_f16, SM90, FOR_PREPARE, THREADS, 0, 8 * 4 * MIX_INPUTS, 0, 0)
#ifndef EXPERTS_MIX /* experts_mix_gemv.hip; shared: weights of a shared expert */
#define EXPERTS_MIX(name, images, shared)                                                          \
    KERNEL_ROW(name, images, FOR_ROUTE, THREADS, 2, MIX_SHARED, 0, 0)
#endif
EXPERTS_MIX(q4_experts_mix, SM90, MIX_ALONE)
EXPERTS_MIX(q4_experts_mix_f16, SM90, WEIGHT_F16)
EXPERTS_MIX(q4_experts_mix_bf16, SM90, WEIGHT_BF16)
EXPERTS_MIX(q4_experts_mix_i8, SM90, WEIGHT_I8)

/* 4-bit GEMVs with fused prologue and epilogue (linear_gemv.hip). panels: of an output tile,
 * 2 with SwiGLU; items: of a ring; of_row: pieces */
#ifndef Q4_GEMV
#define Q4_GEMV(name, images, source, panels, items, blocks, of_row)                               \
    KERNEL_ROW(name, images, FOR_GEMV, THREADS, blocks, GEMV_SHARED(items, of_row), of_row, 0)
#endif
Q4_GEMV(q4_gemv_norm, SM90, GEMV_NORM, 1, 6, 3, GEMV_NORM_PIECES)
Q4_GEMV(q4_gemv_norm_glu, SM90, GEMV_NORM, 2, 6, 3, GEMV_NORM_PIECES)
Q4_GEMV(q4_gemv_combine, SM90, GEMV_COMBINE, 1, 8, 2, ROW_PIECES)
Q4_GEMV(q4_gemv_row, SM90, GEMV_ROW, 1, 8, 2, ROW_PIECES)

/* GEMVs of fp16 and bf16 weights and of codes of 8 bits with fused prologue and epilogue
 * (dense_gemv.hip). mixed: codes of 8 bits beside other weights */
#ifndef DENSE_GEMV
#define DENSE_GEMV(name, images, source, weights)                                                  \
    KERNEL_ROW(name, images, FOR_GEMV, THREADS, 2, DENSE_GEMV_SHARED(DENSE_GEMV_INPUTS, 3, 2), 0, 0)
#endif
DENSE_GEMV(dense_gemv_norm_f16, SM90, DENSE_NORM, WEIGHT_F16)
DENSE_GEMV(dense_gemv_norm_bf16, SM90, DENSE_NORM, WEIGHT_BF16)
DENSE_GEMV(dense_gemv_row_f16, SM90, DENSE_ROW, WEIGHT_F16)
DENSE_GEMV(dense_gemv_row_bf16, SM90, DENSE_ROW, WEIGHT_BF16)
DENSE_GEMV(dense_gemv_norm_i8, SM90, DENSE_NORM, WEIGHT_I8)
DENSE_GEMV(dense_gemv_row_i8, SM90, DENSE_ROW, WEIGHT_I8)
#ifndef DENSE_GEMV_MIXED
#define DENSE_GEMV_MIXED DENSE_GEMV
#endif
DENSE_GEMV_MIXED(dense_gemv_mixed_bf16, SM90, DENSE_NORM, WEIGHT_BF16)

/* The CPU's order */
#ifndef EXACT_WGMMA /* exact_linear_wgmma.hip; groups: warpgroups of 64 outputs; columns: of
                       a tile of rows */
#define EXACT_WGMMA(name, images, groups, columns, stages, blocks)                                 \
    KERNEL_ROW(name, images, FOR_EXACT, 128 * (groups) + WGMMA_PRODUCERS, blocks,                  \
               EXACT_WGMMA_SHARED(groups, columns, stages), 0, 0)
#endif
EXACT_WGMMA(exact_wgmma_128, SM90, 2, 256, 5, 1)
EXACT_WGMMA(exact_wgmma_192, SM90, 3, 128, 6, 1)
EXACT_WGMMA(exact_wgmma_64, SM90, 1, 128, 4, 2)
EXACT_WGMMA(exact_few_192, SM90, 3, 64, 8, 1)
EXACT_WGMMA(exact_few_64, SM90, 1, 64, 7, 2)
#ifndef EXACT_GEMV /* exact_gemv.hip; panels: of an output tile */
#define EXACT_GEMV(name, images, source, panels)                                                   \
    KERNEL_ROW(name, images, FOR_EXACT, EXACT_GEMV_THREADS, 1,                                     \
               EXACT_GEMV_SHARED(EXACT_GEMV_SUBS(source), panels, (source) == GEMV_NORM), 0, 0)
#endif
EXACT_GEMV(exact_gemv_norm, SM90, GEMV_NORM, 1)
EXACT_GEMV(exact_gemv_norm_glu, SM90, GEMV_NORM, 2)
EXACT_GEMV(exact_gemv_combine, SM90, GEMV_COMBINE, 1)
EXACT_GEMV(exact_gemv_row, SM90, GEMV_ROW, 1)
KERNEL_ROW(exact_quantize_tiles, SM90, FOR_EXACT, THREADS, 3, 0, 0, 0) /* exact_digits */
KERNEL_ROW(exact_norm_tiles, SM90, FOR_EXACT, THREADS, 4, 0, 0, 0)

/* Rows of activations (vector_1024.hip) */
KERNEL_ROW(norm_1024_4, SM90, FOR_NORM, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(norm_1024_11, SM90, FOR_NORM, THREADS_1024, 1, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(mix_norm_1024_4, SM90, FOR_NORM, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(glu_1024_14, SM90, FOR_GLU, THREADS_1024, 1, 0, ROW_PIECES, SPREAD_SHARED_1024)
KERNEL_ROW(combine_1024_4, SM90, FOR_COMBINE, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(combine_1024_8, SM90, FOR_COMBINE, THREADS_1024, 1, 0, COMBINE_PIECES, 0)

/* Attention of prompt rows by matrix instructions, for heads of `dims` dimensions
 * (attend_prefill_wgmma.hip). queries, halves: fp16 parts of a query, of a softmax weight */
#ifndef ATTEND_WGMMA
#define ATTEND_WGMMA(name, images, dims, queries, halves)                                          \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1, ATTEND_WGMMA_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_WGMMA_LONG /* attend_prefill_256.hip */
#define ATTEND_WGMMA_LONG(name, images, queries)                                                   \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1, ATTEND_LONG_SHARED, 0, 0)
#endif
#ifndef ATTEND_WGMMA_INT8 /* attend_prefill_int8.hip */
#define ATTEND_WGMMA_INT8(name, images, dims, queries, halves, int4)                               \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1,                                  \
               (int4) ? ATTEND_INT4_SHARED(dims) : ATTEND_INT8_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_WARP /* attend_warp.hip; heads: query heads of a KV head, at most */
#define ATTEND_WARP(name, images, dims, int4, heads, blocks)                                       \
    KERNEL_ROW(name, images, FOR_ATTEND, 32, blocks, ATTEND_WARP_SHARED(dims, int4, heads), 0, 0)
#endif
#ifndef ATTEND_LATENT_MMA /* attend_latent.hip; columns: of a block; whole: of prompts */
#define ATTEND_LATENT_MMA(name, images, of, columns, stages, whole)                                \
    KERNEL_ROW(name, images, FOR_ATTEND, LATENT_THREADS, 1,                                        \
               ATTEND_LATENT_SHARED(columns, stages, whole), 0, 0)
#endif
ATTEND_LATENT_MMA(attend_latent_tile, SM90, latent_tile, LATENT_COLUMNS, 3, 1)
ATTEND_LATENT_MMA(attend_latent_16, SM90, latent_share, LATENT_FEW, 4, 0)
ATTEND_LATENT_MMA(attend_latent_32, SM90, latent_share, LATENT_COLUMNS, 4, 0)
ATTEND_WGMMA(attend_wgmma_64, SM90, 64, 2, 2)
ATTEND_WGMMA(attend_wgmma_128, SM90, 128, 2, 2)
ATTEND_WGMMA(attend_wgmma_half_64, SM90, 64, 2, 1)
ATTEND_WGMMA(attend_wgmma_half_128, SM90, 128, 2, 1)
ATTEND_WGMMA(attend_wgmma_one_64, SM90, 64, 1, 1)
ATTEND_WGMMA(attend_wgmma_one_128, SM90, 128, 1, 1)
ATTEND_WGMMA_LONG(attend_wgmma_half_256, SM90, 2)
ATTEND_WGMMA_LONG(attend_wgmma_one_256, SM90, 1)
ATTEND_WGMMA_INT8(attend_wgmma_int8_64, SM90, 64, 2, 2, 0)
ATTEND_WGMMA_INT8(attend_wgmma_int8_128, SM90, 128, 2, 2, 0)
ATTEND_WGMMA_INT8(attend_wgmma_half_int8_64, SM90, 64, 2, 1, 0)
ATTEND_WGMMA_INT8(attend_wgmma_half_int8_128, SM90, 128, 2, 1, 0)
ATTEND_WGMMA_INT8(attend_wgmma_half_int4_64, SM90, 64, 2, 1, 1)
ATTEND_WGMMA_INT8(attend_wgmma_half_int4_128, SM90, 128, 2, 1, 1)
ATTEND_WGMMA_INT8(attend_wgmma_one_int8_64, SM90, 64, 1, 1, 0)
ATTEND_WGMMA_INT8(attend_wgmma_one_int8_128, SM90, 128, 1, 1, 0)
ATTEND_WGMMA_INT8(attend_wgmma_one_int4_64, SM90, 64, 1, 1, 1)
ATTEND_WGMMA_INT8(attend_wgmma_one_int4_128, SM90, 128, 1, 1, 1)
ATTEND_WARP(attend_warp_int8_128, SM90, 128, 0, 1, 16)
ATTEND_WARP(attend_warp_int4_128, SM90, 128, 1, 1, 16)
ATTEND_WARP(attend_warp_heads_int8_128, SM90, 128, 0, WARP_HEADS, 14)
ATTEND_WARP(attend_warp_heads_int4_128, SM90, 128, 1, WARP_HEADS, 12)

/* States of sequences of few rows, of one row */
KERNEL_ROW(conv_few, SM90, FOR_STATE, THREADS, 0, 0, 0, 0)
#ifndef DELTA_GATED /* delta_gated.hip */
#define DELTA_GATED(name, images)                                                                  \
    LINEAR(name, images, FOR_STATE, DELTA_THREADS, 5, 0, .in_clusters = CLUSTER)
#endif
DELTA_GATED(delta_gated_128, SM90)

#undef Q4_DECODE_HOPPER
#undef Q4_WGMMA_CLUSTER
#undef Q4_WGMMA
#undef Q4_WGMMA_DEALT
#undef PLAIN_WGMMA
#undef PLAIN_DECODE
#undef DENSE_ROWS_OF
#undef EXPERTS_MMA
#undef EXPERTS_WGMMA
#undef NORM_ROUTE
#undef EXPERTS_MIX
#undef Q4_GEMV
#undef DENSE_GEMV
#undef DENSE_GEMV_MIXED
#undef EXACT_WGMMA
#undef EXACT_GEMV
#undef ATTEND_LATENT_MMA
#undef ATTEND_WGMMA
#undef ATTEND_WGMMA_LONG
#undef ATTEND_WGMMA_INT8
#undef ATTEND_WARP
#undef DELTA_GATED
