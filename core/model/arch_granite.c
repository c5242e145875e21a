/* arch_granite.c: Granite: Llama with factors on embeddings, scores, blocks and logits. */
#include "core/model/arch_blocks.h"

static float factor(struct builder *b, const char *key) { return arch_number(b, key, 1e-6, 1e6); }

/* What the block left in delta is to be added, times the factor. */
static void add_scaled(struct builder *b, struct arch_stream *s, float residual)
{
    arch_add(b, "residual_scale", s->delta, NO_BUFFER)->as.add.scale = residual;
    arch_stream_delta(s);
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    float residual = factor(b, "residual_scale");
    a.scale = factor(b, "attend_scale");
    s.tail.scale = factor(b, "logits_scale");
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x)->as.embed.scale = factor(b, "embed_scale");
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        add_scaled(b, &s, residual);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        add_scaled(b, &s, residual);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"granite", NULL};
const struct arch arch_granite = {names, build};
