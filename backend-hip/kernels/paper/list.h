/* list.h of paper/: the kernels of Opt4GPTQ (columns: kernel_list.h). */
#include "backend-hip/kernels/rows.h"

/* 4-bit linears (linear_paper.hip); smb, vml, ila: the paper's optimizations. A family, PAPER_ROWS,
 * has a kernel for each number of rows of a block from 1 to 8, in this order (hip_launch_paper). */
#ifndef PAPER
#define PAPER(name, images, of_block, smb, vml, ila)                                               \
    LINEAR(name, images, FOR_PAPER, PAPER_THREADS, 0, 0, .phase = PHASE_DECODE,                    \
           .format = FORMAT_PAPER, .rows = of_block, .outputs = PAPER_OUTPUTS(smb),                \
           .inputs = PAPER_INPUTS * PAPER_SLICES(smb))
#endif
#define PAPER_ROWS(name, images, smb, vml, ila)                                                    \
    PAPER(name##_1, images, 1, smb, vml, ila)                                                      \
    PAPER(name##_2, images, 2, smb, vml, ila)                                                      \
    PAPER(name##_3, images, 3, smb, vml, ila)                                                      \
    PAPER(name##_4, images, 4, smb, vml, ila)                                                      \
    PAPER(name##_5, images, 5, smb, vml, ila)                                                      \
    PAPER(name##_6, images, 6, smb, vml, ila)                                                      \
    PAPER(name##_7, images, 7, smb, vml, ila)                                                      \
    PAPER(name##_8, images, 8, smb, vml, ila)
PAPER_ROWS(paper_base, ABLATION, 0, VML_NONE, ILA_NONE)
PAPER_ROWS(paper_smb, ABLATION, 1, VML_NONE, ILA_NONE)
PAPER_ROWS(paper_vml_half2, ABLATION, 0, VML_HALF2, ILA_NONE)
PAPER_ROWS(paper_vml_wide, ABLATION, 0, VML_WIDE, ILA_NONE)
PAPER_ROWS(paper_ila_literal, ABLATION, 0, VML_NONE, ILA_LITERAL)
PAPER_ROWS(paper_ila_packed, ABLATION, 0, VML_NONE, ILA_PACKED)
PAPER_ROWS(paper_all_literal, ABLATION, 1, VML_HALF2, ILA_LITERAL)
PAPER_ROWS(paper_all_packed, ABLATION, 1, VML_WIDE, ILA_PACKED)
KERNEL_ROW(paper_result, ABLATION, FOR_PAPER, THREADS, 0, 0, 0, 0)

#undef PAPER
#undef PAPER_ROWS
