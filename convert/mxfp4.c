#include "convert/mxfp4.h"

#include <math.h>

void mxfp4_codes(uint8_t *codes, int64_t n)
{
    /* twice 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives */
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (int64_t i = 0; i < n; i++) codes[i] = (uint8_t)(MXFP4_ZERO + twice[codes[i] & 15]);
}

float mxfp4_scale(uint8_t scale) { return scale == 255 ? NAN : ldexpf(1, scale - 128); }
