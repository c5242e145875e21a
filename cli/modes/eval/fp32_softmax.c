#include "cli/modes/eval/fp32_softmax.h"

#include "core/sample/logits.h"

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t integers __attribute__((vector_size(LANES * sizeof(int32_t))));

/* exp(x) for x <= 0, to about one unit in the last place; 0 below -87. */
static void exponentials(lanes *x)
{
    const float to_integer = 12582912; /* 1.5 * 2^23 */
    lanes n = *x * 1.442695041f + to_integer;
    n -= to_integer;
    lanes r = *x - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    integers bits = (integers)p + (__builtin_convertvector(n, integers) << 23);
    *x = (lanes)(bits & (*x > -87.0f));
}

/* Lanes i and i + 8, then i and i + 4, and so on. */
static float folded(const lanes *v)
{
    float sum[LANES];
    memcpy(sum, v, sizeof sum);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

float fp32_softmax_log_sum(const float *logits, int n, float max)
{
    lanes sum = {0}, x = {0};
    for (int i = 0; i < n; i += LANES) {
        int m = n - i < LANES ? n - i : LANES;
        memcpy(&x, logits + i, (size_t)m * sizeof *logits);
        x -= max;
        for (int k = m; k < LANES; k++) x[k] = -1000;
        exponentials(&x);
        sum += x;
    }
    return (float)logits_log(folded(&sum));
}
