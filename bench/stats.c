#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct stats stats_of(double *v, int n)
{
    double sum = 0, squares = 0;
    qsort(v, (size_t)n, sizeof *v, by_value);
    for (int i = 0; i < n; i++) sum += v[i];
    double mean = sum / n;
    for (int i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    return (struct stats){n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v[0], v[n - 1], mean,
                          n > 1 ? sqrt(squares / (n - 1)) : 0};
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double stats_wall(void) { return seconds(CLOCK_MONOTONIC); }

double stats_cpu(void) { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

double stats_thread_cpu(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }
