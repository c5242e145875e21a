#include "convert/list.h"

#include "convert/convert.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 4096 };

enum { TEXT = 200 };

/* A string of the stranger's file, fit for a terminal; "": there is none. */
static const char *printable(const json_t *v, char text[TEXT])
{
    const char *s = json_string_value(v);
    snprintf(text, TEXT, "%s", s ? s : "");
    err_printable(text);
    return text;
}

static const char *text_at(const json_t *j, const char *key, char text[TEXT])
{
    return printable(json_object_get(j, key), text);
}

/* The type of model, also of one that is not supported. */
static void print_type(FILE *out, const json_t *config)
{
    char a[TEXT], b[TEXT];
    const char *class = printable(json_array_get(json_object_get(config, "architectures"), 0), a),
               *type = text_at(config, "model_type", b);
    fprintf(out, "model          %s%s%s%s\n", *type ? type : "?", *class ? " (" : "", class,
            *class ? ")" : "");
}

/* The method as the checkpoint declares it, whether it is supported or not. */
static void print_declared(FILE *out, const json_t *config)
{
    const char *key;
    const json_t *q = qc_inside(config, &key);
    char a[TEXT], b[TEXT];
    const char *method = text_at(q, "quant_method", a), *format = text_at(q, "format", b);
    if (!*format) format = text_at(q, "packing_format", b);
    if (*method)
        fprintf(out, "quantization   %s%s%s, as config.json says\n", method, *format ? ", " : "",
                format);
}

static void print_quantization(FILE *out, const struct plan *p)
{
    const struct plan_facts *f = &p->facts;
    fprintf(out, "quantization   ");
    if (!f->n_quantized) {
        fprintf(out, "none: %d plain linears\n", f->n_plain);
        return;
    }
    fprintf(out, "%s, ", qc_method_name(p->quant->method));
    const char *sep = "";
    for (int b = 2; b <= 8; b++)
        if (f->bits_seen[b]) fprintf(out, "%s%d", sep, b), sep = " and ";
    fprintf(out, " bits, groups of %d", f->group_min);
    if (f->group_max != f->group_min) fprintf(out, " to %d", f->group_max);
    fprintf(out, ", %s, %s; %d linear%s quantized, %d plain\n",
            f->n_asymmetric ? "asymmetric" : "symmetric",
            f->n_act_order ? "act-order" : "no act-order", f->n_quantized,
            units_s((uint64_t)f->n_quantized), f->n_plain);
    if (f->outliers)
        fprintf(out,
                "W4A4           the %d largest inputs of a linear have 8 bits; with --act int4 "
                "activations have 4 bits in groups, those 8\n",
                f->outliers);
}

static uint64_t file_bytes(const struct plan *p)
{
    const struct out_tensor *last = &p->tensors[p->n_tensors - 1];
    return last->offset + last->bytes;
}

/* Layers with keys and values of their own, and bytes of those for a position with --kv f16. */
static uint64_t kv_bytes(const struct hf_config *c)
{
    uint64_t n = 0;
    for (int i = 0; i < c->n_layers; i++) {
        int heads = c->kv_heads ? c->kv_heads[i] : c->n_kv_heads,
            dim = c->head_dims ? c->head_dims[i] : c->head_dim;
        if ((c->linear && c->linear[i]) || (c->kv_from && c->kv_from[i] != i)) continue;
        n += c->traits & HF_LATENT ? (uint64_t)(c->latent_dim + dim) * 2
                                   : (uint64_t)heads * (uint64_t)dim * 2 * 2;
    }
    return n;
}

/* Bytes of the recurrent states of one sequence: a matrix for each value head, and the last inputs
 * of the convolution, in fp32. *layers: layers with states. */
static uint64_t state_bytes(const struct hf_config *c, int *layers)
{
    uint64_t keys = (uint64_t)c->linear_key_heads * (uint64_t)c->linear_key_dim,
             values = (uint64_t)c->linear_value_heads * (uint64_t)c->linear_value_dim;
    uint64_t each = values * (uint64_t)c->linear_key_dim +
                    (2 * keys + values) * (uint64_t)(c->conv_width > 0 ? c->conv_width - 1 : 0);
    *layers = 0;
    for (int i = 0; i < c->n_layers && c->linear; i++) *layers += c->linear[i] != 0;
    return 4 * each * (uint64_t)*layers;
}

static void print_memory(FILE *out, const struct hf_config *c, uint64_t weights, int n_ctx)
{
    char a[32], b[32], d[32], all[32];
    int layers, context = n_ctx ? n_ctx : c->context < CONTEXT ? c->context : CONTEXT;
    uint64_t kv = kv_bytes(c) * (uint64_t)context, states = state_bytes(c, &layers);
    if (layers)
        fprintf(out, "states         %d of %d layer%s recurrent: %s for a sequence\n", layers,
                c->n_layers, c->n_layers == 1 ? " is" : "s are", units_bytes(states, a));
    fprintf(out, "memory         %s at -c %d: weights %s, keys and values %s",
            units_bytes(weights + kv + states, all), context, units_bytes(weights, a),
            units_bytes(kv, b));
    if (layers) fprintf(out, ", states %s", units_bytes(states, d));
    fprintf(out, "\n");
}

static void print_plan(FILE *out, const struct plan *p, uint64_t rounded, int n_ctx)
{
    const struct hf_config *c = p->config;
    char a[32], b[32];
    int layers = 0;
    print_quantization(out, p);
    fprintf(out, "converts       yes, as %s\n", c->architecture);
    fprintf(out, "size           %s", units_bytes(file_bytes(p), a));
    if (rounded) fprintf(out, ", %s with --plain 8bit", units_bytes(rounded, b));
    fprintf(out, "\n");
    for (int i = 0; i < c->n_layers && c->experts; i++) layers += c->experts[i] != 0;
    if (layers)
        fprintf(out, "experts        %d in %d of %d layer%s, %d active for a token%s\n",
                c->n_experts, layers, c->n_layers, units_s((uint64_t)c->n_layers), c->top_k,
                c->shared_ffn ? " and a shared one" : "");
    print_memory(out, c, file_bytes(p), n_ctx);
    if (n_ctx > c->context)
        fprintf(out, "               (the model was made for %d positions)\n", c->context);
}

/* *bytes: size of the model file with --plain 8bit. */
static int size_rounded(struct checkpoint *k, const struct notes *n, uint64_t *bytes, struct err *e)
{
    struct plan p = {0};
    const struct plan_options o = {.no_tokenizer = 1, .plain8 = 1, .sizes_only = 1};
    int rc = plan_build(&p, &k->dir, &k->model, &k->quant, &o, n, e);
    if (!rc) *bytes = file_bytes(&p);
    plan_free(&p);
    return rc;
}

int list_print(FILE *out, const char *dir, int n_ctx, struct err *e)
{
    const struct notes silent = {.quiet = 1, .silent = 1};
    const struct plan_options o = {0};
    struct checkpoint k;
    struct plan p = {0};
    uint64_t rounded = 0;
    int rc = checkpoint_open(&k, dir, 0, &silent, e);
    if (k.config) {
        fprintf(out, "checkpoint     %s\n", dir);
        print_type(out, k.config);
    }
    if (!rc) rc = plan_build(&p, &k.dir, &k.model, &k.quant, &o, &silent, e);
    if (!rc && p.facts.n_plain) rc = size_rounded(&k, &silent, &rounded, e);
    if (!rc) {
        print_plan(out, &p, rounded, n_ctx);
    } else if (k.config && !err_is_memory(e)) {
        print_declared(out, k.config);
        fprintf(out, "converts       no: %s\n", e->msg);
        err_set(e, "%s: does not convert", dir);
    }
    plan_free(&p);
    checkpoint_close(&k);
    return rc;
}
