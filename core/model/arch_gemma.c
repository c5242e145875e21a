/* arch_gemma.c: Gemma 2 and Gemma 3 (text): what attention and MLP add to the stream is normed
 * itself, GeGLU, scaled embedding; scores and logits are capped (Gemma 2), heads of q and k normed
 * (Gemma 3). Layers with a window and layers without one have a RoPE table each. */
#include "core/model/arch.h"

/* A number that only these models have; the file must say it. */
static float number(struct builder *b, const char *key) { return arch_number(b, key, 0, 1e6); }

struct rooms {
    int x, h, delta, y; /* y: delta, normed */
    int a, qkv[3], gate_up[2];
    struct arch_rope full, sliding;
};

static void attention(struct builder *b, const struct rooms *r)
{
    const struct model_config *g = b->config;
    int q_dim = g->n_heads * g->head_dim, kv_dim = g->n_kv_heads * g->head_dim;
    int window = g->windows[b->layer];
    struct heads heads = {g->n_heads, g->n_kv_heads, g->head_dim};
    const int w_qkv[] = {arch_linear(b, "layers.%d.self_attn.q_proj", g->dim, q_dim),
                         arch_linear(b, "layers.%d.self_attn.k_proj", g->dim, kv_dim),
                         arch_linear(b, "layers.%d.self_attn.v_proj", g->dim, kv_dim)};
    int w_o = arch_linear(b, "layers.%d.self_attn.o_proj", q_dim, g->dim);
    int norm_in = arch_vector(b, "layers.%d.input_layernorm.weight", g->dim);
    int norm_out = arch_vector(b, "layers.%d.post_attention_layernorm.weight", g->dim);
    struct arch_head_norms norms = arch_head_norms(
        b, "layers.%d.self_attn.q_norm.weight", "layers.%d.self_attn.k_norm.weight", g->head_dim);

    arch_norm(b, "norm", r->x, b->layer ? r->y : NO_BUFFER, norm_in, r->h);
    arch_linears(b, "qkv", r->h, 3, w_qkv, r->qkv);
    int kv = arch_rope_store(b, r->qkv, window ? r->sliding : r->full, heads, norms);
    arch_attend(b, r->qkv[0], r->a, heads, kv, window, number(b, "attend_scale"))
        ->as.attend.softcap = number(b, "attend_softcap");
    arch_linears(b, "o", r->a, 1, &w_o, &r->delta);
    arch_norm(b, "norm_out", r->delta, NO_BUFFER, norm_out, r->y);
}

static void mlp(struct builder *b, const struct rooms *r)
{
    const struct model_config *g = b->config;
    const int w_gate_up[] = {arch_linear(b, "layers.%d.mlp.gate_proj", g->dim, g->ffn),
                             arch_linear(b, "layers.%d.mlp.up_proj", g->dim, g->ffn)};
    int w_down = arch_linear(b, "layers.%d.mlp.down_proj", g->ffn, g->dim);
    int norm_in = arch_vector(b, "layers.%d.pre_feedforward_layernorm.weight", g->dim);
    int norm_out = arch_vector(b, "layers.%d.post_feedforward_layernorm.weight", g->dim);

    arch_norm(b, "norm", r->x, r->y, norm_in, r->h);
    arch_linears(b, "gate_up", r->h, 2, w_gate_up, r->gate_up);
    arch_glu(b, r->gate_up[0], r->gate_up[1], ACTIVATION_GELU_TANH);
    arch_linears(b, "down", r->gate_up[0], 1, &w_down, &r->delta);
    arch_norm(b, "norm_out", r->delta, NO_BUFFER, norm_out, r->y);
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    int q_dim = g->n_heads * g->head_dim, kv_dim = g->n_kv_heads * g->head_dim;

    int embed = arch_linear(b, "embed_tokens", g->dim, g->vocab);
    int head = arch_linear_or_none(b, "lm_head", g->dim, g->vocab);
    int norm = arch_vector(b, "norm.weight", g->dim);

    struct rooms r = {
        .x = arch_buffer(b, "x", g->dim),
        .h = arch_buffer(b, "h", g->dim),
        .delta = arch_buffer(b, "delta", g->dim),
        .y = arch_buffer(b, "y", g->dim),
        .a = arch_buffer(b, "a", q_dim),
        .qkv = {arch_buffer(b, "q", q_dim), arch_buffer(b, "k", kv_dim),
                arch_buffer(b, "v", kv_dim)},
        .gate_up = {arch_buffer(b, "gate", g->ffn), arch_buffer(b, "up", g->ffn)},
    };
    r.full = arch_angles(b, "rope.full.inv_freq", g->head_dim / 2, g->rope_scale);
    r.sliding = arch_angles(b, "rope.sliding.inv_freq", g->head_dim / 2, 1);
    arch_embed(b, embed, r.x)->as.embed.scale = number(b, "embed_scale");
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        attention(b, &r);
        mlp(b, &r);
    }
    arch_tail_capped(b, r.x, r.y, r.h, norm, head < 0 ? embed : head, number(b, "logits_softcap"));
}

static const char *const names[] = {"gemma2", "gemma3", NULL};
const struct arch arch_gemma = {names, build};
