/* kernel_list.h: every kernel, one row each, in the list.h of the folder that has its file. Read by
 * host and device: the device instantiates a template from each row, the host has its table of
 * kernels (hip_kernels.c), scripts/kernel-table reads the text. No include guards: the includer
 * defines the macros that it needs; a list undefines those of its families at its end, this file the
 * other two. A row begins with
 *   name     the kernel's; enum hip_kernel has K_name, and --variant takes names of linears
 *   images   that have it, one of the sets of images.h; others must not have it
 * A family of linears has a macro whose columns are the template's constants. A macro that the
 * includer does not define becomes LINEAR(name, images, op, threads, blocks, shared, ...), with the
 * further members of struct hip_kernel_row; macros of other families, and LINEAR if it is not
 * defined either (rows.h), become
 *   KERNEL_ROW(name, images, op, threads, blocks, shared, pieces, spread)
 *   op       enum kernel_op
 *   threads  of a block
 *   blocks   that a multiprocessor of NVIDIA's must hold (occupancy), 0: left to the compiler
 *   shared   bytes of dynamic shared memory
 *   pieces   PIECE elements each, of the longest row that a block keeps in registers; 0: no limit
 *   spread   bytes of dynamic shared memory with which a multiprocessor takes one block only
 * Of linears that are equally good the first is taken: those of the chips with more instructions
 * come first. */
#include "backend-hip/kernels/hopper/list.h"

#include "backend-hip/kernels/nvidia/list.h"

#include "backend-hip/kernels/amd/list.h"

#include "backend-hip/kernels/common/list.h"

#include "backend-hip/kernels/paper/list.h"

#undef KERNEL_ROW
#undef LINEAR
