/* gguf_blocks.c: types of blocks. A block of the plain types is one number; of Q4_0 to Q8_0 32
 * numbers behind their scale (and least value); of Q4_K to Q6_K 256 numbers in parts of 32 or 16
 * with scales of 6 or 8 bits. Products and differences are rounded to fp32 one by one. */
#include "convert/gguf.h"

#include "core/base/dtype.h"

#include <string.h>

static uint16_t half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return h;
}

static float number_at(const uint8_t *p) { return f32_from_f16(half_at(p)); }

static void from_f32(const uint8_t *b, float *y) { memcpy(y, b, sizeof *y); }
static void from_f16(const uint8_t *b, float *y) { *y = number_at(b); }
static void from_bf16(const uint8_t *b, float *y)
{
    *y = f32_from_bits((uint32_t)half_at(b) << 16);
}

/* 32 codes of 4 bits: the low halves of 16 bytes, then the high ones. */
static void nibbles(const uint8_t *p, uint8_t *q)
{
    for (int i = 0; i < 16; i++) q[i] = p[i] & 15, q[i + 16] = p[i] >> 4;
}

/* The fifth bits of 32 codes. */
static void fifth(const uint8_t *p, uint8_t *q)
{
    for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((p[i / 8] >> i % 8 & 1) << 4);
}

static void codes_q4_0(const uint8_t *b, uint8_t *q) { nibbles(b + 2, q); }

static void codes_q4_1(const uint8_t *b, uint8_t *q) { nibbles(b + 4, q); }

static void pairs_q4_1(const uint8_t *b, float *scale, float *least)
{
    *scale = number_at(b), *least = number_at(b + 2);
}

/* In 8 bits, whose middle is 128. */
static void codes_q5_0(const uint8_t *b, uint8_t *q)
{
    nibbles(b + 6, q);
    fifth(b + 2, q);
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] + 128 - 16);
}

static void codes_q8_0(const uint8_t *b, uint8_t *q)
{
    for (int i = 0; i < 32; i++) q[i] = b[2 + i] ^ 0x80;
}

static void floats_of_codes(const uint8_t *b, const uint8_t *q, int middle, float *y)
{
    float d = number_at(b);
    for (int i = 0; i < 32; i++) y[i] = d * (float)(q[i] - middle);
}

static void floats_with_least(const uint8_t *b, const uint8_t *q, float *y)
{
    float d = number_at(b), least = number_at(b + 2);
    for (int i = 0; i < 32; i++) y[i] = d * (float)q[i] + least;
}

static void q4_0(const uint8_t *b, float *y)
{
    uint8_t q[32];
    nibbles(b + 2, q);
    floats_of_codes(b, q, 8, y);
}

static void q4_1(const uint8_t *b, float *y)
{
    uint8_t q[32];
    nibbles(b + 4, q);
    floats_with_least(b, q, y);
}

static void q5_0(const uint8_t *b, float *y)
{
    uint8_t q[32];
    nibbles(b + 6, q);
    fifth(b + 2, q);
    floats_of_codes(b, q, 16, y);
}

static void q5_1(const uint8_t *b, float *y)
{
    uint8_t q[32];
    nibbles(b + 8, q);
    fifth(b + 4, q);
    floats_with_least(b, q, y);
}

static void q8_0(const uint8_t *b, float *y)
{
    uint8_t q[32];
    codes_q8_0(b, q);
    floats_of_codes(b, q, 128, y);
}

/* Scale and least value of part i of 8, 6 bits each, in 12 bytes p: of parts 0 to 3 in bytes 0 to
 * 7; of the others the low bits in bytes 8 to 11, the high ones above those of parts 0 to 3. */
static void six_bits(const uint8_t *p, int i, uint8_t *scale, uint8_t *least)
{
    if (i < 4) {
        *scale = p[i] & 63, *least = p[i + 4] & 63;
        return;
    }
    *scale = (uint8_t)((p[i + 4] & 15) | (p[i - 4] >> 6) << 4);
    *least = (uint8_t)((p[i + 4] >> 4) | (p[i] >> 6) << 4);
}

/* Of the 8 parts, which subtract their least values: 0 where there is none, not -0. */
static void pairs_k(const uint8_t *b, float *scale, float *least)
{
    float d = number_at(b), low = number_at(b + 2);
    for (int i = 0; i < 8; i++) {
        uint8_t s, m;
        six_bits(b + 4, i, &s, &m);
        scale[i] = d * (float)s, least[i] = 0 - low * (float)m;
    }
}

static void codes_q4_k(const uint8_t *b, uint8_t *q)
{
    for (int i = 0; i < 256; i++) q[i] = b[16 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

/* high: 32 bytes whose bit i is the fifth of the codes of part i, or NULL. */
static void parts_of_32(const uint8_t *b, const uint8_t *high, const uint8_t *codes, float *y)
{
    float d = number_at(b), least = number_at(b + 2);
    for (int i = 0; i < 8; i++) {
        uint8_t s, m;
        six_bits(b + 4, i, &s, &m);
        float step = d * (float)s, low = least * (float)m;
        for (int j = 0; j < 32; j++) {
            int q = codes[i / 2 * 32 + j] >> i % 2 * 4 & 15;
            if (high) q |= (high[j] >> i & 1) << 4;
            y[i * 32 + j] = step * (float)q - low;
        }
    }
}

static void q4_k(const uint8_t *b, float *y) { parts_of_32(b, NULL, b + 16, y); }
static void q5_k(const uint8_t *b, float *y) { parts_of_32(b, b + 16, b + 48, y); }

/* Two halves of 128: low 4 bits of 64 bytes (low halves, then high ones), high 2 bits of 32 bytes.
 */
static void q6_k(const uint8_t *b, float *y)
{
    float d = number_at(b + 208);
    for (int i = 0; i < 256; i++) {
        const uint8_t *low = b + i / 128 * 64, *high = b + 128 + i / 128 * 32;
        int at = i % 128, q = low[at % 64] >> at / 64 * 4 & 15;
        q |= (high[at % 32] >> at / 32 * 2 & 3) << 4;
        y[i] = d * (float)(int8_t)b[192 + i / 16] * (float)(q - 32);
    }
}

static const struct gguf_type types[] = {
    {0, 1, 4, "F32", from_f32, NULL, 0, NULL},
    {1, 1, 2, "F16", from_f16, NULL, 0, NULL},
    {30, 1, 2, "BF16", from_bf16, NULL, 0, NULL},
    {2, 32, 18, "Q4_0", q4_0, codes_q4_0, 4, NULL},
    {3, 32, 20, "Q4_1", q4_1, codes_q4_1, 4, pairs_q4_1},
    {6, 32, 22, "Q5_0", q5_0, codes_q5_0, 8, NULL},
    {7, 32, 24, "Q5_1", q5_1, NULL, 0, NULL},
    {8, 32, 34, "Q8_0", q8_0, codes_q8_0, 8, NULL},
    {12, 256, 144, "Q4_K", q4_k, codes_q4_k, 4, pairs_k},
    {13, 256, 176, "Q5_K", q5_k, NULL, 0, NULL},
    {14, 256, 210, "Q6_K", q6_k, NULL, 0, NULL},
};

const struct gguf_type *gguf_type(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].id == id) return &types[i];
    return NULL;
}

const char *gguf_type_name(uint32_t id)
{
    static const char *const names[] = {
        [9] = "Q8_1",    [10] = "Q2_K",    [11] = "Q3_K",  [15] = "Q8_K",   [16] = "IQ2_XXS",
        [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",
        [22] = "IQ2_S",  [23] = "IQ4_XS",  [24] = "I8",    [25] = "I16",    [26] = "I32",
        [27] = "I64",    [28] = "F64",     [29] = "IQ1_M", [34] = "TQ1_0",  [35] = "TQ2_0",
        [39] = "MXFP4"};
    const struct gguf_type *t = gguf_type(id);
    if (t) return t->name;
    return id < sizeof names / sizeof *names && names[id] ? names[id] : "an unknown type";
}
