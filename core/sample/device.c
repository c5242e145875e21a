/* device.c: describes choices for the device that has the logits (OP_SAMPLE). */
#include "core/sample/sampler_internal.h"
#include "core/sample/weights.h"
#include "core/step/batch.h"

#include <math.h>

int sampler_is_for_device(const struct sampler_params *p)
{
    return !sampler_chains(p) && !sampler_forbids(p) && p->dry.multiplier == 0 &&
           (p->temperature < sampler_greedy || p->typical_p >= 1);
}

/* The changes of a choice. */
struct changes {
    struct sampler *s;
    struct batch_change *at; /* [room] */
    int n, room;
};

/* The change of a token, which sampler.seen finds: its number from 1 on. NULL: there is no room. */
static struct batch_change *change_of(struct changes *h, int32_t id)
{
    uint32_t *known = &h->s->seen[id];
    if (!*known) {
        if (h->n == h->room) return NULL;
        h->at[h->n] = (struct batch_change){.id = id};
        *known = (uint32_t)++h->n;
    }
    return &h->at[*known - 1];
}

static int add(struct changes *h, int32_t id, float value)
{
    struct batch_change *c = change_of(h, id);
    if (!c) return -1;
    c->add += value;
    return 0;
}

static int add_seen(struct changes *h, const int32_t *id, int n, int is_prompt)
{
    for (int i = 0; i < n; i++) {
        struct batch_change *c = id[i] < 0 ? NULL : change_of(h, id[i]);
        if (!c) return -1;
        if (is_prompt) c->seen |= SAMPLER_IN_PROMPT;
        else c->seen++;
    }
    return 0;
}

static int add_all(struct changes *h, const struct sampler_context *c)
{
    const struct sampler_params *p = c->params;
    int early = c->n_generated < p->min_tokens, n, m, rc = 0;
    const int32_t *prompt, *generated;
    for (int i = 0; early && i < c->n_eos; i++) rc |= add(h, c->eos[i], -INFINITY);
    for (int i = 0; early && i < p->n_stop_ids; i++) rc |= add(h, p->stop_ids[i], -INFINITY);
    for (int i = 0; i < p->n_bias; i++) rc |= add(h, p->bias[i].id, p->bias[i].value);
    if (rc || !sampler_penalizes(p)) return rc;
    sampler_penalized_tokens(c, &prompt, &n, &generated, &m);
    return add_seen(h, generated, m, 0) | add_seen(h, prompt, n, 1);
}

int sampler_describe(struct sampler *s, const struct sampler_context *c, struct batch_sample *out,
                     struct batch_change *change, int room)
{
    const struct sampler_params *p = c->params;
    struct changes h = {s, change, 0, room};
    if (!sampler_is_for_device(p)) return 0;
    int rc = sampler_adjusts(p, c->n_generated) ? add_all(&h, c) : 0;
    for (int i = 0; i < h.n; i++) s->seen[change[i].id] = 0;
    if (rc) return 0;
    *out = (struct batch_sample){
        .bits = sampler_bits(c, 0),
        .top_p = p->top_p,
        .scale = p->temperature < sampler_greedy ? 0 : weights_scale(p->temperature),
        .most = sampler_most_depth(p),
        .top_k = p->top_k,
        .n_changes = h.n,
        .repetition = (float)p->repetition_penalty,
        .frequency = (float)p->frequency_penalty,
        .presence = (float)p->presence_penalty};
    return 1;
}
