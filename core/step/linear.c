#include "core/step/linear.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const void *moved(const void *p, size_t elements, size_t bytes)
{
    return p ? (const char *)p + elements * bytes : NULL;
}

struct linear linear_of_stack(const struct linear *w, int i)
{
    struct linear one = *w;
    if (!w->stack) return one;
    size_t at = (size_t)i, out = (size_t)(w->pitch ? w->pitch : w->out), k = (size_t)w->k,
           rows = (out + 15) / 16 * 16;
    one.stack = one.pitch = 0;
    one.codes = moved(w->codes, at * rows, k / 2);
    one.scales = moved(w->scales, at * rows * (size_t)w->n_groups, dtype_bytes(w->scale_type));
    one.zeros = moved(w->zeros, at * rows, (size_t)w->n_groups);
    one.perm = moved(w->perm, at * k, sizeof *w->perm);
    one.weight = moved(w->weight, at * out * (size_t)w->in, dtype_bytes(w->weight_type));
    one.bias = moved(w->bias, at * out, sizeof *w->bias);
    return one;
}

uint64_t linear_bytes(const struct linear *w)
{
    uint64_t n = w->stack ? (uint64_t)w->stack : 1, out = (uint64_t)w->out,
             rows = (out + 15) / 16 * 16, k = (uint64_t)w->k,
             scale = 1 + dtype_bytes(w->scale_type), bias = w->bias ? 4 * out : 0;
    if (!w->codes) return n * (bias + (uint64_t)w->in * out * dtype_bytes(w->weight_type));
    return n * (bias + rows * k / 2 + rows * (uint64_t)w->n_groups * scale + (w->perm ? 4 * k : 0));
}

struct linear linear_rows(const struct linear *w, int first, int n)
{
    struct linear part = *w;
    size_t at = (size_t)first;
    CHECK(first % 16 == 0 && n > 0 && (n % 16 == 0 || first + n == w->out));
    part.out = n;
    if (w->stack && !w->pitch) part.pitch = w->out;
    part.codes = moved(w->codes, at, (size_t)w->k / 2);
    part.scales = moved(w->scales, at * (size_t)w->n_groups, dtype_bytes(w->scale_type));
    part.zeros = moved(w->zeros, at, (size_t)w->n_groups);
    part.weight = moved(w->weight, at * (size_t)w->in, dtype_bytes(w->weight_type));
    part.bias = moved(w->bias, at, sizeof *w->bias);
    return part;
}

/* Appends the same array of every linear of a stack, `bytes` of each, at *to; NULL: there is none.
 */
static const void *close_up(const struct linear *w, size_t field, size_t bytes, char **to)
{
    const char *begin = *to;
    const void *p;
    for (int i = 0; i < w->stack; i++) {
        struct linear one = linear_of_stack(w, i);
        memcpy(&p, (const char *)&one + field, sizeof p);
        if (!p) return NULL;
        memcpy(*to, p, bytes);
        *to += bytes;
    }
    *to += -(uintptr_t)*to & 63;
    return begin;
}

int linear_close_up(const struct linear *w, struct linear *out, void **memory, struct err *e)
{
    size_t rows = (size_t)(w->out + 15) / 16 * 16, codes = w->codes ? rows * (size_t)w->k / 2 : 0,
           groups = rows * (size_t)w->n_groups, scales = groups * dtype_bytes(w->scale_type),
           weight = w->weight ? (size_t)w->out * (size_t)w->in * dtype_bytes(w->weight_type) : 0,
           bias = (size_t)w->out * sizeof *w->bias;
    char *to = aligned_alloc(
        64, ((size_t)w->stack * (codes + scales + groups + weight + bias) + 6 * 64) / 64 * 64);
    if (!(*memory = to)) return err_memory(e);
    *out = *w;
    out->pitch = 0;
    out->codes = close_up(w, offsetof(struct linear, codes), codes, &to);
    out->scales = close_up(w, offsetof(struct linear, scales), scales, &to);
    out->zeros = close_up(w, offsetof(struct linear, zeros), groups, &to);
    out->weight = close_up(w, offsetof(struct linear, weight), weight, &to);
    out->bias = close_up(w, offsetof(struct linear, bias), bias, &to);
    return 0;
}

/* 1: groups 2i, 2i + 1 of every linear of the stack from group `first` on have the same inputs.
 * *in_order: those before are 0, 1, .., and those of the pairs follow. */
static int same_inputs(const struct linear *w, int first, int *in_order)
{
    size_t group = (size_t)w->group, n = (size_t)w->n_groups, at = 0;
    *in_order = (w->n_groups - first) / 2 + first == w->in / w->group && w->in % w->group == 0;
    for (int s = 0; s < (w->stack ? w->stack : 1); s++)
        for (size_t g = 0, number = 0; g < n; g++, at += group) {
            int high = g >= (size_t)first && (g - (size_t)first) % 2 == 0;
            const int32_t *perm = w->perm + at;
            if (high && memcmp(perm, perm + group, group * sizeof *perm)) return 0;
            if (high) continue;
            for (size_t j = 0; j < group && *in_order; j++) *in_order = (size_t)perm[j] == number++;
        }
    return 1;
}

/* 1: the n scales from `high` on are 16 times those from `low` on. Loops that the compiler
 * vectorizes: a model has billions of groups. */
static int is_sixteenfold(const struct linear *w, size_t high, size_t low, int n)
{
    unsigned bad = 0;
    if (w->scale_type == DT_F16) { /* normal halves have exponents 4 apart, the same fractions */
        const uint16_t *h = (const uint16_t *)w->scales + high, *l = h - high + low;
        for (int i = 0; i < n; i++)
            bad |= ((uint16_t)(h[i] - l[i]) != 4 << 10) | ((l[i] & 0x7c00) == 0);
        if (!bad) return 1;
    }
    bad = 0;
    for (int i = 0; i < n; i++)
        bad |= f32_at(w->scales, w->scale_type, high + (size_t)i) !=
               16 * f32_at(w->scales, w->scale_type, low + (size_t)i);
    return !bad;
}

/* 1: the zero points of n outputs are all `zero`. */
static int has_zeros(const uint8_t *zeros, int n, int zero)
{
    unsigned bad = 0;
    for (int l = 0; l < n; l++) bad |= (unsigned)(zeros[l] ^ zero);
    return !bad;
}

/* 1: of outputs that are there the zero points are 8 in groups before `first`, scales 16 : 1 and
 * zero points 8 and 0 in the pairs behind. */
static int same_weights(const struct linear *w, int first)
{
    size_t panels = ((size_t)w->out + 15) / 16, all = panels * (size_t)(w->stack ? w->stack : 1),
           at = 0;
    for (size_t p = 0; p < all; p++) {
        int left = w->out - (int)(p % panels) * 16, n = left < 16 ? left : 16;
        for (int g = 0; g < first; g++, at += 16)
            if (!has_zeros(w->zeros + at, n, 8)) return 0;
        for (int g = first; g < w->n_groups; g += 2, at += 32)
            if (!has_zeros(w->zeros + at, n, 8) || !has_zeros(w->zeros + at + 16, n, 0) ||
                !is_sixteenfold(w, at, at + 16, n))
                return 0;
    }
    return 1;
}

static int has_one_perm(const struct linear *w)
{
    size_t k = (size_t)w->k;
    for (int i = 1; i < w->stack; i++)
        if (memcmp(w->perm, w->perm + (size_t)i * k, k * sizeof *w->perm)) return 0;
    return w->stack > 0;
}

void linear_find_pairs(struct linear *w)
{
    int in_order = 0;
    w->pairs = w->outliers = w->in_order = w->one_perm = 0;
    if (!w->codes || !w->perm) return;
    w->pairs = w->n_groups % 2 == 0 && same_inputs(w, 0, &in_order) && same_weights(w, 0);
    if (!w->pairs && w->n_groups > 2)
        w->outliers = same_inputs(w, w->n_groups - 2, &in_order) &&
                      same_weights(w, w->n_groups - 2);
    w->in_order = (w->pairs || w->outliers) && in_order;
    w->one_perm = has_one_perm(w);
}
