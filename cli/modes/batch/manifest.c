#include "cli/modes/batch/manifest.h"

#include "core/base/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAX_KEYS = 128 };

struct writer {
    struct out *o;
    const char *key[MAX_KEYS]; /* that were written [n] */
    int n;
};

static int is_written(const struct writer *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->key[i], name)) return 1;
    return 0;
}

static void key(struct writer *w, const char *name)
{
    CHECK(w->n < MAX_KEYS);
    if (w->n) out_text(w->o, ",");
    w->key[w->n++] = name;
    out_string(w->o, name, strlen(name));
    out_text(w->o, ":");
}

static void text(struct writer *w, const char *name, const char *v)
{
    key(w, name);
    if (v) out_string(w->o, v, strlen(v));
    else out_text(w->o, "null");
}

static void integer(struct writer *w, const char *name, int64_t v)
{
    key(w, name);
    out_int(w->o, v);
}

static void crc(struct writer *w, const char *name, uint32_t v)
{
    char s[16];
    snprintf(s, sizeof s, "%08x", v);
    text(w, name, s);
}

/* As text: what was typed, not what a reader of JSON makes of it. */
static void real(struct writer *w, const char *name, double v)
{
    char s[32];
    snprintf(s, sizeof s, "%.17g", v);
    text(w, name, s);
}

static void strings(struct writer *w, const char *name, const struct args_strings *v)
{
    key(w, name);
    out_text(w->o, "[");
    for (int i = 0; i < v->n; i++) {
        if (i) out_text(w->o, ",");
        out_string(w->o, v->v[i], strlen(v->v[i]));
    }
    out_text(w->o, "]");
}

/* Input, model, place, and what became of options that a file or a default completes. */
static void write_facts(struct writer *w, const struct manifest *m)
{
    const struct options *p = m->options;
    const struct constraint_text *c = m->constraint;
    char s[48];
    text(w, "program", "opt4gptq-run " OPT4GPTQ_VERSION);
    crc(w, "input (crc32)", m->input_crc);
    integer(w, "input (bytes)", (int64_t)m->input_bytes);
    integer(w, "input (records)", (int64_t)m->n_records);
    text(w, "model (crc32 of its header)", m->model_crc);
    text(w, "model (name)", m->model_name);
    crc(w, "chat template (crc32)", m->template_crc);
    text(w, "backend", m->backend);
    text(w, "instruction set", m->instructions);
    int has_variant = strcmp(m->backend, "cpu") && strcmp(p->engine.variant, "auto");
    text(w, "--variant", has_variant ? p->engine.variant : NULL); /* a GPU's order of sums */
    integer(w, "context (-c)", m->n_ctx);
    snprintf(s, sizeof s, "%llu/%llu", (unsigned long long)m->shard.i,
             (unsigned long long)m->shard.n);
    text(w, "--shard", s);
    snprintf(s, sizeof s, "%llu", (unsigned long long)m->seed);
    text(w, "--seed", s);
    text(w, "constraint", c->name);
    crc(w, "constraint (crc32)",
        (uint32_t)crc32_z(0, (const unsigned char *)c->spec.text, c->spec.bytes));
    text(w, "--json-space", p->compact_json ? "none" : p->json_space);
    crc(w, "score template (crc32)", m->pooling->template_crc);
    integer(w, "--reasoning-parser", p->reasoning_parser != NULL);
    integer(w, "started", m->started);
}

/* Sampling where records say nothing: the options' values, or those of the checkpoint. */
static void write_sampling(struct writer *w, const struct sampler_params *s)
{
    real(w, "temperature", s->temperature);
    integer(w, "top-k", s->top_k);
    real(w, "top-p", s->top_p);
    real(w, "min-p", s->min_p);
    real(w, "typical", s->typical_p);
    real(w, "repeat-penalty", s->repetition_penalty);
    real(w, "presence-penalty", s->presence_penalty);
    real(w, "frequency-penalty", s->frequency_penalty);
    real(w, "top-nsigma", s->top_n_sigma);
    real(w, "xtc-probability", s->xtc_probability);
    real(w, "xtc-threshold", s->xtc_threshold);
    real(w, "dry-multiplier", s->dry.multiplier);
    real(w, "dry-base", s->dry.base);
    integer(w, "dry-allowed-length", s->dry.allowed_length);
    integer(w, "mirostat", s->mirostat);
    real(w, "mirostat-ent", s->mirostat_tau);
    real(w, "mirostat-lr", s->mirostat_eta);
}

/* An option as it was given. */
static void write_option(struct writer *w, const struct args_row *r, const struct options *p)
{
    const void *v = (const char *)p + r->offset;
    const int *n = v;
    switch (r->kind) {
    case ARGS_IS_FLAG: integer(w, r->decides, *n); return;
    case ARGS_IS_INT:
        if (*n == OPT_UNSET) text(w, r->decides, NULL);
        else integer(w, r->decides, *n);
        return;
    case ARGS_IS_REAL: real(w, r->decides, *(const double *)v); return;
    case ARGS_IS_TEXT: text(w, r->decides, *(const char *const *)v); return;
    case ARGS_IS_STRINGS: strings(w, r->decides, v); return;
    case ARGS_IS_SEED:
    case ARGS_IS_INTS:
    case ARGS_IS_TEXTS: break;
    }
    CHECK(0);
}

/* Options that decide something of the answers (the column `decides` of their table), each by its
 * first row where several decide the same. */
int manifest_write(struct out *o, const struct manifest *m, struct err *e)
{
    struct writer w = {.o = o};
    out_text(o, "{");
    write_facts(&w, m);
    write_sampling(&w, &m->sampling);
    for (int i = 0; i < run_program.n_rows; i++) {
        const struct args_row *r = &run_program.rows[i];
        if (r->decides && *r->decides && !is_written(&w, r->decides))
            write_option(&w, r, m->options);
    }
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
        if (!strcmp(name, "started") || (was ? json_equal(was, v) : json_is_null(v))) continue;
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
