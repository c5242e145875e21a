/* unit_hybrids.c: configurations of families with Mamba-2 or short convolutions: forms of their
 * keys, defaults, refusals; the rows of Mamba's linears. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "convert/hf_config.h"
#include "convert/plan_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct notes quiet = {.quiet = 1};

/* Reads {"architectures": [CLASS], "vocab_size": 320, ..} with sizes and REST. */
static int read_config(struct hf_config *c, const char *class, const char *rest, struct err *e)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"architectures\": [\"%s\"], \"vocab_size\": 320, \"hidden_size\": 128, "
             "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, %s}",
             class, rest);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    int rc = hfc_read(c, j, NULL, &quiet, e);
    json_decref(j);
    return rc;
}

#define NEMOTRON "NemotronHForCausalLM"
#define GRANITE "GraniteMoeHybridForCausalLM"
#define BAMBA "BambaForCausalLM"
#define FALCON "FalconH1ForCausalLM"
#define KIMI "KimiLinearForCausalLM"
#define JAMBA "JambaForCausalLM"
#define LFM2 "Lfm2ForCausalLM"
#define OLMO "OlmoHybridForCausalLM"
#define LFM2_MOE "Lfm2MoeForCausalLM"
#define HEADS_8 "\"mamba_n_heads\": 8, \"mamba_d_head\": 32, \"mamba_d_state\": 16"
#define KDA(full, layers)                                                                          \
    "\"linear_attn_config\": {\"full_attn_layers\": " full ", \"kda_layers\": " layers             \
    ", \"num_heads\": 3, \"head_dim\": 24}"
#define TWO "\"num_hidden_layers\": 2"
#define FOUR "\"num_hidden_layers\": 4"

/* A configuration and some keys of the model file; null: the key is not there. */
static const struct {
    const char *class, *config, *expected;
} cases[] = {
    {NEMOTRON,
     "\"hybrid_override_pattern\": \"M-*M\", \"intermediate_size\": 96, \"head_dim\": 48, "
     "\"mamba_num_heads\": 6, \"mamba_head_dim\": 24, \"n_groups\": 3, \"ssm_state_size\": 16, "
     "\"conv_kernel\": 3, \"use_conv_bias\": false, \"layer_norm_epsilon\": 1e-4",
     "{\"architecture\": \"nemotron_h\", \"n_layers\": 4, \"layer_types\": [1, 2, 0, 1], "
     "\"linear_value_heads\": 6, \"linear_value_dim\": 24, \"linear_key_heads\": 3, "
     "\"linear_key_dim\": 16, \"conv_width\": 3, \"conv_bias\": 0, \"head_dim\": 48, \"ffn\": 96, "
     "\"norm_eps\": 1e-4, \"rope\": \"none\", \"experts\": null, \"expert_dim\": null}"},
    {NEMOTRON,
     "\"layers_block_type\": [\"mamba\", \"moe\", \"attention\", \"mlp\"], "
     "\"n_routed_experts\": 10, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 80, "
     "\"moe_shared_expert_intermediate_size\": 96, \"routed_scaling_factor\": 2.5, "
     "\"moe_latent_size\": 64, \"attention_head_dim\": 40",
     "{\"layer_types\": [1, 3, 0, 2], \"experts\": [0, 1, 0, 0], \"n_experts\": 10, \"top_k\": 3, "
     "\"expert_ffn\": 80, \"shared_ffn\": 96, \"expert_dim\": 64, \"router_score\": \"sigmoid\", "
     "\"router_normalize\": 1, \"router_scale\": 2.5, \"head_dim\": 40, \"conv_bias\": 1, "
     "\"linear_value_heads\": 128, \"linear_value_dim\": 64, \"linear_key_heads\": 8, "
     "\"linear_key_dim\": 128, \"ffn\": 21504}"},
    {NEMOTRON,
     "\"layers_block_type\": [\"linear_attention\", \"full_attention\"], "
     "\"num_hidden_layers\": 2, \"time_step_limit\": [0.0, null], \"mlp_hidden_act\": \"relu2\"",
     "{\"layer_types\": [1, 0], \"experts\": null}"},
    {GRANITE,
     "\"layer_types\": [\"mamba\", \"attention\"], " TWO ", " HEADS_8 ", \"mamba_n_groups\": 2, "
     "\"shared_intermediate_size\": 96, \"intermediate_size\": 40, \"num_local_experts\": 6, "
     "\"num_experts_per_tok\": 3, \"logits_scaling\": 4.0, \"position_embedding_type\": \"nope\"",
     "{\"architecture\": \"granite_hybrid\", \"layer_types\": [1, 0], \"experts\": [1, 1], "
     "\"expert_ffn\": 40, \"shared_ffn\": 96, \"router_score\": \"softmax\", "
     "\"router_normalize\": 1, \"linear_key_heads\": 2, \"linear_value_heads\": 8, "
     "\"logits_scale\": 0.25, \"rope\": \"none\", \"conv_bias\": 1}"},
    {GRANITE,
     "\"layer_types\": [\"attention\", \"mamba\"], " TWO ", \"mamba_n_heads\": 16, "
     "\"mamba_d_head\": \"auto\", \"mamba_conv_bias\": false, \"num_local_experts\": 0, "
     "\"shared_intermediate_size\": 96, \"position_embedding_type\": \"rope\", "
     "\"rope_theta\": 10000.0",
     "{\"layer_types\": [0, 1], \"experts\": null, \"ffn\": 96, \"linear_value_dim\": 16, "
     "\"linear_key_dim\": 256, \"conv_bias\": 0, \"rope\": \"default, theta 10000\"}"},
    {BAMBA, "\"attn_layer_indices\": [1], " TWO ", " HEADS_8 ", \"attn_rotary_emb\": 16",
     "{\"architecture\": \"bamba\", \"layer_types\": [1, 0], \"rope\": \"default, theta 10000, 16 "
     "of 32 dimensions\"}"},
    {BAMBA, "\"attn_layer_indices\": null, " TWO ", " HEADS_8, "{\"layer_types\": [1, 1]}"},
    {FALCON,
     TWO
     ", \"mamba_d_ssm\": 192, \"mamba_n_heads\": 8, \"mamba_d_head\": 24, \"head_dim\": 64, "
     "\"attention_in_multiplier\": 2.0, \"key_multiplier\": 0.5, "
     "\"attention_out_multiplier\": 3.0, \"ssm_in_multiplier\": 2.0, \"ssm_out_multiplier\": 0.5, "
     "\"ssm_multipliers\": [0.5, 1.0, 1.0, 1.0, 0.25], \"mlp_multipliers\": [0.25, 4.0], "
     "\"embedding_multiplier\": 5.0, \"lm_head_multiplier\": 0.125",
     "{\"architecture\": \"falcon_h1\", \"attend_scale\": 0.25, \"attend_out_scale\": 6.0, "
     "\"mamba_gate_scale\": 1.0, \"mamba_dt_scale\": 0.5, \"mamba_out_scale\": 0.5, "
     "\"mlp_gate_scale\": 0.25, \"mlp_out_scale\": 4.0, \"embed_scale\": 5.0, "
     "\"logits_scale\": 0.125, \"mamba_norm\": \"none\", \"linear_value_dim\": 24, "
     "\"layer_types\": null}"},
    {FALCON,
     TWO ", \"mamba_d_ssm\": null, \"mamba_n_heads\": 8, \"mamba_d_head\": \"auto\", "
         "\"mamba_rms_norm\": true",
     "{\"linear_value_dim\": 32, \"mamba_norm\": \"first\", \"mlp_gate_scale\": 1.0, "
     "\"mamba_dt_scale\": 1.0}"},
    {FALCON,
     TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"mamba_d_head\": 32, "
         "\"mamba_rms_norm\": true, \"mamba_norm_before_gate\": false",
     "{\"mamba_norm\": \"gated\"}"},
    {OLMO,
     TWO ", \"layer_types\": [\"linear_attention\", \"full_attention\"], "
         "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": null}",
     "{\"architecture\": \"olmo_hybrid\", \"layer_types\": [1, 0], \"linear_key_heads\": 4, "
     "\"linear_value_heads\": 4, \"linear_key_dim\": 24, \"linear_value_dim\": 48, "
     "\"beta_scale\": 2.0, \"delta_eps\": 1e-5, \"rope\": \"none\"}"},
    {OLMO,
     TWO ", \"layer_types\": [\"linear_attention\", \"full_attention\"], \"rope_theta\": 500000.0, "
         "\"linear_allow_neg_eigval\": false, \"linear_num_key_heads\": 2, "
         "\"linear_key_head_dim\": 24",
     "{\"beta_scale\": 1.0, \"linear_key_heads\": 2, \"linear_value_dim\": 48, "
     "\"rope\": \"default, theta 500000\"}"},
    {KIMI,
     FOUR ", " KDA(
         "[4]",
         "[1, 2, 3]") ", \"q_lora_rank\": null, \"num_experts_per_token\": 3, "
                      "\"num_experts\": 8, \"moe_renormalize\": false, \"model_max_length\": 640, "
                      "\"num_expert_group\": 4, \"topk_group\": 2, \"first_k_dense_replace\": 2, "
                      "\"moe_intermediate_size\": 40, \"num_shared_experts\": 2, \"head_dim\": 36",
     "{\"architecture\": \"kimi_linear\", \"layer_types\": [1, 1, 1, 0], \"linear_key_heads\": 3, "
     "\"linear_value_heads\": 3, \"linear_key_dim\": 24, \"linear_value_dim\": 24, "
     "\"conv_width\": 4, \"latent_dim\": 512, \"q_lora_dim\": 0, \"head_dim\": 64, "
     "\"attend_scale\": 0.0721687836487032, \"context\": 640, \"experts\": [0, 0, 1, 1], "
     "\"top_k\": 3, \"router_normalize\": 0, \"router_groups\": 4, \"router_kept_groups\": 2, "
     "\"router_score\": \"sigmoid\", \"shared_ffn\": 80, \"rope\": \"none\"}"},
    {JAMBA,
     "\"num_hidden_layers\": 5, \"attn_layer_period\": 3, \"attn_layer_offset\": 1, "
     "\"expert_layer_period\": 4, \"expert_layer_offset\": 2, \"num_experts\": 6, "
     "\"mamba_dt_rank\": \"auto\", \"mamba_expand\": 3, \"mamba_d_state\": 12, "
     "\"mamba_conv_bias\": false",
     "{\"architecture\": \"jamba\", \"layer_types\": [1, 0, 1, 1, 0], "
     "\"experts\": [0, 0, 1, 0, 0], \"n_experts\": 6, \"top_k\": 2, \"router_normalize\": 0, "
     "\"router_score\": \"softmax\", \"scan_inner\": 384, \"scan_state\": 12, \"scan_rank\": 8, "
     "\"conv_width\": 4, \"conv_bias\": 0, \"rope\": \"none\", \"norm_eps\": 1e-6}"},
    {JAMBA, FOUR ", \"num_experts\": 1, \"mamba_dt_rank\": 5",
     "{\"experts\": null, \"scan_rank\": 5, \"scan_inner\": 256, \"conv_bias\": 1, "
     "\"layer_types\": [1, 1, 1, 1]}"},
    {LFM2, FOUR ", \"full_attn_idxs\": [2], \"conv_L_cache\": 4, \"conv_bias\": true",
     "{\"architecture\": \"lfm2\", \"layer_types\": [1, 1, 0, 1], \"conv_width\": 4, "
     "\"conv_bias\": 1, \"experts\": null, \"norm_eps\": 1e-5, \"linear_key_heads\": null}"},
    {LFM2_MOE,
     "\"layer_types\": [\"conv\", \"full_attention\"], " TWO ", \"num_dense_layers\": 1, "
     "\"intermediate_size\": 96, \"moe_intermediate_size\": 40, \"num_experts\": 8, "
     "\"num_experts_per_tok\": 2, \"norm_topk_prob\": false, \"use_expert_bias\": false",
     "{\"layer_types\": [1, 0], \"experts\": [0, 1], \"ffn\": 96, \"expert_ffn\": 40, "
     "\"shared_ffn\": 0, \"router_score\": \"sigmoid\", \"router_normalize\": 0, "
     "\"router_bias\": 0, \"conv_bias\": 0, \"conv_width\": 3}"},
};

static void test_hybrids(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hf_config c;
        struct err e = {0};
        json_t *expected = json_loads(cases[i].expected, 0, NULL), *want;
        assert_non_null(expected);
        if (read_config(&c, cases[i].class, cases[i].config, &e))
            fail_msg("%s %s: %s", cases[i].class, cases[i].config, e.msg);
        json_t *have = hfc_to_json(&c);
        const char *key;
        json_object_foreach (expected, key, want) {
            const json_t *v = json_object_get(have, key);
            int same = json_is_real(want)
                           ? fabs(json_number_value(v) - json_number_value(want)) < 1e-12
                           : json_equal(v, want);
            if (json_is_null(want) ? v != NULL : !same)
                fail_msg("%s %s: %s is %s", cases[i].class, cases[i].config, key,
                         v ? json_dumps(v, JSON_ENCODE_ANY) : "not there");
        }
        json_decref(have);
        json_decref(expected);
        hfc_free(&c);
    }
}

static void test_tied(void **state)
{
    struct hf_config c;
    struct err e = {0};
    (void)state;
    assert_int_equal(read_config(&c, LFM2, TWO, &e), 0);
    assert_true(c.tied);
    hfc_free(&c);
    assert_int_equal(read_config(&c, LFM2, TWO ", \"tie_embedding\": false", &e), 0);
    assert_false(c.tied);
    hfc_free(&c);
}

static void expect_refused(const char *const (*r)[3], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct hf_config c;
        struct err e = {0};
        if (!read_config(&c, r[i][0], r[i][1], &e)) fail_msg("%s %s is read", r[i][0], r[i][1]);
        if (!strstr(e.msg, r[i][2])) fail_msg("%s %s: %s", r[i][0], r[i][1], e.msg);
        hfc_free(&c);
    }
}

static void test_refusals(void **state)
{
    static const char *const r[][3] = {
        {NEMOTRON, TWO, "neither hybrid_override_pattern nor layers_block_type"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M*A\"", "layer 2 is 'A'"},
        {NEMOTRON, FOUR ", \"hybrid_override_pattern\": \"M*\"", "names 2 layers"},
        {NEMOTRON, "\"layers_block_type\": [\"mamba\", \"sliding_attention\"]",
         "layer 1 is 'sliding_attention'"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M-\", \"mlp_hidden_act\": \"silu\"",
         "mlp_hidden_act 'silu'"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M-\", \"mamba_hidden_act\": \"gelu\"",
         "mamba_hidden_act 'gelu'"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M*\", \"time_step_limit\": [0.0, 0.1]",
         "time_step_limit"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M*\", \"mamba_dt_limit\": [0.001, null]",
         "mamba_dt_limit"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"ME\", \"n_shared_experts\": 2",
         "n_shared_experts"},
        {NEMOTRON, "\"hybrid_override_pattern\": \"M*\", \"mamba_num_heads\": 6", "multiple of 8"},
        {GRANITE, TWO ", " HEADS_8 ", \"layer_types\": [\"mamba\"]", "names 1 layers"},
        {GRANITE, TWO ", " HEADS_8 ", \"layer_types\": [\"mamba\", \"mlp\"]", "layer 1 is 'mlp'"},
        {GRANITE, TWO ", " HEADS_8 ", \"position_embedding_type\": \"alibi\"", "alibi"},
        {GRANITE, TWO ", " HEADS_8 ", \"normalization_function\": \"layernorm\"",
         "normalization_function"},
        {BAMBA, TWO ", \"mamba_n_heads\": 8, \"mamba_d_head\": 24", "inner width 256"},
        {BAMBA, TWO ", " HEADS_8 ", \"attn_layer_indices\": [2]", "attn_layer_indices"},
        {BAMBA, TWO ", " HEADS_8 ", \"attn_rotary_emb\": 8", "attn_rotary_emb 8"},
        {BAMBA, TWO ", " HEADS_8 ", \"mamba_d_conv\": 64", "mamba_d_conv"},
        {FALCON, TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"ssm_multipliers\": [1.0]",
         "ssm_multipliers"},
        {FALCON, TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"mlp_multipliers\": 2",
         "mlp_multipliers"},
        {FALCON, TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"key_multiplier\": 0",
         "key_multiplier"},
        {FALCON,
         TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"attention_bias\": true, "
             "\"attention_in_multiplier\": 2",
         "attention_bias"},
        {FALCON,
         TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"mamba_proj_bias\": true, "
             "\"ssm_in_multiplier\": 2",
         "mamba_proj_bias"},
        {FALCON, TWO ", \"mamba_d_ssm\": 256, \"mamba_n_heads\": 8, \"mamba_use_mlp\": false",
         "mamba_use_mlp"},
    };
    (void)state;
    expect_refused(r, sizeof r / sizeof *r);
}

static void test_refusals_of_other_states(void **state)
{
    static const char *const r[][3] = {
        {KIMI, TWO, "linear_attn_config.kda_layers"},
        {KIMI, TWO ", " KDA("[2]", "[3]"), "kda_layers holds"},
        {KIMI, TWO ", " KDA("[2]", "[1, 1]"), "kda_layers holds"},
        {KIMI, TWO ", " KDA("[1]", "[1]"), "full_attn_layers holds"},
        {KIMI, TWO ", " KDA("[]", "[1]"), "name 1 layers"},
        {KIMI, TWO ", " KDA("[2]", "[1]") ", \"mla_use_nope\": false", "mla_use_nope"},
        {KIMI, TWO ", " KDA("[2]", "[1]") ", \"moe_router_activation_func\": \"softmax\"",
         "moe_router_activation_func"},
        {KIMI, TWO ", " KDA("[2]", "[1]") ", \"num_expert_group\": 3", "n_group"},
        {JAMBA, TWO ", \"mamba_d_state\": 0", "mamba_d_state"},
        {JAMBA, TWO ", \"mamba_dt_rank\": \"half\"", "mamba_dt_rank"},
        {JAMBA, TWO ", \"mamba_d_conv\": 17", "mamba_d_conv"},
        {JAMBA, TWO ", \"attn_layer_period\": 0", "attn_layer_period"},
        {LFM2, TWO ", \"layer_types\": [\"conv\", \"sliding_attention\"]", "sliding_attention"},
        {LFM2, TWO ", \"full_attn_idxs\": \"1\"", "full_attn_idxs is not a list"},
        {LFM2, TWO ", \"conv_L_cache\": 1", "conv_L_cache"},
    };
    (void)state;
    expect_refused(r, sizeof r / sizeof *r);
}

/* The rows of in_proj that a linear takes, of 2 groups, 4 heads of 3, a state of 5. */
static void expect_rows(enum row_pick pick, enum layer_size out, const int32_t *want, int n)
{
    const struct hf_config c = {.traits = HF_MAMBA2,
                                .dim = 8,
                                .n_heads = 2,
                                .n_kv_heads = 1,
                                .head_dim = 4,
                                .rotary = 4,
                                .linear_key_heads = 2,
                                .linear_value_heads = 4,
                                .linear_key_dim = 5,
                                .linear_value_dim = 3};
    const struct linear_rule rule = {.to = "x", .from = "x", .out = out, .pick = pick};
    struct layer l = {.number = 0};
    struct err e = {0};
    int32_t *rows;
    int64_t total;
    rows_sizes(&l, &c);
    assert_int_equal(rows_pick(&l, &c, &rule, &rows, &total, &e), 0);
    assert_int_equal(total, 2 * 12 + 2 * 10 + 4);
    assert_int_equal(l.size[out], n);
    for (int i = 0; i < n; i++) assert_int_equal(rows[i], want[i]);
    free(rows);
}

static void test_rows(void **state)
{
    int32_t z[12], qkv[32], dt[4];
    (void)state;
    for (int i = 0; i < 12; i++) z[i] = i;
    for (int i = 0; i < 10; i++) qkv[i] = 24 + 10 + i, qkv[10 + i] = 24 + i; /* C, B */
    for (int i = 0; i < 12; i++) qkv[20 + i] = 12 + i;                       /* x */
    for (int i = 0; i < 4; i++) dt[i] = 44 + i;
    expect_rows(PICK_MAMBA_Z, SIZE_VALUES, z, 12);
    expect_rows(PICK_MAMBA_QKV, SIZE_DELTA, qkv, 32);
    expect_rows(PICK_MAMBA_DT, SIZE_VALUE_HEADS, dt, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hybrids), cmocka_unit_test(test_tied),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_refusals_of_other_states),
                                       cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
