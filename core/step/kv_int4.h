/* kv_int4.h: how a full page of KV_INT8 becomes one of KV_INT4: the 16 codes of an element become
 * lo + m c with c in 0 .. 15, and the scales stay. Integers alone, so every backend has the same
 * codes. Must not know: the layout of a page. */
#ifndef CORE_KV_INT4_H
#define CORE_KV_INT4_H

#include "core/step/batch.h"

#include <stdint.h>

/* One element (channel) of a head in a page. lo + step * 15 may be above 127, a code that occurs
 * gives -128 .. 127. */
struct kv_channel {
    int lo, step; /* -128 .. 127; 1 .. 17 */
};

/* The channel of 16 codes whose smallest and largest are given. step is the least with which 15 of
 * them span the codes; lo is the smallest code, or less where the largest would go beyond 127. */
static inline struct kv_channel kv_channel_of(int smallest, int largest)
{
    int range = largest - smallest, step = range <= 15 ? 1 : (range + 14) / 15,
        lo = 127 - (range + step / 2) / step * step;
    return (struct kv_channel){smallest < lo ? smallest : lo, step};
}

/* 2^16 / step, rounded up: x * kv_inverse(step) >> 16 is x / step for 0 <= x <= 2^10. */
static inline int kv_inverse(int step) { return (65536 + step - 1) / step; }

/* c of an 8-bit code: nearest, upwards between two. */
static inline int kv_code4(struct kv_channel ch, int inverse, int code)
{
    return (code - ch.lo + ch.step / 2) * inverse >> 16;
}

#endif
