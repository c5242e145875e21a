/* arch_olmo_hybrid.c: OLMo Hybrid: layers of gated DeltaNet with convolutions of q, k and v apart,
 * normed ahead; layers of OLMo 2's attention, whose results are normed. */
#include "core/model/arch_states.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct arch_attention a = arch_attention(b);
    struct arch_states d = arch_states(b);
    d.apart = 1;
    d.norm_eps = arch_number(b, "delta_eps", 1e-12, 1);
    d.beta_scale = arch_number(b, "beta_scale", 1, 2);
    a.head_norm = HEAD_NORM_WHOLE;
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        int linear = arch_int_at(b, "layer_types", 0, 1);
        if (linear) {
            arch_stream_norm(b, &s, "layers.%d.input_layernorm");
            arch_delta_block(b, &d, s.h, s.delta);
            arch_stream_delta(&s);
            arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
            arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
            arch_stream_delta(&s);
            continue;
        }
        if (s.added != NO_BUFFER) arch_stream_add(b, &s, 0);
        arch_attend_block(b, &a, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_add(b, &s, 0);
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"olmo_hybrid", NULL};
const struct arch arch_olmo_hybrid = {names, build};
