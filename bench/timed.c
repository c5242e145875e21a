#include "bench/timed.h"

#include "bench/stats.h"
#include "core/base/clock.h"

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
    timed_of(be)->batch = b;
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

static int what_of(const struct timed *t, const struct op *op)
{
    return TIMED_OPS + cost_name(&t->names, op->name);
}

static void before_op(struct be *be, const struct stepwise_call *c)
{
    struct timed *t = c->self;
    struct pool *pool = t->inner->pool ? t->inner->pool(be) : NULL;
    t->start = clock_now();
    if (pool) pool_watch(pool, &t->threads[what_of(t, c->op)]);
}

static void after_op(struct be *be, const struct stepwise_call *c)
{
    struct timed *t = c->self;
    stop(be, what_of(t, c->op), t->start);
}

static void timed_run(struct be *be, const struct be_plan *whole)
{
    struct timed *t = timed_of(be);
    struct pool *pool = t->inner->pool ? t->inner->pool(be) : NULL;
    (void)whole;
    stepwise_run(be, t->inner, &t->hooks, t->steps, t->batch);
    if (pool) pool_watch(pool, NULL);
}

static void timed_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    double start = clock_now();
    timed_of(be)->inner->download(be, dst, d_src, bytes);
    stop(be, download_at(timed_of(be)), start);
}

int timed_attach(struct timed *t, struct forward *f, struct err *e)
{
    *t = (struct timed){.ops = *f->be->ops, .inner = f->be->ops, .forward = f};
    t->hooks = (struct stepwise_hooks){.before = before_op, .after = after_op, .self = t};
    if (stepwise_compile(f->be, t->inner, &t->hooks, &f->plan, &f->memory, &t->steps, e)) return -1;
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
    stepwise_drop(f->be, t->inner, t->steps);
}

void timed_reset(struct timed *t)
{
    memset(t->seconds, 0, sizeof t->seconds);
    memset(t->calls, 0, sizeof t->calls);
    memset(t->threads, 0, sizeof t->threads);
}
