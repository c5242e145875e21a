/* arch_gpt_oss.c: gpt-oss: attention with sinks, every second layer with a window; a mixture of
 * experts with clamped SwiGLU in every layer. Its biases are parts of the linears. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    struct arch_moe m = arch_moe(b);
    a.sinks = 1;
    m.activation = ACTIVATION_SWIGLU_CLAMPED;
    m.limit = arch_number(b, "swiglu_limit", 1e-6, 1e6);
    m.alpha = arch_number(b, "swiglu_alpha", 1e-6, 1e6);
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_moe_block(b, &m, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"gpt_oss", NULL};
const struct arch arch_gpt_oss = {names, build};
