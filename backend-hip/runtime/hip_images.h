/* hip_images.h: the compiled kernels that are part of this binary, and their sources. */
#ifndef BACKEND_HIP_HIP_IMAGES_H
#define BACKEND_HIP_HIP_IMAGES_H

#include "core/base/err.h"

/* A code object, or the text of a PTX module: part `nth` of the zstd stream from data up to end,
 * which holds several, each behind a line with its size and crc32. */
struct hip_image {
    const char *arch; /* "gfx906", .. "gfx11-generic", .. or "sm_70" */
    const unsigned char *data, *end;
    int is_ptx, nth;
};

/* ends with a NULL arch; empty when built without a compiler for kernels */
extern const struct hip_image hip_images[];
/* All files of kernels/ as "name\0text\0"; data is NULL when built without them. */
extern const struct hip_image hip_kernel_sources;

/* The unpacked image with a zero byte after it, to be freed; NULL and e: damaged, no memory. */
void *hip_image_unpack(const struct hip_image *image, struct err *e);

#endif
