/* arch_olmo2.c: OLMo 2: blocks read the stream as it is and what they add is normed; norms over the
 * whole projections of q and k. OLMo 3: layers with a window have a RoPE table of their own, which
 * is not scaled. EXAONE 4: norms of heads; layers without a window may not rotate. */
#include "core/model/arch_blocks.h"

#include <string.h>

/* The tables of layers with a window and of others; of EXAONE 4, of layers that rotate or not. */
struct tables {
    struct arch_rope rotating, other;
};

static struct tables tables(struct builder *b, int olmo3, int exaone)
{
    int pairs = b->config->head_dim / 2;
    float scale = b->config->rope_scale;
    struct tables t;
    t.other = arch_angles(b, olmo3 ? "rope.full.inv_freq" : "rope.inv_freq", pairs, scale);
    t.rotating = olmo3 ? arch_angles(b, "rope.sliding.inv_freq", pairs, 1) : t.other;
    if (exaone) t.other = arch_no_rope_if_used(b, t.rotating);
    return t;
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct arch_attention a = arch_attention(b);
    int exaone = !strcmp(g->architecture, "exaone4");
    a.head_norm = exaone ? HEAD_NORM_EACH : HEAD_NORM_WHOLE;
    struct tables t = tables(b, !strcmp(g->architecture, "olmo3"), exaone);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        int rotates = exaone ? !arch_int_at(b, "no_rope", 0, 1) : a.window != 0;
        a.rope = rotates ? t.rotating : t.other;
        arch_attend_block(b, &a, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_attention_layernorm");
        arch_stream_add(b, &s, 0);
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.x, s.delta);
        arch_stream_norm_delta(b, &s, "layers.%d.post_feedforward_layernorm");
        if (b->layer + 1 < g->n_layers) arch_stream_add(b, &s, 0);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"olmo2", "olmo3", "exaone4", NULL};
const struct arch arch_olmo2 = {names, build};
