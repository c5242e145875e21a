/* kv_int4.h: pages of 4-bit keys and values: a page of int8 (kv_int8.h), each channel of it as lo +
 * step * code (core/step/kv_int4.h), packed as args.h says; unpacking in registers; and the open
 * pages, which are of int8. Must not know: attention. */
#ifndef KERNELS_KV_INT4_H
#define KERNELS_KV_INT4_H

typedef u32 u32x2 __attribute__((vector_size(8)));
typedef u16 u16x2 __attribute__((vector_size(4)));

/* Bytes from the begin of a head's page on: lo and step of the keys' channels, of the values'; the
 * scales. A piece of 16 codes is at half of its place in the int8 page's keys or values. */
DEVICE u32 int4_part_at(int value, int d16) { return (u32)(10 * value * d16); }
DEVICE u32 int4_lo_at(int value, int d16) { return (u32)((10 * value + 8) * d16); }
DEVICE u32 int4_step_at(int value, int d16) { return (u32)((10 * value + 9) * d16); }
DEVICE const float *int4_scales_of(const u8 *page, int d16)
{
    return (const float *)(page + 20 * d16);
}

/* Open page number `number` of a row: a seat, or step page ~number. */
DEVICE u8 *open_page_of(const struct open_pages *o, int number, int kv_head, int n_kv_heads, int hd)
{
    u64 bytes = (u64)n_kv_heads * (u64)INT8_PAGE(hd);
    return (number >= 0 ? (u8 *)o->seats + (u64)number * bytes
                        : (u8 *)o->steps + (u64)~number * bytes) +
           (u64)kv_head * (u64)INT8_PAGE(hd);
}

/* The page of int8 that a row is stored in. */
DEVICE u8 *stored_page(const struct rope_kernel_args *a, int row, int slot, int head)
{
    if (a->kv == PAGE_INT4)
        return open_page_of(&a->open, a->open.own[row], head, a->n_kv_heads, a->head_dim);
    return (u8 *)a->pages +
           ((u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)head) * (u64)INT8_PAGE(a->head_dim);
}

/* The page number `page` of a KV head. */
DEVICE const u8 *int4_page_of(const struct attend_kernel_args *a, int page, int kv_head)
{
    return (const u8 *)a->pages +
           ((u64)page * (u64)a->n_kv_heads + (u64)kv_head) * (u64)INT4_PAGE(a->head_dim);
}
DEVICE const u8 *own_page_of(const struct attend_kernel_args *a, int row, int kv_head)
{
    return open_page_of(&a->open, a->open.own[row], kv_head, a->n_kv_heads, a->head_dim);
}

/* Four codes in the bytes of c, each of a channel of its own, as signed bytes. lo and step: bytes,
 * lo plus 128, so that no sum is above 255. */
#if NVIDIA /* 64 + code is a half with the code in bits 4 to 7 */
struct channel_pairs {
    f16x2 step[2], add[2]; /* for bytes 0 and 2, for 1 and 3; add: turns step * (64 + code) into the
                              result */
};

/* bias: added to the results */
DEVICE struct channel_pairs channel_pairs_of(u32 lo, u32 step, const int bias)
{
    struct channel_pairs c;
    UNROLL for (int odd = 0; odd < 2; odd++)
    {
        c.step[odd] = pair_of(spread_bytes(step, odd, 0x64)) - (f16x2){(f16)1024, (f16)1024};
        f16x2 least = pair_of(spread_bytes(lo, odd, 0x64));
        if (bias != 1152) least -= (f16x2){(f16)(1152 - bias), (f16)(1152 - bias)};
        c.add[odd] = fma16x2(c.step[odd], (f16x2){(f16)-64, (f16)-64}, least);
    }
    return c;
}

/* The codes in the low (high 0) or high bits of bytes 0 and 2 (odd 0) or 1 and 3 of a word. */
DEVICE u32 int4_halves(u32 word, const struct channel_pairs *c, const int high, const int odd)
{
    u32 offset = high ? (odd ? word >> 8 : word) : (odd ? word >> 4 : word << 4);
    return word_of(
        fma16x2(pair_of((offset & 0x00f000f0u) | 0x54005400u), c->step[odd], c->add[odd]));
}

/* Four channels of keys: a half whose high bits are 0 is its bits times 2^-24, so bits of codes as
 * they lie times step and plus lo give the bits of the sum: nothing makes numbers of codes. */
struct key_channels {
    f16x2 step[2], lo[2]; /* for bytes 0 and 2, for 1 and 3; the step for high bits is a 16th */
};

DEVICE struct key_channels key_channels_of(u32 lo, u32 step, const int high)
{
    struct key_channels c;
    UNROLL for (int odd = 0; odd < 2; odd++)
    {
        f16x2 m = pair_of(chosen_bytes(step, 0x64646464u, odd ? 0x4341 : 0x4240));
        c.step[odd] = high ? fma16x2(m, (f16x2){(f16)0.0625, (f16)0.0625},
                                     (f16x2){(f16)-64, (f16)-64})
                           : m - (f16x2){(f16)1024, (f16)1024};
        c.lo[odd] = pair_of(chosen_bytes(lo ^ 0x80808080u, 0, odd ? 0x4341 : 0x4240));
    }
    return c;
}

/* The codes in the low (high 0) or high bits of the bytes of a word, as signed bytes. */
DEVICE u32 int4_key_bytes(u32 word, const struct key_channels *c, const int high)
{
    const u32 mask = high ? 0x00f000f0u : 0x000f000fu;
    u32 even = word_of(fma16x2(pair_of(word & mask), c->step[0], c->lo[0])),
        odd = word_of(fma16x2(pair_of(word >> 8 & mask), c->step[1], c->lo[1]));
    return chosen_bytes(even, odd, 0x6240);
}

DEVICE u32 int4_bytes(u32 word, u32 lo, u32 step, const int high)
{
    struct key_channels c = key_channels_of(lo, step, high);
    return int4_key_bytes(word, &c, high);
}

/* The constants for a word whose bytes are all of one channel, byte i of lo and step. */
DEVICE struct channel_pairs row_pairs_of(u32 lo, u32 step, const int i)
{
    struct channel_pairs c;
    u32 m = 0x64006400u | (step >> (8 * i) & 0xff) * 0x00010001u,
        least = 0x64006400u | (lo >> (8 * i) & 0xff) * 0x00010001u;
    c.step[0] = c.step[1] = pair_of(m) - (f16x2){(f16)1024, (f16)1024};
    c.add[0] = c.add[1] = fma16x2(c.step[0], (f16x2){(f16)-64, (f16)-64},
                                  pair_of(least) - (f16x2){(f16)1152, (f16)1152});
    return c;
}

/* Four codes of one channel, byte i of lo and step, as signed bytes. */
DEVICE u32 int4_row_bytes(u32 word, u32 lo, u32 step, const int i, const int high)
{
    return ((word >> (4 * high) & 0x0f0f0f0fu) * chosen_bytes(step, 0, 0x4440 + (u32)i) +
            chosen_bytes(lo, 0, 0x1111 * (u32)i)) ^
           0x80808080u;
}
#else
/* a * b + c of halves of 16 bits */
DEVICE u32 packed_mad(u32 a, u32 b, u32 c)
{
    u16x2 x, y, z;
    __builtin_memcpy(&x, &a, 4);
    __builtin_memcpy(&y, &b, 4);
    __builtin_memcpy(&z, &c, 4);
    x = x * y + z;
    __builtin_memcpy(&a, &x, 4);
    return a;
}

DEVICE u32 int4_bytes(u32 word, u32 lo, u32 step, const int high)
{
    u32 code = word >> (4 * high) & 0x0f0f0f0fu;
    /* the low byte of a half does not depend on the high ones of its operands */
    u32 even = packed_mad(code, step, lo), odd = packed_mad(code >> 8, step >> 8, lo >> 8);
    return chosen_bytes(even, odd, 0x6240) ^ 0x80808080u;
}

DEVICE u32 int4_row_bytes(u32 word, u32 lo, u32 step, const int i, const int high)
{
    return packed_mad(word >> (4 * high) & 0x0f0f0f0fu,
                      chosen_bytes(step, 0, 0x4040 + 0x0101 * (u32)i),
                      chosen_bytes(lo, 0, 0x1111 * (u32)i)) ^
           0x80808080u;
}
#endif

/* 16 dimensions of a key, as a piece of int8. offset: its place there */
DEVICE u32x4 int4_key_piece(const u8 *page, u32 offset, int d, int d16)
{
    u32x2 code = *(const u32x2 *)(page + offset / 2);
    u32x4 lo = *(const u32x4 *)(page + int4_lo_at(0, d16) + (u32)d),
          step = *(const u32x4 *)(page + int4_step_at(0, d16) + (u32)d), k;
    UNROLL for (int i = 0; i < 4; i++) k[i] = int4_bytes(code[i / 2], lo[i], step[i], i % 2);
    return k;
}

/* 4 dimensions of 4 positions of the values: the codes, then lo and step of the dimensions. */
DEVICE u32x4 int4_load_values(const u8 *page, int four, int d, int d16)
{
    const u8 *part = page + int4_part_at(1, d16);
    u32x2 code = *(const u32x2 *)(part + (u32)((four * d16 + d) * 2));
    return (u32x4){code[0], code[1], *(const u32 *)(page + int4_lo_at(1, d16) + (u32)d),
                   *(const u32 *)(page + int4_step_at(1, d16) + (u32)d)};
}

/* Codes that int4_load_values() has loaded, as a piece of int8. */
DEVICE u32x4 int4_value_piece(u32x4 v)
{
    u32x4 k;
    UNROLL for (int i = 0; i < 4; i++)
        k[i] = int4_row_bytes(v[i / 2], v[2], v[3], i, i % 2);
    return k;
}

#endif
