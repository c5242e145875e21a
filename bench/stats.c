#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

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
