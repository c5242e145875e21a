/* hip_kernels.h: the table of kernels, the host's reading of kernels/kernel_list.h. Owns: the
 * constants of every kernel. Must not know: devices, launches. */
#ifndef BACKEND_HIP_HIP_KERNELS_H
#define BACKEND_HIP_HIP_KERNELS_H

#include "backend-hip/kernels/args.h"
#include "backend-hip/kernels/common/images.h"
#include "core/base/err.h"

#include <stddef.h>

enum hip_kernel {
#define KERNEL_ROW(name, ...) K_##name,
#include "backend-hip/kernels/kernel_list.h"
    K_COUNT
};

/* A row of kernel_list.h, which explains the columns. Members from phase on are set for linears
 * only. Linears of one format and phase in one image give the same bits, so that the choice among
 * them may depend on the number of rows. Those that also take the same linears and hold as many
 * rows have the same tile, because activations are prepared before the choice between them matters.
 * Kernels of FORMAT_PAPER run only when pinned, for both phases, and promise nothing about bits. */
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
    int persistent;    /* a persistent kernel: `blocks` blocks for each multiprocessor take
                          output tiles in turn */
    int tile; /* not 0: takes activations in tiles of so many rows, and the grid includes row
                 tiles */
    enum linear_set linears;
    int slower;      /* percent, against others of its phase for the same outputs and rows */
    int few;         /* for few outputs and up to FEW_INPUTS inputs */
    int gathers;     /* FOR_EXPERTS: takes inputs by row, and finds each slot's row */
    int dealt;       /* blocks take eighths of tiles (hopper/linear_dealt_wgmma.hip); more than 1:
                        so many blocks share a tile, of few */
    int in_clusters; /* blocks of a cluster, which computes a tile; 0: no clusters */
};

extern const struct hip_kernel_row hip_kernels[K_COUNT];

/* The family (images.h) of an image for ARCH: "sm_90a", "gfx942", "gfx1101:xnack-". */
int hip_image_family(const char *arch);
/* *k: the linear kernel that --variant NAME pins; -1 for "auto" and NULL. An unknown name is an
 * error that lists the kernels of the images. 0 or -1. */
int hip_find_variant(const char *name, int images, int *k, struct err *e);
/* Writes the names of the linear kernels in the images to text [size], those that differ in the
 * last word together: "auto, q4_mma_decode_{8,16}, ... paper_{base,smb}_{1..8}", cut where they
 * do not fit. Returns the length of the whole list. */
size_t hip_variant_names(int images, char *text, size_t size);

#endif
