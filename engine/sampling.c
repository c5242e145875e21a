#include "engine/sampling.h"

#include "engine/breakers.h"
#include "core/text/gen_config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct sampler_params sampling_llama = {.temperature = 0.8,
                                              .top_k = 40,
                                              .top_p = 0.95,
                                              .min_p = 0.05,
                                              .typical_p = 1,
                                              .repetition_penalty = 1};
const struct sampler_params sampling_openai = {.temperature = 1,
                                               .top_p = 1,
                                               .typical_p = 1,
                                               .repetition_penalty = 1};

void sampling_set_defaults(struct sampling_options *o)
{
    *o = (struct sampling_options){.temperature = OPT_UNSET_REAL,
                                   .top_p = OPT_UNSET_REAL,
                                   .min_p = OPT_UNSET_REAL,
                                   .repeat_penalty = OPT_UNSET_REAL,
                                   .top_k = OPT_UNSET,
                                   .repeat_last_n = -1,
                                   .dry_last_n = -1,
                                   .typical_p = 1,
                                   .top_n_sigma = -1,
                                   .xtc_threshold = 0.1,
                                   .dry_base = 1.75,
                                   .dry_allowed_length = 2,
                                   .mirostat_tau = 5,
                                   .mirostat_eta = 0.1};
}

int sampling_choose(struct sampler_params *p, const struct sampling_options *o,
                    const struct modelfile *m, const struct sampler_params *otherwise,
                    struct err *e)
{
    *p = *otherwise;
    if (gen_config_apply(m, p, e)) return -1;
    if (o->temperature > OPT_UNSET_REAL) p->temperature = o->temperature;
    if (o->top_p > OPT_UNSET_REAL) p->top_p = o->top_p;
    if (o->min_p > OPT_UNSET_REAL) p->min_p = o->min_p;
    if (o->repeat_penalty > OPT_UNSET_REAL) p->repetition_penalty = o->repeat_penalty;
    if (o->top_k > OPT_UNSET) p->top_k = o->top_k;
    p->presence_penalty = o->presence_penalty;
    p->frequency_penalty = o->frequency_penalty;
    p->typical_p = o->typical_p;
    p->top_n_sigma = o->top_n_sigma;
    p->xtc_probability = o->xtc_probability;
    p->xtc_threshold = o->xtc_threshold;
    p->dry = (struct dry_params){.multiplier = o->dry_multiplier,
                                 .base = o->dry_base,
                                 .allowed_length = o->dry_allowed_length};
    p->mirostat = o->mirostat;
    p->mirostat_tau = o->mirostat_tau;
    p->mirostat_eta = o->mirostat_eta;
    p->min_tokens = o->min_tokens;
    p->ignore_eos = o->ignore_eos;
    p->seed = o->seed.value;
    if (o->samplers) return sampling_read_names(p, o->samplers, e);
    return o->sampler_seq ? sampling_read_letters(p, o->sampler_seq, e) : 0;
}

void sampling_set_windows(struct sampler_params *p, int repeat_last_n, int dry_last_n)
{
    p->penalty_last_n = repeat_last_n > 0 ? repeat_last_n : 0;
    p->dry.last_n = dry_last_n > 0 ? dry_last_n : 0;
    if (!dry_last_n) p->dry.multiplier = 0;
    if (repeat_last_n) return;
    p->repetition_penalty = 1;
    p->presence_penalty = p->frequency_penalty = 0;
}

/* ---- orders */

static const struct {
    const char *name;
    char letter;
    enum sampler_step step;
} steps[] = {{"penalties", 'e', SAMPLER_PENALTIES},
             {"dry", 'd', SAMPLER_DRY},
             {"temperature", 't', SAMPLER_TEMPERATURE},
             {"temp", 't', SAMPLER_TEMPERATURE},
             {"top_n_sigma", 's', SAMPLER_TOP_N_SIGMA},
             {"min_p", 'm', SAMPLER_MIN_P},
             {"top_k", 'k', SAMPLER_TOP_K},
             {"typ_p", 'y', SAMPLER_TYPICAL},
             {"typical_p", 'y', SAMPLER_TYPICAL},
             {"typical", 'y', SAMPLER_TYPICAL},
             {"top_p", 'p', SAMPLER_TOP_P},
             {"nucleus", 'p', SAMPLER_TOP_P},
             {"xtc", 'x', SAMPLER_XTC}};
enum { N_STEPS = sizeof steps / sizeof *steps };

static int add_step(struct sampler_params *p, int at, const char *word, int n, struct err *e)
{
    if (at == N_STEPS)
        return err_set(e,
                       "'%.*s' is none of penalties, dry, temperature, top_n_sigma, min_p, top_k, "
                       "typ_p, top_p, xtc",
                       n < 40 ? n : 40, word);
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i] == steps[at].step) return err_set(e, "%s comes twice", steps[at].name);
    p->step[p->n_steps++] = (uint8_t)steps[at].step;
    return 0;
}

/* The default order is that of no list, which has short ways. */
static int end_steps(struct sampler_params *p, struct err *e)
{
    if (!p->n_steps) return err_set(e, "no sampler is named");
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i] != i) return 0;
    if (p->n_steps == SAMPLER_STEPS) p->n_steps = 0;
    return 0;
}

static int is_name(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != (word[i] == '-' ? '_' : word[i])) return 0;
    return !name[n];
}

int sampling_read_names(struct sampler_params *p, const char *names, struct err *e)
{
    p->n_steps = 0;
    for (const char *at = names + strspn(names, " "); *at; at += strspn(at, "; ")) {
        size_t n = strcspn(at, "; ");
        int i = 0;
        while (i < N_STEPS && !is_name(steps[i].name, at, n)) i++;
        if (add_step(p, i, at, (int)n, e)) return -1;
        at += n;
    }
    return end_steps(p, e);
}

int sampling_read_letters(struct sampler_params *p, const char *letters, struct err *e)
{
    p->n_steps = 0;
    for (const char *at = letters; *at; at++) {
        int i = 0;
        while (i < N_STEPS && steps[i].letter != *at) i++;
        if (i == N_STEPS) return err_set(e, "'%c' is none of e, d, t, s, m, k, y, p, x", *at);
        if (add_step(p, i, at, 1, e)) return -1;
    }
    return end_steps(p, e);
}

/* ---- breakers and biases */

const char *const *sampling_breakers(const struct sampling_options *o, int *n)
{
    const struct args_strings *s = &o->dry_breakers;
    *n = s->n == 1 && !strcmp(s->v[0], "none") ? 0 : s->n;
    if (s->n) return s->v;
    while (breakers_default[*n]) ++*n;
    return breakers_default;
}

static int read_bias(const char *text, struct sampler_bias *b, struct err *e)
{
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno || id > INT32_MAX || (*end != '+' && *end != '-'))
        return err_set(e, "'%s' is not a token id, + or -, and a number", text);
    const char *number = end;
    double x = number[1] == '+' || number[1] == '-' ? NAN : strtod(number, &end);
    if (end == number || *end || !(x >= -1e6 || x == -INFINITY) || x > 1e6)
        return err_set(e, "'%s' is not a number from -1000000 to 1000000 or -inf", number);
    *b = (struct sampler_bias){(int32_t)id, (float)x};
    return 0;
}

int sampling_read_bias(const struct args_strings *s, int vocab, struct sampler_bias **bias, int *n,
                       struct err *e)
{
    *n = 0;
    *bias = NULL;
    if (!s->n) return 0;
    struct sampler_bias *b = malloc((size_t)s->n * sizeof *b);
    if (!b) return err_memory(e);
    int rc = 0;
    for (int i = 0; i < s->n && !rc; i++) {
        rc = read_bias(s->v[i], &b[i], e);
        if (!rc && b[i].id >= vocab)
            rc = err_set(e, "id %d: the model's vocabulary ends at %d", b[i].id, vocab - 1);
        for (int k = 0; k < i && !rc; k++)
            if (b[k].id == b[i].id) rc = err_set(e, "id %d comes twice", b[i].id);
    }
    if (rc) {
        free(b);
        return err_prefix(e, "--logit-bias");
    }
    *bias = b;
    *n = s->n;
    return 0;
}

int sampling_open(struct sampler_params *p, struct sampling_memory *own,
                  const struct sampling_options *o, const struct modelfile *m,
                  const struct tokenizer *tokenizer, int vocab, struct err *e)
{
    int n;
    const char *const *breakers = sampling_breakers(o, &n);
    if (sampling_choose(p, o, m, &sampling_llama, e) ||
        sampling_read_bias(&o->logit_bias, vocab, &own->bias, &p->n_bias, e))
        return -1;
    sampling_set_windows(p, o->repeat_last_n, o->dry_last_n);
    p->bias = own->bias;
    p->dry.breakers = &own->breakers;
    return p->dry.multiplier == 0
               ? 0
               : breakers_open(&own->breakers, &own->texts, tokenizer, breakers, n, e);
}

void sampling_close(struct sampling_memory *own)
{
    breakers_close(&own->texts);
    free(own->bias);
    *own = (struct sampling_memory){0};
}
