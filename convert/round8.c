#include "convert/round8.h"

#include <math.h>

enum dtype round8_scale_type(float largest)
{
    float scale = largest / 127;
    return largest == 0 || (scale >= 0x1p-14f && scale <= 4000) ? DT_F16 : DT_F32;
}

/* The least F16 number that is not below x, x >= 0. */
static float up_to_f16(float x)
{
    uint16_t h = f16_from_f32(x);
    if (f32_from_f16(h) < x) h++; /* the next larger one: positive numbers are in order */
    return f32_from_f16(h);
}

void round8_row(uint8_t *codes, size_t code_stride, float *scales, size_t scale_stride,
                enum dtype scale_type, const float *w, int64_t in)
{
    for (int64_t at = 0, g = 0; at < in; at += ROUND8_GROUP, g++) {
        int64_t n = in - at < ROUND8_GROUP ? in - at : ROUND8_GROUP;
        float largest = 0;
        for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(w[at + i]));
        float scale = largest / 127;
        if (scale_type == DT_F16) scale = up_to_f16(scale);
        float inverse = scale > 0 ? 1 / scale : 0;
        if (!(inverse <= 0x1p126f)) scale = inverse = 0; /* below what a scale can express */
        scales[(size_t)g * scale_stride] = scale;
        for (int64_t i = 0; i < n; i++) {
            float q = fminf(127, fmaxf(-127, rintf(w[at + i] * inverse)));
            codes[(size_t)(at + i) * code_stride] = (uint8_t)(ROUND8_ZERO + (int)q);
        }
    }
}
