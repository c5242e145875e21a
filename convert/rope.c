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
    const json_t *j;        /* rope_scaling or rope_parameters, or NULL */
    const json_t *original; /* original_max_position_embeddings beside them, or NULL */
    const char *type;
    double theta, part; /* part of a head that rotates */
    double context;     /* max_position_embeddings */
};

static const json_t *not_null(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return v && !json_is_null(v) ? v : NULL;
}

/* The value of a number, also of one written as text. NAN: it is none. */
static double real_of(const json_t *v)
{
    char *end;
    const char *s = json_string_value(v);
    if (!s) return json_is_number(v) ? json_number_value(v) : NAN;
    double x = strtod(s, &end);
    return end == s || *end || !isfinite(x) ? NAN : x;
}

/* A positive number. A missing key gives `fallback`; a fallback of 0 makes the key required. */
static int number(const struct rope_options *o, const char *key, double fallback, double *out,
                  struct err *e)
{
    const json_t *v = not_null(o->j, key);
    *out = v ? real_of(v) : fallback;
    if (v ? isnan(*out) : fallback == 0)
        return err_set(e, "config.json: rope '%.20s': %s is %s", o->type, key,
                       v ? "not a number" : "missing");
    if (!(*out > 0 && *out < 1e15))
        return err_set(e, "config.json: rope '%.20s': %s is out of range", o->type, key);
    return 0;
}

/* A positive number, or `fallback` where the key is missing or 0: transformers' `or`. */
static int number_or(const struct rope_options *o, const char *key, double fallback, double *out,
                     struct err *e)
{
    const json_t *v = not_null(o->j, key);
    *out = fallback;
    int none = !v || real_of(v) == 0;
    return none ? 0 : number(o, key, 0, out, e);
}

/* The context that the model was first trained on. The key of the configuration has priority over
 * the one beside the factors, as in transformers. */
static int original(const struct rope_options *o, double *out, struct err *e)
{
    static const char key[] = "original_max_position_embeddings";
    if (!o->original) return number(o, key, o->context, out, e);
    *out = real_of(o->original);
    if (!(*out > 0 && *out < 1e15)) return err_set(e, "config.json: %s is out of range", key);
    return 0;
}

/* pos_freqs of the plain table: theta ** (2i / dim), correctly rounded (torch is within one unit of
 * it). */
static float pos_freq(double theta, int i, int dim)
{
    return (float)pow((double)(float)theta, (double)((float)(2 * i) / (float)dim));
}

static int llama3(float *f, int n, const struct rope_options *o, struct err *e)
{
    double factor, low, high, old;
    if (number(o, "factor", 0, &factor, e) || number(o, "low_freq_factor", 0, &low, e) ||
        number(o, "high_freq_factor", 0, &high, e) || original(o, &old, e))
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

/* yarn's truncate: true where the key is missing, false where it is null, as in transformers. */
static int truncates(const struct rope_options *o, int *out, struct err *e)
{
    const json_t *v = json_object_get(o->j, "truncate");
    *out = !v || json_is_true(v) || json_integer_value(v) == 1;
    if (!v || json_is_null(v) || json_is_boolean(v)) return 0;
    if (json_is_integer(v) && (json_integer_value(v) == 0 || *out)) return 0;
    return err_set(e, "config.json: rope 'yarn': truncate is neither true nor false");
}

/* Keys of yarn that transformers does not know and other programs multiply by. */
static void note_foreign(const struct rope_options *o, const struct notes *n)
{
    static const char *const keys[] = {"attn_factor", "extrapolation_factor"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = not_null(o->j, keys[i]);
        if (v && real_of(v) != 1)
            note_warn(n,
                      "config.json: rope 'yarn': %s is left out, as transformers does; vLLM "
                      "multiplies by it (attention_factor says the whole factor to both)",
                      keys[i]);
    }
}

static int yarn(struct hf_config *c, const struct rope_options *o, struct err *e)
{
    enum { NONE = -1 };
    int dim = c->rotary;
    double factor, old, fast, slow, m, m_all, attention;
    int whole;
    if (original(o, &old, e) || number(o, "factor", c->context / old, &factor, e) ||
        truncates(o, &whole, e))
        return -1;
    if (number_or(o, "beta_fast", 32, &fast, e) || number_or(o, "beta_slow", 1, &slow, e) ||
        number_or(o, "mscale", NONE, &m, e) || number_or(o, "mscale_all_dim", NONE, &m_all, e))
        return -1;
    int both = m != NONE && m_all != NONE;
    if (number(o, "attention_factor",
               both ? mscale_of(factor, m) / mscale_of(factor, m_all) : mscale_of(factor, 1),
               &attention, e))
        return -1;
    double low = correction_dim(fast, dim, o->theta, old),
           high = correction_dim(slow, dim, o->theta, old);
    if (whole) low = floor(low), high = ceil(high);
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

/* The factors of a table of longrope (Ding et al. 2024). */
static int factors(float *f, int n, const struct rope_options *o, const char *key, struct err *e)
{
    const json_t *list = not_null(o->j, key);
    if (!list || json_array_size(list) != (size_t)n)
        return err_set(e, "config.json: rope 'longrope': %s is not a list of %d numbers", key, n);
    for (int i = 0; i < n; i++) {
        double v = real_of(json_array_get(list, (size_t)i));
        if (!(v > 0 && v < 1e15))
            return err_set(e, "config.json: rope 'longrope': %s[%d] is not a positive number", key,
                           i);
        f[i] = (float)v;
    }
    return 0;
}

static int longrope(struct hf_config *c, const struct rope_options *o, struct err *e)
{
    int n = c->rotary / 2;
    double old, factor, attention;
    if (original(o, &old, e)) return -1;
    if (!(old > 1 && old < INT_MAX) || old != floor(old))
        return err_set(e, "config.json: original_max_position_embeddings is out of range");
    if (number(o, "factor", c->context / old, &factor, e) ||
        number(o, "attention_factor", factor <= 1 ? 1 : sqrt(1 + log(factor) / log(old)),
               &attention, e))
        return -1;
    if (!(c->inv_freq_long = calloc((size_t)c->head_dim / 2, sizeof *c->inv_freq_long)))
        return err_memory(e);
    float *tables[] = {c->inv_freq, c->inv_freq_long};
    for (int k = 0; k < 2; k++) {
        if (factors(tables[k], n, o, k ? "long_factor" : "short_factor", e)) return -1;
        for (int i = 0; i < n; i++)
            tables[k][i] = 1.0f / (tables[k][i] * pos_freq(o->theta, i, c->rotary));
    }
    c->rope_long_from = (int)old;
    c->rope_scale = attention;
    return 0;
}

/* Of a head the first part rotates; proportional RoPE (Gemma 4) pairs dimensions over the whole
 * head instead, with frequencies of 0. */
static int take_rotary(struct hf_config *c, double part, int proportional, struct err *e)
{
    if (!(part > 0 && part <= 1))
        return err_set(e, "config.json: partial_rotary_factor is not a number of 0 to 1");
    c->rotary = proportional ? c->head_dim : (int)(c->head_dim * part);
    if (c->rotary % 2 || c->rotary < 2)
        return err_set(e,
                       "config.json: partial_rotary_factor %g: %d dimensions of a head of %d "
                       "cannot be paired",
                       part, c->rotary, c->head_dim);
    return 0;
}

/* Numbers of a type whose name is missing: transformers would leave them out. */
static int check_untyped(const json_t *j, const char *where, struct err *e)
{
    static const char *const keys[] = {"factor",           "beta_fast",    "beta_slow",
                                       "low_freq_factor",  "short_factor", "long_factor",
                                       "high_freq_factor", "mscale",       "mscale_all_dim",
                                       "attention_factor", "alpha",        "truncate"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (not_null(j, keys[i]))
            return err_set(e, "config.json: %s has %s, but no rope_type that it belongs to", where,
                           keys[i]);
    return 0;
}

static int options_of(struct rope_options *o, const struct hf_config *c, const json_t *config,
                      const struct hf_rope_defaults *d, const struct notes *n, struct err *e)
{
    const json_t *params = not_null(config, "rope_parameters"),
                 *scaling = not_null(config, "rope_scaling");
    o->j = params ? params : scaling;
    o->original = not_null(config, "original_max_position_embeddings");
    o->context = c->context;
    if (o->j && !json_is_object(o->j))
        return err_set(e, "config.json: %s is not an object",
                       params ? "rope_parameters" : "rope_scaling");
    const json_t *type = not_null(o->j, "rope_type"), *theta = not_null(o->j, "rope_theta");
    if (!type) type = not_null(o->j, "type");
    if (!theta) theta = not_null(config, "rope_theta");
    if ((type && !json_is_string(type)) || (theta && isnan(real_of(theta))))
        return err_set(e, "config.json: rope_type or rope_theta has the wrong type");
    if (!type && check_untyped(o->j, params ? "rope_parameters" : "rope_scaling", e)) return -1;
    o->type = type ? json_string_value(type) : "default";
    o->theta = theta ? real_of(theta) : d->theta > 0 ? d->theta : 10000.0;
    if (!(o->theta > 1 && o->theta < 1e30))
        return err_set(e, "config.json: rope_theta is out of range");
    const json_t *partial = not_null(o->j, "partial_rotary_factor"),
                 *rotary = not_null(config, "rotary_dim");
    if (!partial) partial = not_null(config, "partial_rotary_factor");
    int phi = c->architecture && !strcmp(c->architecture, "phi3");
    if (c->traits & HF_LATENT) partial = NULL; /* what rotates are all of c->head_dim */
    if (partial && !phi && d->partial == 0 && strcmp(o->type, "proportional")) {
        note_warn(n, "config.json: partial_rotary_factor is ignored for this model, as "
                     "transformers does");
        partial = NULL;
    }
    o->part = partial ? real_of(partial) : d->partial > 0 ? d->partial : 1;
    if (rotary && !partial && d->partial > 0) /* MiniMax; what is over is cut from the product */
        o->part = real_of(rotary) == c->head_dim ? 1 : (real_of(rotary) + 1e-6) / c->head_dim;
    if (phi && (!strcmp(o->type, "su") || !strcmp(o->type, "yarn"))) o->type = "longrope";
    if (c->traits & HF_MROPE) { /* all positions of a text's token are equal */
        if (!strcmp(o->type, "mrope")) o->type = "default";
        return 0;
    }
    if (not_null(o->j, "mrope_section") || !strcmp(o->type, "mrope"))
        return err_set(e, "config.json: mrope (positions of images and video) is not supported: "
                          "use the text-only model");
    return 0;
}

/* Hunyuan's dynamic: a fixed alpha that stretches theta; its other numbers have no meaning. */
static int stretched(struct hf_config *c, const struct rope_options *o, struct err *e)
{
    int dim = c->rotary;
    double alpha;
    if (number(o, "alpha", 0, &alpha, e)) return -1;
    if (dim == 2) return err_set(e, "config.json: rope 'dynamic': alpha with heads of 2");
    double theta = o->theta * pow(alpha, dim / (dim - 2.0));
    for (int i = 0; i < dim / 2; i++) c->inv_freq[i] = 1.0f / pos_freq(theta, i, dim);
    return 0;
}

/* transformers rescales the table with the length of a text that exceeds the model's context, so
 * that cached keys would depend on later tokens. Where more positions are asked for, the table for
 * the full context serves all of them, as in vLLM. */
static int dynamic(struct hf_config *c, const struct rope_options *o, const struct notes *n,
                   double *factor, struct err *e)
{
    int dim = c->rotary;
    if (!strncmp(c->architecture ? c->architecture : "", "hunyuan", 7) && not_null(o->j, "alpha"))
        return stretched(c, o, e);
    if (number(o, "factor", 0, factor, e)) return -1;
    double longest = c->context * *factor;
    if (dim == 2 || longest > INT_MAX || longest < 1)
        return err_set(e, "config.json: rope 'dynamic': factor is out of range");
    double theta = o->theta *
                   pow(*factor * longest / c->context - (*factor - 1), dim / (dim - 2.0));
    if (!(c->inv_freq_long = calloc((size_t)c->head_dim / 2, sizeof *c->inv_freq_long)))
        return err_memory(e);
    for (int i = 0; i < dim / 2; i++) c->inv_freq_long[i] = 1.0f / pos_freq(theta, i, dim);
    c->rope_long_from = c->context;
    note_info(n, "rope 'dynamic': where -c exceeds %d, the fixed table for %d positions is used",
              c->context, (int)longest);
    return 0;
}

/* The table of a type; c->inv_freq is that of the default type on entry. */
static int scale_table(struct hf_config *c, const struct rope_options *o, const struct notes *n,
                       double *factor, struct err *e)
{
    const char *type = o->type;
    int pairs = c->rotary / 2;
    if (!strcmp(type, "linear") || !strcmp(type, "proportional")) {
        if (number(o, "factor", strcmp(type, "linear") ? 1 : 0, factor, e)) return -1;
        for (int i = 0; i < pairs; i++) c->inv_freq[i] /= (float)*factor;
        int angles = (int)(o->part * c->head_dim / 2);
        for (int i = angles; *type == 'p' && i < pairs; i++) c->inv_freq[i] = 0;
        return 0;
    }
    if (!strcmp(type, "llama3"))
        return number(o, "factor", 0, factor, e) || llama3(c->inv_freq, pairs, o, e) ? -1 : 0;
    if (!strcmp(type, "yarn")) {
        note_foreign(o, n);
        return number(o, "factor", 1, factor, e) || yarn(c, o, e) ? -1 : 0;
    }
    if (!strcmp(type, "longrope")) return longrope(c, o, e);
    if (!strcmp(type, "dynamic")) return dynamic(c, o, n, factor, e);
    if (!strcmp(type, "default")) return 0;
    return err_set(e,
                   "config.json: rope type '%.40s' is not supported (default, linear, llama3, "
                   "yarn, longrope, proportional and dynamic are)",
                   type);
}

int hfc_rope(struct hf_config *c, const json_t *config, const struct hf_rope_defaults *d,
             const struct notes *n, struct err *e)
{
    struct rope_options o;
    double factor = 1;
    if (options_of(&o, c, config, d, n, e) ||
        take_rotary(c, o.part, !strcmp(o.type, "proportional"), e))
        return -1;
    if (!(c->inv_freq = calloc((size_t)c->head_dim / 2, sizeof *c->inv_freq))) return err_memory(e);
    c->rope_scale = 1;
    for (int i = 0; i < c->rotary / 2; i++) c->inv_freq[i] = 1.0f / pos_freq(o.theta, i, c->rotary);
    if (scale_table(c, &o, n, &factor, e)) return -1;
    for (int i = 0; i < c->head_dim / 2; i++)
        if (!isfinite(c->inv_freq[i]) || (c->inv_freq_long && !isfinite(c->inv_freq_long[i])))
            return err_set(e, "config.json: rope '%.20s' gives no finite frequencies", o.type);
    if (factor != 1)
        snprintf(c->rope, sizeof c->rope, "%s, factor %g, theta %g", o.type, factor, o.theta);
    else snprintf(c->rope, sizeof c->rope, "%s, theta %g", o.type, o.theta);
    if (c->rotary < c->head_dim) {
        size_t at = strlen(c->rope);
        snprintf(c->rope + at, sizeof c->rope - at, ", %d of %d dimensions", c->rotary,
                 c->head_dim);
    }
    return 0;
}

int hfc_no_rope(struct hf_config *c, struct err *e)
{
    if (!(c->inv_freq = calloc((size_t)c->head_dim / 2, sizeof *c->inv_freq))) return err_memory(e);
    c->rope_scale = 1;
    c->rotary = c->head_dim;
    snprintf(c->rope, sizeof c->rope, "none");
    return 0;
}
