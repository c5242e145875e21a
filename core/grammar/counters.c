/* counters.c: layer l of a counter is the set of nodes from which its rule can end with l more (of
 * a counter without a greatest number: with l or more). Each is found from the one below it; where
 * two layers are the same, all that follow are. */
#include "core/grammar/counters.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORK = 1 << 27 }; /* nodes times layers */

struct counter {
    uint32_t rule;
    int min, max;
    uint32_t n_layers; /* known ones; all behind are as the last one */
    int is_empty, is_idle;
};

/* Where something is counted: the layers that have the node behind it, as bits. */
struct place {
    uint32_t counter, stride; /* words between those of 64 layers and of the next 64 */
    size_t first;             /* word */
};

struct counters {
    struct counter *counter;
    struct place *place;
    uint64_t *bits;
    uint32_t n, cap, n_places, cap_places;
    size_t n_words, cap_words;
    uint64_t work;
};

int counters_add(struct counters **out, uint32_t rule, int min, int max, struct err *e)
{
    struct counters *c = *out ? *out : calloc(1, sizeof *c);
    if (!c) return err_memory(e);
    *out = c;
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 8;
        struct counter *more = realloc(c->counter, cap * sizeof *more);
        if (!more) return err_memory(e);
        c->counter = more;
        c->cap = cap;
    }
    c->counter[c->n] = (struct counter){.rule = rule, .min = min, .max = max};
    return (int)c->n++;
}

void counters_close(struct counters *c)
{
    if (!c) return;
    free(c->counter);
    free(c->place);
    free(c->bits);
    free(c);
}

uint32_t counters_n(const struct counters *c) { return c->n; }

/* ---- the nodes of one rule */

struct part {
    const struct counters_net *net;
    uint32_t *node, n;    /* in ascending order: most lead to earlier ones */
    uint32_t *local, now; /* [n_nodes]: number in node[] where stamp is now */
    uint32_t *stamp;
    char *layer, *last; /* [n] */
    uint32_t *place;    /* [n]: of a node that counts */
};

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void visit(struct part *p, uint32_t i)
{
    if (p->stamp[i] == p->now) return;
    p->stamp[i] = p->now;
    p->node[p->n++] = i;
}

/* All nodes that the rule at START goes through, but for those of rules that it calls. */
static void find_nodes(struct part *p, uint32_t start)
{
    p->n = 0;
    p->now++;
    visit(p, start);
    for (uint32_t k = 0; k < p->n; k++) {
        const struct net_node x = p->net->node[p->node[k]];
        if (x.kind == NET_END || x.kind == NET_DEAD) continue;
        if (x.kind == NET_JUMP) {
            visit(p, p->net->start[x.a]);
            continue;
        }
        if (x.kind == NET_SPLIT) visit(p, x.a);
        visit(p, x.b);
    }
    qsort(p->node, p->n, sizeof *p->node, ascending);
    for (uint32_t k = 0; k < p->n; k++) p->local[p->node[k]] = k;
}

static int is_in(const struct part *p, const char *layer, uint32_t node)
{
    return layer[p->local[node]];
}

/* 1: node X is in the layer, of which the nodes found so far are known. IS_FIRST: layer 0. */
static int belongs(const struct part *p, const struct net_node *x, int is_first, int at_least)
{
    uint32_t any = 0;
    switch (x->kind) {
    case NET_END: return is_first;
    case NET_DEAD: return 0;
    case NET_SPLIT: return is_in(p, p->layer, x->a) || is_in(p, p->layer, x->b);
    case NET_COUNT:
        return is_first ? at_least && is_in(p, p->layer, x->b) : is_in(p, p->last, x->b);
    case NET_JUMP: return is_in(p, p->layer, p->net->start[x->a]);
    case NET_READ:
        for (int k = 0; k < 8; k++) any |= p->net->set[x->a][k];
        return any && is_in(p, p->layer, x->b);
    case NET_CALL:
    case NET_MARK:
    case NET_TEST:
    case NET_NEED:
    case NET_CHECK:
    case NET_LENGTH: break;
    }
    return is_in(p, p->layer, x->b);
}

static void find_layer(struct part *p, int is_first, int at_least)
{
    char *below = p->last;
    p->last = p->layer;
    p->layer = below;
    memset(p->layer, 0, p->n);
    for (int changed = 1, down = 0; changed; down = !down) {
        changed = 0;
        for (uint32_t k = 0; k < p->n; k++) {
            uint32_t i = down ? p->n - 1 - k : k;
            if (!p->layer[i] && belongs(p, &p->net->node[p->node[i]], is_first, at_least))
                p->layer[i] = 1, changed = 1;
        }
    }
}

/* ---- one counter */

static int add_word(struct counters *c, struct err *e)
{
    if (c->n_words == c->cap_words) {
        size_t cap = c->cap_words ? 2 * c->cap_words : 64;
        uint64_t *more = realloc(c->bits, cap * sizeof *more);
        if (!more) return err_memory(e);
        c->bits = more;
        c->cap_words = cap;
    }
    c->bits[c->n_words++] = 0;
    return 0;
}

/* Places for the nodes of counter I; they are told from the nodes of others by their number. */
static int add_places(struct counters *c, struct part *p, uint32_t i, struct err *e)
{
    for (uint32_t k = 0; k < p->n; k++) {
        struct net_node *x = &p->net->node[p->node[k]];
        p->place[k] = UINT32_MAX;
        if ((x->kind != NET_COUNT && x->kind != NET_CHECK) || x->a != i) continue;
        if (c->n_places == c->cap_places) {
            uint32_t cap = c->cap_places ? 2 * c->cap_places : 64;
            struct place *more = realloc(c->place, cap * sizeof *more);
            if (!more) return err_memory(e);
            c->place = more;
            c->cap_places = cap;
        }
        p->place[k] = c->n_places;
        c->place[c->n_places++] = (struct place){.counter = i};
    }
    return 0;
}

/* Layer L as bits of all places of the part, which are in one block of words for each 64 layers. */
static int keep_layer(struct counters *c, struct part *p, uint32_t l, uint32_t first_place,
                      size_t first_word, struct err *e)
{
    uint32_t n = c->n_places - first_place;
    for (uint32_t k = 0; l % 64 == 0 && k < n; k++)
        if (add_word(c, e)) return -1;
    for (uint32_t k = 0; k < p->n; k++) {
        if (p->place[k] == UINT32_MAX) continue;
        uint32_t b = p->net->node[p->node[k]].b;
        if (is_in(p, p->layer, b))
            c->bits[first_word + (size_t)(l / 64) * n + (p->place[k] - first_place)] |= (uint64_t)1
                                                                                        << l % 64;
    }
    return 0;
}

/* Layers until they repeat or no more are of use. */
static int measure(struct counters *c, struct part *p, uint32_t i, struct err *e)
{
    struct counter *x = &c->counter[i];
    const int at_least = x->max == NET_NO_LIMIT;
    const uint32_t most = (uint32_t)(at_least ? x->min : x->max) + 1, first = c->n_places;
    const size_t first_word = c->n_words;
    int starts = 0, starts_low = 0, starts_now = 0, repeats = 0;
    find_nodes(p, p->net->start[x->rule]);
    uint32_t start = p->local[p->net->start[x->rule]];
    if (add_places(c, p, i, e)) return -1;
    for (uint32_t l = 0; l < most && !repeats; l++) {
        c->work += p->n;
        if (c->work > MAX_WORK)
            return err_set(e, "minLength, maxLength: are too large beside these patterns");
        find_layer(p, l == 0, at_least);
        repeats = l > 0 && !memcmp(p->layer, p->last, p->n);
        starts_now = p->layer[start];
        if ((int)l < x->min) starts_low |= starts_now;
        else starts |= starts_now;
        if (keep_layer(c, p, l, first, first_word, e)) return -1;
        x->n_layers = l + 1;
    }
    if (repeats && (int)x->n_layers <= x->min) starts |= starts_now;
    x->is_empty = !starts;
    x->is_idle = !at_least && repeats && !starts_now && !starts_low;
    for (uint32_t k = 0; k < p->n; k++)
        if (p->place[k] != UINT32_MAX) {
            c->place[p->place[k]].first = first_word + (p->place[k] - first);
            c->place[p->place[k]].stride = c->n_places - first;
            p->net->node[p->node[k]].a = p->place[k];
        }
    return 0;
}

int counters_measure(struct counters *c, const struct counters_net *net, struct err *e)
{
    struct part p = {.net = net};
    size_t n = (size_t)net->n_nodes + 1;
    p.node = calloc(n, sizeof *p.node);
    p.local = calloc(n, sizeof *p.local);
    p.stamp = calloc(n, sizeof *p.stamp);
    p.place = calloc(n, sizeof *p.place);
    p.layer = calloc(n, 1);
    p.last = calloc(n, 1);
    int rc = p.node && p.local && p.stamp && p.place && p.layer && p.last ? 0 : err_memory(e);
    for (uint32_t i = 0; i < c->n && !rc; i++) rc = measure(c, &p, i, e);
    free(p.node);
    free(p.local);
    free(p.stamp);
    free(p.place);
    free(p.layer);
    free(p.last);
    return rc;
}

int counters_is_empty(const struct counters *c, uint32_t i, uint32_t *rule)
{
    *rule = c->counter[i].rule;
    return c->counter[i].is_empty;
}

/* ---- what goes on */

static uint64_t word_of(const struct counters *c, const struct place *p, uint64_t l)
{
    return c->bits[p->first + (size_t)(l / 64) * p->stride];
}

/* 1: some layer from LOW to HIGH has the place. */
static int has_some(const struct counters *c, const struct place *p, uint64_t low, uint64_t high)
{
    const uint64_t last = c->counter[p->counter].n_layers - 1;
    if (high >= last && word_of(c, p, last) >> last % 64 & 1) return 1;
    if (high > last) high = last;
    for (uint64_t l = low; l <= high;) {
        uint64_t word = word_of(c, p, l) >> l % 64;
        if (word) return l + (uint64_t)__builtin_ctzll(word) <= high;
        l = (l | 63) + 1;
    }
    return 0;
}

int counters_go_on(const struct counters *c, uint32_t place, int is_check, uint64_t *count)
{
    const struct place *p = &c->place[place];
    const struct counter *x = &c->counter[p->counter];
    const uint64_t min = (uint64_t)x->min;
    if (x->is_idle) return 1;
    *count += !is_check;
    uint64_t low = *count < min ? min - *count : 0;
    if (x->max == NET_NO_LIMIT) { /* all that are enough are one */
        if (*count > min) *count = min;
        return has_some(c, p, low, low);
    }
    return *count <= (uint64_t)x->max && has_some(c, p, low, (uint64_t)x->max - *count);
}

int counters_is_long(const struct counters *c, uint32_t counter, uint64_t count)
{
    const struct counter *x = &c->counter[counter];
    return x->is_idle || count >= (uint64_t)x->min;
}
