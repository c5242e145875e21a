/* stats.h: clocks, and what is said of some repeated measurements. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

struct stats {
    double median, lowest, highest, mean, deviation; /* deviation: of the sample, n - 1; 0 of one value */
};

/* Of n >= 1 values, which are sorted. */
struct stats stats_of(double *v, int n);
/* Seconds of the wall clock, and of processor time used by all threads of this process. */
double stats_wall(void);
double stats_cpu(void);

#endif
