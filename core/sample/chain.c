/* chain.c: the steps of a choice one after the other, over the tokens that are left. A candidate's
 * logit is what the steps so far have made of it, its key minus that. */
#include "core/sample/sampler_internal.h"
#include "core/sample/weights.h"

#include <math.h>

/* The tokens that are left. */
struct chain {
    struct sampler *s;
    const struct sampler_context *c;
    struct sampler_candidate *at; /* [n] */
    int n;
};

static double largest(const struct chain *h)
{
    double max = h->at[0].logit;
    for (int i = 1; i < h->n; i++)
        if (h->at[i].logit > max) max = h->at[i].logit;
    return max;
}

/* Sets weights to those of exp(logit - largest); returns their sum. */
static uint64_t weigh(struct chain *h, double max)
{
    for (int i = 0; i < h->n; i++) {
        double depth = (max - h->at[i].logit) * WEIGHTS_NAT;
        h->at[i].weight = weights_of(depth < WEIGHTS_DEEPEST ? (int32_t)depth : WEIGHTS_DEEPEST);
    }
    return sampler_total(h->at, h->n);
}

/* Keeps the candidates with a logit of at least LOW. */
static void keep_above(struct chain *h, double low)
{
    int n = 0;
    for (int i = 0; i < h->n; i++)
        if (h->at[i].logit >= low) h->at[n++] = h->at[i];
    h->n = n;
}

static void keep_best(struct chain *h)
{
    for (int i = 1; i < h->n; i++)
        if (sampler_before(&h->at[i], &h->at[0])) h->at[0] = h->at[i];
    h->n = 1;
}

static void set_logit(struct sampler_candidate *c, double logit)
{
    c->logit = logit;
    c->key = -logit;
}

static void penalize(struct chain *h)
{
    if (!sampler_penalizes(h->c->params)) return;
    sampler_count(h->s, h->c);
    for (int i = 0; i < h->n; i++) {
        struct sampler_candidate *c = &h->at[i];
        uint32_t seen = h->s->seen[c->id];
        if (seen) set_logit(c, sampler_penalized(h->c->params, seen, (float)c->logit));
    }
    sampler_uncount(h->s, h->c, NULL);
}

static void dry(struct chain *h)
{
    const struct dry_params *p = &h->c->params->dry;
    const struct dry_history history = sampler_history(h->c);
    if (p->multiplier == 0) return;
    dry_mark(p, &history, h->s->seen);
    for (int i = 0; i < h->n; i++) {
        struct sampler_candidate *c = &h->at[i];
        uint32_t length = h->s->seen[c->id];
        if (length) set_logit(c, c->logit - dry_loss(p, length));
    }
    dry_clear(p, &history, h->s->seen, NULL);
}

static void heat(struct chain *h, double temperature)
{
    if (temperature < sampler_greedy) keep_best(h);
    else
        for (int i = 0; i < h->n; i++) set_logit(&h->at[i], h->at[i].logit / temperature);
}

/* Top-n-sigma (Tang et al. 2024). */
static void keep_sigmas(struct chain *h, double n_sigma)
{
    double sum = 0, squares = 0;
    if (n_sigma <= 0) return;
    for (int i = 0; i < h->n; i++) sum += h->at[i].logit;
    double mean = sum / h->n;
    for (int i = 0; i < h->n; i++) squares += (h->at[i].logit - mean) * (h->at[i].logit - mean);
    keep_above(h, largest(h) - n_sigma * sqrt(squares / h->n));
}

static void keep_top_k(struct chain *h, int k)
{
    if (k > 0) h->n = sampler_select_best(h->at, h->n, k);
}

static void keep_top_p(struct chain *h, double p)
{
    if (p < 1) h->n = sampler_select_mass(h->at, h->n, sampler_mass(p, weigh(h, largest(h))));
}

static void keep_typical(struct chain *h, double p)
{
    double max = largest(h);
    if (p >= 1) return;
    weigh(h, max);
    h->n = sampler_select_typical(h->at, h->n, max, 1, p);
}

/* XTC (p-e-w 2024): with its probability, of the tokens that reach the threshold all but the
 * least likely go. */
static void exclude_top(struct chain *h)
{
    const struct sampler_params *p = h->c->params;
    if (p->xtc_probability <= 0 || (double)sampler_bits(h->c, 1) * 0x1p-53 >= p->xtc_probability)
        return;
    double least = p->xtc_threshold * (double)weigh(h, largest(h));
    int last = -1, n = 0;
    for (int i = 0; i < h->n; i++)
        if ((double)h->at[i].weight >= least &&
            (last < 0 || sampler_before(&h->at[last], &h->at[i])))
            last = i;
    if (last < 0) return;
    const struct sampler_candidate stays = h->at[last];
    for (int i = 0; i < h->n; i++)
        if ((double)h->at[i].weight < least || h->at[i].id == stays.id) h->at[n++] = h->at[i];
    h->n = n;
}

/* Keeps the tokens whose surprise, in bits, is not above mu; at least the likeliest. */
static void keep_unsurprising(struct chain *h, double mu)
{
    double max = largest(h), log_total = logits_log((double)weigh(h, max) * 0x1p-44);
    double low = max + log_total - mu * 0x1.62e42fefa39efp-1;
    if (low > max) keep_best(h);
    else keep_above(h, low);
}

static void step(struct chain *h, enum sampler_step what)
{
    const struct sampler_params *p = h->c->params;
    switch (what) {
    case SAMPLER_PENALTIES: penalize(h); return;
    case SAMPLER_DRY: dry(h); return;
    case SAMPLER_TEMPERATURE: heat(h, p->temperature); return;
    default: break;
    }
    if (p->mirostat) return;
    switch (what) {
    case SAMPLER_TOP_N_SIGMA: keep_sigmas(h, p->top_n_sigma); break;
    case SAMPLER_MIN_P:
        if (p->min_p > 0) keep_above(h, largest(h) + (p->min_p < 1 ? logits_log(p->min_p) : 0));
        break;
    case SAMPLER_TOP_K: keep_top_k(h, p->top_k); break;
    case SAMPLER_TYPICAL: keep_typical(h, p->typical_p); break;
    case SAMPLER_TOP_P: keep_top_p(h, p->top_p); break;
    default: exclude_top(h); break;
    }
}

/* Draws one of the candidates by its weight. */
static const struct sampler_candidate *draw(struct chain *h, uint64_t *total)
{
    const struct sampler_candidate *c = h->at;
    *total = weigh(h, largest(h));
    uint64_t target = sampler_target(h->c, *total);
    for (; target >= c->weight; c++) target -= c->weight;
    return c;
}

int32_t chain_choose(struct sampler *s, const struct sampler_context *c, const float *logits)
{
    const struct sampler_params *p = c->params;
    const uint8_t *steps;
    struct chain h = {.s = s, .c = c, .at = s->candidates};
    int n_steps = sampler_steps(p, &steps);
    uint64_t total;
    for (int i = 0; i < s->vocab; i++) {
        if (logits[i] == -INFINITY) continue;
        h.at[h.n] = (struct sampler_candidate){.id = i};
        set_logit(&h.at[h.n++], logits[i]);
    }
    for (int i = sampler_n_leading(p); i < n_steps; i++) step(&h, (enum sampler_step)steps[i]);
    if (!p->mirostat) return draw(&h, &total)->id;
    if (!c->n_generated) *c->mu = 2 * p->mirostat_tau;
    keep_unsurprising(&h, *c->mu);
    const struct sampler_candidate *chosen = draw(&h, &total);
    double surprise = -logits_log((double)chosen->weight / (double)total) / 0x1.62e42fefa39efp-1;
    *c->mu -= p->mirostat_eta * (surprise - p->mirostat_tau);
    return chosen->id;
}
