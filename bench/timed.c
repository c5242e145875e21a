#include "bench/timed.h"

#include "bench/stats.h"
#include "core/base/clock.h"

#include <stdlib.h>
#include <string.h>

static struct timed *timed_of(struct be *be) { return (struct timed *)be->ops; }

static int download_at(const struct timed *t) { return t->n - 2; }
static int sync_at(const struct timed *t) { return t->n - 1; }

const char *timed_name(const struct timed *t, int i)
{
    if (i == TIMED_BEGIN) return "begin_step";
    return i == download_at(t) ? "download"
           : i == sync_at(t)   ? "sync"
                               : t->names.name[i - TIMED_OPS];
}

/* A failure stays latched in the backend until the step's own wait. */
static void stop(struct be *be, int what, double start)
{
    struct timed *t = timed_of(be);
    struct err e;
    if (what != sync_at(t)) t->inner->sync(be, &e);
    t->seconds[what] += clock_now() - start;
    t->calls[what]++;
}

static void timed_begin_step(struct be *be, const struct batch *b)
{
    double start = clock_now();
    timed_of(be)->inner->begin_step(be, b);
    stop(be, TIMED_BEGIN, start);
}

static int timed_wait_step(struct be *be, struct err *e)
{
    double start = clock_now();
    int rc = timed_of(be)->inner->wait_step(be, e);
    stop(be, sync_at(timed_of(be)), start);
    return rc;
}

/* The steps that are timed have logits: all operations run. */
static void timed_run(struct be *be, const struct be_plan *whole)
{
    struct timed *t = timed_of(be);
    const struct step_plan *p = &t->forward->plan;
    (void)whole;
    struct pool *pool = t->inner->pool ? t->inner->pool(be) : NULL;
    for (int i = 0; i < p->n_ops; i++) {
        int what = TIMED_OPS + cost_name(&t->names, p->op[i].name);
        double start = clock_now();
        if (pool) pool_watch(pool, &t->threads[what]);
        t->inner->run(be, t->compiled[i]);
        stop(be, what, start);
    }
    if (pool) pool_watch(pool, NULL);
}

static void timed_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    double start = clock_now();
    timed_of(be)->inner->download(be, dst, d_src, bytes);
    stop(be, download_at(timed_of(be)), start);
}

int timed_compile(const struct forward *f, struct step_plan **slice, struct be_plan ***compiled,
                  struct err *e)
{
    int n = f->plan.n_ops;
    *slice = calloc((size_t)n, sizeof **slice);
    *compiled = calloc((size_t)n, sizeof **compiled);
    if (!*slice || !*compiled) return err_memory(e);
    for (int i = 0; i < n; i++)
        if (step_plan_slice(&f->plan, i, 1, &(*slice)[i], e) ||
            f->be->ops->compile(f->be, &(*slice)[i], &f->memory, &(*compiled)[i], e))
            return -1;
    return 0;
}

void timed_drop(const struct forward *f, struct step_plan *slice, struct be_plan **compiled)
{
    for (int i = 0; i < f->plan.n_ops; i++) {
        if (compiled && compiled[i]) f->be->ops->drop_plan(f->be, compiled[i]);
        if (slice) step_plan_free_slice(&slice[i]);
    }
    free(slice);
    free(compiled);
}

int timed_attach(struct timed *t, struct forward *f, struct err *e)
{
    *t = (struct timed){.ops = *f->be->ops, .inner = f->be->ops, .forward = f};
    if (timed_compile(f, &t->slice, &t->compiled, e)) {
        timed_drop(f, t->slice, t->compiled);
        return -1;
    }
    cost_names_of(&f->plan, &t->names);
    t->n = t->names.n + 3;
    t->ops.begin_step = timed_begin_step;
    t->ops.wait_step = timed_wait_step;
    t->ops.run = timed_run;
    t->ops.download = timed_download;
    f->be->ops = &t->ops;
    return 0;
}

void timed_detach(struct timed *t, struct forward *f)
{
    f->be->ops = t->inner;
    timed_drop(f, t->slice, t->compiled);
}

void timed_reset(struct timed *t)
{
    memset(t->seconds, 0, sizeof t->seconds);
    memset(t->calls, 0, sizeof t->calls);
    memset(t->threads, 0, sizeof t->threads);
}
