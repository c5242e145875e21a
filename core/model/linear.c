#include "core/model/linear.h"

#include <stddef.h>

static const void *moved(const void *p, size_t elements, size_t bytes)
{
    return p ? (const char *)p + elements * bytes : NULL;
}

struct linear linear_of_stack(const struct linear *w, int i)
{
    struct linear one = *w;
    if (!w->stack) return one;
    size_t at = (size_t)i, out = (size_t)w->out, k = (size_t)w->k, rows = (out + 15) / 16 * 16;
    one.stack = 0;
    one.codes = moved(w->codes, at * rows, k / 2);
    one.scales = moved(w->scales, at * rows * (size_t)w->n_groups, dtype_bytes(w->scale_type));
    one.zeros = moved(w->zeros, at * rows, (size_t)w->n_groups);
    one.perm = moved(w->perm, at * k, sizeof *w->perm);
    one.weight = moved(w->weight, at * out * (size_t)w->in, dtype_bytes(w->weight_type));
    one.bias = moved(w->bias, at * out, sizeof *w->bias);
    return one;
}
