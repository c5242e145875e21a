#include "quantize/pack.h"

#include <string.h>

void pack_codes(uint32_t *words, const uint8_t *codes, const struct pack_columns *c)
{
    size_t bits = (size_t)c->bits, out = c->out, bytes = (c->end - c->first) * sizeof *words;
    for (size_t i = 0; i < c->in * bits / 32; i++) memset(words + i * out + c->first, 0, bytes);
    for (size_t i = 0; i < c->in; i++, codes += out) {
        size_t bit = i * bits, shift = bit % 32;
        uint32_t *to = words + bit / 32 * out;
        for (size_t o = c->first; o < c->end; o++) to[o] |= (uint32_t)codes[o] << shift;
        if (shift + bits <= 32) continue;
        for (size_t o = c->first; o < c->end; o++)
            to[out + o] |= (uint32_t)codes[o] >> (32 - shift);
    }
}

void unpack_all_codes(uint8_t *codes, const uint32_t *words, size_t in, size_t out, int bits)
{
    uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < in; i++, codes += out) {
        size_t bit = i * (size_t)bits, shift = bit % 32;
        const uint32_t *from = words + bit / 32 * out;
        int straddles = shift + (size_t)bits > 32;
        for (size_t o = 0; o < out; o++) {
            uint32_t x = from[o] >> shift;
            if (straddles) x |= from[out + o] << (32 - shift);
            codes[o] = (uint8_t)(x & mask);
        }
    }
}

void pack_zeros(uint32_t *words, const uint8_t *zeros, size_t groups, size_t out, int bits)
{
    size_t n = out * (size_t)bits / 32;
    memset(words, 0, groups * n * sizeof *words);
    for (size_t g = 0; g < groups; g++, words += n, zeros += out)
        for (size_t o = 0; o < out; o++) {
            size_t bit = o * (size_t)bits, shift = bit % 32;
            uint32_t z = (uint32_t)zeros[o] - 1;
            words[bit / 32] |= z << shift;
            if (shift + (size_t)bits > 32) words[bit / 32 + 1] |= z >> (32 - shift);
        }
}

void unpack_all_zeros(uint8_t *zeros, const uint32_t *words, size_t groups, size_t out, int bits)
{
    size_t n = out * (size_t)bits / 32;
    for (size_t g = 0; g < groups; g++, words += n, zeros += out)
        for (size_t o = 0; o < out; o++) {
            size_t bit = o * (size_t)bits, shift = bit % 32;
            uint32_t z = words[bit / 32] >> shift;
            if (shift + (size_t)bits > 32) z |= words[bit / 32 + 1] << (32 - shift);
            zeros[o] = (uint8_t)((z & ((1u << bits) - 1)) + 1);
        }
}
