/* arch_glm4.c: GLM-4 (dense): what attention and MLP add to the stream is normed itself, SwiGLU.
 * Its interleaved rotation of half a head is expressed by the order of rows and the RoPE table. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_norm(b, &s, "layers.%d.pre_feedforward_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"glm4", NULL};
const struct arch arch_glm4 = {names, build};
