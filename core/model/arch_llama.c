/* arch_llama.c: Llama, Mistral, Qwen2, Qwen3 (dense) and Phi-3: pre-norm blocks of attention and
 * SwiGLU. The tensors say which: biases of q, k and v (Qwen2), norms of the heads of q and k
 * (Qwen3), a second RoPE table for long contexts (Phi-3); windows of attention are in the
 * configuration (Mistral, Qwen2, Phi-3). */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    arch_attention_rooms(b, &a);
    arch_room(b, "gate", g->ffn);
    arch_room(b, "up", g->ffn);
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"llama", "mistral", "qwen2", "qwen3", "phi3", "unknown", NULL};
const struct arch arch_llama = {names, build};
