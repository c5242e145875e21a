#include "core/step/sincos.h"

#include <stdint.h>

/* Cody-Waite reduction by pi/2 in three constants (the first two have 28 bits, so that n times
 * either is exact up to n = 2^25), then Taylor polynomials on |r| <= pi/4, whose first omitted
 * terms are below 2^-46. */
void step_sincos(float angle, float *s, float *c)
{
    const double hi = 0x1.921fb54p+0, mid = 0x1.10b461p-30, lo = 0x1.a62633145c06ep-58;
    double x = angle;
    double n = x * 0x1.45f306dc9c883p-1 + 0x1.8p52 - 0x1.8p52;
    double r = ((x - n * hi) - n * mid) - n * lo, r2 = r * r;
    double sr = -1.0 / 1307674368000.0;
    sr = sr * r2 + 1.0 / 6227020800.0;
    sr = sr * r2 - 1.0 / 39916800.0;
    sr = sr * r2 + 1.0 / 362880.0;
    sr = sr * r2 - 1.0 / 5040.0;
    sr = sr * r2 + 1.0 / 120.0;
    sr = sr * r2 - 1.0 / 6.0;
    sr = sr * r2 * r + r;
    double cr = 1.0 / 20922789888000.0;
    cr = cr * r2 - 1.0 / 87178291200.0;
    cr = cr * r2 + 1.0 / 479001600.0;
    cr = cr * r2 - 1.0 / 3628800.0;
    cr = cr * r2 + 1.0 / 40320.0;
    cr = cr * r2 - 1.0 / 720.0;
    cr = cr * r2 + 1.0 / 24.0;
    cr = cr * r2 - 0.5;
    cr = cr * r2 + 1.0;
    int quadrant = (int)((int64_t)n & 3);
    double ss = quadrant & 1 ? cr : sr, cc = quadrant & 1 ? sr : cr;
    *s = (float)(quadrant & 2 ? -ss : ss);
    *c = (float)(quadrant == 1 || quadrant == 2 ? -cc : cc);
}
