/* hip.h: the backend for AMD GPUs (HIP) and NVIDIA GPUs (CUDA's driver), through a library found at
 * run time. */
#ifndef BACKEND_HIP_HIP_H
#define BACKEND_HIP_HIP_H

#include "core/step/backend.h"

#include <stdio.h>

extern const struct backend backend_hip;

/* Through which memory linked devices exchange rows: each other's, or the host's. */
enum hip_exchange { HIP_EXCHANGE_AUTO, HIP_EXCHANGE_PEER, HIP_EXCHANGE_HOST };

/* Its own options (be_config.own). As text: "wait=SECONDS halves=N exchange=N library=PATH" in any
 * order, each once or not at all; PATH is all that follows. */
struct hip_options {
    int wait_seconds; /* a wait for the device that lasts longer is a failure; 0: 120 */
    int query_halves; /* ACT_F16: fp16 parts of a query in the attention of prompts; 1 or, 0 too,
                         2 */
    enum hip_exchange exchange;
    const char *library; /* path of the runtime library; NULL: the first known one found */
};
enum { HIP_OPTIONS_BYTES = 512 }; /* room for the text: longer paths than fit are refused anyway */
void hip_options_write(const struct hip_options *o, char *out, size_t cap);
/* Strings of *o are parts of the text. */
int hip_options_read(struct hip_options *o, const char *text, struct err *e);

/* Number i of the names for be_config.variant: "auto", then the production kernels for linears,
 * which all give the same bits; NULL after the last. */
const char *hip_variant_name(int i);
/* Number i of the paper's kernels, which can be pinned, too (sums in packed halves, atomics); NULL
 * after the last. */
const char *hip_paper_variant_name(int i);
/* Name of fusion pattern i (hip_patterns.c); NULL after the last. */
const char *hip_pattern_name(int i);
/* Launches of pattern i on an open backend; those replayed from a graph are not counted. */
long hip_pattern_count(const struct be *be, int i);
/* Whether the open backend's device and variant have the kernels of pattern i, and the links. */
int hip_has_pattern(const struct be *be, int i);
/* Architecture i that kernels are embedded for; NULL after the last. None in a build without a
 * compiler for kernels. */
const char *hip_image_name(int i);

/* 0 if a device can run the embedded kernels. library NULL: the first known name that opens. */
int hip_probe(const char *library, int device, struct err *e);
/* The arithmetic that this device computes fastest, of those whose error is at most that of fp16
 * activations: i16 on gfx906, by the counts and the model of docs/same-bits.md, f16 elsewhere and
 * with a pinned variant, whose weights are laid out for f16. */
enum act hip_best_act(const char *library, int device, const char *variant);
/* Prints the kernels for linears that an open backend chooses among, one a line. */
void hip_print_variants(const struct be *be, FILE *f);
/* The name of the device that an open backend computes on. */
const char *hip_device_name(const struct be *be);
int hip_count_devices(const char *library, int *n, struct err *e);
/* Prints one line for each device to stdout. */
int hip_list_devices(const char *library, struct err *e);

/* For opt4gptq-bench, on an open backend. */
/* Pins another of the paper's kernels; the backend was opened with one, because they share the
 * layout of the weights. */
int hip_pin(struct be *be, const char *variant, struct err *e);
/* *seconds: mean time of one launch of the pinned kernel over w[0..n), on the inputs that the last
 * linear prepared, of as many rows. Results are dropped. */
int hip_time_paper(struct be *be, int n, const struct be_linear *const w[], int rows,
                   double *seconds, struct err *e);
/* *rate: bytes per second of copies within the device's memory, read and written, best of
 * several. */
int hip_copy_rate(struct be *be, double *rate, struct err *e);
/* gfx906's table of kernels by disassembly, the output of scripts/kernel-table --tsv; "" in a build
 * without it. */
extern const char hip_kernel_table[];

#endif
