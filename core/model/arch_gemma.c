/* arch_gemma.c: Gemma 2 and Gemma 3 (text): what attention and MLP add to the stream is normed
 * itself, GeGLU, scaled embedding; scores and logits are capped (Gemma 2), heads of q and k normed
 * (Gemma 3). Layers with a window and layers without one have a RoPE table each. */
#include "core/model/arch_blocks.h"

#include <string.h>

/* A number that only these models have; the file must say it. */
static float number(struct builder *b, const char *key) { return arch_number(b, key, 0, 1e6); }

static void choose_rope(struct builder *b, struct arch_decoder *d)
{
    (void)b;
    if (d->attention.window) d->attention.rope = d->other_rope;
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    float scale = strcmp(g->architecture, "gemma2") ? 1 : g->rope_scale; /* Gemma 2: one RoPE */
    arch_room(b, "y", g->dim);
    arch_attention_rooms(b, &d.attention);
    arch_room(b, "gate", g->ffn);
    arch_room(b, "up", g->ffn);
    d.rope = arch_angles(b, "rope.full.inv_freq", g->head_dim / 2, g->rope_scale);
    d.other_rope = arch_angles(b, "rope.sliding.inv_freq", g->head_dim / 2, scale);
    d.begin = choose_rope;
    d.attention.scale = number(b, "attend_scale");
    d.attention.softcap = number(b, "attend_softcap");
    d.stream.tail.softcap = number(b, "logits_softcap");
    d.embed_scale = number(b, "embed_scale");
    d.norm_out = 1;
    d.activation = ACTIVATION_GELU_TANH;
    arch_decode(b, &d);
}

static const char *const names[] = {"gemma2", "gemma3", NULL};
const struct arch arch_gemma = {names, build};
