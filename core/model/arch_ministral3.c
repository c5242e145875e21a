/* arch_ministral3.c: Ministral 3: Llama with a factor on queries that grows with the position. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, 0);
    struct arch_attention a = arch_attention(b);
    a.query_beta = arch_number(b, "query_beta", 0, 1e3);
    a.query_original = (int)arch_number(b, "query_original", 1, MODEL_MAX_SIZE);
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        a.window = g->windows[b->layer];
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"ministral3", NULL};
const struct arch arch_ministral3 = {names, build};
