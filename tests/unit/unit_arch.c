/* unit_arch.c: the plans of architectures, built from a source of weights that records names and
 * shapes: which tensors and keys each one asks for, and what it refuses. */
#include "tests/unit/arch_built.h"

/* The tensors of layer 1, and those without a layer besides embed_tokens, norm.weight and a table
 * of RoPE, are exactly the expected ones. */
static void expect(const struct built *b, const char *architecture, const char *const *tensors)
{
    int n = 0, expected = 0;
    if (b->rc) fail_msg("%s: %s", architecture, b->e.msg);
    for (; tensors[expected]; expected++)
        if (!has(&b->made, tensors[expected]))
            fail_msg("%s does not ask for '%s'", architecture, tensors[expected]);
    assert_true(has(&b->made, "embed_tokens 64>128") && has(&b->made, "norm.weight 64"));
    for (int i = 0; i < b->made.n; i++) {
        const char *t = b->made.tensor[i];
        int other = !strncmp(t, "layers.0.", 9) || !strcmp(t, "embed_tokens 64>128") ||
                    !strcmp(t, "norm.weight 64") || !strcmp(t, "rope.inv_freq 8");
        int known = other;
        for (int k = 0; k < expected; k++) known |= !strcmp(t, tensors[k]);
        if (!known) fail_msg("%s asks for '%s'", architecture, t);
        n += !other;
    }
    assert_int_equal(n, expected);
}

#define LAYER "layers.1."
#define NORMS LAYER "input_layernorm.weight 64", LAYER "post_attention_layernorm.weight 64"
#define NORM_BIASES                                                                                \
    LAYER "input_layernorm.bias 64", LAYER "post_attention_layernorm.bias 64", "norm.bias 64"
#define ATTENTION                                                                                  \
    LAYER "self_attn.q_proj 64>96", LAYER "self_attn.k_proj 64>48",                                \
        LAYER "self_attn.v_proj 64>48", LAYER "self_attn.o_proj 96>64"
#define HEAD_NORMS LAYER "self_attn.q_norm.weight 16", LAYER "self_attn.k_norm.weight 16"
#define MLP LAYER "mlp.gate_proj 64>160", LAYER "mlp.up_proj 64>160", LAYER "mlp.down_proj 160>64"
#define EXPERTS                                                                                    \
    LAYER "mlp.router 64>6", LAYER "mlp.experts.gate_proj 6*64>32",                                \
        LAYER "mlp.experts.up_proj 6*64>32", LAYER "mlp.experts.down_proj 6*32>64"
#define SHARED                                                                                     \
    LAYER "mlp.shared_expert.gate_proj 64>48", LAYER "mlp.shared_expert.up_proj 64>48",            \
        LAYER "mlp.shared_expert.down_proj 48>64"
#define SHARED_GATE LAYER "mlp.shared_expert_gate 64>1"
#define FEEDFORWARD_NORMS                                                                          \
    LAYER "pre_feedforward_layernorm.weight 64", LAYER "post_feedforward_layernorm.weight 64"
#define DELTA_NET                                                                                  \
    LAYER "linear_attn.qkv_proj 64>88", LAYER "linear_attn.z_proj 64>40",                          \
        LAYER "linear_attn.b_proj 64>4", LAYER "linear_attn.a_proj 64>4",                          \
        LAYER "linear_attn.conv.weight 352", LAYER "linear_attn.decay 4",                          \
        LAYER "linear_attn.dt_bias 4", LAYER "linear_attn.norm.weight 10",                         \
        LAYER "linear_attn.out_proj 40>64"

#define MAMBA_MIXER                                                                                \
    LAYER "linear_attn.z_proj 64>40", LAYER "linear_attn.qkv_proj 64>88",                          \
        LAYER "linear_attn.a_proj 64>4", LAYER "linear_attn.conv.weight 352",                      \
        LAYER "linear_attn.conv.bias 88", LAYER "linear_attn.decay 4",                             \
        LAYER "linear_attn.dt_bias 4", LAYER "linear_attn.skip 4",                                 \
        LAYER "linear_attn.out_proj 40>64"
#define MAMBA MAMBA_MIXER, LAYER "linear_attn.norm.weight 40"
#define SHORT_CONV                                                                                 \
    LAYER "linear_attn.b_proj 64>64", LAYER "linear_attn.c_proj 64>64",                            \
        LAYER "linear_attn.v_proj 64>64", LAYER "linear_attn.conv.weight 256",                     \
        LAYER "linear_attn.out_proj 64>64"

#define SCAN                                                                                       \
    LAYER "linear_attn.z_proj 64>40", LAYER "linear_attn.v_proj 64>40",                            \
        LAYER "linear_attn.conv.weight 160", LAYER "linear_attn.dt_a_proj 40>5",                   \
        LAYER "linear_attn.key_proj 40>6", LAYER "linear_attn.query_proj 40>6",                    \
        LAYER "linear_attn.dt_norm.weight 5", LAYER "linear_attn.key_norm.weight 6",               \
        LAYER "linear_attn.query_norm.weight 6", LAYER "linear_attn.dt_b_proj 5>40",               \
        LAYER "linear_attn.decay 240", LAYER "linear_attn.skip 40",                                \
        LAYER "linear_attn.out_proj 40>64"
#define GRANITE_KEYS                                                                               \
    "\"embed_scale\": 12.0, \"attend_scale\": 0.4, \"residual_scale\": 0.5, \"logits_scale\": "    \
    "0.125"
#define LATENT                                                                                     \
    LAYER "self_attn.kv_a_proj 64>32", LAYER "self_attn.k_rope_proj 64>16",                        \
        LAYER "self_attn.kv_a_layernorm.weight 32", LAYER "self_attn.kv_b_k 6*12>32",              \
        LAYER "self_attn.kv_b_v 6*32>10", LAYER "self_attn.o_proj 60>64"
#define LATENT_QUERIES                                                                             \
    LAYER "self_attn.q_a_proj 64>40", LAYER "self_attn.q_a_layernorm.weight 40",                   \
        LAYER "self_attn.q_nope_proj 40>72", LAYER "self_attn.q_rope_proj 40>96"
#define INDEXER                                                                                    \
    LAYER "self_attn.indexer.q_rest_proj 40>72", LAYER "self_attn.indexer.q_rope_proj 40>48",      \
        LAYER "self_attn.indexer.k_proj 64>40", LAYER "self_attn.indexer.head_proj 64>3",          \
        LAYER "self_attn.indexer.k_norm.weight 40", LAYER "self_attn.indexer.k_norm.bias 40"
#define GEMMA4_KEYS                                                                                \
    GEMMA_KEYS ", \"head_dims\": [32, 16], \"kv_heads\": [1, 3], \"ffns\": [160, 320],"            \
               "\"layer_scalar\": [1.5, 0.5]"

static const struct {
    const char *architecture, *keys;
    const char *const *absent, *const *tensors;
} cases[] = {
    {"llama", "{}", no_head_norms, (const char *const[]){NORMS, ATTENTION, MLP, NULL}},
    {"qwen3", "{}", none, (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, MLP, NULL}},
    {"phi3", "{\"rope_long_from\": 64}", (const char *const[]){"lm_head", "_norm", NULL},
     (const char *const[]){NORMS, ATTENTION, MLP, "rope.inv_freq.long 8", NULL}},
    {"gemma3", "{" GEMMA_KEYS ", \"attend_softcap\": 0.0}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, FEEDFORWARD_NORMS, MLP,
                           "rope.full.inv_freq 8", "rope.sliding.inv_freq 8", NULL}},
    {"glm4", "{}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, FEEDFORWARD_NORMS, MLP, NULL}},
    {"olmo2", "{}", none,
     (const char *const[]){ATTENTION, MLP, LAYER "self_attn.q_norm.weight 96",
                           LAYER "self_attn.k_norm.weight 48",
                           LAYER "post_attention_layernorm.weight 64",
                           LAYER "post_feedforward_layernorm.weight 64", NULL}},
    {"olmo3", "{}", none,
     (const char *const[]){
         ATTENTION, MLP, LAYER "self_attn.q_norm.weight 96", LAYER "self_attn.k_norm.weight 48",
         LAYER "post_attention_layernorm.weight 64", LAYER "post_feedforward_layernorm.weight 64",
         "rope.full.inv_freq 8", "rope.sliding.inv_freq 8", NULL}},
    {"granite",
     "{\"embed_scale\": 12.0, \"attend_scale\": 0.4, \"residual_scale\": 0.5,"
     "\"logits_scale\": 0.125}",
     no_head_norms, (const char *const[]){NORMS, ATTENTION, MLP, NULL}},
    {"smollm3", "{\"no_rope\": [0, 1]}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, MLP, "rope.none.inv_freq 8", NULL}},
    {"ministral3", "{\"query_beta\": 0.1, \"query_original\": 16384.0}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, MLP, NULL}},
    {"stablelm", "{}", no_head_norms,
     (const char *const[]){NORMS, NORM_BIASES, ATTENTION, MLP, NULL}},
    {"starcoder2", "{}", no_head_norms,
     (const char *const[]){NORMS, NORM_BIASES, ATTENTION, LAYER "mlp.up_proj 64>160",
                           LAYER "mlp.down_proj 160>64", NULL}},
    {"mixtral", "{" SPARSE(0) "}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, NULL}},
    {"qwen2_moe", "{" SPARSE(48) "}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, SHARED, SHARED_GATE, NULL}},
    {"qwen3_moe", "{" SPARSE(0) "}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, EXPERTS, NULL}},
    {"glm4_moe", "{" SPARSE(48) "}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, SHARED, LAYER "mlp.router.choice_bias 6",
                           NULL}},
    {"deepseek_v2", "{\"q_lora_dim\": 0, \"router_group_best\": 1, " LATENT_KEYS "}", none,
     (const char *const[]){NORMS, LATENT, LAYER "self_attn.q_nope_proj 64>72",
                           LAYER "self_attn.q_rope_proj 64>96", EXPERTS, SHARED, NULL}},
    {"deepseek_v3", "{\"q_lora_dim\": 40, " LATENT_KEYS "}", none,
     (const char *const[]){NORMS, LATENT, LATENT_QUERIES, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"deepseek_v32", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 1]") "}", none,
     (const char *const[]){NORMS, LATENT, LATENT_QUERIES, INDEXER, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"glm_moe_dsa", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 0]") "}", none,
     (const char *const[]){NORMS, LATENT, LATENT_QUERIES, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"glm4_moe_lite", "{\"q_lora_dim\": 40, " LATENT_KEYS "}", none,
     (const char *const[]){NORMS, LATENT, LATENT_QUERIES, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"mistral4",
     "{\"q_lora_dim\": 40, \"query_beta\": 0.1, \"query_original\": 8192.0, " LATENT_KEYS "}", none,
     (const char *const[]){NORMS, LATENT, LATENT_QUERIES, EXPERTS, SHARED, NULL}},
    {"dots1", "{" SPARSE(48) "}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"hy_v3", "{" SPARSE(48) "}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"minimax_m2", "{" SPARSE(0) "}", none,
     (const char *const[]){NORMS, ATTENTION, LAYER "self_attn.q_norm.weight 96",
                           LAYER "self_attn.k_norm.weight 48", EXPERTS,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"ernie4_5_moe", "{" SPARSE(48) ", \"router_bias\": 1}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, SHARED, LAYER "mlp.router.choice_bias 6",
                           NULL}},
    {"ernie4_5_moe", "{" SPARSE(0) ", \"router_bias\": 0}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, NULL}},
    {"hunyuan_v1_moe", "{" SPARSE(48) "}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED, "rope.none.inv_freq 8",
                           NULL}},
    {"hunyuan_v1_dense", "{}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, MLP, "rope.none.inv_freq 8", NULL}},
    {"hunyuan_v1_dense", "{}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, MLP, "rope.none.inv_freq 8", NULL}},
    {"exaone4", "{\"no_rope\": [1, 0]}", none,
     (const char *const[]){ATTENTION, HEAD_NORMS, MLP, LAYER "post_attention_layernorm.weight 64",
                           LAYER "post_feedforward_layernorm.weight 64", "rope.none.inv_freq 8",
                           NULL}},
    {"exaone4", "{\"no_rope\": [0, 0]}", none,
     (const char *const[]){ATTENTION, HEAD_NORMS, MLP, LAYER "post_attention_layernorm.weight 64",
                           LAYER "post_feedforward_layernorm.weight 64", NULL}},
    {"cohere2", "{\"no_rope\": [1, 0], \"logits_scale\": 0.25}", no_head_norms,
     (const char *const[]){LAYER "input_layernorm.weight 64", ATTENTION, MLP,
                           "rope.none.inv_freq 8", NULL}},
    {"llama4",
     "{\"no_rope\": [1, 0], \"chunks\": [0, 8], \"query_beta\": 0.1, \"query_original\": 16, "
     "\"experts\": [0, 1], \"shared_ffn\": 48, \"n_experts\": 6, \"top_k\": 1, \"expert_ffn\": 32,"
     "\"router_score\": \"sigmoid\", \"router_normalize\": 0, \"router_scale\": 1.0,"
     "\"router_groups\": 1, \"router_kept_groups\": 1}",
     none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED, "rope.none.inv_freq 8",
                           NULL}},
    {"apertus",
     "{\"xielu_p\": [0.8, 0.7], \"xielu_n\": [1.3, 1.2], \"xielu_beta\": [0.5, 0.5],"
     "\"xielu_eps\": [-1e-6, -1e-6]}",
     none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, LAYER "mlp.up_proj 64>160",
                           LAYER "mlp.down_proj 160>64", NULL}},
    {"gpt_oss", "{" SPARSE(0) ", \"swiglu_limit\": 7.0, \"swiglu_alpha\": 1.702}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, LAYER "self_attn.sinks 6", EXPERTS, NULL}},
    {"qwen3_next", "{" DELTA_KEYS "}", none, (const char *const[]){NORMS, DELTA_NET, MLP, NULL}},
    {"qwen3_next", "{" DELTA_KEYS ", " SPARSE(48) "}", none,
     (const char *const[]){NORMS, DELTA_NET, EXPERTS, SHARED, SHARED_GATE, NULL}},
    {"olmo_hybrid", "{" DELTA_KEYS ", \"beta_scale\": 2.0, \"delta_eps\": 1e-5}", none,
     (const char *const[]){NORMS, LAYER "linear_attn.q_proj 64>24",
                           LAYER "linear_attn.k_proj 64>24", LAYER "linear_attn.v_proj 64>40",
                           LAYER "linear_attn.z_proj 64>40", LAYER "linear_attn.b_proj 64>4",
                           LAYER "linear_attn.a_proj 64>4", LAYER "linear_attn.q_conv.weight 96",
                           LAYER "linear_attn.k_conv.weight 96",
                           LAYER "linear_attn.v_conv.weight 160", LAYER "linear_attn.decay 4",
                           LAYER "linear_attn.dt_bias 4", LAYER "linear_attn.norm.weight 10",
                           LAYER "linear_attn.out_proj 40>64", MLP, NULL}},
    {"kimi_linear", "{\"q_lora_dim\": 0, " DELTA_KEYS ", " LATENT_KEYS "}", none,
     (const char *const[]){NORMS,
                           LAYER "linear_attn.q_proj 64>24",
                           LAYER "linear_attn.k_proj 64>24",
                           LAYER "linear_attn.v_proj 64>40",
                           LAYER "linear_attn.q_conv.weight 96",
                           LAYER "linear_attn.k_conv.weight 96",
                           LAYER "linear_attn.v_conv.weight 160",
                           LAYER "linear_attn.b_proj 64>4",
                           LAYER "linear_attn.decay_a_proj 64>12",
                           LAYER "linear_attn.decay_b_proj 12>48",
                           LAYER "linear_attn.z_a_proj 64>10",
                           LAYER "linear_attn.z_b_proj 10>40",
                           LAYER "linear_attn.decay 4",
                           LAYER "linear_attn.dt_bias 48",
                           LAYER "linear_attn.norm.weight 10",
                           LAYER "linear_attn.out_proj 40>64",
                           EXPERTS,
                           SHARED,
                           LAYER "mlp.router.choice_bias 6",
                           NULL}},
    {"kimi_linear",
     "{\"q_lora_dim\": 0, \"layer_types\": [1, 0], " DELTA_SIZES ", " LATENT_KEYS "}", none,
     (const char *const[]){NORMS, LATENT, LAYER "self_attn.q_nope_proj 64>72",
                           LAYER "self_attn.q_rope_proj 64>96", EXPERTS, SHARED,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"jamba", "{" SCAN_KEYS("[0, 1]") "}", no_head_norms,
     (const char *const[]){NORMS, SCAN, LAYER "linear_attn.conv.bias 40", MLP, NULL}},
    {"jamba", "{" SCAN_KEYS("[0, 1]") ", \"conv_bias\": 0}", no_head_norms,
     (const char *const[]){NORMS, SCAN, MLP, NULL}},
    {"jamba", "{" SCAN_KEYS("[1, 0]") ", " SPARSE(0) "}", no_head_norms,
     (const char *const[]){NORMS, ATTENTION, EXPERTS, NULL}},
    {"bamba", "{" MAMBA_KEYS "}", no_head_norms, (const char *const[]){NORMS, MAMBA, MLP, NULL}},
    {"granite_hybrid", "{" MAMBA_KEYS ", " GRANITE_KEYS "}", no_head_norms,
     (const char *const[]){NORMS, MAMBA, MLP, NULL}},
    {"granite_hybrid", "{" MAMBA_KEYS ", " GRANITE_KEYS ", " SPARSE(48) "}", no_head_norms,
     (const char *const[]){NORMS, MAMBA, EXPERTS, SHARED, NULL}},
    {"falcon_h1", "{" FALCON_KEYS ", \"mamba_norm\": \"none\"}", no_head_norms,
     (const char *const[]){NORMS, MAMBA_MIXER, ATTENTION, MLP, NULL}},
    {"falcon_h1", "{" FALCON_KEYS ", \"mamba_norm\": \"first\"}", no_head_norms,
     (const char *const[]){NORMS, MAMBA, ATTENTION, MLP, NULL}},
    {"nemotron_h", "{" MAMBA_KEYS "}", no_head_norms,
     (const char *const[]){LAYER "input_layernorm.weight 64", MAMBA, NULL}},
    {"nemotron_h", "{" MAMBA_KEYS_OF("[1, 2]") "}", no_head_norms,
     (const char *const[]){LAYER "input_layernorm.weight 64", LAYER "mlp.up_proj 64>160",
                           LAYER "mlp.down_proj 160>64", NULL}},
    {"nemotron_h", "{" MAMBA_KEYS_OF("[1, 3]") ", \"expert_dim\": 24, " SPARSE(48) "}",
     no_head_norms,
     (const char *const[]){LAYER "input_layernorm.weight 64", LAYER "mlp.router 64>6",
                           LAYER "mlp.router.choice_bias 6", LAYER "mlp.latent_in_proj 64>24",
                           LAYER "mlp.experts.up_proj 6*24>32",
                           LAYER "mlp.experts.down_proj 6*32>24", LAYER "mlp.latent_out_proj 24>64",
                           LAYER "mlp.shared_expert.up_proj 64>48",
                           LAYER "mlp.shared_expert.down_proj 48>64", NULL}},
    {"lfm2", "{\"layer_types\": [0, 1], \"conv_width\": 4, \"conv_bias\": 0}", none,
     (const char *const[]){NORMS, SHORT_CONV, MLP, NULL}},
    {"lfm2",
     "{\"layer_types\": [0, 1], \"conv_width\": 4, \"conv_bias\": 1, \"router_bias\": 1, " SPARSE(
         0) "}",
     none,
     (const char *const[]){NORMS, SHORT_CONV, LAYER "linear_attn.conv.bias 64", EXPERTS,
                           LAYER "mlp.router.choice_bias 6", NULL}},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}", none,
     (const char *const[]){NORMS, ATTENTION, HEAD_NORMS, LAYER "self_attn.v_norm.weight 16",
                           FEEDFORWARD_NORMS, LAYER "mlp.gate_proj 64>320",
                           LAYER "mlp.up_proj 64>320", LAYER "mlp.down_proj 320>64",
                           "rope.full.inv_freq 16", "rope.sliding.inv_freq 8", NULL}},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 8, \"kv_from\": [0, 1], " SPARSE(0) "}",
     (const char *const[]){"lm_head", ".long", "v_proj", NULL},
     (const char *const[]){NORMS,
                           LAYER "self_attn.q_proj 64>96",
                           LAYER "self_attn.k_proj 64>48",
                           LAYER "self_attn.o_proj 96>64",
                           HEAD_NORMS,
                           LAYER "self_attn.v_norm.weight 16",
                           FEEDFORWARD_NORMS,
                           LAYER "mlp.gate_proj 64>320",
                           LAYER "mlp.up_proj 64>320",
                           LAYER "mlp.down_proj 320>64",
                           EXPERTS,
                           LAYER "mlp.router.norm.weight 64",
                           LAYER "mlp.router.expert_scale 6",
                           LAYER "post_feedforward_layernorm_1.weight 64",
                           LAYER "pre_feedforward_layernorm_2.weight 64",
                           LAYER "post_feedforward_layernorm_2.weight 64",
                           LAYER "embed_tokens_per_layer 8>128",
                           LAYER "per_layer_model_projection 64>8",
                           LAYER "per_layer_input_gate 64>8",
                           LAYER "per_layer_projection 8>64",
                           LAYER "post_per_layer_input_norm.weight 64",
                           "per_layer_projection_norm.weight 8",
                           "rope.full.inv_freq 16",
                           "rope.sliding.inv_freq 8",
                           NULL}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void test_tensors(void **state)
{
    static struct built b;
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        build(&b, cases[i].architecture, cases[i].keys, cases[i].absent);
        expect(&b, cases[i].architecture, cases[i].tensors);
        step_plan_free(&b.plan);
    }
}

/* Every tensor that must be there is missed by its name. */
static void test_missing_tensors(void **state)
{
    static struct built b;
    (void)state;
    for (int i = 0; i < N_CASES; i++)
        for (const char *const *t = cases[i].tensors; *t; t++) {
            char name[NAME_ROOM], says[2 * NAME_ROOM];
            const char *absent[16] = {name};
            int n = 1;
            for (const char *const *a = cases[i].absent; *a; a++) absent[n++] = *a;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*t, " "), *t);
            if (strstr(name, ".long")) continue; /* optional */
            if (strstr(name, "v_proj") && !strcmp(cases[i].architecture, "gemma4")) continue;
            snprintf(says, sizeof says, "tensor '%s", name);
            build(&b, cases[i].architecture, cases[i].keys, absent);
            if (!b.rc || !strstr(b.e.msg, says) || !strstr(b.e.msg, "is missing"))
                fail_msg("%s without %s: '%s'", cases[i].architecture, name, b.rc ? b.e.msg : "");
        }
}

/* Every key that must be there is missed by its name. */
static void test_missing_keys(void **state)
{
    static struct built b;
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        json_t *all = json_loads(cases[i].keys, 0, NULL), *v;
        const char *key;
        json_object_foreach (all, key, v) {
            json_t *rest = json_copy(all);
            json_object_del(rest, key);
            char *text = json_dumps(rest, 0), says[100];
            build(&b, cases[i].architecture, text, cases[i].absent);
            snprintf(says, sizeof says, "'%s' is missing", key);
            int optional = !strcmp(key, "experts") && strcmp(cases[i].architecture, "gpt_oss") &&
                           !b.rc; /* dense models of the same architecture */
            int unread = !strcmp(key, "experts") && !strcmp(cases[i].architecture, "gpt_oss");
            if (!optional && !unread && (!b.rc || !strstr(b.e.msg, says)))
                fail_msg("%s without %s: '%s'", cases[i].architecture, key, b.rc ? b.e.msg : "");
            if (!b.rc) step_plan_free(&b.plan);
            free(text);
            json_decref(rest);
        }
        json_decref(all);
    }
}

static const struct {
    const char *architecture, *base, *change, *says;
} bad[] = {
    {"mixtral", "{" SPARSE(0) "}", "{\"top_k\": 7}", "'top_k'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"n_experts\": 1025}", "'n_experts'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"router_groups\": 4}", "'router_groups'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"router_groups\": 6, \"router_kept_groups\": 2}",
     "'router_groups'"},
    {"mixtral", "{" SPARSE(0) "}",
     "{\"router_groups\": 3, \"router_kept_groups\": 1, \"top_k\": 3}", "'router_kept_groups'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"router_score\": \"tanh\"}", "'router_score'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"expert_ffn\": 16777216}", "'expert_ffn'"},
    {"mixtral", "{" SPARSE(0) "}", "{\"experts\": [0]}", "'experts'"},
    {"deepseek_v3", "{\"q_lora_dim\": 40, " LATENT_KEYS "}", "{\"latent_dim\": 30}",
     "'latent_dim'"},
    {"deepseek_v3", "{\"q_lora_dim\": 40, " LATENT_KEYS "}", "{\"latent_dim\": 1012}",
     "'latent_dim'"},
    {"deepseek_v2", "{\"q_lora_dim\": 0, \"router_group_best\": 1, " LATENT_KEYS "}",
     "{\"router_group_best\": 2}", "'router_group_best'"},
    {"deepseek_v32", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 1]") "}",
     "{\"index_dim\": 30}", "'index_dim'"},
    {"deepseek_v32", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 1]") "}",
     "{\"q_lora_dim\": 0}", "'q_lora_dim'"},
    {"glm_moe_dsa", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 1]") "}",
     "{\"indexers\": [0, 1]}", "'indexers'"},
    {"llama4",
     "{" SPARSE(0) ", \"no_rope\": [0, 0], \"chunks\": [0, 8], \"query_beta\": 0.1,"
                   "\"query_original\": 16}",
     "{}", "'top_k'"},
    {"qwen3_next", "{" DELTA_KEYS "}", "{\"linear_value_heads\": 3}", "'linear_value_heads'"},
    {"qwen3_next", "{" DELTA_KEYS "}", "{\"conv_width\": 1}", "'conv_width'"},
    {"qwen3_next", "{" DELTA_KEYS "}", "{\"layer_types\": [0, 2]}", "'layer_types'"},
    {"bamba", "{" MAMBA_KEYS "}", "{\"linear_key_heads\": 3}", "'linear_value_heads'"},
    {"bamba", "{" MAMBA_KEYS "}", "{\"conv_bias\": 2}", "'conv_bias'"},
    {"jamba", "{" SCAN_KEYS("[1, 1]") "}", "{\"scan_state\": 1025}", "'scan_state'"},
    {"jamba", "{" SCAN_KEYS("[1, 1]") "}", "{\"layer_types\": [1, 2]}", "'layer_types'"},
    {"nemotron_h", "{" MAMBA_KEYS "}", "{\"layer_types\": [1, 3]}", "'experts'"},
    {"nemotron_h", "{" MAMBA_KEYS "}", "{\"layer_types\": [1, 4]}", "'layer_types'"},
    {"falcon_h1", "{" FALCON_KEYS ", \"mamba_norm\": \"none\"}", "{\"mamba_norm\": \"last\"}",
     "'mamba_norm'"},
    {"lfm2", "{\"layer_types\": [0, 1], \"conv_width\": 4, \"conv_bias\": 0}",
     "{\"conv_width\": 1}", "'conv_width'"},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}",
     "{\"head_dims\": [32, 15]}", "'head_dims'"},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}", "{\"kv_heads\": [1, 4]}",
     "'kv_heads'"},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}", "{\"kv_from\": [0, 0]}",
     "'kv_from'"},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}", "{\"kv_from\": [1, 1]}",
     "'kv_from'"},
    {"gemma4", "{" GEMMA4_KEYS ", \"ple_dim\": 0, \"kv_from\": [0, 1]}",
     "{\"layer_scalar\": [1.0, 0.0]}", "'layer_scalar'"},
};

/* Values that do not go together. */
static void test_refused(void **state)
{
    static struct built b;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *keys = json_loads(bad[i].base, 0, NULL),
               *change = json_loads(bad[i].change, 0, NULL);
        json_object_update(keys, change);
        char *text = json_dumps(keys, 0);
        build(&b, bad[i].architecture, text, none);
        if (!b.rc || !strstr(b.e.msg, bad[i].says))
            fail_msg("%s %s: '%s'", bad[i].architecture, bad[i].change, b.rc ? b.e.msg : "");
        free(text);
        json_decref(keys);
        json_decref(change);
    }
    build(&b, "nothing", "{}", none);
    assert_true(b.rc && strstr(b.e.msg, "architecture 'nothing' is not known"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
