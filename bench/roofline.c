/* roofline.c: what bounds the steps of a model on this machine: for each operation the bytes and
 * operations that it cannot do without, the time that this takes at the probed peaks (the floor),
 * and the time it does take. */
#include "bench/bench.h"
#include "bench/probe.h"
#include "bench/setup.h"
#include "bench/stats.h"
#include "bench/timed.h"

#include "core/base/clock.h"
#include "core/sample/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of an operation in which not all threads compute: the slowest thread beyond the mean, the
 * start and end of operations on all threads, and what runs on one thread. */
struct waits {
    double imbalance, barrier, serial;
};

static struct waits waits_of(double seconds, const struct pool_watch *w)
{
    return (struct waits){w->slowest - w->mean, w->wall - w->slowest, seconds - w->wall};
}

/* One line of the table: an operation, or several together. */
struct line {
    const char *name, *bound;
    double seconds, bytes, products, floor;
    struct waits waits;
};

static double floor_of(const struct cost *w, const struct probe_limits *l, const char **bound)
{
    double memory = (w->weights + w->kv) / l->bandwidth, fp32 = w->fp32 / l->fp32,
           int8 = w->int8 / l->int8, compute = fp32 + int8;
    *bound = memory == 0 && compute == 0 ? "-"
             : memory >= compute         ? "memory"
             : fp32 >= int8              ? "fp32"
                                         : "int8";
    return memory > compute ? memory : compute;
}

/* Linears, experts, attention and recurrent states: their floor says something; the rest is small
 * change that ought to be small. what: of timed.h. */
static int is_small(const struct timed *t, int what)
{
    if (what < TIMED_OPS || what >= TIMED_OPS + t->names.n) return 1;
    enum op_kind kind = t->forward->plan.op[t->names.first[what - TIMED_OPS]].kind;
    return kind != OP_LINEAR && kind != OP_EXPERTS && kind != OP_ATTEND && kind != OP_CHOOSE &&
           kind != OP_CONV && kind != OP_DELTA;
}

/* Medians, seconds. The step is their sum: a neighbour that takes the processor away during some
 * operation would stretch the median of whole steps, but no operation's. */
struct measured {
    struct timed timed; /* what was timed */
    double op[TIMED_MOST], between, sampling, step;
    struct waits waits[TIMED_MOST]; /* of one thread: nothing */
};

/* What is measured of each operation in each repetition. */
enum { OF_SECONDS, OF_IMBALANCE, OF_BARRIER, OF_SERIAL, OF_OPERATION };

static int sample_time(struct setup *r, double *seconds, struct err *e)
{
    /* llama.cpp's defaults, which are opt4gptq-run's */
    struct sampler_params p = {.typical_p = 1,
                               .temperature = 0.8,
                               .top_k = 40,
                               .top_p = 0.95,
                               .min_p = 0.05,
                               .repetition_penalty = 1};
    struct sampler s;
    int32_t id;
    if (sampler_open(&s, r->forward.model->config.vocab, e)) return -1;
    double start = clock_now();
    const struct sampler_context c = {.params = &p};
    struct forward *f = &r->forward;
    int n = f->top ? forward_n_top(f, 0) : 0, rc = 0;
    if (f->top && !n) rc = forward_fetch(f, &(uint8_t){1}, 1, e);
    if (!rc)
        rc = n ? sampler_choose_top(&s, &c, f->top, n, f->best[0], &id, e)
               : sampler_choose(&s, &c, f->logits, f->best[0], &id, e);
    *seconds = clock_now() - start;
    sampler_close(&s);
    return rc;
}

/* The scheduler samples the rows of a step on as many. */
static int threads_of(const struct setup *r)
{
    const struct be *be = r->forward.be;
    return be->ops->pool ? pool_n_threads(be->ops->pool(be)) : 1;
}

static int measure(struct setup *r, const struct step_shape *s, int repetitions, struct measured *m,
                   struct err *e)
{
    struct timed *t = &m->timed;
    if (timed_attach(t, &r->forward, e)) return -1;
    int n = t->n, rc = -1;
    /* [n * OF_OPERATION + between + sampling][repetitions] */
    const int after = n * OF_OPERATION;
    double *v = malloc((size_t)(after + 2) * (size_t)repetitions * sizeof *v);
    rc = v ? setup_step(r, s, SETUP_SAMPLED, e) : err_memory(e);
    for (int i = 0; i < repetitions && !rc; i++) {
        timed_reset(t);
        double start = clock_now();
        rc = setup_step(r, s, SETUP_SAMPLED, e);
        double between = clock_now() - start;
        for (int op = 0; op < n; op++) {
            double *of = v + op * OF_OPERATION * repetitions + i;
            struct waits w = waits_of(t->seconds[op], &t->threads[op]);
            between -= of[OF_SECONDS * repetitions] = t->seconds[op];
            of[OF_IMBALANCE * repetitions] = w.imbalance;
            of[OF_BARRIER * repetitions] = w.barrier;
            of[OF_SERIAL * repetitions] = w.serial;
        }
        v[after * repetitions + i] = between;
        double one = 0;
        if (!rc) rc = sample_time(r, &one, e);
        v[(after + 1) * repetitions + i] = one * s->n_seqs / threads_of(r);
    }
    timed_detach(t, &r->forward);
    if (!rc) m->step = m->between = stats_of(v + after * repetitions, repetitions).median;
    for (int op = 0; op < n && !rc; op++) {
        double median[OF_OPERATION];
        for (int of = 0; of < OF_OPERATION; of++)
            median[of] =
                stats_of(v + (op * OF_OPERATION + of) * repetitions, repetitions).median;
        m->step += m->op[op] = median[OF_SECONDS];
        if (threads_of(r) > 1)
            m->waits[op] =
                (struct waits){median[OF_IMBALANCE], median[OF_BARRIER], median[OF_SERIAL]};
    }
    if (!rc) m->sampling = stats_of(v + (after + 1) * repetitions, repetitions).median;
    free(v);
    return rc;
}

static int write_line(struct out *out, const struct setup_config *c,
                      const struct bench_facts *facts, const struct step_shape *s,
                      const struct line *l, double step, struct err *e)
{
    double reached = l->seconds > 0 ? l->floor / l->seconds : 0;
    if (!out_is_md(out))
        return out_record(
            out,
            json_pack("{s:s s:s s:s s:s s:s s:s s:i s:s s:i s:i s:i s:f s:f s:f s:f s:s s:f s:f "
                      "s:f s:f s:f}",
                      "cpu_info", facts->cpu_info, "model_type", facts->model_type, "act",
                      act_formats[c->act].name, "type_k", kv_formats[c->kv].name, "cpu", c->cpu,
                      "phase", s->decode ? "decode" : "prompt", "n_parallel", s->n_seqs, "op",
                      l->name, "n_rows", s->rows * s->n_seqs, "n_depth", s->depth, "n_threads",
                      c->threads, "median_ns", l->seconds * 1e9, "bytes", l->bytes, "ops",
                      l->products, "floor_ns", l->floor * 1e9, "bound", l->bound, "reached",
                      reached, "of_step", l->seconds / step, "imbalance_ns",
                      l->waits.imbalance * 1e9, "barrier_ns", l->waits.barrier * 1e9, "serial_ns",
                      l->waits.serial * 1e9),
            e);
    if (out_row(out, e)) return -1;
    out_cell(out, 0, "%s", l->name);
    out_cell(out, 1, "%.3f", l->seconds * 1e3);
    out_cell(out, 2, "%.1f%%", 100 * l->seconds / step);
    out_cell(out, 3, "%.2f", l->bytes * 1e-6);
    out_cell(out, 4, "%.2f", l->products * 1e-9);
    out_cell(out, 5, "%.3f", l->floor * 1e3);
    if (l->floor > 0) out_cell(out, 6, "%.0f%%", 100 * reached);
    if (c->threads > 1) {
        out_cell(out, 7, "%.3f", l->waits.imbalance * 1e3);
        out_cell(out, 8, "%.3f", l->waits.barrier * 1e3);
        out_cell(out, 9, "%.3f", l->waits.serial * 1e3);
    }
    out_cell(out, 10, "%s", l->bound);
    return 0;
}

static int write_step(struct out *out, struct setup *r, const struct bench_facts *facts,
                      const struct probe_limits *limits, const struct step_shape *s,
                      const struct measured *m, struct err *e)
{
    enum { COLUMNS = 11 };
    static const char *const heading[COLUMNS] = {
        "operation:", "ms",        "of step", "MB",     "GOP",   "floor ms",
        "reached",    "imbalance", "barrier", "serial", "bound:"};
    const struct setup_config *c = &r->config;
    struct line sum = {.name = "step", .bound = "-", .seconds = m->step},
                rest = {.name = "all small ones", .bound = "-"};
    double head = 0, large = 0;
    if (out_is_md(out) && out_table(out, COLUMNS, heading, e)) return -1;
    for (int op = 0; op < m->timed.n; op++) {
        const char *name = timed_name(&m->timed, op);
        struct cost w = cost_step(&r->forward.plan, name, s, c->act, c->kv);
        struct line l = {.name = name,
                         .seconds = m->op[op],
                         .bytes = w.weights + w.kv,
                         .products = cost_products(&w, c->act),
                         .waits = m->waits[op]};
        sum.waits.imbalance += l.waits.imbalance;
        sum.waits.barrier += l.waits.barrier;
        sum.waits.serial += l.waits.serial;
        int small = is_small(&m->timed, op);
        l.floor = floor_of(&w, limits, &l.bound);
        if (small) l.floor = 0, l.bound = "-";
        sum.bytes += l.bytes, sum.products += l.products, sum.floor += l.floor;
        if (!strcmp(name, "head")) head = l.bytes / l.seconds / limits->bandwidth;
        if (small) rest.bytes += l.bytes;
        else large += l.seconds;
        if (write_line(out, c, facts, s, &l, m->step, e)) return -1;
    }
    struct line between = {.name = "between", .bound = "-", .seconds = m->between};
    struct line sampling = {.name = "sampling, after", .bound = "-", .seconds = m->sampling};
    rest.seconds = m->step - large + m->sampling;
    if (write_line(out, c, facts, s, &between, m->step, e) ||
        write_line(out, c, facts, s, &sampling, m->step, e) ||
        write_line(out, c, facts, s, &rest, m->step, e))
        return -1;
    if (write_line(out, c, facts, s, &sum, m->step, e)) return -1;
    if (!out_is_md(out)) return 0;
    printf("%s %d row%s", s->decode ? "decode" : "prompt", s->n_seqs * s->rows,
           s->n_seqs * s->rows == 1 ? "" : "s");
    printf(" at depth %d, act %s, kv %s, cpu %s, %d thread%s: %.1f tok/s; at the floor%s %.1f\n\n",
           s->depth, act_formats[c->act].name, kv_formats[c->kv].name, c->cpu, c->threads,
           c->threads == 1 ? "" : "s", s->n_seqs * s->rows / m->step,
           limits->fp32 < INFINITY ? "" : " of memory alone", s->n_seqs * s->rows / sum.floor);
    const int hide[COLUMNS] = {[7] = c->threads <= 1, [8] = c->threads <= 1, [9] = c->threads <= 1};
    out_print(out, hide);
    printf("\nall small ones (no linear, attention, states; with the sampling): %.1f%% of step and "
           "sampling; head: %.0f%% of the read "
           "bandwidth\n\n",
           100 * rest.seconds / (m->step + m->sampling), 100 * head);
    return 0;
}

static int all_steps(const struct bench_options *o, struct setup *r,
                     const struct bench_facts *facts, const struct probe_limits *l, struct out *out,
                     struct err *e)
{
    for (int i = 0; i < o->parallel.n + o->prompt.n; i++)
        for (int d = 0; d < o->depth.n; d++) {
            int decode = i < o->parallel.n;
            struct step_shape s = {decode ? o->parallel.v[i] : 1,
                                   decode ? 1 : o->prompt.v[i - o->parallel.n], o->depth.v[d],
                                   decode};
            struct measured m = {0};
            if (!s.rows) continue;
            /* a decode step is short: several for one of a prompt */
            if (measure(r, &s, decode ? 4 * o->repetitions : o->repetitions, &m, e) ||
                write_step(out, r, facts, l, &s, &m, e))
                return -1;
        }
    return 0;
}

int bench_roofline(const struct bench_options *o, const struct model *m,
                   const struct bench_facts *facts, struct out *out, struct err *e)
{
    struct setups setups;
    struct setup_size size = {0};
    int depth = 0;
    for (int i = 0; i < o->depth.n; i++) depth = o->depth.v[i] > depth ? o->depth.v[i] : depth;
    for (int i = 0; i < o->parallel.n; i++)
        size.max_seqs = o->parallel.v[i] > size.max_seqs ? o->parallel.v[i] : size.max_seqs;
    for (int i = 0; i < o->prompt.n; i++)
        size.max_rows = o->prompt.v[i] > size.max_rows ? o->prompt.v[i] : size.max_rows;
    if (size.max_rows > o->n_batch)
        return err_set(e, "--roofline: -p %d is more than the %d rows of one step (-b)",
                       size.max_rows, o->n_batch);
    size.n_pages = size.seq_pages = setup_pages(1, depth + (size.max_rows > 1 ? size.max_rows : 1));
    if (setup_pages(size.max_seqs, depth + 1) > size.n_pages)
        size.n_pages = setup_pages(size.max_seqs, depth + 1);
    if (size.max_seqs > size.max_rows) size.max_rows = size.max_seqs;
    int rc = setups_open(&setups, m, o, &size, e);
    struct probe_limits l = {0};
    if (!rc && out_is_md(out))
        printf("%s, %.2f GB; %s\n", facts->model_type, facts->model_bytes * 1e-9, facts->cpu_info);
    for (int i = 0; i < setups.n && !rc; i++) {
        struct setup *r = &setups.setup[i];
        if (l.variant != r->config.cpu ||
            l.n_threads != r->config.threads) { /* setups of one variant stand together */
            if (l.n_threads != r->config.threads) l.bandwidth = 0;
            rc = setup_limits(r, &l, e);
            if (!rc && out_is_md(out)) {
                printf("\n");
                setup_print_limits(r, &l);
                printf("\n");
            }
        }
        if (!rc) rc = all_steps(o, r, facts, &l, out, e);
    }
    setups_close(&setups);
    return rc;
}
