/* ops.c: every operation alone, on every rung, at the shapes of the model. Calls walk through the
 * layers, so that the weights come from memory as they do in a step. The repetitions of all rungs
 * take turns. */
#include "bench/bench.h"
#include "bench/probe.h"
#include "bench/rig.h"
#include "bench/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 64 };
/* of one sample; of all samples of one rung and case */
static const double SAMPLE_SECONDS = 0.002, MOST_SECONDS = 1;

/* An operation at one size. DENSE stands for a plain linear of the type `type`. */
enum { DENSE = OP_COUNT };

struct op_case {
    int op;
    struct step_shape s;
    enum dtype type;
    int by_act, by_kv; /* depends on the arithmetic, on the storage of keys and values */
};

/* One configuration in one case. */
struct contender {
    struct rig *rig;
    const struct probe_limits *limits;
    int calls, layer, n;
    double spent, *wall, *cpu; /* [repetitions] seconds of one call */
};

struct ops {
    const struct bench_options *o;
    const struct bench_facts *facts;
    const struct model *m;
    struct rigs rigs;
    struct rig_size size;
    struct contender *c;         /* [rigs.n] */
    struct probe_limits *limits; /* [rigs.n], equal ones repeated */
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

static struct work case_work(const struct ops *x, const struct op_case *k, enum act act,
                             enum kv_type kv)
{
    int rows = k->s.n_seqs * k->s.rows;
    struct linear w;
    if (k->op != DENSE) return work_call(x->m, (enum op)k->op, 0, &k->s, act, kv);
    dense_linears(x, k->type, &w, 0);
    return work_linear(&w, rows, act);
}

/* One call on the weights of c->layer. The plain linear is packed anew each time, outside the
 * clock: see call_dense. */
static void call_op(const struct ops *x, const struct op_case *k, struct contender *c)
{
    struct forward *f = &c->rig->forward;
    const struct backend *ops = f->be->ops;
    const struct batch *b = &c->rig->batch;
    const struct model_config *g = &x->m->config;
    struct forward_layer *l = &f->layers[c->layer];
    int rows = b->n_rows, n_decode = b->n_decode;
#define LINEAR(n, from, to, ...)                                                                   \
    ops->linear(f->be, n, (const struct be_linear *const *)&l->linear[from], to,                   \
                (float *const[]){__VA_ARGS__}, rows, n_decode)
    switch (k->op) {
    case OP_EMBED: ops->embed(f->be, f->embed, NULL, f->d_x); break;
    case OP_NORM:
        ops->norm(f->be, f->d_x, f->d_delta, l->d_input_norm, g->norm_eps, f->d_h, rows, g->dim);
        break;
    case OP_QKV: LINEAR(3, LIN_Q, f->d_h, f->d_q, f->d_k, f->d_v); break;
    case OP_O: LINEAR(1, LIN_O, f->d_a, f->d_delta); break;
    case OP_GATE_UP: LINEAR(2, LIN_GATE, f->d_h, f->d_gate, f->d_up); break;
    case OP_DOWN: LINEAR(1, LIN_DOWN, f->d_gate, f->d_delta); break;
    case OP_ROPE:
        ops->rope_store(f->be, &(struct rope_args){.d_q = f->d_q,
                                                   .d_k = f->d_k,
                                                   .d_v = f->d_v,
                                                   .d_q_norm = l->d_q_norm,
                                                   .d_k_norm = l->d_k_norm,
                                                   .eps = g->norm_eps,
                                                   .d_kv = l->d_kv});
        break;
    case OP_ATTEND:
        ops->attend(f->be, &(struct attend_args){.d_q = f->d_q,
                                                 .d_kv = l->d_kv,
                                                 .d_out = f->d_a,
                                                 .window = g->windows[c->layer],
                                                 .scale = 1 / sqrtf((float)g->head_dim)});
        break;
    case OP_GLU: ops->glu(f->be, f->d_gate, f->d_up, (size_t)rows * (size_t)g->ffn); break;
    case OP_GATHER: ops->gather(f->be, f->d_h, f->d_last, g->dim); break;
    case OP_HEAD:
        ops->linear(f->be, 1, (const struct be_linear *const[]){f->head}, f->d_last,
                    (float *const[]){f->d_logits}, b->n_logits, b->n_decode_logits);
        break;
    case OP_ARGMAX: ops->argmax(f->be, f->d_logits, f->d_best, b->n_logits, g->vocab); break;
    case OP_TOP: ops->top(f->be, f->d_logits, f->d_top, g->vocab); break;
    default: CHECK(!"an operation");
    }
#undef LINEAR
    c->layer = (c->layer + 1) % g->n_layers;
}

/* c->calls calls; the times of one of them. */
static int sample(const struct ops *x, const struct op_case *k, struct contender *c, double *wall,
                  double *cpu, struct err *e)
{
    struct forward *f = &c->rig->forward;
    const struct backend *ops = f->be->ops;
    const struct batch *b = &c->rig->batch;
    struct be_linear *packed[MAX_CALLS] = {0};
    int rc = 0;
    for (int i = 0; k->op == DENSE && i < c->calls && !rc; i++) {
        struct linear w;
        int n = dense_linears(x, k->type, &w, c->layer);
        c->layer = (c->layer + 1) % n;
        rc = ops->pack(f->be, &w, &packed[i], e);
    }
    double w0 = stats_wall(), c0 = stats_cpu();
    for (int i = 0; i < c->calls && !rc; i++) {
        if (k->op == DENSE)
            ops->linear(f->be, 1, (const struct be_linear *const *)&packed[i], f->d_h,
                        (float *const[]){f->d_delta}, b->n_rows, b->n_decode);
        else call_op(x, k, c);
        rc = ops->sync(f->be, e);
    }
    *wall = (stats_wall() - w0) / c->calls;
    *cpu = (stats_cpu() - c0) / c->calls;
    for (int i = 0; i < MAX_CALLS; i++)
        if (packed[i]) ops->drop(f->be, packed[i]);
    return rc;
}

/* A warm-up call says how many make a sample that can be timed. */
static int warm_up(const struct ops *x, const struct op_case *k, struct contender *c, struct err *e)
{
    double wall, cpu;
    rig_batch(c->rig, &k->s, RIG_SAMPLED);
    c->rig->forward.be->ops->begin_step(c->rig->forward.be, &c->rig->batch);
    c->n = c->layer = 0;
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

static void shape_text(const struct ops *x, const struct op_case *k, char *out, size_t n)
{
    const struct model_config *g = &x->m->config;
    const struct linear *l = x->m->layers[0].linear;
    static const char *const type[DT_COUNT] = {
        [DT_F16] = "f16", [DT_BF16] = "bf16", [DT_F32] = "f32"};
    switch (k->op) {
    case OP_QKV: snprintf(out, n, "%d->%d+2x%d", g->dim, l[LIN_Q].out, l[LIN_K].out); break;
    case OP_O: snprintf(out, n, "%d->%d", l[LIN_O].in, g->dim); break;
    case OP_GATE_UP: snprintf(out, n, "%d->2x%d", g->dim, g->ffn); break;
    case OP_DOWN: snprintf(out, n, "%d->%d", g->ffn, g->dim); break;
    case OP_HEAD:
        snprintf(out, n, "%d->%d %s", g->dim, g->vocab,
                 x->m->head.codes ? "q4" : type[x->m->head.weight_type]);
        break;
    case DENSE: snprintf(out, n, "%d->%d %s", g->dim, g->dim, type[k->type]); break;
    case OP_ATTEND:
        snprintf(out, n, "%d/%dx%d @%d", g->n_heads, g->n_kv_heads, g->head_dim, k->s.depth);
        break;
    case OP_ROPE: snprintf(out, n, "%d/%dx%d", g->n_heads, g->n_kv_heads, g->head_dim); break;
    case OP_GLU: snprintf(out, n, "%d", g->ffn); break;
    case OP_TOP:
    case OP_ARGMAX: snprintf(out, n, "%d", g->vocab); break;
    default: snprintf(out, n, "%d", g->dim);
    }
}

static const char *case_name(const struct op_case *k)
{
    return k->op == DENSE ? "dense" : op_name[k->op];
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

static int write_result(const struct ops *x, const struct op_case *k, struct contender *c,
                        struct out *out, struct err *e)
{
    const struct rig_config *g = &c->rig->config;
    struct work w = case_work(x, k, g->act, g->kv);
    struct stats t = stats_of(c->wall, c->n), p = stats_of(c->cpu, c->n);
    const char *act = k->by_act ? act_name[g->act] : "-", *kv = k->by_kv ? kv_name[g->kv] : "-",
               *bound = "-";
    /* elementwise operations read and write activations only: that is their rate, but no share of
     * the memory's */
    double must = w.weights + w.kv, bytes = must > w.acts ? must : w.acts,
           products = work_products(&w, g->act);
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
            "cpu_info", x->facts->cpu_info, "op", case_name(k), "shape", shape, "n_rows", rows,
            "n_depth", k->s.depth, "backend", x->o->backend, "cpu", g->cpu, "act", act, "type_k",
            kv, "n_threads", g->threads, "median_ns", t.median * 1e9, "min_ns", t.lowest * 1e9,
            "max_ns", t.highest * 1e9, "n_samples", c->n, "bytes", bytes, "ops", products, "gb_s",
            bytes / t.median * 1e-9, "gop_s", products / t.median * 1e-9, "bound", bound, "share",
            share);
        if (x->o->cpu_time) json_object_set_new(j, "median_cpu_ns", json_real(p.median * 1e9));
        return out_record(out, j, e);
    }
    if (out_row(out, e)) return -1;
    out_cell(out, COL_OP, "%s", case_name(k));
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
static int takes_part(const struct ops *x, const struct op_case *k, const struct rig *r)
{
    const struct rig_config *first = &x->rigs.rig[0].config;
    return (k->by_act || r->config.act == first->act) && (k->by_kv || r->config.kv == first->kv);
}

static int run_case(struct ops *x, const struct op_case *k, struct out *out, struct err *e)
{
    int repetitions = x->o->repetitions;
    for (int i = 0; i < x->rigs.n; i++)
        if (takes_part(x, k, x->c[i].rig) && warm_up(x, k, &x->c[i], e)) return -1;
    for (int r = 0; r < repetitions; r++)
        for (int i = 0; i < x->rigs.n; i++) {
            struct contender *c = &x->c[i];
            if (!takes_part(x, k, c->rig) || (c->n && c->spent > MOST_SECONDS)) continue;
            if (sample(x, k, c, &c->wall[c->n], &c->cpu[c->n], e)) return -1;
            c->spent += c->wall[c->n++] * c->calls;
        }
    for (int i = 0; i < x->rigs.n; i++)
        if (takes_part(x, k, x->c[i].rig) && write_result(x, k, &x->c[i], out, e)) return -1;
    return 0;
}

/* Rows of decode steps, then those of prompts. */
static int run_rows(struct ops *x, int op, enum dtype type, struct out *out, struct err *e)
{
    const struct bench_options *o = x->o;
    int quantized = op >= OP_QKV && op != OP_ROPE && op != OP_ATTEND && op <= OP_DOWN &&
                    op != OP_GLU;
    int per_sequence = op == OP_HEAD || op == OP_GATHER || op == OP_ARGMAX ||
                       op == OP_TOP; /* one row of each sequence: a prompt has one */
    for (int i = 0; i < o->parallel.n + (per_sequence ? 0 : o->prompt.n); i++)
        for (int d = 0; d < (op == OP_ATTEND ? o->depth.n : 1); d++) {
            int decode = i < o->parallel.n;
            struct op_case k = {op,
                                {decode ? o->parallel.v[i] : 1,
                                 decode ? 1 : o->prompt.v[i - o->parallel.n], o->depth.v[d],
                                 decode},
                                type,
                                quantized || (op == OP_HEAD && x->m->head.codes),
                                op == OP_ROPE || op == OP_ATTEND};
            if (k.s.rows && run_case(x, &k, out, e)) return -1;
        }
    return 0;
}

static int run_all(struct ops *x, struct out *out, struct err *e)
{
    static const char *const heading[N_COLUMNS] = {
        "operation:", "shape:", "rows",   "cpu:", "act:",  "kv:",   "t",
        "us",         "spread", "cpu us", "GB/s", "GOP/s", "share", "of:"};
    static const int order[] = {OP_QKV,    OP_O,      OP_GATE_UP, OP_DOWN, OP_HEAD,
                                OP_ATTEND, OP_EMBED,  OP_NORM,    OP_ROPE, OP_GLU,
                                OP_GATHER, OP_ARGMAX, OP_TOP};
    static const enum dtype types[] = {DT_F16, DT_BF16, DT_F32};
    if (out_is_md(out) && out_table(out, N_COLUMNS, heading, e)) return -1;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (order[i] == OP_TOP && !x->rigs.rig[0].forward.top) continue;
        for (size_t t = 0; order[i] == OP_ATTEND && t < 3; t++) /* after the model's own linears */
            if (run_rows(x, DENSE, types[t], out, e)) return -1;
        if (run_rows(x, order[i], DT_F32, out, e)) return -1;
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
    size_t n = (size_t)x->rigs.n, reps = (size_t)o->repetitions;
    x->c = calloc(n, sizeof *x->c);
    x->limits = calloc(n, sizeof *x->limits);
    x->dense_bytes = 4 * probe_cache_bytes();
    if (x->dense_bytes < (size_t)dim * (size_t)dim * sizeof(float))
        x->dense_bytes = (size_t)dim * (size_t)dim * sizeof(float);
    x->dense = aligned_alloc(MF_ALIGN, (x->dense_bytes + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN);
    if (!x->c || !x->limits || !x->dense) return err_memory(e);
    memset(x->dense, 0x2c, x->dense_bytes); /* small and finite in each type */
    if (out_is_md(out)) printf("%s; %s\n", x->facts->model_type, x->facts->cpu_info);
    for (int i = 0; i < x->rigs.n; i++) {
        const struct rig_config *g = &x->rigs.rig[i].config;
        struct probe_limits *l = &x->limits[i];
        x->c[i] = (struct contender){.rig = &x->rigs.rig[i],
                                     .limits = l,
                                     .wall = malloc(reps * sizeof(double)),
                                     .cpu = malloc(reps * sizeof(double))};
        if (!x->c[i].wall || !x->c[i].cpu) return err_memory(e);
        for (int k = 0; k < i; k++)
            if (x->limits[k].rung == g->cpu && x->limits[k].n_threads == g->threads)
                *l = x->limits[k];
        if (l->rung) continue;
        for (int k = 0; k < i; k++)
            if (x->limits[k].n_threads == g->threads) l->bandwidth = x->limits[k].bandwidth;
        if (rig_limits(&x->rigs.rig[i], l, e)) return -1;
        if (out_is_md(out)) rig_print_limits(&x->rigs.rig[i], l);
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
    x.size = (struct rig_size){prompt > parallel ? prompt : parallel, parallel,
                               rig_pages(1, depth + prompt)};
    if (rig_pages(parallel, depth + 1) > x.size.n_pages)
        x.size.n_pages = rig_pages(parallel, depth + 1);
    int rc = rigs_open(&x.rigs, m, o, &x.size, e) || prepare(&x, out, e) || run_all(&x, out, e) ? -1
                                                                                                : 0;
    for (int i = 0; x.c && i < x.rigs.n; i++) free(x.c[i].wall), free(x.c[i].cpu);
    free(x.c);
    free(x.limits);
    free(x.dense);
    rigs_close(&x.rigs);
    return rc;
}
