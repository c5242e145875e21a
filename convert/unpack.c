#include "convert/unpack.h"

/* Column 8c + order[i] of AWQ lies in nibble i. */
static const uint8_t awq_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};

/* Planes of gptq_p: width and position in the code, low plane first. */
struct plane {
    uint8_t width, at;
};
static const struct plane planes_of[9][3] = {
    [2] = {{2, 0}},         [3] = {{2, 0}, {1, 2}},         [4] = {{4, 0}}, [5] = {{4, 0}, {1, 4}},
    [6] = {{4, 0}, {2, 4}}, [7] = {{4, 0}, {2, 4}, {1, 6}}, [8] = {{8, 0}},
};

int64_t unpack_n_words(int64_t n, int bits) { return (n * bits + 31) / 32; }

/* codes[c] |= (field of w[c] at shift) << at, for 16 columns. */
static inline void add_field(uint8_t *restrict codes, const uint32_t *restrict w, int shift,
                             uint32_t mask, int at)
{
    for (int c = 0; c < UNPACK_COLS; c++) codes[c] |= (uint8_t)(((w[c] >> shift) & mask) << at);
}

static inline void set_field(uint8_t *restrict codes, const uint32_t *restrict w, int shift,
                             uint32_t mask)
{
    for (int c = 0; c < UNPACK_COLS; c++) codes[c] = (uint8_t)((w[c] >> shift) & mask);
}

static void codes_stream(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                         int bits)
{
    uint32_t mask = (1u << bits) - 1;
    for (int64_t j = 0; j < n_in; j++, codes += UNPACK_COLS) {
        int64_t pos = j * bits;
        const uint32_t *w = words + (size_t)(pos >> 5) * stride;
        int shift = (int)(pos & 31), have = 32 - shift;
        set_field(codes, w, shift, mask);
        if (have < bits) add_field(codes, w + stride, 0, mask >> have, have);
    }
}

static void codes_planar(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                         int bits)
{
    const struct plane *p = planes_of[bits];
    for (int64_t j = 0; j < n_in; j++, codes += UNPACK_COLS) {
        const uint32_t *block = words + (size_t)(j / 32 * bits) * stride;
        int i = (int)(j % 32);
        for (int k = 0; k < 3 && p[k].width; k++) {
            int pos = i * p[k].width;
            const uint32_t *w = block + (size_t)(pos >> 5) * stride;
            uint32_t mask = (1u << p[k].width) - 1;
            if (k == 0) set_field(codes, w, pos & 31, mask);
            else add_field(codes, w, pos & 31, mask, p[k].at);
            block += p[k].width * stride;
        }
    }
}

static void codes_awq(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in)
{
    for (int64_t j = 0; j < n_in; j++, codes += UNPACK_COLS, words += stride)
        for (int c = 0; c < UNPACK_COLS; c++)
            codes[(c & 8) | awq_order[c & 7]] = (uint8_t)((words[c >> 3] >> 4 * (c & 7)) & 15);
}

void unpack_codes(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                  enum unpack_layout layout, int bits)
{
    if (layout == UNPACK_AWQ) codes_awq(codes, words, stride, n_in);
    else if (layout == UNPACK_PLANAR) codes_planar(codes, words, stride, n_in, bits);
    else codes_stream(codes, words, stride, n_in, bits);
}

void unpack_awq_columns(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                        const int32_t *columns, int n)
{
    int shift[UNPACK_COLS];
    for (int c = 0; c < n; c++) {
        int i = 0;
        while (awq_order[i] != columns[c] % 8) i++;
        shift[c] = 4 * i;
    }
    for (int64_t j = 0; j < n_in; j++, codes += UNPACK_COLS, words += stride)
        for (int c = 0; c < UNPACK_COLS; c++)
            codes[c] = c < n ? (uint8_t)((words[c] >> shift[c]) & 15) : 0;
}

/* Field j of a row of words. ADD is added to each word first. */
static uint32_t field(const uint32_t *words, int64_t j, enum unpack_layout layout, int bits,
                      uint32_t add)
{
    if (layout == UNPACK_AWQ) {
        int i = 0;
        while (awq_order[i] != j % 8) i++;
        return (words[j / 8] >> 4 * i) & 15;
    }
    if (layout == UNPACK_PLANAR) {
        const uint32_t *block = words + j / 32 * bits;
        uint32_t v = 0;
        for (const struct plane *p = planes_of[bits]; p < planes_of[bits] + 3 && p->width;
             block += p->width, p++) {
            int pos = (int)(j % 32) * p->width;
            v |= ((block[pos >> 5] >> (pos & 31)) & ((1u << p->width) - 1)) << p->at;
        }
        return v;
    }
    int64_t pos = j * bits;
    int shift = (int)(pos & 31), have = 32 - shift;
    uint32_t v = (words[pos >> 5] + add) >> shift;
    if (have < bits) v |= (words[(pos >> 5) + 1] + add) << have;
    return v & ((1u << bits) - 1);
}

void unpack_zero_row(uint16_t *zeros, const uint32_t *words, int64_t n, enum unpack_layout layout,
                     int bits, enum unpack_zeros rule, uint64_t *n_all_ones)
{
    uint32_t top = (1u << bits) - 1, add = 0;
    int fields = rule == ZEROS_WORD_PLUS &&
                 32 % bits; /* 3 bits: fields straddle words; GPTQModel adds to the fields */
    for (int i = 0; rule == ZEROS_WORD_PLUS && !fields && i < 32; i += bits) add |= 1u << i;
    for (int64_t j = 0; j < n; j++) {
        uint32_t raw = field(words, j, layout, bits, 0),
                 z = add ? field(words, j, layout, bits, add) : raw;
        if (rule == ZEROS_PLUS_1) z = raw + 1;
        if (fields) z = (raw + 1) & top;
        if (n_all_ones) *n_all_ones += raw == top;
        zeros[j] = (uint16_t)z;
    }
}
