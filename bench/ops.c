/* ops.c: every operation alone, on every variant, at the shapes of the model. Calls walk through
 * the layers, so that the weights come from memory as they do in a step. The repetitions of all
 * variants take turns. */
#include "bench/bench.h"
#include "bench/probe.h"
#include "bench/setup.h"
#include "bench/stats.h"
#include "core/step/stepwise.h"
#include "core/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 64 };
/* of one sample; of all samples of one variant and case */
static const double SAMPLE_SECONDS = 0.002, MOST_SECONDS = 1;

/* An operation at one size: a name of the plan, or DENSE, a plain linear of the type `type`. */
enum { DENSE = -1 };

struct op_case {
    int name; /* of cost_names, or DENSE */
    struct step_shape s;
    enum dtype type;
    int by_act, by_kv; /* depends on the arithmetic, on the storage of keys and values */
};

/* One configuration in one case. */
struct contender {
    struct setup *setup;
    const struct probe_limits *limits;
    struct be_plan *steps; /* the plan, operation by operation */
    int calls, at, n; /* of a sample; the operation or the weight of the next call; samples */
    double spent, *wall, *cpu; /* [repetitions] seconds of one call */
};

struct ops {
    const struct bench_options *o;
    const struct bench_facts *facts;
    const struct model *m;
    struct cost_names names;
    struct setups setups;
    struct setup_size size;
    struct contender *c;         /* [setups.n] */
    struct probe_limits *limits; /* [setups.n], equal ones repeated */
    char *dense;                 /* bytes of plain weights, more than the caches hold */
    size_t dense_bytes;
};

static int dense_linears(const struct ops *x, enum dtype type, struct linear *w, int index)
{
    int dim = x->m->config.dim;
    size_t bytes = (size_t)dim * (size_t)dim * dtype_bytes(type), n = x->dense_bytes / bytes;
    *w = (struct linear){
        .in = dim, .out = dim, .weight = x->dense + (size_t)index % n * bytes, .weight_type = type};
    return (int)n;
}

static const struct op *op_of_case(const struct ops *x, const struct op_case *k)
{
    return &x->m->plan.op[x->names.first[k->name]];
}

static struct cost case_cost(const struct ops *x, const struct op_case *k, enum act act,
                             enum kv_type kv)
{
    struct linear w;
    if (k->name != DENSE) return cost_op(&x->m->plan, op_of_case(x, k), &k->s, act, kv);
    dense_linears(x, k->type, &w, 0);
    return cost_linear(&w, k->s.n_seqs * k->s.rows, act);
}

/* One call of the case's operation in the layer that is next. */
static void call_op(const struct ops *x, const struct op_case *k, struct contender *c)
{
    struct forward *f = &c->setup->forward;
    const char *name = x->names.name[k->name];
    while (strcmp(f->plan.op[c->at].name, name)) c->at = (c->at + 1) % f->plan.n_ops;
    stepwise_run_one(f->be, f->be->ops, c->steps, c->at);
    c->at = (c->at + 1) % f->plan.n_ops;
}

/* Plain linears, one for each call of a sample, from one buffer to another. */
struct dense_calls {
    struct step_plan plan[MAX_CALLS];
    struct plan_memory memory[MAX_CALLS];
    struct be_plan *compiled[MAX_CALLS];
    struct op op;
    struct buffer buffer[2];
    struct weight weight[MAX_CALLS];
    struct be_linear *packed[MAX_CALLS];
    void *d[2]; /* [max_rows][dim] */
};

static void close_dense(struct forward *f, struct dense_calls *d)
{
    const struct backend *ops = f->be->ops;
    for (int i = 0; i < MAX_CALLS; i++) {
        if (d->compiled[i]) ops->drop_plan(f->be, d->compiled[i]);
        if (d->packed[i]) ops->drop(f->be, d->packed[i]);
    }
    for (int i = 0; i < 2; i++) ops->free(f->be, d->d[i]);
}

static int open_dense(const struct ops *x, const struct op_case *k, struct contender *c,
                      struct dense_calls *d, struct err *e)
{
    struct forward *f = &c->setup->forward;
    const struct backend *ops = f->be->ops;
    size_t row = (size_t)x->m->config.dim * sizeof(float);
    *d = (struct dense_calls){.op = op_of(OP_LINEAR, "dense", -1)};
    d->op.in[0] = 0, d->op.out[0] = 1, d->op.w[0] = 0, d->op.last[0] = OP_KEPT;
    for (int i = 0; i < 2; i++) {
        d->buffer[i] = (struct buffer){"dense", ROWS_STEP, row};
        if (!(d->d[i] = ops->alloc(f->be, (size_t)f->options.max_rows * row))) return err_memory(e);
    }
    for (int i = 0; i < c->calls; i++) {
        int n = dense_linears(x, k->type, &d->weight[i].linear, c->at);
        c->at = (c->at + 1) % n;
        d->plan[i] = (struct step_plan){.op = &d->op,
                                        .n_ops = 1,
                                        .n_body = 1,
                                        .buffer = d->buffer,
                                        .n_buffers = 2,
                                        .weight = &d->weight[i],
                                        .n_weights = 1,
                                        .best = -1,
                                        .logits = -1,
                                        .top = -1};
        d->memory[i] = (struct plan_memory){.buffer = d->d, .linear = &d->packed[i]};
        if (ops->pack(f->be, &d->weight[i].linear, &d->packed[i], e) ||
            ops->compile(f->be, &d->plan[i], &d->memory[i], &d->compiled[i], e))
            return -1;
    }
    return 0;
}

/* c->calls calls; the times of one of them. */
static int sample(const struct ops *x, const struct op_case *k, struct contender *c, double *wall,
                  double *cpu, struct err *e)
{
    struct forward *f = &c->setup->forward;
    const struct backend *ops = f->be->ops;
    struct dense_calls d = {0};
    /* plain linears are packed anew each time, outside the clock */
    int rc = k->name == DENSE ? open_dense(x, k, c, &d, e) : 0;
    if (!rc) rc = ops->sync(f->be, e);
    double w0 = clock_now(), c0 = clock_process();
    for (int i = 0; i < c->calls && !rc; i++) {
        if (k->name == DENSE) ops->run(f->be, d.compiled[i]);
        else call_op(x, k, c);
        rc = ops->sync(f->be, e);
    }
    *wall = (clock_now() - w0) / c->calls;
    *cpu = (clock_process() - c0) / c->calls;
    if (k->name == DENSE) close_dense(f, &d);
    return rc;
}

/* A warm-up call says how many make a sample that can be timed. */
static int warm_up(const struct ops *x, const struct op_case *k, struct contender *c, struct err *e)
{
    double wall, cpu;
    setup_batch(c->setup, &k->s, SETUP_SAMPLED);
    c->setup->forward.be->ops->begin_step(c->setup->forward.be, &c->setup->batch);
    c->n = c->at = 0;
    c->spent = 0;
    c->calls = 1;
    if (sample(x, k, c, &wall, &cpu, e)) return -1;
    if (wall > MOST_SECONDS) { /* counts: another such call would tell no more */
        c->wall[0] = wall, c->cpu[0] = cpu, c->spent = wall;
        c->n = 1;
    }
    double calls = ceil(SAMPLE_SECONDS / wall);
    c->calls = calls < 1 ? 1 : calls > MAX_CALLS ? MAX_CALLS : (int)calls;
    return 0;
}

static const char *type_name(enum dtype type)
{
    return type == DT_F16 ? "f16" : type == DT_BF16 ? "bf16" : "f32";
}

/* "4096->4096+2x1024", and the type of plain weights. */
static void linear_text(const struct step_plan *p, const struct op *op, char *out, size_t n)
{
    const struct linear *first = &p->weight[op->w[0]].linear;
    snprintf(out, n, "%d->", first->in);
    for (int i = 0, same; i < op->n; i += same) {
        int width = p->weight[op->w[i]].linear.out;
        for (same = 1; i + same < op->n && p->weight[op->w[i + same]].linear.out == width; same++) {
        }
        size_t at = strlen(out);
        if (same > 1) snprintf(out + at, n - at, "%s%dx%d", i ? "+" : "", same, width);
        else snprintf(out + at, n - at, "%s%d", i ? "+" : "", width);
    }
    size_t at = strlen(out);
    if (!first->codes) snprintf(out + at, n - at, " %s", type_name(first->weight_type));
}

static void shape_text(const struct ops *x, const struct op_case *k, char *out, size_t n)
{
    const struct step_plan *p = &x->m->plan;
    const struct op *op = k->name == DENSE ? NULL : op_of_case(x, k);
    int dim = x->m->config.dim;
    if (!op) {
        snprintf(out, n, "%d->%d %s", dim, dim, type_name(k->type));
    } else if (op->kind == OP_LINEAR || op->kind == OP_EXPERTS) {
        linear_text(p, op, out, n);
    } else if (op->kind == OP_ATTEND || op->kind == OP_ROPE_STORE) {
        const struct heads *g = op->kind == OP_ATTEND ? &op->as.attend.heads : &op->as.rope.heads;
        char depth[24] = "";
        if (op->kind == OP_ATTEND) snprintf(depth, sizeof depth, " @%d", k->s.depth);
        snprintf(out, n, "%d/%dx%d%s", g->n_heads, g->n_kv_heads, g->head_dim, depth);
    } else {
        int buffer = op->kind == OP_EMBED || op->kind == OP_ANGLES ? op->out[0] : op->in[0];
        snprintf(out, n, "%zu", p->buffer[buffer].row_bytes / sizeof(float));
    }
}

static const char *case_name(const struct ops *x, const struct op_case *k)
{
    return k->name == DENSE ? "dense" : x->names.name[k->name];
}

enum {
    COL_OP,
    COL_SHAPE,
    COL_ROWS,
    COL_CPU,
    COL_ACT,
    COL_KV,
    COL_THREADS,
    COL_US,
    COL_SPREAD,
    COL_CPU_US,
    COL_GBS,
    COL_GOPS,
    COL_SHARE,
    COL_BOUND,
    N_COLUMNS
};

/* Attention over integers depends on the arithmetic. */
static int uses_act(const struct op_case *k, const struct setup_config *g)
{
    return k->by_act || (k->by_kv && kv_is_integer(g->kv));
}

static int write_result(const struct ops *x, const struct op_case *k, struct contender *c,
                        struct out *out, struct err *e)
{
    const struct setup_config *g = &c->setup->config;
    struct cost w = case_cost(x, k, g->act, g->kv);
    struct stats t = stats_of(c->wall, c->n), p = stats_of(c->cpu, c->n);
    const char *act = uses_act(k, g) ? act_formats[g->act].name : "-",
               *kv = k->by_kv ? kv_formats[g->kv].name : "-", *bound = "-";
    /* elementwise operations read and write activations only: that is their rate, but no share of
     * the memory's */
    double must = w.weights + w.kv, bytes = must > w.acts ? must : w.acts,
           products = cost_products(&w, g->act);
    double memory = must / t.median / c->limits->bandwidth,
           fp32 = w.fp32 / t.median / c->limits->fp32, int8 = w.int8 / t.median / c->limits->int8,
           share = 0;
    int linear_or_attend = w.fp32 + w.int8 > 0;
    if (linear_or_attend) {
        share = memory;
        bound = "memory";
        if (fp32 > share) share = fp32, bound = "fp32";
        if (int8 > share) share = int8, bound = "int8";
    }
    char shape[48];
    shape_text(x, k, shape, sizeof shape);
    int rows = k->s.n_seqs * k->s.rows;
    if (!out_is_md(out)) {
        json_t *j = json_pack(
            "{s:s s:s s:s s:i s:i s:s s:s s:s s:s s:i s:f s:f s:f s:i s:f s:f s:f s:f s:s s:f}",
            "cpu_info", x->facts->cpu_info, "op", case_name(x, k), "shape", shape, "n_rows", rows,
            "n_depth", k->s.depth, "backend", x->o->backend, "cpu", g->cpu, "act", act, "type_k",
            kv, "n_threads", g->threads, "median_ns", t.median * 1e9, "min_ns", t.lowest * 1e9,
            "max_ns", t.highest * 1e9, "n_samples", c->n, "bytes", bytes, "ops", products, "gb_s",
            bytes / t.median * 1e-9, "gop_s", products / t.median * 1e-9, "bound", bound, "share",
            share);
        if (x->o->cpu_time) json_object_set_new(j, "median_cpu_ns", json_real(p.median * 1e9));
        return out_record(out, j, e);
    }
    if (out_row(out, e)) return -1;
    out_cell(out, COL_OP, "%s", case_name(x, k));
    out_cell(out, COL_SHAPE, "%s", shape);
    out_cell(out, COL_ROWS, "%d", rows);
    out_cell(out, COL_CPU, "%s", g->cpu);
    out_cell(out, COL_ACT, "%s", act);
    out_cell(out, COL_KV, "%s", kv);
    out_cell(out, COL_THREADS, "%d", g->threads);
    out_cell(out, COL_US, "%.1f", t.median * 1e6);
    out_cell(out, COL_SPREAD, "%.0f%%", 100 * (t.highest - t.lowest) / t.median);
    out_cell(out, COL_CPU_US, "%.1f", p.median * 1e6);
    out_cell(out, COL_GBS, "%.1f", bytes / t.median * 1e-9);
    if (linear_or_attend) {
        out_cell(out, COL_GOPS, "%.1f", products / t.median * 1e-9);
        out_cell(out, COL_SHARE, "%.0f%%", 100 * share);
        out_cell(out, COL_BOUND, "%s", bound);
    }
    return 0;
}

/* A case does not repeat for arithmetics and storages that it does not depend on. */
static int takes_part(const struct ops *x, const struct op_case *k, const struct setup *r)
{
    const struct setup_config *first = &x->setups.setup[0].config;
    return (uses_act(k, &r->config) || r->config.act == first->act) &&
           (k->by_kv || r->config.kv == first->kv);
}

static int run_case(struct ops *x, const struct op_case *k, struct out *out, struct err *e)
{
    int repetitions = x->o->repetitions;
    for (int i = 0; i < x->setups.n; i++)
        if (takes_part(x, k, x->c[i].setup) && warm_up(x, k, &x->c[i], e)) return -1;
    for (int r = 0; r < repetitions; r++)
        for (int i = 0; i < x->setups.n; i++) {
            struct contender *c = &x->c[i];
            if (!takes_part(x, k, c->setup) || (c->n && c->spent > MOST_SECONDS)) continue;
            if (sample(x, k, c, &c->wall[c->n], &c->cpu[c->n], e)) return -1;
            c->spent += c->wall[c->n++] * c->calls;
        }
    for (int i = 0; i < x->setups.n; i++)
        if (takes_part(x, k, x->c[i].setup) && write_result(x, k, &x->c[i], out, e)) return -1;
    return 0;
}

/* Whether the operation has one row of each sequence: a prompt has one. */
static int per_sequence(const struct ops *x, const struct op *op)
{
    return x->m->plan.buffer[op->out[0]].rows != ROWS_STEP;
}

static int is_quantized(const struct ops *x, const struct op *op)
{
    return (op->kind == OP_LINEAR || op->kind == OP_EXPERTS) &&
           x->m->plan.weight[op->w[0]].linear.codes;
}

/* Rows of decode steps, then those of prompts. */
static int run_rows(struct ops *x, int name, enum dtype type, struct out *out, struct err *e)
{
    const struct bench_options *o = x->o;
    struct op_case k = {.name = name, .type = type};
    const struct op *op = name == DENSE ? NULL : op_of_case(x, &k);
    int attends = op && op->kind == OP_ATTEND, prompts = !op || !per_sequence(x, op);
    k.by_act = op && is_quantized(x, op);
    k.by_kv = attends || (op && op->kind == OP_ROPE_STORE);
    for (int i = 0; i < o->parallel.n + (prompts ? o->prompt.n : 0); i++)
        for (int d = 0; d < (attends ? o->depth.n : 1); d++) {
            int decode = i < o->parallel.n;
            k.s = (struct step_shape){decode ? o->parallel.v[i] : 1,
                                      decode ? 1 : o->prompt.v[i - o->parallel.n], o->depth.v[d],
                                      decode};
            if (k.s.rows && run_case(x, &k, out, e)) return -1;
        }
    return 0;
}

/* The model's linears, plain ones of each type, attention, all others. */
static int run_all(struct ops *x, struct out *out, struct err *e)
{
    static const char *const heading[N_COLUMNS] = {
        "operation:", "shape:", "rows",   "cpu:", "act:",  "kv:",   "t",
        "us",         "spread", "cpu us", "GB/s", "GOP/s", "share", "of:"};
    static const enum dtype types[] = {DT_F16, DT_BF16, DT_F32};
    const struct step_plan *p =
        &x->setups.setup[0].forward.plan; /* without what the backend lacks */
    if (out_is_md(out) && out_table(out, N_COLUMNS, heading, e)) return -1;
    for (int pass = 0; pass < 3; pass++) {
        for (size_t t = 0; pass == 1 && t < 3; t++)
            if (run_rows(x, DENSE, types[t], out, e)) return -1;
        for (int i = 0; i < x->names.n; i++) {
            enum op_kind kind = p->op[x->names.first[i]].kind;
            int when = kind == OP_LINEAR ? 0 : kind == OP_ATTEND ? 1 : 2;
            if (when == pass && run_rows(x, i, DT_F32, out, e)) return -1;
        }
    }
    if (!out_is_md(out)) return 0;
    const struct bench_options *o = x->o;
    const int hide[N_COLUMNS] = {
        [COL_KV] = o->kv.n == 1, [COL_THREADS] = o->threads.n == 1, [COL_CPU_US] = !o->cpu_time};
    printf("\n");
    out_print(out, hide);
    return 0;
}

static int prepare(struct ops *x, const struct out *out, struct err *e)
{
    const struct bench_options *o = x->o;
    int dim = x->m->config.dim;
    cost_names_of(&x->setups.setup[0].forward.plan, &x->names);
    size_t n = (size_t)x->setups.n, reps = (size_t)o->repetitions;
    x->c = calloc(n, sizeof *x->c);
    x->limits = calloc(n, sizeof *x->limits);
    x->dense_bytes = 4 * probe_cache_bytes();
    if (x->dense_bytes < (size_t)dim * (size_t)dim * sizeof(float))
        x->dense_bytes = (size_t)dim * (size_t)dim * sizeof(float);
    x->dense = aligned_alloc(MF_ALIGN, (x->dense_bytes + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN);
    if (!x->c || !x->limits || !x->dense) return err_memory(e);
    memset(x->dense, 0x2c, x->dense_bytes); /* small and finite in each type */
    if (out_is_md(out)) printf("%s; %s\n", x->facts->model_type, x->facts->cpu_info);
    for (int i = 0; i < x->setups.n; i++) {
        const struct setup_config *g = &x->setups.setup[i].config;
        struct probe_limits *l = &x->limits[i];
        x->c[i] = (struct contender){.setup = &x->setups.setup[i],
                                     .limits = l,
                                     .wall = malloc(reps * sizeof(double)),
                                     .cpu = malloc(reps * sizeof(double))};
        if (!x->c[i].wall || !x->c[i].cpu) return err_memory(e);
        struct forward *f = &x->c[i].setup->forward;
        if (stepwise_compile(f->be, f->be->ops, NULL, &f->plan, &f->memory, &x->c[i].steps, e))
            return -1;
        for (int k = 0; k < i; k++)
            if (x->limits[k].variant == g->cpu && x->limits[k].n_threads == g->threads)
                *l = x->limits[k];
        if (l->variant) continue;
        for (int k = 0; k < i; k++)
            if (x->limits[k].n_threads == g->threads) l->bandwidth = x->limits[k].bandwidth;
        if (setup_limits(&x->setups.setup[i], l, e)) return -1;
        if (out_is_md(out)) setup_print_limits(&x->setups.setup[i], l);
    }
    return 0;
}

static int largest(const struct args_ints *l, int least)
{
    for (int i = 0; i < l->n; i++) least = l->v[i] > least ? l->v[i] : least;
    return least;
}

int bench_ops(const struct bench_options *o, const struct model *m, const struct bench_facts *facts,
              struct out *out, struct err *e)
{
    struct ops x = {.o = o, .facts = facts, .m = m};
    int depth = largest(&o->depth, 0), prompt = largest(&o->prompt, 0),
        parallel = largest(&o->parallel, 1);
    if (prompt > o->n_batch)
        return err_set(e, "--ops: -p %d is more than the %d rows of one step (-b)", prompt,
                       o->n_batch);
    x.size = (struct setup_size){prompt > parallel ? prompt : parallel, parallel,
                                 setup_pages(1, depth + prompt),
                                 setup_pages(1, depth + (prompt > 1 ? prompt : 1)), 0};
    if (setup_pages(parallel, depth + 1) > x.size.n_pages)
        x.size.n_pages = setup_pages(parallel, depth + 1);
    int rc = setups_open(&x.setups, m, o, &x.size, e) || prepare(&x, out, e) || run_all(&x, out, e)
                 ? -1
                 : 0;
    for (int i = 0; x.c && i < x.setups.n; i++) {
        struct forward *f = x.c[i].setup ? &x.c[i].setup->forward : NULL;
        if (f) stepwise_drop(f->be, f->be->ops, x.c[i].steps);
        free(x.c[i].wall);
        free(x.c[i].cpu);
    }
    free(x.c);
    free(x.limits);
    free(x.dense);
    setups_close(&x.setups);
    return rc;
}
