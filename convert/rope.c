/* rope.c: RoPE tables, computed in fp32 step by step as transformers' modeling_rope_utils on torch
 * tensors: a Python float combined with an fp32 tensor becomes fp32 first, and x / tensor is
 * reciprocal(tensor) * x. */
#include "convert/hf_config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rope_options {
    const json_t *j; /* rope_scaling or rope_parameters, or NULL */
    const char *type;
    double theta;
};

static const json_t *not_null(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return v && !json_is_null(v) ? v : NULL;
}

/* A positive number. A missing key gives `fallback`; a fallback of 0 makes the key required. */
static int number(const struct rope_options *o, const char *key, double fallback, double *out,
                  struct err *e)
{
    const json_t *v = not_null(o->j, key);
    if (v ? !json_is_number(v) : fallback == 0)
        return err_set(e, "config.json: rope '%.20s': %s is %s", o->type, key,
                       v ? "not a number" : "missing");
    *out = v ? json_number_value(v) : fallback;
    if (!(*out > 0 && *out < 1e15))
        return err_set(e, "config.json: rope '%.20s': %s is out of range", o->type, key);
    return 0;
}

/* pos_freqs of the plain table: theta ** (2i / dim), correctly rounded (torch is within one unit of
 * it). */
static float pos_freq(double theta, int i, int dim)
{
    return (float)pow((double)(float)theta, (double)((float)(2 * i) / (float)dim));
}

static int llama3(float *f, int n, const struct rope_options *o, double context, struct err *e)
{
    double factor, low, high, old;
    if (number(o, "factor", 0, &factor, e) || number(o, "low_freq_factor", 0, &low, e) ||
        number(o, "high_freq_factor", 0, &high, e) ||
        number(o, "original_max_position_embeddings", context, &old, e))
        return -1;
    if (high == low)
        return err_set(e, "config.json: rope 'llama3': low_freq_factor equals high_freq_factor");
    float low_wave = (float)(old / low), high_wave = (float)(old / high);
    for (int i = 0; i < n; i++) {
        float wave = (1.0f / f[i]) * (float)(2 * M_PI);
        float base = wave > low_wave ? f[i] / (float)factor : f[i];
        if (!(wave < high_wave) && !(wave > low_wave)) {
            float smooth = ((1.0f / wave) * (float)old - (float)low) / (float)(high - low);
            base = (1.0f - smooth) * base / (float)factor + smooth * base;
        }
        f[i] = base;
    }
    return 0;
}

static double mscale_of(double scale, double m)
{
    return scale <= 1 ? 1.0 : 0.1 * m * log(scale) + 1.0;
}

/* The dimension that makes `rotations` turns within the original context (YaRN: Peng et al. 2023).
 */
static double correction_dim(double rotations, int dim, double theta, double context)
{
    return dim * log(context / (rotations * 2 * M_PI)) / (2 * log(theta));
}

static int yarn(struct hf_config *c, const struct rope_options *o, struct err *e)
{
    int dim = c->head_dim;
    double factor, old, fast, slow, m, m_all, attention;
    if (number(o, "original_max_position_embeddings", c->context, &old, e) ||
        number(o, "factor", c->context / old, &factor, e))
        return -1;
    if (number(o, "beta_fast", 32, &fast, e) || number(o, "beta_slow", 1, &slow, e) ||
        number(o, "mscale", 1, &m, e) || number(o, "mscale_all_dim", 1, &m_all, e))
        return -1;
    int both = not_null(o->j, "mscale") && not_null(o->j, "mscale_all_dim");
    if (number(o, "attention_factor",
               both ? mscale_of(factor, m) / mscale_of(factor, m_all) : mscale_of(factor, 1),
               &attention, e))
        return -1;
    double low = correction_dim(fast, dim, o->theta, old),
           high = correction_dim(slow, dim, o->theta, old);
    if (!json_is_false(json_object_get(o->j, "truncate"))) low = floor(low), high = ceil(high);
    low = fmax(low, 0), high = fmin(high, dim - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < dim / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float p = pos_freq(o->theta, i, dim), keep = 1.0f - ramp;
        c->inv_freq[i] = (1.0f / ((float)factor * p)) * (1.0f - keep) + (1.0f / p) * keep;
    }
    c->rope_scale = attention;
    return 0;
}

static int options_of(struct rope_options *o, const json_t *config, struct err *e)
{
    const json_t *params = not_null(config, "rope_parameters"),
                 *scaling = not_null(config, "rope_scaling");
    o->j = params ? params : scaling;
    if (o->j && !json_is_object(o->j))
        return err_set(e, "config.json: %s is not an object",
                       params ? "rope_parameters" : "rope_scaling");
    const json_t *type = not_null(o->j, "rope_type"), *theta = not_null(o->j, "rope_theta");
    if (!type) type = not_null(o->j, "type");
    if (!theta) theta = not_null(config, "rope_theta");
    if ((type && !json_is_string(type)) || (theta && !json_is_number(theta)))
        return err_set(e, "config.json: rope_type or rope_theta has the wrong type");
    o->type = type ? json_string_value(type) : "default";
    o->theta = theta ? json_number_value(theta) : 10000.0;
    if (!(o->theta > 1 && o->theta < 1e30))
        return err_set(e, "config.json: rope_theta is out of range");
    const json_t *partial = not_null(o->j, "partial_rotary_factor");
    if (!partial) partial = not_null(config, "partial_rotary_factor");
    if (partial && json_number_value(partial) != 1)
        return err_set(e, "config.json: partial_rotary_factor other than 1 is not supported");
    if (not_null(o->j, "mrope_section") || !strcmp(o->type, "mrope"))
        return err_set(e, "config.json: mrope (positions of images and video) is not supported: "
                          "use the text-only model");
    return 0;
}

int hfc_rope(struct hf_config *c, const json_t *config, const struct notes *n, struct err *e)
{
    struct rope_options o;
    int dim = c->head_dim;
    double factor = 1;
    if (options_of(&o, config, e)) return -1;
    if (!(c->inv_freq = calloc((size_t)dim / 2, sizeof *c->inv_freq))) return err_memory(e);
    c->rope_scale = 1;
    const char *type = o.type;
    if (!strcmp(type, "dynamic")) {
        /* transformers rescales the table with the length of the text, so that cached keys would
         * depend on later tokens. The table for the full context is fixed, as in vLLM. */
        if (number(&o, "factor", 0, &factor, e)) return -1;
        double longest = c->context * factor;
        if (dim == 2 || longest > INT_MAX || longest < 1)
            return err_set(e, "config.json: rope 'dynamic': factor is out of range");
        o.theta *= pow(factor * longest / c->context - (factor - 1), dim / (dim - 2.0));
        c->context = (int)longest;
        note_info(n, "rope 'dynamic': using the fixed table for %d positions", c->context);
    }
    for (int i = 0; i < dim / 2; i++) c->inv_freq[i] = 1.0f / pos_freq(o.theta, i, dim);
    if (!strcmp(type, "linear")) {
        if (number(&o, "factor", 0, &factor, e)) return -1;
        for (int i = 0; i < dim / 2; i++) c->inv_freq[i] /= (float)factor;
    } else if (!strcmp(type, "llama3")) {
        if (number(&o, "factor", 0, &factor, e) || llama3(c->inv_freq, dim / 2, &o, c->context, e))
            return -1;
    } else if (!strcmp(type, "yarn")) {
        if (number(&o, "factor", 1, &factor, e) || yarn(c, &o, e)) return -1;
    } else if (strcmp(type, "default") && strcmp(type, "dynamic")) {
        return err_set(e,
                       "config.json: rope type '%.40s' is not supported (default, linear, llama3, "
                       "yarn and dynamic are)",
                       type);
    }
    for (int i = 0; i < dim / 2; i++)
        if (!isfinite(c->inv_freq[i]))
            return err_set(e, "config.json: rope '%.20s' gives no finite frequencies", type);
    if (factor != 1)
        snprintf(c->rope, sizeof c->rope, "%s, factor %g, theta %g", type, factor, o.theta);
    else snprintf(c->rope, sizeof c->rope, "%s, theta %g", type, o.theta);
    return 0;
}
