#include "engine/microbatches.h"

#include <stdlib.h>

struct engine_microbatch {
    struct forward forward;
    struct sched *sched;
};

int microbatches_seqs(const struct engine *g)
{
    return (g->n_seqs + g->n_microbatches - 1) / g->n_microbatches;
}

static int open_microbatch(struct engine *g, int number, const struct forward_options *f,
                           const struct sched_options *s, struct err *e)
{
    struct engine_microbatch *l = &g->microbatches[number - 1];
    struct forward_options own = *f;
    struct sched_options more = *s;
    own.lender = &g->forward;
    more.n_seqs = g->n_seqs / g->n_microbatches + (number < g->n_seqs % g->n_microbatches);
    more.store = g->store;
    more.pool = sched_pool(g->sched); /* one thread drives all of them */
    return placement_open_forward(&g->placement, &l->forward, &g->model, &own, e) ||
                   sched_open(&l->sched, &l->forward, &more, e)
               ? -1
               : 0;
}

int microbatches_open(struct engine *g, const struct forward_options *f,
                      const struct sched_options *s, struct err *e)
{
    struct replica replica[REPLICAS] = {{.sched = g->sched}};
    CHECK(g->n_microbatches > 1 && g->n_microbatches <= REPLICAS && !g->microbatches);
    g->microbatches = calloc((size_t)g->n_microbatches - 1, sizeof *g->microbatches);
    if (!g->microbatches) return err_memory(e);
    for (int i = 1; i < g->n_microbatches; i++) {
        if (open_microbatch(g, i, f, s, e)) return -1;
        replica[i].sched = g->microbatches[i - 1].sched;
    }
    return replicas_open(&g->replicas, replica, g->n_microbatches, e);
}

void microbatches_close(struct engine *g)
{
    if (!g->microbatches) return;
    replicas_close(g->replicas);
    g->replicas = NULL;
    for (int i = 0; i < g->n_microbatches - 1; i++) {
        sched_close(g->microbatches[i].sched);
        forward_close(&g->microbatches[i].forward);
    }
    free(g->microbatches);
    g->microbatches = NULL;
}
