/* arch_latent.c: DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash, Mistral Small 4: multi-head latent
 * attention (DeepSeek-V2, 2.1) and a mixture of experts with shared ones. The cache holds a latent
 * for all heads; the linears that make keys and values of it are applied to queries and results
 * instead. DeepSeek-V3.2 and GLM-5: an indexer chooses the positions that a row attends to
 * (DeepSeek-V3.2, 2.1); its keys have a cache of their own. */
#include "core/model/arch_latent.h"

#include <string.h>

/* Sizes of the configuration beside those of all models. */
struct sizes {
    int latent, rotated;               /* of a position in the cache */
    int nope, value;                   /* of a head: of a query what is not rotated; of a value */
    int q_lora;                        /* latent of queries; 0: none */
    float eps;                         /* of the norms of latents */
    int top_k, index_heads, index_dim; /* of the indexer; top_k 0: none */
};

static int has_indexer(const struct builder *b)
{
    const char *name = b->config->architecture;
    return !strcmp(name, "deepseek_v32") || !strcmp(name, "glm_moe_dsa");
}

static struct sizes sizes_of(struct builder *b)
{
    enum { MAX_LATENT = 1024, MAX_TOP_K = 1 << 16, MAX_INDEX_HEADS = 1024 };
    struct sizes s = {.rotated = b->config->head_dim};
    s.latent = arch_int(b, "latent_dim", 4, MAX_LATENT);
    s.nope = arch_int(b, "nope_dim", 1, MODEL_MAX_SIZE / b->config->n_heads);
    s.value = arch_int(b, "value_dim", 1, MODEL_MAX_SIZE / b->config->n_heads);
    s.q_lora = arch_int(b, "q_lora_dim", 0, MODEL_MAX_SIZE);
    s.eps = arch_number(b, "latent_eps", 0, 1);
    if (s.latent % 4 || s.latent + s.rotated > MAX_LATENT ||
        s.latent + s.rotated > MODEL_MAX_SIZE / b->config->n_heads)
        arch_bad_key(b, "latent_dim");
    if (s.rotated % 4) arch_bad_key(b, "head_dim");
    if (!has_indexer(b)) return s;
    s.top_k = arch_int(b, "index_top_k", 1, MAX_TOP_K);
    s.index_heads = arch_int(b, "index_heads", 1, MAX_INDEX_HEADS);
    s.index_dim = arch_int(b, "index_dim", s.rotated + 4, MAX_LATENT);
    if ((s.index_dim - s.rotated) % 4) arch_bad_key(b, "index_dim");
    if (!s.q_lora) arch_bad_key(b, "q_lora_dim");
    return s;
}

static void norm(struct builder *b, const char *name, const char *weight, int x, int n, float eps,
                 int out)
{
    int w = arch_vector(b, weight, n);
    arch_norm(b, name, x, NO_BUFFER, w, out)->as.norm.eps = eps;
}

/* Queries, latent and rotated part of the key. */
static void project(struct builder *b, const struct sizes *s, int in, int q_nope,
                    const struct arch_latent *l, int latent)
{
    int dim = b->config->dim, n = b->config->n_heads, from = s->q_lora ? s->q_lora : dim;
    int w_kv[] = {arch_linear(b, "layers.%d.self_attn.kv_a_proj", dim, s->latent),
                  arch_linear(b, "layers.%d.self_attn.k_rope_proj", dim, s->rotated), NO_WEIGHT};
    int kv[] = {latent, l->k_rot, NO_BUFFER}, n_kv = 2;
    int q_from = in;
    if (s->q_lora) {
        w_kv[n_kv] = arch_linear(b, "layers.%d.self_attn.q_a_proj", dim, s->q_lora);
        kv[n_kv++] = arch_room(b, "q_a", s->q_lora);
        q_from = arch_room(b, "q_a_normed", s->q_lora);
    }
    const int w_q[] = {arch_linear(b, "layers.%d.self_attn.q_nope_proj", from, n * s->nope),
                       arch_linear(b, "layers.%d.self_attn.q_rope_proj", from, n * s->rotated)};
    arch_linears(b, "kv_a", in, n_kv, w_kv, kv);
    if (s->q_lora)
        norm(b, "q_a_norm", "layers.%d.self_attn.q_a_layernorm.weight", kv[2], s->q_lora, s->eps,
             q_from);
    arch_linears(b, "q", q_from, 2, w_q, (const int[]){q_nope, l->q_rot});
}

/* Queries, keys and weights of the indexer, and its choice in the room "chosen". q_from: latents of
 * queries */
static void choose(struct builder *b, const struct sizes *s, struct arch_rope rope, int in,
                   int q_from)
{
    int dim = b->config->dim, n = s->index_heads, rest = s->index_dim - s->rotated;
    const int w_q[] = {
        arch_linear(b, "layers.%d.self_attn.indexer.q_rest_proj", s->q_lora, n * rest),
        arch_linear(b, "layers.%d.self_attn.indexer.q_rope_proj", s->q_lora, n * s->rotated)};
    const int w_in[] = {arch_linear(b, "layers.%d.self_attn.indexer.k_proj", dim, s->index_dim),
                        arch_linear(b, "layers.%d.self_attn.indexer.head_proj", dim, n)};
    int w_norm = arch_vector(b, "layers.%d.self_attn.indexer.k_norm.weight", s->index_dim);
    int bias = arch_vector(b, "layers.%d.self_attn.indexer.k_norm.bias", s->index_dim);
    const int made[] = {arch_room(b, "index_k", s->index_dim), arch_room(b, "index_heads", n)};
    struct arch_latent l = {
        .q = arch_room(b, "index_q", n * s->index_dim),
        .q_latent = arch_room(b, "index_q_rest", n * rest),
        .q_rot = arch_room(b, "index_q_rot", n * s->rotated),
        .latent = arch_room(b, "index_key", s->index_dim),
        .k_rot = NO_BUFFER,
    };
    const struct heads h = {n, 1, s->index_dim, rest, s->rotated};
    arch_linears(b, "index_k", in, 2, w_in, made);
    arch_linears(b, "index_q", q_from, 2, w_q, (const int[]){l.q_latent, l.q_rot});
    struct op *op = arch_norm(b, "index_norm", made[0], NO_BUFFER, w_norm, l.latent);
    arch_norm_center(op, NORM_LAYER, bias);
    op->as.norm.eps = 1e-6f;
    int kv = arch_rope_store_latent(b, &l, rope, h);
    arch_choose(b, l.q, made[1], arch_room(b, "chosen", s->top_k), h, kv, s->top_k);
}

void arch_latent_attend(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    const struct sizes s = sizes_of(b);
    const struct arch_attention *a = &d->attention;
    int n = b->config->n_heads, dim = s.latent + s.rotated;
    int q_nope = arch_room(b, "q_nope", n * s.nope), latent = arch_room(b, "kv_a", s.latent);
    int result = arch_room(b, "a_latent", n * s.latent), heads = arch_room(b, "a", n * s.value);
    struct arch_latent l = {
        .q = arch_room(b, "q", n * dim),
        .q_latent = arch_room(b, "q_latent", n * s.latent),
        .q_rot = arch_room(b, "q_rot", n * s.rotated),
        .latent = arch_room(b, "latent", s.latent),
        .k_rot = arch_room(b, "k_rot", s.rotated),
    };
    const struct heads h = {n, 1, dim, s.latent, s.rotated};
    int w_k = arch_stack(b, "layers.%d.self_attn.kv_b_k", n, s.nope, s.latent);
    int w_v = arch_stack(b, "layers.%d.self_attn.kv_b_v", n, s.latent, s.value);
    int w_o = arch_linear(b, "layers.%d.self_attn.o_proj", n * s.value, b->config->dim);
    project(b, &s, in, q_nope, &l, latent);
    norm(b, "latent_norm", "layers.%d.self_attn.kv_a_layernorm.weight", latent, s.latent, s.eps,
         l.latent);
    arch_experts(b, "q_latent", q_nope, NO_BUFFER, n, 1, 1, &w_k, &l.q_latent);
    int kv = arch_rope_store_latent(b, &l, a->rope, h);
    int own = s.top_k && (b->drafts || arch_int_at(b, "indexers", 0, 1));
    if (s.top_k && !own && !b->layer) arch_bad_key(b, "indexers");
    if (own) choose(b, &s, a->rope, in, arch_room(b, "q_a_normed", s.q_lora));
    if (a->query_original) {
        struct op *op = arch_add(b, "query_scale", l.q, NO_BUFFER);
        op->as.add.beta = a->query_beta;
        op->as.add.original = a->query_original;
    }
    struct op *op = arch_attend(b, l.q, result, h, kv, a->window, a->scale);
    if (s.top_k) {
        op->in[1] = arch_room(b, "chosen", s.top_k);
        op->as.attend.chosen = s.top_k;
    }
    arch_experts(b, "values", result, NO_BUFFER, n, 1, 1, &w_v, &heads);
    arch_linears(b, "o", heads, 1, &w_o, &out);
}

static void build(struct builder *b)
{
    const char *name = b->config->architecture;
    struct arch_decoder d = arch_decoder(b, 0);
    struct arch_moe m = arch_moe(b);
    m.choice_bias = strcmp(name, "deepseek_v2") && strcmp(name, "mistral4");
    if (!strcmp(name, "deepseek_v2")) m.group_best = arch_int(b, "router_group_best", 0, 1);
    d.moe = &m;
    d.attend = arch_latent_attend;
    d.attention.scale = arch_number(b, "attend_scale", 1e-6, 1e6);
    if (!strcmp(name, "mistral4")) {
        d.attention.query_beta = arch_number(b, "query_beta", 0, 1e3);
        d.attention.query_original = (int)arch_number(b, "query_original", 1, MODEL_MAX_SIZE);
    }
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "mistral4", NULL};
const struct arch arch_latent_models = {names, build};
