/* arch_starcoder2.c: StarCoder 2: LayerNorm, an MLP of two linears with GELU, windows; its biases
 * are parts of the linears. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 1);
    struct arch_attention a = arch_attention(b);
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp_ungated(b, g->ffn, ACTIVATION_GELU_TANH, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"starcoder2", NULL};
const struct arch arch_starcoder2 = {names, build};
