/* hf_layers.c: what differs by layer: windows, kinds of attention, experts, layers without RoPE. */
#include "convert/hf_family.h"

#include <stdlib.h>
#include <string.h>

/* Windows of Gemma and gpt-oss, where every layer has a type: the RoPE table of Gemma depends on
 * it. A window is kept even where it is as long as the context. */
static int typed_windows(struct hf_config *c, const json_t *config, const struct hf_family *f,
                         struct err *e)
{
    const json_t *types;
    int w, every;
    if (hff_types(c, config, &types, e)) return -1;
    if (hff_int(config, "sliding_window", f->window, 1, 1 << 30, &w, e) ||
        hff_int(config,
                json_object_get(config, "sliding_window_pattern") ? "sliding_window_pattern"
                                                                  : "_sliding_window_pattern",
                f->full_every, 1, 1 << 16, &every, e))
        return -1;
    if (f->gemma != 3) every = f->full_every; /* the key is of that generation */
    for (int i = 0; i < c->n_layers; i++) {
        int slides = types ? hff_type_is(types, i, "sliding_attention") : (i + 1) % every != 0;
        if (f->gemma == 4 && i == c->n_layers - 1) slides = 0; /* as transformers does */
        c->windows[i] = slides ? w : 0;
    }
    return 0;
}

/* Of EXAONE 4 and Cohere 2: 1 if layer i has the window: layer_types, a pattern "LLLG" of local and
 * global layers, or all but every n-th layer. */
static int is_local(const json_t *types, const char *pattern, int every, int i)
{
    size_t n = pattern ? strlen(pattern) : 0;
    if (types) return hff_type_is(types, i, "sliding_attention");
    return n ? pattern[(size_t)i % n] == 'L' : (i + 1) % every != 0;
}

/* Layers with a window, which rotate, and others, which do not. */
static int local_windows(struct hf_config *c, const json_t *config, const struct hf_family *f,
                         struct err *e)
{
    const json_t *types, *width = json_object_get(config, "sliding_window"),
                         *given = hff_value(config, "sliding_window_pattern");
    const char *pattern = json_string_value(given);
    int w = 0, every = f->full_every;
    if (hff_types(c, config, &types, e)) return -1;
    if (width && json_is_null(width)) return 0; /* all layers are full and rotate */
    if (pattern ? !*pattern || pattern[strspn(pattern, "LG")] : given && !json_is_integer(given))
        return err_set(e, "config.json: sliding_window_pattern is neither a number nor of L and G");
    if (hff_int(config, "sliding_window", f->window, 1, 1 << 30, &w, e) ||
        (!pattern && hff_int(config, "sliding_window_pattern", every, 1, 1 << 16, &every, e)))
        return -1;
    for (int i = 0; i < c->n_layers; i++) {
        int local = is_local(types, pattern, every, i);
        c->windows[i] = local && w < c->context ? w : 0;
        c->no_rope[i] = !local;
    }
    return 0;
}

/* Llama 4: layers that rotate attend in chunks, others to all; layer_types says it, too. */
static int take_chunks(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *types, *size = json_object_get(config, "attention_chunk_size");
    int chunk = 0;
    if (hff_types(c, config, &types, e) || hff_list(&c->chunks, c->n_layers, e)) return -1;
    if (!(size && json_is_null(size)) &&
        hff_int(config, "attention_chunk_size", 8192, 1, 1 << 30, &chunk, e))
        return -1;
    for (int i = 0; i < c->n_layers; i++) {
        int local = types ? hff_type_is(types, i, "chunked_attention") : !c->no_rope[i];
        c->chunks[i] = local && chunk < c->context ? chunk : 0;
    }
    return 0;
}

/* Llama 4: q *= 1 + beta ln(1 + floor((position + 1) / original)) in layers that do not rotate. */
static int take_temperature(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *on = hff_value(config, "attn_temperature_tuning"); /* true, or 4 in early files */
    int original;
    if (on && !json_is_boolean(on) && !json_is_integer(on))
        return err_set(e, "config.json: attn_temperature_tuning is neither true nor false");
    if (hff_number(config, "attn_scale", 0.1, 0, 1e3, &c->query_beta, e) ||
        hff_int(config, "floor_scale", 8192, 1, 1 << 30, &original, e))
        return -1;
    if (on && !json_is_true(on) && !json_integer_value(on)) c->query_beta = 0;
    c->query_original = original;
    return 0;
}

static int check_types(const struct hf_family *f, const json_t *types, struct err *e)
{
    int hybrid = (f->traits & HF_HYBRID) != 0;
    if (f->traits & HF_LLAMA4) {
        for (size_t i = 0; i < json_array_size(types); i++)
            if (!hff_type_is(types, (int)i, "full_attention") &&
                !hff_type_is(types, (int)i, "chunked_attention"))
                return err_set(e,
                               "config.json: layer_types: layer %zu is neither full_attention "
                               "nor chunked_attention",
                               i);
        return 0;
    }
    if (f->traits & HF_STATES) return 0; /* hf_states.c */
    for (int i = 0; i < (int)json_array_size(types); i++) {
        if (hff_type_is(types, i, "full_attention") ||
            hff_type_is(types, i, hybrid ? "linear_attention" : "sliding_attention"))
            continue;
        const char *t = json_string_value(json_array_get(types, (size_t)i));
        return err_set(e,
                       "config.json: layer_types: layer %d is '%.40s': only full and %s attention "
                       "are supported",
                       i, t ? t : "?", hybrid ? "linear" : "sliding");
    }
    return 0;
}

/* 1 if the layer has the window, where the family's rule says windows are used. */
static int slides(const struct hf_config *c, const struct hf_family *f, const json_t *types,
                  int from, int i)
{
    switch (f->windows) {
    case WINDOWS_LISTED: return !types || hff_type_is(types, i, "sliding_attention");
    case WINDOWS_FROM:
    case WINDOWS_QWEN: return types ? hff_type_is(types, i, "sliding_attention") : i >= from;
    case WINDOWS_EVEN:
        return types ? hff_type_is(types, i, "sliding_attention") : i % 2 == 0 && i < from;
    case WINDOWS_NO_ROPE: return types ? hff_type_is(types, i, "sliding_attention") : c->no_rope[i];
    default: return 1;
    }
}

static int take_windows(struct hf_config *c, const json_t *config, const struct hf_family *f,
                        const struct notes *n, struct err *e)
{
    const json_t *types = hff_value(config, "layer_types"),
                 *width = json_object_get(config, "sliding_window");
    int w = 0, from = 0, used, by_type = f->windows > WINDOWS_USED || f->windows == WINDOWS_LISTED;
    if (hff_list(&c->windows, c->n_layers, e) || check_types(f, types, e)) return -1;
    if (f->windows == WINDOWS_TYPES) return typed_windows(c, config, f, e);
    if (f->windows == WINDOWS_ROPE) return local_windows(c, config, f, e);
    if (f->windows == WINDOWS_NONE) return 0;
    if (by_type && hff_types(c, config, &types, e)) return -1;
    if (f->windows == WINDOWS_ALL && types)
        note_warn(n, "config.json: layer_types is ignored for a %s model, as transformers does",
                  f->name);
    if ((f->windows == WINDOWS_QWEN || f->windows == WINDOWS_EVEN || f->windows == WINDOWS_FROM) &&
        hff_int(config, "max_window_layers", f->windows == WINDOWS_FROM ? f->layers : 28, 0,
                1 << 30, &from, e))
        return -1;
    if (f->windows > WINDOWS_LISTED && f->windows != WINDOWS_FROM) {
        if (hff_flag(config, "use_sliding_window", 0, &used, e)) return -1;
        if (!used) return 0;
    }
    if (width ? json_is_null(width) : !f->window) return 0;
    if (hff_int(config, "sliding_window", f->window, 1, 1 << 30, &w, e)) return -1;
    if (w >= c->context) w = 0; /* no effect within the context */
    for (int i = 0; i < c->n_layers; i++) c->windows[i] = slides(c, f, types, from, i) ? w : 0;
    return 0;
}

/* SmolLM3, Llama 4: the list has a 1 for a layer with RoPE. Of others the windows say it. */
static int take_no_rope(struct hf_config *c, const json_t *config, const struct hf_family *f,
                        struct err *e)
{
    const json_t *list = hff_value(config, "no_rope_layers");
    int every;
    if (hff_list(&c->no_rope, c->n_layers, e)) return -1;
    if (f->windows != WINDOWS_NO_ROPE && !(c->traits & HF_LLAMA4)) return 0;
    if (c->traits & HF_LLAMA4 && json_is_array(list) && !json_array_size(list)) list = NULL;
    if (hff_int(config, "no_rope_layer_interval", 4, 1, 1 << 16, &every, e)) return -1;
    if (list && json_array_size(list) < (size_t)c->n_layers)
        return err_set(e, "config.json: no_rope_layers names %zu layers, num_hidden_layers is %d",
                       json_array_size(list), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (list && !json_is_integer(v) && !json_is_boolean(v))
            return err_set(e, "config.json: no_rope_layers holds what is neither 0 nor 1");
        c->no_rope[i] = list ? !json_is_true(v) && !json_integer_value(v) : (i + 1) % every == 0;
    }
    return 0;
}

/* Gated DeltaNet: Yang, Kautz & Hatamizadeh 2024. */
static int take_hybrid(struct hf_config *c, const json_t *config, const struct hf_family *f,
                       struct err *e)
{
    const json_t *types;
    int every, gate, olmo = (c->traits & HF_OLMO_HYBRID) != 0;
    if (hff_list(&c->linear, c->n_layers, e) || hff_types(c, config, &types, e) ||
        hff_int(config, "full_attention_interval", f->full_every, 1, 1 << 16, &every, e) ||
        hff_int(config, "linear_num_key_heads", olmo ? c->n_heads : 16, 1, 1 << 16,
                &c->linear_key_heads, e) ||
        hff_int(config, "linear_num_value_heads", olmo ? c->n_heads : 32, 1, 1 << 16,
                &c->linear_value_heads, e) ||
        hff_int(config, "linear_key_head_dim", olmo ? 3 * c->dim / (4 * c->linear_key_heads) : 128,
                1, 4096, &c->linear_key_dim, e) ||
        hff_int(config, "linear_value_head_dim", olmo ? 2 * c->linear_key_dim : 128, 1, 4096,
                &c->linear_value_dim, e) ||
        hff_int(config, "linear_conv_kernel_dim", 4, 1, 64, &c->conv_width, e))
        return -1;
    if (c->linear_value_heads % c->linear_key_heads)
        return err_set(e,
                       "config.json: linear_num_value_heads %d is not a multiple of "
                       "linear_num_key_heads %d",
                       c->linear_value_heads, c->linear_key_heads);
    if (hff_flag(config, "attn_output_gate", 1, &gate, e)) return -1;
    if (!gate) return err_set(e, "config.json: attn_output_gate false is not supported");
    for (int i = 0; i < c->n_layers; i++)
        c->linear[i] = types ? hff_type_is(types, i, "linear_attention") : (i + 1) % every != 0;
    return 0;
}

/* A list has an integer for each of the layers. */
static int check_list(const struct hf_config *c, const json_t *config, const char *key,
                      struct err *e)
{
    const json_t *list = hff_value(config, key);
    if (!json_is_array(list) || json_array_size(list) == (size_t)c->n_layers) return 0;
    return err_set(e, "config.json: %s is a list of %zu, num_hidden_layers is %d", key,
                   json_array_size(list), c->n_layers);
}

/* An integer, or a list of the same one for every layer. */
static int same_int(const json_t *config, const char *key, int fallback, int lo, int hi, int *out,
                    struct err *e)
{
    const json_t *list = hff_value(config, key);
    if (!json_is_array(list)) return hff_int(config, key, fallback, lo, hi, out, e);
    for (size_t i = 1; i < json_array_size(list); i++)
        if (!json_equal(json_array_get(list, i), json_array_get(list, 0)))
            return err_set(e, "config.json: %s differs from layer to layer: not supported", key);
    json_t *one = json_pack("{s:O*}", key, json_array_get(list, 0));
    if (!one) return err_memory(e);
    int rc = hff_int(one, key, fallback, lo, hi, out, e);
    json_decref(one);
    return rc;
}

/* The first of the keys that is there, else the first. */
static const char *key_of(const json_t *config, const char *const *keys)
{
    for (const char *const *k = keys; *k; k++)
        if (hff_value(config, *k)) return *k;
    return keys[0];
}

/* Layers with experts as a list of "dense" and "sparse" says it. */
static int listed_experts(struct hf_config *c, const json_t *kinds, struct err *e)
{
    if (json_array_size(kinds) != (size_t)c->n_layers)
        return err_set(e, "config.json: mlp_layer_types names %zu layers, num_hidden_layers is %d",
                       json_array_size(kinds), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        c->experts[i] = hff_type_is(kinds, i, "sparse");
        if (!c->experts[i] && !hff_type_is(kinds, i, "dense"))
            return err_set(e,
                           "config.json: mlp_layer_types holds what is neither dense nor sparse");
    }
    return 0;
}

/* Llama 4: a list of layers with experts, or every n-th. */
static int interleaved_experts(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *list = hff_value(config, "moe_layers");
    int step;
    if (hff_int(config, "interleave_moe_layer_step", 1, 1, 1 << 16, &step, e)) return -1;
    if (list && !json_is_array(list)) return err_set(e, "config.json: moe_layers is not a list");
    for (int i = 0; i < c->n_layers; i++) c->experts[i] = !list && (i + 1) % step == 0;
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *v = json_array_get(list, k);
        json_int_t i = json_is_integer(v) ? json_integer_value(v) : -1;
        if (i < 0 || i >= c->n_layers)
            return err_set(e, "config.json: moe_layers holds what is no layer's number");
        c->experts[i] = 1;
    }
    return 0;
}

/* ERNIE's range of layers with experts. */
static int ranged_experts(struct hf_config *c, const json_t *config, const struct hf_family *f,
                          struct err *e)
{
    int first, last, every;
    if (hff_int(config, "moe_layer_start_index", f->dense_layers, 0, 1 << 16, &first, e) ||
        hff_int(config, "moe_layer_end_index", -1, -1, 1 << 16, &last, e) ||
        hff_int(config, "moe_layer_interval", 1, 1, 1 << 16, &every, e))
        return -1;
    if (last < 0) last = c->n_layers - 1;
    for (int i = 0; i < c->n_layers; i++)
        c->experts[i] = i >= first && i <= last && (i + 1) % every == 0;
    return 0;
}

/* Jamba: every n-th layer. */
static int periodic_experts(struct hf_config *c, const json_t *config, struct err *e)
{
    int period, offset;
    if (hff_int(config, "expert_layer_period", 2, 1, 1 << 16, &period, e) ||
        hff_int(config, "expert_layer_offset", 1, 0, 1 << 16, &offset, e))
        return -1;
    for (int i = 0; i < c->n_layers; i++) c->experts[i] = i % period == offset;
    return 0;
}

/* Layers with experts: Qwen's decoder_sparse_step and mlp_only_layers, GLM's first dense layers. */
static int take_sparse_layers(struct hf_config *c, const json_t *config, const struct hf_family *f,
                              struct err *e)
{
    const json_t *only = hff_value(config, "mlp_only_layers"),
                 *kinds = hff_value(config, "mlp_layer_types");
    int step, first;
    if (kinds) return listed_experts(c, kinds, e);
    if (c->traits & HF_SOFTMAX) return ranged_experts(c, config, f, e);
    if (c->traits & HF_LLAMA4) return interleaved_experts(c, config, e);
    if (c->traits & HF_MAMBA1) return periodic_experts(c, config, e);
    if (only && !json_is_array(only))
        return err_set(e, "config.json: mlp_only_layers is not a list");
    for (size_t k = 0; k < json_array_size(only); k++)
        if (!json_is_integer(json_array_get(only, k)))
            return err_set(e, "config.json: mlp_only_layers holds what is no integer");
    if (hff_int(config, "decoder_sparse_step", 1, 1, 1 << 16, &step, e) ||
        hff_int(config, "first_k_dense_replace", f->dense_layers, 0, 1 << 16, &first, e))
        return -1;
    for (int i = 0; i < c->n_layers; i++) {
        c->experts[i] = i >= first && (i + 1) % step == 0;
        for (size_t k = 0; k < json_array_size(only); k++)
            if (json_integer_value(json_array_get(only, k)) == i) c->experts[i] = 0;
    }
    return 0;
}

/* A key with the value that is computed, or none. */
static int expect_text(const json_t *config, const char *key, const char *want, struct err *e)
{
    const json_t *v = hff_value(config, key);
    if (!v || (json_is_string(v) && !strcmp(json_string_value(v), want))) return 0;
    return err_set(e, "config.json: %s '%.40s' is not supported, %s is", key,
                   json_is_string(v) ? json_string_value(v) : "?", want);
}

/* How experts are chosen: V3's by groups with the largest sums of two and a bias, V2's by the best
 * of all or of groups with the best ones; Mistral 4's as V3's without bias, of probabilities. */
static int take_choice(struct hf_config *c, const json_t *config, const struct hf_family *f,
                       struct err *e)
{
    static const char *const groups[] = {"n_group", "num_expert_group", NULL};
    int bias = (c->traits & HF_CHOICE_BIAS) != 0, v2 = !strcmp(c->architecture, "deepseek_v2"),
        in_groups = 1;
    if (strcmp(c->architecture, "dots1") && /* which says noaux_tc there */
        expect_text(config, "scoring_func", bias ? "sigmoid" : "softmax", e))
        return -1;
    if (v2) {
        const char *method = json_string_value(hff_value(config, "topk_method"));
        c->router_group_best = method && !strcmp(method, "group_limited_greedy");
        in_groups = c->router_group_best;
        if (!in_groups && expect_text(config, "topk_method", "greedy", e)) return -1;
    } else if (bias && expect_text(config, "topk_method", "noaux_tc", e)) {
        return -1;
    }
    if (!in_groups) return 0;
    return hff_int(config, key_of(config, groups), f->groups ? f->groups : 1, 1, c->n_experts,
                   &c->router_groups, e) ||
                   hff_int(config, "topk_group",
                           f->kept_groups && f->kept_groups < c->router_groups ? f->kept_groups : 1,
                           1, c->router_groups, &c->router_kept_groups, e)
               ? -1
               : 0;
}

/* ERNIE: the choice is by probability and bias; the weights are p / max(sum of p, moe_norm_min). */
static int take_ernie_router(struct hf_config *c, const json_t *config, struct err *e)
{
    double least;
    int biased;
    c->router_normalize = c->router_groups = c->router_kept_groups = 1;
    c->router_scale = 1;
    if (hff_number(config, "moe_norm_min", 1e-12, 0, 1, &least, e) ||
        hff_flag(config, "moe_use_aux_free", 1, &biased, e))
        return -1;
    if (!biased) c->traits &= ~(uint64_t)HF_CHOICE_BIAS;
    if (least <= 1e-6) return 0; /* no sum of probabilities is smaller */
    return err_set(e, "config.json: moe_norm_min %g is not supported, 1e-6 and less is", least);
}

/* Choice in groups, scaling of the weights: DeepSeek-V3 (DeepSeek-AI 2024, 2.1.2). */
static int take_router(struct hf_config *c, const json_t *config, const struct hf_family *f,
                       struct err *e)
{
    static const char *const scales[] = {"routed_scaling_factor", "router_scaling_factor", NULL},
                             *const normalizes[] = {"norm_topk_prob", "moe_renormalize", NULL};
    if (c->traits & HF_SOFTMAX) return take_ernie_router(c, config, e);
    if (c->traits & HF_LLAMA4) {
        c->router_sigmoid = c->router_groups = c->router_kept_groups = 1;
        c->router_scale = 1;
        if (c->top_k == 1) return 0;
        return err_set(e, "config.json: num_experts_per_tok %d is not supported for a llama4 model",
                       c->top_k);
    }
    c->router_sigmoid = (c->traits & HF_CHOICE_BIAS) != 0;
    if (hff_flag(config, key_of(config, normalizes), f->normalize, &c->router_normalize, e))
        return -1;
    if (f->normalize < 0) c->router_normalize = 1;
    c->router_groups = c->router_kept_groups = 1;
    c->router_scale = 1;
    if (!(c->traits & (HF_CHOICE_BIAS | HF_LATENT))) return 0;
    if (take_choice(c, config, f, e) ||
        hff_number(config, key_of(config, scales), f->router_scale > 0 ? f->router_scale : 1, 1e-6,
                   1e6, &c->router_scale, e))
        return -1;
    if (c->router_scale <= 0) c->router_scale = 1; /* null */
    int group = c->n_experts / c->router_groups;
    if (c->n_experts % c->router_groups || (c->router_groups > 1 && group < 2))
        return err_set(e, "config.json: n_group %d does not divide %d experts into groups of 2",
                       c->router_groups, c->n_experts);
    if (c->top_k > group * c->router_kept_groups)
        return err_set(e, "config.json: num_experts_per_tok %d is more than %d groups have",
                       c->top_k, c->router_kept_groups);
    return 0;
}

static int take_experts(struct hf_config *c, const json_t *config, const struct hf_family *f,
                        struct err *e)
{
    static const char *const counts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                         "moe_num_experts", NULL};
    static const char *const tops[] = {"num_experts_per_tok",
                                       "experts_per_token",
                                       "top_k_experts",
                                       "num_experts_per_token",
                                       "moe_k",
                                       "moe_topk",
                                       NULL};
    static const char *const shares[] = {"n_shared_experts", "num_shared_experts",
                                         "num_shared_expert", "moe_num_shared_experts", NULL};
    int mixed = 1, shared = 0, required = f->expert_ffn ? f->expert_ffn : f->gemma ? 0 : c->ffn;
    if (hff_list(&c->experts, c->n_layers, e) ||
        hff_int(config, key_of(config, counts), f->experts, 1, 1 << 14, &c->n_experts, e) ||
        check_list(c, config, key_of(config, tops), e) ||
        check_list(c, config, key_of(config, shares), e) ||
        same_int(config, key_of(config, tops), f->top_k, 1, c->n_experts, &c->top_k, e) ||
        hff_flag(config, "use_mixed_mlp_moe", 1, &mixed, e))
        return -1;
    c->expert_ffn = c->ffn;
    if ((f->expert_ffn || f->gemma) &&
        hff_int(config, "moe_intermediate_size", required, 1, 1 << 20, &c->expert_ffn, e))
        return -1;
    if (c->traits & HF_SHARED_GATE) {
        if (hff_int(config, "shared_expert_intermediate_size", f->shared_ffn, 1, 1 << 20,
                    &c->shared_ffn, e))
            return -1;
    } else {
        if (same_int(config, key_of(config, shares), f->shared_ffn, 0, 1 << 10, &shared, e))
            return -1;
        c->shared_ffn = mixed ? shared * c->expert_ffn : 0;
    }
    if (take_sparse_layers(c, config, f, e) || take_router(c, config, f, e)) return -1;
    if (c->traits & HF_LLAMA4 &&
        hff_int(config, "intermediate_size_mlp", 16384, 1, 1 << 20, &c->ffn, e))
        return -1;
    int dense = f->gemma; /* layers with an MLP */
    for (int i = 0; i < c->n_layers; i++) dense |= !c->experts[i];
    if (!dense) c->ffn = c->expert_ffn;
    if (!(c->traits & HF_GPT_OSS)) return 0;
    if (hff_number(config, "swiglu_limit", 7, 1e-3, 1e6, &c->swiglu_limit, e) ||
        hff_number(config, "swiglu_alpha", 1.702, 1e-3, 1e6, &c->swiglu_alpha, e))
        return -1;
    if (c->swiglu_limit > 0 && c->swiglu_alpha > 0) return 0;
    return err_set(e, "config.json: swiglu_limit or swiglu_alpha is null");
}

int hff_layers(struct hf_config *c, const json_t *config, const struct hf_family *f,
               const struct notes *n, struct err *e)
{
    if (c->traits & HF_NO_ROPE && take_no_rope(c, config, f, e)) return -1;
    if (take_windows(c, config, f, n, e)) return -1;
    if (c->traits & HF_LLAMA4 && (take_chunks(c, config, e) || take_temperature(c, config, e)))
        return -1;
    if (c->traits & HF_HYBRID && take_hybrid(c, config, f, e)) return -1;
    return c->traits & HF_EXPERTS ? take_experts(c, config, f, e) : 0;
}
