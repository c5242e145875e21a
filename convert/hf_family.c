#include "convert/hf_family.h"

#include <stdlib.h>
#include <string.h>

#define QWEN_HYBRID (HF_NORM_PLUS_1 | HF_QK_NORM | HF_OUTPUT_GATE | HF_HYBRID | HF_MROPE)

#define LATENT_EXPERTS (HF_LATENT | HF_EXPERTS)

/* clang-format off */
static const struct hf_family families[] = {
    {.name = "llama", .classes = {"LlamaForCausalLM", "LLaMAForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .context = 2048, .bos = 1, .eos = 2, .ffn = 11008},
    {.name = "mistral", .classes = {"MistralForCausalLM", "MistralModel"},
     .layers = 32, .dim = 4096, .heads = 32, .kv_heads = 8, .context = 131072, .bos = 1, .eos = 2,
     .ffn = 14336, .windows = WINDOWS_ALL, .window = 4096},
    {.name = "mistral", .classes = {"MinistralForCausalLM"}, .types = {"ministral"},
     .layers = 32, .dim = 4096, .heads = 32, .kv_heads = 8, .context = 131072, .bos = 1, .eos = 2,
     .ffn = 14336, .windows = WINDOWS_LISTED, .window = 4096},
    {.name = "ministral3", .classes = {"Ministral3ForCausalLM"},
     .layers = 34, .dim = 4096, .heads = 32, .vocab = 131072, .kv_heads = 8, .head_dim = 128,
     .context = 262144, .bos = 1, .eos = 2, .ffn = 14336, .windows = WINDOWS_ALL, .eps = 1e-5,
     .traits = HF_QUERY_SCALE},
    {.name = "qwen2", .classes = {"Qwen2ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .kv_heads = 32, .context = 32768, .bos = -1,
     .eos = -1, .ffn = 22016, .traits = HF_QKV_BIAS, .windows = WINDOWS_QWEN, .window = 4096},
    {.name = "qwen3", .classes = {"Qwen3ForCausalLM", "Qwen3Model"},
     .layers = 32, .dim = 4096, .heads = 32, .kv_heads = 32, .head_dim = 128, .context = 32768,
     .bos = -1, .eos = -1, .ffn = 22016, .traits = HF_QK_NORM, .windows = WINDOWS_QWEN,
     .window = 4096},
    {.name = "qwen2",
     .classes = {"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"},
     .types = {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"},
     .layers = 80, .dim = 8192, .heads = 64, .vocab = 152064, .kv_heads = 8, .context = 32768,
     .bos = 151643, .eos = 151645, .ffn = 29568, .traits = HF_QKV_BIAS | HF_MROPE,
     .windows = WINDOWS_QWEN, .window = 4096, .eps = 1e-5, .rope = {1e6, 0}},
    {.name = "qwen3", .classes = {"Qwen3VLForConditionalGeneration"},
     .types = {"qwen3_vl", "qwen3_vl_text"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 151936, .kv_heads = 32, .head_dim = 128,
     .context = 128000, .bos = -1, .eos = -1, .ffn = 22016, .traits = HF_QK_NORM | HF_MROPE,
     .rope = {5e5, 0}},
    {.name = "gemma2", .classes = {"Gemma2ForCausalLM"},
     .layers = 26, .dim = 2304, .heads = 8, .vocab = 256000, .kv_heads = 4, .head_dim = 256,
     .context = 8192, .bos = 2, .eos = 1, .ffn = 9216, .tied = 1,
     .traits = HF_GEMMA | HF_NORM_PLUS_1, .windows = WINDOWS_TYPES, .window = 4096,
     .full_every = 2, .gemma = 2, .rope = {10000, 0}, .softcaps = {50, 30}},
    {.name = "gemma3", .classes = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
     .types = {"gemma3_text"},
     .layers = 26, .dim = 2304, .heads = 8, .vocab = 262208, .kv_heads = 4, .head_dim = 256,
     .context = 131072, .bos = 2, .eos = 1, .ffn = 9216, .tied = 1,
     .traits = HF_GEMMA | HF_NORM_PLUS_1 | HF_QK_NORM, .windows = WINDOWS_TYPES, .window = 4096,
     .full_every = 6, .gemma = 3, .rope = {1e6, 0}},
    {.name = "gemma4", .classes = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"},
     .types = {"gemma4_text"},
     .layers = 30, .dim = 2304, .heads = 8, .vocab = 262144, .kv_heads = 4, .head_dim = 256,
     .context = 131072, .bos = 2, .eos = 1, .ffn = 9216, .tied = 1,
     .traits = HF_GEMMA | HF_GEMMA4 | HF_QK_NORM, .windows = WINDOWS_TYPES, .window = 512,
     .full_every = 6, .gemma = 4, .ple = 256, .rope = {1e6, 0}, .normalize = -1},
    {.name = "gemma4",
     .classes = {"Gemma4UnifiedForCausalLM", "Gemma4UnifiedForConditionalGeneration"},
     .types = {"gemma4_unified", "gemma4_unified_text"},
     .layers = 30, .dim = 2304, .heads = 8, .vocab = 262144, .kv_heads = 4, .head_dim = 256,
     .context = 262144, .bos = 2, .eos = 1, .ffn = 9216, .tied = 1,
     .traits = HF_GEMMA | HF_GEMMA4 | HF_QK_NORM, .windows = WINDOWS_TYPES, .window = 1024,
     .full_every = 6, .gemma = 4, .rope = {1e6, 0}, .normalize = -1},
    {.name = "phi3", .classes = {"Phi3ForCausalLM"},
     .layers = 32, .dim = 3072, .heads = 32, .vocab = 32064, .context = 4096, .bos = 1,
     .eos = 32000, .ffn = 8192, .windows = WINDOWS_ALL, .eps = 1e-5},
    {.name = "glm4", .classes = {"Glm4ForCausalLM"},
     .layers = 40, .dim = 4096, .heads = 32, .vocab = 151552, .kv_heads = 2, .head_dim = 128,
     .context = 131072, .bos = -1, .eos = 151329, .more_eos = {151336, 151338}, .ffn = 13696,
     .traits = HF_GLM_NORMS | HF_INTERLEAVED, .eps = 1.5625e-7, .rope = {0, 0.5},
     .bias_key = "attention_bias", .bias_default = 1, .bias_traits = HF_QKV_BIAS},
    {.name = "llama", .classes = {"GlmForCausalLM"}, .types = {"glm"},
     .layers = 40, .dim = 4096, .heads = 32, .vocab = 151552, .kv_heads = 2, .head_dim = 128,
     .context = 131072, .bos = -1, .eos = 151329, .more_eos = {151336, 151338}, .ffn = 13696,
     .traits = HF_INTERLEAVED, .eps = 1.5625e-7, .rope = {0, 0.5},
     .bias_key = "attention_bias", .bias_default = 1, .bias_traits = HF_QKV_BIAS},
    {.name = "llama", .classes = {"SeedOssForCausalLM"}, .types = {"seed_oss"},
     .layers = 64, .dim = 4096, .heads = 80, .vocab = 155136, .kv_heads = 8, .head_dim = 128,
     .context = 524288, .bos = 0, .eos = 2, .ffn = 27648, .bias_key = "attention_bias",
     .bias_default = 1, .bias_traits = HF_QKV_BIAS},
    {.name = "llama", .classes = {"Ernie4_5ForCausalLM"}, .types = {"ernie4_5"},
     .layers = 18, .dim = 1024, .heads = 16, .vocab = 103424, .kv_heads = 2, .head_dim = 128,
     .context = 131072, .bos = 1, .eos = 2, .ffn = 3072, .tied = 1, .traits = HF_INTERLEAVED,
     .eps = 1e-5, .rope = {5e5, 0}},
    {.name = "llama", .classes = {"InternLM3ForCausalLM"}, .types = {"internlm3"},
     .layers = 48, .dim = 4096, .heads = 32, .vocab = 128512, .kv_heads = 2, .head_dim = 128,
     .context = 32768, .bos = 1, .eos = 2, .ffn = 10240, .eps = 1e-5},
    {.name = "llama", .classes = {"YiForCausalLM"}, .types = {"Yi"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 64000, .kv_heads = 4, .context = 4096,
     .bos = 1, .eos = 2, .ffn = 11008, .eps = 1e-5, .rope = {5e6, 0}},
    {.name = "llama", .classes = {"AquilaForCausalLM", "AquilaModel"}, .types = {"aquila"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 100008, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008},
    {.name = "llama", .classes = {"InternLMForCausalLM"}, .types = {"internlm"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 103168, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .bias_key = "bias", .bias_default = 1, .bias_traits = HF_QKV_BIAS | HF_O_BIAS},
    {.name = "llama", .classes = {"InternLM2ForCausalLM"}, .types = {"internlm2"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 103168, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .bias_key = "bias", .bias_default = 1, .bias_traits = HF_QKV_BIAS | HF_O_BIAS},
    {.name = "stablelm", .classes = {"OrionForCausalLM"}, .types = {"orion"},
     .layers = 40, .dim = 5120, .heads = 40, .vocab = 84608, .kv_heads = 40, .context = 4096,
     .bos = 1, .eos = 2, .ffn = 15360, .traits = HF_LAYER_NORM, .eps = 1e-5},
    {.name = "cohere2", .classes = {"Cohere2ForCausalLM"},
     .layers = 40, .dim = 8192, .heads = 64, .vocab = 256000, .context = 8192, .bos = 5,
     .eos = 255001, .ffn = 22528, .tied = 1,
     .traits = HF_ONE_NORM | HF_INTERLEAVED | HF_NO_ROPE, .windows = WINDOWS_ROPE,
     .window = 4096, .full_every = 4, .eps = 1e-5, .eps_key = "layer_norm_eps"},
    {.name = "cohere2", .classes = {"CohereForCausalLM"}, .types = {"cohere"},
     .layers = 40, .dim = 8192, .heads = 64, .vocab = 256000, .context = 8192, .bos = 5,
     .eos = 255001, .ffn = 22528, .tied = 1,
     .traits = HF_ONE_NORM | HF_INTERLEAVED | HF_NO_ROPE, .eps = 1e-5,
     .eps_key = "layer_norm_eps"},
    {.name = "exaone4", .classes = {"Exaone4ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 102400, .kv_heads = 32, .context = 2048,
     .bos = 0, .eos = 2, .ffn = 16384, .traits = HF_QK_NORM | HF_POST_NORMS | HF_NO_ROPE,
     .windows = WINDOWS_ROPE, .window = 4096, .full_every = 4, .eps = 1e-5},
    {.name = "apertus", .classes = {"ApertusForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 131072, .context = 65536, .bos = 1, .eos = 2,
     .ffn = 14336, .traits = HF_QK_NORM | HF_NO_GLU | HF_XIELU, .eps = 1e-5, .rope = {12e6, 0}},
    {.name = "hunyuan_v1_dense", .classes = {"HunYuanDenseV1ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 290943, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .traits = HF_QK_NORM | HF_NO_ROPE, .eps = 1e-5},
    {.name = "hunyuan_v1_moe", .classes = {"HunYuanMoEV1ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 290943, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .traits = HF_QK_NORM | HF_NO_ROPE | HF_EXPERTS | HF_MOE_SIZES, .eps = 1e-5,
     .experts = 1, .top_k = 1, .shared_ffn = 1, .normalize = -1},
    {.name = "hy_v3", .classes = {"HYV3ForCausalLM"},
     .layers = 80, .dim = 4096, .heads = 64, .vocab = 120832, .kv_heads = 8, .head_dim = 128,
     .context = 131072, .bos = -1, .eos = -1, .ffn = 13312,
     .traits = HF_QK_NORM | HF_EXPERTS | HF_CHOICE_BIAS, .eps = 1e-5, .rope = {11158840, 0},
     .experts = 192, .top_k = 8, .expert_ffn = 1536, .shared_ffn = 1, .normalize = -1,
     .router_scale = 2.826, .dense_layers = 1},
    {.name = "dots1", .classes = {"Dots1ForCausalLM"},
     .layers = 62, .dim = 4608, .heads = 32, .vocab = 152064, .kv_heads = 32, .context = 2048,
     .bos = -1, .eos = -1, .ffn = 10944, .traits = HF_QK_NORM | HF_EXPERTS | HF_CHOICE_BIAS,
     .windows = WINDOWS_FROM, .window = 4096, .expert_ffn = 1408},
    {.name = "minimax_m2", .classes = {"MiniMaxM2ForCausalLM"},
     .layers = 62, .dim = 3072, .heads = 48, .vocab = 200064, .kv_heads = 8, .head_dim = 128,
     .context = 196608, .bos = 200034, .eos = 200020, .ffn = 1536,
     .traits = HF_QK_NORM_WHOLE | HF_EXPERTS | HF_CHOICE_BIAS, .rope = {5e6, 1}, .experts = 256,
     .top_k = 8, .normalize = -1},
    {.name = "ernie4_5_moe", .classes = {"Ernie4_5_MoeForCausalLM"},
     .layers = 28, .dim = 2560, .heads = 20, .vocab = 103424, .kv_heads = 4, .context = 131072,
     .bos = 1, .eos = 2, .ffn = 12288, .tied = 1,
     .traits = HF_INTERLEAVED | HF_EXPERTS | HF_CHOICE_BIAS | HF_SOFTMAX, .eps = 1e-5,
     .rope = {5e5, 0}, .experts = 64, .top_k = 6, .expert_ffn = 1536, .shared_ffn = 2,
     .normalize = -1, .dense_layers = 1},
    {.name = "llama4", .classes = {"Llama4ForCausalLM", "Llama4ForConditionalGeneration"},
     .types = {"llama4_text"},
     .layers = 48, .dim = 5120, .heads = 40, .vocab = 202048, .kv_heads = 8, .head_dim = 128,
     .context = 131072, .bos = 1, .eos = 2, .ffn = 8192,
     .traits = HF_EXPERTS | HF_LLAMA4 | HF_INTERLEAVED | HF_NO_ROPE, .eps = 1e-5, .rope = {5e5, 0},
     .experts = 16, .top_k = 1, .shared_ffn = 1},
    {.name = "olmo2", .classes = {"Olmo2ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 50304, .context = 2048, .bos = -1,
     .eos = 50279, .ffn = 11008, .traits = HF_QK_NORM_WHOLE | HF_POST_NORMS, .eps = 1e-5},
    {.name = "olmo3", .classes = {"Olmo3ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 50304, .context = 2048, .bos = -1,
     .eos = 50279, .ffn = 11008, .traits = HF_QK_NORM_WHOLE | HF_POST_NORMS | HF_SLIDING_ROPE,
     .windows = WINDOWS_TYPES, .window = 4096, .full_every = 4, .eps = 1e-5, .rope = {5e5, 0}},
    {.name = "olmo_hybrid", .classes = {"OlmoHybridForCausalLM"},
     .layers = 32, .dim = 3840, .heads = 30, .vocab = 100352, .context = 65536, .bos = -1,
     .eos = 100257, .ffn = 11008, .traits = HF_HYBRID | HF_OLMO_HYBRID, .full_every = 4},
    {.name = "granite", .classes = {"GraniteForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 32000, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .traits = HF_SCALES},
    {.name = "granite_hybrid", .classes = {"GraniteMoeHybridForCausalLM"},
     .types = {"granitemoehybrid"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 32000, .context = 2048, .bos = 1, .eos = 2,
     .ffn = 11008, .traits = HF_MAMBA2 | HF_SCALES | HF_EXPERTS, .experts = 8, .top_k = 2,
     .normalize = -1},
    {.name = "jamba", .classes = {"JambaForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 65536, .kv_heads = 8, .context = 262144,
     .bos = 1, .eos = 2, .ffn = 14336, .traits = HF_MAMBA1 | HF_NOPE | HF_EXPERTS, .experts = 16,
     .top_k = 2},
    {.name = "bamba", .classes = {"BambaForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 128000, .kv_heads = 8, .context = 262144,
     .bos = 1, .eos = 2, .ffn = 14336, .traits = HF_MAMBA2, .eps = 1e-5, .rope = {0, 0.5}},
    {.name = "falcon_h1", .classes = {"FalconH1ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 128000, .kv_heads = 8, .context = 8192,
     .bos = 1, .eos = 2, .ffn = 14336, .traits = HF_MAMBA2 | HF_FALCON, .eps = 1e-5,
     .rope = {1e5, 0}},
    {.name = "nemotron_h", .classes = {"NemotronHForCausalLM"},
     .layers = 52, .dim = 4096, .heads = 32, .vocab = 131072, .kv_heads = 8, .head_dim = 128,
     .context = 4096, .bos = 1, .eos = 2, .ffn = 21504,
     .traits = HF_MAMBA2 | HF_ONE_BLOCK | HF_NOPE | HF_NO_GLU | HF_EXPERTS | HF_CHOICE_BIAS,
     .eps = 1e-5, .eps_key = "layer_norm_epsilon", .experts = 8, .top_k = 2, .expert_ffn = 7688,
     .normalize = 1},
    {.name = "lfm2", .classes = {"Lfm2ForCausalLM"},
     .layers = 32, .dim = 2560, .heads = 32, .vocab = 65536, .kv_heads = 8, .context = 128000,
     .bos = 1, .eos = 2, .ffn = 12288, .tied = 1, .traits = HF_SHORT_CONV | HF_QK_NORM,
     .eps = 1e-5, .eps_key = "norm_eps", .rope = {1e6, 0}},
    {.name = "lfm2", .classes = {"Lfm2MoeForCausalLM"}, .types = {"lfm2_moe"},
     .layers = 32, .dim = 2048, .heads = 32, .vocab = 65536, .kv_heads = 8, .context = 128000,
     .bos = 1, .eos = 2, .ffn = 7168, .tied = 1,
     .traits = HF_SHORT_CONV | HF_QK_NORM | HF_EXPERTS | HF_CHOICE_BIAS, .eps = 1e-5,
     .eps_key = "norm_eps", .rope = {1e6, 0}, .experts = 32, .top_k = 4, .expert_ffn = 1792,
     .normalize = 1},
    {.name = "smollm3", .classes = {"SmolLM3ForCausalLM"},
     .layers = 36, .dim = 2048, .heads = 16, .vocab = 128256, .kv_heads = 4, .context = 32768,
     .bos = 128000, .eos = 128001, .ffn = 11008, .tied = 1, .traits = HF_NO_ROPE,
     .windows = WINDOWS_NO_ROPE, .rope = {2e6, 0}},
    {.name = "stablelm", .classes = {"StableLmForCausalLM"},
     .layers = 32, .dim = 2560, .heads = 32, .vocab = 50304, .kv_heads = 32, .context = 4096,
     .bos = 0, .eos = 0, .ffn = 6912, .traits = HF_LAYER_NORM, .eps = 1e-5,
     .eps_key = "layer_norm_eps", .rope = {0, 0.25}, .bias_key = "use_qkv_bias",
     .bias_traits = HF_QKV_BIAS},
    {.name = "starcoder2", .classes = {"Starcoder2ForCausalLM"},
     .layers = 30, .dim = 3072, .heads = 24, .vocab = 49152, .kv_heads = 2, .context = 4096,
     .bos = 50256, .eos = 50256, .ffn = 12288, .tied = 1, .traits = HF_LAYER_NORM | HF_NO_GLU,
     .windows = WINDOWS_ALL, .eps = 1e-5, .eps_key = "norm_epsilon", .bias_key = "use_bias",
     .bias_default = 1, .bias_traits = HF_QKV_BIAS | HF_O_BIAS | HF_MLP_BIAS},
    {.name = "mixtral", .classes = {"MixtralForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 32000, .kv_heads = 8, .context = 131072,
     .bos = 1, .eos = 2, .ffn = 14336, .traits = HF_EXPERTS, .windows = WINDOWS_ALL, .eps = 1e-5,
     .rope = {1e6, 0}, .experts = 8, .top_k = 2, .normalize = -1},
    {.name = "qwen2_moe", .classes = {"Qwen2MoeForCausalLM"},
     .layers = 24, .dim = 2048, .heads = 16, .vocab = 151936, .kv_heads = 16, .context = 32768,
     .bos = -1, .eos = -1, .ffn = 5632, .traits = HF_EXPERTS | HF_SHARED_GATE,
     .windows = WINDOWS_EVEN, .window = 4096, .experts = 60, .top_k = 4, .expert_ffn = 1408,
     .shared_ffn = 5632, .bias_key = "qkv_bias", .bias_default = 1, .bias_traits = HF_QKV_BIAS},
    {.name = "qwen3_moe", .classes = {"Qwen3MoeForCausalLM"},
     .layers = 24, .dim = 2048, .heads = 32, .vocab = 151936, .kv_heads = 4, .context = 32768,
     .bos = -1, .eos = -1, .ffn = 6144, .traits = HF_EXPERTS | HF_QK_NORM,
     .windows = WINDOWS_USED, .window = 4096, .experts = 128, .top_k = 8, .expert_ffn = 768},
    {.name = "qwen3_moe", .classes = {"Qwen3VLMoeForConditionalGeneration"},
     .types = {"qwen3_vl_moe", "qwen3_vl_moe_text"},
     .layers = 24, .dim = 2048, .heads = 16, .vocab = 151936, .kv_heads = 16, .context = 128000,
     .bos = -1, .eos = -1, .ffn = 5632,
     .traits = HF_EXPERTS | HF_QK_NORM | HF_MROPE | HF_TURNED_EXPERTS, .rope = {5e5, 0},
     .experts = 60, .top_k = 4, .expert_ffn = 1408, .normalize = -1},
    {.name = "qwen3_next", .classes = {"Qwen3NextForCausalLM"},
     .layers = 48, .dim = 2048, .heads = 16, .vocab = 151936, .kv_heads = 2, .head_dim = 256,
     .context = 32768, .bos = -1, .eos = -1, .ffn = 5632,
     .traits = QWEN_HYBRID | HF_EXPERTS | HF_SHARED_GATE, .full_every = 4, .rope = {0, 0.25},
     .experts = 512, .top_k = 10, .expert_ffn = 512, .shared_ffn = 512, .normalize = 1},
    {.name = "qwen3_next",
     .classes = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_8ForCausalLM",
                 "Qwen3_8ForConditionalGeneration"},
     .types = {"qwen3_5", "qwen3_5_text", "qwen3_8", "qwen3_8_text"},
     .layers = 32, .dim = 4096, .heads = 16, .vocab = 248320, .kv_heads = 4, .head_dim = 256,
     .context = 32768, .bos = -1, .eos = -1, .ffn = 12288, .traits = QWEN_HYBRID,
     .full_every = 4, .rope = {0, 0.25}},
    {.name = "qwen3_next",
     .classes = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
                 "Qwen3_8MoeForCausalLM", "Qwen3_8MoeForConditionalGeneration"},
     .types = {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_8_moe", "qwen3_8_moe_text"},
     .layers = 40, .dim = 2048, .heads = 16, .vocab = 248320, .kv_heads = 2, .head_dim = 256,
     .context = 32768, .bos = -1, .eos = -1, .ffn = 512,
     .traits = QWEN_HYBRID | HF_EXPERTS | HF_SHARED_GATE, .full_every = 4, .rope = {0, 0.25},
     .experts = 256, .top_k = 8, .expert_ffn = 512, .shared_ffn = 512, .normalize = -1},
    {.name = "glm4_moe", .classes = {"Glm4MoeForCausalLM"},
     .layers = 46, .dim = 4096, .heads = 96, .vocab = 151552, .kv_heads = 8, .context = 131072,
     .bos = -1, .eos = -1, .ffn = 10944, .traits = HF_EXPERTS | HF_CHOICE_BIAS, .eps = 1e-5,
     .rope = {0, 0.5}, .experts = 128, .top_k = 8, .expert_ffn = 1408, .shared_ffn = 1,
     .normalize = 1, .dense_layers = 1, .bias_key = "attention_bias", .bias_traits = HF_QKV_BIAS},
    {.name = "deepseek_v2", .classes = {"DeepseekV2ForCausalLM"},
     .layers = 32, .dim = 4096, .heads = 32, .vocab = 32000, .head_dim = 64, .context = 2048,
     .bos = 1, .eos = 2, .ffn = 11008, .traits = LATENT_EXPERTS, .experts = 64,
     .expert_ffn = 1407, .shared_ffn = 2, .latent = {512, 1536, 128, 64, 128}},
    {.name = "deepseek_v3", .classes = {"DeepseekV3ForCausalLM"}, .types = {"kimi_k2"},
     .layers = 61, .dim = 7168, .heads = 128, .vocab = 129280, .head_dim = 64, .context = 4096,
     .bos = 0, .eos = 1, .ffn = 18432, .traits = LATENT_EXPERTS | HF_CHOICE_BIAS, .experts = 256,
     .top_k = 8, .expert_ffn = 2048, .shared_ffn = 1, .normalize = 1, .dense_layers = 3,
     .groups = 8, .kept_groups = 4, .router_scale = 2.5, .latent = {512, 1536, 128, 64, 128}},
    {.name = "deepseek_v32", .classes = {"DeepseekV32ForCausalLM"},
     .layers = 61, .dim = 7168, .heads = 128, .vocab = 129280, .head_dim = 64, .context = 163840,
     .bos = 0, .eos = 1, .ffn = 18432, .traits = LATENT_EXPERTS | HF_CHOICE_BIAS | HF_INDEXER,
     .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_ffn = 1, .normalize = 1,
     .dense_layers = 3, .groups = 8, .kept_groups = 4, .router_scale = 2.5,
     .latent = {512, 1536, 128, 64, 128}},
    {.name = "glm_moe_dsa", .classes = {"GlmMoeDsaForCausalLM"},
     .layers = 78, .dim = 6144, .heads = 64, .vocab = 154880, .head_dim = 64, .context = 202752,
     .bos = 0, .eos = 1, .ffn = 12288, .traits = LATENT_EXPERTS | HF_CHOICE_BIAS | HF_INDEXER,
     .eps = 1e-5, .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_ffn = 1, .normalize = 1,
     .dense_layers = 3, .router_scale = 2.5, .latent = {512, 2048, 192, 64, 256}},
    {.name = "kimi_linear", .classes = {"KimiLinearForCausalLM"},
     .layers = 27, .dim = 2304, .heads = 32, .vocab = 163840, .head_dim = 64, .context = 1048576,
     .bos = -1, .eos = -1, .ffn = 9216,
     .traits = LATENT_EXPERTS | HF_CHOICE_BIAS | HF_KIMI | HF_NOPE, .eps = 1e-5, .experts = 256,
     .top_k = 8, .expert_ffn = 1024, .shared_ffn = 1, .normalize = 1, .dense_layers = 1,
     .router_scale = 1, .latent = {512, 0, 128, 64, 128}},
    {.name = "glm4_moe_lite", .classes = {"Glm4MoeLiteForCausalLM"},
     .layers = 47, .dim = 2048, .heads = 20, .vocab = 154880, .head_dim = 64, .context = 202752,
     .bos = 0, .eos = 1, .ffn = 10240, .traits = LATENT_EXPERTS | HF_CHOICE_BIAS, .eps = 1e-5,
     .experts = 64, .top_k = 4, .expert_ffn = 1536, .shared_ffn = 1, .normalize = 1,
     .dense_layers = 1, .router_scale = 1.8, .latent = {512, 768, 192, 64, 256}},
    {.name = "mistral4", .classes = {"Mistral4ForCausalLM"},
     .layers = 36, .dim = 4096, .heads = 32, .vocab = 131072, .head_dim = 64, .context = 1048576,
     .bos = 1, .eos = 2, .ffn = 12288, .traits = LATENT_EXPERTS | HF_QUERY_SCALE, .experts = 128,
     .top_k = 4, .expert_ffn = 2048, .shared_ffn = 1, .normalize = 1,
     .latent = {256, 1024, 64, 64, 128}},
    {.name = "gpt_oss", .classes = {"GptOssForCausalLM"},
     .layers = 36, .dim = 2880, .heads = 64, .vocab = 201088, .kv_heads = 8, .head_dim = 64,
     .context = 131072, .bos = -1, .eos = -1, .ffn = 2880,
     .traits = HF_EXPERTS | HF_GPT_OSS | HF_SINKS, .windows = WINDOWS_TYPES, .window = 128,
     .full_every = 2, .eps = 1e-5, .rope = {150000, 0}, .experts = 128, .top_k = 4,
     .normalize = -1, .bias_key = "attention_bias", .bias_default = 1,
     .bias_traits = HF_QKV_BIAS | HF_O_BIAS},
};
/* clang-format on */
enum { N_FAMILIES = sizeof families / sizeof *families };

static const struct hf_family *by_name(const char *class, const char *type)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        const struct hf_family *f = &families[i];
        for (int k = 0; class && k < 4 && f->classes[k]; k++)
            if (!strcmp(class, f->classes[k])) return f;
        if (class || !type) continue;
        if (!strcmp(type, f->name)) return f;
        for (int k = 0; k < 4 && f->types[k]; k++)
            if (!strcmp(type, f->types[k])) return f;
    }
    return NULL;
}

/* Classes of images and text whose language model is a family of its own: text_config names it. */
static int is_wrapper(const char *class, const char *type)
{
    static const char *const names[][2] = {
        {"Mistral3ForConditionalGeneration", "mistral3"},
        {"AyaVisionForConditionalGeneration", "aya_vision"},
        {"Cohere2VisionForConditionalGeneration", "cohere2_vision"},
        {"KimiK25ForConditionalGeneration", "kimi_k25"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (class ? !strcmp(class, names[i][0]) : type && !strcmp(type, names[i][1])) return 1;
    return 0;
}

static int has_latent_attention(const json_t *config)
{
    return hff_value(config, "kv_lora_rank") != NULL;
}

/* What can be done with a model of a class that is not read. */
static const char *instead_of(const char *class)
{
    static const char *const heads[] = {"ForSequenceClassification", "ForTokenClassification",
                                        "ForMaskedLM", "ForQuestionAnswering"};
    for (size_t i = 0; class && i < sizeof heads / sizeof *heads; i++)
        if (strstr(class, heads[i])) return "no language model's head: use transformers for it";
    return "if it is one of these by another name, put its class into architectures; else use vLLM "
           "or llama.cpp";
}

const struct hf_family *hff_find(const json_t *config, int *nested, struct err *e)
{
    const json_t *list = json_object_get(config, "architectures"),
                 *text = json_object_get(config, "text_config");
    const char *class = json_string_value(json_array_get(list, 0)),
               *type = json_string_value(json_object_get(config, "model_type"));
    *nested = json_is_object(text);
    const struct hf_family *f = by_name(class, type);
    if (!f && is_wrapper(class, type)) {
        const char *inner = json_string_value(json_object_get(text, "model_type"));
        f = by_name(NULL, inner ? inner : "mistral");
        *nested = *nested ? 2 : 0;
    }
    if (f) return f;
    if (!class && !type)
        err_set(e, "config.json: neither architectures nor model_type says what model this is");
    else
        err_set(
            e,
            "config.json: architecture '%.60s' is not supported%s (Llama 1 to 4, Mistral, Mixtral, "
            "Qwen2 to Qwen3.8, Gemma 2 to 4, Phi-3 and Phi-4, GLM-4 and GLM-5, DeepSeek, Kimi, "
            "MiniMax-M2, gpt-oss, OLMo 2 and 3, EXAONE 4, Hunyuan, dots1, Cohere, Apertus, "
            "Granite, Nemotron-H, Falcon-H1, Bamba, Jamba, LFM2, SmolLM3, StableLM, Orion, "
            "Starcoder2, "
            "Seed-OSS, Ernie 4.5, InternLM, Yi and Aquila language models are): %s",
            class ? class : type,
            has_latent_attention(config) ? ": its attention is multi-head latent" : "",
            instead_of(class));
    return NULL;
}

int hff_int(const json_t *j, const char *key, int fallback, int lo, int hi, int *out, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    json_int_t x = fallback;
    if (v && !json_is_null(v)) {
        if (!json_is_integer(v)) return err_set(e, "config.json: %s is not an integer", key);
        x = json_integer_value(v);
    } else if (fallback < lo) {
        return err_set(e, "config.json: %s is missing", key);
    }
    if (x < lo || x > hi)
        return err_set(e, "config.json: %s is %lld, must be %d to %d", key, (long long)x, lo, hi);
    *out = (int)x;
    return 0;
}

int hff_number(const json_t *j, const char *key, double fallback, double lo, double hi, double *out,
               struct err *e)
{
    const json_t *v = json_object_get(j, key);
    *out = !v ? fallback : json_number_value(v);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_number(v) || !(*out >= lo && *out <= hi))
        return err_set(e, "config.json: %s is not a number of %g to %g", key, lo, hi);
    return 0;
}

const json_t *hff_value(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return v && !json_is_null(v) ? v : NULL;
}

int hff_flag(const json_t *j, const char *key, int fallback, int *out, struct err *e)
{
    const json_t *v = hff_value(j, key);
    json_int_t x = json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
    if (v && ((!json_is_boolean(v) && !json_is_integer(v)) || x < 0 || x > 1))
        return err_set(e, "config.json: %s is neither true nor false", key);
    *out = v ? (int)x : fallback;
    return 0;
}

int hff_list(int **list, int n, struct err *e)
{
    *list = calloc((size_t)n, sizeof **list);
    return *list ? 0 : err_memory(e);
}

int hff_types(const struct hf_config *c, const json_t *config, const json_t **types, struct err *e)
{
    *types = hff_value(config, "layer_types");
    if (*types && json_array_size(*types) != (size_t)c->n_layers)
        return err_set(e, "config.json: layer_types names %zu layers, num_hidden_layers is %d",
                       json_array_size(*types), c->n_layers);
    return 0;
}

int hff_type_is(const json_t *types, int layer, const char *type)
{
    const char *t = json_string_value(json_array_get(types, (size_t)layer));
    return t && !strcmp(t, type);
}
