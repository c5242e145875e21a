/* unit_ropes.c: the RoPE tables of configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/family_config.h"

#include <math.h>
#include <string.h>

static void near(float have, double want) { assert_true(fabs(have - want) <= 3e-7 * fabs(want)); }

static void test_ropes(void **state)
{
    (void)state;
    struct hf_config c;
    struct err e = {0};
    /* 8 of 16 dimensions rotate: pairs 4 to 7 have no frequency */
    assert_int_equal(read_class(&c, "StableLmForCausalLM",
                                ", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                                "\"num_key_value_heads\": 4, \"partial_rotary_factor\": 0.5",
                                &e),
                     0);
    assert_int_equal(c.rotary, 8);
    near(c.inv_freq[1], 0.1);
    assert_true(c.inv_freq[4] == 0 && c.inv_freq[7] == 0);
    hfc_free(&c);
    assert_int_equal(
        read_class(&c, "Phi3ForCausalLM",
                   ", \"hidden_size\": 16, \"num_attention_heads\": 4, "
                   "\"max_position_embeddings\": 4096, \"original_max_position_embeddings\": "
                   "64, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 2], "
                   "\"long_factor\": [4, 5]}",
                   &e),
        0);
    near(c.inv_freq[1], 0.005);
    near(c.inv_freq_long[0], 0.25);
    near(c.inv_freq_long[1], 0.002);
    near((float)c.rope_scale, sqrt(1 + log(64) / log(64)));
    assert_int_equal(c.rope_long_from, 64);
    hfc_free(&c);
    /* the key beside rope_scaling has priority, as in transformers */
    assert_int_equal(read_class(&c, "LlamaForCausalLM",
                                ", \"vocab_size\": 8, \"original_max_position_embeddings\": 64, "
                                "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                                "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                                "\"original_max_position_embeddings\": 8192}",
                                &e),
                     0);
    near(c.inv_freq[40], pow(1e4, -80.0 / 128) / 8);
    hfc_free(&c);
    /* numbers without the name of a type belong to none */
    assert_int_equal(read_class(&c, "LlamaForCausalLM",
                                ", \"rope_scaling\": {\"factor\": 8, \"low_freq_factor\": 1}", &e),
                     -1);
    assert_non_null(strstr(e.msg, "rope_scaling has factor, but no rope_type"));
    hfc_free(&c);
    /* the yarn that gpt-oss has by default takes the theta that is there */
    assert_int_equal(read_class(&c, "GptOssForCausalLM", ", \"rope_theta\": 10000", &e), 0);
    near(c.inv_freq[31], pow(1e4, -62.0 / 64) / 32);
    hfc_free(&c);
    assert_int_equal(read_class(&c, "Gemma3ForCausalLM",
                                ", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": "
                                "\"default\"}, \"full_attention\": {\"rope_type\": \"linear\", "
                                "\"factor\": 8}}",
                                &e),
                     0);
    near(c.sliding_inv_freq[1], pow(1e4, -2.0 / 256));
    near(c.inv_freq[1], pow(1e6, -2.0 / 256) / 8);
    hfc_free(&c);
    /* Gemma 2 has one RoPE, whose angles may be scaled */
    assert_int_equal(read_class(&c, "Gemma2ForCausalLM",
                                ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}", &e),
                     0);
    assert_true(c.rope_scale > 1.1);
    hfc_free(&c);
    /* proportional: the first quarter of the pairs of the whole head; other heads without windows
     */
    assert_int_equal(read_class(&c, "Gemma4ForCausalLM",
                                ", \"hidden_size_per_layer_input\": 0, \"global_head_dim\": 32, "
                                "\"head_dim\": 8",
                                &e),
                     0);
    near(c.inv_freq[3], pow(1e6, -6.0 / 32));
    assert_true(c.inv_freq[4] == 0 && c.inv_freq[15] == 0);
    near(c.sliding_inv_freq[3], pow(1e4, -6.0 / 8));
    assert_true(c.head_dims[5] == 32 && c.head_dims[0] == 8);
    hfc_free(&c);
    /* gpt-oss without rope keys: YaRN of 4096 positions, factor 32 */
    assert_int_equal(read_class(&c, "GptOssForCausalLM", "", &e), 0);
    near((float)c.rope_scale, 0.1 * log(32) + 1);
    assert_true(c.windows[0] == 128 && c.windows[1] == 0);
    hfc_free(&c);
    /* of Llama's heads all dimensions rotate */
    assert_int_equal(read_class(&c, "LlamaForCausalLM", ", \"partial_rotary_factor\": 0.5", &e), 0);
    assert_int_equal(c.rotary, c.head_dim);
    hfc_free(&c);
    /* a number as text; a list of booleans */
    assert_int_equal(read_class(&c, "LlamaForCausalLM",
                                ", \"rope_theta\": \"1e4\", \"rope_scaling\": {\"rope_type\": "
                                "\"linear\", \"factor\": \"4.0\"}",
                                &e),
                     0);
    near(c.inv_freq[1], pow(1e4, -2.0 / 128) / 4);
    hfc_free(&c);
    assert_int_equal(read_class(&c, "SmolLM3ForCausalLM",
                                ", \"num_hidden_layers\": 2, \"no_rope_layers\": [true, false]",
                                &e),
                     0);
    assert_true(!c.no_rope[0] && c.no_rope[1]);
    hfc_free(&c);
    /* numbers of YaRN that are 0 count as missing */
    assert_int_equal(read_class(&c, "LlamaForCausalLM",
                                ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8, "
                                "\"beta_fast\": 0, \"mscale\": 1, \"mscale_all_dim\": 0}",
                                &e),
                     0);
    near((float)c.rope_scale, 0.1 * log(8) + 1);
    hfc_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ropes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
