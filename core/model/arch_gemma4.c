/* arch_gemma4.c: Gemma 4 (text): Gemma 3 with heads and MLPs whose sizes differ by layer, norms of
 * the heads of v, layers that read the keys and values of an earlier one, a factor on every layer's
 * result; a mixture of experts beside the MLP; embeddings of their own for every layer
 * (per-layer embeddings, Gemma 3n). */
#include "core/model/arch_blocks.h"

#include <math.h>

/* What is the same for all layers. */
struct gemma4 {
    struct arch_stream s;
    struct arch_attention a; /* scale, softcap */
    struct arch_rope full, sliding;
    struct arch_moe moe;
    int sparse;   /* some layers have experts */
    int ple;      /* dimensions of the embeddings for a layer, 0: there are none */
    int embedded; /* buffer [dim]: the stream before the first layer, with ple */
    int ple_norm; /* weight [ple] */
};

/* An entry of a list of the configuration for any layer. */
static int entry(struct builder *b, const char *key, int layer, int lo, int hi)
{
    int now = b->layer;
    b->layer = layer;
    int v = arch_int_at(b, key, lo, hi);
    b->layer = now;
    return v;
}

static struct heads heads_of(struct builder *b, int layer)
{
    enum { MAX_HEAD_DIM = 1024 };
    int n = b->config->n_heads;
    struct heads h = {.n_heads = n,
                      .n_kv_heads = entry(b, "kv_heads", layer, 1, n),
                      .head_dim = entry(b, "head_dims", layer, 2, MAX_HEAD_DIM)};
    if (n % h.n_kv_heads) arch_bad_key(b, "kv_heads");
    if (h.head_dim % 2 || h.head_dim > MODEL_MAX_SIZE / n) arch_bad_key(b, "head_dims");
    return h;
}

/* The layer whose keys and values layer L reads, and the number of its cache. */
static int source_of(struct builder *b, int layer, int *cache)
{
    int from = entry(b, "kv_from", layer, 0, layer);
    struct heads own = heads_of(b, layer), its = heads_of(b, from);
    if (entry(b, "kv_from", from, 0, from) != from || own.head_dim != its.head_dim ||
        own.n_kv_heads != its.n_kv_heads || !b->config->windows[layer] != !b->config->windows[from])
        arch_bad_key(b, "kv_from");
    *cache = 0;
    for (int i = 0; i < from && !b->failed; i++) *cache += entry(b, "kv_from", i, 0, i) == i;
    return from;
}

/* The RoPE tables of the layers with and without a window. */
static void tables(struct builder *b, struct gemma4 *m)
{
    const struct model_config *g = b->config;
    int has_full = 0, has_sliding = 0;
    for (int i = 0; i < g->n_layers && !b->failed; i++) {
        int pairs = heads_of(b, i).head_dim / 2;
        if (g->windows[i] && !has_sliding++)
            m->sliding = arch_angles(b, "rope.sliding.inv_freq", pairs, 1);
        if (!g->windows[i] && !has_full++)
            m->full = arch_angles(b, "rope.full.inv_freq", pairs, g->rope_scale);
    }
}

static void norm(struct builder *b, const char *weight, int in, int out)
{
    int w = arch_vector(b, weight, b->config->dim);
    arch_norm(b, "norm_out", in, NO_BUFFER, w, out);
}

/* Projects, rotates and stores a layer's own keys and values; its KV cache. Without v_proj the
 * values are the raw keys. */
static int keys_and_values(struct builder *b, const struct arch_attention *a, int in, int q,
                           int w_q)
{
    const struct heads *n = &a->heads;
    int dim = b->config->dim, kv_dim = n->n_kv_heads * n->head_dim;
    int k = arch_room(b, "k", kv_dim), v = arch_room(b, "v", kv_dim), v_raw = k;
    int w[] = {w_q, arch_linear(b, "layers.%d.self_attn.k_proj", dim, kv_dim),
               arch_linear_or_none(b, "layers.%d.self_attn.v_proj", dim, kv_dim)};
    if (w[2] >= 0) v_raw = arch_room(b, "v_raw", kv_dim);
    struct arch_head_norms norms = {
        arch_vector(b, "layers.%d.self_attn.q_norm.weight", n->head_dim),
        arch_vector(b, "layers.%d.self_attn.k_norm.weight", n->head_dim)};
    int v_norm = arch_vector(b, "layers.%d.self_attn.v_norm.weight", n->head_dim);
    arch_linears(b, "qkv", in, w[2] >= 0 ? 3 : 2, w, (const int[]){q, k, v_raw});
    arch_norm(b, "v_norm", v_raw, NO_BUFFER, v_norm, v)->as.norm.groups = n->n_kv_heads;
    return arch_rope_store(b, (const int[]){q, k, v}, a->rope, *n, norms);
}

static void attention(struct builder *b, struct gemma4 *m)
{
    struct arch_attention *a = &m->a;
    int cache;
    a->heads = heads_of(b, b->layer);
    a->window = b->config->windows[b->layer];
    a->rope = a->window ? m->sliding : m->full;
    if (a->rope.pairs != a->heads.head_dim / 2) arch_bad_key(b, "head_dims");
    int own = source_of(b, b->layer, &cache) == b->layer;
    int q_dim = a->heads.n_heads * a->heads.head_dim, q = arch_room(b, "q", q_dim);
    int w_q = arch_linear(b, "layers.%d.self_attn.q_proj", b->config->dim, q_dim);
    arch_stream_norm(b, &m->s, "layers.%d.input_layernorm");
    if (own) {
        cache = keys_and_values(b, a, m->s.h, q, w_q);
    } else {
        int q_norm = arch_vector(b, "layers.%d.self_attn.q_norm.weight", a->heads.head_dim);
        arch_linears(b, "q", m->s.h, 1, &w_q, &q);
        arch_rope(b, q, a->rope, a->heads, q_norm, cache);
    }
    arch_attend_out(b, a, q, cache, NO_BUFFER, m->s.delta);
    arch_stream_norm_delta(b, &m->s, "layers.%d.post_attention_layernorm");
}

/* y = norm(norm(MLP's result) + norm(experts' result)); router and experts have norms of their own
 * of the stream before the MLP. */
static void experts(struct builder *b, struct gemma4 *m)
{
    struct arch_stream *s = &m->s;
    int dim = b->config->dim, router_in = arch_room(b, "router_in", dim);
    int of_mlp = arch_room(b, "mlp_normed", dim), of_experts = arch_room(b, "experts_normed", dim);
    norm(b, "layers.%d.post_feedforward_layernorm_1.weight", s->delta, of_mlp);
    arch_stream_norm_to(b, s, "layers.%d.mlp.router.norm", router_in);
    arch_moe_route(b, &m->moe, router_in);
    arch_stream_norm_to(b, s, "layers.%d.pre_feedforward_layernorm_2", s->h);
    arch_moe_experts(b, &m->moe, s->h, s->delta);
    norm(b, "layers.%d.post_feedforward_layernorm_2.weight", s->delta, of_experts);
    arch_add(b, "experts_add", of_mlp, of_experts);
    norm(b, "layers.%d.post_feedforward_layernorm.weight", of_mlp, arch_room(b, "y", dim));
}

static void mlp(struct builder *b, struct gemma4 *m)
{
    struct arch_stream *s = &m->s;
    int ffn = arch_int_at(b, "ffns", 1, MODEL_MAX_SIZE);
    arch_stream_norm(b, s, "layers.%d.pre_feedforward_layernorm");
    arch_mlp(b, ffn, ACTIVATION_GELU_TANH, s->h, s->delta);
    if (m->sparse && arch_int_at(b, "experts", 0, 1)) {
        experts(b, m);
        s->added = arch_room(b, "y", b->config->dim);
    } else {
        arch_stream_norm_delta(b, s, "layers.%d.post_feedforward_layernorm");
    }
}

/* What a layer adds for its own embedding of the token:
 * e = (norm(projection(stream before the first layer) / sqrt(dim)) + embedding) / sqrt(2); the
 * norm's eps has that factor instead. */
static void per_layer_embedding(struct builder *b, struct gemma4 *m)
{
    const struct model_config *g = b->config;
    struct arch_stream *s = &m->s;
    int n = m->ple, token = arch_room(b, "ple_token", n), raw = arch_room(b, "ple_raw", n);
    int e = arch_room(b, "ple", n), gate = arch_room(b, "ple_gate", n);
    int table = arch_linear(b, "layers.%d.embed_tokens_per_layer", n, g->vocab);
    int w_model = arch_linear(b, "layers.%d.per_layer_model_projection", g->dim, n);
    int w_gate = arch_linear(b, "layers.%d.per_layer_input_gate", g->dim, n);
    int w_out = arch_linear(b, "layers.%d.per_layer_projection", n, g->dim);
    arch_stream_add(b, s, 0);
    arch_embed(b, table, token)->as.embed.scale = sqrtf((float)n);
    arch_linears(b, "ple_model", m->embedded, 1, &w_model, &raw);
    struct op *op = arch_norm(b, "ple_norm", raw, NO_BUFFER, m->ple_norm, e);
    op->as.norm.eps = g->norm_eps * (float)g->dim;
    arch_add(b, "ple_add", e, token)->as.add.scale = sqrtf(0.5f);
    arch_linears(b, "ple_gate", s->x, 1, &w_gate, &gate);
    arch_glu(b, gate, e, ACTIVATION_GELU_TANH);
    arch_linears(b, "ple_out", gate, 1, &w_out, &s->delta);
    arch_stream_norm_delta(b, s, "layers.%d.post_per_layer_input_norm");
}

static void build(struct builder *b)
{
    const struct model_config *g = b->config;
    struct gemma4 m = {.s = arch_stream(b, NORM_RMS), .sparse = arch_has(b, "experts")};
    float scale = arch_number(b, "embed_scale", 1e-6, 1e6);
    m.a.scale = arch_number(b, "attend_scale", 1e-6, 1e6);
    m.s.tail.softcap = arch_number(b, "logits_softcap", 0, 1e6);
    m.ple = arch_int(b, "ple_dim", 0, MODEL_MAX_SIZE);
    if (m.sparse) m.moe = arch_moe(b);
    m.moe.expert_scale = 1;
    m.moe.activation = ACTIVATION_GELU_TANH;
    tables(b, &m);
    arch_embed(b, m.s.embed, m.s.x)->as.embed.scale = scale;
    if (m.ple) {
        m.embedded = arch_buffer(b, "embedded", g->dim);
        m.ple_norm = arch_vector(b, "per_layer_projection_norm.weight", m.ple);
        arch_embed(b, m.s.embed, m.embedded)->as.embed.scale = scale;
    }
    for (b->layer = 0; b->layer < g->n_layers && !b->failed; b->layer++) {
        attention(b, &m);
        mlp(b, &m);
        if (m.ple) per_layer_embedding(b, &m);
        arch_stream_add(b, &m.s, arch_number_at(b, "layer_scalar", 1e-9, 1e9));
    }
    arch_stream_end(b, &m.s);
}

static const char *const names[] = {"gemma4", NULL};
const struct arch arch_gemma4 = {names, build};
