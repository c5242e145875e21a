#include "convert/hf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Defaults of transformers' configuration classes, for keys that a config leaves out. */
struct family {
    const char *name;
    const char *classes[3];
    int layers, dim, heads, vocab; /* vocab 0: required */
    int kv_heads;                  /* 0 = as many as heads */
    int head_dim;                  /* 0 = dim / heads */
    int context, bos, eos, ffn;
    int qkv_bias, qk_norm;
    int gemma;       /* 0, or the generation */
    int full_every;  /* Gemma: of so many layers the last has no window */
    double theta;    /* Gemma: of layers without a window */
    double softcaps[2]; /* Gemma: of scores, of logits; 0: none */
};
static const struct family families[] = {
    {"llama", {"LlamaForCausalLM", "LLaMAForCausalLM", NULL}, 32, 4096, 32, 0, 0, 0, 2048, 1, 2,
     11008, 0, 0, 0, 0, 0, {0, 0}},
    {"mistral", {"MistralForCausalLM", NULL, NULL}, 32, 4096, 32, 0, 8, 0, 131072, 1, 2, 14336, 0,
     0, 0, 0, 0, {0, 0}},
    {"qwen2", {"Qwen2ForCausalLM", NULL, NULL}, 32, 4096, 32, 0, 32, 0, 32768, -1, -1, 22016, 1, 0,
     0, 0, 0, {0, 0}},
    {"qwen3", {"Qwen3ForCausalLM", NULL, NULL}, 32, 4096, 32, 0, 32, 128, 32768, -1, -1, 22016, 0,
     1, 0, 0, 0, {0, 0}},
    {"gemma2", {"Gemma2ForCausalLM", NULL, NULL}, 26, 2304, 8, 256000, 4, 256, 8192, 2, 1, 9216, 0,
     0, 2, 2, 10000, {50, 30}},
    {"gemma3", {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", NULL}, 26, 2304, 8, 262208,
     4, 256, 131072, 2, 1, 9216, 0, 1, 3, 6, 1e6, {0, 0}},
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
                "config.json: architecture '%.60s' is not supported (Llama, Mistral, Qwen2, "
                "Qwen3, Gemma 2 and Gemma 3 causal language models are)",
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

/* A number of [lo, hi]. A missing key gives `fallback`, null 0. */
static int take_number(const json_t *j, const char *key, double fallback, double lo, double hi,
                       double *out, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    *out = !v ? fallback : json_number_value(v);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_number(v) || !(*out >= lo && *out <= hi))
        return err_set(e, "config.json: %s is not a number of %g to %g", key, lo, hi);
    return 0;
}

/* Of Gemma, where every layer has a type: its RoPE table depends on it. A window is kept even where
 * it is as long as the context. */
static int gemma_windows(struct hf_config *c, const json_t *config, const struct family *f,
                         struct err *e)
{
    const json_t *types = json_object_get(config, "layer_types");
    int w, every, given = json_is_array(types);
    if (take_int(config, "sliding_window", 4096, 1, 1 << 30, &w, e) ||
        take_int(config,
                 json_object_get(config, "sliding_window_pattern") ? "sliding_window_pattern"
                                                                   : "_sliding_window_pattern",
                 f->full_every, 1, 1 << 16, &every, e))
        return -1;
    if (f->gemma == 2) every = f->full_every; /* the key is not of that generation */
    if (given && json_array_size(types) != (size_t)c->n_layers)
        return err_set(e, "config.json: layer_types names %zu layers, num_hidden_layers is %d",
                       json_array_size(types), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        const char *t = json_string_value(json_array_get(types, (size_t)i));
        int slides = given ? t && !strcmp(t, "sliding_attention") : (i + 1) % every != 0;
        c->windows[i] = slides ? w : 0;
    }
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
    if (f->gemma) return gemma_windows(c, config, f, e);
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

/* What hfc_rope() reads of Gemma's configuration for layers of a type. */
static json_t *gemma_rope(const json_t *config, const struct family *f, const char *type)
{
    json_t *of_types = json_object_get(config, "rope_parameters"),
           *scaling = json_object_get(config, "rope_scaling"),
           *theta = json_object_get(config, "rope_theta"),
           *local = json_object_get(config, "rope_local_base_freq"),
           *of_type = json_object_get(of_types, type);
    if (json_is_object(of_type)) return json_pack("{s:O}", "rope_parameters", of_type);
    if (f->gemma == 3 && !strcmp(type, "sliding_attention"))
        return json_pack("{s:o}", "rope_theta", local ? json_incref(local) : json_real(10000));
    return json_pack("{s:O*, s:O*, s:o}", "rope_parameters", of_types, "rope_scaling", scaling,
                     "rope_theta", theta ? json_incref(theta) : json_real(f->theta));
}

static int gemma_ropes(struct hf_config *c, const json_t *config, const struct family *f,
                       const struct notes *n, struct err *e)
{
    struct hf_config sliding = {.head_dim = c->head_dim, .context = c->context};
    json_t *full = gemma_rope(config, f, "full_attention"),
           *local = gemma_rope(config, f, "sliding_attention");
    int rc = !full || !local ? err_memory(e)
                             : hfc_rope(c, full, n, e) || hfc_rope(&sliding, local, n, e);
    c->sliding_inv_freq = sliding.inv_freq;
    if (!rc && sliding.rope_scale != 1)
        rc = err_set(e, "config.json: rope of sliding_attention scales angles: not supported");
    if (!rc && strcmp(c->rope, sliding.rope)) {
        size_t at = strlen(c->rope);
        snprintf(c->rope + at, sizeof c->rope - at, "; with a window %s", sliding.rope);
    }
    json_decref(full);
    json_decref(local);
    return rc ? -1 : 0;
}

static int take_gemma(struct hf_config *c, const json_t *config, const struct family *f,
                      const struct notes *n, struct err *e)
{
    const json_t *act = json_object_get(config, "hidden_activation");
    double q;
    c->gemma = 1;
    if (act && !json_is_null(act) &&
        (!json_is_string(act) || strcmp(json_string_value(act), "gelu_pytorch_tanh")))
        return err_set(e,
                       "config.json: hidden_activation '%.40s' is not supported, "
                       "gelu_pytorch_tanh is",
                       json_is_string(act) ? json_string_value(act) : "?");
    if (json_is_true(json_object_get(config, "use_bidirectional_attention")))
        return err_set(e, "config.json: use_bidirectional_attention: this is no language model");
    if (take_number(config, "query_pre_attn_scalar", 256, 1e-3, 1e6, &q, e) ||
        take_number(config, "attn_logit_softcapping", f->softcaps[0], 1e-3, 1e6, &c->attend_softcap,
                    e) ||
        take_number(config, "final_logit_softcapping", f->softcaps[1], 1e-3, 1e6,
                    &c->logits_softcap, e))
        return -1;
    if (q <= 0) return err_set(e, "config.json: query_pre_attn_scalar is null");
    c->attend_scale = 1 / sqrt(q);
    c->embed_scale = sqrt(c->dim);
    c->tied = !json_is_false(json_object_get(config, "tie_word_embeddings"));
    return gemma_ropes(c, config, f, n, e);
}

static int take_silu(const json_t *config, struct err *e)
{
    const json_t *act = json_object_get(config, "hidden_act");
    if (act && !json_is_null(act) &&
        (!json_is_string(act) ||
         (strcmp(json_string_value(act), "silu") && strcmp(json_string_value(act), "swish"))))
        return err_set(e, "config.json: hidden_act '%.40s' is not supported, silu is",
                       json_is_string(act) ? json_string_value(act) : "?");
    return 0;
}

static int read_family(struct hf_config *c, const json_t *config, const json_t *generation,
                       const struct family *f, const struct notes *n, struct err *e)
{
    c->architecture = f->name;
    c->qkv_bias = f->qkv_bias, c->qk_norm = f->qk_norm;
    if (take_int(config, "num_hidden_layers", f->layers, 1, 2000, &c->n_layers, e) ||
        take_int(config, "hidden_size", f->dim, 1, 1 << 20, &c->dim, e) ||
        take_int(config, "intermediate_size", f->ffn, 1, 1 << 20, &c->ffn, e) ||
        take_int(config, "num_attention_heads", f->heads, 1, 1 << 16, &c->n_heads, e) ||
        take_int(config, "num_key_value_heads",
                 f->kv_heads && json_object_get(config, "num_key_value_heads") == NULL ? f->kv_heads
                                                                                       : c->n_heads,
                 1, 1 << 16, &c->n_kv_heads, e) ||
        take_int(config, "head_dim", f->head_dim ? f->head_dim : c->dim / c->n_heads, 1, 4096,
                 &c->head_dim, e) ||
        take_int(config, "vocab_size", f->vocab, 1, 1 << 26, &c->vocab, e) ||
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
    const json_t *eps = json_object_get(config, "rms_norm_eps");
    c->norm_eps = eps && !json_is_null(eps) ? json_number_value(eps) : 1e-6;
    if (!(c->norm_eps >= 0 && c->norm_eps < 1) ||
        (eps && !json_is_null(eps) && !json_is_number(eps)))
        return err_set(e, "config.json: rms_norm_eps is not a small number");
    c->tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    if (f->gemma ? take_gemma(c, config, f, n, e)
                 : take_silu(config, e) || hfc_rope(c, config, n, e))
        return -1;
    if (take_windows(c, config, f, n, e)) return -1;
    return take_ids(c, config, generation, f, e);
}

int hfc_read(struct hf_config *c, const json_t *config, const json_t *generation,
             const struct notes *n, struct err *e)
{
    memset(c, 0, sizeof *c);
    const struct family *f = family_of(config, e);
    if (!f) return -1;
    json_t *text = json_object_get(config, "text_config"), *both = NULL;
    if (f->gemma && json_is_object(text)) { /* with images: the language model is in there */
        if (!(both = json_copy((json_t *)(uintptr_t)config)) || json_object_update(both, text)) {
            json_decref(both);
            return err_memory(e);
        }
    }
    int rc = read_family(c, both ? both : config, generation, f, n, e);
    json_decref(both);
    return rc;
}

void hfc_free(struct hf_config *c)
{
    free(c->inv_freq);
    free(c->sliding_inv_freq);
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
    json_t *j =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:o, s:i, s:o}",
                     "architecture", c->architecture, "n_layers", c->n_layers, "dim", c->dim, "ffn",
                     c->ffn, "n_heads", c->n_heads, "n_kv_heads", c->n_kv_heads, "head_dim",
                     c->head_dim, "vocab", c->vocab, "context", c->context, "norm_eps", c->norm_eps,
                     "rope_scale", c->rope_scale, "rope", c->rope, "windows", windows, "bos",
                     c->bos, "eos", eos);
    if (c->gemma)
        json_object_update_new(
            j, json_pack("{s:f, s:f, s:f, s:f}", "embed_scale", c->embed_scale, "attend_scale",
                         c->attend_scale, "attend_softcap", c->attend_softcap, "logits_softcap",
                         c->logits_softcap));
    return j;
}
