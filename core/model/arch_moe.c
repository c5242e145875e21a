/* arch_moe.c: Mixtral, Qwen2-MoE, Qwen3-MoE, GLM-4.5: Llama with a mixture of experts in place of
 * the MLP of some or all layers. Qwen2-MoE and GLM-4.5 have a shared expert, the former with a
 * gate; GLM-4.5 chooses by scores with a bias. */
#include "core/model/arch_blocks.h"

#include <string.h>

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    struct arch_moe m = arch_moe(b);
    m.shared_gate = m.shared_ffn && !strcmp(g->architecture, "qwen2_moe");
    m.choice_bias = !strcmp(g->architecture, "glm4_moe");
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        if (arch_int_at(b, "experts", 0, 1)) arch_moe_block(b, &m, s.h, s.delta);
        else arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"mixtral", "qwen2_moe", "qwen3_moe", "glm4_moe", NULL};
const struct arch arch_mixture = {names, build};
