/* stats.h: clocks, and what is said of some repeated measurements. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

struct stats {
    double median, lowest, highest, mean,
        deviation; /* deviation: of the sample, n - 1; 0 of one value */
};

/* Of n >= 1 values, which are sorted. */
struct stats stats_of(double *v, int n);
/* Seconds of the wall clock; of processor time used by all threads of this process; by the calling
 * thread. */
double stats_wall(void);
double stats_cpu(void);
double stats_thread_cpu(void);

#endif
