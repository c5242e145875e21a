/* mxfp4.h: 4-bit floats with a scale for 32 of them (OCP Microscaling Formats v1.0, 5.3 and 6.3:
 * elements E2M1, scales E8M0), as integer codes. Every value is a multiple of 1/2 from -6 to 6, so
 * twice the value is an integer, and W = scale/2 * (code - 128) is exact. Pure functions. */
#ifndef CONVERT_MXFP4_H
#define CONVERT_MXFP4_H

#include <stdint.h>

enum { MXFP4_GROUP = 32, MXFP4_ZERO = 128 };

/* n elements (0..15, sign in bit 3) to codes MXFP4_ZERO + twice the value, in place. */
void mxfp4_codes(uint8_t *codes, int64_t n);
/* 2^(scale - 128), half the E8M0 scale; NaN for 255. */
float mxfp4_scale(uint8_t scale);

#endif
