#include "convert/info.h"

#include "convert/plan.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *zeros_of(const struct plan *p)
{
    const struct plan_facts *f = &p->facts;
    if (!f->n_quantized) return "none";
    switch (p->quant->method) {
    case QUANT_AWQ: return "awq";
    case QUANT_COMPRESSED:
        if (f->n_offsets) return "no integers";
        return f->n_asymmetric ? "as they are" : "in the middle";
    case QUANT_MXFP4: return "none";
    case QUANT_GPTQ: break;
    }
    return p->quant->label == LABEL_PLANAR ? "gptq_p"
           : !f->n_v1                      ? "v2"
           : f->word_plus                  ? "v1, one added to whole words"
                                           : "v1, one added to each field";
}

static json_t *quantization(const struct plan *p)
{
    const struct plan_facts *f = &p->facts;
    json_t *bits = json_array();
    for (int b = 2; b <= 8; b++)
        if (f->bits_seen[b]) json_array_append_new(bits, json_integer(b));
    if (json_array_size(bits) == 1) {
        json_t *one = json_incref(json_array_get(bits, 0));
        json_decref(bits);
        bits = one;
    }
    json_t *j =
        json_pack("{s:s, s:o, s:o, s:b, s:b, s:i, s:i, s:i, s:s, s:i, s:i}", "method",
                  f->n_quantized ? qc_method_name(p->quant->method) : "none", "bits", bits, "group",
                  f->group_min == f->group_max ? json_integer(f->group_min)
                                               : json_pack("[i, i]", f->group_min, f->group_max),
                  "sym", f->n_quantized > 0 && !f->n_asymmetric && p->quant->method != QUANT_AWQ,
                  "act_order", f->n_act_order > 0, "act_order_linears", f->n_act_order, "linears",
                  f->n_quantized, "plain_linears", f->n_plain, "zeros", zeros_of(p),
                  "zero_biases_dropped", f->n_zero_biases, "sorted_ffns", f->n_sorted);
    if (f->n_rounded) json_object_set_new(j, "plain_8bit", json_integer(f->n_rounded));
    if (f->outliers) json_object_set_new(j, "outliers", json_integer(f->outliers));
    return j;
}

/* A file's name; "?" if it is not UTF-8. */
static json_t *name_of(const char *name)
{
    json_t *j = json_string(name);
    return j ? j : json_string("?");
}

static int source(const struct plan *p, json_t **j, struct err *e)
{
    /* Only the last component: the same checkpoint gives the same bytes at any path. */
    char *real = realpath(p->dir->path, NULL), *slash = real ? strrchr(real, '/') : NULL;
    if (!real) return err_sys(e, "%s", p->dir->path);
    json_t *files = json_array();
    for (size_t i = 0; i < p->dir->n_shards; i++)
        json_array_append_new(files,
                              json_pack("{s:o, s:I}", "name", name_of(p->dir->shard_names[i]),
                                        "bytes", (json_int_t)p->dir->shards[i].file_bytes));
    *j = json_pack("{s:o, s:o, s:s, s:s}", "directory",
                   name_of(slash && slash[1] ? slash + 1 : real), "files", files, "quantizer",
                   p->quant->quantizer, "converter", OPT4GPTQ_VERSION);
    free(real);
    return 0;
}

int info_metadata(const struct plan *p, json_t **meta, struct err *e)
{
    const int version = p->facts.n_offsets ? MF_VERSION_OFFSETS : MF_VERSION;
    json_t *parts[4] = {json_integer(version), hfc_to_json(p->config), quantization(p), NULL};
    static const char *const names[4] = {"opt4gptq.version", "opt4gptq.config",
                                         "opt4gptq.quantization", "opt4gptq.source"};
    int rc = source(p, &parts[3], e);
    *meta = json_object();
    for (int i = 0; i < 4; i++) {
        char *text = json_dumps(parts[i], JSON_COMPACT | JSON_ENCODE_ANY);
        json_object_set_new(*meta, names[i], json_string(text));
        free(text);
        json_decref(parts[i]);
    }
    if (!rc) rc = json_check(e);
    if (!rc && json_object_size(*meta) != 4)
        rc = err_set(e, "%s: what it says cannot be written as JSON", p->dir->path);
    if (!rc) return 0;
    json_decref(*meta);
    *meta = NULL;
    return -1;
}

/* 1536 -> "1,536". */
static const char *thousands(uint64_t x, char out[32])
{
    char raw[24];
    int n = snprintf(raw, sizeof raw, "%" PRIu64, x), at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) out[at++] = ',';
        out[at++] = raw[i];
    }
    out[at] = 0;
    return out;
}

/* *j: the object under KEY of the metadata, a new reference. */
static int meta_json(const struct modelfile *m, const char *key, json_t **j, struct err *e)
{
    const char *text = st_meta(&m->st, key);
    struct err why = {0};
    *j = text ? json_read(text, strlen(text), 0, NULL, &why) : NULL;
    if (json_is_object(*j)) return 0;
    json_decref(*j);
    *j = NULL;
    if (err_is_memory(&why)) return err_memory(e);
    return err_set(e, "%s: %s is missing or not a JSON object", m->st.path, key);
}

static int64_t integer(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static const char *string(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "?";
}

/* Prints an integer or a list of them, separated by SEPARATOR. */
static void print_numbers(FILE *out, const json_t *v, const char *separator)
{
    if (json_is_integer(v)) fprintf(out, "%lld", (long long)json_integer_value(v));
    for (size_t i = 0; i < json_array_size(v); i++)
        fprintf(out, "%s%lld", i ? separator : "",
                (long long)json_integer_value(json_array_get(v, i)));
}

struct tally {
    uint64_t parameters, bytes[DT_COUNT], codes_bytes, scale_bytes[DT_COUNT];
};

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

/* Inputs of a linear: named by perm, or all packed ones. */
static uint64_t inputs(const struct tview *codes, const struct tview *perm, int there)
{
    int64_t k = codes->shape[codes->n_dims - 3] * MF_BLOCK, most = 0;
    const int32_t *p = perm->data;
    if (!there || perm->dtype != DT_I32 || perm->shape[perm->n_dims - 1] != k) return (uint64_t)k;
    for (int64_t j = 0; j < k; j++)
        if (p[j] >= most) most = p[j] + 1;
    return (uint64_t)most;
}

/* Outputs of a linear: rows of the last panel past them have scales of 0 in all groups. */
static uint64_t outputs(const struct tview *scales)
{
    int d = scales->n_dims - 3;
    int64_t panels = scales->shape[d], groups = scales->shape[d + 1], n = panels * MF_PANEL;
    for (int empty = 1; n > (panels - 1) * MF_PANEL + 1 && empty; n -= empty)
        for (int64_t g = 0; g < groups && empty; g++)
            empty = f32_at(scales->data, scales->dtype,
                           (size_t)(((panels - 1) * groups + g) * MF_PANEL + (n - 1) % MF_PANEL)) ==
                    0;
    return (uint64_t)n;
}

/* Parameters of the linear or stack whose codes are tensor x. */
static uint64_t linear_parameters(const struct modelfile *m, const struct st_tensor *x)
{
    char name[512];
    struct tview codes, scales, perm = {0};
    int length = (int)strlen(x->name) - (int)sizeof ".codes" + 1, stack = x->n_dims == 5;
    snprintf(name, sizeof name, "%.*s.scales", length, x->name);
    if (x->n_dims - stack != 4 || !mf_find(m, x->name, &codes) || !mf_find(m, name, &scales) ||
        scales.n_dims != x->n_dims - 1)
        return 0;
    snprintf(name, sizeof name, "%.*s.perm", length, x->name);
    int there = mf_find(m, name, &perm);
    return (stack ? (uint64_t)x->shape[0] : 1) * inputs(&codes, &perm, there) * outputs(&scales);
}

/* Counts parameters as usual: weights, norms and biases once each, without padding; the two planes
 * of 8-bit codes once. */
static void count(const struct modelfile *m, struct tally *t)
{
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < m->st.n_tensors; i++) {
        const struct st_tensor *x = &m->st.tensors[i];
        if (!strncmp(x->name, "pad.", 4) || !strncmp(x->name, "file.", 5) ||
            !strncmp(x->name, "rope.", 5))
            continue;
        if (ends_with(x->name, ".codes")) {
            t->codes_bytes += x->bytes;
            t->parameters += linear_parameters(m, x);
        } else if (ends_with(x->name, ".scales") || ends_with(x->name, ".offsets.weight")) {
            t->scale_bytes[x->dtype] += x->bytes;
        } else if (!ends_with(x->name, ".zeros") && !ends_with(x->name, ".perm") &&
                   !ends_with(x->name, ".order")) {
            t->parameters += x->bytes / dtype_bytes(x->dtype);
            t->bytes[x->dtype] += x->bytes;
        }
    }
}

static void print_quantization(FILE *out, const json_t *q, const struct tally *t)
{
    const json_t *group = json_object_get(q, "group");
    if (!integer(q, "linears")) {
        fprintf(out, "quantization   none");
        if (integer(q, "plain_8bit"))
            fprintf(out, "; %lld linear%s stored with 8 bits", (long long)integer(q, "plain_8bit"),
                    units_s((uint64_t)integer(q, "plain_8bit")));
        fprintf(out, "\n");
    } else {
        fprintf(out, "quantization   %s, ", string(q, "method"));
        print_numbers(out, json_object_get(q, "bits"), " and ");
        fprintf(out, " bits, groups of ");
        print_numbers(out, group, " to ");
        fprintf(out, ", %s, %s",
                json_is_true(json_object_get(q, "sym")) ? "symmetric" : "asymmetric",
                json_is_true(json_object_get(q, "act_order")) ? "act-order" : "no act-order");
        if (integer(q, "sorted_ffns"))
            fprintf(out, " (in %lld layer%s gate and up are ordered as down wants them)",
                    (long long)integer(q, "sorted_ffns"),
                    units_s((uint64_t)integer(q, "sorted_ffns")));
        fprintf(out, ", zero points %s; %lld linear%s (%lld not quantized", string(q, "zeros"),
                (long long)(integer(q, "linears") + integer(q, "plain_linears")),
                units_s((uint64_t)(integer(q, "linears") + integer(q, "plain_linears"))),
                (long long)integer(q, "plain_linears"));
        if (integer(q, "plain_8bit"))
            fprintf(out, ", %lld of them stored with 8 bits", (long long)integer(q, "plain_8bit"));
        fprintf(out, ")\n");
    }
    if (integer(q, "outliers"))
        fprintf(out,
                "W4A4           the %lld largest inputs of a linear have 8 bits; with --act int4 "
                "activations have 4 bits in groups, those 8\n",
                (long long)integer(q, "outliers"));
    fprintf(out, "weights        ");
    const char *sep = "";
    if (t->codes_bytes) {
        const char *scales = !t->scale_bytes[DT_F32]   ? "F16"
                             : !t->scale_bytes[DT_F16] ? "F32"
                                                       : "F16 and F32";
        fprintf(out, "4-bit codes %.1f MB with %s scales", (double)t->codes_bytes / 1e6, scales);
        sep = ", ";
    }
    for (int d = 0; d < DT_COUNT; d++)
        if (t->bytes[d])
            fprintf(out, "%s%s %.1f MB", sep, st_dtype_name((enum dtype)d),
                    (double)t->bytes[d] / 1e6),
                sep = ", ";
    fprintf(out, "\n");
}

int info_check_orders(const struct modelfile *m, int *n, struct err *e)
{
    *n = 0;
    for (size_t i = 0; i < m->st.n_tensors; i++) {
        const char *name = m->st.tensors[i].name;
        struct tview v;
        if (!ends_with(name, ".order") || !strstr(name, ".mlp.") || !mf_find(m, name, &v)) continue;
        int64_t outputs = v.n_dims == 1 && v.dtype == DT_I32 ? v.shape[0] : 0;
        const int32_t *order = v.data;
        char *seen = calloc((size_t)outputs + 1, 1);
        int64_t j = 0;
        if (!seen) return err_memory(e);
        while (j < outputs && order[j] >= 0 && order[j] < outputs && !seen[order[j]])
            seen[order[j++]] = 1;
        free(seen);
        if (!outputs || j < outputs)
            return err_set(e, "%s: tensor '%s' is not an order: entry %" PRId64, m->st.path, name,
                           j);
        ++*n;
    }
    return 0;
}

int info_verify(FILE *out, const char *path, struct err *e)
{
    struct modelfile m;
    size_t n;
    if (mf_open(&m, path, e)) return -1;
    struct progress progress;
    progress_begin(&progress);
    int n_orders,
        rc = mf_verify(&m, &progress, &n, e) || info_check_orders(&m, &n_orders, e) ? -1 : 0;
    if (!rc)
        fprintf(out, "%s: %zu tensor%s\n", path, n,
                n == 1 ? " matches its checksum" : "s match their checksums");
    if (!rc && n_orders)
        fprintf(out, "%s: in %d layer%s gate and up are ordered as down wants them (mlp.order)\n",
                path, n_orders, units_s((uint64_t)n_orders));
    mf_close(&m);
    return rc;
}

/* Experts and recurrent layers. */
static void print_layers(FILE *out, const json_t *c)
{
    const json_t *experts = json_object_get(c, "experts"),
                 *types = json_object_get(c, "layer_types");
    int64_t n = 0, keys = integer(c, "linear_key_heads") * integer(c, "linear_key_dim"),
            values = integer(c, "linear_value_heads") * integer(c, "linear_value_dim");
    for (size_t i = 0; i < json_array_size(experts); i++)
        n += json_integer_value(json_array_get(experts, i)) != 0;
    if (n)
        fprintf(out, "experts        %lld in %lld of %lld layer%s, %lld active for a token%s\n",
                (long long)integer(c, "n_experts"), (long long)n, (long long)integer(c, "n_layers"),
                units_s((uint64_t)integer(c, "n_layers")), (long long)integer(c, "top_k"),
                integer(c, "shared_ffn") ? " and a shared one" : "");
    if (integer(c, "draft_layers"))
        fprintf(out, "draft layer    one behind the others, %s: drafts tokens (--speculate)\n",
                integer(c, "draft_experts") ? "with experts" : "with an MLP");
    n = 0;
    for (size_t i = 0; i < json_array_size(types); i++)
        n += json_integer_value(json_array_get(types, i)) != 0;
    double bytes = 4.0 * (double)n *
                   (double)(values * integer(c, "linear_key_dim") +
                            (2 * keys + values) * (integer(c, "conv_width") - 1));
    char text[UNITS_TEXT];
    if (n)
        fprintf(out, "states         %lld of %lld layer%s recurrent: %s for a sequence\n",
                (long long)n, (long long)integer(c, "n_layers"),
                integer(c, "n_layers") == 1 ? " is" : "s are", units_bytes((uint64_t)bytes, text));
}

/* Cleans the strings of a stranger's file. */
static void make_printable(json_t *j)
{
    const char *key;
    json_t *v;
    json_object_foreach (j, key, v) {
        char *copy = json_is_string(v) ? strdup(json_string_value(v)) : NULL;
        if (!copy) continue;
        err_printable(copy);
        json_string_set(v, copy);
        free(copy);
    }
}

static void print_all(FILE *out, const struct modelfile *m, const json_t *c, const json_t *s,
                      const json_t *q)
{
    struct tally t;
    char text[32];
    size_t n, files = 0;
    count(m, &t);
    fprintf(out, "file           %s\n", m->st.path);
    fprintf(out, "size           %s bytes\n", thousands(m->st.file_bytes, text));
    fprintf(out, "architecture   %s, %s parameters\n", string(c, "architecture"),
            thousands(t.parameters, text));
    fprintf(
        out,
        "shape          %lld layer%s, dim %lld, ffn %lld, %lld head%s / %lld KV head%s of %lld, "
        "vocabulary %lld\n",
        (long long)integer(c, "n_layers"), units_s((uint64_t)integer(c, "n_layers")),
        (long long)integer(c, "dim"), (long long)integer(c, "ffn"),
        (long long)integer(c, "n_heads"), units_s((uint64_t)integer(c, "n_heads")),
        (long long)integer(c, "n_kv_heads"), units_s((uint64_t)integer(c, "n_kv_heads")),
        (long long)integer(c, "head_dim"), (long long)integer(c, "vocab"));
    int64_t windowed = 0, width = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(c, "windows")); i++) {
        int64_t w = json_integer_value(json_array_get(json_object_get(c, "windows"), i));
        if (w) windowed++, width = w;
    }
    fprintf(out, "context        %lld tokens, RoPE %s", (long long)integer(c, "context"),
            string(c, "rope"));
    if (windowed)
        fprintf(out, ", %lld layer%s %lld tokens back", (long long)windowed,
                windowed == 1 ? " sees" : "s see", (long long)width);
    fprintf(out, "\n");
    print_layers(out, c);
    print_quantization(out, q, &t);
    struct tview v;
    fprintf(out, "head           %s\n",
            mf_find(m, "lm_head.codes", &v)    ? "quantized"
            : mf_find(m, "lm_head.weight", &v) ? "16 or 32 bits"
            : integer(c, "headless")           ? "none: embeddings only"
                                               : "the embedding");
    fprintf(out, "tokenizer      %s\n",
            mf_source_file(m, "tokenizer.json", &n)    ? "tokenizer.json"
            : mf_source_file(m, "tokenizer.model", &n) ? "tokenizer.model"
                                                       : "none");
    const char *tc = mf_source_file(m, "tokenizer_config.json", &n);
    int template = tc && memmem(tc, n, "\"chat_template\"", 15);
    fprintf(out, "chat template  %s\n",
            mf_source_file(m, "chat_template.jinja", &n)  ? "chat_template.jinja"
            : template                                    ? "in tokenizer_config.json"
            : mf_source_file(m, "chat_template.json", &n) ? "chat_template.json"
                                                          : "none");
    files = json_array_size(json_object_get(s, "files"));
    fprintf(out, "source         %s, %zu file%s", string(s, "directory"), files,
            files == 1 ? "" : "s");
    if (*string(s, "quantizer")) fprintf(out, ", quantized by %s", string(s, "quantizer"));
    fprintf(out, "; converted by opt4gptq-convert %s\n", string(s, "converter"));
}

int info_print(FILE *out, const char *path, struct err *e)
{
    static const char *const keys[] = {"opt4gptq.config", "opt4gptq.source",
                                       "opt4gptq.quantization"};
    struct modelfile m;
    json_t *j[3] = {NULL, NULL, NULL};
    int rc = 0;
    if (mf_open(&m, path, e)) return -1;
    for (int i = 0; i < 3 && !rc; i++) {
        rc = meta_json(&m, keys[i], &j[i], e);
        make_printable(j[i]);
    }
    if (!rc) rc = json_check(e);
    if (!rc) print_all(out, &m, j[0], j[1], j[2]);
    for (int i = 0; i < 3; i++) json_decref(j[i]);
    mf_close(&m);
    return rc;
}
