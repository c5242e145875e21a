#include "convert/hf_config.h"

#include "convert/hf_family.h"
#include "convert/hf_states.h"

#include <stdlib.h>
#include <stdint.h>
#include <string.h>

/* An id, or the first of a list; -1: null, or no token's. */
static int id_of(const json_t *v, const char *key, int *id, struct err *e)
{
    if (json_is_array(v)) v = json_array_get(v, 0);
    if (v && !json_is_null(v) && !json_is_integer(v))
        return err_set(e, "%s is not a token's id (generation_config.json or config.json)", key);
    json_int_t x = json_is_integer(v) ? json_integer_value(v) : -1;
    *id = x >= 0 && x < 1 << 30 ? (int)x : -1;
    return 0;
}

/* Leaves out an id that no token has. n NULL: silently, a default of the class. */
static void add_eos(struct hf_config *c, int id, const struct notes *n)
{
    if (id >= 0 && id < c->vocab) c->eos[c->n_eos++] = id;
    else if (id >= 0 && n)
        note_warn(n, "eos_token_id %d is left out: the vocabulary has %d tokens", id, c->vocab);
}

static int take_ids(struct hf_config *c, const json_t *config, const json_t *gen,
                    const struct hf_family *f, const struct notes *notes, struct err *e)
{
    const json_t *b = json_object_get(gen, "bos_token_id"),
                 *x = json_object_get(gen, "eos_token_id");
    if (!b || json_is_null(b)) b = json_object_get(config, "bos_token_id");
    if (!x || json_is_null(x)) x = json_object_get(config, "eos_token_id");
    c->bos = f->bos;
    if (b && id_of(b, "bos_token_id", &c->bos, e)) return -1;
    if (c->bos >= c->vocab) c->bos = -1;
    if (!x || json_is_null(x)) notes = NULL;
    size_t n = json_is_array(x) ? json_array_size(x) : 1;
    if (n > 1000) return err_set(e, "eos_token_id lists %zu tokens", n);
    if (!(c->eos = calloc(n + 3, sizeof *c->eos))) return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        int id = f->eos;
        if (x && id_of(json_is_array(x) ? json_array_get(x, i) : x, "eos_token_id", &id, e))
            return -1;
        add_eos(c, id, notes);
    }
    for (int i = 0; i < 2 && (!x || json_is_null(x)) && f->more_eos[i]; i++) {
        if (!i && x) add_eos(c, f->eos, notes);
        add_eos(c, f->more_eos[i], notes);
    }
    return 0;
}

static int take_activation(const struct hf_family *f, const json_t *config, struct err *e)
{
    static const char *const silu[] = {"silu", "swish", NULL}, *const gelu[] = {"gelu_pytorch_tanh",
                                                                                "gelu_new", NULL};
    static const char *const xielu[] = {"xielu", NULL};
    const char *const *names = f->traits & HF_XIELU ? xielu : f->traits & HF_NO_GLU ? gelu : silu;
    const json_t *act = hff_value(config, "hidden_act");
    const char *have = json_string_value(act);
    if (!act || f->traits & HF_ONE_BLOCK) return 0; /* hf_states.c */
    for (int i = 0; names[i]; i++)
        if (have && !strcmp(have, names[i])) return 0;
    return err_set(e, "config.json: hidden_act '%.40s' is not supported, %s is", have ? have : "?",
                   names[0]);
}

/* Old and new spelling beside each other must say the same: transformers takes the old one, and
 * no theta of the new one. */
static int check_ropes(const json_t *config, struct err *e)
{
    json_t *old = json_object_get(config, "rope_scaling"), *value;
    const json_t *new = hff_value(config, "rope_parameters");
    const char *key;
    json_object_foreach (old, key, value) {
        int type = !strcmp(key, "type") || !strcmp(key, "rope_type");
        const json_t *other = hff_value(new, type ? "rope_type" : key);
        if (type && !other) other = hff_value(new, "type");
        int numbers = json_is_number(value) && json_is_number(other);
        if (new && (numbers ? json_number_value(value) != json_number_value(other)
                            : !json_equal(value, other)))
            return err_set(e,
                           "config.json: rope_scaling and rope_parameters differ in %.40s: remove "
                           "the one that is not meant",
                           key);
    }
    return 0;
}

/* Gemma has "all" for a model of embeddings and "vision" for one with images beside true and false.
 */
static int looks_ahead(const json_t *config, int *out, struct err *e)
{
    static const char key[] = "use_bidirectional_attention";
    const char *s = json_string_value(hff_value(config, key));
    if (!s) return hff_flag(config, key, 0, out, e);
    *out = !strcmp(s, "all");
    return *out || !strcmp(s, "vision")
               ? 0
               : err_set(e, "config.json: %s '%.40s' is not supported", key, s);
}

/* Keys with one value that the program computes, where they are there. */
static int refuse_values(const struct hf_config *c, const json_t *config, struct err *e)
{
    static const struct {
        const char *of, *key, *only; /* architecture; value as JSON */
    } keys[] = {
        {"cohere2", "use_parallel_block", "true"},
        {"cohere2", "use_gated_activation", "true"},
        {"cohere2", "position_embedding_type", "\"rope_gptj\""},
        {"cohere2", "rotary_pct", "1.0"},
        {"apertus", "post_norm", "false"},
        {"hunyuan_v1_dense", "use_cla", "false"},
        {"hunyuan_v1_moe", "use_cla", "false"},
        {"hunyuan_v1_moe", "moe_layer_num_skipped", "0"},
        {"dots1", "moe_layer_freq", "1"},
        {"minimax_m2", "qk_norm_type", "\"per_layer\""},
        {"minimax_m2", "use_routing_bias", "true"},
        {"minimax_m2", "shared_intermediate_size", "0"},
        {"hy_v3", "route_norm", "true"},
        {"hy_v3", "moe_router_use_sigmoid", "true"},
        {"ernie4_5_moe", "moe_gate_act", "\"softmax\""},
        {"kimi_linear", "mla_use_nope", "true"},
        {"kimi_linear", "moe_router_activation_func", "\"sigmoid\""},
        {"kimi_linear", "use_grouped_topk", "true"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *v = hff_value(config, keys[i].key);
        if (!v || strcmp(keys[i].of, c->architecture)) continue;
        json_t *only = json_loads(keys[i].only, JSON_DECODE_ANY, NULL);
        if (!only) return err_memory(e);
        int same = json_is_number(v) ? json_number_value(v) == json_number_value(only)
                                     : json_equal(v, only);
        json_decref(only);
        if (!same)
            return err_set(e, "config.json: %s is not %s: not supported for a %s model",
                           keys[i].key, keys[i].only, c->architecture);
    }
    const json_t *kinds = hff_value(config, "attn_type_list"); /* MiniMax: 0 is linear attention */
    for (size_t i = 0; i < json_array_size(kinds); i++)
        if (json_integer_value(json_array_get(kinds, i)) != 1)
            return err_set(e,
                           "config.json: attn_type_list: layer %zu has linear attention: not "
                           "supported",
                           i);
    return 0;
}

/* Keys with a value that the program does not compute. */
static int refuse(const struct hf_config *c, const json_t *config, struct err *e)
{
    static const struct {
        const char *key;
        uint64_t of; /* traits or 0: all */
    } flags[] = {
        {"use_parallel_residual", HF_LAYER_NORM},
        {"qk_layernorm", HF_LAYER_NORM},
    };
    int causal = 1, both = 0;
    if (refuse_values(c, config, e)) return -1;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int on;
        if (!(c->traits & flags[i].of)) continue;
        if (hff_flag(config, flags[i].key, 0, &on, e)) return -1;
        if (on)
            return err_set(e, "config.json: %s true is not supported for a %s model", flags[i].key,
                           c->architecture);
    }
    if (hff_flag(config, "is_causal", 1, &causal, e) || looks_ahead(config, &both, e)) return -1;
    if (!causal || both)
        return err_set(e, "config.json: attention to later positions (is_causal, "
                          "use_bidirectional_attention) is not supported");
    const json_t *clip = hff_value(config, "clip_qkv"), *lora = hff_value(config, "kv_lora_rank");
    if (clip) return err_set(e, "config.json: clip_qkv is not supported");
    if (lora && !(c->traits & HF_LATENT))
        return err_set(e, "config.json: kv_lora_rank: multi-head latent attention is not "
                          "supported");
    return 0;
}

/* Norms of the heads of q and k, which a key may switch off, or on for GLM-4.5. */
static int take_head_norms(struct hf_config *c, const json_t *config, struct err *e)
{
    int unit = 0;
    if (c->traits & HF_LLAMA4) {
        if (hff_flag(config, "use_qk_norm", 1, &unit, e)) return -1;
        if (unit) c->traits |= HF_UNIT_NORMS;
        return 0;
    }
    int whole = (c->traits & HF_QK_NORM_WHOLE) != 0, has = whole || c->traits & HF_QK_NORM, on;
    if (hff_flag(config, "qk_norm", has, &on, e) || hff_flag(config, "use_qk_norm", on, &on, e))
        return -1;
    if (!on == !has) return 0;
    if (whole || c->traits & HF_ONE_NORM)
        return err_set(e, "config.json: use_qk_norm %s is not supported for a %s model",
                       on ? "true" : "false", c->architecture);
    if (has) c->traits &= ~(uint64_t)HF_QK_NORM;
    else if (c->traits & HF_CHOICE_BIAS) c->traits |= HF_QK_NORM;
    return 0;
}

/* Biases and norms that a key of the family switches on. */
static int take_flags(struct hf_config *c, const json_t *config, const struct hf_family *f,
                      struct err *e)
{
    static const struct {
        const char *key;
        uint64_t traits;
    } others[] = {{"attention_bias", HF_QKV_BIAS | HF_O_BIAS},
                  {"qkv_bias", HF_QKV_BIAS},
                  {"use_bias", HF_QKV_BIAS | HF_O_BIAS | HF_MLP_BIAS},
                  {"mlp_bias", HF_MLP_BIAS}};
    int bias = 0, known = f->bias_key || c->traits & HF_QKV_BIAS;
    /* biases are taken where they are; where one of these keys is true they must be */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int on = 0;
        if (known && others[i].traits != HF_MLP_BIAS) continue;
        if (c->traits & HF_STATES && !strcmp(others[i].key, "use_bias")) continue; /* of Mamba */
        if (hff_flag(config, others[i].key, 0, &on, e)) return -1;
        if (on) c->traits |= others[i].traits;
    }
    if (f->bias_key && hff_flag(config, f->bias_key, f->bias_default, &bias, e)) return -1;
    if (bias) c->traits |= f->bias_traits;
    return take_head_norms(c, config, e);
}

static int take_numbers(struct hf_config *c, const json_t *config, struct err *e)
{
    double divisor = 1;
    if (c->traits & HF_ONE_NORM &&
        hff_number(config, "logit_scale", 0.0625, 1e-6, 1e6, &c->logits_scale, e))
        return -1;
    if (c->traits & HF_ONE_NORM)
        return c->logits_scale > 0 ? 0 : err_set(e, "config.json: logit_scale is null");
    if (c->traits & HF_SCALES &&
        (hff_number(config, "embedding_multiplier", 1, 1e-6, 1e6, &c->embed_scale, e) ||
         hff_number(config, "attention_multiplier", 1, 1e-6, 1e6, &c->attend_scale, e) ||
         hff_number(config, "residual_multiplier", 1, 1e-6, 1e6, &c->residual_scale, e) ||
         hff_number(config, "logits_scaling", 1, 1e-6, 1e6, &divisor, e)))
        return -1;
    if (!c->embed_scale || !c->attend_scale || !c->residual_scale || !divisor)
        return c->traits & HF_SCALES ? err_set(e, "config.json: a multiplier is null") : 0;
    c->logits_scale = 1 / divisor;
    return 0;
}

/* Query scaling by position (Ministral 3): q *= 1 + beta ln(1 + floor(position / original)). */
static int take_query_scale(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *rope = hff_value(config, "rope_parameters");
    double original, before = c->traits & HF_LATENT ? 8192 : 16384;
    if (!(c->traits & HF_QUERY_SCALE)) return 0;
    if (!rope) rope = hff_value(config, "rope_scaling");
    if (hff_number(rope, "llama_4_scaling_beta", rope ? 0 : 0.1, 0, 1e3, &c->query_beta, e) ||
        hff_number(rope, "original_max_position_embeddings", rope ? c->context : before, 1, 1e9,
                   &original, e))
        return -1;
    c->query_original = original ? original : c->context;
    return 0;
}

/* RoPE of families whose configuration class has parameters by default. */
static int take_rope(struct hf_config *c, const json_t *config, const struct hf_family *f,
                     const struct notes *n, struct err *e)
{
    json_t *own = NULL;
    if (c->traits & HF_SLIDING_ROPE) return hff_two_ropes(c, config, f, n, e);
    if (c->traits & HF_NOPE)
        return hfc_no_rope(c, e) || (c->traits & HF_LATENT && hff_latent_scale(c, config, e)) ? -1
                                                                                              : 0;
    if (hff_value(config, "rope_parameters") || hff_value(config, "rope_scaling"))
        return hfc_rope(c, config, &f->rope, n, e) ||
                       (c->traits & HF_LATENT && hff_latent_scale(c, config, e))
                   ? -1
                   : 0;
    if (c->traits & HF_QUERY_SCALE && c->traits & HF_LATENT)
        own = json_pack("{s:{s:s, s:f, s:f, s:i, s:f, s:f}}", "rope_parameters", "rope_type",
                        "yarn", "rope_theta", 1e4, "factor", 128.0,
                        "original_max_position_embeddings", 8192, "mscale", 1.0, "mscale_all_dim",
                        1.0);
    else if (c->traits & HF_QUERY_SCALE)
        own = json_pack("{s:{s:s, s:f, s:f, s:i, s:f, s:f}}", "rope_parameters", "rope_type",
                        "yarn", "rope_theta", 1e6, "factor", 16.0,
                        "original_max_position_embeddings", 16384, "mscale", 1.0, "mscale_all_dim",
                        1.0);
    else if (c->traits & HF_XIELU)
        own = json_pack("{s:{s:s, s:f, s:i, s:f, s:f}, s:O*}", "rope_parameters", "rope_type",
                        "llama3", "factor", 8.0, "original_max_position_embeddings", 8192,
                        "low_freq_factor", 1.0, "high_freq_factor", 4.0, "rope_theta",
                        json_object_get(config, "rope_theta"));
    else if (c->traits & HF_GPT_OSS)
        own = json_pack("{s:{s:s, s:f, s:i, s:b}, s:O*}", "rope_parameters", "rope_type", "yarn",
                        "factor", 32.0, "original_max_position_embeddings", 4096, "truncate", 0,
                        "rope_theta", json_object_get(config, "rope_theta"));
    else own = json_incref((json_t *)(uintptr_t)config);
    int rc = own ? hfc_rope(c, own, &f->rope, n, e) : err_memory(e);
    if (!rc && c->traits & HF_LATENT) rc = hff_latent_scale(c, own, e);
    json_decref(own);
    return rc;
}

static int take_sizes(struct hf_config *c, const json_t *config, const struct hf_family *f,
                      struct err *e)
{
    int of_dim = !(f->traits & HF_LATENT) &&
                 (!f->head_dim || json_is_null(json_object_get(config, "head_dim")));
    const char *context = "max_position_embeddings";
    if (f->traits & HF_KIMI && !hff_value(config, context)) context = "model_max_length";
    if (hff_int(config, "num_hidden_layers", hff_n_layers(f, config), 1, 2000, &c->n_layers, e) ||
        hff_int(config, "hidden_size", f->dim, 1, 1 << 20, &c->dim, e) ||
        hff_int(config, "intermediate_size", f->ffn, 1, 1 << 20, &c->ffn, e) ||
        hff_int(config, "num_attention_heads", f->heads, 1, 1 << 16, &c->n_heads, e) ||
        hff_int(config, "num_key_value_heads",
                f->kv_heads && json_object_get(config, "num_key_value_heads") == NULL ? f->kv_heads
                                                                                      : c->n_heads,
                1, 1 << 16, &c->n_kv_heads, e) ||
        hff_int(config, hff_head_dim_key(f, config), of_dim ? c->dim / c->n_heads : f->head_dim, 1,
                4096, &c->head_dim, e) ||
        hff_int(config, "vocab_size", f->vocab, 1, 1 << 26, &c->vocab, e) ||
        hff_int(config, context, f->context, 1, 1 << 30, &c->context, e) ||
        hff_int(config, "num_nextn_predict_layers", 0, 0, 64, &c->n_drafts, e))
        return -1;
    if (of_dim && !hff_value(config, "head_dim") && c->dim % c->n_heads)
        return err_set(e, "config.json: hidden_size %d is not a multiple of num_attention_heads %d",
                       c->dim, c->n_heads);
    if (c->n_heads % c->n_kv_heads)
        return err_set(
            e, "config.json: num_attention_heads %d is not a multiple of num_key_value_heads %d",
            c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2) return err_set(e, "config.json: head_dim %d is odd", c->head_dim);
    const char *key = f->eps_key ? f->eps_key : "rms_norm_eps";
    const json_t *eps = hff_value(config, key);
    c->norm_eps = eps ? json_number_value(eps) : f->eps > 0 ? f->eps : 1e-6;
    if (!(c->norm_eps >= 0 && c->norm_eps < 1) || (eps && !json_is_number(eps)))
        return err_set(e, "config.json: %s is not a small number", key);
    return 0;
}

static int read_family(struct hf_config *c, const json_t *config, const json_t *generation,
                       const struct hf_family *f, const struct notes *n, struct err *e)
{
    c->architecture = f->name;
    c->traits |= f->traits;
    const char *class =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    size_t letters = class ? strlen(class) : 0;
    c->may_lack_head = letters > 5 && !strcmp(class + letters - 5, "Model");
    const char *tie = "tie_word_embeddings";
    if (f->traits & HF_SHORT_CONV && hff_value(config, "tie_embedding")) tie = "tie_embedding";
    if (hff_flag(config, tie, f->tied, &c->tied, e)) return -1;
    c->tied |= (c->traits & HF_TIED) != 0;
    if (take_sizes(c, config, f, e) || (c->traits & HF_LATENT && hff_latent(c, config, f, e)) ||
        refuse(c, config, e) || check_ropes(config, e) || take_flags(c, config, f, e) ||
        hff_states(c, config, e))
        return -1;
    if (f->gemma ? hff_gemma(c, config, f, n, e)
                 : take_activation(f, config, e) || take_numbers(c, config, e) ||
                       take_query_scale(c, config, e) || take_rope(c, config, f, n, e))
        return -1;
    const struct hf_widths widths = {c->ffn, c->shared_ffn};
    if (hff_layers(c, config, f, n, e)) return -1;
    if (c->traits & HF_STATES && hff_state_experts(c, config, &widths, e)) return -1;
    if (c->traits & HF_GEMMA4 && hff_gemma4_layers(c, config, e)) return -1;
    return take_ids(c, config, generation, f, n, e);
}

int hfc_read(struct hf_config *c, const json_t *config, const json_t *generation,
             const struct notes *n, struct err *e)
{
    int nested = 0, tied = 0;
    memset(c, 0, sizeof *c);
    const struct hf_family *f = hff_find(config, &nested, e);
    if (!f) return -1;
    json_t *both = NULL;
    if (nested) { /* with images: the language model is in text_config */
        if (!(both = json_copy((json_t *)(uintptr_t)config)) ||
            json_object_update(both, json_object_get(config, "text_config"))) {
            json_decref(both);
            return err_memory(e);
        }
        if (hff_flag(config, "tie_word_embeddings", f->tied || nested == 2, &tied, e)) {
            json_decref(both);
            return -1;
        }
        if (tied) c->traits = HF_TIED;
    }
    int rc = read_family(c, both ? both : config, generation, f, n, e);
    json_decref(both);
    return rc;
}

int hfc_end(struct hf_config *c, int id, const struct notes *n, struct err *e)
{
    if (id < 0 || id >= c->vocab) return 0;
    for (size_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id) return 0;
    int *more = realloc(c->eos, (c->n_eos + 1) * sizeof *more);
    if (!more) return err_memory(e);
    c->eos = more;
    c->eos[c->n_eos++] = id;
    note_info(n, "the tokenizer's eos_token, %d, ends answers, too", id);
    return 0;
}

void hfc_free(struct hf_config *c)
{
    free(c->inv_freq);
    free(c->inv_freq_long);
    free(c->sliding_inv_freq);
    free(c->windows);
    free(c->eos);
    free(c->experts);
    free(c->linear);
    free(c->indexers);
    free(c->no_rope);
    free(c->xielu);
    free(c->chunks);
    free(c->head_dims);
    free(c->kv_heads);
    free(c->ffns);
    free(c->kv_from);
    free(c->layer_scalar);
    memset(c, 0, sizeof *c);
}
