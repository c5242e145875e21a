#include "convert/offsets.h"

#include <math.h>

enum { LARGEST_ZERO = 16 };

static int is_exact(double x, enum dtype type)
{
    float f = (float)x;
    return (double)f == x && isfinite(f) && (type == DT_F32 || f32_from_f16(f16_from_f32(f)) == f);
}

float offset_of(float scale, float least, enum dtype type, uint16_t *zero)
{
    double z = scale == 0 ? 0 : rint(-(double)least / (double)scale);
    z = z < 0 ? 0 : z > LARGEST_ZERO ? LARGEST_ZERO : z;
    const double offset = (double)least + (double)scale * z;
    if (!is_exact(offset, type)) z = 0;
    *zero = (uint16_t)z;
    return z == 0 ? least : (float)offset;
}
