/* list.h of common/: the kernels for every GPU (columns: kernel_list.h). */
#include "backend-hip/kernels/rows.h"

/* 4-bit linears of decode rows, without matrix instructions (linear_decode.hip). half:
 * activations are fp16, else fp32 */
#ifndef Q4_DECODE
#define Q4_DECODE(name, images, of_block, half)                                                    \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_DECODE,                         \
           .format = (half) ? FORMAT_Q4_F16 : FORMAT_Q4_F32, .rows = of_block, .outputs = PANEL)
#endif
Q4_DECODE(q4_decode_f16_1, NO_MMA, 1, 1)
Q4_DECODE(q4_decode_f16_2, NO_MMA, 2, 1)
Q4_DECODE(q4_decode_f16_4, NO_MMA, 4, 1)
Q4_DECODE(q4_decode_f16_8, NO_MMA, 8, 1)
Q4_DECODE(q4_decode_f32_1, ALL, 1, 0)
Q4_DECODE(q4_decode_f32_4, ALL, 4, 0)

/* Dense linears of decode rows (linear_decode.hip) */
#ifndef DENSE_DECODE
#define DENSE_DECODE(name, images, weights, of_block)                                              \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_DECODE,                         \
           .format = FORMAT_DENSE(weights), .rows = of_block, .outputs = PANEL)
#endif
DENSE_DECODE(dense_decode_f16_1, NO_MMA, WEIGHT_F16, 1)
DENSE_DECODE(dense_decode_f16_4, NO_MMA, WEIGHT_F16, 4)
DENSE_DECODE(dense_decode_f16_8, NO_MMA, WEIGHT_F16, 8)
DENSE_DECODE(dense_decode_bf16_1, NO_MMA, WEIGHT_BF16, 1)
DENSE_DECODE(dense_decode_bf16_4, NO_MMA, WEIGHT_BF16, 4)
DENSE_DECODE(dense_decode_bf16_8, NO_MMA, WEIGHT_BF16, 8)
DENSE_DECODE(dense_decode_f32_1, ALL, WEIGHT_F32, 1)
DENSE_DECODE(dense_decode_f32_4, ALL, WEIGHT_F32, 4)
DENSE_DECODE(dense_decode_f32_8, ALL, WEIGHT_F32, 8)

/* 4-bit and dense linears of prompt rows (linear_prefill.hip). down: rows of a thread */
#ifndef Q4_PREFILL
#define Q4_PREFILL(name, images, half, down)                                                       \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_PREFILL,                        \
           .format = (half) ? FORMAT_Q4_F16 : FORMAT_Q4_F32, .rows = 16 * (down),                  \
           .outputs = PREFILL_OUTPUTS)
#endif
#ifndef DENSE_PREFILL
#define DENSE_PREFILL(name, images, weights)                                                       \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_PREFILL,                        \
           .format = FORMAT_DENSE(weights), .rows = DENSE_PREFILL_ROWS,                            \
           .outputs = PREFILL_OUTPUTS)
#endif
Q4_PREFILL(q4_prefill_f16, SIMD, 1, 8)
Q4_PREFILL(q4_prefill_f32, ALL, 0, 4)
DENSE_PREFILL(dense_prefill_f16, NO_MMA, WEIGHT_F16)
DENSE_PREFILL(dense_prefill_bf16, NO_MMA, WEIGHT_BF16)
DENSE_PREFILL(dense_prefill_f32, ALL, WEIGHT_F32)

/* Experts: the linears of stacks (linear_decode.hip, linear_prefill.hip). The columns are those of
 * the linears; a tile of a grouping has `rows` places. */
#ifndef Q4_DECODE_EXPERTS
#define Q4_DECODE_EXPERTS(name, images, of_block, half)                                            \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_DECODE,                        \
           .format = (half) ? FORMAT_Q4_F16 : FORMAT_Q4_F32, .rows = of_block, .outputs = PANEL)
#endif
#ifndef DENSE_DECODE_EXPERTS
#define DENSE_DECODE_EXPERTS(name, images, weights, of_block)                                      \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_DECODE,                        \
           .format = FORMAT_DENSE(weights), .rows = of_block, .outputs = PANEL)
#endif
#ifndef Q4_PREFILL_EXPERTS
#define Q4_PREFILL_EXPERTS(name, images, half, down)                                               \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_PREFILL,                       \
           .format = (half) ? FORMAT_Q4_F16 : FORMAT_Q4_F32, .rows = 16 * (down),                  \
           .outputs = PREFILL_OUTPUTS)
#endif
#ifndef DENSE_PREFILL_EXPERTS
#define DENSE_PREFILL_EXPERTS(name, images, weights)                                               \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_PREFILL,                       \
           .format = FORMAT_DENSE(weights), .rows = DENSE_PREFILL_ROWS,                            \
           .outputs = PREFILL_OUTPUTS)
#endif
Q4_DECODE_EXPERTS(q4_experts_f16_1, NO_MMA, 1, 1)
Q4_DECODE_EXPERTS(q4_experts_f16_4, NO_MMA, 4, 1)
Q4_DECODE_EXPERTS(q4_experts_f32_1, ALL, 1, 0)
Q4_DECODE_EXPERTS(q4_experts_f32_4, ALL, 4, 0)
DENSE_DECODE_EXPERTS(dense_experts_f16_1, NO_MMA, WEIGHT_F16, 1)
DENSE_DECODE_EXPERTS(dense_experts_f16_4, NO_MMA, WEIGHT_F16, 4)
DENSE_DECODE_EXPERTS(dense_experts_bf16_1, NO_MMA, WEIGHT_BF16, 1)
DENSE_DECODE_EXPERTS(dense_experts_bf16_4, NO_MMA, WEIGHT_BF16, 4)
DENSE_DECODE_EXPERTS(dense_experts_f32_1, ALL, WEIGHT_F32, 1)
DENSE_DECODE_EXPERTS(dense_experts_f32_4, ALL, WEIGHT_F32, 4)
Q4_PREFILL_EXPERTS(q4_experts_prefill_f16, SIMD, 1, 4)
Q4_PREFILL_EXPERTS(q4_experts_prefill_f32, ALL, 0, 4)
DENSE_PREFILL_EXPERTS(dense_experts_prefill_f16, NO_MMA, WEIGHT_F16)
DENSE_PREFILL_EXPERTS(dense_experts_prefill_bf16, NO_MMA, WEIGHT_BF16)
DENSE_PREFILL_EXPERTS(dense_experts_prefill_f32, ALL, WEIGHT_F32)

/* Mixtures of experts around their linears (experts.hip) */
KERNEL_ROW(route_rows, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(group_slots, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_f32, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_f16, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(mix_slots, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)

/* The CPU's order (exact_linear.hip, exact_linear_lanes.hip, exact_vector.hip, exact_attend.hip,
 * exact_attend_int8.hip, exact_states.hip). rows: of a tile, a block has one or several */
#ifndef EXACT_Q4
#define EXACT_Q4(name, images, rows) KERNEL_ROW(name, images, FOR_EXACT, THREADS, 0, 0, 0, 0)
#endif
#ifndef EXACT_DENSE
#define EXACT_DENSE(name, images, weights) KERNEL_ROW(name, images, FOR_EXACT, THREADS, 0, 0, 0, 0)
#endif
#ifndef EXACT_DENSE_8
#define EXACT_DENSE_8(name, images, weights)                                                       \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, 1, 0, 0, 0)
#endif
EXACT_Q4(exact_q4_1, NO_MMA, 1)
EXACT_Q4(exact_q4_4, NO_MMA, 4)
EXACT_Q4(exact_q4_8, NO_MMA, 8)
EXACT_DENSE(exact_dense_f16, ALL, WEIGHT_F16)
EXACT_DENSE(exact_dense_bf16, ALL, WEIGHT_BF16)
EXACT_DENSE(exact_dense_f32, ALL, WEIGHT_F32)
EXACT_DENSE_8(exact_dense_f16_8, NO_MMA, WEIGHT_F16)
EXACT_DENSE_8(exact_dense_bf16_8, NO_MMA, WEIGHT_BF16)
EXACT_DENSE_8(exact_dense_f32_8, ALL, WEIGHT_F32)
KERNEL_ROW(exact_quantize, ALL, FOR_EXACT, THREADS, 4, 0, 0, 0)
KERNEL_ROW(exact_norm, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_norm_quantize, ALL, FOR_EXACT, THREADS, 4, 0, 0, 0)
KERNEL_ROW(exact_angles, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_rope_store, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_rope_octets, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_f16, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_f32, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_split_f16, ALL, FOR_EXACT, THREADS, 3, 0, 0, 0)
KERNEL_ROW(exact_attend_split_f32, ALL, FOR_EXACT, THREADS, 3, 0, 0, 0)
KERNEL_ROW(exact_combine, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_rows_f16, ALL, FOR_EXACT, THREADS, 2, 0, 0, 0)
KERNEL_ROW(exact_attend_rows_f32, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_int8, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_split_int8, ALL, FOR_EXACT, THREADS, 4, 0, 0, 0)
KERNEL_ROW(exact_attend_biased, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_split_biased, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_rows_int8, SIMD, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_rows_int4, SIMD, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_glu, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_add, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_route, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_conv, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_delta, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_ssm, ALL, FOR_EXACT, EXACT_SSM_THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_softcap, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)

/* Layouts of weights (pack.hip) */
KERNEL_ROW(repack_codes, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_lanes, NO_MMA, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_rows, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_meta, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_dense_16, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_dense_32, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_bytes, SM90, FOR_PACK, THREADS, 0, 0, 0, 0)

/* Quantization (gptq.hip) */
KERNEL_ROW(gptq_product, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_product_64, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_matrix, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_corner, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_factor, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_diagonal, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_take, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_codes, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_errors, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_ranges, ALL, FOR_GPTQ, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gptq_round, ALL, FOR_GPTQ, GPTQ_ROUND_ROWS, 0, 0, 0, 0)

/* Rows of activations (vector.hip, norm.hip, element.hip, exchange.hip) */
KERNEL_ROW(prepare_f32, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_f16_4, ALL, FOR_PREPARE, THREADS, 0, 0, SHORT_PIECES, 0)
KERNEL_ROW(prepare_f16_11, ALL, FOR_PREPARE, THREADS, 4, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(prepare_f16_14, ALL, FOR_PREPARE, THREADS, 3, 0, ROW_PIECES, 0)
KERNEL_ROW(embed_rows, ALL, FOR_EMBED, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_rows, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_rows_by_4, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_groups, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_centered, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_prepare_4, ALL, FOR_NORM, THREADS, 0, 0, SHORT_PIECES, 0)
KERNEL_ROW(norm_prepare_11, ALL, FOR_NORM, THREADS, 0, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(norm_prepare_14, ALL, FOR_NORM, THREADS, 0, 0, ROW_PIECES, 0)
KERNEL_ROW(glu, ALL, FOR_GLU, THREADS, 0, 0, 0, 0)
KERNEL_ROW(glu_any, ALL, FOR_GLU, THREADS, 0, 0, 0, 0)
KERNEL_ROW(add_rows, ALL, FOR_ADD, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exchange, ALL, FOR_EXCHANGE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exchange_word, NO_MMA, FOR_EXCHANGE, WORD_THREADS, 0, 0, 0, 0)
KERNEL_ROW(glu_prepare_4, ALL, FOR_GLU, THREADS, 0, 0, SHORT_PIECES, SPREAD_SHARED)
KERNEL_ROW(glu_prepare_11, ALL, FOR_GLU, THREADS, 4, 0, MEDIUM_PIECES, SPREAD_SHARED)
KERNEL_ROW(glu_prepare_14, ALL, FOR_GLU, THREADS, 4, 0, ROW_PIECES, SPREAD_SHARED)
KERNEL_ROW(gather_rows, ALL, FOR_GATHER, THREADS, 0, 0, 0, 0)

/* Latent heads (latent.hip) */
KERNEL_ROW(rope_latent, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(latent_page_jobs, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_latent, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_latent_chunk, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_chosen_chunk, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)

/* Positions that rows attend to (choose.hip) */
KERNEL_ROW(choose_scores, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(choose_rows, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)

/* Rotation and attention (rope.hip, open_pages.hip, attend.hip, attend_int8.hip) */
KERNEL_ROW(rope_angles, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store_int8, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store_warps, MMA, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(open_page_jobs, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_f16, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_f32, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_combine, ALL, FOR_COMBINE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store_512, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_f16_512, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_f32_512, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_int8, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_int4, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_int8, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_int4, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_biased_int8, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_biased_int4, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_split_biased, ALL, FOR_ATTEND, THREADS, 0, 0, 0, 0)
KERNEL_ROW(attend_combine_512, ALL, FOR_COMBINE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(combine_prepare, ALL, FOR_COMBINE, THREADS, 0, 0, COMBINE_PIECES, 0)
KERNEL_ROW(combine_prepare_ordered, ALL, FOR_COMBINE, THREADS, 0, 0, COMBINE_PIECES, 0)

/* States of sequences (conv.hip, delta.hip, delta_channels.hip, delta_scan.hip). dims: dimensions
 * of a key, at most; rows: of a chunk. Kernels with `one` in their name are for sequences of one
 * row, with `kept` for rows of drafts. ssm: Mamba-2. */
KERNEL_ROW(conv_rows, ALL, FOR_STATE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(delta_channels, ALL, FOR_STATE, CHANNELS_THREADS, 0, 0, 0, 0)
KERNEL_ROW(delta_scan, ALL, FOR_STATE, SCAN_THREADS, 0, 0, 0, 0)
#ifndef DELTA
#define DELTA(name, images, dims, rows, ssm)                                                       \
    KERNEL_ROW(name, images, FOR_STATE, 2 * DELTA_THREADS, 1, 0, 0, 0)
#endif
#ifndef DELTA_ONE
#define DELTA_ONE(name, images, dims, blocks, ssm)                                                 \
    KERNEL_ROW(name, images, FOR_STATE, DELTA_THREADS, blocks, 0, 0, 0)
#endif
#ifndef DELTA_KEPT
#define DELTA_KEPT(name, images, dims, blocks)                                                     \
    KERNEL_ROW(name, images, FOR_STATE, DELTA_THREADS, blocks, 0, 0, 0)
#endif
DELTA(delta_128, ALL, 128, 16, 0)
DELTA(delta_256, ALL, 256, 8, 0)
DELTA_ONE(delta_one_128, ALL, 128, 5, 0)
DELTA_ONE(delta_one_256, ALL, 256, 3, 0)
DELTA(ssm_128, ALL, 128, 16, 1)
DELTA(ssm_256, ALL, 256, 8, 1)
DELTA_ONE(ssm_one_128, ALL, 128, 5, 1)
DELTA_ONE(ssm_one_256, ALL, 256, 3, 1)
DELTA_KEPT(delta_kept_128, ALL, 128, 4)
DELTA_KEPT(delta_kept_256, ALL, 256, 2)

/* Rows of logits (argmax.hip, vector.hip, top.hip, sample.hip, score.hip) */
KERNEL_ROW(argmax_spans, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(argmax_rows, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(group_sums, ALL, FOR_ADD, THREADS, 0, 0, 0, 0)
KERNEL_ROW(softcap, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(top_rows, ALL, FOR_SAMPLE, TOP_THREADS, 0, 0, 0, 0)
KERNEL_ROW(sample_changes, ALL, FOR_SAMPLE, SAMPLE_THREADS, 0, 0, 0, 0)
KERNEL_ROW(sample_spans, ALL, FOR_SAMPLE, SAMPLE_THREADS, 0, 0, 0, 0)
KERNEL_ROW(sample_listed, ALL, FOR_SAMPLE, SAMPLE_THREADS, 0, 0, 0, 0)
KERNEL_ROW(sample_rows, ALL, FOR_SAMPLE, SAMPLE_THREADS, 0, 0, 0, 0)
KERNEL_ROW(score_rows, ALL, FOR_SAMPLE, SAMPLE_THREADS, 0, 0, 0, 0)

#undef Q4_DECODE
#undef DENSE_DECODE
#undef Q4_PREFILL
#undef DENSE_PREFILL
#undef Q4_DECODE_EXPERTS
#undef DENSE_DECODE_EXPERTS
#undef Q4_PREFILL_EXPERTS
#undef DENSE_PREFILL_EXPERTS
#undef EXACT_Q4
#undef EXACT_DENSE
#undef EXACT_DENSE_8
#undef DELTA
#undef DELTA_ONE
#undef DELTA_KEPT
