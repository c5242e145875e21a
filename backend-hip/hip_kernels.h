/* hip_kernels.h: the table of kernels, kernels/kernel_list.h as the host reads it. Owns: what is
 * known of a kernel before a device is opened. Must not know: devices, launches. */
#ifndef BACKEND_HIP_HIP_KERNELS_H
#define BACKEND_HIP_HIP_KERNELS_H

#include "backend-hip/kernels/common/args.h"
#include "backend-hip/kernels/common/images.h"
#include "core/base/err.h"

#include <stddef.h>

enum hip_kernel {
#define KERNEL_ROW(name, ...) K_##name,
#include "backend-hip/kernels/kernel_list.h"
    K_COUNT
};

/* A row of kernel_list.h, which explains the columns. From phase on only linears have them: all
 * that share format and phase and are in one image give the same bits, or the choice among them by
 * the number of rows would not be allowed. All that take the same linears and hold as many rows
 * have the same tile: activations are prepared before it is known which of them runs. Kernels of
 * FORMAT_PAPER run only when pinned, then for both phases, and promise nothing about bits. */
struct hip_kernel_row {
    const char *name;
    int images; /* set of families (images.h) */
    enum kernel_op op;
    unsigned threads, blocks, shared, spread;
    int pieces;
    enum linear_phase phase;
    enum linear_format format;
    int rows, outputs; /* of one block; rows 0: not a linear */
    int inputs;        /* of one block, 0: all */
    int persistent;    /* `blocks` blocks for each multiprocessor take all outputs in turn */
    int tile; /* not 0: takes activations in tiles of so many rows, and all tiles in turn */
    enum linear_set linears;
    int slower;      /* percent, than others of its phase for the same outputs and rows */
    int in_clusters; /* CLUSTER blocks compute a tile together */
};

extern const struct hip_kernel_row hip_kernels[K_COUNT];

/* The family (images.h) of an image for ARCH: "sm_90a", "gfx942", "gfx1101:xnack-". */
int hip_image_family(const char *arch);
/* The linear kernel that --variant NAME pins, -1 for "auto" and NULL, which pin none. Unknown: an
 * error that lists the names of the images' kernels. 0 or -1. */
int hip_find_variant(const char *name, int images, int *k, struct err *e);
/* The names of the linear kernels that are in one of the images, those that differ in the last word
 * together: "auto, q4_mma_decode_{8,16}, ...". Returns the length of the whole list, which is cut
 * where it does not fit into text [size]. */
size_t hip_variant_names(int images, char *text, size_t size);

#endif
