/* unit_families.c: every family's configuration as checkpoints have it, defaults of missing keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/family_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A configuration and some keys of the model file; null: the key is not there. */
static const struct {
    const char *name, *config, *expected;
} cases[] = {
    {"mixtral-mlp-names",
     "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", "
     "\"hidden_size\": 128, \"intermediate_size\": 192, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": false, "
     "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"sliding_window\": 16, "
     "\"vocab_size\": 320}",
     "{\"architecture\": \"mixtral\", \"ffn\": 192, \"expert_ffn\": 192, \"experts\": [1, 1], "
     "\"n_experts\": 4, \"top_k\": 2, \"shared_ffn\": 0, \"router_score\": \"softmax\", "
     "\"router_normalize\": 1, \"router_scale\": 1.0, \"router_groups\": 1, "
     "\"router_kept_groups\": 1, \"windows\": [16, 16]}"},
    {"qwen2-moe",
     "{\"architectures\": [\"Qwen2MoeForCausalLM\"], \"model_type\": \"qwen2_moe\", "
     "\"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": false, "
     "\"use_sliding_window\": false, \"sliding_window\": null, \"max_window_layers\": 2, "
     "\"moe_intermediate_size\": 128, \"num_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"norm_topk_prob\": false, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
     "\"shared_expert_intermediate_size\": 192, \"vocab_size\": 320}",
     "{\"architecture\": \"qwen2_moe\", \"ffn\": 128, \"expert_ffn\": 128, \"shared_ffn\": 192, "
     "\"experts\": [1, 1], \"n_experts\": 8, \"top_k\": 2, \"router_normalize\": 0, "
     "\"windows\": [0, 0]}"},
    {"qwen3-moe-mixed",
     "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", "
     "\"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 3, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": true, "
     "\"use_sliding_window\": false, \"sliding_window\": null, \"max_window_layers\": 2, "
     "\"moe_intermediate_size\": 64, \"num_experts\": 16, \"num_experts_per_tok\": 4, "
     "\"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [0], "
     "\"head_dim\": 64, \"attention_bias\": false, \"vocab_size\": 320}",
     "{\"architecture\": \"qwen3_moe\", \"ffn\": 256, \"expert_ffn\": 64, \"experts\": [0, 1, 1], "
     "\"n_experts\": 16, \"top_k\": 4, \"router_normalize\": 1}"},
    {"qwen3-moe-step",
     "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", "
     "\"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 4, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": false, "
     "\"use_sliding_window\": false, \"sliding_window\": null, \"max_window_layers\": 2, "
     "\"moe_intermediate_size\": 128, \"num_experts\": 8, \"num_experts_per_tok\": 3, "
     "\"norm_topk_prob\": false, \"decoder_sparse_step\": 2, \"mlp_only_layers\": [], "
     "\"head_dim\": 64, \"attention_bias\": false, \"vocab_size\": 320}",
     "{\"architecture\": \"qwen3_moe\", \"experts\": [0, 1, 0, 1], \"router_normalize\": 0, "
     "\"top_k\": 3}"},
    {"qwen3.5",
     "{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"model_type\": \"qwen3_5\", "
     "\"text_config\": {\"model_type\": \"qwen3_5_text\", \"hidden_size\": 128, "
     "\"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
     "\"head_dim\": 64, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, "
     "\"attention_bias\": false, \"attn_output_gate\": true, \"full_attention_interval\": 4, "
     "\"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 32, \"linear_value_head_dim\": 32, "
     "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"tie_word_embeddings\": false, "
     "\"partial_rotary_factor\": 0.25, \"rope_parameters\": {\"mrope_interleaved\": true, "
     "\"mrope_section\": [3, 3, 2], \"rope_type\": \"default\", \"rope_theta\": 10000000.0, "
     "\"partial_rotary_factor\": 0.25}, \"intermediate_size\": 256, "
     "\"layer_types\": [\"linear_attention\", \"linear_attention\", \"linear_attention\", "
     "\"full_attention\"], \"vocab_size\": 320}, \"tie_word_embeddings\": false}",
     "{\"architecture\": \"qwen3_next\", \"dim\": 128, \"ffn\": 256, \"layer_types\": [1, 1, 1, "
     "0], \"linear_key_heads\": 2, \"linear_value_heads\": 4, \"linear_key_dim\": 32, "
     "\"linear_value_dim\": 32, \"conv_width\": 4, \"rope\": \"default, theta 1e+07, "
     "16 of 64 dimensions\", \"experts\": null}"},
    {"qwen3.5-moe",
     "{\"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"], "
     "\"model_type\": \"qwen3_5_moe\", \"text_config\": {\"model_type\": \"qwen3_5_moe_text\", "
     "\"hidden_size\": 128, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
     "\"num_key_value_heads\": 1, \"head_dim\": 64, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-06, \"attention_bias\": false, \"attn_output_gate\": true, "
     "\"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 32, "
     "\"linear_value_head_dim\": 32, \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "
     "\"tie_word_embeddings\": false, \"partial_rotary_factor\": 0.25, "
     "\"rope_parameters\": {\"mrope_interleaved\": true, \"mrope_section\": [3, 3, 2], "
     "\"rope_type\": \"default\", \"rope_theta\": 10000000.0, \"partial_rotary_factor\": 0.25}, "
     "\"moe_intermediate_size\": 128, \"shared_expert_intermediate_size\": 128, "
     "\"num_experts\": 8, \"num_experts_per_tok\": 3, \"layer_types\": [\"linear_attention\", "
     "\"linear_attention\", \"linear_attention\", \"full_attention\"], \"vocab_size\": 320}, "
     "\"tie_word_embeddings\": false}",
     "{\"architecture\": \"qwen3_next\", \"layer_types\": [1, 1, 1, 0], \"experts\": [1, 1, 1, 1], "
     "\"expert_ffn\": 128, \"shared_ffn\": 128, \"router_normalize\": 1, \"ffn\": 128}"},
    {"qwen3.5-text",
     "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 128, \"num_hidden_layers\": 4, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 64, "
     "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, \"attention_bias\": false, "
     "\"attn_output_gate\": true, \"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, "
     "\"linear_key_head_dim\": 32, \"linear_value_head_dim\": 48, \"linear_num_key_heads\": 2, "
     "\"linear_num_value_heads\": 6, \"tie_word_embeddings\": true, "
     "\"partial_rotary_factor\": 0.25, \"rope_parameters\": {\"mrope_interleaved\": true, "
     "\"mrope_section\": [3, 3, 2], \"rope_type\": \"default\", \"rope_theta\": 10000000.0, "
     "\"partial_rotary_factor\": 0.25}, \"intermediate_size\": 256, "
     "\"architectures\": [\"Qwen3_5ForCausalLM\"], \"layer_types\": [\"linear_attention\", "
     "\"linear_attention\", \"linear_attention\", \"full_attention\"], \"vocab_size\": 320}",
     "{\"architecture\": \"qwen3_next\", \"linear_value_heads\": 6, \"linear_value_dim\": 48, "
     "\"experts\": null}"},
    {"gemma4",
     "{\"model_type\": \"gemma4_text\", \"hidden_size\": 128, \"intermediate_size\": 256, "
     "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
     "\"head_dim\": 32, \"global_head_dim\": 64, \"num_global_key_value_heads\": 1, "
     "\"attention_k_eq_v\": true, \"hidden_activation\": \"gelu_pytorch_tanh\", "
     "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, \"attention_bias\": false, "
     "\"sliding_window\": 16, \"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
     "\"sliding_attention\", \"full_attention\"], \"final_logit_softcapping\": 6.0, "
     "\"hidden_size_per_layer_input\": 0, \"vocab_size_per_layer_input\": 320, "
     "\"num_kv_shared_layers\": 0, \"use_double_wide_mlp\": false, "
     "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", "
     "\"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": \"proportional\", "
     "\"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}, \"tie_word_embeddings\": true, "
     "\"architectures\": [\"Gemma4ForCausalLM\"], \"vocab_size\": 320}",
     "{\"architecture\": \"gemma4\", \"windows\": [16, 16, 16, 0], \"head_dims\": [32, 32, 32, "
     "64], \"kv_heads\": [2, 2, 2, 1], \"ffns\": [256, 256, 256, 256], \"kv_from\": [0, 1, 2, 3], "
     "\"ple_dim\": 0, \"attend_scale\": 1.0, \"logits_softcap\": 6.0, \"experts\": null}"},
    {"gemma4-moe",
     "{\"model_type\": \"gemma4_text\", \"hidden_size\": 128, \"intermediate_size\": 256, "
     "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
     "\"head_dim\": 32, \"global_head_dim\": 64, \"num_global_key_value_heads\": 1, "
     "\"attention_k_eq_v\": true, \"hidden_activation\": \"gelu_pytorch_tanh\", "
     "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, \"attention_bias\": false, "
     "\"sliding_window\": 16, \"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
     "\"full_attention\"], \"final_logit_softcapping\": 6.0, \"hidden_size_per_layer_input\": 0, "
     "\"vocab_size_per_layer_input\": 320, \"num_kv_shared_layers\": 0, "
     "\"use_double_wide_mlp\": false, "
     "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", "
     "\"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": \"proportional\", "
     "\"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}, \"tie_word_embeddings\": true, "
     "\"architectures\": [\"Gemma4ForCausalLM\"], \"enable_moe_block\": true, \"num_experts\": 8, "
     "\"top_k_experts\": 2, \"moe_intermediate_size\": 32, \"vocab_size\": 320}",
     "{\"architecture\": \"gemma4\", \"experts\": [1, 1, 1], \"n_experts\": 8, \"top_k\": 2, "
     "\"expert_ffn\": 32, \"ffn\": 256, \"router_normalize\": 1, \"router_score\": \"softmax\"}"},
    {"gemma4-ple",
     "{\"architectures\": [\"Gemma4ForConditionalGeneration\"], \"model_type\": \"gemma4\", "
     "\"text_config\": {\"model_type\": \"gemma4_text\", \"hidden_size\": 128, "
     "\"intermediate_size\": 192, \"num_hidden_layers\": 6, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 1, \"head_dim\": 32, \"global_head_dim\": 64, "
     "\"num_global_key_value_heads\": null, \"attention_k_eq_v\": false, "
     "\"hidden_activation\": \"gelu_pytorch_tanh\", \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-06, \"attention_bias\": false, \"sliding_window\": 16, "
     "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
     "\"full_attention\", \"sliding_attention\", \"full_attention\"], "
     "\"final_logit_softcapping\": 6.0, \"hidden_size_per_layer_input\": 32, "
     "\"vocab_size_per_layer_input\": 320, \"num_kv_shared_layers\": 2, "
     "\"use_double_wide_mlp\": true, "
     "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", "
     "\"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": \"proportional\", "
     "\"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}, \"tie_word_embeddings\": true, "
     "\"vocab_size\": 320}, \"tie_word_embeddings\": true}",
     "{\"architecture\": \"gemma4\", \"head_dims\": [32, 64, 32, 64, 32, 64], \"kv_heads\": [1, 1, "
     "1, 1, 1, 1], \"ffns\": [192, 192, 192, 192, 384, 384], \"kv_from\": [0, 1, 2, 3, 2, 3], "
     "\"ple_dim\": 32}"},
    {"gemma4-ple as transformers 5.24 saves it",
     "{\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", "
     "\"hidden_size\": 128, \"intermediate_size\": 192, \"num_hidden_layers\": 12, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
     "\"attention_k_eq_v\": true, \"moe_intermediate_size\": null, \"num_experts\": null, "
     "\"hidden_size_per_layer_input\": 0, \"per_layer_config\": {\"05\": {\"head_dim\": 64, "
     "\"num_key_value_heads\": 1}, \"11\": {\"head_dim\": 64, \"num_key_value_heads\": 1, "
     "\"intermediate_size\": 192}}, \"vocab_size\": 320}",
     "{\"architecture\": \"gemma4\", \"head_dims\": [32, 32, 32, 32, 32, 64, 32, 32, 32, 32, 32, "
     "64], \"kv_heads\": [2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 1]}"},
    {"exaone4 with a pattern",
     "{\"architectures\": [\"Exaone4ForCausalLM\"], \"model_type\": \"exaone4\", "
     "\"num_hidden_layers\": 5, \"sliding_window\": 16, \"sliding_window_pattern\": \"LLG\", "
     "\"vocab_size\": 320}",
     "{\"architecture\": \"exaone4\", \"windows\": [16, 16, 0, 16, 16], \"no_rope\": [0, 0, 1, "
     "0, 0]}"},
    {"exaone4 without windows",
     "{\"architectures\": [\"Exaone4ForCausalLM\"], \"num_hidden_layers\": 3, "
     "\"sliding_window\": null, \"sliding_window_pattern\": null, \"vocab_size\": 320, "
     "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]}",
     "{\"architecture\": \"exaone4\", \"windows\": [0, 0, 0], \"no_rope\": [0, 0, 0]}"},
    {"cohere2, windows as long as the context",
     "{\"architectures\": [\"Cohere2ForCausalLM\"], \"model_type\": \"cohere2\", "
     "\"num_hidden_layers\": 4, \"sliding_window\": 512, \"sliding_window_pattern\": 2, "
     "\"max_position_embeddings\": 512, \"logit_scale\": 0.25, \"use_parallel_block\": true, "
     "\"position_embedding_type\": \"rope_gptj\", \"rotary_pct\": 1.0}",
     "{\"architecture\": \"cohere2\", \"windows\": [0, 0, 0, 0], \"no_rope\": [0, 1, 0, 1], "
     "\"logits_scale\": 0.25}"},
    {"cohere",
     "{\"architectures\": [\"CohereForCausalLM\"], \"model_type\": \"cohere\", "
     "\"num_hidden_layers\": 2, \"use_qk_norm\": false, \"rope_theta\": 8000000.0}",
     "{\"architecture\": \"cohere2\", \"windows\": [0, 0], \"no_rope\": [0, 0], "
     "\"logits_scale\": 0.0625, \"rope\": \"default, theta 8e+06\"}"},
    {"hunyuan-dense",
     "{\"architectures\": [\"HunYuanDenseV1ForCausalLM\"], \"num_hidden_layers\": 2, "
     "\"use_qk_norm\": true, \"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 50.0, "
     "\"factor\": 1.0, \"beta_fast\": 32, \"beta_slow\": 1, \"mscale\": 1.0}}",
     "{\"architecture\": \"hunyuan_v1_dense\", \"rope_long_from\": null}"},
    {"hunyuan-moe",
     "{\"architectures\": [\"HunYuanMoEV1ForCausalLM\"], \"num_hidden_layers\": 2, "
     "\"intermediate_size\": 64, \"num_experts\": 8, \"moe_topk\": [3, 3], "
     "\"num_shared_expert\": [1, 1], \"moe_intermediate_size\": [96, 96], "
     "\"use_mixed_mlp_moe\": true}",
     "{\"architecture\": \"hunyuan_v1_moe\", \"experts\": [1, 1], \"top_k\": 3, "
     "\"expert_ffn\": 64, \"shared_ffn\": 64, \"router_normalize\": 1, "
     "\"router_score\": \"softmax\"}"},
    {"hunyuan-moe without shared MLP",
     "{\"architectures\": [\"HunYuanMoEV1ForCausalLM\"], \"num_hidden_layers\": 1, "
     "\"num_experts\": 8, \"moe_topk\": 2, \"use_mixed_mlp_moe\": false}",
     "{\"top_k\": 2, \"shared_ffn\": 0}"},
    {"hy-v3",
     "{\"architectures\": [\"HYV3ForCausalLM\"], \"num_hidden_layers\": 3, "
     "\"num_experts\": 8, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 64, "
     "\"num_shared_experts\": 2, \"qk_norm\": true, \"rope_parameters\": {\"rope_type\": "
     "\"default\", \"rope_theta\": 11158840.0}}",
     "{\"architecture\": \"hy_v3\", \"experts\": [0, 1, 1], \"shared_ffn\": 128, "
     "\"router_scale\": 2.826, \"router_score\": \"sigmoid\", \"router_normalize\": 1}"},
    {"hy-v3 with a list of layers",
     "{\"architectures\": [\"HYV3ForCausalLM\"], \"num_hidden_layers\": 3, "
     "\"mlp_layer_types\": [\"dense\", \"dense\", \"sparse\"]}",
     "{\"experts\": [0, 0, 1]}"},
    {"dots1",
     "{\"architectures\": [\"Dots1ForCausalLM\"], \"num_hidden_layers\": 3, "
     "\"first_k_dense_replace\": 1, \"moe_intermediate_size\": 64, \"n_routed_experts\": 8, "
     "\"num_experts_per_tok\": 3, \"n_shared_experts\": 2, \"norm_topk_prob\": true, "
     "\"routed_scaling_factor\": 2.5, \"scoring_func\": \"noaux_tc\", "
     "\"sliding_window\": 16, \"max_window_layers\": 2}",
     "{\"architecture\": \"dots1\", \"experts\": [0, 1, 1], \"shared_ffn\": 128, "
     "\"windows\": [0, 0, 16], \"router_score\": \"sigmoid\", \"router_scale\": 2.5}"},
    {"minimax-m2",
     "{\"architectures\": [\"MiniMaxM2ForCausalLM\"], \"num_hidden_layers\": 2, "
     "\"intermediate_size\": 64, \"head_dim\": 48, \"rotary_dim\": 24, "
     "\"num_local_experts\": 10, \"num_experts_per_tok\": 3, \"scoring_func\": \"sigmoid\", "
     "\"use_routing_bias\": true, \"use_qk_norm\": true, \"qk_norm_type\": \"per_layer\", "
     "\"shared_intermediate_size\": 0, \"attn_type_list\": [1, 1]}",
     "{\"architecture\": \"minimax_m2\", \"expert_ffn\": 64, \"shared_ffn\": 0, \"experts\": "
     "[1, 1], \"router_normalize\": 1, \"rope\": \"default, theta 5e+06, 24 of 48 "
     "dimensions\"}"},
    {"ernie4.5-moe",
     "{\"architectures\": [\"Ernie4_5_MoeForCausalLM\"], \"num_hidden_layers\": 5, "
     "\"moe_num_experts\": 8, \"moe_k\": 3, \"moe_num_shared_experts\": 2, "
     "\"moe_intermediate_size\": 64, \"moe_layer_start_index\": 1, \"moe_layer_end_index\": 3, "
     "\"moe_layer_interval\": 2}",
     "{\"architecture\": \"ernie4_5_moe\", \"experts\": [0, 1, 0, 1, 0], \"shared_ffn\": 128, "
     "\"router_score\": \"softmax\", \"router_bias\": 1, \"router_normalize\": 1}"},
    {"ernie4.5-moe that ends before the last layer",
     "{\"architectures\": [\"Ernie4_5_MoeForCausalLM\"], \"num_hidden_layers\": 5, "
     "\"moe_num_experts\": 8, \"moe_k\": 3, \"moe_layer_start_index\": 1, "
     "\"moe_layer_end_index\": 3, \"moe_intermediate_size\": 64}",
     "{\"experts\": [0, 1, 1, 1, 0]}"},
    {"ernie4.5-moe to the last layer",
     "{\"architectures\": [\"Ernie4_5_MoeForCausalLM\"], \"num_hidden_layers\": 5, "
     "\"moe_num_experts\": 8, \"moe_k\": 3, \"moe_layer_start_index\": 1, "
     "\"moe_intermediate_size\": 64}",
     "{\"experts\": [0, 1, 1, 1, 1]}"},
    {"llama4",
     "{\"architectures\": [\"Llama4ForConditionalGeneration\"], \"model_type\": \"llama4\", "
     "\"text_config\": {\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, "
     "\"intermediate_size\": 96, \"intermediate_size_mlp\": 192, \"num_local_experts\": 4, "
     "\"interleave_moe_layer_step\": 2, \"no_rope_layers\": [], \"attention_chunk_size\": 32, "
     "\"attn_temperature_tuning\": 4, \"floor_scale\": 16, \"attn_scale\": 0.3, "
     "\"use_qk_norm\": false}}",
     "{\"architecture\": \"llama4\", \"no_rope\": [0, 0, 0, 1], \"chunks\": [32, 32, 32, 0], "
     "\"experts\": [0, 1, 0, 1], \"ffn\": 192, \"expert_ffn\": 96, \"shared_ffn\": 96, "
     "\"top_k\": 1, \"router_score\": \"sigmoid\", \"router_normalize\": 0, "
     "\"query_beta\": 0.3, \"query_original\": 16}"},
    {"llama4 as transformers 5 saves it",
     "{\"architectures\": [\"Llama4ForCausalLM\"], \"model_type\": \"llama4_text\", "
     "\"num_hidden_layers\": 3, \"moe_layers\": [1], \"no_rope_layers\": [1, 0, 1], "
     "\"layer_types\": [\"chunked_attention\", \"full_attention\", \"full_attention\"], "
     "\"attention_chunk_size\": 64, \"attn_temperature_tuning\": false}",
     "{\"architecture\": \"llama4\", \"no_rope\": [0, 1, 0], \"chunks\": [64, 0, 0], "
     "\"experts\": [0, 1, 0], \"query_beta\": 0.0}"},
    {"llama4 without chunks",
     "{\"architectures\": [\"Llama4ForCausalLM\"], \"num_hidden_layers\": 2, "
     "\"attention_chunk_size\": null}",
     "{\"chunks\": [0, 0], \"no_rope\": [0, 0]}"},
    {"gemma4 unified",
     "{\"architectures\": [\"Gemma4UnifiedForConditionalGeneration\"], \"model_type\": "
     "\"gemma4_unified\", \"text_config\": {\"model_type\": \"gemma4_unified_text\", "
     "\"num_hidden_layers\": 6, \"use_bidirectional_attention\": \"vision\"}}",
     "{\"architecture\": \"gemma4\", \"ple_dim\": 0, \"windows\": [1024, 1024, 1024, 1024, 1024, "
     "0], \"head_dims\": [256, 256, 256, 256, 256, 512]}"},
    {"qwen3.8 by its type", "{\"model_type\": \"qwen3_8\", \"vocab_size\": 320}",
     "{\"architecture\": \"qwen3_next\", \"dim\": 4096}"},
    {"internlm2",
     "{\"architectures\": [\"InternLM2ForCausalLM\"], \"bias\": false, \"vocab_size\": 320, "
     "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}",
     "{\"architecture\": \"llama\", \"rope_long_from\": 2048}"},
    {"orion", "{\"architectures\": [\"OrionForCausalLM\"], \"model_type\": \"orion\"}",
     "{\"architecture\": \"stablelm\", \"norm_eps\": 1e-5}"},
    {"phi3",
     "{\"architectures\": [\"Phi3ForCausalLM\"], \"model_type\": \"phi3\", \"hidden_size\": 192, "
     "\"intermediate_size\": 256, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 4, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false, \"sliding_window\": 24, "
     "\"rope_scaling\": null, \"original_max_position_embeddings\": 512, \"vocab_size\": 320}",
     "{\"architecture\": \"phi3\", \"windows\": [24, 24], \"rope_long_from\": null, "
     "\"rope\": \"default, theta 10000\"}"},
    {"phi4-mini",
     "{\"architectures\": [\"Phi3ForCausalLM\"], \"model_type\": \"phi3\", \"hidden_size\": 64, "
     "\"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true, \"sliding_window\": null, "
     "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1.0, 1.02, 1.04, 1.06, 1.08, "
     "1.1], \"long_factor\": [1.3, 2.2, 3.1, 4.0, 4.9, 5.8]}, "
     "\"original_max_position_embeddings\": 64, \"partial_rotary_factor\": 0.75, "
     "\"vocab_size\": 320}",
     "{\"architecture\": \"phi3\", \"head_dim\": 16, \"rope_long_from\": 64, \"rope\": \"longrope, "
     "theta 10000, 12 of 16 dimensions\"}"},
    {"glm4",
     "{\"architectures\": [\"Glm4ForCausalLM\"], \"model_type\": \"glm4\", \"hidden_size\": 128, "
     "\"intermediate_size\": 256, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false, \"attention_bias\": true, "
     "\"head_dim\": 48, \"partial_rotary_factor\": 0.5, \"vocab_size\": 320}",
     "{\"architecture\": \"glm4\", \"rope\": \"default, theta 10000, 24 of 48 dimensions\"}"},
    {"glm4-moe",
     "{\"architectures\": [\"Glm4MoeForCausalLM\"], \"model_type\": \"glm4_moe\", "
     "\"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 3, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"tie_word_embeddings\": false, "
     "\"attention_bias\": true, \"head_dim\": 48, \"partial_rotary_factor\": 0.5, "
     "\"moe_intermediate_size\": 96, \"n_routed_experts\": 16, \"num_experts_per_tok\": 4, "
     "\"n_shared_experts\": 1, \"routed_scaling_factor\": 1.5, \"n_group\": 4, \"topk_group\": 2, "
     "\"first_k_dense_replace\": 1, \"norm_topk_prob\": true, \"use_qk_norm\": true, "
     "\"num_nextn_predict_layers\": 1, \"vocab_size\": 320}",
     "{\"architecture\": \"glm4_moe\", \"ffn\": 256, \"experts\": [0, 1, 1], \"n_experts\": 16, "
     "\"top_k\": 4, \"expert_ffn\": 96, \"shared_ffn\": 96, \"router_score\": \"sigmoid\", "
     "\"router_normalize\": 1, \"router_scale\": 1.5, \"router_groups\": 4, "
     "\"router_kept_groups\": 2}"},
    {"deepseek-v2-grouped",
     "{\"architectures\": [\"DeepseekV2ForCausalLM\"], \"model_type\": \"deepseek_v2\", "
     "\"hidden_size\": 100, \"intermediate_size\": 256, \"num_hidden_layers\": 3, "
     "\"num_attention_heads\": 6, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, "
     "\"kv_lora_rank\": 64, \"q_lora_rank\": null, \"qk_nope_head_dim\": 48, "
     "\"qk_rope_head_dim\": 16, \"v_head_dim\": 40, \"first_k_dense_replace\": 1, "
     "\"moe_intermediate_size\": 96, \"n_routed_experts\": 16, \"num_experts_per_tok\": 4, "
     "\"n_shared_experts\": 2, \"routed_scaling_factor\": 4.0, \"n_group\": 4, \"topk_group\": 2, "
     "\"topk_method\": \"group_limited_greedy\", \"norm_topk_prob\": false, \"vocab_size\": 320, "
     "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 1.0, \"mscale_all_dim\": 0.7, "
     "\"original_max_position_embeddings\": 512}}",
     "{\"architecture\": \"deepseek_v2\", \"n_kv_heads\": 1, \"head_dim\": 16, "
     "\"latent_dim\": 64, \"nope_dim\": 48, \"value_dim\": 40, \"q_lora_dim\": 0, "
     "\"latent_eps\": 1e-06, \"attend_scale\": 0.125, \"router_group_best\": 1, "
     "\"experts\": [0, 1, 1], \"shared_ffn\": 192, \"router_score\": \"softmax\", "
     "\"router_normalize\": 0, \"router_scale\": 4.0, \"router_groups\": 4, "
     "\"router_kept_groups\": 2}"},
    {"deepseek-v2-greedy",
     "{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 2, \"num_experts_per_tok\": 6, "
     "\"n_group\": 8, \"topk_group\": 3, \"rope_scaling\": null}",
     "{\"architecture\": \"deepseek_v2\", \"latent_dim\": 512, \"q_lora_dim\": 1536, "
     "\"router_group_best\": 0, \"router_groups\": 1, \"router_kept_groups\": 1, "
     "\"router_scale\": 1.0, \"shared_ffn\": 2814, \"experts\": [1, 1]}"},
    {"deepseek-v3-defaults",
     "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"num_hidden_layers\": 4, "
     "\"num_nextn_predict_layers\": 1}",
     "{\"architecture\": \"deepseek_v3\", \"n_heads\": 128, \"head_dim\": 64, "
     "\"latent_dim\": 512, \"nope_dim\": 128, \"value_dim\": 128, \"q_lora_dim\": 1536, "
     "\"experts\": [0, 0, 0, 1], \"n_experts\": 256, \"top_k\": 8, \"expert_ffn\": 2048, "
     "\"shared_ffn\": 2048, \"router_score\": \"sigmoid\", \"router_normalize\": 1, "
     "\"router_scale\": 2.5, \"router_groups\": 8, \"router_kept_groups\": 4, "
     "\"router_group_best\": null}"},
    {"kimi-k2.5",
     "{\"architectures\": [\"KimiK25ForConditionalGeneration\"], \"model_type\": \"kimi_k25\", "
     "\"text_config\": {\"model_type\": \"kimi_k2\", \"num_hidden_layers\": 2, "
     "\"first_k_dense_replace\": 1, \"n_routed_experts\": 384, \"n_group\": 1, "
     "\"topk_group\": 1, \"routed_scaling_factor\": 2.827}}",
     "{\"architecture\": \"deepseek_v3\", \"experts\": [0, 1], \"n_experts\": 384, "
     "\"router_groups\": 1, \"router_kept_groups\": 1, \"router_scale\": 2.827}"},
    {"deepseek-v32",
     "{\"architectures\": [\"DeepseekV32ForCausalLM\"], \"model_type\": \"deepseek_v32\", "
     "\"num_hidden_layers\": 5}",
     "{\"architecture\": \"deepseek_v32\", \"latent_dim\": 512, \"index_top_k\": 2048, "
     "\"index_heads\": 64, \"index_dim\": 128, \"indexers\": [1, 1, 1, 1, 1], "
     "\"router_groups\": 8, \"experts\": [0, 0, 0, 1, 1]}"},
    {"glm-moe-dsa-freq",
     "{\"architectures\": [\"GlmMoeDsaForCausalLM\"], \"model_type\": \"glm_moe_dsa\", "
     "\"num_hidden_layers\": 8, \"index_topk_freq\": 3, \"index_skip_topk_offset\": 3}",
     "{\"architecture\": \"glm_moe_dsa\", \"indexers\": [1, 1, 1, 0, 0, 1, 0, 0], "
     "\"index_heads\": 32, \"value_dim\": 256, \"router_groups\": 1}"},
    {"glm-moe-dsa-list",
     "{\"architectures\": [\"GlmMoeDsaForCausalLM\"], \"model_type\": \"glm_moe_dsa\", "
     "\"num_hidden_layers\": 3, \"indexer_types\": [\"full\", \"shared\", \"full\"], "
     "\"index_topk_pattern\": \"FFF\"}",
     "{\"indexers\": [1, 0, 1]}"},
    {"glm4-moe-lite",
     "{\"architectures\": [\"Glm4MoeLiteForCausalLM\"], \"model_type\": \"glm4_moe_lite\", "
     "\"num_hidden_layers\": 3, \"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"], "
     "\"rope_interleave\": false, \"partial_rotary_factor\": 1.0}",
     "{\"architecture\": \"glm4_moe_lite\", \"n_heads\": 20, \"nope_dim\": 192, "
     "\"value_dim\": 256, \"q_lora_dim\": 768, \"attend_scale\": 0.0625, "
     "\"latent_eps\": 1e-06, \"norm_eps\": 1e-05, \"experts\": [1, 0, 1], "
     "\"router_scale\": 1.8, \"rope\": \"default, theta 10000\"}"},
    {"mistral4",
     "{\"architectures\": [\"Mistral4ForCausalLM\"], \"model_type\": \"mistral4\", "
     "\"num_hidden_layers\": 2}",
     "{\"architecture\": \"mistral4\", \"latent_dim\": 256, \"q_lora_dim\": 1024, "
     "\"query_beta\": 0.1, \"query_original\": 8192.0, \"experts\": [1, 1], "
     "\"router_score\": \"softmax\", \"router_normalize\": 1, "
     "\"rope\": \"yarn, factor 128, theta 10000\"}"},
    {"gpt-oss",
     "{\"architectures\": [\"GptOssForCausalLM\"], \"model_type\": \"gpt_oss\", "
     "\"hidden_size\": 128, \"intermediate_size\": 96, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
     "\"num_local_experts\": 8, \"num_experts_per_tok\": 3, \"experts_per_token\": 3, "
     "\"sliding_window\": 16, \"layer_types\": [\"sliding_attention\", \"full_attention\"], "
     "\"attention_bias\": true, \"swiglu_limit\": 1.5, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 150000.0, \"tie_word_embeddings\": false, "
     "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8.0, \"beta_fast\": 32.0, "
     "\"beta_slow\": 1.0, \"truncate\": false, \"original_max_position_embeddings\": 64}, "
     "\"vocab_size\": 320}",
     "{\"architecture\": \"gpt_oss\", \"windows\": [16, 0], \"expert_ffn\": 96, \"experts\": [1, "
     "1], \"n_experts\": 8, \"top_k\": 3, \"router_score\": \"softmax\", \"router_normalize\": 1, "
     "\"swiglu_limit\": 1.5, \"swiglu_alpha\": 1.702}"},
    {"ministral3",
     "{\"architectures\": [\"Ministral3ForCausalLM\"], \"model_type\": \"ministral3\", "
     "\"hidden_size\": 160, \"intermediate_size\": 256, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false, \"sliding_window\": null, "
     "\"head_dim\": 64, \"rope_parameters\": {\"type\": \"yarn\", \"rope_type\": \"yarn\", "
     "\"rope_theta\": 1000000.0, \"factor\": 16.0, \"original_max_position_embeddings\": 16, "
     "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, "
     "\"llama_4_scaling_beta\": 0.4}, \"vocab_size\": 320}",
     "{\"architecture\": \"ministral3\", \"query_beta\": 0.4, \"query_original\": 16.0, "
     "\"rope_scale\": 1.0}"},
    {"mistral3",
     "{\"architectures\": [\"Mistral3ForConditionalGeneration\"], \"model_type\": \"mistral3\", "
     "\"text_config\": {\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", "
     "\"hidden_size\": 160, \"intermediate_size\": 256, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000000.0, \"tie_word_embeddings\": false, "
     "\"sliding_window\": null, \"head_dim\": 64, \"vocab_size\": 320}, "
     "\"tie_word_embeddings\": false}",
     "{\"architecture\": \"mistral\", \"head_dim\": 64, \"rope\": \"default, theta 1e+09\", "
     "\"windows\": [0, 0]}"},
    {"smollm3",
     "{\"architectures\": [\"SmolLM3ForCausalLM\"], \"model_type\": \"smollm3\", "
     "\"hidden_size\": 192, \"intermediate_size\": 288, \"num_hidden_layers\": 4, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 2000000.0, \"tie_word_embeddings\": true, "
     "\"attention_bias\": false, \"no_rope_layers\": [1, 1, 0, 1], \"no_rope_layer_interval\": 3, "
     "\"use_sliding_window\": false, \"sliding_window\": null, \"vocab_size\": 320}",
     "{\"architecture\": \"smollm3\", \"no_rope\": [0, 0, 1, 0], \"windows\": [0, 0, 0, 0]}"},
    {"olmo2",
     "{\"architectures\": [\"Olmo2ForCausalLM\"], \"model_type\": \"olmo2\", \"hidden_size\": 192, "
     "\"intermediate_size\": 288, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, "
     "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false, \"attention_bias\": false, "
     "\"vocab_size\": 320}",
     "{\"architecture\": \"olmo2\", \"bos\": -1, \"eos\": [], \"norm_eps\": 1e-06}"},
    {"olmo3",
     "{\"architectures\": [\"Olmo3ForCausalLM\"], \"hidden_size\": 128, \"num_attention_heads\": "
     "4, "
     "\"num_hidden_layers\": 4, \"sliding_window\": 16, \"max_position_embeddings\": 512, "
     "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8.0, "
     "\"original_max_position_embeddings\": 64, \"attention_factor\": 1.2079441541679836}}",
     "{\"architecture\": \"olmo3\", \"windows\": [16, 16, 16, 0], \"rope_scale\": "
     "1.2079441541679836, \"rope\": \"yarn, factor 8, theta 500000; with a window default, theta "
     "500000\"}"},
    {"qwen2.5-vl",
     "{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"], \"hidden_size\": 128, "
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
     "\"use_sliding_window\": false, \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": "
     "[16, 8, 8]}, \"vocab_size\": 320}",
     "{\"architecture\": \"qwen2\", \"windows\": [0, 0], \"rope\": \"default, theta 1e+06\", "
     "\"norm_eps\": 1e-05, \"eos\": []}"},
    {"qwen3-vl-moe",
     "{\"architectures\": [\"Qwen3VLMoeForConditionalGeneration\"], \"text_config\": "
     "{\"model_type\": \"qwen3_vl_moe_text\", \"hidden_size\": 128, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"norm_topk_prob\": false, "
     "\"rope_scaling\": {\"mrope_interleaved\": true, \"rope_type\": \"default\"}, "
     "\"vocab_size\": 320}}",
     "{\"architecture\": \"qwen3_moe\", \"experts\": [1, 1], \"n_experts\": 60, "
     "\"router_normalize\": 1, \"rope\": \"default, theta 500000\"}"},
    {"ministral",
     "{\"architectures\": [\"MinistralForCausalLM\"], \"num_hidden_layers\": 3, "
     "\"sliding_window\": 16, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\"], \"vocab_size\": 320}",
     "{\"architecture\": \"mistral\", \"windows\": [16, 0, 16]}"},
    {"ministral without layer_types",
     "{\"model_type\": \"ministral\", \"num_hidden_layers\": 2, \"vocab_size\": 320}",
     "{\"architecture\": \"mistral\", \"windows\": [4096, 4096]}"},
    {"seed-oss, a head_dim of null",
     "{\"model_type\": \"seed_oss\", \"num_hidden_layers\": 2, \"hidden_size\": 96, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": null}",
     "{\"architecture\": \"llama\", \"head_dim\": 24, \"n_kv_heads\": 2}"},
    {"granite",
     "{\"architectures\": [\"GraniteForCausalLM\"], \"model_type\": \"granite\", "
     "\"hidden_size\": 192, \"intermediate_size\": 288, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"tie_word_embeddings\": false, "
     "\"attention_bias\": false, \"embedding_multiplier\": 12.0, \"attention_multiplier\": 0.4, "
     "\"residual_multiplier\": 0.5, \"logits_scaling\": 8.0, \"vocab_size\": 320}",
     "{\"architecture\": \"granite\", \"embed_scale\": 12.0, \"attend_scale\": 0.4, "
     "\"residual_scale\": 0.5, \"logits_scale\": 0.125}"},
    {"stablelm",
     "{\"architectures\": [\"StableLmForCausalLM\"], \"model_type\": \"stablelm\", "
     "\"hidden_size\": 192, \"intermediate_size\": 288, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false, \"layer_norm_eps\": 1e-05, "
     "\"use_qkv_bias\": true, \"partial_rotary_factor\": 0.25, \"use_parallel_residual\": false, "
     "\"qk_layernorm\": false, \"vocab_size\": 320}",
     "{\"architecture\": \"stablelm\", \"norm_eps\": 1e-05, \"rope\": \"default, theta 10000, "
     "12 of 48 dimensions\"}"},
    {"starcoder2",
     "{\"architectures\": [\"Starcoder2ForCausalLM\"], \"model_type\": \"starcoder2\", "
     "\"hidden_size\": 192, \"intermediate_size\": 288, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true, \"norm_epsilon\": 1e-05, "
     "\"use_bias\": true, \"sliding_window\": 16, \"mlp_type\": \"default\", "
     "\"norm_type\": \"layer_norm\", \"vocab_size\": 320}",
     "{\"architecture\": \"starcoder2\", \"norm_eps\": 1e-05, \"windows\": [16, 16]}"},
};

static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hf_config c;
        struct err e = {0};
        json_t *config = json_loads(cases[i].config, 0, NULL),
               *expected = json_loads(cases[i].expected, 0, NULL), *want;
        assert_true(config && expected);
        if (hfc_read(&c, config, NULL, &quiet, &e)) fail_msg("%s: %s", cases[i].name, e.msg);
        json_t *have = hfc_to_json(&c);
        const char *key;
        json_object_foreach (expected, key, want) {
            const json_t *v = json_object_get(have, key);
            if (json_is_null(want) ? v != NULL : !json_equal(v, want))
                fail_msg("%s: %s is %s", cases[i].name, key,
                         v ? json_dumps(v, JSON_ENCODE_ANY) : "not there");
        }
        json_decref(have);
        json_decref(expected);
        json_decref(config);
        hfc_free(&c);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *class;
        int n_layers, dim, n_heads, n_kv_heads, head_dim, ffn, context, tied, n_experts, top_k;
        double eps;
    } d[] = {
        {"MixtralForCausalLM", 32, 4096, 32, 8, 128, 14336, 131072, 0, 8, 2, 1e-5},
        {"Qwen2MoeForCausalLM", 24, 2048, 16, 16, 128, 1408, 32768, 0, 60, 4, 1e-6},
        {"Qwen3MoeForCausalLM", 24, 2048, 32, 4, 64, 768, 32768, 0, 128, 8, 1e-6},
        {"Qwen3NextForCausalLM", 48, 2048, 16, 2, 256, 512, 32768, 0, 512, 10, 1e-6},
        {"Qwen3_5ForCausalLM", 32, 4096, 16, 4, 256, 12288, 32768, 0, 0, 0, 1e-6},
        {"Qwen3_5MoeForCausalLM", 40, 2048, 16, 2, 256, 512, 32768, 0, 256, 8, 1e-6},
        {"Phi3ForCausalLM", 32, 3072, 32, 32, 96, 8192, 4096, 0, 0, 0, 1e-5},
        {"Glm4ForCausalLM", 40, 4096, 32, 2, 128, 13696, 131072, 0, 0, 0, 1.5625e-7},
        {"GlmForCausalLM", 40, 4096, 32, 2, 128, 13696, 131072, 0, 0, 0, 1.5625e-7},
        {"Glm4MoeForCausalLM", 46, 4096, 96, 8, 128, 10944, 131072, 0, 128, 8, 1e-5},
        {"GptOssForCausalLM", 36, 2880, 64, 8, 64, 2880, 131072, 0, 128, 4, 1e-5},
        {"Ministral3ForCausalLM", 34, 4096, 32, 8, 128, 14336, 262144, 0, 0, 0, 1e-5},
        {"SmolLM3ForCausalLM", 36, 2048, 16, 4, 128, 11008, 32768, 1, 0, 0, 1e-6},
        {"Olmo2ForCausalLM", 32, 4096, 32, 32, 128, 11008, 2048, 0, 0, 0, 1e-5},
        {"GraniteForCausalLM", 32, 4096, 32, 32, 128, 11008, 2048, 0, 0, 0, 1e-6},
        {"Ernie4_5ForCausalLM", 18, 1024, 16, 2, 128, 3072, 131072, 1, 0, 0, 1e-5},
        {"InternLM3ForCausalLM", 48, 4096, 32, 2, 128, 10240, 32768, 0, 0, 0, 1e-5},
        {"SeedOssForCausalLM", 64, 4096, 80, 8, 128, 27648, 524288, 0, 0, 0, 1e-6},
        {"Qwen3VLForConditionalGeneration", 32, 4096, 32, 32, 128, 22016, 128000, 0, 0, 0, 1e-6},
        {"StableLmForCausalLM", 32, 2560, 32, 32, 80, 6912, 4096, 0, 0, 0, 1e-5},
        {"HYV3ForCausalLM", 80, 4096, 64, 8, 128, 13312, 131072, 0, 192, 8, 1e-5},
        {"MiniMaxM2ForCausalLM", 62, 3072, 48, 8, 128, 1536, 196608, 0, 256, 8, 1e-6},
        {"Ernie4_5_MoeForCausalLM", 28, 2560, 20, 4, 128, 12288, 131072, 1, 64, 6, 1e-5},
        {"ApertusForCausalLM", 32, 4096, 32, 32, 128, 14336, 65536, 0, 0, 0, 1e-5},
        {"Cohere2ForCausalLM", 40, 8192, 64, 64, 128, 22528, 8192, 1, 0, 0, 1e-5},
        {"Starcoder2ForCausalLM", 30, 3072, 24, 2, 128, 12288, 4096, 1, 0, 0, 1e-5},
    };
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        struct hf_config c;
        struct err e = {0};
        const char *extra = strstr(d[i].class, "Glm4Moe") ? ", \"head_dim\": 128" : "";
        if (read_class(&c, d[i].class, extra, &e)) fail_msg("%s: %s", d[i].class, e.msg);
        if (c.n_layers != d[i].n_layers || c.dim != d[i].dim || c.n_heads != d[i].n_heads ||
            c.n_kv_heads != d[i].n_kv_heads || c.head_dim != d[i].head_dim || c.ffn != d[i].ffn ||
            c.context != d[i].context || c.tied != d[i].tied || c.n_experts != d[i].n_experts ||
            c.top_k != d[i].top_k || c.norm_eps != d[i].eps)
            fail_msg("%s: a default differs", d[i].class);
        hfc_free(&c);
    }
}

/* Biases that the configuration promises must be there. */
static void test_biases(void **state)
{
    (void)state;
    struct hf_config c;
    struct err e = {0};
    assert_int_equal(read_class(&c, "LlamaForCausalLM", ", \"attention_bias\": true", &e), 0);
    assert_int_equal(c.traits & (HF_QKV_BIAS | HF_O_BIAS | HF_MLP_BIAS), HF_QKV_BIAS | HF_O_BIAS);
    hfc_free(&c);
    assert_int_equal(read_class(&c, "LlamaForCausalLM", ", \"mlp_bias\": 1", &e), 0);
    assert_int_equal(c.traits & (HF_QKV_BIAS | HF_O_BIAS | HF_MLP_BIAS), HF_MLP_BIAS);
    hfc_free(&c);
    assert_int_equal(read_class(&c, "Qwen2ForCausalLM", ", \"attention_bias\": true", &e), 0);
    assert_false(c.traits & HF_O_BIAS);
    hfc_free(&c);
}

/* Which layers of a hybrid have full attention, where no list says it. */
static void test_interval(void **state)
{
    (void)state;
    struct hf_config c;
    for (int every = 2; every < 5; every++) {
        char extra[100];
        struct err e = {0};
        snprintf(extra, sizeof extra, ", \"num_hidden_layers\": 9, \"full_attention_interval\": %d",
                 every);
        assert_int_equal(read_class(&c, "Qwen3NextForCausalLM", extra, &e), 0);
        for (int i = 0; i < 9; i++) assert_int_equal(c.linear[i], i % every != every - 1);
        hfc_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
