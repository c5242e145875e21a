#include "quantize/settings.h"

#include "convert/quant_config.h"
#include "core/base/json.h"
#include "core/step/act_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int settings_group(const char *text) { return !strcmp(text, "channel") ? -1 : atoi(text); }

/* One "key=value" of a rule. */
static int read_setting(struct module_settings *m, const char *text, struct err *e)
{
    const char *value = strpbrk(text, "=:");
    size_t n = value ? (size_t)(value - text) : 0;
    if (value) value++;
    if (n == 4 && !strncmp(text, "bits", 4)) {
        m->bits = atoi(value);
        if (m->bits == 2 || m->bits == 3 || m->bits == 4 || m->bits == 8) return 0;
        return err_set(e, "bits is '%s', must be 2, 3, 4 or 8", value);
    }
    if ((n == 5 && !strncmp(text, "group", 5)) || (n == 10 && !strncmp(text, "group_size", 10))) {
        m->group = !strcmp(value, "channel") ? -1 : atoi(value);
        if (m->group == -1 || m->group == 32 || m->group == 64 || m->group == 128) return 0;
        return err_set(e, "group is '%s', must be 32, 64, 128 or channel", value);
    }
    if (n == 3 && !strncmp(text, "sym", 3)) {
        m->sym = !strcasecmp(value, "true") || !strcmp(value, "1");
        if (m->sym || !strcasecmp(value, "false") || !strcmp(value, "0")) return 0;
        return err_set(e, "sym is '%s', must be true or false", value);
    }
    return err_set(e, "'%s' is none of bits=N, group=N, sym=true, sym=false", text);
}

/* The settings in braces at the end of a rule; quotes of JSON may be there. */
static int read_settings(struct module_settings *m, const char *braces, struct err *e)
{
    char text[256], *at = text, *word;
    size_t n = 0;
    for (const char *p = braces + 1; p[1] && n + 1 < sizeof text; p++)
        if (!strchr("\" '", *p)) text[n++] = *p;
    text[n] = 0;
    while ((word = strsep(&at, ",")))
        if (*word && read_setting(m, word, e)) return -1;
    return 0;
}

static int read_rule(struct settings_rule *r, const char *text, struct err *e)
{
    *r = (struct settings_rule){.to = {.sym = -1}};
    r->to.skip = text[0] == '-';
    if (text[0] && text[1] == ':' && (text[0] == '-' || text[0] == '+')) text += 2;
    else if (text[0] == '-') return err_set(e, "must begin with '-:' or '+:'");
    size_t n = strlen(text);
    const char *braces = n && text[n - 1] == '}' ? strrchr(text, '{') : NULL;
    int repeats = braces && braces[1] >= '0' && braces[1] <= '9'; /* x{2,3} of the pattern */
    if (repeats || (braces && braces > text && braces[-1] == '\\')) braces = NULL;
    if (r->to.skip && braces) return err_set(e, "'-:' takes no settings");
    if (!r->to.skip && !braces) return err_set(e, "'+:' needs settings, such as {bits=8}");
    if (braces && read_settings(&r->to, braces, e)) return -1;
    if (braces) n = (size_t)(braces - text);
    if (!n || n >= sizeof r->pattern) return err_set(e, "its pattern is empty or too long");
    memcpy(r->pattern, text, n);
    int yes;
    return qc_match(r->pattern, "", &yes, e);
}

int settings_rules(struct settings *s, const struct args_strings *rules, struct err *e)
{
    for (s->n_rules = 0; s->n_rules < rules->n; s->n_rules++)
        if (read_rule(&s->rule[s->n_rules], rules->v[s->n_rules], e))
            return err_prefix(e, "--rule '%s'", rules->v[s->n_rules]);
    return 0;
}

int settings_of(const struct settings *s, const char *module, struct module_settings *m,
                struct err *e)
{
    *m = s->all;
    for (int i = 0; i < s->n_rules; i++) {
        const struct settings_rule *r = &s->rule[i];
        int yes = 0;
        if (qc_match(r->pattern, module, &yes, e)) return -1;
        if (!yes) continue;
        m->skip = r->to.skip;
        if (r->to.bits) m->bits = r->to.bits;
        if (r->to.group) m->group = r->to.group;
        if (r->to.sym >= 0) m->sym = r->to.sym;
        return 0;
    }
    return 0;
}

static json_t *dynamic_json(const struct settings *s, const json_t *plain)
{
    json_t *all = json_object(), *pattern;
    size_t at;
    char key[300];
    json_array_foreach (plain, at, pattern) {
        snprintf(key, sizeof key, "-:%s", json_string_value(pattern));
        json_object_set_new(all, key, json_object());
    }
    for (int i = 0; i < s->n_rules; i++) {
        const struct settings_rule *r = &s->rule[i];
        json_t *to = json_object();
        if (r->to.bits) json_object_set_new(to, "bits", json_integer(r->to.bits));
        if (r->to.group) json_object_set_new(to, "group_size", json_integer(r->to.group));
        if (r->to.sym >= 0) json_object_set_new(to, "sym", json_boolean(r->to.sym));
        snprintf(key, sizeof key, "%c:%s", r->to.skip ? '-' : '+', r->pattern);
        json_object_set_new(all, key, to);
    }
    return all;
}

json_t *settings_json(const struct settings *s, const json_t *plain)
{
    json_t *dynamic = dynamic_json(s, plain),
           *meta = json_pack("{s:[s], s:f, s:b, s:b, s:b, s:b, s:f, s:o}", "quantizer",
                             "opt4gptq-quantize:" OPT4GPTQ_VERSION, "damp_percent", s->damp,
                             "act_group_aware", s->calibrated && s->order == ORDER_GROUP,
                             "static_groups", 0, "true_sequential", 1, "calibrated", s->calibrated,
                             "mse", s->search ? 2.4 : 0.0, "foem",
                             s->beta > 0 ? json_real(s->beta) : json_null());
    if (s->w4a4)
        json_object_set_new(meta, "w4a4",
                            json_pack("{s:i, s:i, s:f, s:f, s:s}", "bits", SETTINGS_LOW_BITS,
                                      "outliers", s->all.group, "clip_weights",
                                      s->search ? 0 : s->clip, "clip_activations",
                                      (double)ACT_LOW_CLIP, "order",
                                      s->order == ORDER_FALLING ? "falling" : "rising"));
    json_t *all = json_pack("{s:i, s:i, s:b, s:b, s:b, s:s, s:s, s:s, s:s, s:o}", "bits",
                            s->all.bits, "group_size", s->all.group, "desc_act",
                            s->w4a4 || (s->calibrated && s->order == ORDER_FULL), "sym", s->all.sym,
                            "lm_head", 0, "quant_method", "gptq", "method", "gptq",
                            "checkpoint_format", "gptq", "pack_dtype", "int32", "meta", meta);
    if (json_object_size(dynamic)) json_object_set(all, "dynamic", dynamic);
    json_decref(dynamic);
    return all;
}
