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
    const json_t *indexer = hff_value(config, "index_topk"),
                 *every = hff_value(config, "moe_layer_freq");
    int normalize = 0;
    if (indexer)
        return err_set(e, "config.json: index_topk: sparse attention with an indexer is not "
                          "supported");
    if (every && (!json_is_integer(every) || json_integer_value(every) != 1))
        return err_set(e, "config.json: moe_layer_freq other than 1 is not supported");
    if (!f->normalize && hff_flag(config, "norm_topk_prob", 0, &normalize, e)) return -1;
    return normalize ? err_set(e,
                               "config.json: norm_topk_prob true is not supported for a %s "
                               "model: transformers and DeepSeek's own program differ there",
                               f->name)
                     : 0;
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
    return 0;
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
