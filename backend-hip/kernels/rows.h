/* rows.h: what a list of kernels makes of its rows unless its includer says otherwise: nothing. No
 * include guard, as the lists (kernel_list.h). */
#ifndef KERNEL_ROW
#define KERNEL_ROW(...)
#endif
#ifndef LINEAR
#define LINEAR(name, images, op, threads, blocks, shared, ...)                                     \
    KERNEL_ROW(name, images, op, threads, blocks, shared, 0, 0)
#endif
