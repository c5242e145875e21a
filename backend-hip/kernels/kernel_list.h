/* kernel_list.h: every kernel, one row each, read by host and device: the device instantiates a
 * template from each row, the host has its table of kernels (hip_kernels.c), scripts/kernel-table
 * reads the text. No include guard: the includer defines the macros that it needs, and all are
 * undefined at the end. A row begins with
 *   name     the kernel's; enum hip_kernel has K_name, and --variant takes names of linears
 *   images   that have it, one of the sets of images.h; others must not have it
 * A family of linears has a macro whose columns are the template's constants. A macro that the
 * includer does not define becomes LINEAR(name, images, op, threads, blocks, shared, ...), with the
 * further members of struct hip_kernel_row; macros of other families, and LINEAR if it is not
 * defined either, become
 *   KERNEL_ROW(name, images, op, threads, blocks, shared, pieces, spread)
 *   op       enum kernel_op
 *   threads  of a block
 *   blocks   that a multiprocessor of NVIDIA's must hold (occupancy), 0: left to the compiler
 *   shared   bytes of dynamic shared memory
 *   pieces   PIECE elements each, of the longest row that a block keeps in registers; 0: no limit
 *   spread   bytes of dynamic shared memory with which a multiprocessor takes one block only */
#ifndef KERNEL_ROW
#define KERNEL_ROW(...)
#endif
#ifndef LINEAR
#define LINEAR(name, images, op, threads, blocks, shared, ...)                                     \
    KERNEL_ROW(name, images, op, threads, blocks, shared, 0, 0)
#endif

/* 4-bit linears of decode rows, a ring for each warp (hopper/linear_decode_mma.hip). tiles: of 8
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

/* The same on sm_80 (nvidia/linear_decode_mma.hip). panels: of a block */
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

/* 4-bit linears with few outputs, split-K over a cluster (hopper/linear_decode_wgmma.hip) */
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

/* 4-bit linears in row tiles (hopper/linear_prefill_wgmma.hip). groups: consumer warpgroups, 64
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

/* 4-bit linears of prompt rows (nvidia/linear_prefill_mma.hip) */
#ifndef Q4_PREFILL_MMA
#define Q4_PREFILL_MMA(name, images, of_block, outs)                                               \
    LINEAR(name, images, FOR_LINEAR, THREADS, 1, 0, .phase = PHASE_PREFILL,                        \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
Q4_PREFILL_MMA(q4_mma_prefill, SM80, 128, 128)

/* The same by AMD's matrix instructions (amd/linear_prefill_matrix.hip) */
#ifndef Q4_PREFILL_MATRIX
#define Q4_PREFILL_MATRIX(name, images, kind, of_block, outs)                                      \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_PREFILL,                        \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
Q4_PREFILL_MATRIX(q4_mfma_prefill, MFMA, MATRIX_MFMA, 64, 128)
Q4_PREFILL_MATRIX(q4_wmma_prefill, WMMA, MATRIX_WMMA, 64, 128)
Q4_PREFILL_MATRIX(q4_wmma12_prefill, WMMA12, MATRIX_WMMA12, 64, 128)

/* 4-bit linears of decode rows, without matrix instructions (common/linear_decode.hip). half:
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

/* Dense linears of prompt rows with fp16 activations (hopper/linear_plain_wgmma.hip). groups:
 * consumer warpgroups, 64 outputs each; few: rows, for routers and the heads of last rows */
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

/* Dense linears of decode rows with fp16 activations (hopper/plain_decode_wgmma.hip). groups:
 * consumer warpgroups, `tall` times 64 outputs each; r: bf16, h: halves, few: outputs */
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

/* Dense linears of all rows (nvidia/linear_plain_mma.hip). A warp has `tiles` x 16 rows and
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

/* Dense linears of all rows with few outputs (nvidia/linear_few_mma.hip) */
#ifndef DENSE_FEW
#define DENSE_FEW(name, images, weights)                                                           \
    LINEAR(name, images, FOR_LINEAR, THREADS, 2, FEW_SHARED, .phase = PHASE_BOTH,                  \
           .format = FORMAT_DENSE(weights), .rows = 16, .outputs = PANEL, .few = 1)
#endif
DENSE_FEW(dense_few_f16, MMA, WEIGHT_F16)
DENSE_FEW(dense_few_bf16, MMA, WEIGHT_BF16)
DENSE_FEW(dense_few_i8, SM90, WEIGHT_I8)

/* Dense linears of decode rows (common/linear_decode.hip) */
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

/* 4-bit and dense linears of prompt rows (common/linear_prefill.hip). down: rows of a thread */
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

/* The kernels of Opt4GPTQ (paper/linear_paper.hip); smb, vml, ila: its optimizations. A family's
 * rows are 1 to 8 rows of a block, in this order (hip_launch_paper). */
#ifndef PAPER
#define PAPER(name, images, of_block, smb, vml, ila)                                               \
    LINEAR(name, images, FOR_PAPER, PAPER_THREADS, 0, 0, .phase = PHASE_DECODE,                    \
           .format = FORMAT_PAPER, .rows = of_block, .outputs = PAPER_OUTPUTS(smb),                \
           .inputs = PAPER_INPUTS * PAPER_SLICES(smb))
#endif
PAPER(paper_base_1, ABLATION, 1, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_2, ABLATION, 2, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_3, ABLATION, 3, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_4, ABLATION, 4, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_5, ABLATION, 5, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_6, ABLATION, 6, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_7, ABLATION, 7, 0, VML_NONE, ILA_NONE)
PAPER(paper_base_8, ABLATION, 8, 0, VML_NONE, ILA_NONE)
PAPER(paper_smb_1, ABLATION, 1, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_2, ABLATION, 2, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_3, ABLATION, 3, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_4, ABLATION, 4, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_5, ABLATION, 5, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_6, ABLATION, 6, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_7, ABLATION, 7, 1, VML_NONE, ILA_NONE)
PAPER(paper_smb_8, ABLATION, 8, 1, VML_NONE, ILA_NONE)
PAPER(paper_vml_half2_1, ABLATION, 1, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_2, ABLATION, 2, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_3, ABLATION, 3, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_4, ABLATION, 4, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_5, ABLATION, 5, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_6, ABLATION, 6, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_7, ABLATION, 7, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_half2_8, ABLATION, 8, 0, VML_HALF2, ILA_NONE)
PAPER(paper_vml_wide_1, ABLATION, 1, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_2, ABLATION, 2, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_3, ABLATION, 3, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_4, ABLATION, 4, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_5, ABLATION, 5, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_6, ABLATION, 6, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_7, ABLATION, 7, 0, VML_WIDE, ILA_NONE)
PAPER(paper_vml_wide_8, ABLATION, 8, 0, VML_WIDE, ILA_NONE)
PAPER(paper_ila_literal_1, ABLATION, 1, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_2, ABLATION, 2, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_3, ABLATION, 3, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_4, ABLATION, 4, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_5, ABLATION, 5, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_6, ABLATION, 6, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_7, ABLATION, 7, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_literal_8, ABLATION, 8, 0, VML_NONE, ILA_LITERAL)
PAPER(paper_ila_packed_1, ABLATION, 1, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_2, ABLATION, 2, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_3, ABLATION, 3, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_4, ABLATION, 4, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_5, ABLATION, 5, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_6, ABLATION, 6, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_7, ABLATION, 7, 0, VML_NONE, ILA_PACKED)
PAPER(paper_ila_packed_8, ABLATION, 8, 0, VML_NONE, ILA_PACKED)
PAPER(paper_all_literal_1, ABLATION, 1, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_2, ABLATION, 2, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_3, ABLATION, 3, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_4, ABLATION, 4, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_5, ABLATION, 5, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_6, ABLATION, 6, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_7, ABLATION, 7, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_literal_8, ABLATION, 8, 1, VML_HALF2, ILA_LITERAL)
PAPER(paper_all_packed_1, ABLATION, 1, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_2, ABLATION, 2, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_3, ABLATION, 3, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_4, ABLATION, 4, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_5, ABLATION, 5, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_6, ABLATION, 6, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_7, ABLATION, 7, 1, VML_WIDE, ILA_PACKED)
PAPER(paper_all_packed_8, ABLATION, 8, 1, VML_WIDE, ILA_PACKED)
KERNEL_ROW(paper_result, ABLATION, FOR_PAPER, THREADS, 0, 0, 0, 0)

/* Experts: the linears of stacks (common/linear_decode.hip, common/linear_prefill.hip). The columns
 * are those of the linears; a tile of a grouping has `rows` places. */
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
#ifndef EXPERTS_MMA /* hopper/experts_decode_mma.hip */
#define EXPERTS_MMA(name, images, depth, which, blocks)                                            \
    LINEAR(name, images, FOR_EXPERTS, THREADS, blocks, EXPERTS_MMA_SHARED(depth),                  \
           .phase = PHASE_DECODE, .format = FORMAT_Q4_F16, .rows = 8,                              \
           .outputs = EXPERTS_MMA_PANELS * PANEL, .persistent = 1, .gathers = 1,                   \
           .linears = which)
#endif
#ifndef EXPERTS_WGMMA /* hopper/linear_prefill_wgmma.hip */
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
#ifndef Q4_PREFILL_MATRIX_EXPERTS
#define Q4_PREFILL_MATRIX_EXPERTS(name, images, kind, of_block, outs)                              \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_PREFILL,                       \
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
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_mfma, MFMA, MATRIX_MFMA, 64, 128)
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_wmma, WMMA, MATRIX_WMMA, 64, 128)
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_wmma12, WMMA12, MATRIX_WMMA12, 64, 128)
DENSE_MMA_EXPERTS(dense_experts_mma_f16, MMA, WEIGHT_F16, 2, 1, 1, 1, 2)
DENSE_MMA_EXPERTS(dense_experts_mma_bf16, MMA, WEIGHT_BF16, 3, 1, 1, 1, 2)
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

/* Mixtures of experts around their linears (common/experts.hip) */
KERNEL_ROW(route_rows, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(group_slots, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_f32, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_f16, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_parts_f16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(slots_prepare_parts_bf16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_f16, MMA, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_bf16, MMA, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(mix_parts_bf16, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(mix_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gated_parts_bf16, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(gated_parts_i8, SM90, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_router_f16, SM90, FOR_ROUTE, THREADS, 0, ROUTER_SHARED(ROUTER_INPUTS), 0, 0)
KERNEL_ROW(norm_router_bf16, SM90, FOR_ROUTE, THREADS, 0, ROUTER_SHARED(ROUTER_INPUTS), 0, 0)
#ifndef NORM_ROUTE /* hopper/norm_route.hip */
#define NORM_ROUTE(name, images)                                                                   \
    LINEAR(name, images, FOR_ROUTE, THREADS, 2, NORM_ROUTE_SHARED, .in_clusters = ROUTE_CLUSTER)
#endif
NORM_ROUTE(norm_route, SM90)
KERNEL_ROW(route_warps, SM90, FOR_ROUTE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(q4_experts_route, SM90, FOR_ROUTE, THREADS, 4, EXPERTS_ROUTE_SHARED, 0, 0)
KERNEL_ROW(slots_gate_f16, SM90, FOR_PREPARE, THREADS, 0, 8 * 4 * MIX_INPUTS, 0, 0)
#ifndef EXPERTS_MIX /* hopper/experts_mix_gemv.hip; shared: weights of a shared expert */
#define EXPERTS_MIX(name, images, shared)                                                          \
    KERNEL_ROW(name, images, FOR_ROUTE, THREADS, 2, MIX_SHARED, 0, 0)
#endif
EXPERTS_MIX(q4_experts_mix, SM90, MIX_ALONE)
EXPERTS_MIX(q4_experts_mix_f16, SM90, WEIGHT_F16)
EXPERTS_MIX(q4_experts_mix_bf16, SM90, WEIGHT_BF16)
EXPERTS_MIX(q4_experts_mix_i8, SM90, WEIGHT_I8)
KERNEL_ROW(mix_slots, ALL, FOR_ROUTE, THREADS, 0, 0, 0, 0)

/* 4-bit GEMVs with fused prologue and epilogue (hopper/linear_gemv.hip). panels: of an output tile,
 * 2 with SwiGLU; items: of a ring; of_row: pieces */
#ifndef Q4_GEMV
#define Q4_GEMV(name, images, source, panels, items, blocks, of_row)                               \
    KERNEL_ROW(name, images, FOR_GEMV, THREADS, blocks, GEMV_SHARED(items, of_row), of_row, 0)
#endif
Q4_GEMV(q4_gemv_norm, SM90, GEMV_NORM, 1, 6, 3, GEMV_NORM_PIECES)
Q4_GEMV(q4_gemv_norm_glu, SM90, GEMV_NORM, 2, 6, 3, GEMV_NORM_PIECES)
Q4_GEMV(q4_gemv_combine, SM90, GEMV_COMBINE, 1, 8, 2, ROW_PIECES)
Q4_GEMV(q4_gemv_row, SM90, GEMV_ROW, 1, 8, 2, ROW_PIECES)

/* GEMVs of fp16 and bf16 weights and of codes of 8 bits, likewise (hopper/dense_gemv.hip). mixed:
 * codes of 8 bits beside other weights */
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

/* The CPU's order (common/exact_linear.hip, common/exact_vector.hip, common/exact_attend.hip). rows:
 * of a tile, a block has one or several */
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
#ifndef EXACT_MATRIX /* amd/exact_linear_matrix.hip */
#define EXACT_MATRIX(name, images, kind) KERNEL_ROW(name, images, FOR_EXACT, THREADS, 0, 0, 0, 0)
#endif
EXACT_MATRIX(exact_mfma, MFMA, MATRIX_MFMA)
EXACT_MATRIX(exact_wmma, WMMA, MATRIX_WMMA)
EXACT_MATRIX(exact_wmma12, WMMA12, MATRIX_WMMA12)
#ifndef EXACT_TILE /* nvidia/exact_linear_mma.hip; panels: of a warp; pairs: codes of 8 bits */
#define EXACT_TILE(name, images, rows, panels, pairs)                                              \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, 2, EXACT_TILE_SHARED(rows, panels, pairs), 0, 0)
#endif
EXACT_TILE(exact_tile_1, MMA, 64, 1, 0)
EXACT_TILE(exact_tile_2, MMA, 64, 2, 0)
EXACT_TILE(exact_tile_32, MMA, 32, 1, 0)
EXACT_TILE(exact_pairs_tile, MMA, 64, 1, 1)
#ifndef EXACT_WGMMA /* hopper/exact_linear_wgmma.hip; groups: warpgroups of 64 outputs; columns: of
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
#ifndef EXACT_GEMV /* hopper/exact_gemv.hip; panels: of an output tile */
#define EXACT_GEMV(name, images, source, panels)                                                   \
    KERNEL_ROW(name, images, FOR_EXACT, EXACT_GEMV_THREADS, 1,                                     \
               EXACT_GEMV_SHARED(EXACT_GEMV_SUBS(source), panels, (source) == GEMV_NORM), 0, 0)
#endif
EXACT_GEMV(exact_gemv_norm, SM90, GEMV_NORM, 1)
EXACT_GEMV(exact_gemv_norm_glu, SM90, GEMV_NORM, 2)
EXACT_GEMV(exact_gemv_combine, SM90, GEMV_COMBINE, 1)
EXACT_GEMV(exact_gemv_row, SM90, GEMV_ROW, 1)
KERNEL_ROW(exact_split_8, MMA, FOR_EXACT, THREADS, 3, EXACT_SPLIT_TERMS * 4, 0, 0)
KERNEL_ROW(exact_experts_split, MMA, FOR_EXACT, THREADS, 3, EXACT_SPLIT_TERMS * 4, 0, 0)
KERNEL_ROW(exact_pairs_split, MMA, FOR_EXACT, THREADS, 2, EXACT_SPLIT_TERMS * 4, 0, 0)
EXACT_DENSE(exact_dense_f16, ALL, WEIGHT_F16)
EXACT_DENSE(exact_dense_bf16, ALL, WEIGHT_BF16)
EXACT_DENSE(exact_dense_f32, ALL, WEIGHT_F32)
EXACT_DENSE_8(exact_dense_f16_8, NO_MMA, WEIGHT_F16)
EXACT_DENSE_8(exact_dense_bf16_8, NO_MMA, WEIGHT_BF16)
EXACT_DENSE_8(exact_dense_f32_8, ALL, WEIGHT_F32)
#ifndef EXACT_DENSE_TILE /* nvidia/exact_dense.hip; tile: rows and outputs of a thread */
#define EXACT_DENSE_TILE(name, images, weights, tile, blocks)                                      \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, blocks, DENSE_TILE_SHARED(tile), 0, 0)
#endif
EXACT_DENSE_TILE(exact_dense_tile_4_f16, MMA, WEIGHT_F16, 4, 2)
EXACT_DENSE_TILE(exact_dense_tile_4_bf16, MMA, WEIGHT_BF16, 4, 2)
EXACT_DENSE_TILE(exact_dense_tile_8_f16, MMA, WEIGHT_F16, 8, 1)
EXACT_DENSE_TILE(exact_dense_tile_8_bf16, MMA, WEIGHT_BF16, 8, 1)
KERNEL_ROW(exact_quantize, ALL, FOR_EXACT, THREADS, 4, 0, 0, 0)
KERNEL_ROW(exact_norm, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_norm_quantize, ALL, FOR_EXACT, THREADS, 4, 0, 0, 0)
KERNEL_ROW(exact_quantize_tiles, SM90, FOR_EXACT, THREADS, 3, 0, 0, 0) /* hopper/exact_digits */
KERNEL_ROW(exact_norm_tiles, SM90, FOR_EXACT, THREADS, 4, 0, 0, 0)
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
KERNEL_ROW(exact_attend_rows_int8, SIMD, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_attend_rows_int4, SIMD, FOR_EXACT, THREADS, 0, 0, 0, 0)
#ifndef EXACT_ATTEND_MMA /* nvidia/exact_attend_mma.hip; dims: of a head, at most */
#define EXACT_ATTEND_MMA(name, images, dims, blocks)                                               \
    KERNEL_ROW(name, images, FOR_EXACT, THREADS, blocks, EXACT_ATTEND_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_MATRIX /* amd/attend_matrix.hip; half: pages of fp16, else of integers */
#define ATTEND_MATRIX(name, images, kind, threads, half)                                           \
    KERNEL_ROW(name, images, (half) ? FOR_ATTEND : FOR_EXACT, threads, 0, 0, 0, 0)
#endif
ATTEND_MATRIX(exact_attend_mfma, MFMA, MATRIX_MFMA, 256, 0)
ATTEND_MATRIX(exact_attend_wmma, WMMA, MATRIX_WMMA, 128, 0)
ATTEND_MATRIX(exact_attend_wmma12, WMMA12, MATRIX_WMMA12, 128, 0)
ATTEND_MATRIX(attend_mfma, MFMA, MATRIX_MFMA, 256, 1)
ATTEND_MATRIX(attend_wmma, WMMA, MATRIX_WMMA, 128, 1)
ATTEND_MATRIX(attend_wmma12, WMMA12, MATRIX_WMMA12, 128, 1)
EXACT_ATTEND_MMA(exact_attend_mma_64, MMA, 64, 2)
EXACT_ATTEND_MMA(exact_attend_mma_128, MMA, 128, 2)
EXACT_ATTEND_MMA(exact_attend_mma_256, MMA, 256, 1)
KERNEL_ROW(exact_glu, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_add, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_route, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_conv, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_delta, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)
KERNEL_ROW(exact_delta_128, MMA, FOR_EXACT, EXACT_DELTA_THREADS, 2, 0, 0, 0)
KERNEL_ROW(exact_softcap, ALL, FOR_EXACT, THREADS, 0, 0, 0, 0)

/* common/pack.hip */
KERNEL_ROW(repack_codes, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_lanes, NO_MMA, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_rows, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_meta, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_dense_16, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_dense_32, ALL, FOR_PACK, THREADS, 0, 0, 0, 0)
KERNEL_ROW(repack_bytes, SM90, FOR_PACK, THREADS, 0, 0, 0, 0)

/* Rows of activations (common/vector.hip, common/norm.hip, common/element.hip,
 * nvidia/linear_plain_mma.hip, hopper/vector_1024.hip) */
KERNEL_ROW(prepare_f32, ALL, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_f16_4, ALL, FOR_PREPARE, THREADS, 0, 0, SHORT_PIECES, 0)
KERNEL_ROW(prepare_f16_11, ALL, FOR_PREPARE, THREADS, 4, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(prepare_f16_14, ALL, FOR_PREPARE, THREADS, 3, 0, ROW_PIECES, 0)
KERNEL_ROW(prepare_parts_f16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_parts_bf16, MMA, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(prepare_parts_i8, SM90, FOR_PREPARE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(embed_rows, ALL, FOR_EMBED, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_rows, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_rows_by_4, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_groups, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_centered, ALL, FOR_NORM, THREADS, 0, 0, 0, 0)
KERNEL_ROW(norm_prepare_4, ALL, FOR_NORM, THREADS, 0, 0, SHORT_PIECES, 0)
KERNEL_ROW(norm_prepare_11, ALL, FOR_NORM, THREADS, 0, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(norm_prepare_14, ALL, FOR_NORM, THREADS, 0, 0, ROW_PIECES, 0)
KERNEL_ROW(norm_1024_4, SM90, FOR_NORM, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(norm_1024_11, SM90, FOR_NORM, THREADS_1024, 1, 0, MEDIUM_PIECES, 0)
KERNEL_ROW(mix_norm_1024_4, SM90, FOR_NORM, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(glu, ALL, FOR_GLU, THREADS, 0, 0, 0, 0)
KERNEL_ROW(glu_any, ALL, FOR_GLU, THREADS, 0, 0, 0, 0)
KERNEL_ROW(add_rows, ALL, FOR_ADD, THREADS, 0, 0, 0, 0)
KERNEL_ROW(glu_prepare_4, ALL, FOR_GLU, THREADS, 0, 0, SHORT_PIECES, SPREAD_SHARED)
KERNEL_ROW(glu_prepare_11, ALL, FOR_GLU, THREADS, 4, 0, MEDIUM_PIECES, SPREAD_SHARED)
KERNEL_ROW(glu_prepare_14, ALL, FOR_GLU, THREADS, 4, 0, ROW_PIECES, SPREAD_SHARED)
KERNEL_ROW(glu_1024_14, SM90, FOR_GLU, THREADS_1024, 1, 0, ROW_PIECES, SPREAD_SHARED_1024)
KERNEL_ROW(gather_rows, ALL, FOR_GATHER, THREADS, 0, 0, 0, 0)

/* Rotation and attention (common/rope.hip, common/attend.hip, hopper/vector_1024.hip) */
KERNEL_ROW(rope_angles, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store_int8, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_store_warps, MMA, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(open_page_jobs, ALL, FOR_ROPE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(rope_pages_64, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0) /* nvidia/rope_pages.hip */
KERNEL_ROW(rope_pages_128, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0)
KERNEL_ROW(rope_pages_256, MMA, FOR_ROPE, THREADS, 4, 0, 0, 0)
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
KERNEL_ROW(attend_combine_512, ALL, FOR_COMBINE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(combine_prepare, ALL, FOR_COMBINE, THREADS, 0, 0, COMBINE_PIECES, 0)
KERNEL_ROW(combine_prepare_ordered, ALL, FOR_COMBINE, THREADS, 0, 0, COMBINE_PIECES, 0)
KERNEL_ROW(combine_1024_4, SM90, FOR_COMBINE, THREADS_1024, 2, 0, SHORT_PIECES, 0)
KERNEL_ROW(combine_1024_8, SM90, FOR_COMBINE, THREADS_1024, 1, 0, COMBINE_PIECES, 0)

/* Attention of prompt and decode rows by matrix instructions, for heads of `dims` dimensions
 * (nvidia/attend_prefill_mma.hip, hopper/attend_prefill_wgmma.hip, nvidia/attend_decode_mma.hip).
 * queries, halves: fp16 parts of a query, of a softmax weight */
#ifndef ATTEND_TILE
#define ATTEND_TILE(name, images, dims)                                                            \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_TILE_THREADS, 0, ATTEND_TILE_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_WGMMA
#define ATTEND_WGMMA(name, images, dims, queries, halves)                                          \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1, ATTEND_WGMMA_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_WGMMA_LONG /* hopper/attend_prefill_256.hip */
#define ATTEND_WGMMA_LONG(name, images, queries)                                                   \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1, ATTEND_LONG_SHARED, 0, 0)
#endif
#ifndef ATTEND_PAGES
#define ATTEND_PAGES(name, images, dims)                                                           \
    KERNEL_ROW(name, images, FOR_ATTEND, SPLIT_THREADS, 0, SPLIT_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_TILE_INT8 /* nvidia/attend_prefill_int8.hip */
#define ATTEND_TILE_INT8(name, images, dims)                                                       \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_TILE_THREADS, 0, ATTEND_TILE_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_WGMMA_INT8 /* hopper/attend_prefill_int8.hip */
#define ATTEND_WGMMA_INT8(name, images, dims, queries, halves, int4)                               \
    KERNEL_ROW(name, images, FOR_ATTEND, ATTEND_WGMMA_THREADS, 1,                                  \
               (int4) ? ATTEND_INT4_SHARED(dims) : ATTEND_INT8_SHARED(dims), 0, 0)
#endif
#ifndef ATTEND_CHUNK /* nvidia/attend_chunk.hip */
#define ATTEND_CHUNK(name, images, dims, int4, blocks)                                             \
    KERNEL_ROW(name, images, FOR_ATTEND, THREADS, blocks, CHUNK_SHARED(dims, int4), 0, 0)
#endif
#ifndef ATTEND_WARP /* hopper/attend_warp.hip; heads: query heads of a KV head, at most */
#define ATTEND_WARP(name, images, dims, int4, heads, blocks)                                       \
    KERNEL_ROW(name, images, FOR_ATTEND, 32, blocks, ATTEND_WARP_SHARED(dims, int4, heads), 0, 0)
#endif
ATTEND_TILE(attend_tile_64, SM80, 64)
ATTEND_TILE(attend_tile_128, SM80, 128)
ATTEND_TILE(attend_tile_256, MMA, 256)
ATTEND_WGMMA(attend_wgmma_64, SM90, 64, 2, 2)
ATTEND_WGMMA(attend_wgmma_128, SM90, 128, 2, 2)
ATTEND_WGMMA(attend_wgmma_half_64, SM90, 64, 2, 1)
ATTEND_WGMMA(attend_wgmma_half_128, SM90, 128, 2, 1)
ATTEND_WGMMA(attend_wgmma_one_64, SM90, 64, 1, 1)
ATTEND_WGMMA(attend_wgmma_one_128, SM90, 128, 1, 1)
ATTEND_WGMMA_LONG(attend_wgmma_half_256, SM90, 2)
ATTEND_WGMMA_LONG(attend_wgmma_one_256, SM90, 1)
ATTEND_TILE_INT8(attend_tile_int8_64, SM80, 64)
ATTEND_TILE_INT8(attend_tile_int8_128, SM80, 128)
ATTEND_TILE_INT8(attend_tile_int8_256, MMA, 256)
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
ATTEND_PAGES(attend_pages_64, MMA, 64)
ATTEND_PAGES(attend_pages_128, MMA, 128)
ATTEND_PAGES(attend_pages_256, SM90, 256)
ATTEND_CHUNK(attend_chunk_int8_64, MMA, 64, 0, 3)
ATTEND_CHUNK(attend_chunk_int8_128, MMA, 128, 0, 3)
ATTEND_CHUNK(attend_chunk_int8_256, SM90, 256, 0, 1)
ATTEND_CHUNK(attend_chunk_int4_64, MMA, 64, 1, 4)
ATTEND_CHUNK(attend_chunk_int4_128, MMA, 128, 1, 4)
ATTEND_CHUNK(attend_chunk_int4_256, SM90, 256, 1, 2)
ATTEND_WARP(attend_warp_int8_128, SM90, 128, 0, 1, 16)
ATTEND_WARP(attend_warp_int4_128, SM90, 128, 1, 1, 16)
ATTEND_WARP(attend_warp_heads_int8_128, SM90, 128, 0, WARP_HEADS, 14)
ATTEND_WARP(attend_warp_heads_int4_128, SM90, 128, 1, WARP_HEADS, 12)

/* States of sequences (common/conv.hip, common/delta.hip). dims: of a key, at most; rows: of a
 * chunk. *_one_*: for sequences of one row */
KERNEL_ROW(conv_rows, ALL, FOR_STATE, THREADS, 0, 0, 0, 0)
#ifndef DELTA
#define DELTA(name, images, dims, rows)                                                            \
    KERNEL_ROW(name, images, FOR_STATE, 2 * DELTA_THREADS, 1, 0, 0, 0)
#endif
#ifndef DELTA_ONE
#define DELTA_ONE(name, images, dims, blocks)                                                      \
    KERNEL_ROW(name, images, FOR_STATE, DELTA_THREADS, blocks, 0, 0, 0)
#endif
DELTA(delta_128, ALL, 128, 16)
DELTA(delta_256, ALL, 256, 8)
DELTA_ONE(delta_one_128, ALL, 128, 5)
DELTA_ONE(delta_one_256, ALL, 256, 3)
#ifndef DELTA_GATED /* hopper/delta_gated.hip */
#define DELTA_GATED(name, images)                                                                  \
    LINEAR(name, images, FOR_STATE, DELTA_THREADS, 5, 0, .in_clusters = CLUSTER)
#endif
DELTA_GATED(delta_gated_128, SM90)

/* Rows of logits (common/argmax.hip, common/vector.hip, common/top.hip) */
KERNEL_ROW(argmax_spans, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(argmax_rows, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(softcap, ALL, FOR_SAMPLE, THREADS, 0, 0, 0, 0)
KERNEL_ROW(top_rows, ALL, FOR_SAMPLE, TOP_THREADS, 0, 0, 0, 0)

#undef KERNEL_ROW
#undef LINEAR
#undef Q4_DECODE_HOPPER
#undef Q4_DECODE_MMA
#undef Q4_WGMMA_CLUSTER
#undef Q4_WGMMA
#undef Q4_PREFILL_MMA
#undef Q4_PREFILL_MATRIX
#undef Q4_DECODE
#undef Q4_DECODE_EXPERTS
#undef Q4_DECODE_MMA_EXPERTS
#undef Q4_PREFILL_MMA_EXPERTS
#undef Q4_PREFILL_MATRIX_EXPERTS
#undef DENSE_MMA_EXPERTS
#undef EXPERTS_MMA
#undef EXPERTS_WGMMA
#undef EXPERTS_MIX
#undef NORM_ROUTE
#undef DENSE_DECODE_EXPERTS
#undef Q4_PREFILL_EXPERTS
#undef DENSE_PREFILL_EXPERTS
#undef DENSE_MMA
#undef DENSE_DECODE
#undef DENSE_FEW
#undef Q4_PREFILL
#undef DENSE_PREFILL
#undef PAPER
#undef Q4_GEMV
#undef DENSE_GEMV
#undef DENSE_GEMV_MIXED
#undef EXACT_Q4
#undef EXACT_MATRIX
#undef EXACT_TILE
#undef EXACT_WGMMA
#undef EXACT_GEMV
#undef EXACT_ATTEND_MMA
#undef ATTEND_MATRIX
#undef EXACT_DENSE
#undef EXACT_DENSE_8
#undef EXACT_DENSE_TILE
#undef PLAIN_WGMMA
#undef PLAIN_DECODE
#undef ATTEND_TILE
#undef ATTEND_WGMMA
#undef ATTEND_WGMMA_LONG
#undef ATTEND_PAGES
#undef ATTEND_CHUNK
#undef ATTEND_WARP
#undef ATTEND_WGMMA_INT8
#undef ATTEND_TILE_INT8
#undef DELTA
#undef DELTA_ONE
#undef DELTA_GATED
