/* unpack.h: unpacking of codes and zero points from int32 words. Owns: bit widths, straddling, bit
 * planes, AWQ's order, the +1 of v1 zeros. Pure functions. Must not know: files, groups, the model
 * file's layout. */
#ifndef CONVERT_UNPACK_H
#define CONVERT_UNPACK_H

#include <stddef.h>
#include <stdint.h>

enum unpack_layout {
    UNPACK_STREAM, /* GPTQ: a bit stream, lowest bit first, along the inputs (zeros: along the
                      outputs) */
    UNPACK_PLANAR, /* GPTQModel gptq_p: per 32 codes a low plane, then the higher ones */
    UNPACK_AWQ,    /* AWQ gemm: 4-bit, along the outputs, in the order 0 2 4 6 1 3 5 7 */
};

/* What turns a stored zero field into the zero point. */
enum unpack_zeros {
    ZEROS_AS_STORED, /* gptq_v2, gptq_p, AWQ */
    ZEROS_PLUS_1,    /* v1 as most readers have it: field + 1, 16 possible at 4 bits */
    ZEROS_WORD_PLUS, /* v1 as GPTQModel writes it: one subtracted from each field of the whole word,
                        so fields borrow */
};

enum { UNPACK_COLS = 16 };

/* Words that hold n codes of one column (or row). */
int64_t unpack_n_words(int64_t n, int bits);
/* Codes of 16 columns. words: [rows][stride], at the first column; codes: [n_in][16]. STREAM and
 * PLANAR: a row holds one word per column; AWQ: a row is one input, with 2 words for the 16
 * columns. */
void unpack_codes(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                  enum unpack_layout layout, int bits);
/* Codes of n columns, at most 16, of AWQ. words: [n_in][stride], word c of a row holds column
 * columns[c] of the matrix; codes: [n_in][16], 0 past n. */
void unpack_awq_columns(uint8_t *codes, const uint32_t *words, size_t stride, int64_t n_in,
                        const int32_t *columns, int n);
/* Zero points 0..256 of n outputs, n a multiple of 32 or the end of the row. words: [..] of one
 * group, starting at a multiple of 32 outputs. The number of fields that are all ones is added to
 * *n_all_ones when not NULL. */
void unpack_zero_row(uint16_t *zeros, const uint32_t *words, int64_t n, enum unpack_layout layout,
                     int bits, enum unpack_zeros rule, uint64_t *n_all_ones);

#endif
