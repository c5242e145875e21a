/* matrix.h: AMD's matrix instructions: 16x16 sums of 16 products of halves, in fp32, or of signed
 * bytes, in 32-bit integers. Three kinds differ in what lane l holds of A (16 rows), B (16 columns)
 * and the result:
 *   MATRIX_MFMA    gfx908, gfx90a, gfx94x, gfx95x: v_mfma_f32_16x16x16 (f16), 64 lanes.
 *                  A: row l % 16, inputs 4 (l / 16) .. + 3; B: column l % 16, the same inputs;
 *                  result: column l % 16, rows 4 (l / 16) .. + 3
 *   MATRIX_WMMA    gfx11: v_wmma_f32_16x16x16_f16, 32 lanes, of which l and l + 16 hold the same.
 *                  A: row l % 16, all 16 inputs; B: column l % 16, all 16 inputs;
 *                  result: column l % 16, rows l / 16, l / 16 + 2, .. + 14
 *   MATRIX_WMMA12  gfx12: the same instruction.
 *                  A: row l % 16, inputs 8 (l / 16) .. + 7; B: column l % 16, the same inputs;
 *                  result: column l % 16, rows 8 (l / 16) .. + 7
 * Bytes are held in the same way; gfx94x and gfx95x have v_mfma_i32_16x16x32 in place of 16x16x16:
 * inputs 8 (l / 16) .. + 7.
 * Source: AMD's instruction set documents of CDNA 1 to 3, RDNA 3 and 4. The numbering of an
 * instruction's inputs is free if A and B agree: a lane takes words of 8 inputs of a chunk in
 * memory order. On the host tests/emulators/fibers/fiber_matrix.c computes the documented
 * result. */
#ifndef KERNELS_MATRIX_H
#define KERNELS_MATRIX_H

enum matrix_kind { MATRIX_MFMA, MATRIX_WMMA, MATRIX_WMMA12 };
enum { MATRIX = 16 };

DEVICE int matrix_lanes(const int kind) { return kind == MATRIX_MFMA ? 64 : 32; }

/* matrix_words(): words of 8 inputs of a chunk that a lane holds; matrix_word(): the number of its
 * i-th word. */
DEVICE int matrix_words(const int kind)
{
    return kind == MATRIX_MFMA ? 1 : kind == MATRIX_WMMA ? 4 : 2;
}
DEVICE int matrix_word(const int kind, int lane, int i)
{
    return kind == MATRIX_MFMA ? lane / MATRIX : kind == MATRIX_WMMA ? i : 2 * i + lane / MATRIX;
}

/* Values of the result that a lane holds, and the row of its i-th; the column is lane % 16. */
DEVICE int matrix_values(const int kind) { return kind == MATRIX_MFMA ? 4 : 8; }
DEVICE int matrix_row(const int kind, int lane, int i)
{
    return kind == MATRIX_MFMA   ? 4 * (lane / MATRIX) + i
           : kind == MATRIX_WMMA ? 2 * i + lane / MATRIX
                                 : 8 * (lane / MATRIX) + i;
}

/* c[values] += a b by one instruction, which takes 2 (MFMA), 8 (WMMA) or 4 (WMMA12) registers of a
 * and b. */
DEVICE void matrix_multiply_add(const int kind, const u32 *a, const u32 *b, float *c)
{
#if defined(__AMDGCN__)
#if THIS_IMAGE & IMAGES_MFMA
    typedef _Float16 operand __attribute__((vector_size(8)));
    typedef float result __attribute__((vector_size(16)));
#elif THIS_IMAGE & IMAGES_WMMA
    typedef _Float16 operand __attribute__((vector_size(32)));
    typedef float result __attribute__((vector_size(32)));
#else
    typedef _Float16 operand __attribute__((vector_size(16)));
    typedef float result __attribute__((vector_size(32)));
#endif
    operand x, y;
    result r;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
    __builtin_memcpy(&r, c, sizeof r);
#if THIS_IMAGE & IMAGES_MFMA
    r = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, r, 0, 0, 0);
#elif THIS_IMAGE & IMAGES_WMMA
    r = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, r);
#else
    r = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, r);
#endif
    __builtin_memcpy(c, &r, sizeof r);
    (void)kind;
#else
    fiber_matrix(kind, a, b, c);
#endif
}

/* c[values] += the sum over a chunk; a, b: the words that a lane holds of it. Two instructions. */
DEVICE void matrix_add_chunk(const int kind, const u32x4 *a, const u32x4 *b, float *c)
{
    const int words = matrix_words(kind), registers = 2 * words;
    UNROLL for (int half = 0; half < 2; half++)
    {
        u32 x[8], y[8];
        UNROLL for (int i = 0; i < registers; i++)
        {
            int from = half * registers + i;
            x[i] = a[from / 4][from % 4];
            y[i] = b[from / 4][from % 4];
        }
        matrix_multiply_add(kind, x, y, c);
    }
}

DEVICE void matrix_chunk(const int kind, const u32x4 *a, const u32x4 *b, float *c)
{
    UNROLL for (int i = 0; i < matrix_values(kind); i++) c[i] = 0;
    matrix_add_chunk(kind, a, b, c);
}

/* c[values] += a b of signed bytes by one instruction, which takes 1 (MFMA), 4 (WMMA) or 2 (WMMA12)
 * registers of a and b; on gfx94x it takes 2, with 32 inputs. */
DEVICE void matrix_multiply_add_s8(const int kind, const u32 *a, const u32 *b, int *c)
{
#if defined(__AMDGCN__)
#if THIS_IMAGE & IMAGES_MFMA
    typedef int result __attribute__((vector_size(16)));
#else
    typedef int result __attribute__((vector_size(32)));
    typedef int operand __attribute__((vector_size(THIS_IMAGE & IMAGES_WMMA ? 16 : 8)));
    operand x, y;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
#endif
    result r;
    __builtin_memcpy(&r, c, sizeof r);
#if defined(GFX94)
    long x, y;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
    r = __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, r, 0, 0, 0);
#elif THIS_IMAGE & IMAGES_MFMA
    r = __builtin_amdgcn_mfma_i32_16x16x16i8((int)*a, (int)*b, r, 0, 0, 0);
#elif THIS_IMAGE & IMAGES_WMMA
    r = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, x, 1, y, r, 0);
#else
    r = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, x, 1, y, r, 0);
#endif
    __builtin_memcpy(c, &r, sizeof r);
    (void)kind;
#else
    fiber_matrix_s8(kind, a, b, c);
#endif
}

/* c[values] += the sum over 32 inputs of signed bytes. a, b: the 2 * matrix_words() registers of
 * them that a lane holds */
DEVICE void matrix_add_words_s8(const int kind, const u32 *a, const u32 *b, int *c)
{
#if defined(GFX94)
    matrix_multiply_add_s8(kind, a, b, c);
#else
    matrix_multiply_add_s8(kind, a, b, c);
    matrix_multiply_add_s8(kind, a + matrix_words(kind), b + matrix_words(kind), c);
#endif
}

/* matrix_add_words_s8() of a chunk: a, b: the lane's words, 8 bytes of 8 inputs each. */
DEVICE void matrix_add_chunk_s8(const int kind, const u32x2 *a, const u32x2 *b, int *c)
{
    u32 x[8], y[8];
    UNROLL for (int i = 0; i < 2 * matrix_words(kind); i++)
    {
        x[i] = a[i / 2][i % 2];
        y[i] = b[i / 2][i % 2];
    }
    matrix_add_words_s8(kind, x, y, c);
}

/* matrix_add_words_s8() of 64 inputs: a, b: the lane's words, 16 bytes of 16 inputs each. */
DEVICE void matrix_add_pieces_s8(const int kind, const u32x4 *a, const u32x4 *b, int *c)
{
    const int registers = 2 * matrix_words(kind);
    UNROLL for (int half = 0; half < 2; half++)
    {
        u32 x[8], y[8];
        UNROLL for (int i = 0; i < registers; i++)
        {
            int from = half * registers + i;
            x[i] = a[from / 4][from % 4];
            y[i] = b[from / 4][from % 4];
        }
        matrix_add_words_s8(kind, x, y, c);
    }
}

#endif
