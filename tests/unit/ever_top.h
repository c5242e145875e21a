/* ever_top.h: the logits that a backend's `top` must return (core/step/backend.h), in the simplest
 * form. */
#ifndef TESTS_EVER_TOP_H
#define TESTS_EVER_TOP_H

#include "core/step/backend.h"

#include <math.h>

/* is[i] = 1 where x[i] is among the n_top largest of x[0 .. i], the lower index first on ties; x
 * [n] without NaN, n_top <= OP_TOP_KEPT. Returns how many are. */
static inline int ever_top(const float *x, int n, int n_top, uint8_t *is)
{
    float kept[OP_TOP_KEPT]; /* falling */
    int n_kept = 0, n_ever = 0;
    for (int i = 0; i < n; i++) {
        int j = n_kept;
        is[i] = x[i] > (n_kept == n_top ? kept[n_top - 1] : -INFINITY);
        if (!is[i]) continue;
        n_ever++;
        if (n_kept < n_top) n_kept++;
        else j--;
        for (; j && x[i] > kept[j - 1]; j--) kept[j] = kept[j - 1];
        kept[j] = x[i];
    }
    return n_ever;
}

#endif
