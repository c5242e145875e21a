/* act_quant.h: quantization of activations: per row and sub-group, scale = largest magnitude /
 * largest integer, rounded to nearest even, by the functions of core/step/kv_format.h. Only basic
 * fp32 operations, so that every machine gets the same integers; each variant compiles them for its
 * own instruction set. */
#ifndef BACKEND_CPU_ACT_QUANT_H
#define BACKEND_CPU_ACT_QUANT_H

#include "backend-cpu/fp32.h"

/* Arguments of cpu_kernels.q4i: outputs of panels p0 .. p1-1. */
struct q4i_call {
    const struct linear *w;
    const struct q4_digits *x;
    float *y; /* [rows][out] */
    int p0, p1;
};

/* Inputs j0 .. j0+n-1 of q4i: inside x, or gathered into group [n]. */
ALWAYS_INLINE const float *quantize_input(const struct linear *w, const float *x, int j0, int n,
                                          float *group)
{
    if (w->in_order && w->outliers && j0 >= w->in) return x + j0 - w->group;
    if (!w->perm || w->in_order) return x + j0;
    const int32_t *perm = w->perm + q4i_packed(w, j0);
    for (int i = 0; i < n; i++) group[i] = perm[i] < 0 ? 0 : x[perm[i]];
    return group;
}

/* Which integers a sub-group has: those of one digit, of two, or of 4 bits. */
enum { DIGITS_LOW = 0 };
ALWAYS_INLINE int digits_of_group(const struct q4_digits *q, int j0)
{
    return j0 < q->low ? DIGITS_LOW : q->n_digits;
}

/* Largest integer of them. A rounded number may be one larger than that of 4 bits. */
ALWAYS_INLINE int digits_top(int digits)
{
    return digits == 2 ? KV_TOP_I16 : digits == DIGITS_LOW ? ACT_LOW_TOP : KV_TOP_INT8;
}

/* Sets the scale of a sub-group whose largest magnitude has these bits; returns the factor of
 * quantization, 0 if all integers are to be 0. */
ALWAYS_INLINE float quantize_factor(int32_t max_bits, int digits, float *scale)
{
    return digits == DIGITS_LOW ? act_low_factor(max_bits, scale)
                                : kv_group_factor(max_bits, (float)digits_top(digits), scale);
}

/* The same of the sub-group x [n]; largest: of its row, or 0. */
ALWAYS_INLINE float quantize_scale(const float *x, int n, int digits, int32_t largest, float *scale)
{
    return quantize_factor(largest ? largest : kv_largest(x, n), digits, scale);
}

/* Quantizes one sub-group x [n] to first [n] and, for two digits, second [n]; returns the sum of
 * the integers. */
ALWAYS_INLINE int32_t quantize_group(const float *x, int n, int n_digits, int32_t largest,
                                     int8_t *first, int8_t *second, float *scale)
{
    float inverse = quantize_scale(x, n, n_digits, largest, scale);
    int32_t sum = 0, top = digits_top(n_digits);
    for (int i = 0; i < n; i++) {
        int32_t v = inverse == 0 ? 0 : kv_round(x[i], inverse);
        v = v < top ? v : top;
        sum += v;
        int32_t high = n_digits == 2 ? (v + 64) >> 7 : v;
        first[i] = (int8_t)high;
        if (n_digits == 2) second[i] = (int8_t)(v - high * 128);
    }
    return sum;
}

ALWAYS_INLINE void fp32_quantize(const struct linear *w, const float *x, int row,
                                 const struct q4_digits *q)
{
    float group[CPU_SUBGROUP];
    size_t rows = (size_t)q->rows, s = (size_t)row;
    for (int j0 = 0, n; j0 < q4i_inputs(w); j0 += n, s += rows) {
        n = q4_next(w, j0) - j0;
        int8_t *first = (int8_t *)q->digit + (size_t)j0 * rows * (size_t)q->n_digits +
                        (size_t)row * (size_t)n;
        ((int32_t *)q->sum)[s] = quantize_group(quantize_input(w, x, j0, n, group), n,
                                                digits_of_group(q, j0), q->largest, first,
                                                first + rows * (size_t)n, (float *)q->scale + s);
    }
}

/* cpu_kernels.copy_digits of digits as fp32_quantize stores them. */
static inline void digits_copy(const struct linear *w, const struct q4_digits *from,
                               const struct q4_digits *to, int row)
{
    size_t rows = (size_t)to->rows, digits = (size_t)to->n_digits, s = (size_t)row;
    for (int j0 = 0, n, i = 0; j0 < q4i_inputs(w); j0 += n, s += rows, i++) {
        n = q4_next(w, j0) - j0;
        size_t length = (size_t)n;
        int8_t *at = (int8_t *)to->digit + (size_t)j0 * rows * digits + (size_t)row * length;
        for (size_t d = 0; d < digits; d++)
            memcpy(at + d * rows * length, from->digit + (size_t)j0 * digits + d * length, length);
        ((float *)to->scale)[s] = from->scale[i];
        ((int32_t *)to->sum)[s] = from->sum[i];
    }
}

#endif
