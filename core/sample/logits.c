#include "core/sample/logits.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* 128-bit vectors of x86-64 and arm64; sums over a vocabulary use AVX2 if available. */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t bits __attribute__((vector_size(16)));
typedef float quad __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

/* 2^(j/32) */
/* clang-format off */
static const double power[32] = {
    0x1p0, 0x1.059b0d3158574p0, 0x1.0b5586cf9890fp0, 0x1.11301d0125b51p0,
    0x1.172b83c7d517bp0, 0x1.1d4873168b9aap0, 0x1.2387a6e756238p0, 0x1.29e9df51fdee1p0,
    0x1.306fe0a31b715p0, 0x1.371a7373aa9cbp0, 0x1.3dea64c123422p0, 0x1.44e086061892dp0,
    0x1.4bfdad5362a27p0, 0x1.5342b569d4f82p0, 0x1.5ab07dd485429p0, 0x1.6247eb03a5585p0,
    0x1.6a09e667f3bcdp0, 0x1.71f75e8ec5f74p0, 0x1.7a11473eb0187p0, 0x1.82589994cce13p0,
    0x1.8ace5422aa0dbp0, 0x1.93737b0cdc5e5p0, 0x1.9c49182a3f09p0, 0x1.a5503b23e255dp0,
    0x1.ae89f995ad3adp0, 0x1.b7f76f2fb5e47p0, 0x1.c199bdd85529cp0, 0x1.cb720dcef9069p0,
    0x1.d5818dcfba487p0, 0x1.dfc97337b9b5fp0, 0x1.ea4afa2a490dap0, 0x1.f50765b6e454p0,
};
/* clang-format on */

/* exp(k ln2/32 + r) = 2^(k/32) e^r with |r| <= ln2/64 (Tang 1989); e^r - 1 by its Taylor series to
 * r^5. ln2/32 is split into two constants so that r is exact. Adding 1.5 * 2^52 rounds to an
 * integer in the low bits: five of them index the table, the others are the exponent. */
static inline pair exp_pair(pair x)
{
    const pair shift = {0x1.8p52, 0x1.8p52}, lowest = {-700, -700};
    bits low = x < lowest;
    x = (pair)(((bits)x & ~low) | ((bits)lowest & low));
    pair t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
    pair r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
    pair p = r * (1.0 / 120) + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r;
    pair from = {power[((bits)t)[0] & 31], power[((bits)t)[1] & 31]};
    return (pair)((bits)(from + from * p) + (((bits)t & ~31LL) << 47));
}

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
typedef double four __attribute__((vector_size(32)));
typedef int64_t four_bits __attribute__((vector_size(32)));

/* The operations of sum_pairs on four lanes at once: 1.7 times as fast. */
__attribute__((target("avx2"))) static double sum_fours(const float *logits, int n, double max,
                                                        double scale)
{
    const four shift = {0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52}, lowest = {-700, -700, -700, -700};
    four sum[2] = {{0}};
    for (int i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 2; j++) {
            quad f;
            memcpy(&f, logits + i + 4 * j, sizeof f);
            four x = (__builtin_convertvector(f, four) - max) * scale;
            four_bits low = x < lowest;
            x = (four)(((four_bits)x & ~low) | ((four_bits)lowest & low));
            four t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
            four r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
            four p = r * (1.0 / 120) + 1.0 / 24;
            p = p * r + 1.0 / 6;
            p = p * r + 0.5;
            p = p * r * r + r;
            four_bits at = (four_bits)t & 31;
            four from = {power[at[0]], power[at[1]], power[at[2]], power[at[3]]};
            sum[j] += (four)((four_bits)(from + from * p) + (((four_bits)t & ~31LL) << 47));
        }
    double even = (sum[0][0] + sum[0][2]) + (sum[1][0] + sum[1][2]),
           odd = (sum[0][1] + sum[0][3]) + (sum[1][1] + sum[1][3]);
    return even + odd;
}
#endif

#if defined(__x86_64__)
typedef double eight __attribute__((vector_size(64)));
typedef int64_t eight_bits __attribute__((vector_size(64)));

/* The operations of sum_pairs on all eight lanes. The table is gathered. */
__attribute__((target("avx512f,avx512dq"))) static double sum_eights(const float *logits, int n,
                                                                     double max, double scale)
{
    const eight shift = {0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52,
                         0x1.8p52, 0x1.8p52, 0x1.8p52, 0x1.8p52},
                lowest = {-700, -700, -700, -700, -700, -700, -700, -700};
    eight sum = {0};
    for (int i = 0; i + 8 <= n; i += 8) {
        eight x = (eight)_mm512_cvtps_pd(_mm256_loadu_ps(logits + i));
        x = (x - max) * scale;
        x = (eight)_mm512_max_pd((__m512d)lowest, (__m512d)x); /* the second operand if NaN */
        eight t = x * 0x1.71547652b82fep5 + shift, k = t - shift;
        eight r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
        eight p = r * (1.0 / 120) + 1.0 / 24;
        p = p * r + 1.0 / 6;
        p = p * r + 0.5;
        p = p * r * r + r;
        __m512i at = _mm512_and_epi64((__m512i)t, _mm512_set1_epi64(31));
        eight from = (eight)_mm512_i64gather_pd(at, power, 8);
        sum += (eight)((eight_bits)(from + from * p) + (((eight_bits)t & ~31LL) << 47));
    }
    return ((sum[0] + sum[2]) + (sum[4] + sum[6])) + ((sum[1] + sum[3]) + (sum[5] + sum[7]));
}
#endif

static int has_lanes(int lanes)
{
#if defined(__x86_64__)
    if (lanes == 8) return __builtin_cpu_supports("avx512dq") != 0;
    if (lanes == 4) return __builtin_cpu_supports("avx2") != 0;
#endif
    return lanes == 2;
}

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
    if (!has_lanes(lanes)) return NAN;
    double total = sum_whole(lanes, logits, n, max, scale);
    for (int i = n / 8 * 8; i < n; i++) total += logits_exp((logits[i] - max) * scale);
    return total;
}

double logits_sum_exp(const float *logits, int n, double max, double scale)
{
    int lanes = has_lanes(8) ? 8 : has_lanes(4) ? 4 : 2;
    return logits_sum_exp_by(lanes, logits, n, max, scale);
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
