/* arch_qwen3_next.c: Qwen3-Next, Qwen3.5 and Qwen3.6, dense and with experts: layers of gated
 * DeltaNet (Yang et al. 2025) between layers of attention whose result has a gate; an MLP, or a
 * mixture of experts with a shared expert behind a gate. */
#include "core/model/arch_draft.h"
#include "core/model/arch_states.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    int sparse = arch_has(b, "experts");
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct arch_attention a = arch_attention(b);
    struct arch_states d = arch_states(b);
    struct arch_moe m = {0};
    if (sparse) m = arch_moe(b);
    m.shared_gate = m.shared_ffn > 0;
    a.gated = 1;
    a.head_norm = HEAD_NORM_EACH;
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        if (arch_int_at(b, "layer_types", 0, 1)) arch_delta_block(b, &d, s.h, s.delta);
        else arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        if (sparse && arch_int_at(b, "experts", 0, 1)) arch_moe_block(b, &m, s.h, s.delta);
        else arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
    struct arch_decoder draft = {.attention = a, .moe = &m, .activation = ACTIVATION_SILU};
    arch_draft(b, &s, arch_draft_layer, &draft);
}

static const char *const names[] = {"qwen3_next", NULL};
const struct arch arch_qwen3_next = {names, build};
