#include "core/sample/sampler_internal.h"

#include "core/sample/logits.h"
#include "core/step/op.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 }; /* logits per partial sum, and per test of a mask */
const double sampler_greedy = 1e-5;
static const uint32_t IN_PROMPT = 1u << 31;

/* splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection whose values over a counter pass
 * tests of randomness. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15u; /* splitmix64's step */

uint64_t sampler_key(uint64_t seed, uint64_t stream, uint64_t choice)
{
    return mix(mix(mix(seed + GOLDEN) ^ stream) + (choice + 1) * GOLDEN);
}

double sampler_draw(const struct sampler_context *c, uint64_t use)
{
    uint64_t key = use ? mix(c->key ^ use) : c->key;
    return (double)(mix(key + ((uint64_t)c->n_generated + 1) * GOLDEN) >> 11) * 0x1p-53;
}

int sampler_open(struct sampler *s, int vocab, struct err *e)
{
    s->vocab = vocab;
    s->seen = calloc((size_t)vocab, sizeof *s->seen);
    s->block_sum = malloc(((size_t)vocab / BLOCK + 1) * sizeof *s->block_sum);
    s->candidates = malloc((size_t)vocab * sizeof *s->candidates);
    s->heap = malloc((size_t)vocab * sizeof *s->heap);
    s->block = malloc(BLOCK * sizeof *s->block);
    if (s->seen && s->block_sum && s->candidates && s->heap && s->block) return 0;
    sampler_close(s);
    return err_memory(e);
}

void sampler_close(struct sampler *s)
{
    free(s->seen);
    free(s->block_sum);
    free(s->candidates);
    free(s->heap);
    free(s->block);
    memset(s, 0, sizeof *s);
}

int sampler_penalizes(const struct sampler_params *p)
{
    return p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0;
}

int sampler_steps(const struct sampler_params *p, const uint8_t **step)
{
    static const uint8_t usual[] = {SAMPLER_PENALTIES,   SAMPLER_DRY,   SAMPLER_TEMPERATURE,
                                    SAMPLER_TOP_N_SIGMA, SAMPLER_MIN_P, SAMPLER_TOP_K,
                                    SAMPLER_TYPICAL,     SAMPLER_TOP_P, SAMPLER_XTC};
    *step = p->n_steps ? p->step : usual;
    return p->n_steps ? p->n_steps : (int)sizeof usual;
}

int sampler_n_leading(const struct sampler_params *p)
{
    const uint8_t *step;
    int n = sampler_steps(p, &step), i = 0;
    while (i < n && (step[i] == SAMPLER_PENALTIES || step[i] == SAMPLER_DRY)) i++;
    return i;
}

/* 1 if a step that sampler_adjust applies does anything. */
static int adjusts_by_steps(const struct sampler_params *p)
{
    const uint8_t *step;
    sampler_steps(p, &step);
    for (int i = 0; i < sampler_n_leading(p); i++)
        if (step[i] == SAMPLER_DRY ? p->dry.multiplier != 0 : sampler_penalizes(p)) return 1;
    return 0;
}

int sampler_adjusts(const struct sampler_params *p, int n_generated)
{
    return n_generated < p->min_tokens || p->n_bias || sampler_forbids(p) || adjusts_by_steps(p);
}

int sampler_forbids(const struct sampler_params *p) { return p->allowed || p->n_bad; }

int sampler_chains(const struct sampler_params *p)
{
    if (p->n_steps) return 1;
    return p->temperature >= sampler_greedy &&
           (p->mirostat || p->xtc_probability > 0 || p->top_n_sigma > 0);
}

enum sampler_wants sampler_wants(const struct sampler_params *p, int n_generated, int n_top)
{
    if (sampler_adjusts(p, n_generated) || sampler_chains(p)) return SAMPLER_WANTS_LOGITS;
    if (p->temperature < sampler_greedy) return SAMPLER_WANTS_BEST;
    return p->top_k > 0 && p->top_k <= n_top ? SAMPLER_WANTS_TOP : SAMPLER_WANTS_LOGITS;
}

struct dry_history sampler_history(const struct sampler_context *c)
{
    return (struct dry_history){c->prompt, c->generated, c->n_prompt, c->n_generated};
}

/* The tokens that the penalties look at: prompt [n] and generated [m]. */
static void find_penalized(const struct sampler_context *c, const int32_t **prompt, int *n,
                           const int32_t **generated, int *m)
{
    int all = c->n_prompt + c->n_generated, last = c->params->penalty_last_n;
    int skip = last && all > last ? all - last : 0;
    int of_prompt = skip < c->n_prompt ? skip : c->n_prompt;
    *n = c->params->repetition_penalty != 1 ? c->n_prompt - of_prompt : 0;
    *prompt = *n ? c->prompt + of_prompt : NULL;
    *m = c->n_generated - (skip - of_prompt);
    *generated = *m ? c->generated + (skip - of_prompt) : NULL;
}

void sampler_count(struct sampler *s, const struct sampler_context *c)
{
    const int32_t *prompt, *generated;
    int n, m;
    find_penalized(c, &prompt, &n, &generated, &m);
    for (int i = 0; i < m; i++) s->seen[generated[i]]++;
    for (int i = 0; i < n; i++) s->seen[prompt[i]] |= IN_PROMPT;
}

float sampler_penalized(const struct sampler_params *p, uint32_t seen, float l)
{
    float r = (float)p->repetition_penalty, f = (float)p->frequency_penalty,
          a = (float)p->presence_penalty;
    uint32_t times = seen & ~IN_PROMPT;
    l = l > 0 ? l / r : l * r;
    return times ? l - (f * (float)times + a) : l;
}

static void uncount(struct sampler *s, const struct sampler_params *p, const int32_t *id, int n,
                    float *logits)
{
    for (int i = 0; i < n; i++) {
        uint32_t seen = s->seen[id[i]];
        if (!seen) continue; /* penalized at an earlier occurrence of the token */
        if (logits) logits[id[i]] = sampler_penalized(p, seen, logits[id[i]]);
        s->seen[id[i]] = 0;
    }
}

void sampler_uncount(struct sampler *s, const struct sampler_context *c, float *logits)
{
    const int32_t *prompt, *generated;
    int n, m;
    find_penalized(c, &prompt, &n, &generated, &m);
    uncount(s, c->params, prompt, n, logits);
    uncount(s, c->params, generated, m, logits);
}

static void forbid(const struct sampler_context *c, int vocab, float *logits)
{
    const struct sampler_params *p = c->params;
    for (int i = 0; p->allowed && i < vocab; i++)
        if (!(p->allowed[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
    for (int i = 0; i < p->n_bad; i++) {
        const struct sampler_bad *bad = &p->bad[i];
        int before = bad->n - 1;
        if (before > c->n_generated) continue;
        if (!before || !memcmp(c->generated + c->n_generated - before, bad->id,
                               (size_t)before * sizeof *bad->id))
            logits[bad->id[before]] = -INFINITY;
    }
}

void sampler_adjust(struct sampler *s, const struct sampler_context *c, float *logits)
{
    const struct sampler_params *p = c->params;
    const struct dry_history h = sampler_history(c);
    const uint8_t *step;
    forbid(c, s->vocab, logits);
    if (c->n_generated < p->min_tokens) {
        for (int i = 0; i < c->n_eos; i++) logits[c->eos[i]] = -INFINITY;
        for (int i = 0; i < p->n_stop_ids; i++) logits[p->stop_ids[i]] = -INFINITY;
    }
    for (int i = 0; i < p->n_bias; i++) logits[p->bias[i].id] += p->bias[i].value;
    sampler_steps(p, &step);
    for (int i = 0; i < sampler_n_leading(p); i++) {
        if (step[i] == SAMPLER_DRY && p->dry.multiplier != 0) {
            dry_mark(&p->dry, &h, s->seen);
            dry_clear(&p->dry, &h, s->seen, logits);
        }
        if (step[i] == SAMPLER_PENALTIES && sampler_penalizes(p)) {
            sampler_count(s, c);
            sampler_uncount(s, c, logits);
        }
    }
}

int sampler_before(const struct sampler_candidate *a, const struct sampler_candidate *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void swap(struct sampler_candidate *a, struct sampler_candidate *b)
{
    struct sampler_candidate t = *a;
    *a = *b;
    *b = t;
}

static int precedes(const struct logits_entry *a, const struct logits_entry *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

/* Inserts x at i, the root of a subtree whose children are heaps; the heap's root is its worst
 * entry. */
static void sift_down(struct logits_entry *heap, int n, int i, struct logits_entry x)
{
    for (int l; (l = 2 * i + 1) < n; i = l) {
        if (l + 1 < n && precedes(&heap[l], &heap[l + 1])) l++;
        if (!precedes(&x, &heap[l])) break;
        heap[i] = heap[l];
    }
    heap[i] = x;
}

static void make_heap(struct logits_entry *heap, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(heap, n, i, heap[i]);
}

static struct sampler_candidate candidate(struct logits_entry l)
{
    return (struct sampler_candidate){.key = -l.value, .logit = l.value, .id = l.id};
}

static int take_candidates(struct sampler *s, int n)
{
    for (int i = 0; i < n; i++) s->candidates[i] = candidate(s->heap[i]);
    return n;
}

/* The logits that a choice is made from: those of ROW whose bit of MASK is set. */
struct view {
    const float *row;
    const uint32_t *mask; /* NULL: all */
};

/* Logits first .. first + *n - 1, a block, the forbidden ones -INFINITY; NULL: all are forbidden.
 */
static const float *block_of(struct sampler *s, const struct view *v, int first, int *n)
{
    *n = s->vocab - first < BLOCK ? s->vocab - first : BLOCK;
    if (!v->mask) return v->row + first;
    const uint32_t *set = v->mask + first / 32;
    uint32_t any = 0, all = UINT32_MAX;
    for (int i = 0; i < (*n + 31) / 32; i++) any |= set[i], all &= set[i];
    if (!any) return NULL;
    if (all == UINT32_MAX) return v->row + first;
    logits_mask(v->row + first, *n, set, s->block);
    return s->block;
}

/* Gathers the k largest logits >= floor with a heap over the whole row. On ties the lower id, which
 * comes first, stays. */
static int gather_best(struct sampler *s, const struct view *v, double floor, int k)
{
    int n = 0, m;
    for (int first = 0; first < s->vocab; first += BLOCK) {
        const float *x = block_of(s, v, first, &m);
        int i = 0;
        if (!x) continue;
        for (; i < m && n < k; i++) {
            if (x[i] >= floor) s->heap[n++] = (struct logits_entry){x[i], first + i};
            if (n == k) make_heap(s->heap, k);
        }
        if (n < k) continue;
        for (; (i = logits_next_above(x, i, m, s->heap->value)) < m; i++)
            sift_down(s->heap, k, 0, (struct logits_entry){x[i], first + i});
    }
    return take_candidates(s, n);
}

/* The same candidates in the same order from the backend's top: a logit that is missing there never
 * enters that heap. */
static int gather_top(struct sampler *s, const struct logits_entry *top, int n_top, double floor,
                      int k)
{
    int n = 0, i = 0;
    for (; i < n_top && n < k; i++)
        if (top[i].value >= floor) s->heap[n++] = top[i];
    if (n < k) return take_candidates(s, n);
    make_heap(s->heap, k);
    for (; i < n_top; i++)
        if (top[i].value > s->heap->value) sift_down(s->heap, k, 0, top[i]);
    return take_candidates(s, k);
}

static int gather(struct sampler *s, const struct view *v, double floor)
{
    int n = 0, m;
    for (int first = 0; first < s->vocab; first += BLOCK) {
        const float *x = block_of(s, v, first, &m);
        for (int i = 0; x && i < m; i++)
            if (x[i] >= floor)
                s->candidates[n++] = candidate((struct logits_entry){x[i], first + i});
    }
    return n;
}

/* Quickselect on weights: only the last few are sorted. */
int sampler_select_mass(struct sampler_candidate *c, int n, double mass)
{
    int lo = 0, hi = n;
    double have = 0; /* weight of c[0 .. lo-1], which are all selected */
    while (hi - lo > 16) {
        struct sampler_candidate *first = &c[lo], *middle = &c[lo + (hi - lo) / 2],
                                 *last = &c[hi - 1];
        if (sampler_before(middle, first)) swap(middle, first);
        if (sampler_before(last, middle)) swap(last, middle);
        if (sampler_before(middle, first)) swap(middle, first);
        swap(middle, last); /* pivot: the median of three */
        int at = lo;
        double left = 0;
        for (int i = lo; i < hi - 1; i++)
            if (sampler_before(&c[i], last)) {
                swap(&c[i], &c[at]);
                left += c[at++].weight;
            }
        swap(&c[at], last);
        left += c[at].weight;
        if (have + left >= mass) hi = at + 1;
        else lo = at + 1, have += left;
    }
    for (int i = lo + 1; i < hi; i++)
        for (int j = i; j > lo && sampler_before(&c[j], &c[j - 1]); j--) swap(&c[j], &c[j - 1]);
    while (lo < hi && (lo == 0 || have < mass)) have += c[lo++].weight;
    return lo;
}

double sampler_total(const struct sampler_candidate *c, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++) total += c[i].weight;
    return total;
}

int sampler_select_typical(struct sampler_candidate *c, int n, double max, double scale,
                           double typical_p)
{
    double total = sampler_total(c, n), log_total = logits_log(total), expected = 0;
    for (int i = 0; i < n; i++) {
        c[i].key = log_total - (c[i].logit - max) * scale;
        expected += c[i].weight / total * c[i].key;
    }
    for (int i = 0; i < n; i++) c[i].key = fabs(c[i].key - expected);
    n = sampler_select_mass(c, n, typical_p * total);
    for (int i = 0; i < n; i++) c[i].key = -c[i].logit;
    return n;
}

/* Fills block_sum with the sums of weights by block; returns the total. */
static double sum_blocks(struct sampler *s, const struct view *v, double max, double scale)
{
    double total = 0;
    int n;
    for (int i = 0, b = 0; i < s->vocab; i += BLOCK, b++) {
        const float *x = block_of(s, v, i, &n);
        total += s->block_sum[b] = x ? logits_sum_exp(x, n, max, scale) : 0;
    }
    return total;
}

static int may_be_drawn(const struct view *v, int i)
{
    return v->row[i] != -INFINITY && (!v->mask || v->mask[i / 32] >> i % 32 & 1);
}

/* Draws from all logits without gathering candidates. */
static int32_t draw_any(struct sampler *s, const struct view *v, double max, double scale, double u)
{
    u *= sum_blocks(s, v, max, scale);
    int b = 0, n_blocks = (s->vocab + BLOCK - 1) / BLOCK, last = -1;
    while (b < n_blocks - 1 && u >= s->block_sum[b]) u -= s->block_sum[b++];
    for (int i = b * BLOCK; i < s->vocab && i < (b + 1) * BLOCK; i++) {
        if (!may_be_drawn(v, i)) continue;
        last = i;
        u -= logits_exp((v->row[i] - max) * scale);
        if (u < 0) return last;
    }
    /* Rounding may leave u past the block's end: then its last possible token is drawn, or the next
     * one, or the last of all. */
    for (int i = (b + 1) * BLOCK; last < 0 && i < s->vocab; i++)
        if (may_be_drawn(v, i)) last = i;
    for (int i = b * BLOCK - 1; last < 0 && i >= 0; i--)
        if (may_be_drawn(v, i)) last = i;
    return last;
}

/* Truncates the n candidates by typical and top-p and draws one. mass: top-p's share of the weight
 * of all logits; 0: of these candidates. */
static int32_t draw_one(struct sampler *s, const struct sampler_context *context, int n, double max,
                        double mass)
{
    const struct sampler_params *p = context->params;
    struct sampler_candidate *c = s->candidates;
    double scale = 1 / p->temperature, u = sampler_draw(context, 0);
    for (int i = 0; i < n; i++) c[i].weight = logits_exp((c[i].logit - max) * scale);
    if (p->typical_p < 1) n = sampler_select_typical(c, n, max, scale, p->typical_p);
    if (p->top_p < 1)
        n = sampler_select_mass(c, n, mass > 0 ? mass : p->top_p * sampler_total(c, n));
    u *= sampler_total(c, n);
    for (int i = 0; i < n - 1; i++) {
        u -= c[i].weight;
        if (u < 0) return c[i].id;
    }
    return c[n - 1].id;
}

/* The lowest logit that can be drawn: min_p excludes lower ones; a forbidden logit is -inf. */
static double floor_of(const struct sampler_params *p, double max)
{
    double floor = p->min_p > 0 ? max + logits_log(p->min_p) * p->temperature : -(double)FLT_MAX;
    return floor > max ? max : floor;
}

static int32_t sample(struct sampler *s, const struct sampler_context *c, const float *logits,
                      double max)
{
    const struct sampler_params *p = c->params;
    const struct view v = {logits, c->mask};
    double scale = 1 / p->temperature, floor = floor_of(p, max), mass = 0;
    if (p->top_k > 0 && p->top_k < s->vocab)
        return draw_one(s, c, gather_best(s, &v, floor, p->top_k), max, 0);
    if (p->min_p <= 0 && p->typical_p >= 1) {
        if (p->top_p >= 1) return draw_any(s, &v, max, scale, sampler_draw(c, 0));
        /* The total weight of lower logits is less than top_p's tail, (1 - top_p) * total. */
        double total = sum_blocks(s, &v, max, scale);
        mass = p->top_p * total;
        floor = max + logits_log((1 - p->top_p) * total / s->vocab) * p->temperature;
        if (floor > max) floor = max;
    }
    return draw_one(s, c, gather(s, &v, floor), max, mass);
}

int sampler_check(int best, struct err *e)
{
    if (best >= 0) return 0;
    return err_set(e, "the model's logits are not finite: the checkpoint is damaged or overflows "
                      "(or no token is allowed)");
}

int sampler_choose(struct sampler *s, const struct sampler_context *c, const float *logits,
                   int best, int32_t *token, struct err *e)
{
    if (sampler_check(best, e)) return -1;
    if (sampler_chains(c->params)) *token = chain_choose(s, c, logits);
    else
        *token = c->params->temperature < sampler_greedy ? best
                                                         : sample(s, c, logits, logits[best]);
    return 0;
}

int sampler_choose_top(struct sampler *s, const struct sampler_context *c,
                       const struct logits_entry *top, int n, int best, int32_t *token,
                       struct err *e)
{
    int at = 0, k = c->params->top_k;
    if (sampler_check(best, e)) return -1;
    while (at < n && top[at].id != best) at++;
    CHECK(at < n && k > 0 && k < s->vocab);
    *token = draw_one(s, c, gather_top(s, top, n, floor_of(c->params, top[at].value), k),
                      top[at].value, 0);
    return 0;
}
