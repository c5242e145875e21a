/* unit_refused.c: configurations of checkpoints that are refused by name: keys of families, lists
 * of layers, booleans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/family_config.h"

#include <stdio.h>
#include <string.h>

static void test_refusals(void **state)
{
    (void)state;
    static const char *const r[][3] = {
        {"LlamaForCausalLM", ", \"kv_lora_rank\": 512", "multi-head latent"},
        {"DeepseekV32ForCausalLM", ", \"index_head_dim\": 64", "index_head_dim 64"},
        {"DeepseekV32ForCausalLM", ", \"index_head_dim\": 70", "index_head_dim 70"},
        {"DeepseekV32ForCausalLM", ", \"index_topk\": 0", "index_topk"},
        {"DeepseekV32ForCausalLM", ", \"q_lora_rank\": null", "without q_lora_rank"},
        {"GlmMoeDsaForCausalLM", ", \"index_topk_pattern\": \"FS\"", "names 2 layers"},
        {"GlmMoeDsaForCausalLM", ", \"num_hidden_layers\": 2, \"index_topk_pattern\": \"FX\"",
         "layer 1 is neither F nor S"},
        {"GlmMoeDsaForCausalLM", ", \"num_hidden_layers\": 2, \"index_topk_pattern\": \"SF\"",
         "layer 0 has no indexer"},
        {"GlmMoeDsaForCausalLM",
         ", \"num_hidden_layers\": 2, \"indexer_types\": [\"full\", \"half\"]",
         "layer 1 is neither full nor shared"},
        {"DeepseekV3ForCausalLM", ", \"index_topk\": 2048", "index_topk"},
        {"DeepseekV3ForCausalLM", ", \"scoring_func\": \"softmax\"", "scoring_func"},
        {"DeepseekV3ForCausalLM", ", \"topk_method\": \"greedy\"", "topk_method"},
        {"DeepseekV3ForCausalLM", ", \"n_group\": 7", "n_group"},
        {"DeepseekV3ForCausalLM", ", \"moe_layer_freq\": 2", "moe_layer_freq"},
        {"DeepseekV3ForCausalLM", ", \"kv_lora_rank\": 510", "kv_lora_rank"},
        {"DeepseekV3ForCausalLM", ", \"qk_rope_head_dim\": 62", "qk_rope_head_dim"},
        {"DeepseekV3ForCausalLM", ", \"q_lora_rank\": -1", "q_lora_rank"},
        {"DeepseekV3ForCausalLM",
         ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": \"4\", \"mscale_all_dim\": 1}",
         "factor"},
        {"DeepseekV2ForCausalLM", ", \"num_experts_per_tok\": 6, \"norm_topk_prob\": true",
         "norm_topk_prob"},
        {"DeepseekV2ForCausalLM", ", \"num_experts_per_tok\": 6, \"scoring_func\": \"sigmoid\"",
         "scoring_func"},
        {"DeepseekV2ForCausalLM", ", \"num_experts_per_tok\": 6, \"topk_method\": \"noaux_tc\"",
         "topk_method"},
        {"DeepseekV2ForCausalLM", "", "num_experts_per_tok"},
        {"Glm4MoeLiteForCausalLM", ", \"mlp_layer_types\": [\"dense\"]", "mlp_layer_types"},
        {"Llama4ForCausalLM", ", \"num_experts_per_tok\": 2", "num_experts_per_tok"},
        {"Llama4ForCausalLM", ", \"moe_layers\": [48]", "moe_layers"},
        {"Llama4ForCausalLM", ", \"layer_types\": [\"sliding_attention\"]", "layer_types"},
        {"Llama4ForCausalLM", ", \"attn_temperature_tuning\": \"yes\"", "attn_temperature"},
        {"CohereForCausalLM", ", \"use_qk_norm\": true", "use_qk_norm true"},
        {"Cohere2ForCausalLM", ", \"use_parallel_block\": false", "use_parallel_block"},
        {"Cohere2ForCausalLM", ", \"sliding_window_pattern\": \"LLX\"", "sliding_window_pattern"},
        {"ApertusForCausalLM", ", \"post_norm\": true", "post_norm"},
        {"ApertusForCausalLM", ", \"hidden_act\": \"silu\"", "hidden_act 'silu'"},
        {"MiniMaxM2ForCausalLM", ", \"qk_norm_type\": \"per_head\"", "qk_norm_type"},
        {"MiniMaxM2ForCausalLM", ", \"use_qk_norm\": false", "use_qk_norm"},
        {"MiniMaxM2ForCausalLM", ", \"use_routing_bias\": false", "use_routing_bias"},
        {"MiniMaxM2ForCausalLM", ", \"attn_type_list\": [0, 1]", "attn_type_list"},
        {"MiniMaxM2ForCausalLM", ", \"rotary_dim\": 256", "partial_rotary_factor"},
        {"HunYuanMoEV1ForCausalLM", ", \"num_experts\": 8, \"moe_topk\": [1, 2]", "moe_topk"},
        {"HunYuanDenseV1ForCausalLM", ", \"use_cla\": true", "use_cla"},
        {"HYV3ForCausalLM", ", \"mlp_layer_types\": [\"dense\"]", "mlp_layer_types"},
        {"Ernie4_5_MoeForCausalLM", ", \"moe_norm_min\": 0.01", "moe_norm_min"},
        {"Dots1ForCausalLM",
         ", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_layer_freq\": 2",
         "moe_layer_freq"},
        {"Phi3SmallForCausalLM", "", "Phi3SmallForCausalLM"},
        {"StableLmForCausalLM", ", \"qk_layernorm\": true", "qk_layernorm"},
        {"StableLmForCausalLM", ", \"use_parallel_residual\": true", "use_parallel_residual"},
        {"MixtralForCausalLM", ", \"hidden_act\": \"gelu\"", "hidden_act 'gelu'"},
        {"Starcoder2ForCausalLM", ", \"hidden_act\": \"silu\"", "hidden_act 'silu'"},
        {"Glm4MoeForCausalLM", ", \"head_dim\": 128, \"scoring_func\": \"softmax\"",
         "scoring_func"},
        {"Glm4MoeForCausalLM", ", \"head_dim\": 128, \"n_group\": 3", "n_group"},
        {"Qwen3_5ForCausalLM", ", \"attn_output_gate\": false", "attn_output_gate"},
        {"Qwen3MoeForCausalLM", ", \"num_experts_per_tok\": 129", "num_experts_per_tok"},
        {"Phi3ForCausalLM", ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1]}",
         "short_factor"},
        {"Phi3ForCausalLM", ", \"rope_scaling\": {\"type\": \"axial\"}", "axial"},
        {"Glm4ForCausalLM", ", \"partial_rotary_factor\": 1.5", "partial_rotary_factor"},
        {"Qwen3ForCausalLM",
         ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}, "
         "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}",
         "differ in type"},
        {"Gemma4ForCausalLM", ", \"vocab_size_per_layer_input\": 8", "vocab_size_per_layer_input"},
        {"Gemma4ForCausalLM",
         ", \"hidden_size_per_layer_input\": 0, \"per_layer_config\": {\"29\": "
         "{\"head_dim\": 512}}",
         "layer 5 has 4 key heads of 256"},
        {"Gemma4ForCausalLM",
         ", \"hidden_size_per_layer_input\": 0, \"per_layer_config\": {\"7\": "
         "{\"intermediate_size\": 8}}",
         "layer 7 has its own intermediate_size"},
        {"SmolLM3ForCausalLM", ", \"no_rope_layers\": [1, 0]", "no_rope_layers"},
        {"Qwen2MoeForCausalLM", ", \"layer_types\": [\"chunked_attention\"]", "chunked"},
        {"Qwen2MoeForCausalLM", ", \"mlp_only_layers\": \"0\"", "mlp_only_layers is not a list"},
        {"Qwen2MoeForCausalLM", ", \"mlp_only_layers\": [0.5]", "mlp_only_layers holds"},
        {"SmolLM3ForCausalLM", ", \"num_hidden_layers\": 2, \"no_rope_layers\": [1, \"0\"]",
         "no_rope_layers holds"},
        {"LlamaForCausalLM", ", \"eos_token_id\": \"2\"", "eos_token_id is not a token's id"},
        {"LlamaForCausalLM", ", \"eos_token_id\": [2, 1.5]", "eos_token_id is not a token's id"},
        {"LlamaForCausalLM", ", \"bos_token_id\": true", "bos_token_id is not a token's id"},
        {"Gemma3ForCausalLM", ", \"use_bidirectional_attention\": \"all\"", "later positions"},
        {"Gemma3ForCausalLM", ", \"use_bidirectional_attention\": 1", "later positions"},
        {"LlamaForCausalLM",
         ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8, \"truncate\": \"no\"}",
         "truncate"},
        {"LlamaForCausalLM", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": \"4x\"}",
         "factor"},
        {"LlamaForCausalLM",
         ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": \"Infinity\"}", "factor"},
        {"LlamaForCausalLM", ", \"rms_norm_eps\": \"NaN\"", "rms_norm_eps"},
        {"BertForSequenceClassification", "", "no language model's head"},
        {"MambaForCausalLM", "", "use vLLM or llama.cpp"},
    };
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
        struct hf_config c;
        struct err e = {0};
        if (!read_class(&c, r[i][0], r[i][1], &e)) fail_msg("%s%s is read", r[i][0], r[i][1]);
        if (!strstr(e.msg, r[i][2])) fail_msg("%s%s: %s", r[i][0], r[i][1], e.msg);
        hfc_free(&c);
    }
}

/* A list of layers names all of them, or is left out; nothing else stands for its default. */
static void test_lists_of_layers(void **state)
{
    static const struct {
        const char *class, *key, *value, *says; /* NULL: it is read */
    } t[] = {
        {"Llama4ForCausalLM", "no_rope_layers", "[]", NULL},
        {"Llama4ForCausalLM", "no_rope_layers", "null", NULL},
        {"Llama4ForCausalLM", "no_rope_layers", "[1, 1, 1, 0]", NULL},
        {"Llama4ForCausalLM", "no_rope_layers", "1", "no_rope_layers names 0 layers"},
        {"Llama4ForCausalLM", "no_rope_layers", "\"true\"", "no_rope_layers names 0 layers"},
        {"Llama4ForCausalLM", "no_rope_layers", "{}", "no_rope_layers names 0 layers"},
        {"Llama4ForCausalLM", "no_rope_layers", "[1, 0]", "no_rope_layers names 2 layers"},
        {"Qwen3MoeForCausalLM", "num_experts_per_tok", "[2, 2, 2, 2]", NULL},
        {"Qwen3MoeForCausalLM", "num_experts_per_tok", "[2]",
         "a list of 1, num_hidden_layers is 4"},
        {"Qwen3MoeForCausalLM", "num_experts_per_tok", "[]", "a list of 0"},
        {"Qwen3MoeForCausalLM", "num_experts_per_tok", "[2, 2, 2, 3]",
         "differs from layer to layer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct hf_config c;
        struct err e = {0};
        char s[300];
        snprintf(s, sizeof s, ", \"num_hidden_layers\": 4, \"%s\": %s", t[i].key, t[i].value);
        int rc = read_class(&c, t[i].class, s, &e);
        if (t[i].says ? !rc || !strstr(e.msg, t[i].says) : rc)
            fail_msg("%s %s: %s", t[i].key, t[i].value, rc ? e.msg : "is read");
        hfc_free(&c);
    }
}

/* Booleans are true, false or Python's 1 and 0; whatever else is refused, never taken for false. */
static void test_flags(void **state)
{
    (void)state;
    static const char *const keys[][2] = {
        {"LlamaForCausalLM", "tie_word_embeddings"},
        {"LlamaForCausalLM", "attention_bias"},
        {"LlamaForCausalLM", "mlp_bias"},
        {"LlamaForCausalLM", "is_causal"},
        {"LlamaForCausalLM", "use_bidirectional_attention"},
        {"Qwen2ForCausalLM", "use_sliding_window"},
        {"Qwen3MoeForCausalLM", "norm_topk_prob"},
        {"Qwen3NextForCausalLM", "attn_output_gate"},
        {"Glm4MoeForCausalLM", "use_qk_norm"},
        {"GptOssForCausalLM", "attention_bias"},
        {"StableLmForCausalLM", "use_qkv_bias"},
        {"StableLmForCausalLM", "use_parallel_residual"},
        {"Starcoder2ForCausalLM", "use_bias"},
        {"Gemma4ForCausalLM", "attention_k_eq_v"},
        {"Gemma4ForCausalLM", "enable_moe_block"},
        {"Gemma4ForCausalLM", "use_double_wide_mlp"},
    };
    static const char *const wrong[] = {"\"true\"", "2", "-1", "1.0", "[]", "{}"};
    char extra[200], says[100];
    struct hf_config c;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            struct err e = {0};
            snprintf(
                extra, sizeof extra,
                ", \"num_attention_heads\": 32, \"hidden_size_per_layer_input\": 0, \"%s\": %s",
                keys[i][1], wrong[k]);
            snprintf(says, sizeof says, "config.json: %s ", keys[i][1]);
            if (!read_class(&c, keys[i][0], extra, &e)) fail_msg("%s is read", extra);
            if (!strstr(e.msg, says)) fail_msg("%s: %s", extra, e.msg);
            hfc_free(&c);
        }
    for (int on = 0; on < 2; on++) {
        struct err e = {0};
        snprintf(
            extra, sizeof extra,
            ", \"num_attention_heads\": 32, \"norm_topk_prob\": %d, \"tie_word_embeddings\": %d",
            on, on);
        assert_int_equal(read_class(&c, "Glm4MoeForCausalLM", extra, &e), 0);
        assert_int_equal(c.router_normalize, on);
        assert_int_equal(c.tied, on);
        hfc_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lists_of_layers),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
