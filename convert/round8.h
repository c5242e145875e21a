/* round8.h: rounding of plain weights to 8-bit codes with one scale for 32 inputs of an output:
 * W = scale * (code - 128), codes 1..255 rounded to nearest even, scale = largest magnitude / 127,
 * rounded up to a number of its type. Pure functions. */
#ifndef CONVERT_ROUND8_H
#define CONVERT_ROUND8_H

#include "core/base/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { ROUND8_GROUP = 32, ROUND8_ZERO = 128 };

/* The type of the scales, from the largest magnitude of a matrix: F16 where it holds the largest
 * scale, 16 times the scale (the upper half of a code), and small ones with an error far below the
 * largest step; else F32. */
enum dtype round8_scale_type(float largest);
/* Rounds one output. w: [in]; codes: input i at codes[i * code_stride]; scales: group g (inputs 32
 * g and on) at scales[g * scale_stride]. */
void round8_row(uint8_t *codes, size_t code_stride, float *scales, size_t scale_stride,
                enum dtype scale_type, const float *w, int64_t in);

#endif
