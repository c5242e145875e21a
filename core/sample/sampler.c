#include "core/sample/sampler_internal.h"

#include "core/sample/logits.h"
#include "core/sample/weights.h"
#include "core/step/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 }; /* logits per partial sum, and per test of a mask */
enum { DEPTH_SHIFT = 20, DEPTH_CLASSES = 1 << (31 - DEPTH_SHIFT) }; /* of 1/64 nat */
const double sampler_greedy = 1e-5;

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

uint64_t sampler_bits(const struct sampler_context *c, uint64_t use)
{
    uint64_t key = use ? mix(c->key ^ use) : c->key;
    return mix(key + ((uint64_t)c->n_generated + 1) * GOLDEN) >> 11;
}

uint64_t sampler_target(const struct sampler_context *c, uint64_t total)
{
    return (uint64_t)((unsigned __int128)sampler_bits(c, 0) * total >> 53);
}

uint64_t sampler_mass(double share, uint64_t total)
{
    double mass = share * (double)total;
    uint64_t whole = mass >= 1 ? (uint64_t)mass : 1;
    return whole < total ? whole : total;
}

int sampler_open(struct sampler *s, int vocab, struct err *e)
{
    s->vocab = vocab;
    s->seen = calloc((size_t)vocab, sizeof *s->seen);
    s->block_sum = malloc(((size_t)vocab / BLOCK + 1) * sizeof *s->block_sum);
    s->class_sum = malloc(DEPTH_CLASSES * sizeof *s->class_sum);
    s->depth = malloc(BLOCK * sizeof *s->depth);
    s->weight = malloc(BLOCK * sizeof *s->weight);
    s->candidates = malloc((size_t)vocab * sizeof *s->candidates);
    s->heap = malloc((size_t)vocab * sizeof *s->heap);
    s->block = malloc(BLOCK * sizeof *s->block);
    if (s->seen && s->block_sum && s->class_sum && s->depth && s->weight && s->candidates &&
        s->heap && s->block)
        return 0;
    sampler_close(s);
    return err_memory(e);
}

void sampler_close(struct sampler *s)
{
    free(s->seen);
    free(s->block_sum);
    free(s->class_sum);
    free(s->depth);
    free(s->weight);
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

void sampler_penalized_tokens(const struct sampler_context *c, const int32_t **prompt, int *n,
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
    sampler_penalized_tokens(c, &prompt, &n, &generated, &m);
    for (int i = 0; i < m; i++) s->seen[generated[i]]++;
    for (int i = 0; i < n; i++) s->seen[prompt[i]] |= SAMPLER_IN_PROMPT;
}

float sampler_penalized(const struct sampler_params *p, uint32_t seen, float l)
{
    float r = (float)p->repetition_penalty, f = (float)p->frequency_penalty,
          a = (float)p->presence_penalty;
    uint32_t times = seen & ~SAMPLER_IN_PROMPT;
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
    sampler_penalized_tokens(c, &prompt, &n, &generated, &m);
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

static struct weighing weighing_of(const struct sampler_params *p, float max)
{
    return (struct weighing){max, weights_scale(p->temperature), sampler_most_depth(p)};
}

int32_t sampler_most_depth(const struct sampler_params *p)
{
    double most = p->min_p > 0 ? -logits_log(p->min_p) * WEIGHTS_NAT : WEIGHTS_DEEPEST;
    return most < 0 ? 0 : most < WEIGHTS_DEEPEST ? (int32_t)most : WEIGHTS_DEEPEST;
}

static void add_candidate(struct sampler *s, int *n, struct logits_entry l,
                          const struct weighing *w)
{
    int32_t depth = weights_depth(l.value, w->max, w->scale);
    if (depth <= w->most && depth < WEIGHTS_DEEPEST)
        s->candidates[(*n)++] = (struct sampler_candidate){-l.value, weights_of(depth), l.value,
                                                           l.id};
}

/* Gathers the k largest logits with a heap over the whole row, and of these the ones that weigh. On
 * ties the lower id, which comes first, stays. */
static int gather_best(struct sampler *s, const struct view *v, const struct weighing *w, int k)
{
    int n = 0, n_candidates = 0, m;
    for (int first = 0; first < s->vocab; first += BLOCK) {
        const float *x = block_of(s, v, first, &m);
        int i = 0;
        if (!x) continue;
        for (; i < m && n < k; i++) {
            if (x[i] != -INFINITY) s->heap[n++] = (struct logits_entry){x[i], first + i};
            if (n == k) make_heap(s->heap, k);
        }
        if (n < k) continue;
        for (; (i = logits_next_above(x, i, m, s->heap->value)) < m; i++)
            sift_down(s->heap, k, 0, (struct logits_entry){x[i], first + i});
    }
    for (int i = 0; i < n; i++) add_candidate(s, &n_candidates, s->heap[i], w);
    return n_candidates;
}

/* The same candidates from the backend's top, which has them all. */
static int gather_top(struct sampler *s, const struct logits_entry *top, int n_top,
                      const struct weighing *w, int k)
{
    int n = 0;
    for (int i = 0; i < n_top; i++) add_candidate(s, &n, top[i], w);
    return sampler_select_best(s->candidates, n, k);
}

/* Weighs the block from token `first` on: fills depth, weight [*n]; returns the sum of weights. */
static uint64_t weigh_block(struct sampler *s, const struct view *v, const struct weighing *w,
                            int first, int *n)
{
    const float *x = block_of(s, v, first, n);
    return x ? weights_row(x, *n, w, s->depth, s->weight) : 0;
}

/* Fills block_sum; returns the sum of all weights. */
static uint64_t weigh_row(struct sampler *s, const struct view *v, const struct weighing *w)
{
    uint64_t total = 0;
    int n;
    for (int i = 0, b = 0; i < s->vocab; i += BLOCK, b++)
        total += s->block_sum[b] = weigh_block(s, v, w, i, &n);
    return total;
}

static int gather_all(struct sampler *s, const struct view *v, const struct weighing *w)
{
    int n_candidates = 0, n;
    for (int first = 0; first < s->vocab; first += BLOCK) {
        const float *x = block_of(s, v, first, &n);
        for (int i = 0; x && i < n; i++)
            add_candidate(s, &n_candidates, (struct logits_entry){x[i], first + i}, w);
    }
    return n_candidates;
}

/* Quickselect on weights: only the last few are sorted. */
int sampler_select_mass(struct sampler_candidate *c, int n, uint64_t mass)
{
    int lo = 0, hi = n;
    uint64_t have = 0; /* weight of c[0 .. lo-1], which are all selected */
    while (hi - lo > 16) {
        struct sampler_candidate *first = &c[lo], *middle = &c[lo + (hi - lo) / 2],
                                 *last = &c[hi - 1];
        if (sampler_before(middle, first)) swap(middle, first);
        if (sampler_before(last, middle)) swap(last, middle);
        if (sampler_before(middle, first)) swap(middle, first);
        swap(middle, last); /* pivot: the median of three */
        int at = lo;
        uint64_t left = 0;
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

int sampler_select_best(struct sampler_candidate *c, int n, int k)
{
    int lo = 0, hi = n;
    if (k >= n) return n;
    while (hi - lo > 1) { /* quickselect on numbers */
        struct sampler_candidate pivot = c[lo + (hi - lo) / 2];
        int at = lo, end = hi - 1;
        while (at <= end) {
            while (sampler_before(&c[at], &pivot)) at++;
            while (sampler_before(&pivot, &c[end])) end--;
            if (at <= end) swap(&c[at++], &c[end--]);
        }
        if (k <= end) hi = end + 1;
        else if (k >= at) lo = at;
        else break;
    }
    return k;
}

uint64_t sampler_total(const struct sampler_candidate *c, int n)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++) total += c[i].weight;
    return total;
}

int sampler_select_typical(struct sampler_candidate *c, int n, double max, double scale,
                           double typical_p)
{
    uint64_t sum = sampler_total(c, n);
    double total = (double)sum, expected = 0;
    for (int i = 0; i < n; i++) {
        c[i].key = (max - c[i].logit) * scale; /* information less the logarithm of the total */
        expected += (double)c[i].weight / total * c[i].key;
    }
    for (int i = 0; i < n; i++) c[i].key = fabs(c[i].key - expected);
    n = sampler_select_mass(c, n, sampler_mass(typical_p, sum));
    for (int i = 0; i < n; i++) c[i].key = -c[i].logit;
    return n;
}

/* What top-p leaves: logits above `value`, and equal ones of tokens up to `id`. */
struct cut {
    float value;
    int32_t id;
};

/* A bound below all logits that the likeliest tokens with a share of top_p of `total` can have: the
 * lower ones weigh less than 1 - top_p together. */
static float bound_of(const struct sampler *s, const struct weighing *w, double top_p,
                      uint64_t total)
{
    double least = (1 - top_p) * (double)total / s->vocab;
    double depth = -logits_log(least * 0x1p-44) * WEIGHTS_NAT;
    if (depth < 0) depth = 0;
    float low = (float)(w->max - (depth * (1 + 0x1p-20) + 64) / w->scale);
    return nextafterf(nextafterf(low, -INFINITY), -INFINITY);
}

/* Adds the weights of the tokens of a block to their classes of depth; of those whose logit is not
 * above LOW perhaps not. */
static void sum_classes(struct sampler *s, const float *x, int n, float low)
{
    enum { RUN = 16 }; /* where one is above LOW, others are */
    for (int i = 0; (i = logits_next_above(x, i, n, low)) < n;)
        for (int end = i + RUN < n ? i + RUN : n; i < end; i++)
            s->class_sum[s->depth[i] >> DEPTH_SHIFT] += s->weight[i];
}

/* Gathers the tokens of a block, from `first` on, whose depth is of this class behind candidates
 * [*n]; returns the weight of those in the classes before. */
static uint64_t split_block(struct sampler *s, const float *x, int first, int n_block, int class,
                            int *n)
{
    uint64_t above = 0;
    for (int i = 0; i < n_block; i++) {
        int32_t c = s->depth[i] >> DEPTH_SHIFT;
        if (c < class) above += s->weight[i];
        if (c == class)
            s->candidates[(*n)++] = (struct sampler_candidate){-x[i], s->weight[i], x[i],
                                                               first + i};
    }
    return above;
}

/* Keeps the fewest likeliest tokens that weigh at least `mass`: block_sum becomes the sums of their
 * weights. Returns what they weigh. */
static uint64_t keep_mass(struct sampler *s, const struct view *v, const struct weighing *w,
                          float low, uint64_t mass, struct cut *cut)
{
    int class = 0, n = 0, m;
    uint64_t above = 0;
    memset(s->class_sum, 0, DEPTH_CLASSES * sizeof *s->class_sum);
    for (int first = 0, b = 0; first < s->vocab; first += BLOCK, b++) {
        const float *x = block_of(s, v, first, &m);
        if (x && logits_next_above(x, 0, m, low) == m) x = NULL;
        if (!x) s->block_sum[b] = 0; /* none is kept */
        if (!s->block_sum[b]) continue;
        weights_row(x, m, w, s->depth, s->weight);
        sum_classes(s, x, m, low);
    }
    for (; above + s->class_sum[class] < mass; class ++) above += s->class_sum[class];
    for (int first = 0, b = 0; first < s->vocab; first += BLOCK, b++) {
        if (!s->block_sum[b]) continue;
        const float *x = block_of(s, v, first, &m);
        weights_row(x, m, w, s->depth, s->weight);
        s->block_sum[b] = split_block(s, x, first, m, class, &n);
    }
    n = sampler_select_mass(s->candidates, n, mass - above);
    for (int i = 0; i < n; i++) {
        const struct sampler_candidate *c = &s->candidates[i];
        s->block_sum[c->id / BLOCK] += c->weight;
        above += c->weight;
    }
    *cut = (struct cut){(float)s->candidates[n - 1].logit, s->candidates[n - 1].id};
    return above;
}

/* The first kept token with TARGET below the sum of weights up to it. */
static int32_t find_target(struct sampler *s, const struct view *v, const struct weighing *w,
                           const struct cut *cut, uint64_t target)
{
    int b = 0, n, i = 0;
    for (; target >= s->block_sum[b]; b++) target -= s->block_sum[b];
    const float *x = block_of(s, v, b * BLOCK, &n);
    weights_row(x, n, w, s->depth, s->weight);
    for (;; i++) {
        int is_kept = x[i] > cut->value || (x[i] == cut->value && b * BLOCK + i <= cut->id);
        if (is_kept && target < s->weight[i]) return b * BLOCK + i;
        if (is_kept) target -= s->weight[i];
    }
}

/* Draws from the row, truncated by min-p and top-p. */
static int32_t draw_row(struct sampler *s, const struct sampler_context *c, const struct view *v,
                        const struct weighing *w)
{
    double top_p = c->params->top_p;
    struct cut cut = {-INFINITY, s->vocab};
    uint64_t total = weigh_row(s, v, w);
    if (top_p < 1)
        total = keep_mass(s, v, w, bound_of(s, w, top_p, total), sampler_mass(top_p, total), &cut);
    return find_target(s, v, w, &cut, sampler_target(c, total));
}

static int by_id(const void *a, const void *b)
{
    return ((const struct sampler_candidate *)a)->id - ((const struct sampler_candidate *)b)->id;
}

/* Truncates the n candidates by typical and top-p and draws one, in order of ids. */
static int32_t draw_one(struct sampler *s, const struct sampler_context *context, int n, double max)
{
    const struct sampler_params *p = context->params;
    struct sampler_candidate *c = s->candidates;
    if (p->typical_p < 1) n = sampler_select_typical(c, n, max, 1 / p->temperature, p->typical_p);
    uint64_t total = sampler_total(c, n);
    if (p->top_p < 1) {
        n = sampler_select_mass(c, n, sampler_mass(p->top_p, total));
        total = sampler_total(c, n);
    }
    qsort(c, (size_t)n, sizeof *c, by_id);
    uint64_t target = sampler_target(context, total);
    for (; target >= c->weight; c++) target -= c->weight;
    return c->id;
}

static int32_t sample(struct sampler *s, const struct sampler_context *c, const float *logits,
                      float max)
{
    const struct sampler_params *p = c->params;
    const struct view v = {logits, c->mask};
    const struct weighing w = weighing_of(p, max);
    if (p->top_k > 0 && p->top_k < s->vocab)
        return draw_one(s, c, gather_best(s, &v, &w, p->top_k), max);
    return p->typical_p < 1 ? draw_one(s, c, gather_all(s, &v, &w), max) : draw_row(s, c, &v, &w);
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
    const struct weighing w = weighing_of(c->params, top[at].value);
    *token = draw_one(s, c, gather_top(s, top, n, &w, k), top[at].value);
    return 0;
}
