/* hip_images.h: the compiled kernels that are part of this binary. */
#ifndef BACKEND_HIP_HIP_IMAGES_H
#define BACKEND_HIP_HIP_IMAGES_H

#include <stddef.h>

struct hip_image {
    const char *arch;          /* "gfx906", .. or "sm_70" */
    const unsigned char *data; /* a code object, or the text of a PTX module with its NUL */
    int is_ptx;
};

/* All files of kernels/ as "name\0text\0", then an empty name. */
extern const char hip_kernel_sources[];
/* ends with a NULL arch; empty when built without a compiler for kernels */
extern const struct hip_image hip_images[];

#endif
