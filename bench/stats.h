/* stats.h: the statistics of repeated measurements. Must not know: what was measured. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

struct stats {
    double median, lowest, highest, mean;
    double deviation; /* of the sample (n - 1); 0 for one value */
};

/* Sorts v[n], n >= 1. */
struct stats stats_of(double *v, int n);

#endif
