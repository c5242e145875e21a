/* hf_states.c: families with layers of Mamba-2 (Dao & Gu 2024) or of gated short convolutions:
 * kinds of layers, sizes, factors. Must not know: tensors. */
#include "convert/hf_states.h"

#include <math.h>
#include <string.h>

/* A key under its names: of the family first, then of other programs. */
static const char *name_of(const json_t *config, const char *const names[2])
{
    return !hff_value(config, names[0]) && names[1] && hff_value(config, names[1]) ? names[1]
                                                                                   : names[0];
}

/* A number of a list of n; a missing list: 1. */
static int factor_at(const json_t *config, const char *key, size_t n, size_t i, double *out,
                     struct err *e)
{
    const json_t *list = hff_value(config, key), *v = json_array_get(list, i);
    *out = list ? json_number_value(v) : 1;
    if (!list || (json_array_size(list) == n && json_is_number(v) && fabs(*out) <= 1e6)) return 0;
    return err_set(e, "config.json: %s is not a list of %zu numbers", key, n);
}

static int factor(const json_t *config, const char *key, double *out, struct err *e)
{
    if (hff_number(config, key, 1, -1e6, 1e6, out, e)) return -1;
    return *out != 0 ? 0 : err_set(e, "config.json: %s is 0 or null", key);
}

/* ---- kinds of layers */

static const char *const kind_names[][4] = {
    [KIND_ATTENTION] = {"attention", "full_attention"},
    [KIND_STATE] = {"mamba", "linear_attention", "mamba2", "conv"},
    [KIND_MLP] = {"mlp"},
    [KIND_EXPERTS] = {"moe"},
};

static int kind_of(const char *text)
{
    for (int kind = 0; text && kind <= KIND_EXPERTS; kind++)
        for (int i = 0; i < 4 && kind_names[kind][i]; i++)
            if (!strcmp(text, kind_names[kind][i])) return kind;
    return -1;
}

static int listed_kinds(struct hf_config *c, const json_t *list, const char *key, struct err *e)
{
    int most = c->traits & HF_ONE_BLOCK ? KIND_EXPERTS : KIND_STATE;
    if (json_array_size(list) != (size_t)c->n_layers)
        return err_set(e, "config.json: %s names %zu layers, num_hidden_layers is %d", key,
                       json_array_size(list), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        c->linear[i] = kind_of(text);
        if (c->linear[i] < 0 || c->linear[i] > most)
            return err_set(e, "config.json: %s: layer %d is '%.40s', which is not supported", key,
                           i, text ? text : "?");
    }
    return 0;
}

/* Nemotron: a letter for each layer. */
static int pattern_kinds(struct hf_config *c, const char *pattern, struct err *e)
{
    static const char letters[] = "*M-E"; /* by enum layer_kind */
    if (strlen(pattern) != (size_t)c->n_layers)
        return err_set(e,
                       "config.json: hybrid_override_pattern names %zu layers, "
                       "num_hidden_layers is %d",
                       strlen(pattern), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        const char *at = strchr(letters, pattern[i]);
        if (!at)
            return err_set(e,
                           "config.json: hybrid_override_pattern: layer %d is '%c', which is not "
                           "supported",
                           i, pattern[i]);
        c->linear[i] = (int)(at - letters);
    }
    return 0;
}

/* The layers of attention by number; all others have states. */
static int numbered_kinds(struct hf_config *c, const json_t *list, const char *key, struct err *e)
{
    for (int i = 0; i < c->n_layers; i++) c->linear[i] = KIND_STATE;
    for (size_t k = 0; k < json_array_size(list); k++) {
        json_int_t i = json_integer_value(json_array_get(list, k));
        if (!json_is_integer(json_array_get(list, k)) || i < 0 || i >= c->n_layers)
            return err_set(e, "config.json: %s holds what is no layer", key);
        c->linear[i] = KIND_ATTENTION;
    }
    return json_is_array(list) ? 0 : err_set(e, "config.json: %s is not a list", key);
}

static int take_kinds(struct hf_config *c, const json_t *config, struct err *e)
{
    static const char *const lists[] = {"layers_block_type", "layer_types"},
                             *const numbers[] = {"attn_layer_indices", "full_attn_idxs"};
    const char *pattern = json_string_value(hff_value(config, "hybrid_override_pattern"));
    int falcon = (c->traits & HF_FALCON) != 0;
    if (hff_list(&c->linear, c->n_layers, e)) return -1;
    for (int i = 0; i < c->n_layers; i++) c->linear[i] = KIND_STATE;
    if (falcon) return 0; /* and attention */
    if (c->traits & HF_ONE_BLOCK && pattern) return pattern_kinds(c, pattern, e);
    for (int k = 0; k < 2; k++) {
        const json_t *list = hff_value(config, lists[k]);
        if (list) return listed_kinds(c, list, lists[k], e);
    }
    for (int k = 0; k < 2; k++) {
        const json_t *list = hff_value(config, numbers[k]);
        if (list) return numbered_kinds(c, list, numbers[k], e);
    }
    if (!(c->traits & HF_ONE_BLOCK)) return 0;
    return err_set(e,
                   "config.json: neither hybrid_override_pattern nor layers_block_type says what "
                   "the layers are");
}

int hff_n_layers(const struct hf_family *f, const json_t *config)
{
    const char *pattern = json_string_value(hff_value(config, "hybrid_override_pattern"));
    const json_t *list = hff_value(config, "layers_block_type");
    if (!(f->traits & HF_ONE_BLOCK)) return f->layers;
    if (pattern && *pattern) return (int)strlen(pattern);
    return json_array_size(list) ? (int)json_array_size(list) : f->layers;
}

const char *hff_head_dim_key(const struct hf_family *f, const json_t *config)
{
    static const char other[] = "attention_head_dim";
    int use = f->traits & HF_ONE_BLOCK && !hff_value(config, "head_dim");
    return use && hff_value(config, other) ? other : "head_dim";
}

/* ---- sizes and what is not computed */

/* Only steps that are not limited: [0, infinity]. */
static int check_limit(const json_t *config, const char *key, struct err *e)
{
    const json_t *v = hff_value(config, key), *low = json_array_get(v, 0),
                 *high = json_array_get(v, 1);
    if (!v) return 0;
    int free = json_array_size(v) == 2 && json_is_number(low) && json_number_value(low) <= 0 &&
               (json_is_null(high) || (json_is_number(high) && json_number_value(high) >= 1e30) ||
                (json_is_string(high) && !strcmp(json_string_value(high), "inf")));
    return free ? 0 : err_set(e, "config.json: %s other than [0, Infinity] is not supported", key);
}

static int expect_text(const json_t *config, const char *key, const char *want, struct err *e)
{
    const json_t *v = hff_value(config, key);
    if (!v || (json_is_string(v) && !strcmp(json_string_value(v), want))) return 0;
    return err_set(e, "config.json: %s '%.40s' is not supported, %s is", key,
                   json_is_string(v) ? json_string_value(v) : "?", want);
}

static int check_values(const struct hf_config *c, const json_t *config, struct err *e)
{
    int bias, mlp = 1, rotary;
    if (check_limit(config, "time_step_limit", e) || check_limit(config, "mamba_dt_limit", e) ||
        expect_text(config, "mamba_hidden_act", "silu", e) ||
        expect_text(config, "mlp_hidden_act", "relu2", e) ||
        expect_text(config, "normalization_function", "rmsnorm", e))
        return -1;
    if (c->traits & HF_FALCON && hff_flag(config, "mamba_use_mlp", 1, &mlp, e)) return -1;
    if (!mlp) return err_set(e, "config.json: mamba_use_mlp false is not supported");
    if (hff_int(config, "attn_rotary_emb", c->head_dim / 2, 0, 1 << 16, &rotary, e)) return -1;
    if (rotary != c->head_dim / 2)
        return err_set(e, "config.json: attn_rotary_emb %d is not supported, half of a head is",
                       rotary);
    /* factors of inputs are moved behind the linears */
    if (hff_flag(config, "attention_bias", 0, &bias, e)) return -1;
    if (c->traits & HF_FALCON && bias && c->falcon.attend_in != 1)
        return err_set(e,
                       "config.json: attention_bias with attention_in_multiplier %g is not "
                       "supported",
                       c->falcon.attend_in);
    if (hff_flag(config, "mamba_proj_bias", 0, &bias, e)) return -1;
    if (c->traits & HF_FALCON && bias && c->falcon.mamba_in != 1)
        return err_set(e, "config.json: mamba_proj_bias with ssm_in_multiplier %g is not supported",
                       c->falcon.mamba_in);
    return 0;
}

/* The dimension of a head: a number, or "auto": of the inner width. */
static int take_head_dim(struct hf_config *c, const json_t *config, const char *key, int fallback,
                         struct err *e)
{
    const json_t *v = hff_value(config, key);
    int inner = 0, expand, heads = c->linear_value_heads;
    if (c->traits & HF_FALCON &&
        hff_int(config, "mamba_d_ssm", json_object_get(config, "mamba_d_ssm") ? 0 : 1024, 0,
                1 << 24, &inner, e))
        return -1;
    if (hff_int(config, "mamba_expand", 2, 1, 1 << 10, &expand, e)) return -1;
    if (!inner) inner = expand * c->dim;
    if (fallback) inner = 0; /* Nemotron: heads are as they are */
    if (json_is_string(v) || !v) c->linear_value_dim = fallback ? fallback : inner / heads;
    else if (hff_int(config, key, 0, 1, 4096, &c->linear_value_dim, e)) return -1;
    if (!inner || c->linear_value_dim * heads == inner) return 0;
    return err_set(e, "config.json: %d Mamba heads of %d are not the inner width %d", heads,
                   c->linear_value_dim, inner);
}

static int take_mamba(struct hf_config *c, const json_t *config, struct err *e)
{
    static const char *const names[][2] = {
        {"mamba_n_heads", "mamba_num_heads"}, {"mamba_n_groups", "n_groups"},
        {"mamba_d_state", "ssm_state_size"},  {"mamba_d_conv", "conv_kernel"},
        {"mamba_conv_bias", "use_conv_bias"}, {"mamba_d_head", "mamba_head_dim"}};
    int one = (c->traits & HF_ONE_BLOCK) != 0, bias;
    if (hff_int(config, name_of(config, names[0]), 128, 1, 4096, &c->linear_value_heads, e) ||
        hff_int(config, name_of(config, names[1]), one ? 8 : 1, 1, 4096, &c->linear_key_heads, e) ||
        hff_int(config, name_of(config, names[2]), one ? 128 : 256, 1, 1024, &c->linear_key_dim,
                e) ||
        hff_int(config, name_of(config, names[3]), 4, 2, 16, &c->conv_width, e) ||
        hff_flag(config, name_of(config, names[4]), 1, &bias, e) ||
        take_head_dim(c, config, name_of(config, names[5]), one ? 64 : 0, e))
        return -1;
    if (bias) c->traits |= HF_CONV_BIAS;
    if (c->linear_value_heads % c->linear_key_heads)
        return err_set(e, "config.json: %d Mamba heads are not a multiple of %d groups",
                       c->linear_value_heads, c->linear_key_heads);
    return 0;
}

static int take_short_conv(struct hf_config *c, const json_t *config, struct err *e)
{
    int bias;
    if (hff_int(config, "conv_L_cache", 3, 2, 16, &c->conv_width, e) ||
        hff_flag(config, "conv_bias", 0, &bias, e))
        return -1;
    if (bias) c->traits |= HF_CONV_BIAS;
    return 0;
}

/* Factors of inputs go to what comes behind the linears: of attention to scores and result, of
 * Mamba to the convolution, the gate and the step. */
static int take_falcon(struct hf_config *c, const json_t *config, struct err *e)
{
    struct hf_falcon *f = &c->falcon;
    double key, attend_out, mamba[5];
    int norm, first;
    for (size_t i = 0; i < 5; i++)
        if (factor_at(config, "ssm_multipliers", 5, i, &mamba[i], e)) return -1;
    if (factor(config, "embedding_multiplier", &c->embed_scale, e) ||
        factor(config, "lm_head_multiplier", &c->logits_scale, e) ||
        factor(config, "key_multiplier", &key, e) ||
        factor(config, "attention_in_multiplier", &f->attend_in, e) ||
        factor(config, "attention_out_multiplier", &attend_out, e) ||
        factor(config, "ssm_in_multiplier", &f->mamba_in, e) ||
        factor(config, "ssm_out_multiplier", &f->mamba_out, e) ||
        factor_at(config, "mlp_multipliers", 2, 0, &f->mlp_gate, e) ||
        factor_at(config, "mlp_multipliers", 2, 1, &f->mlp_out, e) ||
        hff_flag(config, "mamba_rms_norm", 0, &norm, e) ||
        hff_flag(config, "mamba_norm_before_gate", 1, &first, e))
        return -1;
    c->attend_scale = f->attend_in * f->attend_in * key / sqrt(c->head_dim);
    f->attend_out = f->attend_in * attend_out;
    f->gate = f->mamba_in * mamba[0];
    for (int i = 0; i < 3; i++) f->conv[i] = f->mamba_in * mamba[1 + i];
    f->dt = f->mamba_in * mamba[4];
    f->norm = !norm ? "none" : first ? "first" : "gated";
    if (norm) c->traits |= HF_MAMBA_NORM;
    if (c->embed_scale < 0 || c->logits_scale < 0)
        return err_set(e, "config.json: a negative multiplier is not supported");
    return 0;
}

/* ---- in order of the keys that follow */

/* Nothing rotates: null is what some classes have in place of "nope". */
static int take_positions(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *v = hff_value(config, "position_embedding_type");
    const char *type = json_string_value(v);
    if (!(c->traits & HF_MAMBA2 && c->traits & HF_SCALES)) return 0;
    if (type && !strcmp(type, "rope")) return 0;
    c->traits |= HF_NOPE;
    if (!v || (type && !strcmp(type, "nope"))) return 0;
    return err_set(e, "config.json: position_embedding_type '%.40s' is not supported",
                   type ? type : "?");
}

/* OLMo Hybrid: beta up to 2; no RoPE where rope_parameters or its theta is null. */
static int take_olmo(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *rope = hff_value(config, "rope_parameters"),
                 *theta = hff_value(rope ? rope : config, "rope_theta");
    int twice;
    if (hff_flag(config, "linear_allow_neg_eigval", 1, &twice, e)) return -1;
    c->beta_scale = twice ? 2 : 1;
    if (!theta) c->traits |= HF_NOPE;
    return 0;
}

/* Kimi-Linear: layers by number, from 1, in an object of their own. */
static int take_kimi(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *own = hff_value(config, "linear_attn_config"),
                 *list = hff_value(own, "kda_layers"), *full = hff_value(own, "full_attn_layers");
    if (!json_is_object(own) || !json_is_array(list))
        return err_set(e, "config.json: linear_attn_config.kda_layers is missing");
    if (hff_list(&c->linear, c->n_layers, e) ||
        hff_int(own, "num_heads", 0, 1, 4096, &c->linear_key_heads, e) ||
        hff_int(own, "head_dim", 0, 1, 1024, &c->linear_key_dim, e) ||
        hff_int(own, "short_conv_kernel_size", 4, 2, 16, &c->conv_width, e))
        return -1;
    c->linear_value_heads = c->linear_key_heads;
    c->linear_value_dim = c->linear_key_dim;
    size_t n = json_array_size(list), i;
    const json_t *v;
    json_array_foreach (list, i, v) {
        json_int_t at = json_is_integer(v) ? json_integer_value(v) - 1 : -1;
        if (at < 0 || at >= c->n_layers || c->linear[at])
            return err_set(e, "config.json: kda_layers holds what is no layer, or a layer twice");
        c->linear[at] = KIND_STATE;
    }
    json_array_foreach (full, i, v) {
        json_int_t at = json_is_integer(v) ? json_integer_value(v) - 1 : -1;
        if (at < 0 || at >= c->n_layers || c->linear[at])
            return err_set(e, "config.json: full_attn_layers holds what is no layer, or one of "
                              "kda_layers");
    }
    if (!full || n + json_array_size(full) == (size_t)c->n_layers) return 0;
    return err_set(e,
                   "config.json: kda_layers and full_attn_layers name %zu layers, "
                   "num_hidden_layers is %d",
                   n + json_array_size(full), c->n_layers);
}

/* Jamba: Mamba-1 but in every n-th layer; one expert is an MLP. */
static int take_jamba(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *rank = hff_value(config, "mamba_dt_rank");
    int period, offset, expand, bias, experts;
    if (hff_list(&c->linear, c->n_layers, e) ||
        hff_int(config, "attn_layer_period", 8, 1, 1 << 16, &period, e) ||
        hff_int(config, "attn_layer_offset", 4, 0, 1 << 16, &offset, e) ||
        hff_int(config, "mamba_d_state", 16, 1, 1024, &c->linear_key_dim, e) ||
        hff_int(config, "mamba_d_conv", 4, 2, 16, &c->conv_width, e) ||
        hff_int(config, "mamba_expand", 2, 1, 1 << 10, &expand, e) ||
        hff_flag(config, "mamba_conv_bias", 1, &bias, e) ||
        hff_int(config, "num_experts", 16, 1, 1 << 14, &experts, e))
        return -1;
    if (expand > (1 << 24) / c->dim)
        return err_set(e, "config.json: mamba_expand %d is out of range", expand);
    c->linear_key_heads = c->linear_value_heads = 1;
    c->linear_value_dim = expand * c->dim;
    c->dt_rank = (c->dim + 15) / 16;
    if (rank && !(json_is_string(rank) && !strcmp(json_string_value(rank), "auto")) &&
        hff_int(config, "mamba_dt_rank", 0, 1, 1 << 20, &c->dt_rank, e))
        return -1;
    if (bias) c->traits |= HF_CONV_BIAS;
    if (experts == 1) c->traits &= ~(uint64_t)HF_EXPERTS;
    for (int i = 0; i < c->n_layers; i++)
        c->linear[i] = i % period == offset ? KIND_ATTENTION : KIND_STATE;
    return 0;
}

/* Traits that other keys depend on: no RoPE, no experts. */
int hff_states(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *experts = hff_value(config, "num_local_experts");
    int n_experts = 0;
    if (c->traits & HF_OLMO_HYBRID) return take_olmo(c, config, e);
    if (c->traits & HF_KIMI) return take_kimi(c, config, e);
    if (c->traits & HF_MAMBA1) return take_jamba(c, config, e);
    if (!(c->traits & HF_STATES)) return 0;
    if (take_positions(c, config, e) || take_kinds(c, config, e)) return -1;
    if (c->traits & HF_SCALES && c->traits & HF_EXPERTS && json_is_integer(experts) &&
        !json_integer_value(experts))
        c->traits &= ~(uint64_t)HF_EXPERTS;
    for (int i = 0; i < c->n_layers; i++) n_experts += c->linear[i] == KIND_EXPERTS;
    if (c->traits & HF_ONE_BLOCK && !n_experts)
        c->traits &= ~(uint64_t)(HF_EXPERTS | HF_CHOICE_BIAS);
    if (c->traits & HF_MAMBA2 ? take_mamba(c, config, e) : take_short_conv(c, config, e)) return -1;
    if (c->traits & HF_MAMBA2 && !(c->traits & HF_FALCON)) c->traits |= HF_MAMBA_NORM;
    if (c->traits & HF_FALCON && take_falcon(c, config, e)) return -1;
    if (c->traits & HF_MAMBA2 && c->traits & HF_SCALES &&
        hff_int(config, "shared_intermediate_size", 1024, 0, 1 << 20, &c->shared_ffn, e))
        return -1;
    return check_values(c, config, e);
}

/* Nemotron: one shared expert of its own width; experts may work on latent rows. ffn: of MLPs */
static int nemotron_experts(struct hf_config *c, const json_t *config, int ffn, struct err *e)
{
    int shared;
    if (hff_int(config, "n_shared_experts", 1, 0, 1, &shared, e) ||
        hff_int(config, "moe_shared_expert_intermediate_size", 7688, 1, 1 << 20, &c->shared_ffn,
                e) ||
        hff_int(config, "moe_latent_size", 0, 0, 1 << 20, &c->expert_dim, e))
        return -1;
    if (!shared) c->shared_ffn = 0;
    c->ffn = ffn;
    if (c->expert_dim) c->traits |= HF_LATENT_EXPERTS;
    for (int i = 0; i < c->n_layers; i++) c->experts[i] = c->linear[i] == KIND_EXPERTS;
    return 0;
}

/* ffn: of the dense layers */
static int short_conv_experts(struct hf_config *c, const json_t *config, int ffn, struct err *e)
{
    int dense, biased;
    if (hff_int(config, "num_dense_layers", 2, 0, 1 << 16, &dense, e) ||
        hff_flag(config, "use_expert_bias", 1, &biased, e))
        return -1;
    for (int i = 0; i < c->n_layers; i++) c->experts[i] = i >= dense;
    if (dense) c->ffn = ffn;
    c->shared_ffn = 0;
    if (!biased) c->traits &= ~(uint64_t)HF_CHOICE_BIAS;
    return 0;
}

int hff_state_experts(struct hf_config *c, const json_t *config, const struct hf_widths *before,
                      struct err *e)
{
    int granite = c->traits & HF_MAMBA2 && c->traits & HF_SCALES;
    if (!(c->traits & HF_EXPERTS)) {
        if (granite) c->ffn = before->shared, c->shared_ffn = 0;
        return 0;
    }
    if (c->traits & HF_ONE_BLOCK) return nemotron_experts(c, config, before->ffn, e);
    if (c->traits & HF_SHORT_CONV) return short_conv_experts(c, config, before->ffn, e);
    c->shared_ffn = before->shared;
    return 0;
}
