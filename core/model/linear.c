#include "core/model/linear.h"

#include <stddef.h>
#include <string.h>

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

/* 1: groups 2i, 2i + 1 of every linear of the stack have the same inputs. *in_order: those of the
 * pairs are 0, 1, .. */
static int same_inputs(const struct linear *w, int *in_order)
{
    size_t group = (size_t)w->group,
           n = (size_t)(w->stack ? w->stack : 1) * (size_t)w->n_groups / 2,
           each = (size_t)w->n_groups / 2;
    *in_order = w->k == 2 * w->in;
    for (size_t i = 0; i < n; i++) {
        const int32_t *high = w->perm + 2 * i * group;
        if (memcmp(high, high + group, group * sizeof *high)) return 0;
        for (size_t j = 0; j < group && *in_order; j++)
            *in_order = (size_t)high[j] == i % each * group + j;
    }
    return 1;
}

/* 1: scales 16 : 1 and zero points 8 and 0, of outputs that are there. */
static int same_weights(const struct linear *w)
{
    int panels = (w->out + 15) / 16, stack = w->stack ? w->stack : 1;
    size_t at = 0;
    for (int p = 0; p < stack * panels; p++) {
        int left = w->out - p % panels * 16, n = left < 16 ? left : 16;
        for (int i = 0; i < w->n_groups / 2; i++, at += 32)
            for (int l = 0; l < n; l++) {
                size_t high = at + (size_t)l, low = high + 16;
                if (f32_at(w->scales, w->scale_type, high) !=
                        16 * f32_at(w->scales, w->scale_type, low) ||
                    w->zeros[high] != 8 || w->zeros[low])
                    return 0;
            }
    }
    return 1;
}

void linear_find_pairs(struct linear *w)
{
    int in_order = 0;
    w->pairs = w->codes && w->perm && w->n_groups % 2 == 0 && same_inputs(w, &in_order) &&
               same_weights(w);
    w->in_order = w->pairs && in_order;
}
