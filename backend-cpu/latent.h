/* latent.h: attention with latent heads (core/step/op.h) on the CPU: a page has one key a position,
 * whose first value_dim elements are the value, too. Keys lie as vectors of positions; values are
 * brought into the order of the values of other pages in the thread's scratch, a chunk at a time,
 * so that the sums of values are those of other heads. Of KV_INT8 the latent and the rotated part
 * have a scale each: [KV_PAGE] of both behind the keys.
 *
 * In integers a score is float(sum) * (query scale * key scale) of the latent plus the same of the
 * rotated part, in fp32 sum * key scale of both, each operation rounded. */
#ifndef BACKEND_CPU_LATENT_H
#define BACKEND_CPU_LATENT_H

#include "backend-cpu/kernels.h"

#include <string.h>

typedef uint8_t turn_bytes __attribute__((vector_size(16)));
typedef uint16_t turn_halves __attribute__((vector_size(16)));
typedef uint32_t turn_words __attribute__((vector_size(16)));

/* 8 rows of 8 become 8 columns: three times neighbours are taken from both halves of the rows. */
static inline __attribute__((always_inline)) void turn_8x8(turn_halves r[8])
{
    for (int step = 0; step < 3; step++) {
        turn_halves s[8];
        for (int i = 0; i < 4; i++) {
            s[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        for (int i = 0; i < 8; i++) r[i] = s[i];
    }
}

/* Copies from [dims][KV_PAGE] to [KV_PAGE][dims]. */
static inline __attribute__((always_inline)) void turn_f16(const uint16_t *from, int dims,
                                                           uint16_t *to)
{
    int d = 0;
    for (; d + 8 <= dims; d += 8)
        for (int c = 0; c < KV_PAGE; c += 8) {
            turn_halves r[8];
            for (int i = 0; i < 8; i++) memcpy(&r[i], from + (d + i) * KV_PAGE + c, sizeof r[i]);
            turn_8x8(r);
            for (int i = 0; i < 8; i++) memcpy(to + (c + i) * dims + d, &r[i], sizeof r[i]);
        }
    for (; d < dims; d++)
        for (int c = 0; c < KV_PAGE; c++) to[c * dims + d] = from[d * KV_PAGE + c];
}

static inline __attribute__((always_inline)) void turn_f32(const uint32_t *from, int dims,
                                                           uint32_t *to)
{
    for (int d = 0; d < dims; d += 4)
        for (int c = 0; c < KV_PAGE; c += 4) {
            turn_words r[4], s[4];
            for (int i = 0; i < 4; i++) memcpy(&r[i], from + (d + i) * KV_PAGE + c, sizeof r[i]);
            for (int i = 0; i < 2; i++) {
                s[2 * i] = __builtin_shufflevector(r[i], r[i + 2], 0, 4, 1, 5);
                s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 6, 3, 7);
            }
            for (int i = 0; i < 2; i++) {
                r[2 * i] = __builtin_shufflevector(s[i], s[i + 2], 0, 4, 1, 5);
                r[2 * i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 6, 3, 7);
            }
            for (int i = 0; i < 4; i++) memcpy(to + (c + i) * dims + d, &r[i], sizeof r[i]);
        }
}

/* Codes of keys, with their bias, to codes of values, without: of four dimensions and four
 * positions a position's dimensions are neighbours, then a dimension's positions. */
static inline __attribute__((always_inline)) void turn_int8(const uint8_t *from, int dims,
                                                            uint8_t *to)
{
    const turn_bytes bias = {128, 128, 128, 128, 128, 128, 128, 128,
                             128, 128, 128, 128, 128, 128, 128, 128};
    for (int d = 0; d < dims; d += 4)
        for (int c = 0; c < KV_PAGE; c += 4) {
            turn_bytes x;
            memcpy(&x, from + d * KV_PAGE + c * 4, sizeof x);
            x = __builtin_shufflevector(x, x, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            x ^= bias;
            memcpy(to + (c / 4 * dims + d) * 4, &x, sizeof x);
        }
}

/* Makes the values of a page from its keys. */
static inline __attribute__((always_inline)) void latent_page_values(const struct attend_task *t,
                                                                     int page)
{
    const void *keys = page_keys(t, page);
    void *to = unpacked_values(t, page);
    if (t->kv == KV_F16) turn_f16(keys, t->value_dim, to);
    else if (t->kv == KV_F32) turn_f32(keys, t->value_dim, to);
    else turn_int8(keys, t->value_dim, to);
}

#endif
