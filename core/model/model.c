#include "core/model/model.h"

#include "core/base/json.h"
#include "core/model/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps the product of two sizes below 2^62 and every row index an int. */
enum { MAX_SIZE = MODEL_MAX_SIZE, MAX_LAYERS = 4096, MAX_HEAD_DIM = 1024 };

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

/* The caller releases *config, the parsed object, also after a failure. */
static int parse_config(struct model *m, json_t **config, struct err *e)
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
    *config = c;
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
        return -1;
    if (json_object_get(c, "headless") && get_int(m, c, "headless", 0, 1, &g->headless, e))
        return -1;
    if (g->n_heads % g->n_kv_heads)
        return err_set(e, "%s: config: %d heads cannot share %d KV heads", path, g->n_heads,
                       g->n_kv_heads);
    if (g->head_dim % 2 || (int64_t)g->n_heads * g->head_dim > MAX_SIZE)
        return err_set(e, "%s: config: %d heads of %d dimensions", path, g->n_heads, g->head_dim);
    return parse_lists(m, c, e);
}

int model_open(struct model *m, const char *path, struct err *e)
{
    memset(m, 0, sizeof *m);
    if (mf_open(&m->file, path, e)) return -1;
    json_t *config = NULL;
    int rc = parse_config(m, &config, e);
    struct weight_source tensors = tensors_of(&m->file);
    if (!rc) rc = arch_build(&m->plan, &m->config, config, &tensors, e);
    json_decref(config);
    if (rc) model_close(m);
    return rc;
}

enum { NAME_BYTES = 256 };

/* The name of a linear's tensors in the file; "a linear" where it is of no file. */
static const char *name_of(const struct model *m, const struct linear *w, char name[NAME_BYTES])
{
    static const char tail[] = ".codes";
    for (size_t i = 0; i < m->file.st.n_tensors && m->file.map; i++) {
        const struct st_tensor *t = &m->file.st.tensors[i];
        size_t n = strlen(t->name);
        if (w->codes != m->file.map + t->offset || n < sizeof tail ||
            strcmp(t->name + n - (sizeof tail - 1), tail))
            continue;
        snprintf(name, NAME_BYTES, "%.*s", (int)(n - (sizeof tail - 1)), t->name);
        return name;
    }
    return "a linear";
}

int model_check_act(const struct model *m, enum act act, struct err *e)
{
    static const char made_by[] = "it is for files that opt4gptq-quantize --w4a4 makes";
    const char *path = m->file.map ? m->file.st.path : "this model",
               *act_name = act_formats[act].name;
    char name[NAME_BYTES];
    int n = 0;
    if (!act_formats[act].low) return 0;
    for (int i = 0; i < m->plan.n_weights; i++) {
        const struct linear *w = &m->plan.weight[i].linear;
        if (m->plan.weight[i].vector || !w->codes) continue;
        n += w->outliers;
        if (!w->outliers && !w->pairs)
            return err_set(e, "--act %s: %s: '%s' has no group of 8 bits for outliers; %s",
                           act_name, path, name_of(m, w, name), made_by);
    }
    if (n) return 0;
    return err_set(e, "--act %s: %s: no linear has groups of 4 bits and one of 8 for outliers; %s",
                   act_name, path, made_by);
}

void model_close(struct model *m)
{
    step_plan_free(&m->plan);
    free(m->config.eos);
    free(m->config.windows);
    mf_close(&m->file);
    memset(m, 0, sizeof *m);
    m->file.st.fd = -1;
}
