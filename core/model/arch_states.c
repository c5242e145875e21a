#include "core/model/arch_states.h"

struct arch_states arch_states(struct builder *b)
{
    enum { MAX_HEADS = 4096, MAX_DIM = 1024, MAX_WIDTH = 64 };
    struct arch_states d = {.beta_scale = 0};
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

/* A causal convolution of in [channels] into out. */
struct convolution {
    int channels, width, bias;
    const char *weight; /* NULL: "layers.%d.linear_attn.conv.weight" */
};

static struct op *convolution(struct builder *b, const struct convolution *c, int in, int out)
{
    int channels = c->channels, width = c->width, bias = NO_WEIGHT;
    int w = arch_vector(b, c->weight ? c->weight : "layers.%d.linear_attn.conv.weight",
                        channels * width);
    if (c->bias) bias = arch_vector(b, "layers.%d.linear_attn.conv.bias", channels);
    int state = arch_state(b, (size_t)(width - 1) * (size_t)channels * sizeof(float),
                           (size_t)channels * sizeof(float));
    struct op *op = arch_op(b, OP_CONV, "conv");
    op->in[0] = in;
    op->out[0] = out;
    op->w[0] = w;
    op->w[1] = bias;
    op->as.conv.channels = channels;
    op->as.conv.width = width;
    op->as.conv.state = state;
    return op;
}

/* in0 = in; out [values]. The gates are the caller's. */
static struct op *delta_rule(struct builder *b, const struct arch_states *d, int in, int out)
{
    size_t cells = (size_t)d->key_dim * (size_t)d->values;
    int decay = arch_vector(b, "layers.%d.linear_attn.decay", d->value_heads);
    int gates = d->value_heads * (d->channels_apart ? d->key_dim : 1);
    int dt_bias = arch_vector(b, "layers.%d.linear_attn.dt_bias", gates);
    size_t kept = 2 * (size_t)d->key_heads * (size_t)d->key_dim + (size_t)d->values +
                  (size_t)gates + (size_t)d->value_heads;
    int state = arch_state(b, cells * sizeof(float), kept * sizeof(float));
    struct op *op = arch_op(b, OP_DELTA, "delta");
    op->in[0] = in;
    op->out[0] = out;
    op->w[0] = decay;
    op->w[1] = dt_bias;
    op->as.delta.key_heads = d->key_heads;
    op->as.delta.value_heads = d->value_heads;
    op->as.delta.key_dim = d->key_dim;
    op->as.delta.value_dim = d->value_dim;
    op->as.delta.rule = d->channels_apart ? DELTA_CHANNELS : DELTA_GATED;
    op->as.delta.beta_scale = d->beta_scale;
    op->as.delta.state = state;
    return op;
}

/* The linears of b and a, into the rooms "b" and "decay". */
static void delta_gates(struct builder *b, const struct arch_states *d, int in)
{
    int dim = b->config->dim, heads = d->value_heads;
    const int b_a[] = {arch_room(b, "b", heads), arch_room(b, "decay", heads)};
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.b_proj", dim, heads),
                     arch_linear(b, "layers.%d.linear_attn.a_proj", dim, heads)};
    arch_linears(b, "b_a", in, 2, w, b_a);
}

/* out [n] = second(first(in)), a pair of linears with `inner` numbers between; w: their names. */
static void linear_pair(struct builder *b, const char *const w[2], int in, int inner, int out,
                        int n)
{
    int between = arch_room(b, "gate_inner", inner);
    int first = arch_linear(b, w[0], b->config->dim, inner),
        second = arch_linear(b, w[1], inner, n);
    arch_linears(b, "gate_inner", in, 1, &first, &between);
    arch_linears(b, "gates", between, 1, &second, &out);
}

/* b and a decay for each channel, into the rooms "b" and "decay"; z. */
static void channel_gates(struct builder *b, const struct arch_states *d, int in, int z)
{
    static const char *const decay_pair[] = {"layers.%d.linear_attn.decay_a_proj",
                                             "layers.%d.linear_attn.decay_b_proj"},
                             *const z_pair[] = {"layers.%d.linear_attn.z_a_proj",
                                                "layers.%d.linear_attn.z_b_proj"};
    int dim = b->config->dim, beta = arch_room(b, "b", d->value_heads),
        decays = d->value_heads * d->key_dim, decay = arch_room(b, "decay", decays);
    int w_b = arch_linear(b, "layers.%d.linear_attn.b_proj", dim, d->value_heads);
    arch_linears(b, "b_a", in, 1, &w_b, &beta);
    linear_pair(b, decay_pair, in, d->key_dim, decay, decays);
    linear_pair(b, z_pair, in, d->value_dim, z, d->values);
}

/* q, k and v after their convolution, of one linear; z beside them. Returns the rule. */
static struct op *delta_joined(struct builder *b, const struct arch_states *d, int in, int z, int o)
{
    int dim = b->config->dim, mixed = arch_room(b, "conv", d->channels);
    const int qkv_z[] = {arch_room(b, "qkv", d->channels), z};
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.qkv_proj", dim, d->channels),
                     arch_linear(b, "layers.%d.linear_attn.z_proj", dim, d->values)};
    arch_linears(b, "qkv_z", in, 2, w, qkv_z);
    delta_gates(b, d, in);
    convolution(b, &(struct convolution){d->channels, d->width, d->conv_bias, NULL}, qkv_z[0],
                mixed);
    return delta_rule(b, d, mixed, o);
}

/* The same with a linear and a convolution for each. */
static struct op *delta_apart(struct builder *b, const struct arch_states *d, int in, int z, int o)
{
    int dim = b->config->dim, keys = d->key_heads * d->key_dim;
    const int n[] = {keys, keys, d->values};
    const int qkv[] = {arch_room(b, "delta_q", keys), arch_room(b, "delta_k", keys),
                       arch_room(b, "delta_v", d->values)};
    const int mixed[] = {arch_room(b, "conv_q", keys), arch_room(b, "conv_k", keys),
                         arch_room(b, "conv_v", d->values)};
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.q_proj", dim, keys),
                     arch_linear(b, "layers.%d.linear_attn.k_proj", dim, keys),
                     arch_linear(b, "layers.%d.linear_attn.v_proj", dim, d->values)};
    static const char *const conv[] = {"layers.%d.linear_attn.q_conv.weight",
                                       "layers.%d.linear_attn.k_conv.weight",
                                       "layers.%d.linear_attn.v_conv.weight"};
    arch_linears(b, "qkv", in, 3, w, qkv);
    if (d->channels_apart) {
        channel_gates(b, d, in, z);
    } else {
        int w_z = arch_linear(b, "layers.%d.linear_attn.z_proj", dim, d->values);
        arch_linears(b, "z", in, 1, &w_z, &z);
        delta_gates(b, d, in);
    }
    for (int i = 0; i < 3; i++)
        convolution(b, &(struct convolution){n[i], d->width, 0, conv[i]}, qkv[i], mixed[i]);
    struct op *op = delta_rule(b, d, mixed[0], o);
    op->in[3] = mixed[1];
    op->in[4] = mixed[2];
    return op;
}

void arch_delta_block(struct builder *b, const struct arch_states *d, int in, int out)
{
    int dim = b->config->dim, heads = d->value_heads, z = arch_room(b, "z", d->values);
    int o = arch_room(b, "o", d->values), normed = arch_room(b, "o_normed", d->values);
    int w_norm = arch_vector(b, "layers.%d.linear_attn.norm.weight", d->value_dim);
    int w_out = arch_linear(b, "layers.%d.linear_attn.out_proj", d->values, dim);
    struct op *op = d->apart ? delta_apart(b, d, in, z, o) : delta_joined(b, d, in, z, o);
    op->in[1] = arch_room(b, "decay", heads * (d->channels_apart ? d->key_dim : 1));
    op->in[2] = arch_room(b, "b", heads);
    op = arch_norm(b, "norm_heads", o, NO_BUFFER, w_norm, normed);
    op->as.norm.groups = heads;
    if (d->norm_eps > 0) op->as.norm.eps = d->norm_eps;
    arch_glu(b, z, normed, d->channels_apart ? ACTIVATION_SIGMOID : ACTIVATION_SILU);
    arch_linears(b, "out", z, 1, &w_out, &out);
}

/* A factor on a buffer; 0: none. */
static void scaled(struct builder *b, const char *name, int x, float scale)
{
    if (scale != 0 && scale != 1) arch_add(b, name, x, NO_BUFFER)->as.add.scale = scale;
}

static void mamba_norm(struct builder *b, const struct arch_states *d, int weight, int in, int out)
{
    struct op *op = arch_norm(b, "norm_groups", in, NO_BUFFER, weight, out);
    op->as.norm.groups = d->key_heads;
    op->as.norm.own = d->key_heads > 1;
}

/* The gate z and the norm of o; the result's buffer. */
static int mamba_gate(struct builder *b, const struct arch_mamba *m, int weight, int z, int o)
{
    int normed = arch_room(b, "o_normed", m->states.values);
    if (m->norm == MAMBA_NORM_FIRST) mamba_norm(b, &m->states, weight, o, normed);
    arch_glu(b, z, m->norm == MAMBA_NORM_FIRST ? normed : o, ACTIVATION_SILU);
    if (m->norm != MAMBA_NORM_GATED) return z;
    mamba_norm(b, &m->states, weight, z, normed);
    return normed;
}

struct arch_mamba arch_mamba(struct builder *b)
{
    struct arch_mamba m = {.states = arch_states(b), .norm = MAMBA_NORM_GATED};
    m.states.conv_bias = arch_int(b, "conv_bias", 0, 1);
    return m;
}

void arch_mamba_block(struct builder *b, const struct arch_mamba *m, int in, int out)
{
    const struct arch_states *d = &m->states;
    int dim = b->config->dim, heads = d->value_heads, w_norm = NO_WEIGHT;
    const int z_qkv_dt[] = {arch_room(b, "z", d->values), arch_room(b, "qkv", d->channels),
                            arch_room(b, "dt", heads)};
    int mixed = arch_room(b, "conv", d->channels), o = arch_room(b, "o", d->values);
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.z_proj", dim, d->values),
                     arch_linear(b, "layers.%d.linear_attn.qkv_proj", dim, d->channels),
                     arch_linear(b, "layers.%d.linear_attn.a_proj", dim, heads)};
    int skip = arch_vector(b, "layers.%d.linear_attn.skip", heads);
    if (m->norm != MAMBA_NORM_NONE)
        w_norm = arch_vector(b, "layers.%d.linear_attn.norm.weight", d->values);
    int w_out = arch_linear(b, "layers.%d.linear_attn.out_proj", d->values, dim);

    arch_linears(b, "z_qkv_dt", in, 3, w, z_qkv_dt);
    scaled(b, "z_scale", z_qkv_dt[0], m->gate_scale);
    scaled(b, "dt_scale", z_qkv_dt[2], m->dt_scale);
    convolution(b, &(struct convolution){d->channels, d->width, d->conv_bias, NULL}, z_qkv_dt[1],
                mixed);
    struct op *op = delta_rule(b, d, mixed, o);
    op->in[1] = z_qkv_dt[2];
    op->w[2] = skip;
    op->as.delta.rule = DELTA_SSM;
    int result = mamba_gate(b, m, w_norm, z_qkv_dt[0], o);
    arch_linears(b, "out", result, 1, &w_out, &out);
}

struct arch_scan arch_scan(struct builder *b)
{
    enum { MAX_STATE = 1024, MAX_WIDTH = 64 };
    struct arch_scan m = {.inner = arch_int(b, "scan_inner", 1, MODEL_MAX_SIZE)};
    m.state = arch_int(b, "scan_state", 1, MAX_STATE);
    m.rank = arch_int(b, "scan_rank", 1, MODEL_MAX_SIZE);
    m.width = arch_int(b, "conv_width", 2, MAX_WIDTH);
    m.conv_bias = arch_int(b, "conv_bias", 0, 1);
    return m;
}

/* in1 = steps, in0 = queries C, in3 = keys B, in4 = values */
static void scan_rule(struct builder *b, const struct arch_scan *m, const int in[5], int out)
{
    size_t inner = (size_t)m->inner, state = (size_t)m->state;
    int decay = arch_vector(b, "layers.%d.linear_attn.decay", m->state * m->inner);
    int skip = arch_vector(b, "layers.%d.linear_attn.skip", m->inner);
    int number = arch_state(b, state * inner * sizeof(float),
                            (2 * state + 2 * inner) * sizeof(float));
    struct op *op = arch_op(b, OP_DELTA, "delta");
    for (int i = 0; i < 5; i++) op->in[i] = in[i];
    op->out[0] = out;
    op->w[0] = decay;
    op->w[2] = skip;
    op->as.delta.rule = DELTA_SCAN;
    op->as.delta.key_heads = op->as.delta.value_heads = 1;
    op->as.delta.key_dim = m->state;
    op->as.delta.value_dim = m->inner;
    op->as.delta.state = number;
}

/* The normed steps' latent, B and C of the channels. */
static void scan_inputs(struct builder *b, const struct arch_scan *m, int in, const int out[3])
{
    const int n[] = {m->rank, m->state, m->state};
    static const char *const linears[] = {"layers.%d.linear_attn.dt_a_proj",
                                          "layers.%d.linear_attn.key_proj",
                                          "layers.%d.linear_attn.query_proj"},
                             *const norms[] = {"layers.%d.linear_attn.dt_norm.weight",
                                               "layers.%d.linear_attn.key_norm.weight",
                                               "layers.%d.linear_attn.query_norm.weight"},
                             *const rooms[] = {"scan_dt", "scan_b", "scan_c"};
    int w[3], made[3];
    for (int i = 0; i < 3; i++) {
        w[i] = arch_linear(b, linears[i], m->inner, n[i]);
        made[i] = arch_room(b, rooms[i], n[i]);
    }
    arch_linears(b, "dt_b_c", in, 3, w, made);
    for (int i = 0; i < 3; i++) {
        int weight = arch_vector(b, norms[i], n[i]);
        arch_norm(b, "scan_norm", made[i], NO_BUFFER, weight, out[i]);
    }
}

void arch_scan_block(struct builder *b, const struct arch_scan *m, int in, int out)
{
    int dim = b->config->dim, n = m->inner;
    const int z_u[] = {arch_room(b, "z", n), arch_room(b, "scan_u", n)};
    const int dt_b_c[] = {arch_room(b, "scan_dt_normed", m->rank),
                          arch_room(b, "scan_b_normed", m->state),
                          arch_room(b, "scan_c_normed", m->state)};
    int mixed = arch_room(b, "conv", n), dt = arch_room(b, "dt", n), o = arch_room(b, "o", n);
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.z_proj", dim, n),
                     arch_linear(b, "layers.%d.linear_attn.v_proj", dim, n)};
    int w_dt = arch_linear(b, "layers.%d.linear_attn.dt_b_proj", m->rank, n);
    int w_out = arch_linear(b, "layers.%d.linear_attn.out_proj", n, dim);

    arch_linears(b, "z_u", in, 2, w, z_u);
    convolution(b, &(struct convolution){n, m->width, m->conv_bias, NULL}, z_u[1], mixed);
    scan_inputs(b, m, mixed, dt_b_c);
    arch_linears(b, "dt", dt_b_c[0], 1, &w_dt, &dt);
    scan_rule(b, m, (const int[]){dt_b_c[2], dt, NO_BUFFER, dt_b_c[1], mixed}, o);
    arch_glu(b, z_u[0], o, ACTIVATION_SILU);
    arch_linears(b, "out", z_u[0], 1, &w_out, &out);
}

struct arch_short_conv arch_short_conv(struct builder *b)
{
    enum { MAX_WIDTH = 64 };
    int width = arch_int(b, "conv_width", 2, MAX_WIDTH);
    return (struct arch_short_conv){width, arch_int(b, "conv_bias", 0, 1)};
}

void arch_short_conv_block(struct builder *b, const struct arch_short_conv *c, int in, int out)
{
    int dim = b->config->dim;
    const int bcv[] = {arch_room(b, "conv_b", dim), arch_room(b, "conv_c", dim),
                       arch_room(b, "conv_v", dim)};
    const int w[] = {arch_linear(b, "layers.%d.linear_attn.b_proj", dim, dim),
                     arch_linear(b, "layers.%d.linear_attn.c_proj", dim, dim),
                     arch_linear(b, "layers.%d.linear_attn.v_proj", dim, dim)};
    int mixed = arch_room(b, "conv", dim);
    int w_out = arch_linear(b, "layers.%d.linear_attn.out_proj", dim, dim);

    arch_linears(b, "b_c_v", in, 3, w, bcv);
    arch_glu(b, bcv[0], bcv[2], ACTIVATION_NONE);
    convolution(b, &(struct convolution){dim, c->width, c->bias, NULL}, bcv[0], mixed)
        ->as.conv.linear = 1;
    arch_glu(b, bcv[1], mixed, ACTIVATION_NONE);
    arch_linears(b, "out", bcv[1], 1, &w_out, &out);
}
