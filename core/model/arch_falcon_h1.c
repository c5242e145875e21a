/* arch_falcon_h1.c: Falcon-H1: attention and Mamba-2 side by side on one norm; factors on
 * embeddings, results and logits. */
#include "core/model/arch_states.h"

struct falcon {
    struct arch_mamba mamba;
    struct arch_attention attention;
    float attend_out, mamba_out; /* factors on the results */
    float mlp_gate, mlp_out;
};

static float factor(struct builder *b, const char *key) { return arch_number(b, key, -1e6, 1e6); }

static struct falcon falcon(struct builder *b)
{
    static const char *const norms[] = {
        [MAMBA_NORM_GATED] = "gated", [MAMBA_NORM_FIRST] = "first", [MAMBA_NORM_NONE] = "none"};
    struct falcon f = {.mamba = arch_mamba(b), .attention = arch_attention(b)};
    f.mamba.norm = (enum arch_mamba_norm)arch_choice(b, "mamba_norm", norms, 3);
    f.mamba.gate_scale = factor(b, "mamba_gate_scale");
    f.mamba.dt_scale = factor(b, "mamba_dt_scale");
    f.attention.scale = factor(b, "attend_scale");
    f.mamba_out = factor(b, "mamba_out_scale");
    f.attend_out = factor(b, "attend_out_scale");
    f.mlp_gate = factor(b, "mlp_gate_scale");
    f.mlp_out = factor(b, "mlp_out_scale");
    return f;
}

/* x *= scale */
static void scaled(struct builder *b, const char *name, int x, float scale)
{
    if (scale != 1) arch_add(b, name, x, NO_BUFFER)->as.add.scale = scale;
}

/* out = both results, each with its factor */
static void mixers(struct builder *b, const struct falcon *f, int in, int out)
{
    int mixed = arch_room(b, "mamba", b->config->dim);
    arch_mamba_block(b, &f->mamba, in, mixed);
    scaled(b, "mamba_scale", mixed, f->mamba_out);
    arch_attend_block(b, &f->attention, in, out);
    scaled(b, "attend_scale", out, f->attend_out);
    arch_add(b, "mamba_add", out, mixed);
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct falcon f = falcon(b);
    float embed = arch_number(b, "embed_scale", 1e-6, 1e6);
    s.tail.scale = arch_number(b, "logits_scale", 1e-6, 1e6);
    f.attention.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x)->as.embed.scale = embed;
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        mixers(b, &f, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        arch_mlp_scaled(b, g->ffn, f.mlp_gate, s.h, s.delta);
        scaled(b, "mlp_scale", s.delta, f.mlp_out);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"falcon_h1", NULL};
const struct arch arch_falcon_h1 = {names, build};
