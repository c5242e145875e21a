/* sched_odd.h: the CPU backend one operation at a time, with hooks and functions that a test of the
 * scheduler replaces. */
#ifndef TESTS_SCHED_ODD_H
#define TESTS_SCHED_ODD_H

#include "backend-cpu/cpu.h"
#include "core/step/stepwise.h"

/* The backend under test: the CPU's functions, one operation at a time, with hooks. */
static struct backend odd;
static struct stepwise_hooks odd_hooks;
static const struct batch *odd_batch;

static int odd_compile(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                       struct be_plan **out, struct err *e)
{
    return stepwise_compile(be, &backend_cpu, &odd_hooks, p, m, out, e);
}

static void odd_drop_plan(struct be *be, struct be_plan *p) { stepwise_drop(be, &backend_cpu, p); }

static void odd_begin_step(struct be *be, const struct batch *b)
{
    odd_batch = b;
    backend_cpu.begin_step(be, b);
}

static void odd_run(struct be *be, const struct be_plan *p)
{
    stepwise_run(be, &backend_cpu, &odd_hooks, p, odd_batch);
}

/* odd does what the CPU does until a test changes more of it. */
static void odd_open(void)
{
    odd = backend_cpu;
    odd_hooks = (struct stepwise_hooks){0};
    odd.compile = odd_compile;
    odd.drop_plan = odd_drop_plan;
    odd.begin_step = odd_begin_step;
    odd.run = odd_run;
}

/* The CPU's memory is the host's. */
__attribute__((unused)) static void *odd_buffer(const struct stepwise_call *c, int buffer)
{
    return c->memory->buffer[buffer];
}

#endif
