/* unit_arch.c: the plans of architectures, built from a source of weights that records names and
 * shapes: which tensors and keys each one asks for, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/json.h"
#include "core/model/arch.h"
#include "core/step/kv_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 256, NAME_ROOM = 96 };

/* Has every tensor but those whose name contains one of `absent`. */
struct made {
    const char *const *absent;           /* ends with NULL */
    char tensor[MAX_TENSORS][NAME_ROOM]; /* "NAME IN>OUT", "NAME STACK*IN>OUT", "NAME N" */
    int n;
};

static int is_absent(const struct made *m, const char *name)
{
    for (const char *const *a = m->absent; *a; a++)
        if (strstr(name, *a)) return 1;
    return 0;
}

static int made_linear(void *self, const char *name, int stack, int in, int out, struct linear *w,
                       struct err *e)
{
    struct made *m = self;
    (void)e;
    if (is_absent(m, name)) return 0;
    assert_true(m->n < MAX_TENSORS);
    if (stack) snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d*%d>%d", name, stack, in, out);
    else snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d>%d", name, in, out);
    *w = (struct linear){.in = in, .out = out, .stack = stack, .k = in, .weight = self};
    return 1;
}

static int made_vector(void *self, const char *name, int n, const float **v, struct err *e)
{
    struct made *m = self;
    (void)e;
    if (is_absent(m, name)) return 0;
    assert_true(m->n < MAX_TENSORS);
    snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d", name, n);
    *v = self;
    return 1;
}

/* A plan of two layers, the second with a window: 6 heads and 3 KV heads of 16. */
struct built {
    struct made made;
    struct step_plan plan;
    struct err e;
    int rc;
};

static int windows[] = {0, 8};

static void build(struct built *b, const char *architecture, const char *keys,
                  const char *const *absent)
{
    struct model_config g = {.n_layers = 2,
                             .dim = 64,
                             .ffn = 160,
                             .n_heads = 6,
                             .n_kv_heads = 3,
                             .head_dim = 16,
                             .vocab = 128,
                             .context = 256,
                             .norm_eps = 1e-6f,
                             .rope_scale = 1,
                             .bos = -1,
                             .windows = windows};
    json_t *json = json_loads(keys, 0, NULL);
    assert_non_null(json);
    snprintf(g.architecture, sizeof g.architecture, "%s", architecture);
    memset(b, 0, sizeof *b);
    b->made.absent = absent;
    const struct weight_source from = {&b->made, "made", made_linear, made_vector};
    b->rc = arch_build(&b->plan, &g, json, &from, &b->e);
    json_decref(json);
}

static const char *const none[] = {".long", "lm_head", NULL}, *const no_head_norms[] = {
                                                                  ".long", "lm_head", "q_norm",
                                                                  "k_norm", NULL};

static int has(const struct made *m, const char *tensor)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->tensor[i], tensor)) return 1;
    return 0;
}

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

/* Keys of experts but for `experts` and shared_ffn. */
#define MOE_KEYS                                                                                   \
    "\"n_experts\": 6, \"top_k\": 2, \"expert_ffn\": 32, \"router_score\": \"softmax\","           \
    "\"router_normalize\": 1, \"router_scale\": 1.0, \"router_groups\": 1,"                        \
    "\"router_kept_groups\": 1"
#define SPARSE(shared) "\"experts\": [0, 1], \"shared_ffn\": " #shared ", " MOE_KEYS
#define DELTA_SIZES                                                                                \
    "\"linear_key_heads\": 2, \"linear_value_heads\": 4, \"linear_key_dim\": 12,"                  \
    "\"linear_value_dim\": 10, \"conv_width\": 4"
#define DELTA_KEYS "\"layer_types\": [0, 1], " DELTA_SIZES
#define MAMBA_KEYS_OF(types) "\"layer_types\": " types ", \"conv_bias\": 1, " DELTA_SIZES
#define MAMBA_KEYS MAMBA_KEYS_OF("[0, 1]")
#define SCAN_KEYS(types)                                                                           \
    "\"layer_types\": " types ", \"scan_inner\": 40, \"scan_state\": 6, \"scan_rank\": 5,"         \
    "\"conv_width\": 4, \"conv_bias\": 1"
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
#define FALCON_KEYS                                                                                \
    DELTA_SIZES                                                                                    \
    ", \"conv_bias\": 1, \"embed_scale\": 5.0, \"attend_scale\": 0.4, \"logits_scale\": 0.5,"      \
    "\"attend_out_scale\": 0.5, \"mamba_gate_scale\": 1.5, \"mamba_dt_scale\": 0.5,"               \
    "\"mamba_out_scale\": 2.0, \"mlp_gate_scale\": 0.5, \"mlp_out_scale\": 2.0"
#define LATENT_KEYS                                                                                \
    "\"latent_dim\": 32, \"nope_dim\": 12, \"value_dim\": 10, \"latent_eps\": 1e-06,"              \
    "\"attend_scale\": 0.25, " SPARSE(48)
#define LATENT                                                                                     \
    LAYER "self_attn.kv_a_proj 64>32", LAYER "self_attn.k_rope_proj 64>16",                        \
        LAYER "self_attn.kv_a_layernorm.weight 32", LAYER "self_attn.kv_b_k 6*12>32",              \
        LAYER "self_attn.kv_b_v 6*32>10", LAYER "self_attn.o_proj 60>64"
#define LATENT_QUERIES                                                                             \
    LAYER "self_attn.q_a_proj 64>40", LAYER "self_attn.q_a_layernorm.weight 40",                   \
        LAYER "self_attn.q_nope_proj 40>72", LAYER "self_attn.q_rope_proj 40>96"
#define INDEX_KEYS(layers)                                                                         \
    "\"index_top_k\": 7, \"index_heads\": 3, \"index_dim\": 40, \"indexers\": " layers
#define INDEXER                                                                                    \
    LAYER "self_attn.indexer.q_rest_proj 40>72", LAYER "self_attn.indexer.q_rope_proj 40>48",      \
        LAYER "self_attn.indexer.k_proj 64>40", LAYER "self_attn.indexer.head_proj 64>3",          \
        LAYER "self_attn.indexer.k_norm.weight 40", LAYER "self_attn.indexer.k_norm.bias 40"
#define GEMMA_KEYS "\"embed_scale\": 8.0, \"attend_scale\": 1.0, \"logits_softcap\": 30.0"
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

static int count(const struct step_plan *p, enum op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) n += p->op[i].kind == kind;
    return n;
}

static const struct op *first(const struct step_plan *p, enum op_kind kind)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == kind) return &p->op[i];
    fail_msg("no operation of kind %d", kind);
    return NULL;
}

static size_t row_bytes(const struct step_plan *p, int buffer)
{
    return p->buffer[buffer].row_bytes;
}

static void test_experts(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "qwen2_moe", "{" SPARSE(48) "}", no_head_norms);
    const struct op *route = first(p, OP_ROUTE), *up = first(p, OP_EXPERTS), *glu = up + 1,
                    *down = up + 2, *mix = up + 3;
    assert_int_equal(count(p, OP_ROUTE), 1); /* layer 0 is dense */
    assert_int_equal(count(p, OP_EXPERTS), 2);
    assert_true(glu->kind == OP_GLU && down->kind == OP_EXPERTS && mix->kind == OP_MIX);
    assert_int_equal(row_bytes(p, route->out[0]), 2 * 4);
    assert_int_equal(row_bytes(p, up->out[1]), 2 * 32 * 4);
    assert_int_equal(row_bytes(p, down->out[0]), 2 * 64 * 4);
    assert_true(up->in[1] == route->out[0] && !up->as.experts.each && up->n == 2);
    assert_true(down->in[0] == glu->out[0] && down->as.experts.each && down->n == 1);
    assert_true(mix->in[0] == down->out[0] && mix->in[1] == route->out[1]);
    const struct op *add = first(p, OP_ADD); /* the shared expert with its gate */
    assert_true(add->in[0] == mix->out[0] && row_bytes(p, add->in[2]) == 4);
    step_plan_free(&b.plan);
}

/* Latent heads: a key is a value and what rotates; linears of their own for every head. */
static void test_latent(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "deepseek_v2", "{\"q_lora_dim\": 0, \"router_group_best\": 1, " LATENT_KEYS "}",
          none);
    const struct op *heads = first(p, OP_EXPERTS), *rope = heads + 1, *attend = heads + 2,
                    *values = heads + 3;
    const struct heads *h = &attend->as.attend.heads;
    assert_true(rope->kind == OP_ROPE_STORE && attend->kind == OP_ATTEND &&
                values->kind == OP_EXPERTS);
    assert_true(heads_are_latent(h) && h->n_heads == 6 && h->head_dim == 48 && h->rotated == 16);
    assert_true(heads->in[1] == NO_BUFFER && heads->as.experts.each &&
                heads->as.experts.top_k == 6);
    assert_true(rope->in[0] == heads->out[0] && rope->out[0] == attend->in[0] &&
                attend->out[0] == values->in[0]);
    assert_int_equal(row_bytes(p, attend->in[0]), 6 * 48 * 4);
    assert_int_equal(row_bytes(p, attend->out[0]), 6 * 32 * 4);
    assert_int_equal(row_bytes(p, values->out[0]), 6 * 10 * 4);
    assert_true(p->n_kv == 2 && kv_is_latent(&p->kv[0]) && p->kv[0].n_kv_heads == 1);
    /* 48 numbers a position, of integers two scales besides */
    assert_int_equal(kv_format_page_bytes(KV_F16, &p->kv[0]), 16 * 48 * 2);
    assert_int_equal(kv_format_page_bytes(KV_INT8, &p->kv[0]), 16 * (48 + 8));
    assert_int_equal(kv_format_page_bytes(KV_INT4, &p->kv[0]), (16 * (24 + 8) + 96 + 63) / 64 * 64);
    assert_true(first(p, OP_ROUTE)->as.route.group_best);
    step_plan_free(&b.plan);
}

/* A choice of the indexer for attention; a layer without one takes the choice before. */
static void test_indexer(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "glm_moe_dsa", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 0]") "}",
          none);
    const struct op *choose = first(p, OP_CHOOSE), *store = choose - 1, *attend = choose + 1;
    int n = 0, chosen = choose->out[0];
    assert_int_equal(count(p, OP_CHOOSE), 1);
    assert_true(store->kind == OP_ROPE_STORE && attend->kind == OP_ATTEND);
    assert_true(store->as.rope.joined && store->in[1] == store->in[2]);
    assert_int_equal(store->as.rope.kv, choose->as.choose.kv);
    assert_int_not_equal(choose->as.choose.kv, attend->as.attend.kv);
    assert_true(store->out[0] == choose->in[0] && choose->as.choose.heads.rotated == 16);
    assert_int_equal(row_bytes(p, choose->in[0]), 3 * 40 * 4);
    assert_int_equal(row_bytes(p, choose->in[1]), 3 * 4);
    assert_int_equal(row_bytes(p, chosen), 7 * 4);
    for (int i = 0; i < p->n_ops; i++) {
        if (p->op[i].kind != OP_ATTEND) continue;
        assert_true(p->op[i].in[1] == chosen && p->op[i].as.attend.chosen == 7);
        n++;
    }
    assert_int_equal(n, 2);
    assert_true(p->n_kv == 3 && kv_is_latent(&p->kv[1]) && p->kv[1].head_dim == 40);
    step_plan_free(&b.plan);
}

/* Hunyuan: heads are rotated, then normed, then stored as they are. Cohere: one LayerNorm without
 * bias, two blocks. */
static void test_orders(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "hunyuan_v1_dense", "{}", none);
    const struct op *q = first(p, OP_ROPE_STORE), *k = q + 1, *q_norm = q + 2, *k_norm = q + 3,
                    *store = q + 4;
    assert_true(q->as.rope.ahead && q->as.rope.heads.n_heads == 6 && q->in[1] < 0);
    assert_true(k->as.rope.ahead && k->as.rope.heads.n_heads == 3 && k->in[1] < 0);
    assert_true(q_norm->kind == OP_NORM && q_norm->as.norm.groups == 6);
    assert_true(k_norm->kind == OP_NORM && k_norm->as.norm.groups == 3);
    assert_true(store->kind == OP_ROPE_STORE && !store->as.rope.ahead && store->w[0] < 0);
    assert_true(store->in[0] == q_norm->out[0] && store->in[1] == k_norm->out[0]);
    assert_true(store->in[3] != q->in[3] && q->as.rope.kv == store->as.rope.kv);
    step_plan_free(&b.plan);
    build(&b, "cohere2", "{\"no_rope\": [1, 0], \"logits_scale\": 0.25}", no_head_norms);
    const struct op *norm = first(p, OP_NORM);
    assert_true(norm->as.norm.centered && norm->w[1] < 0);
    assert_int_equal(count(p, OP_NORM), 3);
    assert_int_equal(count(p, OP_ADD), 3); /* attention in two layers, the factor on logits */
    step_plan_free(&b.plan);
    build(&b, "llama4",
          "{\"no_rope\": [1, 0], \"chunks\": [0, 8], \"query_beta\": 0.1, \"query_original\": 16, "
          "\"experts\": [0, 1], \"shared_ffn\": 0, \"n_experts\": 6, \"top_k\": 1,"
          "\"expert_ffn\": 32, \"router_score\": \"sigmoid\", \"router_normalize\": 0,"
          "\"router_scale\": 1.0, \"router_groups\": 1, \"router_kept_groups\": 1}",
          none);
    const struct op *attend = first(p, OP_ATTEND), *scale = first(p, OP_ADD),
                    *mix = first(p, OP_MIX), *up = first(p, OP_EXPERTS);
    assert_true(attend->layer == 0 && attend->as.attend.window == 0);
    while ((++attend)->kind != OP_ATTEND) {
    }
    assert_int_equal(attend->as.attend.window, -8);
    assert_int_equal(count(p, OP_ADD), 1); /* of the layer that does not rotate */
    assert_true(scale->layer == 0 && scale->as.add.first == 1 && scale->as.add.original == 16);
    assert_true(count(p, OP_MIX) == 1 && up->in[0] == mix->out[0]);
    step_plan_free(&b.plan);
}

static void test_states(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "qwen3_next", "{" DELTA_KEYS "}", none);
    assert_int_equal(p->n_states, 2);
    assert_int_equal(p->n_kv, 1);
    assert_int_equal(p->state[first(p, OP_CONV)->as.conv.state].bytes, 3 * 88 * 4);
    assert_int_equal(p->state[first(p, OP_DELTA)->as.delta.state].bytes, 4 * 12 * 10 * 4);
    assert_true(first(p, OP_GLU)->as.glu.activation == ACTIVATION_SIGMOID); /* layer 0's gate */
    step_plan_free(&b.plan);
}

/* The operations of Mamba-2: the recurrence, norms of groups, factors. */
static void test_mamba(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "nemotron_h", "{" MAMBA_KEYS "}", no_head_norms);
    const struct op *conv = first(p, OP_CONV), *delta = conv + 1, *glu = delta + 1, *norm = glu + 1;
    assert_true(delta->kind == OP_DELTA && glu->kind == OP_GLU && norm->kind == OP_NORM);
    assert_true(delta->as.delta.rule == DELTA_SSM && delta->in[2] < 0 && delta->w[2] >= 0);
    assert_true(conv->w[1] >= 0 && !conv->as.conv.linear);
    assert_true(norm->as.norm.groups == 2 && norm->as.norm.own && norm->in[0] == glu->in[0]);
    assert_int_equal(p->state[delta->as.delta.state].bytes, 4 * 12 * 10 * 4);
    step_plan_free(&b.plan);
    build(&b, "falcon_h1", "{" FALCON_KEYS ", \"mamba_norm\": \"first\"}", no_head_norms);
    delta = first(p, OP_DELTA);
    assert_true(delta[1].kind == OP_NORM && delta[2].kind == OP_GLU);
    assert_int_equal(count(p, OP_ADD), 2 * 7 + 1);
    assert_int_equal(p->n_states, 4);
    assert_int_equal(p->n_kv, 2);
    step_plan_free(&b.plan);
    build(&b, "lfm2", "{\"layer_types\": [0, 1], \"conv_width\": 4, \"conv_bias\": 0}", none);
    conv = first(p, OP_CONV);
    assert_true(conv->as.conv.linear && conv->w[1] < 0 && conv[-1].kind == OP_GLU &&
                conv[1].kind == OP_GLU);
    assert_true(conv[-1].as.glu.activation == ACTIVATION_NONE && conv[1].in[1] == conv->out[0]);
    assert_int_equal(p->state[conv->as.conv.state].bytes, 3 * 64 * 4);
    step_plan_free(&b.plan);
}

/* A decay for each channel, or for each cell of the state. */
static void test_decays(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "kimi_linear", "{\"q_lora_dim\": 0, " DELTA_KEYS ", " LATENT_KEYS "}", none);
    const struct op *delta = first(p, OP_DELTA), *norm = delta + 1, *glu = delta + 2;
    assert_true(delta->as.delta.rule == DELTA_CHANNELS && norm->kind == OP_NORM);
    assert_int_equal(row_bytes(p, delta->in[1]), 4 * 12 * 4);
    assert_int_equal(row_bytes(p, delta->in[2]), 4 * 4);
    assert_true(glu->kind == OP_GLU && glu->as.glu.activation == ACTIVATION_SIGMOID);
    assert_int_equal(p->state[delta->as.delta.state].kept_bytes, (2 * 24 + 40 + 48 + 4) * 4);
    assert_true(p->n_kv == 1 && kv_is_latent(&p->kv[0]));
    step_plan_free(&b.plan);
    build(&b, "jamba", "{" SCAN_KEYS("[0, 1]") "}", no_head_norms);
    delta = first(p, OP_DELTA);
    assert_true(delta->as.delta.rule == DELTA_SCAN && delta->in[2] < 0 && delta->w[1] < 0);
    assert_int_equal(row_bytes(p, delta->in[0]), 6 * 4);
    assert_int_equal(row_bytes(p, delta->in[3]), 6 * 4);
    assert_int_equal(row_bytes(p, delta->in[1]), 40 * 4);
    assert_int_equal(p->state[delta->as.delta.state].bytes, 6 * 40 * 4);
    assert_int_equal(p->state[delta->as.delta.state].kept_bytes, (2 * 6 + 2 * 40) * 4);
    step_plan_free(&b.plan);
}

/* A layer that reads the keys and values of an earlier one. */
static void test_shared_keys(void **state)
{
    static const char keys[] =
        "{" GEMMA_KEYS ", \"head_dims\": [16, 16], \"kv_heads\": [3, 3], \"ffns\": [160, 160],"
        "\"layer_scalar\": [1.0, 1.0], \"ple_dim\": 0, \"kv_from\": [0, 0]}";
    static struct built b;
    const struct step_plan *p = &b.plan;
    int n = 0;
    (void)state;
    build(&b, "gemma4", keys, none);
    assert_true(b.rc && strstr(b.e.msg, "'kv_from'")); /* one layer has a window */
    windows[0] = 8;
    build(&b, "gemma4", keys, none);
    windows[0] = 0;
    assert_int_equal(b.rc, 0);
    assert_int_equal(p->n_kv, 1);
    assert_false(has(&b.made, "layers.1.self_attn.k_proj 64>48"));
    assert_false(has(&b.made, "rope.full.inv_freq 8"));
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind == OP_ATTEND) assert_int_equal(op->as.attend.kv, 0);
        if (op->kind != OP_ROPE_STORE) continue;
        assert_true((op->in[1] >= 0) == (op->layer == 0) && (op->w[1] >= 0) == (op->layer == 0));
        n++;
    }
    assert_int_equal(n, 2);
    step_plan_free(&b.plan);
}

/* An OP_ROPE_STORE of a cache, or an OP_ATTEND. */
static struct op kv_op(enum op_kind kind, int kv)
{
    struct op op = op_of(kind, "kv", 0);
    if (kind == OP_ATTEND) op.as.attend.kv = kv;
    else op.as.rope.kv = kv, op.in[1] = 0;
    return op;
}

/* Step pages are used again as soon as nothing attends to them. */
static void test_step_sets(void **state)
{
    struct op op[] = {kv_op(OP_ROPE_STORE, 0), kv_op(OP_ATTEND, 0),     kv_op(OP_ROPE_STORE, 1),
                      kv_op(OP_ATTEND, 1),     kv_op(OP_ROPE_STORE, 2), kv_op(OP_ATTEND, 2),
                      kv_op(OP_ATTEND, 1),     kv_op(OP_ROPE_STORE, 3), kv_op(OP_ATTEND, 3)};
    static const int want[] = {0, 0, 0, 0, 1, 1, 0, 0, 0};
    struct step_plan p = {.op = op, .n_ops = sizeof op / sizeof *op};
    (void)state;
    step_plan_liveness(&p, 0);
    assert_int_equal(p.n_step_sets, 2);
    for (int i = 0; i < p.n_ops; i++)
        assert_int_equal(
            op[i].kind == OP_ATTEND ? op[i].as.attend.step_set : op[i].as.rope.step_set, want[i]);
}

/* What the bytes of another kind of operation say at the place of a cache is no matter. */
static void test_step_sets_of_attention_alone(void **state)
{
    (void)state;
    for (enum op_kind kind = 0; kind < OP_KINDS; kind++) {
        struct op op[] = {kv_op(OP_ROPE_STORE, 3), op_of(kind, "other", 0), kv_op(OP_ATTEND, 3)};
        struct step_plan p = {.op = op, .n_ops = 3};
        if (kind == OP_ATTEND || kind == OP_ROPE_STORE || kind == OP_CHOOSE) continue;
        op[1].as.attend.kv = 3, op[1].as.attend.step_set = -7;
        step_plan_liveness(&p, 0);
        assert_int_equal(op[1].as.attend.step_set, -7);
        assert_int_equal(op[2].as.attend.step_set, 0);
    }
}

/* The choices of the step before have one buffer, also where it is the plan's first. */
static void test_best(void **state)
{
    (void)state;
    struct made made = {.absent = none};
    struct step_plan p;
    struct err e = {0};
    struct model_config g = {.dim = 8, .vocab = 16};
    struct builder b = {.config = &g,
                        .from = {&made, "made", made_linear, made_vector},
                        .plan = &p,
                        .layer = -1,
                        .err = &e};
    step_plan_init(&p);
    int table = arch_linear(&b, "embed_tokens", 8, 16);
    int first = arch_embed(&b, table, 5)->in[0], second = arch_embed(&b, table, 5)->in[0];
    assert_false(b.failed);
    assert_int_equal(first, 0);
    assert_int_equal(second, 0);
    assert_int_equal(p.n_buffers, 1);
    step_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_sets),
        cmocka_unit_test(test_step_sets_of_attention_alone),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_latent),
        cmocka_unit_test(test_indexer),
        cmocka_unit_test(test_mamba),
        cmocka_unit_test(test_decays),
        cmocka_unit_test(test_shared_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
