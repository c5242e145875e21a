/* kv_format.h: how keys and values are stored: for each kind its name, sizes, and the rounding of
 * one head of one position. Everybody who stores, sizes or offers a kind reads it here. The layout
 * of a page is the backend's affair. Must not know: backends. */
#ifndef CORE_KV_FORMAT_H
#define CORE_KV_FORMAT_H

#include "core/step/batch.h"
#include "core/step/plan.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* KV_INT8: integers of 8 bits with an fp32 scale for each position and head, of keys and of values.
 * KV_INT4: a full page of KV_INT8 in 4 bits (kv_int4.h); pages that are not full: kv_open.h. */
enum kv_type { KV_F16, KV_F32, KV_INT8, KV_INT4, KV_TYPES };

struct kv_format {
    const char *name; /* as --kv takes it */
    int key_bits, value_bits;
    int n_scales; /* fp32 scales of a position and head for keys, and as many for values; 0: none */
    int rotates;  /* OP_ROPE_STORE transforms queries and keys by kv_rotate after RoPE */
    int channel_bytes; /* of an element of a head in a page, of keys and as many of values */
};

/* Everything about kind t; the last row has no name. */
extern const struct kv_format kv_formats[KV_TYPES + 1];

static inline int kv_is_integer(enum kv_type t) { return kv_formats[t].n_scales > 0; }

/* Elements of a head as integers are stored: a multiple of 4, so that four neighbours are one
 * operand of a dot product; the padding is 0. */
static inline int kv_padded(enum kv_type t, int head_dim)
{
    return kv_is_integer(t) ? (head_dim + 3) / 4 * 4 : head_dim;
}

/* Bytes of KV_PAGE positions of one head: keys, values, scales; a multiple of 64 for integers. */
size_t kv_head_bytes(enum kv_type t, int head_dim);
/* The same of latent heads (op.h), whose values are a part of the keys: keys, and scales of their
 * latent and of their rotated part. */
size_t kv_latent_bytes(enum kv_type t, int head_dim);
/* Bytes of one page of one cache. */
size_t kv_format_page_bytes(enum kv_type t, const struct kv_cache *kv);

/* Neighbouring elements of a head that kv_rotate mixes: the largest power of two dividing it. */
static inline int kv_rotation(int head_dim) { return head_dim & -head_dim; }

/* The Walsh-Hadamard transform of each run of kv_rotation elements of x [head_dim], times factor:
 * sums and differences of elements 1, 2, 4, .. apart, in fp32. It leaves products of queries and
 * keys as they are but for their number, so queries have the factor 1 / kv_rotation, keys 1; and it
 * spreads the few large dimensions of keys over all, so that a scale for a head is finer. */
static inline void kv_rotate(float *x, int head_dim, float factor)
{
    int n = kv_rotation(head_dim), apart = n < 4 ? 1 : 4;
    for (int i = 0; n >= 4 && i < head_dim; i += 4) { /* the first two steps at once */
        float a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3],
              d = x[i + 2] - x[i + 3];
        x[i] = a + c, x[i + 1] = b + d, x[i + 2] = a - c, x[i + 3] = b - d;
    }
    for (; apart < n; apart *= 2)
        for (int i = 0; i < head_dim; i += 2 * apart) {
            float *x0 = x + i, *x1 = x0 + apart;
            _Pragma("GCC ivdep") for (int j = 0; j < apart; j++)
            {
                float a = x0[j], b = x1[j];
                x0[j] = a + b;
                x1[j] = a - b;
            }
        }
    for (int i = 0; i < head_dim && factor != 1; i++) x[i] *= factor;
}

/* Largest integers of two digits and of one: of activations, of queries and of softmax weights. */
enum { KV_TOP_I16 = 127 * 128, KV_TOP_INT8 = 127 };

/* The scale and the factor of a group (of activations, queries, weights, a head) whose largest
 * magnitude has the bits max_bits; the factor is 0 if all integers are to be 0. */
static inline float kv_group_factor(int32_t max_bits, float top, float *scale)
{
    float largest;
    memcpy(&largest, &max_bits, sizeof largest);
    *scale = isfinite(largest) ? largest / top : NAN;
    return isfinite(largest) && largest > 0x1p-100f ? top / largest : 0;
}

/* The bits of the largest magnitude of x [n], compared as integers, which compilers vectorize,
 * unlike comparisons of floats; NaN is above infinity. */
static inline int32_t kv_largest(const float *x, int n)
{
    int32_t max_bits = 0;
    for (int i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        max_bits = bits > max_bits ? bits : max_bits;
    }
    return max_bits;
}

/* Integer of x for a factor that is not 0: nearest, ties to even. */
static inline int32_t kv_round(float x, float factor)
{
    return (int32_t)(x * factor + 0x1.8p23f - 0x1.8p23f);
}

/* KV_INT8: codes [head_dim] and the scale of one head of one position, x [head_dim]. */
static inline void kv_round_int8(const float *x, int head_dim, int8_t *code, float *scale)
{
    float factor = kv_group_factor(kv_largest(x, head_dim), KV_TOP_INT8, scale);
    for (int i = 0; i < head_dim; i++) code[i] = (int8_t)(factor == 0 ? 0 : kv_round(x[i], factor));
}

#endif
