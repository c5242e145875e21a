#include "core/model/arch_blocks.h"

#include "core/model/arch_draft.h"

#include <math.h>
#include <stdio.h>

enum { NAME_BYTES = 128 };

/* ---- the residual stream */

struct norm_weights {
    int weight, bias;
};

static struct norm_weights norm_weights(struct builder *b, const char *name,
                                        enum arch_norm_kind layer_norm)
{
    char full[NAME_BYTES];
    struct norm_weights w = {.bias = NO_WEIGHT};
    snprintf(full, sizeof full, "%s.weight", name);
    w.weight = arch_vector(b, full, b->config->dim);
    snprintf(full, sizeof full, "%s.bias", name);
    if (layer_norm == NORM_LAYER) w.bias = arch_vector(b, full, b->config->dim);
    return w;
}

struct arch_stream arch_stream(struct builder *b, enum arch_norm_kind layer_norm)
{
    int dim = b->config->dim;
    int embed = arch_linear(b, "embed_tokens", dim, b->config->vocab);
    int head = arch_linear_or_none(b, "lm_head", dim, b->config->vocab);
    struct norm_weights norm = norm_weights(b, "norm", layer_norm);
    struct arch_stream s = {
        .added = NO_BUFFER,
        .embed = embed,
        .layer_norm = layer_norm,
        .tail = {.norm = norm.weight,
                 .norm_kind = layer_norm,
                 .norm_bias = norm.bias,
                 .head = head < 0 ? embed : head},
    };
    s.x = arch_buffer(b, "x", dim);
    s.h = arch_buffer(b, "h", dim);
    s.delta = arch_buffer(b, "delta", dim);
    return s;
}

void arch_stream_norm(struct builder *b, struct arch_stream *s, const char *name)
{
    struct norm_weights w = norm_weights(b, name, s->layer_norm);
    arch_norm_center(arch_norm(b, "norm", s->x, s->added, w.weight, s->h), s->layer_norm, w.bias);
    s->added = NO_BUFFER;
}

void arch_stream_norm_to(struct builder *b, const struct arch_stream *s, const char *name, int out)
{
    struct norm_weights w = norm_weights(b, name, s->layer_norm);
    arch_norm_center(arch_norm(b, "norm", s->x, NO_BUFFER, w.weight, out), s->layer_norm, w.bias);
}

void arch_stream_delta(struct arch_stream *s) { s->added = s->delta; }

void arch_stream_norm_delta(struct builder *b, struct arch_stream *s, const char *name)
{
    int y = arch_room(b, "y", b->config->dim);
    struct norm_weights w = norm_weights(b, name, 0);
    arch_norm(b, "norm_out", s->delta, NO_BUFFER, w.weight, y);
    s->added = y;
}

void arch_stream_add(struct builder *b, struct arch_stream *s, float scale)
{
    arch_add(b, "add", s->x, s->added)->as.add.scale = scale;
    s->added = NO_BUFFER;
}

void arch_stream_end(struct builder *b, const struct arch_stream *s)
{
    arch_tail(b, s->x, s->added, s->h, &s->tail);
}

/* ---- attention */

static int q_dim(const struct heads *n) { return n->n_heads * n->head_dim; }
static int kv_dim(const struct heads *n) { return n->n_kv_heads * n->head_dim; }

struct arch_attention arch_attention(const struct builder *b)
{
    const struct model_config *g = b->config;
    return (struct arch_attention){.heads = {g->n_heads, g->n_kv_heads, g->head_dim},
                                   .scale = 1 / sqrtf((float)g->head_dim)};
}

void arch_attention_rooms(struct builder *b, const struct arch_attention *a)
{
    arch_room(b, "a", q_dim(&a->heads));
    arch_room(b, "q", q_dim(&a->heads));
    arch_room(b, "k", kv_dim(&a->heads));
    arch_room(b, "v", kv_dim(&a->heads));
}

/* Norms over whole rows of q and k, into buffers of their own. */
static void norm_rows(struct builder *b, const struct heads *n, int qkv[3])
{
    int w_q = arch_vector(b, "layers.%d.self_attn.q_norm.weight", q_dim(n));
    int w_k = arch_vector(b, "layers.%d.self_attn.k_norm.weight", kv_dim(n));
    int q = arch_room(b, "q_normed", q_dim(n)), k = arch_room(b, "k_normed", kv_dim(n));
    arch_norm(b, "q_norm", qkv[0], NO_BUFFER, w_q, q);
    arch_norm(b, "k_norm", qkv[1], NO_BUFFER, w_k, k);
    qkv[0] = q;
    qkv[1] = k;
}

/* Rotates q and k, then norms their heads, into buffers of their own. */
static void rotate_and_norm(struct builder *b, const struct arch_attention *a, int qkv[3])
{
    const struct heads *n = &a->heads;
    struct arch_head_norms w = arch_head_norms(b, "layers.%d.self_attn.q_norm.weight",
                                               "layers.%d.self_attn.k_norm.weight", n->head_dim);
    struct heads keys = *n;
    keys.n_heads = n->n_kv_heads;
    arch_rope_ahead(b, qkv[0], a->rope, *n);
    arch_rope_ahead(b, qkv[1], a->rope, keys);
    if (w.q == NO_WEIGHT) return;
    int q = arch_room(b, "q_normed", q_dim(n)), k = arch_room(b, "k_normed", kv_dim(n));
    arch_norm(b, "q_norm", qkv[0], NO_BUFFER, w.q, q)->as.norm.groups = n->n_heads;
    arch_norm(b, "k_norm", qkv[1], NO_BUFFER, w.k, k)->as.norm.groups = n->n_kv_heads;
    qkv[0] = q;
    qkv[1] = k;
}

static struct arch_head_norms head_norms(struct builder *b, const struct arch_attention *a)
{
    static const char q[] = "layers.%d.self_attn.q_norm.weight",
                      k[] = "layers.%d.self_attn.k_norm.weight";
    int n = a->heads.head_dim;
    switch (a->head_norm) {
    case HEAD_NORM_IF_THERE: return arch_head_norms(b, q, k, n);
    case HEAD_NORM_EACH:
        return (struct arch_head_norms){arch_vector(b, q, n), arch_vector(b, k, n)};
    default: return (struct arch_head_norms){NO_WEIGHT, NO_WEIGHT};
    }
}

/* The gate of the result, computed ahead of rotation and attention, which are neighbours then. */
static int attend_gate(struct builder *b, const struct arch_attention *a, int in)
{
    int q_all = q_dim(&a->heads), gate = arch_room(b, "attend_gate", q_all);
    int w = arch_linear(b, "layers.%d.self_attn.gate_proj", b->config->dim, q_all);
    arch_linears(b, "attend_gate", in, 1, &w, &gate);
    return gate;
}

void arch_attend_block(struct builder *b, const struct arch_attention *a, int in, int out)
{
    const struct heads *n = &a->heads;
    int dim = b->config->dim;
    int qkv[] = {arch_room(b, "q", q_dim(n)), arch_room(b, "k", kv_dim(n)),
                 arch_room(b, "v", kv_dim(n))};
    const int w_qkv[] = {arch_linear(b, "layers.%d.self_attn.q_proj", dim, q_dim(n)),
                         arch_linear(b, "layers.%d.self_attn.k_proj", dim, kv_dim(n)),
                         arch_linear(b, "layers.%d.self_attn.v_proj", dim, kv_dim(n))};
    struct arch_head_norms norms = head_norms(b, a);
    int gate = NO_BUFFER;
    arch_linears(b, "qkv", in, 3, w_qkv, qkv);
    if (a->gated) gate = attend_gate(b, a, in);
    if (a->head_norm == HEAD_NORM_WHOLE) norm_rows(b, n, qkv);
    if (a->head_norm == HEAD_NORM_ROTATED) rotate_and_norm(b, a, qkv);
    int kv = arch_rope_store(b, qkv, a->head_norm == HEAD_NORM_ROTATED ? a->no_rope : a->rope, *n,
                             norms);
    arch_attend_out(b, a, qkv[0], kv, gate, out);
}

void arch_attend_out(struct builder *b, const struct arch_attention *a, int q, int kv, int gate,
                     int out)
{
    int dim = b->config->dim, q_all = q_dim(&a->heads), result = arch_room(b, "a", q_all);
    int sinks = NO_WEIGHT;
    if (a->sinks) sinks = arch_vector(b, "layers.%d.self_attn.sinks", a->heads.n_heads);
    int w_o = arch_linear(b, "layers.%d.self_attn.o_proj", q_all, dim);
    if (a->query_original) {
        struct op *op = arch_add(b, "query_scale", q, NO_BUFFER);
        op->as.add.beta = a->query_beta;
        op->as.add.original = a->query_original;
        op->as.add.first = a->query_first;
    }
    struct op *op = arch_attend(b, q, result, a->heads, kv, a->window, a->scale);
    op->as.attend.softcap = a->softcap;
    op->w[0] = sinks;
    if (gate != NO_BUFFER) arch_glu(b, gate, result, ACTIVATION_SIGMOID);
    arch_linears(b, "o", gate != NO_BUFFER ? gate : result, 1, &w_o, &out);
}

/* ---- MLP */

/* A gated MLP and what its linears, operations and buffers are called. */
struct mlp {
    const char *gate_proj, *up_proj, *down_proj, *gate_up, *down, *gate, *up;
    int ffn;
    enum activation activation;
};

/* The weights of gate and up. */
static void mlp_weights(struct builder *b, const struct mlp *m, int w[2])
{
    w[0] = arch_linear(b, m->gate_proj, b->config->dim, m->ffn);
    w[1] = arch_linear(b, m->up_proj, b->config->dim, m->ffn);
}

static void mlp_gate_up(struct builder *b, const struct mlp *m, int in, const int w[2])
{
    const int gate_up[] = {arch_room(b, m->gate, m->ffn), arch_room(b, m->up, m->ffn)};
    arch_linears(b, m->gate_up, in, 2, w, gate_up);
}

/* What follows them. */
static void mlp_down(struct builder *b, const struct mlp *m, int out)
{
    int gate = arch_room(b, m->gate, m->ffn), up = arch_room(b, m->up, m->ffn);
    int w_down = arch_linear(b, m->down_proj, m->ffn, b->config->dim);
    arch_glu(b, gate, up, m->activation);
    arch_linears(b, m->down, gate, 1, &w_down, &out);
}

static struct mlp plain_mlp(int ffn, enum activation activation)
{
    return (struct mlp){"layers.%d.mlp.gate_proj",
                        "layers.%d.mlp.up_proj",
                        "layers.%d.mlp.down_proj",
                        "gate_up",
                        "down",
                        "gate",
                        "up",
                        ffn,
                        activation};
}

void arch_mlp(struct builder *b, int ffn, enum activation activation, int in, int out)
{
    const struct mlp m = plain_mlp(ffn, activation);
    int w[2];
    mlp_weights(b, &m, w);
    mlp_gate_up(b, &m, in, w);
    mlp_down(b, &m, out);
}

void arch_mlp_scaled(struct builder *b, int ffn, float gate_scale, int in, int out)
{
    const struct mlp m = plain_mlp(ffn, ACTIVATION_SILU);
    int w[2];
    mlp_weights(b, &m, w);
    mlp_gate_up(b, &m, in, w);
    if (gate_scale != 1)
        arch_add(b, "gate_scale", arch_room(b, m.gate, ffn), NO_BUFFER)->as.add.scale = gate_scale;
    mlp_down(b, &m, out);
}

/* The same of an MLP without gate; xielu: of ACTIVATION_XIELU, or NULL. */
static void ungated(struct builder *b, const struct mlp *m, const struct xielu *xielu, int in,
                    int out)
{
    int dim = b->config->dim, up = arch_room(b, m->up, m->ffn);
    int w_up = arch_linear(b, m->up_proj, dim, m->ffn);
    int w_down = arch_linear(b, m->down_proj, m->ffn, dim);
    arch_linears(b, "up", in, 1, &w_up, &up);
    struct op *op = arch_glu(b, up, NO_BUFFER, m->activation);
    if (xielu) op->as.glu.xielu = *xielu;
    arch_linears(b, m->down, up, 1, &w_down, &out);
}

void arch_mlp_ungated(struct builder *b, int ffn, enum activation activation, int in, int out,
                      const struct xielu *xielu)
{
    const struct mlp m = plain_mlp(ffn, activation);
    ungated(b, &m, xielu, in, out);
}

/* ---- mixture of experts */

struct arch_moe arch_moe(struct builder *b)
{
    static const char *const scores[] = {
        [ROUTER_SOFTMAX] = "softmax", [ROUTER_SIGMOID] = "sigmoid"};
    struct arch_moe m = {.activation = ACTIVATION_SILU};
    m.n_experts = arch_int(b, "n_experts", 1, ROUTE_MAX_EXPERTS);
    m.top_k = arch_int(b, "top_k", 1, m.n_experts < ROUTE_MAX_TOP ? m.n_experts : ROUTE_MAX_TOP);
    m.ffn = arch_int(b, "expert_ffn", 1, MODEL_MAX_SIZE / m.top_k);
    m.shared_ffn = arch_int(b, "shared_ffn", 0, MODEL_MAX_SIZE);
    m.score = (enum router_score)arch_choice(b, "router_score", scores, 2);
    m.normalize = arch_int(b, "router_normalize", 0, 1);
    m.scale = arch_number(b, "router_scale", 1e-6, 1e6);
    m.groups = arch_int(b, "router_groups", 1, m.n_experts);
    m.kept_groups = arch_int(b, "router_kept_groups", 1, m.groups);
    if (b->config->dim > MODEL_MAX_SIZE / m.top_k) arch_bad_key(b, "top_k");
    int of_group = m.n_experts / m.groups; /* of two or more where groups are chosen */
    if (m.n_experts % m.groups || (m.kept_groups < m.groups && of_group < 2))
        arch_bad_key(b, "router_groups");
    if (m.top_k > m.kept_groups * of_group) arch_bad_key(b, "router_kept_groups");
    return m;
}

static int ids_room(struct builder *b, const struct arch_moe *m)
{
    return arch_room(b, "expert_ids", m->top_k);
}

static int weights_room(struct builder *b, const struct arch_moe *m)
{
    return arch_room(b, "expert_weights", m->top_k);
}

static void scores(struct builder *b, const struct arch_moe *m, int in)
{
    int dim = b->config->dim, n = 1, w[2], out[2];
    w[0] = arch_linear(b, "layers.%d.mlp.router", dim, m->n_experts);
    out[0] = arch_room(b, "scores", m->n_experts);
    if (m->shared_gate) {
        w[n] = arch_linear(b, "layers.%d.mlp.shared_expert_gate", dim, 1);
        out[n++] = arch_room(b, "shared_gate", 1);
    }
    arch_linears(b, "router", in, n, w, out);
}

static void choice(struct builder *b, const struct arch_moe *m)
{
    int bias = NO_WEIGHT, factor = NO_WEIGHT;
    if (m->choice_bias) bias = arch_vector(b, "layers.%d.mlp.router.choice_bias", m->n_experts);
    if (m->expert_scale) factor = arch_vector(b, "layers.%d.mlp.router.expert_scale", m->n_experts);
    int of = arch_room(b, "scores", m->n_experts), ids = ids_room(b, m),
        weights = weights_room(b, m);
    struct op *op = arch_op(b, OP_ROUTE, "route");
    op->in[0] = of;
    op->out[0] = ids;
    op->out[1] = weights;
    op->w[0] = bias;
    op->w[1] = factor;
    op->as.route.n_experts = m->n_experts;
    op->as.route.top_k = m->top_k;
    op->as.route.score = m->score;
    op->as.route.normalize = m->normalize;
    op->as.route.groups = m->groups;
    op->as.route.kept_groups = m->kept_groups;
    op->as.route.group_best = m->group_best;
    op->as.route.scale = m->scale;
}

void arch_moe_route(struct builder *b, const struct arch_moe *m, int in)
{
    scores(b, m, in);
    choice(b, m);
}

/* out = the sum of the slots of `in` times their weights */
static void mix(struct builder *b, const struct arch_moe *m, int in, int out)
{
    struct op *op = arch_op(b, OP_MIX, "mix");
    op->in[0] = in;
    op->in[1] = weights_room(b, m);
    op->out[0] = out;
    op->as.mix.top_k = m->top_k;
}

/* The activations of the experts' inner dimension; their buffer. in: [dim] */
static int inner_experts(struct builder *b, const struct arch_moe *m, int in, int dim)
{
    int ffn = m->ffn, ids = ids_room(b, m), n = 0, w[2], inner[2];
    if (!m->ungated) {
        w[n] = arch_stack(b, "layers.%d.mlp.experts.gate_proj", m->n_experts, dim, ffn);
        inner[n++] = arch_room(b, "gate", m->top_k * ffn);
    }
    w[n] = arch_stack(b, "layers.%d.mlp.experts.up_proj", m->n_experts, dim, ffn);
    inner[n++] = arch_room(b, "up", m->top_k * ffn);
    arch_experts(b, m->ungated ? "expert_up" : "expert_gate_up", in, ids, m->top_k, 0, n, w, inner);
    struct op *op = arch_glu(b, inner[0], m->ungated ? NO_BUFFER : inner[1], m->activation);
    op->as.glu.limit = m->limit;
    op->as.glu.alpha = m->alpha;
    return inner[0];
}

void arch_moe_experts(struct builder *b, const struct arch_moe *m, int in, int out)
{
    int dim = m->latent ? m->latent : b->config->dim, ids = ids_room(b, m), results = out;
    if (m->scaled_input) {
        int scaled = arch_room(b, "expert_input", dim);
        mix(b, m, in, scaled);
        in = scaled;
    }
    int inner = inner_experts(b, m, in, dim);
    int w_down = arch_stack(b, "layers.%d.mlp.experts.down_proj", m->n_experts, m->ffn, dim);
    if (!m->scaled_input) results = arch_room(b, "expert_results", m->top_k * dim);
    arch_experts(b, "expert_down", inner, ids, m->top_k, 1, 1, &w_down, &results);
    if (!m->scaled_input) mix(b, m, results, out);
}

static struct mlp shared_expert(const struct arch_moe *m)
{
    return (struct mlp){"layers.%d.mlp.shared_expert.gate_proj",
                        "layers.%d.mlp.shared_expert.up_proj",
                        "layers.%d.mlp.shared_expert.down_proj",
                        "shared_gate_up",
                        "shared_down",
                        "shared_expert_gate",
                        "shared_expert_up",
                        m->shared_ffn,
                        m->activation};
}

/* Experts that read and write rows of another size, which two linears make (Nemotron 3 Super). */
static void latent_experts(struct builder *b, const struct arch_moe *m, int in, int out)
{
    int dim = b->config->dim, n = m->latent;
    int w_in = arch_linear(b, "layers.%d.mlp.latent_in_proj", dim, n);
    int w_out = arch_linear(b, "layers.%d.mlp.latent_out_proj", n, dim);
    int x = arch_room(b, "latent_in", n), y = arch_room(b, "latent_out", n);
    arch_linears(b, "latent_in", in, 1, &w_in, &x);
    arch_moe_experts(b, m, x, y);
    arch_linears(b, "latent_out", y, 1, &w_out, &out);
}

static void shared_block(struct builder *b, const struct arch_moe *m, int in, int out)
{
    const struct mlp shared = shared_expert(m);
    int w[2];
    if (m->ungated) {
        ungated(b, &shared, NULL, in, out);
        return;
    }
    mlp_weights(b, &shared, w);
    mlp_gate_up(b, &shared, in, w);
    mlp_down(b, &shared, out);
}

void arch_moe_block(struct builder *b, const struct arch_moe *m, int in, int out)
{
    arch_moe_route(b, m, in);
    if (m->latent) latent_experts(b, m, in, out);
    else arch_moe_experts(b, m, in, out);
    if (!m->shared_ffn) return;
    int y = arch_room(b, "shared", b->config->dim);
    shared_block(b, m, in, y);
    struct op *op = arch_add(b, "shared_add", out, y);
    if (m->shared_gate) op->in[2] = arch_room(b, "shared_gate", 1);
}

/* ---- a decoder */

struct arch_decoder arch_decoder(struct builder *b, enum arch_norm_kind layer_norm)
{
    return (struct arch_decoder){.stream = arch_stream(b, layer_norm),
                                 .attention = arch_attention(b),
                                 .activation = ACTIVATION_SILU};
}

void arch_decoder_rope(struct builder *b, struct arch_decoder *d)
{
    const struct model_config *g = b->config;
    d->rope = arch_angles(b, "rope.inv_freq", g->head_dim / 2, g->rope_scale);
}

struct arch_rope arch_no_rope(struct builder *b)
{
    return arch_angles(b, "rope.none.inv_freq", b->config->head_dim / 2, 1);
}

struct arch_rope arch_no_rope_if_used(struct builder *b, struct arch_rope otherwise)
{
    int any = 0;
    for (b->layer = 0; b->layer < b->config->n_layers; b->layer++)
        any |= arch_int_at(b, "no_rope", 0, 1);
    b->layer = -1;
    return any ? arch_no_rope(b) : otherwise;
}

static void choose_rope(struct builder *b, struct arch_decoder *d)
{
    if (arch_int_at(b, "no_rope", 0, 1)) d->attention.rope = d->other_rope;
}

void arch_decoder_no_rope(struct builder *b, struct arch_decoder *d)
{
    d->other_rope = arch_no_rope_if_used(b, d->rope);
    d->begin = choose_rope;
}

void arch_norm_rotated(struct builder *b, struct arch_decoder *d)
{
    d->attention.head_norm = HEAD_NORM_ROTATED;
    d->attention.no_rope = arch_no_rope(b);
}

/* What a block left in delta is to be added: normed by the weight "NAME.weight", or times a factor,
 * or as it is. */
static void add_block(struct builder *b, struct arch_decoder *d, const char *name)
{
    struct arch_stream *s = &d->stream;
    if (d->norm_out) {
        arch_stream_norm_delta(b, s, name);
        return;
    }
    if (d->residual != 0)
        arch_add(b, "residual_scale", s->delta, NO_BUFFER)->as.add.scale = d->residual;
    arch_stream_delta(s);
}

static void feed_forward(struct builder *b, const struct arch_decoder *d)
{
    int in = d->stream.h, out = d->stream.delta, ffn = b->config->ffn;
    if (d->moe && (d->all_experts || arch_int_at(b, "experts", 0, 1)))
        arch_moe_block(b, d->moe, in, out);
    else if (d->ungated) arch_mlp_ungated(b, ffn, d->activation, in, out, &d->xielu);
    else arch_mlp(b, ffn, d->activation, in, out);
}

void arch_draft_layer(struct builder *b, struct arch_stream *s, int sparse, void *arg)
{
    struct arch_decoder *d = arg;
    arch_stream_norm(b, s, "layers.%d.input_layernorm");
    if (d->attend) d->attend(b, d, s->h, s->delta);
    else arch_attend_block(b, &d->attention, s->h, s->delta);
    arch_stream_delta(s);
    arch_stream_norm(b, s, "layers.%d.post_attention_layernorm");
    if (sparse && d->moe) arch_moe_block(b, d->moe, s->h, s->delta);
    else arch_mlp(b, b->config->ffn, d->activation, s->h, s->delta);
    arch_stream_delta(s);
}

void arch_decode(struct builder *b, struct arch_decoder *d)
{
    const struct model_config *g = b->config;
    struct arch_stream *s = &d->stream;
    arch_embed(b, s->embed, s->x)->as.embed.scale = d->embed_scale;
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        d->attention.window = g->windows[b->layer];
        d->attention.rope = d->rope;
        if (d->begin) d->begin(b, d);
        arch_stream_norm(b, s, "layers.%d.input_layernorm");
        if (d->attend) d->attend(b, d, s->h, s->delta);
        else arch_attend_block(b, &d->attention, s->h, s->delta);
        add_block(b, d, "layers.%d.post_attention_layernorm");
        if (d->parallel) arch_stream_add(b, s, 0);
        else
            arch_stream_norm(b, s,
                             d->norm_out ? "layers.%d.pre_feedforward_layernorm"
                                         : "layers.%d.post_attention_layernorm");
        feed_forward(b, d);
        add_block(b, d, "layers.%d.post_feedforward_layernorm");
    }
    arch_stream_end(b, s);
    d->attention.window = 0;
    arch_draft(b, s, arch_draft_layer, d);
}
