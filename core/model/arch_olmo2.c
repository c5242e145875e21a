/* arch_olmo2.c: OLMo 2: blocks read the stream as it is and what they add is normed; norms over the
 * whole projections of q and k. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    a.head_norm = HEAD_NORM_WHOLE;
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_attend_block(b, &a, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_add(b, &s, 0);
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
        if (b->layer + 1 < g->n_layers) arch_stream_add(b, &s, 0);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"olmo2", NULL};
const struct arch arch_olmo2 = {names, build};
