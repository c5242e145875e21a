/* packed.h: pages of KV_INT4 on the CPU: a page of KV_INT8 (kernels.h), byte by byte in 4 bits. A
 * chunk of attention unpacks its pages into the thread's scratch and reads them there as pages of
 * KV_INT8, so that everything behind that is the attention of KV_INT8.
 *
 * Of one head, n = kv_padded(head_dim), first of the keys, then of the values: codes [8n], lo [n]
 * (of keys plus KEY_BIAS) and step [n] of the channels. Byte i of the codes has the code of byte i
 * of the 8-bit page's keys or values in its low bits, that of byte i + 8n in its high bits. Behind
 * both the scales as they are. Of latent heads (latent.h) there are no values. */
#ifndef BACKEND_CPU_PACKED_H
#define BACKEND_CPU_PACKED_H

#include "backend-cpu/kernels.h"
#include "core/step/kv_int4.h"

#include <string.h>

static inline const uint8_t *packed_codes(const void *page, enum kv_part part, int n)
{
    return (const uint8_t *)page + 10 * (int)part * n;
}
static inline const uint8_t *packed_lo(const void *page, enum kv_part part, int n)
{
    return packed_codes(page, part, n) + 8 * n;
}
static inline const uint8_t *packed_step(const void *page, enum kv_part part, int n)
{
    return packed_lo(page, part, n) + n;
}
/* parts: 2, or 1 of latent heads. */
static inline const void *packed_scales(const void *page, int n, int parts)
{
    return (const char *)page + 10 * parts * n;
}

/* Bytes of the keys of a page, and of its values. */
static inline size_t packed_part_bytes(int n) { return (size_t)(10 * n); }

static inline const char *packed_page(const struct attend_task *t, int page_index)
{
    return t->pages + (size_t)t->table[page_index] * t->page_bytes;
}

/* Place of element d at position `offset` in the keys or values of an 8-bit page. */
static inline size_t part_at(enum kv_part part, int d, int offset, int n)
{
    return part == KEYS ? key_at(d, offset) : value_at(d, offset, n);
}

/* One head of a full page: `from` as KV_INT8 to `to` as KV_INT4. parts: as packed_scales. */
static inline void pack_page(const char *from, int head_dim, int parts, char *to)
{
    const int n = kv_padded(KV_INT8, head_dim);
    for (enum kv_part part = KEYS; (int)part < parts; part++) {
        const char *codes = from + 16 * (int)part * n;
        uint8_t *packed = (uint8_t *)packed_codes(to, part, n),
                *lo = (uint8_t *)packed_lo(to, part, n), *step = lo + n;
        memset(packed, 0, (size_t)(8 * n));
        for (int d = 0; d < n; d++) {
            int code[KV_PAGE], least = INT8_MAX, most = INT8_MIN;
            for (int c = 0; c < KV_PAGE; c++) {
                uint8_t byte = (uint8_t)codes[part_at(part, d, c, n)];
                code[c] = part == KEYS ? byte - KEY_BIAS : (int8_t)byte;
                least = code[c] < least ? code[c] : least;
                most = code[c] > most ? code[c] : most;
            }
            struct kv_channel ch = kv_channel_of(least, most);
            int inverse = kv_inverse(ch.step);
            lo[d] = (uint8_t)(ch.lo + (part == KEYS ? KEY_BIAS : 0));
            step[d] = (uint8_t)ch.step;
            for (int c = 0; c < KV_PAGE; c++) {
                size_t at = part_at(part, d, c, n), half = (size_t)(8 * n);
                int code4 = kv_code4(ch, inverse, code[c]);
                packed[at < half ? at : at - half] |= (uint8_t)(at < half ? code4 : code4 << 4);
            }
        }
    }
    memcpy((char *)packed_scales(to, n, parts), from + 16 * parts * n, 2 * KV_PAGE * sizeof(float));
}

/* A cpu_kernels.unpack in plain C. */
static inline void plain_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    const int n = kv_padded(KV_INT8, head_dim), half = 8 * n;
    const uint8_t *code = packed_codes(page, part, n), *lo = packed_lo(page, part, n),
                  *step = lo + n;
    uint8_t *out = (uint8_t *)to;
    for (int d = 0; d < n; d++)
        for (int c = 0; c < KV_PAGE; c++) {
            int at = (int)part_at(part, d, c, n);
            out[at] =
                (uint8_t)(lo[d] + step[d] * (at < half ? code[at] & 15 : code[at - half] >> 4));
        }
}

#endif
