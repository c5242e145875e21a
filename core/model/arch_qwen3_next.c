/* arch_qwen3_next.c: Qwen3-Next, Qwen3.5 and Qwen3.6, dense and with experts: layers of gated
 * DeltaNet (Yang et al. 2025) between layers of attention whose result has a gate; an MLP, or a
 * mixture of experts with a shared expert behind a gate. */
#include "core/model/arch_blocks.h"

/* Gated DeltaNet: heads, dimensions, and what they make. */
struct delta_net {
    int key_heads, value_heads, key_dim, value_dim, width;
    int channels, values; /* of the convolution; of the result */
};

static struct delta_net delta_net(struct builder *b)
{
    enum { MAX_HEADS = 4096, MAX_DIM = 1024, MAX_WIDTH = 64 };
    struct delta_net d;
    d.key_heads = arch_int(b, "linear_key_heads", 1, MAX_HEADS);
    d.value_heads = arch_int(b, "linear_value_heads", 1, MAX_HEADS);
    d.key_dim = arch_int(b, "linear_key_dim", 1, MAX_DIM);
    d.value_dim = arch_int(b, "linear_value_dim", 1, MAX_DIM);
    d.width = arch_int(b, "conv_width", 2, MAX_WIDTH);
    d.values = d.value_heads * d.value_dim;
    d.channels = 2 * d.key_heads * d.key_dim + d.values;
    if (d.value_heads % d.key_heads || d.channels > MODEL_MAX_SIZE)
        arch_bad_key(b, "linear_value_heads");
    return d;
}

/* in0 = q, k and v of all heads, in1 = a, in2 = b; out [values] */
static void delta_rule(struct builder *b, const struct delta_net *d, const int in[3], int out)
{
    size_t cells = (size_t)d->key_dim * (size_t)d->values;
    int decay = arch_vector(b, "layers.%d.linear_attn.decay", d->value_heads);
    int dt_bias = arch_vector(b, "layers.%d.linear_attn.dt_bias", d->value_heads);
    int state = arch_state(b, cells * sizeof(float));
    struct op *op = arch_op(b, OP_DELTA, "delta");
    for (int i = 0; i < 3; i++) op->in[i] = in[i];
    op->out[0] = out;
    op->w[0] = decay;
    op->w[1] = dt_bias;
    op->as.delta.key_heads = d->key_heads;
    op->as.delta.value_heads = d->value_heads;
    op->as.delta.key_dim = d->key_dim;
    op->as.delta.value_dim = d->value_dim;
    op->as.delta.state = state;
}

/* A causal convolution of qkv [channels] into out. */
static void convolution(struct builder *b, const struct delta_net *d, int qkv, int out)
{
    size_t rows = (size_t)(d->width - 1), channels = (size_t)d->channels;
    int w = arch_vector(b, "layers.%d.linear_attn.conv.weight", d->channels * d->width);
    int state = arch_state(b, rows * channels * sizeof(float));
    struct op *op = arch_op(b, OP_CONV, "conv");
    op->in[0] = qkv;
    op->out[0] = out;
    op->w[0] = w;
    op->as.conv.channels = d->channels;
    op->as.conv.width = d->width;
    op->as.conv.state = state;
}

static void linear_attention(struct builder *b, const struct delta_net *d, int in, int out)
{
    int dim = b->config->dim, heads = d->value_heads;
    const int qkv_z[] = {arch_room(b, "qkv", d->channels), arch_room(b, "z", d->values)};
    const int b_a[] = {arch_room(b, "b", heads), arch_room(b, "decay", heads)};
    int mixed = arch_room(b, "conv", d->channels);
    int o = arch_room(b, "o", d->values), normed = arch_room(b, "o_normed", d->values);
    const int w_qkv_z[] = {arch_linear(b, "layers.%d.linear_attn.qkv_proj", dim, d->channels),
                           arch_linear(b, "layers.%d.linear_attn.z_proj", dim, d->values)};
    const int w_b_a[] = {arch_linear(b, "layers.%d.linear_attn.b_proj", dim, heads),
                         arch_linear(b, "layers.%d.linear_attn.a_proj", dim, heads)};
    int w_norm = arch_vector(b, "layers.%d.linear_attn.norm.weight", d->value_dim);
    int w_out = arch_linear(b, "layers.%d.linear_attn.out_proj", d->values, dim);

    arch_linears(b, "qkv_z", in, 2, w_qkv_z, qkv_z);
    arch_linears(b, "b_a", in, 2, w_b_a, b_a);
    convolution(b, d, qkv_z[0], mixed);
    delta_rule(b, d, (const int[]){mixed, b_a[1], b_a[0]}, o);
    arch_norm(b, "norm_heads", o, NO_BUFFER, w_norm, normed)->as.norm.groups = heads;
    arch_glu(b, qkv_z[1], normed, ACTIVATION_SILU);
    arch_linears(b, "out", qkv_z[1], 1, &w_out, &out);
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    int sparse = arch_has(b, "experts");
    struct arch_stream s = arch_stream(b, NORM_RMS);
    struct arch_attention a = arch_attention(b);
    struct delta_net d = delta_net(b);
    struct arch_moe m = {0};
    if (sparse) m = arch_moe(b);
    m.shared_gate = m.shared_ffn > 0;
    a.gated = 1;
    a.head_norm = HEAD_NORM_EACH;
    a.rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
    arch_embed(b, s.embed, s.x);
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        arch_stream_norm(b, &s, "layers.%d.input_layernorm");
        if (arch_int_at(b, "layer_types", 0, 1)) linear_attention(b, &d, s.h, s.delta);
        else arch_attend_block(b, &a, s.h, s.delta);
        arch_stream_delta(&s);
        arch_stream_norm(b, &s, "layers.%d.post_attention_layernorm");
        if (sparse && arch_int_at(b, "experts", 0, 1)) arch_moe_block(b, &m, s.h, s.delta);
        else arch_mlp(b, g->ffn, ACTIVATION_SILU, s.h, s.delta);
        arch_stream_delta(&s);
    }
    arch_stream_end(b, &s);
}

static const char *const names[] = {"qwen3_next", NULL};
const struct arch arch_qwen3_next = {names, build};
