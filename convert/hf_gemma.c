/* hf_gemma.c: Gemma 2, 3 and 4: scales and caps, two RoPE tables (OLMo 3 has two, as well); lists
 * by layer of Gemma 4. */
#include "convert/hf_family.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The theta of layers of a type where its own parameters have none. NULL: no memory. */
static json_t *theta_of(const json_t *config, const struct hf_family *f, int sliding)
{
    int local = sliding && f->gemma > 2;
    const json_t *theta = hff_value(config, local ? "rope_local_base_freq" : "rope_theta");
    if (theta) return json_incref((json_t *)(uintptr_t)theta);
    return json_real(local ? 10000 : f->rope.theta);
}

/* The keys that hfc_rope() reads, for layers of a type. */
static json_t *rope_of(const json_t *config, const struct hf_family *f, const char *type)
{
    json_t *of_types = json_object_get(config, "rope_parameters"),
           *scaling = json_object_get(config, "rope_scaling"),
           *of_type = json_object_get(of_types, type);
    int sliding = !strcmp(type, "sliding_attention");
    if (json_is_object(of_type))
        return json_pack("{s:O, s:o}", "rope_parameters", of_type, "rope_theta",
                         theta_of(config, f, sliding));
    if (f->gemma == 4)
        return sliding ? json_pack("{s:f}", "rope_theta", 10000.0)
                       : json_pack("{s:{s:s, s:f, s:f}}", "rope_parameters", "rope_type",
                                   "proportional", "partial_rotary_factor", 0.25, "rope_theta",
                                   f->rope.theta);
    if (f->gemma != 2 && sliding) return json_pack("{s:o}", "rope_theta", theta_of(config, f, 1));
    return json_pack("{s:O*, s:O*, s:O*, s:o}", "rope_parameters", of_types, "rope_scaling",
                     scaling, "original_max_position_embeddings",
                     json_object_get(config, "original_max_position_embeddings"), "rope_theta",
                     theta_of(config, f, 0));
}

/* transformers 5.24 writes keys of single layers in place of global_head_dim and
 * num_global_key_value_heads: {"05": {"head_dim": 512}}. NULL: the layer has none of its own. */
static const json_t *keys_of_layer(const json_t *config, int layer)
{
    json_t *all = json_object_get(config, "per_layer_config"), *keys;
    const char *number;
    json_object_foreach (all, number, keys)
        if (strtol(number, NULL, 10) == layer) return keys;
    return NULL;
}

/* Sizes of the layers without a window, of which the last layer is one. */
static int full_sizes(const struct hf_config *c, const json_t *config, int *head_dim, int *kv_heads,
                      struct err *e)
{
    const json_t *last = keys_of_layer(config, c->n_layers - 1);
    int listed = hff_value(config, "per_layer_config") != NULL;
    if (hff_int(listed ? last : config, listed ? "head_dim" : "global_head_dim",
                listed ? c->head_dim : 512, 1, 4096, head_dim, e) ||
        hff_int(listed ? last : config,
                listed ? "num_key_value_heads" : "num_global_key_value_heads", c->n_kv_heads, 1,
                1 << 16, kv_heads, e))
        return -1;
    if (!listed && !c->k_eq_v) *kv_heads = c->n_kv_heads;
    return 0;
}

/* A layer of per_layer_config has the sizes of its kind, and nothing else of its own. */
static int check_layer(const struct hf_config *c, const json_t *config, int layer, struct err *e)
{
    const json_t *own = keys_of_layer(config, layer);
    const char *key;
    json_t *value;
    int dim, kv;
    if (hff_int(own, "head_dim", c->head_dim, 1, 4096, &dim, e) ||
        hff_int(own, "num_key_value_heads", c->n_kv_heads, 1, 1 << 16, &kv, e))
        return -1;
    if (dim != c->head_dims[layer] || kv != c->kv_heads[layer])
        return err_set(e,
                       "config.json: per_layer_config: layer %d has %d key heads of %d, others "
                       "with its attention have %d of %d: not supported",
                       layer, kv, dim, c->kv_heads[layer], c->head_dims[layer]);
    json_object_foreach ((json_t *)(uintptr_t)own, key, value)
        if (strcmp(key, "head_dim") && strcmp(key, "num_key_value_heads") &&
            !json_equal(value, json_object_get(config, key)))
            return err_set(e,
                           "config.json: per_layer_config: layer %d has its own %.40s: not "
                           "supported",
                           layer, key);
    return 0;
}

int hff_two_ropes(struct hf_config *c, const json_t *config, const struct hf_family *f,
                  const struct notes *n, struct err *e)
{
    struct hf_config sliding = {.head_dim = c->head_dim, .context = c->context}, full = sliding;
    json_t *keys = rope_of(config, f, "full_attention"),
           *local = rope_of(config, f, "sliding_attention");
    int kv, rc = f->gemma == 4 ? full_sizes(c, config, &full.head_dim, &kv, e) : 0;
    if (!rc)
        rc = !keys || !local ? err_memory(e)
                             : hfc_rope(&full, keys, &f->rope, n, e) ||
                                   hfc_rope(&sliding, local, &f->rope, n, e);
    c->inv_freq = full.inv_freq, c->sliding_inv_freq = sliding.inv_freq;
    c->rope_scale = full.rope_scale, c->rotary = full.rotary, c->context = full.context;
    if (!rc && sliding.rope_scale != (f->gemma == 2 ? full.rope_scale : 1))
        rc = err_set(e, "config.json: rope of sliding_attention scales angles: not supported");
    if (!rc && (full.inv_freq_long || sliding.inv_freq_long || full.rotary != full.head_dim ||
                sliding.rotary != sliding.head_dim))
        rc = err_set(e, "config.json: rope '%.20s' is not supported for a %s model", full.rope,
                     f->name);
    free(full.inv_freq_long);
    free(sliding.inv_freq_long);
    memcpy(c->rope, full.rope, sizeof c->rope);
    if (!rc && strcmp(c->rope, sliding.rope)) {
        size_t at = strlen(c->rope);
        snprintf(c->rope + at, sizeof c->rope - at, "; with a window %s", sliding.rope);
    }
    json_decref(keys);
    json_decref(local);
    return rc ? -1 : 0;
}

static int take_gemma4(struct hf_config *c, const json_t *config, const struct hf_family *f,
                       const struct notes *n, struct err *e)
{
    int vocab, experts;
    if (hff_int(config, "hidden_size_per_layer_input", f->ple, 0, 1 << 16, &c->ple_dim, e) ||
        hff_int(config, "vocab_size_per_layer_input", c->ple_dim ? 262144 : c->vocab, 1, 1 << 26,
                &vocab, e) ||
        hff_number(config, "final_logit_softcapping", 0, 1e-3, 1e6, &c->logits_softcap, e))
        return -1;
    if (c->ple_dim && vocab != c->vocab)
        return err_set(e,
                       "config.json: vocab_size_per_layer_input %d differs from vocab_size %d: not "
                       "supported",
                       vocab, c->vocab);
    c->attend_scale = 1;
    if (hff_flag(config, "attention_k_eq_v", 0, &c->k_eq_v, e) ||
        hff_flag(config, "enable_moe_block", 0, &experts, e))
        return -1;
    if (c->ple_dim) c->traits |= HF_PLE;
    if (experts) c->traits |= HF_EXPERTS;
    return hff_two_ropes(c, config, f, n, e);
}

int hff_gemma(struct hf_config *c, const json_t *config, const struct hf_family *f,
              const struct notes *n, struct err *e)
{
    const json_t *act = hff_value(config, "hidden_activation");
    double q;
    if (act && (!json_is_string(act) || strcmp(json_string_value(act), "gelu_pytorch_tanh")))
        return err_set(e,
                       "config.json: hidden_activation '%.40s' is not supported, "
                       "gelu_pytorch_tanh is",
                       json_is_string(act) ? json_string_value(act) : "?");
    c->embed_scale = sqrt(c->dim);
    if (f->gemma == 4) return take_gemma4(c, config, f, n, e);
    if (hff_number(config, "query_pre_attn_scalar", 256, 1e-3, 1e6, &q, e) ||
        hff_number(config, "attn_logit_softcapping", f->softcaps[0], 1e-3, 1e6, &c->attend_softcap,
                   e) ||
        hff_number(config, "final_logit_softcapping", f->softcaps[1], 1e-3, 1e6, &c->logits_softcap,
                   e))
        return -1;
    if (q <= 0) return err_set(e, "config.json: query_pre_attn_scalar is null");
    c->attend_scale = 1 / sqrt(q);
    return hff_two_ropes(c, config, f, n, e);
}

/* The last layer below `first` with the kind of layer i. */
static int last_of_kind(const struct hf_config *c, int first, int i)
{
    for (int k = first - 1; k >= 0; k--)
        if (!c->windows[k] == !c->windows[i]) return k;
    return -1;
}

int hff_gemma4_layers(struct hf_config *c, const json_t *config, struct err *e)
{
    int shared, full_dim, full_kv, n = c->n_layers;
    if (hff_list(&c->head_dims, n, e) || hff_list(&c->kv_heads, n, e) || hff_list(&c->ffns, n, e) ||
        hff_list(&c->kv_from, n, e))
        return -1;
    if (!(c->layer_scalar = calloc((size_t)n, sizeof *c->layer_scalar))) return err_memory(e);
    if (hff_int(config, "num_kv_shared_layers", 0, 0, n - 1, &shared, e) ||
        full_sizes(c, config, &full_dim, &full_kv, e))
        return -1;
    if (c->n_heads % full_kv)
        return err_set(e,
                       "config.json: num_attention_heads %d is not a multiple of the %d key heads "
                       "of layers without a window",
                       c->n_heads, full_kv);
    int first = n - shared, wide;
    if (hff_flag(config, "use_double_wide_mlp", 0, &wide, e)) return -1;
    for (int i = 0; i < n; i++) {
        c->head_dims[i] = c->windows[i] ? c->head_dim : full_dim;
        c->kv_heads[i] = c->windows[i] ? c->n_kv_heads : full_kv;
        c->ffns[i] = i >= first && wide ? 2 * c->ffn : c->ffn;
        c->kv_from[i] = i < first ? i : last_of_kind(c, first, i);
        if (c->kv_from[i] < 0)
            return err_set(e,
                           "config.json: num_kv_shared_layers %d: layer %d has no layer of its "
                           "kind to share keys and values with",
                           shared, i);
    }
    for (int i = 0; i < n && hff_value(config, "per_layer_config"); i++)
        if (check_layer(c, config, i, e)) return -1;
    return 0;
}
