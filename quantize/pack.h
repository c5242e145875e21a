/* pack.h: codes and zero points as the int32 words of a GPTQ checkpoint (v1: zero points minus
 * one), and back. Pure functions. */
#ifndef QUANTIZE_PACK_H
#define QUANTIZE_PACK_H

#include <stddef.h>
#include <stdint.h>

/* words [in * bits / 32][out]: a stream of bits along the inputs, the lowest first; codes
 * [in][out]. in: a multiple of 32. pack_codes: outputs `first` .. end - 1 alone. */
struct pack_columns {
    size_t in, out, first, end;
    int bits;
};
void pack_codes(uint32_t *words, const uint8_t *codes, const struct pack_columns *c);
void unpack_all_codes(uint8_t *codes, const uint32_t *words, size_t in, size_t out, int bits);
/* words [groups][out * bits / 32]: a stream along the outputs; zeros [groups][out], 1 .. 2^bits. */
void pack_zeros(uint32_t *words, const uint8_t *zeros, size_t groups, size_t out, int bits);
void unpack_all_zeros(uint8_t *zeros, const uint32_t *words, size_t groups, size_t out, int bits);

#endif
