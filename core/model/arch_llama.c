/* arch_llama.c: Llama, Mistral, Qwen2 and Qwen3 (dense): pre-norm blocks of attention and SwiGLU.
 * The tensors say which: biases of q, k and v (Qwen2), norms of the heads of q and k (Qwen3);
 * windows of attention are in the configuration (Mistral, Qwen2). */
#include "core/model/arch.h"

#include <math.h>

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    int q_dim = g->n_heads * g->head_dim, kv_dim = g->n_kv_heads * g->head_dim;
    struct heads heads = {g->n_heads, g->n_kv_heads, g->head_dim};

    int embed = arch_linear(b, "embed_tokens", g->dim, g->vocab);
    int head = arch_linear_or_none(b, "lm_head", g->dim, g->vocab);
    int norm = arch_vector(b, "norm.weight", g->dim);

    int x = arch_buffer(b, "x", g->dim), h = arch_buffer(b, "h", g->dim);
    int delta = arch_buffer(b, "delta", g->dim), a = arch_buffer(b, "a", q_dim);
    const int qkv[] = {arch_buffer(b, "q", q_dim), arch_buffer(b, "k", kv_dim),
                       arch_buffer(b, "v", kv_dim)};
    const int gate_up[] = {arch_buffer(b, "gate", g->ffn), arch_buffer(b, "up", g->ffn)};

    struct arch_rope rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, embed, x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        const int w_qkv[] = {arch_linear(b, "layers.%d.self_attn.q_proj", g->dim, q_dim),
                             arch_linear(b, "layers.%d.self_attn.k_proj", g->dim, kv_dim),
                             arch_linear(b, "layers.%d.self_attn.v_proj", g->dim, kv_dim)};
        int w_o = arch_linear(b, "layers.%d.self_attn.o_proj", q_dim, g->dim);
        const int w_gate_up[] = {arch_linear(b, "layers.%d.mlp.gate_proj", g->dim, g->ffn),
                                 arch_linear(b, "layers.%d.mlp.up_proj", g->dim, g->ffn)};
        int w_down = arch_linear(b, "layers.%d.mlp.down_proj", g->ffn, g->dim);
        int norm_in = arch_vector(b, "layers.%d.input_layernorm.weight", g->dim);
        int norm_post = arch_vector(b, "layers.%d.post_attention_layernorm.weight", g->dim);
        struct arch_head_norms norms =
            arch_head_norms(b, "layers.%d.self_attn.q_norm.weight",
                            "layers.%d.self_attn.k_norm.weight", g->head_dim);

        arch_norm(b, "norm", x, b->layer ? delta : NO_BUFFER, norm_in, h);
        arch_linears(b, "qkv", h, 3, w_qkv, qkv);
        int kv = arch_rope_store(b, qkv, rope, heads, norms);
        arch_attend(b, qkv[0], a, heads, kv, g->windows[b->layer], 1 / sqrtf((float)g->head_dim));
        arch_linears(b, "o", a, 1, &w_o, &delta);
        arch_norm(b, "norm", x, delta, norm_post, h);
        arch_linears(b, "gate_up", h, 2, w_gate_up, gate_up);
        arch_glu(b, gate_up[0], gate_up[1], ACTIVATION_SILU);
        arch_linears(b, "down", gate_up[0], 1, &w_down, &delta);
    }
    arch_tail(b, x, delta, h, norm, head < 0 ? embed : head);
}

static const char *const names[] = {"llama", "mistral", "qwen2", "qwen3", "unknown", NULL};
const struct arch arch_llama = {names, build};
