/* hip.h: the backend for AMD GPUs (HIP) and NVIDIA GPUs (CUDA's driver), through a library found at run time. */
#ifndef BACKEND_HIP_HIP_H
#define BACKEND_HIP_HIP_H

#include "core/backend.h"

extern const struct backend backend_hip;

/* Names for be_config.variant: "auto", then every row of the table of production kernels for linears; NULL after the
 * last. All give the same bits. */
const char *hip_variant_name(int i);
/* Those of the paper's ablation, which can be pinned as well: packed-half sums, atomics; NULL after the last. */
const char *hip_paper_variant_name(int i);
/* Architectures that kernels are embedded for; NULL after the last. None when the build had no compiler for them. */
const char *hip_image_name(int i);

/* 0 when a device can run the embedded kernels; library NULL: the known names. */
int hip_probe(const char *library, int device, struct err *e);
/* Prints one line for each device to stdout. */
int hip_list_devices(const char *library, struct err *e);

#endif
