/* probe.h: what this machine can do at most, measured: reading memory, fp32 multiply-adds, int8 dot
 * products. The peaks are those of plain instructions on registers; each instruction set has its
 * own. Must not know: models, operations. */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include "core/base/err.h"

#include <stddef.h>

enum probe_kind { PROBE_FP32, PROBE_INT8 };

/* One instruction set's peak. */
struct probe_peak {
    const char *isa;
    enum probe_kind kind;
    int (*usable)(void);
    double (*run)(
        long iterations); /* returns operations done: a multiplication and an addition are two */
};

/* Ends with a NULL isa. Slower ones first within a kind. */
extern const struct probe_peak probe_peaks[];

/* Operations per second of n_threads at once, best of several. */
int probe_peak_rate(const struct probe_peak *p, int n_threads, double *rate, struct err *e);
/* Bytes per second that n_threads read from a buffer beyond the last-level cache: best of several
 * passes, of two sizes, of plain and of huge pages. *buffer_bytes is the size that was best. */
int probe_bandwidth(int n_threads, double *rate, size_t *buffer_bytes, struct err *e);
/* Bytes of the last-level cache as the system tells; 32 MiB where it does not. */
size_t probe_cache_bytes(void);

/* The peaks that a variant of the CPU ladder can reach with its own instructions. */
struct probe_limits {
    const char *variant;
    int n_threads;
    double bandwidth, fp32, int8; /* per second */
};
/* A bandwidth above 0 in *l is taken as known: it is that of the threads, whatever their
 * instructions. */
int probe_limits_measure(struct probe_limits *l, const char *variant, int n_threads, struct err *e);

#endif
