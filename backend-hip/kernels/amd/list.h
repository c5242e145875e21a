/* list.h of amd/: the kernels for AMD's matrix instructions (columns: kernel_list.h). */
#include "backend-hip/kernels/rows.h"

/* 4-bit linears of prompt rows (linear_prefill_matrix.hip) */
#ifndef Q4_PREFILL_MATRIX
#define Q4_PREFILL_MATRIX(name, images, kind, of_block, outs)                                      \
    LINEAR(name, images, FOR_LINEAR, THREADS, 0, 0, .phase = PHASE_PREFILL,                        \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
Q4_PREFILL_MATRIX(q4_mfma_prefill, MFMA, MATRIX_MFMA, 64, 128)
Q4_PREFILL_MATRIX(q4_wmma_prefill, WMMA, MATRIX_WMMA, 64, 128)
Q4_PREFILL_MATRIX(q4_wmma12_prefill, WMMA12, MATRIX_WMMA12, 64, 128)

/* Experts: the linears of stacks (linear_prefill_matrix.hip). The columns are those of the
 * linears; a tile of a grouping has `rows` places. */
#ifndef Q4_PREFILL_MATRIX_EXPERTS
#define Q4_PREFILL_MATRIX_EXPERTS(name, images, kind, of_block, outs)                              \
    LINEAR(name, images, FOR_EXPERTS, THREADS, 0, 0, .phase = PHASE_PREFILL,                       \
           .format = FORMAT_Q4_F16, .rows = of_block, .outputs = outs)
#endif
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_mfma, MFMA, MATRIX_MFMA, 64, 128)
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_wmma, WMMA, MATRIX_WMMA, 64, 128)
Q4_PREFILL_MATRIX_EXPERTS(q4_experts_wmma12, WMMA12, MATRIX_WMMA12, 64, 128)

/* The CPU's order */
#ifndef EXACT_MATRIX /* exact_linear_matrix.hip */
#define EXACT_MATRIX(name, images, kind) KERNEL_ROW(name, images, FOR_EXACT, THREADS, 0, 0, 0, 0)
#endif
EXACT_MATRIX(exact_mfma, MFMA, MATRIX_MFMA)
EXACT_MATRIX(exact_wmma, WMMA, MATRIX_WMMA)
EXACT_MATRIX(exact_wmma12, WMMA12, MATRIX_WMMA12)
/* attend_matrix.hip; half: pages of fp16, else of integers; dims: of heads, 0: any */
#ifndef ATTEND_MATRIX
#define ATTEND_MATRIX(name, images, kind, threads, half, dims)                                     \
    KERNEL_ROW(name, images, (half) ? FOR_ATTEND : FOR_EXACT, threads, 0, 0, 0, 0)
#endif
ATTEND_MATRIX(exact_attend_mfma, MFMA, MATRIX_MFMA, 256, 0, 0)
ATTEND_MATRIX(exact_attend_mfma_64, MFMA, MATRIX_MFMA, 256, 0, 64)
ATTEND_MATRIX(exact_attend_mfma_128, MFMA, MATRIX_MFMA, 256, 0, 128)
ATTEND_MATRIX(exact_attend_wmma, WMMA, MATRIX_WMMA, 128, 0, 0)
ATTEND_MATRIX(exact_attend_wmma12, WMMA12, MATRIX_WMMA12, 128, 0, 0)
ATTEND_MATRIX(attend_mfma, MFMA, MATRIX_MFMA, 256, 1, 0)
ATTEND_MATRIX(attend_mfma_64, MFMA, MATRIX_MFMA, 256, 1, 64)
ATTEND_MATRIX(attend_mfma_128, MFMA, MATRIX_MFMA, 256, 1, 128)
ATTEND_MATRIX(attend_wmma, WMMA, MATRIX_WMMA, 128, 1, 0)
ATTEND_MATRIX(attend_wmma12, WMMA12, MATRIX_WMMA12, 128, 1, 0)

#undef Q4_PREFILL_MATRIX
#undef Q4_PREFILL_MATRIX_EXPERTS
#undef EXACT_MATRIX
#undef ATTEND_MATRIX
