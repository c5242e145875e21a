#include "core/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection whose outputs over a counter pass as random. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Uniform in [0, 1) with 53 bits. */
static double draw(struct sampler *s) { return (double)(mix(s->key + ++s->n_draws * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53; }

int sampler_open(struct sampler *s, const struct sampler_params *p, int vocab, uint64_t stream, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->params = *p;
    s->vocab = vocab;
    s->key = mix(mix(p->seed + 0x9e3779b97f4a7c15u) ^ stream);
    s->n_generated = calloc((size_t)vocab, sizeof *s->n_generated);
    s->in_prompt = calloc((size_t)vocab, 1);
    s->candidates = malloc((size_t)vocab * sizeof *s->candidates);
    if (s->n_generated && s->in_prompt && s->candidates) return 0;
    sampler_close(s);
    return err_set(e, "out of memory");
}

void sampler_close(struct sampler *s)
{
    free(s->n_generated);
    free(s->in_prompt);
    free(s->candidates);
    memset(s, 0, sizeof *s);
}

void sampler_see_prompt(struct sampler *s, const int32_t *token, size_t n)
{
    for (size_t i = 0; i < n; i++) s->in_prompt[token[i]] = 1;
}

static void penalize(const struct sampler *s, float *logits)
{
    const struct sampler_params *p = &s->params;
    float r = (float)p->repetition_penalty, f = (float)p->frequency_penalty, a = (float)p->presence_penalty;
    if (r == 1 && f == 0 && a == 0) return;
    for (int i = 0; i < s->vocab; i++) {
        uint32_t n = s->n_generated[i];
        if (n || s->in_prompt[i]) logits[i] = logits[i] > 0 ? logits[i] / r : logits[i] * r;
        if (n) logits[i] -= f * (float)n + a;
    }
}

/* Larger first, lower id on ties: a total order, so that a sort has one result. */
static int by_weight(const void *x, const void *y)
{
    const struct sampler_candidate *a = x, *b = y;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static void sift_down(struct sampler_candidate *heap, int n, int i)
{
    for (;;) {
        int last = i, l = 2 * i + 1;
        if (l < n && by_weight(&heap[l], &heap[last]) > 0) last = l;
        if (l + 1 < n && by_weight(&heap[l + 1], &heap[last]) > 0) last = l + 1;
        if (last == i) return;
        struct sampler_candidate t = heap[i];
        heap[i] = heap[last];
        heap[last] = t;
        i = last;
    }
}

/* Moves the k best of c[n] to the front: a heap of k whose root is the worst kept. */
static void keep_best(struct sampler_candidate *c, int n, int k)
{
    for (int i = k / 2 - 1; i >= 0; i--) sift_down(c, k, i);
    for (int i = k; i < n; i++)
        if (by_weight(&c[i], &c[0]) < 0) {
            c[0] = c[i];
            sift_down(c, k, 0);
        }
}

static int32_t sample(struct sampler *s, const float *logits, float largest)
{
    const struct sampler_params *p = &s->params;
    struct sampler_candidate *c = s->candidates;
    int n = 0;
    /* exp(l - largest) >= min_p, decided on the logits */
    double floor = p->min_p > 0 ? largest / p->temperature + log(p->min_p) : -INFINITY;
    for (int i = 0; i < s->vocab; i++)
        if (logits[i] / p->temperature >= floor || logits[i] == largest) c[n++] = (struct sampler_candidate){logits[i] / p->temperature, i};
    if (p->top_k > 0 && p->top_k < n) {
        keep_best(c, n, p->top_k);
        n = p->top_k;
    }
    double total = 0;
    for (int i = 0; i < n; i++) total += c[i].weight = exp(c[i].weight - largest / p->temperature);
    if (p->top_p < 1) {
        /* Candidates below (1 - top_p) * total / n together weigh less than the tail that is cut: drop them before the sort. */
        double tiny = (1 - p->top_p) * total / n;
        int kept = 0;
        for (int i = 0; i < n; i++)
            if (c[i].weight >= tiny) c[kept++] = c[i];
        qsort(c, (size_t)kept, sizeof *c, by_weight);
        double sum = 0;
        n = 0;
        while (n < kept && (n == 0 || sum < p->top_p * total)) sum += c[n++].weight;
        total = sum;
    }
    double u = draw(s) * total;
    for (int i = 0; i < n - 1; i++) {
        u -= c[i].weight;
        if (u < 0) return c[i].id;
    }
    return c[n - 1].id;
}

int sampler_next(struct sampler *s, float *logits, int32_t *token, struct err *e)
{
    penalize(s, logits);
    int best = 0, bad = 0;
    for (int i = 0; i < s->vocab; i++) {
        bad |= logits[i] != logits[i];
        if (logits[i] > logits[best]) best = i;
    }
    if (bad || !(fabsf(logits[best]) < INFINITY))
        return err_set(e, "the model's logits are not finite: the checkpoint is damaged or overflows");
    *token = s->params.temperature > 0 ? sample(s, logits, logits[best]) : best;
    s->n_generated[*token]++;
    return 0;
}
