/* arch_olmo2.c: OLMo 2: blocks read the stream as it is and what they add is normed; norms over the
 * whole projections of q and k. OLMo 3: layers with a window have a RoPE table of their own, which
 * is not scaled. */
#include "core/model/arch_blocks.h"

#include <string.h>

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    a.head_norm = HEAD_NORM_WHOLE;
    int two = !strcmp(g->architecture, "olmo3"), pairs = g->head_dim / 2;
    struct arch_rope full = arch_angles(b, two ? "rope.full.inv_freq" : "rope.inv_freq", pairs,
                                        g->rope_scale),
                     sliding = full;
    if (two) sliding = arch_angles(b, "rope.sliding.inv_freq", pairs, 1);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        a.rope = a.window ? sliding : full;
        arch_attend_block(b, &a, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_add(b, &s, 0);
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
        if (b->layer + 1 < g->n_layers) arch_stream_add(b, &s, 0);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"olmo2", "olmo3", NULL};
const struct arch arch_olmo2 = {names, build};
