/* arch_smollm3.c: SmolLM3: Llama with layers without RoPE (NoPE: Kazemnejad et al. 2023), whose
 * table has frequencies of 0. */
#include "core/model/arch_blocks.h"

static int any_without_rope(struct builder *b)
{
    int any = 0;
    for (b->layer = 0; b->layer < b->config->n_layers; b->layer++)
        any |= arch_int_at(b, "no_rope", 0, 1);
    b->layer = -1;
    return any;
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    struct arch_rope rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale),
                     none = rope;
    if (any_without_rope(b)) none = arch_angles(b, "rope.none.inv_freq", g->head_dim / 2, 1);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        a.rope = arch_int_at(b, "no_rope", 0, 1) ? none : rope;
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"smollm3", NULL};
const struct arch arch_smollm3 = {names, build};
