#include "core/softmax.h"

#include <math.h>
#include <string.h>

/* Two doubles or four floats: what every x86-64 and arm64 has. */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t bits __attribute__((vector_size(16)));
typedef float quad __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

/* exp(k ln2 + r) = 2^k e^r with |r| <= ln2/2; e^r by its Taylor series to r^12, ln2 in two parts so that r is exact. Adding
 * 1.5 * 2^52 rounds to an integer, which then stands in the low bits. */
static inline pair exp_pair(pair x)
{
    const pair shift = {0x1.8p52, 0x1.8p52}, lowest = {-700, -700};
    bits low = x < lowest;
    x = (pair)(((bits)x & ~low) | ((bits)lowest & low));
    pair t = x * 0x1.71547652b82fep0 + shift, k = t - shift;
    pair r = x - k * 0x1.62e42feep-1 - k * 0x1.a39ef35793c76p-33;
    pair p = r * (1.0 / 479001600) + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return (pair)((bits)p + ((bits)t << 52));
}

double softmax_exp(double x) { return exp_pair((pair){x, x})[0]; }

/* m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh z, z = (m-1)/(m+1), by its series to z^23. */
double softmax_log(double x)
{
    int k;
    double m = frexp(x, &k);
    if (m < 0.70710678118654752) m *= 2, k--;
    double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
    for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * z2;
    return k * 0x1.62e42fefa39efp-1 + 2 * (z + z * sum);
}

double softmax_sum(const float *logits, int n, double max, double scale)
{
    pair sum[4] = {{0}}; /* 8 lanes: lane i adds logits i, i + 8, ... */
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 4; j++) sum[j] += exp_pair(((pair){logits[i + 2 * j], logits[i + 2 * j + 1]} - max) * scale);
    pair all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    double total = all[0] + all[1];
    for (; i < n; i++) total += softmax_exp((logits[i] - max) * scale);
    return total;
}

int softmax_largest(const float *logits, int n)
{
    quad most[4], nan[4] = {{0}};
    float max = -INFINITY;
    int i = 0, bad = 0;
    for (int j = 0; j < 4; j++) most[j] = (quad){-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 4; j++) {
            quad x;
            memcpy(&x, logits + i + 4 * j, sizeof x);
            nan[j] = (quad)((mask)nan[j] | (x != x));
            mask more = x > most[j];
            most[j] = (quad)(((mask)x & more) | ((mask)most[j] & ~more));
        }
    for (int j = 0; j < 16; j++) {
        bad |= ((mask)nan[j / 4])[j % 4] != 0;
        if (most[j / 4][j % 4] > max) max = most[j / 4][j % 4];
    }
    for (; i < n; i++) {
        bad |= logits[i] != logits[i];
        if (logits[i] > max) max = logits[i];
    }
    if (bad || !(fabsf(max) < INFINITY)) return -1;
    for (i = 0; logits[i] != max; i++) {
    }
    return i;
}

void softmax_top(const float *logits, int n, int k, int32_t *id)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (kept == k && (!k || !(logits[i] > logits[id[k - 1]]))) continue;
        int j = kept < k ? kept++ : k - 1;
        for (; j && logits[i] > logits[id[j - 1]]; j--) id[j] = id[j - 1];
        id[j] = i;
    }
}
