/* unit_sampler.c: the sampler against a reference that sorts everything and keeps every
 * probability: adjusted logits bit by bit, 10^5 draws by chi-square, the set of possible tokens;
 * and logits.c against the C library. */
#include "core/sample/sampler.h"
#include "core/sample/sampler_internal.h"
#include "core/sample/weights.h"
#include "core/sample/logits.h"
#include "tests/unit/ever_top.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_VOCAB = 5000 };

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

static void random_logits(float *logits, int n, double spread)
{
    for (int i = 0; i < n; i++)
        logits[i] = (float)((uniform() + uniform() + uniform() - 1.5) * spread);
}

static struct sampler_context context(const struct sampler_params *p, uint64_t stream)
{
    return (struct sampler_context){.params = p, .key = sampler_key(p->seed, stream, 0)};
}

static int32_t choose(struct sampler *s, const struct sampler_context *c, const float *logits)
{
    int32_t id = -1;
    struct err e = {0};
    if (sampler_choose(s, c, logits, logits_argmax(logits, s->vocab), &id, &e))
        fail_msg("%s", e.msg);
    assert_true(id >= 0 && id < s->vocab);
    return id;
}

/* --- the reference */
static const double *sort_key;

static int by_key(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    if (sort_key[i] != sort_key[j]) return sort_key[i] < sort_key[j] ? -1 : 1;
    return i - j;
}

/* Keeps the fewest tokens in the order of KEY whose PROB reaches MASS of the sum; the others become
 * 0. */
static void keep_mass(double *prob, const double *key, int n, double mass)
{
    int order[MAX_VOCAB];
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) order[i] = i, total += prob[i];
    sort_key = key;
    qsort(order, (size_t)n, sizeof *order, by_key);
    for (int i = 0, any = 0; i < n; i++) {
        int id = order[i];
        if (any && sum >= mass * total) prob[id] = 0;
        if (prob[id] > 0) any = 1;
        sum += prob[id];
    }
}

static void reference(const struct sampler_params *p, const float *logits, int n, double *prob)
{
    double key[MAX_VOCAB], max = -INFINITY, total = 0;
    for (int i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i++)
        prob[i] = exp((logits[i] - max) / p->temperature), key[i] = -logits[i];
    for (int i = 0; i < n; i++)
        if (prob[i] < p->min_p) prob[i] = 0;
    if (p->top_k > 0) {
        int order[MAX_VOCAB];
        for (int i = 0; i < n; i++) order[i] = i;
        sort_key = key;
        qsort(order, (size_t)n, sizeof *order, by_key);
        for (int i = p->top_k; i < n; i++) prob[order[i]] = 0;
    }
    if (p->typical_p < 1) {
        double unusual[MAX_VOCAB], entropy = 0;
        total = 0;
        for (int i = 0; i < n; i++) total += prob[i];
        for (int i = 0; i < n; i++)
            if (prob[i] > 0) entropy -= prob[i] / total * log(prob[i] / total);
        for (int i = 0; i < n; i++)
            unusual[i] = prob[i] > 0 ? fabs(-log(prob[i] / total) - entropy) : INFINITY;
        keep_mass(prob, unusual, n, p->typical_p);
    }
    if (p->top_p < 1) keep_mass(prob, key, n, p->top_p);
    total = 0;
    for (int i = 0; i < n; i++) total += prob[i];
    for (int i = 0; i < n; i++) prob[i] /= total;
}

static void reference_adjust(const struct sampler_context *c, float *logits, int n)
{
    const struct sampler_params *p = c->params;
    for (int i = 0; i < n; i++) {
        int in_prompt = 0, times = 0, ends = 0;
        for (int j = 0; j < c->n_prompt; j++) in_prompt |= c->prompt[j] == i;
        for (int j = 0; j < c->n_generated; j++) times += c->generated[j] == i;
        for (int j = 0; j < c->n_eos; j++) ends |= c->eos[j] == i;
        for (int j = 0; j < p->n_stop_ids; j++) ends |= p->stop_ids[j] == i;
        if (ends && c->n_generated < p->min_tokens) logits[i] = -INFINITY;
        for (int j = 0; j < p->n_bias; j++)
            if (p->bias[j].id == i) logits[i] += p->bias[j].value;
        float r = (float)p->repetition_penalty;
        if (in_prompt || times) logits[i] = logits[i] > 0 ? logits[i] / r : logits[i] * r;
        if (times)
            logits[i] -= (float)p->frequency_penalty * (float)times + (float)p->presence_penalty;
    }
}

/* --- tests */
static void adjusted_logits_are_exact(void **state)
{
    (void)state;
    enum { N = 90 };
    struct sampler s;
    struct err e;
    assert_int_equal(sampler_open(&s, N, &e), 0);
    for (int round = 0; round < 300; round++) {
        float logits[N], want[N], before[N];
        int32_t prompt[50], generated[50], eos[2] = {below(N), below(N)},
                                           stops[2] = {below(N), below(N)};
        struct sampler_bias bias[2] = {{below(N / 2), (float)uniform() * 8 - 4},
                                       {N / 2 + below(N / 2), below(2) ? -INFINITY : 100}};
        struct sampler_params p = plain;
        p.repetition_penalty = below(3) ? 0.7 + uniform() : 1;
        p.frequency_penalty = below(3) ? uniform() - 0.3 : 0;
        p.presence_penalty = below(3) ? uniform() - 0.3 : 0;
        p.min_tokens = below(60);
        p.n_bias = below(3);
        p.bias = bias;
        p.n_stop_ids = below(3);
        p.stop_ids = stops;
        struct sampler_context c = context(&p, 0);
        c.n_prompt = below(50);
        c.n_generated = below(50);
        c.n_eos = below(3);
        c.prompt = prompt;
        c.generated = generated;
        c.eos = eos;
        for (int i = 0; i < 50; i++) prompt[i] = below(N), generated[i] = below(N / 3);
        random_logits(logits, N, 10);
        memcpy(want, logits, sizeof want);
        memcpy(before, logits, sizeof before);
        reference_adjust(&c, want, N);
        sampler_adjust(&s, &c, logits);
        assert_memory_equal(logits, want, sizeof want);
        if (!sampler_adjusts(&p, c.n_generated)) assert_memory_equal(logits, before, sizeof before);
    }
    sampler_close(&s);
}

/* What a device is told has room, or is not told: nothing lies behind the room. */
static void descriptions_have_room(void **state)
{
    enum { N = 40, CHANGES = 7, NOT_WRITTEN = 1 << 20 }; /* ids 3, 5; 7, 8; 8, 9; 30, 31 */
    static const struct sampler_bias bias[] = {{3, 1.5f}, {5, -2}};
    static const int32_t prompt[] = {7, 8}, generated[] = {8, 9}, eos[] = {30}, stops[] = {31};
    struct sampler_params p = plain;
    struct sampler s;
    struct err e;
    (void)state;
    p.repetition_penalty = 1.3;
    p.n_bias = 2, p.bias = bias;
    p.min_tokens = 5;
    p.n_stop_ids = 1, p.stop_ids = stops;
    struct sampler_context c = context(&p, 0);
    c.n_prompt = c.n_generated = 2, c.n_eos = 1;
    c.prompt = prompt, c.generated = generated, c.eos = eos;
    assert_int_equal(sampler_open(&s, N, &e), 0);
    for (int room = 0; room < CHANGES + 2; room++) {
        struct batch_change change[CHANGES + 2];
        struct batch_sample out;
        for (int i = 0; i < CHANGES + 2; i++) change[i].id = NOT_WRITTEN;
        assert_int_equal(sampler_describe(&s, &c, &out, change, room), room >= CHANGES);
        if (room >= CHANGES) assert_int_equal(out.n_changes, CHANGES);
        for (int i = 0; i < CHANGES + 2; i++)
            assert_int_equal(change[i].id == NOT_WRITTEN, i >= room || i >= CHANGES);
        for (int i = 0; i < N; i++) assert_int_equal(s.seen[i], 0);
    }
    sampler_close(&s);
}

static void greedy_takes_the_lowest_of_the_largest(void **state)
{
    (void)state;
    struct sampler s;
    struct err e;
    struct sampler_params p = plain;
    p.temperature = 0;
    const struct sampler_context c = context(&p, 0);
    assert_int_equal(sampler_open(&s, 40, &e), 0);
    for (int i = 0; i < 40; i++)
        for (int j = i; j < 40; j++) {
            float logits[40] = {0};
            logits[i] = logits[j] = 7;
            assert_int_equal(choose(&s, &c, logits), i);
        }
    sampler_close(&s);
}

/* 10^5 draws follow the reference (chi-square, 99.99%, with Wilson and Hilferty's approximation of
 * the quantile); a token with probability 0 is never drawn. Rare tokens count together. */
static void expect_distribution(const struct sampler_params *p, const float *logits, int n)
{
    enum { DRAWS = 100000 };
    static double want[MAX_VOCAB];
    static int count[MAX_VOCAB];
    struct sampler s;
    struct err e;
    struct sampler_context c = context(p, 1);
    reference(p, logits, n, want);
    memset(count, 0, sizeof count);
    assert_int_equal(sampler_open(&s, n, &e), 0);
    for (c.n_generated = 0; c.n_generated < DRAWS; c.n_generated++) count[choose(&s, &c, logits)]++;
    sampler_close(&s);
    double chi = 0, rare_want = 0, rare_count = 0;
    int freedom = -1;
    for (int i = 0; i < n; i++) {
        if (want[i] == 0 && count[i]) fail_msg("token %d came %d times, it cannot", i, count[i]);
        if (want[i] * DRAWS < 10) rare_want += want[i] * DRAWS, rare_count += count[i];
        else chi += pow(count[i] - want[i] * DRAWS, 2) / (want[i] * DRAWS), freedom++;
    }
    if (rare_want >= 5) chi += pow(rare_count - rare_want, 2) / rare_want, freedom++;
    if (freedom < 1) return;
    double v = 2.0 / (9 * freedom), limit = freedom * pow(1 - v + 3.72 * sqrt(v), 3);
    if (chi > limit)
        fail_msg("chi-square %.1f with %d degrees of freedom (limit %.1f)", chi, freedom, limit);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    float logits[60];
    random_logits(logits, 60, 6);
    logits[11] = -INFINITY;
    logits[12] = logits[13];
    struct sampler_params p[] = {plain, plain, plain, plain, plain, plain, plain, plain, plain};
    p[1].temperature = 0.5;
    p[2].top_k = 7;
    p[3].top_p = 0.8;
    p[4].min_p = 0.2;
    p[5].typical_p = 0.7;
    p[6].top_k = 40, p[6].top_p = 0.95, p[6].temperature = 0.8, p[6].min_p = 0.05;
    p[7].typical_p = 0.9, p[7].top_k = 30, p[7].top_p = 0.7;
    p[8].temperature = 3, p[8].top_p = 0.99;
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) expect_distribution(&p[i], logits, 60);
    /* probabilities known by hand */
    const float five[] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.25f), logf(0.05f)};
    double prob[5];
    reference(&(struct sampler_params){.temperature = 1, .top_p = 0.7, .typical_p = 1}, five, 5,
              prob); /* 0.4 + 0.25 < 0.7 */
    assert_true(prob[0] == 0 && prob[4] == 0 && fabs(prob[1] - 0.4 / 0.85) < 1e-6 &&
                fabs(prob[2] - 0.2 / 0.85) < 1e-6);
    reference(&(struct sampler_params){.temperature = 1, .top_p = 1, .typical_p = 0.44}, five, 5,
              prob); /* entropy 1.415 */
    assert_true(prob[0] == 0 && prob[1] == 0 && prob[4] == 0 &&
                fabs(prob[3] - 0.25 / 0.45) < 1e-6 && fabs(prob[2] - 0.2 / 0.45) < 1e-6);
}

/* A larger vocabulary uses blocks and selections: every truncation, compared as sets and, for
 * distributions of few tokens, by draws. */
static void truncation_keeps_the_right_tokens(void **state)
{
    (void)state;
    static float logits[MAX_VOCAB];
    static double want[MAX_VOCAB];
    static char came[MAX_VOCAB];
    struct sampler s;
    struct err e;
    assert_int_equal(sampler_open(&s, MAX_VOCAB, &e), 0);
    for (int round = 0; round < 120; round++) {
        struct sampler_params p = plain;
        p.temperature = 0.2 + 1.5 * uniform();
        if (below(2)) p.top_k = 1 + below(below(2) ? 30 : MAX_VOCAB);
        if (below(2)) p.top_p = uniform();
        if (below(2)) p.min_p = pow(uniform(), 4);
        if (below(3) == 0) p.typical_p = uniform();
        random_logits(logits, MAX_VOCAB, 5 + 15 * uniform());
        for (int i = 0; below(2) && i < 400; i++)
            logits[below(MAX_VOCAB)] = logits[below(MAX_VOCAB)]; /* ties */
        reference(&p, logits, MAX_VOCAB, want);
        memset(came, 0, sizeof came);
        struct sampler_context c = context(&p, 2);
        for (c.n_generated = 0; c.n_generated < 400; c.n_generated++)
            came[choose(&s, &c, logits)] = 1;
        for (int i = 0; i < MAX_VOCAB; i++) {
            if (came[i] && want[i] == 0) fail_msg("round %d: token %d came, it cannot", round, i);
            if (!came[i] && want[i] > 0.05)
                fail_msg("round %d: token %d of probability %g never came", round, i, want[i]);
        }
    }
    sampler_close(&s);
    struct sampler_params p = plain;
    random_logits(logits, 1500, 9);
    expect_distribution(&p, logits, 1500);
    p.top_p = 0.9;
    expect_distribution(&p, logits, 1500);
}

static int best_first(const void *a, const void *b) { return sampler_before(a, b) ? -1 : 1; }

/* Of every mass there may be, also where the best ones have it exactly. */
static void the_fewest_best_have_the_mass(void **state)
{
    enum { MOST = 70 };
    uint64_t seed = 5;
    (void)state;
    for (int n = 1; n <= MOST; n += 3) {
        struct sampler_candidate all[MOST], got[MOST];
        for (int i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            all[i] = (struct sampler_candidate){
                .key = (double)(seed >> 33) / 0x1p31, .weight = 1 + (seed >> 60) % 3, .id = i};
            if (i % 5 == 4) all[i].key = all[i - 2].key;
        }
        const uint64_t total = sampler_total(all, n);
        for (uint64_t mass = 1; mass <= total; mass++) {
            memcpy(got, all, sizeof all);
            int kept = sampler_select_mass(got, n, mass);
            uint64_t sum = sampler_total(got, kept);
            qsort(got, (size_t)n, sizeof *got, best_first);
            assert_true(sum == sampler_total(got, kept)); /* the best ones */
            assert_true(sum >= mass && sum - got[kept - 1].weight < mass);
        }
    }
}

/* Of equal logits the lower ids stay, wherever the cut falls. */
static void ties_are_cut_by_id(void **state)
{
    (void)state;
    static const int sizes[] = {2, 5, 16, 17, 40, 700};
    struct sampler s;
    struct err e = {0};
    assert_int_equal(sampler_open(&s, 700, &e), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 3; how++)
            for (int keep = 1; keep < sizes[i]; keep += 1 + sizes[i] / 9) {
                int n = sizes[i], seen[700] = {0};
                struct sampler_params p = plain;
                float logits[700];
                if (how == 0) p.top_p = (keep - 0.5) / n;
                if (how == 1) p.typical_p = (keep - 0.5) / n;
                if (how == 2) p.top_k = keep;
                s.vocab = n;
                for (int k = 0; k < n; k++) logits[k] = 1.5f;
                for (int k = 0; k < 30 * keep; k++) {
                    struct sampler_context c = context(&p, (uint64_t)k);
                    seen[choose(&s, &c, logits)]++;
                }
                for (int k = 0; k < n; k++)
                    if (k < keep ? !seen[k] && keep < 50 : seen[k])
                        fail_msg("%d of %d equal logits, way %d: token %d came %d times", keep, n,
                                 how, k, seen[k]);
            }
    s.vocab = 700;
    sampler_close(&s);
}

static void the_random_stream_is_a_function_of_its_names(void **state)
{
    (void)state;
    enum { DRAWS = 64 };
    const float logits[8] = {0};
    struct sampler s;
    struct err e;
    int32_t draws[6][DRAWS];
    static const uint64_t names[6][3] = {{7, 0, 0}, {7, 0, 0}, {8, 0, 0},
                                         {7, 1, 0}, {7, 0, 1}, {0, 7, 0}};
    assert_int_equal(sampler_open(&s, 8, &e), 0);
    for (int k = 0; k < 6; k++) {
        struct sampler_context c = {.params = &plain,
                                    .key = sampler_key(names[k][0], names[k][1], names[k][2])};
        for (int i = DRAWS - 1; i >= 0; i--) { /* in any order: a draw depends on its number */
            c.n_generated = k == 1 ? DRAWS - 1 - i : i;
            draws[k][c.n_generated] = choose(&s, &c, logits);
        }
    }
    assert_memory_equal(draws[0], draws[1], sizeof draws[0]);
    for (int k = 1; k < 6; k++)
        for (int l = k + 1; l < 6; l++)
            assert_memory_not_equal(draws[k], draws[l], sizeof draws[0]);
    sampler_close(&s);
}

static void logits_that_are_not_finite_are_an_error(void **state)
{
    (void)state;
    struct sampler s;
    struct err e;
    int32_t id;
    const struct sampler_context c = context(&plain, 0);
    assert_int_equal(sampler_open(&s, 37, &e), 0);
    for (int i = 0; i < 37; i++) {
        float logits[37] = {0};
        logits[i] = NAN;
        assert_int_equal(sampler_choose(&s, &c, logits, logits_argmax(logits, 37), &id, &e), -1);
        logits[i] = INFINITY;
        assert_int_equal(sampler_choose(&s, &c, logits, logits_argmax(logits, 37), &id, &e), -1);
        for (int j = 0; j < 37; j++) logits[j] = -INFINITY;
        assert_int_equal(sampler_choose(&s, &c, logits, logits_argmax(logits, 37), &id, &e), -1);
        logits[i] = -1000;
        assert_int_equal(sampler_choose(&s, &c, logits, logits_argmax(logits, 37), &id, &e), 0);
        assert_int_equal(id, i);
    }
    sampler_close(&s);
}

/* The required logits of a backend's `top`, and perhaps others. */
static int find_top(const float *logits, int n, int n_top, struct logits_entry *top)
{
    uint8_t is[MAX_VOCAB];
    int n_found = 0;
    ever_top(logits, n, n_top, is);
    for (int i = 0; i < n; i++)
        if (is[i] || below(10) == 0) top[n_found++] = (struct logits_entry){logits[i], i};
    return n_found;
}

static void some_logits_are_enough(void **state)
{
    (void)state;
    enum { VOCAB = 700, N_TOP = 64 };
    static float logits[VOCAB];
    static struct logits_entry top[VOCAB];
    struct sampler s;
    struct err e = {0};
    int n_of[3] = {0}, n_other = 0;
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    for (int i = 0; i < 20000; i++) {
        int32_t whole, few = -1;
        struct sampler_params p = plain;
        p.temperature = below(9) ? 0.1 + 2 * uniform() : 0;
        p.top_k = below(2) ? 1 + below(N_TOP) : below(100);
        if (below(2)) p.top_p = uniform();
        if (below(2)) p.min_p = uniform() * uniform();
        if (below(4) == 0) p.typical_p = uniform();
        if (below(9) == 0) p.presence_penalty = 1;
        if (below(9) == 0) p.min_tokens = 1;
        enum sampler_wants wants = sampler_wants(&p, 0, N_TOP);
        n_of[wants]++;
        assert_int_equal(wants == SAMPLER_WANTS_LOGITS,
                         p.presence_penalty != 0 || p.min_tokens ||
                             (p.temperature > 0 && (p.top_k == 0 || p.top_k > N_TOP)));
        if (wants != SAMPLER_WANTS_TOP) continue;
        random_logits(logits, VOCAB, 10);
        for (int j = 0; j < VOCAB; j++)
            if (below(3) == 0)
                logits[j] = below(4) ? (float)(int)logits[j] : -INFINITY; /* ties; forbidden ones */
        for (int j = 20; i % 50 == 0 && j < VOCAB; j++) logits[j] = -INFINITY;
        const struct sampler_context c = context(&p, (uint64_t)i);
        int best = logits_argmax(logits, VOCAB), n = find_top(logits, VOCAB, N_TOP, top);
        whole = choose(&s, &c, logits);
        assert_int_equal(sampler_choose_top(&s, &c, top, n, best, &few, &e), 0);
        assert_int_equal(few, whole);
        n_other += few != best;
        assert_int_equal(sampler_choose_top(&s, &c, top, n, -1, &few, &e), -1);
    }
    assert_true(n_of[SAMPLER_WANTS_BEST] > 1000 && n_of[SAMPLER_WANTS_TOP] > 5000 &&
                n_of[SAMPLER_WANTS_LOGITS] > 5000);
    assert_true(n_other > 2000);
    sampler_close(&s);
}

/* --- logits.c */
static void exp_and_log_are_accurate(void **state)
{
    (void)state;
    for (double x = -699.9; x <= 0; x += 0.00713)
        assert_true(fabs(logits_exp(x) / exp(x) - 1) < 3e-15);
    assert_true(logits_exp(0) == 1);
    assert_true(logits_exp(-1e9) < 1e-300 && logits_exp(-INFINITY) < 1e-300);
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        assert_true(fabs(logits_log(x) - log(x)) <= 1e-15 * fabs(log(x)));
    for (double x = 0.5; x < 2; x += 0.00037)
        assert_true(fabs(logits_log(x) - log(x)) <= 1e-15 * fabs(log(x)) + 1e-18);
    assert_true(logits_log(1) == 0);
}

/* The sums have the same bits with all instruction sets. */
static void sums_are_the_same_everywhere(void **state)
{
    (void)state;
    enum { N = 4007 };
    static float logits[N];
    uint64_t seed = 7, all = 0;
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        logits[i] = (float)(seed >> 40) * 0x1p-20f - 20;
    }
    for (int n = 1; n < N - 13; n += 7) {
        double sum = logits_sum_exp(logits + n % 13, n, 0, 0.3 + n * 1e-3);
        uint64_t u;
        memcpy(&u, &sum, sizeof u);
        all = all * 31 + u;
    }
    assert_true(all == 0x51fa33114e5b32adu);
}

static void sums_and_tops_are_right(void **state)
{
    (void)state;
    for (int n = 1; n < 70; n++) {
        float logits[70];
        int32_t top[71];
        random_logits(logits, n, 30);
        for (int i = 0; i < n / 3; i++) logits[below(n)] = logits[below(n)];
        long double sum = 0;
        int best = logits_argmax(logits, n);
        for (int i = 0; i < n; i++) {
            assert_true(logits[i] < logits[best] || (logits[i] == logits[best] && i >= best));
            sum += expl(((long double)logits[i] - logits[best]) * 0.7L);
        }
        assert_true(fabs(logits_sum_exp(logits, n, logits[best], 0.7) / (double)sum - 1) < 3e-15);
        int from = below(n + 1), next = from;
        float low = logits[below(n)];
        while (next < n && !(logits[next] > low)) next++;
        assert_int_equal(logits_next_above(logits, from, n, low), next);
        int k = below(n + 1);
        top[k] = -7;
        logits_top(logits, n, k, top);
        assert_int_equal(top[k], -7);
        for (int i = 0; i < k; i++) {
            int better = 0;
            for (int j = 0; j < n; j++)
                better += logits[j] > logits[top[i]] || (logits[j] == logits[top[i]] && j < top[i]);
            assert_int_equal(better, i);
        }
    }
}

static void a_mask_leaves_what_is_set(void **state)
{
    (void)state;
    enum { MOST = 333 };
    float logits[MOST], out[MOST + 1];
    uint32_t set[(MOST + 31) / 32], x = 7;
    for (int n = 0; n <= MOST; n++) {
        for (int i = 0; i < n; i++) logits[i] = (float)(i * 37 % 101) - 50;
        for (int w = 0; w < (MOST + 31) / 32; w++) {
            x = x * 1664525 + 1013904223;
            set[w] = x >> 30 == 0 ? 0 : x >> 30 == 1 ? UINT32_MAX : x ^ x << 7;
        }
        out[n] = 5;
        logits_mask(logits, n, set, out);
        for (int i = 0; i < n; i++)
            assert_true(out[i] == (set[i / 32] >> i % 32 & 1 ? logits[i] : -INFINITY));
        assert_true(out[n] == 5);
        int best = n ? logits_argmax(out, n) : -1;
        assert_int_equal(n ? logits_argmax_in(logits, n, set) : -1, best);
        if (n < 40 || best < 0) continue;
        logits[best] = NAN;
        assert_int_equal(logits_argmax_in(logits, n, set), -1);
    }
}

/* A choice under a mask is the choice from logits of which the others are -infinity, whatever steps
 * it is made by, with words of all, some and no tokens. */
static void a_mask_is_as_good_as_masked_logits(void **state)
{
    (void)state;
    enum { N = 5000 };
    static const struct sampler_params all[] = {
        {.temperature = 0},
        {.temperature = 1, .top_p = 1, .typical_p = 1},
        {.temperature = 0.6, .top_p = 0.9, .typical_p = 1},
        {.temperature = 1.5, .top_p = 1, .typical_p = 1, .top_k = 40},
        {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = 4000},
        {.temperature = 1, .top_p = 1, .typical_p = 0.7},
        {.temperature = 1, .top_p = 0.95, .typical_p = 1, .min_p = 0.1},
    };
    static float logits[N], masked[N];
    static uint32_t set[(N + 31) / 32];
    struct sampler s;
    struct err e = {0};
    assert_int_equal(sampler_open(&s, N, &e), 0);
    for (int k = 0; k < 400; k++) {
        struct sampler_params p = all[k % (int)(sizeof all / sizeof *all)];
        p.repetition_penalty = 1;
        int sparse = k % 3, only = below(N);
        int32_t a, b;
        random_logits(logits, N, 12);
        for (int w = 0; w < (N + 31) / 32; w++) {
            int none = sparse == 2 ? w != only / 32 : sparse == 1 && below(3);
            set[w] = none ? 0 : below(3) ? UINT32_MAX : (uint32_t)below(1 << 30);
        }
        set[only / 32] |= 1u << only % 32;
        logits_mask(logits, N, set, masked);
        struct sampler_context c = context(&p, (uint64_t)k);
        int best = logits_argmax(masked, N);
        assert_int_equal(sampler_choose(&s, &c, masked, best, &a, &e), 0);
        c.mask = set;
        assert_int_equal(sampler_choose(&s, &c, logits, best, &b, &e), 0);
        assert_int_equal(a, b);
        assert_true(set[b / 32] >> b % 32 & 1);
    }
    sampler_close(&s);
}

/* Every sum of exponentials that a processor may take is the same: lane i adds logits i, i + 8, .. */
static void sums_have_eight_lanes(void **state)
{
    (void)state;
    float x[515];
    for (int n = 0; n <= 515; n += 1 + below(7)) {
        double lane[8] = {0}, total;
        random_logits(x, n, 40);
        for (int i = 0; i < n / 8 * 8; i++) lane[i % 8] += logits_exp(((double)x[i] - 21) * 0.7);
        total = ((lane[0] + lane[2]) + (lane[4] + lane[6])) +
                ((lane[1] + lane[3]) + (lane[5] + lane[7]));
        for (int i = n / 8 * 8; i < n; i++) total += logits_exp(((double)x[i] - 21) * 0.7);
        assert_true(logits_sum_exp(x, n, 21, 0.7) == total);
        for (int lanes = 2; lanes <= 8; lanes *= 2) {
            double by = logits_sum_exp_by(lanes, x, n, 21, 0.7);
            assert_true(by == total || (isnan(by) && lanes > 2));
        }
        assert_true(isnan(logits_sum_exp_by(3, x, n, 21, 0.7)));
    }
}

/* Weights follow the definition, fall with the depth, and are the same by all instructions. */
static void weights_are_the_same_everywhere(void **state)
{
    (void)state;
    enum { N = 517 };
    static float x[N];
    static int32_t depth[2][N];
    static uint64_t weight[2][N];
    assert_true(weights_of(0) == 1ull << 44 && weights_of(WEIGHTS_DEEPEST) == 0);
    for (int32_t d = 0; d < 12 * WEIGHTS_NAT; d += 9973) {
        double want = ldexp(exp(-(double)d / WEIGHTS_NAT), 44);
        assert_true(fabs((double)weights_of(d) - want) <= 1 + want * 0x1p-28);
        assert_true(weights_of(d + 64) <= weights_of(d));
    }
    for (int round = 0; round < 300; round++) {
        const struct weighing w = {(float)(40 * uniform()),
                                   weights_scale(round ? 3 * uniform() : 1e-5),
                                   below(3) ? WEIGHTS_DEEPEST : below(20 * WEIGHTS_NAT)};
        int n = below(N + 1);
        random_logits(x, N, 40);
        for (int i = 0; i < N; i++)
            x[i] = below(20) ? w.max - fabsf(x[i]) : below(2) ? w.max : -INFINITY;
        assert_int_equal(weights_row_by(1, x, n, &w, depth[0], weight[0]), 0);
        for (int lanes = 4; lanes <= 8; lanes *= 2) {
            memset(depth[1], 1, sizeof depth[1]);
            if (weights_row_by(lanes, x, n, &w, depth[1], weight[1])) continue;
            assert_memory_equal(depth[0], depth[1], (size_t)n * sizeof **depth);
            assert_memory_equal(weight[0], weight[1], (size_t)n * sizeof **weight);
        }
        uint64_t sum = 0;
        for (int i = 0; i < n; i++) {
            sum += weight[0][i];
            assert_true(depth[0][i] <= w.most ? depth[0][i] == weights_depth(x[i], w.max, w.scale)
                                              : depth[0][i] == WEIGHTS_DEEPEST);
        }
        assert_true(weights_row(x, n, &w, depth[1], weight[1]) == sum);
    }
    assert_int_equal(weights_row_by(3, x, 1, &(struct weighing){0, 1, 1}, depth[1], weight[1]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_same_everywhere),
        cmocka_unit_test(a_mask_leaves_what_is_set),
        cmocka_unit_test(a_mask_is_as_good_as_masked_logits),
        cmocka_unit_test(sums_have_eight_lanes),
        cmocka_unit_test(adjusted_logits_are_exact),
        cmocka_unit_test(descriptions_have_room),
        cmocka_unit_test(greedy_takes_the_lowest_of_the_largest),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(truncation_keeps_the_right_tokens),
        cmocka_unit_test(the_fewest_best_have_the_mass),
        cmocka_unit_test(ties_are_cut_by_id),
        cmocka_unit_test(the_random_stream_is_a_function_of_its_names),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error),
        cmocka_unit_test(some_logits_are_enough),
        cmocka_unit_test(exp_and_log_are_accurate),
        cmocka_unit_test(sums_are_the_same_everywhere),
        cmocka_unit_test(sums_and_tops_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
