/* arch_nemotron_h.c: Nemotron-H, Nemotron 3: layers of one block each: Mamba-2, attention, an MLP
 * of two linears with squared ReLU, or experts of that kind. */
#include "core/model/arch_states.h"

enum { ATTENTION, MAMBA, MLP, EXPERTS };

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct arch_attention a = arch_attention(b);
    const struct arch_mamba mamba = arch_mamba(b);
    struct arch_moe moe = {0};
    if (arch_has(b, "experts")) {
        moe = arch_moe(b);
        moe.latent = arch_int(b, "expert_dim", 0, MODEL_MAX_SIZE / moe.top_k);
    }
    moe.ungated = moe.choice_bias = 1;
    moe.activation = ACTIVATION_RELU2;
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        int kind = arch_int_at(b, "layer_types", ATTENTION, EXPERTS);
        if (kind == EXPERTS && !moe.n_experts) arch_bad_key(b, "experts");
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        if (kind == ATTENTION) arch_attend_block(b, &a, s.h, s.delta);
        else if (kind == MAMBA) arch_mamba_block(b, &mamba, s.h, s.delta);
        else if (kind == MLP) arch_mlp_ungated(b, g->ffn, ACTIVATION_RELU2, s.h, s.delta, NULL);
        else arch_moe_block(b, &moe, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"nemotron_h", NULL};
const struct arch arch_nemotron_h = {names, build};
