#include "core/sample/logits.h"
#include "core/sample/exp_lanes.h"

#include <math.h>
#include <string.h>

double logits_exp(double x) { return exp_pair((pair){x, x})[0]; }

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh z, z = (m-1)/(m+1), by its series to
 * z^23. */
double logits_log(double x)
{
    int k;
    double m = frexp(x, &k);
    if (m < 0.70710678118654752) m *= 2, k--;
    double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
    for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * z2;
    return k * 0x1.62e42fefa39efp-1 + 2 * (z + z * sum);
}

/* 8 lanes: lane i adds logits i, i + 8, ... */
static double sum_pairs(const float *logits, int n, double max, double scale)
{
    pair sum[4] = {{0}};
    for (int i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 4; j++)
            sum[j] += exp_pair(((pair){logits[i + 2 * j], logits[i + 2 * j + 1]} - max) * scale);
    pair all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return all[0] + all[1];
}

#if defined(__x86_64__)
/* The operations of sum_pairs on four lanes at once: 1.7 times as fast. */
__attribute__((target("avx2"))) static double sum_fours(const float *logits, int n, double max,
                                                        double scale)
{
    four sum[2] = {{0}};
    for (int i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 2; j++)
            sum[j] += exp_four((load_four(logits + i + 4 * j) - max) * scale);
    double even = (sum[0][0] + sum[0][2]) + (sum[1][0] + sum[1][2]),
           odd = (sum[0][1] + sum[0][3]) + (sum[1][1] + sum[1][3]);
    return even + odd;
}

/* The operations of sum_pairs on all eight lanes. */
__attribute__((target("avx512f,avx512dq"))) static double sum_eights(const float *logits, int n,
                                                                     double max, double scale)
{
    eight sum = {0};
    for (int i = 0; i + 8 <= n; i += 8) sum += exp_eight((load_eight(logits + i) - max) * scale);
    return ((sum[0] + sum[2]) + (sum[4] + sum[6])) + ((sum[1] + sum[3]) + (sum[5] + sum[7]));
}
#endif

static double sum_whole(int lanes, const float *logits, int n, double max, double scale)
{
#if defined(__x86_64__)
    if (lanes == 8) return sum_eights(logits, n, max, scale);
    if (lanes == 4) return sum_fours(logits, n, max, scale);
#endif
    (void)lanes;
    return sum_pairs(logits, n, max, scale);
}

double logits_sum_exp_by(int lanes, const float *logits, int n, double max, double scale)
{
    if (!logits_has_lanes(lanes)) return NAN;
    double total = sum_whole(lanes, logits, n, max, scale);
    for (int i = n / 8 * 8; i < n; i++) total += logits_exp((logits[i] - max) * scale);
    return total;
}

double logits_sum_exp(const float *logits, int n, double max, double scale)
{
    return logits_sum_exp_by(logits_lanes(), logits, n, max, scale);
}

int logits_argmax(const float *logits, int n)
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

int logits_argmax_in(const float *logits, int n, const uint32_t *set)
{
    float max = -INFINITY;
    int bad = 0;
    for (int i = 0; i < n; i += 32) {
        uint32_t word = set[i / 32];
        if (word == UINT32_MAX && i + 32 <= n) {
            quad most = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, nan = {0};
            for (int k = i; k < i + 32; k += 4) {
                quad x;
                memcpy(&x, logits + k, sizeof x);
                nan = (quad)((mask)nan | (x != x));
                mask more = x > most;
                most = (quad)(((mask)x & more) | ((mask)most & ~more));
            }
            for (int k = 0; k < 4; k++) {
                bad |= ((mask)nan)[k] != 0;
                if (most[k] > max) max = most[k];
            }
            continue;
        }
        for (; word; word &= word - 1) {
            int k = i + __builtin_ctz(word);
            if (k >= n) break;
            bad |= logits[k] != logits[k];
            if (logits[k] > max) max = logits[k];
        }
    }
    if (bad || !(fabsf(max) < INFINITY)) return -1;
    for (int i = 0;; i++) {
        if (!(i % 32))
            while (!set[i / 32]) i += 32; /* max is somewhere */
        if (logits[i] == max && set[i / 32] >> i % 32 & 1) return i;
    }
}

static void mask_word(const float *logits, uint32_t word, float *out)
{
    const mask lane = {1, 2, 4, 8};
    const quad least = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int i = 0; i < 32; i += 4, word >>= 4) {
        int32_t low = (int32_t)(word & 15);
        quad x;
        memcpy(&x, logits + i, sizeof x);
        mask keep = ((mask){low, low, low, low} & lane) != 0;
        x = (quad)(((mask)x & keep) | ((mask)least & ~keep));
        memcpy(out + i, &x, sizeof x);
    }
}

void logits_mask(const float *logits, int n, const uint32_t *set, float *out)
{
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        if (set[i / 32] == UINT32_MAX) memcpy(out + i, logits + i, 32 * sizeof *out);
        else mask_word(logits + i, set[i / 32], out + i);
    }
    for (; i < n; i++) out[i] = set[i / 32] >> i % 32 & 1 ? logits[i] : -INFINITY;
}

int logits_next_above(const float *logits, int i, int n, float low)
{
    for (; i + 16 <= n; i += 16) {
        mask more = {0};
        for (int j = 0; j < 4; j++) {
            quad x;
            memcpy(&x, logits + i + 4 * j, sizeof x);
            more |= x > low;
        }
        if (more[0] | more[1] | more[2] | more[3]) break;
    }
    while (i < n && !(logits[i] > low)) i++;
    return i;
}

void logits_top(const float *logits, int n, int k, int32_t *id)
{
    int kept = 0;
    float worst = k ? -INFINITY : INFINITY; /* the least of k kept logits */
    for (int i = 0; i < n; i++) {
        if (kept == k && (i = logits_next_above(logits, i, n, worst)) == n) return;
        int j = kept < k ? kept++ : k - 1;
        for (; j && logits[i] > logits[id[j - 1]]; j--) id[j] = id[j - 1];
        id[j] = i;
        if (kept == k) worst = logits[id[k - 1]];
    }
}
