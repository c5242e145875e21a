/* hip.h: the backend for AMD GPUs (HIP) and NVIDIA GPUs (CUDA's driver), through a library found at
 * run time. */
#ifndef BACKEND_HIP_HIP_H
#define BACKEND_HIP_HIP_H

#include "core/step/backend.h"

#include <stdio.h>

extern const struct backend backend_hip;

/* Names for be_config.variant: "auto", then every row of the table of production kernels for
 * linears; NULL after the last. All give the same bits. */
const char *hip_variant_name(int i);
/* Those of the paper's ablation, which can be pinned as well: packed-half sums, atomics; NULL after
 * the last. */
const char *hip_paper_variant_name(int i);
/* Names of the patterns of operations that one launch serves (hip_fuse.c); NULL after the last. */
const char *hip_pattern_name(int i);
/* Launches of pattern i on an open backend; those replayed from a graph are not counted. */
long hip_pattern_count(const struct be *be, int i);
/* Whether the open backend's device and variant have the kernels of pattern i. */
int hip_has_pattern(const struct be *be, int i);
/* Architectures that kernels are embedded for; NULL after the last. None when the build had no
 * compiler for them. */
const char *hip_image_name(int i);

/* 0 when a device can run the embedded kernels; library NULL: the known names. */
int hip_probe(const char *library, int device, struct err *e);
/* Prints the kernels for linears that an open backend chooses from, one a line. */
void hip_print_variants(const struct be *be, FILE *f);
/* The name of the device that an open backend computes on. */
const char *hip_device_name(const struct be *be);
/* Prints one line for each device to stdout. */
int hip_list_devices(const char *library, struct err *e);

/* For opt4gptq-bench, on an open backend. */
/* Another variant of the paper, where it was opened with one: they share the layout of the weights.
 */
int hip_pin(struct be *be, const char *variant, struct err *e);
/* Seconds of one launch of the pinned variant's kernel alone: the mean of one for each of w[0..n),
 * on the inputs that the last call of `linear` prepared, which must have had as many rows. Results
 * are dropped. */
int hip_time_paper(struct be *be, int n, const struct be_linear *const w[], int rows,
                   double *seconds, struct err *e);
/* Bytes a second of copies within the device's memory, those read and those written; best of
 * several. */
int hip_copy_rate(struct be *be, double *rate, struct err *e);
/* gfx906's table of kernels from the disassembly, as scripts/kernel-table --tsv prints it; "" when
 * it could not be made. */
extern const char hip_kernel_table[];

#endif
