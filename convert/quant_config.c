#include "convert/quant_compressed.h"

#include "core/base/json.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The first key of the list that is present and not null. */
static const json_t *first_of(const json_t *j, const char *const *keys, const char **key)
{
    for (; *keys; keys++) {
        const json_t *v = json_object_get(j, *keys);
        if (v && !json_is_null(v)) {
            *key = *keys;
            return v;
        }
    }
    return NULL;
}

static const char *const bits_keys[] = {"bits", "w_bit", "wbits", "gptq_bits", NULL};
static const char *const group_keys[] = {"group_size",      "q_group_size",   "groupsize",
                                         "gptq_group_size", "gptq_groupsize", NULL};
static const char *const sym_keys[] = {"sym", "gptq_sym", NULL};
static const char *const act_keys[] = {"desc_act", "gptq_desc_act", NULL};
static const char *const method_keys[] = {"quant_method", "method", NULL};
static const char *const format_keys[] = {"checkpoint_format", "format",  "gptq_checkpoint_format",
                                          "version",           "backend", NULL};
static const char *const pack_keys[] = {"packing_format", "backend", NULL};

/* Integers and booleans may be strings, the only type of safetensors metadata. */
static int as_int(const json_t *v, int *out)
{
    if (json_is_integer(v)) {
        json_int_t x = json_integer_value(v);
        if (x < -1 || x > 1 << 24) return -1;
        *out = (int)x;
        return 0;
    }
    if (json_is_string(v)) {
        char *end;
        long x = strtol(json_string_value(v), &end, 10);
        if (end == json_string_value(v) || *end || x < -1 || x > 1 << 24) return -1;
        *out = (int)x;
        return 0;
    }
    return -1;
}

static int as_bool(const json_t *v, int *out)
{
    int x;
    if (json_is_boolean(v)) {
        *out = json_is_true(v);
        return 0;
    }
    if (json_is_string(v) && !strcasecmp(json_string_value(v), "true")) return *out = 1, 0;
    if (json_is_string(v) && !strcasecmp(json_string_value(v), "false")) return *out = 0, 0;
    if (as_int(v, &x) || x < 0 || x > 1) return -1;
    *out = x;
    return 0;
}

/* Merges an integer setting; an earlier place has priority, a later one that differs is reported.
 */
static int merge_int(const json_t *j, const char *const *keys, int *value, const char *where,
                     const struct notes *n, struct err *e)
{
    const char *key;
    const json_t *v = first_of(j, keys, &key);
    int x;
    if (!v) return 0;
    if (as_int(v, &x)) return err_set(e, "%s: %s is not a usable integer", where, key);
    if (*value == 0) *value = x;
    else if (*value != x)
        note_warn(n, "%s says %s %d, another file says %d: using %d", where, key, x, *value,
                  *value);
    return 0;
}

static int merge_sym(struct quant_config *q, const json_t *j, const char *where,
                     const struct notes *n, struct err *e)
{
    const char *key;
    const json_t *v = first_of(j, sym_keys, &key), *zp = json_object_get(j, "zero_point");
    int x, have = 0;
    if (v) {
        if (as_bool(v, &x)) return err_set(e, "%s: %s is neither true nor false", where, key);
        have = 1;
    } else if (zp && !json_is_null(zp)) { /* AWQ's negated spelling */
        if (as_bool(zp, &x)) return err_set(e, "%s: zero_point is neither true nor false", where);
        x = !x;
        have = 1;
    }
    if (!have) return 0;
    if (!q->sym_said) q->sym = x, q->sym_said = 1;
    else if (q->sym != x)
        note_warn(n, "%s says sym %s, another file says the opposite: using sym %s", where,
                  x ? "true" : "false", q->sym ? "true" : "false");
    return 0;
}

/* AutoRound, whose packing_format says "backend:layout": layouts of AutoGPTQ with its zero points
 * minus one, AWQ's, and its own, GPTQ's with zero points as they are
 * (auto_round/inference/backend.py, GPTQ_FORMAT and GPTQ_FORMAT_NO_ZP). */
static int parse_auto_round(struct quant_config *q, const json_t *j, const char *where,
                            struct err *e)
{
    static const char *const own[] = {"auto_round", "auto_round:exllamav2", "auto_round:gptqmodel",
                                      "auto_round:tritonv2", "auto_round:marlin"};
    const char *key, *p = json_string_value(first_of(j, pack_keys, &key)),
                     *type = json_string_value(json_object_get(j, "data_type"));
    int act = 16;
    q->by_auto_round = 1;
    if (!p) p = "auto_round";
    if (type && strcmp(type, "int"))
        return err_set(e,
                       "%s: auto-round data_type '%.20s' is not supported, int is: use the GPTQ or "
                       "AWQ export of the model",
                       where, type);
    if (json_object_get(j, "act_bits") && !as_int(json_object_get(j, "act_bits"), &act) && act < 16)
        return err_set(e,
                       "%s: auto-round with %d-bit activations is not supported: quantize the "
                       "weights only",
                       where, act);
    json_t *extra = json_object_get(j, "extra_config");
    if (extra && !json_is_object(extra) && !json_is_null(extra))
        return err_set(e, "%s: extra_config is not an object of modules", where);
    if (json_is_object(extra) && !q->extra) q->extra = json_deep_copy(extra);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(p, own[i])) return q->label = LABEL_V2, 0;
    if (!strncmp(p, "auto_round:", 11) && strstr(p, "awq")) return q->method = QUANT_AWQ, 0;
    if (!strncmp(p, "auto_round:auto_gptq", 20) || !strcmp(p, "auto_round:gptq") ||
        !strncmp(p, "auto_round:gptq:", 16))
        return 0;
    return err_set(e,
                   "%s: auto-round packing_format '%.40s' is not supported: export the model "
                   "again with format 'auto_gptq'",
                   where, p);
}

const char *qc_method_name(enum quant_method m)
{
    static const char *const names[] = {[QUANT_GPTQ] = "gptq",
                                        [QUANT_AWQ] = "awq",
                                        [QUANT_COMPRESSED] = "compressed-tensors",
                                        [QUANT_MXFP4] = "mxfp4"};
    return names[m];
}

/* What a method that is not read is. */
static const char *foreign_method(const char *m)
{
    static const char *const known[][2] = {
        {"fp8", "8-bit floats"},
        {"fbgemm_fp8", "8-bit floats"},
        {"modelopt", "8- or 4-bit floats of NVIDIA"},
        {"modelopt_fp4", "4-bit floats of NVIDIA (nvfp4)"},
        {"bitsandbytes", "nf4 or int8 for one GPU library"},
        {"hqq", "half-quadratic quantization"},
        {"aqlm", "codebooks"},
        {"vptq", "codebooks"},
        {"quip", "codebooks"},
        {"quark", "AMD's formats"},
        {"torchao", "PyTorch's formats"},
        {"gguf", "llama.cpp's formats"},
        {"exl2", "ExLlamaV2's format"},
        {"exl3", "ExLlamaV3's format"},
        {"bitnet", "ternary weights"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcasecmp(m, known[i][0])) return known[i][1];
    return NULL;
}

static int parse_method(struct quant_config *q, const json_t *j, const char *where, struct err *e)
{
    const char *key;
    const json_t *v = first_of(j, method_keys, &key);
    const char *m = json_string_value(v);
    if (v && !m) return err_set(e, "%s: quant_method is not a string", where);
    if (!m && json_object_get(j, "config_groups")) return q->method = QUANT_COMPRESSED, 0;
    if (!m || !strcasecmp(m, "gptq")) return 0;
    if (!strcasecmp(m, "awq")) return q->method = QUANT_AWQ, 0;
    if (!strcasecmp(m, "compressed-tensors")) return q->method = QUANT_COMPRESSED, 0;
    if (!strcasecmp(m, "mxfp4")) return q->method = QUANT_MXFP4, 0;
    if (!strcasecmp(m, "auto-round") || !strcasecmp(m, "auto_round") ||
        !strcasecmp(m, "intel/auto-round"))
        return parse_auto_round(q, j, where, e);
    if (!strcasecmp(m, "marlin") || !strcasecmp(m, "bitblas"))
        return err_set(e,
                       "%s: '%.20s' is a layout for one GPU kernel and is not read: use the "
                       "checkpoint in format 'gptq' it was made from",
                       where, m);
    const char *what = foreign_method(m);
    return err_set(e,
                   "%s: quant_method '%.40s'%s%s%s is not supported (gptq, awq, auto-round, "
                   "compressed-tensors pack-quantized and mxfp4 are): use the GPTQ or AWQ export "
                   "of the model",
                   where, m, what ? " (" : "", what ? what : "", what ? ")" : "");
}

/* Not "version" and "backend", which say other things, too. */
static int is_format_key(const char *key) { return key && strstr(key, "format") != NULL; }

/* checkpoint_format and its aliases. *label: -1 if not declared. */
static int parse_format(const struct quant_config *q, const json_t *j, const char *where,
                        int *label, struct err *e)
{
    const char *key = NULL;
    const json_t *v = first_of(j, format_keys, &key);
    const char *f = json_string_value(v);
    const char *said = key, *m = json_string_value(first_of(j, method_keys, &key));
    int flag = 0;
    *label = -1;
    if (m && strcasestr(m, "round")) return 0; /* packing_format said it */
    if (v && !f && is_format_key(said)) return err_set(e, "%s: %s is not a name", where, said);
    const json_t *marlin = json_object_get(j, "is_marlin_format");
    if (marlin && !json_is_null(marlin) && as_bool(marlin, &flag))
        return err_set(e, "%s: is_marlin_format is neither true nor false", where);
    if (flag) f = "marlin";
    if (!f) return 0;
    if (!strcasecmp(f, "gptq_v2")) *label = LABEL_V2;
    else if (!strcasecmp(f, "gptq_p")) *label = LABEL_PLANAR;
    else if (!strcasecmp(f, "gptq")) *label = LABEL_V1;
    else if (!strncasecmp(f, "marlin", 6) || !strcasecmp(f, "bitblas") || !strcasecmp(f, "qqq") ||
             !strcasecmp(f, "eora"))
        return err_set(e,
                       "%s: format '%.20s' is a layout for one GPU kernel and is not read: use the "
                       "checkpoint in format 'gptq' it was made from",
                       where, f);
    else if (q->method == QUANT_AWQ && strcasecmp(f, "gemm"))
        return err_set(e,
                       "%s: AWQ version '%.20s' is not supported, 'gemm' is: save the model again "
                       "with version='GEMM'",
                       where, f);
    else if (q->method == QUANT_GPTQ && is_format_key(said))
        return err_set(e, "%s: %s '%.20s' is not supported (gptq, gptq_v2 and gptq_p are)", where,
                       said, f);
    return 0;
}

static void take_quantizer(struct quant_config *q, const json_t *j)
{
    const json_t *v = json_object_get(json_object_get(j, "meta"), "quantizer");
    if (json_is_array(v)) v = json_array_get(v, 0);
    const char *s = json_string_value(v);
    if (json_object_get(j, "autoround_version")) q->by_auto_round = 1;
    if (!s) s = json_string_value(json_object_get(j, "quantizer"));
    if (!s || q->quantizer[0]) return;
    snprintf(q->quantizer, sizeof q->quantizer, "%s", s);
    /* %s may have cut a UTF-8 sequence, and the text goes into JSON: only ASCII is kept. */
    for (char *p = q->quantizer; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e) *p = '?';
    q->by_gptqmodel = !strncasecmp(s, "gptqmodel", 9);
}

/* meta.w4a4: {"bits": 4, "outliers": N} beside bits 8 (docs/quantize.md). */
static int take_w4a4(struct quant_config *q, const json_t *j, const char *where, struct err *e)
{
    const json_t *v = json_object_get(json_object_get(j, "meta"), "w4a4");
    int bits, outliers;
    if (!v || json_is_null(v) || json_is_false(v)) return 0;
    if (as_int(json_object_get(v, "bits"), &bits) || bits != 4 ||
        as_int(json_object_get(v, "outliers"), &outliers) || outliers < 1 || q->bits != 8 ||
        q->method != QUANT_GPTQ || q->label != LABEL_V1)
        return err_set(e,
                       "%s: meta.w4a4 is not of a checkpoint in format 'gptq' with 8 bits, "
                       "4-bit codes and outliers",
                       where);
    q->outliers = outliers;
    return 0;
}

int qc_merge(struct quant_config *q, const json_t *j, const char *where, const struct notes *n,
             struct err *e)
{
    int first = !q->present, label, act;
    enum quant_method before = q->method;
    const char *key;
    q->method = QUANT_GPTQ;
    if (parse_method(q, j, where, e)) return -1;
    if (!first && !first_of(j, method_keys, &key)) q->method = before;
    if (!first && q->method != before)
        return err_set(e, "%s: quant_method differs from what another file of the directory says",
                       where);
    if (q->method == QUANT_COMPRESSED) return qct_merge(q, j, where, e);
    if (parse_format(q, j, where, &label, e)) return -1;
    if (label >= 0 && first) q->label = (enum quant_label)label;
    else if (label >= 0 && (enum quant_label)label != q->label)
        note_warn(n, "%s says another checkpoint_format than the first file read: using %s", where,
                  q->label == LABEL_V1   ? "gptq"
                  : q->label == LABEL_V2 ? "gptq_v2"
                                         : "gptq_p");
    if (merge_int(j, bits_keys, &q->bits, where, n, e) ||
        merge_int(j, group_keys, &q->group, where, n, e) || merge_sym(q, j, where, n, e))
        return -1;
    const json_t *v = first_of(j, act_keys, &key);
    if (v && as_bool(v, &act)) return err_set(e, "%s: %s is neither true nor false", where, key);
    if (v && first) q->desc_act = act;
    const json_t *pack = json_object_get(j, "pack_dtype");
    if (json_is_string(pack) && !strstr(json_string_value(pack), "int32"))
        return err_set(
            e, "%s: pack_dtype '%.20s' is not supported, int32 is: pack the model again with int32",
            where, json_string_value(pack));
    const json_t *rot = json_object_get(j, "rotation");
    if (!rot) rot = json_object_get(json_object_get(j, "meta"), "rotation");
    if (rot && !json_is_null(rot) && !json_is_false(rot))
        return err_set(e,
                       "%s: 'rotation' needs a Hadamard transform of the activations at run time, "
                       "which is not supported: quantize without it",
                       where);
    if (q->bits < 0 || q->bits == 1 || q->bits > 8)
        return err_set(e, "%s: bits %d is not supported (2 to 8 are)", where, q->bits);
    take_quantizer(q, j);
    if (take_w4a4(q, j, where, e)) return -1;
    const char *base = json_string_value(json_object_get(j, "model_file_base_name"));
    if (base && !q->base_name && !(q->base_name = strdup(base))) return err_memory(e);
    json_t *dyn = json_object_get(j, "dynamic");
    if (dyn && !json_is_object(dyn) && !json_is_null(dyn) && !json_is_false(dyn))
        return err_set(e, "%s: dynamic is not an object of patterns", where);
    if (json_is_object(dyn) && !q->dynamic) q->dynamic = json_deep_copy(dyn);
    q->present = 1;
    return json_check(e);
}

const json_t *qc_inside(const json_t *config, const char **key)
{
    /* compression_config is the key of compressed-tensors before 0.6 */
    static const char *const keys[] = {"quantization_config", "compression_config", NULL};
    const json_t *found = first_of(config, keys, key);
    /* of a model with images, now and then in its language model */
    return found ? found : first_of(json_object_get(config, "text_config"), keys, key);
}

int qc_read(struct quant_config *q, const struct hf_dir *d, const json_t *config,
            const struct notes *n, struct err *e)
{
    static const char *const files[] = {"quantize_config.json", "quant_config.json"};
    memset(q, 0, sizeof *q);
    for (int i = 0; i < 2; i++) {
        json_t *j;
        if (hfd_json(d, files[i], &j, e)) return -1;
        if (!j) continue;
        int rc = qc_merge(q, j, files[i], n, e);
        json_decref(j);
        if (rc) return err_prefix(e, "%s", d->path);
    }
    const char *key;
    const json_t *inside = qc_inside(config, &key);
    if (inside) {
        if (!json_is_object(inside))
            return err_set(e, "%s/config.json: %s is not an object", d->path, key);
        if (qc_merge(q, inside, "config.json", n, e)) return err_prefix(e, "%s", d->path);
    }
    return 0;
}

/* Reads a TGI tensor, which holds one integer. */
static int scalar_tensor(const struct hf_dir *d, const char *name, json_t *into, struct err *e)
{
    const struct hf_tensor *t = hfd_find(d, name);
    uint8_t raw[8] = {0};
    if (!t) return 0;
    if (t->t->bytes == 0 || t->t->bytes > 8 ||
        (t->t->dtype != DT_I32 && t->t->dtype != DT_I64 && t->t->dtype != DT_BOOL &&
         t->t->dtype != DT_U8))
        return err_set(e, "%s: tensor '%s' is not one integer", t->shard->path, name);
    if (st_read(t->shard, raw, t->t->offset, t->t->bytes, e)) return -1;
    int64_t wide;
    int32_t narrow;
    memcpy(&wide, raw, 8);
    memcpy(&narrow, raw, 4);
    json_object_set_new(into, name, json_integer(t->t->bytes == 8 ? wide : narrow));
    return 0;
}

int qc_read_shards(struct quant_config *q, const struct hf_dir *d, const struct notes *n,
                   struct err *e)
{
    static const char *const tgi[] = {"gptq_bits", "gptq_groupsize", "gptq_sym"};
    int rc = 0;
    for (size_t i = 0; i < d->n_shards && !rc; i++)
        if (st_meta(&d->shards[i], "gptq_bits")) {
            rc = qc_merge(q, d->shards[i].metadata, "metadata of the safetensors file", n, e);
            break;
        }
    json_t *j = json_object();
    for (int i = 0; i < 3 && !rc; i++) rc = scalar_tensor(d, tgi[i], j, e);
    if (!rc) rc = json_check(e);
    if (!rc && json_object_size(j)) rc = qc_merge(q, j, "gptq_* tensors", n, e);
    json_decref(j);
    return rc ? err_prefix(e, "%s", d->path) : 0;
}

int qc_match(const char *pattern, const char *module, int *yes, struct err *e)
{
    int code, rc = -1;
    PCRE2_SIZE at;
    pcre2_match_data *m = NULL;
    pcre2_match_context *ctx = NULL;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED,
                                   &code, &at, NULL);
    if (!re && code == PCRE2_ERROR_HEAP_FAILED) {
        err_memory(e);
        goto fail;
    }
    if (!re) {
        err_set(e, "quantization config: '%.100s' is not a regular expression", pattern);
        goto fail;
    }
    m = pcre2_match_data_create_from_pattern(re, NULL);
    ctx = pcre2_match_context_create(NULL);
    if (!m || !ctx) {
        err_memory(e);
        goto fail;
    }
    pcre2_set_match_limit(ctx, 100000);
    pcre2_set_heap_limit(ctx, 16384);
    int r = pcre2_match(re, (PCRE2_SPTR)module, strlen(module), 0, 0, m, ctx);
    if (r == PCRE2_ERROR_NOMEMORY) {
        err_memory(e);
        goto fail;
    }
    if (r < 0 && r != PCRE2_ERROR_NOMATCH) {
        err_set(e, "quantization config: '%.100s' is too expensive to match", pattern);
        goto fail;
    }
    *yes = r >= 0;
    rc = 0;
fail:
    pcre2_match_context_free(ctx);
    pcre2_match_data_free(m);
    pcre2_code_free(re);
    return rc;
}

/* Overrides of bits, group_size and sym. WHERE: the key and the pattern, for messages. */
static int override(struct quant_module *m, const json_t *over, const char *where,
                    const char *pattern, struct err *e)
{
    const char *key;
    const json_t *v = first_of(over, bits_keys, &key);
    if (v && (as_int(v, &m->bits) || m->bits < 2 || m->bits > 8))
        return err_set(e, "quantization config: %s '%.100s': bits is not 2 to 8", where, pattern);
    v = first_of(over, group_keys, &key);
    if (v && as_int(v, &m->group))
        return err_set(e, "quantization config: %s '%.100s': group_size is not an integer", where,
                       pattern);
    v = first_of(over, sym_keys, &key);
    if (v && as_bool(v, &m->sym))
        return err_set(e, "quantization config: %s '%.100s': sym is neither true nor false", where,
                       pattern);
    if (v) m->sym_said = 1;
    return 0;
}

/* AutoRound: the module's name, or a pattern found anywhere in it. */
static int extra_of(const struct quant_config *q, const char *module, struct quant_module *m,
                    struct err *e)
{
    const char *pattern;
    json_t *over = json_object_get(q->extra, module);
    if (json_is_object(over)) return override(m, over, "extra_config", module, e);
    json_object_foreach (q->extra, pattern, over) {
        char anywhere[512];
        int yes = 0;
        if (!strpbrk(pattern, "*+?^$()[]{}|\\") || !json_is_object(over)) continue;
        snprintf(anywhere, sizeof anywhere, ".*(?:%s)", pattern);
        if (qc_match(anywhere, module, &yes, e)) return -1;
        if (yes) return override(m, over, "extra_config", pattern, e);
    }
    return 0;
}

int qc_module(const struct quant_config *q, const char *module, struct quant_module *m,
              struct err *e)
{
    if (q->method == QUANT_COMPRESSED) return qct_module(q, module, m, e);
    *m = (struct quant_module){q->bits, q->group, q->sym, q->sym_said, 0};
    const char *pattern;
    json_t *over;
    json_object_foreach (q->dynamic, pattern, over) {
        int skip = !strncmp(pattern, "-:", 2), plus = !strncmp(pattern, "+:", 2), yes = 0;
        if (qc_match(pattern + (skip || plus ? 2 : 0), module, &yes, e)) return -1;
        if (!yes) continue;
        if (skip || !json_is_object(over))
            return 0; /* the module is declared unquantized; its tensors have priority */
        return override(m, over, "dynamic", pattern, e);
    }
    return q->extra ? extra_of(q, module, m, e) : 0;
}

void qc_free(struct quant_config *q)
{
    json_decref(q->dynamic);
    json_decref(q->extra);
    json_decref(q->groups);
    free(q->base_name);
    memset(q, 0, sizeof *q);
}
