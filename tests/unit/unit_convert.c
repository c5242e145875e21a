/* unit_convert.c: the converter's pure functions, against values computed by hand or by another
 * program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "convert/hf_config.h"
#include "convert/mxfp4.h"
#include "convert/panels.h"
#include "convert/quant_config.h"
#include "convert/round8.h"
#include "convert/slots.h"
#include "convert/unpack.h"
#include "convert/writer.h"
#include "core/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct notes quiet = {.quiet = 1};

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

/* Writes code j into a bit stream bit by bit: simple, without special cases at word borders. */
static void put_stream(uint32_t *words, size_t stride, int64_t j, int bits, uint32_t code)
{
    for (int b = 0; b < bits; b++) {
        int64_t pos = j * bits + b;
        words[(size_t)(pos / 32) * stride] |= ((code >> b) & 1) << (pos % 32);
    }
}

static void test_stream_widths(void **state)
{
    (void)state;
    static const int widths[] = {2, 3, 4, 8};
    for (int w = 0; w < 4; w++) {
        enum { IN = 96, STRIDE = 21 };
        int bits = widths[w];
        uint32_t words[IN * 8 / 32 * STRIDE] = {0}, seed = 5;
        uint8_t want[IN][16], have[IN][16];
        for (int j = 0; j < IN; j++)
            for (int c = 0; c < 16; c++)
                put_stream(words + c, STRIDE, j, bits,
                           want[j][c] = (uint8_t)(next_random(&seed) & ((1u << bits) - 1)));
        unpack_codes(&have[0][0], words, STRIDE, IN, UNPACK_STREAM, bits);
        assert_memory_equal(want, have, sizeof want);
        assert_int_equal(unpack_n_words(IN, bits), IN * bits / 32);
    }
}

/* The straddling fields of 3-bit words, from the format's description. */
static void test_three_bits_by_hand(void **state)
{
    (void)state;
    uint32_t w[3] = {3u << 30 | 5u, 1u | 6u << 1 | 1u << 31, 2u | 7u << 29};
    uint16_t z[32];
    unpack_zero_row(z, w, 32, UNPACK_STREAM, 3, ZEROS_AS_STORED, NULL);
    assert_int_equal(z[0], 5);
    assert_int_equal(z[10], 3 | 1 << 2); /* two bits of word 0, one of word 1 */
    assert_int_equal(z[11], 6);
    assert_int_equal(z[21], 1 | 2 << 1); /* one bit of word 1, two of word 2 */
    assert_int_equal(z[31], 7);
}

static void test_planar(void **state)
{
    (void)state;
    /* 5 bits: four words of low nibbles, then one word of fifth bits */
    uint32_t w[5] = {0x76543210, 0xfedcba98, 0, 0x10000000, 0x80000101};
    uint16_t z[32];
    unpack_zero_row(z, w, 32, UNPACK_PLANAR, 5, ZEROS_AS_STORED, NULL);
    assert_int_equal(z[0], 16);
    assert_int_equal(z[7], 7);
    assert_int_equal(z[8], 8 + 16);
    assert_int_equal(z[15], 15);
    assert_int_equal(z[31], 1 + 16);
    uint32_t words[5 * 16];
    uint8_t codes[32][16];
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 16; c++) words[r * 16 + c] = w[r];
    unpack_codes(&codes[0][0], words, 16, 32, UNPACK_PLANAR, 5);
    for (int j = 0; j < 32; j++) assert_int_equal(codes[j][3], z[j]);
}

/* z = 3 0 5 8 8 8 8 8 as two writers store it, and the interpretation of each reader. */
static void test_v1_zero_points(void **state)
{
    (void)state;
    const uint32_t autogptq = 0xfffffff2, gptqmodel = 0x777773f2;
    static const uint16_t field_plus_1[] = {3, 16, 4, 8, 8, 8, 8, 8},
                          whole_word[] = {3, 0, 5, 8, 8, 8, 8, 8};
    uint16_t z[8];
    uint64_t all_ones = 0;
    unpack_zero_row(z, &gptqmodel, 8, UNPACK_STREAM, 4, ZEROS_WORD_PLUS, &all_ones);
    assert_memory_equal(z, whole_word, sizeof z);
    assert_int_equal(all_ones, 1);
    unpack_zero_row(z, &gptqmodel, 8, UNPACK_STREAM, 4, ZEROS_PLUS_1, NULL);
    assert_memory_equal(z, field_plus_1, sizeof z);
    unpack_zero_row(z, &autogptq, 8, UNPACK_STREAM, 4, ZEROS_PLUS_1, NULL);
    assert_int_equal(z[0], 3);
    for (int i = 1; i < 8; i++) assert_int_equal(z[i], 16);
    unpack_zero_row(z, &(uint32_t){0x88888888}, 8, UNPACK_STREAM, 4, ZEROS_AS_STORED, NULL);
    for (int i = 0; i < 8; i++) assert_int_equal(z[i], 8);
    unpack_zero_row(z, &(uint32_t){0xff7f00fe}, 4, UNPACK_STREAM, 8, ZEROS_PLUS_1, NULL);
    assert_true(z[0] == 255 && z[1] == 1 && z[2] == 128 && z[3] == 256);
    unpack_zero_row(z, (uint32_t[]){0xdb6db6db, 0xb6db6db6, 0x6db6db6d}, 8, UNPACK_STREAM, 3,
                    ZEROS_WORD_PLUS, NULL);
    for (int i = 0; i < 8; i++) assert_int_equal(z[i], 4);
}

static void test_awq_order(void **state)
{
    (void)state;
    const uint32_t row[2] = {0x75316420, 0xfdb9eca8}; /* columns 0..15 hold their own number */
    uint8_t codes[16];
    uint16_t z[16];
    unpack_codes(codes, row, 2, 1, UNPACK_AWQ, 4);
    unpack_zero_row(z, row, 16, UNPACK_AWQ, 4, ZEROS_AS_STORED, NULL);
    for (int c = 0; c < 16; c++) {
        assert_int_equal(codes[c], c);
        assert_int_equal(z[c], c);
    }
}

/* Single columns of AWQ, as for a list of rows. */
static void test_awq_columns(void **state)
{
    (void)state;
    const uint32_t row[2] = {0x75316420, 0xfdb9eca8}; /* columns 0..15 hold their own number */
    static const int32_t columns[5] = {13, 0, 7, 8, 3};
    uint32_t words[5];
    uint8_t codes[16];
    for (int i = 0; i < 5; i++) words[i] = row[columns[i] / 8];
    unpack_awq_columns(codes, words, 5, 1, columns, 5);
    for (int i = 0; i < 16; i++) assert_int_equal(codes[i], i < 5 ? columns[i] : 0);
}

/* OCP Microscaling Formats 1.0, table 5: E2M1; 2^(scale - 127) are the scales. */
static void test_mxfp4(void **state)
{
    (void)state;
    static const float value[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint8_t codes[16];
    for (int i = 0; i < 16; i++) codes[i] = (uint8_t)i;
    mxfp4_codes(codes, 16);
    for (int i = 0; i < 16; i++)
        assert_true(mxfp4_scale(130) * (float)(codes[i] - MXFP4_ZERO) == 8 * value[i]);
    assert_true(mxfp4_scale(0) == 0x1p-128f && isnan(mxfp4_scale(255)));
}

static void test_round8(void **state)
{
    (void)state;
    float w[40] = {0}, scales[2];
    uint8_t codes[40];
    assert_int_equal(round8_scale_type(0), DT_F16);
    assert_int_equal(round8_scale_type(1), DT_F16);
    assert_int_equal(round8_scale_type(1e-3f), DT_F32);
    assert_int_equal(round8_scale_type(1e6f), DT_F32);
    w[0] = 127, w[1] = -127, w[2] = 2.5f, w[3] = 3.5f, w[4] = -0.5f, w[35] = -1;
    round8_row(codes, 1, scales, 1, DT_F16, w, 40);
    assert_true(scales[0] == 1);
    assert_true(codes[0] == 255 && codes[1] == 1);                      /* the ends */
    assert_true(codes[2] == 130 && codes[3] == 132 && codes[4] == 128); /* ties to even */
    assert_true(scales[1] >= 1 / 127.f && scales[1] < 1.001f / 127 && codes[35] == 1 &&
                codes[36] == 128);
    assert_true(f32_from_f16(f16_from_f32(scales[1])) == scales[1]);
    round8_row(codes, 1, scales, 1, DT_F32, (float[32]){0}, 32);
    assert_true(scales[0] == 0 && codes[0] == 128);
}

static void plan(struct slots *s, const int32_t *g_idx, int64_t in, int64_t n, int said, int planes)
{
    struct err e = {0};
    if (slots_plan(s, &(struct slots_source){g_idx, in, n, said, planes, 0}, &e))
        fail_msg("%s", e.msg);
}

static void test_slots_plain(void **state)
{
    (void)state;
    struct slots s;
    int32_t zeros[256] = {0}, identity[256];
    for (int i = 0; i < 256; i++) identity[i] = i / 64;
    const int32_t *forms[] = {NULL, zeros, identity};
    for (int f = 0; f < 3; f++) {
        plan(&s, forms[f], 256, 4, 64, 1);
        assert_true(s.identity && !s.act_order);
        assert_true(s.group == 64 && s.n_groups == 4 && s.k == 256 && s.groups[3].source == 3);
        slots_free(&s);
    }
    plan(&s, NULL, 256, 1, -1, 1); /* one group */
    assert_true(s.identity && s.group == 256 && s.n_groups == 1);
    slots_free(&s);
    plan(&s, NULL, 160, 3, 64, 1); /* a short last group: padded */
    assert_true(!s.identity && s.group == 64 && s.k == 192 && s.perm[159] == 159 &&
                s.perm[160] == -1 && s.perm[191] == -1);
    slots_free(&s);
    plan(&s, NULL, 64, 4, 16, 1); /* groups below 32 */
    assert_true(s.group == 32 && s.k == 128 && s.perm[15] == 15 && s.perm[16] == -1 &&
                s.perm[32] == 16);
    slots_free(&s);
    plan(&s, NULL, 256, 4, 32, 1); /* the configuration is wrong, the tensors imply 64 */
    assert_true(s.group == 64 && s.identity);
    slots_free(&s);
    for (int said = -1; said < 1; said++) { /* 2 groups of 192: 96 each, or 128 and 64 */
        struct err e = {0};
        int rc = slots_plan(&s, &(struct slots_source){NULL, 192, 2, said, 1, 0}, &e);
        assert_int_equal(rc, -1);
        assert_non_null(strstr(e.msg, said < 0 ? "group_size -1 does not fit 192 inputs"
                                               : "group_size is missing, and 192 inputs"));
        slots_free(&s);
    }
    plan(&s, NULL, 192, 2, 96, 1);
    assert_int_equal(s.groups[1].source, 1);
    assert_true(s.perm[95] == 95);
    slots_free(&s);
}

static void test_slots_act_order(void **state)
{
    (void)state;
    struct slots s;
    int32_t g[64];
    for (int i = 0; i < 64; i++) g[i] = 1 - i % 2; /* even inputs in group 1 */
    plan(&s, g, 64, 2, 32, 1);
    assert_true(s.act_order && !s.identity && s.k == 64);
    for (int j = 0; j < 32; j++) {
        assert_int_equal(s.perm[j], 2 * j + 1);
        assert_int_equal(s.perm[32 + j], 2 * j);
    }
    slots_free(&s);
    for (int i = 0; i < 64; i++)
        g[i] = i == 7 ? 0 : 2; /* one group too large, one of one input, one empty */
    plan(&s, g, 64, 3, 0, 1);
    assert_true(s.group == 32 && s.n_groups == 3 && s.groups[0].source == 0 &&
                s.groups[1].source == 2 && s.groups[2].source == 2);
    assert_true(s.perm[0] == 7 && s.perm[1] == -1 && s.perm[32] == 0 && s.perm[39] == 8 &&
                s.perm[94] == 63 && s.perm[95] == -1);
    slots_free(&s);
}

/* Inputs that arrive sorted only need padding and doubling. */
static void test_slots_sort(void **state)
{
    (void)state;
    enum { IN = 80 };
    struct slots s;
    int32_t g[IN], order[IN], arriving[8 * IN];
    for (int planes = 1; planes <= 2; planes++)
        for (int jumps = 0; jumps < 2; jumps++) {
            for (int i = 0; i < IN && !jumps; i++) g[i] = i >= 48;
            for (int i = 0; i < IN && jumps; i++) g[i] = i * 7 % 5 % 2;
            plan(&s, g, IN, 2, 48, planes);
            assert_true(s.act_order == jumps && s.group == 64 && s.k == 2 * 64 * planes);
            int32_t *before = memcpy(malloc((size_t)s.k * 4), s.perm, (size_t)s.k * 4);
            assert_int_equal(slots_sort(&s, IN, order), 0);
            assert_int_equal(slots_arriving(&s, arriving), 1); /* padding */
            for (int64_t j = 0, next[2] = {0, 0}; j < s.k; j++) {
                assert_int_equal(s.perm[j],
                                 before[j]); /* the reading of the checkpoint does not change */
                assert_int_equal(arriving[j] < 0 ? -1 : order[arriving[j]], before[j]);
                if (arriving[j] >= 0)
                    assert_int_equal(arriving[j], next[s.groups[j / s.group].high]++);
            }
            free(before);
            slots_free(&s);
        }
    for (int i = 0; i < 64; i++) g[i] = i % 2;
    plan(&s, g, 64, 2, 32, 1);
    assert_int_equal(slots_arriving(&s, arriving), 1);
    assert_int_equal(slots_sort(&s, 64, order), 0);
    assert_int_equal(slots_arriving(&s, arriving), 0);
    assert_true(order[1] == 2 && order[32] == 1 && !s.identity);
    slots_free(&s);
}

/* W4A4: groups before the last have one plane, the last two; input 3 i + 2 is an outlier. */
static void test_slots_low(void **state)
{
    (void)state;
    enum { IN = 96 };
    struct slots s;
    struct err e;
    int32_t g[IN];
    for (int i = 0; i < IN; i++) g[i] = i % 3;
    const struct slots_source from = {g, IN, 3, 32, 2, 2};
    assert_int_equal(slots_plan(&s, &from, &e), 0);
    assert_true(s.group == 32 && s.n_groups == 4 && s.k == 128 && s.act_order && s.low == 2);
    for (int i = 0; i < 4; i++)
        assert_true(s.groups[i].source == (i < 2 ? i : 2) && s.groups[i].high == (i == 2));
    for (int i = 0; i < 32; i++)
        assert_true(s.perm[i] == 3 * i && s.perm[64 + i] == 3 * i + 2 &&
                    s.perm[96 + i] == 3 * i + 2);
    slots_free(&s);
}

static void test_slots_refuse(void **state)
{
    (void)state;
    struct slots s;
    struct err e;
    int32_t g[64] = {0};
    g[9] = 2;
    const struct slots_source from = {g, 64, 2, 32, 1, 0}, contradictory = {NULL, 64, 3, 32, 1, 0};
    assert_int_equal(slots_plan(&s, &from, &e), -1);
    assert_non_null(strstr(e.msg, "g_idx[9] is 2"));
    g[9] = -1;
    assert_int_equal(slots_plan(&s, &from, &e), -1);
    assert_int_equal(slots_plan(&s, &contradictory, &e), -1);
    assert_non_null(strstr(e.msg, "group_size 32"));
}

/* Eight bits: two planes whose sum over the slots is the weight. */
static void test_planes(void **state)
{
    (void)state;
    enum { IN = 64, COLS = 16 };
    struct slots s;
    uint8_t codes[IN][COLS], dst[2 * IN / 8][16][4], zeros[4][16];
    uint16_t z[2][COLS];
    float scales[2][COLS], ours[4][16];
    uint32_t seed = 9;
    for (int j = 0; j < IN; j++)
        for (int c = 0; c < COLS; c++) codes[j][c] = (uint8_t)next_random(&seed);
    for (int g = 0; g < 2; g++)
        for (int c = 0; c < COLS; c++)
            z[g][c] = (uint16_t)(next_random(&seed) % 257),
            scales[g][c] = (float)(1 + next_random(&seed) % 9);
    z[0][3] = 256, z[1][4] = 0;
    plan(&s, NULL, IN, 2, 32, 2);
    assert_true(s.k == 2 * IN && s.n_groups == 4 && !s.identity);
    panels_pack(&dst[0][0][0], &codes[0][0], &s);
    panels_scales(ours, DT_F32, scales, DT_F32, COLS, COLS, &s);
    panels_zeros(&zeros[0][0], &z[0][0], COLS, COLS, &s);
    for (int c = 0; c < COLS; c++) {
        float w[IN] = {0};
        for (int j = 0; j < 2 * IN; j++) {
            int byte = dst[j / 8][c][j % 4], code = j % 8 < 4 ? byte & 15 : byte >> 4, g = j / 32;
            assert_true(zeros[g][c] <= 16);
            w[s.perm[j]] += ours[g][c] * (float)(code - zeros[g][c]);
        }
        for (int i = 0; i < IN; i++)
            assert_true(w[i] == scales[i / 32][c] * (float)(codes[i][c] - z[i / 32][c]));
    }
    slots_free(&s);
}

/* The fast path and the general path give the same bytes; rows past `out` stay zero. */
static void test_panels(void **state)
{
    (void)state;
    enum { IN = 160, STRIDE = 48, OUT = 40 };
    uint32_t words[IN / 8][STRIDE] = {{0}}, seed = 3;
    uint8_t codes[IN][16], slow[3][IN / 8][16][4], fast[3][IN / 8][16][4];
    struct slots s;
    for (int r = 0; r < IN / 8; r++)
        for (int c = 0; c < OUT; c++) words[r][c] = next_random(&seed) << 16 ^ next_random(&seed);
    plan(&s, NULL, IN, 5, 32, 1);
    for (int p = 0; p < 3; p++) {
        unpack_codes(&codes[0][0], &words[0][16 * p], STRIDE, IN, UNPACK_STREAM, 4);
        panels_pack(&slow[p][0][0][0], &codes[0][0], &s);
    }
    panels_from_words(&fast[0][0][0][0], &words[0][0], STRIDE, IN, 3);
    assert_memory_equal(slow, fast, sizeof slow);
    for (int i = 0; i < 8; i++) { /* row 21, inputs 24..31: block 3, low nibbles first */
        int byte = fast[1][3][5][i % 4];
        assert_int_equal(i < 4 ? byte & 15 : byte >> 4, (words[3][21] >> 4 * i) & 15);
    }
    for (int r = 8; r < 16; r++) assert_int_equal(fast[2][0][r][0], 0);
    uint16_t half[5][OUT], ours[3][5][16], z[5][OUT];
    uint8_t zeros[3][5][16];
    for (int g = 0; g < 5; g++)
        for (int c = 0; c < OUT; c++) half[g][c] = f16_from_f32((float)(g * 100 + c)), z[g][c] = 16;
    panels_scales(ours, DT_F16, half, DT_F16, OUT, OUT, &s);
    panels_zeros(&zeros[0][0][0], &z[0][0], OUT, OUT, &s);
    assert_true(f32_from_f16(ours[1][4][7]) == 423 && f32_from_f16(ours[2][0][7]) == 39 &&
                ours[2][0][8] == 0);
    assert_true(zeros[2][3][7] == 16 && zeros[2][3][8] == 0);
    slots_free(&s);
}

static int config(struct hf_config *c, const char *extra, struct err *e)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 256, "
             "\"num_attention_heads\": 4, \"vocab_size\": 9%s}",
             extra);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    int rc = hfc_read(c, j, NULL, &quiet, e);
    json_decref(j);
    return rc;
}

static void near(float have, double want) { assert_true(fabs(have - want) <= 3e-7 * fabs(want)); }

static void test_rope(void **state)
{
    (void)state;
    struct hf_config c;
    struct err e;
    assert_int_equal(config(&c, "", &e), 0); /* an old config: defaults for the rest */
    assert_true(c.head_dim == 64 && c.n_kv_heads == 4 && c.context == 2048 && c.bos == 1 &&
                c.n_eos == 1 && c.eos[0] == 2 && !c.tied);
    near(c.inv_freq[0], 1);
    near(c.inv_freq[1], 0.7498942093324559);
    near(c.inv_freq[31], 0.0001333521432163324);
    hfc_free(&c);
    assert_int_equal(config(&c, ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}", &e),
                     0);
    near(c.inv_freq[1], 0.7498942093324559 / 4);
    hfc_free(&c);
    assert_int_equal(config(&c,
                            ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": "
                            "500000.0, \"factor\": 8, \"low_freq_factor\": 1, "
                            "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}",
                            &e),
                     0);
    near(c.inv_freq[10], 0.016560440080994446);
    near(c.inv_freq[15], 0.0013718935677611381);
    near(c.inv_freq[31], 3.7673226901739645e-07);
    hfc_free(&c);
    assert_int_equal(
        config(&c,
               ", \"head_dim\": 128, \"rope_theta\": 1000000, \"max_position_embeddings\": 131072, "
               "\"rope_scaling\": {\"type\": \"yarn\", "
               "\"factor\": 4, \"original_max_position_embeddings\": 32768}",
               &e),
        0);
    near(c.inv_freq[20], 0.01333521432163324);
    near(c.inv_freq[30], 0.0010643609812470017);
    near(c.inv_freq[40], 4.445698525097307e-05);
    assert_true(fabs(c.rope_scale - 1.138629436111989) < 1e-12 && c.context == 131072);
    hfc_free(&c);
    assert_int_equal(config(&c,
                            ", \"max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": "
                            "\"dynamic\", \"factor\": 2}",
                            &e),
                     0);
    near(c.inv_freq[1], 1 / pow(10000, 2.0 / 64));
    near(c.inv_freq_long[1], 1 / pow(10000 * pow(2 * 2 - 1, 64.0 / 62), 2.0 / 64));
    assert_true(c.context == 4096 && c.rope_long_from == 4096);
    hfc_free(&c);
    assert_int_equal(config(&c, ", \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2}", &e),
                     -1);
    assert_non_null(strstr(e.msg, "longrope"));
    hfc_free(&c);
}

static void test_windows(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int windows[3];
    } cases[] = {
        {"\"MistralForCausalLM\"], \"sliding_window\": 16", {16, 16, 16}},
        {"\"MistralForCausalLM\"], \"sliding_window\": null", {0, 0, 0}},
        {"\"MistralForCausalLM\"]", {4096, 4096, 4096}},
        {"\"Qwen2ForCausalLM\"], \"sliding_window\": 16", {0, 0, 0}},
        {"\"Qwen2ForCausalLM\"], \"sliding_window\": 16, \"use_sliding_window\": true, "
         "\"max_window_layers\": 1",
         {0, 16, 16}},
        {"\"Qwen3ForCausalLM\"], \"sliding_window\": 8, \"use_sliding_window\": true, "
         "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"]",
         {8, 0, 8}},
        {"\"LlamaForCausalLM\"], \"sliding_window\": 16", {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct hf_config c;
        struct err e = {0};
        snprintf(text, sizeof text,
                 "{\"hidden_size\": 256, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
                 "\"num_hidden_layers\": 3, \"vocab_size\": 9, "
                 "\"max_position_embeddings\": 9999, \"architectures\": [%s}",
                 cases[i].text);
        json_t *j = json_loads(text, 0, NULL),
               *gen = json_loads("{\"eos_token_id\": [7, 5]}", 0, NULL);
        if (hfc_read(&c, j, gen, &quiet, &e)) fail_msg("%zu: %s", i, e.msg);
        assert_memory_equal(c.windows, cases[i].windows, sizeof cases[i].windows);
        assert_true(c.n_eos == 2 && c.eos[0] == 7 && c.eos[1] == 5);
        hfc_free(&c);
        json_decref(j);
        json_decref(gen);
    }
}

/* CONFIG of Gemma; its windows are checked against `full`: a bit for each layer without one. */
static void gemma(const char *text, struct hf_config *c, unsigned full)
{
    struct err e = {0};
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    if (hfc_read(c, j, NULL, &quiet, &e)) fail_msg("%s", e.msg);
    json_decref(j);
    for (int i = 0; i < c->n_layers; i++) assert_int_equal(!c->windows[i], full >> i & 1);
}

static void test_gemma(void **state)
{
    (void)state;
    struct hf_config c;
    struct err e = {0};
    gemma("{\"architectures\": [\"Gemma2ForCausalLM\"], \"num_hidden_layers\": 4}", &c, 0xa);
    assert_true(c.dim == 2304 && c.n_heads == 8 && c.n_kv_heads == 4 && c.head_dim == 256);
    assert_true(c.vocab == 256000 && c.windows[0] == 4096 && c.tied && c.embed_scale == 48);
    assert_true(c.attend_scale == 0.0625 && c.attend_softcap == 50 && c.logits_softcap == 30);
    assert_memory_equal(c.inv_freq, c.sliding_inv_freq, 128 * sizeof(float));
    hfc_free(&c);
    /* as the 4B with images has it: what is not there has its default */
    gemma("{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", "
          "\"eos_token_id\": [1, 106], \"text_config\": {\"hidden_size\": 2560, "
          "\"intermediate_size\": 10240, \"num_hidden_layers\": 7, \"sliding_window\": 1024, "
          "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}}}",
          &c, 0x20);
    assert_true(c.dim == 2560 && c.ffn == 10240 && c.n_heads == 8 && c.vocab == 262208);
    assert_true(c.n_eos == 2 && c.eos[1] == 106 && c.windows[0] == 1024 && c.traits & HF_QK_NORM);
    assert_true(c.attend_softcap == 0 && c.logits_softcap == 0);
    near(c.inv_freq[1], pow(1e6, -2.0 / 256) / 8);
    near(c.sliding_inv_freq[1], pow(1e4, -2.0 / 256));
    hfc_free(&c);
    gemma("{\"architectures\": [\"Gemma3ForCausalLM\"], \"num_hidden_layers\": 3, "
          "\"rope_parameters\": "
          "{\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": 5e5}, "
          "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 2e4}}, "
          "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]}",
          &c, 5);
    near(c.inv_freq[1], pow(5e5, -2.0 / 256));
    near(c.sliding_inv_freq[1], pow(2e4, -2.0 / 256));
    hfc_free(&c);
    json_t *j = json_loads("{\"architectures\": [\"Gemma2ForCausalLM\"], "
                           "\"hidden_activation\": \"relu\"}",
                           0, NULL);
    assert_int_equal(hfc_read(&c, j, NULL, &quiet, &e), -1);
    assert_non_null(strstr(e.msg, "hidden_activation 'relu'"));
    hfc_free(&c);
    json_decref(j);
}

static int merge(struct quant_config *q, const char *text, struct err *e)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    int rc = qc_merge(q, j, "test.json", &quiet, e);
    json_decref(j);
    return rc;
}

static void test_overrides(void **state)
{
    (void)state;
    struct quant_config q = {0};
    struct quant_module m;
    struct err e = {0};
    assert_int_equal(merge(&q,
                           "{\"bits\": 4, \"group_size\": 128, \"sym\": true, \"meta\": "
                           "{\"quantizer\": [\"gptqmodel:4.0\"]}, \"dynamic\": {"
                           "\"-:.*\\\\.0\\\\.\": {}, \"+:model\\\\.layers\\\\.1\\\\.\": {\"bits\": "
                           "8, \"group_size\": 32}, \"layers\": {\"bits\": 2}, "
                           "\"model\\\\.layers\\\\.3\": {\"bits\": 2}, \"model\\\\.layers\\\\.4\": "
                           "{\"bits\": 1}, \"model\\\\.layers\\\\.5\": {\"bits\": 9}}}",
                           &e),
                     0);
    assert_true(q.by_gptqmodel);
    assert_int_equal(qc_module(&q, "model.layers.0.mlp.up_proj", &m, &e), 0);
    assert_true(m.bits == 4 && m.group == 128);
    assert_int_equal(qc_module(&q, "model.layers.1.mlp.up_proj", &m, &e), 0);
    assert_true(m.bits == 8 && m.group == 32);
    assert_int_equal(qc_module(&q, "model.layers.2.mlp.up_proj", &m, &e),
                     0); /* "layers" is not at the start */
    assert_int_equal(m.bits, 4);
    assert_int_equal(qc_module(&q, "model.layers.3.mlp.up_proj", &m, &e), 0);
    assert_int_equal(m.bits, 2);
    for (int i = 4; i < 6; i++) {
        assert_int_equal(qc_module(&q, i == 4 ? "model.layers.4.x" : "model.layers.5.x", &m, &e),
                         -1);
        assert_non_null(strstr(e.msg, "bits is not 2 to 8"));
    }
    assert_int_equal(merge(&q, "{\"bits\": 8}", &e), 0); /* a later place only warns */
    assert_int_equal(q.bits, 4);
    qc_free(&q);
}

static void test_quant_config(void **state)
{
    (void)state;
    struct quant_config q = {0};
    struct err e = {0};
    assert_int_equal(merge(&q, "{\"wbits\": 4, \"groupsize\": 128}", &e), 0);
    assert_true(q.bits == 4 && q.group == 128 && !q.sym_said && q.label == LABEL_V1);
    qc_free(&q);
    assert_int_equal(merge(&q,
                           "{\"gptq_bits\": \"4\", \"gptq_group_size\": \"-1\", \"gptq_sym\": "
                           "\"False\", \"gptq_checkpoint_format\": \"gptq_v2\"}",
                           &e),
                     0);
    assert_true(q.bits == 4 && q.group == -1 && q.sym_said && !q.sym && q.label == LABEL_V2);
    qc_free(&q);
    assert_int_equal(merge(&q,
                           "{\"w_bit\": 4, \"q_group_size\": 64, \"quant_method\": \"awq\", "
                           "\"version\": \"GEMM\", \"zero_point\": true}",
                           &e),
                     0);
    assert_true(q.method == QUANT_AWQ && q.group == 64 && q.sym_said && !q.sym);
    qc_free(&q);
    static const char *const refused[] = {"{\"quant_method\": \"bitsandbytes\"}",
                                          "{\"checkpoint_format\": \"marlin\"}",
                                          "{\"bits\": 4, \"pack_dtype\": \"int16\"}",
                                          "{\"bits\": 4, \"rotation\": \"hadamard\"}",
                                          "{\"bits\": 16}",
                                          "{\"bits\": 4, \"checkpoint_format\": 1}",
                                          "{\"bits\": 4, \"checkpoint_format\": []}",
                                          "{\"bits\": 4, \"format\": \"unheard\"}",
                                          "{\"quant_method\": \"awq\", \"version\": \"gemv\"}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(merge(&q, refused[i], &e), -1);
        qc_free(&q);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 bytes"},
                 {999, "999 bytes"},
                 {1000, "1.00 KB"},
                 {5261737, "5.26 MB"},
                 {52617370, "52.6 MB"},
                 {999499, "999 KB"},
                 {999500, "1.00 MB"},
                 {774000000, "774 MB"},
                 {9994999, "9.99 MB"},
                 {9995000, "10.0 MB"},
                 {99950000, "100 MB"},
                 {999500000, "1.00 GB"},
                 {1000000000000, "1.00 TB"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "1 ms"},       {0.0301, "30 ms"}, {0.9994, "999 ms"}, {0.9996, "1.0 s"},
                 {61.26, "61.3 s"}, {312, "312 s"},    {1230, "20 min"}};
    char text[32];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_string_equal(units_bytes(sizes[i].bytes, text), sizes[i].text);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(units_seconds(times[i].seconds, text), times[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_widths),
        cmocka_unit_test(test_three_bits_by_hand),
        cmocka_unit_test(test_planar),
        cmocka_unit_test(test_v1_zero_points),
        cmocka_unit_test(test_awq_order),
        cmocka_unit_test(test_slots_plain),
        cmocka_unit_test(test_slots_act_order),
        cmocka_unit_test(test_slots_sort),
        cmocka_unit_test(test_slots_low),
        cmocka_unit_test(test_slots_refuse),
        cmocka_unit_test(test_planes),
        cmocka_unit_test(test_panels),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_quant_config),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_awq_columns),
        cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_round8),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
