/* args.h of amd/: what the kernels for AMD's matrix instructions share with the host. */
#ifndef KERNELS_AMD_ARGS_H
#define KERNELS_AMD_ARGS_H

/* exact_linear_matrix.hip: rows and panels of a block */
enum { EXACT_MATRIX_ROWS = 64, EXACT_MATRIX_PANELS = 8 };
/* attend_matrix.hip: matrix rows of a block (rows times query heads), a divisor of GROUP_ROWS;
 * dimensions of a head over pages of fp16, at most */
enum { ATTEND_MATRIX_ROWS = 16, ATTEND_HALVES_DIM = 128 };

#endif
