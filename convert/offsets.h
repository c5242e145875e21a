/* offsets.h: zero points that are no integers. Owns: how scale * code + least becomes scale * (code
 * - zero) + offset with an integer zero point. Pure functions. Must not know: files, layouts. */
#ifndef CONVERT_OFFSETS_H
#define CONVERT_OFFSETS_H

#include "core/base/dtype.h"

#include <stdint.h>

/* The offset of numbers scale * code + least, codes of 4 bits: *zero becomes the integer of 0 to 16
 * that is nearest to -least / scale, for the integer arithmetics round activations least where
 * numbers are small; 0 where least + scale * zero is not exact in `type` (F16 or F32), which
 * `least` is. So nothing is lost. Both finite. */
float offset_of(float scale, float least, enum dtype type, uint16_t *zero);

#endif
