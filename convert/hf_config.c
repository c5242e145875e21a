#include "convert/hf_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Defaults of transformers' configuration classes, for keys that a config leaves out. */
struct family {
    const char *name;
    const char *classes[3];
    int kv_heads; /* 0 = as many as heads */
    int head_dim; /* 0 = dim / heads */
    int context, bos, eos, ffn;
    int qkv_bias, qk_norm;
};
static const struct family families[] = {
    {"llama", {"LlamaForCausalLM", "LLaMAForCausalLM", NULL}, 0, 0, 2048, 1, 2, 11008, 0, 0},
    {"mistral", {"MistralForCausalLM", NULL, NULL}, 8, 0, 131072, 1, 2, 14336, 0, 0},
    {"qwen2", {"Qwen2ForCausalLM", NULL, NULL}, 32, 0, 32768, -1, -1, 22016, 1, 0},
    {"qwen3", {"Qwen3ForCausalLM", NULL, NULL}, 32, 128, 32768, -1, -1, 22016, 0, 1},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const struct family *family_of(const json_t *config, struct err *e)
{
    const json_t *list = json_object_get(config, "architectures");
    const char *class = json_string_value(json_array_get(list, 0)),
               *type = json_string_value(json_object_get(config, "model_type"));
    for (int i = 0; i < N_FAMILIES; i++) {
        for (int k = 0; class && k < 3 && families[i].classes[k]; k++)
            if (!strcmp(class, families[i].classes[k])) return &families[i];
        if (!class && type && !strcmp(type, families[i].name)) return &families[i];
    }
    if (!class && !type)
        err_set(e, "config.json: neither architectures nor model_type says what model this is");
    else
        err_set(e,
                "config.json: architecture '%.60s' is not supported (Llama, Mistral, Qwen2 and "
                "Qwen3 causal language models are)",
                class ? class : type);
    return NULL;
}

/* An integer of [lo, hi]. A missing or null key gives `fallback`; a fallback below lo makes the key
 * required. */
static int take_int(const json_t *j, const char *key, int fallback, int lo, int hi, int *out,
                    struct err *e)
{
    const json_t *v = json_object_get(j, key);
    json_int_t x = fallback;
    if (v && !json_is_null(v)) {
        if (!json_is_integer(v)) return err_set(e, "config.json: %s is not an integer", key);
        x = json_integer_value(v);
    } else if (fallback < lo) {
        return err_set(e, "config.json: %s is missing", key);
    }
    if (x < lo || x > hi)
        return err_set(e, "config.json: %s is %lld, must be %d to %d", key, (long long)x, lo, hi);
    *out = (int)x;
    return 0;
}

static int take_windows(struct hf_config *c, const json_t *config, const struct family *f,
                        const struct notes *n, struct err *e)
{
    const json_t *types = json_object_get(config, "layer_types"),
                 *width = json_object_get(config, "sliding_window");
    int w = 0, from = 0, used = !strcmp(f->name, "mistral");
    int qwen = !strncmp(f->name, "qwen", 4);
    if (!(c->windows = calloc((size_t)c->n_layers, sizeof *c->windows))) return err_memory(e);
    if (json_is_null(types)) types = NULL;
    for (size_t i = 0; types && i < json_array_size(types); i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (!t || (strcmp(t, "full_attention") && strcmp(t, "sliding_attention")))
            return err_set(e,
                           "config.json: layer_types: layer %zu is '%.40s': only full and sliding "
                           "attention are supported",
                           i, t ? t : "?");
    }
    if (qwen) {
        used = json_is_true(json_object_get(config, "use_sliding_window"));
        if (take_int(config, "max_window_layers", 28, 0, 1 << 30, &from, e)) return -1;
        if (types && json_array_size(types) != (size_t)c->n_layers)
            return err_set(e, "config.json: layer_types names %zu layers, num_hidden_layers is %d",
                           json_array_size(types), c->n_layers);
    } else if (types && used) {
        note_warn(n,
                  "config.json: layer_types is ignored for a mistral model, as transformers does");
    }
    if (width && json_is_null(width)) used = 0;
    if (!used) return 0;
    if (take_int(config, "sliding_window", 4096, 1, 1 << 30, &w, e)) return -1;
    if (w >= c->context) w = 0; /* no effect within the context */
    for (int i = 0; i < c->n_layers; i++) {
        const char *t = qwen ? json_string_value(json_array_get(types, (size_t)i)) : NULL;
        c->windows[i] = (t ? !strcmp(t, "sliding_attention") : i >= from) ? w : 0;
    }
    return 0;
}

/* An id, or the first of a list; -1: null. */
static int id_of(const json_t *v)
{
    if (json_is_array(v)) v = json_array_get(v, 0);
    json_int_t x = json_is_integer(v) ? json_integer_value(v) : -1;
    return x >= 0 && x < 1 << 30 ? (int)x : -1;
}

static int take_ids(struct hf_config *c, const json_t *config, const json_t *gen,
                    const struct family *f, struct err *e)
{
    const json_t *b = json_object_get(gen, "bos_token_id"),
                 *x = json_object_get(gen, "eos_token_id");
    if (!b || json_is_null(b)) b = json_object_get(config, "bos_token_id");
    if (!x || json_is_null(x)) x = json_object_get(config, "eos_token_id");
    c->bos = b ? id_of(b) : f->bos;
    size_t n = json_is_array(x) ? json_array_size(x) : 1;
    if (n > 1000) return err_set(e, "eos_token_id lists %zu tokens", n);
    if (!(c->eos = calloc(n + 1, sizeof *c->eos))) return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        int id = !x ? f->eos : id_of(json_is_array(x) ? json_array_get(x, i) : x);
        if (id >= 0) c->eos[c->n_eos++] = id;
    }
    return 0;
}

int hfc_read(struct hf_config *c, const json_t *config, const json_t *generation,
             const struct notes *n, struct err *e)
{
    memset(c, 0, sizeof *c);
    const struct family *f = family_of(config, e);
    if (!f) return -1;
    c->architecture = f->name;
    c->qkv_bias = f->qkv_bias, c->qk_norm = f->qk_norm;
    if (take_int(config, "num_hidden_layers", 32, 1, 2000, &c->n_layers, e) ||
        take_int(config, "hidden_size", 4096, 1, 1 << 20, &c->dim, e) ||
        take_int(config, "intermediate_size", f->ffn, 1, 1 << 20, &c->ffn, e) ||
        take_int(config, "num_attention_heads", 32, 1, 1 << 16, &c->n_heads, e) ||
        take_int(config, "num_key_value_heads",
                 f->kv_heads && json_object_get(config, "num_key_value_heads") == NULL ? f->kv_heads
                                                                                       : c->n_heads,
                 1, 1 << 16, &c->n_kv_heads, e) ||
        take_int(config, "head_dim", f->head_dim ? f->head_dim : c->dim / c->n_heads, 1, 4096,
                 &c->head_dim, e) ||
        take_int(config, "vocab_size", 0, 1, 1 << 26, &c->vocab, e) ||
        take_int(config, "max_position_embeddings", f->context, 1, 1 << 30, &c->context, e))
        return -1;
    if (!json_object_get(config, "head_dim") && !f->head_dim && c->dim % c->n_heads)
        return err_set(e, "config.json: hidden_size %d is not a multiple of num_attention_heads %d",
                       c->dim, c->n_heads);
    if (c->n_heads % c->n_kv_heads)
        return err_set(
            e, "config.json: num_attention_heads %d is not a multiple of num_key_value_heads %d",
            c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2) return err_set(e, "config.json: head_dim %d is odd", c->head_dim);
    const json_t *act = json_object_get(config, "hidden_act");
    if (act && !json_is_null(act) &&
        (!json_is_string(act) ||
         (strcmp(json_string_value(act), "silu") && strcmp(json_string_value(act), "swish"))))
        return err_set(e, "config.json: hidden_act '%.40s' is not supported, silu is",
                       json_is_string(act) ? json_string_value(act) : "?");
    const json_t *eps = json_object_get(config, "rms_norm_eps");
    c->norm_eps = eps && !json_is_null(eps) ? json_number_value(eps) : 1e-6;
    if (!(c->norm_eps >= 0 && c->norm_eps < 1) ||
        (eps && !json_is_null(eps) && !json_is_number(eps)))
        return err_set(e, "config.json: rms_norm_eps is not a small number");
    c->tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    if (hfc_rope(c, config, n, e) || take_windows(c, config, f, n, e)) return -1;
    return take_ids(c, config, generation, f, e);
}

void hfc_free(struct hf_config *c)
{
    free(c->inv_freq);
    free(c->windows);
    free(c->eos);
    memset(c, 0, sizeof *c);
}

json_t *hfc_to_json(const struct hf_config *c)
{
    json_t *windows = json_array(), *eos = json_array();
    for (int i = 0; i < c->n_layers; i++)
        json_array_append_new(windows, json_integer(c->windows[i]));
    for (size_t i = 0; i < c->n_eos; i++) json_array_append_new(eos, json_integer(c->eos[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:o, s:i, s:o}",
                     "architecture", c->architecture, "n_layers", c->n_layers, "dim", c->dim, "ffn",
                     c->ffn, "n_heads", c->n_heads, "n_kv_heads", c->n_kv_heads, "head_dim",
                     c->head_dim, "vocab", c->vocab, "context", c->context, "norm_eps", c->norm_eps,
                     "rope_scale", c->rope_scale, "rope", c->rope, "windows", windows, "bos",
                     c->bos, "eos", eos);
}
