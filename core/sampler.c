#include "core/sampler.h"

#include "core/softmax.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 };              /* logits that draw_any skips at once */
static const double GREEDY = 1e-5; /* temperatures below are 0, as in vLLM */
static const uint32_t IN_PROMPT = 1u << 31;

/* splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection whose outputs over a counter pass as random. */
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

/* Uniform in [0, 1) with 53 bits. */
static double draw(const struct sampler_context *c)
{
    return (double)(mix(c->key + ((uint64_t)c->n_generated + 1) * GOLDEN) >> 11) * 0x1p-53;
}

int sampler_open(struct sampler *s, int vocab, struct err *e)
{
    s->vocab = vocab;
    s->seen = calloc((size_t)vocab, sizeof *s->seen);
    s->block_sum = malloc(((size_t)vocab / BLOCK + 1) * sizeof *s->block_sum);
    s->candidates = malloc((size_t)vocab * sizeof *s->candidates);
    if (s->seen && s->block_sum && s->candidates) return 0;
    sampler_close(s);
    return err_set(e, "out of memory");
}

void sampler_close(struct sampler *s)
{
    free(s->seen);
    free(s->block_sum);
    free(s->candidates);
    memset(s, 0, sizeof *s);
}

static int penalizes(const struct sampler_params *p)
{
    return p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0;
}

int sampler_adjusts(const struct sampler_params *p, int n_generated) { return n_generated < p->min_tokens || p->n_bias || penalizes(p); }

int sampler_wants_logits(const struct sampler_params *p, int n_generated)
{
    return p->temperature >= GREEDY || sampler_adjusts(p, n_generated);
}

static void penalize(struct sampler *s, const struct sampler_params *p, const int32_t *id, int n, float *logits)
{
    float r = (float)p->repetition_penalty, f = (float)p->frequency_penalty, a = (float)p->presence_penalty;
    for (int i = 0; i < n; i++) {
        uint32_t seen = s->seen[id[i]], times = seen & ~IN_PROMPT;
        float *l = &logits[id[i]];
        if (!seen) continue; /* done at an earlier place of the same token */
        *l = *l > 0 ? *l / r : *l * r;
        if (times) *l -= f * (float)times + a;
        s->seen[id[i]] = 0;
    }
}

void sampler_adjust(struct sampler *s, const struct sampler_context *c, float *logits)
{
    const struct sampler_params *p = c->params;
    if (c->n_generated < p->min_tokens) {
        for (int i = 0; i < c->n_eos; i++) logits[c->eos[i]] = -INFINITY;
        for (int i = 0; i < p->n_stop_ids; i++) logits[p->stop_ids[i]] = -INFINITY;
    }
    for (int i = 0; i < p->n_bias; i++) logits[p->bias[i].id] += p->bias[i].value;
    if (!penalizes(p)) return;
    for (int i = 0; i < c->n_generated; i++) s->seen[c->generated[i]]++;
    int n_prompt = p->repetition_penalty != 1 ? c->n_prompt : 0;
    for (int i = 0; i < n_prompt; i++) s->seen[c->prompt[i]] |= IN_PROMPT;
    penalize(s, p, c->prompt, n_prompt, logits);
    penalize(s, p, c->generated, c->n_generated, logits);
}

/* A total order, so that every selection has one result. */
static int before(const struct sampler_candidate *a, const struct sampler_candidate *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void swap(struct sampler_candidate *a, struct sampler_candidate *b)
{
    struct sampler_candidate t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct sampler_candidate *heap, int n, int i)
{
    for (;;) {
        int last = i, l = 2 * i + 1;
        if (l < n && before(&heap[last], &heap[l])) last = l;
        if (l + 1 < n && before(&heap[last], &heap[l + 1])) last = l + 1;
        if (last == i) return;
        swap(&heap[i], &heap[last]);
        i = last;
    }
}

/* The k best of the logits >= floor: a heap whose root is the worst kept. */
static int gather_best(struct sampler *s, const float *logits, double floor, int k)
{
    struct sampler_candidate *c = s->candidates;
    int n = 0, i = 0;
    for (; i < s->vocab && n < k; i++)
        if (logits[i] >= floor) c[n++] = (struct sampler_candidate){.key = -logits[i], .id = i};
    if (n < k) return n;
    for (int j = k / 2 - 1; j >= 0; j--) sift_down(c, k, j);
    while ((i = softmax_next(logits, i, s->vocab, (float)-c[0].key)) < s->vocab) { /* on ties the lower id, which is there, stays */
        c[0] = (struct sampler_candidate){.key = -logits[i], .id = i};
        sift_down(c, k, 0);
        i++;
    }
    return k;
}

static int gather(struct sampler *s, const float *logits, double floor)
{
    int n = 0;
    for (int i = 0; i < s->vocab; i++)
        if (logits[i] >= floor) s->candidates[n++] = (struct sampler_candidate){.key = -logits[i], .id = i};
    return n;
}

/* Moves to the front the fewest best candidates that together weigh MASS, at least one; returns their number. Quickselect
 * on weights, so that nothing is sorted but the last few. */
static int select_mass(struct sampler_candidate *c, int n, double mass)
{
    int lo = 0, hi = n;
    double have = 0; /* weight of c[0 .. lo-1], all of which are needed */
    while (hi - lo > 16) {
        struct sampler_candidate *first = &c[lo], *middle = &c[lo + (hi - lo) / 2], *last = &c[hi - 1];
        if (before(middle, first)) swap(middle, first);
        if (before(last, middle)) swap(last, middle);
        if (before(middle, first)) swap(middle, first);
        swap(middle, last); /* the median of three is the pivot */
        int at = lo;
        double left = 0;
        for (int i = lo; i < hi - 1; i++)
            if (before(&c[i], last)) {
                swap(&c[i], &c[at]);
                left += c[at++].weight;
            }
        swap(&c[at], last);
        left += c[at].weight;
        if (have + left >= mass) hi = at + 1;
        else lo = at + 1, have += left;
    }
    for (int i = lo + 1; i < hi; i++)
        for (int j = i; j > lo && before(&c[j], &c[j - 1]); j--) swap(&c[j], &c[j - 1]);
    while (lo < hi && (lo == 0 || have < mass)) have += c[lo++].weight;
    return lo;
}

static double total_weight(const struct sampler_candidate *c, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++) total += c[i].weight;
    return total;
}

/* Locally typical sampling (Meister et al. 2022): those whose information is nearest to the expected one come first. Keys are
 * minus logits before and after. */
static int select_typical(struct sampler_candidate *c, int n, const float *logits, double max, double scale, double typical_p)
{
    double total = total_weight(c, n), log_total = softmax_log(total), expected = 0;
    for (int i = 0; i < n; i++) {
        c[i].key = log_total - (logits[c[i].id] - max) * scale;
        expected += c[i].weight / total * c[i].key;
    }
    for (int i = 0; i < n; i++) c[i].key = fabs(c[i].key - expected);
    n = select_mass(c, n, typical_p * total);
    for (int i = 0; i < n; i++) c[i].key = -logits[c[i].id];
    return n;
}

/* Sums of weights by blocks; returns the total. */
static double sum_blocks(struct sampler *s, const float *logits, double max, double scale)
{
    double total = 0;
    for (int i = 0, b = 0; i < s->vocab; i += BLOCK, b++)
        total += s->block_sum[b] = softmax_sum(logits + i, s->vocab - i < BLOCK ? s->vocab - i : BLOCK, max, scale);
    return total;
}

/* A draw from all logits: no candidate is written down. */
static int32_t draw_any(struct sampler *s, const float *logits, double max, double scale, double u)
{
    u *= sum_blocks(s, logits, max, scale);
    int b = 0, n_blocks = (s->vocab + BLOCK - 1) / BLOCK, last = -1;
    while (b < n_blocks - 1 && u >= s->block_sum[b]) u -= s->block_sum[b++];
    /* rounding may leave u past the block's end: then the last possible one before it */
    for (int i = 0; i < s->vocab && (i < (b + 1) * BLOCK || last < 0); i++) {
        if (i < b * BLOCK || logits[i] == -INFINITY) continue;
        last = i;
        u -= softmax_exp((logits[i] - max) * scale);
        if (u < 0) break;
    }
    return last;
}

static int32_t sample(struct sampler *s, const struct sampler_context *context, const float *logits, double max)
{
    const struct sampler_params *p = context->params;
    struct sampler_candidate *c = s->candidates;
    double scale = 1 / p->temperature, u = draw(context), mass = 0;
    double floor = -(double)FLT_MAX; /* forbidden ones are below */
    int n, best_k = p->top_k > 0 && p->top_k < s->vocab;
    if (!best_k && p->min_p <= 0 && p->typical_p >= 1) {
        if (p->top_p >= 1) return draw_any(s, logits, max, scale, u);
        /* Those below (1 - top_p) * total / vocab together weigh less than the tail that is cut. */
        double total = sum_blocks(s, logits, max, scale);
        mass = p->top_p * total;
        floor = max + softmax_log((1 - p->top_p) * total / s->vocab) * p->temperature;
    }
    if (p->min_p > 0) floor = max + softmax_log(p->min_p) * p->temperature;
    if (floor > max) floor = max;
    n = best_k ? gather_best(s, logits, floor, p->top_k) : gather(s, logits, floor);
    for (int i = 0; i < n; i++) c[i].weight = softmax_exp((logits[c[i].id] - max) * scale);
    if (p->typical_p < 1) n = select_typical(c, n, logits, max, scale, p->typical_p);
    if (p->top_p < 1) n = select_mass(c, n, mass > 0 ? mass : p->top_p * total_weight(c, n));
    u *= total_weight(c, n);
    for (int i = 0; i < n - 1; i++) {
        u -= c[i].weight;
        if (u < 0) return c[i].id;
    }
    return c[n - 1].id;
}

int sampler_choose(struct sampler *s, const struct sampler_context *c, const float *logits, int best, int32_t *token, struct err *e)
{
    if (best < 0) return err_set(e, "the model's logits are not finite: the checkpoint is damaged or overflows (or no token is allowed)");
    *token = c->params->temperature < GREEDY ? best : sample(s, c, logits, logits[best]);
    return 0;
}
