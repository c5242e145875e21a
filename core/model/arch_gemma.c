/* arch_gemma.c: Gemma 2 and Gemma 3 (text): what attention and MLP add to the stream is normed
 * itself, GeGLU, scaled embedding; scores and logits are capped (Gemma 2), heads of q and k normed
 * (Gemma 3). Layers with a window and layers without one have a RoPE table each. */
#include "core/model/arch_blocks.h"

#include <string.h>

/* A number that only these models have; the file must say it. */
static float number(struct builder *b, const char *key) { return arch_number(b, key, 0, 1e6); }

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    arch_room(b, "y", g->dim);
    arch_attention_rooms(b, &a);
    arch_room(b, "gate", g->ffn);
    arch_room(b, "up", g->ffn);
    struct arch_rope full = arch_angles(b, "rope.full.inv_freq", g->head_dim / 2, g->rope_scale);
    float scale = strcmp(g->architecture, "gemma2") ? 1 : g->rope_scale; /* Gemma 2: one RoPE */
    struct arch_rope sliding = arch_angles(b, "rope.sliding.inv_freq", g->head_dim / 2, scale);
    a.scale = number(b, "attend_scale");
    a.softcap = number(b, "attend_softcap");
    s.tail.softcap = number(b, "logits_softcap");
    arch_embed(b, s.embed, s.x)->as.embed.scale = number(b, "embed_scale");
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        a.rope = a.window ? sliding : full;
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_norm(b, &s, "layers.%d.pre_feedforward_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_GELU_TANH, s.h, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"gemma2", "gemma3", NULL};
const struct arch arch_gemma = {names, build};
