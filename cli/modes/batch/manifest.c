#include "cli/modes/batch/manifest.h"

#include "core/base/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void key(struct out *o, const char *name)
{
    if (!out_failed(o) && o->p[o->n - 1] != '{') out_text(o, ",");
    out_string(o, name, strlen(name));
    out_text(o, ":");
}

static void text(struct out *o, const char *name, const char *v)
{
    key(o, name);
    if (v) out_string(o, v, strlen(v));
    else out_text(o, "null");
}

static void integer(struct out *o, const char *name, int64_t v)
{
    key(o, name);
    out_int(o, v);
}

static void crc(struct out *o, const char *name, uint32_t v)
{
    char s[16];
    snprintf(s, sizeof s, "%08x", v);
    text(o, name, s);
}

/* As text: what was typed, not what a reader of JSON makes of it. */
static void real(struct out *o, const char *name, double v)
{
    char s[32];
    snprintf(s, sizeof s, "%.17g", v);
    text(o, name, s);
}

static void strings(struct out *o, const char *name, const struct args_strings *v)
{
    key(o, name);
    out_text(o, "[");
    for (int i = 0; i < v->n; i++) {
        if (i) out_text(o, ",");
        out_string(o, v->v[i], strlen(v->v[i]));
    }
    out_text(o, "]");
}

int manifest_write(struct out *o, const struct manifest *m, struct err *e)
{
    const struct options *p = m->options;
    char s[48];
    out_text(o, "{");
    text(o, "program", "opt4gptq-run " OPT4GPTQ_VERSION);
    crc(o, "input (crc32)", m->input_crc);
    integer(o, "input (bytes)", (int64_t)m->input_bytes);
    integer(o, "input (records)", (int64_t)m->n_records);
    text(o, "model (crc32 of its header)", m->model_crc);
    text(o, "model (name)", m->model_name);
    crc(o, "chat template (crc32)", m->template_crc);
    text(o, "--act", p->engine.act);
    text(o, "--kv", p->engine.kv);
    integer(o, "--query-halves", p->engine.query_halves);
    text(o, "backend", m->backend);
    text(o, "instruction set", m->instructions);
    integer(o, "context (-c)", m->n_ctx);
    text(o, "--input-format", p->input_format);
    text(o, "--format", p->format);
    text(o, "--order", p->order);
    snprintf(s, sizeof s, "%llu/%llu", (unsigned long long)m->shard.i,
             (unsigned long long)m->shard.n);
    text(o, "--shard", s);
    if (p->n_predict == OPT_UNSET) text(o, "-n", NULL);
    else integer(o, "-n", p->n_predict);
    snprintf(s, sizeof s, "%llu", (unsigned long long)m->seed);
    text(o, "--seed", s);
    real(o, "temperature", m->sampling.temperature);
    integer(o, "top-k", m->sampling.top_k);
    real(o, "top-p", m->sampling.top_p);
    real(o, "min-p", m->sampling.min_p);
    real(o, "typical", m->sampling.typical_p);
    real(o, "repeat-penalty", m->sampling.repetition_penalty);
    real(o, "presence-penalty", m->sampling.presence_penalty);
    real(o, "frequency-penalty", m->sampling.frequency_penalty);
    integer(o, "repeat-last-n", p->sampling.repeat_last_n);
    real(o, "top-nsigma", m->sampling.top_n_sigma);
    real(o, "xtc-probability", m->sampling.xtc_probability);
    real(o, "xtc-threshold", m->sampling.xtc_threshold);
    real(o, "dry-multiplier", m->sampling.dry.multiplier);
    real(o, "dry-base", m->sampling.dry.base);
    integer(o, "dry-allowed-length", m->sampling.dry.allowed_length);
    integer(o, "dry-penalty-last-n", p->sampling.dry_last_n);
    strings(o, "--dry-sequence-breaker", &p->sampling.dry_breakers);
    integer(o, "mirostat", m->sampling.mirostat);
    real(o, "mirostat-ent", m->sampling.mirostat_tau);
    real(o, "mirostat-lr", m->sampling.mirostat_eta);
    text(o, "--samplers", p->sampling.samplers);
    text(o, "--sampler-seq", p->sampling.sampler_seq);
    strings(o, "--logit-bias", &p->sampling.logit_bias);
    integer(o, "--min-tokens", p->sampling.min_tokens);
    integer(o, "--chat", p->chat);
    text(o, "--system-prompt", p->system_prompt);
    integer(o, "--ignore-eos", p->sampling.ignore_eos);
    integer(o, "--special", p->special);
    strings(o, "--stop", &p->stop);
    text(o, "constraint", m->constraint->name);
    crc(o, "constraint (crc32)",
        (uint32_t)crc32_z(0, (const unsigned char *)m->constraint->spec.text,
                          m->constraint->spec.bytes));
    integer(o, "--schema-order", p->schema_order);
    integer(o, "--any-order", p->any_order);
    integer(o, "--leading-space", p->leading_space);
    text(o, "--json-space", p->compact_json ? "none" : p->json_space);
    text(o, "--pooling", p->pooling);
    if (p->embd_normalize == OPT_UNSET) text(o, "--embd-normalize", NULL);
    else integer(o, "--embd-normalize", p->embd_normalize);
    crc(o, "score template (crc32)", m->pooling->template_crc);
    text(o, "--score-tokens", p->score_tokens);
    text(o, "--tool-call-parser", p->tool_call_parser);
    integer(o, "--reasoning-parser", p->reasoning_parser != NULL);
    integer(o, "--trust-request-chat-template", p->trust_request_template);
    integer(o, "started", m->started);
    out_text(o, "}\n");
    return out_failed(o) ? err_memory(e) : 0;
}

static int load(json_t **v, const char *p, size_t n, struct err *e)
{
    *v = json_read(p, n, 0, NULL, e);
    if (json_is_object(*v)) return 0;
    int no_memory = !*v && err_is_memory(e);
    json_decref(*v);
    return no_memory
               ? -1
               : err_set(
                     e,
                     "is damaged: its description of the run is not JSON: --restart starts over");
}

int manifest_started(const char *old, size_t n_old, int64_t *started, struct err *e)
{
    json_t *v;
    if (load(&v, old, n_old, e)) return -1;
    const json_t *number = json_object_get(v, "started");
    *started = json_integer_value(number);
    int rc =
        json_is_integer(number)
            ? 0
            : err_set(e,
                      "is damaged: it does not say when the run was begun: --restart starts over");
    json_decref(v);
    return rc;
}

int manifest_seed(const char *old, size_t n_old, uint64_t *seed, struct err *e)
{
    json_t *v;
    char *end;
    if (load(&v, old, n_old, e)) return -1;
    const char *t = json_string_value(json_object_get(v, "--seed"));
    *seed = t ? strtoull(t, &end, 10) : 0;
    int rc = t && *t && !*end ? 0
                              : err_set(e, "is damaged: it does not say which seed the run has: "
                                           "--restart starts over");
    json_decref(v);
    return rc;
}

/* A value for people: a number that real() wrote with few digits and no quotes, other things as
 * JSON. */
static void brief(char s[64], const json_t *v)
{
    const char *t = json_string_value(v);
    double x = t ? strtod(t, NULL) : 0;
    char exact[32];
    snprintf(exact, sizeof exact, "%.17g", x);
    if (t && !strcmp(t, exact)) {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(s, 64, "%.*g", digits, x);
            if (strtod(s, NULL) == x) break;
        }
        return;
    }
    char *dumped = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(s, 64, "%s", dumped ? dumped : "nothing");
    free(dumped);
}

int manifest_check(const char *old, size_t n_old, const char *now, size_t n_now, struct err *e)
{
    json_t *a, *b, *v;
    const char *name;
    char list[400] = "";
    int rc = 0;
    if (load(&a, old, n_old, e)) return -1;
    if (load(&b, now, n_now, e)) {
        json_decref(a);
        return -1;
    }
    json_object_foreach (b, name, v) {
        const json_t *was = json_object_get(a, name);
        char x[64], y[64];
        if (!strcmp(name, "started") || (was && json_equal(was, v))) continue;
        brief(x, was);
        brief(y, v);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s was %s, is %s",
                 *list ? "; " : "", name, x, y);
    }
    if (json_check(e)) rc = -1;
    else if (*list) rc = -err_set(e, "%s", list);
    json_decref(a);
    json_decref(b);
    return rc;
}
