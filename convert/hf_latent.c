/* hf_latent.c: the keys of multi-head latent attention (DeepSeek-V2, 2.1). */
#include "convert/hf_family.h"

#include <math.h>
#include <string.h>

/* q_lora_rank: null means that queries have no latent. */
static int take_q_lora(struct hf_config *c, const json_t *config, const struct hf_family *f,
                       struct err *e)
{
    const json_t *v = json_object_get(config, "q_lora_rank");
    if (v && json_is_null(v)) return 0;
    if (hff_int(config, "q_lora_rank", f->latent.q_lora, 0, 1 << 16, &c->q_lora_dim, e)) return -1;
    if (c->q_lora_dim) c->traits |= HF_Q_LORA;
    return 0;
}

/* Keys with one value that is computed. */
static int refuse(const json_t *config, const struct hf_family *f, struct err *e)
{
    const json_t *indexer = f->traits & HF_INDEXER ? NULL : hff_value(config, "index_topk"),
                 *every = hff_value(config, "moe_layer_freq");
    int normalize = 0;
    if (indexer)
        return err_set(e,
                       "config.json: index_topk: sparse attention with an indexer is not "
                       "supported for a %s model",
                       f->name);
    if (every && (!json_is_integer(every) || json_integer_value(every) != 1))
        return err_set(e, "config.json: moe_layer_freq other than 1 is not supported");
    if (!f->normalize && hff_flag(config, "norm_topk_prob", 0, &normalize, e)) return -1;
    return normalize ? err_set(e,
                               "config.json: norm_topk_prob true is not supported for a %s "
                               "model: transformers and DeepSeek's own program differ there",
                               f->name)
                     : 0;
}

/* Layers with an indexer of their own: a list of texts, one text of letters, or every n-th. */
static int take_indexers(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *list = hff_value(config, "indexer_types"),
                 *pattern = hff_value(config, "index_topk_pattern");
    const char *letters = json_string_value(pattern);
    int every, offset;
    if (hff_list(&c->indexers, c->n_layers, e) ||
        hff_int(config, "index_topk_freq", 1, 1, 1 << 16, &every, e) ||
        hff_int(config, "index_skip_topk_offset", 2, 0, 1 << 16, &offset, e))
        return -1;
    size_t n = list ? json_array_size(list) : letters ? strlen(letters) : (size_t)c->n_layers;
    if (n < (size_t)c->n_layers || (!list && pattern && !letters))
        return err_set(e, "config.json: %s names %zu layers, num_hidden_layers is %d",
                       list ? "indexer_types" : "index_topk_pattern", n, c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        const char *type = json_string_value(json_array_get(list, (size_t)i));
        int after = i - offset + 1, own = (after > 0 ? after : 0) % every == 0, shared = !own;
        if (list) own = type && !strcmp(type, "full"), shared = type && !strcmp(type, "shared");
        else if (letters) own = letters[i] == 'F', shared = letters[i] == 'S';
        if (!own && !shared)
            return err_set(e, "config.json: %s: layer %d is neither %s",
                           list ? "indexer_types" : "index_topk_pattern", i,
                           list ? "full nor shared" : "F nor S");
        c->indexers[i] = own;
    }
    if (c->indexers[0]) return 0;
    return err_set(e, "config.json: layer 0 has no indexer and none before it whose choice it "
                      "could take");
}

/* The indexer of DeepSeek-V3.2 (2.1) and of GLM-5. */
static int take_indexer(struct hf_config *c, const json_t *config, const struct hf_family *f,
                        struct err *e)
{
    int glm = !strcmp(f->name, "glm_moe_dsa");
    if (hff_int(config, "index_topk", 2048, 1, 1 << 16, &c->index_top_k, e) ||
        hff_int(config, "index_n_heads", glm ? 32 : 64, 1, 1024, &c->index_heads, e) ||
        hff_int(config, "index_head_dim", 128, 1, 1024, &c->index_dim, e) ||
        hff_flag(config, "indexer_rope_interleave", glm, &c->index_pairs, e))
        return -1;
    if (c->index_dim < c->head_dim + 4 || (c->index_dim - c->head_dim) % 4)
        return err_set(e,
                       "config.json: index_head_dim %d is not supported: qk_rope_head_dim %d and a "
                       "multiple of 4 is",
                       c->index_dim, c->head_dim);
    if (!c->q_lora_dim)
        return err_set(e, "config.json: an indexer without q_lora_rank is not supported");
    return take_indexers(c, config, e);
}

int hff_latent(struct hf_config *c, const json_t *config, const struct hf_family *f, struct err *e)
{
    int pairs;
    if (hff_int(config, "kv_lora_rank", f->latent.kv_lora, 4, 960, &c->latent_dim, e) ||
        hff_int(config, "qk_nope_head_dim", f->latent.nope, 1, 4096, &c->nope_dim, e) ||
        hff_int(config, "qk_rope_head_dim", f->latent.rotated, 4, 512, &c->head_dim, e) ||
        hff_int(config, "v_head_dim", f->latent.value, 1, 4096, &c->value_dim, e) ||
        hff_flag(config, "rope_interleave", 1, &pairs, e) || take_q_lora(c, config, f, e) ||
        refuse(config, f, e))
        return -1;
    if (c->latent_dim % 4 || c->head_dim % 4 || c->latent_dim + c->head_dim > 1024)
        return err_set(e,
                       "config.json: kv_lora_rank %d and qk_rope_head_dim %d must be multiples of "
                       "4, of 1024 together",
                       c->latent_dim, c->head_dim);
    c->n_kv_heads = 1;
    if (pairs) c->traits |= HF_INTERLEAVED;
    return c->traits & HF_INDEXER ? take_indexer(c, config, f, e) : 0;
}

/* YaRN's factor of scores: m^2 for m = 0.1 mscale_all_dim ln(factor) + 1, where the key is there.
 */
int hff_latent_scale(struct hf_config *c, const json_t *config, struct err *e)
{
    const json_t *rope = hff_value(config, "rope_parameters");
    if (!rope) rope = hff_value(config, "rope_scaling");
    const json_t *type = hff_value(rope, "rope_type");
    if (!type) type = hff_value(rope, "type");
    double all = 0, factor = 1, m = 1;
    c->attend_scale = 1 / sqrt(c->nope_dim + c->head_dim);
    if (!json_is_string(type) || !strcmp(json_string_value(type), "default")) return 0;
    if (hff_number(rope, "mscale_all_dim", 0, 0, 1e3, &all, e)) return -1;
    if (all == 0) return 0;
    if (hff_number(rope, "factor", 0, 1e-6, 1e6, &factor, e)) return -1;
    if (!(factor > 0))
        return err_set(e, "config.json: rope: factor is missing, which mscale_all_dim needs");
    if (factor > 1) m = 0.1 * all * log(factor) + 1;
    c->attend_scale *= m * m;
    return 0;
}
