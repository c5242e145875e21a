/* args.h of paper/: what the paper's kernels share with the host. Codes are [k / 8][outputs padded
 * to 16] words, meta [group][the same] words. */
#ifndef KERNELS_PAPER_ARGS_H
#define KERNELS_PAPER_ARGS_H

#include "backend-hip/kernels/common/args.h"

/* Inputs of a k-slice; a thread has 4 outputs. */
enum { PAPER_THREADS = 128, PAPER_INPUTS = 128, SMB_SLICES = 4 };
#define PAPER_SLICES(smb) ((smb) ? SMB_SLICES : 1)
#define PAPER_OUTPUTS(smb) (4 * PAPER_THREADS / PAPER_SLICES(smb))

struct paper_args {
    const void *weight; /* [k/8][stride] words of 8 codes */
    const void *meta;   /* [k/group][stride] words: scale, zero point << 16 */
    const void *x;      /* [rows][k] fp16 */
    const float *scale; /* [rows] */
    void *y;            /* [rows][stride] fp16, to which results are added */
    int rows, k, stride, group;
};

struct paper_result_args {
    const void *sums; /* [rows][stride] fp16 */
    const float *bias;
    float *y; /* [rows][out] */
    int rows, out, stride;
};

#endif
