#include "engine/embedding.h"

#include "core/sample/logits.h"

#include <math.h>

static double largest(const double *x, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fabs(x[i]) > most ? fabs(x[i]) : most;
    return most;
}

static double power(double x, int p)
{
    double y = 1;
    for (; p > 0; p--) y *= x;
    return y;
}

/* What x [n] is divided by. Of p-norms the elements are scaled first, so that no power overflows.
 */
static double norm_of(const double *x, int n, int p)
{
    double most = largest(x, n), sum = 0;
    if (p < 0) return 1;
    if (p == 0) return most / 32760;
    if (most == 0) return 0;
    for (int i = 0; i < n; i++) sum += power(fabs(x[i]) / most, p);
    return most * (p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1.0 / p));
}

int embedding_make(const double *sum, int n, int n_rows, int norm, float *v)
{
    double by = norm_of(sum, n, norm);
    if (norm < 0) by = n_rows; /* any other norm takes out the number of rows */
    for (int i = 0; i < n; i++) {
        v[i] = (float)(by > 0 ? sum[i] / by : 0);
        if (!isfinite(sum[i]) || !isfinite(v[i])) return -1;
    }
    return 0;
}

double embedding_cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

double embedding_share(float yes, float no)
{
    double d = (double)yes - no, x = logits_exp(-fabs(d));
    return d >= 0 ? 1 / (1 + x) : x / (1 + x);
}
