#include "convert/quant_compressed.h"

#include "core/base/json.h"

#include <string.h>
#include <strings.h>

#define INSTEAD "use the W4A16 or W8A16 (pack-quantized), GPTQ or AWQ export of the model"

static int is_there(const json_t *v) { return v && !json_is_null(v); }

/* A string of an object; "" if there is none. */
static const char *text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static int refuse_format(const char *format, const char *where, struct err *e)
{
    static const struct {
        const char *name, *what;
    } known[] = {
        {"float-quantized", "8-bit floats (fp8)"},
        {"nvfp4-pack-quantized", "4-bit floats of NVIDIA (nvfp4)"},
        {"mxfp4-pack-quantized", "4-bit floats with scales in E8M0 (mxfp4)"},
        {"mxfp6-pack-quantized", "6-bit floats"},
        {"mxfp8-quantized", "8-bit floats"},
        {"marlin-24", "a layout for one GPU kernel, with 2:4 sparsity"},
        {"sparse-24-bitmask", "2:4 sparsity"},
        {"sparse-bitmask", "sparse weights"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(format, known[i].name))
            return err_set(e, "%s: compressed-tensors format '%s', %s, is not supported: " INSTEAD,
                           where, format, known[i].what);
    return err_set(e, "%s: compressed-tensors format '%.40s' is not supported: " INSTEAD, where,
                   *format ? format : "(none)");
}

/* actorder: "group" (also true, "dynamic") sorts the inputs by group and stores weight_g_idx;
 * "weight" (also "static") leaves the groups in order. */
static int order_of(const json_t *weights, int *ordered, const char *where, struct err *e)
{
    const json_t *v = json_object_get(weights, "actorder");
    const char *s = json_string_value(v);
    *ordered = json_is_true(v) || (s && (!strcasecmp(s, "group") || !strcasecmp(s, "dynamic")));
    if (!is_there(v) || json_is_boolean(v) || *ordered) return 0;
    if (s && (!strcasecmp(s, "weight") || !strcasecmp(s, "static"))) return 0;
    return err_set(e,
                   "%s: compressed-tensors actorder '%.20s' is not supported (group and weight "
                   "are): " INSTEAD,
                   where, s ? s : "?");
}

/* 1: weights are signed bytes, one for each (plan_packed.c). */
static int has_bytes(const char *format)
{
    return !strcmp(format, "int-quantized") || !strcmp(format, "naive-quantized");
}

/* Inputs may be rounded to 8 bits with a scale for each token: nothing of that is stored, and what
 * they are rounded to is --act's affair. */
static int check_inputs(const char *name, const json_t *act, const char *where, struct err *e)
{
    const json_t *bits = json_object_get(act, "num_bits"),
                 *dynamic = json_object_get(act, "dynamic"),
                 *sym = json_object_get(act, "symmetric");
    const char *type = text_of(act, "type"), *strategy = text_of(act, "strategy"), *what = NULL;
    if (!is_there(act)) return 0;
    if (*type && strcmp(type, "int")) what = "inputs of another type than int";
    else if (json_integer_value(bits) != 8) what = "inputs of other than 8 bits";
    else if (!json_is_true(dynamic)) what = "static scales of inputs (dynamic is not true)";
    else if (is_there(sym) && !json_is_true(sym)) what = "asymmetric inputs";
    else if (strcmp(strategy, "token")) what = "scales of inputs by other than token";
    if (!what) return 0;
    return err_set(e,
                   "%s: compressed-tensors group '%.40s': %s are not supported (int, 8 bits, "
                   "dynamic, symmetric, a scale for each token are): " INSTEAD,
                   where, name, what);
}

/* Of signed bytes: 8 bits, or 4 with 8 for inputs (W4A8). */
static int check_bytes(const char *name, const json_t *w, const char *where, struct err *e)
{
    const json_t *sym = json_object_get(w, "symmetric");
    json_int_t b = json_integer_value(json_object_get(w, "num_bits"));
    int ordered;
    if (is_there(sym) && !json_is_true(sym))
        return err_set(e,
                       "%s: compressed-tensors group '%.40s': asymmetric weights as bytes are not "
                       "supported: " INSTEAD,
                       where, name);
    if (b != 4 && b != 8)
        return err_set(e,
                       "%s: compressed-tensors group '%.40s': num_bits %d as bytes is not "
                       "supported (4 and 8 are)",
                       where, name, b >= 0 && b < 100 ? (int)b : -1);
    if (order_of(w, &ordered, where, e)) return -1;
    if (!ordered) return 0;
    return err_set(e,
                   "%s: compressed-tensors group '%.40s': an order of inputs (actorder) with "
                   "weights as bytes is not supported: " INSTEAD,
                   where, name);
}

static int check_group(const char *name, const json_t *group, const char *format, const char *where,
                       struct err *e)
{
    const json_t *w = json_object_get(group, "weights"), *size = json_object_get(w, "group_size"),
                 *bits = json_object_get(w, "num_bits");
    const char *strategy = text_of(w, "strategy"), *own = text_of(group, "format");
    int bytes = has_bytes(*own ? own : format);
    int ordered;
    json_int_t b = json_integer_value(bits);
    if (!json_is_array(json_object_get(group, "targets")) || !json_is_object(w))
        return err_set(e, "%s: compressed-tensors group '%.40s' has no targets or no weights",
                       where, name);
    if (!bytes && strcmp(*own ? own : format, "pack-quantized"))
        return refuse_format(*own ? own : format, where, e);
    if (check_inputs(name, json_object_get(group, "input_activations"), where, e)) return -1;
    if (strcmp(text_of(w, "type"), "int") && *text_of(w, "type"))
        return err_set(e, "%s: compressed-tensors type '%.20s' is not supported, int is: " INSTEAD,
                       where, text_of(w, "type"));
    if (!json_is_integer(bits) || (b != 2 && b != 4 && b != 8))
        return err_set(e,
                       "%s: compressed-tensors group '%.40s': num_bits %d is not supported (2, 4 "
                       "and 8 are)",
                       where, name, b >= 0 && b < 100 ? (int)b : -1);
    if (bytes && check_bytes(name, w, where, e)) return -1;
    if (*strategy && strcmp(strategy, "group") && strcmp(strategy, "channel") &&
        !(bytes && !strcmp(strategy, "tensor")))
        return err_set(e,
                       "%s: compressed-tensors strategy '%.20s' is not supported (group and "
                       "channel are): " INSTEAD,
                       where, strategy);
    if (is_there(json_object_get(w, "symmetric")) &&
        !json_is_boolean(json_object_get(w, "symmetric")))
        return err_set(e,
                       "%s: compressed-tensors group '%.40s': symmetric is neither true nor "
                       "false",
                       where, name);
    if (order_of(w, &ordered, where, e)) return -1;
    if (is_there(size) && (!json_is_integer(size) || json_integer_value(size) < -1 ||
                           json_integer_value(size) > 1 << 24))
        return err_set(e, "%s: compressed-tensors group '%.40s': group_size is not usable", where,
                       name);
    return 0;
}

int qct_merge(struct quant_config *q, const json_t *j, const char *where, struct err *e)
{
    json_t *groups = json_object_get(j, "config_groups"), *group;
    const json_t *sparse = json_object_get(j, "sparsity_config"),
                 *turn = json_object_get(j, "transform_config");
    const char *format = text_of(j, "format"), *name;
    if (is_there(sparse) && strcmp(text_of(sparse, "format"), "dense") && json_object_size(sparse))
        return refuse_format(text_of(sparse, "format"), where, e);
    if (json_object_size(json_object_get(turn, "config_groups")))
        return err_set(e,
                       "%s: 'transform_config' needs a transform of the activations at run time, "
                       "which is not supported: quantize without it",
                       where);
    if (strcmp(format, "pack-quantized") && strcmp(format, "mixed-precision") && *format &&
        !has_bytes(format))
        return refuse_format(format, where, e);
    if (!json_is_object(groups) || !json_object_size(groups))
        return err_set(e, "%s: compressed-tensors has no config_groups", where);
    json_object_foreach (groups, name, group)
        if (check_group(name, group, format, where, e)) return -1;
    if (!q->groups) q->groups = json_deep_copy(groups);
    q->present = 1;
    return json_check(e);
}

/* How well a target fits a module: 3 its name, 2 a pattern, 1 its class, 0 not at all. */
static int fit(const char *target, const char *module, int *how, struct err *e)
{
    int yes = 0;
    *how = 0;
    if (!strncmp(target, "re:", 3)) {
        if (qc_match(target + 3, module, &yes, e)) return -1;
        *how = yes ? 2 : 0;
    } else if (!strcmp(target, module)) {
        *how = 3;
    } else if (!strcmp(target, "Linear")) {
        *how = 1;
    }
    return 0;
}

int qct_module(const struct quant_config *q, const char *module, struct quant_module *m,
               struct err *e)
{
    const json_t *best = NULL;
    int best_fit = 0, how, ordered;
    const char *name;
    json_t *group;
    json_object_foreach (q->groups, name, group) {
        const json_t *targets = json_object_get(group, "targets");
        for (size_t i = 0; i < json_array_size(targets); i++) {
            const char *t = json_string_value(json_array_get(targets, i));
            if (t && fit(t, module, &how, e)) return -1;
            if (t && how > best_fit) best_fit = how, best = json_object_get(group, "weights");
        }
    }
    if (!best)
        return err_set(e,
                       "quantization config: module '%s' is packed, but no group of config_groups "
                       "has a target for it",
                       module);
    const json_t *size = json_object_get(best, "group_size");
    int channel = !strcmp(text_of(best, "strategy"), "channel") ||
                  !strcmp(text_of(best, "strategy"), "tensor");
    if (order_of(best, &ordered, module, e)) return -1;
    *m = (struct quant_module){
        .bits = (int)json_integer_value(json_object_get(best, "num_bits")),
        .group = channel || !json_is_integer(size) ? -1 : (int)json_integer_value(size),
        .sym = !json_is_false(json_object_get(best, "symmetric")),
        .sym_said = 1,
        .ordered = ordered};
    return 0;
}
