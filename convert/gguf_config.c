/* gguf_config.c: config.json of a GGUF file, from its keys. What transformers derives from the size
 * of a model and llama.cpp does not store is derived here in the same way. */
#include "convert/gguf_checkpoint.h"

#include "core/base/dtype.h"

#include <stdlib.h>
#include <string.h>

/* Keys behind the architecture's name that are used below, or change no answer. */
static const char *const known[] = {"vocab_size",
                                    "context_length",
                                    "embedding_length",
                                    "block_count",
                                    "feed_forward_length",
                                    "attention.head_count",
                                    "attention.head_count_kv",
                                    "attention.key_length",
                                    "attention.value_length",
                                    "attention.layer_norm_rms_epsilon",
                                    "attention.sliding_window",
                                    "attn_logit_softcapping",
                                    "final_logit_softcapping",
                                    "rope.dimension_count",
                                    "rope.freq_base",
                                    "rope.scaling.type",
                                    "rope.scaling.factor",
                                    "rope.scaling.original_context_length",
                                    "rope.scaling.finetuned",
                                    "tensor_data_layout"};

static int check_keys(const struct gguf_checkpoint *k, struct err *e)
{
    const char *key;
    json_t *v;
    size_t n = strlen(k->arch->name);
    json_object_foreach (k->file.keys, key, v) {
        size_t i = 0, all = sizeof known / sizeof *known;
        if (strncmp(key, k->arch->name, n) != 0 || key[n] != '.') continue;
        while (i < all && strcmp(key + n + 1, known[i]) != 0) i++;
        if (i == all) return err_set(e, "%s: key '%.100s' is not understood", k->file.path, key);
    }
    return 0;
}

static int put(const struct gguf_checkpoint *k, json_t *c, const char *to, const char *from,
               int64_t fallback, struct err *e)
{
    int64_t x;
    return gguf_integer(k, from, fallback, &x, e) ||
                   (json_object_set_new(c, to, json_integer(x)) && err_memory(e))
               ? -1
               : 0;
}

static int put_real(const struct gguf_checkpoint *k, json_t *c, const char *to, const char *from,
                    double fallback, struct err *e)
{
    double x;
    return gguf_real(k, from, fallback, &x, e) ||
                   (json_object_set_new(c, to, json_real(x)) && err_memory(e))
               ? -1
               : 0;
}

static int sizes(const struct gguf_checkpoint *k, json_t *c, struct err *e)
{
    int64_t dim, heads, head, value, rotated;
    const struct gguf_tensor *embed = gguf_find(&k->file, "token_embd.weight");
    if (!embed || embed->n_dims != 2)
        return err_set(e, "%s: has no tensor 'token_embd.weight'", k->file.path);
    json_object_set_new(c, "vocab_size", json_integer(embed->size[1]));
    if (put(k, c, "hidden_size", ".embedding_length", -1, e) ||
        put(k, c, "intermediate_size", ".feed_forward_length", -1, e) ||
        put(k, c, "num_hidden_layers", ".block_count", -1, e) ||
        put(k, c, "num_attention_heads", ".attention.head_count", -1, e) ||
        put(k, c, "max_position_embeddings", ".context_length", -1, e) ||
        put_real(k, c, "rms_norm_eps", ".attention.layer_norm_rms_epsilon", 1e-6, e) ||
        put_real(k, c, "rope_theta", ".rope.freq_base", 10000, e))
        return -1;
    dim = json_integer_value(json_object_get(c, "hidden_size"));
    heads = json_integer_value(json_object_get(c, "num_attention_heads"));
    if (!heads) return err_set(e, "%s: has no heads of attention", k->file.path);
    if (put(k, c, "num_key_value_heads", ".attention.head_count_kv", heads, e) ||
        put(k, c, "head_dim", ".attention.key_length", dim / heads, e))
        return -1;
    head = json_integer_value(json_object_get(c, "head_dim"));
    if (gguf_integer(k, ".attention.value_length", head, &value, e) ||
        gguf_integer(k, ".rope.dimension_count", head, &rotated, e))
        return -1;
    if (value != head || rotated != head)
        return err_set(e, "%s: heads with values of another size, or rotated in part, are not read",
                       k->file.path);
    return 0;
}

/* rope_freqs.weight, which Llama 3's factors become: longrope's table does the same to each
 * frequency. */
static int factors(const struct gguf_checkpoint *k, json_t *c, struct err *e)
{
    const struct gguf_tensor *t = gguf_find(&k->file, "rope_freqs.weight");
    json_t *list = json_array(), *rope = NULL;
    if (t->n_dims != 1 || t->type->per != 1)
        return err_set(e, "%s: tensor '%s' is no row of numbers", k->file.path, t->name);
    uint8_t *raw = malloc(t->bytes);
    int rc = raw && list ? 0 : err_memory(e);
    if (!rc) rc = gguf_read(&k->file, raw, t->offset, t->bytes, e);
    for (int64_t i = 0; i < t->size[0] && !rc; i++) {
        float x;
        t->type->floats(raw + i * t->type->bytes, &x);
        if (json_array_append_new(list, json_real((double)x))) rc = err_memory(e);
    }
    if (!rc)
        rope = json_pack("{s:s, s:O, s:O, s:f, s:O}", "rope_type", "longrope", "short_factor", list,
                         "long_factor", list, "attention_factor", 1.0,
                         "original_max_position_embeddings",
                         json_object_get(c, "max_position_embeddings"));
    if (!rc && (!rope || json_object_set(c, "rope_scaling", rope))) rc = err_memory(e);
    json_decref(rope);
    json_decref(list);
    free(raw);
    return rc;
}

static int rope(const struct gguf_checkpoint *k, json_t *c, struct err *e)
{
    const char *type = json_string_value(gguf_key(k, ".rope.scaling.type"));
    double factor;
    int64_t old;
    if (gguf_find(&k->file, "rope_freqs.weight")) return factors(k, c, e);
    if (!type || !strcmp(type, "none")) return 0;
    if (gguf_real(k, ".rope.scaling.factor", 0, &factor, e) ||
        gguf_integer(k, ".rope.scaling.original_context_length", 0, &old, e))
        return -1;
    if (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0)
        return err_set(e, "%s: rope.scaling.type '%.40s' is not read (linear and yarn are)",
                       k->file.path, type);
    json_t *r = json_pack("{s:s, s:f}", "rope_type", type, "factor", factor);
    if (!strcmp(type, "yarn") && old)
        json_object_set_new(r, "original_max_position_embeddings", json_integer(old));
    return json_object_set_new(c, "rope_scaling", r) ? err_memory(e) : 0;
}

/* Gemma: windows of every second layer (2), of five of six (3); queries are divided by the root of
 * 256, in the largest models by that of their share of the hidden size. */
static int gemma(const struct gguf_checkpoint *k, json_t *c, struct err *e)
{
    const int generation = k->arch->gemma;
    int64_t layers = json_integer_value(json_object_get(c, "num_hidden_layers")),
            heads = json_integer_value(json_object_get(c, "num_attention_heads")),
            dim = json_integer_value(json_object_get(c, "hidden_size")), window;
    json_object_set_new(c, "hidden_activation", json_string("gelu_pytorch_tanh"));
    json_t *types = json_array();
    int largest = layers == (generation == 2 ? 46 : 62);
    json_object_set_new(c, "query_pre_attn_scalar",
                        largest ? json_integer(dim / heads)
                                : json_incref(json_object_get(c, "head_dim")));
    for (int64_t i = 0; i < layers; i++) {
        int full = generation == 2 ? i % 2 == 1 : i % 6 == 5;
        json_array_append_new(types, json_string(full ? "full_attention" : "sliding_attention"));
    }
    json_object_set_new(c, "layer_types", types);
    json_object_set_new(c, "rope_local_base_freq", json_real(10000));
    if (gguf_integer(k, ".attention.sliding_window", -1, &window, e)) return -1;
    json_object_set_new(c, "sliding_window", json_integer(window));
    if (generation == 2)
        return put_real(k, c, "attn_logit_softcapping", ".attn_logit_softcapping", 50, e) ||
                       put_real(k, c, "final_logit_softcapping", ".final_logit_softcapping", 30, e)
                   ? -1
                   : 0;
    json_object_set_new(c, "attn_logit_softcapping", json_null());
    json_object_set_new(c, "final_logit_softcapping", json_null());
    return 0;
}

/* Linears of codes, by their width, as groups of compressed-tensors. */
static int quantized(const struct gguf_checkpoint *k, json_t *c, struct err *e)
{
    json_t *groups = json_object();
    for (int bits = 4; bits <= 8; bits += 4) {
        json_t *targets = json_array();
        char name[320];
        for (size_t i = 0; i < k->file.n_tensors; i++) {
            const struct gguf_tensor *t = &k->file.tensors[i];
            if (!gguf_is_coded(k, t) || t->type->bits != bits) continue;
            if (gguf_name(k, t->name, name, e)) {
                json_decref(targets);
                json_decref(groups);
                return -1;
            }
            json_array_append_new(targets, json_stringn(name, strlen(name) - strlen(".weight")));
        }
        if (json_array_size(targets))
            json_object_set_new(groups, bits == 4 ? "group_0" : "group_1",
                                json_pack("{s:O, s:{s:i, s:s, s:b, s:s, s:i}}", "targets", targets,
                                          "weights", "num_bits", bits, "type", "int", "symmetric",
                                          1, "strategy", "group", "group_size", 32));
        json_decref(targets);
    }
    if (json_object_size(groups))
        json_object_set_new(c, "quantization_config",
                            json_pack("{s:s, s:s, s:O}", "quant_method", "compressed-tensors",
                                      "format", "pack-quantized", "config_groups", groups));
    json_decref(groups);
    return 0;
}

static int token(const struct gguf_checkpoint *k, json_t *c, const char *to, const char *from)
{
    const json_t *v = json_object_get(k->file.keys, from);
    return json_is_integer(v) && json_object_set(c, to, (json_t *)(uintptr_t)v);
}

int gguf_config(struct gguf_checkpoint *k, struct err *e)
{
    json_t *c = json_object();
    json_object_set_new(c, "architectures", json_pack("[s]", k->arch->class));
    json_object_set_new(c, "model_type", json_string(k->arch->model_type));
    json_object_set_new(c, "hidden_act",
                        json_string(k->arch->gemma ? "gelu_pytorch_tanh" : "silu"));
    json_object_set_new(c, "tie_word_embeddings",
                        json_boolean(!gguf_find(&k->file, "output.weight")));
    json_object_set_new(c, "attention_bias",
                        json_boolean(gguf_find(&k->file, "blk.0.attn_q.bias") != NULL));
    if (check_keys(k, e) || sizes(k, c, e) || rope(k, c, e) || (k->arch->gemma && gemma(k, c, e)) ||
        quantized(k, c, e) || token(k, c, "bos_token_id", "tokenizer.ggml.bos_token_id") ||
        token(k, c, "eos_token_id", "tokenizer.ggml.eos_token_id")) {
        json_decref(c);
        return *e->msg ? -1 : err_memory(e);
    }
    return gguf_add_json(k, "config.json", c, e);
}
