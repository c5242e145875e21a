/* unit_chain.c: DRY, XTC, Mirostat 2, top-n-sigma and any order of steps, against references that
 * follow the definitions token by token: logits and sets exactly, draws by chi-square. */
#include "core/sample/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 60, HISTORY = 120 };

static const struct sampler_params plain = {.temperature = 1,
                                            .top_p = 1,
                                            .typical_p = 1,
                                            .repetition_penalty = 1};
static uint64_t random_state = 1;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

static int below(int n) { return (int)(uniform() * n); }

static void random_logits(float *logits, double spread)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)((uniform() + uniform() + uniform() - 1.5) * spread);
}

static int32_t choose(struct sampler *s, const struct sampler_context *c, const float *logits)
{
    int32_t id = -1;
    struct err e = {0};
    float adjusted[VOCAB];
    memcpy(adjusted, logits, sizeof adjusted);
    if (sampler_adjusts(c->params, c->n_generated)) sampler_adjust(s, c, adjusted);
    if (sampler_choose(s, c, adjusted, logits_argmax(adjusted, VOCAB), &id, &e))
        fail_msg("%s", e.msg);
    assert_true(id >= 0 && id < VOCAB);
    return id;
}

/* ---- DRY, by the text */

/* Tokens of one to three letters over a small alphabet, so that breakers stand within tokens and
 * across them. */
static char texts[VOCAB][4];
static struct dry_text spans[VOCAB];

static void make_texts(void)
{
    for (int i = 0; i < VOCAB; i++) {
        int n = 1 + below(3);
        for (int k = 0; k < n; k++) texts[i][k] = "abcdefghijklmnopqrst.:"[below(22)];
        texts[i][n] = 0;
        spans[i] = (struct dry_text){i % 17 == 16 ? NULL : texts[i], i % 17 == 16 ? 0 : (size_t)n};
    }
}

static void reference_dry(const struct dry_params *p, const int32_t *all, int n, double *loss)
{
    char text[3 * HISTORY + 1] = "";
    int end_of[HISTORY], breaks[HISTORY] = {0};
    int from = p->last_n && n > p->last_n ? n - p->last_n : 0;
    for (int i = from; i < n; i++) {
        if (spans[all[i]].text) strcat(text, spans[all[i]].text);
        end_of[i] = (int)strlen(text);
    }
    for (int k = 0; p->breakers && k < p->breakers->n; k++)
        for (const char *at = text; (at = strstr(at, p->breakers->string[k])); at++) {
            int end = (int)(at - text) + (int)strlen(p->breakers->string[k]), i = from;
            while (end_of[i] < end) i++;
            breaks[i] = 1;
        }
    for (int t = 0; t < VOCAB; t++) {
        int longest = 0, is_breaker = 0;
        loss[t] = 0;
        for (int k = 0; p->breakers && spans[t].text && k < p->breakers->n; k++)
            is_breaker |= strstr(spans[t].text, p->breakers->string[k]) != NULL;
        for (int i = from; i + 1 < n && !is_breaker; i++) {
            int length = 0;
            if (all[i + 1] != t) continue;
            while (i - length >= from && all[i - length] == all[n - 1 - length] &&
                   !breaks[n - 1 - length])
                length++;
            if (length > longest) longest = length;
        }
        if (longest >= p->allowed_length)
            loss[t] = p->multiplier * pow(p->base, longest - p->allowed_length);
        if (loss[t] > 1e30) loss[t] = 1e30;
    }
}

static void dry_follows_the_text(void **state)
{
    (void)state;
    char across[3] = "", *strings[] = {across, ".", ":", "ab", "abc"};
    struct sampler s;
    struct err e;
    int n_lost = 0, n_long = 0, n_broken = 0;
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int round = 0; round < 8000; round++) {
        int32_t all[HISTORY];
        float logits[VOCAB], was[VOCAB];
        double loss[VOCAB], unbroken[VOCAB];
        int n = 2 + below(HISTORY - 2), kinds = 2 + below(20), n_prompt = below(n + 1);
        if (round % 100 == 0) make_texts();
        for (int i = 0; i < n; i++) all[i] = below(kinds);
        int period = 1 + below(9);
        for (int i = period; below(2) && i < n; i++) all[i] = all[i - period];
        across[0] = texts[all[0]][strlen(texts[all[0]]) - 1];
        across[1] = texts[all[1]][0]; /* ends in the second token */
        struct dry_breakers b = {spans, VOCAB - 5, (const char *const *)strings + below(2),
                                 1 + below(4), 3};
        struct sampler_params p = plain;
        p.dry = (struct dry_params){.multiplier = 0.1 + uniform(),
                                    .base = below(9)   ? 1 + uniform()
                                            : below(2) ? 1
                                                       : 9,
                                    .allowed_length = 1 + below(4),
                                    .last_n = below(2) ? 0 : 1 + below(60),
                                    .breakers = below(3) ? &b : NULL};
        struct sampler_context c = {.params = &p, .prompt = all, .generated = all + n_prompt};
        c.n_prompt = n_prompt;
        c.n_generated = n - n_prompt;
        random_logits(logits, 8);
        memcpy(was, logits, sizeof was);
        for (int i = 0; i < 5; i++) spans[VOCAB - 1 - i].text = NULL; /* beyond the table */
        reference_dry(&p.dry, all, n, loss);
        assert_true(sampler_adjusts(&p, 0));
        sampler_adjust(&s, &c, logits);
        for (int t = 0; t < VOCAB; t++) {
            if (loss[t] == 0) assert_true(logits[t] == was[t]);
            else assert_true(fabs(was[t] - loss[t] - logits[t]) <= 1e-5 + 1e-6 * loss[t]);
            n_lost += loss[t] > 0;
            n_long += loss[t] > 2;
        }
        p.dry.breakers = NULL;
        reference_dry(&p.dry, all, n, unbroken);
        n_broken += memcmp(loss, unbroken, sizeof loss) != 0;
        for (int t = 0; t < VOCAB; t++) assert_int_equal(s.seen[t], 0);
    }
    if (n_lost < 5000 || n_long < 150 || n_broken < 500)
        fail_msg("%d losses, %d large ones, %d texts with breakers", n_lost, n_long, n_broken);
    sampler_close(&s);
}

static void dry_as_its_author_gives_it(void **state)
{
    (void)state;
    /* "1 2 3 4 ... 1 2 3": 4 would repeat three tokens: 0.8 * 1.75^(3 - 2) */
    const int32_t ids[] = {1, 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3};
    const struct dry_params p = {.multiplier = 0.8, .base = 1.75, .allowed_length = 2};
    const struct dry_history h = {ids, ids + 7, 7, 5};
    uint32_t length[10] = {0};
    float logits[10] = {0};
    dry_mark(&p, &h, length);
    assert_true(length[4] == 3 && length[5] == 2 && !length[9] && !length[1]);
    dry_clear(&p, &h, length, logits);
    assert_true(fabsf(logits[4] + 1.4f) < 1e-6f && fabsf(logits[5] + 0.8f) < 1e-6f);
    for (int i = 0; i < 10; i++) assert_true(!length[i] && (i == 4 || i == 5 || logits[i] == 0));
}

/* ---- the order of steps */

/* What is left: logits, and whether a token is still there. */
struct left {
    double logit[VOCAB];
    int there[VOCAB];
};

static int by_logit(const struct left *l, int *order)
{
    int n = 0;
    for (int i = 0; i < VOCAB; i++) {
        if (!l->there[i]) continue;
        int at = n++;
        for (; at && l->logit[order[at - 1]] < l->logit[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return n;
}

static void probabilities(const struct left *l, double *p)
{
    double sum = 0, max = -INFINITY;
    for (int i = 0; i < VOCAB; i++)
        if (l->there[i] && l->logit[i] > max) max = l->logit[i];
    for (int i = 0; i < VOCAB; i++) sum += p[i] = l->there[i] ? exp(l->logit[i] - max) : 0;
    for (int i = 0; i < VOCAB; i++) p[i] /= sum;
}

static void reference_typical(struct left *l, const double *p, double mass)
{
    int order[VOCAB], n = 0;
    double entropy = 0, key[VOCAB], sum = 0;
    for (int i = 0; i < VOCAB; i++)
        if (l->there[i]) entropy -= p[i] * log(p[i]);
    for (int i = 0; i < VOCAB; i++) {
        if (!l->there[i]) continue;
        int at = n++;
        key[i] = fabs(-log(p[i]) - entropy);
        for (; at && key[order[at - 1]] > key[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < n; i++) {
        if (i && sum >= mass) l->there[order[i]] = 0;
        sum += p[order[i]];
    }
}

static void reference_penalties(struct left *l, const struct sampler_context *c)
{
    const struct sampler_params *p = c->params;
    int n = c->n_prompt + c->n_generated,
        from = p->penalty_last_n && n > p->penalty_last_n ? n - p->penalty_last_n : 0;
    for (int t = 0; t < VOCAB; t++) {
        int seen = 0, times = 0;
        for (int i = from; i < n; i++) {
            if ((i < c->n_prompt ? c->prompt[i] : c->generated[i - c->n_prompt]) != t) continue;
            seen = 1;
            times += i >= c->n_prompt;
        }
        if (seen)
            l->logit[t] = l->logit[t] > 0 ? l->logit[t] / p->repetition_penalty
                                          : l->logit[t] * p->repetition_penalty;
        if (times) l->logit[t] -= p->frequency_penalty * times + p->presence_penalty;
    }
}

static void reference_step(struct left *l, const struct sampler_context *c, int step, int excludes)
{
    const struct sampler_params *p = c->params;
    double prob[VOCAB], loss[VOCAB], sum = 0, mean = 0, squares = 0;
    int order[VOCAB], n = by_logit(l, order), last = -1;
    int32_t all[HISTORY];
    probabilities(l, prob);
    switch (step) {
    case SAMPLER_PENALTIES: reference_penalties(l, c); break;
    case SAMPLER_DRY:
        memcpy(all, c->prompt, (size_t)c->n_prompt * sizeof *all);
        memcpy(all + c->n_prompt, c->generated, (size_t)c->n_generated * sizeof *all);
        if (p->dry.multiplier > 0) reference_dry(&p->dry, all, c->n_prompt + c->n_generated, loss);
        for (int i = 0; p->dry.multiplier > 0 && i < VOCAB; i++) l->logit[i] -= loss[i];
        break;
    case SAMPLER_TEMPERATURE:
        for (int i = 0; i < VOCAB; i++) l->logit[i] /= p->temperature > 0 ? p->temperature : 1;
        for (int i = 1; p->temperature == 0 && i < n; i++) l->there[order[i]] = 0;
        break;
    case SAMPLER_TOP_N_SIGMA:
        for (int i = 0; i < n; i++) mean += l->logit[order[i]] / n;
        for (int i = 0; i < n; i++) squares += pow(l->logit[order[i]] - mean, 2) / n;
        for (int i = 0; p->top_n_sigma > 0 && i < n; i++)
            if (l->logit[order[i]] < l->logit[order[0]] - p->top_n_sigma * sqrt(squares))
                l->there[order[i]] = 0;
        break;
    case SAMPLER_MIN_P:
        for (int i = 0; i < n; i++)
            if (prob[order[i]] < p->min_p * prob[order[0]]) l->there[order[i]] = 0;
        break;
    case SAMPLER_TOP_K:
        for (int i = p->top_k; p->top_k && i < n; i++) l->there[order[i]] = 0;
        break;
    case SAMPLER_TYPICAL:
        if (p->typical_p < 1) reference_typical(l, prob, p->typical_p);
        break;
    case SAMPLER_TOP_P:
        for (int i = 0; p->top_p < 1 && i < n; i++) {
            if (i && sum >= p->top_p) l->there[order[i]] = 0;
            sum += prob[order[i]];
        }
        break;
    default:
        for (int i = 0; i < n && prob[order[i]] >= p->xtc_threshold; i++) last = i;
        for (int i = 0; excludes && i < last; i++) l->there[order[i]] = 0;
    }
}

/* The distribution after all steps; of XTC's draw both ends. */
static void reference(const struct sampler_context *c, const float *logits, double *want)
{
    static const uint8_t usual[] = {SAMPLER_PENALTIES,   SAMPLER_DRY,   SAMPLER_TEMPERATURE,
                                    SAMPLER_TOP_N_SIGMA, SAMPLER_MIN_P, SAMPLER_TOP_K,
                                    SAMPLER_TYPICAL,     SAMPLER_TOP_P, SAMPLER_XTC};
    const struct sampler_params *p = c->params;
    const uint8_t *steps = p->n_steps ? p->step : usual;
    int n = p->n_steps ? p->n_steps : SAMPLER_STEPS;
    memset(want, 0, VOCAB * sizeof *want);
    for (int excludes = 0; excludes < 2; excludes++) {
        struct left l;
        double prob[VOCAB], share = excludes ? p->xtc_probability : 1 - p->xtc_probability;
        for (int i = 0; i < VOCAB; i++) l.logit[i] = logits[i], l.there[i] = logits[i] > -INFINITY;
        for (int i = 0; i < n; i++) reference_step(&l, c, steps[i], excludes);
        probabilities(&l, prob);
        for (int i = 0; i < VOCAB; i++) want[i] += share * prob[i];
    }
}

/* Draws follow WANT (chi-square, 99.99%, Wilson and Hilferty); what cannot come never comes. */
static void expect_counts(const double *want, const int *count, int draws)
{
    double chi = 0, rare_want = 0, rare_count = 0;
    int freedom = -1;
    for (int i = 0; i < VOCAB; i++) {
        if (want[i] == 0 && count[i]) fail_msg("token %d came %d times, it cannot", i, count[i]);
        if (want[i] * draws < 10) rare_want += want[i] * draws, rare_count += count[i];
        else chi += pow(count[i] - want[i] * draws, 2) / (want[i] * draws), freedom++;
    }
    if (rare_want >= 5) chi += pow(rare_count - rare_want, 2) / rare_want, freedom++;
    if (freedom < 1) return;
    double v = 2.0 / (9 * freedom), limit = freedom * pow(1 - v + 3.72 * sqrt(v), 3);
    if (chi > limit)
        fail_msg("chi-square %.1f with %d degrees of freedom (limit %.1f)", chi, freedom, limit);
}

static void random_steps(struct sampler_params *p)
{
    for (int i = 0; i < SAMPLER_STEPS; i++)
        if (below(4)) p->step[p->n_steps++] = (uint8_t)i;
    for (int i = p->n_steps - 1; i > 0; i--) {
        int j = below(i + 1);
        uint8_t t = p->step[i];
        p->step[i] = p->step[j];
        p->step[j] = t;
    }
    if (!p->n_steps) p->step[p->n_steps++] = SAMPLER_TOP_K;
}

/* Tokens so far, of few kinds. The text of the history is the same in every draw, whose number is
 * part of the key. */
static struct sampler_context history(const struct sampler_params *p, int32_t *all)
{
    struct sampler_context c = {.params = p, .prompt = all, .n_prompt = 1 + below(20)};
    c.n_generated = below(40);
    c.generated = all + c.n_prompt;
    for (int i = 0; i < c.n_prompt + c.n_generated; i++) all[i] = below(9);
    return c;
}

static void steps_follow_their_order(void **state)
{
    (void)state;
    enum { ROUNDS = 400, DRAWS = 4000 };
    struct sampler s;
    struct err e;
    int32_t all[HISTORY];
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int round = 0; round < ROUNDS; round++) {
        float logits[VOCAB];
        double want[VOCAB];
        int count[VOCAB] = {0};
        struct sampler_params p = plain;
        p.temperature = below(8) ? 0.4 + 1.5 * uniform() : 0;
        if (below(2)) p.top_k = 1 + below(30);
        if (below(2)) p.top_p = 0.3 + 0.7 * uniform();
        if (below(2)) p.min_p = pow(uniform(), 3);
        if (below(2)) p.typical_p = 0.2 + 0.8 * uniform();
        if (below(2)) p.top_n_sigma = 0.2 + 3 * uniform();
        if (below(2))
            p.xtc_probability = below(4) ? uniform() : 1, p.xtc_threshold = 0.2 * uniform();
        if (below(2)) p.repetition_penalty = 0.8 + uniform();
        if (below(2)) p.presence_penalty = uniform(), p.frequency_penalty = 0.3 * uniform();
        if (below(2)) p.penalty_last_n = 1 + below(30);
        if (below(2))
            p.dry = (struct dry_params){.multiplier = 0.5, .base = 1.4, .allowed_length = 1};
        if (below(4)) random_steps(&p);
        random_logits(logits, 4 + 8 * uniform());
        if (below(3) == 0) logits[below(VOCAB)] = -INFINITY;
        struct sampler_context c = history(&p, all);
        reference(&c, logits, want);
        for (int i = 0; i < DRAWS; i++) {
            c.key = sampler_key(3, (uint64_t)i, (uint64_t)round);
            count[choose(&s, &c, logits)]++;
        }
        expect_counts(want, count, DRAWS);
    }
    sampler_close(&s);
}

static void xtc_by_hand(void **state)
{
    (void)state;
    float logits[VOCAB];
    int count[VOCAB] = {0};
    struct sampler s;
    struct err e;
    struct sampler_params p = plain;
    p.xtc_probability = 0.25;
    p.xtc_threshold = 0.1;
    for (int i = 0; i < VOCAB; i++) logits[i] = -INFINITY;
    logits[5] = logf(0.5f), logits[7] = logf(0.3f), logits[9] = logf(0.15f),
    logits[11] = logf(0.05f);
    /* with XTC 9 (0.75) and 11 (0.25) are left, without it all four */
    const double share[] = {[5] = 0.75 * 0.5,
                            [7] = 0.75 * 0.3,
                            [9] = 0.75 * 0.15 + 0.25 * 0.75,
                            [11] = 0.75 * 0.05 + 0.25 * 0.25};
    double want[VOCAB] = {0};
    memcpy(want, share, sizeof share);
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    struct sampler_context c = {.params = &p, .key = sampler_key(1, 2, 3)};
    for (c.n_generated = 0; c.n_generated < 100000; c.n_generated++)
        count[choose(&s, &c, logits)]++;
    expect_counts(want, count, 100000);
    sampler_close(&s);
}

/* Temperature changes every candidate: the only one, the first and the last. */
static void temperature_by_hand(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    struct sampler s;
    struct err e;
    struct sampler_params p = plain;
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int n = 1; n <= 3; n++) {
        float logits[VOCAB];
        int count[VOCAB] = {0};
        double want[VOCAB] = {0}, sum = 0;
        p.temperature = n == 2 ? 4 : 0.25;
        p.n_steps = 1, p.step[0] = SAMPLER_TEMPERATURE;
        for (int i = 0; i < VOCAB; i++) logits[i] = -INFINITY;
        for (int i = 0; i < n; i++) logits[VOCAB - 1 - 7 * i] = n == 2 ? -4.0f * i : -0.25f * i;
        for (int i = 0; i < n; i++) sum += want[VOCAB - 1 - 7 * i] = exp(-i);
        for (int i = 0; i < VOCAB; i++) want[i] /= sum;
        struct sampler_context c = {.params = &p};
        for (int i = 0; i < DRAWS; i++) {
            c.key = sampler_key(5, (uint64_t)i, (uint64_t)n);
            count[choose(&s, &c, logits)]++;
        }
        expect_counts(want, count, DRAWS);
    }
    sampler_close(&s);
}

/* ---- Mirostat 2 */

static void mirostat_follows_the_paper(void **state)
{
    (void)state;
    enum { ROUNDS = 60, DRAWS = 3000 };
    struct sampler s;
    struct err e;
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int round = 0; round < ROUNDS; round++) {
        float logits[VOCAB];
        double prob[VOCAB], want[VOCAB] = {0}, total = 0, mu, best = 0;
        int count[VOCAB] = {0}, top = 0;
        struct sampler_params p = plain;
        p.temperature = 0.5 + uniform();
        p.top_k = 1 + below(3); /* without effect */
        p.xtc_probability = 1;
        p.mirostat = 1;
        p.mirostat_tau = 0.5 + 4 * uniform();
        p.mirostat_eta = uniform();
        random_logits(logits, 3 + 8 * uniform());
        for (int i = 0; i < VOCAB; i++) total += prob[i] = exp(logits[i] / p.temperature);
        for (int i = 0; i < VOCAB; i++)
            if ((prob[i] /= total) > best) best = prob[i], top = i;
        double bound = round % 5 ? 6 * uniform() : 2 * p.mirostat_tau, kept = 0;
        if (round % 5 == 1) bound = -log2(best) - 0.01; /* the likeliest stays all the same */
        for (int i = 0; i < VOCAB; i++)
            if (-log2(prob[i]) <= bound || i == top) kept += want[i] = prob[i];
        for (int i = 0; i < VOCAB; i++) want[i] /= kept;
        struct sampler_context c = {.params = &p, .mu = &mu, .n_generated = round % 5 != 0};
        for (int i = 0; i < DRAWS; i++) {
            mu = round % 5 ? bound : -77; /* the first choice sets it itself */
            c.key = sampler_key(9, (uint64_t)i, (uint64_t)round);
            int32_t id = choose(&s, &c, logits);
            count[id]++;
            double after = bound - p.mirostat_eta * (-log2(want[id]) - p.mirostat_tau);
            if (fabs(mu - after) > 1e-4) fail_msg("mu is %g, must be %g", mu, after);
        }
        expect_counts(want, count, DRAWS);
    }
    sampler_close(&s);
}

/* The surprise of a long text comes to tau. */
static void mirostat_holds_the_surprise(void **state)
{
    (void)state;
    struct sampler s;
    struct err e;
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int k = 1; k <= 4; k++) {
        enum { TOKENS = 4000 };
        struct sampler_params p = plain;
        p.mirostat = 1;
        p.mirostat_tau = k;
        p.mirostat_eta = 0.1;
        double mu = 0, sum = 0;
        struct sampler_context c = {.params = &p, .mu = &mu, .key = sampler_key(5, 0, 0)};
        for (; c.n_generated < TOKENS; c.n_generated++) {
            float logits[VOCAB];
            double before = mu;
            random_logits(logits, 3);
            choose(&s, &c, logits);
            /* the surprise that was observed, by the change of mu */
            if (c.n_generated) sum += p.mirostat_tau - (mu - before) / p.mirostat_eta;
        }
        assert_true(fabs(sum / (TOKENS - 1) - k) < 0.05);
    }
    sampler_close(&s);
}

static void the_host_is_asked_for_all_logits(void **state)
{
    (void)state;
    struct sampler_params p = plain;
    p.top_k = 5;
    assert_int_equal(sampler_wants(&p, 0, 9), SAMPLER_WANTS_TOP);
    p.xtc_probability = 0.1;
    assert_int_equal(sampler_wants(&p, 0, 9), SAMPLER_WANTS_LOGITS);
    p.temperature = 0; /* the likeliest, whatever may be left beside it */
    assert_int_equal(sampler_wants(&p, 0, 9), SAMPLER_WANTS_BEST);
    p.dry.multiplier = 1;
    assert_int_equal(sampler_wants(&p, 0, 9), SAMPLER_WANTS_LOGITS);
    p.dry.multiplier = 0;
    p.step[p.n_steps++] = SAMPLER_TOP_K;
    assert_int_equal(sampler_wants(&p, 0, 9), SAMPLER_WANTS_LOGITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_follows_the_text),
        cmocka_unit_test(dry_as_its_author_gives_it),
        cmocka_unit_test(steps_follow_their_order),
        cmocka_unit_test(temperature_by_hand),
        cmocka_unit_test(xtc_by_hand),
        cmocka_unit_test(mirostat_follows_the_paper),
        cmocka_unit_test(mirostat_holds_the_surprise),
        cmocka_unit_test(the_host_is_asked_for_all_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
