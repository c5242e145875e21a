#include "core/model/model.h"

#include "core/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps every product of two sizes below 2^31 * 2^31 and every row index an int. */
enum { MAX_SIZE = 1 << 24, MAX_LAYERS = 4096, MAX_HEAD_DIM = 1024 };

static const char *const linear_names[LIN_COUNT] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
};

static int get_int(const struct model *m, const json_t *c, const char *key, int lo, int hi,
                   int *out, struct err *e)
{
    const json_t *v = json_object_get(c, key);
    if (!json_is_integer(v))
        return err_set(e, "%s: config: '%s' is missing or not an integer", m->file.st.path, key);
    if (json_integer_value(v) < lo || json_integer_value(v) > hi)
        return err_set(e, "%s: config: '%s' is %lld, must be %d..%d", m->file.st.path, key,
                       (long long)json_integer_value(v), lo, hi);
    *out = (int)json_integer_value(v);
    return 0;
}

static int get_float(const struct model *m, const json_t *c, const char *key, double lo, double hi,
                     float *out, struct err *e)
{
    const json_t *v = json_object_get(c, key);
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= lo && x <= hi))
        return err_set(e, "%s: config: '%s' is missing or out of range", m->file.st.path, key);
    *out = (float)x;
    return 0;
}

static int parse_lists(struct model *m, const json_t *c, struct err *e)
{
    struct model_config *g = &m->config;
    const char *path = m->file.st.path;
    const json_t *w = json_object_get(c, "windows"), *eos = json_object_get(c, "eos");
    if (!json_is_array(w) || json_array_size(w) != (size_t)g->n_layers)
        return err_set(e, "%s: config: 'windows' must list %d layers", path, g->n_layers);
    if (!json_is_array(eos) || json_array_size(eos) > 1024)
        return err_set(e, "%s: config: 'eos' must be a short list", path);
    g->windows = calloc((size_t)g->n_layers, sizeof *g->windows);
    g->eos = calloc(json_array_size(eos) + 1, sizeof *g->eos);
    if (!g->windows || !g->eos) return err_memory_for(e, "%s: out of memory", path);
    for (int i = 0; i < g->n_layers; i++) {
        const json_t *v = json_array_get(w, (size_t)i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
            return err_set(e, "%s: config: bad 'windows' entry", path);
        g->windows[i] = (int)json_integer_value(v);
    }
    for (size_t i = 0; i < json_array_size(eos); i++) {
        const json_t *v = json_array_get(eos, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= g->vocab)
            return err_set(e, "%s: config: 'eos' names an id outside the vocabulary of %d", path,
                           g->vocab);
        g->eos[g->n_eos++] = (int32_t)json_integer_value(v);
    }
    return 0;
}

static int parse_config(struct model *m, struct err *e)
{
    struct model_config *g = &m->config;
    const char *path = m->file.st.path, *text = st_meta(&m->file.st, "opt4gptq.config");
    if (!text) return err_set(e, "%s: has no opt4gptq.config in its metadata", path);
    json_t *c = json_read(text, strlen(text), JSON_REJECT_DUPLICATES, NULL, e);
    if (!json_is_object(c)) {
        json_decref(c);
        return !c && err_is_memory(e)
                   ? -1
                   : err_set(e, "%s: opt4gptq.config is not a JSON object", path);
    }
    const char *arch = json_string_value(json_object_get(c, "architecture"));
    snprintf(g->architecture, sizeof g->architecture, "%s", arch ? arch : "unknown");
    int rc = -1;
    if (get_int(m, c, "n_layers", 1, MAX_LAYERS, &g->n_layers, e) ||
        get_int(m, c, "dim", 1, MAX_SIZE, &g->dim, e) ||
        get_int(m, c, "ffn", 1, MAX_SIZE, &g->ffn, e) ||
        get_int(m, c, "n_heads", 1, 65536, &g->n_heads, e) ||
        get_int(m, c, "n_kv_heads", 1, 65536, &g->n_kv_heads, e) ||
        get_int(m, c, "head_dim", 2, MAX_HEAD_DIM, &g->head_dim, e) ||
        get_int(m, c, "vocab", 1, MAX_SIZE, &g->vocab, e) ||
        get_int(m, c, "context", 1, MAX_SIZE, &g->context, e) ||
        get_int(m, c, "bos", -1, g->vocab - 1, &g->bos, e) ||
        get_float(m, c, "norm_eps", 0, 1, &g->norm_eps, e) ||
        get_float(m, c, "rope_scale", 1e-3, 1e3, &g->rope_scale, e))
        goto done;
    if (g->n_heads % g->n_kv_heads) {
        err_set(e, "%s: config: %d heads cannot share %d KV heads", path, g->n_heads,
                g->n_kv_heads);
        goto done;
    }
    if (g->head_dim % 2 || (int64_t)g->n_heads * g->head_dim > MAX_SIZE) {
        err_set(e, "%s: config: %d heads of %d dimensions", path, g->n_heads, g->head_dim);
        goto done;
    }
    rc = parse_lists(m, c, e);
done:
    json_decref(c);
    return rc;
}

/* Fetches a tensor and checks its dtype (two allowed ones may be given) and shape; a dimension of
 * -1 is any. */
static int fetch(const struct model *m, const char *name, const char *dtypes, int n_dims,
                 const int64_t *shape, struct tview *v, struct err *e)
{
    const char *path = m->file.st.path;
    if (!mf_find(&m->file, name, v)) return err_set(e, "%s: tensor '%s' is missing", path, name);
    const char *have = st_dtype_name(v->dtype), *at = strstr(dtypes, have);
    size_t n = strlen(have);
    if (!at || (at != dtypes && at[-1] != ' ') || (at[n] && at[n] != ' '))
        return err_set(e, "%s: tensor '%s' has dtype %s, expected %s", path, name, have, dtypes);
    int ok = v->n_dims == n_dims;
    for (int i = 0; ok && i < n_dims; i++) ok = shape[i] < 0 || v->shape[i] == shape[i];
    if (!ok) {
        char want[96] = "", got[96] = "";
        for (int i = 0; i < n_dims; i++)
            snprintf(want + strlen(want), sizeof want - strlen(want), i ? ",%lld" : "%lld",
                     (long long)shape[i]);
        for (int i = 0; i < v->n_dims; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), i ? ",%lld" : "%lld",
                     (long long)v->shape[i]);
        return err_set(e, "%s: tensor '%s' has shape [%s], the config needs [%s]", path, name, got,
                       want);
    }
    if ((uintptr_t)v->data % 4) return err_set(e, "%s: tensor '%s' is not aligned", path, name);
    return 0;
}

static int check_finite(const struct model *m, const char *name, const struct tview *v,
                        struct err *e)
{
    size_t n = v->bytes / dtype_bytes(v->dtype);
    unsigned bad = 0; /* branch-free, so that the compiler vectorizes: a 7B has 50 million scales */
    if (v->dtype == DT_F16) {
        const uint16_t *p = v->data;
        for (size_t i = 0; i < n; i++) bad |= (p[i] & 0x7c00) == 0x7c00;
    } else {
        const uint32_t *p = v->data;
        for (size_t i = 0; i < n; i++) bad |= (p[i] & 0x7f800000) == 0x7f800000;
    }
    return bad ? err_set(e, "%s: tensor '%s' holds NaN or infinity", m->file.st.path, name) : 0;
}

static int fetch_f32(const struct model *m, const char *name, int64_t n, const float **out,
                     struct err *e)
{
    struct tview v;
    if (fetch(m, name, "F32", 1, &n, &v, e) || check_finite(m, name, &v, e)) return -1;
    *out = v.data;
    return 0;
}

static int fetch_quantized(const struct model *m, const char *prefix, int in, int out,
                           const struct tview *codes, struct linear *w, struct err *e)
{
    char name[160];
    const char *path = m->file.st.path;
    struct tview v;
    int64_t panels = (out + MF_PANEL - 1) / MF_PANEL;
    w->k = (int)(codes->shape[1] * MF_BLOCK);
    w->codes = codes->data;

    snprintf(name, sizeof name, "%s.scales", prefix);
    if (fetch(m, name, "F16 F32", 3, (int64_t[]){panels, -1, MF_PANEL}, &v, e)) return -1;
    int64_t groups = v.shape[1];
    if (groups < 1 || w->k % groups || (w->k / groups) % MF_GROUP_MULTIPLE)
        return err_set(e,
                       "%s: tensor '%s': %lld groups do not divide %d inputs into multiples of %d",
                       path, name, (long long)groups, w->k, MF_GROUP_MULTIPLE);
    if (check_finite(m, name, &v, e)) return -1;
    w->n_groups = (int)groups;
    w->group = w->k / w->n_groups;
    w->scales = v.data;
    w->scale_type = v.dtype;

    snprintf(name, sizeof name, "%s.zeros", prefix);
    if (fetch(m, name, "U8", 3, (int64_t[]){panels, groups, MF_PANEL}, &v, e)) return -1;
    w->zeros = v.data;
    unsigned bad = 0;
    for (size_t i = 0; i < v.bytes; i++) bad |= w->zeros[i] > 16;
    if (bad) return err_set(e, "%s: tensor '%s' holds a zero point above 16", path, name);

    snprintf(name, sizeof name, "%s.perm", prefix);
    if (mf_find(&m->file, name, &v)) {
        if (fetch(m, name, "I32", 1, (int64_t[]){w->k}, &v, e)) return -1;
        w->perm = v.data;
        for (int j = 0; j < w->k; j++)
            if (w->perm[j] < -1 || w->perm[j] >= in)
                return err_set(e, "%s: tensor '%s': entry %d is %d, the layer has %d inputs", path,
                               name, j, w->perm[j], in);
    } else if (w->k != in) {
        return err_set(e, "%s: '%s' packs %d inputs of %d and has no perm", path, prefix, w->k, in);
    }
    return 0;
}

static int fetch_linear(const struct model *m, const char *prefix, int in, int out,
                        struct linear *w, struct err *e)
{
    char name[160];
    struct tview v;
    memset(w, 0, sizeof *w);
    w->in = in;
    w->out = out;
    snprintf(name, sizeof name, "%s.codes", prefix);
    if (mf_find(&m->file, name, &v)) {
        if (fetch(m, name, "U8", 4, (int64_t[]){(out + MF_PANEL - 1) / MF_PANEL, -1, MF_PANEL, 4},
                  &v, e))
            return -1;
        if (v.shape[1] < 1 || v.shape[1] > MAX_SIZE / MF_BLOCK)
            return err_set(e, "%s: tensor '%s' has no or too many inputs", m->file.st.path, name);
        if (fetch_quantized(m, prefix, in, out, &v, w, e)) return -1;
    } else {
        snprintf(name, sizeof name, "%s.weight", prefix);
        if (fetch(m, name, "F16 BF16 F32", 2, (int64_t[]){out, in}, &v, e)) return -1;
        w->weight = v.data;
        w->weight_type = v.dtype;
        w->k = in;
    }
    snprintf(name, sizeof name, "%s.bias", prefix);
    return mf_find(&m->file, name, &v) ? fetch_f32(m, name, out, &w->bias, e) : 0;
}

/* Linears of one input usually were permuted alike; one pointer for equal permutations lets a
 * backend gather once. */
static void share_perm(struct linear *a, const struct linear *b)
{
    if (a->perm && b->perm && a->k == b->k &&
        !memcmp(a->perm, b->perm, (size_t)a->k * sizeof *a->perm))
        a->perm = b->perm;
}

static int fetch_layer(struct model *m, int i, struct err *e)
{
    const struct model_config *g = &m->config;
    struct layer *l = &m->layers[i];
    int q = g->n_heads * g->head_dim, kv = g->n_kv_heads * g->head_dim;
    const int in[LIN_COUNT] = {g->dim, g->dim, g->dim, q, g->dim, g->dim, g->ffn};
    const int out[LIN_COUNT] = {q, kv, kv, g->dim, g->ffn, g->ffn, g->dim};
    char name[128];
    for (int j = 0; j < LIN_COUNT; j++) {
        snprintf(name, sizeof name, "layers.%d.%s", i, linear_names[j]);
        if (fetch_linear(m, name, in[j], out[j], &l->linear[j], e)) return -1;
    }
    share_perm(&l->linear[LIN_K], &l->linear[LIN_Q]);
    share_perm(&l->linear[LIN_V], &l->linear[LIN_Q]);
    share_perm(&l->linear[LIN_UP], &l->linear[LIN_GATE]);
    snprintf(name, sizeof name, "layers.%d.input_layernorm.weight", i);
    if (fetch_f32(m, name, g->dim, &l->input_norm, e)) return -1;
    snprintf(name, sizeof name, "layers.%d.post_attention_layernorm.weight", i);
    if (fetch_f32(m, name, g->dim, &l->post_norm, e)) return -1;
    struct tview v;
    char k_name[sizeof name];
    snprintf(name, sizeof name, "layers.%d.self_attn.q_norm.weight", i);
    snprintf(k_name, sizeof k_name, "layers.%d.self_attn.k_norm.weight", i);
    if (!mf_find(&m->file, name, &v) && !mf_find(&m->file, k_name, &v))
        return 0; /* both or neither */
    return fetch_f32(m, name, g->head_dim, &l->q_norm, e) ||
                   fetch_f32(m, k_name, g->head_dim, &l->k_norm, e)
               ? -1
               : 0;
}

int model_open(struct model *m, const char *path, struct err *e)
{
    memset(m, 0, sizeof *m);
    if (mf_open(&m->file, path, e)) return -1;
    if (parse_config(m, e)) goto fail;
    const struct model_config *g = &m->config;
    struct tview v;
    if (fetch_linear(m, "embed_tokens", g->dim, g->vocab, &m->embed, e)) goto fail;
    if (!m->embed.weight || m->embed.bias) {
        err_set(e, "%s: the embedding must be unquantized and without bias", path);
        goto fail;
    }
    m->head = m->embed;
    if ((mf_find(&m->file, "lm_head.codes", &v) || mf_find(&m->file, "lm_head.weight", &v)) &&
        fetch_linear(m, "lm_head", g->dim, g->vocab, &m->head, e))
        goto fail;
    if (fetch_f32(m, "norm.weight", g->dim, &m->norm, e)) goto fail;
    if (fetch_f32(m, "rope.inv_freq", g->head_dim / 2, &m->inv_freq, e)) goto fail;
    m->layers = calloc((size_t)g->n_layers, sizeof *m->layers);
    if (!m->layers) {
        err_memory_for(e, "%s: out of memory", path);
        goto fail;
    }
    for (int i = 0; i < g->n_layers; i++)
        if (fetch_layer(m, i, e)) goto fail;
    return 0;
fail:
    model_close(m);
    return -1;
}

void model_close(struct model *m)
{
    free(m->layers);
    free(m->config.eos);
    free(m->config.windows);
    mf_close(&m->file);
    memset(m, 0, sizeof *m);
    m->file.st.fd = -1;
}

int model_max_k(const struct model *m)
{
    int k = m->head.k > m->config.dim ? m->head.k : m->config.dim;
    for (int i = 0; i < m->config.n_layers; i++)
        for (int j = 0; j < LIN_COUNT; j++)
            if (m->layers[i].linear[j].k > k) k = m->layers[i].linear[j].k;
    return k;
}

int model_n_quantized(const struct model *m)
{
    int n = m->head.codes != NULL;
    for (int i = 0; i < m->config.n_layers; i++)
        for (int j = 0; j < LIN_COUNT; j++) n += m->layers[i].linear[j].codes != NULL;
    return n;
}
