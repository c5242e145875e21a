#include "engine/cards.h"

#include "engine/devices.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A card, and its opening on a thread of its own. */
struct engine_card {
    struct forward forward;
    struct sched *sched;
    char identity[64];
    struct engine *g;
    struct forward_options f;
    pthread_t thread;
    int has_thread, rc;
    struct err e;
};

int cards_say(const struct engine *g, int i, struct err *e)
{
    return g->n_whole > 1 ? err_prefix(e, "GPU %d", g->o->device_at[i]) : -1;
}

static void *open_forward(void *arg)
{
    struct engine_card *c = arg;
    c->rc = forward_open(&c->forward, &c->g->model, c->g->entry->ops, &c->f, &c->e);
    return NULL;
}

int cards_begin(struct engine *g, const struct forward_options *f, struct err *e)
{
    const int n = g->n_whole - 1;
    CHECK(n >= 0 && n < REPLICAS && !g->cards);
    if (n && !(g->cards = calloc((size_t)n, sizeof *g->cards))) return err_memory(e);
    for (g->n_cards = 0; g->n_cards < n; g->n_cards++) {
        struct engine_card *c = &g->cards[g->n_cards];
        c->g = g;
        c->f = f[g->n_cards + 1];
        c->f.show_progress = 0; /* the first card's line stands for all */
        c->has_thread = !pthread_create(&c->thread, NULL, open_forward, c);
        if (!c->has_thread) open_forward(c);
    }
    return 0;
}

/* Where sums are not exact, answers depend on the card. */
static int check_alike(struct engine *g, const char *sums, struct err *e)
{
    for (int i = 0; i < g->n_cards; i++) {
        struct engine_card *c = &g->cards[i];
        g->entry->identify(c->forward.be, c->identity, sizeof c->identity);
        if (sums && devices_are_alike(g->o->act, sums, c->identity, e)) return -1;
    }
    return 0;
}

int cards_end(struct engine *g, const struct sched_options *s, const char *sums, int rc,
              struct err *e)
{
    struct replica replica[REPLICAS] = {{.sched = g->sched}};
    struct sched_options more = *s;
    if (rc) cards_say(g, 0, e);
    for (int i = 0; i < g->n_cards; i++) {
        struct engine_card *c = &g->cards[i];
        if (c->has_thread) pthread_join(c->thread, NULL);
        c->has_thread = 0;
        if (!c->rc || rc) continue;
        *e = c->e;
        rc = cards_say(g, i + 1, e);
    }
    if (rc || check_alike(g, sums, e)) return -1;
    more.store = g->store;
    more.overlap = g->entry->ops->asynchronous;
    more.pool = sched_pool(g->sched); /* one thread drives all of them */
    for (int i = 0; i < g->n_cards; i++) {
        if (sched_open(&g->cards[i].sched, &g->cards[i].forward, &more, e))
            return cards_say(g, i + 1, e);
        replica[i + 1].sched = g->cards[i].sched;
    }
    for (int i = 0; g->n_cards && i <= g->n_cards; i++)
        snprintf(replica[i].name, sizeof replica[i].name, "GPU %d", g->o->device_at[i]);
    return replicas_open(&g->replicas, replica, g->n_cards + 1, e);
}

const struct be *cards_be(const struct engine *g, int i)
{
    return i ? g->cards[i - 1].forward.be : g->forward.be;
}

void cards_close(struct engine *g)
{
    replicas_close(g->replicas);
    g->replicas = NULL;
    for (int i = 0; i < g->n_cards; i++) {
        struct engine_card *c = &g->cards[i];
        if (c->has_thread) pthread_join(c->thread, NULL);
        sched_close(c->sched);
        forward_close(&c->forward);
    }
    free(g->cards);
    g->cards = NULL;
    g->n_cards = 0;
}
