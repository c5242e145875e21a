#include "engine/costs.h"

#include "core/base/pool.h"

enum { GPU, HOST };

/* Of a weight of 4 bits with its share of scale and zero point, 4.25 bits: a multiplication and an
 * addition. */
static const double ops_a_byte = 2 * 8 / 4.25;

struct costs costs_of(const struct engine_options *o)
{
    static const double thread = 8e9, most = 1.5e11; /* bytes a second of a thread, of all */
    const int n = o->threads ? o->threads : pool_n_cores(), several = o->n_devices > 1;
    return (struct costs){.gpu_bytes = several ? 2.1e12 : 1e12,
                          .gpu_ops = several ? 7e14 : 0,
                          .host_bytes = n * thread < most ? n * thread : most,
                          .turn = 3e-5,
                          .exchange = 8e-6,
                          .further = 5e-6,
                          .link = 1.2e11};
}

/* Bytes that a part of a step reads. */
static double bytes_of(const struct forward_need *n, double rows, double positions)
{
    double few = (double)n->read[0] * (rows < 1 ? 1 : rows), many = (double)n->read[1];
    return (few < many ? few : many) + positions * (double)n->page / KV_PAGE;
}

static double on_gpu(const struct costs *c, const struct forward_need *n, double rows,
                     double positions)
{
    double s = bytes_of(n, rows, positions) / c->gpu_bytes;
    return c->gpu_ops > 0 ? s + rows * (double)n->read[0] * ops_a_byte / c->gpu_ops : s;
}

static double on_host(const struct costs *c, const struct forward_need *n,
                      const struct costs_step *step)
{
    return bytes_of(n, step->rows, step->positions) / c->host_bytes;
}

/* A GPU and the CPU, one after the other: a layer that both compute changes places twice. */
static double beside_host(const struct costs *c, const struct placement *p,
                          const struct costs_step *step)
{
    int turns = p->n_gpu_layers < p->n_layers ? 2 : 0;
    for (int l = 0; l < p->n_layers; l++)
        turns += p->want.of_experts[l] != p->want.of_layer[l] ? 2 : 0;
    return on_gpu(c, &p->need[GPU], step->rows, step->positions) +
           on_host(c, &p->need[HOST], step) + turns * c->turn;
}

/* ---- several GPUs */

/* What a GPU gets of the others' rows. */
struct traffic {
    int n;                /* transfers to it */
    double bytes, logits; /* of a row, and of one whose logits are read */
};

static void count(const struct split *s, struct traffic of[PLACES])
{
    for (int i = 0; i < s->n_items; i++) {
        const struct transfer *t = &s->item[i].transfer;
        double columns = 0;
        if (s->item[i].n_ops) continue;
        for (int k = 0; k < t->n; k++)
            if (t->piece[k].from != t->to) columns += t->piece[k].n_columns;
        if (columns <= 0) continue;
        *(i < s->n_body ? &of[t->to].bytes : &of[t->to].logits) += columns * t->groups * 4;
        of[t->to].n++;
    }
}

/* Seconds of what comes to one of n GPUs. */
static double arrive(const struct costs *c, const struct traffic *t, int n, double rows)
{
    const double logits = rows < FORWARD_MANY ? rows : FORWARD_MANY;
    return t->n * (c->exchange + (n - 1) * c->further) +
           (rows * t->bytes + logits * t->logits) / c->link;
}

/* All wait for one another. */
static double by_tensor(const struct costs *c, const struct placement *p,
                        const struct traffic of[PLACES], const struct costs_step *step)
{
    double slowest = 0;
    for (int q = 0; q < p->n; q++) {
        double s = on_gpu(c, &p->need[q], step->rows, step->positions) +
                   arrive(c, &of[q], p->n, step->rows);
        if (s > slowest) slowest = s;
    }
    return slowest;
}

/* Microbatches follow one another: the slowest GPU has all of them, the first to come back has been
 * on each. */
static double by_layers(const struct costs *c, const struct placement *p,
                        const struct traffic of[PLACES], const struct costs_step *step)
{
    const int n = step->rows < p->n ? step->rows : p->n;
    const double rows = (double)step->rows / n;
    double all = 0, slowest = 0;
    for (int q = 0; q < p->n; q++) {
        double s = on_gpu(c, &p->need[q], rows, step->positions / n) + arrive(c, &of[q], 2, rows);
        all += s;
        if (s > slowest) slowest = s;
    }
    return n * slowest > all ? n * slowest : all;
}

int costs_seconds(const struct costs *c, const struct placement *p, const struct model *m,
                  const struct costs_step *step, double *seconds, struct err *e)
{
    struct traffic of[PLACES] = {0};
    struct split s;
    if (p->n == 1) {
        *seconds = p->entry[GPU]->probe ? on_gpu(c, &p->need[GPU], step->rows, step->positions)
                                        : on_host(c, &p->need[GPU], step);
        return 0;
    }
    if (!p->has_gpus) {
        *seconds = beside_host(c, p, step);
        return 0;
    }
    if (split_plan(&m->plan, &p->want, &s, e)) return -1;
    count(&s, of);
    split_free(&s);
    *seconds = p->want.rule == SPLIT_LAYERS ? by_layers(c, p, of, step) : by_tensor(c, p, of, step);
    return 0;
}
