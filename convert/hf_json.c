/* hf_json.c: the configuration as the model file has it (core/model/modelfile.h). */
#include "convert/hf_config.h"

static void put_int(json_t *j, const char *key, int v)
{
    json_object_set_new(j, key, json_integer(v));
}

static void put_number(json_t *j, const char *key, double v)
{
    json_object_set_new(j, key, json_real(v));
}

/* v: [n], NULL: zeros */
static void put_ints(json_t *j, const char *key, const int *v, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(v ? v[i] : 0));
    json_object_set_new(j, key, list);
}

static void put_experts(json_t *j, const struct hf_config *c)
{
    put_ints(j, "experts", c->experts, (size_t)c->n_layers);
    put_int(j, "n_experts", c->n_experts);
    put_int(j, "top_k", c->top_k);
    put_int(j, "expert_ffn", c->expert_ffn);
    put_int(j, "shared_ffn", c->shared_ffn);
    json_object_set_new(j, "router_score", json_string(c->router_sigmoid ? "sigmoid" : "softmax"));
    put_int(j, "router_normalize", c->router_normalize);
    put_number(j, "router_scale", c->router_scale);
    if (c->traits & HF_SOFTMAX) put_int(j, "router_bias", (c->traits & HF_CHOICE_BIAS) != 0);
    put_int(j, "router_groups", c->router_groups);
    put_int(j, "router_kept_groups", c->router_kept_groups);
}

static void put_hybrid(json_t *j, const struct hf_config *c)
{
    if (!(c->traits & HF_FALCON)) put_ints(j, "layer_types", c->linear, (size_t)c->n_layers);
    put_int(j, "linear_key_heads", c->linear_key_heads);
    put_int(j, "linear_value_heads", c->linear_value_heads);
    put_int(j, "linear_key_dim", c->linear_key_dim);
    put_int(j, "linear_value_dim", c->linear_value_dim);
    put_int(j, "conv_width", c->conv_width);
}

static void put_latent(json_t *j, const struct hf_config *c)
{
    put_int(j, "latent_dim", c->latent_dim);
    put_int(j, "nope_dim", c->nope_dim);
    put_int(j, "value_dim", c->value_dim);
    put_int(j, "q_lora_dim", c->q_lora_dim);
    put_number(j, "latent_eps", 1e-6);
    put_number(j, "attend_scale", c->attend_scale);
    if (!(c->traits & HF_CHOICE_BIAS)) put_int(j, "router_group_best", c->router_group_best);
    if (!(c->traits & HF_INDEXER)) return;
    put_int(j, "index_top_k", c->index_top_k);
    put_int(j, "index_heads", c->index_heads);
    put_int(j, "index_dim", c->index_dim);
    put_ints(j, "indexers", c->indexers, (size_t)c->n_layers);
}

static void put_scan(json_t *j, const struct hf_config *c)
{
    put_ints(j, "layer_types", c->linear, (size_t)c->n_layers);
    put_int(j, "scan_inner", c->linear_value_dim);
    put_int(j, "scan_state", c->linear_key_dim);
    put_int(j, "scan_rank", c->dt_rank);
    put_int(j, "conv_width", c->conv_width);
    put_int(j, "conv_bias", (c->traits & HF_CONV_BIAS) != 0);
}

static void put_states(json_t *j, const struct hf_config *c)
{
    if (c->traits & HF_MAMBA1) {
        put_scan(j, c);
        return;
    }
    if (c->traits & HF_SHORT_CONV) {
        put_ints(j, "layer_types", c->linear, (size_t)c->n_layers);
        put_int(j, "conv_width", c->conv_width);
        if (c->traits & HF_EXPERTS) put_int(j, "router_bias", (c->traits & HF_CHOICE_BIAS) != 0);
    }
    put_int(j, "conv_bias", (c->traits & HF_CONV_BIAS) != 0);
    if (c->traits & HF_ONE_BLOCK && c->traits & HF_EXPERTS) put_int(j, "expert_dim", c->expert_dim);
}

static void put_falcon(json_t *j, const struct hf_config *c)
{
    const struct hf_falcon *f = &c->falcon;
    put_number(j, "embed_scale", c->embed_scale);
    put_number(j, "attend_scale", c->attend_scale);
    put_number(j, "logits_scale", c->logits_scale);
    put_number(j, "attend_out_scale", f->attend_out);
    put_number(j, "mamba_gate_scale", f->gate);
    put_number(j, "mamba_dt_scale", f->dt);
    put_number(j, "mamba_out_scale", f->mamba_out);
    put_number(j, "mlp_gate_scale", f->mlp_gate);
    put_number(j, "mlp_out_scale", f->mlp_out);
    json_object_set_new(j, "mamba_norm", json_string(f->norm));
}

static void put_gemma4(json_t *j, const struct hf_config *c)
{
    size_t n = (size_t)c->n_layers;
    json_t *scalars = json_array();
    put_ints(j, "head_dims", c->head_dims, n);
    put_ints(j, "kv_heads", c->kv_heads, n);
    put_ints(j, "ffns", c->ffns, n);
    put_ints(j, "kv_from", c->kv_from, n);
    for (size_t i = 0; i < n; i++) json_array_append_new(scalars, json_real(c->layer_scalar[i]));
    json_object_set_new(j, "layer_scalar", scalars);
    put_int(j, "ple_dim", c->ple_dim);
}

static void put_xielu(json_t *j, const struct hf_config *c)
{
    static const char *const keys[] = {"xielu_p", "xielu_n", "xielu_beta", "xielu_eps"};
    for (int k = 0; k < 4; k++) {
        json_t *list = json_array();
        for (int i = 0; i < c->n_layers; i++) {
            const struct hf_xielu *x = &c->xielu[i];
            const double v[] = {x->p, x->n, x->beta, x->eps};
            json_array_append_new(list, json_real(v[k]));
        }
        json_object_set_new(j, keys[k], list);
    }
}

static json_t *with_draft(json_t *j, const struct hf_config *c)
{
    if (!c->draft) return j;
    put_int(j, "draft_layers", 1);
    put_int(j, "draft_experts", c->draft == HF_DRAFT_EXPERTS);
    return j;
}

json_t *hfc_to_json(const struct hf_config *c)
{
    json_t *j = json_object();
    json_object_set_new(j, "architecture", json_string(c->architecture));
    put_int(j, "n_layers", c->n_layers);
    put_int(j, "dim", c->dim);
    put_int(j, "ffn", c->ffn);
    put_int(j, "n_heads", c->n_heads);
    put_int(j, "n_kv_heads", c->n_kv_heads);
    put_int(j, "head_dim", c->head_dim);
    put_int(j, "vocab", c->vocab);
    put_int(j, "context", c->context);
    put_number(j, "norm_eps", c->norm_eps);
    put_number(j, "rope_scale", c->rope_scale);
    json_object_set_new(j, "rope", json_string(c->rope));
    put_ints(j, "windows", c->windows, (size_t)c->n_layers);
    put_int(j, "bos", c->bos);
    put_ints(j, "eos", c->eos, c->n_eos);
    if (c->headless) put_int(j, "headless", 1);
    if (c->inv_freq_long) put_int(j, "rope_long_from", c->rope_long_from);
    if (c->traits & (HF_GEMMA | HF_SCALES)) {
        put_number(j, "embed_scale", c->embed_scale);
        put_number(j, "attend_scale", c->attend_scale);
    }
    if (c->traits & HF_LATENT) put_latent(j, c);
    if (c->traits & HF_GEMMA) {
        put_number(j, "attend_softcap", c->attend_softcap);
        put_number(j, "logits_softcap", c->logits_softcap);
    }
    if (c->traits & HF_ONE_NORM) put_number(j, "logits_scale", c->logits_scale);
    if (c->traits & HF_SCALES) {
        put_number(j, "residual_scale", c->residual_scale);
        put_number(j, "logits_scale", c->logits_scale);
    }
    if (c->traits & HF_EXPERTS) put_experts(j, c);
    if (c->traits & (HF_HYBRID | HF_MAMBA2 | HF_KIMI)) put_hybrid(j, c);
    if (c->traits & (HF_STATES | HF_MAMBA1)) put_states(j, c);
    if (c->traits & HF_OLMO_HYBRID) {
        put_number(j, "beta_scale", c->beta_scale);
        put_number(j, "delta_eps", 1e-5);
    }
    if (c->traits & HF_FALCON) put_falcon(j, c);
    if (c->traits & HF_GPT_OSS) {
        put_number(j, "swiglu_limit", c->swiglu_limit);
        put_number(j, "swiglu_alpha", c->swiglu_alpha);
    }
    if (c->xielu) put_xielu(j, c);
    if (c->traits & HF_NO_ROPE) put_ints(j, "no_rope", c->no_rope, (size_t)c->n_layers);
    if (c->traits & HF_LLAMA4) {
        put_ints(j, "chunks", c->chunks, (size_t)c->n_layers);
        put_number(j, "query_beta", c->query_beta);
        put_int(j, "query_original", (int)c->query_original);
    }
    if (c->traits & HF_QUERY_SCALE) {
        put_number(j, "query_beta", c->query_beta);
        put_number(j, "query_original", c->query_original);
    }
    if (c->traits & HF_GEMMA4) put_gemma4(j, c);
    return with_draft(j, c);
}
